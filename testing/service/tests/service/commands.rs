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
use tokio::task::JoinHandle;

use crate::restart::TemporaryDirectory;
use crate::support::{Listener, ReceivedWebhook, Service, eventually, local_program};
use crate::webhooks::{secret, standard_webhooks_secret};

async fn running(service: &Service) -> Running {
    let ready = service.stack.ready().await.unwrap();
    Running::new(serde_json::from_value::<ReadyFile>(ready).unwrap())
}

/// The lines that a command printed.
#[derive(Clone, Default)]
struct PrintedLines(Arc<Mutex<Vec<String>>>);

impl PrintedLines {
    fn print(&self) -> Print {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
    }

    fn line(&self, words: &[&str]) -> Option<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().find(|line| words.iter().all(|word| line.contains(word))).cloned()
    }

    async fn wait_for_line(&self, words: &[&str]) -> String {
        eventually(&format!("a line is printed with {words:?}"), async || self.line(words)).await
    }
}

/// A running `listen`.
struct Listening {
    printed: PrintedLines,
    stop: oneshot::Sender<()>,
    task: JoinHandle<local::Result<()>>,
}

impl Listening {
    async fn start(service: &Service, options: Options) -> Self {
        let (stop, stopped) = oneshot::channel();
        let printed = PrintedLines::default();
        let (running, print) = (running(service).await, printed.print());
        let task =
            tokio::spawn(
                async move { listen(&running, options, print, async { drop(stopped.await) }).await },
            );
        Self { printed, stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

async fn endpoints(service: &Service) -> Vec<Value> {
    service.list("/v1/webhooks/endpoints").await
}

#[tokio::test]
async fn listen_receives_and_forwards_every_event_that_trigger_causes_with_a_signature_that_verify_accepts() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    // An earlier run that was killed has left its endpoint.
    service.register_endpoint("http://127.0.0.1:9/cargo-run-listen", &["charge.paid"]).await;
    let listening = Listening::start(
        &service,
        Options {
            events: EventType::subscribable().map(|event| event.as_str().to_owned()).collect(),
            forward_to: Some(merchant.url.clone()),
            print_json: false,
        },
    )
    .await;
    let printed = listening.printed.clone();
    let all = format!("Listening to {} events", EventType::subscribable().count());
    let started = printed.wait_for_line(&[&all]).await;
    let mut secrets = started.split_whitespace().skip_while(|word| *word != "secret").skip(1);
    let (secret, encoded_secret) = (secrets.next().unwrap(), secrets.next().unwrap());
    let amount = Amount::parse(1990).unwrap();
    for (name, event) in EventType::ALL {
        let steps = PrintedLines::default();
        trigger::trigger(&running(&service).await, *event, amount, &steps.print()).await.unwrap();
        printed.wait_for_line(&[name, "-> 204 in"]).await;
        let hook = merchant.wait_for_event(name).await;
        assert_eq!(hook.header("content-type"), "application/json");
        assert_signed(name, &hook, received(&hook, secret));
        let is_canonical = event.family() == Family::Canonical;
        assert_eq!(hook.headers.contains_key("webhook-signature"), is_canonical);
        if is_canonical {
            assert_signed(name, &hook, received_by_library(&hook, encoded_secret));
        }
    }
    let [endpoint] = endpoints(&service).await.try_into().unwrap();
    assert_ne!(endpoint["url"], "http://127.0.0.1:9/cargo-run-listen");
    listening.stop().await;
    assert!(printed.line(&["deleted"]).is_some());
    assert!(endpoints(&service).await.is_empty());
}

/// Checks that `verify` accepts a webhook, and recognises its body when it was serialised again.
fn assert_signed(name: &str, hook: &ReceivedWebhook, right: Received) {
    let now = Clock::machine_now().seconds();
    check(&right, now).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
    // Adds whitespace after the commas between members. The delimiter of a report is a comma in quotes.
    let spaced = String::from_utf8(hook.body.to_vec()).unwrap().replace(",\"", ", \"") + "\n";
    let spaced = spaced.replace(":\", \"", ":\",\"");
    let faults = check(&Received { body: spaced.into_bytes(), ..right }, now).unwrap_err();
    assert_eq!(faults, [Fault::Reserialised], "{name}");
}

#[tokio::test]
async fn listen_prints_an_event_that_it_cannot_forward_and_the_delivery_is_retried() {
    let service = Service::start().await;
    let forward_to = Some("http://127.0.0.1:9/hook".to_owned());
    let listening = Listening::start(&service, Options { forward_to, ..Options::default() }).await;
    // By default, refunds are among the events, and no legacy events, which would report each change twice.
    let events = default_events();
    assert!(events.iter().any(|event| event == "refund.succeeded"));
    assert!(!events.iter().any(|event| event.starts_with("payment.")));
    listening.printed.wait_for_line(&[&format!("Listening to {} events", events.len())]).await;
    service.charge().await;
    listening.printed.wait_for_line(&["charge.created", "does not answer"]).await;
    let delivery = eventually("the first attempt fails", async || {
        service.deliveries("").await.into_iter().find(|delivery| delivery["lastStatusCode"] == 502)
    })
    .await;
    assert_eq!(delivery["status"], "PENDING");
    listening.stop().await;
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

/// Runs `cargo run -- verify` with a body at its standard input. Returns whether the exit code is 0, and the
/// output.
async fn run_verify(directory: &Path, arguments: &[&str], secret: &str, body: &[u8]) -> (bool, String) {
    let mut child = Command::new(local_program().await)
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
    // Receivers compare the signature's time with their own clocks, so the service signs with the machine's time.
    service.advance_seconds(3_600).await;
    service.charge().await;
    let hook = merchant.wait_for_event("charge.created").await;
    let legacy = merchant.wait_for_event("payment.created").await;
    let created: Timestamp = hook.json()["created_at"].as_str().unwrap().parse().unwrap();
    assert!(created.seconds() > Clock::machine_now().seconds() + 3_000, "{created:?}");
    let (secret, encoded_secret) = (secret(&endpoint), standard_webhooks_secret(&endpoint));
    let (id, timestamp) = (hook.header("webhook-id"), hook.header("webhook-timestamp"));
    let signature = hook.header("x-service-signature");
    assert!(signature.starts_with(&format!("t={timestamp},")));
    let canonical = ["--signature", signature];
    let by_library = ["--signature", hook.header("webhook-signature"), "--id", id, "--timestamp", timestamp];
    let of_legacy = ["--legacy", "--signature", legacy.header("x-service-signature")];
    let directory = TemporaryDirectory::new();
    for (arguments, secret, body, expected) in [
        (&canonical[..], secret, &hook.body, "The signature is right. Its time is "),
        (&by_library, encoded_secret, &hook.body, "The signature is right. Its time is "),
        (&of_legacy, secret, &legacy.body, "The signature is right. It has no time"),
    ] {
        let (is_right, output) = run_verify(&directory.0, arguments, secret, body).await;
        assert!(is_right && output.starts_with(expected), "{output}");
    }
    let changed = [&hook.body[..], b"\n"].concat();
    for (secret, expected) in [(secret, "serialised again"), ("s3cret", "--secret must be the 64 characters")]
    {
        let (is_right, output) = run_verify(&directory.0, &canonical, secret, &changed).await;
        assert!(!is_right && output.contains(expected), "{output}");
        assert!(!output.contains(secret) && output.starts_with("error: "), "{output}");
    }
    // With the ready file of a running service, the command also shows the offset of its clock.
    std::fs::create_dir(directory.0.join(".local")).unwrap();
    let ready = service.stack.ready().await.unwrap().to_string();
    std::fs::write(directory.0.join(".local/ready.json"), ready).unwrap();
    let (_, output) = run_verify(&directory.0, &canonical, secret, &hook.body).await;
    let ahead = service.stack.clock.offset_ms() / 1_000;
    assert!(output.contains(&format!("clock is {ahead} s ahead of this machine's")), "{output}");
}
