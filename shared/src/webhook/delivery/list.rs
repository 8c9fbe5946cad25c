//! The list of deliveries, one delivery, and their statistics (contract: `GET /v1/webhooks/deliveries`,
//! `GET /v1/webhooks/stats`). Parses the query and applies defaults; `super::reader` reads the database.

use domain::ids::{DeliveryId, Scope};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;

use super::super::WebhookError;
use super::counts::{self, Criteria};
use super::page::{Selection, Window};
use super::reader::DeliveryPage;
use super::{Deliveries, Delivery, DeliveryStatus};
use crate::http::{Fields, Problem, Query};
use crate::store::{PageError, StoreError};
use crate::webhook::delivery::DeliveryStats;

/// Deliveries on a page: the default, and the most (contract: Limits).
const DEFAULT_LIMIT: u32 = 25;
const MAX_LIMIT: u32 = 100;

/// The largest `offset`. It is bounded because a request may have to read every row before its page.
const MAX_OFFSET: u32 = 5_000;

const PARAMETERS: [&str; 8] = [
    "status",
    "eventType",
    "endpointId",
    "limit",
    "offset",
    "starting_after",
    "created_after",
    "created_before",
];

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
        query.allow_only(&mut fields, &PARAMETERS);
        let endpoint = query
            .parsed(&mut fields, "endpointId", "must be an endpoint id (wh_…)", |text| text.parse().ok());
        let starting_after =
            query.parsed(&mut fields, "starting_after", "must be a delivery id (wd_…)", |text| {
                text.parse().ok()
            });
        if query.get("starting_after").is_some() && query.get("offset").is_some() {
            fields.reject("starting_after", "can't be combined with `offset`; send one of them");
        }
        let too_far = format!(
            "must be an integer from 0 to {MAX_OFFSET}; to read further, send `starting_after` with the id of the last delivery you have"
        );
        let offset = query.parsed(&mut fields, "offset", &too_far, |text| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|offset| digits && *offset <= MAX_OFFSET)
        });
        let filter = Self {
            criteria: Criteria {
                status: query.one_of(&mut fields, "status", &DeliveryStatus::vocabulary()),
                event_type: query.one_of(&mut fields, "eventType", EventType::ALL),
                endpoint,
            },
            created_after: query.not_before(&mut fields, "created_after"),
            created_before: query.not_after(&mut fields, "created_before"),
            starting_after,
            limit: usize::try_from(query.integer(&mut fields, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT))
                .unwrap_or_default(),
            offset: usize::try_from(offset.unwrap_or_default()).unwrap_or_default(),
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
        scope: &Scope,
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
        self.store.get(&Delivery::key_of(scope, id)).await?.ok_or(WebhookError::NoDelivery)
    }

    /// Returns how many of a scope's deliveries of the last 90 days are in each status.
    pub async fn stats(&self, scope: &Scope, now: Timestamp) -> Result<DeliveryStats, StoreError> {
        let mut stats = DeliveryStats::default();
        for (status, count) in self.count_by_status(scope, now).await? {
            stats.add(status, count);
        }
        Ok(stats)
    }
}
