//! Proposals: commands of operators that wait for the approval of a second person.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::ids::ProposalId;
use crate::row::{Indexes, Key, Row};
use crate::time::{SECONDS_A_DAY, Timestamp};

/// How long a proposal can be approved, in seconds.
pub const LAPSES_AFTER_SECONDS: i64 = SECONDS_A_DAY;

/// An operator of the service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Person {
    /// The name as it was typed.
    pub name: String,
    /// Who that is at AWS. `None` on a laptop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

impl Person {
    /// Whether both can be the same person. Their identities decide; on a laptop, where there are none, their names do.
    pub fn may_be(&self, other: &Self) -> bool {
        match (&self.identity, &other.identity) {
            (None, None) => self.name.to_lowercase() == other.name.to_lowercase(),
            (mine, others) => mine == others,
        }
    }
}

/// A file that a proposed command reads. Its content is in the table of secrets.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ProposedFile {
    /// The path in the command.
    pub path: String,
    /// The first 16 hex digits of the content's SHA-256.
    pub fingerprint: String,
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ProposalStatus {
    /// It waits for a second person. A decider: the command of an approval failed.
    Open,
    /// A second person has approved it, and the command began. It runs, or was interrupted.
    Approved,
    /// The command succeeded.
    Done,
    Rejected,
    /// It was not approved within 24 hours. This status follows from the time and is not stored.
    Lapsed,
}

crate::named!(ProposalStatus);

/// Why a proposal can't be approved.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProposalError {
    #[error("who proposes can't approve: another person must")]
    SamePerson,
    #[error("the proposal is {}", .0.as_str())]
    Ended(ProposalStatus),
    #[error("another person has approved the proposal, and its command may be running")]
    ApprovedByAnother,
}

/// The row of a proposal. It is never removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Proposal {
    /// `pr_…`.
    pub id: ProposalId,
    /// The words of the command, without options that select a stack or name the actor.
    pub words: Vec<String>,
    pub files: Vec<ProposedFile>,
    pub proposer: Person,
    pub status: ProposalStatus,
    /// Who approved or rejected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decider: Option<Person>,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
}

impl Proposal {
    pub fn key_of(id: ProposalId) -> Key {
        Key { pk: format!("proposal#{id}"), sk: "proposal".to_owned() }
    }

    /// The partition of all proposals in the index `list`.
    pub fn list_partition() -> String {
        "proposals".to_owned()
    }

    /// Until when it can be approved.
    pub fn lapses_at(&self) -> Timestamp {
        self.created_at.saturating_plus_seconds(LAPSES_AFTER_SECONDS)
    }

    pub fn status_at(&self, now: Timestamp) -> ProposalStatus {
        match self.status {
            ProposalStatus::Open if self.lapses_at() <= now => ProposalStatus::Lapsed,
            status => status,
        }
    }

    /// The approved proposal. Who approved it can do so again if the command failed or was interrupted.
    pub fn approved(&self, by: &Person, now: Timestamp) -> Result<Self, ProposalError> {
        if by.may_be(&self.proposer) {
            return Err(ProposalError::SamePerson);
        }
        let is_in_time = now < self.lapses_at();
        match self.status_at(now) {
            ProposalStatus::Open => {}
            ProposalStatus::Approved if self.decider.as_ref().is_none_or(|decider| !decider.may_be(by)) => {
                return Err(ProposalError::ApprovedByAnother);
            }
            ProposalStatus::Approved if is_in_time => {}
            ProposalStatus::Approved => return Err(ProposalError::Ended(ProposalStatus::Lapsed)),
            ended => return Err(ProposalError::Ended(ended)),
        }
        Ok(self.next(ProposalStatus::Approved, by, now))
    }

    /// The proposal whose command succeeded.
    #[must_use]
    pub fn done(&self, by: &Person, now: Timestamp) -> Self {
        self.next(ProposalStatus::Done, by, now)
    }

    /// The proposal whose command failed: it waits again, and can be approved or rejected.
    #[must_use]
    pub fn failed(&self, by: &Person, now: Timestamp) -> Self {
        self.next(ProposalStatus::Open, by, now)
    }

    /// The rejected proposal. Who proposed it can do so too. What began can't be rejected.
    pub fn rejected(&self, by: &Person, because: &str, now: Timestamp) -> Result<Self, ProposalError> {
        match self.status_at(now) {
            ProposalStatus::Open => {
                Ok(Self { because: Some(because.to_owned()), ..self.next(ProposalStatus::Rejected, by, now) })
            }
            ended => Err(ProposalError::Ended(ended)),
        }
    }

    fn next(&self, status: ProposalStatus, by: &Person, now: Timestamp) -> Self {
        let (updated_at, version) = (now.strictly_after(self.updated_at), self.version.saturating_add(1));
        Self { status, decider: Some(by.clone()), updated_at, version, ..self.clone() }
    }
}

impl Row for Proposal {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { list: Some((Self::list_partition(), self.id.to_string())), ..Indexes::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::at;

    fn person(name: &str, identity: Option<&str>) -> Person {
        Person { name: name.to_owned(), identity: identity.map(str::to_owned) }
    }

    fn proposal(proposer: Person) -> Proposal {
        Proposal {
            id: ProposalId::new(at(0), [1; 10]),
            words: vec!["restore".to_owned()],
            files: Vec::new(),
            proposer,
            status: ProposalStatus::Open,
            decider: None,
            because: None,
            created_at: at(0),
            updated_at: at(0),
            version: 1,
        }
    }

    #[test]
    fn an_identity_is_a_person_and_a_name_is_one_only_without_identities() {
        let ana = person("ana", Some("arn:ana"));
        for (other, is_same) in [
            (person("Bia", Some("arn:ana")), true),
            (person("ana", Some("arn:bia")), false),
            (person("bia", None), false),
        ] {
            assert_eq!(ana.may_be(&other), is_same, "{other:?}");
        }
        assert!(person("ana", None).may_be(&person("Ana", None)));
        assert!(!person("ana", None).may_be(&person("bia", None)));
    }

    #[test]
    fn another_person_approves_once_within_a_day() {
        let (ana, bia, cid) = (person("ana", None), person("bia", None), person("cid", None));
        let open = proposal(ana.clone());
        let end = LAPSES_AFTER_SECONDS;
        assert_eq!(open.approved(&ana, at(1)), Err(ProposalError::SamePerson));
        assert_eq!(open.approved(&bia, at(end)), Err(ProposalError::Ended(ProposalStatus::Lapsed)));
        assert_eq!(open.rejected(&bia, "no", at(end)), Err(ProposalError::Ended(ProposalStatus::Lapsed)));
        let approved = open.approved(&bia, at(end - 1)).unwrap();
        assert_eq!((approved.status, approved.version), (ProposalStatus::Approved, 2));
        assert_eq!(approved.approved(&cid, at(end - 1)), Err(ProposalError::ApprovedByAnother));
        assert!(approved.approved(&bia, at(end - 1)).is_ok(), "the command failed");
        assert_eq!(approved.approved(&bia, at(end)), Err(ProposalError::Ended(ProposalStatus::Lapsed)));
        assert_eq!(approved.rejected(&ana, "no", at(2)), Err(ProposalError::Ended(ProposalStatus::Approved)));
        let done = approved.done(&bia, at(end));
        assert_eq!(done.approved(&bia, at(2)), Err(ProposalError::Ended(ProposalStatus::Done)));
        let rejected = open.rejected(&ana, "no", at(1)).unwrap();
        assert_eq!(rejected.approved(&bia, at(2)), Err(ProposalError::Ended(ProposalStatus::Rejected)));
    }
}
