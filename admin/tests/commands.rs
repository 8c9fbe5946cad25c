//! The operator's commands as an operator runs them: a process, on a service that runs on this machine.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

use local::stack::{Options, Stack};
use serde_json::{Value, json};

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
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.args(["--ready-file", self.ready_file.to_str().unwrap()]).args(arguments);
        command.env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME").env("USER", "ana");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
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

    let output = service.run(&["ledger", "verify", "--account", &account, "--mode", "test"]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "1 ledgers, 6 postings, 0 differences\n");
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
            "{scope} EUR: merchant_available credits: the postings say 0, kept is 5\n4 ledgers, 0 postings, 1 differences\n"
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
    let fees = ["accounts", "set-fees", &account, "--method", "pix", "--acquirer", "5", "--platform", "0+0"];
    assert!(service.refused(&[&fees[..], &["--reason", "x"]].concat()).await.contains("FIXED+BASIS_POINTS"));
    // A service that was killed leaves its ready file behind.
    let stale = std::env::temp_dir().join(format!("stale-{account}.json"));
    let ready = json!({"base_url": "http://127.0.0.1:1", "dynamodb_url": "http://127.0.0.1:1", "table": "StateTable"});
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
}
