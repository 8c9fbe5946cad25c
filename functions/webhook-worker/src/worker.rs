//! Runs a delivery attempt: claims the delivery of a queue message, loads its event and receiver, checks whether
//! it may post now, posts the event, and records the outcome.
//!
//! An attempt that may not post now (`NotNow`) is postponed. It is then not counted.
//!
//! If the worker dies, the message becomes visible again after the visibility timeout of the queue, and the
//! claim's lease has ended by then. A message that finds the lease of another worker stays in the queue until
//! the lease ends. So each event is posted at least once, and may be posted twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::ids::{Mode, Scope};
use domain::request_id::StoredRequestId;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};
use domain::webhook::failure::AttemptFailure;
use domain::webhook::schedule;
use domain::webhook::signature::{self, EndpointSecret};
use effects::webhook::WebhookError;
use effects::webhook::breaker::{self, Breaker, Breakers, Open};
use effects::webhook::delivery::{
    AttemptOutcome, Cause, Claim, Deliveries, Delivery, FailedAttempt, SignedContext,
};
use effects::webhook::endpoint::{Endpoint, Endpoints};
use effects::webhook::event::Event;
use effects::webhook::in_flight::{InFlight, Occupancy};
use effects::webhook::queue::{DeliveryMessage, DeliveryQueue, DeliveryQueues};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars, address_policy, required};
use shared::queue::{self, MAX_DELAY_SECONDS, Receipt};
use shared::store::{Aws, Store, StoreError};
use shared::{WorkError, WorkResult, metrics, random};
use tracing::field;

use crate::admission::{Admission, Admitted, Batch, NotNow, SLOW_AFTER};
use crate::sender::{Attempt, Sender};

const SIGNATURE: &str = "x-service-signature";

/// The age from which a delivery is no longer postponed because a breaker is open, in milliseconds: 3 days,
/// somewhat more than its schedule takes. So it is `FAILED` in the end, even if the server never answers.
const NOT_POSTPONED_AFTER_MS: i64 = 3 * 24 * 60 * 60 * 1_000;

/// How long after the end of a lease a message becomes visible. It exceeds the usual difference of two
/// machines' clocks.
const AFTER_LEASE: Duration = Duration::from_secs(1);

/// The most that is added to the time for which an attempt is postponed, in milliseconds, so that the
/// deliveries to a server do not come back together.
const MAX_POSTPONEMENT_JITTER_MS: u64 = 10_000;

#[derive(Clone, Debug)]
pub struct Worker {
    deliveries: Deliveries,
    endpoints: Endpoints,
    secrets: Store,
    admission: Admission,
    breakers: Breakers,
    exhausted: DeliveryQueue,
    sender: Arc<Sender>,
    clock: Clock,
}

