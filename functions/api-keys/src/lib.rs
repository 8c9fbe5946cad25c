//! `/v1/api-keys` (contract: API keys) and `/v1/auth`, which gives and ends the tokens that open them.

mod auth;
mod keys;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::routing::{get, post};
use domain::time::Timestamp;
use shared::api_key::ApiKeys;
use shared::auth::dashboard::{Dashboard, Member};
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::http::{Problem, RequestContext, framed};
use shared::store::{Aws, Store};

/// The function's state. Clones share clients and clock.
#[derive(Clone, Debug)]
pub struct ApiKeysApp {
    /// Keys.
    pub api_keys: ApiKeys,
    /// Who is logged in.
    pub dashboard: Dashboard,
    /// The time.
    pub clock: Clock,
}

impl ApiKeysApp {
    /// Reads `TABLE_NAME`, `API_KEYS_TABLE_NAME` and `DASHBOARD_TOKEN_SECRET`.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            api_keys: ApiKeys::new(store.clone(), required(var, "API_KEYS_TABLE_NAME")?),
            dashboard: Dashboard::from_vars(store, var)?,
            clock,
        })
    }
}

/// The person who is logged in.
struct LoggedIn {
    desk: ApiKeysApp,
    member: Member,
    now: Timestamp,
}

impl FromRequestParts<ApiKeysApp> for LoggedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, desk: &ApiKeysApp) -> Result<Self, Problem> {
        let Ok(context) = RequestContext::from_request_parts(parts, desk).await;
        let now = desk.clock.now();
        let member = desk.dashboard.authenticate(&context, now).await?;
        Ok(Self { desk: desk.clone(), member, now })
    }
}

/// A person who is logged in and may manage API keys.
struct KeyManager(LoggedIn);

impl FromRequestParts<ApiKeysApp> for KeyManager {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, desk: &ApiKeysApp) -> Result<Self, Problem> {
        let logged_in = LoggedIn::from_request_parts(parts, desk).await?;
        logged_in.member.require_key_manager()?;
        Ok(Self(logged_in))
    }
}

/// The function's routes.
pub fn router(desk: ApiKeysApp) -> Router {
    let routes = Router::new()
        .route("/v1/api-keys", get(keys::list).post(keys::issue))
        .route("/v1/api-keys/{id}", axum::routing::delete(keys::revoke))
        .route("/v1/api-keys/{id}/rotate", post(keys::rotate))
        .route("/v1/auth/login", post(auth::log_in))
        .route("/v1/auth/logout", post(auth::log_out))
        .with_state(desk);
    framed(routes)
}
