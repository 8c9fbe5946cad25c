//! Boleto, Multibanco and MB WAY. The tests of the connector verify the lines of boletos.

use serde_json::{Value, json};
use stripe_stand_in::{Behaviour, VoucherProcessing};

use crate::support::{START_S, World, with};

const PATH: &str = "/v1/payment_intents";
const DAY_S: i64 = 86_400;

/// The request of a payment.
fn intent(method: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut form = vec![
        ("amount", "10000"),
        ("currency", if method == "boleto" { "brl" } else { "eur" }),
        ("confirm", "true"),
        ("capture_method", "automatic"),
        ("payment_method_types[0]", method),
        ("payment_method_data[type]", method),
        ("metadata[charge]", "ch_1"),
        ("metadata[method]", method),
    ];
    form.extend_from_slice(match method {
        "boleto" => &[
            ("payment_method_data[boleto][tax_id]", "295.379.955-93"),
            ("payment_method_data[billing_details][name]", "Ana"),
            ("payment_method_data[billing_details][email]", "ana@example.com"),
            ("payment_method_data[billing_details][address][line1]", "Rua 1"),
            ("payment_method_data[billing_details][address][city]", "Recife"),
            ("payment_method_data[billing_details][address][state]", "PE"),
            ("payment_method_data[billing_details][address][postal_code]", "50000000"),
            ("payment_method_data[billing_details][address][country]", "BR"),
        ],
        "multibanco" => &[("payment_method_data[billing_details][email]", "ana@example.com")],
        _ => &[("payment_method_data[billing_details][phone]", "+351912345678")],
    });
    form
}

/// An account in the country of the method, and a payment.
async fn start(method: &'static str, behaviour: Behaviour) -> (World, String) {
    let world = World::start_with(behaviour).await;
    world.control("/account", json!({"country": if method == "boleto" { "BR" } else { "PT" }}));
    let created = world.api.post(PATH, &intent(method)).await.expect(200);
    (world, created["id"].as_str().unwrap().to_owned())
}

async fn read(world: &World, id: &str) -> Value {
    world.api.get(&format!("{PATH}/{id}?expand[]=latest_charge.balance_transaction")).await.expect(200)
}

#[tokio::test]
async fn what_a_method_needs_is_required_and_nothing_else_is_taken() {
    for (method, country, least, most) in [
        ("boleto", "BR", "499", "5000000"),
        ("multibanco", "PT", "49", "9999901"),
        ("mb_way", "PT", "49", "500001"),
    ] {
        let (world, _) = start(method, Behaviour::default()).await;
        let refused = async |form: &[(&str, &str)]| world.api.post(PATH, form).await.error(400);
        let of_payer = |name: &&str| name.starts_with("payment_method_data[b");
        for (name, _) in intent(method).into_iter().filter(|(name, _)| of_payer(name)) {
            let mut form = intent(method);
            form.retain(|(known, _)| *known != name);
            assert_eq!(refused(&form).await[1..], ["parameter_missing", name], "{method}");
        }
        for (name, value, code, param) in [
            ("amount", least, "amount_too_small", "amount"),
            ("amount", most, "amount_too_large", "amount"),
            ("currency", "usd", "payment_intent_invalid_parameter", "currency"),
            ("confirm", "false", "parameter_missing", "confirm"),
            ("payment_method_data[type]", "card", "", "payment_method_data[type]"),
            ("payment_method_data[pix][key]", "1", "parameter_unknown", "payment_method_data[pix][key]"),
            (
                "payment_method_options[boleto][expires_after_days]",
                "61",
                "",
                "payment_method_options[boleto][expires_after_days]",
            ),
        ] {
            assert_eq!(refused(&with(intent(method), name, value)).await[1..], [code, param], "{method}");
        }
        world.control("/account", json!({"country": if country == "BR" { "PT" } else { "BR" }}));
        let error = refused(&intent(method)).await;
        assert_eq!(error[1..], ["payment_intent_invalid_parameter", "payment_method_types"], "{method}");
    }
    let world = World::start().await;
    for (name, value) in [
        ("payment_method_data[boleto][tax_id]", "123"),
        ("payment_method_data[billing_details][address][country]", "PT"),
        ("payment_method_types[0]", "multibanco"),
    ] {
        world.api.post(PATH, &with(intent("boleto"), name, value)).await.error(400);
    }
}

