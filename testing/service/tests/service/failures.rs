//! Tests of failures around the service: lost responses, conflicts, unreadable rows and endpoints that never
//! respond. No failure may lose a change or affect unrelated work.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::charge::TransactionStatus;
use domain::charge::transition::{Command, Rejection};
use faults::proxy::Fault;
use money::charge::{ChargeError, Charges};
use money::refund::Refunds;
use serde_json::json;
use shared::store::{CommitOutcome, Write};

use crate::invocations::{dispatch, first_delivery, run_webhook_worker};
use crate::set_aside::set_aside_objects;
use crate::support::{Listener, Service, eventually, id, raw_id};

#[tokio::test]
async fn a_lost_database_response_causes_no_second_charge_and_no_second_settlement() {
    let service = Service::without_event_sources().await;
    service.proxy().inject("PutItem", Fault::AnswerLost);
    let charge = service.post_charge("order-0001", &json!({"amount": 1000})).await.expect(201);
    let again = service.post_charge("order-0001", &json!({"amount": 1000})).await.expect(201);
    assert_eq!(charge, again);

    // The retry of the write finds that the row is already changed, and recognises the change as its own.
    let charges = Charges::new(service.store_behind_proxy());
    let to_cancel = charges.find(id(&service.charge().await).parse().ok()).await.unwrap().unwrap();
    service.proxy().inject("UpdateItem", Fault::AnswerLost);
    let now = service.stack.clock.now();
    let cancelled = charges.apply(to_cancel, &Command::Cancel, now).await.unwrap();
    assert_eq!(cancelled.status, TransactionStatus::Cancelled);
    service.proxy().inject("TransactWriteItems", Fault::AnswerLost);
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;

    service.proxy().inject("TransactWriteItems", Fault::AnswerLost);
    let paid = service.sandbox(&charge, "pay", &json!({})).await;
    assert_eq!(paid["status"], "paid");
    assert_eq!(service.count_returned_payments().await, 0);
    assert_eq!(service.proxy().pending_faults(), 0);
}

#[tokio::test]
async fn of_two_writes_of_one_row_in_the_same_millisecond_one_succeeds() {
    let service = Service::without_event_sources().await;
    let (store, now) = (service.store(), service.stack.clock.now());
    let charges = Charges::new(store.clone());
    let charge_id = id(&service.charge().await).parse().ok();
    let charge = charges.find(charge_id).await.unwrap().unwrap();
    let cancel = async || charges.apply(charge.clone(), &Command::Cancel, now).await;
    assert_eq!(cancel().await.unwrap().status, TransactionStatus::Cancelled);
    assert!(matches!(
        cancel().await,
        Err(ChargeError::Rejected {
            rejection: Rejection::NotCancellable,
            status: TransactionStatus::Cancelled
        })
    ));

    // A worker claims a refund by marking it as started, before it calls the acquirer.
    let charge = service.pay(1_000).await;
    let refund = service.refund(&charge, "refund-01", json!({})).await.expect(201);
    let refund = Refunds::new(store.clone()).find(id(&refund).parse().ok()).await.unwrap().unwrap();
    let charge = charges.find(Some(refund.id.charge())).await.unwrap().unwrap();
    let started = refund.started(&charge.read_at(now), now).unwrap().unwrap();
    let start = async || store.commit(vec![Write::replace(&started, refund.version).unwrap()]).await.unwrap();
    assert_eq!(start().await, CommitOutcome::Done);
    assert_eq!(start().await, CommitOutcome::Conflict { at: vec![0] });
}

#[tokio::test]
async fn conflicts_throttling_and_server_errors_are_retried_and_lead_to_503_if_they_last() {
    let service = Service::without_event_sources().await;
    for fault in [Fault::Conflict, Fault::Throttled, Fault::ServerError] {
        let charge = service.charge().await;
        for _ in 0..2 {
            service.proxy().inject("TransactWriteItems", fault);
        }
        assert_eq!(service.sandbox(&charge, "pay", &json!({})).await["status"], "paid", "{fault:?}");
        service.proxy().inject("PutItem", fault);
        service.charge().await;
    }
    assert_eq!(service.proxy().pending_faults(), 0);

    // A failure that lasts is answered with 503 and changes nothing.
    let charge = service.charge().await;
    for _ in 0..50 {
        service.proxy().inject("TransactWriteItems", Fault::Conflict);
        service.proxy().inject("PutItem", Fault::ServerError);
    }
    let refused = service.sandbox_answer(&charge, "pay", &json!({})).await;
    assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"));
    let refused = service.post_charge("order-0009", &json!({"amount": 1000})).await;
    assert_eq!(refused.problem(), (503, "api_error", "service_unavailable"));
    assert!(
        !refused.body.to_string().contains("injected"),
        "the response contains the database's error text"
    );
    service.proxy().reset();
    assert_eq!(service.get_charge(&charge).await["status"], "pending");
    assert_eq!(service.sandbox(&charge, "pay", &json!({})).await["status"], "paid");
    assert_eq!(service.post_charge("order-0009", &json!({"amount": 1000})).await.status, 201);
}

