//! Incoming payments: payments that the acquirer reported. Each has a row whose key is the payment's own id.
//! The transaction that applies or returns the payment also inserts this row. When a payment is reported
//! again, its row already exists and nothing changes.

use serde::{Deserialize, Serialize};

use super::Charge;
use super::transition::Payment;
use crate::acquirer::AcquirerName;
use crate::ids::{AcquirerPaymentId, ReturnId, Scope};
use crate::money::Amount;
use crate::payment_method::PaymentMethod;
use crate::row::{Key, Row};
use crate::tax_id::TaxId;
use crate::time::Timestamp;
use crate::wallet::ReturnStatus;

/// The `part` of [`ReturnId::derive`] for a return of the payment's whole amount.
const FULL_RETURN: &str = "whole";

/// Why a payment was returned to its payer and not credited.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnappliedReason {
    /// The amount differs from the charge's. A charge accepts only its exact amount.
    WrongAmount,
    /// The payment was made after the charge expired, or after the charge ended unpaid. Also: the charge
    /// cannot be paid by the payment's method, or its acquirer has not finalised it yet.
    Late,
    /// The charge already has a payment.
    SecondPayment,
    /// The charge's payer lock (`expected_payer_tax_id`) requires another tax id than the payer's.
    PayerMismatch,
    /// A manual review decided to return the held money.
    ReviewReturned,
    /// The merchant cancelled the charge while its payment was held for review.
    Cancelled,
}

/// The return of a payment to its payer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Return {
    /// Why the payment was not credited.
    pub reason: UnappliedReason,
    /// Id of the return, derived from the payment's id.
    pub id: ReturnId,
    /// Status of the return.
    pub status: ReturnStatus,
}

/// The row of an incoming payment.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IncomingPayment {
    /// Id of the payment. For a Pix it is the end-to-end id.
    pub payment_id: AcquirerPaymentId,
    /// Method of the payment.
    pub method: PaymentMethod,
    /// Scope of the charge that the payment was meant for.
    pub scope: Scope,
    /// Raw id of that charge (without `ch_`).
    pub charge: String,
    /// Paid amount in minor units of the charge's currency.
    pub amount: Amount,
    /// When the receiving bank received the payment, as the acquirer reported it.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// When this version of the row was made. Version 1: the service processed the acquirer's notification.
    /// Version 2: it processed the decision to return the held payment.
    #[serde(with = "domain::time::millis")]
    pub recorded_at: Timestamp,
    /// The payer's document, if the bank reported it. It is never shown to merchants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_document: Option<TaxId>,
    /// The return of the payment. `None`: the payment was credited, or is held for review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Return>,
    /// Version of the row; 1 at creation, plus 1 for each change.
    pub version: u64,
}

impl IncomingPayment {
    /// Creates the row of a payment that its charge accepts.
    pub(super) fn applied(charge: &Charge, payment: &Payment, now: Timestamp) -> Self {
        Self {
            payment_id: payment.id.clone(),
            method: payment.method,
            scope: charge.scope,
            charge: charge.id.raw(),
            amount: payment.amount,
            paid_at: payment.paid_at,
            recorded_at: now,
            payer_document: payment.payer_document,
            returned: None,
            version: 1,
        }
    }

    /// Creates the row of a payment that cannot be applied and is returned.
    pub(super) fn unapplied(
        charge: &Charge,
        payment: &Payment,
        reason: UnappliedReason,
        now: Timestamp,
    ) -> Self {
        let incoming = Self::applied(charge, payment, now);
        Self { returned: Some(Return::of(&incoming, reason, charge.acquirer)), ..incoming }
    }

    /// Creates version 2 of the row of a payment that was held for review and is now returned.
    pub(super) fn returned_after_hold(
        charge: &Charge,
        payment: &Payment,
        reason: UnappliedReason,
        now: Timestamp,
    ) -> Self {
        Self { version: 2, ..Self::unapplied(charge, payment, reason, now) }
    }
}

impl Return {
    fn of(incoming: &IncomingPayment, reason: UnappliedReason, acquirer: AcquirerName) -> Self {
        Self {
            reason,
            id: ReturnId::derive(&incoming.payment_id, FULL_RETURN),
            status: ReturnStatus::initial_at(acquirer),
        }
    }
}

impl Row for IncomingPayment {
    fn key(&self) -> Key {
        Key { pk: format!("receipts#{}", self.scope), sk: self.payment_id.to_string() }
    }
}
