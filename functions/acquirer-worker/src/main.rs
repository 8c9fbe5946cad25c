//! The entry point of the Lambda function: builds the worker and runs it.

use acquirer_worker::AcquirerWorker;
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use shared::clock::Clock;
use shared::store::Aws;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let worker = &AcquirerWorker::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        Ok::<_, Error>(worker.handle(event.payload).await)
    }))
    .await
}
