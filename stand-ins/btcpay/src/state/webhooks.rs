//! Webhooks, their queues, and deliveries.

use std::collections::VecDeque;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::Sha256;
use url::Url;

use super::invoices::insert;
use super::{Result, State};
use crate::error::ApiError;
use crate::requests::{AuthorizedEvents, Webhook, read};

/// The pauses after each attempt that failed.
const RETRY_DELAYS_MS: [i64; 8] = [10_000, 60_000, 600_000, 600_000, 600_000, 600_000, 600_000, 600_000];

/// What a webhook waits for. One delivery is sent at a time, so one that fails blocks those after it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Queue {
    /// The bodies, with the ids of their deliveries.
    waiting: VecDeque<Value>,
    is_sending: bool,
    /// How often the first one failed, and when it is sent again.
    failures: usize,
    not_before_ms: i64,
}

/// A delivery that is due.
pub(crate) struct Delivery {
    pub(crate) webhook: String,
    pub(crate) url: String,
    pub(crate) body: String,
    /// The header `BTCPay-Sig`.
    pub(crate) signature: String,
}

impl State {
    pub(crate) fn create_webhook(&mut self, body: &Value) -> Result<Value> {
        let id = self.new_id("webhook");
        let generated = bs58::encode(self.hash(&format!("secret {id}"))).into_string();
        let webhook = read_webhook(body, Some(generated))?;
        let shown = shown(&id, &webhook, true);
        self.webhooks.insert(id, webhook);
        Ok(shown)
    }

    pub(crate) fn update_webhook(&mut self, id: &str, body: &Value) -> Result<Value> {
        let stored = self.webhooks.get_mut(id).ok_or_else(|| ApiError::not_found("webhook"))?;
        *stored = read_webhook(body, stored.secret.clone())?;
        self.webhook(id)
    }

    pub(crate) fn delete_webhook(&mut self, id: &str) -> Result<Value> {
        self.queues.remove(id);
        self.webhooks.remove(id).map(|_| Value::Null).ok_or_else(|| ApiError::not_found("webhook"))
    }

    pub(crate) fn webhook(&self, id: &str) -> Result<Value> {
        Ok(shown(id, self.webhooks.get(id).ok_or_else(|| ApiError::not_found("webhook"))?, false))
    }

    pub(crate) fn list_webhooks(&self) -> Value {
        self.webhooks.iter().map(|(id, webhook)| shown(id, webhook, false)).collect()
    }

    /// Queues an event about an invoice for each webhook that accepts it.
    pub(super) fn emit(&mut self, invoice: &str, mut event: Value) {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let metadata = self.invoices.get(invoice).map(|invoice| invoice.metadata.clone());
        insert(&mut event, "timestamp", self.now_ms.div_euclid(1_000).into());
        insert(&mut event, "storeId", self.store_id.clone().into());
        insert(&mut event, "invoiceId", invoice.into());
        insert(&mut event, "metadata", metadata.unwrap_or_default().into());
        let accepting = self.webhooks.iter().filter(|(_, webhook)| accepts(webhook, &event));
        let ids: Vec<String> = accepting.map(|(id, _)| id.clone()).collect();
        for webhook in ids {
            if !self.faults.take("lost_notification", &kind) {
                insert(&mut event, "webhookId", webhook.clone().into());
                let event = identified(event.clone(), &self.new_id("delivery"));
                self.queues.entry(webhook).or_default().waiting.push_back(event);
            }
        }
    }

    /// Returns the next delivery that is due. It stays the first of its queue until [`Self::end_delivery`].
    pub(super) fn next_webhook(&mut self) -> Option<Delivery> {
        for (id, queue) in &mut self.queues {
            if queue.is_sending || queue.not_before_ms > self.now_ms {
                continue;
            }
            // What the webhook does not accept any more is dropped.
            let webhook = self.webhooks.get(id);
            let is_accepted = |event: &Value| webhook.is_some_and(|webhook| accepts(webhook, event));
            while queue.waiting.front().is_some_and(|first| !is_accepted(first)) {
                queue.waiting.pop_front();
                queue.failures = 0;
            }
            if let (Some(first), Some(webhook)) = (queue.waiting.front(), webhook) {
                queue.is_sending = true;
                let body = serde_json::to_string_pretty(first).unwrap_or_default();
                let signature = signature(webhook, &body);
                return Some(Delivery { webhook: id.clone(), url: webhook.url.clone(), body, signature });
            }
        }
        None
    }

    /// Removes a delivery that was sent. After an answer of 5xx, 408 or 429, or without answer, it is sent again.
    pub(crate) fn end_delivery(&mut self, webhook: &str, status: Option<u16>) {
        let new_id = self.new_id("delivery");
        let is_repeated = self.webhooks.get(webhook).is_some_and(|webhook| webhook.automatic_redelivery)
            && status.is_none_or(|status| status >= 500 || status == 408 || status == 429);
        let Some(queue) = self.queues.get_mut(webhook) else { return };
        queue.is_sending = false;
        let Some(first) = queue.waiting.pop_front() else { return };
        if let Some(delay_ms) = RETRY_DELAYS_MS.get(queue.failures).filter(|_| is_repeated) {
            queue.failures = queue.failures.saturating_add(1);
            queue.not_before_ms = self.now_ms.saturating_add(*delay_ms);
            queue.waiting.push_front(identified(first, &new_id));
        } else {
            queue.failures = 0;
        }
    }

    /// Returns the number of deliveries that are being sent or will be sent.
    pub(super) fn unsent(&self) -> usize {
        self.queues.values().map(|queue| queue.waiting.len()).sum()
    }
}

/// Gives a delivery an id. Every further one makes it a redelivery.
fn identified(mut event: Value, id: &str) -> Value {
    let original = event.get("originalDeliveryId").cloned();
    insert(&mut event, "isRedelivery", original.is_some().into());
    insert(&mut event, "deliveryId", id.into());
    insert(&mut event, "originalDeliveryId", original.unwrap_or_else(|| id.into()));
    event
}

/// Reads a webhook of a request. `secret`: if the request has none.
fn read_webhook(body: &Value, secret: Option<String>) -> Result<Webhook> {
    let webhook: Webhook = read(body)?;
    if Url::parse(&webhook.url).is_err() {
        return Err(ApiError::invalid("url", "Invalid Url"));
    }
    Ok(Webhook { secret: webhook.secret.filter(|given| !given.is_empty()).or(secret), ..webhook })
}

fn accepts(webhook: &Webhook, event: &Value) -> bool {
    let AuthorizedEvents { everything, specific_events } = &webhook.authorized_events;
    webhook.enabled && (*everything || specific_events.iter().any(|name| event["type"] == *name))
}

/// Returns a webhook as the API shows it.
fn shown(id: &str, webhook: &Webhook, with_secret: bool) -> Value {
    let secret = webhook.secret.clone().filter(|_| with_secret);
    let mut shown = json!(Webhook { secret, ..webhook.clone() });
    insert(&mut shown, "id", id.into());
    shown
}

/// Returns the header `BTCPay-Sig`.
fn signature(webhook: &Webhook, body: &str) -> String {
    let secret = webhook.secret.as_deref().unwrap_or_default();
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let sign = |mac: Hmac<Sha256>| hex::encode(mac.chain_update(body).finalize().into_bytes());
    format!("sha256={}", mac.map(sign).unwrap_or_default())
}
