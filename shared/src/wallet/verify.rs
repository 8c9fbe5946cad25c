//! Compares sums of postings with the counters that balances are computed from.
//!
//! Postings may be written during the comparison. So it has these steps:
//!
//! 1. The postings that are older than two minutes were summed before
//!    ([`crate::services::LedgerVerification`]).
//! 2. It reads the counters, then the newest postings, then the counters again.
//! 3. If the two reads of the counters differ, a posting was written in between, and step 2 is repeated, at
//!    most ten times.
//! 4. If they still differ, the first read is a lower bound of the sums, and the second an upper bound. That
//!    is so because counters only grow, and a posting and its counters are written in one transaction.
//!
//! A query may see only some rows of a transaction. So the caller repeats a comparison that finds differences.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use domain::ids::{ChargeId, PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::row::Row;
use domain::shard::{Shard, ShardedScope};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{LedgerAccount, Posting, PostingKind, Transfer, Wallet, add_to_counter};

use crate::store::{Order, StoreError, from_item};
use crate::wallet::Wallets;

/// How often the counters and the newest postings are read again, to find two equal reads of the counters.
const MAX_TAIL_READS: usize = 10;

/// The age, in seconds, of the oldest of the newest postings. A posting's time is when its change began. It is
/// written up to 60 s later, the longest time limit of a function.
const TAIL_SECONDS: i64 = 120;

/// The most postings that one query returns when it reads the newest postings again.
const TAIL_PAGE: usize = 100_000;

/// The result of a verification.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// The number of postings that were summed.
    pub postings: u64,
    /// The differences between the postings and the counters, then those between the postings and the funds of
    /// charges.
    pub differences: Vec<Difference>,
    /// True if postings kept arriving. Then their sums were compared with two reads of the counters as
    /// bounds, and the tranches were not compared.
    pub is_moving: bool,
}

/// The sums of the postings of charges.
pub(crate) type SumsByCharge = BTreeMap<ChargeId, ChargeSums>;

/// The sums of one charge's postings: the money that refunds and MED cases took, in minor units. The names in
/// rows are short, because a row has the sums of thousands of charges.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ChargeSums {
    /// The currency of the charge.
    #[serde(rename = "c")]
    pub(crate) currency: Currency,
    /// The amount of refunds in progress.
    #[serde(rename = "p", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) refunds_in_progress: MinorUnits,
    /// The amount of completed refunds.
    #[serde(rename = "r", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) refunded: MinorUnits,
    /// The acquirer's fees returned by refunds in progress or completed.
    #[serde(rename = "a", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) acquirer_fee_returned: MinorUnits,
    /// The platform's fees returned by refunds in progress or completed.
    #[serde(rename = "f", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) platform_fee_returned: MinorUnits,
    /// The amount retained for MED cases.
    #[serde(rename = "h", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) med_held: MinorUnits,
    /// The amount lost to MED cases.
    #[serde(rename = "l", default, skip_serializing_if = "MinorUnits::is_zero")]
    pub(crate) med_lost: MinorUnits,
}

impl ChargeSums {
    pub(crate) fn none(currency: Currency) -> Self {
        Self {
            currency,
            refunds_in_progress: MinorUnits::ZERO,
            refunded: MinorUnits::ZERO,
            acquirer_fee_returned: MinorUnits::ZERO,
            platform_fee_returned: MinorUnits::ZERO,
            med_held: MinorUnits::ZERO,
            med_lost: MinorUnits::ZERO,
        }
    }

    pub(crate) fn are_zero(&self) -> bool {
        *self == Self::none(self.currency)
    }

    /// Adds the sums of other postings of the charge.
    pub(crate) fn add_sums(&mut self, other: &Self) -> Result<(), MoneyError> {
        add_to_counter(&mut self.refunds_in_progress, other.refunds_in_progress)?;
        add_to_counter(&mut self.refunded, other.refunded)?;
        add_to_counter(&mut self.acquirer_fee_returned, other.acquirer_fee_returned)?;
        add_to_counter(&mut self.platform_fee_returned, other.platform_fee_returned)?;
        add_to_counter(&mut self.med_held, other.med_held)?;
        add_to_counter(&mut self.med_lost, other.med_lost)
    }

