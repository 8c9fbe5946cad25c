//! Attempts of a delivery: a worker claims the delivery, loads its event and recipient, and writes the
//! outcome.
//!
//! The claim and the outcome are one conditional update each. Both change the status, which is also in the
//! sort key of a listed delivery's entry in `list`. So the condition checks whether the delivery is
//! listed. If another writer listed it meanwhile, the update is repeated with the sort key. A delivery that ends as
//! `FAILED` or `CANCELLED` is added to the numbers of its day in the same transaction.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use domain::ids::{DeliveryId, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::failure::AttemptFailure;
use domain::webhook::signature::EndpointSecret;

use super::abandonment::Cause;
use super::attempt_log::LoggedAttempt;
use super::counts::additions;
use super::entry::Entry;
use super::{Deliveries, Delivery, DeliveryStatus, LEASE_SECONDS};
use crate::webhook::breaker::Breakers;
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;
use crate::webhook::in_flight::{InFlight, Occupancy};
use crate::webhook::secret::SigningSecret;
use shared::store::{
    CommitOutcome, Item, Result, RowUpdate, Store, StoreError, UpdateOutcome, Write, due_attributes,
    from_item, key_of_item, number,
};

/// The largest expected difference between the clocks of two machines, in milliseconds. A message that
/// arrives up to this long before the delivery is due is sent again for the due time. A message that arrives
/// still earlier is stale: its attempt has already been made.
const MAX_SKEW_MS: i64 = 5_000;

/// How many changes of a delivery's status may precede its listing, before the next count continues.
const MAX_CHANGES_SEEN: usize = 4;

#[derive(Debug)]
pub enum Claim {
    /// The caller has the claim and must end the attempt before the lease ends.
    Claimed(Box<Delivery>),
    /// The message came before the delivery is due, because the clocks of two machines differ.
    Early { due_at: Timestamp },
    /// Another worker has the claim. It may have died, so the message must be read again when the lease ends.
    Leased {
        /// When the lease ends.
        until: Timestamp,
    },
    /// There is nothing to do: the delivery does not exist, is done, or waits for a retry, for which the
    /// scheduler sends a message.
    NotNow,
}

/// The outcome of an attempt, which may also end the delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// The receiver answered 2xx.
    Delivered { status_code: u16 },
    /// The attempt failed, and another one follows.
    Retry {
        failed: FailedAttempt,
        /// When the next attempt may begin.
        next_attempt_at: Timestamp,
    },
    /// The attempt failed, and there is no next one. The delivery becomes `FAILED`.
    Exhausted(FailedAttempt),
    /// No request was sent, because the receiver's turn comes later. The claim does not count as an attempt.
    Postponed {
        /// When the attempt may begin; `None`: when its message returns.
        until: Option<Timestamp>,
    },
    /// No request was sent, because the delivery was abandoned or its event has expired. The delivery becomes
    /// `CANCELLED`.
    Cancelled(Cause),
    /// The attempt failed, and the delivery was abandoned while it ran. The delivery becomes `CANCELLED`.
    Abandoned { cause: Cause, failed: FailedAttempt },
}

#[derive(Clone, PartialEq)]
pub struct FailedAttempt {
    /// The HTTP status of the response; `None`: there was no response.
    pub status_code: Option<u16>,
    pub failure: AttemptFailure,
    /// The `Retry-After` header as it was sent; `domain::webhook::schedule::next_delay` parses it.
    pub retry_after: Option<String>,
    pub response_body: Option<String>,
}

/// Without the body, which comes from the merchant's server and may be confidential.
impl fmt::Debug for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status_code, failure, .. } = self;
        f.debug_struct("FailedAttempt")
            .field("status_code", status_code)
            .field("failure", failure)
            .finish_non_exhaustive()
    }
}

impl FailedAttempt {
    pub fn without_body(status_code: Option<u16>, failure: AttemptFailure) -> Self {
        Self { status_code, failure, retry_after: None, response_body: None }
    }
}

