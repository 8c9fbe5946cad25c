//! Validates and hashes the request that creates a charge. The hash distinguishes a replay of an idempotency
//! key from its reuse with a different body.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use domain::charge::{Customer, Metadata, PaymentDetails, metadata};
use domain::hex;
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::tax_id::{Document, TaxId};
use domain::vocabulary::Vocabulary as _;

use shared::http::field::{
    AtMost, BodyFields, CPF_OR_CNPJ, Dictionary, EMAIL, EMAIL_CHARS, Field, Integer, MinorAmount, Nested,
    Only, Parsed, Presence, Refined, Text,
};
use shared::http::json::JsonPath;
use shared::http::{Fields, JsonObject, JsonValue, Object};

shared::fields! {
    AMOUNT: MinorAmount = "amount", MinorAmount, Required, 1000,
        "The amount to be paid, in centavos.";
    CURRENCY: Only<Currency> = "currency",
        Only { word: "BRL", value: Currency::BRL, rule: "must be BRL, the only currency of Pix" },
        DefaultsTo("BRL"), "BRL",
        "The currency of the amount.";
    PAYMENT_METHOD: Only<PaymentMethod> = "payment_method",
        Only { word: "pix", value: PaymentMethod::Pix, rule: "must be pix" }, Required, "pix",
        "The payment method.";
    DESCRIPTION: Text = "description", Text::lines(0, 500), Optional, "Order 1001",
        "The purpose of the payment, which the payer reads. Responses show it as `metadata.description`. It may contain line breaks.";
    EXPIRES_IN: Integer = "expires_in",
        Integer { min: 60, max: AtMost::Capped(86_400), unit: "seconds" }, Optional, 3600,
        "Seconds until the charge expires. Values above 86400 are reduced to 86400. The default is the account's setting.";
    /// Also of a payment. The maximum is that of `devedor.nome` in API Pix.
    pub(super) CUSTOMER_NAME: Text = "name", Text::one_line(0, 200), Optional, "Maria Silva",
        "The customer's name, one line. It is required when `expected_payer_tax_id` is sent.";
    CUSTOMER_DOCUMENT: Parsed<TaxId> = "document",
        // The parser gets the document as `normalised` left it.
        Parsed {
            chars: (0, MAX_PUNCTUATED),
            pattern: Some("^[0-9A-Z ./-]*$"),
            rule: "must be an 11-digit CPF or a 14-character CNPJ with valid check digits",
            ..CPF_OR_CNPJ
        },
        Optional, "29537995593",
        "The customer's CPF or CNPJ, with or without its punctuation. Responses show it without.";
    pub(super) CUSTOMER_EMAIL: Refined<String> = "email",
        Refined { text: Text::one_line(0, EMAIL_CHARS.1), format: None, ..EMAIL }, Optional, "maria@example.com",
        "The customer's e-mail address (RFC 5322).";
    CUSTOMER_PHONE: Text = "phone", Text::of(0, 32), Optional, "+5511999999999",
        "The customer's phone number, in any form.";
    CUSTOMER: Nested = "customer",
        Nested { fields: &[&CUSTOMER_NAME, &CUSTOMER_DOCUMENT, &CUSTOMER_EMAIL, &CUSTOMER_PHONE] },
        Optional, {"name": "Maria Silva", "document": "29537995593"},
        "The customer who is to pay. An empty text counts as absent.";
    EXPECTED_PAYER: Parsed<TaxId> = "expected_payer_tax_id", CPF_OR_CNPJ, Optional, "29537995593",
        "The payer lock: only a payment from this CPF or CNPJ is credited. It requires `customer.name`, and must equal `customer.document` when both are sent.";
    pub(crate) METADATA: Dictionary = "metadata",
        Dictionary { max_keys: metadata::MAX_KEYS }, Optional, {"order_id": "1001"},
        "Data of your own, at most 16384 bytes of JSON. Keys that start with `_`, and the keys `med` and `failure`, are removed and do not count.";
}

const PIX_PAYMENT_METHOD: Field<Only<PaymentMethod>> =
    Field { presence: Presence::DefaultsTo("\"pix\""), ..PAYMENT_METHOD };

pub const CHARGE_BODY: BodyFields = BodyFields::open(&[
    &AMOUNT,
    &CURRENCY,
    &PAYMENT_METHOD,
    &DESCRIPTION,
    &EXPIRES_IN,
    &CUSTOMER,
    &EXPECTED_PAYER,
    &METADATA,
]);

