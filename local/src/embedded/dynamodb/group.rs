//! Groups the writes of concurrent requests into one transaction of SQLite.
//!
//! SQLite appends each page that a transaction changed to its log once, so a group appends a page of an index
//! or of a counter once for many requests. Each request is a savepoint in its group, so a request that fails
//! changes nothing. A group ends when it is committed, before it is synced ([`super::Front`]).
//!
//! dynoxide begins and ends a transaction in each write. While a group is open, SQLite compiles these statements
//! to programs that do nothing, because the authoriser of the connection answers `SQLITE_IGNORE`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dynoxide::storage::Storage;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::engine::{Result, internal};

/// The groups of a connection.
#[derive(Debug)]
pub(super) struct Groups {
    /// Whether dynoxide's own transactions do nothing.
    is_open: Arc<AtomicBool>,
    /// The number of the open or next group.
    number: u64,
    /// The groups whose writes were lost, because SQLite could not write them to the disk.
    lost: BTreeSet<u64>,
}

impl Groups {
    /// Installs the authoriser.
    pub(super) fn new(storage: &Storage) -> Self {
        let is_open = Arc::new(AtomicBool::new(false));
        let ignores = Arc::clone(&is_open);
        storage.conn().authorizer(Some(move |context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { .. } if ignores.load(Ordering::Relaxed) => Authorization::Ignore,
            _ => Authorization::Allow,
        }));
        Self { is_open, number: 0, lost: BTreeSet::new() }
    }

    /// Returns the number of the group that a request now belongs to.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the writes of a group were lost.
    pub(super) fn is_lost(&self, number: u64) -> bool {
        self.lost.contains(&number)
    }

    /// Begins the savepoint of a request, and a group if none is open.
    pub(super) fn begin(&mut self, storage: &Storage) -> Result<()> {
        if !self.is_open.load(Ordering::Relaxed) {
            execute(storage, "BEGIN IMMEDIATE")?;
            self.is_open.store(true, Ordering::Relaxed);
        }
        execute(storage, "SAVEPOINT request")
    }

    /// Ends the savepoint of a request. If the request failed, its changes are undone. The group is lost if SQLite
    /// has undone it, as it does when the disk is full, or can't end the savepoint.
    pub(super) fn end<T>(&mut self, storage: &Storage, result: Result<T>) -> Result<T> {
        let undone = match &result {
            Ok(_) => Ok(()),
            Err(_) => execute(storage, "ROLLBACK TO request"),
        };
        if let Err(error) = undone.and_then(|()| execute(storage, "RELEASE request")) {
            self.undo(storage);
            return result.and(Err(error));
        }
        result
    }

    /// Commits the open group, if any. It is lost if SQLite can't write it to the disk.
    pub(super) fn commit(&mut self, storage: &Storage) {
        if !self.is_open.swap(false, Ordering::Relaxed) {
            return;
        }
        match execute(storage, "COMMIT") {
            Ok(()) => self.number = self.number.saturating_add(1),
            Err(error) => {
                tracing::error!(%error, "the database was not written to disk; its requests fail");
                self.undo(storage);
            }
        }
    }

    /// Undoes the open group.
    fn undo(&mut self, storage: &Storage) {
        self.is_open.store(false, Ordering::Relaxed);
        // An error: SQLite has undone the group already.
        let _undone_already = execute(storage, "ROLLBACK");
        self.lost.insert(self.number);
        self.number = self.number.saturating_add(1);
    }
}

fn execute(storage: &Storage, statement: &str) -> Result<()> {
    let mut statement = storage.conn().prepare_cached(statement).map_err(|error| internal(&error))?;
    statement.execute([]).map(drop).map_err(|error| internal(&error))
}
