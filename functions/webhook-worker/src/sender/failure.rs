//! Reasons why a post failed, with texts that merchants read.

use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

use acquirer_http::{ConnectionFailure, causes};
use domain::url_policy::UrlRefusal;

use super::connector::ResolveFailure;

/// Why a post got no complete response. The merchant reads the text in `lastError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The URL policy forbids the URL. Nothing was sent.
    #[error("the URL {0}")]
    Url(#[from] UrlRefusal),
    /// The URL policy forbids all addresses of the name. The value is the first of them. Nothing was sent.
    #[error("address {0} is not public")]
    Address(IpAddr),
    #[error(transparent)]
    Connection(#[from] ConnectionFailure),
    /// The response had not ended after this time.
    #[error("timeout after {}", in_seconds_or_millis(*.0))]
    Timeout(Duration),
}

impl Failure {
    /// Returns the failure that corresponds to the first recognised cause of an error.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let refused = causes(error).find_map(|cause| match cause.downcast_ref() {
            Some(ResolveFailure::Refused(address)) => Some(Self::Address(*address)),
            Some(ResolveFailure::NameNotFound) | None => None,
        });
        refused.unwrap_or_else(|| Self::Connection(ConnectionFailure::of(error)))
    }
}

fn in_seconds_or_millis(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}
