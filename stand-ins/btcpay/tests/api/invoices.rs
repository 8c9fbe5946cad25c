//! Creation, lists, metadata and rights.

use serde_json::{Value, json};

use crate::support::{INVOICES, KEY, START_S, STORE, World};

#[tokio::test]
async fn an_invoice_has_the_defaults_of_the_store() {
    let world = World::start().await;
    let body = json!({"amount": "100", "currency": "BRL", "metadata": {"orderId": "o1", "note": null}});
    let invoice = world.send("POST", INVOICES, body.clone(), 200).await;
    assert_eq!(invoice["id"].as_str().unwrap().len(), 22);
    assert_eq!(
        (&invoice["amount"], &invoice["paidAmount"], &invoice["storeId"], &invoice["metadata"]),
        (&json!("100.00"), &json!("0.00"), &json!(STORE), &body["metadata"])
    );
    assert_eq!(
        (&invoice["createdTime"], &invoice["expirationTime"], &invoice["monitoringExpiration"]),
        (&json!(START_S), &json!(START_S + 900), &json!(START_S + 900 + 86_400))
    );
    let id = invoice["id"].as_str().unwrap();
    let method = world.method(id).await;
    assert_eq!(
        [&method["rate"], &method["amount"], &method["due"], &method["totalPaid"]],
        ["540000.00", "0.00018519", "0.00018519", "0.00000000"]
    );
    let address = method["destination"].as_str().unwrap();
    let (network, version, program) = bech32::segwit::decode(address).unwrap();
    assert_eq!((network.as_str(), version.to_u8(), program.len()), ("bcrt", 0, 20));
    assert_eq!(method["paymentLink"], format!("bitcoin:{address}?amount=0.00018519"));
    // There is no idempotency. Both forms of the path name the invoice.
    let again = world.send("POST", INVOICES, body, 200).await;
    assert_ne!(again["id"], invoice["id"]);
    assert_eq!(world.get(&format!("/api/v1/invoices/{id}")).await, invoice);
}

#[tokio::test]
async fn creations_that_are_not_valid_are_refused() {
    let world = World::start().await;
    for (body, path) in [
        (json!({"amount": "-1", "currency": "BRL"}), "amount"),
        (json!({"amount": "1,00", "currency": "BRL"}), "amount"),
        (json!({"currency": "BRL"}), "amount"),
        (json!({"amount": 1, "currency": "BRL"}), ""),
        (json!({"amount": "1", "currency": "BRL", "other": 1}), ""),
        (json!({"amount": "1", "checkout": {"speedPolicy": "Fast"}}), ""),
        (json!({"amount": "1", "checkout": {"expirationMinutes": 0}}), "checkout.expirationMinutes"),
        (json!({"amount": "1", "checkout": {"paymentTolerance": 100.5}}), "checkout.paymentTolerance"),
        (json!({"amount": "1", "checkout": {"paymentMethods": ["BTC-LN"]}}), "checkout.paymentMethods"),
        (json!([]), ""),
    ] {
        let answer = world.send("POST", INVOICES, body.clone(), 422).await;
        assert_eq!(answer[0]["path"], path, "{body}: {answer}");
    }
    let answer = world.send("POST", INVOICES, json!({"amount": "1", "currency": "XAU"}), 400).await;
    assert_eq!(answer["code"], "generic-error");
    assert!(answer["message"].as_str().unwrap().contains("matching payment method or rate"));
    assert_eq!(world.get(INVOICES).await, json!([]));
}

