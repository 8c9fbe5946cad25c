//! What goes wrong beneath the service and beside it: lost answers, conflicts, rows that can't be read, endpoints that
//! never answer. Nothing of it may lose a change, or harm what has nothing to do with it.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use domain::charge::TransactionStatus;
use domain::charge::transition::{Command, Rejection};
use local::embedded::fault_proxy::{Fault, FaultProxy};
use local::stack::Options;
use serde_json::json;
use shared::charge::{ChargeError, Charges};
use shared::refund::Refunds;
use shared::store::{Committed, Write};

use crate::budgets::{dispatch, work};
use crate::support::{Listener, Service, eventually, id};

async fn service_with_fault_proxy() -> Service {
    Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await
}

fn proxy(service: &Service) -> &FaultProxy {
    service.stack.fault_proxy.as_ref().unwrap()
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_charge_and_no_second_settlement() {
    let service = service_with_fault_proxy().await;
    proxy(&service).inject("PutItem", Fault::AnswerLost);
    let charge = service.create_with("order-0001", &json!({"amount": 1000})).await.expect(201);
    let again = service.create_with("order-0001", &json!({"amount": 1000})).await.expect(201);
    assert_eq!(charge, again);

    // What the lost answer told of is this request's own doing, whatever the row says by now.
    let unwanted = service.charge().await;
    proxy(&service).inject("PutItem", Fault::AnswerLost);
    let path = format!("/v1/payments/{}/cancel", id(&unwanted).trim_start_matches("ch_"));
    assert_eq!(service.post(&path, &json!({})).await.expect(200)["status"], "CANCELLED");
    proxy(&service).inject("TransactWriteItems", Fault::AnswerLost);
    service.register("http://127.0.0.1:9/hook", &["charge.paid"]).await;

    proxy(&service).inject("TransactWriteItems", Fault::AnswerLost);
    let paid = service.sandbox(&charge, "pay", &json!({})).await;
    assert_eq!(paid["status"], "paid");
    assert_eq!(service.returned().await, 0);
    assert_eq!(proxy(&service).faults_left(), 0);
}

#[tokio::test]
async fn of_callers_that_write_the_same_row_in_the_same_millisecond_one_wins() {
    let service = service_with_fault_proxy().await;
    let (store, now) = (service.store(), service.stack.clock.now());
    let charges = Charges::new(store.clone());
    let unwanted = id(&service.charge().await).parse().ok();
    let charge = charges.find(unwanted).await.unwrap().unwrap();
    let cancel = async || charges.apply(charge.clone(), &Command::Cancel, now).await;
    assert_eq!(cancel().await.unwrap().status, TransactionStatus::Cancelled);
    assert!(matches!(
        cancel().await,
        Err(ChargeError::Rejected {
            rejection: Rejection::NotCancellable,
            status: TransactionStatus::Cancelled
        })
    ));

    // Starting a refund claims it for the worker that calls the acquirer.
    let charge = service.charge().await;
    service.sandbox(&charge, "pay", &json!({})).await;
    let path = format!("/v1/payments/{}/refund", id(&charge).trim_start_matches("ch_"));
    let refund = service.post(&path, &json!({"idempotencyKey": "refund-01"})).await.expect(201);
    let refund = Refunds::new(store.clone()).find(id(&refund).parse().ok()).await.unwrap().unwrap();
    let charge = charges.find(Some(refund.id.charge())).await.unwrap().unwrap();
    let started = refund.started(&charge.at(now), now).unwrap().unwrap();
    let start = async || store.commit(vec![Write::replace(&started, refund.version).unwrap()]).await.unwrap();
    assert_eq!(start().await, Committed::Done);
    assert_eq!(start().await, Committed::Overtaken { at: vec![0] });

    // Of two that create the same, one finds what the other made.
    let body = json!({"amount": 1000});
    let twins =
        tokio::join!(service.create_with("order-twin", &body), service.create_with("order-twin", &body));
    let replayed = [&twins.0, &twins.1].map(|twin| twin.header("idempotent-replayed").is_some());
    assert_eq!(replayed.iter().filter(|replayed| **replayed).count(), 1);
    assert_eq!(twins.0.body, twins.1.body);
}

#[tokio::test]
async fn conflicts_and_throttling_are_waited_out() {
    let service = service_with_fault_proxy().await;
    for fault in [Fault::TransactionConflict, Fault::Throttled, Fault::InternalError] {
        let charge = service.charge().await;
        for _ in 0..2 {
            proxy(&service).inject("TransactWriteItems", fault);
        }
        assert_eq!(service.sandbox(&charge, "pay", &json!({})).await["status"], "paid", "{fault:?}");
        proxy(&service).inject("PutItem", fault);
        service.charge().await;
    }
    assert_eq!(proxy(&service).faults_left(), 0);
}

#[tokio::test]
async fn a_database_that_stays_away_is_503_and_nothing_half_done() {
    let service = service_with_fault_proxy().await;
    let charge = service.charge().await;
    for _ in 0..50 {
        proxy(&service).inject("TransactWriteItems", Fault::TransactionConflict);
        proxy(&service).inject("PutItem", Fault::InternalError);
    }
    let refused = service.sandbox_answer(&charge, "pay", &json!({})).await;
    assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"));
    let refused = service.create_with("order-0009", &json!({"amount": 1000})).await;
    assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"));
    assert!(!refused.body.to_string().contains("injected"), "what the database said stays inside");
    proxy(&service).reset();
    assert_eq!(service.read(&charge).await["status"], "pending");
    assert_eq!(service.sandbox(&charge, "pay", &json!({})).await["status"], "paid");
    assert_eq!(service.create_with("order-0009", &json!({"amount": 1000})).await.status, 201);
}

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_still_the_workers_own() {
    let service = service_with_fault_proxy().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    proxy(&service).inject("UpdateItem", Fault::AnswerLost);
    work(&service, &delivery).await;
    let done = service.deliveries("&status=DELIVERED").await.remove(0);
    assert_eq!((&done["attempts"], listener.hooks().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_delivery_that_a_transaction_holds_is_waited_for() {
    let service = service_with_fault_proxy().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    // The claim goes through at once, the attempt's end the second time.
    proxy(&service).inject_every("UpdateItem", 2, Fault::TransactionConflict);
    work(&service, &delivery).await;
    proxy(&service).reset();
    let done = service.deliveries("&status=DELIVERED").await.remove(0);
    assert_eq!((&done["attempts"], listener.hooks().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_delivery_that_kills_its_worker_each_time_ends_some_day() {
    let service = service_with_fault_proxy().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service).await;
    let delivery = service.deliveries("").await.remove(0);
    // As fifteen workers left it that died before they could end their attempt.
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let scope = format!("deliveries#{}:test", service.stack.seed.first.id);
    client
        .update_item()
        .table_name("StateTable")
        .key("pk", AttributeValue::S(scope))
        .key("sk", AttributeValue::S(id(&delivery).to_owned()))
        .update_expression("SET #status = :processing, attempts = :all, leased_until = :past")
        .expression_attribute_names("#status", "status")
        .expression_attribute_values(":processing", AttributeValue::S("PROCESSING".to_owned()))
        .expression_attribute_values(":all", AttributeValue::N("15".to_owned()))
        .expression_attribute_values(":past", AttributeValue::N("1".to_owned()))
        .send()
        .await
        .unwrap();
    work(&service, &delivery).await;
    let failed = service.deliveries("&status=FAILED").await.remove(0);
    assert!(failed["lastError"].as_str().unwrap().contains("cut short"), "{failed}");
    assert_eq!(listener.hooks().len(), 0);
}

/// A row of the state table that nothing can read.
async fn put_garbage(service: &Service, pk: &str, sk: &str, more: &[(&str, &str)]) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mut item = HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))]);
    item.extend(more.iter().map(|(name, value)| ((*name).to_owned(), text(value))));
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    client.put_item().table_name("StateTable").set_item(Some(item)).send().await.unwrap();
}

#[tokio::test]
async fn an_unreadable_change_is_quarantined_and_its_neighbours_are_processed() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created"]).await;
    service.charge().await;
    put_garbage(&service, "charge#poison", "charge", &[("status", "NONSENSE")]).await;
    service.charge().await;
    listener.received(2).await;
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    let record = eventually("the record is quarantined", async || {
        let listed = s3.list_objects_v2().bucket("documents-bucket").send().await.unwrap();
        let key = listed.contents().first()?.key()?.to_owned();
        let object = s3.get_object().bucket("documents-bucket").key(key).send().await.unwrap();
        Some(String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap())
    })
    .await;
    assert!(record.contains("charge#poison"), "{record}");
    // And the stream goes on.
    service.charge().await;
    listener.received(3).await;
}

