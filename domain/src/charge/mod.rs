//! Charges: the type and its row. [`transition`] has the state machine; [`Funds`] records what refunds and MED
//! cases have taken. A charge and a payment are the same object, in two wire formats.

mod artefacts;
mod dispute;
mod erasure;
mod failure;
mod funds;
mod incoming_payment;
mod lookup;
pub mod metadata;
mod payer;
mod status;
mod stored;
#[cfg(test)]
pub(crate) mod testing;
pub mod transition;

use std::ops::Range;

pub use artefacts::{Artefacts, Boleto, Card, Crypto, HostedPage, Mbway, Multibanco, Pix};
pub use dispute::{Disputes, MedBlock, MedStatus};
pub use erasure::ErasureRefused;
pub use failure::{Failure, FailureReason};
pub use funds::{Funds, FundsError, RefundParameters, RefundRefused};
pub use incoming_payment::{IncomingPayment, Return, ReturnedPayment, UnappliedReason};
pub use lookup::{Lookup, LookupValue, Lookups, MAX_ORDER_CHARS};
pub use metadata::Metadata;
pub use payer::{PayerAddress, PayerDataError, is_e164, mbway_phone};
use serde::{Deserialize, Serialize, Serializer};
pub use status::{PublicStatus, TransactionStatus};
pub use stored::StoredCharge;

use crate::account::Role;
use crate::acquirer::AcquirerName;
use crate::actor::{Actor, ActorId};
use crate::calendar::Day;
use crate::ids::{AcquirerPaymentId, ChargeId, ConnectionId, PaymentLinkId, PostingId, Scope, Scoped};
use crate::masking::{masked_name, without_documents};
use crate::med::CaseUpdate;
use crate::money::{Amount, Currency, MinorUnits};
use crate::payment_method::PaymentMethod;
use crate::request_id::StoredRequestId;
use crate::row::{Indexes, Key, Replaceable, Row, sortable};
use crate::shard::{Shard, ShardCount};
use crate::tax_id::{Document, TaxId};
use crate::time::Timestamp;
use crate::wallet::{Posting, Settlement};

/// The customer who should pay, with the data that the merchant sent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Customer {
    /// Name, 1 to 200 characters.
    pub name: Option<String>,
    /// Document: a CPF or CNPJ; on the payments surface also a NIF or another tax id.
    pub document: Option<Document>,
    /// Email address, at most 254 characters.
    pub email: Option<String>,
    /// Phone number, at most 32 characters.
    pub phone: Option<String>,
}

/// The payment that a charge accepted: credited, held for review, or returned to the payer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AppliedPayment {
    /// Id of the payment. For a Pix it is the end-to-end id.
    pub payment_id: AcquirerPaymentId,
    pub method: PaymentMethod,
    /// When the bank received it (`horario` in API Pix), not when the acquirer's notification arrived.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// The payer's document, if the bank reported it. Merchants cannot see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_document: Option<TaxId>,
}

/// Fields that only the payments surface accepts.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PaymentDetails {
    /// The merchant's id of its user, echoed in webhooks; at most 200 characters.
    pub customer_id: Option<String>,
    /// URL that receives the charge's legacy events, in place of the endpoints subscribed to them.
    pub webhook_url: Option<String>,
}

/// A status change of a charge. The status that it led to is the next change's `from`, or the current status.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StatusChange {
    /// Status before the change; `PENDING` for a new charge.
    pub from: TransactionStatus,
    /// Version of the row that the change wrote.
    pub version: u64,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// State of a charge before its last change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PreviousState {
    /// Status at that time.
    pub status: TransactionStatus,
    /// The change that led to that status. `None`: the charge was created with that status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<StatusChange>,
    /// Status changes before `entry`, oldest first, without the creation. Most charges have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<StatusChange>,
}

/// A leg of a live charge, one of its methods at its acquirer, that ended while another could be paid.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EndedLeg {
    pub method: PaymentMethod,
    pub why: FailureReason,
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// Without loops, no path through the states is longer. Disputes and tries to pay can repeat without limit, and the row
/// must stay small. The list of events filtered by `object` omits the events of dropped changes.
const MAX_EARLIER: usize = 16;

/// The first changes that led back to the status before them. They moved no money, because a payment is held, credited
/// or returned once. So the postings of the others are still found.
fn oldest_loop(changes: &[(StatusChange, TransactionStatus)]) -> Option<Range<usize>> {
    changes.iter().enumerate().find_map(|(first, (change, _))| {
        let length = changes.iter().skip(first).position(|(_, led_to)| *led_to == change.from)?;
        Some(first..first.saturating_add(length).saturating_add(1))
    })
}

