//! Checks that rows of an earlier version of the service can be read and are written back unchanged.
//! Functions are deployed one after another, so old and new versions use the table at the same time.
//!
//! `rows/<date>.json` contains rows of every kind and shape in DynamoDB's JSON. They were written by that
//! day's version of the service and of the operators' commands.
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
use domain::audit::chain::ChainCheck;
use domain::charge::{IncomingPayment, StoredCharge};
use domain::med::MedCase;
use domain::payout::Payout;
use domain::refund::Refund;
use domain::row::Row;
use domain::wallet::Posting;
use domain::webhook::event_type::Family;
use serde::de::DeserializeOwned;
use serde_json::Value;
use shared::account::User;
use shared::acquirer::configuration::{AcquirerSettings, SendPix};
use shared::api_key::ApiKey;
use shared::email::EmailRecord;
use shared::med::evidence::Upload;
use shared::store::{Item, from_item, to_item};
use shared::webhook::delivery::{Abandonment, Delivery};
use shared::webhook::endpoint::Endpoint;
use shared::webhook::event::Event;
use shared::webhook::secret::SigningSecret;

/// The attribute with the id of a single put. The store adds it to the item, so it is not a field of the
/// row's type.
const PUT_ID: &str = "put_id";

/// The attributes that updates change after the row was put.
const CHANGED_BY_UPDATES: [&str; 4] = ["due_pk", "due_sk", "list_pk", "list_sk"];

/// The kinds of rows without a public type: counters, markers and limits.
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

/// Returns the kind of a row: the text before the first `#` of its partition key. If the partition has rows
/// of several kinds, the same part of its sort key follows.
fn kind_of(row: &Value) -> String {
    let prefix = |name: &str| row[name]["S"].as_str().unwrap().split('#').next().unwrap().to_owned();
    let (partition, sort) = (prefix("pk"), prefix("sk"));
    match partition.as_str() {
        "charge" | "rollup" => format!("{partition} {sort}"),
        "deliveries" if sort.starts_with('~') => format!("{partition} {sort}"),
        _ => partition,
    }
}

/// Deserialises an item as a row of type `R`, and serialises it again.
fn round_trip<R: Row + DeserializeOwned>(item: &Item) -> Item {
    to_item(&from_item::<R>(item.clone()).unwrap()).unwrap()
}

/// Like [`round_trip`] for an audit row, which is not a [`Row`].
fn audit_round_trip(item: &Item) -> Item {
    let audit: Audit = from_item(item.clone()).unwrap();
    let mut rewritten: Item = serde_dynamo::to_item(&audit).unwrap();
    rewritten.extend(["pk", "sk"].map(|name| (name.to_owned(), item[name].clone())));
    rewritten
}

/// Returns the attributes by name, without those that the store or updates add.
fn comparable(item: Item) -> BTreeMap<String, AttributeValue> {
    item.into_iter()
        .filter(|(name, _)| name != PUT_ID && !CHANGED_BY_UPDATES.contains(&name.as_str()))
        .collect()
}