    fn add(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        use LedgerAccount::{AcquirerClearing, AcquirerFees, MedLosses, PlatformFees, RefundsInFlight};
        let moved = |from, to| {
            let matches = |transfer: &&Transfer| transfer.from == from && transfer.to == to;
            let transfers = posting.transfers.iter().filter(matches);
            MinorUnits::checked_sum(transfers.map(|transfer| transfer.minor))
        };
        add_to_counter(&mut self.med_held, posting.change(LedgerAccount::MerchantRetained)?)?;
        add_to_counter(&mut self.med_lost, posting.change(MedLosses)?)?;
        for (sum, fees) in
            [(&mut self.acquirer_fee_returned, AcquirerFees), (&mut self.platform_fee_returned, PlatformFees)]
        {
            add_to_counter(sum, moved(fees, RefundsInFlight)?.checked_sub(moved(RefundsInFlight, fees)?)?)?;
        }
        let paid = moved(RefundsInFlight, AcquirerClearing)?;
        add_to_counter(&mut self.refunded, paid)?;
        match posting.kind {
            PostingKind::Refund => {
                add_to_counter(&mut self.refunds_in_progress, posting.amount.checked_neg()?)
            }
            PostingKind::RefundCompleted | PostingKind::RefundCredit => {
                add_to_counter(&mut self.refunds_in_progress, paid.checked_neg()?)
            }
            PostingKind::RefundFailed => {
                let gross = posting.amount.checked_add(posting.change(MedLosses)?)?;
                add_to_counter(&mut self.refunds_in_progress, gross.checked_neg()?)
            }
            PostingKind::Settlement
            | PostingKind::ReviewHold
            | PostingKind::ReviewReturn
            | PostingKind::UnappliedReceipt
            | PostingKind::ReturnCompleted
            | PostingKind::Release
            | PostingKind::CaseOpened
            | PostingKind::CaseWon
            | PostingKind::CaseLost
            | PostingKind::Payout
            | PostingKind::PayoutPaid
            | PostingKind::PayoutFailed
            | PostingKind::Adjustment => Ok(()),
        }
    }
}

/// A counter, a tranche or an amount in a charge's funds that differs from the sum of its postings, in minor
/// units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The currency of the wallet.
    pub currency: Currency,
    /// The name of the compared number, such as `merchant_available credits` or `ch_… refunded`.
    pub figure: String,
    /// The sum of the postings.
    pub posted: i64,
    /// The stored value; if postings kept arriving, the bound that the sum violates.
    pub stored: i64,
}

/// The sums of postings by wallet.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct PostingSums {
    /// The number of postings.
    pub(crate) count: u64,
    wallets: BTreeMap<Currency, Wallet>,
}

impl PostingSums {
    /// Adds a posting to the sums of its wallet and of its charge.
    fn add(&mut self, posting: &Posting, charges: &mut SumsByCharge) -> Result<(), MoneyError> {
        self.count = self.count.saturating_add(1);
        let currency = posting.currency;
        if let Some(charge) = posting.subject.charge {
            charges.entry(charge).or_insert_with(|| ChargeSums::none(currency)).add(posting)?;
        }
        self.wallet(currency).post(posting)
    }

    /// Returns the wallet of a currency. A wallet without postings counts as one of the ledger too.
    fn wallet(&mut self, currency: Currency) -> &mut Wallet {
        self.wallets.entry(currency).or_insert_with(|| Wallet::empty(currency))
    }
}

/// Returns the lowest id of the newest postings at a time. All postings with lower ids are written.
pub(crate) fn newest_from(at: Timestamp) -> PostingId {
    PostingId::first_at(at.plus_seconds(-TAIL_SECONDS).unwrap_or(Timestamp::MIN))
}

/// Returns the name of the range of postings that a sort key of a shard belongs to: the sort key without the
/// id, and the shard. The postings of a range are in the order of their ids.
fn range_of(shard: Shard, sort: &str) -> String {
    shard.partition(sort.rsplit_once('#').map_or(sort, |(range, _)| range).to_owned())
}

/// The sums of the postings that were read in pages. The newest postings are left out.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OlderPostings {
    pub(crate) sums: PostingSums,
    /// How far each range of postings was summed.
    ends: BTreeMap<String, RangeEnd>,
    /// The end of the ranges in which no posting was found.
    default_end: PostingId,
}

/// How far a range of postings was summed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct RangeEnd {
    /// All postings with lower ids were summed, and no others.
    below: PostingId,
    /// Whether a posting beyond the end was found. Then the end does not move any more.
    is_final: bool,
}

impl OlderPostings {
    /// Returns the sums of no postings.
    pub(crate) fn none(started_at: Timestamp) -> Self {
        let default_end = newest_from(started_at);
        Self { sums: PostingSums::default(), ends: BTreeMap::new(), default_end }
    }

