//! Tests of the `apikey` header and the rate limit.

use axum::http::Method;
use serde_json::json;

use crate::invocations::api_event;
use crate::support::{Service, id};

#[tokio::test]
async fn a_request_without_a_valid_key_gets_401() {
    let service = Service::start().await;
    let key = service.key();
    let wrong = [
        String::new(),
        "ak_test_".to_owned(),
        key.to_uppercase(),
        key[..key.len() - 1].to_owned(),
        format!("{key}x"),
        format!("\"{key}\""),
        format!("Bearer {key}"),
        key.replace("test", "live"),
        "é".to_owned(),
    ];
    for path in ["/v1/charges?limit=never", "/v1/webhooks/deliveries", "/v1/payments/x"] {
        for key in &wrong {
            let answer = service.raw(Method::GET, path, &[("apikey", key)], "{").await;
            assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{path} {key}");
            assert_eq!(answer.header("x-ratelimit-limit-minute"), None);
        }
    }

    // A key with whitespace around it is invalid.
    let charges = service.stack.functions.get("ChargesFunction").unwrap().clone();
    for (sent, status) in
        [(key.clone(), 200), (format!(" {key}"), 401), (format!("{key} "), 401), (format!("{key}\t"), 401)]
    {
        let event = api_event(("GET", "/v1/charges"), &[("apikey", &sent)], "127.0.0.1", "");
        let answer = charges(event).await.unwrap();
        assert_eq!(answer["statusCode"], status, "{sent:?}");
    }
}

#[tokio::test]
async fn a_scope_cannot_read_or_change_another_scopes_data() {
    let service = Service::start().await;
    let charge = service.charge().await;
    let path = format!("/v1/charges/{}", id(&charge));
    let seed = &service.stack.seed;
    let strangers = [&seed.first.live_api_key, &seed.other.test_api_key, &seed.other.live_api_key];
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    for key in strangers {
        assert_eq!(service.get_as(key, &path).await.problem(), (404, "not_found_error", "not_found"));
        assert_eq!(service.get_as(key, "/v1/charges").await.expect(200)["data"], json!([]));
        assert_eq!(service.get_as(key, "/v1/webhooks/endpoints").await.expect(200)["data"], json!([]));
        assert_eq!(service.get_as(key, "/v1/webhooks/deliveries").await.expect(200)["total"], 0);
        let cursor = format!("/v1/charges?starting_after={}", id(&charge));
        assert_eq!(service.get_as(key, &cursor).await.params(), ["starting_after"]);
    }
    for what in ["pay", "fail", "expire"] {
        let answer = service.other_account().sandbox_answer(&charge, what, &json!({})).await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"));
    }
    assert_eq!(service.get_charge(&charge).await["status"], "pending");
    // The idempotency key of the charge creates another one there.
    let theirs = service.other_account().new_charge("order-000000", &json!({"amount": 1000})).await;
    assert_ne!(theirs["id"], charge["id"]);
}

#[tokio::test]
async fn a_key_over_its_rate_limit_is_refused_until_the_next_minute() {
    let service = Service::start().await;
    service.change_settings(|settings| settings.rate_limit_per_minute = 3).await;
    service.begin_minute().await;
    for left in ["2", "1", "0"] {
        let answer = service.get("/v1/charges/none").await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.header("x-ratelimit-limit-minute"), Some("3"));
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), Some(left));
    }
    let over_limit = service.post_charge("order-0001", &json!({"amount": 1})).await;
    assert_eq!(over_limit.problem(), (429, "rate_limit_error", "rate_limited"));
    assert_eq!(over_limit.header("x-ratelimit-remaining-minute"), Some("0"));
    let wait: i64 = over_limit.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait));
    service.advance_seconds(wait).await;
    assert_eq!(service.get("/v1/charges").await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn counters_of_past_minutes_are_removed_from_a_rarely_used_keys_row() {
    let service = Service::start().await;
    let client = service.dynamodb();
    let is_counter =
        |name: &&String| name.strip_prefix('n').is_some_and(|minute| minute.parse::<i64>().is_ok());
    let mut counters = Vec::new();
    for _ in 0..50 {
        service.get("/v1/webhooks/endpoints").await.expect(200);
        service.stack.clock.advance(3_600_000);
        let rows = client.scan().table_name("ApiKeysTable").send().await.unwrap();
        counters.extend(rows.items().iter().map(|row| row.keys().filter(is_counter).count()).max());
    }
    // A request of a new minute adds a counter. If more than 20 others are left, they are removed.
    let expected: Vec<usize> = (1..=21).cycle().take(50).collect();
    assert_eq!(counters, expected);
}
