//! The entry point of the Lambda function: creates the state from the environment and serves the routes.

use std::process::ExitCode;

use api_keys::ApiKeysApp;
use lambda_http::Error;
use shared::clock::Clock;
use shared::store::Aws;

#[global_allocator]
static ALLOCATOR: shared::Allocator = shared::Allocator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    shared::log::run(serve()).await
}

async fn serve() -> Result<(), Error> {
    let var = |name: &str| std::env::var(name).ok();
    let app = ApiKeysApp::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_http::run(api_keys::router(app)).await
}
