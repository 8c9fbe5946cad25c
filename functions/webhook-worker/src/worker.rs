//! One delivery attempt from its queue message to its row: claim, read, post, end.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use aws_lambda_events::streams::SqsEventResponse;
use domain::time::Timestamp;
use domain::webhook::event_type::Family;
use domain::webhook::schedule;
use domain::webhook::signature::{self, EndpointSecret};
use hyper::body::Bytes;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, header};
use shared::app::address_policy;
use shared::clock::Clock;
use shared::config::{ConfigError, required};
use shared::errors::WorkError;
use shared::queue::{self, MAX_DELAY_SECONDS, QueueError};
use shared::random;
use shared::store::{Aws, Store, StoreError};
use shared::webhook::WebhookError;
use shared::webhook::delivery::{AttemptOutcome, Cause, Claim, Deliveries, Delivery, Recipient};
use shared::webhook::endpoint::{Endpoint, Endpoints};
use shared::webhook::event::Event;
use shared::webhook::override_secret::OverrideSecrets;
use shared::webhook::queue::{DeliveryMessage, DeliveryQueue};

use crate::sender::{Attempt, Sender};

const X_SERVICE_SIGNATURE: HeaderName = HeaderName::from_static("x-service-signature");
const X_SERVICE_DELIVERY_ID: HeaderName = HeaderName::from_static("x-service-delivery-id");
const X_SERVICE_EVENT_TYPE: HeaderName = HeaderName::from_static("x-service-event-type");
const X_SERVICE_MODE: HeaderName = HeaderName::from_static("x-service-mode");

/// The function's state. Clones share clients and connections.
#[derive(Clone, Debug)]
pub struct Worker {
    deliveries: Deliveries,
    endpoints: Endpoints,
    override_secrets: OverrideSecrets,
    queue: DeliveryQueue,
    dead_letters: DeliveryQueue,
    sender: Arc<Sender>,
    clock: Clock,
}

