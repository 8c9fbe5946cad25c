//! `cargo bench -p local --bench instructions --profile dev`: counts the instructions that the deployed functions
//! execute for one charge, one read of a charge, one batch of ten stream records and one delivery of a webhook,
//! and from the start of a function to its first response over TLS. It also prints the sizes of the functions.
//!
//! As baselines, it counts the DynamoDB requests of the charge sent by the AWS SDK alone, and by a Lambda
//! function that does nothing else.
//!
//! The benchmark needs valgrind. Each function runs as a separate process under callgrind, with the embedded
//! services and a replacement of the Lambda Runtime API. Instruction counts vary by less than 1 % between
//! runs, unlike durations on a shared machine. Only the measured binaries must be optimised, and this program
//! builds them with the profile `lambda`. The program itself runs with `--profile dev`, so that it shares the
//! build of the tests.
//!
//! The counts contain no instructions of the kernel. Except for the start, they contain no TLS, because requests
//! to the embedded services use plain HTTP. callgrind has no instructions for SHA-256, which processors of
//! Lambda have, so the counts are higher than there.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark that fails may panic, and prints"
)]

#[path = "../tests/service/merchant.rs"]
#[allow(dead_code, reason = "other programs use more of this module")]
mod merchant;

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use axum::Router;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use local::embedded::{ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY};
use local::event_sources::{sequence_number, stream_records};
use local::stack::{Options, Stack};
use local::template::{Template, queue_arn, queue_url};
use local::wire::http_client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use uuid::Uuid;

use self::merchant::{Merchant, webhook_server};

/// The number of repetitions of each measurement.
const REPETITIONS: usize = 2;

/// The timeout of a run. Under callgrind, an invocation takes about 30 ms.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// Prefixes of variables that cargo sets for this program. They are not passed on to the builds, because
/// build scripts watch some of them and would run again.
const SET_BY_CARGO: [&str; 4] = ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_"];

const API_VERSION: &str = "/2018-06-01/runtime";

/// The root certificates that the functions trust.
const AMAZON_ROOTS: &str = include_str!("../../shared/src/store/amazon-roots.pem");

/// A measured function: its logical id in the template, its binary, and the numbers of invocations in two runs.
/// The difference of the runs' counts contains only warm invocations, because the instructions of the start
/// cancel out.
#[derive(Clone, Copy)]
struct Function {
    logical_id: &'static str,
    binary: &'static str,
    few: usize,
    many: usize,
}

const CHARGES: Function = Function { logical_id: "ChargesFunction", binary: "charges", few: 20, many: 120 };
const DISPATCHER: Function =
    Function { logical_id: "EventDispatcherFunction", binary: "event-dispatcher", few: 4, many: 24 };
const WORKER: Function =
    Function { logical_id: "WebhookWorkerFunction", binary: "webhook-worker", few: 20, many: 80 };

/// The number of stream records in a batch.
const BATCH: usize = 10;

