//! `/v1/charges` and `/v1/pix/charges` (contract: Charges).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use shared::app::{App, CHARGE};
use shared::charge::request::{NewCharge, Surface};
use shared::charge::view::{ChargeListView, ChargeView, QrImage};
use shared::charge::{ChargeFilter, ChargePath};
use shared::http::{Fields, JsonBody, Problem, RequestContext, framed};
use shared::services::{IdempotencyNamespace, create_charge};

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Characters of an `Idempotency-Key` (contract: Limits).
const IDEMPOTENCY_KEY_CHARS: std::ops::RangeInclusive<usize> = 8..=128;

/// The function's routes.
pub fn router(app: App) -> Router {
    let charges = if app.charge_list { post(create).get(list) } else { post(create) };
    let routes = Router::new()
        .route("/v1/charges", charges)
        .route("/v1/pix/charges", post(create_pix))
        .route("/v1/charges/{id}", get(read))
        .with_state(app);
    framed(routes)
}

async fn create(
    State(app): State<App>,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    create_by(Surface::Charges, &app, &context, body).await
}

async fn create_pix(
    State(app): State<App>,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    create_by(Surface::PixCharges, &app, &context, body).await
}

async fn create_by(
    surface: Surface,
    app: &App,
    context: &RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(context, now).await?;
    let mut fields = Fields::new();
    let idempotency_key = idempotency_key(&mut fields, context);
    let body = match body {
        Ok(body) => body,
        Err(problem) => return Err(fields.with(problem)),
    };
    let request = NewCharge::take(&mut fields, &body.0, surface);
    let (idempotency_key, request) = fields.finish(idempotency_key.zip(request))?;
    let created = create_charge(
        (&app.charges, &app.acquirers),
        &caller,
        (IdempotencyNamespace::Charges, idempotency_key),
        request,
        &app.links,
        now,
    )
    .await?;
    Ok(created.respond(ChargeView::new(created.get(), &app.links, QrImage::Inline)))
}

/// The header's value; a failure is noted beside those of the body's fields.
fn idempotency_key<'a>(fields: &mut Fields, context: &'a RequestContext) -> Option<&'a str> {
    let Some(key) = &context.headers.idempotency_key else {
        fields.reject(IDEMPOTENCY_KEY, "this header is required");
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
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, charge) = app.own_charge(&context, id, CHARGE, now).await?;
    Ok(Json(ChargeView::new(&charge.as_of(now), &app.links, QrImage::Inline)).into_response())
}

async fn list(State(app): State<App>, context: RequestContext) -> Result<Response, Problem> {
    let now = app.clock.now();
    let filter = ChargeFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (caller, cursor) =
        tokio::join!(app.api_keys.authenticate_with_query(&context, now), app.charges.find(cursor));
    let caller = caller?;
    let page = app.charges.list(&caller.scope, &filter?, cursor?, now).await?;
    Ok(Json(ChargeListView::new(&page, &app.links)).into_response())
}