/// The row must stay small. Each payment also has its own row.
const MAX_RETURNED: usize = 10;

/// What an acquirer charged in one currency for disputes, or else beyond the fees of the settlement, with what exchange
/// cost. The platform bears it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AcquirerCosts {
    /// The currency of the acquirer's balance.
    pub currency: Currency,
    /// Whether it is for disputes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_disputes: bool,
    /// The sum of all postings in minor units. Negative: the acquirer charged less.
    pub minor: MinorUnits,
    /// How many movements of the acquirer's balance were known. A report of fewer is older.
    pub movements: u32,
    /// The changes that posted it, oldest first. At most the latest 16 are stored.
    pub posted: Vec<CaseUpdate>,
}

/// Decision that ends a manual review.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The payer is the expected one: credit the money.
    Approve,
    /// Return the money to the payer.
    Return,
}

/// A charge as stored in its row.
// With `remote`, serde derives plain functions and no traits. So `Charge` has no `Deserialize`: rows are
// deserialised only as [`StoredCharge`]. `Serialize` is implemented below.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Charge {
    /// Id, derived from the idempotency key. So a repeated request finds the same row.
    pub id: ChargeId,
    pub scope: Scope,
    /// The account's number of shards when the charge was created.
    #[serde(default, skip_serializing_if = "ShardCount::is_one")]
    pub shards: ShardCount,
    pub status: TransactionStatus,
    /// Version of the row: 1 at creation, plus 1 for each change. Event ids are derived from it.
    pub version: u64,
    /// Requested amount in minor units of `currency`.
    pub amount: Amount,
    /// Currency of the amount: an ISO 4217 code or a token.
    pub currency: Currency,
    /// Requested payment methods, in the order of the request; at least one.
    pub methods: Vec<PaymentMethod>,
    pub customer: Customer,
    /// Payer lock: only a payment by the owner of this document is credited.
    pub expected_payer: Option<TaxId>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    #[serde(default, skip_serializing_if = "domain::row::is_default")]
    pub acquirer: AcquirerName,
    /// The connection at which the charge was created. `None`: the acquirer has none.
    pub connection: Option<ConnectionId>,
    /// The methods that belong to other connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<(PaymentMethod, ConnectionId)>,
    /// Until when a caller creates the charge at its bank, so that no other caller does. `None`: none does now.
    #[serde(default, with = "domain::time::millis_option")]
    pub lease_until: Option<Timestamp>,
    /// Since when a leg's acquirer has not created it, or not said what became of it. `None`: all have.
    #[serde(default, with = "domain::time::millis_option")]
    pub unread_since: Option<Timestamp>,
    /// Data that the payer needs to pay, by method.
    pub artefacts: Artefacts,
    /// The legs that ended before the charge.
    #[serde(default, rename = "ended", skip_serializing_if = "Vec::is_empty")]
    pub ended_legs: Vec<EndedLeg>,
    /// Requested lifetime of the Pix code in seconds, until the acquirer has created it. `None`: the account's
    /// default. A charge with a place of a payment link ends after it by every method.
    pub pix_expires_in_seconds: Option<i64>,
    /// Fields that only the payments surface accepts. `None`: the charges surface created the charge.
    #[serde(default, rename = "transaction")]
    pub payment_details: Option<PaymentDetails>,
    /// Hash of the normalised request, which distinguishes a replay from another request with the same
    /// idempotency key.
    pub request_hash: String,
    /// The request that created the charge.
    #[serde(rename = "rid")]
    pub request_id: StoredRequestId,
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    #[serde(default, rename = "receipt")]
    pub applied_payment: Option<AppliedPayment>,
    pub settlement: Option<Settlement>,
    /// Sums that refunds and MED cases have taken.
    #[serde(default, skip_serializing_if = "Funds::is_whole")]
    pub funds: Funds,
    /// What the platform bears.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<AcquirerCosts>,
    /// The payments that were not credited and go back to their payers, oldest first: the newest ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<ReturnedPayment>,
    /// The payments that came for the charge, that it does not take and no acquirer returns, oldest first: the newest
    /// ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unapplied: Vec<AcquirerPaymentId>,
    /// Why the charge ended unpaid.
    pub failure: Option<Failure>,
    /// The method of a payment that an acquirer has accepted and not confirmed, while the charge is open.
    pub unconfirmed: Option<PaymentMethod>,
    /// Why the payer's last try was declined, after which the payer could try again. It is the failure of an expiry.
    pub last_decline: Option<FailureReason>,
    /// Decision of the manual review. `None`: there was none.
    pub reviewed: Option<Decision>,
    /// Summary of the charge's MED cases. `None`: it never had one.
    pub disputes: Option<Disputes>,
    /// State before the last change. `None`: the charge is new.
    pub past: Option<PreviousState>,
    /// The API key that last changed the row, with the version that it wrote; the source of audit rows.
    pub actor: Option<Actor>,
    /// Who created the charge. The row must stay small, so only its first versions have it. Then the row of the event
    /// has it.
    #[serde(rename = "by")]
    pub created_by: Option<ActorId>,
    /// The payment link for which the payer made it.
    pub link: Option<PaymentLinkId>,
}