#[tokio::test]
async fn a_payment_whose_id_is_the_name_of_another_kind_of_row_is_a_payment() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.paid"]).await;
    for (number, name) in ["charge", "payout", "account"].into_iter().enumerate() {
        let charge = service.charge().await;
        assert_eq!(service.sandbox(&charge, "pay", &json!({"end_to_end_id": name})).await["status"], "paid");
        listener.received(number + 1).await;
    }
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    let listed = s3.list_objects_v2().bucket("documents-bucket").send().await.unwrap();
    assert!(listed.contents().is_empty(), "{listed:?}");
}

#[tokio::test]
async fn due_rows_that_can_not_be_read_do_not_stand_before_the_others() {
    let service = Service::start().await;
    for number in 0..150 {
        for shard in 0..4 {
            let pk = format!("charge#garbage-{shard}-{number}");
            let due =
                [("due_pk", &*format!("due#{shard}")), ("due_sk", &*format!("000000000000001#{pk}#charge"))];
            put_garbage(&service, &pk, "charge", &due).await;
        }
    }
    let charge = service.charge_of(&json!({"amount": 1000, "expires_in": 60})).await;
    service.advance(61).await;
    eventually("the charge's expiry is written", async || {
        let page = service.get("/v1/charges?status=expired").await.expect(200);
        (page["data"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    assert_eq!(service.read(&charge).await["status"], "expired");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_does_not_starve_the_others() {
    let service = Service::start().await;
    // Nobody accepts there: connections stay in the listener's backlog.
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", hanging.local_addr().unwrap());
    service.register(&url, &["charge.created"]).await;
    let healthy = Listener::answering(|_number| StatusCode::OK.into_response()).await;
    service.register(&healthy.url, &["charge.paid"]).await;
    let mut last = json!(null);
    for _ in 0..300 {
        last = service.charge().await;
    }
    service.sandbox(&last, "pay", &json!({})).await;
    // Far below the 30 s that each of the hanging ones takes.
    let told = tokio::time::timeout(Duration::from_secs(15), healthy.received(1)).await;
    assert!(told.is_ok(), "the healthy endpoint waits for the hanging one");
}

#[tokio::test]
async fn an_endpoint_that_can_not_be_read_keeps_nothing_from_the_others() {
    let service = service_with_fault_proxy().await;
    let listener = Listener::start().await;
    let broken = service.register("http://127.0.0.1:9/hook", &["charge.created"]).await;
    service.register(&listener.url, &["charge.created"]).await;
    // As a version left it that knew another event.
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let update = client.update_item().table_name("StateTable");
    update
        .key("pk", AttributeValue::S(format!("endpoints#{}", service.scope())))
        .key("sk", AttributeValue::S(id(&broken).to_owned()))
        .update_expression("SET events = :events")
        .expression_attribute_values(
            ":events",
            AttributeValue::L(vec![AttributeValue::S("charge.renamed".to_owned())]),
        )
        .send()
        .await
        .unwrap();
    service.charge().await;
    dispatch(&service).await;
    let [delivery] = service.deliveries("").await.try_into().unwrap();
    work(&service, &delivery).await;
    assert_eq!(listener.hooks().len(), 1);
    let listed = service.get("/v1/webhooks/endpoints").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
}
