//! Notices of MED infractions. API Pix has no route for them, so an adapter at the bank posts them. Each has a
//! row, so that a repeated notice changes nothing, and one about a Pix that is not recorded yet is processed
//! later.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::{CaseKind, CaseNotification, Decision};
use crate::ids::{AccountId, ChargeId, ConnectionId, EndToEndId, MedCaseId};
use crate::money::Amount;
use crate::row::{Indexes, Key, Row, sortable};
use crate::time::Timestamp;

/// The sweep of the bank runs every 5 minutes.
const RETRY_SECONDS: i64 = 360;

/// 24 hours. Then the notice is left to an operator.
const GIVE_UP_SECONDS: i64 = 86_400;

/// In case the request died.
const FIRST_DUE_SECONDS: i64 = 120;

const PARTITION: &str = "med-notice#";

/// The state of an infraction at the Central Bank, with its result.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum InfractionStatus {
    /// The payer's bank opened the infraction.
    Open,
    /// The receiver's bank acknowledged it.
    Acknowledged,
    /// Closed: the receiver's bank agreed that there was a fraud.
    ClosedAgreed,
    /// Closed: the receiver's bank disagreed.
    ClosedDisagreed,
    /// The payer's bank cancelled the infraction.
    Cancelled,
}

impl InfractionStatus {
    /// Returns the decision on the case. `None`: the infraction is not over.
    pub fn decision(self) -> Option<Decision> {
        match self {
            Self::Open | Self::Acknowledged => None,
            Self::ClosedAgreed => Some(Decision::Payer),
            Self::ClosedDisagreed => Some(Decision::Merchant),
            Self::Cancelled => Some(Decision::Withdrawn),
        }
    }
}

/// The situation that the payer's bank reports (DICT), as in `metadata.med.method`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Situation {
    /// The payer was deceived into paying.
    Scam,
    /// Another person took over the payer's account.
    AccountTakeover,
    /// The payer was forced to pay.
    Coercion,
    /// Another person had access to the payer's account or device, and paid.
    FraudulentAccess,
    Other,
    Unknown,
}

impl Situation {
    /// `invasion` is the takeover of an account; `unauthorized` a payment that the payer did not make, without
    /// a takeover.
    pub fn method(self) -> &'static str {
        match self {
            Self::Scam => "scam",
            Self::AccountTakeover => "invasion",
            Self::Coercion => "coercion",
            Self::FraudulentAccess => "unauthorized",
            Self::Other | Self::Unknown => "other",
        }
    }
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeStatus {
    /// Not processed yet, because its Pix is not credited to a charge of the account. It will be retried.
    Waiting,
    Processed,
    /// Not credited within 24 hours, so an operator must act; or dismissed ([`MedNotice::dismissed_at`]).
    Unmatched,
}

/// The row of a notice.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MedNotice {
    /// The account in whose path the notice arrived.
    pub account: AccountId,
    /// The bank connection of the account when the notice arrived.
    pub connection: ConnectionId,
    /// The adapter's id of the notice.
    pub notice_id: String,
    /// The Central Bank's id of the infraction. It names the case.
    pub infraction_id: String,
    /// The contested Pix.
    pub end_to_end_id: EndToEndId,
    pub infraction_status: InfractionStatus,
    pub situation: Option<Situation>,
    /// The contested amount. `None`: the charge's whole amount.
    pub amount: Option<Amount>,
    /// The reason that the payer alleges.
    pub reason: Option<String>,
    /// The deadline for the merchant's response, as communicated.
    #[serde(default, with = "domain::time::millis_option")]
    pub response_deadline: Option<Timestamp>,
    /// When the infraction reached this state.
    #[serde(with = "domain::time::millis")]
    pub reported_at: Timestamp,
    /// When the notice arrived.
    #[serde(with = "domain::time::millis")]
    pub received_at: Timestamp,
    pub status: NoticeStatus,
    /// The case, once the notice is processed.
    pub case: Option<MedCaseId>,
    /// An operator dismissed the notice: it is never processed. The status is [`NoticeStatus::Unmatched`].
    #[serde(default, with = "domain::time::millis_option")]
    pub dismissed_at: Option<Timestamp>,
    /// When the scheduler processes the notice next. `None`: it need not be processed.
    #[serde(default, with = "domain::time::millis_option")]
    pub next_at: Option<Timestamp>,
    pub version: u64,
}

/// The contents of a notice that just arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NoticeContent {
    /// The adapter's id of the notice.
    pub notice_id: String,
    /// The Central Bank's id of the infraction.
    pub infraction_id: String,
    /// The contested Pix.
    pub end_to_end_id: EndToEndId,
    pub infraction_status: InfractionStatus,
    pub situation: Option<Situation>,
    /// The contested amount. `None`: the charge's whole amount.
    pub amount: Option<Amount>,
    /// The reason that the payer alleges.
    pub reason: Option<String>,
    /// The deadline for the merchant's response.
    pub response_deadline: Option<Timestamp>,
    /// When the infraction reached this state.
    pub reported_at: Timestamp,
}

