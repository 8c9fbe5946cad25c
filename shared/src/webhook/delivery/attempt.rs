//! Attempts: claimed, furnished with what they need, and ended, each by one conditional update.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};

use domain::ids::{DeliveryId, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;

use super::abandonment::cancelled_error;
use super::place::Place;
use super::{Deliveries, Delivery, DeliveryStatus, LEASE_SECONDS};
use crate::store::{
    Item, StoreError, Updated, due_attributes, from_item, key_attributes, text, update_unless_refused,
};
use crate::webhook::endpoint::Endpoint;
use crate::webhook::event::Event;
use crate::webhook::override_secret::OverrideSecret;

/// How far the clocks of two machines may be apart, in milliseconds: a message that is early by no more waits for
/// its time, one that is early by more was overtaken by another.
const MAX_SKEW_MS: i64 = 5_000;

/// What can be claimed: what is due, and what a worker left behind.
const CLAIMABLE: &str =
    "((#status = :pending AND next_attempt_at <= :now) OR (#status = :processing AND leased_until < :now))";

/// How a claim ended.
#[derive(Debug)]
pub enum Claim {
    /// The attempt is the caller's to make, until the lease ends.
    Claimed(Box<Delivery>),
    /// It is due in a moment: the message came early, by the difference between two machines' clocks.
    Early {
        /// When it is due.
        due_at: Timestamp,
    },
    /// Nothing to do: it is done, due much later, or another worker's.
    NotNow,
}

/// How an attempt, and with it perhaps the delivery, ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// Taken.
    Delivered {
        /// The answer's status.
        status_code: u16,
    },
    /// Failed; the next attempt is at `next_attempt_at`.
    Retry {
        /// The answer's status, where there was one.
        status_code: Option<u16>,
        /// Why it failed.
        error: String,
        /// The start of the answer's body.
        response_body: Option<String>,
        /// When the next attempt may begin.
        next_attempt_at: Timestamp,
    },
    /// Failed for the last time.
    Exhausted {
        /// The answer's status, where there was one.
        status_code: Option<u16>,
        /// Why it failed.
        error: String,
        /// The start of the answer's body.
        response_body: Option<String>,
    },
    /// Not attempted: the delivery was abandoned, or its event is gone.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// Failed, and the delivery was abandoned meanwhile: there is no next attempt.
    Abandoned {
        /// Why it was abandoned.
        reason: String,
        /// The answer's status, where there was one.
        status_code: Option<u16>,
        /// Why the attempt failed.
        error: String,
        /// The start of the answer's body.
        response_body: Option<String>,
    },
}

/// What a delivery's attempt needs.
#[derive(Debug)]
pub struct DeliveryContext {
    /// What to tell; `None` when it was removed.
    pub event: Option<Event>,
    /// Whom to tell.
    pub recipient: Recipient,
}

/// Whom a delivery tells.
#[derive(Debug)]
pub enum Recipient {
    /// An endpoint; `None` when it was deleted.
    Endpoint(Option<Endpoint>),
    /// The transaction's own address. With the scope's secret; `None`: it has none yet.
    Override(Option<OverrideSecret>),
}

impl Deliveries {
    /// Claims a delivery for one attempt. `claim` names it: 64 random bits.
    pub async fn claim(
        &self,
        scope: &Scope,
        id: DeliveryId,
        claim: u64,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let claim = format!("{claim:016x}");
        let key = Delivery::key_of(scope, id);
        let mut refused = match self.try_claim(&key, None, &claim, now).await? {
            Updated::Done(item) => return Ok(Claim::Claimed(Box::new(from_item(item)?))),
            Updated::Refused(item) => item,
        };
        // One that is listed moves in its list too; of the first attempts nearly none is.
        if refused.contains_key("listed") {
            let place = from_item::<Delivery>(refused)?.place(DeliveryStatus::Processing).to_string();
            refused = match self.try_claim(&key, Some(place), &claim, now).await? {
                Updated::Done(item) => return Ok(Claim::Claimed(Box::new(from_item(item)?))),
                Updated::Refused(item) => item,
            };
        }
        if refused.is_empty() {
            return Ok(Claim::NotNow);
        }
        let delivery: Delivery = from_item(refused)?;
        let ahead_ms = delivery.next_attempt_at.millis_since(now);
        match delivery.status {
            // The first answer was lost, and the client asked again.
            DeliveryStatus::Processing if delivery.claim.as_ref() == Some(&claim) => {
                Ok(Claim::Claimed(Box::new(delivery)))
            }
            DeliveryStatus::Pending if ahead_ms <= MAX_SKEW_MS => {
                Ok(Claim::Early { due_at: delivery.next_attempt_at })
            }
            DeliveryStatus::Pending
            | DeliveryStatus::Processing
            | DeliveryStatus::Delivered
            | DeliveryStatus::Failed
            | DeliveryStatus::Cancelled => Ok(Claim::NotNow),
        }
    }

