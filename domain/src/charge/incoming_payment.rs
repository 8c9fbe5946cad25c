//! Incoming payments: each has a row whose key is the payment's own id. The transaction that applies or returns
//! the payment also inserts it. When a payment is reported again, its row exists and nothing changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Charge;
use super::transition::{IncomingPaymentWrite, Payment, RecordedPayment};
use crate::acquirer::{AcquirerName, Charged};
use crate::ids::{AcquirerPaymentId, ChargeId, ConnectionId, PostingId, ReturnId, Scope, Scoped};
use crate::money::{Amount, Currency, MinorUnits};
use crate::payment_method::PaymentMethod;
use crate::row::{Indexes, Key, Row, sortable};
use crate::shard::Shard;
use crate::tax_id::TaxId;
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, ReturnStatus, Subject, rules};

const FULL_RETURN: &str = "whole";

/// Why a payment was returned to its payer and not credited.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ReturnReason", description = "Why a payment was not credited.")]
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
    /// The payment matched no charge, and an operator decided to return it.
    Unmatched,
    /// No payment arrived: a refund came back after it had succeeded. Only operators see it.
    #[schemars(skip)]
    RefundFailed,
}

/// The return of a payment to its payer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Return {
    /// Why the payment was not credited.
    pub reason: UnappliedReason,
    /// Id of the return, derived from the payment's id and the number of the attempt.
    pub id: ReturnId,
    pub status: ReturnStatus,
    /// From 1. A bank that did not execute an attempt is asked again under a new id.
    pub attempt: u32,
    /// The bank's id of the return (`rtrId`), once the bank reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtr_id: Option<String>,
    /// Whether the bank returned the payment by devoluções that this service did not request, such as by MED.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_bank: bool,
}

/// A copy of what a merchant can see of a payment that was not credited. The charge's row contains it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReturnedPayment {
    /// Id of the payment. For a Pix it is the end-to-end id.
    #[serde(rename = "id")]
    pub payment_id: AcquirerPaymentId,
    pub method: PaymentMethod,
    /// Paid amount in minor units of the charge's currency.
    pub amount: Amount,
    /// Why the payment was not credited.
    pub reason: UnappliedReason,
    pub status: ReturnStatus,
    /// When the acquirer received the payment.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// When the status last changed.
    #[serde(rename = "at", with = "domain::time::millis")]
    pub updated_at: Timestamp,
}

impl ReturnedPayment {
    /// Copies an incoming payment. `None`: it is not returned.
    pub fn of(incoming: &IncomingPayment) -> Option<Self> {
        let returned = incoming.returned.as_ref()?;
        Some(Self {
            payment_id: incoming.payment_id.clone(),
            method: incoming.method,
            amount: incoming.amount,
            reason: returned.reason,
            status: returned.status,
            paid_at: incoming.paid_at,
            updated_at: incoming.recorded_at,
        })
    }
}

/// The row of an incoming payment.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct IncomingPayment {
    /// Id of the payment. For a Pix it is the end-to-end id.
    pub payment_id: AcquirerPaymentId,
    pub method: PaymentMethod,
    /// That of the charge. If the payment matched no charge: of the account that owns the receiving Pix key.
    pub scope: Scope,
    /// Raw id of that charge (without `ch_`). `None`: the payment matched no charge.
    pub charge: Option<String>,
    /// Raw id of the charge that it came for, although that one did not take it.
    #[serde(default)]
    pub meant_for: Option<String>,
    /// The bank connection that received the payment. `None`: the acquirer is not a bank.
    pub connection: Option<ConnectionId>,
    /// Paid amount in minor units.
    pub amount: Amount,
    /// That of the charge.
    #[serde(default = "brl", skip_serializing_if = "is_brl")]
    pub currency: Currency,
    /// When the receiving bank received the payment, as the acquirer reported it.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// When this version was made: a notification, a decision about the payment, or progress of its return was
    /// processed.
    #[serde(with = "domain::time::millis")]
    pub recorded_at: Timestamp,
    /// When the first version was made. `None`: this is the first.
    #[serde(default, with = "domain::time::millis_option")]
    pub first_recorded_at: Option<Timestamp>,
    /// Until then, only the worker that wrote this may request the return. A change of the payment removes it.
    #[serde(default, with = "domain::time::millis_option")]
    pub leased_until: Option<Timestamp>,
    /// The payer's document, if the bank reported it. It is never shown to merchants.
    pub payer_document: Option<TaxId>,
    /// What the acquirer took for a payment that no charge took at first. `None`: nothing, or it was not known.
    #[serde(default)]
    pub charged: Option<Charged>,
    /// The return of the payment. `None`: the payment was credited, or is held for review.
    pub returned: Option<Return>,
    pub version: u64,
}

