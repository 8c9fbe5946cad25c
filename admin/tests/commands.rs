//! The operator's commands as an operator runs them: a process, on a service that runs on this machine.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use local::stack::{Options, Stack};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use shared::acquirer::configuration::AccountAcquirers;
use shared::store::Store;

/// A service, and commands on it.
struct Operated {
    stack: Stack,
    ready_file: PathBuf,
}

impl Drop for Operated {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.ready_file);
    }
}

impl Operated {
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

    /// A command with what it is told on standard input.
    async fn run_with(&self, arguments: &[&str], told: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.args(["--ready-file", self.ready_file.to_str().unwrap()]).args(arguments);
        command.env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME").env("USER", "ana");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let told = told.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            // A command that reads nothing may be gone by now.
            let _ = child.stdin.take().unwrap().write_all(told.as_bytes());
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// What a command that succeeds prints: an object a line.
    async fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn object(&self, arguments: &[&str]) -> Value {
        self.objects(arguments).await.remove(0)
    }

    /// A request with one header: its status, the limit that the answer names, and its body.
    async fn send(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, String, Value) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.stack.base_url));
        let request = request.header(header.0, header.1).header("content-type", "application/json");
        self.answer(request.body(Full::default()).unwrap()).await
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> (u16, String, Value) {
        let http = Client::builder(TokioExecutor::new()).build_http();
        let answer = http.request(request).await.unwrap();
        let limit = answer.headers().get("x-ratelimit-limit-minute");
        let limit = limit.map_or("", |limit| limit.to_str().unwrap()).to_owned();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, limit, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn ask(&self, method: &str, path: &str, header: (&str, &str)) -> (u16, Value) {
        let (status, _, body) = self.send(method, path, header).await;
        (status, body)
    }

    async fn log_in(&self, email: &str, password: &str) -> Option<String> {
        let body = json!({"email": email, "password": password}).to_string();
        let request = Request::post(format!("{}/v1/auth/login", self.stack.base_url));
        let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        let (status, _, given) = self.answer(request).await;
        assert_eq!(status == 200, given["token"].is_string());
        given["token"].as_str().map(str::to_owned)
    }

    /// What a command that fails says.
    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = text(&output.stderr);
        assert!(!said.contains("dispatch failure"), "{said}");
        said
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_new_service_verifies_all_its_ledgers() {
    let service = Operated::start().await;
    let output = service.run(&["ledger", "verify"]).await;
    assert!(output.status.success(), "{output:?}");
    // Two accounts, in two modes each.
    assert_eq!(text(&output.stdout), "4 ledgers, 0 postings, 0 differences\n");
}

#[tokio::test]
async fn money_is_adjusted_paid_out_and_given_back() {
    let service = Operated::start().await;
    let account = service.account();
    let test = ["--account", &account, "--mode", "test", "--reason", "goodwill"];
    let adjust = |amount: &'static str| [&["ledger", "adjust", "--amount", amount], &test[..]].concat();
    let adjusted = service.object(&adjust("1000")).await;
    assert_eq!(
        (&adjusted["type"], &adjusted["net"], &adjusted["note"]),
        (&json!("adjustment"), &json!(1000), &json!(null))
    );
    assert_eq!(service.object(&adjust("-100")).await["net"], -100);
    assert!(service.refused(&adjust("-901")).await.contains("only 900 available, in minor units"));

    let create = |amount: &'static str| [&["payouts", "create", "--amount", amount], &test[..]].concat();
    let first = service.object(&create("600")).await;
    assert_eq!(
        (&first["object"], &first["amount"], &first["currency"], &first["status"]),
        (&json!("payout"), &json!(600), &json!("BRL"), &json!("pending"))
    );
    let second = service.object(&create("300")).await;
    assert!(service.refused(&create("1")).await.contains("only 0 available"));
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
    let refused = service.refused(&["payouts", "fail", &first, "--reason", "too late"]).await;
    assert!(refused.contains("paid already"), "{refused}");
    let listed = service.objects(&["payouts", "list", "--account", &account, "--mode", "test"]).await;
    assert_eq!(listed, [failed, settled]);

    let pending = ["payouts", "list", "--account", &account, "--mode", "test", "--status", "pending"];
    assert!(service.objects(&pending).await.is_empty());
    assert_eq!(service.object(&["payouts", "show", &first]).await["status"], "paid");
    let shown = service.object(&["ledger", "show", "--account", &account, "--mode", "test"]).await;
    assert_eq!((&shown["available"], &shown["total"]), (&json!(300), &json!(300)));
    let again = [&create("600")[..], &["--id", &first]].concat();
    assert_eq!(service.object(&again).await["status"], "paid", "asked for again by its id, it is the same");
    let other = [&create("601")[..], &["--id", &first]].concat();
    assert!(service.refused(&other).await.contains("another payout of that id"));
    // An id that was made up would put what it names anywhere in the statement and the audit.
    for made_up in ["00000000000000000000000000", "0zzzzzzzzz0000000000000000", "7zzzzzzzzz0000000000000000"]
    {
        let (payout, movement) = (format!("po_{made_up}"), format!("mv_{made_up}"));
        for words in [[&create("1")[..], &["--id", &payout]], [&adjust("1")[..], &["--id", &movement]]] {
            let said = service.refused(&words.concat()).await;
            assert!(said.contains("not of the day before"), "{said}");
        }
    }
    assert!(service.refused(&adjust("0")).await.contains("must not be zero"));
    assert_eq!(service.object(&["payouts", "show", &first]).await["scope"], format!("{account}:test"));
    // Which id it has is said before its result is, which may go nowhere.
    let output = service.run(&adjust("1")).await;
    let adjusted: Value = serde_json::from_str(text(&output.stdout).trim_end()).unwrap();
    assert!(text(&output.stderr).contains(&format!("as {}", adjusted["id"].as_str().unwrap())), "{output:?}");
    service.object(&adjust("-1")).await;

    let output = service.run(&["ledger", "verify", "--account", &account, "--mode", "test"]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "1 ledgers, 8 postings, 0 differences\n");
    assert!(text(&output.stderr).contains(&service.stack.base_url), "it says which stack it looked at");
}

#[tokio::test]
async fn a_difference_is_printed_and_fails_the_command() {
    use aws_sdk_dynamodb::types::AttributeValue;
    let service = Operated::start().await;
    let scope = format!("{}:live", service.account());
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let update = client
        .update_item()
        .table_name("StateTable")
        .key("pk", AttributeValue::S(format!("wallet#{scope}")))
        .key("sk", AttributeValue::S("EUR#shard#3".to_owned()))
        .update_expression("ADD cr_merchant_available :five")
        .expression_attribute_values(":five", AttributeValue::N("5".to_owned()));
    update.send().await.unwrap();
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
async fn an_accounts_terms_are_set_and_shown() {
    let service = Operated::start().await;
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
    let audit = service.objects(&["audit", &account]).await;
    assert_eq!(audit.len(), 3);
    assert_eq!(
        (&audit[0]["action"], &audit[0]["actor"], &audit[0]["reason"]),
        (&json!("account.set-fees-on-refund"), &json!("ana"), &json!("contract of November"))
    );
    assert!(audit[1]["details"].as_str().unwrap().contains(r#"[10,99,0,50,2,"return"]"#), "{}", audit[1]);
}

#[tokio::test]
async fn the_audit_shows_which_api_key_acted_and_from_which_address() {
    let service = Operated::start().await;
    let account = service.account();
    let key = service.stack.seed.first.test_api_key.clone();
    let rotate = "/v1/webhooks/override-secret/rotate";
    let (status, shown) = service.ask("POST", rotate, ("apikey", &key)).await;
    assert_eq!(status, 200, "{shown}");
    let set = ["accounts", "set-rate-limit", &account, "--per-minute", "500", "--reason", "asked for"];
    service.object(&set).await;
    let audit = service.objects(&["audit", &account]).await;
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

const BANK: &str = "https://pix.banco.example/api/v2/";
const BANK_SECRET: &str = "s3cr3t-of-the-bank";

/// PEM files of a client's certificate, its key, and another key, in a directory that goes with them.
struct PemFiles {
    directory: PathBuf,
    certificate: String,
    key: String,
    other_key: String,
}

impl PemFiles {
    fn make(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("acquirer-{name}"));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let pair = || rcgen::generate_simple_self_signed(vec!["loja.example".to_owned()]).unwrap();
        let ours = pair();
        let certificate = file("client.pem", &ours.cert.pem());
        let key = file("client.key", &ours.signing_key.serialize_pem());
        let other_key = file("other.key", &pair().signing_key.serialize_pem());
        Self { directory, certificate, key, other_key }
    }
}

impl Drop for PemFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Operated {
    /// Sets the first account's acquirer, with its secret on standard input.
    async fn set_acquirer(&self, base_url: &str, more: &[&str], secret: &str) -> Output {
        let account = self.account();
        let begin = ["accounts", "set-acquirer", &account, "pix", "--base-url", base_url];
        let rest = ["--token-url", "https://pix.banco.example/oauth/token", "--client-id", "loja-1"];
        let why = ["--reason", "contract of November"];
        let key = if more.contains(&"--pix-key") { &[][..] } else { &["--pix-key", "pix@loja.example"] };
        self.run_with(&[&begin[..], &rest, key, &why, more].concat(), secret).await
    }
}

#[tokio::test]
async fn an_accounts_acquirer_is_set_shown_without_its_secrets_and_removed() {
    let service = Operated::start().await;
    let account = service.account();
    let show = ["accounts", "show-acquirer", &account];
    assert!(service.refused(&show).await.contains("has no acquirer"));
    let files = PemFiles::make(&account);
    let proved = ["--certificate", &files.certificate, "--private-key", &files.key, "--send-pix"];
    let output = service.set_acquirer(BANK, &proved, &format!("{BANK_SECRET}\n")).await;
    assert!(output.status.success(), "{output:?}");
    let shown = service.object(&show).await;
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), shown);
    for (field, value) in [
        ("account", account.as_str()),
        ("kind", "pix"),
        ("base_url", "https://pix.banco.example/api/v2"),
        ("token_url", "https://pix.banco.example/oauth/token"),
        ("client_id", "loja-1"),
        ("pix_key", "pix@loja.example"),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["send_pix"], true);
    for (field, digits) in
        [("client_secret_fingerprint", 16), ("certificate_fingerprint", 64), ("private_key_fingerprint", 16)]
    {
        assert_eq!(shown[field].as_str().unwrap().len(), digits, "{field}");
    }
    // As the acquirer's client will read it.
    let store = Store::new(local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url), "StateTable");
    let acquirers = AccountAcquirers::new(store);
    let stored = acquirers.find(&service.stack.seed.first.id).await.unwrap().unwrap().settings;
    assert_eq!(stored.client_secret.as_secret().expose_secret(), BANK_SECRET);
    let identity = stored.identity.unwrap();
    assert_eq!(identity.certificate(), std::fs::read_to_string(&files.certificate).unwrap());
    assert_eq!(identity.private_key().expose_secret(), std::fs::read_to_string(&files.key).unwrap());

    // A bank on this machine, without mutual TLS; and the same again, which is no change.
    for _ in 0..2 {
        let output = service.set_acquirer("http://127.0.0.1:9/bank", &[], BANK_SECRET).await;
        assert!(output.status.success(), "{output:?}");
    }
    let now = service.object(&show).await;
    assert_eq!((&now["send_pix"], &now["certificate_fingerprint"]), (&json!(false), &json!(null)));
    assert_eq!(now["client_secret_fingerprint"], shown["client_secret_fingerprint"]);
    let remove = ["accounts", "remove-acquirer", &account, "--reason", "left the bank"];
    assert_eq!(service.object(&remove).await["removed"], true);
    assert!(service.refused(&remove).await.contains("has no acquirer"));
    assert!(service.refused(&show).await.contains("has no acquirer"));

    let audit = service.objects(&["audit", &account]).await;
    let actions: Vec<&str> = audit.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["account.remove-acquirer", "account.set-acquirer", "account.set-acquirer"]);
    let fingerprint = shown["client_secret_fingerprint"].as_str().unwrap();
    assert!(audit.iter().all(|row| row["details"].as_str().unwrap().contains(fingerprint)));
    let printed = format!("{audit:?} {shown} {now}");
    assert!(!printed.contains(BANK_SECRET) && !printed.contains("BEGIN"), "{printed}");
}

