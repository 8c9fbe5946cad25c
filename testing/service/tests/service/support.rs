//! Fixtures that the tests share: a running service, a merchant's HTTP client and a merchant's webhook
//! server.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acquirer_core::configuration::{AccountAcquirers, ConfiguredAcquirer};
use aws_sdk_dynamodb::types::AttributeValue;
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::account::AccountSettings;
use domain::account::terms::MethodTerms;
use domain::acquirer::ReportedPix;
use domain::audit::{Action, Operator};
use domain::calendar::Day;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::rollup::{Counter, Sums};
use domain::row::Key;
use domain::shard::{ShardCount, ShardedScope};
use effects::rollup::Rollups;
use effects::webhook::delivery::Delivery;
use faults::proxy::{FaultProxy, Report};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local::stack::{Options, Stack};
use local::template::queue_url;
use money::charge::Charges;
use money::wallet::Wallets;
use money::wallet::verify::Verification;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use services::{change_account_settings, raise_shards, verify_ledger};
use shared::account::Accounts;
use shared::api_key::ApiKeys;
use shared::clock::Clock;
use shared::store::{Item, ListIndex, Order, Store, key_attributes};
use tokio::sync::OnceCell;

use crate::description::{assert_described, check_webhook};
use crate::policies;

/// A merchant's HTTP client: the base URL of a service and an API key.
pub(crate) struct Client {
    pub(crate) base_url: String,
    key: String,
    /// Whether the server is the service, and not a bank.
    is_described: bool,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

/// A running service and a client with the first account's test key. Dereferencing returns this client.
pub(crate) struct Service {
    pub(crate) stack: Stack,
    proxy: FaultProxy,
    client: Client,
    orders: AtomicU32,
    _roles: CheckedRoles,
}

/// Fails the test when it is dropped, if the role of a function in `template.yaml` refuses a call that the
/// function made. So every test that reaches a rare path also checks the permissions for it.
struct CheckedRoles(FaultProxy);

impl Drop for CheckedRoles {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            policies::check(&self.0.calls());
        }
    }
}

impl Deref for Service {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A response. `body` is the parsed JSON, or null if `bytes` are not JSON.
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

    /// Returns the error's code. Checks first that the body has exactly the format of an error.
    pub(crate) fn code(&self) -> &str {
        let error = &self.body["error"];
        assert_eq!(self.body.as_object().unwrap().len(), 2, "{self:?}");
        assert_eq!(self.body["request_id"], self.header("x-request-id").unwrap());
        assert!(error["type"].as_str().unwrap().ends_with("_error"));
        assert!(!error["message"].as_str().unwrap().is_empty());
        error["code"].as_str().unwrap()
    }

    /// Returns the status, type and code of an error.
    pub(crate) fn problem(&self) -> (u16, &str, &str) {
        (self.status.as_u16(), self.body["error"]["type"].as_str().unwrap(), self.code())
    }

