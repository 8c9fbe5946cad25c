//! What became of a settled charge's money: how much of it refunds and MED cases took (design: Money). No I/O.
//!
//! Every such change replaces the charge's row on condition of the version that was read, so that two can't take the
//! same money: the second is worked out anew on what the first left.

use serde::{Deserialize, Serialize};

use super::Charge;
use crate::account::terms::{Fees, FeesOnRefund};
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::wallet::{RefundShare, RefundStrategy, Retaken, Settlement};

/// What refunds and cases took of a charge, before fees.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Funds {
    /// In refunds under way, by devolution.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub devolution_reserved: MinorUnits,
    /// In refunds under way, by cash-out.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub cashout_reserved: MinorUnits,
    /// Refunded, by devolution.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub refunded_devolution: MinorUnits,
    /// Refunded, by cash-out.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub refunded_cashout: MinorUnits,
    /// Claimed by open MED cases, together.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub med_claimed: MinorUnits,
    /// Retained for them: what they claim, at most what is within their reach.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub med_held: MinorUnits,
    /// Lost to MED cases.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub med_lost: MinorUnits,
    /// Claimed by cases that were lost, and not got, for a refund was giving it back.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub med_unmet: MinorUnits,
    /// The acquirer's fee that went back with refunds, under way and done.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub acquirer_fee_returned: MinorUnits,
    /// The platform's fee that did.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub platform_fee_returned: MinorUnits,
    /// What refunds took of the charge's own tranche.
    #[serde(default, skip_serializing_if = "MinorUnits::is_zero")]
    pub tranche_taken: MinorUnits,
}

/// What is asked of a charge's money.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefundAsked {
    /// What goes to the payer; `None`: all that is left.
    pub gross: Option<Amount>,
    /// How it travels.
    pub strategy: RefundStrategy,
    /// The cost of the Pix out.
    pub pix_out_fee: MinorUnits,
    /// Whether the merchant bears it.
    pub merchant_bears_pix_out: bool,
    /// Whether the charge's tranche is still held.
    pub is_held: bool,
}

/// Why a refund can't be taken from a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RefundRefused {
    /// Nothing was credited.
    #[error("nothing was credited")]
    NotSettled,
    /// A MED case is not over.
    #[error("a MED case is not over")]
    Disputed,
    /// One that took money of it was lost.
    #[error("a MED case was lost")]
    CaseLost,
    /// More than is left.
    #[error("only {remaining} is left to refund")]
    ExceedsRemaining {
        /// What is left.
        remaining: MinorUnits,
    },
    /// The charge's funds do not allow it: a defect, for the rules above come first.
    #[error(transparent)]
    Funds(#[from] FundsError),
}

/// A move that a charge's funds do not allow. No route asks for one: it is a defect, or a row that was changed by hand.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FundsError {
    /// A part would fall below zero, such as by a refund that fails twice.
    #[error("a part of a charge's funds would fall below zero: {0:?}")]
    Negative(Funds),
    /// Refunds would give back more than the charge's amount.
    #[error("refunds would take more than the charge's amount: {0:?}")]
    RefundsAboveAmount(Funds),
    /// Devolutions and MED cases would give back more than the charge's amount.
    #[error("devolutions and MED cases would take more than the charge's amount: {0:?}")]
    ReturnsAboveAmount(Funds),
    /// A sum does not fit 64 bits.
    #[error("a charge's funds: {0}")]
    Money(#[from] MoneyError),
}

impl From<MoneyError> for RefundRefused {
    fn from(error: MoneyError) -> Self {
        Self::Funds(error.into())
    }
}

