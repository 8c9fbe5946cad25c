//! The status of an invoice: payments, confirmations, time, and marking by hand.

use serde_json::{Value, json};

use crate::support::{INVOICES, Receiver, World};

const DAY_S: i64 = 86_400;

#[tokio::test]
async fn an_invoice_is_settled_by_confirmations() {
    let world = World::start().await;
    for (policy, count) in [("HighSpeed", 0), ("MediumSpeed", 1), ("LowMediumSpeed", 2), ("LowSpeed", 6)] {
        let id = world.invoice(policy, json!({"speedPolicy": policy})).await;
        assert_eq!(world.status(&id).await, "New None");
        let paid = world.control("/pay", json!({"order_id": policy}));
        let payment = &paid["paymentMethods"][0]["payments"][0];
        assert_eq!((&paid["id"], &payment["value"]), (&json!(id), &json!("0.00018519")));
        assert_eq!(payment["id"].as_str().unwrap().len(), 66);
        for _ in 0..count {
            assert_eq!(world.status(&id).await, "Processing None", "{policy}");
            assert_eq!(world.method(&id).await["payments"][0]["status"], "Processing");
            world.control("/confirm", json!({"invoice": id}));
        }
        assert_eq!(world.status(&id).await, "Settled None", "{policy}");
        let method = world.method(&id).await;
        assert_eq!([&method["due"], &method["payments"][0]["status"]], ["0.00000000", "Settled"]);
        let invoice = world.get(&format!("{INVOICES}/{id}")).await;
        assert_eq!(invoice["paidAmount"], "100.00");
    }
    let settled = &world.books()["settled_by_currency"];
    assert_eq!(settled, &json!({"BRL": {"amount": "400.00", "paid_btc": "0.00074076"}}));
}

#[tokio::test]
async fn partial_and_excessive_payments_have_an_additional_status() {
    let world = World::start().await;
    let id = world.invoice("a", json!({})).await;
    world.control("/pay", json!({"invoice": id, "amount": "0.0001", "confirmed": true}));
    assert_eq!(world.status(&id).await, "New PaidPartial");
    assert_eq!(world.method(&id).await["due"], "0.00008519");
    world.control("/pay", json!({"invoice": id, "amount": "0.0001"}));
    assert_eq!(world.status(&id).await, "Processing PaidOver");
    assert_eq!(world.method(&id).await["due"], "-0.00001481");
    world.control("/confirm", json!({"invoice": id, "count": 6}));
    assert_eq!(world.status(&id).await, "Settled PaidOver");

    let id = world.invoice("b", json!({"paymentTolerance": 10})).await;
    world.control("/pay", json!({"invoice": id, "amount": "0.00016668", "confirmed": true}));
    assert_eq!(world.status(&id).await, "Settled None");
    let id = world.invoice("c", json!({"paymentTolerance": 10})).await;
    world.control("/pay", json!({"invoice": id, "amount": "0.00016667", "confirmed": true}));
    assert_eq!(world.status(&id).await, "New PaidPartial");
    let free = world.send("POST", INVOICES, json!({"amount": "0"}), 200).await;
    assert_eq!(free["status"], "Settled");
}

#[tokio::test]
async fn a_late_payment_does_not_settle() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let id = world.invoice("a", json!({"expirationMinutes": 1})).await;
    let partial = world.invoice("b", json!({"expirationMinutes": 1})).await;
    world.control("/pay", json!({"invoice": partial, "amount": "0.0001", "confirmed": true}));
    world.register(&receiver).await;
    world.advance_s(60);
    assert_eq!(receiver.types(2).await, ["InvoiceExpired", "InvoiceExpired"]);
    assert_eq!(world.status(&id).await, "Expired None");
    assert_eq!(world.status(&partial).await, "Expired PaidPartial");
    world.control("/pay", json!({"invoice": id, "amount": "0.0001"}));
    assert_eq!(world.status(&id).await, "Expired PaidPartial");
    world.control("/pay", json!({"invoice": id, "confirmed": true}));
    world.control("/confirm", json!({"invoice": id, "count": 6}));
    assert_eq!(world.status(&id).await, "Expired PaidLate");
    let posted = receiver.wait_for(6).await;
    let types: Vec<Value> = posted.iter().map(|item| item.json()["type"].clone()).collect();
    assert_eq!(
        types[2..],
        [
            "InvoiceReceivedPayment",
            "InvoiceReceivedPayment",
            "InvoicePaymentSettled",
            "InvoicePaymentSettled"
        ]
    );
    assert!(posted[2..].iter().all(|item| item.json()["afterExpiration"] == true));
    let is_partial = |posted: &crate::receiver::Posted| {
        let event = posted.json();
        (event["invoiceId"] == partial.as_str(), event["partiallyPaid"] == true)
    };
    assert!(posted[..2].iter().map(is_partial).all(|(is_second, is_partial)| is_second == is_partial));

    world.control("/behaviour", json!({"reports_after_expiration": false}));
    world.control("/pay", json!({"invoice": id, "amount": "0.0001"}));
    assert_eq!(receiver.wait_for(7).await[6].json()["afterExpiration"], false);
}

