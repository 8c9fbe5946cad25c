//! Recovers deliveries that are not in the due index and whose message was lost or given up.
//!
//! 1. It lists the undelivered deliveries of the scopes that had new ones, period by period
//!    ([`shared::notes`]). What is listed is in the due index.
//! 2. It redrives the dead-letter queue of deliveries. A message is there after a thousand receives, which a
//!    failing database or worker needs days for. The message goes to its queue again as soon as its delivery
//!    can be read. If the delivery is done or does not exist, the message is deleted. A message that can't be
//!    read stays for the operator.

use std::time::{Duration, Instant};

use domain::ids::Scope;
use shared::WorkError;
use shared::notes::Period;
use shared::queue::{QueueError, Received};
use shared::webhook::queue::DeliveryMessage;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::{Scheduler, WORK_TIME};

/// The most scopes whose deliveries are checked at the same time.
const CONCURRENT_SCOPES: usize = 16;

/// The most receives of an invocation, each of ten messages. Further messages wait for the next invocation, so
/// that a backlog of dead letters does not fill the queues at once.
const MAX_RECEIVES: usize = 50;

/// How long a received dead letter is hidden. It exceeds the function's time limit, so that an invocation does
/// not receive a message twice.
const HIDDEN: Duration = Duration::from_mins(1);

impl Scheduler {
    /// Lists undelivered deliveries, and redrives dead letters. Returns the number of messages sent again.
    pub(crate) async fn recover_messages(&self) -> Result<usize, WorkError> {
        let started = Instant::now();
        let deliveries = self.check_periods(started).await;
        let redriven = self.redrive(started).await?;
        deliveries.map(|()| redriven)
    }

    /// Checks all periods that were not checked yet. A period is checked again if one of its scopes failed.
    async fn check_periods(&self, started: Instant) -> Result<(), WorkError> {
        let (mut checked, mut outcome) = (None, Ok(()));
        for period in Period::unchecked(&self.store, self.clock.now()).await? {
            if started.elapsed() >= WORK_TIME {
                break;
            }
            outcome = self.check_scopes(period).await;
            if outcome.is_err() {
                break;
            }
            checked = Some(period);
        }
        if let Some(period) = checked {
            period.set_checked(&self.store).await?;
        }
        outcome
    }

    /// Checks the scopes that had new deliveries in a period. The error is that of one scope; the others are checked
    /// nevertheless.
    async fn check_scopes(&self, period: Period) -> Result<(), WorkError> {
        let scopes = self.deliveries().scopes_with_new(period).await?;
        let mut failure = None;
        for some in scopes.chunks(CONCURRENT_SCOPES) {
            let mut checks = JoinSet::new();
            for scope in some {
                let (scheduler, scope) = (self.clone(), *scope);
                checks.spawn(async move { scheduler.check_scope(&scope).await }.in_current_span());
            }
            failure = checks.join_all().await.into_iter().find_map(Result::err).or(failure);
        }
        failure.map_or(Ok(()), Err)
    }

    async fn check_scope(&self, scope: &Scope) -> Result<(), WorkError> {
        let listed = self.deliveries().list_undelivered(scope, self.clock.now()).await;
        listed.inspect_err(|error| {
            tracing::error!(%scope, %error, "undelivered deliveries were not listed; a later run retries");
        })?;
        Ok(())
    }

    /// Redrives dead letters. Returns how many were sent to their queues again.
    async fn redrive(&self, started: Instant) -> Result<usize, WorkError> {
        let mut unreadable = Vec::new();
        let mut redriven: usize = 0;
        let mut failure = None;
        for _receive in 0..MAX_RECEIVES {
            let received = self.dead_letters.receive(HIDDEN).await?;
            if received.is_empty() {
                break;
            }
            for Received { receipt_handle, message } in received {
                match self.redrive_one(&receipt_handle, message).await {
                    Ok(is_sent) => redriven = redriven.saturating_add(usize::from(is_sent)),
                    Err(error) => {
                        tracing::warn!(%error, "a dead letter of a delivery stays");
                        unreadable.push(receipt_handle);
                        failure = failure.or((!is_permanent(&error)).then_some(error));
                    }
                }
            }
            if failure.is_some() || started.elapsed() >= WORK_TIME {
                break;
            }
        }
        // They are visible again at once, because the alarm counts visible messages.
        for receipt_handle in unreadable {
            self.dead_letters.hide(&receipt_handle, Duration::ZERO).await?;
        }
        if redriven > 0 {
            tracing::info!(redriven, "dead letters were sent to their queues again");
        }
        failure.map_or(Ok(redriven), Err)
    }

    /// Sends a dead letter to its queue if its delivery waits for it, and deletes it. Returns whether it was
    /// sent. Reading the delivery shows that the database answers again.
    async fn redrive_one(
        &self,
        receipt_handle: &str,
        message: Result<DeliveryMessage, QueueError>,
    ) -> Result<bool, WorkError> {
        let DeliveryMessage { scope, delivery, .. } = message?;
        let waiting = self.deliveries().row(&scope, delivery).await?.filter(|delivery| !delivery.is_done());
        if let Some(delivery) = &waiting {
            let queue = self.delivery_queues.of(scope.mode);
            queue.send_later(&DeliveryMessage::of(delivery), Duration::ZERO).await?;
        }
        self.dead_letters.delete(receipt_handle).await?;
        Ok(waiting.is_some())
    }
}

/// Whether a dead letter can't be redriven later either: its message or its row can't be read.
fn is_permanent(error: &WorkError) -> bool {
    use shared::store::StoreError;
    matches!(error, WorkError::Queue(QueueError::Malformed(_)) | WorkError::Store(StoreError::Corrupt(_)))
}