#[tokio::test]
async fn an_acquirer_that_can_not_be_right_is_refused_and_live_keys_have_none_either_way() {
    let service = Operated::start().await;
    let account = service.account();
    let files = PemFiles::make(&account);
    let (certificate, key) = (files.certificate.as_str(), files.key.as_str());
    let both = |certificate, key| vec!["--certificate", certificate, "--private-key", key];
    for (base_url, more, secret, says) in [
        ("http://pix.banco.example/", vec![], BANK_SECRET, "--base-url: must use https"),
        ("https://10.0.0.1/", vec![], BANK_SECRET, "private"),
        ("https://pix.banco.example/?a=b", vec![], BANK_SECRET, "query"),
        (BANK, vec!["--certificate", certificate], BANK_SECRET, "--private-key"),
        (BANK, vec!["--private-key", key], BANK_SECRET, "--certificate"),
        (BANK, both(certificate, &files.other_key), BANK_SECRET, "does not match the certificate"),
        (BANK, both(key, key), BANK_SECRET, "holds a private key too"),
        (BANK, both(certificate, "absent.key"), BANK_SECRET, "absent.key"),
        (BANK, vec![], "", "the client secret must be"),
        (BANK, vec![], "of two words", "the client secret must be"),
        (BANK, vec![], "of\ntwo-lines", "more than one line"),
        (BANK, vec!["--pix-key", "loja"], BANK_SECRET, "pix-key"),
        (BANK, vec!["--client-secret", BANK_SECRET], "", "unexpected argument"),
    ] {
        let output = service.set_acquirer(base_url, &more, secret).await;
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{more:?}: {said}");
        assert!(!said.contains("BEGIN"), "{said}");
    }
    assert!(service.refused(&["accounts", "show-acquirer", &account]).await.contains("has no acquirer"));
    assert!(service.objects(&["audit", &account]).await.is_empty());
    let nobody = ["accounts", "show-acquirer", "acc_0000000000000000"];
    assert!(service.refused(&nobody).await.contains("there is no account"));

    let live = Merchant { key: service.stack.seed.first.live_api_key.clone(), ..Merchant::of(&service) };
    for _ in 0..2 {
        let (status, refused) = live.answer("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
        assert_eq!((status, &refused["error"]["code"]), (422, &json!("unprocessable_entity")));
        let said = refused["error"]["message"].as_str().unwrap();
        assert_eq!(said, "Live payments are not available yet for this account. Use an ak_test_ key.");
        assert!(service.set_acquirer(BANK, &[], BANK_SECRET).await.status.success());
    }
}

#[tokio::test]
async fn an_accounts_contact_is_set_and_its_mail_switched() {
    let service = Operated::start().await;
    let why = ["--reason", "contract of November"];
    let open = ["accounts", "open", "--merchant-name", "Padaria", "--merchant-city", "Recife"];
    let silent = service.object(&[&open[..], &why].concat()).await;
    assert_eq!((&silent["contact"], &silent["mail"]), (&json!(null), &json!("on")));
    let told = [&open[..], &["--contact", "Ana@padaria.example"], &why].concat();
    let told = service.object(&told).await;
    assert_eq!(told["contact"], "Ana@padaria.example");
    let account = told["id"].as_str().unwrap().to_owned();

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
        let refused = service.refused(&[&wrong[..], &why].concat()).await;
        assert!(refused.contains("must be an e-mail address"), "{refused}");
    }

    let audit = service.objects(&["audit", &account]).await;
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
async fn an_account_is_opened_peopled_and_limited() {
    let service = Operated::start().await;
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
    assert!(service.refused(&[&add[..], &why].concat()).await.contains("has that e-mail address already"));
    let token = service.log_in("ana@padaria.example", &password).await.unwrap();

    // Whoever was added manages keys at once.
    let (status, key) =
        service.ask("POST", "/v1/api-keys", ("authorization", &format!("Bearer {token}"))).await;
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
    assert_eq!((answer.0, answer.1.as_str()), (200, "7"), "a changed limit acts at once");
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
    let neither = service.refused(&[&limit[..], &why].concat()).await;
    assert!(neither.contains("--centavos") && neither.contains("--no-limit"), "{neither}");
    let revoke = ["keys", "revoke", &account, key["id"].as_str().unwrap()];
    assert_eq!(service.object(&[&revoke[..], &why].concat()).await["revoked"], true);
    assert_eq!(service.send("GET", "/v1/charges", ("apikey", &api_key)).await.0, 401);
    assert!(service.refused(&[&revoke[..], &why].concat()).await.contains("no such API key"));

    let bearer = format!("Bearer {token}");
    let list = async || service.ask("GET", "/v1/api-keys", ("authorization", &bearer)).await;
    let who = [account.as_str(), "--email", "ana@padaria.example"];
    let set_role = [&["users", "set-role"], &who[..], &["--role", "member"], &why].concat();
    assert_eq!(service.object(&set_role).await["role"], "MEMBER");
    assert_eq!(list().await.1["access"]["canManage"], false);
    let reset = service.object(&[&["users", "reset-password"], &who[..], &why].concat()).await;
    assert_eq!(list().await.0, 401, "logged out by the new password");
    assert!(service.log_in("ana@padaria.example", &password).await.is_none());
    let password = reset["password"].as_str().unwrap();
    service.log_in("ana@padaria.example", password).await.unwrap();
    assert_eq!(service.objects(&["users", "list", &account]).await.len(), 1);
    assert_eq!(service.object(&[&["users", "remove"], &who[..], &why].concat()).await["removed"], true);
    assert!(service.log_in("ana@padaria.example", password).await.is_none());
    assert!(
        service
            .refused(&[&["users", "remove"], &who[..], &why].concat())
            .await
            .contains("no user of the account")
    );
    let other = service.account();
    let stranger = ["users", "remove", &other, "--email", "owner@outra.example"];
    assert!(service.refused(&[&stranger[..], &why].concat()).await.contains("no user of the account"));

    let audit = service.objects(&["audit", &account]).await;
    let actions: Vec<&str> = audit.iter().rev().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        [
            "account.open",
            "user.add",
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
            "user.remove",
        ]
    );
    let audit = format!("{audit:?}");
    assert!(!audit.contains(password) && !audit.contains(&api_key) && !audit.contains("argon2"), "{audit}");
}

