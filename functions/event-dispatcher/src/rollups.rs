//! Has the changes of charges counted in the rollups (see [`effects::rollup`]).

use domain::ids::{EventId, Scope};
use effects::rollup::Rollups;

use crate::quarantine::Cause;
use crate::{Dispatcher, FailedRecord};

/// How long it is remembered that a fold is due, in seconds. A fold that finds rows of the last day makes the
/// next one due after a day, so one is due for the whole time.
const REMEMBERED_SECONDS: i64 = 12 * 60 * 60;

impl Dispatcher {
    /// Makes a fold due that counts these rows of a scope. Returns the records that failed.
    pub(crate) async fn schedule_fold(
        &self,
        scope: Scope,
        rows: Vec<(String, EventId)>,
    ) -> Vec<FailedRecord> {
        let now = self.clock.now();
        let is_sampled = rows.iter().any(|(_, row)| row.is_sampled());
        if rows.is_empty() || (!is_sampled && self.due_folds.contains(&scope, now)) {
            return Vec::new();
        }
        let Err(error) = Rollups::new(self.store.clone()).schedule_fold(&scope, is_sampled, now).await else {
            self.due_folds.add(scope, now.saturating_plus_seconds(REMEMBERED_SECONDS), now);
            return Vec::new();
        };
        let cause = Cause::from(&error);
        if cause != Cause::Throttled {
            tracing::error!(%scope, %error, "can't schedule a fold of the rollups");
        }
        rows.into_iter().map(|(number, _)| (number, cause)).collect()
    }
}
