//! `/_local/stripe/*`: the control routes of the stand-in, which `docs/laptop.md` lists.

use std::sync::Arc;

use axum::extract::{Path, State as Shared};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Refusal;
use crate::contents::Contents;

pub(super) fn routes() -> Router<Arc<Contents>> {
    Router::new().route("/_local/stripe/{*path}", any(control))
}

async fn control(
    Shared(contents): Shared<Arc<Contents>>,
    method: Method,
    Path(path): Path<String>,
    body: String,
) -> Result<Response, Refusal> {
    let body: Value = match body.trim() {
        "" => json!({}),
        text => serde_json::from_str(text)
            .map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}")))?,
    };
    let (status, answer) = contents.cards.control(method.as_str(), &format!("/{path}"), &body);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, Json(answer)).into_response())
}
