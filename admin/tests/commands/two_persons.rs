//! Tests of what one operator may do alone, and of proposals that another operator approves.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::restore::{copy_table, roll_back};
use crate::{AdminFixture, fields, id, lines, text, words};

const ANA: &str = "Operators/ana";
const BIA: &str = "Operators/bia";

/// A stack whose operators' role pins the names of sessions.
struct DeployedFixture {
    service: AdminFixture,
    parameters: Vec<(&'static str, &'static str)>,
}

impl DeployedFixture {
    async fn start(parameters: &[(&'static str, &'static str)]) -> Self {
        let service = AdminFixture::start().await;
        let fixture = Self { service, parameters: parameters.to_vec() };
        fixture.pin_sessions(true);
        fixture
    }

    fn pin_sessions(&self, is_pinned: bool) {
        let named = |name: Value| json!({"StringLike": {"sts:RoleSessionName": name}});
        self.trust(&if is_pinned { named(json!("${aws:username}")) } else { json!({}) });
    }

    fn trust(&self, condition: &Value) {
        let allow = json!({"Effect": "Allow", "Action": "sts:AssumeRole", "Condition": condition});
        let role = json!({"Role": {"AssumeRolePolicyDocument": {"Statement": [allow]}}});
        self.service.file("role.json", role.to_string());
    }

