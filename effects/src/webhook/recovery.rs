//! Recovery: sends again what did not reach an endpoint, after an outage of its server.
//!
//! The request inserts a [`Recovery`] row, which is due at once, and a row that makes it the only running recovery of its
//! endpoint. The scheduler runs the recovery in steps of `STEP_SIZE` entries. After each step, one update stores the
//! position and the numbers. A step that a crash interrupts is repeated: the ids of its deliveries derive from the
//! recovery and the event, so the repeated step creates none of them again.
//!
//! An event is sent if its latest delivery to the endpoint has a status that the request names, and no delivery of it to
//! the endpoint succeeded. A recovery of missing events sends those of which the endpoint has no delivery.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use domain::audit::Actor;
use domain::ids::{DeliveryId, EndpointId, EventId, RecoveryId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row, sortable};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::WebhookError;
use super::delivery::{Deliveries, Delivery, DeliveryStatus};
use super::endpoint::{Endpoint, EndpointStatus};
use super::event::Event;
use super::log::LISTED_SECONDS;
use super::parse_or_log;
use super::resend::note_resent;
use shared::account::Accounts;
use shared::auth::Caller;
use shared::concurrently;
use shared::http::field::{BodyFields, Boolean, TimeBound, Words};
use shared::http::{Created, Fields, JsonObject, WholeListView};
use shared::store::{CommitOutcome, ListIndex, Order, PageRange, StoreError, Write, text};

/// How many deliveries or events a step reads.
const STEP_SIZE: usize = 100;

/// How many events of a step are sent at a time.
const CONCURRENT: usize = 8;

/// The most recoveries of a list.
pub const LISTED: usize = 100;

/// Which deliveries are sent again, by their status.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
#[schemars(rename = "RecoverableStatus", description = "A status whose deliveries are sent again.")]
pub enum Recoverable {
    /// A new delivery follows.
    Failed,
    /// The next attempt of the same delivery is made now.
    Pending,
    /// A new delivery follows.
    Cancelled,
}

impl Recoverable {
    fn status(self) -> DeliveryStatus {
        match self {
            Self::Failed => DeliveryStatus::Failed,
            Self::Pending => DeliveryStatus::Pending,
            Self::Cancelled => DeliveryStatus::Cancelled,
        }
    }
}

/// How far a recovery has come.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(description = "How far a recovery has come.")]
pub enum RecoveryStatus {
    /// More steps follow.
    Running,
    /// Everything was found and queued.
    Completed,
    /// The merchant cancelled it, or the endpoint is no longer `ACTIVE`.
    Cancelled,
}

domain::named!(RecoveryStatus);

shared::fields! {
    SINCE: TimeBound = "since", TimeBound::NOT_BEFORE, Required, "2026-11-20T12:00:00-03:00",
        "Only events of this time or later: a time, or a day in `America/Sao_Paulo`. At most 90 days ago.";
    UNTIL: TimeBound = "until", TimeBound::NOT_AFTER, Optional, "2026-11-20T14:00:00-03:00",
        "Only events of this time or earlier. By default now.";
    STATUSES: Words<Recoverable> = "statuses",
        Words { words: || Recoverable::VARIANTS.iter().map(|it| (<&str>::from(*it), *it)).collect(), noun: "status" },
        Optional, ["FAILED"],
        "Which deliveries are sent again. By default `FAILED`, or none with `missing`. Of `PENDING` ones, the next attempt is made now.";
    EVENT_TYPES: Words<EventType> = "event_types",
        Words {
            words: || EventType::subscribable().map(|event| (event.as_str(), event)).collect(),
            noun: "event name",
        },
        Optional, ["charge.paid"],
        "Only events of these types. By default all.";
    MISSING: Boolean = "missing", Boolean, Optional, false,
        "`true`: also events of the last 30 days that the endpoint is subscribed to and never got.";
    DRY_RUN: Boolean = "dry_run", Boolean, Optional, false,
        "`true`: counts what would be sent, and sends nothing.";
}

/// The body of `POST /v1/webhooks/endpoints/{id}/recoveries`.
pub const RECOVERY_BODY: BodyFields =
    BodyFields::strict(&[&SINCE, &UNTIL, &STATUSES, &EVENT_TYPES, &MISSING, &DRY_RUN]);

