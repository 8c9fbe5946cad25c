//! Resends, on request, the events of a charge's status or one delivery. Also sends test events to an
//! endpoint.
//!
//! Each request is one write, so no request is carried out in part:
//!
//! - A resend of one delivery inserts a new delivery. A test inserts an event and its delivery. The stream
//!   starts these deliveries like all others.
//! - A resend of a charge's status inserts a [`Resend`] row, because its events may go to up to fifty
//!   endpoints. The stream passes the row to the dispatcher, which creates the deliveries.

use aws_sdk_dynamodb::types::AttributeValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use domain::charge::{Charge, TransactionStatus};
use domain::ids::{DeliveryId, ResendId, Scope};
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::WebhookError;
use super::delivery::{Deliveries, Delivery, DeliveryContext};
use super::endpoint::{Endpoint, EndpointStatus, EndpointView, Endpoints};
use super::event::{Event, Origin};
use super::samples::sample;
use shared::config::PublicUrls;
use shared::http::field::{Definitions, Word};
use shared::http::{Fields, Problem, Query};
use shared::request_limit::Window;
use shared::store::{CommitOutcome, Inserted, RowUpdate, Store, StoreError, Write, number};

/// How long the row of a request is kept, in seconds: 7 days, so that operators can investigate. The
/// dispatcher reads it from the stream long before.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// The most tests of an endpoint in a minute. They are limited because the merchant need not prove that the
/// server is theirs.
const MAX_TESTS_A_MINUTE: i64 = 10;

/// The most resent deliveries that an event's row names. A row has at most 400 KB, and a name takes 29 bytes.
pub const MAX_RESENT: usize = 50;

/// The attribute that counts an endpoint's tests of a minute.
const TESTS: &str = "tests";

shared::fields! {
    TEST_TYPE: Word<EventType> = "type",
        Word { words: || EventType::subscribable().map(|event| (event.as_str(), event)).collect() },
        Optional, "charge.paid",
        "Sends a sample of this event, marked by `test: true` in the body and the header `X-Service-Test: true`. By default `webhook.test`.";
}

/// The query string of `POST /v1/webhooks/endpoints/{id}/test`.
pub const TEST_QUERY: Definitions = &[&TEST_TYPE];

/// Returns the event that a test sends.
pub fn tested_type(query: &Query) -> Result<EventType, Problem> {
    let mut fields = Fields::new();
    query.allow_only(&mut fields, TEST_QUERY);
    let event_type = query.read(&mut fields, &TEST_TYPE);
    fields.finish(Some(event_type.unwrap_or(EventType::WebhookTest)))
}

/// The row of a request to send the events of a charge's status again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Resend {
    /// `rs_…`; begins with the time of the request.
    pub id: ResendId,
    /// A copy of the charge at the time of the request.
    #[serde(deserialize_with = "Charge::deserialize")]
    pub charge: Charge,
    /// The refund that made the charge `REFUNDED`, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<Refund>,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

impl Resend {
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("resends#")
    }

    /// Returns the events of the charge's status, with the same ids and bodies as before. The dispatcher
    /// inserts their rows again if they have expired.
    pub fn events(&self, public_urls: &PublicUrls) -> Result<Vec<Event>, serde_json::Error> {
        let mut events = Vec::new();
        // A charge may have entered its status more than once. For example, it was paid, then disputed, and
        // is now paid again. Only the first change to paid has published `charge.paid`.
        for (entry, led_to) in self.charge.status_changes() {
            if led_to == self.charge.status {
                // A refund and the change of the charge that it makes have the same time.
                let by_refund = self.refund.as_ref().is_some_and(|refund| refund.updated_at == entry.at);
                let published = Event::for_status_change(&self.charge, &entry, by_refund, public_urls)?;
                events.extend(published);
            }
        }
        if let Some(refund) = &self.refund {
            events.extend(Event::of_refund(None, refund)?);
        }
        Ok(events.into_iter().map(|event| Event { kept_from: Some(self.at), ..event }).collect())
    }
}

impl Row for Resend {
    fn key(&self) -> Key {
        Key { pk: format!("resends#{}", self.charge.scope), sk: self.id.to_string() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.at.plus_seconds(KEPT_SECONDS).ok()
    }
}

shared::store::repository! {
    /// Handles resend requests and tests of all scopes.
    Resends
}

impl Resends {
    /// Requests that the events of a charge's status are sent again. Returns `false` if the status has no
    /// events, or no endpoint and no `webhookUrl` receives them.
    pub async fn resend_charge(
        &self,
        resend: &Resend,
        public_urls: &PublicUrls,
    ) -> Result<bool, WebhookError> {
        let events = resend.events(public_urls)?;
        if events.is_empty() {
            return Ok(false);
        }
        let endpoints = Endpoints::new(self.store.clone()).list(&resend.charge.scope).await?;
        if events.iter().all(|event| event.recipients(&endpoints).next().is_none()) {
            return Ok(false);
        }
        let _inserted_or_existing: Inserted<Resend> = self.store.insert(resend).await?;
        Ok(true)
    }

