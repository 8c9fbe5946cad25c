//! `cargo bench -p service -- fairness`: the latency of webhooks beside receivers that never answer.
//! `docs/decisions/110-attempts-in-flight.md` has the rules that it tries.
//!
//! 1. One account creates 4,000 payments, each with another `webhookUrl` whose server never answers. Another
//!    account creates charges at a steady rate. Prints the time from each of its events to the first attempt,
//!    and the part of it after the dispatcher has created the delivery.
//! 2. The control run: the same load, but all servers answer.
//! 3. One account has 40 endpoints, of which 2 (5 %) never answer, and creates charges at a steady rate. Prints
//!    the same for the healthy endpoints.
//! 4. The control run: the same load, but all endpoints answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use domain::ids::AccountId;
use domain::row::Key;
use domain::time::Timestamp;
use hyper::body::Bytes;
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::store::{ListIndex, Order, Store, text};
use tokio::task::JoinSet;

use crate::InFiles;
use crate::merchant::Merchant;

// The runs 1 and 2.

/// The payments of the noisy account.
const PAYMENTS: usize = 4_000;
const PAYMENTS_PER_SECOND: usize = 100;

/// The charges of the account that is measured.
const CHARGES_PER_SECOND: usize = 10;

/// How long the account that is measured creates charges after the last payment, in seconds.
const SECONDS_AFTER: usize = 30;

// The runs 3 and 4.

/// The deliveries to all endpoints together.
const DELIVERIES_PER_SECOND: usize = 200;

/// How long charges are created, in seconds.
const SECONDS: usize = 60;

const ENDPOINTS: usize = 40;

/// The endpoints that never answer in run 3.
const HANGING_ENDPOINTS: usize = 2;

/// The merchants' servers: one listener on all addresses of the loopback network.
#[derive(Clone, Default)]
struct Receivers {
    /// The delivery, the time of its event and the time of its arrival, in milliseconds.
    arrivals: Arc<Mutex<Vec<(String, i64, i64)>>>,
    hanging: Arc<AtomicUsize>,
    most_hanging: Arc<AtomicUsize>,
    /// The posts to hanging receivers by delivery.
    posts_to_hanging: Arc<Mutex<HashMap<String, usize>>>,
    /// How long the ended posts to hanging receivers took.
    cut_after: Arc<Mutex<Vec<Duration>>>,
}

/// A request, until the client closes its connection.
struct Held(Receivers, Instant);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.hanging.fetch_sub(1, Ordering::SeqCst);
        self.0.cut_after.lock().unwrap().push(self.1.elapsed());
    }
}

impl Receivers {
    async fn start(&self) -> u16 {
        let record = async |Shared(receivers): Shared<Self>, headers: HeaderMap, body: Bytes| {
            receivers.record(&headers, &body);
            StatusCode::NO_CONTENT
        };
        let router = Router::new()
            .route("/healthy", post(record))
            .route("/answering", post(async || StatusCode::NO_CONTENT))
            .route("/hanging", post(Self::hang))
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        port
    }

    fn record(&self, headers: &HeaderMap, body: &[u8]) {
        let event: Value = serde_json::from_slice(body).unwrap();
        let created_at = Timestamp::parse_floor(event["created_at"].as_str().unwrap()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let delivery = headers["x-service-delivery-id"].to_str().unwrap().to_owned();
        let arrival = (delivery, created_at.millis(), i64::try_from(now).unwrap());
        self.arrivals.lock().unwrap().push(arrival);
    }

    async fn hang(Shared(receivers): Shared<Self>, headers: HeaderMap) -> StatusCode {
        let delivery = headers["x-service-delivery-id"].to_str().unwrap().to_owned();
        *receivers.posts_to_hanging.lock().unwrap().entry(delivery).or_default() += 1;
        let hanging = receivers.hanging.fetch_add(1, Ordering::SeqCst) + 1;
        receivers.most_hanging.fetch_max(hanging, Ordering::SeqCst);
        let _held = Held(receivers.clone(), Instant::now());
        std::future::pending().await
    }

    /// Prints the times of the webhooks that arrived since the last call.
    async fn print(&self, stack: &Stack, account: AccountId, title: &str) {
        let arrivals = std::mem::take(&mut *self.arrivals.lock().unwrap());
        let store = Store::new(local::sdk::dynamodb(&stack.endpoints.dynamodb_url), "StateTable");
        let partition = format!("deliveries#{account}:test");
        let all = ("wd_", "wd_~");
        let entries =
            store.list(ListIndex::Log, &partition, all, Order::OldestFirst, usize::MAX).await.unwrap();
        let keys: Vec<Key> = entries.into_iter().map(|entry| entry.key).collect();
        let rows = store.batch_get(&keys).await.unwrap();
        let created_at: HashMap<String, i64> = rows
            .iter()
            .filter_map(|row| Some((text(row, "sk")?, row.get("created_at")?.as_n().ok()?.parse().ok()?)))
            .collect();
        println!("{title}: {} webhooks", arrivals.len());
        let since_event = arrivals.iter().map(|(_, event, arrival)| arrival - event).collect();
        print_times("  from the event to the first attempt", since_event);
        let since_row =
            arrivals.iter().map(|(delivery, _, arrival)| arrival - created_at[delivery]).collect();
        print_times("  from the delivery's row to the first attempt", since_row);
    }
}

fn print_times(title: &str, mut times: Vec<i64>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!("{title:<46} p50 {:>6} ms, p99 {:>6} ms, at most {:>6} ms", at(50), at(99), at(100));
}

/// Creates charges at a steady rate. `first`: the number of the first one, which no other charge has.
async fn create_charges(merchant: &Merchant, first: usize, count: usize, per_second: f64) {
    paced(count, per_second, |number| {
        let merchant = merchant.clone();
        async move {
            merchant.create(first + number).await;
        }
    })
    .await;
}

/// Starts `count` requests at a steady rate, and waits for all of them. Returns the duration.
async fn paced<F: Future<Output = ()> + Send + 'static>(
    count: usize,
    per_second: f64,
    request: impl Fn(usize) -> F,
) -> Duration {
    let started = Instant::now();
    let mut requests = JoinSet::new();
    for number in 0..count {
        let at = started + Duration::from_secs_f64(number as f64 / per_second);
        tokio::time::sleep_until(at.into()).await;
        requests.spawn(request(number));
    }
    requests.join_all().await;
    started.elapsed()
}

