//! Tests of `/v1/events`, the event log that a merchant reads to catch up after an outage.

use domain::ids::{ChargeId, EventId, MedCaseId};
use domain::shard::Shard;
use domain::webhook::event_type::EventType;
use effects::webhook::event::{Event, Origin, SentObject};
use money::payout::Payouts;
use serde_json::{Value, json};
use shared::random;

use crate::description::example_body;
use crate::invocations::dispatch;
use crate::support::{Listener, Service, eventually, id, operator, raw_id};
use crate::webhooks::{CANONICAL, LEGACY};

/// Reads all events that match a query, in pages of `limit`.
async fn all_events(service: &Service, query: &str, limit: usize) -> Vec<Value> {
    service.all_pages(&format!("/v1/events?limit={limit}{query}")).await
}

fn type_name(event: &Value) -> &str {
    event["type"].as_str().or_else(|| event["event"].as_str()).unwrap()
}

fn type_names(events: &[Value]) -> Vec<&str> {
    events.iter().map(type_name).collect()
}

/// Waits until at least `count` events are in the log.
async fn wait_for_events(service: &Service, query: &str, count: usize) -> Vec<Value> {
    eventually("the expected number of events is in the log", async || {
        Some(all_events(service, query, 100).await).filter(|events| events.len() >= count)
    })
    .await
}

