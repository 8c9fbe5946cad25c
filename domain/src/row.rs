//! How a domain object is stored: its primary key, its entries in the secondary indexes and its expiry. This
//! module does no I/O; the store in `shared` writes the rows.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::time::Timestamp;

/// The newest format of rows that this version of the service reads.
///
/// A change of the rows that an earlier version can't read is a new format. It takes two releases: the first
/// reads the new format, and the second writes it. `admin doctor` checks that all functions read the format
/// that the second release writes.
pub const READ_FORMAT: u64 = 2;

/// The newest format of rows that this version of the service writes. Most rows have the format 1; see
/// [`Row::format`].
pub const WRITTEN_FORMAT: u64 = 2;

/// The attribute with a row's format. A row without it has the format 1.
pub const FORMAT: &str = "format";

/// The state table's primary key.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Key {
    /// Partition key.
    pub pk: String,
    /// Sort key.
    pub sk: String,
}

impl Key {
    /// Returns the partition key and the sort key joined by `#`. The result identifies one row even where
    /// several rows share a partition, so ids derived from a row (events, postings) use it.
    pub fn joined(&self) -> String {
        format!("{}#{}", self.pk, self.sk)
    }
}

/// The row's entries in the sparse secondary indexes. Adding or removing an entry costs one write unit, and
/// moving it costs two. `docs/data-model.md` lists the partitions.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// Partition and sort key in `list`, which lists are read from, newest first.
    pub list: Option<(String, String)>,
    /// Partition in `list_by_status`. The sort key is that of `list`.
    pub status: Option<String>,
    /// Partition in `list_by_customer`. The sort key is that of `list`.
    pub customer: Option<String>,
    /// Partition and sort key in `log`. Both are written with the row and never change, so updates of the row
    /// do not cost another unit.
    pub log: Option<(String, String)>,
    /// Sort key in `due`: the time at which `scheduler` must process the row. `None`: the row needs no
    /// processing.
    pub due: Option<Timestamp>,
}

/// A row of the state table. Its serde form is the stored item.
pub trait Row: Serialize + Send + Sync {
    /// Returns the primary key.
    fn key(&self) -> Key;

    /// Returns the format of the row, at most [`WRITTEN_FORMAT`].
    fn format(&self) -> u64 {
        1
    }

    /// Returns the entries in secondary indexes. By default there are none.
    fn indexes(&self) -> Indexes {
        Indexes::default()
    }

    /// Returns when DynamoDB may delete the row (its TTL). `None`: never.
    fn removable_at(&self) -> Option<Timestamp> {
        None
    }
}

/// A row that can be replaced by a later version of itself.
pub trait Replaceable: Row {
    /// The type that reads the row. Its fields are the attributes that this version of the service knows.
    type Stored: DeserializeOwned;
}

impl<R: Row + DeserializeOwned> Replaceable for R {
    type Stored = Self;
}

/// Formats a time as 15 digits of milliseconds, which are enough for the year 9999. Such texts sort by time.
pub fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}
