//! Wallets: what a merchant has, kept by a double-entry ledger (design: Money).
//!
//! Whatever changes money posts: a [`Posting`] is written in the same transaction as the change that causes it, and
//! with it the counters that balances are read from. [`rules`] says which accounts a change moves money between. Balances
//! can be rebuilt from the postings.
//!
//! A crash loses nothing, for a change and its posting are one write; a repeated notice posts nothing, for the rows that
//! are inserted with it exist.

mod balance;
mod movement;
mod posting;
pub mod rules;
#[cfg(test)]
mod tests;

pub use balance::{Release, Totals, Wallet, grow};
pub use movement::{RefundShare, RefundStrategy, Retaken, ReturnStatus, Settlement};
pub use posting::{Cause, Kind, Posting, Subject, Transfer};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::money::Currency;

/// The currency that a wallet's top-level fields are in (contract: Wallet balance).
pub const PRIMARY_CURRENCY: Currency = Currency::BRL;

/// The accounts of a scope's ledger in one currency (design: Money). A balance is credits less debits: below zero in
/// [`LedgerAccount::AcquirerClearing`] is what acquirers hold for us.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, Ord, PartialEq, PartialOrd, Serialize, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LedgerAccount {
    /// What the merchant can spend. Only a MED case takes it below zero.
    MerchantAvailable,
    /// The merchant's, settled and still held.
    MerchantPending,
    /// The merchant's, retained while a MED case is open.
    MerchantRetained,
    /// What acquirers owe: money that came in less money that went out.
    AcquirerClearing,
    /// Paid, and waiting for a person's decision.
    HeldForReview,
    /// Paid, and not applicable to its charge.
    UnappliedReceipts,
    /// On its way back to payers whose payment was not credited.
    ReturnsInFlight,
    /// On its way back to payers by refunds.
    RefundsInFlight,
    /// What the platform earned.
    PlatformFees,
    /// What acquirers earned.
    AcquirerFees,
    /// What the platform bore.
    PlatformExpense,
    /// What merchants lost to MED cases.
    MedLosses,
    /// On its way to merchants.
    Payouts,
}

impl LedgerAccount {
    /// Its name in rows and on an operator's screen.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether it is a part of the merchant's wallet.
    pub fn is_wallet(self) -> bool {
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
            | Self::Payouts => false,
        }
    }
}
