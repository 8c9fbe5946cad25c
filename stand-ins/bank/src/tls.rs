use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The server's certificate, and the authority whose certificates clients must present. All texts are PEM.
#[derive(Clone)]
pub struct ServerTls {
    pub certificate_pem: String,
    pub key_pem: String,
    /// The authority of client certificates. With it, a connection without a certificate of this authority
    /// fails.
    pub client_ca_pem: Option<String>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn certificates(pem: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(invalid)
}

fn private_key(pem: &str) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(invalid)
}

fn roots(pem: &str) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(invalid)?;
    }
    Ok(roots)
}

pub(crate) fn server_config(tls: &ServerTls) -> io::Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    let builder = match &tls.client_ca_pem {
        None => builder.with_no_client_auth(),
        Some(pem) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider())
                .build()
                .map_err(invalid)?,
        ),
    };
    let config = builder
        .with_single_cert(certificates(&tls.certificate_pem)?, private_key(&tls.key_pem)?)
        .map_err(invalid)?;
    Ok(Arc::new(config))
}
