//! `POST /v1/payments/{id}/resend-webhook`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ids::ResendId;
use shared::app::{App, PAYMENT};
use shared::charge::ChargePath;
use shared::http::{Problem, RequestContext};
use shared::random;
use shared::webhook::resend::{Resend, ResentView};

pub(crate) async fn resend_webhook(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, charge) = app.own_charge(&context, id, PAYMENT, now).await?;
    // Only what is written down is told.
    let charge = app.charges.caught_up(charge, now).await?;
    let status = charge.status;
    let refund = app.refunds.that_completed(&charge).await?;
    let asked = Resend { id: ResendId::new(now, random::bytes()?), charge, refund, at: now };
    let resent = app.resends.of_charge(&asked, &app.links).await?;
    Ok(Json(ResentView { resent, status }).into_response())
}