impl IncomingPayment {
    pub(super) fn applied(charge: &Charge, payment: &Payment, now: Timestamp) -> Self {
        let source = (charge.scope, charge.connection_of(payment.method));
        let incoming = Self::of(source, payment, now);
        Self { charge: Some(charge.id.raw()), currency: charge.currency, ..incoming }
    }

    fn of((scope, connection): (Scope, Option<ConnectionId>), payment: &Payment, now: Timestamp) -> Self {
        Self {
            payment_id: payment.id.clone(),
            method: payment.method,
            scope,
            charge: None,
            meant_for: None,
            connection,
            amount: payment.amount,
            currency: Currency::BRL,
            paid_at: payment.paid_at,
            recorded_at: now,
            first_recorded_at: None,
            leased_until: None,
            payer_document: payment.payer_document,
            charged: None,
            returned: None,
            version: 1,
        }
    }

    /// Records under this id that a refund came back after it had succeeded. Its money waits for an operator, like
    /// that of a return that was stopped. `None`: the charge was not paid.
    pub fn refund_came_back(
        charge: &Charge,
        id: AcquirerPaymentId,
        amount: Amount,
        now: Timestamp,
    ) -> Option<RecordedPayment> {
        let applied = charge.applied_payment.as_ref()?;
        let (method, paid_at) = (applied.method, now);
        let payment =
            Payment { id, method, amount, payer_document: None, paid_at, is_in_time: false, charged: None };
        let incoming = Self::unapplied(charge, &payment, UnappliedReason::RefundFailed, now);
        let returned = incoming.returned.map(|back| Return { status: ReturnStatus::Stopped, ..back });
        let incoming = Self { returned, ..incoming };
        let posting = rules::unapplied(incoming.cause(), amount, ReturnStatus::Stopped);
        Some(RecordedPayment { incoming_payment: IncomingPaymentWrite::Insert(incoming), posting })
    }

    /// An operator gives the merchant the money of a refund that came back, or leaves it what its own wallet has.
    /// `None`: it does not wait, or it is neither.
    pub fn credited_to_merchant(&self, now: Timestamp) -> Option<(Self, Posting)> {
        if self.is_unmatched() && self.method.is_self_custody() {
            let next = Self { charge: Some(self.meant_for.clone()?), ..self.next_version(now) };
            let posting = rules::receipt_kept(next.cause(), self.amount);
            return Some((next, posting));
        }
        let back = self.stopped_return()?;
        (back.reason == UnappliedReason::RefundFailed).then(|| {
            let next = Self { returned: None, ..self.next_version(now) };
            let posting = rules::receipt_credited(next.cause(), self.amount);
            (next, posting)
        })
    }

    pub(super) fn unapplied(
        charge: &Charge,
        payment: &Payment,
        reason: UnappliedReason,
        now: Timestamp,
    ) -> Self {
        let incoming = Self::applied(charge, payment, now);
        Self { returned: Some(Return::of(&incoming, reason, charge.acquirer)), ..incoming }
    }

    pub(super) fn returned_after_hold(
        charge: &Charge,
        payment: &Payment,
        reason: UnappliedReason,
        now: Timestamp,
    ) -> Self {
        Self { version: 2, ..Self::unapplied(charge, payment, reason, now) }
    }

    pub(super) fn unmatched(
        (scope, connection): (Scope, ConnectionId),
        payment: &Payment,
        of: Option<&Charge>,
        now: Timestamp,
    ) -> Self {
        let incoming = Self::of((scope, Some(connection)), payment, now);
        let incoming = Self { charged: payment.charged, ..incoming };
        let Some(charge) = of else { return incoming };
        Self { meant_for: Some(charge.id.raw()), currency: charge.currency, ..incoming }
    }

    pub(super) fn applied_to(&self, charge: &Charge, now: Timestamp) -> Self {
        Self { charge: Some(charge.id.raw()), ..self.next_version(now) }
    }

    pub(super) fn payment(&self) -> Payment {
        Payment {
            id: self.payment_id.clone(),
            method: self.method,
            amount: self.amount,
            payer_document: self.payer_document,
            paid_at: self.paid_at,
            is_in_time: false,
            charged: self.charged,
        }
    }

