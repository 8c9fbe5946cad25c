//! Webhook endpoints: a merchant's URL and the events that it is subscribed to.
//! The secret that signs its deliveries is not in the endpoint's row, see [`super::secret`].
//!
//! An endpoint can be `INACTIVE` for two reasons, with different consequences for its pending deliveries:
//!
//! - The merchant deactivated it ([`Endpoint::abandoned`]): its pending deliveries are abandoned.
//! - The service switched it off after five days in which all attempts failed ([`Endpoint::disabled`]): its
//!   pending deliveries are attempted to the end of their schedule.

use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use url::Url;

use domain::audit::Actor;
use domain::ids::{EndpointId, Scope};
use domain::row::{Indexes, Key, Row};
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, check_new_url};
pub use domain::webhook::EndpointStatus;
use domain::webhook::event_type::{EventType, subscribable_list_schema};
use domain::webhook::failure::AttemptFailure;
use domain::webhook::signature::EndpointSecret;

use super::WebhookError;
use super::delivery::{Abandonment, AttemptOutcome};
use shared::auth::Caller;
use shared::http::field::{self, BodyFields, Field, Parsed, Presence, Word, Words};
use shared::http::{Fields, JsonObject, Object, Problem, WholeListView};
use shared::store::{Plan, RowUpdate, StoreError, Write, from_item, number};

/// The most endpoints of a scope. It limits the deliveries that one change creates. The number of endpoints
/// is in a separate row, which is updated in the transaction that registers or deletes an endpoint.
pub(crate) const MAX_ENDPOINTS: usize = 50;

/// How long all attempts must have failed before an endpoint is switched off, in milliseconds: 5 days. This
/// is longer than a long weekend, and longer than the schedule of one delivery.
const FAILED_FOR_MS: i64 = 5 * 24 * 60 * 60 * 1_000;

/// An exhausted delivery switches an endpoint off only if the endpoint had been failing for this long when
/// the delivery was created. In milliseconds: 2 days, about as long as the schedule of one delivery. So the
/// deliveries from the beginning of an outage do not switch the endpoint off. They have normally had all
/// their attempts before a later delivery switches it off.
const FAILED_BEFORE_MS: i64 = 2 * 24 * 60 * 60 * 1_000;

/// After how long of failures the merchant gets the e-mails about them, in milliseconds: an hour, then a day.
const ALERT_AFTER_MS: [(Alerted, i64); 2] =
    [(Alerted::Hour, 60 * 60 * 1_000), (Alerted::Day, 24 * 60 * 60 * 1_000)];

/// What the last e-mail about the failures of an endpoint said.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Alerted {
    /// It has failed for an hour.
    Hour,
    /// It has failed for a day.
    Day,
    /// It works again.
    Over,
}

/// The last e-mail about the failures of an endpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Alert {
    pub said: Alerted,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// When and why the service switched an endpoint off. `Display` is the reason, which the merchant reads.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[error("no attempt begun since {} succeeded; the last one: {last}", since.to_iso())]
pub struct Disabled {
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// When the failures began.
    #[serde(with = "domain::time::millis")]
    pub since: Timestamp,
    /// Why the last attempt failed.
    pub last: AttemptFailure,
}