impl Serialize for Charge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Seconds after creation at which `scheduler` processes a pending charge, whose queue message is then assumed
/// lost.
const FIRST_DUE_SECONDS: i64 = 120;

/// The scheduler reports a payment that is held for review after a day.
const REVIEW_SECONDS: i64 = 24 * 60 * 60;

const CHARGE_SORT: &str = "charge";

impl Charge {
    pub fn key_of(id: ChargeId) -> Key {
        Key { pk: format!("charge#{}", id.raw()), sk: CHARGE_SORT.to_owned() }
    }

    pub fn is_at(key: &Key) -> bool {
        // The sort key alone is not enough: an incoming payment's sort key is an id from a bank, which could
        // be `charge`.
        key.sk == CHARGE_SORT && key.pk.starts_with("charge#")
    }

    /// The payer's document as the merchant named it: the payer lock, else the customer's document. The list
    /// filter `customer_id` (not [`PaymentDetails::customer_id`]) and the velocity guard use it.
    pub fn payer(&self) -> Option<&str> {
        let expected = self.expected_payer.as_ref().map(TaxId::as_str);
        expected.or_else(|| self.customer.document.as_ref().map(Document::as_str))
    }

    /// Returns [`Self::payer`] as a CPF or CNPJ. `None`: the document is neither, or missing.
    pub fn payer_tax_id(&self) -> Option<TaxId> {
        let of_customer = || self.customer.document.as_ref().and_then(Document::tax_id);
        self.expected_payer.or_else(of_customer)
    }

    /// `metadata.returnUrl`, to which a card payer returns. `None` for charges that cannot be paid by card.
    pub fn return_url(&self) -> Option<String> {
        if !self.methods.contains(&PaymentMethod::CreditCard) {
            return None;
        }
        self.metadata.text("returnUrl")
    }

    /// The change that led to the current status. The ids of its events are derived from it.
    pub fn latest_status_change(&self) -> StatusChange {
        let created = StatusChange { from: TransactionStatus::Pending, version: 1, at: self.created_at };
        match &self.past {
            Some(past) if past.status == self.status => past.entry.unwrap_or(created),
            Some(past) => StatusChange { from: past.status, version: self.version, at: self.updated_at },
            None => created,
        }
    }

    /// Every status change, the creation first, each with the status that it led to.
    pub fn status_changes(&self) -> Vec<(StatusChange, TransactionStatus)> {
        let created = StatusChange { from: TransactionStatus::Pending, version: 1, at: self.created_at };
        let past = self.past.iter().flat_map(|past| past.earlier.iter().copied().chain(past.entry));
        let mut entries: Vec<StatusChange> =
            std::iter::once(created).chain(past).chain([self.latest_status_change()]).collect();
        entries.dedup();
        let led_to = entries.iter().skip(1).map(|entry| entry.from).chain([self.status]);
        entries.iter().copied().zip(led_to).collect()
    }

    pub(crate) fn posting_of(&self, at: Timestamp, version: u64) -> PostingId {
        PostingId::derive(at, &self.key().pk, version)
    }

