//! MED cases: a payer's claim to get the money of a Pix back, or a dispute about a card payment.
//!
//! The open cases of a charge retain the sum of their claims, limited to the amount that can still be contested
//! ([`crate::charge::Funds`]). A case that claims an amount other than the charge's moves no money until an
//! operator confirms it or it is lost. A charge with an open or unconfirmed case cannot be refunded. The
//! payer's bank can take a part of the claim before the case ends; the case's end decides the rest.

#[cfg(test)]
mod tests;

mod notice;

pub use notice::{InfractionStatus, MedNotice, NoticeContent, NoticeStatus, Situation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::actor::Actor;
use crate::charge::{
    Charge, Disputes, Funds, FundsError, MedBlock, MedStatus, TransactionStatus, transition,
};
use crate::ids::{MedCaseId, PostingId, Scope, Scoped};
use crate::money::{Amount, Currency, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::request_id::StoredRequestId;
use crate::row::{Indexes, Key, Row, sortable};
use crate::shard::{Shard, ShardCount};
use crate::text;
use crate::time::Timestamp;
use crate::wallet::{Cause, Posting, Subject, rules};

/// The type of a case.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "MedCaseType", description = "The type of a case.")]
pub enum CaseKind {
    /// Reversal claim on a Pix.
    Med,
    /// Chargeback by a card issuer.
    Chargeback,
    /// Dispute opened by a card holder.
    Dispute,
    /// Report of fraud.
    Fraud,
}

crate::named!(CaseKind);

impl CaseKind {
    fn disputed(self) -> TransactionStatus {
        match self {
            Self::Chargeback => TransactionStatus::Chargeback,
            Self::Med | Self::Dispute | Self::Fraud => TransactionStatus::Dispute,
        }
    }
}

/// Status of a case.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "MedCaseStatus", description = "The status of a case.")]
pub enum CaseStatus {
    /// The merchant may appeal or accept.
    Open,
    /// The merchant appealed.
    Appealed,
    /// The merchant accepted the claim. The case is lost.
    Accepted,
    /// The decision was in the payer's favour. The case is lost.
    Rejected,
    /// The case ended in another way. `money_outcome` says who has the money.
    Closed,
}

crate::named!(CaseStatus);

impl CaseStatus {
    /// Checks whether the status is final.
    pub fn is_over(self) -> bool {
        match self {
            Self::Open | Self::Appealed => false,
            Self::Accepted | Self::Rejected | Self::Closed => true,
        }
    }
}

/// Who has the contested money after the case's end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MoneyOutcome", description = "Who has the contested money after the end of a case.")]
pub enum MoneyOutcome {
    /// The money is back in the merchant's balance.
    RefundedToMerchant,
    /// The case is closed, and the merchant does not get the money back.
    ClosedWithoutRefund,
    /// The merchant lost the money.
    Lost,
}

/// How a case is decided.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Decision {
    /// Decided in the merchant's favour.
    Merchant,
    /// Decided in the payer's favour.
    Payer,
    /// Withdrawn by the payer.
    Withdrawn,
    /// Closed without returning the money to the merchant.
    ClosedWithoutRefund,
}

crate::named!(Decision);

impl Decision {
    fn end(self) -> CaseEnd {
        let (status, outcome) = match self {
            Self::Merchant | Self::Withdrawn => (CaseStatus::Closed, MoneyOutcome::RefundedToMerchant),
            Self::ClosedWithoutRefund => (CaseStatus::Closed, MoneyOutcome::ClosedWithoutRefund),
            Self::Payer => (CaseStatus::Rejected, MoneyOutcome::Lost),
        };
        CaseEnd { status, outcome, withdrawn: self == Self::Withdrawn }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct CaseEnd {
    status: CaseStatus,
    outcome: MoneyOutcome,
    withdrawn: bool,
}

impl CaseEnd {
    const ACCEPTED: Self =
        Self { status: CaseStatus::Accepted, outcome: MoneyOutcome::Lost, withdrawn: false };

    fn is_loss(self) -> bool {
        match self.outcome {
            MoneyOutcome::RefundedToMerchant => false,
            MoneyOutcome::ClosedWithoutRefund | MoneyOutcome::Lost => true,
        }
    }
}

/// The row of a case.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MedCase {
    /// `med_…`; contains the charge's id.
    pub id: MedCaseId,
    pub scope: Scope,
    /// The `shards` of the charge.
    #[serde(default, skip_serializing_if = "ShardCount::is_one")]
    pub shards: ShardCount,
    pub kind: CaseKind,
    pub status: CaseStatus,
    /// Claimed amount in minor units.
    pub amount: Amount,
    /// The charge's currency.
    pub currency: Currency,
    /// Sum of the latest money movement: what the open case retains, without lost parts; after its end, what
    /// was returned or lost. Of several cases that claim the same money, the first to open retains it and the
    /// last to end returns it. So it can be less than the claim.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub moved: MinorUnits,
    /// Part of the claim that the payer's bank has taken before the case's end.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub lost: MinorUnits,
    /// What a card scheme took after the case's end. Negative: it gave back.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub lost_later: MinorUnits,
    /// How many movements of the acquirer's balance the loss contains. A report of fewer is older.
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub movements: u32,
    /// Waits for an operator's confirmation, because the claim differs from the charge's amount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// Reason that the payer alleges.
    pub reason: Option<String>,
    /// Deadline for the merchant's response. `None`: not communicated.
    #[serde(default, with = "domain::time::millis_option")]
    pub response_deadline: Option<Timestamp>,
    /// `reported_at` of the latest notice that changed the case. An older notice changes nothing. `None`: no
    /// notice opened it.
    #[serde(default, with = "domain::time::millis_option")]
    pub reported_at: Option<Timestamp>,
    /// True when a devolução by MED opened the case, because no open case claimed the returned money.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened_by_return: bool,
    /// The infraction of a case with `opened_by_return`, once a notice names it. The ids of other cases contain
    /// theirs.
    pub infraction: Option<String>,
    /// When the platform last requested evidence.
    #[serde(default, with = "domain::time::millis_option")]
    pub evidence_requested_at: Option<Timestamp>,
    pub appeal_reason: Option<String>,
    /// Text of an appeal that is not sent yet.
    pub appeal_draft: Option<String>,
    #[serde(default, with = "domain::time::millis_option")]
    pub appealed_at: Option<Timestamp>,
    /// Number of evidence files with a confirmed upload.
    pub evidence_count: u32,
    /// How many submissions of evidence the acquirer will never execute, because it stored a failure for them.
    #[serde(default, skip_serializing_if = "crate::row::is_default")]
    pub spent_submissions: u32,
    /// Who has the contested money. `None`: the case is not over.
    pub money_outcome: Option<MoneyOutcome>,
    /// True when the payer withdrew the claim.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
    #[serde(default, with = "domain::time::millis_option")]
    pub closed_at: Option<Timestamp>,
    /// The request that created the charge.
    #[serde(rename = "rid")]
    pub request_id: StoredRequestId,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Updates published as `med_case.updated`, oldest first. At most the latest 16 are stored.
    #[serde(default, rename = "told", skip_serializing_if = "Vec::is_empty")]
    pub published_updates: Vec<CaseUpdate>,
    /// Reminders of the deadline, published as `med_case.deadline_approaching`, oldest first. At most the latest 16
    /// are stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reminders: Vec<CaseUpdate>,
    /// The changes that moved money, oldest first. Their postings are found by them. At most the latest 16 are
    /// stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub money_moves: Vec<CaseUpdate>,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
    /// The API key that last changed the row, with the version that it wrote; the source of audit rows.
    pub actor: Option<Actor>,
}

/// What an acquirer has taken for a dispute, without fees, once it has decided the dispute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Taken {
    /// The sum in minor units of the charge's currency.
    pub minor: MinorUnits,
    /// The number of movements of the acquirer's balance that it adds up.
    pub movements: u32,
}

/// A change of a case that is published: as `med_case.updated` a status change or a request for evidence, as
/// `med_case.deadline_approaching` a reminder.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct CaseUpdate {
    /// Version of the case that the change wrote.
    pub version: u64,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// The part of a loss that was not retained before. Negative: more was retained than is lost.
fn held_now(charge: &Charge, after: &Funds, lost: MinorUnits) -> Result<MinorUnits, MoneyError> {
    after.med_held.checked_sub(charge.funds.med_held)?.checked_add(lost)
}

/// How long before the deadline an open case reminds of it, in seconds: 48, 24 and 6 hours. There is time left to
/// collect evidence, to write the appeal, and to send it.
const REMINDER_SECONDS: [i64; 3] = [48 * 3_600, 24 * 3_600, 6 * 3_600];

/// Evidence may be requested any number of times, and the row must stay small.
const MAX_UPDATES: usize = 16;

/// Returns the update that is dropped.
pub(crate) fn add_update(updates: &mut Vec<CaseUpdate>, update: CaseUpdate) -> Option<CaseUpdate> {
    updates.push(update);
    (updates.len() > MAX_UPDATES).then(|| updates.remove(0))
}

/// The acquirer's notification that a payment is contested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CaseNotification {
    /// Notifications about one charge with the same id open one case. `None`: each opens a case.
    pub id: Option<String>,
    pub kind: CaseKind,
    /// Reason that the payer alleges.
    pub reason: Option<String>,
    /// Alleged fraud method, as in `metadata.med.method`.
    pub method: Option<&'static str>,
    /// Deadline for the merchant's response. `None`: not communicated.
    pub response_deadline: Option<Timestamp>,
    /// Claimed amount in minor units. `None`: the charge's whole amount.
    pub amount: Option<Amount>,
    /// When the payer's bank reported the state that the notification describes. `None`: not communicated.
    pub reported_at: Option<Timestamp>,
}

