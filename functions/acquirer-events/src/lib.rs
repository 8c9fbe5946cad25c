//! Receives notifications of acquirers. [`router`] serves those of the sandbox. A caller of `/v1/sandbox/*`
//! with a test key acts as the acquirer (docs/guide/sandbox.md). On the 3-D Secure page, the payer of a test
//! charge approves or declines the payment. A form of the checkout page simulates the payment of a test charge
//! or its decline. The routes apply the same commands to charges as a bank's payment.
//!
//! Notifications of banks have a function of their own, with its own permissions: [`bank`].

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

pub mod bank;
pub mod bodies;
mod forms;
mod med;
pub mod simulation;
#[cfg(test)]
mod tests;
pub mod three_d_secure;

use acquirer_core::AcquirerQueue;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::account::terms::MethodTerms;
use domain::charge::transition::{Command, Payment};
use domain::charge::{Charge, FailureReason, StoredCharge};
use domain::ids::{AcquirerPaymentId, EndToEndId};
use domain::payment_method::PaymentMethod;
use domain::refund::Refund;
use domain::time::Timestamp;
use domain::vocabulary::Vocabulary;
use money::charge::Charges;
use money::charge::view::{ChargeView, QrImage};
use money::med::MedCases;
use money::refund::{RefundView, Refunds};
use shared::account::Accounts;
use shared::auth::dashboard::Dashboard;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{Fields, JsonBody, JsonObject, Problem, Result, with_middleware};
use shared::store::Aws;

/// How far `paid_at` may be ahead of the service's clock, in milliseconds: one minute, because a bank's clock
/// may be ahead.
const MAX_AHEAD_MS: i64 = 60_000;

/// What this function may use.
#[derive(Debug)]
pub struct Uses {
    accounts: Accounts,
    cases: MedCases,
    charges: Charges,
    refunds: Refunds,
    acquirer_queue: AcquirerQueue,
    dashboard: Dashboard,
}

impl AsRef<Dashboard> for Uses {
    fn as_ref(&self) -> &Dashboard {
        &self.dashboard
    }
}

pub type App = shared::app::App<Uses>;
type CallerOwnedTest<T> = money::extract::CallerOwnedTest<Uses, T>;
type MemberForm = pages::forms::MemberForm<App>;

