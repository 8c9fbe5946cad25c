//! Assembles the OpenAPI document from the operations, the request fields and the response schemas.

mod operation;
mod operations;
mod schema;
mod webhooks;

use std::collections::BTreeMap;

use domain::ids::{
    ApiKeyId, DeliveryId, EndpointId, EventId, EvidenceId, IdText as _, LoggedRequestId, MedCaseId,
    PaymentLinkId, RawChargeId, RecoveryId, RefundId, ReportId, ReportScheduleId,
};
use effects::webhook::event::API_VERSION;
use effects::webhook::samples::SAMPLES;
use serde_json::{Map, Value, json};
use shared::http::field::{Defined, Definition, IDEMPOTENCY_KEY, definitions};
use shared::http::{ErrorCode, ProblemKind};

use self::operation::{Access, Body, Operation};
pub(crate) use self::operations::OPERATIONS;
use self::operations::{MED_ALIAS, TAGS};
use crate::responses::{self, Content};

/// The error of a request that did not pass the CDN in front of the API. No operation lists it, because it
/// arises only at hosts that are not the API's public host.
pub const CDN_REQUIRED: ErrorCode = ProblemKind::CdnBypassed.error_code();

const OVERVIEW: &str = "Pix charges, payments by six methods, refunds, wallets, signed webhooks, MED disputes with evidence, and API keys.\n\nAmounts are integers in the smallest unit of the currency. Timestamps are ISO 8601 in UTC with milliseconds. A key that starts with `ak_test_` uses the sandbox, a key that starts with `ak_live_` moves real money. In a request, a field that is null is treated as absent, except an `amount` whose absence means the whole. Unknown fields are ignored, except one that differs from a known one only in case, `_` or `-`. Refunds, API keys, webhook endpoints and sandbox routes refuse every unknown field. Responses may get new fields, so ignore the fields that you do not know. Every response has the header `X-Request-Id`.";

/// Returns the OpenAPI 3.1 document of the API.
pub fn document() -> Value {
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, text)| json!({"name": name, "description": text})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Payment service",
            "version": API_VERSION,
            "summary": "Pix charges, payments, refunds, wallets, webhooks and MED disputes.",
            "description": OVERVIEW,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The host that serves this description."}],
        "tags": tags,
        "paths": paths(),
        "webhooks": webhooks::all(),
        "components": {
            "schemas": schemas(),
            "responses": error_responses(),
            "parameters": parameters(),
            "headers": headers(),
            "securitySchemes": {
                "apiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "apikey",
                    "description": "An API key, exactly as it was issued.",
                },
                "dashboardToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A token from `POST /v1/auth/login`.",
                },
            },
        },
    })
}

const EXAMPLES: &str = include_str!("../examples.json");

fn schemas() -> BTreeMap<String, Value> {
    let mut schemas = responses::schemas();
    for (name, example) in examples() {
        if let Some(schema) = schemas.get_mut(&name) {
            schema["examples"] = json!([example]);
        }
    }
    schemas
}

fn examples() -> Map<String, Value> {
    // A test parses the file and checks that each schema of a response has an example.
    let files = [EXAMPLES, SAMPLES].map(serde_json::from_str::<Map<String, Value>>);
    files.into_iter().flat_map(Result::unwrap_or_default).collect()
}

/// Returns the routes of all operations, such as `GET /v1/charges/{id}`, with the aliases.
pub fn routes() -> Vec<String> {
    let all = OPERATIONS.iter().flat_map(|operation| {
        let alias = alias_of(operation).map(|path| format!("{} {path}", operation.method()));
        [Some(operation.route.to_owned()), alias]
    });
    all.flatten().collect()
}

fn alias_of(operation: &Operation) -> Option<String> {
    let (path, alias) = MED_ALIAS;
    operation.path().strip_prefix(path).map(|rest| format!("{alias}{rest}"))
}

fn paths() -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let examples = examples();
    for operation in OPERATIONS {
        let method = operation.method().to_ascii_lowercase();
        let described = describe(operation, examples.get(operation.route));
        if let Some(alias) = alias_of(operation) {
            let mut copy = described.clone();
            copy.insert("operationId".to_owned(), json!(format!("{}ByAlias", operation.id)));
            copy.insert("summary".to_owned(), json!(format!("{} (alias)", operation.summary)));
            copy.insert("description".to_owned(), json!(format!("The same as `{}`.", operation.route)));
            paths.entry(alias).or_default().insert(method.clone(), Value::Object(copy));
        }
        paths.entry(operation.path().to_owned()).or_default().insert(method, Value::Object(described));
    }
    json!(paths)
}

