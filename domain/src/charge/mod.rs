//! A charge: money asked of a payer. The type and its row; its moves are in [`transition`], what refunds and MED cases took
//! of its money in [`Funds`].
//!
//! Charges and payments are the same object; the surfaces differ in their wire format alone.

mod artefacts;
mod dispute;
mod funds;
mod incoming_payment;
pub mod metadata;
mod status;
mod stored;
#[cfg(test)]
pub(crate) mod testing;
pub mod transition;

pub use artefacts::{Artefacts, Boleto, Card, Crypto, Mbway, Multibanco, Pix};
pub use dispute::{Disputes, MedBlock, MedStatus};
pub use funds::{Funds, FundsError, RefundAsked, RefundRefused};
pub use incoming_payment::{IncomingPayment, Return, UnappliedReason};
pub use metadata::Metadata;
use serde::{Deserialize, Serialize, Serializer};
pub use status::{PublicStatus, TransactionStatus};
pub use stored::StoredCharge;

use crate::acquirer::AcquirerName;
use crate::audit::Actor;
use crate::calendar::Day;
use crate::ids::{AcquirerPaymentId, ChargeId, Scope, Scoped};
use crate::money::{Amount, Currency};
use crate::payment_method::PaymentMethod;
use crate::row::{Indexes, Key, Row, sortable};
use crate::tax_id::{Document, TaxId};
use crate::time::Timestamp;
use crate::wallet::Settlement;

/// Who is asked to pay, as the merchant knows them.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Customer {
    /// 1-200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A CPF or CNPJ; on the payments surface also a NIF or another tax id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Document>,
    /// At most 254 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// At most 32 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
}

/// The payment that a charge took: the money is credited, or held for review.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct AppliedPayment {
    /// The payment's own id: of a Pix, its end-to-end id.
    pub payment_id: AcquirerPaymentId,
    /// By which method.
    pub method: PaymentMethod,
    /// When the bank took it (`horario`), not when its notice arrived.
    #[serde(with = "domain::time::millis")]
    pub paid_at: Timestamp,
    /// The payer's document where the bank reported it; never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_document: Option<TaxId>,
}

/// What a payment carries beyond what charges have.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PaymentDetails {
    /// The merchant's own id of its user, echoed in webhooks; at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<String>,
    /// Where this transaction's legacy events go, instead of the endpoints subscribed to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
}

/// Why a charge failed, expired or was cancelled; `metadata.failure` on the wire.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The provider's text.
    pub reason: String,
    /// The provider's status, such as `expired`.
    pub provider_error_code: String,
    /// The QR's lifetime in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// How a charge came into its status.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// The status before; of a new charge `PENDING`.
    pub from: TransactionStatus,
    /// The version that the move made.
    pub version: u64,
    /// When.
    #[serde(with = "domain::time::millis")]
    pub at: Timestamp,
}

/// What a charge was before its last change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PreviousState {
    /// Its status.
    pub status: TransactionStatus,
    /// How it had come into it; `None`: it was created so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
    /// The moves before that one, oldest first, without its creation: most charges have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Entry>,
}

/// Moves that a charge's row remembers, but for its creation and the last. The contract's table has no way through it that
/// is longer without disputes; the row stays small however many of those there are.
const MAX_EARLIER: usize = 16;

/// The end of a manual review.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The payer is who was expected: credit the money.
    Approve,
    /// Give the money back.
    Return,
}

