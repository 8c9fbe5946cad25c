//! Handlers of `/v1/webhooks/deliveries` and `/v1/webhooks/stats`.

use crate::{Authenticated, AuthenticatedQuery};
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::ids::{DeliveryId, ResendId};
use effects::webhook::delivery::{DeliveryFilter, DeliveryListView, DeliveryView};
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
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<DeliveryId>,
) -> Result<Response> {
    let (delivery, body, _endpoint) = app.deliveries.find(&caller.scope, id, now).await?;
    Ok(Json(DeliveryView::new(&delivery, body.as_deref())).into_response())
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
