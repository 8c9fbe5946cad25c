//! The Lambda's entry: wires and does nothing else.

use api_keys::ApiKeysApp;
use lambda_http::Error;
use shared::clock::Clock;
use shared::store::Aws;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let desk = ApiKeysApp::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_http::run(api_keys::router(desk)).await
}