/// What a recovery sends again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct NewRecovery {
    #[serde(with = "domain::time::millis")]
    pub since: Timestamp,
    /// The last time, included.
    #[serde(with = "domain::time::millis")]
    pub until: Timestamp,
    pub statuses: Vec<Recoverable>,
    /// Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<EventType>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl NewRecovery {
    /// Parses a request's body. The error lists every failing field.
    pub fn parse(fields: &mut Fields, body: &JsonObject, now: Timestamp) -> Option<Self> {
        let root = fields.body(body, RECOVERY_BODY);
        let since = fields.read(&root, &SINCE);
        let until = fields.read(&root, &UNTIL);
        let missing = fields.read(&root, &MISSING).unwrap_or_default();
        let by_default = if missing { Vec::new() } else { vec![Recoverable::Failed] };
        let statuses = fields.read(&root, &STATUSES).unwrap_or(by_default);
        let event_types = fields.read(&root, &EVENT_TYPES).unwrap_or_default();
        let dry_run = fields.read(&root, &DRY_RUN).unwrap_or_default();
        let since = since?;
        if now.seconds().saturating_sub(since.seconds()) > EVENTS_KEPT_SECONDS {
            fields.reject(SINCE.name, "must be at most 90 days ago");
        } else if since > now {
            fields.reject(SINCE.name, "must not be in the future");
        } else if until.is_some_and(|until| until < since) {
            fields.reject(UNTIL.name, "must not be before `since`");
        }
        let until = until.unwrap_or(Timestamp::MAX);
        Some(Self { since, until, statuses, event_types, missing, dry_run })
    }

    /// All failed deliveries that lists show.
    pub fn of_failed(now: Timestamp) -> Self {
        Self {
            since: now.saturating_plus_seconds(EVENTS_KEPT_SECONDS.saturating_neg()),
            until: Timestamp::MAX,
            statuses: vec![Recoverable::Failed],
            event_types: Vec::new(),
            missing: false,
            dry_run: false,
        }
    }

    fn takes(&self, event_type: EventType) -> bool {
        self.event_types.is_empty() || self.event_types.contains(&event_type)
    }
}

/// The row of a recovery.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Recovery {
    pub id: RecoveryId,
    pub scope: Scope,
    /// `None`: the `webhookUrl`s of payments, which only an operator recovers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointId>,
    pub request: NewRecovery,
    pub status: RecoveryStatus,
    /// How many events or deliveries match.
    pub found: u64,
    /// How many of them were queued.
    pub queued: u64,
    /// The number of parts that are done: one for each status, and one for missing events.
    parts: usize,
    /// The sort key of the last entry that was read in this part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// The key or member that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    version: u64,
}

