use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use domain::ids::ChargeId;

use crate::http::RequestContext;

/// The charge's id with `ch_` or `tx_` or bare. A path without a valid id is accepted as `None`, so that the
/// handler authenticates the caller before it answers 404.
#[derive(Clone, Copy, Debug)]
pub struct ChargePath(pub Option<ChargeId>);

impl<S: Send + Sync> FromRequestParts<S> for ChargePath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text: Option<Path<String>> = Path::from_request_parts(parts, state).await.ok();
        let id = text.and_then(|Path(text)| ChargeId::parse_any(&text).ok());
        if let Some((id, context)) = id.zip(parts.extensions.get::<RequestContext>()) {
            context.set_charge(id);
        }
        Ok(Self(id))
    }
}
