//! All that is recorded about one charge, in the order of time. Contains no payer's document, except masked.
//!
//! The keys of its events, deliveries and postings are derived from the rows of the charge and from the endpoints.
//! So a page of a timeline costs the same for any number of charges of the account, and of entries: at most seven
//! requests, three in sequence. The keys contain their times, so only the rows of the page's time are read.

use std::collections::{HashMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use domain::audit::{Actor, ActorId};
use domain::charge::{
    Charge, FailureReason, IncomingPayment, StatusChange, StoredCharge, TransactionStatus, UnappliedReason,
};
use domain::ids::{ChargeId, EventId, PostingId, Scope, Scoped};
use domain::med::{CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundFailure, RefundStatus};
use domain::row::{Key, Row as _};
use domain::tax_id::TaxId;
use domain::time::Timestamp;
use domain::wallet::{Posting, PostingKind, RefundStrategy, ReturnStatus};
use domain::webhook::event_type::EventType;

use effects::webhook::delivery::{Delivery, deletions};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use effects::webhook::event::{Event, EventRef};
use effects::webhook::resend::MAX_RESENT;
use money::extract::ScopedResource;
use shared::http::field::{Count, Definitions, Field, LIMIT, Parsed, Presence};
use shared::http::{Fields, IdPath, Problem, Query};
use shared::store::{Item, Store, StoreError, from_item, key_of_item};

/// The most rows of one step, which two requests read.
const MOST_KEYS: usize = 200;

shared::fields! {
    STARTING_AFTER: Parsed<TimelineCursor> = "starting_after",
        Parsed {
            chars: (3, 20),
            pattern: Some("^[0-9]{1,15}-[0-9]{1,4}$"),
            format: None,
            parse: TimelineCursor::parse,
            rule: "must be the `next_cursor` of a page",
            mistake: |_| None,
        },
        Optional, "1795341600000-1",
        "The cursor: the `next_cursor` of the previous page.";
}

const PAGE_SIZE: Field<Count> = Field {
    presence: Presence::DefaultsTo("100"),
    text: "The largest number of entries on a page. A page may be shorter while `has_more` is true.",
    ..LIMIT
};

/// The query string of `GET /v1/charges/{id}/timeline`.
pub const TIMELINE_QUERY: Definitions = &[&PAGE_SIZE, &STARTING_AFTER];

/// Where a page begins: after this many entries of a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TimelineCursor {
    at: Timestamp,
    skip: usize,
}

impl TimelineCursor {
    fn parse(text: &str) -> Option<Self> {
        let (at, skip) = text.split_once('-')?;
        Some(Self { at: Timestamp::from_millis(at.parse().ok()?).ok()?, skip: skip.parse().ok()? })
    }
}

impl fmt::Display for TimelineCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.millis(), self.skip)
    }
}

/// Which rows are read, if the charge has too many.
#[derive(Clone, Copy, Debug)]
pub enum TimelinePart {
    /// The newest.
    Newest,
    /// The first ones of this time or later.
    From(Timestamp),
}

/// The rows of a charge's own partition, which are read before anything else is known.
#[derive(Debug)]
pub struct ChargeRows {
    pub charge: StoredCharge,
    /// Oldest first.
    pub refunds: Vec<Refund>,
    /// Oldest first.
    pub cases: Vec<MedCase>,
}

impl ChargeRows {
    /// Reads a charge of any scope; the caller checks the scope.
    pub async fn read(store: &Store, id: ChargeId) -> Result<Option<Self>, StoreError> {
        let (mut charge, mut refunds, mut cases) = (None, Vec::<Refund>::new(), Vec::<MedCase>::new());
        for item in store.partition(&Charge::key_of(id).pk).await? {
            match key_of_item(&item) {
                Some(key) if Charge::is_at(&key) => charge = Some(from_item(item)?),
                Some(key) if Refund::is_at(&key) => refunds.push(from_item(item)?),
                Some(key) if MedCase::is_at(&key) => cases.push(from_item(item)?),
                Some(_) | None => {}
            }
        }
        refunds.sort_by_key(|refund| refund.created_at);
        cases.sort_by_key(|case| case.created_at);
        Ok(charge.map(|charge| Self { charge, refunds, cases }))
    }
}

