//! Calls acquirers for slow work: finalises charges, requests and polls refunds and returns, reads Pix back,
//! removes overdue charges, and sweeps the lists of banks.
//!
//! A queue message only identifies a row, and the row's state determines the work. So a duplicate message
//! does nothing, and the scheduler replaces a lost message. After five failed receives, SQS moves a message
//! to the dead-letter queue. The row is in the due index until its work is done, a refund's row from some
//! minutes after its creation, so the scheduler sends further messages for it.

mod bank;
mod shared_reads;
mod sweep;

use std::time::Duration;

use acquirer_core::configuration::AccountAcquirers;
use acquirer_core::{
    AcquirerMessage, AcquirerQueue, Connection, Connections, RefundAnswer, RefundProgress, RequestAgain,
};
use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::acquirer::{OddObject, SetAsideItem};
use domain::charge::TransactionStatus;
use domain::ids::{ChargeId, RefundId};
use domain::refund::RefundOutcome;
use domain::time::Timestamp;
use money::charge::Charges;
use money::refund::Refunds;
use services::{
    BankPayments, ChargeCreation, CreateChargeError, LEASE_SECONDS, RemoteCharges, Returns, SetAsideItems,
};
use shared::clock::Clock;
use shared::config::{ConfigError, PublicUrls, Vars, required};
use shared::store::{Aws, Store};
use shared::{WorkError, WorkResult};
use shared::{queue, random};

use crate::shared_reads::SharedReads;

/// How long an acquirer may take to create a charge, with all attempts: as long as the lease.
const FINALISE_TIME: Duration = Duration::from_secs(30);

/// How long the end of a refund is deferred while its charge is busy. Requests of clients that change the
/// charge go first, because no client waits for the end of a refund.
const DEFER_FOR: Duration = Duration::from_secs(2);

/// The largest random addition to [`DEFER_FOR`], in milliseconds. The addition spreads out refunds that were
/// deferred together.
const DEFER_SPREAD_MS: u64 = 3_000;

/// The end of a refund is deferred only within this time after the refund's last change, in milliseconds.
const DEFER_UNTIL_AGE_MS: i64 = 60_000;

#[derive(Clone, Debug)]
pub struct AcquirerWorker {
    store: Store,
    charges: Charges,
    connections: Connections,
    refunds: Refunds,
    returns: Returns,
    payments: BankPayments,
    remote: RemoteCharges,
    reads: SharedReads,
    queue: AcquirerQueue,
    clock: Clock,
    public_urls: PublicUrls,
}

