//! Generated answers and notifications. Whatever they are, the outcome is a result or an error, which shows nothing
//! private.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use secrecy::SecretString;
use serde_json::{Value, json};
use stripe_client::{
    ApiError, CheckoutSession, Dispute, Event, ListQuery, PaymentIntent, Priority, Refund, verify,
};

use crate::document::object;
use crate::mutation::{mutated, mutations};
use crate::operations::{new_intent, new_session};
use crate::server::{Reply, World};

const NAMES: [&str; 6] = ["checkout.session", "payment_intent", "refund", "dispute", "event", "account"];

/// A page of objects, and an error that quotes what is private.
fn documents() -> Vec<Value> {
    let objects: Vec<Value> = NAMES.iter().map(|name| object(name, "full")).collect();
    let private = "maria@example.com";
    let page = json!({"object": "list", "has_more": true, "data": objects});
    let error = json!({"error": {"type": "api_error", "code": private, "message": private}});
    [objects, vec![page, error]].concat()
}

/// The texts of documents with some changes, or any bytes.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (select(documents()), mutations()).prop_map(|(document, changes)| mutated(&document, &changes)),
        1 => vec(any::<u8>(), 0..64),
    ]
}

#[test]
fn any_answer_is_a_result_or_an_error_that_shows_nothing_private() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::start());
    let statuses = select(vec![200, 201, 204, 302, 400, 401, 402, 403, 404, 408, 409, 429, 500, 503]);
    TestRunner::new(Config::default())
        .run(&(statuses, bodies(), 0..10_u8), |(status, body, operation)| {
            let body = if status == 204 { Vec::new() } else { body };
            let headers = [("content-type", "application/json"), ("retry-after", "0")];
            world.reply(Reply::new(status, &headers, body));
            let client = world.client.at(Priority::Settle);
            let outcome: Result<(), ApiError> = runtime.block_on(async {
                match operation {
                    0 => client.create_session(&new_session(), "key").await.map(drop),
                    1 => client.retrieve::<CheckoutSession>("cs_live_a1").await.map(drop),
                    2 => client.retrieve::<PaymentIntent>("pi_1").await.map(drop),
                    3 => client.retrieve::<Refund>("re_1").await.map(drop),
                    4 => client.retrieve::<Dispute>("du_1").await.map(drop),
                    5 => client.list::<Event>(ListQuery::default()).await.map(drop),
                    6 => client.delete_webhook_endpoint("we_1").await,
                    7 => client.create_intent(&new_intent(), "key").await.map(drop),
                    8 => client.cancel_intent("pi_1", "key").await.map(drop),
                    _ => client.account().await.map(drop),
                }
            });
            let is_gone = operation == 6 && status == 404;
            prop_assert!(outcome.is_err() || (200..300).contains(&status) || is_gone, "{status}");
            if let Err(error) = outcome {
                prop_assert!(!format!("{error} {error:?}").contains("maria"), "{error}");
                error.remedy();
            }
            Ok(())
        })
        .unwrap();
}

proptest! {
    #[test]
    fn no_notification_without_a_signature_is_accepted(
        header in prop_oneof!["[tv01=,a-f ]{0,200}", "\\PC{0,100}", "t=[0-9]{1,20},v1=[0-9a-f]{64}"],
        body in bodies(),
        now in 0_i64..253_402_300_799_999,
    ) {
        let secrets = [SecretString::from("whsec_5f2d8c1e".to_owned())];
        let now = domain::time::Timestamp::from_millis(now).unwrap();
        prop_assert!(verify(&header, &body, &secrets, now).is_err());
    }
}
