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
mod doctor;
mod erasure;
mod find_charges;
mod lists;
mod live_payments;
mod med_notices;
mod notifications;
mod operations_page;
mod restore;
mod stops;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::StatusCode;
use domain::audit::Operator;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::account::{Invite, LinkToken, Role, User, Users};
use shared::language::Language;
use shared::store::Store;

/// A local service and the ready file that points the commands to it.
struct AdminFixture {
    stack: Stack,
    ready_file: PathBuf,
}

impl Drop for AdminFixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.ready_file);
    }
}

impl AdminFixture {
    async fn start() -> Self {
        let stack = Stack::start(Options::in_memory()).await.unwrap();
        let name = format!("ready-{}.json", stack.seed.first.id);
        let ready_file = std::env::temp_dir().join(name);
        std::fs::write(&ready_file, serde_json::to_vec(&stack.ready().unwrap()).unwrap()).unwrap();
        Self { stack, ready_file }
    }

    fn account(&self) -> String {
        self.stack.seed.first.id.to_string()
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, "").await
    }

    /// Runs a command with this text on standard input.
    async fn run_with(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.args(["--ready-file", self.ready_file.to_str().unwrap()]).args(arguments);
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

    /// Runs a command that must succeed. Returns the JSON objects that it prints, one per line.
    async fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns an account's audit rows, newest first, without those that `local` wrote when it set up the bank
    /// on this machine.
    async fn audit(&self, account: &str) -> Vec<Value> {
        let mut rows = self.objects(&["audit", account]).await;
        rows.retain(|row| row["actor"] != "local");
        rows
    }

    /// Adds 5 to a counter of the live wallet, without a posting. Returns the wallet's scope.
    async fn credit_without_posting(&self) -> String {
        let scope = format!("{}:live", self.account());
        let client = local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url);
        let update = client
            .update_item()
            .table_name("StateTable")
            .key("pk", AttributeValue::S(format!("wallet#{scope}")))
            .key("sk", AttributeValue::S("EUR#shard#3".to_owned()))
            .update_expression("ADD cr_merchant_available :five")
            .expression_attribute_values(":five", AttributeValue::N("5".to_owned()));
        update.send().await.unwrap();
        scope
    }

    async fn object(&self, arguments: &[&str]) -> Value {
        self.objects(arguments).await.remove(0)
    }

    /// Sends a request with one header. Returns the status, the `X-RateLimit-Limit-Minute` header and the
    /// body.
    async fn send(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, String, Value) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.stack.base_url));
        let request = request.header(header.0, header.1).header("content-type", "application/json");
        self.exchange(request.body(Full::default()).unwrap()).await
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> (u16, String, Value) {
        let http = Client::builder(TokioExecutor::new()).build_http();
        let answer = http.request(request).await.unwrap();
        let limit = answer.headers().get("x-ratelimit-limit-minute");
        let limit = limit.map_or("", |limit| limit.to_str().unwrap()).to_owned();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, limit, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn request(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, Value) {
        let (status, _, body) = self.send(method, path, header).await;
        (status, body)
    }

    async fn log_in(&self, email: &str, password: &str) -> Option<String> {
        let body = json!({"email": email, "password": password}).to_string();
        let request = Request::post(format!("{}/v1/auth/login", self.stack.base_url));
        let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        let (status, _, login) = self.exchange(request).await;
        assert_eq!(status == 200, login["token"].is_string());
        login["token"].as_str().map(str::to_owned)
    }

    /// Runs a command that must fail and must print nothing on standard output. Returns its standard error.
    async fn failure(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let message = text(&output.stderr);
        assert!(!message.contains("dispatch failure"), "{message}");
        message
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn ledger_verify_finds_no_difference_in_a_new_service() {
    let service = AdminFixture::start().await;
    let output = service.run(&["ledger", "verify"]).await;
    assert!(output.status.success(), "{output:?}");
    // Two accounts with two modes each.
    assert_eq!(text(&output.stdout), "4 ledgers, 0 postings, 0 differences\n");
}

#[tokio::test]
async fn an_operator_adjusts_a_balance_and_creates_settles_and_fails_payouts() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let test = ["--account", &account, "--mode", "test", "--reason", "goodwill"];
    let adjust = |amount: &'static str| [&["ledger", "adjust", "--amount", amount], &test[..]].concat();
    let adjusted = service.object(&adjust("1000")).await;
    assert_eq!(
        (&adjusted["type"], &adjusted["net"], &adjusted["note"]),
        (&json!("adjustment"), &json!(1000), &json!(null))
    );
    assert_eq!(service.object(&adjust("-100")).await["net"], -100);
    assert!(service.failure(&adjust("-901")).await.contains("is only 900 (minor units)"));

    let create = |amount: &'static str| [&["payouts", "create", "--amount", amount], &test[..]].concat();
    let first = service.object(&create("600")).await;
    assert_eq!(
        (&first["object"], &first["amount"], &first["currency"], &first["status"]),
        (&json!("payout"), &json!(600), &json!("BRL"), &json!("pending"))
    );
    let second = service.object(&create("300")).await;
    assert!(service.failure(&create("1")).await.contains("is only 0 (minor units)"));
    let [first, second] = [&first, &second].map(|payout| payout["id"].as_str().unwrap().to_owned());
    let end = |how: &'static str, id: &str| [how, id, "--reason", "account closed"].map(str::to_owned);
    let run = async |words: [String; 4]| {
        let words: Vec<&str> = std::iter::once("payouts").chain(words.iter().map(String::as_str)).collect();
        service.object(&words).await
    };
    let settled = run(end("settle", &first)).await;
    assert_eq!((&settled["status"], settled["paid_at"].is_string()), (&json!("paid"), true));
    let failed = run(end("fail", &second)).await;
    assert_eq!((&failed["status"], &failed["failure_reason"]), (&json!("failed"), &json!("account closed")));
    let failure = service.failure(&["payouts", "fail", &first, "--reason", "too late"]).await;
    assert!(failure.contains("already ended: it is paid"), "{failure}");
    let listed = service.objects(&["payouts", "list", "--account", &account, "--mode", "test"]).await;
    assert_eq!(listed, [failed, settled]);

    let pending = ["payouts", "list", "--account", &account, "--mode", "test", "--status", "pending"];
    assert!(service.objects(&pending).await.is_empty());
    assert_eq!(service.object(&["payouts", "show", &first]).await["status"], "paid");
    let shown = service.object(&["ledger", "show", "--account", &account, "--mode", "test"]).await;
    assert_eq!((&shown["available"], &shown["total"]), (&json!(300), &json!(300)));
    let again = [&create("600")[..], &["--id", &first]].concat();
    assert_eq!(
        service.object(&again).await["status"],
        "paid",
        "creating a payout again under its id returns the existing one"
    );
    let other = [&create("601")[..], &["--id", &first]].concat();
    assert!(service.failure(&other).await.contains("belongs to a different payout"));
    // The time in a made-up id is arbitrary, so its payout or movement would be at an arbitrary place in the
    // statement and the audit.
    for made_up in ["00000000000000000000000000", "0zzzzzzzzz0000000000000000", "7zzzzzzzzz0000000000000000"]
    {
        let (payout, movement) = (format!("po_{made_up}"), format!("mv_{made_up}"));
        for words in [[&create("1")[..], &["--id", &payout]], [&adjust("1")[..], &["--id", &movement]]] {
            let message = service.failure(&words.concat()).await;
            assert!(message.contains("not made within the last day"), "{message}");
        }
    }
    assert!(service.failure(&adjust("0")).await.contains("must not be zero"));
    assert_eq!(service.object(&["payouts", "show", &first]).await["scope"], format!("{account}:test"));
    // The id is printed to standard error before the result, so the operator has it even if the result is
    // lost.
    let output = service.run(&adjust("1")).await;
    let adjusted: Value = serde_json::from_str(text(&output.stdout).trim_end()).unwrap();
    assert!(text(&output.stderr).contains(&format!("as {}", adjusted["id"].as_str().unwrap())), "{output:?}");
    service.object(&adjust("-1")).await;

    let output = service.run(&["ledger", "verify", "--account", &account, "--mode", "test"]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "1 ledgers, 8 postings, 0 differences\n");
    assert!(
        text(&output.stderr).contains(&service.stack.base_url),
        "standard error names the stack that was verified"
    );
}

#[tokio::test]
async fn ledger_verify_prints_a_difference_and_exits_with_an_error() {
    let service = AdminFixture::start().await;
    let scope = service.credit_without_posting().await;
    let output = service.run(&["ledger", "verify"]).await;
    assert!(!output.status.success());
    assert_eq!(
        text(&output.stdout),
        format!(
            "{scope} EUR: merchant_available credits: the postings add up to 0, stored is 5\n4 ledgers, 0 postings, 1 differences\n"
        )
    );
}

#[tokio::test]
async fn an_operator_sets_and_reads_an_accounts_terms() {
    let service = AdminFixture::start().await;
    let account = service.account();
    assert_eq!(service.objects(&["accounts", "list"]).await.len(), 2);
    assert_eq!(service.object(&["accounts", "show", &account]).await["terms"], json!([]));
    let words = ["--method", "pix", "--reason", "contract of November"];
    let fees = ["accounts", "set-fees", &account, "--acquirer", "10+99", "--platform", "0+50"];
    service.object(&[&fees[..], &words[..]].concat()).await;
    let hold = ["accounts", "set-hold", &account, "--days", "2"];
    service.object(&[&hold[..], &words[..]].concat()).await;
    let on_refund = ["accounts", "set-fees-on-refund", &account, "--fees", "keep"];
    service.object(&[&on_refund[..], &words[..]].concat()).await;
    let shown = service.object(&["accounts", "show", &account]).await;
    assert_eq!(
        shown["terms"],
        json!([{
            "method": "pix", "acquirer_fee": {"fixed": 10, "basis_points": 99},
            "platform_fee": {"fixed": 0, "basis_points": 50}, "hold_days": 2, "fees_on_refund": "keep",
        }])
    );
    let audit = service.audit(&account).await;
    assert_eq!(audit.len(), 3);
    assert_eq!(
        (&audit[0]["action"], &audit[0]["actor"], &audit[0]["reason"]),
        (&json!("account.set-fees-on-refund"), &json!("ana"), &json!("contract of November"))
    );
    assert!(audit[1]["details"].as_str().unwrap().contains(r#"[10,99,0,50,2,"return"]"#), "{}", audit[1]);
}

#[tokio::test]
async fn an_audit_row_of_an_api_key_shows_the_key_and_the_source_address() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let key = service.stack.seed.first.test_api_key.clone();
    let rotate = "/v1/webhooks/override-secret/rotate";
    let (status, shown) = service.request("POST", rotate, ("apikey", &key)).await;
    assert_eq!(status, 200, "{shown}");
    let set = [
        "accounts",
        "set-rate-limit",
        &account,
        "--per-minute",
        "500",
        "--reason",
        "requested by the merchant",
    ];
    service.object(&set).await;
    let audit = service.audit(&account).await;
    assert_eq!(audit.len(), 2, "{audit:?}");
    let (by_operator, by_key) = (&audit[0], &audit[1]);
    assert_eq!((&by_operator["actor"], &by_operator["source"]), (&json!("ana"), &json!(null)));
    assert_eq!(
        (&by_key["action"], &by_key["source"]),
        (&json!("override-secret.rotate"), &json!("127.0.0.1"))
    );
    let keys = service.objects(&["keys", "list", &account]).await;
    assert!(keys.iter().any(|key| key["id"] == by_key["actor"]), "{keys:?} {by_key}");
    assert!(!format!("{audit:?}").contains(shown["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn an_operator_sets_an_accounts_contact_and_switches_its_mail_on_and_off() {
    let service = AdminFixture::start().await;
    let why = ["--reason", "contract of November"];
    let open = ["accounts", "open", "--merchant-name", "Padaria", "--merchant-city", "Recife"];
    let without_contact = service.object(&[&open[..], &why].concat()).await;
    assert_eq!((&without_contact["contact"], &without_contact["mail"]), (&json!(null), &json!("on")));
    let with_contact = [&open[..], &["--contact", "Ana@padaria.example"], &why].concat();
    let with_contact = service.object(&with_contact).await;
    assert_eq!(with_contact["contact"], "Ana@padaria.example");
    let account = with_contact["id"].as_str().unwrap().to_owned();

    let contact = ["accounts", "set-contact", &account, "--email", "eva@padaria.example"];
    assert_eq!(service.object(&[&contact[..], &why].concat()).await["contact"], "eva@padaria.example");
    for mail in ["off", "on", "off"] {
        let switch = ["accounts", "set-mail", &account, "--mail", mail];
        assert_eq!(service.object(&[&switch[..], &why].concat()).await["mail"], mail);
    }
    let shown = service.object(&["accounts", "show", &account]).await;
    assert_eq!((&shown["contact"], &shown["mail"]), (&json!("eva@padaria.example"), &json!("off")));
    for wrong in ["ana", "Ana <ana@padaria.example>", "ana@padaria.example,eva@padaria.example"] {
        let wrong = ["accounts", "set-contact", &account, "--email", wrong];
        let failure = service.failure(&[&wrong[..], &why].concat()).await;
        assert!(failure.contains("must be an e-mail address"), "{failure}");
    }

    let audit = service.audit(&account).await;
    let actions: Vec<&str> = audit.iter().rev().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["account.open", "account.set-contact", "account.set-mail", "account.set-mail", "account.set-mail"]
    );
    assert_eq!(
        audit[3]["details"],
        r#"{"address":"Ana@padaria.example"} became {"address":"eva@padaria.example"}"#
    );
}

#[tokio::test]
async fn the_number_of_shards_can_only_be_raised() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let why = ["--reason", "key range throttles"];
    let shards = |number| ["accounts", "set-shards", &account, "--shards", number];
    for number in ["8", "8", "16"] {
        let set = service.object(&[&shards(number)[..], &why].concat()).await;
        assert_eq!(set["shards"].to_string(), number);
    }
    let fewer = service.failure(&[&shards("8")[..], &why].concat()).await;
    assert!(fewer.contains("must be at least 16"), "{fewer}");
    for number in ["0", "17", "many"] {
        let invalid = service.failure(&[&shards(number)[..], &why].concat()).await;
        assert!(invalid.contains("from 1 to 16"), "{invalid}");
    }
    let audit = service.audit(&account).await;
    let actions: Vec<&str> = audit.iter().rev().map(|row| row["action"].as_str().unwrap()).collect();
    let once = ["account.set-shards-read", "account.set-shards"];
    assert_eq!(actions, [once, once].concat());
}

#[tokio::test]
async fn an_operator_opens_an_account_adds_users_and_sets_its_limits() {
    let service = AdminFixture::start().await;
    let why = ["--reason", "contract of November"];
    let open = ["accounts", "open", "--merchant-name", "Padaria", "--merchant-city", "Recife"];
    let opened = service.object(&[&open[..], &why].concat()).await;
    let account = opened["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&opened["merchant_name"], &opened["rate_limit_per_minute"]),
        (&json!("Padaria"), &json!(600))
    );
    assert_eq!(service.object(&["accounts", "show", &account]).await, opened);

    let add = ["users", "add", &account, "--email", "Ana@Padaria.example", "--role", "owner"];
    let ana = service.object(&[&add[..], &why].concat()).await;
    assert_eq!((&ana["email"], &ana["role"]), (&json!("ana@padaria.example"), &json!("OWNER")));
    let password = ana["password"].as_str().unwrap().to_owned();
    assert_eq!(password.len(), 24);
    assert!(service.failure(&[&add[..], &why].concat()).await.contains("has this e-mail address"));
    let token = service.log_in("ana@padaria.example", &password).await.unwrap();

    // A new owner can manage API keys immediately.
    let (status, key) =
        service.request("POST", "/v1/api-keys", ("authorization", &format!("Bearer {token}"))).await;
    assert_eq!((status, &key["mode"]), (201, &json!("live")));
    let api_key = key["apiKey"].as_str().unwrap().to_owned();
    let keys = service.objects(&["keys", "list", &account]).await;
    assert_eq!((keys.len(), &keys[0]["id"]), (1, &key["id"]));
    assert!(!keys[0].to_string().contains(&api_key));
    let limit = ["accounts", "set-rate-limit", &account, "--per-minute", "7"];
    service.object(&[&limit[..], &why].concat()).await;
    let expiry = ["accounts", "set-charge-expiry", &account, "--seconds", "120"];
    assert_eq!(service.object(&[&expiry[..], &why].concat()).await["charge_expires_in_seconds"], 120);
    let velocity = ["accounts", "set-velocity", &account, "--per-customer", "3", "--per-account", "50"];
    let velocity = service.object(&[&velocity[..], &why].concat()).await;
    assert_eq!(velocity["velocity"], json!({"per_customer": 3, "per_account": 50}));
    let answer = service.send("GET", "/v1/charges", ("apikey", &api_key)).await;
    assert_eq!((answer.0, answer.1.as_str()), (200, "7"), "a changed limit applies to the next request");
    let payer_only = ["accounts", "set-refunds-to-payer-only", &account, "--payer-only", "on"];
    assert_eq!(service.object(&[&payer_only[..], &why].concat()).await["refunds_to_payer_only"], true);
    let limit = ["accounts", "set-third-party-refund-limit", &account, "--mode", "live"];
    let set = [&limit[..], &["--centavos", "100000"], &why].concat();
    assert_eq!(
        service.object(&set).await["third_party_refund_limit"],
        json!({"test": null, "live": 100_000})
    );
    let set = [&limit[..], &["--no-limit"], &why].concat();
    assert_eq!(service.object(&set).await["third_party_refund_limit"]["live"], Value::Null);
    let neither = service.failure(&[&limit[..], &why].concat()).await;
    assert!(neither.contains("--centavos") && neither.contains("--no-limit"), "{neither}");
    let revoke = ["keys", "revoke", &account, key["id"].as_str().unwrap()];
    assert_eq!(service.object(&[&revoke[..], &why].concat()).await["revoked"], true);
    assert_eq!(service.send("GET", "/v1/charges", ("apikey", &api_key)).await.0, 401);
    assert!(service.failure(&[&revoke[..], &why].concat()).await.contains("no such API key"));

    let bearer = format!("Bearer {token}");
    let list = async || service.request("GET", "/v1/api-keys", ("authorization", &bearer)).await;
    let who = [account.as_str(), "--email", "ana@padaria.example"];
    let set_role = [&["users", "set-role"], &who[..], &["--role", "member"], &why].concat();
    assert_eq!(service.object(&set_role).await["role"], "MEMBER");
    assert_eq!(list().await.1["access"]["canManage"], false);
    let reset = service.object(&[&["users", "reset-password"], &who[..], &why].concat()).await;
    assert_eq!(list().await.0, 401, "a new password ends earlier tokens");
    assert!(service.log_in("ana@padaria.example", &password).await.is_none());
    let password = reset["password"].as_str().unwrap();
    service.log_in("ana@padaria.example", password).await.unwrap();
    assert_eq!(service.objects(&["users", "list", &account]).await.len(), 1);
    assert_eq!(service.object(&[&["users", "remove"], &who[..], &why].concat()).await["removed"], true);
    assert!(service.log_in("ana@padaria.example", password).await.is_none());
    assert!(
        service
            .failure(&[&["users", "remove"], &who[..], &why].concat())
            .await
            .contains("no user of the account")
    );
    let other = service.account();
    let stranger = ["users", "remove", &other, "--email", "owner@outra.example"];
    assert!(service.failure(&[&stranger[..], &why].concat()).await.contains("no user of the account"));

    let audit = service.audit(&account).await;
    let actions: Vec<&str> = audit.iter().rev().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        [
            "account.open",
            "user.add",
            "user.log-in",
            "api-key.issue",
            "account.set-rate-limit",
            "account.set-charge-expiry",
            "account.set-velocity",
            "account.set-refunds-to-payer-only",
            "account.set-third-party-refund-limit",
            "account.set-third-party-refund-limit",
            "api-key.revoke",
            "user.set-role",
            "user.reset-password",
            "user.log-in",
            "user.remove",
        ]
    );
    let audit = format!("{audit:?}");
    assert!(!audit.contains(password) && !audit.contains(&api_key) && !audit.contains("argon2"), "{audit}");

    let store = Store::new(local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url), "StateTable");
    let (now, address) = (service.stack.clock.now(), (account.parse().unwrap(), "bia@padaria.example"));
    let invite = Invite::new(&LinkToken::random().unwrap(), address, Role::Admin, Language::Portuguese, now);
    let by = Operator { actor: "test".to_owned(), reason: "test".to_owned(), ..Operator::default() };
    assert!(Users::new(store).invite(&invite, &by.into(), now).await.unwrap());
    let listed = service.objects(&["users", "list", &account]).await;
    assert_eq!((&listed[0]["email"], &listed[0]["role"]), (&json!("bia@padaria.example"), &json!("ADMIN")));
    assert!(listed[0]["invited_until"].is_string(), "{listed:?}");
}

#[tokio::test]
async fn a_token_ends_when_its_users_password_is_reset_or_the_user_is_removed() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let why = ["--reason", "requested by the user"];
    let who = [account.as_str(), "--email", "eva@loja.example"];
    let run = async |word: &str, more: &[&str]| {
        service.object(&[&["users", word], &who[..], more, &why].concat()).await
    };
    let works = async |token: &str| {
        let bearer = format!("Bearer {token}");
        service.request("GET", "/v1/api-keys", ("authorization", &bearer)).await.0 == 200
    };
    let log_in = async |person: &Value| {
        let password = person["password"].as_str().unwrap();
        service.log_in("eva@loja.example", password).await.unwrap()
    };
    let first = log_in(&run("add", &["--role", "member"]).await).await;
    run("set-role", &["--role", "admin"]).await;
    assert!(works(&first).await, "a change of role does not end the token");
    let bearer = format!("Bearer {first}");
    assert_eq!(service.request("POST", "/v1/api-keys", ("authorization", &bearer)).await.0, 201);

    let second = log_in(&run("reset-password", &[]).await).await;
    assert!(!works(&first).await && works(&second).await);
    run("remove", &[]).await;
    assert!(!works(&second).await);
    let third = log_in(&run("add", &["--role", "admin"]).await).await;
    assert!(
        !works(&first).await && !works(&second).await,
        "earlier tokens do not work for a user added again under the same email"
    );
    assert!(works(&third).await);
}

