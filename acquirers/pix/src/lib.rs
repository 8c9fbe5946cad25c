//! A client of the Central Bank's API Pix, for any bank that serves it. Start at [`Client`].
//!
//! The client covers charges (*cob*), received Pix, their returns (*devolução*) and the registration of
//! callback URLs. It also covers Pix out in the dialect `local`, which only the bank for laptops and tests
//! has.
//!
//! Banks differ in what the Central Bank's document leaves open. So answers are parsed tolerantly: unknown
//! fields are ignored, and unknown values of a status are kept. Amounts are never floating-point numbers.
//!
//! [`PixBank`] takes charges by these Pix. The crate knows no database. The caller decides what an error means for a
//! charge; see [`ApiError`].
//!
//! Logs have the level `debug` and contain no body, no token and no query string.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

mod certificate;
mod client;
mod clock;
mod cob;
mod configuration;
mod connector;
mod devolucao;
mod error;
mod fields;
mod identity;
mod operations;
mod pages;
mod pix;
mod pix_out;
mod request;
mod settings;
mod tokens;

pub use acquirer_http::{ClientSettingsError, DEFAULT_DEADLINE, Identity, Now, Priority};
pub use client::Client;
pub use clock::ClockOffsets;
pub use cob::{Cob, CobStatus, Debtor, NewCob};
pub use configuration::{
    CERTIFICATE_WARNING_DAYS, ClientId, DEFAULT_MAX_PERIOD_SECONDS, NamedSecret, PixCredentials, PixSettings,
    SendPix, TokenScope, days_left,
};
pub use connector::{PixBank, end_of};
pub use devolucao::{Devolucao, DevolucaoStatus, Nature};
pub use error::{ApiError, ApiProblem, CHECK_CONNECTION, Violation, note_operator_error};
pub use fields::{ParseError, Raw};
pub use identity::{ClientIdentity, MAX_PEM_BYTES, ServerAuthorities};
pub use operations::Webhook;
pub use pages::PixPages;
pub use pix::{MAX_PAGE_SIZE, MalformedItem, Payer, Pix, PixPage, PixQuery};
pub use pix_out::{NewPixOut, PixOut, PixOutStatus};
pub use settings::{ConnectionSettings, TokenAuthentication};
