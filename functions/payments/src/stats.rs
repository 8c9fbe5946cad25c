//! `/v1/payments/stats` and `/v1/payments/metrics`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::calendar::Window;
use shared::app::App;
use shared::http::{Problem, RequestContext};
use shared::rollup::view::{MetricsView, StatsQuery, StatsView};

pub(crate) async fn stats(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate_with_query(&context, now).await?;
    let asked = StatsQuery::of_stats(&context.query)?;
    let window = Window::of_business_days(asked.days, now);
    let rows = app.rollups.of_days(&caller.scope, window).await?;
    Ok(Json(StatsView::new(window, &rows)).into_response())
}

pub(crate) async fn metrics(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate_with_query(&context, now).await?;
    let asked = StatsQuery::of_metrics(&context.query)?;
    let window = Window::of_business_days(asked.days, now);
    let rows = app.rollups.of_days(&caller.scope, window).await?;
    Ok(Json(MetricsView::new(&asked, &rows)).into_response())
}