/// The last abandonment of an endpoint's pending deliveries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Abandoned {
    /// When the merchant last deactivated the endpoint. Never decreases.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// How often the endpoint's deliveries were abandoned. A delivery with a lower generation is abandoned.
    pub generation: u64,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Endpoint {
    pub id: EndpointId,
    pub scope: Scope,
    pub url: String,
    pub events: Vec<EventType>,
    /// Counts the endpoint's secrets, from 1. The audit row of a rotation is derived from it.
    pub secret_version: u64,
    pub status: EndpointStatus,
    /// When the first failure since the last success, activation or change of the URL was recorded; `None`:
    /// there was no failure since then.
    #[serde(default, with = "domain::time::millis_option")]
    pub failing_since: Option<Timestamp>,
    /// Present if the merchant got an e-mail about these failures, or about their end.
    pub alert: Option<Alert>,
    /// Present if the service switched it off because no delivery succeeded. Its status is `INACTIVE` then.
    /// Existing deliveries are attempted to the end of their schedule, unless the merchant also sets the
    /// endpoint to `INACTIVE`.
    pub disabled: Option<Disabled>,
    /// Present if the merchant has ever set the endpoint to `INACTIVE`, which abandons its pending
    /// deliveries. Stays after the endpoint is `ACTIVE` again.
    pub abandoned: Option<Abandoned>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When the merchant last changed it, or the service switched it off. A change of `failing_since` alone
    /// does not count.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    pub version: u64,
    /// The API key that last changed the row, and the version after that change. The audit row is derived
    /// from it.
    pub actor: Option<Actor>,
}

impl Endpoint {
    pub(super) fn registered(caller: &Caller, request: NewEndpoint, id: EndpointId, now: Timestamp) -> Self {
        let endpoint = Self::new(caller.scope, id, (request.url, request.events), now);
        Self { actor: Some(caller.actor(1)), ..endpoint }
    }

    /// Returns an active endpoint without failures.
    pub fn new(
        scope: Scope,
        id: EndpointId,
        (url, events): (String, Vec<EventType>),
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            scope,
            url,
            events,
            secret_version: 1,
            status: EndpointStatus::Active,
            failing_since: None,
            alert: None,
            disabled: None,
            abandoned: None,
            created_at: now,
            updated_at: now,
            version: 1,
            actor: None,
        }
    }

    /// Returns the row after the secret was replaced. The new secret is not in the row.
    pub(super) fn with_rotated_secret(self, caller: &Caller, now: Timestamp) -> Self {
        let version = self.version.saturating_add(1);
        Self {
            secret_version: self.secret_version.saturating_add(1),
            updated_at: now,
            version,
            actor: Some(caller.actor(version)),
            ..self
        }
    }

    /// Returns the key of an endpoint's row. A scope's endpoints share a partition.
    pub fn key_of(scope: &Scope, id: EndpointId) -> Key {
        Key { pk: partition(scope), sk: id.to_string() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("endpoints#")
    }

    /// Whether it receives this event: it is `ACTIVE` and subscribed.
    pub fn receives(&self, event: EventType) -> bool {
        self.status == EndpointStatus::Active && self.events.contains(&event)
    }

    /// Returns how often the endpoint's deliveries were abandoned. A new delivery stores this number. A
    /// delivery with a lower number is abandoned.
    pub fn generation(&self) -> u64 {
        self.abandoned.map_or(0, |abandoned| abandoned.generation)
    }

    /// Whether the merchant has set it to `INACTIVE`. The service may have switched it off too.
    fn is_deactivated(&self) -> bool {
        let since = |disabled: &Disabled| self.abandoned.is_some_and(|abandoned| abandoned.at >= disabled.at);
        self.status == EndpointStatus::Inactive && self.disabled.as_ref().is_none_or(since)
    }

    /// Returns [`Endpoint::abandoned`] after a change by the merchant. `status`: the status that the merchant
    /// sets; `None`: the change has no status.
    fn abandoned_after(&self, status: Option<EndpointStatus>, now: Timestamp) -> Option<Abandoned> {
        // If the endpoint is deactivated already, its deliveries were abandoned at that time.
        if status != Some(EndpointStatus::Inactive) || self.is_deactivated() {
            return self.abandoned;
        }
        // The clocks of two machines differ, so `now` may be before the last change.
        let before = [
            self.abandoned.map(|abandoned| abandoned.at),
            self.disabled.as_ref().map(|disabled| disabled.at),
        ];
        let at = before.into_iter().flatten().fold(now, Timestamp::max);
        let generation = self.abandoned.map_or(0, |abandoned| abandoned.generation).saturating_add(1);
        Some(Abandoned { at, generation })
    }

    /// Returns the endpoint's row after an attempt; `None`: the row does not change, which is the usual case.
    ///
    /// The first failure sets `failing_since`, and the first success after it removes `failing_since`. An
    /// exhausted delivery switches the endpoint off if the first failure was at least five days ago, and at
    /// least two days before the delivery was created.
    #[must_use]
    pub(crate) fn after_attempt(
        &self,
        outcome: &AttemptOutcome,
        delivery_created_at: Timestamp,
        now: Timestamp,
    ) -> Option<Self> {
        if self.status == EndpointStatus::Inactive {
            return None;
        }
        let next = Self { version: self.version.saturating_add(1), ..self.clone() };
        match (outcome, self.failing_since) {
            (AttemptOutcome::Delivered { .. }, Some(_)) => {
                let alert = self.alert.map(|_| Alert { said: Alerted::Over, at: now });
                Some(Self { failing_since: None, alert, ..next })
            }
            (AttemptOutcome::Retry { .. } | AttemptOutcome::Exhausted(_), None) => {
                Some(Self { failing_since: Some(now), alert: None, ..next })
            }
            (AttemptOutcome::Exhausted(failed), Some(since))
                if now.millis_since(since) >= FAILED_FOR_MS
                    && delivery_created_at.millis_since(since) >= FAILED_BEFORE_MS =>
            {
                Some(Self {
                    status: EndpointStatus::Inactive,
                    disabled: Some(Disabled { at: now, since, last: failed.failure.clone() }),
                    updated_at: now,
                    ..next
                })
            }
            (AttemptOutcome::Delivered { .. }, None)
            | (AttemptOutcome::Retry { .. } | AttemptOutcome::Exhausted(_), Some(_))
            | (
                AttemptOutcome::Cancelled(_)
                | AttemptOutcome::Abandoned { .. }
                | AttemptOutcome::Postponed { .. },
                _,
            ) => None,
        }
    }
}

