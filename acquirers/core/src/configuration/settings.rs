use acquirer_kit::setting::{AcquirerUrl, ConnectionName, InvalidSetting, require};
use acquirer_kit::{KindCredentials, KindOfAcquirer};
use api_pix::{ConnectionSettings, PixCredentials, PixSettings};
use serde::{Deserialize, Serialize};
use stripe_client::{StripeCredentials, StripeSettings};
use strum::IntoStaticStr;

use domain::ids::ConnectionId;
use domain::payment_method::PaymentMethod;

/// Requests a second to a bank by one function instance, by default.
pub const DEFAULT_REQUESTS_PER_SECOND: u32 = 20;

/// The same for Stripe, which allows 100 requests a second in an account.
pub const DEFAULT_CARD_REQUESTS_PER_SECOND: u32 = 80;

const MAX_REQUESTS_PER_SECOND: u32 = 1_000;

/// Seconds from the expiry of a cob until it is removed at the bank, by default. A payer who confirmed in
/// time has paid by then.
pub const DEFAULT_EXPIRE_AFTER_SECONDS: u32 = 60;

const MAX_EXPIRE_AFTER_SECONDS: u32 = 60 * 60;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AcquirerSettings {
    /// The name of the connection. All other settings of a connection may change.
    pub name: ConnectionName,
    pub base_url: AcquirerUrl,
    /// The most requests a second that one function instance sends to the acquirer.
    pub requests_per_second: u32,
    /// Seconds from the expiry of a charge until it is closed at the acquirer.
    pub expire_after_seconds: u32,
    #[serde(flatten)]
    pub kind: KindSettings,
}

#[derive(Clone, Debug, Deserialize, IntoStaticStr, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[strum(serialize_all = "snake_case")]
pub enum KindSettings {
    /// A bank that offers the API Pix of Brazil's Central Bank.
    Pix(PixSettings),
    /// Stripe, which takes payments on a page of its own.
    Stripe(StripeSettings),
}

/// What only the functions that call an acquirer may read. It is of the settings' kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Credentials {
    Pix(PixCredentials),
    Stripe(StripeCredentials),
}

impl KindSettings {
    pub(crate) fn of_kind(&self) -> &dyn KindOfAcquirer {
        match self {
            Self::Pix(pix) => pix,
            Self::Stripe(stripe) => stripe,
        }
    }
}

impl Credentials {
    pub(crate) fn of_kind(&self) -> &dyn KindCredentials {
        match self {
            Self::Pix(pix) => pix,
            Self::Stripe(stripe) => stripe,
        }
    }

    pub fn pix(&self) -> Option<&PixCredentials> {
        if let Self::Pix(credentials) = self { Some(credentials) } else { None }
    }

    pub fn pix_mut(&mut self) -> Option<&mut PixCredentials> {
        if let Self::Pix(credentials) = self { Some(credentials) } else { None }
    }
}

impl AcquirerSettings {
    /// Returns the id of a connection that is set with these settings first. It stays when they change.
    pub fn new_connection(&self) -> ConnectionId {
        let client = self.kind.of_kind().client();
        ConnectionId::derive(self.name.as_str(), self.base_url.as_str(), client)
    }

    /// The methods of new charges that go to the connection.
    pub fn methods(&self) -> &[PaymentMethod] {
        self.kind.of_kind().methods()
    }

    /// `None`: the acquirer does not speak API Pix.
    pub fn pix(&self) -> Option<&PixSettings> {
        if let KindSettings::Pix(pix) = &self.kind { Some(pix) } else { None }
    }

    /// Returns the settings for the client of API Pix. `None`: they or the credentials are of another kind.
    pub fn pix_connection(&self, credentials: &Credentials) -> Option<ConnectionSettings> {
        let (pix, credentials) = self.pix().zip(credentials.pix())?;
        Some(pix.connection(credentials, (&self.base_url, self.requests_per_second)))
    }

    pub fn pix_mut(&mut self) -> Option<&mut PixSettings> {
        if let KindSettings::Pix(pix) = &mut self.kind { Some(pix) } else { None }
    }

    /// Adds what is no choice: what was seen of the payer filter, which is a fact about the bank at this base URL, and
    /// the registered URL.
    pub(super) fn knowing(mut self, before: Option<&Self>) -> Self {
        let is_same_url = before.is_some_and(|before| before.base_url == self.base_url);
        match (&mut self.kind, before.map(|before| &before.kind)) {
            (KindSettings::Pix(pix), Some(KindSettings::Pix(before))) => {
                pix.filter_verified = is_same_url && before.filter_verified;
            }
            (KindSettings::Stripe(stripe), Some(KindSettings::Stripe(before))) => {
                let is_same = before.stripe_account == stripe.stripe_account;
                stripe.webhook_endpoint = before.webhook_endpoint.clone().filter(|_| is_same);
            }
            (KindSettings::Pix(pix), _) => pix.filter_verified = false,
            (KindSettings::Stripe(stripe), _) => stripe.webhook_endpoint = None,
        }
        self
    }

    /// Checks the numbers, and the settings that depend on each other.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        for (name, number, range) in [
            ("requests-per-second", self.requests_per_second, 1..=MAX_REQUESTS_PER_SECOND),
            ("expire-after-seconds", self.expire_after_seconds, 0..=MAX_EXPIRE_AFTER_SECONDS),
        ] {
            let (least, most) = (range.start(), range.end());
            require(range.contains(&number), || format!("`{name}` must be {least} to {most}"))?;
        }
        self.kind.of_kind().check(&self.base_url)
    }
}
