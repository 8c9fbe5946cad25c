//! Opens connections: resolves the name, checks its addresses against the URL policy, then connects by TCP
//! and TLS.
//!
//! The check is in the resolver, because connections are opened to exactly the addresses that it returns.
//! After an earlier check, the name might resolve to other addresses. Literal addresses bypass the resolver,
//! so the sender checks them before.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use acquirer_http::{ClientSettingsError, tls_config};
use domain::url_policy::AddressPolicy;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::pki_types::CertificateDer;
use tower::Service;

use super::Lookup;

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

pub(super) type Connector = HttpsConnector<HttpConnector<CheckedResolver>>;

pub(super) fn new(
    policy: &AddressPolicy,
    connect_time_limit: Duration,
    extra_roots: Vec<CertificateDer<'static>>,
    lookup: Option<Lookup>,
) -> Result<Connector, ClientSettingsError> {
    let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { policy: policy.clone(), lookup });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // hyper divides this time among a name's addresses. So an address that does not respond leaves time for
    // the next.
    tcp.set_connect_timeout(Some(connect_time_limit));
    let is_https = *policy == AddressPolicy::PublicOnly;
    let mut connector = HttpsConnector::from((tcp, tls_config(extra_roots, is_https, None)?));
    if is_https {
        connector.enforce_https();
    }
    Ok(connector)
}

/// Resolves names. Returns only the addresses that the policy allows.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    policy: AddressPolicy,
    lookup: Option<Lookup>,
}

impl CheckedResolver {
    async fn resolve(self, name: Name) -> Result<vec::IntoIter<SocketAddr>, ResolveFailure> {
        let found: Vec<SocketAddr> = match self.lookup {
            // The connector replaces port 0 by the URL's port.
            Some(lookup) => lookup(name.as_str()).into_iter().map(|address| (address, 0).into()).collect(),
            None => tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|_| ResolveFailure::NameNotFound)?
                .collect(),
        };
        let (mut allowed, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| self.policy.allows_resolved(name.as_str(), address.ip()));
        allowed.truncate(MAX_ADDRESSES);
        match (allowed.is_empty(), refused.first()) {
            (false, _) => Ok(allowed.into_iter()),
            (true, Some(address)) => Err(ResolveFailure::Refused(address.ip())),
            (true, None) => Err(ResolveFailure::NameNotFound),
        }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = ResolveFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveFailure {
    /// The name has no address, or the name servers did not respond. The machine's resolver does not reliably
    /// distinguish the two.
    #[error("name not found")]
    NameNotFound,
    /// The policy forbids all addresses of the name. The value is the first of them.
    #[error("{0} refused")]
    Refused(IpAddr),
}