/// The rows that an attempt needs besides the delivery's row.
#[derive(Debug)]
pub struct DeliveryContext {
    /// The event to send; `None`: its row has expired.
    pub event: Option<Event>,
    /// `None`: the endpoint was deleted, or the delivery is to the transaction's `webhookUrl`.
    pub endpoint: Option<Endpoint>,
}

/// What an attempt needs besides the delivery's row: the context, the secret, and the rows by which the
/// attempt may be postponed.
#[derive(Debug)]
pub struct SignedContext {
    pub context: DeliveryContext,
    /// The secret that signs the delivery; `None`: the endpoint was deleted, or the scope has no override
    /// secret yet.
    pub secret: Option<EndpointSecret>,
    /// The scope's slots in use, and its slow receivers.
    pub occupancy: Occupancy,
    /// The row with the scope's circuit breakers; `None`: no server of the scope failed lately.
    pub breakers: Option<Item>,
}

impl Deliveries {
    /// Claims a delivery for one attempt. `claim` is a random name for the claim.
    pub async fn claim(&self, scope: &Scope, id: DeliveryId, claim: u64, now: Timestamp) -> Result<Claim> {
        let claim = format!("{claim:016x}");
        let refused = match self.try_claim_row(&Delivery::key_of(scope, id), &claim, now).await? {
            UpdateOutcome::Done(item) => return Ok(Claim::Claimed(Box::new(from_item(item)?))),
            UpdateOutcome::Refused(item) if item.is_empty() => return Ok(Claim::NotNow),
            UpdateOutcome::Refused(item) => item,
        };
        let delivery: Delivery = from_item(refused)?;
        let ahead_ms = delivery.next_attempt_at.millis_since(now);
        match delivery.status {
            // The claim succeeded, DynamoDB's response was lost, and the SDK sent the request again.
            DeliveryStatus::Processing if delivery.claim.as_ref() == Some(&claim) => {
                Ok(Claim::Claimed(Box::new(delivery)))
            }
            DeliveryStatus::Processing => Ok(Claim::Leased { until: delivery.leased_until.unwrap_or(now) }),
            // Nothing but this message starts a delivery that is not in the due index.
            DeliveryStatus::Pending if ahead_ms <= MAX_SKEW_MS || !delivery.listed => {
                Ok(Claim::Early { due_at: delivery.next_attempt_at })
            }
            DeliveryStatus::Pending
            | DeliveryStatus::Delivered
            | DeliveryStatus::Failed
            | DeliveryStatus::Cancelled => Ok(Claim::NotNow),
        }
    }

    /// Tries to claim the row with a key. The claim of a listed delivery also changes its sort key in `list`. The
    /// claim of an unlisted delivery is tried first, because nearly all attempts are first attempts of
    /// unlisted deliveries.
    async fn try_claim_row(&self, key: &Key, claim: &str, now: Timestamp) -> Result<UpdateOutcome> {
        let lease = now.plus_seconds(LEASE_SECONDS).unwrap_or(Timestamp::MAX);
        let update = RowUpdate::of(key.clone())
            .set("status", status_value(DeliveryStatus::Processing))
            .set("leased_until", millis(lease))
            .set("claim", AttributeValue::S(claim.to_owned()))
            .set("updated_at", millis(now))
            .add("attempts", number(1))
            .append("attempt_log", vec![serde_dynamo::to_attribute_value(LoggedAttempt::begun(now))?])
            .when_any([
                vec![
                    ("status", "=", status_value(DeliveryStatus::Pending)),
                    ("next_attempt_at", "<=", millis(now)),
                ],
                vec![
                    ("status", "=", status_value(DeliveryStatus::Processing)),
                    ("leased_until", "<", millis(now)),
                ],
            ]);
        match update.clone().when_absent("listed").run(&self.store).await? {
            UpdateOutcome::Refused(item) if item.contains_key("listed") => {
                let delivery: Delivery = from_item(item)?;
                let entry = in_list(&delivery.scope, &delivery.entry(), DeliveryStatus::Processing);
                update.set_all(entry).when("listed", "=", AttributeValue::Bool(true)).run(&self.store).await
            }
            outcome => Ok(outcome),
        }
    }