impl Recovery {
    /// `name` is the idempotency key, or random.
    pub fn new(
        (scope, endpoint, actor): (Scope, Option<EndpointId>, Option<Actor>),
        name: &str,
        request: NewRecovery,
        now: Timestamp,
    ) -> Self {
        Self {
            id: RecoveryId::derive(&scope, endpoint, name),
            scope,
            endpoint,
            request,
            status: RecoveryStatus::Running,
            found: 0,
            queued: 0,
            parts: 0,
            after: None,
            actor,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("recoveries#") && !key.sk.ends_with(RUNNING)
    }

    pub fn key_of(scope: &Scope, id: RecoveryId) -> Key {
        Key { pk: partition(scope), sk: id.to_string() }
    }

    fn lock_key(scope: &Scope, endpoint: Option<EndpointId>) -> Key {
        let endpoint = endpoint.map_or_else(|| "webhookUrl".to_owned(), |endpoint| endpoint.to_string());
        Key { pk: partition(scope), sk: format!("{endpoint}{RUNNING}") }
    }

    fn list_partition(scope: &Scope, endpoint: Option<EndpointId>) -> String {
        format!("recoveries#{scope}#{}", endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default())
    }

    fn is_done(&self) -> bool {
        let NewRecovery { statuses, missing, .. } = &self.request;
        self.parts >= statuses.len().saturating_add((*missing).into())
    }

    /// The last time of a delivery or event that it reads. Its own deliveries are later.
    fn until(&self) -> Timestamp {
        self.request.until.min(self.created_at.plus_millis(-1).unwrap_or(Timestamp::MIN))
    }

    fn delivery_of(&self, event: &Event, name: EventType) -> DeliveryId {
        DeliveryId::for_resend(&event.id_as(name), self.endpoint, &self.id.resend(self.created_at))
    }
}

fn partition(scope: &Scope) -> String {
    format!("recoveries#{scope}")
}

/// Ends the sort key of the row that makes a recovery the only running one.
const RUNNING: &str = "#running";

impl Row for Recovery {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        let sort = format!("{}#{}", sortable(self.created_at), self.id);
        Indexes {
            due: (self.status == RecoveryStatus::Running).then_some(self.created_at),
            list: Some((Self::list_partition(&self.scope, self.endpoint), sort)),
            ..Indexes::default()
        }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

/// The row that makes a recovery the only running one of its endpoint.
#[derive(Deserialize, Serialize)]
struct Running {
    scope: Scope,
    endpoint: Option<EndpointId>,
    id: RecoveryId,
}

impl Row for Running {
    fn key(&self) -> Key {
        Recovery::lock_key(&self.scope, self.endpoint)
    }
}

/// What is sent in a step.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    found: u64,
    queued: u64,
}

shared::store::repository! {
    /// Requests recoveries, and runs their steps.
    Recoveries
}

impl Recoveries {
    /// Requests a recovery. A repeated request returns the first one.
    pub async fn request(&self, recovery: Recovery) -> Result<Created<Recovery>, WebhookError> {
        let Recovery { id, scope, endpoint, .. } = recovery;
        let running = Running { scope, endpoint, id };
        let writes = vec![Write::insert(&recovery)?, Write::insert(&running)?];
        if let CommitOutcome::Done = self.store.commit(writes).await? {
            return Ok(Created::New(recovery));
        }
        match self.store.get::<Recovery>(&recovery.key()).await? {
            Some(earlier) if earlier.request == recovery.request => Ok(Created::Replayed(earlier)),
            Some(_) => Err(WebhookError::RecoveryKeyReused),
            None => Err(WebhookError::RecoveryInProgress),
        }
    }

    /// Requests the recovery of an endpoint by a client. It must be `ACTIVE`.
    pub async fn request_by(
        &self,
        caller: &Caller,
        endpoint: &Endpoint,
        (key, request): (&str, NewRecovery),
        now: Timestamp,
    ) -> Result<Created<Recovery>, WebhookError> {
        let at = (caller.scope, Some(endpoint.id), Some(caller.actor(1)));
        let recovery = Recovery::new(at, key, request, now);
        if endpoint.status != EndpointStatus::Active {
            let earlier = self.store.get::<Recovery>(&recovery.key()).await?;
            let earlier = earlier.filter(|earlier| earlier.request == recovery.request);
            return earlier.map(Created::Replayed).ok_or(WebhookError::RecoveryOfInactive);
        }
        self.request(recovery).await
    }

    /// Returns a recovery of an endpoint, for 90 days.
    pub async fn find(
        &self,
        scope: &Scope,
        (endpoint, id): (Option<EndpointId>, Option<RecoveryId>),
    ) -> Result<Recovery, WebhookError> {
        let id = id.ok_or(WebhookError::NoRecovery)?;
        let found: Option<Recovery> = self.store.get(&Recovery::key_of(scope, id)).await?;
        found.filter(|found| found.endpoint == endpoint).ok_or(WebhookError::NoRecovery)
    }

    /// Returns the newest recoveries of an endpoint, newest first.
    pub async fn list(
        &self,
        scope: &Scope,
        endpoint: EndpointId,
        most: usize,
    ) -> Result<Vec<Recovery>, StoreError> {
        let (partition, all) = (Recovery::list_partition(scope, Some(endpoint)), ("0", "9~"));
        let entries = self.store.list(ListIndex::All, &partition, all, Order::NewestFirst, most).await?;
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        self.store.get_in_order(&keys).await
    }

