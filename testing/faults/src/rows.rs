//! Rows as a newer version of the service writes them. A deployment may be rolled back after a newer version has
//! written some.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::row::READ_FORMAT;
use shared::store::Store;

use crate::{Error, Result};

type Row = HashMap<String, AttributeValue>;

/// An attribute that no row of this version has.
const UNKNOWN: &str = "written_by_a_newer_version";

/// The partitions of the rows that get it.
const REPLACED: [&str; 6] = ["account#", "charge#", "delivery#", "endpoints#", "payout#", "receipts#"];

fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

fn key_of(row: &Row) -> Row {
    row.iter()
        .filter(|(name, _)| ["pk", "sk"].contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

async fn all(store: &Store) -> Result<Vec<Row>> {
    let scan = store.client().scan().table_name(store.table()).into_paginator();
    let rows: std::result::Result<Vec<Row>, _> = scan.items().send().collect().await;
    rows.map_err(Error::of("reading the rows"))
}

/// Writes the unknown attribute to rows, and the newest format to charges. Returns the keys of the rows.
pub(crate) async fn write_as_newer_version(store: &Store) -> Result<Vec<Row>> {
    let rows = all(store)
        .await?
        .into_iter()
        .filter(|row| REPLACED.iter().any(|one| text(row, "pk").starts_with(one)));
    let mut written = Vec::new();
    for row in rows {
        let update = store.client().update_item().table_name(store.table()).set_key(Some(key_of(&row)));
        let is_charge = text(&row, "sk") == "charge";
        let more = if is_charge { ", #format = :newest" } else { "" };
        let mut update = update
            .update_expression(format!("SET #unknown = :kept{more}"))
            .expression_attribute_names("#unknown", UNKNOWN)
            .expression_attribute_values(":kept", AttributeValue::S("kept".to_owned()));
        if is_charge {
            update = update
                .expression_attribute_names("#format", "format")
                .expression_attribute_values(":newest", AttributeValue::N(READ_FORMAT.to_string()));
        }
        update.send().await.map_err(Error::of("writing a row of a newer version"))?;
        written.push(key_of(&row));
    }
    Ok(written)
}

/// Returns the keys of the rows that have lost the unknown attribute. Rows that no longer exist lost nothing.
pub(crate) async fn without_unknown_attribute(store: &Store, written: &[Row]) -> Result<Vec<String>> {
    let rows = all(store).await?;
    let lost = rows.iter().filter(|row| !row.contains_key(UNKNOWN) && written.contains(&key_of(row)));
    Ok(lost.map(|row| format!("{} {}", text(row, "pk"), text(row, "sk"))).collect())
}
