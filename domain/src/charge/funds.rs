//! The funds of a settled charge: how much of its amount refunds and MED cases have taken. Every change
//! replaces the charge's row conditional on its version. So two concurrent changes cannot take the same money:
//! the second is recomputed from the new row.

use serde::{Deserialize, Serialize};

use super::Charge;
use crate::account::terms::{Fees, FeesOnRefund};
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::wallet::{CaseClawback, RefundShare, RefundStrategy, Settlement};

/// The amounts that refunds and MED cases have taken from a charge, in minor units.
#[serde_with::apply(MinorUnits => #[serde(default, skip_serializing_if = "MinorUnits::is_zero")])]
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Funds {
    /// Sum of devolutions in progress.
    pub devolution_reserved: MinorUnits,
    /// Sum of cash-out refunds in progress.
    pub cashout_reserved: MinorUnits,
    /// Sum of completed devolutions.
    pub refunded_devolution: MinorUnits,
    /// Sum of completed cash-out refunds.
    pub refunded_cashout: MinorUnits,
    /// Sum of the claims of all open MED cases.
    pub med_claimed: MinorUnits,
    /// Retained for open MED cases: `med_claimed`, limited to the amount that can still be contested.
    pub med_held: MinorUnits,
    /// Sum lost to MED cases.
    pub med_lost: MinorUnits,
    /// Claimed by lost cases that could not take it, for example because a devolution in progress was returning
    /// it. If that devolution fails, the sum moves to `med_lost`.
    pub med_unmet: MinorUnits,
    /// Devoluções that this service did not request, also in the sums of devolutions. The bank has executed
    /// them whatever else was open, so all sums together may exceed the amount by it.
    pub at_bank: MinorUnits,
    /// Part of the acquirer's fee that refunds in progress and completed refunds returned.
    pub acquirer_fee_returned: MinorUnits,
    /// Part of the platform's fee that refunds in progress and completed refunds returned.
    pub platform_fee_returned: MinorUnits,
    /// Sum that refunds took from the charge's net amount while it was pending.
    pub tranche_taken: MinorUnits,
}

/// The parameters of a refund that determine the sums that it takes from a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefundParameters {
    /// Amount that the payer receives. `None`: the whole refundable amount.
    pub gross: Option<Amount>,
    pub strategy: RefundStrategy,
    pub pix_out_fee: MinorUnits,
    /// True when the merchant bears that cost (`passFeeToTenant`); otherwise the platform does.
    pub merchant_bears_pix_out: bool,
    /// True while the charge's net amount is pending, which is until its release day.
    pub is_held: bool,
}

/// Why a charge cannot be refunded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RefundRefused {
    /// No payment was credited, or refunds have already returned the whole amount.
    #[error("no payment was credited")]
    NotSettled,
    #[error("a MED case of the charge is not over")]
    Disputed,
    #[error("a MED case of the charge was lost")]
    CaseLost,
    #[error("at most {remaining} (minor units) can still be refunded")]
    ExceedsRemaining { remaining: MinorUnits },
    /// The other checks make inconsistent funds impossible, so this error indicates a defect.
    #[error(transparent)]
    Funds(#[from] FundsError),
}

/// No request can cause it. It indicates a defect, or a row that was edited by hand.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FundsError {
    /// A field would become negative, for example when a refund fails twice.
    #[error("a field of the charge's funds would become negative: {0:?}")]
    Negative(Funds),
    #[error("refunds would return more than the charge's amount: {0:?}")]
    RefundsAboveAmount(Funds),
    #[error("devolutions and MED cases would together take more than the charge's amount: {0:?}")]
    ReturnsAboveAmount(Funds),
    #[error("the lost parts of a case's claim are not less than the claim")]
    LostAboveClaim,
    #[error("cannot compute the charge's funds: {0}")]
    Money(#[from] MoneyError),
}

impl From<MoneyError> for RefundRefused {
    fn from(error: MoneyError) -> Self {
        Self::Funds(error.into())
    }
}