#[tokio::test]
async fn a_user_without_phone_and_recovery_codes_logs_in_again_after_the_second_factor_is_removed() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let user = &service.stack.seed.first;
    let store = Store::new(local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url), "StateTable");
    let key = User::key_of(&domain::ids::UserId::from_email(&user.owner_email));
    let stored: User = store.get(&key).await.unwrap().unwrap();
    let on = User { second_factor_at: Some(service.stack.clock.now()), version: 2, ..stored };
    let outcome = store.commit(vec![shared::store::Write::replace(&on, 1).unwrap()]).await.unwrap();
    assert_eq!(outcome, shared::store::CommitOutcome::Done);
    assert!(service.log_in(&user.owner_email, &user.password).await.is_none());
    let remove = ["users", "remove-second-factor", &account, "--email", &user.owner_email];
    let removed = service.object(&[&remove[..], &["--reason", "lost phone, called back"]].concat()).await;
    assert_eq!(removed["email"], user.owner_email);
    service.log_in(&user.owner_email, &user.password).await.unwrap();
    let audit = service.audit(&account).await;
    assert_eq!(audit[1]["action"], "user.second-factor-off");
    assert_eq!(audit[1]["actor"], "ana");
}

#[tokio::test]
async fn an_invalid_command_is_refused_with_the_reason() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let create = |more: &[&'static str]| {
        let words = ["payouts", "create", "--account", &account, "--mode", "test"].map(str::to_owned);
        words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<String>>()
    };
    for (more, says) in [
        (vec!["--amount", "100"], "--reason"),
        (vec!["--amount", "0", "--reason", "x"], "at least 1"),
        (vec!["--amount", "1.5", "--reason", "x"], "integer"),
        (vec!["--amount", "100", "--reason", " "], "characters"),
        (vec!["--amount", "100", "--currency", "BLR", "--reason", "x"], "currency"),
    ] {
        let words = create(&more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let message = service.failure(&words).await;
        assert!(message.contains(says), "{message}");
    }
    let unknown_account = ["ledger", "verify", "--account", "acc_0000000000000000"];
    assert!(service.failure(&unknown_account).await.contains("there is no account acc_0000000000000000"));
    for (words, says) in [
        (["users", "add", &account, "--email", "ana", "--role", "owner"], "e-mail"),
        (["users", "add", &account, "--email", "a@b.example", "--role", "boss"], "possible values"),
        (["users", "add", "acc_0000000000000000", "--email", "a@b.example", "--role", "owner"], "no account"),
        (["accounts", "open", "--merchant-name", "x", "--merchant-city", " ", "--"], "characters"),
    ] {
        let message = service.failure(&[&words[..2], &["--reason", "x"], &words[2..]].concat()).await;
        assert!(message.contains(says), "{message}");
    }
    for limit in ["0", "60001", "-1", "many"] {
        let words = ["accounts", "set-rate-limit", &account, "--reason", "x", "--per-minute", limit];
        assert!(service.failure(&words).await.contains("per-minute"), "{limit}");
    }
    let fees = ["accounts", "set-fees", &account, "--method", "pix", "--acquirer", "5", "--platform", "0+0"];
    assert!(service.failure(&[&fees[..], &["--reason", "x"]].concat()).await.contains("FIXED+BASIS_POINTS"));
    // A killed service leaves its ready file behind. The command reports that no service runs.
    let stale = std::env::temp_dir().join(format!("stale-{account}.json"));
    let ready = json!({"base_url": "http://127.0.0.1:1", "dynamodb_url": "http://127.0.0.1:1", "sqs_url": "http://127.0.0.1:1", "s3_url": "http://127.0.0.1:1", "table": "StateTable", "secrets_table": "SecretsTable", "bucket": "b"});
    std::fs::write(&stale, ready.to_string()).unwrap();
    let mut killed = Command::new(env!("CARGO_BIN_EXE_admin"));
    killed.args(["--ready-file", stale.to_str().unwrap(), "ledger", "verify"]);
    let killed = killed.output().unwrap();
    std::fs::remove_file(&stale).unwrap();
    assert!(!killed.status.success());
    assert!(text(&killed.stderr).contains("no service runs on this machine"), "{killed:?}");
    let absent = Command::new(env!("CARGO_BIN_EXE_admin"))
        .args(["--ready-file", "nowhere/ready.json", "accounts", "list"])
        .env_remove("TABLE_NAME")
        .env_remove("API_KEYS_TABLE_NAME")
        .output()
        .unwrap();
    assert!(!absent.status.success());
    assert!(text(&absent.stderr).contains("start it with `cargo run`"), "{absent:?}");
    // With only one of the two table variables set, the command fails. It must not fall back to the local
    // service.
    for (set, missing) in [("TABLE_NAME", "API_KEYS_TABLE_NAME"), ("API_KEYS_TABLE_NAME", "TABLE_NAME")] {
        let mut half = Command::new(env!("CARGO_BIN_EXE_admin"));
        half.args(["ledger", "verify"]).env_remove(missing).env(set, "a");
        let half = half.output().unwrap();
        assert!(!half.status.success());
        assert!(text(&half.stderr).contains(&format!("{missing} is not")), "{half:?}");
    }
}

