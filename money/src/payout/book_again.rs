//! Books payouts and operators' corrections again after a restore of the tables lost them. They are read from the former
//! table. Ids, times and postings are the same, so a repetition changes nothing.
//!
//! No balance is checked: the money left the wallet before the restore, and the charges that it came from may be lost too.
//! So the available balance may fall below zero, as after a MED case.

use domain::audit::{Action, Operator, Sum};
use domain::payout::{LastRequest, Payout, PayoutStatus};
use domain::reference::{Reference, Referenced, UsedReference};
use domain::row::Row;
use domain::time::Timestamp;
use domain::wallet::Posting;

use super::repository::posting_and_action;
use crate::payout::{PayoutError, Payouts};
use crate::wallet::Wallets;
use crate::wallet::counters::{self, DebitCheck};
use shared::audit;
use shared::store::{Store, StoreError, Write};

impl Payouts {
    /// Writes a payout as it is in the former table, with the postings that this table lacks. The change is not published.
    /// `false`: this table has the payout in the same or a later state.
    pub async fn book_again(
        &self,
        former: &Payout,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<bool, PayoutError> {
        let (id, scope, currency) = (former.id, former.scope, former.currency);
        let booked = Payout { booked_again: Some(former.version), ..former.clone() };
        let sum = Sum { mode: scope.mode, currency, minor: former.amount.minor() };
        let audit = audit::by_operator(operator, scope.account, Action::BookAgain(sum), id, now)?;
        let mut update = self.store.start_update("a payout");
        loop {
            let (mut writes, mut states) = (vec![Write::audit(&audit)], vec![former.clone()]);
            match self.find(id).await? {
                Some(stored) if [stored.status, PayoutStatus::Pending].contains(&former.status) => {
                    return Ok(false);
                }
                Some(stored) if stored.status == PayoutStatus::Pending => {
                    writes.push(Write::replace(&booked, stored.version)?);
                }
                Some(stored) => return Err(PayoutError::Ended(stored.status)),
                None => {
                    writes.push(Write::insert(&booked)?);
                    let reference = former.reference.clone().unwrap_or_else(|| id.into());
                    let used = UsedReference { scope, reference, of: Referenced::Payout(id) };
                    writes.extend(reference_write(&self.store, &used).await?);
                    writes.extend(self.request_write(former).await?);
                    if former.status != PayoutStatus::Pending {
                        states.push(former.requested());
                    }
                }
            }
            for state in &states {
                let (posting, _) = posting_and_action(state);
                // The row alone may be lost. A posting is in its counters.
                if self.store.get_item(&posting.key()).await?.is_none() {
                    writes.extend(counters::posting_writes(&posting, DebitCheck::Unchecked)?);
                }
            }
            if update.commit(writes).await? {
                return Ok(true);
            }
        }
    }

    /// Makes a requested payout the last one in its currency, unless a later one was requested after the restore.
    async fn request_write(&self, former: &Payout) -> Result<Option<Write>, StoreError> {
        let Payout { id: payout, scope, currency, .. } = *former;
        let last: Option<LastRequest> = self.store.get(&LastRequest::key_of(&scope, currency)).await?;
        let is_last = last.as_ref().is_none_or(|last| last.payout < payout);
        if former.destination.is_none() || !is_last {
            return Ok(None);
        }
        let replaced = last.map(|last| last.version);
        let version = replaced.unwrap_or(0).saturating_add(1);
        Ok(Some(Write::put(&LastRequest { scope, currency, payout, version }, replaced)?))
    }
}

impl Wallets {
    /// Inserts the posting of an operator's correction as it is in the former table. `false`: this table has it.
    pub async fn book_again(
        &self,
        reference: &Reference,
        former: &Posting,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<bool, PayoutError> {
        let Posting { id, scope, currency, .. } = *former;
        let used = UsedReference { scope, reference: reference.clone(), of: Referenced::Correction(id) };
        let sum = Sum { mode: scope.mode, currency, minor: former.amount.get() };
        let audit = audit::by_operator(operator, scope.account, Action::BookAgain(sum), id, now)?;
        let mut update = self.store.start_update("a wallet");
        loop {
            if self.store.get_item(&former.key()).await?.is_some() {
                return Ok(false);
            }
            let mut writes = vec![Write::audit(&audit)];
            writes.extend(reference_write(&self.store, &used).await?);
            writes.extend(counters::posting_writes(former, DebitCheck::Unchecked)?);
            if update.commit(writes).await? {
                return Ok(true);
            }
        }
    }
}

/// Inserts the row of a reference. `None`: it exists.
async fn reference_write(store: &Store, used: &UsedReference) -> Result<Option<Write>, PayoutError> {
    match store.get::<UsedReference>(&used.key()).await? {
        None => Ok(Some(Write::insert(used)?)),
        Some(stored) if stored.of == used.of => Ok(None),
        Some(stored) => Err(PayoutError::ReferenceTaken(stored.of)),
    }
}