    /// Adds a posting of a page that was read after `read_at`, unless it is one of the newest.
    pub(crate) fn add(
        &mut self,
        posting: &Posting,
        read_at: Timestamp,
        charges: &mut SumsByCharge,
    ) -> Result<(), MoneyError> {
        let range = range_of(posting.shard, &posting.key().sk);
        let end = self.ends.get(&range).filter(|end| end.is_final);
        let below = end.map_or_else(|| newest_from(read_at), |end| end.below);
        let is_older = posting.id < below;
        self.ends.insert(range, RangeEnd { below, is_final: !is_older });
        if is_older {
            return self.sums.add(posting, charges);
        }
        // The comparison reads the newest postings of all wallets in the sums.
        self.sums.wallet(posting.currency);
        Ok(())
    }

    fn end_of(&self, shard: Shard, sort: &str) -> PostingId {
        self.ends.get(&range_of(shard, sort)).map_or(self.default_end, |end| end.below)
    }
}

/// The sums of all postings of a ledger. The newest ones may be read repeatedly.
pub(crate) struct AllPostings<'a> {
    /// The sums of all postings.
    pub(crate) sums: PostingSums,
    /// The sums of the newest postings of each charge.
    pub(crate) newest_of_charges: SumsByCharge,
    older: &'a OlderPostings,
    /// The newest postings that were added, so that repeated reads do not add them twice.
    added: BTreeSet<PostingId>,
}

impl<'a> AllPostings<'a> {
    /// Begins with the older postings.
    pub(crate) fn new(older: &'a OlderPostings) -> Self {
        let sums = older.sums.clone();
        Self { sums, newest_of_charges: SumsByCharge::new(), older, added: BTreeSet::new() }
    }
}

/// The result of one comparison of sums with counters.
pub(crate) struct Comparison {
    pub(crate) differences: Vec<Difference>,
    pub(crate) is_moving: bool,
}

impl Wallets {
    /// Reads a page of a shard's postings of all currencies. `after` is the sort key at which the previous page
    /// ended. Returns the postings, and the sort key at which this page ended; `None`: it is the last one.
    pub(crate) async fn postings(
        &self,
        (scope, shard): (&Scope, Shard),
        after: Option<&str>,
        limit: i32,
    ) -> Result<(Vec<Posting>, Option<String>), StoreError> {
        let (items, next) = self.store.page(&Posting::partition(scope, shard), after, limit).await?;
        Ok((items.into_iter().map(from_item).collect::<Result<_, _>>()?, next))
    }

    /// Adds the newest postings, and compares the sums with the counters of all currencies of a scope.
    pub(crate) async fn compare(
        &self,
        scope: &ShardedScope,
        posted: &mut AllPostings<'_>,
    ) -> Result<Comparison, StoreError> {
        let mut before = self.for_scope(scope).await?;
        for _tail in 0..MAX_TAIL_READS {
            self.add_newest(scope, &before, posted).await?;
            let after = self.for_scope(scope).await?;
            if before == after {
                return Ok(comparison(&before, &posted.sums, &after)?);
            }
            before = after;
        }
        self.add_newest(scope, &before, posted).await?;
        let after = self.for_scope(scope).await?;
        Ok(comparison(&before, &posted.sums, &after)?)
    }

