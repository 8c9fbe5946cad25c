//! Many callers at once at one row: each is answered in time, and rightly.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use local::stack::Options;
use serde_json::{Value, json};
use shared::webhook::override_secret::OverrideSecret;
use tokio::task::JoinSet;

use crate::support::{Answer, Client, Service, id};

/// How long a caller waits for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends requests at once, each as a client of its own; gives their answers, each with the time that it took.
async fn at_once(
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

/// Refunds of a charge of 10,000 at once, three quarters of which fit. Checks that all are answered in time, at most one in
/// twenty by a 503, which says when to retry, and the others by 201 or the right 422.
async fn refund_at_once(service: &Service, count: usize) {
    let charge = service.charge_of(&json!({"amount": 10_000})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    if let Some(proxy) = &service.stack.fault_proxy {
        proxy.reset();
    }
    let path = format!("/v1/payments/{}/refund", id(&charge).trim_start_matches("ch_"));
    let amount = 10_000 / (count * 3 / 4);
    let answers = at_once(service, count, |number| {
        (path.clone(), json!({"idempotencyKey": format!("refund-{number:03}"), "amount": amount}))
    })
    .await;
    let of = |status: u16| answers.iter().filter(move |(answer, _)| answer.status == status);
    let (taken, refused, unavailable) = (of(201).count(), of(422).count(), of(503).count());
    let slowest = answers.iter().map(|(_, took)| *took).max().unwrap();
    let summary = format!("{taken} × 201, {refused} × 422, {unavailable} × 503, {slowest:?}");
    tracing::warn!("{summary}");
    assert_eq!(taken + refused + unavailable, count, "{summary}");
    assert!(slowest <= PATIENCE && unavailable * 20 <= count, "{summary}");
    assert!(taken + unavailable >= count * 3 / 4 && taken <= 10_000 / amount, "{summary}");
    for (answer, _) in of(422) {
        assert_eq!(answer.code(), "refund_exceeds_remaining");
    }
    for (answer, _) in of(503) {
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    service.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_refunds_of_one_charge_at_once_are_each_taken_or_rightly_refused() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    refund_at_once(&service, 48).await;
    // Whatever the machine: callers spread out, so that few tries are in vain.
    let report = service.stack.fault_proxy.as_ref().unwrap().report();
    let tries = report.operations["TransactWriteItems"];
    assert!(tries <= 5 * 48, "{report:?}");
}

/// Takes some 15 s of two cores: `cargo test -p local --test service contention -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures times, so it needs the machine for itself"]
async fn a_hundred_and_fifty_refunds_of_one_charge_are_answered_within_ten_seconds() {
    refund_at_once(&Service::start().await, 150).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_of_the_override_secret_at_once_all_succeed_and_the_last_one_signs() {
    let service = Service::start().await;
    let path = "/v1/webhooks/override-secret/rotate";
    let answers = at_once(&service, 40, |_number| (path.to_owned(), json!({}))).await;
    let secrets: BTreeSet<String> = answers
        .into_iter()
        .map(|(answer, _)| answer.expect(200)["secret"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(secrets.len(), 40);
    let key = OverrideSecret::key_of(&service.scope());
    let kept: OverrideSecret = service.store().get(&key).await.unwrap().unwrap();
    assert_eq!(kept.version, 40);
    assert!(secrets.contains(serde_json::to_value(&kept.secret).unwrap().as_str().unwrap()));
}

#[tokio::test]
async fn a_503_says_when_to_retry() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    for _ in 0..20 {
        service
            .stack
            .fault_proxy
            .as_ref()
            .unwrap()
            .inject("PutItem", local::embedded::fault_proxy::Fault::InternalError);
    }
    let answer = service.create_with("order-0001", &json!({"amount": 1000})).await;
    assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds));
}