impl Worker {
    /// Reads `TABLE_NAME`, `SECRETS_TABLE_NAME`, `DELIVERY_QUEUE_URL`, `TEST_DELIVERY_QUEUE_URL`,
    /// `ACCOUNT_DELIVERY_CONCURRENCY`, `EXHAUSTED_DELIVERIES_QUEUE_URL` and `WEBHOOK_ADDRESSES`.
    pub fn from_vars(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<Self, ConfigError> {
        let sqs = aws.sqs();
        let sender = Sender::new(address_policy(var)).map_err(|error| ConfigError::new(error.to_string()))?;
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        let queues = DeliveryQueues::from_vars(&sqs, var)?;
        Ok(Self {
            deliveries: Deliveries::new(store.clone()),
            breakers: Breakers::new(store.clone()),
            admission: Admission::from_vars(InFlight::new(store.clone()), queues, clock.clone(), var)?,
            endpoints: Endpoints::new(store),
            secrets: Store::new(aws.dynamodb(), required(var, "SECRETS_TABLE_NAME")?),
            exhausted: DeliveryQueue::new(sqs, required(var, "EXHAUSTED_DELIVERIES_QUEUE_URL")?),
            sender: Arc::new(sender),
            clock,
        })
    }

    /// Processes the messages of a batch concurrently. Returns the messages that failed; SQS delivers only
    /// these again.
    pub async fn handle(&self, mut event: SqsEvent) -> SqsEventResponse {
        // Boxed, because the compiler limits how deeply futures are nested.
        let Admitted { records, failures, batch } = Box::pin(self.admission.admit(event.records)).await;
        event.records = records;
        let batch = Arc::new(batch);
        let (worker, of_worker) = (self.clone(), Arc::clone(&batch));
        let attempts = queue::process_batch(event, move |message: DeliveryMessage, receipt| {
            let (worker, batch) = (worker.clone(), Arc::clone(&of_worker));
            async move { worker.work(message, receipt, &batch).await }
        });
        let mut response = Box::pin(attempts).await;
        Box::pin(self.admission.release(&batch)).await;
        response.batch_item_failures.extend(failures);
        response
    }

    async fn work(&self, message: DeliveryMessage, receipt: Receipt, batch: &Batch) -> WorkResult<()> {
        let now = self.clock.now();
        let claim = u64::from_le_bytes(random::bytes()?);
        let delivery = match self.deliveries.claim(&message.scope, message.delivery, claim, now).await? {
            Claim::Claimed(delivery) => delivery,
            Claim::NotNow => return Ok(()),
            Claim::Leased { until } => {
                self.hide_until(until, &receipt, now).await;
                return Err(WorkError::Leased);
            }
            Claim::Early { due_at } => {
                let delay = due_at.saturating_duration_since(now);
                let queue = self.admission.queues.of(message.scope.mode);
                return Ok(queue.send_later(&message, delay).await?);
            }
        };
        let ready = match Box::pin(self.load(&delivery)).await? {
            Ok(ready) => ready,
            Err(outcome) => {
                return Box::pin(self.record(&delivery, &message, (outcome, Duration::ZERO), None)).await;
            }
        };
        let probe = match self.may_post(&delivery, &message, &ready, batch).await {
            Ok(probe) => probe,
            Err(why) => return self.postpone(&delivery, &message, why).await,
        };
        let started_at = Instant::now();
        let mut post = std::pin::pin!(self.post(&delivery, &ready));
        let attempt = match tokio::time::timeout(SLOW_AFTER, post.as_mut()).await {
            Ok(attempt) => attempt,
            Err(_) => tokio::join!(self.admission.report_slow(batch, &message), post).1,
        };
        let duration = started_at.elapsed();
        log_attempt(&delivery, &ready.event, &attempt, duration);
        self.record_on_breaker((&delivery.scope, &ready.server), &attempt, &ready.breaker, probe).await;
        let outcome = outcome_of(attempt, &delivery, self.clock.now());
        Box::pin(self.record(&delivery, &message, (outcome, duration), ready.endpoint.as_ref())).await
    }

    /// Hides a message until a lease has ended. A failure is only logged, because the message becomes visible
    /// after the visibility timeout of its queue anyway.
    async fn hide_until(&self, lease_end: Timestamp, receipt: &Receipt, now: Timestamp) {
        let Some(queue) = self.admission.queues.by_arn(&receipt.queue_arn) else { return };
        let time = lease_end.saturating_duration_since(now).saturating_add(AFTER_LEASE);
        if let Err(error) = queue.hide(&receipt.handle, time).await {
            tracing::warn!(%error, "can't change the visibility of a message; it is received again later");
        }
    }

    /// Writes the outcome of an attempt into the rows of the delivery and its endpoint, and sends the message of
    /// the next attempt.
    async fn record(
        &self,
        delivery: &Delivery,
        message: &DeliveryMessage,
        (outcome, took): (AttemptOutcome, Duration),
        endpoint: Option<&Endpoint>,
    ) -> WorkResult<()> {
        let outcome = self.unless_abandoned(delivery, outcome).await;
        let now = self.clock.now();
        if matches!(outcome, AttemptOutcome::Exhausted(_)) {
            // Sent before the row becomes FAILED. So after a crash in between, the message is sent twice
            // instead of never.
            self.exhausted.send_later(message, Duration::ZERO).await?;
        }
        let record_on_endpoint = async || match endpoint {
            Some(endpoint) => {
                self.endpoints
                    .record_attempt(endpoint, (&outcome, delivery.created_at), self.clock.now())
                    .await
            }
            None => Ok(()),
        };
        let succeeded = matches!(outcome, AttemptOutcome::Delivered { .. });
        if succeeded {
            // Recorded before the row becomes DELIVERED. In the opposite order, a crash in between would lose
            // the success, and the endpoint would stay marked as failing. If this write fails, the event is
            // delivered once more.
            unless_corrupt(record_on_endpoint().await)?;
        }
        if !self.deliveries.end_attempt(delivery, (&outcome, took), now).await? {
            tracing::warn!(delivery = %delivery.id, "the lease ended before the attempt did");
            return Ok(());
        }
        metrics::write(outcome_name(&outcome), &[(metrics::DELIVERY_ATTEMPTS, &1)]);
        if !succeeded && let Err(error) = record_on_endpoint().await {
            // The error is only logged. The delivery's row has the outcome, and the endpoint's next failed
            // attempt changes the endpoint's row instead.
            tracing::warn!(delivery = %delivery.id, %error, "can't record a failure in the endpoint's row");
        }
        if let AttemptOutcome::Retry { next_attempt_at, .. } = outcome {
            self.send_at(message, next_attempt_at, now).await?;
        }
        Ok(())
    }

    /// Ends a claim without an attempt, and sends a message for the next one.
    async fn postpone(&self, delivery: &Delivery, message: &DeliveryMessage, why: NotNow) -> WorkResult<()> {
        let now = self.clock.now();
        let until = if let NotNow::OpenBreaker { until } = why { Some(until) } else { None };
        let postponed = AttemptOutcome::Postponed { until };
        if !self.deliveries.end_attempt(delivery, (&postponed, Duration::ZERO), now).await? {
            return Ok(());
        }
        match until {
            Some(until) => self.send_at(message, until, now).await,
            None => Ok(self.admission.defer(message, why).await?),
        }
    }

    /// Sends the message for a delivery that the due index has for this time. SQS delays a message by at most
    /// 15 minutes. The scheduler sends the message of a later attempt.
    async fn send_at(&self, message: &DeliveryMessage, at: Timestamp, now: Timestamp) -> WorkResult<()> {
        let Some(delay) = sqs_delay(at, now) else { return Ok(()) };
        let message = DeliveryMessage { waits: 0, due: true, ..message.clone() };
        Ok(self.admission.queues.of(message.scope.mode).send_later(&message, delay).await?)
    }

    /// Loads what a post needs. The error is the outcome of a delivery that can't be posted.
    async fn load(&self, delivery: &Delivery) -> WorkResult<Result<Ready, AttemptOutcome>> {
        let exhausted = |failure| {
            let failed = FailedAttempt::without_body(delivery.last_status_code, failure);
            Ok(Err(AttemptOutcome::Exhausted(failed)))
        };
        let cancelled = |cause| Ok(Err(AttemptOutcome::Cancelled(cause)));
        // Each claim counts as an attempt, even if the worker died. So a delivery that always crashes its
        // worker is `FAILED` in the end.
        if delivery.attempts > delivery.max_attempts {
            return exhausted(AttemptFailure::CutShort);
        }
        let SignedContext { context, secret, occupancy, breakers } = match self
            .deliveries
            .signed_context(delivery, &self.secrets)
            .await
        {
            Ok(found) => found,
            Err(StoreError::Corrupt(cause)) => {
                tracing::error!(delivery = %delivery.id, cause, "can't read a delivery's event, endpoint or secret");
                return exhausted(AttemptFailure::Unreadable);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(event) = context.event else { return cancelled(Cause::EventExpired) };
        let (url, secret) = if delivery.endpoint.is_some() {
            // An endpoint that the service switched off still receives the deliveries that existed at that time.
            let cause = Cause::of(delivery, context.endpoint.as_ref());
            let (None, Some(endpoint), Some(secret)) = (cause, &context.endpoint, secret) else {
                return cancelled(cause.unwrap_or(Cause::Deleted));
            };
            (endpoint.url.clone(), secret)
        } else {
            let Some(url) = event.webhook_url.clone() else { return cancelled(Cause::NoAddress) };
            let secret = match secret {
                Some(secret) => secret,
                // The merchant has not rotated the secret yet, so no receiver knows one. The signature can't
                // be verified with any secret, so this one is not stored.
                None => EndpointSecret::from_random(&random::bytes()?),
            };
            (url, secret)
        };
        let Some(body) = event.body_as(delivery.event_type).map(Bytes::from) else {
            return exhausted(AttemptFailure::Unreadable);
        };
        let server = breaker::server_of(&url).unwrap_or_default();
        let breaker = Breaker::of(breakers.as_ref(), &server);
        let endpoint = context.endpoint;
        Ok(Ok(Ready { event, body, url, secret, endpoint, occupancy, server, breaker }))
    }

    /// Checks whether an attempt may be made now. Returns the breaker whose probe it is, if any.
    async fn may_post(
        &self,
        delivery: &Delivery,
        message: &DeliveryMessage,
        ready: &Ready,
        batch: &Batch,
    ) -> Result<Option<Open>, NotNow> {
        self.admission.check(batch, message, &ready.occupancy).await?;
        let probe = self.admit_to_server(delivery, &ready.server, &ready.breaker).await;
        let probe = probe.map_err(|until| NotNow::OpenBreaker { until })?;
        if is_first_of_payment(delivery, &ready.event) {
            let age_ms = self.clock.now().millis_since(ready.event.created_at);
            metrics::write("", &[(metrics::PAID_TO_FIRST_ATTEMPT, &age_ms)]);
        }
        Ok(probe)
    }

    /// Returns the breaker whose probe the attempt is, if any. The error is the time until which an open
    /// breaker postpones the attempt.
    async fn admit_to_server(
        &self,
        delivery: &Delivery,
        server: &str,
        breaker: &Breaker,
    ) -> Result<Option<Open>, Timestamp> {
        let now = self.clock.now();
        if now.millis_since(delivery.created_at) >= NOT_POSTPONED_AFTER_MS {
            return Ok(None);
        }
        let until = match breaker.admit(now) {
            breaker::Passage::Pass => return Ok(None),
            breaker::Passage::Refuse { until } => until,
            breaker::Passage::Probe(open) => {
                match self.breakers.start_probe((&delivery.scope, server), open, now).await {
                    Ok(None) => return Ok(Some(open)),
                    Ok(Some(until)) => until,
                    // A failure of the breaker does not stop deliveries.
                    Err(error) => {
                        tracing::warn!(delivery = %delivery.id, %error, "can't start the probe of a breaker");
                        return Ok(None);
                    }
                }
            }
        };
        let jitter_ms = i64::try_from(random::below(MAX_POSTPONEMENT_JITTER_MS)).unwrap_or_default();
        Err(until.plus_millis(jitter_ms).unwrap_or(until))
    }

    /// Records on the server's breaker whether it answered. A failure is only logged, because the next attempt
    /// records the same.
    async fn record_on_breaker(
        &self,
        server: (&Scope, &str),
        attempt: &Attempt,
        breaker: &Breaker,
        probe: Option<Open>,
    ) {
        let recorded = match attempt {
            // Nothing was sent, so nothing is known about the server.
            Err(FailedAttempt { failure: AttemptFailure::Url(_) | AttemptFailure::Address(_), .. }) => Ok(()),
            Err(FailedAttempt { status_code: None, .. }) => {
                self.breakers.record_failure(server, probe, self.clock.now()).await
            }
            _ if breaker.has_failures() => self.breakers.record_answer(server).await,
            _ => Ok(()),
        };
        if let Err(error) = recorded {
            tracing::warn!(scope = %server.0, %error, "can't record an attempt on a breaker");
        }
    }

    /// Returns the outcome of an attempt. A failure becomes [`AttemptOutcome::Abandoned`] if the delivery was
    /// abandoned while the attempt ran, so that no other attempt follows.
    async fn unless_abandoned(&self, delivery: &Delivery, outcome: AttemptOutcome) -> AttemptOutcome {
        let failed = match &outcome {
            AttemptOutcome::Retry { failed, .. } | AttemptOutcome::Exhausted(failed) => failed.clone(),
            AttemptOutcome::Delivered { .. }
            | AttemptOutcome::Postponed { .. }
            | AttemptOutcome::Cancelled(_)
            | AttemptOutcome::Abandoned { .. } => return outcome,
        };
        match self.deliveries.abandonment_cause(delivery).await {
            Ok(None) => outcome,
            Ok(Some(cause)) => AttemptOutcome::Abandoned { cause, failed },
            // The next attempt checks this again before it posts.
            Err(error) => {
                tracing::warn!(delivery = %delivery.id, %error, "can't check whether a delivery was abandoned");
                outcome
            }
        }
    }

    async fn post(&self, delivery: &Delivery, ready: &Ready) -> Attempt {
        let t = Clock::machine_now().seconds();
        let signatures = signatures(delivery, &ready.secret, t, &ready.body);
        let value = |(name, text): (&'static str, String)| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(&text).ok()?))
        };
        let test = ready.event.is_sample.then(|| ("x-service-test", "true".to_owned()));
        let headers = delivery.headers().into_iter().chain(signatures).chain(test);
        let headers: HeaderMap = headers.filter_map(value).collect();
        self.sender.post(&ready.url, headers, ready.body.clone()).await
    }
}

/// Returns the headers with the signatures of a body that is posted at `t` (unix seconds).
fn signatures(
    delivery: &Delivery,
    secret: &EndpointSecret,
    t: i64,
    body: &[u8],
) -> Vec<(&'static str, String)> {
    let secret = secret.as_secret();
    match delivery.event_type.family() {
        Family::Canonical => {
            let standard = signature::standard_webhooks(secret, &delivery.event_id().to_string(), t, body);
            vec![
                (SIGNATURE, signature::canonical(secret, t, body)),
                ("webhook-timestamp", t.to_string()),
                ("webhook-signature", standard),
            ]
        }
        Family::Legacy => vec![(SIGNATURE, signature::legacy(secret, body))],
    }
}

/// Returns for how long SQS delays a message that is due at a time; `None`: SQS can't delay it so long.
fn sqs_delay(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Some(at.saturating_duration_since(now)).filter(|delay| *delay <= Duration::from_secs(MAX_DELAY_SECONDS))
}

/// Whether the attempt is the first to report a payment. A resend does not count: its id has another time than
/// the event.
/// Of live payments only, because a merchant's load test in the sandbox must page no one.
fn is_first_of_payment(delivery: &Delivery, event: &Event) -> bool {
    let reports_payment = matches!(delivery.event_type, EventType::ChargePaid | EventType::PaymentCompleted);
    reports_payment
        && delivery.scope.mode == Mode::Live
        && delivery.attempts == 1
        && delivery.id.timestamp() == Some(event.created_at)
}

fn outcome_name(outcome: &AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Delivered { .. } => "delivered",
        AttemptOutcome::Retry { .. } | AttemptOutcome::Postponed { .. } => "retried",
        AttemptOutcome::Exhausted(_) => "exhausted",
        AttemptOutcome::Cancelled(_) => "cancelled",
        AttemptOutcome::Abandoned { .. } => "abandoned",
    }
}

/// Logs an attempt, with the request that created the object of the event.
fn log_attempt(delivery: &Delivery, event: &Event, attempt: &Attempt, duration: Duration) {
    tracing::info!(
        delivery = %delivery.id,
        event = %event.id_as(delivery.event_type),
        event_type = delivery.event_type.as_str(),
        endpoint = delivery.endpoint.map(field::display),
        scope = %delivery.scope,
        request_id = event.request_id.as_ref().map(StoredRequestId::as_str),
        attempt = delivery.attempts,
        status = attempt.as_ref().map_or_else(|failed| failed.status_code, |status| Some(*status)),
        error = attempt.as_ref().err().map(|failed| field::display(&failed.failure)),
        duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "webhook sent"
    );
}

/// Logs and drops the error of a corrupt row, because a retry would not help. Returns other errors, so that
/// the message is retried.
fn unless_corrupt(recorded: Result<(), WebhookError>) -> WorkResult<()> {
    match recorded {
        Err(WebhookError::Store(StoreError::Corrupt(cause))) => {
            tracing::error!(cause, "can't record a success in the endpoint's row");
            Ok(())
        }
        other => Ok(other?),
    }
}

/// What a post needs, and the rows by which it may be postponed.
struct Ready {
    event: Event,
    body: Bytes,
    url: String,
    secret: EndpointSecret,
    /// `None`: the URL is the payment's own `webhookUrl`.
    endpoint: Option<Endpoint>,
    occupancy: Occupancy,
    server: String,
    breaker: Breaker,
}

/// Returns the outcome of an attempt. A failure that is not the last allowed includes the time of the next
/// attempt.
fn outcome_of(attempt: Attempt, delivery: &Delivery, now: Timestamp) -> AttemptOutcome {
    let failed = match attempt {
        Ok(status_code) => return AttemptOutcome::Delivered { status_code },
        Err(failed) => failed,
    };
    if delivery.attempts >= delivery.max_attempts {
        return AttemptOutcome::Exhausted(failed);
    }
    let jitter = random::bytes().map_or(u32::MAX / 2, |bytes: [u8; 4]| u32::from_le_bytes(bytes));
    let (code, retry_after) = (failed.status_code, failed.retry_after.as_deref());
    let delay = schedule::next_delay(delivery.attempts, code, retry_after, now.millis(), jitter);
    let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let next_attempt_at = now.plus_millis(delay_ms).unwrap_or(Timestamp::MAX);
    AttemptOutcome::Retry { failed, next_attempt_at }
}

#[cfg(test)]
mod tests {
    use domain::ids::{DeliveryId, ResendId};
    use domain::webhook::failure::ConnectionFailure;
    use effects::webhook::event::Origin;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attempts_outcome_is_named_in_the_metrics() {
        let exhausted =
            AttemptOutcome::Exhausted(FailedAttempt::without_body(None, ConnectionFailure::Timeout.into()));
        let outcomes = [
            (AttemptOutcome::Delivered { status_code: 200 }, "delivered"),
            (exhausted, "exhausted"),
            (AttemptOutcome::Cancelled(Cause::Deleted), "cancelled"),
        ];
        for (outcome, name) in outcomes {
            assert_eq!(outcome_name(&outcome), name);
        }
    }

    fn at(millis: i64) -> Timestamp {
        let start: Timestamp = "2026-11-21T10:00:00.000Z".parse().unwrap();
        start.plus_millis(millis).unwrap()
    }

    #[test]
    fn sqs_delays_a_message_by_fifteen_minutes_at_most() {
        for (due, delay_ms) in [(-1, Some(0)), (1, Some(1)), (900_000, Some(900_000)), (900_001, None)] {
            assert_eq!(sqs_delay(at(due), at(0)), delay_ms.map(Duration::from_millis), "{due}");
        }
    }

    #[test]
    fn the_first_attempt_of_a_payments_own_delivery_is_the_first_of_the_payment() {
        let delivery_of = |event_type, inserted_at| {
            let scope = "acc_01m7xpe60063pqsx:live".parse().unwrap();
            let origin = Origin::new(scope, "charge#1".to_owned(), at(0));
            let event = Event::of_one(event_type, &origin, &json!({})).unwrap();
            let resend = ResendId::new(at(0), [7; 10]);
            let mut delivery = Delivery::resend_to(&event, event_type, None, &resend, at(0));
            delivery.attempts = 1;
            delivery.id = DeliveryId::first_at(inserted_at);
            (delivery, event)
        };
        let is_first = |(delivery, event): &(Delivery, Event)| is_first_of_payment(delivery, event);
        for event_type in [EventType::ChargePaid, EventType::PaymentCompleted] {
            let (mut delivery, event) = delivery_of(event_type, at(0));
            assert!(is_first_of_payment(&delivery, &event), "{event_type:?}");
            delivery.attempts = 2;
            assert!(!is_first_of_payment(&delivery, &event), "{event_type:?}");
            (delivery.attempts, delivery.scope.mode) = (1, Mode::Test);
            assert!(!is_first_of_payment(&delivery, &event), "{event_type:?}");
        }
        assert!(!is_first(&delivery_of(EventType::ChargeCreated, at(0))), "no payment");
        assert!(!is_first(&delivery_of(EventType::ChargePaid, at(1))), "a resend");
    }
}
