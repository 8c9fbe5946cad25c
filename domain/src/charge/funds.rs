//! What became of a settled charge's money: how much of it refunds and MED cases took (design: Money). No I/O.
//!
//! Every such change replaces the charge's row on condition of the version that was read, so that two can't take the
//! same money: the second is worked out anew on what the first left.

use serde::{Deserialize, Serialize};

use super::Charge;
use crate::account::terms::{Fees, FeesOnRefund};
use crate::money::{self, Amount};
use crate::wallet::{RefundShare, RefundStrategy, Retaken, Settlement};

/// What refunds and cases took of a charge, in minor units before fees.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Funds {
    /// In refunds under way, by devolution.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub devolution_reserved: i64,
    /// In refunds under way, by cash-out.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub cashout_reserved: i64,
    /// Refunded, by devolution.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub refunded_devolution: i64,
    /// Refunded, by cash-out.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub refunded_cashout: i64,
    /// Claimed by open MED cases, together.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub med_claimed: i64,
    /// Retained for them: what they claim, at most what is within their reach.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub med_held: i64,
    /// Lost to MED cases.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub med_lost: i64,
    /// Claimed by cases that were lost, and not got, for a refund was giving it back.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub med_unmet: i64,
    /// The acquirer's fee that went back with refunds, under way and done.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub acquirer_fee_returned: i64,
    /// The platform's fee that did.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub platform_fee_returned: i64,
    /// What refunds took of the charge's own tranche.
    #[serde(default, skip_serializing_if = "money::is_zero")]
    pub tranche_taken: i64,
}