/// A charge with its refunds and MED cases, for its timeline.
impl ScopedResource for ChargeRows {
    type Path = IdPath<ChargeId>;

    const NAME: &'static str = "charge";

    const QUERY: Definitions = TIMELINE_QUERY;

    async fn find(store: &Store, IdPath(id): IdPath<ChargeId>) -> Result<Option<Self>, StoreError> {
        match id {
            Some(id) => ChargeRows::read(store, id).await,
            None => Ok(None),
        }
    }
}

impl Scoped for ChargeRows {
    fn scope(&self) -> Scope {
        self.charge.as_stored().scope
    }
}

/// One thing that happened.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimelineEntry {
    /// When it happened.
    pub at: Timestamp,
    /// The time that decides its page: of a delivery, that of its event, also if the event was sent again later; of the
    /// movement of a refund that came back, that of the refund.
    #[serde(skip)]
    position: Timestamp,
    /// What it is about.
    #[serde(rename = "type")]
    pub what: TimelineKind,
    /// The id of the refund, MED case, movement, event or delivery, or the end-to-end id of a Pix. `null` for a status
    /// of the charge, and for a payment by another method.
    pub id: Option<String>,
    /// The status that it led to: of the charge as `/v1/payments` shows it, or of the refund, case or delivery;
    /// of a payment `accepted`, `unapplied`, or `return` with the return's status; of a movement or event its type.
    pub state: String,
    /// The amount in minor units. For a movement the change of the wallet, which may be negative. `null` where no
    /// money is concerned.
    pub amount: Option<i64>,
    /// More, in words: the failure, the reason of a return, or the receiver and its answer.
    pub details: Option<String>,
    /// The fact that `type`, `state` and `details` describe.
    #[serde(skip)]
    pub fact: TimelineFact,
    /// What only an operator may see.
    #[serde(skip)]
    pub internal: Option<String>,
    /// The request that created the charge or refund. `null` for other entries.
    pub request_id: Option<String>,
    /// The API key (`key_…`) or the member (`usr_…`) that made the change. `null`: the service, a bank or the
    /// operator made it, or the charge was created more than 90 days ago.
    #[serde(rename = "actor")]
    pub by: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TimelineEntryType", description = "What an entry is about.")]
pub enum TimelineKind {
    /// A status of the charge.
    Status,
    /// A payment that arrived, with its return.
    Payment,
    /// A step of a refund.
    Refund,
    /// A step of a MED case.
    Case,
    /// A movement of money in the ledger.
    Posting,
    /// An event.
    Event,
    /// A delivery of an event. An event that was sent again has several to the same receiver.
    Delivery,
}

/// What happened, with its details.
#[derive(Clone, Debug)]
pub enum TimelineFact {
    Status(TransactionStatus, Option<FailureReason>),
    /// If it was not credited: how far its return has come, and why.
    Payment(Option<(ReturnStatus, UnappliedReason)>),
    /// A payment that the charge did not take and no acquirer returns: it waits for the operator, or was credited to
    /// this other charge.
    Unapplied(Option<ChargeId>),
    Refund {
        status: RefundStatus,
        strategy: Option<RefundStrategy>,
        failure: Option<RefundFailure>,
    },
    Case(CaseKind, CaseEvent),
    Posting(PostingKind),
    Event(EventType),
    Delivery(Box<Delivery>),
}

/// A step of a MED case.
#[derive(Clone, Copy, Debug)]
pub enum CaseEvent {
    Opened,
    /// Its amount is not confirmed.
    OpenedUnconfirmed,
    EvidenceRequested,
    Appealed,
    Ended(CaseStatus, Option<MoneyOutcome>),
}