    /// Returns the names of the fields in the error's details, in the order of the details.
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
        Self { base_url: base_url.to_owned(), key: key.to_owned(), is_described: true, http }
    }

    /// A client of another server, whose responses are not in the description of the service.
    pub(crate) fn of_other_server(base_url: &str) -> Self {
        Self { is_described: false, ..Self::new(base_url, "") }
    }

    /// The same client at another address of this machine.
    pub(crate) fn at_address(&self, address: std::net::IpAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(address));
        let http = HttpClient::builder(TokioExecutor::new()).build(connector);
        Self { http, ..Self::new(&self.base_url, &self.key) }
    }

    pub(crate) fn key(&self) -> String {
        self.key.clone()
    }

    /// Sends a request with exactly these headers, without the client's key. `path` may be a whole URL.
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
        self.send_with_byte_headers(method, &url, &headers, body.into()).await
    }

    /// Sends a request whose header values need not be UTF-8. Fails if the service's response is not one that
    /// the OpenAPI description has for the route.
    pub(crate) async fn send_with_byte_headers(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &[u8])],
        body: Bytes,
    ) -> Answer {
        let mut request = Request::builder().method(&method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let sent = body.clone();
        let response = self.http.request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let answer = Answer { status: head.status, headers: head.headers, bytes, body };
        if let Some(path) = url.strip_prefix(&self.base_url).filter(|_| self.is_described) {
            assert_described(&method, path, &sent, &answer);
        }
        answer
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

    pub(crate) async fn post_charge(&self, idempotency_key: &str, body: &Value) -> Answer {
        self.post_as(&self.key, "/v1/pix/charges", body, &[("idempotency-key", idempotency_key)]).await
    }

    pub(crate) async fn new_charge(&self, idempotency_key: &str, body: &Value) -> Value {
        self.post_charge(idempotency_key, body).await.expect(201)
    }

    pub(crate) async fn refund(&self, charge: &Value, key: &str, mut body: Value) -> Answer {
        body["idempotencyKey"] = json!(key);
        self.post(&format!("/v1/payments/{}/refund", raw_id(charge)), &body).await
    }

    /// Calls a sandbox route of a charge, which simulates the acquirer, and expects 200. `action` is the
    /// route's last segment, such as `pay` or `fail`.
    pub(crate) async fn sandbox(&self, charge: &Value, action: &str, body: &Value) -> Value {
        self.sandbox_answer(charge, action, body).await.expect(200)
    }

    pub(crate) async fn sandbox_answer(&self, charge: &Value, action: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/sandbox/charges/{}/{action}", id(charge)), body).await
    }

    pub(crate) async fn get_charge(&self, charge: &Value) -> Value {
        self.get(&format!("/v1/charges/{}", id(charge))).await.expect(200)
    }

    pub(crate) async fn advance_seconds(&self, seconds: i64) {
        let headers = [("content-type", "application/json")];
        let body = json!({ "seconds": seconds }).to_string();
        self.raw(Method::POST, "/_local/clock/advance", &headers, body).await.expect(200);
    }

    /// Reads all pages of a list by their cursors. Fails if an item is on two pages.
    pub(crate) async fn all_pages(&self, path: &str) -> Vec<Value> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut next): (Vec<Value>, String) = (Vec::new(), path.to_owned());
        loop {
            let page = self.get(&next).await.expect(200);
            let data = page["data"].as_array().unwrap();
            // A page of events or deliveries may be empty.
            let is_exact = !path.starts_with("/v1/events") && !path.starts_with("/v1/webhooks");
            assert!(next == path || !data.is_empty() || !is_exact, "a cursor without a next page: {next}");
            items.extend_from_slice(data);
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            next = format!("{path}{separator}starting_after={cursor}");
        }
        let ids: BTreeSet<&str> = items.iter().map(id).collect();
        assert_eq!(ids.len(), items.len(), "{path}: an item is on two pages");
        items
    }

    /// Registers a webhook endpoint that subscribes to events.
    pub(crate) async fn register_endpoint(&self, url: &str, events: &[&str]) -> Value {
        self.post("/v1/webhooks/endpoints", &json!({"url": url, "events": events})).await.expect(201)
    }

    /// Reads the items of one page of a list.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await.expect(200)["data"].as_array().unwrap().clone()
    }

    pub(crate) async fn deliveries(&self, query: &str) -> Vec<Value> {
        self.list(&format!("/v1/webhooks/deliveries?limit=100{query}")).await
    }

    /// Reads the refunds of a charge, the newest first.
    pub(crate) async fn refunds(&self, charge: &Value) -> Vec<Value> {
        self.list(&format!("/v1/payments/{}/refunds", raw_id(charge))).await
    }
}

/// Prefixes of the variables that cargo, or `.ci/run`, sets for a test. With them, cargo would build some libraries again.
const SET_FOR_TESTS: [&str; 4] = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "RUSTC_BOOTSTRAP"];

