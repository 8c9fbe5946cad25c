//! Serves `/checkout`: the hosted checkout page, its QR image, the boleto's PDF, the receipt and the logos of shops;
//! and `/pay`, the pages of payment links.
//! The routes are public: anyone who knows a charge's URL can see its page. [`page`] renders the page.
//!
//! [`docs`] serves the documentation for merchants and the description of the API, which are public too.
//!
//! The function only reads charges and accounts, and never API keys. It is also the API's `$default` route, so it
//! returns 404 for every path that no other function serves.

mod brand;
pub mod docs;
pub mod page;
mod pay;
mod words;

use artefacts::pdf::{BoletoDocument, boleto_pdf};
use artefacts::qr;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::get;
use domain::account::{Account, Brand};
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, RawChargeId};
use domain::money::{Amount, Currency};
use domain::pt_br;
use domain::time::Timestamp;
use money::charge::Charges;
use money::payment_link::PaymentLinks;
use page::{Back, RenderedPage};
use pages::Language;
use shared::account::{Accounts, Logos};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, required};
use shared::http::{IdPath, Origin, Problem, RequestContext, Result, is_known, with_middleware};
use shared::store::{Aws, Store, StoreError};

/// The QR image may be cached, because a charge's code never changes. The lifetime of an hour lets caches
/// drop images that are no longer needed.
const QR_CACHE_CONTROL: &str = "public, max-age=3600, immutable";

#[derive(Clone, Debug)]
pub struct Checkout {
    pub accounts: Accounts,
    pub charges: Charges,
    pub links: PaymentLinks,
    pub logos: Logos,
    pub clock: Clock,
    /// The public origin of the API, with the secrets of the CDN in front of it.
    pub origin: Origin,
}

impl Checkout {
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            accounts: Accounts::new(store.clone()),
            charges: Charges::new(store.clone()),
            links: PaymentLinks::new(store),
            logos: Logos::from_vars(aws, var)?,
            clock,
            origin: Origin::from_vars(var)?,
        })
    }

    async fn find(&self, id: Option<RawChargeId>) -> Result<Option<StoredCharge>, StoreError> {
        self.charges.find(id.map(ChargeId::from)).await
    }

    /// `None`: there is no answer. Then the page has no brand, and the charge can still be paid.
    async fn account(&self, charge: &StoredCharge) -> Option<Account> {
        self.accounts.find(&charge.as_stored().scope.account).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the account of a checkout page can't be read");
            None
        })
    }
}

pub fn router(checkout: Checkout) -> Router {
    let origin = checkout.origin.clone();
    let routes = Router::new()
        .route("/checkout/{raw_id}", get(show))
        .route("/checkout/{raw_id}/qr.png", get(show_qr))
        .route("/checkout/{raw_id}/crypto.png", get(show_crypto_qr))
        .route("/checkout/{raw_id}/boleto.pdf", get(show_boleto))
        .route("/docs", get(docs::first_page))
        .route("/docs/{page}", get(docs::page))
        .route("/docs.md", get(docs::markdown))
        .route("/llms.txt", get(docs::index))
        .route("/v1/openapi.json", get(docs::description))
        .merge(brand::routes())
        .merge(pay::routes())
        .with_state(checkout);
    with_middleware(routes, origin)
}

async fn show(
    State(checkout): State<Checkout>,
    request: RequestContext,
    headers: HeaderMap,
    IdPath(id): IdPath<RawChargeId>,
) -> Response {
    let (found, account) = read(&checkout, id).await;
    let brand = account.map(|account| account.brand).unwrap_or_default();
    let back = match &found {
        Ok(Some(charge)) => back(&checkout, &request, charge.as_stored()).await,
        Ok(None) | Err(_) => None,
    };
    let page = page_of(found, (&brand, back), checkout.clock.now(), language(&request, &headers), &headers);
    // The payer comes back from the acquirer's page, and from the simulation, by URLs without `lang`.
    let choice = chosen(&request).map(|language| [(header::SET_COOKIE, language.payer_cookie())]);
    (choice.map(AppendHeaders), page).into_response()
}

/// Returns the return of the payer from the acquirer's page, which the route of that page put into the URL.
async fn back(checkout: &Checkout, request: &RequestContext, charge: &Charge) -> Option<Back> {
    let at = Timestamp::from_millis(request.query.text("back")?.parse().ok()?).ok()?;
    if !charge.acquirer.is_remote() || !charge.can_expire() {
        return None;
    }
    let seen = checkout.charges.last_look(charge.id).await;
    let seen = seen.inspect_err(|error| tracing::error!(%error, "what an acquirer said last can't be read"));
    let cancelled = request.query.text("cancelled").is_some();
    Some(Back { at, seen: seen.unwrap_or_default(), cancelled })
}

type Found = Result<Option<StoredCharge>, StoreError>;