/// Count the instructions of the deployed functions with callgrind.
#[derive(Parser)]
struct Arguments {
    /// Measure the binaries in this directory instead of building them (absolute path)
    #[arg(long, value_name = "DIRECTORY")]
    binaries: Option<PathBuf>,
    /// Cargo profile of the binaries that this program builds
    #[arg(long, default_value = "lambda")]
    build_profile: String,
    /// Keep callgrind's files in this directory (absolute path), for `callgrind_annotate`, which needs a
    /// binary with symbols
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// The argument that cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

/// Returns the path of a program: the given one, or a new build.
async fn program(arguments: &Arguments, kind: &str, name: &str) -> PathBuf {
    match &arguments.binaries {
        Some(directory) => directory.join(name),
        None => build(kind, name, &arguments.build_profile).await,
    }
}

/// Builds a program as `Makefile` builds the functions, with the same features of all libraries. Returns its
/// path.
async fn build(kind: &str, name: &str, profile: &str) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--locked",
            "--workspace",
            "--exclude",
            "local",
            "--exclude",
            "admin",
            "--exclude",
            "faults",
        ])
        .args([kind, name, "--profile", profile, "--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped());
    for (variable, _) in std::env::vars_os() {
        if SET_BY_CARGO.iter().any(|prefix| variable.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(variable);
        }
    }
    // Cargo's progress is visible, because a first build takes minutes.
    let cargo = cargo.spawn().expect("running cargo");
    let built = cargo.wait_with_output().await.unwrap();
    assert!(built.status.success(), "{name} was not built");
    String::from_utf8(built.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .unwrap_or_else(|| panic!("cargo built no program {name}"))
}

/// A replacement of the Lambda Runtime API for one function process.
struct RuntimeApi {
    address: SocketAddr,
    /// Receives one result: `Ok` after the function's last response, or the reason of a failure.
    ended: mpsc::UnboundedReceiver<Result<(), String>>,
    server: tokio::task::JoinHandle<()>,
}

struct Invocations {
    function: Function,
    /// The events that are still to be offered.
    events: Mutex<VecDeque<Value>>,
    ended: mpsc::UnboundedSender<Result<(), String>>,
}

impl RuntimeApi {
    /// Starts the API. It offers the events one after the other.
    async fn start(function: Function, events: Vec<Value>) -> Self {
        let (sender, ended) = mpsc::unbounded_channel();
        let state = Arc::new(Invocations { function, events: Mutex::new(events.into()), ended: sender });
        let router = Router::new()
            .route(&format!("{API_VERSION}/invocation/next"), get(next))
            .route(&format!("{API_VERSION}/invocation/{{id}}/response"), post(answer))
            // `…/invocation/{id}/error` and `…/init/error`.
            .fallback(fail)
            .with_state(state);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, ended, server }
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn next(Shared(invocations): Shared<Arc<Invocations>>) -> Response {
    let event = invocations.events.lock().unwrap().pop_front();
    let Some(event) = event else {
        // Never responds, so that the function waits and executes no more instructions.
        let _ = invocations.ended.send(Ok(()));
        return pending().await;
    };
    let deadline = now().timestamp_millis() + 20_000;
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("lambda-runtime-aws-request-id", Uuid::new_v4().to_string()),
        ("lambda-runtime-deadline-ms", deadline.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            format!(
                "arn:aws:lambda:{REGION}:{ACCOUNT}:function:payments-{}",
                invocations.function.logical_id
            ),
        ),
        (
            "lambda-runtime-trace-id",
            "Root=1-6743f0a5-3d2f1c0b9a8e7d6c5b4a3f2e;Parent=53995c3f42cd8ad8;Sampled=0".to_owned(),
        ),
    ];
    (headers, event.to_string()).into_response()
}

fn now() -> chrono::DateTime<chrono::Utc> {
    SystemTime::now().into()
}

async fn answer(Shared(invocations): Shared<Arc<Invocations>>, body: Bytes) -> StatusCode {
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_success =
        [json!(200), json!(201)].contains(&answer["statusCode"]) || answer["batchItemFailures"] == json!([]);
    if !is_success {
        let _ = invocations.ended.send(Err(String::from_utf8_lossy(&body).into_owned()));
        return pending().await;
    }
    StatusCode::ACCEPTED
}

async fn fail(Shared(invocations): Shared<Arc<Invocations>>, uri: Uri, body: String) -> StatusCode {
    let _ = invocations.ended.send(Err(format!("{uri}: {body}")));
    pending().await
}

/// Returns an event of API Gateway's payload format 2.0, with the headers of a typical client and those that
/// API Gateway adds.
fn event(key: &str, method: &str, route: &str, path: &str, body: &str) -> Value {
    let route = format!("{method} {route}");
    let host = "a1b2c3d4e5.execute-api.sa-east-1.amazonaws.com";
    let agent = "python-requests/2.32.3";
    let now = now();
    json!({
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "accept": "*/*",
            "accept-encoding": "gzip, deflate",
            "apikey": key,
            "content-length": body.len().to_string(),
            "content-type": "application/json",
            "host": host,
            "idempotency-key": Uuid::new_v4().to_string(),
            "user-agent": agent,
            "x-amzn-trace-id": "Root=1-6743f0a5-3d2f1c0b9a8e7d6c5b4a3f2e",
            "x-forwarded-for": "203.0.113.25",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        },
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "a1b2c3d4e5",
            "domainName": host,
            "domainPrefix": "a1b2c3d4e5",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.25",
                "userAgent": agent,
            },
            "requestId": "BkZ0wiDxGjQEJwA=",
            "routeKey": route,
            "stage": "$default",
            "time": now.format("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            "timeEpoch": now.timestamp_millis(),
        },
        "body": body,
        "isBase64Encoded": false,
    })
}

