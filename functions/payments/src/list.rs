//! Serves `GET /v1/payments`.

use crate::{AuthenticatedQuery, Deferred};
use axum::Json;
use axum::response::{IntoResponse, Response};
use services::{PaymentFilter, PaymentListView};
use shared::http::{RequestContext, Result};

pub(crate) async fn list(
    context: RequestContext,
    authenticated: Deferred<AuthenticatedQuery>,
) -> Result<Response> {
    let filter = PaymentFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (AuthenticatedQuery { app, caller, now, .. }, cursor) =
        authenticated.concurrently_with(async |app| app.charges.find(cursor).await).await?;
    let scope = caller.sharded_scope();
    let page = app.payment_list.page(&scope, &filter?, cursor?, &app.public_urls, now).await?;
    Ok(Json(PaymentListView::new(&page, &app.public_urls)).into_response())
}
