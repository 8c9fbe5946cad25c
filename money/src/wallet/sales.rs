//! The sales of a period, by their postings. Postings are written together with the charges that they settle, so a
//! reader of a closed period finds all of them.

use std::collections::BTreeMap;

use domain::ids::{ChargeId, PostingId};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::wallet::Posting;
use futures_util::future::try_join_all;

use crate::wallet::Wallets;
use shared::store::{PageRange, StoreError};

/// The most postings of a currency and kind of key that are read: about 125 read units.
const MAX_POSTINGS: usize = 1_000;

/// The charges that were settled in a period.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Sales {
    /// How many there are in each currency, and the sum of their amounts before fees and refunds.
    pub sums: BTreeMap<Currency, (usize, MinorUnits)>,
    /// One of them.
    pub charge: Option<ChargeId>,
    /// Whether there may be more, which were not read.
    pub has_more: bool,
}

impl Sales {
    pub fn count(&self) -> usize {
        self.sums.values().map(|(count, _)| count).fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn add(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        let (Some(amount), Some(charge)) = (posting.sale()?, posting.subject.charge) else { return Ok(()) };
        let (count, sum) = self.sums.entry(posting.currency).or_insert((0, MinorUnits::ZERO));
        (*count, *sum) = (count.saturating_add(1), sum.checked_add(amount)?);
        self.charge = Some(charge);
        Ok(())
    }
}

impl Wallets {
    /// Reads the wallets, and the postings of each currency between two times, both inclusive.
    pub async fn sales(
        &self,
        scope: &ShardedScope,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Sales, StoreError> {
        let wallets = self.for_scope(scope).await?;
        let partitions = scope.partitions(Posting::partition);
        let ids = [PostingId::first_at(from), PostingId::last_at(to)];
        let mut ranges = Vec::new();
        for wallet in wallets.values() {
            ranges.push(ids.map(|id| Posting::wallet_sort(wallet.currency, id)));
            // Only payments to the merchant's own wallet are sales without a line in the statement.
            if wallet.self_custody()?.is_some() {
                ranges.push(ids.map(|id| Posting::other_sort(wallet.currency, id)));
            }
        }
        let reads = ranges.iter().map(|[from, to]| {
            let page = PageRange::newest_first((from, to), None, MAX_POSTINGS);
            self.store.table_page::<Posting>(&partitions, page)
        });
        let mut sales = Sales::default();
        for (postings, has_more) in try_join_all(reads).await? {
            sales.has_more |= has_more;
            for posting in &postings {
                sales.add(posting)?;
            }
        }
        Ok(sales)
    }
}
