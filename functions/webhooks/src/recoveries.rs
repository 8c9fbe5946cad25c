//! Handlers of `/v1/webhooks/endpoints/{id}/recoveries`.

use crate::Authenticated;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::{EndpointId, RecoveryId};
use effects::webhook::endpoint::Endpoints;
use effects::webhook::recovery::{LISTED, NewRecovery, Recovery, RecoveryView};
use shared::http::{Fields, IdPair, IdPath, JsonBody, RequestContext, Result, WholeListView};

pub(crate) async fn request(
    Authenticated { app, caller, now }: Authenticated,
    context: RequestContext,
    IdPath(id): IdPath<EndpointId>,
    body: Result<JsonBody>,
) -> Result<Response> {
    let endpoint = app.endpoints.find(&caller.scope, Endpoints::require_id(id)?).await?;
    let (mut fields, key, body) = Fields::of_creation(&context, body)?;
    let request = NewRecovery::parse(&mut fields, &body, now);
    let (key, request) = fields.finish(key.zip(request))?;
    let created = app.recoveries.request_by(&caller, &endpoint, (key, request), now).await?;
    Ok(created.respond_as(StatusCode::ACCEPTED, RecoveryView::new(created.get())))
}

pub(crate) async fn list(
    Authenticated { app, caller, .. }: Authenticated,
    IdPath(id): IdPath<EndpointId>,
) -> Result<Response> {
    let endpoint = app.endpoints.find(&caller.scope, Endpoints::require_id(id)?).await?;
    let recoveries = app.recoveries.list(&caller.scope, endpoint.id, LISTED).await?;
    Ok(Json(WholeListView { data: recoveries.iter().map(RecoveryView::new).collect() }).into_response())
}

pub(crate) async fn read(
    Authenticated { app, caller, .. }: Authenticated,
    IdPair(endpoint, id): IdPair<EndpointId, RecoveryId>,
) -> Result<Response> {
    let recovery = app.recoveries.find(&caller.scope, (endpoint, id)).await?;
    Ok(shown(&recovery))
}

pub(crate) async fn cancel(
    Authenticated { app, caller, now }: Authenticated,
    IdPair(endpoint, id): IdPair<EndpointId, RecoveryId>,
) -> Result<Response> {
    let recovery = app.recoveries.cancel(&caller.scope, (endpoint, id), now).await?;
    Ok(shown(&recovery))
}

fn shown(recovery: &Recovery) -> Response {
    Json(RecoveryView::new(recovery)).into_response()
}
