//! `/v1/auth` (design: Authentication).

use axum::extract::State;
use axum::http::StatusCode;
use shared::http::{Problem, RequestContext};

use crate::Desk;

pub(crate) async fn log_out(
    State(desk): State<Desk>,
    context: RequestContext,
) -> Result<StatusCode, Problem> {
    let member = desk.dashboard.authenticate(&context, desk.clock.now()).await?;
    desk.dashboard.log_out(&member).await?;
    Ok(StatusCode::NO_CONTENT)
}
