//! `POST /v1/payments/{id}/resend-webhook`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::ResendId;
use shared::extract::Own;
use shared::http::Problem;
use shared::random;
use shared::webhook::resend::{Resend, ResentView};

use crate::Payment;

pub(crate) async fn resend_webhook(
    Own { app, found: Payment(charge), now, .. }: Own<Payment>,
) -> Result<Response, Problem> {
    // Only what is written down is told.
    let charge = app.charges.with_expiry_persisted(charge, now).await?;
    let status = charge.status;
    let refund = app.refunds.that_completed(&charge).await?;
    let asked = Resend { id: ResendId::new(now, random::bytes()?), charge, refund, at: now };
    let resent = app.resends.of_charge(&asked, &app.public_urls).await?;
    Ok(Json(ResentView { resent, status }).into_response())
}
