//! Events, webhook endpoints and notifications.

use serde_json::json;

use crate::support::{KEY, Receiver, World, eventually, register};

#[tokio::test]
async fn a_notification_is_repeated_until_it_is_accepted() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    register(&world, &receiver, &["*"]).await;
    receiver.answer(500);
    world.control("/pay-elsewhere", json!({"amount": 500, "currency": "jpy"}));
    receiver.types(3).await;
    let pending = async || world.api.list("/v1/events?delivery_success=false").await.len();
    assert_eq!(pending().await, 3);
    let unsent = async || world.stripe.control("GET", "/books", &json!({})).1["unsent_notifications"].clone();
    eventually("each failure is noted", async || (unsent().await == 3).then_some(())).await;
    receiver.answer(200);
    world.advance_s(4);
    assert_eq!(receiver.received().len(), 3);
    world.advance_s(1);
    receiver.types(6).await;
    eventually("all are delivered", async || (pending().await == 0).then_some(())).await;
    world.advance_s(4 * 86_400);
    assert_eq!((unsent().await, receiver.received().len()), (json!(0), 6));
}

#[tokio::test]
async fn notifications_can_be_lost_doubled_late_and_out_of_order() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    register(&world, &receiver, &["*"]).await;
    world.fault("lost_notification", "payment_intent.created");
    world.fault("reordered_notification", "charge.succeeded");
    world.control("/pay-elsewhere", json!({"amount": 500, "currency": "jpy"}));
    assert_eq!(receiver.types(2).await, ["payment_intent.succeeded", "charge.succeeded"]);

    world.fault("late_notification", "payment_intent.created");
    world.fault("duplicate_notification", "charge.succeeded");
    let intent = world.control("/pay-elsewhere", json!({"amount": 500, "currency": "jpy"}));
    let types = receiver.types(5).await;
    assert_eq!(types.iter().filter(|name| *name == "charge.succeeded").count(), 3);
    world.advance_s(30 * 60);
    assert_eq!(receiver.types(6).await[5], "payment_intent.created");

    let event = world.api.list("/v1/events?type=payment_intent.succeeded").await[0].clone();
    assert_eq!(event["data"]["object"]["id"], intent["id"]);
    world.control(&format!("/events/{}/resend", event["id"].as_str().unwrap()), json!({"copies": 3}));
    receiver.types(9).await;
}

#[tokio::test]
async fn a_deleted_endpoint_gets_nothing_more() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let endpoint = register(&world, &receiver, &["charge.succeeded"]).await;
    world.fault("late_notification", "");
    world.control("/pay-elsewhere", json!({"amount": 500, "currency": "jpy"}));
    let path = format!("/v1/webhook_endpoints/{}", endpoint["id"].as_str().unwrap());
    let authorization = format!("Bearer {KEY}");
    let deleted = world.api.send("DELETE", &path, &[("authorization", &authorization)], String::new()).await;
    assert_eq!(deleted.unwrap().expect(200)["deleted"], true);
    world.api.get(&path).await.error(404);
    world.advance_s(30 * 60);
    let unsent = async || world.stripe.control("GET", "/books", &json!({})).1["unsent_notifications"].clone();
    eventually("nothing is left to send", async || (unsent().await == 0).then_some(())).await;
    assert!(receiver.received().is_empty());
    for (name, value) in [("enabled_events[]", "charge.other"), ("api_version", "2020-08-27"), ("url", "x")] {
        let mut form = vec![("url", receiver.url.as_str()), ("enabled_events[]", "*")];
        form.retain(|(known, _)| *known != name);
        form.push((name, value));
        world.api.post("/v1/webhook_endpoints", &form).await.error(400);
    }
}
