//! Tests that every route refuses unknown query parameters (contract: filters are never silently ignored).

use axum::http::Method;

use crate::support::Service;

/// One route for each handler. The ids do not exist, because parameters are checked before anything is read.
pub(crate) const KEYED_ROUTES: [(Method, &str); 50] = [
    (Method::POST, "/v1/charges"),
    (Method::GET, "/v1/charges"),
    (Method::POST, "/v1/pix/charges"),
    (Method::GET, "/v1/charges/x"),
    (Method::POST, "/v1/payments"),
    (Method::GET, "/v1/payments"),
    (Method::GET, "/v1/payments/stats"),
    (Method::GET, "/v1/payments/metrics"),
    (Method::GET, "/v1/payments/x"),
    (Method::POST, "/v1/payments/x/cancel"),
    (Method::GET, "/v1/payments/x/provider-status"),
    (Method::GET, "/v1/payments/x/receipt"),
    (Method::POST, "/v1/payments/x/refund"),
    (Method::GET, "/v1/payments/x/refunds"),
    (Method::POST, "/v1/payments/x/resend-webhook"),
    (Method::GET, "/v1/wallets"),
    (Method::GET, "/v1/wallets/balance"),
    (Method::GET, "/v1/wallets/transactions"),
    (Method::POST, "/v1/webhooks/endpoints"),
    (Method::GET, "/v1/webhooks/endpoints"),
    (Method::GET, "/v1/webhooks/endpoints/x"),
    (Method::PATCH, "/v1/webhooks/endpoints/x"),
    (Method::DELETE, "/v1/webhooks/endpoints/x"),
    (Method::POST, "/v1/webhooks/endpoints/x/rotate-secret"),
    (Method::POST, "/v1/webhooks/endpoints/x/test"),
    (Method::POST, "/v1/webhooks/override-secret/rotate"),
    (Method::GET, "/v1/webhooks/deliveries"),
    (Method::GET, "/v1/webhooks/deliveries/x"),
    (Method::POST, "/v1/webhooks/deliveries/x/resend"),
    (Method::GET, "/v1/webhooks/stats"),
    (Method::GET, "/v1/events"),
    (Method::GET, "/v1/events/x"),
    (Method::GET, "/v1/med/cases"),
    (Method::GET, "/v1/med/cases/x"),
    (Method::POST, "/v1/med/cases/x/appeal"),
    (Method::POST, "/v1/med/cases/x/accept"),
    (Method::GET, "/v1/infractions/x/evidence"),
    (Method::POST, "/v1/med/cases/x/evidence"),
    (Method::POST, "/v1/med/cases/x/evidence/y/complete"),
    (Method::POST, "/v1/sandbox/charges/x/pay"),
    (Method::POST, "/v1/sandbox/charges/x/fail"),
    (Method::POST, "/v1/sandbox/charges/x/expire"),
    (Method::POST, "/v1/sandbox/charges/x/review"),
    (Method::POST, "/v1/sandbox/charges/x/med-cases"),
    (Method::POST, "/v1/sandbox/med/cases/x/request-evidence"),
    (Method::POST, "/v1/sandbox/med/cases/x/resolve"),
    (Method::POST, "/v1/sandbox/refunds/x/resolve"),
    (Method::GET, "/v1/infractions"),
    (Method::GET, "/v1/infractions/x"),
    (Method::POST, "/v1/infractions/x/appeal"),
];

#[tokio::test]
async fn every_route_refuses_an_unknown_query_parameter() {
    let service = Service::start().await;
    let key = service.key();
    let seed = &service.stack.seed;
    let token = format!("Bearer {}", seed.owner_token(&seed.first, service.stack.clock.now()).unwrap());
    let keyed = KEYED_ROUTES.iter().map(|(method, path)| (method.clone(), *path, ("apikey", key.as_str())));
    let dashboard = [
        (Method::GET, "/v1/api-keys"),
        (Method::POST, "/v1/api-keys"),
        (Method::POST, "/v1/api-keys/x/rotate"),
        (Method::DELETE, "/v1/api-keys/x"),
        (Method::POST, "/v1/auth/logout"),
        (Method::POST, "/v1/auth/login"),
        (Method::GET, "/v1/webhooks/event-catalog"),
        (Method::GET, "/v1/openapi.json"),
    ];
    let dashboard =
        dashboard.into_iter().map(|(method, path)| (method, path, ("authorization", token.as_str())));
    for (method, path, credential) in keyed.chain(dashboard) {
        let path = format!("{path}?nothing=1");
        let answer = service.raw(method.clone(), &path, &[credential], "").await;
        assert_eq!((answer.problem().0, answer.params()), (400, vec!["nothing"]), "{method} {path}");
    }
    // Without a key, the response does not reveal that the parameter is unknown.
    let answer = service.raw(Method::GET, "/v1/wallets?nothing=1", &[], "").await;
    assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"));
    assert_eq!(service.get("/v1/payments/x/refunds?limit=1").await.params(), ["limit"]);
}
