//! The writes of a commit, and the outcomes of inserts and commits.

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};

use domain::audit::Audit;
use domain::row::{Key, Replaceable, Row};

use super::attributes::names_of;
use super::item::{ADDED_ATTRIBUTES, KEY_ATTRIBUTES, number};
use super::{Item, RowUpdate, StoreError, to_item};

/// The attribute with a random id that each single insert and replacement adds to its row. If the response to
/// a write is lost, the SDK retries it, and the retry finds an existing or newer row. By this id the caller
/// knows whether the row is its own or an equal row of another caller. Rows written by a transaction have no
/// such id, because DynamoDB recognises a repeated transaction by its client token.
pub(super) const PUT_ID: &str = "put_id";

#[derive(Debug)]
pub enum Inserted<R> {
    New,
    /// A row with this key already exists; it was not changed.
    Existing(R),
}

/// A write of one row, as part of a commit. Most writes have a condition. If the condition of one write
/// fails, the commit writes nothing and returns [`CommitOutcome::Conflict`].
///
/// A write concerns the table of the store that commits it. [`Write::in_table`] directs it to another table,
/// so that one transaction can write rows of several tables.
#[derive(Clone, Debug)]
pub struct Write {
    pub(super) change: WriteKind,
    /// The other table. `None`: the store's table.
    pub(super) table: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum WriteKind {
    Insert { item: Item },
    Replace(Replacement),
    Update(Box<RowUpdate>),
    Delete(Box<RowUpdate>),
    Check(Box<RowUpdate>),
    Audit(Box<Audit>),
}

#[derive(Clone, Debug)]
pub(super) struct Replacement {
    /// The attributes of the new row, with its primary key.
    pub(super) item: Item,
    /// The attributes that this version of the service knows and the new row lacks.
    absent: Vec<&'static str>,
    /// The version that the stored row must have.
    version: u64,
}

impl From<WriteKind> for Write {
    fn from(change: WriteKind) -> Self {
        Self { change, table: None }
    }
}

impl Write {
    #[must_use]
    pub fn in_table(self, table: &str) -> Self {
        Self { table: Some(table.to_owned()), ..self }
    }

    /// Inserts a row. Condition: no row has this key.
    pub fn insert<R: Row>(row: &R) -> Result<Self, StoreError> {
        Ok(WriteKind::Insert { item: to_item(row)? }.into())
    }

    /// Appends an audit row to its account's chain. The row is written to the store's table. A commit can
    /// append one row to each chain. If another caller appends a row first, the commit is retried.
    pub fn audit(audit: &Audit) -> Self {
        WriteKind::Audit(Box::new(audit.clone())).into()
    }

    /// Replaces a row. Condition: the stored row's `version` attribute is `version`.
    ///
    /// Attributes of the stored row that its type does not know are kept, because a newer version of the
    /// service may have written them.
    pub fn replace<R: Replaceable>(row: &R, version: u64) -> Result<Self, StoreError> {
        let item = to_item(row)?;
        let known = names_of::<R::Stored>().ok_or_else(|| {
            StoreError::Corrupt("a row without named attributes can't be replaced".to_owned())
        })?;
        let known = known.iter().chain(&ADDED_ATTRIBUTES).chain(&[PUT_ID]).copied();
        let absent = known.filter(|name| !item.contains_key(*name)).collect();
        Ok(WriteKind::Replace(Replacement { item, absent, version }).into())
    }

    /// Replaces a row that has this version, or inserts it.
    pub fn put<R: Replaceable>(row: &R, version: Option<u64>) -> Result<Self, StoreError> {
        version.map_or_else(|| Self::insert(row), |version| Self::replace(row, version))
    }

    /// Removes a row. Condition: the number in the attribute `counter` is `expected`.
    pub fn remove(key: Key, counter: &str, expected: i64) -> Self {
        WriteKind::Delete(Box::new(RowUpdate::of(key).when(counter, "=", number(expected)))).into()
    }