/// An event of that version has another format, and is never written back. Its bodies are those that were sent.
fn assert_event_of_an_earlier_version(stored: &Item) {
    let event: Event = from_item(stored.clone()).unwrap();
    let payload = stored["payload"].as_s().unwrap();
    for event_type in event.types() {
        let body = event.body_as(event_type).unwrap();
        if event_type.family() == Family::Canonical {
            assert_eq!(&body, payload);
            assert_eq!(event.id_as(event_type), event.id);
        } else {
            assert_eq!(body, format!(r#"{{"event":"{}","data":{payload}}}"#, event_type.as_str()));
        }
    }
}

#[test]
fn rows_of_an_earlier_version_can_be_read_and_are_written_back_unchanged() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.json")).unwrap();
    let mut checked: BTreeMap<String, usize> = BTreeMap::new();
    for row in &rows {
        let (kind, stored) = (kind_of(row), item(row));
        let rewritten = match kind.as_str() {
            "abandonments" => round_trip::<Abandonment>(&stored),
            "account" => round_trip::<Account>(&stored),
            "audit" => audit_round_trip(&stored),
            "charge case" => round_trip::<MedCase>(&stored),
            "charge charge" => {
                to_item(from_item::<StoredCharge>(stored.clone()).unwrap().as_stored()).unwrap()
            }
            "charge refund" => round_trip::<Refund>(&stored),
            "charge upload" => round_trip::<Upload>(&stored),
            "deliveries" => round_trip::<Delivery>(&stored),
            "endpoints" => round_trip::<Endpoint>(&stored),
            "events" => {
                assert_event_of_an_earlier_version(&stored);
                stored.clone()
            }
            "ledger" => round_trip::<Posting>(&stored),
            "notices" => round_trip::<EmailRecord>(&stored),
            "override-secret" => round_trip::<SigningSecret>(&stored),
            "payout" => round_trip::<Payout>(&stored),
            "receipts" => round_trip::<IncomingPayment>(&stored),
            "user" => round_trip::<User>(&stored),
            counter if COUNTERS.contains(&counter) => continue,
            other => panic!("this test has no type for rows of the kind {other}"),
        };
        assert_eq!(comparable(rewritten), comparable(stored), "{kind}: {row}");
        *checked.entry(kind).or_default() += 1;
    }
    assert_eq!(checked.len(), 16, "{checked:?}");
}

/// The file was computed by another program, from the description of the chain in [`domain::audit::chain`].
#[test]
fn a_chain_of_audit_rows_of_an_earlier_version_can_be_read_and_verified() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.audit.json")).unwrap();
    let mut check = ChainCheck::new("acc_x2thr6hn7hq787zg".parse().unwrap(), None);
    for row in &rows {
        let stored = item(row);
        assert_eq!(comparable(audit_round_trip(&stored)), comparable(stored.clone()), "{row}");
        check.add(row["sk"]["S"].as_str().unwrap(), &from_item(stored).unwrap());
    }
    let report = check.finish();
    assert_eq!((report.rows, report.faults.as_slice()), (3, [].as_slice()), "{report:?}");
}

/// API keys have a table of their own. A row also contains counters of the requests in recent minutes. They
/// are not fields of the type, so they are removed here.
#[test]
fn api_keys_of_an_earlier_version_can_be_read_and_are_written_back_unchanged() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.api-keys.json")).unwrap();
    assert!(!rows.is_empty());
    for row in &rows {
        let is_counter =
            |name: &str| name.strip_prefix('n').is_some_and(|minute| minute.parse::<u64>().is_ok());
        let stored: Item = item(row).into_iter().filter(|(name, _)| !is_counter(name)).collect();
        let key: ApiKey = serde_dynamo::from_item(stored.clone()).unwrap();
        let rewritten: Item = serde_dynamo::to_item(&key).unwrap();
        assert_eq!(rewritten, stored, "{row}");
    }
}

/// Acquirers of that version were in the state table, and `admin migrate acquirers` moves them. They are not
/// written back unchanged, because `send_pix` was a boolean. The certificate and key are not in use.
#[test]
fn settings_of_acquirers_of_an_earlier_version_can_be_read() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.acquirers.json")).unwrap();
    let settings: Vec<AcquirerSettings> =
        rows.iter().map(|row| from_item(item(&row["settings"]["M"])).unwrap()).collect();
    for (row, settings) in rows.iter().zip(&settings) {
        let stored = &row["settings"]["M"];
        assert_eq!(stored["base_url"]["S"], settings.base_url.as_str());
        assert_eq!(stored["pix_key"]["S"], settings.pix_key.as_str());
        assert_eq!(stored["identity"].is_object(), settings.identity.is_some());
        assert_eq!((settings.send_pix, settings.filter_verified), (SendPix::None, false));
        settings.check().unwrap();
    }
    assert_eq!(rows[0]["settings"]["M"]["send_pix"]["BOOL"], true);
    assert_eq!(settings.len(), 2);
}

/// The stored name is `sent`. No refund of the files has the field, so the test adds it to one.
#[test]
fn the_payment_details_of_a_refund_keep_their_stored_name() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("rows/2026-11-22.json")).unwrap();
    let mut refund = rows.into_iter().find(|row| kind_of(row) == "charge refund").unwrap();
    refund["transaction"]["M"]["sent"] = serde_json::json!({"M": {"customer_id": {"S": "user-1"}}});
    let stored = item(&refund);
    assert_eq!(comparable(round_trip::<Refund>(&stored)), comparable(stored.clone()));
    let refund: Refund = from_item(stored).unwrap();
    assert_eq!(refund.charge.payment_details.unwrap().customer_id.as_deref(), Some("user-1"));
}
