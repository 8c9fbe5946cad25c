//! Connections that are reused, by HTTP/1.1 over TLS 1.2 or 1.3, without redirects and proxies.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use domain::webhook::failure::ConnectionFailure;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::http::Extensions;
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::{Connect, HttpInfo};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::{ClientSettingsError, connection_failure};

/// The most bytes of an answer's head. The last read may exceed this limit by up to the same amount.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How long an idle connection is kept. It is shorter than the idle timeouts of NAT gateways (350 s) and of
/// most servers (60 s).
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// The most connections that are remembered because they carried an answer.
const MAX_ANSWERED: usize = 32;

/// A client certificate with the chain of its issuers, and its private key.
pub(crate) type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// An extension of a request that has another effect each time the server gets it. It is sent once, on a new connection.
#[derive(Clone, Copy, Debug)]
pub struct SendOnce;

pub struct Pool<C> {
    pooled: Client<C, Full<Bytes>>,
    /// Never reuses a connection. Repeats a request that failed because a pooled connection was stale, and sends what must
    /// not be repeated.
    fresh: Client<C, Full<Bytes>>,
    /// The local addresses of connections that carried an answer, the newest last.
    answered: Mutex<VecDeque<SocketAddr>>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Pool<C> {
    pub fn new(connector: C, max_idle_per_host: usize) -> Self {
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_LIMIT).http1_max_buf_size(MAX_HEAD_BYTES);
        Self {
            pooled: client.pool_max_idle_per_host(max_idle_per_host).build(connector.clone()),
            fresh: client.pool_max_idle_per_host(0).build(connector),
            answered: Mutex::new(VecDeque::new()),
        }
    }

    /// Sends a request, and returns the head of the answer.
    ///
    /// If a reused connection turns out to be closed, the request is repeated once on a new one. The HTTP
    /// client itself repeats only what was certainly not written. But a process that was frozen between two
    /// invocations may write to a connection before it reads that the server has closed it. So the server may get a
    /// request twice, as after any lost answer, unless it has the extension [`SendOnce`].
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Error> {
        if request.extensions().get::<SendOnce>().is_some() {
            return self.fresh.request(request).await;
        }
        let repeated = request.clone();
        let response = match self.pooled.request(request).await {
            Err(error) if self.is_stale(&error) => self.fresh.request(repeated).await,
            outcome => outcome,
        }?;
        if let Some(connection) = response.extensions().get::<HttpInfo>() {
            self.remember(connection.local_addr());
        }
        Ok(response)
    }

    fn remember(&self, connection: SocketAddr) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if !answered.contains(&connection) {
            if answered.len() >= MAX_ANSWERED {
                answered.pop_front();
            }
            answered.push_back(connection);
        }
    }

    /// Whether a request failed because its connection was stale: the connection has carried an answer before
    /// and is closed now.
    fn is_stale(&self, error: &Error) -> bool {
        let mut extras = Extensions::new();
        if let Some(connected) = error.connect_info() {
            connected.get_extras(&mut extras);
        }
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        connection_failure(error) == ConnectionFailure::Closed
            && extras.get::<HttpInfo>().is_some_and(|info| answered.contains(&info.local_addr()))
    }
}

/// Trusts the machine's root certificates and `roots`. A developer's machine without any can still send by plain http,
/// unless `is_https`.
pub fn tls_config(
    roots: Vec<CertificateDer<'static>>,
    is_https: bool,
    identity: Option<ClientCertificate>,
) -> Result<ClientConfig, ClientSettingsError> {
    let mut all_roots = public_roots().clone();
    for root in roots {
        all_roots.add(root)?;
    }
    if all_roots.is_empty() && is_https {
        return Err(ClientSettingsError::NoRoots);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(all_roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The machine's root certificates, read once in a process. Certificates that can't be parsed are skipped.
fn public_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}
