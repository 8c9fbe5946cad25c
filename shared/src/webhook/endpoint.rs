//! Webhook endpoints: where a merchant wants to be told what (contract: Webhook endpoint).

use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use url::Url;

use domain::audit::{Actor, Operator};
use domain::ids::{EndpointId, Scope};
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::url_policy::{AddressPolicy, check_new_url};
use domain::vocabulary::Vocabulary;
use domain::webhook::event_type::EventType;
use domain::webhook::signature::EndpointSecret;

use super::WebhookError;
use super::delivery::{Abandonment, AttemptOutcome};
use crate::audit;
use crate::auth::Caller;
use crate::http::{Fields, JsonObject, JsonValue, Object, Problem};
use crate::store::{Bound, Committed, Item, Plan, Store, StoreError, Write, from_item};

/// Endpoints a scope may have: a bound on what one change fans out to.
pub const MAX_ENDPOINTS: usize = 50;

/// How long everything must have failed before an endpoint is switched off, in milliseconds: 5 days, longer than a long
/// weekend, and longer than one delivery is tried.
const FAILED_FOR_MS: i64 = 5 * 24 * 60 * 60 * 1_000;

/// How long it must have failed before the delivery at hand was made, in milliseconds: 2 days, about as long as one is
/// tried. So those with which an outage began get all their attempts, and those after them too are given up before it
/// counts.
const FAILED_BEFORE_MS: i64 = 2 * 24 * 60 * 60 * 1_000;

/// Who switches endpoints off, in the audit.
const WORKER: &str = "webhook-worker";

/// Whether an endpoint is told anything.
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum EndpointStatus {
    /// It is.
    Active,
    /// It is not.
    Inactive,
}

impl EndpointStatus {
    /// The word in rows and on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An endpoint was switched off by the service.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Disabled {
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// Why, for the merchant to read.
    pub reason: String,
}

/// The deliveries that waited for an endpoint were abandoned, for good.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Abandoned {
    /// When that last happened. Never moves back.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
    /// How often it happened. A delivery that was made under a lower number is abandoned.
    pub generation: u64,
}

/// An endpoint's row.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Endpoint {
    /// `wh_…`.
    pub id: EndpointId,
    /// Whose it is.
    pub scope: Scope,
    /// Where deliveries go.
    pub url: String,
    /// What it is told.
    pub events: Vec<EventType>,
    /// What signs its deliveries.
    pub secret: EndpointSecret,
    /// Whether it is told anything.
    pub status: EndpointStatus,
    /// No attempt that began since then succeeded; `None`: the last one that was noted did.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// That it was switched off because nothing reached it. It is `INACTIVE` then too, but what was made for it before is
    /// attempted to its end, unless its merchant also sets it to `INACTIVE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// That its merchant set it to `INACTIVE`, now or before, which abandons what waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<Abandoned>,
    /// When it was registered.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// Counts the row's changes, from 1.
    pub version: u64,
    /// The API key that made one of its versions, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

impl Endpoint {
    /// Where an endpoint lives: a scope's endpoints share a partition.
    pub fn key_of(scope: &Scope, id: EndpointId) -> Key {
        Key { pk: partition(scope), sk: id.to_string() }
    }

