//! The secrets that sign deliveries: one of each endpoint, and the override secret of each scope, which signs
//! deliveries to transactions' `webhookUrl`s. A `webhookUrl` is not registered, so no secret is created for it.
//! Each scope has one secret for all its `webhookUrl`s.
//!
//! The secrets are in the table of secrets, which has no stream, so that none reaches the event dispatcher. A
//! change that concerns an endpoint and its secret is one transaction over both tables.

use serde::{Deserialize, Serialize};

use domain::audit::Action;
use domain::ids::{EndpointId, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::signature::EndpointSecret;

use super::WebhookError;
use super::delivery::Abandonment;
use super::endpoint::{Endpoint, NewEndpoint, decrement_count, increment_count, server_of};
use shared::auth::Caller;
use shared::store::{CommitOutcome, Plan, RowUpdate, Store, StoreError, Write, number, to_item};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SigningSecret {
    pub scope: Scope,
    /// The endpoint; `None`: the scope's override secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointId>,
    pub secret: EndpointSecret,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
}

impl SigningSecret {
    /// Returns the key of an endpoint's secret; `None`: of the scope's override secret.
    pub fn key_of(scope: &Scope, endpoint: Option<EndpointId>) -> Key {
        match endpoint {
            Some(endpoint) => Key { pk: format!("endpoint-secret#{scope}"), sk: endpoint.to_string() },
            None => Key { pk: format!("override-secret#{scope}"), sk: "override-secret".to_owned() },
        }
    }
}

impl Row for SigningSecret {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.endpoint)
    }
}

/// Writes the secrets of all scopes, and with them the endpoints that are registered or deleted.
#[derive(Clone, Debug)]
pub struct SigningSecrets {
    state: Store,
    secrets: Store,
}

impl SigningSecrets {
    pub fn new(state: Store, secrets: Store) -> Self {
        Self { state, secrets }
    }

    pub async fn register(
        &self,
        caller: &Caller,
        request: NewEndpoint,
        (id, secret): (EndpointId, &EndpointSecret),
        now: Timestamp,
    ) -> Result<Endpoint, WebhookError> {
        let scope = caller.scope;
        let endpoint = Endpoint::registered(caller, request, id, now);
        let secret = self.set(scope, Some(id), secret, now)?;
        let writes = vec![Write::insert(&endpoint)?, increment_count(&scope), secret];
        match self.state.commit(writes).await? {
            CommitOutcome::Done => Ok(endpoint),
            CommitOutcome::Conflict { at } if at == [1] => Err(WebhookError::TooManyEndpoints),
            CommitOutcome::Conflict { .. } => {
                Err(StoreError::Corrupt("an endpoint's random id was taken".to_owned()).into())
            }
        }
    }

    /// Replaces the secret of an endpoint. Attempts that begin afterwards are signed with the new secret.
    pub async fn rotate(
        &self,
        caller: &Caller,
        id: EndpointId,
        secret: &EndpointSecret,
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        let plan = |endpoint: Option<Endpoint>| {
            let endpoint = endpoint.ok_or(WebhookError::NoEndpoint)?;
            let version = endpoint.version;
            let next = endpoint.with_rotated_secret(caller, now);
            let secret = self.set(caller.scope, Some(id), secret, now)?;
            Ok(Plan::Commit(vec![Write::replace(&next, version)?, secret], ()))
        };
        self.state.update("an endpoint", &Endpoint::key_of(&caller.scope, id), plan).await
    }

    /// Deletes an endpoint and its secret permanently, and abandons its pending deliveries. A tombstone stays
    /// ([`Abandonment`]).
    pub async fn delete(&self, caller: &Caller, id: EndpointId, now: Timestamp) -> Result<(), WebhookError> {
        let scope = &caller.scope;
        let key = Endpoint::key_of(scope, id);
        let plan = |endpoint: Option<Endpoint>| {
            let endpoint = endpoint.ok_or(WebhookError::NoEndpoint)?;
            let version = i64::try_from(endpoint.version).unwrap_or(i64::MAX);
            let remove = Write::remove(key.clone(), "version", version);
            let secret = Write::remove_any(SigningSecret::key_of(scope, Some(id)));
            let secret = secret.in_table(self.secrets.table());
            // The audit row is written here, because the dispatcher derives nothing from the stream record of
            // a removed row.
            let action = Action::DeleteEndpoint { mode: scope.mode, server: server_of(&endpoint.url) };
            let audit = caller.audit(action, id, now)?;
            let tombstone = Write::insert(&Abandonment::by_deletion(&endpoint, now))?;
            let audit = Write::audit(&audit);
            Ok(Plan::Commit(vec![remove, decrement_count(scope), tombstone, secret, audit], ()))
        };
        self.state.update("an endpoint", &key, plan).await
    }

    /// Replaces the scope's override secret. Attempts that begin afterwards are signed with the new secret.
    /// Concurrent rotations do not conflict: the last secret stays. The audit row is written in the same
    /// transaction, because the table of secrets has no stream to derive it from.
    pub async fn rotate_override(
        &self,
        caller: &Caller,
        secret: &EndpointSecret,
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        let scope = caller.scope;
        let audit = caller.audit(Action::RotateOverrideSecret(scope.mode), scope, now)?;
        let writes = vec![self.set(scope, None, secret, now)?, Write::audit(&audit)];
        let conflict = StoreError::Corrupt("a write without a condition conflicted".to_owned());
        Ok(self.state.commit(writes).await?.done_or(conflict)?)
    }

    /// Stores a secret in place of the earlier one, if there is one.
    fn set(
        &self,
        scope: Scope,
        endpoint: Option<EndpointId>,
        secret: &EndpointSecret,
        now: Timestamp,
    ) -> Result<Write, StoreError> {
        let row = SigningSecret { scope, endpoint, secret: secret.clone(), updated_at: now, version: 1 };
        let mut set = to_item(&row)?;
        set.retain(|name, _| !["pk", "sk", "version"].contains(&name.as_str()));
        let write = Write::update(RowUpdate::of(row.key()).add("version", number(1)).set_all(set));
        Ok(write.in_table(self.secrets.table()))
    }
}
