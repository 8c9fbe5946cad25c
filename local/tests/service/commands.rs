//! Tests of the developer's commands `listen`, `trigger` and `verify` with a running service.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use domain::money::Amount;
use domain::time::Timestamp;
use domain::webhook::event_type::{EventType, Family};
use local::commands::listen::{Options, Print, default_events, listen};
use local::commands::running::ReadyFile;
use local::commands::verify::{Fault, Received, check};
use local::commands::{Running, trigger};
use serde_json::Value;
use shared::clock::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::restart::TemporaryDirectory;
use crate::support::{Listener, ReceivedWebhook, Service, eventually};
use crate::webhooks::{secret, standard_webhooks_secret};

pub(crate) fn running(service: &Service) -> Running {
    let ready = service.stack.ready().unwrap();
    Running::new(serde_json::from_value::<ReadyFile>(ready).unwrap())
}

/// The lines that a command printed.
#[derive(Clone, Default)]
pub(crate) struct PrintedLines(Arc<Mutex<Vec<String>>>);

impl PrintedLines {
    pub(crate) fn print(&self) -> Print {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
    }

    pub(crate) fn contains_line(&self, words: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    async fn wait_for_line(&self, words: &[&str]) {
        eventually(&format!("a line is printed with {words:?}"), async || {
            self.contains_line(words).then_some(())
        })
        .await;
    }
}

async fn endpoints(service: &Service) -> Vec<Value> {
    let list = service.get("/v1/webhooks/endpoints").await.expect(200);
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn listen_receives_and_forwards_every_event_that_trigger_causes() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    // An earlier run that was killed has left its endpoint.
    service.register_endpoint("http://127.0.0.1:9/cargo-run-listen", &["charge.paid"]).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let printed = PrintedLines::default();
    let print = printed.print();
    let options = Options {
        events: EventType::subscribable().map(|event| event.as_str().to_owned()).collect(),
        forward_to: Some(merchant.url.clone()),
        print_json: false,
    };
    let listening = {
        let running = running(&service);
        tokio::spawn(async move { listen(&running, options, print, async { drop(stopped.await) }).await })
    };
    let all = format!("Listening to {} events", EventType::subscribable().count());
    printed.wait_for_line(&[&all, "secret"]).await;
    let amount = Amount::parse(1990).unwrap();
    for (name, event) in EventType::ALL {
        let steps = PrintedLines::default();
        trigger::trigger(&running(&service), *event, amount, &steps.print()).await.unwrap();
        printed.wait_for_line(&[name, "-> 204 in"]).await;
        let hook = merchant.wait_for_event(name).await;
        assert!(!hook.header("x-service-signature").is_empty());
        assert_eq!(hook.headers.contains_key("webhook-signature"), event.family() == Family::Canonical);
        assert_eq!(hook.header("content-type"), "application/json");
    }
    let [endpoint] = endpoints(&service).await.try_into().unwrap();
    assert_ne!(endpoint["url"], "http://127.0.0.1:9/cargo-run-listen");
    stop.send(()).unwrap();
    listening.await.unwrap().unwrap();
    assert!(printed.contains_line(&["deleted"]));
    assert!(endpoints(&service).await.is_empty());
}

#[tokio::test]
async fn listen_prints_an_event_that_it_cannot_forward_and_the_delivery_is_retried() {
    let service = Service::start().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let printed = PrintedLines::default();
    let print = printed.print();
    let options = Options { forward_to: Some("http://127.0.0.1:9/hook".to_owned()), ..Options::default() };
    let running_service = running(&service);
    let listening =
        tokio::spawn(
            async move { listen(&running_service, options, print, async { drop(stopped.await) }).await },
        );
    // By default, refunds are among the events, and no legacy events, which would report each change twice.
    let events = default_events();
    assert!(events.iter().any(|event| event == "refund.succeeded"));
    assert!(!events.iter().any(|event| event.starts_with("payment.")));
    printed.wait_for_line(&[&format!("Listening to {} events", events.len())]).await;
    service.charge().await;
    printed.wait_for_line(&["charge.created", "does not answer"]).await;
    let delivery = eventually("the first attempt fails", async || {
        service.deliveries("").await.into_iter().find(|delivery| delivery["lastStatusCode"] == 502)
    })
    .await;
    assert_eq!(delivery["status"], "PENDING");
    stop.send(()).unwrap();
    listening.await.unwrap().unwrap();
}

fn header(hook: &ReceivedWebhook, name: &str) -> String {
    hook.header(name).to_owned()
}

fn received(hook: &ReceivedWebhook, secret: &str) -> Received {
    Received {
        secret: secret.into(),
        signature: header(hook, "x-service-signature"),
        standard_webhooks: None,
        accept_legacy: true,
        body: hook.body.to_vec(),
    }
}

/// Returns a canonical event with the signature of Standard Webhooks.
fn received_by_library(hook: &ReceivedWebhook, secret: &str) -> Received {
    let standard_webhooks = Some((header(hook, "webhook-id"), header(hook, "webhook-timestamp")));
    Received { signature: header(hook, "webhook-signature"), standard_webhooks, ..received(hook, secret) }
}

#[tokio::test]
async fn verify_accepts_every_event_and_recognises_a_body_that_was_serialised_again() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    let names: Vec<&str> = EventType::subscribable().map(EventType::as_str).collect();
    let endpoint = service.register_endpoint(&merchant.url, &names).await;
    let (secret, encoded_secret) = (secret(&endpoint), standard_webhooks_secret(&endpoint));
    let amount = Amount::parse(1990).unwrap();
    for (name, event) in EventType::ALL {
        trigger::trigger(&running(&service), *event, amount, &PrintedLines::default().print()).await.unwrap();
        let hook = merchant.wait_for_event(name).await;
        let mut cases = vec![received(&hook, secret)];
        if event.family() == Family::Canonical {
            cases.push(received_by_library(&hook, encoded_secret));
        }
        let now = Clock::machine_now().seconds();
        for right in cases {
            check(&right, now).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
            // Adds whitespace after the commas between members. No text of these events contains `,"`.
            let spaced = String::from_utf8(right.body.clone()).unwrap().replace(",\"", ", \"") + "\n";
            let faults = check(&Received { body: spaced.into_bytes(), ..right }, now).unwrap_err();
            assert_eq!(faults, [Fault::Reserialised], "{name}");
        }
    }
}