/// Builds programs of the workspace. Returns their directory. The libraries are those of the tests, so only the
/// programs are linked.
pub(crate) async fn programs(names: &[&str]) -> PathBuf {
    let mut cargo = tokio::process::Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "--workspace"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(names.iter().flat_map(|name| ["--bin", name]));
    for (variable, _) in std::env::vars_os() {
        if SET_FOR_TESTS.iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(variable);
        }
    }
    assert!(cargo.status().await.unwrap().success(), "{names:?} were not built");
    // The tests are in a directory beside the programs.
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Returns the path of the program `local`. Builds it before its first use.
pub(crate) async fn local_program() -> &'static Path {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_init(async || programs(&["local"]).await.join("local")).await
}

/// A clock that shows ten past noon in São Paulo, so that no hour and no day ends during a test.
fn clock_at_noon() -> Clock {
    let now = Clock::machine_now();
    let noon = Day::of(now).ends_at().saturating_plus_seconds(12 * 3_600 + 600);
    Clock::with_offset_ms(noon.millis_since(now))
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::in_memory()).await
    }

    /// A client of DynamoDB that bypasses the fault proxy.
    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url)
    }

    /// Writes a row of the state table, as no function of the service does.
    pub(crate) async fn put_item(&self, item: Item) {
        self.dynamodb().put_item().table_name("StateTable").set_item(Some(item)).send().await.unwrap();
    }

    /// Sets attributes of a row of the state table, as no function of the service does.
    pub(crate) async fn set_attributes(&self, pk: &str, sk: &str, attributes: &[(&str, AttributeValue)]) {
        let mut update = self.dynamodb().update_item().table_name("StateTable");
        let mut assignments = Vec::new();
        for (index, (name, value)) in attributes.iter().enumerate() {
            update = update.expression_attribute_names(format!("#n{index}"), *name);
            update = update.expression_attribute_values(format!(":v{index}"), value.clone());
            assignments.push(format!("#n{index} = :v{index}"));
        }
        let update = update.update_expression(format!("SET {}", assignments.join(", ")));
        update.set_key(Some(key(pk, sk))).send().await.unwrap();
    }

    /// Deletes a row of the state table.
    pub(crate) async fn delete_row(&self, pk: &str, sk: &str) {
        let delete = self.dynamodb().delete_item().table_name("StateTable").set_key(Some(key(pk, sk)));
        delete.send().await.unwrap();
    }

    /// Returns how long a row is still kept, in seconds.
    pub(crate) fn seconds_kept(&self, row: &Item) -> i64 {
        row["ttl"].as_n().unwrap().parse::<i64>().unwrap() - self.stack.clock.now().seconds()
    }

    /// Starts a service whose queues, stream and schedules are processed only by the test itself.
    pub(crate) async fn without_event_sources() -> Self {
        Self::start_with(Options { event_sources: false, ..Options::in_memory() }).await
    }

    /// Starts a service without event sources whose clock is the machine's, as that of other processes is.
    pub(crate) async fn by_machine_clock() -> Self {
        Self::start_at(Clock::default(), Options { event_sources: false, ..Options::in_memory() }).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        Self::start_at(clock_at_noon(), options).await
    }

    /// Starts a service. A fault proxy is always between the functions and DynamoDB, because it records the
    /// calls that [`CheckedRoles`] checks.
    async fn start_at(clock: Clock, options: Options) -> Self {
        // The output of a failed test shows the warnings that the service logged. Only the first call in this
        // process installs the subscriber.
        let _is_installed = tracing_subscriber::fmt()
            .compact()
            .with_max_level(tracing::Level::WARN)
            .with_test_writer()
            .try_init();
        let proxy = FaultProxy::start().await.unwrap();
        let stack = Stack::start(Options { fronts: proxy.fronts(), clock, ..options }).await.unwrap();
        let client = Client::new(&stack.base_url, &stack.seed.first.test_api_key);
        let roles = CheckedRoles(proxy.clone());
        Self { stack, proxy, client, orders: AtomicU32::new(0), _roles: roles }
    }

    /// The fault proxy between the functions and DynamoDB.
    pub(crate) fn proxy(&self) -> &FaultProxy {
        &self.proxy
    }

    /// Runs `work`. Returns its result and the report of its DynamoDB requests.
    pub(crate) async fn cost<T>(&self, work: impl Future<Output = T>) -> (T, Report) {
        self.proxy().reset();
        let value = work.await;
        (value, self.proxy().report())
    }

    /// Returns the variables of a function, whose requests to DynamoDB bypass the fault proxy, with S3 at this URL.
    pub(crate) fn variables(&self, function: &str, s3_url: &str) -> Value {
        let mut variables = self.stack.environment_file("127.0.0.1", "").unwrap()[function].take();
        variables["AWS_ENDPOINT_URL_S3"] = s3_url.into();
        variables
    }

    /// Creates a charge with these fields and a new idempotency key.
    pub(crate) async fn new_charge(&self, body: &Value) -> Value {
        let order = self.orders.fetch_add(1, Ordering::Relaxed);
        self.client.new_charge(&format!("order-{order:06}"), body).await
    }

    /// Creates a charge of 1000 that only the payer with the CPF 29537995593 may pay.
    pub(crate) async fn charge_locked_to_payer(&self) -> Value {
        let customer = json!({"name": "Maria"});
        let lock = json!({"amount": 1000, "customer": customer, "expected_payer_tax_id": "29537995593"});
        self.new_charge(&lock).await
    }

    /// Creates a charge of 1000 centavos.
    pub(crate) async fn charge(&self) -> Value {
        self.new_charge(&json!({"amount": 1000})).await
    }

    /// Creates a charge of `amount` centavos and pays it. Returns the charge after the payment.
    pub(crate) async fn pay(&self, amount: i64) -> Value {
        let charge = self.new_charge(&json!({ "amount": amount })).await;
        self.sandbox(&charge, "pay", &json!({})).await
    }

    /// Does what is due, as each run of the schedule.
    pub(crate) async fn run_scheduler(&self) {
        self.stack.functions.get("SchedulerFunction").unwrap()(json!({})).await.unwrap();
    }

    /// Returns a store on the state table that bypasses the functions and the fault proxy.
    pub(crate) fn store(&self) -> Store {
        Store::new(self.dynamodb(), "StateTable")
    }

    /// Returns a store whose requests pass the fault proxy, as those of the functions do.
    pub(crate) fn store_behind_proxy(&self) -> Store {
        Store::new(local::sdk::dynamodb(&self.proxy().url()), "StateTable")
    }

    /// Reads the row of a reported Pix.
    pub(crate) async fn reported_pix(&self, end_to_end_id: &str) -> Option<ReportedPix> {
        self.store().get(&ReportedPix::key_of(&end_to_end_id.parse().unwrap())).await.unwrap()
    }

    /// Returns a store on the table of secrets that bypasses the functions and the fault proxy.
    pub(crate) fn secrets(&self) -> Store {
        Store::new(self.dynamodb(), "SecretsTable")
    }

    /// Returns the repository of accounts' acquirers, which bypasses the functions and the fault proxy.
    pub(crate) fn acquirers(&self) -> AccountAcquirers {
        AccountAcquirers::new(self.store(), self.secrets())
    }

    /// The secret that signs the MED notices of the first account's bank.
    pub(crate) async fn med_secret(&self) -> secrecy::SecretString {
        let bank = self.bank().await.acquirer;
        self.acquirers().signing_secrets(&bank.account, bank.connection).await.unwrap().remove(0)
    }

    /// Returns the bank that takes the first account's new charges.
    pub(crate) async fn bank(&self) -> ConfiguredAcquirer {
        self.acquirers().current(&self.scope().account, PaymentMethod::Pix).await.unwrap().unwrap()
    }

    /// Advances the clock to the beginning of the next minute, so that what follows counts for one minute.
    pub(crate) async fn begin_minute(&self) {
        let seconds_into_minute = self.stack.clock.now().seconds().rem_euclid(60);
        self.advance_seconds(60 - seconds_into_minute).await;
    }

    /// Creates another callback token of the first account. Returns the path of its bank's notifications.
    pub(crate) async fn new_callback_path(&self) -> String {
        let now = self.stack.clock.now();
        let account = self.scope().account;
        let rotated = self.acquirers().rotate_callback_token(account, None, None, &operator(), now).await;
        let (_, url) = rotated.unwrap();
        url.expose_secret().strip_prefix(&self.base_url).unwrap().to_owned()
    }

    /// A client of another account's test key.
    pub(crate) fn other_account(&self) -> Client {
        Client::new(&self.base_url, &self.stack.seed.other.test_api_key)
    }

    pub(crate) fn live_client(&self) -> Client {
        Client::new(&self.base_url, &self.stack.seed.first.live_api_key)
    }

    /// Returns the scope of the first account's test key.
    pub(crate) fn scope(&self) -> Scope {
        Scope { account: self.stack.seed.first.id, mode: Mode::Test }
    }

    /// Sets the first account's Pix terms, as the operator's command does.
    pub(crate) async fn set_terms(&self, terms: MethodTerms) {
        self.change_settings(|settings| {
            settings.terms.0.insert(PaymentMethod::Pix, terms);
        })
        .await;
    }

    /// Changes the first account's settings, as the operator's command does.
    pub(crate) async fn change_settings(&self, change: impl Fn(&mut AccountSettings)) {
        let (accounts, api_keys) = (Accounts::new(self.store()), ApiKeys::new(self.store(), "ApiKeysTable"));
        let now = self.stack.clock.now();
        let account = self.scope().account;
        change_account_settings(
            (&accounts, &api_keys),
            &account,
            Action::SetRateLimit,
            change,
            &operator(),
            now,
        )
        .await
        .unwrap();
    }

    /// Raises the first account's number of shards, as the operator's command does.
    pub(crate) async fn raise_shards(&self, shards: ShardCount) {
        let (accounts, api_keys) = (Accounts::new(self.store()), ApiKeys::new(self.store(), "ApiKeysTable"));
        let (account, now) = (self.scope().account, self.stack.clock.now());
        raise_shards((&accounts, &api_keys), &account, shards, &operator(), now).await.unwrap();
    }

    /// Returns the repository of wallets.
    pub(crate) fn wallets(&self) -> Wallets {
        Wallets::new(self.store())
    }

    /// Verifies the first account's test ledger, as [`Self::check_ledger_of`] does.
    pub(crate) async fn check_ledger(&self) -> Verification {
        self.check_ledger_of(&self.scope()).await
    }

    /// Verifies a ledger. Fails if the postings and a balance differ, or if the ledger changed during the
    /// check.
    pub(crate) async fn check_ledger_of(&self, scope: &Scope) -> Verification {
        let charges = Charges::new(self.store());
        let read = (&self.wallets(), &charges);
        let found = verify_ledger(read, scope, self.stack.clock.now(), &|_count| {}).await.unwrap();
        assert_eq!((&found.differences, found.is_moving), (&Vec::new(), false));
        found
    }

    /// Returns a scope with the number of shards of its account.
    pub(crate) async fn sharded(&self, scope: &Scope) -> ShardedScope {
        Accounts::new(self.store()).sharded_scope(scope).await.unwrap()
    }

    /// Returns a client of SQS and the URL of a queue.
    pub(crate) fn queue(&self, name: &str) -> (aws_sdk_sqs::Client, String) {
        let url = &self.stack.endpoints.sqs_url;
        (local::sdk::sqs(url), queue_url(url, name))
    }

    /// Receives and deletes all visible messages of a queue. Returns their bodies.
    pub(crate) async fn take_messages(&self, queue: &str) -> Vec<String> {
        let (sqs, url) = self.queue(queue);
        let mut bodies = Vec::new();
        loop {
            let got = sqs.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
            if got.messages().is_empty() {
                return bodies;
            }
            for message in got.messages() {
                bodies.push(message.body().unwrap().to_owned());
                let handle = message.receipt_handle().unwrap();
                sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
            }
        }
    }

    /// Reads the row of a charge.
    pub(crate) async fn stored_charge(&self, id: ChargeId) -> Charge {
        let row = self.store().get::<StoredCharge>(&Charge::key_of(id)).await.unwrap();
        row.unwrap().as_stored().clone()
    }

    /// Reads the incoming payments of a scope.
    pub(crate) async fn incoming_payments(&self, scope: &Scope) -> Vec<HashMap<String, AttributeValue>> {
        let scope = ShardedScope { scope: *scope, shards: ShardCount::MAX };
        let mut rows = Vec::new();
        for partition in scope.partitions(|scope, shard| shard.partition(format!("receipts#{scope}"))) {
            rows.extend(self.store().partition(&partition).await.unwrap());
        }
        rows
    }

    /// Reads the rows of all deliveries of the first account in test mode.
    pub(crate) async fn delivery_rows(&self) -> Vec<Item> {
        let store = self.store();
        let all = ("wd_", "wd_~");
        let sharded = ShardedScope { scope: self.scope(), shards: ShardCount::MAX };
        let log = sharded.partitions(Delivery::log_partition);
        let entries = store.list_of_each(ListIndex::Log, &log, all, Order::OldestFirst, usize::MAX).await;
        let keys: Vec<Key> = entries.unwrap().into_iter().map(|entry| entry.key).collect();
        store.batch_get(&keys).await.unwrap()
    }

    /// Reads the rows of a state table partition whose sort keys start with a prefix.
    pub(crate) async fn rows(&self, pk: &str, sk_prefix: &str) -> Vec<HashMap<String, AttributeValue>> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let query = self
            .dynamodb()
            .query()
            .table_name("StateTable")
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", text(pk))
            .expression_attribute_values(":sk", text(sk_prefix));
        query.send().await.unwrap().items.unwrap()
    }

    /// Counts the incoming payments of the first account's test charges that were returned to their payers.
    pub(crate) async fn count_returned_payments(&self) -> usize {
        let incoming = self.incoming_payments(&self.scope()).await;
        incoming.iter().filter(|payment| payment.contains_key("returned")).count()
    }
}

