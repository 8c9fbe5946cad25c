//! Notes new refunds ([`crate::notes`]), so that the scheduler finds those whose message was lost. A refund is
//! in the due index only if it takes longer than most. A note is one row for all new refunds of a batch of
//! stream records.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;

use domain::ids::RefundId;
use domain::refund::Refund;
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::Refunds;
use crate::notes::{Notes, Period};
use crate::store::{RowUpdate, StoreError, due_attributes, from_item, key_of_item, ttl};

#[derive(Deserialize)]
struct NewRefunds {
    refunds: BTreeSet<RefundId>,
}

impl Refunds {
    pub async fn note_new(&self, refunds: &BTreeSet<RefundId>, period: Period) -> Result<(), StoreError> {
        let Some(first) = refunds.first() else { return Ok(()) };
        let ids = refunds.iter().map(RefundId::to_string).collect();
        // The ids are added to a set, so that a repeated batch with other records removes none.
        let key = Notes::Refunds.key(period, first.to_string());
        let update = RowUpdate::of(key.clone()).add("refunds", AttributeValue::Ss(ids));
        let update = update.set_all(ttl(period.removable_at().seconds()));
        update.run(&self.store).await.map(|_noted| ())
    }

    /// Puts the refunds that were noted in a period into the due index, unless they have ended or are in it.
    pub async fn list_unfinished(&self, period: Period, now: Timestamp) -> Result<(), StoreError> {
        // Repeated batches may have noted a refund twice.
        let mut noted = BTreeSet::new();
        for note in Notes::Refunds.of(&self.store, period).await? {
            let NewRefunds { refunds } = from_item(note)?;
            noted.extend(refunds);
        }
        let keys: Vec<Key> = noted.into_iter().map(Refund::key_of).collect();
        for item in self.store.batch_get(&keys).await? {
            if item.contains_key("due_sk") {
                continue;
            }
            let key = key_of_item(&item);
            match from_item::<Refund>(item) {
                Ok(refund) if refund.is_done() => {}
                Ok(refund) => self.list(&refund, now).await?,
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(?key, %error, "a new refund can't be read; it is not checked again");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// If the refund has changed since it was read, its new version is in the index on its own, because it is
    /// late (`Refund::indexes`).
    async fn list(&self, refund: &Refund, now: Timestamp) -> Result<(), StoreError> {
        let key = refund.key();
        let version = AttributeValue::N(refund.version.to_string());
        let update = RowUpdate::of(key.clone()).set_all(due_attributes(&key, now));
        let update = update.when("version", "=", version).when_absent("due_sk");
        update.run(&self.store).await.map(|_listed_or_changed| ())
    }
}
