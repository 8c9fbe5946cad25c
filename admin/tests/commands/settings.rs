//! A command that sets several things changes only those that are named, and prints them.

use std::process::{Command, Stdio};

use local::stack::Options;
use serde_json::{Value, json};

use crate::acquirers::BANK_SECRET;
use crate::{AdminFixture, lines, text, words};

/// Returns the names of the fields that differ.
fn changed(before: &Value, after: &Value) -> Vec<String> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return Vec::new() };
    assert!(old.keys().eq(new.keys()), "{before} {after}");
    let names = old.keys().filter(|name| old[*name] != new[*name] && *name != "updated_at");
    names
        .flat_map(|name| match changed(&old[name], &new[name]) {
            inner if inner.is_empty() => vec![name.clone()],
            inner => inner.iter().map(|field| format!("{name}.{field}")).collect(),
        })
        .collect()
}

/// Runs each command. It must change these fields of what `show` prints, and must print one of them.
async fn each_changes_only(service: &AdminFixture, show: &str, commands: &[(String, &[&str])]) {
    for (command, fields) in commands {
        let before = service.object(show).await;
        let output = service.run_with(&format!("{command} --reason agreed"), "a-new-secret").await;
        assert!(output.status.success(), "{command}: {output:?}");
        let after = service.object(show).await;
        assert_eq!(changed(&before, &after), *fields, "{command}");
        let printed = text(&output.stderr);
        for field in *fields {
            let is_printed = printed.lines().any(|line| line.starts_with(field) && line.contains(" → "));
            assert!(is_printed, "{command}: {printed}");
        }
        let again = service.run_with(&format!("{command} --reason agreed"), "a-new-secret").await;
        assert!(!text(&again.stderr).contains(" → "), "{command}: {again:?}");
    }
}

/// The options that set nothing.
const NOT_A_SETTING: [&str; 10] = [
    "--name",
    "--method",
    "--help",
    "--reason",
    "--actor",
    "--json",
    "--dry-run",
    "--no-check",
    "--no-register-webhook",
    "--widen-source-addresses",
];

/// Each option of a command that sets something must be in one of these lines.
fn each_option_is_in(command: &str, lines: &[&str]) {
    let mut help = Command::new(env!("CARGO_BIN_EXE_admin"));
    let help = help.args(command.split(' ')).arg("--help").output().unwrap();
    let help = text(&help.stdout);
    let (of_command, _) = help.split_once("\nStack:").unwrap();
    let options = of_command.lines().filter_map(|line| {
        let option = line.trim_start().trim_start_matches("-h, ");
        option.strip_prefix("--").and_then(|_| option.split([' ', '=']).next())
    });
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split(' ')).collect();
    let mut settings = options.filter(|option| !NOT_A_SETTING.contains(option)).peekable();
    assert!(settings.peek().is_some(), "{help}");
    settings.for_each(|option| assert!(words.contains(&option), "{command} {option}"));
}

