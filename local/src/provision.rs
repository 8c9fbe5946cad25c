//! Creates the resources that the template declares: tables with their indexes and streams, queues and
//! buckets. Also deletes their content.
//!
//! Existing resources are not changed, so the state survives a restart. A change of their layout raises
//! `STATE_FORMAT`.

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::Object;
use dynoxide::DynoxideError;
use serde_json::{Value, json};

use crate::embedded::Endpoints;
use crate::embedded::dynamodb::Database;
use crate::error::{Context, Result};
use crate::sdk;
use crate::template::{Queue, Table, Template, bucket_name, queue_url};

pub async fn provision(template: &Template, database: &Database, endpoints: &Endpoints) -> Result<()> {
    template.tables.iter().try_for_each(|table| create_table(database, table))?;
    let queues = async {
        let sqs = sdk::sqs(&endpoints.sqs_url);
        for Queue { logical_id, attributes } in &template.queues {
            let attributes = attributes.iter().map(|(name, value)| (name.as_str().into(), value.clone()));
            let request =
                sqs.create_queue().queue_name(logical_id).set_attributes(Some(attributes.collect()));
            request.send().await.context(format_args!("creating the queue {logical_id}"))?;
        }
        Ok(())
    };
    let buckets = async {
        let s3 = sdk::s3(&endpoints.s3_url);
        for bucket in &template.buckets {
            create_bucket(&s3, &bucket_name(bucket)).await?;
        }
        Ok(())
    };
    tokio::try_join!(queues, buckets).map(|((), ())| ())
}

pub async fn delete(template: &Template, database: &Database, endpoints: &Endpoints) -> Result<()> {
    for Table { logical_id, .. } in &template.tables {
        match database.call("DeleteTable", &json!({ "TableName": logical_id })) {
            Err(DynoxideError::ResourceNotFoundException(_)) => {}
            deleted => drop(deleted.context(format_args!("deleting the table {logical_id}"))?),
        }
    }
    let queues = async {
        let sqs = sdk::sqs(&endpoints.sqs_url);
        for Queue { logical_id, .. } in &template.queues {
            let purged = sqs.purge_queue().queue_url(queue_url(&endpoints.sqs_url, logical_id)).send().await;
            purged.context(format_args!("emptying the queue {logical_id}"))?;
        }
        Ok(())
    };
    let buckets = async {
        let s3 = sdk::s3(&endpoints.s3_url);
        for bucket in &template.buckets {
            let bucket = bucket_name(bucket);
            let doing = format!("emptying the bucket {bucket}");
            let mut pages = s3.list_objects_v2().bucket(&bucket).into_paginator().send();
            while let Some(page) = pages.try_next().await.context(&doing)? {
                for key in page.contents().iter().filter_map(Object::key) {
                    let deleted = s3.delete_object().bucket(&bucket).key(key).send().await;
                    deleted.context(&doing)?;
                }
            }
        }
        Ok(())
    };
    tokio::try_join!(queues, buckets).map(|((), ())| ())
}

/// If the process was killed while it created the table, creates it anew. The time to live is set last, so it shows
/// that a table is whole. A table without one has no indexes: it is whole if it can be read.
fn create_table(database: &Database, table: &Table) -> Result<()> {
    let doing = format!("creating the table {}", table.logical_id);
    let name = json!({"TableName": table.logical_id});
    let probe = if table.ttl_attribute.is_some() { "DescribeTimeToLive" } else { "Scan" };
    match database.call(probe, &name) {
        Err(DynoxideError::ResourceNotFoundException(_)) => {}
        Err(error) if error.to_string().contains("no such table") => {
            database.call("DeleteTable", &name).context(&doing)?;
        }
        described => {
            let described = described.context(&doing)?;
            let status = described.pointer("/TimeToLiveDescription/TimeToLiveStatus");
            if table.ttl_attribute.is_none() || status.and_then(Value::as_str) == Some("ENABLED") {
                return Ok(());
            }
            database.call("DeleteTable", &name).context(&doing)?;
        }
    }
    database.call("CreateTable", &table.create).context(&doing)?;
    let Some(attribute) = &table.ttl_attribute else { return Ok(()) };
    let ttl = json!({
        "TableName": table.logical_id,
        "TimeToLiveSpecification": {"AttributeName": attribute, "Enabled": true},
    });
    database.call("UpdateTimeToLive", &ttl).map(drop).context(&doing)
}

async fn create_bucket(s3: &aws_sdk_s3::Client, bucket: &str) -> Result<()> {
    match s3.create_bucket().bucket(bucket).send().await {
        Err(error) if matches!(error.code(), Some("BucketAlreadyExists" | "BucketAlreadyOwnedByYou")) => {
            Ok(())
        }
        created => created.map(drop).context(format_args!("creating the bucket {bucket}")),
    }
}
