//! The bank's books, and their file.
//!
//! The first line has the format and the clients. Every other line has what one operation changed. At each start the
//! file is rewritten with one line for all rows.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stand_in_kit::Journal;

use crate::problem::Problem;
use crate::state::{Callback, State};

/// The format of the lines. A file with another format is refused.
const FORMAT: u32 = 1;

/// The first line. Rows refer to clients by their place in this list.
#[derive(Deserialize, Serialize)]
struct Header {
    format: u32,
    clients: Vec<String>,
}

pub(crate) struct Books {
    pub(crate) state: State,
    pub(crate) journal: Journal,
}

impl From<io::Error> for Problem {
    /// A change that was not saved must not be shown.
    fn from(error: io::Error) -> Self {
        Self::not_saved(&error.to_string())
    }
}

impl Books {
    /// Restores an empty state from the file, if it exists, and rewrites the file.
    pub(crate) fn open(mut state: State, path: Option<PathBuf>) -> io::Result<Self> {
        if let Some(path) = &path {
            Journal::read(path, |number, line| {
                if number == 1 {
                    check_header(line, &state)
                } else {
                    state.restore(serde_json::from_slice(line)?);
                    Ok(())
                }
            })?;
        }
        let mut books = Self { state, journal: Journal::default() };
        path.map_or(Ok(()), |path| books.rewrite(path))?;
        Ok(books)
    }

    /// All rows of the state count as changed.
    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        let header = Header { format: FORMAT, clients: self.state.client_ids().cloned().collect() };
        self.journal.rewrite(path, &header, &self.state.take_changes())
    }

    pub(crate) fn reset(&mut self) -> io::Result<()> {
        self.state = self.state.emptied();
        self.journal.path().cloned().map_or(Ok(()), |path| self.rewrite(path))
    }
}

impl stand_in_kit::Books for Books {
    type Delivery = (u64, Callback);

    fn check(&self) -> io::Result<()> {
        self.journal.check()
    }

    fn advance_to(&mut self, now_ms: i64) {
        self.state.run_timers(self.state.time(now_ms));
    }

    fn save(&mut self) -> io::Result<()> {
        let changes = self.state.take_changes();
        if changes.is_empty() { Ok(()) } else { self.journal.append(&changes) }
    }

    fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    fn next_delivery(&mut self) -> Option<Self::Delivery> {
        self.state.next_callback()
    }
}

fn check_header(text: &[u8], state: &State) -> io::Result<()> {
    let invalid = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    let header: Header = serde_json::from_slice(text)?;
    if header.format != FORMAT {
        return invalid("another version of the bank wrote the books".to_owned());
    }
    let mut clients = state.client_ids();
    if header.clients.iter().all(|known| clients.next() == Some(known)) {
        return Ok(());
    }
    let known = header.clients.join(", ");
    invalid(format!(
        "the books are those of the clients {known}; only further clients can be added at the end"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stand_in_kit::Host;

    use super::*;
    use crate::profile::Profile;

    #[test]
    fn nothing_is_changed_after_the_end() {
        let state = State::new(0, Profile::Complete.behaviour(), Vec::new());
        let host = Host::new(Books::open(state, None).unwrap(), Arc::new(|| 0));
        assert_eq!(host.change(|_, now_ms| now_ms).unwrap(), 0);
        host.books().journal.close();
        let mut is_executed = false;
        assert!(host.change(|_, _| is_executed = true).is_err());
        assert!(!is_executed);
    }
}
