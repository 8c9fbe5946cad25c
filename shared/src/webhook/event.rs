//! Events: the rows from which webhook bodies are sent.
//!
//! Each canonical event of a change has its own row, because the stored envelope contains the event's name.
//! All legacy events of a change share one row, because their `data` is the same. A body is built from the
//! row alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use domain::charge::{Charge, StatusChange, TransactionStatus};
use domain::hex;
use domain::ids::{ChargeId, EndpointId, EventId, Scope};
use domain::med::MedCase;
use domain::payout::{Payout, PayoutStatus};
use domain::refund::Refund;
use domain::request_id::StoredRequestId;
use domain::retention::EVENTS_KEPT_SECONDS;
use domain::row::{Key, Row};
use domain::time::Timestamp;
use domain::webhook::event_rules;
use domain::webhook::event_type::{EventType, Family};

use super::endpoint::Endpoint;
use super::legacy::{PaymentData, WithdrawalData};
use crate::charge::view::{ChargeView, QrImage};
use crate::config::PublicUrls;
use crate::med::{CaseView, ResolvedView};
use crate::payout::PayoutView;

/// The version of the contract, in the `api_version` of every canonical envelope.
pub const API_VERSION: &str = "2026-11-01";

/// How long a delivery may take, in seconds: 16 days, somewhat more than all attempts take if each response
/// has the longest `Retry-After` that is respected.
const MAX_DELIVERY_SECONDS: i64 = 16 * 24 * 60 * 60;

/// Replaces the event type when the id of a legacy row is derived, because the row has several event types.
const LEGACY: &str = "legacy";

/// An event's row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Event {
    /// Derived from the row that changed, its version, and the event's name or family. So a replayed change
    /// leads to the same id.
    pub id: EventId,
    /// The account and mode.
    pub scope: Scope,
    /// The event types under which it is sent: one canonical type, or all legacy types of a change.
    pub types: Vec<EventType>,
    /// The body of a canonical event, byte for byte, or the `data` of legacy events.
    pub payload: String,
    /// The transaction's `webhookUrl`, which receives the legacy events instead of the subscribed endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// The request that created the changed object, for the log lines of the deliveries. `None`: no request
    /// did, or an earlier version stored the row.
    #[serde(default, rename = "rid", skip_serializing_if = "Option::is_none")]
    pub request_id: Option<StoredRequestId>,
    /// The charge that changed or whose refund or MED case changed, for the log line of the publication. Not
    /// stored.
    #[serde(skip)]
    pub charge: Option<ChargeId>,
    /// When the change happened.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When a resend created the row again. Then the retention of 90 days begins at this time instead of at
    /// the change.
    #[serde(default, with = "domain::time::millis_option", skip_serializing_if = "Option::is_none")]
    pub kept_from: Option<Timestamp>,
    /// When the row expires, in unix seconds, as read from the table. A resend may have postponed the expiry.
    #[serde(default, skip_serializing)]
    pub ttl: Option<i64>,
}

/// The change of a row that an event reports. The event's id is derived from it.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The account and mode of the row.
    pub scope: Scope,
    /// The row's partition key, or its whole key if other rows of the partition have versions too.
    pub row: String,
    /// The row's version after the change.
    pub version: u64,
    /// When the row changed.
    pub at: Timestamp,
    /// The request that created the changed object.
    pub request_id: Option<StoredRequestId>,
    /// The charge that changed or whose refund or MED case changed.
    pub charge: Option<ChargeId>,
}

/// The id and event types of an event's row, derived from the change without reading the row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventRef {
    /// The id of the row.
    pub id: EventId,
    /// The event types under which it is sent.
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
}

/// The object of an event.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct EnvelopeData<T> {
    /// The changed object, as the API returns it.
    object: T,
}

impl Event {
    /// Returns the events of a charge's change, given the row before (`None`: it is new) and after.
    pub fn of_charge(
        old: Option<&Charge>,
        new: &Charge,
        public_urls: &PublicUrls,
    ) -> Result<Vec<Self>, serde_json::Error> {
        let from = old.map_or(TransactionStatus::Pending, |charge| charge.status);
        if from == new.status {
            return Ok(Vec::new());
        }
        let entry = StatusChange { from, version: new.version, at: new.updated_at };
        Self::for_status_change(new, &entry, public_urls)
    }

