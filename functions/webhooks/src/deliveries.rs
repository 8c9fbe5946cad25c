//! Handlers of `/v1/webhooks/deliveries` and `/v1/webhooks/stats`.

use crate::{Authenticated, AuthenticatedQuery};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::{DeliveryId, ResendId};
use effects::webhook::delivery::{AttemptListView, DeliveryFilter, DeliveryListView, DeliveryView, Include};
use shared::http::{IdPath, Result};
use shared::random;

pub(crate) async fn list(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
) -> Result<Response> {
    let filter = DeliveryFilter::parse(&query)?;
    let page = app.deliveries.list(&caller.sharded_scope(), &filter, now).await?;
    Ok(Json(DeliveryListView::new(&page, &filter)).into_response())
}

pub(crate) async fn read(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response> {
    let include = Include::parse(&query)?;
    let (delivery, body, _endpoint) = app.deliveries.find(&caller.scope, id, now).await?;
    Ok(Json(DeliveryView::including(&delivery, body.as_deref(), include)).into_response())
}

pub(crate) async fn attempts(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response> {
    let delivery = app.deliveries.shown(&caller.scope, id, now).await?;
    Ok(Json(AttemptListView { data: delivery.attempts_made() }).into_response())
}

pub(crate) async fn resend(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response> {
    let resend = ResendId::new(now, random::bytes()?);
    let (delivery, body) = app.resends.resend_delivery(&caller.scope, id, resend, now).await?;
    Ok(Json(DeliveryView::new(&delivery, Some(&body))).into_response())
}

pub(crate) async fn stats(Authenticated { app, caller, now }: Authenticated) -> Result<Response> {
    Ok(Json(app.deliveries.stats(&caller.sharded_scope(), now).await?).into_response())
}