impl Endpoint {
    /// Returns the next e-mail about its failures, and when it is due.
    fn next_alert(&self) -> Option<(Alerted, Timestamp)> {
        let since = self.failing_since.filter(|_| self.status == EndpointStatus::Active)?;
        let is_next = |(said, _): &(Alerted, i64)| self.alert.is_none_or(|alert| alert.said < *said);
        let (said, after_ms) = ALERT_AFTER_MS.into_iter().find(is_next)?;
        Some((said, since.plus_millis(after_ms).ok()?))
    }

    /// Returns the row once the next e-mail about its failures is due; `None`: none is.
    fn alerted(&self, now: Timestamp) -> Option<Self> {
        let (said, _) = self.next_alert().filter(|(_, due)| *due <= now)?;
        let version = self.version.saturating_add(1);
        Some(Self { alert: Some(Alert { said, at: now }), version, ..self.clone() })
    }
}

pub(super) fn partition(scope: &Scope) -> String {
    format!("endpoints#{scope}")
}

/// The key of the row that counts a scope's endpoints. Each registration changes it, so that two concurrent
/// registrations can't exceed the limit together.
fn counter_key(scope: &Scope) -> Key {
    Key { pk: format!("endpoint-count#{scope}"), sk: "count".to_owned() }
}

const COUNTER: &str = "endpoints";

pub(super) fn increment_count(scope: &Scope) -> Write {
    let max = i64::try_from(MAX_ENDPOINTS).unwrap_or(i64::MAX);
    let update = RowUpdate::of(counter_key(scope)).add(COUNTER, number(1));
    Write::update(update.when_absent_or(COUNTER, "<", number(max)))
}

pub(super) fn decrement_count(scope: &Scope) -> Write {
    Write::update(RowUpdate::of(counter_key(scope)).add(COUNTER, number(-1)))
}

