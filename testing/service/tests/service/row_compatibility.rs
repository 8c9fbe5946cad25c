//! Tests that functions of this version and of a newer version can use the same tables. Functions are deployed
//! one after another, so a row may have attributes or a format that this version does not know.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::charge::Charge;
use domain::ids::ChargeId;
use domain::row::{FORMAT, Key, READ_FORMAT, WRITTEN_FORMAT};
use serde_json::{Value, json};
use shared::store::key_of_item;

use crate::support::{Service, id};
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
