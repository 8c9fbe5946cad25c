//! Tests of creating and reading charges.

use std::collections::BTreeSet;

use artefacts::brcode::BrCode;
use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::ids::ChargeId;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::support::{CapturedLog, Listener, Service, id, wait_until};

/// How long a charge can be paid, in milliseconds.
fn lifetime_ms(charge: &Value) -> i64 {
    let at = |text: &Value| text.as_str().unwrap().parse::<Timestamp>().unwrap();
    at(&charge["pix"]["expires_at"]).millis_since(at(&charge["created_at"]))
}

#[tokio::test]
async fn a_charge_has_exactly_the_contracts_fields() {
    let service = Service::start().await;
    let body = json!({
        "amount": 123_456, "currency": "BRL", "payment_method": "pix", "description": "Pedido 1", "expires_in": 120,
        "customer": {"name": "Maria", "document": "29537995593", "email": "maria@example.com", "phone": "+5511999999999"},
        "expected_payer_tax_id": "29537995593",
        "metadata": {"order": {"id": 7, "tags": ["a", null, 1.5]}, "_internal": 1, "med": {}, "failure": {}},
    });
    let headers = [("idempotency-key", "order-0001")];
    let answer = service.post_as(&service.key(), "/v1/charges", &body, &headers).await;
    assert_eq!(answer.header("idempotent-replayed"), None);
    let charge = answer.expect(201);
    let raw = id(&charge).strip_prefix("ch_").unwrap();
    assert_eq!(
        charge,
        json!({
            "id": id(&charge), "object": "charge", "amount": 123_456, "currency": "BRL", "status": "pending",
            "payment_method": "pix", "customer": {"name": "Maria", "document": "29537995593"},
            "pix": charge["pix"], "checkout_url": format!("{}/checkout/{raw}", service.stack.base_url),
            "settlement": {}, "expected_payer_tax_id": "29537995593",
            "metadata": {"description": "Pedido 1", "order": {"id": 7, "tags": ["a", null, 1.5]}},
            "created_at": charge["created_at"], "paid_at": null, "amount_refunded": 0,
        })
    );
    let keys: Vec<&str> = charge["pix"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["br_code", "expires_at", "qr_code_base64", "qr_code_url", "txid"]);

    assert_eq!(lifetime_ms(&charge), 120_000);
    assert_eq!(charge["created_at"].as_str().unwrap().len(), "2026-11-21T00:00:00.000Z".len());

    assert_eq!(raw.as_bytes()[14], b'8', "the charge id is a UUIDv8");
    let txid = charge["pix"]["txid"].as_str().unwrap();
    assert_ne!(txid, id(&charge));
    assert_eq!(ChargeId::from_txid(txid).unwrap().to_string(), id(&charge));

    let by_prefixed = service.get_charge(&charge).await;
    let by_raw = service.get(&format!("/v1/charges/{raw}")).await.expect(200);
    assert_eq!((&by_prefixed, &by_raw), (&charge, &charge));
}

