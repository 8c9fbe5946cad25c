//! Sends one HTTP request and reads the answer, within limits of size. The caller limits the time.

use std::error::Error;
use std::time::Duration;

use domain::time::Timestamp;
use domain::url_policy::AddressPolicy;
use domain::webhook::failure::ConnectionFailure;
use domain::webhook::schedule::parse_retry_after;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AsHeaderName, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;

use crate::failure::tls_alert;
use crate::pool::{Pool, tls_config};
use crate::resolver::{CheckedResolver, Lookup, ResolveFailure};
use crate::settings::{ClientSettingsError, TlsSettings};
use crate::{SendError, causes, connection_failure};

/// The most bytes of an answer's body. A page of 1,000 Pix with several returns each has about 2 MB, one of 100 events
/// of cards less.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// The time limit of TCP connections, so that an address that does not respond leaves time for another.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

const MAX_IDLE_PER_HOST: usize = 8;

/// The longest header that is read. The longest HTTP date has 33 characters.
const MAX_HEADER_CHARS: usize = 64;

/// The pause after a 429 without a `Retry-After` that can be read.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Sends requests to an acquirer.
pub struct Transport {
    /// The acquirer's name in the texts of errors, such as `the bank`.
    peer: &'static str,
    pool: Pool<HttpsConnector<HttpConnector<CheckedResolver>>>,
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
    pub fn new(peer: &'static str, settings: TlsSettings<'_>) -> Result<Self, ClientSettingsError> {
        Self::resolving(peer, settings, None)
    }

    fn resolving(
        peer: &'static str,
        settings: TlsSettings<'_>,
        lookup: Option<Lookup>,
    ) -> Result<Self, ClientSettingsError> {
        let policy = settings.public_addresses_only.then_some(AddressPolicy::PublicOnly);
        let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { policy, lookup });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        let (roots, identity) = (settings.checked_authorities()?, settings.checked_identity()?);
        let connector = HttpsConnector::from((tcp, tls_config(roots, settings.is_https, identity)?));
        Ok(Self { peer, pool: Pool::new(connector, MAX_IDLE_PER_HOST) })
    }

    /// Sends a request, and repeats it if its connection was stale: see [`Pool::send`]. A request that is sent twice has
    /// the same id or idempotency key, so it never moves money twice. One without either needs
    /// [`SendOnce`](crate::SendOnce).
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, SendError> {
        let response = self.pool.send(request).await.map_err(|error| self.failure(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { SendError::TooLarge } else { self.failure(&*error) }
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }

    fn failure(&self, error: &(dyn Error + 'static)) -> SendError {
        if let Some(alert) = tls_alert(error) {
            return SendError::Tls(format!("{} refused TLS with {alert:?}", self.peer));
        }
        let unresolved = causes(error).find_map(|cause| cause.downcast_ref());
        if let Some(refused @ ResolveFailure::Refused(_)) = unresolved {
            return SendError::Connection(format!("the address {refused}, because it is not public"));
        }
        match connection_failure(error) {
            ConnectionFailure::Certificate(reason) => {
                SendError::Tls(format!("{}'s certificate is not valid: {reason}", self.peer))
            }
            failure @ ConnectionFailure::Tls => SendError::Tls(failure.to_string()),
            failure => SendError::Connection(failure.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_merchants_server_is_reached_at_public_addresses_alone() {
        let send = async |public_addresses_only| {
            let settings = TlsSettings { public_addresses_only, ..TlsSettings::default() };
            let lookup: Lookup = Arc::new(|_| vec![IpAddr::from([127, 0, 0, 1])]);
            let transport = Transport::resolving("the server", settings, Some(lookup)).unwrap();
            let request = Request::get("http://btcpay.example.com:1/").body(Full::default()).unwrap();
            transport.send(request).await.err().unwrap().to_string()
        };
        assert_eq!(send(true).await, "the address 127.0.0.1 refused, because it is not public");
        assert_eq!(send(false).await, "connection refused");
    }
}
