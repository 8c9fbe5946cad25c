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
use serde_json::{Value, json};

use super::DynamoDb;

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
    /// The part of the request about this row, as JSON.
    request: String,
    is_transactional: bool,
}

#[derive(Debug, Default)]
pub(super) struct Partitions {
    schemas: HashMap<String, Arc<TableSchema>>,
}

impl Partitions {
    /// Empty: the request only reads.
    pub(super) async fn writes(
        &mut self,
        dynamodb: &DynamoDb<'_>,
        operation: &str,
        request: &Value,
    ) -> Option<Vec<RowWrite>> {
        let is_transactional = operation == "TransactWriteItems";
        let mut writes = Vec::new();
        for (table, row) in rows(operation, request) {
            let schema = self.schema(dynamodb, table).await?;
            let attributes = row.get("Key").or(row.get("Item")).cloned().unwrap_or_default();
            let attributes: Item = serde_json::from_value(attributes).unwrap_or_default();
            let key = selected(&attributes, |name| schema.keys.iter().any(|key| key == name));
            writes.push(RowWrite { schema, key, request: row.to_string(), is_transactional });
        }
        Some(writes)
    }

    async fn schema(&mut self, dynamodb: &DynamoDb<'_>, table: &str) -> Option<Arc<TableSchema>> {
        if let Some(schema) = self.schemas.get(table) {
            return Some(Arc::clone(schema));
        }
        let described = dynamodb.call("DescribeTable", &json!({ "TableName": table })).await?;
        let schema = Arc::new(TableSchema::of(table, described.get("Table").unwrap_or(&Value::Null)));
        self.schemas.insert(table.to_owned(), Arc::clone(&schema));
        Some(schema)
    }
}

/// Reads the rows, in the order of the writes. `None` among them: no row has this key.
pub(super) async fn read(dynamodb: &DynamoDb<'_>, writes: &[RowWrite]) -> Option<Vec<Option<Item>>> {
    let mut rows = Vec::new();
    for write in writes {
        let get = json!({"TableName": write.schema.name, "Key": write.key, "ConsistentRead": true});
        let item = dynamodb.call("GetItem", &get).await?.get_mut("Item").map(Value::take);
        rows.push(item.map(serde_json::from_value).transpose().ok()?);
    }
    Some(rows)
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
    /// Returns whether the write contains the partition key of its table or of one of the table's indexes.
    pub(super) fn names(&self, resource: &str, partition: &str) -> bool {
        resource.split('/').next() == Some(&self.schema.name)
            && self.request.contains(&json!({ "S": partition }).to_string())
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

/// Returns the table of each written row, and the part of the request about the row.
fn rows<'a>(operation: &str, body: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let with_table = |row: &'a Value| Some((row.get("TableName")?.as_str()?, row));
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" => with_table(body).into_iter().collect(),
        "TransactWriteItems" => {
            let items = body.get("TransactItems").and_then(Value::as_array).into_iter().flatten();
            let rows = items.filter_map(Value::as_object).flatten();
            rows.filter_map(|(_, row)| with_table(row)).collect()
        }
        "BatchWriteItem" => {
            let tables = body.get("RequestItems").and_then(Value::as_object).into_iter().flatten();
            let rows = tables.flat_map(|(table, requests)| {
                let requests = requests.as_array().into_iter().flatten();
                let rows = requests.filter_map(Value::as_object).flatten();
                rows.map(move |(_, row)| (table.as_str(), row))
            });
            rows.collect()
        }
        _ => Vec::new(),
    }
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
