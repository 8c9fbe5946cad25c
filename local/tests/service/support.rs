//! What the tests have in common: a service of their own each, a client, a merchant's listener.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::account::AccountSettings;
use domain::account::terms::MethodTerms;
use domain::audit::Operator;
use domain::ids::{Mode, Scope};
use domain::payment_method::PaymentMethod;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::api_key::ApiKeys;
use shared::charge::Charges;
use shared::services::{change_account_settings, verify_ledger};
use shared::store::Store;
use shared::wallet::Wallets;
use shared::wallet::verify::Verification;

/// A merchant's client: an address and a key.
pub(crate) struct Client {
    pub(crate) base_url: String,
    key: String,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

/// A running service, with a client of its first account. It reads as that client.
pub(crate) struct Service {
    pub(crate) stack: Stack,
    client: Client,
    orders: AtomicU32,
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// What a request came back with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| std::str::from_utf8(value.as_bytes()).unwrap())
    }

    /// The error's code, after checking the whole shape of an error.
    pub(crate) fn code(&self) -> &str {
        let error = &self.body["error"];
        assert_eq!(self.body.as_object().unwrap().len(), 2, "{self:?}");
        assert_eq!(self.body["request_id"], self.header("x-request-id").unwrap());
        assert!(error["type"].as_str().unwrap().ends_with("_error"));
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_str().unwrap()
    }

    /// The status, type and code of an error.
    pub(crate) fn problem(&self) -> (u16, &str, &str) {
        (self.status.as_u16(), self.body["error"]["type"].as_str().unwrap(), self.code())
    }

    /// The failing fields of a refused request.
    pub(crate) fn params(&self) -> Vec<&str> {
        let details = self.body["error"]["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        details.iter().map(|detail| detail["param"].as_str().unwrap()).collect()
    }

    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.body
    }
}

impl Client {
    pub(crate) fn new(base_url: &str, key: &str) -> Self {
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { base_url: base_url.to_owned(), key: key.to_owned(), http }
    }

    pub(crate) fn key(&self) -> String {
        self.key.clone()
    }

    /// Sends a request as it is; `path` may be a whole URL.
    pub(crate) async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base_url) };
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.raw_with(method, &url, &headers, body.into()).await
    }

    /// Sends a request whose headers need not be text.
    pub(crate) async fn raw_with(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &[u8])],
        body: Bytes,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let response = self.http.request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status: head.status, headers: head.headers, bytes, body }
    }

    pub(crate) async fn get_as(&self, key: &str, path: &str) -> Answer {
        self.raw(Method::GET, path, &[("apikey", key)], "").await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_as(&self.key, path).await
    }

    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value, more: &[(&str, &str)]) -> Answer {
        let headers = [&[("apikey", key), ("content-type", "application/json")], more].concat();
        self.raw(Method::POST, path, &headers, body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_as(&self.key, path, body, &[]).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        let headers = [("apikey", self.key.as_str()), ("content-type", "application/json")];
        self.raw(Method::PATCH, path, &headers, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.raw(Method::DELETE, path, &[("apikey", &self.key)], "").await
    }

    pub(crate) async fn create_with(&self, idempotency_key: &str, body: &Value) -> Answer {
        self.post_as(&self.key, "/v1/pix/charges", body, &[("idempotency-key", idempotency_key)]).await
    }

    pub(crate) async fn charge_of(&self, idempotency_key: &str, body: &Value) -> Value {
        self.create_with(idempotency_key, body).await.expect(201)
    }

    pub(crate) async fn read(&self, charge: &Value) -> Value {
        self.get(&format!("/v1/charges/{}", id(charge))).await.expect(200)
    }

    pub(crate) async fn advance(&self, seconds: i64) {
        let headers = [("content-type", "application/json")];
        let body = json!({ "seconds": seconds }).to_string();
        self.raw(Method::POST, "/_local/clock/advance", &headers, body).await.expect(200);
    }

    /// Registers a listener for events.
    pub(crate) async fn register(&self, url: &str, events: &[&str]) -> Value {
        self.post("/v1/webhooks/endpoints", &json!({"url": url, "events": events})).await.expect(201)
    }

    pub(crate) async fn deliveries(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/webhooks/deliveries?limit=100{query}")).await.expect(200);
        page["data"].as_array().unwrap().clone()
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::with(Options::in_memory()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        // A test that fails shows what went wrong behind the answers. Others have set it before, all but once.
        let _set_before = tracing_subscriber::fmt()
            .compact()
            .with_max_level(tracing::Level::WARN)
            .with_test_writer()
            .try_init();
        let stack = Stack::start(options).await.unwrap();
        let client = Client::new(&stack.base_url, &stack.seed.first.test_api_key);
        Self { stack, client, orders: AtomicU32::new(0) }
    }

    /// A new charge of these fields.
    pub(crate) async fn charge_of(&self, body: &Value) -> Value {
        let order = self.orders.fetch_add(1, Ordering::Relaxed);
        self.client.charge_of(&format!("order-{order:06}"), body).await
    }

    /// A new charge of 1000 centavos.
    pub(crate) async fn charge(&self) -> Value {
        self.charge_of(&json!({"amount": 1000})).await
    }

    /// Plays the acquirer.
    pub(crate) async fn sandbox(&self, charge: &Value, what: &str, body: &Value) -> Value {
        self.sandbox_answer(charge, what, body).await.expect(200)
    }

    pub(crate) async fn sandbox_answer(&self, charge: &Value, what: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/sandbox/charges/{}/{what}", id(charge)), body).await
    }

    /// The state table, as whoever has credentials sees it.
    pub(crate) fn store(&self) -> Store {
        Store::new(local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url), "StateTable")
    }

    /// The first account's test data.
    pub(crate) fn scope(&self) -> Scope {
        Scope { account: self.stack.seed.first.id, mode: Mode::Test }
    }

    /// Sets the first account's terms for Pix, as an operator does.
    pub(crate) async fn set_terms(&self, terms: MethodTerms) {
        self.change_settings(|settings| {
            settings.terms.0.insert(PaymentMethod::Pix, terms);
        })
        .await;
    }

    /// Changes the first account's settings, as an operator does.
    pub(crate) async fn change_settings(&self, change: impl Fn(&mut AccountSettings)) {
        let (accounts, api_keys) = (Accounts::new(self.store()), ApiKeys::new(self.store(), "ApiKeysTable"));
        let now = self.stack.clock.now();
        let account = self.scope().account;
        change_account_settings((&accounts, &api_keys), &account, "test", change, &operator(), now)
            .await
            .unwrap();
    }

    /// The wallets of all scopes.
    pub(crate) fn wallets(&self) -> Wallets {
        Wallets::new(self.store())
    }

    /// The first account's ledger, whose postings and balances agree.
    pub(crate) async fn verified(&self) -> Verification {
        let charges = Charges::new(self.store());
        let read = (&self.wallets(), &charges);
        let found = verify_ledger(read, &self.scope(), self.stack.clock.now(), &|_count| {}).await.unwrap();
        assert_eq!((&found.differences, found.moved), (&Vec::new(), false));
        found
    }

    /// The rows of a partition of the state table whose sort keys begin so.
    pub(crate) async fn rows(&self, pk: &str, sk_prefix: &str) -> Vec<HashMap<String, AttributeValue>> {
        let client = local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url);
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let query = client
            .query()
            .table_name("StateTable")
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)");
        let query = query
            .expression_attribute_values(":pk", text(pk))
            .expression_attribute_values(":sk", text(sk_prefix));
        query.send().await.unwrap().items.unwrap()
    }

    /// Payments of the first account's test charges that went back to their payers.
    pub(crate) async fn returned(&self) -> usize {
        let incoming = self.store().partition(&format!("receipts#{}", self.scope())).await.unwrap();
        incoming.iter().filter(|payment| payment.contains_key("returned")).count()
    }
}

