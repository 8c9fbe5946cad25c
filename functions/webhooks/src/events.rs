//! `/v1/events`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ids::EventId;
use shared::app::App;
use shared::http::{IdPath, Problem, RequestContext};
use shared::webhook::log::{EventFilter, EventListView};

pub(crate) async fn list(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate_with_query(&context, now).await?;
    let filter = EventFilter::parse(&context.query)?;
    let page = app.events.list(&caller.scope, &filter, now).await?;
    Ok(Json(EventListView::new(&page)?).into_response())
}

pub(crate) async fn read(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<EventId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    Ok(Json(app.events.find(&caller.scope, id, now).await?).into_response())
}
