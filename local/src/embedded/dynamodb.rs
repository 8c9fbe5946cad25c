//! The embedded DynamoDB: the crate dynoxide behind an HTTP server.
//!
//! The server has its own thread and runtime, because each request blocks the thread while it uses the
//! database. On a shared runtime, a request would block all other tasks.
//!
//! This DynamoDB differs from AWS: reads are always consistent, transactions never conflict, requests are
//! never throttled, and a stream has one shard. Tests inject conflicts and throttling with
//! [`super::fault_proxy`].

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use dynoxide::Database;
use tokio::net::TcpListener;

use super::State;
use crate::error::{Error, Result};
use crate::http;
use crate::shutdown::{self, Shutdown, Trigger};

/// The interval between two deletions of expired rows. It is short so that code that wrongly depends on an
/// expired row fails soon. On AWS it would fail later, because AWS can take days to delete such a row.
const SWEEP_PERIOD: Duration = Duration::from_mins(1);
/// The time that running requests have to finish after shutdown is requested. Also the longest wait for a
/// lock of the database file when the index is created at the start.
const GRACE: Duration = Duration::from_secs(2);

/// A running embedded DynamoDB.
#[derive(Debug)]
pub struct DynamoDb {
    url: String,
    trigger: Trigger,
    thread: Option<JoinHandle<()>>,
}

impl DynamoDb {
    /// Starts the server on this listener.
    pub fn start(state: &State, listener: TcpListener) -> Result<Self> {
        let failed = |e: &dyn std::fmt::Display| Error::new(format!("opening the database: {e}"));
        let database = match state {
            State::InMemory => Database::memory().map_err(|e| failed(&e))?,
            State::Directory(directory) => {
                let file = directory.join("dynamodb.sqlite");
                let database = Database::new(&file.to_string_lossy()).map_err(|e| failed(&e))?;
                create_stream_index(&file).map_err(|e| failed(&e))?;
                database
            }
        };
        let io = |e: std::io::Error| Error::because("starting DynamoDB", &e);
        let url = http::url_of(listener.local_addr().map_err(io)?);
        // The server's own runtime uses the listener.
        let listener = listener.into_std().map_err(io)?;
        let (trigger, shutdown) = shutdown::channel();
        let thread = std::thread::Builder::new()
            .name("dynamodb".to_owned())
            .spawn(move || run(listener, database, shutdown))
            .map_err(io)?;
        Ok(Self { url, trigger, thread: Some(thread) })
    }

    /// Returns the base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops the server. Returns when its file is closed.
    pub async fn stop(mut self) {
        self.trigger.fire();
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Creates an index of the stream records. Without the index, each write to a table reads all records that
/// the table's stream ever had.
fn create_stream_index(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(GRACE)?;
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS stream_order
             ON _stream_records (table_name, CAST(sequence_number AS INTEGER));",
    )
}

fn run(listener: std::net::TcpListener, database: Database, mut shutdown: Shutdown) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
    };
    runtime.block_on(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
        };
        let sweeper = tokio::spawn(sweep(database.clone()));
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
        sweeper.abort();
    });
}

async fn sweep(database: Database) {
    loop {
        tokio::time::sleep(SWEEP_PERIOD).await;
        if let Err(error) = database.sweep_ttl() {
            tracing::warn!(%error, "expired rows were not deleted");
        }
    }
}
