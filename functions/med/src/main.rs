shared::http_main!(|aws, clock, var| med::router(med::app(aws, clock, var)?));
