use std::process::ExitCode;

use lambda_http::Error;
use shared::app::App;

#[global_allocator]
static ALLOCATOR: shared::Allocator = shared::Allocator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    shared::log::run(serve()).await
}

async fn serve() -> Result<(), Error> {
    lambda_http::run(acquirer_events::router(App::from_env()?)).await
}
