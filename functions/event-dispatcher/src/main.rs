//! The entry point of the Lambda function.

use aws_lambda_events::dynamodb::Event;
use event_dispatcher::Dispatcher;

shared::event_main!(|aws, clock, var| Dispatcher::from_vars(aws, clock, var)?, |dispatcher, event: Event| {
    dispatcher.handle(event).await
},);
