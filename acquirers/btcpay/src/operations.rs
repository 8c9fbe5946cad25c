use domain::acquirer::OddObject;
use hyper::Method;
use hyper::body::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::client::{ApiRequest, Client};
use crate::error::ApiError;
use crate::objects::{ApiKey, Invoice, InvoicePaymentMethod, Store, StorePaymentMethod, Webhook, id_of};
use crate::{EVENT_TYPES, PAYMENT_METHOD};

/// The rights that a key needs, each for all stores or for the one of the connection.
pub const RIGHTS: [&str; 4] = [
    "btcpay.store.canviewinvoices",
    "btcpay.store.cancreateinvoice",
    "btcpay.store.canmodifyinvoices",
    "btcpay.store.webhooks.canmodifywebhooks",
];

/// The right that [`Client::store`] and [`Client::store_payment_methods`] need. Charges do not.
pub const RIGHT_TO_SEE_STORE: &str = "btcpay.store.canviewstoresettings";

/// Rights that include all of [`RIGHTS`], and much more.
const BROADER: [&str; 2] = ["unrestricted", "btcpay.store.canmodifystoresettings"];

/// Rights that this one includes.
const MODIFY_INVOICES: (&str, [&str; 2]) =
    ("btcpay.store.canmodifyinvoices", ["btcpay.store.canviewinvoices", "btcpay.store.cancreateinvoice"]);

/// The longest id of an object, in characters.
const MAX_ID_CHARS: usize = 64;

/// The most invoices of a page.
const PAGE_SIZE: usize = 100;

/// How long an invoice can be paid, in minutes. The rate is fixed as long.
const EXPIRATION_MINUTES: u32 = 60;

/// How long after that the server looks for payments, in minutes: 7 days.
pub(crate) const MONITORING_MINUTES: i64 = 7 * 24 * 60;

/// An invoice that is paid in Bitcoin, on the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvoice {
    /// Decimal text.
    pub amount: String,
    pub currency: String,
    pub order_id: String,
}

impl NewInvoice {
    fn body(&self) -> Value {
        json!({
            "amount": self.amount,
            "currency": self.currency,
            "metadata": {"orderId": self.order_id},
            // The store has other defaults. The payer sees none of the server's pages, so it needs no URL to return to.
            "checkout": {
                "paymentMethods": [PAYMENT_METHOD],
                "lazyPaymentMethods": false,
                "expirationMinutes": EXPIRATION_MINUTES,
                "monitoringMinutes": MONITORING_MINUTES,
                "paymentTolerance": 0,
                // One confirmation.
                "speedPolicy": "MediumSpeed",
            },
        })
    }
}

/// Which invoices of the store to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListQuery<'a> {
    pub order_id: Option<&'a str>,
    /// The first time of creation.
    pub created_from: Option<i64>,
    /// The last one.
    pub created_to: Option<i64>,
    /// How many invoices to leave out.
    pub skip: usize,
}

impl ListQuery<'_> {
    fn encode(&self) -> String {
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(self.order_id.map(|order| ("orderId", order)))
            .extend_pairs(self.created_from.map(|from| ("startDate", from.to_string())))
            .extend_pairs(self.created_to.map(|to| ("endDate", to.to_string())))
            .extend_pairs([("skip", self.skip.to_string()), ("take", PAGE_SIZE.to_string())])
            .finish()
    }
}

/// One page of a list, the newest first. Archived invoices are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub invoices: Vec<Invoice>,
    /// Entries that are not as documented.
    pub odd: Vec<Value>,
    /// [`ListQuery::skip`] of the next page. `None`: this is the last one.
    pub next: Option<usize>,
}

impl Client {
    pub async fn list(&self, query: ListQuery<'_>) -> Result<Page, ApiError> {
        let path = format!("/invoices?{}", query.encode());
        let entries: Vec<Value> = self.read(self.of_store("list invoices", Method::GET, &path)).await?;
        let next = (entries.len() >= PAGE_SIZE).then(|| query.skip.saturating_add(entries.len()));
        let (mut invoices, mut odd) = (Vec::new(), Vec::new());
        for entry in entries {
            match Invoice::deserialize(&entry) {
                Ok(invoice) => invoices.push(invoice),
                Err(_) => odd.push(entry),
            }
        }
        Ok(Page { invoices, odd, next })
    }

    pub async fn invoice(&self, id: &str) -> Result<Invoice, ApiError> {
        let path = format!("/invoices{}", item(id)?);
        same(self.read(self.of_store("read an invoice", Method::GET, &path)).await?, id)
    }

    /// Returns how an invoice can be paid, with the payments that count: none that was replaced.
    pub async fn payment_methods(&self, id: &str) -> Result<Vec<InvoicePaymentMethod>, ApiError> {
        let path = format!("/invoices{}/payment-methods", item(id)?);
        self.read(self.of_store("read payments", Method::GET, &path)).await
    }

