//! An id in a path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

/// The id that a path's only variable holds. Whatever else stands there names nothing, which is for the handler to say,
/// after it knows who asks.
#[derive(Clone, Copy, Debug)]
pub struct IdPath<T>(pub Option<T>);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for IdPath<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let text: Option<Path<String>> = Path::from_request_parts(parts, state).await.ok();
        Ok(Self(text.and_then(|Path(text)| text.parse().ok())))
    }
}
