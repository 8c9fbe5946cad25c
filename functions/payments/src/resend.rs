//! Serves `POST /v1/payments/{id}/resend-webhook`.

use crate::{CallerOwned, Payment};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::ResendId;
use effects::webhook::resend::{Resend, ResentView};
use shared::http::Result;
use shared::random;

pub(crate) async fn resend_webhook(
    CallerOwned { app, found: Payment(charge), now, .. }: CallerOwned<Payment>,
) -> Result<Response> {
    // The resend sends the events of the status changes that the charge's row contains. So an expiry that is
    // not persisted yet must be persisted first.
    let charge = app.charges.with_expiry_persisted(charge, now).await?;
    let status = charge.status;
    let refund = app.refunds.completing_refund(&charge).await?;
    let request = Resend { id: ResendId::new(now, random::bytes()?), charge, refund, at: now };
    let resent = app.resends.resend_charge(&request, &app.public_urls).await?;
    Ok(Json(ResentView { resent, status }).into_response())
}
