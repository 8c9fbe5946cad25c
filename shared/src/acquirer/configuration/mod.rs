//! The configuration of an account's acquirer for live payments: URLs, credentials, the merchant's Pix key,
//! and how the bank's notifications are authenticated. An operator sets the configuration.
//!
//! The configuration is in the table of secrets, which has no stream and which only the functions that call a
//! bank may read. The account's other settings are copied into the rows of its API keys, which every request
//! reads. Credentials must not be in those rows.
//!
//! A *bank connection* has a name. Base URL, client id and certificate are its settings, which may change.
//! Accounts that begin with the same name, base URL and client id share a connection and its sweep. A Pix key
//! belongs to one account.

mod callback;
mod certificate;
mod live_charges;
mod repository;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod values;

pub use callback::{
    AddressRange, CallbackAuthentication, CallbackChoice, CallbackSettings, CallbackToken, CallbackView,
    MedSecret,
};
pub use certificate::{ClientIdentity, MAX_PEM_BYTES, ServerAuthorities};
pub use live_charges::LiveChargesStop;
pub use repository::{AccountAcquirers, ConfiguredAcquirer, SettingsError};
pub use rows::{AccountAcquirer, PixKeyClaim, RetiredAcquirer};
pub use settings::{
    AcquirerKind, AcquirerSettings, AcquirerView, CERTIFICATE_WARNING_DAYS, DEFAULT_EXPIRE_AFTER_SECONDS,
    DEFAULT_MAX_PERIOD_SECONDS, DEFAULT_REQUESTS_PER_SECOND, SendPix, TokenAuthentication,
    certificate_warning, days_left,
};
pub use values::{
    AcquirerUrl, ClientId, ClientSecret, ConnectionName, InvalidSetting, MAX_EXTRAS, NamedSecret, TokenScope,
};