/// Sends requests with the first account's test key.
struct Merchant {
    base_url: String,
    key: String,
}

impl Merchant {
    fn of(service: &AdminFixture) -> Self {
        Self { base_url: service.stack.base_url.clone(), key: service.stack.seed.first.test_api_key.clone() }
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.answer(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    async fn answer(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header("apikey", &self.key)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("key-{}", shared::random::below(u64::MAX)));
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let answer = Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap();
        let (status, body) = (answer.status(), answer.into_body().collect().await.unwrap().to_bytes());
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn deliveries(&self, query: &str) -> Vec<Value> {
        let page = self.send("GET", &format!("/v1/webhooks/deliveries?limit=100{query}"), json!(null)).await;
        page["data"].as_array().unwrap().clone()
    }
}

/// Polls until `condition` returns a value. Fails after a minute with the text `expected`.
async fn eventually<T, F: AsyncFnMut() -> Option<T>>(expected: &str, mut condition: F) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "not within a minute: {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
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
        let answer = {
            let up = up.clone();
            async move || {
                if up.load(Ordering::SeqCst) {
                    StatusCode::NO_CONTENT
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                }
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
    let register = |url: &str| json!({"url": url, "events": ["charge.created"]});
    let endpoint = merchant.send("POST", "/v1/webhooks/endpoints", register(&shop.url)).await;
    merchant.send("POST", "/v1/webhooks/endpoints", register(&other.url)).await;
    for _ in 0..2 {
        merchant.send("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    }
    for attempt in 1..=15 {
        eventually("each delivery's attempt ends", async || {
            let ended =
                |delivery: &Value| delivery["attempts"] == attempt && delivery["status"] != "PROCESSING";
            let deliveries = merchant.deliveries("").await;
            (deliveries.len() == 4 && deliveries.iter().all(ended)).then_some(())
        })
        .await;
        merchant.send("POST", "/_local/clock/advance", json!({"seconds": 54_000})).await;
    }
    let failed = merchant.deliveries("").await;
    shop.up.store(true, Ordering::SeqCst);
    let account = service.account();
    let id = endpoint["id"].as_str().unwrap().to_owned();
    let redrive = |more: &[&str]| -> Vec<String> {
        let words =
            ["deliveries", "redrive", "--account", &account, "--mode", "test", "--since", "2026-01-01"];
        let more = [&words[..], &["--reason", "the shop is back"], more].concat();
        more.into_iter().map(str::to_owned).collect()
    };
    let run = async |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = service.run(&words).await;
        assert!(output.status.success(), "{output:?}");
        let message = text(&output.stdout);
        let (lines, sum) = message.trim_end().rsplit_once('\n').unwrap_or(("", message.trim_end()));
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines, sum.to_owned())
    };
    assert_eq!(run(redrive(&["--dry-run"])).await.1, "4 deliveries, 0 resent, 0 refused");
    assert_eq!(merchant.deliveries("").await.len(), 4, "a dry run creates no delivery");
    let to_shop = redrive(&["--endpoint", &id]);
    let (lines, sum) = run(to_shop.clone()).await;
    assert_eq!((lines.len(), sum.as_str()), (2, "2 deliveries, 2 resent, 0 refused"));
    assert!(lines.iter().all(|line| line["endpointId"] == id.as_str() && line["resentAs"].is_string()));
    eventually("both new deliveries are delivered", async || {
        (merchant.deliveries("&status=DELIVERED").await.len() == 2).then_some(())
    })
    .await;
    assert_eq!(
        run(to_shop).await.1,
        "0 deliveries, 0 resent, 0 refused",
        "a second redrive finds nothing left to resend"
    );
    let audit = service.audit(&account).await;
    let redrive_rows: Vec<&Value> =
        audit.iter().filter(|row| row["action"] == "deliveries.redrive").collect();
    assert_eq!(redrive_rows.len(), 1);
    assert_eq!((&redrive_rows[0]["subject"], &redrive_rows[0]["actor"]), (&json!(id), &json!("ana")));
    assert!(redrive_rows[0]["details"].as_str().unwrap().contains("2 deliveries since 2026-01-01T03:00:00"));
    // Deliveries to a deleted endpoint cannot be resent. They are left out, and the command still succeeds.
    let path = format!(
        "/v1/webhooks/endpoints/{}",
        failed.iter().find(|delivery| delivery["endpointId"] != id.as_str()).unwrap()["endpointId"]
            .as_str()
            .unwrap()
    );
    merchant.send("DELETE", &path, json!(null)).await;
    let words = redrive(&[]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = service.run(&words).await;
    assert!(output.status.success());
    assert_eq!(
        text(&output.stdout),
        "0 deliveries, 0 resent, 0 refused\n2 skipped, because their endpoints are deleted\n"
    );
    let without_since = ["deliveries", "redrive", "--account", &account, "--mode", "test", "--reason", "x"];
    assert!(service.failure(&without_since).await.contains("--since"));
}

#[tokio::test]
async fn quarantined_records_are_replayed_and_removed_and_unreadable_records_stay() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let shop = MerchantServer::start().await;
    shop.up.store(true, Ordering::SeqCst);
    let first = merchant.send("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    eventually("the charge's events are stored", async || {
        let log = merchant.send("GET", "/v1/events", json!(null)).await;
        (log["data"].as_array().unwrap().len() == 3).then_some(())
    })
    .await;
    // Without its events, the charge looks as if its record was never dispatched.
    let dynamodb = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let store = Store::new(dynamodb.clone(), "StateTable");
    for item in store.partition(&format!("events#{account}:test", account = service.account())).await.unwrap()
    {
        let delete = dynamodb.delete_item().table_name("StateTable");
        delete.key("pk", item["pk"].clone()).key("sk", item["sk"].clone()).send().await.unwrap();
    }
    let registered = json!({"url": shop.url, "events": ["charge.created"]});
    merchant.send("POST", "/v1/webhooks/endpoints", registered).await;
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
    let put = async |key: &str, body: &Value| {
        let put = s3
            .put_object()
            .bucket("failed-records-bucket")
            .key(key)
            .body(body.to_string().into_bytes().into());
        put.send().await.unwrap();
    };
    let failed_invocation_key =
        "aws/lambda/0f1e2d3c/shardId-00000001573689847184-864758bb/2026-11-21T00.13.49-9af7";
    put(failed_invocation_key, &failed_invocation).await;
    put("failed-stream-records/999.json", &poison).await;
    put("failed-stream-records/1000.json", &record).await;
    put("other/not-ours.json", &record).await;
    let keys = async || {
        let listed = s3.list_objects_v2().bucket("failed-records-bucket").send().await.unwrap();
        let mut keys: Vec<String> =
            listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    let before = keys().await;
    assert_eq!(before.len(), 4);

    let dry = service.run(&["events", "replay", "--dry-run", "--reason", "a look"]).await;
    assert!(!dry.status.success(), "one record is unreadable");
    assert!(
        text(&dry.stdout).ends_with("3 objects, 2 records could be replayed, 1 objects left\n"),
        "{dry:?}"
    );
    assert_eq!(keys().await, before);
    // The audit also has rows of the merchant's own actions.
    let audit_of_replays = async || {
        let mut audit = service.objects(&["audit", &service.account()]).await;
        audit.retain(|row| row["action"] == "events.replay");
        audit
    };
    assert!(audit_of_replays().await.is_empty());

    let output = service.run(&["events", "replay", "--reason", "the bug is mended"]).await;
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
    let stats = merchant.send("GET", "/v1/payments/stats", json!(null)).await;
    assert_eq!(stats["totalTransactions"], 1, "two copies of the record count once: {stats}");
    let audit = audit_of_replays().await;
    assert_eq!((audit.len(), &audit[0]["reason"]), (2, &json!("the bug is mended")));
}

#[tokio::test]
async fn an_operator_confirms_a_med_case_adds_evidence_and_decides_it() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let merchant = Merchant::of(&service);
    let post = async |path: &str, body: Value| merchant.send("POST", path, body).await;
    let charge = post("/v1/pix/charges", json!({"amount": 1000})).await;
    let sandbox = format!("/v1/sandbox/charges/{}", charge["id"].as_str().unwrap());
    post(&format!("{sandbox}/pay"), json!({})).await;
    let case = post(&format!("{sandbox}/med-cases"), json!({"amount": 300})).await;
    let id = case["id"].as_str().unwrap();

    let list = ["med", "list", "--account", &account, "--mode", "test"];
    let listed = service.objects(&[&list[..], &["--status", "open", "--unconfirmed"]].concat()).await;
    assert_eq!(listed, [service.object(&["med", "show", id]).await]);
    assert_eq!((&listed[0]["moved"], &listed[0]["unconfirmed"]), (&json!(0), &json!(true)));
    let why = ["--reason", "as the bank wrote"];
    let run = async |words: &[&str]| service.object(&[&["med"], words, &why[..]].concat()).await;
    let confirmed = run(&["confirm", id]).await;
    assert_eq!((&confirmed["moved"], &confirmed["unconfirmed"]), (&json!(300), &json!(false)));
    let again = service.failure(&[&["med", "confirm", id], &why[..]].concat()).await;
    assert!(again.contains("does not await confirmation"), "{again}");
    assert!(service.objects(&[&list[..], &["--unconfirmed"]].concat()).await.is_empty());
    assert!(run(&["request-evidence", id]).await["evidence_requested_at"].is_string());

    let directory = std::env::temp_dir().join(format!("evidence-{account}"));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let picture = file("prova.gif", b"GIF89a and so on");
    let added = run(&["evidence", "add", id, &picture]).await;
    assert_eq!(
        (&added["file_name"], &added["file_size"], &added["mime_type"], &added["uploaded_by"]),
        (&json!("prova.gif"), &json!(16), &json!("image/gif"), &json!("platform"))
    );
    let listed = service.objects(&["med", "evidence", "list", id]).await;
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &added["id"]));
    assert!(listed[0]["view_url"].as_str().unwrap().starts_with(&service.stack.endpoints.s3_url));
    for (path, says) in [
        (file("notes.txt", b"hello"), "must be PNG"),
        (file("empty.png", b""), "1 to 10485760 (bytes)"),
        (file("long.pdf", &[&b"%PDF-"[..], &vec![0; 10_485_760]].concat()), "1 to 10485760 (bytes)"),
        (directory.join("absent.png").to_str().unwrap().to_owned(), "absent.png"),
    ] {
        let message = service.failure(&[&["med", "evidence", "add", id, &path], &why[..]].concat()).await;
        assert!(message.contains(says), "{message}");
    }

