//! Reads the stream of a table by the operations of DynamoDB Streams.

use serde_json::{Value, json};

use crate::embedded::REGION;
use crate::embedded::dynamodb::Database;
use crate::error::{Context, Error, Result};

const PAGE_SIZE: usize = 1000;

/// The only shard of a table's stream. The embedded DynamoDB never splits a shard.
pub(super) struct Shard {
    stream_arn: String,
    pub(super) id: String,
}

impl Shard {
    pub(super) fn for_table(database: &Database, table: &str) -> Result<Self> {
        let described = call(database, "DescribeTable", &json!({ "TableName": table }))?;
        let stream_arn = text(&described, "/Table/LatestStreamArn")?;
        let described = call(database, "DescribeStream", &json!({ "StreamArn": stream_arn }))?;
        Ok(Self { stream_arn, id: text(&described, "/StreamDescription/Shards/0/ShardId")? })
    }

    /// Returns a shard iterator that starts after the record with the sequence number `after`. `None`: it
    /// starts at the oldest record.
    pub(super) fn iterator(&self, database: &Database, after: Option<&str>) -> Result<String> {
        let mut request = json!({
            "StreamArn": self.stream_arn,
            "ShardId": self.id,
            "ShardIteratorType": "TRIM_HORIZON",
        });
        if let (Some(number), Some(fields)) = (after, request.as_object_mut()) {
            fields.insert("ShardIteratorType".to_owned(), "AFTER_SEQUENCE_NUMBER".into());
            fields.insert("SequenceNumber".to_owned(), number.into());
        }
        text(&call(database, "GetShardIterator", &request)?, "/ShardIterator")
    }

    /// Reads at most `limit` records, in the form in which Lambda passes them to a function.
    pub(super) fn records(
        &self,
        database: &Database,
        iterator: &str,
        limit: usize,
    ) -> Result<(Vec<Value>, Option<String>)> {
        let request = json!({"ShardIterator": iterator, "Limit": limit});
        let mut response = call(database, "GetRecords", &request)?;
        let next = response.get("NextShardIterator").and_then(Value::as_str).map(str::to_owned);
        let records = match response.get_mut("Records").map(Value::take) {
            Some(Value::Array(records)) => records,
            _ => Vec::new(),
        };
        Ok((records.into_iter().map(|record| self.lambda_record(record)).collect(), next))
    }

    fn lambda_record(&self, mut record: Value) -> Value {
        if let Some(fields) = record.as_object_mut() {
            fields.insert("eventSource".to_owned(), "aws:dynamodb".into());
            fields.insert("eventSourceARN".to_owned(), self.stream_arn.clone().into());
            fields.insert("awsRegion".to_owned(), REGION.into());
            fields.entry("eventVersion").or_insert_with(|| "1.1".into());
        }
        record
    }
}

pub fn sequence_number(record: &Value) -> Option<&str> {
    record.pointer("/dynamodb/SequenceNumber")?.as_str()
}

fn call(database: &Database, operation: &str, request: &Value) -> Result<Value> {
    database.call(operation, request).context("reading a stream")
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| Error::new(format!("reading a stream: there is no {pointer}")))
}

/// Reads all records that the stream of a table still contains, in the form in which Lambda passes them to a
/// function. `after`: only those after the record with this sequence number.
pub fn stream_records(database: &Database, table: &str, after: Option<&str>) -> Result<Vec<Value>> {
    let shard = Shard::for_table(database, table)?;
    let mut iterator = shard.iterator(database, after)?;
    let mut all = Vec::new();
    loop {
        let (records, next) = shard.records(database, &iterator, PAGE_SIZE)?;
        let is_end = records.is_empty();
        all.extend(records);
        match next {
            Some(next) if !is_end => iterator = next,
            _ => return Ok(all),
        }
    }
}