    /// There are no idempotency keys: a repeated request creates another invoice.
    pub async fn create_invoice(&self, new: &NewInvoice) -> Result<Invoice, ApiError> {
        let request = self.of_store("create an invoice", Method::POST, "/invoices");
        self.read(with_body(request, &new.body())).await
    }

    /// Ends an invoice, whose address stays payable. The server refuses it if the invoice is settled or invalid.
    pub async fn mark_invalid(&self, id: &str) -> Result<Invoice, ApiError> {
        let path = format!("/invoices{}/status", item(id)?);
        let request = self.of_store("mark an invoice", Method::POST, &path);
        same(self.read(with_body(request, &json!({"status": "Invalid"}))).await?, id)
    }

    pub async fn api_key(&self) -> Result<ApiKey, ApiError> {
        let path = "/api-keys/current".to_owned();
        let (method, body) = (Method::GET, Bytes::new());
        self.read(ApiRequest { method, operation: "read the key", path, body }).await
    }

    /// Returns those of [`RIGHTS`] that the key lacks for the store.
    pub async fn missing_rights(&self) -> Result<Vec<&'static str>, ApiError> {
        let ApiKey { permissions } = self.api_key().await?;
        let is_granted = |right: &str| {
            let of_store = format!("{right}:{}", self.store_id());
            permissions.iter().any(|granted| granted == right || *granted == of_store)
        };
        if BROADER.into_iter().any(is_granted) {
            return Ok(Vec::new());
        }
        let (modify, included) = MODIFY_INVOICES;
        let is_included = |right: &str| included.contains(&right) && is_granted(modify);
        Ok(RIGHTS.into_iter().filter(|right| !is_granted(right) && !is_included(right)).collect())
    }

    /// Reads the store. The key needs [`RIGHT_TO_SEE_STORE`].
    pub async fn store(&self) -> Result<Store, ApiError> {
        self.read(self.of_store("read the store", Method::GET, "")).await
    }

    /// Lists the payment methods of the store. The key needs [`RIGHT_TO_SEE_STORE`].
    pub async fn store_payment_methods(&self) -> Result<Vec<StorePaymentMethod>, ApiError> {
        self.read(self.of_store("list payment methods", Method::GET, "/payment-methods")).await
    }

    /// Registers a URL for the events [`EVENT_TYPES`], which are signed with the secret.
    pub async fn create_webhook(&self, url: &str, secret: &SecretString) -> Result<Webhook, ApiError> {
        let body = json!({
            "url": url,
            "enabled": true,
            "automaticRedelivery": true,
            "secret": secret.expose_secret(),
            "authorizedEvents": {"everything": false, "specificEvents": EVENT_TYPES},
        });
        self.read(with_body(self.of_store("create a webhook", Method::POST, "/webhooks"), &body)).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Webhook, ApiError> {
        let path = format!("/webhooks{}", item(id)?);
        self.read(self.of_store("read a webhook", Method::GET, &path)).await
    }

    /// Removes a registered URL. It also succeeds if there is none.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ApiError> {
        let path = format!("/webhooks{}", item(id)?);
        match self.call(self.of_store("delete a webhook", Method::DELETE, &path)).await {
            Ok(_) | Err(ApiError::Answered { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// `path`: after that of the store.
    fn of_store(&self, operation: &'static str, method: Method, path: &str) -> ApiRequest {
        let path = format!("/stores/{}{path}", self.store_id());
        ApiRequest { method, operation, path, body: Bytes::new() }
    }

    async fn read<T: DeserializeOwned>(&self, request: ApiRequest) -> Result<T, ApiError> {
        let body = self.call(request).await?;
        // The parser's own text may quote the answer.
        serde_json::from_slice(&body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let why = format!("not as documented at line {line}, column {column}");
            match serde_json::from_slice(&body) {
                Ok(object) => ApiError::Odd(OddObject::new(id_of(&object), why)),
                Err(_) => ApiError::Malformed(why),
            }
        })
    }
}

fn with_body(request: ApiRequest, body: &Value) -> ApiRequest {
    ApiRequest { body: body.to_string().into(), ..request }
}

/// Returns the path of an object after that of its list. With an empty id, it would be that of the list.
fn item(id: &str) -> Result<String, ApiError> {
    let is_valid = (1..=MAX_ID_CHARS).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_valid
        .then(|| format!("/{id}"))
        .ok_or(ApiError::InvalidRequest("an id must be 1 to 64 letters, digits, `_` and `-`"))
}

fn same(invoice: Invoice, id: &str) -> Result<Invoice, ApiError> {
    let is_same = invoice.id == id;
    is_same
        .then_some(invoice)
        .ok_or_else(|| ApiError::Malformed("`id` must be that of the request".to_owned()))
}
