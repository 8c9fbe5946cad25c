//! Entry point of the Lambda function. The logic is in the library.

use lambda_http::Error;
use shared::app::App;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    lambda_http::run(webhooks::router(App::from_env()?)).await
}