    /// Ends a running recovery. What it has queued is sent. One that has ended stays as it is.
    pub async fn cancel(
        &self,
        scope: &Scope,
        ids: (Option<EndpointId>, Option<RecoveryId>),
        now: Timestamp,
    ) -> Result<Recovery, WebhookError> {
        let mut update = self.store.start_update("a recovery");
        loop {
            let recovery = self.find(scope, ids).await?;
            if recovery.status != RecoveryStatus::Running {
                return Ok(recovery);
            }
            let ended = ended(&recovery, RecoveryStatus::Cancelled, now);
            if update.commit(end_writes(&ended, &recovery)?).await? {
                return Ok(ended);
            }
        }
    }

    /// Runs the next step. Returns the recovery after it; `None`: another worker runs it, or it has ended.
    pub async fn run_step(&self, recovery: Recovery, now: Timestamp) -> Result<Option<Recovery>, StoreError> {
        if recovery.status != RecoveryStatus::Running {
            return Ok(None);
        }
        let endpoint = self.endpoint_of(&recovery).await?;
        let is_active = endpoint.as_ref().is_some_and(|endpoint| endpoint.status == EndpointStatus::Active);
        let (next, writes) = if recovery.endpoint.is_some() && !is_active {
            let next = ended(&recovery, RecoveryStatus::Cancelled, now);
            (None, end_writes(&next, &recovery)?)
        } else {
            let next = Box::pin(self.advance(&recovery, endpoint.as_ref(), now)).await?;
            if next.is_done() {
                let done = Recovery { status: RecoveryStatus::Completed, ..next };
                (None, end_writes(&done, &recovery)?)
            } else {
                let writes = vec![Write::replace(&next, recovery.version)?];
                (Some(next), writes)
            }
        };
        let is_stored = matches!(self.store.commit(writes).await?, CommitOutcome::Done);
        Ok(next.filter(|_| is_stored))
    }

    /// Counts what a recovery would send. It stores nothing.
    pub async fn count(&self, recovery: Recovery, now: Timestamp) -> Result<u64, StoreError> {
        let endpoint = self.endpoint_of(&recovery).await?;
        let request = NewRecovery { dry_run: true, ..recovery.request.clone() };
        let mut next = Recovery { request, ..recovery };
        while !next.is_done() {
            next = Box::pin(self.advance(&next, endpoint.as_ref(), now)).await?;
        }
        Ok(next.found)
    }

    async fn endpoint_of(&self, recovery: &Recovery) -> Result<Option<Endpoint>, StoreError> {
        let Some(id) = recovery.endpoint else { return Ok(None) };
        self.store.get(&Endpoint::key_of(&recovery.scope, id)).await
    }

    /// Sends what the next step finds. Returns the recovery after it, which is not stored.
    async fn advance(
        &self,
        recovery: &Recovery,
        endpoint: Option<&Endpoint>,
        now: Timestamp,
    ) -> Result<Recovery, StoreError> {
        let (counted, after) = match recovery.request.statuses.get(recovery.parts) {
            Some(status) => Box::pin(self.step_of_status(recovery, endpoint, *status, now)).await?,
            None => match endpoint.filter(|_| recovery.request.missing) {
                Some(endpoint) => Box::pin(self.step_of_missing(recovery, endpoint, now)).await?,
                None => (Counted::default(), None),
            },
        };
        Ok(Recovery {
            found: recovery.found.saturating_add(counted.found),
            queued: recovery.queued.saturating_add(counted.queued),
            parts: recovery.parts.saturating_add(after.is_none().into()),
            after,
            updated_at: now,
            version: recovery.version.saturating_add(1),
            ..recovery.clone()
        })
    }

