//! The entry point of the Lambda function.

use webhooks::Webhooks;

shared::http_main!(|aws, clock, var| webhooks::router(Webhooks::from_vars(aws, clock, var)?));
