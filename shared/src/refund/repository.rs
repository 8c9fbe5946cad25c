//! Reads and writes of refunds.

use domain::acquirer::RefundCapabilities;
use domain::calendar::Day;
use domain::charge::{Charge, RefundRefused, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, RefundId};
use domain::refund::{self, Refund, RefundEnd, RefundStatus, RefundStep};
use domain::time::Timestamp;

use crate::auth::Caller;
use crate::clock::Clock;
use crate::http::Created;
use crate::refund::{NewRefund, RefundError, third_party};
use crate::store::{Committed, Store, StoreError, Update, Write, just_read_or};
use crate::wallet::counters::{self, Cover};
use crate::wallet::{Covered, CreditsRead, Wallets};

/// How long a charge that changed counts as busy, in milliseconds.
const BUSY_FOR_MS: i64 = 250;

/// The refunds of all scopes.
#[derive(Clone, Debug)]
pub struct Refunds {
    store: Store,
}

impl Refunds {
    /// Refunds in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Reads a refund, whatever its scope; none has no id.
    pub async fn find(&self, id: Option<RefundId>) -> Result<Option<Refund>, StoreError> {
        match id {
            Some(id) => self.store.get(&Refund::key_of(id)).await,
            None => Ok(None),
        }
    }

    /// The refunds of a charge, whatever its scope, newest first.
    pub async fn of_charge(&self, charge: Option<ChargeId>) -> Result<Vec<Refund>, StoreError> {
        let Some(charge) = charge else { return Ok(Vec::new()) };
        let pk = Charge::key_of(charge).pk;
        let mut refunds: Vec<Refund> = self.store.rows_of_prefix(&pk, refund::SORT).await?;
        refunds.sort_by_key(|refund| std::cmp::Reverse((refund.created_at, refund.id)));
        Ok(refunds)
    }

    /// The refund that made a charge refunded: the last that reached its payer. `None`: it is not refunded, or was never
    /// credited.
    pub async fn that_completed(&self, charge: &Charge) -> Result<Option<Refund>, StoreError> {
        if charge.status != TransactionStatus::Refunded || charge.settlement.is_none() {
            return Ok(None);
        }
        let refunds = self.of_charge(Some(charge.id)).await?.into_iter();
        let reached = refunds.filter(|refund| refund.status == RefundStatus::Refunded);
        Ok(reached.max_by_key(|refund| refund.updated_at))
    }

