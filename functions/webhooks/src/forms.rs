//! The dashboard's forms about webhook endpoints and deliveries.

use axum::Router;
use axum::extract::{Path, State};
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::post;
use domain::ids::{EndpointId, ResendId};
use domain::webhook::signature::EndpointSecret;
use pages::forms::{MemberForm, Need, answer, body, refusal};
use pages::{errors_as_pages, words as w};
use secrecy::ExposeSecret;
use serde_json::json;
use shared::http::Problem;
use shared::random;
use shared::webhook::endpoint::{EndpointChange, Endpoints, NewEndpoint};
use shared::webhook::secret::SigningSecrets;

use crate::Webhooks;
use crate::endpoints::new_secret;

const PATH: &str = "/dashboard/webhooks";

pub(crate) fn routes() -> Router<Webhooks> {
    Router::new()
        .route(PATH, post(register))
        .route("/dashboard/webhooks/{id}/status", post(change_status))
        .route("/dashboard/webhooks/{id}/test", post(test))
        .route("/dashboard/webhooks/{id}/rotate", post(rotate))
        .route("/dashboard/webhooks/{id}/delete", post(delete))
        .route("/dashboard/deliveries/{id}/resend", post(resend))
        .layer(from_fn(errors_as_pages))
}

fn parsed(id: &str) -> Result<(EndpointId, String), Problem> {
    let id = Endpoints::require_id(id.parse().ok())?;
    Ok((id, format!("{PATH}/{id}")))
}

async fn register(State(secrets): State<SigningSecrets>, member: MemberForm) -> Result<Response, Problem> {
    member.require(Need::Admin)?;
    match Box::pin(registered(&secrets, &member)).await {
        Ok((id, secret)) => Ok(secret_page(&member, &secret, &format!("{PATH}/{id}"))),
        Err(problem) => Ok(Redirect::to(&refusal(problem, PATH)?).into_response()),
    }
}

async fn registered(
    secrets: &SigningSecrets,
    member: &MemberForm,
) -> Result<(EndpointId, EndpointSecret), Problem> {
    let MemberForm { app, caller, form, now, .. } = member;
    let events: Vec<&str> = form.texts("events").collect();
    let request = body(json!({"url": form.text("url"), "events": events}))?;
    let request = NewEndpoint::parse(&request, &app.address_policy)?;
    let (id, secret) = (EndpointId::new(*now, random::bytes()?), new_secret()?);
    secrets.register(caller, request, (id, &secret), *now).await?;
    Ok((id, secret))
}

fn secret_page(member: &MemberForm, secret: &EndpointSecret, back: &str) -> Response {
    member.secret_page(w::NEW_SECRET, secret.as_secret().expose_secret(), back)
}

async fn change_status(Path(id): Path<String>, member: MemberForm) -> Result<Response, Problem> {
    member.require(Need::Admin)?;
    let (id, path) = parsed(&id)?;
    let MemberForm { app, caller, form, now, .. } = &member;
    let change = EndpointChange::parse(&body(json!({"status": form.text("status")}))?, &app.address_policy);
    let changed = match change {
        Ok(change) => Box::pin(app.endpoints.change(caller, id, &change, *now)).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    answer(changed.map(|_endpoint| path.clone()), &path)
}

async fn test(Path(id): Path<String>, member: MemberForm) -> Result<Response, Problem> {
    member.require(Need::Admin)?;
    let (id, path) = parsed(&id)?;
    let MemberForm { app, caller, now, .. } = &member;
    let endpoint = app.endpoints.find(&caller.scope, id).await?;
    let resend = ResendId::new(*now, random::bytes()?);
    let sent = Box::pin(app.resends.test(&endpoint, resend, *now)).await;
    answer(sent.map(|_delivery| path.clone()).map_err(Problem::from), &path)
}

async fn rotate(
    Path(id): Path<String>,
    State(secrets): State<SigningSecrets>,
    member: MemberForm,
) -> Result<Response, Problem> {
    member.require(Need::Admin)?;
    let (id, path) = parsed(&id)?;
    let secret = new_secret()?;
    Box::pin(secrets.rotate(&member.caller, id, &secret, member.now)).await?;
    Ok(secret_page(&member, &secret, &path))
}

async fn delete(
    Path(id): Path<String>,
    State(secrets): State<SigningSecrets>,
    member: MemberForm,
) -> Result<Response, Problem> {
    member.require(Need::Admin)?;
    let (id, path) = parsed(&id)?;
    let deleted = Box::pin(secrets.delete(&member.caller, id, member.now)).await;
    answer(deleted.map(|()| PATH.to_owned()).map_err(Problem::from), &path)
}

async fn resend(Path(id): Path<String>, member: MemberForm) -> Result<Response, Problem> {
    let path = format!("/dashboard/deliveries/{id}");
    let MemberForm { app, caller, now, .. } = &member;
    let resend = ResendId::new(*now, random::bytes()?);
    let sent = Box::pin(app.resends.resend_delivery(&caller.scope, id.parse().ok(), resend, *now)).await;
    answer(
        sent.map(|(delivery, _)| format!("/dashboard/deliveries/{}", delivery.id)).map_err(Problem::from),
        &path,
    )
}
