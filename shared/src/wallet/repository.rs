//! Reads and writes of wallets.

use std::collections::BTreeMap;

use domain::audit::Operator;
use domain::calendar::Day;
use domain::ids::{PostingId, Scope};
use domain::money::{Currency, MinorUnits};
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{Cause, LedgerAccount, Posting, Subject, Wallet, rules};

use crate::audit;
use crate::random::{self, RandomError};
use crate::store::{Item, Store, StoreError, Update, Write, key_of_item};
use crate::wallet::counters::{self, CounterRow, Cover, HELD};

/// What a change with a debit that must be covered writes.
#[derive(Debug)]
#[must_use]
pub enum Covered {
    /// The rows of the change, then those of the posting.
    Writes(Vec<Write>),
    /// Less is available than the debit takes.
    Short {
        /// What the debit takes, in minor units.
        needed: i64,
        /// What there is, in minor units; it may be below zero.
        available: i64,
    },
}

/// A wallet's credits to what is available, as one update last read them. They only grow, so older ones make a debit's bound
/// only stricter, and serve for further attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreditsRead(Option<MinorUnits>);

/// Why money was not moved.
#[derive(Debug, thiserror::Error)]
pub enum WalletError {
    /// DynamoDB.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A posting or an audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// An operator's correction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Adjustment {
    /// Names it: asked for twice, it is one.
    pub id: PostingId,
    /// Whose wallet.
    pub scope: Scope,
    /// Which of them.
    pub currency: Currency,
    /// Minor units: above zero the merchant gets it, below zero it is taken.
    pub minor: i64,
    /// What the merchant reads of it in the statement.
    pub note: Option<String>,
}

/// How a correction ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Adjusted {
    /// It is written.
    Done(Box<Posting>),
    /// Less is available than would be taken.
    Short {
        /// What there is, in minor units.
        available: i64,
    },
    /// There is another posting of that id.
    IdTaken,
    /// Nothing was done under this id, and it is not of the day before.
    IdOutOfTime,
}

/// The answer to a correction of an id that was used before.
fn asked_again(earlier: Posting, again: &Posting) -> Adjusted {
    if earlier.transfers == again.transfers { Adjusted::Done(Box::new(earlier)) } else { Adjusted::IdTaken }
}

/// The wallets of all scopes.
#[derive(Clone, Debug)]
pub struct Wallets {
    pub(super) store: Store,
}

impl Wallets {
    /// Wallets in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// All wallets of a scope by currency, in one query, however much moved.
    pub async fn of(&self, scope: &Scope) -> Result<BTreeMap<Currency, Wallet>, StoreError> {
        let mut wallets = BTreeMap::new();
        for item in self.store.partition(&counters::partition(scope)).await? {
            let key = counter_key(&item)?;
            let (_, currency, row) = parse(&key)?;
            add_up(wallets.entry(currency).or_insert_with(|| Wallet::empty(currency)), &row, &item)?;
        }
        Ok(wallets)
    }

    /// A scope's wallet in one currency, in one query.
    pub async fn in_currency(&self, scope: &Scope, currency: Currency) -> Result<Wallet, StoreError> {
        let mut wallet = Wallet::empty(currency);
        let prefix = counters::currency_prefix(currency);
        for item in self.store.partition_prefix(&counters::partition(scope), &prefix).await? {
            let (_, _, row) = parse(&counter_key(&item)?)?;
            add_up(&mut wallet, &row, &item)?;
        }
        Ok(wallet)
    }

    /// The rows of a change with those of a posting whose debit must be covered, for one attempt of an update. The wallet is
    /// read in the first attempt, and again when the bound by what was read failed.
    pub async fn covered(
        &self,
        update: &mut Update<'_>,
        read: &mut CreditsRead,
        posting: &Posting,
        change: Vec<Write>,
    ) -> Result<Covered, StoreError> {
        let needed = posting.change(LedgerAccount::MerchantAvailable)?.checked_neg()?;
        if update.bound_failed() {
            *read = CreditsRead::default();
        }
        let cover = match (needed.is_positive(), read.0) {
            (false, _) => Cover::NotNeeded,
            (true, Some(credits)) => Cover::Credits(credits),
            (true, None) => {
                let wallet = self.in_currency(&posting.scope, posting.currency).await?;
                let available = wallet.available()?;
                if available < needed {
                    return Ok(Covered::Short { needed: needed.get(), available: available.get() });
                }
                let credits = wallet.totals(LedgerAccount::MerchantAvailable).credits;
                read.0 = Some(credits);
                Cover::Credits(credits)
            }
        };
        let mut writes = change;
        writes.extend(counters::posting_writes(posting, cover)?);
        update.bound_at(needed.is_positive().then(|| writes.len().saturating_sub(1)));
        Ok(Covered::Writes(writes))
    }

