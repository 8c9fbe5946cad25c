//! Work at acquirers for single rows: read a Pix or a charge, expire a charge, return a payment.

use acquirer_core::{AcquirerMessage, Legs, Priority};
use domain::acquirer::{AcquirerName, ReportedPix};
use domain::charge::{Charge, TransactionStatus};
use domain::ids::{AcquirerPaymentId, ChargeId, EndToEndId, Scope};
use domain::payment_method::PaymentMethod;
use domain::refund::Refund;
use domain::snapshot::{Closing, RemoteState, Snapshot};
use domain::time::Timestamp;
use money::charge::{Seen, lost_cob_ends_at};
use services::{Followed, LEASE_SECONDS, PixHint, ReturnStep};
use shared::{WorkError, WorkResult};

use crate::{AcquirerWorker, next_refusal};

/// How long a notified Pix is read back, in milliseconds: 24 hours. Then only a sweep finds it.
const READ_BACK_MS: i64 = 24 * 60 * 60 * 1_000;

/// How long an overdue charge may wait for its bank before an alarm, in milliseconds: an hour.
const OVERDUE_ALARM_MS: i64 = 60 * 60 * 1_000;

/// Whether the charge is paid and waits for the fee alone, while another of its legs can be paid.
fn must_close_others(followed: &Followed, snapshot: &Snapshot) -> bool {
    let paid = followed.read_again_at.and(followed.charge.as_stored().unconfirmed);
    let is_paid = paid.is_some_and(|method| {
        snapshot.payments.iter().any(|remote| remote.lacks_fee && remote.payment.method == method)
    });
    let is_payable = |state: &RemoteState| matches!(state, RemoteState::Open | RemoteState::InProgress);
    is_paid && snapshot.legs.iter().any(|(_, state)| is_payable(state))
}

/// Whether the acquirer asks the payer itself: by a push, or by e-mail.
fn is_pushed(method: PaymentMethod) -> bool {
    matches!(method, PaymentMethod::Mbway | PaymentMethod::Multibanco | PaymentMethod::Boleto)
}

impl AcquirerWorker {
    /// Returns when the payment of a refund was received.
    pub(crate) async fn paid_at(&self, refund: &Refund) -> WorkResult<Timestamp> {
        let charge = self.charges.get_existing(refund.id.charge()).await?;
        let applied = charge.as_stored().applied_payment.as_ref();
        Ok(applied.map_or(refund.created_at, |applied| applied.paid_at))
    }

    /// Reads a reported Pix back from its bank and records it. If the bank does not have it yet, the scheduler
    /// sends further messages, with growing pauses.
    pub(crate) async fn read_back(&self, id: &EndToEndId) -> WorkResult<()> {
        let Some(known) = self.store.get::<ReportedPix>(&ReportedPix::key_of(id)).await? else {
            return Err(WorkError::Missing("a message names a Pix that was not reported"));
        };
        if known.read_back_at.is_none() {
            return Ok(());
        }
        let now = self.clock.now();
        let connection = self.connections.at(known.account, Some(known.connection)).await?;
        let bank = connection.pix()?;
        let since = known.reported_at.plus_millis(READ_BACK_MS.saturating_neg()).unwrap_or(Timestamp::MIN);
        let read = bank.read_back(id, known.txid.as_deref(), (since, now)).await;
        match self.usable(&connection, read).await?.flatten() {
            Some(pix) if known.txid.is_none() || pix.txid.is_none() || pix.txid == known.txid => {
                let recorded = self.payments.record(bank, &pix, PixHint::default(), now).await;
                let Some(recorded) = self.usable(&connection, recorded).await? else { return Ok(()) };
                if let Some(recorded) = recorded {
                    return self.payments.settle_read_back(bank, &recorded, &pix, now).await;
                }
                tracing::error!(pix = %id, "a notification names a Pix to a key of no account");
                self.payments.end_read_back(&known).await
            }
            Some(_) => {
                tracing::error!(pix = %id, "a notification names another txid than the bank; it is not read back again");
                self.payments.end_read_back(&known).await
            }
            None if now.millis_since(known.reported_at) < READ_BACK_MS => Ok(()),
            None => {
                tracing::error!(pix = %id, "the bank did not confirm a Pix within 24 hours after its notification");
                self.payments.end_read_back(&known).await
            }
        }
    }

