use api_keys::ApiKeysApp;

shared::http_main!(|aws, clock, var| api_keys::router(ApiKeysApp::from_vars(aws, clock, var)?));