/// Who acts for the operator's part.
pub(crate) fn operator() -> Operator {
    Operator { actor: "tester".to_owned(), reason: "because it is tested".to_owned() }
}

pub(crate) fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

/// Waits until a condition holds; fails after a minute.
pub(crate) async fn eventually<T, F: AsyncFnMut() -> Option<T>>(what: &str, mut condition: F) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A webhook as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Hook {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Reply = Arc<dyn Fn(usize) -> Response + Send + Sync>;

/// A merchant's server: keeps what arrives, answers as told by the number of requests so far.
pub(crate) struct Listener {
    pub(crate) url: String,
    hooks: Arc<Mutex<Vec<Hook>>>,
    _server: tokio::task::JoinHandle<()>,
}

impl Listener {
    pub(crate) async fn start() -> Self {
        Self::answering(|_number| StatusCode::NO_CONTENT.into_response()).await
    }

    pub(crate) async fn answering(reply: impl Fn(usize) -> Response + Send + Sync + 'static) -> Self {
        let hooks: Arc<Mutex<Vec<Hook>>> = Arc::default();
        let state: (Arc<Mutex<Vec<Hook>>>, Reply) = (hooks.clone(), Arc::new(reply));
        let keep = |Shared((hooks, reply)): Shared<(Arc<Mutex<Vec<Hook>>>, Reply)>,
                    headers: HeaderMap,
                    body: Bytes| async move {
            let number = {
                let mut hooks = hooks.lock().unwrap();
                hooks.push(Hook { headers, body });
                hooks.len() - 1
            };
            reply(number)
        };
        let router = Router::new().fallback(keep).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, hooks, _server: server }
    }

    pub(crate) fn hooks(&self) -> Vec<Hook> {
        self.hooks.lock().unwrap().clone()
    }

    /// Waits for this many webhooks.
    pub(crate) async fn received(&self, count: usize) -> Vec<Hook> {
        eventually("the webhooks", async || Some(self.hooks()).filter(|hooks| hooks.len() >= count)).await
    }

    /// Waits for the webhook of an event.
    pub(crate) async fn event(&self, name: &str) -> Hook {
        eventually(name, async || {
            self.hooks().into_iter().find(|hook| hook.header("x-service-event-type") == name)
        })
        .await
    }
}
