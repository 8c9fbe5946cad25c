//! What the clients of all acquirers share: HTTP/1.1 over TLS with limits of size, the circuit breaker and the pause
//! after a 429, the rate limit, and the offset of an acquirer's clock. The sender of webhooks shares the connections and
//! the reasons of their failures.
//!
//! The crate knows no acquirer's API. A client builds the requests, classifies the answers, and limits the time.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that fails may panic"))]

mod breaker;
mod channel;
mod clock;
mod failure;
mod gate;
mod limiter;
mod pool;
mod resolver;
mod settings;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;

pub use channel::Channel;
pub use clock::{date_offset_seconds, offset_seconds};
pub use failure::{causes, connection_failure};
pub use gate::Health;

pub use pool::{Pool, SendOnce, tls_config};
pub use resolver::{CheckedResolver, Lookup, ResolveFailure};
pub use settings::{ClientSettingsError, Identity, TlsSettings, checked_base_url, checked_url};
pub use transport::{Answer, Transport};

/// The time limit of an operation.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Returns the service's current time. It may be moved forward.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How urgent a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A merchant or payer waits. While the circuit breaker is open, and until the `Retry-After` of a 429 to such a
    /// request, it fails at once.
    Create,
    /// The request settles or returns money. The circuit breaker never stops it.
    Settle,
    /// Sweeps and removals. They yield to other requests and wait after a 429. While the circuit breaker is
    /// open, they fail at once.
    Background,
}

/// Why there is no answer. The texts contain no URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The acquirer limits requests (429), or the connection's own limit leaves no room before the deadline. The
    /// request was not executed.
    #[error("too many requests; retry after {} s", .retry_after.as_secs_f32().ceil())]
    TooManyRequests {
        /// How long to wait, at most 60 s after a 429.
        retry_after: Duration,
    },
    #[error("not sent: the acquirer failed several times in a row")]
    CircuitOpen,
    #[error("no answer in time")]
    Timeout,
    /// The connection failed, for this reason: DNS, TCP or HTTP.
    #[error("{0}")]
    Connection(String),
    /// TLS failed, for this reason.
    #[error("{0}")]
    Tls(String),
    #[error("the answer is larger than 8 MiB")]
    TooLarge,
}
