//! MED cases: a payer's claim to have a paid Pix back, and card disputes, which are the same object (contract: MED case;
//! design: Money). The type and its moves.
//!
//! The open cases of a charge hold together what they claim, at most what is left to contest ([`crate::charge::Funds`]).
//! One that claims another amount than the charge's moves nothing until an operator confirms it; refunds of its charge
//! wait all the same.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::audit::Actor;
use crate::charge::{Charge, Disputes, FundsError, MedBlock, MedStatus, TransactionStatus, transition};
use crate::ids::{MedCaseId, PostingId, Scope, Scoped};
use crate::money::{Amount, Currency, MinorUnits};
use crate::row::{Indexes, Key, Row, sortable};
use crate::text;
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, Subject, rules};

/// What a case is (contract: MED case, `type`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CaseKind {
    /// A reversal claim on a Pix.
    Med,
    /// An issuer's, on a card.
    Chargeback,
    /// A cardholder's.
    Dispute,
    /// A report of fraud.
    Fraud,
}

impl CaseKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The status of a charge that it disputes.
    fn disputed(self) -> TransactionStatus {
        match self {
            Self::Chargeback => TransactionStatus::Chargeback,
            Self::Med | Self::Dispute | Self::Fraud => TransactionStatus::Dispute,
        }
    }
}

/// How far a case is (contract: MED case status).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CaseStatus {
    /// The merchant may appeal or accept.
    Open,
    /// The merchant contests it.
    Appealed,
    /// The merchant accepted it; lost.
    Accepted,
    /// It was decided for the payer; lost.
    Rejected,
    /// It is over otherwise; `money_outcome` says how.
    Closed,
}

impl CaseStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        match self {
            Self::Open | Self::Appealed => false,
            Self::Accepted | Self::Rejected | Self::Closed => true,
        }
    }
}

/// Where a case's money ended (contract: Meaning of `money_outcome`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MoneyOutcome {
    /// It is back in the balance.
    RefundedToMerchant,
    /// The case is closed, and it is not.
    ClosedWithoutRefund,
    /// The case ended as a loss.
    Lost,
}

/// How a case was decided.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Decision {
    /// In the merchant's favour.
    Merchant,
    /// In the payer's.
    Payer,
    /// The payer withdrew it.
    Withdrawn,
    /// Closed, and the money does not come back.
    ClosedWithoutRefund,
}

impl Decision {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    fn end(self) -> End {
        match self {
            Self::Merchant => End {
                status: CaseStatus::Closed,
                outcome: MoneyOutcome::RefundedToMerchant,
                withdrawn: false,
            },
            Self::Withdrawn => {
                End { status: CaseStatus::Closed, outcome: MoneyOutcome::RefundedToMerchant, withdrawn: true }
            }
            Self::ClosedWithoutRefund => End {
                status: CaseStatus::Closed,
                outcome: MoneyOutcome::ClosedWithoutRefund,
                withdrawn: false,
            },
            Self::Payer => {
                End { status: CaseStatus::Rejected, outcome: MoneyOutcome::Lost, withdrawn: false }
            }
        }
    }
}

/// How a case ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct End {
    status: CaseStatus,
    outcome: MoneyOutcome,
    withdrawn: bool,
}

impl End {
    const ACCEPTED: Self =
        Self { status: CaseStatus::Accepted, outcome: MoneyOutcome::Lost, withdrawn: false };

    /// Whether the money is gone.
    fn is_loss(self) -> bool {
        match self.outcome {
            MoneyOutcome::RefundedToMerchant => false,
            MoneyOutcome::ClosedWithoutRefund | MoneyOutcome::Lost => true,
        }
    }
}