pub const PIX_CHARGE_BODY: BodyFields = BodyFields::open(&[
    &AMOUNT,
    &CURRENCY,
    &PIX_PAYMENT_METHOD,
    &DESCRIPTION,
    &EXPIRES_IN,
    &CUSTOMER,
    &EXPECTED_PAYER,
    &METADATA,
]);

/// The fields of `customer`, which are all texts.
const CUSTOMER_TEXTS: [&str; 4] =
    [CUSTOMER_NAME.name, CUSTOMER_DOCUMENT.name, CUSTOMER_EMAIL.name, CUSTOMER_PHONE.name];

/// The longest CPF or CNPJ with its punctuation, in characters.
const MAX_PUNCTUATED: usize = "11.222.333/0001-81".len();

/// For a number that JSON clients would read back as a different number.
const INEXACT_NUMBER: &str = "must be an integer of at most 64 bits or a decimal of at most 15 significant digits; send any other number as a string";

/// SHA-256 truncated to 128 bits, at which a collision is not a practical risk.
const HASH_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChargeRoute {
    /// `payment_method` is required.
    Charges,
    /// `payment_method` is optional, since it is always Pix.
    PixCharges,
}

/// The account's defaults are not applied yet.
#[derive(Clone, Debug)]
pub struct NewCharge {
    pub amount: Amount,
    pub currency: Currency,
    pub methods: Vec<PaymentMethod>,
    /// `None`: the account's default.
    pub pix_expires_in_seconds: Option<i64>,
    pub customer: Customer,
    /// Only a payment from this tax id is credited.
    pub expected_payer: Option<TaxId>,
    pub metadata: Metadata,
    /// `None` for a request to a charge route.
    pub payment_details: Option<PaymentDetails>,
    /// 128 bits in hex. It does not depend on whitespace, the order of keys, or the notation of strings.
    pub hash: String,
}

impl NewCharge {
    /// Adds every failing field to `fields`. The request is valid only if `fields` has no failure.
    pub fn from_body(fields: &mut Fields, body: &JsonObject, route: ChargeRoute) -> Option<Self> {
        let (body_fields, payment_method) = match route {
            ChargeRoute::Charges => (CHARGE_BODY, PAYMENT_METHOD),
            ChargeRoute::PixCharges => (PIX_CHARGE_BODY, PIX_PAYMENT_METHOD),
        };
        let body = &normalised(body);
        let root = fields.body(body, body_fields);
        let amount = fields.read(&root, &AMOUNT);
        let currency = fields.read(&root, &CURRENCY);
        let method = fields.read(&root, &payment_method);
        let description = fields.read(&root, &DESCRIPTION);
        let expires_in_seconds = fields.read(&root, &EXPIRES_IN);
        let sent_customer = fields.object(&root, &CUSTOMER);
        let customer = Customer {
            name: fields.read(&sent_customer, &CUSTOMER_NAME),
            document: fields.read(&sent_customer, &CUSTOMER_DOCUMENT).map(Document::from),
            email: fields.read(&sent_customer, &CUSTOMER_EMAIL),
            phone: fields.read(&sent_customer, &CUSTOMER_PHONE),
        };
        let expected_payer = payer_lock(fields, &root, &customer);
        let sent_metadata = fields.dictionary(&root, &METADATA);
        let metadata = metadata(fields, sent_metadata, description.as_deref());
        Some(Self {
            amount: amount?,
            currency: currency?,
            methods: vec![method?],
            pix_expires_in_seconds: expires_in_seconds,
            customer,
            expected_payer,
            metadata,
            payment_details: None,
            hash: hash(body),
        })
    }
}

/// Returns a body without the notations that programs vary and that have one meaning: punctuation of a CPF or CNPJ,
/// empty texts of the customer and an empty description, a currency in lower case, a method named twice, and PHP's empty array
/// as metadata.
/// So all notations of a request have one hash. `expected_payer_tax_id` and amounts stay as they were sent.
pub(crate) fn normalised(body: &JsonObject) -> JsonObject {
    let mut body = body.clone();
    let of_customer = ["customerName", "customerDocument", "customerEmail", DESCRIPTION.name];
    normalise(&mut body, &of_customer, "customerDocument");
    if let Some(JsonValue::Object(customer)) = body.get_mut(CUSTOMER.name) {
        normalise(customer, &CUSTOMER_TEXTS, CUSTOMER_DOCUMENT.name);
    }
    if let Some(JsonValue::String(currency)) = body.get_mut(CURRENCY.name) {
        currency.make_ascii_uppercase();
    }
    if let Some(JsonValue::Array(methods)) = body.get_mut("paymentMethods")
        // A longer list is refused, and a shorter form of it would not be.
        && methods.len() <= PaymentMethod::vocabulary().len()
    {
        let mut seen = BTreeSet::new();
        methods.retain(|method| method.as_str().is_none_or(|word| seen.insert(word.to_owned())));
    }
    if let Some(metadata) = body.get_mut(METADATA.name)
        && metadata.as_array().is_some_and(<[JsonValue]>::is_empty)
    {
        *metadata = JsonValue::Object(JsonObject::new());
    }
    body
}

