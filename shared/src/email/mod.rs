//! E-mails to an account's contact (contract: MED events): which changes are worth one, what their queue carries,
//! and that each is sent once. The type and its rules, with no I/O; reads and writes are in [`repository`]. What a mail
//! says, and how it is sent, is `functions/mailer`'s.
//!
//! The change's row is the truth: a message only names it. A worker claims an email by inserting its row, with a lease, sends,
//! and marks it as sent. If it dies before it sent, the queue's next try finds the lease over; if it dies between sending and
//! marking, that try sends the mail again.

mod repository;

use serde::{Deserialize, Serialize};

pub use repository::Emails;

use domain::ids::{AccountId, EmailId, EndpointId, MedCaseId, RefundId, Scope};
use domain::med::MedCase;
use domain::refund::Refund;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use crate::queue::{Message, Queue};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;

/// How long a worker's claim holds, in seconds. Sending takes 6 at most.
const LEASE_SECONDS: i64 = 60;

/// What an email tells of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A case opened.
    MedOpened(MedCaseId),
    /// A case is over.
    MedResolved(MedCaseId),
    /// An endpoint to which nothing was delivered for long was switched off.
    EndpointDisabled(EndpointId),
    /// A refund goes to a third party's key, perhaps for the first time.
    RefundDestination(RefundId),
}

impl About {
    /// Its name, in rows and ids.
    fn as_str(self) -> &'static str {
        match self {
            Self::MedOpened(_) => "med_opened",
            Self::MedResolved(_) => "med_resolved",
            Self::EndpointDisabled(_) => "endpoint_disabled",
            Self::RefundDestination(_) => "refund_destination",
        }
    }

    /// The row that changed.
    fn row(self, scope: &Scope) -> Key {
        match self {
            Self::MedOpened(id) | Self::MedResolved(id) => MedCase::key_of(id),
            Self::EndpointDisabled(id) => Endpoint::key_of(scope, id),
            Self::RefundDestination(id) => Refund::key_of(id),
        }
    }
}

/// A change that an account's contact is told of: what travels on the queue.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Email {
    /// Whose row changed.
    pub scope: Scope,
    /// What happened to it.
    pub about: About,
    /// The version that the change made.
    pub version: u64,
    /// When it changed.
    pub at: Timestamp,
}

/// The queue of emails.
pub type EmailQueue = Queue<Email>;

impl Message for Email {
    /// By account: a contact that can't be reached keeps no other from being told.
    fn group(&self) -> String {
        self.scope.account.to_string()
    }
}

impl Email {
    /// What a case's change is worth: a mail goes with the event that opens a case, and with the one that says where its money
    /// ended. `told`: the change's events.
    pub fn of_case(case: &MedCase, told: &[Event]) -> Option<Self> {
        let is_told = |name| told.iter().any(|event| event.types.contains(&name));
        let about = if is_told(EventType::MedCaseCreated) {
            About::MedOpened(case.id)
        } else if is_told(EventType::MedResolved) {
            About::MedResolved(case.id)
        } else {
            return None;
        };
        Some(Self { scope: case.scope, about, version: case.version, at: case.updated_at })
    }

    /// What an endpoint's change is worth: a mail when the service switched it off.
    pub fn of_endpoint(old: Option<&Endpoint>, new: &Endpoint) -> Option<Self> {
        let before = old.and_then(|endpoint| endpoint.disabled.as_ref());
        let disabled = new.disabled.as_ref().filter(|now| Some(*now) != before)?;
        let about = About::EndpointDisabled(new.id);
        Some(Self { scope: new.scope, about, version: new.version, at: disabled.at })
    }

    /// What a refund's row is worth: where it is new and goes to a third party, a mail if its key is new to the scope too.
    pub fn of_refund(old: Option<&Refund>, new: &Refund) -> Option<Self> {
        let about = About::RefundDestination(new.id);
        let is_worth_it = old.is_none() && new.third_party;
        is_worth_it.then_some(Self { scope: new.scope, about, version: new.version, at: new.created_at })
    }

