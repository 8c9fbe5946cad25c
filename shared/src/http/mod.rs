//! What every HTTP function has in common: the request's context, the intake of its JSON, the closed list
//! of problems with their wire form, and the frame around a router. Nothing here knows a charge or a webhook.

mod accept;
mod context;
mod intake;
mod problem;

pub use accept::MediaType;
pub use context::{ClientHeaders, RateLimit, RequestContext, RequestId, refuse};
pub use intake::{Fields, JsonBody, Object, Query};
pub use problem::{Detail, Problem};

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tower_http::catch_panic::CatchPanicLayer;

/// On the answer to a creation that came before: the object as it stands now.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The value of a header that is there or not.
pub const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A hash source (CSP Level 3): of exactly the text between an element's tags.
pub fn csp_source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Puts the frame around a function's routes: `X-Request-Id` on every answer, problems in the contract's
/// shape (unknown routes, wrong methods and panics included), rate-limit headers on keyed ones.
pub fn framed(routes: Router) -> Router {
    routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .layer(CatchPanicLayer::custom(|_panic| {
            Problem::Internal("a handler panicked".to_owned()).into_response()
        }))
        .layer(axum::middleware::from_fn(context::frame))
}

async fn no_such_route(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::NoSuchRoute { method: method.to_string(), path: uri.path().to_owned() }
}
