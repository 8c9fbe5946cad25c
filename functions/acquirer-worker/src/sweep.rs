//! The sweep of a bank connection: reads the list of all Pix, so that a lost notification loses no payment.
//!
//! The sweep's row has a watermark: every Pix with an earlier `horario` is stored. A Pix may appear in the
//! list later than its `horario` says, and a page may shift while it is read. So each sweep begins two hours
//! before the watermark. The watermark moves only after the last page of a period was stored. If the bank's times
//! are wrong by more, the period is so much longer at both ends. The watermark is a time of our clock.
//! Once a day, the list of the last days is read again, for Pix that appeared even later.

use std::time::{Duration, Instant};

use acquirer_core::configuration::{PixCredentials, days_left};
use acquirer_core::{AcquirerMessage, Connection, PixBank, PixQuery};
use domain::acquirer::{ConnectionSweep, OddObject};
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::{ConnectionId, Mode, Scope};
use domain::time::Timestamp;
use shared::account::Accounts;
use shared::metrics;
use shared::store::{CommitOutcome, Write};
use shared::{WorkError, WorkResult};

use crate::AcquirerWorker;

/// How long before the watermark a sweep begins, in seconds: two hours.
const OVERLAP_SECONDS: i64 = 2 * 60 * 60;

/// How long before now a sweep ends, in seconds. The bank's list may lack the newest Pix.
const BEHIND_SECONDS: i64 = 5;

/// How long before the watermark a sweep of changes begins, in seconds: ten minutes. A change may be listed later than
/// its time says.
const CHANGES_OVERLAP_SECONDS: i64 = 10 * 60;

/// The pause between two sweeps, in seconds: five minutes.
const PAUSE_SECONDS: i64 = 5 * 60;

/// How far the bank's clock may be behind ours, in seconds: five minutes. A connection's first Pix may have a
/// `horario` that is that much earlier than the connection.
const CLOCK_SECONDS: i64 = 5 * 60;

/// How often the returned Pix of the last days are read, in seconds: once a day.
const RETURNS_PAUSE_SECONDS: i64 = 24 * 60 * 60;

/// How old the Pix are whose devoluções are read, in seconds: 92 days. A devolução can be requested for 90
/// days (API Pix). The other days cover the pause between two reads, and the time until it is final.
const RETURNS_SECONDS: i64 = 92 * 24 * 60 * 60;

/// How old the Pix are that are read again once a day, in seconds: seven days. A bank may list a Pix hours
/// after its `horario`.
const LATE_SECONDS: i64 = 7 * 24 * 60 * 60;

/// The longest period that one query asks for, in seconds: one day. A bank may allow less.
const MAX_PERIOD_SECONDS: i64 = 24 * 60 * 60;

/// When a run of the function begins no further period. The rest is left to the next message. The function
/// itself stops after 60 s.
const RUN_TIME: Duration = Duration::from_secs(35);

/// How long a bank may be unreachable before an alarm, in milliseconds: 15 minutes.
const ALARM_AFTER_MS: i64 = 15 * 60 * 1_000;

/// How long the bank of a retired connection may be unreachable before its sweep ends, in milliseconds: a week.
const RETIRED_ENDS_AFTER_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

impl AcquirerWorker {
    /// Sweeps a connection up to now, or as far as one run of the function comes. A failure is recorded in
    /// the row, and the next sweep begins at the same watermark.
    pub(crate) async fn sweep(&self, connection: ConnectionId) -> WorkResult<()> {
        let Some(mut sweep) = self.store.get::<ConnectionSweep>(&ConnectionSweep::key_of(connection)).await?
        else {
            return Ok(());
        };
        let connections = self.connections.of_accounts(&sweep.accounts, sweep.connection).await;
        let banks: Vec<(&Connection, &PixBank)> =
            connections.iter().filter_map(|each| Some((each, each.as_pix()?))).collect();
        let outcome = match connections.first() {
            None => Err(WorkError::Missing(
                "no account has credentials for it: set them with `admin accounts set-acquirer`",
            )),
            Some(connection) if banks.is_empty() => self.sweep_changes(connection, &sweep).await,
            Some(_) => self.run_sweep((&connections, &banks), &mut sweep).await,
        };
        for connection in &connections {
            self.connections.note_clock(connection).await;
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.note_failure(&sweep, &error).await,
        }
    }

