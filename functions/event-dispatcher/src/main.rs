use event_dispatcher::Dispatcher;
use serde_json::Value;

shared::event_main!(|aws, clock, var| Dispatcher::from_vars(aws, clock, var)?, |dispatcher, event: Value| {
    dispatcher.handle(event).await?
},);
