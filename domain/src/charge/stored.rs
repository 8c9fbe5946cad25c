//! A charge as its row was read.

use serde::{Deserialize, Deserializer};

use super::Charge;
use crate::ids::{Scope, Scoped};
use crate::time::Timestamp;

/// A charge as its row was read, which may have expired since the row was written. No other type reads a charge's row, so
/// none can be shown or changed before [`Self::at`] says what it is.
// Boxed: futures keep it while they wait, some of them twice.
#[derive(Clone, Debug)]
pub struct StoredCharge(Box<Charge>);

impl StoredCharge {
    /// The charge as it is at `now`.
    pub fn at(self, now: Timestamp) -> Charge {
        self.0.seen_at(now)
    }

    /// The charge as its row has it. For code that writes the expiry, that follows the row's changes, or that uses nothing
    /// which an expiry changes.
    pub fn as_stored(&self) -> &Charge {
        &self.0
    }
}

impl Scoped for StoredCharge {
    fn scope(&self) -> Scope {
        self.0.scope
    }
}

impl<'de> Deserialize<'de> for StoredCharge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Charge::deserialize(deserializer).map(Box::new).map(Self)
    }
}
