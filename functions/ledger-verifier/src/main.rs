//! The entry point of the Lambda function: builds the verifier and runs it at each invocation.

use std::process::ExitCode;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use ledger_verifier::LedgerVerifier;
use serde_json::Value;
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
    let verifier = &LedgerVerifier::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|event: LambdaEvent<Value>| async move {
        Ok::<_, Error>(in_invocation(&event.context, Box::pin(verifier.run())).await?)
    }))
    .await
}
