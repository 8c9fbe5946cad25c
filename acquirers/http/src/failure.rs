//! Reasons why a connection failed. Errors of libraries are mapped to a closed list, and their texts are dropped: they
//! may contain a URL, or a detail of the service's network.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use domain::webhook::failure::{CertificateFault, ConnectionFailure};
use rustls::{AlertDescription, CertificateError};

/// The most causes of an error that are examined. Real errors have fewer. The limit ends a chain that
/// contains itself.
const MAX_CAUSES: usize = 16;

/// Returns the failure that corresponds to the first recognised cause of an error.
pub fn connection_failure(error: &(dyn Error + 'static)) -> ConnectionFailure {
    let tls = tls_error(error).map(of_tls);
    tls.or_else(|| causes(error).find_map(of_one)).unwrap_or(ConnectionFailure::Other)
}

/// Returns the alert by which the server refused TLS. The names of alerts come from a closed list.
pub(crate) fn tls_alert(error: &(dyn Error + 'static)) -> Option<AlertDescription> {
    if let rustls::Error::AlertReceived(alert) = tls_error(error)? { Some(*alert) } else { None }
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
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
        rustls::Error::NoCertificatesPresented => {
            ConnectionFailure::Certificate(CertificateFault::NonePresented)
        }
        _ => ConnectionFailure::Tls,
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

fn certificate(error: &CertificateError) -> CertificateFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotValidYet
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::OtherName
        }
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        CertificateError::Revoked => CertificateFault::Revoked,
        CertificateError::BadSignature => CertificateFault::BadSignature,
        CertificateError::BadEncoding => CertificateFault::Malformed,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            CertificateFault::NotForServers
        }
        _ => CertificateFault::NotAcceptable,
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
        assert_eq!(connection_failure(&error).to_string(), ConnectionFailure::Closed.to_string());
        let error = requests.ready().await.unwrap_err();
        assert!(error.is_closed(), "{error}");
        assert_eq!(connection_failure(&error).to_string(), ConnectionFailure::Closed.to_string());
    }

    #[test]
    fn an_error_of_the_connection_or_of_its_certificate_has_a_reason_of_its_own() {
        let of_io = |kind: ErrorKind| connection_failure(&io::Error::from(kind)).to_string();
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
        let of_tls = |error: rustls::Error| connection_failure(&io::Error::other(error)).to_string();
        for (error, reason) in [
            (CertificateError::Revoked, CertificateFault::Revoked),
            (CertificateError::BadSignature, CertificateFault::BadSignature),
            (CertificateError::BadEncoding, CertificateFault::Malformed),
            (CertificateError::InvalidPurpose, CertificateFault::NotForServers),
        ] {
            let found = of_tls(rustls::Error::InvalidCertificate(error));
            assert_eq!(found, ConnectionFailure::Certificate(reason).to_string());
        }
        let found = of_tls(rustls::Error::NoCertificatesPresented);
        assert_eq!(found, ConnectionFailure::Certificate(CertificateFault::NonePresented).to_string());
    }
}
