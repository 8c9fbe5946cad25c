//! `GET /v1/payments`.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use shared::app::App;
use shared::charge::transaction::list::PaymentFilter;
use shared::charge::transaction::view::PaymentListView;
use shared::http::{Problem, Query, RequestContext};

pub(crate) async fn list(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let filter = PaymentFilter::parse(&Query::of(query.as_deref()))?;
    let page = app.charges.payments(&caller.scope, &filter, &app.links, now).await?;
    Ok(Json(PaymentListView::new(&page, &app.links)).into_response())
}
