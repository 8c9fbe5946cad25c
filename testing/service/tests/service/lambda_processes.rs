//! Tests of functions as Lambda runs them: as processes that fetch their events from the Lambda Runtime API. One
//! function of each kind runs so (HTTP, stream, queue, schedule), with the variables that `emulators` writes
//! for `sam local`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bank::{FaultKind, MedNature};
use domain::ids::EventId;
use local::event_sources::{Dependencies, EventSources};
use local::lambda::Invoke;
use local::template::Template;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot, watch};

use crate::invocations::{api_event, stream_records};
use crate::live_charges::Live;
use crate::support::{Listener, Service, eventually, programs};
use crate::wallets::tamper;

/// Functions of each kind that events invoke: the logical id in the template, and the binary.
const PROCESSES: [(&str, &str); 4] = [
    ("ChargesFunction", "charges"),
    ("EventDispatcherFunction", "event-dispatcher"),
    ("WebhookWorkerFunction", "webhook-worker"),
    ("SchedulerFunction", "scheduler"),
];

/// The function that a daily schedule invokes.
const VERIFIER: &str = "ledger-verifier";

/// How long an invocation may take.
const LIMIT: Duration = Duration::from_secs(30);

/// An event, and where its result goes.
type Invocation = (Value, oneshot::Sender<Result<Value, String>>);

/// The Runtime API of one function.
struct RuntimeApi {
    invocations: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    results: Mutex<HashMap<String, oneshot::Sender<Result<Value, String>>>>,
    count: AtomicU64,
}

/// A function that runs as a process, with its Runtime API.
pub(crate) struct LambdaProcess {
    invocations: mpsc::UnboundedSender<Invocation>,
    api: Arc<RuntimeApi>,
    /// The lines that the process has written to standard output.
    lines: Arc<Mutex<Vec<String>>>,
    process: Child,
}

impl LambdaProcess {
    pub(crate) async fn start(binary: &Path, variables: &Value) -> Self {
        let (invocations, received) = mpsc::unbounded_channel();
        let api = Arc::new(RuntimeApi {
            invocations: tokio::sync::Mutex::new(received),
            results: Mutex::default(),
            count: AtomicU64::new(0),
        });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/{outcome}", post(end))
            .with_state(Arc::clone(&api));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let mut process = command(binary, variables)
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (written, output) = (Arc::clone(&lines), process.stdout.take().unwrap());
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Some(line) = output.next_line().await.unwrap() {
                written.lock().unwrap().push(line);
            }
        });
        Self { invocations, api, lines, process }
    }

    /// Returns the lines that the process has written so far. Each must be a JSON object.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    fn invoke(&self) -> Invoke {
        let invocations = self.invocations.clone();
        Arc::new(move |event| {
            let invocations = invocations.clone();
            Box::pin(async move {
                let (result, received) = oneshot::channel();
                invocations.send((event, result)).map_err(|error| error.to_string())?;
                let result = tokio::time::timeout(LIMIT, received).await;
                result.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
            })
        })
    }

    /// Invokes the function, however long it takes.
    pub(crate) async fn send(&self, event: Value) -> Result<Value, String> {
        let (result, received) = oneshot::channel();
        self.invocations.send((event, result)).map_err(|error| error.to_string())?;
        received.await.map_err(|error| error.to_string())?
    }

    /// The most memory that the process has used, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap()));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn count(&self) -> u64 {
        self.api.count.load(Ordering::SeqCst)
    }
}

/// Returns a command that runs a function with exactly these variables and those that Lambda sets.
fn command(binary: &Path, variables: &Value) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().stderr(Stdio::inherit());
    for (name, value) in variables.as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    for (name, value) in
        [("NAME", "function"), ("MEMORY_SIZE", "512"), ("VERSION", "1"), ("HANDLER", "bootstrap")]
    {
        command.env(format!("AWS_LAMBDA_FUNCTION_{name}"), value);
    }
    command
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> Response {
    let Some((event, result)) = api.invocations.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    let id = uuid::Uuid::new_v4().to_string();
    api.results.lock().unwrap().insert(id.clone(), result);
    api.count.fetch_add(1, Ordering::SeqCst);
    let deadline = chrono::Utc::now().timestamp_millis() + 20_000;
    let headers = [
        ("lambda-runtime-aws-request-id", id),
        ("lambda-runtime-deadline-ms", deadline.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:sa-east-1:123456789012:function:f".to_owned(),
        ),
    ];
    (headers, axum::Json(event)).into_response()
}

