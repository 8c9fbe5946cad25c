//! Reads wallets, and writes an operator's adjustment and the release of held money. Charges, refunds, MED
//! cases and payouts write their own postings.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use domain::audit::{Action, Operator, Sum};
use domain::ids::{PostingId, Scope};
use domain::money::{Currency, MinorUnits};
use domain::reference::{Reference, Referenced, UsedReference};
use domain::row::{Key, Row};
use domain::shard::{Shard, ShardCount, ShardedScope};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{Cause, LedgerAccount, Posting, Subject, TrancheShare, Wallet, rules};

use crate::wallet::counters::{self, CounterRow, DebitCheck, HELD, Tranche};
use crate::wallet::day_limit::{self, OverLimit};
use shared::account::Accounts;
use shared::store::{Item, Order, StoreError, Write, from_item, key_of_item};
use shared::{audit, random};

const POSTINGS_PER_READ: usize = 1_000;

#[derive(Debug)]
#[must_use]
pub enum DebitPlan {
    /// The writes of the change, then those of the posting. A debit among them is conditional on the balance.
    Writes(Vec<Write>),
    Short {
        needed: i64,
        /// It may be below zero.
        available: i64,
    },
}

/// Kept between the attempts of one update. Credits only grow, so a stale value makes the debit's condition
/// stricter, and later attempts can reuse it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachedCredits {
    credits: Option<MinorUnits>,
    /// How far below zero the debit may take the available balance.
    overdraft: MinorUnits,
    /// The index of the write that is conditional on them.
    debit_write: usize,
}

