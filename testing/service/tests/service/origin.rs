//! Tests of functions behind a CDN: they refuse requests that did not pass it, and take the client's address
//! from it.

use std::collections::BTreeMap;

use axum::http::Method;
use local::stack::Options;
use serde_json::json;
use shared::audit;

use crate::invocations::dispatch;
use crate::support::{Service, id};

const CURRENT: &str = "current-0123456789abcdef0123456789abcdef";
const PREVIOUS: &str = "previous-0123456789abcdef0123456789abcdef";

async fn service_behind_cdn() -> Service {
    let parameters = BTreeMap::from([("OriginSecrets".to_owned(), format!("{CURRENT},{PREVIOUS}"))]);
    Service::start_with(Options { event_sources: false, parameters, ..Options::in_memory() }).await
}

#[tokio::test]
async fn every_route_of_the_api_refuses_a_request_that_did_not_pass_the_cdn() {
    let service = service_behind_cdn().await;
    let key = service.key();
    let paths = [
        "/v1/charges",
        "/v1/payments",
        "/v1/wallets",
        "/v1/webhooks/event-catalog",
        "/v1/events",
        "/v1/med/cases",
        "/v1/api-keys",
        "/v1/auth/login",
        "/v1/sandbox/charges/x/pay",
        "/checkout/x",
        "/docs",
        "/v1/openapi.json",
        "/checkout/x/card",
        "/checkout/x/simulate",
        "/health",
        "//",
    ];
    for path in paths {
        for headers in [vec![], vec![("x-origin-secret", "")], vec![("x-origin-secret", "wrong")]] {
            let headers = [headers, vec![("apikey", key.as_str())]].concat();
            let refused = service.raw(Method::GET, path, &headers, "").await;
            assert_eq!(refused.problem(), (403, "permission_error", "cdn_required"), "{path}");
        }
        for secret in [CURRENT, PREVIOUS] {
            let headers = [("apikey", key.as_str()), ("x-origin-secret", secret)];
            let answer = service.raw(Method::GET, path, &headers, "").await;
            assert_ne!(answer.status.as_u16(), 403, "{path}");
        }
    }
    let notification = "/v1/acquirer-events/acc_00000000-0000-0000-0000-000000000000/token";
    let answer = service.raw(Method::POST, notification, &[], "{}").await;
    assert_eq!(answer.status.as_u16(), 401, "banks connect to a host without a CDN");
}

#[tokio::test]
async fn the_audit_has_the_address_that_the_cdn_reports() {
    let service = service_behind_cdn().await;
    let key = service.key();
    let headers = [
        ("apikey", key.as_str()),
        ("content-type", "application/json"),
        ("x-origin-secret", PREVIOUS),
        ("x-viewer-address", "203.0.113.9"),
    ];
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "k"}).to_string();
    let payment = service.raw(Method::POST, "/v1/payments", &headers, body).await.expect(201);
    let path = format!("/v1/payments/{}/cancel", id(&payment));
    service.raw(Method::POST, &path, &headers, "{}").await.expect(200);
    dispatch(&service.stack).await;
    let (rows, _) = audit::page(&service.store(), &service.scope().account, None).await.unwrap();
    assert_eq!((rows.len(), json!(rows[0].source)), (1, json!("203.0.113.9")));
}
