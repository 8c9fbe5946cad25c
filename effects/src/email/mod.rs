//! Emails to an account's contact and users. This module decides which changes cause an email,
//! and defines the queue message and the row of an email. It has no I/O: `repository` reads and writes the
//! rows, and `functions/mailer` writes and sends the texts.
//!
//! A queue message only identifies a change; the changed row is the source of truth. To claim an email, a
//! worker inserts the email's row with a lease. It then sends the email and marks the row as sent. If the
//! worker dies before it sends the email, a retry claims the email once the lease has expired. If the worker
//! dies after sending but before marking, the retry sends the email a second time.

pub mod access;
mod repository;
mod sales;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

pub use repository::Emails;
pub use sales::SalesMinute;

use domain::account::{Account, SalesEmails};
use domain::ids::{AccountId, EmailId, EndpointId, MedCaseId, RefundId, ReportId, Scope, UserId};
use domain::med::MedCase;
use domain::refund::Refund;
use domain::report::{Report, ReportStatus};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use crate::webhook::endpoint::{Alerted, Endpoint};
use crate::webhook::event::Event;
use shared::account::{MailedLink, User};
use shared::auth::dashboard::LockOut;
use shared::queue::{Message, Queue};

/// How long the lease of a claim lasts, in seconds. Sending times out after 6 s.
const LEASE_SECONDS: i64 = 60;

const MINUTE_SECONDS: i64 = 60;

/// How long after its minute an email is sent that lists what was written in a minute, in seconds. The clock of the
/// machine that writes a row may be a minute slow ([`shared::audit`]), and a function that is about to write it ends within
/// 20 seconds.
const WAIT_SECONDS: i64 = 90;

/// A minute, as the number of minutes since 1970.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Minute(u64);

impl Minute {
    fn of(at: Timestamp) -> Self {
        // No timestamp is before 1970.
        Self(u64::try_from(at.seconds().div_euclid(MINUTE_SECONDS)).unwrap_or_default())
    }

    fn starts_at(self) -> Timestamp {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX).saturating_mul(MINUTE_SECONDS);
        Timestamp::MIN.saturating_plus_seconds(seconds)
    }
}

/// The topic of an email, with the id of the row that changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EmailTopic {
    MedOpened(MedCaseId),
    MedResolved(MedCaseId),
    /// The deadline of an open case is near. The mailer sends itself a message for each owner and administrator.
    MedDeadline(MedCaseId),
    /// The same, to an owner or administrator.
    MedDeadlineTo(MedCaseId, UserId),
    /// The service disabled an endpoint, because nothing was delivered to it for five days or more.
    EndpointDisabled(EndpointId),
    /// All attempts to an endpoint have failed for an hour, or for a day.
    EndpointFailing(EndpointId),
    /// An endpoint whose failures an email reported works again.
    EndpointRecovered(EndpointId),
    /// A refund is sent to a third party's key. The email is sent only for the scope's first refund to that
    /// key.
    RefundDestination(RefundId),
    /// The file of a report is ready, which a member or their schedule asked for.
    ReportReady(ReportId),
    /// The changes of access to the account in a minute ([`access`]). The mailer sends itself a message for each
    /// recipient.
    TeamAccess,
    /// What of them concerns this user.
    UserAccess(UserId),
    /// The live sales of a minute ([`SalesMinute`]), to a subscriber.
    Sales(UserId),
    /// The morning's summary of the day before, to a subscriber.
    SalesSummary(UserId),
}

impl EmailTopic {
    fn row_key(self, scope: &Scope) -> Key {
        match self {
            Self::MedOpened(id) | Self::MedResolved(id) | Self::MedDeadline(id) => MedCase::key_of(id),
            Self::MedDeadlineTo(id, user) => {
                let Key { pk, sk } = MedCase::key_of(id);
                Key { pk, sk: format!("{sk}#{user}") }
            }
            Self::EndpointDisabled(id) | Self::EndpointFailing(id) | Self::EndpointRecovered(id) => {
                Endpoint::key_of(scope, id)
            }
            Self::RefundDestination(id) => Refund::key_of(id),
            Self::ReportReady(id) => Report::key_of(scope, id),
            Self::TeamAccess => Account::key_of(&scope.account),
            Self::UserAccess(id) => User::key_of(&id),
            Self::Sales(id) | Self::SalesSummary(id) => SalesEmails::key_of(&scope.account, id),
        }
    }
}

/// The queue message for an email. It identifies the change that the email reports.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Email {
    pub scope: Scope,
    pub about: EmailTopic,
    pub version: u64,
    pub at: Timestamp,
}

