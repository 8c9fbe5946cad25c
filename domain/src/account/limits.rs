//! Limits that are settings of an account.

use serde::{Deserialize, Serialize};

use crate::ids::Mode;

/// How many live charges may be asked for; settings of an account.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VelocityLimits {
    /// Of one customer, by document, in ten minutes.
    pub per_customer: u16,
    /// Of the account in a minute.
    pub per_account: u32,
}

impl VelocityLimits {
    /// The most that may be set for one customer: their charges are one row.
    pub const MAX_PER_CUSTOMER: u16 = 100;

    /// Whether a row may leave them out.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for VelocityLimits {
    fn default() -> Self {
        Self { per_customer: 10, per_account: 1_000 }
    }
}

/// How much refunds may send to third parties in a day (São Paulo), in centavos, by mode; settings of an account. `None`: there
/// is no limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ThirdPartyLimits {
    /// Of test refunds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<i64>,
    /// Of live ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i64>,
}

impl ThirdPartyLimits {
    /// What holds in a mode.
    pub fn of(&self, mode: Mode) -> Option<i64> {
        match mode {
            Mode::Test => self.test,
            Mode::Live => self.live,
        }
    }

    /// The limit of a mode, to be set.
    pub fn of_mut(&mut self, mode: Mode) -> &mut Option<i64> {
        match mode {
            Mode::Test => &mut self.test,
            Mode::Live => &mut self.live,
        }
    }

    /// Whether a row may leave them out.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