/// A proxy in front of DynamoDB that records the requests.
#[derive(Clone)]
struct Recorder {
    upstream: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Recorder {
    /// Starts the proxy, which runs until this program ends. Also returns its URL.
    async fn start(upstream: &str) -> (Self, String) {
        let recorder = Self { upstream: upstream.to_owned(), requests: Arc::default() };
        let router = Router::new().fallback(record).with_state(recorder.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (recorder, url)
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

async fn record(Shared(recorder): Shared<Recorder>, headers: HeaderMap, body: Bytes) -> Response {
    let sent = json!({
        "target": headers["x-amz-target"].to_str().unwrap(),
        "body": serde_json::from_slice::<Value>(&body).unwrap(),
    });
    recorder.requests.lock().unwrap().push(sent);
    let mut request = Request::post(&recorder.upstream);
    for name in ["authorization", "content-type", "x-amz-date", "x-amz-target"] {
        request = request.header(name, &headers[name]);
    }
    let answer = http_client().request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    (head.status, body.collect().await.unwrap().to_bytes()).into_response()
}

/// Requests of a key to the API, as events of the function `charges`.
struct Requests {
    key: String,
    /// The id of a charge.
    charge: String,
}

impl Requests {
    fn create(&self) -> Value {
        let body = json!({"amount": 1990, "description": "Pedido 1042"}).to_string();
        event(&self.key, "POST", "/v1/pix/charges", "/v1/pix/charges", &body)
    }

    fn read(&self) -> Value {
        event(&self.key, "GET", "/v1/charges/{id}", &format!("/v1/charges/{}", self.charge), "")
    }
}

/// Returns the records of the stream that the dispatcher receives, after the one with this sequence number.
async fn records_after(stack: &Stack, after: Option<&str>) -> Vec<Value> {
    let template = Template::deployed().unwrap();
    let stream = &template.function(DISPATCHER.logical_id).unwrap().streams[0];
    let mut records = stream_records(&stack.endpoints.dynamodb_url, &stream.table, after).await.unwrap();
    records.retain(|record| stream.filters.iter().any(|filter| filter.matches(record)));
    records
}

/// Returns batches of records of the stream: each the creation of ten charges.
async fn batches(stack: &Stack, merchant: &Merchant, count: usize) -> Vec<Value> {
    let earlier = records_after(stack, None).await;
    let last = earlier.last().and_then(sequence_number);
    for order in 0..count * BATCH {
        merchant.create(order).await;
    }
    let records = records_after(stack, last).await;
    assert_eq!(records.len(), count * BATCH, "each charge must have one record");
    records.chunks(BATCH).map(|batch| json!({ "Records": batch })).collect()
}

/// Dispatches the records of new deliveries, which sends their messages. Returns the messages of the worker's
/// queues, each as one event.
async fn messages(stack: &Stack) -> Vec<Value> {
    let template = Template::deployed().unwrap();
    let is_delivery =
        |record: &Value| record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().starts_with("delivery#");
    let mut records = records_after(stack, None).await;
    records.retain(is_delivery);
    let dispatcher = stack.functions.get(DISPATCHER.logical_id).unwrap();
    for batch in records.chunks(BATCH) {
        let answer = dispatcher(json!({ "Records": batch })).await.unwrap();
        assert_eq!(answer["batchItemFailures"], json!([]));
    }
    let sqs = local::sdk::sqs(&stack.endpoints.sqs_url);
    let mut events = Vec::new();
    for source in &template.function(WORKER.logical_id).unwrap().queues {
        let url = queue_url(&stack.endpoints.sqs_url, &source.queue);
        loop {
            let received = sqs
                .receive_message()
                .queue_url(&url)
                .max_number_of_messages(10)
                .message_system_attribute_names(MessageSystemAttributeName::All);
            let messages = received.send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                break;
            }
            let event = |message: &Message| {
                let attributes = message.attributes().unwrap().iter();
                let attributes = attributes.map(|(name, value)| (name.as_str().to_owned(), json!(value)));
                json!({ "Records": [{
                    "messageId": message.message_id(),
                    "receiptHandle": message.receipt_handle(),
                    "body": message.body(),
                    "attributes": attributes.collect::<serde_json::Map<_, _>>(),
                    "messageAttributes": {},
                    "eventSource": "aws:sqs",
                    "eventSourceARN": queue_arn(&source.queue),
                }] })
            };
            events.extend(messages.iter().map(event));
        }
    }
    events
}

/// A server that terminates TLS and forwards connections, as the endpoint of an AWS service. Its chain has a
/// root, an intermediate and a leaf, as Amazon's have.
struct Tls {
    root: String,
    server: TlsAcceptor,
}

impl Tls {
    fn new() -> Self {
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let root = CertifiedIssuer::self_signed(authority("root"), KeyPair::generate().unwrap()).unwrap();
        let intermediate =
            CertifiedIssuer::signed_by(authority("intermediate"), KeyPair::generate().unwrap(), &root)
                .unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &intermediate).unwrap();
        let chain = vec![leaf.der().clone(), intermediate.der().clone()];
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        Self { root: root.pem(), server: TlsAcceptor::from(Arc::new(config)) }
    }

    /// Starts a server in front of `upstream`. Returns its URL.
    async fn serve(&self, upstream: &str) -> String {
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let server = self.server.clone();
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (server, upstream) = (server.clone(), upstream.clone());
                tokio::spawn(async move {
                    let mut connection = server.accept(connection).await.expect("a handshake");
                    let mut upstream = TcpStream::connect(upstream).await.unwrap();
                    // An error is the end of the function's process.
                    let _ = tokio::io::copy_bidirectional(&mut connection, &mut upstream).await;
                });
            }
        });
        url
    }

    /// Copies a function. In the copy, the server's root replaces the first of the trusted roots. The functions
    /// trust no other roots, and no setting changes that.
    fn trusting(&self, binary: &Path, copy: &Path) {
        let end = "-----END CERTIFICATE-----\n";
        let first = AMAZON_ROOTS.get(..AMAZON_ROOTS.find(end).unwrap() + end.len()).unwrap();
        let mut bytes = std::fs::read(binary).unwrap();
        let at = bytes.windows(first.len()).position(|window| window == first.as_bytes());
        let at = at.expect("the function does not contain the root certificates");
        let place = &mut bytes[at..at + first.len()];
        place.fill(b'\n');
        place[..self.root.len()].copy_from_slice(self.root.as_bytes());
        std::fs::write(copy, bytes).unwrap();
        std::fs::set_permissions(copy, std::fs::metadata(binary).unwrap().permissions()).unwrap();
    }
}

