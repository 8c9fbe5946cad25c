//! What the local service uses and keeps, seen from outside: memory, CPU time, files, rows, stream records and
//! messages.

use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use hyper::Method;
use serde_json::{Value, json};

use crate::http::Api;
use crate::world::text;
use crate::{Error, Result};

/// The unit of CPU times in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// The most pages of a scan or of a stream.
const MAX_PAGES: usize = 100_000;

/// The most stream records of a request.
const RECORDS: usize = 1_000;

/// What a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// The resident memory in bytes.
    pub memory: u64,
    /// The CPU time since its start.
    pub cpu: Duration,
}

impl Process {
    /// Reads it from `/proc`. `None`: the system has no `/proc`, or the process has ended.
    pub fn read(id: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name of the program, in parentheses, can contain blanks. User and system time are the 12th and the
        // 13th field after it.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().ok());
        let ticks = ticks.sum::<Option<u32>>()?;
        Some(Self { memory: kilobytes.saturating_mul(1024), cpu: TICK.saturating_mul(ticks) })
    }
}

/// The sizes of the files of the service's state, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files {
    /// The database.
    pub database: u64,
    /// The write-ahead log of the database.
    pub log: u64,
    /// The log of the queues.
    pub queues: u64,
    /// The objects of S3.
    pub objects: u64,
    /// All others, such as e-mails.
    pub others: u64,
}

impl Files {
    /// Adds up the files in a state directory.
    pub fn read(directory: &Path) -> Self {
        let size = |name: &str| size_of(&directory.join(name));
        let [database, log, queues, objects] =
            [size("dynamodb.sqlite"), size("dynamodb.sqlite-wal"), size("sqs.log"), size("s3")];
        let known = [database, log, queues, objects].into_iter().fold(0, u64::saturating_add);
        Self { database, log, queues, objects, others: size_of(directory).saturating_sub(known) }
    }

    /// Returns the size of all files.
    pub fn all(&self) -> u64 {
        let Self { database, log, queues, objects, others } = *self;
        [database, log, queues, objects, others].into_iter().fold(0, u64::saturating_add)
    }
}

/// Returns the size of a file, or of all files in a directory. 0: there is none.
fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(std::result::Result::ok);
    entries.map(|entry| size_of(&entry.path())).fold(0, u64::saturating_add)
}

/// The embedded DynamoDB and SQS.
pub struct Stores<'a> {
    /// Sends the requests.
    pub api: &'a Api,
    /// The content of the service's ready file.
    pub ready: &'a Value,
}

/// A key in the due index.
pub struct DueRow {
    /// The partition key of the row.
    pub partition: String,
    /// When it is due, and its key.
    pub due: String,
}

/// The records that a stream keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamRecords {
    /// Their number.
    pub count: u64,
    /// When the oldest one was created, by the machine's clock.
    pub oldest: Option<SystemTime>,
}

