//! `cargo bench -p local --bench instructions --profile dev`: counts the instructions that the deployed
//! `charges` function executes for one `POST /v1/pix/charges`. For comparison, it counts two baselines: the
//! same DynamoDB requests sent by the AWS SDK alone, and sent by a Lambda function that does nothing else.
//!
//! The benchmark needs valgrind. The function runs as a separate process under callgrind, with the embedded
//! services and a replacement of the Lambda Runtime API. Instruction counts vary by less than 1 % between
//! runs, unlike durations on a shared machine. Only the measured binaries must be optimised, and this program
//! builds them with the profile `lambda`. The program itself runs with `--profile dev`, so that it shares the
//! build of the tests.
//!
//! The counts include no TLS, because requests to DynamoDB use plain HTTP, and no instructions of the kernel.
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

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

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
use local::stack::{Options, Stack};
use local::template::{Template, TemplateValues};
use local::wire::http_client;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;
use uuid::Uuid;

// The numbers of invocations in two runs. The difference of the runs' counts contains only warm invocations,
// because the instructions of the start cancel out.
const FEW: usize = 20;
const MANY: usize = 120;

/// The number of repetitions of each measurement.
const REPETITIONS: usize = 2;

/// The timeout of a run. Under callgrind, an invocation takes about 30 ms.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// Prefixes of variables that cargo sets for this program. They are not passed on to the builds, because
/// build scripts watch some of them and would run again.
const SET_BY_CARGO: [&str; 4] = ["CARGO_BIN_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_"];

const API_VERSION: &str = "/2018-06-01/runtime";

/// Count the instructions of one POST /v1/pix/charges with callgrind.
#[derive(Parser)]
struct Arguments {
    /// Measure this `charges` binary instead of building one (absolute path)
    #[arg(long, value_name = "PATH")]
    charges: Option<PathBuf>,
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
    key: String,
    total: usize,
    answered: AtomicUsize,
    ended: mpsc::UnboundedSender<Result<(), String>>,
}

impl RuntimeApi {
    /// Starts the API. It offers `total` invocations, each of which creates a charge with `key`.
    async fn start(key: &str, total: usize) -> Self {
        let (sender, ended) = mpsc::unbounded_channel();
        let answered = AtomicUsize::new(0);
        let state = Arc::new(Invocations { key: key.to_owned(), total, answered, ended: sender });
        let router = Router::new()
            .route(&format!("{API_VERSION}/invocation/next"), get(next))
            .route(&format!("{API_VERSION}/invocation/{{id}}/response"), post(answer))
            // `…/invocation/{id}/error` and `…/init/error`.
            .fallback(fail)
            .with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
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
    let id = Uuid::new_v4().to_string();
    let deadline = now().timestamp_millis() + 20_000;
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("lambda-runtime-aws-request-id", id),
        ("lambda-runtime-deadline-ms", deadline.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:payments-ChargesFunction"),
        ),
        (
            "lambda-runtime-trace-id",
            "Root=1-6743f0a5-3d2f1c0b9a8e7d6c5b4a3f2e;Parent=53995c3f42cd8ad8;Sampled=0".to_owned(),
        ),
    ];
    (headers, event(&invocations.key).to_string()).into_response()
}

fn now() -> chrono::DateTime<chrono::Utc> {
    SystemTime::now().into()
}

