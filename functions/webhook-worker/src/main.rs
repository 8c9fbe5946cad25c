//! Entry point of the Lambda function. The logic is in the library.

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use shared::clock::Clock;
use shared::store::Aws;
use webhook_worker::worker::Worker;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let worker = &Worker::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        Ok::<_, Error>(worker.handle(event.payload).await)
    }))
    .await
}
