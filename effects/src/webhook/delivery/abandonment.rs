//! Abandonment: when a merchant deletes an endpoint or sets it to `INACTIVE`, its pending deliveries are
//! permanently cancelled.
//!
//! The endpoint's row counts its abandonments ([`Endpoint::generation`]). A delivery and its entry in `list` have the
//! generation that the endpoint had when the delivery was created. The delivery is abandoned if its generation is
//! lower than the endpoint's, or if the endpoint is deleted. It is never attempted again, and each read shows it as
//! `CANCELLED` at once.
//!
//! Generations are compared instead of times, because clocks differ. The dispatcher may read an endpoint just
//! before it is deactivated, and create a delivery afterwards. This delivery has the old generation, so it is
//! abandoned too. An endpoint's generation never decreases, so no later change of the endpoint revives a
//! delivery.
//!
//! A worker that claims an abandoned delivery stores that it is `CANCELLED`. The listed ones are claimed hours later,
//! so the transaction that changes or deletes the endpoint inserts an [`Abandonment`] row. It is due at once, and the
//! scheduler cancels them in steps of [`STEP_SIZE`]. Without it, pages of `PENDING` deliveries would read all of them
//! until then. A step may be repeated, and two may run at the same time, because only a delivery that is `PENDING` is
//! cancelled.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use domain::ids::{EndpointId, Scope};
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;

use super::attempt::{cause_value, in_list, millis, status_value};
use super::counts::additions;
use super::entry::Entry;
use super::{Deliveries, Delivery, DeliveryStatus, KEPT_AFTER_SHOWN_SECONDS};
use crate::webhook::endpoint::Endpoint;
use shared::store::{CommitOutcome, ListIndex, Order, Result, RowUpdate, Store, Write, from_item};

const STEP_SIZE: usize = 1_000;

/// The most deliveries that one transaction cancels. They are of as many days at most, whose rows it adds to:
/// DynamoDB's limit is 100 rows.
const CANCELLED_PER_TRANSACTION: usize = 50;

const MAX_DELETIONS: usize = 100;

domain::fact! {
    /// Why a delivery is cancelled. Only the endpoint's causes abandon deliveries.
    #[derive(Copy, IntoStaticStr)]
    #[strum(serialize_all = "snake_case")]
    pub enum Cause {
        Deleted = "the endpoint was deleted";
        Deactivated = "the endpoint was set to INACTIVE";
        EventExpired = "the event is no longer kept";
        /// The event of a delivery to the `webhookUrl` has none.
        NoAddress = "the event has no address of its own";
    }
}

impl Cause {
    /// Returns why a delivery is abandoned; `None`: it is not. `endpoint`: the present row of its endpoint;
    /// `None`: the endpoint was deleted.
    pub fn of(delivery: &Delivery, endpoint: Option<&Endpoint>) -> Option<Self> {
        Self::of_generation(delivery.generation, endpoint)
    }

    pub(super) fn of_generation(generation: u64, endpoint: Option<&Endpoint>) -> Option<Self> {
        match endpoint {
            None => Some(Self::Deleted),
            Some(endpoint) => (generation < endpoint.generation()).then_some(Self::Deactivated),
        }
    }
}

/// The row of an abandonment: which deliveries are cancelled, and the progress. The row of a deletion is also
/// the endpoint's tombstone.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Abandonment {
    /// The account and mode of the endpoint.
    pub scope: Scope,
    pub endpoint: EndpointId,
    /// Why its deliveries are abandoned.
    pub cause: Cause,
    /// Deliveries with a lower generation than this are cancelled.
    pub generation: u64,
    /// When the endpoint was deleted or deactivated.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// The sort key of the last entry that was read; `None`: none was read yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

impl Abandonment {
    /// Returns the abandonment for the deletion of an endpoint. `endpoint`: its row before the deletion.
    pub(crate) fn by_deletion(endpoint: &Endpoint, at: Timestamp) -> Self {
        Self::new(endpoint, Cause::Deleted, endpoint.generation().saturating_add(1), at)
    }

