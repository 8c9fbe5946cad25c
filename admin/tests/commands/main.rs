//! Tests of the operator's commands. Each command runs as a process against a local service.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

mod acquirers;
mod audit;
mod cards;
mod cost;
mod crypto;
mod doctor;
mod erasure;
mod find_charges;
mod lists;
mod live_payments;
mod med_notices;
mod notifications;
mod operations_page;
mod payout_requests;
mod policies;
mod restore;
mod settings;
mod stops;
mod token_key;
mod two_persons;

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::request::Builder;
use axum::http::{HeaderMap, StatusCode};
use domain::audit::Operator;
use domain::ids::UserId;
use faults::proxy::FaultProxy;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use local::fronts::Upstream;
use local::stack::{Options, Stack};
use policies::command_of;
use serde_json::{Value, json};
use shared::account::{Invite, LinkToken, Role, User, Users};
use shared::language::Language;
use shared::store::CommitOutcome;

const FAKE_AWS: &str = r#"#!/bin/sh
dir="$(dirname "$0")"
case "$1 $2" in
    "cloudformation describe-stacks")
        [ "$4" = payments ] || { echo 'An error occurred (ValidationError): no such stack' >&2; exit 254; }
        cat "$dir/stack.json" ;;
    "sts get-caller-identity") printf '{"Arn": "arn:aws:sts::123456789012:assumed-role/%s"}' "${CALLER:-Operators/ana}" ;;
    "iam get-role")
        [ -f "$dir/role.json" ] || { echo 'An error occurred (AccessDenied): no' >&2; exit 254; }
        cat "$dir/role.json" ;;
    "sns publish")
        [ ! -f "$dir/no-pager" ] || { echo 'An error occurred (AuthorizationError): no' >&2; exit 254; }
        printf '%s\n' "$*" >> "$dir/pages"; echo '{"MessageId": "1"}' ;;
    *) exit 1 ;;
esac
"#;

/// A local service, and a directory with the ready file that points the commands to it. A proxy records the calls of
/// the commands to DynamoDB, whose policies are checked when it is dropped.
struct AdminFixture {
    stack: Stack,
    directory: PathBuf,
    proxy: FaultProxy,
    proxy_url: String,
}

impl Drop for AdminFixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
        if !std::thread::panicking() {
            policies::check(&self.proxy.calls());
        }
    }
}

/// The words of a command: a line that is split at spaces, except between single quotes.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.map(
        |(number, part)| {
            if number % 2 == 0 { part.split_whitespace().collect() } else { vec![part] }
        },
    );
    words.flatten().collect()
}

/// The ready file of a command; that of others without a name.
fn ready_file(command: &str) -> String {
    if command.is_empty() { "ready.json".to_owned() } else { format!("{}.json", command.replace(' ', "-")) }
}

impl AdminFixture {
    /// Points a command on deployed tables to the local service.
    fn as_deployed(&self, command: &mut Command) {
        let caller = command_of(command.get_args().filter_map(OsStr::to_str));
        command.env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME").env_remove("SECRETS_TABLE_NAME");
        command.env("USER", "ana").env("AWS_REGION", "sa-east-1");
        command.env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local-secret");
        command.env("AWS_SESSION_TOKEN", caller).env("AWS_ENDPOINT_URL_DYNAMODB", &self.proxy_url);
    }

    /// Writes a ready file for each command whose calls the proxy records: their session token is its name.
    fn write_ready_files(&self, mut ready: Value) {
        self.file("ready.json", ready.to_string());
        ready["variables"]["AWS_ENDPOINT_URL_DYNAMODB"] = json!(self.proxy_url);
        for command in policies::COMMANDS.values().flatten() {
            ready["variables"]["AWS_SESSION_TOKEN"] = json!(command);
            self.file(&ready_file(command), ready.to_string());
        }
    }

    async fn start() -> Self {
        Self::start_with(Options::in_memory()).await
    }

    async fn start_with(options: Options) -> Self {
        let stack = Stack::start(options).await.unwrap();
        // No hour and no day ends during a test.
        let seconds_left = 3_600 - stack.clock.now().seconds().rem_euclid(3_600);
        if seconds_left < 600 {
            stack.clock.advance(seconds_left * 1_000);
        }
        let directory = std::env::temp_dir().join(format!("admin-{}", stack.seed.first.id));
        std::fs::create_dir_all(&directory).unwrap();
        let ready = stack.ready().await.unwrap();
        let proxy = FaultProxy::start().await.unwrap();
        let proxy_url = proxy.fronts().url(Upstream::DynamoDb, &stack.endpoints.dynamodb_url);
        let service = Self { stack, directory, proxy, proxy_url };
        service.write_ready_files(ready);
        service
    }

    fn account(&self) -> String {
        self.stack.seed.first.id.to_string()
    }

