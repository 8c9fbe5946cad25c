//! Limits in an account's settings.

use serde::{Deserialize, Serialize};

use crate::ids::Mode;

/// Velocity limits: how many live charges may be created in a period.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VelocityLimits {
    /// Maximum number of live charges of one customer (by document) in ten minutes.
    pub per_customer: u16,
    /// Maximum number of the account's live charges in one minute.
    pub per_account: u32,
    /// Maximum number of forms of a payment link in one minute.
    #[serde(default = "default_per_link")]
    pub per_link: u16,
}

fn default_per_link() -> u16 {
    60
}

impl VelocityLimits {
    /// A customer's recent charges are stored in one row, which must stay small.
    pub const MAX_PER_CUSTOMER: u16 = 100;
}

impl Default for VelocityLimits {
    fn default() -> Self {
        Self { per_customer: 10, per_account: 1_000, per_link: default_per_link() }
    }
}

/// The days from a boleto's creation to its due date, at the end of which it stops being payable: 0 to 60.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct BoletoDueDays(u8);

impl BoletoDueDays {
    pub const MAX: u8 = 60;

    /// `None`: it is above [`Self::MAX`].
    pub fn new(days: u8) -> Option<Self> {
        (days <= Self::MAX).then_some(Self(days))
    }

    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for BoletoDueDays {
    fn default() -> Self {
        Self(3)
    }
}

/// Maximum sum of refunds to third parties in one day (São Paulo), in centavos, by mode. `None`: no limit.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ThirdPartyLimits {
    pub test: Option<i64>,
    pub live: Option<i64>,
}

impl ThirdPartyLimits {
    pub fn for_mode(&self, mode: Mode) -> Option<i64> {
        match mode {
            Mode::Test => self.test,
            Mode::Live => self.live,
        }
    }

    pub fn for_mode_mut(&mut self, mode: Mode) -> &mut Option<i64> {
        match mode {
            Mode::Test => &mut self.test,
            Mode::Live => &mut self.live,
        }
    }
}
