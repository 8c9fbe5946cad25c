//! The dashboard's form that creates a charge.

use crate::{App, MemberForm, creation};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use domain::money::Currency;
use domain::tax_id::TaxId;
use money::charge::request::{ChargeRoute, NewCharge};
use pages::forms::{Need, body, is_correctable, minor_units};
use pages::kept::charge_form;
use pages::{errors_as_pages, words as w};
use serde_json::json;
use services::{IdempotencyNamespace, create_charge};
use shared::http::{Fields, Problem, RequestContext, Result};

const NEW: &str = "/dashboard/charges/new";

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/dashboard/charges", post(create)).layer(from_fn(errors_as_pages))
}

async fn create(context: RequestContext, member: MemberForm) -> Result<Response> {
    member.require_role(Need::Member)?;
    match Box::pin(created(&context, &member)).await {
        Ok(id) => {
            let location = format!("/dashboard/charges/{id}");
            Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response())
        }
        // After a failure the charge may exist, and another try with the same key finds it.
        Err(problem) if is_correctable(&problem) || problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            problem.log();
            let refused = (problem.code(), &*problem.params());
            member.refused(problem.status(), refused, (w::NEW_CHARGE, NEW), charge_form)
        }
        Err(problem) => Err(problem),
    }
}

async fn created(context: &RequestContext, member: &MemberForm) -> Result<String> {
    let MemberForm { app, caller, form, now, .. } = member;
    let text = |name| form.text(name);
    let amount = minor_units(text("amount").unwrap_or_default(), Currency::BRL)?;
    let document =
        text("document").map(|typed| TaxId::from_typed(typed).map_or(json!(typed), |bare| json!(bare)));
    let customer = json!({"name": text("name"), "document": document, "email": text("email")});
    let request = body(json!({
        "amount": amount,
        "description": text("description"),
        "expires_in": text("expires_in").map(in_seconds),
        "customer": without_nulls(customer),
        "metadata": text("order_id").map(|order| json!({"order_id": order})),
    }))?;
    let key = text("idempotency_key").ok_or_else(|| Problem::field("idempotency_key", "is required"))?;
    let mut fields = Fields::new();
    let request = NewCharge::from_body(&mut fields, &request, ChargeRoute::PixCharges);
    let request = fields.finish(request)?;
    let namespace = (IdempotencyNamespace::Charges, key);
    let charge = create_charge(creation(app), caller, namespace, request, *now).await?;
    context.set_charge(charge.get().id);
    Ok(charge.get().id.to_string())
}

/// What is not a number is left to the rule of the field.
fn in_seconds(minutes: &str) -> serde_json::Value {
    minutes.parse::<i64>().map_or_else(|_| minutes.into(), |minutes| minutes.saturating_mul(60).into())
}

fn without_nulls(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
