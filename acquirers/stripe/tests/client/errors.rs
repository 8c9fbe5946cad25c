//! Answers that are not a success, and answers that do not come.

use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use stripe_client::{
    ApiError, Client, ClientSettingsError, ConnectionSettings, Priority, Refund, Remedy, SendError,
};

use crate::document::object;
use crate::operations::new_session;
use crate::server::{Reply, World};

async fn create(world: &World) -> ApiError {
    world.client.create_session(&new_session(), "charge-42-1").await.unwrap_err()
}

#[tokio::test]
async fn each_refusal_has_its_remedy() {
    let world = World::start().await;
    for (status, kind, code, remedy) in [
        (400, "invalid_request_error", "amount_too_small", Remedy::Final),
        (400, "invalid_request_error", "amount_too_large", Remedy::Final),
        (400, "invalid_request_error", "charge_already_refunded", Remedy::Final),
        (400, "invalid_request_error", "resource_missing", Remedy::Final),
        (402, "card_error", "card_declined", Remedy::Final),
        (402, "invalid_request_error", "", Remedy::Final),
        (400, "idempotency_error", "", Remedy::FindThenNewKey),
        (409, "idempotency_error", "idempotency_key_in_use", Remedy::RetryLater),
        (409, "invalid_request_error", "", Remedy::RetryLater),
        (400, "invalid_request_error", "lock_timeout", Remedy::RetryLater),
        (429, "invalid_request_error", "lock_timeout", Remedy::RetryLater),
        (429, "invalid_request_error", "rate_limit", Remedy::RetryLater),
        (401, "invalid_request_error", "", Remedy::Operator),
        (403, "invalid_request_error", "", Remedy::Operator),
        (400, "invalid_request_error", "testmode_charges_only", Remedy::Operator),
        (400, "invalid_request_error", "livemode_mismatch", Remedy::Operator),
        (404, "invalid_request_error", "resource_missing", Remedy::NotFound),
        (500, "api_error", "", Remedy::FindThenNewKey),
        (503, "api_error", "", Remedy::FindThenNewKey),
        (408, "api_error", "", Remedy::Repeat),
    ] {
        world.reply(Reply::error(status, kind, code));
        let error = create(&world).await;
        world.advance_s(1);
        assert_eq!(error.remedy(), remedy, "{status} {kind} {code}: {error}");
        assert_eq!(error.needs_operator(), remedy == Remedy::Operator, "{error}");
    }
    assert_eq!(world.requests().len(), 20, "the client itself repeats nothing");
}

#[tokio::test]
async fn an_answer_that_is_not_the_apis_counts_as_lost() {
    let world = World::start().await;
    for (status, body) in [
        (200, "<html>welcome</html>"),
        (200, ""),
        (200, "{}"),
        (200, "[]"),
        (200, "{\"id\": \"cs_live_a1\""),
        (204, ""),
        (302, ""),
        (400, ""),
        (400, "<html>The plain HTTP request was sent to HTTPS port</html>"),
        (402, "{\"error\": \"no\"}"),
        (403, "{\"error\": {\"message\": \"blocked\"}}"),
        (404, "<html>Not found</html>"),
        (407, "{}"),
        (502, "<html>Bad gateway</html>"),
        (504, ""),
    ] {
        world.reply(Reply::new(status, &[("content-type", "text/html")], body.as_bytes().to_vec()));
        // The breaker must not refuse the request after the failures before it.
        let client = world.client.at(Priority::Settle);
        let error = client.create_session(&new_session(), "charge-42-1").await.unwrap_err();
        assert_eq!(error.remedy(), Remedy::Repeat, "{status} {body}: {error}");
        assert!(!error.to_string().contains("html"), "{error}");
    }
}

