//! Passes: once a day, the ledgers of all accounts are verified, in as many invocations as that takes.
//!
//! One row has the progress of the pass. An invocation claims the row with a lease, and stores the progress
//! on condition of the row's version. So only one invocation at a time makes progress. After a crash, the
//! lease ends, and a later invocation continues at the last stored step.
//!
//! The sums of charges can be larger than a row. Each time the progress is stored, the sums that changed are
//! inserted as a row of their own, in the same transaction.

use domain::ids::{AccountId, ChargeId, Mode, Scope};
use domain::row::{Key, Row, sortable};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LedgerVerification, POSTINGS_PER_STEP};
use crate::account::Accounts;
use crate::charge::Charges;
use crate::store::{CommitOutcome, Inserted, Store, StoreError, Write};
use crate::wallet::Wallets;
use crate::wallet::verify::{ChargeSums, Difference, Verification};

/// When a pass begins, in seconds after midnight UTC: 06:00, which is 03:00 in São Paulo.
const BEGINS_AT_SECONDS: i64 = 6 * 60 * 60;

const SECONDS_A_DAY: i64 = 24 * 60 * 60;

/// How long a claim lasts, in seconds. Longer than the time limit of the scheduler.
const LEASE_SECONDS: i64 = 90;

/// How long the sums of charges are kept, in seconds: a week, longer than a pass takes.
const SUMS_KEPT_SECONDS: i64 = 7 * SECONDS_A_DAY;

/// The number of charges with unsaved sums at which the progress is stored. A step adds at most
/// [`POSTINGS_PER_STEP`] charges, so a row has at most 4,000, which is less than DynamoDB's limit of 400 KB.
const UNSAVED_CHARGES: usize = 2_000;

/// The row with the progress of the current or latest pass.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LedgerPass {
    /// When the pass was due.
    #[serde(with = "domain::time::millis")]
    pub due_at: Timestamp,
    /// When the pass began.
    #[serde(with = "domain::time::millis")]
    pub started_at: Timestamp,
    /// When the pass ended; `None`: it has not ended.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// The list entry of the account of `scope`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    /// The ledger that is being verified, or was verified last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
    /// The verification in progress, as JSON; `None`: the ledger of `scope` is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verification: Option<String>,
    /// The totals of the pass so far.
    pub totals: PassTotals,
    /// Until when an invocation has claimed the pass.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    claimed_until: Option<Timestamp>,
    /// Counts the row's changes, from 1.
    version: u64,
}

/// The totals of a pass.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PassTotals {
    /// The number of ledgers that were verified.
    pub ledgers: u64,
    /// The number of their postings.
    pub postings: u64,
    /// The number of differences. A ledger that can't be read counts as one.
    pub differences: u64,
    /// The number of ledgers that kept changing.
    pub moving: u64,
}

impl LedgerPass {
    fn starting(due_at: Timestamp, now: Timestamp, version: u64) -> Self {
        Self {
            due_at,
            started_at: now,
            finished_at: None,
            account: None,
            scope: None,
            verification: None,
            totals: PassTotals::default(),
            claimed_until: Some(lease_from(now)),
            version,
        }
    }

    /// Returns the row's key.
    pub fn row_key() -> Key {
        Key { pk: "verification#ledgers".to_owned(), sk: "pass".to_owned() }
    }
}

impl Row for LedgerPass {
    fn key(&self) -> Key {
        Self::row_key()
    }
}

/// The row with the sums of charges that a verification has not compared yet.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct LedgerSums {
    scope: Scope,
    #[serde(with = "domain::time::millis")]
    started_at: Timestamp,
    /// The version of the pass that inserted this row. Sums of later versions replace earlier ones.
    pass_version: u64,
    /// The sums by charge, as JSON.
    charges: String,
}

impl LedgerSums {
    fn partition(scope: &Scope) -> String {
        format!("verification#{scope}")
    }

    /// The beginning of the sort keys of one verification.
    fn prefix(started_at: Timestamp) -> String {
        format!("{}#", sortable(started_at))
    }
}

impl Row for LedgerSums {
    fn key(&self) -> Key {
        let sk = format!("{}{:010}", Self::prefix(self.started_at), self.pass_version);
        Key { pk: Self::partition(&self.scope), sk }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.started_at.plus_seconds(SUMS_KEPT_SECONDS).ok()
    }
}

