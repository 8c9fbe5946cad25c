//! The acquirers. A charge stores the name of the acquirer that created it, whose rules always apply to it.

mod reported_pix;
mod set_aside_item;
mod sweep;

pub use reported_pix::{PixDetails, ReportedPix, ReportedPixStatus, SeenReturn};
use serde::{Deserialize, Serialize};
pub use set_aside_item::{OddObject, SetAsideItem};
use strum::VariantArray;
pub use sweep::ConnectionSweep;

use crate::money::MinorUnits;
use crate::payment_method::PaymentMethod;
use crate::time::Timestamp;

/// An acquirer's name, as stored in rows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum AcquirerName {
    /// Serves all test keys, without network access. A row without an acquirer name belongs to it.
    #[default]
    Sandbox,
    /// A bank that implements the Central Bank's API Pix.
    Pix,
    /// Any other acquirer. Those with a page of their own were the first.
    Hosted,
}

/// What an acquirer took for a payment, in place of the plan's fee and hold.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Charged {
    /// Fee in minor units of the charge's currency.
    pub fee: MinorUnits,
    /// When the acquirer pays the net.
    #[serde(with = "domain::time::millis")]
    pub available_at: Timestamp,
}

/// What an acquirer takes by a payment method in one currency.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Capabilities {
    /// The least and the greatest amount in minor units. `None`: it does not take the currency.
    pub amounts: Option<(i64, i64)>,
    /// An amount must be a multiple of this.
    pub multiple_of: i64,
}

/// The refunds that an acquirer supports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefundCapabilities {
    /// The methods of the payments that the acquirer can refund.
    pub methods: &'static [PaymentMethod],
    /// Whether the acquirer can send a Pix, which a refund by cash-out needs.
    pub cashout: bool,
}

impl RefundCapabilities {
    /// The sandbox refunds Pix and card payments, as live acquirers do.
    pub const SANDBOX: Self =
        Self { methods: &[PaymentMethod::Pix, PaymentMethod::CreditCard], cashout: true };
}

/// How long a Pix can be returned after the bank received it, in milliseconds: 90 days (API Pix: devolução).
pub const RETURN_WINDOW_MS: i64 = 90 * 24 * 60 * 60 * 1_000;

impl AcquirerName {
    /// Whether it is called over the network, with the credentials of a connection. Then only its answer expires a
    /// charge, it is asked for the return of a payment that was not credited, and a card payer authenticates at it. The
    /// sandbox expires a charge when its time has passed, returns at once, and simulates the card's issuer.
    pub const fn is_remote(self) -> bool {
        !matches!(self, Self::Sandbox)
    }
}
