use domain::acquirer::RefundCapabilities;
use domain::audit::{Action, Audit, Operator};
use domain::calendar::Day;
use domain::charge::{Charge, RefundRefused, StoredCharge, TransactionStatus};
use domain::ids::{ChargeId, RefundId};
use domain::money::{Amount, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::{self, Refund, RefundFailure, RefundOutcome, RefundReason, RefundStatus, RefundStep};
use domain::row::Row as _;
use domain::shard::ShardedScope;
use domain::time::Timestamp;
use domain::wallet::TrancheShare;

use crate::refund::{NewRefund, RefundError, third_party};
use crate::wallet::counters::{self, DebitCheck, Tranche};
use crate::wallet::{CachedCredits, DebitPlan, Wallets};
use acquirer_kit::RefundEnd;
use shared::audit;
use shared::auth::Caller;
use shared::clock::Clock;
use shared::http::Created;
use shared::store::{CommitOutcome, StoreError, Write, lease_end, reuse_or_read};

/// How long after a change, in milliseconds, the acquirer worker defers the end of a charge's refund, so that
/// clients' requests go first.
const BUSY_FOR_MS: i64 = 250;

/// The most tranches of other charges that a refund takes money from: each is a write of its transaction.
const MAX_TRANCHES: usize = 20;

/// The actor and the reason in the audit row of a refund that this service did not request: of a Pix, and of another
/// payment.
const AT_BANK: (&str, &str) = ("bank", "the payment was returned at the bank");
const AT_ACQUIRER: (&str, &str) = ("acquirer", "the payment was refunded at the acquirer");

shared::store::repository!(Refunds);

/// A refund that this service did not request.
#[derive(Clone, Debug)]
pub struct MadeThere<'a> {
    pub id: &'a str,
    pub amount: Amount,
    /// The id that the acquirer gave to its execution.
    pub its_id: Option<String>,
    pub reason: RefundReason,
}

impl Refunds {
    /// Reads a refund of any scope; the caller checks the scope. Without an id nothing is read.
    pub async fn find(&self, id: Option<RefundId>) -> Result<Option<Refund>, StoreError> {
        self.store.find(id.map(Refund::key_of)).await
    }

    /// Newest first. Without an id nothing is read.
    pub async fn for_charge(&self, charge: Option<ChargeId>) -> Result<Vec<Refund>, StoreError> {
        let Some(charge) = charge else { return Ok(Vec::new()) };
        let pk = Charge::key_of(charge).pk;
        let mut refunds: Vec<Refund> = self.store.rows_of_prefix(&pk, refund::SORT).await?;
        refunds.sort_by_key(|refund| std::cmp::Reverse((refund.created_at, refund.id)));
        Ok(refunds)
    }

    /// The refund that moved a charge to `REFUNDED`: the last one that succeeded. `None` also when the payment
    /// was returned without being credited.
    pub async fn completing_refund(&self, charge: &Charge) -> Result<Option<Refund>, StoreError> {
        if charge.status != TransactionStatus::Refunded || charge.settlement.is_none() {
            return Ok(None);
        }
        let refunds = self.for_charge(Some(charge.id)).await?.into_iter();
        let completed = refunds.filter(|refund| refund.status == RefundStatus::Refunded);
        Ok(completed.max_by_key(|refund| refund.updated_at))
    }

