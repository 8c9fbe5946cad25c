//! Handlers of `/v1/events`.

use crate::{Authenticated, AuthenticatedQuery};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::EventId;
use effects::webhook::log::EventFilter;
use shared::http::{IdPath, Result};

pub(crate) async fn list(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
) -> Result<Response> {
    let filter = EventFilter::parse(&query)?;
    Ok(Json(app.events.list(&caller.sharded_scope(), &filter, now).await?).into_response())
}

pub(crate) async fn read(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<EventId>,
) -> Result<Response> {
    Ok(Json(app.events.find(&caller.sharded_scope(), id, now).await?).into_response())
}
