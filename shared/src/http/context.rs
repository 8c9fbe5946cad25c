//! The context of one request (id, headers, query string, source address) and the middleware that sets
//! response headers from it.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderMap, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lambda_http::request::RequestContext as ApiGateway;
use secrecy::SecretString;
use tracing::{Instrument, field};
use uuid::Uuid;

use domain::ids::{ChargeId, DeliveryId, EventId, LoggedRequestId};
use domain::request_id::StoredRequestId;
use domain::source_address::SourceAddress;

use super::accept::prefers_csv;
use super::field::IDEMPOTENCY_KEY;
use super::intake::Query;
use super::origin::Origin;
use super::problem::Problem;
use crate::metrics;
use crate::request_log::Recorder;

const X_REQUEST_ID: &str = "x-request-id";

/// The header with the number of requests a minute that the caller may make.
pub(super) const RATE_LIMIT: &str = "x-ratelimit-limit-minute";

/// The header with the number of requests that the caller may still make in this minute.
pub(super) const RATE_LIMIT_REMAINING: &str = "x-ratelimit-remaining-minute";

/// Replaces the route in the log line of a request that matches none.
const NO_ROUTE: &str = "(no route)";

/// The longest `X-Request-Id` that the response repeats, in bytes. A longer id is replaced by a new one.
const MAX_REQUEST_ID_BYTES: usize = 512;

/// The id of a request. If the client's `X-Request-Id` has 1 to 512 bytes of UTF-8 without control
/// characters, it is the id. Otherwise the id is a new `req_<uuid>`. Spaces and tabs around the client's id
/// are removed, because they are not a part of a header's value.
#[derive(Clone, Debug)]
pub struct RequestId {
    text: Arc<str>,
    is_clients: bool,
}

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(X_REQUEST_ID).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        match sent.map(|id| id.trim_matches([' ', '\t'])) {
            Some(id) if is_echoable(id) => Self { text: id.into(), is_clients: true },
            _ => Self { text: format!("req_{}", Uuid::new_v4()).into(), is_clients: false },
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The id, unless the client sent it.
    pub(crate) fn own(&self) -> Option<LoggedRequestId> {
        if self.is_clients { None } else { self.text.parse().ok() }
    }

    /// The id as rows and log lines contain it.
    pub fn stored(&self) -> StoredRequestId {
        StoredRequestId::new(&self.text)
    }

    fn set_header(&self, response: &mut Response) {
        if let Ok(id) = HeaderValue::from_bytes(self.text.as_bytes()) {
            response.headers_mut().insert(X_REQUEST_ID, id);
        }
    }
}

fn is_echoable(id: &str) -> bool {
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// The rate limit of a caller. Every response to an authenticated request shows it in two headers.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// The requests a minute that the caller may make.
    pub limit: u64,
    /// The requests that the caller may still make in this minute, after this request.
    pub remaining: u64,
}

/// The headers of a request that the service reads.
#[derive(Clone, Debug)]
pub struct ClientHeaders {
    /// `apikey`, exactly as sent.
    pub api_key: Option<SecretString>,
    /// The token of `Authorization: Bearer`. The scheme's name is case-insensitive (RFC 9110).
    pub bearer: Option<SecretString>,
    /// `Idempotency-Key`, exactly as sent.
    pub idempotency_key: Option<HeaderValue>,
    /// Whether `Accept` has a greater weight for CSV than for JSON.
    pub prefers_csv: bool,
    /// `User-Agent`, exactly as sent.
    pub user_agent: Option<HeaderValue>,
}

impl ClientHeaders {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            api_key: text("apikey").map(SecretString::from),
            bearer: text("authorization").and_then(bearer),
            idempotency_key: headers.get(IDEMPOTENCY_KEY.name).cloned(),
            prefers_csv: prefers_csv(headers),
            user_agent: headers.get("user-agent").cloned(),
        }
    }
}

fn bearer(authorization: &str) -> Option<SecretString> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| SecretString::from(token.trim_start()))
}

