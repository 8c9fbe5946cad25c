//! Events: the rows from which webhook bodies are sent.
//!
//! All events of a change share one row, because each row costs a write. The row has the objects that the
//! events send, compressed, so that the row of a typical charge stays under 1 KB, the size that one write unit
//! covers. A body is built from the row alone. The row also has what the change adds to the rollups.

use miniz_oxide::{deflate, inflate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use domain::actor::ActorId;
use domain::charge::{Charge, StatusChange, TransactionStatus};
use domain::ids::{ChargeId, DeliveryId, EventId, Scope};
use domain::med::MedCase;
use domain::payout::{Payout, PayoutStatus};
use domain::refund::Refund;
use domain::report::{Report, ReportStatus};
use domain::request_id::StoredRequestId;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::rollup::{RollupChange, rollup_change};
use domain::row::{Key, Row};
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::webhook::event_rules;
use domain::webhook::event_type::{EventType, Family};

use super::endpoint::Endpoint;
use super::legacy::{PaymentData, WithdrawalData};
use money::charge::view::{ChargeView, QrImage};
use money::med::{CaseView, ResolvedView};
use money::payout::PayoutView;
use money::refund::RefundObject;
use money::report::ReportView;
use shared::config::PublicUrls;

/// The version of the API, in the `api_version` of every canonical envelope.
pub const API_VERSION: &str = "2026-11-01";

/// How long a delivery may take, in seconds: 16 days, somewhat more than all attempts take if each response
/// has the longest `Retry-After` that is respected.
const MAX_DELIVERY_SECONDS: i64 = 16 * 24 * 60 * 60;

/// Replaces the event type when the id of a row is derived, because the row has several event types.
const ANY_TYPE: &str = "change";

/// The largest size of a row's objects before compression, in bytes. The metadata of a charge has at most
/// 16 KB, so no event comes near this size.
const MAX_OBJECTS_BYTES: usize = 1024 * 1024;

/// The level of compression, from 0 to 10. Higher levels take longer and save less than one percent.
const COMPRESSION_LEVEL: u8 = 6;

/// An event's row: the events of one change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Event {
    /// Derived from the row that changed and its version. So a replayed change leads to the same id.
    pub id: EventId,
    pub scope: Scope,
    /// The shard of the charge that changed or whose refund or MED case changed. The first shard for events
    /// of other objects.
    #[serde(default, skip_serializing_if = "Shard::is_first")]
    pub shard: Shard,
    /// The types of all objects. Queries filter by them.
    pub types: Vec<EventType>,
    /// What the events send. Events that send the same object share an element.
    #[serde(with = "packed")]
    pub objects: Vec<SentObject>,
    /// What the change adds to the rollups; `None`: nothing, or the insert of the row counted the change, because
    /// it was late (see [`crate::rollup`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<RollupChange>,
    /// The transaction's `webhookUrl`, which receives the legacy events instead of the subscribed endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// The request that created the changed object, for the log lines of the deliveries. `None`: no request
    /// did.
    #[serde(default, rename = "rid", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<StoredRequestId>,
    /// Who created the charge, in the row of its first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ActorId>,
    /// The charge that changed or whose refund or MED case changed, for the log line of the publication.
    #[serde(skip)]
    pub charge: Option<ChargeId>,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// Whether it is a sample that a test of an endpoint sends. The event log does not list it.
    #[serde(default, rename = "test", skip_serializing_if = "std::ops::Not::not")]
    pub is_sample: bool,
    /// When a resend created the row again. Then the retention of 90 days begins at this time instead of at
    /// the change.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub kept_from: Option<Timestamp>,
    /// When the row expires, in unix seconds, as read from the table. A resend may have postponed the expiry.
    #[serde(default, skip_serializing)]
    pub ttl: Option<i64>,
    /// The deliveries that resends created, as read from the table.
    #[serde(default, skip_serializing)]
    pub resent: Vec<DeliveryId>,
}

/// An object that events of a change send.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SentObject {
    pub types: Vec<EventType>,
    /// The `data.object` of canonical events, or the `data` of legacy events, as JSON.
    pub json: String,
}

