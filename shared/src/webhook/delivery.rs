//! Deliveries: one event on its way to one endpoint, or to its transaction's own address (contract: Webhook delivery).
//!
//! A worker claims a delivery by a conditional update with a lease before it posts, and ends the attempt by one
//! that holds only while the lease is its own: a duplicated message does nothing twice, and a worker that dies
//! strands nothing, for a claimed row stays in the due-index until it is done.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::endpoint::Endpoint;
use super::event::{Event, KEPT_SECONDS};
use super::event_type::EventType;
use super::override_secret::OverrideSecret;
use super::schedule::MAX_ATTEMPTS;
use crate::http::{Fields, Problem, Query};
use crate::ids::{DeliveryId, EndpointId, EventId, ResendId, Scope};
use crate::store::{
    Indexes, Item, Key, Row, Store, StoreError, due_attributes, from_item, text, unavailable,
};
use crate::time::Timestamp;

/// How long a worker's claim holds, in seconds: twice an attempt's 30.
pub const LEASE_SECONDS: i64 = 60;

/// When `clock` first looks at a new delivery, in seconds after its event: by then its queue message was lost.
const FIRST_LOOK_SECONDS: i64 = 120;

/// How long `clock` gives a message that it sent before it looks again, in seconds.
pub const NEXT_LOOK_SECONDS: i64 = 120;

/// How far the clocks of two machines may be apart, in milliseconds: a message that is early by no more waits for
/// its time, one that is early by more was overtaken by another.
const MAX_SKEW_MS: i64 = 5_000;

/// Deliveries on a page, unless asked otherwise, and at most (contract: Limits).
const DEFAULT_LIMIT: u32 = 25;
const MAX_LIMIT: u32 = 100;

/// The furthest that a page may start: every row before it is read.
const MAX_OFFSET: u32 = 5_000;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeliveryStatus {
    /// Waiting for its first or next attempt.
    Pending,
    /// An attempt runs.
    Processing,
    /// The endpoint answered 2xx.
    Delivered,
    /// Every attempt failed.
    Failed,
    /// The endpoint went away before it was delivered.
    Cancelled,
}

