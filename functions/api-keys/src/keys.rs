//! `/v1/api-keys`. An API key opens none of these routes: they take the dashboard's token.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::ApiKeyId;
use serde_json::json;
use shared::api_key::request::{NewApiKey, new_label};
use shared::api_key::view::{ApiKeyListView, IssuedView};
use shared::http::{IdPath, JsonBody, Problem};

use crate::{KeyManager, LoggedIn};

pub(crate) async fn list(LoggedIn { desk, member, .. }: LoggedIn) -> Result<Response, Problem> {
    let keys = desk.api_keys.of_account(&member.account).await?;
    Ok(Json(ApiKeyListView::new(&keys, member.role.manages_keys())).into_response())
}

pub(crate) async fn issue(
    KeyManager(LoggedIn { desk, member, now }): KeyManager,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let asked = NewApiKey::parse(&body)?;
    let issued = desk.api_keys.issue(&member.account, &asked, &member.operator(), now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn rotate(
    KeyManager(LoggedIn { desk, member, now }): KeyManager,
    IdPath(id): IdPath<ApiKeyId>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let label = new_label(&body)?;
    let operator = member.operator();
    let issued = desk.api_keys.rotate(&member.account, id.as_ref(), label, &operator, now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn revoke(
    KeyManager(LoggedIn { desk, member, now }): KeyManager,
    IdPath(id): IdPath<ApiKeyId>,
) -> Result<Response, Problem> {
    desk.api_keys.revoke(&member.account, id.as_ref(), &member.operator(), now).await?;
    Ok(Json(json!({ "revoked": true })).into_response())
}
