//! A client of a merchant's own BTCPay Server 2.x (Greenfield API), for payments in Bitcoin. Start at [`Client`];
//! [`verify`] checks notifications.
//!
//! The client covers the invoices of one store, their payments on the chain, and what operations need: the rights of the
//! key, the store and its webhooks. All routes name the store, because only these work in every version 2.x. Unknown
//! fields are ignored, and unknown values of a status are kept. Amounts are decimal texts, times are Unix seconds.
//!
//! [`BtcpayConnector`] takes charges by crypto. The crate knows no database. [`ApiError::remedy`] says what a caller may
//! do after an error.
//!
//! Logs have the level `debug` and contain no body, no key and no query string.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

mod client;
mod configuration;
mod connector;
mod error;
mod objects;
mod operations;
mod payments;
mod verify;

pub use acquirer_http::{ClientSettingsError, Now, Priority, SendError};
pub use client::{Client, ConnectionSettings};
pub use configuration::{BtcpayCredentials, BtcpaySettings, StoreId};
pub use connector::BtcpayConnector;
pub use error::{ApiError, ApiProblem, Remedy};
pub use objects::{
    AdditionalStatus, ApiKey, Invoice, InvoicePayment, InvoicePaymentMethod, InvoiceStatus, PaymentStatus,
    Store, StorePaymentMethod, Webhook,
};
pub use operations::{ListQuery, NewInvoice, Page, RIGHT_TO_SEE_STORE, RIGHTS};
pub use verify::{EVENT_TYPES, Event, VerifyError, verify};

/// The payment method of every invoice: Bitcoin, on the chain.
pub const PAYMENT_METHOD: &str = "BTC-CHAIN";
