//! The embedded DynamoDB: the functions of the crate dynoxide behind an HTTP server of our own.
//!
//! The server has its own thread and runtime, because each request blocks the thread while it uses the
//! database. On a shared runtime, a request would block all other tasks.
//!
//! This DynamoDB differs from AWS: reads are always consistent, transactions never conflict, requests are
//! never throttled, a stream has one shard, and any signature is accepted. Tests inject conflicts and
//! throttling with the fault proxy in `testing/faults/src/proxy/`.
//!
//! SQLite appends each write to its log before the response leaves, so a killed process loses no change that was
//! answered.

mod engine;
mod tokens;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use shared::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::engine::{Engine, Result as EngineResult, internal};
use super::State;
use crate::error::{Context, Result};
use crate::http;

/// The interval between two deletions of expired rows and of old stream records. The first one is this long after the
/// start, so that records of an earlier run are processed first.
const SWEEP_PERIOD: Duration = Duration::from_mins(10);
/// How long stream records are retained by the service's clock, in seconds, as on AWS.
const STREAM_RETENTION_S: i64 = 24 * 60 * 60;
/// DynamoDB's maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
const TARGETS: [&str; 2] = ["DynamoDB_20120810.", "DynamoDBStreams_20120810."];

#[derive(Debug)]
pub struct DynamoDb {
    url: String,
    database: Database,
    /// Dropping it ends the thread.
    shutdown: DropGuard,
    thread: JoinHandle<()>,
}

impl DynamoDb {
    pub(crate) fn start(
        state: &State,
        listener: TcpListener,
        hosts: &http::Hosts,
        clock: &Clock,
    ) -> Result<Self> {
        let engine = Engine::open(state, clock).context("opening the database")?;
        let doing = "starting DynamoDB";
        let url = http::url_of(listener.local_addr().context(doing)?);
        let shutdown = CancellationToken::new();
        let guard = shutdown.clone().drop_guard();
        let database = Database(Arc::new(Shared {
            engine: Mutex::new(Some(engine)),
            changes: watch::Sender::new(0),
            clock: clock.clone(),
        }));
        // The server's own runtime uses the listener.
        let listener = listener.into_std().context(doing)?;
        let (of_thread, hosts) = (database.clone(), hosts.clone());
        let thread = std::thread::Builder::new().name("dynamodb".to_owned());
        let thread = thread.spawn(move || run(listener, hosts, of_thread, &shutdown)).context(doing)?;
        Ok(Self { url, database, shutdown: guard, thread })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn database(&self) -> Database {
        self.database.clone()
    }

    pub async fn stop(self) {
        drop(self.shutdown);
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
        // Closes the file, so that another service can open it.
        *self.database.lock() = None;
    }
}

fn run(
    listener: std::net::TcpListener,
    hosts: http::Hosts,
    database: Database,
    shutdown: &CancellationToken,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
    };
    runtime.block_on(async move {
        let serve = |listener| {
            let handle =
                |database: Arc<Database>, request, _peer| async move { database.handle(request).await };
            http::serve_with(listener, hosts, Arc::new(database.clone()), handle)
        };
        let server = match TcpListener::from_std(listener).and_then(serve) {
            Ok(server) => server,
            Err(error) => return tracing::error!(%error, "DynamoDB did not start"),
        };
        tokio::select! {
            () = database.sweep() => {}
            () = shutdown.cancelled() => server.stop().await,
        }
    });
}

struct ApiRequest {
    operation: String,
    body: Bytes,
}

impl ApiRequest {
    async fn read(request: Request<Incoming>) -> std::result::Result<Self, Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation =
            target.and_then(|target| TARGETS.iter().find_map(|prefix| target.strip_prefix(prefix)));
        let Some(operation) = operation.map(str::to_owned) else {
            return Err(refuse("com.amazon.coral.service#UnknownOperationException", "unknown x-amz-target"));
        };
        if !head.headers.contains_key(AUTHORIZATION) {
            let code = "com.amazon.coral.service#MissingAuthenticationTokenException";
            return Err(refuse(code, "Request is missing Authentication Token"));
        }
        let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(|_| {
            let code = "com.amazon.coral.service#SerializationException";
            refuse(code, "the body is too large or cut off")
        })?;
        Ok(Self { operation, body: body.to_bytes() })
    }
}

/// The database, which this process also uses without requests by HTTP.
#[derive(Clone)]
pub struct Database(Arc<Shared>);

struct Shared {
    /// `None`: it is closed.
    engine: Mutex<Option<Engine>>,
    /// The version of the database.
    changes: watch::Sender<u64>,
    clock: Clock,
}

domain::text::hidden_debug!(Database);

impl Database {
    /// Returns the version of the database. It differs after each change.
    pub fn version(&self) -> u64 {
        *self.0.changes.borrow()
    }

    /// Waits until the database has another version than `seen`.
    pub(crate) async fn changed_since(&self, seen: u64) {
        // The sender lives as long as this object.
        let _ = self.0.changes.subscribe().wait_for(|version| *version != seen).await;
    }

    pub(crate) fn call(&self, operation: &str, request: &Value) -> EngineResult<Value> {
        self.with_engine(|engine| engine.call(operation, request))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Engine>> {
        self.0.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match ApiRequest::read(request).await {
            Ok(request) => {
                let result = self.with_engine(|engine| engine.execute(&request.operation, &request.body));
                let (status, body) = encoded(result);
                respond(status, body)
            }
            Err(refused) => refused,
        }
    }

    fn with_engine<T>(&self, call: impl FnOnce(&mut Engine) -> EngineResult<T>) -> EngineResult<T> {
        let mut engine = self.lock();
        let engine = engine.as_mut().ok_or_else(|| internal(&"the database is closed"))?;
        let result = call(engine);
        let version = engine.changes();
        self.0.changes.send_if_modified(|latest| std::mem::replace(latest, version) != version);
        result
    }

    async fn sweep(&self) {
        let end_of_retention = || self.0.clock.now().saturating_plus_seconds(-STREAM_RETENTION_S);
        let mut previous = end_of_retention();
        loop {
            tokio::time::sleep(SWEEP_PERIOD).await;
            if let Err(error) = self.delete_expired().await {
                tracing::warn!(%error, "expired rows were not deleted");
            }
            // The end of the retention one period ago: if the clock is advanced by days, event sources that are behind
            // have this period to read it. The least, because a reset sets the clock back.
            let latest = end_of_retention();
            if let Err(error) = self.with_engine(|engine| engine.trim_streams(previous.min(latest))) {
                tracing::warn!(%error, "old stream records were not deleted");
            }
            previous = latest;
        }
    }

    /// Lets requests pass between two pages of rows.
    async fn delete_expired(&self) -> EngineResult<()> {
        let now = self.0.clock.now();
        for table in self.with_engine(Engine::expiring_tables)? {
            let mut next = None;
            loop {
                next = self.with_engine(|engine| engine.delete_expired(&table, now, next))?;
                if next.is_none() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }
}

fn refuse(code: &str, message: &str) -> Response<Full<Bytes>> {
    respond(StatusCode::BAD_REQUEST, json!({"__type": code, "message": message}).to_string())
}

fn encoded(result: EngineResult<Vec<u8>>) -> (StatusCode, Bytes) {
    match result {
        Ok(json) => (StatusCode::OK, json.into()),
        Err(error) => {
            let status = StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST);
            (status, error.to_json().into())
        }
    }
}

pub(super) fn respond(status: StatusCode, json: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(json.into()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/x-amz-json-1.0");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
