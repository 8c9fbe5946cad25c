use domain::charge::{Customer, Metadata, PayerAddress, PaymentDetails, is_e164};
use domain::ids::Mode;
use domain::money::Currency;
use domain::payment_method::PaymentMethod;
use domain::tax_id::Document;
use domain::url_policy::{AddressPolicy, MAX_URL_LENGTH, check_new_url};
use domain::vocabulary::Vocabulary;

use crate::charge::request::{
    CUSTOMER_EMAIL, CUSTOMER_NAME, METADATA, NewCharge, canonical_hash, metadata, normalised,
};
use shared::http::field::{
    BodyFields, CURRENCY_CODE, Dictionary, DistinctWords, Field, MinorAmount, Parsed, Refined, Text, Url,
};
use shared::http::{Fields, JsonObject, JsonValue, Object, Problem};

const PHONE: &str = "phone";
const RETURN_URL: &str = "returnUrl";

shared::fields! {
    AMOUNT: MinorAmount = "amount", MinorAmount, Required, 1000,
        "The amount to be paid, in the smallest unit of the currency. Methods have limits: outside of them the answer is 422.";
    CURRENCY: Parsed<Currency> = "currency", CURRENCY_CODE, DefaultsTo("BRL"), "BRL",
        "The currency of the amount: a code of ISO 4217, `BTC`, `USDC` or `USDT`. Every method of the payment must accept it.";
    METHODS: DistinctWords<PaymentMethod> = "paymentMethods",
        DistinctWords { words: PaymentMethod::vocabulary, noun: "method" }, Required, ["PIX"],
        "The methods by which the payer may pay. A repeated one counts once.";
    IDEMPOTENCY_KEY: Text = "idempotencyKey", Text::of(1, 255), Required, "order-1001-attempt-1",
        "A key that is unique to this request. A request with the same key and the same body returns the existing payment and creates no other.";
    CUSTOMER_DOCUMENT: Refined<Document> = "customerDocument",
        Text::one_line(0, Document::MAX_CHARS).refined(Document::parse, "must not have surrounding spaces"),
        Optional, "29537995593",
        "The customer's tax id of any country, without surrounding spaces. A CPF or CNPJ loses its punctuation.";
    CUSTOMER_ID: Text = "customerId", Text::one_line(1, 200), Optional, "customer-7",
        "Your id of the customer, one line.";
    WEBHOOK_URL: Url = "webhookUrl", Url, Optional, "https://example.com/hooks",
        "An https URL that receives all legacy events of this payment, in addition to the webhook endpoints.";
}

const PAYMENT_METADATA: Field<Dictionary> = Field {
    text: "Data of your own, at most 16384 bytes of JSON. Keys that start with `_`, and the keys `med` and `failure`, are removed and do not count. `MBWAY` requires `phone`, the payer's phone number in E.164 form. With a live key, `BOLETO` requires `payerAddress`: an object with `line1`, `city`, `state` (two letters) and `postal_code` (eight digits). With `CREDIT_CARD`, `returnUrl` is the http or https URL to which the payer returns.",
    ..METADATA
};

const NAME: Field<Text> =
    Field { name: "customerName", text: "The customer's name, one line.", ..CUSTOMER_NAME };

const EMAIL: Field<Refined<String>> = Field { name: "customerEmail", ..CUSTOMER_EMAIL };

pub const PAYMENT_BODY: BodyFields = BodyFields::open(&[
    &AMOUNT,
    &CURRENCY,
    &METHODS,
    &IDEMPOTENCY_KEY,
    &CUSTOMER_ID,
    &NAME,
    &CUSTOMER_DOCUMENT,
    &EMAIL,
    &PAYMENT_METADATA,
    &WEBHOOK_URL,
]);

#[derive(Clone, Debug)]
pub struct NewPayment {
    pub idempotency_key: String,
    pub charge: NewCharge,
}