    /// Returns the events of a charge's change to its present status. `entry`: that change.
    pub fn for_status_change(
        charge: &Charge,
        entry: &StatusChange,
        public_urls: &PublicUrls,
    ) -> Result<Vec<Self>, serde_json::Error> {
        let origin = Origin::of_charge(charge, entry);
        let canonical = event_rules::canonical_charge_events(entry.from, charge.status);
        let view = || ChargeView::new(charge, public_urls, QrImage::ByUrl);
        let canonical = canonical.into_iter().map(|name| Self::canonical(name, &origin, view()));
        let mut events = canonical.collect::<Result<Vec<_>, _>>()?;
        let legacy = event_rules::legacy_charge_events(entry.from, charge.status);
        let url = charge.payment_details.as_ref().and_then(|details| details.webhook_url.clone());
        events.extend(Self::legacy(legacy, &origin, &PaymentData::of_charge(charge, entry), url)?);
        Ok(events)
    }

    /// Returns the event of a refund's change; `None`: the status did not change. Each step of a refund is a
    /// `payment.refunded` (contract: Emission rules).
    pub fn of_refund(old: Option<&Refund>, new: &Refund) -> Result<Option<Self>, serde_json::Error> {
        if old.map(|refund| refund.status) == Some(new.status) {
            return Ok(None);
        }
        let origin = Origin::of_refund(new, new.version, new.updated_at);
        let url = new.charge.payment_details.as_ref().and_then(|sent| sent.webhook_url.clone());
        Self::legacy(vec![EventType::PaymentRefunded], &origin, &PaymentData::of_refund(new), url)
    }

    /// Returns the events of a MED case's change. `outcome_notices`: whether the end of a case is published.
    pub fn of_case(
        old: Option<&MedCase>,
        new: &MedCase,
        outcome_notices: bool,
    ) -> Result<Vec<Self>, serde_json::Error> {
        let origin = Origin::of_case(new, new.version, new.updated_at);
        let names = event_rules::case_events(old, new, outcome_notices).into_iter();
        let events = names.map(|name| match name {
            EventType::MedResolved => Self::canonical(name, &origin, ResolvedView::new(new)),
            _ => Self::canonical(name, &origin, CaseView::new(new)),
        });
        events.collect()
    }

    /// Returns the events of a payout's change.
    pub fn of_payout(old: Option<&Payout>, new: &Payout) -> Result<Vec<Self>, serde_json::Error> {
        let from = old.map(|payout| payout.status);
        let origin = Origin::of_payout(new, new.version, new.updated_at);
        let (canonical, legacy) = event_rules::payout_events(from, new.status);
        let view = || PayoutView::new(new);
        let canonical = canonical.into_iter().map(|name| Self::canonical(name, &origin, view()));
        let mut events = canonical.collect::<Result<Vec<_>, _>>()?;
        events.extend(Self::legacy(legacy, &origin, &WithdrawalData::of_payout(from, new), None)?);
        Ok(events)
    }

    /// Returns the canonical event of a change. `object`: the API object in its `data`.
    pub fn canonical<T: Serialize>(
        event_type: EventType,
        origin: &Origin,
        object: T,
    ) -> Result<Self, serde_json::Error> {
        let id = origin.event_id(event_type.as_str());
        let envelope = Envelope {
            id,
            object: "event",
            api_version: API_VERSION,
            event_type,
            created_at: origin.at,
            data: EnvelopeData { object },
        };
        let payload = json(&envelope)?;
        Ok(Self {
            id,
            scope: origin.scope,
            types: vec![event_type],
            payload,
            webhook_url: None,
            request_id: origin.request_id.clone(),
            charge: origin.charge,
            created_at: origin.at,
            kept_from: None,
            ttl: None,
        })
    }

    /// Returns the legacy events of a change as one row; `None`: the change has no legacy events.
    pub fn legacy(
        types: Vec<EventType>,
        origin: &Origin,
        data: &impl Serialize,
        webhook_url: Option<String>,
    ) -> Result<Option<Self>, serde_json::Error> {
        if types.is_empty() {
            return Ok(None);
        }
        let id = origin.legacy_id();
        let (scope, created_at) = (origin.scope, origin.at);
        Ok(Some(Self {
            id,
            scope,
            types,
            payload: json(data)?,
            webhook_url,
            request_id: origin.request_id.clone(),
            charge: origin.charge,
            created_at,
            kept_from: None,
            ttl: None,
        }))
    }

