//! Asks acquirers for what takes them a while: what a payer is given, refunds.
//!
//! A message names a row; what is to be done follows from the row alone, so a message too many does nothing, and for a lost
//! one `scheduler` sends another. What fails is received again, and goes to the dead-letter queue in the end; its row stays in
//! the due-index.

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

/// How long a charge waits for an acquirer that does not answer, in milliseconds: 10 minutes. Then it is refused, for it
/// must not stay as it is.
const PATIENCE_MS: i64 = 600_000;

/// The end of a refund gives way to clients that change its charge, for no client waits for it: for so long, and those that
/// do come back spread out over so many milliseconds. A refund that began longer ago than so many milliseconds does not.
const GIVES_WAY_FOR: Duration = Duration::from_secs(2);

const GIVES_WAY_SPREAD_MS: u64 = 3_000;

const GIVES_WAY_MS: i64 = 60_000;

/// The function's state. Clones share clients.
#[derive(Clone, Debug)]
pub struct Worker {
    store: Store,
    charges: Charges,
    acquirers: Acquirers,
    refunds: Refunds,
    queue: AcquirerQueue,
    clock: Clock,
    public_urls: PublicUrls,
}

impl Worker {
    /// Reads `TABLE_NAME`, `ACQUIRER_QUEUE_URL` and `CHECKOUT_BASE_URL`.
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

    /// Works on a batch. Reports the messages that were not done.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::work_on(batch, move |message: AcquirerMessage| {
            let worker = worker.clone();
            async move { worker.work(message).await }
        })
        .await
    }

    async fn work(&self, message: AcquirerMessage) -> Result<(), WorkError> {
        match message {
            AcquirerMessage::Finalise(id) => self.finalise(id).await,
            AcquirerMessage::Refund(id) => self.refund(id, message).await,
        }
    }

    async fn finalise(&self, id: ChargeId) -> Result<(), WorkError> {
        let Some(stored) = self.charges.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a charge that does not exist"));
        };
        let charge = stored.clone().at(self.clock.now());
        if charge.status != TransactionStatus::Pending {
            return Ok(());
        }
        let account = self.store.get::<Account>(&Account::key_of(&charge.scope.account)).await?;
        let account = account.ok_or(WorkError::Missing("a charge has no account"))?;
        let acquirer = self.acquirers.named(charge.acquirer)?;
        let now = self.clock.now();
        let command = match acquirer.finalise(&charge, &account.settings, &self.public_urls, now).await {
            Ok(Finalised::Made(artefacts)) => Command::Finalise { artefacts },
            Ok(Finalised::Refused { reason, code }) => Command::Decline { reason, code },
            Err(error) if now.millis_since(charge.created_at) < PATIENCE_MS => {
                return Err(error.into());
            }
            // The payer has gone by now; the merchant hears that it failed, and can ask anew.
            Err(error) => {
                tracing::error!(charge = %charge.id, %error, "a charge could not be finalised");
                let reason = "The acquirer did not answer in time.".to_owned();
                Command::Decline { reason, code: "acquirer_unavailable".to_owned() }
            }
        };
        self.charges.apply(stored, &command, now).await?;
        Ok(())
    }

    async fn refund(&self, id: RefundId, message: AcquirerMessage) -> Result<(), WorkError> {
        let Some(refund) = self.refunds.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a refund that does not exist"));
        };
        if refund.is_done() {
            return Ok(());
        }
        let acquirer = self.acquirers.named(refund.acquirer)?;
        let refund = self.refunds.start(refund, self.clock.now()).await?;
        let now = self.clock.now();
        match acquirer.refund_progress(&refund, now).await? {
            RefundProgress::AskAgain(at) => Ok(self.queue.send_later(&message, at.until_from(now)).await?),
            RefundProgress::Waiting => Ok(()),
            RefundProgress::Ended(end) => {
                let gives_way = now.millis_since(refund.updated_at) < GIVES_WAY_MS;
                if gives_way && self.refunds.is_busy(id, now).await? {
                    let spread = Duration::from_millis(random::below(GIVES_WAY_SPREAD_MS));
                    return Ok(self.queue.send_later(&message, GIVES_WAY_FOR.saturating_add(spread)).await?);
                }
                self.refunds.end(refund, end, now).await?;
                Ok(())
            }
        }
    }
}
