//! Compares sums of postings with the counters that balances are computed from. Postings may be written during
//! the comparison:
//!
//! 1. The postings that were older than two minutes at the beginning were summed before
//!    (`services::verify_ledger`).
//! 2. The counters are read, then the newest postings, then the counters again.
//! 3. If the two reads of the counters differ, a posting was written in between, and step 2 is repeated, at
//!    most ten times.
//! 4. If they still differ, the first read is a lower bound of the sums, and the second an upper bound, because
//!    counters only grow, and a posting and its counters are written in one transaction.
//!
//! With [`VerifiedSums`], step 1 only reads the postings after them. Then only the charges that were created after
//! them are compared.
//!
//! A query may see only some rows of a transaction. So the caller repeats a comparison that finds differences.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use domain::calendar::Day;
use domain::ids::{ChargeId, PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::row::Key;
use domain::shard::{Shard, ShardedScope};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{LedgerAccount, Posting, PostingKind, Transfer, Wallet, add_to_counter};
use serde::{Deserialize, Serialize};

use crate::wallet::Wallets;
use shared::store::{Result, RowUpdate, StoreError, from_item};

const MAX_TAIL_READS: usize = 10;

/// In seconds. A posting's time is when its change began. It is written up to 60 s later, the longest time
/// limit of a function.
const TAIL_SECONDS: i64 = 120;

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    pub postings: u64,
    /// Between the postings and the counters, then between the postings and the funds of charges.
    pub differences: Vec<Difference>,
    /// True if postings kept arriving. Then their sums were compared with two reads of the counters as bounds,
    /// and the tranches were not compared.
    pub is_moving: bool,
    /// From which the next verification may go on if there was no difference.
    pub sums: VerifiedSums,
}

/// The sums of all postings of a scope before an id, as a verification without a difference left them. So the next one
/// need not read these postings.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct VerifiedSums {
    before: Option<PostingId>,
    wallets: Vec<Wallet>,
    /// When all postings were read.
    pub whole_on: Option<Day>,
}

fn sums_key(scope: &Scope) -> Key {
    Key { pk: format!("verified#{scope}"), sk: "sums".to_owned() }
}

const SUMS: &str = "sums";

pub type SumsByCharge = BTreeMap<ChargeId, ChargeSums>;

/// The money that refunds and MED cases took, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChargeSums {
    pub currency: Currency,
    pub refunds_in_progress: MinorUnits,
    pub refunded: MinorUnits,
    /// By refunds in progress or completed.
    pub acquirer_fee_returned: MinorUnits,
    pub platform_fee_returned: MinorUnits,
    pub med_held: MinorUnits,
    pub med_lost: MinorUnits,
}

impl ChargeSums {
    pub fn none(currency: Currency) -> Self {
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

    pub fn are_zero(&self) -> bool {
        *self == Self::none(self.currency)
    }

    pub fn add_sums(&mut self, other: &Self) -> Result<(), MoneyError> {
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
            | PostingKind::DisputeFees
            | PostingKind::AcquirerCosts
            | PostingKind::Payout
            | PostingKind::PayoutPaid
            | PostingKind::PayoutFailed
            | PostingKind::Adjustment
            | PostingKind::SelfCustody
            | PostingKind::Fee => Ok(()),
        }
    }
}

/// A stored value that differs from the sum of its postings, in minor units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    pub currency: Currency,
    /// Such as `merchant_available credits` or `ch_… refunded`.
    pub figure: String,
    pub posted: i64,
    /// If postings kept arriving, the bound that the sum violates.
    pub stored: i64,
}

/// All postings with lower ids are written.
fn newest_from(at: Timestamp) -> PostingId {
    PostingId::first_at(at.plus_seconds(-TAIL_SECONDS).unwrap_or(Timestamp::MIN))
}

/// Older postings are added once. The newest ones may be read repeatedly.
pub struct Postings {
    count: u64,
    wallets: BTreeMap<Currency, Wallet>,
    /// The first of those that are not in sums which an earlier verification left. `None`: all are read.
    read_from: Option<PostingId>,
    newest_from: PostingId,
    newest_of_charges: SumsByCharge,
    /// So that repeated reads do not add the newest postings twice.
    added: BTreeSet<PostingId>,
}