/// The attributes of a row's key.
fn key(pk: &str, sk: &str) -> Item {
    key_attributes(&Key { pk: pk.to_owned(), sk: sk.to_owned() })
}

/// Returns the actor and the reason of operators' changes in these tests.
pub(crate) fn operator() -> Operator {
    Operator { actor: "tester".to_owned(), reason: "because it is tested".to_owned(), ..Operator::default() }
}

/// Returns the ids of a page's items.
pub(crate) fn ids(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(|item| id(item).to_owned()).collect()
}

pub(crate) fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

/// Returns the id that the payments of the public API have.
pub(crate) fn raw_id(charge: &Value) -> &str {
    id(charge).trim_start_matches("ch_")
}

/// Reads the sums of all time, with the changes after the checkpoint.
pub(crate) async fn all_time_sums(service: &Service, scope: &Scope) -> Sums {
    let rollups = Rollups::new(service.store());
    let (mut sums, checkpoint) = rollups.all_time(scope).await.unwrap();
    for change in rollups.changes_after(&service.sharded(scope).await, checkpoint).await.unwrap() {
        sums.add_all(&change.of_all_time());
    }
    sums
}

/// Reads how many charges a scope has created.
pub(crate) async fn created_count(service: &Service, scope: &Scope) -> i64 {
    all_time_sums(service, scope).await.get(Counter::Created)
}