/// Creates payments of one account, each with a server of its own, and charges of another account. Returns after all
/// webhooks of the other account have arrived. `path`: how the servers of the first account answer.
async fn flood_of_one_account(path: &'static str) {
    let service = InFiles::start(Options::in_memory()).await;
    let seed = &service.stack.seed;
    let (receivers, of_noisy) = (Receivers::default(), Receivers::default());
    let (port, noisy_port) = (receivers.start().await, of_noisy.start().await);
    let (noisy, quiet) =
        (Merchant::of(&service.stack, &seed.first), Merchant::of(&service.stack, &seed.other));
    quiet.register_endpoint(&format!("http://127.0.0.1:{port}/healthy"), &["charge.created"]).await;
    println!("{PAYMENTS} payments with {path} receivers, {PAYMENTS_PER_SECOND} a second");
    create_charges(&quiet, 0, 50, CHARGES_PER_SECOND as f64).await;
    receivers.wait_for(50).await;
    receivers.print(&service.stack, seed.other.id, "another account, alone").await;

    let flood = paced(PAYMENTS, PAYMENTS_PER_SECOND as f64, |number| {
        let noisy = noisy.clone();
        let (high, low) = (number / 250, number % 250 + 1);
        let body = json!({
            "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": format!("p-{number:06}"),
            "webhookUrl": format!("http://127.1.{high}.{low}:{noisy_port}/{path}"),
        });
        async move {
            noisy.post("/v1/payments", "", &body).await;
        }
    });
    let charges = (PAYMENTS / PAYMENTS_PER_SECOND + SECONDS_AFTER) * CHARGES_PER_SECOND;
    let (flooded, ()) = tokio::join!(flood, create_charges(&quiet, 50, charges, CHARGES_PER_SECOND as f64));
    receivers.wait_for(charges).await;
    receivers.print(&service.stack, seed.other.id, "another account, during the flood").await;
    println!("  payments created in {:.0} s", flooded.as_secs_f64());
    of_noisy.print_hanging();
    service.stop().await;
}

/// Creates charges of an account with many endpoints. `hanging`: the endpoints that never answer.
async fn endpoints_of_one_account(hanging: usize) {
    let service = InFiles::start(Options::in_memory()).await;
    let receivers = Receivers::default();
    let port = receivers.start().await;
    let account = &service.stack.seed.first;
    let merchant = Merchant::of(&service.stack, account);
    for number in 1..=ENDPOINTS {
        let path = if number <= hanging { "hanging" } else { "healthy" };
        let url = format!("http://127.2.0.{number}:{port}/{path}");
        merchant.register_endpoint(&url, &["charge.created"]).await;
    }
    let charges = DELIVERIES_PER_SECOND * SECONDS / ENDPOINTS;
    println!(
        "{DELIVERIES_PER_SECOND} deliveries a second to {ENDPOINTS} endpoints, {hanging} of them hanging"
    );
    create_charges(&merchant, 0, charges, DELIVERIES_PER_SECOND as f64 / ENDPOINTS as f64).await;
    receivers.wait_for(charges * (ENDPOINTS - hanging)).await;
    receivers.print(&service.stack, account.id, "healthy endpoints").await;
    receivers.print_hanging();
    service.stop().await;
}

impl Receivers {
    /// Prints the posts to receivers that never answer. No post may be cut before 30 s.
    fn print_hanging(&self) {
        let posts: Vec<usize> = self.posts_to_hanging.lock().unwrap().values().copied().collect();
        let ended = self.cut_after.lock().unwrap().clone();
        println!(
            "  {} posts to hanging receivers so far, {} of them repeated, at most {} at a time; {} have ended, the first after {:.1} s",
            posts.iter().sum::<usize>(),
            posts.iter().map(|posts| posts - 1).sum::<usize>(),
            self.most_hanging.load(Ordering::SeqCst),
            ended.len(),
            ended.iter().min().copied().unwrap_or_default().as_secs_f64(),
        );
    }

    /// Waits until healthy receivers have got this number of webhooks.
    async fn wait_for(&self, count: usize) {
        let started = Instant::now();
        while self.arrivals.lock().unwrap().len() < count {
            assert!(started.elapsed() < Duration::from_mins(5), "webhooks are missing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn fairness() {
    flood_of_one_account("hanging").await;
    flood_of_one_account("answering").await;
    endpoints_of_one_account(HANGING_ENDPOINTS).await;
    endpoints_of_one_account(0).await;
}