    /// Runs a sweep. `sweep` is the row as this run stored it last.
    async fn run_sweep(
        &self,
        (connections, banks): (&[Connection], &[(&Connection, &PixBank)]),
        sweep: &mut ConnectionSweep,
    ) -> WorkResult<()> {
        let (started_at, now) = (Instant::now(), self.clock.now());
        let (mut behind, mut ahead) = sweep.clock_offsets.unwrap_or_default();
        for measured in banks.iter().map(|(_, bank)| bank.clock_offsets()) {
            behind = behind.max(measured.behind_seconds());
            ahead = ahead.max(measured.ahead_seconds());
        }
        let first = first_time(sweep).saturating_plus_seconds(behind.saturating_neg());
        // Each stored part of the work moves this time on. Otherwise the row would be due during the sweep, and
        // the scheduler would start a second one.
        let next_at = now.saturating_plus_seconds(PAUSE_SECONDS);
        let credentials = || connections.iter().filter_map(|each| each.configured()?.credentials.pix());
        for (_, ends_at) in credentials().filter_map(PixCredentials::certificate_validity) {
            metrics::write("", &[(metrics::BANK_CERTIFICATE_DAYS, &days_left(ends_at, now))]);
        }
        if now.millis_since(sweep.returns_swept_at) >= RETURNS_PAUSE_SECONDS.saturating_mul(1_000) {
            for warning in credentials().filter_map(|bank| bank.certificate_warning(now)) {
                tracing::warn!(connection = %sweep.connection, accounts = ?sweep.accounts, "{warning}; request a new one, then run `admin accounts set-certificate`");
            }
            self.sweep_returns(banks, first, now).await?;
            let next = ConnectionSweep {
                returns_swept_at: now,
                late_from: Some(now.saturating_plus_seconds(-LATE_SECONDS).max(first)),
                next_at,
                // If it is still wrong, the next charge measures it.
                clock_offsets: None,
                ..sweep.next_version()
            };
            let Some(stored) = self.store_sweep(sweep, next).await? else { return Ok(()) };
            *sweep = stored;
        }
        let longest = longest_period(banks).min(MAX_PERIOD_SECONDS);
        let overlap = OVERLAP_SECONDS.saturating_add(behind);
        let mut from = sweep.watermark.saturating_plus_seconds(overlap.saturating_neg()).max(first);
        let newest = now.saturating_plus_seconds(-BEHIND_SECONDS);
        // If the clock was set back, the period is empty.
        let end = newest.saturating_plus_seconds(ahead).max(from);
        loop {
            let to = from.saturating_plus_seconds(longest).min(end);
            self.store_period(banks, (from, to), None).await?;
            let is_done = to >= end;
            if is_done || to > sweep.watermark {
                let watermark = to.min(newest).max(sweep.watermark);
                let next = sweep.read_until(watermark, next_at);
                let Some(stored) = self.store_sweep(sweep, next).await? else { return Ok(()) };
                *sweep = stored;
            }
            if is_done {
                break;
            }
            if started_at.elapsed() > RUN_TIME {
                return self.sweep_on(sweep.connection).await;
            }
            from = to;
        }
        // What is younger was read above.
        let end = end.saturating_plus_seconds(-OVERLAP_SECONDS);
        while let Some(from) = sweep.late_from {
            let to = from.saturating_plus_seconds(longest).min(end);
            if from < to {
                self.store_period(banks, (from, to), None).await?;
            }
            let late_from = (to < end).then_some(to);
            let next = ConnectionSweep { late_from, next_at, ..sweep.next_version() };
            let Some(stored) = self.store_sweep(sweep, next).await? else { return Ok(()) };
            *sweep = stored;
            if sweep.late_from.is_some() && started_at.elapsed() > RUN_TIME {
                return self.sweep_on(sweep.connection).await;
            }
        }
        Ok(())
    }

