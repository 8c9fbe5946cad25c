//! Starts and stops the whole service: the embedded AWS services, the functions, the gateway and the event
//! sources.

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
use crate::functions::{MAIL_DIRECTORY, create_functions};
use crate::gateway::Gateway;
use crate::guard::{self, AllowedHost};
use crate::lambda::Functions;
use crate::provision::provision;
use crate::sdk;
use crate::seed::{Seed, write_atomically};
use crate::template::{Template, TemplateValues, bucket_name};

/// The maximum number of seconds by which one request advances the clock: ten years of 366 days.
const MAX_ADVANCE_SECONDS: i64 = 10 * 366 * 24 * 60 * 60;

/// The time that the clock can't reach: 2100-01-01T00:00:00Z, in milliseconds since 1970.
const CLOCK_ENDS_MS: i64 = 4_102_444_800_000;

const STATE_TABLE: &str = "StateTable";
pub(crate) const API_KEYS_TABLE: &str = "ApiKeysTable";
const BUCKET: &str = "DocumentsBucket";

/// The sender address of emails. On this machine, emails are written to files or logged, but never sent.
const MAIL_FROM: &str = "avisos@pagamentos.example";

/// The options of the service.
#[derive(Debug)]
pub struct Options {
    /// The location of the state.
    pub state: State,
    /// The port on the loopback interface. 0: any free port.
    pub port: u16,
    /// Puts a [`FaultProxy`] between the functions and DynamoDB.
    pub fault_proxy: bool,
    /// Runs the event sources (streams, queues, schedules). Without them, only HTTP requests invoke
    /// functions.
    pub event_sources: bool,
    /// The directory for emails to accounts' contacts, one file each. `None`: emails are only logged.
    pub mail_directory: Option<PathBuf>,
    /// Host names, separated by commas, for example `host.docker.internal`. A webhook URL with one of these
    /// hosts may use plain http and any port, as a loopback URL may.
    pub webhook_local_names: String,
    /// Hosts that requests to `/_local/*` may name, besides loopback.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Values of the template's parameters. They override the values that the service sets itself.
    pub parameters: BTreeMap<String, String>,
}

impl Options {
    /// Returns the options for a service on a free port with its state in memory.
    pub fn in_memory() -> Self {
        Self {
            state: State::InMemory,
            port: 0,
            fault_proxy: false,
            event_sources: true,
            mail_directory: None,
            webhook_local_names: String::new(),
            allowed_hosts: Vec::new(),
            parameters: BTreeMap::new(),
        }
    }
}

/// The running service. Dropping this stops it.
#[derive(Debug)]
pub struct Stack {
    /// The base URL of the API.
    pub base_url: String,
    /// The URLs of the embedded services.
    pub endpoints: Endpoints,
    /// The seeded accounts, users and secrets.
    pub seed: Seed,
    /// The clock of all functions.
    pub clock: Clock,
    /// The functions by logical id.
    pub functions: Functions,
    /// The proxy in front of DynamoDB. `None` unless [`Options::fault_proxy`] is set.
    pub fault_proxy: Option<FaultProxy>,
    gateway: Gateway,
    event_sources: Option<EventSources>,
    embedded: Embedded,
}

/// The content of the ready file: everything that a program needs to use the service.
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
    /// Starts the service. The service accepts requests when this function returns.
    ///
    /// # Errors
    ///
    /// When the port is in use, the state can't be read, or the template uses an unsupported feature.
    pub async fn start(options: Options) -> Result<Self> {
        // Binds the port first, because a service that already runs is the most likely error.
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

        let seed = Seed::load_or_create(directory.map(PathBuf::as_path))?;
        let store = Store::new(sdk::dynamodb(&endpoints.dynamodb_url), STATE_TABLE);
        let api_keys = ApiKeys::new(store.clone(), API_KEYS_TABLE);
        seed.insert_rows(&store, &api_keys, clock.now()).await?;

        let fault_proxy =
            if options.fault_proxy { Some(FaultProxy::start(&endpoints.dynamodb_url).await?) } else { None };
        let dynamodb_url =
            fault_proxy.as_ref().map_or_else(|| endpoints.dynamodb_url.clone(), FaultProxy::url);
        let mut parameters = BTreeMap::from([
            ("CheckoutBaseUrl".to_owned(), format!("{base_url}/checkout")),
            ("MailFrom".to_owned(), MAIL_FROM.to_owned()),
        ]);
        parameters.extend(options.parameters);
        let values = TemplateValues {
            parameters,
            secrets: BTreeMap::from([(
                "DashboardTokenSecret".to_owned(),
                seed.token_secret().expose_secret().to_owned(),
            )]),
            sqs_url: endpoints.sqs_url.clone(),
        };
        let mut environment = lambda_environment(&endpoints, dynamodb_url);
        environment.insert("WEBHOOK_LOCAL_NAMES".to_owned(), options.webhook_local_names);
        if let Some(mails) = options.mail_directory {
            environment.insert(MAIL_DIRECTORY.to_owned(), mails.to_string_lossy().into_owned());
        }
        let functions = create_functions(&template, &values, &environment, &clock)?;
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

    /// Returns the content of the ready file, with new dashboard tokens.
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

    /// Stops polling the queues. Returns when the received messages are processed, or after a few seconds.
    pub async fn stop_queues(&self) {
        if let Some(event_sources) = &self.event_sources {
            event_sources.stop_queues().await;
        }
    }

    /// Stops the service: first the gateway, then the event sources, then the embedded services. Running
    /// requests and events have a few seconds to finish.
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
            "port {port} is in use; stop the program that uses it, or choose another port with --port (0: any free port)"
        )),
        _ => Error::because(&format!("listening on port {port}"), error),
    }
}

/// Returns the environment variables that Lambda sets, and those that exist only on this machine.
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

/// Restores the clock's offset from the state directory. Without the offset, rows of an earlier run could
/// have times in the future.
fn restored_clock(file: Option<&PathBuf>) -> Result<Clock> {
    let clock = Clock::default();
    if let Some(text) = file.and_then(|file| std::fs::read(file).ok()) {
        let offset_ms: i64 =
            serde_json::from_slice(&text).map_err(|e| Error::because("reading clock.json", &e))?;
        clock.advance(offset_ms);
    }
    Ok(clock)
}

/// The state of the routes under `/_local/`.
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
        // The limit leaves room for expiries, which can be years later and must be valid dates too.
        let error = "the clock goes no further than the year 2100";
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    if let Some(file) = &state.clock_file {
        // Saves the offset before it takes effect. Otherwise, a crash could leave rows with times that are
        // later than the time of the restarted clock.
        let offset_ms = state.clock.offset_ms().saturating_add(milliseconds);
        if let Err(error) = write_atomically(file, offset_ms.to_string().as_bytes()) {
            let error = format!("the clock was not moved: {error}");
            return (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": error }))).into_response();
        }
    }
    state.clock.advance(milliseconds);
    state.run_schedules_now.notify_one();
    Json(json!({"now": state.clock.now().to_iso()})).into_response()
}
