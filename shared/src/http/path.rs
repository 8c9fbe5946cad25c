//! Ids in a path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, RawPathParams};
use axum::http::request::Parts;

/// The id that a path's first variable holds. Whatever else stands there names nothing, which is for the handler to say,
/// after it knows who asks.
#[derive(Clone, Copy, Debug)]
pub struct IdPath<T>(pub Option<T>);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for IdPath<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let variables = RawPathParams::from_request_parts(parts, state).await.ok();
        let first = variables.as_ref().and_then(|variables| variables.iter().next());
        Ok(Self(first.and_then(|(_, text)| text.parse().ok())))
    }
}

/// The two ids that a path's only variables hold. As [`IdPath`], where either may stand for nothing.
#[derive(Clone, Copy, Debug)]
pub struct IdPair<A, B>(pub Option<A>, pub Option<B>);

impl<S: Send + Sync, A: FromStr, B: FromStr> FromRequestParts<S> for IdPair<A, B> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let texts: Option<Path<(String, String)>> = Path::from_request_parts(parts, state).await.ok();
        let Some(Path((first, second))) = texts else { return Ok(Self(None, None)) };
        Ok(Self(first.parse().ok(), second.parse().ok()))
    }
}
