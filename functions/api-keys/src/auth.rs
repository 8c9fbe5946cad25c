//! `/v1/auth` (design: Authentication).

use std::convert::Infallible;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use lambda_http::request::RequestContext as ApiGateway;
use shared::auth::dashboard::Source;
use shared::auth::dashboard::log_in::{Credentials, NewTokenView};
use shared::http::{JsonBody, Problem, RequestContext};

use crate::Desk;

/// Who API Gateway says is calling.
pub(crate) struct From(Source);

impl<S: Sync> FromRequestParts<S> for From {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let address = match parts.extensions.get() {
            Some(ApiGateway::ApiGatewayV2(context)) => context.http.source_ip.as_deref(),
            _ => None,
        };
        Ok(Self(Source::of(address)))
    }
}

pub(crate) async fn log_in(
    State(desk): State<Desk>,
    context: RequestContext,
    From(source): From,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    context.query.require_empty()?;
    let credentials = Credentials::parse(&body?.0)?;
    let token = desk.dashboard.log_in(credentials, source, desk.clock.now()).await?;
    Ok(Json(NewTokenView::new(&token)).into_response())
}

pub(crate) async fn log_out(
    State(desk): State<Desk>,
    context: RequestContext,
) -> Result<StatusCode, Problem> {
    let member = desk.dashboard.authenticate(&context, desk.clock.now()).await?;
    desk.dashboard.log_out(&member).await?;
    Ok(StatusCode::NO_CONTENT)
}