    /// Creates a new delivery of the same event to the same receiver. Returns it with its body.
    pub async fn resend_delivery(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        resend: ResendId,
        now: Timestamp,
    ) -> Result<(Delivery, String), WebhookError> {
        let deliveries = Deliveries::new(self.store.clone());
        let earlier = deliveries.shown(scope, id, now).await?;
        let DeliveryContext { event, endpoint } = deliveries.delivery_context(&earlier).await?;
        let event = event.filter(|event| event.is_kept(now)).ok_or(WebhookError::EventNotKept)?;
        let body = event.body_as(earlier.event_type).ok_or(WebhookError::EventNotKept)?;
        let endpoint = earlier.endpoint.map(|_| expect_active(endpoint.as_ref())).transpose()?;
        if let Some(until) = event.needed_until(now) {
            self.store.extend_ttl(&event.key(), until).await?;
        }
        let delivery = Delivery::resend_to(&event, earlier.event_type, endpoint, &resend, now);
        note_resent(&self.store, &event, std::slice::from_ref(&delivery)).await?;
        Ok((deliveries.insert(delivery).await?, body))
    }

    /// Creates a delivery of a test to an endpoint, whatever the endpoint is subscribed to: `webhook.test`, or a sample
    /// of another event. Returns it with its body.
    pub async fn test(
        &self,
        endpoint: &Endpoint,
        (resend, event_type): (ResendId, EventType),
        now: Timestamp,
    ) -> Result<(Delivery, String), WebhookError> {
        let endpoint = expect_active(Some(endpoint))?;
        // A test is not the change of a row, so the event's id is derived from the id of the request.
        let origin = Origin::new(endpoint.scope, resend.to_string(), now);
        let event = if event_type == EventType::WebhookTest {
            Event::of_one(event_type, &origin, &EndpointView::new(endpoint))?
        } else {
            let event = Event::of_one(event_type, &origin, &sample(event_type))?;
            Event { is_sample: true, ..event }
        };
        let delivery = Delivery::resend_to(&event, event_type, Some(endpoint), &resend, now);
        let mut writes = vec![count_test(endpoint, now), Write::insert(&event)?];
        writes.extend(delivery.insertion()?);
        match self.store.commit(writes).await? {
            CommitOutcome::Conflict { at } if at == [0] => {
                let retry_after_seconds = Window::minute(now).left(now);
                Err(WebhookError::TooManyTests { limit: MAX_TESTS_A_MINUTE, retry_after_seconds })
            }
            CommitOutcome::Done => Ok((delivery, event.body_as(event_type).unwrap_or_default())),
            CommitOutcome::Conflict { .. } => {
                Err(StoreError::Corrupt("a resend's random id was taken".to_owned()).into())
            }
        }
    }
}

/// Adds deliveries that a resend creates to their event's row, by which the timeline of a charge finds them. It is
/// written before them; readers skip the name of a delivery that was never created.
pub async fn note_resent(store: &Store, event: &Event, deliveries: &[Delivery]) -> Result<(), StoreError> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let ids = deliveries.iter().map(|delivery| delivery.id.to_string()).collect();
    let update = RowUpdate::of(event.key()).add("resent", AttributeValue::Ss(ids));
    update.when_exists().when_smaller("resent", MAX_RESENT).run(store).await.map(|_noted_or_full| ())
}

/// Returns the write that counts a test of this minute. The write fails if the limit is reached. There is one
/// row for each endpoint and minute, which expires at the end of the minute.
fn count_test(endpoint: &Endpoint, now: Timestamp) -> Write {
    let minute = Window::minute(now);
    let sk = format!("{}#{}", endpoint.id, minute.number);
    let key = Key { pk: format!("endpoint-tests#{}", endpoint.scope), sk };
    let update = RowUpdate::of(key).add(TESTS, number(1)).set_all(minute.ttl());
    Write::update(update.when_absent_or(TESTS, "<", number(MAX_TESTS_A_MINUTE)))
}

/// Whether the events of a payment's status are sent again.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ResentWebhook")]
pub struct ResentView {
    /// Whether anything is sent. `false`: the status has no events, or there is no receiver for them.
    pub resent: bool,
    /// The status whose events are sent.
    pub status: TransactionStatus,
}

/// Returns the endpoint if it is `ACTIVE`. No new delivery is created for an endpoint that is deleted or
/// `INACTIVE`, whether the merchant or the service made it so.
fn expect_active(endpoint: Option<&Endpoint>) -> Result<&Endpoint, WebhookError> {
    match endpoint.map(|endpoint| (endpoint, endpoint.status)) {
        Some((endpoint, EndpointStatus::Active)) => Ok(endpoint),
        Some((_, EndpointStatus::Inactive)) => Err(WebhookError::EndpointInactive),
        None => Err(WebhookError::EndpointDeleted),
    }
}
