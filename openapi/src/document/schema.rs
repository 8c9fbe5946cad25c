//! JSON Schemas of request fields.
#![expect(clippy::indexing_slicing, reason = "an assignment to a key adds it to a JSON object")]

use serde_json::{Map, Value, json};
use shared::http::field::{BodyFields, Definition, Values, definitions};

pub(super) fn of_body(body: BodyFields) -> Value {
    let mut schema = of_object(&definitions(body.known));
    if body.is_strict {
        schema["additionalProperties"] = false.into();
    }
    schema
}

/// Returns the schema of an object. It accepts unknown fields, because the service ignores them. Most optional
/// fields may be null, because null means that the field is absent.
pub(super) fn of_object(fields: &[Definition]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), of_property(field))).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Returns the schema of a bank's notification of Pix. Its elements have no schema, because the service sets
/// malformed ones aside and processes the others.
pub(super) fn of_pix_notification() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pix": {
                "type": ["array", "null"],
                "items": {},
                "maxItems": 1_000,
                "description": "The payments. Of each, the service reads `endToEndId`, `txid`, and `id` and `status` of its `devolucoes`. Without this field, the request tests the URL.",
            },
        },
    })
}

fn of_property(field: &Definition) -> Value {
    let mut schema = of_parameter(field);
    schema["description"] = json!(field.text);
    if field.nullable {
        allow_null(&mut schema);
    }
    schema
}

pub(super) fn of_parameter(field: &Definition) -> Value {
    let mut schema = of_values(&field.values);
    if let Some(default) = &field.default {
        schema["default"] = default.clone();
    }
    if !field.example.is_null() {
        schema["examples"] = json!([field.example]);
    }
    schema
}

fn of_values(values: &Values) -> Value {
    let mut schema = match values {
        Values::Text { min, max, pattern, format } => {
            json!({"type": "string", "minLength": min, "maxLength": max, "pattern": pattern, "format": format})
        }
        Values::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Values::Boolean => json!({"type": "boolean"}),
        Values::Words(words) => json!({"type": "string", "enum": words}),
        Values::List { of, min, max } => {
            let max = Some(max).filter(|max| **max != usize::MAX);
            json!({"type": "array", "items": of_values(of), "minItems": min, "maxItems": max})
        }
        Values::Object(fields) => of_object(fields),
        Values::Dictionary { max_keys } => {
            json!({"type": "object", "additionalProperties": true, "maxProperties": max_keys})
        }
    };
    if let Some(keywords) = schema.as_object_mut() {
        keywords.retain(|_, value| !value.is_null());
    }
    schema
}

fn allow_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(kind) = object.get("type").cloned() {
        object.insert("type".to_owned(), json!([kind, "null"]));
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.push(Value::Null);
    }
}
