//! The objects of answers, as far as the service reads them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::verify::{Event, EventObject};

/// What the service stored with an object.
pub type Metadata = BTreeMap<String, String>;

/// A value that `Debug` does not show, because it may be personal data or grant access.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden<T>(pub T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A reference to an object: its id, or the object itself where the request expanded it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Expandable<T> {
    Id(String),
    Object(Box<T>),
}

impl<T: Resource> Expandable<T> {
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Object(object) => object.id(),
        }
    }

    /// `None`: it was not expanded.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Id(_) => None,
            Self::Object(object) => Some(object),
        }
    }
}

/// A kind of objects that the API lists or returns by their ids.
pub trait Resource: DeserializeOwned {
    const PATH: &'static str;

    /// The references that are replaced by their objects when one object is read.
    const EXPANDED: &'static [&'static str];

    fn id(&self) -> &str;
}

macro_rules! resource {
    ($name:ty, $path:literal $(, $expanded:literal)?) => {
        impl Resource for $name {
            const PATH: &'static str = $path;
            const EXPANDED: &'static [&'static str] = &[$($expanded)?];

            fn id(&self) -> &str {
                &self.id
            }
        }
    };
}

resource!(BalanceTransaction, "/v1/balance_transactions");
resource!(Charge, "/v1/charges", "balance_transaction");
// One request answers whether it is paid, and for which fee.
resource!(CheckoutSession, "/v1/checkout/sessions", "payment_intent.latest_charge.balance_transaction");
resource!(Dispute, "/v1/disputes");
resource!(Event, "/v1/events");
resource!(PaymentIntent, "/v1/payment_intents", "latest_charge.balance_transaction");
resource!(Refund, "/v1/refunds");
resource!(WebhookEndpoint, "/v1/webhook_endpoints");

/// One page of a list, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPage", bound = "T: Resource")]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Entries that are not as documented.
    pub odd: Vec<Value>,
    pub has_more: bool,
    last: Option<String>,
}

#[derive(Deserialize)]
struct RawPage {
    data: Vec<Value>,
    has_more: bool,
}

impl<T: Resource> From<RawPage> for Page<T> {
    fn from(raw: RawPage) -> Self {
        let last = raw.data.last().map(|entry| id_of(entry).to_owned());
        let (mut data, mut odd) = (Vec::new(), Vec::new());
        for entry in raw.data {
            match T::deserialize(&entry) {
                Ok(object) => data.push(object),
                Err(_) => odd.push(entry),
            }
        }
        Self { data, odd, has_more: raw.has_more, last }
    }
}

impl<T> Page<T> {
    /// Returns [`ListQuery::after`](crate::ListQuery::after) of the next page. `None`: this is the last one.
    pub fn next_cursor(&self) -> Option<&str> {
        self.last.as_deref().filter(|_| self.has_more)
    }
}

/// Returns the id of an object of any kind. Empty: it has none.
pub(crate) fn id_of(object: &Value) -> &str {
    object.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// Defines an enum of Stripe's texts in snake case. An unknown text is kept in `Other`.
macro_rules! text_enum {
    ($name:ident: $($variant:ident),*) => {
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($variant,)*
            #[serde(untagged)]
            Other(String),
        }
    };
}

text_enum!(SessionStatus: Open, Complete, Expired);
text_enum!(PaymentStatus: Paid, Unpaid, NoPaymentRequired);
text_enum!(PaymentIntentStatus: RequiresPaymentMethod, RequiresConfirmation, RequiresAction, Processing,
    RequiresCapture, Succeeded, Canceled);
text_enum!(RefundStatus: Pending, RequiresAction, Succeeded, Failed, Canceled);
text_enum!(DisputeStatus: NeedsResponse, UnderReview, Won, Lost, WarningNeedsResponse, WarningUnderReview,
    WarningClosed, Prevented);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Account {
    pub id: String,
    /// ISO 3166, such as `BR`.
    pub country: Option<String>,
    #[serde(default)]
    pub charges_enabled: bool,
    /// Such as `card_payments`: `active`, `inactive` or `pending`. Stripe does not list all of every account.
    #[serde(default, deserialize_with = "null_as_default")]
    pub capabilities: BTreeMap<String, String>,
}

