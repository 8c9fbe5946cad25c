//! Handlers of `/v1/requests` and `/v1/request_errors`, the log of requests.

use crate::{Authenticated, AuthenticatedQuery};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::audit::ActorId;
use domain::ids::LoggedRequestId;
use shared::http::{IdPath, JsonBody, ListView, Problem, Result, WholeListView};
use shared::request_log::{RecordingView, RequestFilter, recorded_minutes};

pub(crate) async fn list(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
) -> Result<Response> {
    let page = app.requests.list(&caller.scope, &RequestFilter::parse(&query)?, now).await?;
    Ok(Json(ListView::new(page.items, page.next_cursor)).into_response())
}

pub(crate) async fn read(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<LoggedRequestId>,
) -> Result<Response> {
    let found = app.requests.find(&caller.scope, id, now).await?;
    Ok(Json(found.ok_or(Problem::NotFound { what: "logged request" })?).into_response())
}

pub(crate) async fn errors(Authenticated { app, caller, now }: Authenticated) -> Result<Response> {
    Ok(Json(WholeListView { data: app.requests.errors(&caller.scope, now).await? }).into_response())
}

/// Records the requests with the caller's key that succeed, for some minutes.
pub(crate) async fn record(
    Authenticated { app, caller, now }: Authenticated,
    body: Result<JsonBody>,
) -> Result<Response> {
    caller.require_test()?;
    let minutes = recorded_minutes(&body?.0)?;
    let recorded_until = now.saturating_plus_seconds(minutes.saturating_mul(60));
    let ActorId::Key(key) = &caller.by else { return Err(Problem::Unauthorized) };
    app.api_keys.record_until(key, recorded_until).await?;
    Ok(Json(RecordingView { recorded_until }).into_response())
}
