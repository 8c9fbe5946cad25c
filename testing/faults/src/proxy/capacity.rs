//! Computes the capacity units that requests consume.
//!
//! The proxy adds `ReturnConsumedCapacity` to each request, so the units are those that DynamoDB reports.
//! DynamoDB bills a write whose condition fails, but reports no units for it. For this write the proxy counts
//! the price of rows under 1 KB: one unit for a single write, and two for each item of a transaction.

use bytes::Bytes;
use serde_json::Value;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Units {
    pub(super) write: f64,
    pub(super) read: f64,
}

pub(super) fn with_return_consumed_capacity(request: &Value) -> Bytes {
    let mut request = request.clone();
    if let Some(fields) = request.as_object_mut() {
        fields.insert("ReturnConsumedCapacity".to_owned(), "INDEXES".into());
    }
    Bytes::from(request.to_string())
}

/// Reads the units of a successful response.
pub(super) fn consumed(operation: &str, response: &Bytes) -> Units {
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let units = match response.get("ConsumedCapacity") {
        Some(Value::Array(tables)) => {
            tables.iter().filter_map(|table| table.get("CapacityUnits")?.as_f64()).sum()
        }
        Some(table) => table.get("CapacityUnits").and_then(Value::as_f64).unwrap_or_default(),
        None => 0.0,
    };
    match operation {
        "GetItem" | "BatchGetItem" | "Query" | "Scan" | "TransactGetItems" => {
            Units { write: 0.0, read: units }
        }
        _ => Units { write: units, read: 0.0 },
    }
}

/// Computes the units of a request that DynamoDB rejected. Only a failed condition costs units.
pub(super) fn consumed_by_failed_condition(request: &Value, response: &Bytes) -> Units {
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let code = response.get("__type").and_then(Value::as_str).unwrap_or_default();
    let write = if code.ends_with("#ConditionalCheckFailedException") {
        1.0
    } else if code.ends_with("#TransactionCanceledException") {
        let items = request.get("TransactItems").and_then(Value::as_array);
        items.into_iter().flatten().map(|_| 2.0).sum()
    } else {
        0.0
    };
    Units { write, read: 0.0 }
}
