//! A charge as read from its row.

use serde::{Deserialize, Deserializer};

use super::Charge;
use crate::ids::{Scope, Scoped};
use crate::time::Timestamp;

/// A charge as read from its row, which may have expired since. Only this type deserialises the row, so code
/// must call [`Self::read_at`] before it shows or changes a charge.
// Boxed to keep futures small, because they hold charges across await points.
#[derive(Clone, Debug)]
pub struct StoredCharge(Box<Charge>);

impl StoredCharge {
    /// Returns the charge whose row the caller has just written.
    pub fn written(charge: Charge) -> Self {
        Self(Box::new(charge))
    }

    /// Returns the charge as it is at `now`, including an expiry that is not persisted yet.
    pub fn read_at(self, now: Timestamp) -> Charge {
        self.0.read_at(now)
    }

    /// The charge exactly as stored: to persist the expiry, to process the stream, or for fields that an expiry
    /// does not change.
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