impl Stores<'_> {
    async fn dynamodb(&self, operation: &str, request: &Value) -> Result<Value> {
        let interface =
            if operation.contains("Stream") || operation.contains("Record") || operation.contains("Shard") {
                "DynamoDBStreams_20120810"
            } else {
                "DynamoDB_20120810"
            };
        self.call("dynamodb_url", &format!("{interface}.{operation}"), request).await
    }

    async fn call(&self, url: &str, target: &str, request: &Value) -> Result<Value> {
        let headers = [
            ("x-amz-target", target),
            ("content-type", "application/x-amz-json-1.0"),
            // The embedded services accept any signature.
            ("authorization", "AWS4-HMAC-SHA256 Credential=local"),
        ];
        let url = text(self.ready, url);
        match self.api.send_to(Method::POST, &url, &headers, request.to_string()).await {
            Ok(answer) if answer.status == 200 => Ok(answer.body),
            other => Err(Error::new(format!("{target} was answered {other:?}"))),
        }
    }

    fn table(&self) -> String {
        text(self.ready, "table")
    }

    /// Returns the number of rows of the state table.
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer.
    pub async fn rows(&self) -> Result<u64> {
        let table = self.dynamodb("DescribeTable", &json!({"TableName": self.table()})).await?;
        Ok(table.pointer("/Table/ItemCount").and_then(Value::as_u64).unwrap_or_default())
    }

    /// Returns the partition keys of the rows whose time of expiry is before a time (seconds since 1970).
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer.
    pub async fn expired(&self, before: i64) -> Result<Vec<String>> {
        let rows = self.scan(json!({
            "FilterExpression": "#ttl < :before",
            "ProjectionExpression": "pk",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":before": {"N": before.to_string()}},
        }));
        Ok(rows.await?.iter().map(|row| attribute(row, "pk")).collect())
    }

    /// Returns the rows of the due index.
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer.
    pub async fn due(&self) -> Result<Vec<DueRow>> {
        let rows = self.scan(json!({"IndexName": "due"})).await?;
        let row = |row: &Value| DueRow { partition: attribute(row, "pk"), due: attribute(row, "due_sk") };
        Ok(rows.iter().map(row).collect())
    }

    async fn scan(&self, mut request: Value) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        if let Some(fields) = request.as_object_mut() {
            fields.insert("TableName".to_owned(), json!(self.table()));
        }
        for _page in 0..MAX_PAGES {
            let page = self.dynamodb("Scan", &request).await?;
            all.extend(page.get("Items").and_then(Value::as_array).into_iter().flatten().cloned());
            match (page.get("LastEvaluatedKey"), request.as_object_mut()) {
                (Some(last), Some(fields)) => {
                    fields.insert("ExclusiveStartKey".to_owned(), last.clone());
                }
                _ => return Ok(all),
            }
        }
        Err(Error::new("a scan has too many pages"))
    }

    /// Counts the records of the state table's stream.
    ///
    /// # Errors
    ///
    /// When DynamoDB does not answer.
    pub async fn stream_records(&self) -> Result<StreamRecords> {
        let streams = self.dynamodb("ListStreams", &json!({"TableName": self.table()})).await?;
        let stream = streams.pointer("/Streams/0/StreamArn").cloned().unwrap_or_default();
        let described = self.dynamodb("DescribeStream", &json!({"StreamArn": stream})).await?;
        let shard = described.pointer("/StreamDescription/Shards/0/ShardId").cloned().unwrap_or_default();
        let first = json!({"StreamArn": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        let mut iterator = self.dynamodb("GetShardIterator", &first).await?.get("ShardIterator").cloned();
        let mut found = StreamRecords::default();
        for _page in 0..MAX_PAGES {
            let page =
                self.dynamodb("GetRecords", &json!({"ShardIterator": iterator, "Limit": RECORDS})).await?;
            let records =
                page.get("Records").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let Some(oldest) = records.first() else { return Ok(found) };
            found.oldest = found.oldest.or_else(|| created_at(oldest));
            found.count = found.count.saturating_add(u64::try_from(records.len()).unwrap_or(u64::MAX));
            iterator = page.get("NextShardIterator").cloned();
        }
        Err(Error::new("the stream has too many records"))
    }

    /// Returns the number of messages in all queues.
    ///
    /// # Errors
    ///
    /// When SQS does not answer.
    pub async fn messages(&self) -> Result<u64> {
        let queues = self.call("sqs_url", "AmazonSQS.ListQueues", &json!({})).await?;
        let mut messages: u64 = 0;
        for queue in queues.get("QueueUrls").and_then(Value::as_array).into_iter().flatten() {
            let request = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
            let attributes = self.call("sqs_url", "AmazonSQS.GetQueueAttributes", &request).await?;
            let attributes = attributes.get("Attributes").and_then(Value::as_object).into_iter().flatten();
            let counts = attributes.filter(|(name, _)| name.starts_with("ApproximateNumberOfMessages"));
            let counts = counts.filter_map(|(_, count)| count.as_str()?.parse::<u64>().ok());
            messages = counts.fold(messages, u64::saturating_add);
        }
        Ok(messages)
    }
}

fn attribute(row: &Value, name: &str) -> String {
    row.get(name).map(|value| text(value, "S")).unwrap_or_default()
}

fn created_at(record: &Value) -> Option<SystemTime> {
    let seconds = record.pointer("/dynamodb/ApproximateCreationDateTime")?.as_f64()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns a time of the service's clock, such as `2026-11-23T05:19:20.480Z`, in seconds since 1970.
///
/// # Errors
///
/// When it is not a time.
pub fn seconds(time: &str) -> Result<i64> {
    let parsed: DateTime<Utc> = time.parse().map_err(Error::of("reading the time of the service"))?;
    Ok(parsed.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_state_are_added_up_by_kind() {
        let directory = std::env::temp_dir().join(format!("observe-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("s3/bucket")).unwrap();
        std::fs::create_dir_all(directory.join("mail")).unwrap();
        for (name, bytes) in [
            ("dynamodb.sqlite", 7),
            ("dynamodb.sqlite-wal", 5),
            ("sqs.log", 3),
            ("s3/bucket/object", 2),
            ("mail/1.eml", 1),
        ] {
            std::fs::write(directory.join(name), vec![0; bytes]).unwrap();
        }
        let Files { database, log, queues, objects, others } = Files::read(&directory);
        assert_eq!((database, log, queues, objects, others), (7, 5, 3, 2, 1));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_has_memory_and_one_that_ended_has_none() {
        assert!(Process::read(std::process::id()).unwrap().memory > 1_000_000);
        assert!(Process::read(u32::MAX).is_none());
    }
}
