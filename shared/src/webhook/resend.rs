//! What is told again because somebody asked: the events of a charge's status, one delivery, or a test of an endpoint.
//!
//! Each is ONE write. A delivery that is made anew, and a test's event with its delivery, are rows from which the stream
//! makes messages as ever. The events of a charge's status go to up to fifty endpoints, so they are a row of their own,
//! from which the dispatcher makes the deliveries; nothing is lost between the two.

use serde::{Deserialize, Serialize};

use domain::charge::{Charge, TransactionStatus};
use domain::ids::{DeliveryId, ResendId, Scope};
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::WebhookError;
use super::delivery::{Deliveries, Delivery, DeliveryContext, Recipient};
use super::endpoint::{Endpoint, EndpointStatus, EndpointView, Endpoints};
use super::event::{Event, Origin};
use crate::config::PublicUrls;
use crate::store::{Bound, Committed, Inserted, Store, StoreError, Write, ttl};

/// How long a request is kept, in seconds: 7 days, for whoever asks what happened. The stream has it by then.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Tests that an endpoint gets in a minute: its server is the merchant's word alone, and may be anybody's.
const MAX_TESTS_A_MINUTE: i64 = 10;

const SECONDS_A_MINUTE: i64 = 60;

/// The attribute that counts tests.
const TESTS: &str = "tests";

/// A request to tell the events of a charge's status again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Resend {
    /// `rs_…`; begins with the time of the request.
    pub id: ResendId,
    /// The charge as it stood.
    #[serde(deserialize_with = "Charge::deserialize")]
    pub charge: Charge,
    /// The refund that made it refunded, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<Refund>,
    /// When it was asked for.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

impl Resend {
    /// Whether a row of the state table is such a request.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("resends#")
    }

    /// The events of the charge's status, under the ids that they always had. One that is no longer kept is made anew.
    pub fn events(&self, public_urls: &PublicUrls) -> Result<Vec<Event>, serde_json::Error> {
        let mut events = Vec::new();
        // What is paid again after a dispute was told as paid when it first was.
        for (entry, led_to) in self.charge.moves() {
            if led_to == self.charge.status {
                events.extend(Event::of_entry(&self.charge, &entry, public_urls)?);
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

/// Resends of all scopes.
#[derive(Clone, Debug)]
pub struct Resends {
    store: Store,
}

impl Resends {
    /// Resends in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Has the events of a charge's status told again. `false`: there is nothing to tell, or nobody to tell it to.
    pub async fn of_charge(&self, resend: &Resend, public_urls: &PublicUrls) -> Result<bool, WebhookError> {
        let events = resend.events(public_urls)?;
        if events.is_empty() {
            return Ok(false);
        }
        let endpoints = Endpoints::new(self.store.clone()).of(&resend.charge.scope).await?;
        if events.iter().all(|event| event.recipients(&endpoints).next().is_none()) {
            return Ok(false);
        }
        let _made_now_or_before: Inserted<Resend> = self.store.insert(resend).await?;
        Ok(true)
    }

    /// Makes a delivery anew. Gives the new one, with its body.
    ///
    /// # Errors
    ///
    /// When it is not there or is another scope's, its event is no longer kept, or its endpoint is deleted or switched off.
    pub async fn of_delivery(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        resend: ResendId,
        now: Timestamp,
    ) -> Result<(Delivery, String), WebhookError> {
        let deliveries = Deliveries::new(self.store.clone());
        let earlier = deliveries.shown(scope, id, now).await?;
        let DeliveryContext { event, recipient } = deliveries.delivery_context(&earlier).await?;
        let event = event.filter(|event| event.is_kept(now));
        let event = event.ok_or(WebhookError::EventNotKept)?;
        let generation = match &recipient {
            Recipient::Endpoint(endpoint) => expect_active(endpoint.as_ref())?.generation(),
            Recipient::Override(_) => 0,
        };
        if let Some(until) = event.needed_until(now) {
            self.store.keep_until(&event.key(), until).await?;
        }
        let delivery = Delivery {
            generation,
            ..Delivery::again(&event, earlier.event_type, earlier.endpoint, &resend, now)
        };
        let _made_now_or_before: Inserted<Delivery> = self.store.insert(&delivery).await?;
        Ok((delivery, event.body_as(earlier.event_type)))
    }

    /// Sends an endpoint a test, whatever it is subscribed to. Gives the delivery, with its body.
    ///
    /// # Errors
    ///
    /// When it is switched off, or had its tests of this minute.
    pub async fn test(
        &self,
        endpoint: &Endpoint,
        resend: ResendId,
        now: Timestamp,
    ) -> Result<(Delivery, String), WebhookError> {
        let generation = expect_active(Some(endpoint))?.generation();
        // The test is no row's change: the request names it.
        let origin = Origin { scope: endpoint.scope, row: resend.to_string(), version: 1, at: now };
        let event = Event::canonical(EventType::WebhookTest, &origin, EndpointView::new(endpoint))?;
        let delivery = Delivery {
            generation,
            ..Delivery::again(&event, EventType::WebhookTest, Some(endpoint.id), &resend, now)
        };
        let writes = vec![Write::insert(&event)?, Write::insert(&delivery)?, one_more_test(endpoint, now)];
        match self.store.commit(writes).await? {
            Committed::Overtaken { at } if at == [2] => {
                let past_seconds = now.seconds().rem_euclid(SECONDS_A_MINUTE);
                Err(WebhookError::TooManyTests {
                    limit: MAX_TESTS_A_MINUTE,
                    retry_after_seconds: SECONDS_A_MINUTE.saturating_sub(past_seconds),
                })
            }
            Committed::Done => Ok((delivery, event.body_as(EventType::WebhookTest))),
            Committed::Overtaken { .. } => {
                Err(StoreError::Corrupt("a resend's random id was taken".to_owned()).into())
            }
        }
    }
}

/// Counts a test in the endpoint's minute, which is a row of its own; it goes when the minute is over.
fn one_more_test(endpoint: &Endpoint, now: Timestamp) -> Write {
    let minute = now.seconds().div_euclid(SECONDS_A_MINUTE);
    let key =
        Key { pk: format!("endpoint-tests#{}", endpoint.scope), sk: format!("{}#{minute}", endpoint.id) };
    let bound = Bound::AtMost { counter: TESTS.to_owned(), most: MAX_TESTS_A_MINUTE.saturating_sub(1) };
    let ends_at = minute.saturating_add(1).saturating_mul(SECONDS_A_MINUTE);
    Write::add(key, vec![(TESTS.to_owned(), 1)], ttl(ends_at), Some(bound))
}

/// What `POST /v1/payments/{id}/resend-webhook` answers.
#[derive(Debug, Serialize)]
pub struct ResentView {
    /// Whether somebody is told.
    pub resent: bool,
    /// What is told.
    pub status: TransactionStatus,
}

/// Nothing new is made for an endpoint that is deleted or `INACTIVE`, whoever made it so.
fn expect_active(endpoint: Option<&Endpoint>) -> Result<&Endpoint, WebhookError> {
    match endpoint.map(|endpoint| (endpoint, endpoint.status)) {
        Some((endpoint, EndpointStatus::Active)) => Ok(endpoint),
        Some((_, EndpointStatus::Inactive)) => Err(WebhookError::EndpointInactive),
        None => Err(WebhookError::EndpointDeleted),
    }
}