pub type EmailQueue = Queue<Email>;

/// The queue message for an email to a user of the dashboard. The token of a link can't be read from a row, so half of it
/// is in the message. The function that handles a user's form sends the message itself. If it is lost, the
/// user repeats the form; if it is duplicated, the user gets the same email twice.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "to_user", rename_all = "snake_case")]
pub enum UserEmail {
    Invite {
        link: MailedLink,
        merchant_name: String,
    },
    /// Nothing is sent if the user does not exist: only the mailer finds out.
    Reset {
        link: MailedLink,
    },
}

impl Message for UserEmail {
    /// A group of their own: requests of strangers delay no account's emails.
    fn group(&self) -> String {
        "users".to_owned()
    }
}

/// The mailer's queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum QueuedEmail {
    ToContact(Email),
    ToUser(UserEmail),
    LockOut(LockOut),
}

impl Message for QueuedEmail {
    fn group(&self) -> String {
        match self {
            Self::ToContact(email) => email.group(),
            Self::ToUser(email) => email.group(),
            Self::LockOut(locked) => locked.group(),
        }
    }
}

impl Message for Email {
    /// The message group is the account, so that one unreachable contact does not delay the emails of other
    /// accounts.
    fn group(&self) -> String {
        self.scope.account.to_string()
    }
}

impl Email {
    /// Returns the email that a change of a case causes. Only a change that emits `med_case.created`,
    /// `med.resolved` or `med_case.deadline_approaching` causes an email. `event`: the events of the change.
    pub fn for_case(case: &MedCase, event: Option<&Event>) -> Option<Self> {
        let has_event = |name| event.is_some_and(|event| event.object_as(name).is_some());
        let about = if has_event(EventType::MedCaseCreated) {
            EmailTopic::MedOpened(case.id)
        } else if has_event(EventType::MedResolved) {
            EmailTopic::MedResolved(case.id)
        } else if has_event(EventType::MedCaseDeadlineApproaching) {
            EmailTopic::MedDeadline(case.id)
        } else {
            return None;
        };
        Some(Self { scope: case.scope, about, version: case.version, at: case.updated_at })
    }

    /// Returns the email that a change of an endpoint causes: the service disables it, or records an alert.
    pub fn for_endpoint(old: Option<&Endpoint>, new: &Endpoint) -> Option<Self> {
        let email = |about, at| Self { scope: new.scope, about, version: new.version, at };
        let before = old.and_then(|endpoint| endpoint.disabled.as_ref());
        if let Some(disabled) = new.disabled.as_ref().filter(|now| Some(*now) != before) {
            return Some(email(EmailTopic::EndpointDisabled(new.id), disabled.at));
        }
        let alert = new.alert.filter(|alert| Some(*alert) != old.and_then(|endpoint| endpoint.alert))?;
        let about = match alert.said {
            Alerted::Hour | Alerted::Day => EmailTopic::EndpointFailing(new.id),
            Alerted::Over => EmailTopic::EndpointRecovered(new.id),
        };
        Some(email(about, alert.at))
    }

    /// Returns the email that a change of a refund causes. Only the creation of a refund to a third party
    /// causes an email. The mailer sends it only for the scope's first refund to that key.
    pub fn for_refund(old: Option<&Refund>, new: &Refund) -> Option<Self> {
        let about = EmailTopic::RefundDestination(new.id);
        let is_new_third_party = old.is_none() && new.third_party;
        is_new_third_party.then_some(Self {
            scope: new.scope,
            about,
            version: new.version,
            at: new.created_at,
        })
    }

    /// Returns the email that a change of a report causes: to the member who asked for it, when its file is ready.
    pub fn for_report(old: Option<&Report>, new: &Report) -> Option<Self> {
        let is_ready = |report: &Report| report.status == ReportStatus::Ready;
        let is_news = is_ready(new) && !old.is_some_and(is_ready) && new.notify.is_some();
        let about = EmailTopic::ReportReady(new.id);
        is_news.then_some(Self { scope: new.scope, about, version: new.version, at: new.updated_at })
    }

    /// How long the message waits before the mailer gets it.
    pub fn delay(&self, now: Timestamp) -> Duration {
        let is_of_minute = matches!(self.about, EmailTopic::TeamAccess | EmailTopic::Sales(_));
        let wait = if is_of_minute { MINUTE_SECONDS + WAIT_SECONDS } else { 0 };
        self.at.plus_seconds(wait).unwrap_or(Timestamp::MAX).saturating_duration_since(now)
    }

