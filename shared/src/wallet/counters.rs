//! The counters that balances are read from. They only grow, so that whoever adds to them waits for nobody's read: what
//! came into an account and what went out of it are counted apart, and a balance is the difference.
//!
//! A scope's counters are one partition, `wallet#<scope>`, read in one query however many payments there were:
//!
//! | sort key | counters |
//! | --- | --- |
//! | `BRL#shard#0` … `7` | credits and debits of every account, spread over the shards |
//! | `BRL#debits` | all debits of what is available, so that one can be conditional on their sum, and what else their postings move |
//! | `BRL#release#20778` | what is held until a day, and is gone once it was released |
//!
//! A checked debit is conditional on `debits <= credits read − amount`. Credits only grow, so credits that were read a
//! while ago only make it stricter.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::Scope;
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::row::Key;
use domain::wallet::{LedgerAccount, Posting, grow};

use crate::store::{Bound, Item, StoreError, Write, due_attributes};

/// Rows over which an account's counters are spread: transactions that meet on one row wait for one another.
const SHARDS: u8 = 8;

/// The counter of what a tranche still holds.
pub const HELD: &str = "held";

const SHARD_SORT: &str = "shard#";
const DEBITS_SORT: &str = "debits";
const RELEASE_SORT: &str = "release#";

/// Whether what is available may go below zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cover {
    /// It may, or nothing is taken from it.
    NotNeeded,
    /// What is taken must be there: the account's credits, as they were read.
    Credits(MinorUnits),
}

/// What a row of the partition counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CounterRow {
    /// Credits and debits of accounts.
    Totals,
    /// What is held until a day.
    Release(Day),
}

/// A scope's partition.
pub fn partition(scope: &Scope) -> String {
    format!("wallet#{scope}")
}

/// The beginning of the sort keys of one currency.
pub fn currency_prefix(currency: Currency) -> String {
    format!("{currency}#")
}

/// The counter of an account's credits.
pub fn credits(account: LedgerAccount) -> String {
    format!("cr_{}", account.as_str())
}

/// The counter of an account's debits.
pub fn debits(account: LedgerAccount) -> String {
    format!("dr_{}", account.as_str())
}

/// The row of what is held until a day.
pub fn release_key(scope: &Scope, currency: Currency, day: Day) -> Key {
    row(scope, currency, &format!("{RELEASE_SORT}{}", day.sortable_number()))
}

fn row(scope: &Scope, currency: Currency, name: &str) -> Key {
    Key { pk: partition(scope), sk: format!("{}{name}", currency_prefix(currency)) }
}

/// Reads a key back: whose, in which currency, what it counts. `None`: it is none of these rows.
pub fn parse(key: &Key) -> Option<(Scope, Currency, CounterRow)> {
    let scope = key.pk.strip_prefix("wallet#")?.parse().ok()?;
    let (currency, name) = key.sk.split_once('#')?;
    let currency = Currency::parse(currency).ok()?;
    let row = match name.strip_prefix(RELEASE_SORT) {
        Some(day) => CounterRow::Release(Day::from_sortable_number(day)?),
        None if name == DEBITS_SORT || name.starts_with(SHARD_SORT) => CounterRow::Totals,
        None => return None,
    };
    Some((scope, currency, row))
}

/// What a posting adds to counters, all in one row, to be written with the posting: the row of debits where it takes from
/// what is available, else the shard that the posting's id picks.
pub(super) fn writes(posting: &Posting, cover: Cover) -> Result<Vec<Write>, StoreError> {
    let mut counters: BTreeMap<String, MinorUnits> = BTreeMap::new();
    let mut taken = MinorUnits::ZERO;
    for transfer in &posting.transfers {
        grow(counters.entry(credits(transfer.to)).or_default(), transfer.minor)?;
        grow(counters.entry(debits(transfer.from)).or_default(), transfer.minor)?;
        if transfer.from == LedgerAccount::MerchantAvailable {
            grow(&mut taken, transfer.minor)?;
        }
    }
    if counters.is_empty() {
        return Ok(Vec::new());
    }
    let shard = posting.id.spread().checked_rem(SHARDS).unwrap_or_default();
    let name = if taken.is_positive() { DEBITS_SORT.to_owned() } else { format!("{SHARD_SORT}{shard}") };
    let bound = match cover {
        Cover::Credits(read) if taken.is_positive() => Some(Bound::AtMost {
            counter: debits(LedgerAccount::MerchantAvailable),
            most: read.checked_sub(taken)?.get(),
        }),
        Cover::Credits(_) | Cover::NotNeeded => None,
    };
    let key = row(&posting.scope, posting.currency, &name);
    let counters = counters.into_iter().map(|(name, by)| (name, by.get())).collect();
    Ok(vec![Write::add(key, counters, Item::new(), bound)])
}

/// A posting's row and what it adds to counters, to be committed with the change that causes it. The debit of what is
/// available, where there is one, comes last.
pub fn posting_writes(posting: &Posting, cover: Cover) -> Result<Vec<Write>, StoreError> {
    let mut rows = vec![Write::insert(posting)?];
    if let Some(day) = posting.release_on {
        rows.push(hold(posting, day, posting.change(LedgerAccount::MerchantPending)?)?);
    }
    rows.extend(writes(posting, cover)?);
    Ok(rows)
}

/// Puts money into a tranche, or takes it out while it is held.
fn hold(posting: &Posting, day: Day, by: MinorUnits) -> Result<Write, MoneyError> {
    let key = release_key(&posting.scope, posting.currency, day);
    let bound = if by.is_negative() {
        Some(Bound::AtLeast { counter: HELD.to_owned(), least: by.checked_neg()?.get() })
    } else {
        None
    };
    let due = due_attributes(&key, day.starts_at());
    Ok(Write::add(key, vec![(HELD.to_owned(), by.get())], due.into_iter().collect(), bound))
}
