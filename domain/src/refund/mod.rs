//! Refunds: money of a settled charge that is returned to its payer. `acquirer-worker` moves a refund from
//! `PENDING` to `IN_PROGRESS` and takes its lease. Only the holder of the lease requests the refund from the
//! acquirer; any other worker queries its status. So no refund is sent twice, and it stays `IN_PROGRESS` until
//! its outcome is known.

mod reason;

pub use reason::{RefundFailure, RefundReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::account::terms::Fees;
use crate::acquirer::AcquirerName;
use crate::actor::Actor;
use crate::calendar::Day;
use crate::charge::{
    Charge, Funds, FundsError, Metadata, PaymentDetails, RefundParameters, RefundRefused, TransactionStatus,
    transition,
};
use crate::ids::{AcquirerPaymentId, ChargeId, ConnectionId, PostingId, RefundId, ReturnId, Scope, Scoped};
use crate::money::{Amount, Currency, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::pix_key::PixKey;
use crate::request_id::StoredRequestId;
use crate::row::{Indexes, Key, Row};
use crate::shard::{Shard, ShardCount};
use crate::time::Timestamp;
use crate::wallet::{
    CaseClawback, Cause, Posting, RefundShare, RefundStrategy, Subject, TrancheShare, rules,
};

/// How long after its creation or its last change an unfinished refund is due, in seconds, in case its message
/// was lost.
const NEXT_DUE_SECONDS: i64 = 120;

/// Status of a refund.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[schemars(rename = "RefundStatus", description = "The status of a refund.")]
pub enum RefundStatus {
    /// The wallet was debited; the acquirer has not been called.
    Pending,
    /// The acquirer has been called, or is being called.
    InProgress,
    /// The money reached the payer.
    Refunded,
    /// The refund failed, and all its sums are reversed.
    Failed,
}

/// The final outcome of a refund.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundOutcome {
    /// The money reached the payer.
    Refunded,
    Failed,
}

/// Fields of the charge after a change of its refund. The stream delivers the rows of one transaction as
/// separate records, and each must contain all data of its events.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RefundedCharge {
    pub amount: Amount,
    /// Status of the charge before the change.
    pub previous_status: TransactionStatus,
    /// Status of the charge after the change.
    pub status: TransactionStatus,
    /// Sum of the charge's completed refunds.
    pub refunded: MinorUnits,
    pub paid_with: PaymentMethod,
    /// Fees that were deducted at settlement.
    pub fees: Fees,
    /// Fields of the charge that only the payments surface accepts.
    #[serde(default, rename = "sent", skip_serializing_if = "Option::is_none")]
    pub payment_details: Option<crate::charge::PaymentDetails>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl RefundedCharge {
    fn of(before: TransactionStatus, charge: &Charge) -> Result<Self, MoneyError> {
        Ok(Self {
            amount: charge.amount,
            previous_status: before,
            status: charge.status,
            refunded: charge.funds.refunded()?,
            paid_with: charge.method(),
            fees: charge.settlement.map(|settlement| settlement.fees).unwrap_or_default(),
            payment_details: charge.payment_details.clone(),
            metadata: charge.metadata.clone(),
        })
    }
}

/// The row of a refund.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Refund {
    /// `re_…`; contains the charge's id.
    pub id: RefundId,
    pub scope: Scope,
    /// The `shards` of the charge.
    #[serde(default, skip_serializing_if = "ShardCount::is_one")]
    pub shards: ShardCount,
    pub status: RefundStatus,
    /// The charge's currency.
    pub currency: Currency,
    /// The sums that the refund takes from each source of money.
    pub share: RefundShare,
    /// Release day of the pending money that the refund took. `None`: it took no pending money.
    #[serde(default, with = "domain::calendar::number_option")]
    pub release_on: Option<Day>,
    /// The pending money of other charges that the refund took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tranches: Vec<TrancheShare>,
    /// The charge's acquirer, which sends the refund.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub acquirer: AcquirerName,
    /// The charge's bank connection. `None`: the acquirer is not a bank.
    pub connection: Option<ConnectionId>,
    pub payment: AcquirerPaymentId,
    /// The id of a devolução that the merchant or the bank made without a request. `None`: the service requests
    /// it.
    pub requested_at_bank: Option<String>,
    /// The bank's id of the devolução (`rtrId`) or of the Pix out, once the bank reported it.
    pub rtr_id: Option<String>,
    pub failure_reason: Option<RefundFailure>,
    /// Why the refund was made. `None`: the merchant gave no reason.
    pub reason: Option<RefundReason>,
    /// Pix key of a cash-out. `None`: the payer's document or, if the bank reported none, the account that
    /// paid.
    pub destination: Option<PixKey>,
    /// True when the request named no key, so `destination` is the payer's document. Merchants do not see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_payer: bool,
    /// True when `destination` is not the payer's document as the bank reported it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub third_party: bool,
    /// The day whose limit of refunds to third parties includes it. `None`: no limit applied.
    pub limited_on: Option<Day>,
    /// Hash of the normalised request, which distinguishes a replay from another request with the same
    /// idempotency key.
    pub request_hash: String,
    /// The request that created the refund, or the charge if no request created the refund.
    #[serde(rename = "rid")]
    pub request_id: StoredRequestId,
    /// Fields of the charge after the refund's latest change.
    #[serde(rename = "transaction")]
    pub charge: RefundedCharge,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When a worker claimed the refund to call the acquirer.
    #[serde(default, with = "domain::time::millis_option")]
    pub started_at: Option<Timestamp>,
    /// Until then, only the worker that wrote this may request the refund. A change of the refund removes it.
    #[serde(default, with = "domain::time::millis_option")]
    pub leased_until: Option<Timestamp>,
    /// How many requests the acquirer will never execute, because it stored a failure for them. The next request
    /// is another one.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub spent_requests: u32,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
    /// The API key that last changed the row, with the version that it wrote; the source of audit rows.
    pub actor: Option<Actor>,
}

