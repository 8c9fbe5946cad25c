//! `/_local/stripe/*` and `/_local/europe/*`: the control routes of the stand-ins of Stripe, which `docs/laptop.md` lists.

use std::sync::Arc;

use axum::extract::{Path, State as Shared};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};
use stripe_stand_in::Stripe;

use super::Refusal;
use crate::contents::Contents;

pub(super) fn routes() -> Router<Arc<Contents>> {
    let of = |stripe: fn(&Contents) -> Option<&Arc<Stripe>>| {
        any(move |Shared(contents): Shared<Arc<Contents>>, method: Method, path, body: String| async move {
            control(stripe(&contents).map(Arc::as_ref), &method, path, &body)
        })
    };
    Router::new()
        .route("/_local/stripe/{*path}", of(|contents| Some(&contents.cards)))
        .route("/_local/europe/{*path}", of(|contents| contents.europe.as_ref()))
}

fn control(
    stripe: Option<&Stripe>,
    method: &Method,
    Path(path): Path<String>,
    body: &str,
) -> Result<Response, Refusal> {
    let body: Value = match body.trim() {
        "" => json!({}),
        text => serde_json::from_str(text)
            .map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}")))?,
    };
    let missing = || Refusal(StatusCode::NOT_FOUND, "this stand-in does not run".to_owned());
    let (status, answer) = stripe.ok_or_else(missing)?.control(method.as_str(), &format!("/{path}"), &body);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, Json(answer)).into_response())
}
