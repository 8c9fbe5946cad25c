//! The balances of a statement. The opening balance is that of the last month end before the period, which is stored
//! once it is computed, and the postings since. The closing balance is compared with an independent one: that of the
//! next stored month end, or else the counters of the wallet, without the postings in between.

use domain::calendar::Day;
use domain::money::{Currency, MinorUnits};
use domain::report::MonthEnd;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use money::wallet::Wallets;
use shared::store::{Inserted, Order, Store, StoreError, from_item};

use crate::source::{postings, postings_of};

/// How often the counters are read until no posting arrives in between.
const MAX_READS: usize = 20;

/// Postings this old are written, in milliseconds; a function takes a minute at most.
const SETTLED_AFTER_MS: i64 = 120_000;

#[derive(Clone, Copy)]
pub(crate) struct Balances<'a> {
    pub(crate) store: &'a Store,
    pub(crate) scope: ShardedScope,
    pub(crate) currency: Currency,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Agrees,
    Differs,
    /// Postings kept arriving, so the counters could not be compared.
    KeptMoving,
}

impl Balances<'_> {
    /// The merchant's money before a day. Stores the ends of the months that it passes.
    pub(crate) async fn opening(&self, day: Day, now: Timestamp) -> Result<MinorUnits, StoreError> {
        let start = self.month_end(("0", &day.to_string()), Order::NewestFirst).await?;
        let from = start.as_ref().map_or(Timestamp::MIN, |end| end.before.starts_at());
        let mut balance = start.as_ref().map_or(MinorUnits::ZERO, |end| end.balance);
        let mut next = start.map(|end| end.before.next_month());
        let Some(to) = day.starts_at().plus_millis(-1).ok().filter(|to| *to >= from) else {
            return Ok(balance);
        };
        let mut rows = postings(self.store.clone(), &self.scope, self.currency, (from, to), false);
        loop {
            let page = postings_of(rows.next_page().await?)?;
            if page.is_empty() {
                break;
            }
            for posting in page {
                let at = posting.dated_at();
                let mut before = next.unwrap_or_else(|| Day::of(at).next_month());
                while before.starts_at() <= at {
                    self.store_month_end(before, balance, now).await?;
                    before = before.next_month();
                }
                next = Some(before);
                balance = balance.checked_add(posting.net()?)?;
            }
        }
        while let Some(before) = next.filter(|before| *before <= day) {
            self.store_month_end(before, balance, now).await?;
            next = Some(before.next_month());
        }
        Ok(balance)
    }

    async fn store_month_end(
        &self,
        before: Day,
        balance: MinorUnits,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if !MonthEnd::is_closed(before, now) {
            return Ok(());
        }
        let end = MonthEnd { scope: self.scope.scope, currency: self.currency, before, balance };
        match self.store.insert(&end).await? {
            Inserted::Existing(stored) if stored != end => {
                tracing::error!(scope = %end.scope, %before, computed = %balance, stored = %stored.balance, "the stored balance of a month's end differs from the postings");
            }
            Inserted::New | Inserted::Existing(_) => {}
        }
        Ok(())
    }

    /// The first or last stored month end between two days, both inclusive.
    async fn month_end(
        &self,
        (from, to): (&str, &str),
        order: Order,
    ) -> Result<Option<MonthEnd>, StoreError> {
        let sort = |day: &str| format!("{}#{day}", self.currency);
        let (from, to) = (sort(from), sort(to));
        let partition = MonthEnd::partition(&self.scope.scope);
        let found = self.store.range(&partition, (&from, &to), order, 1).await?;
        found.into_iter().next().map(from_item).transpose()
    }

    async fn sum(&self, from: Timestamp, to: Timestamp) -> Result<MinorUnits, StoreError> {
        let mut sum = MinorUnits::ZERO;
        if from > to {
            return Ok(sum);
        }
        let mut rows = postings(self.store.clone(), &self.scope, self.currency, (from, to), false);
        loop {
            let page = postings_of(rows.next_page().await?)?;
            if page.is_empty() {
                return Ok(sum);
            }
            for posting in page {
                sum = sum.checked_add(posting.net()?)?;
            }
        }
    }

    /// Compares the closing balance of a period that ends at `end`.
    pub(crate) async fn verify(
        &self,
        closing: MinorUnits,
        end: Timestamp,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let after = end.plus_millis(1).unwrap_or(Timestamp::MAX);
        let first = Day::of(after);
        let first = if first.starts_at() < after { first.plus_days(1) } else { first };
        let verdict = |agrees| if agrees { Verdict::Agrees } else { Verdict::Differs };
        if let Some(next) = self.month_end((&first.to_string(), "~"), Order::OldestFirst).await? {
            let last = next.before.starts_at().plus_millis(-1).unwrap_or(after);
            let later = self.sum(after, last).await?;
            return Ok(verdict(closing.checked_add(later)? == next.balance));
        }
        let mut counted = self.counted().await?;
        // Later postings that are written are summed once, the newest with each reading of the counters.
        let settled = now.plus_millis(-SETTLED_AFTER_MS).unwrap_or(after).max(after);
        let older = self.sum(after, settled.plus_millis(-1).unwrap_or(after)).await?;
        for _read in 0..MAX_READS {
            let later = older.checked_add(self.sum(settled, Timestamp::MAX).await?)?;
            let counted_again = self.counted().await?;
            if counted == counted_again {
                return Ok(verdict(closing.checked_add(later)? == counted));
            }
            counted = counted_again;
        }
        Ok(Verdict::KeptMoving)
    }

    async fn counted(&self) -> Result<MinorUnits, StoreError> {
        let wallets = Wallets::new(self.store.clone());
        let wallet = wallets.in_currency(&self.scope, self.currency).await?;
        Ok(wallet.total()?.checked_add(wallet.retained()?)?)
    }
}
