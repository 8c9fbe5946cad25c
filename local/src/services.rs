//! The AWS services that the stack uses: the embedded ones, or others that were started elsewhere.

use std::time::Duration;

use shared::clock::Clock;

use crate::embedded::fault_proxy::FaultProxy;
use crate::embedded::signals::{Changes, Ticks};
use crate::embedded::{Embedded, Endpoints, Listen, State};
use crate::error::{Error, Result};

/// The interval at which the event sources look for changes in services that were started elsewhere. It bounds
/// the latency of webhooks, and the number of requests at rest.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// DynamoDB, SQS and S3. Dropping this stops those of this process.
#[derive(Debug)]
pub(crate) enum Services {
    Embedded(Embedded),
    /// Services that were started elsewhere. They do not use the clock of this process, and announce nothing.
    Elsewhere {
        endpoints: Endpoints,
        ticks: Ticks,
    },
}

impl Services {
    /// Starts the embedded services, unless there are others.
    pub(crate) async fn start(
        elsewhere: Option<Endpoints>,
        state: &State,
        listen: Listen,
        clock: &Clock,
    ) -> Result<Self> {
        match elsewhere {
            Some(endpoints) => Ok(Self::Elsewhere { endpoints, ticks: Ticks::start(POLL_PERIOD) }),
            None => Ok(Self::Embedded(Embedded::start(state, listen, clock).await?)),
        }
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        match self {
            Self::Embedded(embedded) => embedded.endpoints(),
            Self::Elsewhere { endpoints, .. } => endpoints.clone(),
        }
    }

    pub(crate) fn are_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    pub(crate) async fn start_fault_proxy(&self) -> Result<FaultProxy> {
        match self {
            Self::Embedded(embedded) => embedded.start_fault_proxy().await,
            Self::Elsewhere { .. } => Err(Error::new("a fault proxy needs the embedded DynamoDB")),
        }
    }

    pub(crate) fn changes(&self) -> Changes {
        match self {
            Self::Embedded(embedded) => embedded.changes(),
            Self::Elsewhere { ticks, .. } => ticks.changes(),
        }
    }

    pub(crate) async fn stop(self) {
        match self {
            Self::Embedded(embedded) => embedded.stop().await,
            Self::Elsewhere { .. } => {}
        }
    }
}
