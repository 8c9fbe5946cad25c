//! Logs, `Debug` and errors contain no key, no secret and no personal data.

use std::cell::RefCell;
use std::io::{self, Write};

use serde_json::json;
use stripe_client::{CheckoutSession, Event, Hidden};

use crate::document::object;
use crate::operations::new_session;
use crate::server::{KEY, Reply, World};

thread_local! {
    static LOGS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Collects the logs of each thread, and so of each test.
struct Logs;

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGS.with_borrow_mut(|logs| logs.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn assert_private(text: &str, private: &[&str]) {
    for private in private {
        assert!(!text.contains(private), "{private} in {text}");
    }
}

#[tokio::test]
async fn logs_of_all_levels_contain_no_key_and_no_personal_data() {
    // A subscriber of this thread alone would miss events that another thread reached first.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(|| Logs)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    tracing::callsite::rebuild_interest_cache();
    let world = World::start().await;
    world.reply(Reply::json(200, &object("checkout.session", "full")));
    world.client.create_session(&new_session(), "charge-42-1").await.unwrap();
    world.reply(Reply::error(500, "api_error", ""));
    world.client.create_session(&new_session(), "charge-42-1").await.unwrap_err();
    let logs = String::from_utf8(LOGS.take()).unwrap();
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
}

#[tokio::test]
async fn an_error_shows_the_codes_and_masks_what_is_private() {
    let world = World::start().await;
    world.reply(Reply::error(400, "invalid_request_error", "amount_too_small"));
    let error = world.client.create_session(&new_session(), "key").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Stripe answered 400; invalid_request_error; amount_too_small; \
         No such customer: '***'; CPF ***; key ***"
    );
    assert_private(&format!("{error:?}"), &["maria", "29537995593", "sk_live"]);
}
