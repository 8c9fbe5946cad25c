//! Cancels a charge. A live charge is closed at its acquirer first, so that a cancelled charge can't be paid. If
//! the process dies after that, the repeated request finds the charge closed.

use std::time::Duration;

use domain::charge::transition::Rejection;
use domain::charge::{Charge, StoredCharge};
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;

use crate::RemoteCharges;
use acquirer_core::{AcquirerError, Connections, Legs, within};
use money::charge::{ChargeError, Charges};
use shared::auth::Caller;
use shared::http::{Problem, Result};

/// With all attempts.
const CLOSE_TIME: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub struct ChargeCancellation<'a> {
    pub charges: &'a Charges,
    pub connections: &'a Connections,
    pub remote: &'a RemoteCharges,
}

pub async fn cancel_charge(
    cancellation: ChargeCancellation<'_>,
    stored: StoredCharge,
    caller: &Caller,
    now: Timestamp,
) -> Result<Charge> {
    let charge = stored.clone().read_at(now);
    if !charge.acquirer.is_remote() || !charge.is_open() {
        return Ok(cancellation.charges.cancel(stored, caller, now).await?);
    }
    let legs = cancellation.connections.of_charge(&charge).await?;
    Box::pin(cancellation.cancel_remotely(&legs, stored, caller, now)).await
}

impl ChargeCancellation<'_> {
    async fn cancel_remotely(
        &self,
        legs: &Legs,
        stored: StoredCharge,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Charge> {
        let charge = stored.clone().read_at(now);
        if charge.is_leased(now) {
            return Err(AcquirerError::Busy.into());
        }
        let closed = within(CLOSE_TIME, legs.cancel(&charge, now)).await.map_err(AcquirerError::from)?;
        // A charge that was never finalised may be unknown there.
        let Some(snapshot) = closed else { return Ok(self.charges.cancel(stored, caller, now).await?) };
        let seen = (&snapshot, None);
        let followed = Box::pin(self.remote.follow(legs, &charge, seen, now)).await;
        // The payment is recorded by its notification or by the next sweep, so a retry may succeed.
        let followed = followed.map_err(|error| Problem::Unavailable(error.to_string()))?;
        if snapshot.is_partial && followed.charge.as_stored().is_open() {
            return Err(AcquirerError::unavailable("one of its acquirers did not answer").into());
        }
        // If the acquirer ended the charge, a payment is in progress there, or the fee of its payment is not known yet, the
        // cancellation is refused here. A charge that a payment settled refuses it itself.
        let rejection = match snapshot.state {
            RemoteState::InProgress => Some(being_paid(&charge, &snapshot)),
            _ if followed.read_again_at.is_some() => Some(being_paid(&charge, &snapshot)),
            RemoteState::ClosedByAcquirer(_) => Some(Rejection::NotCancellable),
            _ => None,
        };
        if let Some(rejection) = rejection {
            let status = followed.charge.read_at(now).status;
            return Err(ChargeError::Rejected { rejection, status }.into());
        }
        Ok(self.charges.cancel(followed.charge, caller, now).await?)
    }
}

/// A voucher is confirmed days after its payment, and can't be refunded.
fn being_paid(charge: &Charge, snapshot: &Snapshot) -> Rejection {
    let paid = snapshot.payments.iter().map(|remote| remote.payment.method);
    let ends_at = |method: PaymentMethod| charge.artefacts.ends_at(method).filter(|_| method.is_voucher());
    let ends: Option<Vec<_>> = snapshot.methods_in_progress(charge).chain(paid).map(ends_at).collect();
    let until = ends.and_then(|ends| ends.into_iter().max());
    until.map_or(Rejection::BeingPaid, |until| Rejection::AwaitsConfirmation { until })
}
