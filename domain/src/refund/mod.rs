//! Refunds: money of a settled charge on its way back to its payer (contract: Refund; design: Money). The type and its
//! moves.
//!
//! `acquirer-worker` calls the acquirer. PENDING → `IN_PROGRESS` is its claim: the worker that makes that move requests the
//! refund, and a worker that finds it `IN_PROGRESS` asks for its status. So an unknown outcome stays `IN_PROGRESS` until it
//! is known, and nothing is sent twice.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::account::terms::Fees;
use crate::acquirer::AcquirerName;
use crate::audit::Actor;
use crate::calendar::Day;
use crate::charge::{
    Charge, FundsError, Metadata, RefundAsked, RefundRefused, TransactionStatus, transition,
};
use crate::ids::{AcquirerPaymentId, PostingId, RefundId, Scope, Scoped};
use crate::money::{Amount, Currency, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::pix_key::PixKey;
use crate::row::{Indexes, Key, Row};
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, RefundShare, Retaken, Subject, rules};

/// When `scheduler` first looks at a refund that is not done, in seconds: by then its queue message was lost.
const FIRST_LOOK_SECONDS: i64 = 120;

/// How far a refund is (contract: Refund status).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    /// Its money left the wallet; the acquirer was not asked.
    Pending,
    /// The acquirer was asked, or is being asked.
    InProgress,
    /// It reached the payer.
    Refunded,
    /// It did not, and all of it is given back.
    Failed,
}

impl RefundStatus {
    /// The word in rows and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How a refund ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefundEnd {
    /// It reached the payer.
    Refunded,
    /// It did not.
    Failed,
}

/// The transaction as this step of a refund leaves it. The refund's row carries it, for the records of one change arrive
/// apart, and each must tell all that its events say.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RefundedCharge {
    /// Minor units.
    pub amount: Amount,
    /// Before this step.
    pub previous_status: TransactionStatus,
    /// After it.
    pub status: TransactionStatus,
    /// What refunds that are done gave back.
    pub refunded: MinorUnits,
    /// What was paid with.
    pub paid_with: PaymentMethod,
    /// What of the amount the merchant did not get.
    pub fees: Fees,
    /// What the merchant sent with it.
    #[serde(default, rename = "sent", skip_serializing_if = "Option::is_none")]
    pub payment_details: Option<crate::charge::PaymentDetails>,
    /// The merchant's own map.
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

/// A refund's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Refund {
    /// `re_…`; says which charge it refunds.
    pub id: RefundId,
    /// Whose it is.
    pub scope: Scope,
    /// How far it is.
    pub status: RefundStatus,
    /// The charge's currency.
    pub currency: Currency,
    /// What it took, and from where.
    pub share: RefundShare,
    /// The day whose tranche it took from.
    #[serde(default, with = "domain::calendar::number_option", skip_serializing_if = "Option::is_none")]
    pub release_on: Option<Day>,
    /// Which acquirer makes it: its charge's.
    #[serde(default, skip_serializing_if = "AcquirerName::is_default")]
    pub acquirer: AcquirerName,
    /// The payment that goes back.
    pub payment: AcquirerPaymentId,
    /// The merchant's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where a cash-out goes, if not to the payer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<PixKey>,
    /// Whether that is another than the payer, as far as the bank reported the payer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub third_party: bool,
    /// The day whose limit of refunds to third parties it was taken out of; `None`: there was no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_on: Option<Day>,
    /// Hash of the normalised request: equal for a replay, different when the key is reused for another body.
    pub request_hash: String,
    /// The transaction, as this step leaves it.
    #[serde(rename = "transaction")]
    pub charge: RefundedCharge,
    /// When it was asked for.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When its acquirer was going to be asked.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
    /// The API key that made one of its versions, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

/// What a step of a refund writes: its row, its charge's next version, and what moved.
#[derive(Clone, Debug, PartialEq)]
pub struct RefundStep {
    /// The refund after it.
    pub refund: Refund,
    /// The charge after it.
    pub charge: Charge,
    /// What moved.
    pub posting: Posting,
}

/// How a refund travels, and what that costs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefundPlan {
    /// What is taken of the charge.
    pub asked: RefundAsked,
    /// Where a cash-out goes, if not to the payer.
    pub destination: Option<PixKey>,
    /// Whether that is another than the payer, as far as the bank reported the payer.
    pub third_party: bool,
    /// What refunds to third parties may take in a day, in centavos, where that limits this one.
    pub limit: Option<i64>,
    /// The merchant's words.
    pub reason: Option<String>,
    /// Hash of the request.
    pub request_hash: String,
}

/// What the sort keys of refunds begin with.
pub const SORT: &str = "refund#";

