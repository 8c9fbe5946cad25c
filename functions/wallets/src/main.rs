shared::http_main!(|aws, clock, var| wallets::router(wallets::app(aws, clock, var)?));
