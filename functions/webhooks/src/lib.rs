//! Routes `/v1/webhooks/*` (contract: Webhooks) and `/v1/events`, the event log.

mod deliveries;
mod endpoints;
mod events;

use axum::routing::{get, post};
use axum::{Json, Router};
use domain::webhook::event_type::{CatalogEntry, catalog};
use shared::app::App;
use shared::http::{Problem, RequestContext, with_middleware};

/// Returns the function's routes.
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
        .route("/v1/webhooks/override-secret/rotate", post(endpoints::rotate_override_secret))
        .route("/v1/webhooks/event-catalog", get(event_catalog))
        .route("/v1/webhooks/deliveries", get(deliveries::list))
        .route("/v1/webhooks/deliveries/{id}", get(deliveries::read))
        .route("/v1/webhooks/deliveries/{id}/resend", post(deliveries::resend))
        .route("/v1/webhooks/stats", get(deliveries::stats))
        .route("/v1/events", get(events::list))
        .route("/v1/events/{id}", get(events::read))
        .with_state(app);
    with_middleware(routes, origin)
}

/// Needs no authentication: the catalog is the same for every caller.
async fn event_catalog(context: RequestContext) -> Result<Json<Vec<CatalogEntry>>, Problem> {
    context.query.require_empty()?;
    Ok(Json(catalog()))
}
