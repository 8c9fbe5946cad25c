//! The entry point of the Lambda function.

use acquirer_events::bank::{BankNotifications, router};

shared::http_main!(|aws, clock, var| router(BankNotifications::from_vars(aws, clock, var)?));