    /// Its id, the same whenever the change is seen.
    pub fn id(&self) -> EmailId {
        let row = self.about.row(&self.scope).whole();
        EmailId::derive(self.at, &row, self.version, self.about.as_str())
    }
}

/// An email's row: that somebody is sending it, or that it was sent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Sending {
    /// `ntc_…`; begins with the time of the change.
    pub id: EmailId,
    /// Whose row changed.
    pub scope: Scope,
    /// What happened to it.
    pub about: About,
    /// Attempts begun.
    pub attempts: u32,
    /// Names the claim, so that a worker whose answer was lost knows its own.
    claim: String,
    /// Until when it holds; `None`: nobody is sending it.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    leased_until: Option<Timestamp>,
    /// When it was sent.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// When it was first claimed.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Counts the row's changes, from 1.
    version: u64,
}

/// How a claim ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Claim {
    /// The mail is the caller's to send, until the lease ends.
    Claimed(Box<Sending>),
    /// Another worker is sending it, until its lease ends.
    Busy {
        /// When that is.
        until: Timestamp,
    },
    /// It was sent.
    Sent,
}

impl Sending {
    /// The first claim of an email. `claim` names it: 64 random bits.
    fn first(email: &Email, claim: u64, now: Timestamp) -> Self {
        Self {
            id: email.id(),
            scope: email.scope,
            about: email.about,
            attempts: 1,
            claim: name_of(claim),
            leased_until: Some(lease_from(now)),
            sent_at: None,
            created_at: now,
            version: 1,
        }
    }

