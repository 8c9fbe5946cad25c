//! The ids of the domain: one type each, with a prefix, one spelling and a rule that makes it.
//!
//! Nothing here is random by itself. An id is derived from the thing it names, so a repeated step makes the same id and
//! writes nothing twice. Where randomness is needed, the caller passes it in.
//!
//! Every type is a string in serde, spelled as by `Display`.

mod account;
mod api_key;
mod charge;
mod define;
mod payment;
mod ulid;
mod webhook;

pub use account::{AccountId, Mode, Scope, Scoped, UserId};
pub use api_key::{ApiKeyId, Fingerprint};
pub use charge::{ChargeId, MedCaseId, RefundId};
pub use payment::{AcquirerPaymentId, EndToEndId, ReturnId};
pub use ulid::{AuditId, EmailId, EvidenceId, PayoutId, PostingId};
pub use webhook::{DeliveryId, EndpointId, EventId, ResendId};

/// The text is not an id of the expected type. The error does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {expected}")]
pub struct IdError {
    /// The expected form, for a message: `ch_ and a UUID`.
    pub expected: &'static str,
}