/// The change of a row that events report. Their ids are derived from it.
#[derive(Clone, Debug)]
pub struct Origin {
    pub scope: Scope,
    pub shard: Shard,
    /// The row's partition key, or its whole key if other rows of the partition have versions too.
    pub row: String,
    pub version: u64,
    pub at: Timestamp,
    pub request_id: Option<StoredRequestId>,
    pub charge: Option<ChargeId>,
}

/// The id and event types of an event's row, derived from the change without reading the row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventRef {
    pub id: EventId,
    pub shard: Shard,
    pub types: Vec<EventType>,
}

/// The body of a canonical event.
#[derive(JsonSchema, Serialize)]
pub(super) struct Envelope<T> {
    /// The event's id: stable per business event and the same on each retry. Deduplicate on it.
    id: EventId,
    /// Always `event`.
    #[schemars(extend("const" = "event"))]
    object: &'static str,
    /// The version of the contract.
    #[schemars(extend("const" = API_VERSION))]
    api_version: &'static str,
    /// The type of the event.
    #[serde(rename = "type")]
    event_type: EventType,
    /// When the change happened.
    created_at: Timestamp,
    /// The object of the event.
    data: EnvelopeData<T>,
    /// `true` in a sample that a test of an endpoint sends. Absent from all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    test: Option<bool>,
}

/// The object of an event.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct EnvelopeData<T> {
    /// The changed object, as the API returns it.
    object: T,
}

impl Event {
    /// Returns the row of a charge's change, given the charge before (`None`: it is new) and after; `None`: the
    /// change has no events and adds nothing to the rollups. The row of a change without events has no objects.
    pub fn of_charge(
        old: Option<&Charge>,
        new: &Charge,
        public_urls: &PublicUrls,
    ) -> Result<Option<Self>, serde_json::Error> {
        let from = old.map_or(TransactionStatus::Pending, |charge| charge.status);
        let entry = StatusChange { from, version: new.version, at: new.updated_at };
        let by_refund = old.is_some_and(|old| old.funds.refunded() != new.funds.refunded());
        let event = if from == new.status {
            None
        } else {
            Self::for_status_change(new, &entry, by_refund, public_urls)?
        };
        let is_first = from == TransactionStatus::Pending;
        let event = event.map(|event| Self { by: new.created_by.clone().filter(|_| is_first), ..event });
        let Some(counted) = rollup_change(old, new) else { return Ok(event) };
        let event =
            event.unwrap_or_else(|| Self::with_objects(&Origin::of_charge(new, &entry), Vec::new(), None));
        Ok(Some(Self { counted: Some(counted), ..event }))
    }

    /// Returns the events of a charge's change to its present status; `None`: the change has no events.
    /// `entry`: that change. `by_refund`: whether a refund made it.
    pub(crate) fn for_status_change(
        charge: &Charge,
        entry: &StatusChange,
        by_refund: bool,
        public_urls: &PublicUrls,
    ) -> Result<Option<Self>, serde_json::Error> {
        let canonical = event_rules::canonical_charge_events(entry.from, charge.status, by_refund);
        let legacy = event_rules::legacy_charge_events(entry.from, charge.status);
        let view = ChargeView::new(charge, public_urls, QrImage::ByUrl);
        let objects = [
            SentObject::new(canonical, &view)?,
            SentObject::new(legacy, &PaymentData::of_charge(charge, entry))?,
        ];
        let url = charge.payment_details.as_ref().and_then(|details| details.webhook_url.clone());
        Ok(Self::new(&Origin::of_charge(charge, entry), objects, url))
    }

    /// Returns the events of a refund's change; `None`: the status did not change. Each step of a refund is a
    /// `payment.refunded`.
    pub fn of_refund(old: Option<&Refund>, new: &Refund) -> Result<Option<Self>, serde_json::Error> {
        if old.map(|refund| refund.status) == Some(new.status) {
            return Ok(None);
        }
        let objects = [
            SentObject::new(event_rules::refund_events(new.status), &RefundObject::new(new))?,
            SentObject::new(vec![EventType::PaymentRefunded], &PaymentData::of_refund(new))?,
        ];
        let url = new.charge.payment_details.as_ref().and_then(|sent| sent.webhook_url.clone());
        Ok(Self::new(&Origin::of_refund(new, new.version, new.updated_at), objects, url))
    }

