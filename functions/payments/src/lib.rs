//! Serves `/v1/payments`, which shows charges as payments, and `/v1/payment_links`.

mod forms;
mod links;
mod list;
mod pay;
mod refunds;
mod resend;
mod reveal;
mod stats;

use acquirer_core::configuration::AccountAcquirers;
use acquirer_core::{AcquirerError, Connections, ProviderStatusView};
use artefacts::pdf::{ReceiptDocument, ReceiptReturn, receipt_pdf};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Mode, Scope, Scoped};
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use domain::pt_br;
use domain::refund::{Refund, RefundStatus};
use domain::time::Timestamp;
use domain::url_policy::AddressPolicy;
use effects::rollup::Rollups;
use effects::webhook::resend::Resends;
use money::charge::Charges;
use money::charge::payment::request::NewPayment;
use money::charge::payment::view::{CreatedPaymentView, DocumentView, PaymentView};
use money::extract::ScopedResource;
use money::payment_link::PaymentLinks;
use money::refund::Refunds;
use services::{
    BankPayments, ChargeCancellation, ChargeCreation, IdempotencyNamespace, OfLink, PaymentList,
    RemoteCharges, cancel_charge, create_charge,
};
use shared::account::Accounts;
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, address_policy};
use shared::http::{IdPath, JsonBody, Problem, RequestContext, Result, with_middleware};
use shared::store::{Aws, Store, StoreError};

#[derive(Debug)]
pub struct Uses {
    charges: Charges,
    accounts: Accounts,
    links: PaymentLinks,
    connections: Connections,
    remote: RemoteCharges,
    payment_list: PaymentList,
    refunds: Refunds,
    rollups: Rollups,
    resends: Resends,
    /// Which addresses webhooks may be sent to.
    address_policy: AddressPolicy,
}

pub type App = shared::app::App<Uses>;
type Authenticated = shared::extract::Authenticated<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;
type CallerOwned<T> = money::extract::CallerOwned<Uses, T>;
type Deferred<E> = shared::extract::Deferred<Uses, E>;
type MemberForm = pages::forms::MemberForm<App>;

