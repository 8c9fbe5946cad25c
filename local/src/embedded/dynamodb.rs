//! The embedded DynamoDB: the crate dynoxide behind an HTTP server.
//!
//! The server has its own thread and runtime, because each request blocks the thread while it uses the
//! database. On a shared runtime, a request would block all other tasks.
//!
//! This DynamoDB differs from AWS: reads are always consistent, transactions never conflict, requests are
//! never throttled, and a stream has one shard. Tests inject conflicts and throttling with
//! [`super::fault_proxy`].
//!
//! A second connection to the database, `Maintenance`, does what dynoxide does not: it indexes the stream
//! records, deletes old ones, and detects changes. It is used by the server's thread only, so it never waits
//! for dynoxide's connection, nor dynoxide for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dynoxide::Database;
use rusqlite::Connection;
use tokio::net::TcpListener;

use super::State;
use super::signals::{Announcer, Changes};
use crate::error::{Error, Result};
use crate::http;
use crate::shutdown::{self, Shutdown, Trigger};

/// The interval between two deletions of expired rows. It is short so that code that wrongly depends on an
/// expired row fails soon. On AWS it would fail later, because AWS can take days to delete such a row.
const SWEEP_PERIOD: Duration = Duration::from_mins(1);
/// How long a stream record is retained, as on AWS. The first deletion is a [`SWEEP_PERIOD`] after the start,
/// so that records of an earlier run are processed first.
const STREAM_RETENTION: Duration = Duration::from_hours(24);
/// The maximum number of stream records that one deletion examines. It bounds how long requests wait.
const TRIM_LIMIT: i64 = 5_000;
/// The longest time after which a change is announced. Usually, it is announced at once.
const ANNOUNCEMENT_PERIOD: Duration = Duration::from_millis(250);
/// The time that running requests have to finish after shutdown is requested. Also the longest wait for a
/// lock of the database file when the index is created at the start.
const GRACE: Duration = Duration::from_secs(2);

/// A running embedded DynamoDB.
#[derive(Debug)]
pub struct DynamoDb {
    url: String,
    changes: Changes,
    trigger: Trigger,
    thread: Option<JoinHandle<()>>,
}

impl DynamoDb {
    /// Starts the server on this listener.
    pub fn start(state: &State, listener: TcpListener) -> Result<Self> {
        let failed = |e: &dyn std::fmt::Display| Error::new(format!("opening the database: {e}"));
        let location = location(state);
        let database = Database::new(&location).map_err(|e| failed(&e))?;
        let maintenance = Maintenance::open(&location).map_err(|e| failed(&e))?;
        let io = |e: std::io::Error| Error::because("starting DynamoDB", &e);
        let url = http::url_of(listener.local_addr().map_err(io)?);
        // The server's own runtime uses the listener.
        let listener = listener.into_std().map_err(io)?;
        let (trigger, shutdown) = shutdown::channel();
        let changes = maintenance.announcer.changes();
        let thread = std::thread::Builder::new()
            .name("dynamodb".to_owned())
            .spawn(move || run(listener, database, maintenance, shutdown))
            .map_err(io)?;
        Ok(Self { url, changes, trigger, thread: Some(thread) })
    }

    /// Returns the base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the changes of the database.
    pub fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// Stops the server. Returns when its file is closed.
    pub async fn stop(mut self) {
        self.trigger.fire();
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Returns the path of the database, or the URI of a new database in memory. Unlike dynoxide's own database in
/// memory, one with a URI accepts a second connection.
fn location(state: &State) -> String {
    match state {
        State::InMemory => format!("file:{}?mode=memory&cache=shared", uuid::Uuid::new_v4()),
        State::Directory(directory) => directory.join("dynamodb.sqlite").to_string_lossy().into_owned(),
    }
}

/// The second connection to the database.
struct Maintenance {
    connection: Connection,
    announcer: Announcer,
}

impl Maintenance {
    /// Connects to the database and creates an index of the stream records. Without the index, each write to a
    /// table reads all records of the table's stream, and so does each read of the stream.
    fn open(location: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open(location)?;
        connection.busy_timeout(GRACE)?;
        connection.execute_batch(
            "CREATE INDEX IF NOT EXISTS stream_order
                 ON _stream_records (table_name, CAST(sequence_number AS INTEGER));",
        )?;
        Ok(Self { connection, announcer: Announcer::default() })
    }

    /// Announces a change if dynoxide has changed the database since the last call.
    fn announce_changes(&self) {
        // SQLite increments this number when another connection commits. It reads no table.
        match self.connection.pragma_query_value(None, "data_version", |row| row.get(0)) {
            Ok(version) => self.announcer.announce(version),
            Err(error) => tracing::warn!(%error, "changes of the database were not detected"),
        }
    }

    /// Deletes at most [`TRIM_LIMIT`] stream records whose retention has ended. Returns their number.
    fn trim_streams(&self) -> rusqlite::Result<usize> {
        let retained = i64::try_from(STREAM_RETENTION.as_secs()).unwrap_or(i64::MAX);
        self.connection.execute(
            "DELETE FROM _stream_records
             WHERE id IN (SELECT id FROM _stream_records ORDER BY id LIMIT ?1)
                 AND created_at < CAST(strftime('%s', 'now') AS INTEGER) - ?2",
            [TRIM_LIMIT, retained],
        )
    }
}

fn run(
    listener: std::net::TcpListener,
    database: Database,
    maintenance: Maintenance,
    mut shutdown: Shutdown,
) {
    let maintenance = Arc::new(Mutex::new(maintenance));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // The thread parks when it has no request to process.
    let parked = Arc::clone(&maintenance);
    runtime.on_thread_park(move || lock(&parked).announce_changes());
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
    };
    runtime.block_on(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
        };
        let announcer = tokio::spawn(announce_changes(Arc::clone(&maintenance)));
        let sweeper = tokio::spawn(sweep(database.clone(), maintenance));
        let mut graceful = shutdown.clone();
        let serving =
            dynoxide::server::serve_with_shutdown(
                listener,
                database,
                async move { graceful.requested().await },
            );
        let grace_over = async {
            shutdown.requested().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            ended = serving => if let Err(error) = ended {
                tracing::error!(%error, "DynamoDB stopped");
            },
            () = grace_over => {}
        }
        announcer.abort();
        sweeper.abort();
    });
}