/// The text of a merchant's appeal: 5 to 2,000 characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppealReason(String);

impl AppealReason {
    /// Minimum and maximum number of characters.
    pub const CHARS: (usize, usize) = (5, 2_000);

    /// A case can be appealed only once, so a blank text must not use up the appeal. `None`: not
    /// [`Self::CHARS`] long, blank, or with control characters other than line breaks and tabs.
    pub fn parse(text: &str) -> Option<Self> {
        let (min, max) = Self::CHARS;
        let fits = (min..=max).contains(&text.chars().count());
        let is_legible = !text::is_blank(text) && !text.chars().any(text::is_control_but_whitespace);
        (fits && is_legible).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Most characters of a stored draft: twice those of an appeal, so that a text that was refused as too long can
/// be shortened.
const MAX_DRAFT_CHARS: usize = 4_000;

/// Why a case cannot be opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CaseRefused {
    /// No payment was credited for the charge, so there is nothing to contest.
    #[error("The charge is {}. A MED case needs a charge whose payment was credited.", .0.as_str())]
    NotSettled(TransactionStatus),
    /// The payer's bank has no claim, and the service no money to retain.
    #[error("A payment to the merchant's own wallet can't be disputed.")]
    SelfCustody,
    /// The case would make the charge's funds inconsistent.
    #[error(transparent)]
    Funds(#[from] FundsError),
}

/// Maximum number of evidence files of a case.
pub(crate) const MAX_EVIDENCE: u32 = 50;

/// The most upload URLs of a case within seven days, which bounds what unconfirmed files can cost: 1 GB.
pub const MAX_UPLOADS: usize = 100;

/// Why a case accepts no more evidence.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EvidenceRefused {
    /// The case is over: it is neither open nor appealed. The response is a 400.
    #[error("The MED case is {}. Evidence can be added only until the case is closed.", .0.as_str())]
    CaseOver(CaseStatus),
    /// The case is no longer open, so that a file can't be removed. The response is a 400.
    #[error("The MED case is {}. Evidence can be removed only while the case is open.", .0.as_str())]
    Sent(CaseStatus),
    /// The case has the maximum number of files. The response is a 422.
    #[error("The MED case already has {MAX_EVIDENCE} files, the maximum.")]
    Full,
    /// Too many upload URLs were requested. The response is a 422.
    #[error("The MED case has had {MAX_UPLOADS} upload URLs within seven days, the maximum.")]
    TooManyUploads,
}

/// The rows that a change of a case writes in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseStep {
    pub case: MedCase,
    pub charge: Charge,
    /// The ledger posting. `None`: no money moved.
    pub posting: Option<Posting>,
}

