//! The types of ids. Each has one valid spelling and, except for ids of payments and returns, a prefix. Only
//! a charge's id has three spellings ([`ChargeId::parse_any`]).
//!
//! Most ids are a hash of their cause, such as an idempotency key. So a retry computes the same id and writes
//! nothing twice. Other ids contain random bits, which the caller passes in.
//!
//! In serde every id is a string, spelled as in `Display`.

mod account;
mod api_key;
mod charge;
mod connection;
mod define;
mod payment;
mod ulid;
mod webhook;

pub use account::{AccountId, Mode, Scope, Scoped, UserId};
pub use api_key::{ApiKeyId, Fingerprint};
pub use charge::{ChargeId, MedCaseId, RawChargeId, RefundId};
pub use connection::ConnectionId;
pub use payment::{AcquirerPaymentId, EndToEndId, ReturnId};
pub use ulid::{AuditId, EmailId, EvidenceId, PayoutId, PostingId};
pub use webhook::{DeliveryId, EndpointId, EventId, ResendId};

/// The error for a text that is not an id of the expected type. It does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct IdError {
    /// The expected form, as shown in the message: for example `ch_ and a lower-case UUID`.
    pub expected: &'static str,
}
