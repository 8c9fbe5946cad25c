//! Serves `/v1/reports`: reports and their schedules. `reports-worker` makes the files.

mod forms;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete as delete_at, get, post};
use axum::{Json, Router};
use domain::ids::{ReportId, ReportScheduleId};
use domain::report::{Report, ReportBasis, ReportFormat, ReportKind, ReportSpec, ReportStatus};
use domain::rollup::Counter;
use domain::time::Timestamp;
use effects::rollup::Rollups;
use money::report::request::{NewReport, NewSchedule, ReportPage};
use money::report::{
    DeletedReportView, ReportFiles, ReportScheduleView, ReportSchedules, ReportView, Reports,
};
use shared::auth::Caller;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{
    Created, Fields, IdPath, JsonBody, ListView, Problem, RequestContext, Result, WholeListView,
    with_middleware,
};
use shared::store::Aws;

/// The reports of a scope.
#[derive(Debug)]
pub struct Uses {
    reports: Reports,
    rollups: Rollups,
    schedules: ReportSchedules,
    files: ReportFiles,
}

pub type App = shared::app::App<Uses>;
type Authenticated = shared::extract::Authenticated<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;
type MemberForm = pages::forms::MemberForm<App>;

impl Uses {
    /// 422 also if the days have more charges than the format has lines. The worker counts all lines: a report that has
    /// a few too many fails there.
    async fn create(
        &self,
        caller: &Caller,
        key: &str,
        request: NewReport,
        now: Timestamp,
    ) -> Result<Created<Report>> {
        let ReportSpec { kind, by, format, currency, from, to, .. } = request.spec;
        let counter = match (kind, by) {
            (ReportKind::Payments, ReportBasis::Created) => Some(Counter::Created),
            (ReportKind::Payments, ReportBasis::Paid) | (ReportKind::Statement, _) => Some(Counter::Received),
            (ReportKind::Refunds | ReportKind::Payouts | ReportKind::MedCases | ReportKind::Fees, _) => None,
        };
        if let Some((most, counter)) = format.max_lines().zip(counter) {
            let (days, _) = self.rollups.for_days(&caller.scope, from, to).await?;
            let of_currency = days.iter().filter(|day| day.currency == currency);
            let least: i64 = of_currency.map(|day| day.sums.get(counter)).fold(0, i64::saturating_add);
            if u64::try_from(least).is_ok_and(|least| least > most) {
                return Err(too_many_lines(format, most, least));
            }
        }
        self.reports.create(caller, key, request, now).await
    }
}

fn too_many_lines(format: ReportFormat, most: u64, least: i64) -> Problem {
    let name = format.as_str();
    let message = format!(
        "The period has at least {least} lines, and a file of the `format` {name} at most {most}; choose a shorter period, or csv."
    );
    Problem::UnprocessableField { param: "format", message }
}

/// Reads the variables of [`App::from_vars`] and `DOCUMENTS_BUCKET`.
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        Ok(Uses {
            reports: Reports::new(store.clone()),
            rollups: Rollups::new(store.clone()),
            schedules: ReportSchedules::new(store.clone()),
            files: ReportFiles::new(aws.s3(), required(var, "DOCUMENTS_BUCKET")?),
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/v1/reports", post(create).get(list))
        .route("/v1/reports/schedules", post(create_schedule).get(list_schedules))
        .route("/v1/reports/schedules/{id}", delete_at(delete_schedule))
        .route("/v1/reports/{id}", get(read).delete(delete))
        .merge(forms::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

async fn create(
    Authenticated { app, caller, now }: Authenticated,
    context: RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    let (mut fields, key, body) = Fields::of_creation(&context, body)?;
    let request = NewReport::from_body(&mut fields, &body, now);
    let (key, request) = fields.finish(key.zip(request))?;
    let created = app.create(&caller, key, request, now).await?;
    let view = view(&app, created.get(), now).await?;
    Ok(created.respond_as(StatusCode::ACCEPTED, view))
}

/// With the URL of the file if it is ready.
async fn view(app: &App, report: &Report, now: Timestamp) -> Result<ReportView> {
    let url = match report.status {
        ReportStatus::Ready => Some(app.files.url(report, now).await?),
        ReportStatus::Pending | ReportStatus::Failed => None,
    };
    Ok(ReportView::new(report, url))
}

async fn list(AuthenticatedQuery { app, caller, query, .. }: AuthenticatedQuery) -> Result<Response> {
    let page = app.reports.list(&caller.scope, ReportPage::parse(&query)?).await?;
    let data = page.items.iter().map(|report| ReportView::new(report, None)).collect();
    Ok(Json(ListView::new(data, page.next_cursor)).into_response())
}

async fn read(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<ReportId>,
) -> Result<Response> {
    let report = app.reports.get(&caller.scope, id).await?;
    Ok(Json(view(&app, &report, now).await?).into_response())
}

async fn delete(
    Authenticated { app, caller, .. }: Authenticated,
    IdPath(id): IdPath<ReportId>,
) -> Result<Response> {
    app.reports.delete(&app.files, &caller.scope, id).await?;
    Ok(Json(DeletedReportView { deleted: true }).into_response())
}

async fn create_schedule(
    Authenticated { app, caller, now }: Authenticated,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let schedule = app.schedules.create(&caller, NewSchedule::parse(&body)?, now).await?;
    Ok((StatusCode::CREATED, Json(ReportScheduleView::new(&schedule))).into_response())
}

async fn list_schedules(Authenticated { app, caller, .. }: Authenticated) -> Result<Response> {
    let found = app.schedules.list(&caller.scope.account, caller.scope.mode).await?;
    let data = found.iter().map(ReportScheduleView::new).collect();
    Ok(Json(WholeListView { data }).into_response())
}

async fn delete_schedule(
    Authenticated { app, caller, .. }: Authenticated,
    IdPath(id): IdPath<ReportScheduleId>,
) -> Result<Response> {
    app.schedules.delete(&caller, id).await?;
    Ok(Json(DeletedReportView { deleted: true }).into_response())
}
