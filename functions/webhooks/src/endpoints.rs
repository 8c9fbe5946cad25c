//! Handlers of `/v1/webhooks/endpoints`, and of the rotation of the override secret, which signs deliveries
//! to `webhookUrl`s.

use crate::{Authenticated, AuthenticatedQuery};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::{EndpointId, ResendId};
use domain::webhook::signature::EndpointSecret;
use effects::webhook::delivery::DeliveryView;
use effects::webhook::endpoint::{
    DeletedView, EndpointChange, EndpointView, Endpoints, NewEndpoint, OverrideSecretView, SecretView,
    check_rotation,
};
use effects::webhook::resend::tested_type;
use shared::http::{IdPath, JsonBody, Result, WholeListView};
use shared::random;

pub(crate) async fn register(
    Authenticated { app, caller, now }: Authenticated,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let request = NewEndpoint::parse(&body, &app.address_policy)?;
    let id = EndpointId::new(now, random::bytes()?);
    let secret = new_secret()?;
    let endpoint = app.secrets.register(&caller, request, (id, &secret), now).await?;
    Ok((StatusCode::CREATED, Json(EndpointView::with_secret(&endpoint, &secret))).into_response())
}

pub(crate) async fn list(Authenticated { app, caller, .. }: Authenticated) -> Result<Response> {
    let endpoints = app.endpoints.list(&caller.scope).await?;
    let data = endpoints.iter().map(EndpointView::new).collect();
    Ok(Json(WholeListView { data }).into_response())
}

pub(crate) async fn read(
    Authenticated { app, caller, .. }: Authenticated,
    IdPath(id): IdPath<EndpointId>,
) -> Result<Response> {
    let endpoint = app.endpoints.find(&caller.scope, Endpoints::require_id(id)?).await?;
    Ok(Json(EndpointView::new(&endpoint)).into_response())
}

pub(crate) async fn change(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<EndpointId>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let change = EndpointChange::parse(&body, &app.address_policy)?;
    let endpoint = app.endpoints.change(&caller, Endpoints::require_id(id)?, &change, now).await?;
    Ok(Json(EndpointView::new(&endpoint)).into_response())
}

pub(crate) async fn delete(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<EndpointId>,
) -> Result<Response> {
    app.secrets.delete(&caller, Endpoints::require_id(id)?, now).await?;
    Ok(Json(DeletedView { deleted: true }).into_response())
}

pub(crate) async fn rotate_secret(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<EndpointId>,
    body: Result<JsonBody>,
) -> Result<Response> {
    let id = Endpoints::require_id(id)?;
    check_rotation(&body?.0, id)?;
    let secret = new_secret()?;
    app.secrets.rotate(&caller, id, &secret, now).await?;
    Ok(Json(SecretView::new(id, &secret)).into_response())
}

pub(crate) async fn test(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
    IdPath(id): IdPath<EndpointId>,
) -> Result<Response> {
    let event_type = tested_type(&query)?;
    let endpoint = app.endpoints.find(&caller.scope, Endpoints::require_id(id)?).await?;
    let resend = ResendId::new(now, random::bytes()?);
    let (delivery, body) = app.resends.test(&endpoint, (resend, event_type), now).await?;
    Ok(Json(DeliveryView::new(&delivery, Some(&body))).into_response())
}

pub(crate) async fn rotate_override_secret(
    Authenticated { app, caller, now }: Authenticated,
) -> Result<Response> {
    let secret = new_secret()?;
    app.secrets.rotate_override(&caller, &secret, now).await?;
    Ok(Json(OverrideSecretView::new(&secret)).into_response())
}

pub(crate) fn new_secret() -> Result<EndpointSecret> {
    Ok(EndpointSecret::from_random(&random::bytes()?))
}
