use std::net::IpAddr;

use domain::time::Timestamp;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use url::{Host, Url};

use crate::certificate;
use crate::fields::partial_debug;

const MAX_REQUESTS_PER_SECOND: u32 = 10_000;

/// How the client authenticates when it requests a token (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, IntoStaticStr, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TokenAuthentication {
    /// `Authorization: Basic`, with id and secret as they are.
    #[default]
    Basic,
    /// `client_id` and `client_secret` in the form.
    Body,
}

#[derive(Clone)]
pub struct Identity {
    pub certificate_pem: String,
    pub private_key_pem: SecretString,
}

// Omits the texts. The file of the certificate may contain the key too.
partial_debug!(Identity {});

/// How to connect to a bank. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The URL that the routes of the API follow, such as `https://pix.example.com/v2`. It must be https,
    /// except for a loopback address or `localhost`.
    pub base_url: String,
    /// The URL of the token endpoint. The same rule applies.
    pub token_url: String,
    /// The `OAuth2` scopes, separated by spaces. `None`: the token request has no `scope`.
    pub scope: Option<String>,
    pub token_authentication: TokenAuthentication,
    pub client_id: String,
    pub client_secret: SecretString,
    pub identity: Option<Identity>,
    /// Certificates in PEM that are trusted in addition to the machine's public roots.
    pub additional_ca_pem: Option<String>,
    pub headers: Vec<(String, SecretString)>,
    pub query_parameters: Vec<(String, SecretString)>,
    /// Additional headers of the registration of a callback URL.
    pub webhook_headers: Vec<(String, SecretString)>,
    /// The most API requests a second, 1 to 10,000. The limit applies to one [`Client`](crate::Client) and
    /// its clones. Token requests do not count.
    pub requests_per_second: Option<u32>,
}

impl ConnectionSettings {
    /// Returns the first and the last second in which the client certificate is valid. `None` if there is none, or
    /// if it can't be read.
    pub fn certificate_validity(&self) -> Option<(Timestamp, Timestamp)> {
        let identity = self.identity.as_ref()?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).ok()?;
        certificate::validity(&certificate)
    }

    /// Returns the base URL without a slash at its end.
    pub(crate) fn checked_base_url(&self) -> Result<String, SettingsError> {
        let url = checked_url(&self.base_url, "base_url")?;
        if url.query().is_some() {
            return Err(SettingsError::Url { field: "base_url", expected: "without a query" });
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    pub(crate) fn checked_token_url(&self) -> Result<String, SettingsError> {
        checked_url(&self.token_url, "token_url").map(Into::into)
    }

    pub(crate) fn checked_requests_per_second(&self) -> Result<Option<u32>, SettingsError> {
        match self.requests_per_second {
            Some(0) => Err(SettingsError::RequestsPerSecond),
            Some(limit) if limit > MAX_REQUESTS_PER_SECOND => Err(SettingsError::RequestsPerSecond),
            limit => Ok(limit),
        }
    }

    pub(crate) fn checked_identity(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, SettingsError> {
        let Some(identity) = &self.identity else {
            return Ok(None);
        };
        let chain = certificates(&identity.certificate_pem).ok_or(SettingsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(identity.private_key_pem.expose_secret().as_bytes());
        Ok(Some((chain, key.map_err(|_| SettingsError::PrivateKey)?)))
    }

    pub(crate) fn checked_authorities(&self) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
        let pem = self.additional_ca_pem.as_deref();
        pem.map_or(Ok(Vec::new()), |pem| certificates(pem).ok_or(SettingsError::CertificateAuthority))
    }
}

/// Returns the certificates of a PEM text. `None` if it has none, or one that can't be read.
fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    (!certificates.is_empty()).then_some(certificates)
}

/// Returns the headers. Their values are marked as sensitive, so that no library logs them.
pub(crate) fn checked_headers(headers: &[(String, SecretString)]) -> Result<HeaderMap, SettingsError> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let error = || SettingsError::Header(name.clone());
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| error())?;
        value.set_sensitive(true);
        checked.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| error())?, value);
    }
    Ok(checked)
}

fn checked_url(text: &str, field: &'static str) -> Result<Url, SettingsError> {
    let error = |expected| SettingsError::Url { field, expected };
    let url = Url::parse(text).map_err(|_| error("an absolute URL"))?;
    let is_loopback = match url.host() {
        None => return Err(error("an absolute URL")),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback => {}
        _ => return Err(error("https; http is only allowed for a loopback address or localhost")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(error("without user name and password"));
    }
    if url.fragment().is_some() {
        return Err(error("without a fragment"));
    }
    Ok(url)
}

/// Why settings can't be used. The texts contain no secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("`{field}` must be {expected}")]
    Url { field: &'static str, expected: &'static str },
    #[error("the header {0:?} must have a valid name and a value without control characters")]
    Header(String),
    #[error("`client_id` must not contain a colon if the token authentication is basic")]
    ClientId,
    #[error("the client certificate must be PEM")]
    Certificate,
    #[error("the private key must be PEM (PKCS #8, PKCS #1 or SEC 1) and not encrypted")]
    PrivateKey,
    #[error("the additional certificate authority must be PEM certificates")]
    CertificateAuthority,
    #[error("`requests_per_second` must be from 1 to 10000")]
    RequestsPerSecond,
    /// The base URL is https, but the machine has no root certificates and the settings have none.
    #[error("no trusted root certificates on this machine")]
    NoRoots,
    #[error("TLS settings: {0}")]
    Tls(#[from] rustls::Error),
}
