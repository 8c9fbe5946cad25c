//! The entry point of the Lambda function.

shared::http_main!(|aws, clock, var| acquirer_events::router(acquirer_events::app(aws, clock, var)?));
