//! The entry point of the Lambda function: builds the mailer and runs it.

use std::process::ExitCode;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use mailer::Mailer;
use mailer::sender::Sender;
use mailer::ses::Ses;
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
    let aws = Aws::from_vars(&var)?;
    let sender = Sender::Ses(Ses::from_vars(&aws, &var));
    let mailer = &Mailer::from_vars(&aws, Clock::default(), sender, &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsEvent>| async move {
        Ok::<_, Error>(in_invocation(&event.context, mailer.handle(event.payload)).await)
    }))
    .await
}
