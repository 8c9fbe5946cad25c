//! The entry point of the Lambda function.

use services::app::App;

shared::http_main!(|aws, clock, var| acquirer_events::router(App::from_vars(aws, clock, var)?));