/// A case's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MedCase {
    /// `med_…`; says which charge it contests.
    pub id: MedCaseId,
    /// Whose it is.
    pub scope: Scope,
    /// What it is.
    pub kind: CaseKind,
    /// How far it is.
    pub status: CaseStatus,
    /// Claimed, in minor units.
    pub amount: Amount,
    /// The charge's currency.
    pub currency: Currency,
    /// What it moved: retained when it opened or was confirmed; since it is over, what its end gave back or took. What
    /// several cases claim moves with the first of them that opens and the last that ends.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub moved: MinorUnits,
    /// It claims another amount than the charge's and is not confirmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// What the payer alleges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Until when to answer; `None`: not communicated.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub response_deadline: Option<Timestamp>,
    /// When evidence was asked for.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub evidence_requested_at: Option<Timestamp>,
    /// The merchant's appeal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appeal_reason: Option<String>,
    /// When the merchant appealed.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub appealed_at: Option<Timestamp>,
    /// Evidence that arrived.
    #[serde(default)]
    pub evidence_count: u32,
    /// Where the money ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money_outcome: Option<MoneyOutcome>,
    /// Whether the payer withdrew it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    /// When it was over.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// When it opened.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// The updates that were published since it opened, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<CaseUpdate>,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
    /// The API key that made one of its versions, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

/// A change of a case that is published as `med_case.updated`: another status, or a request for evidence.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CaseUpdate {
    /// The version that it made.
    pub version: u64,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// Updates that a case's row remembers: evidence may be asked for again and again, and a row stays small.
const MAX_TOLD: usize = 16;

/// A payer's bank contests a payment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CaseNotification {
    /// The notification's own id: notifications with the same id open one case.
    pub id: Option<String>,
    /// What the case is.
    pub kind: CaseKind,
    /// What the payer alleges.
    pub reason: Option<String>,
    /// What is said to have happened.
    pub method: Option<&'static str>,
    /// Until when to answer.
    pub response_deadline: Option<Timestamp>,
    /// Claimed; `None`: the charge's whole amount.
    pub amount: Option<Amount>,
}

/// A merchant's appeal: 5 to 2,000 characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppealReason(String);

impl AppealReason {
    /// Its least and most characters (contract: Limits).
    pub const CHARS: (usize, usize) = (5, 2_000);

    /// Takes a text of that length that says something. There is one appeal: a blank one must not use it up.
    pub fn parse(text: &str) -> Option<Self> {
        let (min, max) = Self::CHARS;
        let fits = (min..=max).contains(&text.chars().count());
        let says_something = !text::is_blank(text) && !text.chars().any(text::is_control_but_whitespace);
        (fits && says_something).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a case is not opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CaseRefused {
    /// Nothing was credited for the charge, so nothing is contested.
    #[error("The charge is {}. A MED case needs a charge whose payment was credited.", .0.as_str())]
    NotSettled(TransactionStatus),
    /// The charge's funds do not allow what the case takes.
    #[error(transparent)]
    Funds(#[from] FundsError),
}

/// The most files that a case may have.
pub const MAX_EVIDENCE: u32 = 50;

/// Why a case takes no more evidence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EvidenceRefused {
    /// It is over.
    #[error("The MED case is {}. Evidence can be added only until the case is closed.", .0.as_str())]
    CaseOver(CaseStatus),
    /// It has as many files as a case may have.
    #[error("The MED case already has {MAX_EVIDENCE} files, the maximum.")]
    Full,
}

/// What a move of a case writes.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseStep {
    /// The case after it.
    pub case: MedCase,
    /// The charge after it.
    pub charge: Charge,
    /// What moved.
    pub posting: Option<Posting>,
}

impl CaseStep {
    /// The same, made by an API key. `actor`: the key, of the version that the step makes.
    #[must_use]
    pub fn by(self, actor: impl FnOnce(u64) -> Actor) -> Self {
        let actor = Some(actor(self.case.version));
        Self { case: MedCase { actor, ..self.case }, ..self }
    }
}

/// What the sort keys of cases begin with.
pub const SORT: &str = "case#";

impl MedCase {
    /// Where a case lives: with its charge.
    pub fn key_of(id: MedCaseId) -> Key {
        Key { sk: format!("{SORT}{}", id.key()), ..Charge::key_of(id.charge()) }
    }

    /// Whether a row of the state table is a case.
    pub fn is_at(key: &Key) -> bool {
        key.sk.starts_with(SORT) && key.pk.starts_with("charge#")
    }