impl Row for Endpoint {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn indexes(&self) -> Indexes {
        Indexes { due: self.next_alert().map(|(_, at)| at), ..Indexes::default() }
    }
}

shared::fields! {
    URL: field::Url = "url", field::Url, Required, "https://example.com/hooks",
        "The URL that receives the events. It uses https, a public host name, and port 443 or 1024 to 65535. It has no user name, password or fragment.";
    /// Any name of the catalog is valid. `webhook.test` is not in the catalog.
    EVENTS: Words<EventType> = "events",
        Words {
            words: || EventType::subscribable().map(|event| (event.as_str(), event)).collect(),
            noun: "event name",
        },
        Required, ["charge.paid", "charge.expired"],
        "The events that the endpoint is subscribed to. Repeated names are dropped.";
    NEW_STATUS: Word<EndpointStatus> = "status", Word::ALL, Optional, "ACTIVE",
        "`INACTIVE` ends the subscription and cancels pending deliveries. `ACTIVE` starts it again, also after the service switched the endpoint off.";
}

const NEW_URL: Field<field::Url> = Field { presence: Presence::Optional, ..URL };

const NEW_EVENTS: Field<Words<EventType>> = Field { presence: Presence::Optional, ..EVENTS };

/// The body of `POST /v1/webhooks/endpoints`.
pub const ENDPOINT_BODY: BodyFields = BodyFields::strict(&[&URL, &EVENTS]);

/// The body of `PATCH /v1/webhooks/endpoints/{id}`. A field that is absent stays as it is.
pub const ENDPOINT_CHANGE_BODY: BodyFields = BodyFields::strict(&[&NEW_URL, &NEW_EVENTS, &NEW_STATUS]);

shared::fields! {
    ENDPOINT_ID: Parsed<EndpointId> = "id",
        Parsed::id(ROTATION_RULE), Optional, "wh_01kb5cpq4t0000000000000000",
        "The endpoint's id, equal to the id in the path.";
}

const ROTATION_RULE: &str = "must equal the id in the path, or be left out";

/// The body of `POST /v1/webhooks/endpoints/{id}/rotate-secret`.
pub const ROTATE_SECRET_BODY: BodyFields = BodyFields::strict(&[&ENDPOINT_ID]);

/// Checks the body of a request that replaces an endpoint's secret. The body may repeat the id of the path; a
/// different id is refused.
pub fn check_rotation(body: &JsonObject, id: EndpointId) -> Result<(), Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, ROTATE_SECRET_BODY);
    let sent = fields.read(&root, &ENDPOINT_ID);
    if sent.is_some_and(|sent| sent != id) {
        fields.reject(ENDPOINT_ID.name, ROTATION_RULE);
    }
    fields.finish(Some(()))
}

#[derive(Clone, Debug)]
pub struct NewEndpoint {
    url: String,
    events: Vec<EventType>,
}

impl NewEndpoint {
    /// Parses a request's body. The error lists every failing field.
    pub fn parse(body: &JsonObject, policy: &AddressPolicy) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, ENDPOINT_BODY);
        let url = url(&mut fields, &root, &URL, policy);
        let events = fields.read(&root, &EVENTS);
        let request = url.zip(events).map(|(url, events)| Self { url, events });
        fields.finish(request)
    }
}

/// A change of an endpoint. `None`: the field stays as it is.
#[derive(Clone, Debug, Default)]
pub struct EndpointChange {
    url: Option<String>,
    events: Option<Vec<EventType>>,
    status: Option<EndpointStatus>,
}