fn lock(maintenance: &Mutex<Maintenance>) -> MutexGuard<'_, Maintenance> {
    maintenance.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces changes while the thread has too many requests to park.
async fn announce_changes(maintenance: Arc<Mutex<Maintenance>>) {
    loop {
        tokio::time::sleep(ANNOUNCEMENT_PERIOD).await;
        lock(&maintenance).announce_changes();
    }
}

async fn sweep(database: Database, maintenance: Arc<Mutex<Maintenance>>) {
    loop {
        tokio::time::sleep(SWEEP_PERIOD).await;
        if let Err(error) = database.sweep_ttl() {
            tracing::warn!(%error, "expired rows were not deleted");
        }
        if let Err(error) = lock(&maintenance).trim_streams() {
            tracing::warn!(%error, "old stream records were not deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The statements of dynoxide 3.2 (`src/storage.rs`) that each write and each read of a stream execute.
    const STREAM_STATEMENTS: [&str; 2] = [
        "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 'T'",
        "SELECT event_name, keys_json, new_image, old_image, sequence_number, created_at, user_identity, event_id
         FROM _stream_records
         WHERE table_name = 'T' AND shard_id = 'S' AND CAST(sequence_number AS INTEGER) > 7
         ORDER BY CAST(sequence_number AS INTEGER) ASC
         LIMIT 100",
    ];

    fn open(state: &State) -> (Database, Maintenance) {
        let location = location(state);
        let database = Database::new(&location).unwrap();
        let maintenance = Maintenance::open(&location).unwrap();
        (database, maintenance)
    }

    fn plan(maintenance: &Maintenance, statement: &str) -> String {
        let mut explained =
            maintenance.connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let steps = explained.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        steps.map(rusqlite::Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn writes_and_reads_of_a_stream_search_an_index_in_memory_and_in_a_file() {
        let directory = std::env::temp_dir().join(uuid::Uuid::new_v4().to_string());
        std::fs::create_dir(&directory).unwrap();
        for state in [State::InMemory, State::Directory(directory.clone())] {
            let (_database, maintenance) = open(&state);
            for statement in STREAM_STATEMENTS {
                let plan = plan(&maintenance, statement);
                assert!(
                    plan.contains("SEARCH _stream_records USING") && plan.contains("stream_order"),
                    "{plan}"
                );
                assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
            }
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn databases_in_memory_are_separate() {
        let ((first, _first_maintenance), (second, _second_maintenance)) =
            (open(&State::InMemory), open(&State::InMemory));
        let table = json!({
            "TableName": "Table",
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
        });
        first.create_table(serde_json::from_value(table).unwrap()).unwrap();
        assert_eq!((first.table_count().unwrap(), second.table_count().unwrap()), (1, 0));
    }

    #[test]
    fn stream_records_are_deleted_after_their_retention() {
        let (_database, maintenance) = open(&State::InMemory);
        for (number, age) in [("1", "25 hours"), ("2", "23 hours")] {
            let insert = format!(
                "INSERT INTO _stream_records
                     (table_name, event_name, keys_json, sequence_number, shard_id, created_at)
                 VALUES ('T', 'INSERT', '{{}}', '{number}', 'S',
                     CAST(strftime('%s', 'now', '-{age}') AS INTEGER))"
            );
            maintenance.connection.execute_batch(&insert).unwrap();
        }
        assert_eq!(maintenance.trim_streams().unwrap(), 1);
        let rest = "SELECT sequence_number FROM _stream_records";
        assert_eq!(maintenance.connection.query_row(rest, [], |row| row.get::<_, String>(0)).unwrap(), "2");
    }
}
