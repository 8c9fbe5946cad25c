//! The entry point of the Lambda function.

use services::app::App;

shared::http_main!(|aws, clock, var| payments::router(App::from_vars(aws, clock, var)?));
