//! Rows that an earlier version of the service wrote are read, and written back as they were: functions are deployed one by
//! one, so old and new versions share the table. `rows/<date>.json` has a row of each kind and shape, as DynamoDB's JSON; the
//! service and the operator's commands of that day wrote them.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::account::Account;
use domain::audit::Audit;
use domain::charge::{IncomingPayment, StoredCharge};
use domain::med::MedCase;
use domain::payout::Payout;
use domain::refund::Refund;
use domain::row::Row;
use domain::wallet::Posting;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shared::account::User;
use shared::api_key::ApiKey;
use shared::email::Sending;
use shared::med::evidence::Upload;
use shared::store::{Item, from_item, to_item};
use shared::webhook::delivery::{Abandonment, Delivery};
use shared::webhook::endpoint::Endpoint;
use shared::webhook::event::Event;
use shared::webhook::override_secret::OverrideSecret;

/// Names a single put, and no part of the row.
const PUT_ID: &str = "put_id";

/// Attributes that updates move after the row was put.
const MOVED: [&str; 4] = ["due_pk", "due_sk", "list_pk", "list_sk"];

/// Kinds of rows that no type stands for outside its module: counters, markers and limits.
const COUNTERS: [&str; 12] = [
    "counted",
    "dashboard-requests",
    "deliveries ~counts",
    "destinations",
    "endpoint-count",
    "endpoint-tests",
    "log-ins",
    "mails",
    "rollup day",
    "rollup total",
    "third-party-refunds",
    "wallet",
];

fn attribute(value: &Value) -> AttributeValue {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    let text = || value.as_str().unwrap().to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "BOOL" => AttributeValue::Bool(value.as_bool().unwrap()),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().unwrap().iter().map(attribute).collect()),
        "M" => AttributeValue::M(item(value)),
        other => panic!("{other}"),
    }
}

fn item(value: &Value) -> Item {
    value.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value))).collect()
}

/// What kind of row it is: the first word of its partition key, and that of its sort key where it tells more.
fn kind_of(row: &Value) -> String {
    let word = |name: &str| row[name]["S"].as_str().unwrap().split('#').next().unwrap().to_owned();
    let (partition, sort) = (word("pk"), word("sk"));
    match partition.as_str() {
        "charge" | "rollup" => format!("{partition} {sort}"),
        "deliveries" if sort.starts_with('~') => format!("{partition} {sort}"),
        _ => partition,
    }
}

/// The row, read as what it is and written again.
fn written_again<R: Row + DeserializeOwned>(item: &Item) -> Item {
    to_item(&from_item::<R>(item.clone()).unwrap()).unwrap()
}

/// Attributes in order, without those that are no part of the row.
fn compared(item: Item) -> BTreeMap<String, AttributeValue> {
    item.into_iter().filter(|(name, _)| name != PUT_ID && !MOVED.contains(&name.as_str())).collect()
}

#[test]
fn rows_of_an_earlier_version_are_read_and_written_back_as_they_were() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.json")).unwrap();
    let mut checked: BTreeMap<String, usize> = BTreeMap::new();
    for row in &rows {
        let (kind, stored) = (kind_of(row), item(row));
        let again = match kind.as_str() {
            "abandonments" => written_again::<Abandonment>(&stored),
            "account" => written_again::<Account>(&stored),
            "audit" => written_again::<Audit>(&stored),
            "charge case" => written_again::<MedCase>(&stored),
            "charge charge" => {
                to_item(from_item::<StoredCharge>(stored.clone()).unwrap().as_stored()).unwrap()
            }
            "charge refund" => written_again::<Refund>(&stored),
            "charge upload" => written_again::<Upload>(&stored),
            "deliveries" => written_again::<Delivery>(&stored),
            "endpoints" => written_again::<Endpoint>(&stored),
            "events" => written_again::<Event>(&stored),
            "ledger" => written_again::<Posting>(&stored),
            "notices" => written_again::<Sending>(&stored),
            "override-secret" => written_again::<OverrideSecret>(&stored),
            "payout" => written_again::<Payout>(&stored),
            "receipts" => written_again::<IncomingPayment>(&stored),
            "user" => written_again::<User>(&stored),
            counter if COUNTERS.contains(&counter) => continue,
            other => panic!("no type is known for {other}"),
        };
        assert_eq!(compared(again), compared(stored), "{kind}: {row}");
        *checked.entry(kind).or_default() += 1;
    }
    assert_eq!(checked.len(), 16, "{checked:?}");
}

/// Keys live in a table of their own. Beside what is a key's, a row has a counter of requests for each of some minutes.
#[test]
fn api_keys_of_an_earlier_version_are_read_and_written_back_as_they_were() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.api-keys.json")).unwrap();
    assert!(!rows.is_empty());
    for row in &rows {
        let is_counter =
            |name: &str| name.strip_prefix('n').is_some_and(|minute| minute.parse::<u64>().is_ok());
        let stored: Item = item(row).into_iter().filter(|(name, _)| !is_counter(name)).collect();
        let key: ApiKey = serde_dynamo::from_item(stored.clone()).unwrap();
        let again: Item = serde_dynamo::to_item(&key).unwrap();
        assert_eq!(again, stored, "{row}");
    }
}