    /// Whether a row of the state table is an endpoint.
    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("endpoints#")
    }

    /// Whether an event goes to it.
    pub fn takes(&self, event: EventType) -> bool {
        self.status == EndpointStatus::Active && self.events.contains(&event)
    }

    /// How often the deliveries that waited for it were abandoned. One that is made now keeps this number; one with a lower
    /// number is abandoned.
    pub fn generation(&self) -> u64 {
        // Endpoints that were set to INACTIVE before this was counted have no number.
        self.abandoned.map_or(u64::from(self.is_deactivated()), |abandoned| abandoned.generation)
    }

    /// Whether its merchant set it to `INACTIVE`, be it switched off by the service as well or not.
    fn is_deactivated(&self) -> bool {
        let since = |disabled: &Disabled| self.abandoned.is_some_and(|abandoned| abandoned.at >= disabled.at);
        self.status == EndpointStatus::Inactive && self.disabled.as_ref().is_none_or(since)
    }

    /// When and why the service switched it off, while it is off.
    fn switched_off(&self) -> Option<&Disabled> {
        self.disabled.as_ref().filter(|_| self.status == EndpointStatus::Inactive)
    }

    /// What a merchant's change of the status makes of [`Endpoint::abandoned`].
    fn abandoned_by(&self, status: Option<EndpointStatus>, now: Timestamp) -> Option<Abandoned> {
        let abandons = match status {
            // What waits for one that is deactivated was abandoned already.
            Some(EndpointStatus::Inactive) => !(self.is_deactivated() && self.abandoned.is_some()),
            // One that was deactivated before this was counted: what waits for it is not revived.
            Some(EndpointStatus::Active) => self.is_deactivated() && self.abandoned.is_none(),
            None => false,
        };
        if !abandons {
            return self.abandoned;
        }
        // The clocks of two machines differ somewhat.
        let before = [
            self.abandoned.map(|abandoned| abandoned.at),
            self.disabled.as_ref().map(|disabled| disabled.at),
        ];
        let at = before.into_iter().flatten().fold(now, Timestamp::max);
        let generation = self.abandoned.map_or(0, |abandoned| abandoned.generation).saturating_add(1);
        Some(Abandoned { at, generation })
    }

    /// What an attempt that ended makes of it; `None`: nothing, as nearly always. The first failure and the first success
    /// after failures are noted. A delivery that is given up switches it off, where nothing was delivered for five days.
    /// `began`: when that delivery was made.
    #[must_use]
    pub fn after_attempt(&self, end: &AttemptOutcome, began: Timestamp, now: Timestamp) -> Option<Self> {
        if self.status == EndpointStatus::Inactive {
            return None;
        }
        let next = Self { version: self.version.saturating_add(1), ..self.clone() };
        match (end, self.failing_since) {
            (AttemptOutcome::Delivered { .. }, Some(_)) => Some(Self { failing_since: None, ..next }),
            (AttemptOutcome::Retry { .. } | AttemptOutcome::Exhausted { .. }, None) => {
                Some(Self { failing_since: Some(now), ..next })
            }
            (AttemptOutcome::Exhausted { error, .. }, Some(since))
                if now.millis_since(since) >= FAILED_FOR_MS
                    && began.millis_since(since) >= FAILED_BEFORE_MS =>
            {
                let reason =
                    format!("no attempt begun since {} succeeded; the last one: {error}", since.to_iso());
                Some(Self {
                    status: EndpointStatus::Inactive,
                    disabled: Some(Disabled { at: now, reason }),
                    updated_at: now,
                    ..next
                })
            }
            (AttemptOutcome::Delivered { .. }, None)
            | (AttemptOutcome::Retry { .. } | AttemptOutcome::Exhausted { .. }, Some(_))
            | (AttemptOutcome::Cancelled { .. } | AttemptOutcome::Abandoned { .. }, _) => None,
        }
    }
}

fn partition(scope: &Scope) -> String {
    format!("endpoints#{scope}")
}

/// How many endpoints a scope has is a row of its own, so that two that are registered at once can't both be the last.
fn counter_key(scope: &Scope) -> Key {
    Key { pk: format!("endpoint-count#{scope}"), sk: "count".to_owned() }
}

const COUNTER: &str = "endpoints";

fn one_more(scope: &Scope) -> Write {
    let most = i64::try_from(MAX_ENDPOINTS).unwrap_or(i64::MAX).saturating_sub(1);
    let bound = Bound::AtMost { counter: COUNTER.to_owned(), most };
    Write::add(counter_key(scope), vec![(COUNTER.to_owned(), 1)], Item::new(), Some(bound))
}

fn one_less(scope: &Scope) -> Write {
    Write::add(counter_key(scope), vec![(COUNTER.to_owned(), -1)], Item::new(), None)
}

impl Row for Endpoint {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }
}

/// A valid request for an endpoint.
#[derive(Clone, Debug)]
pub struct NewEndpoint {
    url: String,
    events: Vec<EventType>,
}

impl NewEndpoint {
    /// Reads a request's body; every failing field is reported.
    pub fn parse(body: &JsonObject, policy: &AddressPolicy) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let url = url(&mut fields, &root, policy);
        let events = events(&mut fields, &root);
        let request = url.zip(events).map(|(url, events)| Self { url, events });
        fields.finish(request)
    }
}

/// What changes of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointChange {
    url: Option<String>,
    events: Option<Vec<EventType>>,
    status: Option<EndpointStatus>,
    secret: Option<EndpointSecret>,
}

