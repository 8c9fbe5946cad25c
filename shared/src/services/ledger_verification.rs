//! Verifies a scope's ledger: compares the sums of its postings with the counters of its wallets, and with
//! the funds in the rows of its charges.
//!
//! The verification runs in steps, because the sums of a large ledger take longer than an invocation of a
//! function. Its state between two steps can be stored ([`crate::services::LedgerPasses`]). `admin ledger
//! verify` runs the same steps without storing them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Scope};
use domain::money::{MinorUnits, MoneyError};
use domain::shard::{Shard, ShardCount, ShardedScope};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::charge::Charges;
use crate::store::StoreError;
use crate::wallet::Wallets;
use crate::wallet::verify::{AllPostings, ChargeSums, Difference, OlderPostings, SumsByCharge, Verification};

/// The number of postings that a step reads: about 1 MB, the most that one query returns.
pub const POSTINGS_PER_STEP: i32 = 2_000;

/// The number of charges that are read together.
const CHARGES_PER_READ: usize = 1_000;

/// The most charges that are compared again at the end. If more differ, the others are not reported.
const MAX_SUSPECTS: usize = 1_000;

/// How often a comparison that found differences is repeated, and the pause before each repetition.
const RECHECKS: usize = 3;
const BEFORE_RECHECK: Duration = Duration::from_millis(250);

/// A verification in progress.
///
/// It first reads all postings in pages. Most charges only have a settlement, which changes none of the sums
/// of the charge. Such a charge is compared with its row at once, and left out of the state if they agree. Then
/// the other charges are compared with their rows. The last step reads the newest postings, and compares the
/// counters, the charges that differed, and the charges of the newest postings.
///
/// Postings, counters and charges change during the verification. So a difference is reported only if repeated
/// comparisons and a second verification of the whole ledger still find differences.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LedgerVerification {
    /// The ledger.
    scope: Scope,
    started_at: Timestamp,
    /// Whether this is the second verification, after the first one found differences.
    is_second: bool,
    /// The number of shards whose postings were summed.
    shards: ShardCount,
    phase: Phase,
    older: OlderPostings,
    /// The charges that differed from their rows, and are compared again in the last step.
    suspects: BTreeSet<ChargeId>,
    /// The charges whose sums must be compared with their rows. They are stored separately.
    #[serde(skip)]
    charges: SumsByCharge,
    /// The charges whose sums changed since [`Self::take_unsaved`].
    #[serde(skip)]
    unsaved: BTreeSet<ChargeId>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// Reads the postings of a shard after this sort key.
    Postings { shard: Shard, after: Option<String> },
    /// Compares the charges after this one with their rows.
    Charges { after: Option<ChargeId> },
    /// Reads the newest postings, and compares the counters.
    Newest,
}

impl LedgerVerification {
    /// Starts the verification of a scope's ledger.
    pub fn start(scope: Scope, now: Timestamp) -> Self {
        Self {
            scope,
            started_at: now,
            is_second: false,
            shards: ShardCount::ONE,
            phase: Phase::Postings { shard: Shard::FIRST, after: None },
            older: OlderPostings::none(now),
            suspects: BTreeSet::new(),
            charges: SumsByCharge::new(),
            unsaved: BTreeSet::new(),
        }
    }

    /// Returns the ledger's scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Returns when the verification started. The second verification of a ledger starts later than the first.
    pub(crate) fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns the number of postings that were summed.
    pub fn postings(&self) -> u64 {
        self.older.sums.count
    }

    /// Returns the number of charges that [`Self::take_unsaved`] returns.
    pub(crate) fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    /// Returns the sums of the charges whose sums changed since the last call.
    pub(crate) fn take_unsaved(&mut self) -> Vec<(ChargeId, ChargeSums)> {
        let changed = std::mem::take(&mut self.unsaved).into_iter();
        changed.filter_map(|id| self.charges.get(&id).map(|sums| (id, *sums))).collect()
    }

    /// Restores sums of charges. They replace those that were restored before.
    pub(crate) fn restore(&mut self, charges: Vec<(ChargeId, ChargeSums)>) {
        self.charges.extend(charges);
    }

