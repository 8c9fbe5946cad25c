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
mod live_charges;
mod repository;
mod rows;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::registry::{Credentials, KindSettings};
pub use acquirer_kit::setting::{AcquirerUrl, ConnectionName, InvalidSetting, Secret};
pub use api_pix::{
    CERTIFICATE_WARNING_DAYS, ClientId, ClientIdentity, DEFAULT_MAX_PERIOD_SECONDS, MAX_PEM_BYTES,
    NamedSecret, PixCredentials, PixSettings, SendPix, ServerAuthorities, TokenAuthentication, TokenScope,
    days_left,
};
pub use btcpay_client::{BtcpayCredentials, BtcpaySettings, StoreId};
pub use callback::{
    AddressRange, Callback, CallbackAuthentication, CallbackChoice, CallbackToken, SIGNED_PATH,
};
pub use live_charges::LiveChargesStop;
pub use repository::{AccountAcquirers, AcquirerChange, AcquirerChoice, SettingsError};
pub use rows::{AccountAcquirer, ConfiguredAcquirer, PixKeyClaim};
pub use settings::{
    AcquirerSettings, DEFAULT_CARD_REQUESTS_PER_SECOND, DEFAULT_EXPIRE_AFTER_SECONDS,
    DEFAULT_REQUESTS_PER_SECOND,
};
pub use stripe_client::{StripeAccount, StripeCredentials, StripeSettings};
