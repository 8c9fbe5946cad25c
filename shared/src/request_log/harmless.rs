//! Which parts of bodies the log of requests may contain.

use std::ops::RangeInclusive;

use domain::ids::RawChargeId;
use domain::masking::{mask_json, without_documents};
use serde_json::{Map, Value};

/// The names of fields that the log contains, in requests and in answers, at any depth. Every other field is left
/// out: names and addresses of people, free texts, metadata, URLs, codes to pay with, and all secrets. A test of the
/// description checks that the API has each of them.
pub const HARMLESS_FIELDS: &str = "\
    amount amount_refunded attempts charge_id code createdAt created_at currency customer customerDocument data \
    decision deleted details document endpointId error events evidence_count expected_payer_tax_id expires_at \
    expires_in file_size has_more id localStatus maxAttempts message method mime_type minutes money_outcome object page \
    paidAt paidWith paid_at param passFeeToTenant payer_tax_id paymentMethods payment_method pix providerStatus \
    refundedAmount resent response_deadline situation status strategy total transactionId type updatedAt updated_at";

/// The most bytes of the fields of a body, and of an answer: 4 KB in all.
const MAX_BYTES: usize = 2_048;

/// The most elements of a list.
const MAX_ITEMS: usize = 3;

/// The most characters of a text: a message of an error.
const MAX_CHARS: usize = 200;

/// A longer word of letters, digits, hyphens and underscores may be a key or a token. A secret has 64 of them, an API
/// key 40, the names of fields at most 25.
const MAX_WORD_CHARS: usize = 31;

/// The characters of an id after its prefix. A document has at most 14, a secret 64.
const ID_CHARS: RangeInclusive<usize> = 26..=52;

/// Returns the harmless fields of a JSON object, with masked documents. `None`: it is none, or has no such field.
pub(super) fn harmless_fields(json: &[u8]) -> Option<Map<String, Value>> {
    let mut left = MAX_BYTES;
    let Value::Object(fields) = harmless(&serde_json::from_slice(json).ok()?, &mut left)? else {
        return None;
    };
    Some(fields).filter(|fields| !fields.is_empty())
}

/// What of a value may be logged, while bytes are `left`.
fn harmless(value: &Value, left: &mut usize) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let is_listed = |name: &str| HARMLESS_FIELDS.split(' ').any(|listed| listed == name);
            let kept = fields.iter().filter(|(name, _)| is_listed(name)).filter_map(|(name, value)| {
                // Name, quotes, colon and comma.
                *left = left.checked_sub(name.len().saturating_add(4))?;
                Some((name.clone(), harmless(value, left)?))
            });
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            Some(items.iter().take(MAX_ITEMS).filter_map(|item| harmless(item, left)).collect())
        }
        Value::String(text) => take(harmless_text(text)?.into(), left),
        Value::Null | Value::Bool(_) | Value::Number(_) => take(mask_json(value.clone()), left),
    }
}

fn take(value: Value, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(value.to_string().len())?;
    Some(value)
}

/// Masks the documents of a text and cuts it. `None`: it may contain a URL, a key or a token.
pub(super) fn harmless_text(text: &str) -> Option<String> {
    if is_id(text) {
        return Some(text.to_owned());
    }
    let is_part_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut words = text.split(|c| !is_part_of_word(c));
    if text.contains("://") || words.any(|word| word.len() > MAX_WORD_CHARS) {
        return None;
    }
    Some(without_documents(text).chars().take(MAX_CHARS).collect())
}

/// Whether a text has the form of an id of an object: a UUID, or a prefix such as `ch_` before lower-case letters, digits
/// and hyphens. Keys have capitals or two prefixes, secrets are longer or have none.
pub(super) fn is_id(text: &str) -> bool {
    let is_prefixed = text.split_once('_').is_some_and(|(prefix, rest)| {
        let is_in_id = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (2..=4).contains(&prefix.len())
            && ID_CHARS.contains(&rest.len())
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
            && rest.bytes().all(is_in_id)
    });
    is_prefixed || text.parse::<RawChargeId>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn logged(value: &Value) -> Value {
        harmless_fields(value.to_string().as_bytes()).map_or(Value::Null, Value::Object)
    }

    #[test]
    fn only_listed_fields_remain_and_documents_are_masked() {
        let body = json!({
            "amount": 1990, "metadata": {"cpf": "52998224725"}, "description": "segredo", "apiKey": "x",
            "customer": {"name": "Ana", "document": "52998224725", "email": "ana@example.com"},
            "error": {"message": "The CPF 529.982.247-25 is wrong.", "details": [{"param": "a"}, {}, {}, {"param": "b"}]},
        });
        let expected = json!({
            "amount": 1990, "customer": {"document": "***.982.247-**"},
            "error": {"message": "The CPF ***.982.247-** is wrong.", "details": [{"param": "a"}, {}, {}]},
        });
        assert_eq!(logged(&body), expected);
        for nothing in ["[]", "{", r#"{"secret": "x"}"#] {
            assert_eq!(harmless_fields(nothing.as_bytes()), None);
        }
    }

    #[test]
    fn a_listed_field_never_has_a_key_a_token_or_a_url() {
        let key = format!("ak_test_{}", "a".repeat(32));
        for text in [
            key.clone(),
            format!("`{key}` is not a field of this request."),
            "0".repeat(64),
            format!("whsec_{}", "Ab0".repeat(12)),
            format!("{}.{}", "ey".repeat(20), "x".repeat(40)),
            "https://bucket.example/evidence?X-Amz-Signature=1".to_owned(),
        ] {
            assert_eq!(harmless_text(&text), None, "{text}");
        }
        for id in [
            "ch_fe5392dd-e865-8656-a544-24ef3d590c1b",
            "fe5392dd-e865-8656-a544-24ef3d590c1b",
            "med_7yajwdvt35gsbahg94yx2nj73v0123456789abcdef",
            "invalid_request",
        ] {
            assert_eq!(harmless_text(id).as_deref(), Some(id));
        }
        assert_eq!(harmless_text("cpf_52998224725").as_deref(), Some("cpf_***.982.247-**"));
    }

    #[test]
    fn a_long_body_is_cut() {
        let body = json!({"data": (0..3).map(|_| json!({"message": "é".repeat(5_000)})).collect::<Vec<_>>(),
            "error": vec![vec![vec!["x ".repeat(90); 3]; 3]; 3]});
        let text = logged(&body).to_string();
        assert!((1_000..2_200).contains(&text.len()), "{}", text.len());
    }
}