    /// Reads listed deliveries of one status, oldest first. Returns the sort key of the last one, if there are more.
    async fn step_of_status(
        &self,
        recovery: &Recovery,
        endpoint: Option<&Endpoint>,
        status: Recoverable,
        now: Timestamp,
    ) -> Result<(Counted, Option<String>), StoreError> {
        let deliveries = Deliveries::new(self.store.clone());
        let ids = (DeliveryId::first_at(recovery.request.since), DeliveryId::last_at(recovery.until()));
        let of_recovery = (recovery.endpoint, ids);
        let (found, after) = deliveries
            .listed_of(&recovery.scope, of_recovery, (status.status(), recovery.after.as_deref()), STEP_SIZE)
            .await?;
        let found = found.into_iter().filter(|delivery| recovery.request.takes(delivery.event_type));
        let found: Vec<Delivery> = found.filter(|delivery| delivery.status == status.status()).collect();
        let mut counted = Counted::default();
        if status == Recoverable::Pending {
            for delivery in found {
                counted.found = counted.found.saturating_add(1);
                if !recovery.request.dry_run && deliveries.make_due(&delivery, now).await? {
                    counted.queued = counted.queued.saturating_add(1);
                }
            }
            return Ok((counted, after));
        }
        let keys: Vec<Key> = found.iter().map(Delivery::event_key).collect();
        let items = self.store.batch_get(&keys).await?.into_iter();
        let events: Vec<Event> = items.filter_map(parse_or_log).collect();
        let of_event = |delivery: Delivery| {
            let event = events.iter().find(|event| event.id == delivery.event && event.is_kept(now))?;
            Some((event.clone(), delivery.event_type, Some(delivery.id)))
        };
        let wanted = found.into_iter().filter_map(of_event).collect();
        let counted = self.send_all(recovery, endpoint, wanted, now).await?;
        Ok((counted, after))
    }

    /// Reads events of the log, oldest first. Returns the id of the last one, if there are more.
    async fn step_of_missing(
        &self,
        recovery: &Recovery,
        endpoint: &Endpoint,
        now: Timestamp,
    ) -> Result<(Counted, Option<String>), StoreError> {
        // As far back as the event log shows.
        let oldest = now.saturating_plus_seconds(LISTED_SECONDS.saturating_neg());
        let from = EventId::first_at(recovery.request.since.max(oldest)).to_string();
        let to = EventId::last_at(recovery.until()).to_string();
        let scope = Accounts::new(self.store.clone()).sharded_scope(&recovery.scope).await?;
        let page = PageRange {
            range: (&from, &to),
            order: Order::OldestFirst,
            after: recovery.after.as_deref(),
            limit: STEP_SIZE,
        };
        let (items, has_more) = self.store.items_page(&scope.partitions(Event::partition), page).await?;
        let after = items.last().and_then(|item| text(item, "sk")).filter(|_| has_more);
        let mut wanted = Vec::new();
        for item in items {
            let Some(event) = parse_or_log(item).filter(|event: &Event| !event.is_sample) else { continue };
            let names: Vec<EventType> = event
                .recipients(std::slice::from_ref(endpoint))
                .filter_map(|(name, to)| to.map(|_| name))
                .collect();
            let names = names.into_iter().filter(|name| recovery.request.takes(*name));
            wanted.extend(names.map(|name| (event.clone(), name, None)));
        }
        let counted = self.send_all(recovery, Some(endpoint), wanted, now).await?;
        Ok((counted, after))
    }

    /// Sends events, unless they reached the endpoint or will. With each event: the delivery that was found; `None`:
    /// none may exist.
    async fn send_all(
        &self,
        recovery: &Recovery,
        endpoint: Option<&Endpoint>,
        wanted: Vec<(Event, EventType, Option<DeliveryId>)>,
        now: Timestamp,
    ) -> Result<Counted, StoreError> {
        let ids_of = |(event, name, found): &(Event, EventType, Option<DeliveryId>)| {
            let first = DeliveryId::derive(&event.id_as(*name), recovery.endpoint);
            let own = recovery.delivery_of(event, *name);
            let others = event.resent.iter().copied().chain(*found);
            others.chain([first, own]).collect::<Vec<DeliveryId>>()
        };
        let ids = wanted.iter().flat_map(ids_of);
        let keys: Vec<Key> = ids.map(|id| Delivery::key_of(&recovery.scope, id)).collect();
        let known: Vec<Delivery> = self.store.get_in_order(&keys).await?;
        let sent = concurrently(CONCURRENT, wanted, |(event, name, found)| {
            let (recoveries, recovery, endpoint) = (self.clone(), recovery.clone(), endpoint.cloned());
            let is_alike = |it: &&Delivery| {
                it.event == event.id && it.event_type == name && it.endpoint == recovery.endpoint
            };
            let alike: Vec<Delivery> = known.iter().filter(is_alike).cloned().collect();
            async move {
                let what = (&event, name, found);
                recoveries.send(&recovery, endpoint.as_ref(), what, &alike, now).await
            }
        });
        let mut sum = Counted::default();
        for counted in sent.await {
            let Counted { found, queued } = counted?;
            sum.found = sum.found.saturating_add(found);
            sum.queued = sum.queued.saturating_add(queued);
        }
        Ok(sum)
    }