impl EndpointChange {
    /// Reads a request's body, of which every field may be left out; every failing field is reported.
    pub fn parse(body: &JsonObject, policy: &AddressPolicy) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let change = Self {
            url: root.get("url").and_then(|_| url(&mut fields, &root, policy)),
            events: root.get("events").and_then(|_| events(&mut fields, &root)),
            status: root.get("status").and_then(|value| status(&mut fields, value)),
            secret: None,
        };
        fields.finish(Some(change))
    }

    /// Another secret, and nothing else.
    pub fn of_secret(secret: EndpointSecret) -> Self {
        Self { secret: Some(secret), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.url.is_none() && self.events.is_none() && self.status.is_none() && self.secret.is_none()
    }

    fn apply(&self, endpoint: Endpoint, now: Timestamp) -> Endpoint {
        let change = self.clone();
        let activated = change.status == Some(EndpointStatus::Active);
        Endpoint {
            abandoned: endpoint.abandoned_by(change.status, now),
            // What failed was another address, or was repaired.
            failing_since: endpoint.failing_since.filter(|_| !activated && change.url.is_none()),
            disabled: endpoint.disabled.filter(|_| !activated),
            url: change.url.unwrap_or(endpoint.url),
            events: change.events.unwrap_or(endpoint.events),
            status: change.status.unwrap_or(endpoint.status),
            secret: change.secret.unwrap_or(endpoint.secret),
            updated_at: now,
            version: endpoint.version.saturating_add(1),
            ..endpoint
        }
    }
}

fn status(fields: &mut Fields, value: &JsonValue) -> Option<EndpointStatus> {
    let known = value.as_str().and_then(EndpointStatus::named);
    if known.is_none() {
        fields.reject("status", "must be one of ACTIVE, INACTIVE");
    }
    known
}

fn url(fields: &mut Fields, root: &Object<'_>, policy: &AddressPolicy) -> Option<String> {
    let Some(JsonValue::String(text)) = root.get("url") else {
        fields.reject("url", "is required: a URL such as https://example.com/hooks");
        return None;
    };
    match check_new_url(text, policy) {
        Ok(url) => Some(url.to_string()),
        Err(refusal) => {
            fields.reject("url", refusal.to_string());
            None
        }
    }
}

fn events(fields: &mut Fields, root: &Object<'_>) -> Option<Vec<EventType>> {
    let Some(JsonValue::Array(names)) = root.get("events") else {
        fields.reject("events", "is required: an array of event names");
        return None;
    };
    if names.is_empty() {
        fields.reject("events", "must contain at least one event name");
        return None;
    }
    let mut events = Vec::new();
    let mut all_known = true;
    for (index, name) in names.iter().enumerate() {
        match name.as_str().and_then(EventType::named) {
            Some(event) if events.contains(&event) => {}
            Some(event) => events.push(event),
            None => {
                all_known = false;
                let known: Vec<&str> = EventType::subscribable().map(EventType::as_str).collect();
                fields.reject(format!("events[{index}]"), format!("must be one of {}", known.join(", ")));
            }
        }
    }
    all_known.then_some(events)
}

/// The endpoints of all scopes.
#[derive(Clone, Debug)]
pub struct Endpoints {
    store: Store,
}

impl Endpoints {
    /// Endpoints in a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Registers an endpoint with a secret of its own.
    ///
    /// # Errors
    ///
    /// 422 `unprocessable_entity` when the scope has as many as it may.
    pub async fn register(
        &self,
        caller: &Caller,
        request: NewEndpoint,
        (id, secret): (EndpointId, EndpointSecret),
        now: Timestamp,
    ) -> Result<Endpoint, WebhookError> {
        let scope = caller.scope;
        let endpoint = Endpoint {
            id,
            scope,
            url: request.url,
            events: request.events,
            secret,
            status: EndpointStatus::Active,
            failing_since: None,
            disabled: None,
            abandoned: None,
            created_at: now,
            updated_at: now,
            version: 1,
            actor: Some(caller.actor(1)),
        };
        let writes = vec![Write::insert(&endpoint)?, one_more(&scope)];
        match self.store.commit(writes).await? {
            Committed::Done => Ok(endpoint),
            Committed::Overtaken { at } if at == [1] => Err(WebhookError::TooManyEndpoints),
            Committed::Overtaken { .. } => {
                Err(StoreError::Corrupt("an endpoint's random id was taken".to_owned()).into())
            }
        }
    }

    /// The id that a path names.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoEndpoint`] for what is no id, as for an id of nothing.
    pub fn named(id: Option<EndpointId>) -> Result<EndpointId, WebhookError> {
        id.ok_or(WebhookError::NoEndpoint)
    }