    /// Returns the abandonment for the last deactivation of an endpoint; `None`: it was never deactivated.
    /// `endpoint`: its row after the deactivation.
    pub(crate) fn by_deactivation(endpoint: &Endpoint) -> Option<Self> {
        let abandoned = endpoint.abandoned?;
        Some(Self::new(endpoint, Cause::Deactivated, abandoned.generation, abandoned.at))
    }

    fn new(endpoint: &Endpoint, cause: Cause, generation: u64, at: Timestamp) -> Self {
        Self { scope: endpoint.scope, endpoint: endpoint.id, cause, generation, at, after: None }
    }

    pub(crate) fn tombstone_key(scope: &Scope, endpoint: EndpointId) -> Key {
        Key { pk: partition(scope), sk: format!("{endpoint}#deleted") }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("abandonments#")
    }

    /// Whether this abandonment cancels the delivery, if it is pending.
    fn covers(&self, entry: &Entry) -> bool {
        entry.endpoint == Some(self.endpoint) && entry.generation < self.generation
    }
}

fn partition(scope: &Scope) -> String {
    format!("abandonments#{scope}")
}

impl Row for Abandonment {
    fn key(&self) -> Key {
        match self.cause {
            Cause::Deleted => Self::tombstone_key(&self.scope, self.endpoint),
            // An endpoint may be deactivated several times, each time under another generation.
            Cause::Deactivated | Cause::EventExpired | Cause::NoAddress => {
                Key { pk: partition(&self.scope), sk: format!("{}#{:010}", self.endpoint, self.generation) }
            }
        }
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: Some(self.at), ..Indexes::default() }
    }

    /// The row expires after all deliveries that were created before the abandonment.
    fn removable_at(&self) -> Option<Timestamp> {
        self.at.plus_seconds(EVENTS_KEPT_SECONDS.saturating_add(KEPT_AFTER_SHOWN_SECONDS)).ok()
    }
}

impl Delivery {
    /// Returns the delivery as the API shows it: an abandoned one is `CANCELLED`, also before its row is.
    /// `endpoints`: all of its scope.
    #[must_use]
    pub fn shown(self, endpoints: &[Endpoint]) -> Self {
        let endpoint = endpoints.iter().find(|endpoint| Some(endpoint.id) == self.endpoint);
        self.shown_with(endpoint, None)
    }

    /// Like [`Self::shown`]. `endpoint`: the present row of its endpoint; `None`: it was deleted. `deleted_at`:
    /// when, if known.
    pub(super) fn shown_with(self, endpoint: Option<&Endpoint>, deleted_at: Option<Timestamp>) -> Self {
        if self.endpoint.is_none() || self.status != DeliveryStatus::Pending {
            return self;
        }
        let Some(cause) = Cause::of(&self, endpoint) else { return self };
        let at = deleted_at.or_else(|| Some(endpoint?.abandoned?.at));
        Self {
            status: DeliveryStatus::Cancelled,
            cancelled_because: Some(cause),
            updated_at: at.map_or(self.updated_at, |at| at.max(self.updated_at)),
            ..self
        }
    }
}

/// Reads the latest 100 deletions of a scope's endpoints, of the last 92 days.
pub async fn deletions(store: &Store, scope: &Scope) -> Result<Vec<Abandonment>> {
    let (all, most) = (("wh_", "wh_~"), MAX_DELETIONS);
    let items = store.range(&partition(scope), all, Order::NewestFirst, most).await?;
    let rows: Vec<Abandonment> = items.into_iter().map(from_item).collect::<Result<_, _>>()?;
    Ok(rows.into_iter().filter(|row| row.cause == Cause::Deleted).collect())
}