    /// Returns the events of a MED case's change; `None`: it has none. `outcome_notices`: whether the end of a
    /// case is published.
    pub fn of_case(
        old: Option<&MedCase>,
        new: &MedCase,
        outcome_notices: bool,
    ) -> Result<Option<Self>, serde_json::Error> {
        let names = event_rules::case_events(old, new, outcome_notices);
        let (resolved, changed) = names.into_iter().partition(|name| *name == EventType::MedResolved);
        let objects = [
            SentObject::new(changed, &CaseView::new(new))?,
            SentObject::new(resolved, &ResolvedView::new(new))?,
        ];
        Ok(Self::new(&Origin::of_case(new, new.version, new.updated_at), objects, None))
    }

    /// Returns the events of a payout's change; `None`: the status did not change, or the change was published before a
    /// restore lost it.
    pub fn of_payout(old: Option<&Payout>, new: &Payout) -> Result<Option<Self>, serde_json::Error> {
        if new.is_booked_again() {
            return Ok(None);
        }
        let from = old.map(|payout| payout.status);
        let (canonical, legacy) = event_rules::payout_events(from, new.status);
        let objects = [
            SentObject::new(canonical, &PayoutView::new(new))?,
            SentObject::new(legacy, &WithdrawalData::of_payout(from, new))?,
        ];
        Ok(Self::new(&Origin::of_payout(new, new.version, new.updated_at), objects, None))
    }

    /// Returns the event of a report's change; `None`: its file is not ready, or was before.
    pub fn of_report(old: Option<&Report>, new: &Report) -> Result<Option<Self>, serde_json::Error> {
        let is_ready = |report: &Report| report.status == ReportStatus::Ready;
        if !is_ready(new) || old.is_some_and(is_ready) {
            return Ok(None);
        }
        let row = new.key().joined();
        let origin = Origin { version: new.version, ..Origin::new(new.scope, row, new.updated_at) };
        Self::of_one(EventType::ReportReady, &origin, &ReportView::new(new, None)).map(Some)
    }

    /// Returns the event of a change that has only this event. `object`: what the event sends.
    pub fn of_one(
        event_type: EventType,
        origin: &Origin,
        object: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self::with_objects(origin, vec![SentObject::new(vec![event_type], object)?], None))
    }

    /// Returns the events of a change, which send those of these objects that have types; `None`: none has.
    pub fn new(
        origin: &Origin,
        objects: impl IntoIterator<Item = SentObject>,
        webhook_url: Option<String>,
    ) -> Option<Self> {
        let objects: Vec<SentObject> =
            objects.into_iter().filter(|object| !object.types.is_empty()).collect();
        (!objects.is_empty()).then(|| Self::with_objects(origin, objects, webhook_url))
    }

    fn with_objects(origin: &Origin, objects: Vec<SentObject>, webhook_url: Option<String>) -> Self {
        Self {
            id: origin.row_id(),
            scope: origin.scope,
            shard: origin.shard,
            types: objects.iter().flat_map(|object| object.types.clone()).collect(),
            objects,
            counted: None,
            webhook_url,
            request_id: origin.request_id.clone(),
            by: None,
            charge: origin.charge,
            created_at: origin.at,
            is_sample: false,
            kept_from: None,
            ttl: None,
            resent: Vec::new(),
        }
    }

    /// Iterates over the event types under which the row is sent: the canonical ones first.
    pub fn types(&self) -> impl Iterator<Item = EventType> + '_ {
        self.types.iter().copied()
    }

    /// Returns the receivers: a pair for each event type of the row and each endpoint that is now subscribed
    /// to the type. If the change has a `webhookUrl`, its legacy events have one pair each instead, with `None`
    /// as the endpoint.
    pub fn recipients<'a>(
        &'a self,
        endpoints: &'a [Endpoint],
    ) -> impl Iterator<Item = (EventType, Option<&'a Endpoint>)> {
        self.types().flat_map(move |name| {
            let has_own = self.webhook_url.is_some() && name.family() == Family::Legacy;
            let own = has_own.then_some((name, None));
            let subscribed = endpoints.iter().filter(move |endpoint| !has_own && endpoint.receives(name));
            own.into_iter().chain(subscribed.map(move |endpoint| (name, Some(endpoint))))
        })
    }

    /// Returns the stable id of the event under one of its event types.
    pub fn id_as(&self, event_type: EventType) -> EventId {
        self.id.with_code(event_type.code())
    }

    /// Returns the object that is sent under an event type, as JSON; `None`: the row has no such event.
    pub(crate) fn object_as(&self, event_type: EventType) -> Option<&str> {
        let object = self.objects.iter().find(|object| object.types.contains(&event_type))?;
        Some(&object.json)
    }

    /// Returns the charge that the object sent under an event type is, or belongs to; `None`: it is another object.
    pub(crate) fn charge_as(&self, event_type: EventType) -> Option<ChargeId> {
        charge_of(&serde_json::from_str(self.object_as(event_type)?).ok()?)
    }

    /// Returns the body that is sent under an event type; `None`: the row has no such event.
    pub fn body_as(&self, event_type: EventType) -> Option<String> {
        let (object, name) = (self.object_as(event_type)?, event_type.as_str());
        let test = if self.is_sample { r#","test":true"# } else { "" };
        Some(match event_type.family() {
            Family::Canonical => {
                let (id, created_at) = (self.id_as(event_type), self.created_at);
                // The fields of `Envelope`.
                format!(
                    r#"{{"id":"{id}","object":"event","api_version":"{API_VERSION}","type":"{name}","created_at":"{created_at}","data":{{"object":{object}}}{test}}}"#
                )
            }
            Family::Legacy => format!(r#"{{"event":"{name}","data":{object}{test}}}"#),
        })
    }

    /// Whether the event has not expired. DynamoDB may remove an expired row some time later.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        self.ttl.is_none_or(|end| now.seconds() < end)
    }

    /// Returns the time until which a resend at `now` needs the row; `None`: the row does not expire before
    /// that time anyway.
    pub fn needed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = now.plus_seconds(MAX_DELIVERY_SECONDS).ok()?;
        (self.created_at.plus_seconds(EVENTS_KEPT_SECONDS).ok()? < until).then_some(until)
    }

    pub fn key_of(scope: &Scope, shard: Shard, id: EventId) -> Key {
        Key { pk: Self::partition(scope, shard), sk: id.to_string() }
    }

    pub fn is_at(key: &Key) -> bool {
        key.pk.starts_with("events#")
    }

    /// Returns the partition key of a shard of a scope's events. They are sorted by the time of their changes.
    pub fn partition(scope: &Scope, shard: Shard) -> String {
        shard.partition(format!("events#{scope}"))
    }
}

