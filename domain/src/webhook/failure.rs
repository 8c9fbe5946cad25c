//! Why an attempt to deliver an event failed. `Display` is `lastError`, which merchants read.

use std::net::IpAddr;
use std::time::Duration;

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
        /// The worker died in the last attempt.
        CutShort = "the last attempt was cut short";
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

fn in_seconds_or_millis(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}
