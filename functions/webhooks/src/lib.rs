//! Routes `/v1/webhooks/*` and `/v1/events`, the event log.

mod deliveries;
mod endpoints;
mod events;
mod forms;

use axum::extract::FromRef;
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::webhook::event_type::{CatalogEntry, catalog};
use effects::webhook::secret::SigningSecrets;
use services::app::App;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{RequestContext, Result, with_middleware};
use shared::store::{Aws, Store};

/// The function's state.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// The state that all HTTP functions share.
    pub app: App,
    /// The secrets that sign deliveries.
    pub secrets: SigningSecrets,
}

impl Webhooks {
    /// Reads the variables of [`App::from_vars`], and requires `SECRETS_TABLE_NAME`.
    ///
    /// # Errors
    ///
    /// When a required variable is missing or invalid.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let state = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let secrets = Store::new(aws.dynamodb(), required(var, "SECRETS_TABLE_NAME")?);
        Ok(Self { app: App::from_vars(aws, clock, var)?, secrets: SigningSecrets::new(state, secrets) })
    }
}

impl FromRef<Webhooks> for App {
    fn from_ref(webhooks: &Webhooks) -> Self {
        webhooks.app.clone()
    }
}

impl FromRef<Webhooks> for SigningSecrets {
    fn from_ref(webhooks: &Webhooks) -> Self {
        webhooks.secrets.clone()
    }
}

/// Returns the function's routes.
pub fn router(webhooks: Webhooks) -> Router {
    let origin = webhooks.app.origin.clone();
    let routes = Router::new()
        .route("/v1/webhooks/endpoints", post(endpoints::register).get(endpoints::list))
        .route(
            "/v1/webhooks/endpoints/{id}",
            get(endpoints::read).patch(endpoints::change).delete(endpoints::delete),
        )
        .route("/v1/webhooks/endpoints/{id}/rotate-secret", post(endpoints::rotate_secret))
        .route("/v1/webhooks/endpoints/{id}/test", post(endpoints::test))
        .route("/v1/webhooks/override-secret/rotate", post(endpoints::rotate_override_secret))
        .route("/v1/webhooks/event-catalog", get(event_catalog))
        .route("/v1/webhooks/deliveries", get(deliveries::list))
        .route("/v1/webhooks/deliveries/{id}", get(deliveries::read))
        .route("/v1/webhooks/deliveries/{id}/resend", post(deliveries::resend))
        .route("/v1/webhooks/stats", get(deliveries::stats))
        .route("/v1/events", get(events::list))
        .route("/v1/events/{id}", get(events::read))
        .merge(forms::routes())
        .with_state(webhooks);
    with_middleware(routes, origin)
}

/// Needs no authentication: the catalog is the same for every caller.
async fn event_catalog(context: RequestContext) -> Result<Json<Vec<CatalogEntry>>> {
    context.query.require_empty()?;
    Ok(Json(catalog()))
}
