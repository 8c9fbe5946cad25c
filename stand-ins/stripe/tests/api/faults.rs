//! A timeout, and the lists of faults and behaviours. The tests of the connector use the other faults of requests.

use serde_json::json;

use crate::support::{World, eventually, session};

const PATH: &str = "/v1/checkout/sessions";

#[tokio::test]
async fn a_timeout_does_nothing() {
    let world = World::start().await;
    world.fault("timeout", "");
    let api = world.api.clone();
    let call = tokio::spawn(async move { api.try_post(PATH, &session("ch_1"), "k1").await });
    let faults = async || world.stripe.control("GET", "/faults", &json!({})).1;
    eventually("the fault occurs", async || (faults().await == json!([])).then_some(())).await;
    world.advance_s(60);
    assert!(call.await.unwrap().is_none());
    assert!(world.api.list(PATH).await.is_empty());
}

#[tokio::test]
async fn behaviours_and_faults_are_read_and_changed() {
    let world = World::start().await;
    let changed = world.control("/behaviour", json!({"fee_fixed": 1, "balance_transaction_after_s": null}));
    assert_eq!(world.stripe.control("GET", "/behaviour", &json!({})).1, changed);
    assert_eq!((&changed["fee_fixed"], &changed["fee_basis_points"]), (&json!(1), &json!(399)));
    world.refuse("/behaviour", json!({"other": 1}));
    world.refuse("/faults", json!({"kind": "other"}));
    world.fault("slow", "GET");
    assert_eq!(
        world.stripe.control("GET", "/faults", &json!({})).1,
        json!([{"kind": "slow", "on": "GET", "count": 1}])
    );
    assert_eq!(world.stripe.control("DELETE", "/faults", &json!({})).1, json!([]));
    assert_eq!(world.stripe.control("POST", "/other", &json!({})).0, 404);
}