impl NewPayment {
    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject, policy: &AddressPolicy, mode: Mode) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let body = &normalised(body);
        let root = fields.body(body, PAYMENT_BODY);
        let amount = fields.read(&root, &AMOUNT);
        let currency = fields.read(&root, &CURRENCY);
        let methods = fields.read(&root, &METHODS);
        if let (Some(currency), Some(methods)) = (currency, &methods) {
            check_currency(&mut fields, (METHODS.name, methods), currency);
        }
        let idempotency_key = fields.read(&root, &IDEMPOTENCY_KEY);
        let document = fields.read(&root, &CUSTOMER_DOCUMENT);
        let customer_id = fields.read(&root, &CUSTOMER_ID);
        let payment_details =
            PaymentDetails { customer_id, webhook_url: webhook_url(&mut fields, &root, policy) };
        let sent = fields.dictionary(&root, &PAYMENT_METADATA);
        let is_requested = |method| methods.as_ref().is_some_and(|methods| methods.contains(&method));
        let phone = phone(&mut fields, sent, is_requested(PaymentMethod::Mbway));
        let return_url = return_url(&mut fields, sent, is_requested(PaymentMethod::CreditCard));
        let customer =
            Customer { name: fields.read(&root, &NAME), document, email: fields.read(&root, &EMAIL), phone };
        let metadata = metadata(&mut fields, sent, None);
        if mode == Mode::Live {
            check_payer(&mut fields, is_requested, &customer, &metadata);
        }
        let metadata = match return_url {
            Some(url) => metadata.with_text(RETURN_URL, &url),
            None => metadata,
        };
        let charge = amount.zip(currency).zip(methods).map(|((amount, currency), methods)| NewCharge {
            amount,
            currency,
            methods,
            pix_expires_in_seconds: None,
            customer,
            expected_payer: None,
            metadata,
            payment_details: Some(payment_details),
            hash: hash(body),
        });
        fields.finish(
            charge.zip(idempotency_key).map(|(charge, idempotency_key)| Self { idempotency_key, charge }),
        )
    }
}

/// Rejects `param` if a method can't be paid in the currency.
pub(crate) fn check_currency(
    fields: &mut Fields,
    (param, methods): (&str, &[PaymentMethod]),
    currency: Currency,
) {
    let unfit: Vec<&str> = methods
        .iter()
        .filter(|method| !method.supports_currency(currency))
        .map(|method| method.as_str())
        .collect();
    if !unfit.is_empty() {
        fields.reject(
            param,
            format!("must fit the currency: {} can't be paid in {currency}", unfit.join(", ")),
        );
    }
}

/// Acquirers name the payer of a boleto, and send a Multibanco by e-mail. The sandbox needs neither.
fn check_payer(
    fields: &mut Fields,
    is_requested: impl Fn(PaymentMethod) -> bool,
    customer: &Customer,
    metadata: &Metadata,
) {
    let (by_boleto, by_multibanco) =
        (is_requested(PaymentMethod::Boleto), is_requested(PaymentMethod::Multibanco));
    let tax_id = customer.document.as_ref().and_then(Document::tax_id);
    for (is_missing, param, rule) in [
        (by_boleto && customer.name.is_none(), NAME.name, "is required for BOLETO"),
        (by_boleto && tax_id.is_none(), CUSTOMER_DOCUMENT.name, "must be a CPF or CNPJ for BOLETO"),
        (by_boleto && customer.email.is_none(), EMAIL.name, "is required for BOLETO"),
        (by_multibanco && customer.email.is_none(), EMAIL.name, "is required for MULTIBANCO"),
    ] {
        if is_missing {
            fields.reject(param, rule);
        }
    }
    if by_boleto && let Err(error) = PayerAddress::of(metadata) {
        fields.reject(format!("metadata.{}", error.field), error.rule);
    }
}

fn key<'a>(metadata: Option<&'a JsonObject>, key: &str) -> Option<&'a JsonValue> {
    metadata?.get(key).filter(|value| !value.is_null())
}

