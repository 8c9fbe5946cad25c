shared::http_main!(|aws, clock, var| charges::router(charges::app(aws, clock, var)?));
