//! Cancels a charge. A live charge is removed at its bank first, so that a cancelled charge can't be paid. If
//! the process dies after that, the repeated request finds the charge removed.

use std::time::Duration;

use api_pix::Priority;

use domain::acquirer::AcquirerName;
use domain::charge::transition::Rejection;
use domain::charge::{Charge, StoredCharge};
use domain::time::Timestamp;

use crate::WorkError;
use crate::acquirer::{Acquirer, AcquirerError, Acquirers, PixBank, Removal, within};
use crate::auth::Caller;
use crate::charge::{ChargeError, Charges};
use crate::services::BankPayments;

/// With all attempts.
const REMOVE_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    #[error(transparent)]
    Charge(#[from] ChargeError),
    #[error(transparent)]
    Acquirer(#[from] AcquirerError),
    #[error(transparent)]
    Payment(#[from] WorkError),
}

#[derive(Clone, Copy, Debug)]
pub struct ChargeCancellation<'a> {
    pub charges: &'a Charges,
    pub acquirers: &'a Acquirers,
    /// `None` in a function that calls no bank.
    pub payments: Option<&'a BankPayments>,
}

pub async fn cancel_charge(
    cancellation: ChargeCancellation<'_>,
    stored: StoredCharge,
    caller: &Caller,
    now: Timestamp,
) -> Result<Charge, CancelError> {
    let charge = stored.clone().read_at(now);
    if charge.acquirer == AcquirerName::Sandbox || !charge.is_open() {
        return Ok(cancellation.charges.cancel(stored, caller, now).await?);
    }
    match cancellation.acquirers.of_charge(&charge).await? {
        Acquirer::Sandbox => Ok(cancellation.charges.cancel(stored, caller, now).await?),
        Acquirer::Pix(bank) => Box::pin(cancellation.cancel_at_bank(&bank, stored, caller, now)).await,
    }
}

impl ChargeCancellation<'_> {
    async fn cancel_at_bank(
        &self,
        bank: &PixBank,
        stored: StoredCharge,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Charge, CancelError> {
        let charge = stored.clone().read_at(now);
        if charge.is_leased(now) {
            return Err(AcquirerError::Busy.into());
        }
        let stored = match within(REMOVE_TIME, bank.remove(&charge, Priority::Create)).await? {
            // A charge that was never finalised may be unknown to its bank.
            Removal::Removed | Removal::Unknown => stored,
            Removal::RemovedByBank => {
                let failed = self.charges.apply(stored, &PixBank::removed_by_bank(), now).await?;
                let rejection = Rejection::NotCancellable;
                return Err(ChargeError::Rejected { rejection, status: failed.status }.into());
            }
            Removal::Paid(paid) => {
                let missing = || AcquirerError::Unavailable("this function records no payments".to_owned());
                let payments = self.payments.ok_or_else(missing)?;
                for pix in &paid {
                    payments.record(bank, pix, Some(charge.id), now).await?;
                }
                // If the payment settled the charge, the cancellation is refused now.
                self.charges.get_existing(charge.id).await.map_err(ChargeError::from)?
            }
        };
        Ok(self.charges.cancel(stored, caller, now).await?)
    }
}
