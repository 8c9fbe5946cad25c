//! Tests of dates in query strings, on every list with time bounds. A bare date is a day in São Paulo.

use domain::calendar::Day;
use domain::charge::Charge;
use domain::ids::{ChargeId, MedCaseId, Mode, PostingId};
use domain::med::MedCase;
use domain::row::Row;
use domain::time::Timestamp;
use domain::wallet::Posting;
use effects::webhook::event::{Event, Origin, SentObject};
use shared::store::{CommitOutcome, Item, Store, Write, from_item};

use crate::support::{Client, Service, eventually};

/// Returns the day before yesterday in São Paulo and four times around it: the last millisecond before the
/// day, its first, its last, and the first millisecond after the day.
fn day_boundaries(service: &Service) -> (Day, [Timestamp; 4]) {
    let day = Day::of(service.stack.clock.now()).minus_days(2);
    let (first, last) = (day.starts_at(), day.ends_at());
    (day, [first.plus_millis(-1).unwrap(), first, last, last.plus_millis(1).unwrap()])
}

async fn insert<R: Row>(store: &Store, row: &R) {
    assert_eq!(store.commit(vec![Write::insert(row).unwrap()]).await.unwrap(), CommitOutcome::Done);
}

/// Waits for a row of a partition whose sort key starts with `prefix`, and returns it.
async fn row(service: &Service, pk: &str, prefix: &str) -> Item {
    let what = format!("{pk} {prefix}");
    eventually(&what, async || service.store().partition_prefix(pk, prefix).await.unwrap().pop()).await
}

/// Returns the indices of the ids that a list contains, in ascending order.
async fn listed(client: &Client, path: &str, ids: &[String; 4]) -> Vec<usize> {
    let page = client.get(path).await.expect(200);
    let data = page["data"].as_array().unwrap();
    let mut places: Vec<usize> =
        data.iter().filter_map(|item| ids.iter().position(|id| item["id"] == id.as_str())).collect();
    places.sort_unstable();
    places
}

/// Checks a list with inclusive bounds against the four times.
async fn check_inclusive(
    client: &Client,
    path: &str,
    (after, before): (&str, &str),
    day: Day,
    ids: [String; 4],
) {
    for (query, expected) in [
        (format!("{after}={day}"), vec![1, 2, 3]),
        (format!("{before}={day}"), vec![0, 1, 2]),
        (format!("{after}={day}&{before}={day}"), vec![1, 2]),
    ] {
        let path = format!("{path}?limit=100&{query}");
        assert_eq!(listed(client, &path, &ids).await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_bare_date_is_the_whole_day_in_sao_paulo_as_an_inclusive_bound_and_its_start_as_an_exclusive_one() {
    let service = Service::start().await;
    let (day, times) = day_boundaries(&service);
    let (store, scope) = (service.store(), service.scope());
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &serde_json::json!({})).await;

    let template = service.stored_charge(charge["id"].as_str().unwrap().parse().unwrap()).await;
    let charges = times.map(|at| Charge {
        id: ChargeId::derive(b"salt", Mode::Test, "charges", &at.to_iso()),
        created_at: at,
        ..template.clone()
    });
    for charge in &charges {
        insert(&store, charge).await;
    }
    let ids = charges.each_ref().map(|charge| charge.id.to_string());
    check_inclusive(&service, "/v1/charges", ("created_after", "created_before"), day, ids).await;
    let ids = charges.each_ref().map(|charge| charge.id.raw());
    check_inclusive(&service, "/v1/payments", ("startDate", "endDate"), day, ids).await;

    let template: Posting =
        from_item(row(&service, &format!("ledger#{scope}"), "wallet#BRL#").await).unwrap();
    let postings = times.map(|at| Posting { id: PostingId::new(at, [7; 10]), at, ..template.clone() });
    for posting in &postings {
        insert(&store, posting).await;
    }
    let ids = postings.each_ref().map(|posting| posting.id.to_string());
    let bounds = ("created_after", "created_before");
    check_inclusive(&service, "/v1/wallets/transactions", bounds, day, ids).await;

    let template: Event = from_item(row(&service, &format!("events#{scope}"), "evt_").await).unwrap();
    let name = template.types().next().unwrap();
    let events = times.map(|at| {
        let object = SentObject { types: vec![name], ..template.objects[0].clone() };
        Event::new(&Origin::new(scope, "row".to_owned(), at), [object], None).unwrap()
    });
    for event in &events {
        insert(&store, event).await;
    }
    let ids = events.each_ref().map(|event| event.id_as(name).to_string());
    check_inclusive(&service, "/v1/events", bounds, day, ids).await;

    let path = format!("/v1/sandbox/charges/{}/med-cases", charge["id"].as_str().unwrap());
    let case = service.post(&path, &serde_json::json!({})).await.expect(201);

    let key = MedCase::key_of(case["id"].as_str().unwrap().parse().unwrap());
    let template: MedCase = store.get(&key).await.unwrap().unwrap();
    let cases = times.map(|at| MedCase {
        id: MedCaseId::derive(template.id.charge(), &at.to_iso()),
        created_at: at,
        ..template.clone()
    });
    for case in &cases {
        insert(&store, case).await;
    }
    let ids = cases.each_ref().map(|case| case.id.to_string());
    // The bounds of MED cases are exclusive.
    for (query, expected) in [
        (format!("created_after={day}"), vec![2, 3]),
        (format!("created_before={day}"), vec![0]),
        (format!("created_after={}", times[0]), vec![1, 2, 3]),
        (format!("created_before={}", times[2]), vec![0, 1]),
    ] {
        for path in ["/v1/med/cases", "/v1/infractions"] {
            let path = format!("{path}?limit=100&{query}");
            assert_eq!(listed(&service, &path, &ids).await, expected, "{path}");
        }
    }
}