impl DeliveryStatus {
    /// Every status with its word.
    pub const VOCABULARY: [(&'static str, Self); 5] = [
        ("PENDING", Self::Pending),
        ("PROCESSING", Self::Processing),
        ("DELIVERED", Self::Delivered),
        ("FAILED", Self::Failed),
        ("CANCELLED", Self::Cancelled),
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Processing => "PROCESSING",
            Self::Delivered => "DELIVERED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// A delivery's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Delivery {
    /// Named by event, endpoint and resend number, so that a replayed change makes no second one; begins with
    /// the event's time, so that the row's own key is the list's order.
    pub id: DeliveryId,
    /// Whose it is.
    pub scope: Scope,
    /// The row of what it tells.
    pub event: EventId,
    /// Under which of the event's names.
    pub event_type: EventType,
    /// Whom it tells; `None`: the transaction's own address, which its event has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointId>,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts begun.
    pub attempts: u32,
    /// Attempts that it gets.
    pub max_attempts: u32,
    /// When the next attempt may begin.
    #[serde(with = "crate::time::millis")]
    pub next_attempt_at: Timestamp,
    /// Until when a worker's claim holds.
    #[serde(default, with = "crate::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<Timestamp>,
    /// Names the claim, so that a worker whose answer was lost knows its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The last answer's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status_code: Option<u16>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The start of the last failed answer's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_response_body: Option<String>,
    /// When the endpoint took it.
    #[serde(default, with = "crate::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// When it was made.
    #[serde(with = "crate::time::millis")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "crate::time::millis")]
    pub updated_at: Timestamp,
}

impl Delivery {
    /// The first deliveries of an event: each of its names to the endpoints that take it, or to the transaction's own
    /// address instead.
    pub fn of_event(event: &Event, endpoints: &[Endpoint], now: Timestamp) -> Vec<Self> {
        let first = |(name, endpoint)| {
            let id = DeliveryId::derive(&event.id_as(name), endpoint);
            Self::new(id, event, name, endpoint, (event.created_at, now))
        };
        event.recipients(endpoints).map(first).collect()
    }

    /// The same again, because somebody asked.
    pub fn of_resend(event: &Event, endpoints: &[Endpoint], resend: &ResendId, now: Timestamp) -> Vec<Self> {
        let again = |(name, endpoint)| Self::again(event, name, endpoint, resend, now);
        event.recipients(endpoints).map(again).collect()
    }

    /// One of them.
    pub fn again(
        event: &Event,
        event_type: EventType,
        endpoint: Option<EndpointId>,
        resend: &ResendId,
        now: Timestamp,
    ) -> Self {
        let id = DeliveryId::of_resend(&event.id_as(event_type), endpoint, resend);
        Self::new(id, event, event_type, endpoint, (now, now))
    }

    fn new(
        id: DeliveryId,
        event: &Event,
        event_type: EventType,
        endpoint: Option<EndpointId>,
        (next_attempt_at, now): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            id,
            scope: event.scope,
            event: event.id,
            event_type,
            endpoint,
            status: DeliveryStatus::Pending,
            attempts: 0,
            max_attempts: MAX_ATTEMPTS,
            next_attempt_at,
            leased_until: None,
            claim: None,
            last_status_code: None,
            last_error: None,
            last_response_body: None,
            delivered_at: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Where a delivery lives: a scope's deliveries share a partition, in the order of their events.
    pub fn key_of(scope: &Scope, id: DeliveryId) -> Key {
        Key { pk: Self::partition(scope), sk: id.to_string() }
    }

    /// A scope's deliveries share a partition.
    pub(super) fn partition(scope: &Scope) -> String {
        format!("deliveries#{scope}")
    }

    /// Whether the endpoint took it.
    pub fn is_delivered(&self) -> bool {
        self.status == DeliveryStatus::Delivered
    }

    /// Whether a row of the state table is a delivery.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("deliveries#")
    }
}

impl Row for Delivery {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.created_at.plus_seconds(FIRST_LOOK_SECONDS).ok(), ..Indexes::default() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.created_at.plus_seconds(KEPT_SECONDS).ok()
    }
}

/// How a claim ended.
#[derive(Debug)]
pub enum Claim {
    /// The attempt is the caller's to make, until the lease ends.
    Claimed(Box<Delivery>),
    /// It is due in a moment: the message came early, by the difference between two machines' clocks.
    Early {
        /// When it is due.
        due_at: Timestamp,
    },
    /// Nothing to do: it is done, due much later, or another worker's.
    NotNow,
}

/// How an attempt, and with it perhaps the delivery, ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptEnd {
    /// Taken.
    Delivered {
        /// The answer's status.
        status_code: u16,
    },
    /// Failed; the next attempt is at `next_attempt_at`.
    Retry {
        /// The answer's status, where there was one.
        status_code: Option<u16>,
        /// Why it failed.
        error: String,
        /// The start of the answer's body.
        response_body: Option<String>,
        /// When the next attempt may begin.
        next_attempt_at: Timestamp,
    },
    /// Failed for the last time.
    Exhausted {
        /// The answer's status, where there was one.
        status_code: Option<u16>,
        /// Why it failed.
        error: String,
        /// The start of the answer's body.
        response_body: Option<String>,
    },
    /// Not attempted: the endpoint is gone or switched off.
    Cancelled {
        /// Why.
        reason: String,
    },
}

/// What a delivery's attempt needs.
#[derive(Debug)]
pub struct Material {
    /// What to tell; `None` when it was removed.
    pub event: Option<Event>,
    /// Whom to tell.
    pub recipient: Recipient,
}

/// Whom a delivery tells.
#[derive(Debug)]
pub enum Recipient {
    /// An endpoint; `None` when it was deleted.
    Endpoint(Option<Endpoint>),
    /// The transaction's own address. With the scope's secret; `None`: it has none yet.
    Override(Option<OverrideSecret>),
}

/// The deliveries of all scopes.
#[derive(Clone, Debug)]
pub struct Deliveries {
    store: Store,
}

