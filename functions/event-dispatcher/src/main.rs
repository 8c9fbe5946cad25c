//! Entry point of the Lambda function. The logic is in the library.

use aws_lambda_events::dynamodb::Event;
use event_dispatcher::Dispatcher;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use shared::clock::Clock;
use shared::store::Aws;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let dispatcher = &Dispatcher::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<Event>| async move {
        Ok::<_, Error>(dispatcher.handle(event.payload).await)
    }))
    .await
}
