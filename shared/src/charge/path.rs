//! A charge's id in a path.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use domain::ids::ChargeId;

/// The id that a path's only variable holds: with `ch_` or `tx_`, or raw. Whatever else stands there names no
/// charge, which is for the handler to say, after it knows who asks.
#[derive(Clone, Copy, Debug)]
pub struct ChargePath(pub Option<ChargeId>);

impl<S: Send + Sync> FromRequestParts<S> for ChargePath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text: Option<Path<String>> = Path::from_request_parts(parts, state).await.ok();
        Ok(Self(text.and_then(|Path(text)| ChargeId::parse_any(&text).ok())))
    }
}