#[tokio::test]
async fn an_option_of_a_bank_changes_its_setting_alone() {
    let service = AdminFixture::start().await;
    let account = service.open_account().await;
    let bank = "https://pix.banco.example";
    let (certificate, key) = service.identity("one", (2055, 12, 24));
    let (other_certificate, other_key) = service.identity("two", (2056, 12, 24));
    let file = |name: &str, value: &str| service.file(name, value);
    let all = format!(
        "accounts set-acquirer {account} pix --base-url {bank}/v2 --token-url {bank}/oauth --client-id loja-1 \
         --client-secret-file {} --token-authentication body --scope cob.read --pix-key pix@loja.example \
         --certificate {certificate} --private-key {key} --additional-ca {certificate} --header-file a={} \
         --header-file b={} --query-file q={} --webhook-header-file w={} --max-period-seconds 432000 \
         --requests-per-second 7 --expire-after-seconds 300 --callback-auth token \
         --source-address 203.0.113.0/24 --callback-base-url https://eventos.example.com \
         --no-check --no-register-webhook --reason agreed",
        file("secret", BANK_SECRET),
        file("a", "1"),
        file("b", "2"),
        file("q", "3"),
        file("w", "4"),
    );
    let set = service.run(&all).await;
    assert!(set.status.success(), "{set:?}");
    let show = format!("accounts show-acquirer {account}");
    let options: [(String, &[&str]); 27] = [
        (format!("--base-url {bank}/v3"), &["base_url", "callback.tokens"]),
        (format!("--token-url {bank}/token"), &["token_url"]),
        ("--client-id loja-2".to_owned(), &["callback.tokens", "client_id"]),
        (format!("--client-secret-file {}", file("new", "n3w")), &["client_secret_fingerprint"]),
        ("--client-secret-file -".to_owned(), &["client_secret_fingerprint"]),
        ("--token-authentication basic".to_owned(), &["token_authentication"]),
        ("--scope pix.read".to_owned(), &["scope"]),
        ("--pix-key outra@loja.example".to_owned(), &["callback.tokens", "pix_key"]),
        (
            format!("--certificate {other_certificate} --private-key {other_key}"),
            &["certificate_ends_at", "certificate_fingerprint", "private_key_fingerprint"],
        ),
        (format!("--additional-ca {other_certificate}"), &["additional_ca_fingerprints"]),
        (format!("--header-file b={}", file("b2", "22")), &["headers"]),
        (format!("--query-file q={}", file("q2", "33")), &["query_parameters"]),
        (format!("--webhook-header-file w={}", file("w2", "44")), &["webhook_headers"]),
        ("--max-period-seconds 3600".to_owned(), &["max_period_seconds"]),
        ("--requests-per-second 8".to_owned(), &["requests_per_second"]),
        ("--expire-after-seconds 301".to_owned(), &["expire_after_seconds"]),
        (
            "--base-url http://127.0.0.1:9/v2 --send-pix local".to_owned(),
            &["base_url", "callback.tokens", "send_pix"],
        ),
        ("--source-address 198.51.100.7 --widen-source-addresses".to_owned(), &["callback.source_addresses"]),
        (
            "--callback-base-url https://outro.example.com".to_owned(),
            &["callback.base_url", "callback.tokens"],
        ),
        (
            "--callback-auth mtls --certificate-subject CN=banco".to_owned(),
            &["callback.authentication", "callback.certificate_subject", "callback.source_addresses"],
        ),
        (
            "--callback-auth token --no-source-address".to_owned(),
            &["callback.authentication", "callback.certificate_subject"],
        ),
        ("--source-address 198.51.100.0/24".to_owned(), &["callback.source_addresses"]),
        ("--source-address 198.51.100.0/25".to_owned(), &["callback.source_addresses"]),
        ("--no-source-address".to_owned(), &["callback.source_addresses"]),
        ("--unset scope --unset additional-ca".to_owned(), &["additional_ca_fingerprints", "scope"]),
        (
            "--unset header --unset query --unset webhook-header".to_owned(),
            &["headers", "query_parameters", "webhook_headers"],
        ),
        (
            "--unset certificate".to_owned(),
            &["certificate_ends_at", "certificate_fingerprint", "private_key_fingerprint"],
        ),
    ];
    each_option_is_in(
        "accounts set-acquirer x pix",
        &options.iter().map(|(options, _)| options.as_str()).collect::<Vec<_>>(),
    );
    let set = format!("accounts set-acquirer {account} pix --no-check --no-register-webhook");
    let commands = options.map(|(options, fields)| (format!("{set} {options}"), fields));
    each_changes_only(&service, &show, &commands).await;
    assert_eq!(service.object(&show).await["kind"], "pix");
    let of_certificate = ["certificate_ends_at", "certificate_fingerprint", "private_key_fingerprint"];
    let renewals: [(String, &[&str]); 2] = [
        (
            format!(
                "accounts set-certificate {account} --certificate {certificate} --private-key {key} --no-check"
            ),
            &of_certificate,
        ),
        (format!("accounts rotate-secret {account} --no-check"), &["client_secret_fingerprint"]),
    ];
    let set_secret = format!("{set} --client-secret-file {} --reason agreed", file("old", "0ld"));
    service.objects(&set_secret).await;
    each_changes_only(&service, &show, &renewals).await;

    // Widening needs a flag, and a name is of one kind of acquirer.
    let mtls = "--callback-auth mtls --certificate-subject CN=banco";
    let closed = service.run(&format!("{set} {mtls} --reason agreed")).await;
    assert!(closed.status.success(), "{closed:?}");
    for (command, says) in [
        (format!("{set} --callback-auth token"), "--no-source-address"),
        (format!("{set} --widen-source-addresses"), "--source-address"),
        (format!("{set} --source-address 0.0.0.0/0"), "not all addresses"),
        (
            format!("accounts set-acquirer {account} stripe --name pix --methods CREDIT_CARD"),
            "another kind of acquirer",
        ),
        (format!("{set} --name other --base-url {bank}"), "--callback-auth is required for a new connection"),
    ] {
        service.refuses(&format!("{command} --reason agreed"), says).await;
    }
    let narrow = format!("{set} --callback-auth token --source-address 198.51.100.0/25 --reason agreed");
    service.objects(&narrow).await;
    for wider in ["198.51.100.0/24", "198.51.100.0/26 --source-address 203.0.113.7"] {
        let command = format!("{set} --source-address {wider} --reason agreed");
        service.refuses(&command, "--widen-source-addresses permits them").await;
    }
}

