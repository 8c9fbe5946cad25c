//! Tests of accounts with several shards: raising the number while charges are created and paid, and while
//! payments and stream records are repeated, loses nothing and repeats nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::charge::Charge;
use domain::charge::transition::{Command, Payment};
use domain::ids::{ChargeId, EndToEndId};
use domain::payment_method::PaymentMethod;
use domain::shard::{Shard, ShardCount};
use domain::time::Timestamp;
use effects::webhook::delivery::Deliveries;
use money::charge::Charges;
use serde_json::json;

use crate::invocations::{dispatch_records, stream_records};
use crate::rollups::SeededRandom;
use crate::support::{Listener, Service, created_count, eventually, id};

/// The charges of each writer. They are created before, between and after the two changes of the number.
const CHARGES: usize = 36;

/// The number of callers that create and pay charges concurrently.
const WRITERS: usize = 2;

fn count(number: u8) -> ShardCount {
    ShardCount::try_from(number).unwrap()
}

async fn stored(service: &Service, charge: &str) -> Charge {
    service.stored_charge(ChargeId::parse_any(charge).unwrap()).await
}

/// The Pix that pays a charge. Its id depends on the charge alone, as if a bank repeated its notification.
fn notification(charge: &Charge, paid_at: Timestamp) -> Command {
    let payment = Payment {
        id: EndToEndId::simulated(charge.id, charge.created_at).into(),
        method: PaymentMethod::Pix,
        amount: charge.amount,
        payer_document: None,
        paid_at,
        is_in_time: false,
        charged: None,
    };
    Command::Pay { payment, terms: domain::account::terms::MethodTerms::default() }
}

/// Notifies the service of a charge's payment.
async fn notify(service: &Service, charge: &str) -> Charge {
    let charges = Charges::new(service.store());
    let found = charges.find(ChargeId::parse_any(charge).ok()).await.unwrap().unwrap();
    let now = service.stack.clock.now();
    let command = notification(found.as_stored(), now);
    charges.apply(found, &command, now).await.unwrap()
}

/// Creates charges and pays most of them.
async fn write(service: &Service, created: &Mutex<Vec<(String, bool)>>) {
    for number in 0..CHARGES {
        let charge = service.charge().await;
        let is_paid = number % 4 != 3;
        if is_paid {
            notify(service, id(&charge)).await;
        }
        created.lock().unwrap().push((id(&charge).to_owned(), is_paid));
    }
}

/// Repeats notifications and stream records until `is_done`.
async fn repeat(service: &Service, created: &Mutex<Vec<(String, bool)>>, is_done: &AtomicBool) {
    let mut random = SeededRandom(19);
    while !is_done.load(Ordering::Relaxed) {
        let known = created.lock().unwrap().clone();
        if known.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let (charge, is_paid) = &known[random.below(known.len())];
        if *is_paid {
            notify(service, charge).await;
        }
        let records = stream_records(&service.stack);
        let from = random.below(records.len());
        let to = (from + 1 + random.below(40)).min(records.len());
        dispatch_records(&service.stack, &records[from..to]).await;
    }
}