    /// Runs the next step, which reads at most `postings` postings. Returns the result after the last step.
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer, or a row can't be decoded. A failed step can be repeated only from a
    /// stored state.
    pub async fn step(
        &mut self,
        (wallets, charges): (&Wallets, &Charges),
        now: Timestamp,
        postings: i32,
    ) -> Result<Option<Verification>, StoreError> {
        match self.phase.clone() {
            Phase::Postings { shard, after } => {
                let (page, next) = wallets.postings((&self.scope, shard), after.as_deref(), postings).await?;
                let mut sums = SumsByCharge::new();
                for posting in &page {
                    self.older.add(posting, now, &mut sums)?;
                }
                self.add_charges(charges, sums).await?;
                self.phase = match next {
                    Some(_) => Phase::Postings { shard, after: next },
                    None => self.phase_after(shard, wallets).await?,
                };
                Ok(None)
            }
            Phase::Charges { after } => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let chunk: SumsByCharge = self
                    .charges
                    .range((from, Bound::Unbounded))
                    .take(CHARGES_PER_READ)
                    .map(|(id, sums)| (*id, *sums))
                    .collect();
                let differing = differing_charges(charges, &chunk).await?;
                self.suspects.extend(differing.into_keys());
                while self.suspects.len() > MAX_SUSPECTS {
                    self.suspects.pop_last();
                }
                self.phase = match chunk.into_keys().next_back() {
                    Some(last) => Phase::Charges { after: Some(last) },
                    None => Phase::Newest,
                };
                Ok(None)
            }
            Phase::Newest => {
                // The account may have got more shards meanwhile.
                let last = self.shards.shards().last().unwrap_or_default();
                if let next @ Phase::Postings { .. } = self.phase_after(last, wallets).await? {
                    self.phase = next;
                    return Ok(None);
                }
                let found = Box::pin(self.compare(wallets, charges)).await?;
                if found.differences.is_empty() || self.is_second {
                    return Ok(Some(found));
                }
                let now = now.strictly_after(self.started_at);
                *self = Self { is_second: true, ..Self::start(self.scope, now) };
                Ok(None)
            }
        }
    }

    /// Returns the phase that follows the last posting of a shard: the postings of the next shard, or the
    /// comparison of the charges.
    async fn phase_after(&mut self, shard: Shard, wallets: &Wallets) -> Result<Phase, StoreError> {
        let ShardedScope { shards, .. } = wallets.sharded_scope(&self.scope).await?;
        if let Some(shard) = shard.next(shards) {
            return Ok(Phase::Postings { shard, after: None });
        }
        self.shards = shards;
        Ok(Phase::Charges { after: None })
    }

    /// Adds the sums of a page. A charge without sums so far is compared with its row, and left out if they
    /// agree.
    async fn add_charges(&mut self, charges: &Charges, page: SumsByCharge) -> Result<(), StoreError> {
        let is_settled =
            |(id, sums): &(&ChargeId, &ChargeSums)| !self.charges.contains_key(id) && sums.are_zero();
        let settled: SumsByCharge = page.iter().filter(is_settled).map(|(id, sums)| (*id, *sums)).collect();
        let differing = differing_charges(charges, &settled).await?;
        for (id, sums) in page {
            if settled.contains_key(&id) && !differing.contains_key(&id) {
                continue;
            }
            self.charges.entry(id).or_insert_with(|| ChargeSums::none(sums.currency)).add_sums(&sums)?;
            self.unsaved.insert(id);
        }
        Ok(())
    }

    /// Adds the newest postings, and compares the counters and the charges that may differ.
    async fn compare(&self, wallets: &Wallets, charges: &Charges) -> Result<Verification, StoreError> {
        let scope = ShardedScope { scope: self.scope, shards: self.shards };
        let mut posted = AllPostings::new(&self.older);
        let mut rechecks = 0..RECHECKS;
        loop {
            let compared = wallets.compare(&scope, &mut posted).await?;
            let mut differences = compared.differences;
            let sums = self.sums_of_suspects(&posted.newest_of_charges)?;
            differences.extend(differing_charges(charges, &sums).await?.into_values().flatten());
            if differences.is_empty() || rechecks.next().is_none() {
                let (postings, is_moving) = (posted.sums.count, compared.is_moving);
                return Ok(Verification { postings, differences, is_moving });
            }
            tokio::time::sleep(BEFORE_RECHECK).await;
        }
    }

    /// Returns the sums of all postings of the suspects and of the charges of the newest postings.
    fn sums_of_suspects(&self, newest: &SumsByCharge) -> Result<SumsByCharge, MoneyError> {
        let mut all = newest.clone();
        let suspects = self.suspects.iter().filter_map(|id| Some((*id, self.charges.get(id)?.currency)));
        for (id, currency) in suspects {
            all.entry(id).or_insert_with(|| ChargeSums::none(currency));
        }
        for (id, sums) in &mut all {
            if let Some(older) = self.charges.get(id) {
                sums.add_sums(older)?;
            }
        }
        Ok(all)
    }
}

/// Verifies a scope's ledger. `now` determines which postings are the newest. Calls `progress` with the number
/// of postings read so far.
///
/// # Errors
///
/// When DynamoDB does not answer, or a row can't be decoded.
pub async fn verify_ledger(
    sources: (&Wallets, &Charges),
    scope: &Scope,
    now: Timestamp,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Verification, StoreError> {
    let mut verification = LedgerVerification::start(*scope, now);
    loop {
        if let Some(found) = verification.step(sources, now, POSTINGS_PER_STEP).await? {
            return Ok(found);
        }
        progress(verification.postings());
    }
}

/// Compares charges with their rows. Returns the differences of the charges that differ.
async fn differing_charges(
    charges: &Charges,
    posted: &SumsByCharge,
) -> Result<BTreeMap<ChargeId, Vec<Difference>>, StoreError> {
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
