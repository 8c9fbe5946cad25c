//! The whole way of a request whose credentials do not change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::DATE;
use hyper::{Request, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::{
    Answer, DEFAULT_DEADLINE, Gate, Health, Limiter, Now, Priority, SendError, SettingsError, TlsSettings,
    Transport, check_requests_per_second, date_offset_seconds,
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
    transport: Transport,
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
    ) -> Result<Self, SettingsError> {
        check_requests_per_second(requests_per_second)?;
        let shared = Shared {
            transport: Transport::new(peer, tls)?,
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

    /// Sends a request. Any answer but a 429 is returned. `operation` names it in the logs.
    ///
    /// Dropping the future cancels the request. The acquirer may execute it nevertheless.
    pub async fn send(
        &self,
        operation: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, SendError> {
        let permit = self.shared.gate.admit(self.priority)?;
        let started = Instant::now();
        let deadline = started.checked_add(self.deadline).unwrap_or(started);
        let sent = self.shared.send(request, self.priority, deadline);
        let outcome = timeout_at(deadline, sent).await.unwrap_or(Err(SendError::Timeout));
        permit.record(match &outcome {
            Ok(answer) if answer.status.is_server_error() => Health::Fails,
            Err(SendError::Timeout | SendError::Connection(_) | SendError::Tls(_)) => Health::Fails,
            Err(SendError::TooManyRequests { .. } | SendError::CircuitOpen) => Health::Unknown,
            Ok(_) | Err(SendError::TooLarge) => Health::Works,
        });
        tracing::debug!(
            operation,
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            status = outcome.as_ref().ok().map(|answer| answer.status.as_u16()),
            error = outcome.as_ref().err().map(tracing::field::display),
            "request to an acquirer ended"
        );
        outcome
    }
}

impl Shared {
    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Answer, SendError> {
        if let Some(limiter) = &self.limiter {
            limiter.acquire(priority, deadline).await?;
        }
        let sent_at = (self.now)();
        let answer = self.transport.send(request).await?;
        let now = (self.now)();
        if let Some(offset) = answer.header(DATE).and_then(|date| date_offset_seconds(date, (sent_at, now))) {
            *self.clock_offset.lock().unwrap_or_else(PoisonError::into_inner) = Some(offset);
        }
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let retry_after = answer.retry_after(now);
            self.gate.pause(priority, retry_after);
            return Err(SendError::TooManyRequests { retry_after });
        }
        Ok(answer)
    }
}
