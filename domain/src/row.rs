//! What a noun is stored as: its key, its places in the indexes, and when it may be removed. No I/O: the store writes it.

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
    /// Both halves as one text, which names the row: what is derived from a row whose partition holds others is derived
    /// from it.
    pub fn whole(&self) -> String {
        format!("{}#{}", self.pk, self.sk)
    }
}

/// The sparse indexes that a row appears in; each costs a write unit when the row enters, moves or leaves.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// `list` (partition, sort): newest-first lists.
    pub list: Option<(String, String)>,
    /// `list_by_status`: the partition; its sort key is the list's.
    pub status: Option<String>,
    /// `list_by_customer`: the partition; its sort key is the list's.
    pub customer: Option<String>,
    /// `due`: when `scheduler` must look at the row.
    pub due: Option<Timestamp>,
}

/// A row of the state table, as it is written.
pub trait Row: Serialize + Send + Sync {
    /// Where the row lives.
    fn key(&self) -> Key;

    /// The indexes that it appears in.
    fn indexes(&self) -> Indexes {
        Indexes::default()
    }

    /// When DynamoDB may remove it.
    fn removable_at(&self) -> Option<Timestamp> {
        None
    }
}

/// A time as 15 digits of milliseconds, enough for the year 9999: text that sorts as the time does.
pub fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}