#[tokio::test]
async fn a_delivery_that_crashes_its_worker_every_time_fails_after_its_last_attempt() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let delivery = first_delivery(&service, &listener.url).await;
    // Sets the row to the state after fifteen attempts, each of which crashed its worker.
    let partition = format!("delivery#{}#{}", service.scope(), id(&delivery));
    let after_crashes = [
        ("status", AttributeValue::S("PROCESSING".to_owned())),
        ("attempts", AttributeValue::N("15".to_owned())),
        ("leased_until", AttributeValue::N("1".to_owned())),
    ];
    service.set_attributes(&partition, id(&delivery), &after_crashes).await;
    run_webhook_worker(&service.stack, &delivery).await;
    let failed = service.deliveries("&status=FAILED").await.remove(0);
    assert!(failed["lastError"].as_str().unwrap().contains("cut short"), "{failed}");
    assert_eq!(listener.hooks().len(), 0);
}

/// Writes an unparseable row to the state table.
async fn put_unreadable_row(service: &Service, pk: &str, sk: &str, more: &[(&str, &str)]) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mut item = HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))]);
    item.extend(more.iter().map(|(name, value)| ((*name).to_owned(), text(value))));
    service.put_item(item).await;
}

#[tokio::test]
async fn an_incoming_payment_whose_id_equals_a_row_type_is_dispatched_as_a_payment() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.paid"]).await;
    for (number, name) in ["charge", "payout", "account"].into_iter().enumerate() {
        let charge = service.charge().await;
        assert_eq!(service.sandbox(&charge, "pay", &json!({"end_to_end_id": name})).await["status"], "paid");
        listener.received(number + 1).await;
    }
    assert_eq!(set_aside_objects(&service).await, [""; 0]);
}

#[tokio::test]
async fn unreadable_due_rows_do_not_block_other_due_rows() {
    let service = Service::start().await;
    let charge = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    let pk = format!("charge#{}", raw_id(&charge));
    let row = service.rows(&pk, "charge").await.remove(0);
    let (partition, due) = (row["due_pk"].as_s().unwrap(), row["due_sk"].as_s().unwrap());
    let just_before = due[..15].parse::<i64>().unwrap() - 1;
    // More rows than a page of the index, all before that of the charge.
    for number in 0..150 {
        let pk = format!("charge#garbage-{number}");
        let sort = format!("{just_before:015}#{pk}#charge");
        let due = [("due_pk", partition.as_str()), ("due_sk", &sort)];
        put_unreadable_row(&service, &pk, "charge", &due).await;
    }
    // One of each other kind that can be due.
    let (account, scope) = (service.scope().account, service.scope());
    for (pk, sk) in [
        (format!("abandonments#{scope}"), "wh_1#0000000001"),
        (format!("med-notice#{account}"), "n"),
        ("pix#E9".to_owned(), "pix"),
        (format!("receipts#{scope}"), "E9"),
        ("sweep#con_1".to_owned(), "sweep"),
    ] {
        let sort = format!("{just_before:015}#{pk}#{sk}");
        let due = [("due_pk", partition.as_str()), ("due_sk", &sort)];
        put_unreadable_row(&service, &pk, sk, &due).await;
    }
    service.advance_seconds(61).await;
    eventually("the scheduler persists the charge's expiry", async || {
        let page = service.get("/v1/charges?status=expired").await.expect(200);
        (page["data"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    assert_eq!(service.get_charge(&charge).await["status"], "expired");
}

#[tokio::test]
async fn an_unreadable_endpoint_row_does_not_block_deliveries_to_other_endpoints() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let broken = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.created"]).await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    // Simulates a row that another version wrote, with an event type that this version does not know.
    let renamed = AttributeValue::L(vec![AttributeValue::S("charge.renamed".to_owned())]);
    let partition = format!("endpoints#{}", service.scope());
    service.set_attributes(&partition, id(&broken), &[("events", renamed)]).await;
    service.charge().await;
    dispatch(&service.stack).await;
    let [delivery] = service.deliveries("").await.try_into().unwrap();
    run_webhook_worker(&service.stack, &delivery).await;
    assert_eq!(listener.hooks().len(), 1);
    let listed = service.get("/v1/webhooks/endpoints").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
}
