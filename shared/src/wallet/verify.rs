//! Checks a ledger: adds up every posting again, and compares with the counters that balances are read from.
//!
//! A ledger that is in use moves meanwhile. So the postings are read once, whole, and then only the newest ones again,
//! between two reads of the counters, until nothing moved in between. On a ledger that never rests the two reads are bounds,
//! milliseconds apart: counters only grow, and a posting is written with them.
//!
//! A transaction's rows need not become visible to queries at one moment. So a difference counts when it is still there a
//! moment later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::ids::{ChargeId, PostingId, Scope};
use domain::money::{Currency, MinorUnits, MoneyError};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use domain::wallet::{Kind, LedgerAccount, Posting, Transfer, Wallet, grow};

use crate::store::{Item, Order, StoreError, from_item};
use crate::wallet::Wallets;

/// How often the newest postings are read again for a moment of rest.
const MAX_TAILS: usize = 10;

/// How often a difference is looked at again, and after how long, before it counts.
const SECOND_LOOKS: usize = 3;
const BEFORE_SECOND_LOOK: Duration = Duration::from_millis(250);

/// A posting is named by the time at which its change began, and is written somewhat later: a function ends after 60 s.
const TAIL_SECONDS: i64 = 120;

/// The newest postings that are read at once.
const TAIL_PAGE: usize = 100_000;

/// What a check found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// Postings that were added up.
    pub postings: u64,
    /// Where they and the counters disagree.
    pub differences: Vec<Difference>,
    /// Whether the ledger never rested, so that counters were compared with bounds, and tranches were not.
    pub moved: bool,
    /// What the postings say of each charge that they are about.
    pub charges: BTreeMap<ChargeId, ChargeSums>,
}

/// What the postings about one charge add up to: what refunds and MED cases took of its money.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChargeSums {
    /// The currency of the charge.
    pub currency: Currency,
    /// In refunds under way.
    pub refunds_in_progress: MinorUnits,
    /// Refunded.
    pub refunded: MinorUnits,
    /// The acquirer's fee that refunds returned, under way and done.
    pub acquirer_fee_returned: MinorUnits,
    /// The platform's fee that they did.
    pub platform_fee_returned: MinorUnits,
    /// Retained for MED cases.
    pub med_held: MinorUnits,
    /// Lost to them.
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
            let is_such = |transfer: &&Transfer| transfer.from == from && transfer.to == to;
            let such = posting.transfers.iter().filter(is_such);
            MinorUnits::checked_sum(such.map(|transfer| transfer.minor))
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
            Kind::Refund => grow(&mut self.refunds_in_progress, posting.amount.checked_neg()?),
            Kind::RefundCompleted | Kind::RefundCredit => {
                grow(&mut self.refunds_in_progress, paid.checked_neg()?)
            }
            Kind::RefundFailed => {
                let gross = posting.amount.checked_add(posting.change(MedLosses)?)?;
                grow(&mut self.refunds_in_progress, gross.checked_neg()?)
            }
            Kind::Settlement
            | Kind::ReviewHold
            | Kind::ReviewReturn
            | Kind::UnappliedReceipt
            | Kind::Release
            | Kind::CaseOpened
            | Kind::CaseWon
            | Kind::CaseLost
            | Kind::Payout
            | Kind::PayoutPaid
            | Kind::PayoutFailed
            | Kind::Adjustment => Ok(()),
        }
    }
}

/// Something that does not add up, in minor units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// In which currency.
    pub currency: Currency,
    /// What: `merchant_available credits`.
    pub what: String,
    /// What the postings add up to.
    pub posted: i64,
    /// What is kept.
    pub kept: i64,
}

/// Wallets as the postings alone make them.
#[derive(Default)]
struct Posted {
    wallets: BTreeMap<Currency, Wallet>,
    charges: BTreeMap<ChargeId, ChargeSums>,
    count: u64,
    /// Those since the tail begins: they may be read again.
    recent: BTreeSet<PostingId>,
}

impl Posted {
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
    /// Checks all ledgers of a scope, at `now`. `progress` is told the number of postings so far.
    ///
    /// # Errors
    ///
    /// When the database does not answer, or a row can't be read.
    pub async fn verify(
        &self,
        scope: &Scope,
        now: Timestamp,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Verification, StoreError> {
        let tail_from = now.plus_seconds(-TAIL_SECONDS).unwrap_or(Timestamp::MIN);
        let mut posted = Posted::default();
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
        for _look in 0..SECOND_LOOKS {
            if found.differences.is_empty() {
                break;
            }
            tokio::time::sleep(BEFORE_SECOND_LOOK).await;
            found = self.compare(scope, &mut posted, tail_from).await?;
        }
        Ok(found)
    }

    async fn compare(
        &self,
        scope: &Scope,
        posted: &mut Posted,
        tail_from: Timestamp,
    ) -> Result<Verification, StoreError> {
        let mut before = self.of(scope).await?;
        for _tail in 0..MAX_TAILS {
            self.add_tail(scope, &before, posted, tail_from).await?;
            let after = self.of(scope).await?;
            if before == after {
                return Ok(verification(&before, posted, &after)?);
            }
            before = after;
        }
        self.add_tail(scope, &before, posted, tail_from).await?;
        let after = self.of(scope).await?;
        Ok(verification(&before, posted, &after)?)
    }

    /// Reads the newest postings again, and adds those that were not seen before.
    async fn add_tail(
        &self,
        scope: &Scope,
        kept: &BTreeMap<Currency, Wallet>,
        posted: &mut Posted,
        tail_from: Timestamp,
    ) -> Result<(), StoreError> {
        let (from, to) = (PostingId::first_at(tail_from), PostingId::last_at(Timestamp::MAX));
        // A currency in which nothing was posted and nothing is kept has no postings.
        let currencies: BTreeSet<Currency> = kept.keys().chain(posted.wallets.keys()).copied().collect();
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
    posted: &Posted,
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
        moved: before != after,
        charges: posted.charges.clone(),
    })
}

fn differences_of(before: &Wallet, posted: &Wallet, after: &Wallet) -> Result<Vec<Difference>, MoneyError> {
    let mut found = Vec::new();
    let mut compare = |what: String, least: MinorUnits, posted: MinorUnits, most: MinorUnits| {
        if posted < least || posted > most {
            let kept = if posted < least { least } else { most };
            let (posted, kept) = (posted.get(), kept.get());
            found.push(Difference { currency: before.currency, what, posted, kept });
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
