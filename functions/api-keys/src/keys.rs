//! `/v1/api-keys`. An API key opens none of these routes: they take the dashboard's token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::ApiKeyId;
use serde_json::json;
use shared::api_key::request::{NewApiKey, new_label};
use shared::api_key::view::{ApiKeyListView, IssuedView};
use shared::http::{IdPath, JsonBody, Problem, RequestContext};

use crate::Desk;

pub(crate) async fn list(State(desk): State<Desk>, context: RequestContext) -> Result<Response, Problem> {
    let member = desk.dashboard.authenticate(&context, desk.clock.now()).await?;
    let keys = desk.api_keys.of_account(&member.account).await?;
    Ok(Json(ApiKeyListView::new(&keys, member.role.manages_keys())).into_response())
}

pub(crate) async fn issue(
    State(desk): State<Desk>,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = desk.clock.now();
    let member = desk.dashboard.authenticate(&context, now).await?;
    member.require_key_manager()?;
    let asked = NewApiKey::parse(&body?.0)?;
    let issued = desk.api_keys.issue(&member.account, &asked, &member.operator(), now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn rotate(
    State(desk): State<Desk>,
    context: RequestContext,
    IdPath(id): IdPath<ApiKeyId>,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = desk.clock.now();
    let member = desk.dashboard.authenticate(&context, now).await?;
    member.require_key_manager()?;
    let label = new_label(&body?.0)?;
    let operator = member.operator();
    let issued = desk.api_keys.rotate(&member.account, id.as_ref(), label, &operator, now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn revoke(
    State(desk): State<Desk>,
    context: RequestContext,
    IdPath(id): IdPath<ApiKeyId>,
) -> Result<Response, Problem> {
    let now = desk.clock.now();
    let member = desk.dashboard.authenticate(&context, now).await?;
    member.require_key_manager()?;
    desk.api_keys.revoke(&member.account, id.as_ref(), &member.operator(), now).await?;
    Ok(Json(json!({ "revoked": true })).into_response())
}