    /// Writes a file. Returns its path.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    async fn run(&self, command: &str) -> Output {
        self.run_with(command, "").await
    }

    /// Runs a command with this text on standard input.
    async fn run_with(&self, line: &str, input: &str) -> Output {
        self.run_at(&ready_file(command_of(words(line))), line, input).await
    }

    /// Runs a command on the service of a ready file.
    async fn run_at(&self, ready_file: &str, line: &str, input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.args(["--ready-file", &self.path(ready_file)]).args(words(line));
        command.env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME").env("USER", "ana");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            // A command that reads no input may have exited already.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// Writes a program in place of the AWS CLI, whose stack `payments` has this table and these parameters. Who calls is
    /// the variable `CALLER`. Returns the variable `PATH` that leads to it.
    fn fake_aws(&self, [table, api_keys]: [&str; 2], parameters: &[(&str, &str)]) -> String {
        let pairs =
            parameters.iter().map(|(key, value)| json!({"ParameterKey": key, "ParameterValue": value}));
        let tables =
            [("TableName", table), ("ApiKeysTableName", api_keys), ("SecretsTableName", "SecretsTable")];
        let outputs = tables.map(|(key, value)| json!({"OutputKey": key, "OutputValue": value}));
        let stack = json!({"Parameters": pairs.collect::<Vec<_>>(), "Outputs": outputs});
        self.file("stack.json", json!({ "Stacks": [stack] }).to_string());
        let program = self.file("aws", FAKE_AWS);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("{}:{}", self.directory.display(), std::env::var("PATH").unwrap())
    }

    /// Runs a command on the state table and the table of API keys with these names, as on a deployed stack where one
    /// operator may act alone.
    async fn run_on_tables(&self, [state, api_keys]: [&str; 2], line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.args(["--table", state, "--api-keys-table", api_keys]).args(words(line));
        command.args(["--stack", "payments", "--alone"]);
        self.as_deployed(&mut command);
        command.env("PATH", self.fake_aws([state, api_keys], &[("OperatorsMayActAlone", "true")]));
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a command that must succeed. Returns the JSON objects that it prints, one per line.
    async fn objects(&self, command: &str) -> Vec<Value> {
        let output = self.run(command).await;
        assert!(output.status.success(), "{output:?}");
        lines(&output)
    }

    async fn object(&self, command: &str) -> Value {
        self.objects(command).await.remove(0)
    }

    /// Runs a command that must succeed, for the reason `agreed`.
    async fn change(&self, command: &str) -> Value {
        self.object(&format!("{command} --reason agreed")).await
    }

    /// Runs a command that must fail and must print nothing on standard output. Returns its standard error.
    async fn failure(&self, command: &str) -> String {
        let output = self.run(command).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let message = text(&output.stderr);
        assert!(!message.contains("dispatch failure"), "{message}");
        message
    }

    /// Runs a command that must fail with an error that contains a text.
    async fn refuses(&self, command: &str, text: &str) {
        let message = self.failure(command).await;
        assert!(message.contains(text), "{text}: {message}");
    }

    /// Verifies the ledgers of the first account in a mode, which must have no differences.
    async fn verify_ledger(&self, mode: &str) -> Output {
        let output = self.run(&format!("ledger verify --account {} --mode {mode}", self.account())).await;
        assert!(output.status.success(), "{output:?}");
        output
    }

    /// Returns an account's audit rows, newest first, without those that `local` wrote when it set up the bank
    /// on this machine.
    async fn audit(&self, account: &str) -> Vec<Value> {
        let mut rows = self.objects(&format!("audit {account}")).await;
        rows.retain(|row| row["actor"] != "local");
        rows
    }

    /// Returns the actions of an account's audit rows, oldest first.
    async fn actions(&self, account: &str) -> Vec<String> {
        let rows = self.audit(account).await;
        rows.iter().rev().map(|row| row["action"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends a request with one header, without a body. Returns the status, the headers and the body.
    async fn send(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, HeaderMap, Value) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.stack.base_url));
        exchange(request.header(header.0, header.1).header("content-type", "application/json"), "").await
    }

    async fn request(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, Value) {
        let (status, _, body) = self.send(method, path, header).await;
        (status, body)
    }

    /// Sends a request of a dashboard user.
    async fn request_of(&self, token: &str, method: &str, path: &str) -> (u16, Value) {
        self.request(method, path, ("authorization", &format!("Bearer {token}"))).await
    }

    async fn log_in(&self, email: &str, password: &str) -> Option<String> {
        let body = json!({"email": email, "password": password}).to_string();
        let request = Request::post(format!("{}/v1/auth/login", self.stack.base_url));
        let (status, _, login) = exchange(request.header("content-type", "application/json"), &body).await;
        assert_eq!(status == 200, login["token"].is_string());
        login["token"].as_str().map(str::to_owned)
    }

    /// Adds an owner to an account. Returns the owner's token.
    async fn add_owner(&self, account: &str) -> String {
        let email = "bia@padaria.example";
        let owner = self.change(&format!("users add {account} --email {email} --role owner")).await;
        self.log_in(email, owner["password"].as_str().unwrap()).await.unwrap()
    }
}

/// Sends a request. Returns the status, the headers and the body of the answer.
async fn exchange(request: Builder, body: &str) -> (u16, HeaderMap, Value) {
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap();
    let (answer, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (answer.status.as_u16(), answer.headers, serde_json::from_slice(&body).unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the JSON objects that a command printed, one per line.
fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn id(object: &Value) -> &str {
    object["id"].as_str().unwrap()
}

/// The id of a charge as that of a payment.
fn raw_id(charge: &Value) -> &str {
    id(charge).trim_start_matches("ch_")
}

/// Returns the values of these fields as a JSON array.
fn fields(object: &Value, names: &[&str]) -> Value {
    names.iter().map(|name| object[name].clone()).collect()
}

#[tokio::test]
async fn ledger_verify_prints_each_difference_and_exits_with_an_error_if_there_is_one() {
    let service = AdminFixture::start().await;
    let output = service.run("ledger verify").await;
    assert!(output.status.success(), "{output:?}");
    // Two accounts with two modes each.
    assert_eq!(text(&output.stdout), "4 ledgers, 0 postings, 0 differences\n");

    let scope = format!("{}:live", service.account());
    let update = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url)
        .update_item()
        .table_name("StateTable")
        .key("pk", AttributeValue::S(format!("wallet#{scope}")))
        .key("sk", AttributeValue::S("EUR#shard#3".to_owned()))
        .update_expression("ADD cr_merchant_available :five")
        .expression_attribute_values(":five", AttributeValue::N("5".to_owned()));
    update.send().await.unwrap();
    let output = service.run("ledger verify").await;
    assert!(!output.status.success());
    assert_eq!(
        text(&output.stdout),
        format!(
            "{scope} EUR: merchant_available credits: the postings add up to 0, stored is 5\n4 ledgers, 0 postings, 1 differences\n"
        )
    );
}

#[tokio::test]
async fn an_operator_adjusts_a_balance_and_creates_settles_and_fails_payouts() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let scope = format!("--account {account} --mode test");
    let adjust = |reference: &str, amount: &str| {
        format!("ledger adjust --reference {reference} --amount {amount} {scope} --reason goodwill")
    };
    let adjusted = service.object(&adjust("c1", "1000")).await;
    assert_eq!(fields(&adjusted, &["type", "net", "note"]), json!(["adjustment", 1000, null]));
    assert_eq!(service.object(&adjust("c2", "-100")).await["net"], -100);
    service.refuses(&adjust("c3", "-901"), "is only 900 (minor units)").await;

    let create = |reference: &str, amount: &str| {
        format!("payouts create --reference {reference} --amount {amount} {scope} --reason goodwill")
    };
    let first = service.object(&create("p1", "600")).await;
    let shown = fields(&first, &["object", "amount", "currency", "status", "reference"]);
    assert_eq!(shown, json!(["payout", 600, "BRL", "pending", "p1"]));
    let second = service.object(&create("p2", "300")).await;
    service.refuses(&create("p3", "1"), "is only 0 (minor units)").await;
    let (first, second) = (id(&first), id(&second));
    for dry_run in ["", "--dry-run"] {
        let twice = format!("payouts settle {first} {second} {first} --reason paid {dry_run}");
        service.refuses(&twice, &format!("{first} is named twice: nothing was changed")).await;
    }
    let dry = service.run(&format!("payouts fail {first} {second} --reason x --dry-run")).await;
    let marks: Vec<Value> = lines(&dry).iter().map(|line| line["dry_run"].clone()).collect();
    assert_eq!(marks, [true, true], "{dry:?}");
    let settled = service.change(&format!("payouts settle {first}")).await;
    assert_eq!((&settled["status"], settled["paid_at"].is_string()), (&json!("paid"), true));
    assert!(settled["dry_run"].is_null(), "{settled}");
    let failed = service.object(&format!("payouts fail {second} --reason 'account closed'")).await;
    assert_eq!(fields(&failed, &["status", "failure_reason"]), json!(["failed", "account closed"]));
    service.refuses(&format!("payouts fail {first} --reason late"), "already ended: it is paid").await;
    assert_eq!(service.objects(&format!("payouts list {scope}")).await, [failed, settled]);
    assert!(service.objects(&format!("payouts list {scope} --status pending")).await.is_empty());
    let shown = service.object(&format!("payouts show {first}")).await;
    assert_eq!(fields(&shown, &["status", "scope"]), json!(["paid", format!("{account}:test")]));
    let shown = service.object(&format!("ledger show {scope}")).await;
    assert_eq!(fields(&shown, &["available", "total"]), json!([300, 300]));
    let again = service.object(&create("p1", "600")).await;
    assert_eq!((id(&again), &again["status"]), (first, &json!("paid")), "the existing payout is shown");
    service.refuses(&create("p1", "601"), &format!("belongs to the payout {first}, which differs")).await;
    service.refuses(&adjust("p1", "600"), &format!("belongs to the payout {first}, which differs")).await;
    service.refuses(&create("c1", "1000"), "belongs to the correction mv_").await;
    service.refuses(&adjust("'two words'", "1"), "must be 1 to 64").await;
    service.refuses(&adjust("c4", "0"), "must not be zero").await;
    service.object(&adjust("c4", "1")).await;
    service.object(&adjust("c5", "-1")).await;

    let output = service.verify_ledger("test").await;
    assert_eq!(text(&output.stdout), "1 ledgers, 8 postings, 0 differences\n");
    assert!(
        text(&output.stderr).contains(&service.stack.base_url),
        "standard error names the stack that was verified"
    );
}

#[tokio::test]
async fn an_operator_sets_and_reads_an_accounts_terms() {
    let service = AdminFixture::start().await;
    let account = service.account();
    assert_eq!(service.objects("accounts list").await.len(), 2);
    let show = format!("accounts show {account}");
    assert_eq!(service.object(&show).await["terms"], json!([]));
    for set in
        ["set-fees --acquirer 10+99 --platform 0+50", "set-hold --days 2", "set-fees-on-refund --fees keep"]
    {
        service.change(&format!("accounts {set} {account} --method pix")).await;
    }
    assert_eq!(
        service.object(&show).await["terms"],
        json!([{
            "method": "pix", "acquirer_fee": {"fixed": 10, "basis_points": 99},
            "platform_fee": {"fixed": 0, "basis_points": 50}, "hold_days": 2, "fees_on_refund": "keep",
        }])
    );
    let audit = service.audit(&account).await;
    assert_eq!(audit.len(), 3);
    let newest = fields(&audit[0], &["action", "actor", "reason"]);
    assert_eq!(newest, json!(["account.set-fees-on-refund", "ana", "agreed"]));
    assert!(audit[1]["details"].to_string().contains(r#"[10,99,0,50,2,"return"]"#), "{}", audit[1]);
}

#[tokio::test]
async fn the_number_of_shards_can_only_be_raised() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let shards = |number| format!("accounts set-shards {account} --reason throttles --shards {number}");
    for number in ["8", "8", "16"] {
        assert_eq!(service.object(&shards(number)).await["shards"].to_string(), number);
    }
    service.refuses(&shards("8"), "must be at least 16").await;
    for number in ["0", "17", "many"] {
        service.refuses(&shards(number), "from 1 to 16").await;
    }
    let once = ["account.set-shards-read", "account.set-shards"];
    assert_eq!(service.actions(&account).await, [once, once].concat());
}

#[tokio::test]
async fn an_operator_opens_an_account_and_sets_its_limits() {
    let service = AdminFixture::start().await;
    let opened = service.change("accounts open --merchant-name Padaria --merchant-city Recife").await;
    let account = id(&opened);
    assert_eq!(
        fields(&opened, &["merchant_name", "rate_limit_per_minute", "contact", "mail"]),
        json!(["Padaria", 600, null, "on"])
    );
    assert_eq!(service.object(&format!("accounts show {account}")).await, opened);
    let open = |more: &str| format!("accounts open --merchant-city Recife {more} --reason agreed");
    let contact = "--contact Ana@padaria.example";
    let has = |what: &str| format!("the account {account} (Padaria) has this {what}: nothing was changed");
    service.refuses(&open(&format!("--merchant-name pádaria {contact}")), &has("name")).await;
    let second = service.object(&open(&format!("--merchant-name Padaria --another {contact}"))).await;
    assert_eq!(second["contact"], "Ana@padaria.example");
    let same_contact = open("--merchant-name Loja --contact ana@PADARIA.example");
    service.refuses(&same_contact, "has this e-mail address: nothing was changed. --another permits").await;

    // A new owner can manage API keys immediately.
    let token = service.add_owner(account).await;
    let of_owner = open("--merchant-name Loja --contact Bia@padaria.example");
    service.refuses(&of_owner, &has("e-mail address")).await;
    let (status, key) = service.request_of(&token, "POST", "/v1/api-keys").await;
    assert_eq!((status, &key["mode"]), (201, &json!("live")));
    let api_key = key["apiKey"].as_str().unwrap();
    let keys = service.objects(&format!("keys list {account}")).await;
    assert_eq!((keys.len(), &keys[0]["id"]), (1, &key["id"]));
    assert!(!keys[0].to_string().contains(api_key));
    for (set, field, value) in [
        ("set-rate-limit --per-minute 7", "rate_limit_per_minute", json!(7)),
        ("set-charge-expiry --seconds 120", "charge_expires_in_seconds", json!(120)),
        ("set-boleto-due --days 5", "boleto_due_days", json!(5)),
        (
            "set-velocity --per-customer 3 --per-account 50",
            "velocity",
            json!({"per_customer": 3, "per_account": 50, "per_link": 60}),
        ),
        ("set-contact --email eva@padaria.example", "contact", json!("eva@padaria.example")),
        ("set-document --document 11222333000181", "document", json!("11222333000181")),
        ("set-mail --mail off", "mail", json!("off")),
        ("set-mail --mail on", "mail", json!("on")),
        ("set-refunds-to-payer-only --payer-only on", "refunds_to_payer_only", json!(true)),
        (
            "set-third-party-refund-limit --mode live --centavos 100000",
            "third_party_refund_limit",
            json!({"test": null, "live": 100_000}),
        ),
        (
            "set-third-party-refund-limit --mode live --no-limit",
            "third_party_refund_limit",
            json!({"test": null, "live": null}),
        ),
    ] {
        assert_eq!(service.change(&format!("accounts {set} {account}")).await[field], value, "{set}");
    }
    let set_document =
        format!("accounts set-document {} --document 11222333000181 --reason agreed", id(&second));
    service.refuses(&set_document, &has("document")).await;
    service.object(&format!("{set_document} --another")).await;
    let neither = format!("accounts set-third-party-refund-limit {account} --mode live --reason x");
    let neither = service.failure(&neither).await;
    assert!(neither.contains("--centavos") && neither.contains("--no-limit"), "{neither}");
    let (status, headers, _) = service.send("GET", "/v1/charges", ("apikey", api_key)).await;
    assert_eq!((status, headers["x-ratelimit-limit-minute"].to_str().unwrap()), (200, "7"));
    let revoke = format!("keys revoke {account} {}", id(&key));
    assert_eq!(service.change(&revoke).await["revoked"], true);
    assert_eq!(service.request("GET", "/v1/charges", ("apikey", api_key)).await.0, 401);
    service.refuses(&format!("{revoke} --reason x"), "no such API key").await;

    assert_eq!(
        service.actions(account).await,
        [
            "account.open",
            "user.add",
            "user.log-in",
            "api-key.issue",
            "account.set-rate-limit",
            "account.set-charge-expiry",
            "account.set-boleto-due",
            "account.set-velocity",
            "account.set-contact",
            "account.set-document",
            "account.set-mail",
            "account.set-mail",
            "account.set-refunds-to-payer-only",
            "account.set-third-party-refund-limit",
            "account.set-third-party-refund-limit",
            "api-key.revoke",
        ]
    );
    assert!(!format!("{:?}", service.audit(account).await).contains(api_key));
}

#[tokio::test]
async fn an_operator_adds_changes_and_removes_users() {
    let service = AdminFixture::start().await;
    let account = service.open_account().await;
    let run = async |word: &str, more: &str| {
        service.change(&format!("users {word} {account} --email Eva@Loja.example {more}")).await
    };
    let log_in =
        async |user: &Value| service.log_in("eva@loja.example", user["password"].as_str().unwrap()).await;
    let works = async |token: &str| service.request_of(token, "GET", "/v1/api-keys").await.0 == 200;
    let added = run("add", "--role owner").await;
    assert_eq!(fields(&added, &["email", "role"]), json!(["eva@loja.example", "OWNER"]));
    assert_eq!(added["password"].as_str().unwrap().len(), 24);
    let again = format!("users add {account} --email eva@loja.example --role admin --reason x");
    service.refuses(&again, "has this e-mail address").await;
    let first = log_in(&added).await.unwrap();
    assert_eq!(run("set-role", "--role member").await["role"], "MEMBER");
    let (status, keys) = service.request_of(&first, "GET", "/v1/api-keys").await;
    assert_eq!((status, &keys["access"]["canManage"]), (200, &json!(false)), "the session goes on");

    let reset = run("reset-password", "").await;
    assert!(!works(&first).await && log_in(&added).await.is_none());
    let second = log_in(&reset).await.unwrap();
    assert_eq!(service.objects(&format!("users list {account}")).await.len(), 1);
    assert_eq!(run("remove", "").await["removed"], true);
    assert!(!works(&second).await && log_in(&reset).await.is_none());
    for (account, email) in [(&account, "eva@loja.example"), (&service.account(), "owner@outra.example")] {
        let absent = format!("users remove {account} --email {email} --reason x");
        service.refuses(&absent, "no user of the account").await;
    }
    // Earlier tokens do not work for a user who is added again under the same address.
    let third = log_in(&run("add", "--role admin").await).await.unwrap();
    assert!(!works(&first).await && !works(&second).await && works(&third).await);
    assert_eq!(
        service.actions(&account).await,
        [
            "account.open",
            "user.add",
            "user.log-in",
            "user.set-role",
            "user.reset-password",
            "user.log-in",
            "user.remove",
            "user.add",
            "user.log-in",
        ]
    );
    let audit = format!("{:?}", service.audit(&account).await);
    assert!(!audit.contains(reset["password"].as_str().unwrap()) && !audit.contains("argon2"), "{audit}");

    let (now, invited) = (service.stack.clock.now(), ("bia@padaria.example", Role::Admin));
    let sender = (account.parse().unwrap(), UserId::from_email("eva@loja.example"));
    let invite = Invite::new(&LinkToken::random().unwrap(), sender, invited, Language::Portuguese, now);
    let by = Operator { actor: "test".to_owned(), reason: "test".to_owned(), ..Operator::default() };
    let users = Users::new(service.table("StateTable"));
    assert!(users.invite(&invite, &by.into(), now).await.unwrap());
    let listed = service.objects(&format!("users list {account}")).await;
    let shown = fields(&listed[1], &["email", "role", "invited_by"]);
    assert_eq!(shown, json!(["bia@padaria.example", "ADMIN", "eva@loja.example"]));
    assert!(listed[1]["invited_until"].is_string(), "{listed:?}");
}

#[tokio::test]
async fn a_user_without_phone_and_recovery_codes_logs_in_again_after_the_second_factor_is_removed() {
    let service = AdminFixture::start().await;
    let (account, user) = (service.account(), &service.stack.seed.first);
    let store = service.table("StateTable");
    let stored: User =
        store.get(&User::key_of(&UserId::from_email(&user.owner_email))).await.unwrap().unwrap();
    let on = User { second_factor_at: Some(service.stack.clock.now()), version: 2, ..stored };
    let outcome = store.commit(vec![shared::store::Write::replace(&on, 1).unwrap()]).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Done);
    assert!(service.log_in(&user.owner_email, &user.password).await.is_none());
    let remove = format!("users remove-second-factor {account} --email {}", user.owner_email);
    assert_eq!(service.change(&remove).await["email"], user.owner_email);
    service.log_in(&user.owner_email, &user.password).await.unwrap();
    let row = &service.audit(&account).await[1];
    assert_eq!(fields(row, &["action", "actor"]), json!(["user.second-factor-off", "ana"]));
}

/// Runs a command on a machine without a service. Returns the error.
fn fail_without_service(command: &str, variables: &[(&str, &str)]) -> String {
    let mut admin = Command::new(env!("CARGO_BIN_EXE_admin"));
    admin.args(words(command)).env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME");
    let output = admin.envs(variables.iter().copied()).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    text(&output.stderr)
}

#[tokio::test]
async fn an_invalid_command_is_refused_with_the_reason() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let create = format!("payouts create --account {account} --mode test --amount");
    let limit = format!("accounts set-rate-limit {account} --reason x --per-minute");
    let add = "users add --reason x --role";
    for (command, says) in [
        (format!("{create} 100"), "--reason"),
        (format!("{create} 100 --reason x"), "--reference"),
        (format!("{create} 0 --reason x --reference x"), "at least 1"),
        (format!("{create} 1.5 --reason x --reference x"), "integer"),
        (format!("{create} 100 --currency BLR --reason x --reference x"), "currency"),
        (format!("accounts suspend {account} --reason x --dry-run"), "--dry-run is for commands"),
        (
            "ledger verify --account acc_0000000000000000".to_owned(),
            "there is no account acc_0000000000000000",
        ),
        (format!("{add} owner --email ana {account}"), "e-mail"),
        (format!("{add} boss --email a@b.example {account}"), "possible values"),
        (format!("{add} owner --email a@b.example acc_0000000000000000"), "no account"),
        (format!("accounts set-contact {account} --email ana --reason x"), "must be an e-mail address"),
        (format!("{limit} 0"), "per-minute"),
        (format!("{limit} 60001"), "per-minute"),
        (format!("{limit} -1"), "per-minute"),
        (format!("{limit} many"), "per-minute"),
        (
            format!("accounts set-fees {account} --method pix --acquirer 5 --platform 0+0 --reason x"),
            "FIXED+BASIS_POINTS",
        ),
    ] {
        service.refuses(&command, says).await;
    }
    for blank in ["accounts open --merchant-name x --merchant-city", "live-charges stop --reason"] {
        service.refuses(&format!("{blank} ' '"), "characters").await;
    }

    // A killed service leaves its ready file behind. The command reports that no service runs.
    let url = "http://127.0.0.1:1";
    let ready = json!({"base_url": url, "variables": {}});
    let stale = service.file("stale.json", ready.to_string());
    for (file, says) in
        [(stale.as_str(), "no service runs"), ("nowhere/ready.json", "start it with `cargo run`")]
    {
        let message = fail_without_service(&format!("--ready-file {file} ledger verify"), &[]);
        assert!(message.contains(says), "{message}");
    }
    // With only one of the two table variables set, the command fails. It must not fall back to the local
    // service.
    for (set, missing) in [("TABLE_NAME", "API_KEYS_TABLE_NAME"), ("API_KEYS_TABLE_NAME", "TABLE_NAME")] {
        let message = fail_without_service("ledger verify", &[(set, "a")]);
        assert!(message.contains(&format!("{missing} is not")), "{message}");
    }
}

/// Sends requests with an API key.
struct Merchant {
    base_url: String,
    key: String,
}

impl Merchant {
    /// With the first account's test key.
    fn of(service: &AdminFixture) -> Self {
        Self { base_url: service.stack.base_url.clone(), key: service.stack.seed.first.test_api_key.clone() }
    }

    /// With the first account's live key.
    fn live(service: &AdminFixture) -> Self {
        Self { key: service.stack.seed.first.live_api_key.clone(), ..Self::of(service) }
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.answer(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    async fn get(&self, path: &str) -> Value {
        self.send("GET", path, json!(null)).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.send("POST", path, body).await
    }

    async fn answer(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header("apikey", &self.key)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("key-{}", shared::random::below(u64::MAX)));
        let (status, _, answer) = exchange(request, &body.to_string()).await;
        (status, answer)
    }

    /// Creates a Pix charge of R$ 10,00.
    async fn charge(&self) -> Value {
        self.post("/v1/pix/charges", json!({"amount": 1000})).await
    }

    /// Plays the acquirer of a test charge.
    async fn sandbox(&self, charge: &Value, action: &str, body: Value) -> Value {
        self.post(&format!("/v1/sandbox/charges/{}/{action}", id(charge)), body).await
    }

    async fn register_endpoint(&self, url: &str, event: &str) -> Value {
        self.post("/v1/webhooks/endpoints", json!({"url": url, "events": [event]})).await
    }

    async fn advance(&self, seconds: i64) {
        self.post("/_local/clock/advance", json!({"seconds": seconds})).await;
    }

    async fn deliveries(&self, query: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/webhooks/deliveries?limit=100{query}")).await;
        page["data"].as_array().unwrap().clone()
    }
}

/// Polls until `condition` returns a value. Fails after a minute with the text `expected`.
async fn eventually<T, F: AsyncFnMut() -> Option<T>>(expected: &str, mut condition: F) -> T {
    let began = Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "not within a minute: {expected}");
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_millis(100));
    }
}

