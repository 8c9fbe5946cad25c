//! Tests of `GET /v1/charges/{id}/timeline`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::invocations::dispatch;
use crate::support::{Listener, Service, eventually, id};
use crate::webhook_resends::resend;
use crate::webhooks::endpoint_path;

const MARIA: &str = "29537995593";

async fn timeline(service: &Service, charge: &Value) -> Vec<Value> {
    let answer = service.get(&format!("/v1/charges/{}/timeline", id(charge))).await.expect(200);
    assert_eq!((&answer["object"], &answer["complete"]), (&json!("list"), &json!(true)));
    answer["data"].as_array().unwrap().clone()
}

fn of<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["type"] == kind).collect()
}

fn states<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a str> {
    of(entries, kind).into_iter().map(|entry| entry["state"].as_str().unwrap()).collect()
}

async fn delivered(service: &Service, count: usize) -> Vec<Value> {
    eventually("the deliveries", async || {
        let delivered = service.deliveries("&status=DELIVERED").await;
        (delivered.len() == count).then_some(delivered)
    })
    .await
}

#[tokio::test]
async fn a_timeline_has_all_that_happened_to_a_charge_and_every_delivery() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let body = json!({"amount": 1000, "customer": {"name": "Maria Souza", "document": MARIA}});
    let charge = service.new_charge(&body).await;
    service.sandbox(&charge, "pay", &json!({"payer_tax_id": MARIA, "payer_name": "Maria Souza"})).await;
    service.sandbox(&charge, "pay", &json!({"amount": 500})).await;
    let refund = service.refund(&charge, "refund-0001", json!({"amount": 300})).await.expect(201);
    let case = service.open_case(&charge, json!({"reason": "Golpe"})).await;
    service.answer_case(&case, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    service.decide_case(&case, "merchant").await.expect(200);

    let first = delivered(&service, 1).await.remove(0);
    let again = service.post(&format!("/v1/webhooks/deliveries/{}/resend", id(&first)), &json!({})).await;
    let again = again.expect(200);
    resend(&service, &charge).await;
    delivered(&service, 3).await;
    // The receivers of the past are found after the endpoint is gone.
    service.delete(&endpoint_path(&endpoint)).await.expect(200);

    let entries = eventually("the refund", async || {
        let entries = timeline(&service, &charge).await;
        // The event is stored after the refund has ended.
        let has_event = states(&entries, "event").contains(&"refund.succeeded");
        (has_event && states(&entries, "refund").contains(&"REFUNDED")).then_some(entries)
    })
    .await;
    assert_eq!(states(&entries, "status"), ["WAITING_PAYMENT", "PAID", "DISPUTE", "PAID"]);
    let created = of(&entries, "status")[0].clone();
    assert!(created["request_id"].is_string());
    assert_eq!(created["actor"], of(&entries, "refund")[0]["actor"], "the key that created the charge");
    assert_eq!(states(&entries, "payment"), ["accepted", "return returned"]);
    assert_eq!(of(&entries, "payment")[1]["details"], "second_payment");
    let refunds = of(&entries, "refund");
    assert_eq!((&refunds[0]["id"], &refunds[0]["amount"]), (&refund["id"], &json!(300)));
    assert!(refunds[0]["actor"].as_str().unwrap().starts_with("key_"), "{refunds:?}");
    assert_eq!(states(&entries, "case"), ["open", "appealed", "closed"]);
    // Only movements of the wallet: neither the returned payment nor the completion of the refund.
    assert_eq!(states(&entries, "posting"), ["settlement", "refund", "case_opened", "case_won"]);
    let amounts: Vec<i64> =
        of(&entries, "posting").iter().map(|entry| entry["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts[1], -300);
    for name in ["charge.created", "charge.paid", "refund.succeeded", "med_case.created", "med.resolved"] {
        assert!(states(&entries, "event").contains(&name), "{name}: {entries:?}");
    }
    let deliveries = of(&entries, "delivery");
    assert_eq!(states(&entries, "delivery"), ["DELIVERED"; 3]);
    let ids: Vec<&Value> = deliveries.iter().map(|entry| &entry["id"]).collect();
    assert!(ids.contains(&&first["id"]) && ids.contains(&&again["id"]), "{ids:?}");
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let text = json!(entries).to_string();
    assert!(!text.contains(MARIA) && !text.contains("379.955") && !text.contains("clearing"), "{text}");

    let path = format!("/v1/charges/{}/timeline", id(&charge));
    for key in [&service.stack.seed.first.live_api_key, &service.stack.seed.other.test_api_key] {
        assert_eq!(service.get_as(key, &path).await.problem().0, 404);
    }
}

#[tokio::test]
async fn a_timeline_takes_seven_requests_three_in_sequence_for_any_number_of_charges() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let charge = service.pay(1_000).await;
    service.sandbox(&charge, "pay", &json!({"amount": 1})).await;
    service.refund(&charge, "refund-0001", json!({"amount": 300})).await.expect(201);
    let proxy = service.proxy();
    let path = format!("/v1/charges/{}/timeline", id(&charge));
    for others in [0, 40] {
        for _ in 0..others {
            service.charge().await;
        }
        dispatch(&service.stack).await;
        proxy.set_min_latency(Duration::from_millis(100));
        proxy.reset();
        let entries = timeline(&service, &charge).await;
        let report = proxy.report();
        proxy.set_min_latency(Duration::ZERO);
        assert_eq!(of(&entries, "delivery").len(), 2, "{path}");
        assert!(report.requests() <= 7 && report.sequential_requests <= 3, "{report:?}");
        assert!(report.read_units <= 20.0, "{report:?}");
    }
}

#[tokio::test]
async fn a_timeline_of_any_length_has_pages() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.paid", "refund.created", "refund.succeeded"]).await;
    let charge = service.pay(10_000).await;
    for number in 0..60 {
        service.refund(&charge, &format!("refund-{number}"), json!({"amount": 100})).await.expect(201);
    }
    let path = format!("/v1/charges/{}/timeline", id(&charge));
    let pages = async |limit: usize| {
        let (mut entries, mut path_of_page) = (Vec::new(), format!("{path}?limit={limit}"));
        loop {
            let page = service.get(&path_of_page).await.expect(200);
            let data = page["data"].as_array().unwrap();
            assert!(data.len() <= limit && page["complete"] == true, "{page}");
            entries.extend(data.iter().cloned());
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            let Some(cursor) = page["next_cursor"].as_str() else { break entries };
            path_of_page = format!("{path}?limit={limit}&starting_after={cursor}");
        }
    };
    // Two canonical events of each refund, and one of the charge.
    let entries = eventually("all deliveries", async || {
        let entries = pages(100).await;
        (states(&entries, "delivery") == ["DELIVERED"; 121]).then_some(entries)
    })
    .await;
    assert_eq!(states(&entries, "status"), ["WAITING_PAYMENT", "PAID"]);
    assert_eq!(states(&entries, "refund").iter().filter(|state| **state == "REFUNDED").count(), 60);
    assert_eq!(states(&entries, "posting").len(), 61);
    let succeeded = states(&entries, "event").iter().filter(|name| **name == "refund.succeeded").count();
    assert_eq!(succeeded, 60);
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(pages(7).await, entries);
    assert_eq!(service.get(&format!("{path}?starting_after=x")).await.params(), ["starting_after"]);
}