async fn answer(Shared(invocations): Shared<Arc<Invocations>>, body: Bytes) -> StatusCode {
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if answer["statusCode"] != 201 {
        let _ = invocations.ended.send(Err(String::from_utf8_lossy(&body).into_owned()));
        return pending().await;
    }
    if invocations.answered.fetch_add(1, Ordering::Relaxed) + 1 == invocations.total {
        // Never responds, so that the function waits and executes no more instructions.
        let _ = invocations.ended.send(Ok(()));
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
fn event(key: &str) -> Value {
    let body = json!({"amount": 1990, "description": "Pedido 1042"}).to_string();
    let host = "a1b2c3d4e5.execute-api.sa-east-1.amazonaws.com";
    let agent = "python-requests/2.32.3";
    let now = now();
    json!({
        "version": "2.0",
        "routeKey": "ANY /v1/pix/charges",
        "rawPath": "/v1/pix/charges",
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
                "method": "POST",
                "path": "/v1/pix/charges",
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.25",
                "userAgent": agent,
            },
            "requestId": "BkZ0wiDxGjQEJwA=",
            "routeKey": "ANY /v1/pix/charges",
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
    let recorded = json!({
        "target": headers["x-amz-target"].to_str().unwrap(),
        "body": serde_json::from_slice::<Value>(&body).unwrap(),
    });
    recorder.requests.lock().unwrap().push(recorded);
    let mut request = Request::post(&recorder.upstream);
    for name in ["authorization", "content-type", "x-amz-date", "x-amz-target"] {
        request = request.header(name, &headers[name]);
    }
    let answer = http_client().request(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    (head.status, body.collect().await.unwrap().to_bytes()).into_response()
}

/// The settings that all runs share.
struct Harness {
    /// The path of the measured function.
    charges: PathBuf,
    /// The path of the baseline program.
    baseline: PathBuf,
    /// The function's environment, without the address of its Runtime API.
    environment: BTreeMap<String, String>,
    /// The test API key of the requests that create charges.
    key: String,
    /// The directory of the recorded requests and callgrind's files.
    directory: PathBuf,
}

impl Harness {
    /// Runs a program for `rounds` rounds under callgrind. A round sends the DynamoDB requests of one charge.
    /// Returns the number of instructions.
    async fn count(&self, program: Program, rounds: usize, repetition: usize) -> u64 {
        let file = self.directory.join(format!("callgrind.{}.{rounds}.{repetition}", program.name()));
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--cache-sim=no", "--branch-sim=no", "--quiet"])
            .arg(format!("--callgrind-out-file={}", file.display()));
        self.run(program, rounds, valgrind, &self.environment).await;
        let profile = std::fs::read_to_string(&file).expect("callgrind left no file");
        let totals = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        totals.expect("callgrind counted nothing").trim().parse().unwrap()
    }

    /// Runs a program for `rounds` rounds. Returns the requests that it sent to DynamoDB.
    async fn recorded(&self, program: Program, rounds: usize, recorder: &(Recorder, String)) -> Vec<Value> {
        let mut environment = self.environment.clone();
        environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), recorder.1.clone());
        self.run(program, rounds, Command::new("env"), &environment).await;
        recorder.0.take()
    }

    /// Runs a program with `command`, which is valgrind or `env`, for `rounds` rounds.
    async fn run(
        &self,
        program: Program,
        rounds: usize,
        mut command: Command,
        environment: &BTreeMap<String, String>,
    ) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let requests = self.directory.join("requests.json");
        let running = async {
            match program {
                Program::Charges => self.invoke(command.arg(&self.charges), rounds).await,
                Program::SdkCalls => {
                    let command = command.arg(&self.baseline).arg(requests).arg(rounds.to_string());
                    let status = command.status().await.expect("starting the baseline");
                    assert!(status.success(), "the baseline failed: {status}");
                }
                Program::BareFunction => {
                    self.invoke(command.arg(&self.baseline).arg(requests), rounds).await;
                }
            }
        };
        tokio::time::timeout(RUN_TIMEOUT, running).await.expect("a run took too long");
    }

    /// Starts a function, and stops it after its response to the last of `invocations` invocations.
    async fn invoke(&self, command: &mut Command, invocations: usize) {
        let mut api = RuntimeApi::start(&self.key, invocations).await;
        let command = command.env("AWS_LAMBDA_RUNTIME_API", api.address.to_string());
        let mut function = command.spawn().expect("starting the function");
        tokio::select! {
            ended = api.ended.recv() => {
                if let Err(response) = ended.unwrap() {
                    panic!("the function did not create a charge: {response}");
                }
            }
            status = function.wait() => panic!("the function ended by itself: {status:?}"),
        }
        // Stops it with SIGTERM, because callgrind writes its file on that signal.
        let id = function.id().expect("a running function").to_string();
        let sent = Command::new("kill").arg(id).status().await.expect("running kill");
        assert!(sent.success(), "the function was not stopped");
        function.wait().await.unwrap();
    }

    /// Counts the instructions of one warm round.
    async fn figures(&self, program: Program) -> Figures {
        let mut figures = Figures::default();
        for repetition in 1..=REPETITIONS {
            let few = self.count(program, FEW, repetition).await;
            let many = self.count(program, MANY, repetition).await;
            figures.0.push((many - few) as f64 / (MANY - FEW) as f64);
        }
        figures
    }

    /// Counts the instructions of the function from its start to its first response.
    async fn first_answer(&self) -> Figures {
        let mut figures = Figures::default();
        for repetition in 1..=REPETITIONS {
            figures.0.push(self.count(Program::Charges, 1, repetition).await as f64);
        }
        figures
    }
}

/// A program that is measured.
#[derive(Clone, Copy)]
enum Program {
    /// The deployed function.
    Charges,
    /// The function's DynamoDB requests, sent by the SDK alone.
    SdkCalls,
    /// A Lambda function that only sends the same DynamoDB requests.
    BareFunction,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Charges => "charges",
            Self::SdkCalls => "sdk-calls",
            Self::BareFunction => "bare-function",
        }
    }
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

