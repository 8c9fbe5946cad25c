//! Portable tests: they send HTTP requests and receive webhooks, and use nothing else of the service. They move
//! no clock and call no route under `/_local`. So they run against the service in this process, or against
//! any running service: `SERVICE_READY_FILE=ready.json cargo test -p local --test service portable`. All tests
//! then share the accounts of that service.
//!
//! Each file lists the routes of a function with the statuses that a client can cause. A test of the file
//! causes them all. Another test compares the routes with those of the functions.

mod api_keys;
mod charges;
mod checkout;
mod med;
mod payments;
pub(crate) mod routes;
mod sandbox;
mod wallets;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use axum::http::Method;
use serde_json::{Value, json};

use crate::description::examples::check_example;
use crate::support::{Answer, Client, Service, id};

/// Routes, such as `GET /v1/charges/{id}`, with the statuses that a client can cause.
type Routes = [(&'static str, &'static [u16])];

/// The variable that names the ready file of a running service.
const READY_FILE: &str = "SERVICE_READY_FILE";

/// An id that no object has.
const UNKNOWN_ID: &str = "00000000-0000-4000-8000-000000000000";

/// The service under test, and the statuses that it answered.
struct Portable {
    client: Client,
    ready: Value,
    answered: Mutex<BTreeSet<(&'static str, u16)>>,
    /// The bodies of successful answers, by route.
    bodies: Mutex<BTreeMap<&'static str, Vec<Value>>>,
    /// `None`: the service runs elsewhere.
    _in_process: Option<Service>,
}

/// How a request is authenticated.
#[derive(Clone)]
enum Credential {
    None,
    Key(String),
    Bearer(String),
}

/// A request to a route.
struct Call<'a> {
    service: &'a Portable,
    route: &'static str,
    path: String,
    credential: Credential,
    headers: Vec<(&'a str, String)>,
    body: String,
}

impl Portable {
    async fn start() -> Self {
        let (ready, in_process) = if let Ok(path) = std::env::var(READY_FILE) {
            (serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(), None)
        } else {
            let service = Service::start().await;
            (service.stack.ready().unwrap(), Some(service))
        };
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        let client = Client::new(&text("base_url"), &text("test_api_key"));
        Self { client, ready, answered: Mutex::default(), bodies: Mutex::default(), _in_process: in_process }
    }

    /// Returns a text of the ready file, such as `/dashboard/token`.
    fn ready(&self, pointer: &str) -> String {
        self.ready.pointer(pointer).unwrap().as_str().unwrap().to_owned()
    }

