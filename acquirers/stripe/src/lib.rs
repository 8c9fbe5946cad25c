//! A client of Stripe's API for payments by card, boleto, Multibanco and MB WAY. Start at [`Client`]; [`verify`] checks
//! notifications.
//!
//! The client covers hosted payment pages (Checkout Sessions), payments that are confirmed at once, the refunds and
//! disputes that result, and what operations need: events, balance transactions, files, the account, and webhook endpoints.
//! The forms of objects are those of [`API_VERSION`], which each request pins. Unknown fields are ignored, and unknown
//! values of a status are kept. Amounts are integers in the currency's smallest unit, times are Unix seconds.
//!
//! [`StripeConnector`] takes charges by card, [`VoucherConnector`] those by one other method. The crate knows no database. [`ApiError::remedy`] says what a caller may do after an error.
//!
//! Logs have the level `debug` and contain no body, no key and no query string.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

mod client;
mod configuration;
mod connector;
mod error;
mod form;
mod objects;
mod operations;
mod payments;
mod requests;
mod verify;
mod voucher;

pub use acquirer_http::{ClientSettingsError, Now, Priority, SendError};
pub use client::{API_URL, Client, ConnectionSettings, FILES_URL};
pub use configuration::{StripeAccount, StripeCredentials, StripeSettings, capability};
pub use connector::{EVENT_TYPES, StripeConnector};
pub use error::{ApiError, ApiProblem, Remedy};
pub use objects::{
    Account, BalanceTransaction, BoletoDetails, Charge, CheckoutSession, DeclinedPayment, Dispute,
    DisputeStatus, EvidenceDetails, Expandable, Hidden, Metadata, MultibancoDetails, NextAction, Page,
    PaymentIntent, PaymentIntentStatus, PaymentStatus, Refund, RefundStatus, Resource, SessionStatus,
    UploadedFile, WebhookEndpoint,
};
pub use requests::{ListQuery, NewIntent, NewSession, has_same_unit};
pub use verify::{Event, EventObject, VerifyError, verify};
pub use voucher::{VoucherConnector, VoucherMethod};

/// The version of Stripe's API, and so the forms of requests, answers and notifications.
pub const API_VERSION: &str = "2026-05-27.dahlia";