/// Polls until `condition` is true. Fails after a minute with the text `expected`.
pub(crate) async fn wait_until<F: AsyncFnMut() -> bool>(expected: &str, mut condition: F) {
    eventually(expected, async || condition().await.then_some(())).await;
}

/// Moves the clock by `seconds` until `condition` is true. Waits two seconds for what each move made due, so that on a busy
/// machine the clock does not run hours ahead of the service.
pub(crate) async fn advance_until<F: AsyncFnMut() -> bool>(
    (service, seconds): (&Service, i64),
    expected: &str,
    mut condition: F,
) {
    let mut moved_at: Option<Instant> = None;
    wait_until(expected, async || {
        if moved_at.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
            service.advance_seconds(seconds).await;
            moved_at = Some(Instant::now());
        }
        condition().await
    })
    .await;
}

/// Polls until `condition` returns a value. Fails after a minute with the text `expected`.
pub(crate) async fn eventually<T, F: AsyncFnMut() -> Option<T>>(expected: &str, mut condition: F) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    // Longer each time, because most conditions are requests, which would slow down what the test waits for.
    let mut pause = Duration::from_millis(10);
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "not within a minute: {expected}");
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_millis(100));
    }
}

/// A webhook request as the merchant's server received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedWebhook {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedWebhook {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("the webhook has no header {name}")).to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A merchant's server that records each webhook request. When it is dropped, the test fails if a webhook was
/// not as the OpenAPI description says.
pub(crate) struct Listener {
    pub(crate) url: String,
    hooks: Arc<Mutex<Vec<ReceivedWebhook>>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A bank's callbacks are not signed by the service.
            let hooks =
                self.hooks().into_iter().filter(|hook| hook.headers.contains_key("x-service-signature"));
            let violations: Vec<String> =
                hooks.filter_map(|hook| check_webhook(&hook.headers, &hook.body).err()).collect();
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }
}