    /// Derives the email's id from the change, so that repeated stream records yield the same id.
    pub fn id(&self) -> EmailId {
        let row = self.about.row_key(&self.scope).joined();
        EmailId::derive(self.at, &row, self.version, self.about.into())
    }
}

/// The row of an email. It contains the claim while a worker sends the email, and afterwards the time of
/// sending. It has no entry in the due index. So when another worker holds the lease, the queue message is
/// sent again, with a delay until the lease expires.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EmailRecord {
    /// The id, `ntc_…`: a ULID with the time of the change.
    pub id: EmailId,
    pub scope: Scope,
    pub about: EmailTopic,
    pub attempts: u32,
    /// The random id of the latest claim, in hex. Because of it, the rows of two concurrent claims differ.
    claim: String,
    /// The end of the lease; `None` when no worker is sending the email.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    leased_until: Option<Timestamp>,
    /// The time at which the email was sent; `None` before.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    version: u64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Claim {
    Claimed(Box<EmailRecord>),
    Busy { until: Timestamp },
    Sent,
}

impl EmailRecord {
    /// Builds the row of the first claim. `claim` is a random id.
    fn first_claim(email: &Email, claim: u64, now: Timestamp) -> Self {
        Self {
            id: email.id(),
            scope: email.scope,
            about: email.about,
            attempts: 1,
            claim: claim_id(claim),
            leased_until: Some(lease_end(now)),
            sent_at: None,
            created_at: now,
            version: 1,
        }
    }

    /// Decides whether the email can be claimed again. `Claimed` contains the row to write. The claim
    /// succeeds only if that write succeeds.
    fn claim_again(&self, claim: u64, now: Timestamp) -> Claim {
        match (self.sent_at, self.leased_until) {
            (Some(_), _) => Claim::Sent,
            (None, Some(until)) if until > now => Claim::Busy { until },
            (None, _) => Claim::Claimed(Box::new(Self {
                attempts: self.attempts.saturating_add(1),
                claim: claim_id(claim),
                leased_until: Some(lease_end(now)),
                ..self.next_version()
            })),
        }
    }

    fn sent(&self, now: Timestamp) -> Self {
        Self { leased_until: None, sent_at: Some(now), ..self.next_version() }
    }

    fn released(&self) -> Self {
        Self { leased_until: None, ..self.next_version() }
    }

    fn next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// Returns the partition key of an account's emails. Within it, emails sort by the time of their changes.
    pub fn partition(account: &AccountId) -> String {
        format!("notices#{account}")
    }

    /// A user's emails about sales are so many that they would hide the other ones in the account's list.
    fn own_partition(&self) -> String {
        let of_account = Self::partition(&self.scope.account);
        match self.about {
            EmailTopic::Sales(user) | EmailTopic::SalesSummary(user) => format!("{of_account}#{user}"),
            _ => of_account,
        }
    }
}

fn claim_id(claim: u64) -> String {
    format!("{claim:016x}")
}

fn lease_end(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS).unwrap_or(Timestamp::MAX)
}

impl Row for EmailRecord {
    fn key(&self) -> Key {
        Key { pk: self.own_partition(), sk: self.id.to_string() }
    }

    /// The row is kept as long as events are, so that a stream record replayed late does not send the email
    /// again.
    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge_testing::at;
    use shared::account::LinkToken;

    fn email() -> Email {
        Email {
            scope: "acc_0123456789abcdef:test".parse().unwrap(),
            about: EmailTopic::EndpointDisabled(EndpointId::new(at(0), [7; 10])),
            version: 3,
            at: at(0),
        }
    }

    #[test]
    fn a_queue_message_only_identifies_the_change() {
        let body = email().body().unwrap();
        insta::assert_snapshot!(body, @r#"{"scope":"acc_0123456789abcdef:test","about":{"endpoint_disabled":"wh_01m7yzmhg00w3ge1r70w3ge1r7"},"version":3,"at":"2026-11-21T12:00:00.000Z"}"#);
        assert_eq!(serde_json::from_str::<Email>(&body).unwrap(), email());
        assert_eq!(email().group(), "acc_0123456789abcdef");
        assert!(matches!(serde_json::from_str(&body), Ok(QueuedEmail::ToContact(read)) if read == email()));
        let token = LinkToken::random().unwrap();
        let body = UserEmail::Reset { link: token.mailed() }.body().unwrap();
        let read: QueuedEmail = serde_json::from_str(&body).unwrap();
        assert!(
            matches!(&read, QueuedEmail::ToUser(UserEmail::Reset { link }) if link.hash == token.mailed().hash)
        );
        assert!(!body.contains(token.as_str().split_at(22).1), "half of the token is only in the row");
    }
}
