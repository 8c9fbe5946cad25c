//! Which acquirers there are, and what the rules of a charge need to know of them. A charge keeps the name of its acquirer,
//! so that its rules stay those of the acquirer that made it.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::payment_method::PaymentMethod;

/// An acquirer, as rows name it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AcquirerName {
    /// Behind every test key; no network. A row without a name is the sandbox's.
    #[default]
    Sandbox,
    /// A bank that speaks the Central Bank's API Pix.
    Pix,
}

/// What an acquirer does by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcquirerTraits {
    /// A charge past its time is expired. Otherwise the acquirer must say first that it was not paid.
    pub expires_by_time: bool,
    /// A payment that is not applied is back with its payer at once. Otherwise its return is requested of the acquirer.
    pub returns_at_once: bool,
    /// A payer by card authenticates on our own page, which plays the issuer.
    pub plays_issuer: bool,
}

/// Which refunds an acquirer makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefundCapabilities {
    /// The methods whose payments it refunds.
    pub methods: &'static [PaymentMethod],
    /// Whether it sends a Pix of its own: a refund by cash-out.
    pub cashout: bool,
}

impl AcquirerName {
    /// The word in rows and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What it does by itself.
    pub const fn traits(self) -> AcquirerTraits {
        match self {
            Self::Sandbox => {
                AcquirerTraits { expires_by_time: true, returns_at_once: true, plays_issuer: true }
            }
            Self::Pix => {
                AcquirerTraits { expires_by_time: false, returns_at_once: false, plays_issuer: false }
            }
        }
    }

    /// Whether a row may leave it out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
