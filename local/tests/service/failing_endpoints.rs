//! Tests of workers and endpoints that fail: a delivery goes on, and a failing endpoint does not delay healthy
//! ones. The sender's own tests cover each kind of failure.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;
use shared::webhook::delivery::{Claim, Deliveries};

use crate::invocations::{dispatch, run_webhook_worker};
use crate::support::{Listener, Service, eventually, id};

#[tokio::test]
async fn a_delivery_whose_worker_died_is_retried_after_its_lease_expires() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    // A worker claims the delivery and then dies.
    let deliveries = Deliveries::new(service.store());
    let claimed = deliveries
        .claim(&service.scope(), id(&delivery).parse().unwrap(), 7, service.stack.clock.now())
        .await;
    assert!(matches!(claimed.unwrap(), Claim::Claimed(_)));
    assert_eq!(service.deliveries("&status=PROCESSING").await.len(), 1);
    service.stack.clock.advance(61_000);
    run_webhook_worker(&service.stack, &delivery).await;
    let done = service.deliveries("&status=DELIVERED").await.remove(0);
    assert_eq!((&done["attempts"], listener.hooks().len()), (&json!(2), 1));
}

/// The number of charges in the next test, small enough for a debug build.
const CHARGES: usize = 150;

#[tokio::test]
async fn healthy_endpoints_receive_every_event_once_beside_a_dead_endpoint() {
    let service = Service::start().await;
    let healthy = [Listener::start().await, Listener::start().await];
    let dead = Listener::answering(|_number| StatusCode::SERVICE_UNAVAILABLE.into_response()).await;
    for listener in healthy.iter().chain([&dead]) {
        service.register_endpoint(&listener.url, &["charge.created"]).await;
    }
    let mut charges = Vec::new();
    for _ in 0..CHARGES {
        charges.push(id(&service.charge().await).to_owned());
    }
    charges.sort();
    for listener in &healthy {
        let hooks = listener.received(CHARGES).await;
        let mut notified: Vec<String> =
            hooks.iter().map(|hook| id(&hook.json()["data"]["object"]).to_owned()).collect();
        notified.sort();
        assert_eq!(notified, charges, "one webhook per charge");
        let ids: BTreeMap<String, usize> = hooks.iter().fold(BTreeMap::new(), |mut ids, hook| {
            *ids.entry(id(&hook.json()).to_owned()).or_default() += 1;
            ids
        });
        assert!(ids.len() == CHARGES && ids.values().all(|times| *times == 1));
    }
    eventually("every delivery to the dead endpoint is attempted", async || {
        (dead.hooks().len() >= CHARGES).then_some(())
    })
    .await;
    // A webhook arrives before its delivery's row is updated.
    eventually("the statistics count all deliveries", async || {
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        let expected = (&json!(2 * CHARGES), &json!(3 * CHARGES));
        ((&stats["DELIVERED"], &stats["total"]) == expected).then_some(())
    })
    .await;
}
