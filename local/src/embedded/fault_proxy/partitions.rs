//! Attributes the write units of a request to partition keys: those of the rows that it writes, and those of
//! their entries in indexes.
//!
//! DynamoDB reports units for a whole table or index, but limits them for each partition. So the proxy reads
//! the rows before and after a write, and computes the units of each row by the rules that the embedded
//! DynamoDB also applies: the larger image counts in units of 1 KB, twice in a transaction. An index entry
//! costs its own units once, also in a transaction. An entry whose key moves is deleted and inserted.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use dynoxide::types::{AttributeValue, Item, item_size, table_write_capacity_units, write_capacity_units};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::calls::calls;
use crate::embedded::dynamodb::{Engine, EngineResult, internal};

/// The factor of the units of a row in a transaction. It does not apply to index entries.
const TRANSACTION_FACTOR: f64 = 2.0;

/// The write units of a row, or of its entry in an index, by one request.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionUnits {
    pub resource: String,
    pub partition: String,
    /// Empty: the table has no sort key.
    pub sort: String,
    /// The write units.
    pub units: f64,
}

#[derive(Debug)]
struct TableSchema {
    name: String,
    keys: Vec<String>,
    indexes: Vec<IndexSchema>,
}

#[derive(Debug)]
struct IndexSchema {
    name: String,
    keys: Vec<String>,
    /// `None`: all attributes of the row.
    projected: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone)]
pub(super) struct RowWrite {
    schema: Arc<TableSchema>,
    key: Item,
    change: Change,
    is_transactional: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Put(Item),
    Delete,
    Update(Vec<(String, Option<AttributeValue>)>),
    None,
}

#[derive(Debug, Default)]
pub(super) struct Partitions {
    schemas: HashMap<String, Arc<TableSchema>>,
}

impl Partitions {
    /// Empty: the request only reads.
    pub(super) fn writes(
        &mut self,
        engine: &mut Engine,
        operation: &str,
        body: &Bytes,
    ) -> EngineResult<Vec<RowWrite>> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_transactional = operation == "TransactWriteItems";
        let mut writes = Vec::new();
        for RowRequest { table, attributes, change } in row_requests(operation, &body) {
            let schema = self.schema(engine, table)?;
            let key = selected(&attributes, |name| schema.keys.iter().any(|key| key == name));
            writes.push(RowWrite { schema, key, change, is_transactional });
        }
        Ok(writes)
    }

    fn schema(&mut self, engine: &mut Engine, table: &str) -> EngineResult<Arc<TableSchema>> {
        if let Some(schema) = self.schemas.get(table) {
            return Ok(Arc::clone(schema));
        }
        let described = call(engine, "DescribeTable", &json!({ "TableName": table }))?;
        let schema = Arc::new(TableSchema::of(table, described.get("Table").unwrap_or(&Value::Null)));
        self.schemas.insert(table.to_owned(), Arc::clone(&schema));
        Ok(schema)
    }
}

/// Reads the rows, in the order of the writes. `None`: no row has this key.
pub(super) fn read(engine: &mut Engine, writes: &[RowWrite]) -> EngineResult<Vec<Option<Item>>> {
    let mut read_one = |write: &RowWrite| {
        let get = json!({"TableName": write.schema.name, "Key": write.key, "ConsistentRead": true});
        let found = call(engine, "GetItem", &get)?.get_mut("Item").map(Value::take);
        found.map(|item| serde_json::from_value(item).map_err(|error| internal(&error))).transpose()
    };
    writes.iter().map(&mut read_one).collect()
}

fn call(engine: &mut Engine, operation: &str, request: &Value) -> EngineResult<Value> {
    let response = engine.execute(operation, request.to_string().as_bytes())?;
    serde_json::from_slice(&response).map_err(|error| internal(&error))
}

impl TableSchema {
    fn of(table: &str, described: &Value) -> Self {
        let keys = key_names(described);
        let indexes = described.get("GlobalSecondaryIndexes").and_then(Value::as_array);
        let indexes = indexes.into_iter().flatten().map(|index| IndexSchema::of(index, &keys)).collect();
        Self { name: table.to_owned(), keys, indexes }
    }
}

