//! The parameters of requests.

use domain::acquirer::Capabilities;
use domain::money::{Amount, Currency};
use hyper::Method;
use hyper::body::Bytes;
use sha2::{Digest as _, Sha256};

use crate::error::ApiError;
use crate::form::Form;
use crate::objects::{Hidden, Metadata};

/// Uploads have a host of their own.
pub(crate) const FILES: &str = "/v1/files";

/// The longest id of an object and the longest idempotency key, in characters.
const MAX_ID_CHARS: usize = 255;

/// The most objects of a page.
const PAGE_SIZE: u32 = 100;

/// Currencies whose unit at Stripe is not that of ISO 4217, so an amount would be wrong by a factor of 10 or 100: two
/// decimals instead of none (ISK, UGX) or of three (IQD, LYD), none instead of two (MGA).
const OTHER_UNIT: [&str; 5] = ["IQD", "ISK", "LYD", "MGA", "UGX"];

/// Currencies of ISO 4217 that Stripe does not list (<https://docs.stripe.com/currencies>).
const NOT_LISTED: [&str; 16] = [
    "BTN", "CUP", "ERN", "GHS", "IRR", "KPW", "MRU", "SDG", "SSP", "STN", "SVC", "SYP", "TMT", "VED", "VES",
    "ZWG",
];

/// The least amounts that Stripe publishes, in minor units. Elsewhere it converts that of the account's currency.
const LEAST: [(i64, &str); 8] = [
    (30, "GBP"),
    (200, "AED MYR PLN RON"),
    (250, "DKK"),
    (300, "NOK SEK"),
    (400, "HKD"),
    (1_000, "MXN THB"),
    (1_500, "CZK"),
    (17_500, "HUF"),
];

/// The greatest amount, in minor units: eight digits.
const GREATEST: i64 = 99_999_999;

/// The least amount in every other currency, in minor units.
const USUAL_LEAST: i64 = 50;

/// What Stripe takes in a currency.
pub(crate) fn capabilities(currency: Currency) -> Capabilities {
    let code = currency.as_str();
    let least = LEAST.iter().find(|(_, codes)| codes.contains(code)).map_or(USUAL_LEAST, |(least, _)| *least);
    let is_taken = !OTHER_UNIT.contains(&code) && !NOT_LISTED.contains(&code);
    Capabilities {
        amounts: is_taken.then_some((least, GREATEST)),
        multiple_of: if currency.exponent() == 3 { 10 } else { 1 },
    }
}

/// The type and the content of a POST.
pub(crate) type Body = (String, Bytes);

/// Whether the amount is the same number at Stripe. In a currency with three decimals, it takes multiples of 10 only.
pub fn has_same_unit(amount: Amount, currency: Currency) -> bool {
    !OTHER_UNIT.contains(&currency.as_str()) && (currency.exponent() != 3 || amount.minor() % 10 == 0)
}

pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// The path of the list, which names the operation in the logs, and the rest of the URL.
    pub(crate) list: &'static str,
    pub(crate) rest: String,
    pub(crate) body: Body,
    pub(crate) idempotency_key: String,
}

impl ApiRequest {
    pub(crate) fn get(list: &'static str, item: &str, query: &Form) -> Self {
        let rest = [item, "?", &query.encode()].concat();
        Self { method: Method::GET, list, rest, body: Body::default(), idempotency_key: String::new() }
    }

    pub(crate) fn post(list: &'static str, rest: String, body: Body, key: &str) -> Result<Self, ApiError> {
        if !(1..=MAX_ID_CHARS).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ApiError::InvalidRequest("a key must be 1 to 255 visible ASCII characters"));
        }
        Ok(Self { method: Method::POST, list, rest, body, idempotency_key: key.to_owned() })
    }
}

/// Returns the path of an object after that of the list. With an empty id, it would be that of the list.
pub(crate) fn item(id: &str) -> Result<String, ApiError> {
    let is_valid = (1..=MAX_ID_CHARS).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_valid
        .then(|| format!("/{id}"))
        .ok_or(ApiError::InvalidRequest("an id must be 1 to 255 letters, digits and `_`"))
}

/// A hosted page for one payment by card.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub amount: Amount,
    pub currency: Currency,
    /// What the page shows as the item.
    pub product_name: Hidden<String>,
    /// Where the page sends the payer after the payment, and from its link back.
    pub success_url: Hidden<String>,
    pub cancel_url: Hidden<String>,
    /// The last time at which the payer can pay: 30 minutes to 24 hours after the request arrives.
    pub expires_at: i64,
    /// At most 200 characters.
    pub client_reference_id: String,
    /// Stored with the session and with its payment.
    pub metadata: Metadata,
}

