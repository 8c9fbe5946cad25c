//! Each change of a payout is one transaction with its posting and an audit row. Operators create and end payouts;
//! owners request them.
//!
//! The transaction of a request also replaces the row of the last request in its currency, and checks the version of the
//! payout key. So of two requests at once one succeeds, and a key that is replaced meanwhile gets no money.

use domain::audit::{Action, Operator, Sum};
use domain::ids::{PayoutId, PostingId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::{LastRequest, Payout, PayoutDestination, PayoutOutcome, PayoutStatus};
use domain::reference::{Reference, Referenced, UsedReference};
use domain::row::Row;
use domain::shard::{Shard, ShardedScope};
use domain::time::Timestamp;
use domain::wallet::{Cause, Posting, Subject, rules};

use crate::payout::PayoutKeys;
use crate::wallet::counters::{self, DebitCheck};
use crate::wallet::day_limit;
use crate::wallet::{CachedCredits, DebitPlan, OverLimit, Wallets};
use shared::audit;
use shared::store::{ListIndex, PageRange, Plan, StoreError, Write};

pub const PAGE_SIZE: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum PayoutError {
    #[error("the wallet's available balance is only {available} (minor units)")]
    InsufficientBalance { available: i64 },
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    #[error("the account has no payout key that works now")]
    NoKey,
    #[error("the payout {0}, which was requested before, is pending")]
    Requested(PayoutId),
    #[error("no payout has this id")]
    NotFound,
    #[error("the payout has already ended: it is {}", .0.as_str())]
    Ended(PayoutStatus),
    #[error("the reference belongs to {0}, which differs; choose another one for another movement of money")]
    ReferenceTaken(Referenced),
    /// Whether the change was written is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
}

shared::store::repository!(Payouts);

impl Payouts {
    /// Concurrent payouts cannot overdraw the wallet. A call with the reference, scope, amount and currency of a
    /// stored payout returns that payout.
    pub async fn create(
        &self,
        named: (PayoutId, &Reference),
        scope: Scope,
        money: (Amount, Currency),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutError> {
        self.insert(pending(named, scope, money, now), false, operator, now).await
    }

    /// Like [`Self::create`], to the account's payout key, unless an earlier request in the currency is pending.
    pub async fn request(
        &self,
        named: (PayoutId, &Reference),
        scope: Scope,
        money: (Amount, Currency),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutError> {
        self.insert(pending(named, scope, money, now), true, operator, now).await
    }

    async fn insert(
        &self,
        mut payout: Payout,
        is_request: bool,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutError> {
        let (id, scope) = (payout.id, payout.scope);
        let reference = payout.reference.clone().unwrap_or_else(|| id.into());
        let used = UsedReference { scope, reference, of: Referenced::Payout(id) };
        let (posting, action) = posting_and_action(&payout);
        let audit = audit::by_operator(operator, scope.account, action, id, now)?;
        let wallets = Wallets::new(self.store.clone());
        let ShardedScope { shards, .. } = wallets.sharded_scope(&scope).await?;
        let mut credits = CachedCredits::default();
        let mut update = self.store.start_update("a wallet");
        loop {
            if let Some(UsedReference { of, .. }) = self.store.get(&used.key()).await? {
                return self.existing(of, &payout).await;
            }
            let mut conditions = Vec::new();
            if is_request {
                let (destination, of_request) = self.destination(&payout, now).await?;
                (payout.destination, conditions) = (Some(destination), of_request);
            }
            let moved = (&scope, payout.currency, payout.amount.minor().unsigned_abs());
            let counted = day_limit::plan(&self.store, moved, operator, now).await??;
            let change = [Write::insert(&payout)?, Write::insert(&used)?, Write::audit(&audit)];
            let change = change.into_iter().chain(conditions).chain(counted).collect();
            match wallets.plan_debit((update.failed(), &mut credits), shards, &posting, change).await? {
                DebitPlan::Writes(writes) => {
                    if update.commit(writes).await? {
                        return Ok(payout);
                    }
                }
                DebitPlan::Short { available, .. } => {
                    return Err(PayoutError::InsufficientBalance { available });
                }
            }
        }
    }

    /// Returns where a requested payout goes, and the writes that make it the only pending request.
    async fn destination(
        &self,
        payout: &Payout,
        now: Timestamp,
    ) -> Result<(PayoutDestination, Vec<Write>), PayoutError> {
        let (scope, currency) = (payout.scope, payout.currency);
        let last = self.last_request(&scope, currency).await?;
        if let Some((_, last)) = last.as_ref().filter(|(_, last)| last.status == PayoutStatus::Pending) {
            return Err(PayoutError::Requested(last.id));
        }
        let key = PayoutKeys::new(self.store.clone()).find(&scope.account).await?;
        let key = key.ok_or(PayoutError::NoKey)?;
        let destination = key.destination(now).ok_or(PayoutError::NoKey)?;
        let replaced = last.map(|(row, _)| row.version);
        let version = replaced.unwrap_or(0).saturating_add(1);
        let request = LastRequest { scope, currency, payout: payout.id, version };
        Ok((destination, vec![Write::put(&request, replaced)?, Write::check(key.key(), key.version)]))
    }

    /// Returns the last payout that an owner requested in a currency, with the row that names it.
    pub async fn last_request(
        &self,
        scope: &Scope,
        currency: Currency,
    ) -> Result<Option<(LastRequest, Payout)>, StoreError> {
        let row: Option<LastRequest> = self.store.get(&LastRequest::key_of(scope, currency)).await?;
        let Some(row) = row else { return Ok(None) };
        let payout = self.find(row.payout).await?;
        let payout =
            payout.ok_or_else(|| StoreError::Corrupt(format!("there is no payout {}", row.payout)))?;
        Ok(Some((row, payout)))
    }

    /// Returns what a reference names, if it is the requested payout.
    async fn existing(&self, of: Referenced, requested: &Payout) -> Result<Payout, PayoutError> {
        let stored = match of {
            Referenced::Payout(id) => self.find(id).await?,
            Referenced::Correction(_) => None,
        };
        let content = |payout: &Payout| (payout.scope, payout.amount, payout.currency);
        let same = stored.filter(|stored| content(stored) == content(requested));
        same.ok_or(PayoutError::ReferenceTaken(of))
    }

    /// A payout that already ended with the same status is returned unchanged.
    pub async fn end(
        &self,
        id: PayoutId,
        end: &PayoutOutcome,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutError> {
        let plan = |payout: Option<Payout>| {
            let payout = payout.ok_or(PayoutError::NotFound)?;
            let Some(next) = payout.ended(end, now).map_err(PayoutError::Ended)? else {
                return Ok(Plan::Finished(payout));
            };
            let (posting, action) = posting_and_action(&next);
            let audit = audit::by_operator(operator, next.scope.account, action, id, now)?;
            let mut writes = vec![Write::replace(&next, payout.version)?, Write::audit(&audit)];
            writes.extend(counters::posting_writes(&posting, DebitCheck::Unchecked)?);
            Ok(Plan::Commit(writes, next))
        };
        self.store.update("a payout", &Payout::key_of(id), plan).await
    }

    /// Whether a payout or correction of the account has this reference.
    pub async fn has_reference(&self, scope: &Scope, reference: &Reference) -> Result<bool, StoreError> {
        Ok(self.store.get_item(&UsedReference::key_of(&scope.account, reference)).await?.is_some())
    }

    pub async fn find(&self, id: PayoutId) -> Result<Option<Payout>, StoreError> {
        self.store.get(&Payout::key_of(id)).await
    }

    /// Newest first, at most 100 after the payout `after`.
    pub async fn list(&self, scope: &Scope, after: Option<PayoutId>) -> Result<Vec<Payout>, StoreError> {
        self.page(ListIndex::All, Payout::list_partition(scope), after).await
    }

    /// Returns the pending payouts of all accounts in both modes, newest first, at most 100 after the payout `after`.
    pub async fn pending(&self, after: Option<PayoutId>) -> Result<Vec<Payout>, StoreError> {
        self.page(ListIndex::ByStatus, Payout::PENDING.to_owned(), after).await
    }

    async fn page(
        &self,
        index: ListIndex,
        partition: String,
        after: Option<PayoutId>,
    ) -> Result<Vec<Payout>, StoreError> {
        let after = after.map(|id| id.to_string());
        let page = PageRange::newest_first(("po_", "po_~"), after.as_deref(), PAGE_SIZE);
        Ok(self.store.rows_page((index, &[partition]), page).await?.0)
    }
}

fn pending(
    (id, reference): (PayoutId, &Reference),
    scope: Scope,
    (amount, currency): (Amount, Currency),
    now: Timestamp,
) -> Payout {
    Payout {
        id,
        scope,
        amount,
        currency,
        reference: Some(reference.clone()),
        destination: None,
        status: PayoutStatus::Pending,
        failure_reason: None,
        created_at: now,
        updated_at: now,
        paid_at: None,
        booked_again: None,
        version: 1,
    }
}

pub(super) fn posting_and_action(payout: &Payout) -> (Posting, Action) {
    let (cause, amount) = (cause(payout), payout.amount);
    let sum = Sum { mode: payout.scope.mode, currency: payout.currency, minor: amount.minor() };
    match payout.status {
        PayoutStatus::Pending => (rules::payout_requested(cause, amount), Action::CreatePayout(sum)),
        PayoutStatus::Paid => (rules::payout_paid(cause, amount), Action::SettlePayout(sum)),
        PayoutStatus::Failed => (rules::payout_failed(cause, amount), Action::FailPayout(sum)),
    }
}

fn cause(payout: &Payout) -> Cause {
    Cause {
        id: PostingId::derive(payout.updated_at, &payout.key().pk, payout.version),
        scope: payout.scope,
        shard: Shard::FIRST,
        currency: payout.currency,
        at: payout.updated_at,
        subject: Subject { payout: Some(payout.id), ..Subject::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::at;
    use crate::payout::testing::pending;

    #[test]
    fn each_posting_of_a_payout_names_it() {
        let paid = pending().ended(&PayoutOutcome::Paid, at(60)).unwrap().unwrap();
        let reason = "account closed".to_owned();
        let failed = pending().ended(&PayoutOutcome::Failed { reason }, at(60)).unwrap().unwrap();
        for payout in [pending(), paid, failed] {
            let (posting, _) = posting_and_action(&payout);
            assert_eq!(posting.subject, Subject { payout: Some(payout.id), ..Subject::default() });
        }
    }
}
