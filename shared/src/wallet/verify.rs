//! Verifies a ledger: sums all postings and compares the sums with the counters that balances are computed
//! from.
//!
//! Postings may be written during the verification. So it has these steps:
//!
//! 1. It reads all postings once.
//! 2. It reads the counters, then the newest postings again, then the counters again.
//! 3. If the two reads of the counters differ, a posting was written in between, and step 2 is repeated, at
//!    most ten times.
//! 4. If they still differ, the first read is a lower bound of the sums, and the second an upper bound. That
//!    is so because counters only grow, and a posting and its counters are written in one transaction.
//!
//! A query may see only some rows of a transaction. So a difference is reported only if repeated comparisons
//! still find it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::ids::{ChargeId, PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{LedgerAccount, Posting, PostingKind, Transfer, Wallet, add_to_counter};

use crate::store::{Item, Order, StoreError, from_item};
use crate::wallet::Wallets;

/// How often the counters and the newest postings are read again, to find two equal reads of the counters.
const MAX_TAIL_READS: usize = 10;

/// How often a comparison that found differences is repeated, and the pause before each repetition.
const RECHECKS: usize = 3;
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

/// The age, in seconds, of the oldest postings that are read again. A posting's time is when its change
/// began. It is written up to 60 s later, the longest time limit of a function.
const TAIL_SECONDS: i64 = 120;

/// The most postings that one query returns when it reads the newest postings again.
const TAIL_PAGE: usize = 100_000;

/// The result of a verification.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// The number of postings that were summed.
    pub postings: u64,
    /// The differences between the postings and the counters. `services::verify_ledger` adds those between
    /// the postings and the funds of charges.
    pub differences: Vec<Difference>,
    /// True if postings kept arriving. Then their sums were compared with two reads of the counters as
    /// bounds, and the tranches were not compared.
    pub is_moving: bool,
    /// The sums of the postings of each charge.
    pub charges: BTreeMap<ChargeId, ChargeSums>,
}

/// The sums of one charge's postings: the money that refunds and MED cases took, in minor units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChargeSums {
    /// The currency of the charge.
    pub currency: Currency,
    /// The amount of refunds in progress.
    pub refunds_in_progress: MinorUnits,
    /// The amount of completed refunds.
    pub refunded: MinorUnits,
    /// The acquirer's fees returned by refunds in progress or completed.
    pub acquirer_fee_returned: MinorUnits,
    /// The platform's fees returned by refunds in progress or completed.
    pub platform_fee_returned: MinorUnits,
    /// The amount retained for MED cases.
    pub med_held: MinorUnits,
    /// The amount lost to MED cases.
    pub med_lost: MinorUnits,
}

impl ChargeSums {
    fn none(currency: Currency) -> Self {
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

/// Wallets and charges rebuilt from the postings alone.
#[derive(Default)]
struct Rebuilt {
    wallets: BTreeMap<Currency, Wallet>,
    charges: BTreeMap<ChargeId, ChargeSums>,
    /// The number of postings added.
    count: u64,
    /// The newest postings that were added, so that repeated reads do not add them twice.
    recent: BTreeSet<PostingId>,
}

impl Rebuilt {
    fn add(&mut self, item: Item, tail_from: Timestamp) -> Result<(), StoreError> {
        let posting: Posting = from_item(item)?;
        if posting.at >= tail_from && !self.recent.insert(posting.id) {
            return Ok(());
        }
        self.count = self.count.saturating_add(1);
        let currency = posting.currency;
        if let Some(charge) = posting.subject.charge {
            self.charges.entry(charge).or_insert_with(|| ChargeSums::none(currency)).add(&posting)?;
        }
        self.wallets.entry(currency).or_insert_with(|| Wallet::empty(currency)).post(&posting)?;
        Ok(())
    }
}

impl Wallets {
    /// Verifies the ledgers of all currencies of a scope. `now` determines which postings are the newest.
    /// Calls `progress` with the number of postings read so far.
    ///
    /// # Errors
    ///
    /// When the database does not answer, or a row can't be decoded.
    pub async fn verify(
        &self,
        scope: &Scope,
        now: Timestamp,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Verification, StoreError> {
        let tail_from = now.plus_seconds(-TAIL_SECONDS).unwrap_or(Timestamp::MIN);
        let mut posted = Rebuilt::default();
        let mut after = None;
        loop {
            let (items, next) = self.store.page(&Posting::partition(scope), after).await?;
            for item in items {
                posted.add(item, tail_from)?;
            }
            progress(posted.count);
            after = next;
            if after.is_none() {
                break;
            }
        }
        let mut found = self.compare(scope, &mut posted, tail_from).await?;
        for _recheck in 0..RECHECKS {
            if found.differences.is_empty() {
                break;
            }
            tokio::time::sleep(BEFORE_RECHECK).await;
            found = self.compare(scope, &mut posted, tail_from).await?;
        }
        Ok(found)
    }

    async fn compare(
        &self,
        scope: &Scope,
        posted: &mut Rebuilt,
        tail_from: Timestamp,
    ) -> Result<Verification, StoreError> {
        let mut before = self.for_scope(scope).await?;
        for _tail in 0..MAX_TAIL_READS {
            self.add_tail(scope, &before, posted, tail_from).await?;
            let after = self.for_scope(scope).await?;
            if before == after {
                return Ok(verification(&before, posted, &after)?);
            }
            before = after;
        }
        self.add_tail(scope, &before, posted, tail_from).await?;
        let after = self.for_scope(scope).await?;
        Ok(verification(&before, posted, &after)?)
    }

    /// Reads the newest postings again, and adds those that were not added before.
    async fn add_tail(
        &self,
        scope: &Scope,
        counted: &BTreeMap<Currency, Wallet>,
        posted: &mut Rebuilt,
        tail_from: Timestamp,
    ) -> Result<(), StoreError> {
        let (from, to) = (PostingId::first_at(tail_from), PostingId::last_at(Timestamp::MAX));
        // A currency that has neither counters nor postings so far is not read.
        let currencies: BTreeSet<Currency> = counted.keys().chain(posted.wallets.keys()).copied().collect();
        for currency in currencies {
            for sort in [Posting::wallet_sort, Posting::other_sort] {
                let range = (sort(currency, from), sort(currency, to));
                let range = (range.0.as_str(), range.1.as_str());
                let partition = Posting::partition(scope);
                for item in self.store.range(&partition, range, Order::OldestFirst, TAIL_PAGE).await? {
                    posted.add(item, tail_from)?;
                }
            }
        }
        Ok(())
    }
}

fn verification(
    before: &BTreeMap<Currency, Wallet>,
    posted: &Rebuilt,
    after: &BTreeMap<Currency, Wallet>,
) -> Result<Verification, MoneyError> {
    let currencies: BTreeSet<Currency> = before.keys().chain(posted.wallets.keys()).copied().collect();
    let mut differences = Vec::new();
    for currency in currencies {
        let of = |wallets: &BTreeMap<Currency, Wallet>| {
            wallets.get(&currency).cloned().unwrap_or_else(|| Wallet::empty(currency))
        };
        differences.extend(differences_of(&of(before), &of(&posted.wallets), &of(after))?);
    }
    Ok(Verification {
        postings: posted.count,
        differences,
        is_moving: before != after,
        charges: posted.charges.clone(),
    })
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