impl Refund {
    /// Where a refund lives: with its charge.
    pub fn key_of(id: RefundId) -> Key {
        Key { sk: format!("{SORT}{}", id.key()), ..Charge::key_of(id.charge()) }
    }

    /// Whether a row of the state table is a refund.
    pub fn is_at(key: &Key) -> bool {
        key.sk.starts_with(SORT) && key.pk.starts_with("charge#")
    }

    /// Whether it ended.
    pub fn is_done(&self) -> bool {
        match self.status {
            RefundStatus::Pending | RefundStatus::InProgress => false,
            RefundStatus::Refunded | RefundStatus::Failed => true,
        }
    }

    /// Takes a refund out of a settled charge.
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
        let Some(applied) = &charge.applied_payment else { return Err(RefundRefused::NotSettled) };
        let now = now.later_than(charge.updated_at);
        let (funds, share) = charge.reserve_refund(&plan.asked)?;
        let next = Charge { funds, ..transition::next_version(charge.clone(), now) };
        let refund = Self {
            id,
            scope: charge.scope,
            status: RefundStatus::Pending,
            currency: charge.currency,
            share,
            release_on: charge.release_on().filter(|_| share.from_pending.is_positive()),
            acquirer: charge.acquirer,
            payment: applied.payment_id.clone(),
            reason: plan.reason,
            destination: plan.destination,
            third_party: plan.third_party,
            limited_on: plan.limit.map(|_| Day::of(now)),
            request_hash: plan.request_hash,
            charge: RefundedCharge::of(charge.status, &next)?,
            created_at: now,
            started_at: None,
            updated_at: now,
            version: 1,
            actor: None,
        };
        let posting = rules::refund_requested(refund.cause(now), &share, refund.release_on)?;
        Ok(RefundStep { refund, charge: next, posting })
    }

    /// The acquirer is going to be asked: the claim of whoever asks. `None`: somebody did before.
    ///
    /// # Errors
    ///
    /// When what the charge's refunds gave back does not fit 64 bits.
    pub fn started(&self, charge: &Charge, now: Timestamp) -> Result<Option<Self>, MoneyError> {
        let now = now.later_than(self.updated_at);
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

    /// The acquirer said what became of it. `None`: it is not in progress; a notice that comes again, or too late,
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// When the charge's funds have no such refund under way.
    pub fn ended(
        &self,
        charge: &Charge,
        end: RefundEnd,
        now: Timestamp,
    ) -> Result<Option<RefundStep>, FundsError> {
        let now = now.later_than(self.updated_at).later_than(charge.updated_at);
        match self.status {
            RefundStatus::InProgress => {}
            RefundStatus::Pending | RefundStatus::Refunded | RefundStatus::Failed => return Ok(None),
        }
        let next = transition::next_version(charge.clone(), now);
        let refund = self.next_version(now);
        let cause = refund.cause(now);
        let (status, charge_after, posting) = match end {
            RefundEnd::Refunded => {
                let funds = charge.funds.completed(charge.amount, &self.share)?;
                let next = Charge { funds, ..next };
                let posting = rules::refund_completed(cause, &self.share)?;
                (RefundStatus::Refunded, Charge { status: next.status_by_funds()?, ..next }, posting)
            }
            RefundEnd::Failed => {
                let (funds, retaken) = charge.funds.failed(charge.amount, &self.share)?;
                let held = self.release_on.filter(|day| now < day.starts_at());
                // Where cases take of it, the movement names the one that opened last.
                let latest = charge.disputes.as_ref().map(|disputes| disputes.case);
                let taker = latest.filter(|_| retaken != Retaken::default());
                let cause = Cause { subject: Subject { case: taker, ..cause.subject }, ..cause };
                let posting = rules::refund_failed(cause, &self.share, held, retaken)?;
                (RefundStatus::Failed, Charge { funds, ..next }, posting)
            }
        };
        let refunded = RefundedCharge::of(charge.status, &charge_after)?;
        let refund = Self { status, charge: refunded, ..refund };
        Ok(Some(RefundStep { refund, charge: charge_after, posting }))
    }

    /// When it came to each of its versions, oldest first: each was a step.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Timestamp)> {
        let times =
            [Some(self.created_at), self.started_at, Some(self.updated_at).filter(|_| self.is_done())];
        (1..).zip(times.into_iter().flatten())
    }

    fn next_version(&self, now: Timestamp) -> Self {
        Self { updated_at: now, version: self.version.saturating_add(1), ..self.clone() }
    }

    /// What the posting of this version is about.
    fn cause(&self, now: Timestamp) -> Cause {
        Cause {
            id: PostingId::derive(now, &self.key().whole(), self.version),
            scope: self.scope,
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
        let look = self.created_at.plus_seconds(FIRST_LOOK_SECONDS).ok();
        Indexes { due: look.filter(|_| !self.is_done()), ..Indexes::default() }
    }
}