/// Returns the charge that the body of an event is about; `None`: it is about another object.
pub(crate) fn charge_of_body(body: &str) -> Option<ChargeId> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    body.pointer("/data/object").or_else(|| body.get("data")).and_then(charge_of)
}

fn charge_of(object: &serde_json::Value) -> Option<ChargeId> {
    let mut ids =
        ["charge_id", "transactionId", "id"].into_iter().filter_map(|name| object.get(name)?.as_str());
    ids.find_map(|id| ChargeId::parse_any(id).ok())
}

impl Event {
    /// Returns the attribute `objects` of the row without the customer's data, with the fields of a charge and of
    /// a payment. `None`: the objects have no such data.
    pub fn erased_objects(&self) -> Option<Vec<u8>> {
        let objects: Vec<SentObject> = self.objects.iter().map(SentObject::erased).collect();
        (objects != self.objects).then(|| pack(&objects))
    }
}

impl SentObject {
    /// Returns the object without the customer's data. An object that has none is unchanged.
    fn erased(&self) -> Self {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&self.json) else { return self.clone() };
        let before = fields.clone();
        fields.remove("expected_payer_tax_id");
        fields.remove("customerId");
        if let Some(metadata) = fields.get_mut("metadata") {
            *metadata = Value::Object(Map::new());
        }
        if let Some(Value::Object(customer)) = fields.get_mut("customer") {
            customer.values_mut().for_each(|value| *value = Value::Null);
        }
        if fields == before {
            return self.clone();
        }
        Self { types: self.types.clone(), json: Value::Object(fields).to_string() }
    }

    pub fn new(types: Vec<EventType>, object: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self { types, json: serde_json::to_string(object)? })
    }
}

/// The attribute `objects`, which is binary.
mod packed {
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    use super::{SentObject, pack, unpack};

