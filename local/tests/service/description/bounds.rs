//! Sends min − 1, min, max and max + 1 of every described bound to the running service.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};

use super::strict;
use crate::support::{Answer, Service, id};

/// Bounds that are not sent: operation, field, reason.
const NOT_SENT: [(&str, &str, &str); 3] = [
    ("createPayment", "paymentMethods", "no currency is accepted by all methods together"),
    ("createRefund", "destinationKey", "a Pix key has one of five forms"),
    ("payTestCharge", "method", "it must be one of the charge's methods"),
];

/// Fields whose pattern determines their length, such as ids, times and tax ids.
const OF_FIXED_FORM: [&str; 16] = [
    "charge_id",
    "created_after",
    "created_before",
    "currency",
    "customer.document",
    "endDate",
    "end_to_end_id",
    "endpointId",
    "expected_payer_tax_id",
    "id",
    "object",
    "paid_at",
    "payer_tax_id",
    "response_deadline",
    "startDate",
    "starting_after",
];

/// A value at the edge of a bound, and whether the service must accept it.
struct Edge {
    value: Value,
    is_inside: bool,
}

/// Objects that requests name in their paths.
struct Objects {
    charge: String,
    settled: String,
    case: String,
    refund: String,
    endpoint: String,
    api_key: String,
}

impl Objects {
    async fn create(service: &Service) -> Self {
        let (charge, settled) = (service.charge().await, service.charge().await);
        service.sandbox(&settled, "pay", &json!({})).await;
        let refunded = service.charge().await;
        service.sandbox(&refunded, "pay", &json!({})).await;
        let refund = json!({"idempotencyKey": "refund-0001", "amount": 1, "strategy": "devolution", "reason": "sandbox:hold"});
        let path = format!("/v1/payments/{}/refund", id(&refunded));
        let refund = service.post(&path, &refund).await.expect(201);
        let claimed = service.charge().await;
        service.sandbox(&claimed, "pay", &json!({})).await;
        let path = format!("/v1/sandbox/charges/{}/med-cases", id(&claimed));
        let case = service.post(&path, &json!({})).await.expect(201);
        let endpoint = service.register_endpoint("https://example.com/hook", &["charge.paid"]).await;
        let token = bearer(service);
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let key = service.raw(Method::POST, "/v1/api-keys", &headers, r#"{"test": true}"#).await.expect(201);
        Self {
            charge: id(&charge).to_owned(),
            settled: id(&settled).to_owned(),
            case: id(&case).to_owned(),
            refund: id(&refund).to_owned(),
            endpoint: id(&endpoint).to_owned(),
            api_key: id(&key).to_owned(),
        }
    }

    /// Replaces the variable of a path.
    fn path(&self, template: &str) -> String {
        let id = match template {
            _ if template.contains("/api-keys/") => &self.api_key,
            _ if template.contains("/endpoints/") => &self.endpoint,
            _ if template.contains("/refunds/") => &self.refund,
            _ if template.contains("/cases/") || template.contains("/infractions/") => &self.case,
            _ if template.ends_with("/refund") || template.ends_with("/med-cases") => &self.settled,
            _ => &self.charge,
        };
        template.replace("{id}", id)
    }
}

/// Returns the `Authorization` of the first account's owner.
fn bearer(service: &Service) -> String {
    let ready = service.stack.ready().unwrap();
    format!("Bearer {}", ready["dashboard"]["token"].as_str().unwrap())
}

/// Returns the values at the edges of a schema's bounds.
fn edges(schema: &Value) -> Vec<Edge> {
    let bound = |name: &str| schema[name].as_i64();
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap(),
        kind => kind.as_str().unwrap_or_default(),
    };
    let (min, max) = match kind {
        "string" => (bound("minLength"), bound("maxLength")),
        "integer" => (bound("minimum"), bound("maximum")),
        "array" => (bound("minItems"), bound("maxItems")),
        "object" => (None, bound("maxProperties")),
        _ => (None, None),
    };
    let mut sizes: Vec<(i64, bool)> = Vec::new();
    if let Some(min) = min {
        sizes.extend([(min - 1, false), (min, true)]);
    }
    if let Some(max) = max {
        sizes.extend([(max, true), (max + 1, false)]);
    }
    // A text or list has no negative length.
    sizes.retain(|(size, _)| *size >= 0 || kind == "integer");
    sizes
        .into_iter()
        .filter_map(|(size, is_inside)| Some(Edge { value: of_size(kind, schema, size)?, is_inside }))
        .collect()
}

/// Returns a value of a size, or `None` if the schema has other rules that no such value satisfies.
fn of_size(kind: &str, schema: &Value, size: i64) -> Option<Value> {
    let length = usize::try_from(size).unwrap_or_default();
    match kind {
        "integer" => Some(json!(size)),
        "string" => text_of(schema, length).map(Value::String),
        "array" => {
            let words = schema["items"]["enum"].as_array()?;
            Some(words.iter().cycle().take(length).cloned().collect())
        }
        "object" => {
            Some(Value::Object((0..length).map(|number| (format!("key{number}"), json!(1))).collect()))
        }
        _ => None,
    }
}

