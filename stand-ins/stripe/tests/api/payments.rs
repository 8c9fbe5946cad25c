//! Sessions, payments and balance transactions.

use serde_json::json;
use stripe_stand_in::Behaviour;

use crate::support::{START_S, World, session, with};

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
async fn a_session_expires_at_its_time_or_on_request() {
    let world = World::start().await;
    let expires_at = (START_S + 1_800).to_string();
    let form = with(session("ch_1"), "expires_at", &expires_at);
    let by_time = world.api.post("/v1/checkout/sessions", &form).await.expect(200);
    let by_request = world.session("ch_2").await;
    let path = format!("/v1/checkout/sessions/{}/expire", by_request["id"].as_str().unwrap());
    assert_eq!(world.api.post(&path, &[]).await.expect(200)["status"], "expired");
    world.api.post(&path, &[]).await.error(400);
    world.advance_s(1_799);
    assert_eq!(world.read_session(&by_time).await["status"], "open");
    world.advance_s(1);
    assert_eq!(world.read_session(&by_time).await["status"], "expired");
    world.refuse("/pay", json!({"session": by_time["id"]}));
    let events = world.api.list("/v1/events?types[]=checkout.session.expired").await;
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["created"], START_S + 1_800);
    assert!(events[0]["request"]["id"].is_null() && !events[1]["request"]["id"].is_null());
    let open = world.api.list("/v1/checkout/sessions?status=open").await;
    assert!(open.is_empty());
    // A payment that was confirmed at the same time.
    world.control("/pay", json!({"session": by_time["id"], "late": true}));
    assert_eq!(world.intent(&by_time).await["status"], "succeeded");
    assert_eq!(world.read_session(&by_time).await["status"], "expired");
}

#[tokio::test]
async fn whether_a_payment_in_progress_prevents_the_expiry_is_a_switch() {
    for expires in [false, true] {
        let behaviour = Behaviour {
            expires_during_payment: expires,
            processing_completes_session: false,
            creates_payment_intent_with_session: true,
            ..Behaviour::default()
        };
        let world = World::start_with(behaviour).await;
        let session = world.session("ch_1").await;
        assert!(session["payment_intent"].is_string());
        let act =
            |outcome: &str| json!({"session": session["id"], "outcome": outcome, "processing_s": 90_000});
        world.control("/3ds", act("challenge"));
        let path = format!("/v1/checkout/sessions/{}/expire", session["id"].as_str().unwrap());
        let answer = world.api.post(&path, &[]).await;
        assert_eq!(answer.status, if expires { 200 } else { 400 });
        world.control("/3ds", act("succeed"));
        world.advance_s(86_400 + 60);
        let status = if expires { "expired" } else { "open" };
        assert_eq!(world.read_session(&session).await["status"], status);
        assert_eq!(world.intent(&session).await["status"], "processing");
        world.advance_s(90_000);
        assert_eq!(world.intent(&session).await["status"], "succeeded");
        let status = if expires { "expired" } else { "complete" };
        assert_eq!(world.read_session(&session).await["status"], status);
    }
}

#[tokio::test]
async fn a_balance_transaction_comes_at_once_later_or_never() {
    for (after_s, capture_method, at_start, after_an_hour) in [
        (Some(0), "automatic", true, true),
        (Some(600), "automatic", false, true),
        (Some(0), "automatic_async", false, true),
        (None, "automatic", false, false),
    ] {
        let behaviour = Behaviour { balance_transaction_after_s: after_s, ..Behaviour::default() };
        let world = World::start_with(behaviour).await;
        let form = with(session("ch_1"), "payment_intent_data[capture_method]", capture_method);
        let session = world.api.post("/v1/checkout/sessions", &form).await.expect(200);
        world.control("/pay", json!({"session": session["id"], "fee": 7}));
        let has = async || !world.intent(&session).await["latest_charge"]["balance_transaction"].is_null();
        assert_eq!(has().await, at_start, "{after_s:?} {capture_method}");
        world.advance_s(3_600);
        assert_eq!(has().await, after_an_hour, "{after_s:?} {capture_method}");
        if after_an_hour {
            let transaction = &world.intent(&session).await["latest_charge"]["balance_transaction"];
            assert_eq!((&transaction["fee"], &transaction["net"]), (&json!(7), &json!(9_993)));
        }
        let has_event = world.api.events().await.contains(&"charge.updated".to_owned());
        assert_eq!(has_event, !at_start && after_an_hour);
    }
}

#[tokio::test]
async fn invalid_sessions_are_refused() {
    let world = World::start().await;
    let price = "line_items[0][price_data][unit_amount]";
    let currency = "line_items[0][price_data][currency]";
    let early = (START_S + 1_799).to_string();
    let late = (START_S + 86_401).to_string();
    for (name, value, code, param) in [
        (price, "49", "amount_too_small", "line_items"),
        (price, "100000000", "amount_too_large", "line_items"),
        (price, "-1", "parameter_invalid_integer", "line_items"),
        (currency, "btc", "", "currency"),
        (currency, "BRL", "", "currency"),
        ("expires_at", &early, "", "expires_at"),
        ("expires_at", &late, "", "expires_at"),
        ("expand[0]", "currency", "", "expand"),
    ] {
        let answer = world.api.post("/v1/checkout/sessions", &with(session("ch_1"), name, value)).await;
        assert_eq!(answer.error(400), ["invalid_request_error", code, param], "{name}={value}");
    }
    let yen = with(with(session("ch_1"), price, "500"), currency, "jpy");
    assert_eq!(world.api.post("/v1/checkout/sessions", &yen).await.expect(200)["amount_total"], 500);
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

#[tokio::test]
async fn payments_elsewhere_and_cancelled_ones() {
    let world = World::start().await;
    let intent = world.control("/pay-elsewhere", json!({"amount": 500, "currency": "jpy"}));
    assert_eq!((&intent["status"], &intent["metadata"]), (&json!("succeeded"), &json!({})));
    let path = format!("/v1/checkout/sessions?payment_intent={}", intent["id"].as_str().unwrap());
    assert!(world.api.list(&path).await.is_empty());
    let session = world.session("ch_1").await;
    world.control("/cancel", json!({"session": session["id"]}));
    assert_eq!(world.intent(&session).await["status"], "canceled");
    world.refuse("/pay", json!({"session": session["id"]}));
    world.refuse("/pay", json!({"other": 1}));
}