impl Funds {
    /// Returns true when neither refunds nor cases have taken anything.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Validates the funds of a charge of this amount: no field is negative, refunds do not exceed the amount,
    /// nor do devolutions and MED cases together. Cash-out refunds do not count there: a cash-out is a separate
    /// Pix, so the payer's bank can still contest the original payment. `at_bank` is exempt from both limits.
    pub fn checked(self, amount: Amount) -> Result<Self, FundsError> {
        let parts = [
            self.devolution_reserved,
            self.cashout_reserved,
            self.refunded_devolution,
            self.refunded_cashout,
            self.med_claimed,
            self.med_held,
            self.med_lost,
            self.med_unmet,
            self.at_bank,
            self.acquirer_fee_returned,
            self.platform_fee_returned,
            self.tranche_taken,
        ];
        if parts.iter().any(|part| part.is_negative()) {
            return Err(FundsError::Negative(self));
        }
        let limit = self.at_bank.checked_add(amount.into())?;
        if self.in_refunds()? > limit {
            return Err(FundsError::RefundsAboveAmount(self));
        }
        if MinorUnits::checked_sum([self.devolved()?, self.med_held, self.med_lost])? > limit {
            return Err(FundsError::ReturnsAboveAmount(self));
        }
        Ok(self)
    }

    fn in_refunds(&self) -> Result<MinorUnits, MoneyError> {
        self.in_progress()?.checked_add(self.refunded()?)
    }

    fn devolved(&self) -> Result<MinorUnits, MoneyError> {
        self.devolution_reserved.checked_add(self.refunded_devolution)
    }

    /// Returns how much of a charge of this amount can still be refunded; never negative.
    pub fn refundable(&self, amount: Amount) -> Result<MinorUnits, MoneyError> {
        let taken = MinorUnits::checked_sum([self.in_refunds()?, self.med_held, self.med_lost])?;
        Ok(MinorUnits::from(amount).checked_sub(taken)?.max(MinorUnits::ZERO))
    }

    /// Devolutions reduce it, because they return the contested payment. Cash-out refunds do not, because each
    /// is a separate Pix.
    fn contestable(&self, amount: Amount) -> Result<MinorUnits, MoneyError> {
        let taken = self.devolved()?.checked_add(self.med_lost)?;
        Ok(MinorUnits::from(amount).checked_sub(taken)?.max(MinorUnits::ZERO))
    }

    /// The claims of open cases, limited to the amount that can still be contested. So when a case is won,
    /// money that another open case also claims stays held, and the order in which cases end does not matter.
    fn with_held_recomputed(self, amount: Amount) -> Result<Self, MoneyError> {
        Ok(Self { med_held: self.med_claimed.min(self.contestable(amount)?), ..self })
    }

    /// Returns the sum of refunds in progress.
    pub fn in_progress(&self) -> Result<MinorUnits, MoneyError> {
        self.devolution_reserved.checked_add(self.cashout_reserved)
    }

    /// Returns the sum of completed refunds.
    pub fn refunded(&self) -> Result<MinorUnits, MoneyError> {
        self.refunded_devolution.checked_add(self.refunded_cashout)
    }

    /// Checks whether completed refunds returned the whole amount.
    pub(crate) fn is_refunded(&self, amount: Amount) -> Result<bool, MoneyError> {
        Ok(self.refunded()? >= amount.into())
    }

    /// Reserves a refund: the new funds, and the sums that it takes from each source. Fails when a case holds
    /// money of the charge, or more than the refundable amount is requested.
    pub fn reserve(
        self,
        amount: Amount,
        settlement: &Settlement,
        parameters: &RefundParameters,
    ) -> Result<(Self, RefundShare), RefundRefused> {
        if self.med_held.is_positive() {
            return Err(RefundRefused::Disputed);
        }
        let remaining = self.refundable(amount)?;
        let exceeds = RefundRefused::ExceedsRemaining { remaining };
        let all = Amount::parse(remaining).map_err(|_nothing_left| exceeds)?;
        let gross = parameters.gross.unwrap_or(all);
        if gross > all {
            return Err(exceeds);
        }
        let share = self.share_of(amount, settlement, parameters, gross)?;
        Ok((self.with_refund(&share, MinorUnits::checked_add)?.checked(amount)?, share))
    }

    /// Reserves a devolução that the bank has executed without a request. It does not depend on MED cases or
    /// other refunds: the cases hold less afterwards, and an open refund fails at the bank if nothing is left
    /// for it. The last value is the sum that the cases release.
    pub(crate) fn reserve_unconditionally(
        self,
        (amount, contested): (Amount, Amount),
        settlement: &Settlement,
        parameters: &RefundParameters,
    ) -> Result<(Self, RefundShare, MinorUnits), RefundRefused> {
        let gross = parameters.gross.unwrap_or(amount);
        let share = self.share_of(amount, settlement, parameters, gross)?;
        let next = self.with_refund(&share, MinorUnits::checked_add)?;
        let next = Self { at_bank: next.at_bank.checked_add(gross.into())?, ..next };
        let next = next.with_held_recomputed(contested)?.checked(contested)?;
        let released = self.med_held.checked_sub(next.med_held)?;
        Ok((next, share, released))
    }

