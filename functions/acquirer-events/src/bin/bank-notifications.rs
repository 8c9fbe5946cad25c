use std::process::ExitCode;

use acquirer_events::bank::{BankNotifications, router};
use lambda_http::Error;

#[global_allocator]
static ALLOCATOR: shared::Allocator = shared::Allocator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    shared::log::run(serve()).await
}

async fn serve() -> Result<(), Error> {
    lambda_http::run(router(BankNotifications::from_env()?)).await
}