impl EndpointChange {
    /// Parses a request's body, in which every field is optional. The error lists every failing field.
    pub fn parse(body: &JsonObject, policy: &AddressPolicy) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, ENDPOINT_CHANGE_BODY);
        let change = Self {
            url: url(&mut fields, &root, &NEW_URL, policy),
            events: fields.read(&root, &NEW_EVENTS),
            status: fields.read(&root, &NEW_STATUS),
        };
        fields.finish(Some(change))
    }

    fn apply(&self, endpoint: Endpoint, now: Timestamp) -> Endpoint {
        let change = self.clone();
        let activated = change.status == Some(EndpointStatus::Active);
        Endpoint {
            abandoned: endpoint.abandoned_after(change.status, now),
            // A new URL has no failures yet. A merchant who activates the endpoint has repaired it.
            failing_since: endpoint.failing_since.filter(|_| !activated && change.url.is_none()),
            alert: endpoint.alert.filter(|_| !activated && change.url.is_none()),
            disabled: endpoint.disabled.filter(|_| !activated),
            url: change.url.unwrap_or(endpoint.url),
            events: change.events.unwrap_or(endpoint.events),
            status: change.status.unwrap_or(endpoint.status),
            updated_at: now,
            version: endpoint.version.saturating_add(1),
            ..endpoint
        }
    }
}

fn url(
    fields: &mut Fields,
    root: &Object<'_>,
    field: &Field<field::Url>,
    policy: &AddressPolicy,
) -> Option<String> {
    match check_new_url(&fields.read(root, field)?, policy) {
        Ok(url) => Some(url.to_string()),
        Err(refusal) => {
            fields.reject(field.name, refusal.to_string());
            None
        }
    }
}

shared::store::repository! {
    /// Reads and changes the endpoints of all scopes. [`super::secret::SigningSecrets`] registers and deletes
    /// them, because these changes also write the secret.
    Endpoints
}

impl Endpoints {
    /// Returns the endpoint id of a path. The response to an invalid id is the same as to an unknown one.
    pub fn require_id(id: Option<EndpointId>) -> Result<EndpointId, WebhookError> {
        id.ok_or(WebhookError::NoEndpoint)
    }

    pub async fn find(&self, scope: &Scope, id: EndpointId) -> Result<Endpoint, WebhookError> {
        self.store.get(&Endpoint::key_of(scope, id)).await?.ok_or(WebhookError::NoEndpoint)
    }

    /// Changes an endpoint and returns the changed one. Setting it to `INACTIVE` abandons its pending
    /// deliveries.
    pub async fn change(
        &self,
        caller: &Caller,
        id: EndpointId,
        change: &EndpointChange,
        now: Timestamp,
    ) -> Result<Endpoint, WebhookError> {
        let key = Endpoint::key_of(&caller.scope, id);
        let plan = |endpoint: Option<Endpoint>| {
            let endpoint = endpoint.ok_or(WebhookError::NoEndpoint)?;
            let (version, updated_at, abandoned) =
                (endpoint.version, endpoint.updated_at, endpoint.abandoned);
            let next = change.apply(endpoint.clone(), now);
            // A client that repeats a change, because the response was lost, makes one change.
            if (Endpoint { updated_at, version, ..next.clone() }) == endpoint {
                return Ok(Plan::Finished(endpoint));
            }
            let next = Endpoint { actor: Some(caller.actor(next.version)), ..next };
            let mut writes = vec![Write::replace(&next, version)?];
            if let Some(abandonment) =
                Abandonment::by_deactivation(&next).filter(|_| next.abandoned != abandoned)
            {
                writes.push(Write::insert(&abandonment)?);
            }
            Ok(Plan::Commit(writes, next))
        };
        self.store.update("an endpoint", &key, plan).await
    }

