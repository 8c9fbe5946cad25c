//! The bank's books, and their file: one line of JSON for each operation that changed them.
//!
//! The first line has the format and the clients. Every other line has all that one operation changed, and is
//! written before the operation is answered. So a line that a kill cut off belongs to an operation without an
//! answer, and is ignored. At each start the file is rewritten with one line for each row, and replaced by a
//! rename. The file is not synced: it survives the end of the process, but not that of the machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::Faults;
use crate::problem::Problem;
use crate::state::{Changes, State};

/// The format of the lines. A file with another format is refused.
const FORMAT: u32 = 1;

/// The first line. Rows refer to clients by their place in this list.
#[derive(Deserialize, Serialize)]
struct Header {
    format: u32,
    clients: Vec<String>,
}

pub(crate) struct Books {
    state: State,
    journal: Option<Journal>,
    failure: Option<String>,
}

/// A change that was not saved, with the reason. It must not be shown.
#[derive(Debug)]
pub(crate) struct NotSaved(String);

impl From<NotSaved> for Problem {
    fn from(NotSaved(reason): NotSaved) -> Self {
        Self::not_saved(&reason)
    }
}

impl Books {
    pub(crate) fn new(state: State, journal: Option<Journal>) -> Self {
        Self { state, journal, failure: None }
    }

    /// Executes due timers, then `act` with the state and the time, and saves what they changed.
    pub(crate) fn change<T>(
        &mut self,
        now_ms: i64,
        act: impl FnOnce(&mut State, i64) -> T,
    ) -> Result<T, NotSaved> {
        if let Some(reason) = &self.failure {
            return Err(NotSaved(reason.clone()));
        }
        self.state.run_timers(now_ms);
        let result = act(&mut self.state, now_ms);
        let changes = self.state.take_changes();
        if let Some(journal) = self.journal.as_mut().filter(|_| !changes.is_empty()) {
            journal.append(&changes).map_err(|error| {
                // The file may now end with a part of a line, which must stay the last.
                self.failure = Some(error.to_string());
                NotSaved(error.to_string())
            })?;
        }
        Ok(result)
    }

    /// Returns true if nothing happens without a request: there are no timers and no unsent callbacks.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    pub(crate) fn reset(&mut self) -> io::Result<()> {
        self.state = self.state.emptied();
        if let Some(journal) = &mut self.journal {
            journal.file = rewrite(&journal.path, &self.state).inspect_err(|error| {
                self.failure = Some(error.to_string());
            })?;
        }
        Ok(())
    }

    /// Prevents all further changes, as the end of the process does.
    pub(crate) fn close(&mut self) {
        self.failure = Some("o banco parou".to_owned());
    }

    pub(crate) fn faults(&mut self) -> &mut Faults {
        &mut self.state.faults
    }

    pub(crate) fn snapshot(&self) -> Value {
        self.state.snapshot()
    }
}

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Restores an empty state from the file, if it exists, and rewrites the file.
    pub(crate) fn open(path: &Path, state: &mut State) -> io::Result<Self> {
        let failed = |error: &io::Error| {
            io::Error::new(error.kind(), format!("the bank's books {}: {error}", path.display()))
        };
        read(path, state).map_err(|error| failed(&error))?;
        let file = rewrite(path, state).map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(crate) fn append(&mut self, changes: &Changes) -> io::Result<()> {
        self.file.write_all(&line(changes)?)
    }
}

fn read(path: &Path, state: &mut State) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        file.read_until(b'\n', &mut text)?;
        // The last line ends without a line break if a kill cut it off.
        let Some(text) = text.strip_suffix(b"\n") else {
            break;
        };
        if number == 1 {
            check_header(text, state)?;
        } else {
            state.restore(parse(text, number)?);
        }
    }
    Ok(())
}

fn check_header(text: &[u8], state: &State) -> io::Result<()> {
    let header: Header = parse(text, 1)?;
    if header.format != FORMAT {
        return Err(invalid("another version of the bank wrote them".to_owned()));
    }
    let mut clients = state.client_ids();
    if header.clients.iter().all(|known| clients.next() == Some(known)) {
        return Ok(());
    }
    let known = header.clients.join(", ");
    Err(invalid(format!(
        "they are those of the clients {known}; only further clients can be added at the end"
    )))
}

fn rewrite(path: &Path, state: &State) -> io::Result<File> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // The books contain payers' documents, and URLs with the receivers' tokens.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = BufWriter::new(options.open(&new)?);
    let clients = state.client_ids().cloned().collect();
    file.write_all(&line(&Header { format: FORMAT, clients })?)?;
    for changes in state.all_rows() {
        file.write_all(&line(&changes)?)?;
    }
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(new, path)?;
    Ok(file)
}

fn line(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    Ok(line)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8], number: u64) -> io::Result<T> {
    serde_json::from_slice(text).map_err(|error| invalid(format!("line {number}: {error}")))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::Profile;

    #[test]
    fn a_change_that_cannot_be_saved_is_the_last() {
        let path = std::env::temp_dir().join(format!("bank-{}-unwritable.jsonl", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let journal = Journal { path: path.clone(), file: File::open(&path).unwrap() };
        let state = State::new(0, Profile::Complete.behaviour(), Vec::new());
        let mut books = Books::new(state, Some(journal));
        // Nothing changes, so nothing is written.
        assert_eq!(books.change(0, |_, now_ms| now_ms).unwrap(), 0);
        let body = json!({"webhookUrl": "http://loja.example"});
        let put = |state: &mut State| state.put_webhook(0, "loja", body.as_object().unwrap());
        let NotSaved(reason) = books.change(0, |state, _| put(state)).unwrap_err();
        let mut is_executed = false;
        let NotSaved(again) = books.change(0, |_, _| is_executed = true).unwrap_err();
        assert_eq!((again, is_executed), (reason, false));
        std::fs::remove_file(path).unwrap();
    }
}
