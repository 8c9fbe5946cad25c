//! Tests of the service as a separate process: its state survives a kill and a restart, a conflict with a
//! running service stops it, and its startup message works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::support::{Client, Listener, ReceivedWebhook, eventually, id, local_program, raw_id};

/// Returns a command of the service in a directory, whose output goes nowhere.
async fn local(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(local_program().await);
    command.args(arguments).current_dir(directory).kill_on_drop(true);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a service that can't start. Returns the reason.
async fn refusal(directory: &Path, arguments: &[&str]) -> String {
    let output = local(directory, arguments).await.output().await.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// A service that runs as a separate process in its own directory.
pub(crate) struct Process {
    child: Child,
    pub(crate) client: Client,
}

impl Process {
    pub(crate) async fn start(directory: &Path) -> Self {
        let ready_file = directory.join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let child = local(directory, &["--port", "0", "--ready-file", "ready.json"]).await.spawn().unwrap();
        let ready: Value = eventually("the service writes its ready file", async || {
            serde_json::from_slice(&std::fs::read(&ready_file).ok()?).ok()
        })
        .await;
        let text = |name: &str| ready[name].as_str().unwrap();
        Self { child, client: Client::new(text("base_url"), text("test_api_key")) }
    }

    /// Kills the process with `SIGKILL`.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A temporary directory that is removed on drop.
pub(crate) struct TemporaryDirectory(pub(crate) PathBuf);

impl TemporaryDirectory {
    pub(crate) fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("service-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_killed_service_loses_no_confirmed_change() {
    let directory = TemporaryDirectory::new();
    let process = Process::start(&directory.0).await;
    let paid = process.client.new_charge("order-0001", &json!({"amount": 1000})).await;
    let paid = process.client.sandbox(&paid, "pay", &json!({})).await;
    let waiting = process.client.new_charge("order-0002", &json!({"amount": 2000, "expires_in": 60})).await;
    process.client.advance_seconds(30).await;
    process.kill().await;

    let process = Process::start(&directory.0).await;
    // The API key from before the kill works and reads the same charges. The idempotency key finds its
    // charge.
    assert_eq!(process.client.get_charge(&paid).await, with_urls_of(&process, paid.clone()));
    assert_eq!(process.client.get_charge(&waiting).await["status"], "pending");
    let again = process.client.new_charge("order-0001", &json!({"amount": 1000})).await;
    assert_eq!((&again["id"], &again["status"]), (&paid["id"], &json!("paid")));
    // After the restart, the clock still includes the 30 s from before the kill. With 31 s more, the charge
    // expires.
    process.client.advance_seconds(31).await;
    assert_eq!(process.client.get_charge(&waiting).await["status"], "expired");
}

/// Replaces a charge's URLs with those of the restarted service, because its port differs.
fn with_urls_of(process: &Process, mut charge: Value) -> Value {
    let raw_id = raw_id(&charge).to_owned();
    charge["checkout_url"] = format!("{}/checkout/{raw_id}", process.client.base_url).into();
    charge["pix"]["qr_code_url"] = format!("{}/checkout/{raw_id}/qr.png", process.client.base_url).into();
    charge
}

#[tokio::test]
async fn events_that_were_not_delivered_before_a_kill_are_delivered_after_the_restart() {
    let directory = TemporaryDirectory::new();
    let (listener, is_up) = Listener::down().await;
    let process = Process::start(&directory.0).await;
    process.client.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    for order in 0..20 {
        let charge = process.client.new_charge(&format!("order-{order:04}"), &json!({"amount": 1000})).await;
        process.client.sandbox(&charge, "pay", &json!({})).await;
    }
    // The kill interrupts the work: some events are not dispatched, some deliveries have failed, and some are
    // being attempted.
    process.kill().await;
    is_up.store(true, Ordering::SeqCst);

    let process = Process::start(&directory.0).await;
    let events = || -> BTreeSet<(String, String)> {
        let event_of = |hook: ReceivedWebhook| {
            let charge = id(&hook.json()["data"]["object"]).to_owned();
            (hook.header("x-service-event-type").to_owned(), charge)
        };
        listener.hooks().into_iter().map(event_of).collect()
    };
    // The pauses let attempts that run end within their leases.
    let next_minutes = async || {
        process.client.advance_seconds(180).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    eventually("every charge has both events", async || {
        next_minutes().await;
        (events().len() == 40).then_some(())
    })
    .await;
    // A delivery that the kill interrupted is due again at the end of its lease.
    eventually("all 40 deliveries are delivered", async || {
        next_minutes().await;
        let page = process.client.get("/v1/webhooks/deliveries?status=DELIVERED").await.expect(200);
        (page["total"] == 40).then_some(())
    })
    .await;
    // Each change has one event id, even where its event was sent several times.
    let ids: BTreeSet<String> = listener.hooks().iter().map(|hook| id(&hook.json()).to_owned()).collect();
    assert_eq!(ids.len(), 40);
}

#[tokio::test]
async fn a_service_whose_port_or_state_is_in_use_or_of_another_version_exits_with_the_reason() {
    let directory = TemporaryDirectory::new();
    let process = Process::start(&directory.0).await;
    let refused = refusal(&directory.0, &["--port", "0"]).await;
    assert!(refused.contains("already runs"), "{refused}");
    let port = process.client.base_url.rsplit(':').next().unwrap();
    let refused = refusal(&directory.0, &["--in-memory", "--port", port]).await;
    assert!(refused.contains("in use"), "{refused}");
    process.kill().await;
    let seed = directory.0.join(".local/seed.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&seed).unwrap()).unwrap();
    stored["state_format"] = json!(0);
    std::fs::write(&seed, stored.to_string()).unwrap();
    let refused = refusal(&directory.0, &["--port", "0"]).await;
    assert!(refused.contains("the state of another version"), "{refused}");
}

#[tokio::test]
async fn the_startup_message_contains_a_curl_command_that_works() {
    let directory = TemporaryDirectory::new();
    let arguments = ["--in-memory", "--port", "0", "--ready-file", "ready.json"];
    let mut child = local(&directory.0, &arguments).await.stdout(Stdio::piped()).spawn().unwrap();
    let mut text_before_command = String::new();
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let command = loop {
        let line = lines.next_line().await.unwrap().expect("the startup message has no curl command");
        if line.trim_start().starts_with("curl") {
            break line;
        }
        text_before_command.push_str(&line);
        text_before_command.push('\u{20}');
    };
    assert!(text_before_command.len() < 700, "{text_before_command}");
    let ready: Value =
        serde_json::from_slice(&std::fs::read(directory.0.join("ready.json")).unwrap()).unwrap();
    let client = Client::new(ready["base_url"].as_str().unwrap(), "");
    for (path, status) in [("/dashboard", 303), ("/docs", 200)] {
        let url = format!("{}{path} ", client.base_url);
        assert!(format!("{text_before_command} ").contains(&url), "{url}: {text_before_command}");
        client.raw(Method::GET, url.trim(), &[], "").await.expect(status);
    }
    let expected = [
        "account_id",
        "bank_url",
        "base_url",
        "bucket",
        "dashboard",
        "dynamodb_url",
        "live_api_key",
        "member_token",
        "other_account",
        "s3_url",
        "secrets_table",
        "sqs_url",
        "table",
        "test_api_key",
        "variables",
    ];
    assert_eq!(ready.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), expected);
    // Sends the request of the printed command.
    let words: Vec<&str> = command.split('\'').collect();
    let url = words[0].split_whitespace().find(|word| word.starts_with("http")).unwrap();
    let header =
        |word: &str| word.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    let headers = [header(words[1]), header(words[3]), header(words[5])];
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let charge = client.raw(Method::POST, url, &headers, words[7].to_owned()).await.expect(201);
    assert_eq!((&charge["amount"], &charge["status"]), (&json!(1990), &json!("pending")));
}

#[tokio::test]
async fn commands_find_the_first_service_of_a_directory_whether_it_stores_its_state_or_not() {
    let directory = TemporaryDirectory::new();
    let start = async |arguments: &[&str], output: &str| {
        let output = std::fs::File::create(directory.0.join(output)).unwrap();
        local(&directory.0, &[&["--port", "0"], arguments].concat()).await.stdout(output).spawn().unwrap()
    };
    let read = |path: &str| std::fs::read_to_string(directory.0.join(path)).ok();
    let mut first = start(&["--in-memory"], "first").await;
    let ready =
        eventually("the first service writes its ready file", async || read(".local/ready.json")).await;
    let triggered = local(&directory.0, &["trigger", "charge.created"]).await.output().await.unwrap();
    assert!(triggered.status.success() && String::from_utf8_lossy(&triggered.stdout).contains("ch_"));

    for (arguments, way_out) in [
        (&["--in-memory"][..], "start it with --ready-file PATH"),
        (&["--ready-file", "second.json"], "Call them with --ready-file second.json"),
    ] {
        let second = start(arguments, "second").await;
        eventually("the second service names the way out", async || {
            read("second").filter(|text| text.contains("Another service runs") && text.contains(way_out))
        })
        .await;
        assert_eq!(read(".local/ready.json").as_ref(), Some(&ready), "{arguments:?}");
        drop(second);
    }
    assert!(!read("first").unwrap().contains("Another service"));
    let second = read("second.json").unwrap();
    assert_ne!(second, ready);

    let pid = first.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(first.wait().await.unwrap().success());
    assert_eq!(read(".local/ready.json"), None);
}
