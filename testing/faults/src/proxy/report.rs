//! The proxy's report about the requests that passed through it.

use std::collections::BTreeMap;
use std::time::Instant;

use super::capacity::Units;
use super::partitions::PartitionUnits;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub operations: BTreeMap<String, usize>,
    /// The maximum number of requests of which no two overlapped in time.
    pub sequential_requests: usize,
    /// Write capacity units of tables and indexes. A transaction costs twice the units of a single write.
    pub write_units: f64,
    /// Read capacity units.
    pub read_units: f64,
    /// The write units of each row and index entry, if the proxy counts partitions
    /// ([`super::FaultProxy::count_partitions`]).
    pub units_by_key: Vec<KeyUnits>,
}

/// The write units of a row, or of its entry in an index, by one request.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyUnits {
    /// Empty: the caller is no function.
    pub caller: String,
    pub operation: String,
    /// The row or entry, and its units.
    pub written: PartitionUnits,
}

impl Report {
    pub fn requests(&self) -> usize {
        self.operations.values().sum()
    }

    pub(super) fn from_requests(requests: &[RequestRecord]) -> Self {
        let mut report = Self { sequential_requests: longest_chain(requests), ..Self::default() };
        for request in requests {
            let count = report.operations.entry(request.operation.clone()).or_default();
            *count = count.saturating_add(1);
            report.write_units += request.units.write;
            report.read_units += request.units.read;
            report.units_by_key.extend(request.partitions.iter().map(|written| KeyUnits {
                caller: request.caller.clone(),
                operation: request.operation.clone(),
                written: written.clone(),
            }));
        }
        report
    }
}

#[derive(Debug)]
pub(super) struct RequestRecord {
    pub(super) caller: String,
    pub(super) operation: String,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) units: Units,
    pub(super) partitions: Vec<PartitionUnits>,
}

/// Returns the maximum number of requests of which no two overlap. The algorithm is greedy: it repeatedly
/// counts the request that ends first among those that begin after the last counted request.
pub(super) fn longest_chain(requests: &[RequestRecord]) -> usize {
    let mut by_end: Vec<&RequestRecord> = requests.iter().collect();
    by_end.sort_by_key(|request| request.ended);
    let mut chain: usize = 0;
    let mut last_end: Option<Instant> = None;
    for request in by_end {
        if last_end.is_none_or(|last_end| request.began >= last_end) {
            chain = chain.saturating_add(1);
            last_end = Some(request.ended);
        }
    }
    chain
}
