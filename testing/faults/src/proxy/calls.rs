//! The calls that IAM decides on, as the proxy sees them in requests.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::HeaderMap;
use serde_json::Value;

const PARTITION_ATTRIBUTE: &str = "pk";

/// A transaction is one call for each of its items, because IAM checks each item with the item's own action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Empty: the caller is no function.
    pub caller: String,
    pub action: String,
    pub resource: String,
    pub leading_keys: BTreeSet<String>,
    /// The attributes that an update of a single row names; empty for other actions.
    pub attributes: BTreeSet<String>,
}

/// Clones share them, also after the proxy has stopped. Their number is not bounded.
#[derive(Debug, Clone, Default)]
pub struct Calls(Arc<Mutex<BTreeSet<Call>>>);

impl Calls {
    pub fn all(&self) -> BTreeSet<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn record(&self, caller: &str, operation: &str, request: &Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(calls(caller, operation, request));
    }
}

pub(super) fn caller(headers: &HeaderMap) -> String {
    let token = headers.get("x-amz-security-token").and_then(|token| token.to_str().ok());
    token.unwrap_or_default().to_owned()
}

pub(super) fn calls(caller: &str, operation: &str, request: &Value) -> Vec<Call> {
    let call = |action: &str, resource: String, leading_keys: BTreeSet<String>| Call {
        caller: caller.to_owned(),
        action: format!("dynamodb:{action}"),
        resource,
        leading_keys,
        attributes: BTreeSet::new(),
    };
    if operation == "TransactWriteItems" {
        let items = request.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
        let writes = items.filter_map(Value::as_object).flatten();
        let writes = writes.map(|(kind, write)| {
            // An item's kind is the name of its action without `Item`.
            call(&format!("{kind}Item"), resource(write), keys_of_row(write).collect())
        });
        return writes.collect();
    }
    if let Some(tables) = request.get("RequestItems").and_then(Value::as_object) {
        let of_table = |(table, request): (&String, &Value)| {
            let keys = request.get("Keys").and_then(Value::as_array).into_iter().flatten();
            call(operation, table.clone(), keys.filter_map(partition_key).collect())
        };
        return tables.iter().map(of_table).collect();
    }
    let keys = keys_of_row(request).chain(queried_key(request)).collect();
    let mut call = call(operation, resource(request), keys);
    if operation == "UpdateItem" {
        call.attributes = attributes(request);
    }
    vec![call]
}

/// The attributes of the key, and those for which the expressions have placeholders. The store names no other one.
fn attributes(request: &Value) -> BTreeSet<String> {
    let members = |field: &str| request.get(field).and_then(Value::as_object).into_iter().flatten();
    let named = members("ExpressionAttributeNames").filter_map(|(_, name)| name.as_str());
    members("Key").map(|(name, _)| name.as_str()).chain(named).map(str::to_owned).collect()
}

fn resource(request: &Value) -> String {
    let name = |field: &str| request.get(field).and_then(Value::as_str);
    let table = name("TableName").unwrap_or_default();
    match name("IndexName") {
        Some(index) => format!("{table}/index/{index}"),
        None => table.to_owned(),
    }
}

fn keys_of_row(request: &Value) -> impl Iterator<Item = String> {
    ["Key", "Item"].into_iter().filter_map(|field| partition_key(request.get(field)?))
}

fn partition_key(attributes: &Value) -> Option<String> {
    Some(attributes.get(PARTITION_ATTRIBUTE)?.get("S")?.as_str()?.to_owned())
}

/// Returns the partition key of a query. The first term of its key condition must be that of the partition
/// key, as in `pk = :pk AND begins_with(sk, :prefix)`.
fn queried_key(request: &Value) -> Option<String> {
    let (_attribute, rest) = request.get("KeyConditionExpression")?.as_str()?.split_once(" = ")?;
    let placeholder = rest.split(' ').next()?;
    let value = request.get("ExpressionAttributeValues")?.get(placeholder)?;
    Some(value.get("S")?.as_str()?.to_owned())
}
