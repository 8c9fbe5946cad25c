//! The routes of the function `checkout`: the payer's pages, and the answer to unknown paths.

use axum::http::Method;
use serde_json::json;

use super::{Portable, Routes, UNKNOWN_ID, raw_id, unique};

pub(super) const ROUTES: &Routes = &[
    ("GET /checkout/{raw_id}", &[200, 404]),
    ("GET /checkout/{raw_id}/qr.png", &[200, 404]),
    ("GET /checkout/{raw_id}/boleto.pdf", &[200, 404]),
];

#[tokio::test]
async fn checkout_pages_answer_with_every_status() {
    let service = Portable::start().await;
    let charge = service.charge().await;
    let body = json!({
        "amount": 1000, "paymentMethods": ["BOLETO"], "idempotencyKey": unique(),
        "customerName": "Maria", "customerDocument": "29537995593",
    });
    let boleto = service.call("POST /v1/payments").json(&body).send().await.expect(201);
    for (route, owner, content_type) in [
        (ROUTES[0].0, &charge, "text/html; charset=utf-8"),
        (ROUTES[1].0, &charge, "image/png"),
        (ROUTES[2].0, &boleto, "application/pdf"),
    ] {
        let page = service.call(route).id(raw_id(owner)).send().await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, Some(content_type)));
        assert_eq!(service.call(route).id(UNKNOWN_ID).send().await.status, 404);
    }
    for path in ["/", "/v1/none", "/v1/charges/a/b"] {
        let answer = service.client.raw(Method::GET, path, &[], "").await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{path}");
    }
    service.check_statuses(ROUTES);
}
