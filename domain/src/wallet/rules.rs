//! Which accounts each change moves money between. Each function gives the whole posting of one change.

use super::LedgerAccount::{
    self, AcquirerClearing, AcquirerFees, HeldForReview, MedLosses, MerchantAvailable, MerchantPending,
    MerchantRetained, Payouts, PlatformExpense, PlatformFees, RefundsInFlight, ReturnsInFlight,
    UnappliedReceipts,
};
use super::{Cause, Kind, Posting, Transfer};
use crate::calendar::Day;
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::wallet::{RefundShare, Retaken, ReturnStatus, Settlement};

fn transfer(from: LedgerAccount, to: LedgerAccount, minor: impl Into<MinorUnits>) -> Transfer {
    Transfer { from, to, minor: minor.into() }
}

/// A payment is credited: the net to the merchant, the fees to whom they are due. `from` is where the money is:
/// with the acquirer, or held for review.
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
        ..Posting::new(cause, Kind::Settlement, &transfers)
    }
}

/// A payment came and is credited.
pub fn settled(cause: Cause, amount: Amount, settlement: &Settlement) -> Posting {
    credited(cause, AcquirerClearing, amount, settlement)
}

/// A payment that was held for review is credited.
pub fn review_approved(cause: Cause, amount: Amount, settlement: &Settlement) -> Posting {
    credited(cause, HeldForReview, amount, settlement)
}

/// A payment came and waits for a person's decision.
pub fn held_for_review(cause: Cause, amount: Amount) -> Posting {
    let held = transfer(AcquirerClearing, HeldForReview, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, Kind::ReviewHold, &[held]) }
}

/// Where returned money is: on its way, or back with its payer.
fn returned_to(status: ReturnStatus) -> LedgerAccount {
    match status {
        ReturnStatus::Requested => ReturnsInFlight,
        ReturnStatus::Returned => AcquirerClearing,
    }
}

/// A payment that was held for review goes back.
pub fn review_returned(cause: Cause, amount: Amount, status: ReturnStatus) -> Posting {
    let back = transfer(HeldForReview, returned_to(status), amount);
    Posting { amount: amount.into(), ..Posting::new(cause, Kind::ReviewReturn, &[back]) }
}

/// A payment came that can't be applied, and goes back.
pub fn unapplied(cause: Cause, amount: Amount, status: ReturnStatus) -> Posting {
    let transfers = [
        transfer(AcquirerClearing, UnappliedReceipts, amount),
        transfer(UnappliedReceipts, returned_to(status), amount),
    ];
    Posting { amount: amount.into(), ..Posting::new(cause, Kind::UnappliedReceipt, &transfers) }
}

/// A tranche's day has come: what is left of it can be spent.
pub fn released(cause: Cause, day: Day, minor: MinorUnits) -> Posting {
    let release = transfer(MerchantPending, MerchantAvailable, minor);
    Posting { amount: minor, release_on: Some(day), ..Posting::new(cause, Kind::Release, &[release]) }
}

/// A refund is asked for: the merchant's part and the fees that come back make up what goes to the payer, and a credit that
/// waits with it. The debit of what is available must be covered.
pub fn refund_requested(
    cause: Cause,
    share: &RefundShare,
    release_on: Option<Day>,
) -> Result<Posting, MoneyError> {
    let fee_bearer = if share.merchant_bears_pix_out { MerchantAvailable } else { PlatformExpense };
    let transfers = [
        transfer(MerchantPending, RefundsInFlight, share.from_pending),
        transfer(MerchantAvailable, RefundsInFlight, share.from_available),
        transfer(AcquirerFees, RefundsInFlight, share.fees.acquirer()),
        transfer(PlatformFees, RefundsInFlight, share.fees.platform()),
        transfer(fee_bearer, AcquirerFees, share.pix_out_fee),
    ];
    Ok(Posting {
        amount: share.gross.negated(),
        fee: share.borne_pix_out_fee().checked_sub(share.fees_for_gross())?,
        release_on: release_on.filter(|_| share.from_pending.is_positive()),
        ..Posting::new(cause, Kind::Refund, &transfers)
    })
}

/// A refund reached the payer. Its credit becomes the merchant's only now, so that a refund that fails takes none back.
pub fn refund_completed(cause: Cause, share: &RefundShare) -> Result<Posting, MoneyError> {
    let paid = transfer(RefundsInFlight, AcquirerClearing, share.gross);
    let credit = share.credit();
    if credit.is_positive() {
        let credited = transfer(RefundsInFlight, MerchantAvailable, credit);
        let fee = credit.checked_neg()?;
        return Ok(Posting { fee, ..Posting::new(cause, Kind::RefundCredit, &[paid, credited]) });
    }
    Ok(Posting { amount: share.gross.negated(), ..Posting::new(cause, Kind::RefundCompleted, &[paid]) })
}