    /// Adds a delivery that takes long to the list of open ones and to the due index, so that the scheduler sends
    /// another message for it. Returns the delivery as it is afterwards: listed, or delivered since it was
    /// read.
    pub async fn add_to_list(&self, seen: Delivery, now: Timestamp) -> Result<Delivery> {
        let mut seen = seen;
        for _change in 0..MAX_CHANGES_SEEN {
            if seen.listed || seen.is_delivered() {
                break;
            }
            let key = seen.key();
            // During an attempt, a message would only find its lease.
            let due_at = seen.leased_until.map_or(now, |until| until.max(now));
            let update = RowUpdate::of(key.clone())
                .set_all(in_list(&seen.scope, &seen.entry(), seen.status))
                .set_all(due_attributes(&key, due_at))
                .when("status", "=", status_value(seen.status))
                .when_absent("listed");
            let (UpdateOutcome::Done(item) | UpdateOutcome::Refused(item)) = update.run(&self.store).await?;
            seen = from_item(item)?;
        }
        Ok(seen)
    }

    /// Makes the next attempt of a listed pending delivery due now. Returns `false` if it is no longer pending.
    pub(in crate::webhook) async fn make_due(&self, delivery: &Delivery, now: Timestamp) -> Result<bool> {
        let key = delivery.key();
        let update = RowUpdate::of(key.clone())
            .set("next_attempt_at", millis(now))
            .set_all(due_attributes(&key, now))
            .when("status", "=", status_value(DeliveryStatus::Pending))
            .when("listed", "=", AttributeValue::Bool(true));
        Ok(matches!(update.run(&self.store).await?, UpdateOutcome::Done(_)))
    }

    /// Reads the event and the receiver of a delivery, in one request.
    pub(crate) async fn delivery_context(&self, delivery: &Delivery) -> Result<DeliveryContext> {
        let keys: Vec<Key> = context_keys(delivery).collect();
        context_of(delivery, &mut rows_by_key(self.store.batch_get(&keys).await?))
    }

    /// Like `Deliveries::delivery_context`, but reads all of [`SignedContext`], in the same request. The
    /// secret is not cached, so that a rotation takes effect at once.
    /// Errors: [`StoreError::Corrupt`] when the endpoint has no secret.
    pub async fn signed_context(&self, delivery: &Delivery, secrets: &Store) -> Result<SignedContext> {
        let found = Box::pin(self.read_signed_context(delivery, secrets)).await?;
        if found.secret.is_some() || found.context.endpoint.is_none() {
            return Ok(found);
        }
        // The endpoint may have been deleted during the read, after its row was found and before its secret was
        // read. A second read finds neither.
        let found = Box::pin(self.read_signed_context(delivery, secrets)).await?;
        if found.secret.is_none() && found.context.endpoint.is_some() {
            return Err(StoreError::Corrupt("an endpoint has no secret".to_owned()));
        }
        Ok(found)
    }

    async fn read_signed_context(&self, delivery: &Delivery, secrets: &Store) -> Result<SignedContext> {
        let scope = &delivery.scope;
        let (slots_key, breakers_key) = (InFlight::key_of(scope), Breakers::key_of(scope));
        let secret_key = SigningSecret::key_of(&delivery.scope, delivery.endpoint);
        let fairness_keys = [slots_key.clone(), breakers_key.clone()];
        let keys: Vec<Key> = context_keys(delivery).chain(fairness_keys).collect();
        let (rows, secret) = self.store.batch_get_with(&keys, (secrets, &secret_key)).await?;
        let mut rows = rows_by_key(rows);
        let context = context_of(delivery, &mut rows)?;
        let secret = secret.map(from_item::<SigningSecret>).transpose()?.map(|row| row.secret);
        let occupancy = Occupancy::of(rows.remove(&slots_key).unwrap_or_default());
        Ok(SignedContext { context, secret, occupancy, breakers: rows.remove(&breakers_key) })
    }