/// Returns the function's environment: the variables of the template, and those that Lambda sets.
fn environment(stack: &Stack) -> BTreeMap<String, String> {
    let checkout = ("CheckoutBaseUrl".to_owned(), "https://pay.example.com/checkout".to_owned());
    let values = TemplateValues { parameters: BTreeMap::from([checkout]), ..TemplateValues::default() };
    let mut environment = Template::deployed().unwrap().environment("ChargesFunction", &values).unwrap();
    let of_lambda = [
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_ENDPOINT_URL_DYNAMODB", &stack.endpoints.dynamodb_url),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
        ("AWS_LAMBDA_FUNCTION_NAME", "payments-ChargesFunction"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "payments"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "2026/11/21/[$LATEST]0123456789abcdef0123456789abcdef"),
        ("AWS_REGION", REGION),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    environment.extend(of_lambda.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment
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

async fn measure(arguments: &Arguments, directory: &Path) {
    let profile = &arguments.build_profile;
    let baseline = build("--example", "sdk_calls", profile).await;
    let (charges, built) = match &arguments.charges {
        Some(path) => {
            (path.canonicalize().expect("finding the binary to measure"), "a given binary".to_owned())
        }
        None => (build("--bin", "charges", profile).await, format!("profile {profile}")),
    };
    let began = Instant::now();
    let stack = Stack::start(Options { event_sources: false, ..Options::in_memory() }).await.unwrap();
    let harness = Harness {
        charges,
        baseline,
        environment: environment(&stack),
        key: stack.seed.first.test_api_key.clone(),
        directory: directory.to_owned(),
    };

    let recorder = Recorder::start(&stack.endpoints.dynamodb_url).await;
    let requests = harness.recorded(Program::Charges, 1, &recorder).await;
    std::fs::write(directory.join("requests.json"), json!(requests).to_string()).unwrap();
    let sent = harness.recorded(Program::SdkCalls, 1, &recorder).await;
    assert_eq!(without_key(&sent), without_key(&requests), "the baseline must send the same requests");

    let first = harness.first_answer().await;
    let warm = harness.figures(Program::Charges).await;
    let alone = harness.figures(Program::SdkCalls).await;
    let bare = harness.figures(Program::BareFunction).await;
    println!(
        "\n{}, {built}, {:.1} MB; the baseline: profile {profile}",
        harness.charges.display(),
        std::fs::metadata(&harness.charges).unwrap().len() as f64 / 1e6
    );
    println!("{REPETITIONS} repetitions of {MANY} minus {FEW} invocations in {:.0?}\n", began.elapsed());
    println!("{:<44} {:>14} {:>7} {:>10}", "", "instructions", "ratio", "spread");
    warm.print("POST /v1/pix/charges, warm", alone.mean());
    alone.print(&format!("its {} DynamoDB requests by the SDK alone", requests.len()), alone.mean());
    bare.print("a bare Lambda function that sends them, warm", alone.mean());
    first.print("from the start to the first response", alone.mean());
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
