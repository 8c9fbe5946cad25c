//! `GET /` and the routes under `/_local/`, which only the service on one machine has.

mod bank_routes;
mod stand_in_routes;

use std::sync::Arc;

use axum::extract::{RawQuery, State as Shared};
use axum::http::StatusCode;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use shared::auth::dashboard::SESSION_COOKIE;
use shared::auth::dashboard::token::{TOKEN_SECONDS, TokenKind};
use shared::clock::Clock;
use shared::http::{Origin, Query, set_cookie, with_headers};

use crate::contents::{CLOCK_FILE, Contents};
use crate::error::Context;
use crate::files::write_atomically;
use crate::guard::{self, AllowedHost};

/// The maximum number of seconds by which one request advances the clock: ten years of 366 days.
const MAX_ADVANCE_SECONDS: i64 = 10 * 366 * 24 * 60 * 60;

/// The time that the clock can't reach: 2100-01-01T00:00:00Z, in milliseconds since 1970.
const CLOCK_ENDS_MS: i64 = 4_102_444_800_000;

/// The path of the log-in by one click.
pub(crate) const LOG_IN: &str = "/_local/dashboard";

pub(crate) fn local_routes(contents: Arc<Contents>, allowed_hosts: Vec<AllowedHost>) -> Router {
    let guard = axum::middleware::from_fn_with_state(Arc::from(allowed_hosts), guard::guard);
    let home = Router::new().route("/", get(async || Redirect::to("/dashboard")));
    Router::new()
        .merge(with_headers(home, Origin::default()).with_state(()))
        .route(LOG_IN, get(log_in))
        .route("/_local/clock/advance", post(advance))
        .route("/_local/reset", post(reset))
        .merge(bank_routes::routes())
        .merge(stand_in_routes::routes())
        .fallback(async || Refusal(StatusCode::NOT_FOUND, "no such route".to_owned()))
        .layer(guard)
        .with_state(contents)
}

/// `GET /_local/dashboard` logs the browser in at the dashboard, as the first account's owner. The guard of these
/// routes refuses requests from other sites' pages.
async fn log_in(
    Shared(contents): Shared<Arc<Contents>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref());
    let owner = &contents.seed.first;
    let session = contents.begin_session(TokenKind::Session, (owner, &owner.owner_email)).await;
    let (issued, _session) =
        session.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let next = pages::safe_path(query.text("next"));
    let cookie = set_cookie(SESSION_COOKIE, issued.token.expose_secret(), TOKEN_SECONDS);
    Ok((StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, next.to_owned())]).into_response())
}

/// Returns a command that creates a test charge of R$ 19,90.
pub fn example_request(base_url: &str, key: &str) -> String {
    format!(
        "curl -s {base_url}/v1/pix/charges -H 'apikey: {key}' -H 'Idempotency-Key: order-0001' -H 'Content-Type: application/json' -d '{{\"amount\": 1990}}'"
    )
}

/// `POST /_local/clock/advance {"seconds": 60}` moves the service's clock forward; 200
/// `{"now": …, "offset_seconds": …}`.
async fn advance(Shared(contents): Shared<Arc<Contents>>, body: String) -> Result<Json<Value>, Refusal> {
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let seconds = body.get("seconds").and_then(Value::as_i64);
    let Some(seconds) = seconds.filter(|seconds| (0..=MAX_ADVANCE_SECONDS).contains(seconds)) else {
        let error = format!("seconds must be an integer from 0 to {MAX_ADVANCE_SECONDS}");
        return Err(Refusal(StatusCode::BAD_REQUEST, error));
    };
    let _one_at_a_time = contents.changing.lock().await;
    let milliseconds = seconds.saturating_mul(1000);
    if !contents.clock.now().plus_millis(milliseconds).is_ok_and(|then| then.millis() < CLOCK_ENDS_MS) {
        // The limit leaves room for expiries, which can be years later and must be valid dates too.
        let error = "the clock goes no further than the year 2100".to_owned();
        return Err(Refusal(StatusCode::BAD_REQUEST, error));
    }
    let clock_file = contents.directory.as_ref().map(|directory| directory.join(CLOCK_FILE));
    // The operator's commands read the clock by advancing it by 0 seconds. That works with a full disk too.
    if let Some(file) = clock_file.as_ref().filter(|_| milliseconds > 0) {
        // Saves the offset before it takes effect. Otherwise, a crash could leave rows with times that are
        // later than the time of the restarted clock.
        let offset_ms = contents.clock.offset_ms().saturating_add(milliseconds);
        write_atomically(file, offset_ms.to_string().as_bytes()).map_err(|error| {
            Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("the clock was not moved: {error}"))
        })?;
    }
    // The service relies on a time limit of each function. So the dispatcher does not insert a row by a time that it read
    // before the step, after which the checkpoint of counts may have passed the row.
    let _none = if milliseconds > 0 { Some(contents.streaming.write().await) } else { None };
    contents.clock.advance(milliseconds);
    contents.run_schedules_now.send_replace(());
    contents.bank.wake();
    contents.cards.wake();
    contents.others.iter().for_each(|others| others.wake());
    Ok(time_of(&contents.clock))
}

/// `POST /_local/reset` makes the state that of a first start, with the same accounts, keys and users; 200
/// `{"now": …, "offset_seconds": 0}`.
async fn reset(Shared(contents): Shared<Arc<Contents>>) -> Result<Json<Value>, Refusal> {
    let one_at_a_time = Arc::clone(&contents.changing).lock_owned().await;
    let resetting = Arc::clone(&contents);
    // A task of its own, so that the reset also ends when the client closes the connection.
    let reset = tokio::spawn(async move {
        let _one_at_a_time = one_at_a_time;
        resetting.reset().await
    });
    reset.await.context("the reset").flatten().map_err(|error| {
        let error = format!("the state is incomplete; repeat the reset, or restart the service: {error}");
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, error)
    })?;
    Ok(time_of(&contents.clock))
}

fn time_of(clock: &Clock) -> Json<Value> {
    Json(json!({"now": clock.now().to_iso(), "offset_seconds": clock.offset_ms() / 1_000}))
}

struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        (status, Json(json!({ "error": error }))).into_response()
    }
}
