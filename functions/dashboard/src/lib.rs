//! Serves `/dashboard`: the pages for merchants. The function only reads. Each form of a page posts to the function
//! that owns what the form changes; only the choice of the mode, which is a cookie, is handled here.

mod account;
mod charges;
mod disputes;
mod dossier;
mod fields;
mod help;
mod home;
mod links;
mod money;
mod received;
mod reports;
mod requests;
mod search;
mod security;
mod settings;
mod states;
mod team;
mod translations;
mod visit;
mod webhooks;
mod words;

use ::money::charge::Charges;
use ::money::med::MedCases;
use ::money::med::evidence::{CaseEvidence, EvidenceFiles};
use ::money::payment_link::PaymentLinks;
use ::money::report::{ReportFiles, ReportSchedules, Reports};
use ::money::wallet::Wallets;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{ETAG, HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use domain::ids::Mode;
use effects::rollup::Rollups;
use effects::webhook::delivery::Deliveries;
use effects::webhook::endpoint::Endpoints;
use effects::webhook::log::EventLog;
use effects::webhook::recovery::Recoveries;
use maud::html;
use pages::{Access, Document, Language, Tone, announced, errors_as_pages, safe_path};
use shared::auth::dashboard::{MODE_COOKIE, choice_cookie};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{
    FormBody, Problem, RequestContext, Result, SameOrigin, etag_of, is_known, with_middleware,
};
use shared::request_log::RequestLog;
use shared::store::Aws;

use crate::words as w;

/// A page is far smaller, and Lambda sends 6 MB.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// What this function may use. It only reads, and counts requests.
#[derive(Debug)]
pub struct Uses {
    cases: MedCases,
    charges: Charges,
    deliveries: Deliveries,
    endpoints: Endpoints,
    recoveries: Recoveries,
    events: EventLog,
    links: PaymentLinks,
    evidence: CaseEvidence,
    requests: RequestLog,
    reports: Reports,
    report_schedules: ReportSchedules,
    report_files: ReportFiles,
    rollups: Rollups,
    wallets: Wallets,
    /// The path of the log-in by one click, which exists only on a developer's machine.
    local_log_in: Option<String>,
}

pub type App = shared::app::App<Uses>;

/// Reads the variables of [`App::from_vars`], `DOCUMENTS_BUCKET` and, on a developer's machine, `LOCAL_LOG_IN`.
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        let bucket = required(var, "DOCUMENTS_BUCKET")?;
        let files = EvidenceFiles::new(aws.s3(), bucket.clone());
        Ok(Uses {
            cases: MedCases::new(store.clone()),
            charges: Charges::new(store.clone()),
            deliveries: Deliveries::new(store.clone()),
            endpoints: Endpoints::new(store.clone()),
            recoveries: Recoveries::new(store.clone()),
            events: EventLog::new(store.clone()),
            links: PaymentLinks::new(store.clone()),
            evidence: CaseEvidence::new(store.clone(), files),
            requests: RequestLog::new(store.clone()),
            reports: Reports::new(store.clone()),
            report_schedules: ReportSchedules::new(store.clone()),
            report_files: ReportFiles::new(aws.s3(), bucket),
            rollups: Rollups::new(store.clone()),
            wallets: Wallets::new(store.clone()),
            local_log_in: var("LOCAL_LOG_IN").filter(|path| !path.is_empty()),
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/dashboard", get(home::home))
        .route("/dashboard/", get(async || Redirect::permanent("/dashboard")))
        .route("/dashboard/login", get(log_in))
        .route("/dashboard/totp", get(security::code))
        .route("/dashboard/confirm", get(security::confirm))
        .route("/dashboard/security", get(security::show))
        .route("/dashboard/mode", post(choose_mode))
        .route("/dashboard/search", get(search::search))
        .route("/dashboard/invite/{token}", get(team::invite))
        .route("/dashboard/reset", get(team::forgotten))
        .route("/dashboard/reset/{token}", get(team::reset))
        .route("/dashboard/charges", get(charges::list))
        .route("/dashboard/charges/new", get(charges::new))
        .route("/dashboard/charges/{id}", get(charges::show))
        .route("/dashboard/charges/{id}/receipt", get(charges::receipt))
        .route("/dashboard/assets/{name}", get(asset))
        .route("/dashboard/links", get(links::list))
        .route("/dashboard/links/{id}", get(links::show))
        .route("/dashboard/refunds", get(money::refunds))
        .route("/dashboard/settings", get(settings::show))
        .route("/dashboard/payouts", get(money::payouts))
        .route("/dashboard/wallet", get(money::wallet))
        .route("/dashboard/reports", get(reports::list))
        .route("/dashboard/reports/{id}/file", get(reports::file))
        .route("/dashboard/disputes", get(disputes::list))
        .route("/dashboard/disputes/{id}", get(disputes::show))
        .route("/dashboard/disputes/{id}/dossier", get(dossier::show))
        .route("/dashboard/disputes/{id}/evidence/{file}", get(disputes::file))
        .route("/dashboard/webhooks", get(webhooks::list))
        .route("/dashboard/webhooks/{id}", get(webhooks::endpoint))
        .route("/dashboard/deliveries/{id}", get(webhooks::delivery))
        .route("/dashboard/events", get(webhooks::events))
        .route("/dashboard/events/{id}", get(webhooks::event))
        .route("/dashboard/requests", get(requests::list))
        .route("/dashboard/requests/{id}", get(requests::show))
        .route("/dashboard/developers", get(account::developers))
        .route("/dashboard/team", get(team::team))
        .route("/dashboard/audit", get(account::audit))
        .route("/dashboard/notices", get(account::notices))
        .route("/dashboard/help", get(help::show))
        .route("/dashboard/{*rest}", any(async || Problem::NotFound { what: "page" }))
        .layer(from_fn(with_etag))
        .layer(from_fn(errors_as_pages))
        // After the layers: an error is in the format of the API.
        .route("/v1/med/cases/{id}/dossier", get(dossier::of_api))
        .route("/v1/infractions/{id}/dossier", get(dossier::of_api))
        .with_state(app);
    with_middleware(routes, origin)
}

async fn asset(Path(name): Path<String>) -> Response {
    pages::assets::respond(&name)
}

async fn log_in(State(app): State<App>, context: RequestContext, headers: HeaderMap) -> Response {
    let language = Language::of(&headers);
    let next = safe_path(context.query.text("next"));
    let access = Access { language, next, error: context.query.text("error"), sent: None };
    let done = html! {
        @if access.error.is_none() && context.query.text("done").is_some() {
            (announced(Tone::Good, &html! { (language.say(w::PASSWORD_CHANGED)) }))
        }
    };
    let main = access.log_in(&done, None, app.local_log_in.as_deref());
    let title = language.say(w::LOG_IN);
    pages::html(StatusCode::OK, Document { language, title, shell: None, main }.render())
}

async fn choose_mode(_: SameOrigin, FormBody(form): FormBody) -> Result<Response> {
    let mode = form.text("mode").and_then(|mode| mode.parse::<Mode>().ok());
    let mode = mode.ok_or_else(|| Problem::field("mode", "must be test or live"))?;
    // 303 See Other, so that reloading the page does not send the form again.
    let headers = [
        (SET_COOKIE, choice_cookie(MODE_COOKIE, mode.as_str())),
        (LOCATION, safe_path(form.text("next")).to_owned()),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// The keys of forms differ each time the page is drawn.
fn without_keys(page: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(page);
    let mut parts = text.split("name=\"idempotency_key\" value=\"");
    let first = parts.next().unwrap_or_default();
    parts
        .fold(first.to_owned(), |all, part| all + part.split_once('"').map_or(part, |(_key, rest)| rest))
        .into()
}

/// Sends 304 instead of a page that the browser has. A page that refreshes itself costs few bytes then.
async fn with_etag(request: Request, next: Next) -> Response {
    let is_page = request.method() == Method::GET;
    let sent = request.headers().clone();
    let response = next.run(request).await;
    if !is_page || response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_PAGE_BYTES).await else {
        return Problem::Internal("a page is larger than 4 MB".to_owned()).into_response();
    };
    let etag = format!("W/{}", etag_of(without_keys(&bytes)));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        head.headers.insert(ETAG, etag);
    }
    if is_known(&sent, &etag) {
        head.status = StatusCode::NOT_MODIFIED;
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(bytes))
}
