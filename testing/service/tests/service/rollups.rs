//! Tests that rollups count each change exactly once when stream records are replayed, split, interleaved,
//! reordered or late, when database responses are lost, and when folds run meanwhile.

use std::collections::BTreeMap;

use domain::calendar::{BusinessDayRange, Day, hour_of};
use domain::charge::{Charge, StoredCharge};
use domain::ids::{ChargeId, Mode};
use domain::rollup::Counter;
use domain::shard::ShardCount;
use effects::rollup::Rollups;
use effects::webhook::event::Event;
use faults::proxy::Fault;
use serde_json::{Value, json};
use shared::checkpoint::{LATE_MS, PASSED_AFTER_MS};
use shared::config::PublicUrls;
use shared::store::{Item, text, to_item};

use crate::invocations::{dispatch, dispatch_records, invoke, stream_records};
use crate::seeding::write;
use crate::support::{Service, created_count, eventually, id};

/// The sums of all rollup rows, by sort key and attribute. Sums of 0 are left out.
type Sums = BTreeMap<(String, String), i64>;

/// A pseudo-random generator with a fixed sequence for each seed (Knuth's MMIX generator).
pub(crate) struct SeededRandom(pub(crate) u64);

impl SeededRandom {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Actions on a charge, each with its body: sandbox routes, except `cancel`, which is a route of payments.
type Steps = &'static [(&'static str, &'static str)];

/// The histories of a charge, each with the attributes that it must count in addition to those of the
/// charge's row.
const HISTORIES: [(Steps, &[&str]); 8] = [
    (&[], &[]),
    (&[("pay", "{}")], &["tried"]),
    (&[("pay", r#"{"amount": 1}"#), ("pay", "{}"), ("pay", "{}")], &["tried"]),
    (&[("fail", "{}")], &["tried", "b_fa"]),
    (&[("expire", "{}"), ("pay", "{}")], &["b_ex"]),
    (&[("cancel", "")], &["b_ca"]),
    (&[("pay", r#"{"payer_tax_id": null}"#), ("review", r#"{"decision": "approve"}"#)], &["tried"]),
    (&[("pay", r#"{"payer_tax_id": "25524893033"}"#)], &["tried", "b_re"]),
];

async fn create_charge_with_history(service: &Service, steps: Steps) -> Value {
    let charge = service.charge_locked_to_payer().await;
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

/// Creates charges with every history over several days. Returns the expected sums.
async fn create_histories(service: &Service, charges: usize) -> Sums {
    let mut expected = Sums::new();
    for number in 0..charges {
        let (steps, additional) = HISTORIES[number % HISTORIES.len()];
        let charge = create_charge_with_history(service, steps).await;
        add(&mut expected, service, &charge, additional).await;
        // Spread the charges over hours and days.
        service.stack.clock.advance(9_000_000);
    }
    expected.retain(|_, sum| *sum != 0);
    expected
}

async fn add(sums: &mut Sums, service: &Service, charge: &Value, additional: &[&str]) {
    let charge = service.stored_charge(ChargeId::parse_any(id(charge)).unwrap()).await;
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
    for attribute in additional {
        add(&day, attribute, 1);
    }
    if charge.settlement.is_some() {
        let paid_at = charge.applied_payment.as_ref().unwrap().paid_at;
        for (attribute, by) in [("paid", 1), ("volume", 1000), ("n_px", 1), ("v_px", 1000)] {
            add(&day, attribute, by);
        }
        add(&day, "seconds", paid_at.millis_since(charge.created_at) / 1000);
        add(&day, &format!("p{}", hour_of(paid_at)), 1);
        let of_payment = format!("day#{}#BRL", Day::of(paid_at));
        add(&of_payment, "in", 1);
        add(&of_payment, "in_v", 1000);
    }
    let refunded = charge.funds.refunded().unwrap().get();
    if refunded != 0 {
        add(&format!("day#{}#BRL", Day::of(charge.updated_at)), "back", refunded);
    }
}

async fn rows(service: &Service) -> Vec<Item> {
    service.store().partition(&format!("rollup#{}", service.scope())).await.unwrap()
}

/// The stored sums, with the changes after the checkpoint.
async fn counted_sums(service: &Service) -> Sums {
    let mut sums = Sums::new();
    for row in rows(service).await {
        let sort = text(&row, "sk").unwrap();
        // Late changes are in parts of the row, which end with a character more.
        let whole =
            sort.rsplit_once('#').filter(|(_, part)| part.len() == 1).map_or(&*sort, |(whole, _)| whole);
        for (attribute, value) in row {
            if let Ok(number) = value.as_n() {
                *sums.entry((whole.to_owned(), attribute)).or_default() += number.parse::<i64>().unwrap();
            }
        }
    }
    let (rollups, scope) = (Rollups::new(service.store()), service.scope());
    let (_, checkpoint) = rollups.all_time(&scope).await.unwrap();
    for change in rollups.changes_after(&service.sharded(&scope).await, checkpoint).await.unwrap() {
        let of_all_time = change.of_all_time();
        let days = change.of_days().map(|(day, sums)| (format!("day#{day}#{}", change.currency), sums));
        for (row, added) in days.chain([("total".to_owned(), &of_all_time)]) {
            for (attribute, by) in added.iter() {
                *sums.entry((row.clone(), attribute.to_owned())).or_default() += by;
            }
        }
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

/// Deletes all rollups and events.
async fn delete_rollups(service: &Service) {
    let client = service.dynamodb();
    let scan = client.scan().table_name("StateTable").send().await.unwrap();
    for item in scan.items.unwrap() {
        let pk = text(&item, "pk").unwrap();
        if ["rollup#", "events#"].iter().any(|prefix| pk.starts_with(prefix)) {
            service.delete_row(&pk, item["sk"].as_s().unwrap()).await;
        }
    }
}

/// Cuts the records into random batches that together contain each record at least once. Some records repeat,
/// and the batches are shuffled.
fn batches(records: &[Value], random: &mut SeededRandom) -> Vec<Vec<Value>> {
    let mut batches = Vec::new();
    let mut begin = 0;
    while begin < records.len() {
        let end = (begin + 1 + random.below(60)).min(records.len());
        let mut batch = records[begin..end].to_vec();
        if random.below(3) == 0 {
            // The same record appears twice in one batch.
            batch.extend_from_slice(&records[begin..(begin + 3).min(end)]);
        }
        batches.push(batch);
        if random.below(2) == 0 {
            let again = begin.saturating_sub(random.below(30));
            batches.push(records[again..end].to_vec());
        }
        begin = end;
    }
    for place in (1..batches.len()).rev() {
        batches.swap(place, random.below(place + 1));
    }
    batches
}

/// Dispatches a batch as Lambda does: again while a record fails. From the 20th round on there are no faults, because
/// a fault that recurs in step with the retries never lets a request succeed.
async fn dispatch_until_done(service: &Service, batch: &[Value]) {
    for round in 0..100 {
        if round == 20 {
            service.proxy().reset();
        }
        let answer = invoke(&service.stack, "EventDispatcherFunction", batch).await;
        if answer["batchItemFailures"] == json!([]) {
            return;
        }
    }
    panic!("the batch fails again and again");
}

#[tokio::test]
async fn sums_equal_a_recount_for_any_cut_repetition_and_interleaving_of_batches() {
    let service = Service::without_event_sources().await;
    let expected = create_histories(&service, 24).await;
    let mut records = stream_records(&service.stack);
    dispatch(&service.stack).await;
    assert_eq!(counted_sums(&service).await, expected, "all records in one batch");
    // The dispatcher's own writes are in the stream too.
    records.extend(stream_records(&service.stack).split_off(records.len()));
    for seed in 0..6 {
        delete_rollups(&service).await;
        let proxy = service.proxy();
        match seed % 3 {
            0 => proxy.inject_every("TransactWriteItems", 3, Fault::AnswerLost),
            1 => proxy.inject_every("TransactWriteItems", 2, Fault::Conflict),
            _ => {}
        }
        let mut random = SeededRandom(seed);
        let batches = batches(&records, &mut random);
        // Two shards are dispatched concurrently.
        let (left, right) = batches.split_at(batches.len() / 2);
        let dispatch_all = async |batches: &[Vec<Value>]| {
            for batch in batches {
                dispatch_until_done(&service, batch).await;
            }
        };
        tokio::join!(dispatch_all(left), dispatch_all(right));
        proxy.reset();
        assert_eq!(counted_sums(&service).await, expected, "seed {seed}");
    }
}

#[tokio::test]
async fn a_late_change_that_could_not_be_counted_is_retried() {
    let service = Service::without_event_sources().await;
    let charge = service.charge().await;
    let records = stream_records(&service.stack);
    let proxy = service.proxy();
    service.stack.clock.advance(LATE_MS);
    proxy.inject_every("TransactWriteItems", 1, Fault::ServerError);
    let answer = invoke(&service.stack, "EventDispatcherFunction", &records).await;
    let number = records.iter().find(|record| record["dynamodb"]["Keys"]["sk"]["S"] == "charge").unwrap();
    let number = &number["dynamodb"]["SequenceNumber"];
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": number}]));
    proxy.reset();
    for _ in 0..2 {
        dispatch_records(&service.stack, &records).await;
    }
    let mut expected = Sums::new();
    add(&mut expected, &service, &charge, &[]).await;
    assert_eq!(counted_sums(&service).await, expected);
    assert_eq!(service.get("/v1/payments/stats").await.expect(200)["totalTransactions"], 1);
    assert_eq!(service.get("/v1/payments").await.expect(200)["total"], 1);
    assert!(rows(&service).await.iter().all(|row| !row.contains_key("ttl")), "a sum never expires");
}

/// Advances the checkpoint as far as it can be now, by two folds at once.
async fn fold_twice(service: &Service) {
    let (rollups, scope, now) = (Rollups::new(service.store()), service.scope(), service.stack.clock.now());
    let (one, other) = tokio::join!(rollups.fold(&scope, now), rollups.fold(&scope, now));
    one.unwrap();
    other.unwrap();
}

#[tokio::test]
async fn sums_equal_a_recount_while_folds_run_and_after_an_outage_of_twelve_hours() {
    const TWELVE_HOURS_MS: i64 = 12 * 60 * 60 * 1_000;
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    let mut random = SeededRandom(7);
    let (mut expected, mut seen, mut withheld) = (Sums::new(), 0, Vec::new());
    for number in 0..48 {
        let (steps, additional) = HISTORIES[number % HISTORIES.len()];
        let charge = create_charge_with_history(&service, steps).await;
        add(&mut expected, &service, &charge, additional).await;
        let records = stream_records(&service.stack).split_off(seen);
        seen += records.len();
        if (20..30).contains(&number) {
            // The dispatcher does not run.
            withheld.extend(records);
        } else {
            for batch in batches(&records, &mut random) {
                dispatch_until_done(&service, &batch).await;
            }
        }
        match number {
            14 => service.raise_shards(ShardCount::try_from(8).unwrap()).await,
            33 => service.raise_shards(ShardCount::MAX).await,
            10 => proxy.inject_every("TransactWriteItems", 5, Fault::AnswerLost),
            29 => {
                service.stack.clock.advance(TWELVE_HOURS_MS);
                Box::pin(fold_twice(&service)).await;
                for batch in batches(&withheld, &mut random) {
                    dispatch_until_done(&service, &batch).await;
                }
            }
            _ => {}
        }
        service.stack.clock.advance(i64::try_from(random.below(120_000)).unwrap());
        Box::pin(fold_twice(&service)).await;
    }
    expected.retain(|_, sum| *sum != 0);
    assert_eq!(counted_sums(&service).await, expected, "beside the last changes");
    service.stack.clock.advance(PASSED_AFTER_MS);
    Box::pin(fold_twice(&service)).await;
    assert_eq!(counted_sums(&service).await, expected, "after the checkpoint has passed all changes");
    let (rollups, scope) = (Rollups::new(service.store()), service.scope());
    let (_, checkpoint) = rollups.all_time(&scope).await.unwrap();
    assert_eq!(rollups.changes_after(&service.sharded(&scope).await, checkpoint).await.unwrap(), []);
    // Records that are replayed after the fold count nothing again. The responses of some writes may still be lost.
    dispatch_until_done(&service, &stream_records(&service.stack)).await;
    Box::pin(fold_twice(&service)).await;
    assert_eq!(counted_sums(&service).await, expected, "after a replay");
}

#[tokio::test]
async fn the_scheduler_folds_the_rollups_within_a_day_and_stops_when_nothing_follows() {
    let service = Service::start().await;
    service.charge().await;
    let scope = service.scope();
    let checkpoint = async || {
        let row = service.rows(&format!("rollup#{scope}"), "total").await.into_iter().next()?;
        Some((text(&row, "up_to"), row.contains_key("due_sk")))
    };
    eventually("a fold is due", async || (checkpoint().await? == (None, true)).then_some(())).await;
    service.advance_seconds(24 * 60 * 60).await;
    eventually("the checkpoint has passed the charge", async || checkpoint().await?.0).await;
    assert_eq!(created_count(&service, &scope).await, 1);
    eventually("no fold is due", async || {
        service.advance_seconds(24 * 60 * 60).await;
        (!checkpoint().await?.1).then_some(())
    })
    .await;
    assert_eq!(created_count(&service, &scope).await, 1);
    // The numbers stay when the event's row has expired.
    let stats = service.get("/v1/payments/stats").await.expect(200);
    assert_eq!(stats["totalTransactions"], 1, "{stats}");
}

#[tokio::test]
async fn statistics_and_totals_are_exact_within_a_minute_after_3000_changes_in_three_seconds() {
    const CHANGES: usize = 3_000;
    let service = Service::without_event_sources().await;
    let first = service.charge().await;
    let key = Charge::key_of(ChargeId::parse_any(id(&first)).unwrap());
    let template: StoredCharge = service.store().get(&key).await.unwrap().unwrap();
    let client = service.dynamodb();
    service.delete_row(&key.pk, &key.sk).await;
    let urls = PublicUrls::new("https://pay.example.com/checkout").unwrap();
    let rows = (0..CHANGES).flat_map(|number| {
        let charge = Charge {
            id: ChargeId::derive(b"burst", Mode::Test, "burst", &number.to_string()),
            created_at: template.as_stored().created_at.plus_millis(i64::try_from(number).unwrap()).unwrap(),
            ..template.as_stored().clone()
        };
        let event = Event::of_charge(None, &charge, &urls).unwrap().unwrap();
        [to_item(&charge).unwrap(), to_item(&event).unwrap()]
    });
    write(&client, &rows.collect::<Vec<_>>()).await;
    service.stack.clock.advance(6_000);
    let (rollups, scope) = (Rollups::new(service.store()), service.scope());
    let stats = async || {
        let proxy = service.proxy();
        proxy.reset();
        let stats = service.get("/v1/payments/stats").await.expect(200);
        assert_eq!(stats["totalTransactions"], CHANGES, "{stats}");
        proxy.report().requests()
    };
    let requests_before = stats().await;
    rollups.schedule_fold(&scope, true, service.stack.clock.now()).await.unwrap();
    // The checkpoint passes some of the changes in the second of these runs, which can't store the sums of the
    // others, and all in the third.
    for after_ms in [6_000, 210_700, 300_000] {
        let at = template.as_stored().created_at.plus_millis(after_ms).unwrap();
        service.stack.clock.advance(at.millis() - service.stack.clock.now().millis());
        let proxy = service.proxy();
        if after_ms == 210_700 {
            (0..20).for_each(|_| proxy.inject("UpdateItem", Fault::ServerError));
        }
        service.run_scheduler().await;
        let requests = stats().await;
        assert!(requests <= 3 && requests < requests_before, "{requests} after {requests_before}");
        let page = service.get("/v1/payments").await.expect(200);
        assert_eq!(page["total"], CHANGES);
    }
    let checkpoint = service.rows(&format!("rollup#{scope}"), "total").await.remove(0);
    assert!(text(&checkpoint, "up_to").is_some(), "{checkpoint:?}");
}

#[tokio::test]
async fn a_bounded_read_says_up_to_when_it_has_all_changes() {
    let service = Service::without_event_sources().await;
    for _ in 0..3 {
        service.charge().await;
        service.stack.clock.advance(1_000);
    }
    dispatch(&service.stack).await;
    let (rollups, today) = (Rollups::new(service.store()), Day::of(service.stack.clock.now()));
    let (scope, window) = (service.sharded(&service.scope()).await, BusinessDayRange { first: today, today });
    let (all, up_to) = rollups.latest(&scope, window, 10).await.unwrap();
    assert_eq!((all[0].sums.get(Counter::Created), up_to), (3, None));
    let (some, up_to) = rollups.latest(&scope, window, 2).await.unwrap();
    let age = service.stack.clock.now().millis_since(up_to.unwrap());
    assert_eq!(some[0].sums.get(Counter::Created), 2);
    assert!((2_000..12_000).contains(&age), "{age}");
}