    /// Records the outcome of an attempt in the endpoint's row, if the outcome changes the row
    /// (`Endpoint::after_attempt`). `seen`: the endpoint as it was read when the attempt began. On a
    /// conflict, the endpoint is read again and the outcome is applied to its present row.
    pub async fn record_attempt(
        &self,
        seen: &Endpoint,
        (outcome, delivery_created_at): (&AttemptOutcome, Timestamp),
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        let mut endpoint = seen.clone();
        let mut update = self.store.start_update("an endpoint");
        loop {
            if !update.failed().is_empty() {
                let found = self.store.get_in_order::<Endpoint>(&[seen.key()]).await?.pop();
                // The outcome is dropped if the URL changed, because the attempt used the old URL. It is also
                // dropped if the endpoint is not marked as failing. Then a success changes nothing. A failure
                // may be older than a success that was recorded meanwhile. If the endpoint still fails, the
                // next failed attempt marks it.
                match found.filter(|found| found.url == seen.url && found.failing_since.is_some()) {
                    Some(found) => endpoint = found,
                    None => return Ok(()),
                }
            }
            let Some(next) = endpoint.after_attempt(outcome, delivery_created_at, now) else { return Ok(()) };
            if update.commit(vec![Write::replace(&next, endpoint.version)?]).await? {
                if next.disabled.is_some() {
                    tracing::warn!(endpoint = %next.id, scope = %next.scope, "an endpoint was switched off");
                }
                return Ok(());
            }
        }
    }

    /// Records that the next e-mail about an endpoint's failures is due. The stream sends it. If another caller changed the
    /// row meanwhile, the row's next time in the due index is that of the change.
    pub async fn alert(&self, key: &Key, now: Timestamp) -> Result<(), StoreError> {
        let Some(endpoint) = self.store.get::<Endpoint>(key).await? else { return Ok(()) };
        let Some(next) = endpoint.alerted(now) else { return Ok(()) };
        self.store.commit(vec![Write::replace(&next, endpoint.version)?]).await.map(|_done_or_conflict| ())
    }

    /// Returns a scope's endpoints, oldest first.
    pub async fn list(&self, scope: &Scope) -> Result<Vec<Endpoint>, StoreError> {
        let items = self.store.partition(&partition(scope)).await?;
        // An endpoint row that can't be read must not block deliveries to other endpoints.
        let read = |item| {
            from_item(item).inspect_err(|error| tracing::error!(%scope, %error, "can't read an endpoint"))
        };
        Ok(items.into_iter().filter_map(|item| read(item).ok()).collect())
    }
}

/// A webhook endpoint: a URL that receives events.
#[serde_with::skip_serializing_none]
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookEndpoint")]
#[serde(rename_all = "camelCase")]
pub struct EndpointView<'a> {
    /// The endpoint's id.
    id: EndpointId,
    /// The URL that receives the events.
    #[schemars(extend("format" = "uri"))]
    url: &'a str,
    /// The types of the events that the endpoint receives.
    #[schemars(schema_with = "subscribable_list_schema")]
    events: &'a [EventType],
    /// The secret that signs the deliveries: 64 hex digits. Only the response to the registration contains it.
    #[schemars(with = "&str", regex(pattern = "^[0-9a-f]{64}$"))]
    secret: Option<&'a str>,
    /// The same secret in the form of the libraries of Standard Webhooks.
    #[schemars(with = "String", regex(pattern = "^whsec_"))]
    standard_webhooks_secret: Option<String>,
    /// Whether the endpoint receives new events.
    status: EndpointStatus,
    /// Since when all attempts have failed. Absent if the last attempt succeeded.
    #[schemars(with = "Timestamp")]
    failing_since: Option<Timestamp>,
    /// When the service switched the endpoint off. Absent if it did not.
    #[schemars(with = "Timestamp")]
    disabled_at: Option<Timestamp>,
    /// Why the service switched the endpoint off. Absent if it did not.
    #[schemars(with = "&str")]
    disabled_reason: Option<String>,
    /// When the endpoint was registered.
    created_at: Timestamp,
    /// When the endpoint last changed.
    updated_at: Timestamp,
}