#[tokio::test]
async fn an_option_of_btcpay_changes_its_setting_alone() {
    let service = AdminFixture::start_with(Options { other_acquirers: true, ..Options::in_memory() }).await;
    let account = service.account();
    let seed = &service.stack.seed;
    let key: String = seed.card_key.chars().filter(char::is_ascii_alphanumeric).collect();
    let (key, wrong) = (service.file("key", key), service.file("wrong", "wrong"));
    let set = format!("accounts set-acquirer {account} btcpay --name crypto");
    // The account's other connections are in `others`.
    let show = format!("accounts show-acquirer {account}");
    let shown = async || {
        let shown = service.object(&show).await;
        let others = shown["others"].as_array().unwrap().clone();
        others.into_iter().find(|each| each["name"] == "crypto").unwrap()
    };
    let before = shown().await;
    let (url, store) = (before["base_url"].as_str().unwrap(), before["store"].as_str().unwrap());
    let commands: [(String, &[&str]); 3] = [
        (format!("--requests-per-second 8 --store {store}"), &["requests_per_second"]),
        (format!("--base-url {url}/ --key-file {key}"), &[]),
        (
            "--callback-base-url http://127.0.0.1:9".to_owned(),
            &["callback.base_url", "callback.tokens", "webhook_endpoint"],
        ),
    ];
    each_option_is_in(
        "accounts set-acquirer x btcpay",
        &commands.iter().map(|(options, _)| options.as_str()).collect::<Vec<_>>(),
    );
    for (options, fields) in commands {
        let before = shown().await;
        service.objects(&format!("{set} {options} --reason agreed")).await;
        assert_eq!(changed(&before, &shown().await), *fields, "{options}");
    }
    let rotate = format!("accounts rotate-secret {account} --name crypto --reason agreed");
    let before = shown().await;
    service.refuses(&format!("{rotate} --secret-file {wrong}"), "nothing was changed").await;
    service.refuses(&format!("{rotate} --secret-file {key} --no-check"), "for banks of Pix only").await;
    service.objects(&format!("{rotate} --secret-file {key}")).await;
    assert_eq!(shown().await, before);
}