    /// The keys of the postings that the charge's own changes may have made. [`Posting::earlier_key`] leads to further
    /// ones. Those of its refunds, MED cases and returned payments are derived from their rows.
    pub fn posting_keys(&self) -> Vec<Key> {
        let is_own = self.method().is_self_custody();
        let keys = |(entry, to): (StatusChange, TransactionStatus)| {
            let is_credit = match to {
                TransactionStatus::Paid | TransactionStatus::Approved => true,
                // A payment is held for review, or goes back after that.
                TransactionStatus::Processing
                | TransactionStatus::Cancelled
                | TransactionStatus::Refunded => false,
                TransactionStatus::Pending
                | TransactionStatus::WaitingPayment
                | TransactionStatus::Refused
                | TransactionStatus::Expired
                | TransactionStatus::Chargeback
                | TransactionStatus::Dispute => return Vec::new(),
            };
            let id = self.posting_of(entry.at, entry.version);
            // What came to the merchant's own wallet is in the statement if it had a fee.
            let places = if is_own { &[true, false][..] } else { std::slice::from_ref(&is_credit) };
            let key = |place: &bool| Posting::key_of((&self.scope, self.shard()), self.currency, id, *place);
            places.iter().map(key).collect()
        };
        let costs = self.costs.iter().flat_map(|costs| {
            costs.posted.iter().map(|posted| {
                let id = self.posting_of(posted.at, posted.version);
                Posting::key_of((&self.scope, self.shard()), costs.currency, id, false)
            })
        });
        self.status_changes().into_iter().flat_map(keys).chain(costs).collect()
    }

    /// Returns what the platform has borne in a currency, and how many movements were known then.
    pub(crate) fn costs_of(&self, (currency, of_disputes): (Currency, bool)) -> (MinorUnits, u32) {
        let is_it = |costs: &&AcquirerCosts| costs.currency == currency && costs.of_disputes == of_disputes;
        let costs = self.costs.iter().find(is_it);
        costs.map_or((MinorUnits::ZERO, 0), |costs| (costs.minor, costs.movements))
    }

    /// Returns the state that the next version stores as `past`.
    pub(crate) fn as_past(&self) -> PreviousState {
        let mut changes = self.status_changes();
        // The creation is not stored, because it can be derived from the row.
        changes.retain(|(entry, _)| entry.version > 1);
        let entry = changes.pop().map(|(entry, _)| entry);
        while changes.len() > MAX_EARLIER {
            let oldest = oldest_loop(&changes).unwrap_or(0..1);
            changes.drain(oldest);
        }
        let earlier = changes.into_iter().map(|(entry, _)| entry).collect();
        PreviousState { status: self.status, entry, earlier }
    }

    fn with_returned(mut self, incoming: &IncomingPayment) -> Self {
        self.returned.extend(ReturnedPayment::of(incoming));
        let excess = self.returned.len().saturating_sub(MAX_RETURNED);
        self.returned.drain(..excess);
        self
    }

    pub(crate) fn with_unapplied(mut self, payment: &AcquirerPaymentId) -> Self {
        self.unapplied.push(payment.clone());
        let excess = self.unapplied.len().saturating_sub(MAX_RETURNED);
        self.unapplied.drain(..excess);
        self
    }

    /// The next version, after the return of a payment made progress. `None`: nothing that concerns the charge
    /// changed.
    pub fn with_return_progress(&self, incoming: &IncomingPayment, now: Timestamp) -> Option<Self> {
        let changed = ReturnedPayment::of(incoming)?;
        let mut next = transition::next_version(self.clone(), now);
        let known = next.returned.iter_mut().find(|known| known.payment_id == changed.payment_id)?;
        if *known == changed {
            return None;
        }
        *known = changed;
        Some(next)
    }

    /// Returns the method that the charge was paid with. `None`: the charge has accepted no payment.
    pub fn paid_with(&self) -> Option<PaymentMethod> {
        self.applied_payment.as_ref().map(|applied| applied.method)
    }

    /// Checks whether the change from `old` settled the charge.
    pub fn is_settled_since(&self, old: Option<&Self>) -> bool {
        self.settlement.is_some() && old.is_none_or(|old| old.settlement.is_none())
    }

    /// The customer's name, without documents: whole, or masked for a role that sees no names.
    pub fn customer_name(&self, role: Role) -> Option<String> {
        let name = self.customer.name.as_deref()?;
        if role.sees_names() {
            Some(without_documents(name)).filter(|name| !name.trim().is_empty())
        } else {
            masked_name(name)
        }
    }

    /// Returns the method that the charge was paid with, else the first requested method.
    pub fn method(&self) -> PaymentMethod {
        self.paid_with().or_else(|| self.methods.first().copied()).unwrap_or(PaymentMethod::Pix)
    }

    pub fn connection_of(&self, method: PaymentMethod) -> Option<ConnectionId> {
        let elsewhere = self.elsewhere.iter().find(|(other, _)| *other == method);
        elsewhere.map(|(_, connection)| *connection).or(self.connection)
    }

