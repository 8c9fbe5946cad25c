//! Throttles requests to hot partitions, as DynamoDB does with on-demand tables.
//!
//! DynamoDB serves a partition key at most 1,000 write units and 3,000 read units a second, in a table and in
//! each index on its own. A write whose index entry is in a hot partition of an index is throttled as a whole.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html>
//!
//! This imitation counts in whole periods. It has no burst capacity, and it never splits a hot partition.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::error_type;
use super::partitions::PartitionUnits;
use crate::embedded::{ACCOUNT, REGION};

/// DynamoDB's messages for on-demand tables:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html>
const TABLE_MESSAGE: &str = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly. If exceptions persist, check if you have a hot key: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html";
const INDEX_MESSAGE: &str = "Throughput exceeds the current capacity for one or more global secondary indexes. DynamoDB is automatically scaling your index so please try again shortly.";

const MANY_PARTITIONS: usize = 10_000;

/// The most units of one partition key in a period, in a table or an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Write units.
    pub write: f64,
    /// Read units.
    pub read: f64,
    /// The period: a second on AWS. Tests take a longer one, so that the speed of the machine does not matter.
    pub period: Duration,
}

impl Ceiling {
    pub const AWS: Self = Self { write: 1_000.0, read: 3_000.0, period: Duration::from_secs(1) };

    /// A ceiling of `write` units a second, with DynamoDB's proportion of reads to writes.
    pub fn of_writes(write: u16) -> Self {
        let write = f64::from(write);
        Self { write, read: write * Self::AWS.read / Self::AWS.write, ..Self::AWS }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Access {
    Read,
    Write,
}

/// The units of each partition in its current period.
#[derive(Debug)]
pub(super) struct Throttle {
    ceiling: Ceiling,
    used: HashMap<(Access, String, String), Used>,
    throttled: usize,
}

#[derive(Debug)]
struct Used {
    since: Instant,
    units: f64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    row: usize,
    resource: String,
    access: Access,
}

impl Throttle {
    pub(super) fn new(ceiling: Ceiling) -> Self {
        Self { ceiling, used: HashMap::new(), throttled: 0 }
    }

    pub(super) fn throttled(&self) -> usize {
        self.throttled
    }

    /// Checks that the partitions have the units of a request left, row by row. If not, returns the rows that are
    /// refused.
    pub(super) fn admit(
        &mut self,
        access: Access,
        rows: &[Vec<PartitionUnits>],
        now: Instant,
    ) -> Result<(), Vec<Refused>> {
        if self.used.len() > MANY_PARTITIONS {
            self.used.retain(|_, used| now.saturating_duration_since(used.since) < self.ceiling.period);
        }
        let limit = match access {
            Access::Read => self.ceiling.read,
            Access::Write => self.ceiling.write,
        };
        let mut requested: HashMap<(&str, &str), f64> = HashMap::new();
        for units in rows.iter().flatten() {
            *requested.entry((&units.resource, &units.partition)).or_default() += units.units;
        }
        let mut refused = Vec::new();
        for (row, units) in rows.iter().enumerate() {
            let hot = units.iter().find(|units| {
                let used = self.used(access, units, now).units;
                let requested = requested.get(&(units.resource.as_str(), units.partition.as_str()));
                // A request that alone exceeds the limit is admitted when the partition is idle.
                used > 0.0 && used + requested.copied().unwrap_or_default() > limit
            });
            if let Some(hot) = hot {
                refused.push(Refused { row, resource: hot.resource.clone(), access });
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        self.throttled = self.throttled.saturating_add(1);
        Err(refused)
    }

    /// Adds the units that a request consumed.
    pub(super) fn consume(&mut self, access: Access, consumed: &[PartitionUnits], now: Instant) {
        for units in consumed {
            self.used(access, units, now).units += units.units;
        }
    }

    fn used(&mut self, access: Access, units: &PartitionUnits, now: Instant) -> &mut Used {
        let key = (access, units.resource.clone(), units.partition.clone());
        let used = self.used.entry(key).or_insert(Used { since: now, units: 0.0 });
        if now.saturating_duration_since(used.since) >= self.ceiling.period {
            *used = Used { since: now, units: 0.0 };
        }
        used
    }
}

/// `rows` is the number of rows of a transaction; `None`: the request is no transaction.
pub(super) fn response(refused: &[Refused], rows: Option<usize>) -> (StatusCode, Bytes) {
    let message = |refused: &Refused| {
        if refused.resource.contains("/index/") { INDEX_MESSAGE } else { TABLE_MESSAGE }
    };
    let error = if let Some(rows) = rows {
        let reason = |row: usize| match refused.iter().find(|refused| refused.row == row) {
            Some(refused) => json!({"Code": "ThrottlingError", "Message": message(refused)}),
            None => json!({"Code": "None"}),
        };
        let reasons: Vec<Value> = (0..rows).map(reason).collect();
        let codes: Vec<&str> = reasons.iter().filter_map(|reason| reason.get("Code")?.as_str()).collect();
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        );
        json!({"__type": error_type("TransactionCanceledException"), "message": message, "Message": message,
               "CancellationReasons": reasons})
    } else {
        json!({"__type": error_type("ThrottlingException"), "message": refused.first().map(message),
               "throttlingReasons": refused.iter().map(throttling_reason).collect::<Vec<_>>()})
    };
    (StatusCode::BAD_REQUEST, error.to_string().into())
}

/// Returns the resource and the reason of a throttled row:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html>
fn throttling_reason(refused: &Refused) -> Value {
    let kind = if refused.resource.contains("/index/") { "Index" } else { "Table" };
    let access = match refused.access {
        Access::Read => "Read",
        Access::Write => "Write",
    };
    json!({
        "reason": format!("{kind}{access}KeyRangeThroughputExceeded"),
        "resource": format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{}", refused.resource),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_accepts_units_up_to_its_ceiling_in_each_period() {
        let period = Duration::from_secs(1);
        let mut throttle = Throttle::new(Ceiling { write: 3.0, read: 9.0, period });
        let start = Instant::now();
        let of = |partition: &str, units: f64| PartitionUnits {
            resource: "T".to_owned(),
            partition: partition.to_owned(),
            sort: String::new(),
            units,
        };
        let mut admits = |access, rows: &[Vec<PartitionUnits>], now| {
            let is_admitted = throttle.admit(access, rows, now).is_ok();
            if is_admitted {
                throttle.consume(access, &rows.concat(), now);
            }
            is_admitted
        };
        let write = Access::Write;
        assert!(admits(write, &[vec![of("a", 2.0)]], start));
        let two_rows = [vec![of("b", 1.0), of("a", 1.0)], vec![of("a", 1.0)]];
        assert!(!admits(write, &two_rows, start), "the rows of a request count together");
        assert!(admits(write, &[vec![of("b", 3.0)]], start), "a throttled request consumes nothing");
        assert!(admits(Access::Read, &[vec![of("a", 9.0)]], start), "reads have a ceiling of their own");
        assert!(admits(write, &[vec![of("a", 1.0)]], start));
        assert!(!admits(write, &[vec![of("a", 1.0)]], start));
        assert!(admits(write, &[vec![of("a", 5.0)]], start + period), "the next period has begun");
        assert_eq!(throttle.throttled(), 2);
    }
}
