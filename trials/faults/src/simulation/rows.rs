//! Rows as other versions of the service write them. A deployment leaves rows of the version before it, and
//! may be rolled back after a newer version has written some.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
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
pub(super) async fn write_as_newer_version(store: &Store) -> Result<Vec<Row>> {
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
                .expression_attribute_values(":newest", AttributeValue::N("2".to_owned()));
        }
        update.send().await.map_err(Error::of("writing a row of a newer version"))?;
        written.push(key_of(&row));
    }
    Ok(written)
}

/// Returns the keys of the rows that have lost the unknown attribute. Rows that no longer exist lost nothing.
pub(super) async fn without_unknown_attribute(store: &Store, written: &[Row]) -> Result<Vec<String>> {
    let rows = all(store).await?;
    let lost = rows.iter().filter(|row| !row.contains_key(UNKNOWN) && written.contains(&key_of(row)));
    Ok(lost.map(|row| format!("{} {}", text(row, "pk"), text(row, "sk"))).collect())
}

/// Gives rows the layouts of earlier versions: deliveries and incoming payments in the partition of their
/// account, entries of the due index in the first partition of their shard, and the secrets of endpoints in
/// their rows. Returns how many rows changed.
pub(super) async fn write_as_former_version(state: &Store, secrets: &Store) -> Result<usize> {
    let mut written: usize = 0;
    let secrets_before = all(secrets).await?;
    for row in all(state).await? {
        let (pk, sk) = (text(&row, "pk").to_owned(), text(&row, "sk").to_owned());
        let mut former = row.clone();
        let mut removed = Vec::new();
        if let Some(scope) =
            pk.strip_prefix("delivery#").and_then(|rest| rest.strip_suffix(&format!("#{sk}")))
        {
            former.retain(|name, _| !name.starts_with("log_"));
            former.insert("pk".to_owned(), AttributeValue::S(format!("deliveries#{scope}")));
        } else if pk.starts_with("receipts#") && pk.split('#').count() == 3 {
            let (whole, _) = pk.rsplit_once('#').unwrap_or_default();
            former.remove("shard");
            former.insert("pk".to_owned(), AttributeValue::S(whole.to_owned()));
        } else if let Some(scope) = pk.strip_prefix("endpoints#") {
            let partition = format!("endpoint-secret#{scope}");
            let secret =
                secrets_before.iter().find(|one| text(one, "pk") == partition && text(one, "sk") == sk);
            if let Some(secret) = secret {
                former.remove("secret_version");
                // No audit row is derived from this write.
                former.remove("actor");
                former.insert("secret".to_owned(), AttributeValue::S(text(secret, "secret").to_owned()));
                removed.push((secrets, key_of(secret)));
            }
        }
        // An earlier version does not know where the row of a held payment is.
        if let Some(AttributeValue::M(applied)) = former.get_mut("receipt") {
            applied.remove("shard");
        }
        if let [due, shard, _] = text(&row, "due_pk").split('#').collect::<Vec<_>>().as_slice() {
            former.insert("due_pk".to_owned(), AttributeValue::S(format!("{due}#{shard}")));
        }
        if former == row {
            continue;
        }
        if text(&former, "pk") != pk {
            removed.push((state, key_of(&row)));
        }
        let put = Put::builder().table_name(state.table()).set_item(Some(former)).build();
        let put = put.map_err(Error::of("writing a row of an earlier version"))?;
        let mut writes = vec![TransactWriteItem::builder().put(put).build()];
        for (store, key) in removed {
            let delete = Delete::builder().table_name(store.table()).set_key(Some(key)).build();
            let delete = delete.map_err(Error::of("removing a row of this version"))?;
            writes.push(TransactWriteItem::builder().delete(delete).build());
        }
        let write = state.client().transact_write_items().set_transact_items(Some(writes));
        write.send().await.map_err(Error::of("writing a row of an earlier version"))?;
        written = written.saturating_add(1);
    }
    Ok(written)
}
