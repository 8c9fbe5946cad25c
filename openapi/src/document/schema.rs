//! JSON Schemas of request fields.

use serde_json::{Map, Value, json};
use shared::http::field::{BodyFields, Definition, Definitions, Values, definitions};

pub(super) fn of_body(body: BodyFields) -> Value {
    let mut schema = of_object(&definitions(body.known));
    if body.is_strict {
        set(&mut schema, "additionalProperties", json!(false));
    }
    schema
}

pub(super) fn of_form(fields: Definitions) -> Value {
    of_object(&definitions(fields))
}

/// Returns the schema of an object. It accepts unknown fields, because the service ignores them. Most optional
/// fields may be null, because null means that the field is absent.
fn of_object(fields: &[Definition]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        properties.insert(field.name.to_owned(), of_property(field));
    }
    let required: Vec<&str> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        set(&mut schema, "required", json!(required));
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
    let mut schema = of_field(field);
    if field.nullable {
        allow_null(&mut schema);
    }
    schema
}

fn of_field(field: &Definition) -> Value {
    let mut schema = of_parameter(field);
    set(&mut schema, "description", json!(field.text));
    schema
}

pub(super) fn of_parameter(field: &Definition) -> Value {
    let mut schema = of_values(&field.values);
    if let Some(default) = &field.default {
        set(&mut schema, "default", default.clone());
    }
    if !field.example.is_null() {
        set(&mut schema, "examples", json!([field.example]));
    }
    schema
}

fn of_values(values: &Values) -> Value {
    match values {
        Values::Text { min, max, pattern, format } => {
            let mut schema = json!({"type": "string", "minLength": min, "maxLength": max});
            if let Some(pattern) = pattern {
                set(&mut schema, "pattern", json!(pattern));
            }
            if let Some(format) = format {
                set(&mut schema, "format", json!(format));
            }
            schema
        }
        Values::Integer { min, max } => {
            let mut schema = json!({"type": "integer", "minimum": min});
            if let Some(max) = max {
                set(&mut schema, "maximum", json!(max));
            }
            schema
        }
        Values::Boolean => json!({"type": "boolean"}),
        Values::Words(words) => json!({"type": "string", "enum": words}),
        Values::List { of, min, max } => {
            let mut schema = json!({"type": "array", "items": of_values(of), "minItems": min});
            if *max != usize::MAX {
                set(&mut schema, "maxItems", json!(max));
            }
            schema
        }
        Values::Object(fields) => of_object(fields),
        Values::Dictionary { max_keys } => {
            json!({"type": "object", "additionalProperties": true, "maxProperties": max_keys})
        }
    }
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

fn set(schema: &mut Value, key: &str, value: Value) {
    if let Some(object) = schema.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