impl Deliveries {
    /// Deliveries in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Claims a delivery for one attempt. `claim` names it: 64 random bits.
    pub async fn claim(
        &self,
        scope: &Scope,
        id: DeliveryId,
        claim: u64,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let lease = now.plus_seconds(LEASE_SECONDS).unwrap_or(Timestamp::MAX);
        let claim = format!("{claim:016x}");
        let answer = self
            .update(&Delivery::key_of(scope, id))
            .condition_expression(
                "(#status = :pending AND next_attempt_at <= :now) OR (#status = :processing AND leased_until < :now)",
            )
            .update_expression(
                "SET #status = :processing, leased_until = :lease, claim = :claim, updated_at = :now ADD attempts :one",
            )
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":pending", word(DeliveryStatus::Pending))
            .expression_attribute_values(":processing", word(DeliveryStatus::Processing))
            .expression_attribute_values(":now", millis(now))
            .expression_attribute_values(":lease", millis(lease))
            .expression_attribute_values(":claim", AttributeValue::S(claim.clone()))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match unless_refused(answer)? {
            Updated::Done(item) => Ok(Claim::Claimed(Box::new(from_item(item)?))),
            Updated::Refused(item) if item.is_empty() => Ok(Claim::NotNow),
            Updated::Refused(item) => {
                let delivery: Delivery = from_item(item)?;
                let ahead_ms = delivery.next_attempt_at.millis_since(now);
                match delivery.status {
                    // The first answer was lost, and the client asked again.
                    DeliveryStatus::Processing if delivery.claim.as_ref() == Some(&claim) => {
                        Ok(Claim::Claimed(Box::new(delivery)))
                    }
                    DeliveryStatus::Pending if ahead_ms <= MAX_SKEW_MS => {
                        Ok(Claim::Early { due_at: delivery.next_attempt_at })
                    }
                    DeliveryStatus::Pending
                    | DeliveryStatus::Processing
                    | DeliveryStatus::Delivered
                    | DeliveryStatus::Failed
                    | DeliveryStatus::Cancelled => Ok(Claim::NotNow),
                }
            }
        }
    }

    /// Reads the event and the recipient of a delivery, in one request.
    pub async fn material(&self, delivery: &Delivery) -> Result<Material, StoreError> {
        let event_key = Event::key_of(&delivery.scope, delivery.event);
        let recipient_key = delivery.endpoint.map_or_else(
            || OverrideSecret::key_of(&delivery.scope),
            |endpoint| Endpoint::key_of(&delivery.scope, endpoint),
        );
        let (mut event, mut recipient) = (None, None);
        for item in self.store.batch_get(&[event_key.clone(), recipient_key]).await? {
            if text(&item, "pk").as_deref() == Some(event_key.pk.as_str()) {
                event = Some(from_item(item)?);
            } else {
                recipient = Some(item);
            }
        }
        let recipient = match delivery.endpoint {
            Some(_) => Recipient::Endpoint(recipient.map(from_item).transpose()?),
            None => Recipient::Override(recipient.map(from_item).transpose()?),
        };
        Ok(Material { event, recipient })
    }

    /// Ends a claimed attempt. `false`: the lease was lost meanwhile, and the row is another's to end.
    pub async fn end(
        &self,
        claimed: &Delivery,
        end: &AttemptEnd,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(claim) = &claimed.claim else { return Ok(false) };
        let key = Delivery::key_of(&claimed.scope, claimed.id);
        let mut set = vec!["#status = :status", "updated_at = :now"];
        let mut remove = vec!["leased_until"];
        let mut values = HashMap::from([
            (":claim".to_owned(), AttributeValue::S(claim.clone())),
            (":now".to_owned(), millis(now)),
            (":processing".to_owned(), word(DeliveryStatus::Processing)),
        ]);
        let (status, status_code, error, response_body) = match end {
            AttemptEnd::Delivered { status_code } => {
                set.push("delivered_at = :now");
                (DeliveryStatus::Delivered, Some(*status_code), None, None)
            }
            AttemptEnd::Retry { status_code, error, response_body, next_attempt_at } => {
                set.extend(["next_attempt_at = :next", "due_pk = :due_pk", "due_sk = :due_sk"]);
                values.insert(":next".to_owned(), millis(*next_attempt_at));
                values.extend(
                    due_attributes(&key, *next_attempt_at).map(|(name, value)| (format!(":{name}"), value)),
                );
                (DeliveryStatus::Pending, *status_code, Some(error), response_body.as_ref())
            }
            AttemptEnd::Exhausted { status_code, error, response_body } => {
                (DeliveryStatus::Failed, *status_code, Some(error), response_body.as_ref())
            }
            AttemptEnd::Cancelled { reason } => (DeliveryStatus::Cancelled, None, Some(reason), None),
        };
        values.insert(":status".to_owned(), word(status));
        if status != DeliveryStatus::Pending {
            remove.extend(["due_pk", "due_sk"]);
        }
        let mut optional =
            |name: &'static str, assignment: &'static str, value: Option<AttributeValue>| match value {
                Some(value) => {
                    values.insert(format!(":{name}"), value);
                    set.push(assignment);
                }
                None => remove.push(name),
            };
        let code = status_code.map(|code| AttributeValue::N(code.to_string()));
        optional("last_status_code", "last_status_code = :last_status_code", code);
        optional("last_error", "last_error = :last_error", error.cloned().map(AttributeValue::S));
        let body = response_body.cloned().map(AttributeValue::S);
        optional("last_response_body", "last_response_body = :last_response_body", body);
        let answer = self
            .update(&key)
            .condition_expression("#status = :processing AND claim = :claim")
            .update_expression(format!("SET {} REMOVE {}", set.join(", "), remove.join(", ")))
            .expression_attribute_names("#status", "status")
            .set_expression_attribute_values(Some(values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match unless_refused(answer)? {
            Updated::Done(_) => Ok(true),
            // Ended by this very claim: the first answer was lost, and the client asked again.
            Updated::Refused(item) => Ok(text(&item, "claim").as_ref() == Some(claim)),
        }
    }

    fn update(
        &self,
        key: &Key,
    ) -> aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder {
        self.store.client().update_item().table_name(self.store.table()).set_key(Some(key.attributes()))
    }

    /// A page of a scope's deliveries, newest first, with their payloads.
    pub async fn list(&self, scope: &Scope, filter: &DeliveryFilter) -> Result<DeliveryPage, StoreError> {
        let wanted = filter.offset.saturating_add(filter.limit);
        let (deliveries, total) =
            tokio::try_join!(self.matching(scope, filter, wanted), self.count(scope, filter))?;
        let page: Vec<Delivery> = deliveries.into_iter().skip(filter.offset).take(filter.limit).collect();
        let mut keys: Vec<Key> = page.iter().map(|delivery| Event::key_of(scope, delivery.event)).collect();
        keys.sort_by(|left, right| left.sk.cmp(&right.sk));
        keys.dedup();
        let mut events = HashMap::new();
        for item in self.store.batch_get(&keys).await? {
            // One that can't be read must not hide the others.
            match from_item::<Event>(item) {
                Ok(event) => drop(events.insert(event.id, event)),
                Err(error) => tracing::error!(%error, "an event can't be read"),
            }
        }
        let with_payload = |delivery: Delivery| {
            let payload = events.get(&delivery.event).map(|event| event.body_as(delivery.event_type));
            (delivery, payload)
        };
        Ok(DeliveryPage { deliveries: page.into_iter().map(with_payload).collect(), total })
    }

    async fn matching(
        &self,
        scope: &Scope,
        filter: &DeliveryFilter,
        wanted: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut deliveries = Vec::new();
        let mut after = None;
        loop {
            let query = filter.apply(self.store.client().query().table_name(self.store.table()), scope);
            // Without a filter, what is read is what is wanted.
            let limit = filter
                .is_open()
                .then(|| i32::try_from(wanted.saturating_sub(deliveries.len())).unwrap_or(i32::MAX));
            let answer =
                query.set_limit(limit).set_exclusive_start_key(after).send().await.map_err(unavailable)?;
            for item in answer.items.unwrap_or_default() {
                // One that can't be read must not hide the others.
                match from_item(item) {
                    Ok(delivery) => deliveries.push(delivery),
                    Err(error) => tracing::error!(%error, "a delivery can't be read"),
                }
            }
            after = answer.last_evaluated_key;
            if after.is_none() || deliveries.len() >= wanted {
                return Ok(deliveries);
            }
        }
    }

    /// How many of a scope's deliveries stand where. Reads them all.
    pub async fn stats(&self, scope: &Scope) -> Result<DeliveryStats, StoreError> {
        let mut stats = DeliveryStats::default();
        let mut after = None;
        loop {
            let query = self.store.client().query().table_name(self.store.table());
            let answer = query
                .key_condition_expression("pk = :pk")
                .expression_attribute_values(":pk", AttributeValue::S(Delivery::partition(scope)))
                .projection_expression("#status")
                .expression_attribute_names("#status", "status")
                .set_exclusive_start_key(after)
                .send()
                .await
                .map_err(unavailable)?;
            for item in answer.items.unwrap_or_default() {
                let word = text(&item, "status");
                let known =
                    DeliveryStatus::VOCABULARY.iter().find(|(name, _)| Some(*name) == word.as_deref());
                stats.add(known.map(|(_, status)| *status));
            }
            after = answer.last_evaluated_key;
            if after.is_none() {
                return Ok(stats);
            }
        }
    }

    async fn count(&self, scope: &Scope, filter: &DeliveryFilter) -> Result<u64, StoreError> {
        let mut total: u64 = 0;
        let mut after = None;
        loop {
            let query = filter.apply(self.store.client().query().table_name(self.store.table()), scope);
            let answer = query
                .select(Select::Count)
                .set_exclusive_start_key(after)
                .send()
                .await
                .map_err(unavailable)?;
            total = total.saturating_add(u64::try_from(answer.count).unwrap_or_default());
            after = answer.last_evaluated_key;
            if after.is_none() {
                return Ok(total);
            }
        }
    }
}

/// How a conditional update ended.
enum Updated {
    /// The row as it is now, where it was asked for.
    Done(Item),
    /// The row as it was, where it was asked for; empty when there is none.
    Refused(Item),
}

fn unless_refused<R>(
    answer: Result<UpdateItemOutput, SdkError<UpdateItemError, R>>,
) -> Result<Updated, StoreError>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match answer {
        Ok(answer) => Ok(Updated::Done(answer.attributes.unwrap_or_default())),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                Ok(Updated::Refused(refused.item().cloned().unwrap_or_default()))
            }
            _ => Err(unavailable(error)),
        },
    }
}

