//! Why an attempt to deliver an event failed. `Display` is `lastError`, which merchants read.

use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::url_policy::UrlRefusal;

crate::fact! {
    /// Why an attempt failed.
    pub enum AttemptFailure {
        Answered(u16) = "answered {0}";
        Redirected(u16) = "answered {0}; redirects are not followed";
        /// The URL policy forbids the URL. Nothing was sent.
        Url(#[from] UrlRefusal) = "the URL {0}";
        /// The URL policy forbids all addresses of the name. The value is the first of them. Nothing was sent.
        Address(IpAddr) = "address {0} is not public";
        Connection(#[from] ConnectionFailure) = "{0}";
        /// The response had not ended after this time.
        Timeout(Duration) = "timeout after {}", in_seconds_or_millis;
        /// The worker died during the attempt.
        CutShort = "the attempt was cut short";
        /// The row of the event, of the endpoint or of the secret can't be read.
        Unreadable = "the event can't be read";
    }
}

crate::fact! {
    /// Why a connection to a server failed.
    #[derive(Copy)]
    pub enum ConnectionFailure {
        NameNotFound = "DNS name not found";
        /// Nothing listens on the port.
        Refused = "connection refused";
        /// The connection was not established in time.
        Timeout = "connection timed out";
        Unreachable = "address unreachable";
        Certificate(CertificateFault) = "TLS certificate not valid: {0}";
        Tls = "TLS handshake failed";
        /// The server closed the connection before its answer was complete.
        Closed = "connection closed before an answer";
        /// The head of the answer exceeds its limit.
        HeadTooLarge = "answer's headers too large";
        NotHttp = "answer is not HTTP/1.1";
        Other = "connection failed";
    }
}

crate::fact! {
    /// Why a TLS certificate is not valid.
    #[derive(Copy)]
    pub enum CertificateFault {
        Expired = "expired";
        NotValidYet = "not valid yet";
        OtherName = "issued for another name";
        UnknownIssuer = "unknown issuer, or an intermediate certificate is missing";
        Revoked = "revoked";
        BadSignature = "bad signature";
        Malformed = "malformed";
        NotForServers = "not issued for servers";
        NonePresented = "none presented";
        NotAcceptable = "not acceptable";
    }
}

/// The kind of a failure, which programs read. The guide has a remedy for each.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, Serialize, JsonSchema, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[schemars(rename = "WebhookFailureCode", description = "The kind of a failure.")]
pub enum FailureCode {
    /// The server redirected.
    #[serde(rename = "http_3xx")]
    #[strum(serialize = "http_3xx")]
    Http3xx,
    /// The server refused the request.
    #[serde(rename = "http_4xx")]
    #[strum(serialize = "http_4xx")]
    Http4xx,
    /// The server failed, or answered with a status that no receiver answers.
    #[serde(rename = "http_5xx")]
    #[strum(serialize = "http_5xx")]
    Http5xx,
    /// The answer had not ended after 30 s.
    Timeout,
    /// The DNS has no such name.
    DnsNotFound,
    /// Nothing listens on the port.
    ConnectionRefused,
    /// The server was not reached, or not in time.
    Unreachable,
    /// The TLS certificate has expired.
    TlsExpired,
    /// The TLS certificate is not valid for another reason, or the handshake failed.
    TlsInvalid,
    /// The connection was closed before an answer.
    ConnectionClosed,
    /// The answer is not valid HTTP/1.1.
    NotHttp,
    /// The rules forbid the URL or its address.
    UrlNotAllowed,
    /// The worker of the attempt died. The receiver may have got the event.
    Interrupted,
    /// The event can't be read.
    Unreadable,
}

crate::named!(FailureCode);

impl AttemptFailure {
    pub fn code(&self) -> FailureCode {
        match self {
            Self::Answered(300..=399) | Self::Redirected(_) => FailureCode::Http3xx,
            Self::Answered(400..=499) => FailureCode::Http4xx,
            Self::Answered(_) => FailureCode::Http5xx,
            Self::Url(_) | Self::Address(_) => FailureCode::UrlNotAllowed,
            Self::Timeout(_) => FailureCode::Timeout,
            Self::CutShort => FailureCode::Interrupted,
            Self::Unreadable => FailureCode::Unreadable,
            Self::Connection(failure) => match failure {
                ConnectionFailure::NameNotFound => FailureCode::DnsNotFound,
                ConnectionFailure::Refused => FailureCode::ConnectionRefused,
                ConnectionFailure::Timeout | ConnectionFailure::Unreachable | ConnectionFailure::Other => {
                    FailureCode::Unreachable
                }
                ConnectionFailure::Certificate(CertificateFault::Expired) => FailureCode::TlsExpired,
                ConnectionFailure::Certificate(_) | ConnectionFailure::Tls => FailureCode::TlsInvalid,
                ConnectionFailure::Closed => FailureCode::ConnectionClosed,
                ConnectionFailure::HeadTooLarge | ConnectionFailure::NotHttp => FailureCode::NotHttp,
            },
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
