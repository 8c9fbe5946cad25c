//! The counters that balances are computed from. Each ledger account has a counter of credits and a counter of
//! debits, and its balance is credits minus debits. Both only grow. A write adds to them and does not read them
//! first.
//!
//! A scope's counters form one partition for each shard, `wallet#<scope>` and `wallet#<scope>#<shard>`. One
//! query of each reads all of them, at a cost that does not grow with the number of payments:
//!
//! | sort key | counters |
//! | --- | --- |
//! | `BRL#debits` | all credits and debits of the postings that debit the available balance; only in the first
//! shard |
//! | `BRL#shard#0` … `7` | all credits and debits of the other postings; a posting's id selects its shard |
//! | `BRL#release#20778` | the tranche held until a day (days since 1970-01-01); the release deletes the row |
//!
//! All debits of the available balance are in one row, so that a write can be conditional on their sum. A
//! checked debit is written only if `debits <= credits − amount`, where `credits` was read before. Credits only
//! grow, so a stale value makes the condition stricter and the balance cannot fall below zero.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::Scope;
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::row::Key;
use domain::shard::Shard;
use domain::wallet::{LedgerAccount, Posting, TrancheShare, add_to_counter};

use shared::store::{RowUpdate, StoreError, Write, due_attributes, number};

/// Postings are spread over several rows, because concurrent transactions on one row conflict.
const CREDIT_ROWS: u8 = 8;

