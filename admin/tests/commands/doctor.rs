//! Tests of `admin doctor`. A program in place of the AWS CLI prints the answers of `doctor-answers.json`, in
//! which nothing is wrong. `.ci/aws_commands.py` compares these commands and answers with the service models
//! of AWS.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use domain::acquirer::ConnectionSweep;
use domain::time::Timestamp;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::{AdminFixture, eventually, fields, lines, text};

/// Prints the answer that is stored under the words of the command. A file that begins with `An error` is an
/// error of a service. Without a file, the named object does not exist.
const FAKE_CLI: &str = r#"#!/bin/sh
file="$(dirname "$0")/$(printf '%s ' "$@" | tr -c 'A-Za-z0-9\n' '_')"
if [ ! -f "$file" ]; then
    echo 'An error occurred (ResourceNotFoundException) when calling the operation: none' >&2
    exit 254
fi
if grep -q '^An error' "$file"; then
    cat "$file" >&2
    exit 254
fi
cat "$file"
"#;

/// A stack that exists in the answers of the CLI, whose tables are those of a local service.
struct DeployedFixture {
    service: AdminFixture,
    answers: Vec<(Vec<String>, Value)>,
}

impl DeployedFixture {
    async fn start() -> Self {
        let service = AdminFixture::start().await;
        let program = service.file("aws", FAKE_CLI);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let samples: Vec<Value> = serde_json::from_str(include_str!("doctor-answers.json")).unwrap();
        let answers = samples.into_iter().map(|sample| {
            (serde_json::from_value(sample["command"].clone()).unwrap(), sample["answer"].clone())
        });
        Self { service, answers: answers.collect() }
    }

    /// Replaces a part of the answer of the only command that contains these words.
    fn set(&mut self, words: &str, pointer: &str, value: Value) {
        let mut matching = self.answers.iter_mut().filter(|(command, _)| command.join(" ").contains(words));
        let (_, answer) = matching.next().unwrap_or_else(|| panic!("no command contains {words}"));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = answer.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        assert!(matching.next().is_none(), "several commands contain {words}");
    }

    fn set_parameter(&mut self, name: &str, value: &str) {
        let stack = self.answers.iter_mut().find(|(command, _)| command[1] == "describe-stacks").unwrap();
        let parameters = stack.1["Stacks"][0]["Parameters"].as_array_mut().unwrap();
        let parameter = parameters.iter_mut().find(|parameter| parameter["ParameterKey"] == name).unwrap();
        parameter["ParameterValue"] = json!(value);
    }

    /// Removes the objects whose commands contain these words.
    fn remove(&mut self, words: &str) {
        let before = self.answers.len();
        self.answers.retain(|(command, _)| !command.join(" ").contains(words));
        assert!(self.answers.len() < before, "no command contains {words}");
    }

    async fn doctor(&self) -> Output {
        for (command, answer) in &self.answers {
            let answer = match answer {
                // The CLI prints nothing for an answer without members.
                Value::Object(members) if members.is_empty() => String::new(),
                Value::String(error) => error.clone(),
                answer => answer.to_string(),
            };
            let name = format!("{} --output json ", command.join(" "));
            let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
            self.service.file(&name, answer);
        }
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_admin"));
        doctor.args(["doctor", "--stack", "payments"]);
        self.service.as_deployed(&mut doctor);
        let path = format!("{}:{}", self.service.directory.display(), std::env::var("PATH").unwrap());
        doctor.env("PATH", path);
        tokio::task::spawn_blocking(move || doctor.output().unwrap()).await.unwrap()
    }

    /// Returns the exit code and the findings, each as `check: detail`.
    async fn findings(&self) -> (i32, Vec<String>) {
        let output = self.doctor().await;
        let found = lines(&output).into_iter().filter(|line| line["result"] == "finding");
        let found = found
            .map(|line| format!("{}: {}", line["check"].as_str().unwrap(), line["detail"].as_str().unwrap()));
        (output.status.code().unwrap(), found.collect())
    }
}

