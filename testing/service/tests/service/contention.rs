//! Tests of many concurrent requests that change the same row. Each response must be correct.

use axum::http::StatusCode;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, Service};

const REFUNDS: usize = 48;

/// The charge's amount suffices for three quarters of the refunds.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_refunds_of_one_charge_are_each_accepted_or_correctly_refused() {
    let service = Service::without_event_sources().await;
    let charge = service.new_charge(&json!({"amount": 3_600})).await;
    service.sandbox(&charge, "pay", &json!({})).await;
    service.proxy().reset();
    let mut requests = JoinSet::new();
    for number in 0..REFUNDS {
        let (client, charge) = (Client::new(&service.base_url, &service.key()), charge.clone());
        let key = format!("refund-{number:03}");
        requests.spawn(async move { client.refund(&charge, &key, json!({"amount": 100})).await });
    }
    let answers = requests.join_all().await;
    let count = |status: StatusCode| answers.iter().filter(|answer| answer.status == status).count();
    let (accepted, unavailable) = (count(StatusCode::CREATED), count(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(accepted + count(StatusCode::UNPROCESSABLE_ENTITY) + unavailable, REFUNDS);
    assert!(unavailable * 20 <= REFUNDS && accepted + unavailable >= 36 && accepted <= 36, "{accepted}");
    for answer in answers {
        match answer.status {
            StatusCode::UNPROCESSABLE_ENTITY => assert_eq!(answer.code(), "refund_exceeds_remaining"),
            StatusCode::SERVICE_UNAVAILABLE => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            _ => {}
        }
    }
    service.check_ledger().await;
    // Jitter spreads the retries, so few attempts conflict, also on a slow machine. The limit is five
    // attempts per request on average.
    let report = service.proxy().report();
    assert!(report.operations["TransactWriteItems"] <= 5 * REFUNDS, "{report:?}");
}