#[tokio::test]
async fn the_log_has_every_event_as_it_was_sent_even_without_a_subscriber() {
    let service = Service::start().await;
    let before = service.charge().await;
    wait_for_events(&service, "", 3).await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &[&CANONICAL[..], &LEGACY].concat()).await;
    service.pay(1_000).await;
    let hooks = listener.received(6).await;
    let events = wait_for_events(&service, "", 9).await;
    assert_eq!(events.len(), 9);
    let missed = events.iter().filter(|event| event["data"]["object"]["id"] == before["id"]).count();
    assert_eq!(missed, 1, "an event without a subscriber is in the log");
    for hook in &hooks {
        let sent = hook.json();
        let event = events.iter().find(|event| match sent.get("type") {
            Some(_) => **event == sent,
            None => event["event"] == sent["event"] && event["data"] == sent["data"],
        });
        let event = event.unwrap_or_else(|| panic!("{sent} is not in the log"));
        assert_eq!(service.get(&format!("/v1/events/{}", id(event))).await.expect(200), *event);
    }
    let legacy = events.iter().find(|event| event.get("event").is_some()).unwrap();
    let fields: Vec<&String> = legacy.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["created_at", "data", "event", "id"]);
    assert_eq!(legacy["created_at"], legacy["data"]["occurredAt"]);
    let times: Vec<&str> = events.iter().map(|event| event["created_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|left, right| left >= right), "newest first: {times:?}");
    // The page size does not change the result.
    for limit in [1, 2, 4, 9] {
        assert_eq!(all_events(&service, "", limit).await, events, "by {limit}");
    }
    assert_eq!(service.get("/v1/events?limit=9").await.expect(200)["has_more"], false);
    let other = service.stack.seed.other.test_api_key.clone();
    assert_eq!(service.get_as(&other, "/v1/events").await.expect(200)["data"], json!([]));
    for path in [id(&events[0]), "evt_00000000000000000000000000", "nothing"] {
        let key = if path == id(&events[0]) { other.clone() } else { service.key() };
        let answer = service.get_as(&key, &format!("/v1/events/{path}")).await;
        assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_page_reads_on_until_it_is_full_and_says_whether_there_are_more_events() {
    let service = Service::without_event_sources().await;
    let first = service.pay(1_000).await;
    // More rows than a page of one event reads at first.
    for _ in 0..30 {
        service.charge().await;
    }
    let last = service.charge().await;
    service.sandbox(&last, "fail", &json!({})).await;
    dispatch(&service.stack).await;
    for (query, has_more) in [
        ("type=charge.paid&limit=1".to_owned(), false),
        ("type=charge.failed&limit=1".to_owned(), false),
        ("type=charge.created&limit=1".to_owned(), true),
        (format!("object={}&type=charge.created&limit=1", id(&first)), false),
        (format!("object={}&limit=1", id(&first)), true),
    ] {
        let page = service.get(&format!("/v1/events?{query}")).await.expect(200);
        assert_eq!(
            (page["data"].as_array().unwrap().len(), &page["has_more"]),
            (1, &json!(has_more)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn the_log_is_filtered_by_type_and_time_and_refuses_unknown_cursors() {
    let service = Service::start().await;
    for _ in 0..4 {
        service.pay(1_000).await;
    }
    let events = wait_for_events(&service, "", 24).await;
    for (event_type, count) in [
        ("charge.paid", 4),
        ("payment.completed", 4),
        ("payment.status_changed", 8),
        ("payout.paid", 0),
        ("webhook.test", 0),
    ] {
        for limit in [1, 3, 100] {
            let found = all_events(&service, &format!("&type={event_type}"), limit).await;
            let expected: Vec<Value> =
                events.iter().filter(|event| type_name(event) == event_type).cloned().collect();
            assert_eq!(found, expected, "{event_type} by {limit}");
            assert_eq!(found.len(), count, "{event_type}");
        }
    }
    let at = events[11]["created_at"].as_str().unwrap();
    let since = all_events(&service, &format!("&created_after={at}"), 5).await;
    let until = all_events(&service, &format!("&created_before={at}"), 5).await;
    let both = all_events(&service, &format!("&created_after={at}&created_before={at}"), 5).await;
    assert!(both.contains(&events[11]), "both bounds are inclusive");
    assert_eq!(since.len() + until.len() - both.len(), 24);
    let earlier = "2020-01-01T00:00:00Z";
    let none = format!("&created_after={at}&created_before={earlier}");
    assert!(all_events(&service, &none, 1).await.is_empty(), "the bounds exclude each other");
    let paid = all_events(&service, &format!("&created_after={at}&type=charge.paid"), 1).await;
    let expected = since.iter().filter(|event| type_name(event) == "charge.paid").count();
    assert_eq!(paid.len(), expected);
    // A cursor must be an existing event of the caller's scope.
    let made_up = EventId::derive(service.stack.clock.now(), "row", 1, "charge.paid").to_string();
    for (key, cursor) in
        [(service.key(), made_up.as_str()), (service.stack.seed.other.test_api_key.clone(), id(&events[3]))]
    {
        for more in ["", "&type=charge.paid"] {
            let path = format!("/v1/events?starting_after={cursor}{more}");
            let answer = service.get_as(&key, &path).await;
            assert_eq!((answer.problem().0, answer.params()), (400, vec!["starting_after"]), "{path}");
        }
    }
}

#[tokio::test]
async fn the_events_of_a_charge_include_those_of_its_refunds() {
    let service = Service::start().await;
    for _ in 0..3 {
        service.pay(1_000).await;
    }
    let charge = service.pay(1_000).await;
    let raw = raw_id(&charge);
    for (part, key) in [(400, "refund-01"), (600, "refund-02")] {
        service.refund(&charge, key, json!({"amount": part})).await.expect(201);
    }
    eventually("both refunds are completed", async || {
        service.advance_seconds(3).await;
        (service.get_charge(&charge).await["status"] == "refunded").then_some(())
    })
    .await;
    // The charge's creation and its payment have three events each, and its change to `REFUNDED` has two.
    // Each of the two refunds has three legacy and two canonical ones.
    let events = wait_for_events(&service, &format!("&object={raw}"), 18).await;
    assert_eq!(events.len(), 18, "{:?}", type_names(&events));
    let every = wait_for_events(&service, "", 18 + 18).await;
    let about = |event: &&Value| {
        let object = &event["data"]["object"];
        object["id"] == charge["id"]
            || object["charge_id"] == charge["id"]
            || event["data"]["transactionId"] == *raw
    };
    let expected: Vec<Value> = every.iter().filter(about).cloned().collect();
    assert_eq!(events, expected, "these events have the same order in the whole log");
    for spelling in [id(&charge).to_owned(), format!("tx_{raw}")] {
        assert_eq!(all_events(&service, &format!("&object={spelling}"), 4).await, events);
    }
    let refunded = all_events(&service, &format!("&object={raw}&type=payment.refunded"), 2).await;
    assert_eq!(refunded.len(), 6);
    let at = events[6]["created_at"].as_str().unwrap();
    let until = all_events(&service, &format!("&object={raw}&created_before={at}"), 100).await;
    assert_eq!(until, events[events.iter().position(|event| event["created_at"] == at).unwrap()..]);

    let strangers = service.other_account().get(&format!("/v1/events?object={raw}")).await.expect(200);
    assert_eq!(strangers["data"], json!([]));
    let elsewhere = every.iter().find(|event| !about(event)).unwrap();
    let answer = service.get(&format!("/v1/events?object={raw}&starting_after={}", id(elsewhere))).await;
    assert_eq!(answer.params(), ["starting_after"]);
}

#[tokio::test]
async fn the_events_of_a_charge_include_those_of_its_med_cases_and_each_case_has_its_own() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let won = service.open_case(&charge, json!({"reason": "Golpe"})).await;
    let lost = service.open_case(&charge, json!({"reason": "Outro", "amount": 300})).await;
    let request = format!("/v1/sandbox/med/cases/{}/request-evidence", id(&won));
    for _ in 0..2 {
        service.post(&request, &json!({})).await.expect(200);
        // A second request within the same millisecond would change nothing, so the clock advances.
        service.advance_seconds(1).await;
    }
    service.answer_case(&won, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    service.decide_case(&won, "merchant").await.expect(200);
    service.answer_case(&lost, "accept", json!({})).await.expect(200);
    let other = service.pay(500).await;
    service.open_case(&other, json!({})).await;

    let case_events = |events: &[Value]| -> Vec<Value> {
        events.iter().filter(|event| type_name(event).starts_with("med")).cloned().collect()
    };
    let is_of = |case: &Value, event: &Value| event["data"]["object"]["id"] == case["id"];
    let path = format!("&object={}", id(&charge));
    let every = eventually("all events of the cases are in the log", async || {
        Some(all_events(&service, "", 100).await).filter(|events| case_events(events).len() == 6 + 3 + 1)
    })
    .await;
    let events = all_events(&service, &path, 100).await;
    let mut expected = case_events(&every);
    expected.retain(|event| is_of(&won, event) || is_of(&lost, event));
    assert_eq!(case_events(&events), expected, "these events have the same order in the whole log");
    for (case, updates) in [(&won, 4), (&lost, 1)] {
        for limit in [1, 100] {
            let found = all_events(&service, &format!("&object={}", id(case)), limit).await;
            let expected: Vec<Value> = every.iter().filter(|event| is_of(case, event)).cloned().collect();
            assert_eq!(found, expected, "by {limit}");
            let mut found = type_names(&found);
            found.sort_unstable();
            assert_eq!(found[..2], ["med.resolved", "med_case.created"]);
            assert_eq!(found[2..], vec!["med_case.updated"; updates]);
        }
    }
    let resolved = all_events(&service, &format!("{path}&type=med.resolved"), 1).await;
    assert_eq!(resolved.len(), 2);
    // Without its row, an event counts as unpublished, and the log omits it. So the test deletes a row.
    let unpublished: EventId = id(&resolved[0]).parse().unwrap();
    let key = Event::key_of(&service.scope(), Shard::FIRST, unpublished.row_id());
    service.delete_row(&key.pk, &key.sk).await;
    assert_eq!(all_events(&service, &format!("{path}&type=med.resolved"), 1).await, resolved[1..]);

    let path_of_won = format!("/v1/events?object={}", id(&won));
    let theirs = service.other_account().get(&path_of_won).await.expect(200);
    assert_eq!(theirs["data"], json!([]));
    let nothing = MedCaseId::derive(ChargeId::parse_any(id(&charge)).unwrap(), "another notification");
    assert!(all_events(&service, &format!("&object={nothing}"), 25).await.is_empty());
}

#[tokio::test]
async fn the_events_of_a_payout_are_found_by_its_id() {
    let service = Service::start().await;
    service.pay(1_000).await;
    let payouts = Payouts::new(service.store());
    let now = service.stack.clock.now();
    let payout = domain::ids::PayoutId::new(now, random::bytes().unwrap());
    let money = (domain::money::Amount::parse(300).unwrap(), domain::money::Currency::BRL);
    payouts.create((payout, &payout.into()), service.scope(), money, &operator(), now).await.unwrap();
    let later = now.plus_seconds(1).unwrap();
    payouts.end(payout, &domain::payout::PayoutOutcome::Paid, &operator(), later).await.unwrap();
    let events = wait_for_events(&service, &format!("&object={payout}"), 5).await;
    let mut found_types = type_names(&events);
    found_types.sort_unstable();
    let expected = [
        "payout.created",
        "payout.paid",
        "withdrawal.completed",
        "withdrawal.created",
        "withdrawal.status_changed",
    ];
    assert_eq!(found_types, expected);
    assert_eq!(all_events(&service, &format!("&object={payout}"), 1).await, events);
}

#[tokio::test]
async fn the_list_covers_thirty_days_and_an_event_is_readable_until_its_retention_ends() {
    let service = Service::start().await;
    service.charge().await;
    let events = wait_for_events(&service, "", 3).await;
    service.advance_seconds(29 * 24 * 60 * 60).await;
    assert_eq!(all_events(&service, "", 100).await.iter().filter(|event| events.contains(event)).count(), 3);
    service.advance_seconds(2 * 24 * 60 * 60).await;
    assert!(
        !all_events(&service, "&created_after=2020-01-01", 100)
            .await
            .iter()
            .any(|event| events.contains(event))
    );
    let path = format!("/v1/events/{}", id(&events[0]));
    assert_eq!(service.get(&path).await.expect(200), events[0]);
    // An event is hidden after its retention even where its row still exists.
    service.advance_seconds(58 * 24 * 60 * 60).await;
    assert_eq!(service.get(&path).await.expect(200), events[0]);
    service.advance_seconds(2 * 24 * 60 * 60).await;
    assert_eq!(service.get(&path).await.problem(), (404, "not_found_error", "not_found"));
}

#[tokio::test]
async fn a_rare_event_type_is_found_through_pages_that_may_be_empty() {
    let service = Service::start().await;
    let store = service.store();
    let now = service.stack.clock.now();
    let event = |number: i64, event_type: EventType| {
        let at = now.plus_millis(-number).unwrap();
        let origin = Origin::new(service.scope(), "row".to_owned(), at);
        let mut object = example_body(event_type)["data"]["object"].take();
        if event_type == EventType::ChargeCreated {
            // Random bytes can't be compressed.
            let pad: [u8; 2000] = random::bytes().unwrap();
            object["metadata"]["pad"] = json!(domain::hex::encode(pad));
        }
        Event::of_one(event_type, &origin, &object).unwrap()
    };
    for number in 0..1500 {
        store.insert(&event(number, EventType::ChargeCreated)).await.unwrap();
    }
    let rare = event(1500, EventType::MedResolved);
    store.insert(&rare).await.unwrap();
    let first = service.get("/v1/events?type=med.resolved").await.expect(200);
    assert_eq!((&first["data"], &first["has_more"]), (&json!([]), &json!(true)));
    let found = all_events(&service, "&type=med.resolved", 25).await;
    assert_eq!(found.len(), 1);
    assert_eq!(id(&found[0]), rare.id_as(EventType::MedResolved).to_string());
}

/// Inserts the event rows of 400 boletos that expire in the same millisecond. Each boleto has a canonical
/// event and three legacy events.
async fn insert_simultaneous_events(service: &Service) -> Vec<Event> {
    let (store, now) = (service.store(), service.stack.clock.now());
    let legacy = [EventType::PaymentExpired, EventType::PaymentFailed, EventType::PaymentStatusChanged];
    let object = |types: &[EventType]| {
        let body = example_body(types[0]);
        let canonical = body["data"].get("object");
        SentObject::new(types.to_vec(), canonical.unwrap_or(&body["data"])).unwrap()
    };
    let mut rows = Vec::new();
    for order in 0..400 {
        let origin = Origin::new(service.scope(), format!("charge#{order}"), now);
        let objects = [object(&[EventType::ChargeExpired]), object(&legacy)];
        let row = Event::new(&origin, objects, None).unwrap();
        store.insert(&row).await.unwrap();
        rows.push(row);
    }
    rows
}

#[tokio::test]
async fn pages_list_each_event_once_even_when_all_have_the_same_timestamp() {
    let service = Service::start().await;
    let rows = insert_simultaneous_events(&service).await;
    let ids = |wanted: Option<EventType>| {
        let of_row = |row: &Event| {
            let of_type = |event_type: EventType| (event_type, row.id_as(event_type).to_string());
            row.types().map(of_type).collect::<Vec<_>>()
        };
        let matching =
            rows.iter().flat_map(of_row).filter(|(of_type, _)| wanted.is_none_or(|one| one == *of_type));
        let mut ids: Vec<String> = matching.map(|(_, id)| id).collect();
        ids.sort_unstable_by(|left, right| right.cmp(left));
        ids
    };
    let listed =
        |events: &[Value]| -> Vec<String> { events.iter().map(|event| id(event).to_owned()).collect() };
    assert_eq!(ids(None).len(), 1600);
    for limit in [7, 33, 100] {
        assert_eq!(listed(&all_events(&service, "", limit).await), ids(None), "by {limit}");
    }
    for (event_type, limit) in [
        (EventType::ChargeExpired, 9),
        (EventType::PaymentFailed, 9),
        (EventType::PaymentStatusChanged, 100),
        (EventType::PaymentStatusChanged, 1),
    ] {
        let query = format!("&type={}", event_type.as_str());
        assert_eq!(
            listed(&all_events(&service, &query, limit).await),
            ids(Some(event_type)),
            "{query} by {limit}"
        );
    }
    // A page after any event's cursor continues with the events that follow it, with or without a filter.
    let every = ids(None);
    for (place, cursor) in every.iter().enumerate().step_by(53) {
        for more in ["", "&type=charge.expired"] {
            let path = format!("/v1/events?limit=5&starting_after={cursor}{more}");
            let page = service.get(&path).await.expect(200);
            let page = listed(page["data"].as_array().unwrap());
            let expired = ids(Some(EventType::ChargeExpired));
            let expected = every[place + 1..].iter().filter(|id| more.is_empty() || expired.contains(id));
            assert_eq!(page, expected.take(5).cloned().collect::<Vec<_>>(), "{path}");
        }
    }
    // Each event is found by its id. The id of a row is not an event id.
    for row in rows.iter().step_by(97) {
        for event_type in row.types() {
            let event = row.id_as(event_type).to_string();
            let found = service.get(&format!("/v1/events/{event}")).await.expect(200);
            assert_eq!((id(&found), type_name(&found)), (event.as_str(), event_type.as_str()));
        }
        service.get(&format!("/v1/events/{}", row.id)).await.expect(404);
    }
}
