//! The entry point of the Lambda function.

use dashboard::Pages;

shared::http_main!(|aws, clock, var| dashboard::router(Pages::from_vars(aws, clock, var)?));
