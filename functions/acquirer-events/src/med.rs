//! MED cases, where a test key plays the payer's bank and the Central Bank.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::hex;
use domain::ids::MedCaseId;
use domain::med::{Decision, MedCase};
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use shared::app::{App, require_scope};
use shared::charge::ChargePath;
use shared::http::{Fields, IdPath, JsonBody, Object, Problem, RequestContext};
use shared::med::CaseView;
use shared::random;

use crate::own_test_charge;

pub(crate) async fn open(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, charge) = own_test_charge(&app, &context, id, now).await?;
    let notice = shared::med::request::case_notice(&body?.0)?;
    // Without a name each request is a notice of its own.
    let name = match &notice.id {
        Some(id) => format!("notice#{id}"),
        None => hex::encode(&random::bytes::<16>()?),
    };
    let case = app.cases.open(charge, &name, &notice, now).await?;
    Ok((StatusCode::CREATED, Json(CaseView::new(&case))).into_response())
}

pub(crate) async fn request_evidence(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let case = own_test_case(&app, &context, id, now).await?;
    let case = app.cases.request_evidence(case, None, now).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}

pub(crate) async fn resolve(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let case = own_test_case(&app, &context, id, now).await?;
    let body = body?;
    let mut fields = Fields::new();
    let decision = fields.required_word(&Object::root(&body.0), "decision", &Decision::vocabulary());
    let case = app.cases.decide(case, fields.finish(decision)?, None, now).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}

async fn own_test_case(
    app: &App,
    context: &RequestContext,
    id: Option<MedCaseId>,
    now: Timestamp,
) -> Result<MedCase, Problem> {
    let (caller, case) = tokio::join!(app.api_keys.authenticate(context, now), app.cases.find(id));
    let caller = caller?;
    // Before the look at what was found: a live key learns nothing here.
    caller.require_test()?;
    require_scope(case?, &caller.scope, "MED case")
}