    pub(super) fn serialize<S: Serializer>(objects: &[SentObject], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&pack(objects))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SentObject>, D::Error> {
        let packed: Vec<u8> = serde_bytes::deserialize(from)?;
        unpack(&packed).map_err(D::Error::custom)
    }
}

/// Compresses objects by DEFLATE (RFC 1951). The text has a line for each object: its types as JSON, a tab, and
/// the object as JSON. Such JSON contains neither line breaks nor tabs.
fn pack(objects: &[SentObject]) -> Vec<u8> {
    let line = |object: &SentObject| {
        let types: Vec<String> = object.types.iter().map(|name| format!("\"{}\"", name.as_str())).collect();
        format!("[{}]\t{}", types.join(","), object.json)
    };
    let lines: Vec<String> = objects.iter().map(line).collect();
    deflate::compress_to_vec(lines.join("\n").as_bytes(), COMPRESSION_LEVEL)
}

fn unpack(packed: &[u8]) -> Result<Vec<SentObject>, String> {
    let text = inflate::decompress_to_vec_with_limit(packed, MAX_OBJECTS_BYTES)
        .map_err(|error| format!("the objects of an event can't be decompressed: {error}"))?;
    let text =
        String::from_utf8(text).map_err(|error| format!("the objects of an event are not text: {error}"))?;
    let object = |line: &str| {
        let (types, json) = line.split_once('\t').unwrap_or((line, "null"));
        let types = serde_json::from_str(types)
            .map_err(|error| format!("the object of an event has unknown types: {error}"))?;
        Ok(SentObject { types, json: json.to_owned() })
    };
    text.lines().map(object).collect()
}

impl EventRef {
    /// Returns the events that a charge has published so far, without those of its refunds. `charge.refunded` is
    /// included even if the end of a MED case made the change, although its row does not have the event then.
    pub fn of_charge(charge: &Charge) -> Vec<Self> {
        let of_change = |(entry, to): (StatusChange, TransactionStatus)| {
            let canonical = event_rules::canonical_charge_events(entry.from, to, true);
            let legacy = event_rules::legacy_charge_events(entry.from, to);
            Self::of(&Origin::of_charge(charge, &entry), [canonical, legacy].concat())
        };
        charge.status_changes().into_iter().map(of_change).collect()
    }

    /// Returns the events that a refund has published so far.
    pub fn of_refund(refund: &Refund) -> Vec<Self> {
        let of_step = |(version, status, at)| {
            let types = [event_rules::refund_events(status), vec![EventType::PaymentRefunded]].concat();
            Self::of(&Origin::of_refund(refund, version, at), types)
        };
        refund.steps().map(of_step).collect()
    }

    /// Returns the events that a MED case has published so far. Events of the case's end are included even if
    /// outcome notices are off, although they have no rows then.
    pub fn of_case(case: &MedCase) -> Vec<Self> {
        let name = |event_type, version, at| Self::of(&Origin::of_case(case, version, at), vec![event_type]);
        let opened = name(EventType::MedCaseCreated, 1, case.created_at);
        let updated = case
            .published_updates
            .iter()
            .map(|update| name(EventType::MedCaseUpdated, update.version, update.at));
        let reminded = case
            .reminders
            .iter()
            .map(|sent| name(EventType::MedCaseDeadlineApproaching, sent.version, sent.at));
        // If a case is over, its last update is its end.
        let end = case.published_updates.last().filter(|_| case.status.is_over());
        let resolved = end.map(|end| name(EventType::MedResolved, end.version, end.at));
        std::iter::once(opened).chain(updated).chain(reminded).chain(resolved).collect()
    }

    /// Returns the events that a payout has published so far.
    pub fn of_payout(payout: &Payout) -> Vec<Self> {
        let of_change = |(from, to, version, at)| {
            let (canonical, legacy) = event_rules::payout_events(from, to);
            Self::of(&Origin::of_payout(payout, version, at), [canonical, legacy].concat())
        };
        let created = (None, PayoutStatus::Pending, 1, payout.created_at);
        let ended = (Some(PayoutStatus::Pending), payout.status, payout.version, payout.updated_at);
        [created, ended].into_iter().map(of_change).collect()
    }

    fn of(origin: &Origin, types: Vec<EventType>) -> Self {
        Self { id: origin.row_id(), shard: origin.shard, types }
    }
}