    /// Runs a command as the session of a role.
    async fn run(&self, caller: &str, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        let line = format!("{line} --stack payments --reason agreed");
        self.service.as_deployed(command.args(words(&line)));
        command.env("TABLE_NAME", "StateTable").env("API_KEYS_TABLE_NAME", "ApiKeysTable");
        command.env("SECRETS_TABLE_NAME", "SecretsTable").env("CALLER", caller);
        command.env("USER", caller.rsplit('/').next().unwrap());
        command.env("PATH", self.service.fake_aws(["StateTable", "ApiKeysTable"], &self.parameters));
        command.stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn refuses(&self, caller: &str, line: &str, says: &str) {
        let output = self.run(caller, line).await;
        let message = text(&output.stderr);
        assert!(!output.status.success() && message.contains(says), "{line}: {output:?}");
    }

    /// Runs a command that must succeed. Returns the last object that it prints.
    async fn object(&self, caller: &str, line: &str) -> Value {
        let output = self.run(caller, line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        lines(&output).pop().unwrap()
    }

    /// The messages to the alarms' topic, one a line.
    fn pages(&self) -> String {
        std::fs::read_to_string(self.service.path("pages")).unwrap_or_default()
    }

    /// Runs changes of an acquirer's settings in an emergency that fail, each without a message.
    async fn pages_no_one_before_a_change_is_checked(&self, rotate: &str) {
        let (account, other) = (self.service.account(), self.service.stack.seed.other.id);
        let wrong = self.service.file("wrong", "sk_live_unknown");
        let bank = self.service.bank_of(&account).await.unwrap().acquirer.settings;
        let claimed = bank.pix().unwrap().pix_key.as_str();
        let set = format!(
            "accounts set-acquirer {other} pix --base-url https://pix.banco.example/ --client-id loja-1 \
             --token-url https://pix.banco.example/token --callback-auth token --callback-base-url https://eventos.example.com --pix-key {claimed} \
             --client-secret-file {wrong} --no-check --no-register-webhook"
        );
        for (command, says) in [
            (rotate.replace("--name cards", "--name carsd"), "no current acquirer with the name carsd"),
            (rotate.replace(&self.service.path("key"), "absent.txt"), "absent.txt"),
            (rotate.replace(&self.service.path("key"), &wrong), "nothing was changed"),
            (set, "the Pix key is claimed by the account"),
        ] {
            self.refuses(ANA, &format!("{command} --break-glass"), says).await;
        }
        assert_eq!(self.pages(), "");
        let actions = self.service.actions(&account).await;
        self.service.file("no-pager", "");
        let unsent = "nothing was changed, because the message was not sent";
        self.refuses(ANA, &format!("{rotate} --break-glass"), unsent).await;
        std::fs::remove_file(self.service.path("no-pager")).unwrap();
        assert_eq!(self.service.actions(&account).await, actions);
    }

    async fn available(&self) -> Value {
        let show = format!("ledger show --account {} --mode live", self.service.account());
        self.service.object(&show).await["available"].clone()
    }
}

#[tokio::test]
async fn two_persons_correct_live_money_once() {
    let stack = DeployedFixture::start(&[("OperatorDayLimit", "1500")]).await;
    let account = stack.service.account();
    let adjust = |reference: &str, amount: u32| {
        format!("ledger adjust --account {account} --mode live --amount {amount} --reference {reference}")
    };
    let first = adjust("c1", 1_000);
    stack.refuses(ANA, &first, "a correction of live money needs two persons: add --propose").await;
    stack.refuses(ANA, &format!("{first} --alone"), "does not permit --alone").await;
    stack.refuses(ANA, &format!("{first} --break-glass"), "is not for a correction").await;
    stack.refuses(ANA, &format!("{first} --propose --dry-run"), "cannot be used with").await;
    stack.refuses(ANA, &format!("{} --propose", adjust("c1", 1_501)), "--over-limit").await;
    let in_test = adjust("t1", 1_000).replace("live", "test");
    stack.refuses(ANA, &format!("{in_test} --propose"), "for commands that need two persons").await;
    stack.object(ANA, &in_test).await;

    let proposed = stack.object(ANA, &format!("{first} --propose")).await;
    let line = format!("{first} --reason agreed");
    assert_eq!(fields(&proposed, &["status", "command"]), json!(["open", line]));
    assert_eq!(proposed["proposer"]["name"], "ana");
    assert_eq!(stack.available().await, 0, "a proposal moves nothing");
    let approve = format!("proposals approve {}", id(&proposed));
    stack.refuses(ANA, &approve, "who proposes can't approve").await;
    stack.pin_sessions(false);
    let open = stack.object(ANA, &format!("{} --propose", adjust("c2", 100))).await;
    let approve_other = format!("proposals approve {}", id(&open));
    stack.refuses(BIA, &approve_other, "who proposes can't approve").await;
    // The caller chooses among these.
    for name in [json!("*"), json!(["ana", "bia"]), json!("${aws:username}*"), json!([])] {
        stack.trust(&json!({"StringLike": {"sts:RoleSessionName": name}}));
        stack.refuses(BIA, &approve_other, "who proposes can't approve").await;
    }
    stack.pin_sessions(false);
    stack.object(ANA, &format!("proposals reject {}", id(&open))).await;
    stack.refuses("Other/bia", &approve_other, "the proposal is rejected").await;

    stack.pin_sessions(true);
    let both = tokio::join!(stack.run(BIA, &approve), stack.run("Operators/cid", &approve));
    let done = [both.0.status.success(), both.1.status.success()];
    assert_ne!(done[0], done[1], "one of both approves: {both:?}");
    assert_eq!(stack.available().await, 1_000);
    for caller in [BIA, "Operators/cid"] {
        stack.refuses(caller, &approve, "the proposal is done").await;
    }
    assert_eq!(stack.available().await, 1_000);
    let rows = stack.service.audit(&account).await;
    let row = rows.iter().find(|row| row["details"]["mode"] == "live").unwrap();
    let reason = format!("agreed ({}, proposed by ana, approved because agreed)", id(&proposed));
    assert_eq!(row["reason"], reason);
    let name = row["actor"].as_str().unwrap();
    assert_eq!(row["identity"], format!("arn:aws:sts::123456789012:assumed-role/Operators/{name}"));

    // The limit holds for what both have moved on the day. A command that fails can be approved again.
    let over = stack.run(ANA, &format!("{} --propose", adjust("c3", 501))).await;
    assert!(text(&over.stderr).contains("have moved 1000 of this account today, of 1500"), "{over:?}");
    let with_flag = stack.object(ANA, &format!("{} --over-limit --propose", adjust("c3", 501))).await;
    stack.object(BIA, &format!("proposals approve {}", id(&with_flag))).await;
    assert_eq!(stack.available().await, 1_501);
    // A proposal whose command failed is open again: it can be approved or rejected.
    let payout =
        format!("payouts create --account {account} --mode live --amount 1501 --reference p --over-limit");
    let short = stack.object(ANA, &format!("{payout} --propose")).await;
    stack
        .service
        .change(&format!("ledger adjust --account {account} --mode live --amount -1 --reference c4"))
        .await;
    let approve = format!("proposals approve {}", id(&short));
    stack.refuses(BIA, &approve, "available balance is only 1500").await;
    assert_eq!(id(&stack.service.objects("proposals list --open").await[0]), id(&short));
    let rejected = stack.object(ANA, &format!("proposals reject {}", id(&short))).await;
    assert_eq!(fields(&rejected, &["status", "because"]), json!(["rejected", "agreed"]));
    stack.refuses(BIA, &approve, "the proposal is rejected").await;
    let list = stack.service.objects("proposals list").await;
    let states: Vec<&Value> = list.iter().map(|proposal| &proposal["status"]).collect();
    assert_eq!(states, ["rejected", "done", "rejected", "done"]);
    assert!(stack.service.objects("proposals list --open").await.is_empty());
    stack.service.verify_ledger("live").await;
}

#[tokio::test]
async fn what_opens_a_door_needs_two_persons_and_an_emergency_pages_the_others() {
    let topic = "arn:aws:sns:sa-east-1:123456789012:alarms";
    let stack = DeployedFixture::start(&[("AlarmTopicArn", topic), ("OperatorDayLimit", "1500")]).await;
    let account = stack.service.account();
    let owner = &stack.service.stack.seed.first.owner_email;
    let key = stack.service.file("key", &stack.service.stack.seed.card_key);
    let rotate = format!("accounts rotate-secret {account} --name cards --secret-file {key}");
    let reset = format!("users reset-password {account} --email {owner}");
    for command in [
        reset.as_str(),
        &format!("users remove-second-factor {account} --email {owner}"),
        &format!("users add {account} --email eva@loja.example --role owner"),
        &rotate,
        "restore revoke-keys --from other --since 2026-11-21",
        "restore repeat-payouts --from other --since 2026-11-21",
        &format!("restore compare --from other --account {account} --copy-row pk sk hash"),
        &format!("payouts create --account {account} --mode live --amount 1 --reference a --over-limit"),
    ] {
        stack.refuses(ANA, command, "needs two persons: add --propose").await;
    }
    stack.object(ANA, &format!("users add {account} --email eva@loja.example --role member")).await;
    stack.refuses(ANA, &format!("{reset} --break-glass"), "is not for access").await;
    stack.pages_no_one_before_a_change_is_checked(&rotate).await;
    stack.object(ANA, &format!("{rotate} --break-glass")).await;
    let pages = stack.pages();
    assert_eq!(pages.lines().count(), 1, "{pages}");
    assert!(pages.contains(topic) && pages.contains("assumed-role/Operators/ana changes"), "{pages}");
    let proposed = stack.object(ANA, &format!("{reset} --propose")).await;
    let printed = stack.object(BIA, &format!("proposals approve {}", id(&proposed))).await;
    assert!(printed["password"].is_string(), "who approves reads the password: {printed}");
}

#[tokio::test]
async fn two_persons_book_a_correction_again_that_a_restore_lost() {
    let stack = DeployedFixture::start(&[]).await;
    let client = local::sdk::dynamodb(&stack.service.stack.endpoints.dynamodb_url);
    let account = stack.service.account();
    copy_table(&client, "StateTable", "Moment").await;
    let adjust = format!("ledger adjust --account {account} --mode live --amount 1000 --reference c1");
    stack.service.change(&adjust).await;
    copy_table(&client, "StateTable", "Former").await;
    roll_back(&client, "Moment").await;
    let repeat = "restore repeat-payouts --from Former --since 2026-01-01";
    let proposed = stack.object(ANA, &format!("{repeat} --propose")).await;
    assert_eq!(stack.available().await, 0, "a proposal books nothing");
    let approve = format!("proposals approve {}", id(&proposed));
    stack.refuses(ANA, &approve, "who proposes can't approve").await;
    let summary = stack.object(BIA, &approve).await;
    assert_eq!(fields(&summary, &["booked", "refused"]), json!([1, 0]));
    assert_eq!(stack.available().await, 1_000);
    let row = stack.service.audit(&account).await.remove(0);
    assert_eq!(fields(&row, &["action", "actor"]), json!(["restore.book-again", "bia"]));
    let reason = format!("agreed ({}, proposed by ana, approved because agreed)", id(&proposed));
    assert_eq!(row["reason"], reason);
}

#[tokio::test]
async fn a_stack_may_let_one_operator_act_alone() {
    let stack = DeployedFixture::start(&[("OperatorsMayActAlone", "true"), ("OperatorDayLimit", "10")]).await;
    let adjust =
        format!("ledger adjust --account {} --mode live --amount 10 --reference a", stack.service.account());
    stack.refuses(ANA, &adjust, "needs two persons").await;
    stack.object(ANA, &format!("{adjust} --alone")).await;
    assert_eq!(stack.available().await, 10);
}

#[tokio::test]
async fn a_proposal_takes_its_files_along_and_lapses_after_a_day() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let key = service.file("key", &service.stack.seed.card_key);
    let propose = format!(
        "accounts rotate-secret {account} --name cards --secret-file {key} --propose --reason agreed"
    );
    let from_input = propose.replace(&key, "-");
    service.refuses(&from_input, "name the file").await;
    let [first, second] = [service.object(&propose).await, service.object(&propose).await];
    assert_eq!(first["files"][0]["path"], key);
    assert!(!first.to_string().contains(&service.stack.seed.card_key), "{first}");
    let secrets = async || {
        let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
        let items = client.scan().table_name("SecretsTable").send().await.unwrap().items.unwrap_or_default();
        items.iter().filter(|item| item["pk"].as_s().unwrap().starts_with("proposal#")).count()
    };
    assert_eq!(secrets().await, 2);
    std::fs::remove_file(&key).unwrap();
    let approve =
        |proposal: &Value| format!("proposals approve {} --actor bia --reason agreed", id(proposal));
    service.refuses(&approve(&first).replace("bia", "Ana"), "who proposes can't approve").await;
    service.objects(&approve(&first)).await;
    assert_eq!(secrets().await, 1);
    service.stack.clock.advance(24 * 60 * 60 * 1_000);
    service.refuses(&approve(&second), "the proposal is lapsed").await;
    let shown = service.object(&format!("proposals show {}", id(&second))).await;
    assert_eq!(shown["status"], "lapsed");
    assert!(service.objects("proposals list --open").await.is_empty());
    assert_eq!(secrets().await, 0, "the list removes what has lapsed");
    service.refuses("proposals show pr_00000000000000000000000000", "there is no proposal").await;
}

#[tokio::test]
async fn the_limit_of_a_day_holds_for_payouts_at_once_and_begins_anew() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let of = |command: &str, reference: &str, amount: u32| {
        format!(
            "{command} --account {account} --mode live --amount {amount} --reference {reference} --reason x"
        )
    };
    service.object(&format!("{} --over-limit", of("ledger adjust", "c", 30_000_000))).await;
    service.stack.clock.advance(24 * 60 * 60 * 1_000);
    let [one, two] = [of("payouts create", "p1", 6_000_000), of("payouts create", "p2", 6_000_000)];
    let both = tokio::join!(service.run(&one), service.run(&two));
    let created = [&both.0, &both.1].iter().filter(|output| output.status.success()).count();
    assert_eq!(created, 1, "{both:?}");
    let available = format!("ledger show --account {account} --mode live");
    assert_eq!(service.object(&available).await["available"], 24_000_000);
    service.objects(&of("payouts create", "p3", 4_000_000)).await;
    service.refuses(&of("payouts create", "p4", 1), "have moved 10000000 of this account today").await;
    service.object(&of("payouts create", "p5", 1).replace("--mode live", "--mode live --over-limit")).await;
    service.stack.clock.advance(24 * 60 * 60 * 1_000);
    service.object(&of("payouts create", "p4", 1)).await;
    service.verify_ledger("live").await;
}
