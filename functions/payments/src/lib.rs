//! `/v1/payments`: charges in the transaction wire format (contract: Payments).

mod list;
mod refunds;
mod resend;
mod stats;

use artefacts::pdf::{ReceiptDocument, receipt_pdf};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::ids::Mode;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use shared::acquirer::{AcquirerError, ProviderStatusView};
use shared::app::{App, PAYMENT};
use shared::charge::ChargePath;
use shared::charge::transaction::request::NewPayment;
use shared::charge::transaction::view::{CreatedPaymentView, DocumentView, PaymentView};
use shared::http::{JsonBody, Problem, RequestContext, framed};
use shared::services::{IdempotencyNamespace, create_charge};

/// The function's routes.
pub fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/v1/payments", post(create).get(list::list))
        .route("/v1/payments/stats", get(stats::stats))
        .route("/v1/payments/metrics", get(stats::metrics))
        .route("/v1/payments/{id}", get(read))
        .route("/v1/payments/{id}/cancel", post(cancel))
        .route("/v1/payments/{id}/provider-status", get(provider_status))
        .route("/v1/payments/{id}/receipt", get(receipt))
        .route("/v1/payments/{id}/refund", post(refunds::create))
        .route("/v1/payments/{id}/refunds", get(refunds::list))
        .route("/v1/payments/{id}/resend-webhook", post(resend::resend_webhook))
        .with_state(app);
    framed(routes)
}

async fn create(
    State(app): State<App>,
    context: RequestContext,
    body: Result<JsonBody, Problem>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let caller = app.api_keys.authenticate(&context, now).await?;
    let NewPayment { idempotency_key, asked } = NewPayment::parse(&body?.0, &app.addresses)?;
    let key = (IdempotencyNamespace::Payments, idempotency_key.as_str());
    let created = create_charge((&app.charges, &app.acquirers), &caller, key, asked, &app.links, now).await?;
    Ok(created.respond(CreatedPaymentView::new(created.get())))
}

async fn read(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (_, charge) = app.own_charge(&context, id, PAYMENT, now).await?;
    Ok(Json(PaymentView::new(&charge.as_of(now), &app.links)).into_response())
}

async fn cancel(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (caller, charge) = app.own_charge(&context, id, PAYMENT, now).await?;
    let cancelled = app.charges.cancel(charge, &caller, now).await?;
    Ok(Json(PaymentView::new(&cancelled, &app.links)).into_response())
}

async fn provider_status(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (caller, charge) = app.own_charge(&context, id, PAYMENT, now).await?;
    let charge = charge.as_of(now);
    let status = match app.acquirers.named(charge.acquirer, &caller.scope.account).await {
        Ok(acquirer) => acquirer.status_of(&charge).await?,
        // No acquirer is configured any more.
        Err(AcquirerError::NotConfigured) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Json(ProviderStatusView::new(&charge, status)).into_response())
}

async fn receipt(
    State(app): State<App>,
    context: RequestContext,
    ChargePath(id): ChargePath,
) -> Result<Response, Problem> {
    let (caller, charge) = app.own_charge(&context, id, PAYMENT, app.clock.now()).await?;
    let Some(paid) = charge.receipt.as_ref().filter(|_| charge.settlement.is_some()) else {
        let text = "Only a settled payment has a receipt.".to_owned();
        return Err(Problem::Unprocessable(text));
    };
    let pdf = receipt_pdf(&ReceiptDocument {
        merchant: &caller.settings.merchant_name,
        amount: &pt_br::amount(charge.amount, charge.currency),
        method: paid.method.facts().name,
        paid_at: &format!("{} (horário de São Paulo)", pt_br::second(paid.paid_at)),
        end_to_end_id: (paid.method == PaymentMethod::Pix).then(|| paid.payment_id.as_str()),
        transaction_id: &charge.id.raw(),
        payer: charge.customer.name.as_deref(),
        is_test: charge.scope.mode == Mode::Test,
    });
    Ok(Json(DocumentView::pdf(&pdf)).into_response())
}