#[tokio::test]
async fn nothing_is_seen_after_the_end_of_monitoring() {
    let world = World::start().await;
    let unpaid = world.invoice("a", json!({})).await;
    let unconfirmed = world.invoice("b", json!({})).await;
    world.control("/pay", json!({"invoice": unconfirmed}));
    world.advance_s(900 + DAY_S - 1);
    assert_eq!(world.status(&unconfirmed).await, "Processing None");
    world.advance_s(1);
    assert_eq!(world.status(&unconfirmed).await, "Invalid None");
    world.control("/confirm", json!({"invoice": unconfirmed}));
    let paid = world.control("/pay", json!({"invoice": unpaid}));
    assert_eq!(paid["unseen"][0]["value"], "0.00018519");
    assert_eq!(world.status(&unpaid).await, "Expired None");
    let method = world.method(&unpaid).await;
    assert_eq!((&method["payments"], &method["totalPaid"]), (&json!([]), &json!("0.00000000")));
}

#[tokio::test]
async fn a_replaced_payment_takes_processing_back() {
    let world = World::start().await;
    let id = world.invoice("a", json!({})).await;
    world.refuse("/replace", json!({"invoice": id}), 400);
    world.control("/pay", json!({"invoice": id}));
    world.control("/replace", json!({"invoice": id}));
    assert_eq!(world.status(&id).await, "New None");
    assert_eq!(world.method(&id).await["payments"][0]["status"], "Invalid");
    let methods = world.get(&format!("/api/v1/invoices/{id}/payment-methods")).await;
    assert_eq!(methods[0]["payments"], json!([]));
    world.control("/pay", json!({"invoice": id, "amount": "0.0001", "confirmed": true}));
    world.control("/pay", json!({"invoice": id}));
    assert_eq!(world.status(&id).await, "Processing None");
    world.advance_s(900);
    assert_eq!(world.status(&id).await, "Processing None");
    world.control("/replace", json!({"invoice": id}));
    assert_eq!(world.status(&id).await, "Expired PaidPartial");
}

#[tokio::test]
async fn invoices_are_marked_by_hand() {
    let world = World::start().await;
    let marks = async |id: &str| {
        world.get(&format!("{INVOICES}/{id}")).await["availableStatusesForManualMarking"].clone()
    };
    let mark = async |id: &str, status: &str, expected: u16| {
        let path = format!("{INVOICES}/{id}/status");
        world.send("POST", &path, json!({"status": status}), expected).await
    };
    let id = world.invoice("a", json!({})).await;
    assert_eq!(marks(&id).await, json!(["Settled", "Invalid"]));
    mark(&id, "Invalid", 200).await;
    assert_eq!(world.status(&id).await, "Invalid Marked");
    assert_eq!(mark(&id, "Invalid", 422).await[0]["path"], "status");
    // The address stays payable, and the payment changes no status.
    let paid = world.control("/pay", json!({"invoice": id, "confirmed": true}));
    assert_eq!((&paid["status"], &paid["paidAmount"]), (&json!("Invalid"), &json!("100.00")));
    mark(&id, "Settled", 200).await;
    assert_eq!(world.status(&id).await, "Settled Marked");
    assert_eq!(marks(&id).await, json!(["Invalid"]));

    let settled = world.invoice("b", json!({})).await;
    world.control("/pay", json!({"invoice": settled, "confirmed": true}));
    assert_eq!(marks(&settled).await, json!([]));
    mark(&settled, "Invalid", 422).await;
    mark(&id, "New", 422).await;
    mark("none", "Settled", 404).await;
    let id = world.invoice("c", json!({})).await;
    world.control("/mark", json!({"order_id": "c", "status": "Settled"}));
    assert_eq!(world.status(&id).await, "Settled Marked");
}

#[tokio::test]
async fn control_requests_that_are_not_valid_are_refused() {
    let world = World::start().await;
    let id = world.invoice("a", json!({})).await;
    world.refuse("/pay", json!({"invoice": "none"}), 404);
    world.refuse("/pay", json!({"order_id": "none"}), 404);
    world.refuse("/pay", json!({}), 404);
    world.refuse("/pay", json!({"invoice": id, "amount": "0"}), 422);
    world.refuse("/pay", json!({"invoice": id, "other": 1}), 422);
    world.refuse("/confirm", json!({"invoice": id, "count": -1}), 422);
    world.refuse("/mark", json!({"invoice": id}), 422);
    world.refuse("/other", json!({}), 404);
    world.control("/pay", json!({"invoice": id}));
    world.refuse("/pay", json!({"invoice": id}), 422);
}