impl NewSession {
    pub(crate) fn form(&self) -> Result<Form, ApiError> {
        if !has_same_unit(self.amount, self.currency) {
            return Err(ApiError::InvalidRequest("the amount is another number at Stripe"));
        }
        Ok(Form::default()
            .set("mode", "payment")
            .list("payment_method_types", ["card"])
            .set("line_items[0][price_data][currency]", self.currency.as_str().to_ascii_lowercase())
            .set("line_items[0][price_data][unit_amount]", self.amount.minor())
            .set("line_items[0][price_data][product_data][name]", &self.product_name.0)
            .set("line_items[0][quantity]", 1)
            // With another method, the fee is not known for up to an hour.
            .set("payment_intent_data[capture_method]", "automatic")
            .metadata("payment_intent_data[metadata]", &self.metadata)
            .metadata("metadata", &self.metadata)
            .set("client_reference_id", &self.client_reference_id)
            // The payer pays this amount in this currency, by card.
            .set("adaptive_pricing[enabled]", false)
            .set("allow_promotion_codes", false)
            .set("wallet_options[link][display]", "never")
            .set("success_url", &self.success_url.0)
            .set("cancel_url", &self.cancel_url.0)
            .set("expires_at", self.expires_at))
    }
}

/// A payment by boleto, Multibanco or MB WAY, which is confirmed at once.
#[derive(Clone, Debug)]
pub struct NewIntent {
    pub amount: Amount,
    pub currency: Currency,
    /// Stripe's name of the method, such as `mb_way`.
    pub method_type: &'static str,
    /// What the method needs of the payer: the names of the fields of `payment_method_data`, and their values.
    pub payer: Hidden<Vec<(&'static str, String)>>,
    /// The days from the request to the last day on which a boleto can be paid.
    pub expires_after_days: Option<u8>,
    pub metadata: Metadata,
}

impl NewIntent {
    pub(crate) fn form(&self) -> Form {
        let form = Form::default()
            .set("amount", self.amount.minor())
            .set("currency", self.currency.as_str().to_ascii_lowercase())
            .set("confirm", true)
            // With another method, the fee is not known for up to an hour.
            .set("capture_method", "automatic")
            .list("payment_method_types", [self.method_type])
            .set("payment_method_data[type]", self.method_type);
        let form = self
            .payer
            .0
            .iter()
            .fold(form, |form, (name, value)| form.set(&format!("payment_method_data{name}"), value));
        form.set_some("payment_method_options[boleto][expires_after_days]", self.expires_after_days)
            .metadata("metadata", &self.metadata)
    }
}

/// Returns the body of an upload of evidence (RFC 7578). The same file has the same bytes, as idempotency needs.
pub(crate) fn upload(name: &str, content_type: &str, content: &[u8]) -> Result<Body, ApiError> {
    let is_safe = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    if !is_safe(name) || !is_safe(content_type) {
        return Err(ApiError::InvalidRequest("a file's name and type must be visible ASCII but `\"`"));
    }
    // A file can't contain a boundary that is its own hash.
    let boundary = hex::encode(Sha256::digest(content));
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\ndispute_evidence\r\n\
         --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: {content_type}\r\n\r\n"
    );
    let bytes = [head.as_bytes(), content, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
    Ok((format!("multipart/form-data; boundary={boundary}"), bytes.into()))
}

/// Which objects of a list to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListQuery<'a> {
    /// Of sessions, refunds and disputes only.
    pub payment_intent: Option<&'a str>,
    /// The object that moved the balance. Of balance transactions only.
    pub source: Option<&'a str>,
    /// At most 20 types of events, which Stripe keeps for 30 days. Empty: all.
    pub types: &'a [&'a str],
    /// Of events only: whether all webhook endpoints have accepted them.
    pub delivery_success: Option<bool>,
    /// The first time of creation. Not of webhook endpoints.
    pub created_from: Option<i64>,
    /// The end of the time of creation, exclusive.
    pub created_to: Option<i64>,
    /// The references that are replaced by their objects.
    pub expand: &'a [&'a str],
    /// [`Page::next_cursor`](crate::Page::next_cursor) of the page before.
    pub after: Option<&'a str>,
}

impl ListQuery<'_> {
    pub(crate) fn form(&self) -> Form {
        Form::default()
            .set("limit", PAGE_SIZE)
            .set_some("payment_intent", self.payment_intent)
            .set_some("source", self.source)
            .list("types", self.types)
            .set_some("delivery_success", self.delivery_success)
            .set_some("created[gte]", self.created_from)
            .set_some("created[lt]", self.created_to)
            .list("expand", self.expand)
            .set_some("starting_after", self.after)
    }
}
