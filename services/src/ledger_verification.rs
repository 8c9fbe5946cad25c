//! Compares the sums of a ledger's postings with the counters of its wallets, and with the funds in the rows of
//! its charges. It only reads.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Scope};
use domain::money::{MinorUnits, MoneyError};
use domain::shard::{Shard, ShardedScope};
use domain::time::Timestamp;

use money::charge::Charges;
use money::wallet::Wallets;
use money::wallet::verify::{ChargeSums, Comparison, Difference, Postings, SumsByCharge, Verification};
use shared::store::Result;

/// About 1 MB, the most that one query returns.
const POSTINGS_PER_READ: i32 = 2_000;
const CHARGES_PER_READ: usize = 1_000;

/// If more charges differ, the others are not reported.
const MAX_SUSPECTS: usize = 1_000;

/// How often a comparison that found differences is repeated, and the pause before each repetition.
const RECHECKS: usize = 3;
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

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
    let found = Box::pin(verify_once(sources, scope, now, progress)).await?;
    if found.differences.is_empty() {
        return Ok(found);
    }
    // The only trace of the differences if the caller's time ends meanwhile.
    let differences = found.differences.len();
    tracing::warn!(%scope, differences, "a ledger may differ from its postings; it is verified again");
    Box::pin(verify_once(sources, scope, now, progress)).await
}

/// Most charges only have a settlement, which changes none of the sums of the charge. Such a charge is compared
/// with its row at once, and its sums are not kept. The other charges are compared at the end.
async fn verify_once(
    (wallets, charges): (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification> {
    let (mut posted, mut sums) = (Postings::before(now), SumsByCharge::new());
    let (mut shard, mut after) = (Shard::FIRST, None::<String>);
    let shards = loop {
        let read = wallets.postings((scope, shard), after.as_deref(), POSTINGS_PER_READ).await?;
        let mut page = SumsByCharge::new();
        for posting in &read.0 {
            posted.add_older(posting, &mut page)?;
        }
        add_charges(charges, &mut sums, page).await?;
        progress(posted.count());
        after = read.1;
        if after.is_none() {
            let ShardedScope { shards, .. } = wallets.sharded_scope(scope).await?;
            match shard.next(shards) {
                Some(next) => shard = next,
                None => break shards,
            }
        }
    };
    let suspects = differing_charges(charges, &sums).await?.into_keys().take(MAX_SUSPECTS);
    let suspects: SumsByCharge = suspects.filter_map(|id| Some((id, *sums.get(&id)?))).collect();
    let scope = ShardedScope { scope: *scope, shards };
    let (mut rechecks, mut before) = (0..RECHECKS, Vec::new());
    loop {
        let Comparison { mut differences, is_moving } = wallets.compare(&scope, &mut posted).await?;
        let sums = with_newest(&suspects, &sums, posted.newest_of_charges())?;
        let of_charges = differing_charges(charges, &sums).await?.into_values().flatten();
        let of_charges: Vec<Difference> = of_charges.collect();
        let is_equal = differences.is_empty() && of_charges.is_empty();
        if is_equal || rechecks.next().is_none() {
            // A posting may have been written after the newest ones were read, and before the row of its charge was.
            differences.extend(of_charges.into_iter().filter(|difference| before.contains(difference)));
            return Ok(Verification { postings: posted.count(), differences, is_moving });
        }
        before = of_charges;
        tokio::time::sleep(BEFORE_RECHECK).await;
    }
}

async fn add_charges(charges: &Charges, sums: &mut SumsByCharge, page: SumsByCharge) -> Result<()> {
    let is_settled = |(id, added): &(&ChargeId, &ChargeSums)| !sums.contains_key(id) && added.are_zero();
    let settled: SumsByCharge = page.iter().filter(is_settled).map(|(id, added)| (*id, *added)).collect();
    let differing = differing_charges(charges, &settled).await?;
    for (id, added) in page {
        if !settled.contains_key(&id) || differing.contains_key(&id) {
            sums.entry(id).or_insert_with(|| ChargeSums::none(added.currency)).add_sums(&added)?;
        }
    }
    Ok(())
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

async fn differing_charges(
    charges: &Charges,
    posted: &SumsByCharge,
) -> Result<BTreeMap<ChargeId, Vec<Difference>>> {
    let mut differing = BTreeMap::new();
    let posted: Vec<(&ChargeId, &ChargeSums)> = posted.iter().collect();
    for chunk in posted.chunks(CHARGES_PER_READ) {
        let ids: Vec<ChargeId> = chunk.iter().map(|(id, _)| **id).collect();
        let rows = charges.find_all(&ids).await?;
        let rows: HashMap<ChargeId, &Charge> =
            rows.iter().map(StoredCharge::as_stored).map(|row| (row.id, row)).collect();
        for (id, sums) in chunk {
            let differences = match rows.get(id) {
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
