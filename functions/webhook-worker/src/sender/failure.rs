//! Reasons why a post failed, with texts that merchants read.
//!
//! Errors of libraries are mapped to a closed list, and their texts are dropped. So no detail of the
//! service's network gets into a delivery's row.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;
use std::net::IpAddr;
use std::time::Duration;

use domain::url_policy::UrlRefusal;
use rustls::CertificateError;

use super::connector::ResolveFailure;

/// The most causes of an error that are examined. Real errors have fewer. The limit ends a chain that
/// contains itself.
const MAX_CAUSES: usize = 16;

/// Why a post got no complete response. The merchant reads the text in `lastError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The URL policy forbids the URL. Nothing was sent.
    #[error("the URL {0}")]
    Url(#[from] UrlRefusal),
    /// The URL policy forbids all addresses of the name. The value is the first of them. Nothing was sent.
    #[error("address {0} is not public")]
    Address(IpAddr),
    #[error("DNS name not found")]
    NameNotFound,
    /// Nothing listens on the port.
    #[error("connection refused")]
    ConnectionRefused,
    /// The connection was not established in time.
    #[error("connection timed out")]
    ConnectionTimeout,
    #[error("address unreachable")]
    Unreachable,
    /// The TLS certificate is not valid, for this reason.
    #[error("TLS certificate not valid: {0}")]
    Certificate(&'static str),
    #[error("TLS handshake failed")]
    Tls,
    /// The receiver closed the connection before the head of its response was complete.
    #[error("connection closed before an answer")]
    Closed,
    /// The head of the response exceeds its limit.
    #[error("answer's headers too large")]
    HeadTooLarge,
    #[error("answer is not HTTP/1.1")]
    NotHttp,
    /// The response had not ended after this time.
    #[error("timeout after {}", in_seconds_or_millis(*.0))]
    Timeout(Duration),
    #[error("connection failed")]
    Other,
}

impl Failure {
    /// Returns the failure that corresponds to the first recognised cause in an error's chain.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        iter::successors(Some(error), |error| cause(*error))
            .take(MAX_CAUSES)
            .find_map(Self::of_one)
            .unwrap_or(Self::Other)
    }

    fn of_one(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<ResolveFailure>() {
            return Some(match error {
                ResolveFailure::NameNotFound => Self::NameNotFound,
                ResolveFailure::Refused(address) => Self::Address(*address),
            });
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(match error {
                rustls::Error::InvalidCertificate(error) => Self::Certificate(certificate(error)),
                rustls::Error::NoCertificatesPresented => Self::Certificate("none presented"),
                _ => Self::Tls,
            });
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return Self::of_hyper(error);
        }
        error.downcast_ref::<io::Error>().and_then(Self::of_io)
    }

    fn of_hyper(error: &hyper::Error) -> Option<Self> {
        if error.is_parse_too_large() {
            Some(Self::HeadTooLarge)
        } else if error.is_parse() {
            Some(Self::NotHttp)
        } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            Some(Self::Closed)
        } else {
            None
        }
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::ConnectionRefused => Some(Self::ConnectionRefused),
            ErrorKind::TimedOut => Some(Self::ConnectionTimeout),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
                Some(Self::Unreachable)
            }
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof => Some(Self::Closed),
            _ => None,
        }
    }
}

fn in_seconds_or_millis(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}

/// Returns the next cause of an error. `source` of an I/O error skips the error that it wraps, so `get_ref`
/// is tried first.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "issued for another name"
        }
        CertificateError::UnknownIssuer => "unknown issuer, or an intermediate certificate is missing",
        CertificateError::Revoked => "revoked",
        CertificateError::BadSignature => "bad signature",
        CertificateError::BadEncoding => "malformed",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "not issued for servers"
        }
        _ => "not acceptable",
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use hyper::Request;
    use hyper::body::Bytes;
    use hyper::client::conn::http1::handshake;
    use hyper_util::rt::TokioIo;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_ends_before_a_request_is_sent_has_closed() {
        let (client, _server) = tokio::io::duplex(64);
        let (mut requests, connection) = handshake(TokioIo::new(client)).await.unwrap();
        let sent = requests.send_request(Request::new(Empty::<Bytes>::new()));
        drop(connection);
        let error = sent.await.unwrap_err();
        assert!(error.is_canceled(), "{error}");
        assert_eq!(Failure::of(&error).to_string(), Failure::Closed.to_string());
        let error = requests.ready().await.unwrap_err();
        assert!(error.is_closed(), "{error}");
        assert_eq!(Failure::of(&error).to_string(), Failure::Closed.to_string());
    }

    #[test]
    fn an_error_of_the_connection_or_of_its_certificate_has_a_reason_of_its_own() {
        let of_io = |kind: ErrorKind| Failure::of(&io::Error::from(kind)).to_string();
        for kind in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable, ErrorKind::AddrNotAvailable] {
            assert_eq!(of_io(kind), Failure::Unreachable.to_string(), "{kind}");
        }
        for kind in [
            ErrorKind::ConnectionReset,
            ErrorKind::ConnectionAborted,
            ErrorKind::BrokenPipe,
            ErrorKind::NotConnected,
            ErrorKind::UnexpectedEof,
        ] {
            assert_eq!(of_io(kind), Failure::Closed.to_string(), "{kind}");
        }
        let of_tls = |error: rustls::Error| Failure::of(&io::Error::other(error)).to_string();
        for (error, reason) in [
            (CertificateError::Revoked, "revoked"),
            (CertificateError::BadSignature, "bad signature"),
            (CertificateError::BadEncoding, "malformed"),
            (CertificateError::InvalidPurpose, "not issued for servers"),
        ] {
            let found = of_tls(rustls::Error::InvalidCertificate(error));
            assert_eq!(found, Failure::Certificate(reason).to_string());
        }
        let found = of_tls(rustls::Error::NoCertificatesPresented);
        assert_eq!(found, Failure::Certificate("none presented").to_string());
    }
}
