//! The log of a delivery's attempts, and the e-mails about an endpoint that fails.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::budgets::size_of_item;
use crate::emails::MailDirectory;
use crate::invocations::{first_delivery, run_webhook_worker};
use crate::support::{Listener, Service, eventually, id};

const HOUR: i64 = 60 * 60;

async fn attempts_of(service: &Service, delivery: &Value) -> Vec<Value> {
    let path = format!("/v1/webhooks/deliveries/{}/attempts", id(delivery));
    let list = service.get(&path).await.expect(200);
    let one =
        service.get(&format!("/v1/webhooks/deliveries/{}?include=attempts", id(delivery))).await.expect(200);
    assert_eq!(one["attemptLog"], list["data"]);
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn each_attempt_is_listed_with_its_time_duration_and_reason() {
    let service = Service::start().await;
    let listener = Listener::answering(|number| match number {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "upstream timeout").into_response(),
        1 => (StatusCode::FOUND, [("location", "/elsewhere")]).into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    })
    .await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    for (count, seconds) in [(1, 37), (2, 73)] {
        eventually("the attempt has failed", async || {
            let pending = service.deliveries("&status=PENDING").await.into_iter().next()?;
            (pending["attempts"] == count).then_some(())
        })
        .await;
        service.advance_seconds(seconds).await;
    }
    let done = eventually("the third attempt succeeds", async || {
        service.deliveries("&status=DELIVERED").await.into_iter().next()
    })
    .await;
    let attempts = attempts_of(&service, &done).await;
    let shown: Vec<Value> = attempts
        .iter()
        .map(|it| json!([it["number"], it["status"], it["statusCode"], it["errorCode"], it["responseBody"]]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            [1, "FAILED", 503, "http_5xx", "upstream timeout"],
            [2, "FAILED", 302, "http_3xx", null],
            [3, "SUCCEEDED", 204, null, null],
        ])
    );
    assert!(attempts.iter().all(|attempt| attempt["durationMs"].is_u64()), "{attempts:?}");
    assert!(attempts.is_sorted_by_key(|attempt| attempt["startedAt"].as_str().unwrap()));
    let delivery = service.get(&format!("/v1/webhooks/deliveries/{}", id(&done))).await.expect(200);
    assert!(delivery.get("attemptLog").is_none());
    let refused = service.get(&format!("/v1/webhooks/deliveries/{}?include=events", id(&done))).await;
    assert_eq!((refused.code(), refused.params()), ("invalid_request", vec!["include"]));
    let other = service.get("/v1/webhooks/deliveries/wd_01kb5cpq4t0000000000000000/attempts").await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn an_attempt_whose_worker_died_is_listed_as_interrupted() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let delivery = first_delivery(&service, &listener.url).await;
    let partition = format!("delivery#{}#{}", service.scope(), id(&delivery));
    let started = service.stack.clock.now().millis();
    let log = HashMap::from([("t".to_owned(), AttributeValue::N(started.to_string()))]);
    // As after a claim, and a crash before the post.
    let crashed = [
        ("status", AttributeValue::S("PROCESSING".to_owned())),
        ("attempts", AttributeValue::N("1".to_owned())),
        ("leased_until", AttributeValue::N("1".to_owned())),
        ("attempt_log", AttributeValue::L(vec![AttributeValue::M(log)])),
    ];
    service.set_attributes(&partition, id(&delivery), &crashed).await;
    let running = attempts_of(&service, &delivery).await;
    assert_eq!((&running[0]["status"], &running[0]["errorCode"]), (&json!("RUNNING"), &Value::Null));
    run_webhook_worker(&service.stack, &delivery).await;
    let attempts = attempts_of(&service, &delivery).await;
    let shown: Vec<_> = attempts.iter().map(|it| (&it["status"], &it["errorCode"])).collect();
    assert_eq!(
        shown,
        [(&json!("FAILED"), &json!("interrupted")), (&json!("SUCCEEDED"), &Value::Null)],
        "{attempts:?}"
    );
}