    /// Returns the receivers: a pair for each event type of the row and each endpoint that is now subscribed
    /// to the type. If the event has a `webhookUrl`, returns one pair for each type, with `None` as the
    /// endpoint.
    pub fn recipients<'a>(
        &'a self,
        endpoints: &'a [Endpoint],
    ) -> impl Iterator<Item = (EventType, Option<EndpointId>)> + 'a {
        self.types.iter().flat_map(move |name| {
            let own = self.webhook_url.is_some().then_some((*name, None));
            let subscribed =
                endpoints.iter().filter(move |endpoint| own.is_none() && endpoint.receives(*name));
            own.into_iter().chain(subscribed.map(|endpoint| (*name, Some(endpoint.id))))
        })
    }

    /// Returns 8 hex digits of a hash of the host and port of the `webhookUrl`. They distinguish this server
    /// from others.
    pub(super) fn webhook_url_server(&self) -> Option<String> {
        let url = Url::parse(self.webhook_url.as_deref()?).ok()?;
        let server = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
        let hash = hex::encode(&Sha256::digest(server));
        hash.get(..8).map(str::to_owned)
    }

    /// Returns the stable id of the event under one of its event types.
    pub fn id_as(&self, event_type: EventType) -> EventId {
        id_as(self.id, event_type)
    }

    /// Returns the body that is sent under one of its event types.
    pub fn body_as(&self, event_type: EventType) -> String {
        match event_type.family() {
            Family::Canonical => self.payload.clone(),
            Family::Legacy => format!(r#"{{"event":"{}","data":{}}}"#, event_type.as_str(), self.payload),
        }
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

    /// Returns the key of an event's row.
    pub fn key_of(scope: &Scope, id: EventId) -> Key {
        Key { pk: Self::partition(scope), sk: id.to_string() }
    }

    /// Returns the partition key of a scope's events. They are sorted by the time of their changes.
    pub(super) fn partition(scope: &Scope) -> String {
        format!("events#{scope}")
    }
}

/// Returns the stable id of an event under one of its event types. If the type has a code, the code replaces
/// the last character of the row's id.
fn id_as(row: EventId, event_type: EventType) -> EventId {
    event_type.code().map_or(row, |code| row.with_code(code))
}

impl EventRef {
    /// Returns the events that a charge has published so far, without those of its refunds.
    pub fn of_charge(charge: &Charge) -> Vec<Self> {
        let of_change = |(entry, to): (StatusChange, TransactionStatus)| {
            let (canonical, legacy) = (
                event_rules::canonical_charge_events(entry.from, to),
                event_rules::legacy_charge_events(entry.from, to),
            );
            Self::of(&Origin::of_charge(charge, &entry), canonical, legacy)
        };
        charge.status_changes().into_iter().flat_map(of_change).collect()
    }

    /// Returns the events that a refund has published so far.
    pub fn of_refund(refund: &Refund) -> Vec<Self> {
        let of_step = |(version, at)| {
            Self::of(&Origin::of_refund(refund, version, at), Vec::new(), vec![EventType::PaymentRefunded])
        };
        refund.steps().flat_map(of_step).collect()
    }

    /// Returns the events that a MED case has published so far. Events of the case's end are included even if
    /// outcome notices are off, although they have no rows then.
    pub fn of_case(case: &MedCase) -> Vec<Self> {
        let name = |event_type, version, at| {
            Self::of(&Origin::of_case(case, version, at), vec![event_type], Vec::new())
        };
        let opened = name(EventType::MedCaseCreated, 1, case.created_at);
        let updated = case
            .published_updates
            .iter()
            .flat_map(|update| name(EventType::MedCaseUpdated, update.version, update.at));
        // If a case is over, its last update is its end.
        let end = case.published_updates.last().filter(|_| case.status.is_over());
        let resolved = end.into_iter().flat_map(|end| name(EventType::MedResolved, end.version, end.at));
        opened.into_iter().chain(updated).chain(resolved).collect()
    }

    /// Returns the events that a payout has published so far.
    pub fn of_payout(payout: &Payout) -> Vec<Self> {
        let of_change = |(from, to, version, at)| {
            let (canonical, legacy) = event_rules::payout_events(from, to);
            Self::of(&Origin::of_payout(payout, version, at), canonical, legacy)
        };
        let created = (None, PayoutStatus::Pending, 1, payout.created_at);
        let ended = (Some(PayoutStatus::Pending), payout.status, payout.version, payout.updated_at);
        [created, ended].into_iter().flat_map(of_change).collect()
    }

    fn of(origin: &Origin, canonical: Vec<EventType>, legacy: Vec<EventType>) -> Vec<Self> {
        let name = |id, types| Self { id, types };
        let canonical = canonical
            .into_iter()
            .map(|event_type| name(origin.event_id(event_type.as_str()), vec![event_type]));
        let legacy = (!legacy.is_empty()).then(|| name(origin.legacy_id(), legacy));
        canonical.chain(legacy).collect()
    }

    /// Returns the stable id of the event under one of its names.
    pub fn id_as(&self, event_type: EventType) -> EventId {
        id_as(self.id, event_type)
    }
}

impl Origin {
    fn of_charge(charge: &Charge, entry: &StatusChange) -> Self {
        Self {
            scope: charge.scope,
            row: charge.key().pk,
            version: entry.version,
            at: entry.at,
            request_id: charge.request_id.clone(),
            charge: Some(charge.id),
        }
    }

    fn of_refund(refund: &Refund, version: u64, at: Timestamp) -> Self {
        let (request_id, charge) = (refund.request_id.clone(), Some(refund.id.charge()));
        Self { scope: refund.scope, row: refund.key().joined(), version, at, request_id, charge }
    }

    fn of_case(case: &MedCase, version: u64, at: Timestamp) -> Self {
        let (request_id, charge) = (case.request_id.clone(), Some(case.id.charge()));
        Self { scope: case.scope, row: case.key().joined(), version, at, request_id, charge }
    }

    fn of_payout(payout: &Payout, version: u64, at: Timestamp) -> Self {
        Self { scope: payout.scope, row: payout.key().pk, version, at, request_id: None, charge: None }
    }

    fn event_id(&self, name: &str) -> EventId {
        EventId::derive(self.at, &self.row, self.version, name)
    }

    /// Returns the id of the row of all legacy events of the change.
    fn legacy_id(&self) -> EventId {
        self.event_id(LEGACY).row_id()
    }
}

fn json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

impl Row for Event {
    fn key(&self) -> Key {
        Self::key_of(&self.scope, self.id)
    }

    fn removable_at(&self) -> Option<Timestamp> {
        self.kept_from.unwrap_or(self.created_at).plus_seconds(EVENTS_KEPT_SECONDS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::{at, waiting};
    use domain::account::terms::{Fee, MethodTerms};
    use domain::charge::transition::{Command, Outcome, Payment, apply};
    use domain::charge::{Metadata, PaymentDetails, RefundParameters};
    use domain::ids::{EndToEndId, RefundId};
    use domain::money::{Amount, MinorUnits};
    use domain::payment_method::PaymentMethod;
    use domain::payout::PayoutOutcome;
    use domain::refund::{RefundOutcome, RefundPlan};
    use domain::wallet::RefundStrategy;

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
            other => panic!("{other:?}"),
        }
    }

    fn pay() -> Command {
        let payment = Payment {
            id: EndToEndId::sandbox(at(60), [7; 8]).into(),
            method: PaymentMethod::Pix,
            amount: Amount::parse(1000).unwrap(),
            payer_document: None,
            paid_at: at(60),
        };
        let terms = MethodTerms {
            acquirer_fee: Fee::new(0, 99).unwrap(),
            platform_fee: Fee::new(10, 0).unwrap(),
            ..MethodTerms::default()
        };
        Command::Pay { payment, terms }
    }

    /// The bodies of these events under all their names, one a line.
    fn bodies(events: &[Event]) -> String {
        let bodies_of = |event: &Event| -> Vec<String> {
            event.types.iter().map(|event_type| event.body_as(*event_type)).collect()
        };
        events.iter().flat_map(bodies_of).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_new_charge_is_published_in_both_envelopes() {
        let events = Event::of_charge(None, &waiting(), &public_urls()).unwrap();
        insta::assert_snapshot!(bodies(&events), @r#"
        {"id":"evt_01m7yzmhg0cavxyzbktq0jycz4","object":"event","api_version":"2026-11-01","type":"charge.created","created_at":"2026-11-21T12:00:00.000Z","data":{"object":{"id":"ch_f4357470-cd8b-8fda-8eac-d58f8e8e59b9","object":"charge","amount":1000,"currency":"BRL","status":"pending","payment_method":"pix","customer":{"name":null,"document":null},"pix":{"br_code":"code","qr_code_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9/qr.png","expires_at":"2026-11-21T13:00:00.000Z","txid":"7m6nt71kcbhzd8xb6nhy78wpds"},"checkout_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9","settlement":{},"metadata":{},"created_at":"2026-11-21T12:00:00.000Z"}}}
        {"event":"payment.created","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"WAITING_PAYMENT","previousStatus":"PENDING","occurredAt":"2026-11-21T12:00:00.000Z"}}
        {"event":"payment.status_changed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"WAITING_PAYMENT","previousStatus":"PENDING","occurredAt":"2026-11-21T12:00:00.000Z"}}
        "#);
    }

    #[test]
    fn a_paid_charge_is_published_with_its_fees_and_the_merchants_data() {
        let paid = after(&order(), &pay());
        let events = Event::of_charge(Some(&order()), &paid, &public_urls()).unwrap();
        insta::assert_snapshot!(bodies(&events), @r#"
        {"id":"evt_01m7yzpc30qadh8cdzz7c360rc","object":"event","api_version":"2026-11-01","type":"charge.paid","created_at":"2026-11-21T12:01:00.000Z","data":{"object":{"id":"ch_f4357470-cd8b-8fda-8eac-d58f8e8e59b9","object":"charge","amount":1000,"currency":"BRL","status":"paid","payment_method":"pix","customer":{"name":null,"document":null},"pix":{"br_code":"code","qr_code_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9/qr.png","expires_at":"2026-11-21T13:00:00.000Z","txid":"7m6nt71kcbhzd8xb6nhy78wpds"},"checkout_url":"https://pay.example.com/checkout/f4357470-cd8b-8fda-8eac-d58f8e8e59b9","settlement":{"end_to_end_id":"E00000000202611211201Fqe4UALEPb0"},"metadata":{"order":"1"},"created_at":"2026-11-21T12:00:00.000Z"}}}
        {"event":"payment.completed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"WAITING_PAYMENT","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"occurredAt":"2026-11-21T12:01:00.000Z"}}
        {"event":"payment.status_changed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"WAITING_PAYMENT","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"occurredAt":"2026-11-21T12:01:00.000Z"}}
        "#);
        let urls: Vec<Option<&str>> = events.iter().map(|event| event.webhook_url.as_deref()).collect();
        assert_eq!(urls, [None, Some("https://shop.example.com/hook")]);
    }

    #[test]
    fn an_expired_charge_is_published_without_fees() {
        let expired = after(&waiting(), &Command::Expire { at: at(3600) });
        let events = Event::of_charge(Some(&waiting()), &expired, &public_urls()).unwrap();
        let legacy = events.last().unwrap();
        insta::assert_snapshot!(bodies(std::slice::from_ref(legacy)), @r#"
        {"event":"payment.expired","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"EXPIRED","previousStatus":"WAITING_PAYMENT","occurredAt":"2026-11-21T13:00:00.000Z"}}
        {"event":"payment.failed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"EXPIRED","previousStatus":"WAITING_PAYMENT","occurredAt":"2026-11-21T13:00:00.000Z"}}
        {"event":"payment.status_changed","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"EXPIRED","previousStatus":"WAITING_PAYMENT","occurredAt":"2026-11-21T13:00:00.000Z"}}
        "#);
    }

    #[test]
    fn a_payout_is_published_in_both_envelopes() {
        let asked = crate::payout::testing::pending();
        let paid = asked.ended(&PayoutOutcome::Paid, at(60)).unwrap().unwrap();
        let mut events = Event::of_payout(None, &asked).unwrap();
        events.extend(Event::of_payout(Some(&asked), &paid).unwrap());
        insta::assert_snapshot!(bodies(&events), @r#"
        {"id":"evt_01m7yzmhg0sxp8c31084c420rc","object":"event","api_version":"2026-11-01","type":"payout.created","created_at":"2026-11-21T12:00:00.000Z","data":{"object":{"id":"po_01m7yzmhg00w3ge1r70w3ge1r7","object":"payout","amount":1000,"currency":"BRL","status":"pending","failure_reason":null,"created_at":"2026-11-21T12:00:00.000Z","paid_at":null}}}
        {"event":"withdrawal.created","data":{"transactionId":"po_01m7yzmhg00w3ge1r70w3ge1r7","amount":1000,"status":"PENDING","previousStatus":"PENDING","occurredAt":"2026-11-21T12:00:00.000Z"}}
        {"id":"evt_01m7yzpc30vb4t0nhafw33n365","object":"event","api_version":"2026-11-01","type":"payout.paid","created_at":"2026-11-21T12:01:00.000Z","data":{"object":{"id":"po_01m7yzmhg00w3ge1r70w3ge1r7","object":"payout","amount":1000,"currency":"BRL","status":"paid","failure_reason":null,"created_at":"2026-11-21T12:00:00.000Z","paid_at":"2026-11-21T12:01:00.000Z"}}}
        {"event":"withdrawal.completed","data":{"transactionId":"po_01m7yzmhg00w3ge1r70w3ge1r7","amount":1000,"status":"PAID","previousStatus":"PENDING","paidWith":"PIX","providerFee":0,"platformFee":0,"netAmount":1000,"occurredAt":"2026-11-21T12:01:00.000Z"}}
        {"event":"withdrawal.status_changed","data":{"transactionId":"po_01m7yzmhg00w3ge1r70w3ge1r7","amount":1000,"status":"PAID","previousStatus":"PENDING","paidWith":"PIX","providerFee":0,"platformFee":0,"netAmount":1000,"occurredAt":"2026-11-21T12:01:00.000Z"}}
        "#);
    }

    #[test]
    fn each_step_of_a_refund_is_published_once_with_the_amount_refunded_so_far() {
        let paid = after(&order(), &pay());
        let id = RefundId::derive(paid.id, "refund-01");
        let asked = RefundParameters {
            gross: Some(Amount::parse(400).unwrap()),
            strategy: RefundStrategy::Cashout,
            pix_out_fee: MinorUnits::ZERO,
            merchant_bears_pix_out: false,
            is_held: false,
        };
        let plan = RefundPlan {
            parameters: asked,
            destination: None,
            third_party: false,
            limit: None,
            reason: None,
            request_hash: String::new(),
        };
        let step = Refund::request(id, &paid, plan, at(90)).unwrap();
        let started = step.refund.started(&step.charge, at(91)).unwrap().unwrap();
        let ended = started.ended(&step.charge, RefundOutcome::Refunded, at(93)).unwrap().unwrap().refund;
        let steps = [(None, &step.refund), (Some(&step.refund), &started), (Some(&started), &ended)];
        let events: Vec<Event> =
            steps.into_iter().filter_map(|(old, new)| Event::of_refund(old, new).unwrap()).collect();
        insta::assert_snapshot!(bodies(&events), @r#"
        {"event":"payment.refunded","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"PAID","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"refund":{"id":"re_7m6nt71kcbhzd8xb6nhy78wpds3rj8h8h0388z4vc2","amount":400,"status":"PENDING"},"refundedAmount":0,"occurredAt":"2026-11-21T12:01:30.000Z"}}
        {"event":"payment.refunded","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"PAID","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"refund":{"id":"re_7m6nt71kcbhzd8xb6nhy78wpds3rj8h8h0388z4vc2","amount":400,"status":"IN_PROGRESS"},"refundedAmount":0,"occurredAt":"2026-11-21T12:01:31.000Z"}}
        {"event":"payment.refunded","data":{"transactionId":"f4357470-cd8b-8fda-8eac-d58f8e8e59b9","amount":1000,"status":"PAID","previousStatus":"PAID","paidWith":"PIX","providerFee":10,"platformFee":10,"netAmount":980,"customerId":"user-7","metadata":{"order":"1"},"refund":{"id":"re_7m6nt71kcbhzd8xb6nhy78wpds3rj8h8h0388z4vc2","amount":400,"status":"REFUNDED"},"refundedAmount":400,"occurredAt":"2026-11-21T12:01:33.000Z"}}
        "#);
        assert_eq!(events.iter().filter(|event| event.webhook_url.is_some()).count(), 3);
        assert_eq!(Event::of_refund(Some(&ended), &ended).unwrap(), None);
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
            assert!(!first.is_empty());
            assert_eq!(
                Event::for_status_change(new, &new.latest_status_change(), &public_urls()).unwrap(),
                first,
                "{:?}",
                new.status
            );
        }
    }

    #[test]
    fn a_change_that_keeps_the_status_publishes_nothing() {
        let changed = Charge { version: 2, ..waiting() };
        assert_eq!(Event::of_charge(Some(&waiting()), &changed, &public_urls()).unwrap(), []);
    }

    #[test]
    fn each_name_has_its_own_stable_id() {
        let paid = after(&order(), &pay());
        let events = || Event::of_charge(Some(&order()), &paid, &public_urls()).unwrap();
        let ids = |events: &[Event]| -> Vec<EventId> {
            let ids = |event: &Event| -> Vec<EventId> {
                event.types.iter().map(|event_type| event.id_as(*event_type)).collect()
            };
            events.iter().flat_map(ids).collect()
        };
        let first = ids(&events());
        assert_eq!(first, ids(&events()));
        let distinct: std::collections::HashSet<_> = first.iter().collect();
        assert_eq!(distinct.len(), 3);
    }
}