/// Ends an invocation. `outcome`: `response` or `error`.
async fn end(
    State(api): State<Arc<RuntimeApi>>,
    UrlPath((id, outcome)): UrlPath<(String, String)>,
    body: Bytes,
) -> StatusCode {
    let result = match outcome.as_str() {
        "response" => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        _ => Err(String::from_utf8_lossy(&body).into_owned()),
    };
    let _ = api.results.lock().unwrap().remove(&id).unwrap().send(result);
    StatusCode::ACCEPTED
}

/// Builds the binaries of [`PROCESSES`] and [`VERIFIER`]. Returns their directory.
async fn build() -> PathBuf {
    let binaries = PROCESSES.iter().map(|(_, binary)| *binary).chain([VERIFIER]);
    programs(&binaries.collect::<Vec<_>>()).await
}

/// The event of an HTTP API for `POST /v1/pix/charges`.
fn create_charge(key: &str, idempotency_key: &str, request_id: &str) -> Value {
    let headers = [("apikey", key), ("idempotency-key", idempotency_key), ("x-request-id", request_id)];
    api_event(("POST", "/v1/pix/charges"), &headers, "127.0.0.1", r#"{"amount": 1990}"#)
}

/// With local addresses and without endpoints, the function would reach the account of the shell.
#[tokio::test]
async fn a_function_with_local_addresses_and_without_endpoints_does_not_start() {
    let service = Service::by_machine_clock().await;
    let mut variables = service.stack.environment_file("127.0.0.1", "").unwrap()["ChargesFunction"].clone();
    for (name, value) in variables.as_object_mut().unwrap() {
        if name.starts_with("AWS_ENDPOINT_URL") {
            *value = "".into();
        }
    }
    let mut refused = command(&build().await.join("charges"), &variables);
    let refused = refused.env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9").output().await.unwrap();
    assert!(!refused.status.success());
    let line: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&json!("ERROR"), &json!("the function can't start")));
    assert!(line["error"].as_str().unwrap().contains("AWS_ENDPOINT_URL"), "{line}");
}

/// Returns the texts of a field, in the order of the lines.
fn texts<'a>(lines: &'a [Value], message: &str, field: &str) -> Vec<&'a str> {
    let lines = lines.iter().filter(|line| line["message"] == message);
    lines.map(|line| line[field].as_str().unwrap_or_else(|| panic!("{field}: {line}"))).collect()
}

