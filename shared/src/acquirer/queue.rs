//! The queue of requests to acquirers, which `acquirer-worker` processes.

use serde::{Deserialize, Serialize};

use domain::ids::{ChargeId, RefundId};

use crate::queue::{Message, Queue};

/// A message. It identifies the row for which `acquirer-worker` must call the acquirer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquirerMessage {
    /// Finalise this charge, which is `PENDING` and has no artefacts yet.
    Finalise(ChargeId),
    /// A refund that has not ended.
    Refund(RefundId),
}

/// The queue of [`AcquirerMessage`]s.
pub type AcquirerQueue = Queue<AcquirerMessage>;

impl Message for AcquirerMessage {
    /// Groups messages by charge, so that the messages of one charge do not delay those of other charges.
    fn group(&self) -> String {
        match self {
            Self::Finalise(id) => id.raw(),
            Self::Refund(id) => id.charge().raw(),
        }
    }
}
