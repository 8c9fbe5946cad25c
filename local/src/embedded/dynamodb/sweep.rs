//! Deletes expired rows, some at a time.
//!
//! dynoxide's own deletion reads all rows of all tables at once, which would stop the service for a minute when
//! the tables have millions of rows.

use std::collections::HashMap;

use domain::time::Timestamp;
use dynoxide::DynoxideError;
use dynoxide::actions::delete_item;
use dynoxide::storage::Storage;
use rusqlite::params;
use serde_json::{Map, Value, json};

use super::engine::{internal, ready};

/// The number of rows that one call of [`Sweeper::sweep`] examines. It takes about a millisecond, while requests
/// wait.
const SLICE: i64 = 500;

#[derive(Default)]
pub(super) struct Sweeper {
    positions: HashMap<String, i64>,
}

struct Table {
    name: String,
    key: Vec<String>,
    ttl: String,
}

impl Sweeper {
    pub(super) fn sweep(&mut self, storage: &Storage, now: Timestamp) -> Result<bool, DynoxideError> {
        let mut is_more = false;
        for table in tables(storage)? {
            let position = self.positions.entry(table.name.clone()).or_default();
            let last = last_of_slice(storage, &table, *position)?;
            for item in expired(storage, &table, (*position, last.unwrap_or(*position)), now)? {
                delete(storage, &table, &item)?;
            }
            is_more |= last.is_some();
            *position = last.unwrap_or_default();
        }
        Ok(is_more)
    }
}

fn tables(storage: &Storage) -> Result<Vec<Table>, DynoxideError> {
    let query = "SELECT table_name, key_schema, ttl_attribute FROM _tables
                 WHERE ttl_enabled = 1 AND ttl_attribute IS NOT NULL";
    let mut statement = storage.conn().prepare_cached(query)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    rows.map(|row| {
        let (name, key_schema, ttl) = row?;
        let schema: Vec<Value> = serde_json::from_str(&key_schema).map_err(|e| internal(&e))?;
        let key = schema.iter().filter_map(|element| element.get("AttributeName")?.as_str());
        Ok(Table { name, key: key.map(str::to_owned).collect(), ttl })
    })
    .collect()
}

/// Returns the id of the last row of the slice after a position. `None`: there is no row.
fn last_of_slice(storage: &Storage, table: &Table, after: i64) -> Result<Option<i64>, DynoxideError> {
    let query = format!(
        "SELECT MAX(id) FROM (SELECT rowid AS id FROM {} WHERE rowid > ?1 ORDER BY rowid LIMIT ?2)",
        quoted(&table.name)
    );
    let mut statement = storage.conn().prepare_cached(&query)?;
    Ok(statement.query_row([after, SLICE], |row| row.get(0))?)
}

/// Returns the expired rows after `first`, up to `last`.
fn expired(
    storage: &Storage,
    table: &Table,
    (first, last): (i64, i64),
    now: Timestamp,
) -> Result<Vec<Map<String, Value>>, DynoxideError> {
    let query = format!(
        "SELECT item_json FROM {}
         WHERE rowid > ?1 AND rowid <= ?2
             AND CAST(json_extract(item_json, ?3) AS INTEGER) < ?4",
        quoted(&table.name)
    );
    let mut statement = storage.conn().prepare_cached(&query)?;
    let path = format!("$.\"{}\".N", table.ttl);
    let rows =
        statement.query_map(params![first, last, path, now.seconds()], |row| row.get::<_, String>(0))?;
    rows.map(|json| serde_json::from_str(&json?).map_err(|e| internal(&e))).collect()
}

fn delete(storage: &Storage, table: &Table, item: &Map<String, Value>) -> Result<(), DynoxideError> {
    let of_key = |name: &String| item.get(name).map(|value| (name.clone(), value.clone()));
    let key: Map<String, Value> = table.key.iter().filter_map(of_key).collect();
    let request = serde_json::from_value(json!({"TableName": table.name, "Key": key}));
    ready(delete_item::execute(storage, request.map_err(|e| internal(&e))?)).map(drop)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
