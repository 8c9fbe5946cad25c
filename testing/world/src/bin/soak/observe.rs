//! What the service has not finished, seen from outside: due rows and messages.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use world::http::{Client, items, text};
use world::{Error, Result};

/// The most pages of a scan.
const MAX_PAGES: usize = 100_000;

/// The due rows that are never done: the sweep of each bank connection runs again and again.
const ALWAYS_DUE: &str = "sweep#";

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
}
