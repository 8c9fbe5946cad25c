//! The rows, and their file: a line with the format, then one line of JSON for each operation that changed rows.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use serde_json::Value;
use stand_in_kit::Journal;

/// A file with another first line is refused.
const FORMAT: &str = "stripe-stand-in 1";
/// The key of the last serial number.
const SERIAL: &str = "serial/";

/// Rows by key. Objects have their ids as keys; keys of other rows contain a `/`.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    by_id: BTreeMap<String, Value>,
    changed: BTreeSet<String>,
    pub(crate) journal: Journal,
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
                rows.by_id.extend(serde_json::from_slice::<BTreeMap<String, Value>>(line)?);
            } else if String::from_utf8_lossy(line).trim_matches('"') != FORMAT {
                let message = "another version of the stand-in wrote it";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            Ok(())
        })?;
        rows.by_id.retain(|_, row| !row.is_null());
        rows.rewrite(path)?;
        Ok(rows)
    }

    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        self.journal.rewrite(path, &FORMAT, &self.by_id)
    }

    /// Writes what changed since the last call.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return Ok(());
        }
        let rows: BTreeMap<&String, Option<&Value>> =
            changed.iter().map(|key| (key, self.by_id.get(key))).collect();
        self.journal.append(&rows)
    }

    /// Keeps only some rows, and the serial number, so that no id repeats.
    pub(crate) fn reset(&mut self, kept: &str) -> io::Result<()> {
        self.by_id.retain(|key, _| key == kept || key == SERIAL);
        self.changed.clear();
        self.journal.path().cloned().map_or(Ok(()), |path| self.rewrite(path))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.by_id.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let row = self.by_id.get_mut(key)?;
        self.changed.insert(key.to_owned());
        Some(row)
    }

    pub(crate) fn put(&mut self, key: &str, row: Value) {
        self.changed.insert(key.to_owned());
        self.by_id.insert(key.to_owned(), row);
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Value> {
        self.changed.insert(key.to_owned());
        self.by_id.remove(key)
    }

    /// Returns the rows whose keys start with a prefix, in the order of their keys.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl DoubleEndedIterator<Item = (&String, &Value)> {
        // The character is larger than all that keys of objects, timers and notifications contain.
        self.by_id.range(prefix.to_owned()..format!("{prefix}~"))
    }

    pub(crate) fn next_serial(&mut self) -> i64 {
        let serial = self.by_id.get(SERIAL).and_then(Value::as_i64).unwrap_or_default().saturating_add(1);
        self.put(SERIAL, serial.into());
        serial
    }
}
