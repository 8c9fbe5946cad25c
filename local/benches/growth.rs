//! `cargo bench -p local --bench growth`: prints what lists, statistics and the statement of one account cost
//! among 100 to 1,000,000 charges: DynamoDB requests, read units and duration. It also prints the memory of the
//! local service and the size of its files.
//!
//! Each charge has a delivery, an event and a posting, and every hundredth has a MED case. The rows are written
//! straight into the store by the types of the rows, as copies of rows that the API created.
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

#[path = "../tests/service/merchant.rs"]
mod merchant;
#[path = "../tests/service/seeding.rs"]
#[allow(dead_code, reason = "the tests use more of this module")]
mod seeding;

use std::path::Path;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use clap::Parser;
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, MedCaseId, Mode, PostingId, Scope};
use domain::med::MedCase;
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::wallet::Posting;
use domain::webhook::event_type::EventType;
use hyper::Method;
use local::embedded::State;
use local::embedded::fault_proxy::Report;
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::store::{Item, Store, from_item, to_item};
use shared::webhook::delivery::Deliveries;
use shared::webhook::event::{Event, Origin};

use self::merchant::{Merchant, webhook_server};

/// The number of samples of each request.
const SAMPLES: usize = 20;

/// The number of days over which the rows are spread.
const DAYS: usize = 40;

/// Print what lists, statistics and the statement cost among many charges.
#[derive(Parser)]
struct Arguments {
    /// The numbers of charges
    #[arg(long, value_delimiter = ',', default_values_t = [100, 10_000, 100_000, 1_000_000])]
    charges: Vec<usize>,
    /// Keep the state in memory instead of files
    #[arg(long)]
    in_memory: bool,
    /// The argument that cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// The measured requests.
const PATHS: [&str; 15] = [
    "/v1/payments",
    "/v1/payments?limit=100&page=40",
    "/v1/payments?status=REFUSED",
    "/v1/payments/stats?days=7",
    "/v1/payments/metrics?days=366",
    "/v1/wallets/transactions",
    "/v1/wallets/balance",
    "/v1/webhooks/deliveries",
    "/v1/webhooks/deliveries?limit=100",
    "/v1/webhooks/deliveries?status=FAILED",
    "/v1/webhooks/deliveries?eventType=payout.paid",
    "/v1/webhooks/stats",
    "/v1/events",
    "/v1/events?limit=100",
    "/v1/med/cases",
];

/// An account with rows that the API created, and the means to write copies.
struct Account {
    client: aws_sdk_dynamodb::Client,
    store: Store,
    charge: StoredCharge,
    posting: Posting,
    case: MedCase,
    event: Event,
    now: Timestamp,
}

impl Account {
    async fn start(stack: &Stack, merchant: &Merchant) -> Self {
        let client = local::sdk::dynamodb(&stack.endpoints.dynamodb_url);
        let store = Store::new(client.clone(), "StateTable");
        let id = merchant.create(0).await;
        let charge =
            store.get(&Charge::key_of(ChargeId::parse_any(&id).unwrap())).await.unwrap().expect("a charge");
        merchant.pay(&id).await;
        let path = format!("/v1/sandbox/charges/{id}/med-cases");
        let case = merchant.post(&path, &json!({"reason": "Golpe"})).await;
        let case: MedCaseId = case["id"].as_str().unwrap().parse().unwrap();
        let case = store.get(&MedCase::key_of(case)).await.unwrap().expect("a MED case");
        let scope = Scope { account: stack.seed.first.id, mode: Mode::Test };
        let now = stack.clock.now();
        let origin = origin(scope, "charge#1".to_owned(), now);
        Self {
            posting: posting_of(&client, &scope).await,
            event: Event::of_one(EventType::ChargePaid, &origin, &json!({})).unwrap(),
            client,
            store,
            charge,
            case,
            now,
        }
    }

    /// The time of a row: the rows are spread evenly over the days before now.
    fn time_of(&self, number: usize, count: usize) -> Timestamp {
        let step = i64::try_from(DAYS * 86_400_000 / count).unwrap();
        self.now.plus_millis(-step * i64::try_from(number).unwrap() - 300_000).unwrap()
    }

