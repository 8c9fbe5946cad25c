//! `GET /v1/payments`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use shared::app::App;
use shared::http::{Problem, RequestContext};
use shared::services::{PaymentFilter, PaymentListView};

pub(crate) async fn list(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let filter = PaymentFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (caller, cursor) =
        tokio::join!(app.api_keys.authenticate_with_query(&context, now), app.charges.find(cursor));
    let page = app.payment_list.page(&caller?.scope, &filter?, cursor?, &app.links, now).await?;
    Ok(Json(PaymentListView::new(&page, &app.links)).into_response())
}