#[tokio::test]
async fn a_charge_needs_only_an_amount_and_has_a_valid_br_code_with_its_qr_images() {
    let service = Service::start().await;
    let charge = service.new_charge(&json!({"amount": 123_456})).await;
    let text = charge["pix"]["br_code"].as_str().unwrap();
    let code = BrCode::parse(text).unwrap();
    assert_eq!(code.get("01"), Some("12"));
    assert_eq!(code.get("54"), Some("1234.56"));
    assert_eq!(code.merchant_name(), "Loja Exemplo");
    let location = code.location().unwrap();
    assert!(location.ends_with(charge["pix"]["txid"].as_str().unwrap()), "{location}");
    assert!(
        service.stack.base_url.contains(location.split('/').next().unwrap()),
        "the code's location is on the service's own host: {location}"
    );

    let inline = STANDARD.decode(charge["pix"]["qr_code_base64"].as_str().unwrap()).unwrap();
    let url = charge["pix"]["qr_code_url"].as_str().unwrap();
    let served = service.raw(Method::GET, url, &[], "").await;
    assert_eq!((served.status.as_u16(), served.header("content-type")), (200, Some("image/png")));
    assert_eq!(served.bytes, inline);
    assert_eq!(&inline[..8], b"\x89PNG\r\n\x1a\n");

    assert_eq!(charge["currency"], "BRL");
    assert_eq!(charge["customer"], json!({"name": null, "document": null}));
    assert_eq!(charge["metadata"], json!({}));
    assert_eq!(charge.get("expected_payer_tax_id"), None);
    assert_eq!(lifetime_ms(&charge), 3_600_000);

    // The log line of a checkout page names the charge.
    let checkout_url = charge["checkout_url"].as_str().unwrap();
    for (path, route) in [("", "/checkout/{raw_id}"), ("/qr.png", "/checkout/{raw_id}/qr.png")] {
        let log = CapturedLog::start();
        assert_eq!(service.raw(Method::GET, &format!("{checkout_url}{path}"), &[], "").await.status, 200);
        let text = log.text();
        let line = text.lines().find(|line| line.contains(&format!("route=\"{route}\""))).unwrap();
        assert!(line.contains(&format!("charge={}", id(&charge))), "{line}");
    }
}

#[tokio::test]
async fn a_refused_request_lists_every_invalid_field_and_stores_nothing() {
    let service = Service::start().await;
    let body = json!({"amount": -5, "currency": 986, "customer": {"document": "1"}, "expires_in": "soon"});
    let answer =
        service.post_as(&service.key(), "/v1/charges", &body, &[("idempotency-key", "order-0001")]).await;
    assert_eq!(answer.problem(), (400, "invalid_request_error", "invalid_amount"));
    assert_eq!(answer.params(), ["amount", "currency", "payment_method", "expires_in", "customer.document"]);
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"], json!([]));
    // The idempotency key is still unused.
    service.post_charge("order-0001", &json!({"amount": 1000})).await.expect(201);
}

#[tokio::test]
async fn a_replayed_request_returns_the_same_charge_in_its_current_state() {
    let service = Service::start().await;
    let first = service
        .post_charge("order-0001", &json!({"amount": 1000, "metadata": {"a": 1, "b": 2}}))
        .await
        .expect(201);
    let same_request_spelled_differently = "{ \"metadata\": {\"b\":2, \"\\u0061\":1}, \"description\":null, \"payment_method\":\"pix\",\"amount\":1000}";
    let key = service.key();
    let headers = [
        ("apikey", key.as_str()),
        ("content-type", "application/json; charset=utf-8"),
        ("idempotency-key", "order-0001"),
    ];
    let again = service.raw(Method::POST, "/v1/charges", &headers, same_request_spelled_differently).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.expect(201), first);

    service.sandbox(&first, "pay", &json!({})).await;
    let paid = service
        .post_charge("order-0001", &json!({"amount": 1000, "metadata": {"a": 1, "b": 2}}))
        .await
        .expect(201);
    assert_eq!((&paid["id"], &paid["status"]), (&first["id"], &json!("paid")));

    // A number is compared as it is written.
    let number = service.raw(
        Method::POST,
        "/v1/charges",
        &headers,
        r#"{"payment_method":"pix","amount":1000,"metadata":{"a":1,"b":2.0}}"#,
    );
    assert_eq!(number.await.code(), "idempotency_key_reused");
    let other =
        service.post_charge("order-0001", &json!({"amount": 1001, "metadata": {"a": 1, "b": 2}})).await;
    assert_eq!(other.problem(), (409, "conflict_error", "idempotency_key_reused"));
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fifty_concurrent_duplicates_create_one_charge_and_one_event() {
    let service = std::sync::Arc::new(Service::start().await);
    let listener = crate::support::Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..50 {
        let service = service.clone();
        requests.spawn(async move {
            let body = json!({"amount": 1000});
            let path = if number % 2 == 0 { "/v1/charges" } else { "/v1/pix/charges" };
            let body = if number % 2 == 0 { json!({"payment_method": "pix", "amount": 1000}) } else { body };
            let answer =
                service.post_as(&service.key(), path, &body, &[("idempotency-key", "order-0001")]).await;
            let replayed = answer.header("idempotent-replayed").is_some();
            (id(&answer.expect(201)).to_owned(), replayed)
        });
    }
    let answers = requests.join_all().await;
    let ids: BTreeSet<&str> = answers.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|(_, replayed)| !replayed).count(), 1);
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"].as_array().unwrap().len(), 1);

    listener.wait_for_event("charge.created").await;
    // `charge.paid` arrives after every event that the duplicates could have caused.
    let charge = json!({"id": ids.first().unwrap()});
    service.sandbox(&charge, "pay", &json!({})).await;
    listener.wait_for_event("charge.paid").await;
    let created = listener
        .hooks()
        .iter()
        .filter(|hook| hook.header("x-service-event-type") == "charge.created")
        .count();
    assert_eq!(created, 1);
}

