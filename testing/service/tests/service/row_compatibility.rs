//! Tests that functions of this version and of a newer version can use the same tables. Functions are deployed
//! one after another, so a row may have attributes or a format that this version does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use aws_sdk_dynamodb::types::AttributeValue;
use bank::{Cents, FaultKind, PayRequest};
use domain::charge::Charge;
use domain::ids::{ChargeId, PayoutId};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::row::{FORMAT, Key, READ_FORMAT, WRITTEN_FORMAT};
use money::payout::Payouts;
use serde_json::{Value, json};
use shared::store::{Item, key_of_item};

use crate::live_charges::{Live, for_maria};
use crate::support::{Listener, Service, eventually, id, operator, wait_until};
use crate::webhooks::endpoint_path;

/// An attribute that no type of this version has.
const UNKNOWN: &str = "written_by_a_newer_version";

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// Returns an attribute of a row.
async fn attribute(service: &Service, row: &Key, name: &str) -> Option<AttributeValue> {
    service.store().get_item(row).await.unwrap().unwrap().remove(name)
}

fn charge_row(charge: &Value) -> Key {
    Charge::key_of(ChargeId::parse_any(id(charge)).unwrap())
}

#[tokio::test]
async fn a_replacement_keeps_the_attributes_of_a_newer_version() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let charge = service.charge().await;
    let charge_row = charge_row(&charge);
    let endpoint_row =
        key_of_item(&service.rows(&format!("endpoints#{}", service.scope()), "").await[0]).unwrap();
    for row in [&charge_row, &endpoint_row] {
        service.set_attributes(&row.pk, &row.sk, &[(UNKNOWN, text("kept"))]).await;
    }

    // The payment replaces the charge in a transaction, and the change of the endpoint is a single update.
    service.sandbox(&charge, "pay", &json!({})).await;
    let path = endpoint_path(&endpoint);
    service.patch(&path, &json!({"url": "http://127.0.0.1:9/other"})).await.expect(200);
    for row in [&charge_row, &endpoint_row] {
        assert_eq!(attribute(&service, row, UNKNOWN).await, Some(text("kept")), "{}", row.pk);
    }
    assert_eq!(attribute(&service, &charge_row, "status").await, Some(text("PAID")));
    assert_eq!(attribute(&service, &endpoint_row, "url").await, Some(text("http://127.0.0.1:9/other")));

    service.refund(&charge, "refund-01", json!({})).await.expect(201);
    assert_eq!(attribute(&service, &charge_row, UNKNOWN).await, Some(text("kept")));
}

/// The kinds of rows that are replaced: the beginnings of their partitions.
const REPLACED: [&str; 6] = ["account#", "charge#", "delivery#", "endpoints#", "payout#", "receipts#"];

fn kind_of(pk: &str) -> &'static str {
    REPLACED.into_iter().find(|kind| pk.starts_with(kind)).unwrap_or_default()
}

/// Returns the rows that are replaced, by their keys.
async fn replaced_rows(service: &Service) -> BTreeMap<[String; 2], Item> {
    let scan = service.dynamodb().scan().table_name("StateTable").into_paginator().items();
    let rows: Vec<Item> = scan.send().collect::<Result<_, _>>().await.unwrap();
    let rows = rows.into_iter().map(|row| (["pk", "sk"].map(|name| row[name].as_s().unwrap().clone()), row));
    rows.filter(|([pk, _], _)| !kind_of(pk).is_empty()).collect()
}

