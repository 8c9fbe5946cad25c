//! `/v1/payments/stats` and `/v1/payments/metrics`.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use shared::app::App;
use shared::http::{Problem, Query, RequestContext};
use shared::rollup::Window;
use shared::rollup::view::{MetricsView, StatsQuery, StatsView};

pub(crate) async fn stats(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let asked = StatsQuery::of_stats(&Query::of(query.as_deref()))?;
    let window = Window::of_business_days(asked.days, now);
    let rows = app.rollups.of_days(&caller.scope, window).await?;
    Ok(Json(StatsView::new(window, &rows)).into_response())
}

pub(crate) async fn metrics(
    State(app): State<App>,
    context: RequestContext,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let asked = StatsQuery::of_metrics(&Query::of(query.as_deref()))?;
    let window = Window::of_business_days(asked.days, now);
    let rows = app.rollups.of_days(&caller.scope, window).await?;
    Ok(Json(MetricsView::new(&asked, &rows)).into_response())
}
