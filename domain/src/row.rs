//! How a domain object is stored: its key, its entries in the indexes and its expiry. The store in `shared`
//! does the I/O.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::time::Timestamp;

/// The newest format of rows that this version reads. A change of rows that an earlier version can't read takes
/// two releases: the first reads the new format, the second writes it. `admin doctor` checks that all functions
/// read the format that the second release writes.
pub const READ_FORMAT: u64 = 1;

/// The newest format of rows that this version writes, see [`Row::format`].
pub const WRITTEN_FORMAT: u64 = 1;

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
    /// Both parts joined by `#`. Ids derived from a row (events, postings) use it, because several rows share a
    /// partition.
    pub fn joined(&self) -> String {
        format!("{}#{}", self.pk, self.sk)
    }
}

/// Entries in the sparse indexes (`docs/data-model.md`). Adding or removing one costs a write unit, moving it
/// two.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// Partition and sort key in `list`, which lists are read from, newest first.
    pub list: Option<(String, String)>,
    /// Partition in `list_by_status`. The sort key is that of `list`.
    pub status: Option<String>,
    /// Partition in `list_by_customer`. The sort key is that of `list`.
    pub customer: Option<String>,
    /// Partition and sort key in `log`. Both never change, so updates of the row do not cost another unit.
    pub log: Option<(String, String)>,
    /// When `scheduler` must process the row: the sort key in `due`. `None`: never.
    pub due: Option<Timestamp>,
}

/// A row of the state table. Its serde form is the stored item.
pub trait Row: Serialize + Send + Sync {
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

/// A row that can be replaced by a later version of itself. Its `version` is 1 at creation, and each change adds 1.
pub trait Replaceable: Row {
    /// The type that reads the row. Its fields are the attributes that this version of the service knows.
    type Stored: DeserializeOwned;
}

impl<R: Row + DeserializeOwned> Replaceable for R {
    type Stored = Self;
}

/// Whether a field has the default of its type. Rows and messages omit such a field.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Formats a time as 15 digits of milliseconds, which are enough for the year 9999. Such texts sort by time.
pub fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}
