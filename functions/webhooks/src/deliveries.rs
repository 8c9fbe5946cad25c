//! `/v1/webhooks/deliveries`.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use shared::app::App;
use shared::http::{Problem, Query, RequestContext};
use shared::webhook::delivery::{DeliveryFilter, DeliveryListView};

pub(crate) async fn list(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let caller = app.api_keys.authenticate(&context, app.clock.now()).await?;
    let filter = DeliveryFilter::parse(&Query::of(query.as_deref()))?;
    let page = app.deliveries.list(&caller.scope, &filter).await?;
    Ok(Json(DeliveryListView::new(&page, &filter)).into_response())
}