#[tokio::test]
async fn an_option_of_stripe_or_of_an_account_changes_its_setting_alone() {
    let service = AdminFixture::start().await;
    let account = service.stack.seed.other.id.to_string();
    let url = service.stack.cards.url().to_owned();
    let key = service.file("key", &service.stack.seed.card_key);
    let set = format!("accounts set-acquirer {account} stripe --name cards");
    let all = format!(
        "{set} --key-file {key} --base-url {url} --files-url {url} --methods CREDIT_CARD --fees-on-refund keep \
         --requests-per-second 7 --reason agreed"
    );
    let done = service.run(&all).await;
    assert!(done.status.success(), "{done:?}");
    let options: [(String, &[&str]); 3] = [
        (format!("{set} --requests-per-second 8"), &["requests_per_second"]),
        (format!("{set} --files-url {url}/files"), &["files_url"]),
        (
            format!("{set} --callback-base-url http://127.0.0.1:9"),
            &["callback.base_url", "callback.tokens", "webhook_endpoint"],
        ),
    ];
    each_option_is_in("accounts set-acquirer x stripe", &[&all, &options[1].0, &options[2].0]);
    each_changes_only(&service, &format!("accounts show-acquirer {account}"), &options).await;
    let rotate = format!("accounts rotate-secret {account} --reason agreed");
    let wrong = service.file("wrong", "sk_live_wrong");
    service.refuses(&format!("{rotate} --secret-file {wrong}"), "nothing was changed").await;
    service.objects(&format!("{rotate} --secret-file {key}")).await;
    service
        .refuses(
            &format!("accounts set-certificate {account} --certificate {key} --private-key {key} --reason x"),
            "no bank of Pix",
        )
        .await;

    let pix = format!("{account} --method pix");
    service.change(&format!("accounts set-fees {pix} --acquirer 10+99 --platform 0+50")).await;
    let high = format!("accounts set-fees {pix} --reason agreed --platform");
    let warns = async |fee| text(&service.run(&format!("{high} {fee}")).await.stderr).contains("warning: ");
    assert!(!warns("0+901").await && warns("0+902").await);
    service.change(&format!("accounts set-fees {pix} --platform 0+50")).await;
    service.change(&format!("accounts set-velocity {account} --per-customer 3 --per-account 50")).await;
    let commands: [(String, &[&str]); 8] = [
        (format!("accounts set-fees {pix} --acquirer 10+100"), &["terms"]),
        (format!("accounts set-fees {pix} --platform 0+51"), &["terms"]),
        (format!("accounts set-hold {pix} --days 2"), &["terms"]),
        (format!("accounts set-fees-on-refund {pix} --fees keep"), &["terms"]),
        (format!("accounts set-velocity {account} --per-customer 4"), &["velocity.per_customer"]),
        (format!("accounts set-velocity {account} --per-account 51"), &["velocity.per_account"]),
        (format!("accounts set-velocity {account} --per-link 61"), &["velocity.per_link"]),
        (
            format!("accounts set-third-party-refund-limit {account} --mode live --centavos 5"),
            &["third_party_refund_limit.live"],
        ),
    ];
    for command in ["set-fees", "set-velocity"] {
        let of_command: Vec<&str> =
            commands.iter().map(|(line, _)| line.as_str()).filter(|line| line.contains(command)).collect();
        each_option_is_in(&format!("accounts {command}"), &of_command);
    }
    let show = format!("accounts show {account}");
    each_changes_only(&service, &show, &commands).await;
    let terms = service.object(&show).await["terms"].clone();
    let of_pix = terms.as_array().unwrap().iter().find(|terms| terms["method"] == "pix").unwrap().clone();
    assert_eq!(
        of_pix,
        json!({
            "method": "pix", "acquirer_fee": {"fixed": 10, "basis_points": 100},
            "platform_fee": {"fixed": 0, "basis_points": 51}, "hold_days": 2, "fees_on_refund": "keep",
        })
    );
    for (command, says) in [
        (format!("set-fees {pix}"), "--acquirer"),
        (format!("set-fees {pix} --platform 0+9901"), "at most 10000 together"),
        (format!("set-fees {pix} --platform 999999999999+0"), "at most 1000000 minor units"),
        (format!("set-velocity {account}"), "--per-customer"),
    ] {
        service.refuses(&format!("accounts {command} --reason agreed"), says).await;
    }
    assert_eq!(service.object(&show).await["terms"], terms);
}

