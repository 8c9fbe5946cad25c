//! Runs the due work of one shard of the due index per invocation. It expires charges and releases tranches of
//! held money. It sends the queue messages that poll acquirers for pending charges and unfinished refunds, and
//! those that retry deliveries. These messages also replace lost ones. It cancels abandoned deliveries, counts
//! deliveries that are done, folds the rollups, and reminds of the deadlines of MED cases. It records that summaries of
//! sales are due.
//!
//! Rows with due work are in a sparse index, sharded and sorted by due time. Each shard has a schedule, so that
//! the shards are processed in invocations of their own. Each run reads the due rows and processes them by
//! conditional writes, like the other functions. So concurrent runs, or a run that crashes, do no harm.
//!
//! Messages start counts of deliveries between two runs, because schedules run once a minute at most.
//!
//! A schedule of its own recovers deliveries that have no message in their queue (`recovery`).

mod recovery;

use std::time::{Duration, Instant};

use acquirer_core::{AcquirerMessage, AcquirerQueue};
use aws_lambda_events::sqs::SqsEvent;
use domain::account::SalesEmails;
use domain::acquirer::{ConnectionSweep, ReportedPix};
use domain::backoff::Backoff;
use domain::charge::transition::Command;
use domain::charge::{Charge, IncomingPayment, StoredCharge, TransactionStatus};
use domain::ids::{Mode, Scope};
use domain::med::{MedCase, MedNotice};
use domain::refund::Refund;
use domain::report::{Report, ReportSchedule};
use domain::time::Timestamp;
use effects::rollup::{Rollups, folded_scope};
use effects::webhook::delivery::{Abandonment, Deliveries, Delivery, NEXT_LOOK_SECONDS, counted_scope};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use effects::webhook::queue::{CountMessage, CountQueue, DeliveryMessage, DeliveryQueues};
use effects::webhook::recovery::{Recoveries, Recovery};
use money::charge::Charges;
use money::med::MedCases;
use money::report::{ReportMessage, ReportQueue, ReportSchedules};
use money::wallet::Wallets;
use money::wallet::counters::Tranche;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shared::account::Users;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::store::{Aws, DUE_SHARDS, DuePartition, DueRow, Store, StoreError, from_item};
use shared::{WorkError, WorkResult, concurrently, metrics, queue};

/// The `task` in the input of the schedule that replaces lost messages (`template.yaml`).
const RECOVER_MESSAGES: &str = "recover-messages";

/// How long a run begins further pages of due rows. The rest of the function's time limit is for the last page
/// and for slow work. The next run, a minute after the start of this one, reads the remaining rows.
const WORK_TIME: Duration = Duration::from_secs(40);

/// How long a row is postponed when its processing failed, in seconds. So failing rows do not block the
/// others.
const RETRY_FAILED_SECONDS: i64 = 300;

/// The pauses between two polls of an acquirer.
const POLLS: Backoff = Backoff { first: Duration::from_mins(2), longest: Duration::from_hours(6) };

/// The longest pause between two polls of a live refund or return, in seconds: 15 minutes. After two minutes, only the
/// scheduler polls them.
const MAX_REFUND_POLL_SECONDS: i64 = 15 * 60;

/// When the scheduler starts the sweep of a bank connection again if the last one did not end, in seconds.
const NEXT_SWEEP_SECONDS: i64 = 5 * 60;

enum DueAction {
    Delivery(DeliveryMessage),
    Acquirer(AcquirerMessage),
    Report(ReportMessage),
    /// Count this scope's deliveries. The count is slow, so it runs after the other rows.
    Count(Scope),
    /// Fold the rollups of this scope. The fold is slow, so it runs after the other rows.
    Fold(Scope),
    /// Cancel the deliveries of this abandonment. That is slow, so it runs after the other rows.
    Abandon(Box<Abandonment>),
    /// Run the steps of this recovery. They are slow, so they run after the other rows.
    Recover(Box<Recovery>),
    /// Nothing: the row is done, or another caller has changed its due time.
    Nothing,
}

/// The pause between two reports of a payment that waits for its review, in seconds: an hour.
const REPORT_REVIEW_SECONDS: i64 = 60 * 60;