    /// What another claim comes to, before it is written.
    fn again(&self, claim: u64, now: Timestamp) -> Claim {
        match (self.sent_at, self.leased_until) {
            (Some(_), _) => Claim::Sent,
            (None, Some(until)) if until > now => Claim::Busy { until },
            (None, _) => Claim::Claimed(Box::new(Self {
                attempts: self.attempts.saturating_add(1),
                claim: name_of(claim),
                leased_until: Some(lease_from(now)),
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

    /// An account's emails share a partition, in the order of what they tell of.
    pub fn partition(account: &AccountId) -> String {
        format!("notices#{account}")
    }
}

fn name_of(claim: u64) -> String {
    format!("{claim:016x}")
}

fn lease_from(now: Timestamp) -> Timestamp {
    now.plus_seconds(LEASE_SECONDS).unwrap_or(Timestamp::MAX)
}

impl Row for Sending {
    fn key(&self) -> Key {
        Key { pk: Self::partition(&self.scope.account), sk: self.id.to_string() }
    }

    /// As long as events are kept, so that a stream record that comes back late is told no second time.
    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::{at, paid};
    use crate::http::JsonObject;
    use crate::webhook::endpoint::Disabled;
    use crate::webhook::endpoint::testing::endpoint;
    use domain::charge::RefundAsked;
    use domain::med::Decision;
    use domain::money::MinorUnits;
    use domain::refund::RefundPlan;
    use domain::vocabulary::Vocabulary;
    use domain::wallet::RefundStrategy;

    fn email() -> Email {
        Email {
            scope: "acc_0123456789abcdef:test".parse().unwrap(),
            about: About::EndpointDisabled(EndpointId::new(at(0), [7; 10])),
            version: 3,
            at: at(0),
        }
    }

    #[test]
    fn a_case_is_worth_an_email_when_it_opens_and_when_its_end_is_told() {
        let claim = crate::med::request::case_notification(&JsonObject::new()).unwrap();
        let step = MedCase::open(MedCaseId::derive(paid().id, "1"), &paid(), &claim, at(100)).unwrap();
        let opened = step.case.clone();
        let of = |old: Option<&MedCase>, new: &MedCase, outcome_notices| {
            let told = Event::of_case(old, new, outcome_notices).unwrap();
            Email::of_case(new, &told)
        };
        let first = of(None, &opened, false).unwrap();
        assert_eq!((first.about, first.version, first.at), (About::MedOpened(opened.id), 1, at(100)));
        let asked = opened.evidence_requested(&step.charge, at(110)).unwrap().case;
        assert_eq!(of(Some(&opened), &asked, true), None);
        for decision in Decision::all() {
            let over = asked.decided(&step.charge, decision, at(120)).unwrap().unwrap().case;
            let last = of(Some(&asked), &over, true).unwrap();
            assert_eq!((last.about, last.version, last.at), (About::MedResolved(opened.id), 3, at(120)));
            assert_ne!(last.id(), first.id());
            assert_eq!(of(Some(&asked), &over, false), None, "the platform tells nobody of ends");
        }
    }

    fn refund() -> Refund {
        let asked = RefundAsked {
            gross: None,
            strategy: RefundStrategy::Cashout,
            pix_out_fee: MinorUnits::ZERO,
            merchant_bears_pix_out: false,
            is_held: false,
        };
        let plan = RefundPlan {
            asked,
            destination: None,
            third_party: false,
            limit: None,
            reason: None,
            request_hash: String::new(),
        };
        let id = RefundId::derive(paid().id, "refund-01");
        Refund::request(id, &paid(), plan, at(100)).unwrap().refund
    }

    #[test]
    fn a_refund_to_a_third_party_is_worth_an_email_when_it_is_new() {
        let refund = refund();
        assert_eq!(Email::of_refund(None, &refund), None);
        let to_other = Refund { third_party: true, ..refund };
        let told = Email::of_refund(None, &to_other).unwrap();
        assert_eq!((told.about, told.version), (About::RefundDestination(to_other.id), 1));
        assert_eq!(Email::of_refund(Some(&to_other), &to_other), None);
    }

    #[test]
    fn a_message_names_the_change_and_nothing_else() {
        let body = email().body().unwrap();
        insta::assert_snapshot!(body, @r#"{"scope":"acc_0123456789abcdef:test","about":{"endpoint_disabled":"wh_01m7yzmhg00w3ge1r70w3ge1r7"},"version":3,"at":"2026-11-21T12:00:00.000Z"}"#);
        assert_eq!(serde_json::from_str::<Email>(&body).unwrap(), email());
        assert_eq!(email().group(), "acc_0123456789abcdef");
    }

    #[test]
    fn a_claim_holds_until_its_lease_ends_or_is_given_back() {
        let first = Sending::first(&email(), 1, at(0));
        assert_eq!(first.again(2, at(59)), Claim::Busy { until: at(60) });
        let Claim::Claimed(second) = first.again(2, at(60)) else { panic!("the lease is over") };
        assert_eq!((second.attempts, second.leased_until, second.version), (2, Some(at(120)), 2));
        assert_ne!(second.claim, first.claim);
        let Claim::Claimed(third) = second.released().again(3, at(61)) else { panic!("it was given back") };
        assert_eq!((third.attempts, third.version), (3, 4));
    }

    #[test]
    fn what_was_sent_is_claimed_by_nobody() {
        let sent = Sending::first(&email(), 1, at(0)).sent(at(1));
        assert_eq!((sent.sent_at, sent.leased_until), (Some(at(1)), None));
        for now in [at(1), at(1_000_000)] {
            assert_eq!(sent.again(2, now), Claim::Sent);
        }
    }

    #[test]
    fn an_endpoint_that_the_service_switched_off_is_worth_one_email() {
        let on = endpoint();
        let disabled = Some(Disabled { at: at(9), reason: "nothing was delivered".to_owned() });
        let off = Endpoint { disabled, version: 3, updated_at: at(9), ..on.clone() };
        let told = Email::of_endpoint(Some(&on), &off).unwrap();
        assert_eq!((told.version, told.at), (3, at(9)));
        let edited = Endpoint { url: "https://new.example.com/".to_owned(), version: 4, ..off.clone() };
        assert_eq!(Email::of_endpoint(Some(&off), &edited), None, "it was told of");
        assert_eq!(Email::of_endpoint(Some(&off), &on), None, "it is on again");
        assert_eq!(Email::of_endpoint(None, &on), None);
        let again = Some(Disabled { at: at(99), reason: "nothing was delivered".to_owned() });
        let again = Endpoint { disabled: again, version: 7, ..on.clone() };
        assert_ne!(Email::of_endpoint(Some(&on), &again).unwrap().id(), told.id());
    }
}