    /// Closes an overdue charge at its acquirer. Only then is it expired.
    pub(crate) async fn expire(&self, id: ChargeId, message: AcquirerMessage) -> WorkResult<()> {
        let Some(stored) = self.charges.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a charge that does not exist"));
        };
        let now = self.clock.now();
        let is_overdue = |charge: &Charge| charge.can_expire() && now > charge.ends_at();
        let charge = stored.read_at(now);
        if !is_overdue(&charge) {
            return Ok(());
        }
        let charge = self.with_legs(charge, now).await?;
        if !is_overdue(&charge) {
            return Ok(());
        }
        let expires_at = charge.ends_at();
        let legs = self.connections.of_charge(&charge).await?;
        let grace = i64::from(legs.expire_after_seconds());
        let removable_at = expires_at.plus_seconds(grace).unwrap_or(Timestamp::MAX);
        if now < removable_at {
            return Ok(self.queue.send_later(&message, removable_at.saturating_duration_since(now)).await?);
        }
        match legs.close(&charge, Priority::Background, now).await {
            Ok(Some(snapshot)) => {
                let seen = (&snapshot, Some(Closing::Expire));
                let followed = self.remote.follow(&legs, &charge, seen, now).await?;
                let Some(at) = self.noted(&legs, followed, &snapshot, now).await? else {
                    return Ok(());
                };
                let pause = at.saturating_duration_since(now);
                Ok(self.queue.send_later(&AcquirerMessage::Read(id), pause).await?)
            }
            Ok(None) if now < lost_cob_ends_at(expires_at) => {
                tracing::warn!(charge = %id, "the acquirer does not know an overdue charge");
                Ok(())
            }
            Ok(None) => {
                tracing::error!(charge = %id, "the acquirer has lost an overdue charge; an operator must end it: admin charges expire {id} --reason …");
                Ok(())
            }
            Err(error) => {
                if now.millis_since(expires_at) > OVERDUE_ALARM_MS {
                    tracing::error!(charge = %id, %error, "a charge is overdue for more than an hour, and its acquirer does not close it; a day after its expiry, an operator may end it: admin charges expire {id} --reason …");
                } else {
                    tracing::warn!(charge = %id, %error, "an overdue charge is not closed at its acquirer yet");
                }
                // The scheduler sends further messages, with growing pauses.
                Ok(())
            }
        }
    }

    /// Asks the acquirers for the legs that the charge lacks: the answer to a creation may be lost, and a payer may pay by
    /// a leg that is not recorded.
    async fn with_legs(&self, charge: Charge, now: Timestamp) -> WorkResult<Charge> {
        if !charge.lacks_legs() {
            return Ok(charge);
        }
        Box::pin(self.finalise(charge.id)).await?;
        Ok(self.charges.get_existing(charge.id).await?.read_at(now))
    }

    /// Reads a charge at its acquirer, and writes what changed there.
    pub(crate) async fn read(&self, id: ChargeId, message: &AcquirerMessage) -> WorkResult<()> {
        let is_whole = matches!(message, AcquirerMessage::ReadWhole(_));
        let read = async {
            let (_, Some(at)) = self.followed(id, is_whole).await? else { return Ok(()) };
            let pause = at.saturating_duration_since(self.clock.now());
            Ok(self.queue.send_later(message, pause).await?)
        };
        self.reads.share((id, is_whole), Box::pin(read)).await
    }

    /// Reads the charge of a payer who came back. The checkout page shows what the acquirer said.
    pub(crate) async fn look(&self, id: ChargeId) -> WorkResult<()> {
        let at = self.clock.now();
        match self.followed(id, false).await {
            Ok((Some(seen), _)) => Ok(self.charges.note_look(id, seen, at).await?),
            Ok((None, _)) => Ok(()),
            Err(error) => {
                tracing::warn!(charge = %id, %error, "the acquirer did not answer for a payer who came back");
                Ok(())
            }
        }
    }

    /// Returns what the acquirer says, and when it must be read again. `None`: it says nothing of the charge.
    async fn followed(&self, id: ChargeId, is_whole: bool) -> WorkResult<(Option<Seen>, Option<Timestamp>)> {
        let Some(stored) = self.charges.find(Some(id)).await? else {
            return Err(WorkError::Missing("a message names a charge that does not exist"));
        };
        let now = self.clock.now();
        let charge = stored.read_at(now);
        if !charge.acquirer.is_remote() {
            return Ok((None, None));
        }
        let charge = self.with_legs(charge, now).await?;
        // A payer may pay by these methods before their data are recorded. The payment is credited then.
        if charge.status == TransactionStatus::Pending && charge.methods.iter().copied().any(is_pushed) {
            let lease_ends_at = charge.lease_until.filter(|until| *until > now);
            let again_at = lease_ends_at.unwrap_or_else(|| now.saturating_plus_seconds(LEASE_SECONDS));
            return Ok((None, Some(again_at)));
        }
        // Except by crypto, a charge at these acquirers is paid once. What follows is a refund or dispute.
        let is_paid_once = charge.acquirer == AcquirerName::Hosted
            && !charge.has_several_legs()
            && !charge.methods.contains(&PaymentMethod::Crypto);
        if is_paid_once && charge.applied_payment.is_some() && charge.unread_since.is_none() && !is_whole {
            return Ok((None, None));
        }
        let legs = self.connections.of_charge(&charge).await?;
        let must_close = charge.may_be_open_there();
        let closed = if must_close { legs.close(&charge, Priority::Background, now).await? } else { None };
        let read = if must_close && !is_whole { closed } else { legs.read(&charge, is_whole, now).await? };
        let Some(snapshot) = read else {
            tracing::warn!(charge = %id, "the acquirer does not know a charge that changed there");
            return Ok((None, None));
        };
        let followed = self.remote.follow(&legs, &charge, (&snapshot, None), now).await?;
        if must_close_others(&followed, &snapshot)
            && let Err(error) = legs.close(&charge, Priority::Background, now).await
        {
            tracing::warn!(charge = %id, %error, "the other methods of a paid charge are not closed yet");
        }
        let read_again_at = self.noted(&legs, followed, &snapshot, now).await?;
        let seen = Some(Seen::of(&snapshot.state)).filter(|_| !snapshot.is_partial);
        Ok((seen, read_again_at))
    }

    /// If one of the charge's acquirers did not answer, or its object can't be used, the row is due until it can be read.
    /// Returns when the charge must be read again.
    async fn noted(
        &self,
        legs: &Legs,
        followed: Followed,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> WorkResult<Option<Timestamp>> {
        let Followed { charge, read_again_at, odd } = followed;
        let id = charge.as_stored().id;
        self.set_aside(legs.own(), &odd).await?;
        let unread_since = charge.as_stored().unread_since.filter(|_| snapshot.is_partial && odd.is_empty());
        if unread_since.is_some_and(|since| now.millis_since(since) > OVERDUE_ALARM_MS) {
            tracing::error!(charge = %id, "one of a charge's acquirers has not answered for more than an hour; what the others said is recorded");
        }
        self.charges.note_read(charge, !snapshot.is_partial, now).await?;
        Ok(read_again_at)
    }

    /// Requests the return of a payment from its bank, or asks for its progress.
    pub(crate) async fn advance_return(
        &self,
        scope: &Scope,
        payment: &AcquirerPaymentId,
        refusals: u32,
    ) -> WorkResult<()> {
        let Some(incoming) = self.charges.find_payment(scope, payment).await? else {
            return Err(WorkError::Missing("a message names a payment that does not exist"));
        };
        if incoming.open_return().is_none() {
            return Ok(());
        }
        let connection =
            self.connections.at(scope.account, incoming.connection).await?.of_method(incoming.method);
        let now = self.clock.now();
        let message =
            |refusals| AcquirerMessage::Return { scope: *scope, payment: payment.clone(), refusals };
        let advanced = self.returns.advance(&connection, &incoming, now).await;
        match self.usable(&connection, advanced).await? {
            // The row stays due.
            None | Some(ReturnStep::Ended) => Ok(()),
            Some(ReturnStep::PollAgainAt(at)) => {
                self.poll_again(&message(0), at, incoming.first_due(), now).await
            }
            Some(ReturnStep::RefusedUntil(until)) => match next_refusal(refusals, until, now) {
                Some((refusals, pause)) => Ok(self.queue.send_later(&message(refusals), pause).await?),
                None => self.returns.stop(&incoming, now).await,
            },
        }
    }
}
