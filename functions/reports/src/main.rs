shared::http_main!(|aws, clock, var| reports::router(reports::app(aws, clock, var)?));
