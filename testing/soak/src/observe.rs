//! What the service uses and keeps, seen from outside: memory, CPU time, files, rows, stream records and messages.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use hyper::Method;
use serde_json::{Value, json};
use soak::http::{Client, items, text};
use soak::{Error, Result, say};

/// The unit of CPU times in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// The most pages of a scan or of a stream.
const MAX_PAGES: usize = 100_000;

/// The most stream records of a request.
const RECORDS: usize = 1_000;

/// How long the service may take to delete what has expired: two of its sweeps, which run each minute.
const SWEEPS: Duration = Duration::from_secs(150);

/// The time between two sweeps of the service, with some seconds for the sweep itself.
const SWEEP: Duration = Duration::from_secs(65);

/// How long the service keeps each stream record by the machine's clock.
const TIME_TO_READ: Duration = Duration::from_mins(5);

/// Memory at the end may be a quarter more than after the first tenth, and this many bytes: the cache of the
/// database has 64 MiB, which may fill later.
const MEMORY_SLACK: u64 = 80 << 20;

/// The files may grow by a quarter more for a charge in the second half than in the first, and by this many bytes:
/// the database grows in steps, when its log is copied.
const GROWTH_SLACK: u64 = 32 << 20;

/// The due rows that are never done: the sweep of each bank connection runs again and again.
const ALWAYS_DUE: &str = "sweep#";

/// The memory in bytes and the CPU time of a process, from `/proc`. `None`: the system has no `/proc`, or the process
/// has ended.
fn usage(id: u32) -> Option<(u64, Duration)> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program, in parentheses, can contain blanks. User and system time are the 12th and the
    // 13th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().ok());
    Some((kilobytes.saturating_mul(1024), TICK.saturating_mul(ticks.sum::<Option<u32>>()?)))
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

/// Returns the duration that `percent` of the durations do not exceed.
pub(crate) fn percentile(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let index = sorted.len().saturating_sub(1).saturating_mul(percent).div_ceil(100);
    sorted.get(index).copied().unwrap_or_default()
}

/// The embedded DynamoDB and SQS.
pub(crate) struct Stores {
    client: Client,
    /// The content of the service's ready file.
    ready: Value,
}

impl Stores {
    pub(crate) fn new(ready: Value) -> Self {
        Self { client: Client::default(), ready }
    }

    async fn call(&self, url: &str, target: &str, request: &Value) -> Result<Value> {
        let headers = [
            ("x-amz-target", target),
            ("content-type", "application/x-amz-json-1.0"),
            // The embedded services accept any signature.
            ("authorization", "AWS4-HMAC-SHA256 Credential=local"),
        ];
        match self.client.send(Method::POST, text(&self.ready, url), &headers, request.to_string()).await {
            Some(answer) if answer.status == 200 => Ok(answer.body),
            other => Err(Error::new(format!("{target} was answered {other:?}"))),
        }
    }

    async fn dynamodb(&self, operation: &str, request: &Value) -> Result<Value> {
        self.call("dynamodb_url", &format!("DynamoDB_20120810.{operation}"), request).await
    }

    async fn streams(&self, operation: &str, request: &Value) -> Result<Value> {
        self.call("dynamodb_url", &format!("DynamoDBStreams_20120810.{operation}"), request).await
    }