async fn read(checkout: &Checkout, id: Option<RawChargeId>) -> (Found, Option<Account>) {
    let found = checkout.find(id).await;
    if let Err(error) = &found {
        tracing::error!(%error, "the charge of a checkout page can't be read");
    }
    let account = match &found {
        Ok(Some(charge)) => checkout.account(charge).await,
        Ok(None) | Err(_) => None,
    };
    (found, account)
}

fn language(request: &RequestContext, headers: &HeaderMap) -> Language {
    chosen(request).unwrap_or_else(|| Language::of_payer(headers))
}

fn chosen(request: &RequestContext) -> Option<Language> {
    request.query.text("lang").and_then(Language::parse)
}

async fn show_qr(State(checkout): State<Checkout>, IdPath(id): IdPath<RawChargeId>) -> Result<Response> {
    qr_of(checkout.find(id).await)
}

async fn show_crypto_qr(
    State(checkout): State<Checkout>,
    IdPath(id): IdPath<RawChargeId>,
) -> Result<Response> {
    let charge = checkout.find(id).await?.ok_or(Problem::NotFound { what: "charge" })?;
    let charge = charge.as_stored();
    let crypto = charge.artefacts.crypto.as_ref().ok_or(Problem::NotFound { what: "QR code" })?;
    png_of(charge, &crypto.payment_uri())
}

async fn show_boleto(State(checkout): State<Checkout>, IdPath(id): IdPath<RawChargeId>) -> Result<Response> {
    boleto_of(checkout.find(id).await, checkout.clock.now())
}

/// Responds with the boleto's PDF, or leads to the acquirer's, while the boleto can be paid, and with 404 afterwards,
/// because a bank would refuse it.
fn boleto_of(found: Result<Option<StoredCharge>, StoreError>, now: Timestamp) -> Result<Response> {
    let charge = found?.ok_or(Problem::NotFound { what: "charge" })?.read_at(now);
    let open = charge.artefacts.boleto.as_ref().filter(|boleto| charge.is_open() && now <= boleto.expires_at);
    let boleto = open.ok_or(Problem::NotFound { what: "open boleto" })?;
    if let Some(url) = &boleto.pdf_url {
        return Ok(Redirect::to(url).into_response());
    }
    let slip = boleto
        .slip()
        .ok_or_else(|| Problem::Internal(format!("the barcode of {} can't be read", charge.id)))?;
    // The PDF shows the barcode's amount, because that is the amount that a bank charges the payer.
    let amount = Amount::parse(slip.amount_centavos())
        .map_err(|error| Problem::Internal(format!("the amount of the boleto of {}: {error}", charge.id)))?;
    let pdf = boleto_pdf(&BoletoDocument {
        boleto: &slip,
        amount: &pt_br::format_amount(amount, Currency::BRL),
        beneficiary: &boleto.beneficiary,
        payer: charge.customer.name.as_deref(),
        document_number: &charge.id.raw(),
        instructions: &["Não receber após o vencimento."],
    });
    let headers: [(HeaderName, &str); 2] = [
        (header::CONTENT_TYPE, "application/pdf"),
        (header::CONTENT_DISPOSITION, "inline; filename=\"boleto.pdf\""),
    ];
    Ok((headers, pdf).into_response())
}

/// Responds with a page in every case, also for errors, because a payer cannot read JSON; with 304 if the reader has
/// the page.
fn page_of(
    found: Found,
    (brand, back): (&Brand, Option<Back>),
    now: Timestamp,
    language: Language,
    request: &HeaderMap,
) -> Response {
    let (status, page) = match found {
        Ok(Some(charge)) => (StatusCode::OK, page::render(&charge.read_at(now), brand, back, now, language)),
        Ok(None) => (StatusCode::NOT_FOUND, page::not_found(now, language)),
        Err(_logged) => (StatusCode::SERVICE_UNAVAILABLE, page::unavailable(now, language)),
    };
    response_of(status, page, request)
}

fn response_of(status: StatusCode, page: RenderedPage, request: &HeaderMap) -> Response {
    let etag = [(header::ETAG, page.etag.as_str())];
    if is_known(request, &page.etag) {
        return (StatusCode::NOT_MODIFIED, etag).into_response();
    }
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, &page.policy),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "accept-language, cookie"),
    ];
    (status, etag, headers, page.html).into_response()
}

/// Responds with the QR image whatever the charge's status, because the charge object contains the image's
/// URL in every status.
fn qr_of(found: Result<Option<StoredCharge>, StoreError>) -> Result<Response> {
    let charge = found?.ok_or(Problem::NotFound { what: "charge" })?;
    let charge = charge.as_stored();
    let pix = charge.artefacts.pix.as_ref().ok_or(Problem::NotFound { what: "QR code" })?;
    png_of(charge, &pix.br_code)
}

fn png_of(charge: &Charge, code: &str) -> Result<Response> {
    let png = qr::png(code).map_err(|error| {
        Problem::Internal(format!("the QR image of {} can't be made: {error}", charge.id))
    })?;
    let headers: [(HeaderName, &str); 2] =
        [(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, QR_CACHE_CONTROL)];
    Ok((headers, png).into_response())
}

#[cfg(test)]
mod tests;
