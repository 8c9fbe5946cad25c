//! The sandbox routes of MED cases. A caller with a test key acts as the payer's bank and the Central Bank.

use crate::{CallerOwnedTest, bodies};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::charge::StoredCharge;
use domain::hex;
use domain::med::MedCase;
use money::med::CaseView;
use money::med::request::case_notification;
use shared::http::{Fields, JsonBody, Result};
use shared::random;

pub(crate) async fn open(
    CallerOwnedTest { app, found: charge, now, .. }: CallerOwnedTest<StoredCharge>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let notification = case_notification(&body)?;
    // Without `notice_id`, each request counts as a new notification.
    let name = match &notification.id {
        Some(id) => format!("notice#{id}"),
        None => hex::encode(random::bytes::<16>()?),
    };
    let case = app.cases.open(charge, &name, &notification, now).await?;
    Ok((StatusCode::CREATED, Json(CaseView::new(&case))).into_response())
}

pub(crate) async fn request_evidence(
    CallerOwnedTest { app, found: case, now, .. }: CallerOwnedTest<MedCase>,
) -> Result<Response> {
    let case = app.cases.request_evidence(case, None, now).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}

pub(crate) async fn resolve(
    CallerOwnedTest { app, found: case, now, .. }: CallerOwnedTest<MedCase>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let mut fields = Fields::new();
    let root = fields.body(&body, bodies::RESOLVE_CASE_BODY);
    let decision = fields.read(&root, &bodies::CASE_DECISION);
    let case = app.cases.decide(case, fields.finish(decision)?, None, now).await?;
    Ok(Json(CaseView::new(&case)).into_response())
}