fn results(output: &Output, result: &str) -> Vec<String> {
    let with_result = lines(output).into_iter().filter(|line| line["result"] == result);
    with_result.map(|line| line["check"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn doctor_finds_nothing_in_a_stack_where_nothing_is_wrong() {
    let stack = DeployedFixture::start().await;
    let output = stack.doctor().await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let settings = [
        "stack",
        "alarms",
        "email",
        "certificates",
        "schedules",
        "failed records",
        "functions",
        "concurrency",
    ];
    let rows = ["stops", "banks", "due rows"];
    assert_eq!(results(&output, "ok"), [&settings[..], &rows[..]].concat());
    assert_eq!(lines(&output).len(), 13);
}

#[tokio::test]
async fn doctor_prints_each_fault_of_settings_and_exits_with_1() {
    let mut stack = DeployedFixture::start().await;
    stack.set("describe-stacks", "/Stacks/0/StackStatus", json!("UPDATE_ROLLBACK_COMPLETE"));
    stack.set_parameter("DashboardTokenPublicKeys", "");
    stack.set_parameter("DeliveryConcurrency", "141");
    stack.set("get-topic-attributes", "/Attributes/SubscriptionsConfirmed", json!("0"));
    stack.set("get-topic-attributes", "/Attributes/SubscriptionsPending", json!("2"));
    stack.set("describe-alarms", "/MetricAlarms/0/StateValue", json!("ALARM"));
    stack.set("describe-alarms", "/MetricAlarms/1/ActionsEnabled", json!(false));
    stack.set("sesv2 get-account", "/ProductionAccessEnabled", json!(false));
    stack.set("sesv2 get-account", "/EnforcementStatus", json!("PROBATION"));
    stack.remove("get-email-identity");
    stack.set("describe-certificate", "/Certificate/NotAfter", json!("2026-11-22T23:59:59-03:00"));
    stack.set("describe-rule --name minute", "/State", json!("DISABLED"));
    stack.set("list-objects-v2", "/Contents", json!([{"Key": "failed-stream-records/1.json"}]));
    let (code, found) = stack.findings().await;
    let topic = "the topic arn:aws:sns:sa-east-1:123456789012:alarms";
    assert_eq!(
        found,
        [
            "stack: the dashboard is closed: the parameter DashboardTokenPublicKeys is empty",
            "stack: the parameter WebhookWorkerReservedConcurrency is 140, but the queues start up to 141 runs: the others are throttled",
            "stack: the stack is in the state UPDATE_ROLLBACK_COMPLETE: its last deployment failed or has not ended",
            &format!("alarms: 2 subscriptions of {topic} are not confirmed"),
            &format!("alarms: no one is notified: {topic} has no confirmed subscription"),
            "alarms: payments-page-api-errors: it is on since 2026-11-20T10:00:00.123Z",
            "alarms: payments-page-api-latency: its actions were disabled by hand",
            "email: SES has restricted this AWS account: its status is PROBATION",
            "email: SES is in its sandbox: request production access",
            "email: SES knows neither avisos@pay.example.com nor its domain",
            "certificates: BankDomainCertificateArn: the certificate ends at 2026-11-23T02:59:59.000Z, and was not renewed",
            "schedules: SchedulerFunctionShard0: the schedule minute is disabled",
            "failed records: stream records were not processed, the first is failed-stream-records/1.json: run `events replay`",
        ]
    );
    assert_eq!(code, 1);
}

#[tokio::test]
async fn doctor_reports_settings_that_are_missing() {
    let mut stack = DeployedFixture::start().await;
    stack.set_parameter("AlarmTopicArn", "");
    stack.set_parameter("MailFrom", "");
    stack.set_parameter("DeletionProtection", "false");
    stack.set("describe-stacks", "/Stacks/0/EnableTerminationProtection", json!(false));
    let missing = "alarms: no one is notified: the parameter AlarmTopicArn is not set".to_owned();
    assert_eq!(stack.findings().await, (1, vec![missing]));
    assert_eq!(results(&stack.doctor().await, "note"), ["stack", "stack", "email"]);
    stack.set_parameter("AlarmTopicArn", "arn:aws:sns:sa-east-1:123456789012:deleted");
    let deleted =
        "alarms: no one is notified: the topic arn:aws:sns:sa-east-1:123456789012:deleted does not exist";
    assert_eq!(stack.findings().await, (1, vec![deleted.to_owned()]));
}

#[tokio::test]
async fn doctor_finds_a_forgotten_stop_and_notes_a_suspended_account_of_the_service_on_this_machine() {
    let service = AdminFixture::start().await;
    let output = service.run("doctor").await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(results(&output, "ok"), ["stops", "banks", "due rows"]);
    assert_eq!(results(&output, "left_out").len(), 10);
    for command in ["run `ledger verify`", "run `audit verify --all`"] {
        assert!(text(&output.stdout).contains(command), "{output:?}");
    }

    service.change("live-charges stop").await;
    service.change(&format!("accounts suspend {}", service.account())).await;
    let output = service.run("doctor").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let mut stops = lines(&output);
    stops.retain(|line| line["check"] == "stops");
    let [stop, suspended] = stops.as_slice() else { panic!("{stops:?}") };
    let detail = stop["detail"].as_str().unwrap();
    assert_eq!(stop["result"], "finding");
    assert!(detail.starts_with("new live charges are stopped since 2"), "{stop}");
    assert!(detail.ends_with("by ana (agreed): run `live-charges resume`"), "{stop}");
    let account = format!("{}: the account is suspended", service.account());
    assert_eq!(fields(suspended, &["result", "detail"]), json!(["note", account]));

    service.change("live-charges resume").await;
    assert_eq!(service.run("doctor").await.status.code(), Some(0));
}

#[tokio::test]
async fn doctor_notes_a_connection_that_the_sweep_could_not_read() {
    let service = AdminFixture::start().await;
    let connection = service.bank_of(&service.account()).await.unwrap().acquirer.connection;
    let (store, key) = (service.table("StateTable"), ConnectionSweep::key_of(connection));
    eventually("the sweep fails", async || {
        let sweep: ConnectionSweep = store.get(&key).await.unwrap().unwrap();
        let failing_since = Some("2026-11-21T12:00:00Z".parse().unwrap());
        let next = ConnectionSweep { next_at: Timestamp::MAX, failing_since, ..sweep.next_version() };
        let stored = store.commit(vec![Write::replace(&next, sweep.version).unwrap()]).await.unwrap();
        (stored == CommitOutcome::Done).then_some(())
    })
    .await;
    let output = service.run("doctor").await;
    assert_eq!((output.status.code(), results(&output, "note")), (Some(0), vec!["banks".to_owned()]));
    let account = service.account();
    let note = format!("{connection} of {account} has not been readable since 2026-11-21T12:00:00.000Z");
    assert!(text(&output.stdout).contains(&note), "{output:?}");
}

#[tokio::test]
async fn doctor_finds_a_disabled_verification_of_the_ledgers_unless_a_parameter_switches_it_off() {
    let mut stack = DeployedFixture::start().await;
    stack.set("describe-rule --name ledgers", "/State", json!("DISABLED"));
    let disabled = "schedules: LedgerVerifierFunctionDaily: the schedule ledgers is disabled".to_owned();
    assert_eq!(stack.findings().await, (1, vec![disabled]));
    stack.set_parameter("LedgerVerification", "off");
    assert_eq!(stack.findings().await, (0, Vec::new()));
}

#[tokio::test]
async fn doctor_prints_each_fault_of_functions() {
    let mut stack = DeployedFixture::start().await;
    let version = |number: u32| format!("arn:aws:lambda:sa-east-1:123456789012:function:charges:{number}");
    let published = "/StackResourceSummaries/4/PhysicalResourceId";
    stack.set("list-stack-resources", published, json!(version(8)));
    // A row format that no release wrote stands for one that is older than the format of this release.
    let format = "/Environment/Variables/READ_ROW_FORMAT";
    stack.set("get-function-configuration --function-name charges", format, json!("0"));
    stack.set(
        "get-alias --function-name worker",
        "/RoutingConfig",
        json!({"AdditionalVersionWeights": {"6": 0.1}}),
    );
    stack.set("get-event-source-mapping --uuid 7f2a", "/State", json!("Disabled"));
    stack.set("get-account-settings", "/AccountLimit/ConcurrentExecutions", json!(159));
    let (code, found) = stack.findings().await;
    assert_eq!(
        found,
        [
            "functions: ChargesFunction: its version 7 reads rows up to the format 0, and this release writes the format 1: first deploy a release that reads it",
            "functions: ChargesFunction: version 7 serves, but the last deployment published version 8",
            "functions: WebhookWorkerFunction: its version 6 does not exist",
            "functions: WebhookWorkerFunction: the versions 7 and 6 share the invocations: a deployment has not ended",
            "concurrency: EventDispatcherFunctionStateChanges: the event source is in the state Disabled",
            "concurrency: the stack needs 160 concurrent runs, and the quota of the AWS account is 159: request a higher one",
        ]
    );
    assert_eq!(code, 1);
}

#[tokio::test]
async fn doctor_exits_with_2_if_it_can_not_check() {
    let mut stack = DeployedFixture::start().await;
    let denied =
        "An error occurred (AccessDeniedException) when calling the GetAccount operation: not allowed";
    let (_, answer) = stack.answers.iter_mut().find(|(command, _)| command[0] == "sesv2").unwrap();
    *answer = json!(denied);
    let output = stack.doctor().await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(results(&output, "not_checked"), ["email"]);
    assert!(text(&output.stdout).contains("AccessDeniedException"), "{output:?}");

    std::fs::remove_file(stack.service.path("aws")).unwrap();
    let output = stack.doctor().await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("`aws cloudformation"), "{output:?}");
}
