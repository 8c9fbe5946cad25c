//! Tests of the `/_local/` routes, which only the local service has. Programs on the machine may call them.
//! Pages of other sites that are open in a browser on the machine may not.

use axum::http::Method;
use local::stack::{Options, Stack};
use serde_json::json;

use crate::support::{Client, Service};

const PATH: &str = "/_local/clock/advance";

#[tokio::test]
async fn a_page_of_another_site_cannot_move_the_clock_and_a_host_allowed_by_option_can() {
    let options = Options { allowed_hosts: vec!["dev.example".parse().unwrap()], ..Options::in_memory() };
    let service = Service::start_with(options).await;
    let before = service.stack.clock.offset_ms();
    let json = ("content-type", "application/json");
    let refused: [(&[(&str, &str)], u16); 4] = [
        (&[], 400),
        (&[json, ("origin", "https://evil.example")], 403),
        (&[json, ("sec-fetch-site", "cross-site")], 403),
        (&[json, ("host", "evil.example:3000")], 403),
    ];
    for (headers, status) in refused {
        for path in [PATH, "/_local/nothing"] {
            let answer = service.raw(Method::POST, path, headers, r#"{"seconds": 60}"#).await;
            assert_eq!(answer.status, status, "{path} {headers:?}");
            assert!(answer.body["error"].is_string(), "{answer:?}");
        }
    }
    assert_eq!(service.stack.clock.offset_ms(), before);

    let host = service.base_url.strip_prefix("http://").unwrap();
    let own = [json, ("host", host), ("origin", &service.base_url), ("sec-fetch-site", "same-origin")];
    for headers in [&own[..], &[json, ("host", "dev.example:3000")]] {
        service.raw(Method::POST, PATH, headers, r#"{"seconds": 60}"#).await.expect(200);
    }
    assert_eq!(service.stack.clock.offset_ms(), before + 120_000);
}

#[tokio::test]
async fn a_page_of_another_site_reaches_no_embedded_service() {
    let options = Options { allowed_hosts: vec!["dev.example".parse().unwrap()], ..Options::in_memory() };
    let service = Service::start_with(options).await;
    let urls = &service.stack.endpoints;
    for url in [&urls.dynamodb_url, &urls.sqs_url, &urls.s3_url] {
        let client = Client::new(url, "");
        for (host, is_refused) in [
            ("evil.example", true),
            ("evil.example:4566", true),
            ("127.0.0.1", false),
            ("dev.example", false),
        ] {
            let answer = client.raw(Method::GET, "/", &[("host", host)], "").await;
            let refused = String::from_utf8_lossy(&answer.bytes).starts_with("Host must be");
            let by_s3 = answer.status == 403 && answer.bytes.is_empty();
            assert_eq!(refused || by_s3, is_refused, "{url} {host}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_service_on_all_addresses_names_another_base_url_in_links() {
    let options = Options {
        address: "0.0.0.0:0".parse().unwrap(),
        base_url: Some("http://pay.localhost:8080".to_owned()),
        ..Options::in_memory()
    };
    // The start registers the URL for notifications at the bank, which reaches the service by loopback.
    let stack = Stack::start(options).await.unwrap();
    assert_eq!(stack.base_url, "http://pay.localhost:8080");
    let port = stack.port().unwrap();
    let client = Client::new(&format!("http://127.0.0.1:{port}"), &stack.seed.first.test_api_key);
    let charge = client.new_charge("order-0001", &json!({"amount": 1990})).await;
    assert!(charge["checkout_url"].as_str().unwrap().starts_with("http://pay.localhost:8080/checkout/"));
    let json_body = [("content-type", "application/json"), ("host", "evil.example")];
    client.raw(Method::POST, PATH, &json_body, r#"{"seconds": 0}"#).await.expect(403);
    stack.stop().await;
}
