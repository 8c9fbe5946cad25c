use checkout::Checkout;

shared::http_main!(|aws, clock, var| checkout::router(Checkout::from_vars(aws, clock, var)?));
