//! Attributes the write units of a request to partition keys: those of the rows that it writes, and those of
//! their entries in indexes.
//!
//! DynamoDB reports units for a whole table or index, but limits them for each partition. So the proxy reads
//! the rows before and after a write, and computes the units of each row by the rules that the embedded
//! DynamoDB also applies: the larger image counts in units of 1 KB, twice in a transaction. An index entry
//! costs its own units once, also in a transaction. An entry whose key moves is deleted and inserted.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use dynoxide::types::{AttributeValue, Item, item_size, table_write_capacity_units, write_capacity_units};
use local::template::Template;
use serde_json::{Value, json};

use super::calls::rows_of;
use super::{DynamoDb, KeyUnits};

/// The attributes of the key of a row. A table may have no sort key.
const KEYS: [&str; 2] = ["pk", "sk"];

/// The operations that write single rows, also in a transaction. A check of a condition costs as much as a write.
const WRITES: [&str; 4] = ["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"];

/// The factor of the units of a row in a transaction. It does not apply to index entries.
const TRANSACTION_FACTOR: f64 = 2.0;

/// An index of a table, which projects its keys, those of the table and some attributes.
struct Index {
    table: String,
    name: String,
    keys: Vec<String>,
    projected: BTreeSet<String>,
}

static INDEXES: LazyLock<Vec<Index>> = LazyLock::new(|| {
    let tables = Template::deployed().map(|template| template.tables).unwrap_or_default();
    let of_table = |table: &local::template::Table| -> Vec<Index> {
        let indexes = table.create["GlobalSecondaryIndexes"].as_array().into_iter().flatten();
        indexes.map(|index| Index::of(&table.logical_id, index)).collect()
    };
    tables.iter().flat_map(of_table).collect()
});

impl Index {
    fn of(table: &str, created: &Value) -> Self {
        let texts = |value: &Value, field: &str| -> Vec<String> {
            let texts = value
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| if field.is_empty() { one } else { &one[field] });
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let keys = texts(&created["KeySchema"], "AttributeName");
        let others = texts(&created["Projection"]["NonKeyAttributes"], "");
        let projected = keys.iter().cloned().chain(KEYS.map(str::to_owned)).chain(others).collect();
        let name = created["IndexName"].as_str().unwrap_or_default().to_owned();
        Self { table: table.to_owned(), name, keys, projected }
    }

    /// `None`: the row is not in the index.
    fn entry(&self, row: Option<&Item>) -> Option<Item> {
        let row = row.filter(|row| self.keys.iter().all(|key| row.contains_key(key)))?;
        Some(selected(row, |name| self.projected.contains(name)))
    }

    /// Returns the units of each partition that a write of a row costs.
    fn units(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<(String, f64)> {
        let units = |entry: &Item| write_capacity_units(item_size(entry));
        let partition = |entry: &Item| key_text(entry, self.keys.first().map_or("", String::as_str));
        let is_same = |old: &Item, new: &Item| self.keys.iter().all(|key| old.get(key) == new.get(key));
        match (self.entry(before), self.entry(after)) {
            (Some(old), Some(new)) if old == new => Vec::new(),
            (Some(old), Some(new)) if is_same(&old, &new) => {
                vec![(partition(&new), units(&old).max(units(&new)))]
            }
            (old, new) => old.iter().chain(&new).map(|entry| (partition(entry), units(entry))).collect(),
        }
    }
}

/// A write of a row.
pub(super) struct RowWrite {
    table: String,
    key: Item,
    /// The part of the request about this row, as JSON.
    request: String,
    pub(super) factor: f64,
}

/// Returns the writes of a request. Empty: it only reads.
pub(super) fn writes(operation: &str, request: &Value) -> Vec<RowWrite> {
    let factor = if operation == "TransactWriteItems" { TRANSACTION_FACTOR } else { 1.0 };
    let rows =
        rows_of(operation, request).into_iter().filter(|(action, _)| WRITES.contains(&action.as_str()));
    let writes = rows.map(|(_, row)| {
        let attributes = row.get("Key").or(row.get("Item")).cloned().unwrap_or_default();
        let attributes: Item = serde_json::from_value(attributes).unwrap_or_default();
        let table = row["TableName"].as_str().unwrap_or_default().to_owned();
        RowWrite {
            table,
            key: selected(&attributes, |name| KEYS.contains(&name)),
            request: row.to_string(),
            factor,
        }
    });
    writes.collect()
}

/// Reads the rows, in the order of the writes. `None` among them: no row has this key.
pub(super) async fn read(dynamodb: &DynamoDb<'_>, writes: &[RowWrite]) -> Option<Vec<Option<Item>>> {
    let mut rows = Vec::new();
    for write in writes {
        let get = json!({"TableName": write.table, "Key": write.key, "ConsistentRead": true});
        let (_, mut answer) = dynamodb.send("GetItem", get.to_string().into()).await?;
        let item = answer.get_mut("Item").map(Value::take);
        rows.push(item.map(serde_json::from_value).transpose().ok()?);
    }
    Some(rows)
}

impl RowWrite {
    /// Returns whether the write contains the partition key of its table or of one of the table's indexes.
    pub(super) fn names(&self, resource: &str, partition: &str) -> bool {
        resource.split('/').next() == Some(&self.table)
            && self.request.contains(&json!({ "S": partition }).to_string())
    }

    /// Returns the units of the write, given the row before and after it.
    pub(super) fn units(&self, before: Option<&Item>, after: Option<&Item>) -> Vec<KeyUnits> {
        let of_row = self.factor * table_write_capacity_units(before.map(item_size), after.map(item_size));
        let mut all = vec![self.of_table(of_row)];
        for index in INDEXES.iter().filter(|index| index.table == self.table) {
            let resource = format!("{}/index/{}", index.table, index.name);
            all.extend(index.units(before, after).into_iter().map(|(partition, units)| KeyUnits {
                resource: resource.clone(),
                partition,
                ..self.of_table(units)
            }));
        }
        all
    }

    /// Returns the units of a write that DynamoDB rejected because of a condition.
    pub(super) fn units_of_failed_condition(&self) -> KeyUnits {
        self.of_table(self.factor)
    }

    fn of_table(&self, units: f64) -> KeyUnits {
        let [partition, sort] = KEYS.map(|name| key_text(&self.key, name));
        KeyUnits { caller: String::new(), resource: self.table.clone(), partition, sort, units }
    }
}

fn selected(item: &Item, is_selected: impl Fn(&str) -> bool) -> Item {
    let attributes = item.iter().filter(|(name, _)| is_selected(name));
    attributes.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Empty: the item has no such attribute, or it is binary.
fn key_text(item: &Item, name: &str) -> String {
    match item.get(name) {
        Some(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
        _ => String::new(),
    }
}