    /// Reads the newest postings, and adds those that were not added before.
    async fn add_newest(
        &self,
        scope: &ShardedScope,
        counted: &BTreeMap<Currency, Wallet>,
        posted: &mut AllPostings<'_>,
    ) -> Result<(), StoreError> {
        let (first, last) = (PostingId::first_at(Timestamp::MIN), PostingId::last_at(Timestamp::MAX));
        // A currency that has neither counters nor postings so far is not read.
        let currencies: BTreeSet<Currency> =
            counted.keys().chain(posted.sums.wallets.keys()).copied().collect();
        for currency in currencies {
            for (shard, sort) in scope
                .shards
                .shards()
                .flat_map(|shard| [Posting::wallet_sort, Posting::other_sort].map(|sort| (shard, sort)))
            {
                let from = posted.older.end_of(shard, &sort(currency, first));
                let range = (sort(currency, from), sort(currency, last));
                let range = (range.0.as_str(), range.1.as_str());
                let partition = Posting::partition(&scope.scope, shard);
                for item in self.store.range(&partition, range, Order::OldestFirst, TAIL_PAGE).await? {
                    let posting: Posting = from_item(item)?;
                    if posted.added.insert(posting.id) {
                        posted.sums.add(&posting, &mut posted.newest_of_charges)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn comparison(
    before: &BTreeMap<Currency, Wallet>,
    posted: &PostingSums,
    after: &BTreeMap<Currency, Wallet>,
) -> Result<Comparison, MoneyError> {
    let currencies: BTreeSet<Currency> = before.keys().chain(posted.wallets.keys()).copied().collect();
    let mut differences = Vec::new();
    for currency in currencies {
        let of = |wallets: &BTreeMap<Currency, Wallet>| {
            wallets.get(&currency).cloned().unwrap_or_else(|| Wallet::empty(currency))
        };
        differences.extend(differences_of(&of(before), &of(&posted.wallets), &of(after))?);
    }
    Ok(Comparison { differences, is_moving: before != after })
}

fn differences_of(before: &Wallet, posted: &Wallet, after: &Wallet) -> Result<Vec<Difference>, MoneyError> {
    let mut found = Vec::new();
    let mut compare = |figure: String, least: MinorUnits, posted: MinorUnits, most: MinorUnits| {
        if posted < least || posted > most {
            let stored = if posted < least { least } else { most };
            let (posted, stored) = (posted.get(), stored.get());
            found.push(Difference { currency: before.currency, figure, posted, stored });
        }
    };
    for account in LedgerAccount::all() {
        let [least, posted, most] = [before, posted, after].map(|wallet| wallet.totals(account));
        compare(format!("{} credits", account.as_str()), least.credits, posted.credits, most.credits);
        compare(format!("{} debits", account.as_str()), least.debits, posted.debits, most.debits);
    }
    if before == after {
        let held = MinorUnits::checked_sum(after.releases().map(|release| release.minor))?;
        compare("merchant_pending against its tranches".to_owned(), held, after.pending()?, held);
        let days = posted.releases().chain(after.releases()).map(|release| release.day);
        for day in days.collect::<BTreeSet<_>>() {
            let stored = after.held_until(day);
            compare(format!("held until {}", day.starts_at()), stored, posted.held_until(day), stored);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use domain::wallet::{Cause, Subject, rules};

    use super::*;
    use crate::charge::testing::at;
    use crate::payout::testing::pending;

    fn with_credits(minor: i64) -> Wallet {
        let mut wallet = Wallet::empty(Currency::BRL);
        wallet.add_credits(LedgerAccount::MerchantAvailable, MinorUnits::new(minor)).unwrap();
        wallet
    }

    #[test]
    fn the_newest_postings_are_those_of_two_minutes_and_are_left_to_the_comparison() {
        assert_eq!(newest_from(at(600)), PostingId::first_at(at(480)));
        let payout = pending();
        for (second, is_older) in [(479, true), (480, false), (481, false)] {
            let cause = Cause {
                id: PostingId::first_at(at(second)),
                scope: payout.scope,
                shard: Shard::FIRST,
                currency: payout.currency,
                at: at(second),
                subject: Subject::default(),
            };
            let posting = rules::payout_requested(cause, payout.amount);
            let mut older = OlderPostings::none(at(0));
            older.add(&posting, at(600), &mut SumsByCharge::default()).unwrap();
            let wallet = older.sums.wallets.get(&payout.currency).unwrap();
            let debits = wallet.totals(LedgerAccount::MerchantAvailable).debits;
            assert_eq!(debits.get(), if is_older { 1000 } else { 0 }, "{second}");
            // The range ends at the first of the newest postings.
            assert!(older.ends.values().all(|end| end.is_final != is_older), "{second}");
        }
    }

    #[test]
    fn a_sum_of_postings_outside_two_reads_of_its_counter_is_a_difference() {
        let compared = |posted| {
            let found = differences_of(&with_credits(5), &with_credits(posted), &with_credits(9)).unwrap();
            found.iter().map(|found| (found.posted, found.stored)).collect::<Vec<_>>()
        };
        for agrees in 5..=9 {
            assert_eq!(compared(agrees), []);
        }
        assert_eq!((compared(3), compared(4)), (vec![(3, 5)], vec![(4, 5)]));
        assert_eq!(compared(10), [(10, 9)]);
    }

    #[test]
    fn sums_of_a_charge_are_zero_only_if_each_is() {
        assert!(ChargeSums::none(Currency::BRL).are_zero());
        assert!(!ChargeSums { med_lost: MinorUnits::new(1), ..ChargeSums::none(Currency::BRL) }.are_zero());
    }

    #[test]
    fn a_range_of_postings_has_one_shard_and_one_prefix() {
        let other = Shard::parse("1").unwrap();
        let ranges = [(Shard::FIRST, "BRL#a#01"), (Shard::FIRST, "BRL#b#01"), (other, "BRL#a#01")];
        let names = ranges.map(|(shard, sort)| range_of(shard, sort));
        assert!(names[0] != names[1] && names[0] != names[2], "{names:?}");
        assert_eq!(range_of(Shard::FIRST, "BRL#a#02"), names[0]);
    }
}
