//! Verifies a scope's ledger: compares the sums of its postings with the counters of its wallets, and with
//! the funds in the rows of its charges.

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

/// The number of charges that are read together.
const CHARGES_PER_READ: usize = 1_000;

/// The pause before the verification is repeated to confirm differences.
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

/// Sums all postings of a scope, and compares the sums with the counters of its wallets and the funds of its
/// charges. Calls `progress` with the number of postings read so far.
///
/// A charge may change between the read of its postings and the read of its row. So a difference of its funds
/// is reported only if a second verification finds the same difference. If the charge has merely changed, the
/// second verification finds another difference or none.
///
/// # Errors
///
/// When DynamoDB does not answer, or a row can't be decoded.
pub async fn verify_ledger(
    (wallets, charges): (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification, StoreError> {
    let mut found = wallets.verify(scope, now, progress).await?;
    let mut funds = differing_funds(charges, &found).await?;
    if !funds.is_empty() {
        tokio::time::sleep(BEFORE_RECHECK).await;
        found = wallets.verify(scope, now, progress).await?;
        let confirmed = differing_funds(charges, &found).await?;
        funds.retain(|difference| confirmed.contains(difference));
    }
    found.differences.extend(funds);
    Ok(found)
}

async fn differing_funds(charges: &Charges, found: &Verification) -> Result<Vec<Difference>, StoreError> {
    let mut differences = Vec::new();
    let sums_of_charges: Vec<(&ChargeId, &ChargeSums)> = found.charges.iter().collect();
    for chunk in sums_of_charges.chunks(CHARGES_PER_READ) {
        let ids: Vec<ChargeId> = chunk.iter().map(|(id, _)| **id).collect();
        let rows = charges.find_all(&ids).await?;
        let rows: HashMap<ChargeId, &Charge> =
            rows.iter().map(StoredCharge::as_stored).map(|row| (row.id, row)).collect();
        for (id, sums) in chunk {
            match rows.get(id) {
                Some(charge) => differences.extend(differences_of(charge, sums)?),
                // The charge has postings but no row. The figure is the number of rows: 1 expected, 0 stored.
                None => differences.push(Difference {
                    currency: sums.currency,
                    figure: format!("{id} exists"),
                    posted: 1,
                    stored: 0,
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
    let differing = compared.into_iter().filter(|(_, posted, stored)| posted != stored);
    let difference = |(figure, posted, stored): (&str, MinorUnits, MinorUnits)| Difference {
        currency: sums.currency,
        figure: format!("{} {figure}", charge.id),
        posted: posted.get(),
        stored: stored.get(),
    };
    Ok(differing.map(difference).collect())
}
