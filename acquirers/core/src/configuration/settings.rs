use acquirer_kit::setting::{AcquirerUrl, ConnectionName, InvalidSetting, require};
use acquirer_kit::{NotVerified, Notified, Signed};
use api_pix::{ConnectionSettings, PixCredentials, PixSettings};
use serde::{Deserialize, Serialize};

use domain::ids::ConnectionId;
use domain::payment_method::PaymentMethod;

use crate::registry::{Credentials, KindSettings};

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

impl Credentials {
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

    /// The acquirer's id of the registered URL for notifications.
    pub fn webhook_endpoint(&mut self) -> Option<&String> {
        self.kind.of_kind_mut().webhook_endpoint().and_then(|endpoint| endpoint.as_ref())
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

    /// Checks the signature of a notification, as its kind says.
    pub fn verify(&self, signed: &Signed<'_>) -> Result<Notified, NotVerified> {
        self.kind.of_kind().verify(signed)
    }

    /// Adds what no operator chooses, from the settings before.
    pub(super) fn knowing(self, before: Option<&Self>) -> Self {
        let is_same_url = before.is_some_and(|before| before.base_url == self.base_url);
        let kind = self.kind.knowing(before.map(|before| &before.kind), is_same_url);
        Self { kind, ..self }
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