/// The rows that a change of a refund writes in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct RefundStep {
    pub refund: Refund,
    pub charge: Charge,
    pub posting: Posting,
}

impl RefundStep {
    /// Takes a part of the available money from the pending money of other charges instead.
    pub fn taking(self, tranches: Vec<TrancheShare>) -> Result<Self, MoneyError> {
        let Self { mut refund, charge, posting } = self;
        let share = &mut refund.share;
        share.from_available = share.from_available.checked_sub(TrancheShare::sum(&tranches)?)?;
        refund.tranches = tranches;
        let from = (refund.release_on, &refund.tranches[..]);
        let posting =
            rules::refund_requested(refund.cause(posting.at), &refund.share, from, MinorUnits::ZERO)?;
        Ok(Self { refund, charge, posting })
    }
}

/// A validated refund request: the sums, the destination and the limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefundPlan {
    /// The parameters that determine which sums the refund takes from the charge.
    pub parameters: RefundParameters,
    /// Pix key that a cash-out is sent to. `None`: it is sent to the payer.
    pub destination: Option<PixKey>,
    /// True when the request named no key, so `destination` is the payer's document.
    pub to_payer: bool,
    /// True when `destination` is not the payer's document as the bank reported it.
    pub third_party: bool,
    /// Daily limit of refunds to third parties in centavos. `None`: no limit applies to this refund.
    pub limit: Option<i64>,
    /// Why the refund is made.
    pub reason: Option<RefundReason>,
    /// Hash of the normalised request.
    pub request_hash: String,
}

/// Prefix of the sort keys of refunds.
pub const SORT: &str = "refund#";

impl Refund {
    /// Returns the primary key of a refund. The row is in its charge's partition.
    pub fn key_of(id: RefundId) -> Key {
        Key { sk: format!("{SORT}{}", id.key()), ..Charge::key_of(id.charge()) }
    }

    pub fn is_at(key: &Key) -> bool {
        key.sk.starts_with(SORT) && key.pk.starts_with("charge#")
    }

    pub fn is_done(&self) -> bool {
        match self.status {
            RefundStatus::Pending | RefundStatus::InProgress => false,
            RefundStatus::Refunded | RefundStatus::Failed => true,
        }
    }

