//! `/_local/stripe/*`, `/_local/europe/*` and `/_local/btcpay/*`: the control routes of the stand-ins of Stripe and of
//! BTCPay Server, which `docs/laptop.md` lists.

use std::sync::Arc;

use axum::extract::{Path, State as Shared};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Refusal;
use crate::contents::Contents;

/// Executes a control route. `None`: the stand-in does not run.
type Control = fn(&Contents, (&str, &str, &Value)) -> Option<(u16, Value)>;

pub(super) fn routes() -> Router<Arc<Contents>> {
    let of = |control: Control| {
        any(move |Shared(contents): Shared<Arc<Contents>>, method: Method, path, body: String| async move {
            answer(&contents, control, (&method, path, &body))
        })
    };
    Router::new()
        .route(
            "/_local/stripe/{*path}",
            of(|at, (method, path, body)| Some(at.cards.control(method, path, body))),
        )
        .route(
            "/_local/europe/{*path}",
            of(|at, (method, path, body)| Some(at.others.as_ref()?.europe.control(method, path, body))),
        )
        .route(
            "/_local/btcpay/{*path}",
            of(|at, (method, path, body)| Some(at.others.as_ref()?.btcpay.control(method, path, body))),
        )
}

fn answer(
    contents: &Contents,
    control: Control,
    (method, Path(path), body): (&Method, Path<String>, &str),
) -> Result<Response, Refusal> {
    let body: Value = match body.trim() {
        "" => json!({}),
        text => serde_json::from_str(text)
            .map_err(|error| Refusal(StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}")))?,
    };
    let missing = || Refusal(StatusCode::NOT_FOUND, "this stand-in does not run".to_owned());
    let (status, answer) =
        control(contents, (method.as_str(), &format!("/{path}"), &body)).ok_or_else(missing)?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok((status, Json(answer)).into_response())
}