/// Removes empty texts under these names, and the punctuation of a document that is a CPF or CNPJ.
fn normalise(object: &mut JsonObject, names: &[&str], document: &str) {
    object.retain(|name, value| !names.contains(&name.as_str()) || value.as_str() != Some(""));
    if let Some(JsonValue::String(sent)) = object.get_mut(document)
        && sent.len() <= MAX_PUNCTUATED
        && sent.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b' ' | b'.' | b'/' | b'-'))
        && let Some(bare) = TaxId::from_typed(sent)
    {
        bare.as_str().clone_into(sent);
    }
}

fn payer_lock(fields: &mut Fields, root: &Object<'_>, customer: &Customer) -> Option<TaxId> {
    if !root.has_value(&EXPECTED_PAYER) {
        return None;
    }
    let expected = fields.read(root, &EXPECTED_PAYER);
    if customer.name.is_none() && !fields.has_rejected("customer.name") && !fields.has_rejected("customer") {
        fields.reject("customer.name", "is required when expected_payer_tax_id is sent");
    }
    if let (Some(expected), Some(document)) = (&expected, &customer.document)
        && expected.as_str() != document.as_str()
    {
        fields.reject(EXPECTED_PAYER.name, "must equal customer.document when both are sent");
    }
    expected
}

pub(crate) fn metadata(
    fields: &mut Fields,
    sent_map: Option<&JsonObject>,
    description: Option<&str>,
) -> Metadata {
    let mut sent = Map::new();
    let path = JsonPath::Field(&JsonPath::Root, METADATA.name);
    for (key, value) in sent_map.into_iter().flatten().filter(|(key, _)| Metadata::keeps(key)) {
        let path = JsonPath::Field(&path, key);
        let value = value.with_64_bit_numbers(&path, &mut |path| fields.reject(path, INEXACT_NUMBER));
        sent.insert(key.clone(), value);
    }
    let max_keys = METADATA.kind.max_keys;
    if sent.len() > max_keys {
        fields.reject(METADATA.name, format!("must have at most {max_keys} keys"));
    }
    if serde_json::to_vec(&sent).map_or(usize::MAX, |json| json.len()) > metadata::MAX_BYTES {
        fields.reject(METADATA.name, format!("must be at most {} bytes of JSON", metadata::MAX_BYTES));
    }
    Metadata::from_request(&sent, description)
}

/// Sets `payment_method` to `pix` first: the Pix route accepts a request without it, and the same request must
/// have the same hash on both routes.
fn hash(body: &JsonObject) -> String {
    let mut normalised = body.clone();
    normalised.insert("payment_method".to_owned(), JsonValue::String("pix".to_owned()));
    canonical_hash(normalised)
}

/// Hashes a body in canonical form: keys sorted, escapes of strings decoded, numbers as sent, without the
/// `null` fields of the body and of `customer`.
pub(crate) fn canonical_hash(body: JsonObject) -> String {
    let mut present = body;
    present.retain(|_, value| !value.is_null());
    if let Some(JsonValue::Object(customer)) = present.get_mut("customer") {
        customer.retain(|_, value| !value.is_null());
    }
    let mut text = String::new();
    write_canonical(&JsonValue::Object(present), &mut text);
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let (truncated, _) = digest.split_at(HASH_BYTES);
    hex::encode(truncated)
}