/// The context of one request, built by the middleware around every router.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The request's id. Every response has it in `X-Request-Id`.
    pub id: RequestId,
    /// The headers that the service reads.
    pub headers: ClientHeaders,
    /// The query string. A route without parameters refuses any parameter, right after the authentication.
    pub query: Query,
    pub source: SourceAddress,
    learned: Arc<Learned>,
}

/// What the handling of a request finds out for the response headers and the log.
#[derive(Debug, Default)]
struct Learned {
    caller: OnceLock<KnownCaller>,
    charge: OnceLock<ChargeId>,
    event: OnceLock<EventId>,
    delivery: OnceLock<DeliveryId>,
    /// For the log of requests.
    recorder: OnceLock<Recorder>,
    body: OnceLock<Bytes>,
}

/// The part of the authentication's result that the response headers and the log need.
#[derive(Debug)]
struct KnownCaller {
    rate_limit: RateLimit,
    /// The account and mode of an API key; the account of a dashboard user.
    scope: String,
    /// The fingerprint of an API key; `None` for a dashboard token.
    fingerprint: Option<String>,
}

impl RequestContext {
    fn of(headers: &HeaderMap, uri: &Uri, extensions: &Extensions, origin: &Origin) -> Self {
        Self {
            id: RequestId::of(headers),
            headers: ClientHeaders::of(headers),
            query: Query::parse(uri.query()),
            source: origin.source_of(headers, peer_of(extensions)),
            learned: Arc::default(),
        }
    }

    /// Stores the caller's rate limit for the response headers, and its account and an API key's fingerprint
    /// for the log. A second call within one request changes nothing, as with the ids below.
    pub(crate) fn set_caller(&self, rate_limit: RateLimit, scope: String, fingerprint: Option<&str>) {
        let fingerprint = fingerprint.map(str::to_owned);
        let _ = self.learned.caller.set(KnownCaller { rate_limit, scope, fingerprint });
    }

    /// Stores what writes the request into the log of requests.
    pub(crate) fn set_recorder(&self, recorder: Recorder) {
        let _ = self.learned.recorder.set(recorder);
    }

    /// Stores the JSON body, which is not copied, for the log of requests.
    pub(super) fn set_body(&self, body: Bytes) {
        let _ = self.learned.body.set(body);
    }

    pub(crate) fn body(&self) -> Option<&Bytes> {
        self.learned.body.get()
    }

    /// Stores the charge that the request names or creates, for the log.
    pub fn set_charge(&self, charge: ChargeId) {
        let _ = self.learned.charge.set(charge);
    }

    /// Stores the event that the request names, for the log.
    pub(crate) fn set_event(&self, event: EventId) {
        let _ = self.learned.event.set(event);
    }

    /// Stores the delivery that the request names, for the log.
    pub(crate) fn set_delivery(&self, delivery: DeliveryId) {
        let _ = self.learned.delivery.set(delivery);
    }
}

/// Returns the address that connected to API Gateway. Headers such as `X-Forwarded-For` are ignored, because a
/// client can send any value.
fn peer_of(extensions: &Extensions) -> SourceAddress {
    match extensions.get() {
        Some(ApiGateway::ApiGatewayV2(context)) => SourceAddress::parse(context.http.source_ip.as_deref()),
        _ => SourceAddress::default(),
    }
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let origin = Origin::default();
        let new = || Self::of(&parts.headers, &parts.uri, &parts.extensions, &origin);
        Ok(parts.extensions.get().cloned().unwrap_or_else(new))
    }
}

/// Returns an error response for a request that reaches no function, such as one that a gateway refuses. It
/// has the API's error body and `X-Request-Id`, like the error responses of the functions.
pub fn problem_response(headers: &HeaderMap, problem: &Problem) -> Response {
    let id = RequestId::of(headers);
    let mut response = problem.respond(&id, &Origin::default());
    id.set_header(&mut response);
    response
}

