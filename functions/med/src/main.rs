//! The entry point of the Lambda function.

use med::Med;

shared::http_main!(|aws, clock, var| med::router(Med::from_vars(aws, clock, var)?));
