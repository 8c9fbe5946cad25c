//! Events, webhook endpoints and notifications.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{API_VERSION, DAY_S, Result, State, Timer};
use crate::error::ApiError;
use crate::form::Params;
use crate::values::{int, merge, merge_metadata, object, text};

/// The pauses after each attempt of a notification that failed: about three days in all, as Stripe's documents state.
/// They do not state the pauses.
const RETRY_DELAYS_S: [i64; 10] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 43_200, 43_200, DAY_S];
const LATE_S: i64 = 30 * 60;
/// How long a reordered notification waits for another one.
const HELD_S: i64 = 60;

/// A notification that is due.
pub(crate) struct Delivery {
    /// Its key in the outbox.
    pub(crate) key: String,
    pub(crate) url: String,
    pub(crate) body: String,
    /// The header `Stripe-Signature`.
    pub(crate) signature: String,
}

impl State {
    /// Stores an event about an object as it is now, and schedules its notifications.
    pub(super) fn emit(&mut self, kind: &str, object_id: &str) {
        let id = self.new_id("evt_", 14);
        let is_wanted = |endpoint: &&Value| {
            let mut types = endpoint.get("enabled_events").and_then(Value::as_array).into_iter().flatten();
            types.any(|name| name == "*" || name == kind)
        };
        let endpoints: Vec<String> =
            self.objects("we_").filter(is_wanted).map(|endpoint| text(endpoint, "id").to_owned()).collect();
        let request = if self.request.is_null() {
            json!({"id": null, "idempotency_key": null})
        } else {
            self.request.clone()
        };
        self.put(json!({
            "id": id, "object": "event", "api_version": API_VERSION, "created": self.now,
            "data": {"object": self.view(object_id)},
            "livemode": true, "pending_webhooks": endpoints.len(), "request": request, "type": kind,
        }));
        for endpoint in endpoints {
            self.notify(kind, &id, &endpoint);
        }
    }

    fn notify(&mut self, kind: &str, event: &str, endpoint: &str) {
        let mut take = |fault| self.faults.take(fault, kind);
        let copies = match (take("lost_notification"), take("duplicate_notification")) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        let (is_held, is_late) = (take("reordered_notification"), take("late_notification"));
        let delay = if is_late {
            LATE_S
        } else if is_held {
            HELD_S
        } else {
            0
        };
        for _ in 0..copies {
            let (event, endpoint) = (event.to_owned(), endpoint.to_owned());
            self.schedule(delay, &Timer::Notify { event, endpoint, attempt: 0, is_held });
        }
    }

    /// Sends an event again to all endpoints, as the dashboard's button does.
    pub(crate) fn resend(&mut self, event: &str, copies: i64) -> Result<Value> {
        let shown = self.existing("evt_", "event", "event", event)?;
        let endpoints: Vec<String> =
            self.objects("we_").map(|endpoint| text(endpoint, "id").to_owned()).collect();
        for endpoint in endpoints {
            (0..copies).for_each(|_| self.enqueue(event, &endpoint, RETRY_DELAYS_S.len()));
        }
        Ok(shown)
    }

    pub(super) fn enqueue(&mut self, event: &str, endpoint: &str, attempt: usize) {
        let key = format!("outbox/{:012}", self.next_serial());
        let row = json!({"event": event, "endpoint": endpoint, "attempt": attempt});
        self.rows.insert(key.clone(), row);
        self.unsent.push_back(key);
    }

    /// Returns the next notification to send. It stays in the outbox until [`Self::end_delivery`].
    pub(super) fn next_notification(&mut self) -> Option<Delivery> {
        while let Some(key) = self.unsent.pop_front() {
            let row = self.object(&key);
            let (event, endpoint) = (self.view(text(&row, "event")), self.object(text(&row, "endpoint")));
            if !event.is_null() && !endpoint.is_null() {
                let body = serde_json::to_string_pretty(&event).unwrap_or_default();
                let signature = self.signature(&endpoint, &body);
                return Some(Delivery { key, url: text(&endpoint, "url").to_owned(), body, signature });
            }
            // A deleted endpoint gets nothing more.
            self.rows.remove(&key);
        }
        None
    }

