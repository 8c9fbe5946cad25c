//! What can go wrong on the way to an endpoint, in words for the merchant.
//!
//! Errors of the libraries below are sorted into a closed list and then dropped, so that none of their text, and no
//! detail of our own network, reaches a delivery row.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;
use std::net::IpAddr;
use std::time::Duration;

use domain::url_policy::UrlRefusal;
use rustls::CertificateError;

use super::connector::ResolveFailure;

/// An error has fewer causes than this; the bound is for one that cites itself.
const MAX_CAUSES: usize = 16;

/// Why an endpoint gave no answer. Its text is short and fit for a merchant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The URL may not be posted to; nothing was sent.
    #[error("the URL {0}")]
    Url(#[from] UrlRefusal),
    /// The name resolves to addresses that may not be connected to; nothing was sent. This is the first of them.
    #[error("address {0} is not public")]
    Address(IpAddr),
    /// The name does not resolve.
    #[error("DNS name not found")]
    NameNotFound,
    /// Nothing listens on the port.
    #[error("connection refused")]
    ConnectionRefused,
    /// No connection came about in time.
    #[error("connection timed out")]
    ConnectionTimeout,
    /// There is no way to the address.
    #[error("address unreachable")]
    Unreachable,
    /// TLS: the certificate is not valid, and why.
    #[error("TLS certificate not valid: {0}")]
    Certificate(&'static str),
    /// TLS failed otherwise.
    #[error("TLS handshake failed")]
    Tls,
    /// The endpoint closed the connection before a whole answer's head was there.
    #[error("connection closed before an answer")]
    Closed,
    /// The answer's head is over its limit.
    #[error("answer's headers too large")]
    HeadTooLarge,
    /// What came was not HTTP.
    #[error("answer is not HTTP/1.1")]
    NotHttp,
    /// The answer had not ended after this long.
    #[error("timeout after {}", in_seconds_or_millis(*.0))]
    Timeout(Duration),
    /// None of the above.
    #[error("connection failed")]
    Other,
}

impl Failure {
    /// Sorts an error by the first of its causes that says something.
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

/// The next cause. An I/O error's `source` passes over the error that it wraps.
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
