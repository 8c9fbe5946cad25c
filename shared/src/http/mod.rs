//! The parts that all HTTP functions share: the context of a request, the validation of its JSON and query
//! string, the list of all errors with their wire format, and the middleware around a router. This module
//! does not depend on the modules of resources, such as `charge` or `webhook`. Its middleware writes the log of
//! requests ([`crate::request_log`]).

mod accept;
mod context;
mod cookie;
mod created;
mod etag;
pub mod field;
mod form;
mod gzip;
mod intake;
pub mod json;
mod list_view;
mod origin;
mod path;
mod problem;

pub use accept::csv_attachment;
pub use context::{ClientHeaders, RateLimit, RequestContext, RequestId, problem_response};
pub use cookie::{cookie, set_cookie};
pub use created::Created;
pub use etag::{etag_of, is_known};
pub use form::{FormBody, SameOrigin, is_same_origin};
pub use intake::{Fields, JsonBody, Object, Query, RawBody};
pub use json::{JsonObject, JsonValue};
pub use list_view::{ListView, NonNegative, WholeListView};
pub use origin::Origin;
pub use path::{IdPair, IdPath};
pub use problem::{Detail, ErrorBody, ErrorCode, Problem, ProblemKind};

use axum::Router;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tower_http::catch_panic::CatchPanicLayer;

/// The result of a handler, and of the steps that a handler takes.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// Returns the hash that allows an inline script or style in a `Content-Security-Policy` header: the hash
/// source of CSP Level 3, without quotes. `text` is exactly the text between the element's tags.
pub fn csp_source(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Adds the middleware that all functions share to a router. Every response gets `X-Request-Id`. Every
/// [`Problem`] is sent as the JSON error body, also for an unknown route, a wrong method
/// or a panic. Responses to authenticated requests get the rate-limit headers. Requests that `origin` does not
/// admit get a 403 on every path.
pub fn with_middleware(routes: Router, origin: Origin) -> Router {
    with_headers(routes.fallback(no_such_route).method_not_allowed_fallback(no_such_route), origin)
}

/// As [`with_middleware`], without the errors for other routes.
pub fn with_headers(routes: Router, origin: Origin) -> Router {
    routes
        .layer(CatchPanicLayer::custom(|_panic| {
            Problem::Internal("a handler panicked".to_owned()).into_response()
        }))
        .layer(axum::middleware::from_fn_with_state(origin, context::wrap_request))
        .layer(axum::middleware::from_fn(gzip::compress))
}

async fn no_such_route(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::NoSuchRoute { method: method.to_string(), path: uri.path().to_owned() }
}
