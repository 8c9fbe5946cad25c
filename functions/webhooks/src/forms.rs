//! The dashboard's forms about webhook endpoints and deliveries.

use crate::{App, MemberForm};
use axum::Router;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::ids::{DeliveryId, EndpointId, ResendId};
use domain::webhook::event_type::EventType;
use domain::webhook::signature::EndpointSecret;
use effects::webhook::endpoint::{EndpointChange, Endpoints, NewEndpoint};
use effects::webhook::recovery::{NewRecovery, Recoverable};
use pages::forms::{ContainmentForm, Need, OpenForm, answer, body};
use pages::kept::endpoint_form;
use pages::{errors_as_pages, words as w};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use shared::http::{IdPath, Problem, Result};
use shared::random;

use crate::endpoints::new_secret;

const PATH: &str = "/dashboard/webhooks";
const DELIVERIES: &str = "/dashboard/deliveries";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route(PATH, post(register))
        .route("/dashboard/webhooks/{id}/change", post(change))
        .route("/dashboard/webhooks/{id}/status", post(change_status))
        .route("/dashboard/webhooks/{id}/test", post(test))
        .route("/dashboard/webhooks/{id}/recover", post(recover))
        .route("/dashboard/webhooks/{id}/rotate", post(rotate))
        .route("/dashboard/webhooks/{id}/delete", post(delete))
        .route("/dashboard/deliveries/{id}/resend", post(resend))
        .layer(from_fn(errors_as_pages))
}

fn known(id: Option<EndpointId>) -> Result<(EndpointId, String)> {
    let id = Endpoints::require_id(id)?;
    Ok((id, format!("{PATH}/{id}")))
}

async fn register(member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    match Box::pin(registered(&member)).await {
        Ok((id, secret)) => Ok(secret_page(&member, &secret, &format!("{PATH}/{id}"))),
        Err(problem) => member.kept(problem, (w::REGISTER_ENDPOINT, PATH), |form| {
            endpoint_form(form, (PATH, w::REGISTER), None)
        }),
    }
}

async fn registered(member: &MemberForm) -> Result<(EndpointId, EndpointSecret)> {
    let MemberForm { app, caller, form, now, .. } = member;
    let events: Vec<&str> = form.texts("events").collect();
    let request = body(json!({"url": form.text("url"), "events": events}))?;
    let request = NewEndpoint::parse(&request, &app.address_policy)?;
    let (id, secret) = (EndpointId::new(*now, random::bytes()?), new_secret()?);
    let register = Box::pin(app.secrets.register(caller, request, (id, &secret), *now));
    member.once("endpoint", register).await??;
    Ok((id, secret))
}

fn secret_page(member: &MemberForm, secret: &EndpointSecret, back: &str) -> Response {
    member.secret_page(w::NEW_SECRET, secret.as_secret().expose_secret(), back)
}

/// A URL that stays as the page showed it is not changed, so that the endpoint keeps the time since which it fails.
async fn change(IdPath(id): IdPath<EndpointId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    let (id, path) = known(id)?;
    let text = |name| member.form.text(name);
    let events: Vec<&str> = member.form.texts("events").collect();
    let url = text("url").filter(|_| text("url") != text("before"));
    match Box::pin(changed(&member, id, json!({"url": url, "events": events}))).await {
        Ok(()) => answer(Ok(path.clone()), &path),
        Err(problem) => member.kept(problem, (w::CHANGE_ENDPOINT, &path), |form| {
            endpoint_form(form, (&format!("{path}/change"), w::SAVE), None)
        }),
    }
}

async fn changed(member: &MemberForm, id: EndpointId, fields: Value) -> Result<()> {
    let MemberForm { app, caller, now, .. } = member;
    let change = EndpointChange::parse(&body(fields)?, &app.address_policy)?;
    app.endpoints.change(caller, id, &change, *now).await?;
    Ok(())
}

async fn change_status(IdPath(id): IdPath<EndpointId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    let (id, path) = known(id)?;
    let changed = Box::pin(changed(&member, id, json!({"status": member.form.text("status")}))).await;
    answer(changed.map(|()| path.clone()), &path)
}

async fn test(IdPath(id): IdPath<EndpointId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    let (id, path) = known(id)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let tested = async {
        let endpoint = app.endpoints.find(&caller.scope, id).await?;
        let resend = ResendId::new(*now, random::bytes()?);
        let chosen = form.text("type").and_then(EventType::named).unwrap_or(EventType::WebhookTest);
        let test = Box::pin(app.resends.test(&endpoint, (resend, chosen), *now));
        member.once(&format!("test#{id}"), test).await??;
        Ok(path.clone())
    };
    answer(Box::pin(tested).await, &path)
}

/// Sends again everything that failed in the last 90 days.
async fn recover(IdPath(id): IdPath<EndpointId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let (id, path) = known(id)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let recovered = async {
        let endpoint = app.endpoints.find(&caller.scope, id).await?;
        let key = format!("dashboard#{}", form.text("idempotency_key").unwrap_or_default());
        let statuses = vec![Recoverable::Failed, Recoverable::Cancelled, Recoverable::Pending];
        let request = NewRecovery { statuses, ..NewRecovery::of_failed(*now) };
        let recover = Box::pin(app.recoveries.request_by(caller, &endpoint, (&key, request), *now));
        member.once(&format!("recover#{id}"), recover).await??;
        Ok(path.clone())
    };
    answer(Box::pin(recovered).await, &path)
}

async fn rotate(IdPath(id): IdPath<EndpointId>, OpenForm(member): ContainmentForm<App>) -> Result<Response> {
    member.require(Need::Admin)?;
    let (id, path) = known(id)?;
    let secret = new_secret()?;
    let rotate = Box::pin(member.app.secrets.rotate(&member.caller, id, &secret, member.now));
    match member.once(&format!("rotate#{id}"), rotate).await {
        Ok(rotated) => rotated.map(|()| secret_page(&member, &secret, &path)).map_err(Problem::from),
        Err(problem) => answer(Err(problem), &path),
    }
}

async fn delete(IdPath(id): IdPath<EndpointId>, OpenForm(member): ContainmentForm<App>) -> Result<Response> {
    member.require(Need::Admin)?;
    let (id, path) = known(id)?;
    let delete = Box::pin(member.app.secrets.delete(&member.caller, id, member.now));
    let deleted = member.once_alike(&format!("delete#{id}"), delete).await?;
    answer(deleted.map(|()| PATH.to_owned()).map_err(Problem::from), &path)
}

/// Leads to the page of the new delivery.
async fn resend(IdPath(id): IdPath<DeliveryId>, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    let MemberForm { app, caller, now, .. } = &member;
    let id = id.ok_or(Problem::NotFound { what: "webhook delivery" })?;
    let resent = async {
        let resend = ResendId::new(*now, random::bytes()?);
        let sent = Box::pin(app.resends.resend_delivery(&caller.scope, Some(id), resend, *now));
        let (delivery, _body) = member.once(&format!("resend#{id}"), sent).await??;
        Ok(format!("{DELIVERIES}/{}", delivery.id))
    };
    answer(Box::pin(resent).await, &format!("{DELIVERIES}/{id}"))
}