fn text_of(schema: &Value, length: usize) -> Option<String> {
    match (schema["format"].as_str(), schema["pattern"].as_str()) {
        (None, None) => Some("x".repeat(length)),
        (Some("idn-email"), _) => email_of(length),
        (None, Some("://")) => {
            let start = "https://example.com/";
            Some(format!("{start}{}", "x".repeat(length.checked_sub(start.len())?)))
        }
        _ => None,
    }
}

/// Returns an e-mail address of a length: a local part of at most 64 characters and labels of at most 60.
fn email_of(length: usize) -> Option<String> {
    let local = length.checked_sub(2)?.clamp(1, 64);
    let domain: String = (1..=length.checked_sub(local + 1)?)
        .map(|position| if position % 61 == 0 { '.' } else { 'a' })
        .collect();
    Some(format!("{}@{domain}", "a".repeat(local)))
}

/// A place in a request that a bound is about.
enum Place {
    Query(String),
    Header(String),
    /// The path of a field in the body.
    Body(Vec<String>),
}

impl Place {
    fn param(&self) -> String {
        match self {
            Self::Query(name) | Self::Header(name) => name.clone(),
            Self::Body(path) => path.join("."),
        }
    }
}

/// Collects the bounded places of an operation with their schemas.
fn places(operation: &'static Value) -> Vec<(Place, Value)> {
    let mut found = Vec::new();
    for parameter in operation["parameters"].as_array().unwrap() {
        let parameter = parameter["$ref"].as_str().map_or(parameter, super::resolve);
        let (name, schema) = (parameter["name"].as_str().unwrap().to_owned(), parameter["schema"].clone());
        match parameter["in"].as_str() {
            Some("query") => found.push((Place::Query(name), schema)),
            Some("header") => found.push((Place::Header(name), schema)),
            _ => {}
        }
    }
    if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") {
        fields(schema, &[], &mut found);
    }
    found
}

fn fields(schema: &Value, path: &[String], found: &mut Vec<(Place, Value)>) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, schema) in properties {
        let path = [path, std::slice::from_ref(name)].concat();
        fields(schema, &path, found);
        found.push((Place::Body(path), schema.clone()));
    }
}

/// Sends an operation's example request with one value replaced.
async fn send(
    service: &Service,
    (method, path): (&str, &str),
    operation: &Value,
    place: &Place,
    value: &Value,
) -> Answer {
    let unique = uuid::Uuid::new_v4().to_string();
    let mut url = path.to_owned();
    let mut idempotency_key = unique.clone();
    let example = operation.pointer("/requestBody/content/application~1json/examples/default/value");
    let mut body = example.cloned().unwrap_or(Value::Null);
    if body.get("idempotencyKey").is_some() {
        body["idempotencyKey"] = json!(unique);
    }
    match place {
        Place::Query(name) => {
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            url = format!("{url}?{name}={text}");
        }
        Place::Header(_) => value.as_str().unwrap().clone_into(&mut idempotency_key),
        Place::Body(path) => {
            let mut at = &mut body;
            for name in path {
                if at.is_null() {
                    *at = json!({});
                }
                at = at.as_object_mut().unwrap().entry(name).or_insert(Value::Null);
            }
            *at = value.clone();
        }
    }
    let token = bearer(service);
    let key = service.key();
    let credential = match operation["security"].pointer("/0") {
        Some(security) if security.get("dashboardToken").is_some() => ("authorization", token.as_str()),
        _ => ("apikey", key.as_str()),
    };
    let headers =
        [credential, ("content-type", "application/json"), ("idempotency-key", idempotency_key.as_str())];
    let text = if body.is_null() { String::new() } else { body.to_string() };
    service.raw(method.parse().unwrap(), &url, &headers, text).await
}

#[tokio::test]
async fn every_bound_of_the_description_is_the_services() {
    let service = Service::start().await;
    let objects = Objects::create(&service).await;
    let mut of_fixed_form: BTreeSet<String> = BTreeSet::new();
    let mut differing = Vec::new();
    let mut sent = 0;
    for (template, operations) in strict()["paths"].as_object().unwrap() {
        // Banks' requests need the token of a URL and a signature. `.ci/schemathesis` sends their bounds.
        if template.starts_with("/v1/acquirer-events/") {
            continue;
        }
        for (method, operation) in operations.as_object().unwrap() {
            for (place, schema) in places(operation) {
                let param = place.param();
                let name = operation["operationId"].as_str().unwrap();
                if NOT_SENT.iter().any(|(operation, field, _reason)| (*operation, *field) == (name, &param)) {
                    continue;
                }
                let edges = edges(&schema);
                if edges.is_empty() && schema.get("maxLength").is_some() {
                    of_fixed_form.insert(param.clone());
                }
                for Edge { value, is_inside } in edges {
                    let path = objects.path(template);
                    let route = (method.to_uppercase(), path);
                    let answer = send(&service, (&route.0, &route.1), operation, &place, &value).await;
                    let is_rejected = answer.status == 400 && answer.params().contains(&param.as_str());
                    if is_rejected == is_inside {
                        let text = value.to_string();
                        let start: String = text.chars().take(60).collect();
                        differing.push(format!(
                            "{name}: {param} = {start} ({} bytes): {}",
                            text.len(),
                            answer.body
                        ));
                    }
                    sent += 1;
                }
            }
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(of_fixed_form, OF_FIXED_FORM.map(ToOwned::to_owned).into());
    assert!(sent > 150, "{sent}");
}
