//! Tests of many concurrent requests that change the same row. Each response must be correct and in time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Answer, Client, Service, id};

/// The longest time that a response may take.
const MAX_RESPONSE_TIME: Duration = Duration::from_secs(10);

/// Sends `count` requests concurrently, each from its own client. Returns each response with its duration.
async fn send_concurrently(
    service: &Service,
    count: usize,
    request: impl Fn(usize) -> (String, Value),
) -> Vec<(Answer, Duration)> {
    let mut requests = JoinSet::new();
    for number in 0..count {
        let client = Client::new(&service.base_url, &service.key());
        let (path, body) = request(number);
        requests.spawn(async move {
            let began = Instant::now();
            (client.post(&path, &body).await, began.elapsed())
        });
    }
    requests.join_all().await
}

/// Sends concurrent refunds of one charge, whose amount suffices for three quarters of them. Checks that
/// every response is in time, that at most one in twenty is a 503 with `Retry-After`, and that the others are
/// 201 or the correct 422.
async fn refund_concurrently(service: &Service, count: usize) {
    let charge = service.new_charge(&json!({"amount": 10_000})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    if let Some(proxy) = &service.stack.fault_proxy {
        proxy.reset();
    }
    let path = format!("/v1/payments/{}/refund", id(&charge).trim_start_matches("ch_"));
    let amount = 10_000 / (count * 3 / 4);
    let answers = send_concurrently(service, count, |number| {
        (path.clone(), json!({"idempotencyKey": format!("refund-{number:03}"), "amount": amount}))
    })
    .await;
    let with_status = |status: u16| answers.iter().filter(move |(answer, _)| answer.status == status);
    let (accepted, refused, unavailable) =
        (with_status(201).count(), with_status(422).count(), with_status(503).count());
    let slowest = answers.iter().map(|(_, took)| *took).max().unwrap();
    let summary = format!("{accepted} × 201, {refused} × 422, {unavailable} × 503, {slowest:?}");
    tracing::warn!("{summary}");
    assert_eq!(accepted + refused + unavailable, count, "{summary}");
    assert!(slowest <= MAX_RESPONSE_TIME && unavailable * 20 <= count, "{summary}");
    assert!(accepted + unavailable >= count * 3 / 4 && accepted <= 10_000 / amount, "{summary}");
    for (answer, _) in with_status(422) {
        assert_eq!(answer.code(), "refund_exceeds_remaining");
    }
    for (answer, _) in with_status(503) {
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    service.check_ledger().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_refunds_of_one_charge_are_each_accepted_or_correctly_refused() {
    let service = Service::without_event_sources().await;
    refund_concurrently(&service, 48).await;
    // Jitter spreads the retries, so few attempts conflict, also on a slow machine. The limit is five
    // attempts per request on average.
    let report = service.stack.fault_proxy.as_ref().unwrap().report();
    let attempts = report.operations["TransactWriteItems"];
    assert!(attempts <= 5 * 48, "{report:?}");
}

/// Run with `cargo test -p local --test service contention -- --ignored --nocapture`. Takes about 15 s on two
/// cores.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures durations, so nothing else may run on the machine"]
async fn all_of_150_concurrent_refunds_of_one_charge_are_answered_within_ten_seconds() {
    refund_concurrently(&Service::start().await, 150).await;
}

#[tokio::test]
async fn a_503_has_a_retry_after_header() {
    let service = Service::without_event_sources().await;
    for _ in 0..20 {
        service
            .stack
            .fault_proxy
            .as_ref()
            .unwrap()
            .inject("PutItem", local::embedded::fault_proxy::Fault::InternalError);
    }
    let answer = service.post_charge("order-0001", &json!({"amount": 1000})).await;
    assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds));
}
