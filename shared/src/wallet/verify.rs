//! Verifies a ledger: sums all postings again and compares the sums with the counters that balances are computed from.
//!
//! Postings may be written during the verification. So all postings are read once. Then the newest are read again
//! between two reads of the counters, until both reads of the counters are equal. On a ledger that never pauses, the
//! two reads serve as lower and upper bounds: counters only grow, and each posting is written together with them.
//!
//! Queries may see the rows of one transaction at different moments. So a difference is reported only if it persists
//! over several comparisons.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::ids::{ChargeId, PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{LedgerAccount, Posting, PostingKind, Transfer, Wallet, grow};

use crate::store::{Item, Order, StoreError, from_item};
use crate::wallet::Wallets;

/// How often the newest postings are read again, to find a moment without writes.
const MAX_TAIL_READS: usize = 10;

/// How often a difference is compared again before it is reported, and the pause before each comparison.
const RECHECKS: usize = 3;
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

/// The age, in seconds, up to which postings are read again. A posting carries the time at which its change began, and
/// is written later: up to 60 s, the time limit of a function.
const TAIL_SECONDS: i64 = 120;

/// The most postings that one read of the tail returns.
const TAIL_PAGE: usize = 100_000;

/// The result of a verification.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// The number of postings that were summed.
    pub postings: u64,
    /// The differences between the postings and the counters.
    pub differences: Vec<Difference>,
    /// True when postings kept arriving. Then counters were compared with bounds, and tranches were not compared.
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
    /// The acquirer's fees that refunds returned, in progress or completed.
    pub acquirer_fee_returned: MinorUnits,
    /// The platform's fees that refunds returned, in progress or completed.
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
        grow(&mut self.med_held, posting.change(LedgerAccount::MerchantRetained)?)?;
        grow(&mut self.med_lost, posting.change(MedLosses)?)?;
        for (sum, fees) in
            [(&mut self.acquirer_fee_returned, AcquirerFees), (&mut self.platform_fee_returned, PlatformFees)]
        {
            grow(sum, moved(fees, RefundsInFlight)?.checked_sub(moved(RefundsInFlight, fees)?)?)?;
        }
        let paid = moved(RefundsInFlight, AcquirerClearing)?;
        grow(&mut self.refunded, paid)?;
        match posting.kind {
            PostingKind::Refund => grow(&mut self.refunds_in_progress, posting.amount.checked_neg()?),
            PostingKind::RefundCompleted | PostingKind::RefundCredit => {
                grow(&mut self.refunds_in_progress, paid.checked_neg()?)
            }
            PostingKind::RefundFailed => {
                let gross = posting.amount.checked_add(posting.change(MedLosses)?)?;
                grow(&mut self.refunds_in_progress, gross.checked_neg()?)
            }
            PostingKind::Settlement
            | PostingKind::ReviewHold
            | PostingKind::ReviewReturn
            | PostingKind::UnappliedReceipt
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

/// A counter or tranche that differs from the sum of its postings, in minor units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The currency of the wallet.
    pub currency: Currency,
    /// The name of the counter or tranche, such as `merchant_available credits`.
    pub figure: String,
    /// The sum of the postings.
    pub posted: i64,
    /// The stored value. If postings kept arriving, the lower or upper bound that the sum violates.
    pub stored: i64,
}

/// Wallets and charges rebuilt from the postings alone.
#[derive(Default)]
struct Rebuilt {
    wallets: BTreeMap<Currency, Wallet>,
    charges: BTreeMap<ChargeId, ChargeSums>,
    /// The number of postings added.
    count: u64,
    /// The postings of the tail that were added, so that a further read does not add them twice.
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
    /// Verifies the ledgers of all currencies of a scope, at `now`. Calls `progress` with the number of postings read
    /// so far.
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

    /// Reads the newest postings again, and adds those that are new.
    async fn add_tail(
        &self,
        scope: &Scope,
        counted: &BTreeMap<Currency, Wallet>,
        posted: &mut Rebuilt,
        tail_from: Timestamp,
    ) -> Result<(), StoreError> {
        let (from, to) = (PostingId::first_at(tail_from), PostingId::last_at(Timestamp::MAX));
        // A currency without counters and without postings so far has no postings to read.
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
    let mut compare = |what: String, least: MinorUnits, posted: MinorUnits, most: MinorUnits| {
        if posted < least || posted > most {
            let kept = if posted < least { least } else { most };
            let (posted, kept) = (posted.get(), kept.get());
            found.push(Difference { currency: before.currency, figure: what, posted, stored: kept });
        }
    };
    for account in LedgerAccount::all() {
        let [least, made, most] = [before, posted, after].map(|wallet| wallet.totals(account));
        compare(format!("{} credits", account.as_str()), least.credits, made.credits, most.credits);
        compare(format!("{} debits", account.as_str()), least.debits, made.debits, most.debits);
    }
    if before == after {
        let held = MinorUnits::checked_sum(after.releases().map(|release| release.minor))?;
        compare("merchant_pending against its tranches".to_owned(), held, after.pending()?, held);
        let days = posted.releases().chain(after.releases()).map(|release| release.day);
        for day in days.collect::<BTreeSet<_>>() {
            let kept = after.held_until(day);
            compare(format!("held until {}", day.starts_at()), kept, posted.held_until(day), kept);
        }
    }
    Ok(found)
}