    /// Whether its acquirer took a fee, which the platform bears until a charge takes the payment.
    pub fn has_fee(&self) -> bool {
        self.charged.is_some_and(|charged| !charged.fee.is_zero())
    }

    /// The fee of a payment that was applied to another charge than the one that it came for. Its settlement has the fee.
    pub fn fee_elsewhere(&self, came_for: ChargeId) -> MinorUnits {
        let is_elsewhere = self.charge_id().is_some_and(|charge| charge != came_for);
        self.charged.filter(|_| is_elsewhere).map_or(MinorUnits::ZERO, |charged| charged.fee)
    }

    /// Checks whether the payment matches no charge and waits for an operator.
    pub fn is_unmatched(&self) -> bool {
        self.charge.is_none() && self.returned.is_none()
    }

    /// Returns the charge that the payment was meant for or was applied to.
    pub fn charge_id(&self) -> Option<ChargeId> {
        self.charge.as_deref().and_then(|raw| ChargeId::parse_any(raw).ok())
    }

    /// Returns the charge that it came for, although that one did not take it, or else [`Self::charge_id`].
    pub fn meant_for(&self) -> Option<ChargeId> {
        let meant_for = self.meant_for.as_deref().and_then(|raw| ChargeId::parse_any(raw).ok());
        meant_for.or_else(|| self.charge_id())
    }

    /// The payment after an operator decided to return it, and the posting. `None`: not [`Self::is_unmatched`].
    pub fn return_unmatched(&self, now: Timestamp) -> Option<(Self, Posting)> {
        if !self.is_unmatched() {
            return None;
        }
        let next = self.next_version(now);
        let returned = Some(Return::of(&next, UnappliedReason::Unmatched, AcquirerName::Pix));
        let next = Self { returned, ..next };
        let posting = rules::unmatched_returned(next.cause(), self.amount);
        Some((next, posting))
    }

    /// The payment after its acquirer executed the return, and the posting. `None`: no return is in progress.
    pub fn return_completed(&self, rtr_id: Option<String>, now: Timestamp) -> Option<(Self, Posting)> {
        Some(self.completed(Return { rtr_id, ..self.open_return()?.clone() }, now))
    }

    /// The payment after the bank returned all of it without a request, and the posting. `None`: no return is
    /// in progress.
    pub fn returned_by_bank(&self, now: Timestamp) -> Option<(Self, Posting)> {
        Some(self.completed(Return { by_bank: true, ..self.open_return()?.clone() }, now))
    }

    fn completed(&self, returned: Return, now: Timestamp) -> (Self, Posting) {
        let next = self.next_version(now);
        let returned = Return { status: ReturnStatus::Returned, ..returned };
        let next = Self { returned: Some(returned), ..next };
        let posting = rules::return_completed(next.cause(), self.amount);
        (next, posting)
    }

    /// The next attempt of the return, because the acquirer did not execute the last one and never will. `None`: no
    /// return is in progress.
    pub fn return_retried(&self, now: Timestamp) -> Option<Self> {
        Some(self.requested_again(self.open_return()?, now))
    }

    fn requested_again(&self, last: &Return, now: Timestamp) -> Self {
        let attempt = last.attempt.saturating_add(1);
        let id = self.return_id(attempt);
        let returned = Return { id, attempt, rtr_id: None, status: ReturnStatus::Requested, ..last.clone() };
        Self { returned: Some(returned), ..self.next_version(now) }
    }

    /// Checks whether an id at the bank is that of an attempt to return the payment.
    pub fn has_return_attempt(&self, id: &str) -> bool {
        let attempts = self.returned.as_ref().map_or(0, |returned| returned.attempt);
        (1..=attempts).any(|attempt| self.return_id(attempt).as_str() == id)
    }

    fn return_id(&self, attempt: u32) -> ReturnId {
        match attempt {
            0 | 1 => ReturnId::derive(&self.payment_id, FULL_RETURN),
            later => ReturnId::derive(&self.payment_id, &format!("{FULL_RETURN}#{later}")),
        }
    }

    /// The service stopped trying, and an operator must act. `None`: no return is in progress.
    pub fn return_stopped(&self, now: Timestamp) -> Option<Self> {
        let returned = Return { status: ReturnStatus::Stopped, ..self.open_return()?.clone() };
        Some(Self { returned: Some(returned), ..self.next_version(now) })
    }

    /// An operator requested a stopped return again, under a new id. `None`: the return is not stopped.
    pub fn return_resumed(&self, now: Timestamp) -> Option<Self> {
        Some(self.requested_again(self.stopped_return()?, now))
    }

