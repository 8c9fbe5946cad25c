//! `cargo bench -p local`: prints the write units of whole flows, by kind of row and by partition key, as
//! `local/tests/service/budgets.rs` measures them, and how fast due rows and webhooks are processed.
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
#[path = "budgets/pages.rs"]
mod pages;
#[path = "../tests/service/seeding.rs"]
#[allow(dead_code, reason = "the tests use more of this module")]
mod seeding;
#[path = "../tests/service/unit_costs.rs"]
mod unit_costs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State as Shared;
use domain::ids::{EndpointId, Mode, ResendId, Scope};
use domain::shard::ShardCount;
use domain::webhook::event_type::EventType;
use local::embedded::State;
use local::stack::{Options, Stack};
use local::template::Template;
use serde_json::json;
use shared::store::{Item, to_item};
use shared::webhook::delivery::Delivery;
use shared::webhook::event::{Event, Origin};

use self::merchant::Merchant;
use self::unit_costs::{Budget, highest};

/// The number of due deliveries that the scheduler moves.
const DUE_DELIVERIES: usize = 25_000;

/// The number of charges that the throughput test creates and pays.
const DELIVERED_CHARGES: usize = 500;

/// The number of charges whose write units are measured.
const CHARGES_OF_A_MINUTE: usize = 1_000;

fn print_budget(budget: &Budget, value: f64) {
    let Budget { figure, at_most } = budget;
    println!("{figure:<64} {value:>8.2} {at_most:>8.2}");
}

/// Prints the write units of whole flows beside their budgets. A row or an index entry of up to 1 KB costs one
/// unit; a row costs two within a transaction.
async fn write_units() {
    let of_a_minute = unit_costs::charges_of_a_minute(CHARGES_OF_A_MINUTE, ShardCount::ONE, false).await;
    let eight = ShardCount::try_from(8).unwrap();
    let in_eight_shards = unit_costs::charges_of_a_minute(CHARGES_OF_A_MINUTE, eight, false).await;
    let alone = unit_costs::charge_alone().await;
    let live = unit_costs::live_charge().await;
    let refund = unit_costs::refund(0, None).await;
    let of_held_money = unit_costs::refund(1, None).await;
    let to_third_party = unit_costs::refund(0, Some("maria@example.com")).await;
    let med_case = unit_costs::med_case().await;
    let (without_audit_row, with_audit_row) = unit_costs::refund_units(&refund);
    println!("\n{:<64} {:>8} {:>8}", "write units of whole flows", "measured", "at most");
    print_budget(&unit_costs::CHARGES_OF_A_MINUTE, of_a_minute.units());
    print_budget(&unit_costs::CHARGE_ALONE, alone.units());
    print_budget(&unit_costs::REFUND, with_audit_row);
    print_budget(&unit_costs::REFUND_OF_HELD_MONEY, unit_costs::refund_units(&of_held_money).1);
    print_budget(&unit_costs::REFUND_TO_THIRD_PARTY, unit_costs::refund_units(&to_third_party).1);
    print_budget(&unit_costs::HOTTEST_KEY, highest(&of_a_minute.by_partition()));
    print_budget(&unit_costs::HOTTEST_KEY_OF_EIGHT_SHARDS, highest(&in_eight_shards.by_partition()));
    print_budget(&unit_costs::DUE_INDEX, highest(&of_a_minute.by_due_partition()));
    print_budget(&unit_costs::LIVE_CHARGE, live.units());
    print_budget(&unit_costs::MED_CASE, med_case.units());
    for (figure, units) in [
        ("refund without its audit row", without_audit_row),
        ("refund with its audit row, events and statistics", refund.units()),
    ] {
        println!("{figure:<64} {units:>8.2}");
    }
    for (profile, cost) in [("busy", &of_a_minute), ("alone", &alone)] {
        println!("\nquantities of the profile `{profile}` of admin/usage.json");
        for (path, quantity) in cost.quantities() {
            println!("{path:<64} {quantity:>8.2}");
        }
    }
    for (title, cost) in [
        ("a charge among 1,000 of a minute: created, paid, both events delivered", &of_a_minute),
        ("the same in eight shards", &in_eight_shards),
        ("a charge alone in its minute", &alone),
        ("a live charge", &live),
        ("a refund", &refund),
        ("a MED case", &med_case),
    ] {
        println!("\nwrite units of {title}\n{}", cost.describe());
    }
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

/// Measures how many due deliveries one run of the schedules moves, and how fast.
async fn due_rows() {
    let (stack, directory) = start_in_files(Options { event_sources: false, ..Options::in_memory() }).await;
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
        to_item(&Delivery::resend_to(&event, EventType::ChargePaid, Some(endpoint), &resend, at)).unwrap()
    };
    let items: Vec<Item> = (0..DUE_DELIVERIES).map(delivery).collect();
    seeding::write(&dynamodb, &items).await;
    stack.clock.advance(600_000);
    let template = Template::deployed().unwrap();
    let scheduler = stack.functions.get("SchedulerFunction").unwrap();
    let began = Instant::now();
    let mut runs = tokio::task::JoinSet::new();
    for schedule in &template.function("SchedulerFunction").unwrap().schedules {
        let input = schedule.input.clone().unwrap_or_default();
        if input.get("task").is_none() {
            runs.spawn(scheduler(input));
        }
    }
    let moved = runs.join_all().await.into_iter().map(|moved| moved.unwrap()["moved"].as_u64().unwrap());
    let (moved, took) = (moved.sum::<u64>(), began.elapsed());
    println!(
        "\n{moved} due deliveries moved in one run of the schedules in {took:.2?} ({:.0} a second)",
        moved as f64 / took.as_secs_f64()
    );
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
    let client = Merchant::of(&stack);
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
    stack.stop().await;
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The parts of the benchmark. `cargo bench -p local -- units` runs only the part `units`.
const PARTS: [&str; 4] = ["units", "due", "webhooks", "pages"];

/// The charges of the account whose pages are measured. `cargo bench -p local -- pages 100000` takes minutes.
const CHARGES_OF_PAGES: usize = 100;

#[tokio::main]
async fn main() {
    let selected: Vec<String> =
        std::env::args().filter(|argument| PARTS.contains(&argument.as_str())).collect();
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|selected| selected == part);
    if is_selected("units") {
        write_units().await;
    }
    if is_selected("due") {
        due_rows().await;
    }
    if is_selected("webhooks") {
        webhooks().await;
    }
    if is_selected("pages") {
        let charges = std::env::args().find_map(|argument| argument.parse().ok());
        pages::pages(charges.unwrap_or(CHARGES_OF_PAGES)).await;
    }
}
