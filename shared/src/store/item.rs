//! Converts rows to items of the DynamoDB client, and back.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;

use domain::row::{FORMAT, Key, READ_FORMAT, Row};

use super::StoreError;
use super::due::due_attributes;

/// A row as a map of DynamoDB attributes.
pub type Item = HashMap<String, AttributeValue>;

/// The attributes of the primary key.
pub(super) const KEY_ATTRIBUTES: [&str; 2] = ["pk", "sk"];

/// The attributes that [`to_item`] adds to a row, apart from its primary key.
pub(super) const ADDED_ATTRIBUTES: [&str; 10] =
    ["list_pk", "list_sk", "status_pk", "customer_pk", "log_pk", "log_sk", "due_pk", "due_sk", "ttl", FORMAT];

pub fn key_attributes(key: &Key) -> Item {
    HashMap::from([
        ("pk".to_owned(), AttributeValue::S(key.pk.clone())),
        ("sk".to_owned(), AttributeValue::S(key.sk.clone())),
    ])
}

/// Returns the primary key of an item. `None`: the item has no `pk` or no `sk`.
pub fn key_of_item(item: &Item) -> Option<Key> {
    Some(Key { pk: text(item, "pk")?, sk: text(item, "sk")? })
}

/// Serialises a row as an item, with the attributes of its primary key, its indexes and its time to live.
pub fn to_item<R: Row>(row: &R) -> Result<Item, StoreError> {
    let mut item: Item = serde_dynamo::to_item(row)?;
    let key = row.key();
    let indexes = row.indexes();
    if let Some(at) = indexes.due {
        item.extend(due_attributes(&key, at));
    }
    item.insert("pk".to_owned(), AttributeValue::S(key.pk));
    item.insert("sk".to_owned(), AttributeValue::S(key.sk));
    if let Some((partition, sort)) = indexes.list {
        item.insert("list_pk".to_owned(), AttributeValue::S(partition));
        item.insert("list_sk".to_owned(), AttributeValue::S(sort));
    }
    if let Some(partition) = indexes.status {
        item.insert("status_pk".to_owned(), AttributeValue::S(partition));
    }
    if let Some(partition) = indexes.customer {
        item.insert("customer_pk".to_owned(), AttributeValue::S(partition));
    }
    if let Some((partition, sort)) = indexes.log {
        item.insert("log_pk".to_owned(), AttributeValue::S(partition));
        item.insert("log_sk".to_owned(), AttributeValue::S(sort));
    }
    if row.format() > 1 {
        item.insert(FORMAT.to_owned(), AttributeValue::N(row.format().to_string()));
    }
    if let Some(at) = row.removable_at() {
        item.insert("ttl".to_owned(), AttributeValue::N(at.seconds().to_string()));
    }
    Ok(item)
}

/// Deserialises a row from an item.
///
/// # Errors
///
/// - [`StoreError::Unavailable`] when a newer version of the service wrote the row in a format that this
///   version can't read.
/// - [`StoreError::Corrupt`] when the attributes are not those of the row's type.
pub fn from_item<R: DeserializeOwned>(item: Item) -> Result<R, StoreError> {
    if let Some(AttributeValue::N(format)) = item.get(FORMAT)
        && format.parse::<u64>().is_ok_and(|format| format > READ_FORMAT)
    {
        return Err(StoreError::Unavailable(format!("a row has the format {format} of a newer version")));
    }
    Ok(serde_dynamo::from_item(item)?)
}

/// Returns a string attribute of an item. `None`: the attribute is absent or is not a string.
pub fn text(item: &Item, name: &str) -> Option<String> {
    item.get(name)?.as_s().ok().cloned()
}

/// Returns an integer attribute of an item. `None`: the attribute is absent or is not an integer.
pub fn integer(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// Returns the `ttl` attribute: the time from which DynamoDB may remove the row, in seconds since 1970.
pub fn ttl(seconds: i64) -> Item {
    Item::from([("ttl".to_owned(), number(seconds))])
}

pub fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
