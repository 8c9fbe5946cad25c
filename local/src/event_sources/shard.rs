//! Reads the stream of a table through the API of DynamoDB Streams.

use serde_json::{Value, json};

use crate::embedded::REGION;
use crate::error::{Error, Result};
use crate::wire::{JsonClient, JsonClientError};

const PAGE_SIZE: usize = 1000;

/// The only shard of a table's stream. The embedded DynamoDB never splits a shard.
pub(super) struct Shard {
    stream_arn: String,
    pub(super) id: String,
}

impl Shard {
    pub(super) async fn for_table(
        wire: &JsonClient,
        table: &str,
    ) -> std::result::Result<Self, JsonClientError> {
        let described = wire.call("DynamoDB_20120810.DescribeTable", &json!({ "TableName": table })).await?;
        let text = |value: &Value, pointer: &str| {
            let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| JsonClientError::Failed(format!("the table {table} has no {pointer}")))
        };
        let stream_arn = text(&described, "/Table/LatestStreamArn")?;
        let described =
            wire.call("DynamoDBStreams_20120810.DescribeStream", &json!({ "StreamArn": stream_arn })).await?;
        let id = text(&described, "/StreamDescription/Shards/0/ShardId")?;
        Ok(Self { stream_arn, id })
    }

    /// Returns a shard iterator that starts after the record with the sequence number `after`. `None`: it
    /// starts at the oldest record.
    pub(super) async fn iterator(
        &self,
        wire: &JsonClient,
        after: Option<&str>,
    ) -> std::result::Result<String, JsonClientError> {
        let mut request = json!({
            "StreamArn": self.stream_arn,
            "ShardId": self.id,
            "ShardIteratorType": "TRIM_HORIZON",
        });
        if let (Some(number), Some(fields)) = (after, request.as_object_mut()) {
            fields.insert("ShardIteratorType".to_owned(), "AFTER_SEQUENCE_NUMBER".into());
            fields.insert("SequenceNumber".to_owned(), number.into());
        }
        let response = wire.call("DynamoDBStreams_20120810.GetShardIterator", &request).await?;
        let iterator = response.get("ShardIterator").and_then(Value::as_str);
        iterator.map(str::to_owned).ok_or_else(|| JsonClientError::Failed("no shard iterator".to_owned()))
    }

    /// Reads at most `limit` records, in the form in which Lambda passes them to a function.
    pub(super) async fn records(
        &self,
        wire: &JsonClient,
        iterator: &str,
        limit: usize,
    ) -> std::result::Result<(Vec<Value>, Option<String>), JsonClientError> {
        let request = json!({"ShardIterator": iterator, "Limit": limit});
        let mut response = wire.call("DynamoDBStreams_20120810.GetRecords", &request).await?;
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

/// Reads all records that the stream of a table still contains, in the form in which Lambda passes them to a
/// function. `after`: only those after the record with this sequence number.
pub async fn stream_records(dynamodb_url: &str, table: &str, after: Option<&str>) -> Result<Vec<Value>> {
    let wire = JsonClient::new(dynamodb_url);
    let failed = |e: JsonClientError| Error::because("reading a stream", &e);
    let shard = Shard::for_table(&wire, table).await.map_err(failed)?;
    let mut iterator = shard.iterator(&wire, after).await.map_err(failed)?;
    let mut all = Vec::new();
    loop {
        let (records, next) = shard.records(&wire, &iterator, PAGE_SIZE).await.map_err(failed)?;
        let is_end = records.is_empty();
        all.extend(records);
        match next {
            Some(next) if !is_end => iterator = next,
            _ => return Ok(all),
        }
    }
}