    /// Signs a body with each secret that is in force. The oldest comes first, because Stripe states no order.
    fn signature(&self, endpoint: &Value, body: &str) -> String {
        let secrets = endpoint.get("_secrets").and_then(Value::as_array).into_iter().flatten();
        let in_force = secrets.filter(|secret| int(secret, "until") > self.now);
        let macs = in_force.filter_map(|secret| {
            let mac = Hmac::<Sha256>::new_from_slice(text(secret, "secret").as_bytes()).ok()?;
            let mac = mac.chain_update(format!("{}.{body}", self.now)).finalize();
            Some(format!(",v1={}", hex::encode(mac.into_bytes())))
        });
        format!("t={}{}", self.now, macs.collect::<String>())
    }

    /// Removes a notification that was sent. If it failed, schedules the next attempt.
    pub(crate) fn end_delivery(&mut self, key: &str, is_accepted: bool) {
        let Some(row) = self.rows.remove(key) else {
            return;
        };
        let (event, endpoint) = (text(&row, "event").to_owned(), text(&row, "endpoint").to_owned());
        let attempt = usize::try_from(int(&row, "attempt")).unwrap_or_default();
        if is_accepted {
            let pending = int(&self.object(&event), "pending_webhooks").saturating_sub(1).max(0);
            self.patch(&event, json!({"pending_webhooks": pending}));
            self.release_held();
        } else if let Some(delay) = RETRY_DELAYS_S.get(attempt) {
            let attempt = attempt.saturating_add(1);
            self.schedule(*delay, &Timer::Notify { event, endpoint, attempt, is_held: false });
        }
    }

    /// Sends the notifications that wait for another one.
    fn release_held(&mut self) {
        let timers = self.rows.with_prefix("timer/");
        let is_held = |timer: &Value| timer.get("notify")?.get("is_held")?.as_bool();
        let held = timers.filter(|(_, timer)| is_held(timer) == Some(true));
        let held: Vec<(String, Value)> = held.map(|(key, timer)| (key.clone(), timer.clone())).collect();
        for (key, timer) in held {
            self.rows.remove(&key);
            let notify = timer.get("notify").unwrap_or(&Value::Null);
            self.enqueue(text(notify, "event"), text(notify, "endpoint"), 0);
        }
    }

    /// Returns the number of notifications that are being sent or will be sent.
    pub(crate) fn pending_notifications(&self) -> usize {
        let timers = self.objects("timer/").filter(|timer| timer.get("notify").is_some());
        timers.count().saturating_add(self.objects("outbox/").count())
    }

    pub(crate) fn create_endpoint(&mut self, params: &Params) -> Result<Value> {
        let version = params.text("/api_version");
        if version.is_some_and(|version| version != API_VERSION) {
            let message = format!("Invalid API version: the stand-in serves {API_VERSION}.");
            return Err(ApiError::invalid("api_version", "", message));
        }
        let (id, secret) = (self.new_id("we_", 14), self.new_id("whsec_", 22));
        let endpoint = json!({
            "id": id, "api_version": version, "created": self.now,
            "description": params.value("/description"),
            "enabled_events": params.value("/enabled_events"),
            "metadata": merge_metadata(&Value::Null, params.value("/metadata")),
            "url": params.value("/url"),
            "_secrets": [{"secret": secret, "until": i64::MAX}],
        });
        self.put(object("webhook_endpoint", endpoint));
        let mut shown = self.view(&id);
        merge(&mut shown, json!({"secret": secret}));
        Ok(shown)
    }

    pub(crate) fn delete_endpoint(&mut self, id: &str) -> Result<Value> {
        self.existing("we_", "webhook_endpoint", "webhook endpoint", id)?;
        self.rows.remove(id);
        Ok(json!({"id": id, "object": "webhook_endpoint", "deleted": true}))
    }

    /// Rolls the secret of an endpoint, as the dashboard does. The old ones stay in force for some seconds.
    pub(crate) fn roll_secret(&mut self, id: &str, old_for_s: i64) -> Result<Value> {
        let mut endpoint = self.existing("we_", "webhook_endpoint", "webhook endpoint", id)?;
        let (until, secret) = (self.now.saturating_add(old_for_s), self.new_id("whsec_", 22));
        if let Some(secrets) = endpoint.get_mut("_secrets").and_then(Value::as_array_mut) {
            for old in &mut *secrets {
                let earlier = until.min(int(old, "until"));
                merge(old, json!({"until": earlier}));
            }
            secrets.push(json!({"secret": secret, "until": i64::MAX}));
        }
        self.put(endpoint);
        Ok(json!({"id": id, "secret": secret}))
    }
}