/// Reads the variables of [`App::from_vars`], `SECRETS_TABLE_NAME`, and those of [`address_policy`].
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, clock| {
        let settings = AccountAcquirers::from_vars(aws, store.clone(), var)?;
        Ok(Uses {
            charges: Charges::new(store.clone()),
            accounts: Accounts::new(store.clone()),
            links: PaymentLinks::new(store.clone()),
            remote: RemoteCharges::new(store.clone(), BankPayments::new(store.clone(), settings.clone())),
            connections: Connections::new(settings, clock.clone()),
            payment_list: PaymentList::new(store.clone()),
            refunds: Refunds::new(store.clone()),
            rollups: Rollups::new(store.clone()),
            resends: Resends::new(store.clone()),
            address_policy: address_policy(var),
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
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
        .merge(forms::routes())
        .merge(links::routes())
        .merge(pay::routes())
        .merge(reveal::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

/// The type exists only so that the text of a 404 says payment instead of charge.
struct Payment(StoredCharge);

impl Scoped for Payment {
    fn scope(&self) -> Scope {
        self.0.scope()
    }
}

impl ScopedResource for Payment {
    type Path = IdPath<ChargeId>;

    const NAME: &'static str = "payment";

    async fn find(store: &Store, path: IdPath<ChargeId>) -> Result<Option<Self>, StoreError> {
        Ok(StoredCharge::find(store, path).await?.map(Self))
    }
}

fn creation<'a>(app: &'a App, link: Option<OfLink<'a>>) -> ChargeCreation<'a> {
    ChargeCreation {
        charges: &app.charges,
        connections: &app.connections,
        public_urls: &app.public_urls,
        clock: &app.clock,
        link,
    }
}

async fn create(
    Authenticated { app, caller, now }: Authenticated,
    context: RequestContext,
    JsonBody(body): JsonBody,
) -> Result<Response> {
    let NewPayment { idempotency_key, charge: request } =
        NewPayment::parse(&body, &app.address_policy, caller.scope.mode)?;
    let key = (IdempotencyNamespace::Payments, idempotency_key.as_str());
    let created = create_charge(creation(&app, None), &caller, key, request, now).await?;
    context.set_charge(created.get().id);
    Ok(created.respond(CreatedPaymentView::new(created.get())))
}

async fn read(
    CallerOwned { app, found: Payment(charge), now, .. }: CallerOwned<Payment>,
) -> Result<Response> {
    Ok(Json(PaymentView::new(&charge.read_at(now), &app.public_urls)).into_response())
}

fn cancellation(app: &App) -> ChargeCancellation<'_> {
    ChargeCancellation { charges: &app.charges, connections: &app.connections, remote: &app.remote }
}

async fn cancel(
    CallerOwned { app, caller, found: Payment(charge), now }: CallerOwned<Payment>,
) -> Result<Response> {
    let cancelled = cancel_charge(cancellation(&app), charge, &caller, now).await?;
    Ok(Json(PaymentView::new(&cancelled, &app.public_urls)).into_response())
}

async fn provider_status(
    CallerOwned { app, found: Payment(charge), now, .. }: CallerOwned<Payment>,
) -> Result<Response> {
    let charge = charge.read_at(now);
    let acquirer = app.connections.acquirer_of_payment(&charge).await?;
    let status = acquirer.connector().status(&charge).await.map_err(AcquirerError::from)?;
    Ok(Json(ProviderStatusView::new(&charge, status)).into_response())
}

async fn receipt(
    CallerOwned { app, caller, found: Payment(charge), now }: CallerOwned<Payment>,
) -> Result<Response> {
    let charge = charge.read_at(now);
    let Some(paid) = charge.applied_payment.as_ref().filter(|_| charge.settlement.is_some()) else {
        let text = "Only a settled payment has a receipt. Request it after the payment is paid.".to_owned();
        return Err(Problem::Unprocessable(text));
    };
    let refunds = app.refunds.for_charge(Some(charge.id)).await?;
    let returns = receipt_returns(&charge, &refunds);
    let format = |amount| pt_br::format_amount(amount, charge.currency);
    let returned = returns.iter().fold(0_i64, |sum, (amount, _)| sum.saturating_add(amount.minor()));
    let returned_total = Amount::parse(returned).ok().map(format);
    let returns: Vec<ReceiptReturn> = returns
        .into_iter()
        .map(|(amount, refund)| ReceiptReturn {
            amount: format(amount),
            at: refund.map(|refund| format_time(refund.updated_at)),
            id: refund.and_then(|refund| refund.end_to_end_id().map(str::to_owned)),
        })
        .collect();
    let pdf = receipt_pdf(&ReceiptDocument {
        merchant: &caller.settings.merchant_name,
        amount: &format(charge.amount),
        method: paid.method.facts().name,
        paid_at: &format_time(paid.paid_at),
        end_to_end_id: (paid.method == PaymentMethod::Pix).then(|| paid.payment_id.as_str()),
        transaction_id: &charge.id.raw(),
        customer: charge.customer.name.as_deref(),
        returns: &returns,
        returned_total: returned_total.as_deref(),
        is_card: paid.method == PaymentMethod::CreditCard,
        is_test: charge.scope.mode == Mode::Test,
    });
    Ok(Json(DocumentView::pdf(&pdf)).into_response())
}

/// Returns what went back to the payer, the latest first: the completed refunds, and what the charge lost in
/// MED disputes, which has no single time and id.
fn receipt_returns<'a>(charge: &Charge, refunds: &'a [Refund]) -> Vec<(Amount, Option<&'a Refund>)> {
    let mut completed: Vec<&Refund> =
        refunds.iter().filter(|refund| refund.status == RefundStatus::Refunded).collect();
    completed.sort_by_key(|refund| std::cmp::Reverse(refund.updated_at));
    let by_med = Amount::parse(charge.funds.med_lost.get()).ok().map(|amount| (amount, None));
    completed.into_iter().map(|refund| (refund.share.gross, Some(refund))).chain(by_med).collect()
}

fn format_time(at: Timestamp) -> String {
    format!("{} (horário de Brasília)", pt_br::format_second(at))
}
