shared::http_main!(|aws, clock, var| dashboard::router(dashboard::app(aws, clock, var)?));