#[tokio::test]
async fn a_charge_that_the_acquirer_refuses_is_created_as_failed_and_without_a_code() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let events =
        ["charge.created", "charge.failed", "payment.created", "payment.failed", "payment.status_changed"];
    service.register_endpoint(&listener.url, &events).await;
    let body = json!({"amount": 1000, "expires_in": 600, "metadata": {"sandbox": "finalise:refuse"}});
    let refused = service.post_charge("order-0001", &body).await.expect(201);
    assert_eq!((&refused["status"], &refused["pix"]), (&json!("failed"), &Value::Null));
    let failure = &refused["metadata"]["failure"];
    assert_eq!((&failure["providerErrorCode"], &failure["at"]), (&json!("refused"), &refused["created_at"]));
    let replayed = service.post_charge("order-0001", &body).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.expect(201), refused);
    assert_eq!(service.get_charge(&refused).await, refused);

    let mut event_types: Vec<String> = listener
        .received(3)
        .await
        .iter()
        .map(|hook| hook.header("x-service-event-type").to_owned())
        .collect();
    event_types.sort();
    assert_eq!(event_types, ["charge.failed", "payment.failed", "payment.status_changed"]);
    let failed = listener.wait_for_event("charge.failed").await.json();
    assert_eq!(failed["data"]["object"], refused);

    // No command changes the failed charge. A late payment is returned.
    assert_eq!(service.sandbox(&refused, "expire", &json!({})).await, refused);
    assert_eq!(service.sandbox(&refused, "pay", &json!({})).await, refused);
    assert_eq!(service.count_returned_payments().await, 1);
    let list = service.get("/v1/charges?status=failed").await.expect(200);
    assert_eq!(list["data"][0]["id"], refused["id"]);
    wait_until("the statistics count the charge as created and failed", async || {
        let metrics = service.get("/v1/payments/metrics").await.expect(200);
        let funnel = &metrics["funnel"];
        funnel["created"] == 1 && funnel["failed"] == 1
    })
    .await;
    service.check_ledger().await;
}

#[tokio::test]
async fn a_charge_with_a_slow_acquirer_gets_its_code_later_with_the_requested_validity() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    let body = json!({"amount": 1000, "expires_in": 600, "metadata": {"sandbox": "finalise:later"}});
    let pending = service.new_charge(&body).await;
    assert_eq!((&pending["status"], &pending["pix"]), (&json!("pending"), &Value::Null));
    let created = listener.wait_for_event("charge.created").await.json();
    let finalised = service.get_charge(&pending).await;
    assert_eq!(finalised["pix"]["br_code"], created["data"]["object"]["pix"]["br_code"]);
    assert!((600_000..660_000).contains(&lifetime_ms(&finalised)), "{finalised}");
    assert_eq!(service.sandbox(&pending, "pay", &json!({})).await["status"], "paid");
}
