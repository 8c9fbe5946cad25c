//! `cargo bench -p service`: prints how fast due rows and webhooks are processed, deliveries are counted, and the
//! dashboard's pages open.
//! `testing/service/tests/service/budgets.rs` measures what does not depend on the machine.
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

mod fairness;
mod merchant;
mod numbers;
mod pages;
#[path = "../../tests/service/seeding.rs"]
#[allow(dead_code, reason = "the tests use more of this module")]
mod seeding;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State as Shared;
use domain::ids::{EndpointId, Mode, ResendId, Scope};
use domain::webhook::event_type::EventType;
use effects::webhook::delivery::Delivery;
use effects::webhook::event::{Event, Origin};
use local::embedded::State;
use local::stack::{Options, Stack};
use local::template::Template;
use serde_json::json;
use shared::store::{Item, to_item};

use self::merchant::Merchant;

/// The number of due deliveries that the scheduler moves.
const DUE_DELIVERIES: usize = 25_000;

/// The number of charges that the throughput test creates and pays.
const DELIVERED_CHARGES: usize = 500;

/// A service with its state in files. In files, the records of the streams have an index. In memory they have
/// none. Then each write reads all earlier records of its table's stream, and takes longer than the one before.
struct InFiles {
    stack: Stack,
    directory: PathBuf,
}

impl InFiles {
    async fn start(options: Options) -> Self {
        let directory = std::env::temp_dir().join(format!("speed-{}", std::process::id()));
        let state = State::Directory(directory.clone());
        Self { stack: Stack::start(Options { state, ..options }).await.unwrap(), directory }
    }

    async fn stop(self) {
        self.stack.stop().await;
        std::fs::remove_dir_all(&self.directory).unwrap();
    }
}

/// Measures how many due deliveries one run of the schedules moves, and how fast.
async fn due_rows() {
    let service = InFiles::start(Options { event_sources: false, ..Options::in_memory() }).await;
    let stack = &service.stack;
    let dynamodb = local::sdk::dynamodb(&stack.endpoints.dynamodb_url);
    let scope = Scope { account: stack.seed.first.id, mode: Mode::Test };
    let at = stack.clock.now();
    let origin = Origin::new(scope, "charge#1".to_owned(), at);
    let event = Event::of_one(EventType::ChargePaid, &origin, &json!({})).unwrap();
    let endpoint = EndpointId::new(at, [7; 10]);
    let delivery = |number: usize| {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&number.to_be_bytes());
        let resend = ResendId::new(at, random);
        let delivery = Delivery::resend_to(&event, EventType::ChargePaid, None, &resend, at);
        to_item(&Delivery { endpoint: Some(endpoint), ..delivery }).unwrap()
    };
    let items: Vec<Item> = (0..DUE_DELIVERIES).map(delivery).collect();
    seeding::write(&dynamodb, &items).await;
    stack.clock.advance(600_000);
    let began = Instant::now();
    let moved = run_schedules(stack).await;
    let took = began.elapsed();
    println!(
        "\n{moved} due deliveries moved in one run of the schedules in {took:.2?} ({:.0} a second)",
        moved as f64 / took.as_secs_f64()
    );
    service.stop().await;
}

/// Runs the schedules of the due rows once, and returns how many rows they moved.
async fn run_schedules(stack: &Stack) -> u64 {
    let template = Template::deployed().unwrap();
    let scheduler = stack.functions.get("SchedulerFunction").unwrap();
    let mut runs = tokio::task::JoinSet::new();
    for schedule in &template.function("SchedulerFunction").unwrap().schedules {
        let input = schedule.input.clone().unwrap_or_default();
        if input.get("task").is_none() {
            runs.spawn(scheduler(input));
        }
    }
    runs.join_all().await.into_iter().map(|moved| moved.unwrap()["moved"].as_u64().unwrap()).sum()
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

    let service = InFiles::start(Options::in_memory()).await;
    let client = Merchant::of(&service.stack, &service.stack.seed.first);
    client.register_endpoint(&url, &["charge.created", "charge.paid"]).await;
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
                client.pay(&id).await;
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
    service.stop().await;
}

/// The parts of the benchmark. `cargo bench -p service -- due` runs only the part `due`.
const PARTS: [&str; 4] = ["due", "webhooks", "numbers", "pages"];

/// A part that runs only when it is named, because it takes minutes.
const FAIRNESS: &str = "fairness";

/// The charges of the account whose pages are measured. `cargo bench -p service -- pages 100000` takes minutes.
const CHARGES_OF_PAGES: usize = 100;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_named = |part: &str| arguments.iter().any(|argument| argument == part);
    let is_selected =
        |part: &str| is_named(part) || !PARTS.iter().chain([&FAIRNESS]).any(|part| is_named(part));
    if is_selected("due") {
        due_rows().await;
    }
    if is_selected("webhooks") {
        webhooks().await;
    }
    if is_selected("numbers") {
        numbers::numbers().await;
    }
    if is_selected("pages") {
        let charges = arguments.iter().find_map(|argument| argument.parse().ok());
        pages::pages(charges.unwrap_or(CHARGES_OF_PAGES)).await;
    }
    if is_named(FAIRNESS) {
        fairness::fairness().await;
    }
}
