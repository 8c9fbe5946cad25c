//! The dashboard's forms that refund or cancel a charge.

use crate::{App, MemberForm, cancellation};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::Response;
use axum::routing::post;
use domain::charge::{Charge, StoredCharge, TransactionStatus};
use domain::ids::ChargeId;
use domain::money::MinorUnits;
use domain::refund::RefundStatus;
use money::refund::{NewRefund, safe_strategy};
use pages::forms::{Need, answer, body, invalid_amount, minor_units};
use pages::kept::{refund_form, refund_question};
use pages::{CONFIRMED, SentForm, errors_as_pages, words as w};
use serde_json::json;
use services::cancel_charge;
use shared::http::{IdPath, Problem, Result};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/dashboard/charges/{id}/refund", post(refund))
        .route("/dashboard/charges/{id}/cancel", post(cancel))
        .layer(from_fn(errors_as_pages))
}

async fn refund(IdPath(id): IdPath<ChargeId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    let charge = member.charge(id).await?;
    let path = format!("/dashboard/charges/{}", charge.as_stored().id);
    let stored = charge.as_stored().clone();
    let (rest, action) = (stored.funds.refundable(stored.amount)?, format!("{path}/refund"));
    let done = match amount(&member, &stored, rest) {
        Ok(amount) if member.form.text(CONFIRMED).is_none() => return ask(&member, &stored, amount, &path),
        Ok(amount) => Box::pin(refunded(&member, charge, amount)).await,
        Err(problem) => Err(problem),
    };
    match done {
        // The form was sent before. It gets a new key.
        Ok(RefundStatus::Failed) => {
            let (status, refused) = (StatusCode::CONFLICT, ("refund_failed", &[][..]));
            member.refused(status, refused, (w::REFUND, &path), |form| {
                refund_form(form, &action, &stored, rest)
            })
        }
        Err(problem) if is_about_input(&problem) => {
            member.kept(problem, (w::REFUND, &path), |form| refund_form(form, &action, &stored, rest))
        }
        done => answer(done.map(|_status| path.clone()), &path),
    }
}

/// An empty field refunds nothing: the form has the rest from the beginning.
fn amount(member: &MemberForm, charge: &Charge, rest: MinorUnits) -> Result<i64> {
    let text = member.form.text("amount").ok_or_else(invalid_amount)?;
    let amount = minor_units(text, charge.currency)?;
    let is_first = member.form.text(CONFIRMED).is_none();
    // A form that is sent twice finds its refund.
    if is_first && amount > rest.get() && charge.settlement.is_some() {
        return Err(Problem::RefundExceedsRemaining { remaining: rest.get() });
    }
    Ok(amount)
}

/// Shows the amount as it was understood, and the payer: `1.500` is R$ 1.500,00, and `1.5` is R$ 1,50.
fn ask(member: &MemberForm, charge: &Charge, amount: i64, path: &str) -> Result<Response> {
    let action = format!("{path}/refund");
    let sent = SentForm::typed(&action, &member.typed).ok_or_else(invalid_amount)?;
    member.asking((w::REFUND, path), &sent, |form| refund_question(form, charge, amount))
}

/// Whether another amount or reason may be accepted. Otherwise the charge's page says why it can't be refunded.
fn is_about_input(problem: &Problem) -> bool {
    let is_amount =
        matches!(problem, Problem::RefundExceedsRemaining { .. } | Problem::InsufficientBalance { .. });
    is_amount || !problem.params().is_empty()
}

async fn refunded(member: &MemberForm, charge: StoredCharge, amount: i64) -> Result<RefundStatus> {
    let MemberForm { app, caller, form, .. } = member;
    let request = NewRefund::parse(&body(json!({
        "amount": amount,
        "reason": form.text("reason"),
        "strategy": safe_strategy(charge.as_stored()),
        "idempotencyKey": form.text("idempotency_key"),
    }))?)?;
    let stored = app.refunds.find(Some(request.id(charge.as_stored().id))).await?;
    let capabilities =
        app.connections.acquirer_of_payment(charge.as_stored()).await?.connector().refund_capabilities();
    let created = app.refunds.create(caller, (charge, stored), &request, capabilities, &app.clock);
    Ok(Box::pin(created).await?.get().status)
}

async fn cancel(IdPath(id): IdPath<ChargeId>, member: MemberForm) -> Result<Response> {
    member.require(Need::Admin)?;
    let charge = member.charge(id).await?;
    let path = format!("/dashboard/charges/{}", charge.as_stored().id);
    let MemberForm { app, caller, now, .. } = &member;
    let cancelled = Box::pin(cancel_charge(cancellation(app), charge, caller, *now)).await;
    let cancelled = match cancelled {
        // A form that is sent twice is answered alike.
        Err(Problem::PaymentNotCancellable { status }) if status == TransactionStatus::Cancelled.as_str() => {
            Ok(())
        }
        cancelled => cancelled.map(drop),
    };
    answer(cancelled.map(|()| path.clone()), &path)
}