#[tokio::test]
async fn a_token_ends_with_the_password_or_the_person_it_was_issued_for() {
    let service = Operated::start().await;
    let account = service.account();
    let why = ["--reason", "she asked for it"];
    let who = [account.as_str(), "--email", "eva@loja.example"];
    let run = async |word: &str, more: &[&str]| {
        service.object(&[&["users", word], &who[..], more, &why].concat()).await
    };
    let works = async |token: &str| {
        let bearer = format!("Bearer {token}");
        service.ask("GET", "/v1/api-keys", ("authorization", &bearer)).await.0 == 200
    };
    let log_in = async |person: &Value| {
        let password = person["password"].as_str().unwrap();
        service.log_in("eva@loja.example", password).await.unwrap()
    };
    let first = log_in(&run("add", &["--role", "member"]).await).await;
    run("set-role", &["--role", "admin"]).await;
    assert!(works(&first).await, "with another role, the same token");
    let bearer = format!("Bearer {first}");
    assert_eq!(service.ask("POST", "/v1/api-keys", ("authorization", &bearer)).await.0, 201);

    let second = log_in(&run("reset-password", &[]).await).await;
    assert!(!works(&first).await && works(&second).await);
    run("remove", &[]).await;
    assert!(!works(&second).await);
    let third = log_in(&run("add", &["--role", "admin"]).await).await;
    assert!(!works(&first).await && !works(&second).await, "she is another one now");
    assert!(works(&third).await);
}