impl Deliveries {
    /// Reads the endpoint of a delivery and returns why the delivery is abandoned; `None`: it is not.
    pub async fn abandonment_cause(&self, delivery: &Delivery) -> Result<Option<Cause>> {
        let Some(endpoint) = delivery.endpoint else { return Ok(None) };
        let key = Endpoint::key_of(&delivery.scope, endpoint);
        let endpoint = self.store.get_in_order::<Endpoint>(&[key]).await?.pop();
        Ok(Cause::of(delivery, endpoint.as_ref()))
    }

    /// Runs the next step of an abandonment. Returns it as it is after the step; `None`: it has ended.
    pub async fn run_abandonment_step(&self, abandonment: Abandonment) -> Result<Option<Abandonment>> {
        let list = Delivery::partition(&abandonment.scope);
        // '!' sorts before every character that may follow a sort key in a longer one.
        let after = abandonment.after.as_ref();
        let from = after.map_or_else(|| "PENDING#".to_owned(), |after| format!("{after}!"));
        let range = (from.as_str(), "PENDING#~");
        let entries = self.store.list(ListIndex::All, &list, range, Order::OldestFirst, STEP_SIZE).await?;
        let after = entries.last().filter(|_| entries.len() >= STEP_SIZE).map(|entry| entry.sort.clone());
        let pending: Vec<Entry> =
            entries.iter().filter_map(Entry::of).filter(|entry| abandonment.covers(entry)).collect();
        for some in pending.chunks(CANCELLED_PER_TRANSACTION) {
            self.cancel(some.to_vec(), &abandonment).await?;
        }
        let update = RowUpdate::of(abandonment.key());
        let update = match after.clone() {
            Some(after) => update.set("after", AttributeValue::S(after)),
            None => update.remove_all(["due_pk", "due_sk"]),
        };
        update.run(&self.store).await?;
        Ok(after.map(|after| Abandonment { after: Some(after), ..abandonment }))
    }

    /// Cancels deliveries in one transaction. Skips those whose condition fails: an attempt runs or has ended.
    async fn cancel(&self, mut found: Vec<Entry>, by: &Abandonment) -> Result<()> {
        // Each failed transaction returns at least one delivery to skip, so the loop ends.
        while !found.is_empty() {
            let cancelled = found.iter().map(|entry| cancellation(entry, by));
            let counted = additions(&by.scope, DeliveryStatus::Cancelled.as_str(), found.iter());
            match self.store.commit(cancelled.chain(counted).collect()).await? {
                CommitOutcome::Done => break,
                CommitOutcome::Conflict { at } => {
                    let mut indexes = 0..;
                    found.retain(|_| indexes.next().is_none_or(|index: usize| !at.contains(&index)));
                }
            }
        }
        Ok(())
    }
}

/// Returns the update that cancels a pending delivery that is abandoned.
fn cancellation(entry: &Entry, by: &Abandonment) -> Write {
    let update = RowUpdate::of(Delivery::key_of(&by.scope, entry.id))
        .set("status", status_value(DeliveryStatus::Cancelled))
        .set("updated_at", millis(by.at))
        .set("cancelled_because", cause_value(by.cause))
        .set_all(in_list(&by.scope, entry, DeliveryStatus::Cancelled))
        .remove_all(["due_pk", "due_sk"])
        .when("status", "=", status_value(DeliveryStatus::Pending));
    Write::update(update)
}

#[cfg(test)]
mod tests {

    use super::super::testing::delivery;
    use super::*;
    use crate::charge_testing::at;

    use crate::webhook::endpoint::testing::endpoint;

    #[test]
    fn an_abandonment_covers_the_earlier_deliveries_to_its_endpoint() {
        let row = Abandonment::by_deletion(&endpoint(), at(0));
        let entry = delivery(&[endpoint()], at(0)).entry();
        assert!(row.covers(&entry));
        assert!(!row.covers(&Entry { generation: 1, ..entry }), "created after it");
        assert!(!row.covers(&Entry { endpoint: None, ..entry }));
        let shown_s = EVENTS_KEPT_SECONDS + KEPT_AFTER_SHOWN_SECONDS;
        assert_eq!(row.removable_at(), Some(at(shown_s)), "after the last delivery that it covers");
    }
}
