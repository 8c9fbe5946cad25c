//! The routes of the function `checkout`: the payer's pages, the documentation, and the answer to unknown paths.

use axum::http::Method;
use serde_json::json;

use super::{Portable, Routes, UNKNOWN_ID, raw_id, unique};

pub(super) const ROUTES: &Routes = &[
    ("GET /checkout/{raw_id}", &[200, 404]),
    ("GET /checkout/{raw_id}/qr.png", &[200, 404]),
    ("GET /checkout/{raw_id}/boleto.pdf", &[200, 404]),
    ("GET /docs", &[200, 304]),
    ("GET /docs.md", &[200, 304]),
    ("GET /llms.txt", &[200, 304]),
    ("GET /v1/openapi.json", &[200, 304, 400]),
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
    for (route, content_type) in [
        (ROUTES[3].0, "text/html; charset=utf-8"),
        (ROUTES[4].0, "text/markdown; charset=utf-8"),
        (ROUTES[5].0, "text/plain; charset=utf-8"),
        (ROUTES[6].0, "application/json"),
    ] {
        let file = service.call(route).send().await;
        assert_eq!((file.status.as_u16(), file.header("content-type")), (200, Some(content_type)));
        let unchanged =
            service.call(route).header("if-none-match", file.header("etag").unwrap()).send().await;
        assert_eq!((unchanged.status.as_u16(), unchanged.bytes.len()), (304, 0));
    }
    service.call(ROUTES[6].0).query("nothing=1").send().await.expect(400);
    for path in ["//", "/v1/none", "/v1/charges/a/b"] {
        let answer = service.client.raw(Method::GET, path, &[], "").await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{path}");
    }
    service.check_statuses(ROUTES);
}
