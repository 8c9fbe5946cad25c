//! The entry point of the Lambda function: builds the routes and serves them.

use std::process::ExitCode;

use checkout::Checkout;
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
    let checkout = Checkout::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_http::run(checkout::router(checkout)).await
}
