//! A wallet as its counters add up.

use std::collections::BTreeMap;

use super::{LedgerAccount, Posting};
use crate::calendar::Day;
use crate::money::{Currency, MinorUnits, MoneyError};
use crate::time::Timestamp;

/// What came into an account and what went out of it; both only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// What came in.
    pub credits: MinorUnits,
    /// What went out.
    pub debits: MinorUnits,
}

impl Totals {
    /// The difference.
    pub fn balance(self) -> Result<MinorUnits, MoneyError> {
        self.credits.checked_sub(self.debits)
    }
}

/// What is held until a day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Release {
    /// The day.
    pub day: Day,
    /// How much; above zero.
    pub minor: MinorUnits,
}

impl Release {
    /// When it is released.
    pub fn at(&self) -> Timestamp {
        self.day.starts_at()
    }
}

/// A scope's ledger in one currency, with what of it is held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wallet {
    /// The currency.
    pub currency: Currency,
    totals: BTreeMap<LedgerAccount, Totals>,
    held: BTreeMap<Day, MinorUnits>,
}

impl Wallet {
    /// One in which nothing has moved.
    pub fn empty(currency: Currency) -> Self {
        Self { currency, totals: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// What an account's counters say.
    pub fn totals(&self, account: LedgerAccount) -> Totals {
        self.totals.get(&account).copied().unwrap_or_default()
    }

    /// Credits less debits of an account.
    pub fn balance(&self, account: LedgerAccount) -> Result<MinorUnits, MoneyError> {
        self.totals(account).balance()
    }

    /// What can be spent; below zero after a MED case.
    pub fn available(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantAvailable)
    }

    /// What is settled and still held.
    pub fn pending(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantPending)
    }

    /// What MED cases retain.
    pub fn retained(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantRetained)
    }

    /// What is available and what is pending.
    pub fn total(&self) -> Result<MinorUnits, MoneyError> {
        self.available()?.checked_add(self.pending()?)
    }

    /// What is held, the next release first.
    pub fn releases(&self) -> impl Iterator<Item = Release> {
        self.held
            .iter()
            .filter(|(_, minor)| minor.is_positive())
            .map(|(day, minor)| Release { day: *day, minor: *minor })
    }

    /// What is held until a day.
    pub fn held_until(&self, day: Day) -> MinorUnits {
        self.held.get(&day).copied().unwrap_or_default()
    }

    /// Counts a posting, as its transaction does.
    ///
    /// # Errors
    ///
    /// When a counter would not fit 64 bits.
    pub fn post(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        for transfer in &posting.transfers {
            self.add_credits(transfer.to, transfer.minor)?;
            self.add_debits(transfer.from, transfer.minor)?;
        }
        if let Some(day) = posting.release_on {
            self.add_held(day, posting.change(LedgerAccount::MerchantPending)?)?;
        }
        Ok(())
    }

    /// Counts what came into an account.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_credits(&mut self, account: LedgerAccount, by: MinorUnits) -> Result<(), MoneyError> {
        grow(&mut self.totals.entry(account).or_default().credits, by)
    }

    /// Counts what went out of an account.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_debits(&mut self, account: LedgerAccount, by: MinorUnits) -> Result<(), MoneyError> {
        grow(&mut self.totals.entry(account).or_default().debits, by)
    }

    /// Counts what is held until a day, or is not any more.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_held(&mut self, day: Day, by: MinorUnits) -> Result<(), MoneyError> {
        grow(self.held.entry(day).or_default(), by)
    }
}

/// Adds to a counter.
///
/// # Errors
///
/// When it would not fit 64 bits.
pub fn grow(counter: &mut MinorUnits, by: MinorUnits) -> Result<(), MoneyError> {
    *counter = counter.checked_add(by)?;
    Ok(())
}
