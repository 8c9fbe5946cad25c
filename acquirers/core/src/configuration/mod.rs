//! The configuration of an account's acquirer for live payments, which an operator sets.
//!
//! An account has several connections, at most one for each payment method. Each has a row of the state table with
//! settings and the authentication of the acquirer's notifications, and a row of the table of secrets with the
//! credentials. Both are replaced in one transaction and have the same version. A connection that was replaced or
//! removed stays, as a retired one.
//!
//! A *connection* has a name. Base URL, client id and certificate are its settings, which may change.
//! Accounts that begin with the same name, base URL and client id share a connection and its sweep.

mod callback;
mod certificate;
mod live_charges;
mod repository;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod values;

pub use api_pix::TokenAuthentication;
pub use callback::{AddressRange, Callback, CallbackAuthentication, CallbackChoice, CallbackToken};
pub use certificate::{ClientIdentity, MAX_PEM_BYTES, ServerAuthorities};
pub use live_charges::LiveChargesStop;
pub use repository::{AccountAcquirers, AcquirerChange, AcquirerChoice, SettingsError};
pub use rows::{AccountAcquirer, ConfiguredAcquirer, PixKeyClaim};
pub use settings::{
    AcquirerSettings, CERTIFICATE_WARNING_DAYS, Credentials, DEFAULT_CARD_REQUESTS_PER_SECOND,
    DEFAULT_EXPIRE_AFTER_SECONDS, DEFAULT_MAX_PERIOD_SECONDS, DEFAULT_REQUESTS_PER_SECOND, KindSettings,
    PixCredentials, PixSettings, SendPix, StripeCredentials, StripeSettings, days_left,
};
pub use values::{
    AcquirerUrl, ClientId, ConnectionName, InvalidSetting, NamedSecret, Secret, StripeAccount, TokenScope,
};