fn describe(operation: &Operation, example: Option<&Value>) -> Map<String, Value> {
    let variables = operation.variables();
    let mut parameters: Vec<Value> =
        variables.iter().filter_map(|name| path_parameter(operation, name)).collect();
    parameters.extend(operation.query.iter().map(|field| field_parameter("query", &field.definition())));
    for name in operation.request_headers.iter().chain(&["X-Request-Id"]) {
        parameters.push(json!({"$ref": format!("#/components/parameters/{name}")}));
    }
    let mut described = object([
        ("operationId", json!(operation.id)),
        ("tags", json!([operation.tag])),
        ("summary", json!(operation.summary)),
        ("description", json!(operation.text)),
        ("parameters", json!(parameters)),
        ("responses", responses_of(operation, example)),
        ("security", security(operation.access)),
    ]);
    if let Some(body) = request_body(operation) {
        described.insert("requestBody".to_owned(), body);
    }
    described
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn security(access: Access) -> Value {
    match access {
        Access::ApiKey | Access::TestKey => json!([{"apiKey": []}]),
        Access::Dashboard | Access::DashboardManager => json!([{"dashboardToken": []}]),
        Access::Public | Access::Bank => json!([]),
    }
}

/// The variables of paths, each with its meaning, its pattern and an example. Where several kinds share a name, the text
/// before the variable tells them apart. The first row that a path contains is its variable's.
const PATH_VARIABLES: [(&str, &str, &str, &str); 17] = [
    (
        "{raw_id}",
        "The charge's id without `ch_`.",
        RawChargeId::PATTERN,
        "0197a1c2-3b4d-8e5f-9a6b-7c8d9e0f1a2b",
    ),
    ("{recovery_id}", "The id of the recovery.", RecoveryId::PATTERN, "rc_0000000000k8f2hq6d4v0n7e3a"),
    ("{evidence_id}", "The id of the upload ticket.", EvidenceId::PATTERN, "mev_01m7xszsqwk549s9y2zxghq9p9"),
    ("{page}", "The name of the page.", "^[0-9A-Za-z-]+$", "webhooks"),
    ("{account}", "The account's id.", "^acc_[0-9a-z]+$", "acc_01m7xszsqwk549s9y2zxghq9p9"),
    ("{token}", "The token of the registered URL.", "^[0-9A-Za-z_-]+$", "3f6c0e9b2d"),
    (
        "/api-keys/{id}",
        "The id of the key.",
        ApiKeyId::PATTERN,
        "key_2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    ),
    ("/endpoints/{id}", "The id of the endpoint.", EndpointId::PATTERN, "wh_01m7xszsqwk549s9y2zxghq9p9"),
    ("/deliveries/{id}", "The id of the delivery.", DeliveryId::PATTERN, "wd_01m7xpe60063pqsxx1gmvkjbw5"),
    ("/events/{id}", "The id of the event.", EventId::PATTERN, "evt_01m7xszsqwk549s9y2zxghq9p9"),
    (
        "/requests/{id}",
        "The service's id of the request.",
        LoggedRequestId::PATTERN,
        "req_7d3f0c1e-5a47-4b5e-9d52-6f0f5c1d2a3b",
    ),
    (
        "/payment_links/{id}",
        "The id of the payment link.",
        PaymentLinkId::PATTERN,
        "pl_4dq99pzz62a0r6jw8dmcg87w47",
    ),
    ("/reports/{id}", "The id of the report.", ReportId::PATTERN, "rp_4dq99pzz62a0r6jw8dmcg87w47"),
    (
        "/reports/schedules/{id}",
        "The id of the schedule.",
        ReportScheduleId::PATTERN,
        "rps_01m8nv5t94f5n59qe6gabwmscz",
    ),
    (
        "/refunds/{id}",
        "The id of the refund.",
        RefundId::PATTERN,
        "re_01m7xszsqwk549s9y2zxghq9p901m7xszsqwk549s9",
    ),
    (
        "/cases/{id}",
        "The id of the case.",
        MedCaseId::PATTERN,
        "med_01m7xszsqwk549s9y2zxghq9p901m7xszsqwk549s9",
    ),
    (
        "{id}",
        "The id of the charge or payment, with or without its prefix `ch_` or `tx_`.",
        "^(ch_|tx_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "ch_0197a1c2-3b4d-8e5f-9a6b-7c8d9e0f1a2b",
    ),
];

fn path_parameter(operation: &Operation, name: &str) -> Option<Value> {
    let variable = format!("{{{name}}}");
    let mut rows = PATH_VARIABLES.iter();
    let (_, text, pattern, example) =
        rows.find(|(place, ..)| place.ends_with(&variable) && operation.path().contains(place))?;
    let schema = json!({"type": "string", "pattern": pattern, "examples": [example]});
    Some(parameter("path", name, true, text, &schema))
}

fn field_parameter(place: &str, field: &Definition) -> Value {
    parameter(place, field.name, field.required, field.text, &schema::of_parameter(field))
}

fn parameter(place: &str, name: &str, required: bool, text: &str, schema: &Value) -> Value {
    json!({"in": place, "name": name, "required": required, "description": text, "schema": schema})
}

fn request_body(operation: &Operation) -> Option<Value> {
    let (media_type, schema, example) = match operation.body {
        Body::None => return None,
        Body::Json(fields, example) => ("application/json", schema::of_body(fields), Some(example)),
        Body::Form(fields) => {
            ("application/x-www-form-urlencoded", schema::of_object(&definitions(fields)), None)
        }
        Body::PixNotification(example) => ("application/json", schema::of_pix_notification(), Some(example)),
    };
    let is_required = schema.get("required").is_some();
    // An example is written as JSON in the table of operations, and a test parses all of them.
    let example: Option<Value> = example.and_then(|text| serde_json::from_str(text).ok());
    Some(json!({"required": is_required, "content": {media_type: media(&schema, example.as_ref())}}))
}

fn media(schema: &Value, example: Option<&Value>) -> Value {
    match example {
        Some(example) => json!({"schema": schema, "examples": {"default": {"value": example}}}),
        None => json!({"schema": schema}),
    }
}

fn responses_of(operation: &Operation, example: Option<&Value>) -> Value {
    let mut described = Map::new();
    for success in operation.successes {
        let mut headers = common_headers(operation.access.has_caller());
        for name in operation.response_headers {
            headers.insert((*name).to_owned(), header_reference(name));
        }
        let mut response = object([
            ("description", json!(description_of(success.status))),
            ("headers", Value::Object(headers)),
        ]);
        let content: Map<String, Value> = success
            .contents
            .iter()
            .map(|content| match content {
                Content::Json(name) => {
                    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
                    ("application/json".to_owned(), media(&schema, example))
                }
                Content::Media(media_type) => ((*media_type).to_owned(), json!({})),
            })
            .collect();
        if !content.is_empty() {
            response.insert("content".to_owned(), Value::Object(content));
        }
        described.insert(success.status.to_string(), Value::Object(response));
    }
    for (status, codes) in by_status(&operation.all_errors()) {
        let response = if operation.is_page {
            json!({
                "description": meaning(status),
                "headers": common_headers(false),
                "content": {"text/html": {}},
            })
        } else {
            json!({"$ref": format!("#/components/responses/{}", response_name(status, &codes, operation.access))})
        };
        described.insert(status.to_string(), response);
    }
    Value::Object(described)
}

fn description_of(status: u16) -> &'static str {
    match status {
        201 => "Created.",
        202 => "Accepted: it is processed later.",
        204 => "Done. The response has no body.",
        303 => "The page or file is in `Location`.",
        304 => "The file did not change since the version of `If-None-Match`.",
        _ => "Success.",
    }
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid: fix the field, parameter or header that the error names.",
        401 => "The credential is missing or not valid.",
        403 => "The credential is valid but does not permit this request.",
        404 => "There is no such object in this account and mode.",
        409 => "The request conflicts with an earlier one.",
        422 => "A rule of the business or of the account forbids the request.",
        429 => "Too many requests. Wait for `Retry-After` seconds.",
        500 => "A defect of the service. Retry with the same idempotency key.",
        _ => {
            "A dependency did not answer. Wait for `Retry-After` seconds, then retry with the same idempotency key."
        }
    }
}