/// A refund did not reach the payer: all that it took is given back. What came from a tranche goes back to it while it
/// is held (`release_on`), else to what is available. What cases take of it is debited as by a case.
pub fn refund_failed(
    cause: Cause,
    share: &RefundShare,
    release_on: Option<Day>,
    retaken: Retaken,
) -> Result<Posting, MoneyError> {
    let fee_bearer = if share.merchant_bears_pix_out { MerchantAvailable } else { PlatformExpense };
    let held = if release_on.is_some() { MerchantPending } else { MerchantAvailable };
    let transfers = [
        transfer(RefundsInFlight, held, share.from_pending),
        transfer(RefundsInFlight, MerchantAvailable, share.from_available),
        transfer(RefundsInFlight, AcquirerFees, share.fees.acquirer()),
        transfer(RefundsInFlight, PlatformFees, share.fees.platform()),
        transfer(AcquirerFees, fee_bearer, share.pix_out_fee),
        transfer(MerchantAvailable, MerchantRetained, retaken.held.checked_add(retaken.lost)?),
        transfer(MerchantRetained, MedLosses, retaken.lost),
    ];
    Ok(Posting {
        amount: MinorUnits::from(share.gross).checked_sub(retaken.lost)?,
        fee: share.fees_for_gross().checked_sub(share.borne_pix_out_fee())?,
        release_on: release_on.filter(|_| share.from_pending.is_positive()),
        ..Posting::new(cause, Kind::RefundFailed, &transfers)
    })
}

/// A MED case retains money. Only what a case takes may take what is available below zero.
pub fn case_opened(cause: Cause, held: MinorUnits) -> Result<Posting, MoneyError> {
    let retained = transfer(MerchantAvailable, MerchantRetained, held);
    Ok(Posting { amount: held.checked_neg()?, ..Posting::new(cause, Kind::CaseOpened, &[retained]) })
}

/// A MED case ended in the merchant's favour.
pub fn case_won(cause: Cause, released: MinorUnits) -> Posting {
    let given_back = transfer(MerchantRetained, MerchantAvailable, released);
    Posting { amount: released, ..Posting::new(cause, Kind::CaseWon, &[given_back]) }
}

/// A MED case was lost. Where nothing was retained for it, what it takes is retained in the same posting.
pub fn case_lost(cause: Cause, held_now: MinorUnits, lost: MinorUnits) -> Result<Posting, MoneyError> {
    let transfers = [
        transfer(MerchantAvailable, MerchantRetained, held_now),
        transfer(MerchantRetained, MedLosses, lost),
    ];
    Ok(Posting { amount: lost.checked_neg()?, ..Posting::new(cause, Kind::CaseLost, &transfers) })
}

/// A payout is asked for. Its debit must be covered.
pub fn payout_requested(cause: Cause, amount: Amount) -> Posting {
    let taken = transfer(MerchantAvailable, Payouts, amount);
    Posting { amount: amount.negated(), ..Posting::new(cause, Kind::Payout, &[taken]) }
}

/// A payout reached the merchant's bank.
pub fn payout_paid(cause: Cause, amount: Amount) -> Posting {
    let paid = transfer(Payouts, AcquirerClearing, amount);
    Posting { amount: amount.negated(), ..Posting::new(cause, Kind::PayoutPaid, &[paid]) }
}

/// A payout did not reach it.
pub fn payout_failed(cause: Cause, amount: Amount) -> Posting {
    let given_back = transfer(Payouts, MerchantAvailable, amount);
    Posting { amount: amount.into(), ..Posting::new(cause, Kind::PayoutFailed, &[given_back]) }
}

/// An operator's correction, at the platform's expense: above zero the merchant gets it, below zero it is taken.
pub fn adjusted(cause: Cause, minor: MinorUnits) -> Result<Posting, MoneyError> {
    let moved = if minor.is_negative() {
        transfer(MerchantAvailable, PlatformExpense, minor.checked_neg()?)
    } else {
        transfer(PlatformExpense, MerchantAvailable, minor)
    };
    Ok(Posting { amount: minor, ..Posting::new(cause, Kind::Adjustment, &[moved]) })
}