#[tokio::test]
async fn a_voucher_is_confirmed_in_two_steps() {
    let (world, id) = start("boleto", Behaviour::default()).await;
    let shown = read(&world, &id).await;
    assert_eq!((&shown["status"], &shown["latest_charge"]), (&json!("requires_action"), &Value::Null));
    let details = &shown["next_action"]["boleto_display_details"];
    assert_eq!(details["number"].as_str().unwrap().len(), 47);
    // Three days later at 23:59 in São Paulo.
    let expires_at = START_S + 3 * DAY_S + 14 * 3_600 + 59 * 60;
    assert_eq!(details["expires_at"], expires_at);
    let page = details["pdf"].as_str().unwrap().strip_prefix(&world.api.url).unwrap();
    let pdf = world.api.send("GET", page, &[], String::new()).await.unwrap();
    assert_eq!((pdf.status, pdf.header("content-type")), (200, "application/pdf"));
    world.advance_s(expires_at - START_S - 1);
    world.control("/pay", json!({"metadata": {"method": "boleto"}, "processing_s": 0}));
    assert_eq!(read(&world, &id).await["status"], "requires_action");
    world.advance_s(2);
    assert_eq!(read(&world, &id).await["status"], "processing");
    let cancel = format!("{PATH}/{id}/cancel");
    assert_eq!(world.api.post(&cancel, &[]).await.error(400)[1], "payment_intent_unexpected_state");
    world.advance_s(3 * DAY_S);
    world.control("/pay", json!({"payment_intent": id}));
    let paid = read(&world, &id).await;
    assert_eq!((&paid["status"], &paid["amount_received"]), (&json!("succeeded"), &json!(10_000)));
    let charge = &paid["latest_charge"];
    assert!(charge["id"].as_str().unwrap().starts_with("py_"));
    assert_eq!(charge["payment_method_details"]["boleto"]["tax_id"], "295.379.955-93");
    assert_eq!(charge["metadata"], paid["metadata"]);
    assert_eq!(
        (&charge["billing_details"]["name"], &charge["balance_transaction"]["fee"]),
        (&json!("Ana"), &json!(438))
    );
    assert_eq!(
        world.api.events().await,
        [
            "payment_intent.created",
            "payment_intent.requires_action",
            "payment_intent.processing",
            "charge.succeeded",
            "payment_intent.succeeded"
        ]
    );
    world.refuse("/pay", json!({"payment_intent": id}));
    world.refuse("/dispute", json!({"payment_intent": id, "kind": "formal"}));
    world.api.post("/v1/refunds", &[("payment_intent", &*id)]).await.error(400);
    assert_eq!(world.api.list("/v1/charges").await.len(), 1);
}

#[tokio::test]
async fn a_voucher_that_no_bank_confirms_ends() {
    for (voucher_processing, waits) in
        [(VoucherProcessing::AfterExpiry, "processing"), (VoucherProcessing::Never, "requires_action")]
    {
        let (world, id) = start("multibanco", Behaviour { voucher_processing, ..Behaviour::default() }).await;
        let details = read(&world, &id).await["next_action"]["multibanco_display_details"].clone();
        assert_eq!(details["expires_at"], START_S + 3 * DAY_S);
        world.advance_s(3 * DAY_S + 1);
        assert_eq!(read(&world, &id).await["status"], waits);
        world.refuse("/pay", json!({"payment_intent": id}));
        world.advance_s(5 * DAY_S);
        let ended = read(&world, &id).await;
        assert_eq!(ended["status"], "requires_payment_method");
        assert_eq!(ended["last_payment_error"]["code"], "payment_intent_payment_attempt_expired");
        assert!(world.api.events().await.contains(&"payment_intent.payment_failed".to_owned()));
        world.refuse("/decline", json!({"payment_intent": id}));
        let canceled = world.api.post(&format!("{PATH}/{id}/cancel"), &[]).await.expect(200);
        assert_eq!(
            (&canceled["status"], &canceled["cancellation_reason"]),
            (&json!("canceled"), &Value::Null)
        );
    }
    // A bank accepted it in time and says so after its expiry.
    let (world, id) = start("multibanco", Behaviour::default()).await;
    world.advance_s(4 * DAY_S);
    world.control("/pay", json!({"payment_intent": id, "late": true}));
    assert_eq!(read(&world, &id).await["status"], "succeeded");
}

#[tokio::test]
async fn a_push_waits_for_four_minutes() {
    for (mb_way_waits_as_processing, waits) in [(false, "requires_action"), (true, "processing")] {
        let behaviour = Behaviour { mb_way_waits_as_processing, ..Behaviour::default() };
        let (world, id) = start("mb_way", behaviour.clone()).await;
        let shown = read(&world, &id).await;
        assert_eq!((&shown["status"], &shown["next_action"]), (&json!(waits), &Value::Null));
        world.advance_s(240);
        let ended = read(&world, &id).await;
        assert_eq!(ended["last_payment_error"]["code"], "payment_method_provider_timeout");
        world.refuse("/pay", json!({"payment_intent": id}));
        let (world, id) = start("mb_way", behaviour).await;
        world.control("/decline", json!({"payment_intent": id}));
        let declined = read(&world, &id).await;
        assert_eq!(declined["last_payment_error"]["code"], "payment_method_customer_decline");
    }
    let (world, id) = start("mb_way", Behaviour::default()).await;
    world.control("/pay", json!({"payment_intent": id}));
    let form = [("payment_intent", &*id), ("amount", "2500")];
    let refund = world.api.post("/v1/refunds", &form).await.expect(200);
    assert!(refund["id"].as_str().unwrap().starts_with("pyr_"));
    assert_eq!(refund["destination_details"]["mb_way"]["reference_status"], "pending");
    let dispute = world.control("/dispute", json!({"payment_intent": id, "kind": "formal", "amount": 1_000}));
    let path = format!("/disputes/{}", dispute["id"].as_str().unwrap());
    assert_eq!(world.control(&path, json!({"status": "won"})).get("payment_method_details"), None);
    assert_eq!(world.api.list(&format!("/v1/refunds?payment_intent={id}")).await.len(), 1);
}

#[tokio::test]
async fn the_payment_of_a_session_is_not_canceled() {
    let world = World::start().await;
    let session = world.session("ch_1").await;
    world.control("/decline", json!({"session": session["id"]}));
    let id = world.intent(&session).await["id"].as_str().unwrap().to_owned();
    world.api.post(&format!("{PATH}/{id}/cancel"), &[]).await.error(400);
    // Metadata that both have mean the session.
    world.api.post(PATH, &intent("boleto")).await.expect(200);
    world.control("/cancel", json!({"metadata": {"charge": "ch_1"}}));
    assert_eq!(world.intent(&session).await["status"], "canceled");
    let direct = world.control("/cancel", json!({"metadata": {"charge": "ch_1", "method": "boleto"}}));
    assert_eq!(direct["cancellation_reason"], "requested_by_customer");
}