#[tokio::test]
async fn one_request_id_finds_the_lines_of_a_charge_from_its_creation_to_its_deliveries() {
    const REQUEST_ID: &str = "order-17/attempt-1";
    let service = Service::by_machine_clock().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let variables = service.stack.environment_file("127.0.0.1", "").unwrap();
    let binaries = build().await;
    let (mut functions, mut processes) = (service.stack.functions.clone(), Vec::new());
    for (logical_id, binary) in PROCESSES {
        let process = LambdaProcess::start(&binaries.join(binary), &variables[logical_id]).await;
        functions = functions.with(logical_id, process.invoke());
        processes.push(process);
    }
    let charges = functions.get("ChargesFunction").unwrap().clone();
    let answer = charges(create_charge(&service.key(), "order-0017", REQUEST_ID)).await.unwrap();
    let charge: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    charges(create_charge(&service.key(), "order-0018", "another")).await.unwrap();
    service.sandbox(&charge, "pay", &json!({})).await;
    let _event_sources = EventSources::start(Dependencies {
        template: &Template::deployed().unwrap(),
        functions: &functions,
        endpoints: &service.stack.endpoints,
        database: &service.stack.database(),
        directory: None,
        clock: &service.stack.clock,
        run_schedules_now: &watch::Sender::default(),
        streaming: &Arc::default(),
    })
    .unwrap();
    for ((logical_id, _), process) in PROCESSES.iter().zip(&processes) {
        eventually(logical_id, async || (process.count() > 0).then_some(())).await;
    }

    // The same filter as in docs/operations/monitoring.md.
    let found = || {
        let lines = processes.iter().flat_map(LambdaProcess::lines);
        lines.filter(|line| line["request_id"] == REQUEST_ID).collect::<Vec<_>>()
    };
    let lines = eventually("the lines of two attempts", async || {
        Some(found()).filter(|lines| texts(lines, "webhook sent", "delivery").len() == 2)
    })
    .await;
    for line in &lines {
        println!("{line}");
        assert_eq!(line["aws_request_id"].as_str().unwrap().len(), 36, "{line}");
        assert_eq!(line["scope"], service.scope().to_string(), "{line}");
        assert!(!line.to_string().contains(&service.key()), "{line}");
    }
    let request = lines.iter().find(|line| line["message"] == "request").unwrap();
    assert_eq!(request["charge"], charge["id"]);
    assert_eq!((&request["method"], &request["route"]), (&json!("POST"), &json!("/v1/pix/charges")));
    assert_eq!(request["status"], 201);
    assert!(request["duration_ms"].is_u64());
    let published = texts(&lines, "event published", "event");
    let mut types = texts(&lines, "event published", "types");
    types.sort_unstable();
    let of_creation = "charge.created,payment.created,payment.status_changed";
    assert_eq!(types, [of_creation, "charge.paid,payment.completed,payment.status_changed"]);
    assert!(texts(&lines, "event published", "charge").iter().all(|id| charge["id"] == *id));
    let sent = texts(&lines, "webhook sent", "event").into_iter();
    let rows = sent.map(|event| event.parse::<EventId>().unwrap().row_id().to_string());
    assert!(rows.into_iter().all(|row| published.contains(&row.as_str())));
    // The creation, the events of two changes, and the two attempts.
    assert_eq!(lines.len(), 5, "{lines:#?}");
}

/// Checks that a line is in the embedded metric format. Returns the names of its metrics.
fn metrics_of(line: &Value) -> Vec<&str> {
    let root = line.as_object().unwrap();
    assert!(root["_aws"]["Timestamp"].as_u64().unwrap() > 1_700_000_000_000, "{line}");
    let [directive] = root["_aws"]["CloudWatchMetrics"].as_array().unwrap().as_slice() else {
        panic!("{line}")
    };
    assert_eq!(directive["Namespace"], "payments");
    let [dimensions] = directive["Dimensions"].as_array().unwrap().as_slice() else { panic!("{line}") };
    for dimension in dimensions.as_array().unwrap() {
        assert!(root[dimension.as_str().unwrap()].is_string(), "{line}");
    }
    let metrics = directive["Metrics"].as_array().unwrap().iter();
    let names = metrics.map(|metric| {
        let name = metric["Name"].as_str().unwrap();
        assert!(root[name].is_number() && metric["Unit"].is_string(), "{line}");
        name
    });
    names.collect()
}

#[tokio::test]
async fn metrics_are_written_whatever_the_log_level_and_only_for_a_stack() {
    let service = Service::by_machine_clock().await;
    let binary = build().await.join("charges");
    let mut variables = service.stack.environment_file("127.0.0.1", "").unwrap()["ChargesFunction"].clone();
    assert_eq!(variables["METRICS_NAMESPACE"], "");
    variables["RUST_LOG"] = json!("error");
    let without = LambdaProcess::start(&binary, &variables).await;
    variables["METRICS_NAMESPACE"] = json!("payments");
    let with = LambdaProcess::start(&binary, &variables).await;
    for process in [&without, &with] {
        for (key, status) in [(service.key().as_str(), 201), ("ak_test_unknown", 401)] {
            let answer = process.invoke()(create_charge(key, "order-0001", "order-1")).await.unwrap();
            assert!([200, 201, status].contains(&answer["statusCode"].as_i64().unwrap()), "{answer}");
        }
    }
    let lines = eventually("three lines", async || Some(with.lines()).filter(|lines| lines.len() == 3)).await;
    let names: Vec<Vec<&str>> = lines.iter().map(metrics_of).collect();
    assert_eq!(names[0], ["RequestDuration"]);
    assert_eq!(names[1], ["RequestDuration", "ClientErrors"]);
    assert_eq!(names[2], ["Unauthorized"]);
    assert!(lines[..2].iter().all(|line| line["Route"] == "POST /v1/pix/charges"));
    assert_eq!(without.lines(), Vec::<Value>::new());
}