/// Reads lists until `is_done`. Fails if a list omits a charge that was created before the list was read.
async fn read(service: &Service, created: &Mutex<Vec<(String, bool)>>, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        let before: BTreeSet<String> = created.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
        let listed = service.all_pages("/v1/charges?limit=50").await;
        let listed: BTreeSet<String> = listed.iter().map(|charge| id(charge).to_owned()).collect();
        let missing: Vec<&String> = before.difference(&listed).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[tokio::test]
async fn raising_the_number_of_shards_under_load_loses_and_repeats_nothing() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let (created, is_done) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let raise = async {
        for (after, number) in [(WRITERS * CHARGES / 3, 8), (WRITERS * CHARGES * 2 / 3, 16)] {
            eventually("a third of the charges is created", async || {
                (created.lock().unwrap().len() >= after).then_some(())
            })
            .await;
            service.raise_shards(count(number)).await;
        }
    };
    let writers = async {
        tokio::join!(write(&service, &created), write(&service, &created), raise);
        is_done.store(true, Ordering::Relaxed);
    };
    Box::pin(async {
        tokio::join!(writers, repeat(&service, &created, &is_done), read(&service, &created, &is_done))
    })
    .await;
    let created = created.into_inner().unwrap();
    let paid: BTreeSet<&str> = created.iter().filter(|(_, paid)| *paid).map(|(id, _)| id.as_str()).collect();

    let mut numbers: BTreeMap<u8, usize> = BTreeMap::new();
    for (charge, _) in &created {
        *numbers.entry(stored(&service, charge).await.shards.get()).or_default() += 1;
    }
    assert_eq!(numbers.keys().copied().collect::<Vec<_>>(), [1, 8, 16], "{numbers:?}");

    // One credit each.
    let verified = service.check_ledger().await;
    assert_eq!(verified.postings, u64::try_from(paid.len()).unwrap());
    let balance = service.get("/v1/wallets/balance").await.expect(200);
    assert_eq!(balance["available"], 1_000 * paid.len());
    let movements = service.all_pages("/v1/wallets/transactions?limit=7").await;
    let credited: BTreeSet<&str> =
        movements.iter().map(|movement| movement["charge_id"].as_str().unwrap()).collect();
    assert_eq!((credited, movements.len()), (paid.clone(), paid.len()));
    assert!(movements.is_sorted_by(|newer, older| id(newer) > id(older)));
    assert_eq!(service.incoming_payments(&service.scope()).await.len(), paid.len());

    // No row is missing from a page, in the order of creation.
    let listed = service.all_pages("/v1/charges?limit=7").await;
    assert_eq!(listed.len(), created.len());
    assert!(listed.is_sorted_by(|newer, older| newer["created_at"].as_str() >= older["created_at"].as_str()));
    assert_eq!(service.all_pages("/v1/charges?status=paid&limit=7").await.len(), paid.len());
    let page = service.get("/v1/payments?limit=9&page=3&sortOrder=asc").await.expect(200);
    let oldest: Vec<&str> = listed.iter().rev().skip(18).take(9).map(id).collect();
    let on_page = page["data"].as_array().unwrap();
    assert_eq!(page["total"], created.len());
    for (payment, charge) in on_page.iter().zip(oldest) {
        assert_eq!(charge, format!("ch_{}", id(payment)));
    }

    // One event for each change, delivered, and read by its id.
    let changes = created.len() + paid.len();
    let bodies = eventually("all events are delivered", async || {
        let bodies: BTreeSet<String> =
            listener.hooks().iter().map(|hook| hook.json()["id"].as_str().unwrap().to_owned()).collect();
        assert!(bodies.len() <= changes, "a change has two event ids");
        (bodies.len() == changes).then_some(bodies)
    })
    .await;
    // One delivery of each event, counted once, also by the scheduler.
    let check_deliveries = async || {
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        assert_eq!((&stats["DELIVERED"], &stats["total"]), (&json!(changes), &json!(changes)));
        let page = service.get("/v1/webhooks/deliveries?eventType=charge.paid").await.expect(200);
        assert_eq!(page["total"], paid.len());
        let deliveries = service.all_pages("/v1/webhooks/deliveries?limit=7").await;
        let of_bodies: BTreeSet<String> = deliveries
            .iter()
            .map(|delivery| delivery["payload"]["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!((deliveries.len(), of_bodies), (changes, bodies.clone()));
        assert!(deliveries.is_sorted_by(|newer, older| id(newer) > id(older)));
    };
    eventually("all deliveries are done", async || {
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        (stats["DELIVERED"] == changes).then_some(())
    })
    .await;
    check_deliveries().await;
    service.stack.clock.advance(300_000);
    let deliveries = Deliveries::new(service.store());
    deliveries.count(&service.scope(), service.stack.clock.now()).await.unwrap();
    check_deliveries().await;
    let events = service.all_pages("/v1/events?limit=7").await;
    let canonical = |name: &str| events.iter().filter(|event| event["type"] == name).count();
    assert_eq!([canonical("charge.created"), canonical("charge.paid")], [created.len(), paid.len()]);
    assert_eq!(service.all_pages("/v1/events?type=charge.paid&limit=7").await.len(), paid.len());
    for event in events.iter().step_by(9) {
        assert_eq!(service.get(&format!("/v1/events/{}", id(event))).await.expect(200), *event);
    }
    for (charge, is_paid) in created.iter().step_by(9) {
        let of_charge = service.all_pages(&format!("/v1/events?object={charge}&limit=50")).await;
        let canonical = of_charge.iter().filter(|event| event["type"].is_string()).count();
        assert_eq!(canonical, 1 + usize::from(*is_paid), "{of_charge:?}");
    }
    let total = i64::try_from(created.len()).unwrap();
    assert_eq!(created_count(&service, &service.scope()).await, total);
}

/// A refund's money comes from all shards, and its postings and events are in the shard of its charge.
#[tokio::test]
async fn a_refund_is_covered_by_the_credits_of_all_shards() {
    let service = Service::start().await;
    service.raise_shards(count(16)).await;
    let mut charges = Vec::new();
    for _ in 0..8 {
        charges.push(service.pay(1_000).await);
    }
    for charge in &charges {
        service.refund(charge, "refund-01", json!({"reason": "Devolvido"})).await.expect(201);
    }
    eventually("all refunds are done", async || {
        let refunded = service.all_pages("/v1/charges?status=refunded&limit=3").await;
        (refunded.len() == charges.len()).then_some(())
    })
    .await;
    service.check_ledger().await;
    assert_eq!(service.get("/v1/wallets/balance").await.expect(200)["available"], 0);
    let mut shards: BTreeSet<Shard> = BTreeSet::new();
    for charge in &charges {
        shards.insert(stored(&service, id(charge)).await.shard());
    }
    for shard in shards {
        let ledger = shard.partition(format!("ledger#{}", service.scope()));
        assert!(!service.rows(&ledger, "wallet#").await.is_empty(), "{ledger}");
        let events = shard.partition(format!("events#{}", service.scope()));
        assert!(!service.rows(&events, "evt_").await.is_empty(), "{events}");
    }
}
