//! The records of a stream that were read and are not processed yet, in lanes.
//!
//! Lambda processes several batches of a shard at a time (`ParallelizationFactor`) and keeps the changes of each
//! row in order. So all records of a row are in one lane, and each lane has at most one running invocation. A
//! record that is retried only delays the later records of its lane.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::shard::sequence_number;

/// The records that were read from a stream, up to those that are processed in order.
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// The sequence numbers after the checkpoint, in the order of the stream.
    read: VecDeque<String>,
    done: HashSet<String>,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Value>,
    is_busy: bool,
}

pub(super) struct LaneBatch {
    pub(super) lane: usize,
    pub(super) records: Vec<Value>,
}

impl Lanes {
    pub(super) fn new(count: usize) -> Self {
        let all = (0..count.max(1)).map(|_| Lane::default()).collect();
        Self { all, read: VecDeque::new(), done: HashSet::new() }
    }

    /// Returns the number of records after the checkpoint.
    pub(super) fn len(&self) -> usize {
        self.read.len()
    }

    pub(super) fn push(&mut self, record: Value, is_selected: bool) {
        let number = sequence_number(&record).unwrap_or_default().to_owned();
        self.read.push_back(number.clone());
        if !is_selected {
            self.done.insert(number);
            return;
        }
        let mut hasher = DefaultHasher::new();
        record.pointer("/dynamodb/Keys").map(Value::to_string).hash(&mut hasher);
        let index = usize::try_from(hasher.finish()).unwrap_or_default().checked_rem(self.all.len());
        if let Some(lane) = index.and_then(|index| self.all.get_mut(index)) {
            lane.waiting.push_back(record);
        }
    }

    /// Takes at most `batch_size` records of each lane that is not busy. Such a lane is busy until
    /// [`Self::ended`].
    pub(super) fn take(&mut self, batch_size: usize) -> Vec<LaneBatch> {
        let mut batches = Vec::new();
        for (number, lane) in self.all.iter_mut().enumerate() {
            if lane.is_busy || lane.waiting.is_empty() {
                continue;
            }
            let count = lane.waiting.len().min(batch_size);
            lane.is_busy = true;
            batches.push(LaneBatch { lane: number, records: lane.waiting.drain(..count).collect() });
        }
        batches
    }

    pub(super) fn ended(&mut self, lane: usize, numbers: Vec<String>) {
        self.done.extend(numbers);
        if let Some(lane) = self.all.get_mut(lane) {
            lane.is_busy = false;
        }
    }

    pub(super) fn checkpoint(&mut self) -> Option<String> {
        let mut reached = None;
        while self.read.front().is_some_and(|number| self.done.remove(number)) {
            reached = self.read.pop_front();
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(row: &str, number: usize) -> Value {
        json!({"dynamodb": {"Keys": {"pk": {"S": row}}, "SequenceNumber": number.to_string()}})
    }

    fn numbers(batch: &LaneBatch) -> Vec<String> {
        batch.records.iter().filter_map(sequence_number).map(str::to_owned).collect()
    }

    #[test]
    fn a_row_has_one_running_batch_and_its_changes_stay_in_order() {
        let mut lanes = Lanes::new(10);
        for number in 0..4 {
            lanes.push(record("a", number), true);
        }
        let batches = lanes.take(2);
        assert_eq!(batches.iter().map(numbers).collect::<Vec<_>>(), [["0", "1"]]);
        assert!(lanes.take(2).is_empty(), "the lane is busy");
        lanes.ended(batches[0].lane, numbers(&batches[0]));
        assert_eq!(lanes.take(2).iter().map(numbers).collect::<Vec<_>>(), [["2", "3"]]);
    }

    #[test]
    fn rows_are_processed_in_all_lanes_at_a_time() {
        let mut lanes = Lanes::new(10);
        for number in 0..1_000 {
            lanes.push(record(&number.to_string(), number), true);
        }
        let batches = lanes.take(1_000);
        assert_eq!(batches.len(), 10);
        assert!(batches.iter().all(|batch| (50..200).contains(&batch.records.len())));
    }

    #[test]
    fn the_checkpoint_is_before_the_first_record_that_is_not_processed() {
        let mut lanes = Lanes::new(1);
        lanes.push(record("filtered out", 0), false);
        assert_eq!(lanes.checkpoint(), Some("0".to_owned()));
        for number in 1..=3 {
            lanes.push(record("a", number), true);
        }
        let batch = lanes.take(2).remove(0);
        lanes.ended(batch.lane, vec!["2".to_owned()]);
        assert_eq!((lanes.checkpoint(), lanes.len()), (None, 3), "record 1 is not processed");
        lanes.ended(batch.lane, vec!["1".to_owned()]);
        assert_eq!((lanes.checkpoint(), lanes.len()), (Some("2".to_owned()), 1));
    }
}
