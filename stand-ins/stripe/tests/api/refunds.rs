//! Refunds.

use serde_json::{Value, json};
use stripe_stand_in::Behaviour;

use crate::support::World;

async fn charge(world: &World, intent: &Value) -> Value {
    let id = intent["latest_charge"]["id"].as_str().unwrap();
    world.api.get(&format!("/v1/charges/{id}?expand[]=balance_transaction")).await.expect(200)
}

#[tokio::test]
async fn refunds_never_exceed_the_payment() {
    let world = World::start().await;
    let intent = world.paid("ch_1").await;
    let id = intent["id"].as_str().unwrap();
    let form = [("payment_intent", id), ("amount", "4000"), ("metadata[refund]", "re_1")];
    let refund = world.api.post("/v1/refunds", &form).await.expect(200);
    assert_eq!((&refund["status"], &refund["amount"]), (&json!("succeeded"), &json!(4_000)));
    assert_eq!(charge(&world, &intent).await["amount_refunded"], 4_000);
    let answer = world.api.post("/v1/refunds", &[("payment_intent", id), ("amount", "6001")]).await;
    assert_eq!(answer.error(400), ["invalid_request_error", "", "amount"]);
    world.api.post("/v1/refunds", &[("payment_intent", id)]).await.expect(200);
    assert_eq!(charge(&world, &intent).await["refunded"], true);
    let answer = world.api.post("/v1/refunds", &[("payment_intent", id)]).await;
    assert_eq!(answer.error(400)[1], "charge_already_refunded");
    let listed = world.api.list(&format!("/v1/refunds?payment_intent={id}")).await;
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1]["metadata"]["refund"], "re_1");
    // The fee is kept.
    let moved = world.api.list("/v1/balance_transactions?type=refund").await;
    assert_eq!((&moved[1]["amount"], &moved[1]["fee"]), (&json!(-4_000), &json!(0)));
    for form in [vec![], vec![("payment_intent", id), ("charge", "ch_1")], vec![("payment_intent", "pi_1")]] {
        assert!(world.api.post("/v1/refunds", &form).await.status >= 400, "{form:?}");
    }
    let session = world.session("ch_2").await;
    world.control("/decline", json!({"session": session["id"]}));
    let unpaid = world.intent(&session).await;
    let form = [("payment_intent", unpaid["id"].as_str().unwrap())];
    world.api.post("/v1/refunds", &form).await.error(400);
}

#[tokio::test]
async fn a_refund_in_the_dashboard_emits_its_events_and_returns_the_fee_if_the_switch_says_so() {
    let behaviour = Behaviour { refund_returns_fee: true, ..Behaviour::default() };
    let world = World::start_with(behaviour).await;
    world.paid("ch_1").await;
    world.control("/refund", json!({"metadata": {"charge": "ch_1"}, "amount": 5_000}));
    let events = world.api.events().await;
    for kind in ["charge.refunded", "refund.created"] {
        assert!(events.contains(&kind.to_owned()), "{events:?}");
    }
    let moved = world.api.list("/v1/balance_transactions?type=refund").await;
    assert_eq!((&moved[0]["fee"], &moved[0]["net"]), (&json!(-219), &json!(-4_781)));
    let refunds = world.api.list("/v1/refunds").await;
    assert_eq!(refunds[0]["metadata"], json!({}));
}