/// The settings that all runs share.
struct Harness {
    /// The directory of the recorded requests and callgrind's files.
    directory: PathBuf,
    /// The variables of each function by its logical id.
    variables: Value,
}

impl Harness {
    /// Returns the environment of a function: the variables of the template, and those that Lambda sets.
    fn environment(&self, function: Function) -> BTreeMap<String, String> {
        let variables = self.variables[function.logical_id].as_object().unwrap().iter();
        let mut environment: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        let of_lambda = [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
            ("AWS_LAMBDA_FUNCTION_NAME", "payments-Function"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "payments"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/21/[$LATEST]0123456789abcdef0123456789abcdef"),
            ("AWS_REGION", REGION),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("METRICS_NAMESPACE", "payments"),
        ];
        environment.extend(of_lambda.map(|(name, value)| (name.to_owned(), value.to_owned())));
        environment
    }

    /// Runs a program under callgrind. Returns the number of instructions.
    async fn count(&self, name: &str, run: &Run<'_>) -> f64 {
        let file = self.directory.join(format!("callgrind.{name}"));
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--cache-sim=no", "--branch-sim=no", "--quiet"])
            .arg(format!("--callgrind-out-file={}", file.display()));
        self.run(valgrind, run).await;
        let profile = std::fs::read_to_string(&file).expect("callgrind left no file");
        let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        totals.expect("callgrind counted nothing").trim().parse().unwrap()
    }

    /// Runs a program with `command`, which is valgrind or `env`.
    async fn run(&self, mut command: Command, run: &Run<'_>) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment(run.function))
            .envs(run.variables.iter().map(|(name, value)| (name, value)))
            .arg(run.binary)
            .args(&run.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let running = async {
            if let Some(events) = &run.events {
                invoke(run.function, &mut command, events.clone()).await;
            } else {
                let status = command.status().await.expect("starting the baseline");
                assert!(status.success(), "the baseline failed: {status}");
            }
        };
        tokio::time::timeout(RUN_TIMEOUT, running).await.expect("a run took too long");
    }

    /// Counts the instructions of one warm invocation. `events` returns that many events.
    async fn warm(
        &self,
        name: &str,
        function: Function,
        mut run: impl FnMut(usize) -> Run<'static>,
    ) -> Figures {
        let mut figures = Figures::default();
        for repetition in 1..=REPETITIONS {
            let mut counts = [0.0; 2];
            for (count, rounds) in counts.iter_mut().zip([function.few, function.many]) {
                *count = self.count(&format!("{name}.{rounds}.{repetition}"), &run(rounds)).await;
            }
            figures.0.push((counts[1] - counts[0]) / (function.many - function.few) as f64);
        }
        figures
    }
}

/// A run of a program.
struct Run<'a> {
    function: Function,
    binary: &'a Path,
    arguments: Vec<String>,
    /// The events of a Lambda function; `None`: the program is not one.
    events: Option<Vec<Value>>,
    /// Variables that replace those of the function.
    variables: Vec<(String, String)>,
}

impl<'a> Run<'a> {
    fn of(function: Function, binary: &'a Path, events: Vec<Value>) -> Self {
        Self { function, binary, arguments: Vec::new(), events: Some(events), variables: Vec::new() }
    }
}

/// Starts a function, and stops it after its response to the last event.
async fn invoke(function: Function, command: &mut Command, events: Vec<Value>) {
    let mut api = RuntimeApi::start(function, events).await;
    let command = command.env("AWS_LAMBDA_RUNTIME_API", api.address.to_string());
    let mut process = command.spawn().expect("starting the function");
    tokio::select! {
        ended = api.ended.recv() => {
            if let Err(response) = ended.unwrap() {
                panic!("{} failed: {response}", function.logical_id);
            }
        }
        status = process.wait() => panic!("the function ended by itself: {status:?}"),
    }
    // Stops it with SIGTERM, because callgrind writes its file on that signal.
    let id = process.id().expect("a running function").to_string();
    let sent = Command::new("kill").arg(id).status().await.expect("running kill");
    assert!(sent.success(), "the function was not stopped");
    process.wait().await.unwrap();
}

/// Numbers of instructions, one for each repetition.
#[derive(Default)]
struct Figures(Vec<f64>);

impl Figures {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the difference of maximum and minimum as a share of the mean.
    fn spread(&self) -> f64 {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.0.iter().copied().fold(0.0, f64::max);
        (greatest - least) / self.mean()
    }