/// The repository of passes.
#[derive(Clone, Debug)]
pub struct LedgerPasses {
    store: Store,
}

/// A pass that this process has claimed.
#[derive(Debug)]
pub struct ClaimedPass {
    store: Store,
    pass: LedgerPass,
    verification: Option<LedgerVerification>,
}

/// The result of one step of a pass.
#[derive(Debug)]
pub enum PassStep {
    /// The ledger needs more steps, or the next ledger was started.
    Unfinished,
    /// A ledger was verified.
    Verified(Scope, Verification),
    /// A ledger can't be verified, because a row can't be read.
    Unreadable(Scope, StoreError),
    /// All ledgers were verified.
    Finished(PassTotals),
}

impl LedgerPasses {
    /// Creates the repository over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Claims the pass that is due or has not ended. `None`: there is none, or another caller has claimed it.
    pub async fn claim(&self, now: Timestamp) -> Result<Option<ClaimedPass>, StoreError> {
        let due_at = last_due_at(now);
        let Some(found) = self.store.get::<LedgerPass>(&LedgerPass::row_key()).await? else {
            let first = LedgerPass::starting(due_at, now, 1);
            return match self.store.insert(&first).await? {
                Inserted::New => self.resume(first).await.map(Some),
                Inserted::Existing(_) => Ok(None),
            };
        };
        let is_claimed = found.claimed_until.is_some_and(|until| until > now);
        let is_done = found.finished_at.is_some() && found.due_at >= due_at;
        if is_claimed || is_done {
            return Ok(None);
        }
        let (before, version) = (found.version, found.version.saturating_add(1));
        let claimed = match found.finished_at {
            Some(_) => LedgerPass::starting(due_at, now, version),
            None => LedgerPass { claimed_until: Some(lease_from(now)), version, ..found },
        };
        match self.store.commit(vec![Write::replace(&claimed, before)?]).await? {
            CommitOutcome::Done => self.resume(claimed).await.map(Some),
            CommitOutcome::Conflict { .. } => Ok(None),
        }
    }

    /// Restores the verification in progress. If another version of the service stored it in a form that this
    /// one can't read, the ledger is verified from the start.
    async fn resume(&self, pass: LedgerPass) -> Result<ClaimedPass, StoreError> {
        let stored = pass.verification.as_deref().zip(pass.scope);
        let verification = match stored {
            None => None,
            Some((json, scope)) => Some(match self.restore(json).await? {
                Some(verification) => verification,
                None => LedgerVerification::start(scope, pass.claimed_until.unwrap_or(pass.started_at)),
            }),
        };
        Ok(ClaimedPass { store: self.store.clone(), pass, verification })
    }

    async fn restore(&self, json: &str) -> Result<Option<LedgerVerification>, StoreError> {
        let Ok(mut verification) = serde_json::from_str::<LedgerVerification>(json) else { return Ok(None) };
        let partition = LedgerSums::partition(verification.scope());
        let prefix = LedgerSums::prefix(verification.started_at());
        for row in self.store.rows_of_prefix::<LedgerSums>(&partition, &prefix).await? {
            let Ok(charges) = serde_json::from_str(&row.charges) else { return Ok(None) };
            verification.restore(charges);
        }
        Ok(Some(verification))
    }
}

impl ClaimedPass {
    /// Returns the totals so far.
    pub fn totals(&self) -> PassTotals {
        self.pass.totals
    }

    /// Whether so many sums are unsaved that the progress must be stored.
    pub fn is_full(&self) -> bool {
        self.verification.as_ref().is_some_and(|verification| verification.unsaved() >= UNSAVED_CHARGES)
    }