    pub fn acquirer_of(&self, method: PaymentMethod) -> AcquirerName {
        match (self.acquirer.is_remote(), method) {
            (false, _) => self.acquirer,
            (true, PaymentMethod::Pix) => AcquirerName::Pix,
            (true, _) => AcquirerName::Hosted,
        }
    }

    /// Whether the charge was created at this connection.
    pub fn uses(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection) || self.elsewhere.iter().any(|(_, other)| *other == connection)
    }

    /// Whether acquirers create, read and close it method by method.
    pub fn has_several_legs(&self) -> bool {
        self.acquirer.is_remote() && self.methods.len() > 1
    }

    pub fn ended_leg(&self, method: PaymentMethod) -> Option<&EndedLeg> {
        self.ended_legs.iter().find(|ended| ended.method == method)
    }

    /// The legs that no acquirer has created or refused yet.
    pub fn missing_legs(&self) -> impl Iterator<Item = PaymentMethod> {
        let is_missing = |method: &PaymentMethod| {
            self.artefacts.expires_at(*method).is_none() && self.ended_leg(*method).is_none()
        };
        self.methods.iter().copied().filter(is_missing)
    }

    /// Whether the acquirers must be asked for legs that they have not created yet.
    pub fn lacks_legs(&self) -> bool {
        self.acquirer.is_remote() && self.is_open() && self.missing_legs().next().is_some()
    }

    /// Whether the charge was paid by one of several legs, so that the others must be closed.
    pub fn is_paid_by_one_of_several(&self) -> bool {
        self.has_several_legs() && !self.is_open() && self.applied_payment.is_some()
    }

    /// Whether the charge ended here, and must be closed where it may still be open.
    pub fn may_be_open_there(&self) -> bool {
        let is_left = self.applied_payment.is_none() && self.unread_since.is_some();
        self.is_paid_by_one_of_several() || (is_left && !self.is_open())
    }

    /// Each method that can be paid, or could until the charge ended, with its expiry.
    fn expiries(&self) -> impl Iterator<Item = (PaymentMethod, Timestamp)> {
        let has_not_ended = |method: &&PaymentMethod| self.ended_leg(**method).is_none();
        let ends = |method: &PaymentMethod| self.artefacts.expires_at(*method).map(|end| (*method, end));
        self.methods.iter().filter(has_not_ended).filter_map(ends)
    }

    /// Returns until when an acquirer may confirm a payment that was made in time. Then the charge is closed and expires.
    pub fn ends_at(&self) -> Timestamp {
        let ends = self.expiries().filter_map(|(method, _)| self.artefacts.ends_at(method));
        ends.max().unwrap_or(self.created_at)
    }

    /// The lifetime of what a new charge is paid with, in seconds: at most the requested one.
    pub fn lifetime_seconds(&self, longest: i64) -> i64 {
        self.pix_expires_in_seconds.map_or(longest, |requested| requested.min(longest))
    }

    /// Returns the latest expiry of the charge's methods; the creation time when no method has one.
    pub fn expires_at(&self) -> Timestamp {
        self.expiries().map(|(_, end)| end).max().unwrap_or(self.created_at)
    }

    /// The release day of the net amount. `None`: not settled, or available at once.
    pub fn release_on(&self) -> Option<Day> {
        self.settlement.and_then(|settlement| settlement.release_on)
    }

    /// Checks whether the net amount is still held: the day of its release has not begun.
    pub fn is_net_held(&self, now: Timestamp) -> bool {
        self.release_on().is_some_and(|day| now < day.starts_at())
    }

    pub fn is_held_for_review(&self) -> bool {
        self.status == TransactionStatus::Processing && self.applied_payment.is_some()
    }

    /// Whether the charge can be paid, now or after its acquirer finalises it, also while a card holder
    /// authenticates.
    pub fn is_open(&self) -> bool {
        match self.status {
            TransactionStatus::Pending | TransactionStatus::WaitingPayment => true,
            TransactionStatus::Processing => self.applied_payment.is_none(),
            TransactionStatus::Paid
            | TransactionStatus::Approved
            | TransactionStatus::Refused
            | TransactionStatus::Cancelled
            | TransactionStatus::Expired
            | TransactionStatus::Refunded
            | TransactionStatus::Chargeback
            | TransactionStatus::Dispute => false,
        }
    }

    /// Whether it is recorded that a payment by this method was accepted and is not confirmed.
    pub(crate) fn awaits(&self, method: PaymentMethod) -> bool {
        let has_status = method.is_voucher() || self.status == TransactionStatus::Processing;
        self.unconfirmed == Some(method) && has_status
    }

    /// Checks whether the charge can expire: it is open, and its acquirer has finalised it.
    pub fn can_expire(&self) -> bool {
        self.is_open() && self.status != TransactionStatus::Pending
    }

    /// Returns the methods by which the charge can be paid at `now`, each with its expiry.
    pub fn payable_methods(&self, now: Timestamp) -> impl Iterator<Item = (PaymentMethod, Timestamp)> {
        let is_payable = self.can_expire();
        self.expiries().filter(move |(_, end)| is_payable && now <= *end)
    }

    /// Checks whether the charge can be paid by card at `now`.
    pub fn is_payable_by_card(&self, now: Timestamp) -> bool {
        self.payable_methods(now).any(|(method, _)| method == PaymentMethod::CreditCard)
    }

    /// Checks whether a caller holds the lease of a pending charge at `now`.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Returns the next version of a pending charge with a lease until `until`, or without a lease.
    #[must_use]
    pub fn with_lease(&self, until: Option<Timestamp>, now: Timestamp) -> Self {
        Self { lease_until: until, ..transition::next_version(self.clone(), now) }
    }

    /// Returns the next version of a charge, all of whose legs' acquirers answered, or not. `None`: that is known.
    #[must_use]
    pub fn with_all_read(&self, all: bool, now: Timestamp) -> Option<Self> {
        let unread_since = (!all).then_some(now);
        (unread_since.is_some() != self.unread_since.is_some())
            .then(|| Self { unread_since, ..transition::next_version(self.clone(), now) })
    }

    /// A charge past its expiry is returned as expired, even if the scheduler has not persisted the expiry yet,
    /// unless the acquirer must first confirm that it was not paid.
    fn read_at(self, now: Timestamp) -> Self {
        let at = self.expires_at();
        let overdue = self.can_expire() && now > at;
        if overdue && !self.acquirer.is_remote() {
            return transition::expired(self, at);
        }
        self
    }

    /// Returns the shard of the charge and of its events, postings and index entries.
    pub fn shard(&self) -> Shard {
        self.shards.shard_of(self.id)
    }

    /// Returns the partition of a shard of a scope's charges in the `list` index.
    pub fn list_partition(scope: &Scope, shard: Shard) -> String {
        shard.partition(format!("charges#{scope}"))
    }

    /// Returns the partition of a shard of a scope's charges with one status in the `list_by_status` index.
    pub fn status_partition(scope: &Scope, status: TransactionStatus, shard: Shard) -> String {
        shard.partition(format!("charges#{scope}#{}", status.as_str()))
    }

    /// Returns the partition of a scope's charges for one payer document in the `list_by_customer` index.
    pub fn customer_partition(scope: &Scope, document: &str) -> String {
        format!("charges#{scope}#{document}")
    }

    /// Returns the sort key in lists: creation time, then id.
    pub fn list_sort(&self) -> String {
        format!("{}#{}", sortable(self.created_at), self.id.raw())
    }
}

