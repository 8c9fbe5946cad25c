//! Throttles writes to hot partitions, as DynamoDB does with on-demand tables.
//!
//! DynamoDB serves a partition key at most 1,000 write units a second, in a table and in each index on its own. A
//! write whose index entry is in a hot partition of an index is throttled as a whole.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html>
//!
//! This imitation counts in whole periods, and admits the write that exceeds the ceiling, since its units are known
//! only after it. It has no burst capacity, it never splits a hot partition, and it does not throttle reads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use local::embedded::{ACCOUNT, REGION};
use serde_json::{Value, json};

use super::KeyUnits;
use crate::fault::{Fault, aws_error, dynamodb_error};

/// After this many write units of one partition key in a period, in a table or an index, further writes are throttled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    pub write: f64,
    /// The period: a second on AWS. Tests take a longer one, so that the speed of the machine does not matter.
    pub period: Duration,
}

impl Ceiling {
    /// A ceiling of `write` units a second.
    pub fn of_writes(write: u16) -> Self {
        Self { write: f64::from(write), period: Duration::from_secs(1) }
    }
}

/// The units of each partition in its current period.
#[derive(Default)]
pub(super) struct Throttle {
    /// By resource and partition key: the beginning of the period, and the units.
    used: HashMap<(String, String), (Instant, f64)>,
    pub(super) throttled: usize,
}

impl Throttle {
    /// Returns the table or index that throttles a write, given whether the write names a resource and its partition.
    /// `None`: the write is admitted.
    pub(super) fn refuse(&mut self, ceiling: Ceiling, names: impl Fn(&str, &str) -> bool) -> Option<String> {
        self.used.retain(|_, (since, _)| since.elapsed() < ceiling.period);
        let mut hot = self.used.iter().filter(|(_, (_, units))| *units >= ceiling.write);
        let ((resource, _), _) = hot.find(|((resource, partition), _)| names(resource, partition))?;
        self.throttled = self.throttled.saturating_add(1);
        Some(resource.clone())
    }

    /// Adds the units that a write since then consumed.
    pub(super) fn consume(&mut self, consumed: &[KeyUnits], since: Instant) {
        for KeyUnits { resource, partition, units, .. } in consumed {
            self.used.entry((resource.clone(), partition.clone())).or_insert((since, 0.0)).1 += units;
        }
    }
}

/// Names the resource and the reason, as
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html>
pub(super) fn response(resource: &str, request: &Value) -> (StatusCode, Value) {
    if request.get("TransactItems").is_some() {
        return dynamodb_error(Fault::Throttled, request);
    }
    let kind = if resource.contains("/index/") { "Index" } else { "Table" };
    let reason = json!({
        "reason": format!("{kind}WriteKeyRangeThroughputExceeded"),
        "resource": format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{resource}"),
    });
    let mut error = aws_error("ThrottlingException");
    error["throttlingReasons"] = json!([reason]);
    (StatusCode::BAD_REQUEST, error)
}