    /// `stored` is the refund with the request's idempotency key, if there is one, which the caller has just
    /// read. Concurrent refunds together never exceed the charge's remaining amount or the available balance.
    pub async fn create(
        &self,
        caller: &Caller,
        (charge, stored): (StoredCharge, Option<Refund>),
        request: &NewRefund,
        capabilities: RefundCapabilities,
        clock: &Clock,
    ) -> Result<Created<Refund>, RefundError> {
        // This check is first, because a replay returns the stored refund even if the charge or the balance
        // no longer allows the refund.
        if let Some(stored) = stored {
            return replayed(stored, request);
        }
        let id = request.id(charge.as_stored().id);
        let (mut just_read, mut credits) = (Some(charge), CachedCredits::default());
        let mut update = self.store.start_update("the charge of a refund");
        loop {
            // A concurrent request with the same idempotency key created the refund.
            if update.failed().contains(&REFUND_WRITE) {
                return replayed(self.get_existing(id).await?, request);
            }
            let charge = reuse_or_read(&mut just_read, self.charge(id)).await?;
            // Each attempt reads the clock: a tranche's release day may begin between two attempts.
            let now = clock.now();
            let read = (update.failed(), &mut credits);
            match self.plan_writes(caller, &charge.read_at(now), (request, capabilities), read, now).await {
                Ok(RefundPlan::Planned(writes, refund)) => {
                    if update.commit(writes).await? {
                        return Ok(Created::New(*refund));
                    }
                }
                Ok(RefundPlan::Stale) => update.pause().await?,
                // A concurrent request with the same idempotency key may have created the refund and used the
                // money.
                Err(error) if error.is_refusal() => {
                    return match self.find(Some(id)).await? {
                        Some(stored) => replayed(stored, request),
                        None => Err(error),
                    };
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn plan_writes(
        &self,
        caller: &Caller,
        charge: &Charge,
        (request, capabilities): (&NewRefund, RefundCapabilities),
        (failed, credits): (&[usize], &mut CachedCredits),
        now: Timestamp,
    ) -> Result<RefundPlan, RefundError> {
        let refused = |why| RefundError::Refused { why, status: charge.status };
        if charge.settlement.is_none() {
            return Err(refused(RefundRefused::NotSettled));
        }
        let plan = request.plan(charge, capabilities, &caller.settings, now)?;
        let limit = plan.limit;
        let step = Refund::request(request.id(charge.id), charge, plan, now).map_err(refused)?;
        let refund = Refund {
            actor: Some(caller.actor(step.refund.version)),
            request_id: caller.request_id.clone(),
            ..step.refund
        };
        let step = RefundStep { refund, ..step };
        let refund = &step.refund;
        let mut rows = vec![Write::replace(&step.charge, charge.version)?, Write::insert(refund)?];
        if let Some((limit, day)) = limit.zip(refund.limited_on) {
            // If the charge's write failed as well, the reservation is tried again: the change of the charge
            // may be a failed refund, which freed its reservation.
            let is_exceeded = failed.contains(&LIMIT_WRITE) && !failed.contains(&CHARGE_WRITE);
            match third_party::reserve(refund, day, limit) {
                Some(reservation) if !is_exceeded => rows.push(reservation),
                Some(_) | None => return Err(self.over_limit(refund, limit, day).await?),
            }
        }
        let wallets = Wallets::new(self.store.clone());
        let scope = caller.sharded_scope();
        match wallets.plan_debit((failed, credits), scope.shards, &step.posting, rows.clone()).await? {
            DebitPlan::Writes(writes) => Ok(RefundPlan::Planned(writes, Box::new(step.refund))),
            DebitPlan::Short { needed, .. } => {
                // The charge's own money may be in a tranche whose release is due but has not run yet.
                if let Some(day) = charge.release_on().filter(|_| !charge.is_net_held(now)) {
                    let (shard, currency) = (charge.shard(), charge.currency);
                    wallets.release(Tranche { scope: charge.scope, shard, currency, day }, now).await?;
                }
                // Another caller, too, may have released the tranche or credited the wallet after the wallet
                // was read. So it is read again before the refund is refused.
                let wallet = wallets.in_currency(&scope, charge.currency).await?;
                let available = wallet.available().map_err(StoreError::from)?.get();
                if available >= needed {
                    return Ok(RefundPlan::Stale);
                }
                let overdraft = caller.settings.refund_overdraft;
                self.plan_with_pending(&scope, step, rows, (needed, available, overdraft)).await
            }
        }
    }

    /// What the available balance lacks comes from other pending money, the earliest release first. What that lacks,
    /// too, takes the available balance below zero, as far as the account may.
    async fn plan_with_pending(
        &self,
        scope: &ShardedScope,
        step: RefundStep,
        mut rows: Vec<Write>,
        (needed, available, overdraft): (i64, i64, MinorUnits),
    ) -> Result<RefundPlan, RefundError> {
        let wallets = Wallets::new(self.store.clone());
        let RefundStep { refund, posting, .. } = &step;
        let mut lacking = needed.saturating_sub(available.max(0)).min(refund.share.from_available.get());
        let (mut taken, mut pending) = (Vec::new(), 0_i64);
        for tranche in wallets.tranches(scope, refund.currency).await? {
            let is_own = refund.release_on == Some(tranche.day) && posting.shard == tranche.shard;
            let own = if is_own { refund.share.from_pending.get() } else { 0 };
            let others = tranche.minor.get().saturating_sub(own);
            let minor = others.min(lacking);
            pending = pending.saturating_add(others.max(0));
            if minor > 0 && taken.len() < MAX_TRANCHES {
                lacking = lacking.saturating_sub(minor);
                taken.push(TrancheShare { minor: MinorUnits::new(minor), ..tranche });
            }
        }
        let insufficient = RefundError::InsufficientBalance { needed, available, pending };
        let step = step.taking(taken).map_err(StoreError::from)?;
        if let Some(row) = rows.get_mut(REFUND_WRITE) {
            *row = Write::insert(&step.refund)?;
        }
        let mut credits = CachedCredits::with_overdraft(overdraft);
        let read = (&[][..], &mut credits);
        match wallets.plan_debit(read, scope.shards, &step.posting, rows).await? {
            DebitPlan::Writes(writes) => Ok(RefundPlan::Planned(writes, Box::new(step.refund))),
            DebitPlan::Short { .. } => Err(insufficient),
        }
    }

    async fn over_limit(&self, refund: &Refund, limit: i64, day: Day) -> Result<RefundError, StoreError> {
        let reserved = third_party::reserved(&self.store, &refund.scope, day).await?;
        let left = limit.saturating_sub(reserved).max(0);
        Ok(RefundError::OverThirdPartyLimit { limit, left })
    }

    /// Takes the lease of a refund for the worker that is about to request it. A pending refund moves to `IN_PROGRESS`.
    /// `now` is a time before the worker asked the acquirer, which did not know the refund. `None`: another worker has
    /// the lease, or changed the refund after it was read.
    pub async fn lease(&self, refund: &Refund, now: Timestamp) -> Result<Option<Refund>, StoreError> {
        if refund.is_done() || refund.is_leased(now) {
            return Ok(None);
        }
        if refund.status == RefundStatus::InProgress {
            let taken = self.store.take_lease(refund.key(), refund.version, refund.leased_until, now).await?;
            return Ok(taken.map(|until| Refund { leased_until: Some(until), ..refund.clone() }));
        }
        let Some(started) = self.started(refund, now).await? else { return Ok(None) };
        let leased = Refund { leased_until: Some(lease_end(now)), ..started };
        let written = self.store.commit(vec![Write::replace(&leased, refund.version)?]).await?;
        Ok((written == CommitOutcome::Done).then_some(leased))
    }

    /// Ends the lease after the acquirer has not accepted the request. `is_spent`: it will never execute that one.
    pub async fn end_lease(&self, leased: &Refund, is_spent: bool, now: Timestamp) -> Result<(), StoreError> {
        let Some(until) = leased.leased_until else { return Ok(()) };
        let spent = is_spent.then(|| ("spent_requests", leased.spent_requests.saturating_add(1)));
        self.store.end_lease(leased.key(), until, spent, now).await
    }

    async fn started(&self, refund: &Refund, now: Timestamp) -> Result<Option<Refund>, StoreError> {
        let charge = self.charge(refund.id).await?.read_at(now);
        Ok(refund.started(&charge, now)?)
    }

    /// If another caller has changed the refund meanwhile, or it is not pending, the stored refund is returned.
    async fn claim(&self, refund: Refund, now: Timestamp) -> Result<Refund, StoreError> {
        if refund.status != RefundStatus::Pending {
            return Ok(refund);
        }
        let Some(next) = self.started(&refund, now).await? else { return Ok(refund) };
        match self.store.commit(vec![Write::replace(&next, refund.version)?]).await? {
            CommitOutcome::Done => Ok(next),
            CommitOutcome::Conflict { .. } => self.get_existing(refund.id).await,
        }
    }

    /// Whether a refund's charge changed within the last 250 ms. Then further changes are likely.
    pub async fn is_busy(&self, id: RefundId, now: Timestamp) -> Result<bool, StoreError> {
        Ok(now.millis_since(self.charge(id).await?.read_at(now).updated_at) < BUSY_FOR_MS)
    }

    /// Records a refund that this service did not request, as a pending refund. Nothing can prevent it, because the
    /// acquirer has executed it. If it is recorded already, returns its refund.
    pub async fn record_made_there(
        &self,
        charge: ChargeId,
        made: MadeThere<'_>,
        now: Timestamp,
    ) -> Result<Refund, RefundError> {
        let id = Refund::id_of_bank_return(charge, made.id);
        let mut update = self.store.start_update("the charge of a refund");
        loop {
            if let Some(stored) = self.find(Some(id)).await? {
                return Ok(stored);
            }
            let charge = self.charge(id).await?.read_at(now);
            let is_held = charge.is_net_held(now);
            let at_bank = (made.id, made.its_id.clone(), made.reason.clone());
            let step = Refund::requested_at_bank(&charge, at_bank, made.amount, is_held, now)
                .map_err(|why| RefundError::Refused { why, status: charge.status })?;
            let is_pix = charge.method() == PaymentMethod::Pix;
            let (actor, reason) = if is_pix { AT_BANK } else { AT_ACQUIRER };
            let operator =
                Operator { actor: actor.to_owned(), reason: reason.to_owned(), ..Operator::default() };
            let (account, action) = (charge.scope.account, Action::RecordRefundAtBank);
            let audit = audit::by_operator(&operator, account, action, id, now)?;
            let mut writes = vec![
                Write::replace(&step.charge, charge.version)?,
                Write::insert(&step.refund)?,
                Write::audit(&audit),
            ];
            writes.extend(counters::posting_writes(&step.posting, DebitCheck::Unchecked)?);
            if update.commit(writes).await? {
                return Ok(step.refund);
            }
        }
    }

    /// A pending refund first moves to `IN_PROGRESS`. A refund that has ended is returned unchanged.
    pub async fn end(
        &self,
        refund: Refund,
        end: RefundOutcome,
        now: Timestamp,
    ) -> Result<Refund, RefundError> {
        self.end_at_bank(refund, end, RefundEnd::default(), now).await
    }

    pub async fn end_at_bank(
        &self,
        refund: Refund,
        end: RefundOutcome,
        said: RefundEnd,
        now: Timestamp,
    ) -> Result<Refund, RefundError> {
        Box::pin(self.end_with(refund, (end, said), None, now)).await
    }

    /// Fails a refund whose Pix the bank has lost. The caller has asked the bank.
    pub async fn fail_lost(
        &self,
        refund: Refund,
        by: &Operator,
        now: Timestamp,
    ) -> Result<Refund, RefundError> {
        let (account, subject) = (refund.scope.account, refund.id.to_string());
        let audit = audit::by_operator(by, account, Action::FailRefund, subject, now)?;
        let said = RefundEnd { reason: Some(RefundFailure::LostByBank), ..RefundEnd::default() };
        self.end_with(refund, (RefundOutcome::Failed, said), Some(&audit), now).await
    }

    async fn end_with(
        &self,
        refund: Refund,
        (end, said): (RefundOutcome, RefundEnd),
        audit: Option<&Audit>,
        now: Timestamp,
    ) -> Result<Refund, RefundError> {
        let (id, mut just_read) = (refund.id, Some(refund));
        let mut update = self.store.start_update("a refund");
        loop {
            let refund = reuse_or_read(&mut just_read, self.get_existing(id)).await?;
            let refund = self.claim(refund, now).await?.with_rtr_id(said.id.clone());
            let charge = self.charge(id).await?.read_at(now);
            let step = match refund.ended(&charge, end, now) {
                Ok(Some(step)) => {
                    RefundStep { refund: step.refund.with_failure_reason(said.reason.clone()), ..step }
                }
                Ok(None) => return Ok(refund),
                // Another caller may have ended the refund after it was read here, but before its charge was.
                Err(error) => {
                    let current = self.get_existing(id).await?;
                    return if current.is_done() { Ok(current) } else { Err(error.into()) };
                }
            };
            let mut writes = vec![
                Write::replace(&step.refund, refund.version)?,
                Write::replace(&step.charge, charge.version)?,
            ];
            writes.extend(counters::posting_writes(&step.posting, DebitCheck::Unchecked)?);
            if end == RefundOutcome::Failed {
                writes.extend(third_party::release(&step.refund));
            }
            writes.extend(audit.map(Write::audit));
            if update.commit(writes).await? {
                return Ok(step.refund);
            }
        }
    }

    async fn charge(&self, refund: RefundId) -> Result<StoredCharge, StoreError> {
        let charge = self.store.get(&Charge::key_of(refund.charge())).await?;
        charge.ok_or_else(|| StoreError::Corrupt(format!("the charge of the refund {refund} does not exist")))
    }

    async fn get_existing(&self, id: RefundId) -> Result<Refund, StoreError> {
        let missing = || StoreError::Corrupt(format!("the refund {id} no longer exists"));
        self.find(Some(id)).await?.ok_or_else(missing)
    }
}

/// Indexes of the writes that create a refund. The last one exists only if a daily limit applies.
const CHARGE_WRITE: usize = 0;
const REFUND_WRITE: usize = 1;
const LIMIT_WRITE: usize = 2;

enum RefundPlan {
    Planned(Vec<Write>, Box<Refund>),
    /// The wallet has changed since it was read, so the update must start another attempt.
    Stale,
}

/// A request with another body means that the idempotency key was reused.
fn replayed(stored: Refund, request: &NewRefund) -> Result<Created<Refund>, RefundError> {
    if request.is_replay_of(&stored.request_hash) {
        Ok(Created::Replayed(stored))
    } else {
        Err(RefundError::IdempotencyKeyReused)
    }
}