    /// Takes a refund out of a charge that was just read, or finds the one that its idempotency key made. However many are
    /// asked for at once, they take no more than there is, of the charge and of the wallet.
    ///
    /// # Errors
    ///
    /// See [`RefundError`].
    pub async fn create(
        &self,
        caller: &Caller,
        (charge, earlier): (StoredCharge, Option<Refund>),
        asked: &NewRefund,
        capabilities: RefundCapabilities,
        clock: &Clock,
    ) -> Result<Created<Refund>, RefundError> {
        // Before state and balance: whatever became of the charge since, a replay is a replay.
        if let Some(earlier) = earlier {
            return replayed(earlier, asked);
        }
        let id = asked.id(charge.as_stored().id);
        let (mut just_read, mut credits) = (Some(charge), CreditsRead::default());
        let mut update = self.store.start_update("the charge of a refund");
        loop {
            update.next_attempt().await?;
            // The same request, sent twice at one moment, made the refund.
            if update.failed().contains(&REFUND_PLACE) {
                return replayed(self.get_existing(id).await?, asked);
            }
            let charge = just_read_or(&mut just_read, self.charge(id)).await?;
            // The time of this attempt: a tranche may be released meanwhile, because its day has come.
            let now = clock.now();
            let read = (&mut update, &mut credits);
            match self.take(caller, &charge.at(now), (asked, capabilities), read, now).await {
                Ok(Taken::Planned(writes, refund)) => {
                    if update.commit(writes).await? {
                        return Ok(Created::New(*refund));
                    }
                }
                Ok(Taken::Stale) => {}
                // The same request, sent twice at one moment, may have taken the money.
                Err(error) if error.is_refusal() => {
                    return match self.find(Some(id)).await? {
                        Some(twin) => replayed(twin, asked),
                        None => Err(error),
                    };
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn take(
        &self,
        caller: &Caller,
        charge: &Charge,
        (asked, capabilities): (&NewRefund, RefundCapabilities),
        (update, credits): (&mut Update<'_>, &mut CreditsRead),
        now: Timestamp,
    ) -> Result<Taken, RefundError> {
        let refused = |why| RefundError::Refused { why, status: charge.status };
        if charge.settlement.is_none() {
            return Err(refused(RefundRefused::NotSettled));
        }
        let plan = asked.plan(charge, capabilities, &caller.settings, now)?;
        let limit = plan.limit;
        let RefundStep { refund, charge: next, posting } =
            Refund::request(asked.id(charge.id), charge, plan, now).map_err(refused)?;
        let refund = Refund { actor: Some(caller.actor(refund.version)), ..refund };
        let mut rows = vec![Write::replace(&next, charge.version)?, Write::insert(&refund)?];
        if let Some((limit, day)) = limit.zip(refund.limited_on) {
            let failed = update.failed();
            let is_over = failed.contains(&LIMIT_PLACE) && !failed.contains(&CHARGE_PLACE);
            match third_party::reserve(&refund, day, limit) {
                Some(reservation) if !is_over => rows.push(reservation),
                Some(_) | None => return Err(self.over_limit(&refund, limit, day).await?),
            }
        }
        let wallets = Wallets::new(self.store.clone());
        match wallets.covered(update, credits, &posting, rows).await? {
            Covered::Writes(writes) => Ok(Taken::Planned(writes, Box::new(refund))),
            Covered::Short { needed, .. } => {
                // Its own money may lie in a tranche whose day has come and that is not released yet.
                if let Some(day) = charge.release_on().filter(|day| now >= day.starts_at()) {
                    wallets.release(charge.scope, charge.currency, day, now).await?;
                }
                // Another caller may have released it, or credited the wallet, since the wallet was read.
                let wallet = wallets.in_currency(&charge.scope, charge.currency).await?;
                let available = wallet.available().map_err(StoreError::from)?.get();
                if available < needed {
                    return Err(RefundError::InsufficientBalance { needed, available });
                }
                Ok(Taken::Stale)
            }
        }
    }

    /// The refusal of a refund that its day's limit has no room for.
    async fn over_limit(&self, refund: &Refund, limit: i64, day: Day) -> Result<RefundError, StoreError> {
        let reserved = third_party::reserved(&self.store, &refund.scope, day).await?;
        let left = limit.saturating_sub(reserved).max(0);
        Ok(RefundError::OverThirdPartyLimit { limit, left })
    }

    /// Claims a refund that is to be asked of its acquirer. Gives the refund as it stands after.
    pub async fn start(&self, refund: Refund, now: Timestamp) -> Result<Refund, StoreError> {
        if refund.status != RefundStatus::Pending {
            return Ok(refund);
        }
        let charge = self.charge(refund.id).await?.at(now);
        let Some(next) = refund.started(&charge, now)? else { return Ok(refund) };
        match self.store.commit(vec![Write::replace(&next, refund.version)?]).await? {
            Committed::Done => Ok(next),
            Committed::Overtaken { .. } => self.get_existing(refund.id).await,
        }
    }

    /// Whether a refund's charge changed just now, and may change again in a moment.
    pub async fn is_busy(&self, id: RefundId, now: Timestamp) -> Result<bool, StoreError> {
        Ok(now.millis_since(self.charge(id).await?.at(now).updated_at) < BUSY_FOR_MS)
    }

    /// Ends a refund, by way of `IN_PROGRESS`. One that ended before stays as it is.
    pub async fn end(&self, refund: Refund, end: RefundEnd, now: Timestamp) -> Result<Refund, RefundError> {
        let (id, mut just_read) = (refund.id, Some(refund));
        let mut update = self.store.start_update("a refund");
        loop {
            update.next_attempt().await?;
            let refund = just_read_or(&mut just_read, self.get_existing(id)).await?;
            let refund = self.start(refund, now).await?;
            let charge = self.charge(id).await?.at(now);
            let Some(step) = refund.ended(&charge, end, now)? else { return Ok(refund) };
            let mut writes = vec![
                Write::replace(&step.refund, refund.version)?,
                Write::replace(&step.charge, charge.version)?,
            ];
            writes.extend(counters::posting_writes(&step.posting, Cover::NotNeeded)?);
            if end == RefundEnd::Failed {
                writes.extend(third_party::release(&step.refund));
            }
            if update.commit(writes).await? {
                return Ok(step.refund);
            }
        }
    }

    async fn charge(&self, refund: RefundId) -> Result<StoredCharge, StoreError> {
        let charge = self.store.get(&Charge::key_of(refund.charge())).await?;
        charge.ok_or_else(|| StoreError::Corrupt("a refund has no charge".to_owned()))
    }

    async fn get_existing(&self, id: RefundId) -> Result<Refund, StoreError> {
        self.find(Some(id)).await?.ok_or_else(|| StoreError::Corrupt("a refund vanished".to_owned()))
    }
}

/// Places among the rows that taking a refund writes.
const CHARGE_PLACE: usize = 0;

const REFUND_PLACE: usize = 1;

/// Where there is a limit.
const LIMIT_PLACE: usize = 2;

/// What an attempt to take a refund out of a charge decided.
enum Taken {
    Planned(Vec<Write>, Box<Refund>),
    /// The wallet changed since it was read.
    Stale,
}

fn replayed(earlier: Refund, asked: &NewRefund) -> Result<Created<Refund>, RefundError> {
    if asked.is_replay_of(&earlier.request_hash) {
        Ok(Created::Replayed(earlier))
    } else {
        Err(RefundError::IdempotencyKeyReused)
    }
}
