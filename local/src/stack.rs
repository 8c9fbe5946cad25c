//! The whole service: the embedded AWS services, the functions, the gateway and the event sources.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Value, json};
use shared::api_key::ApiKeys;
use shared::clock::Clock;
use shared::store::Store;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Notify};

use crate::embedded::fault_proxy::FaultProxy;
use crate::embedded::{ACCESS_KEY, Embedded, Endpoints, REGION, SECRET_KEY, State};
use crate::error::{Error, Result};
use crate::event_sources::{Dependencies, EventSources};
use crate::functions::{MAIL_DIRECTORY, functions};
use crate::gateway::Gateway;
use crate::guard::{self, AllowedHost};
use crate::lambda::Functions;
use crate::provision::provision;
use crate::sdk;
use crate::seed::{Seed, write_whole};
use crate::template::{Names, Template, bucket_name};

/// The furthest that the clock moves at once: ten years, in seconds.
const MAX_ADVANCE_SECONDS: i64 = 10 * 366 * 24 * 60 * 60;

/// 2100-01-01T00:00:00Z, in milliseconds since 1970: where the clock ends.
const CLOCK_ENDS_MS: i64 = 4_102_444_800_000;

/// The table and the bucket that the ready file names.
const STATE_TABLE: &str = "StateTable";
pub(crate) const API_KEYS_TABLE: &str = "ApiKeysTable";
const BUCKET: &str = "DocumentsBucket";

/// Who mails are from on this machine, where they go to nobody.
const MAIL_FROM: &str = "avisos@pagamentos.example";

/// How to run the service.
#[derive(Debug)]
pub struct Options {
    /// Where its state is kept.
    pub state: State,
    /// Its port on the loopback interface; 0 takes a free one.
    pub port: u16,
    /// Puts a [`FaultProxy`] between the functions and DynamoDB.
    pub fault_proxy: bool,
    /// Runs the event sources (streams, queues, schedules). Without them, only HTTP requests invoke functions.
    pub event_sources: bool,
    /// Where the mails to accounts' contacts are put, a file each; `None`: they are only logged.
    pub mails: Option<PathBuf>,
    /// Hosts that webhooks may go to as they may to loopback, between commas: `host.docker.internal`.
    pub webhook_local_names: String,
    /// Hosts by which `/_local/*` may be called, beside loopback.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Values of the template's parameters that are not this machine's own.
    pub parameters: BTreeMap<String, String>,
}

impl Options {
    /// On a free port, with no state kept.
    pub fn in_memory() -> Self {
        Self {
            state: State::InMemory,
            port: 0,
            fault_proxy: false,
            event_sources: true,
            mails: None,
            webhook_local_names: String::new(),
            allowed_hosts: Vec::new(),
            parameters: BTreeMap::new(),
        }
    }
}

/// The running service. It ends when this is dropped.
#[derive(Debug)]
pub struct Stack {
    /// Where it serves.
    pub base_url: String,
    /// Where its embedded parts serve.
    pub endpoints: Endpoints,
    /// What was seeded.
    pub seed: Seed,
    /// Its clock.
    pub clock: Clock,
    /// Its functions.
    pub functions: Functions,
    /// The proxy in front of DynamoDB, if [`Options::fault_proxy`] is set.
    pub fault_proxy: Option<FaultProxy>,
    gateway: Gateway,
    event_sources: Option<EventSources>,
    embedded: Embedded,
}

/// What the ready file says: all that a program needs to use the service.
#[derive(Debug, Serialize)]
pub struct Ready<'a> {
    base_url: &'a str,
    test_api_key: &'a str,
    live_api_key: &'a str,
    dashboard: Dashboard<'a>,
    member_token: String,
    other_account: OtherAccount<'a>,
    dynamodb_url: &'a str,
    sqs_url: &'a str,
    s3_url: &'a str,
    table: &'static str,
    bucket: String,
}

#[derive(Debug, Serialize)]
struct Dashboard<'a> {
    email: &'a str,
    password: &'a str,
    token: String,
}

