//! What a function is told by its environment (template.yaml), and the addresses made from it.

use domain::ids::ChargeId;

/// API Pix: the longest location that a BR Code carries, scheme left out.
const MAX_LOCATION_CHARS: usize = 77;

/// Characters of a txid.
const TXID_CHARS: usize = 26;

/// An environment that a function can't run in.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// With what is wrong, in a sentence.
    pub fn new(message: String) -> Self {
        Self(message)
    }
}

/// Reads a variable that must be set.
pub fn required(var: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<String, ConfigError> {
    var(name).filter(|value| !value.is_empty()).ok_or_else(|| ConfigError(format!("{name} is not set")))
}

/// The public addresses of charges.
#[derive(Clone, Debug)]
pub struct PublicUrls {
    checkout_base_url: String,
    pix_host: String,
}

impl PublicUrls {
    /// From the hosted checkout's base address, such as `https://pay.example.com/checkout`.
    ///
    /// # Errors
    ///
    /// When it is not an absolute http(s) URL, or its host is too long for a BR Code.
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

    /// The hosted checkout of a charge.
    pub fn checkout_url(&self, id: ChargeId) -> String {
        format!("{}/{}", self.checkout_base_url, id.raw())
    }

    /// The QR image of a charge, a PNG.
    pub fn qr_code_url(&self, id: ChargeId) -> String {
        format!("{}/{}/qr.png", self.checkout_base_url, id.raw())
    }

    /// The page on which a charge's card is authenticated.
    pub fn card_url(&self, id: ChargeId) -> String {
        format!("{}/{}/card", self.checkout_base_url, id.raw())
    }

    /// A charge's boleto, a PDF.
    pub fn boleto_url(&self, id: ChargeId) -> String {
        format!("{}/{}/boleto.pdf", self.checkout_base_url, id.raw())
    }

    /// The location that a sandbox BR Code names: our own host, nobody's key; at most 77 characters, no scheme.
    pub fn pix_location(&self, txid: &str) -> String {
        format!("{}/pix/{txid}", self.pix_host)
    }
}
