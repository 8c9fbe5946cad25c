//! Extractors of ids in a path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, RawPathParams};
use axum::http::request::Parts;

/// The id in a path's first variable. `None`: the text is not an id of this type. In that case the extractor
/// still succeeds, because the handler must authenticate the caller before it answers 404.
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

/// The ids in a path's only two variables. Each is `None` if its text is not an id of its type, as with
/// [`IdPath`].
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