#[tokio::test]
async fn the_dispatcher_writes_the_business_figures_of_live_charges() {
    let live = Live::start().await;
    for order in ["order-00001", "order-00002"] {
        live.create(order, &json!({"amount": 700})).await;
    }
    let paid = live.paid("order-00003").await;
    live.fault(FaultKind::Http500, 1);
    let refund = json!({"amount": 300, "idempotencyKey": "refund-01", "strategy": "devolution"});
    live.refund(&paid, refund).await.expect(201);
    let end_to_end_id = paid["settlement"]["end_to_end_id"].as_str().unwrap();
    live.service.stack.bank.open_med_devolucao(end_to_end_id, None, MedNature::Fraud).unwrap();
    live.service.advance_seconds(130).await;
    live.wait_for_refund(&paid, "FAILED").await;

    let mut variables = live.service.stack.environment_file("127.0.0.1", "").unwrap();
    variables["EventDispatcherFunction"]["METRICS_NAMESPACE"] = json!("payments");
    let binary = build().await.join("event-dispatcher");
    let process = LambdaProcess::start(&binary, &variables["EventDispatcherFunction"]).await;
    let records = stream_records(&live.service.stack);
    let answer = process.invoke()(json!({ "Records": records })).await.unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
    let lines = process.lines();
    let metrics = lines.iter().filter(|line| !line["_aws"].is_null());
    let values = metrics.flat_map(|line| metrics_of(line).into_iter().map(move |name| (name, line)));
    let mut figures: Vec<(&str, f64, Option<&str>)> =
        values.map(|(name, line)| (name, line[name].as_f64().unwrap(), line["Currency"].as_str())).collect();
    figures.sort_by_key(|(name, ..)| *name);
    let created = ("ChargesCreated", 1.0, Some("BRL"));
    assert_eq!(
        figures,
        [
            ("AmountPaid", 10.0, Some("BRL")),
            ("CasesOpened", 1.0, None),
            created,
            created,
            created,
            ("ChargesPaid", 1.0, Some("BRL")),
            ("RefundsFailed", 1.0, None),
        ]
    );
}

#[tokio::test]
async fn the_verification_of_the_ledgers_writes_metrics_and_a_line_for_each_differing_ledger() {
    let service = Service::by_machine_clock().await;
    let mut variables =
        service.stack.environment_file("127.0.0.1", "").unwrap()["LedgerVerifierFunction"].clone();
    variables["METRICS_NAMESPACE"] = json!("payments");
    service.pay(1_000).await;
    tamper(&service, &format!("wallet#{}", service.scope()), "BRL#shard#0", "ADD cr_platform_fees :one")
        .await;
    let verifier = LambdaProcess::start(&build().await.join(VERIFIER), &variables).await;
    let totals = json!({"ledgers": 4, "postings": 1, "differences": 1, "moving": 0});
    assert_eq!(verifier.invoke()(json!({})).await, Ok(totals));

    let lines = verifier.lines();
    let line = lines.iter().find(|line| line["level"] == "ERROR").unwrap();
    assert_eq!(line["message"], "a ledger differs from its postings");
    assert_eq!((&line["account"], &line["mode"]), (&json!(service.scope().account), &json!("test")));
    assert_eq!(
        (&line["differences"], &line["first"]),
        (&json!(1), &json!("BRL platform_fees credits: posted 0, stored 1"))
    );
    let metrics = |name: &str| -> Vec<u64> { lines.iter().filter_map(|line| line[name].as_u64()).collect() };
    assert_eq!((metrics("LedgersVerified"), metrics("LedgerDifferences")), (vec![4], vec![1, 0]));
    let end = lines.iter().find(|line| line["message"] == "all ledgers were verified").unwrap();
    assert_eq!((&end["ledgers"], &end["postings"], &end["differences"]), (&json!(4), &json!(1), &json!(1)));
}
