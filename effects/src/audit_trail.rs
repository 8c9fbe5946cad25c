//! Derives audit rows from changed rows, for the actions of API keys and members that concern money or security, and for
//! endpoints that the service switches off. This module does no I/O.
//!
//! A changed row contains the [`Actor`] of the change, so that no second write is needed to store the actor.
//! The event dispatcher later derives the audit row from the row before and after the change. It appends the
//! audit row outside the change's transaction, at a cost of one write unit. The audit row's id is derived
//! from the changed row and its version, so a repeated stream record appends no second audit row
//! ([`shared::audit::append_derived`]). Older rows without an actor have no audit rows.
//!
//! An audit row contains the object's id, amount and currency, and the names of an endpoint's changed fields.
//! It never contains a secret or a text of the merchant. The Pix key to which a refund is sent is masked. A
//! URL is reduced to scheme, host and port, because its path and query may contain a secret.

use domain::audit::{Actor, Audit, Operator};
use domain::charge::{Charge, TransactionStatus};
use domain::ids::{AuditId, Scope};
use domain::med::{CaseStatus, MedCase};
use domain::money::{Amount, Currency};
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::source_address::SourceAddress;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use crate::webhook::endpoint::{Endpoint, server_of};
use shared::account::User;
use shared::auth::dashboard::BY_LOG_IN;

/// The actor in the audit when the service switches an endpoint off.
const WORKER: &str = "webhook-worker";

/// A new version of a row, with the actor that the row contains.
struct Change<'a> {
    actor: Option<&'a Actor>,
    scope: Scope,
    row: Key,
    version: u64,
    at: Timestamp,
}

impl<'a> Change<'a> {
    fn of(row: &impl Row, scope: Scope, (version, at): (u64, Timestamp), actor: Option<&'a Actor>) -> Self {
        Self { actor, scope, row: row.key(), version, at }
    }

    /// Builds the audit row. `None`: the row has no actor, or its actor made an earlier change.
    fn audit_row(
        self,
        action: &str,
        subject: &dyn ToString,
        details: impl FnOnce() -> String,
    ) -> Option<Audit> {
        let actor = self.actor.filter(|actor| actor.version == self.version)?;
        let id = self.audit_id();
        let by = (&actor.by, actor.source);
        Some(Audit::by_actor(by, self.scope, (id, self.at), action, subject.to_string(), &details()))
    }

    /// Derives the audit row's id. A version of a row has at most one audit row.
    fn audit_id(&self) -> AuditId {
        AuditId::derive(self.at, &self.row.joined(), self.version)
    }
}

/// Derives the audit row for a charge that an API key cancels.
pub fn for_charge(old: Option<&Charge>, new: &Charge) -> Option<Audit> {
    let from = old.map(|charge| charge.status)?;
    if new.status != TransactionStatus::Cancelled {
        return None;
    }
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let details = || format!("{}, before: {}", money(new.currency, new.amount), from.as_str());
    change.audit_row("charge.cancel", &new.id, details)
}

/// Derives the audit row for a refund that an API key creates.
pub fn for_refund(new: &Refund) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    change.audit_row("refund.create", &new.id, || {
        let share = &new.share;
        let to = new.destination.as_ref().map(|key| format!(" to {}", key.masked())).unwrap_or_default();
        let money = money(new.currency, share.gross);
        format!("{money} of {}, {}{to}", new.id.charge(), share.strategy.as_str())
    })
}

/// Derives the audit row for a MED case that an API key or a member appeals or accepts, or to which a member adds
/// evidence.
pub fn for_case(new: &MedCase) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let claimed = money(new.currency, new.amount);
    match new.status {
        CaseStatus::Appealed => change.audit_row("med.appeal", &new.id, || claimed),
        CaseStatus::Accepted => change
            .audit_row("med.accept", &new.id, || format!("{claimed}, lost: {} {}", new.currency, new.moved)),
        CaseStatus::Open if new.evidence_count > 0 => {
            change.audit_row("med.add-evidence", &new.id, || format!("files: {}", new.evidence_count))
        }
        CaseStatus::Open | CaseStatus::Rejected | CaseStatus::Closed => None,
    }
}

