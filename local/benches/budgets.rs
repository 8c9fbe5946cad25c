//! `cargo bench -p local`: for each API request, prints its DynamoDB requests, capacity units, budget and
//! duration. The tests in `local/tests/service/budgets.rs` enforce the budgets. Durations depend on the
//! machine.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark that fails may panic, and prints"
)]

#[path = "../tests/service/invocations.rs"]
mod invocations;
#[path = "../tests/service/seeding.rs"]
mod seeding;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use domain::webhook::event_type::EventType;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local::embedded::State;
use local::embedded::fault_proxy::{FaultProxy, Report};
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::store::Store;
use shared::webhook::delivery::Deliveries;
use shared::webhook::event::{Event, Origin};

/// The number of samples of each request.
const SAMPLES: usize = 300;

/// The number of samples of each request for a list or statistics.
const SAMPLES_AMONG_MANY: usize = 50;

/// The number of charges that the throughput test creates and pays.
const DELIVERED_CHARGES: usize = 500;

/// The number of charges whose events are sent to two healthy endpoints and a dead one.
const EVENTS_BESIDE_A_DEAD_ENDPOINT: usize = 2_000;

#[derive(Clone)]
struct Client {
    base_url: String,
    key: String,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

impl Client {
    fn of(stack: &Stack) -> Self {
        Self {
            base_url: stack.base_url.clone(),
            key: stack.seed.first.test_api_key.clone(),
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn send(&self, method: Method, path: &str, idempotency_key: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header("apikey", &self.key)
            .header("content-type", "application/json")
            .header("idempotency-key", idempotency_key)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let answer = self.http.request(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    async fn create(&self, order: usize) -> String {
        let body = json!({"amount": 1990, "description": "Pedido"});
        let charge = self.send(Method::POST, "/v1/pix/charges", &format!("order-{order:08}"), &body).await;
        charge["id"].as_str().unwrap().to_owned()
    }
}

/// A line of the output: the samples of one request.
struct Row {
    request: &'static str,
    /// The maximum number of DynamoDB requests, and the maximum number of them in sequence.
    budget: (usize, usize),
    reports: Vec<Report>,
    times: Vec<Duration>,
}

impl Row {
    fn print(mut self) {
        self.times.sort();
        let requests = self.reports.iter().map(Report::requests).max().unwrap();
        // Concurrent requests that happen not to overlap are counted as sequential. So the minimum of all
        // samples is the number of requests that the code sends in sequence.
        let chain = self.reports.iter().map(|report| report.sequential_requests).min().unwrap();
        let write_units = self.reports.iter().map(|report| report.write_units).fold(0.0, f64::max);
        let read_units = self.reports.iter().map(|report| report.read_units).fold(0.0, f64::max);
        println!(
            "{:<34} {requests:>4} of {:<3} {chain:>5} of {:<3} {write_units:>7.1} {read_units:>6.1} {:>9.2?} {:>9.2?}",
            self.request,
            self.budget.0,
            self.budget.1,
            self.times[self.times.len() / 2],
            self.times[self.times.len() * 99 / 100],
        );
    }
}

async fn sample<F: AsyncFnMut(usize)>(
    proxy: &FaultProxy,
    request: &'static str,
    budget: (usize, usize),
    send: F,
) {
    sample_times(SAMPLES, proxy, request, budget, send).await;
}

/// Calls `send` `samples` times and prints the measurements. Each call sends the request once.
async fn sample_times<F: AsyncFnMut(usize)>(
    samples: usize,
    proxy: &FaultProxy,
    request: &'static str,
    budget: (usize, usize),
    mut send: F,
) {
    let mut row = Row { request, budget, reports: Vec::new(), times: Vec::new() };
    for number in 0..samples {
        proxy.reset();
        let began = Instant::now();
        send(number).await;
        row.times.push(began.elapsed());
        row.reports.push(proxy.report());
    }
    row.print();
}

fn print_header() {
    println!(
        "{:<34} {:>11} {:>12} {:>8} {:>6} {:>9} {:>9}",
        "request", "requests", "sequential", "WRU", "RRU", "median", "99 %"
    );
}

async fn requests() {
    let stack = Stack::start(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() })
        .await
        .unwrap();
    let proxy = stack.fault_proxy.as_ref().unwrap();
    let client = Client::of(&stack);
    print_header();
    let mut ids = Vec::new();
    sample(proxy, "POST /v1/pix/charges", (2, 2), async |number| ids.push(client.create(number).await)).await;
    sample(proxy, "POST /v1/pix/charges (replayed)", (2, 2), async |number| {
        client.create(number).await;
    })
    .await;
    sample(proxy, "GET /v1/charges/{id}", (2, 1), async |number| {
        client.send(Method::GET, &format!("/v1/charges/{}", ids[number]), "", &Value::Null).await;
    })
    .await;
    sample(proxy, "GET /v1/charges", (5, 3), async |_| {
        client.send(Method::GET, "/v1/charges", "", &Value::Null).await;
    })
    .await;
    sample(proxy, "POST /v1/sandbox/charges/{id}/pay", (3, 2), async |number| {
        client.send(Method::POST, &format!("/v1/sandbox/charges/{}/pay", ids[number]), "", &json!({})).await;
    })
    .await;
    sample(proxy, "GET /v1/wallets", (2, 2), async |_| {
        client.send(Method::GET, "/v1/wallets", "", &Value::Null).await;
    })
    .await;
    sample(proxy, "GET /v1/wallets/balance", (2, 2), async |_| {
        client.send(Method::GET, "/v1/wallets/balance", "", &Value::Null).await;
    })
    .await;
    sample(proxy, "GET /v1/wallets/transactions", (5, 3), async |_| {
        client.send(Method::GET, "/v1/wallets/transactions", "", &Value::Null).await;
    })
    .await;
    client.create(SAMPLES).await;
    sample(proxy, "GET /v1/charges?status=pending", (5, 3), async |_| {
        let page = client.send(Method::GET, "/v1/charges?status=pending", "", &Value::Null).await;
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
    })
    .await;
    let mut payments = Vec::new();
    sample(proxy, "POST /v1/payments, four methods", (2, 2), async |number| {
        let body = json!({"amount": 1990, "paymentMethods": ["PIX", "CREDIT_CARD", "BOLETO", "CRYPTO"],
                          "idempotencyKey": format!("payment-{number}")});
        let payment = client.send(Method::POST, "/v1/payments", "", &body).await;
        payments.push(payment["id"].as_str().unwrap().to_owned());
    })
    .await;
    sample(proxy, "GET /v1/payments/{id}", (2, 1), async |number| {
        client.send(Method::GET, &format!("/v1/payments/{}", payments[number]), "", &Value::Null).await;
    })
    .await;
    sample(proxy, "GET /v1/webhooks/endpoints", (5, 3), async |_| {
        client.send(Method::GET, "/v1/webhooks/endpoints", "", &Value::Null).await;
    })
    .await;
    stack.stop().await;
}

/// Runs `step` and prints the write units of its DynamoDB requests. Returns these units and the step's
/// result.
async fn step<T>(proxy: &FaultProxy, name: &str, step: impl Future<Output = T>) -> (f64, T) {
    proxy.reset();
    let result = step.await;
    let write_units = proxy.report().write_units;
    println!("  {name:<58} {write_units:>6.1}");
    (write_units, result)
}

/// Prints the write units of whole flows, step by step: a charge, a refund, a MED case. A row or an index
/// entry of up to 1 KB costs one unit, or two within a transaction.
async fn flows() {
    let stack = Stack::start(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() })
        .await
        .unwrap();
    let proxy = stack.fault_proxy.as_ref().unwrap();
    let client = Client::of(&stack);
    let (url, _received) = endpoint(StatusCode::NO_CONTENT).await;
    let events = json!({"url": url, "events": ["charge.created", "charge.paid"]});
    client.send(Method::POST, "/v1/webhooks/endpoints", "", &events).await;
    let post = async |path: String, body: Value| client.send(Method::POST, &path, "", &body).await;
    let seen = async || invocations::stream_records(&stack).await.len();

    println!("\nwrite units of whole flows, each change dispatched in a batch of its own");
    let before = seen().await;
    let (created, charge) = step(proxy, "charge: create", client.create(0)).await;
    let (paid, _) =
        step(proxy, "charge: pay", post(format!("/v1/sandbox/charges/{charge}/pay"), json!({}))).await;
    let (dispatched, ()) = step(
        proxy,
        "charge: events, deliveries, statistics",
        invocations::dispatch_each_after(&stack, before),
    )
    .await;
    let page = client.send(Method::GET, "/v1/webhooks/deliveries", "", &Value::Null).await;
    let (delivered, ()) = step(proxy, "charge: two deliveries at their first attempt", async {
        for delivery in page["data"].as_array().unwrap() {
            invocations::run_webhook_worker(&stack, delivery).await;
        }
    })
    .await;
    println!("  {:<58} {:>6.1}", "total", created + paid + dispatched + delivered);

    let before = seen().await;
    let path = format!("/v1/payments/{}/refund", charge.trim_start_matches("ch_"));
    let body = json!({"idempotencyKey": "refund-01", "reason": "Devolvido pelo cliente"});
    let (requested, refund) = step(proxy, "refund: request", post(path, body)).await;
    let (claimed, ()) = step(proxy, "refund: claim", invocations::run_acquirer_worker(&stack, &refund)).await;
    stack.clock.advance(3_000);
    let (completed, ()) =
        step(proxy, "refund: complete", invocations::run_acquirer_worker(&stack, &refund)).await;
    let (dispatched, ()) = step(
        proxy,
        "refund: events, audit row, statistics",
        invocations::dispatch_each_after(&stack, before),
    )
    .await;
    println!("  {:<58} {:>6.1}", "total", requested + claimed + completed + dispatched);

    let charge = client.create(1).await;
    post(format!("/v1/sandbox/charges/{charge}/pay"), json!({})).await;
    invocations::dispatch(&stack).await;
    let before = seen().await;
    let path = format!("/v1/sandbox/charges/{charge}/med-cases");
    let (opened, case) = step(proxy, "MED case: open", post(path, json!({"reason": "Golpe"}))).await;
    let case = case["id"].as_str().unwrap();
    let reason = json!({"reason": "O cliente recebeu o produto."});
    let (appealed, _) =
        step(proxy, "MED case: appeal", post(format!("/v1/med/cases/{case}/appeal"), reason)).await;
    let path = format!("/v1/sandbox/med/cases/{case}/resolve");
    let (lost, _) = step(proxy, "MED case: lose", post(path, json!({"decision": "payer"}))).await;
    let (dispatched, ()) = step(
        proxy,
        "MED case: events, audit row, statistics",
        invocations::dispatch_each_after(&stack, before),
    )
    .await;
    println!("  {:<58} {:>6.1}", "total", opened + appealed + lost + dispatched);
    stack.stop().await;
}

/// Starts a service with its state in files, and also returns the state directory. In files, the records of
/// the streams have an index. In memory they have none. Then each write reads all earlier records of its
/// table's stream, and takes longer than the one before.
async fn start_in_files(options: Options) -> (Stack, PathBuf) {
    let directory = std::env::temp_dir().join(format!("budgets-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let state = State::Directory(directory.clone());
    (Stack::start(Options { state, ..options }).await.unwrap(), directory)
}

/// Measures the lists and statistics of an account with `payments` payments, which were created over 40 days,
/// and as many deliveries.
async fn lists_among(payments: usize) {
    let (stack, directory) =
        start_in_files(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    let proxy = stack.fault_proxy.as_ref().unwrap();
    let client = Client::of(&stack);
    let key = Charge::key_of(ChargeId::parse_any(&client.create(0).await).unwrap());
    let dynamodb = local::sdk::dynamodb(&stack.endpoints.dynamodb_url);
    let store = Store::new(dynamodb.clone(), "StateTable");
    let template: StoredCharge = store.get(&key).await.unwrap().unwrap();
    let template = template.as_stored();
    let began = Instant::now();
    seeding::seed(&dynamodb, template, payments, 40, &[1, payments / 2, payments - 2]).await;
    println!("\namong {payments} payments (inserted in {:.1?})", began.elapsed());
    print_header();
    for (path, budget) in [
        ("/v1/payments", (5, 3)),
        ("/v1/payments?limit=100", (5, 3)),
        ("/v1/payments?limit=100&page=40", (5, 3)),
        ("/v1/payments?status=REFUSED", (5, 3)),
        ("/v1/payments/stats?days=7", (3, 2)),
        ("/v1/payments/stats?days=366", (3, 2)),
        ("/v1/payments/metrics?days=366", (3, 2)),
    ] {
        sample_times(SAMPLES_AMONG_MANY, proxy, path, budget, async |_| {
            client.send(Method::GET, path, "", &Value::Null).await;
        })
        .await;
    }
    let origin = Origin {
        scope: template.scope,
        row: "charge#1".to_owned(),
        version: 1,
        at: stack.clock.now(),
        request_id: None,
        charge: None,
    };
    let event = Event::of_one(EventType::ChargePaid, &origin, &json!({})).unwrap();
    let began = Instant::now();
    let failed = [1, payments / 2, payments - 2];
    seeding::seed_deliveries(&dynamodb, &event, payments, 40, &failed).await;
    let deliveries = Deliveries::new(Store::new(dynamodb, "StateTable"));
    seeding::count_all(&deliveries, &template.scope, stack.clock.now(), payments).await;
    println!("\namong {payments} deliveries (inserted and counted in {:.1?})", began.elapsed());
    print_header();
    for (path, budget) in [
        ("/v1/webhooks/deliveries", (5, 3)),
        ("/v1/webhooks/deliveries?limit=100", (5, 3)),
        ("…/deliveries?status=FAILED", (5, 3)),
        ("…/deliveries?status=PENDING", (5, 3)),
        ("…/deliveries?eventType=charge.created", (5, 4)),
        ("…/deliveries?eventType=payout.paid", (5, 4)),
        ("/v1/webhooks/stats", (3, 2)),
    ] {
        let full_path = path.replace('…', "/v1/webhooks");
        sample_times(SAMPLES_AMONG_MANY, proxy, path, budget, async |_| {
            client.send(Method::GET, &full_path, "", &Value::Null).await;
        })
        .await;
    }
    stack.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Measures the delay of a webhook after the creation of a charge, and the throughput of charges and their
/// webhooks.
async fn webhooks() {
    let received = Arc::new(AtomicUsize::new(0));
    let count = async |Shared(received): Shared<Arc<AtomicUsize>>| {
        received.fetch_add(1, Ordering::Relaxed);
    };
    let router = Router::new().fallback(count).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });

    let (stack, directory) = start_in_files(Options::in_memory()).await;
    let client = Client::of(&stack);
    let events = json!({"url": url, "events": ["charge.created", "charge.paid"]});
    client.send(Method::POST, "/v1/webhooks/endpoints", "", &events).await;
    let mut delays = Vec::new();
    for order in 0..50 {
        let before = received.load(Ordering::Relaxed);
        client.create(1_000_000 + order).await;
        let began = Instant::now();
        while received.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        delays.push(began.elapsed());
    }
    delays.sort();
    println!(
        "\nfrom a charge's response to its first webhook: median {:.2?}, longest {:.2?}",
        delays[25], delays[49]
    );
    received.store(0, Ordering::Relaxed);

    let began = Instant::now();
    let mut merchants = tokio::task::JoinSet::new();
    for merchant in 0..8 {
        let client = client.clone();
        merchants.spawn(async move {
            for order in (merchant..DELIVERED_CHARGES).step_by(8) {
                let id = client.create(order).await;
                client.send(Method::POST, &format!("/v1/sandbox/charges/{id}/pay"), "", &json!({})).await;
            }
        });
    }
    merchants.join_all().await;
    let requested = began.elapsed();
    while received.load(Ordering::Relaxed) < 2 * DELIVERED_CHARGES {
        assert!(began.elapsed() < Duration::from_mins(2), "events are missing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(
        "{DELIVERED_CHARGES} charges created and paid by 8 clients in {requested:.2?} ({:.0} requests/s); their {} webhooks in {:.2?}",
        2.0 * DELIVERED_CHARGES as f64 / requested.as_secs_f64(),
        2 * DELIVERED_CHARGES,
        began.elapsed(),
    );
    stack.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Starts a server that responds with `status`. Returns its URL, and the ids of the events that it receives.
async fn endpoint(status: StatusCode) -> (String, Arc<Mutex<Vec<String>>>) {
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = async move |Shared(received): Shared<Arc<Mutex<Vec<String>>>>, body: Bytes| {
        let event: Value = serde_json::from_slice(&body).unwrap();
        received.lock().unwrap().push(event["id"].as_str().unwrap().to_owned());
        status
    };
    let router = Router::new().fallback(record).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, received)
}

/// Measures deliveries to two healthy endpoints and a dead one. Each healthy endpoint must receive every
/// event once.
async fn webhooks_beside_a_dead_endpoint() {
    let (stack, directory) = start_in_files(Options::in_memory()).await;
    let client = Client::of(&stack);
    let healthy = [endpoint(StatusCode::NO_CONTENT).await, endpoint(StatusCode::NO_CONTENT).await];
    let dead = endpoint(StatusCode::SERVICE_UNAVAILABLE).await;
    for (url, _) in healthy.iter().chain([&dead]) {
        let events = json!({"url": url, "events": ["charge.created"]});
        client.send(Method::POST, "/v1/webhooks/endpoints", "", &events).await;
    }
    let began = Instant::now();
    let mut merchants = tokio::task::JoinSet::new();
    for merchant in 0..8 {
        let client = client.clone();
        merchants.spawn(async move {
            for order in (merchant..EVENTS_BESIDE_A_DEAD_ENDPOINT).step_by(8) {
                client.create(order).await;
            }
        });
    }
    merchants.join_all().await;
    let count = |ids: &Arc<Mutex<Vec<String>>>| ids.lock().unwrap().len();
    while healthy.iter().any(|(_, ids)| count(ids) < EVENTS_BESIDE_A_DEAD_ENDPOINT) {
        assert!(began.elapsed() < Duration::from_mins(5), "events are missing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    for (_, ids) in &healthy {
        let ids = ids.lock().unwrap();
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(
            (ids.len(), distinct.len()),
            (EVENTS_BESIDE_A_DEAD_ENDPOINT, EVENTS_BESIDE_A_DEAD_ENDPOINT)
        );
    }
    let attempts = healthy.iter().map(|(_, ids)| count(ids)).sum::<usize>() + count(&dead.1);
    println!(
        "{EVENTS_BESIDE_A_DEAD_ENDPOINT} events to two healthy endpoints, once each, and a dead one in {took:.2?}: {:.0} attempts/s",
        attempts as f64 / took.as_secs_f64(),
    );
    stack.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::main]
async fn main() {
    requests().await;
    flows().await;
    for payments in [100, 100_000] {
        lists_among(payments).await;
    }
    webhooks().await;
    webhooks_beside_a_dead_endpoint().await;
}
