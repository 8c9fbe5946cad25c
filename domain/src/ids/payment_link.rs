//! The id of a payment link.

use super::define::digest_128;
use crate::base32;
use crate::ids::{IdText, Mode};
use crate::text::text_schema;

/// The id of a payment link: `pl_` and 26 characters. It is a hash of the idempotency key, so a repeated request finds
/// the link. Who knows it can pay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentLinkId(u128);

super::define::prefixed_id!(
    PaymentLinkId,
    "pl_",
    "pl_ and 26 lower-case letters and digits",
    base32::encode,
    base32::decode
);

impl IdText for PaymentLinkId {
    const CHARS: usize = "pl_".len() + 26;
    const PATTERN: &'static str = "^pl_[0-7][0-9a-hjkmnp-tv-z]{25}$";
}

text_schema!(PaymentLinkId, "An id: `pl_` and 26 characters.", { "pattern": PaymentLinkId::PATTERN });

impl PaymentLinkId {
    /// The link of an idempotency key. The account's secret salt makes it unguessable.
    pub fn derive(salt: &[u8], mode: Mode, key: &str) -> Self {
        Self(digest_128("payment-link", &[salt, mode.as_str().as_bytes(), key.as_bytes()]))
    }
}