/// Derives the audit row for a webhook endpoint that an API key registers or changes, or whose secret it
/// rotates, or that the service switches off.
pub fn for_endpoint(old: Option<&Endpoint>, new: &Endpoint) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let disabled_before = old.and_then(|endpoint| endpoint.disabled.as_ref());
    if let Some(disabled) = new.disabled.as_ref().filter(|now| Some(*now) != disabled_before) {
        let worker =
            Operator { actor: WORKER.to_owned(), reason: disabled.reason.clone(), ..Operator::default() };
        let id = (change.audit_id(), disabled.at);
        let (account, subject) = (new.scope.account, new.id.to_string());
        let audit = Audit::by_operator(&worker, account, id, "webhook-endpoint.disable", subject);
        return Some(audit.with_details(new.scope.mode.to_string()));
    }
    match old {
        None => change.audit_row("webhook-endpoint.register", &new.id, || described(new)),
        Some(old) if old.secret_version != new.secret_version => {
            change.audit_row("webhook-endpoint.rotate-secret", &new.id, || server_of(&new.url))
        }
        Some(old) => change.audit_row("webhook-endpoint.change", &new.id, || differences(old, new)),
    }
}

/// Derives the audit row for the failed log-in that used up a limit.
pub fn for_lock_out(user: &User, source: SourceAddress, at: Timestamp) -> Audit {
    let locked = Operator { actor: user.id.to_string(), reason: BY_LOG_IN.to_owned(), source };
    let id = AuditId::derive(at, &user.key().joined(), 0);
    Audit::by_operator(&locked, user.account, (id, at), "user.lock-out", user.id.to_string())
}

fn money(currency: Currency, amount: Amount) -> String {
    format!("{currency} {}", amount.minor())
}

fn described(endpoint: &Endpoint) -> String {
    format!("{}, events: {}", server_of(&endpoint.url), names(endpoint.events.iter()))
}

/// Describes the fields of an endpoint that a change altered.
fn differences(old: &Endpoint, new: &Endpoint) -> String {
    let mut fields = Vec::new();
    if old.url != new.url {
        let (from, to) = (server_of(&old.url), server_of(&new.url));
        let other =
            if from == to { format!("another path or query at {to}") } else { format!("{from} to {to}") };
        fields.push(format!("url: {other}"));
    }
    let only_in = |these: &Endpoint, those: &Endpoint| {
        names(these.events.iter().filter(|event| !those.events.contains(event)))
    };
    for (what, events) in [("events added", only_in(new, old)), ("events removed", only_in(old, new))] {
        if !events.is_empty() {
            fields.push(format!("{what}: {events}"));
        }
    }
    if old.status != new.status {
        fields.push(format!("status: {} to {}", old.status.as_str(), new.status.as_str()));
    }
    if fields.is_empty() { format!("{}, nothing different", server_of(&new.url)) } else { fields.join("; ") }
}