impl CachedCredits {
    pub(crate) fn with_overdraft(overdraft: MinorUnits) -> Self {
        Self { overdraft, ..Self::default() }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Adjustment {
    pub id: PostingId,
    pub reference: Reference,
    pub scope: Scope,
    pub currency: Currency,
    /// The change of the available balance in minor units: a credit above zero, a debit below.
    pub minor: i64,
    /// The merchant's statement shows it.
    pub note: Option<String>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AdjustmentOutcome {
    /// Now, or by an earlier call with the same reference.
    Done(Box<Posting>),
    Short {
        /// It may be below zero.
        available: i64,
    },
    /// The reference names a payout or another adjustment.
    ReferenceTaken(Referenced),
    OverLimit(OverLimit),
}

shared::store::repository!(Wallets);

impl Wallets {
    pub async fn sharded_scope(&self, scope: &Scope) -> Result<ShardedScope, StoreError> {
        Accounts::new(self.store.clone()).sharded_scope(scope).await
    }

    /// Reads the postings of a currency from `first` to `last`, each at least once.
    pub async fn each_posting(
        &self,
        scope: &ShardedScope,
        currency: Currency,
        (first, last): (PostingId, PostingId),
        mut each: impl FnMut(Posting) + Send,
    ) -> Result<(), StoreError> {
        let partitions = scope.partitions(Posting::partition);
        for sort in [Posting::wallet_sort, Posting::other_sort] {
            let (mut from, to) = (sort(currency, first), sort(currency, last));
            loop {
                let range = (from.as_str(), to.as_str());
                let page = self
                    .store
                    .range_of_each(&partitions, range, Order::OldestFirst, POSTINGS_PER_READ)
                    .await?;
                let is_last = page.len() < POSTINGS_PER_READ;
                for item in page {
                    let posting: Posting = from_item(item)?;
                    from = sort(currency, posting.id);
                    each(posting);
                }
                // The next page begins with the last posting of this one.
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One query for each shard.
    pub async fn for_scope(&self, scope: &ShardedScope) -> Result<BTreeMap<Currency, Wallet>, StoreError> {
        let mut wallets = BTreeMap::new();
        let partitions = scope.partitions(counters::partition);
        let reads = partitions.iter().map(|partition| self.store.partition(partition));
        for item in try_join_all(reads).await?.into_iter().flatten() {
            let key = counter_key(&item)?;
            let (currency, row) = parse(&key)?;
            add_row(wallets.entry(currency).or_insert_with(|| Wallet::empty(currency)), &row, &item)?;
        }
        Ok(wallets)
    }

    /// One query for each shard. A wallet without postings is empty.
    pub async fn in_currency(&self, scope: &ShardedScope, currency: Currency) -> Result<Wallet, StoreError> {
        let mut wallet = Wallet::empty(currency);
        let partitions = scope.partitions(counters::partition);
        let prefix = counters::currency_prefix(currency);
        let reads = partitions.iter().map(|partition| self.store.partition_prefix(partition, &prefix));
        for item in try_join_all(reads).await?.into_iter().flatten() {
            let (_, row) = parse(&counter_key(&item)?)?;
            add_row(&mut wallet, &row, &item)?;
        }
        Ok(wallet)
    }

    /// The tranches of a currency with pending money, the next release first.
    pub(crate) async fn tranches(
        &self,
        scope: &ShardedScope,
        currency: Currency,
    ) -> Result<Vec<TrancheShare>, StoreError> {
        let partitions = scope.partitions(counters::partition);
        let prefix = counters::release_prefix(currency);
        let reads = partitions.iter().map(|partition| self.store.partition_prefix(partition, &prefix));
        let mut tranches = Vec::new();
        for item in try_join_all(reads).await?.into_iter().flatten() {
            let tranche = Tranche::at(&counter_key(&item)?);
            let minor = counter(&item, HELD)?;
            tranches.extend(
                tranche.filter(|_| minor.is_positive()).map(|Tranche { shard, day, .. }| TrancheShare {
                    shard,
                    day,
                    minor,
                }),
            );
        }
        tranches.sort_by_key(|tranche| (tranche.day, tranche.shard));
        Ok(tranches)
    }

    /// Plans the writes of a change and of its posting, for one attempt after
    /// one in which the writes `failed` failed. The debit is conditional
    /// on the available balance covering it. The first attempt reads the wallet and keeps its credits in
    /// `read`. A later one reads it again only if that condition failed before.
    pub async fn plan_debit(
        &self,
        (failed, read): (&[usize], &mut CachedCredits),
        shards: ShardCount,
        posting: &Posting,
        change: Vec<Write>,
    ) -> Result<DebitPlan, StoreError> {
        let needed = posting.change(LedgerAccount::MerchantAvailable)?.checked_neg()?;
        if failed.contains(&read.debit_write) {
            read.credits = None;
        }
        let check = match (needed.is_positive(), read.credits) {
            (false, _) => DebitCheck::Unchecked,
            (true, Some(credits)) => DebitCheck::Credits(credits.checked_add(read.overdraft)?),
            (true, None) => {
                let scope = ShardedScope { scope: posting.scope, shards };
                let wallet = self.in_currency(&scope, posting.currency).await?;
                let available = wallet.available()?;
                if available.checked_add(read.overdraft)? < needed {
                    return Ok(DebitPlan::Short { needed: needed.get(), available: available.get() });
                }
                let credits = wallet.totals(LedgerAccount::MerchantAvailable).credits;
                read.credits = Some(credits);
                DebitCheck::Credits(credits.checked_add(read.overdraft)?)
            }
        };
        let mut writes = change;
        writes.extend(counters::posting_writes(posting, check)?);
        read.debit_write = writes.len().saturating_sub(1);
        Ok(DebitPlan::Writes(writes))
    }

    /// Idempotent by the adjustment's reference.
    pub async fn adjust(
        &self,
        adjustment: &Adjustment,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<AdjustmentOutcome, StoreError> {
        let Adjustment { id, reference, scope, currency, minor, note } = adjustment.clone();
        let used = UsedReference { scope, reference, of: Referenced::Correction(id) };
        let subject = Subject { note, ..Subject::default() };
        let cause = Cause { id, scope, shard: Shard::FIRST, currency, at: now, subject };
        let posting = rules::adjusted(cause, MinorUnits::new(minor))?;
        let ShardedScope { shards, .. } = self.sharded_scope(&scope).await?;
        let mut credits = CachedCredits::default();
        let mut update = self.store.start_update("a wallet");
        loop {
            if let Some(existing) = self.store.get(&used.key()).await? {
                return self.existing_adjustment(existing, &posting).await;
            }
            let action = Action::AdjustLedger(Sum { mode: scope.mode, currency, minor });
            let audit = audit::by_operator(operator, scope.account, action, id, now)?;
            let moved = (&scope, currency, minor.unsigned_abs());
            let counted = match day_limit::plan(&self.store, moved, operator, now).await? {
                Ok(counted) => counted,
                Err(over) => return Ok(AdjustmentOutcome::OverLimit(over)),
            };
            let change = [Write::insert(&used)?, Write::audit(&audit)].into_iter().chain(counted).collect();
            match self.plan_debit((update.failed(), &mut credits), shards, &posting, change).await? {
                DebitPlan::Writes(writes) => {
                    if update.commit(writes).await? {
                        return Ok(AdjustmentOutcome::Done(Box::new(posting)));
                    }
                }
                DebitPlan::Short { available, .. } => return Ok(AdjustmentOutcome::Short { available }),
            }
        }
    }

    /// Returns what a reference names, if it is the requested adjustment.
    async fn existing_adjustment(
        &self,
        UsedReference { scope, of, .. }: UsedReference,
        requested: &Posting,
    ) -> Result<AdjustmentOutcome, StoreError> {
        let stored = match of {
            Referenced::Correction(id) if scope == requested.scope => {
                self.store.get::<Posting>(&Posting { id, ..requested.clone() }.key()).await?
            }
            Referenced::Correction(_) | Referenced::Payout(_) => None,
        };
        let is_same =
            |stored: &Posting| stored.transfers == requested.transfers && stored.subject == requested.subject;
        let done = stored.filter(is_same).map(|posting| AdjustmentOutcome::Done(Box::new(posting)));
        Ok(done.unwrap_or(AdjustmentOutcome::ReferenceTaken(of)))
    }

    /// The caller checks that the tranche's day has come. `false`: there is no such tranche. Concurrent calls
    /// release it once.
    pub async fn release(&self, tranche: Tranche, now: Timestamp) -> Result<bool, StoreError> {
        let Tranche { scope, shard, currency, day } = tranche;
        let key = tranche.key();
        let mut update = self.store.start_update("a tranche");
        loop {
            let Some(item) = self.store.get_item(&key).await? else { return Ok(false) };
            let held = counter(&item, HELD)?;
            let mut writes = vec![Write::remove(key.clone(), HELD, held.get())];
            if held.is_positive() {
                // The conditional delete ensures a single release, so the posting's id can be random.
                let id = PostingId::new(now, random::bytes()?);
                let subject = Subject::default();
                let cause = Cause { id, scope, shard, currency, at: now, subject };
                let posting = rules::released(cause, day, held);
                writes.push(Write::insert(&posting)?);
                writes.extend(counters::counter_writes(&posting, DebitCheck::Unchecked)?);
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

fn parse(key: &Key) -> Result<(Currency, CounterRow), StoreError> {
    counters::parse(key)
        .map(|(_, _, currency, row)| (currency, row))
        .ok_or_else(|| StoreError::Corrupt(format!("{} is not a counter row of a wallet", key.sk)))
}

fn add_row(wallet: &mut Wallet, row: &CounterRow, item: &Item) -> Result<(), StoreError> {
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

fn counter(item: &Item, name: &str) -> Result<MinorUnits, StoreError> {
    let Some(value) = item.get(name) else { return Ok(MinorUnits::ZERO) };
    let number = value.as_n().ok().and_then(|text| text.parse().ok());
    number
        .map(MinorUnits::new)
        .ok_or_else(|| StoreError::Corrupt(format!("the counter {name} is not a 64-bit integer")))
}
