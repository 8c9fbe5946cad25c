//! The whole way of an operation: the circuit breaker, the rate limit, the request and its time limit.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::DATE;
use hyper::{Request, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::settings::check_requests_per_second;
use crate::{
    Answer, ClientSettingsError, DEFAULT_DEADLINE, Health, Now, Priority, SendError, TlsSettings, Transport,
    date_offset_seconds,
};

/// A connection to one account of an acquirer.
///
/// Clones share the circuit breaker, the rate limit and the open connections. Each clone has its own priority and
/// deadline.
///
/// - **Circuit breaker:** opens after 5 consecutive failures: timeouts, failed connections, 5xx. It stays open for
///   10 s. After each failed probe the time doubles, up to 60 s. It follows the service's clock.
/// - **429:** requests in the background fail with [`SendError::TooManyRequests`] until `Retry-After`, at most 60 s.
///   After a 429 to a request of [`Priority::Create`], those fail too.
/// - **Rate limit:** requests wait for it. Those in the background wait longest.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<Shared>,
    priority: Priority,
    deadline: Duration,
}

struct Shared {
    now: Now,
    transport: Arc<Transport>,
    gate: Gate,
    limiter: Option<Limiter>,
    clock_offset: Mutex<Option<i64>>,
}

impl Channel {
    /// Creates a channel with the priority [`Priority::Create`] and [`DEFAULT_DEADLINE`]. Sends nothing.
    ///
    /// `peer` is the acquirer's name in the texts of errors. `now` is the service's clock. The circuit breaker and the
    /// pause after a 429 follow it. Time limits do not.
    pub fn new(
        peer: &'static str,
        tls: TlsSettings<'_>,
        requests_per_second: Option<u32>,
        now: Now,
    ) -> Result<Self, ClientSettingsError> {
        check_requests_per_second(requests_per_second)?;
        let shared = Shared {
            transport: Arc::new(Transport::new(peer, tls)?),
            gate: Gate::new(Arc::clone(&now)),
            limiter: requests_per_second.map(|limit| Limiter::new(limit, Instant::now())),
            clock_offset: Mutex::new(None),
            now,
        };
        Ok(Self { shared: Arc::new(shared), priority: Priority::Create, deadline: DEFAULT_DEADLINE })
    }

    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { priority, ..self.clone() }
    }

    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// Returns how far the acquirer's clock is ahead of the service's, by the `Date` of the last answer, in seconds;
    /// negative: behind it. `None`: not measured yet.
    pub fn clock_offset_seconds(&self) -> Option<i64> {
        *self.shared.clock_offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    pub fn transport(&self) -> Arc<Transport> {
        Arc::clone(&self.shared.transport)
    }

    /// Records a 429 of another request than those of [`Self::exchange`].
    pub fn pause(&self, retry_after: Duration) {
        self.shared.gate.pause(self.priority, retry_after);
    }

    /// Sends a request. Any answer but a 429 is returned. `operation` names it in the logs.
    pub async fn send(
        &self,
        operation: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, SendError> {
        let health = |sent: &Result<Answer, SendError>| match sent {
            Ok(answer) if answer.status.is_server_error() => Health::Fails,
            Err(SendError::Timeout | SendError::Connection(_) | SendError::Tls(_)) => Health::Fails,
            Err(SendError::TooManyRequests { .. } | SendError::CircuitOpen) => Health::Unknown,
            Ok(_) | Err(SendError::TooLarge) => Health::Works,
        };
        let exchange = async |deadline| Ok(self.exchange(operation, request, deadline).await?.0);
        self.run(operation, exchange, health).await
    }

    /// Runs an operation that takes one request or several, within the deadline, and records the health that its outcome
    /// shows.
    ///
    /// Dropping the future cancels the operation. The acquirer may execute it nevertheless.
    pub async fn run<T, E: From<SendError> + Display>(
        &self,
        operation: &'static str,
        attempt: impl AsyncFnOnce(Instant) -> Result<T, E>,
        health: impl FnOnce(&Result<T, E>) -> Health,
    ) -> Result<T, E> {
        let permit = self.shared.gate.admit(self.priority)?;
        let started = Instant::now();
        let deadline = started.checked_add(self.deadline).unwrap_or(started);
        let outcome = timeout_at(deadline, attempt(deadline)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(SendError::Timeout.into()));
        permit.record(health(&outcome));
        tracing::debug!(
            operation,
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            error = outcome.as_ref().err().map(tracing::field::display),
            "request to an acquirer ended"
        );
        outcome
    }

    /// Sends one request of an operation, as soon as the rate limit permits. Also returns when it was sent.
    pub async fn exchange(
        &self,
        operation: &'static str,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Answer, Timestamp), SendError> {
        let Shared { now, transport, limiter, clock_offset, .. } = &*self.shared;
        if let Some(limiter) = limiter {
            limiter.acquire(self.priority, deadline).await?;
        }
        let sent_at = now();
        let answer = transport.send(request).await?;
        let now = now();
        tracing::debug!(operation, status = answer.status.as_u16(), "an acquirer answered");
        if let Some(offset) = answer.header(DATE).and_then(|date| date_offset_seconds(date, (sent_at, now))) {
            *clock_offset.lock().unwrap_or_else(PoisonError::into_inner) = Some(offset);
        }
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let retry_after = answer.retry_after(now);
            self.pause(retry_after);
            return Err(SendError::TooManyRequests { retry_after });
        }
        Ok((answer, sent_at))
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, deadline, .. } = self;
        write!(f, "{priority:?}, {deadline:?}")
    }
}
