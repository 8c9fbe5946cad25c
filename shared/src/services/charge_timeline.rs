//! All that is recorded about one charge, in the order of time. Contains no payer's document, except masked.
//!
//! Postings and deliveries have no index by charge. Those of an account since the charge was created are read
//! up to a bound. After that, only those at the times of the charge's known changes are read.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;

use domain::audit::Actor;
use domain::charge::{Charge, IncomingPayment, StatusChange, StoredCharge, TransactionStatus};
use domain::ids::{AcquirerPaymentId, ApiKeyId, EventId};
use domain::med::MedCase;
use domain::money::MinorUnits;
use domain::refund::{Refund, RefundStatus};
use domain::row::Key;
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::Posting;

use crate::account::Accounts;
use crate::refund::Refunds;
use crate::store::{Store, StoreError};
use crate::wallet::Wallets;
use crate::webhook::delivery::{Deliveries, Delivery};
use crate::webhook::event::{Event, EventRef};

const CASES: &str = "case#";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineEntry {
    pub at: Timestamp,
    pub what: TimelineKind,
    /// `None`: the charge.
    pub id: Option<String>,
    /// The state that the object had from then on, or has now; for a posting and an event its type.
    pub state: String,
    pub amount: Option<i64>,
    pub details: Option<String>,
    pub request_id: Option<String>,
    /// The API key that made the change; `None`: the service, a bank or an operator.
    pub by: Option<ApiKeyId>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineKind {
    Status,
    /// With its return.
    Payment,
    Refund,
    Case,
    Posting,
    Event,
    /// An event that was sent again has several to the same receiver.
    Delivery,
}

#[derive(Clone, Debug)]
pub struct ChargeTimeline {
    pub entries: Vec<TimelineEntry>,
    /// From then on, postings and deliveries are included only at the times of known changes, because the
    /// account has too many. `None`: all are included.
    pub partial_from: Option<Timestamp>,
}

pub async fn charge_timeline(
    store: &Store,
    charge: &StoredCharge,
    now: Timestamp,
) -> Result<ChargeTimeline, StoreError> {
    let charge = charge.as_stored();
    let refunds = Refunds::new(store.clone()).for_charge(Some(charge.id)).await?;
    let cases: Vec<MedCase> = store.rows_of_prefix(&Charge::key_of(charge.id).pk, CASES).await?;
    let mut entries = statuses(charge);
    entries.extend(refunds.iter().flat_map(steps_of_refund));
    entries.extend(cases.iter().flat_map(steps_of_case));
    let mut changes: BTreeSet<Timestamp> = entries.iter().map(|entry| entry.at).collect();
    changes.extend(refunds.iter().map(|refund| refund.updated_at));
    changes.extend(cases.iter().map(|case| case.updated_at));
    changes.insert(charge.updated_at);

    let (postings, postings_to) = Wallets::new(store.clone()).postings_of_charge(charge, &changes).await?;
    let applied = charge.applied_payment.iter().map(|applied| &applied.payment_id);
    let payments: BTreeSet<&str> = applied
        .chain(postings.iter().filter_map(|posting| posting.subject.payment.as_ref()))
        .map(AcquirerPaymentId::as_str)
        .collect();
    let keys: Vec<Key> = payments
        .iter()
        .filter_map(|id| id.parse().ok())
        .map(|id: AcquirerPaymentId| IncomingPayment::key_of(&charge.scope, &id))
        .collect();
    entries.extend(store.get_in_order::<IncomingPayment>(&keys).await?.iter().map(payment));
    entries.extend(postings.iter().map(posting));

    let mut refs = EventRef::of_charge(charge);
    refs.extend(refunds.iter().flat_map(EventRef::of_refund));
    refs.extend(cases.iter().flat_map(EventRef::of_case));
    let keys: Vec<Key> =
        refs.iter().map(|event| Event::key_of(&charge.scope, event.shard, event.id)).collect();
    let events: Vec<Event> = store.get_in_order(&keys).await?;
    entries.extend(events.iter().flat_map(names_of_event));
    let ids: BTreeSet<EventId> = events.iter().map(|event| event.id).collect();
    let scope = Accounts::new(store.clone()).sharded_scope(&charge.scope).await?;
    let (deliveries, deliveries_to) = Deliveries::new(store.clone()).of_events(&scope, &ids, now).await?;
    entries.extend(deliveries.iter().map(delivery));

    // The sort is stable: entries of one kind at one time stay in the order in which they happened.
    entries.sort_by_key(|entry| (entry.at, entry.what));
    Ok(ChargeTimeline { entries, partial_from: postings_to.into_iter().chain(deliveries_to).min() })
}

impl TimelineEntry {
    fn new(at: Timestamp, what: TimelineKind, id: Option<String>, state: impl Into<String>) -> Self {
        let state = state.into();
        Self { at, what, id, state, amount: None, details: None, request_id: None, by: None }
    }

    fn by(self, actor: Option<&Actor>, version: u64) -> Self {
        let actor = actor.filter(|actor| actor.version == version);
        Self { by: actor.map(|actor| actor.fingerprint.clone().into()), ..self }
    }
}

fn statuses(charge: &Charge) -> Vec<TimelineEntry> {
    let of_change = |(entry, led_to): (StatusChange, TransactionStatus)| {
        let is_creation = entry.version == 1;
        let state = TimelineEntry::new(entry.at, TimelineKind::Status, None, led_to.as_str());
        let failure = charge.failure.as_ref().filter(|failure| failure.at == entry.at);
        TimelineEntry {
            amount: is_creation.then_some(charge.amount.minor()),
            details: failure.map(|failure| failure.reason.clone()),
            request_id: is_creation.then(|| charge.request_id.as_str().to_owned()),
            ..state.by(charge.actor.as_ref(), entry.version)
        }
    };
    charge.status_changes().into_iter().map(of_change).collect()
}

fn steps_of_refund(refund: &Refund) -> Vec<TimelineEntry> {
    let of_step = |(version, status, at): (u64, RefundStatus, Timestamp)| {
        let name: &'static str = status.into();
        let bank = refund.rtr_id.as_ref().filter(|_| status == refund.status);
        let details = [
            Some(word(refund.share.strategy)),
            refund.requested_at_bank.as_ref().map(|id| format!("requested at the bank as {id}")),
            bank.map(|id| format!("the bank's id {id}")),
        ];
        TimelineEntry {
            amount: Some(refund.share.gross.minor()),
            details: Some(details.into_iter().flatten().collect::<Vec<_>>().join("; ")),
            request_id: (version == 1).then(|| refund.request_id.as_str().to_owned()),
            ..TimelineEntry::new(at, TimelineKind::Refund, Some(refund.id.to_string()), name)
                .by(refund.actor.as_ref(), version)
        }
    };
    refund.steps().map(of_step).collect()
}

fn steps_of_case(case: &MedCase) -> Vec<TimelineEntry> {
    let step = |at: Timestamp, state: &str| TimelineEntry {
        amount: Some(case.amount.minor()),
        details: Some(case.kind.as_str().to_owned()),
        ..TimelineEntry::new(at, TimelineKind::Case, Some(case.id.to_string()), state)
    };
    let appealed = case.appealed_at.map(|at| step(at, "appealed"));
    let requested = case.evidence_requested_at.map(|at| step(at, "evidence requested"));
    let ended = case.closed_at.map(|at| TimelineEntry {
        amount: Some(case.moved.get()),
        details: case.money_outcome.map(word),
        ..step(at, case.status.as_str()).by(case.actor.as_ref(), case.version)
    });
    let opened = step(case.created_at, if case.unconfirmed { "open, unconfirmed" } else { "open" });
    [Some(opened), requested, appealed, ended].into_iter().flatten().collect()
}

fn payment(payment: &IncomingPayment) -> TimelineEntry {
    let state = match &payment.returned {
        Some(returned) => format!("return {}", word(returned.status)),
        None => "accepted".to_owned(),
    };
    let payer = payment.payer_document.as_ref().map(|payer| format!("payer {}", TaxId::masked(payer)));
    let returned = payment.returned.as_ref().map(|back| format!("{}, {}", word(back.reason), back.id));
    let recorded = format!("recorded {}", payment.recorded_at.to_iso());
    let details: Vec<String> = [payer, returned, Some(recorded)].into_iter().flatten().collect();
    TimelineEntry {
        amount: Some(payment.amount.minor()),
        details: Some(details.join("; ")),
        ..TimelineEntry::new(
            payment.paid_at,
            TimelineKind::Payment,
            Some(payment.payment_id.to_string()),
            state,
        )
    }
}

fn posting(posting: &Posting) -> TimelineEntry {
    let transfers = posting.transfers.iter().map(|transfer| {
        format!("{} to {} {}", transfer.from.as_str(), transfer.to.as_str(), transfer.minor.get())
    });
    TimelineEntry {
        // A sum of stored amounts that is out of range is not shown. The verification of the ledger reports it.
        amount: posting.net().ok().map(MinorUnits::get),
        details: Some(transfers.collect::<Vec<_>>().join("; ")),
        ..TimelineEntry::new(
            posting.at,
            TimelineKind::Posting,
            Some(posting.id.to_string()),
            word(posting.kind),
        )
    }
}

fn names_of_event(event: &Event) -> Vec<TimelineEntry> {
    let of_name = |name| {
        let id = Some(event.id_as(name).to_string());
        TimelineEntry::new(event.created_at, TimelineKind::Event, id, name.as_str())
    };
    event.types().map(of_name).collect()
}

fn delivery(delivery: &Delivery) -> TimelineEntry {
    let receiver = delivery.endpoint.map_or_else(|| "webhookUrl".to_owned(), |id| id.to_string());
    let sent = format!("{} to {receiver}, {} attempts", delivery.event_type.as_str(), delivery.attempts);
    let answer = delivery.last_status_code.map(|code| format!("answered {code}"));
    let error = delivery.error().map(Cow::into_owned);
    let details: Vec<String> = [Some(sent), answer, error].into_iter().flatten().collect();
    let at = delivery.id.timestamp().unwrap_or(delivery.created_at);
    TimelineEntry {
        details: Some(details.join("; ")),
        ..TimelineEntry::new(
            at,
            TimelineKind::Delivery,
            Some(delivery.id.to_string()),
            delivery.status.as_str(),
        )
    }
}

fn word(variant: impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}