#[tokio::test]
async fn each_kind_of_row_keeps_the_attributes_of_a_newer_version_while_it_is_processed() {
    let live = Live::start().await;
    let service = &live.service;
    let (listener, is_up) = Listener::down().await;
    let endpoint = live.client.register_endpoint(&listener.url, &["charge.created"]).await;
    let charge = live.create("order-00001", &for_maria()).await;
    live.fault(FaultKind::DevolucaoUnrealized, 2);
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    eventually("the payment is recorded", async || live.incoming(&wrong).await).await;
    service.pay(1_000).await;
    let payouts = Payouts::new(service.store());
    let (id, now) = (PayoutId::new(service.stack.clock.now(), [7; 10]), service.stack.clock.now());
    let money = (Amount::parse(600).unwrap(), Currency::BRL);
    payouts.create((id, &id.into()), service.scope(), money, &operator(), now).await.unwrap();
    listener.received(1).await;

    let before = replaced_rows(service).await;
    assert_eq!(before.keys().map(|[pk, _]| kind_of(pk)).collect::<BTreeSet<_>>(), BTreeSet::from(REPLACED));
    for [pk, sk] in before.keys() {
        let newest = (FORMAT, AttributeValue::N(READ_FORMAT.to_string()));
        let attributes = [(UNKNOWN, text("kept")), newest];
        let count = if sk == "charge" { 2 } else { 1 };
        service.set_attributes(pk, sk, &attributes[..count]).await;
    }
    let marked = replaced_rows(service).await;
    is_up.store(true, Ordering::SeqCst);
    service.change_settings(|settings| settings.rate_limit_per_minute = 77).await;
    let path = endpoint_path(&endpoint);
    live.client.patch(&path, &json!({"events": ["charge.created", "charge.paid"]})).await.expect(200);
    payouts.end(id, &PayoutOutcome::Paid, &operator(), now).await.unwrap();
    live.pay(&charge, PayRequest { again: true, ..PayRequest::default() });
    live.wait_for_status(&charge, "paid").await;
    let is_kept = |row: &Item| row.get(UNKNOWN) == Some(&text("kept"));
    wait_until("each kind of row is replaced", async || {
        service.advance_seconds(60).await;
        let rows = replaced_rows(service).await;
        let changed = marked.iter().filter(|(key, row)| rows.get(*key).is_some_and(|now| now != *row));
        let changed: BTreeSet<&str> = changed.map(|([pk, _], _)| kind_of(pk)).collect();
        let lost = marked.keys().filter(|key| rows.get(*key).is_some_and(|row| !is_kept(row)));
        assert_eq!(lost.collect::<Vec<_>>(), Vec::<&[String; 2]>::new());
        changed == BTreeSet::from(REPLACED)
    })
    .await;
}

#[tokio::test]
async fn a_replacement_removes_what_this_version_knows_and_the_new_row_lacks() {
    let service = Service::without_event_sources().await;
    let charge = service.charge().await;
    let row = charge_row(&charge);
    for name in ["due_pk", "due_sk", "put_id"] {
        assert!(attribute(&service, &row, name).await.is_some(), "{name}");
    }
    service.sandbox(&charge, "pay", &json!({})).await;
    for name in ["due_pk", "due_sk", "put_id"] {
        assert_eq!(attribute(&service, &row, name).await, None, "{name}");
    }
}

#[tokio::test]
async fn a_row_in_a_newer_format_is_neither_shown_nor_changed() {
    let service = Service::without_event_sources().await;
    let charge = service.charge().await;
    let row = charge_row(&charge);
    let original = service.store().get_item(&row).await.unwrap().unwrap();
    let newer = AttributeValue::N(READ_FORMAT.saturating_add(1).to_string());
    service.set_attributes(&row.pk, &row.sk, &[(FORMAT, newer)]).await;
    let before = service.store().get_item(&row).await.unwrap();

    let read = service.get(&format!("/v1/charges/{}", id(&charge))).await;
    assert_eq!(read.problem(), (503, "api_error", "service_unavailable"));
    let paid = service.sandbox_answer(&charge, "pay", &json!({})).await;
    assert_eq!(paid.problem(), (503, "api_error", "service_unavailable"));
    assert_eq!(service.store().get_item(&row).await.unwrap(), before);

    service.put_item(original).await;
    assert_eq!(service.sandbox(&charge, "pay", &json!({})).await["status"], "paid");
}

#[test]
fn the_template_names_the_format_that_the_functions_read() {
    let template: serde_yaml_ng::Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let variables = &template["Globals"]["Function"]["Environment"]["Variables"];
    assert_eq!(variables["READ_ROW_FORMAT"].as_str(), Some(READ_FORMAT.to_string().as_str()));
    assert!((READ_FORMAT.saturating_sub(1)..=READ_FORMAT).contains(&WRITTEN_FORMAT));
}
