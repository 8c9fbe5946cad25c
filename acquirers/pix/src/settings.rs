use acquirer_http::{ClientSettingsError, Identity, checked_base_url, checked_url};
use domain::time::Timestamp;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::certificate;

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
        certificate::validity_of_pem(&self.identity.as_ref()?.certificate_pem)
    }

    pub(crate) fn checked_base_url(&self) -> Result<String, ClientSettingsError> {
        Ok(checked_base_url(&self.base_url, "base_url")?.0)
    }

    pub(crate) fn checked_token_url(&self) -> Result<String, ClientSettingsError> {
        checked_url(&self.token_url, "token_url").map(Into::into)
    }
}

/// Returns the headers. Their values are marked as sensitive, so that no library logs them.
pub(crate) fn checked_headers(headers: &[(String, SecretString)]) -> Result<HeaderMap, ClientSettingsError> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let error = || ClientSettingsError::Header(name.clone());
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| error())?;
        value.set_sensitive(true);
        checked.append(HeaderName::from_bytes(name.as_bytes()).map_err(|_| error())?, value);
    }
    Ok(checked)
}
