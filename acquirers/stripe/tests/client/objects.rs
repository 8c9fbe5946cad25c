//! Answers in all forms that Stripe's document allows.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stripe_client::{
    Account, BalanceTransaction, Charge, CheckoutSession, Dispute, DisputeStatus, Event, PaymentIntent,
    PaymentIntentStatus, PaymentStatus, Refund, RefundStatus, SessionStatus, UploadedFile, WebhookEndpoint,
};

use crate::document::object;

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn with<T: DeserializeOwned>(name: &str, field: &str, value: Value) -> T {
    let mut fields = object(name, "full");
    fields[field] = value;
    parse(&fields)
}

#[test]
fn every_form_of_the_document_is_read() {
    for form in ["minimal", "nulls", "full"] {
        let session: CheckoutSession = parse(&object("checkout.session", form));
        let payment: PaymentIntent = parse(&object("payment_intent", form));
        let charge: Charge = parse(&object("charge", form));
        let movement: BalanceTransaction = parse(&object("balance_transaction", form));
        let refund: Refund = parse(&object("refund", form));
        let dispute: Dispute = parse(&object("dispute", form));
        let event: Event = parse(&object("event", form));
        let account: Account = parse(&object("account", form));
        let file: UploadedFile = parse(&object("file", form));
        let endpoint: WebhookEndpoint = parse(&object("webhook_endpoint", form));
        let ids = [
            session.id,
            payment.id,
            charge.id,
            movement.id,
            refund.id,
            dispute.id,
            event.id,
            account.id,
            file.id,
            endpoint.id,
        ];
        let expected =
            ["cs_live_a1", "pi_1", "ch_1", "txn_1", "re_1", "du_1", "evt_1", "acct_1", "file_1", "we_1"];
        assert_eq!(ids, expected, "{form}");
        // Only these are missing or null, so that the caller must decide.
        let is_full = form == "full";
        assert_eq!(session.payment_intent.is_some(), is_full, "{form}");
        assert_eq!(session.metadata.0.len(), usize::from(is_full), "{form}");
        assert_eq!(charge.balance_transaction.is_some(), is_full, "{form}");
        assert_eq!((refund.status.is_some(), refund.payment_intent.is_some()), (is_full, is_full), "{form}");
    }
}

/// Checks that these texts of a status are known, and that another is kept.
fn check_status<T: DeserializeOwned + Serialize + Debug>(known: &[&str]) {
    for text in known {
        let status: T = parse(&json!(text));
        assert_eq!(json!(status), json!(text));
        assert!(!format!("{status:?}").starts_with("Other"), "{text}");
    }
    let other: T = parse(&json!("Succeeded"));
    assert_eq!((json!(other), format!("{other:?}").as_str()), (json!("Succeeded"), "Other(\"Succeeded\")"));
}

#[test]
fn known_texts_of_a_status_are_read_and_others_are_kept() {
    check_status::<SessionStatus>(&["open", "complete", "expired"]);
    check_status::<PaymentStatus>(&["paid", "unpaid", "no_payment_required"]);
    check_status::<PaymentIntentStatus>(&[
        "requires_payment_method",
        "requires_confirmation",
        "requires_action",
        "processing",
        "requires_capture",
        "succeeded",
        "canceled",
    ]);
    check_status::<RefundStatus>(&["pending", "requires_action", "succeeded", "failed", "canceled"]);
    check_status::<DisputeStatus>(&[
        "needs_response",
        "under_review",
        "won",
        "lost",
        "warning_needs_response",
        "warning_under_review",
        "warning_closed",
        "prevented",
    ]);
}

#[test]
fn a_dispute_without_a_deadline_has_none() {
    for (due_by, expected) in
        [(json!(0), None), (json!(null), None), (json!(1_795_348_800), Some(1_795_348_800))]
    {
        let mut fields = object("dispute", "full");
        fields["evidence_details"]["due_by"] = due_by;
        assert_eq!(parse::<Dispute>(&fields).evidence_details.due_by, expected);
    }
}

#[test]
fn a_declined_try_has_its_codes() {
    let error = json!({"type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds",
        "message": "Your card has insufficient funds."});
    let payment: PaymentIntent = with("payment_intent", "last_payment_error", error);
    let declined = payment.last_payment_error.unwrap();
    assert_eq!(declined.code.as_deref(), Some("card_declined"));
    assert_eq!(declined.decline_code.as_deref(), Some("insufficient_funds"));
}

#[test]
fn an_amount_that_is_no_integer_is_refused() {
    for amount in [json!(10.5), json!(1e3), json!("1000"), json!(null), json!(u64::MAX)] {
        let mut fields = object("refund", "full");
        fields["amount"] = amount.clone();
        assert!(serde_json::from_value::<Refund>(fields).is_err(), "{amount}");
    }
}

#[test]
fn an_event_names_its_object_whatever_the_object_is() {
    let event = |object: Value| {
        let mut fields = crate::document::object("event", "full");
        fields["data"] = json!({"object": object, "previous_attributes": {"status": "open"}});
        parse::<Event>(&fields).object
    };
    let payment = event(json!({"object": "payment_intent", "id": "pi_1", "payment_intent": 7}));
    assert_eq!(payment.payment_intent.as_deref(), Some("pi_1"));
    let session = event(object("checkout.session", "full"));
    assert_eq!((session.kind.as_str(), session.id.as_deref()), ("checkout.session", Some("cs_live_a1")));
    assert_eq!(session.metadata.0["charge"], "ch_42");
    let balance = event(json!({"object": "balance", "available": [], "metadata": {"a": 1, "b": "2"}}));
    assert_eq!((balance.id, balance.payment_intent, balance.metadata.0.len()), (None, None, 1));
    let unknown = event(json!({}));
    assert_eq!((unknown.kind.as_str(), unknown.id), ("", None));
}
