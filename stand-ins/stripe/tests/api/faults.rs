//! Faults of requests. `notifications.rs` tests those of notifications, and `refunds.rs` those of refunds.

use serde_json::json;

use crate::support::{World, eventually, session};

const PATH: &str = "/v1/checkout/sessions";

#[tokio::test]
async fn faults_of_status_store_nothing() {
    let world = World::start().await;
    for (kind, status, code) in [
        ("http_500", 500, ""),
        ("rate_limit", 429, "rate_limit"),
        ("lock_timeout", 429, "lock_timeout"),
        ("key_expired", 401, "api_key_expired"),
        ("no_permission", 403, "more_permissions_required"),
    ] {
        world.control("/faults", json!({"kind": kind, "count": 2, "on": "POST"}));
        world.api.get("/v1/account").await.expect(200);
        for _ in 0..2 {
            let answer = world.api.try_post(PATH, &session("ch_1"), kind).await.unwrap();
            assert_eq!(answer.error(status)[1], code);
        }
        assert_eq!(world.api.list(&format!("{PATH}?status=expired")).await.len(), 0);
        let created = world.api.try_post(PATH, &session("ch_1"), kind).await.unwrap();
        assert_eq!(created.header("idempotent-replayed"), "", "{kind}");
        created.expect(200);
    }
    assert_eq!(world.api.list(PATH).await.len(), 5);
}

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
