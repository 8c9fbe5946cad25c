//! Opens connections: resolves the name, checks its addresses against the URL policy, then connects by TCP
//! and TLS.
//!
//! The check is in the resolver, because connections are opened to exactly the addresses that it returns.
//! After an earlier check, the name might resolve to other addresses. Literal addresses bypass the resolver,
//! so the sender checks them before.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use domain::url_policy::AddressPolicy;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::util::MapResponse;
use tower::{Service, ServiceExt};

use super::{Lookup, SenderError};

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

pub(super) type Connector =
    HttpsConnector<MapResponse<HttpConnector<CheckedResolver>, fn(TokioIo<TcpStream>) -> Marked>>;

pub(super) fn new(
    policy: &AddressPolicy,
    connect_time_limit: Duration,
    extra_roots: Vec<CertificateDer<'static>>,
    lookup: Option<Lookup>,
) -> Result<Connector, SenderError> {
    let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { policy: policy.clone(), lookup });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // hyper divides this time among a name's addresses. So an address that does not respond leaves time for
    // the next.
    tcp.set_connect_timeout(Some(connect_time_limit));
    let mark: fn(TokioIo<TcpStream>) -> Marked = Marked::new;
    let mut connector = HttpsConnector::from((tcp.map_response(mark), tls(policy, extra_roots)?));
    match policy {
        AddressPolicy::PublicOnly => connector.enforce_https(),
        AddressPolicy::PublicOrLocal(_) => {}
    }
    Ok(connector)
}

fn tls(
    policy: &AddressPolicy,
    extra_roots: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, SenderError> {
    let mut roots = RootCertStore::empty();
    // Certificates of the machine that can't be parsed are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for root in extra_roots {
        roots.add(root)?;
    }
    // A developer's machine without root certificates can still post to loopback by plain http.
    if roots.is_empty() && *policy == AddressPolicy::PublicOnly {
        return Err(SenderError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
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

/// Whether a connection has carried a response. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A TCP connection with an [`Answered`] flag, which the HTTP client passes on with responses and errors.
pub(super) struct Marked {
    tcp: TokioIo<TcpStream>,
    answered: Answered,
}

impl Marked {
    fn new(tcp: TokioIo<TcpStream>) -> Self {
        Self { tcp, answered: Answered::default() }
    }

    fn tcp(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().tcp)
    }
}

impl Connection for Marked {
    fn connected(&self) -> Connected {
        self.tcp.connected().extra(self.answered.clone())
    }
}

impl Read for Marked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_read(cx, buf)
    }
}

impl Write for Marked {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.tcp().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.tcp().poll_write_vectored(cx, parts)
    }
}
