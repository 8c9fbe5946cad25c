//! Reads a function's configuration from its environment variables, which `template.yaml` sets, and builds
//! the public URLs of charges.

use domain::ids::{ChargeId, PaymentLinkId};
use domain::url_policy::{AddressPolicy, LocalNames};

/// The longest URL in a BR Code, in characters without the scheme (API Pix: location).
const MAX_LOCATION_CHARS: usize = 77;

/// The length of a txid, in characters.
const TXID_CHARS: usize = 26;

/// Reads an environment variable.
pub type Vars<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An environment variable is missing or not valid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub fn new(message: String) -> Self {
        Self(message)
    }
}

/// Reads a required variable.
/// Errors: When the variable is not set or is empty.
pub fn required(var: Vars<'_>, name: &str) -> Result<String, ConfigError> {
    var(name).filter(|value| !value.is_empty()).ok_or_else(|| ConfigError(format!("{name} is not set")))
}

/// Reads a required variable that is an integer of at least 1.
/// Errors: When the variable is not set or is not such a number.
pub fn required_number(var: Vars<'_>, name: &str) -> Result<u32, ConfigError> {
    let text = required(var, name)?;
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| ConfigError(format!("{name} is {text:?}, but must be an integer of at least 1")))
}

/// Reads the address policy of webhooks from `WEBHOOK_ADDRESSES`. Webhooks may always be sent to public
/// addresses. If the value is exactly `loopback`, they may also be sent to loopback addresses and to the
/// hosts in `WEBHOOK_LOCAL_NAMES` (separated by commas).
pub fn address_policy(var: Vars<'_>) -> AddressPolicy {
    match var("WEBHOOK_ADDRESSES").as_deref() {
        Some("loopback") => {
            let names = var("WEBHOOK_LOCAL_NAMES").unwrap_or_default();
            AddressPolicy::PublicOrLocal(LocalNames::parse(&names))
        }
        _ => AddressPolicy::PublicOnly,
    }
}

#[derive(Clone, Debug)]
pub struct PublicUrls {
    checkout_base_url: String,
    pix_host: String,
}

impl PublicUrls {
    /// Creates the builder from the base URL of the hosted checkout, such as
    /// `https://pay.example.com/checkout`.
    /// Errors: When the base URL is not an absolute http or https URL, or its host is too long for a BR Code.
    pub fn new(checkout_base_url: &str) -> Result<Self, ConfigError> {
        let refused = |why: &str| ConfigError(format!("CHECKOUT_BASE_URL {checkout_base_url:?} {why}"));
        let url = url::Url::parse(checkout_base_url).map_err(|_| refused("is not a URL"))?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or_else(|| refused("is not an http address"))?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let public_urls = Self {
            checkout_base_url: checkout_base_url.trim_end_matches('/').to_owned(),
            pix_host: format!("{host}{port}"),
        };
        if public_urls.pix_location("").len().saturating_add(TXID_CHARS) > MAX_LOCATION_CHARS {
            return Err(refused("has a host too long for a BR Code"));
        }
        Ok(public_urls)
    }

    /// The base URL of the API. The checkout's base URL leads to the API's path `/checkout`.
    pub fn api_base_url(&self) -> &str {
        self.checkout_base_url.strip_suffix("/checkout").unwrap_or(&self.checkout_base_url)
    }

    pub fn checkout_url(&self, id: ChargeId) -> String {
        format!("{}/{}", self.checkout_base_url, id.raw())
    }

    /// The public page of a payment link.
    pub fn payment_link_url(&self, id: PaymentLinkId) -> String {
        format!("{}/pay/{id}", self.api_base_url())
    }

    pub fn qr_code_url(&self, id: ChargeId) -> String {
        format!("{}/{}/qr.png", self.checkout_base_url, id.raw())
    }

    pub fn card_url(&self, id: ChargeId) -> String {
        format!("{}/{}/card", self.checkout_base_url, id.raw())
    }

    /// Where the acquirer's page sends the payer of a card payment.
    pub fn card_return_url(&self, id: ChargeId) -> String {
        format!("{}?back=1", self.card_url(id))
    }

    pub fn boleto_url(&self, id: ChargeId) -> String {
        format!("{}/{}/boleto.pdf", self.checkout_base_url, id.raw())
    }

    /// The URL in a sandbox BR Code (API Pix: location), without the scheme. It consists of the checkout's
    /// host and the txid, and has at most 77 characters.
    pub fn pix_location(&self, txid: &str) -> String {
        format!("{}/pix/{txid}", self.pix_host)
    }
}