impl TimelineFact {
    /// The type, state and details, as the API shows them.
    fn described(&self) -> (TimelineKind, String, Option<String>) {
        match self {
            Self::Status(status, failure) => {
                (TimelineKind::Status, status.as_str().to_owned(), failure.as_ref().map(ToString::to_string))
            }
            Self::Payment(None) => (TimelineKind::Payment, "accepted".to_owned(), None),
            Self::Payment(Some((status, reason))) => {
                (TimelineKind::Payment, format!("return {}", word(status)), Some(word(reason)))
            }
            Self::Unapplied(other) => {
                let details = other.map_or_else(
                    || "it waits for the operator".to_owned(),
                    |other| format!("credited to {other}"),
                );
                (TimelineKind::Payment, "unapplied".to_owned(), Some(details))
            }
            Self::Refund { status, strategy, failure } => {
                let failure = failure.as_ref().map(ToString::to_string);
                (TimelineKind::Refund, word(status), joined([strategy.map(word), failure]))
            }
            Self::Case(kind, event) => {
                let details = match event {
                    CaseEvent::Ended(_, outcome) => outcome.map(word),
                    _ => Some(kind.as_str().to_owned()),
                };
                let state = match event {
                    CaseEvent::Opened => "open",
                    CaseEvent::OpenedUnconfirmed => "open, unconfirmed",
                    CaseEvent::EvidenceRequested => "evidence requested",
                    CaseEvent::Appealed => "appealed",
                    CaseEvent::Ended(status, _) => status.as_str(),
                };
                (TimelineKind::Case, state.to_owned(), details)
            }
            Self::Posting(kind) => (TimelineKind::Posting, word(kind), None),
            Self::Event(name) => (TimelineKind::Event, name.as_str().to_owned(), None),
            Self::Delivery(delivery) => {
                let receiver = delivery.endpoint.map_or_else(|| "webhookUrl".to_owned(), |id| id.to_string());
                let (name, attempts) = (delivery.event_type.as_str(), delivery.attempts);
                let plural = if attempts == 1 { "" } else { "s" };
                let sent = format!("{name} to {receiver}, {attempts} attempt{plural}");
                let answer = || delivery.last_status_code.map(|code| format!("answered {code}"));
                let details = joined([Some(sent), delivery.error().or_else(answer)]);
                (TimelineKind::Delivery, delivery.status.as_str().to_owned(), details)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct ChargeTimeline {
    pub charge: Charge,
    pub refunds: Vec<Refund>,
    pub cases: Vec<MedCase>,
    /// All that arrived for the charge, also those that were returned; the newest ten.
    pub payments: Vec<IncomingPayment>,
    pub postings: Vec<Posting>,
    pub events: Vec<Event>,
    /// All of the scope, as they are now.
    pub endpoints: Vec<Endpoint>,
    /// In the order of time. Statuses, refunds and cases are all there.
    pub entries: Vec<TimelineEntry>,
    /// `false`: the charge has so many events or receivers that some entries are missing.
    pub is_complete: bool,
    /// The time at which rows begin that were not read.
    read_until: Timestamp,
}

/// The rows that a step found.
#[derive(Default)]
struct Found {
    payments: Vec<IncomingPayment>,
    postings: Vec<Posting>,
    events: Vec<Event>,
    deliveries: Vec<Delivery>,
}

impl Found {
    fn sort_in(&mut self, item: Item) -> Result<(), StoreError> {
        match key_of_item(&item) {
            Some(key) if Event::is_at(&key) => self.events.push(from_item(item)?),
            Some(key) if IncomingPayment::is_at(&key) => self.payments.push(from_item(item)?),
            Some(key) if Posting::is_at(&key) => self.postings.push(from_item(item)?),
            Some(key) if Delivery::is_at(&key) => self.deliveries.push(from_item(item)?),
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// Reads at most [`MOST_KEYS`] rows. Returns whether that was all.
async fn read(store: &Store, mut keys: Vec<Key>, found: &mut Found) -> Result<bool, StoreError> {
    let mut known = HashSet::new();
    // DynamoDB refuses a key twice.
    keys.retain(|key| known.insert(key.clone()));
    let is_complete = keys.len() <= MOST_KEYS;
    keys.truncate(MOST_KEYS);
    for item in store.batch_get(&keys).await? {
        found.sort_in(item)?;
    }
    Ok(is_complete)
}

/// Selects the keys of a step. `until`: the time from which on the rows of another step are not read. Returns the keys,
/// and that time for this step.
fn part_of(
    mut timed: Vec<(Timestamp, Vec<Key>)>,
    (part, most, until): (TimelinePart, usize, Timestamp),
) -> (Vec<Key>, Timestamp) {
    timed.sort_by_key(|(at, _)| *at);
    match part {
        TimelinePart::Newest => timed.reverse(),
        TimelinePart::From(start) => timed.retain(|(at, _)| *at >= start && *at < until),
    }
    let mut keys: Vec<Key> = Vec::new();
    for (at, more) in timed {
        // Those of the first time are read in any case, so that each page has the rows of at least a millisecond.
        if !keys.is_empty() && keys.len().saturating_add(more.len()) > most {
            return (keys, if let TimelinePart::Newest = part { until } else { at });
        }
        keys.extend(more);
    }
    (keys, until)
}

/// The time in the id at the end of the key of an event or a posting.
fn time_of(key: &Key) -> Timestamp {
    let id = key.sk.rsplit('#').next().unwrap_or_default();
    let of_event = || id.parse::<EventId>().ok().and_then(|id| id.timestamp());
    let of_posting = id.parse::<PostingId>().ok().and_then(|id| id.timestamp());
    of_posting.or_else(of_event).unwrap_or(Timestamp::MIN)
}

pub async fn charge_timeline(
    store: &Store,
    ChargeRows { charge, refunds, cases }: ChargeRows,
    part: TimelinePart,
    now: Timestamp,
) -> Result<ChargeTimeline, StoreError> {
    let stored = charge.as_stored();
    let scope = stored.scope;
    let mut found = Found::default();
    let mut keys = payment_keys(stored);
    let came_back = came_back(scope, &refunds);
    let timed = first_keys(stored, &refunds, &cases).into_iter().map(|key| (time_of(&key), vec![key]));
    let timed = timed.chain(came_back.iter().map(|(key, at)| (*at, vec![key.clone()])));
    let (timed, most) = (timed.collect::<Vec<_>>(), MOST_KEYS.saturating_sub(keys.len()));
    let has_all = timed.len() <= most;
    let (first, until) = part_of(timed, (part, most, Timestamp::MAX));
    keys.extend(first);
    let (endpoints, deleted, _) = {
        let endpoints = Endpoints::new(store.clone());
        tokio::try_join!(
            Box::pin(endpoints.list(&scope)),
            Box::pin(deletions(store, &scope)),
            Box::pin(read(store, keys, &mut found))
        )?
    };
    let mut keys: Vec<Key> =
        found.payments.iter().flat_map(|payment| payment.posting_keys(stored.shard())).collect();
    let of_event = |event: &Event| (event.created_at, Delivery::keys_of_event(event, &endpoints, &deleted));
    let of_events: Vec<_> = found.events.iter().map(of_event).collect();
    let wanted = of_events.iter().map(|(_, keys)| keys.len()).fold(keys.len(), usize::saturating_add);
    let most = MOST_KEYS.saturating_sub(keys.len());
    let (of_deliveries, until) = part_of(of_events, (part, most, until));
    keys.extend(of_deliveries);
    let has_each = read(store, keys, &mut found).await?;
    // A page ends where the next one begins. Without pages, all rows are wanted.
    let is_complete = has_each && (matches!(part, TimelinePart::From(_)) || (has_all && wanted <= MOST_KEYS));

    let Found { mut payments, mut postings, mut events, deliveries } = found;
    payments.retain(|payment| !came_back.contains_key(&payment.key()));
    payments.sort_by_key(|payment| payment.paid_at);
    postings.retain(|posting| posting.subject.charge == Some(stored.id));
    postings.sort_by_key(|posting| posting.id);
    events.sort_by_key(|event| event.id);
    let mut deliveries: Vec<Delivery> =
        deliveries.into_iter().map(|delivery| delivery.shown(&endpoints)).collect();
    deliveries.sort_by_key(|delivery| delivery.id);
    let creator = stored.created_by.as_ref().or_else(|| events.iter().find_map(|event| event.by.as_ref()));
    let mut entries = statuses(stored, creator);
    entries.extend(payments.iter().map(|of| payment(stored.id, of)));
    entries.extend(refunds.iter().flat_map(steps_of_refund));
    entries.extend(cases.iter().flat_map(steps_of_case));
    entries.extend(postings.iter().map(|of| {
        let back = of.subject.payment.as_ref().map(|id| IncomingPayment::key_of(&scope, id));
        let position = back.and_then(|key| came_back.get(&key)).copied().unwrap_or(of.at);
        TimelineEntry { position, ..posting(of) }
    }));
    entries.extend(events.iter().flat_map(names_of_event));
    entries.extend(deliveries.into_iter().map(delivery));
    // The sort is stable: entries of one kind at one time stay in the order in which they happened.
    entries.sort_by_key(|entry| (entry.at, entry.what));
    let has_all_resends = events.iter().all(|event| event.resent.len() < MAX_RESENT);
    Ok(ChargeTimeline {
        charge: charge.read_at(now),
        refunds,
        cases,
        payments,
        postings,
        events,
        endpoints,
        entries,
        is_complete: is_complete && has_all_resends,
        read_until: until,
    })
}

/// The keys of the payments that arrived, whose times the rows alone have. They are few.
fn payment_keys(charge: &Charge) -> Vec<Key> {
    let applied = charge.applied_payment.iter().map(|applied| &applied.payment_id);
    let returned = charge.returned.iter().map(|returned| &returned.payment_id);
    let payments = applied.chain(returned).chain(&charge.unapplied);
    payments.map(|id| IncomingPayment::key_of(&charge.scope, id)).collect()
}

/// The keys of the payments that record refunds that came back, with the times of the refunds. Most do not exist.
fn came_back(scope: Scope, refunds: &[Refund]) -> HashMap<Key, Timestamp> {
    let of_refund = |refund: &Refund| {
        let id = refund.came_back_as()?;
        Some((IncomingPayment::key_of(&scope, &id), refund.updated_at))
    };
    refunds.iter().filter_map(of_refund).collect()
}

/// The keys of postings and events that are derived from the rows of the charge.
fn first_keys(charge: &Charge, refunds: &[Refund], cases: &[MedCase]) -> Vec<Key> {
    let mut keys = charge.posting_keys();
    keys.extend(refunds.iter().flat_map(Refund::posting_keys));
    keys.extend(cases.iter().flat_map(MedCase::posting_keys));
    let mut refs = EventRef::of_charge(charge);
    refs.extend(refunds.iter().flat_map(EventRef::of_refund));
    refs.extend(cases.iter().flat_map(EventRef::of_case));
    // A status change without a type has no events; its row is only counted.
    refs.retain(|event| !event.types.is_empty());
    keys.extend(refs.iter().map(|event| Event::key_of(&charge.scope, event.shard, event.id)));
    keys
}

impl TimelineEntry {
    fn new(at: Timestamp, id: Option<String>, fact: TimelineFact) -> Self {
        let (what, state, details) = fact.described();
        let (amount, internal, request_id, by) = Default::default();
        Self { at, position: at, what, id, state, amount, details, fact, internal, request_id, by }
    }

    fn by(self, actor: Option<&Actor>, version: u64) -> Self {
        let actor = actor.filter(|actor| actor.version == version);
        Self { by: actor.map(|actor| actor.by.to_string()), ..self }
    }
}

fn statuses(charge: &Charge, creator: Option<&ActorId>) -> Vec<TimelineEntry> {
    let of_change = |(entry, led_to): (StatusChange, TransactionStatus)| {
        let is_creation = entry.version == 1;
        let failure = charge.failure.as_ref().filter(|failure| failure.at == entry.at);
        let fact = TimelineFact::Status(led_to, failure.map(|failure| failure.reason.clone()));
        let state = TimelineEntry::new(entry.at, None, fact).by(charge.actor.as_ref(), entry.version);
        TimelineEntry {
            amount: is_creation.then_some(charge.amount.minor()),
            request_id: is_creation.then(|| charge.request_id.as_str().to_owned()),
            by: creator.filter(|_| is_creation).map(ToString::to_string).or(state.by),
            ..state
        }
    };
    charge.status_changes().into_iter().map(of_change).collect()
}

fn steps_of_refund(refund: &Refund) -> Vec<TimelineEntry> {
    let of_step = |(version, status, at): (u64, RefundStatus, Timestamp)| {
        let bank = refund.rtr_id.as_ref().filter(|_| status == refund.status);
        let strategy = refund.pix_strategy();
        let failure = refund.failure_reason.clone().filter(|_| status == RefundStatus::Failed);
        let fact = TimelineFact::Refund { status, strategy, failure };
        let requested = refund.requested_at_bank.as_ref().map(|id| format!("requested at the bank as {id}"));
        TimelineEntry {
            amount: Some(refund.share.gross.minor()),
            internal: joined([requested, bank.map(|id| format!("the bank's id {id}"))]),
            request_id: (version == 1).then(|| refund.request_id.as_str().to_owned()),
            ..TimelineEntry::new(at, Some(refund.id.to_string()), fact).by(refund.actor.as_ref(), version)
        }
    };
    refund.steps().map(of_step).collect()
}

fn steps_of_case(case: &MedCase) -> Vec<TimelineEntry> {
    let step = |at: Timestamp, event| TimelineEntry {
        amount: Some(case.amount.minor()),
        ..TimelineEntry::new(at, Some(case.id.to_string()), TimelineFact::Case(case.kind, event))
    };
    let appealed = case.appealed_at.map(|at| step(at, CaseEvent::Appealed));
    let requested = case.evidence_requested_at.map(|at| step(at, CaseEvent::EvidenceRequested));
    let ended = case.closed_at.map(|at| TimelineEntry {
        amount: Some(case.moved.get()),
        ..step(at, CaseEvent::Ended(case.status, case.money_outcome)).by(case.actor.as_ref(), case.version)
    });
    let opened = if case.unconfirmed { CaseEvent::OpenedUnconfirmed } else { CaseEvent::Opened };
    let opened = step(case.created_at, opened);
    [Some(opened), requested, appealed, ended].into_iter().flatten().collect()
}

fn payment(of: ChargeId, payment: &IncomingPayment) -> TimelineEntry {
    let returned = payment.returned.as_ref().map(|returned| (returned.status, returned.reason));
    let is_of_other = payment.charge_id().is_some_and(|charge| charge != of);
    let fact = if payment.is_unmatched() || is_of_other {
        TimelineFact::Unapplied(payment.charge_id())
    } else {
        TimelineFact::Payment(returned)
    };
    let payer = payment.payer_document.as_ref().map(|payer| format!("payer {}", TaxId::masked(payer)));
    let id = payment.payment_id.to_string();
    let (end_to_end_id, acquirers_id) = match payment.method {
        PaymentMethod::Pix => (Some(id), None),
        _ => (None, Some(format!("the acquirer's id {id}"))),
    };
    let returned_as = payment.returned.as_ref().map(|back| format!("returned as {}", back.id));
    let recorded = format!("recorded {}", payment.recorded_at.to_iso());
    TimelineEntry {
        amount: Some(payment.amount.minor()),
        internal: joined([acquirers_id, payer, returned_as, Some(recorded)]),
        ..TimelineEntry::new(payment.paid_at, end_to_end_id, fact)
    }
}

fn posting(posting: &Posting) -> TimelineEntry {
    let transfers = posting.transfers.iter().map(|transfer| {
        format!("{} to {} {}", transfer.from.as_str(), transfer.to.as_str(), transfer.minor.get())
    });
    TimelineEntry {
        // A sum of stored amounts that is out of range is not shown. The verification of the ledger reports it.
        amount: posting.net().ok().map(MinorUnits::get),
        internal: joined(transfers.map(Some)),
        ..TimelineEntry::new(posting.at, Some(posting.id.to_string()), TimelineFact::Posting(posting.kind))
    }
}

fn names_of_event(event: &Event) -> Vec<TimelineEntry> {
    let of_name = |name| {
        let id = Some(event.id_as(name).to_string());
        TimelineEntry::new(event.created_at, id, TimelineFact::Event(name))
    };
    event.types().map(of_name).collect()
}

fn delivery(delivery: Delivery) -> TimelineEntry {
    let at = delivery.dated_at();
    TimelineEntry {
        position: delivery.event.timestamp().unwrap_or(at),
        ..TimelineEntry::new(at, Some(delivery.id.to_string()), TimelineFact::Delivery(Box::new(delivery)))
    }
}

fn joined(texts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn word(variant: impl Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A page of what happened to a charge, oldest first.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ChargeTimeline")]
pub struct TimelineView {
    /// Always `list`.
    #[schemars(extend("const" = "list"))]
    object: &'static str,
    /// The entries, oldest first. A delivery that sent an event again is on the page of its event.
    data: Vec<TimelineEntry>,
    /// Whether further entries follow.
    has_more: bool,
    /// The `starting_after` of the next page. `null` on the last page.
    #[schemars(with = "Option<String>")]
    next_cursor: Option<String>,
    /// Whether the page has all entries of its time. `false` only if an event has more than 200 deliveries, or was sent
    /// again more than 50 times.
    complete: bool,
}

/// The page of a timeline that a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct TimelinePage {
    after: TimelineCursor,
    limit: usize,
}

impl TimelinePage {
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, TIMELINE_QUERY);
        let start = TimelineCursor { at: Timestamp::MIN, skip: 0 };
        let after = query.read(&mut fields, &STARTING_AFTER).unwrap_or(start);
        let limit = query.count(&mut fields, &PAGE_SIZE);
        fields.finish(Some(Self { after, limit }))
    }

    pub fn part(&self) -> TimelinePart {
        TimelinePart::From(self.after.at)
    }

    pub fn view(&self, timeline: &ChargeTimeline) -> TimelineView {
        let Self { after, limit } = *self;
        let is_read = |entry: &&TimelineEntry| (after.at..timeline.read_until).contains(&entry.position);
        let mut entries: Vec<TimelineEntry> = timeline.merchants_entries().filter(is_read).cloned().collect();
        entries.sort_by_key(|entry| (entry.position, entry.what));
        let end = after.skip.saturating_add(limit);
        let next = if entries.len() > end {
            entries.truncate(end);
            entries.last().map(|last| last.position).map(|at| TimelineCursor {
                at,
                skip: entries.iter().filter(|entry| entry.position == at).count(),
            })
        } else {
            let is_last = timeline.read_until == Timestamp::MAX;
            (!is_last).then_some(TimelineCursor { at: timeline.read_until, skip: 0 })
        };
        let mut on_page: Vec<TimelineEntry> = entries.into_iter().skip(after.skip).collect();
        on_page.sort_by_key(|entry| (entry.at, entry.what));
        TimelineView {
            object: "list",
            data: on_page,
            has_more: next.is_some(),
            next_cursor: next.map(|next| next.to_string()),
            complete: timeline.is_complete,
        }
    }
}

impl ChargeTimeline {
    /// The entries without the movements that do not change the merchant's wallet. They are not in its statement
    /// either.
    pub fn merchants_entries(&self) -> impl DoubleEndedIterator<Item = &TimelineEntry> {
        let internal = self.postings.iter().filter(|posting| !posting.kind.is_in_statement());
        let internal: HashSet<String> = internal.map(|posting| posting.id.to_string()).collect();
        self.entries.iter().filter(move |entry| entry.id.as_ref().is_none_or(|id| !internal.contains(id)))
    }
}
