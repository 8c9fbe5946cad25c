//! Generated requests to every operation of the OpenAPI description. Each is near a valid one: some parts are of
//! the description or of objects that exist, the others are not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::Method;
use domain::webhook::signature::canonical;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::mutation::{Mutation, mutated, mutations};
use super::{Property, StreamReader, TIME_LIMIT, check, runtime};
use crate::invocations::dispatch_records;
use crate::support::{Answer, Service, id};

/// The most requests of a case.
const REQUESTS: usize = 8;

/// After so many cases, requests have ended most of the objects, so new ones are created.
const CASES_OF_OBJECTS: u64 = 32;

/// The largest response of a Lambda function, in bytes.
const MAX_RESPONSE_BYTES: usize = 6 * 1024 * 1024;

/// Segments of a path, encoded. `.`, `..` and an empty one are not among them, because the path would be that of
/// another route.
const ODD_SEGMENTS: [&str; 19] = [
    "%2e%2ea",
    "%00",
    "%FF",
    "%2F",
    "%zz",
    "%",
    "%0D%0A",
    "%E2%80%AE",
    "null",
    "0",
    "-1",
    "*",
    "ch_",
    "ch_00000000-0000-8000-8000-000000000000",
    "ch_ffffffff-ffff-8fff-bfff-ffffffffffff",
    "00000000-0000-0000-0000-000000000000",
    "wd_7zzzzzzzzzzzzzzzzzzzzzzzzz",
    "evt_00000000000000000000000000",
    "med_7zzzzzzzzzzzzzzzzzzzzzzzzz",
];

/// Values of query parameters, encoded.
const ODD_PARAMETERS: [&str; 50] = [
    "",
    "0",
    "-1",
    "1",
    "100",
    "101",
    "250",
    "251",
    "4999",
    "5000",
    "5001",
    "1.0",
    "1e2",
    "+1",
    "01",
    "%2B1",
    "18446744073709551616",
    "9223372036854775807",
    "-9223372036854775808",
    "true",
    "null",
    "%00",
    "%FF",
    "%zz",
    "%",
    "%u0041",
    "a,b",
    "paid,paid",
    "PAID%2CPAID",
    "2026-11-22",
    "2026-02-30",
    "0000-01-01",
    "0001-01-01T00:00:00Z",
    "1969-12-31",
    "1970-01-01T00:00:00.000Z",
    "9999-12-31",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59.999-23:59",
    "9999-12-31T23:59:60Z",
    "2026-11-22T12:00:00",
    "2026-11-22T12:00:00%2B14:00",
    "2026-11-22T24:00:00Z",
    "+010000-01-01",
    "wd_00000000000000000000000000",
    "wd_7zzzzzzzzzzzzzzzzzzzzzzzzz",
    "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz",
    "mv_7zzzzzzzzzzzzzzzzzzzzzzzzz",
    "med_7zzzzzzzzzzzzzzzzzzzzzzzzz",
    "ch_00000000-0000-8000-8000-000000000000",
    "tx_ffffffff-ffff-8fff-bfff-ffffffffffff",
];

/// Headers that a client may send with any value.
const HEADERS: [&str; 14] = [
    "apikey",
    "authorization",
    "idempotency-key",
    "content-type",
    "x-request-id",
    "x-signature",
    "accept",
    "accept-encoding",
    "content-encoding",
    "if-none-match",
    "if-modified-since",
    "cookie",
    "x-forwarded-for",
    "x-forwarded-proto",
];

const ODD_HEADERS: [&str; 24] = [
    "",
    "a",
    "1234567",
    "12345678",
    "Bearer",
    "Bearer ",
    "bearer x",
    "Bearer a.b.c",
    "Bearer eyJhbGciOiJub25lIn0.e30.",
    "Basic YTpi",
    "ak_test_",
    "ak_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "ak_test_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "t=,v1=",
    "t=99999999999999999999,v1=00",
    "t=-1,v1=zz,v1=zz",
    "text/plain",
    "application/json; charset=utf-16",
    "application/x-www-form-urlencoded",
    "gzip",
    "*/*;q=0",
    "W/\"a\", *",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "a=b; a=c; =",
];

