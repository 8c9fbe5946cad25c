//! The posting rules: which accounts each change debits and credits.

use super::LedgerAccount::{
    self, AcquirerClearing, AcquirerFees, HeldForReview, MedLosses, MerchantAvailable, MerchantPending,
    MerchantRetained, Payouts, PlatformExpense, PlatformFees, RefundsInFlight, ReturnsInFlight, SelfCustody,
    SelfCustodyClearing, SelfCustodyReceipts, UnappliedReceipts,
};
use super::{Cause, Posting, PostingKind, Transfer};
use crate::calendar::Day;
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::payment_method::PaymentMethod;
use crate::wallet::{CaseClawback, RefundShare, ReturnStatus, Settlement, TrancheShare};

fn transfer(from: LedgerAccount, to: LedgerAccount, minor: impl Into<MinorUnits>) -> Transfer {
    Transfer { from, to, minor: minor.into() }
}

/// The net to the merchant, the fees to acquirer and platform. `from` has the money: [`AcquirerClearing`] or
/// [`HeldForReview`].
fn credited(cause: Cause, from: LedgerAccount, amount: Amount, settlement: &Settlement) -> Posting {
    let fees = settlement.fees;
    let to = if settlement.release_on.is_some() { MerchantPending } else { MerchantAvailable };
    let transfers = [
        transfer(from, to, settlement.net(amount)),
        transfer(from, AcquirerFees, fees.acquirer()),
        transfer(from, PlatformFees, fees.platform()),
    ];
    Posting {
        amount: amount.into(),
        fee: fees.total(),
        release_on: settlement.release_on,
        ..Posting::new(cause, PostingKind::Settlement, &transfers)
    }
}

/// A payment to the merchant's own wallet. Nothing can be deducted from it, so the available balance pays the platform's
/// fee, and may become negative.
fn kept(cause: Cause, from: LedgerAccount, amount: Amount, settlement: &Settlement) -> Posting {
    let fee = settlement.fees.platform();
    let transfers = [transfer(from, SelfCustody, amount), transfer(MerchantAvailable, PlatformFees, fee)];
    if fee.is_zero() {
        return Posting {
            amount: amount.into(),
            ..Posting::new(cause, PostingKind::SelfCustody, &transfers)
        };
    }
    Posting { fee, ..Posting::new(cause, PostingKind::Fee, &transfers) }
}

/// Posts a new payment that settles.
pub fn settled(cause: Cause, method: PaymentMethod, amount: Amount, settlement: &Settlement) -> Posting {
    if method.is_self_custody() {
        return kept(cause, SelfCustodyClearing, amount, settlement);
    }
    credited(cause, AcquirerClearing, amount, settlement)
}

/// Posts the settlement of a payment that was held for review.
pub(crate) fn review_approved(cause: Cause, amount: Amount, settlement: &Settlement) -> Posting {
    credited(cause, HeldForReview, amount, settlement)
}

/// Posts a new payment that is held for review.
pub fn held_for_review(cause: Cause, amount: Amount) -> Posting {
    let held = transfer(AcquirerClearing, HeldForReview, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::ReviewHold, &[held]) }
}

/// [`ReturnsInFlight`] if the return must be requested, [`AcquirerClearing`] if the payer already has the
/// money.
fn returned_to(status: ReturnStatus) -> LedgerAccount {
    match status {
        ReturnStatus::Requested | ReturnStatus::Stopped => ReturnsInFlight,
        ReturnStatus::Returned => AcquirerClearing,
    }
}

/// Posts the return of a payment that was held for review.
pub(crate) fn review_returned(cause: Cause, amount: Amount, status: ReturnStatus) -> Posting {
    let back = transfer(HeldForReview, returned_to(status), amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::ReviewReturn, &[back]) }
}

/// Posts a new payment that cannot be applied, and its return. Also a refund that failed after it had succeeded: its
/// return is stopped until an operator decides.
pub fn unapplied(cause: Cause, amount: Amount, status: ReturnStatus) -> Posting {
    let transfers = [
        transfer(AcquirerClearing, UnappliedReceipts, amount),
        transfer(UnappliedReceipts, returned_to(status), amount),
    ];
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::UnappliedReceipt, &transfers) }
}

/// Posts a new payment that matches no charge.
pub fn unmatched(cause: Cause, method: PaymentMethod, amount: Amount) -> Posting {
    let received = if method.is_self_custody() {
        transfer(SelfCustodyClearing, SelfCustodyReceipts, amount)
    } else {
        transfer(AcquirerClearing, UnappliedReceipts, amount)
    };
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::UnappliedReceipt, &[received]) }
}

