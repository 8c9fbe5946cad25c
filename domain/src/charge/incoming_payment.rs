//! Payments as the acquirer reported them. Each is a row of its own, named by its own id and written with
//! what it caused, so a payment that is reported again finds its row and changes nothing.

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

/// The part of a payment that goes back: all of it.
const WHOLE: &str = "whole";

/// Why a payment was not applied to its charge.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnappliedReason {
    /// Pix pays the exact amount only.
    WrongAmount,
    /// Paid after the charge's time, or after it ended unpaid.
    Late,
    /// The charge already has its payment.
    SecondPayment,
    /// The payer lock names another document.
    PayerMismatch,
    /// A person decided to return money held for review.
    ReviewReturned,
    /// The merchant cancelled while it was held for review.
    Cancelled,
}

/// Money on its way back to its payer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Return {
    /// Why it was not applied.
    pub reason: UnappliedReason,
    /// The return's own id, derived from the payment's.
    pub id: ReturnId,
    /// How far it is.
    pub status: ReturnStatus,
}

/// A payment's row.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IncomingPayment {
    /// The payment's own id: of a Pix, its end-to-end id.
    pub payment_id: AcquirerPaymentId,
    /// By which method.
    pub method: PaymentMethod,
    /// Whose charge it was meant for.
    pub scope: Scope,
    /// The charge's raw id.
    pub charge: String,
    /// What was paid, in minor units of the charge's currency.
    pub amount: Amount,
    /// When the bank took it.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// When its notice, or the decision to return it after all, was worked on.
    #[serde(with = "domain::time::millis")]
    pub recorded_at: Timestamp,
    /// The payer's document where the bank reported it; never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_document: Option<TaxId>,
    /// Its return, where it was not applied; `None`: the charge took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Return>,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl IncomingPayment {
    /// A payment that its charge takes.
    pub(super) fn taken(charge: &Charge, payment: &Payment, now: Timestamp) -> Self {
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

    /// A payment that goes back.
    pub(super) fn unapplied(
        charge: &Charge,
        payment: &Payment,
        reason: UnappliedReason,
        now: Timestamp,
    ) -> Self {
        let taken = Self::taken(charge, payment, now);
        Self { returned: Some(Return::of(&taken, reason, charge.acquirer)), ..taken }
    }

    /// The row of a payment that was taken, and now goes back after all.
    pub(super) fn given_back(
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
        Self { reason, id: ReturnId::derive(&incoming.payment_id, WHOLE), status: ReturnStatus::of(acquirer) }
    }
}

impl Row for IncomingPayment {
    fn key(&self) -> Key {
        Key { pk: format!("receipts#{}", self.scope), sk: self.payment_id.to_string() }
    }
}