/// Runs `cargo run -- verify` with a body at its standard input. Returns whether the exit code is 0, and the
/// output.
async fn run_verify(arguments: &[&str], secret: &str, body: &[u8]) -> (bool, String) {
    run_verify_in(&std::env::temp_dir(), arguments, secret, body).await
}

async fn run_verify_in(directory: &Path, arguments: &[&str], secret: &str, body: &[u8]) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_local"))
        .current_dir(directory)
        .args([&["verify", "--body", "-"], arguments].concat())
        .env("WEBHOOK_SECRET", secret)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(body).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test]
async fn the_exit_code_of_verify_is_0_only_for_a_right_and_recent_signature() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    let endpoint = service.register_endpoint(&merchant.url, &["charge.created", "payment.created"]).await;
    service.charge().await;
    let hook = merchant.wait_for_event("charge.created").await;
    let legacy = merchant.wait_for_event("payment.created").await;
    let (secret, encoded_secret) = (secret(&endpoint), standard_webhooks_secret(&endpoint));
    let signature = header(&hook, "x-service-signature");
    let (id, timestamp) = (header(&hook, "webhook-id"), header(&hook, "webhook-timestamp"));
    let arguments = ["--signature", &signature];
    let (is_right, output) = run_verify(&arguments, secret, &hook.body).await;
    assert!(is_right && output.starts_with("The signature is right. Its time is "), "{output}");
    let signature = header(&hook, "webhook-signature");
    let standard = ["--signature", &signature, "--id", &id, "--timestamp", &timestamp];
    let (is_right, output) = run_verify(&standard, encoded_secret, &hook.body).await;
    assert!(is_right, "{output}");

    let changed = [&hook.body[..], b"\n"].concat();
    for (arguments, secret, body, expected) in [
        (&arguments[..], secret, changed.as_slice(), "serialised again"),
        (&standard, secret, &changed, "serialised again"),
        (&arguments, encoded_secret, &hook.body, "has the form for Standard Webhooks"),
        (&arguments, &"0".repeat(64), &hook.body, "another secret is likely"),
        (&arguments, "s3cret", &hook.body, "--secret must be the 64 characters"),
        (&["--signature", "v2=1"], secret, &hook.body, "malformed"),
    ] {
        let (is_right, output) = run_verify(arguments, secret, body).await;
        assert!(!is_right && output.contains(expected), "{output}");
        assert!(!output.contains(secret) && output.starts_with("error: "), "{output}");
    }
    let signature = header(&legacy, "x-service-signature");
    let (is_right, output) = run_verify(&["--signature", &signature], secret, &legacy.body).await;
    assert!(!is_right && output.contains("legacy form"), "{output}");
    let (is_right, output) = run_verify(&["--legacy", "--signature", &signature], secret, &legacy.body).await;
    assert!(is_right, "{output}");

    // Receivers compare the signature's time with their own clocks, so the service signs with the machine's time.
    service.advance_seconds(3_600).await;
    service.charge().await;
    let late = eventually("the second event arrives", async || {
        let is_second =
            |sent: &ReceivedWebhook| sent.headers.contains_key("webhook-id") && sent.body != hook.body;
        merchant.hooks().into_iter().find(is_second)
    })
    .await;
    let created: Timestamp = late.json()["created_at"].as_str().unwrap().parse().unwrap();
    assert!(created.seconds() > Clock::machine_now().seconds() + 3_000, "{created:?}");
    let (signature, by_library) = (late.header("x-service-signature"), late.header("webhook-signature"));
    let (id, timestamp) = (late.header("webhook-id"), late.header("webhook-timestamp"));
    assert!(signature.starts_with(&format!("t={timestamp},")));
    for (arguments, secret) in [
        (&["--signature", signature][..], secret),
        (&["--signature", by_library, "--id", id, "--timestamp", timestamp], encoded_secret),
    ] {
        let (is_right, output) = run_verify(arguments, secret, &late.body).await;
        assert!(is_right && output.starts_with("The signature is right. "), "{output}");
    }
    // With the ready file of a running service, the command also shows the offset of its clock.
    let directory = TemporaryDirectory::new();
    std::fs::create_dir(directory.0.join(".local")).unwrap();
    let ready = service.stack.ready().unwrap().to_string();
    std::fs::write(directory.0.join(".local/ready.json"), ready).unwrap();
    let (_, output) = run_verify_in(&directory.0, &["--signature", signature], secret, &late.body).await;
    assert!(output.contains("clock is 3600 s ahead of this machine's"), "{output}");
}
