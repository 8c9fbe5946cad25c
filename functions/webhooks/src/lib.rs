//! `/v1/webhooks/*` (contract: Webhooks).

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use shared::app::App;
use shared::http::{JsonBody, Problem, Query, RequestContext, framed};
use shared::ids::EndpointId;
use shared::random;
use shared::webhook::delivery::{DeliveryFilter, DeliveryListView};
use shared::webhook::endpoint::{EndpointView, NewEndpoint, SecretView};
use shared::webhook::signature::EndpointSecret;

/// The function's routes.
pub fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/v1/webhooks/endpoints", post(register).get(list_endpoints))
        .route("/v1/webhooks/deliveries", get(list_deliveries))
        .route("/v1/webhooks/override-secret/rotate", post(rotate_override_secret))
        .with_state(app);
    framed(routes)
}

async fn register(
    State(app): State<App>,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let request = NewEndpoint::parse(&body?.0, app.addresses)?;
    let id = EndpointId::new(now, random::bytes()?);
    let secret = EndpointSecret::from_random(&random::bytes()?);
    let endpoint = app.endpoints.register(&caller.scope, request, (id, secret), now).await?;
    Ok((StatusCode::CREATED, Json(EndpointView::with_secret(&endpoint))).into_response())
}

async fn list_endpoints(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let caller = app.api_keys.authenticate(&context, app.clock.now()).await?;
    let endpoints = app.endpoints.of(&caller.scope).await?;
    let views: Vec<EndpointView<'_>> = endpoints.iter().map(EndpointView::new).collect();
    Ok(Json(json!({ "data": views })).into_response())
}

async fn rotate_override_secret(
    State(app): State<App>,
    context: RequestContext,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let secret = EndpointSecret::from_random(&random::bytes()?);
    app.override_secrets.rotate(caller.scope, &secret, now).await?;
    Ok(Json(SecretView::new(&secret)).into_response())
}

async fn list_deliveries(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let caller = app.api_keys.authenticate(&context, app.clock.now()).await?;
    let filter = DeliveryFilter::parse(&Query::of(query.as_deref()))?;
    let page = app.deliveries.list(&caller.scope, &filter).await?;
    Ok(Json(DeliveryListView::new(&page, &filter)).into_response())
}
