//! `/v1/med/cases` and its alias `/v1/infractions` (contract: MED cases).

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use shared::app::App;
use shared::http::{IdPath, JsonBody, Problem, Query, RequestContext, framed};
use shared::ids::MedCaseId;
use shared::med::{AppealReason, CaseFilter, CaseListView, CaseView, MedCase, MedCases};
use shared::time::Timestamp;

/// The canonical path, and the alias that serves the same routes.
const PATHS: [&str; 2] = ["/v1/med/cases", "/v1/infractions"];

/// The function's routes.
pub fn router(app: App) -> Router {
    let mut routes = Router::new();
    for path in PATHS {
        routes = routes
            .route(path, get(list))
            .route(&format!("{path}/{{id}}"), get(read))
            .route(&format!("{path}/{{id}}/appeal"), post(appeal))
            .route(&format!("{path}/{{id}}/accept"), post(accept));
    }
    framed(routes.with_state(app))
}

async fn list(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filter = CaseFilter::parse(&Query::of(query.as_deref()));
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (caller, cursor) =
        tokio::join!(app.api_keys.authenticate(&context, app.clock.now()), app.cases.find(cursor));
    let page = app.cases.list(&caller?.scope, &filter?, cursor?).await?;
    Ok(Json(CaseListView::new(&page)).into_response())
}

async fn read(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let case = own_case(&app, &context, id, app.clock.now()).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}

async fn appeal(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let case = own_case(&app, &context, id, now).await?;
    let reason = AppealReason::parse(&body?.0)?;
    let appealed = app.cases.appeal(case, &reason, now).await?;
    Ok(Json(CaseView::new(&appealed)).into_response())
}

async fn accept(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let case = own_case(&app, &context, id, now).await?;
    let accepted = app.cases.accept(case, now).await?;
    Ok(Json(CaseView::new(&accepted)).into_response())
}

/// The caller's own case of that id, read while the key is proved.
async fn own_case(
    app: &App,
    context: &RequestContext,
    id: Option<MedCaseId>,
    now: Timestamp,
) -> Result<MedCase, Problem> {
    let (caller, case) = tokio::join!(app.api_keys.authenticate(context, now), app.cases.find(id));
    let caller = caller?;
    MedCases::within(case?, &caller.scope)
}
