//! A wallet computed from its counters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{LedgerAccount, Posting};
use crate::calendar::Day;
use crate::money::{Currency, MinorUnits, MoneyError};
use crate::time::Timestamp;

/// Credits and debits of an account. Both only grow.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Totals {
    pub credits: MinorUnits,
    pub debits: MinorUnits,
}

impl Totals {
    /// Returns credits minus debits.
    pub fn balance(self) -> Result<MinorUnits, MoneyError> {
        self.credits.checked_sub(self.debits)
    }
}

/// A tranche: the pending money that is released on one day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Release {
    /// The day on which the tranche is released.
    pub day: Day,
    /// Pending sum in minor units; above zero.
    pub minor: MinorUnits,
}

impl Release {
    /// Returns the time of the release: the start of the day.
    pub fn at(&self) -> Timestamp {
        self.day.starts_at()
    }
}

/// A scope's ledger in one currency, with its tranches.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wallet {
    pub currency: Currency,
    totals: BTreeMap<LedgerAccount, Totals>,
    held: BTreeMap<Day, MinorUnits>,
}

impl Wallet {
    pub fn empty(currency: Currency) -> Self {
        Self { currency, totals: BTreeMap::new(), held: BTreeMap::new() }
    }

    pub fn totals(&self, account: LedgerAccount) -> Totals {
        self.totals.get(&account).copied().unwrap_or_default()
    }

    pub fn balance(&self, account: LedgerAccount) -> Result<MinorUnits, MoneyError> {
        self.totals(account).balance()
    }

    /// Returns the available balance; it can be negative: [`LedgerAccount::MerchantAvailable`].
    pub fn available(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantAvailable)
    }

    /// Returns the pending balance: settled money before its release day.
    pub fn pending(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantPending)
    }

    /// Returns the balance that MED cases retain.
    pub fn retained(&self) -> Result<MinorUnits, MoneyError> {
        self.balance(LedgerAccount::MerchantRetained)
    }

    /// What payers sent to the merchant's own wallet. `None`: nothing.
    pub fn self_custody(&self) -> Result<Option<MinorUnits>, MoneyError> {
        let arrived = self.totals(LedgerAccount::SelfCustodyClearing).debits;
        Ok(Some(arrived).filter(|arrived| arrived.is_positive()))
    }

    /// Whether money moved that the service has, or had.
    pub fn is_operational(&self) -> bool {
        let is_moved = |totals: &Totals| *totals != Totals::default();
        self.totals.iter().any(|(account, totals)| !account.is_self_custody() && is_moved(totals))
    }

    /// Returns the sum of the available and the pending balance.
    pub fn total(&self) -> Result<MinorUnits, MoneyError> {
        self.available()?.checked_add(self.pending()?)
    }

    /// Iterates over the tranches with pending money, the next release first.
    pub fn releases(&self) -> impl Iterator<Item = Release> {
        self.held
            .iter()
            .filter(|(_, minor)| minor.is_positive())
            .map(|(day, minor)| Release { day: *day, minor: *minor })
    }

    /// Returns the pending sum that is released on a day.
    pub fn held_until(&self, day: Day) -> MinorUnits {
        self.held.get(&day).copied().unwrap_or_default()
    }

    /// Leaves out the tranches that hold nothing.
    #[must_use]
    pub fn without_released(&self) -> Self {
        let held = self.held.iter().filter(|(_, minor)| **minor != MinorUnits::ZERO);
        Self { held: held.map(|(day, minor)| (*day, *minor)).collect(), ..self.clone() }
    }

    /// Applies a posting as its transaction does in the table. Fails when a counter would not fit 64 bits.
    pub fn post(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        for transfer in &posting.transfers {
            self.add_credits(transfer.to, transfer.minor)?;
            self.add_debits(transfer.from, transfer.minor)?;
        }
        if let Some(day) = posting.release_on {
            self.add_held(day, posting.change_of_tranche()?)?;
        }
        for tranche in &posting.tranches {
            self.add_held(tranche.day, tranche.minor)?;
        }
        Ok(())
    }

    /// Fails when the counter would not fit 64 bits.
    pub fn add_credits(&mut self, account: LedgerAccount, by: MinorUnits) -> Result<(), MoneyError> {
        add_to_counter(&mut self.totals.entry(account).or_default().credits, by)
    }

    /// Fails when the counter would not fit 64 bits.
    pub fn add_debits(&mut self, account: LedgerAccount, by: MinorUnits) -> Result<(), MoneyError> {
        add_to_counter(&mut self.totals.entry(account).or_default().debits, by)
    }

    /// `by` is negative for a release. Fails when the counter would not fit 64 bits.
    pub fn add_held(&mut self, day: Day, by: MinorUnits) -> Result<(), MoneyError> {
        add_to_counter(self.held.entry(day).or_default(), by)
    }
}

/// Fails when the counter would not fit 64 bits.
pub fn add_to_counter(counter: &mut MinorUnits, by: MinorUnits) -> Result<(), MoneyError> {
    *counter = counter.checked_add(by)?;
    Ok(())
}
