//! Handlers of `/v1/auth`: log-in and log-out of dashboard users.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use shared::auth::dashboard::log_in::{Credentials, LogIn, NewTokenView};
use shared::auth::dashboard::token::TokenKind;
use shared::http::{JsonBody, Problem, RequestContext, Result};

use crate::{ApiKeysApp, LoggedIn};

pub(crate) async fn log_in(
    State(app): State<ApiKeysApp>,
    context: RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    context.query.require_empty()?;
    let credentials = Credentials::parse(&body?.0)?;
    match app.dashboard.log_in(TokenKind::Api, credentials, &context, app.clock.now()).await? {
        LogIn::Done(token) => Ok(Json(NewTokenView::new(&token)).into_response()),
        LogIn::Pending(_) => Err(Problem::SecondFactorRequired),
    }
}

pub(crate) async fn log_out(LoggedIn { app, session, now }: LoggedIn) -> Result<StatusCode> {
    app.dashboard.log_out(&session, now).await?;
    Ok(StatusCode::NO_CONTENT)
}
