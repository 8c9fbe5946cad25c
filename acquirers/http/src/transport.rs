//! Sends one HTTP request and reads the answer, within limits of size. The caller limits the time.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use domain::webhook::schedule::parse_retry_after;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AsHeaderName, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::http::Extensions;
use hyper::{Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{HttpConnector, HttpInfo};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{CertificateError, ClientConfig, RootCertStore};

use crate::SendError;
use crate::settings::{SettingsError, TlsSettings};

/// The most bytes of an answer's body. A page of 1,000 Pix with several returns each has about 2 MB, one of 100 events
/// of cards less.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of an answer's head. The last read may exceed this limit by up to the same amount.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The time limit of TCP connections, so that an address that does not respond leaves time for another.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept. It is shorter than the idle timeouts of NAT gateways (350 s) and of
/// most servers (60 s).
const IDLE_LIMIT: Duration = Duration::from_secs(30);

const MAX_IDLE_PER_HOST: usize = 8;

/// The most connections that are remembered because they carried an answer.
const MAX_ANSWERED: usize = 4 * MAX_IDLE_PER_HOST;

/// The longest header that is read. The longest HTTP date has 33 characters.
const MAX_HEADER_CHARS: usize = 64;

/// The pause after a 429 without a `Retry-After` that can be read.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// The most causes of an error that are examined. Real errors have fewer. The limit ends a chain that
/// contains itself.
const MAX_CAUSES: usize = 16;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends requests by HTTP/1.1 over TLS 1.2 or 1.3. Follows no redirects and uses no proxy.
pub struct Transport {
    /// The acquirer's name in the texts of errors, such as `the bank`.
    peer: &'static str,
    pooled: HttpClient,
    /// Never reuses a connection. Repeats a request that failed because a pooled connection was stale.
    fresh: HttpClient,
    /// The local addresses of connections that carried an answer, the newest last.
    answered: Mutex<VecDeque<SocketAddr>>,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Returns a header of at most 64 visible ASCII characters.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().filter(|value| value.len() <= MAX_HEADER_CHARS)
    }

    /// Returns the `Retry-After`, in seconds or as a date, at most a minute. Without one, it is a second.
    pub fn retry_after(&self, now: Timestamp) -> Duration {
        let wait = self.header(RETRY_AFTER).and_then(|value| parse_retry_after(value, now.millis()));
        wait.unwrap_or(DEFAULT_RETRY_AFTER).min(MAX_RETRY_AFTER)
    }

    /// Whether the body is HTML, which no API sends. A page of a proxy says nothing about an object.
    pub fn is_html(&self) -> bool {
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type.is_some_and(|it| it.to_ascii_lowercase().starts_with("text/html"))
    }
}

impl Transport {
    pub fn new(peer: &'static str, settings: TlsSettings<'_>) -> Result<Self, SettingsError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        let connector = HttpsConnector::from((tcp, tls(settings)?));
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_LIMIT).http1_max_buf_size(MAX_HEAD_BYTES);
        Ok(Self {
            peer,
            pooled: client.pool_max_idle_per_host(MAX_IDLE_PER_HOST).build(connector.clone()),
            fresh: client.pool_max_idle_per_host(0).build(connector),
            answered: Mutex::new(VecDeque::new()),
        })
    }

    /// Sends a request.
    ///
    /// If a reused connection turns out to be closed, the request is repeated once on a new one. The HTTP
    /// client itself repeats only what was certainly not written. But a process that was frozen between two
    /// invocations may write to a connection before it reads that the acquirer has closed it. A repeated write
    /// has the same id or idempotency key, so it never moves money twice.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, SendError> {
        let repeated = request.clone();
        let response = match self.pooled.request(request).await {
            Err(error) if self.is_stale(&error) => self.fresh.request(repeated).await,
            outcome => outcome,
        }
        .map_err(|error| self.failure(&error))?;

        if let Some(connection) = response.extensions().get::<HttpInfo>() {
            self.remember(connection.local_addr());
        }
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { SendError::TooLarge } else { self.failure(&*error) }
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    fn remember(&self, connection: SocketAddr) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if !answered.contains(&connection) {
            if answered.len() >= MAX_ANSWERED {
                answered.pop_front();
            }
            answered.push_back(connection);
        }
    }

    /// Whether a request failed because its connection was stale: the connection has carried an answer before
    /// and is closed now.
    fn is_stale(&self, error: &ClientError) -> bool {
        let mut extras = Extensions::new();
        if let Some(connected) = error.connect_info() {
            connected.get_extras(&mut extras);
        }
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        is_closed(error) && extras.get::<HttpInfo>().is_some_and(|info| answered.contains(&info.local_addr()))
    }

    /// Returns the failure with the first recognised cause of an error. Texts of libraries are dropped, because
    /// they may contain a URL.
    fn failure(&self, error: &(dyn Error + 'static)) -> SendError {
        if let Some(error) = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
            return SendError::Tls(self.reason_of_tls(error));
        }
        let reason = causes(error).find_map(reason_of);
        SendError::Connection(reason.unwrap_or("no further information").to_owned())
    }

    fn reason_of_tls(&self, error: &rustls::Error) -> String {
        match error {
            rustls::Error::InvalidCertificate(error) => {
                format!("{}'s certificate is {}", self.peer, certificate(error))
            }
            // The names of alerts come from a closed list.
            rustls::Error::AlertReceived(alert) => format!("{} refused TLS with {alert:?}", self.peer),
            _ => "TLS handshake failed".to_owned(),
        }
    }
}

fn tls(settings: TlsSettings<'_>) -> Result<ClientConfig, SettingsError> {
    let mut roots = public_roots().clone();
    for authority in settings.checked_authorities()? {
        roots.add(authority)?;
    }
    // A developer's machine without root certificates can still use a stand-in on loopback by plain http.
    if roots.is_empty() && settings.is_https {
        return Err(SettingsError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match settings.checked_identity()? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The machine's root certificates, read once in a process. Certificates that can't be parsed are skipped.
fn public_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

fn is_closed(error: &ClientError) -> bool {
    causes(error).find_map(reason_of).is_some_and(|reason| reason == CLOSED)
}

const CLOSED: &str = "closed before the answer was complete";

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error| cause(*error)).take(MAX_CAUSES)
}

/// Returns the next cause of an error. `source` of an I/O error skips the error that it wraps, so `get_ref`
/// is tried first.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn reason_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return if error.is_parse_too_large() {
            Some("the answer's headers are too large")
        } else if error.is_parse() {
            Some("the answer is not HTTP/1.1")
        } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            Some(CLOSED)
        } else {
            None
        };
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    // The type of this error is not public.
    (error.to_string() == "dns error").then_some("the host name was not found")
}

fn of_io(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some("refused"),
        ErrorKind::TimedOut => Some("timed out"),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some("the address is unreachable")
        }
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(CLOSED),
        _ => None,
    }
}

fn certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "issued for another name"
        }
        CertificateError::UnknownIssuer => "of an unknown issuer, or an intermediate certificate is missing",
        _ => "not acceptable",
    }
}
