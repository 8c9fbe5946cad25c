//! The entry point of the Lambda function.

use scheduler::Scheduler;
use serde_json::Value;

shared::event_main!(|aws, clock, var| Scheduler::from_vars(aws, clock, var)?, |scheduler, event: Value| {
    scheduler.handle(&event).await?
},);
