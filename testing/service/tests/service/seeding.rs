//! Writes many payments and deliveries straight into the store, with their sums, as if each had been created
//! and counted. Tests and benchmarks use them to measure the cost of long lists and statistics.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use domain::calendar::Day;
use domain::charge::{Charge, TransactionStatus};
use domain::ids::{ChargeId, EndpointId, Mode, ResendId};
use domain::rollup::rollup_change;
use domain::webhook::event_type::EventType;
use effects::webhook::delivery::{Delivery, DeliveryStatus};
use effects::webhook::event::Event;
use shared::store::{Item, to_item};

/// The number of rows in one `BatchWriteItem`.
const BATCH: usize = 25;

/// The number of batches written concurrently.
const AT_ONCE: usize = 8;

/// Writes `count` copies of `template` with distinct ids, evenly spread over the `days` before its creation,
/// and their sums. The payments at the indices in `refused` are refused.
pub(crate) async fn seed(
    client: &aws_sdk_dynamodb::Client,
    template: &Charge,
    count: usize,
    days: usize,
    refused: &[usize],
) {
    let step = i64::try_from(days * 86_400_000 / count).unwrap();
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    let mut items = Vec::with_capacity(count);
    for number in 0..count {
        let age_ms = step * i64::try_from(count - number).unwrap();
        let charge = Charge {
            id: ChargeId::derive(b"seed", Mode::Test, "seed", &number.to_string()),
            status: if refused.contains(&number) { TransactionStatus::Refused } else { template.status },
            created_at: template.created_at.plus_millis(-age_ms).unwrap(),
            ..template.clone()
        };
        let added_by = rollup_change(None, &charge).unwrap();
        let day = format!("day#{}#{}", added_by.day, added_by.currency);
        for (row, added) in [(day, &added_by.sums), ("total".to_owned(), &added_by.of_all_time())] {
            let row = sums.entry(row).or_default();
            for (attribute, by) in added.iter() {
                *row.entry(attribute.to_owned()).or_default() += by;
            }
        }
        items.push(to_item(&charge).unwrap());
    }
    let rollup = format!("rollup#{}", template.scope);
    items.extend(sums.into_iter().map(|(sort, sums)| {
        let sums = sums.into_iter().map(|(attribute, sum)| (attribute, AttributeValue::N(sum.to_string())));
        let mut item: Item = sums.collect();
        item.insert("pk".to_owned(), AttributeValue::S(rollup.clone()));
        item.insert("sk".to_owned(), AttributeValue::S(sort));
        item
    }));
    write(client, &items).await;
}

/// Returns the second endpoint of [`seed_deliveries`].
pub(crate) fn other_endpoint(event: &Event) -> EndpointId {
    EndpointId::new(event.created_at, [8; 10])
}

/// Writes `count` deliveries of an event, evenly spread over the `days` before it. Those at the indices in
/// `failed` have failed, and every third was inserted late. Every tenth is a `charge.created` to another
/// endpoint, and the oldest is a `payout.paid`.
pub(crate) async fn seed_deliveries(
    client: &aws_sdk_dynamodb::Client,
    event: &Event,
    count: usize,
    days: usize,
    failed: &[usize],
) {
    let step = i64::try_from(days * 86_400_000 / count).unwrap();
    let endpoint = EndpointId::new(event.created_at, [7; 10]);
    let mut failures: BTreeMap<(String, String), i64> = BTreeMap::new();
    let mut delivery = |number: usize| {
        let age_ms = step * i64::try_from(number).unwrap() + 300_000;
        let at = event.created_at.plus_millis(-age_ms).unwrap();
        let resend = ResendId::new(at, [u8::try_from(number % 251).unwrap(); 10]);
        let (event_type, endpoint) = match number {
            _ if number + 1 == count => (EventType::PayoutPaid, endpoint),
            _ if number % 10 == 3 => (EventType::ChargeCreated, other_endpoint(event)),
            _ => (event.types().next().unwrap(), endpoint),
        };
        let delivery_of_event = Delivery::resend_to(event, event_type, None, &resend, at);
        let has_failed = failed.contains(&number);
        let status = if has_failed { DeliveryStatus::Failed } else { DeliveryStatus::Delivered };
        let listed = has_failed || number.is_multiple_of(3);
        if has_failed {
            let day = format!("day#{}#{endpoint}", Day::of(at));
            *failures.entry((day, format!("FAILED#{}", event_type.as_str()))).or_default() += 1;
        }
        let endpoint = Some(endpoint);
        let mut item =
            to_item(&Delivery { endpoint, status, listed, counted: false, ..delivery_of_event }).unwrap();
        item.retain(|name, _| !name.starts_with("due_"));
        item
    };
    write(client, &(0..count).map(&mut delivery).collect::<Vec<_>>()).await;
    // The numbers that the ends of the failed ones add.
    for ((day, attribute), number) in failures {
        let update = client.update_item().table_name("StateTable");
        let update = update.key("pk", AttributeValue::S(format!("deliveries#{}", event.scope)));
        let update = update.key("sk", AttributeValue::S(day)).update_expression("ADD #number :by");
        let update = update.expression_attribute_names("#number", attribute);
        update
            .expression_attribute_values(":by", AttributeValue::N(number.to_string()))
            .send()
            .await
            .unwrap();
    }
}

pub(crate) async fn write(client: &aws_sdk_dynamodb::Client, items: &[Item]) {
    for some in items.chunks(BATCH * AT_ONCE) {
        let mut work = tokio::task::JoinSet::new();
        for batch in some.chunks(BATCH) {
            let puts = batch.iter().map(|item| {
                let put = PutRequest::builder().set_item(Some(item.clone())).build().unwrap();
                WriteRequest::builder().put_request(put).build()
            });
            let requests = HashMap::from([("StateTable".to_owned(), puts.collect())]);
            let write = client.batch_write_item().set_request_items(Some(requests));
            work.spawn(async move {
                let answer = write.send().await.unwrap();
                assert!(answer.unprocessed_items.unwrap_or_default().is_empty());
            });
        }
        work.join_all().await;
    }
}