impl Scoped for Charge {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Replaceable for Charge {
    type Stored = StoredCharge;
}

impl Row for Charge {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        let (document, shard) = (self.payer(), self.shard());
        Indexes {
            list: Some((Self::list_partition(&self.scope, shard), self.list_sort())),
            status: Some(Self::status_partition(&self.scope, self.status, shard)),
            customer: document.map(|document| Self::customer_partition(&self.scope, document)),
            log: None,
            due: match self.status {
                _ if self.unread_since.is_some() => {
                    self.unread_since.and_then(|since| since.plus_seconds(FIRST_DUE_SECONDS).ok())
                }
                // The scheduler reports reviews that take too long.
                TransactionStatus::Processing if self.is_held_for_review() => {
                    self.updated_at.plus_seconds(REVIEW_SECONDS).ok()
                }
                // If the queue message that should finalise the charge was lost, the scheduler takes over.
                TransactionStatus::Pending => self.created_at.plus_seconds(FIRST_DUE_SECONDS).ok(),
                TransactionStatus::WaitingPayment
                | TransactionStatus::Processing
                | TransactionStatus::Paid
                | TransactionStatus::Approved
                | TransactionStatus::Refused
                | TransactionStatus::Cancelled
                | TransactionStatus::Expired
                | TransactionStatus::Refunded
                | TransactionStatus::Chargeback
                | TransactionStatus::Dispute => self.can_expire().then(|| self.ends_at()),
            },
        }
    }
}
