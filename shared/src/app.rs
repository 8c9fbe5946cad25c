//! The state of an HTTP function whose callers have API keys.

use std::ops::Deref;
use std::sync::Arc;

use crate::api_key::ApiKeys;
use crate::auth::dashboard::Dashboard;
use crate::clock::Clock;
use crate::config::{ConfigError, PublicUrls, Vars, required};
use crate::http::Origin;
use crate::product::Product;
use crate::store::{Aws, Store};

/// What all such functions have, and `T`, which one function has. So a handler that uses what its function may not use
/// does not compile. Clones share the state, because each request makes several.
#[derive(Debug)]
pub struct App<T>(Arc<Parts<T>>);

#[derive(Debug)]
pub struct Parts<T> {
    pub store: Store,
    pub api_keys: ApiKeys,
    /// Its tokens are valid only in a function with the variables of [`Dashboard::from_vars`].
    pub dashboard: Dashboard,
    pub clock: Clock,
    pub public_urls: PublicUrls,
    /// The public origin of the API, with the secrets of the CDN in front of it.
    pub origin: Origin,
    own: T,
}

impl<T> App<T> {
    /// Reads `TABLE_NAME`, `API_KEYS_TABLE_NAME`, `CHECKOUT_BASE_URL`, and the variables of
    /// [`Origin::from_vars`], of [`Dashboard::from_vars`], of [`Product::from_vars`] and of `own`.
    /// Errors: When one of the first three is not set, or a value is not valid.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: Vars<'_>,
        own: impl FnOnce(&Store, &Clock) -> Result<T, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Product::from_vars(var)?.show();
        Ok(Self(Arc::new(Parts {
            api_keys: ApiKeys::new(store.clone(), required(var, "API_KEYS_TABLE_NAME")?),
            dashboard: Dashboard::from_vars(store.clone(), var)?,
            public_urls: PublicUrls::new(&required(var, "CHECKOUT_BASE_URL")?)?,
            origin: Origin::from_vars(var)?,
            own: own(&store, &clock)?,
            store,
            clock,
        })))
    }
}

impl<T> Clone for App<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for App<T> {
    type Target = Parts<T>;

    fn deref(&self) -> &Parts<T> {
        &self.0
    }
}

impl<T> Deref for Parts<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.own
    }
}
