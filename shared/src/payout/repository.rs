//! Reads and writes of payouts.

use domain::audit::Operator;
use domain::ids::{PayoutId, PostingId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::{Payout, PayoutEnd, PayoutStatus};
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::wallet::{Cause, Posting, Subject, rules};

use crate::audit;
use crate::random::RandomError;
use crate::store::{ListIndex, Order, Plan, Store, StoreError, Write};
use crate::wallet::counters::{self, Cover};
use crate::wallet::{Covered, CreditsRead, Wallets};

/// Payouts that are listed at once.
pub const LISTED: usize = 100;

/// Why a payout is not made, or not ended so.
#[derive(Debug, thiserror::Error)]
pub enum PayoutRefused {
    /// The wallet has less than that.
    #[error("the wallet has only {available} available, in minor units")]
    InsufficientBalance {
        /// What can be spent, in minor units.
        available: i64,
    },
    /// There is none of that id.
    #[error("there is no such payout")]
    NotFound,
    /// It ended otherwise.
    #[error("the payout is {} already", .0.as_str())]
    Ended(PayoutStatus),
    /// There is another payout of that id.
    #[error("there is another payout of that id")]
    IdTaken,
    /// There is none of this id, and it is not of the day before.
    #[error(
        "nothing was done under that id, and it is not of the day before; leave it out to have a new one"
    )]
    IdOutOfTime,
    /// DynamoDB; whether anything was written is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit row has no id.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The payouts of all scopes.
#[derive(Clone, Debug)]
pub struct Payouts {
    store: Store,
}

impl Payouts {
    /// Payouts in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Takes money out of a wallet for a payout. However many are asked for at once, the wallet is not overdrawn; the same
    /// one asked for again, by its id, is one.
    pub async fn create(
        &self,
        id: PayoutId,
        scope: Scope,
        (amount, currency): (Amount, Currency),
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutRefused> {
        let payout = Payout {
            id,
            scope,
            amount,
            currency,
            status: PayoutStatus::Pending,
            failure_reason: None,
            created_at: now,
            updated_at: now,
            paid_at: None,
            version: 1,
        };
        let (posting, action) = posting(&payout);
        let details = format!("{} {currency} {}", scope.mode, amount.minor());
        let audit = audit::by_operator(operator, scope.account, action, id.to_string(), now)?.with(details);
        let wallets = Wallets::new(self.store.clone());
        let mut credits = CreditsRead::default();
        let mut update = self.store.start_update("a wallet");
        loop {
            update.next_attempt().await?;
            if let Some(earlier) = self.find(id).await? {
                return asked_again(earlier, scope, amount, currency);
            }
            if !id.is_of_late(now) {
                return Err(PayoutRefused::IdOutOfTime);
            }
            let change = vec![Write::insert(&payout)?, Write::insert(&audit)?];
            match wallets.covered(&mut update, &mut credits, &posting, change).await? {
                Covered::Writes(writes) => {
                    if update.commit(writes).await? {
                        return Ok(payout);
                    }
                }
                Covered::Short { available, .. } => {
                    return Err(PayoutRefused::InsufficientBalance { available });
                }
            }
        }
    }

    /// Ends a payout. The same end again changes nothing.
    pub async fn end(
        &self,
        id: PayoutId,
        end: &PayoutEnd,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<Payout, PayoutRefused> {
        let plan = |payout: Option<Payout>| {
            let payout = payout.ok_or(PayoutRefused::NotFound)?;
            let Some(next) = payout.ended(end, now).map_err(PayoutRefused::Ended)? else {
                return Ok(Plan::Finished(payout));
            };
            let (posting, action) = posting(&next);
            let audit = audit::by_operator(operator, next.scope.account, action, id.to_string(), now)?;
            let mut writes = vec![Write::replace(&next, payout.version)?, Write::insert(&audit)?];
            writes.extend(counters::posting_writes(&posting, Cover::NotNeeded)?);
            Ok(Plan::Commit(writes, next))
        };
        self.store.update("a payout", &Payout::key_of(id), plan).await
    }

    /// Reads a payout.
    pub async fn find(&self, id: PayoutId) -> Result<Option<Payout>, StoreError> {
        self.store.get(&Payout::key_of(id)).await
    }

    /// A scope's payouts, newest first, at most 100, after the one that is named.
    pub async fn list(&self, scope: &Scope, after: Option<PayoutId>) -> Result<Vec<Payout>, StoreError> {
        let partition = Payout::list_partition(scope);
        let to = after.map_or_else(|| "po_~".to_owned(), |id| id.to_string());
        // One more, for the bound takes in the one that is named.
        let wanted = LISTED.saturating_add(1);
        let entries =
            self.store.list(ListIndex::All, &partition, ("po_", &to), Order::NewestFirst, wanted).await?;
        let keys = entries.into_iter().filter(|entry| entry.sort != to).map(|entry| entry.key);
        let keys: Vec<Key> = keys.take(LISTED).collect();
        self.store.get_in_order(&keys).await
    }
}

/// The answer to a request for a payout of an id that was used before.
fn asked_again(
    earlier: Payout,
    scope: Scope,
    amount: Amount,
    currency: Currency,
) -> Result<Payout, PayoutRefused> {
    let is_same = earlier.scope == scope && earlier.amount == amount && earlier.currency == currency;
    if is_same { Ok(earlier) } else { Err(PayoutRefused::IdTaken) }
}

/// What a payout's last change posts, and what the audit calls it.
fn posting(payout: &Payout) -> (Posting, &'static str) {
    match payout.status {
        PayoutStatus::Pending => (rules::payout_requested(cause(payout), payout.amount), "payout.create"),
        PayoutStatus::Paid => (rules::payout_paid(cause(payout), payout.amount), "payout.settle"),
        PayoutStatus::Failed => (rules::payout_failed(cause(payout), payout.amount), "payout.fail"),
    }
}

fn cause(payout: &Payout) -> Cause {
    Cause {
        id: PostingId::derive(payout.updated_at, &payout.key().pk, payout.version),
        scope: payout.scope,
        currency: payout.currency,
        at: payout.updated_at,
        subject: Subject { payout: Some(payout.id), ..Subject::default() },
    }
}