/// The middleware of all functions. It builds the request's context, renders errors, sets the headers that
/// every response has, and logs and measures the request. All log lines of a request contain `request_id`, and
/// `aws_request_id`, the id of Lambda's invocation.
pub(super) async fn wrap_request(State(origin): State<Origin>, request: Request, next: Next) -> Response {
    let context = RequestContext::of(request.headers(), request.uri(), request.extensions(), &origin);
    let admitted = origin.admit(request.headers());
    let invocation = request.extensions().get::<lambda_http::Context>();
    let aws_request_id = invocation.map(|invocation| invocation.request_id.as_str());
    // Enabled at every log level, so that error lines have the ids too.
    // A request to a bank adds the account and the connection.
    let span = tracing::error_span!(
        "request",
        request_id = context.id.stored().as_str(),
        aws_request_id,
        account = field::Empty,
        connection = field::Empty
    );
    handle(request, context, (origin, admitted), next).instrument(span).await
}

/// Answers a request. One that is not `admitted` did not pass the CDN. Logs the route, such as
/// `/v1/charges/{id}`. It never logs the path, because the path of a bank's notification contains a token.
async fn handle(
    mut request: Request,
    context: RequestContext,
    (origin, admitted): (Origin, bool),
    next: Next,
) -> Response {
    let started_at = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(context.clone());
    let mut response = if admitted { next.run(request).await } else { Problem::CdnBypassed.into_response() };
    let problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        response = problem.respond(&context.id, &origin);
    }
    let Learned { caller, charge, event, delivery, recorder, body: _ } = &*context.learned;
    let caller = caller.get();
    set_headers(response.headers_mut(), caller.map(|caller| caller.rate_limit));
    context.id.set_header(&mut response);
    let status = response.status().as_u16();
    let duration_ms = millis(started_at.elapsed());
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    tracing::info!(
        method = method.as_str(),
        route,
        status,
        duration_ms,
        scope = caller.map(|caller| caller.scope.as_str()),
        key = caller.and_then(|caller| caller.fingerprint.as_deref()),
        charge = charge.get().map(field::display),
        event = event.get().map(field::display),
        delivery = delivery.get().map(field::display),
        "request"
    );
    metrics::write_request(method.as_str(), route, status, duration_ms);
    match recorder.get().filter(|recorder| recorder.admits(route, status)) {
        None => response,
        Some(recorder) => {
            let matched = (method.as_str(), route, uri.path());
            // Boxed, because few requests are recorded.
            Box::pin(recorder.record(&context, matched, problem.as_ref(), duration_ms, response)).await
        }
    }
}

fn set_headers(headers: &mut HeaderMap, rate_limit: Option<RateLimit>) {
    if let Some(RateLimit { limit, remaining }) = rate_limit {
        headers.insert(RATE_LIMIT, HeaderValue::from(limit));
        headers.insert(RATE_LIMIT_REMAINING, HeaderValue::from(remaining));
    }
    // Responses contain amounts, keys and tokens, so no cache may store them. Only the route of the QR image
    // sets a header of its own.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // A browser uses https for later requests. It ignores this header in a response by plain http.
    headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    // A browser never guesses another type than the stated one.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sent: &[u8]) -> RequestId {
        let headers =
            HeaderMap::from_iter([(X_REQUEST_ID.parse().unwrap(), HeaderValue::from_bytes(sent).unwrap())]);
        RequestId::of(&headers)
    }

    #[test]
    fn a_clients_id_is_echoed_if_it_is_text_without_control_characters() {
        let longest = "é".repeat(256);
        for sent in ["a", "order 17/retry-2", "pedido nº 7", "注文", "\u{202e}x", longest.as_str()] {
            assert_eq!(id(sent.as_bytes()).as_str(), sent);
        }
        assert_eq!(id(b"  mine\t").as_str(), "mine");
        let too_long = "x".repeat(513);
        for sent in ["", "  ", "a\tb", "a\u{80}b", "a\u{9f}b", too_long.as_str()] {
            assert!(id(sent.as_bytes()).as_str().starts_with("req_"), "{sent:?}");
        }
        assert!(id(b"caf\xe9").as_str().starts_with("req_"), "the id is Latin-1, not UTF-8");
    }
}