impl Worker {
    /// Reads `TABLE_NAME`, `DELIVERY_QUEUE_URL`, `DELIVERY_DEAD_LETTER_QUEUE_URL` and `WEBHOOK_ADDRESSES`.
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
            endpoints: Endpoints::new(store.clone()),
            override_secrets: OverrideSecrets::new(store),
            queue: DeliveryQueue::new(sqs.clone(), required(var, "DELIVERY_QUEUE_URL")?),
            dead_letters: DeliveryQueue::new(sqs, required(var, "DELIVERY_DEAD_LETTER_QUEUE_URL")?),
            sender: Arc::new(sender),
            clock,
        })
    }

    /// Works on a batch, its messages side by side. Reports the messages that were not done; the others are not
    /// handed over again.
    pub async fn handle(&self, batch: SqsEvent) -> SqsEventResponse {
        let worker = self.clone();
        queue::work_on(batch, move |message: DeliveryMessage| {
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
            Claim::Early { due_at } => Ok(self.queue.send_later(&message, due_at.until_from(now)).await?),
            Claim::Claimed(delivery) => self.attempt(&delivery, &message).await,
        }
    }

    async fn attempt(&self, delivery: &Delivery, message: &DeliveryMessage) -> Result<(), WorkError> {
        let (end, endpoint) = self.make_attempt(delivery).await?;
        let end = self.unless_abandoned(delivery, end).await;
        let now = self.clock.now();
        if matches!(end, AttemptOutcome::Exhausted { .. }) {
            // Before the row says FAILED: a crash in between repeats the message, and loses none.
            let refused = self.dead_letters.send(std::slice::from_ref(message)).await?;
            if !refused.is_empty() {
                return Err(
                    QueueError::Unavailable("the dead-letter queue refused a message".to_owned()).into()
                );
            }
        }
        let note = async || match &endpoint {
            Some(endpoint) => {
                self.endpoints.note(endpoint, (&end, delivery.created_at), self.clock.now()).await
            }
            None => Ok(()),
        };
        let succeeded = matches!(end, AttemptOutcome::Delivered { .. });
        if succeeded {
            // Before the row says so: else a crash in between leaves the endpoint failing, whose one success that was. What
            // is not noted is delivered once more.
            not_now(note().await)?;
        }
        if !self.deliveries.end(delivery, &end, now).await? {
            tracing::warn!(delivery = %delivery.id, "the lease ended before the attempt did");
            return Ok(());
        }
        if !succeeded && let Err(error) = note().await {
            // The delivery is done with, and the next failure notes the same.
            tracing::warn!(delivery = %delivery.id, %error, "how an endpoint does was not noted");
        }
        if let AttemptOutcome::Retry { next_attempt_at, .. } = end {
            let delay = next_attempt_at.until_from(now);
            if delay <= Duration::from_secs(MAX_DELAY_SECONDS) {
                self.queue.send_later(message, delay).await?;
            }
        }
        Ok(())
    }

    /// How an attempt ended, and the endpoint that it was made to.
    async fn make_attempt(
        &self,
        delivery: &Delivery,
    ) -> Result<(AttemptOutcome, Option<Endpoint>), WorkError> {
        let exhausted = |error: &str| {
            let (status_code, error) = (delivery.last_status_code, error.to_owned());
            (AttemptOutcome::Exhausted { status_code, error, response_body: None }, None)
        };
        let cancelled = |reason: &str| (AttemptOutcome::Cancelled { reason: reason.to_owned() }, None);
        // An attempt that never ended counts too, so that a delivery that kills its worker ends some day.
        if delivery.attempts > delivery.max_attempts {
            return Ok(exhausted("the last attempt was cut short"));
        }
        let material = match self.deliveries.delivery_context(delivery).await {
            Ok(material) => material,
            Err(StoreError::Corrupt(cause)) => {
                tracing::error!(delivery = %delivery.id, cause, "a delivery's event or endpoint can't be read");
                return Ok(exhausted("the event can't be read"));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(event) = material.event else {
            return Ok(cancelled("the event is no longer kept"));
        };
        let destination = self.destination(delivery, &event, material.recipient).await?;
        let Destination { url, secret, endpoint } = match destination {
            Ok(destination) => destination,
            Err(reason) => return Ok(cancelled(reason)),
        };
        let attempt = self.post(delivery, &event, &url, &secret).await;
        let (status, error) = (attempt.status_code(), attempt.error());
        let told = delivery.event_type.as_str();
        tracing::info!(delivery = %delivery.id, number = delivery.attempts, status, error, "{told} sent");
        Ok((end_of(&attempt, delivery, self.clock.now()), endpoint))
    }

    /// An attempt that failed is the last one where its delivery was abandoned while it ran.
    async fn unless_abandoned(&self, delivery: &Delivery, end: AttemptOutcome) -> AttemptOutcome {
        let (status_code, error, response_body) = match end {
            AttemptOutcome::Retry { status_code, ref error, ref response_body, .. }
            | AttemptOutcome::Exhausted { status_code, ref error, ref response_body } => {
                (status_code, error.clone(), response_body.clone())
            }
            AttemptOutcome::Delivered { .. }
            | AttemptOutcome::Cancelled { .. }
            | AttemptOutcome::Abandoned { .. } => {
                return end;
            }
        };
        match self.deliveries.abandoned(delivery).await {
            Ok(None) => end,
            Ok(Some(cause)) => {
                let reason = cause.reason().to_owned();
                AttemptOutcome::Abandoned { reason, status_code, error, response_body }
            }
            // The next attempt looks again before it begins.
            Err(error) => {
                tracing::warn!(delivery = %delivery.id, %error, "the endpoint was not read after an attempt");
                end
            }
        }
    }

    /// Where a delivery goes, or why it goes nowhere any more. An endpoint that the service switched off still gets what was
    /// made for it before.
    async fn destination(
        &self,
        delivery: &Delivery,
        event: &Event,
        recipient: Recipient,
    ) -> Result<Result<Destination, &'static str>, WorkError> {
        match recipient {
            Recipient::Endpoint(endpoint) => Ok(match (Cause::of(delivery, endpoint.as_ref()), endpoint) {
                (None, Some(endpoint)) => Ok(Destination {
                    url: endpoint.url.clone(),
                    secret: endpoint.secret.clone(),
                    endpoint: Some(endpoint),
                }),
                (cause, _) => Err(cause.unwrap_or(Cause::Deleted).reason()),
            }),
            Recipient::Override(known) => {
                let Some(url) = event.webhook_url.clone() else {
                    return Ok(Err("the event has no address of its own"));
                };
                let secret = match known {
                    Some(known) => known.secret,
                    None => self.first_override_secret(delivery).await?,
                };
                Ok(Ok(Destination { url, secret, endpoint: None }))
            }
        }
    }

    async fn first_override_secret(&self, delivery: &Delivery) -> Result<EndpointSecret, WorkError> {
        let secret = EndpointSecret::from_random(&random::bytes()?);
        Ok(self.override_secrets.get_or_set(delivery.scope, secret, self.clock.now()).await?)
    }

    async fn post(&self, delivery: &Delivery, event: &Event, url: &str, secret: &EndpointSecret) -> Attempt {
        let body = Bytes::from(event.body_as(delivery.event_type));
        let secret = secret.as_secret();
        let signature = match delivery.event_type.family() {
            Family::Canonical => signature::canonical(secret, self.clock.now().seconds(), &body),
            Family::Legacy => signature::legacy(secret, &body),
        };
        let headers = [
            (header::CONTENT_TYPE, "application/json".to_owned()),
            (X_SERVICE_SIGNATURE, signature),
            (X_SERVICE_DELIVERY_ID, delivery.id.to_string()),
            (X_SERVICE_EVENT_TYPE, delivery.event_type.as_str().to_owned()),
            (X_SERVICE_MODE, delivery.scope.mode.to_string()),
        ];
        let value =
            |(name, text): (HeaderName, String)| HeaderValue::from_str(&text).ok().map(|value| (name, value));
        let headers: HeaderMap = headers.into_iter().filter_map(value).collect();
        self.sender.post(url, headers, body).await
    }
}

/// Fails on what may succeed later; what can't be read or written then either is said and left.
fn not_now(done: Result<(), WebhookError>) -> Result<(), WorkError> {
    match done {
        Err(WebhookError::Store(StoreError::Corrupt(cause))) => {
            tracing::error!(cause, "how an endpoint does can't be noted");
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Where a delivery goes.
struct Destination {
    /// The address.
    url: String,
    /// What signs it.
    secret: EndpointSecret,
    /// The endpoint, unless it is the transaction's own address.
    endpoint: Option<Endpoint>,
}

fn end_of(attempt: &Attempt, delivery: &Delivery, now: Timestamp) -> AttemptOutcome {
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