impl<'a> EndpointView<'a> {
    pub fn new(endpoint: &'a Endpoint) -> Self {
        Self {
            id: endpoint.id,
            url: &endpoint.url,
            events: &endpoint.events,
            secret: None,
            standard_webhooks_secret: None,
            status: endpoint.status,
            failing_since: endpoint.failing_since,
            disabled_at: endpoint.disabled.as_ref().map(|disabled| disabled.at),
            disabled_reason: endpoint.disabled.as_ref().map(ToString::to_string),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }

    /// Returns the view with the secret, which is shown once, when the endpoint is registered.
    pub fn with_secret(endpoint: &'a Endpoint, secret: &'a EndpointSecret) -> Self {
        Self {
            secret: Some(secret.as_secret().expose_secret()),
            standard_webhooks_secret: Some(standard_webhooks_secret(secret)),
            ..Self::new(endpoint)
        }
    }
}

/// The endpoints of the account, oldest first.
pub type EndpointListView<'a> = WholeListView<EndpointView<'a>>;

/// The confirmation that an endpoint was deleted.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "DeletedWebhookEndpoint")]
pub struct DeletedView {
    /// Always `true`.
    #[schemars(extend("const" = true))]
    pub deleted: bool,
}

/// A new secret of an endpoint. It is shown once.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "WebhookSecret")]
#[serde(rename_all = "camelCase")]
pub struct SecretView<'a> {
    /// The endpoint's id.
    id: EndpointId,
    /// The secret that signs the deliveries: 64 hex digits.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    secret: &'a str,
    /// The same secret in the form of the libraries of Standard Webhooks.
    #[schemars(regex(pattern = "^whsec_"))]
    standard_webhooks_secret: String,
}

impl<'a> SecretView<'a> {
    pub fn new(id: EndpointId, secret: &'a EndpointSecret) -> Self {
        Self {
            id,
            secret: secret.as_secret().expose_secret(),
            standard_webhooks_secret: standard_webhooks_secret(secret),
        }
    }
}

/// A new secret of the deliveries to `webhookUrl`s. It is shown once. It signs legacy events alone, so it has
/// no form for Standard Webhooks.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "OverrideSecret")]
pub struct OverrideSecretView<'a> {
    /// The secret that signs the deliveries: 64 hex digits.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    secret: &'a str,
}

impl<'a> OverrideSecretView<'a> {
    pub fn new(secret: &'a EndpointSecret) -> Self {
        Self { secret: secret.as_secret().expose_secret() }
    }
}

fn standard_webhooks_secret(secret: &EndpointSecret) -> String {
    secret.for_standard_webhooks().expose_secret().to_owned()
}