/// A charge as its row keeps it.
// `remote` derives functions instead of traits: a `Charge` is serialised below, and only a [`StoredCharge`] is deserialised.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(remote = "Self")]
pub struct Charge {
    /// Derived from the idempotency key, so that a repeated request finds the same row.
    pub id: ChargeId,
    /// Whose it is.
    pub scope: Scope,
    /// Its place in the state machine.
    pub status: TransactionStatus,
    /// Counts the row's changes, from 1; events are named by it.
    pub version: u64,
    /// Asked, in minor units of `currency`.
    pub amount: Amount,
    /// ISO 4217.
    pub currency: Currency,
    /// How it can be paid, as it was asked for; at least one.
    pub methods: Vec<PaymentMethod>,
    /// Who is asked to pay.
    #[serde(default)]
    pub customer: Customer,
    /// The payer lock: only a payment from this document is credited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_payer: Option<TaxId>,
    /// The merchant's own map.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// Which acquirer takes its money.
    #[serde(default, skip_serializing_if = "AcquirerName::is_default")]
    pub acquirer: AcquirerName,
    /// What the payer is given.
    pub artefacts: Artefacts,
    /// How long its Pix code is to live, in seconds, while the acquirer has not made the code; `None`: the account's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pix_expires_in_seconds: Option<i64>,
    /// What was sent on the payments surface alone.
    #[serde(default, rename = "transaction", skip_serializing_if = "Option::is_none")]
    pub payment_details: Option<PaymentDetails>,
    /// Hash of the normalised request: equal for a replay, different when the key is reused for another body.
    pub request_hash: String,
    /// When it was created.
    #[serde(with = "domain::time::millis")]
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(with = "domain::time::millis")]
    pub updated_at: Timestamp,
    /// The payment it took.
    #[serde(default, rename = "receipt", skip_serializing_if = "Option::is_none")]
    pub applied_payment: Option<AppliedPayment>,
    /// How the money was credited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Settlement>,
    /// What refunds and MED cases took of it.
    #[serde(default, skip_serializing_if = "Funds::is_whole")]
    pub funds: Funds,
    /// Why it ended unpaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How its review ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed: Option<Decision>,
    /// Its MED cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disputes: Option<Disputes>,
    /// What it was before its last change; `None`: it is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<PreviousState>,
    /// The API key that made one of its versions, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

impl Serialize for Charge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// When `scheduler` first looks at a charge that its acquirer has not finalised, in seconds: by then its queue message was lost.
const FIRST_LOOK_SECONDS: i64 = 120;

/// The sort key of every charge row; what else belongs to a charge shares its partition.
const CHARGE_SORT: &str = "charge";

impl Charge {
    /// Where a charge lives.
    pub fn key_of(id: ChargeId) -> Key {
        Key { pk: format!("charge#{}", id.raw()), sk: CHARGE_SORT.to_owned() }
    }

    /// Whether a row of the state table is a charge.
    pub fn is_at(key: &Key) -> bool {
        // A payment's row is named by a bank, and its sort key may be any word.
        key.sk == CHARGE_SORT && key.pk.starts_with("charge#")
    }

    /// The payer that the merchant named: who must pay, else who is asked to. Lists filter by it.
    pub fn payer(&self) -> Option<&str> {
        let expected = self.expected_payer.as_ref().map(TaxId::as_str);
        expected.or_else(|| self.customer.document.as_ref().map(Document::as_str))
    }

    /// That payer's CPF or CNPJ, where it is one.
    pub fn payer_tax_id(&self) -> Option<TaxId> {
        let asked = || self.customer.document.as_ref().and_then(Document::tax_id);
        self.expected_payer.or_else(asked)
    }

    /// Where a payer by card comes back to: `metadata.returnUrl`, as it was checked.
    pub fn return_url(&self) -> Option<String> {
        if !self.methods.contains(&PaymentMethod::CreditCard) {
            return None;
        }
        self.metadata.text("returnUrl")
    }

    /// How it came into its status: what the events of that move are named by, though other changes came after.
    pub fn entry(&self) -> Entry {
        let created = Entry { from: TransactionStatus::Pending, version: 1, at: self.created_at };
        match &self.past {
            Some(past) if past.status == self.status => past.entry.unwrap_or(created),
            Some(past) => Entry { from: past.status, version: self.version, at: self.updated_at },
            None => created,
        }
    }

    /// Every move of it, oldest first, each with the status that it led to.
    pub fn moves(&self) -> Vec<(Entry, TransactionStatus)> {
        let created = Entry { from: TransactionStatus::Pending, version: 1, at: self.created_at };
        let past = self.past.iter().flat_map(|past| past.earlier.iter().copied().chain(past.entry));
        let mut entries: Vec<Entry> = std::iter::once(created).chain(past).chain([self.entry()]).collect();
        entries.dedup();
        let led_to = entries.iter().skip(1).map(|entry| entry.from).chain([self.status]);
        entries.iter().copied().zip(led_to).collect()
    }