impl Postings {
    /// `now` determines which postings are the newest. Those of `since` are in its sums.
    pub fn before(now: Timestamp, since: VerifiedSums) -> Self {
        Self {
            count: 0,
            wallets: since.wallets.into_iter().map(|wallet| (wallet.currency, wallet)).collect(),
            read_from: since.before,
            newest_from: newest_from(now),
            newest_of_charges: SumsByCharge::new(),
            added: BTreeSet::new(),
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn newest_of_charges(&self) -> &SumsByCharge {
        &self.newest_of_charges
    }

    /// All postings of a charge that was created since then are read.
    pub fn read_from(&self) -> Timestamp {
        self.read_from.and_then(|id| id.timestamp()).unwrap_or(Timestamp::MIN)
    }

    /// The sums of all but the newest postings. `whole_on`: when all of them were read.
    pub fn sums(&self, whole_on: Option<Day>) -> VerifiedSums {
        let wallets = self.wallets.values().map(Wallet::without_released).collect();
        VerifiedSums { before: Some(self.newest_from), wallets, whole_on }
    }

    /// Leaves out the newest postings of wallets in the sums, which the comparison reads.
    pub fn add_older(&mut self, posting: &Posting, charges: &mut SumsByCharge) -> Result<(), MoneyError> {
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

pub struct Comparison {
    pub differences: Vec<Difference>,
    pub is_moving: bool,
}

impl Wallets {
    /// A page of a shard's postings of all currencies after the sort key `after`. Also returns the sort key at
    /// which it ended; `None`: it is the last one.
    pub async fn postings(
        &self,
        (scope, shard): (&Scope, Shard),
        after: Option<&str>,
        limit: i32,
    ) -> Result<(Vec<Posting>, Option<String>)> {
        let (items, next) = self.store.page(&Posting::partition(scope, shard), after, limit).await?;
        Ok((items.into_iter().map(from_item).collect::<Result<_, _>>()?, next))
    }

    /// Adds the postings after the sums from which `posted` began, and before the newest ones. Returns what they add to
    /// charges.
    pub async fn add_since(&self, scope: &ShardedScope, posted: &mut Postings) -> Result<SumsByCharge> {
        let mut charges = SumsByCharge::new();
        let counted = self.for_scope(scope).await?;
        let currencies: BTreeSet<Currency> = counted.keys().chain(posted.wallets.keys()).copied().collect();
        let range = (posted.read_from.unwrap_or(PostingId::first_at(Timestamp::MIN)), posted.newest_from);
        for currency in currencies {
            let (mut last, mut added) = (None, Ok(()));
            self.each_posting(scope, currency, range, |posting| {
                // The last one of a page is read twice.
                if last.replace(posting.id) != Some(posting.id) && added.is_ok() {
                    added = posted.add_older(&posting, &mut charges);
                }
            })
            .await?;
            added?;
        }
        Ok(charges)
    }

    /// `None`: none are kept, so all postings must be read.
    pub async fn verified_sums(&self, scope: &Scope) -> Result<Option<VerifiedSums>> {
        let Some(row) = self.store.get_item(&sums_key(scope)).await? else { return Ok(None) };
        let sums = row.get(SUMS).and_then(|sums| sums.as_s().ok());
        // What another version of the service wrote is not used.
        Ok(sums.and_then(|sums| serde_json::from_str(sums).ok()))
    }

    /// Keeps the sums for the next verification. `None`: it must read all postings.
    pub async fn keep_verified_sums(&self, scope: &Scope, sums: Option<&VerifiedSums>) -> Result<()> {
        let sums = serde_json::to_string(&sums).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        RowUpdate::of(sums_key(scope)).set(SUMS, AttributeValue::S(sums)).run(&self.store).await.map(drop)
    }

    pub async fn compare(&self, scope: &ShardedScope, posted: &mut Postings) -> Result<Comparison> {
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

    async fn add_newest(
        &self,
        scope: &ShardedScope,
        counted: &BTreeMap<Currency, Wallet>,
        posted: &mut Postings,
    ) -> Result<()> {
        // A currency that has neither counters nor postings so far is not read.
        let currencies: BTreeSet<Currency> = counted.keys().chain(posted.wallets.keys()).copied().collect();
        let range = (posted.newest_from, PostingId::last_at(Timestamp::MAX));
        for currency in currencies {
            let mut newest = Vec::new();
            self.each_posting(scope, currency, range, |posting| newest.push(posting)).await?;
            for posting in &newest {
                posted.add_newest(posting)?;
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
            let mut posted = Postings::before(at(600), VerifiedSums::default());
            posted.add_older(&posting_at(second), &mut SumsByCharge::default()).unwrap();
            let wallet = posted.wallets.get(&pending().currency).unwrap();
            let debits = wallet.totals(LedgerAccount::MerchantAvailable).debits;
            assert_eq!(debits.get(), if is_older { 1000 } else { 0 }, "{second}");
        }
    }

    #[test]
    fn a_newest_posting_that_is_read_twice_is_added_once() {
        let mut posted = Postings::before(at(600), VerifiedSums::default());
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