impl IndexSchema {
    fn of(described: &Value, table_keys: &[String]) -> Self {
        let text = |pointer: &str| described.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let keys = key_names(described);
        let others = described.pointer("/Projection/NonKeyAttributes").and_then(Value::as_array);
        let others = others.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let projected = keys.iter().chain(table_keys).cloned().chain(others).collect();
        let is_all = text("/Projection/ProjectionType") == "ALL";
        Self { name: text("/IndexName").to_owned(), keys, projected: (!is_all).then_some(projected) }
    }

    /// `None`: the row is not in the index.
    fn entry(&self, row: Option<&Item>) -> Option<(String, Item)> {
        let row = row.filter(|row| self.keys.iter().all(|key| row.contains_key(key)))?;
        let is_projected =
            |name: &str| self.projected.as_ref().is_none_or(|projected| projected.contains(name));
        Some((key_text(row, self.keys.first()), selected(row, is_projected)))
    }

    /// Returns the units of each partition that a write of a row costs.
    fn units(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<(String, f64)> {
        let units = |entry: &Item| write_capacity_units(item_size(entry));
        let keys = |entry: &Item| selected(entry, |name| self.keys.iter().any(|key| key == name));
        match (self.entry(before), self.entry(after)) {
            (None, None) => Vec::new(),
            (None, Some((partition, entry))) | (Some((partition, entry)), None) => {
                vec![(partition, units(&entry))]
            }
            (Some((from, old)), Some((to, new))) if keys(&old) != keys(&new) => {
                vec![(from, units(&old)), (to, units(&new))]
            }
            (Some((_, old)), Some((_, new))) if old == new => Vec::new(),
            (Some((_, old)), Some((partition, new))) => {
                vec![(partition, units(&old).max(units(&new)))]
            }
        }
    }
}

impl RowWrite {
    /// Returns the units that the write will probably cost, given the row before it. Only an update with
    /// calculated values can cost another number of units.
    pub(super) fn expected_units(&self, before: Option<&Item>) -> Vec<PartitionUnits> {
        let after = match &self.change {
            Change::Put(item) => Some(item.clone()),
            Change::Delete => None,
            Change::Update(attributes) => {
                let mut row = before.unwrap_or(&self.key).clone();
                for (name, value) in attributes {
                    match value {
                        Some(value) => row.insert(name.clone(), value.clone()),
                        None => row.remove(name),
                    };
                }
                Some(row)
            }
            Change::None => before.cloned(),
        };
        self.units(before, after.as_ref())
    }