impl AcquirerWorker {
    /// Reads `TABLE_NAME`, `SECRETS_TABLE_NAME`, `ACQUIRER_QUEUE_URL` and `CHECKOUT_BASE_URL`.
    ///
    /// # Errors
    ///
    /// When a variable is missing or invalid.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let settings = AccountAcquirers::from_vars(aws, store.clone(), var)?;
        let payments = BankPayments::new(store.clone(), settings.clone());
        Ok(Self {
            charges: Charges::new(store.clone()),
            connections: Connections::new(settings.clone(), clock.clone()),
            refunds: Refunds::new(store.clone()),
            returns: Returns::new(store.clone()),
            remote: RemoteCharges::new(store.clone(), payments.clone()),
            reads: SharedReads::default(),
            payments,
            store,
            queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            clock,
            public_urls: PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?,
        })
    }

    async fn set_aside(&self, connection: &Connection, odd: &[OddObject]) -> WorkResult<()> {
        let Some(id) = connection.id() else { return Ok(()) };
        let (at, now) = ((id, connection.account()), self.clock.now());
        let items: Vec<SetAsideItem> = odd.iter().map(|odd| SetAsideItem::of_object(at, odd, now)).collect();
        Ok(SetAsideItems::new(self.store.clone()).add(&items).await?)
    }

    /// `None`: an object of the acquirer can't be used, and was set aside.
    async fn usable<T>(
        &self,
        connection: &Connection,
        answered: Result<T, impl Into<WorkError>>,
    ) -> WorkResult<Option<T>> {
        let answered = answered.map_err(Into::into);
        if let Err(error) = &answered
            && let Some(odd) = error.odd().cloned()
        {
            return self.set_aside(connection, &[odd]).await.map(|()| None);
        }
        answered.map(Some)
    }

    /// Handles a batch of messages concurrently. Reports the messages that failed, so that only they are
    /// retried.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::process_batch(batch, move |message: AcquirerMessage, _receipt| {
            let worker = worker.clone();
            async move { worker.process(message).await }
        })
        .await
    }

    async fn process(&self, message: AcquirerMessage) -> WorkResult<()> {
        // Boxed, because the futures are large, and only one of them runs.
        match message {
            AcquirerMessage::Finalise(id) => Box::pin(self.finalise(id)).await,
            AcquirerMessage::Refund { id, refusals } => Box::pin(self.poll_refund(id, refusals)).await,
            AcquirerMessage::Expire(id) => Box::pin(self.expire(id, message)).await,
            AcquirerMessage::Read(id) | AcquirerMessage::ReadWhole(id) => {
                Box::pin(self.read(id, &message)).await
            }
            AcquirerMessage::Look(id) => Box::pin(self.look(id)).await,
            AcquirerMessage::ReadBack(ref id) => Box::pin(self.read_back(id)).await,
            AcquirerMessage::Return { scope, payment, refusals } => {
                Box::pin(self.advance_return(&scope, &payment, refusals)).await
            }
            AcquirerMessage::Sweep(connection) => Box::pin(self.sweep(connection)).await,
        }
    }

    /// Creates the legs of a charge that are missing. A charge whose lease another caller holds is left to that caller.
    async fn finalise(&self, id: ChargeId) -> WorkResult<()> {
        let Some(stored) = self.charges.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a charge that does not exist"));
        };
        let now = self.clock.now();
        let charge = stored.clone().read_at(now);
        let is_to_create = charge.status == TransactionStatus::Pending || charge.lacks_legs();
        if !is_to_create || charge.is_leased(now) {
            return Ok(());
        }
        let account = self.payments.account_of(&charge).await?;
        let legs = self.connections.of_charge(&charge).await?;
        let Some(leased) = self.charges.lease(&charge, LEASE_SECONDS, now).await? else { return Ok(()) };
        let creation = ChargeCreation {
            charges: &self.charges,
            connections: &self.connections,
            public_urls: &self.public_urls,
            clock: &self.clock,
            link: None,
        };
        let created = creation.finalise_remotely((&legs, false), &account.settings, leased, FINALISE_TIME);
        match Box::pin(created).await {
            Ok(_) => Ok(()),
            Err(CreateChargeError::Charge(error)) => Err(error.into()),
            // The row is due again at once, so the scheduler sends a message every minute.
            Err(error) => {
                tracing::warn!(charge = %id, %error, "a charge is not finalised yet");
                Ok(())
            }
        }
    }

    /// Reads a refund's progress at the acquirer, which is asked for it if it does not know it. If the refund has not
    /// ended, a later message polls again. `refusals`: how often in a row the bank has refused it as invalid.
    async fn poll_refund(&self, id: RefundId, refusals: u32) -> WorkResult<()> {
        let Some(refund) = self.refunds.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a refund that does not exist"));
        };
        if refund.is_done() {
            return Ok(());
        }
        let acquirer =
            self.connections.acquirer_named(refund.acquirer, refund.scope.account, refund.connection).await?;
        let now = self.clock.now();
        let connector = acquirer.connector();
        let found = self.usable(&acquirer, connector.find_refund(&refund, now).await).await?;
        let (refund, answer) = match found {
            Some(None) => {
                let Some(leased) = self.refunds.lease(&refund, now).await? else { return Ok(()) };
                let paid_at = self.paid_at(&leased).await?;
                let requested = connector.request_refund(&leased, paid_at, self.clock.now()).await;
                (leased, self.usable(&acquirer, requested).await?)
            }
            found => (refund, found.flatten()),
        };
        // The row of a refund that can't be read stays due.
        let Some(RefundAnswer { progress, said }) = answer else { return Ok(()) };
        let now = self.clock.now();
        let message = AcquirerMessage::Refund { id, refusals: 0 };
        match progress {
            RefundProgress::PollAgainAt(at) => self.poll_again(&message, at, refund.first_due(), now).await,
            RefundProgress::RequestAgain(RequestAgain { at, is_spent }) => {
                self.refunds.end_lease(&refund, is_spent, now).await?;
                self.poll_again(&message, at, refund.first_due(), now).await
            }
            RefundProgress::Waiting => Ok(()),
            RefundProgress::RefusedUntil(until) => {
                if let Some((refusals, pause)) = next_refusal(refusals, until, now) {
                    self.refunds.end_lease(&refund, false, now).await?;
                    let again = AcquirerMessage::Refund { id, refusals };
                    return Ok(self.queue.send_later(&again, pause).await?);
                }
                tracing::error!(refund = %id, reason = said.reason.as_ref().map(tracing::field::display), "the bank refuses a refund for good, so it fails");
                self.refunds.end_at_bank(refund, RefundOutcome::Failed, said, now).await?;
                Ok(())
            }
            RefundProgress::Ended(end) => {
                let may_defer = now.millis_since(refund.updated_at) < DEFER_UNTIL_AGE_MS;
                if may_defer && self.refunds.is_busy(id, now).await? {
                    let spread = Duration::from_millis(random::below(DEFER_SPREAD_MS));
                    return Ok(self.queue.send_later(&message, DEFER_FOR.saturating_add(spread)).await?);
                }
                // Other devoluções are the usual cause of a failure. They debit the wallet before the refund
                // credits it again.
                if let (RefundOutcome::Failed, Some(bank)) = (end, acquirer.as_pix()) {
                    self.payments.record_by_id(bank, refund.payment.as_str(), None, now).await?;
                }
                self.refunds.end_at_bank(refund, end, said, now).await?;
                Ok(())
            }
        }
    }

    /// Sends the message of the next poll, until the scheduler polls the row. So a row has one chain of polls, however
    /// many messages there are.
    async fn poll_again(
        &self,
        message: &AcquirerMessage,
        at: Timestamp,
        first_due: Timestamp,
        now: Timestamp,
    ) -> WorkResult<()> {
        if at >= first_due {
            return Ok(());
        }
        Ok(self.queue.send_later(message, at.saturating_duration_since(now)).await?)
    }
}

