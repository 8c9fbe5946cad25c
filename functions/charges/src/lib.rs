//! Serves `/v1/charges` and `/v1/pix/charges`.

mod forms;

use acquirer_core::Connections;
use acquirer_core::configuration::AccountAcquirers;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::charge::StoredCharge;
use money::charge::request::{ChargeRoute, NewCharge};
use money::charge::view::{ChargeView, QrImage, charge_list};
use money::charge::{ChargeFilter, Charges};
use services::{
    ChargeCreation, ChargeRows, IdempotencyNamespace, TimelinePage, charge_timeline, create_charge,
};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars};
use shared::http::{Fields, JsonBody, RequestContext, Result, with_middleware};
use shared::store::Aws;

#[derive(Debug)]
pub struct Uses {
    charges: Charges,
    connections: Connections,
    /// `CHARGE_LIST` is `off` if the list is disabled.
    lists: bool,
}

pub type App = shared::app::App<Uses>;
type Authenticated = shared::extract::Authenticated<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;
type CallerOwned<T> = money::extract::CallerOwned<Uses, T>;
type Deferred<E> = shared::extract::Deferred<Uses, E>;
type MemberForm = pages::forms::MemberForm<App>;

/// Reads the variables of [`App::from_vars`], `SECRETS_TABLE_NAME` and `CHARGE_LIST`.
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, clock| {
        let settings = AccountAcquirers::from_vars(aws, store.clone(), var)?;
        Ok(Uses {
            charges: Charges::new(store.clone()),
            connections: Connections::new(settings, clock.clone()),
            lists: var("CHARGE_LIST").as_deref() != Some("off"),
        })
    })
}

/// With `CHARGE_LIST=off`, `GET /v1/charges` answers 404.
pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let charges = if app.lists { post(create).get(list) } else { post(create) };
    let routes = Router::new()
        .route("/v1/charges", charges)
        .route("/v1/pix/charges", post(create_pix))
        .route("/v1/charges/{id}", get(read))
        .route("/v1/charges/{id}/timeline", get(timeline))
        .merge(forms::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

fn creation(app: &App) -> ChargeCreation<'_> {
    ChargeCreation {
        charges: &app.charges,
        connections: &app.connections,
        public_urls: &app.public_urls,
        clock: &app.clock,
        link: None,
    }
}

async fn create(
    authenticated: Authenticated,
    context: RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    create_by(ChargeRoute::Charges, authenticated, &context, body).await
}

async fn create_pix(
    authenticated: Authenticated,
    context: RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    create_by(ChargeRoute::PixCharges, authenticated, &context, body).await
}

async fn create_by(
    surface: ChargeRoute,
    Authenticated { app, caller, now }: Authenticated,
    context: &RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    let (mut fields, idempotency_key, body) = Fields::of_creation(context, body)?;
    let request = NewCharge::from_body(&mut fields, &body, surface);
    let (idempotency_key, request) = fields.finish(idempotency_key.zip(request))?;
    let created = create_charge(
        creation(&app),
        &caller,
        (IdempotencyNamespace::Charges, idempotency_key),
        request,
        now,
    )
    .await?;
    context.set_charge(created.get().id);
    Ok(created.respond(ChargeView::new(created.get(), &app.public_urls, QrImage::Inline)))
}

async fn read(CallerOwned { app, found: charge, now, .. }: CallerOwned<StoredCharge>) -> Result<Response> {
    Ok(Json(ChargeView::new(&charge.read_at(now), &app.public_urls, QrImage::Inline)).into_response())
}

async fn timeline(
    context: RequestContext,
    CallerOwned { app, found: rows, now, .. }: CallerOwned<ChargeRows>,
) -> Result<Response> {
    let page = TimelinePage::parse(&context.query)?;
    let timeline = charge_timeline(&app.store, rows, page.part(), now).await?;
    Ok(Json(page.view(&timeline)).into_response())
}

async fn list(context: RequestContext, authenticated: Deferred<AuthenticatedQuery>) -> Result<Response> {
    let filter = ChargeFilter::parse(&context.query);
    let cursor = filter.as_ref().ok().and_then(|filter| filter.starting_after);
    let (AuthenticatedQuery { app, caller, now, .. }, cursor) =
        authenticated.concurrently_with(async |app| app.charges.find(cursor).await).await?;
    let page = app.charges.list(&caller.sharded_scope(), &caller.salt, &filter?, cursor?, now).await?;
    Ok(Json(charge_list(&page, &app.public_urls)).into_response())
}
