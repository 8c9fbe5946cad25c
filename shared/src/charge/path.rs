//! Extracts a charge's id from a request's path.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use domain::ids::ChargeId;

/// The charge id in a path's only variable: raw, or with the prefix `ch_` or `tx_`. `None` when the variable is no
/// charge id. The extractor does not reject it, so that the handler authenticates the caller before it answers 404.
#[derive(Clone, Copy, Debug)]
pub struct ChargePath(pub Option<ChargeId>);

impl<S: Send + Sync> FromRequestParts<S> for ChargePath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text: Option<Path<String>> = Path::from_request_parts(parts, state).await.ok();
        Ok(Self(text.and_then(|Path(text)| ChargeId::parse_any(&text).ok())))
    }
}