    /// Returns the units of the write, given the row before and after it.
    pub(super) fn units(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<PartitionUnits> {
        let of_row = self.factor() * table_write_capacity_units(before.map(item_size), after.map(item_size));
        let in_indexes = self.schema.indexes.iter().flat_map(|index| {
            let resource = format!("{}/index/{}", self.schema.name, index.name);
            let units = index.units(before, after).into_iter();
            units.map(move |(partition, units)| (resource.clone(), partition, units))
        });
        std::iter::once((self.schema.name.clone(), self.partition(), of_row))
            .chain(in_indexes)
            .map(|(resource, partition, units)| PartitionUnits {
                resource,
                partition,
                sort: key_text(&self.key, self.schema.keys.get(1)),
                units,
            })
            .collect()
    }

    /// Returns the units of a write that DynamoDB rejected because of a condition.
    pub(super) fn units_of_failed_condition(&self) -> PartitionUnits {
        PartitionUnits {
            resource: self.schema.name.clone(),
            partition: self.partition(),
            sort: key_text(&self.key, self.schema.keys.get(1)),
            units: self.factor(),
        }
    }

    fn partition(&self) -> String {
        key_text(&self.key, self.schema.keys.first())
    }

    fn factor(&self) -> f64 {
        if self.is_transactional { TRANSACTION_FACTOR } else { 1.0 }
    }
}

struct RowRequest<'a> {
    table: &'a str,
    attributes: Item,
    change: Change,
}

impl<'a> RowRequest<'a> {
    fn of(kind: &str, table: &'a str, request: &Value) -> Self {
        let item = |name: &str| -> Item {
            let attributes = request.get(name).cloned().unwrap_or_default();
            serde_json::from_value(attributes).unwrap_or_default()
        };
        match kind {
            "Put" => Self { table, attributes: item("Item"), change: Change::Put(item("Item")) },
            "Delete" => Self { table, attributes: item("Key"), change: Change::Delete },
            "Update" => Self { table, attributes: item("Key"), change: Change::Update(assignments(request)) },
            _ => Self { table, attributes: item("Key"), change: Change::None },
        }
    }
}

fn row_requests<'a>(operation: &str, body: &'a Value) -> Vec<RowRequest<'a>> {
    let table = |request: &'a Value| request.get("TableName").and_then(Value::as_str);
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" => {
            let kind = operation.trim_end_matches("Item");
            table(body).map(|table| RowRequest::of(kind, table, body)).into_iter().collect()
        }
        "TransactWriteItems" => {
            let items = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
            let rows = items.filter_map(Value::as_object).flatten();
            rows.filter_map(|(kind, row)| Some(RowRequest::of(kind, table(row)?, row))).collect()
        }
        "BatchWriteItem" => {
            let tables = body.get("RequestItems").and_then(Value::as_object).into_iter().flatten();
            let rows = tables.flat_map(|(table, requests)| {
                let requests =
                    requests.as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
                requests.map(|(kind, row)| RowRequest::of(kind.trim_end_matches("Request"), table, row))
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
}

/// Calculated values are not included.
pub(super) fn assignments(request: &Value) -> Vec<(String, Option<AttributeValue>)> {
    let expression = request.get("UpdateExpression").and_then(Value::as_str).unwrap_or_default();
    let name = |text: &str| {
        let named = request.pointer(&format!("/ExpressionAttributeNames/{text}")).and_then(Value::as_str);
        named.unwrap_or(text).to_owned()
    };
    let value = |text: &str| {
        let value = request.get("ExpressionAttributeValues")?.get(text)?.clone();
        serde_json::from_value::<AttributeValue>(value).ok()
    };
    let mut clause = "";
    let mut assigned = Vec::new();
    for part in expression.split(',') {
        let mut words: Vec<&str> = part.split_whitespace().collect();
        // A clause keyword can be in the middle of a part, as in `SET a = :a REMOVE b, c`.
        while !words.is_empty() {
            if let Some(keyword) = words.first().filter(|word| is_clause(word)) {
                clause = keyword;
                words.remove(0);
            }
            let end = words.iter().position(|word| is_clause(word)).unwrap_or(words.len());
            let operand: Vec<&str> = words.drain(..end).collect();
            match (clause, operand.as_slice()) {
                ("SET", [attribute, "=", placeholder]) => {
                    if let Some(value) = value(placeholder) {
                        assigned.push((name(attribute), Some(value)));
                    }
                }
                ("REMOVE", [attribute]) => assigned.push((name(attribute), None)),
                _ => {}
            }
        }
    }
    assigned
}

fn is_clause(word: &str) -> bool {
    ["SET", "REMOVE", "ADD", "DELETE"].contains(&word)
}

/// Returns the partitions that a request reads, and for each an equal part of the units.
pub(super) fn read_partitions(operation: &str, body: &Bytes, units: f64) -> Vec<PartitionUnits> {
    let calls = calls("", operation, body);
    let is_read = matches!(operation, "GetItem" | "BatchGetItem" | "Query");
    let keys = calls.iter().flat_map(|call| call.leading_keys.iter().map(|key| (&call.resource, key)));
    let keys: Vec<_> = keys.filter(|_| is_read).collect();
    let count = f64::from(u32::try_from(keys.len()).unwrap_or(u32::MAX));
    let partition = |(resource, partition): (&String, &String)| PartitionUnits {
        resource: resource.clone(),
        partition: partition.clone(),
        sort: String::new(),
        units: units / count,
    };
    keys.into_iter().map(partition).collect()
}

fn key_names(described: &Value) -> Vec<String> {
    let keys = described.get("KeySchema").and_then(Value::as_array).into_iter().flatten();
    keys.filter_map(|key| key.get("AttributeName")?.as_str().map(str::to_owned)).collect()
}

fn selected(item: &Item, is_selected: impl Fn(&str) -> bool) -> Item {
    let attributes = item.iter().filter(|(name, _)| is_selected(name));
    attributes.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Empty: the item has no such attribute, or it is binary.
fn key_text(item: &Item, name: Option<&String>) -> String {
    match name.and_then(|name| item.get(name)) {
        Some(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
        _ => String::new(),
    }
}
