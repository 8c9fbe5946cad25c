//! The entry point of the Lambda function: builds the routes and serves them.

use checkout::Checkout;
use lambda_http::Error;
use shared::clock::Clock;
use shared::store::Aws;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let checkout = Checkout::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_http::run(checkout::router(checkout)).await
}
