use domain::ids::PaymentLinkId;
use domain::money::{Amount, Currency};
use domain::payment_link::{AskedField, LinkTotals, PaymentLink};
use domain::payment_method::UpperCaseMethod;
use domain::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use shared::config::PublicUrls;
use shared::http::ListView;

/// An address at which payers make charges.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "PaymentLink")]
pub struct PaymentLinkView {
    /// The link's id.
    id: PaymentLinkId,
    /// Always `payment_link`.
    #[schemars(extend("const" = "payment_link"))]
    object: &'static str,
    /// The public page for payers.
    #[schemars(extend("format" = "uri"))]
    url: String,
    /// Whether payers can make charges. Without regard to `expires_at` and `max_payments`.
    active: bool,
    /// What a payment costs. `null`: the payer types it.
    amount: Option<Amount>,
    /// The smallest amount that a payer may type. `null` with `amount`.
    min_amount: Option<Amount>,
    /// The largest amount that a payer may type. `null` with `amount`.
    max_amount: Option<Amount>,
    /// The currency of the amounts.
    currency: Currency,
    /// The methods by which payers may pay.
    payment_methods: Vec<UpperCaseMethod>,
    /// The purpose, which payers read.
    description: Option<String>,
    /// What the page asks of each payer. What the methods need is asked too.
    ask: Vec<AskedField>,
    /// Where the page leads after a payment.
    #[schemars(extend("format" = "uri"))]
    success_url: Option<String>,
    /// The most payments. `null`: any number.
    max_payments: Option<u32>,
    /// When the link ends. `null`: never.
    expires_at: Option<Timestamp>,
    /// Your data, which each charge has too.
    metadata: Map<String, Value>,
    /// How many payments were made. It follows a payment within seconds.
    payments: u64,
    /// The sum of the payments in minor units. Refunds are not subtracted.
    amount_paid: i64,
    /// When the link was made.
    created_at: Timestamp,
    /// When the link was changed last.
    updated_at: Timestamp,
}

/// A page of the list of payment links.
pub type PaymentLinkListView = ListView<PaymentLinkView, PaymentLinkId>;

impl PaymentLinkView {
    pub fn new(link: &PaymentLink, totals: LinkTotals, urls: &PublicUrls) -> Self {
        let bounds = link.amount.bounds();
        Self {
            id: link.id,
            object: "payment_link",
            url: urls.payment_link_url(link.id),
            active: link.active,
            amount: link.amount.fixed(),
            min_amount: bounds.map(|(min, _)| min),
            max_amount: bounds.map(|(_, max)| max),
            currency: link.currency,
            payment_methods: link.methods.iter().copied().map(UpperCaseMethod).collect(),
            description: link.description.clone(),
            ask: link.ask.clone(),
            success_url: link.success_url.clone(),
            max_payments: link.max_payments,
            expires_at: link.expires_at,
            metadata: link.metadata.to_map(),
            payments: totals.payments,
            amount_paid: totals.amount_paid,
            created_at: link.created_at,
            updated_at: link.updated_at,
        }
    }
}