    /// A payer's bank contests a charge.
    ///
    /// # Errors
    ///
    /// When nothing was credited for it.
    pub fn open(
        id: MedCaseId,
        charge: &Charge,
        notification: &CaseNotification,
        now: Timestamp,
    ) -> Result<CaseStep, CaseRefused> {
        let Some(applied) = charge.applied_payment.as_ref().filter(|_| charge.settlement.is_some()) else {
            return Err(CaseRefused::NotSettled(charge.status));
        };
        let now = now.later_than(charge.updated_at);
        let amount = notification.amount.unwrap_or(charge.amount);
        let case = Self {
            id,
            scope: charge.scope,
            kind: notification.kind,
            status: CaseStatus::Open,
            amount,
            currency: charge.currency,
            moved: MinorUnits::ZERO,
            unconfirmed: amount != charge.amount,
            reason: notification.reason.clone(),
            response_deadline: notification.response_deadline,
            evidence_requested_at: None,
            appeal_reason: None,
            appealed_at: None,
            evidence_count: 0,
            money_outcome: None,
            withdrawn: false,
            closed_at: None,
            created_at: now,
            told: Vec::new(),
            updated_at: now,
            version: 1,
            actor: None,
        };
        let latest = MedBlock {
            reference_id: applied.payment_id.to_string(),
            status: MedStatus::Created,
            result: None,
            method: notification.method.map(str::to_owned),
            reason: notification.reason.clone(),
            opened_at: now,
            updated_at: now,
            closed_at: None,
            last_event_at: now,
            amount_mismatch: case.unconfirmed,
        };
        let before = charge.disputes.as_ref();
        let (open, unconfirmed) = before.map_or((0, 0), |disputes| (disputes.open, disputes.unconfirmed));
        let lost = before.is_some_and(|disputes| disputes.lost);
        let disputes = Disputes { open, unconfirmed, lost, case: id, latest };
        if case.unconfirmed {
            let disputes = Disputes { unconfirmed: unconfirmed.saturating_add(1), ..disputes };
            let charge = Charge { disputes: Some(disputes), ..transition::next_version(charge.clone(), now) };
            return Ok(CaseStep { case, charge, posting: None });
        }
        Ok(case.disputes(charge, disputes, now)?)
    }

    /// The case retains what is left to contest of its charge, which is disputed from now on.
    fn disputes(self, charge: &Charge, disputes: Disputes, now: Timestamp) -> Result<CaseStep, FundsError> {
        let (funds, held) = charge.funds.case_opened(charge.amount, self.amount)?;
        let status = match charge.status {
            TransactionStatus::Paid | TransactionStatus::Approved => self.kind.disputed(),
            // The first case says how it is disputed; and what was given back whole stays refunded.
            status @ (TransactionStatus::Dispute
            | TransactionStatus::Chargeback
            | TransactionStatus::Pending
            | TransactionStatus::WaitingPayment
            | TransactionStatus::Processing
            | TransactionStatus::Refused
            | TransactionStatus::Cancelled
            | TransactionStatus::Expired
            | TransactionStatus::Refunded) => status,
        };
        let disputes = Disputes { open: disputes.open.saturating_add(1), ..disputes };
        let next = transition::next_version(charge.clone(), now);
        let case = Self { moved: held, unconfirmed: false, ..self };
        let posting =
            if held.is_positive() { Some(rules::case_opened(case.cause(charge, now), held)?) } else { None };
        Ok(CaseStep { charge: Charge { status, funds, disputes: Some(disputes), ..next }, case, posting })
    }

    /// An operator confirms a case that claims another amount than its charge's. `None`: there is nothing to confirm.
    ///
    /// # Errors
    ///
    /// When the charge's funds do not allow what the case takes.
    pub fn confirmed(&self, charge: &Charge, now: Timestamp) -> Result<Option<CaseStep>, FundsError> {
        if !self.unconfirmed || self.status.is_over() {
            return Ok(None);
        }
        let now = self.moment(charge, now);
        let Some(mut disputes) = charge.disputes.clone() else { return Ok(None) };
        disputes.unconfirmed = disputes.unconfirmed.saturating_sub(1);
        if disputes.case == self.id {
            let times = MedBlock { updated_at: now, last_event_at: now, ..disputes.latest };
            disputes.latest = MedBlock { amount_mismatch: false, ..times };
        }
        self.next_version(now).disputes(charge, disputes, now).map(Some)
    }

