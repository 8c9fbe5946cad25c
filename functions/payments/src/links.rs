//! Serves `/v1/payment_links`, and the dashboard's forms about links.

use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::calendar::Day;
use domain::ids::PaymentLinkId;
use domain::money::Currency;
use domain::payment_link::PaymentLink;
use money::payment_link::request::{NewPaymentLink, PaymentLinkChange, PaymentLinkPage};
use money::payment_link::{PaymentLinkView, PaymentLinks};
use pages::forms::{Need, answer, body, minor_units};
use pages::kept::{link_change_form, link_form};
use pages::{errors_as_pages, words as w};
use serde_json::{Map, Value, json};
use shared::http::json::parse_object;
use shared::http::{Fields, IdPath, JsonBody, ListView, Query, RequestContext, Result};

use crate::pay::check_charges;
use crate::{App, Authenticated, AuthenticatedQuery, MemberForm};

const PATH: &str = "/dashboard/links";

pub(crate) fn routes() -> Router<App> {
    let forms = Router::new()
        .route(PATH, post(create_by_form))
        .route("/dashboard/links/{id}/active", post(activate))
        .route("/dashboard/links/{id}/change", post(change_by_form))
        .layer(from_fn(errors_as_pages));
    Router::new()
        .route("/v1/payment_links", post(create).get(list))
        .route("/v1/payment_links/{id}", get(read).patch(change))
        .merge(forms)
}

async fn create(
    Authenticated { app, caller, now }: Authenticated,
    context: RequestContext,
    body: Result<JsonBody>,
) -> Result<Response> {
    let (mut fields, key, body) = Fields::of_creation(&context, body)?;
    let request = NewPaymentLink::from_body(&mut fields, &body, now);
    let (key, request) = fields.finish(key.zip(request))?;
    let link = PaymentLinks::draft(&caller, key, request, now);
    check(&app, &link).await?;
    let created = app.links.create(&caller, link, now).await?;
    let view = view(&app, created.get()).await?;
    Ok(created.respond(view))
}

async fn view(app: &App, link: &PaymentLink) -> Result<PaymentLinkView> {
    Ok(PaymentLinkView::new(link, app.links.totals(link.id).await?, &app.public_urls))
}

async fn list(AuthenticatedQuery { app, caller, query, .. }: AuthenticatedQuery) -> Result<Response> {
    let page = app.links.list(&caller.scope, PaymentLinkPage::parse(&query)?).await?;
    let totals = app.links.totals_of_all(&page.items).await?;
    let shown = page.items.iter().zip(totals);
    let data = shown.map(|(link, totals)| PaymentLinkView::new(link, totals, &app.public_urls)).collect();
    Ok(Json(ListView::new(data, page.next_cursor)).into_response())
}

async fn read(
    Authenticated { app, caller, .. }: Authenticated,
    IdPath(id): IdPath<PaymentLinkId>,
) -> Result<Response> {
    let link = app.links.get(&caller.scope, id).await?;
    Ok(Json(view(&app, &link).await?).into_response())
}

async fn change(
    Authenticated { app, caller, now }: Authenticated,
    IdPath(id): IdPath<PaymentLinkId>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let change = PaymentLinkChange::parse(&body, now)?;
    let link = app.links.change(&caller, id, (&change, |link| check_charges(&app, link)), now).await?;
    Ok(Json(view(&app, &link).await?).into_response())
}

/// 400 or 422, as `POST /v1/payments` answers, if no payer could make a charge at the link.
async fn check(app: &App, link: &PaymentLink) -> Result<()> {
    check_charges(app, link)?;
    let (legs, _is_stopped) = app.connections.for_new(&link.scope, &link.methods).await?;
    let (min, max) = link.amount.range();
    Ok(legs.check_amounts(&link.methods, link.currency, (min.minor(), max.minor()))?)
}

/// As the API takes it. What is no number is refused there.
fn max_payments(form: &Query) -> Value {
    let count = |typed: &str| typed.parse::<u32>().map_or(json!(typed), Value::from);
    form.text("max_payments").map_or(Value::Null, count)
}

/// What the link asks of its payers; null: nothing.
fn asked(form: &Query) -> Value {
    let asked: Vec<&str> = form.texts("ask").collect();
    if asked.is_empty() { Value::Null } else { json!(asked) }
}

/// A form that is sent twice finds the link of its key.
async fn create_by_form(member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let created = async {
        let text = |name| form.text(name);
        let amount = |name| text(name).map(|typed| minor_units(typed, Currency::BRL)).transpose();
        let request = json!({
            "amount": amount("amount")?, "min_amount": amount("min_amount")?, "max_amount": amount("max_amount")?,
            "payment_methods": form.texts("methods").collect::<Vec<_>>(),
            "description": text("description"), "expires_at": text("expires_at"),
            "max_payments": max_payments(form), "ask": asked(form),
        });
        let request = NewPaymentLink::parse(&body(request)?, *now)?;
        // Keys of members and of programs are apart.
        let key = format!("{} {}", caller.by, text("idempotency_key").unwrap_or_default());
        let link = PaymentLinks::draft(caller, &key, request, *now);
        check(app, &link).await?;
        Ok(format!("{PATH}/{}", app.links.create(caller, link, *now).await?.get().id))
    };
    match Box::pin(created).await {
        Err(problem) => member.kept(problem, (w::NEW_LINK, PATH), link_form),
        made => answer(made, PATH),
    }
}

/// The fields of the form are all that it can change, so an empty one is removed. A day that is not changed keeps its time.
/// The log-in must be recent in live mode: another `success_url` would lead the payers of a link that is in use elsewhere.
async fn change_by_form(IdPath(id): IdPath<PaymentLinkId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Member)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let link = app.links.get(&caller.scope, id).await?;
    let page = format!("{PATH}/{}", link.id);
    let changed = async {
        let text = |name| form.text(name);
        let mut request: Vec<(&str, Value)> = vec![
            ("description", json!(text("description"))),
            ("ask", asked(form)),
            ("success_url", json!(text("success_url"))),
        ];
        if link.max_payments.is_some() {
            request.push(("max_payments", max_payments(form)));
        }
        if text("expires_at") != link.expires_at.map(|at| Day::of(at).to_string()).as_deref() {
            request.push(("expires_at", json!(text("expires_at"))));
        }
        // `null` removes a field, so it stays in the body.
        let request: Map<String, Value> =
            request.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let request = parse_object(Value::Object(request).to_string().as_bytes())?;
        let change = PaymentLinkChange::parse(&request, *now)?;
        app.links.change(caller, id, (&change, |link| check_charges(app, link)), *now).await?;
        Ok(page.clone())
    };
    match Box::pin(changed).await {
        Err(problem) => member.kept(problem, (w::CHANGE_LINK, &page), |form| {
            link_change_form(form, &format!("{page}/change"), &link)
        }),
        changed => answer(changed, &page),
    }
}

async fn activate(IdPath(id): IdPath<PaymentLinkId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let change = PaymentLinkChange::of_active(form.text("active") == Some("true"));
    let changed = Box::pin(app.links.change(caller, id, (&change, |_link| Ok(())), *now)).await;
    // Back to the page of the form.
    let link = id.filter(|_| form.text("of") == Some("link"));
    let page = link.map_or_else(|| PATH.to_owned(), |id| format!("{PATH}/{id}"));
    answer(changed.map(|_link| page.clone()), &page)
}
