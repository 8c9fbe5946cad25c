//! The entry point of the Lambda function: builds the scheduler and runs it at each invocation.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use scheduler::Scheduler;
use serde_json::Value;
use shared::clock::Clock;
use shared::store::Aws;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    shared::log::start();
    let var = |name: &str| std::env::var(name).ok();
    let scheduler = &Scheduler::from_vars(&Aws::from_vars(&var)?, Clock::default(), &var)?;
    lambda_runtime::run(service_fn(|_tick: LambdaEvent<Value>| async move {
        let processed = scheduler.run().await?;
        Ok::<_, Error>(serde_json::json!({ "moved": processed }))
    }))
    .await
}
