//! The queue of what is to be asked of acquirers.

use serde::{Deserialize, Serialize};

use domain::ids::{ChargeId, RefundId};

use crate::queue::{Message, Queue};

/// What a message says: the row that an acquirer must be asked about.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquirerMessage {
    /// A charge whose payer is given nothing yet.
    Finalise(ChargeId),
    /// A refund that is not done.
    Refund(RefundId),
}

/// The queue of what is to be asked of acquirers.
pub type AcquirerQueue = Queue<AcquirerMessage>;

impl Message for AcquirerMessage {
    /// By charge: the steps of one wait for one another, those of others don't.
    fn group(&self) -> String {
        match self {
            Self::Finalise(id) => id.raw(),
            Self::Refund(id) => id.charge().raw(),
        }
    }
}
