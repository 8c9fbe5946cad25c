//! Compares sums of postings with the counters that balances are computed from.
//!
//! Postings may be written during the comparison. So it has these steps:
//!
//! 1. The postings that were older than two minutes at the beginning were summed before
//!    ([`crate::services::verify_ledger`]).
//! 2. It reads the counters, then the newest postings, then the counters again.
//! 3. If the two reads of the counters differ, a posting was written in between, and step 2 is repeated, at
//!    most ten times.
//! 4. If they still differ, the first read is a lower bound of the sums, and the second an upper bound. That
//!    is so because counters only grow, and a posting and its counters are written in one transaction.
//!
//! A query may see only some rows of a transaction. So the caller repeats a comparison that finds differences.

use std::collections::{BTreeMap, BTreeSet};

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

/// How many of the newest postings are read together.
const TAIL_PAGE: usize = 10_000;

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

/// The sums of one charge's postings: the money that refunds and MED cases took, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChargeSums {
    /// The currency of the charge.
    pub(crate) currency: Currency,
    /// The amount of refunds in progress.
    pub(crate) refunds_in_progress: MinorUnits,
    /// The amount of completed refunds.
    pub(crate) refunded: MinorUnits,
    /// The acquirer's fees returned by refunds in progress or completed.
    pub(crate) acquirer_fee_returned: MinorUnits,
    /// The platform's fees returned by refunds in progress or completed.
    pub(crate) platform_fee_returned: MinorUnits,
    /// The amount retained for MED cases.
    pub(crate) med_held: MinorUnits,
    /// The amount lost to MED cases.
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

/// Returns the lowest id of the newest postings at a time. All postings with lower ids are written.
fn newest_from(at: Timestamp) -> PostingId {
    PostingId::first_at(at.plus_seconds(-TAIL_SECONDS).unwrap_or(Timestamp::MIN))
}

/// The sums of the postings of a ledger. Those that are older than the newest ones are added once. The newest
/// ones may be read repeatedly.
pub(crate) struct Postings {
    /// The number of postings in the sums.
    count: u64,
    wallets: BTreeMap<Currency, Wallet>,
    /// The newest postings begin at this id.
    newest_from: PostingId,
    newest_of_charges: SumsByCharge,
    /// The newest postings that were added, so that repeated reads do not add them twice.
    added: BTreeSet<PostingId>,
}

impl Postings {
    /// Returns the sums of no postings. `now` determines which postings are the newest.
    pub(crate) fn before(now: Timestamp) -> Self {
        Self {
            count: 0,
            wallets: BTreeMap::new(),
            newest_from: newest_from(now),
            newest_of_charges: SumsByCharge::new(),
            added: BTreeSet::new(),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The sums of the newest postings of each charge.
    pub(crate) fn newest_of_charges(&self) -> &SumsByCharge {
        &self.newest_of_charges
    }

    /// Adds a posting, and adds it to the sums of its charge, unless it is one of the newest. The comparison reads
    /// the newest postings of all wallets in the sums.
    pub(crate) fn add_older(
        &mut self,
        posting: &Posting,
        charges: &mut SumsByCharge,
    ) -> Result<(), MoneyError> {
        if posting.id >= self.newest_from {
            self.wallet(posting.currency);
            return Ok(());
        }
        add_to_charge(posting, charges)?;
        self.add(posting)
    }

    fn add_newest(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        if !self.added.insert(posting.id) {
            return Ok(());
        }
        add_to_charge(posting, &mut self.newest_of_charges)?;
        self.add(posting)
    }

    fn add(&mut self, posting: &Posting) -> Result<(), MoneyError> {
        self.count = self.count.saturating_add(1);
        self.wallet(posting.currency).post(posting)
    }

    fn wallet(&mut self, currency: Currency) -> &mut Wallet {
        self.wallets.entry(currency).or_insert_with(|| Wallet::empty(currency))
    }
}

fn add_to_charge(posting: &Posting, charges: &mut SumsByCharge) -> Result<(), MoneyError> {
    let Some(charge) = posting.subject.charge else { return Ok(()) };
    charges.entry(charge).or_insert_with(|| ChargeSums::none(posting.currency)).add(posting)
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
        posted: &mut Postings,
    ) -> Result<Comparison, StoreError> {
        let mut before = self.for_scope(scope).await?;
        for _tail in 0..MAX_TAIL_READS {
            self.add_newest(scope, &before, posted).await?;
            let after = self.for_scope(scope).await?;
            if before == after {
                return Ok(comparison(&before, posted, &after)?);
            }
            before = after;
        }
        self.add_newest(scope, &before, posted).await?;
        let after = self.for_scope(scope).await?;
        Ok(comparison(&before, posted, &after)?)
    }

    /// Reads the newest postings, and adds those that were not added before.
    async fn add_newest(
        &self,
        scope: &ShardedScope,
        counted: &BTreeMap<Currency, Wallet>,
        posted: &mut Postings,
    ) -> Result<(), StoreError> {
        // A currency that has neither counters nor postings so far is not read.
        let currencies: BTreeSet<Currency> = counted.keys().chain(posted.wallets.keys()).copied().collect();
        for currency in currencies {
            for (shard, sort) in scope
                .shards
                .shards()
                .flat_map(|shard| [Posting::wallet_sort, Posting::other_sort].map(|sort| (shard, sort)))
            {
                let partition = Posting::partition(&scope.scope, shard);
                let last = sort(currency, PostingId::last_at(Timestamp::MAX));
                let mut from = sort(currency, posted.newest_from);
                loop {
                    let range = (from.as_str(), last.as_str());
                    let items = self.store.range(&partition, range, Order::OldestFirst, TAIL_PAGE).await?;
                    let is_last = items.len() < TAIL_PAGE;
                    for item in items {
                        let posting: Posting = from_item(item)?;
                        from = posting.key().sk;
                        posted.add_newest(&posting)?;
                    }
                    if is_last {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn comparison(
    before: &BTreeMap<Currency, Wallet>,
    posted: &Postings,
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

    fn posting_at(second: i64) -> Posting {
        let payout = pending();
        let cause = Cause {
            id: PostingId::first_at(at(second)),
            scope: payout.scope,
            shard: Shard::FIRST,
            currency: payout.currency,
            at: at(second),
            subject: Subject::default(),
        };
        rules::payout_requested(cause, payout.amount)
    }

    fn with_credits(minor: i64) -> Wallet {
        let mut wallet = Wallet::empty(Currency::BRL);
        wallet.add_credits(LedgerAccount::MerchantAvailable, MinorUnits::new(minor)).unwrap();
        wallet
    }

    #[test]
    fn the_newest_postings_are_those_of_two_minutes_and_are_left_to_the_comparison() {
        for (second, is_older) in [(479, true), (480, false), (481, false)] {
            let mut posted = Postings::before(at(600));
            posted.add_older(&posting_at(second), &mut SumsByCharge::default()).unwrap();
            let wallet = posted.wallets.get(&pending().currency).unwrap();
            let debits = wallet.totals(LedgerAccount::MerchantAvailable).debits;
            assert_eq!(debits.get(), if is_older { 1000 } else { 0 }, "{second}");
        }
    }

    #[test]
    fn a_newest_posting_that_is_read_twice_is_added_once() {
        let mut posted = Postings::before(at(600));
        posted.add_newest(&posting_at(600)).unwrap();
        posted.add_newest(&posting_at(600)).unwrap();
        assert_eq!(posted.count(), 1);
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
}