    /// Writes the outcome of a claimed attempt, and how long it took, into the delivery's row. Returns `false` if the lease ended
    /// meanwhile and another worker claimed the delivery; nothing is written then.
    pub async fn end_attempt(
        &self,
        claimed: &Delivery,
        (outcome, took): (&AttemptOutcome, Duration),
        now: Timestamp,
    ) -> Result<bool> {
        let Some(claim) = &claimed.claim else { return Ok(false) };
        let stays_unlisted =
            matches!(outcome, AttemptOutcome::Delivered { .. } | AttemptOutcome::Postponed { until: None });
        for is_listed in [claimed.listed || !stays_unlisted, true] {
            // Boxed, because the futures of commits and updates take kilobytes.
            let ended = Box::pin(self.try_end((claimed, claim), (outcome, took), is_listed, now));
            let Some(stored) = ended.await? else { return Ok(true) };
            if stored.claim.as_ref() != Some(claim) {
                return Ok(false);
            }
            if stored.status != DeliveryStatus::Processing {
                // This outcome is written already: DynamoDB's response was lost, and the SDK sent the request
                // again.
                return Ok(true);
            }
            // The scheduler listed the delivery meanwhile, because it was not delivered in time.
        }
        Ok(false)
    }

    /// Tries one write that ends an attempt. Returns the stored row if its condition failed; `None`: it is written.
    /// `is_listed`: the write also changes the delivery's entry in `list`; otherwise the condition is that the
    /// delivery is unlisted.
    async fn try_end(
        &self,
        (claimed, claim): (&Delivery, &str),
        (outcome, took): (&AttemptOutcome, Duration),
        is_listed: bool,
        now: Timestamp,
    ) -> Result<Option<Delivery>> {
        let key = claimed.key();
        let mut update = RowUpdate::of(key.clone())
            .set("updated_at", millis(now))
            .remove("leased_until")
            .when("status", "=", status_value(DeliveryStatus::Processing))
            .when("claim", "=", AttributeValue::S(claim.to_owned()));
        let Delivery { last_status_code, last_error, last_response_body, .. } = claimed.clone();
        let of_failed = |FailedAttempt { status_code, failure, response_body, .. }: FailedAttempt| {
            (status_code, Some(failure), response_body)
        };
        let was_sent = !matches!(outcome, AttemptOutcome::Cancelled(_) | AttemptOutcome::Postponed { .. });
        let (status, (status_code, failure, response_body)) = match outcome.clone() {
            AttemptOutcome::Delivered { status_code } => {
                update = update.set("delivered_at", millis(now));
                (DeliveryStatus::Delivered, (Some(status_code), None, None))
            }
            AttemptOutcome::Retry { failed, .. } => (DeliveryStatus::Pending, of_failed(failed)),
            AttemptOutcome::Exhausted(failed) => (DeliveryStatus::Failed, of_failed(failed)),
            AttemptOutcome::Abandoned { failed, .. } => (DeliveryStatus::Cancelled, of_failed(failed)),
            // The results of earlier attempts stay.
            AttemptOutcome::Postponed { .. } => {
                (DeliveryStatus::Pending, (last_status_code, last_error, last_response_body))
            }
            AttemptOutcome::Cancelled(_) => {
                (DeliveryStatus::Cancelled, (last_status_code, last_error, last_response_body))
            }
        };
        if let AttemptOutcome::Cancelled(cause) | AttemptOutcome::Abandoned { cause, .. } = outcome {
            update = update.set("cancelled_because", cause_value(*cause));
        }
        if !was_sent {
            // No request was sent, so this claim does not count as an attempt.
            update = update.add("attempts", number(-1));
        }
        if let AttemptOutcome::Retry { next_attempt_at: next, .. }
        | AttemptOutcome::Postponed { until: Some(next) } = outcome
        {
            update = update.set("next_attempt_at", millis(*next)).set_all(due_attributes(&key, *next));
        }
        update = update.set("status", status_value(status));
        if status != DeliveryStatus::Pending {
            update = update.remove_all(["due_pk", "due_sk"]);
        }
        let log = claimed.log_after(was_sent.then(|| (status_code, failure.clone())), took);
        update = update.set("attempt_log", serde_dynamo::to_attribute_value(log)?);
        let failure = failure.map(serde_dynamo::to_attribute_value).transpose()?;
        for (name, value) in [
            ("last_status_code", status_code.map(|code| number(code.into()))),
            ("last_error", failure),
            ("last_response_body", response_body.map(AttributeValue::S)),
        ] {
            update = match value {
                Some(value) => update.set(name, value),
                None => update.remove(name),
            };
        }
        update = match (is_listed, status) {
            (false, _) => update.when_absent("listed"),
            (true, DeliveryStatus::Delivered) => update.remove_all(["list_pk", "list_sk"]),
            (true, status) => update.set_all(in_list(&claimed.scope, &claimed.entry(), status)),
        };
        let stored = if let DeliveryStatus::Failed | DeliveryStatus::Cancelled = status {
            let mut writes = vec![Write::update(update)];
            writes.extend(additions(&claimed.scope, status.as_str(), std::iter::once(&claimed.entry())));
            match self.store.commit(writes).await? {
                CommitOutcome::Done => return Ok(None),
                // DynamoDB recognises a repeated transaction, so another worker has claimed the delivery.
                CommitOutcome::Conflict { .. } => None,
            }
        } else {
            match update.run(&self.store).await? {
                UpdateOutcome::Done(_) => return Ok(None),
                UpdateOutcome::Refused(item) if item.is_empty() => None,
                UpdateOutcome::Refused(item) => Some(from_item(item)?),
            }
        };
        Ok(Some(stored.unwrap_or_else(|| Delivery { claim: None, ..claimed.clone() })))
    }
}