#[derive(Default)]
struct SlowWork {
    counts: Vec<Scope>,
    folds: Vec<Scope>,
    abandonments: Vec<Abandonment>,
    recoveries: Vec<Recovery>,
}

#[derive(Default)]
struct PartitionOutcome {
    processed: usize,
    slow: SlowWork,
    /// The last error of a row that could be neither processed nor postponed, or that of the partition itself.
    failure: Option<WorkError>,
}

#[derive(Clone, Debug)]
pub struct Scheduler {
    pub store: Store,
    pub delivery_queues: DeliveryQueues,
    pub acquirer_queue: AcquirerQueue,
    pub count_queue: CountQueue,
    pub report_queue: ReportQueue,
    pub clock: Clock,
}

impl Scheduler {
    /// Reads `TABLE_NAME`, `DELIVERY_QUEUE_URL`, `TEST_DELIVERY_QUEUE_URL`, `ACQUIRER_QUEUE_URL`,
    /// `COUNT_QUEUE_URL` and `REPORT_QUEUE_URL`.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            store: Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?),
            delivery_queues: DeliveryQueues::from_vars(&aws.sqs(), var)?,
            acquirer_queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            count_queue: CountQueue::new(aws.sqs(), required(var, "COUNT_QUEUE_URL")?),
            report_queue: ReportQueue::new(aws.sqs(), required(var, "REPORT_QUEUE_URL")?),
            clock,
        })
    }

    /// Processes messages of counts, or does the task of a schedule's event. An event with a `shard` processes the
    /// rows of this shard that are due. An event without any processes the due rows of all shards.
    ///
    /// # Errors
    ///
    /// As for [`Self::run`], and when messages could not be recovered.
    pub async fn handle(&self, event: &Value) -> WorkResult<Value> {
        if event.get("Records").is_some() {
            let scheduler = self.clone();
            let counted = queue::process_batch(
                SqsEvent::deserialize(event)?,
                move |message: CountMessage, _receipt| {
                    let scheduler = scheduler.clone();
                    async move {
                        let counted =
                            scheduler.deliveries().count_again(&message.scope, scheduler.clock.now()).await;
                        scheduler.count_next(message.scope, counted).await
                    }
                },
            );
            return Ok(serde_json::to_value(counted.await)?);
        }
        if event.get("task").and_then(Value::as_str) == Some(RECOVER_MESSAGES) {
            Box::pin(self.recover_messages()).await?;
            return Ok(json!({}));
        }
        let moved = match event.get("shard") {
            Some(shard) => {
                let shard = shard.as_u64().and_then(|shard| u8::try_from(shard).ok());
                let shard = shard.filter(|shard| *shard < DUE_SHARDS);
                self.run_shard(shard.ok_or(WorkError::Missing("the shard of the schedule does not exist"))?)
                    .await?
            }
            None => self.run().await?,
        };
        Ok(json!({ "moved": moved }))
    }

    /// Processes all rows that are due now, with the shards in parallel. Returns the number of rows
    /// processed.
    ///
    /// # Errors
    ///
    /// The error of the first shard that failed. The other shards are processed nevertheless, and the next
    /// run continues.
    pub async fn run(&self) -> WorkResult<usize> {
        let shards = concurrently(DUE_SHARDS.into(), 0..DUE_SHARDS, |shard| {
            let scheduler = self.clone();
            async move { scheduler.run_shard(shard).await }
        });
        let mut processed: usize = 0;
        for shard in shards.await {
            processed = processed.saturating_add(shard?);
        }
        Ok(processed)
    }

    /// Processes the rows of a shard that are due now, with its partitions in parallel. Returns the number of
    /// rows processed.
    ///
    /// # Errors
    ///
    /// The last error of a row that could be neither processed nor postponed, or of a partition that could not
    /// be read. The other rows and partitions are processed nevertheless.
    async fn run_shard(&self, shard: u8) -> WorkResult<usize> {
        let started = Instant::now();
        let partitions: Vec<DuePartition> = DuePartition::of_shard(shard).collect();
        let outcomes = concurrently(partitions.len(), partitions, |partition| {
            let scheduler = self.clone();
            async move { scheduler.run_partition(partition, started).await }
        });
        let mut processed: usize = 0;
        let mut slow = SlowWork::default();
        let mut failure = None;
        for outcome in outcomes.await {
            processed = processed.saturating_add(outcome.processed);
            slow.counts.extend(outcome.slow.counts);
            slow.folds.extend(outcome.slow.folds);
            slow.abandonments.extend(outcome.slow.abandonments);
            slow.recoveries.extend(outcome.slow.recoveries);
            failure = outcome.failure.or(failure);
        }
        // Slow work runs sequentially and persists each step, so a run that is cut short has still made
        // progress.
        for scope in slow.folds {
            let rollups = Rollups::new(self.store.clone());
            if let Err(error) = Box::pin(rollups.fold(&scope, self.clock.now())).await {
                tracing::error!(%scope, %error, "rollups were not folded; the next run retries");
            }
        }
        for scope in slow.counts {
            let counted = self.deliveries().count(&scope, self.clock.now()).await;
            if let Err(error) = self.count_next(scope, counted).await {
                tracing::error!(%scope, %error, "deliveries were not counted; the next run retries");
            }
        }
        for abandonment in slow.abandonments {
            let Abandonment { scope, endpoint, .. } = abandonment;
            if let Err(error) = Box::pin(self.abandon(abandonment, started)).await {
                tracing::error!(%scope, %endpoint, %error, "abandoned deliveries were not cancelled; the next run retries");
            }
        }
        for recovery in slow.recoveries {
            let Recovery { scope, id, .. } = recovery;
            if let Err(error) = Box::pin(self.recover(recovery, started)).await {
                tracing::error!(%scope, %id, %error, "a recovery stopped; the next run continues it");
            }
        }
        failure.map_or(Ok(processed), Err)
    }

    /// Runs the steps of a recovery, at least one. Those after [`WORK_TIME`] are left to the next run.
    async fn recover(&self, recovery: Recovery, started: Instant) -> Result<(), StoreError> {
        let recoveries = Recoveries::new(self.store.clone());
        let mut next = recoveries.run_step(recovery, self.clock.now()).await?;
        while let Some(recovery) = next.filter(|_| started.elapsed() < WORK_TIME) {
            next = recoveries.run_step(recovery, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Sends the message of the next count of a scope's deliveries, if outcomes were missing in the last one.
    async fn count_next(&self, scope: Scope, are_missing: Result<bool, StoreError>) -> WorkResult<()> {
        if are_missing? {
            CountMessage { scope }.send_next(&self.count_queue).await?;
        }
        Ok(())
    }

    /// Runs the steps of an abandonment, at least one. Those after [`WORK_TIME`] are left to the next run.
    async fn abandon(&self, abandonment: Abandonment, started: Instant) -> Result<(), StoreError> {
        let mut next = self.deliveries().run_abandonment_step(abandonment).await?;
        while let Some(abandonment) = next.filter(|_| started.elapsed() < WORK_TIME) {
            next = self.deliveries().run_abandonment_step(abandonment).await?;
        }
        Ok(())
    }

    /// Processes the rows of a partition that are due now, except for their slow work.
    async fn run_partition(&self, partition: DuePartition, started: Instant) -> PartitionOutcome {
        let mut outcome = PartitionOutcome::default();
        let mut after = None;
        while started.elapsed() < WORK_TIME {
            let now = self.clock.now();
            let (due, next) = match self.store.due(partition, now, after).await {
                Ok(page) => page,
                Err(error) => {
                    outcome.failure = Some(error.into());
                    break;
                }
            };
            self.process_page(due, now, &mut outcome).await;
            match next {
                Some(_) => after = next,
                None => break,
            }
        }
        outcome
    }

    /// Processes a page of due rows concurrently, and sends the resulting queue messages in batches.
    async fn process_page(&self, due: Vec<DueRow>, now: Timestamp, outcome: &mut PartitionOutcome) {
        let rows = concurrently(due.len(), due, |due| {
            let scheduler = self.clone();
            async move { scheduler.process_row(&due, now).await }
        });
        let (mut deliveries, mut acquirer_messages, mut reports) = (Vec::new(), Vec::new(), Vec::new());
        for action in rows.await {
            outcome.processed = outcome.processed.saturating_add(action.is_ok().into());
            match action {
                Ok(DueAction::Delivery(message)) => deliveries.push(message),
                Ok(DueAction::Acquirer(message)) => acquirer_messages.push(message),
                Ok(DueAction::Report(message)) => reports.push(message),
                Ok(DueAction::Count(scope)) => outcome.slow.counts.push(scope),
                Ok(DueAction::Fold(scope)) => outcome.slow.folds.push(scope),
                Ok(DueAction::Abandon(abandonment)) => outcome.slow.abandonments.push(*abandonment),
                Ok(DueAction::Recover(recovery)) => outcome.slow.recoveries.push(*recovery),
                Ok(DueAction::Nothing) => {}
                Err(error) => outcome.failure = Some(error),
            }
        }
        // Messages are sent even if other rows failed, because the rows of these messages are already
        // postponed. If a queue refuses a message, the message is sent again when its row is due next.
        let (live, test): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|message| message.scope.mode == Mode::Live);
        // Boxed, because the future of a request takes kilobytes.
        let sent = tokio::join!(
            self.delivery_queues.of(Mode::Live).send(&live),
            self.delivery_queues.of(Mode::Test).send(&test),
            Box::pin(self.acquirer_queue.send(&acquirer_messages)),
            Box::pin(self.report_queue.send(&reports))
        );
        for refused in [sent.0, sent.1, sent.2, sent.3] {
            match refused {
                Ok(refused) if refused.is_empty() => {}
                Ok(refused) => tracing::warn!(refused = refused.len(), "a queue refused messages"),
                Err(error) => outcome.failure = Some(error.into()),
            }
        }
    }

    /// Processes one row. If the processing fails, postpones the row, so that it does not block the others.
    async fn process_row(&self, due: &DueRow, now: Timestamp) -> WorkResult<DueAction> {
        let recent = now.saturating_plus_seconds(-MAX_REFUND_POLL_SECONDS);
        let result = if Delivery::is_at(&due.key) {
            self.start_delivery(due, now).await
        } else if Charge::is_at(&due.key) {
            self.expire_or_finalise(due, now).await
        } else if Refund::is_at(&due.key) {
            let poll = |Refund { id, created_at, acquirer, .. }| {
                let since = if acquirer.is_remote() { created_at.max(recent) } else { created_at };
                (since, AcquirerMessage::Refund { id, refusals: 0 })
            };
            self.poll(due, poll, now).await
        } else if IncomingPayment::is_at(&due.key) {
            let poll = |IncomingPayment { scope, payment_id: payment, recorded_at, .. }| {
                (recorded_at.max(recent), AcquirerMessage::Return { scope, payment, refusals: 0 })
            };
            self.poll(due, poll, now).await
        } else if ReportedPix::is_at(&due.key) {
            let poll = |ReportedPix { end_to_end_id, reported_at, .. }| {
                (reported_at, AcquirerMessage::ReadBack(end_to_end_id))
            };
            self.poll(due, poll, now).await
        } else if MedNotice::is_at(&due.key) {
            self.process_notice(due, now).await.map(|()| DueAction::Nothing)
        } else if MedCase::is_at(&due.key) {
            let reminded = Box::pin(MedCases::new(self.store.clone()).remind(&due.key, now)).await;
            reminded.map(|()| DueAction::Nothing).map_err(WorkError::from)
        } else if ConnectionSweep::is_at(&due.key) {
            self.sweep(due, now).await
        } else if Report::is_at(&due.key) {
            self.start_report(due, now).await
        } else if ReportSchedule::is_at(&due.key) {
            let schedules = ReportSchedules::new(self.store.clone());
            schedules.run(due, now).await.map(|()| DueAction::Nothing).map_err(WorkError::from)
        } else if SalesEmails::is_at(&due.key) {
            let users = Users::new(self.store.clone());
            users.summarise(&due.key, now).await.map(|()| DueAction::Nothing).map_err(WorkError::from)
        } else if let Some(tranche) = Tranche::at(&due.key) {
            self.release(tranche, now).await.map(|()| DueAction::Nothing)
        } else if let Some(scope) = counted_scope(&due.key) {
            Ok(DueAction::Count(scope))
        } else if let Some(scope) = folded_scope(&due.key) {
            Ok(DueAction::Fold(scope))
        } else if Endpoint::is_at(&due.key) {
            let endpoints = Endpoints::new(self.store.clone());
            endpoints.alert(&due.key, now).await.map(|()| DueAction::Nothing).map_err(WorkError::from)
        } else if Recovery::is_at(&due.key) {
            let found = self.store.get::<Recovery>(&due.key).await.map_err(WorkError::from);
            found.map(|found| found.map_or(DueAction::Nothing, |found| DueAction::Recover(Box::new(found))))
        } else if Abandonment::is_at(&due.key) {
            let found = self.store.get::<Abandonment>(&due.key).await.map_err(WorkError::from);
            found.map(|found| found.map_or(DueAction::Nothing, |found| DueAction::Abandon(Box::new(found))))
        } else {
            Err(WorkError::Missing("the scheduler does not know this kind of row"))
        };
        match result {
            Ok(action) => Ok(action),
            Err(error) => {
                tracing::error!(pk = due.key.pk, sk = due.key.sk, %error, "a due row can't be processed; it is postponed");
                self.store.postpone(due, now.saturating_plus_seconds(RETRY_FAILED_SECONDS)).await?;
                Ok(DueAction::Nothing)
            }
        }
    }

    async fn start_delivery(&self, due: &DueRow, now: Timestamp) -> WorkResult<DueAction> {
        let next = now.saturating_plus_seconds(NEXT_LOOK_SECONDS);
        let Some(item) = self.store.postpone(due, next).await? else { return Ok(DueAction::Nothing) };
        let delivery: Delivery = from_item(item)?;
        Ok(DueAction::Delivery(DeliveryMessage::of(&delivery)))
    }

    /// Sends the message of a report whose message was lost, or whose worker crashed.
    async fn start_report(&self, due: &DueRow, now: Timestamp) -> WorkResult<DueAction> {
        let next = now.saturating_plus_seconds(NEXT_LOOK_SECONDS);
        let Some(item) = self.store.postpone(due, next).await? else { return Ok(DueAction::Nothing) };
        let Report { id: report, scope, .. } = from_item(item)?;
        Ok(DueAction::Report(ReportMessage { scope, report }))
    }

    fn deliveries(&self) -> Deliveries {
        Deliveries::new(self.store.clone())
    }

    /// Polls the acquirer about a row, unless it no longer exists. `poll` returns since when the row is polled.
    async fn poll<R: DeserializeOwned>(
        &self,
        due: &DueRow,
        poll: impl FnOnce(R) -> (Timestamp, AcquirerMessage),
        now: Timestamp,
    ) -> WorkResult<DueAction> {
        let Some(row) = self.store.get(&due.key).await? else { return Ok(DueAction::Nothing) };
        let (since, message) = poll(row);
        self.poll_acquirer(due, message, since, now).await
    }

    /// Processes a MED notice whose Pix was not recorded when it arrived. That needs no request to a bank.
    async fn process_notice(&self, due: &DueRow, now: Timestamp) -> WorkResult<()> {
        let Some(notice) = self.store.get::<MedNotice>(&due.key).await? else { return Ok(()) };
        let cases = MedCases::new(self.store.clone());
        Ok(Box::pin(cases.process_notice(&notice.account, &notice.notice_id, now)).await?)
    }

    async fn sweep(&self, due: &DueRow, now: Timestamp) -> WorkResult<DueAction> {
        let postponed = self.store.postpone(due, now.saturating_plus_seconds(NEXT_SWEEP_SECONDS)).await?;
        let Some(item) = postponed else { return Ok(DueAction::Nothing) };
        let sweep: ConnectionSweep = from_item(item)?;
        Ok(DueAction::Acquirer(AcquirerMessage::Sweep(sweep.connection)))
    }

    /// Postpones a row until its next poll, and returns the message that polls the acquirer now. If another
    /// caller has changed the row's due time, returns [`DueAction::Nothing`].
    async fn poll_acquirer(
        &self,
        due: &DueRow,
        message: AcquirerMessage,
        since: Timestamp,
        now: Timestamp,
    ) -> WorkResult<DueAction> {
        let postponed = self.store.postpone(due, POLLS.next_poll(since, now)).await?;
        Ok(postponed.map_or(DueAction::Nothing, |_| DueAction::Acquirer(message)))
    }

    async fn release(&self, tranche: Tranche, now: Timestamp) -> WorkResult<()> {
        if now >= tranche.day.starts_at() {
            Wallets::new(self.store.clone()).release(tranche, now).await?;
        }
        Ok(())
    }

    async fn expire_or_finalise(&self, due: &DueRow, now: Timestamp) -> WorkResult<DueAction> {
        let Some(stored) = self.store.get::<StoredCharge>(&due.key).await? else {
            return Ok(DueAction::Nothing);
        };
        let charge = stored.as_stored();
        if charge.status == TransactionStatus::Pending {
            return self
                .poll_acquirer(due, AcquirerMessage::Finalise(charge.id), charge.created_at, now)
                .await;
        }
        if let Some(since) = charge.unread_since {
            let is_overdue = charge.can_expire() && now > charge.ends_at();
            let message = if is_overdue { AcquirerMessage::Expire } else { AcquirerMessage::Read };
            return self.poll_acquirer(due, message(charge.id), since, now).await;
        }
        if charge.is_held_for_review() {
            return self.report_review(due, charge, now).await;
        }
        if charge.acquirer.is_remote() {
            // The bank must first confirm that the charge can't be paid any more.
            let message = AcquirerMessage::Expire(charge.id);
            return self.poll_acquirer(due, message, charge.ends_at(), now).await;
        }
        // Boxed, because the future holds several copies of the charge.
        Box::pin(self.expire(stored, now)).await.map(|()| DueAction::Nothing)
    }

    /// Reports a payment that has waited for its review for more than a day. It is reported again every hour,
    /// so that the sum of an hour is the number of such payments.
    async fn report_review(&self, due: &DueRow, charge: &Charge, now: Timestamp) -> WorkResult<DueAction> {
        let next = now.saturating_plus_seconds(REPORT_REVIEW_SECONDS);
        if self.store.postpone(due, next).await?.is_some() {
            tracing::warn!(charge = %charge.id, scope = %charge.scope, "a payment has waited for its review for more than a day");
            metrics::increment(metrics::REVIEWS_OVERDUE);
        }
        Ok(DueAction::Nothing)
    }

    async fn expire(&self, stored: StoredCharge, now: Timestamp) -> WorkResult<()> {
        let charge = stored.as_stored();
        let at = charge.expires_at();
        if now <= at {
            return Ok(());
        }
        Charges::new(self.store.clone()).apply(stored, &Command::Expire { at }, now).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_polls_grows_from_two_minutes_to_six_hours() {
        let since: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let mut now = since;
        let polls = std::iter::repeat_with(|| {
            now = POLLS.next_poll(since, now);
            now.to_string()
        });
        let polls: Vec<String> = polls.take(12).collect();
        insta::assert_snapshot!(polls.join("\n"), @"
        2026-11-21T12:02:00.000Z
        2026-11-21T12:04:00.000Z
        2026-11-21T12:08:00.000Z
        2026-11-21T12:16:00.000Z
        2026-11-21T12:32:00.000Z
        2026-11-21T13:04:00.000Z
        2026-11-21T14:08:00.000Z
        2026-11-21T16:16:00.000Z
        2026-11-21T20:32:00.000Z
        2026-11-22T02:32:00.000Z
        2026-11-22T08:32:00.000Z
        2026-11-22T14:32:00.000Z
        ");
        // The clock of the machine that created the row may be ahead of this machine's.
        assert_eq!(
            POLLS.next_poll(since.saturating_plus_seconds(60), since),
            since.saturating_plus_seconds(NEXT_LOOK_SECONDS)
        );
        assert_eq!(POLLS.next_poll(Timestamp::MIN, Timestamp::MAX), Timestamp::MAX);
    }
}