/// The money that a tranche still holds, in minor units.
pub const HELD: &str = "held";
const CREDITS_SORT: &str = "shard#";
const DEBITS_SORT: &str = "debits";
const RELEASE_SORT: &str = "release#";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DebitCheck {
    /// The posting does not debit the available balance, or may take it below zero.
    Unchecked,
    /// The debits of the available balance, this one included, must not exceed these credits, which were read
    /// before and may be stale.
    Credits(MinorUnits),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CounterRow {
    Totals,
    Release(Day),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tranche {
    pub scope: Scope,
    pub shard: Shard,
    pub currency: Currency,
    pub day: Day,
}

impl Tranche {
    pub fn key(&self) -> Key {
        row(&self.scope, self.shard, self.currency, &format!("{RELEASE_SORT}{}", self.day.sortable_number()))
    }

    pub fn at(key: &Key) -> Option<Self> {
        match parse(key)? {
            (scope, shard, currency, CounterRow::Release(day)) => Some(Self { scope, shard, currency, day }),
            (_, _, _, CounterRow::Totals) => None,
        }
    }
}

pub fn partition(scope: &Scope, shard: Shard) -> String {
    shard.partition(format!("{PARTITION}{scope}"))
}

const PARTITION: &str = "wallet#";

pub(crate) fn currency_prefix(currency: Currency) -> String {
    format!("{currency}#")
}

pub(crate) fn release_prefix(currency: Currency) -> String {
    format!("{}{RELEASE_SORT}", currency_prefix(currency))
}

pub fn credits(account: LedgerAccount) -> String {
    format!("cr_{}", account.as_str())
}

pub fn debits(account: LedgerAccount) -> String {
    format!("dr_{}", account.as_str())
}

fn row(scope: &Scope, shard: Shard, currency: Currency, name: &str) -> Key {
    Key { pk: partition(scope, shard), sk: format!("{}{name}", currency_prefix(currency)) }
}

/// `None` for any other row.
pub fn parse(key: &Key) -> Option<(Scope, Shard, Currency, CounterRow)> {
    let (whole, shard) = Shard::split(&key.pk);
    let scope = whole.strip_prefix(PARTITION)?.parse().ok()?;
    let (currency, name) = key.sk.split_once('#')?;
    let currency = Currency::parse(currency).ok()?;
    let row = match name.strip_prefix(RELEASE_SORT) {
        Some(day) => CounterRow::Release(Day::from_sortable_number(day)?),
        None if name == DEBITS_SORT || name.starts_with(CREDITS_SORT) => CounterRow::Totals,
        None => return None,
    };
    Some((scope, shard, currency, row))
}

/// A posting that debits the available balance goes to the scope's row of debits. Any other goes to a row of
/// credits in its shard, which its id selects.
pub(super) fn counter_writes(posting: &Posting, check: DebitCheck) -> Result<Vec<Write>, StoreError> {
    let mut counters: BTreeMap<String, MinorUnits> = BTreeMap::new();
    for transfer in &posting.transfers {
        add_to_counter(counters.entry(credits(transfer.to)).or_default(), transfer.minor)?;
        add_to_counter(counters.entry(debits(transfer.from)).or_default(), transfer.minor)?;
    }
    if counters.is_empty() {
        return Ok(Vec::new());
    }
    let debit = debit_of(posting)?;
    let (shard, name) = if debit.is_positive() {
        (Shard::FIRST, DEBITS_SORT.to_owned())
    } else {
        let row = posting.id.shard_byte().checked_rem(CREDIT_ROWS).unwrap_or_default();
        (posting.shard, format!("{CREDITS_SORT}{row}"))
    };
    let key = row(&posting.scope, shard, posting.currency, &name);
    let mut update = RowUpdate::of(key).add_all(counters.into_iter().map(|(name, by)| (name, by.get())));
    if let Some(most) = most_debits(check, debit)? {
        update = update.when_absent_or(&debits(LedgerAccount::MerchantAvailable), "<=", number(most.get()));
    }
    Ok(vec![Write::update(update)])
}

fn debit_of(posting: &Posting) -> Result<MinorUnits, StoreError> {
    let mut debit = MinorUnits::ZERO;
    for transfer in posting.transfers.iter().filter(|one| one.from == LedgerAccount::MerchantAvailable) {
        add_to_counter(&mut debit, transfer.minor)?;
    }
    Ok(debit)
}

/// Returns the most debits of the available balance before a posting that makes a debit. `None`: it is not checked.
fn most_debits(check: DebitCheck, debit: MinorUnits) -> Result<Option<MinorUnits>, StoreError> {
    Ok(match check {
        DebitCheck::Credits(read) if debit.is_positive() => Some(read.checked_sub(debit)?),
        DebitCheck::Credits(_) | DebitCheck::Unchecked => None,
    })
}

/// The posting's row, its tranche and its counters, for the transaction of the change that causes the posting.
/// The checked debit, if there is one, is the last write: its index shows whether this condition made the
/// transaction fail ([`Wallets::plan_debit`](super::Wallets::plan_debit)).
pub fn posting_writes(posting: &Posting, check: DebitCheck) -> Result<Vec<Write>, StoreError> {
    let mut rows = vec![Write::insert(posting)?];
    let mut tranches: BTreeMap<(Day, Shard), MinorUnits> = BTreeMap::new();
    if let Some(day) = posting.release_on {
        tranches.insert((day, posting.shard), posting.change_of_tranche()?);
    }
    // A transaction can write each row once.
    for TrancheShare { shard, day, minor } in &posting.tranches {
        add_to_counter(tranches.entry((*day, *shard)).or_default(), *minor)?;
    }
    for ((day, shard), by) in tranches {
        rows.push(tranche_write(posting, (day, shard), by)?);
    }
    rows.extend(counter_writes(posting, check)?);
    Ok(rows)
}

/// A negative `by` is conditional on the tranche still holding that much. A release deletes the tranche's row.
/// Money that arrives after that creates the row again, and the row is due for release at once.
fn tranche_write(posting: &Posting, (day, shard): (Day, Shard), by: MinorUnits) -> Result<Write, MoneyError> {
    let Posting { scope, currency, .. } = *posting;
    let key = Tranche { scope, shard, currency, day }.key();
    let due = due_attributes(&key, day.starts_at());
    let mut update = RowUpdate::of(key).add(HELD, number(by.get())).set_all(due);
    if by.is_negative() {
        update = update.when(HELD, ">=", number(by.checked_neg()?.get()));
    }
    Ok(Write::update(update))
}

#[cfg(test)]
mod tests {
    use domain::ids::PostingId;
    use domain::money::Amount;
    use domain::wallet::{Cause, Subject, rules};

    use super::*;
    use crate::payout::testing::pending;

    #[test]
    fn only_a_checked_debit_of_the_available_balance_has_a_condition() {
        let (payout, amount) = (pending(), Amount::parse(1000).unwrap());
        let cause = Cause {
            id: PostingId::first_at(payout.created_at),
            scope: payout.scope,
            shard: Shard::FIRST,
            currency: payout.currency,
            at: payout.created_at,
            subject: Subject::default(),
        };
        let debit = debit_of(&rules::payout_requested(cause.clone(), amount)).unwrap();
        let credit = debit_of(&rules::payout_failed(cause, amount)).unwrap();
        assert_eq!((debit.get(), credit.get()), (1000, 0));
        let read = MinorUnits::new(1500);
        assert_eq!(most_debits(DebitCheck::Credits(read), debit).unwrap(), Some(MinorUnits::new(500)));
        assert_eq!(most_debits(DebitCheck::Credits(read), credit).unwrap(), None);
        assert_eq!(most_debits(DebitCheck::Unchecked, debit).unwrap(), None);
    }

    #[test]
    fn only_the_rows_of_totals_and_of_releases_are_counters() {
        let row = |name: &str| {
            let pk = format!("{PARTITION}acc_0123456789abcdef:test");
            parse(&Key { pk, sk: format!("BRL#{name}") }).map(|(_, _, _, row)| row)
        };
        assert!(matches!(row(DEBITS_SORT), Some(CounterRow::Totals)));
        assert!(matches!(row(&format!("{CREDITS_SORT}7")), Some(CounterRow::Totals)));
        assert!(row("other").is_none());
    }
}
