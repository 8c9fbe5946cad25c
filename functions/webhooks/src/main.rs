//! Entry point of the Lambda function. The logic is in the library.

use std::process::ExitCode;

use lambda_http::Error;
use shared::clock::Clock;
use shared::store::Aws;
use webhooks::Webhooks;

#[global_allocator]
static ALLOCATOR: shared::Allocator = shared::Allocator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    shared::log::run(serve()).await
}

async fn serve() -> Result<(), Error> {
    let var = |name: &str| std::env::var(name).ok();
    let webhooks = Webhooks::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_http::run(webhooks::router(webhooks)).await
}
