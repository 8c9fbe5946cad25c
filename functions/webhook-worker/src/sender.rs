//! Posts one HTTP request to a merchant's server and classifies the response ([`Attempt`]).
//!
//! Handles connections, limits of time and size, and the response. The caller signs the request, sets
//! headers, schedules retries (`domain::webhook::schedule`) and writes the delivery's row. It also logs each
//! attempt, so nothing is logged here.
//!
//! If the process dies during a request, the receiver may have got the request or not. After the caller's
//! lease has ended, the delivery is posted again with the same event id. So an event is delivered at least
//! once.

mod connector;
mod failure;
#[cfg(test)]
mod tests;

use std::time::Duration;

use acquirer_http::{ClientSettingsError, Lookup, Pool};
use domain::text;
use domain::url_policy::{AddressPolicy, UrlRefusal, check_url};
use domain::webhook::failure::AttemptFailure;
use effects::webhook::delivery::FailedAttempt;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::response;
use hyper::{Method, Request, StatusCode, Uri};
use rustls::pki_types::CertificateDer;

use connector::Connector;
use failure::failure_of;

/// The time limit of a post, from the lookup of the host name to the last byte of the response, which
/// `docs/guide/webhooks.md` states.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The time limit of a TCP connection, for all addresses of the host name together. A server that can be
/// reached accepts a connection within a second, even after a lost packet. So the limit frees the worker early
/// without a failure of a server that is only slow to respond.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(5);

/// The most characters of a failed response's body that are stored for the merchant.
const MAX_EXCERPT_CHARS: usize = 1024;

/// The same limit in bytes: a character has at most four in UTF-8. No more of a body is read. So an endless
/// body, fast or slow, is a complete response once this much of it has arrived.
const MAX_EXCERPT_BYTES: usize = 4 * MAX_EXCERPT_CHARS;

/// The longest `Retry-After` that is read. The longest HTTP date has 33 characters, so a longer value can't
/// be one.
const MAX_RETRY_AFTER_CHARS: usize = 64;

/// Idle connections to keep for each host. A worker posts at most ten deliveries at a time, rarely all to one
/// host.
const MAX_IDLE_PER_HOST: usize = 4;

/// The status of a 2xx response, or the failure: a response with another status, redirects included, no response, or a
/// 2xx of whose body not enough arrived in time.
pub type Attempt = Result<u16, FailedAttempt>;

const AGENT: HeaderValue = HeaderValue::from_static("payment-service-webhooks/1");

/// Posts webhooks. Offers no compression.
///
/// Create one per process, because it contains the open connections.
pub struct Sender {
    policy: AddressPolicy,
    time_limit: Duration,
    pool: Pool<Connector>,
}

impl Sender {
    /// Creates a sender that trusts the machine's root certificates, uses its resolver, and applies
    /// [`TIME_LIMIT`].
    pub fn new(policy: AddressPolicy) -> Result<Self, ClientSettingsError> {
        Self::builder(policy).build()
    }

    fn builder(policy: AddressPolicy) -> SenderBuilder {
        SenderBuilder {
            policy,
            time_limit: TIME_LIMIT,
            connect_time_limit: CONNECT_TIME_LIMIT,
            extra_roots: Vec::new(),
            lookup: None,
        }
    }

    /// Posts `body` to `url` once. All failures are in the returned [`Attempt`].
    ///
    /// `headers` are sent unchanged, with `User-Agent`, `Host` and `Content-Length` added. The URL is checked
    /// again, because the rules may have changed since the URL was registered.
    ///
    /// One attempt is one request, with one exception. If a reused connection turns out to be closed, the
    /// request is repeated on a new one, because the receiver did nothing wrong. In rare cases the receiver
    /// processes the request and then closes the connection without a response. Then the receiver gets the
    /// request twice, as after any lost response.
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Attempt {
        let request = match self.request(url, headers, body) {
            Ok(request) => request,
            Err(refusal) => return Err(FailedAttempt::without_body(None, refusal.into())),
        };
        let mut arrived = None;
        let ended = tokio::time::timeout(self.time_limit, self.exchange(request, &mut arrived)).await;
        match (ended, arrived) {
            (Ok(Err(failure)), _) => Err(FailedAttempt::without_body(None, failure)),
            (Ok(Ok(())), Some(arrived)) => arrived.into_attempt(),
            // The status alone shows the failure, so it is reported even if the body is slow.
            (Err(_), Some(arrived)) if !arrived.status.is_success() => arrived.into_attempt(),
            (_, arrived) => {
                let status_code = arrived.map(|arrived| arrived.status.as_u16());
                Err(FailedAttempt::without_body(status_code, AttemptFailure::Timeout(self.time_limit)))
            }
        }
    }

