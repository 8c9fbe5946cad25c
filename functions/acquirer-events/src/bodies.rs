use domain::charge::Decision;
use domain::ids::AcquirerPaymentId;
use domain::med;
use domain::refund::RefundOutcome;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
pub use money::med::request::SANDBOX_CASE_BODY;
use shared::http::field::{
    BodyFields, Boolean, CPF_OR_CNPJ, MinorAmount, Parsed, Text, Word, bank_id, instant,
};

/// The longest code of a decline or name of a payment method, in characters.
const MAX_CODE_CHARS: usize = 64;

shared::fields! {
    pub(crate) METHOD: Text = "method", Text::of(0, MAX_CODE_CHARS), Optional, "pix",
        "The method of the payment: one of the charge's payment methods, in upper or lower case. The default is the first of them.";
    pub(crate) AMOUNT: MinorAmount = "amount", MinorAmount, Whole, 1000,
        "The paid amount, in the smallest unit of the charge's currency. The default is the charge's amount.";
    pub(crate) PAYER_TAX_ID: Parsed<TaxId> = "payer_tax_id", CPF_OR_CNPJ, Optional, "29537995593",
        "The payer's CPF or CNPJ. `null` means that the bank does not report it. The default is the expected payer or the customer of the charge.";
    pub(crate) PAYER_NAME: Text = "payer_name", Text::of(0, 200), Optional, "Maria Silva",
        "The payer's name. It is checked and not stored.";
    pub(crate) END_TO_END_ID: Parsed<AcquirerPaymentId> = "end_to_end_id",
        bank_id(), Optional, "E1234567820261121100000000000001",
        "The bank's id of the payment. A repeated id reports the same payment again. The default is a new id.";
    pub(crate) PAID_AT: Parsed<Timestamp> = "paid_at",
        instant("must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z"),
        Optional, "2026-11-21T10:00:00.000Z",
        "The time at which the bank received the money: not before the charge's creation, and at most one minute in the future. The default is now.";
}

pub const PAY_BODY: BodyFields =
    BodyFields::strict(&[&METHOD, &AMOUNT, &PAYER_TAX_ID, &PAYER_NAME, &END_TO_END_ID, &PAID_AT]);

shared::fields! {
    pub(crate) REASON: Text = "reason",
        Text::of(0, 500), DefaultsTo("The sandbox declined the charge."), "The card has expired.",
        "The reason of the decline, shown in `metadata.failure`.";
    pub(crate) CODE: Text = "code", Text::of(0, MAX_CODE_CHARS), DefaultsTo("refused"), "expired_card",
        "The code of the decline, shown as `providerErrorCode` in `metadata.failure`.";
    pub(crate) RETRY: Boolean = "retry", Boolean, DefaultsTo(false), true,
        "Whether the payer may try again, as after the decline of a live card. Then the charge, which must be payable by card, stays open, and no event is sent. If it expires, `metadata.failure` shows the decline.";
}

pub const FAIL_BODY: BodyFields = BodyFields::strict(&[&REASON, &CODE, &RETRY]);

shared::fields! {
    pub(crate) REVIEW_DECISION: Word<Decision> = "decision",
        Word { words: || vec![("approve", Decision::Approve), ("return", Decision::Return)] },
        Required, "approve",
        "Whether the money is credited to the merchant or returned to the payer.";
}

pub const REVIEW_BODY: BodyFields = BodyFields::strict(&[&REVIEW_DECISION]);

shared::fields! {
    pub(crate) REFUND_STATUS: Word<RefundOutcome> = "status",
        Word { words: || vec![("REFUNDED", RefundOutcome::Refunded), ("FAILED", RefundOutcome::Failed)] },
        Required, "REFUNDED",
        "How the refund ends.";
}

pub const RESOLVE_REFUND_BODY: BodyFields = BodyFields::strict(&[&REFUND_STATUS]);

shared::fields! {
    pub(crate) CASE_DECISION: Word<med::Decision> = "decision", Word::ALL, Required, "merchant",
        "How the case ends: in favour of the merchant or of the payer, withdrawn by the payer's bank, or closed without a refund.";
}

pub const RESOLVE_CASE_BODY: BodyFields = BodyFields::strict(&[&CASE_DECISION]);
