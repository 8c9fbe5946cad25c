//! Logs, `Debug` and errors contain no key, no secret and no personal data.

use serde_json::json;
use stripe_client::{CheckoutSession, Event, Hidden, PaymentIntent};

use crate::document::object;
use crate::logs::{assert_private, record, recorded};
use crate::operations::{new_intent, new_session};
use crate::server::{KEY, Reply, World};

#[tokio::test]
async fn logs_of_all_levels_contain_no_key_and_no_personal_data() {
    record();
    let world = World::start().await;
    world.reply(Reply::json(200, &object("checkout.session", "full")));
    world.client.create_session(&new_session(), "charge-42-1").await.unwrap();
    world.reply(Reply::error(500, "api_error", ""));
    world.client.create_session(&new_session(), "charge-42-1").await.unwrap_err();
    let logs = recorded();
    // The logs of the client are there.
    assert!(logs.contains("operation=\"/v1/checkout/sessions\"") && logs.contains("status=500"), "{logs}");
    assert_private(
        &logs,
        &[KEY, "Pedido", "pay.example.com", "maria", "29537995593", "sk_live", "client_secret"],
    );
}

#[tokio::test]
async fn debug_shows_no_key_no_url_and_no_metadata() {
    let world = World::start().await;
    let mut session = object("checkout.session", "full");
    session["url"] = "https://checkout.stripe.com/c/pay/secret".into();
    let read: CheckoutSession = serde_json::from_value(session.clone()).unwrap();
    let event = json!({"id": "evt_1", "type": "checkout.session.completed", "livemode": true, "created": 1,
        "data": {"object": session}});
    let event: Event = serde_json::from_value(event).unwrap();
    let secret = Hidden("whsec_abc".to_owned());
    let text = format!("{:?} {:?} {read:?} {event:?} {secret:?}", world.settings, world.client);
    assert!(text.contains("127.0.0.1") && text.contains("cs_live_a1"));
    assert_private(&text, &[KEY, "checkout.stripe.com/c/pay", "ch_42", "client_secret", "whsec_abc"]);
    assert_private(&format!("{:?}", new_session()), &["Pedido", "pay.example.com"]);
    // The PDF of a boleto has the payer's document.
    let voucher: PaymentIntent = serde_json::from_value(object("payment_intent", "full")).unwrap();
    assert_private(&format!("{:?} {voucher:?}", new_intent()), &["29537995593", "maria"]);
}

#[tokio::test]
async fn an_error_shows_the_codes_and_masks_what_is_private() {
    let world = World::start().await;
    world.reply(Reply::error(400, "invalid_request_error", "amount_too_small"));
    let error = world.client.create_session(&new_session(), "key").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Stripe answered 400; invalid_request_error; amount_too_small; \
         No such customer: '***'; CPF ***.379.955-**; key ***"
    );
    assert_private(&format!("{error:?}"), &["maria", "29537995593", "sk_live"]);
}
