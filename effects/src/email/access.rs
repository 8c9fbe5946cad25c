//! Changes of who may act for an account, and of how its users log in. Owners are mailed of the first kind, a user of
//! the second. Each such change has an audit row, from which the emails are made.
//!
//! The changes of a minute cause one email to each recipient. It is sent when no further row can have been written in
//! that minute, so that it lists all of them.

use std::time::Duration;

use domain::audit::Audit;
use domain::ids::{Mode, Scope, UserId};
use domain::time::Timestamp;

use super::{Email, EmailTopic};
use shared::account::Role;

const MINUTE_SECONDS: i64 = 60;

/// How long after its minute an email is sent, in seconds. The clock of the machine that writes a row may be a minute
/// slow ([`shared::audit`]), and a function that is about to write it ends within 20 seconds.
const WAIT_SECONDS: i64 = 90;

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
    Password,
    SecondFactorOff,
    SecondFactorOn,
}

impl<'a> AccessChange<'a> {
    pub fn of(audit: &'a Audit) -> Option<Self> {
        let details = audit.details.as_deref().unwrap_or_default();
        let key = |details: &'a str| {
            let prefix = details.strip_prefix("live, prefix ")?.split(',').next()?;
            Some(Self::LiveKey(prefix))
        };
        let manager = |email, role: &str| {
            let role = role.parse().ok().filter(|role: &Role| role.manages_keys())?;
            Some(Self::Manager(email, role))
        };
        match audit.action.as_str() {
            "api-key.issue" => key(details),
            "api-key.rotate" => key(details.split_once(", ")?.1),
            "user.add" => details.split_once(" as ").and_then(|(email, role)| manager(email, role)),
            "user.remove" => details.strip_suffix(" was OWNER").map(Self::OwnerLost),
            "user.set-role" => {
                let (before, role) = details.split_once(" became ")?;
                let (email, before) = before.rsplit_once(' ')?;
                if before == Role::Owner.as_str() {
                    Some(Self::OwnerLost(email))
                } else {
                    manager(email, role)
                }
            }
            "user.reset-password" => Some(Self::Password),
            "user.second-factor-off" => Some(Self::SecondFactorOff),
            "user.second-factor-on" => Some(Self::SecondFactorOn),
            "webhook-endpoint.register" => {
                Some(Self::LiveEndpoint(details.strip_prefix("live ")?.split(',').next()?))
            }
            "webhook-endpoint.change" => {
                let urls = details.strip_prefix("live url: ")?.split(';').next()?;
                Some(Self::LiveEndpoint(urls.rsplit(' ').next()?))
            }
            _ => None,
        }
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
        let minute = audit.link.as_ref()?.written_at.seconds().div_euclid(MINUTE_SECONDS);
        Some(Self {
            scope: Scope { account: audit.account, mode: Mode::Live },
            about: EmailTopic::TeamAccess,
            version: u64::try_from(minute).ok()?,
            at: Timestamp::MIN.plus_seconds(minute.saturating_mul(MINUTE_SECONDS)).ok()?,
        })
    }

    /// Whether an email about changes of access reports this row.
    pub fn reports(&self, audit: &Audit) -> bool {
        Self::for_access(audit).is_some_and(|email| email.version == self.version)
    }

    /// How long the message waits before the mailer gets it.
    pub fn delay(&self, now: Timestamp) -> Duration {
        let wait = if self.about == EmailTopic::TeamAccess { MINUTE_SECONDS + WAIT_SECONDS } else { 0 };
        self.at.plus_seconds(wait).unwrap_or(Timestamp::MAX).saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use domain::audit::Operator;
    use domain::ids::AuditId;

    use super::*;

    #[test]
    fn changes_of_access_are_recognised_by_their_audit_rows() {
        let ana = UserId::from_email("ana@loja.example");
        let row = |action: &str, details: &str| {
            let (at, account) = (Timestamp::MIN, "acc_0123456789abcdef".parse().unwrap());
            let id = (AuditId::new(at, [0; 10]), at);
            let row = Audit::by_operator(&Operator::default(), account, id, action, ana.to_string());
            row.with_details(details.to_owned())
        };
        for (action, details, change) in [
            (
                "api-key.issue",
                "live, prefix ak_live_1, label \"x\"",
                Some(AccessChange::LiveKey("ak_live_1")),
            ),
            ("api-key.issue", "test, prefix ak_test_1, label \", live, prefix ak_live_1\"", None),
            (
                "api-key.rotate",
                "replaced by 12ab, live, prefix ak_live_2, label \"\"",
                Some(AccessChange::LiveKey("ak_live_2")),
            ),
            (
                "user.add",
                "bia@loja.example as ADMIN",
                Some(AccessChange::Manager("bia@loja.example", Role::Admin)),
            ),
            ("user.add", "bia@loja.example as MEMBER", None),
            (
                "user.set-role",
                "bia@loja.example MEMBER became OWNER",
                Some(AccessChange::Manager("bia@loja.example", Role::Owner)),
            ),
            (
                "user.set-role",
                "ana@loja.example OWNER became ADMIN",
                Some(AccessChange::OwnerLost("ana@loja.example")),
            ),
            ("user.set-role", "bia@loja.example ADMIN became MEMBER", None),
            ("user.remove", "ana@loja.example was OWNER", Some(AccessChange::OwnerLost("ana@loja.example"))),
            ("user.remove", "bia@loja.example was MEMBER", None),
            (
                "webhook-endpoint.register",
                "live https://shop.example, events: charge.paid",
                Some(AccessChange::LiveEndpoint("https://shop.example")),
            ),
            ("webhook-endpoint.register", "test https://shop.example, events: charge.paid", None),
            (
                "webhook-endpoint.change",
                "live url: https://a.example to https://b.example; status: ACTIVE to INACTIVE",
                Some(AccessChange::LiveEndpoint("https://b.example")),
            ),
            ("webhook-endpoint.change", "live events added: charge.paid", None),
            ("user.second-factor-off", "ana@loja.example", Some(AccessChange::SecondFactorOff)),
            ("user.log-in", "", None),
        ] {
            let row = row(action, details);
            let found = AccessChange::of(&row);
            assert_eq!(found, change, "{action} {details}");
            let own = found.and_then(|change| change.user(&row));
            assert!(found.is_none_or(|change| change.is_for_owners() || own == Some(ana)), "{action}");
        }
    }
}