    fn request(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, UrlRefusal> {
        let url = check_url(url, &self.policy)?;
        let uri = Uri::try_from(url.as_str()).map_err(|_| UrlRefusal::NotAbsolute)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        request.headers_mut().insert(USER_AGENT, AGENT);
        Ok(request)
    }

    /// Sends the request and reads the response into `arrived` as it arrives. So after a timeout, the caller
    /// has the part that arrived before.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        arrived: &mut Option<PartialResponse>,
    ) -> Result<(), AttemptFailure> {
        let response = self.pool.send(request).await.map_err(|error| failure_of(&error))?;
        let (head, body) = response.into_parts();
        arrived.insert(PartialResponse::new(&head)).read(body).await;
        Ok(())
    }
}

text::hidden_debug!(Sender);

/// Builds a [`Sender`]. Tests change its parts.
struct SenderBuilder {
    policy: AddressPolicy,
    time_limit: Duration,
    /// Of the TCP connection.
    connect_time_limit: Duration,
    /// Trusted besides the machine's root certificates, in DER.
    extra_roots: Vec<CertificateDer<'static>>,
    lookup: Option<Lookup>,
}

impl SenderBuilder {
    /// Reads the machine's root certificates and creates the sender.
    fn build(self) -> Result<Sender, ClientSettingsError> {
        let connector = connector::new(&self.policy, self.connect_time_limit, self.extra_roots, self.lookup)?;
        Ok(Sender {
            policy: self.policy,
            time_limit: self.time_limit,
            pool: Pool::new(connector, MAX_IDLE_PER_HOST),
        })
    }
}

/// Returns the beginning of a response's body, safe to store and to show. It has at most 1,024 characters. Control
/// characters, except line feeds and tabs, and characters that change the direction of text are replaced.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let is_safe = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || text::misleads(c));
    let shown = |c| {
        if is_safe(c) { c } else { char::REPLACEMENT_CHARACTER }
    };
    text.chars().take(MAX_EXCERPT_CHARS).map(shown).collect()
}

struct PartialResponse {
    status: StatusCode,
    retry_after: Option<String>,
    /// The `Content-Encoding`, unless it is `identity`.
    encoding: Option<String>,
    beginning: Vec<u8>,
}

impl PartialResponse {
    fn new(head: &response::Parts) -> Self {
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            status: head.status,
            retry_after: text(RETRY_AFTER).filter(|it| it.len() <= MAX_RETRY_AFTER_CHARS).map(str::to_owned),
            encoding: text(CONTENT_ENCODING)
                .filter(|it| !it.is_empty() && !it.eq_ignore_ascii_case("identity"))
                .map(str::to_owned),
            beginning: Vec::new(),
        }
    }

    /// Reads the body to its end, up to the limit, or until the connection breaks. A broken body does not
    /// change the result, because the status is known.
    async fn read(&mut self, mut body: Incoming) {
        while self.beginning.len() < MAX_EXCERPT_BYTES {
            let Some(Ok(frame)) = body.frame().await else {
                break;
            };
            if let Some(data) = frame.data_ref() {
                let room = MAX_EXCERPT_BYTES.saturating_sub(self.beginning.len());
                self.beginning.extend(data.iter().take(room));
            }
        }
    }

    fn into_attempt(self) -> Attempt {
        let status_code = self.status.as_u16();
        let failure = match status_code {
            200..=299 => return Ok(status_code),
            300..=399 => AttemptFailure::Redirected(status_code),
            _ => AttemptFailure::Answered(status_code),
        };
        // Compressed bodies are not shown: no compression was offered, and a decompressed body may be of any
        // size.
        let response_body = match self.encoding {
            Some(coding) => excerpt(format!("(not shown: content-encoding {coding})").as_bytes()),
            None => excerpt(&self.beginning),
        };
        let (status_code, response_body) = (Some(status_code), Some(response_body));
        Err(FailedAttempt { status_code, failure, retry_after: self.retry_after, response_body })
    }
}
