//! The entry point of the Lambda function for banks' notifications: builds the routes and serves them.

use acquirer_events::bank::{BankNotifications, router};
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    lambda_http::run(router(BankNotifications::from_env()?)).await
}