/// A part of a request.
#[derive(Clone, Debug)]
enum Part {
    /// A value that fits here: of an object that exists, or of the description.
    Fitting(Index),
    /// An id of another object.
    Other(Index),
    /// A value that probably does not fit, encoded for a path or query.
    Odd(String),
}

/// The body of a request.
#[derive(Clone, Debug)]
enum Body {
    /// The description's example, with described values of some fields, and changes.
    Json {
        fields: Vec<(Index, Index)>,
        mutations: Vec<Mutation>,
    },
    Bytes(Vec<u8>),
}

/// A request. The indexes choose among what the description and the service have at the time.
#[derive(Clone, Debug)]
struct Plan {
    operation: Index,
    variables: [Part; 2],
    parameters: Vec<(Option<Index>, Part)>,
    headers: Vec<(Index, Vec<u8>)>,
    body: Body,
    is_signed: bool,
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$'()*,;:@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap();
        }
    }
    encoded
}

fn part(odd: &'static [&'static str]) -> impl Strategy<Value = Part> {
    prop_oneof![
        6 => any::<Index>().prop_map(Part::Fitting),
        1 => any::<Index>().prop_map(Part::Other),
        2 => select(odd).prop_map(|text| Part::Odd(text.to_owned())),
        1 => any::<String>().prop_filter("the path would be that of another route", |text| !text.trim_matches('.').is_empty())
            .prop_map(|text| Part::Odd(encoded(&text))),
        1 => (1_usize..3_000).prop_map(|length| Part::Odd("9".repeat(length))),
    ]
}

fn header_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => select(&ODD_HEADERS[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec((0x20_u8..=0xff).prop_filter("no value of a header has DEL", |byte| *byte != 0x7f), 0..40),
        1 => select(vec![127_usize, 128, 129, 512, 513, 4_000]).prop_map(|length| vec![b'x'; length]),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        12 => (vec(any::<(Index, Index)>(), 0..3), mutations())
            .prop_map(|(fields, mutations)| Body::Json { fields, mutations }),
        1 => vec(any::<u8>(), 0..60).prop_map(Body::Bytes),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let parameter = (prop::option::weighted(0.95, any::<Index>()), part(&ODD_PARAMETERS));
    (
        any::<Index>(),
        [part(&ODD_SEGMENTS), part(&ODD_SEGMENTS)],
        vec(parameter, 0..4),
        prop_oneof![3 => Just(Vec::new()), 1 => vec((any::<Index>(), header_value()), 1..3)],
        body(),
        prop::bool::weighted(0.9),
    )
        .prop_map(|(operation, variables, parameters, headers, body, is_signed)| Plan {
            operation,
            variables,
            parameters,
            headers,
            body,
            is_signed,
        })
}

/// An operation of the description.
struct Operation {
    method: Method,
    path: String,
    parameters: Vec<(String, Vec<Value>)>,
    /// The content type of the body and its example; `None`: the operation has no body.
    body: Option<(String, Value)>,
    fields: Vec<(String, Vec<Value>)>,
}

/// Returns values that a schema describes, and those next to its bounds.
fn described_values(document: &Value, schema: &Value) -> Vec<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return described_values(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let mut values = Vec::new();
    for keyword in ["enum", "examples"] {
        values.extend(schema[keyword].as_array().into_iter().flatten().cloned());
    }
    values.extend(schema.get("default").cloned());
    for keyword in ["minimum", "maximum"] {
        if let Some(bound) = schema[keyword].as_i64() {
            values.extend([bound - 1, bound, bound + 1].map(Value::from));
        }
    }
    for keyword in ["minLength", "maxLength"] {
        if let Some(bound) = schema[keyword].as_u64().and_then(|bound| usize::try_from(bound).ok()) {
            let lengths = [bound.saturating_sub(1), bound, bound + 1];
            values.extend(lengths.map(|length| Value::from("é".repeat(length))));
        }
    }
    for alternative in ["anyOf", "oneOf", "allOf"].iter().filter_map(|keyword| schema[*keyword].as_array()) {
        values.extend(alternative.iter().flat_map(|schema| described_values(document, schema)));
    }
    if values.is_empty() { vec![Value::Null] } else { values }
}

/// Returns the operations of the description.
fn operations() -> Vec<Operation> {
    let document = openapi::document();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Ok(method) = method.to_ascii_uppercase().parse::<Method>() else { continue };
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.filter(|parameter| parameter["in"] == "query").map(|parameter| {
                let name = parameter["name"].as_str().unwrap().to_owned();
                (name, described_values(&document, &parameter["schema"]))
            });
            let content = operation["requestBody"]["content"].as_object();
            let content = content.and_then(|content| content.iter().next());
            let properties = content.and_then(|(_, content)| content["schema"]["properties"].as_object());
            let fields = properties.into_iter().flatten();
            operations.push(Operation {
                method,
                path: path.clone(),
                parameters: parameters.collect(),
                fields: fields
                    .map(|(name, schema)| (name.clone(), described_values(&document, schema)))
                    .collect(),
                body: content.map(|(content_type, content)| {
                    let example = content.pointer("/examples/default/value").cloned();
                    (content_type.clone(), example.unwrap_or_else(|| json!({})))
                }),
            });
        }
    }
    assert!(operations.len() > 60, "the description has all operations");
    operations
}