impl Origin {
    /// The change that inserts a row of the first shard, to which no charge and no request belongs.
    pub fn new(scope: Scope, row: String, at: Timestamp) -> Self {
        Self { scope, shard: Shard::FIRST, row, version: 1, at, request_id: None, charge: None }
    }

    fn of_charge(charge: &Charge, entry: &StatusChange) -> Self {
        Self {
            scope: charge.scope,
            shard: charge.shard(),
            row: charge.key().pk,
            version: entry.version,
            at: entry.at,
            request_id: Some(charge.request_id.clone()),
            charge: Some(charge.id),
        }
    }

    fn of_refund(refund: &Refund, version: u64, at: Timestamp) -> Self {
        let (request_id, charge) = (Some(refund.request_id.clone()), Some(refund.id.charge()));
        let (scope, shard) = (refund.scope, refund.shard());
        Self { scope, shard, row: refund.key().joined(), version, at, request_id, charge }
    }

    fn of_case(case: &MedCase, version: u64, at: Timestamp) -> Self {
        let (request_id, charge) = (Some(case.request_id.clone()), Some(case.id.charge()));
        let (scope, shard) = (case.scope, case.shard());
        Self { scope, shard, row: case.key().joined(), version, at, request_id, charge }
    }

    fn of_payout(payout: &Payout, version: u64, at: Timestamp) -> Self {
        Self { version, ..Self::new(payout.scope, payout.key().pk, at) }
    }

    fn row_id(&self) -> EventId {
        EventId::derive(self.at, &self.row, self.version, ANY_TYPE).row_id()
    }
}