/// Reads the payer's phone number from `metadata.phone`, where it also stays. MB WAY requires E.164.
fn phone(fields: &mut Fields, metadata: Option<&JsonObject>, is_required: bool) -> Option<String> {
    let Some(value) = key(metadata, PHONE) else {
        if is_required {
            fields.reject("metadata.phone", "is required for MBWAY, in E.164 form such as +351912345678");
        }
        return None;
    };
    let text = value.as_str().unwrap_or_default();
    if is_e164(text) {
        return Some(text.to_owned());
    }
    // Without MB WAY, `phone` is the merchant's own metadata and may have any value.
    if is_required {
        fields.reject("metadata.phone", "must be a phone number in E.164 form, such as +351912345678");
    }
    None
}

/// Without the method `CREDIT_CARD`, `returnUrl` is the merchant's own metadata and may have any value.
fn return_url(fields: &mut Fields, metadata: Option<&JsonObject>, by_card: bool) -> Option<String> {
    let value = key(metadata, RETURN_URL).filter(|_| by_card)?;
    return_address(fields, &format!("metadata.{RETURN_URL}"), value.as_str())
}

/// Checks a URL to which a payer returns. The normalised URL is stored, so that the browser is sent to exactly the URL
/// that was checked.
pub(crate) fn return_address(fields: &mut Fields, param: &str, text: Option<&str>) -> Option<String> {
    // White space and control characters are rejected before parsing, because the URL parser would silently
    // drop or escape them.
    let text = text.filter(|text| !text.contains(|c: char| c.is_whitespace() || c.is_control()));
    let url = text.and_then(|text| url::Url::parse(text).ok());
    let url = url.filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
    });
    let url = url.map(String::from).filter(|url| {
        // The limit applies to the URL as sent and as normalised, because escaping lengthens a URL.
        url.len().max(text.map_or(0, str::len)) <= MAX_URL_LENGTH
    });
    if url.is_none() {
        fields.reject(
            param,
            "must be an absolute http or https URL of at most 2048 bytes, without credentials, white space or control characters",
        );
    }
    url
}

fn webhook_url(fields: &mut Fields, root: &Object<'_>, policy: &AddressPolicy) -> Option<String> {
    let text = fields.read(root, &WEBHOOK_URL)?;
    match check_new_url(&text, policy) {
        Ok(url) => Some(url.into()),
        Err(refusal) => {
            fields.reject(WEBHOOK_URL.name, refusal.to_string());
            None
        }
    }
}

