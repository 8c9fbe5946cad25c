//! Webhooks, their signatures, and their queues.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::{INVOICES, Receiver, SECRET, STORE, WEBHOOKS, World};

#[tokio::test]
async fn events_are_signed_and_in_order() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.register(&receiver).await;
    let id = world.invoice("a", json!({})).await;
    world.control("/pay", json!({"invoice": id, "amount": "0.001"}));
    world.control("/confirm", json!({"invoice": id}));
    let expected = [
        "InvoiceCreated",
        "InvoiceReceivedPayment",
        "InvoiceProcessing",
        "InvoicePaymentSettled",
        "InvoiceSettled",
    ];
    assert_eq!(receiver.types(5).await, expected);
    let posted = receiver.received();
    for item in &posted {
        let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(&item.text);
        let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
        assert_eq!(item.headers["btcpay-sig"], signature);
        let event = item.json();
        assert_eq!(
            (&event["webhookId"], &event["invoiceId"], &event["storeId"], &event["metadata"]["orderId"]),
            (&json!(webhook), &json!(id), &json!(STORE), &json!("a"))
        );
        assert_eq!(
            (&event["isRedelivery"], &event["deliveryId"]),
            (&json!(false), &event["originalDeliveryId"])
        );
    }
    assert_eq!(posted[2].json()["overPaid"], true);
    assert_eq!(posted[1].json()["payment"]["status"], "Processing");
    assert_eq!(posted[4].json()["manuallyMarked"], false);
    let id = world.invoice("b", json!({})).await;
    let path = format!("{INVOICES}/{id}/status");
    world.send("POST", &path, json!({"status": "Invalid"}), 200).await;
    let marked = receiver.wait_for(7).await[6].json();
    assert_eq!((&marked["type"], &marked["manuallyMarked"]), (&json!("InvoiceInvalid"), &json!(true)));
}

#[tokio::test]
async fn a_failing_delivery_blocks_the_next() {
    let world = World::start().await;
    let (failing, other) = (Receiver::start().await, Receiver::start().await);
    failing.answer(500);
    world.register(&failing).await;
    world.register(&other).await;
    for order in ["a", "b"] {
        world.invoice(order, json!({"expirationMinutes": 1_000})).await;
    }
    other.types(2).await;
    failing.types(1).await;
    for (count, pause_s) in [(1, 10), (2, 60), (3, 600), (4, 600)] {
        world.wait_noted(&failing, count).await;
        world.advance_s(pause_s - 1);
        assert_eq!(failing.received().len(), count);
        world.advance_s(1);
        let posted = failing.wait_for(count + 1).await;
        let (first, last) = (posted[0].json(), posted[count].json());
        assert_eq!((&last["isRedelivery"], &last["metadata"]["orderId"]), (&json!(true), &json!("a")));
        assert_eq!(last["originalDeliveryId"], first["deliveryId"]);
        assert_ne!(last["deliveryId"], first["deliveryId"]);
        assert_eq!(last["timestamp"], first["timestamp"]);
    }
    world.wait_noted(&failing, 5).await;
    failing.answer(200);
    world.advance_s(600);
    let posted = failing.wait_for(7).await;
    assert_eq!(posted[6].json()["metadata"]["orderId"], "b");
    assert_eq!(other.received().len(), 2);
}

#[tokio::test]
async fn a_delivery_is_given_up_after_eight_repeats() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(429);
    world.register(&receiver).await;
    let body =
        json!({"amount": "100", "metadata": {"orderId": "a"}, "checkout": {"expirationMinutes": 1_000}});
    world.send("POST", INVOICES, body, 200).await;
    for count in 1..=9 {
        receiver.types(count).await;
        if count < 9 {
            world.wait_noted(&receiver, count).await;
        }
        world.advance_s(600);
    }
    world.wait_unsent(0).await;
    receiver.answer(200);
    world.advance_s(600);
    assert_eq!(receiver.received().len(), 9);
}

#[tokio::test]
async fn an_answer_of_4xx_is_not_repeated() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(404);
    let webhook = world.register(&receiver).await;
    world.invoice("a", json!({})).await;
    receiver.types(1).await;
    world.wait_unsent(0).await;
    // Nor is any, if the webhook does not allow it. No answer is repeated like a 500.
    let path = format!("{WEBHOOKS}/{webhook}");
    let change = json!({"url": receiver.url, "automaticRedelivery": false});
    world.send("PUT", &path, change, 200).await;
    receiver.answer(500);
    world.invoice("b", json!({})).await;
    receiver.types(2).await;
    world.wait_unsent(0).await;
    world.send("PUT", &path, json!({"url": "http://127.0.0.1:1/"}), 200).await;
    world.invoice("c", json!({})).await;
    world.wait_unsent(1).await;
    receiver.answer(200);
    world.send("PUT", &path, json!({"url": receiver.url}), 200).await;
    world.advance_s(10);
    assert_eq!(receiver.types(3).await[2], "InvoiceCreated");
}

#[tokio::test]
async fn webhooks_are_created_changed_and_deleted() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let body = json!({
        "url": receiver.url, "secret": null,
        "authorizedEvents": {"everything": false, "specificEvents": ["InvoiceProcessing"]},
    });
    let created = world.send("POST", WEBHOOKS, body.clone(), 200).await;
    assert!(created["secret"].as_str().unwrap().len() > 20);
    let id = created["id"].as_str().unwrap();
    let read = world.get(&format!("{WEBHOOKS}/{id}")).await;
    assert_eq!((&read["secret"], &read["enabled"]), (&Value::Null, &json!(true)));
    assert_eq!(world.get(WEBHOOKS).await, json!([read]));
    world.invoice("a", json!({})).await;
    world.control("/pay", json!({"order_id": "a"}));
    assert_eq!(receiver.types(1).await, ["InvoiceProcessing"]);
    // Deletion empties the queue.
    receiver.answer(500);
    world.invoice("b", json!({})).await;
    world.control("/pay", json!({"order_id": "b"}));
    receiver.types(2).await;
    world.send("DELETE", &format!("/api/v1/webhooks/{id}"), Value::Null, 200).await;
    assert_eq!(world.books()["unsent_notifications"], 0);
    for (method, body) in [("GET", Value::Null), ("PUT", body), ("DELETE", Value::Null)] {
        world.send(method, &format!("{WEBHOOKS}/{id}"), body, 404).await;
    }
    for body in [json!({}), json!({"url": "x"}), json!({"url": receiver.url, "enabled": null})] {
        world.send("POST", WEBHOOKS, body, 422).await;
    }
}
