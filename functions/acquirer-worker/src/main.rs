//! The entry point of the Lambda function: builds the worker and runs it.

use std::process::ExitCode;

use acquirer_worker::AcquirerWorker;
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use shared::clock::Clock;
use shared::log::in_invocation;
use shared::store::Aws;

#[global_allocator]
static ALLOCATOR: shared::Allocator = shared::Allocator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    shared::log::run(serve()).await
}

async fn serve() -> Result<(), Error> {
    let var = |name: &str| std::env::var(name).ok();
    let worker = &AcquirerWorker::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        Ok::<_, Error>(in_invocation(&event.context, worker.handle(event.payload)).await)
    }))
    .await
}
