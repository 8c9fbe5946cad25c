//! Creates and lists the refunds of a payment.

use crate::{CallerOwned, Deferred, Payment};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::ChargeId;
use money::refund::{NewRefund, RefundView};
use shared::http::{IdPath, JsonBody, Result, WholeListView};

pub(crate) async fn create(
    own: Deferred<CallerOwned<Payment>>,
    IdPath(id): IdPath<ChargeId>,
    body: Result<JsonBody>,
) -> Result<Response> {
    let request = body.and_then(|body| NewRefund::parse(&body.0));
    let refund_id = id.zip(request.as_ref().ok()).map(|(id, request)| request.id(id));
    let (CallerOwned { app, caller, found: Payment(charge), .. }, stored) =
        own.concurrently_with(async |app| app.refunds.find(refund_id).await).await?;
    let (request, stored) = (request?, stored?);
    let acquirer = app.connections.acquirer_of_payment(charge.as_stored()).await?;
    let capabilities = acquirer.connector().refund_capabilities();
    let created =
        Box::pin(app.refunds.create(&caller, (charge, stored), &request, capabilities, &app.clock)).await?;
    Ok(created.respond(RefundView::new(created.get())))
}

pub(crate) async fn list(
    own: Deferred<CallerOwned<Payment>>,
    IdPath(id): IdPath<ChargeId>,
) -> Result<Response> {
    let (_, refunds) = own.concurrently_with(async |app| app.refunds.for_charge(id).await).await?;
    let refunds = refunds?;
    Ok(Json(WholeListView { data: refunds.iter().map(RefundView::new).collect() }).into_response())
}
