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
use crate::operations::new_session;
use crate::server::{Reply, World};

const NAMES: [&str; 6] = ["checkout.session", "payment_intent", "refund", "dispute", "event", "account"];

fn values() -> impl Strategy<Value = Value> {
    let private = "maria@example.com";
    let leaves = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1e300)),
        Just(json!(u64::MAX)),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!(private)),
    ];
    leaves.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(vec!["id", "object", "status", "data", "x"]), inner), 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// Objects of the document of which some fields have any value or are missing.
fn objects() -> impl Strategy<Value = Value> {
    let changes = vec((any::<proptest::sample::Index>(), proptest::option::of(values())), 0..4);
    (select(NAMES.to_vec()), changes).prop_map(|(name, changes)| {
        let mut object = object(name, "full");
        let fields = object.as_object_mut().unwrap();
        for (index, value) in changes {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = index.get(&names).clone();
            match value {
                Some(value) => fields.insert(name, value),
                None => fields.remove(&name),
            };
        }
        object
    })
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let page =
        vec(objects(), 0..3).prop_map(|data| json!({"object": "list", "has_more": true, "data": data}));
    let error = (select(vec!["api_error", "card_error", ""]), values()).prop_map(
        |(kind, value)| json!({"error": {"type": kind, "code": value, "message": "maria@example.com"}}),
    );
    prop_oneof![
        objects().prop_map(|object| object.to_string().into_bytes()),
        page.prop_map(|page| page.to_string().into_bytes()),
        error.prop_map(|error| error.to_string().into_bytes()),
        values().prop_map(|value| value.to_string().into_bytes()),
        vec(any::<u8>(), 0..64),
    ]
}

#[test]
fn any_answer_is_a_result_or_an_error_that_shows_nothing_private() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::start());
    let statuses = select(vec![200, 201, 204, 302, 400, 401, 402, 403, 404, 408, 409, 429, 500, 503]);
    TestRunner::new(Config::default())
        .run(&(statuses, bodies(), 0..8_u8), |(status, body, operation)| {
            let body = if status == 204 { Vec::new() } else { body };
            world.reply(Reply::new(status, "Content-Type: application/json\r\nRetry-After: 0\r\n", &body));
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