    /// Sends one event of [`Self::send_all`]. `alike`: its deliveries to the endpoint.
    async fn send(
        &self,
        recovery: &Recovery,
        endpoint: Option<&Endpoint>,
        (event, name, found): (&Event, EventType, Option<DeliveryId>),
        alike: &[Delivery],
        now: Timestamp,
    ) -> Result<Counted, StoreError> {
        let own = recovery.delivery_of(event, name);
        let latest = alike.iter().map(|delivery| delivery.id).filter(|id| *id != own).max();
        let is_latest = found.is_none_or(|found| latest == Some(found));
        if alike.iter().any(|delivery| delivery.id == own) {
            // The same step queued it before a crash.
            return Ok(Counted { found: is_latest.into(), queued: is_latest.into() });
        }
        let failed = || alike.iter().all(|delivery| delivery.is_done() && !delivery.is_delivered());
        let is_wanted = if found.is_some() { is_latest && failed() } else { alike.is_empty() };
        if !is_wanted || recovery.request.dry_run {
            return Ok(Counted { found: is_wanted.into(), queued: 0 });
        }
        if let Some(until) = event.needed_until(now) {
            self.store.extend_ttl(&event.key(), until).await?;
        }
        let resend = recovery.id.resend(recovery.created_at);
        let delivery = Delivery::resend_to(event, name, endpoint, &resend, now);
        note_resent(&self.store, event, std::slice::from_ref(&delivery)).await?;
        Deliveries::new(self.store.clone()).insert(delivery).await?;
        Ok(Counted { found: 1, queued: 1 })
    }
}

fn ended(recovery: &Recovery, status: RecoveryStatus, now: Timestamp) -> Recovery {
    let version = recovery.version.saturating_add(1);
    Recovery { status, updated_at: now, version, ..recovery.clone() }
}

fn end_writes(ended: &Recovery, read: &Recovery) -> Result<Vec<Write>, StoreError> {
    let lock = Recovery::lock_key(&read.scope, read.endpoint);
    Ok(vec![Write::replace(ended, read.version)?, Write::remove_existing(&lock)])
}

/// A recovery: sends again what did not reach an endpoint.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookRecovery")]
pub struct RecoveryView<'a> {
    /// The recovery's id.
    id: RecoveryId,
    /// Always `recovery`.
    #[schemars(extend("const" = "recovery"))]
    object: &'static str,
    /// The endpoint that gets the events.
    endpoint_id: Option<EndpointId>,
    /// How far it has come.
    status: RecoveryStatus,
    /// How many deliveries or events matched so far.
    found: u64,
    /// How many of them were queued so far. 0 with `dry_run`.
    queued: u64,
    /// The first time of the events.
    since: Timestamp,
    /// The last time of the events.
    until: Timestamp,
    /// Which deliveries are sent again.
    statuses: &'a [Recoverable],
    /// The types of the events. Empty: all.
    #[schemars(with = "Vec<String>")]
    event_types: &'a [EventType],
    /// Whether events that the endpoint never got are sent.
    missing: bool,
    /// Whether it only counts.
    dry_run: bool,
    /// When it was requested.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

impl<'a> RecoveryView<'a> {
    pub fn new(recovery: &'a Recovery) -> Self {
        let NewRecovery { since, statuses, event_types, missing, dry_run, .. } = &recovery.request;
        Self {
            id: recovery.id,
            object: "recovery",
            endpoint_id: recovery.endpoint,
            status: recovery.status,
            found: recovery.found,
            queued: recovery.queued,
            since: *since,
            until: recovery.until(),
            statuses,
            event_types,
            missing: *missing,
            dry_run: *dry_run,
            created_at: recovery.created_at,
            updated_at: recovery.updated_at,
        }
    }
}

/// The recoveries of an endpoint, newest first: 100 at most.
pub type RecoveryListView<'a> = WholeListView<RecoveryView<'a>>;
