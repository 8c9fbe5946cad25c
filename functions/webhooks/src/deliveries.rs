//! `/v1/webhooks/deliveries` and `/v1/webhooks/stats`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ids::{DeliveryId, ResendId};
use shared::app::App;
use shared::http::{IdPath, Problem, RequestContext};
use shared::random;
use shared::webhook::delivery::{DeliveryFilter, DeliveryListView, DeliveryView};

pub(crate) async fn list(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate_with_query(&context, now).await?;
    let filter = DeliveryFilter::parse(&context.query)?;
    let page = app.deliveries.list(&caller.scope, &filter, now).await?;
    Ok(Json(DeliveryListView::new(&page, &filter)).into_response())
}

pub(crate) async fn read(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let (delivery, body) = app.deliveries.find(&caller.scope, id, now).await?;
    Ok(Json(DeliveryView::new(&delivery, body.as_deref())).into_response())
}

pub(crate) async fn resend(
    State(app): State<App>,
    context: RequestContext,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let resend = ResendId::new(now, random::bytes()?);
    let (delivery, body) = app.resends.of_delivery(&caller.scope, id, resend, now).await?;
    Ok(Json(DeliveryView::new(&delivery, Some(&body))).into_response())
}

pub(crate) async fn stats(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    Ok(Json(app.deliveries.stats(&caller.scope, now).await?).into_response())
}
