//! Automatic returns: payments that were not credited and go back to their payers through the bank.

use api_pix::Devolucao;
use domain::charge::IncomingPayment;
use domain::row::Row as _;
use domain::time::Timestamp;
use domain::wallet::Posting;

use acquirer_core::{Connection, RequestAgain, ReturnProgress};
use money::charge::Charges;
use money::wallet::counters::{self, DebitCheck};
use shared::store::Write;
use shared::{WorkResult, metrics};

/// The index of the payment's row among the writes of a return's progress.
const PAYMENT_WRITE: usize = 0;

/// Then an operator must act.
const MAX_ATTEMPTS: u32 = 5;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReturnStep {
    /// The return has ended, another worker requests it, or another attempt has its own message.
    Ended,
    PollAgainAt(Timestamp),
    /// The bank refuses the attempt as invalid. If it still does so at this time, the return must be stopped.
    RefusedUntil(Timestamp),
}

shared::store::repository!(Returns);

impl Returns {
    /// Ends the open return of a payment if the devolução is its attempt.
    pub(crate) async fn complete_attempt(
        &self,
        incoming: &IncomingPayment,
        devolucao: &Devolucao,
        now: Timestamp,
    ) -> WorkResult<()> {
        if incoming.open_return().is_none_or(|open| open.id.as_str() != devolucao.id) {
            return Ok(());
        }
        if devolucao.amount < incoming.amount {
            return self.complete_by_bank(incoming, now).await;
        }
        self.complete(incoming, devolucao.rtr_id.as_ref().map(ToString::to_string), now).await
    }

    /// Reads the progress of a return at its acquirer, which is asked for it if it does not know it. Only one worker at a
    /// time requests it.
    pub async fn advance(
        &self,
        connection: &Connection,
        incoming: &IncomingPayment,
        now: Timestamp,
    ) -> WorkResult<ReturnStep> {
        let Some(open) = incoming.open_return() else { return Ok(ReturnStep::Ended) };
        let (id, attempt) = (open.id.clone(), open.attempt);
        let (connector, mut leased_until) = (connection.connector(), None);
        let progress = match connector.find_return(incoming, id.as_str(), now).await? {
            Some(progress) => progress,
            None if incoming.is_leased(now) => return Ok(ReturnStep::Ended),
            None => {
                let read = incoming.leased_until;
                leased_until = self.store.take_lease(incoming.key(), incoming.version, read, now).await?;
                if leased_until.is_none() {
                    return Ok(ReturnStep::Ended);
                }
                connector.request_return(incoming, id.as_str(), now).await?
            }
        };
        let is_to_repeat = match &progress {
            ReturnProgress::RequestAgain(again) => !again.is_spent,
            progress => matches!(progress, ReturnProgress::RefusedUntil(_)),
        };
        if let Some(until) = leased_until.filter(|_| is_to_repeat) {
            self.store.end_lease(incoming.key(), until, None, now).await?;
        }
        match progress {
            ReturnProgress::PollAgainAt(at)
            | ReturnProgress::RequestAgain(RequestAgain { at, is_spent: false }) => {
                return Ok(ReturnStep::PollAgainAt(at));
            }
            ReturnProgress::RequestAgain(RequestAgain { is_spent: true, .. }) => {
                self.replace(incoming, incoming.return_retried(now), None, now).await?;
            }
            ReturnProgress::RefusedUntil(until) => return Ok(ReturnStep::RefusedUntil(until)),
            ReturnProgress::Returned(rtr_id) => self.complete(incoming, rtr_id, now).await?,
            ReturnProgress::ReturnedByBank => self.complete_by_bank(incoming, now).await?,
            ReturnProgress::NotRealised if attempt < MAX_ATTEMPTS => {
                tracing::warn!(payment = %incoming.payment_id, attempt, "the bank did not execute the return of a payment; it is requested again");
                self.replace(incoming, incoming.return_retried(now), None, now).await?;
            }
            ReturnProgress::NotRealised | ReturnProgress::Impossible => self.stop(incoming, now).await?,
        }
        Ok(ReturnStep::Ended)
    }

    /// An operator must act.
    pub async fn stop(&self, incoming: &IncomingPayment, now: Timestamp) -> WorkResult<()> {
        tracing::error!(payment = %incoming.payment_id, "the bank can't return a payment; an operator must agree with the bank how it goes back: `admin receipts list` shows it");
        metrics::increment(metrics::RETURNS_FAILED);
        self.replace(incoming, incoming.return_stopped(now), None, now).await
    }

    async fn complete_by_bank(&self, incoming: &IncomingPayment, now: Timestamp) -> WorkResult<()> {
        let (next, posting) = incoming.returned_by_bank(now).unzip();
        self.replace(incoming, next, posting.as_ref(), now).await
    }

    async fn complete(
        &self,
        incoming: &IncomingPayment,
        rtr_id: Option<String>,
        now: Timestamp,
    ) -> WorkResult<()> {
        let (next, posting) = incoming.return_completed(rtr_id, now).unzip();
        self.replace(incoming, next, posting.as_ref(), now).await
    }

    /// Also replaces the copy in the charge's row. If another caller changed the payment's row meanwhile, it
    /// has seen the same progress, and nothing is written.
    async fn replace(
        &self,
        incoming: &IncomingPayment,
        next: Option<IncomingPayment>,
        posting: Option<&Posting>,
        now: Timestamp,
    ) -> WorkResult<()> {
        let Some(next) = next else { return Ok(()) };
        let charges = Charges::new(self.store.clone());
        let mut update = self.store.start_update("a charge");
        loop {
            if update.failed().contains(&PAYMENT_WRITE) {
                return Ok(());
            }
            let mut writes = vec![Write::replace(&next, incoming.version)?];
            if let Some(posting) = posting {
                writes.extend(counters::posting_writes(posting, DebitCheck::Unchecked)?);
            }
            writes.extend(charges.return_progress_write(&next, now).await?);
            if update.commit(writes).await? {
                return Ok(());
            }
        }
    }
}
