//! The calls that IAM decides on, as requests to DynamoDB show them.

use std::collections::BTreeSet;

use serde_json::Value;

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

/// Returns the parts of a request that have an action of their own: the items of a transaction, or the whole.
pub(super) fn rows_of<'a>(operation: &str, request: &'a Value) -> Vec<(String, &'a Value)> {
    let Some(items) = request["TransactItems"].as_array() else {
        return vec![(operation.to_owned(), request)];
    };
    // An item's kind is the name of its action without `Item`.
    let items = items.iter().filter_map(Value::as_object).flatten();
    items.map(|(kind, row)| (format!("{kind}Item"), row)).collect()
}

pub(crate) fn calls(caller: &str, operation: &str, request: &Value) -> Vec<Call> {
    let call = |action: &str, resource: String, leading_keys: BTreeSet<String>| Call {
        caller: caller.to_owned(),
        action: format!("dynamodb:{action}"),
        resource,
        leading_keys,
        attributes: BTreeSet::new(),
    };
    if let Some(tables) = request["RequestItems"].as_object() {
        let of_table = |(table, request): (&String, &Value)| {
            let keys = request["Keys"].as_array().into_iter().flatten();
            call(operation, table.clone(), keys.filter_map(partition_key).collect())
        };
        return tables.iter().map(of_table).collect();
    }
    let calls = rows_of(operation, request).into_iter().map(|(action, row)| {
        let keys = ["Key", "Item"].into_iter().filter_map(|field| partition_key(&row[field]));
        let mut call = call(&action, resource(row), keys.chain(queried_key(row)).collect());
        if operation == "UpdateItem" {
            call.attributes = attributes(row);
        }
        call
    });
    calls.collect()
}

/// The attributes of the key, and those for which the expressions have placeholders. The store names no other one.
fn attributes(request: &Value) -> BTreeSet<String> {
    let members = |field: &str| request[field].as_object().into_iter().flatten();
    let named = members("ExpressionAttributeNames").filter_map(|(_, name)| name.as_str());
    members("Key").map(|(name, _)| name.as_str()).chain(named).map(str::to_owned).collect()
}

fn resource(request: &Value) -> String {
    let table = request["TableName"].as_str().unwrap_or_default();
    request["IndexName"].as_str().map_or_else(|| table.to_owned(), |index| format!("{table}/index/{index}"))
}

fn partition_key(attributes: &Value) -> Option<String> {
    attributes["pk"]["S"].as_str().map(str::to_owned)
}

/// Returns the partition key of a query. The first term of its key condition must be that of the partition
/// key, as in `pk = :pk AND begins_with(sk, :prefix)`.
fn queried_key(request: &Value) -> Option<String> {
    let (_attribute, rest) = request["KeyConditionExpression"].as_str()?.split_once(" = ")?;
    let value = &request["ExpressionAttributeValues"][rest.split(' ').next()?];
    value["S"].as_str().map(str::to_owned)
}
