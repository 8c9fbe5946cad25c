//! Disputes. `admin/tests/commands/cards.rs` tests evidence.

use serde_json::json;
use stripe_stand_in::Behaviour;

use crate::support::{START_S, World};

#[tokio::test]
async fn a_formal_dispute_withdraws_the_money_and_a_win_returns_it() {
    let world = World::start().await;
    let intent = world.paid("ch_1").await;
    let body = json!({"metadata": {"charge": "ch_1"}, "kind": "formal", "amount": 4_000});
    let dispute = world.control("/dispute", body);
    assert!(dispute["id"].as_str().unwrap().starts_with("du_"));
    assert_eq!(dispute["evidence_details"]["due_by"], START_S + 7 * 86_400);
    let withdrawn = &dispute["balance_transactions"][0];
    assert_eq!((&withdrawn["amount"], &withdrawn["fee"]), (&json!(-4_000), &json!(5_500)));
    let form = [("payment_intent", intent["id"].as_str().unwrap())];
    assert_eq!(world.api.post("/v1/refunds", &form).await.error(400)[1], "charge_disputed");
    let path = format!("/disputes/{}", dispute["id"].as_str().unwrap());
    let won = world.control(&path, json!({"status": "won"}));
    let returned = &won["balance_transactions"][1];
    assert_eq!((&returned["amount"], &returned["fee"]), (&json!(4_000), &json!(0)));
    // The banks reverse their decision.
    let lost = world.control(&path, json!({"status": "lost"}));
    assert_eq!(lost["balance_transactions"].as_array().unwrap().len(), 2);
    assert_eq!(world.api.list("/v1/balance_transactions?type=adjustment").await.len(), 3);
    let events = world.api.events().await;
    let disputed: Vec<&str> = events.iter().filter_map(|name| name.strip_prefix("charge.dispute.")).collect();
    assert_eq!(
        disputed,
        ["created", "funds_withdrawn", "closed", "funds_reinstated", "closed", "funds_withdrawn"]
    );
    let listed = format!("/v1/disputes?payment_intent={}", intent["id"].as_str().unwrap());
    assert_eq!(world.api.list(&listed).await.len(), 1);
}

#[tokio::test]
async fn an_inquiry_moves_money_only_when_it_becomes_formal() {
    let behaviour =
        Behaviour { dispute_ids_are_du: false, won_dispute_returns_fee: true, ..Behaviour::default() };
    let world = World::start_with(behaviour).await;
    let intent = world.paid("ch_1").await;
    let body = json!({"charge": intent["latest_charge"]["id"], "kind": "inquiry", "no_due_by": true});
    let dispute = world.control("/dispute", body);
    assert!(dispute["id"].as_str().unwrap().starts_with("dp_"));
    assert!(dispute["evidence_details"]["due_by"].is_null());
    assert_eq!(dispute["status"], "warning_needs_response");
    assert_eq!(dispute["balance_transactions"], json!([]));
    let form = [("payment_intent", intent["id"].as_str().unwrap()), ("amount", "1")];
    world.api.post("/v1/refunds", &form).await.expect(200);
    let path = format!("/disputes/{}", dispute["id"].as_str().unwrap());
    let formal = world.control(&path, json!({"status": "needs_response"}));
    assert_eq!(formal["balance_transactions"][0]["amount"], -10_000);
    assert_eq!(formal["payment_method_details"]["card"]["case_type"], "chargeback");
    let prevented = world.control(&path, json!({"status": "prevented"}));
    assert_eq!(prevented["balance_transactions"][1]["fee"], -5_500);
    let body = json!({"charge": intent["latest_charge"]["id"], "kind": "inquiry", "due_by": 0});
    let second = world.control("/dispute", body);
    assert_eq!(second["evidence_details"]["due_by"], 0);
    let path = format!("/disputes/{}", second["id"].as_str().unwrap());
    assert_eq!(world.control(&path, json!({"status": "warning_closed"}))["balance_transactions"], json!([]));
}
