//! Serves `/v1/med/cases` and its alias `/v1/infractions`, and the dashboard's forms that answer a case.

mod forms;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::ids::{EvidenceId, MedCaseId};
use domain::med::MedCase;
use domain::time::Timestamp;
use money::med::evidence::{
    CaseEvidence, EvidenceFile, EvidenceFiles, EvidenceListView, EvidenceView, UploadView, UploadedBy,
};
use money::med::request::appeal_reason;
use money::med::{CaseQuery, CaseView, MedCases, case_list};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{IdPair, JsonBody, JsonObject, Problem, RequestContext, Result, with_middleware};
use shared::store::Aws;

const PATHS: [&str; 2] = ["/v1/med/cases", "/v1/infractions"];

#[derive(Debug)]
pub struct Uses {
    cases: MedCases,
    evidence: CaseEvidence,
}

pub type App = shared::app::App<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;
type CallerOwned<T> = money::extract::CallerOwned<Uses, T>;
type Deferred<E> = shared::extract::Deferred<Uses, E>;
type MemberForm = pages::forms::MemberForm<App>;

/// Reads the variables of [`App::from_vars`] and `DOCUMENTS_BUCKET`.
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        let files = EvidenceFiles::new(aws.s3(), required(var, "DOCUMENTS_BUCKET")?);
        Ok(Uses { cases: MedCases::new(store.clone()), evidence: CaseEvidence::new(store.clone(), files) })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
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
    with_middleware(routes.merge(forms::routes()).with_state(app), origin)
}

async fn list(context: RequestContext, authenticated: Deferred<AuthenticatedQuery>) -> Result<Response> {
    let query = CaseQuery::parse(&context.query);
    let cursor = query.as_ref().ok().and_then(CaseQuery::starting_after);
    let (AuthenticatedQuery { app, caller, .. }, cursor) =
        authenticated.concurrently_with(async |app| app.cases.find(cursor).await).await?;
    let page = match query? {
        CaseQuery::Newest(filter) => app.cases.list(&caller.scope, &filter, cursor?).await?,
        CaseQuery::Nearest(filter) => app.cases.nearest(&caller.scope, filter, cursor?).await?.0,
    };
    Ok(Json(case_list(&page)).into_response())
}

async fn read(CallerOwned { found: case, .. }: CallerOwned<MedCase>) -> Result<Response> {
    Ok(Json(CaseView::new(&case)).into_response())
}

async fn appeal(
    CallerOwned { app, caller, found: case, now }: CallerOwned<MedCase>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let reason = appeal_reason(&body)?;
    let appealed = app.cases.appeal(case, &reason, &caller, now).await?;
    Ok(Json(CaseView::new(&appealed)).into_response())
}

async fn accept(CallerOwned { app, caller, found: case, now }: CallerOwned<MedCase>) -> Result<Response> {
    let accepted = app.cases.accept(case, &caller, now).await?;
    Ok(Json(CaseView::new(&accepted)).into_response())
}

async fn list_evidence(CallerOwned { app, found: case, now, .. }: CallerOwned<MedCase>) -> Result<Response> {
    let files = app.evidence.for_case(case.id).await?;
    Ok(Json(EvidenceListView::signed(&files, &app.evidence.files, now).await?).into_response())
}

async fn announce_evidence(
    CallerOwned { app, found: case, now, .. }: CallerOwned<MedCase>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    upload_ticket(&app.evidence, &case, &body, now).await
}

async fn upload_ticket(
    evidence: &CaseEvidence,
    case: &MedCase,
    body: &JsonObject,
    now: Timestamp,
) -> Result<Response> {
    let file = EvidenceFile::parse(body)?;
    let upload = evidence.request_upload(case, file, UploadedBy::Merchant, now).await?;
    let ticket = UploadView::signed(&upload, &evidence.files).await?;
    Ok((StatusCode::CREATED, Json(ticket)).into_response())
}

async fn complete_evidence(
    own: Deferred<CallerOwned<MedCase>>,
    IdPair(case, id): IdPair<MedCaseId, EvidenceId>,
) -> Result<Response> {
    let (CallerOwned { app, found: case, now, .. }, found) =
        own.concurrently_with(async |app| app.evidence.find(case.zip(id)).await).await?;
    let found = found?.ok_or(Problem::NotFound { what: "evidence of this case" })?;
    let confirmed = app.evidence.complete(case, found, None, now).await?;
    Ok(Json(EvidenceView::signed(&confirmed, &app.evidence.files, now).await?).into_response())
}
