//! The list of deliveries, one delivery, and their statistics (contract: `GET /v1/webhooks/deliveries`,
//! `GET /v1/webhooks/stats`). Parses the query and applies defaults; `super::reader` reads the database.

use domain::ids::{DeliveryId, EndpointId, Scope};
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;

use super::super::WebhookError;
use super::counts::{self, Criteria};
use super::page::{Selection, Window};
use super::reader::DeliveryPage;
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::http::field::{CREATED_AFTER, CREATED_BEFORE, Count, Definitions, LIMIT, Parsed, Word};
use crate::http::{Fields, Problem, Query};
use crate::store::{PageError, StoreError};
use crate::webhook::delivery::DeliveryStats;

crate::fields! {
    STATUS: Word<DeliveryStatus> = "status", Word::ALL, Optional, "FAILED",
        "Only deliveries with this status.";
    EVENT_TYPE: Word<EventType> = "eventType",
        Word { words: || EventType::ALL.to_vec() }, Optional, "charge.paid",
        "Only deliveries of events of this type.";
    ENDPOINT_ID: Parsed<EndpointId> = "endpointId",
        Parsed::id(29, "^wh_[0-9a-z]{26}$", "must be an endpoint id (wh_…)"),
        Optional, "wh_01kb5cpq4t0000000000000000",
        "Only deliveries to this webhook endpoint.";
    /// The maximum is bounded because a request may have to read every row before its page.
    OFFSET: Count = "offset",
        Count {
            min: 0,
            max: 5_000,
            hint: "; to read further, send `starting_after` with the id of the last delivery you have",
        },
        DefaultsTo(0), 25,
        "The number of deliveries before the page. It can't be combined with `starting_after`.";
    STARTING_AFTER: Parsed<DeliveryId> = "starting_after",
        Parsed::id(29, "^wd_[0-9a-z]{26}$", "must be a delivery id (wd_…)"),
        Optional, "wd_01kb5cpq4t0000000000000000",
        "The cursor: the id of the last delivery of the previous page. It can't be combined with `offset`.";
}

/// The query string of `GET /v1/webhooks/deliveries`.
pub const DELIVERIES_QUERY: Definitions =
    &[&STATUS, &EVENT_TYPE, &ENDPOINT_ID, &CREATED_AFTER, &CREATED_BEFORE, &LIMIT, &OFFSET, &STARTING_AFTER];

/// The query of a request for the list.
///
/// `starting_after` must be a delivery of the scope. That delivery need not match the filter: for example,
/// its status may have changed since the previous page was read. `starting_after` can't be combined with
/// `offset`.
#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    criteria: Criteria,
    created_after: Option<Timestamp>,
    created_before: Option<Timestamp>,
    starting_after: Option<DeliveryId>,
    limit: usize,
    offset: usize,
}

impl DeliveryFilter {
    /// Parses a query string. The error lists every failing parameter.
    pub fn parse(query: &Query) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        query.allow_only(&mut fields, DELIVERIES_QUERY);
        let endpoint = query.read(&mut fields, &ENDPOINT_ID);
        let starting_after = query.read(&mut fields, &STARTING_AFTER);
        if query.has(&STARTING_AFTER) && query.has(&OFFSET) {
            fields.reject(STARTING_AFTER.name, "can't be combined with `offset`; send one of them");
        }
        let offset = query.count(&mut fields, &OFFSET);
        let filter = Self {
            criteria: Criteria {
                status: query.read(&mut fields, &STATUS),
                event_type: query.read(&mut fields, &EVENT_TYPE),
                endpoint,
            },
            created_after: query.read(&mut fields, &CREATED_AFTER),
            created_before: query.read(&mut fields, &CREATED_BEFORE),
            starting_after,
            limit: query.count(&mut fields, &LIMIT),
            offset,
        };
        fields.finish(Some(filter))
    }

    /// The number of deliveries on a page.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of deliveries before the page.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn selection(&self) -> Selection {
        Selection {
            criteria: self.criteria,
            from: DeliveryId::first_at(self.created_after.unwrap_or(Timestamp::MIN)),
            to: DeliveryId::last_at(self.created_before.unwrap_or(Timestamp::MAX)),
        }
    }

    fn window(&self) -> Window {
        Window { after: self.starting_after, skip: self.offset, limit: self.limit }
    }
}

impl Deliveries {
    /// Returns a page of a scope's deliveries, newest first, with their bodies.
    ///
    /// # Errors
    ///
    /// [`PageError::UnknownCursor`] when `starting_after` is not a delivery of this scope.
    pub async fn list(
        &self,
        scope: &ShardedScope,
        filter: &DeliveryFilter,
        now: Timestamp,
    ) -> Result<DeliveryPage, PageError> {
        self.page(scope, &filter.selection(), &filter.window(), now).await
    }

    /// Returns one delivery with its body. An abandoned delivery is returned as `CANCELLED`, even if its row
    /// is still `PENDING`.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoDelivery`] when the scope has no such delivery, or lists no longer show it.
    pub async fn find(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<(Delivery, Option<String>), WebhookError> {
        let found = self.shown(scope, id, now).await?;
        Ok(Box::pin(self.with_effective_status(found)).await?)
    }

    /// Returns the row of one delivery, unless it is too old for lists to show it.
    pub(in crate::webhook) async fn shown(
        &self,
        scope: &Scope,
        id: Option<DeliveryId>,
        now: Timestamp,
    ) -> Result<Delivery, WebhookError> {
        let id = id.filter(|id| *id >= counts::first_shown(now)).ok_or(WebhookError::NoDelivery)?;
        self.row(scope, id).await?.ok_or(WebhookError::NoDelivery)
    }

    /// Returns the row of one delivery; `None`: it does not exist.
    pub async fn row(&self, scope: &Scope, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        Ok(self.store.get_in_order(&[Delivery::key_of(scope, id)]).await?.pop())
    }

    /// Returns how many of a scope's deliveries of the last 90 days are in each status.
    pub async fn stats(&self, scope: &ShardedScope, now: Timestamp) -> Result<DeliveryStats, StoreError> {
        let mut stats = DeliveryStats::default();
        for (status, count) in self.count_by_status(scope, now).await? {
            stats.add(status, count);
        }
        Ok(stats)
    }
}