    /// What the next version keeps of this one.
    pub fn as_past(&self) -> PreviousState {
        // What follows from the row anyway takes no room in it.
        let mut earlier: Vec<Entry> =
            self.moves().into_iter().map(|(entry, _)| entry).filter(|entry| entry.version > 1).collect();
        let entry = earlier.pop();
        let forgotten = earlier.len().saturating_sub(MAX_EARLIER);
        PreviousState { status: self.status, entry, earlier: earlier.split_off(forgotten) }
    }

    /// What it was paid with; `None` before it was.
    pub fn paid_with(&self) -> Option<PaymentMethod> {
        self.applied_payment.as_ref().map(|applied| applied.method)
    }

    /// What it was paid with, else what it was asked for first.
    pub fn method(&self) -> PaymentMethod {
        self.paid_with().or_else(|| self.methods.first().copied()).unwrap_or(PaymentMethod::Pix)
    }

    /// When it can't be paid any more by any method.
    pub fn expires_at(&self) -> Timestamp {
        let ends = self.methods.iter().filter_map(|method| self.artefacts.expires_at(*method));
        ends.max().unwrap_or(self.created_at)
    }

    /// The day on which its net can be spent; `None`: it is not settled, or could be at once.
    pub fn release_on(&self) -> Option<Day> {
        self.settlement.and_then(|settlement| settlement.release_on)
    }

    /// Whether its money is held for review.
    pub fn is_held_for_review(&self) -> bool {
        self.status == TransactionStatus::Processing && self.applied_payment.is_some()
    }

    /// It can be paid: nothing came yet. A card whose holder is being asked counts, and so does what else can be paid
    /// meanwhile.
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

    /// Time ends it: it is open, and its acquirer made what it can be paid by.
    pub fn can_expire(&self) -> bool {
        self.is_open() && self.status != TransactionStatus::Pending
    }

    /// A card can still be charged for it at `now`.
    pub fn is_payable_by_card(&self, now: Timestamp) -> bool {
        let in_time = self.artefacts.card.as_ref().is_some_and(|card| now <= card.expires_at);
        in_time && self.can_expire()
    }

    /// The charge as it is at `now`: one past its time is expired, whether or not the scheduler wrote so yet. Where the
    /// acquirer must be asked first, it expires only after that.
    fn seen_at(self, now: Timestamp) -> Self {
        let at = self.expires_at();
        let overdue = self.can_expire() && now > at;
        if overdue && self.acquirer.traits().expires_by_time {
            return transition::expired(self, at);
        }
        self
    }

    /// The partition of a scope's charges in the list index.
    pub fn list_partition(scope: &Scope) -> String {
        format!("charges#{scope}")
    }

    /// The partition of a scope's charges in one status.
    pub fn status_partition(scope: &Scope, status: TransactionStatus) -> String {
        format!("charges#{scope}#{}", status.as_str())
    }

    /// The partition of a scope's charges to one customer.
    pub fn customer_partition(scope: &Scope, document: &str) -> String {
        format!("charges#{scope}#{document}")
    }

    /// The charge's place in lists: by creation, then by id.
    pub fn list_sort(&self) -> String {
        format!("{}#{}", sortable(self.created_at), self.id.raw())
    }
}

impl Scoped for Charge {
    fn scope(&self) -> Scope {
        self.scope
    }
}

impl Row for Charge {
    fn key(&self) -> Key {
        Self::key_of(self.id)
    }

    fn indexes(&self) -> Indexes {
        let document = self.payer();
        Indexes {
            list: Some((Self::list_partition(&self.scope), self.list_sort())),
            status: Some(Self::status_partition(&self.scope, self.status)),
            customer: document.map(|document| Self::customer_partition(&self.scope, document)),
            due: match self.status {
                // Whatever makes what it is paid by, `scheduler` looks after it.
                TransactionStatus::Pending => self.created_at.plus_seconds(FIRST_LOOK_SECONDS).ok(),
                TransactionStatus::WaitingPayment
                | TransactionStatus::Processing
                | TransactionStatus::Paid
                | TransactionStatus::Approved
                | TransactionStatus::Refused
                | TransactionStatus::Cancelled
                | TransactionStatus::Expired
                | TransactionStatus::Refunded
                | TransactionStatus::Chargeback
                | TransactionStatus::Dispute => self.can_expire().then(|| self.expires_at()),
            },
        }
    }
}