    fn share_of(
        &self,
        amount: Amount,
        settlement: &Settlement,
        parameters: &RefundParameters,
        gross: Amount,
    ) -> Result<RefundShare, MoneyError> {
        let fees = self.fees_for(amount, settlement, gross)?;
        let from_merchant = fees.net_of(gross).max(MinorUnits::ZERO);
        let tranche = if parameters.is_held {
            settlement.net(amount).checked_sub(self.tranche_taken)?
        } else {
            MinorUnits::ZERO
        };
        let from_pending = from_merchant.min(tranche.max(MinorUnits::ZERO));
        Ok(RefundShare {
            gross,
            strategy: parameters.strategy,
            fees,
            from_pending,
            from_available: from_merchant.checked_sub(from_pending)?,
            pix_out_fee: parameters.pix_out_fee,
            merchant_bears_pix_out: parameters.merchant_bears_pix_out,
        })
    }

    /// The fees that all refunds so far return together are rounded once, so the total does not depend on how
    /// the amount is split. The refund that completes the charge's amount returns all remaining fees, which can
    /// exceed its gross when earlier refunds failed.
    fn fees_for(&self, amount: Amount, settlement: &Settlement, gross: Amount) -> Result<Fees, MoneyError> {
        let paid = settlement.fees;
        let returned = Fees::new(self.acquirer_fee_returned, self.platform_fee_returned)?;
        let acquirer_left = paid.acquirer().checked_sub(returned.acquirer())?.max(MinorUnits::ZERO);
        let platform_left = paid.platform().checked_sub(returned.platform())?.max(MinorUnits::ZERO);
        let left = Fees::new(acquirer_left, platform_left)?;
        let refunded = self.in_refunds()?.checked_add(gross.into())?;
        match settlement.fees_on_refund {
            FeesOnRefund::Keep => Ok(Fees::default()),
            FeesOnRefund::Return if refunded >= amount.into() => Ok(left),
            FeesOnRefund::Return => {
                let due = |fee, returned| proportion(fee, refunded, amount)?.checked_sub(returned);
                let total = due(paid.total(), returned.total())?;
                let total = total.min(left.total()).clamp(MinorUnits::ZERO, gross.into());
                let acquirer_due = due(paid.acquirer(), returned.acquirer())?;
                // Each part must be at least 0 and at most the rest of its fee.
                let least = total.checked_sub(platform_left)?.max(MinorUnits::ZERO);
                let acquirer = acquirer_due.min(acquirer_left).min(total).max(least);
                Fees::new(acquirer, total.checked_sub(acquirer)?)
            }
        }
    }

    /// Adds a refund in progress, or removes it: `operation` is [`MinorUnits::checked_add`] or
    /// [`MinorUnits::checked_sub`].
    fn with_refund(
        self,
        share: &RefundShare,
        operation: fn(MinorUnits, MinorUnits) -> Result<MinorUnits, MoneyError>,
    ) -> Result<Self, MoneyError> {
        let gross = share.gross.into();
        let (devolution, cashout) = match share.strategy {
            RefundStrategy::Devolution => (gross, MinorUnits::ZERO),
            RefundStrategy::Cashout => (MinorUnits::ZERO, gross),
        };
        Ok(Self {
            devolution_reserved: operation(self.devolution_reserved, devolution)?,
            cashout_reserved: operation(self.cashout_reserved, cashout)?,
            acquirer_fee_returned: operation(self.acquirer_fee_returned, share.fees.acquirer())?,
            platform_fee_returned: operation(self.platform_fee_returned, share.fees.platform())?,
            tranche_taken: operation(self.tranche_taken, share.from_pending)?,
            ..self
        })
    }

    /// Completes a refund in progress. Fails when no refund with that share is in progress.
    pub fn completed(self, amount: Amount, share: &RefundShare) -> Result<Self, FundsError> {
        let gross = share.gross.into();
        let next = match share.strategy {
            RefundStrategy::Devolution => Self {
                devolution_reserved: self.devolution_reserved.checked_sub(gross)?,
                refunded_devolution: self.refunded_devolution.checked_add(gross)?,
                ..self
            },
            RefundStrategy::Cashout => Self {
                cashout_reserved: self.cashout_reserved.checked_sub(gross)?,
                refunded_cashout: self.refunded_cashout.checked_add(gross)?,
                ..self
            },
        };
        next.checked(amount)
    }

    /// Removes from `at_bank` a devolução that the bank did not execute after all.
    pub(crate) fn without_bank_return(self, share: &RefundShare) -> Result<Self, MoneyError> {
        let at_bank = self.at_bank.checked_sub(share.gross.into())?.max(MinorUnits::ZERO);
        Ok(Self { at_bank, ..self })
    }