/// Posts the settlement of a payment that matched no charge and that an operator applied to one.
pub(crate) fn receipt_applied(
    cause: Cause,
    method: PaymentMethod,
    amount: Amount,
    settlement: &Settlement,
) -> Posting {
    if method.is_self_custody() {
        return kept(cause, SelfCustodyReceipts, amount, settlement);
    }
    credited(cause, UnappliedReceipts, amount, settlement)
}

/// Posts the request to return a payment that matched no charge.
pub(crate) fn unmatched_returned(cause: Cause, amount: Amount) -> Posting {
    let back = transfer(UnappliedReceipts, ReturnsInFlight, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::UnappliedReceipt, &[back]) }
}

/// Posts a return that the acquirer executed.
pub fn return_completed(cause: Cause, amount: Amount) -> Posting {
    let back = transfer(ReturnsInFlight, AcquirerClearing, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::ReturnCompleted, &[back]) }
}

/// Posts the release of a day's tranche: the sum that is still pending becomes available.
pub fn released(cause: Cause, day: Day, minor: MinorUnits) -> Posting {
    let release = transfer(MerchantPending, MerchantAvailable, minor);
    Posting { amount: minor, release_on: Some(day), ..Posting::new(cause, PostingKind::Release, &[release]) }
}

/// The merchant's money and the returned fees together pay the gross. A surplus of fees stays in
/// [`RefundsInFlight`]. The caller must check that the available balance covers its debit. `released` is money
/// that MED cases held and that the refund returns instead. `others`: what it takes from the pending money of other
/// charges.
pub fn refund_requested(
    cause: Cause,
    share: &RefundShare,
    (release_on, others): (Option<Day>, &[TrancheShare]),
    released: MinorUnits,
) -> Result<Posting, MoneyError> {
    let fee_bearer = if share.merchant_bears_pix_out { MerchantAvailable } else { PlatformExpense };
    let transfers = [
        transfer(MerchantRetained, MerchantAvailable, released),
        transfer(MerchantPending, RefundsInFlight, share.from_pending),
        transfer(MerchantPending, RefundsInFlight, TrancheShare::sum(others)?),
        transfer(MerchantAvailable, RefundsInFlight, share.from_available),
        transfer(AcquirerFees, RefundsInFlight, share.fees.acquirer()),
        transfer(PlatformFees, RefundsInFlight, share.fees.platform()),
        transfer(fee_bearer, AcquirerFees, share.pix_out_fee),
    ];
    Ok(Posting {
        amount: share.gross.negated(),
        fee: share.borne_pix_out_fee().checked_sub(share.fees_for_gross())?,
        release_on: release_on.filter(|_| share.from_pending.is_positive()),
        tranches: taken_from(others)?,
        ..Posting::new(cause, PostingKind::Refund, &transfers)
    })
}

fn taken_from(others: &[TrancheShare]) -> Result<Vec<TrancheShare>, MoneyError> {
    others.iter().map(|share| Ok(TrancheShare { minor: share.minor.checked_neg()?, ..*share })).collect()
}

/// A surplus of returned fees is credited only now, so that a failed refund need not debit it again.
pub(crate) fn refund_completed(cause: Cause, share: &RefundShare) -> Result<Posting, MoneyError> {
    let paid = transfer(RefundsInFlight, AcquirerClearing, share.gross);
    let credit = share.fee_surplus();
    if credit.is_positive() {
        let credited = transfer(RefundsInFlight, MerchantAvailable, credit);
        let fee = credit.checked_neg()?;
        return Ok(Posting { fee, ..Posting::new(cause, PostingKind::RefundCredit, &[paid, credited]) });
    }
    Ok(Posting {
        amount: share.gross.negated(),
        ..Posting::new(cause, PostingKind::RefundCompleted, &[paid])
    })
}