/// The idempotency key identifies the request and is not part of its content.
fn hash(body: &JsonObject) -> String {
    let mut content = body.clone();
    content.remove(IDEMPOTENCY_KEY.name);
    canonical_hash(content)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::charge::payment::request::*;
    use crate::testing::object;

    fn parse(body: &Value) -> Result<NewPayment, Problem> {
        NewPayment::parse(&object(body), &AddressPolicy::PublicOnly, Mode::Test)
    }

    fn with(extra: Value) -> Value {
        let mut body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "k"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    }

    fn failing(extra: Value) -> Vec<String> {
        match parse(&with(extra)).unwrap_err() {
            Problem::Invalid(details) | Problem::InvalidAmount(details) => {
                details.into_iter().map(|detail| detail.param).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_notations_of_one_request_have_one_hash() {
        let plain = parse(&with(json!({"customerDocument": "11222333000181"}))).unwrap().charge;
        let other = json!({
            "customerDocument": "11.222.333/0001-81", "customerName": "", "customerEmail": "", "paymentMethods": ["PIX", "PIX"],
        });
        let other = parse(&with(other)).unwrap().charge;
        assert_eq!((other.hash, other.customer, other.methods), (plain.hash, plain.customer, plain.methods));
        // A tax id of another country stays as it was sent.
        let foreign = parse(&with(json!({"customerDocument": "X-123.456/7"}))).unwrap().charge;
        assert_eq!(foreign.customer.document.unwrap().as_str(), "X-123.456/7");
    }

    #[test]
    fn values_that_only_look_valid_are_refused() {
        let card = |return_url: &str| json!({"paymentMethods": ["CREDIT_CARD"], "metadata": {"returnUrl": return_url}});
        let of_mbway = |phone: &str| json!({"paymentMethods": ["MBWAY"], "currency": "EUR", "metadata": {"phone": phone}});
        for (extra, param) in [
            (json!({"currency": "BR"}), "currency"),
            (json!({"paymentMethods": "PIX"}), "paymentMethods"),
            (json!({"paymentMethods": ["pix"]}), "paymentMethods"),
            (json!({"paymentMethods": ["PIX", "OTHER"]}), "paymentMethods"),
            (json!({"paymentMethods": vec!["PIX"; 7]}), "paymentMethods"),
            (json!({"paymentMethods": ["PIX", "MULTIBANCO"]}), "paymentMethods"),
            (json!({"idempotencyKey": "k".repeat(256)}), "idempotencyKey"),
            (json!({"customerEmail": "Maria <m@example.com>"}), "customerEmail"),
            (json!({"customerDocument": "1".repeat(33)}), "customerDocument"),
            (json!({"customerDocument": "12\u{202e}3"}), "customerDocument"),
            (json!({"customerName": "\u{feff}"}), "customerName"),
            (json!({"customerId": "a\u{1b}[31m"}), "customerId"),
            (card("javascript:alert(1)"), "metadata.returnUrl"),
            (card("https://a:b@example.com"), "metadata.returnUrl"),
            (card(" https://example.com/"), "metadata.returnUrl"),
            (card("https://example.com/a\tb"), "metadata.returnUrl"),
            (card("https://example.com/\u{85}"), "metadata.returnUrl"),
            (card(&format!("https://example.com/{}", "é".repeat(700))), "metadata.returnUrl"),
            (of_mbway("912345678"), "metadata.phone"),
            (json!({"amount": 1_000_000_000_000_i64}), "amount"),
        ] {
            let failed = failing(extra.clone());
            assert_eq!(failed, [param], "{extra}");
        }
    }

    #[test]
    fn valid_requests_are_accepted() {
        for extra in [
            json!({}),
            json!({"amount": 999_999_999_999_i64}),
            json!({"paymentMethods": ["PIX", "CREDIT_CARD", "BOLETO"], "currency": "BRL"}),
            json!({"paymentMethods": ["MBWAY", "MULTIBANCO"], "currency": "EUR", "metadata": {"phone": "+351912345678"}}),
            json!({"paymentMethods": ["CRYPTO"], "currency": "USDT"}),
            json!({"customerDocument": "PT 123456789", "customerEmail": "\"m s\"@example.com"}),
            json!({"metadata": {"phone": 7, "order": 1, "returnUrl": "/pedido/7"}, "webhookUrl": "https://example.com/hook"}),
        ] {
            parse(&with(extra.clone())).unwrap_or_else(|problem| panic!("{extra}: {problem:?}"));
        }
    }

    #[test]
    fn the_return_url_of_a_card_payment_is_stored_normalised() {
        let sent = "HTTPS://Shop.example:443/a/../obrigado?pedido=\"7\"";
        let by = |method: &str| {
            let extra = json!({"paymentMethods": [method], "metadata": {"returnUrl": sent, "order": 7}});
            parse(&with(extra)).unwrap().charge.metadata.to_map()
        };
        let normalised = "https://shop.example/obrigado?pedido=%227%22";
        assert_eq!(Value::Object(by("CREDIT_CARD")), json!({"returnUrl": normalised, "order": 7}));
        assert_eq!(by("PIX")["returnUrl"], sent, "without a card, returnUrl is the merchant's own metadata");
    }

    #[test]
    fn the_hash_ignores_the_idempotency_key_and_null_fields() {
        let hash = |extra| parse(&with(extra)).unwrap().charge.hash;
        assert_eq!(hash(json!({})), hash(json!({"idempotencyKey": "other", "customerName": null})));
        assert_ne!(hash(json!({})), hash(json!({"amount": 1001})));
    }
}