    /// Removes a failed refund, as if it had never been requested. MED cases that could not take the money then
    /// take it, up to their claims: [`CaseClawback`]. Fails when no refund with that share is in progress.
    pub fn failed(self, amount: Amount, share: &RefundShare) -> Result<(Self, CaseClawback), FundsError> {
        let back = self.with_refund(share, MinorUnits::checked_sub)?;
        let lost = back.med_unmet.min(back.contestable(amount)?);
        let next = Self {
            med_unmet: back.med_unmet.checked_sub(lost)?,
            med_lost: back.med_lost.checked_add(lost)?,
            ..back
        };
        let next = next.with_held_recomputed(amount)?.checked(amount)?;
        Ok((next, CaseClawback { held: next.med_held.checked_sub(self.med_held)?, lost }))
    }

    /// Returns the claims of all open cases except one for `claimed`.
    fn claims_without(self, claimed: Amount) -> Result<MinorUnits, MoneyError> {
        Ok(self.med_claimed.checked_sub(claimed.into())?.max(MinorUnits::ZERO))
    }

    /// Opens a case. Returns the increase of the held sum, which is less than the claim if other cases already
    /// hold part of the money, or part of it can no longer be contested.
    pub fn case_opened(self, amount: Amount, claimed: Amount) -> Result<(Self, MinorUnits), FundsError> {
        let med_claimed = self.med_claimed.checked_add(claimed.into())?;
        let next = Self { med_claimed, ..self }.with_held_recomputed(amount)?.checked(amount)?;
        Ok((next, next.med_held.checked_sub(self.med_held)?))
    }

    /// Ends a case in the merchant's favour. Returns the released sum: the held money that no other open case
    /// claims.
    pub fn case_won(self, amount: Amount, claimed: Amount) -> Result<(Self, MinorUnits), FundsError> {
        let next = Self { med_claimed: self.claims_without(claimed)?, ..self }
            .with_held_recomputed(amount)?
            .checked(amount)?;
        Ok((next, self.med_held.checked_sub(next.med_held)?))
    }

    /// Ends a case as lost, or takes a part of its claim while it remains open. Returns the lost sum, which is
    /// taken from the money held for all cases. `taken`: what a card scheme has taken, if it is known.
    pub fn case_lost(
        self,
        amount: Amount,
        claimed: Amount,
        taken: Option<MinorUnits>,
    ) -> Result<(Self, MinorUnits), FundsError> {
        let lost = taken.unwrap_or(self.med_held.min(claimed.into()));
        let unmet = MinorUnits::from(claimed).checked_sub(lost)?;
        let next = Self {
            med_claimed: self.claims_without(claimed)?,
            med_lost: self.med_lost.checked_add(lost)?,
            med_unmet: self.med_unmet.checked_add(if taken.is_none() { unmet } else { MinorUnits::ZERO })?,
            ..self
        };
        Ok((next.with_held_recomputed(amount)?.checked(amount)?, lost))
    }

    /// Changes the lost sum after a case's end: a card scheme took more, or gave some back.
    pub(crate) fn loss_changed(self, amount: Amount, by: MinorUnits) -> Result<Self, FundsError> {
        Self { med_lost: self.med_lost.checked_add(by)?, ..self }.checked(amount)
    }
}

/// Computes `floor(fee · refunded / amount)`.
fn proportion(fee: MinorUnits, refunded: MinorUnits, amount: Amount) -> Result<MinorUnits, MoneyError> {
    let product = i128::from(fee).checked_mul(refunded.into());
    let share = product.and_then(|product| product.checked_div(amount.minor().into()));
    let share = share.and_then(|share| i64::try_from(share).ok());
    share.map(MinorUnits::new).ok_or(MoneyError::Overflow)
}

impl Charge {
    /// Reserves a refund on the charge.
    pub(crate) fn reserve_refund(
        &self,
        parameters: &RefundParameters,
    ) -> Result<(Funds, RefundShare), RefundRefused> {
        let settlement = self.settlement.as_ref().ok_or(RefundRefused::NotSettled)?;
        self.funds.reserve(self.amount, settlement, parameters)
    }

    /// What cases can contest. A card scheme takes all that it claims: refunded money, and more than the charge's
    /// amount. MED takes at most what devoluções have left of that.
    pub(crate) fn contested(&self) -> Amount {
        if self.method() == PaymentMethod::Pix { self.amount } else { Amount::MAX }
    }
}
