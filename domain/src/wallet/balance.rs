//! A wallet as its counters add up.

use std::collections::BTreeMap;

use super::{LedgerAccount, Posting};
use crate::calendar::Day;
use crate::money::{Currency, MoneyError};
use crate::time::Timestamp;

/// What came into an account and what went out of it, in minor units; both only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// What came in.
    pub credits: i64,
    /// What went out.
    pub debits: i64,
}

impl Totals {
    /// The difference.
    pub fn balance(self) -> i64 {
        self.credits.saturating_sub(self.debits)
    }
}

/// What is held until a day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Release {
    /// The day.
    pub day: Day,
    /// Minor units, above zero.
    pub minor: i64,
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
    held: BTreeMap<Day, i64>,
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

    /// Credits less debits of an account, in minor units.
    pub fn balance(&self, account: LedgerAccount) -> i64 {
        self.totals(account).balance()
    }

    /// What can be spent; below zero after a MED case.
    pub fn available(&self) -> i64 {
        self.balance(LedgerAccount::MerchantAvailable)
    }

    /// What is settled and still held.
    pub fn pending(&self) -> i64 {
        self.balance(LedgerAccount::MerchantPending)
    }

    /// What MED cases retain.
    pub fn retained(&self) -> i64 {
        self.balance(LedgerAccount::MerchantRetained)
    }

    /// What is available and what is pending.
    pub fn total(&self) -> i64 {
        self.available().saturating_add(self.pending())
    }

    /// What is held, the next release first.
    pub fn releases(&self) -> impl Iterator<Item = Release> {
        self.held
            .iter()
            .filter(|(_, minor)| **minor > 0)
            .map(|(day, minor)| Release { day: *day, minor: *minor })
    }

    /// What is held until a day.
    pub fn held_until(&self, day: Day) -> i64 {
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
            self.add_held(day, posting.change(LedgerAccount::MerchantPending))?;
        }
        Ok(())
    }

    /// Counts what came into an account.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_credits(&mut self, account: LedgerAccount, by: i64) -> Result<(), MoneyError> {
        grow(&mut self.totals.entry(account).or_default().credits, by)
    }

    /// Counts what went out of an account.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_debits(&mut self, account: LedgerAccount, by: i64) -> Result<(), MoneyError> {
        grow(&mut self.totals.entry(account).or_default().debits, by)
    }

    /// Counts what is held until a day, or is not any more.
    ///
    /// # Errors
    ///
    /// When the counter would not fit 64 bits.
    pub fn add_held(&mut self, day: Day, by: i64) -> Result<(), MoneyError> {
        grow(self.held.entry(day).or_default(), by)
    }
}

/// Adds to a counter.
///
/// # Errors
///
/// When it would not fit 64 bits.
pub fn grow(counter: &mut i64, by: i64) -> Result<(), MoneyError> {
    let grown = counter.checked_add(by);
    *counter = grown.ok_or(MoneyError::Overflow)?;
    Ok(())
}