/// A hosted payment page. That it is `Complete` does not mean that it is paid.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CheckoutSession {
    pub id: String,
    pub livemode: bool,
    pub status: Option<SessionStatus>,
    pub payment_status: PaymentStatus,
    pub url: Option<Hidden<String>>,
    pub amount_total: Option<i64>,
    pub currency: Option<String>,
    /// `None` until the payer tries to pay.
    pub payment_intent: Option<Expandable<PaymentIntent>>,
    pub client_reference_id: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: Hidden<Metadata>,
    pub expires_at: i64,
}

/// A payment with its last try.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PaymentIntent {
    pub id: String,
    pub livemode: bool,
    pub status: PaymentIntentStatus,
    pub amount: i64,
    pub amount_received: i64,
    pub currency: String,
    pub cancellation_reason: Option<String>,
    pub last_payment_error: Option<DeclinedPayment>,
    /// What the payer does next.
    pub next_action: Option<NextAction>,
    pub created: i64,
    pub latest_charge: Option<Expandable<Charge>>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: Hidden<Metadata>,
}

/// What a payer needs to pay a voucher. MB WAY has none: the payer confirms on the phone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NextAction {
    pub boleto_display_details: Option<BoletoDetails>,
    pub multibanco_display_details: Option<MultibancoDetails>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BoletoDetails {
    /// The digitable line.
    pub number: Option<String>,
    /// The URL of a PDF with the payer's data.
    pub pdf: Option<Hidden<String>>,
    pub expires_at: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MultibancoDetails {
    pub entity: Option<String>,
    pub reference: Option<String>,
    pub expires_at: Option<i64>,
}

/// Why the last try was declined.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DeclinedPayment {
    /// Such as `card_declined`.
    pub code: Option<String>,
    /// The issuer's reason, such as `insufficient_funds`.
    pub decline_code: Option<String>,
}

/// One try of a payment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Charge {
    pub id: String,
    /// `None`: the fee is not known yet.
    pub balance_transaction: Option<Expandable<BalanceTransaction>>,
    pub created: i64,
    #[serde(default)]
    pub amount_refunded: i64,
    #[serde(default)]
    pub disputed: bool,
}

/// A movement of the account's balance, in the currency of settlement. A debit is negative.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BalanceTransaction {
    pub id: String,
    pub amount: i64,
    pub fee: i64,
    pub currency: String,
    /// The object that caused it. Only its id, unless the request expanded it.
    #[serde(default, deserialize_with = "id_or_object")]
    pub source: Option<EventObject>,
    pub available_on: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refund {
    pub id: String,
    pub status: Option<RefundStatus>,
    pub amount: i64,
    pub currency: String,
    pub payment_intent: Option<String>,
    pub failure_reason: Option<String>,
    /// The debit.
    pub balance_transaction: Option<Expandable<BalanceTransaction>>,
    /// The credit of a refund that failed.
    pub failure_balance_transaction: Option<Expandable<BalanceTransaction>>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: Hidden<Metadata>,
}

/// A dispute, or with a status that begins with `Warning` an inquiry, which moves no money.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Dispute {
    pub id: String,
    pub status: DisputeStatus,
    /// Such as `fraudulent` or `product_not_received`.
    pub reason: String,
    pub amount: i64,
    pub currency: String,
    /// The debit, and the credit of a dispute that was won. None: no money moved.
    pub balance_transactions: Vec<BalanceTransaction>,
    pub evidence_details: EvidenceDetails,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EvidenceDetails {
    /// The last time at which evidence is accepted. `None`: the payer's bank allows no response (0), or none is known.
    #[serde(default, deserialize_with = "time_or_zero")]
    pub due_by: Option<i64>,
    pub submission_count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UploadedFile {
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WebhookEndpoint {
    pub id: String,
    /// Contains the token of the route.
    pub url: Hidden<String>,
    pub status: String,
    /// The forms of its notifications. `None`: those of the account's default version.
    pub api_version: Option<String>,
    pub enabled_events: Vec<String>,
    /// The secret of its signatures, in the answer to the creation only.
    pub secret: Option<Hidden<String>>,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

fn id_or_object<'de, D: Deserializer<'de>>(from: D) -> Result<Option<EventObject>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Object(object) => Some(object.into()),
        Value::String(id) => Some(EventObject { id: Some(id), ..EventObject::default() }),
        _ => None,
    })
}

fn time_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Option::deserialize(from).map(|time: Option<i64>| time.filter(|time| *time != 0))
}