    /// Writes the rows of `count` charges.
    async fn fill(&self, count: usize) {
        let failed = [1, count / 2, count - 2];
        let charge = self.charge.as_stored();
        seeding::seed(&self.client, charge, count, DAYS, &failed).await;
        seeding::seed_deliveries(&self.client, &self.event, count, DAYS, &failed).await;
        let deliveries = Deliveries::new(self.store.clone());
        seeding::count_all(&deliveries, &self.event.scope, self.now, count).await;
        let event = |number: usize| {
            let at = self.time_of(number, count);
            let row = format!("charge#{number}");
            let origin = origin(self.event.scope, row, at);
            let object = json!({"id": number, "status": "paid", "amount": 1_990});
            to_item(&Event::of_one(EventType::ChargePaid, &origin, &object).unwrap()).unwrap()
        };
        seeding::write_all(&self.client, (0..count).map(event)).await;
        let posting = |number: usize| {
            let at = self.time_of(number, count);
            to_item(&Posting { id: PostingId::new(at, random(number)), at, ..self.posting.clone() }).unwrap()
        };
        seeding::write_all(&self.client, (0..count).map(posting)).await;
        let case = |number: usize| {
            let id = MedCaseId::derive(self.case.id.charge(), &format!("growth-{number}"));
            to_item(&MedCase { id, created_at: self.time_of(number, count), ..self.case.clone() }).unwrap()
        };
        seeding::write_all(&self.client, (0..count).step_by(100).map(case)).await;
    }
}

/// Returns the origin of an event of an account with one shard.
fn origin(scope: Scope, row: String, at: Timestamp) -> Origin {
    Origin { scope, shard: Shard::FIRST, row, version: 1, at, request_id: None, charge: None }
}

fn random(number: usize) -> [u8; 10] {
    let mut random = [0; 10];
    random[..8].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
    random
}

/// Returns a posting that is in the statement.
async fn posting_of(client: &aws_sdk_dynamodb::Client, scope: &Scope) -> Posting {
    let found = client
        .query()
        .table_name("StateTable")
        .key_condition_expression("pk = :pk")
        .expression_attribute_values(":pk", AttributeValue::S(Posting::partition(scope, Shard::FIRST)));
    let items: Vec<Item> = found.send().await.unwrap().items.unwrap_or_default();
    let postings = items.into_iter().filter_map(|item| from_item::<Posting>(item).ok());
    postings.into_iter().find(|posting| posting.kind.is_in_statement()).expect("a posting")
}

/// Returns the resident memory of this process in bytes. The local service runs in it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns the size of all files in a directory.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => size_of(&entry.path()),
            metadata => metadata.len(),
        })
        .sum()
}

async fn measure(stack: &Stack, merchant: &Merchant, path: &str) {
    let proxy = stack.fault_proxy.as_ref().unwrap();
    let mut reports: Vec<Report> = Vec::new();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..SAMPLES {
        proxy.reset();
        let began = Instant::now();
        merchant.send(Method::GET, path, "", &Value::Null).await;
        times.push(began.elapsed());
        reports.push(proxy.report());
    }
    times.sort();
    let requests = reports.iter().map(Report::requests).max().unwrap();
    // Concurrent requests that happen not to overlap are counted as sequential.
    let sequential = reports.iter().map(|report| report.sequential_requests).min().unwrap();
    let read_units = reports.iter().map(|report| report.read_units).fold(0.0, f64::max);
    println!("{path:<48} {requests:>8} {sequential:>10} {read_units:>8.1} {:>10.2?}", times[SAMPLES / 2]);
}

async fn grow(count: usize, in_memory: bool) {
    let directory = std::env::temp_dir().join(format!("growth-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let state = if in_memory { State::InMemory } else { State::Directory(directory.clone()) };
    let options = Options { state, fault_proxy: true, event_sources: false, ..Options::in_memory() };
    let stack = Stack::start(options).await.unwrap();
    let merchant = Merchant::of(&stack);
    let (receiver, _received) = webhook_server(StatusCode::NO_CONTENT).await;
    merchant.register_endpoint(&receiver, &["charge.paid"]).await;
    let account = Account::start(&stack, &merchant).await;
    let began = Instant::now();
    account.fill(count).await;
    println!(
        "\n{count} charges, filled in {:.1?}; resident {:.0} MB, files {:.0} MB",
        began.elapsed(),
        resident() as f64 / 1e6,
        size_of(&directory) as f64 / 1e6,
    );
    println!("{:<48} {:>8} {:>10} {:>8} {:>10}", "request", "requests", "sequential", "RRU", "median");
    for path in PATHS {
        measure(&stack, &merchant, path).await;
    }
    stack.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    for count in &arguments.charges {
        grow(*count, arguments.in_memory).await;
    }
}
