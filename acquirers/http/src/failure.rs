//! Reasons why a connection failed. Errors of libraries are mapped to a closed list, and their texts are dropped: they
//! may contain a URL, or a detail of the service's network.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use rustls::{AlertDescription, CertificateError};

/// The most causes of an error that are examined. Real errors have fewer. The limit ends a chain that
/// contains itself.
const MAX_CAUSES: usize = 16;

/// Why a connection failed. Merchants read the text in `lastError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionFailure {
    #[error("DNS name not found")]
    NameNotFound,
    /// Nothing listens on the port.
    #[error("connection refused")]
    Refused,
    /// The connection was not established in time.
    #[error("connection timed out")]
    Timeout,
    #[error("address unreachable")]
    Unreachable,
    /// The server's certificate is not valid, for this reason.
    #[error("TLS certificate not valid: {0}")]
    Certificate(&'static str),
    /// The value is the server's alert, if it sent one.
    #[error("TLS handshake failed")]
    Tls(Option<AlertDescription>),
    /// The server closed the connection before its answer was complete.
    #[error("connection closed before an answer")]
    Closed,
    /// The head of the answer exceeds its limit.
    #[error("answer's headers too large")]
    HeadTooLarge,
    #[error("answer is not HTTP/1.1")]
    NotHttp,
    #[error("connection failed")]
    Other,
}

impl ConnectionFailure {
    /// Returns the failure that corresponds to the first recognised cause of an error.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()).map(of_tls);
        tls.or_else(|| causes(error).find_map(of_one)).unwrap_or(Self::Other)
    }
}

pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
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

fn of_tls(error: &rustls::Error) -> ConnectionFailure {
    match error {
        rustls::Error::InvalidCertificate(error) => ConnectionFailure::Certificate(certificate(error)),
        rustls::Error::NoCertificatesPresented => ConnectionFailure::Certificate("none presented"),
        rustls::Error::AlertReceived(alert) => ConnectionFailure::Tls(Some(*alert)),
        _ => ConnectionFailure::Tls(None),
    }
}

fn of_one(error: &(dyn Error + 'static)) -> Option<ConnectionFailure> {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return of_hyper(error);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    // The type of this error is not public.
    (error.to_string() == "dns error").then_some(ConnectionFailure::NameNotFound)
}

fn of_hyper(error: &hyper::Error) -> Option<ConnectionFailure> {
    if error.is_parse_too_large() {
        Some(ConnectionFailure::HeadTooLarge)
    } else if error.is_parse() {
        Some(ConnectionFailure::NotHttp)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some(ConnectionFailure::Closed)
    } else {
        None
    }
}

fn of_io(error: &io::Error) -> Option<ConnectionFailure> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(ConnectionFailure::Refused),
        ErrorKind::TimedOut => Some(ConnectionFailure::Timeout),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some(ConnectionFailure::Unreachable)
        }
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(ConnectionFailure::Closed),
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
        assert_eq!(ConnectionFailure::of(&error).to_string(), ConnectionFailure::Closed.to_string());
        let error = requests.ready().await.unwrap_err();
        assert!(error.is_closed(), "{error}");
        assert_eq!(ConnectionFailure::of(&error).to_string(), ConnectionFailure::Closed.to_string());
    }

    #[test]
    fn an_error_of_the_connection_or_of_its_certificate_has_a_reason_of_its_own() {
        let of_io = |kind: ErrorKind| ConnectionFailure::of(&io::Error::from(kind)).to_string();
        for kind in [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable, ErrorKind::AddrNotAvailable] {
            assert_eq!(of_io(kind), ConnectionFailure::Unreachable.to_string(), "{kind}");
        }
        for kind in [
            ErrorKind::ConnectionReset,
            ErrorKind::ConnectionAborted,
            ErrorKind::BrokenPipe,
            ErrorKind::NotConnected,
            ErrorKind::UnexpectedEof,
        ] {
            assert_eq!(of_io(kind), ConnectionFailure::Closed.to_string(), "{kind}");
        }
        let of_tls = |error: rustls::Error| ConnectionFailure::of(&io::Error::other(error)).to_string();
        for (error, reason) in [
            (CertificateError::Revoked, "revoked"),
            (CertificateError::BadSignature, "bad signature"),
            (CertificateError::BadEncoding, "malformed"),
            (CertificateError::InvalidPurpose, "not issued for servers"),
        ] {
            let found = of_tls(rustls::Error::InvalidCertificate(error));
            assert_eq!(found, ConnectionFailure::Certificate(reason).to_string());
        }
        let found = of_tls(rustls::Error::NoCertificatesPresented);
        assert_eq!(found, ConnectionFailure::Certificate("none presented").to_string());
    }
}
