//! The fields of the sandbox routes' bodies.

use domain::charge::Decision;
use domain::ids::AcquirerPaymentId;
use domain::med;
use domain::refund::RefundOutcome;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use shared::http::field::{
    CPF_OR_CNPJ, Definitions, Field, MinorAmount, Parsed, Presence, Text, Word, bank_id, instant,
};
pub use shared::med::request::SANDBOX_CASE_BODY;

/// The longest code of a decline or name of a payment method, in characters.
const MAX_CODE_CHARS: usize = 64;

pub(crate) const METHOD: Field<Text> = Field {
    name: "method",
    kind: Text::of(0, MAX_CODE_CHARS),
    presence: Presence::Optional,
    text: "The method of the payment: one of the charge's payment methods, in upper or lower case. The default is the first of them.",
    example: "\"pix\"",
};

pub(crate) const AMOUNT: Field<MinorAmount> = Field {
    name: "amount",
    kind: MinorAmount,
    presence: Presence::Optional,
    text: "The paid amount, in the smallest unit of the charge's currency. The default is the charge's amount.",
    example: "1000",
};

pub(crate) const PAYER_TAX_ID: Field<Parsed<TaxId>> = Field {
    name: "payer_tax_id",
    kind: CPF_OR_CNPJ,
    presence: Presence::Optional,
    text: "The payer's CPF or CNPJ. `null` means that the bank does not report it. The default is the expected payer or the customer of the charge.",
    example: "\"29537995593\"",
};

pub(crate) const PAYER_NAME: Field<Text> = Field {
    name: "payer_name",
    kind: Text::of(0, 200),
    presence: Presence::Optional,
    text: "The payer's name. It is checked and not stored.",
    example: "\"Maria Silva\"",
};

pub(crate) const END_TO_END_ID: Field<Parsed<AcquirerPaymentId>> = Field {
    name: "end_to_end_id",
    kind: bank_id(),
    presence: Presence::Optional,
    text: "The bank's id of the payment. A repeated id reports the same payment again. The default is a new id.",
    example: "\"E1234567820261121100000000000001\"",
};

pub(crate) const PAID_AT: Field<Parsed<Timestamp>> = Field {
    name: "paid_at",
    kind: instant("must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z"),
    presence: Presence::Optional,
    text: "The time at which the bank received the money: not before the charge's creation, and at most one minute in the future. The default is now.",
    example: "\"2026-11-21T10:00:00.000Z\"",
};

/// The body of `POST /v1/sandbox/charges/{id}/pay`.
pub const PAY_BODY: Definitions = &[&METHOD, &AMOUNT, &PAYER_TAX_ID, &PAYER_NAME, &END_TO_END_ID, &PAID_AT];

pub(crate) const REASON: Field<Text> = Field {
    name: "reason",
    kind: Text::of(0, 500),
    presence: Presence::DefaultsTo("\"The sandbox declined the charge.\""),
    text: "The reason of the decline, shown in `metadata.failure`.",
    example: "\"The card has expired.\"",
};

pub(crate) const CODE: Field<Text> = Field {
    name: "code",
    kind: Text::of(0, MAX_CODE_CHARS),
    presence: Presence::DefaultsTo("\"refused\""),
    text: "The code of the decline, shown as `providerErrorCode` in `metadata.failure`.",
    example: "\"expired_card\"",
};

/// The body of `POST /v1/sandbox/charges/{id}/fail`.
pub const FAIL_BODY: Definitions = &[&REASON, &CODE];

pub(crate) const REVIEW_DECISION: Field<Word<Decision>> = Field {
    name: "decision",
    kind: Word { words: || vec![("approve", Decision::Approve), ("return", Decision::Return)] },
    presence: Presence::Required,
    text: "Whether the money is credited to the merchant or returned to the payer.",
    example: "\"approve\"",
};

/// The body of `POST /v1/sandbox/charges/{id}/review`.
pub const REVIEW_BODY: Definitions = &[&REVIEW_DECISION];

pub(crate) const REFUND_STATUS: Field<Word<RefundOutcome>> = Field {
    name: "status",
    kind: Word { words: || vec![("REFUNDED", RefundOutcome::Refunded), ("FAILED", RefundOutcome::Failed)] },
    presence: Presence::Required,
    text: "How the refund ends.",
    example: "\"REFUNDED\"",
};

/// The body of `POST /v1/sandbox/refunds/{id}/resolve`.
pub const RESOLVE_REFUND_BODY: Definitions = &[&REFUND_STATUS];

pub(crate) const CASE_DECISION: Field<Word<med::Decision>> = Field {
    name: "decision",
    kind: Word::ALL,
    presence: Presence::Required,
    text: "How the case ends: in favour of the merchant or of the payer, withdrawn by the payer's bank, or closed without a refund.",
    example: "\"merchant\"",
};

/// The body of `POST /v1/sandbox/med/cases/{id}/resolve`.
pub const RESOLVE_CASE_BODY: Definitions = &[&CASE_DECISION];
