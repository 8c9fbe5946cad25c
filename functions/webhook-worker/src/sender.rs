//! Posting: one HTTP request to a merchant's endpoint, and what came of it.
//!
//! What lives here: the connection, its limits, and the reading of the answer. What does not: signing and headers (the
//! caller's), retries (an [`Attempt`] is one try; `domain::webhook::schedule` says when the next is due), the delivery's
//! row, and logging: nothing here is logged, for the caller logs an attempt once.
//!
//! If the process dies half-way, the request may have arrived or not. The caller's lease brings the delivery back and it
//! is posted again under the same event id: at least once, never "perhaps once".

mod connector;
mod failure;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::text;
use domain::url_policy::{AddressPolicy, UrlRefusal, check_url};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::{Extensions, response};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;

use connector::{Answered, Connector};
pub use failure::Failure;

/// From the first byte of the name's lookup to the last of the answer. Contract: "Delivery semantics" 4.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// How much of an answer's body is read, in bytes. Enough to finish an ordinary answer, so that its connection can be
/// used again; an endless one costs no more than this.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// How much of an answer's head is read, in bytes; the last read may pass this by as much again.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How much of a failure's body is kept for the merchant to see, in characters.
const MAX_EXCERPT_CHARS: usize = 1024;

/// The same in bytes: a UTF-8 character has four at most.
const MAX_EXCERPT_BYTES: usize = 4 * MAX_EXCERPT_CHARS;

/// The longest HTTP date has 33 characters; what is longer is no `Retry-After`.
const MAX_RETRY_AFTER_CHARS: usize = 64;

/// Idle connections are kept for less time than a NAT gateway forgets them in (350 s), and most servers too (60 s).
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// A worker posts a batch of ten at most, rarely all to one host.
const MAX_IDLE_PER_HOST: usize = 4;

const AGENT: HeaderValue = HeaderValue::from_static("payment-service-webhooks/1");

/// Posts webhooks. Made once per process: it holds the trust store and the open connections.
///
/// HTTP/1.1 over TLS 1.2 or 1.3. Redirects are not followed, no proxy is used, no compression is offered.
pub struct Sender {
    policy: AddressPolicy,
    time_limit: Duration,
    pooled: Client<Connector, Full<Bytes>>,
    /// Never reuses a connection: for what a stale one in the pool has failed to deliver.
    fresh: Client<Connector, Full<Bytes>>,
}

impl Sender {
    /// A sender that trusts the machine's root certificates, resolves names as the machine does, and gives each post
    /// [`TIME_LIMIT`].
    pub fn new(policy: AddressPolicy) -> Result<Self, SenderError> {
        Self::builder(policy).build()
    }

    /// For tests, which need another time limit, root or resolver.
    pub fn builder(policy: AddressPolicy) -> SenderBuilder {
        SenderBuilder { policy, time_limit: TIME_LIMIT, extra_roots: Vec::new(), lookup: None }
    }

    /// Posts `body` to `url` once, and says what came of it. Never fails otherwise.
    ///
    /// `headers` are sent as given, with `User-Agent`, `Host` and `Content-Length` added. The URL is checked again here,
    /// for it was registered under rules that may have changed since.
    ///
    /// One attempt is one request, with one exception: where a connection that was used before turns out to be closed,
    /// the request is made again on a new one, for the endpoint did nothing wrong. In a rare case (it acted on the
    /// request, then closed without an answer) it sees the request twice, as it would after any lost answer.
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Attempt {
        let request = match self.request(url, headers, body) {
            Ok(request) => request,
            Err(refusal) => return Attempt::failed(refusal.into()),
        };
        let mut answer = None;
        let ended = tokio::time::timeout(self.time_limit, self.exchange(request, &mut answer)).await;
        match (ended, answer) {
            (Ok(Err(failure)), _) => Attempt::failed(failure),
            (Ok(Ok(())), Some(answer)) => answer.judge(),
            // The failure is certain as soon as the status is there; a slow body takes nothing away from what it says.
            (Err(_), Some(answer)) if !answer.status.is_success() => answer.judge(),
            (_, answer) => Attempt::Failed {
                status_code: answer.map(|answer| answer.status.as_u16()),
                failure: Failure::Timeout(self.time_limit),
            },
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

    /// `answer` is filled as it arrives, so that what has arrived outlives a timeout.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        answer: &mut Option<Answer>,
    ) -> Result<(), Failure> {
        let again = request.clone();
        let response = match self.pooled.request(request).await {
            Err(error) if is_stale(&error) => self.fresh.request(again).await,
            outcome => outcome,
        }
        .map_err(|error| Failure::of(&error))?;

        if let Some(answered) = response.extensions().get::<Answered>() {
            answered.set();
        }
        let (head, body) = response.into_parts();
        answer.insert(Answer::new(&head)).read(body).await;
        Ok(())
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("policy", &self.policy)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}

/// Whether an error is the connection's age, and not the endpoint's answer: it was closed, and had answered before.
///
/// The client itself retries only what it knows was never written. A process that was frozen between two invocations
/// may write to a connection that was closed meanwhile before it reads of its end.
fn is_stale(error: &ClientError) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extras);
    }
    extras.get::<Answered>().is_some_and(Answered::get) && Failure::of(error) == Failure::Closed
}

/// Makes a [`Sender`] with other than its usual parts.
pub struct SenderBuilder {
    policy: AddressPolicy,
    time_limit: Duration,
    extra_roots: Vec<CertificateDer<'static>>,
    lookup: Option<Lookup>,
}