/// The ids of objects that exist, by the first segments of their routes.
#[derive(Default)]
struct Known {
    charges: Vec<String>,
    payments: Vec<String>,
    refunds: Vec<String>,
    cases: Vec<String>,
    evidence: Vec<String>,
    endpoints: Vec<String>,
    deliveries: Vec<String>,
    events: Vec<String>,
    api_keys: Vec<String>,
    postings: Vec<String>,
}

impl Known {
    /// Returns the values of a variable in the path of a route.
    fn of_variable(&self, path: &str, variable: &str, callback: (&str, &str)) -> Vec<String> {
        match variable {
            "{account}" => return vec![callback.0.to_owned()],
            "{token}" => return vec![callback.1.to_owned()],
            "{evidence_id}" => return self.evidence.clone(),
            _ => {}
        }
        let path = path.trim_start_matches("/v1").trim_start_matches("/sandbox").trim_start_matches('/');
        let ids = match path.split('/').next().unwrap_or_default() {
            "charges" => &self.charges,
            "payments" | "checkout" => &self.payments,
            "refunds" => &self.refunds,
            "med" | "infractions" => &self.cases,
            "webhooks" if path.starts_with("webhooks/endpoints") => &self.endpoints,
            "webhooks" => &self.deliveries,
            "events" => &self.events,
            "api-keys" => &self.api_keys,
            other => panic!("what is the id of {other}?"),
        };
        ids.clone()
    }

    fn all(&self) -> Vec<&String> {
        let kinds = [
            &self.charges,
            &self.payments,
            &self.refunds,
            &self.cases,
            &self.evidence,
            &self.endpoints,
            &self.deliveries,
            &self.events,
            &self.api_keys,
            &self.postings,
        ];
        kinds.into_iter().flatten().collect()
    }

    /// Replaces the ids of a kind by those of a list.
    fn replace(ids: &mut Vec<String>, list: &Value) {
        *ids = list["data"].as_array().unwrap().iter().map(|object| id(object).to_owned()).collect();
    }
}

/// A request that is ready to be sent.
struct Prepared {
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

struct Fixture {
    service: Service,
    operations: Vec<Operation>,
    known: RefCell<Known>,
    /// The account and the token in the path of the bank's notifications.
    callback: (String, String),
    med_secret: SecretString,
    stream: StreamReader,
    /// Counts idempotency keys.
    number: Cell<u64>,
    /// Counts cases.
    cases: Cell<u64>,
    /// Counts responses by status.
    statuses: RefCell<BTreeMap<u16, u32>>,
}

impl Fixture {
    async fn start() -> Self {
        let service = Service::without_event_sources().await;
        let callback = service.new_callback_path().await;
        let mut segments = callback.rsplit('/');
        let (token, account) = (segments.next().unwrap().to_owned(), segments.next().unwrap().to_owned());
        let settings =
            service.acquirers().callback_settings(&service.scope().account).await.unwrap().unwrap();
        let med_secret = settings.med_secret.as_secret().clone();
        let (known, operations) = (RefCell::default(), operations());
        let (number, cases, statuses) = (Cell::new(0), Cell::new(0), RefCell::default());
        let (callback, stream) = ((account, token), StreamReader::default());
        Self { service, operations, known, callback, med_secret, stream, number, cases, statuses }
    }