impl CaseStep {
    /// Records the API key that requested the change, for the version that it writes.
    #[must_use]
    pub fn by(self, actor: impl FnOnce(u64) -> Actor) -> Self {
        let actor = Some(actor(self.case.version));
        Self { case: MedCase { actor, ..self.case }, ..self }
    }
}

/// Prefix of the sort keys of cases.
pub const CASE_SORT: &str = "case#";

impl MedCase {
    /// Returns the primary key of a case. The row is in its charge's partition.
    pub fn key_of(id: MedCaseId) -> Key {
        Key { sk: format!("{CASE_SORT}{}", id.key()), ..Charge::key_of(id.charge()) }
    }

    pub fn is_at(key: &Key) -> bool {
        key.sk.starts_with(CASE_SORT) && key.pk.starts_with("charge#")
    }

    /// Fails when no payment was credited for the charge.
    pub fn open(
        id: MedCaseId,
        charge: &Charge,
        notification: &CaseNotification,
        now: Timestamp,
    ) -> Result<CaseStep, CaseRefused> {
        Self::open_after_losses(id, charge, notification, MinorUnits::ZERO, now)
    }

    /// As [`Self::open`], after the payer's bank has taken `lost` of the claim, which other cases record.
    pub fn open_after_losses(
        id: MedCaseId,
        charge: &Charge,
        notification: &CaseNotification,
        lost: MinorUnits,
        now: Timestamp,
    ) -> Result<CaseStep, CaseRefused> {
        let Some(applied) = charge.applied_payment.as_ref().filter(|_| charge.settlement.is_some()) else {
            return Err(CaseRefused::NotSettled(charge.status));
        };
        if applied.method.is_self_custody() {
            return Err(CaseRefused::SelfCustody);
        }
        let now = now.strictly_after(charge.updated_at);
        let amount = notification.amount.unwrap_or(charge.amount);
        let case = Self {
            id,
            scope: charge.scope,
            shards: charge.shards,
            kind: notification.kind,
            status: CaseStatus::Open,
            amount,
            currency: charge.currency,
            moved: MinorUnits::ZERO,
            lost,
            lost_later: MinorUnits::ZERO,
            movements: 0,
            unconfirmed: amount != charge.amount,
            reason: notification.reason.clone(),
            response_deadline: notification.response_deadline,
            reported_at: notification.reported_at,
            opened_by_return: false,
            infraction: None,
            evidence_requested_at: None,
            appeal_reason: None,
            appeal_draft: None,
            appealed_at: None,
            evidence_count: 0,
            spent_submissions: 0,
            money_outcome: None,
            withdrawn: false,
            closed_at: None,
            request_id: charge.request_id.clone(),
            created_at: now,
            published_updates: Vec::new(),
            reminders: Vec::new(),
            money_moves: Vec::new(),
            updated_at: now,
            version: 1,
            actor: None,
        };
        case.remaining()?;
        let latest = MedBlock {
            // Only a Pix has an end-to-end id. The id that another acquirer gave a payment is not shown.
            reference_id: if applied.method == PaymentMethod::Pix {
                applied.payment_id.to_string()
            } else {
                id.to_string()
            },
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
        Ok(case.start_dispute(charge, disputes, now)?)
    }

    fn start_dispute(
        self,
        charge: &Charge,
        disputes: Disputes,
        now: Timestamp,
    ) -> Result<CaseStep, FundsError> {
        let (funds, held) = charge.funds.case_opened(charge.contested(), self.remaining()?)?;
        let status = match charge.status {
            TransactionStatus::Paid | TransactionStatus::Approved => self.kind.disputed(),
            // An inquiry has become a chargeback.
            TransactionStatus::Dispute if self.kind == CaseKind::Chargeback => TransactionStatus::Chargeback,
            // A charge that is already disputed keeps its status. A charge that was refunded in full stays
            // refunded. The other statuses are impossible, because only a settled charge has a case.
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
        let mut posting =
            if held.is_positive() { Some(rules::case_opened(case.cause(charge), held)?) } else { None };
        let case = case.with_move(&mut posting);
        Ok(CaseStep { charge: Charge { status, funds, disputes: Some(disputes), ..next }, case, posting })
    }

    /// An operator's confirmation of a case that claims another amount. `None`: not needed, or the case is
    /// over.
    pub fn confirmed(&self, charge: &Charge, now: Timestamp) -> Result<Option<CaseStep>, FundsError> {
        if !self.unconfirmed || self.status.is_over() {
            return Ok(None);
        }
        let now = self.change_time(charge, now);
        let Some(mut disputes) = charge.disputes.clone() else { return Ok(None) };
        disputes.unconfirmed = disputes.unconfirmed.saturating_sub(1);
        if disputes.case == self.id {
            let times = MedBlock { updated_at: now, last_event_at: now, ..disputes.latest };
            disputes.latest = MedBlock { amount_mismatch: false, ..times };
        }
        self.next_version(now).start_dispute(charge, disputes, now).map(Some)
    }

    /// Records the merchant's appeal. `None`: the case is not open.
    pub fn appealed(&self, charge: &Charge, reason: &AppealReason, now: Timestamp) -> Option<CaseStep> {
        let now = self.change_time(charge, now);
        (self.status == CaseStatus::Open).then(|| {
            let case = Self {
                status: CaseStatus::Appealed,
                appeal_reason: Some(reason.as_str().to_owned()),
                appeal_draft: None,
                appealed_at: Some(now),
                ..self.next_published_version(now)
            };
            case.without_money(charge, now)
        })
    }

    /// Stores the text of an appeal that is not sent yet. `None`: the case is not open, or has this draft.
    pub fn with_draft(&self, text: &str, now: Timestamp) -> Option<Self> {
        let draft: String = text.chars().take(MAX_DRAFT_CHARS).collect();
        let appeal_draft = (!text::is_blank(&draft)).then_some(draft);
        let is_new = self.status == CaseStatus::Open && self.appeal_draft != appeal_draft;
        is_new.then(|| Self { appeal_draft, ..self.next_version(now) })
    }

    /// Whether the case was not answered in time, so that the payer's bank decides without the merchant.
    pub fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.status == CaseStatus::Open && self.response_deadline.is_some_and(|deadline| deadline < now)
    }

    /// When the scheduler must remind of the deadline. All reminders that are past then are sent as one. `None`: the
    /// case is not open, has no deadline, was last changed after it, or has had all reminders.
    pub fn next_reminder(&self) -> Option<Timestamp> {
        let is_ahead = |deadline: &Timestamp| self.status == CaseStatus::Open && *deadline > self.updated_at;
        let deadline = self.response_deadline.filter(is_ahead)?;
        let last = self.reminders.last().map_or(Timestamp::MIN, |sent| sent.at);
        let times = REMINDER_SECONDS.map(|before| deadline.saturating_plus_seconds(before.saturating_neg()));
        times.into_iter().find(|at| *at > last)
    }

    /// Records a reminder of the deadline, which publishes it. After the deadline, the next version has none, and is
    /// not due again. `None`: no reminder is due.
    pub fn reminded(&self, now: Timestamp) -> Option<Self> {
        self.next_reminder().filter(|due| *due <= now)?;
        let mut next = self.next_version(now);
        if self.response_deadline.is_some_and(|deadline| deadline > next.updated_at) {
            let reminder = CaseUpdate { version: next.version, at: next.updated_at };
            add_update(&mut next.reminders, reminder);
        }
        Some(next)
    }

    /// The merchant accepts the claim, so the case is lost. `None`: the case is not open.
    pub fn accepted(&self, charge: &Charge, now: Timestamp) -> Result<Option<CaseStep>, FundsError> {
        let end = || self.ended(charge, CaseEnd::ACCEPTED, None, now);
        (self.status == CaseStatus::Open).then(end).transpose()
    }

    /// `None`: the case is already over, so a repeated or late notification changes nothing.
    pub fn decided(
        &self,
        charge: &Charge,
        decision: Decision,
        now: Timestamp,
    ) -> Result<Option<CaseStep>, FundsError> {
        self.decided_at_acquirer(charge, (decision, None), now)
    }

    /// As [`Self::decided`], with what a card scheme has taken. A lost case takes that from the merchant, not its
    /// claim.
    pub fn decided_at_acquirer(
        &self,
        charge: &Charge,
        (decision, taken): (Decision, Option<Taken>),
        now: Timestamp,
    ) -> Result<Option<CaseStep>, FundsError> {
        (!self.status.is_over()).then(|| self.ended(charge, decision.end(), taken, now)).transpose()
    }

    /// What the case has taken from the merchant.
    pub fn loss(&self) -> Result<MinorUnits, MoneyError> {
        let is_lost = self.money_outcome.is_some_and(|outcome| outcome != MoneyOutcome::RefundedToMerchant);
        let at_end = if is_lost { self.moved } else { MinorUnits::ZERO };
        MinorUnits::checked_sum([self.lost, at_end, self.lost_later])
    }

    /// Whether a report of what a card scheme has taken is newer than the loss, and differs from it.
    pub fn has_other_loss(&self, taken: Taken) -> bool {
        self.status.is_over()
            && taken.movements >= self.movements
            && self.loss().is_ok_and(|loss| loss != taken.minor)
    }

    /// Posts what a card scheme took, or gave back, after the case's end. `None`: the loss is that already.
    pub fn taken_after_end(
        &self,
        charge: &Charge,
        taken: Taken,
        now: Timestamp,
    ) -> Result<Option<CaseStep>, FundsError> {
        if !self.has_other_loss(taken) {
            return Ok(None);
        }
        let more = taken.minor.checked_sub(self.loss()?)?;
        let now = self.change_time(charge, now);
        let lost_later = self.lost_later.checked_add(more)?;
        let case = Self { lost_later, movements: taken.movements, ..self.next_version(now) };
        let mut posting = Some(rules::case_loss_changed(case.cause(charge), more)?);
        let funds = charge.funds.loss_changed(charge.contested(), more)?;
        let step = case.with_move(&mut posting).without_money(charge, now);
        Ok(Some(CaseStep { charge: Charge { funds, ..step.charge }, posting, ..step }))
    }

    /// Returns the next version of a case that a devolução opened, after the first notice of its infraction.
    #[must_use]
    pub fn of_infraction(&self, infraction_id: &str) -> Self {
        // No change of the charge accompanies this one, so the time of the last change remains.
        Self {
            infraction: Some(infraction_id.to_owned()),
            version: self.version.saturating_add(1),
            ..self.clone()
        }
    }

    /// The claim without the part that the payer's bank has taken already.
    pub fn remaining(&self) -> Result<Amount, FundsError> {
        let remaining = MinorUnits::from(self.amount).checked_sub(self.lost)?;
        Amount::parse(remaining).map_err(|_not_positive| FundsError::LostAboveClaim)
    }

    /// The payer's bank has taken a part of the claim. The rest stays as it was. `None`: the case is over, or
    /// `part` is not less than the rest, so the caller decides the case.
    pub fn partially_lost(
        &self,
        charge: &Charge,
        part: Amount,
        now: Timestamp,
    ) -> Result<Option<CaseStep>, FundsError> {
        if self.status.is_over() || part >= self.remaining()? {
            return Ok(None);
        }
        let now = self.change_time(charge, now);
        // An unconfirmed case has claimed nothing yet, so it claims the part now.
        let claimed = if self.unconfirmed {
            charge.funds.case_opened(charge.contested(), part)?.0
        } else {
            charge.funds
        };
        let (funds, taken) = claimed.case_lost(charge.contested(), part, None)?;
        let retained =
            if self.unconfirmed { self.moved } else { self.moved.checked_sub(taken)?.max(MinorUnits::ZERO) };
        let lost = self.lost.checked_add(part.into())?;
        let case = Self { lost, moved: retained, ..self.next_version(now) };
        let mut posting = if taken.is_positive() {
            Some(rules::case_lost(case.cause(charge), held_now(charge, &funds, taken)?, taken)?)
        } else {
            None
        };
        let step = case.with_move(&mut posting).without_money(charge, now);
        Ok(Some(CaseStep { charge: Charge { funds, ..step.charge }, posting, ..step }))
    }

    /// A further notice about the open case: reason, fraud method and deadline, not the amount. `None`: the
    /// case is over, or has a notice that is as new.
    pub fn reported_again(
        &self,
        charge: &Charge,
        notification: &CaseNotification,
        now: Timestamp,
    ) -> Option<CaseStep> {
        let is_newer = notification.reported_at > self.reported_at;
        if self.status.is_over() || !is_newer {
            return None;
        }
        let now = self.change_time(charge, now);
        let case = Self {
            reason: notification.reason.clone().or_else(|| self.reason.clone()),
            response_deadline: notification.response_deadline.or(self.response_deadline),
            reported_at: notification.reported_at,
            ..self.next_version(now)
        };
        let mut step = case.without_money(charge, now);
        if let Some(disputes) = step.charge.disputes.as_mut().filter(|disputes| disputes.case == self.id) {
            let block = &mut disputes.latest;
            block.reason = notification.reason.clone().or_else(|| block.reason.take());
            block.method = notification.method.map(str::to_owned).or_else(|| block.method.take());
        }
        Some(step)
    }

    /// Checks whether the case ended with the result of this decision.
    pub fn ended_by(&self, decision: Decision) -> bool {
        let CaseEnd { status, outcome, withdrawn } = decision.end();
        self.status == status && self.money_outcome == Some(outcome) && self.withdrawn == withdrawn
    }

    /// Records the platform's request for evidence. `None`: the case is over.
    pub fn evidence_requested(&self, charge: &Charge, now: Timestamp) -> Option<CaseStep> {
        let now = self.change_time(charge, now);
        (!self.status.is_over()).then(|| {
            let case = Self { evidence_requested_at: Some(now), ..self.next_published_version(now) };
            case.without_money(charge, now)
        })
    }

    /// Updates the charge's `metadata.med` if it describes this case.
    fn without_money(self, charge: &Charge, now: Timestamp) -> CaseStep {
        let touch_block = |disputes: Disputes| {
            if disputes.case != self.id {
                return disputes;
            }
            let latest = MedBlock { updated_at: now, last_event_at: now, ..disputes.latest };
            Disputes { latest, ..disputes }
        };
        let disputes = charge.disputes.clone().map(touch_block);
        let charge = Charge { disputes, ..transition::next_version(charge.clone(), now) };
        CaseStep { case: self, charge, posting: None }
    }

    fn ended(
        &self,
        charge: &Charge,
        end: CaseEnd,
        taken: Option<Taken>,
        now: Timestamp,
    ) -> Result<CaseStep, FundsError> {
        let now = self.change_time(charge, now);
        let next_case = Self {
            status: end.status,
            money_outcome: Some(end.outcome),
            withdrawn: end.withdrawn,
            appeal_draft: None,
            closed_at: Some(now),
            unconfirmed: false,
            movements: taken.map_or(self.movements, |taken| taken.movements),
            ..self.next_published_version(now)
        };
        let cause = next_case.cause(charge);
        // A case that is lost before its confirmation claims its money now.
        let remaining = self.remaining()?;
        let claimed = if self.unconfirmed && end.is_loss() {
            charge.funds.case_opened(charge.contested(), remaining)?.0
        } else {
            charge.funds
        };
        let (funds, moved) = match (end.is_loss(), self.unconfirmed) {
            (true, _) => claimed.case_lost(charge.contested(), remaining, taken.map(|taken| taken.minor))?,
            (false, true) => (charge.funds, MinorUnits::ZERO),
            (false, false) => charge.funds.case_won(charge.contested(), remaining)?,
        };
        let posting = if end.is_loss() {
            rules::case_lost(cause, held_now(charge, &funds, moved)?, moved)?
        } else {
            rules::case_won(cause, moved)
        };
        let mut posting = Some(posting).filter(|posting| !posting.transfers.is_empty());
        let disputes = charge.disputes.clone().map(|disputes| self.close_in(disputes, end, now));
        let next = Charge { funds, disputes, ..transition::next_version(charge.clone(), now) };
        let charge = Charge { status: next.status_by_funds()?, ..next };
        let ended = Self { moved, ..next_case }.with_move(&mut posting);
        Ok(CaseStep { case: ended, charge, posting })
    }

    fn close_in(&self, disputes: Disputes, end: CaseEnd, now: Timestamp) -> Disputes {
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

    /// Fails when the case is over or has the maximum number of files.
    pub fn check_evidence_allowed(&self) -> Result<(), EvidenceRefused> {
        if self.status.is_over() {
            return Err(EvidenceRefused::CaseOver(self.status));
        }
        if self.evidence_count >= MAX_EVIDENCE { Err(EvidenceRefused::Full) } else { Ok(()) }
    }

    /// Counts one more file. Fails when the case is over or has the maximum number.
    pub fn with_evidence(&self, now: Timestamp) -> Result<Self, EvidenceRefused> {
        self.check_evidence_allowed()?;
        Ok(Self { evidence_count: self.evidence_count.saturating_add(1), ..self.next_version(now) })
    }

    /// Counts one file less. Fails unless the case is open: the files of an appeal are sent.
    pub fn without_evidence(&self, now: Timestamp) -> Result<Self, EvidenceRefused> {
        if self.status != CaseStatus::Open {
            return Err(EvidenceRefused::Sent(self.status));
        }
        Ok(Self { evidence_count: self.evidence_count.saturating_sub(1), ..self.next_version(now) })
    }

    /// `now`, or the first millisecond after the last change of the case or its charge.
    fn change_time(&self, charge: &Charge, now: Timestamp) -> Timestamp {
        now.strictly_after(self.updated_at).strictly_after(charge.updated_at)
    }

    fn next_version(&self, now: Timestamp) -> Self {
        let updated_at = now.strictly_after(self.updated_at);
        Self { updated_at, version: self.version.saturating_add(1), ..self.clone() }
    }

    fn next_published_version(&self, now: Timestamp) -> Self {
        let mut next = self.next_version(now);
        add_update(&mut next.published_updates, CaseUpdate { version: next.version, at: now });
        next
    }

    /// Returns the shard of the case's charge, in which the case's events and postings are.
    pub fn shard(&self) -> Shard {
        self.shards.shard_of(self.id.charge())
    }

    fn with_move(mut self, posting: &mut Option<Posting>) -> Self {
        if let Some(posting) = posting {
            let update = CaseUpdate { version: self.version, at: posting.at };
            let dropped = add_update(&mut self.money_moves, update);
            posting.earlier = dropped.map(|dropped| self.posting_of(&dropped));
        }
        self
    }

    fn posting_of(&self, update: &CaseUpdate) -> PostingId {
        PostingId::derive(update.at, &self.key().joined(), update.version)
    }

    /// The keys of the case's latest postings. [`Posting::earlier_key`] leads to those before.
    pub fn posting_keys(&self) -> Vec<Key> {
        let scope = (&self.scope, self.shard());
        let key = |update| Posting::key_of(scope, self.currency, self.posting_of(update), true);
        self.money_moves.iter().map(key).collect()
    }

    fn cause(&self, charge: &Charge) -> Cause {
        Cause {
            id: PostingId::derive(self.updated_at, &self.key().joined(), self.version),
            scope: self.scope,
            shard: self.shard(),
            currency: self.currency,
            at: self.updated_at,
            subject: Subject {
                charge: Some(self.id.charge()),
                payment: charge.applied_payment.as_ref().map(|applied| applied.payment_id.clone()),
                case: Some(self.id),
                ..Subject::default()
            },
        }
    }

    /// Returns the partition of a scope's cases in the `list` index.
    pub fn list_partition(scope: &Scope) -> String {
        format!("cases#{scope}")
    }

    /// Returns the partition of a scope's cases with one status in the `list_by_status` index.
    pub fn status_partition(scope: &Scope, status: CaseStatus) -> String {
        format!("cases#{scope}#{}", status.as_str())
    }

    /// The partition of a scope's cases of one type in the `list_by_customer` index, which cases do not need
    /// otherwise.
    pub fn kind_partition(scope: &Scope, kind: CaseKind) -> String {
        format!("cases#{scope}#{}", kind.as_str())
    }

    /// Returns the sort key in lists: creation time, then id.
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
            log: None,
            due: self.next_reminder(),
        }
    }
}