    fn print(&self, what: &str, baseline: f64) {
        println!(
            "{what:<44} {:>12.0} K {:>7.2} {:>8.2} %",
            self.mean() / 1_000.0,
            self.mean() / baseline,
            self.spread() * 100.0
        );
    }
}

/// Removes the key of the inserted row from the requests, because each run inserts another row.
fn without_key(requests: &[Value]) -> Vec<Value> {
    let mut requests = requests.to_vec();
    for request in &mut requests {
        if let Some(item) = request["body"].get_mut("Item").and_then(Value::as_object_mut) {
            item.remove("pk");
        }
    }
    requests
}

/// Prints the size of a function, and its size after DEFLATE at level 6, which is `zip`'s.
fn print_size(name: &str, binary: &Path) {
    let bytes = std::fs::read(binary).unwrap();
    let zipped = miniz_oxide::deflate::compress_to_vec(&bytes, 6).len();
    println!("{name:<44} {:>12.2} MB {:>12.2} MB zipped", bytes.len() as f64 / 1e6, zipped as f64 / 1e6);
}

async fn measure(arguments: &Arguments, directory: &Path) {
    let baseline: &'static Path = program(arguments, "--example", "sdk_calls").await.leak();
    let charges: &'static Path = program(arguments, "--bin", CHARGES.binary).await.leak();
    let dispatcher: &'static Path = program(arguments, "--bin", DISPATCHER.binary).await.leak();
    let worker: &'static Path = program(arguments, "--bin", WORKER.binary).await.leak();
    let began = Instant::now();
    let stack = Stack::start(Options { event_sources: false, ..Options::in_memory() }).await.unwrap();
    let harness = Harness {
        directory: directory.to_owned(),
        variables: serde_json::to_value(stack.environment_file("127.0.0.1", "").unwrap()).unwrap(),
    };
    let merchant = Merchant::of(&stack);
    let (endpoint, received) = webhook_server(StatusCode::NO_CONTENT).await;
    merchant.register_endpoint(&endpoint, &["charge.created", "charge.paid"]).await;
    let requests =
        Requests { key: stack.seed.first.test_api_key.clone(), charge: merchant.create(usize::MAX).await };
    let create = |count: usize| (0..count).map(|_| requests.create()).collect::<Vec<_>>();

    let recorder = Recorder::start(&stack.endpoints.dynamodb_url).await;
    let recorded_by = ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), recorder.1.clone());
    let run = Run { variables: vec![recorded_by.clone()], ..Run::of(CHARGES, charges, create(1)) };
    harness.run(Command::new("env"), &run).await;
    let first_sent = recorder.0.take();
    let file = directory.join("requests.json").to_str().unwrap().to_owned();
    std::fs::write(&file, json!(first_sent).to_string()).unwrap();
    let sdk_calls = |rounds: usize| Run {
        function: CHARGES,
        binary: baseline,
        arguments: vec![file.clone(), rounds.to_string()],
        events: None,
        variables: Vec::new(),
    };
    harness.run(Command::new("env"), &Run { variables: vec![recorded_by], ..sdk_calls(1) }).await;
    let sent = recorder.0.take();
    assert_eq!(without_key(&sent), without_key(&first_sent), "the baseline must send the same requests");

    let alone = harness.warm("sdk-calls", CHARGES, sdk_calls).await;
    let bare = |rounds| Run { arguments: vec![file.clone()], ..Run::of(CHARGES, baseline, create(rounds)) };
    let bare = harness.warm("bare-function", CHARGES, bare).await;
    let post = harness.warm("post", CHARGES, |rounds| Run::of(CHARGES, charges, create(rounds))).await;
    let reads = |rounds: usize| (0..rounds).map(|_| requests.read()).collect();
    let read = harness.warm("get", CHARGES, |rounds| Run::of(CHARGES, charges, reads(rounds))).await;

    // One more batch and one more message are for the starts.
    let mut records = batches(&stack, &merchant, REPETITIONS * (DISPATCHER.few + DISPATCHER.many) + 1).await;
    let mut take = |count: usize| records.split_off(records.len() - count);
    let dispatch =
        harness.warm("dispatch", DISPATCHER, |rounds| Run::of(DISPATCHER, dispatcher, take(rounds))).await;
    let mut deliveries = messages(&stack).await;
    let mut take_delivery = |count: usize| deliveries.split_off(deliveries.len() - count);
    let deliver =
        harness.warm("deliver", WORKER, |rounds| Run::of(WORKER, worker, take_delivery(rounds))).await;
    let posted = REPETITIONS * (WORKER.few + WORKER.many);
    assert_eq!(received.lock().unwrap().len(), posted, "each message must be posted once");

    let tls = Tls::new();
    let variables = vec![
        ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), tls.serve(&stack.endpoints.dynamodb_url).await),
        ("AWS_ENDPOINT_URL_SQS".to_owned(), tls.serve(&stack.endpoints.sqs_url).await),
    ];
    let mut starts = Vec::new();
    for (function, binary, events) in
        [(CHARGES, charges, create(1)), (DISPATCHER, dispatcher, take(1)), (WORKER, worker, take_delivery(1))]
    {
        let copy = directory.join(format!("{}-with-another-root", function.binary));
        tls.trusting(binary, &copy);
        let run = Run { variables: variables.clone(), ..Run::of(function, &copy, events) };
        let count = harness.count(&format!("start.{}", function.binary), &run).await;
        starts.push((function, Figures(vec![count])));
    }

    println!("\n{REPETITIONS} repetitions in {:.0?}, profile {}\n", began.elapsed(), arguments.build_profile);
    println!("{:<44} {:>14} {:>7} {:>10}", "", "instructions", "ratio", "spread");
    alone.print(&format!("the {} DynamoDB requests of a charge by the SDK", first_sent.len()), alone.mean());
    bare.print("a bare Lambda function that sends them", alone.mean());
    post.print("POST /v1/pix/charges", alone.mean());
    read.print("GET /v1/charges/{id}", alone.mean());
    dispatch.print(&format!("dispatch of {BATCH} new charges"), alone.mean());
    deliver.print("one delivery", alone.mean());
    for (function, start) in &starts {
        start.print(&format!("{}: start to first response, TLS", function.binary), alone.mean());
    }
    println!();
    for (function, binary) in [(CHARGES, charges), (DISPATCHER, dispatcher), (WORKER, worker)] {
        print_size(function.binary, binary);
    }
    stack.stop().await;
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().await;
    if !found.is_ok_and(|status| status.success()) {
        eprintln!(
            "valgrind is not installed. This benchmark needs it: `apt-get install valgrind`, for example."
        );
        return ExitCode::FAILURE;
    }
    let temporary = std::env::temp_dir().join(format!("instructions-{}", std::process::id()));
    let directory = arguments.keep.as_ref().unwrap_or(&temporary);
    std::fs::create_dir_all(directory).unwrap();
    measure(&arguments, directory).await;
    if arguments.keep.is_none() {
        std::fs::remove_dir_all(&temporary).unwrap();
    }
    ExitCode::SUCCESS
}
