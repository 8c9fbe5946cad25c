//! The rollups are kept exactly once, however the stream hands its records over: replayed, split, interleaved, and with
//! answers lost.

use std::collections::BTreeMap;

use domain::calendar::hour_of;
use domain::charge::{Charge, StoredCharge};
use domain::ids::ChargeId;
use local::embedded::fault_proxy::Fault;
use local::stack::Options;
use serde_json::{Value, json};
use shared::rollup::Rollups;
use shared::store::{Item, text};

use crate::budgets::{dispatch, hand_over, stream};
use crate::support::{Service, eventually, id};

/// A row's sums, by its sort key and attribute; those that are 0 left out.
type Sums = BTreeMap<(String, String), i64>;

/// What tests draw from: the same for the same seed (Knuth's MMIX generator).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// What is done with a charge by the sandbox's routes, with their bodies.
type Steps = &'static [(&'static str, &'static str)];

/// What becomes of a charge, and what of it must be counted beside what its row says.
const FATES: [(Steps, &[&str]); 8] = [
    (&[], &[]),
    (&[("pay", "{}")], &["tried"]),
    (&[("pay", r#"{"amount": 1}"#), ("pay", "{}"), ("pay", "{}")], &["tried"]),
    (&[("fail", "{}")], &["tried", "b_fa"]),
    (&[("expire", "{}"), ("pay", "{}")], &["b_ex"]),
    (&[("cancel", "")], &["b_ca"]),
    (&[("pay", r#"{"payer_tax_id": null}"#), ("review", r#"{"decision": "approve"}"#)], &["tried"]),
    (&[("pay", r#"{"payer_tax_id": "25524893033"}"#)], &["tried", "b_re"]),
];

async fn live(service: &Service, steps: Steps) -> Value {
    let charge = service
        .charge_of(
            &json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": "29537995593"}),
        )
        .await;
    for (what, body) in steps {
        service.stack.clock.advance(1_700);
        if *what == "cancel" {
            service.post(&format!("/v1/payments/{}/cancel", id(&charge)), &json!({})).await.expect(200);
        } else {
            service.sandbox(&charge, what, &serde_json::from_str(body).unwrap()).await;
        }
    }
    charge
}

/// Charges of every fate over some days, and what they come to.
async fn history(service: &Service, charges: usize) -> Sums {
    let mut expected = Sums::new();
    for number in 0..charges {
        let (steps, beside) = FATES[number % FATES.len()];
        let charge = live(service, steps).await;
        add(&mut expected, service, &charge, beside).await;
        // Across hours and days.
        service.stack.clock.advance(9_000_000);
    }
    expected.retain(|_, sum| *sum != 0);
    expected
}

async fn add(sums: &mut Sums, service: &Service, charge: &Value, beside: &[&str]) {
    let key = Charge::key_of(ChargeId::parse_any(id(charge)).unwrap());
    let charge: StoredCharge = service.store().get(&key).await.unwrap().unwrap();
    let charge = charge.as_stored();
    let local = charge.created_at.to_chrono() - chrono::TimeDelta::hours(3);
    let day = format!("day#{}#BRL", local.format("%Y-%m-%d"));
    let status = match charge.status.as_str() {
        "WAITING_PAYMENT" => "wp",
        "PAID" => "pa",
        "REFUSED" => "rd",
        "EXPIRED" => "ex",
        "CANCELLED" => "ca",
        "REFUNDED" => "re",
        other => panic!("{other}"),
    };
    let mut add = |row: &str, attribute: &str, by: i64| {
        *sums.entry((row.to_owned(), attribute.to_owned())).or_default() += by;
    };
    for row in [&day, "total"] {
        add(row, "made", 1);
        add(row, &format!("s_{status}"), 1);
    }
    add(&day, &format!("c{}", local.format("%-H")), 1);
    for attribute in beside {
        add(&day, attribute, 1);
    }
    if charge.settlement.is_some() {
        let paid_at = charge.applied_payment.as_ref().unwrap().paid_at;
        for (attribute, by) in [("paid", 1), ("volume", 1000), ("n_px", 1), ("v_px", 1000)] {
            add(&day, attribute, by);
        }
        add(&day, "seconds", paid_at.millis_since(charge.created_at) / 1000);
        add(&day, &format!("p{}", hour_of(paid_at)), 1);
    }
}

async fn rows(service: &Service) -> Vec<Item> {
    service.store().partition(&format!("rollup#{}", service.scope())).await.unwrap()
}

async fn kept(service: &Service) -> Sums {
    let mut sums = Sums::new();
    for row in rows(service).await {
        let sort = text(&row, "sk").unwrap();
        for (attribute, value) in row {
            if let Ok(number) = value.as_n() {
                sums.insert((sort.clone(), attribute), number.parse().unwrap());
            }
        }
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

/// Forgets what was counted.
async fn forget(service: &Service) {
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let scan = client.scan().table_name("StateTable").send().await.unwrap();
    for item in scan.items.unwrap() {
        let pk = text(&item, "pk").unwrap();
        if pk.starts_with("rollup#") || pk.starts_with("counted#") {
            let delete = client.delete_item().table_name("StateTable");
            let delete = delete.key("pk", item["pk"].clone()).key("sk", item["sk"].clone());
            delete.send().await.unwrap();
        }
    }
}

/// Batches that together hold every record at least once: cut anywhere, some handed over again, in any order.
fn batches(records: &[Value], dice: &mut Dice) -> Vec<Vec<Value>> {
    let mut batches = Vec::new();
    let mut begin = 0;
    while begin < records.len() {
        let end = (begin + 1 + dice.below(60)).min(records.len());
        let mut batch = records[begin..end].to_vec();
        if dice.below(3) == 0 {
            // The same record twice in a batch.
            batch.extend_from_slice(&records[begin..(begin + 3).min(end)]);
        }
        batches.push(batch);
        if dice.below(2) == 0 {
            let again = begin.saturating_sub(dice.below(30));
            batches.push(records[again..end].to_vec());
        }
        begin = end;
    }
    for place in (1..batches.len()).rev() {
        batches.swap(place, dice.below(place + 1));
    }
    batches
}

#[tokio::test]
async fn sums_equal_a_recount_however_batches_are_cut_repeated_and_interleaved() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    let expected = history(&service, 24).await;
    let mut records = stream(&service).await;
    dispatch(&service).await;
    assert_eq!(kept(&service).await, expected, "all at once");
    // The records of the rows that this made come by too.
    records.extend(stream(&service).await.split_off(records.len()));
    for seed in 0..6 {
        forget(&service).await;
        let proxy = service.stack.fault_proxy.as_ref().unwrap();
        match seed % 3 {
            0 => proxy.inject_every("TransactWriteItems", 3, Fault::AnswerLost),
            1 => proxy.inject_every("TransactWriteItems", 2, Fault::TransactionConflict),
            _ => {}
        }
        let mut dice = Dice(seed);
        let batches = batches(&records, &mut dice);
        // Two shards at once.
        let (left, right) = batches.split_at(batches.len() / 2);
        let work = async |batches: &[Vec<Value>]| {
            for batch in batches {
                hand_over(&service, batch).await;
            }
        };
        tokio::join!(work(left), work(right));
        proxy.reset();
        assert_eq!(kept(&service).await, expected, "seed {seed}");
    }
}

#[tokio::test]
async fn changes_of_many_charges_fit_their_transactions() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let mut expected = Sums::new();
    for _ in 0..90 {
        let charge = service.charge().await;
        add(&mut expected, &service, &charge, &[]).await;
        // Each on a day of its own.
        service.stack.clock.advance(86_400_000);
    }
    dispatch(&service).await;
    assert_eq!(kept(&service).await, expected);
}

#[tokio::test]
async fn what_could_not_be_counted_is_handed_over_again() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    let charge = service.charge().await;
    let records = stream(&service).await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    proxy.inject_every("TransactWriteItems", 1, Fault::InternalError);
    let dispatcher = service.stack.functions.get("EventDispatcherFunction").unwrap().clone();
    let answer = dispatcher(json!({ "Records": records })).await.unwrap();
    let number = records.iter().find(|record| record["dynamodb"]["Keys"]["sk"]["S"] == "charge").unwrap();
    let expected = json!([{"itemIdentifier": number["dynamodb"]["SequenceNumber"]}]);
    assert_eq!(answer["batchItemFailures"], expected);
    proxy.reset();
    hand_over(&service, &records).await;
    let mut expected = Sums::new();
    add(&mut expected, &service, &charge, &[]).await;
    assert_eq!(kept(&service).await, expected);
}

#[tokio::test]
async fn scopes_are_counted_apart() {
    let service = Service::start().await;
    service.charge().await;
    let other = &service.stack.seed.other.test_api_key;
    let body = json!({"amount": 500});
    for order in ["order-0001", "order-0002"] {
        let key = [("idempotency-key", order)];
        service.post_as(other, "/v1/pix/charges", &body, &key).await.expect(201);
    }
    let rollups = Rollups::new(service.store());
    let mine = service.scope();
    let theirs = domain::ids::Scope { account: service.stack.seed.other.id, ..mine };
    eventually("the counts", async || {
        let made = async |scope| {
            let sums = rollups.of_all_time(scope).await.unwrap();
            sums.get(domain::rollup::Counter::Created)
        };
        ((made(&mine).await, made(&theirs).await) == (1, 2)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_marker_is_kept_as_long_as_events() {
    let service = Service::with(Options { event_sources: false, ..Options::in_memory() }).await;
    let charge = service.charge().await;
    dispatch(&service).await;
    let marker =
        service.rows(&format!("counted#{}", id(&charge).trim_start_matches("ch_")), "").await.remove(0);
    let seconds: i64 = marker["ttl"].as_n().unwrap().parse().unwrap();
    let days = (seconds - service.stack.clock.now().seconds()) / 86_400;
    assert!((89..=90).contains(&days), "{days}");
    assert!(rows(&service).await.iter().all(|row| !row.contains_key("ttl")));
}