    /// A scope's endpoint.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoEndpoint`] for what is not there and what is another scope's.
    pub async fn find(&self, scope: &Scope, id: EndpointId) -> Result<Endpoint, WebhookError> {
        self.store.get(&Endpoint::key_of(scope, id)).await?.ok_or(WebhookError::NoEndpoint)
    }

    /// Changes an endpoint; gives it as it is after. Setting it to `INACTIVE` abandons what waits for it.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoEndpoint`] for what is not there and what is another scope's.
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
            if change.is_empty() {
                return Ok(Plan::Finished(endpoint));
            }
            let (version, abandoned) = (endpoint.version, endpoint.abandoned);
            let next = change.apply(endpoint, now);
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

    /// Notes how an attempt ended, where that says something new. `seen`: the endpoint as it stood when the attempt began. Where
    /// somebody changed it since, it is read again and judged anew, so that what is written is always about what stands.
    ///
    /// # Errors
    ///
    /// When the database does not answer, or the endpoint keeps changing.
    pub async fn note(
        &self,
        seen: &Endpoint,
        (end, began): (&AttemptOutcome, Timestamp),
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        let mut endpoint = seen.clone();
        let mut update = self.store.start_update("an endpoint");
        loop {
            update.next_attempt().await?;
            if !update.failed().is_empty() {
                let found = self.store.get_in_order::<Endpoint>(&[seen.key()]).await?.pop();
                // An attempt at another URL says nothing of this one. And when the endpoint is not failing any more, a
                // success was noted meanwhile that may be newer than this failure; the next failure is noted.
                match found.filter(|found| found.url == seen.url && found.failing_since.is_some()) {
                    Some(found) => endpoint = found,
                    None => return Ok(()),
                }
            }
            let Some(next) = endpoint.after_attempt(end, began, now) else { return Ok(()) };
            if update.commit(note_writes(&next, endpoint.version, now)?).await? {
                if next.switched_off().is_some() {
                    tracing::warn!(endpoint = %next.id, scope = %next.scope, "an endpoint was switched off");
                }
                return Ok(());
            }
        }
    }

    /// Deletes an endpoint for good, and abandons what waits for it. A tombstone stays.
    ///
    /// # Errors
    ///
    /// [`WebhookError::NoEndpoint`] for what is not there and what is another scope's.
    pub async fn delete(&self, caller: &Caller, id: EndpointId, now: Timestamp) -> Result<(), WebhookError> {
        let scope = &caller.scope;
        let key = Endpoint::key_of(scope, id);
        let plan = |endpoint: Option<Endpoint>| {
            let endpoint = endpoint.ok_or(WebhookError::NoEndpoint)?;
            let version = i64::try_from(endpoint.version).unwrap_or(i64::MAX);
            let remove = Write::remove(key.clone(), "version", version);
            // The record of a removed row has no new image, so nothing could be derived from it.
            let audit = caller.audit("webhook-endpoint.delete", &id, &server_of(&endpoint.url), now)?;
            let tombstone = Write::insert(&Abandonment::by_deletion(&endpoint, now))?;
            Ok(Plan::Commit(vec![remove, one_less(scope), tombstone, Write::insert(&audit)?], ()))
        };
        self.store.update("an endpoint", &key, plan).await
    }

    /// A scope's endpoints, oldest first.
    pub async fn of(&self, scope: &Scope) -> Result<Vec<Endpoint>, StoreError> {
        let items = self.store.partition(&partition(scope)).await?;
        // One that can't be read must not keep the others from being told.
        let read = |item| {
            from_item(item).inspect_err(|error| tracing::error!(%scope, %error, "an endpoint can't be read"))
        };
        Ok(items.into_iter().filter_map(|item| read(item).ok()).collect())
    }
}

/// The rows of a note: the endpoint, and an audit row where the service switched it off.
fn note_writes(next: &Endpoint, version: u64, now: Timestamp) -> Result<Vec<Write>, WebhookError> {
    let mut writes = vec![Write::replace(next, version)?];
    if let Some(Disabled { reason, .. }) = next.switched_off() {
        let service = Operator { actor: WORKER.to_owned(), reason: reason.clone() };
        let audit = audit::by_operator(
            &service,
            next.scope.account,
            "webhook-endpoint.disable",
            next.id.to_string(),
            now,
        )?;
        writes.push(Write::insert(&audit.with(next.scope.mode.to_string()))?);
    }
    Ok(writes)
}

