//! Resolves names, and checks their addresses against a policy.
//!
//! The check is in the resolver, because connections are opened to exactly the addresses that it returns.
//! After an earlier check, the name might resolve to other addresses. Literal addresses bypass the resolver,
//! so the caller checks them before.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use domain::url_policy::AddressPolicy;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Replaces the machine's resolver. Returns the addresses of a name; none: the name does not exist. The address
/// policy applies to them too.
pub type Lookup = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// Resolves names. Returns only the addresses that the policy allows.
#[derive(Clone)]
pub struct CheckedResolver {
    /// `None`: any address.
    pub policy: Option<AddressPolicy>,
    pub lookup: Option<Lookup>,
}

impl CheckedResolver {
    fn allows(&self, name: &str, address: IpAddr) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.allows_resolved(name, address))
    }

    async fn resolve(self, name: Name) -> Result<vec::IntoIter<SocketAddr>, ResolveFailure> {
        let found: Vec<SocketAddr> = match &self.lookup {
            // The connector replaces port 0 by the URL's port.
            Some(lookup) => lookup(name.as_str()).into_iter().map(|address| (address, 0).into()).collect(),
            None => tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|_| ResolveFailure::NameNotFound)?
                .collect(),
        };
        let (mut allowed, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| self.allows(name.as_str(), address.ip()));
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
pub enum ResolveFailure {
    /// The name has no address, or the name servers did not respond. The machine's resolver does not reliably
    /// distinguish the two.
    #[error("name not found")]
    NameNotFound,
    /// The policy forbids all addresses of the name. The value is the first of them.
    #[error("{0} refused")]
    Refused(IpAddr),
}