fn word(status: DeliveryStatus) -> AttributeValue {
    AttributeValue::S(status.as_str().to_owned())
}

fn millis(at: Timestamp) -> AttributeValue {
    AttributeValue::N(at.millis().to_string())
}

/// What a client asks of the list.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    status: Option<DeliveryStatus>,
    event_type: Option<EventType>,
    endpoint: Option<EndpointId>,
    limit: usize,
    offset: usize,
}

impl DeliveryFilter {
    /// Reads a query string; every failing parameter is reported.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, &["status", "eventType", "endpointId", "limit", "offset"]);
        let endpoint = query
            .parsed(&mut fields, "endpointId", "must be an endpoint id (wh_…)", |text| text.parse().ok());
        let filter = Self {
            status: query.one_of(&mut fields, "status", &DeliveryStatus::VOCABULARY),
            event_type: query.one_of(&mut fields, "eventType", EventType::ALL),
            endpoint,
            limit: usize::try_from(query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT))
                .unwrap_or_default(),
            offset: usize::try_from(query.integer(&mut fields, "offset", 0, MAX_OFFSET, 0))
                .unwrap_or_default(),
        };
        fields.finish(Some(filter))
    }

    /// Takes every delivery.
    fn is_open(&self) -> bool {
        self.status.is_none() && self.event_type.is_none() && self.endpoint.is_none()
    }

    fn apply(
        &self,
        query: aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder,
        scope: &Scope,
    ) -> aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder {
        let mut query = query
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(Delivery::partition(scope)))
            .scan_index_forward(false);
        let mut conditions = Vec::new();
        if let Some(status) = self.status {
            conditions.push("#status = :status");
            query = query.expression_attribute_names("#status", "status");
            query = query.expression_attribute_values(":status", word(status));
        }
        if let Some(event_type) = self.event_type {
            conditions.push("event_type = :type");
            query =
                query.expression_attribute_values(":type", AttributeValue::S(event_type.as_str().to_owned()));
        }
        if let Some(endpoint) = self.endpoint {
            conditions.push("endpoint = :endpoint");
            query = query.expression_attribute_values(":endpoint", AttributeValue::S(endpoint.to_string()));
        }
        if conditions.is_empty() { query } else { query.filter_expression(conditions.join(" AND ")) }
    }
}