impl Funds {
    /// Whether nothing took any of it.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// These funds, if they can be those of a charge of this amount: no part is below zero, refunds do not exceed the
    /// amount, and neither do devolutions and MED cases together. A cash-out does not count among the latter: it is a Pix of
    /// its own, so the payer's bank can still contest the payment that it gave back.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
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
            self.acquirer_fee_returned,
            self.platform_fee_returned,
            self.tranche_taken,
        ];
        if parts.iter().any(|part| part.is_negative()) {
            return Err(FundsError::Negative(self));
        }
        if self.in_refunds()? > amount.into() {
            return Err(FundsError::RefundsAboveAmount(self));
        }
        if MinorUnits::checked_sum([self.devolved()?, self.med_held, self.med_lost])? > amount.into() {
            return Err(FundsError::ReturnsAboveAmount(self));
        }
        Ok(self)
    }

    /// In refunds, done and under way.
    fn in_refunds(&self) -> Result<MinorUnits, MoneyError> {
        self.in_progress()?.checked_add(self.refunded()?)
    }

    /// In devolutions, done and under way.
    fn devolved(&self) -> Result<MinorUnits, MoneyError> {
        self.devolution_reserved.checked_add(self.refunded_devolution)
    }

    /// What a refund may still take of a charge of this amount.
    pub fn refundable(&self, amount: Amount) -> Result<MinorUnits, MoneyError> {
        let taken = MinorUnits::checked_sum([self.in_refunds()?, self.med_held, self.med_lost])?;
        Ok(MinorUnits::from(amount).checked_sub(taken)?.max(MinorUnits::ZERO))
    }

    /// What open cases may hold together: a devolution gives the contested payment back, a cash-out is another Pix.
    fn within_reach(&self, amount: Amount) -> Result<MinorUnits, MoneyError> {
        let taken = self.devolved()?.checked_add(self.med_lost)?;
        Ok(MinorUnits::from(amount).checked_sub(taken)?.max(MinorUnits::ZERO))
    }

    /// Holds what open cases claim, as far as it is within their reach.
    fn holding(self, amount: Amount) -> Result<Self, MoneyError> {
        Ok(Self { med_held: self.med_claimed.min(self.within_reach(amount)?), ..self })
    }

    /// What refunds under way will give back.
    pub fn in_progress(&self) -> Result<MinorUnits, MoneyError> {
        self.devolution_reserved.checked_add(self.cashout_reserved)
    }

    /// What refunds that are done gave back.
    pub fn refunded(&self) -> Result<MinorUnits, MoneyError> {
        self.refunded_devolution.checked_add(self.refunded_cashout)
    }

    /// Whether they gave all of it back.
    pub fn is_refunded(&self, amount: Amount) -> Result<bool, MoneyError> {
        Ok(self.refunded()? >= amount.into())
    }

    /// Takes a refund out of a settled charge.
    ///
    /// # Errors
    ///
    /// When a case retains money, or more is asked than is left.
    pub fn reserve(
        self,
        amount: Amount,
        settlement: &Settlement,
        asked: &RefundAsked,
    ) -> Result<(Self, RefundShare), RefundRefused> {
        if self.med_held.is_positive() {
            return Err(RefundRefused::Disputed);
        }
        let remaining = self.refundable(amount)?;
        let exceeds = RefundRefused::ExceedsRemaining { remaining };
        let all = Amount::parse(remaining).map_err(|_nothing_left| exceeds)?;
        let gross = asked.gross.unwrap_or(all);
        if gross > all {
            return Err(exceeds);
        }
        let fees = self.fees_for(amount, settlement, gross)?;
        let merchants = fees.net_of(gross).max(MinorUnits::ZERO);
        let tranche = if asked.is_held {
            settlement.net(amount).checked_sub(self.tranche_taken)?
        } else {
            MinorUnits::ZERO
        };
        let from_pending = merchants.min(tranche.max(MinorUnits::ZERO));
        let share = RefundShare {
            gross,
            strategy: asked.strategy,
            fees,
            from_pending,
            from_available: merchants.checked_sub(from_pending)?,
            pix_out_fee: asked.pix_out_fee,
            merchant_bears_pix_out: asked.merchant_bears_pix_out,
        };
        Ok((self.with(&share, MinorUnits::checked_add)?.checked(amount)?, share))
    }

    /// The fees that a refund of `gross` returns. Their sum is rounded once, on all that was refunded so far, so that
    /// however a charge is refunded in parts, its refunds cost together what one costs. The refund that completes the
    /// amount returns all that is left of the fees, which is more than its gross where refunds before it failed.
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
                let own = due(paid.acquirer(), returned.acquirer())?;
                // Neither part is negative nor above what is left of its fee.
                let least = total.checked_sub(platform_left)?.max(MinorUnits::ZERO);
                let acquirer = own.min(acquirer_left).min(total).max(least);
                Fees::new(acquirer, total.checked_sub(acquirer)?)
            }
        }
    }

    /// A refund under way, added ([`MinorUnits::checked_add`]) or given back ([`MinorUnits::checked_sub`]).
    fn with(
        self,
        share: &RefundShare,
        moved: fn(MinorUnits, MinorUnits) -> Result<MinorUnits, MoneyError>,
    ) -> Result<Self, MoneyError> {
        let gross = share.gross.into();
        let (devolution, cashout) = match share.strategy {
            RefundStrategy::Devolution => (gross, MinorUnits::ZERO),
            RefundStrategy::Cashout => (MinorUnits::ZERO, gross),
        };
        Ok(Self {
            devolution_reserved: moved(self.devolution_reserved, devolution)?,
            cashout_reserved: moved(self.cashout_reserved, cashout)?,
            acquirer_fee_returned: moved(self.acquirer_fee_returned, share.fees.acquirer())?,
            platform_fee_returned: moved(self.platform_fee_returned, share.fees.platform())?,
            tranche_taken: moved(self.tranche_taken, share.from_pending)?,
            ..self
        })
    }

    /// A refund under way reached the payer.
    ///
    /// # Errors
    ///
    /// When no refund of that share is under way.
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

    /// A refund under way did not reach the payer: as if it had not been asked for. Cases that would have had its money
    /// take it.
    ///
    /// # Errors
    ///
    /// When no refund of that share is under way.
    pub fn failed(self, amount: Amount, share: &RefundShare) -> Result<(Self, Retaken), FundsError> {
        let back = self.with_claims().with(share, MinorUnits::checked_sub)?;
        let lost = back.med_unmet.min(back.within_reach(amount)?);
        let next = Self {
            med_unmet: back.med_unmet.checked_sub(lost)?,
            med_lost: back.med_lost.checked_add(lost)?,
            ..back
        };
        let next = next.holding(amount)?.checked(amount)?;
        Ok((next, Retaken { held: next.med_held.checked_sub(self.med_held)?, lost }))
    }

    /// Rows of a version that kept no claims have at least one for what they retain.
    fn with_claims(self) -> Self {
        Self { med_claimed: self.med_claimed.max(self.med_held), ..self }
    }

    /// What the other open cases claim.
    fn claimed_but(self, claimed: Amount) -> Result<MinorUnits, MoneyError> {
        Ok(self.with_claims().med_claimed.checked_sub(claimed.into())?.max(MinorUnits::ZERO))
    }

    /// A case for `claimed` opens: what is retained for it, at most what no other case retains.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_opened(self, amount: Amount, claimed: Amount) -> Result<(Self, MinorUnits), FundsError> {
        let before = self.with_claims();
        let med_claimed = before.med_claimed.checked_add(claimed.into())?;
        let next = Self { med_claimed, ..before }.holding(amount)?.checked(amount)?;
        Ok((next, next.med_held.checked_sub(self.med_held)?))
    }

    /// A case for `claimed` is won: what is given back, which is what no other case claims.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_won(self, amount: Amount, claimed: Amount) -> Result<(Self, MinorUnits), FundsError> {
        let next =
            Self { med_claimed: self.claimed_but(claimed)?, ..self }.holding(amount)?.checked(amount)?;
        Ok((next, self.med_held.checked_sub(next.med_held)?))
    }

    /// A case for `claimed` is lost: what is gone. It is taken of what is retained for all, and no less is left for the
    /// others than they may hold.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_lost(self, amount: Amount, claimed: Amount) -> Result<(Self, MinorUnits), FundsError> {
        let lost = self.med_held.min(claimed.into());
        let next = Self {
            med_claimed: self.claimed_but(claimed)?,
            med_lost: self.med_lost.checked_add(lost)?,
            med_unmet: self.med_unmet.checked_add(claimed.into())?.checked_sub(lost)?,
            ..self
        };
        Ok((next.holding(amount)?.checked(amount)?, lost))
    }
}

/// `floor(fee · refunded / amount)`.
fn proportion(fee: MinorUnits, refunded: MinorUnits, amount: Amount) -> Result<MinorUnits, MoneyError> {
    let product = i128::from(fee).checked_mul(refunded.into());
    let share = product.and_then(|product| product.checked_div(amount.minor().into()));
    let share = share.and_then(|share| i64::try_from(share).ok());
    share.map(MinorUnits::new).ok_or(MoneyError::Overflow)
}

impl Charge {
    /// Takes a refund out of the charge.
    pub fn reserve_refund(&self, asked: &RefundAsked) -> Result<(Funds, RefundShare), RefundRefused> {
        let settlement = self.settlement.as_ref().ok_or(RefundRefused::NotSettled)?;
        self.funds.reserve(self.amount, settlement, asked)
    }
}
