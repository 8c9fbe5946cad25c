use domain::url_policy::{AddressPolicy, LocalNames, UrlRefusal, check_url, is_loopback_url};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::pool::ClientCertificate;

const MAX_REQUESTS_PER_SECOND: u32 = 10_000;

#[derive(Clone)]
pub struct Identity {
    pub certificate_pem: String,
    pub private_key_pem: SecretString,
}

domain::text::hidden_debug!(Identity);

/// How a client identifies itself and its acquirer by TLS.
#[derive(Clone, Copy, Default)]
pub struct TlsSettings<'a> {
    pub identity: Option<&'a Identity>,
    /// Certificates in PEM that are trusted in addition to the machine's public roots.
    pub additional_ca_pem: Option<&'a str>,
    /// Whether a URL is https, so that there must be root certificates.
    pub is_https: bool,
    /// For the server of a merchant, whose name must not lead into the service's own network.
    pub public_addresses_only: bool,
}

impl TlsSettings<'_> {
    pub(crate) fn checked_identity(&self) -> Result<Option<ClientCertificate>, ClientSettingsError> {
        let Some(identity) = self.identity else {
            return Ok(None);
        };
        let chain = certificates(&identity.certificate_pem).ok_or(ClientSettingsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(identity.private_key_pem.expose_secret().as_bytes());
        Ok(Some((chain, key.map_err(|_| ClientSettingsError::PrivateKey)?)))
    }

    pub(crate) fn checked_authorities(&self) -> Result<Vec<CertificateDer<'static>>, ClientSettingsError> {
        let pem = self.additional_ca_pem;
        pem.map_or(Ok(Vec::new()), |pem| certificates(pem).ok_or(ClientSettingsError::CertificateAuthority))
    }
}

/// Returns the certificates of a PEM text. `None` if it has none, or one that can't be read.
fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

pub(crate) fn check_requests_per_second(limit: Option<u32>) -> Result<(), ClientSettingsError> {
    let is_valid = limit.is_none_or(|limit| (1..=MAX_REQUESTS_PER_SECOND).contains(&limit));
    is_valid.then_some(()).ok_or(ClientSettingsError::RequestsPerSecond)
}

/// Parses a URL: https, or http to a loopback address. `field` names it in the error. The operator who sets it is bound
/// by the policy of the deployment.
pub fn checked_url(text: &str, field: &'static str) -> Result<Url, ClientSettingsError> {
    let policy = AddressPolicy::PublicOrLocal(LocalNames::default());
    check_url(text, &policy).map_err(|refusal| ClientSettingsError::Url { field, refusal })
}

/// Returns a URL that paths follow, without a slash at its end, and whether it is that of a loopback address.
pub fn checked_base_url(text: &str, field: &'static str) -> Result<(String, bool), ClientSettingsError> {
    let url = checked_url(text, field)?;
    if url.query().is_some() {
        return Err(ClientSettingsError::Field { field, rule: "be without a query" });
    }
    Ok((url.as_str().trim_end_matches('/').to_owned(), is_loopback_url(&url)))
}

/// Why settings can't be used. The texts contain no secret.
#[derive(Debug, thiserror::Error)]
pub enum ClientSettingsError {
    #[error("`{field}` must {rule}")]
    Field { field: &'static str, rule: &'static str },
    #[error("`{field}` {refusal}")]
    Url { field: &'static str, refusal: UrlRefusal },
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