    /// `place`: its new place in the list by status, where it is listed.
    async fn try_claim(
        &self,
        key: &Key,
        place: Option<String>,
        claim: &str,
        now: Timestamp,
    ) -> Result<Updated, StoreError> {
        let lease = now.plus_seconds(LEASE_SECONDS).unwrap_or(Timestamp::MAX);
        let mut set =
            vec!["#status = :processing", "leased_until = :lease", "claim = :claim", "updated_at = :now"];
        let mut update = self.update(key);
        let listed = if let Some(place) = place {
            set.push("list_sk = :place");
            update = update.expression_attribute_values(":place", AttributeValue::S(place));
            "attribute_exists(listed)"
        } else {
            "attribute_not_exists(listed)"
        };
        let update = update
            .condition_expression(format!("{CLAIMABLE} AND {listed}"))
            .update_expression(format!("SET {} ADD attempts :one", set.join(", ")))
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":pending", word(DeliveryStatus::Pending))
            .expression_attribute_values(":processing", word(DeliveryStatus::Processing))
            .expression_attribute_values(":now", millis(now))
            .expression_attribute_values(":lease", millis(lease))
            .expression_attribute_values(":claim", AttributeValue::S(claim.to_owned()))
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        update_unless_refused(update).await
    }

    /// Lists by its status a delivery that takes long, unless it changed since it was read; says whether it did. One that is
    /// delivered stays where it is counted.
    pub async fn add_to_list(&self, seen: &Delivery) -> Result<bool, StoreError> {
        if seen.is_delivered() {
            return Ok(false);
        }
        let update = self
            .update(&seen.key())
            .condition_expression("#status = :seen AND attribute_not_exists(listed)")
            .update_expression(format!("SET {LISTED}"))
            .expression_attribute_names("#status", "status")
            .set_expression_attribute_values(Some(in_list(&seen.scope, &seen.place(seen.status))))
            .expression_attribute_values(":seen", word(seen.status));
        update_unless_refused(update).await.map(|updated| matches!(updated, Updated::Done(_)))
    }

    /// Reads the event and the recipient of a delivery, in one request.
    pub async fn delivery_context(&self, delivery: &Delivery) -> Result<DeliveryContext, StoreError> {
        let event_key = Event::key_of(&delivery.scope, delivery.event);
        let recipient_key = delivery.endpoint.map_or_else(
            || OverrideSecret::key_of(&delivery.scope),
            |endpoint| Endpoint::key_of(&delivery.scope, endpoint),
        );
        let (mut event, mut recipient) = (None, None);
        for item in self.store.batch_get(&[event_key.clone(), recipient_key]).await? {
            if text(&item, "pk").as_deref() == Some(event_key.pk.as_str()) {
                event = Some(from_item(item)?);
            } else {
                recipient = Some(item);
            }
        }
        let recipient = match delivery.endpoint {
            Some(_) => Recipient::Endpoint(recipient.map(from_item).transpose()?),
            None => Recipient::Override(recipient.map(from_item).transpose()?),
        };
        Ok(DeliveryContext { event, recipient })
    }

    /// Ends a claimed attempt. `false`: the lease was lost meanwhile, and the row is another's to end.
    pub async fn end(
        &self,
        claimed: &Delivery,
        end: &AttemptOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(claim) = &claimed.claim else { return Ok(false) };
        let is_listed = claimed.listed || !matches!(end, AttemptOutcome::Delivered { .. });
        let refused = match self.try_end(claimed, claim, end, is_listed, now).await? {
            Updated::Done(_) => return Ok(true),
            Updated::Refused(item) => item,
        };
        if text(&refused, "claim").as_ref() != Some(claim) {
            return Ok(false);
        }
        if from_item::<Delivery>(refused)?.status != DeliveryStatus::Processing {
            // Ended by this very claim: the first answer was lost, and the client asked again.
            return Ok(true);
        }
        // It was listed meanwhile, because it took long.
        match self.try_end(claimed, claim, end, true, now).await? {
            Updated::Done(_) => Ok(true),
            Updated::Refused(item) => Ok(text(&item, "claim").as_ref() == Some(claim)),
        }
    }

    async fn try_end(
        &self,
        claimed: &Delivery,
        claim: &str,
        end: &AttemptOutcome,
        is_listed: bool,
        now: Timestamp,
    ) -> Result<Updated, StoreError> {
        let key = claimed.key();
        let mut set = vec!["#status = :status", "updated_at = :now"];
        let mut remove = vec!["leased_until"];
        let mut values = HashMap::from([
            (":claim".to_owned(), AttributeValue::S(claim.to_owned())),
            (":now".to_owned(), millis(now)),
            (":processing".to_owned(), word(DeliveryStatus::Processing)),
        ]);
        let (status, status_code, error, response_body) = match end {
            AttemptOutcome::Delivered { status_code } => {
                set.push("delivered_at = :now");
                (DeliveryStatus::Delivered, Some(*status_code), None, None)
            }
            AttemptOutcome::Retry { status_code, error, response_body, next_attempt_at } => {
                set.extend(["next_attempt_at = :next", "due_pk = :due_pk", "due_sk = :due_sk"]);
                values.insert(":next".to_owned(), millis(*next_attempt_at));
                values.extend(
                    due_attributes(&key, *next_attempt_at).map(|(name, value)| (format!(":{name}"), value)),
                );
                (DeliveryStatus::Pending, *status_code, Some(error.clone()), response_body.clone())
            }
            AttemptOutcome::Exhausted { status_code, error, response_body } => {
                (DeliveryStatus::Failed, *status_code, Some(error.clone()), response_body.clone())
            }
            AttemptOutcome::Cancelled { reason } => {
                // It was claimed and not attempted; what earlier attempts came to stays on record.
                set.push("attempts = attempts - :unmade");
                values.insert(":unmade".to_owned(), AttributeValue::N("1".to_owned()));
                let body = claimed.last_response_body.clone();
                let error = cancelled_error(reason, claimed.last_error.as_deref());
                (DeliveryStatus::Cancelled, claimed.last_status_code, Some(error), body)
            }
            AttemptOutcome::Abandoned { reason, status_code, error, response_body } => {
                let error = cancelled_error(reason, Some(error));
                (DeliveryStatus::Cancelled, *status_code, Some(error), response_body.clone())
            }
        };
        values.insert(":status".to_owned(), word(status));
        if status != DeliveryStatus::Pending {
            remove.extend(["due_pk", "due_sk"]);
        }
        let mut optional =
            |name: &'static str, assignment: &'static str, value: Option<AttributeValue>| match value {
                Some(value) => {
                    values.insert(format!(":{name}"), value);
                    set.push(assignment);
                }
                None => remove.push(name),
            };
        let code = status_code.map(|code| AttributeValue::N(code.to_string()));
        optional("last_status_code", "last_status_code = :last_status_code", code);
        optional("last_error", "last_error = :last_error", error.map(AttributeValue::S));
        let body = response_body.map(AttributeValue::S);
        optional("last_response_body", "last_response_body = :last_response_body", body);
        let mut condition = "#status = :processing AND claim = :claim".to_owned();
        if is_listed {
            set.push(LISTED);
            values.extend(in_list(&claimed.scope, &claimed.place(status)));
        } else {
            condition.push_str(" AND attribute_not_exists(listed)");
        }
        let update = self
            .update(&key)
            .condition_expression(condition)
            .update_expression(format!("SET {} REMOVE {}", set.join(", "), remove.join(", ")))
            .expression_attribute_names("#status", "status")
            .set_expression_attribute_values(Some(values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        update_unless_refused(update).await
    }

    fn update(&self, key: &Key) -> UpdateItemFluentBuilder {
        self.store.client().update_item().table_name(self.store.table()).set_key(Some(key_attributes(key)))
    }
}

/// Puts a delivery into the list by status, or moves it there.
pub(super) const LISTED: &str = "listed = :listed, list_pk = :list_pk, list_sk = :list_sk";

/// The values of [`LISTED`].
pub(super) fn in_list(scope: &Scope, place: &Place) -> Item {
    Item::from([
        (":listed".to_owned(), AttributeValue::Bool(true)),
        (":list_pk".to_owned(), AttributeValue::S(Delivery::partition(scope))),
        (":list_sk".to_owned(), AttributeValue::S(place.to_string())),
    ])
}

pub(super) fn word(status: DeliveryStatus) -> AttributeValue {
    AttributeValue::S(status.as_str().to_owned())
}

pub(super) fn millis(at: Timestamp) -> AttributeValue {
    AttributeValue::N(at.millis().to_string())
}