/// Reverses all sums. Pending money becomes pending again before its release day (`release_on`, or that of the other
/// tranche), else available. Then the sums that MED cases take (`clawback`) are debited.
pub fn refund_failed(
    cause: Cause,
    share: &RefundShare,
    (release_on, others): (Option<Day>, &[TrancheShare]),
    clawback: CaseClawback,
) -> Result<Posting, MoneyError> {
    let (pending, due): (Vec<TrancheShare>, Vec<TrancheShare>) =
        others.iter().copied().partition(|share| cause.at < share.day.starts_at());
    let fee_bearer = if share.merchant_bears_pix_out { MerchantAvailable } else { PlatformExpense };
    let merchant_account = if release_on.is_some() { MerchantPending } else { MerchantAvailable };
    let transfers = [
        transfer(RefundsInFlight, merchant_account, share.from_pending),
        transfer(RefundsInFlight, MerchantPending, TrancheShare::sum(&pending)?),
        transfer(RefundsInFlight, MerchantAvailable, share.from_available),
        transfer(RefundsInFlight, MerchantAvailable, TrancheShare::sum(&due)?),
        transfer(RefundsInFlight, AcquirerFees, share.fees.acquirer()),
        transfer(RefundsInFlight, PlatformFees, share.fees.platform()),
        transfer(AcquirerFees, fee_bearer, share.pix_out_fee),
        transfer(MerchantAvailable, MerchantRetained, clawback.held.checked_add(clawback.lost)?),
        transfer(MerchantRetained, MedLosses, clawback.lost),
    ];
    Ok(Posting {
        amount: MinorUnits::from(share.gross).checked_sub(clawback.lost)?,
        fee: share.fees_for_gross().checked_sub(share.borne_pix_out_fee())?,
        release_on: release_on.filter(|_| share.from_pending.is_positive()),
        tranches: pending,
        ..Posting::new(cause, PostingKind::RefundFailed, &transfers)
    })
}

/// Retains money. A case may make the available balance negative.
pub fn case_opened(cause: Cause, held: MinorUnits) -> Result<Posting, MoneyError> {
    let retained = transfer(MerchantAvailable, MerchantRetained, held);
    Ok(Posting { amount: held.checked_neg()?, ..Posting::new(cause, PostingKind::CaseOpened, &[retained]) })
}

/// Posts a MED case that ended in the merchant's favour.
pub fn case_won(cause: Cause, released: MinorUnits) -> Posting {
    let returned = transfer(MerchantRetained, MerchantAvailable, released);
    Posting { amount: released, ..Posting::new(cause, PostingKind::CaseWon, &[returned]) }
}

/// `held_now` is the part of the loss that was not retained before. The posting retains it first. If it is negative,
/// more was retained than is lost, and the rest becomes available.
pub fn case_lost(cause: Cause, held_now: MinorUnits, lost: MinorUnits) -> Result<Posting, MoneyError> {
    let transfers = [
        transfer(MerchantAvailable, MerchantRetained, held_now.max(MinorUnits::ZERO)),
        transfer(MerchantRetained, MerchantAvailable, held_now.checked_neg()?.max(MinorUnits::ZERO)),
        transfer(MerchantRetained, MedLosses, lost),
    ];
    Ok(Posting { amount: lost.checked_neg()?, ..Posting::new(cause, PostingKind::CaseLost, &transfers) })
}

/// Posts what a card scheme took after the end of a case; below zero: what it gave back.
pub(crate) fn case_loss_changed(cause: Cause, more: MinorUnits) -> Result<Posting, MoneyError> {
    if !more.is_negative() {
        return case_lost(cause, more, more);
    }
    let amount = more.checked_neg()?;
    let returned = transfer(MedLosses, MerchantAvailable, amount);
    Ok(Posting { amount, ..Posting::new(cause, PostingKind::CaseWon, &[returned]) })
}

/// Posts what an acquirer charged for disputes, or beyond the fees of settlements; below zero: what it gave back. The
/// platform bears it.
pub fn acquirer_costs(cause: Cause, of_disputes: bool, more: MinorUnits) -> Result<Posting, MoneyError> {
    let amount = more.checked_neg()?;
    let transfers = [
        transfer(PlatformExpense, AcquirerFees, more.max(MinorUnits::ZERO)),
        transfer(AcquirerFees, PlatformExpense, amount.max(MinorUnits::ZERO)),
    ];
    let kind = if of_disputes { PostingKind::DisputeFees } else { PostingKind::AcquirerCosts };
    Ok(Posting { amount, ..Posting::new(cause, kind, &transfers) })
}

/// Posts that an operator gave the merchant the money of a refund that failed after it had succeeded.
pub(crate) fn receipt_credited(cause: Cause, amount: Amount) -> Posting {
    let credited = transfer(ReturnsInFlight, MerchantAvailable, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::Adjustment, &[credited]) }
}

/// Posts that an operator left the merchant a payment that its own wallet has and no charge took.
pub(crate) fn receipt_kept(cause: Cause, amount: Amount) -> Posting {
    let kept = transfer(SelfCustodyReceipts, SelfCustody, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::SelfCustody, &[kept]) }
}

/// Posts the request of a payout. The caller must check that the available balance covers the amount.
pub fn payout_requested(cause: Cause, amount: Amount) -> Posting {
    let taken = transfer(MerchantAvailable, Payouts, amount);
    Posting { amount: amount.negated(), ..Posting::new(cause, PostingKind::Payout, &[taken]) }
}