fn names<'a>(events: impl Iterator<Item = &'a EventType>) -> String {
    events.map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::charge_testing::{at, waiting};
    use crate::webhook::endpoint::EndpointStatus;
    use crate::webhook::endpoint::testing::endpoint;
    use domain::account::AccountSettings;
    use domain::audit::{ActorId, BY_API_KEY, BY_MEMBER};
    use domain::charge::StoredCharge;
    use domain::charge::transition;
    use domain::charge::transition::{Command, Outcome};
    use domain::ids::{Fingerprint, UserId};
    use domain::request_id::StoredRequestId;
    use shared::auth::Caller;

    fn caller() -> Caller {
        Caller {
            scope: waiting().scope,
            salt: Vec::new(),
            settings: AccountSettings::new("Loja", "Recife"),
            by: ActorId::Key(Fingerprint::of(&SecretString::from("ak_test_1"))),
            source: SourceAddress::parse(Some("203.0.113.9")),
            request_id: StoredRequestId::new("order-17"),
        }
    }

    /// Formats an audit row as one line, and checks the fields that are equal in all audit rows of these
    /// tests.
    fn line(entry: Option<Audit>) -> Option<String> {
        entry.map(|entry| {
            assert_eq!(entry.account, waiting().scope.account);
            assert_eq!(entry.actor, caller().by.to_string());
            assert_eq!((entry.source, entry.reason.as_str()), (caller().source, BY_API_KEY));
            format!("{} {}: {}", entry.action, entry.subject, entry.details.unwrap())
        })
    }

    #[test]
    fn a_members_action_is_audited_as_a_keys_is() {
        let by = ActorId::Member(UserId::from_email("ana@example.com"));
        let member = Caller { by: by.clone(), ..caller() };
        let after = cancelled(&waiting());
        let by_member = Charge { actor: Some(member.actor(after.version)), ..after };
        let row = shared::store::to_item(&by_member).unwrap();
        let read: StoredCharge = shared::store::from_item(row).unwrap();
        assert_eq!(read.as_stored().actor, by_member.actor, "a row keeps its member");
        let entry = for_charge(Some(&waiting()), &by_member).unwrap();
        assert_eq!((entry.actor, entry.source), (by.to_string(), caller().source));
        assert_eq!((entry.action.as_str(), entry.reason.as_str()), ("charge.cancel", BY_MEMBER));
        assert!(by.to_string().starts_with("usr_"));
    }

    fn cancelled(charge: &Charge) -> Charge {
        match transition::apply(charge, &Command::Cancel, at(90)).unwrap() {
            Outcome::Changed(next) => *next,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn audit_rows_of_an_endpoint_contain_no_secret_path_or_query() {
        const HIDDEN: [&str; 3] = ["/hook", "token", "s3cret"];
        let by_key = |row: Endpoint, version| Endpoint {
            version,
            updated_at: at(10),
            actor: Some(caller().actor(version)),
            ..row
        };
        let old = by_key(
            Endpoint { url: "https://shop.example.com/hook?token=s3cret".to_owned(), ..endpoint() },
            1,
        );
        let elsewhere = "https://u:s3cret@other.example.com:8443/hook?token=1".to_owned();
        let events = vec![EventType::ChargeCreated, EventType::ChargeFailed];
        let path = "https://shop.example.com/hook?token=another".to_owned();
        let changes = [
            Endpoint { url: elsewhere, events, status: EndpointStatus::Inactive, ..old.clone() },
            Endpoint { url: path, ..old.clone() },
            Endpoint { secret_version: 2, ..old.clone() },
            old.clone(),
        ];
        let mut lines = vec![line(for_endpoint(None, &old)).unwrap()];
        for new in changes {
            lines.push(line(for_endpoint(Some(&old), &by_key(new, 2))).unwrap());
        }
        for line in &lines {
            assert!(!HIDDEN.iter().any(|hidden| line.contains(hidden)), "{line}");
        }
        insta::assert_snapshot!(lines.join("\n"), @r#"
        webhook-endpoint.register wh_01m7yzmhg00w3ge1r70w3ge1r7: test https://shop.example.com, events: charge.paid
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: test url: https://shop.example.com to https://other.example.com:8443; events added: charge.created, charge.failed; events removed: charge.paid; status: ACTIVE to INACTIVE
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: test url: another path or query at https://shop.example.com
        webhook-endpoint.rotate-secret wh_01m7yzmhg00w3ge1r70w3ge1r7: test https://shop.example.com
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: test https://shop.example.com, nothing different
        "#);
        // The webhook worker stores a failure in the row. The row's actor is still that of an earlier change.
        let failing = Endpoint { version: 2, failing_since: Some(at(20)), ..old.clone() };
        assert_eq!(for_endpoint(Some(&old), &failing), None);
    }

    #[test]
    fn rows_without_an_actor_can_be_read_and_have_no_audit_row() {
        let before = serde_json::to_value(waiting()).unwrap();
        assert!(before.get("actor").is_none());
        let read: StoredCharge = serde_json::from_value(before).unwrap();
        let read = read.as_stored();
        assert_eq!(read.actor, None);
        assert_eq!(for_charge(Some(read), &cancelled(read)), None);
        let unknown = Actor { source: SourceAddress::default(), ..caller().actor(2) };
        let written = serde_json::to_value(&unknown).unwrap();
        assert_eq!(written.as_object().unwrap().len(), 2, "{written}");
        assert_eq!(serde_json::from_value::<Actor>(written).unwrap(), unknown);
    }
}
