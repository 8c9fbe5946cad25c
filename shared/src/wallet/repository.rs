//! Reads and writes of wallets.

use std::collections::BTreeMap;

use domain::calendar::Day;
use domain::ids::{PostingId, Scope};
use domain::money::Currency;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;

use super::counters::{self, CounterRow, Cover, HELD};
use super::{Cause, LedgerAccount, Posting, Subject, Wallet, rules};
use crate::audit::{Audit, Operator};
use crate::random;
use crate::store::{Committed, Item, Store, StoreError, Write, key_of_item};

/// How often a write is tried anew because a counter that it is conditional on moved.
const MAX_OVERTAKEN: usize = 20;

/// How a change with a covered debit ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Covered {
    /// It is written.
    Done,
    /// Less is available than was asked for, and nothing was written.
    Short {
        /// What the debit takes, in minor units.
        needed: i64,
        /// What there is, in minor units; it may be below zero.
        available: i64,
    },
    /// Rows of the change, or the tranche that it takes from, were not as expected: another caller was first, and nothing
    /// was written.
    Overtaken {
        /// Their places: the rows of the change come first.
        at: Vec<usize>,
    },
}

/// A wallet's credits to what is available, as a caller last read them. They only grow, so older ones make a debit's bound
/// only stricter, and serve for further tries of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreditsRead(Option<i64>);

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

impl Posting {
    /// The answer to whoever asks for a correction of this id again.
    fn asked_again(self, again: &Self) -> Adjusted {
        if self.transfers == again.transfers { Adjusted::Done(Box::new(self)) } else { Adjusted::IdTaken }
    }
}

/// The wallets of all scopes.
#[derive(Clone, Debug)]
pub struct Wallets {
    pub(super) store: Store,
}

impl Posting {
    /// The posting's row and what it adds to counters, to be committed with the change that causes it. The debit of what
    /// is available, where there is one, comes last.
    pub fn writes(&self, cover: Cover) -> Result<Vec<Write>, StoreError> {
        let mut writes = vec![Write::insert(self)?];
        if let Some(day) = self.release_on {
            writes.push(counters::hold(self, day, self.change(LedgerAccount::MerchantPending)));
        }
        writes.extend(counters::writes(self, cover)?);
        Ok(writes)
    }
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

    /// Commits a change, the rows that `change` gives, with a posting whose debit must be covered.
    pub async fn commit_covered(
        &self,
        posting: &Posting,
        change: impl Fn() -> Result<Vec<Write>, StoreError>,
    ) -> Result<Covered, StoreError> {
        self.commit_covered_by(&mut CreditsRead::default(), posting, change).await
    }

    /// As [`Wallets::commit_covered`], of a change that is tried again: the wallet is read once, and again where a bound by
    /// what was read fails.
    pub async fn commit_covered_by(
        &self,
        read: &mut CreditsRead,
        posting: &Posting,
        change: impl Fn() -> Result<Vec<Write>, StoreError>,
    ) -> Result<Covered, StoreError> {
        let needed = posting.change(LedgerAccount::MerchantAvailable).saturating_neg();
        for _try in 0..MAX_OVERTAKEN {
            let cover = match (needed > 0, read.0) {
                (false, _) => Cover::NotNeeded,
                (true, Some(credits)) => Cover::Credits(credits),
                (true, None) => {
                    let wallet = self.in_currency(&posting.scope, posting.currency).await?;
                    let available = wallet.available();
                    if available < needed {
                        return Ok(Covered::Short { needed, available });
                    }
                    let credits = wallet.totals(LedgerAccount::MerchantAvailable).credits;
                    read.0 = Some(credits);
                    Cover::Credits(credits)
                }
            };
            let mut writes = change()?;
            writes.extend(posting.writes(cover)?);
            let debit = writes.len().saturating_sub(1);
            match self.store.commit(writes).await? {
                Committed::Done => return Ok(Covered::Done),
                // Other callers took money since the wallet was read.
                Committed::Overtaken { at } if at == [debit] && needed > 0 => *read = CreditsRead::default(),
                Committed::Overtaken { at } => return Ok(Covered::Overtaken { at }),
            }
        }
        Err(StoreError::Unavailable("a wallet kept changing under a debit".to_owned()))
    }

    /// Corrects what can be spent of a wallet, with an audit row. The same one asked for again, by its id, is one.
    pub async fn adjust(
        &self,
        adjustment: &Adjustment,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Adjusted, StoreError> {
        let Adjustment { id, scope, currency, minor, note } = adjustment.clone();
        let subject = Subject { note, ..Subject::default() };
        // Its place in the statement is its id's; one that is asked for again keeps it.
        let at = id.timestamp().unwrap_or(now);
        let posting = rules::adjusted(Cause { id, scope, currency, at, subject }, minor);
        if let Some(earlier) = self.store.get::<Posting>(&posting.key()).await? {
            return Ok(earlier.asked_again(&posting));
        }
        if !id.is_of_late(now) {
            return Ok(Adjusted::IdOutOfTime);
        }
        let audit = Audit::of(operator, scope.account, "ledger.adjust", id.to_string(), now);
        let audit = audit.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let audit = audit.with(format!("{} {currency} {minor}", scope.mode));
        match self.commit_covered(&posting, || Ok(vec![Write::insert(&audit)?])).await? {
            Covered::Done => Ok(Adjusted::Done(Box::new(posting))),
            Covered::Short { available, .. } => Ok(Adjusted::Short { available }),
            Covered::Overtaken { .. } => {
                let earlier = self.store.get::<Posting>(&posting.key()).await?;
                Ok(earlier.map_or(Adjusted::IdTaken, |earlier| earlier.asked_again(&posting)))
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
    ) -> Result<bool, StoreError> {
        let key = counters::release_key(&scope, currency, day);
        for _try in 0..MAX_OVERTAKEN {
            let Some(item) = self.store.get_item(&key).await? else { return Ok(false) };
            let held = counter(&item, HELD)?;
            let mut writes = vec![Write::remove(key.clone(), HELD, held)];
            if held > 0 {
                let random = random::bytes().map_err(|error| StoreError::Unavailable(error.to_string()))?;
                // The removal is what makes it happen once; so any new id will do.
                let id = PostingId::new(now, random);
                let cause = Cause { id, scope, currency, at: now, subject: Subject::default() };
                let posting = rules::released(cause, day, held);
                writes.push(Write::insert(&posting)?);
                writes.extend(counters::writes(&posting, Cover::NotNeeded)?);
            }
            if self.store.commit(writes).await? == Committed::Done {
                return Ok(true);
            }
        }
        Err(StoreError::Unavailable("a tranche kept changing under its release".to_owned()))
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
        CounterRow::Release(day) => wallet.add_held(*day, counter(item, HELD)?),
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
fn counter(item: &Item, name: &str) -> Result<i64, StoreError> {
    let Some(value) = item.get(name) else { return Ok(0) };
    let number = value.as_n().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::Corrupt(format!("the counter {name} is not a 64-bit integer")))
}
