//! Runs a delivery attempt: reads a queue message, claims the delivery, reads its event and receiver, posts
//! the event, and writes the outcome.
//!
//! If the worker dies, the claim's lease ends after 60 s, and the scheduler starts the delivery again. So
//! each event is posted at least once, and may be posted twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::request_id::StoredRequestId;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};
use domain::webhook::schedule;
use domain::webhook::signature::{self, EndpointSecret};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, header};
use shared::WorkError;
use shared::app::address_policy;
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::metrics;
use shared::queue::{self, MAX_DELAY_SECONDS, QueueError};
use shared::random::{self, RandomError};
use shared::store::{Aws, Store, StoreError};
use shared::webhook::WebhookError;
use shared::webhook::delivery::{AttemptOutcome, Cause, Claim, Deliveries, Delivery, Recipient};
use shared::webhook::endpoint::{Endpoint, Endpoints};
use shared::webhook::event::Event;
use shared::webhook::queue::{DeliveryMessage, DeliveryQueue, DeliveryQueues};
use tracing::field;

use crate::sender::{Attempt, Sender};

const X_SERVICE_SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");
const X_SERVICE_DELIVERY_ID: HeaderName = HeaderName::from_static("x-service-delivery-id");
const X_SERVICE_EVENT_TYPE: HeaderName = HeaderName::from_static("x-service-event-type");
const X_SERVICE_MODE: HeaderName = HeaderName::from_static("x-service-mode");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The function's state. Clones share clients and connections.
#[derive(Clone, Debug)]
pub struct Worker {
    deliveries: Deliveries,
    endpoints: Endpoints,
    /// The table of secrets.
    secrets: Store,
    queues: DeliveryQueues,
    exhausted: DeliveryQueue,
    sender: Arc<Sender>,
    clock: Clock,
}

impl Worker {
    /// Reads `TABLE_NAME`, `SECRETS_TABLE_NAME`, `DELIVERY_QUEUE_URL`, `TEST_DELIVERY_QUEUE_URL`,
    /// `EXHAUSTED_DELIVERIES_QUEUE_URL` and `WEBHOOK_ADDRESSES`.
    pub fn from_vars(
        aws: &Aws,
        clock: Clock,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let sqs = aws.sqs();
        let sender = Sender::new(address_policy(var)).map_err(|error| ConfigError::new(error.to_string()))?;
        let store = Store::new(aws.dynamodb(), required(var, "TABLE_NAME")?);
        Ok(Self {
            deliveries: Deliveries::new(store.clone()),
            endpoints: Endpoints::new(store),
            secrets: Store::new(aws.dynamodb(), required(var, "SECRETS_TABLE_NAME")?),
            queues: DeliveryQueues::from_vars(&sqs, var)?,
            exhausted: DeliveryQueue::new(sqs, required(var, "EXHAUSTED_DELIVERIES_QUEUE_URL")?),
            sender: Arc::new(sender),
            clock,
        })
    }