    /// Returns the partition keys of the rows whose time of expiry is before a time (seconds since 1970).
    async fn expired(&self, before: i64) -> Result<Vec<String>> {
        let rows = self.scan(json!({
            "FilterExpression": "#ttl < :before",
            "ProjectionExpression": "pk",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":before": {"N": before.to_string()}},
        }));
        Ok(rows.await?.iter().map(|row| text(&row["pk"], "S").to_owned()).collect())
    }

    /// Returns the rows of the due index that can end.
    pub(crate) async fn due(&self) -> Result<Vec<String>> {
        let rows = self.scan(json!({"IndexName": "due"})).await?;
        let rows =
            rows.iter().map(|row| format!("{} at {}", text(&row["pk"], "S"), text(&row["due_sk"], "S")));
        Ok(rows.filter(|row| !row.starts_with(ALWAYS_DUE)).collect())
    }

    async fn scan(&self, mut request: Value) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        request["TableName"] = self.ready["table"].clone();
        for _page in 0..MAX_PAGES {
            let page = self.dynamodb("Scan", &request).await?;
            all.extend_from_slice(items(&page["Items"]));
            if page["LastEvaluatedKey"].is_null() {
                return Ok(all);
            }
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"].clone();
        }
        Err(Error::new("a scan has too many pages"))
    }

    /// Returns the number of records of the state table's stream, and when the oldest one was created by the
    /// machine's clock.
    async fn stream_records(&self) -> Result<(usize, Option<SystemTime>)> {
        let streams = self.streams("ListStreams", &json!({"TableName": self.ready["table"]})).await?;
        let stream = &streams["Streams"][0]["StreamArn"];
        let described = self.streams("DescribeStream", &json!({"StreamArn": stream})).await?;
        let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
        let first = json!({"StreamArn": stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        let mut iterator = self.streams("GetShardIterator", &first).await?["ShardIterator"].clone();
        let (mut number, mut oldest) = (0_usize, None);
        for _page in 0..MAX_PAGES {
            let request = json!({"ShardIterator": iterator, "Limit": RECORDS});
            let page = self.streams("GetRecords", &request).await?;
            let records = items(&page["Records"]);
            let Some(first) = records.first() else { return Ok((number, oldest)) };
            let created = first["dynamodb"]["ApproximateCreationDateTime"].as_f64().unwrap_or_default();
            let created = Duration::try_from_secs_f64(created).unwrap_or_default();
            oldest = oldest.or_else(|| SystemTime::UNIX_EPOCH.checked_add(created));
            number = number.saturating_add(records.len());
            iterator = page["NextShardIterator"].clone();
        }
        Err(Error::new("the stream has too many records"))
    }

    /// Returns the number of messages in all queues.
    pub(crate) async fn messages(&self) -> Result<u64> {
        let queues = self.call("sqs_url", "AmazonSQS.ListQueues", &json!({})).await?;
        let mut messages: u64 = 0;
        for queue in items(&queues["QueueUrls"]) {
            let request = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
            let attributes = self.call("sqs_url", "AmazonSQS.GetQueueAttributes", &request).await?;
            let attributes = attributes["Attributes"].as_object().into_iter().flatten();
            let counts = attributes.filter(|(name, _)| name.starts_with("ApproximateNumberOfMessages"));
            let counts = counts.filter_map(|(_, count)| count.as_str()?.parse::<u64>().ok());
            messages = counts.fold(messages, u64::saturating_add);
        }
        Ok(messages)
    }

    /// Waits until the service has deleted the rows that have expired at a time of its clock, and the stream records
    /// that were created a minute before the last long advance of the clock or earlier, if they are older than some
    /// minutes. Returns what is left.
    pub(crate) async fn not_expired(&self, now: &str, advanced: SystemTime) -> Result<Vec<String>> {
        let now: DateTime<Utc> = now.parse().map_err(Error::of("reading the time of the service"))?;
        let began = Instant::now();
        loop {
            let young = SystemTime::now().checked_sub(TIME_TO_READ).unwrap_or(advanced);
            let kept_from = advanced.min(young).checked_sub(SWEEP).unwrap_or(advanced);
            let expired = self.expired(now.timestamp()).await?;
            let (records, oldest) = self.stream_records().await?;
            let is_trimmed = oldest.is_none_or(|oldest| oldest >= kept_from);
            if (expired.is_empty() && is_trimmed) || began.elapsed() > SWEEPS {
                let waited = began.elapsed().as_secs();
                say(format_args!(
                    "{waited} s later: {} expired rows, {records} stream records",
                    expired.len()
                ));
                let rows = expired
                    .first()
                    .map(|row| format!("{} expired rows are not deleted, such as {row}", expired.len()));
                let old = (!is_trimmed)
                    .then(|| format!("the stream has {records} records, some older than 24 hours"));
                return Ok(rows.into_iter().chain(old).collect());
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    }
}

/// What the service used and kept at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    charges: u64,
    /// In bytes.
    memory: u64,
    files: u64,
}

impl Sample {
    /// Takes a sample, and prints it with the time of the service's clock.
    pub(crate) async fn take(
        stores: &Stores,
        process: u32,
        state: &Path,
        charges: usize,
        now: &str,
    ) -> Result<Self> {
        let (memory, cpu) = usage(process).unwrap_or_default();
        let sample =
            Self { charges: u64::try_from(charges).unwrap_or(u64::MAX), memory, files: size_of(state) };
        let database = size_of(&state.join("dynamodb.sqlite")) >> 20;
        let (memory, files) = (sample.memory >> 20, sample.files >> 20);
        let (due, messages) = (stores.due().await?.len(), stores.messages().await?);
        let (now, cpu) = (now.get(..16).unwrap_or(now), cpu.as_secs());
        say(format_args!(
            "{now}: {charges:>6} charges, {memory:>4} MiB memory, {cpu:>4} s CPU, {database:>4} MiB database, {files:>4} \
             MiB files, {due:>4} due rows, {messages:>4} messages"
        ));
        Ok(sample)
    }
}

/// Compares memory and files at the end with those of the samples of the load. Returns what grew without reason.
pub(crate) fn growth(samples: &[Sample], end: Sample) -> Vec<String> {
    let at = |tenths: usize| samples.get(samples.len().saturating_mul(tenths).div_ceil(10).saturating_sub(1));
    let (Some(first), Some(middle), Some(last)) = (at(1), at(5), at(10)) else { return Vec::new() };
    let mut violations = Vec::new();
    if end.memory > first.memory.saturating_add(first.memory / 4).saturating_add(MEMORY_SLACK) {
        let [end, first] = [end.memory, first.memory].map(|bytes| bytes >> 20);
        violations
            .push(format!("the service has {end} MiB of memory, after the first tenth it had {first} MiB"));
    }
    // Bytes for a thousand charges, so that integers suffice.
    let grown = |from: &Sample, to: &Sample, slack: u64| {
        let bytes = to.files.saturating_sub(from.files).saturating_sub(slack).saturating_mul(1_000);
        bytes.checked_div(to.charges.saturating_sub(from.charges)).unwrap_or_default()
    };
    let (early, late) = (grown(first, middle, 0), grown(middle, last, 0));
    say(format_args!(
        "files grew by {early} bytes for 1,000 charges from the first tenth to the middle, by {late} from there to \
         the end of the load; at the end there are {} bytes for a charge",
        end.files.checked_div(end.charges).unwrap_or_default()
    ));
    if grown(middle, last, GROWTH_SLACK) > early.saturating_add(early / 4) {
        violations.push(format!("files grew by {early}, then by {late} bytes for 1,000 charges"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_a_violation_beyond_a_quarter_and_the_slack() {
        let sample =
            |charges, mebibytes: u64| Sample { charges, memory: mebibytes << 20, files: mebibytes << 20 };
        let samples = |last| (1..=9).map(|n| sample(n * 100, 100 + n)).chain([sample(1_000, last)]).collect();
        let found = |samples: Vec<Sample>, end| growth(&samples, sample(1_000, end));
        assert_eq!(found(samples(110), 200), [""; 0]);
        assert_eq!(found(samples(110), 300).len(), 1);
        assert_eq!(found(samples(200), 200).len(), 1);
    }
}
