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

use std::fmt::Display;

use domain::audit::{Action, Actor, AddedEvidence, Audit, Operator, Sum};
use domain::charge::{Charge, TransactionStatus};
use domain::ids::{AuditId, Scope};
use domain::med::{CaseStatus, MedCase};
use domain::pix_key::PixKey;
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
    fn audit_row(self, action: Action, subject: impl Display) -> Option<Audit> {
        let actor = self.actor.filter(|actor| actor.version == self.version)?;
        let (by, id) = (actor.by.as_operator(actor.source), self.audit_id());
        Some(Audit::by_operator(&by, self.scope.account, (id, self.at), action, subject))
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
    let sum = Sum { mode: new.scope.mode, currency: new.currency, minor: new.amount.minor() };
    change.audit_row(Action::CancelCharge { sum, before: from }, new.id)
}

/// Derives the audit row for a refund that an API key creates.
pub fn for_refund(new: &Refund) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let action = Action::CreateRefund {
        sum: Sum { mode: new.scope.mode, currency: new.currency, minor: new.share.gross.minor() },
        charge: new.id.charge(),
        strategy: new.pix_strategy(),
        to: new.destination.as_ref().map(PixKey::masked),
    };
    change.audit_row(action, new.id)
}

/// Derives the audit row for a MED case that an API key or a member appeals or accepts, or whose evidence a member adds
/// or removes.
pub fn for_case(old: Option<&MedCase>, new: &MedCase) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let mode = new.scope.mode;
    let sum = Sum { mode, currency: new.currency, minor: new.amount.minor() };
    let action = match new.status {
        CaseStatus::Appealed => Action::AppealCase(sum),
        CaseStatus::Accepted => Action::AcceptCase { sum, lost: new.moved.get() },
        CaseStatus::Open if old.is_some_and(|old| old.evidence_count > new.evidence_count) => {
            Action::RemoveEvidence { mode, left: new.evidence_count }
        }
        CaseStatus::Open if new.evidence_count > 0 => {
            Action::AddEvidence(AddedEvidence::Files(mode, new.evidence_count))
        }
        CaseStatus::Open | CaseStatus::Rejected | CaseStatus::Closed => return None,
    };
    change.audit_row(action, new.id)
}

/// Derives the audit row for a webhook endpoint that an API key registers or changes, or whose secret it
/// rotates, or that the service switches off.
pub fn for_endpoint(old: Option<&Endpoint>, new: &Endpoint) -> Option<Audit> {
    let change = Change::of(new, new.scope, (new.version, new.updated_at), new.actor.as_ref());
    let disabled_before = old.and_then(|endpoint| endpoint.disabled.as_ref());
    if let Some(disabled) = new.disabled.as_ref().filter(|now| Some(*now) != disabled_before) {
        let worker =
            Operator { actor: WORKER.to_owned(), reason: disabled.to_string(), ..Operator::default() };
        let id = (change.audit_id(), disabled.at);
        let action = Action::DisableEndpoint(new.scope.mode);
        return Some(Audit::by_operator(&worker, new.scope.account, id, action, new.id));
    }
    let (mode, server) = (new.scope.mode, server_of(&new.url));
    let action = match old {
        None => Action::RegisterEndpoint { mode, server, events: new.events.clone() },
        Some(old) if old.secret_version != new.secret_version => {
            Action::RotateEndpointSecret { mode, server }
        }
        Some(old) => Action::ChangeEndpoint {
            mode,
            url: (old.url != new.url).then(|| (server_of(&old.url), server)),
            added: only_in(new, old),
            removed: only_in(old, new),
            status: (old.status != new.status).then_some((old.status, new.status)),
        },
    };
    change.audit_row(action, new.id)
}

/// Derives the audit row for the failed log-in that used up a limit.
pub fn for_lock_out(user: &User, source: SourceAddress, at: Timestamp) -> Audit {
    let locked =
        Operator { actor: user.id.to_string(), reason: BY_LOG_IN.to_owned(), source, ..Operator::default() };
    let id = AuditId::derive(at, &user.key().joined(), 0);
    Audit::by_operator(&locked, user.account, (id, at), Action::LockOut, user.id)
}

fn only_in(endpoint: &Endpoint, other: &Endpoint) -> Vec<EventType> {
    endpoint.events.iter().filter(|event| !other.events.contains(event)).copied().collect()
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
            format!("{} {}: {}", entry.action.name(), entry.subject, entry.action.details().unwrap())
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
        assert_eq!((entry.action.name(), entry.reason.as_str()), ("charge.cancel", BY_MEMBER));
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
        webhook-endpoint.register wh_01m7yzmhg00w3ge1r70w3ge1r7: {"events":["charge.paid"],"mode":"test","server":"https://shop.example.com"}
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: {"added":["charge.created","charge.failed"],"mode":"test","removed":["charge.paid"],"status":["ACTIVE","INACTIVE"],"url":["https://shop.example.com","https://other.example.com:8443"]}
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: {"added":[],"mode":"test","removed":[],"status":null,"url":["https://shop.example.com","https://shop.example.com"]}
        webhook-endpoint.rotate-secret wh_01m7yzmhg00w3ge1r70w3ge1r7: {"mode":"test","server":"https://shop.example.com"}
        webhook-endpoint.change wh_01m7yzmhg00w3ge1r70w3ge1r7: {"added":[],"mode":"test","removed":[],"status":null,"url":null}
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
