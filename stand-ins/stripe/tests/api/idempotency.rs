//! `Idempotency-Key`.

use serde_json::json;

use crate::support::{World, eventually, session, with};

const PATH: &str = "/v1/checkout/sessions";

#[tokio::test]
async fn the_same_request_is_done_once_for_a_day() {
    let world = World::start().await;
    let create = async |form: &[(&str, &str)]| world.api.try_post(PATH, form, "k1").await.unwrap();
    let first = create(&session("ch_1")).await;
    let id = first.expect(200)["id"].clone();
    let again = create(&session("ch_1")).await;
    assert_eq!(again.expect(200)["id"], id);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.header("original-request"), first.header("request-id"));
    assert_ne!(again.header("request-id"), first.header("request-id"));
    assert_eq!(create(&session("ch_2")).await.error(400)[0], "idempotency_error");
    let answer = world.api.try_post("/v1/refunds", &session("ch_1"), "k1").await.unwrap();
    assert_eq!(answer.error(400)[0], "idempotency_error");
    world.advance_s(86_399);
    assert_eq!(create(&session("ch_1")).await.expect(200)["id"], id);
    world.advance_s(1);
    assert_ne!(create(&session("ch_1")).await.expect(200)["id"], id);
    let long = "k".repeat(256);
    world.api.try_post(PATH, &session("ch_1"), &long).await.unwrap().error(400);
}

#[tokio::test]
async fn failed_validation_is_not_stored_and_a_refusal_is() {
    let world = World::start().await;
    let invalid = with(session("ch_1"), "mode", "setup");
    world.api.try_post(PATH, &invalid, "k1").await.unwrap().error(400);
    world.api.try_post(PATH, &session("ch_1"), "k1").await.unwrap().expect(200);
    let intent = world.paid("ch_2").await;
    let form = [("payment_intent", intent["id"].as_str().unwrap()), ("amount", "10001")];
    world.api.try_post("/v1/refunds", &form, "k2").await.unwrap().error(400);
    let again = world.api.try_post("/v1/refunds", &form, "k2").await.unwrap();
    again.error(400);
    assert_eq!(again.header("idempotent-replayed"), "true");
}

#[tokio::test]
async fn a_key_is_in_use_until_its_answer() {
    let world = World::start().await;
    world.fault("slow", "");
    let api = world.api.clone();
    let slow = tokio::spawn(async move { api.try_post(PATH, &session("ch_1"), "k1").await.unwrap() });
    let faults = async || world.stripe.control("GET", "/faults", &json!({})).1;
    eventually("the request arrives", async || (faults().await == json!([])).then_some(())).await;
    let answer = world.api.try_post(PATH, &session("ch_1"), "k1").await.unwrap();
    assert_eq!(answer.error(409)[1], "idempotency_key_in_use");
    world.advance_s(9);
    let id = slow.await.unwrap().expect(200)["id"].clone();
    assert_eq!(world.api.try_post(PATH, &session("ch_1"), "k1").await.unwrap().expect(200)["id"], id);
    assert_eq!(world.api.list(PATH).await.len(), 1);
}