/// The fewest refusals in a row after which a bank is not asked again.
const MIN_REFUSALS: u32 = 4;

/// The shortest and the longest pause after a refusal, in seconds.
const REFUSAL_PAUSE_SECONDS: (u32, u32) = (5, 120);

/// Returns the number of refusals and the pause before the next request, after a bank refused one as invalid.
/// `None`: the bank has refused it often enough, and `until` has passed.
fn next_refusal(refusals: u32, until: Timestamp, now: Timestamp) -> Option<(u32, Duration)> {
    let refusals = refusals.saturating_add(1);
    let (least, most) = REFUSAL_PAUSE_SECONDS;
    let pause = 2_u32.saturating_pow(refusals).clamp(least, most);
    (refusals < MIN_REFUSALS || now < until).then(|| (refusals, Duration::from_secs(pause.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_after_some_requests_and_some_minutes() {
        let until: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let before = until.plus_millis(-1).unwrap();
        let seconds = |refusals, now| next_refusal(refusals, until, now).map(|(_, pause)| pause.as_secs());
        // The bank did not answer before, so it refuses for the first time after these minutes.
        assert_eq!([0, 1, 2].map(|refusals| seconds(refusals, until)), [Some(5), Some(5), Some(8)]);
        assert_eq!(seconds(3, until), None);
        assert_eq!([3, 6, 60].map(|refusals| seconds(refusals, before)), [Some(16), Some(120), Some(120)]);
        assert_eq!(next_refusal(6, until, before).map(|(refusals, _)| refusals), Some(7));
    }
}
