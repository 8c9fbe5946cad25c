//! Sessions, payments and balance transactions.

use serde_json::json;

use crate::support::{START_S, World};

#[tokio::test]
async fn a_session_is_paid_once() {
    let world = World::start().await;
    let session = world.session("ch_1").await;
    assert_eq!([&session["status"], &session["payment_status"]], ["open", "unpaid"]);
    assert!(session["payment_intent"].is_null() && session["id"].as_str().unwrap().len() == 66);
    assert!(session["url"].as_str().unwrap().starts_with(&format!("{}/pay/cs_live_", world.api.url)));
    world.control("/pay", json!({"metadata": {"charge": "ch_1"}, "email": "ana@example.com"}));
    let paid = world.read_session(&session).await;
    assert_eq!([&paid["status"], &paid["payment_status"]], ["complete", "paid"]);
    assert_eq!(paid["customer_details"]["email"], "ana@example.com");
    assert!(paid["url"].is_null());
    let intent = world.intent(&session).await;
    assert_eq!((&intent["status"], &intent["amount_received"]), (&json!("succeeded"), &json!(10_000)));
    assert_eq!(intent["metadata"], json!({"charge": "ch_1"}));
    let transaction = &intent["latest_charge"]["balance_transaction"];
    // 3.99 % and 0.39.
    assert_eq!((&transaction["fee"], &transaction["net"]), (&json!(438), &json!(9_562)));
    assert_eq!(transaction["available_on"], START_S + 30 * 86_400);
    assert_eq!(transaction["status"], "pending");
    world.refuse("/pay", json!({"session": session["id"]}));
    let expire = format!("/v1/checkout/sessions/{}/expire", session["id"].as_str().unwrap());
    world.api.post(&expire, &[]).await.error(400);
    assert_eq!(
        world.api.events().await,
        [
            "payment_intent.created",
            "charge.succeeded",
            "payment_intent.succeeded",
            "checkout.session.completed"
        ]
    );
}

#[tokio::test]
async fn keys_versions_and_routes_are_checked() {
    let world = World::start().await;
    let send = async |path: &str, headers: &[(&str, &str)]| {
        world.api.send("GET", path, headers, String::new()).await.unwrap()
    };
    send("/v1/account", &[]).await.error(401);
    send("/v1/account", &[("authorization", "Bearer sk_live_other")]).await.error(401);
    // The key and a colon, in base64.
    let basic = ("authorization", "Basic c2tfbGl2ZV90ZXN0MDAwMDAwMDAwMDAwMDAwMDo=");
    let account = send("/v1/account", &[basic]).await.expect(200);
    assert_eq!((&account["country"], &account["charges_enabled"]), (&json!("BR"), &json!(true)));
    send("/v1/account", &[basic, ("stripe-version", "2020-08-27")]).await.error(400);
    assert_eq!(send("/v1/customers", &[basic]).await.error(404)[0], "invalid_request_error");
    for (path, param) in [
        ("/v1/payment_intents/pi_1", "intent"),
        ("/v1/refunds/pi_1", "refund"),
        ("/v1/events?starting_after=evt_1", "starting_after"),
    ] {
        assert_eq!(send(path, &[basic]).await.error(404)[1..], ["resource_missing", param], "{path}");
    }
    let json = [basic, ("content-type", "application/json")];
    world.api.send("POST", "/v1/refunds", &json, "{}".to_owned()).await.unwrap().error(400);
    let changed = json!({"country": "PT", "capabilities": {"card_payments": "inactive"}});
    world.control("/account", changed);
    assert_eq!(send("/v1/account", &[basic]).await.expect(200)["country"], "PT");
}
