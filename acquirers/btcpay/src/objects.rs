//! The objects of answers, as far as the service reads them.

use domain::ids::ChargeId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Defines an enum of the server's texts. An unknown text is kept in `Other`.
macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident: $($variant:ident),*) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
        pub enum $name {
            $($variant,)*
            #[serde(untagged)]
            Other(String),
        }
    };
}

text_enum!(InvoiceStatus: New, Processing, Expired, Invalid, Settled);
text_enum!(
    /// Why an invoice has its status. `PaidOver` is set before it is settled only.
    AdditionalStatus: None, PaidLate, PaidPartial, Marked, Invalid, PaidOver
);
text_enum!(
    /// `Invalid`: the transaction was replaced, or its coins were spent by another one.
    PaymentStatus: Invalid, Processing, Settled
);

/// An invoice, without its payments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Invoice {
    pub id: String,
    pub store_id: String,
    /// Decimal text.
    pub amount: String,
    /// Decimal text, rounded to the currency's decimals. It includes payments that are not confirmed. `None`: an old
    /// version does not show it.
    pub paid_amount: Option<String>,
    pub currency: String,
    pub expiration_time: i64,
    /// The end of the time in which the server looks for payments.
    pub monitoring_expiration: i64,
    pub status: InvoiceStatus,
    pub additional_status: AdditionalStatus,
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

impl Invoice {
    /// Returns the charge that it was made for. `None`: another system made it.
    pub fn charge(&self) -> Option<ChargeId> {
        self.metadata.charge()
    }
}

/// The order in the metadata of an invoice, which may contain anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct Metadata {
    order: Option<String>,
}

impl Metadata {
    pub(crate) fn charge(&self) -> Option<ChargeId> {
        self.order.as_ref()?.parse().ok()
    }
}

impl From<Value> for Metadata {
    fn from(metadata: Value) -> Self {
        let order = metadata.get("orderId").and_then(Value::as_str);
        Self { order: order.map(str::to_owned) }
    }
}

/// How an invoice can be paid, and its payments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoicePaymentMethod {
    pub payment_method_id: String,
    /// The address.
    pub destination: Option<String>,
    /// The amount of the invoice in BTC, and [`Self::payment_method_fee`]. Decimal text.
    pub amount: String,
    /// What is left to pay in BTC; negative: it is overpaid. Decimal text.
    pub due: String,
    /// What the payer must pay for the merchant's costs of further transactions in BTC, so far. Decimal text.
    pub payment_method_fee: String,
    /// The oldest first.
    pub payments: Vec<InvoicePayment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoicePayment {
    /// The hash of the transaction, `-` and the number of its output.
    pub id: String,
    /// When the server saw it.
    pub received_date: i64,
    /// BTC as decimal text.
    pub value: String,
    /// The part of the value that pays the merchant's costs. Decimal text.
    pub fee: String,
    pub status: PaymentStatus,
}

/// The key of the client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ApiKey {
    /// Each a right, or a right, `:` and the id of the store that it is for.
    pub permissions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Store {
    pub id: String,
    pub name: String,
}

/// A payment method of a store, such as `BTC-CHAIN`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorePaymentMethod {
    pub payment_method_id: String,
    pub enabled: bool,
}

/// A registered URL for notifications.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub id: String,
    pub enabled: bool,
    pub automatic_redelivery: bool,
    pub url: String,
    pub authorized_events: AuthorizedEvents,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizedEvents {
    pub everything: bool,
    #[serde(default)]
    pub specific_events: Vec<String>,
}

/// Returns the id of an object of any kind. Empty: it has none.
pub(crate) fn id_of(object: &Value) -> &str {
    object.get("id").and_then(Value::as_str).unwrap_or_default()
}
