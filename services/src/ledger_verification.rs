//! Compares the sums of a ledger's postings with the counters of its wallets, and with the funds in the rows of
//! its charges.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use domain::calendar::Day;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Scope};
use domain::money::{MinorUnits, MoneyError};
use domain::shard::{Shard, ShardedScope};
use domain::time::Timestamp;

use money::charge::Charges;
use money::wallet::Wallets;
use money::wallet::verify::{
    ChargeSums, Comparison, Difference, Postings, SumsByCharge, Verification, VerifiedSums,
};
use shared::store::Result;

/// About 1 MB, the most that one query returns.
const POSTINGS_PER_READ: i32 = 2_000;
const CHARGES_PER_READ: usize = 1_000;

/// If more charges differ, the others are not reported.
const MAX_SUSPECTS: usize = 1_000;

/// How often a comparison that found differences is repeated, and the pause before each repetition.
const RECHECKS: usize = 3;
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

/// The most days from one verification of all postings to the next, if the one of the account's turn did not end.
const DAYS_BETWEEN_WHOLE: i64 = 7;

/// `now` determines which postings are the newest. Calls `progress` with the number of postings read so far.
/// Postings, counters and charges change meanwhile. So a difference is reported only if repeated comparisons
/// and a second verification of the whole ledger still find it; that of a charge, only if its postings and its row did
/// not change between two comparisons. The second verification also reads postings with an older time, such as a
/// repeated adjustment, and new shards.
pub async fn verify_ledger(
    sources: (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification> {
    let found = Box::pin(verify_once(sources, scope, now, VerifiedSums::default(), progress)).await?;
    if found.differences.is_empty() {
        return Ok(found);
    }
    // The only trace of the differences if the caller's time ends meanwhile.
    let differences = found.differences.len();
    tracing::warn!(%scope, differences, "a ledger may differ from its postings; it is verified again");
    Box::pin(verify_once(sources, scope, now, VerifiedSums::default(), progress)).await
}

/// As [`verify_ledger`], but reads only the postings after those that the last verification read. It reads all of
/// them on the account's turn, which comes once in seven days, a week after all were read at the latest, and if it finds a
/// difference.
pub async fn verify_newest(
    sources: (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
) -> Result<Verification> {
    let (today, since) = (Day::of(now), sources.0.verified_sums(scope).await?);
    let is_recent = |sums: &VerifiedSums| {
        let age = sums.whole_on.map(|day| today.number().saturating_sub(day.number()));
        age.is_some_and(|age| age == 0 || (age <= DAYS_BETWEEN_WHOLE && !scope.account.has_turn_on(today)))
    };
    let found = match since.filter(is_recent) {
        Some(since) => Some(Box::pin(verify_once(sources, scope, now, since, &|_| {})).await?),
        None => None,
    };
    let found = match found {
        Some(found) if found.differences.is_empty() => found,
        _ => verify_ledger(sources, scope, now, &|_| {}).await?,
    };
    let sums = Some(&found.sums).filter(|_| found.differences.is_empty());
    sources.0.keep_verified_sums(scope, sums).await?;
    Ok(found)
}

/// Most charges only have a settlement, which changes none of the sums of the charge. Such a charge is compared
/// with its row at once, and its sums are not kept. The other charges are compared at the end.
async fn verify_once(
    (wallets, charges): (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    since: VerifiedSums,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification> {
    let whole_on = since.whole_on;
    let (mut posted, mut sums) = (Postings::before(now, since), SumsByCharge::new());
    let charges = Comparable { charges, created_from: posted.read_from() };
    let scope = if whole_on.is_some() {
        let scope = wallets.sharded_scope(scope).await?;
        let added = wallets.add_since(&scope, &mut posted).await?;
        charges.add(&mut sums, added).await?;
        scope
    } else {
        read_all((wallets, &charges), scope, (&mut posted, &mut sums), progress).await?
    };
    let older = posted.sums(whole_on.or_else(|| Some(Day::of(now))));
    let suspects = charges.differing(&sums).await?.into_keys().take(MAX_SUSPECTS);
    let suspects: SumsByCharge = suspects.filter_map(|id| Some((id, *sums.get(&id)?))).collect();
    let (mut rechecks, mut before) = (0..RECHECKS, Vec::new());
    loop {
        let Comparison { mut differences, is_moving } = wallets.compare(&scope, &mut posted).await?;
        let sums = with_newest(&suspects, &sums, posted.newest_of_charges())?;
        let of_charges = charges.differing(&sums).await?.into_values().flatten();
        let of_charges: Vec<Difference> = of_charges.collect();
        let is_equal = differences.is_empty() && of_charges.is_empty();
        if is_equal || rechecks.next().is_none() {
            // A posting may have been written after the newest ones were read, and before the row of its charge was.
            differences.extend(of_charges.into_iter().filter(|difference| before.contains(difference)));
            return Ok(Verification { postings: posted.count(), differences, is_moving, sums: older });
        }
        before = of_charges;
        tokio::time::sleep(BEFORE_RECHECK).await;
    }
}

/// Adds all postings but the newest ones, and what they add to charges.
async fn read_all(
    (wallets, charges): (&Wallets, &Comparable<'_>),
    scope: &Scope,
    (posted, sums): (&mut Postings, &mut SumsByCharge),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<ShardedScope> {
    let (mut shard, mut after) = (Shard::FIRST, None::<String>);
    loop {
        let read = wallets.postings((scope, shard), after.as_deref(), POSTINGS_PER_READ).await?;
        let mut page = SumsByCharge::new();
        for posting in &read.0 {
            posted.add_older(posting, &mut page)?;
        }
        charges.add(sums, page).await?;
        progress(posted.count());
        after = read.1;
        if after.is_none() {
            let sharded = wallets.sharded_scope(scope).await?;
            match shard.next(sharded.shards) {
                Some(next) => shard = next,
                None => return Ok(sharded),
            }
        }
    }
}

fn with_newest(
    suspects: &SumsByCharge,
    older: &SumsByCharge,
    newest: &SumsByCharge,
) -> Result<SumsByCharge, MoneyError> {
    let mut all = suspects.clone();
    for (id, added) in newest {
        let sums = all
            .entry(*id)
            .or_insert_with(|| older.get(id).copied().unwrap_or_else(|| ChargeSums::none(added.currency)));
        sums.add_sums(added)?;
    }
    Ok(all)
}

/// The charges whose rows are compared with the sums of their postings.
struct Comparable<'a> {
    charges: &'a Charges,
    /// An older charge may have postings that are not read.
    created_from: Timestamp,
}

impl Comparable<'_> {
    async fn add(&self, sums: &mut SumsByCharge, page: SumsByCharge) -> Result<()> {
        let is_settled = |(id, added): &(&ChargeId, &ChargeSums)| !sums.contains_key(id) && added.are_zero();
        let settled: SumsByCharge = page.iter().filter(is_settled).map(|(id, added)| (*id, *added)).collect();
        let differing = self.differing(&settled).await?;
        for (id, added) in page {
            if !settled.contains_key(&id) || differing.contains_key(&id) {
                sums.entry(id).or_insert_with(|| ChargeSums::none(added.currency)).add_sums(&added)?;
            }
        }
        Ok(())
    }

    async fn differing(&self, posted: &SumsByCharge) -> Result<BTreeMap<ChargeId, Vec<Difference>>> {
        let mut differing = BTreeMap::new();
        let posted: Vec<(&ChargeId, &ChargeSums)> = posted.iter().collect();
        for chunk in posted.chunks(CHARGES_PER_READ) {
            let ids: Vec<ChargeId> = chunk.iter().map(|(id, _)| **id).collect();
            let rows = self.charges.find_all(&ids).await?;
            let rows: HashMap<ChargeId, &Charge> =
                rows.iter().map(StoredCharge::as_stored).map(|row| (row.id, row)).collect();
            for (id, sums) in chunk {
                let differences = match rows.get(id) {
                    Some(charge) if charge.created_at < self.created_from => Vec::new(),
                    Some(charge) => differences_of(charge, sums)?,
                    // The charge has postings but no row. The figure is the number of rows: 1 expected, 0 stored.
                    None => vec![Difference {
                        currency: sums.currency,
                        figure: format!("{id} exists"),
                        posted: 1,
                        stored: 0,
                    }],
                };
                if !differences.is_empty() {
                    differing.insert(**id, differences);
                }
            }
        }
        Ok(differing)
    }
}

fn differences_of(charge: &Charge, sums: &ChargeSums) -> Result<Vec<Difference>, MoneyError> {
    let funds = &charge.funds;
    let compared = [
        ("refunds in progress", sums.refunds_in_progress, funds.in_progress()?),
        ("refunded", sums.refunded, funds.refunded()?),
        ("acquirer's fee returned", sums.acquirer_fee_returned, funds.acquirer_fee_returned),
        ("platform's fee returned", sums.platform_fee_returned, funds.platform_fee_returned),
        ("retained for MED cases", sums.med_held, funds.med_held),
        ("lost to MED cases", sums.med_lost, funds.med_lost),
    ];
    let differing = compared.into_iter().filter(|(_, posted, stored)| posted != stored);
    let difference = |(figure, posted, stored): (&str, MinorUnits, MinorUnits)| Difference {
        currency: sums.currency,
        figure: format!("{} {figure}", charge.id),
        posted: posted.get(),
        stored: stored.get(),
    };
    Ok(differing.map(difference).collect())
}