    /// Corrects what can be spent of a wallet, with an audit row. The same one asked for again, by its id, is one.
    pub async fn adjust(
        &self,
        adjustment: &Adjustment,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Adjusted, WalletError> {
        let Adjustment { id, scope, currency, minor, note } = adjustment.clone();
        let subject = Subject { note, ..Subject::default() };
        // Its place in the statement is its id's; one that is asked for again keeps it.
        let at = id.timestamp().unwrap_or(now);
        let cause = Cause { id, scope, currency, at, subject };
        let posting = rules::adjusted(cause, MinorUnits::new(minor)).map_err(StoreError::from)?;
        let mut credits = CreditsRead::default();
        let mut update = self.store.start_update("a wallet");
        loop {
            update.next_attempt().await?;
            if let Some(earlier) = self.store.get::<Posting>(&posting.key()).await? {
                return Ok(asked_again(earlier, &posting));
            }
            if !id.is_of_late(now) {
                return Ok(Adjusted::IdOutOfTime);
            }
            let audit = audit::by_operator(operator, scope.account, "ledger.adjust", id.to_string(), now)?;
            let audit = audit.with(format!("{} {currency} {minor}", scope.mode));
            let change = vec![Write::insert(&audit)?];
            match self.covered(&mut update, &mut credits, &posting, change).await? {
                Covered::Writes(writes) => {
                    if update.commit(writes).await? {
                        return Ok(Adjusted::Done(Box::new(posting)));
                    }
                }
                Covered::Short { available, .. } => return Ok(Adjusted::Short { available }),
            }
        }
    }

    /// Releases what is held until a day that has come: pending money becomes available, and the tranche is gone. Gives
    /// whether there was one. Two that release at once release once.
    pub async fn release(
        &self,
        scope: Scope,
        currency: Currency,
        day: Day,
        now: Timestamp,
    ) -> Result<bool, WalletError> {
        let key = counters::release_key(&scope, currency, day);
        let mut update = self.store.start_update("a tranche");
        loop {
            update.next_attempt().await?;
            let Some(item) = self.store.get_item(&key).await? else { return Ok(false) };
            let held = counter(&item, HELD)?;
            let mut writes = vec![Write::remove(key.clone(), HELD, held.get())];
            if held.is_positive() {
                // The removal is what makes it happen once; so any new id will do.
                let id = PostingId::new(now, random::bytes()?);
                let cause = Cause { id, scope, currency, at: now, subject: Subject::default() };
                let posting = rules::released(cause, day, held);
                writes.push(Write::insert(&posting)?);
                writes.extend(counters::writes(&posting, Cover::NotNeeded)?);
            }
            if update.commit(writes).await? {
                return Ok(true);
            }
        }
    }
}

fn counter_key(item: &Item) -> Result<Key, StoreError> {
    key_of_item(item).ok_or_else(|| StoreError::Corrupt("a row has no key".to_owned()))
}

fn parse(key: &Key) -> Result<(Scope, Currency, CounterRow), StoreError> {
    counters::parse(key).ok_or_else(|| StoreError::Corrupt(format!("{} is no counter of a wallet", key.sk)))
}

fn add_up(wallet: &mut Wallet, row: &CounterRow, item: &Item) -> Result<(), StoreError> {
    match row {
        CounterRow::Release(day) => Ok(wallet.add_held(*day, counter(item, HELD)?)?),
        CounterRow::Totals => {
            for account in LedgerAccount::all() {
                wallet.add_credits(account, counter(item, &counters::credits(account))?)?;
                wallet.add_debits(account, counter(item, &counters::debits(account))?)?;
            }
            Ok(())
        }
    }
}

/// A counter of a row; one that is not there was never added to.
fn counter(item: &Item, name: &str) -> Result<MinorUnits, StoreError> {
    let Some(value) = item.get(name) else { return Ok(MinorUnits::ZERO) };
    let number = value.as_n().ok().and_then(|text| text.parse().ok());
    number
        .map(MinorUnits::new)
        .ok_or_else(|| StoreError::Corrupt(format!("the counter {name} is not a 64-bit integer")))
}
