//! Tests of the rules for every request: request ids, unknown routes, unreadable bodies, duplicate JSON keys,
//! numbers and forbidden characters.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api_keys::DashboardUser;
use crate::support::{Service, id, ids};

#[tokio::test]
async fn every_response_has_a_request_id_and_echoes_a_valid_one_from_the_client() {
    let service = Service::start().await;
    let generated = service.raw(Method::GET, "/v1/charges", &[], "").await;
    assert!(generated.header("x-request-id").unwrap().starts_with("req_"));

    let sent = "pedido nº 7 – ação";
    for path in ["/nowhere", "/v1/charges", "/_elsewhere"] {
        let answer = service.raw(Method::GET, path, &[("x-request-id", sent)], "").await;
        assert_eq!((answer.header("x-request-id"), &answer.body["request_id"]), (Some(sent), &json!(sent)));
    }
    let replaced = service.raw(Method::GET, "/v1/charges", &[("x-request-id", "a\tb")], "").await;
    assert!(replaced.header("x-request-id").unwrap().starts_with("req_"), "{replaced:?}");
    let url = format!("{}/v1/charges", service.base_url);
    let latin =
        service.send_with_byte_headers(Method::GET, &url, &[("x-request-id", b"caf\xe9")], "".into()).await;
    assert!(latin.header("x-request-id").unwrap().starts_with("req_"), "{latin:?}");
    let authenticated = service
        .raw(Method::GET, "/v1/charges", &[("x-request-id", "mine"), ("apikey", &service.key())], "")
        .await;
    assert_eq!((authenticated.status.as_u16(), authenticated.header("x-request-id")), (200, Some("mine")));
}

#[tokio::test]
async fn every_response_forbids_plain_http_and_the_guessing_of_types() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let qr = charge["pix"]["qr_code_url"].as_str().unwrap();
    let checkout = charge["checkout_url"].as_str().unwrap();
    for (path, status) in [("/v1/charges", 401), ("/nowhere", 404), (qr, 200), (checkout, 200)] {
        let answer = service.raw(Method::GET, path, &[], "").await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_get_404_with_the_contracts_error_body() {
    let service = Service::start().await;
    let routes = [
        (Method::GET, "//"),
        (Method::GET, "/v1"),
        (Method::POST, "/v1/charges/x/refund"),
        (Method::DELETE, "/v1/charges"),
        (Method::GET, "/v1/charges/"),
        (Method::GET, "/v1/pix/charges"),
        (Method::GET, "/v1/pix/other"),
        (Method::PATCH, "/v1/charges/ch_1"),
        (Method::PUT, "/v1/payments"),
        (Method::POST, "/v1/wallets/balance"),
        (Method::POST, "/v1/med/cases"),
        (Method::DELETE, "/v1/infractions"),
        (Method::GET, "/v1/auth/logout"),
        (Method::POST, "/v1/sandbox/charges/x/nothing"),
        (Method::POST, "/v1/sandbox/refunds/%FF/resolve"),
        (Method::GET, "/v1/webhooks/nothing"),
        (Method::GET, "/%00/../\u{7f}"),
    ];
    for (method, path) in routes {
        let path = path.replace('\u{7f}', "%7f");
        let answer = service.raw(method.clone(), &path, &[("apikey", &service.key())], "").await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{method} {path}");
    }
}

#[tokio::test]
async fn an_unreadable_body_gets_400_and_stores_nothing() {
    let service = Service::start().await;
    let key = service.key();
    let headers =
        [("apikey", key.as_str()), ("content-type", "application/json"), ("idempotency-key", "order-0001")];
    let deep = format!("{{\"amount\":1000,\"metadata\":{{\"a\":{}{}}}}}", "[".repeat(200), "]".repeat(200));
    let huge = format!("{{\"amount\": 1000, \"description\": \"{}\"}}", "x".repeat(300_000));
    let many_megabytes = vec![b'x'; 11 * 1024 * 1024];
    let bodies: [(&[u8], &str); 6] = [
        (b"", "invalid_amount"),
        (b"{\"amount\": 1000,}", "invalid_request"),
        (b"null", "invalid_request"),
        (deep.as_bytes(), "invalid_request"),
        (huge.as_bytes(), "invalid_request"),
        (&many_megabytes, "invalid_request"),
    ];
    for (body, code) in bodies {
        let answer = service.raw(Method::POST, "/v1/pix/charges", &headers, body.to_vec()).await;
        assert_eq!(answer.problem(), (400, "invalid_request_error", code));
    }

    let form = [
        ("apikey", key.as_str()),
        ("content-type", "application/x-www-form-urlencoded"),
        ("idempotency-key", "order-0001"),
    ];
    let answer = service.raw(Method::POST, "/v1/pix/charges", &form, "{\"amount\": 1000}").await;
    assert_eq!((answer.code(), answer.params()), ("invalid_request", vec!["Content-Type"]));

    let list = service.get("/v1/charges").await.expect(200);
    assert_eq!(list, json!({"object": "list", "data": [], "has_more": false, "next_cursor": null}));
}

#[tokio::test]
async fn a_misspelt_field_is_refused_and_so_is_every_unknown_one_where_absence_means_the_whole() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let pay = format!("/v1/sandbox/charges/{}/pay", id(&charge));
    let payment =
        json!({"amount": 1000, "currency": "BRL", "paymentMethods": ["PIX"], "idempotencyKey": "payment-1"});
    let with = |body: &Value, name: &str, value: Value| {
        let mut body = body.clone();
        body[name] = value;
        body
    };
    let endpoint = json!({"url": "https://example.com/hook", "events": ["charge.paid"]});
    let key = [("idempotency-key", "charge-0001")];
    for (path, body, param) in [
        (
            "/v1/pix/charges",
            json!({"amount": 1000, "expectedPayerTaxId": "52998224725"}),
            "expectedPayerTaxId",
        ),
        (
            "/v1/pix/charges",
            json!({"amount": 1000, "customer": {"Document": "52998224725"}}),
            "customer.Document",
        ),
        ("/v1/payments", with(&payment, "customer_name", json!("Maria")), "customer_name"),
        ("/v1/webhooks/endpoints", with(&endpoint, "evnts", json!([])), "evnts"),
        (&pay, json!({"amoun": 1}), "amoun"),
        (&pay, json!({"amount": null}), "amount"),
    ] {
        let answer = service.post_as(&service.key(), path, &body, &key).await;
        assert_eq!((answer.status.as_u16(), answer.params()), (400, vec![param]), "{path}");
    }
    service.post_charge("charge-0002", &json!({"amount": 1000, "note": "ignored"})).await.expect(201);

    service.sandbox(&charge, "pay", &json!({})).await;
    for (body, param) in [(json!({"amout": 5}), "amout"), (json!({"amount": null}), "amount")] {
        let answer = service.refund(&charge, "refund-01", body).await;
        assert_eq!((answer.status.as_u16(), answer.params()), (400, vec![param]));
    }
    assert!(service.refunds(&charge).await.is_empty());
    let owner = DashboardUser::owner(&service).await;
    let answer = owner.send(Method::POST, "/v1/api-keys", &json!({"tst": true})).await;
    assert_eq!((answer.status.as_u16(), answer.params()), (400, vec!["tst"]));
}

