//! Wallets: a merchant's balances, backed by a double-entry ledger (`docs/architecture.md`, The ledger).
//!
//! Every change that moves money writes a [`Posting`] in its transaction, with the counters that balances are
//! read from. So a crash loses nothing, and a repeated notification posts nothing, because the rows that its
//! transaction would insert already exist. [`rules`] defines which accounts each change debits and credits.

mod balance;
mod movement;
mod posting;
pub mod rules;
#[cfg(test)]
mod tests;

pub use balance::{Release, Totals, Wallet, add_to_counter};
pub use movement::{CaseClawback, RefundShare, RefundStrategy, ReturnStatus, Settlement, TrancheShare};
pub use posting::{Cause, Posting, PostingKind, Subject, Transfer};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::money::Currency;
#[cfg(doc)]
use crate::payment_method::PaymentMethod;

/// The currency of a wallet's top-level fields.
pub const PRIMARY_CURRENCY: Currency = Currency::BRL;

/// The accounts of a scope's ledger in one currency. A balance is credits minus debits. A negative balance of
/// [`LedgerAccount::AcquirerClearing`] is the sum that acquirers hold for the service.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, Ord, PartialEq, PartialOrd, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LedgerAccount {
    /// Money that the merchant can spend. Only a case, a refund that was made at the acquirer, and the fee of a payment to
    /// the merchant's own wallet can make it negative.
    MerchantAvailable,
    /// The merchant's settled money before its release day.
    MerchantPending,
    /// The merchant's money that is retained while a MED case is open.
    MerchantRetained,
    /// Clearing account with the acquirers: debited for incoming money, credited for outgoing money.
    AcquirerClearing,
    /// Payments that are held for a manual review.
    HeldForReview,
    /// Payments that could not be applied to their charge.
    UnappliedReceipts,
    /// Payments that were not credited and are being returned to their payers.
    ReturnsInFlight,
    /// Money of refunds in progress.
    RefundsInFlight,
    /// Fees that the platform earned.
    PlatformFees,
    /// Fees that acquirers earned.
    AcquirerFees,
    /// Costs that the platform bore.
    PlatformExpense,
    /// Money that merchants lost to MED cases.
    MedLosses,
    /// Payouts in progress to merchants' banks.
    Payouts,
    /// Payments that came to the merchant's own wallet: [`PaymentMethod::is_self_custody`].
    SelfCustody,
    /// Payments that came there and could not be applied to their charge.
    SelfCustodyReceipts,
    /// What came there: debited for incoming money.
    SelfCustodyClearing,
}

crate::named!(LedgerAccount);

impl LedgerAccount {
    /// Whether it counts what payers sent to the merchant's own wallet.
    pub(crate) fn is_self_custody(self) -> bool {
        matches!(self, Self::SelfCustody | Self::SelfCustodyReceipts | Self::SelfCustodyClearing)
    }

    /// Checks whether the account is part of the merchant's wallet.
    pub(crate) fn is_wallet(self) -> bool {
        match self {
            Self::MerchantAvailable | Self::MerchantPending | Self::MerchantRetained => true,
            Self::AcquirerClearing
            | Self::HeldForReview
            | Self::UnappliedReceipts
            | Self::ReturnsInFlight
            | Self::RefundsInFlight
            | Self::PlatformFees
            | Self::AcquirerFees
            | Self::PlatformExpense
            | Self::MedLosses
            | Self::Payouts
            | Self::SelfCustody
            | Self::SelfCustodyReceipts
            | Self::SelfCustodyClearing => false,
        }
    }
}
