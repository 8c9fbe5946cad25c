//! The function `api-keys`. It serves `/v1/api-keys`, `/v1/auth`, which issues and revokes the dashboard tokens that
//! `/v1/api-keys` requires, and the forms of the dashboard about them and about users.

mod auth;
mod brand;
mod forms;
mod keys;
mod security;
mod team;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::routing::{get, post};
use domain::time::Timestamp;
use effects::email::UserEmail;
use shared::account::{Accounts, Logos, Users};
use shared::api_key::ApiKeys;
use shared::auth::dashboard::{Dashboard, Session};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{Origin, Problem, RequestContext, Result, with_middleware};
use shared::queue::Queue;
use shared::store::{Aws, Store};

/// Clones share the AWS clients and the clock.
#[derive(Clone, Debug)]
pub struct ApiKeysApp {
    pub accounts: Accounts,
    pub logos: Logos,
    pub api_keys: ApiKeys,
    pub dashboard: Dashboard,
    pub users: Users,
    /// The mailer's queue.
    pub emails: Queue<UserEmail>,
    pub clock: Clock,
    /// The public origin of the API, with the secrets of the CDN in front of it.
    pub origin: Origin,
}

impl ApiKeysApp {
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let mail_queue = required(var, "MAIL_QUEUE_URL")?;
        let dashboard = Dashboard::from_vars(store.clone(), var)?;
        Ok(Self {
            accounts: Accounts::new(store.clone()),
            logos: Logos::from_vars(aws, var)?,
            api_keys: ApiKeys::new(store.clone(), required(var, "API_KEYS_TABLE_NAME")?),
            dashboard: dashboard.with_lock_outs(Queue::new(aws.sqs(), &mail_queue)),
            users: Users::new(store),
            emails: Queue::new(aws.sqs(), mail_queue),
            clock,
            origin: Origin::from_vars(var)?,
        })
    }
}

/// A user who is logged in. This extractor refuses a request without a valid dashboard token.
struct LoggedIn {
    app: ApiKeysApp,
    session: Session,
    now: Timestamp,
}

impl FromRequestParts<ApiKeysApp> for LoggedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &ApiKeysApp) -> Result<Self> {
        let Ok(context) = RequestContext::from_request_parts(parts, app).await;
        let now = app.clock.now();
        let session = app.dashboard.authenticate(&context, now).await?;
        Ok(Self { app: app.clone(), session, now })
    }
}

/// A user who is logged in and whose role may manage API keys.
struct KeyManager(LoggedIn);

impl FromRequestParts<ApiKeysApp> for KeyManager {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &ApiKeysApp) -> Result<Self> {
        let logged_in = LoggedIn::from_request_parts(parts, app).await?;
        logged_in.session.require_key_manager()?;
        Ok(Self(logged_in))
    }
}

pub fn router(app: ApiKeysApp) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/v1/api-keys", get(keys::list).post(keys::issue))
        .route("/v1/api-keys/{id}", axum::routing::delete(keys::revoke))
        .route("/v1/api-keys/{id}/rotate", post(keys::rotate))
        .route("/v1/auth/login", post(auth::log_in))
        .route("/v1/auth/logout", post(auth::log_out))
        .merge(forms::routes())
        .merge(security::routes())
        .with_state(app);
    with_middleware(routes, origin)
}