#[tokio::test]
async fn a_delivery_taken_at_once_has_under_1_kb_and_an_exhausted_one_under_3_kb() {
    let service = Service::without_event_sources().await;
    let taken = Listener::start().await;
    let delivery = first_delivery(&service, &taken.url).await;
    let row = async |delivery: &Value| {
        let partition = format!("delivery#{}#{}", service.scope(), id(delivery));
        size_of_item(&service.rows(&partition, "").await.remove(0))
    };
    let (_, report) = service.cost(run_webhook_worker(&service.stack, &delivery)).await;
    let size = row(&delivery).await;
    println!("taken at once: {size} bytes, {} WU", report.write_units);
    assert!(size < 1_024, "{size}");

    let service = Service::without_event_sources().await;
    let failing = Listener::answering(|_| (StatusCode::BAD_GATEWAY, "x".repeat(2_000)).into_response()).await;
    let delivery = first_delivery(&service, &failing.url).await;
    let partition = format!("delivery#{}#{}", service.scope(), id(&delivery));
    let (mut units, mut of_log) = (0.0, 0);
    for _ in 0..15 {
        let (_, report) = service.cost(run_webhook_worker(&service.stack, &delivery)).await;
        units += report.write_units;
        let mut row = service.rows(&partition, "").await.remove(0);
        let with_log = size_of_item(&row).div_ceil(1_024);
        row.remove("attempt_log");
        // Of the claim and of the end of the attempt.
        of_log += 2 * (with_log - size_of_item(&row).div_ceil(1_024));
        service.advance_seconds(15 * HOUR).await;
    }
    let failed = service.deliveries("&status=FAILED").await.remove(0);
    assert_eq!(attempts_of(&service, &failed).await.len(), 15);
    let size = size_of_item(&service.rows(&partition, "").await.remove(0));
    println!("exhausted: {size} bytes, {units} WU, of them {of_log} for the log");
    assert!(size < 3 * 1_024, "{size}");
    assert!(of_log <= 45, "{of_log}");
}

#[tokio::test]
async fn a_test_of_an_event_sends_a_sample_that_is_marked_and_not_in_the_event_log() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let test = format!("/v1/webhooks/endpoints/{}/test", id(&endpoint));
    for (number, name) in ["charge.paid", "payment.refunded"].into_iter().enumerate() {
        let sent = service.post(&format!("{test}?type={name}"), &json!({})).await.expect(200);
        assert_eq!((&sent["eventType"], &sent["payload"]["test"]), (&json!(name), &json!(true)));
        let hook = listener.received(number + 1).await.remove(number);
        assert_eq!((hook.json()["test"].clone(), hook.header("x-service-test")), (json!(true), "true"));
    }
    let log = service.get("/v1/events").await.expect(200);
    assert_eq!(log["data"], json!([]), "catching up must not find a payment that never was");
    let plain = service.post(&test, &json!({})).await.expect(200);
    assert_eq!((&plain["eventType"], &plain["payload"]["test"]), (&json!("webhook.test"), &Value::Null));
    let refused = service.post(&format!("{test}?type=webhook.test"), &json!({})).await;
    assert_eq!((refused.code(), refused.params()), ("invalid_request", vec!["type"]));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_reported_after_an_hour_and_a_day_and_when_it_works_again() {
    let mails = MailDirectory::new();
    let service = Service::start_with(mails.options()).await;
    let (listener, is_up) = Listener::down().await;
    let registered = service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    eventually("the first attempt fails", async || {
        let endpoint = service.get(&format!("/v1/webhooks/endpoints/{}", id(&registered))).await.expect(200);
        endpoint["failingSince"].is_string().then_some(())
    })
    .await;
    service.advance_seconds(HOUR - 60).await;
    assert!(mails.all().is_empty());
    service.advance_seconds(120).await;
    let hour = mails.received(1).await.remove(0);
    assert_eq!(hour.subject, "[teste] Webhooks falhando há uma hora: 127.0.0.1");
    for said in [id(&registered), "Entregas que esperam: 1", "status HTTP 502", "/dashboard/webhooks/wh_"] {
        assert!(hour.text.contains(said), "{said}: {}", hour.text);
    }
    service.advance_seconds(24 * HOUR).await;
    let day = mails.received(2).await.remove(1);
    assert_eq!(day.subject, "[teste] Webhooks falhando há um dia: 127.0.0.1");
    is_up.store(true, Ordering::SeqCst);
    service.charge().await;
    let over = mails.received(3).await.remove(2);
    assert_eq!(over.subject, "[teste] Webhooks funcionando de novo: 127.0.0.1");
}
