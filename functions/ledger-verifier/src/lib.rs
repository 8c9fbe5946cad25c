//! Verifies the ledgers of all accounts once a day: compares balances with the sums of their postings, account
//! after account, and meanwhile the records with the days at the acquirers that have ended. Without it, a balance that a
//! fault made wrong is shown until a merchant notices it. It writes only where its next run goes on, so a repeated or
//! failed invocation does no harm.

mod acquirers;

use std::time::Duration;

use acquirer_core::configuration::AccountAcquirers;
use domain::account::Account;
use domain::ids::{Mode, Scope};
use money::charge::Charges;
use money::wallet::Wallets;
use money::wallet::verify::{Difference, Verification};
use serde::Serialize;
use services::verify_newest;
use shared::account::Accounts;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::metrics;
use shared::store::{Aws, Store, StoreError};
use tokio::time::Instant;

use crate::acquirers::Acquirers;

/// How long an invocation verifies ledgers. Lambda ends it after 15 minutes, the most that it permits.
pub const TIME_LIMIT: Duration = Duration::from_mins(14);

/// The number of differences that a log line describes.
const DESCRIBED_DIFFERENCES: usize = 10;

#[derive(Clone, Debug)]
pub struct LedgerVerifier {
    store: Store,
    acquirers: Acquirers,
    clock: Clock,
    time_limit: Duration,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Totals {
    pub ledgers: u64,
    pub postings: u64,
    /// The number of differences. A ledger that can't be read counts as one.
    pub differences: u64,
    /// The number of ledgers that kept changing.
    pub moving: u64,
}

impl LedgerVerifier {
    /// Reads `TABLE_NAME` and `SECRETS_TABLE_NAME`.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let acquirers = AccountAcquirers::from_vars(aws, store.clone(), var)?;
        Ok(Self::new(store, acquirers, clock, TIME_LIMIT))
    }

    /// `time_limit`: how long an invocation works; [`TIME_LIMIT`], except in tests.
    pub fn new(store: Store, acquirers: AccountAcquirers, clock: Clock, time_limit: Duration) -> Self {
        let acquirers = Acquirers::new(store.clone(), acquirers, clock.clone());
        Self { store, acquirers, clock, time_limit }
    }

    /// Verifies the live ledgers of all accounts, then the test ledgers. Each day begins with another account. If
    /// the time is not enough for all of them, an error is logged, and `LedgersVerified` is not written, so that
    /// an alarm begins.
    /// Errors: When DynamoDB did not answer for a ledger; the others are verified. Lambda repeats the invocation.
    pub async fn run(&self) -> Result<Totals, StoreError> {
        let deadline = Instant::now().checked_add(self.time_limit).unwrap_or_else(Instant::now);
        let accounts = Accounts::new(self.store.clone()).all().await?;
        let reconciled = self.acquirers.reconcile(&accounts, deadline);
        tokio::join!(self.verify_all(accounts.clone(), deadline), Box::pin(reconciled)).0
    }

    async fn verify_all(&self, mut accounts: Vec<Account>, deadline: Instant) -> Result<Totals, StoreError> {
        let day = usize::try_from(self.clock.now().seconds().div_euclid(86_400)).unwrap_or_default();
        let first = day.checked_rem(accounts.len()).unwrap_or_default();
        accounts.rotate_left(first);
        let mut totals = Totals::default();
        let mut result = Ok(());
        for mode in [Mode::Live, Mode::Test] {
            for account in &accounts {
                let scope = Scope { account: account.id, mode };
                let verifying = tokio::time::timeout_at(deadline, Box::pin(self.verify(&scope, &mut totals)));
                let Ok(verified) = verifying.await else {
                    let (account, ledgers) = (account.id, totals.ledgers);
                    tracing::error!(%account, %mode, ledgers, "the time was not enough to verify all ledgers");
                    return Ok(totals);
                };
                if let Err(error) = verified {
                    tracing::error!(account = %account.id, %mode, %error, "a ledger can't be read");
                    result = Err(error);
                }
            }
        }
        result?;
        let Totals { ledgers, postings, differences, moving } = totals;
        tracing::info!(ledgers, postings, differences, moving, "all ledgers were verified");
        metrics::write("", &[(metrics::LEDGERS_VERIFIED, &ledgers), (metrics::LEDGER_DIFFERENCES, &0)]);
        Ok(totals)
    }

    async fn verify(&self, scope: &Scope, totals: &mut Totals) -> Result<(), StoreError> {
        let sources = (&Wallets::new(self.store.clone()), &Charges::new(self.store.clone()));
        let differences = match verify_newest(sources, scope, self.clock.now()).await {
            Err(error @ StoreError::Corrupt(_)) => {
                let Scope { account, mode } = scope;
                tracing::error!(%account, %mode, %error, "a ledger can't be verified");
                metrics::increment(metrics::LEDGER_DIFFERENCES);
                1
            }
            found => {
                let found = found?;
                totals.postings = totals.postings.saturating_add(found.postings);
                totals.moving = totals.moving.saturating_add(u64::from(found.is_moving));
                report(scope, &found);
                u64::try_from(found.differences.len()).unwrap_or(u64::MAX)
            }
        };
        totals.ledgers = totals.ledgers.saturating_add(1);
        totals.differences = totals.differences.saturating_add(differences);
        Ok(())
    }
}

fn report(Scope { account, mode }: &Scope, found: &Verification) {
    let differences = found.differences.len();
    if differences == 0 {
        return;
    }
    let describe = |difference: &Difference| {
        let Difference { currency, figure, posted, stored } = difference;
        format!("{currency} {figure}: posted {posted}, stored {stored}")
    };
    let first: Vec<String> = found.differences.iter().take(DESCRIBED_DIFFERENCES).map(describe).collect();
    let first = first.join("; ");
    tracing::error!(%account, %mode, differences, first, "a ledger differs from its postings");
    metrics::write("", &[(metrics::LEDGER_DIFFERENCES, &differences)]);
}
