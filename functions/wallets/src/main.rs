//! The entry point of the Lambda function: builds the routes and serves them.

use lambda_http::Error;
use shared::app::App;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    lambda_http::run(wallets::router(App::from_env()?)).await
}