#[derive(Debug, Serialize)]
struct OtherAccount<'a> {
    test_api_key: &'a str,
    live_api_key: &'a str,
    token: String,
}

impl Stack {
    /// Starts everything; once this returns, it serves.
    ///
    /// # Errors
    ///
    /// When the port is taken, the state can't be read, or the template asks for what is not here.
    pub async fn start(options: Options) -> Result<Self> {
        // The port first: whatever else there is to say, a service that runs already is the likeliest.
        let listener =
            TcpListener::bind(("127.0.0.1", options.port)).await.map_err(|e| port_taken(options.port, &e))?;
        let address = listener.local_addr().map_err(|e| Error::because("listening", &e))?;
        let base_url = format!("http://{address}");
        let template = Template::deployed()?;
        let directory = options.state.directory();
        let clock_file = directory.map(|directory| directory.join("clock.json"));
        let clock = restored_clock(clock_file.as_ref())?;
        let embedded = Embedded::start(&options.state, &clock).await?;
        let endpoints = embedded.endpoints();
        provision(&template, &endpoints).await?;

        let seed = Seed::load_or_make(directory.map(PathBuf::as_path))?;
        let store = Store::new(sdk::dynamodb(&endpoints.dynamodb_url), STATE_TABLE);
        let api_keys = ApiKeys::new(store.clone(), API_KEYS_TABLE);
        seed.plant(&store, &api_keys, clock.now()).await?;

        let fault_proxy =
            if options.fault_proxy { Some(FaultProxy::start(&endpoints.dynamodb_url).await?) } else { None };
        let dynamodb_url =
            fault_proxy.as_ref().map_or_else(|| endpoints.dynamodb_url.clone(), FaultProxy::url);
        let mut parameters = BTreeMap::from([
            ("CheckoutBaseUrl".to_owned(), format!("{base_url}/checkout")),
            ("MailFrom".to_owned(), MAIL_FROM.to_owned()),
        ]);
        parameters.extend(options.parameters);
        let names = Names {
            parameters,
            secrets: BTreeMap::from([(
                "DashboardTokenSecret".to_owned(),
                seed.token_secret().expose_secret().to_owned(),
            )]),
            sqs_url: endpoints.sqs_url.clone(),
        };
        let mut environment = lambda_environment(&endpoints, dynamodb_url);
        environment.insert("WEBHOOK_LOCAL_NAMES".to_owned(), options.webhook_local_names);
        if let Some(mails) = options.mails {
            environment.insert(MAIL_DIRECTORY.to_owned(), mails.to_string_lossy().into_owned());
        }
        let functions = functions(&template, &names, &environment, &clock)?;
        let run_schedules_now = Arc::new(Notify::new());
        let local = LocalState {
            clock: clock.clone(),
            clock_file,
            run_schedules_now: Arc::clone(&run_schedules_now),
            advancing: Arc::default(),
        };
        let local = local_routes(local, options.allowed_hosts);
        let gateway = Gateway::start(listener, &template, &functions, local)?;
        let dependencies = Dependencies {
            template: &template,
            functions: &functions,
            endpoints: &endpoints,
            directory,
            clock: &clock,
            run_schedules_now: &run_schedules_now,
        };
        let event_sources =
            if options.event_sources { Some(EventSources::start(dependencies)?) } else { None };
        Ok(Self {
            base_url,
            endpoints,
            seed,
            clock,
            functions,
            fault_proxy,
            gateway,
            event_sources,
            embedded,
        })
    }