/// A merchant's server. It responds 204 while `up` is true, and 503 otherwise.
struct MerchantServer {
    url: String,
    up: Arc<AtomicBool>,
}

impl MerchantServer {
    async fn start() -> Self {
        let up = Arc::new(AtomicBool::new(false));
        let is_up = up.clone();
        let answer = async move || {
            if is_up.load(Ordering::SeqCst) {
                StatusCode::NO_CONTENT
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, up }
    }
}

#[tokio::test]
async fn failed_deliveries_are_redriven_once() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let (shop, other) = (MerchantServer::start().await, MerchantServer::start().await);
    let endpoint = merchant.register_endpoint(&shop.url, "charge.created").await;
    let to_delete = merchant.register_endpoint(&other.url, "charge.created").await;
    for _ in 0..2 {
        merchant.charge().await;
    }
    let account = service.account();
    let redrive = format!("deliveries redrive --account {account} --mode test --reason agreed");
    let run = async |more: &str| {
        let output = service.run(&format!("{redrive} --since 2026-01-01 {more}")).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    for attempt in 1..=15 {
        eventually("each delivery's attempt ends", async || {
            let ended =
                |delivery: &Value| delivery["attempts"] == attempt && delivery["status"] != "PROCESSING";
            let deliveries = merchant.deliveries("").await;
            (deliveries.len() == 4 && deliveries.iter().all(ended)).then_some(())
        })
        .await;
        if attempt == 1 {
            assert_eq!(run("--dry-run").await, "dry run: 0 deliveries, 0 resent\n");
            let waiting = run("--pending --dry-run").await;
            assert!(waiting.ends_with("\ndry run: 4 deliveries, 0 resent\n"), "{waiting}");
            let output = service.run(&format!("{redrive} --since 2026-01-01")).await;
            assert!(text(&output.stderr).contains("4 deliveries wait for their next attempt: --pending"));
        }
        merchant.advance(54_000).await;
    }
    shop.up.store(true, Ordering::SeqCst);
    let dry = run("--dry-run").await;
    assert!(dry.ends_with("\ndry run: 4 deliveries, 0 resent\n") && dry.lines().count() == 3, "{dry}");
    assert!(dry.lines().take(2).all(|line| line.starts_with(r#"{"dry_run":true,"#)), "{dry}");
    assert_eq!(merchant.deliveries("").await.len(), 4, "a dry run creates no delivery");
    let to_shop = format!("--endpoint {}", id(&endpoint));
    let printed = run(&to_shop).await;
    let (line, sum) = printed.split_once('\n').unwrap();
    assert_eq!(sum, "2 deliveries, 2 resent\n");
    let line: Value = serde_json::from_str(line).unwrap();
    let shown = fields(&line, &["endpointId", "found", "queued", "refused"]);
    assert_eq!(shown, json!([endpoint["id"], 2, 2, null]));
    eventually("both new deliveries are delivered", async || {
        (merchant.deliveries("&status=DELIVERED").await.len() == 2).then_some(())
    })
    .await;
    let again = run(&to_shop).await;
    assert_eq!(again, "0 deliveries, 0 resent\n", "nothing is left to resend");
    let mut audit = service.audit(&account).await;
    audit.retain(|row| row["action"] == "deliveries.redrive");
    assert_eq!(audit.len(), 1);
    assert_eq!(fields(&audit[0], &["subject", "actor"]), json!([endpoint["id"], "ana"]));
    let details = fields(&audit[0]["details"], &["deliveries", "since"]);
    assert_eq!(details, json!([2, "2026-01-01T03:00:00.000Z"]));
    // Deliveries to a deleted endpoint are left out.
    let path = format!("/v1/webhooks/endpoints/{}", id(&to_delete));
    merchant.send("DELETE", &path, json!(null)).await;
    assert_eq!(run("").await, "0 deliveries, 0 resent\n");
    service.refuses(&redrive, "--since").await;
}

#[tokio::test]
async fn quarantined_records_are_replayed_and_removed_and_unreadable_records_stay() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let shop = MerchantServer::start().await;
    shop.up.store(true, Ordering::SeqCst);
    let first = merchant.charge().await;
    eventually("the charge's events are stored", async || {
        let log = merchant.get("/v1/events").await;
        (log["data"].as_array().unwrap().len() == 3).then_some(())
    })
    .await;
    // Without its events, the charge looks as if its record was never dispatched.
    let dynamodb = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let events = format!("events#{}:test", service.account());
    for item in service.table("StateTable").partition(&events).await.unwrap() {
        let delete = dynamodb.delete_item().table_name("StateTable");
        delete.key("pk", item["pk"].clone()).key("sk", item["sk"].clone()).send().await.unwrap();
    }
    merchant.register_endpoint(&shop.url, "charge.created").await;
    let records =
        local::event_sources::stream_records(&service.stack.database(), "StateTable", None).unwrap();
    let is_new_charge = |record: &&Value| {
        record["eventName"] == "INSERT"
            && record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().starts_with("charge#")
    };
    let record = records.iter().find(is_new_charge).unwrap().clone();
    let mut poison = record.clone();
    poison["dynamodb"]["NewImage"]["status"] = json!({"S": "NONSENSE"});
    poison["dynamodb"]["SequenceNumber"] = json!("999");
    let failed_invocation = json!({
        "requestContext": {"condition": "RecordAgeExceeded"}, "version": "1.0",
        "payload": json!({"Records": [record]}).to_string(),
    });
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    for (key, body) in [
        (
            "aws/lambda/0f1e2d3c/shardId-00000001573689847184-864758bb/2026-11-21T00.13.49-9af7",
            &failed_invocation,
        ),
        ("failed-stream-records/999.json", &poison),
        ("failed-stream-records/1000.json", &record),
        ("other/not-ours.json", &record),
    ] {
        let put = s3.put_object().bucket("failed-records-bucket").key(key);
        put.body(body.to_string().into_bytes().into()).send().await.unwrap();
    }
    let keys = async || {
        let listed = s3.list_objects_v2().bucket("failed-records-bucket").send().await.unwrap();
        let mut keys: Vec<String> =
            listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    // The audit also has rows of the merchant's own actions.
    let audit_of_replays = async || {
        let mut audit = service.audit(&service.account()).await;
        audit.retain(|row| row["action"] == "events.replay");
        audit
    };
    let dry = service.run("events replay --dry-run --reason look").await;
    assert!(!dry.status.success(), "one record is unreadable");
    let message = text(&dry.stdout);
    let summary = "\ndry run: 3 objects, 2 records could be replayed, 1 objects left\n";
    assert!(message.ends_with(summary), "{message}");
    assert_eq!((keys().await.len(), audit_of_replays().await.len()), (4, 0), "a dry run changes nothing");

    let output = service.run("events replay --reason mended").await;
    assert!(!output.status.success());
    let message = text(&output.stdout);
    assert!(message.ends_with("3 objects, 2 records replayed, 1 objects left\n"), "{message}");
    assert!(message.contains("that they change, still can't be read: 999"), "{message}");
    assert_eq!(keys().await, ["failed-stream-records/999.json", "other/not-ours.json"]);
    let delivery = eventually("the event is delivered after the replay", async || {
        merchant.deliveries("&status=DELIVERED").await.into_iter().next()
    })
    .await;
    assert_eq!(delivery["payload"]["data"]["object"]["id"], first["id"]);
    assert_eq!(merchant.deliveries("").await.len(), 1, "two copies of the record cause one delivery");
    let stats = merchant.get("/v1/payments/stats").await;
    assert_eq!(stats["totalTransactions"], 1, "two copies of the record count once: {stats}");
    let audit = audit_of_replays().await;
    assert_eq!((audit.len(), &audit[0]["reason"]), (2, &json!("mended")));
}

#[tokio::test]
async fn an_operator_confirms_a_med_case_adds_evidence_and_decides_it() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let merchant = Merchant::of(&service);
    let charge = merchant.charge().await;
    merchant.sandbox(&charge, "pay", json!({})).await;
    let case = merchant.sandbox(&charge, "med-cases", json!({"amount": 300})).await;
    let id = id(&case);

    let list = format!("med list --account {account} --mode test --unconfirmed");
    let listed = service.objects(&format!("{list} --status open")).await;
    assert_eq!(listed, [service.object(&format!("med show {id}")).await]);
    assert_eq!(fields(&listed[0], &["moved", "unconfirmed"]), json!([0, true]));
    let within = |time: &str| format!("med list --account {account} --mode test --deadline-within {time}");
    let mut urgent = Vec::new();
    for hours in [30, 20, -1] {
        let deadline = service.stack.clock.now().saturating_plus_seconds(hours * 3_600);
        let charge = merchant.charge().await;
        merchant.sandbox(&charge, "pay", json!({})).await;
        let case = merchant.sandbox(&charge, "med-cases", json!({ "response_deadline": deadline })).await;
        urgent.push(case["id"].clone());
    }
    let found = async |time: &str| {
        service.objects(&within(time)).await.into_iter().map(|case| case["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("24h").await, [urgent[1].clone()]);
    assert_eq!(found("2d").await, [urgent[1].clone(), urgent[0].clone()]);
    service.refuses(&within("soon"), "must be hours or days, such as 24h or 2d").await;
    service.refuses(&format!("{} --status open", within("24h")), "cannot be used with").await;
    let confirmed = service.change(&format!("med confirm {id}")).await;
    assert_eq!(fields(&confirmed, &["moved", "unconfirmed"]), json!([300, false]));
    service.refuses(&format!("med confirm {id} --reason x"), "does not await confirmation").await;
    assert!(service.objects(&list).await.is_empty());
    let requested = service.change(&format!("med request-evidence {id}")).await;
    assert!(requested["evidence_requested_at"].is_string());

    let picture = service.file("prova.gif", b"GIF89a and so on");
    let added = service.change(&format!("med evidence add {id} {picture}")).await;
    assert_eq!(
        fields(&added, &["file_name", "file_size", "mime_type", "uploaded_by"]),
        json!(["prova.gif", 16, "image/gif", "platform"])
    );
    let listed = service.objects(&format!("med evidence list {id}")).await;
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &added["id"]));
    assert!(listed[0]["view_url"].as_str().unwrap().starts_with(&service.stack.endpoints.s3_url));
    for (path, says) in [
        (service.file("notes.txt", b"hello"), "must be PNG"),
        (service.file("empty.png", b""), "1 to 10485760 (bytes)"),
        (service.file("long.pdf", [&b"%PDF-"[..], &vec![0; 10_485_760]].concat()), "1 to 10485760 (bytes)"),
        (service.path("absent.png"), "absent.png"),
    ] {
        service.refuses(&format!("med evidence add {id} {path} --reason x"), says).await;
    }

    let decide = format!("med decide {id} --decision closed-without-refund");
    let decided = service.change(&decide).await;
    assert_eq!(
        fields(&decided, &["status", "money_outcome", "evidence_count"]),
        json!(["closed", "closed_without_refund", 1])
    );
    assert_eq!(service.change(&decide).await, decided, "the same decision again changes nothing");
    for (command, says) in [
        (format!("med decide {id} --decision merchant"), "already closed"),
        (format!("med request-evidence {id}"), "already closed"),
        (format!("med evidence add {id} {picture}"), "until the case is closed"),
    ] {
        service.refuses(&format!("{command} --reason x"), says).await;
    }
    service.refuses("med show med_2c8fbvkddqhfn8azsp66rsx0zrcmh1s0vnmtve58mw", "there is no case").await;

    assert_eq!(
        service.actions(&account).await,
        ["med.confirm", "med.request-evidence", "med.add-evidence", "med.decide"]
    );
    let audit = service.audit(&account).await;
    assert!(audit.iter().all(|row| row["subject"] == id && row["actor"] == "ana"));
    assert_eq!(audit[0]["details"], "closed_without_refund");
    assert!(audit[1]["details"].to_string().contains("prova.gif"));
    assert_eq!(audit[3]["details"], json!({"mode": "test", "currency": "BRL", "minor": 300}));
    service.verify_ledger("test").await;
}
