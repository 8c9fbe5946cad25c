//! The dashboard's form that creates a charge.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use pages::forms::{MemberForm, body, invalid_amount, minor_units, refusal};
use pages::{errors_as_pages, path_with};
use serde_json::json;
use shared::app::App;
use shared::charge::request::{ChargeRoute, NewCharge};
use shared::http::{Fields, Problem, RequestContext};
use shared::services::{IdempotencyNamespace, create_charge};

const NEW: &str = "/dashboard/charges/new";

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/dashboard/charges", post(create)).layer(from_fn(errors_as_pages))
}

async fn create(context: RequestContext, member: MemberForm) -> Result<Response, Problem> {
    let location = match Box::pin(created(&context, &member)).await {
        Ok(id) => format!("/dashboard/charges/{id}"),
        // The charge may exist, so another try must have the same key.
        Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            problem.log();
            let key = member.form.text("idempotency_key").unwrap_or_default();
            path_with(NEW, &[("error", problem.code()), ("key", key)])
        }
        Err(problem) => refusal(problem, NEW)?,
    };
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response())
}

async fn created(context: &RequestContext, member: &MemberForm) -> Result<String, Problem> {
    let MemberForm { app, caller, form, now, .. } = member;
    let text = |name| form.text(name);
    let amount = text("amount").and_then(minor_units).ok_or_else(invalid_amount)?;
    let customer = json!({"name": text("name"), "document": text("document"), "email": text("email")});
    let request = body(json!({
        "amount": amount,
        "description": text("description"),
        "customer": without_nulls(customer),
        "metadata": text("order_id").map(|order| json!({"order_id": order})),
    }))?;
    let key = text("idempotency_key").ok_or_else(|| Problem::field("idempotency_key", "is required"))?;
    let mut fields = Fields::new();
    let request = NewCharge::from_body(&mut fields, &request, ChargeRoute::PixCharges);
    let request = fields.finish(request)?;
    let namespace = (IdempotencyNamespace::Charges, key);
    let charge = create_charge(app.charge_creation(), caller, namespace, request, *now).await?;
    context.set_charge(charge.get().id);
    Ok(charge.get().id.to_string())
}

fn without_nulls(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