#[tokio::test]
async fn other_notations_of_a_request_are_accepted_or_refused_by_what_is_wrong() {
    let service = Service::start().await;
    let key = service.key();
    let plain = json!({"amount": 1000, "customer": {"name": "Ana", "document": "29537995593"}}).to_string();
    let dotted = plain.replace("29537995593", "295.379.955-93");
    let gzip = |body: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, body).unwrap();
        encoder.finish().unwrap()
    };
    let post = async |coding: &[(&str, &str)], body: Vec<u8>| {
        let headers: [(&str, &str); 3] =
            [("apikey", &key), ("content-type", "application/json"), ("idempotency-key", "order-0001")];
        service.raw(Method::POST, "/v1/pix/charges", &[&headers, coding].concat(), body).await
    };
    let gzipped = [("content-encoding", "gzip")];
    let first = post(&[], dotted.clone().into_bytes()).await.expect(201);
    let of_payer = service.get("/v1/charges?customer_id=29537995593").await.expect(200);
    assert_eq!(ids(&of_payer), [id(&first)]);
    for (coding, body) in [
        (&[][..], plain.clone().into_bytes()),
        (&[], format!("\u{feff}{plain}").into_bytes()),
        (&gzipped, gzip(dotted.as_bytes())),
    ] {
        assert_eq!(id(&post(coding, body).await.expect(201)), id(&first));
    }
    let too_long = format!("{}{plain}", " ".repeat(300_000));
    for (coding, body, message) in [
        ("gzip", gzip(too_long.as_bytes()), "at most 262144 bytes"),
        ("gzip", plain.clone().into_bytes(), "not valid gzip"),
        ("br", plain.into_bytes(), "must be gzip"),
    ] {
        let answer = post(&[("content-encoding", coding)], body).await;
        assert!(answer.body.to_string().contains(message), "{answer:?}");
        assert_eq!(answer.status, 400);
    }
    service.get("/v1/charges?_=1732800000&utm_source=mail&limit=1").await.expect(200);
    assert_eq!(service.get("/v1/charges?source=mail").await.params(), ["source"]);
    let answer = service.get("/v1/charges?created_after=2026-11-21T10:00:00").await;
    assert!(answer.body.to_string().contains("lacks its time zone; append Z"), "{answer:?}");

    let deadline = async |text: &str| {
        let charge = service.pay(1_000).await;
        let case = service.open_case(&charge, json!({"response_deadline": text})).await;
        case["response_deadline"].clone()
    };
    assert_eq!(deadline("2027-01-10").await, "2027-01-11T02:59:59.999Z");

    for method in [Method::GET, Method::HEAD] {
        let home = service.raw(method, "/", &[("x-request-id", "mine")], "").await;
        assert_eq!((home.status.as_u16(), home.header("x-request-id")), (303, Some("mine")));
        assert_eq!(home.header("x-content-type-options"), Some("nosniff"));
    }
    let checkout = first["checkout_url"].as_str().unwrap();
    let chosen = service.raw(Method::GET, &format!("{checkout}?lang=en"), &[], "").await;
    let cookie = chosen.header("set-cookie").unwrap().split(';').next().unwrap();
    let back = service.raw(Method::GET, checkout, &[("cookie", cookie), ("accept-language", "es")], "").await;
    let html = String::from_utf8(back.bytes.to_vec()).unwrap();
    assert!(html.contains("<html lang=\"en\">") && back.header("set-cookie").is_none(), "{html}");
}