#[tokio::test]
async fn money_moves_once_in_one_ledger_and_not_for_a_suspended_account() {
    let service = AdminFixture::start().await;
    let (account, other) = (service.account(), service.stack.seed.other.id.to_string());
    let adjust = |account: &str, mode: &str, more: &str| {
        format!("ledger adjust --account {account} --mode {mode} --reason agreed {more}")
    };
    let first = "--amount 1000 --reference 2026-11";
    let id = service.object(&adjust(&account, "live", first)).await["id"].clone();
    let again = service.run(&adjust(&account, "live", first)).await;
    assert_eq!(lines(&again)[0]["id"], id);
    assert!(text(&again.stderr).contains("exists already; nothing changed"), "{again:?}");
    // Another account has references of its own.
    assert_ne!(service.object(&adjust(&other, "live", first)).await["id"], id);
    let taken = format!("the reference belongs to the correction {}, which differs", id.as_str().unwrap());
    for (command, says) in [
        (adjust(&account, "test", first), &*taken),
        (adjust(&account, "live", "--amount 900 --reference 2026-11"), &taken),
        (adjust(&account, "live", &format!("{first} --note other")), &taken),
        (adjust(&account, "live", &format!("{first} --currency EUR")), &taken),
        (adjust(&account, "live", "--amount 10000001 --reference b"), "--over-limit"),
        (adjust(&account, "live", "--amount 10,50 --reference b"), "1000 is BRL 10.00, or JPY 1000"),
        (
            format!("reconcile --account {account} --connection con_{} --date 2026-11-21", "z".repeat(26)),
            "con_",
        ),
        (
            format!(
                "deliveries redrive --account {account} --mode test --since 2026-01-01 \
                 --endpoint wh_00000000000000000000000000 --reason agreed"
            ),
            "has no endpoint wh_",
        ),
        (
            format!("deliveries redrive --account {account} --mode test --since 2100-01-01 --reason agreed"),
            "in the future",
        ),
        (
            "accounts open --merchant-name '' --merchant-city Recife --reason x".to_owned(),
            "1 to 100 characters",
        ),
    ] {
        service.refuses(&command, says).await;
    }
    let available = async || {
        service.object(&format!("ledger show --account {account} --mode live")).await["available"].clone()
    };
    assert_eq!(available().await, 1000);
    service.object(&adjust(&account, "live", "--amount 10000001 --over-limit --reference b")).await;

    let create = |reference: &str, amount: u32| {
        let ledger = format!("--account {account} --mode live --amount {amount}");
        format!("payouts create {ledger} --over-limit --reference {reference} --reason agreed")
    };
    let dry = format!("{} --dry-run", create("p1", 300));
    let output = service.run(&dry).await;
    assert_eq!(lines(&output)[0]["amount"], 300);
    assert!(text(&output.stderr).contains("dry run"), "{output:?}");
    service.refuses(&format!("{} --dry-run", create("p1", 20_000_000)), "is only 10001001").await;
    let correct = adjust(&account, "live", "--amount 5 --reference c --dry-run");
    service.refuses(&correct, "have moved 10001001 of this account today, of 10000000").await;
    let adjusted = service.run(&format!("{correct} --over-limit")).await;
    assert_eq!(lines(&adjusted)[0]["net"], 5);
    assert_eq!(available().await, 10_001_001, "a dry run moves nothing");

    let first = service.object(&create("p1", 300)).await;
    assert_eq!(service.object(&create("p1", 300)).await, first);
    let taken = format!("belongs to the payout {}", first["id"].as_str().unwrap());
    service.refuses(&create("p1", 301), &taken).await;
    service.refuses(&create("p1", 300).replace("live", "test"), &taken).await;
    let first = first["id"].as_str().unwrap();
    let settle = format!("payouts settle {first} --reason agreed");
    assert_eq!(service.object(&format!("{settle} --dry-run")).await["status"], "paid");
    assert_eq!(service.object(&format!("payouts show {first}")).await["status"], "pending");
    service.change(&format!("accounts suspend {account}")).await;
    service.refuses(&create("p2", 200), "--although-suspended").await;
    service.object(&format!("{} --although-suspended", create("p2", 200))).await;
    assert_eq!(available().await, 10_000_501);
    service.verify_ledger("live").await;
}

#[tokio::test]
async fn a_stack_that_variables_select_is_changed_by_its_name_only() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let run = async |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        service.as_deployed(command.args(words(line)));
        command.env("TABLE_NAME", "StateTable").env("API_KEYS_TABLE_NAME", "ApiKeysTable");
        command.env("PATH", service.fake_aws(["StateTable", "ApiKeysTable"], &[]));
        command.stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let suspend = format!("accounts suspend {account} --reason x");
    let adjust = format!("ledger adjust --account {account} --mode live --amount 5 --reference c --reason x");
    for (command, says) in [
        (&suspend, "add --stack and its name"),
        (&adjust, "add --stack and its name"),
        (&format!("{suspend} --stack other"), "is not of the stack other"),
        (&format!("{suspend} --stack State"), "is not of the stack State"),
    ] {
        let output = run(command).await;
        assert!(!output.status.success() && text(&output.stderr).contains(says), "{command}: {output:?}");
    }
    // All tables must be those of the stack, and what changes without a reason is asked too.
    let foreign = run(&format!(
        "{suspend} --stack payments --table StateTable --api-keys-table payments-test-ApiKeysTable"
    ))
    .await;
    assert!(text(&foreign.stderr).contains("payments-test-ApiKeysTable is not of the stack"), "{foreign:?}");
    let apply = run(&format!("reconcile --account {account} --date 2026-11-21 --apply")).await;
    assert!(text(&apply.stderr).contains("add --stack and its name"), "{apply:?}");
    let shown = run(&format!("accounts show {account}")).await;
    assert_eq!(lines(&shown)[0]["suspended"], false);
    let dry = run(&format!("{adjust} --dry-run")).await;
    assert_eq!(lines(&dry)[0]["net"], 5);
    let changed = run(&format!("{suspend} --stack payments")).await;
    assert_eq!(lines(&changed)[0]["suspended"], true);
    service.refuses("accounts list --stack payments", "the tables of the stack payments are not named").await;
}