/// Returns scheme, host and port of a URL, for the audit.
pub(crate) fn server_of(url: &str) -> String {
    Url::parse(url)
        .map_or_else(|_| "an unreadable address".to_owned(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use crate::charge_testing::{at, waiting};

    /// An active endpoint without failures.
    pub fn endpoint() -> Endpoint {
        let url = "https://shop.example.com/hook".to_owned();
        let id = EndpointId::new(at(0), [7; 10]);
        Endpoint::new(waiting().scope, id, (url, vec![EventType::ChargePaid]), at(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::delivery::{Cause, FailedAttempt};
    use super::testing::endpoint;
    use super::*;
    use crate::charge_testing::at;

    const DAY: i64 = 24 * 60 * 60;

    fn failure() -> AttemptOutcome {
        let failed = FailedAttempt::without_body(Some(500), AttemptFailure::Answered(500));
        AttemptOutcome::Retry { failed, next_attempt_at: at(0) }
    }

    #[test]
    fn only_the_first_failure_and_the_first_success_after_it_are_written() {
        let delivered = AttemptOutcome::Delivered { status_code: 200 };
        assert!(endpoint().after_attempt(&delivered, at(0), at(60)).is_none());
        let failing = endpoint().after_attempt(&failure(), at(0), at(60)).unwrap();
        assert_eq!((failing.failing_since, failing.version), (Some(at(60)), 2));
        assert_eq!(failing.updated_at, at(0), "the merchant changed nothing");
        assert!(failing.after_attempt(&failure(), at(0), at(90)).is_none());
        let cancelled = AttemptOutcome::Cancelled(Cause::Deleted);
        assert!(failing.after_attempt(&cancelled, at(0), at(90)).is_none());
        assert!(failing.alerted(at(60 + 3_599)).is_none());
        let hour = failing.alerted(at(60 + 3_600)).unwrap();
        assert_eq!(hour.alert, Some(Alert { said: Alerted::Hour, at: at(3_660) }));
        assert!(hour.alerted(at(60 + DAY - 1)).is_none());
        let day = hour.alerted(at(60 + DAY)).unwrap();
        assert!(day.indexes().due.is_none() && day.alerted(at(9 * DAY)).is_none());
        let over = day.after_attempt(&delivered, at(0), at(2 * DAY)).unwrap();
        assert_eq!(over.alert, Some(Alert { said: Alerted::Over, at: at(2 * DAY) }));
        assert!(over.after_attempt(&failure(), at(0), at(3 * DAY)).unwrap().alert.is_none());
        let recovered = failing.after_attempt(&delivered, at(0), at(90)).unwrap();
        assert_eq!(recovered.alert, None, "no e-mail reported the failures");
        assert_eq!((recovered.failing_since, recovered.version), (None, 3));
    }

    #[test]
    fn an_exhausted_delivery_switches_the_endpoint_off_after_five_days_of_failures() {
        let exhausted =
            AttemptOutcome::Exhausted(FailedAttempt::without_body(Some(500), AttemptFailure::Answered(500)));
        let failing = endpoint().after_attempt(&failure(), at(0), at(0)).unwrap();
        let (created_at, ended_at) = (at(2 * DAY), at(5 * DAY));
        assert!(failing.after_attempt(&exhausted, created_at, at(5 * DAY - 1)).is_none());
        assert!(failing.after_attempt(&exhausted, at(2 * DAY - 1), at(9 * DAY)).is_none());
        assert!(
            failing.after_attempt(&failure(), created_at, at(9 * DAY)).is_none(),
            "another attempt follows"
        );
        let off = failing.after_attempt(&exhausted, created_at, ended_at).unwrap();
        assert_eq!((off.status, off.version, off.updated_at), (EndpointStatus::Inactive, 3, ended_at));
        insta::assert_snapshot!(off.disabled.clone().unwrap(), @"no attempt begun since 2026-11-21T12:00:00.000Z succeeded; the last one: answered 500");
        assert!(off.after_attempt(&exhausted, created_at, at(6 * DAY)).is_none(), "already switched off");
        let on = EndpointChange { status: Some(EndpointStatus::Active), ..EndpointChange::default() };
        let on = on.apply(off.clone(), at(7 * DAY));
        assert_eq!((on.failing_since, on.disabled), (None, None));
        let moved =
            EndpointChange { url: Some("https://new.example.com/".to_owned()), ..EndpointChange::default() };
        let moved = moved.apply(off, at(7 * DAY));
        assert_eq!(moved.status, EndpointStatus::Inactive);
        assert!(moved.failing_since.is_none() && moved.disabled.is_some());
    }

    #[test]
    fn the_time_of_an_abandonment_never_moves_back() {
        let changed = |endpoint: Endpoint, status, now| {
            EndpointChange { status: Some(status), ..EndpointChange::default() }.apply(endpoint, now)
        };
        let off = changed(endpoint(), EndpointStatus::Inactive, at(10));
        assert_eq!(off.abandoned, Some(Abandoned { at: at(10), generation: 1 }));
        let on = changed(off, EndpointStatus::Active, at(30));
        // A clock that is behind.
        let off = changed(on, EndpointStatus::Inactive, at(5));
        assert_eq!(off.abandoned, Some(Abandoned { at: at(10), generation: 2 }));
    }
}
