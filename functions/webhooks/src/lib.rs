//! Routes `/v1/webhooks/*`, `/v1/events`, the event log, and `/v1/requests`, the log of requests.

mod deliveries;
mod endpoints;
mod events;
mod forms;
mod recoveries;
mod requests;

use axum::routing::{get, post};
use axum::{Json, Router};
use domain::url_policy::AddressPolicy;
use domain::webhook::event_type::{CatalogEntry, catalog};
use effects::webhook::delivery::Deliveries;
use effects::webhook::endpoint::Endpoints;
use effects::webhook::log::EventLog;
use effects::webhook::recovery::Recoveries;
use effects::webhook::resend::Resends;
use effects::webhook::secret::SigningSecrets;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, address_policy, required};
use shared::http::{RequestContext, Result, with_middleware};
use shared::request_log::RequestLog;
use shared::store::{Aws, Store};

#[derive(Debug)]
pub struct Uses {
    endpoints: Endpoints,
    deliveries: Deliveries,
    events: EventLog,
    resends: Resends,
    recoveries: Recoveries,
    requests: RequestLog,
    /// The secrets that sign deliveries.
    secrets: SigningSecrets,
    /// Which addresses webhooks may be sent to.
    address_policy: AddressPolicy,
}

pub type App = shared::app::App<Uses>;
type Authenticated = shared::extract::Authenticated<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;
type MemberForm = pages::forms::MemberForm<App>;

/// Reads the variables of [`App::from_vars`], `SECRETS_TABLE_NAME`, and those of [`address_policy`].
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        let secrets = Store::new(aws.dynamodb(), required(var, "SECRETS_TABLE_NAME")?);
        Ok(Uses {
            endpoints: Endpoints::new(store.clone()),
            deliveries: Deliveries::new(store.clone()),
            events: EventLog::new(store.clone()),
            resends: Resends::new(store.clone()),
            recoveries: Recoveries::new(store.clone()),
            requests: RequestLog::new(store.clone()),
            secrets: SigningSecrets::new(store.clone(), secrets),
            address_policy: address_policy(var),
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/v1/webhooks/endpoints", post(endpoints::register).get(endpoints::list))
        .route(
            "/v1/webhooks/endpoints/{id}",
            get(endpoints::read).patch(endpoints::change).delete(endpoints::delete),
        )
        .route("/v1/webhooks/endpoints/{id}/rotate-secret", post(endpoints::rotate_secret))
        .route("/v1/webhooks/endpoints/{id}/test", post(endpoints::test))
        .route("/v1/webhooks/endpoints/{id}/recoveries", post(recoveries::request).get(recoveries::list))
        .route("/v1/webhooks/endpoints/{id}/recoveries/{recovery_id}", get(recoveries::read))
        .route("/v1/webhooks/endpoints/{id}/recoveries/{recovery_id}/cancel", post(recoveries::cancel))
        .route("/v1/webhooks/override-secret/rotate", post(endpoints::rotate_override_secret))
        .route("/v1/webhooks/event-catalog", get(event_catalog))
        .route("/v1/webhooks/deliveries", get(deliveries::list))
        .route("/v1/webhooks/deliveries/{id}", get(deliveries::read))
        .route("/v1/webhooks/deliveries/{id}/attempts", get(deliveries::attempts))
        .route("/v1/webhooks/deliveries/{id}/resend", post(deliveries::resend))
        .route("/v1/webhooks/stats", get(deliveries::stats))
        .route("/v1/events", get(events::list))
        .route("/v1/events/{id}", get(events::read))
        .route("/v1/requests", get(requests::list))
        .route("/v1/requests/record", post(requests::record))
        .route("/v1/requests/{id}", get(requests::read))
        .route("/v1/request_errors", get(requests::errors))
        .merge(forms::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

/// Needs no authentication: the catalog is the same for every caller.
async fn event_catalog(context: RequestContext) -> Result<Json<Vec<CatalogEntry>>> {
    context.query.require_empty()?;
    Ok(Json(catalog()))
}