/// An endpoint on the wire, without its secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointView<'a> {
    id: EndpointId,
    url: &'a str,
    events: &'a [EventType],
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    status: EndpointStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<&'a str>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl<'a> EndpointView<'a> {
    /// As lists show it.
    pub fn new(endpoint: &'a Endpoint) -> Self {
        Self {
            id: endpoint.id,
            url: &endpoint.url,
            events: &endpoint.events,
            secret: None,
            status: endpoint.status,
            failing_since: endpoint.failing_since,
            disabled_at: endpoint.disabled.as_ref().map(|disabled| disabled.at),
            disabled_reason: endpoint.disabled.as_ref().map(|disabled| disabled.reason.as_str()),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }

    /// With its secret: shown once, when it is registered.
    pub fn with_secret(endpoint: &'a Endpoint) -> Self {
        Self { secret: Some(endpoint.secret.as_secret().expose_secret()), ..Self::new(endpoint) }
    }
}

/// A new secret on the wire: shown once.
#[derive(Debug, Serialize)]
pub struct SecretView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<EndpointId>,
    secret: &'a str,
}

impl<'a> SecretView<'a> {
    /// An endpoint's.
    pub fn of(endpoint: &'a Endpoint) -> Self {
        Self { id: Some(endpoint.id), ..Self::new(&endpoint.secret) }
    }

    /// One that is no endpoint's.
    pub fn new(secret: &'a EndpointSecret) -> Self {
        Self { id: None, secret: secret.as_secret().expose_secret() }
    }
}

