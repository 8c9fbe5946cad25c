//! Reads and writes payout keys. Each change is one transaction with its audit row, from which the owners' e-mails are made.

use domain::audit::{Action, Operator};
use domain::ids::AccountId;
use domain::payout::{KeyRefusal, PayoutKey, PayoutKeyState};
use domain::pix_key::PixKey;
use domain::tax_id::TaxId;
use domain::time::Timestamp;

use crate::payout::PAGE_SIZE;
use shared::audit;
use shared::store::{ListIndex, Order, PageRange, Plan, StoreError, Write};

#[derive(Debug, thiserror::Error)]
pub enum PayoutKeyError {
    #[error(transparent)]
    Refused(#[from] KeyRefusal),
    /// Whether the change was written is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
}

shared::store::repository!(PayoutKeys);

impl PayoutKeys {
    pub async fn find(&self, account: &AccountId) -> Result<Option<PayoutKey>, StoreError> {
        self.store.get(&PayoutKey::key_of(account)).await
    }

    /// Returns the keys of all accounts that wait for a check, the oldest first, at most 100.
    pub async fn waiting(&self) -> Result<Vec<PayoutKey>, StoreError> {
        let page = PageRange { range: ("0", "~"), order: Order::OldestFirst, after: None, limit: PAGE_SIZE };
        let partition = [PayoutKey::WAITING.to_owned()];
        let mut keys: Vec<PayoutKey> = self.store.rows_page((ListIndex::All, &partition), page).await?.0;
        // The index may be behind.
        keys.retain(|key| key.state == PayoutKeyState::Waiting);
        Ok(keys)
    }

    /// Registers a key in place of the account's present one. A repetition changes nothing, unless the key is rejected.
    pub async fn register(
        &self,
        account: AccountId,
        key: &PixKey,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let plan = |stored: Option<PayoutKey>| {
            let Some(next) = PayoutKey::registered(stored.as_ref(), (account, key), now) else {
                return Ok(Plan::Finished(()));
            };
            let action = Action::RegisterPayoutKey(key.masked());
            let audit = audit::by_operator(operator, account, action, account, now)?;
            let write = Write::put(&next, stored.map(|stored| stored.version))?;
            Ok(Plan::Commit(vec![write, Write::audit(&audit)], ()))
        };
        self.store.update("a payout key", &PayoutKey::key_of(&account), plan).await
    }

    /// See [`PayoutKey::approved`].
    pub async fn approve(
        &self,
        account: AccountId,
        checked: (&PixKey, TaxId),
        document: Option<TaxId>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<PayoutKey, PayoutKeyError> {
        let approved = |key: &PayoutKey| key.approved(checked, document);
        self.decide((account, Action::ApprovePayoutKey), approved, operator, now).await
    }

    /// See [`PayoutKey::rejected`]. The owners read the operator's reason.
    pub async fn reject(
        &self,
        account: AccountId,
        checked: &PixKey,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<PayoutKey, PayoutKeyError> {
        let rejected = |key: &PayoutKey| key.rejected(checked, &operator.reason);
        self.decide((account, Action::RejectPayoutKey), rejected, operator, now).await
    }

    async fn decide(
        &self,
        (account, action): (AccountId, fn(String) -> Action),
        decided: impl Fn(&PayoutKey) -> Result<Option<PayoutKey>, KeyRefusal>,
        operator: &Operator,
        now: Timestamp,
    ) -> Result<PayoutKey, PayoutKeyError> {
        let plan = |stored: Option<PayoutKey>| {
            let stored = stored.ok_or(KeyRefusal::NoKey)?;
            let Some(next) = decided(&stored)? else { return Ok(Plan::Finished(stored)) };
            let audit = audit::by_operator(operator, account, action(next.key.masked()), account, now)?;
            Ok(Plan::Commit(vec![Write::replace(&next, stored.version)?, Write::audit(&audit)], next))
        };
        self.store.update("a payout key", &PayoutKey::key_of(&account), plan).await
    }
}
