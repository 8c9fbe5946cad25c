//! Serves `GET /v1/payments/stats` and `GET /v1/payments/metrics`.

use crate::AuthenticatedQuery;
use axum::Json;
use axum::response::{IntoResponse, Response};
use domain::calendar::BusinessDayRange;
use effects::rollup::view::{METRICS_QUERY, MetricsView, STATS_QUERY, StatsQuery, StatsView};
use shared::http::Result;

pub(crate) async fn stats(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
) -> Result<Response> {
    let parameters = StatsQuery::parse(&query, STATS_QUERY)?;
    let window = BusinessDayRange::of_business_days(parameters.days, now);
    let rows = app.rollups.for_window(&caller.sharded_scope(), window).await?;
    Ok(Json(StatsView::new(window, &rows)).into_response())
}

pub(crate) async fn metrics(
    AuthenticatedQuery { app, caller, query, now }: AuthenticatedQuery,
) -> Result<Response> {
    let parameters = StatsQuery::parse(&query, METRICS_QUERY)?;
    let window = BusinessDayRange::of_business_days(parameters.days, now);
    let rows = app.rollups.for_window(&caller.sharded_scope(), window).await?;
    Ok(Json(MetricsView::new(&parameters, &rows)).into_response())
}
