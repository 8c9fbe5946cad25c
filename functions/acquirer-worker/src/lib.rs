//! Calls acquirers for slow work: finalises charges, and requests and polls refunds.
//!
//! A queue message only identifies a row, and the row's state determines the work. So a duplicate message
//! does nothing, and the scheduler replaces a lost message. After five failed receives, SQS moves a message
//! to the dead-letter queue. The row stays in the due index, so the scheduler sends further messages for it.

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::account::Account;
use domain::charge::TransactionStatus;
use domain::charge::transition::{Command, Finalised};
use domain::ids::{ChargeId, RefundId};
use shared::acquirer::{AcquirerMessage, AcquirerQueue, Acquirers, RefundProgress};
use shared::charge::Charges;
use shared::clock::Clock;
use shared::config::{ConfigError, PublicUrls, required};
use shared::errors::WorkError;
use shared::refund::Refunds;
use shared::store::{Aws, Store};
use shared::{queue, random};

/// How long the worker retries to finalise a charge when its acquirer does not answer, in milliseconds: 10
/// minutes. Then the charge is refused, so that it does not stay pending forever.
const FINALISE_TIMEOUT_MS: i64 = 600_000;

/// How long the end of a refund is deferred while its charge is busy. Requests of clients that change the
/// charge go first, because no client waits for the end of a refund.
const DEFER_FOR: Duration = Duration::from_secs(2);

/// The largest random addition to [`DEFER_FOR`], in milliseconds. The addition spreads out refunds that were
/// deferred together.
const DEFER_SPREAD_MS: u64 = 3_000;

/// The end of a refund is deferred only within this time after the refund's last change, in milliseconds.
const DEFER_UNTIL_AGE_MS: i64 = 60_000;

/// The function's state. Clones share clients.
#[derive(Clone, Debug)]
pub struct AcquirerWorker {
    store: Store,
    charges: Charges,
    acquirers: Acquirers,
    refunds: Refunds,
    queue: AcquirerQueue,
    clock: Clock,
    public_urls: PublicUrls,
}

impl AcquirerWorker {
    /// Reads `TABLE_NAME`, `ACQUIRER_QUEUE_URL` and `CHECKOUT_BASE_URL`.
    ///
    /// # Errors
    ///
    /// When a variable is missing or invalid.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            charges: Charges::new(store.clone()),
            acquirers: Acquirers,
            refunds: Refunds::new(store.clone()),
            store,
            queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            clock,
            public_urls: PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?,
        })
    }

    /// Handles a batch of messages concurrently. Reports the messages that failed, so that only they are
    /// retried.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::process_batch(batch, move |message: AcquirerMessage| {
            let worker = worker.clone();
            async move { worker.process(message).await }
        })
        .await
    }

    async fn process(&self, message: AcquirerMessage) -> Result<(), WorkError> {
        match message {
            AcquirerMessage::Finalise(id) => self.finalise(id).await,
            AcquirerMessage::Refund(id) => self.poll_refund(id, message).await,
        }
    }

    /// Finalises a pending charge. If the acquirer fails, the message fails too, so that SQS retries it.
    async fn finalise(&self, id: ChargeId) -> Result<(), WorkError> {
        let Some(stored) = self.charges.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a charge that does not exist"));
        };
        let charge = stored.clone().read_at(self.clock.now());
        if charge.status != TransactionStatus::Pending {
            return Ok(());
        }
        let account = self.store.get::<Account>(&Account::key_of(&charge.scope.account)).await?;
        let account = account.ok_or(WorkError::Missing("the account of a charge does not exist"))?;
        let acquirer = self.acquirers.named(charge.acquirer)?;
        let now = self.clock.now();
        let command = match acquirer.finalise(&charge, &account.settings, &self.public_urls, now).await {
            Ok(Finalised::Made(artefacts)) => Command::Finalise { artefacts },
            Ok(Finalised::Refused { reason, code }) => Command::Decline { reason, code },
            Err(error) if now.millis_since(charge.created_at) < FINALISE_TIMEOUT_MS => {
                return Err(error.into());
            }
            // After this time the payer has probably left. The merchant sees the failure and can create a new
            // charge.
            Err(error) => {
                tracing::error!(charge = %charge.id, %error, "a charge could not be finalised in time; it is refused");
                let reason = "The acquirer did not answer in time.".to_owned();
                Command::Decline { reason, code: "acquirer_unavailable".to_owned() }
            }
        };
        self.charges.apply(stored, &command, now).await?;
        Ok(())
    }

    /// Claims a pending refund and polls the acquirer for its progress. If the refund has not ended, a later
    /// message polls again.
    async fn poll_refund(&self, id: RefundId, message: AcquirerMessage) -> Result<(), WorkError> {
        let Some(refund) = self.refunds.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a refund that does not exist"));
        };
        if refund.is_done() {
            return Ok(());
        }
        let acquirer = self.acquirers.named(refund.acquirer)?;
        let refund = self.refunds.claim(refund, self.clock.now()).await?;
        let now = self.clock.now();
        match acquirer.refund_progress(&refund, now).await? {
            RefundProgress::PollAgainAt(at) => {
                Ok(self.queue.send_later(&message, at.saturating_duration_since(now)).await?)
            }
            RefundProgress::Waiting => Ok(()),
            RefundProgress::Ended(end) => {
                let may_defer = now.millis_since(refund.updated_at) < DEFER_UNTIL_AGE_MS;
                if may_defer && self.refunds.is_busy(id, now).await? {
                    let spread = Duration::from_millis(random::below(DEFER_SPREAD_MS));
                    return Ok(self.queue.send_later(&message, DEFER_FOR.saturating_add(spread)).await?);
                }
                self.refunds.end(refund, end, now).await?;
                Ok(())
            }
        }
    }
}
