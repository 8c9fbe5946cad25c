//! Verifies the ledgers of all accounts once a day, in an invocation of its own schedule. An invocation works
//! for a limited time, and a later one continues.

use std::time::{Duration, Instant};

use domain::ids::Scope;
use serde_json::Value;
use shared::clock::Clock;
use shared::metrics;
use shared::services::{LedgerPasses, PassStep, PassTotals};
use shared::store::{Store, StoreError};
use shared::wallet::verify::{Difference, Verification};

/// How long an invocation begins further steps. The rest of the function's time limit is for the last step.
const WORK_TIME: Duration = Duration::from_secs(35);

/// When a step is given up, after the beginning of the invocation. It is less than the function's time limit,
/// so that the function does not fail. A later invocation repeats the step and has more time for it.
const CUT_OFF: Duration = Duration::from_secs(50);

/// How long the progress is kept in memory only. So much work is lost by a crash.
const SAVED_EVERY: Duration = Duration::from_secs(5);

/// The number of differences that a log line describes.
const DESCRIBED_DIFFERENCES: usize = 10;

/// Verifies the ledgers of all accounts.
#[derive(Clone, Debug)]
pub struct LedgerVerifier {
    /// The state table.
    pub store: Store,
    /// The time source.
    pub clock: Clock,
    /// The limits of an invocation.
    pub limits: Limits,
}

/// The limits of an invocation besides its time. Tests set them, to have many short invocations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// The most steps; `None`: as many as the time allows.
    pub steps: Option<usize>,
    /// The most postings that a step reads; `None`: as many as a query returns.
    pub postings_per_step: Option<i32>,
}

impl Limits {
    /// Reads the limits from an event. A limit that is not a number is ignored.
    pub(crate) fn of(event: &Value) -> Self {
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        Self {
            steps: number("steps").and_then(|steps| usize::try_from(steps).ok()),
            postings_per_step: number("postings_per_step").and_then(|limit| i32::try_from(limit).ok()),
        }
    }
}

impl LedgerVerifier {
    /// Continues the pass that is due, for a limited time. Returns the number of ledgers that were verified.
    ///
    /// Errors are logged and not returned: the work that is due does not wait for this, and a later invocation
    /// continues.
    pub async fn run(&self) -> u64 {
        match tokio::time::timeout(CUT_OFF, Box::pin(self.continue_pass())).await {
            Ok(Ok(ledgers)) => ledgers,
            Ok(Err(error)) => {
                tracing::error!(%error, "the verification of the ledgers was interrupted; a later run continues");
                0
            }
            Err(_elapsed) => {
                tracing::warn!(
                    "a step of the verification of the ledgers takes too long; a later run repeats it"
                );
                0
            }
        }
    }

    async fn continue_pass(&self) -> Result<u64, StoreError> {
        let started = Instant::now();
        let Some(mut pass) = LedgerPasses::new(self.store.clone()).claim(self.clock.now()).await? else {
            return Ok(0);
        };
        let before = pass.totals().ledgers;
        let mut saved = Instant::now();
        let mut steps = self.limits.steps.unwrap_or(usize::MAX);
        while steps > 0 && started.elapsed() < WORK_TIME {
            steps = steps.saturating_sub(1);
            let step = Box::pin(pass.step(self.clock.now(), self.limits.postings_per_step)).await?;
            let (is_reported, is_finished) = report(&step);
            if is_finished {
                break;
            }
            if is_reported || pass.is_full() || saved.elapsed() >= SAVED_EVERY {
                if !pass.save(self.clock.now()).await? {
                    return Ok(lost());
                }
                saved = Instant::now();
            }
        }
        let verified = pass.totals().ledgers.saturating_sub(before);
        Ok(if pass.release().await? { verified } else { lost() })
    }
}

fn lost() -> u64 {
    tracing::warn!("another run verifies the ledgers; this one ends");
    0
}

/// Logs the result of a step. Returns whether it has differences, and whether the pass is finished.
fn report(step: &PassStep) -> (bool, bool) {
    match step {
        PassStep::Unfinished => (false, false),
        PassStep::Verified(_, found) if found.differences.is_empty() => (false, false),
        PassStep::Verified(scope, found) => {
            report_differences(scope, found);
            (true, false)
        }
        PassStep::Unreadable(Scope { account, mode }, error) => {
            tracing::error!(%account, %mode, %error, "a ledger can't be verified");
            metrics::increment(metrics::LEDGER_DIFFERENCES);
            (true, false)
        }
        PassStep::Finished(PassTotals { ledgers, postings, differences, moving }) => {
            tracing::info!(ledgers, postings, differences, moving, "all ledgers were verified");
            metrics::write("", &[(metrics::LEDGERS_VERIFIED, ledgers), (metrics::LEDGER_DIFFERENCES, &0)]);
            (false, true)
        }
    }
}

fn report_differences(Scope { account, mode }: &Scope, found: &Verification) {
    let differences = found.differences.len();
    let describe = |difference: &Difference| {
        let Difference { currency, figure, posted, stored } = difference;
        format!("{currency} {figure}: posted {posted}, stored {stored}")
    };
    let first: Vec<String> = found.differences.iter().take(DESCRIBED_DIFFERENCES).map(describe).collect();
    let first = first.join("; ");
    tracing::error!(%account, %mode, differences, first, "a ledger differs from its postings");
    metrics::write("", &[(metrics::LEDGER_DIFFERENCES, &differences)]);
}
