//! Asks acquirers for what takes them a while: refunds.
//!
//! A message names a row; what is to be done follows from the row alone, so a message too many does nothing, and for a lost
//! one `clock` sends another. What fails is received again, and goes to the dead-letter queue in the end; its row stays in
//! the due-index.

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use shared::acquirer::{Acquirer, RefundProgress};
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::ids::RefundId;
use shared::queue;
use shared::refund::{AcquirerMessage, AcquirerQueue, Refunds};
use shared::store::{Aws, Store, StoreError};

/// The function's state. Clones share clients.
#[derive(Clone, Debug)]
pub struct Worker {
    refunds: Refunds,
    queue: AcquirerQueue,
    clock: Clock,
}

impl Worker {
    /// Reads `TABLE_NAME` and `ACQUIRER_QUEUE_URL`.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            refunds: Refunds::new(Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?)),
            queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            clock,
        })
    }

    /// Works on a batch. Reports the messages that were not done.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::work_on(batch, move |message: AcquirerMessage| {
            let worker = worker.clone();
            async move { worker.work(message).await }
        })
        .await
    }

    async fn work(&self, message: AcquirerMessage) -> Result<(), StoreError> {
        match message {
            AcquirerMessage::Refund(id) => self.refund(id, message).await,
        }
    }

    async fn refund(&self, id: RefundId, message: AcquirerMessage) -> Result<(), StoreError> {
        let Some(refund) = self.refunds.find(Some(id)).await? else {
            return Err(StoreError::Corrupt("a message names a refund that is not there".to_owned()));
        };
        if refund.is_done() {
            return Ok(());
        }
        let acquirer =
            Acquirer::of(&refund.scope).map_err(|problem| StoreError::Corrupt(problem.message()))?;
        let refund = self.refunds.start(refund, self.clock.now()).await?;
        let now = self.clock.now();
        match acquirer.refund_progress(&refund, now) {
            RefundProgress::AskAgain(at) => self.queue.send_later(&message, at.until_from(now)).await,
            RefundProgress::Waiting => Ok(()),
            RefundProgress::Ended(end) => self.refunds.end(refund, end, now).await.map(drop),
        }
    }
}
