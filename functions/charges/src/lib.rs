//! Serves `/v1/charges` and `/v1/pix/charges` (contract: Charges).

use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::charge::StoredCharge;
use shared::app::App;
use shared::charge::ChargeFilter;
use shared::charge::request::{ChargeRoute, NewCharge};
use shared::charge::view::{ChargeListView, ChargeView, QrImage};
use shared::extract::{Authenticated, AuthenticatedQuery, CallerOwned, Deferred};
use shared::http::{Fields, JsonBody, Problem, RequestContext, with_middleware};
use shared::services::{IdempotencyNamespace, create_charge};

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// The allowed lengths of an `Idempotency-Key`, in characters (contract: Limits).
const IDEMPOTENCY_KEY_CHARS: std::ops::RangeInclusive<usize> = 8..=128;

/// Builds the function's routes. With `CHARGE_LIST=off`, `GET /v1/charges` answers 404.
pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let charges = if app.charge_list_enabled { post(create).get(list) } else { post(create) };
    let routes = Router::new()
        .route("/v1/charges", charges)
        .route("/v1/pix/charges", post(create_pix))
        .route("/v1/charges/{id}", get(read))
        .with_state(app);
    with_middleware(routes, origin)
}

async fn create(
    authenticated: Authenticated,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    create_by(ChargeRoute::Charges, authenticated, &context, body).await
}

async fn create_pix(
    authenticated: Authenticated,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    create_by(ChargeRoute::PixCharges, authenticated, &context, body).await
}

async fn create_by(
    surface: ChargeRoute,
    Authenticated { app, caller, now }: Authenticated,
    context: &RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let mut fields = Fields::new();
    let idempotency_key = idempotency_key(&mut fields, context);
    let body = match body {
        Ok(body) => body,
        Err(problem) => return Err(fields.with_failures_of(problem)),
    };
    let request = NewCharge::from_body(&mut fields, &body.0, surface);
    let (idempotency_key, request) = fields.finish(idempotency_key.zip(request))?;
    let created = create_charge(
        app.charge_creation(),
        &caller,
        (IdempotencyNamespace::Charges, idempotency_key),
        request,
        now,
    )
    .await?;
    context.set_charge(created.get().id);
    Ok(created.respond(ChargeView::new(created.get(), &app.public_urls, QrImage::Inline)))
}

/// Reads the header `Idempotency-Key`. An invalid value is added to `fields`, so that it is reported together
/// with the body's errors.
fn idempotency_key<'a>(fields: &mut Fields, context: &'a RequestContext) -> Option<&'a str> {
    let Some(key) = &context.headers.idempotency_key else {
        fields.reject(
            IDEMPOTENCY_KEY,
            "is required: a header of 8 to 128 characters that is unique to this request",
        );
        return None;
    };
    let text = std::str::from_utf8(key.as_bytes()).ok();
    let text = text.filter(|text| IDEMPOTENCY_KEY_CHARS.contains(&text.chars().count()));
    if text.is_none() {
        fields.reject(IDEMPOTENCY_KEY, "must be 8 to 128 characters of UTF-8");
    }
    text
}

async fn read(
    CallerOwned { app, found: charge, now, .. }: CallerOwned<StoredCharge>,
) -> Result<Response, Problem> {
    Ok(Json(ChargeView::new(&charge.read_at(now), &app.public_urls, QrImage::Inline)).into_response())
}

async fn list(
    context: RequestContext,
    authenticated: Deferred<AuthenticatedQuery>,
) -> Result<Response, Problem> {
    let filter = ChargeFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (AuthenticatedQuery { app, caller, now, .. }, cursor) =
        authenticated.concurrently_with(async |app| app.charges.find(cursor).await).await?;
    let page = app.charges.list(&caller.scope, &filter?, cursor?, now).await?;
    Ok(Json(ChargeListView::new(&page, &app.public_urls)).into_response())
}