    /// Runs the next step, which reads at most `postings` postings (by default [`POSTINGS_PER_STEP`]). A result
    /// is final only when [`Self::save`] has stored it: after a crash, it is found again.
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer. Then the progress since the last [`Self::save`] is lost.
    pub async fn step(&mut self, now: Timestamp, postings: Option<i32>) -> Result<PassStep, StoreError> {
        let Some(verification) = &mut self.verification else { return self.start_next(now).await };
        let sources = (&Wallets::new(self.store.clone()), &Charges::new(self.store.clone()));
        let scope = *verification.scope();
        let stepped = verification.step(sources, now, postings.unwrap_or(POSTINGS_PER_STEP)).await;
        let totals = &mut self.pass.totals;
        let (step, differences) = match stepped {
            Ok(None) => return Ok(PassStep::Unfinished),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Throttled(_))) => return Err(error),
            Err(error @ StoreError::Corrupt(_)) => (PassStep::Unreadable(scope, error), 1),
            Ok(Some(found)) => {
                totals.postings = totals.postings.saturating_add(found.postings);
                totals.moving = totals.moving.saturating_add(u64::from(found.is_moving));
                let differences = count(&found.differences);
                (PassStep::Verified(scope, found), differences)
            }
        };
        totals.ledgers = totals.ledgers.saturating_add(1);
        totals.differences = totals.differences.saturating_add(differences);
        self.verification = None;
        Ok(step)
    }

    /// Starts the verification of the next ledger: the account's live ledger after its test ledger, then those
    /// of the next account.
    async fn start_next(&mut self, now: Timestamp) -> Result<PassStep, StoreError> {
        let scope = match self.pass.scope {
            Some(Scope { account, mode: Mode::Test }) => Some(Scope { account, mode: Mode::Live }),
            Some(Scope { mode: Mode::Live, .. }) | None => {
                let accounts = Accounts::new(self.store.clone());
                let following = accounts.following(self.pass.account.as_deref()).await?;
                following.map(|(entry, account): (String, AccountId)| {
                    self.pass.account = Some(entry);
                    Scope { account, mode: Mode::Test }
                })
            }
        };
        let Some(scope) = scope else {
            self.pass.finished_at = Some(now);
            return Ok(PassStep::Finished(self.pass.totals));
        };
        self.pass.scope = Some(scope);
        self.verification = Some(LedgerVerification::start(scope, now));
        Ok(PassStep::Unfinished)
    }

    /// Stores the progress, and extends the claim. Returns false if the claim ended and another caller has
    /// claimed the pass: the progress is not stored, and this pass must not be used any more.
    pub async fn save(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        self.store_progress(Some(lease_from(now))).await
    }

    /// Stores the progress, and ends the claim.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        self.store_progress(None).await
    }

    async fn store_progress(&mut self, claimed_until: Option<Timestamp>) -> Result<bool, StoreError> {
        let before = self.pass.version;
        self.pass.version = before.saturating_add(1);
        self.pass.claimed_until = claimed_until;
        self.pass.verification = self.verification.as_ref().map(to_json).transpose()?;
        let mut writes = vec![Write::replace(&self.pass, before)?];
        if let Some(verification) = &mut self.verification {
            let changed: Vec<(ChargeId, ChargeSums)> = verification.take_unsaved();
            if !changed.is_empty() {
                let sums = LedgerSums {
                    scope: *verification.scope(),
                    started_at: verification.started_at(),
                    pass_version: self.pass.version,
                    charges: to_json(&changed)?,
                };
                writes.push(Write::insert(&sums)?);
            }
        }
        Ok(matches!(self.store.commit(writes).await?, CommitOutcome::Done))
    }
}

fn lease_from(now: Timestamp) -> Timestamp {
    now.saturating_plus_seconds(LEASE_SECONDS)
}

fn count(differences: &[Difference]) -> u64 {
    u64::try_from(differences.len()).unwrap_or(u64::MAX)
}

/// Serialises a part of a row that would take twice the bytes in DynamoDB's own format.
fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Returns when the latest pass was due: the last 06:00 UTC.
fn last_due_at(now: Timestamp) -> Timestamp {
    let days = now.seconds().saturating_sub(BEGINS_AT_SECONDS).div_euclid(SECONDS_A_DAY);
    let seconds = days.saturating_mul(SECONDS_A_DAY).saturating_add(BEGINS_AT_SECONDS);
    Timestamp::from_millis(seconds.saturating_mul(1_000)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_due_at_six_in_the_morning_utc() {
        for (now, due) in [
            ("2026-11-22T05:59:59.999Z", "2026-11-21T06:00:00.000Z"),
            ("2026-11-22T06:00:00.000Z", "2026-11-22T06:00:00.000Z"),
            ("2026-11-23T00:30:00.000Z", "2026-11-22T06:00:00.000Z"),
        ] {
            assert_eq!(last_due_at(now.parse().unwrap()).to_string(), due);
        }
    }
}
