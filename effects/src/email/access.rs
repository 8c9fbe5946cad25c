//! Changes of who may act for an account or where its money goes, and of how its users log in. Owners are mailed of the
//! first kind, a user of the second. Each such change has an audit row, from which the emails are made.
//!
//! The changes of a minute cause one email to each recipient. It is sent when no further row can have been written in
//! that minute, so that it lists all of them.

use domain::audit::{Action, Audit};
use domain::ids::{Mode, Scope, UserId};

use super::{Email, EmailTopic, Minute};
use shared::account::Role;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessChange<'a> {
    /// The key's prefix.
    LiveKey(&'a str),
    /// An address that is an owner or administrator from now on.
    Manager(&'a str, Role),
    /// The address of one who was an owner.
    OwnerLost(&'a str),
    /// The endpoint's server.
    LiveEndpoint(&'a str),
    /// The masked key that an owner registered.
    PayoutKey(&'a str),
    /// The masked key that an operator approved.
    PayoutKeyApproved(&'a str),
    /// The masked key that an operator rejected.
    PayoutKeyRejected(&'a str),
    Password,
    SecondFactorOff,
    SecondFactorOn,
}

impl<'a> AccessChange<'a> {
    pub fn of(audit: &'a Audit) -> Option<Self> {
        Some(match &audit.action {
            Action::IssueKey(key) | Action::RotateKey { key, .. } if key.mode == Mode::Live => {
                Self::LiveKey(&key.prefix)
            }
            Action::AddUser { email, role } if role.manages_keys() => Self::Manager(email, *role),
            Action::RemoveUser { email, role: Role::Owner }
            | Action::SetRole { email, from: Role::Owner, .. } => Self::OwnerLost(email),
            Action::SetRole { email, to, .. } if to.manages_keys() => Self::Manager(email, *to),
            Action::ResetPassword { .. } => Self::Password,
            Action::SecondFactorOff { .. } => Self::SecondFactorOff,
            Action::SecondFactorOn => Self::SecondFactorOn,
            Action::RegisterEndpoint { mode: Mode::Live, server, .. } => Self::LiveEndpoint(server),
            Action::ChangeEndpoint { mode: Mode::Live, url: Some((_, server)), .. } => {
                Self::LiveEndpoint(server)
            }
            Action::RegisterPayoutKey(key) => Self::PayoutKey(key),
            Action::ApprovePayoutKey(key) => Self::PayoutKeyApproved(key),
            Action::RejectPayoutKey(key) => Self::PayoutKeyRejected(key),
            _ => return None,
        })
    }

    /// Whether it is mailed to all owners.
    pub fn is_for_owners(self) -> bool {
        !matches!(self, Self::Password | Self::SecondFactorOff | Self::SecondFactorOn)
    }

    /// The user to whom it is mailed, whatever the role.
    pub fn user(self, audit: &Audit) -> Option<UserId> {
        let has_user = !self.is_for_owners() || matches!(self, Self::OwnerLost(_));
        audit.subject.parse().ok().filter(|_| has_user)
    }
}

impl Email {
    /// Returns the email about the changes of access in the minute in which this row was written. `None`: the row is
    /// no such change.
    pub fn for_access(audit: &Audit) -> Option<Self> {
        AccessChange::of(audit)?;
        let minute = Minute::of(audit.link.as_ref()?.written_at);
        Some(Self {
            scope: Scope { account: audit.account, mode: Mode::Live },
            about: EmailTopic::TeamAccess,
            version: minute.0,
            at: minute.starts_at(),
        })
    }

    pub fn reports(&self, audit: &Audit) -> bool {
        Self::for_access(audit).is_some_and(|email| email.version == self.version)
    }
}

#[cfg(test)]
mod tests {
    use domain::audit::{AuditedKey, Operator};
    use domain::ids::AuditId;
    use domain::time::Timestamp;

    use super::*;

    #[test]
    fn changes_of_access_are_recognised_by_their_audit_rows() {
        let ana = UserId::from_email("ana@loja.example");
        let row = |action: &Action| {
            let (at, account) = (Timestamp::MIN, "acc_0123456789abcdef".parse().unwrap());
            let id = (AuditId::new(at, [0; 10]), at);
            Audit::by_operator(&Operator::default(), account, id, action.clone(), ana)
        };
        let key = |mode| {
            let (prefix, label) = ("ak_1".to_owned(), "label".to_owned());
            AuditedKey { mode, prefix, label }
        };
        let add = |role| Action::AddUser { email: "bia@loja.example".to_owned(), role };
        let remove = |role| Action::RemoveUser { email: "bia@loja.example".to_owned(), role };
        let set_role = |from, to| Action::SetRole { email: "bia@loja.example".to_owned(), from, to };
        let server = || "https://b.example".to_owned();
        let registered = |mode| Action::RegisterEndpoint { mode, server: server(), events: Vec::new() };
        let moved = |url| {
            let (mode, added, removed, status) = (Mode::Live, Vec::new(), Vec::new(), None);
            Action::ChangeEndpoint { mode, url, added, removed, status }
        };
        let replaced_by = domain::ids::Fingerprint::of(&"key".into());
        let (bia, endpoint) = ("bia@loja.example", AccessChange::LiveEndpoint("https://b.example"));
        for (action, change) in [
            (Action::IssueKey(key(Mode::Live)), Some(AccessChange::LiveKey("ak_1"))),
            (Action::IssueKey(key(Mode::Test)), None),
            (Action::RotateKey { replaced_by, key: key(Mode::Live) }, Some(AccessChange::LiveKey("ak_1"))),
            (add(Role::Admin), Some(AccessChange::Manager(bia, Role::Admin))),
            (add(Role::Member), None),
            (set_role(Role::Member, Role::Owner), Some(AccessChange::Manager(bia, Role::Owner))),
            (set_role(Role::Owner, Role::Admin), Some(AccessChange::OwnerLost(bia))),
            (set_role(Role::Admin, Role::Member), None),
            (remove(Role::Owner), Some(AccessChange::OwnerLost(bia))),
            (remove(Role::Member), None),
            (registered(Mode::Live), Some(endpoint)),
            (registered(Mode::Test), None),
            (moved(Some((server(), server()))), Some(endpoint)),
            (moved(None), None),
            (Action::RegisterPayoutKey("*93".to_owned()), Some(AccessChange::PayoutKey("*93"))),
            (Action::ApprovePayoutKey("*93".to_owned()), Some(AccessChange::PayoutKeyApproved("*93"))),
            (Action::RejectPayoutKey("*93".to_owned()), Some(AccessChange::PayoutKeyRejected("*93"))),
            (Action::SecondFactorOff { email: bia.to_owned() }, Some(AccessChange::SecondFactorOff)),
            (Action::LogIn, None),
        ] {
            let row = row(&action);
            let found = AccessChange::of(&row);
            assert_eq!(found, change, "{action:?}");
            let own = found.and_then(|change| change.user(&row));
            assert!(found.is_none_or(|change| change.is_for_owners() || own == Some(ana)), "{action:?}");
        }
    }
}
