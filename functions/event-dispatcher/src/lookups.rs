//! Inserts the rows by which new charges are found by order number, payment link, e-mail address and name
//! ([`domain::charge::Lookup`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::charge::Lookups;
use domain::ids::AccountId;
use shared::account::Accounts;
use shared::concurrently;
use shared::store::{StoreError, Write};

use crate::quarantine::Cause;
use crate::{Dispatcher, FailedRecord};

/// The most new charges whose rows are inserted concurrently.
const CONCURRENT_CHARGES: usize = 16;

/// The salts of the accounts that this process has read. A salt never changes. Clones share them.
#[derive(Clone, Default)]
pub struct Salts(Arc<Mutex<HashMap<AccountId, Arc<str>>>>);

domain::text::hidden_debug!(Salts);

impl Dispatcher {
    /// Inserts the rows of new charges, unless they exist. Returns the records that failed.
    pub(crate) async fn insert_lookups(&self, new: Vec<(String, Lookups)>) -> Vec<FailedRecord> {
        let inserted = concurrently(CONCURRENT_CHARGES, new, |(number, lookups)| {
            let dispatcher = self.clone();
            async move {
                dispatcher.insert_lookup(&lookups).await.map_err(|error| {
                    let cause = Cause::from(&error);
                    if cause != Cause::Throttled {
                        tracing::error!(scope = %lookups.scope, %error, "can't insert the lookup rows of a charge");
                    }
                    (number, cause)
                })
            }
        });
        inserted.await.into_iter().filter_map(Result::err).collect()
    }

    async fn insert_lookup(&self, lookups: &Lookups) -> Result<(), StoreError> {
        let salt = self.salt_of(lookups.scope.account).await?;
        for row in lookups.rows(salt.as_bytes()) {
            let _inserted_or_existing = self.store.commit(vec![Write::insert(&row)?]).await?;
        }
        Ok(())
    }

    async fn salt_of(&self, account: AccountId) -> Result<Arc<str>, StoreError> {
        let known = self.salts.0.lock().unwrap_or_else(PoisonError::into_inner).get(&account).cloned();
        if let Some(salt) = known {
            return Ok(salt);
        }
        let row = Accounts::new(self.store.clone()).find(&account).await?;
        let missing = || StoreError::Corrupt(format!("the account {account} has no row"));
        let salt: Arc<str> = row.ok_or_else(missing)?.salt.into();
        let mut salts = self.salts.0.lock().unwrap_or_else(PoisonError::into_inner);
        salts.insert(account, Arc::clone(&salt));
        Ok(salt)
    }
}
