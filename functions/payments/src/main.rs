shared::http_main!(|aws, clock, var| payments::router(payments::app(aws, clock, var)?));