impl Listener {
    pub(crate) async fn start() -> Self {
        Self::answering(|_number| StatusCode::NO_CONTENT.into_response()).await
    }

    /// Answers 502 until the returned value is set to true.
    pub(crate) async fn down() -> (Self, Arc<AtomicBool>) {
        let is_up = Arc::new(AtomicBool::new(false));
        let of_server = Arc::clone(&is_up);
        let answer = move |_number| {
            let is_up = of_server.load(Ordering::SeqCst);
            if is_up { StatusCode::NO_CONTENT } else { StatusCode::BAD_GATEWAY }.into_response()
        };
        (Self::answering(answer).await, is_up)
    }

    /// `reply`: creates a response from the number of earlier requests.
    pub(crate) async fn answering(reply: impl Fn(usize) -> Response + Send + Sync + 'static) -> Self {
        let hooks: Arc<Mutex<Vec<ReceivedWebhook>>> = Arc::default();
        let (received, reply) = (Arc::clone(&hooks), Arc::new(reply));
        let record_and_reply = async move |headers: HeaderMap, body: Bytes| {
            let number = {
                let mut hooks = received.lock().unwrap();
                hooks.push(ReceivedWebhook { headers, body });
                hooks.len() - 1
            };
            reply(number)
        };
        let router = Router::new().fallback(record_and_reply);
        Self { url: serve(router).await, hooks }
    }

    pub(crate) fn hooks(&self) -> Vec<ReceivedWebhook> {
        self.hooks.lock().unwrap().clone()
    }

    /// Waits until at least `count` webhooks have arrived. Returns all webhooks so far.
    pub(crate) async fn received(&self, count: usize) -> Vec<ReceivedWebhook> {
        eventually("the webhooks arrive", async || Some(self.hooks()).filter(|hooks| hooks.len() >= count))
            .await
    }

    /// Waits for a webhook of the event type `name`. Returns the first one.
    pub(crate) async fn wait_for_event(&self, name: &str) -> ReceivedWebhook {
        eventually(name, async || {
            self.hooks().into_iter().find(|hook| hook.header("x-service-event-type") == name)
        })
        .await
    }
}

/// The log lines of a test, from level INFO, until this is dropped. All tasks of a test run on its thread.
pub(crate) struct CapturedLog {
    lines: LogLines,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    pub(crate) fn start() -> Self {
        let lines = LogLines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        Self { lines, _guard: tracing::subscriber::set_default(log) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap()
    }
}

/// Serves a router until the test ends. Returns the URL of its webhook.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}
