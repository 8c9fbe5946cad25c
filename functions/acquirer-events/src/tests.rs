//! Tests of what the sandbox reads from a request. They need no table.

use charges::{at, waiting};
use domain::payment_method::PaymentMethod;
use serde_json::{Value, json};
use shared::http::field::{Field, JsonKind, Presence};
use shared::http::json::parse_object;

use super::*;

#[expect(dead_code, reason = "the sandbox needs one of the example charges")]
#[path = "../../../domain/src/charge/testing.rs"]
mod charges;

fn parse(body: &Value) -> Result<Payment> {
    let body = parse_object(body.to_string().as_bytes()).unwrap();
    reported_payment(&body, &waiting(), at(60))
}

#[test]
fn the_method_is_read_in_either_case_and_must_be_one_of_the_charge() {
    assert_eq!(parse(&json!({"method": "pix"})).unwrap().method, PaymentMethod::Pix);
    assert_eq!(parse(&json!({"method": "PIX"})).unwrap().method, PaymentMethod::Pix);
    assert!(parse(&json!({"method": "BOLETO"})).is_err());
}

#[test]
fn a_payment_is_made_after_the_charge_and_at_most_a_minute_ahead() {
    // The charge was created at 0 s, and it is 60 s now.
    for seconds in [0, 60, 120] {
        let paid_at = parse(&json!({"paid_at": at(seconds).to_iso()})).unwrap().paid_at;
        assert_eq!(paid_at, at(seconds));
    }
    for seconds in [-1, 121] {
        assert!(parse(&json!({"paid_at": at(seconds).to_iso()})).is_err(), "{seconds}");
    }
}

fn accepts<K: JsonKind>(field: &Field<K>) -> &'static str {
    let accepted = |json: &str| {
        let body = parse_object(format!("{{\"value\": {json}}}").as_bytes()).unwrap();
        field.kind.read(&body["value"]).is_ok()
    };
    assert!(accepted(field.example), "{}", field.name);
    if let Presence::DefaultsTo(default) = field.presence {
        assert!(accepted(default), "{}", field.name);
    }
    field.name
}

#[test]
fn each_field_accepts_its_example_and_its_default() {
    let lists = [
        (
            bodies::PAY_BODY,
            vec![
                accepts(&bodies::METHOD),
                accepts(&bodies::AMOUNT),
                accepts(&bodies::PAYER_TAX_ID),
                accepts(&bodies::PAYER_NAME),
                accepts(&bodies::END_TO_END_ID),
                accepts(&bodies::PAID_AT),
            ],
        ),
        (bodies::FAIL_BODY, vec![accepts(&bodies::REASON), accepts(&bodies::CODE), accepts(&bodies::RETRY)]),
        (bodies::REVIEW_BODY, vec![accepts(&bodies::REVIEW_DECISION)]),
        (bodies::RESOLVE_REFUND_BODY, vec![accepts(&bodies::REFUND_STATUS)]),
        (bodies::RESOLVE_CASE_BODY, vec![accepts(&bodies::CASE_DECISION)]),
    ];
    for (list, accepted) in lists {
        assert_eq!(list.known.iter().map(|field| field.name()).collect::<Vec<_>>(), accepted);
    }
}
