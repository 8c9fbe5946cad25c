//! How a domain object is stored: its primary key, its entries in the secondary indexes and its expiry. This module
//! does no I/O; the store in `shared` writes the rows.

use serde::Serialize;

use crate::time::Timestamp;

/// The state table's primary key.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    /// Returns the partition key and the sort key joined by `#`. The result identifies one row even where several rows
    /// share a partition, so ids derived from a row (events, postings) use it.
    pub fn joined(&self) -> String {
        format!("{}#{}", self.pk, self.sk)
    }
}

/// The row's entries in the sparse secondary indexes. An entry that is added, moved or removed costs one write unit.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// Partition and sort key in `list`, which serves newest-first lists.
    pub list: Option<(String, String)>,
    /// Partition in `list_by_status`. The sort key is that of `list`.
    pub status: Option<String>,
    /// Partition in `list_by_customer`. The sort key is that of `list`.
    pub customer: Option<String>,
    /// Time in `due` at which `scheduler` must process the row. `None`: no work is due.
    pub due: Option<Timestamp>,
}

/// A row of the state table. Its serde form is the stored item.
pub trait Row: Serialize + Send + Sync {
    /// Returns the primary key.
    fn key(&self) -> Key;

    /// Returns the entries in secondary indexes. By default there are none.
    fn indexes(&self) -> Indexes {
        Indexes::default()
    }

    /// Returns when DynamoDB may delete the row (its TTL). `None`: never.
    fn removable_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Formats a time as 15 digits of milliseconds. Such texts sort by time, and 15 digits are enough for the year 9999.
pub fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}