    /// Prepares a request with the usual credential of the route.
    fn call(&self, route: &'static str) -> Call<'_> {
        let (_, path) = route.split_once(' ').unwrap();
        Call {
            service: self,
            route,
            path: path.to_owned(),
            credential: self.usual_credential(path),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn usual_credential(&self, path: &str) -> Credential {
        let public = [
            "/checkout/",
            "/docs",
            "/llms.txt",
            "/v1/openapi.json",
            "/v1/auth/login",
            "/v1/acquirer-events/",
            "/v1/webhooks/event-catalog",
        ];
        if public.iter().any(|prefix| path.starts_with(prefix)) {
            Credential::None
        } else if path.starts_with("/v1/api-keys") || path.starts_with("/v1/auth/") {
            Credential::Bearer(self.ready("/dashboard/token"))
        } else {
            Credential::Key(self.client.key())
        }
    }

    /// Creates a charge of 1000 centavos.
    async fn charge(&self) -> Value {
        let call = self.call("POST /v1/pix/charges").header("idempotency-key", unique());
        call.json(&json!({"amount": 1000})).send().await.expect(201)
    }

    async fn paid_charge(&self) -> Value {
        let charge = self.charge().await;
        let pay = self.call("POST /v1/sandbox/charges/{id}/pay").id(id(&charge));
        pay.json(&json!({})).send().await.expect(200)
    }

    /// Opens a MED case on a new charge.
    async fn case(&self) -> Value {
        let charge = self.paid_charge().await;
        let open = self.call("POST /v1/sandbox/charges/{id}/med-cases").id(id(&charge));
        open.json(&json!({})).send().await.expect(201)
    }

    /// Causes the refusals that routes have in common, where a route lists their status: 401 without a
    /// credential, 404 with an unknown id, and 400 with an unknown query parameter. `known_id` returns the
    /// value of a route's first variable.
    async fn refuse(&self, routes: &Routes, known_id: impl Fn(&str) -> String) {
        for (route, statuses) in routes {
            let needs_credential = !matches!(self.call(route).credential, Credential::None);
            if statuses.contains(&401) && needs_credential {
                let answer = self.call(route).ids(UNKNOWN_ID).credential(Credential::None).send().await;
                assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{route}");
            }
            if statuses.contains(&404) && needs_credential {
                let answer = self.call(route).ids(UNKNOWN_ID).json(&json!({})).send().await;
                assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{route}");
            }
            if statuses.contains(&400) {
                let call = self.call(route).id(&known_id(route)).ids(UNKNOWN_ID).query("unknown=1");
                let answer = call.header("idempotency-key", unique()).json(&json!({})).send().await;
                assert_eq!(answer.status, 400, "{route}: {answer:?}");
                answer.code();
            }
        }
    }

    /// Checks that the statuses of the answers are exactly those that `routes` lists, and the examples of the
    /// answers.
    fn check_statuses(&self, routes: &Routes) {
        let mut answered: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
        for (route, status) in self.answered.lock().unwrap().iter() {
            answered.entry(route).or_default().insert(*status);
        }
        for (route, statuses) in routes {
            let listed: BTreeSet<u16> = statuses.iter().copied().collect();
            assert_eq!(answered.get(route), Some(&listed), "{route}");
        }
        for (route, bodies) in self.bodies.lock().unwrap().iter() {
            if routes.iter().any(|(listed, _)| listed == route) {
                check_example(route, bodies, &self.ready("/base_url"));
            }
        }
    }
}

impl<'a> Call<'a> {
    /// Replaces the first variable of the path.
    fn id(mut self, value: &str) -> Self {
        if let (Some(start), Some(end)) = (self.path.find('{'), self.path.find('}')) {
            self.path.replace_range(start..=end, value);
        }
        self
    }

    /// Replaces all remaining variables of the path.
    fn ids(mut self, value: &str) -> Self {
        while self.path.contains('{') {
            self = self.id(value);
        }
        self
    }

    fn query(mut self, query: &str) -> Self {
        self.path = format!("{}?{query}", self.path);
        self
    }

    fn credential(self, credential: Credential) -> Self {
        Self { credential, ..self }
    }

    /// Uses another API key.
    fn key(self, key: &str) -> Self {
        self.credential(Credential::Key(key.to_owned()))
    }

    fn bearer(self, token: &str) -> Self {
        self.credential(Credential::Bearer(token.to_owned()))
    }

    fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn json(self, body: &Value) -> Self {
        Self { body: body.to_string(), ..self }.header("content-type", "application/json")
    }

    /// Sends a form.
    fn form(self, body: &str) -> Self {
        let call = Self { body: body.to_owned(), ..self };
        call.header("content-type", "application/x-www-form-urlencoded")
    }

    async fn send(self) -> Answer {
        let Self { service, route, path, credential, mut headers, body } = self;
        match credential {
            Credential::None => {}
            Credential::Key(key) => headers.push(("apikey", key)),
            Credential::Bearer(token) => headers.push(("authorization", format!("Bearer {token}"))),
        }
        let (method, _) = route.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = service.client.raw(method, &path, &headers, body).await;
        assert!(answer.header("x-request-id").is_some(), "{route}: {answer:?}");
        service.answered.lock().unwrap().insert((route, answer.status.as_u16()));
        if answer.status.is_success() {
            service.bodies.lock().unwrap().entry(route).or_default().push(answer.body.clone());
        }
        answer
    }
}

/// Returns a text that no earlier request used.
fn unique() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the id of a charge or payment without its prefix.
fn raw_id(charge: &Value) -> &str {
    id(charge).trim_start_matches("ch_")
}
