//! The hash chain of an account's audit rows, and its verification. Each row has a sequence number without
//! gaps, the hash of the row before it (`previous`) and its own hash, so a change, removal, insertion or
//! exchange of rows breaks the chain. The removal of the newest rows can be found only by a [`Head`] that was
//! noted earlier elsewhere.
//!
//! The hash of a row is the SHA-256 of all its other attributes, except `put_id`, as JSON with sorted names and
//! no spaces (RFC 8785). `previous` of the first row is the SHA-256 of the partition key, `audit#<account>`.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Audit, partition};
use crate::hex;
use crate::ids::{AccountId, AuditId};
use crate::row::Key;
use crate::time::Timestamp;

/// The attribute with a row's hash.
pub const HASH: &str = "hash";

const NOT_HASHED: [&str; 2] = [HASH, "put_id"];

/// The lowest and the highest sort key of the rows of a chain.
pub const SORT_KEYS: (&str, &str) = ("seq_", "seq_~");

const DIGITS: usize = 20;

/// The attributes of a stored row, by name.
pub type Attributes = BTreeMap<String, Value>;

/// The place of an audit row in the chain of its account.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Link {
    /// The number of the row in the chain. The first row has the number 1.
    pub sequence: u64,
    /// The time at which the row was written, which is not before the action.
    #[serde(with = "domain::time::millis")]
    pub written_at: Timestamp,
    /// The hash of the row before this one, as 64 hex digits.
    pub previous: String,
    /// The hash of this row, as 64 hex digits.
    pub hash: String,
}

/// The newest row of a chain.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Head {
    /// The row's sequence number. 0: the chain has no rows.
    pub sequence: u64,
    /// The row's hash, as 64 hex digits.
    pub hash: String,
}

impl Head {
    /// Returns the head of an account's chain without rows.
    pub fn of_empty_chain(account: &AccountId) -> Self {
        Self { sequence: 0, hash: hex::encode(Sha256::digest(partition(account))) }
    }
}

/// Returns the key of the row of a chain with this sequence number.
pub fn key_of(account: &AccountId, sequence: u64) -> Key {
    Key { pk: partition(account), sk: format!("seq_{sequence:0DIGITS$}") }
}

/// Returns the sequence number in a sort key. `None`: the sort key is not one of a chain's rows.
pub fn sequence_of(sort_key: &str) -> Option<u64> {
    let digits = sort_key.strip_prefix("seq_")?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the hash of a row, as 64 hex digits.
pub fn hash_of(attributes: &Attributes) -> String {
    let hashed = attributes.iter().filter(|(name, _)| !NOT_HASHED.contains(&name.as_str()));
    let hashed: Value = hashed.map(|(name, value)| (name.clone(), value.clone())).collect();
    hex::encode(Sha256::digest(hashed.to_string()))
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChainFault {
    #[error("the rows {from} to {to} are missing")]
    Missing { from: u64, to: u64 },
    #[error("the row {0} was changed: its hash is not that of its attributes")]
    Changed(u64),
    #[error("the row {0} does not contain the hash of the row before it: one of the two was replaced")]
    Unlinked(u64),
    #[error("the row {sequence} repeats the id of the row {first}")]
    Repeated { sequence: u64, first: u64 },
    #[error("the row {sort_key} is not an audit row: {reason}")]
    Malformed { sort_key: String, reason: String },
    #[error(
        "the chain ends at the row {found}, but the row {expected} was seen earlier: the newest rows were removed"
    )]
    Cut { found: u64, expected: u64 },
    #[error("the row {0} has another hash than the one that was seen earlier: the chain was rewritten")]
    Rewritten(u64),
}

/// The result of the verification of a chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChainReport {
    pub account: AccountId,
    pub head: Head,
    pub rows: u64,
    /// The faults, in the order of the rows.
    pub faults: Vec<ChainFault>,
}

/// Verifies the rows of an account, which are passed to it in the order of their sort keys.
#[derive(Debug)]
pub struct ChainCheck {
    report: ChainReport,
    expected: Option<Head>,
    sequences: HashMap<AuditId, u64>,
}

impl ChainCheck {
    /// Starts a verification. `expected`: the head of an earlier verification, which the chain must contain.
    pub fn new(account: AccountId, expected: Option<Head>) -> Self {
        let head = Head::of_empty_chain(&account);
        let report = ChainReport { account, head, rows: 0, faults: Vec::new() };
        Self { report, expected, sequences: HashMap::new() }
    }

    /// Checks the next row.
    pub fn add(&mut self, sort_key: &str, attributes: &Attributes) {
        let Some(sequence) = sequence_of(sort_key) else {
            return self.add_malformed(sort_key, "its sort key is not one of the chain".to_owned());
        };
        self.check_link(sequence, attributes);
        match serde_json::from_value::<Audit>(attributes.clone().into_iter().collect()) {
            Ok(audit) => self.check_content(sequence, &audit),
            Err(error) => self.add_malformed(sort_key, error.to_string()),
        }
    }

    /// Adds a fault for a row that is not an audit row.
    pub fn add_malformed(&mut self, sort_key: &str, reason: String) {
        self.report.faults.push(ChainFault::Malformed { sort_key: sort_key.to_owned(), reason });
    }

    fn check_link(&mut self, sequence: u64, attributes: &Attributes) {
        let text = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
        let head = Head { sequence, hash: text(HASH).to_owned() };
        let next = self.report.head.sequence.saturating_add(1);
        let faults = &mut self.report.faults;
        if sequence > next {
            faults.push(ChainFault::Missing { from: next, to: sequence.saturating_sub(1) });
        } else if text("previous") != self.report.head.hash {
            faults.push(ChainFault::Unlinked(sequence));
        }
        if hash_of(attributes) != head.hash {
            faults.push(ChainFault::Changed(sequence));
        }
        if self.expected.as_ref().is_some_and(|seen| seen.sequence == sequence && seen.hash != head.hash) {
            faults.push(ChainFault::Rewritten(sequence));
        }
        self.report.head = head;
        self.report.rows = self.report.rows.saturating_add(1);
    }

    fn check_content(&mut self, sequence: u64, audit: &Audit) {
        if let Some(first) = self.sequences.insert(audit.id, sequence) {
            self.report.faults.push(ChainFault::Repeated { sequence, first });
        }
        if audit.link.is_none() {
            let Key { sk, .. } = key_of(&self.report.account, sequence);
            self.add_malformed(&sk, "it has no place in the chain".to_owned());
        }
    }

    pub fn finish(mut self) -> ChainReport {
        let found = self.report.head.sequence;
        let cut = self.expected.map(|seen| seen.sequence).filter(|expected| *expected > found);
        self.report.faults.extend(cut.map(|expected| ChainFault::Cut { found, expected }));
        self.report
    }
}

#[cfg(test)]
mod tests;
