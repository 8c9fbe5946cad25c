//! Override secrets, which sign deliveries to transactions' `webhookUrl`s. A `webhookUrl` is not registered,
//! so no secret is created for it. Each scope has one secret for all its `webhookUrl`s (design: Settled
//! here).

use serde::{Deserialize, Serialize};

use domain::ids::Scope;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::signature::EndpointSecret;

use super::WebhookError;
use crate::auth::Caller;
use crate::store::{CommitOutcome, Inserted, Store, StoreError, Write, to_item};

/// The row of a scope's secret.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OverrideSecret {
    /// The account and mode.
    pub scope: Scope,
    /// The secret.
    pub secret: EndpointSecret,
    /// When it was created or rotated.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl OverrideSecret {
    /// Returns the key of a scope's row.
    pub fn key_of(scope: &Scope) -> Key {
        Key { pk: format!("override-secret#{scope}"), sk: "override-secret".to_owned() }
    }
}

impl Row for OverrideSecret {
    fn key(&self) -> Key {
        Self::key_of(&self.scope)
    }
}

/// Reads and writes the override secrets of all scopes.
#[derive(Clone, Debug)]
pub struct OverrideSecrets {
    store: Store,
}

impl OverrideSecrets {
    /// Uses the secrets in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns the scope's secret. If the scope has none yet, stores and returns `secret`.
    pub async fn get_or_set(
        &self,
        scope: Scope,
        secret: EndpointSecret,
        now: Timestamp,
    ) -> Result<EndpointSecret, StoreError> {
        let first = OverrideSecret { scope, secret, updated_at: now, version: 1 };
        match self.store.insert(&first).await? {
            Inserted::New => Ok(first.secret),
            Inserted::Existing(earlier) => Ok(earlier.secret),
        }
    }

    /// Replaces the scope's secret. Deliveries that are signed afterwards use the new secret. Concurrent
    /// rotations do not conflict: the last secret stays. The audit row is written in the same transaction. It
    /// is not derived from the stream, because the stream's filter keeps this row, which contains the secret,
    /// from the dispatcher.
    pub async fn rotate(
        &self,
        caller: &Caller,
        secret: EndpointSecret,
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        let row = OverrideSecret { scope: caller.scope, secret, updated_at: now, version: 1 };
        let mut set = to_item(&row)?;
        set.retain(|name, _| !["pk", "sk", "version"].contains(&name.as_str()));
        let audit = caller.audit("override-secret.rotate", &caller.scope, "secret for webhookUrl", now)?;
        let rotate = Write::add(row.key(), vec![("version".to_owned(), 1)], set, None);
        match self.store.commit(vec![rotate, Write::insert(&audit)?]).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict { .. } => {
                Err(StoreError::Corrupt("an audit row's random id was taken".to_owned()).into())
            }
        }
    }
}