    /// The merchant contests it. `None`: it is not open.
    pub fn appealed(&self, charge: &Charge, reason: &AppealReason, now: Timestamp) -> Option<CaseStep> {
        let now = self.moment(charge, now);
        (self.status == CaseStatus::Open).then(|| {
            let case = Self {
                status: CaseStatus::Appealed,
                appeal_reason: Some(reason.as_str().to_owned()),
                appealed_at: Some(now),
                ..self.next_told(now)
            };
            case.noted(charge, now)
        })
    }

    /// The merchant accepts it: lost. `None`: it is not open.
    ///
    /// # Errors
    ///
    /// When the charge's funds do not allow what the case takes.
    pub fn accepted(&self, charge: &Charge, now: Timestamp) -> Result<Option<CaseStep>, FundsError> {
        (self.status == CaseStatus::Open).then(|| self.ended(charge, End::ACCEPTED, now)).transpose()
    }

    /// It was decided. `None`: it is over, and a notification that comes again or too late changes nothing.
    ///
    /// # Errors
    ///
    /// When the charge's funds do not allow what the case takes.
    pub fn decided(
        &self,
        charge: &Charge,
        decision: Decision,
        now: Timestamp,
    ) -> Result<Option<CaseStep>, FundsError> {
        (!self.status.is_over()).then(|| self.ended(charge, decision.end(), now)).transpose()
    }

    /// Whether it ended as this decision ends a case.
    pub fn ended_by(&self, decision: Decision) -> bool {
        let End { status, outcome, withdrawn } = decision.end();
        self.status == status && self.money_outcome == Some(outcome) && self.withdrawn == withdrawn
    }

    /// The platform asks for evidence. `None`: it is over.
    pub fn evidence_requested(&self, charge: &Charge, now: Timestamp) -> Option<CaseStep> {
        let now = self.moment(charge, now);
        (!self.status.is_over()).then(|| {
            let case = Self { evidence_requested_at: Some(now), ..self.next_told(now) };
            case.noted(charge, now)
        })
    }

    /// A move without money, which the charge's block notes where it is about this case.
    fn noted(self, charge: &Charge, now: Timestamp) -> CaseStep {
        let noted = |disputes: Disputes| {
            if disputes.case != self.id {
                return disputes;
            }
            let latest = MedBlock { updated_at: now, last_event_at: now, ..disputes.latest };
            Disputes { latest, ..disputes }
        };
        let disputes = charge.disputes.clone().map(noted);
        let charge = Charge { disputes, ..transition::next_version(charge.clone(), now) };
        CaseStep { case: self, charge, posting: None }
    }

    fn ended(&self, charge: &Charge, end: End, now: Timestamp) -> Result<CaseStep, FundsError> {
        let now = self.moment(charge, now);
        let next_case = Self {
            status: end.status,
            money_outcome: Some(end.outcome),
            withdrawn: end.withdrawn,
            closed_at: Some(now),
            unconfirmed: false,
            ..self.next_told(now)
        };
        let cause = next_case.cause(charge, now);
        // What was lost before anybody confirmed it is claimed now.
        let (claimed, held_now) = if self.unconfirmed && end.is_loss() {
            charge.funds.case_opened(charge.amount, self.amount)?
        } else {
            (charge.funds, MinorUnits::ZERO)
        };
        let (funds, moved) = match (end.is_loss(), self.unconfirmed) {
            (true, _) => claimed.case_lost(charge.amount, self.amount)?,
            (false, true) => (charge.funds, MinorUnits::ZERO),
            (false, false) => charge.funds.case_won(charge.amount, self.amount)?,
        };
        let posting = match (moved.is_positive(), end.is_loss()) {
            (true, true) => Some(rules::case_lost(cause, held_now, moved)?),
            (true, false) => Some(rules::case_won(cause, moved)),
            (false, _) => None,
        };
        let disputes = charge.disputes.clone().map(|disputes| self.closed_in(disputes, end, now));
        let next = Charge { funds, disputes, ..transition::next_version(charge.clone(), now) };
        let charge = Charge { status: next.status_by_funds()?, ..next };
        Ok(CaseStep { case: Self { moved, ..next_case }, charge, posting })
    }

