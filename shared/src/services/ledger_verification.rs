//! The check of a scope's money: the counters of its wallets and the funds of its charges against the postings.

use std::collections::HashMap;
use std::time::Duration;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Scope};
use domain::money::{MinorUnits, MoneyError};
use domain::time::Timestamp;

use crate::charge::Charges;
use crate::store::StoreError;
use crate::wallet::Wallets;
use crate::wallet::verify::{ChargeSums, Difference, Verification};

/// How many charges are read at once.
const CHARGES_AT_ONCE: usize = 1_000;

/// How long a charge that changed meanwhile has until it is read again.
const BEFORE_SECOND_LOOK: Duration = Duration::from_millis(250);

/// Adds up every posting of a scope again, and compares with the counters of its wallets and the funds of its charges.
/// `progress` is told the number of postings so far.
///
/// A charge may change between the read of its postings and its own. So a difference of its funds counts when a second look
/// finds the same one: a charge that only moved differs by something else or not at all.
///
/// # Errors
///
/// When DynamoDB does not answer, or a row can't be read.
pub async fn verify_ledger(
    (wallets, charges): (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification, StoreError> {
    let mut found = wallets.verify(scope, now, progress).await?;
    let mut funds = differing_funds(charges, &found).await?;
    if !funds.is_empty() {
        tokio::time::sleep(BEFORE_SECOND_LOOK).await;
        found = wallets.verify(scope, now, progress).await?;
        let again = differing_funds(charges, &found).await?;
        funds.retain(|difference| again.contains(difference));
    }
    found.differences.extend(funds);
    Ok(found)
}

async fn differing_funds(charges: &Charges, found: &Verification) -> Result<Vec<Difference>, StoreError> {
    let mut differences = Vec::new();
    let named: Vec<(&ChargeId, &ChargeSums)> = found.charges.iter().collect();
    for some in named.chunks(CHARGES_AT_ONCE) {
        let ids: Vec<ChargeId> = some.iter().map(|(id, _)| **id).collect();
        let rows = charges.find_all(&ids).await?;
        let rows: HashMap<ChargeId, &Charge> =
            rows.iter().map(StoredCharge::as_stored).map(|row| (row.id, row)).collect();
        for (id, sums) in some {
            match rows.get(id) {
                Some(charge) => differences.extend(differences_of(charge, sums)?),
                None => differences.push(Difference {
                    currency: sums.currency,
                    what: format!("{id} exists"),
                    posted: 1,
                    kept: 0,
                }),
            }
        }
    }
    Ok(differences)
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
    let differing = compared.into_iter().filter(|(_, posted, kept)| posted != kept);
    let named = |(what, posted, kept): (&str, MinorUnits, MinorUnits)| Difference {
        currency: sums.currency,
        what: format!("{} {what}", charge.id),
        posted: posted.get(),
        kept: kept.get(),
    };
    Ok(differing.map(named).collect())
}