/// How many deliveries stand where, on the wire (contract: Delivery stats object).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct DeliveryStats {
    #[serde(rename = "total")]
    total: u64,
    pending: u64,
    processing: u64,
    delivered: u64,
    failed: u64,
    cancelled: u64,
}

impl DeliveryStats {
    /// Counts one more; `None`: its row can't be read.
    fn add(&mut self, status: Option<DeliveryStatus>) {
        self.total = self.total.saturating_add(1);
        let counter = match status {
            Some(DeliveryStatus::Pending) => &mut self.pending,
            Some(DeliveryStatus::Processing) => &mut self.processing,
            Some(DeliveryStatus::Delivered) => &mut self.delivered,
            Some(DeliveryStatus::Failed) => &mut self.failed,
            Some(DeliveryStatus::Cancelled) => &mut self.cancelled,
            None => return,
        };
        *counter = counter.saturating_add(1);
    }
}

/// A page of deliveries, each with the body that is sent.
#[derive(Debug)]
pub struct DeliveryPage {
    deliveries: Vec<(Delivery, Option<String>)>,
    total: u64,
}

/// A page of deliveries on the wire.
#[derive(Debug, Serialize)]
pub struct DeliveryListView<'a> {
    data: Vec<DeliveryView<'a>>,
    total: u64,
    limit: usize,
    offset: usize,
}