    fn closed_in(&self, disputes: Disputes, end: End, now: Timestamp) -> Disputes {
        let (open, unconfirmed) = if self.unconfirmed {
            (disputes.open, disputes.unconfirmed.saturating_sub(1))
        } else {
            (disputes.open.saturating_sub(1), disputes.unconfirmed)
        };
        let lost = disputes.lost || (!self.unconfirmed && end.is_loss());
        let disputes = Disputes { open, unconfirmed, lost, ..disputes };
        if disputes.case != self.id {
            return disputes;
        }
        let result = if end.is_loss() { "agreed" } else { "disagreed" };
        let status = if end.withdrawn { MedStatus::Canceled } else { MedStatus::Closed };
        let latest = MedBlock {
            status,
            result: (!end.withdrawn).then(|| result.to_owned()),
            updated_at: now,
            closed_at: Some(now),
            last_event_at: now,
            ..disputes.latest
        };
        Disputes { latest, ..disputes }
    }

    /// Whether evidence can be added.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn takes_evidence(&self) -> Result<(), EvidenceRefused> {
        if self.status.is_over() {
            return Err(EvidenceRefused::CaseOver(self.status));
        }
        if self.evidence_count >= MAX_EVIDENCE { Err(EvidenceRefused::Full) } else { Ok(()) }
    }

    /// One more file arrived.
    ///
    /// # Errors
    ///
    /// When the case takes no more.
    pub fn with_evidence(&self, now: Timestamp) -> Result<Self, EvidenceRefused> {
        self.takes_evidence()?;
        Ok(Self { evidence_count: self.evidence_count.saturating_add(1), ..self.next_version(now) })
    }

    /// When a move of it and its charge happens that was asked for at `now`: later than the last change of either.
    fn moment(&self, charge: &Charge, now: Timestamp) -> Timestamp {
        now.later_than(self.updated_at).later_than(charge.updated_at)
    }

    fn next_version(&self, now: Timestamp) -> Self {
        let updated_at = now.later_than(self.updated_at);
        Self { updated_at, version: self.version.saturating_add(1), ..self.clone() }
    }

    /// The next version, which is published to subscribers.
    fn next_told(&self, now: Timestamp) -> Self {
        let next = self.next_version(now);
        let update = CaseUpdate { version: next.version, at: now };
        let forgotten = self.told.len().saturating_add(1).saturating_sub(MAX_TOLD);
        let told = self.told.iter().skip(forgotten).copied().chain([update]).collect();
        Self { told, ..next }
    }

    /// What the posting of this version is about.
    fn cause(&self, charge: &Charge, now: Timestamp) -> Cause {
        Cause {
            id: PostingId::derive(now, &self.key().whole(), self.version),
            scope: self.scope,
            currency: self.currency,
            at: now,
            subject: Subject {
                charge: Some(self.id.charge()),
                payment: charge.applied_payment.as_ref().map(|applied| applied.payment_id.clone()),
                case: Some(self.id),
                ..Subject::default()
            },
        }
    }

    /// The partition of a scope's cases in the list index.
    pub fn list_partition(scope: &Scope) -> String {
        format!("cases#{scope}")
    }

    /// The partition of a scope's cases in one status.
    pub fn status_partition(scope: &Scope, status: CaseStatus) -> String {
        format!("cases#{scope}#{}", status.as_str())
    }

    /// The partition of a scope's cases of one kind.
    pub fn kind_partition(scope: &Scope, kind: CaseKind) -> String {
        format!("cases#{scope}#{}", kind.as_str())
    }

    /// Its place in lists: by creation, then by id.
    pub fn list_sort(&self) -> String {
        format!("{}#{}", sortable(self.created_at), self.id)
    }
}

impl Scoped for MedCase {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Row for MedCase {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes {
            list: Some((Self::list_partition(&self.scope), self.list_sort())),
            status: Some(Self::status_partition(&self.scope, self.status)),
            customer: Some(Self::kind_partition(&self.scope, self.kind)),
            due: None,
        }
    }
}
