//! The public page of a payment link. Opening it makes no charge: the form goes to the function `payments`.

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use domain::hex;
use domain::ids::{ChargeId, PaymentLinkId};
use domain::payment_link::PaymentLink;
use domain::time::Timestamp;
use pages::pay::PayPage;
use shared::http::{IdPath, RequestContext, Result, cookie};
use shared::random;
use shared::store::StoreError;

use crate::page::{not_found, unavailable};
use crate::{Checkout, language, response_of};

pub(crate) fn routes() -> Router<Checkout> {
    Router::new().route("/pay/{id}", get(show))
}

async fn show(
    State(checkout): State<Checkout>,
    request: RequestContext,
    headers: HeaderMap,
    IdPath(id): IdPath<PaymentLinkId>,
) -> Response {
    let now = checkout.clock.now();
    let language = language(&request, &headers);
    match found(&checkout, (&request, &headers), id, now).await {
        Ok(Some(response)) => response,
        Ok(None) => response_of(StatusCode::NOT_FOUND, not_found(now, language), &headers),
        Err(error) => {
            tracing::error!(%error, "the page of a payment link can't be read");
            response_of(StatusCode::SERVICE_UNAVAILABLE, unavailable(now, language), &headers)
        }
    }
}

async fn found(
    checkout: &Checkout,
    (request, headers): (&RequestContext, &HeaderMap),
    id: Option<PaymentLinkId>,
    now: Timestamp,
) -> Result<Option<Response>, StoreError> {
    let Some(link) = checkout.links.find(id).await? else { return Ok(None) };
    let Some(account) = checkout.accounts.find(&link.scope.account).await? else { return Ok(None) };
    if let Some(charge) = open_charge(checkout, headers, &link, now).await? {
        return Ok(Some(Redirect::to(&format!("../checkout/{}", charge.raw())).into_response()));
    }
    let standing = checkout.links.standing(&link, now).await?;
    let random: [u8; 16] = random::bytes().map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let (key, language) = (hex::encode(random), language(request, headers));
    let page = PayPage { link: &link, account: &account, standing, key: &key, refused: None, language };
    let status = if page.is_open() { StatusCode::OK } else { StatusCode::GONE };
    let mut response = pages::html(status, page.render());
    // Each form has a key of its own.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(Some(response))
}

/// The charge that this browser made at the link, while it can be paid.
async fn open_charge(
    checkout: &Checkout,
    headers: &HeaderMap,
    link: &PaymentLink,
    now: Timestamp,
) -> Result<Option<ChargeId>, StoreError> {
    let kept = cookie(headers, &link.id.to_string()).and_then(|raw| ChargeId::parse_any(raw).ok());
    let Some(id) = kept else { return Ok(None) };
    let found = checkout.charges.find(Some(id)).await?;
    let charge = found.map(|charge| charge.read_at(now)).filter(|charge| charge.link == Some(link.id));
    let is_open =
        charge.is_some_and(|charge| charge.is_open() && (!charge.can_expire() || now <= charge.expires_at()));
    Ok(is_open.then_some(id))
}