impl MedNotice {
    /// Creates the row of a notice that an account's bank sent.
    pub fn received(
        (connection, account): (ConnectionId, AccountId),
        content: NoticeContent,
        now: Timestamp,
    ) -> Self {
        Self {
            account,
            connection,
            notice_id: content.notice_id,
            infraction_id: content.infraction_id,
            end_to_end_id: content.end_to_end_id,
            infraction_status: content.infraction_status,
            situation: content.situation,
            amount: content.amount,
            reason: content.reason,
            response_deadline: content.response_deadline,
            reported_at: content.reported_at,
            received_at: now,
            status: NoticeStatus::Waiting,
            case: None,
            dismissed_at: None,
            next_at: now.plus_seconds(FIRST_DUE_SECONDS).ok(),
            version: 1,
        }
    }

    /// Returns the id of the infraction's case on a charge.
    pub fn case_id(&self, charge: ChargeId) -> MedCaseId {
        MedCaseId::derive(charge, &self.case_name())
    }

    /// Returns the name of the infraction's case within its charge.
    pub(crate) fn case_name(&self) -> String {
        format!("infraction#{}", self.infraction_id)
    }

    /// Returns the notification that opens the infraction's case.
    pub fn notification(&self) -> CaseNotification {
        CaseNotification {
            id: Some(self.notice_id.clone()),
            kind: CaseKind::Med,
            reason: self.reason.clone(),
            method: self.situation.map(Situation::method),
            response_deadline: self.response_deadline,
            amount: self.amount,
            reported_at: Some(self.reported_at),
        }
    }

    /// Returns the next version, after the notice was applied to a case.
    #[must_use]
    pub fn processed(&self, case: MedCaseId) -> Self {
        Self { status: NoticeStatus::Processed, case: Some(case), next_at: None, ..self.next_version() }
    }

    /// The Pix was not found or not credited. 24 hours after its arrival, the notice is
    /// [`NoticeStatus::Unmatched`].
    #[must_use]
    pub fn not_matched(&self, now: Timestamp) -> Self {
        if now.millis_since(self.received_at) >= GIVE_UP_SECONDS.saturating_mul(1_000) {
            return Self { status: NoticeStatus::Unmatched, next_at: None, ..self.next_version() };
        }
        let next_at = now.plus_seconds(RETRY_SECONDS).ok();
        Self { status: NoticeStatus::Waiting, next_at, ..self.next_version() }
    }

    /// Returns the next version, after an operator dismissed the notice.
    #[must_use]
    pub fn dismissed(&self, now: Timestamp) -> Self {
        let status = NoticeStatus::Unmatched;
        Self { status, dismissed_at: Some(now), next_at: None, ..self.next_version() }
    }

    pub fn waits_for_operator(&self) -> bool {
        self.status == NoticeStatus::Unmatched && self.dismissed_at.is_none()
    }

    fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    pub fn key_of(account: &AccountId, notice_id: &str) -> Key {
        Key { pk: Self::partition_of(account), sk: notice_id.to_owned() }
    }

    pub fn partition_of(account: &AccountId) -> String {
        format!("{PARTITION}{account}")
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with(PARTITION)
    }

    /// Returns the partition of the notices of all accounts that wait for an operator, in the `list` index.
    pub const UNMATCHED_PARTITION: &str = "unmatched-med-notices";

    /// Returns the sort key in [`MedNotice::UNMATCHED_PARTITION`].
    pub fn unmatched_sort(&self) -> String {
        format!("{}#{}#{}", sortable(self.received_at), self.account, self.notice_id)
    }
}

impl Row for MedNotice {
    fn key(&self) -> Key {
        Self::key_of(&self.account, &self.notice_id)
    }

    fn indexes(&self) -> Indexes {
        let list =
            self.waits_for_operator().then(|| (Self::UNMATCHED_PARTITION.to_owned(), self.unmatched_sort()));
        Indexes { list, due: self.next_at, ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::at;

    fn notice() -> MedNotice {
        let content = NoticeContent {
            notice_id: "n-1".to_owned(),
            infraction_id: "i-1".to_owned(),
            end_to_end_id: "E1".parse().unwrap(),
            infraction_status: InfractionStatus::Open,
            situation: Some(Situation::FraudulentAccess),
            amount: None,
            reason: None,
            response_deadline: None,
            reported_at: at(50),
        };
        let source =
            (ConnectionId::derive("pix", "https://pix.example.com/v2", "loja"), AccountId::new([1; 10]));
        MedNotice::received(source, content, at(100))
    }

    #[test]
    fn a_notice_is_retried_for_24_hours_and_then_listed_for_operators() {
        let notice = notice();
        assert!(MedNotice::is_at(&notice.key()));
        assert_eq!(notice.indexes().due, Some(at(220)));
        let waiting = notice.not_matched(at(100 + 86_399));
        assert_eq!((waiting.status, waiting.indexes().due), (NoticeStatus::Waiting, Some(at(86_859))));
        assert!(waiting.indexes().list.is_none() && waiting.dismissed(at(90_000)).indexes().due.is_none());
        let unmatched = waiting.not_matched(at(100 + 86_400));
        assert_eq!((unmatched.status, unmatched.indexes().due), (NoticeStatus::Unmatched, None));
        assert_eq!(unmatched.indexes().list.unwrap().0, MedNotice::UNMATCHED_PARTITION);
        let case = notice.case_id(ChargeId::derive(b"salt", crate::ids::Mode::Live, "charges", "1"));
        let processed = unmatched.processed(case);
        assert_eq!(
            (processed.status, processed.case, processed.version),
            (NoticeStatus::Processed, Some(case), 4)
        );
        assert!(processed.indexes().list.is_none() && processed.indexes().due.is_none());
    }
}