    /// Checks whether a worker may be requesting the refund from the acquirer.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.leased_until.is_some_and(|until| now < until)
    }

    /// When the scheduler first polls the refund. Until then, each poll sends the message of the next one.
    pub fn first_due(&self) -> Timestamp {
        // The time of the creation until then, so that the usual changes do not move the entry.
        let first_due = self.created_at.saturating_plus_seconds(NEXT_DUE_SECONDS);
        let is_early = self.updated_at < first_due;
        if is_early { first_due } else { self.updated_at.saturating_plus_seconds(NEXT_DUE_SECONDS) }
    }

    /// Reserves the money of a refund. Fails when the charge is not settled, is refunded in full, has an open
    /// or lost MED case, or has less than the requested amount left.
    pub fn request(
        id: RefundId,
        charge: &Charge,
        plan: RefundPlan,
        now: Timestamp,
    ) -> Result<RefundStep, RefundRefused> {
        match charge.status {
            TransactionStatus::Paid
            | TransactionStatus::Approved
            | TransactionStatus::Dispute
            | TransactionStatus::Chargeback
                if charge.has_open_case() =>
            {
                return Err(RefundRefused::Disputed);
            }
            TransactionStatus::Paid | TransactionStatus::Approved => {}
            TransactionStatus::Dispute | TransactionStatus::Chargeback => {
                return Err(RefundRefused::CaseLost);
            }
            TransactionStatus::Pending
            | TransactionStatus::WaitingPayment
            | TransactionStatus::Processing
            | TransactionStatus::Refused
            | TransactionStatus::Cancelled
            | TransactionStatus::Expired
            | TransactionStatus::Refunded => return Err(RefundRefused::NotSettled),
        }
        let (funds, share) = charge.reserve_refund(&plan.parameters)?;
        Self::reserved(id, charge, plan, (funds, share, MinorUnits::ZERO), now)
    }

    /// The refund of a devolução that this service did not request. The bank has executed it, so neither an
    /// open refund, an open MED case nor the balance can prevent it. Fails when the charge is not settled.
    pub fn requested_at_bank(
        charge: &Charge,
        (devolucao, rtr_id, reason): (&str, Option<String>, RefundReason),
        gross: Amount,
        is_held: bool,
        now: Timestamp,
    ) -> Result<RefundStep, RefundRefused> {
        let settlement = charge.settlement.as_ref().ok_or(RefundRefused::NotSettled)?;
        let parameters = RefundParameters {
            gross: Some(gross),
            strategy: RefundStrategy::Devolution,
            pix_out_fee: MinorUnits::ZERO,
            merchant_bears_pix_out: false,
            is_held,
        };
        let (funds, share, released) = charge.funds.reserve_unconditionally(
            (charge.amount, charge.contested()),
            settlement,
            &parameters,
        )?;
        let plan = RefundPlan {
            parameters,
            destination: None,
            to_payer: false,
            third_party: false,
            limit: None,
            reason: Some(reason),
            request_hash: String::new(),
        };
        let id = Self::id_of_bank_return(charge.id, devolucao);
        let step = Self::reserved(id, charge, plan, (funds, share, released), now)?;
        let requested_at_bank = Some(devolucao.to_owned());
        Ok(RefundStep { refund: Self { requested_at_bank, rtr_id, ..step.refund }, ..step })
    }

    /// Returns the id of the refund for a devolução that this service did not request.
    pub fn id_of_bank_return(charge: ChargeId, devolucao: &str) -> RefundId {
        RefundId::derive(charge, &format!("bank#{devolucao}"))
    }

    /// The end-to-end id of a refund by Pix, once the bank reported it. What other acquirers assign is for operators
    /// alone.
    pub fn end_to_end_id(&self) -> Option<&str> {
        self.rtr_id.as_deref().filter(|_| self.acquirer != AcquirerName::Hosted)
    }

    /// The id of the payment that records that this refund came back after it had succeeded, if it did. A devolução
    /// never comes back.
    pub fn came_back_as(&self) -> Option<AcquirerPaymentId> {
        let id = self.requested_at_bank.as_ref().or(self.rtr_id.as_ref());
        id.filter(|_| self.acquirer == AcquirerName::Hosted)?.parse().ok()
    }

    /// Returns the id under which the bank executes the refund: of a devolução, or of a Pix out.
    pub fn bank_id(&self) -> String {
        match &self.requested_at_bank {
            Some(id) => id.clone(),
            None => ReturnId::derive(&self.payment, &self.id.to_string()).to_string(),
        }
    }

    fn reserved(
        id: RefundId,
        charge: &Charge,
        plan: RefundPlan,
        (funds, share, released): (Funds, RefundShare, MinorUnits),
        now: Timestamp,
    ) -> Result<RefundStep, RefundRefused> {
        let Some(applied) = &charge.applied_payment else { return Err(RefundRefused::NotSettled) };
        let now = now.strictly_after(charge.updated_at);
        let next = Charge { funds, ..transition::next_version(charge.clone(), now) };
        let refund = Self {
            id,
            scope: charge.scope,
            shards: charge.shards,
            status: RefundStatus::Pending,
            currency: charge.currency,
            share,
            release_on: charge.release_on().filter(|_| share.from_pending.is_positive()),
            tranches: Vec::new(),
            acquirer: charge.acquirer_of(applied.method),
            connection: charge.connection_of(applied.method),
            payment: applied.payment_id.clone(),
            requested_at_bank: None,
            rtr_id: None,
            failure_reason: None,
            reason: plan.reason,
            destination: plan.destination,
            to_payer: plan.to_payer,
            third_party: plan.third_party,
            limited_on: plan.limit.map(|_| Day::of(now)),
            request_hash: plan.request_hash,
            request_id: charge.request_id.clone(),
            charge: RefundedCharge::of(charge.status, &next)?,
            created_at: now,
            started_at: None,
            leased_until: None,
            spent_requests: 0,
            updated_at: now,
            version: 1,
            actor: None,
        };
        let posting = rules::refund_requested(refund.cause(now), &share, (refund.release_on, &[]), released)?;
        Ok(RefundStep { refund, charge: next, posting })
    }

    /// Claims a pending refund for the worker that is about to call the acquirer. `None`: it was claimed
    /// before.
    pub fn started(&self, charge: &Charge, now: Timestamp) -> Result<Option<Self>, MoneyError> {
        let now = now.strictly_after(self.updated_at);
        match self.status {
            RefundStatus::Pending => {
                let refunded = RefundedCharge::of(charge.status, charge)?;
                let status = RefundStatus::InProgress;
                let next = self.next_version(now);
                Ok(Some(Self { status, charge: refunded, started_at: Some(now), ..next }))
            }
            RefundStatus::InProgress | RefundStatus::Refunded | RefundStatus::Failed => Ok(None),
        }
    }

    /// Applies the final outcome. `None`: the refund is not in progress, so a repeated or late notification
    /// changes nothing. Fails when the charge's funds do not contain the refund.
    pub fn ended(
        &self,
        charge: &Charge,
        end: RefundOutcome,
        now: Timestamp,
    ) -> Result<Option<RefundStep>, FundsError> {
        let now = now.strictly_after(self.updated_at).strictly_after(charge.updated_at);
        match self.status {
            RefundStatus::InProgress => {}
            RefundStatus::Pending | RefundStatus::Refunded | RefundStatus::Failed => return Ok(None),
        }
        let next = transition::next_version(charge.clone(), now);
        let refund = self.next_version(now);
        let cause = refund.cause(now);
        let (status, charge_after, posting) = match end {
            RefundOutcome::Refunded => {
                let funds = charge.funds.completed(charge.contested(), &self.share)?;
                let next = Charge { funds, ..next };
                let posting = rules::refund_completed(cause, &self.share)?;
                (RefundStatus::Refunded, Charge { status: next.status_by_funds()?, ..next }, posting)
            }
            RefundOutcome::Failed => {
                let funds = match self.requested_at_bank {
                    None => charge.funds,
                    Some(_) => charge.funds.without_bank_return(&self.share)?,
                };
                let (funds, clawback) = funds.failed(charge.contested(), &self.share)?;
                let held = self.release_on.filter(|day| now < day.starts_at());
                // MED cases may claim the money that the failed refund gives back (`clawback`). The posting
                // then refers to one case: the one that opened last.
                let latest = charge.disputes.as_ref().map(|disputes| disputes.case);
                let claiming_case = latest.filter(|_| clawback != CaseClawback::default());
                let cause = Cause { subject: Subject { case: claiming_case, ..cause.subject }, ..cause };
                let posting = rules::refund_failed(cause, &self.share, (held, &self.tranches), clawback)?;
                (RefundStatus::Failed, Charge { funds, ..next }, posting)
            }
        };
        let refunded = RefundedCharge::of(charge.status, &charge_after)?;
        let refund = Self { status, charge: refunded, ..refund };
        Ok(Some(RefundStep { refund, charge: charge_after, posting }))
    }

    /// Returns the refund with the bank's id of the devolução or Pix out.
    #[must_use]
    pub fn with_rtr_id(self, rtr_id: Option<String>) -> Self {
        Self { rtr_id: rtr_id.or(self.rtr_id), ..self }
    }

    /// How a Pix is returned. `None`: the refund is of another method, which has one way only.
    pub fn pix_strategy(&self) -> Option<RefundStrategy> {
        (self.charge.paid_with == PaymentMethod::Pix).then_some(self.share.strategy)
    }

    /// The words of the merchant who requested the refund.
    pub fn merchants_reason(&self) -> Option<&str> {
        let Some(RefundReason::Merchant(text)) = &self.reason else { return None };
        Some(text)
    }

    /// Returns the refund with the reason for its failure. A refund that did not fail gets none.
    #[must_use]
    pub fn with_failure_reason(self, reason: Option<RefundFailure>) -> Self {
        Self { failure_reason: reason.filter(|_| self.status == RefundStatus::Failed), ..self }
    }

    /// The versions of the refund, oldest first. Each is a new status.
    pub fn steps(&self) -> impl Iterator<Item = (u64, RefundStatus, Timestamp)> {
        let created = Some((RefundStatus::Pending, self.created_at));
        let started = self.started_at.map(|at| (RefundStatus::InProgress, at));
        let ended = Some((self.status, self.updated_at)).filter(|_| self.is_done());
        let steps = [created, started, ended].into_iter().flatten();
        (1..).zip(steps).map(|(version, (status, at))| (version, status, at))
    }

    /// The next version of an ended refund without the merchant's reason and the charge's metadata. `None`: it
    /// has none.
    pub fn erased(&self) -> Option<Self> {
        let mut erased = Self { reason: None, ..self.clone() };
        erased.charge.metadata = Metadata::default();
        erased.charge.payment_details = self.charge.payment_details.as_ref().map(PaymentDetails::erased);
        // The time of the last change stays, because the ids of the refund's events are derived from it.
        (erased != *self).then(|| Self { version: self.version.saturating_add(1), ..erased })
    }

    /// The keys of the postings that the refund's request and its end may have made.
    pub fn posting_keys(&self) -> Vec<Key> {
        let key = |(version, at, is_in_statement): (u64, Timestamp, bool)| {
            let id = PostingId::derive(at, &self.key().joined(), version);
            Posting::key_of((&self.scope, self.shard()), self.currency, id, is_in_statement)
        };
        let of_step = |(version, status, at)| match status {
            RefundStatus::Pending | RefundStatus::Failed => vec![(version, at, true)],
            RefundStatus::InProgress => Vec::new(),
            RefundStatus::Refunded => vec![(version, at, false), (version, at, true)],
        };
        self.steps().flat_map(of_step).map(key).collect()
    }

    fn next_version(&self, now: Timestamp) -> Self {
        let version = self.version.saturating_add(1);
        Self { updated_at: now, leased_until: None, version, ..self.clone() }
    }

    /// Returns the shard of the refund's charge, in which the refund's events and postings are.
    pub fn shard(&self) -> Shard {
        self.shards.shard_of(self.id.charge())
    }

    fn cause(&self, now: Timestamp) -> Cause {
        Cause {
            id: PostingId::derive(now, &self.key().joined(), self.version),
            scope: self.scope,
            shard: self.shard(),
            currency: self.currency,
            at: now,
            subject: Subject {
                charge: Some(self.id.charge()),
                payment: Some(self.payment.clone()),
                refund: Some(self.id),
                ..Subject::default()
            },
        }
    }
}

impl Scoped for Refund {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Row for Refund {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: Some(self.first_due()).filter(|_| !self.is_done()), ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests;