impl Row for Event {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.shard, self.id)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.kept_from.unwrap_or(self.created_at).plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge_testing::{at, payment, waiting};
    use domain::account::terms::{Fee, MethodTerms};
    use domain::charge::transition::{Command, Outcome, Payment, apply};
    use domain::charge::{Customer, Metadata, PaymentDetails};
    use domain::ids::EndToEndId;
    use shared::store::{from_item, to_item};

    fn public_urls() -> PublicUrls {
        PublicUrls::new("https://pay.example.com/checkout").unwrap()
    }

    fn order() -> Charge {
        let sent = serde_json::json!({"order": "1"});
        Charge {
            metadata: Metadata::from_request(sent.as_object().unwrap(), None),
            payment_details: Some(PaymentDetails {
                customer_id: Some("user-7".to_owned()),
                webhook_url: Some("https://shop.example.com/hook".to_owned()),
            }),
            ..waiting()
        }
    }

    fn after(charge: &Charge, command: &Command) -> Charge {
        match apply(charge, command, at(60)).unwrap() {
            Outcome::Changed(charge) | Outcome::Paid { charge, .. } | Outcome::Credited { charge, .. } => {
                *charge
            }
            Outcome::Unchanged => panic!("unchanged"),
        }
    }

    fn pay() -> Command {
        let payment = Payment { id: EndToEndId::sandbox(at(60), [7; 8]).into(), ..payment() };
        let terms = MethodTerms {
            acquirer_fee: Fee::new(0, 99).unwrap(),
            platform_fee: Fee::new(10, 0).unwrap(),
            ..MethodTerms::default()
        };
        Command::Pay { payment, terms }
    }

    /// The bodies of these events under all their names, one a line.
    fn bodies<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
        let bodies_of = |event: &'a Event| event.types().filter_map(|event_type| event.body_as(event_type));
        events.into_iter().flat_map(bodies_of).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_paid_charge_is_published_with_its_fees_and_the_merchants_data() {
        let paid = after(&order(), &pay());
        let events = Event::of_charge(Some(&order()), &paid, &public_urls()).unwrap();
        insta::assert_snapshot!(bodies(&events), @r#"
        {"id":"evt_01m7yzpc30c4ywp527fncgfkrm","object":"event","api_version":"2026-11-01","type":"charge.paid","created_at":"2026-11-21T12:01:00.000Z","data":{"object":{"id":"ch_f4357470-cd8b-8fda-8eac-d58f8e8e59b9","object":"charge","amount":1000,"currency":"BRL","status":"paid","payment_method":"pix","customer":{"name":null,"document":null},"pix":{"br_code":"code","qr_code_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9/qr.png","expires_at":"2026-11-21T13:00:00.000Z","txid":"7m6nt71kcbhzd8xb6nhy78wpds"},"checkout_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9","settlement":{"end_to_end_id":"E00000000202611211201Fqe4UALEPb0"},"metadata":{"order":"1"},"created_at":"2026-11-21T12:00:00.000Z","paid_at":"2026-11-21T12:01:00.000Z","amount_refunded":0}}}
        {"event":"payment.completed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"WAITING_PAYMENT","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"occurredAt":"2026-11-21T12:01:00.000Z"}}
        {"event":"payment.status_changed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"WAITING_PAYMENT","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"occurredAt":"2026-11-21T12:01:00.000Z"}}
        "#);
        let event = events.unwrap();
        let recipients: Vec<_> = event.recipients(&[]).collect();
        assert_eq!(
            recipients,
            [(EventType::PaymentCompleted, None), (EventType::PaymentStatusChanged, None)],
            "the `webhookUrl` receives the legacy events alone"
        );
    }

    #[test]
    fn a_payment_that_is_settled_no_more_is_published_without_fees() {
        let paid = after(&order(), &pay());
        for status in [TransactionStatus::Refunded, TransactionStatus::Dispute, TransactionStatus::Chargeback]
        {
            let changed = Charge { status, version: paid.version + 1, ..paid.clone() };
            let events = Event::of_charge(Some(&paid), &changed, &public_urls()).unwrap();
            let bodies = bodies(&events);
            assert!(bodies.contains("payment.status_changed"), "{bodies}");
            assert!(!bodies.contains("paidWith") && !bodies.contains("netAmount"), "{bodies}");
        }
    }

    #[test]
    fn events_built_later_from_the_charge_equal_the_events_of_its_change() {
        let waiting = order();
        let processing =
            after(&Charge { expected_payer: Some("29537995593".parse().unwrap()), ..order() }, &pay());
        let (paid, cancelled) = (after(&waiting, &pay()), after(&waiting, &Command::Cancel));
        let expired = after(&waiting, &Command::Expire { at: at(3600) });
        let returned = after(&processing, &Command::Cancel);
        for (old, new) in [
            (None, &waiting),
            (Some(&waiting), &paid),
            (Some(&waiting), &cancelled),
            (Some(&waiting), &expired),
            (Some(&waiting), &processing),
            (Some(&processing), &returned),
        ] {
            let first = Event::of_charge(old, new, &public_urls()).unwrap();
            assert!(first.is_some());
            let later =
                Event::for_status_change(new, &new.latest_status_change(), false, &public_urls()).unwrap();
            let uncounted = first.map(|event| Event { counted: None, ..event });
            assert_eq!(later, uncounted, "{:?}", new.status);
        }
    }

    #[test]
    fn erased_objects_have_no_data_of_the_customer_and_are_erased_once() {
        let customer = Customer { name: Some("Maria Souza".to_owned()), ..Customer::default() };
        let expected_payer = Some("29537995593".parse().unwrap());
        let charge = Charge { customer, expected_payer, ..order() };
        let event = Event::of_charge(None, &charge, &public_urls()).unwrap().unwrap();
        let erased = Event { objects: unpack(&event.erased_objects().unwrap()).unwrap(), ..event.clone() };
        let (before, after) = (bodies([&event]), bodies([&erased]));
        for personal in ["Maria", "29537995593", "user-7", r#""order":"1""#] {
            assert!(before.contains(personal) && !after.contains(personal), "{after}");
        }
        assert_eq!(erased.types().collect::<Vec<_>>(), event.types().collect::<Vec<_>>());
        assert!(after.contains(r#""amount":1000"#) && after.contains(r#""metadata":{}"#), "{after}");
        assert_eq!(erased.erased_objects(), None);
    }

    #[test]
    fn a_row_keeps_its_objects_and_one_with_damaged_objects_is_refused() {
        let event = Event::of_charge(None, &waiting(), &public_urls()).unwrap().unwrap();
        let read: Event = from_item(to_item(&event).unwrap()).unwrap();
        assert_eq!(Event { charge: event.charge, ttl: None, ..read }, event);
        for damaged in [&b""[..], b"damaged", &deflate::compress_to_vec(b"[\"no.type\"]\t{}", 6)] {
            assert!(unpack(damaged).is_err(), "{damaged:?}");
        }
    }
}
