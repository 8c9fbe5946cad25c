shared::http_main!(|aws, clock, var| webhooks::router(webhooks::app(aws, clock, var)?));
