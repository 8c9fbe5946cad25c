//! What payers see of the shop besides the checkout page: its logo, and the receipt.

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use domain::account::Brand;
use domain::ids::RawChargeId;
use pages::words::RECEIPT;
use pages::{Document, ReceiptDetails};
use shared::http::{IdPath, Problem, RequestContext, Result};
use shared::store::StoreError;

use crate::{Checkout, language, page_of, read};

pub(crate) fn routes() -> Router<Checkout> {
    Router::new()
        .route("/checkout/logos/{name}", get(show_logo))
        .route("/checkout/{raw_id}/receipt", get(show_receipt))
}

/// The receipt for the payer. Anyone who has its URL sees it, so it lacks the payer.
async fn show_receipt(
    State(checkout): State<Checkout>,
    request: RequestContext,
    headers: HeaderMap,
    IdPath(id): IdPath<RawChargeId>,
) -> Response {
    let language = language(&request, &headers);
    let (found, account) = read(&checkout, id).await;
    let found = match (found, account) {
        (Ok(Some(charge)), Some(account)) => {
            let charge = charge.as_stored();
            if let Some(main) = pages::receipt(charge, &account, ReceiptDetails::default(), language) {
                let document = Document { language, title: language.say(RECEIPT), shell: None, main };
                return pages::html(StatusCode::OK, document.render());
            }
            Ok(None)
        }
        (Ok(Some(_)), None) => Err(StoreError::Unavailable("the account can't be read".to_owned())),
        (found, _) => found,
    };
    page_of(found, (&Brand::default(), None), checkout.clock.now(), language, &headers)
}

async fn show_logo(
    State(checkout): State<Checkout>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response> {
    let hash = name.ok().and_then(|Path(name)| name.strip_suffix(".png")?.parse().ok());
    let missing = || Problem::NotFound { what: "logo" };
    let file = checkout.logos.get(&hash.ok_or_else(missing)?).await?.ok_or_else(missing)?;
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, "image/png"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, file).into_response())
}