/// Posts a payout that reached the merchant's bank.
pub fn payout_paid(cause: Cause, amount: Amount) -> Posting {
    let paid = transfer(Payouts, AcquirerClearing, amount);
    Posting { amount: amount.negated(), ..Posting::new(cause, PostingKind::PayoutPaid, &[paid]) }
}

pub fn payout_failed(cause: Cause, amount: Amount) -> Posting {
    let returned = transfer(Payouts, MerchantAvailable, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, PostingKind::PayoutFailed, &[returned]) }
}

/// Posts an operator's correction against the platform's expense account; a negative sum debits the merchant.
pub fn adjusted(cause: Cause, minor: MinorUnits) -> Result<Posting, MoneyError> {
    let moved = if minor.is_negative() {
        transfer(MerchantAvailable, PlatformExpense, minor.checked_neg()?)
    } else {
        transfer(PlatformExpense, MerchantAvailable, minor)
    };
    Ok(Posting { amount: minor, ..Posting::new(cause, PostingKind::Adjustment, &[moved]) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::terms::Fees;
    use crate::charge::testing::{at, waiting};
    use crate::ids::PostingId;
    use crate::shard::Shard;
    use crate::wallet::{RefundStrategy, Subject};

    fn cause() -> Cause {
        let charge = waiting();
        Cause {
            id: PostingId::derive(at(0), "row", 1),
            scope: charge.scope,
            shard: Shard::FIRST,
            currency: charge.currency,
            at: at(0),
            subject: Subject::default(),
        }
    }

    /// Returns a refund of 1000 that returns fees of `fees`.
    fn share(fees: i64) -> RefundShare {
        let fees = Fees::new(MinorUnits::ZERO, MinorUnits::new(fees)).unwrap();
        RefundShare {
            gross: Amount::parse(1000).unwrap(),
            strategy: RefundStrategy::Cashout,
            fees,
            from_pending: MinorUnits::ZERO,
            from_available: MinorUnits::from(Amount::parse(1000).unwrap()).checked_sub(fees.total()).unwrap(),
            pix_out_fee: MinorUnits::new(7),
            merchant_bears_pix_out: true,
        }
    }

    #[test]
    fn the_amount_and_the_fee_of_a_posting_have_the_sign_of_the_statement() {
        let (amount, minor) = (Amount::parse(1000).unwrap(), MinorUnits::new(1000));
        let returned = ReturnStatus::Requested;
        let clawback = CaseClawback { held: MinorUnits::ZERO, lost: MinorUnits::new(300) };
        for (posting, expected) in [
            (held_for_review(cause(), amount), (1000, 0)),
            (review_returned(cause(), amount, returned), (1000, 0)),
            (unapplied(cause(), amount, returned), (1000, 0)),
            (unmatched(cause(), PaymentMethod::Boleto, amount), (1000, 0)),
            (unmatched(cause(), PaymentMethod::Crypto, amount), (1000, 0)),
            (unmatched_returned(cause(), amount), (1000, 0)),
            (return_completed(cause(), amount), (1000, 0)),
            (released(cause(), Day::of(at(0)), minor), (1000, 0)),
            (refund_requested(cause(), &share(10), (None, &[]), MinorUnits::ZERO).unwrap(), (-1000, -3)),
            (refund_completed(cause(), &share(10)).unwrap(), (-1000, 0)),
            (refund_completed(cause(), &share(1010)).unwrap(), (0, -10)),
            (refund_failed(cause(), &share(10), (None, &[]), CaseClawback::default()).unwrap(), (1000, 3)),
            (refund_failed(cause(), &share(10), (None, &[]), clawback).unwrap(), (700, 3)),
            (case_opened(cause(), minor).unwrap(), (-1000, 0)),
            (case_won(cause(), minor), (1000, 0)),
            (case_lost(cause(), MinorUnits::ZERO, minor).unwrap(), (-1000, 0)),
            (acquirer_costs(cause(), true, MinorUnits::new(700)).unwrap(), (-700, 0)),
            (unapplied(cause(), amount, ReturnStatus::Stopped), (1000, 0)),
            (receipt_credited(cause(), amount), (1000, 0)),
            (payout_requested(cause(), amount), (-1000, 0)),
            (payout_paid(cause(), amount), (-1000, 0)),
            (payout_failed(cause(), amount), (1000, 0)),
            (adjusted(cause(), MinorUnits::new(-5)).unwrap(), (-5, 0)),
        ] {
            assert_eq!((posting.amount.get(), posting.fee.get()), expected, "{:?}", posting.kind);
        }
    }
}
