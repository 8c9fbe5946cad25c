//! Leases: while one worker requests something from an acquirer that moves money, no other worker does.

use aws_sdk_dynamodb::types::AttributeValue;

use domain::row::Key;
use domain::time::Timestamp;

use super::{Result, RowUpdate, Store, UpdateOutcome, number};

/// How long a lease lasts, in seconds: longer than the time limit of the worker (60 s), and shorter than the time until
/// an unfinished row is due (120 s), so that a row whose worker crashed can be leased again when it is due.
const LEASE_SECONDS: i64 = 90;

const LEASED_UNTIL: &str = "leased_until";

pub fn lease_end(now: Timestamp) -> Timestamp {
    now.saturating_plus_seconds(LEASE_SECONDS)
}

impl Store {
    /// Takes the lease of a row that has this version. `read`: its lease as it was read, which has ended. If another
    /// worker has taken the lease since, even if it has ended it again, returns `None`. The version stays, because it
    /// counts the changes that others see.
    pub async fn take_lease(
        &self,
        key: Key,
        version: u64,
        read: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let until = lease_end(now);
        let update = RowUpdate::of(key).set(LEASED_UNTIL, millis(until));
        let update = match read {
            Some(read) => update.when(LEASED_UNTIL, "=", millis(read)),
            None => update.when_absent(LEASED_UNTIL),
        };
        let update = update.when("version", "=", AttributeValue::N(version.to_string()));
        Ok(matches!(update.run(self).await?, UpdateOutcome::Done(_)).then_some(until))
    }

    /// Ends the lease that ends at `until`, and sets a number of its row. A lease that another worker has taken stays.
    pub async fn end_lease(
        &self,
        key: Key,
        until: Timestamp,
        set: Option<(&str, u32)>,
        now: Timestamp,
    ) -> Result<()> {
        // The attribute stays, so that `take_lease` sees that there was a lease.
        let update = RowUpdate::of(key).set(LEASED_UNTIL, millis(now));
        let update = set.into_iter().fold(update, |update, (name, to)| update.set(name, number(to.into())));
        update.when(LEASED_UNTIL, "=", millis(until)).run(self).await.map(drop)
    }
}

fn millis(at: Timestamp) -> AttributeValue {
    number(at.millis())
}