fn by_status(errors: &[ErrorCode]) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut grouped: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for error in errors {
        grouped.entry(error.status.as_u16()).or_default().push(*error);
    }
    grouped
}

/// Names the component of an error response, such as `409-idempotency_key_reused`.
fn response_name(status: u16, codes: &[ErrorCode], access: Access) -> String {
    let mut name = status.to_string();
    for error in codes {
        name.push('-');
        name.push_str(error.code);
    }
    if shows_rate_limit(status, access) { format!("{name}-known-caller") } else { name }
}

/// A 500 or 503 may come from the authentication itself.
fn shows_rate_limit(status: u16, access: Access) -> bool {
    status == 429 || (access.has_caller() && !matches!(status, 401 | 500 | 503))
}

fn error_responses() -> Value {
    let mut components = BTreeMap::new();
    for operation in OPERATIONS.iter().filter(|operation| !operation.is_page) {
        for (status, codes) in by_status(&operation.all_errors()) {
            let name = response_name(status, &codes, operation.access);
            components.entry(name).or_insert_with(|| error_response(status, &codes, operation.access));
        }
    }
    json!(components)
}

fn error_response(status: u16, codes: &[ErrorCode], access: Access) -> Value {
    let mut headers = common_headers(shows_rate_limit(status, access));
    if matches!(status, 429 | 503) {
        headers.insert("Retry-After".to_owned(), header_reference("Retry-After"));
    }
    let kind = codes.first().map(|error| error.kind());
    let words: Vec<&str> = codes.iter().map(|error| error.code).collect();
    let schema = json!({
        "allOf": [
            {"$ref": "#/components/schemas/Error"},
            {"properties": {"error": {"properties": {"type": {"const": kind}, "code": {"enum": words}}}}},
        ],
    });
    json!({
        "description": meaning(status),
        "headers": headers,
        "content": {"application/json": {"schema": schema}},
    })
}