#[test]
fn a_request_without_an_answer_is_repeated_and_one_that_was_not_sent_is_sent_later() {
    let retry_after = Duration::from_secs(1);
    for (error, remedy) in [
        (SendError::Timeout, Remedy::Repeat),
        (SendError::Connection("refused".to_owned()), Remedy::Repeat),
        (SendError::Tls("expired".to_owned()), Remedy::Repeat),
        (SendError::TooLarge, Remedy::Repeat),
        (SendError::TooManyRequests { retry_after }, Remedy::RetryLater),
        (SendError::CircuitOpen, Remedy::RetryLater),
    ] {
        assert_eq!(ApiError::Send(error.clone()).remedy(), remedy, "{error}");
    }
}

/// The tests of `api-pix` check what a connection does after an answer that does not come.
#[tokio::test]
async fn the_clock_the_priority_and_the_pause_after_a_429_are_those_of_the_connection() {
    let world = World::start().await;
    assert_eq!(world.client.clock_offset_seconds(), None);
    world.reply(Reply::new(200, &[("date", "Sun, 22 Nov 2026 12:05:10 GMT")], b"{}".to_vec()));
    create(&world).await;
    assert_eq!(world.client.clock_offset_seconds(), Some(310));
    world.reply(Reply::new(429, &[("retry-after", "2")], Vec::new()));
    assert_eq!(create(&world).await.remedy(), Remedy::RetryLater);
    let sent = world.requests().len();
    let background = world.client.at(Priority::Background);
    assert_eq!(background.retrieve::<Refund>("re_1").await.unwrap_err().remedy(), Remedy::RetryLater);
    assert_eq!(world.requests().len(), sent);
    world.reply(Reply::json(200, &object("refund", "full")));
    world.client.at(Priority::Settle).retrieve::<Refund>("re_1").await.unwrap();
}

#[test]
fn settings_that_send_a_key_to_a_wrong_place_are_refused() {
    let live = "sk_live_51abc";
    let stripe = ("https://api.stripe.com", "https://files.stripe.com");
    let local = ("http://127.0.0.1:1", "http://localhost:1");
    for ((base_url, files_url), key, problem) in [
        (stripe, live, None),
        (stripe, "rk_live_51abc", None),
        (local, live, None),
        (local, "sk_test_51abc", None),
        (local, "rk_test_51abc", None),
        (stripe, "sk_test_51abc", Some("`api_key` must be a live key")),
        (stripe, "rk_test_51abc", Some("`api_key` must be a live key")),
        ((stripe.0, local.1), "rk_test_51abc", Some("`api_key` must be a live key")),
        ((local.0, stripe.1), "rk_test_51abc", Some("`api_key` must be a live key")),
        (stripe, "pk_live_51abc", Some("`api_key` must be a restricted key")),
        (stripe, "whsec_51abcdef", Some("`api_key` must be a restricted key")),
        (stripe, "sk_live_", Some("`api_key` must be a whole key")),
        (stripe, "", Some("`api_key` must be a whole key")),
        (stripe, "sk_live_51a\nb", Some("`api_key` must be a whole key")),
        (stripe, "sk_live_51é", Some("`api_key` must be a whole key")),
        (("http://api.stripe.com", stripe.1), live, Some("`base_url` must use https")),
        ((stripe.0, "http://files.stripe.com"), live, Some("`files_url` must use https")),
        (("https://a:b@api.stripe.com", stripe.1), live, Some("`base_url` must not contain a user name")),
        (("https://api.stripe.com/?x=1", stripe.1), live, Some("`base_url` must be without a query")),
        (("api.stripe.com", stripe.1), live, Some("`base_url` must be an absolute URL")),
    ] {
        let settings = ConnectionSettings {
            base_url: base_url.to_owned(),
            files_url: files_url.to_owned(),
            api_key: key.to_owned().into(),
            requests_per_second: Some(25),
        };
        match (Client::new(&settings, Arc::new(|| Timestamp::MIN)), problem) {
            // A machine may have no root certificates.
            (Ok(_) | Err(ClientSettingsError::NoRoots), None) => {}
            (Err(error), Some(problem)) => {
                assert!(error.to_string().starts_with(problem), "{error}");
                assert!(key.is_empty() || !error.to_string().contains(key), "{error}");
            }
            (outcome, problem) => panic!("{base_url} {key}: {outcome:?}, not {problem:?}"),
        }
    }
}
