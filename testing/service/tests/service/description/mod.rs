//! Compares the service with its OpenAPI description: each response and webhook of every test, and the list of
//! routes. `.ci/schemathesis` sends the bounds of the fields, which validation and description share.

mod examples;
mod routes;
mod served;

pub(crate) use served::{all_routes, form_routes};

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::OnceLock;

use axum::http::{HeaderMap, Method, StatusCode};
use boon::{Compiler, Format, SchemaIndex, Schemas};
use domain::webhook::event_type::EventType;
use serde_json::{Value, json};

use crate::support::Answer;

const ADDRESS: &str = "https://service.example/openapi.json";
const ERROR: &str = "/components/schemas/Error";

/// The longest body that the gateway passes to a function, in bytes.
const MAX_GATEWAY_BYTES: usize = 10 * 1024 * 1024;

/// Returns the description with the strictness of these tests: objects have no undocumented fields. The
/// published description permits them, because clients must tolerate new fields.
fn strict() -> &'static Value {
    static STRICT: OnceLock<Value> = OnceLock::new();
    STRICT.get_or_init(|| {
        let mut document = openapi::document();
        for schema in document["components"]["schemas"].as_object_mut().unwrap().values_mut() {
            forbid_other_fields(schema);
        }
        document
    })
}

/// Forbids undocumented fields in a schema and the schemas in it.
fn forbid_other_fields(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.contains_key("properties") && !keywords.contains_key("additionalProperties") {
                // Unlike `additionalProperties`, this keyword permits the properties of schemas under `allOf`.
                keywords.insert("unevaluatedProperties".to_owned(), json!(false));
            }
            for (keyword, value) in keywords {
                // The members of an `allOf` describe the same object, so only the whole can be closed.
                if keyword != "allOf" && keyword != "examples" {
                    forbid_other_fields(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(forbid_other_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the example of a component schema.
pub(crate) fn example(schema: &str) -> Value {
    strict()["components"]["schemas"][schema]["examples"][0].clone()
}

/// Returns the example of an event's body.
pub(crate) fn example_body(event: EventType) -> Value {
    let pointer =
        format!("/webhooks/{}/post/requestBody/content/application~1json/schema/$ref", event.as_str());
    resolve(strict().pointer(&pointer).unwrap().as_str().unwrap())["examples"][0].clone()
}

/// The compiled schemas of a thread, by JSON pointer.
struct Compiled {
    compiler: Compiler,
    schemas: Schemas,
    by_pointer: HashMap<String, SchemaIndex>,
}

impl Compiled {
    fn new() -> Self {
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        // boon refuses long addresses that RFC 5321 permits.
        compiler.register_format(Format { name: "idn-email", func: |_| Ok(()) });
        compiler.add_resource(ADDRESS, strict().clone()).unwrap();
        Self { compiler, schemas: Schemas::new(), by_pointer: HashMap::new() }
    }

    fn check(&mut self, pointer: &str, value: &Value) -> Result<(), String> {
        let index = if let Some(index) = self.by_pointer.get(pointer) {
            *index
        } else {
            let address = format!("{ADDRESS}#{pointer}");
            let index = self.compiler.compile(&address, &mut self.schemas).unwrap();
            self.by_pointer.insert(pointer.to_owned(), index);
            index
        };
        self.schemas.validate(value, index).map_err(|error| format!("{error:#}\n{value:#}"))
    }
}

/// Checks a value against the schema at a JSON pointer of the strict description.
fn check(pointer: &str, value: &Value) -> Result<(), String> {
    thread_local! {
        static COMPILED: RefCell<Compiled> = RefCell::new(Compiled::new());
    }
    COMPILED.with_borrow_mut(|compiled| compiled.check(pointer, value))
}

/// The description of an operation, and where it stands in the document.
struct Described {
    route: String,
    pointer: String,
}

impl Described {
    /// Finds the operation of a request. `None`: the description has no such route.
    fn find(method: &Method, path: &str) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let method = method.as_str().to_ascii_lowercase();
        let paths = strict()["paths"].as_object().unwrap();
        // A literal segment is preferred to a variable: `/v1/payments/stats` is not a payment's id.
        let mut found: Vec<&String> = paths
            .keys()
            .filter(|template| paths[*template].get(&method).is_some() && matches(template, path))
            .collect();
        found.sort_by_key(|template| template.matches('{').count());
        let template = found.first()?;
        Some(Self {
            route: format!("{} {template}", method.to_ascii_uppercase()),
            pointer: format!("/paths/{}/{method}", escaped(template)),
        })
    }

    fn get(&self) -> &'static Value {
        strict().pointer(&self.pointer).unwrap()
    }

    /// Finds the response with a status. Returns it and its JSON pointer.
    fn response(&self, status: u16) -> Option<(&'static Value, String)> {
        let response = self.get()["responses"].get(status.to_string())?;
        Some(match response["$ref"].as_str() {
            Some(reference) => (resolve(reference), reference.trim_start_matches('#').to_owned()),
            None => (response, format!("{}/responses/{status}", self.pointer)),
        })
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let same = |(expected, given): (&&str, &&str)| {
        expected == given || (expected.starts_with('{') && !given.is_empty())
    };
    template.len() == path.len() && template.iter().zip(&path).all(same)
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn resolve(reference: &str) -> &'static Value {
    strict().pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference}"))
}

/// Asserts that a response is one that the description has for its route.
pub(crate) fn assert_described(method: &Method, path: &str, sent: &[u8], answer: &Answer) {
    if let Err(violation) = check_answer(method, path, sent, answer) {
        panic!("{method} {path}: {} is not as the description says: {violation}", answer.status);
    }
}

fn check_answer(method: &Method, path: &str, sent: &[u8], answer: &Answer) -> Result<(), String> {
    let is_local = path.starts_with("/_local/") || (path == "/" && method == Method::GET);
    // Pages are for people; the description is of the API.
    let is_page = path == "/dashboard"
        || path.starts_with("/dashboard/")
        || path.starts_with("/dashboard?")
        || path.starts_with("/pay/");
    let is_of_brand =
        path.starts_with("/checkout/logos/") || path.ends_with("/receipt") && path.starts_with("/checkout/");
    let is_page = is_page || is_of_brand;
    let is_other = is_local || is_page || method == Method::HEAD || method == Method::OPTIONS;
    // These requests reached a host that is not the API's public host.
    let bypassed_the_cdn = answer.body["error"]["code"] == openapi::CDN_REQUIRED.code;
    if is_other || bypassed_the_cdn {
        return Ok(());
    }
    let status = answer.status.as_u16();
    if sent.len() > MAX_GATEWAY_BYTES {
        return check(ERROR, &answer.body).and(expect("status", &400, &status));
    }
    let Some(operation) = Described::find(method, path) else {
        return check(ERROR, &answer.body).and(expect("status", &404, &status));
    };
    let Some((response, pointer)) = operation.response(status) else {
        return Err(format!("{} has no such status", operation.route));
    };
    check_headers(response, &answer.headers)?;
    check_content(response, &pointer, answer)?;
    if answer.status.is_success() { check_accepted(&operation, sent) } else { Ok(()) }
}

fn expect<T: Display + PartialEq>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}")) }
}

/// Checks that the required headers are there, and that all described headers conform.
fn check_headers(response: &Value, headers: &HeaderMap) -> Result<(), String> {
    for (name, reference) in response["headers"].as_object().unwrap() {
        let described = resolve(reference["$ref"].as_str().unwrap());
        let Some(value) = headers.get(name) else {
            if described["required"] == true {
                return Err(format!("no header {name}"));
            }
            continue;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let value = match described["schema"]["type"].as_str() {
            Some("integer") => text.parse::<i64>().map_or_else(|_| json!(text), Value::from),
            _ => json!(text),
        };
        check(&format!("/components/headers/{}/schema", escaped(name)), &value)?;
    }
    Ok(())
}

fn check_content(response: &Value, pointer: &str, answer: &Answer) -> Result<(), String> {
    let Some(contents) = response["content"].as_object() else {
        return expect("bytes of the body", &0, &answer.bytes.len());
    };
    let content_type = answer.header("content-type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some(content) = contents.get(essence) else {
        return Err(format!("content type {content_type}"));
    };
    if content.get("schema").is_none() {
        return Ok(());
    }
    check(&format!("{pointer}/content/{}/schema", escaped(essence)), &answer.body)
}

/// Checks that the body of a successful request is one that the description permits. So the description
/// forbids nothing that the service accepts.
fn check_accepted(operation: &Described, sent: &[u8]) -> Result<(), String> {
    let content = &operation.get()["requestBody"]["content"]["application/json"];
    let Ok(body) = serde_json::from_slice::<Value>(sent) else { return Ok(()) };
    if content.get("schema").is_none() {
        return Ok(());
    }
    let pointer = format!("{}/requestBody/content/application~1json/schema", operation.pointer);
    check(&pointer, &body).map_err(|error| format!("the accepted request: {error}"))
}

/// Checks a received webhook against the description of its event.
pub(crate) fn check_webhook(headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let event = header("x-service-event-type").ok_or("no event type")?;
    let pointer = format!("/webhooks/{}/post", escaped(event));
    let described = strict().pointer(&pointer).ok_or_else(|| format!("no webhook {event}"))?;
    for (index, parameter) in described["parameters"].as_array().unwrap().iter().enumerate() {
        let name = parameter["name"].as_str().unwrap();
        let value = header(name).ok_or_else(|| format!("{event}: no header {name}"))?;
        check(&format!("{pointer}/parameters/{index}/schema"), &json!(value))?;
    }
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    check(&format!("{pointer}/requestBody/content/application~1json/schema"), &body)
        .map_err(|error| format!("{event}: {error}"))
}

#[test]
fn a_response_that_differs_from_the_description_is_found() {
    let headers = [
        ("x-request-id", "req_1"),
        ("content-type", "application/json"),
        ("x-ratelimit-limit-minute", "600"),
        ("x-ratelimit-remaining-minute", "599"),
    ];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let body = json!({
        "error": {"type": "invalid_request_error", "code": "invalid_request", "message": "No."},
        "request_id": "req_1",
    });
    let found = |change: &dyn Fn(&mut Answer)| {
        let headers = HeaderMap::from_iter(headers.clone());
        let mut answer =
            Answer { status: StatusCode::BAD_REQUEST, headers, bytes: "{}".into(), body: body.clone() };
        change(&mut answer);
        check_answer(&Method::GET, "/v1/charges", b"", &answer)
    };
    assert_eq!(found(&|_| {}), Ok(()));
    let changes: [&dyn Fn(&mut Answer); 5] = [
        &|answer| answer.status = StatusCode::IM_A_TEAPOT,
        &|answer| drop(answer.headers.insert("content-type", "text/html".parse().unwrap())),
        &|answer| drop(answer.headers.remove("x-request-id")),
        &|answer| answer.body["error"]["code"] = json!("gone"),
        &|answer| answer.body["error"]["trace"] = json!("x"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert!(found(change).is_err(), "{number}");
    }
}