    /// Checks whether a worker may be requesting the return from the acquirer.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.leased_until.is_some_and(|until| now < until)
    }

    /// When the scheduler first polls the return. Until then, each poll sends the message of the next one.
    pub fn first_due(&self) -> Timestamp {
        self.recorded_at.saturating_plus_seconds(FIRST_DUE_SECONDS)
    }

    /// When the first version was made.
    pub fn first_recorded(&self) -> Timestamp {
        self.first_recorded_at.unwrap_or(self.recorded_at)
    }

    /// Returns the return that the acquirer must still execute.
    pub fn open_return(&self) -> Option<&Return> {
        self.returned.as_ref().filter(|returned| returned.status == ReturnStatus::Requested)
    }

    fn stopped_return(&self) -> Option<&Return> {
        self.returned.as_ref().filter(|returned| returned.status == ReturnStatus::Stopped)
    }

    fn next_version(&self, now: Timestamp) -> Self {
        let recorded_at = now.strictly_after(self.recorded_at);
        let first_recorded_at = self.first_recorded_at.or(Some(self.recorded_at));
        let version = self.version.saturating_add(1);
        Self { recorded_at, first_recorded_at, leased_until: None, version, ..self.clone() }
    }

    fn posting_id(&self, at: Timestamp, version: u64) -> PostingId {
        PostingId::derive(at, &self.key().joined(), version)
    }

    /// The keys of the postings that its first and its last version made: of its return, or of a credit to the
    /// merchant, which is in the statement. `of_charge`: the shard of its charge, which has the first.
    pub fn posting_keys(&self, of_charge: Shard) -> [Key; 3] {
        let first = self.posting_id(self.first_recorded(), 1);
        let last = self.posting_id(self.recorded_at, self.version);
        [(of_charge, first, false), (Shard::FIRST, last, false), (Shard::FIRST, last, true)].map(
            |(shard, id, is_in_statement)| {
                Posting::key_of((&self.scope, shard), self.currency, id, is_in_statement)
            },
        )
    }

    pub(super) fn cause(&self) -> Cause {
        Cause {
            id: self.posting_id(self.recorded_at, self.version),
            scope: self.scope,
            shard: Shard::FIRST,
            currency: self.currency,
            at: self.recorded_at,
            subject: Subject {
                charge: self.charge_id(),
                payment: Some(self.payment_id.clone()),
                ..Subject::default()
            },
        }
    }

    /// The key of a scope's incoming payment. Its shard depends on the payment's id alone.
    pub fn key_of(scope: &Scope, payment: &AcquirerPaymentId) -> Key {
        let shard = Shard::of_payment(payment);
        Key { pk: shard.partition(format!("{PARTITION}{scope}")), sk: payment.to_string() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with(PARTITION)
    }

    /// Whether the payment waits for an operator: it matches no charge, or its return was stopped.
    pub fn waits_for_operator(&self) -> bool {
        self.is_unmatched() || self.stopped_return().is_some()
    }

    /// Returns the partition of the payments that wait for an operator in the `list` index.
    pub fn operators_partition(scope: &Scope) -> String {
        format!("unapplied#{scope}")
    }

    /// Returns the sort key of the payment in that partition.
    pub fn operators_sort(&self) -> String {
        format!("{}#{}", sortable(self.paid_at), self.payment_id)
    }
}

fn brl() -> Currency {
    Currency::BRL
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_brl(currency: &Currency) -> bool {
    *currency == Currency::BRL
}

/// *Receipt* is the older word for an incoming payment.
const PARTITION: &str = "receipts#";

/// In case the queue message was lost.
const FIRST_DUE_SECONDS: i64 = 120;

impl Scoped for IncomingPayment {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Return {
    fn of(incoming: &IncomingPayment, reason: UnappliedReason, acquirer: AcquirerName) -> Self {
        Self {
            reason,
            id: ReturnId::derive(&incoming.payment_id, FULL_RETURN),
            status: ReturnStatus::initial_at(acquirer),
            attempt: 1,
            rtr_id: None,
            by_bank: false,
        }
    }
}

impl Row for IncomingPayment {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, &self.payment_id)
    }

    fn indexes(&self) -> Indexes {
        let list = self
            .waits_for_operator()
            .then(|| (Self::operators_partition(&self.scope), self.operators_sort()));
        let due = self.open_return().map(|_| self.first_due());
        Indexes { list, due, ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests;
