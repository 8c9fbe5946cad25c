//! The rows, and their file: a line with the format, then one line of JSON for each operation that changed rows.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde_json::Value;
use stand_in_kit::{Journal, Table};

/// A file with another first line is refused.
const FORMAT: &str = "stripe-stand-in 1";
/// The key of the last serial number.
const SERIAL: &str = "serial/";

/// Rows by key. Objects have their ids as keys; keys of other rows contain a `/`.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    table: Table<String, Value>,
    pub(crate) journal: Journal,
}

impl Deref for Rows {
    type Target = Table<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Rows {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

impl Rows {
    /// Restores the rows from the file, if it exists. Without a path, the rows are lost with the process.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let mut rows = Self::default();
        let Some(path) = path else {
            return Ok(rows);
        };
        Journal::read(&path, |number, line| {
            if number > 1 {
                rows.restore(serde_json::from_slice::<BTreeMap<String, Option<Value>>>(line)?);
            } else if String::from_utf8_lossy(line).trim_matches('"') != FORMAT {
                let message = "another version of the stand-in wrote it";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Ok(())
        })?;
        rows.rewrite(path)?;
        Ok(rows)
    }

    /// All rows count as changed.
    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        let rows = self.changes();
        self.journal.rewrite(path, &FORMAT, &rows)
    }

    fn changes(&mut self) -> BTreeMap<String, Option<Value>> {
        self.take_changes().into_iter().collect()
    }

    /// Writes what changed since the last call.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let changes = self.changes();
        if changes.is_empty() { Ok(()) } else { self.journal.append(&changes) }
    }

    /// Keeps only one row, and the serial number, so that no id repeats.
    pub(crate) fn reset(&mut self, kept: &str) -> io::Result<()> {
        let kept = [kept, SERIAL].map(|key| (key.to_owned(), self.get(key).cloned()));
        self.table = Table::default();
        self.restore(kept);
        self.journal.path().cloned().map_or(Ok(()), |path| self.rewrite(path))
    }

    /// Returns the rows whose keys start with a prefix, in the order of their keys.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl DoubleEndedIterator<Item = (&String, &Value)> {
        // The character is larger than all that keys of objects, timers and notifications contain.
        self.range(prefix.to_owned()..format!("{prefix}~"))
    }

    pub(crate) fn next_serial(&mut self) -> i64 {
        let serial = self.get(SERIAL).and_then(Value::as_i64).unwrap_or_default().saturating_add(1);
        self.insert(SERIAL.to_owned(), serial.into());
        serial
    }
}