    let decided = run(&["decide", id, "--decision", "closed-without-refund"]).await;
    assert_eq!(
        (&decided["status"], &decided["money_outcome"], &decided["evidence_count"]),
        (&json!("closed"), &json!("closed_without_refund"), &json!(1))
    );
    let again = run(&["decide", id, "--decision", "closed-without-refund"]).await;
    assert_eq!(again, decided, "the same decision again changes nothing");
    for words in [&["decide", id, "--decision", "merchant"][..], &["request-evidence", id]] {
        let message = service.failure(&[&["med"], words, &why[..]].concat()).await;
        assert!(message.contains("already closed"), "{message}");
    }
    let late = service.failure(&[&["med", "evidence", "add", id, &picture], &why[..]].concat()).await;
    assert!(late.contains("until the case is closed"), "{late}");
    std::fs::remove_dir_all(&directory).unwrap();
    let unknown_case = "med_0000000000000000000000000000000000000000000";
    assert!(!service.run(&["med", "show", unknown_case]).await.status.success());

    let audit = service.audit(&account).await;
    let actions: Vec<&str> = audit.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["med.decide", "med.add-evidence", "med.request-evidence", "med.confirm"]);
    assert!(audit.iter().all(|row| row["subject"] == id && row["actor"] == "ana"));
    assert_eq!(audit[0]["details"], "closed_without_refund");
    assert!(audit[1]["details"].as_str().unwrap().ends_with("prova.gif"));
    assert_eq!(audit[3]["details"], "test BRL 300");
    let output = service.run(&["ledger", "verify", "--account", &account, "--mode", "test"]).await;
    assert!(output.status.success(), "{output:?}");
}
