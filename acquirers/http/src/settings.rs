use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use url::{Host, Url};

use crate::pool::ClientCertificate;

const MAX_REQUESTS_PER_SECOND: u32 = 10_000;

#[derive(Clone)]
pub struct Identity {
    pub certificate_pem: String,
    pub private_key_pem: SecretString,
}

/// Omits the texts. The file of the certificate may contain the key too.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// How a client identifies itself and its acquirer by TLS.
#[derive(Clone, Copy, Default)]
pub struct TlsSettings<'a> {
    pub identity: Option<&'a Identity>,
    /// Certificates in PEM that are trusted in addition to the machine's public roots.
    pub additional_ca_pem: Option<&'a str>,
    /// Whether a URL is https, so that there must be root certificates.
    pub is_https: bool,
}

impl TlsSettings<'_> {
    pub(crate) fn checked_identity(&self) -> Result<Option<ClientCertificate>, SettingsError> {
        let Some(identity) = self.identity else {
            return Ok(None);
        };
        let chain = certificates(&identity.certificate_pem).ok_or(SettingsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(identity.private_key_pem.expose_secret().as_bytes());
        Ok(Some((chain, key.map_err(|_| SettingsError::PrivateKey)?)))
    }

    pub(crate) fn checked_authorities(&self) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
        let pem = self.additional_ca_pem;
        pem.map_or(Ok(Vec::new()), |pem| certificates(pem).ok_or(SettingsError::CertificateAuthority))
    }
}

/// Returns the certificates of a PEM text. `None` if it has none, or one that can't be read.
fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

pub(crate) fn check_requests_per_second(limit: Option<u32>) -> Result<(), SettingsError> {
    let is_valid = limit.is_none_or(|limit| (1..=MAX_REQUESTS_PER_SECOND).contains(&limit));
    is_valid.then_some(()).ok_or(SettingsError::RequestsPerSecond)
}

/// Parses a URL: https, or http to a loopback address or `localhost`. `field` names it in the error.
pub fn checked_url(text: &str, field: &'static str) -> Result<Url, SettingsError> {
    let error = |rule| SettingsError::Field { field, rule };
    let url = Url::parse(text).map_err(|_| error("be an absolute URL"))?;
    if url.host().is_none() {
        return Err(error("be an absolute URL"));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        _ => return Err(error("be https; http is only allowed for a loopback address or localhost")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error("be without user name and password"));
    }
    if url.fragment().is_some() {
        return Err(error("be without a fragment"));
    }
    Ok(url)
}

/// Returns a URL that paths follow, without a slash at its end, and whether it is that of a loopback address.
pub fn checked_base_url(text: &str, field: &'static str) -> Result<(String, bool), SettingsError> {
    let url = checked_url(text, field)?;
    if url.query().is_some() {
        return Err(SettingsError::Field { field, rule: "be without a query" });
    }
    Ok((url.as_str().trim_end_matches('/').to_owned(), is_loopback(&url)))
}

/// Whether the host is a loopback address or `localhost`.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        None => false,
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
    }
}

/// Why settings can't be used. The texts contain no secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("`{field}` must {rule}")]
    Field { field: &'static str, rule: &'static str },
    #[error("the header {0:?} must have a valid name and a value without control characters")]
    Header(String),
    #[error("the client certificate must be PEM")]
    Certificate,
    #[error("the private key must be PEM (PKCS #8, PKCS #1 or SEC 1) and not encrypted")]
    PrivateKey,
    #[error("the additional certificate authority must be PEM certificates")]
    CertificateAuthority,
    #[error("`requests_per_second` must be from 1 to 10000")]
    RequestsPerSecond,
    /// A URL is https, but the machine has no root certificates and the settings have none.
    #[error("no trusted root certificates on this machine")]
    NoRoots,
    #[error("TLS settings: {0}")]
    Tls(#[from] rustls::Error),
}
