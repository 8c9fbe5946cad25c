//! The rows, and their file: a line with the format, then one line of JSON for each operation that changed rows.
//!
//! A line has all that one operation changed, and is written before the operation is answered. So a line that a kill
//! cut off belongs to an operation without an answer, and is ignored. Each start rewrites the file, with one line for
//! all rows. It is not synced: it survives the end of the process, but not that of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::{Value, json};

/// A file with another first line is refused.
const FORMAT: &str = "stripe-stand-in 1";
/// The key of the last serial number.
const SERIAL: &str = "serial/";

/// Rows by key. Objects have their ids as keys; keys of other rows contain a `/`.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    by_id: BTreeMap<String, Value>,
    changed: BTreeSet<String>,
    file: Option<(PathBuf, File)>,
    /// Why nothing can be changed any more.
    failure: Option<String>,
}

impl Rows {
    /// Restores the rows from the file, if it exists. Without a path, the rows are lost with the process.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let mut rows = Self::default();
        let Some(path) = path else {
            return Ok(rows);
        };
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        // The last line ends without a line break if a kill cut it off.
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        if lines.next().is_some_and(|first| first.trim_ascii_end() != FORMAT.as_bytes()) {
            let message = format!("{}: another version of the stand-in wrote it", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        for line in lines {
            rows.by_id.extend(serde_json::from_slice::<BTreeMap<String, Value>>(line)?);
        }
        rows.by_id.retain(|_, row| !row.is_null());
        rows.rewrite(path)?;
        Ok(rows)
    }

    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // The rows contain the secrets of webhook endpoints.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        file.write_all(format!("{FORMAT}\n{}\n", json!(self.by_id)).as_bytes())?;
        fs::rename(new, &path)?;
        self.file = Some((path, file));
        Ok(())
    }

    /// Writes what changed since the last call.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let changed = std::mem::take(&mut self.changed);
        let Some((_, file)) = self.file.as_mut().filter(|_| !changed.is_empty()) else {
            return Ok(());
        };
        let rows: BTreeMap<&String, Option<&Value>> =
            changed.iter().map(|key| (key, self.by_id.get(key))).collect();
        // After a failure the file may end with a part of a line, which must stay the last.
        file.write_all(format!("{}\n", json!(rows)).as_bytes())
            .inspect_err(|error| self.failure = Some(error.to_string()))
    }

    /// An error says why nothing can be changed any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.failure.clone().map_or(Ok(()), |failure| Err(io::Error::other(failure)))
    }

    /// Prevents all further changes, as the end of the process does.
    pub(crate) fn close(&mut self) {
        self.failure = Some("the stand-in stopped".to_owned());
    }

    /// Keeps only some rows, and the serial number, so that no id repeats.
    pub(crate) fn reset(&mut self, kept: &str) -> io::Result<()> {
        self.by_id.retain(|key, _| key == kept || key == SERIAL);
        self.changed.clear();
        let path = self.file.take().map(|(path, _)| path);
        path.map_or(Ok(()), |path| self.rewrite(path))
            .inspect_err(|error| self.failure = Some(error.to_string()))
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