#[tokio::test]
async fn what_is_not_right_is_refused_with_a_reason() {
    let service = Operated::start().await;
    let account = service.account();
    let create = |more: &[&'static str]| {
        let words = ["payouts", "create", "--account", &account, "--mode", "test"].map(str::to_owned);
        words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<String>>()
    };
    for (more, says) in [
        (vec!["--amount", "100"], "--reason"),
        (vec!["--amount", "0", "--reason", "x"], "positive"),
        (vec!["--amount", "1.5", "--reason", "x"], "integer"),
        (vec!["--amount", "100", "--reason", " "], "characters"),
        (vec!["--amount", "100", "--currency", "BLR", "--reason", "x"], "currency"),
    ] {
        let words = create(&more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = service.refused(&words).await;
        assert!(said.contains(says), "{said}");
    }
    let nobody = ["ledger", "verify", "--account", "acc_0000000000000000"];
    assert!(service.refused(&nobody).await.contains("there is no account acc_0000000000000000"));
    for (words, says) in [
        (["users", "add", &account, "--email", "ana", "--role", "owner"], "e-mail"),
        (["users", "add", &account, "--email", "a@b.example", "--role", "boss"], "possible values"),
        (["users", "add", "acc_0000000000000000", "--email", "a@b.example", "--role", "owner"], "no account"),
        (["accounts", "open", "--merchant-name", "x", "--merchant-city", " ", "--"], "characters"),
    ] {
        let said = service.refused(&[&words[..2], &["--reason", "x"], &words[2..]].concat()).await;
        assert!(said.contains(says), "{said}");
    }
    for limit in ["0", "60001", "-1", "many"] {
        let words = ["accounts", "set-rate-limit", &account, "--reason", "x", "--per-minute", limit];
        assert!(service.refused(&words).await.contains("per-minute"), "{limit}");
    }
    let fees = ["accounts", "set-fees", &account, "--method", "pix", "--acquirer", "5", "--platform", "0+0"];
    assert!(service.refused(&[&fees[..], &["--reason", "x"]].concat()).await.contains("FIXED+BASIS_POINTS"));
    // A service that was killed leaves its ready file behind.
    let stale = std::env::temp_dir().join(format!("stale-{account}.json"));
    let ready = json!({"base_url": "http://127.0.0.1:1", "dynamodb_url": "http://127.0.0.1:1", "sqs_url": "http://127.0.0.1:1", "s3_url": "http://127.0.0.1:1", "table": "StateTable", "bucket": "b"});
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
    // Half of a deployed stack must not become the one on this machine.
    for (set, missing) in [("TABLE_NAME", "API_KEYS_TABLE_NAME"), ("API_KEYS_TABLE_NAME", "TABLE_NAME")] {
        let mut half = Command::new(env!("CARGO_BIN_EXE_admin"));
        half.args(["ledger", "verify"]).env_remove(missing).env(set, "a");
        let half = half.output().unwrap();
        assert!(!half.status.success());
        assert!(text(&half.stderr).contains(&format!("{missing} is not")), "{half:?}");
    }
}

/// Requests with the first account's test key.
struct Merchant {
    base_url: String,
    key: String,
}

impl Merchant {
    fn of(service: &Operated) -> Self {
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

/// Waits until a condition holds; fails after a minute.
async fn eventually<T, F: AsyncFnMut() -> Option<T>>(what: &str, mut condition: F) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A merchant's server, which answers 204 or, while it is down, 503.
struct Shop {
    url: String,
    up: Arc<AtomicBool>,
}

impl Shop {
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
async fn failed_deliveries_are_made_anew_once() {
    let service = Operated::start().await;
    let merchant = Merchant::of(&service);
    let (shop, other) = (Shop::start().await, Shop::start().await);
    let register = |url: &str| json!({"url": url, "events": ["charge.created"]});
    let endpoint = merchant.send("POST", "/v1/webhooks/endpoints", register(&shop.url)).await;
    merchant.send("POST", "/v1/webhooks/endpoints", register(&other.url)).await;
    for _ in 0..2 {
        merchant.send("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    }
    for attempt in 1..=15 {
        eventually("an attempt of each", async || {
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
        let said = text(&output.stdout);
        let (lines, sum) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines, sum.to_owned())
    };
    assert_eq!(run(redrive(&["--dry-run"])).await.1, "4 deliveries, 0 resent, 0 refused");
    assert_eq!(merchant.deliveries("").await.len(), 4, "a dry run does nothing");
    let to_shop = redrive(&["--endpoint", &id]);
    let (lines, sum) = run(to_shop.clone()).await;
    assert_eq!((lines.len(), sum.as_str()), (2, "2 deliveries, 2 resent, 0 refused"));
    assert!(lines.iter().all(|line| line["endpointId"] == id.as_str() && line["resentAs"].is_string()));
    eventually("both are delivered", async || {
        (merchant.deliveries("&status=DELIVERED").await.len() == 2).then_some(())
    })
    .await;
    assert_eq!(run(to_shop).await.1, "0 deliveries, 0 resent, 0 refused", "done is done");
    let audit = service.objects(&["audit", &account]).await;
    let of_redrive: Vec<&Value> = audit.iter().filter(|row| row["action"] == "deliveries.redrive").collect();
    assert_eq!(of_redrive.len(), 1);
    assert_eq!((&of_redrive[0]["subject"], &of_redrive[0]["actor"]), (&json!(id), &json!("ana")));
    assert!(of_redrive[0]["details"].as_str().unwrap().contains("2 deliveries since 2026-01-01"));
    // Whoever deleted the endpoint can't be told, and that is no fault.
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
    assert!(service.refused(&without_since).await.contains("--since"));
}

#[tokio::test]
async fn quarantined_records_are_replayed_and_removed_and_those_that_fail_stay() {
    let service = Operated::start().await;
    let merchant = Merchant::of(&service);
    let shop = Shop::start().await;
    shop.up.store(true, Ordering::SeqCst);
    let first = merchant.send("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    eventually("its events", async || {
        let log = merchant.send("GET", "/v1/events", json!(null)).await;
        (log["data"].as_array().unwrap().len() == 3).then_some(())
    })
    .await;
    // As if they had never been dispatched.
    let dynamodb = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let store = Store::new(dynamodb.clone(), "StateTable");
    for item in store.partition(&format!("events#{account}:test", account = service.account())).await.unwrap()
    {
        let delete = dynamodb.delete_item().table_name("StateTable");
        delete.key("pk", item["pk"].clone()).key("sk", item["sk"].clone()).send().await.unwrap();
    }
    let registered = json!({"url": shop.url, "events": ["charge.created"]});
    merchant.send("POST", "/v1/webhooks/endpoints", registered).await;
    let records = local::event_sources::stream_records(&service.stack.endpoints.dynamodb_url, "StateTable")
        .await
        .unwrap();
    let of_charge = |record: &&Value| {
        record["eventName"] == "INSERT"
            && record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().starts_with("charge#")
    };
    let record = records.iter().find(of_charge).unwrap().clone();
    let mut poison = record.clone();
    poison["dynamodb"]["NewImage"]["status"] = json!({"S": "NONSENSE"});
    poison["dynamodb"]["SequenceNumber"] = json!("999");
    let given_up = json!({
        "requestContext": {"condition": "RecordAgeExceeded"}, "version": "1.0",
        "payload": json!({"Records": [record]}).to_string(),
    });
    let s3 = local::sdk::s3(&service.stack.endpoints.s3_url);
    let put = async |key: &str, body: &Value| {
        let put =
            s3.put_object().bucket("documents-bucket").key(key).body(body.to_string().into_bytes().into());
        put.send().await.unwrap();
    };
    let lambdas = "aws/lambda/0f1e2d3c/shardId-00000001573689847184-864758bb/2026-11-21T00.13.49-9af7";
    put(lambdas, &given_up).await;
    put("failed-stream-records/999.json", &poison).await;
    put("failed-stream-records/1000.json", &record).await;
    put("evidence/not-ours.json", &record).await;
    let keys = async || {
        let listed = s3.list_objects_v2().bucket("documents-bucket").send().await.unwrap();
        let mut keys: Vec<String> =
            listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    let before = keys().await;
    assert_eq!(before.len(), 4);

    let dry = service.run(&["events", "replay", "--dry-run", "--reason", "a look"]).await;
    assert!(!dry.status.success(), "one can't be read");
    assert!(
        text(&dry.stdout).ends_with("3 objects, 2 records could be replayed, 1 objects left\n"),
        "{dry:?}"
    );
    assert_eq!(keys().await, before);
    // The merchant's own actions are there too.
    let audit_of_replays = async || {
        let mut audit = service.objects(&["audit", &service.account()]).await;
        audit.retain(|row| row["action"] == "events.replay");
        audit
    };
    assert!(audit_of_replays().await.is_empty());

    let output = service.run(&["events", "replay", "--reason", "the bug is mended"]).await;
    assert!(!output.status.success());
    let said = text(&output.stdout);
    assert!(said.ends_with("3 objects, 2 records replayed, 1 objects left\n"), "{said}");
    assert!(said.contains("still can't be read: 999"), "{said}");
    assert_eq!(keys().await, ["evidence/not-ours.json", "failed-stream-records/999.json"]);
    let told = eventually("the event is delivered", async || {
        merchant.deliveries("&status=DELIVERED").await.into_iter().next()
    })
    .await;
    assert_eq!(told["payload"]["data"]["object"]["id"], first["id"]);
    assert_eq!(merchant.deliveries("").await.len(), 1, "though it was there twice");
    let stats = merchant.send("GET", "/v1/payments/stats", json!(null)).await;
    assert_eq!(stats["totalTransactions"], 1, "and counted once: {stats}");
    let audit = audit_of_replays().await;
    assert_eq!((audit.len(), &audit[0]["reason"]), (2, &json!("the bug is mended")));
}

#[tokio::test]
async fn a_case_is_confirmed_proved_and_decided() {
    let service = Operated::start().await;
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
    let again = service.refused(&[&["med", "confirm", id], &why[..]].concat()).await;
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
        (file("notes.txt", b"hello"), "no type"),
        (file("empty.png", b""), "1 to 10485760 bytes"),
        (file("long.pdf", &[&b"%PDF-"[..], &vec![0; 10_485_760]].concat()), "1 to 10485760 bytes"),
        (directory.join("absent.png").to_str().unwrap().to_owned(), "absent.png"),
    ] {
        let said = service.refused(&[&["med", "evidence", "add", id, &path], &why[..]].concat()).await;
        assert!(said.contains(says), "{said}");
    }

    let decided = run(&["decide", id, "--decision", "closed-without-refund"]).await;
    assert_eq!(
        (&decided["status"], &decided["money_outcome"], &decided["evidence_count"]),
        (&json!("closed"), &json!("closed_without_refund"), &json!(1))
    );
    let again = run(&["decide", id, "--decision", "closed-without-refund"]).await;
    assert_eq!(again, decided, "told again, it is done");
    for words in [&["decide", id, "--decision", "merchant"][..], &["request-evidence", id]] {
        let said = service.refused(&[&["med"], words, &why[..]].concat()).await;
        assert!(said.contains("already closed"), "{said}");
    }
    let late = service.refused(&[&["med", "evidence", "add", id, &picture], &why[..]].concat()).await;
    assert!(late.contains("not over"), "{late}");
    std::fs::remove_dir_all(&directory).unwrap();
    let nobody = "med_0000000000000000000000000000000000000000000";
    assert!(!service.run(&["med", "show", nobody]).await.status.success());

    let audit = service.objects(&["audit", &account]).await;
    let actions: Vec<&str> = audit.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["med.decide", "med.add-evidence", "med.request-evidence", "med.confirm"]);
    assert!(audit.iter().all(|row| row["subject"] == id && row["actor"] == "ana"));
    assert_eq!(audit[0]["details"], "closed_without_refund");
    assert!(audit[1]["details"].as_str().unwrap().ends_with("prova.gif"));
    assert_eq!(audit[3]["details"], "test BRL 300");
    let output = service.run(&["ledger", "verify", "--account", &account, "--mode", "test"]).await;
    assert!(output.status.success(), "{output:?}");
}