    /// Processes the messages of a batch concurrently. Returns the messages that failed; SQS delivers only
    /// these again.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::process_batch(batch, move |message: DeliveryMessage| {
            let worker = worker.clone();
            async move { worker.work(message).await }
        })
        .await
    }

    async fn work(&self, message: DeliveryMessage) -> Result<(), WorkError> {
        let now = self.clock.now();
        let claim = u64::from_le_bytes(random::bytes()?);
        match self.deliveries.claim(&message.scope, message.delivery, claim, now).await? {
            Claim::NotNow => Ok(()),
            Claim::Early { due_at } => {
                let delay = due_at.saturating_duration_since(now);
                Ok(self.queues.of(message.scope.mode).send_later(&message, delay).await?)
            }
            Claim::Claimed(delivery) => self.attempt(&delivery, &message).await,
        }
    }

    /// Makes the attempt of a claimed delivery and writes its outcome.
    async fn attempt(&self, delivery: &Delivery, message: &DeliveryMessage) -> Result<(), WorkError> {
        let (outcome, endpoint) = self.make_attempt(delivery).await?;
        let outcome = self.unless_abandoned(delivery, outcome).await;
        let now = self.clock.now();
        if matches!(outcome, AttemptOutcome::Exhausted { .. }) {
            // Sent before the row becomes FAILED. So after a crash in between, the message is sent twice
            // instead of never.
            let refused = self.exhausted.send(std::slice::from_ref(message)).await?;
            if !refused.is_empty() {
                return Err(QueueError::Unavailable(
                    "the queue of exhausted deliveries refused a message".to_owned(),
                )
                .into());
            }
        }
        let record_on_endpoint = async || match &endpoint {
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
        if !self.deliveries.end_attempt(delivery, &outcome, now).await? {
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
            let delay = next_attempt_at.saturating_duration_since(now);
            // SQS delays a message by at most 15 minutes. The scheduler sends the message of a later attempt.
            if delay <= Duration::from_secs(MAX_DELAY_SECONDS) {
                self.queues.of(message.scope.mode).send_later(message, delay).await?;
            }
        }
        Ok(())
    }

    /// Makes an attempt. Returns its outcome, and the endpoint that was posted to; `None`: no request was
    /// sent, or it was sent to a `webhookUrl`.
    async fn make_attempt(
        &self,
        delivery: &Delivery,
    ) -> Result<(AttemptOutcome, Option<Endpoint>), WorkError> {
        let exhausted = |error: &str| {
            let (status_code, error) = (delivery.last_status_code, error.to_owned());
            (AttemptOutcome::Exhausted { status_code, error, response_body: None }, None)
        };
        let cancelled = |reason: &str| (AttemptOutcome::Cancelled { reason: reason.to_owned() }, None);
        // Each claim counts as an attempt, even if the worker died. So a delivery that always crashes its
        // worker is `FAILED` in the end.
        if delivery.attempts > delivery.max_attempts {
            return Ok(exhausted("the last attempt was cut short"));
        }
        let (context, secret) = match self.deliveries.signed_context(delivery, &self.secrets).await {
            Ok(found) => found,
            Err(StoreError::Corrupt(cause)) => {
                tracing::error!(delivery = %delivery.id, cause, "can't read a delivery's event, endpoint or secret");
                return Ok(exhausted("the event can't be read"));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(event) = context.event else {
            return Ok(cancelled("the event is no longer kept"));
        };
        let destination = destination(delivery, &event, context.recipient, secret)?;
        let Destination { url, secret, endpoint } = match destination {
            Ok(destination) => destination,
            Err(reason) => return Ok(cancelled(reason)),
        };
        if is_first_of_payment(delivery, &event) {
            let age_ms = self.clock.now().millis_since(event.created_at);
            metrics::write("", &[(metrics::PAID_TO_FIRST_ATTEMPT, &age_ms)]);
        }
        let Some(body) = event.body_as(delivery.event_type) else {
            return Ok(exhausted("the event can't be read"));
        };
        let started_at = Instant::now();
        let attempt = self.post(delivery, &event, Bytes::from(body), (&url, &secret)).await;
        log_attempt(delivery, &event, &attempt, started_at.elapsed());
        Ok((outcome_of(&attempt, delivery, self.clock.now()), endpoint))
    }

    /// Returns the outcome of an attempt. A failure becomes [`AttemptOutcome::Abandoned`] if the delivery was
    /// abandoned while the attempt ran, so that no other attempt follows.
    async fn unless_abandoned(&self, delivery: &Delivery, outcome: AttemptOutcome) -> AttemptOutcome {
        let (status_code, error, response_body) = match outcome {
            AttemptOutcome::Retry { status_code, ref error, ref response_body, .. }
            | AttemptOutcome::Exhausted { status_code, ref error, ref response_body } => {
                (status_code, error.clone(), response_body.clone())
            }
            AttemptOutcome::Delivered { .. }
            | AttemptOutcome::Cancelled { .. }
            | AttemptOutcome::Abandoned { .. } => {
                return outcome;
            }
        };
        match self.deliveries.abandonment_cause(delivery).await {
            Ok(None) => outcome,
            Ok(Some(cause)) => {
                let reason = cause.reason().to_owned();
                AttemptOutcome::Abandoned { reason, status_code, error, response_body }
            }
            // The next attempt checks this again before it posts.
            Err(error) => {
                tracing::warn!(delivery = %delivery.id, %error, "can't check whether a delivery was abandoned");
                outcome
            }
        }
    }

    async fn post(
        &self,
        delivery: &Delivery,
        event: &Event,
        body: Bytes,
        (url, secret): (&str, &EndpointSecret),
    ) -> Attempt {
        let headers = [
            (header::CONTENT_TYPE, "application/json".to_owned()),
            (X_SERVICE_DELIVERY_ID, delivery.id.to_string()),
            (X_SERVICE_EVENT_TYPE, delivery.event_type.as_str().to_owned()),
            (X_SERVICE_MODE, delivery.scope.mode.to_string()),
        ];
        let signatures = signatures(delivery, event, secret, self.clock.now().seconds(), &body);
        let value =
            |(name, text): (HeaderName, String)| HeaderValue::from_str(&text).ok().map(|value| (name, value));
        let headers: HeaderMap = headers.into_iter().chain(signatures).filter_map(value).collect();
        self.sender.post(url, headers, body).await
    }
}

/// Returns the headers with the signatures of a body that is posted at `t` (unix seconds). Only canonical
/// events have the headers of Standard Webhooks, because the id of a legacy event is not in its body.
fn signatures(
    delivery: &Delivery,
    event: &Event,
    secret: &EndpointSecret,
    t: i64,
    body: &[u8],
) -> Vec<(HeaderName, String)> {
    let secret = secret.as_secret();
    match delivery.event_type.family() {
        Family::Canonical => {
            let id = event.id_as(delivery.event_type).to_string();
            let standard = signature::standard_webhooks(secret, &id, t, body);
            vec![
                (X_SERVICE_SIGNATURE, signature::canonical(secret, t, body)),
                (WEBHOOK_ID, id),
                (WEBHOOK_TIMESTAMP, t.to_string()),
                (WEBHOOK_SIGNATURE, standard),
            ]
        }
        Family::Legacy => vec![(X_SERVICE_SIGNATURE, signature::legacy(secret, body))],
    }
}

/// Whether the attempt is the first to report a payment. A resend does not count: its id has another time than
/// the event.
fn is_first_of_payment(delivery: &Delivery, event: &Event) -> bool {
    let reports_payment = matches!(delivery.event_type, EventType::ChargePaid | EventType::PaymentCompleted);
    reports_payment && delivery.attempts == 1 && delivery.id.timestamp() == Some(event.created_at)
}

/// Returns the value of the metrics' dimension `Outcome`.
fn outcome_name(outcome: &AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Delivered { .. } => "delivered",
        AttemptOutcome::Retry { .. } => "retried",
        AttemptOutcome::Exhausted { .. } => "exhausted",
        AttemptOutcome::Cancelled { .. } => "cancelled",
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
        status = attempt.status_code(),
        error = attempt.error(),
        duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "webhook sent"
    );
}

/// Logs and drops the error of a corrupt row, because a retry would not help. Returns other errors, so that
/// the message is retried.
fn unless_corrupt(recorded: Result<(), WebhookError>) -> Result<(), WorkError> {
    match recorded {
        Err(WebhookError::Store(StoreError::Corrupt(cause))) => {
            tracing::error!(cause, "can't record a success in the endpoint's row");
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Where a delivery is posted.
struct Destination {
    url: String,
    /// The secret that signs the request.
    secret: EndpointSecret,
    /// The endpoint; `None`: the URL is the payment's own `webhookUrl`.
    endpoint: Option<Endpoint>,
}

/// Returns where a delivery is posted, or why it is cancelled. An endpoint that the service switched off still
/// receives the deliveries that existed at that time.
fn destination(
    delivery: &Delivery,
    event: &Event,
    recipient: Recipient,
    secret: Option<EndpointSecret>,
) -> Result<Result<Destination, &'static str>, RandomError> {
    match recipient {
        Recipient::Endpoint(endpoint) => {
            let cause = Cause::of(delivery, endpoint.as_deref());
            Ok(match (cause, endpoint, secret) {
                (None, Some(endpoint), Some(secret)) => {
                    Ok(Destination { url: endpoint.url.clone(), secret, endpoint: Some(*endpoint) })
                }
                (cause, _, _) => Err(cause.unwrap_or(Cause::Deleted).reason()),
            })
        }
        Recipient::Override => {
            let Some(url) = event.webhook_url.clone() else {
                return Ok(Err("the event has no address of its own"));
            };
            let secret = match secret {
                Some(secret) => secret,
                // The merchant has not rotated the secret yet, so no receiver knows one. The signature can't be
                // verified with any secret, so this one is not stored.
                None => EndpointSecret::from_random(&random::bytes()?),
            };
            Ok(Ok(Destination { url, secret, endpoint: None }))
        }
    }
}

/// Returns the outcome of an attempt. A failure that is not the last allowed includes the time of the next
/// attempt.
fn outcome_of(attempt: &Attempt, delivery: &Delivery, now: Timestamp) -> AttemptOutcome {
    if let Attempt::Delivered { status_code } = attempt {
        return AttemptOutcome::Delivered { status_code: *status_code };
    }
    let status_code = attempt.status_code();
    let error = attempt.error().unwrap_or_default();
    let response_body = attempt.response_body().map(str::to_owned);
    if delivery.attempts >= delivery.max_attempts {
        return AttemptOutcome::Exhausted { status_code, error, response_body };
    }
    let jitter = random::bytes().map_or(u32::MAX / 2, |bytes: [u8; 4]| u32::from_le_bytes(bytes));
    let delay =
        schedule::next_delay(delivery.attempts, status_code, attempt.retry_after(), now.millis(), jitter);
    let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let next_attempt_at = now.plus_millis(delay_ms).unwrap_or(Timestamp::MAX);
    AttemptOutcome::Retry { status_code, error, response_body, next_attempt_at }
}
