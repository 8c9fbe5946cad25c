//! The file with the messages of all queues: a log of their changes, one JSON object on a line.
//!
//! A change is written to the file before the response to its request leaves, so `kill -9` loses none. The
//! response to a send also waits for a sync, so a message that was accepted survives a loss of power. Receives
//! and deletions are not synced: after a loss of power, some messages may be received again.
//!
//! The log is rewritten at each start with the messages that are left. It is truncated when it is long and no
//! message is left.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::queues::Message;

/// The length from which the log is truncated when no message is left, in bytes.
const TRUNCATED_FROM_BYTES: u64 = 1_048_576;

/// A change of a queue.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// The message is in this queue, in this state. It may have been in another queue, or in another state.
    Put {
        /// The name of the queue.
        queue: String,
        /// The message.
        message: Message,
    },
    /// The message was received or hidden.
    Hidden {
        /// The message.
        number: u64,
        /// When it becomes visible, in milliseconds.
        visible_at: i64,
        /// How often it was received.
        receives: u32,
        /// When it was first received, in milliseconds.
        first_received_at: Option<i64>,
    },
    /// The message was deleted.
    Deleted {
        /// The message.
        number: u64,
    },
}

/// The log, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    /// `None`: the queues are in memory.
    file: Option<File>,
    bytes: u64,
    /// The number of changes that were appended.
    appended: u64,
}

impl Journal {
    /// Returns a journal that stores nothing.
    pub(super) fn in_memory() -> Self {
        Self { file: None, bytes: 0, appended: 0 }
    }

    /// Reads the changes in a log. A missing file has none. The end of a log that was cut short is dropped.
    pub(super) fn read(path: &Path) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        let mut reader = match File::open(path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(changes),
            Err(error) => return Err(error),
        };
        let mut line = Vec::new();
        let mut position: u64 = 0;
        while reader.read_until(b'\n', &mut line)? > 0 {
            match serde_json::from_slice(&line) {
                Ok(change) if line.ends_with(b"\n") => changes.push(change),
                Ok(_) | Err(_) => {
                    let length = std::fs::metadata(path)?.len();
                    let dropped = length.saturating_sub(position);
                    tracing::warn!(
                        path = %path.display(),
                        position,
                        dropped,
                        "the end of the queues' log can't be read; it is dropped"
                    );
                    break;
                }
            }
            position = position.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
            line.clear();
        }
        Ok(changes)
    }

    /// Replaces a log by one with only these messages, each with the name of its queue.
    pub(super) fn rewrite<'a>(
        path: &Path,
        messages: impl Iterator<Item = (&'a str, &'a Message)>,
    ) -> io::Result<Self> {
        let new = PathBuf::from(format!("{}.new", path.display()));
        let mut journal = Self { file: Some(File::create(&new)?), bytes: 0, appended: 0 };
        for (queue, message) in messages {
            let put = Change::Put { queue: queue.to_owned(), message: message.clone() };
            journal.append(std::slice::from_ref(&put))?;
        }
        if let Some(file) = &journal.file {
            file.sync_data()?;
        }
        std::fs::rename(&new, path)?;
        // Opened again, because a file that is open for appending stays consistent when it is truncated.
        journal.file = Some(File::options().append(true).open(path)?);
        Ok(journal)
    }

    /// Appends changes with one write. Returns the number of changes so far.
    pub(super) fn append(&mut self, changes: &[Change]) -> io::Result<u64> {
        if let Some(file) = &mut self.file {
            let mut lines = Vec::new();
            for change in changes {
                serde_json::to_writer(&mut lines, change)?;
                lines.push(b'\n');
            }
            file.write_all(&lines)?;
            self.bytes = self.bytes.saturating_add(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        }
        self.appended = self.appended.saturating_add(u64::try_from(changes.len()).unwrap_or(u64::MAX));
        Ok(self.appended)
    }

    /// Removes all changes if the log is long. The caller has no messages.
    pub(super) fn truncate_if_long(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.bytes >= TRUNCATED_FROM_BYTES) {
            file.set_len(0)?;
            self.bytes = 0;
        }
        Ok(())
    }
}