fn context_keys(delivery: &Delivery) -> impl Iterator<Item = Key> {
    let endpoint = delivery.endpoint.map(|endpoint| Endpoint::key_of(&delivery.scope, endpoint));
    std::iter::once(delivery.event_key()).chain(endpoint)
}

fn rows_by_key(items: Vec<Item>) -> HashMap<Key, Item> {
    items.into_iter().filter_map(|item| Some((key_of_item(&item)?, item))).collect()
}

fn context_of(delivery: &Delivery, rows: &mut HashMap<Key, Item>) -> Result<DeliveryContext> {
    let event = rows.remove(&delivery.event_key()).map(from_item).transpose()?;
    let key = delivery.endpoint.map(|endpoint| Endpoint::key_of(&delivery.scope, endpoint));
    let endpoint = key.and_then(|key| rows.remove(&key)).map(from_item).transpose()?;
    Ok(DeliveryContext { event, endpoint })
}

/// The attributes that put a delivery into `list`, or change its sort key there.
pub(super) fn in_list(scope: &Scope, entry: &Entry, status: DeliveryStatus) -> [(String, AttributeValue); 3] {
    let list = AttributeValue::S(Delivery::partition(scope));
    [
        ("listed".to_owned(), AttributeValue::Bool(true)),
        ("list_pk".to_owned(), list),
        ("list_sk".to_owned(), AttributeValue::S(entry.list_sort(status))),
    ]
}

pub(super) fn status_value(status: DeliveryStatus) -> AttributeValue {
    AttributeValue::S(status.as_str().to_owned())
}

pub(super) fn cause_value(cause: Cause) -> AttributeValue {
    AttributeValue::S(<&str>::from(cause).to_owned())
}

pub(super) fn millis(at: Timestamp) -> AttributeValue {
    number(at.millis())
}