    fn next_number(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    fn authorization(&self) -> String {
        let seed = &self.service.stack.seed;
        format!("Bearer {}", seed.owner_token(&seed.first, self.service.stack.clock.now()).unwrap())
    }

    /// Creates objects of each kind and forgets the others, which earlier requests may have ended.
    async fn refresh(&self) {
        let service = &self.service;
        // In another minute, so that the limits of requests are not reached.
        service.stack.clock.advance(61_000);
        let endpoints = self.known.borrow().endpoints.clone();
        for endpoint in endpoints {
            service.delete(&format!("/v1/webhooks/endpoints/{endpoint}")).await;
        }
        service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
        let (paid, contested) = (service.paid_charge(2_000).await, service.paid_charge(1_000).await);
        let raw = id(&paid).trim_start_matches("ch_").to_owned();
        let refund = json!({"amount": 1, "idempotencyKey": format!("refund-{}", self.next_number())});
        let refund = service.post(&format!("/v1/payments/{raw}/refund"), &refund).await.expect(201);
        let case = service.open_case(&contested, json!({})).await;
        let file = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
        let ticket = service.answer_case(&case, "evidence", file).await.expect(201);
        let pending = service.charge().await;
        dispatch_records(&service.stack, &self.stream.new_records(service).await).await;
        // The scheduler counts the deliveries, so that lists read few of them.
        let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
        scheduler(json!({})).await.unwrap();
        let token = self.authorization();
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let body = json!({"test": true}).to_string();
        let api_key = service.raw(Method::POST, "/v1/api-keys", &headers, body).await.expect(201);

        let lists =
            ["/v1/webhooks/endpoints", "/v1/webhooks/deliveries", "/v1/events", "/v1/wallets/transactions"];
        let mut found = Vec::new();
        for list in lists {
            found.push(service.get(list).await.expect(200));
        }
        let mut known = self.known.borrow_mut();
        known.charges = [&paid, &contested, &pending].map(|charge| id(charge).to_owned()).to_vec();
        known.payments = known.charges.iter().map(|id| id.trim_start_matches("ch_").to_owned()).collect();
        known.refunds = vec![id(&refund).to_owned()];
        known.cases = vec![id(&case).to_owned()];
        known.evidence = vec![id(&ticket).to_owned()];
        known.api_keys = vec![id(&api_key).to_owned()];
        Known::replace(&mut known.endpoints, &found[0]);
        Known::replace(&mut known.deliveries, &found[1]);
        Known::replace(&mut known.events, &found[2]);
        Known::replace(&mut known.postings, &found[3]);
    }

    fn prepare(&self, plan: &Plan) -> Prepared {
        let operation = plan.operation.get(&self.operations);
        let known = self.known.borrow();
        let resolve = |part: &Part, fitting: &[String]| match part {
            Part::Fitting(index) if !fitting.is_empty() => index.get(fitting).clone(),
            Part::Fitting(index) | Part::Other(index) => (*index.get(&known.all())).clone(),
            Part::Odd(text) => text.clone(),
        };
        let mut variables = plan.variables.iter();
        let mut path = String::new();
        for segment in operation.path.split('/').skip(1) {
            path.push('/');
            if segment.starts_with('{') {
                let callback = (self.callback.0.as_str(), self.callback.1.as_str());
                let fitting = known.of_variable(&operation.path, segment, callback);
                path.push_str(&resolve(variables.next().unwrap(), &fitting));
            } else {
                path.push_str(segment);
            }
        }
        let mut query = Vec::new();
        for (name, value) in &plan.parameters {
            let (name, described) = match name {
                Some(index) if !operation.parameters.is_empty() => index.get(&operation.parameters).clone(),
                // The operation has no parameters, so that most requests have none either.
                Some(_) => continue,
                None => ("nothing".to_owned(), vec![json!(1)]),
            };
            let texts: Vec<String> = described
                .iter()
                .map(|value| encoded(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
                .collect();
            query.push(format!("{name}={}", resolve(value, &texts)));
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let body = self.body(operation, plan);
        Prepared {
            method: operation.method.clone(),
            path,
            headers: self.headers(operation, plan, &body),
            body,
        }
    }

    fn body(&self, operation: &Operation, plan: &Plan) -> Vec<u8> {
        let (fields, mutations) = match &plan.body {
            Body::Json { fields, mutations } => (fields, mutations),
            Body::Bytes(bytes) => return bytes.clone(),
        };
        let Some((content_type, example)) = &operation.body else { return Vec::new() };
        let mut body: Map<String, Value> = example.as_object().unwrap().clone();
        if let Some(key) = body.get_mut("idempotencyKey") {
            *key = format!("key-{}", self.next_number()).into();
        }
        for (name, value) in fields {
            if !operation.fields.is_empty() {
                let (name, values) = name.get(&operation.fields);
                body.insert(name.clone(), value.get(values).clone());
            }
        }
        if content_type == "application/json" {
            return mutated(&body.into(), mutations);
        }
        let fields = body.iter().map(|(name, value)| {
            format!("{name}={}", encoded(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        });
        fields.collect::<Vec<_>>().join("&").into_bytes()
    }

    /// Returns the headers of a valid request, replaced by those of the plan.
    fn headers(&self, operation: &Operation, plan: &Plan, body: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut headers = vec![("apikey".to_owned(), self.service.key().into_bytes())];
        if operation.path.starts_with("/v1/api-keys") || operation.path.starts_with("/v1/auth") {
            headers = vec![("authorization".to_owned(), self.authorization().into_bytes())];
        }
        let content_type =
            operation.body.as_ref().map_or("application/json", |(content_type, _)| content_type);
        headers.push(("content-type".to_owned(), content_type.into()));
        headers.push(("idempotency-key".to_owned(), format!("order-{}", self.next_number()).into_bytes()));
        if plan.is_signed && operation.path.ends_with("/med") {
            let now = self.service.stack.clock.now().seconds();
            headers.push(("x-signature".to_owned(), canonical(&self.med_secret, now, body).into_bytes()));
        }
        for (name, value) in &plan.headers {
            let name = *name.get(&HEADERS);
            headers.retain(|(kept, _)| kept != name);
            headers.push((name.to_owned(), value.clone()));
        }
        headers
    }

    async fn send(&self, plan: &Plan) {
        let Prepared { method, path, headers, body } = self.prepare(plan);
        let shown = String::from_utf8_lossy(&body).chars().take(300).collect::<String>();
        let names: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let url = format!("{}{path}", self.service.base_url);
        let request = self.service.send_with_byte_headers(method.clone(), &url, &names, body.into());
        let request = tokio::time::timeout(TIME_LIMIT, request);
        let answer: Answer = request
            .await
            .unwrap_or_else(|_| panic!("{method} {path} takes longer than {TIME_LIMIT:?}: {shown}"));
        let status = answer.status.as_u16();
        *self.statuses.borrow_mut().entry(status).or_default() += 1;
        assert!(status < 500, "{method} {path}: {status} {:?}\nfor {shown}", answer.body);
        assert!(answer.header("x-request-id").is_some(), "{method} {path}: {answer:?}");
        assert!(answer.bytes.len() < MAX_RESPONSE_BYTES, "{method} {path}: {} bytes", answer.bytes.len());
        if status >= 400 && !path.starts_with("/checkout/") {
            let _ = answer.code();
        }
    }
}

/// Sends generated requests, of which a part succeeds. The client checks each response against the description, and the fixture checks at
/// the end that the functions' roles permit what they did.
#[test]
fn every_generated_request_gets_a_described_response_below_500() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let fixture = runtime.block_on(Fixture::start());
    let limit = TIME_LIMIT.saturating_mul(u32::try_from(REQUESTS).unwrap());
    let property = Property { source_file: file!(), cases: 100, limit };
    check(&property, &runtime, &vec(plan(), 1..=REQUESTS), &async |plans, _log| {
        if fixture.cases.get().is_multiple_of(CASES_OF_OBJECTS) {
            fixture.refresh().await;
        }
        fixture.cases.set(fixture.cases.get() + 1);
        for plan in plans {
            fixture.send(&plan).await;
        }
    });
    let statuses = fixture.statuses.borrow();
    for status in [200, 201, 400, 401, 404] {
        assert!(statuses.contains_key(&status), "the requests are not diverse: {statuses:?}");
    }
    runtime.block_on(fixture.service.check_ledger());
}