#[tokio::test]
async fn lists_are_filtered_and_have_the_newest_first() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for order in ["a", "b", "a", "c"] {
        ids.push(world.invoice(order, json!({})).await);
        world.advance_s(10);
    }
    world.control("/pay", json!({"invoice": ids[3]}));
    let list = async |query: &str| {
        let listed = world.get(&format!("{INVOICES}?{query}")).await;
        let position = |invoice: &Value| ids.iter().position(|id| invoice["id"] == *id).unwrap();
        listed.as_array().unwrap().iter().map(position).collect::<Vec<usize>>()
    };
    assert_eq!(list("").await, [3, 2, 1, 0]);
    assert_eq!(list("orderId=a&orderId=b").await, [2, 1, 0]);
    assert_eq!(list("status=New&orderId=a&orderId=c").await, [2, 0]);
    assert_eq!(list("skip=1&take=2").await, [2, 1]);
    assert_eq!(list(&format!("startDate={}&endDate={}", START_S + 5, START_S + 20)).await, [2, 1]);
    assert_eq!(list(&format!("textSearch={}", ids[1])).await, [1]);
    let with_methods = world.get(&format!("{INVOICES}?includePaymentMethods=true&take=1")).await;
    assert_eq!(with_methods[0]["paymentMethods"][0]["paymentMethodId"], "BTC-CHAIN");
    for query in ["status=Other", "skip=x", "startDate=2&endDate=1", "includePaymentMethods=2"] {
        world.send("GET", &format!("{INVOICES}?{query}"), Value::Null, 422).await;
    }
}

#[tokio::test]
async fn metadata_is_replaced() {
    let world = World::start().await;
    let path = format!("{INVOICES}/{}", world.invoice("a", json!({})).await);
    let changed = world.send("PUT", &path, json!({"metadata": {"orderId": "b"}}), 200).await;
    assert_eq!(changed["metadata"], json!({"orderId": "b"}));
    assert_eq!(world.get(&path).await, changed);
    world.send("PUT", &path, json!({"metadata": null}), 422).await;
    world.send("PUT", &format!("{INVOICES}/none"), json!({"metadata": {}}), 404).await;
}

#[tokio::test]
async fn a_key_needs_the_rights() {
    let world = World::start().await;
    let (status, answer) = world.try_send("GET", INVOICES, "other", &Value::Null).await.unwrap();
    assert_eq!((status, &answer["code"]), (401, &json!("unauthenticated")));
    let lacks = async |method: &str, path: &str, right: &str| {
        let answer = world.send(method, path, Value::Null, 403).await;
        assert_eq!(
            (&answer["code"], &answer["missingPermission"]),
            (&json!("missing-permission"), &json!(right))
        );
    };
    world.control("/behaviour", json!({"permissions": ["btcpay.store.canviewinvoices:store-1"]}));
    world.get(INVOICES).await;
    lacks("POST", INVOICES, "btcpay.store.cancreateinvoice").await;
    lacks("POST", "/api/v1/invoices/x/status", "btcpay.store.canmodifyinvoices").await;
    lacks("GET", "/api/v1/stores/store-1/webhooks", "btcpay.store.webhooks.canmodifywebhooks").await;
    lacks("GET", "/api/v1/stores/store-1", "btcpay.store.canviewstoresettings").await;
    lacks("GET", "/api/v1/stores/store-2/invoices", "btcpay.store.canviewinvoices").await;
    let key = world.get("/api/v1/api-keys/current").await;
    assert_eq!(
        (&key["apiKey"], &key["permissions"]),
        (&json!(KEY), &json!(["btcpay.store.canviewinvoices:store-1"]))
    );
    world.control("/behaviour", json!({"permissions": ["btcpay.store.canviewinvoices:store-2"]}));
    lacks("GET", INVOICES, "btcpay.store.canviewinvoices").await;
    // Some rights include others.
    world.control("/behaviour", json!({"permissions": ["btcpay.store.canmodifyinvoices"]}));
    world.invoice("a", json!({})).await;
    world.get(INVOICES).await;
    world.control("/behaviour", json!({"permissions": ["unrestricted"]}));
    assert_eq!(world.get("/api/v1/stores/store-1").await["id"], STORE);
    assert_eq!(world.get("/api/v1/server/info").await["fullySynched"], true);
    let methods = world.get("/api/v1/stores/store-1/payment-methods?onlyEnabled=true").await;
    assert_eq!(methods, json!([{"enabled": true, "paymentMethodId": "BTC-CHAIN"}]));
}

#[tokio::test]
async fn two_stand_ins_have_other_ids() {
    let mut ids = Vec::new();
    for store in ["store-1", "store-1", "store-2"] {
        let world = World::start_in(None, store).await;
        let path = format!("/api/v1/stores/{store}/invoices");
        ids.push(world.send("POST", &path, json!({"amount": "1"}), 200).await["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}