    /// Removes a row that never changes. Condition: the row exists.
    pub fn remove_existing(key: &Key) -> Self {
        WriteKind::Delete(Box::new(RowUpdate::of(key.clone()).when_exists())).into()
    }

    /// Removes a row if it exists. There is no condition.
    pub fn remove_any(key: Key) -> Self {
        WriteKind::Delete(Box::new(RowUpdate::of(key))).into()
    }

    /// Updates a row, and creates it if it does not exist. An addition to a counter is not idempotent, so the same
    /// commit must contain a write whose condition fails when the commit is repeated.
    pub fn update(update: RowUpdate) -> Self {
        WriteKind::Update(Box::new(update)).into()
    }

    /// Checks a row without writing it. Condition: its `version` attribute is `version`.
    pub fn check(key: Key, version: u64) -> Self {
        WriteKind::Check(Box::new(RowUpdate::of(key).when("version", "=", version_number(version)))).into()
    }

    /// Inserts a row into another table, whose only key is the partition key `pk`. Condition: no row has this
    /// key.
    pub(crate) fn insert_into(table: &str, item: Item) -> Self {
        Self::from(WriteKind::Insert { item }).in_table(table)
    }

    /// Removes a row of another table, whose only key is the partition key `pk`. Condition: the row exists.
    pub(crate) fn remove_from(table: &str, key: Item) -> Self {
        Self::from(WriteKind::Delete(Box::new(RowUpdate::of_item(key).when_exists()))).in_table(table)
    }

    pub(super) fn into_transact_item(self, table: &str) -> Result<TransactWriteItem, StoreError> {
        let table = self.table.as_deref().unwrap_or(table);
        let item = TransactWriteItem::builder();
        Ok(match self.change {
            WriteKind::Insert { item: row } => item.put(insert(table, row)?),
            WriteKind::Replace(replacement) => item.update(replacement.update(table)?),
            WriteKind::Update(update) => item.update(update.into_update(table)?),
            WriteKind::Delete(delete) => item.delete(delete.into_delete(table)?),
            WriteKind::Check(check) => item.condition_check(check.into_check(table)?),
            WriteKind::Audit(_) => {
                return Err(StoreError::Corrupt("an audit row has no place in its chain".to_owned()));
            }
        }
        .build())
    }
}

pub(super) fn insert(table: &str, item: Item) -> Result<Put, StoreError> {
    let put = Put::builder().table_name(table).set_item(Some(item));
    let put = put.condition_expression("attribute_not_exists(pk)");
    put.build().map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn version_number(version: u64) -> AttributeValue {
    AttributeValue::N(version.to_string())
}

impl Replacement {
    /// Sets the random id of a single write (see [`PUT_ID`]).
    pub(super) fn set_put_id(&mut self, id: AttributeValue) {
        self.absent.retain(|name| *name != PUT_ID);
        self.item.insert(PUT_ID.to_owned(), id);
    }

    /// Builds the update that replaces the row.
    pub(super) fn update(self, table: &str) -> Result<Update, StoreError> {
        let (key, attributes): (Item, Item) =
            self.item.into_iter().partition(|(name, _)| KEY_ATTRIBUTES.contains(&name.as_str()));
        let update = RowUpdate::of_item(key).set_all(attributes).remove_all(self.absent);
        update.when("version", "=", version_number(self.version)).into_update(table)
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum CommitOutcome {
    /// All rows were written.
    Done,
    /// A conflict: the conditions of some writes failed, usually because another caller changed those rows
    /// first. Nothing was written.
    Conflict {
        /// The indexes of the writes whose conditions failed.
        at: Vec<usize>,
    },
}

impl CommitOutcome {
    /// `error` if there was a conflict.
    pub fn done_or<E>(self, error: E) -> std::result::Result<(), E> {
        if self == Self::Done { Ok(()) } else { Err(error) }
    }
}
