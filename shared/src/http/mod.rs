//! What every HTTP function has in common: the request's context, the intake of its JSON, the closed list
//! of problems with their wire form, and the frame around a router. Nothing here knows a charge or a webhook.

mod accept;
mod context;
mod created;
mod intake;
pub mod json;
mod path;
mod problem;

pub use accept::MediaType;
pub use context::{ClientHeaders, RateLimit, RequestContext, RequestId, refuse};
pub use created::Created;
pub use intake::{Fields, JsonBody, Object, Query};
pub use json::{JsonObject, JsonValue};
pub use path::{IdPair, IdPath};
pub use problem::{Detail, Problem};

use axum::Router;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tower_http::catch_panic::CatchPanicLayer;

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
