//! `/v1/med/cases` and its alias `/v1/infractions` (contract: MED cases).

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::MedCase;
use domain::time::Timestamp;
use shared::app::{App, require_scope};
use shared::auth::Caller;
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::http::{IdPair, IdPath, JsonBody, Problem, RequestContext, framed};
use shared::med::evidence::{
    CaseEvidence, EvidenceFile, EvidenceFiles, EvidenceListView, EvidenceView, UploadView, UploadedBy,
};
use shared::med::{CaseFilter, CaseListView, CaseView};
use shared::store::{Aws, Store};

/// The canonical path, and the alias that serves the same routes.
const PATHS: [&str; 2] = ["/v1/med/cases", "/v1/infractions"];

/// The function's state.
#[derive(Clone, Debug)]
pub struct Med {
    /// What every HTTP function is made of.
    pub app: App,
    /// Evidence of cases.
    pub evidence: CaseEvidence,
}

impl Med {
    /// Reads what [`App::from_vars`] does, and `DOCUMENTS_BUCKET`.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let files = EvidenceFiles::new(aws.s3(), required(var, "DOCUMENTS_BUCKET")?);
        Ok(Self { app: App::from_vars(aws, clock, var)?, evidence: CaseEvidence::new(store, files) })
    }
}

impl FromRef<Med> for App {
    fn from_ref(med: &Med) -> Self {
        med.app.clone()
    }
}

/// The function's routes.
pub fn router(med: Med) -> Router {
    let mut routes = Router::new();
    for path in PATHS {
        routes = routes
            .route(path, get(list))
            .route(&format!("{path}/{{id}}"), get(read))
            .route(&format!("{path}/{{id}}/appeal"), post(appeal))
            .route(&format!("{path}/{{id}}/accept"), post(accept))
            .route(&format!("{path}/{{id}}/evidence"), get(list_evidence).post(announce_evidence))
            .route(&format!("{path}/{{id}}/evidence/{{evidence_id}}/complete"), post(complete_evidence));
    }
    framed(routes.with_state(med))
}

async fn list(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let filter = CaseFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (caller, cursor) =
        tokio::join!(app.api_keys.authenticate_with_query(&context, app.clock.now()), app.cases.find(cursor));
    let page = app.cases.list(&caller?.scope, &filter?, cursor?).await?;
    Ok(Json(CaseListView::new(&page)).into_response())
}

async fn read(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let (_, case) = own_case(&app, &context, id, app.clock.now()).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}

async fn appeal(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (caller, case) = own_case(&app, &context, id, now).await?;
    let reason = shared::med::request::appeal_reason(&body?.0)?;
    let appealed = app.cases.appeal(case, &reason, &caller, now).await?;
    Ok(Json(CaseView::new(&appealed)).into_response())
}

async fn accept(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (caller, case) = own_case(&app, &context, id, now).await?;
    let accepted = app.cases.accept(case, &caller, now).await?;
    Ok(Json(CaseView::new(&accepted)).into_response())
}

async fn list_evidence(
    State(Med { app, evidence }): State<Med>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, case) = own_case(&app, &context, id, now).await?;
    let files = evidence.of_case(case.id).await?;
    Ok(Json(EvidenceListView::signed(&files, &evidence.files, now).await?).into_response())
}

async fn announce_evidence(
    State(Med { app, evidence }): State<Med>,
    context: RequestContext,
    IdPath(id): IdPath<MedCaseId>,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, case) = own_case(&app, &context, id, now).await?;
    let file = EvidenceFile::parse(&body?.0)?;
    let upload = evidence.announce(&case, file, UploadedBy::Merchant, now).await?;
    let ticket = UploadView::signed(&upload, &evidence.files).await?;
    Ok((StatusCode::CREATED, Json(ticket)).into_response())
}

async fn complete_evidence(
    State(Med { app, evidence }): State<Med>,
    context: RequestContext,
    IdPair(case, id): IdPair<MedCaseId, EvidenceId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (case, found) = tokio::join!(own_case(&app, &context, case, now), evidence.find(case.zip(id)));
    let (_, case) = case?;
    let found = found?.ok_or(Problem::NotFound { what: "evidence of this case" })?;
    let confirmed = evidence.complete(case, found, now).await?;
    Ok(Json(EvidenceView::signed(&confirmed, &evidence.files, now).await?).into_response())
}

/// The caller's own case of that id, read while the key is proved.
async fn own_case(
    app: &App,
    context: &RequestContext,
    id: Option<MedCaseId>,
    now: Timestamp,
) -> Result<(Caller, MedCase), Problem> {
    let (caller, case) = tokio::join!(app.api_keys.authenticate(context, now), app.cases.find(id));
    let caller = caller?;
    let case = require_scope(case?, &caller.scope, "MED case")?;
    Ok((caller, case))
}