/// What is asked of a charge's money.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefundAsked {
    /// What goes to the payer; `None`: all that is left.
    pub gross: Option<Amount>,
    /// How it travels.
    pub strategy: RefundStrategy,
    /// The cost of the Pix out.
    pub pix_out_fee: i64,
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
        remaining: i64,
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
    #[error("a sum of a charge's funds is out of range")]
    Overflow,
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
        if parts.iter().any(|part| *part < 0) {
            return Err(FundsError::Negative(self));
        }
        let devolutions = add(self.devolution_reserved, self.refunded_devolution)?;
        if add(devolutions, add(self.cashout_reserved, self.refunded_cashout)?)? > amount.minor() {
            return Err(FundsError::RefundsAboveAmount(self));
        }
        if add(devolutions, add(self.med_held, self.med_lost)?)? > amount.minor() {
            return Err(FundsError::ReturnsAboveAmount(self));
        }
        Ok(self)
    }

    /// In refunds, done and under way.
    fn in_refunds(&self) -> i64 {
        [self.devolution_reserved, self.cashout_reserved, self.refunded()]
            .into_iter()
            .fold(0, i64::saturating_add)
    }

    /// What a refund may still take of a charge of this amount.
    pub fn refundable(&self, amount: Amount) -> i64 {
        let contested = self.med_held.saturating_add(self.med_lost);
        amount.minor().saturating_sub(self.in_refunds()).saturating_sub(contested).max(0)
    }

    /// What open cases may hold together: a devolution gives the contested payment back, a cash-out is another Pix.
    fn within_reach(&self, amount: Amount) -> i64 {
        let devolved = self.devolution_reserved.saturating_add(self.refunded_devolution);
        amount.minor().saturating_sub(devolved).saturating_sub(self.med_lost).max(0)
    }

    /// Holds what open cases claim, as far as it is within their reach.
    fn holding(self, amount: Amount) -> Self {
        Self { med_held: self.med_claimed.min(self.within_reach(amount)), ..self }
    }

    /// What refunds under way will give back.
    pub fn in_progress(&self) -> i64 {
        self.devolution_reserved.saturating_add(self.cashout_reserved)
    }

    /// What refunds that are done gave back.
    pub fn refunded(&self) -> i64 {
        self.refunded_devolution.saturating_add(self.refunded_cashout)
    }

    /// Whether they gave all of it back.
    pub fn is_refunded(&self, amount: Amount) -> bool {
        self.refunded() >= amount.minor()
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
        if self.med_held > 0 {
            return Err(RefundRefused::Disputed);
        }
        let remaining = self.refundable(amount);
        let exceeds = RefundRefused::ExceedsRemaining { remaining };
        let all = Amount::parse(remaining).map_err(|_nothing_left| exceeds)?;
        let gross = asked.gross.unwrap_or(all);
        if gross > all {
            return Err(exceeds);
        }
        let fees = self.fees_for(amount, settlement, gross);
        let merchants = gross.minor().saturating_sub(fees.total()).max(0);
        let tranche =
            if asked.is_held { settlement.net(amount).saturating_sub(self.tranche_taken) } else { 0 };
        let from_pending = merchants.min(tranche.max(0));
        let share = RefundShare {
            gross,
            strategy: asked.strategy,
            fees,
            from_pending,
            from_available: merchants.saturating_sub(from_pending),
            pix_out_fee: asked.pix_out_fee,
            merchant_bears_pix_out: asked.merchant_bears_pix_out,
        };
        Ok((self.with(&share, 1)?.checked(amount)?, share))
    }

    /// The fees that a refund of `gross` returns. Their sum is rounded once, on all that was refunded so far, so that
    /// however a charge is refunded in parts, its refunds cost together what one costs. The refund that completes the
    /// amount returns all that is left of the fees, which is more than its gross where refunds before it failed.
    fn fees_for(&self, amount: Amount, settlement: &Settlement, gross: Amount) -> Fees {
        let (paid, returned) = (settlement.fees, self.fees_returned());
        let left = Fees {
            acquirer: paid.acquirer.saturating_sub(returned.acquirer).max(0),
            platform: paid.platform.saturating_sub(returned.platform).max(0),
        };
        let refunded = self.in_refunds().saturating_add(gross.minor());
        match settlement.fees_on_refund {
            FeesOnRefund::Keep => Fees::default(),
            FeesOnRefund::Return if refunded >= amount.minor() => left,
            FeesOnRefund::Return => {
                let total = proportion(paid.total(), refunded, amount).saturating_sub(returned.total());
                let total = total.min(left.total()).clamp(0, gross.minor());
                let own = proportion(paid.acquirer, refunded, amount).saturating_sub(returned.acquirer);
                // Neither part is negative nor above what is left of its fee.
                let least = total.saturating_sub(left.platform).max(0);
                let acquirer = own.min(left.acquirer).min(total).max(least);
                Fees { acquirer, platform: total.saturating_sub(acquirer) }
            }
        }
    }

    /// The fees that refunds returned, under way and done.
    fn fees_returned(&self) -> Fees {
        Fees { acquirer: self.acquirer_fee_returned, platform: self.platform_fee_returned }
    }

    /// A refund under way, added (`1`) or given back (`-1`).
    fn with(self, share: &RefundShare, sign: i64) -> Result<Self, FundsError> {
        let moved = |part: i64, minor: i64| {
            minor.checked_mul(sign).and_then(|minor| part.checked_add(minor)).ok_or(FundsError::Overflow)
        };
        let gross = share.gross.minor();
        let (devolution, cashout) = match share.strategy {
            RefundStrategy::Devolution => (gross, 0),
            RefundStrategy::Cashout => (0, gross),
        };
        Ok(Self {
            devolution_reserved: moved(self.devolution_reserved, devolution)?,
            cashout_reserved: moved(self.cashout_reserved, cashout)?,
            acquirer_fee_returned: moved(self.acquirer_fee_returned, share.fees.acquirer)?,
            platform_fee_returned: moved(self.platform_fee_returned, share.fees.platform)?,
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
        let gross = share.gross.minor();
        let next = match share.strategy {
            RefundStrategy::Devolution => Self {
                devolution_reserved: sub(self.devolution_reserved, gross)?,
                refunded_devolution: add(self.refunded_devolution, gross)?,
                ..self
            },
            RefundStrategy::Cashout => Self {
                cashout_reserved: sub(self.cashout_reserved, gross)?,
                refunded_cashout: add(self.refunded_cashout, gross)?,
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
        let back = self.with_claims().with(share, -1)?;
        let lost = back.med_unmet.min(back.within_reach(amount));
        let next =
            Self { med_unmet: sub(back.med_unmet, lost)?, med_lost: add(back.med_lost, lost)?, ..back };
        let next = next.holding(amount).checked(amount)?;
        Ok((next, Retaken { held: sub(next.med_held, self.med_held)?, lost }))
    }

    /// Rows of a version that kept no claims have at least one for what they retain.
    fn with_claims(self) -> Self {
        Self { med_claimed: self.med_claimed.max(self.med_held), ..self }
    }

    /// What the other open cases claim.
    fn claimed_but(self, claimed: Amount) -> i64 {
        self.with_claims().med_claimed.saturating_sub(claimed.minor()).max(0)
    }

    /// A case for `claimed` opens: what is retained for it, at most what no other case retains.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_opened(self, amount: Amount, claimed: Amount) -> Result<(Self, i64), FundsError> {
        let before = self.with_claims();
        let med_claimed = add(before.med_claimed, claimed.minor())?;
        let next = Self { med_claimed, ..before }.holding(amount).checked(amount)?;
        Ok((next, sub(next.med_held, self.med_held)?))
    }

    /// A case for `claimed` is won: what is given back, which is what no other case claims.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_won(self, amount: Amount, claimed: Amount) -> Result<(Self, i64), FundsError> {
        let next = Self { med_claimed: self.claimed_but(claimed), ..self }.holding(amount).checked(amount)?;
        Ok((next, sub(self.med_held, next.med_held)?))
    }

    /// A case for `claimed` is lost: what is gone. It is taken of what is retained for all, and no less is left for the
    /// others than they may hold.
    ///
    /// # Errors
    ///
    /// See [`FundsError`].
    pub fn case_lost(self, amount: Amount, claimed: Amount) -> Result<(Self, i64), FundsError> {
        let lost = claimed.minor().min(self.med_held);
        let next = Self {
            med_claimed: self.claimed_but(claimed),
            med_lost: add(self.med_lost, lost)?,
            med_unmet: sub(add(self.med_unmet, claimed.minor())?, lost)?,
            ..self
        };
        Ok((next.holding(amount).checked(amount)?, lost))
    }
}

fn add(left: i64, right: i64) -> Result<i64, FundsError> {
    left.checked_add(right).ok_or(FundsError::Overflow)
}

fn sub(left: i64, right: i64) -> Result<i64, FundsError> {
    left.checked_sub(right).ok_or(FundsError::Overflow)
}

/// `floor(fee · refunded / amount)`.
fn proportion(fee: i64, refunded: i64, amount: Amount) -> i64 {
    let share = i128::from(fee).saturating_mul(i128::from(refunded));
    let share = share.checked_div(i128::from(amount.minor())).unwrap_or_default();
    i64::try_from(share).unwrap_or_default()
}

impl Charge {
    /// Takes a refund out of the charge.
    pub fn reserve_refund(&self, asked: &RefundAsked) -> Result<(Funds, RefundShare), RefundRefused> {
        let settlement = self.settlement.as_ref().ok_or(RefundRefused::NotSettled)?;
        self.funds.reserve(self.amount, settlement, asked)
    }
}