fn write_canonical(value: &JsonValue, out: &mut String) {
    match value {
        JsonValue::Object(map) => {
            out.push('{');
            for (key, value) in map {
                out.push_str(&quoted(key));
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        JsonValue::Array(values) => {
            out.push('[');
            for value in values {
                write_canonical(value, out);
                out.push(',');
            }
            out.push(']');
        }
        JsonValue::Number(number) => out.push_str(number.as_str()),
        JsonValue::String(text) => out.push_str(&quoted(text)),
        JsonValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        JsonValue::Null => out.push_str("null"),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::charge::request::*;
    use shared::http::Problem;
    use shared::http::json;

    fn parse(text: &str) -> Result<NewCharge, Problem> {
        let body = json::parse_object(text.as_bytes()).unwrap();
        let mut fields = Fields::new();
        let request = NewCharge::from_body(&mut fields, &body, ChargeRoute::Charges);
        fields.finish(request)
    }

    fn body_with(extra: Value) -> String {
        let mut body = json!({"amount": 1000, "payment_method": "pix"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body.to_string()
    }

    fn failure_of(text: &str) -> (&'static str, Vec<String>) {
        let problem = parse(text).unwrap_err();
        match &problem {
            Problem::Invalid(details) | Problem::InvalidAmount(details) => {
                (problem.code(), details.iter().map(|detail| detail.param.clone()).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_amount_is_a_positive_integer_within_the_maximum() {
        let with_amount = |amount: &str| format!(r#"{{"amount":{amount},"payment_method":"pix"}}"#);
        for amount in [
            "0 -1 1.5 10.0 \"10\" true null 1000000000000 18446744073709551615",
            "1e400 -1e400 1e3 99999999999999999999999999",
        ]
        .join(" ")
        .split(' ')
        {
            let refused = failure_of(&with_amount(amount));
            assert_eq!(refused, ("invalid_amount", vec!["amount".to_owned()]), "{amount}");
        }
        assert_eq!(parse(&with_amount("999999999999")).unwrap().amount, Amount::MAX);
    }

    #[test]
    fn values_that_only_look_valid_are_refused() {
        let cases = [
            (json!({"description": "x".repeat(501)}), "description"),
            (json!({"customer": {"name": "\u{200b}\u{2060}"}}), "customer.name"),
            (json!({"customer": {"email": "maria..silva@example.com"}}), "customer.email"),
            (json!({"description": "a\tb"}), "description"),
            (json!({"customer": {"document": "29537995594"}}), "customer.document"),
            (
                json!({"expected_payer_tax_id": "295.379.955-93", "customer": {"name": "A"}}),
                "expected_payer_tax_id",
            ),
        ];
        for (extra, param) in cases {
            assert_eq!(failure_of(&body_with(extra)), ("invalid_request", vec![param.to_owned()]));
        }
    }

    #[test]
    fn stripped_metadata_keys_do_not_count_toward_the_limits() {
        let mut sent: Map<String, Value> = (0..50).map(|key| (key.to_string(), json!(1))).collect();
        for key in ["_a", "_b", "med", "failure"] {
            sent.insert(key.to_owned(), json!("x".repeat(16 * 1024)));
        }
        let kept = parse(&body_with(json!({ "metadata": sent }))).unwrap().metadata.to_map();
        assert_eq!(kept.len(), 50);
        parse(r#"{"amount":1000,"payment_method":"pix","metadata":{"_n":1e400}}"#).unwrap();
    }

    #[test]
    fn line_breaks_in_a_description_and_any_script_in_a_name_are_accepted() {
        let body = body_with(json!({
            "description": "Pedido 7\r\nEntregue à tarde\n",
            "customer": {"name": "משה כהן \u{1f468}\u{200d}\u{1f469}", "email": "\"m s\"@example.com"},
        }));
        parse(&body).unwrap();
    }

    #[test]
    fn expires_in_is_capped_at_a_day_and_its_bounds_are_inclusive() {
        for (sent, kept) in [(60, 60), (86_400, 86_400), (86_401, 86_400), (i64::MAX, 86_400)] {
            assert_eq!(
                parse(&body_with(json!({"expires_in": sent}))).unwrap().pix_expires_in_seconds,
                Some(kept)
            );
        }
        assert_eq!(parse(&body_with(json!({}))).unwrap().pix_expires_in_seconds, None);
        let text = r#"{"amount":1000,"payment_method":"pix","expires_in":99999999999999999999999999}"#;
        assert_eq!(parse(text).unwrap().pix_expires_in_seconds, Some(86_400));
        let below = r#"{"amount":1000,"payment_method":"pix","expires_in":-99999999999999999999999999}"#;
        assert_eq!(failure_of(below).1, ["expires_in"]);
    }

    #[test]
    fn a_metadata_number_that_loses_precision_is_reported_by_its_path() {
        let text = r#"{"amount":1000,"payment_method":"pix","metadata":{
            "order":18446744073709551616,"fits":18446744073709551615,"price":1.50,
            "lines":[{"price":0.1},{"price":0.1000000000000000055}],"deep":{"a":{"b":1e400}}}}"#;
        let paths = ["metadata.deep.a.b", "metadata.lines[1].price", "metadata.order"];
        assert_eq!(failure_of(text).1, paths);
    }

    #[test]
    fn all_notations_of_one_request_have_one_hash() {
        let plain =
            parse(&body_with(json!({"customer": {"document": "29537995593"}, "metadata": {}}))).unwrap();
        for (customer, more) in [
            (json!({"document": "295.379.955-93"}), json!({"metadata": []})),
            (json!({"document": "295 379 955 93", "name": ""}), json!({"description": "", "metadata": {}})),
            (json!({"document": "29537995593", "email": "", "phone": ""}), json!({"metadata": {}})),
        ] {
            let mut body = json!({ "customer": customer });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let other = parse(&body_with(body.clone())).unwrap();
            assert_eq!((other.hash, other.customer), (plain.hash.clone(), plain.customer.clone()), "{body}");
        }
        let currency = |currency: &str| parse(&body_with(json!({ "currency": currency }))).unwrap().hash;
        assert_eq!(currency("brl"), currency("BRL"));
        for (extra, param) in [
            (json!({"customer": {"document": "295.379.955-94"}}), "customer.document"),
            (json!({"customer": {"document": "295_379_955_93"}}), "customer.document"),
            (json!({"metadata": [1]}), "metadata"),
            (json!({"expected_payer_tax_id": "", "customer": {"name": "A"}}), "expected_payer_tax_id"),
        ] {
            assert_eq!(failure_of(&body_with(extra)).1, [param]);
        }
        let lower = parse(&body_with(json!({"customer": {"document": "12abc34501de35"}}))).unwrap_err();
        assert!(format!("{lower:?}").contains("must be a CNPJ with its letters in upper case"), "{lower:?}");
    }

    #[test]
    fn an_alphanumeric_cnpj_can_lock_the_payer() {
        let body =
            body_with(json!({"expected_payer_tax_id": "12ABC34501DE35", "customer": {"name": "Loja"}}));
        assert_eq!(parse(&body).unwrap().expected_payer.unwrap().as_str(), "12ABC34501DE35");
    }

    #[test]
    fn the_hash_of_a_request_matches_hashes_stored_earlier() {
        let text = r#"{"payment_method":"pix","amount":1000,"metadata":{"c":18446744073709551615,"b":["é",1e2,null],"a":1.50}}"#;
        insta::assert_snapshot!(parse(text).unwrap().hash, @"e303b7bc30f49df323dd4d61985f7e87");
    }

    #[test]
    fn any_difference_in_the_body_changes_the_hash() {
        let bodies = [
            r#"{"amount":1000,"payment_method":"pix"}"#,
            r#"{"amount":1001,"payment_method":"pix"}"#,
            r#"{"amount":1000,"payment_method":"pix","expires_in":3600}"#,
            r#"{"amount":1000,"payment_method":"pix","metadata":{"a":"1"}}"#,
            r#"{"amount":1000,"payment_method":"pix","metadata":{"a":1}}"#,
            r#"{"amount":1000,"payment_method":"pix","metadata":{"a":1.0}}"#,
            r#"{"amount":1000,"payment_method":"pix","metadata":{"a":[1]}}"#,
            r#"{"amount":1000,"payment_method":"pix","metadata":{"a":[[1]]}}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":true}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":18446744073709551616}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":18446744073709551617}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":0.1}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":0.1000000000000000055}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":1e400}"#,
            r#"{"amount":1000,"payment_method":"pix","unknown":1e401}"#,
            r#"{"amount": 1000, "payment_method": "pix", "metadata": {"_n": 1}}"#,
            r#"{"amount": 1000, "payment_method": "pix", "metadata": {"_n": 2}}"#,
            r#"{"amount": 1000, "payment_method": "pix", "_unknown": 1}"#,
        ];
        let hashes: std::collections::BTreeSet<String> =
            bodies.iter().map(|body| parse(body).unwrap().hash).collect();
        assert_eq!(hashes.len(), bodies.len());
    }

    #[test]
    fn metadata_of_the_largest_size_is_accepted() {
        let with_bytes = |bytes: usize| {
            let metadata = json!({"k": "x".repeat(bytes - r#"{"k":""}"#.len())});
            assert_eq!(metadata.to_string().len(), bytes);
            parse(&body_with(json!({ "metadata": metadata })))
        };
        with_bytes(metadata::MAX_BYTES).unwrap();
        assert!(with_bytes(metadata::MAX_BYTES + 1).is_err());
    }
}
