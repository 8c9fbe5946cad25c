//! Handlers of `/v1/api-keys`. These routes require a dashboard token and do not accept an API key.
//!
//! If a request has several errors, the first in this order is reported: 401 or 429, 400 for query
//! parameters, 403 for the role, 400 for the body, 404 for a key that the account does not have.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::ids::ApiKeyId;
use shared::api_key::request::{NewApiKey, new_label};
use shared::api_key::view::{ApiKeyListView, IssuedView, RevokedView};
use shared::http::{IdPath, JsonBody, Result};

use crate::{KeyManager, LoggedIn};

pub(crate) async fn list(LoggedIn { app, session, .. }: LoggedIn) -> Result<Response> {
    let keys = app.api_keys.list(&session.account.id).await?;
    Ok(Json(ApiKeyListView::new(&keys, session.user.role.manages_keys())).into_response())
}

pub(crate) async fn issue(
    KeyManager(LoggedIn { app, session, now, .. }): KeyManager,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let request = NewApiKey::parse(&body)?;
    let issued = app.api_keys.issue(&session.account.id, &request, &session.operator(), now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn rotate(
    KeyManager(LoggedIn { app, session, now, .. }): KeyManager,
    IdPath(id): IdPath<ApiKeyId>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let label = new_label(&body)?;
    let operator = session.operator();
    let issued = app.api_keys.rotate(&session.account.id, id.as_ref(), label, &operator, now).await?;
    Ok((StatusCode::CREATED, Json(IssuedView::new(&issued))).into_response())
}

pub(crate) async fn revoke(
    KeyManager(LoggedIn { app, session, now, .. }): KeyManager,
    IdPath(id): IdPath<ApiKeyId>,
) -> Result<Response> {
    app.api_keys.revoke(&session.account.id, id.as_ref(), &session.operator(), now).await?;
    Ok(Json(RevokedView { revoked: true }).into_response())
}