/// Reads the variables of [`App::from_vars`], `ACQUIRER_QUEUE_URL`, and those of the dashboard.
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        Ok(Uses {
            accounts: Accounts::new(store.clone()),
            cases: MedCases::new(store.clone()),
            charges: Charges::new(store.clone()),
            refunds: Refunds::new(store.clone()),
            acquirer_queue: AcquirerQueue::new(aws.sqs(), required(var, "ACQUIRER_QUEUE_URL")?),
            dashboard: Dashboard::from_vars(store.clone(), var)?,
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/v1/sandbox/charges/{id}/pay", post(pay))
        .route("/v1/sandbox/charges/{id}/fail", post(fail))
        .route("/v1/sandbox/charges/{id}/expire", post(expire))
        .route("/v1/sandbox/charges/{id}/review", post(review))
        .route("/v1/sandbox/refunds/{id}/resolve", post(resolve_refund))
        .route("/v1/sandbox/charges/{id}/med-cases", post(med::open))
        .route("/v1/sandbox/med/cases/{id}/request-evidence", post(med::request_evidence))
        .route("/v1/sandbox/med/cases/{id}/resolve", post(med::resolve))
        .route("/checkout/{raw_id}/simulate", post(simulation::simulate))
        .route("/checkout/{raw_id}/card", get(three_d_secure::show).post(three_d_secure::decide))
        .merge(forms::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

async fn pay(
    CallerOwnedTest { app, caller, found: charge, now }: CallerOwnedTest<StoredCharge>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let current = charge.clone().read_at(now);
    let payment = reported_payment(&body, &current, now)?;
    let terms = caller.settings.terms.for_method(payment.method);
    apply(&app, charge, &Command::Pay { payment, terms }, now).await
}

/// Reads the payment that a bank would report.
fn reported_payment(body: &JsonObject, charge: &Charge, now: Timestamp) -> Result<Payment> {
    let mut fields = Fields::new();
    let root = fields.body(body, bodies::PAY_BODY);
    let method = match fields.read(&root, &bodies::METHOD) {
        None => charge.methods.first().copied(),
        Some(name) => {
            let method = PaymentMethod::named(&name.to_ascii_uppercase());
            let method = method.filter(|method| charge.methods.contains(method));
            if method.is_none() {
                fields.reject(bodies::METHOD.name, "must be one of the charge's payment methods");
            }
            method
        }
    };
    fields.read(&root, &bodies::PAYER_NAME);
    let payer_document = match fields.read(&root, &bodies::PAYER_TAX_ID) {
        // The field is `null`: the bank does not report the payer's document.
        None if root.has(&bodies::PAYER_TAX_ID) => None,
        None => charge.payer_tax_id(),
        reported => reported,
    };
    // A repeated id reports the same payment again.
    let id: Option<AcquirerPaymentId> = fields.read(&root, &bodies::END_TO_END_ID);
    // The time at which the bank received the money.
    let paid_at: Option<Timestamp> = fields.read(&root, &bodies::PAID_AT);
    if paid_at.is_some_and(|paid_at| paid_at < charge.created_at) {
        fields.reject(bodies::PAID_AT.name, "must not be earlier than the charge's creation");
    }
    if paid_at.is_some_and(|paid_at| paid_at.millis_since(now) > MAX_AHEAD_MS) {
        fields.reject(bodies::PAID_AT.name, "must be at most one minute in the future");
    }
    let amount = fields.read(&root, &bodies::AMOUNT).unwrap_or(charge.amount);
    let method = fields.finish(method)?;
    let id = match (id, method) {
        (Some(id), _) => id,
        (None, PaymentMethod::Pix) => EndToEndId::sandbox(now, shared::random::bytes()?).into(),
        (None, _) => AcquirerPaymentId::sandbox(now, shared::random::bytes()?),
    };
    let (paid_at, is_in_time, charged) = (paid_at.unwrap_or(now), false, None);
    Ok(Payment { id, method, amount, payer_document, paid_at, is_in_time, charged })
}

/// Declines a charge, or one try to pay it. `metadata.failure` shows `code` as `providerErrorCode`.
async fn fail(
    CallerOwnedTest { app, found: charge, now, .. }: CallerOwnedTest<StoredCharge>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let mut fields = Fields::new();
    let root = fields.body(&body, bodies::FAIL_BODY);
    let decline = fields.read(&root, &bodies::REASON).zip(fields.read(&root, &bodies::CODE));
    let may_retry = fields.read(&root, &bodies::RETRY);
    let ((text, code), may_retry) = fields.finish(decline.zip(may_retry))?;
    let has_text = root.has(&bodies::REASON);
    let reason = if has_text {
        FailureReason::InWords { text, code }
    } else {
        FailureReason::SandboxDeclined { code }
    };
    let command =
        if may_retry { Command::EndTry { decline: Some(reason) } } else { Command::Decline(reason) };
    apply(&app, charge, &command, now).await
}

/// Returns the terms of the charge's account for a method. For public pages, which have no caller with settings.
async fn terms_of(app: &App, charge: &Charge, method: PaymentMethod) -> Result<MethodTerms> {
    let account = app.accounts.find(&charge.scope.account).await?;
    let missing = || Problem::Internal("the account of a charge does not exist".to_owned());
    Ok(account.ok_or_else(missing)?.settings.terms.for_method(method))
}

async fn expire(
    CallerOwnedTest { app, found: charge, now, .. }: CallerOwnedTest<StoredCharge>,
) -> Result<Response> {
    let at = charge.as_stored().expires_at().min(now);
    apply(&app, charge, &Command::Expire { at }, now).await
}

/// Ends a manual review. A request that repeats the review's decision is answered 200. Otherwise, when no
/// money is held for review, the answer is 422.
async fn review(
    CallerOwnedTest { app, caller, found: charge, now }: CallerOwnedTest<StoredCharge>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let mut fields = Fields::new();
    let root = fields.body(&body, bodies::REVIEW_BODY);
    let decision = fields.read(&root, &bodies::REVIEW_DECISION);
    let terms = caller.settings.terms.for_method(charge.clone().read_at(now).method());
    apply(&app, charge, &Command::Review { decision: fields.finish(decision)?, terms }, now).await
}

async fn resolve_refund(
    CallerOwnedTest { app, found: refund, now, .. }: CallerOwnedTest<Refund>,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let mut fields = Fields::new();
    let root = fields.body(&body, bodies::RESOLVE_REFUND_BODY);
    let end = fields.read(&root, &bodies::REFUND_STATUS);
    let refund = Box::pin(app.refunds.end(refund, fields.finish(end)?, now)).await?;
    Ok(Json(RefundView::new(&refund)).into_response())
}

/// Applies a command to a charge and answers with the charge. A notification that changes nothing is answered
/// 200 with the unchanged charge.
async fn apply(app: &App, charge: StoredCharge, command: &Command, now: Timestamp) -> Result<Response> {
    let charge = app.charges.apply(charge, command, now).await?;
    Ok(Json(ChargeView::new(&charge, &app.public_urls, QrImage::Inline)).into_response())
}
