//! The state of a stand-in, with its file.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::journal::Journal;

/// The state of a stand-in, which its file keeps. No I/O, and no clock: the time is an argument.
pub trait Persistent: Send + 'static {
    /// What one operation changed, as a line of the file stores it.
    type Changes: Default + PartialEq + Serialize + DeserializeOwned;
    /// A notification to send.
    type Delivery: Send;

    /// The first line of the file.
    fn header(&self) -> Value;

    /// Refuses a file that begins with this line, if it is not one of this state.
    fn check_header(&self, line: &[u8]) -> io::Result<()>;

    /// Returns what changed since the last call.
    fn take_changes(&mut self) -> Self::Changes;

    /// Restores changes, in the order in which they were saved. They count as changes, so that those that are taken next
    /// lead from an empty state to this one.
    fn restore(&mut self, saved: Self::Changes);

    /// Executes everything that is due.
    fn advance_to(&mut self, now_ms: i64);

    /// True if nothing happens without a request.
    fn is_idle(&self) -> bool;

    fn next_delivery(&mut self) -> Option<Self::Delivery>;
}

pub struct Books<S> {
    pub state: S,
    journal: Journal,
}

impl<S: Persistent> Books<S> {
    /// Restores an empty state from the file, if it exists, and rewrites the file. Without a path, the state is lost with
    /// the process.
    pub(crate) fn open(mut state: S, path: Option<PathBuf>) -> io::Result<Self> {
        if let Some(path) = &path {
            Journal::read(path, |number, line| {
                if number == 1 {
                    return state.check_header(line);
                }
                state.restore(serde_json::from_slice(line)?);
                Ok(())
            })?;
        }
        let mut books = Self { state, journal: Journal::default() };
        path.map_or(Ok(()), |path| books.rewrite(path))?;
        Ok(books)
    }

    /// All rows of the state count as changed.
    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        self.journal.rewrite(path, &self.state.header(), &self.state.take_changes())
    }

    /// Empties the state, and then rewrites the file.
    /// Errors: When the file can't be written. Then no further change is possible.
    pub fn reset(&mut self, empty: impl FnOnce(&mut S)) -> io::Result<()> {
        empty(&mut self.state);
        self.journal.path().cloned().map_or(Ok(()), |path| self.rewrite(path))
    }

    /// An error says why nothing can be changed any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.journal.check()
    }

    /// Writes what changed since the last call.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        let changes = self.state.take_changes();
        if changes == S::Changes::default() { Ok(()) } else { self.journal.append(&changes) }
    }

    /// Prevents all further changes, as the end of the process does.
    pub fn close(&mut self) {
        self.journal.close();
    }
}
