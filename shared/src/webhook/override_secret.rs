//! What signs the deliveries to transactions' own addresses (`webhookUrl`): one secret for each scope, for such an address
//! is registered nowhere (design: Settled here).

use serde::{Deserialize, Serialize};

use super::signature::EndpointSecret;
use crate::http::Problem;
use crate::ids::Scope;
use crate::store::{Committed, Inserted, Key, Row, Store, StoreError, Write};
use crate::time::Timestamp;

/// How often a rotation is tried anew because another one was faster.
const MAX_OVERTAKEN: usize = 10;

/// A scope's secret as its row keeps it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OverrideSecret {
    /// Whose it is.
    pub scope: Scope,
    /// The secret.
    pub secret: EndpointSecret,
    /// When it was made or rotated.
    #[serde(with = "crate::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl OverrideSecret {
    /// Where it lives.
    pub fn key_of(scope: &Scope) -> Key {
        Key { pk: format!("override-secret#{scope}"), sk: "override-secret".to_owned() }
    }
}

impl Row for OverrideSecret {
    fn key(&self) -> Key {
        Self::key_of(&self.scope)
    }
}

/// The secrets of all scopes.
#[derive(Clone, Debug)]
pub struct OverrideSecrets {
    store: Store,
}

impl OverrideSecrets {
    /// Secrets in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The scope's secret; this one, where it has none yet.
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

    /// Makes this the scope's secret: whatever is signed after uses it.
    pub async fn rotate(&self, scope: Scope, secret: &EndpointSecret, now: Timestamp) -> Result<(), Problem> {
        for _try in 0..MAX_OVERTAKEN {
            let earlier: Option<OverrideSecret> = self.store.get(&OverrideSecret::key_of(&scope)).await?;
            let version = earlier.map(|earlier| earlier.version);
            let next = OverrideSecret {
                scope,
                secret: secret.clone(),
                updated_at: now,
                version: version.unwrap_or_default().saturating_add(1),
            };
            let write = match version {
                Some(version) => Write::replace(&next, version)?,
                None => Write::insert(&next)?,
            };
            match self.store.commit(vec![write]).await? {
                Committed::Done => return Ok(()),
                Committed::Overtaken { .. } => {}
            }
        }
        Err(Problem::Unavailable("the override secret kept changing".to_owned()))
    }
}