    /// What the ready file says.
    pub fn ready(&self) -> Result<Ready<'_>> {
        let now = self.clock.now();
        let (first, other) = (&self.seed.first, &self.seed.other);
        Ok(Ready {
            base_url: &self.base_url,
            test_api_key: &first.test_api_key,
            live_api_key: &first.live_api_key,
            dashboard: Dashboard {
                email: &first.owner_email,
                password: &first.password,
                token: self.seed.owner_token(first, now)?,
            },
            member_token: self.seed.member_token(now)?,
            other_account: OtherAccount {
                test_api_key: &other.test_api_key,
                live_api_key: &other.live_api_key,
                token: self.seed.owner_token(other, now)?,
            },
            dynamodb_url: &self.endpoints.dynamodb_url,
            sqs_url: &self.endpoints.sqs_url,
            s3_url: &self.endpoints.s3_url,
            table: STATE_TABLE,
            bucket: bucket_name(BUCKET),
        })
    }

    /// Stops polling the queues. Returns when the messages already received are processed.
    pub async fn stop_queues(&self) {
        if let Some(event_sources) = &self.event_sources {
            event_sources.stop_queues().await;
        }
    }

    /// Stops everything in order: no request or event in progress is cut short.
    pub async fn stop(self) {
        self.gateway.stop().await;
        if let Some(event_sources) = self.event_sources {
            event_sources.stop().await;
        }
        self.embedded.stop().await;
    }
}

fn port_taken(port: u16, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Error::new(format!(
            "port {port} is in use; stop what uses it, or choose another with --port (0: any)"
        )),
        _ => Error::because(&format!("listening on port {port}"), error),
    }
}

/// What Lambda itself puts into a function's environment, and what only this machine allows.
fn lambda_environment(endpoints: &Endpoints, dynamodb_url: String) -> BTreeMap<String, String> {
    [
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_url),
        ("AWS_ENDPOINT_URL_SQS", endpoints.sqs_url.clone()),
        ("AWS_ENDPOINT_URL_S3", endpoints.s3_url.clone()),
        ("WEBHOOK_ADDRESSES", "loopback".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The clock as it was last moved: rows of a future that was reached must not lie ahead again.
fn restored_clock(file: Option<&PathBuf>) -> Result<Clock> {
    let clock = Clock::default();
    if let Some(text) = file.and_then(|file| std::fs::read(file).ok()) {
        let offset_ms: i64 =
            serde_json::from_slice(&text).map_err(|e| Error::because("reading clock.json", &e))?;
        clock.advance(offset_ms);
    }
    Ok(clock)
}

/// What the routes of this machine alone work with.
#[derive(Clone)]
struct LocalState {
    clock: Clock,
    clock_file: Option<PathBuf>,
    run_schedules_now: Arc<Notify>,
    advancing: Arc<Mutex<()>>,
}

fn local_routes(state: LocalState, allowed_hosts: Vec<AllowedHost>) -> Router {
    let guard = axum::middleware::from_fn_with_state(Arc::from(allowed_hosts), guard::guard);
    Router::new()
        .route("/_local/clock/advance", post(advance))
        .fallback(async || (StatusCode::NOT_FOUND, Json(json!({"error": "no such route"}))))
        .layer(guard)
        .with_state(state)
}

/// `POST /_local/clock/advance {"seconds": 60}` moves the service's clock forward; 200 `{"now": …}`.
async fn advance(Shared(state): Shared<LocalState>, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let seconds = body.get("seconds").and_then(Value::as_i64);
    let Some(seconds) = seconds.filter(|seconds| (0..=MAX_ADVANCE_SECONDS).contains(seconds)) else {
        let error = format!("seconds must be an integer from 0 to {MAX_ADVANCE_SECONDS}");
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    };
    let _one_at_a_time = state.advancing.lock().await;
    let milliseconds = seconds.saturating_mul(1000);
    if !state.clock.now().plus_millis(milliseconds).is_ok_and(|then| then.millis() < CLOCK_ENDS_MS) {
        // What is kept for years must not end after the last date that there is.
        let error = "the clock goes no further than the year 2100";
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    if let Some(file) = &state.clock_file {
        // Kept first: a future that was reached and forgotten would lie ahead again.
        let offset_ms = state.clock.offset_ms().saturating_add(milliseconds);
        if let Err(error) = write_whole(file, offset_ms.to_string().as_bytes()) {
            let error = format!("the clock was not moved: {error}");
            return (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": error }))).into_response();
        }
    }
    state.clock.advance(milliseconds);
    state.run_schedules_now.notify_one();
    Json(json!({"now": state.clock.now().to_iso()})).into_response()
}