/// Stands in for the machine's resolver: a name's addresses; none means that there is no such name.
pub type Lookup = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

impl SenderBuilder {
    /// Another limit for the whole post than [`TIME_LIMIT`].
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// One more root certificate to trust, in DER.
    #[must_use]
    pub fn trust(mut self, root: CertificateDer<'static>) -> Self {
        self.extra_roots.push(root);
        self
    }

    /// Another resolver. What it returns is held to the policy all the same.
    #[must_use]
    pub fn resolve_with(mut self, lookup: Lookup) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// Reads the machine's root certificates, and makes the sender.
    pub fn build(self) -> Result<Sender, SenderError> {
        let connector = connector::new(&self.policy, self.time_limit, self.extra_roots, self.lookup)?;
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_LIMIT).http1_max_buf_size(MAX_HEAD_BYTES);
        Ok(Sender {
            policy: self.policy,
            time_limit: self.time_limit,
            pooled: client.pool_max_idle_per_host(MAX_IDLE_PER_HOST).build(connector.clone()),
            fresh: client.pool_max_idle_per_host(0).build(connector),
        })
    }
}

/// Why no sender could be made.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The machine has no root certificates (under [`AddressPolicy::PublicOnly`], which is https only).
    #[error("no trusted root certificates on this machine")]
    NoRoots,
    /// The extra root or the TLS settings are not usable.
    #[error("TLS settings: {0}")]
    Tls(#[from] rustls::Error),
}

/// What came of one post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A 2xx: never sent again.
    Delivered {
        /// 200 to 299.
        status_code: u16,
    },
    /// Any other status, a redirect too.
    Refused {
        /// The answer's status.
        status_code: u16,
        /// The answer's `Retry-After`, unread; see `domain::webhook::schedule::next_delay`.
        retry_after: Option<String>,
        /// The beginning of the answer's body.
        response_body: Excerpt,
    },
    /// No answer, or none that ended in time.
    Failed {
        /// Of an answer whose head came in time and whose body did not.
        status_code: Option<u16>,
        /// What went wrong.
        failure: Failure,
    },
}

impl Attempt {
    fn failed(failure: Failure) -> Self {
        Self::Failed { status_code: None, failure }
    }

    /// Whether the delivery is done.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered { .. })
    }

    /// For `lastStatusCode`.
    pub fn status_code(&self) -> Option<u16> {
        match self {
            Self::Delivered { status_code } | Self::Refused { status_code, .. } => Some(*status_code),
            Self::Failed { status_code, .. } => *status_code,
        }
    }

    /// The answer's `Retry-After`, for the schedule to read.
    pub fn retry_after(&self) -> Option<&str> {
        match self {
            Self::Refused { retry_after, .. } => retry_after.as_deref(),
            Self::Delivered { .. } | Self::Failed { .. } => None,
        }
    }

    /// For `lastError`: short, for the merchant to read; none when delivered.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Delivered { .. } => None,
            Self::Refused { status_code: code @ 300..=399, .. } => {
                Some(format!("answered {code}; redirects are not followed"))
            }
            Self::Refused { status_code, .. } => Some(format!("answered {status_code}")),
            Self::Failed { failure, .. } => Some(failure.to_string()),
        }
    }

    /// For `lastResponseBody`.
    pub fn response_body(&self) -> Option<&str> {
        match self {
            Self::Refused { response_body, .. } => Some(response_body.as_str()),
            Self::Delivered { .. } | Self::Failed { .. } => None,
        }
    }
}

/// The beginning of an answer's body, made safe to store and to show: 1,024 characters at most, no control characters
/// but line feeds and tabs, nothing that turns the direction of text.
///
/// Its `Debug` shows no content: it is the merchant's, and may hold anything.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    fn new(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let shown = |c| {
            if is_safe(c) { c } else { char::REPLACEMENT_CHARACTER }
        };
        Self(text.chars().take(MAX_EXCERPT_CHARS).map(shown).collect())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Excerpt({} bytes)", self.0.len())
    }
}

fn is_safe(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        _ => !c.is_control() && !text::misleads(c),
    }
}

/// An answer as far as it has arrived.
struct Answer {
    status: StatusCode,
    retry_after: Option<String>,
    encoding: Option<String>,
    beginning: Vec<u8>,
}

impl Answer {
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

    /// Reads the body to its end, its limit, or where it breaks off: the status is known, and stands.
    async fn read(&mut self, mut body: Incoming) {
        let mut read_bytes = 0_usize;
        while read_bytes < MAX_BODY_BYTES {
            let Some(Ok(frame)) = body.frame().await else {
                break;
            };
            if let Some(data) = frame.data_ref() {
                read_bytes = read_bytes.saturating_add(data.len());
                let room = MAX_EXCERPT_BYTES.saturating_sub(self.beginning.len());
                self.beginning.extend(data.iter().take(room));
            }
        }
    }

    fn judge(self) -> Attempt {
        let status_code = self.status.as_u16();
        if self.status.is_success() {
            return Attempt::Delivered { status_code };
        }
        // No coding was offered, and none is undone: what is compressed may be of any size.
        let response_body = match self.encoding {
            Some(coding) => Excerpt::new(format!("(not shown: content-encoding {coding})").as_bytes()),
            None => Excerpt::new(&self.beginning),
        };
        Attempt::Refused { status_code, retry_after: self.retry_after, response_body }
    }
}
