//! Has each change of a charge counted in the rollups, once (see [`shared::rollup`]).

use domain::ids::Scope;
use serde::Deserialize;
use serde::de::IgnoredAny;
use shared::checkpoint::LATE_MS;
use shared::clock::Clock;
use shared::rollup::{LateChange, Rollups};
use shared::store::{Inserted, StoreError};
use shared::webhook::event::Event;

use crate::quarantine::Cause;
use crate::{Dispatcher, Failure};

/// How long it is remembered that a fold is due, in seconds. A fold that finds rows of the last day makes the
/// next one due after a day, so one is due for the whole time.
const REMEMBERED_SECONDS: i64 = 12 * 60 * 60;

/// How the change of a published row is counted.
pub(crate) enum Counted {
    /// The next fold counts the row. `is_sampled`: the fold must be soon.
    ByFold { is_sampled: bool },
    /// The row was inserted late, so the change is counted now.
    Late(LateChange),
}

/// The part of an event's row that shows how its change is counted.
#[derive(Deserialize)]
struct StoredCount {
    #[serde(default)]
    counted: Option<IgnoredAny>,
}

impl Dispatcher {
    /// Inserts an event's row, unless it exists. Returns how its change is counted; `None`: it adds nothing to
    /// the rollups. `charge_version`: the version of the charge after the change.
    pub(crate) async fn insert_event(
        &self,
        event: &Event,
        charge_version: u64,
    ) -> Result<Option<Counted>, StoreError> {
        let is_late = self.clock.now().millis_since(event.created_at) >= LATE_MS;
        let counted = event.counted.clone().filter(|_| !is_late);
        let for_fold = counted.is_some();
        let row = Event { counted, ..event.clone() };
        let for_fold = match self.store.insert_or_read::<StoredCount>(&row).await? {
            Inserted::New => for_fold,
            Inserted::Existing(stored) => stored.counted.is_some(),
        };
        let Some((counted, charge)) = event.counted.clone().zip(event.charge) else {
            return Ok(None);
        };
        let scope = event.scope;
        Ok(Some(if for_fold {
            Counted::ByFold { is_sampled: event.id.is_sampled() }
        } else {
            Counted::Late(LateChange { scope, charge, version: charge_version, change: counted })
        }))
    }

    /// Counts the late changes of a scope's published rows, and has the others counted by a fold. Returns the
    /// records that failed; a repeated call skips the changes that were counted already.
    pub(crate) async fn count(&self, scope: Scope, rows: Vec<(String, Counted)>) -> Vec<Failure> {
        let rollups = Rollups::new(self.store.clone());
        let now = self.clock.now();
        let (mut for_fold, mut late, mut fold_soon) = (Vec::new(), Vec::new(), false);
        for (number, row) in rows {
            match row {
                Counted::ByFold { is_sampled } => {
                    for_fold.push(number);
                    fold_soon |= is_sampled;
                }
                Counted::Late(change) => late.push((number, change)),
            }
        }
        let mut failures = Vec::new();
        if !for_fold.is_empty() && (fold_soon || !self.due_folds.contains(&scope, now)) {
            match rollups.schedule_fold(&scope, fold_soon, now).await {
                Ok(()) => {
                    let until = now.saturating_plus_seconds(REMEMBERED_SECONDS);
                    self.due_folds.add(scope, until, now);
                }
                Err(error) => {
                    let cause = Cause::from(&error);
                    if cause != Cause::Throttled {
                        tracing::error!(%scope, %error, "can't schedule a fold of the rollups");
                    }
                    failures.extend(for_fold.into_iter().map(|number| (number, cause)));
                }
            }
        }
        if !late.is_empty() {
            failures.extend(count_late(&rollups, &self.clock, late).await);
        }
        failures
    }
}

/// Counts late changes of one scope. If a row is corrupt, counts each change alone, so that only the changes of
/// the corrupt row fail.
async fn count_late(rollups: &Rollups, clock: &Clock, changes: Vec<(String, LateChange)>) -> Vec<Failure> {
    let all = changes.iter().map(|(_, change)| change.clone()).collect();
    let Err(error) = rollups.count(all, clock.now()).await else { return Vec::new() };
    let mut cause = log_failed_count(&changes, &error);
    if cause != Cause::Permanent || changes.len() == 1 {
        return changes.into_iter().map(|(number, _)| (number, cause)).collect();
    }
    let mut failures = Vec::new();
    for (number, change) in changes {
        // During an outage or a throttle, the other changes are not tried, because each would wait for a time-out.
        if cause == Cause::Permanent {
            let Err(error) = rollups.count(vec![change], clock.now()).await else { continue };
            cause = Cause::from(&error);
        }
        failures.push((number, cause));
    }
    failures
}

fn log_failed_count(changes: &[(String, LateChange)], error: &StoreError) -> Cause {
    let cause = Cause::from(error);
    if cause != Cause::Throttled {
        let scope = changes.first().map(|(_, change)| change.scope.to_string());
        tracing::error!(scope, %error, "can't count changes in the rollups");
    }
    cause
}
