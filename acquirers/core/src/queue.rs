//! The queue of requests to acquirers, which `acquirer-worker` processes.

use serde::{Deserialize, Serialize};

use domain::ids::{AcquirerPaymentId, ChargeId, ConnectionId, EndToEndId, RefundId, Scope};

use shared::queue::{Message, Queue};

/// A message. It identifies the row for which `acquirer-worker` must call the acquirer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcquirerMessage {
    /// Finalise this charge, which is `PENDING` and has no artefacts yet.
    Finalise(ChargeId),
    /// A refund that has not ended.
    Refund {
        id: RefundId,
        /// How often in a row the bank has refused it as invalid.
        #[serde(default)]
        refusals: u32,
    },
    /// Close this overdue charge at its acquirer, which then expires it.
    Expire(ChargeId),
    /// Read this charge, which changed at its acquirer.
    Read(ChargeId),
    /// Read this charge with its refunds and disputes, of which one changed.
    ReadWhole(ChargeId),
    /// Read this charge, whose payer came back from the acquirer's page. A failure is not repeated: the payer's page asks
    /// again.
    Look(ChargeId),
    /// Read this Pix back from the bank that reported it.
    ReadBack(EndToEndId),
    /// Return this incoming payment to its payer.
    Return {
        scope: Scope,
        payment: AcquirerPaymentId,
        /// How often in a row the bank has refused the current attempt as invalid.
        #[serde(default)]
        refusals: u32,
    },
    /// Read the list of Pix of this bank connection.
    Sweep(ConnectionId),
}

pub type AcquirerQueue = Queue<AcquirerMessage>;

impl Message for AcquirerMessage {
    /// Groups messages by charge or payment, so that the messages of one do not delay those of others.
    fn group(&self) -> String {
        match self {
            Self::Finalise(id) | Self::Expire(id) | Self::Read(id) | Self::ReadWhole(id) | Self::Look(id) => {
                id.raw()
            }
            Self::Refund { id, .. } => id.charge().raw(),
            Self::ReadBack(id) => id.to_string(),
            Self::Return { payment, .. } => payment.to_string(),
            Self::Sweep(connection) => connection.to_string(),
        }
    }
}