impl<'a> DeliveryListView<'a> {
    /// The page as the list gives it.
    pub fn new(page: &'a DeliveryPage, filter: &DeliveryFilter) -> Self {
        let view = |(delivery, payload): &'a (Delivery, Option<String>)| {
            DeliveryView::new(delivery, payload.as_deref())
        };
        Self {
            data: page.deliveries.iter().map(view).collect(),
            total: page.total,
            limit: filter.limit,
            offset: filter.offset,
        }
    }
}

/// A delivery on the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView<'a> {
    id: DeliveryId,
    endpoint_id: Option<EndpointId>,
    event_type: EventType,
    status: DeliveryStatus,
    attempts: u32,
    max_attempts: u32,
    last_status_code: Option<u16>,
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_response_body: Option<&'a str>,
    next_retry_at: Option<Timestamp>,
    delivered_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    payload: Option<&'a RawValue>,
}

impl<'a> DeliveryView<'a> {
    /// With the body that is sent, where it is still kept.
    pub fn new(delivery: &'a Delivery, payload: Option<&'a str>) -> Self {
        let waits = delivery.status == DeliveryStatus::Pending;
        Self {
            id: delivery.id,
            endpoint_id: delivery.endpoint,
            event_type: delivery.event_type,
            status: delivery.status,
            // The claim that only ended it counted, and was no attempt.
            attempts: delivery.attempts.min(delivery.max_attempts),
            max_attempts: delivery.max_attempts,
            last_status_code: delivery.last_status_code,
            last_error: delivery.last_error.as_deref(),
            last_response_body: delivery.last_response_body.as_deref(),
            next_retry_at: waits.then_some(delivery.next_attempt_at),
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
            updated_at: delivery.updated_at,
            payload: payload.and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}