const RATE_LIMIT_HEADERS: [&str; 2] = ["X-RateLimit-Limit-Minute", "X-RateLimit-Remaining-Minute"];

fn common_headers(shows_rate_limit: bool) -> Map<String, Value> {
    let mut headers = object([("X-Request-Id", header_reference("X-Request-Id"))]);
    if shows_rate_limit {
        for name in RATE_LIMIT_HEADERS {
            headers.insert(name.to_owned(), header_reference(name));
        }
    }
    headers
}

fn header_reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

fn headers() -> Value {
    let text = |description: &str, required: bool| json!({"description": description, "required": required, "schema": {"type": "string"}});
    let integer = |description: &str, minimum: i64| json!({"description": description, "required": true, "schema": {"type": "integer", "minimum": minimum}});
    json!({
        "X-Request-Id": text("The request's `X-Request-Id`, or a generated id.", true),
        "X-RateLimit-Limit-Minute": integer("The number of requests a minute that the caller may make.", 1),
        "X-RateLimit-Remaining-Minute": integer("The number of requests that the caller may still make in this minute.", 0),
        "Retry-After": integer("How many seconds to wait before a retry.", 1),
        "Idempotent-Replayed": {
            "description": "`true` if an earlier request with the same key and body created the object. Absent otherwise.",
            "required": false,
            "schema": {"type": "string", "const": "true"},
        },
        "X-Next-Cursor": text("The `starting_after` of the next page. Absent on the last page, and in JSON.", false),
        "Location": text("The page to show next.", true),
        "ETag": text("The version of the file.", true),
        "Cache-Control": text("How long the file may be cached.", true),
    })
}

fn parameters() -> Value {
    let example = |text: &str| json!({"type": "string", "examples": [text]});
    let signature = parameter(
        "header",
        "X-Signature",
        true,
        "`t` is the Unix time, which may differ from the service's clock by 5 minutes. `v1` is HMAC-SHA256 of `<t>.<raw body>`, keyed with the 64 characters of the MED secret, in hexadecimal. Of two `v1`, one must be valid.",
        &example("t=1795341600,v1=a4ed04b9251ee4307af16c9f1eef239ecc846e7c1e6d9e5da3ec02424bd8d503"),
    );
    let request_id = parameter(
        "header",
        "X-Request-Id",
        false,
        "An id of the client's choice, which the response repeats: 1 to 512 bytes of UTF-8 without control characters. Any other value is replaced.",
        &example("order-1001-try-1"),
    );
    json!({
        "Idempotency-Key": field_parameter("header", &IDEMPOTENCY_KEY.definition()),
        "X-Signature": signature,
        "X-Request-Id": request_id,
    })
}