/// What tests of endpoints, and of what follows from them, begin with.
/// Scheme, host and port of a URL.
pub(crate) fn server_of(url: &str) -> String {
    Url::parse(url)
        .map_or_else(|_| "an unreadable address".to_owned(), |url| url.origin().ascii_serialization())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::charge::testing::{at, waiting};

    /// One that nothing failed at.
    pub(crate) fn endpoint() -> Endpoint {
        Endpoint {
            id: EndpointId::new(at(0), [7; 10]),
            scope: waiting().scope,
            url: "https://shop.example.com/hook".to_owned(),
            events: vec![EventType::ChargePaid],
            secret: EndpointSecret::from_random(&[7; 32]),
            status: EndpointStatus::Active,
            failing_since: None,
            disabled: None,
            abandoned: None,
            created_at: at(0),
            updated_at: at(0),
            version: 1,
            actor: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::endpoint;
    use super::*;
    use crate::charge::testing::at;

    const DAY: i64 = 24 * 60 * 60;

    fn failure() -> AttemptOutcome {
        AttemptOutcome::Retry {
            status_code: Some(500),
            error: "answered 500".to_owned(),
            response_body: None,
            next_attempt_at: at(0),
        }
    }

    #[test]
    fn what_is_as_it_was_is_not_written() {
        let delivered = AttemptOutcome::Delivered { status_code: 200 };
        assert!(endpoint().after_attempt(&delivered, at(0), at(60)).is_none());
        let failing = endpoint().after_attempt(&failure(), at(0), at(60)).unwrap();
        assert_eq!((failing.failing_since, failing.version), (Some(at(60)), 2));
        assert_eq!(failing.updated_at, at(0), "the merchant changed nothing");
        assert!(failing.after_attempt(&failure(), at(0), at(90)).is_none());
        let cancelled = AttemptOutcome::Cancelled { reason: "gone".to_owned() };
        assert!(failing.after_attempt(&cancelled, at(0), at(90)).is_none());
        let well = failing.after_attempt(&delivered, at(0), at(90)).unwrap();
        assert_eq!((well.failing_since, well.version), (None, 3));
    }

    #[test]
    fn a_delivery_that_is_given_up_after_five_days_of_failures_switches_it_off() {
        let given_up = AttemptOutcome::Exhausted {
            status_code: Some(500),
            error: "answered 500".to_owned(),
            response_body: None,
        };
        let failing = endpoint().after_attempt(&failure(), at(0), at(0)).unwrap();
        let (began, ended) = (at(2 * DAY), at(5 * DAY));
        assert!(failing.after_attempt(&given_up, began, at(5 * DAY - 1)).is_none());
        assert!(failing.after_attempt(&given_up, at(2 * DAY - 1), at(9 * DAY)).is_none());
        assert!(failing.after_attempt(&failure(), began, at(9 * DAY)).is_none(), "it is tried again");
        let off = failing.after_attempt(&given_up, began, ended).unwrap();
        assert_eq!((off.status, off.version, off.updated_at), (EndpointStatus::Inactive, 3, ended));
        insta::assert_snapshot!(off.disabled.clone().unwrap().reason, @"no attempt begun since 2026-11-21T12:00:00.000Z succeeded; the last one: answered 500");
        assert!(off.after_attempt(&given_up, began, at(6 * DAY)).is_none(), "it is off already");
        let on = EndpointChange { status: Some(EndpointStatus::Active), ..EndpointChange::default() };
        let on = on.apply(off.clone(), at(7 * DAY));
        assert_eq!((on.failing_since, on.disabled), (None, None));
        let moved =
            EndpointChange { url: Some("https://new.example.com/".to_owned()), ..EndpointChange::default() };
        let moved = moved.apply(off, at(7 * DAY));
        assert_eq!(moved.status, EndpointStatus::Inactive);
        assert!(moved.failing_since.is_none() && moved.disabled.is_some());
    }

    fn changed(endpoint: Endpoint, status: EndpointStatus, now: Timestamp) -> Endpoint {
        EndpointChange { status: Some(status), ..EndpointChange::default() }.apply(endpoint, now)
    }

    fn disabled(at: Timestamp) -> Endpoint {
        let disabled = Some(Disabled { at, reason: "answered 500".to_owned() });
        Endpoint { status: EndpointStatus::Inactive, disabled, ..endpoint() }
    }

    #[test]
    fn each_deactivation_by_the_merchant_abandons_once_and_its_time_never_moves_back() {
        let abandoned = |endpoint: &Endpoint| {
            endpoint.abandoned.map(|abandoned| (abandoned.at, abandoned.generation, endpoint.generation()))
        };
        let off = changed(endpoint(), EndpointStatus::Inactive, at(10));
        assert_eq!((abandoned(&endpoint()), abandoned(&off)), (None, Some((at(10), 1, 1))));
        let again = changed(off, EndpointStatus::Inactive, at(20));
        assert_eq!(abandoned(&again), Some((at(10), 1, 1)));
        let on = changed(again, EndpointStatus::Active, at(30));
        assert_eq!((on.status, abandoned(&on)), (EndpointStatus::Active, Some((at(10), 1, 1))));
        // By a clock that is behind.
        let off = changed(on, EndpointStatus::Inactive, at(5));
        assert_eq!(abandoned(&off), Some((at(10), 2, 2)));
    }

    #[test]
    fn what_the_service_switched_off_is_abandoned_when_its_merchant_deactivates_it_too() {
        let off = disabled(at(10));
        assert_eq!((off.abandoned, off.generation()), (None, 0));
        for behind in [20, 5] {
            let both = changed(off.clone(), EndpointStatus::Inactive, at(behind));
            assert_eq!((both.generation(), both.disabled.is_some()), (1, true));
            let again = changed(both.clone(), EndpointStatus::Inactive, at(30));
            assert_eq!(again.abandoned, both.abandoned);
            let on = changed(again, EndpointStatus::Active, at(40));
            assert_eq!((on.generation(), on.disabled, on.status), (1, None, EndpointStatus::Active));
        }
        let on = changed(off, EndpointStatus::Active, at(40));
        assert_eq!((on.generation(), on.disabled), (0, None), "what waits goes on");
        // Switched off after a deactivation that is over.
        let before = Endpoint { abandoned: Some(Abandoned { at: at(1), generation: 3 }), ..disabled(at(10)) };
        assert_eq!(
            (before.generation(), changed(before, EndpointStatus::Inactive, at(11)).generation()),
            (3, 4)
        );
    }

    #[test]
    fn an_endpoint_deactivated_before_that_was_counted_is_abandoned_all_the_same() {
        let off = Endpoint { status: EndpointStatus::Inactive, ..endpoint() };
        assert_eq!((off.abandoned, off.generation()), (None, 1));
        for status in [EndpointStatus::Active, EndpointStatus::Inactive] {
            let next = changed(off.clone(), status, at(10));
            assert_eq!(next.abandoned, Some(Abandoned { at: at(10), generation: 1 }));
        }
        let moved = EndpointChange { events: Some(vec![EventType::ChargePaid]), ..EndpointChange::default() };
        let moved = moved.apply(off, at(10));
        assert_eq!((moved.abandoned, moved.generation()), (None, 1));
    }
}
