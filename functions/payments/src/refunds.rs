//! Refunds of a payment.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use shared::app::{App, PAYMENT, require_scope};
use shared::charge::ChargePath;
use shared::http::{JsonBody, Problem, RequestContext};
use shared::refund::{NewRefund, RefundView};

pub(crate) async fn create(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let asked = body.and_then(|body| NewRefund::parse(&body.0));
    let earlier = id.zip(asked.as_ref().ok()).map(|(id, asked)| asked.id(id));
    let (own, earlier) = tokio::join!(app.own_charge(&context, id, PAYMENT, now), app.refunds.find(earlier));
    let (caller, charge) = own?;
    let asked = asked?;
    let acquirer = app.acquirers.named(charge.acquirer, &caller.scope.account).await?;
    let created = app
        .refunds
        .create(&caller, (charge, earlier?), &asked, acquirer.refund_capabilities(), &app.clock)
        .await?;
    Ok(created.respond(RefundView::new(created.get())))
}

pub(crate) async fn list(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (caller, charge, refunds) = tokio::join!(
        app.api_keys.authenticate(&context, now),
        app.charges.find(id),
        app.refunds.of_charge(id)
    );
    let caller = caller?;
    require_scope(charge?, &caller.scope, PAYMENT)?;
    let refunds = refunds?;
    let views: Vec<RefundView<'_>> = refunds.iter().map(RefundView::new).collect();
    Ok(Json(json!({ "data": views })).into_response())
}