    /// Reads the charges that changed at an acquirer since the watermark. The acquirer lists the newest change first, so
    /// the watermark moves after the last page. The messages are sent before, so that a crash loses no change.
    async fn sweep_changes(&self, connection: &Connection, sweep: &ConnectionSweep) -> WorkResult<()> {
        let now = self.clock.now();
        let since = sweep.watermark.saturating_plus_seconds(-CHANGES_OVERLAP_SECONDS).max(first_time(sweep));
        let mut cursor = None;
        loop {
            let page = connection.connector().changes(since, cursor.as_deref()).await?;
            self.set_aside(connection, &page.odd).await?;
            // Another system or stack may use the account, and its objects may name any charge.
            let stored = self.charges.find_all(&page.charges).await?;
            let is_its = |charge: &&Charge| {
                sweep.accounts.contains(&charge.scope.account) && charge.uses(sweep.connection)
            };
            let may_change = |charge: &&Charge| {
                if page.unpaid.contains(&charge.id) {
                    return charge.status == TransactionStatus::Processing && charge.is_open();
                }
                let paid_by = charge.applied_payment.as_ref().map(|applied| &applied.payment_id);
                let is_same = |by: &Option<_>| by.is_none() || by.as_ref() == paid_by;
                charge.is_open() || !page.ended.get(&charge.id).is_some_and(is_same)
            };
            let read = |charge: &Charge| {
                let is_whole = page.whole.contains(&charge.id);
                if is_whole {
                    AcquirerMessage::ReadWhole(charge.id)
                } else {
                    AcquirerMessage::Read(charge.id)
                }
            };
            let its = stored.iter().map(StoredCharge::as_stored).filter(is_its).filter(may_change);
            let messages: Vec<AcquirerMessage> = its.map(read).collect();
            self.queue.send(&messages).await?;
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        let next_at = now.saturating_plus_seconds(PAUSE_SECONDS);
        let watermark = now.saturating_plus_seconds(-BEHIND_SECONDS).max(sweep.watermark);
        self.store_sweep(sweep, sweep.read_until(watermark, next_at)).await.map(|_stored_or_superseded| ())
    }

    /// Continues a sweep in another run of the function.
    async fn sweep_on(&self, connection: ConnectionId) -> WorkResult<()> {
        Ok(self.queue.send_later(&AcquirerMessage::Sweep(connection), Duration::ZERO).await?)
    }

    /// Reads all returned Pix of the last [`RETURNS_SECONDS`], because a devolução may be much later than its
    /// Pix.
    async fn sweep_returns(
        &self,
        banks: &[(&Connection, &PixBank)],
        since: Timestamp,
        now: Timestamp,
    ) -> WorkResult<()> {
        let longest = longest_period(banks);
        let mut from = now.saturating_plus_seconds(-RETURNS_SECONDS).max(since);
        while from < now {
            let to = from.saturating_plus_seconds(longest).min(now);
            self.store_period(banks, (from, to), Some(true)).await?;
            from = if to < now { to } else { break };
        }
        Ok(())
    }

    /// Reads all pages of a period and records their Pix.
    async fn store_period(
        &self,
        banks: &[(&Connection, &PixBank)],
        (from, to): (Timestamp, Timestamp),
        with_return: Option<bool>,
    ) -> WorkResult<()> {
        for (connection, bank) in banks {
            let mut pages = bank.pages(PixQuery { with_return, ..PixQuery::period(from, to) });
            while let Some(page) = pages.next().await? {
                let odd = page.malformed.iter().map(|item| {
                    let why = format!("the bank listed a Pix that can't be read: {}", item.reason);
                    OddObject::new(item.end_to_end_id.as_deref().unwrap_or_default(), why)
                });
                let mut odd: Vec<OddObject> = odd.collect();
                odd.extend(self.payments.record_listed(bank, &page.pix, self.clock.now()).await?);
                self.set_aside(connection, &odd).await?;
            }
            if pages.kept_changing() {
                // The next sweep reads the overlap again.
                tracing::warn!("the list of Pix kept changing while it was read");
            }
        }
        Ok(())
    }

    /// Replaces the sweep's row. `None`: another run or an operator has changed it, and this run ends.
    async fn store_sweep(
        &self,
        sweep: &ConnectionSweep,
        next: ConnectionSweep,
    ) -> WorkResult<Option<ConnectionSweep>> {
        match self.store.commit(vec![Write::replace(&next, sweep.version)?]).await? {
            CommitOutcome::Done => Ok(Some(next)),
            CommitOutcome::Conflict { .. } => Ok(None),
        }
    }

    /// Records that the bank could not be read. The next sweep begins at the same watermark. Once the bank has been
    /// silent for long, the metric says so at each sweep while money may arrive there, and the log once. No line is an
    /// error: a merchant's bank must not stop a deployment.
    async fn note_failure(&self, sweep: &ConnectionSweep, error: &WorkError) -> WorkResult<()> {
        let now = self.clock.now();
        let since = sweep.failing_since.unwrap_or(now);
        let silent_ms = now.millis_since(since);
        let next_at = now.saturating_plus_seconds(RETRY_SECONDS);
        let mut next = ConnectionSweep { failing_since: Some(since), next_at, ..sweep.next_version() };
        let ConnectionSweep { connection, accounts, .. } = sweep;
        if silent_ms <= ALARM_AFTER_MS {
            tracing::warn!(%connection, %error, "a bank could not be read; the sweep is repeated");
        } else if silent_ms > RETIRED_ENDS_AFTER_MS && self.is_retired(sweep).await {
            tracing::warn!(%connection, ?accounts, %error, "the sweep of a retired connection ends: its bank has not been readable for a week");
            next.accounts = Vec::new();
        } else {
            if !sweep.is_reported {
                tracing::warn!(%connection, ?accounts, %error, "a bank has not been readable for more than 15 minutes");
                next.is_reported = true;
            }
            if self.any_open_at(sweep).await? {
                metrics::increment(metrics::BANKS_UNREADABLE);
            }
        }
        // If another run changed the row meanwhile, its row stays.
        self.store_sweep(sweep, next).await.map(|_stored_or_superseded| ())
    }

    /// Whether all accounts have retired the connection.
    async fn is_retired(&self, sweep: &ConnectionSweep) -> bool {
        for account in &sweep.accounts {
            let found = self.connections.at(*account, Some(sweep.connection)).await;
            if !found.is_ok_and(|found| found.configured().is_some_and(|it| it.acquirer.is_retired)) {
                return false;
            }
        }
        true
    }

    /// Whether a live charge of the connection may still be paid.
    async fn any_open_at(&self, sweep: &ConnectionSweep) -> WorkResult<bool> {
        let accounts = Accounts::new(self.store.clone());
        for account in &sweep.accounts {
            let scope = accounts.sharded_scope(&Scope { account: *account, mode: Mode::Live }).await?;
            if self.charges.any_waiting_at(&scope, sweep.connection).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the longest period that all banks accept in one query, in seconds.
fn longest_period(banks: &[(&Connection, &PixBank)]) -> i64 {
    banks
        .iter()
        .map(|(_, bank)| i64::from(bank.settings().max_period_seconds))
        .min()
        .unwrap_or(MAX_PERIOD_SECONDS)
}

/// Returns the earliest `horario` of a Pix that the sweep reads.
fn first_time(sweep: &ConnectionSweep) -> Timestamp {
    sweep.created_at.saturating_plus_seconds(-CLOCK_SECONDS)
}

/// The pause after a failed sweep, in seconds.
const RETRY_SECONDS: i64 = 60;
