//! Tests of `admin restore`. Copies of the tables stand for the restored ones.

use std::collections::HashMap;
use std::process::Output;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, BillingMode, GlobalSecondaryIndex};
use domain::row::Key;
use serde_json::{Value, json};
use shared::clock::Clock;
use shared::store::{Item, key_attributes, key_of_item, number};

use crate::{AdminFixture, Merchant, MerchantServer, eventually, fields, id, lines, text};

/// Copies a table with its rows and indexes, as a restore does.
pub(crate) async fn copy_table(client: &Client, from: &str, to: &str) {
    let described = client.describe_table().table_name(from).send().await.unwrap().table.unwrap();
    let indexes = described.global_secondary_indexes.unwrap_or_default().into_iter().map(|index| {
        GlobalSecondaryIndex::builder()
            .index_name(index.index_name.unwrap())
            .set_key_schema(index.key_schema)
            .set_projection(index.projection)
            .build()
            .unwrap()
    });
    let created = client
        .create_table()
        .table_name(to)
        .set_attribute_definitions(described.attribute_definitions)
        .set_key_schema(described.key_schema)
        .set_global_secondary_indexes(Some(indexes.collect()))
        .billing_mode(BillingMode::PayPerRequest);
    created.send().await.unwrap();
    for item in items(client, from).await {
        client.put_item().table_name(to).set_item(Some(item)).send().await.unwrap();
    }
}

async fn items(client: &Client, table: &str) -> Vec<Item> {
    client.scan().table_name(table).into_paginator().items().send().try_collect().await.unwrap()
}

/// Reads all rows of a state table, by their keys.
async fn rows(client: &Client, table: &str) -> HashMap<Key, Item> {
    items(client, table).await.into_iter().map(|item| (key_of_item(&item).unwrap(), item)).collect()
}

/// Makes the state table what the table `to` is, as if the operators had restored it to the moment of that copy.
pub(crate) async fn roll_back(client: &Client, to: &str) {
    let (present, earlier) = (rows(client, "StateTable").await, rows(client, to).await);
    for key in present.keys().filter(|key| !earlier.contains_key(*key)) {
        let delete = client.delete_item().table_name("StateTable");
        delete.set_key(Some(key_attributes(key))).send().await.unwrap();
    }
    for (_, item) in earlier.into_iter().filter(|(key, item)| present.get(key) != Some(item)) {
        client.put_item().table_name("StateTable").set_item(Some(item)).send().await.unwrap();
    }
}

/// Runs a command on the restored tables.
async fn on_restored(service: &AdminFixture, line: &str) -> Output {
    service.run_on_tables(["RestoredState", "RestoredKeys"], line).await
}

#[tokio::test]
async fn keys_that_became_invalid_after_the_moment_are_revoked_in_the_restored_table() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let token = service.add_owner(&account).await;
    let post = async |path: &str| {
        let (status, key) = service.request_of(&token, "POST", path).await;
        assert!(status < 300, "{key}");
        id(&key).to_owned()
    };
    let [revoked, rotated, kept] =
        [post("/v1/api-keys").await, post("/v1/api-keys").await, post("/v1/api-keys").await];

    let merchant = Merchant::of(&service);
    let charge = merchant.charge().await;
    merchant.sandbox(&charge, "pay", json!({})).await;
    let case = merchant.sandbox(&charge, "med-cases", json!({})).await;

    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    copy_table(&client, "StateTable", "RestoredState").await;
    copy_table(&client, "ApiKeysTable", "RestoredKeys").await;
    // Commands on deployed tables have another clock than the service, which may be ahead.
    let since = Clock::default().now().to_iso();
    service.change(&format!("keys revoke {account} {revoked}")).await;
    let replacement = post(&format!("/v1/api-keys/{rotated}/rotate")).await;
    service.change(&format!("accounts set-rate-limit {account} --per-minute 7")).await;
    let ledger = format!("--account {account} --mode test --reason agreed");
    service.object(&format!("ledger adjust --amount 1000 --reference c1 {ledger}")).await;
    let payout = service.object(&format!("payouts create --amount 600 --reference p1 {ledger}")).await;
    service.change(&format!("payouts settle {}", id(&payout))).await;
    service.change(&format!("med decide {} --decision closed-without-refund", id(&case))).await;

    let printed_keys = async || {
        let output = on_restored(&service, &format!("keys list {account}")).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    assert!(
        printed_keys().await.contains(&revoked) && printed_keys().await.contains(&rotated),
        "the restore revives both keys"
    );
    let command = format!("restore revoke-keys --since {since} --reason restored --from");
    let revoke = async || {
        let output = on_restored(&service, &format!("{command} StateTable")).await;
        assert!(output.status.success(), "{output:?}");
        let mut printed = lines(&output);
        let summary = printed.pop().unwrap();
        (fields(&summary, &["revoked", "absent"]), printed)
    };
    let (summary, printed) = revoke().await;
    assert_eq!(summary, json!([2, 0]));
    let lost = printed.iter().find(|line| line["action"] == "account.set-rate-limit").unwrap();
    assert_eq!(fields(lost, &["state", "account"]), json!(["lost", account]));
    for (action, minor) in
        [("ledger.adjust", 1_000), ("payout.create", 600), ("payout.settle", 600), ("med.decide", 1_000)]
    {
        let moved = json!({"mode": "test", "currency": "BRL", "minor": minor});
        let lost = printed.iter().find(|line| line["action"] == action).unwrap();
        assert_eq!(fields(lost, &["state", "moved"]), json!(["lost", moved]));
    }
    let keys = printed_keys().await;
    assert!(!keys.contains(&revoked) && !keys.contains(&rotated), "{keys}");
    assert!(keys.contains(&kept), "{keys}");
    assert!(!keys.contains(&replacement), "a key issued after the moment is lost");
    let audit = text(&on_restored(&service, &format!("audit {account}")).await.stdout);
    assert_eq!(audit.matches("restored").count(), 2, "{audit}");
    assert_eq!(revoke().await.0, json!([0, 2]), "repeating the command changes nothing");

    let output = on_restored(&service, &format!("{command} RestoredState")).await;
    assert!(
        !output.status.success() && text(&output.stderr).contains("must name another table"),
        "{output:?}"
    );
}

impl AdminFixture {
    /// Runs a command on another state table of the service. Returns the first object that it prints.
    async fn object_of(&self, table: &str, line: &str) -> Value {
        let mut ready = self.stack.ready().await.unwrap();
        ready["variables"]["TABLE_NAME"] = table.into();
        self.file("other.json", ready.to_string());
        let output = self.run_at("other.json", line, "").await;
        assert!(output.status.success(), "{output:?}");
        lines(&output).remove(0)
    }

    /// The numbers of the account's e-mails and of the deliveries in the mode of a merchant's key.
    async fn sent(&self, merchant: &Merchant) -> (usize, usize) {
        let emails =
            self.table("StateTable").partition(&format!("notices#{}", self.account())).await.unwrap();
        (emails.len(), merchant.deliveries("").await.len())
    }
}

/// The states of lines by the object that they name.
fn states(lines: &[Value]) -> HashMap<String, String> {
    let state = |line: &Value| Some((line["id"].as_str()?.to_owned(), line["state"].as_str()?.to_owned()));
    lines.iter().filter_map(state).collect()
}

#[tokio::test]
async fn payouts_and_corrections_after_the_moment_are_booked_again_and_nothing_is_sent() {
    let service = AdminFixture::start().await;
    let (account, server) = (service.account(), MerchantServer::start().await);
    server.up.store(true, std::sync::atomic::Ordering::SeqCst);
    let (merchant, in_test) = (Merchant::live(&service), Merchant::of(&service));
    let events = json!(["payout.created", "payout.paid", "payout.failed"]);
    merchant.post("/v1/webhooks/endpoints", json!({"url": server.url, "events": events})).await;
    service.change(&format!("accounts set-shards {account} --shards 4")).await;
    service.register_approved_key().await;
    let owner = service.owner_of_live().await;
    let scope = format!("--account {account} --mode live --reason agreed");
    let adjust =
        |name: &str, amount: i64| format!("ledger adjust {scope} --reference {name} --amount {amount}");
    let create = async |name: &str, amount: i64| {
        let line = format!("payouts create {scope} --reference {name} --amount {amount}");
        id(&service.object(&line).await).to_owned()
    };
    service.object(&adjust("c1", 50_000)).await;
    let [to_settle, to_fail] = [create("p1", 1_000).await, create("p2", 2_000).await];
    let delivered = async |count: usize| {
        eventually("the events are delivered", async || {
            let delivered = merchant.deliveries("&status=DELIVERED").await.len();
            assert!(delivered <= count, "{delivered} deliveries");
            (delivered == count).then_some(())
        })
        .await;
    };
    delivered(2).await;

    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    copy_table(&client, "StateTable", "Moment").await;
    service.stack.clock.advance(1);
    let since = service.stack.clock.now().to_iso();
    service.change(&format!("payouts settle {to_settle}")).await;
    service.object(&format!("payouts fail {to_fail} --reason closed")).await;
    let [pending, paid, failed] = [create("p3", 300).await, create("p4", 400).await, create("p5", 500).await];
    service.change(&format!("payouts settle {paid}")).await;
    service.object(&format!("payouts fail {failed} --reason refused")).await;
    let corrections = [adjust("c2", -700), adjust("c3", 80)].map(|line| line + " --note carta");
    for line in &corrections {
        service.object(line).await;
    }
    assert_eq!(service.request_payout(&owner, "60", "k1").await, 303);
    // The charge that this payout takes its money from is lost.
    let charge = in_test.charge().await;
    in_test.sandbox(&charge, "pay", json!({})).await;
    service
        .object(&format!(
            "payouts create --account {account} --mode test --amount 900 --reference t1 --reason x"
        ))
        .await;
    delivered(10).await;
    copy_table(&client, "StateTable", "Former").await;
    roll_back(&client, "Moment").await;
    let before = service.sent(&merchant).await;

    let repeat = format!("restore repeat-payouts --from Former --since {since} --reason restored");
    let balances = async |table: &str, mode: &str| {
        let shown = service.object_of(table, &format!("ledger show --account {account} --mode {mode}")).await;
        fields(&shown, &["available", "pending", "retained", "total"])
    };
    let restored = balances("StateTable", "live").await;
    let mut dry = service.objects(&format!("{repeat} --dry-run")).await;
    assert!(dry.iter_mut().all(|line| line.as_object_mut().unwrap().remove("dry_run") == Some(json!(true))));
    assert_eq!(balances("StateTable", "live").await, restored, "a dry run changes nothing");
    let booked = service.objects(&repeat).await;
    assert_eq!(booked, dry);
    let (summary, lines) = booked.split_last().unwrap();
    assert_eq!(fields(summary, &["booked", "exists", "refused"]), json!([9, 1, 0]), "{booked:?}");
    let line = lines.iter().find(|line| line["id"] == pending.as_str()).unwrap();
    assert_eq!(
        fields(line, &["state", "reference", "minor", "currency", "status", "scope"]),
        json!(["booked", "p3", 300, "BRL", "pending", format!("{account}:live")])
    );
    assert!(!format!("{lines:?}").contains("financeiro"), "{lines:?}");

    assert_eq!(balances("StateTable", "live").await, balances("Former", "live").await);
    assert_eq!(balances("StateTable", "test").await[0], -900);
    service.verify_ledger("live").await;
    service.verify_ledger("test").await;
    for id in [&to_settle, &to_fail, &pending, &paid, &failed] {
        let show = format!("payouts show {id}");
        assert_eq!(service.object(&show).await, service.object_of("Former", &show).await);
    }
    let compare = format!("restore compare --from Former --account {account} --mode live");
    let compared = service.objects(&compare).await;
    let of = |kind: &str| compared.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    for kind in ["ledger", "wallet", "reference", "payout-requests"] {
        assert!(of(kind).is_empty(), "{compared:?}");
    }
    let payouts = of("payout");
    let is_only_marked = |line: &&Value| line["changes"].as_object().unwrap().keys().eq(["booked_again"]);
    assert!(payouts.len() == 6 && payouts.iter().all(is_only_marked), "{payouts:?}");

    let again = service.objects(&repeat).await;
    let (summary, lines) = again.split_last().unwrap();
    assert_eq!(fields(summary, &["booked", "exists", "refused"]), json!([0, 10, 0]));
    assert!(states(lines).values().all(|state| state == "exists"), "{lines:?}");
    for line in &corrections {
        service.object(line).await;
    }
    // The row of a payout is deleted, and its postings remain.
    let row = Key { pk: format!("payout#{paid}"), sk: "payout".to_owned() };
    let delete = client.delete_item().table_name("StateTable").set_key(Some(key_attributes(&row)));
    delete.send().await.unwrap();
    let again = service.objects(&repeat).await;
    let (summary, _) = again.split_last().unwrap();
    assert_eq!(fields(summary, &["booked", "exists", "refused"]), json!([1, 9, 0]), "{again:?}");
    assert_eq!(service.request_payout(&owner, "1", "k2").await, 422, "the requested payout is pending");
    assert_eq!(balances("StateTable", "live").await, balances("Former", "live").await);
    let mut audit = service.audit(&account).await;
    audit.retain(|row| row["action"] == "restore.book-again");
    assert_eq!(audit.len(), 10);
    assert!(
        audit.iter().all(|row| fields(row, &["actor", "reason"]) == json!(["ana", "restored"])),
        "{audit:?}"
    );

    // Only what happens after that is published.
    assert_eq!(service.sent(&merchant).await, before);
    service.change(&format!("payouts settle {pending}")).await;
    eventually("the settlement is delivered", async || {
        let delivered = merchant.deliveries("&status=DELIVERED").await;
        delivered
            .iter()
            .any(|delivery| delivery["payload"]["data"]["object"]["id"] == pending.as_str())
            .then_some(())
    })
    .await;
    assert_eq!(service.sent(&merchant).await, (before.0, before.1 + 1));
}

#[tokio::test]
async fn what_the_restored_tables_have_in_place_of_a_payout_is_refused_with_the_reason() {
    let service = AdminFixture::start().await;
    let (account, client) = (service.account(), local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url));
    let scope = format!("--account {account} --mode test --reason agreed");
    service.object(&format!("ledger adjust {scope} --reference c1 --amount 5000")).await;
    let create = format!("payouts create {scope} --reference p1 --amount 100");
    let payout = service.object(&create).await;
    copy_table(&client, "StateTable", "Moment").await;
    let since = service.stack.clock.now().to_iso();
    service.change(&format!("payouts settle {}", id(&payout))).await;
    service.object(&format!("payouts create {scope} --reference p2 --amount 200")).await;
    let opened = service.change("accounts open --merchant-name Padaria --merchant-city Recife").await;
    let of_new = format!(
        "ledger adjust --account {} --mode test --reason agreed --reference c1 --amount 1",
        id(&opened)
    );
    service.object(&of_new).await;
    copy_table(&client, "StateTable", "Former").await;
    roll_back(&client, "Moment").await;
    // Operators repeated them by hand, and differently.
    service.change(&format!("payouts fail {}", id(&payout))).await;
    service.object(&format!("payouts create {scope} --reference p2 --amount 300")).await;

    let repeat = format!("restore repeat-payouts --from Former --since {since} --reason restored");
    let output = service.run(&repeat).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = lines(&output);
    let (summary, refused) = printed.split_last().unwrap();
    assert_eq!(fields(summary, &["booked", "exists", "refused"]), json!([0, 1, 3]));
    let why: String = refused.iter().filter_map(|line| line["why"].as_str()).collect();
    for says in ["already ended: it is failed", "the reference belongs to the payout po_", "no such account"]
    {
        assert!(why.contains(says), "{why}");
    }
    service.verify_ledger("test").await;
    let only = format!("{repeat} --account {}", id(&opened));
    assert_eq!(lines(&service.run(&only).await).len(), 2);

    for (wrong, says) in [
        (repeat.replace("Former", "StateTable"), "StateTable is the one that is worked on"),
        (repeat.replace("Former", "Nowhere"), "DynamoDB has no such table"),
        (repeat.replace(&since, "2999-01-01"), "--since must not be in the future"),
        (format!("{repeat} --account acc_0123456789abcdef"), "has no account acc_0123456789abcdef"),
        (format!("{repeat} --account acc_1"), "acc_ and 16"),
    ] {
        service.refuses(&wrong, says).await;
    }
}

#[tokio::test]
async fn damaged_rows_are_compared_with_a_copy_and_copied_one_by_one() {
    let service = AdminFixture::start().await;
    let (account, merchant) = (service.account(), Merchant::of(&service));
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let customer = json!({"name": "Maria Souza", "document": "29537995593"});
    let charge = merchant.post("/v1/pix/charges", json!({"amount": 1000, "customer": customer})).await;
    let other = merchant.charge().await;
    merchant.sandbox(&other, "pay", json!({})).await;
    let endpoint = merchant.register_endpoint("http://127.0.0.1:9/hook", "payout.created").await;
    service.change(&format!("accounts set-rate-limit {account} --per-minute 70")).await;
    copy_table(&client, "StateTable", "Copy").await;

    let rows = rows(&client, "StateTable").await;
    let damage = async |begins: &str, change: &dyn Fn(&mut Item)| {
        let (key, item) = rows.iter().find(|(key, _)| key.joined().starts_with(begins)).unwrap();
        let mut item = item.clone();
        change(&mut item);
        client.put_item().table_name("StateTable").set_item(Some(item)).send().await.unwrap();
        key.clone()
    };
    let text_of = |value: &str| AttributeValue::S(value.to_owned());
    let set = |item: &mut Item, map: &str, name: &str, value: AttributeValue| {
        let AttributeValue::M(fields) = item.get_mut(map).unwrap() else { panic!("{map} is no map") };
        fields.insert(name.to_owned(), value);
    };
    let of_charge = |charge: &Value| format!("charge#{}#charge", crate::raw_id(charge));
    let of_account = format!("account#{account}");
    let rename = |item: &mut Item| set(item, "customer", "name", text_of("???"));
    let redirect = |item: &mut Item| drop(item.insert("url".to_owned(), text_of("http://127.0.0.1:9/x")));
    let slow_down = |item: &mut Item| set(item, "settings", "rate_limit_per_minute", number(1));
    let expire = |item: &mut Item| drop(item.insert("status".to_owned(), text_of("EXPIRED")));
    let damaged = [
        damage(&of_charge(&charge), &rename).await,
        damage("endpoints#", &redirect).await,
        damage(&of_account, &slow_down).await,
    ];
    let expired = damage(&of_charge(&other), &expire).await;
    let posting = rows.keys().find(|key| key.pk.starts_with("ledger#")).unwrap();
    let delete = client.delete_item().table_name("StateTable").set_key(Some(key_attributes(posting)));
    delete.send().await.unwrap();
    let newer = merchant.charge().await;

    let compare = format!("restore compare --from Copy --account {account}");
    let compared = service.objects(&format!("{compare} --mode test")).await;
    let of = |key: &Key| compared.iter().find(|line| line["pk"] == key.pk && line["sk"] == key.sk).unwrap();
    let changes = |key: &Key| of(key)["changes"].clone();
    assert_eq!(changes(&damaged[0]), json!({"customer.name": ["hidden", "hidden"]}));
    assert_eq!(changes(&damaged[1]), json!({"url": ["hidden", "hidden"]}));
    assert_eq!(changes(&damaged[2]), json!({"settings.rate_limit_per_minute": [1, 70]}));
    assert_eq!(changes(&expired), json!({"status": ["EXPIRED", "PAID"]}));
    let lost = fields(of(posting), &["state", "kind", "hash"]);
    assert_eq!(lost, json!(["only_in_copy", "ledger", "absent"]));
    let is_new_charge = |line: &&Value| line["state"] == "only_here" && line["sk"] == "charge";
    let pk = format!("charge#{}", crate::raw_id(&newer));
    assert!(compared.iter().filter(is_new_charge).map(|line| &line["pk"]).eq([&pk]), "{compared:?}");
    let printed = format!("{compared:?}");
    for secret in ["Maria", "29537995593", "127.0.0.1", "argon2"] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }

    let named =
        |key: &Key, hash: &str| format!("{compare} --reason defect --copy-row {} {} {hash}", key.pk, key.sk);
    let hash = |key: &Key| of(key)["hash"].as_str().unwrap();
    for key in &damaged {
        let copy = named(key, hash(key));
        let mut dry = service.object(&format!("{copy} --dry-run")).await;
        dry.as_object_mut().unwrap().remove("dry_run").unwrap();
        let copied = service.object(&copy).await;
        assert_eq!(copied, dry);
        assert_eq!(fields(&copied, &["state", "changes"]), json!(["copied", changes(key)]));
        service.refuses(&copy, "has changed since it was compared").await;
    }
    let shown = merchant.get(&format!("/v1/charges/{}", id(&charge))).await;
    assert_eq!(shown["customer"]["name"], "Maria Souza");
    assert_eq!(merchant.get("/v1/webhooks/endpoints").await["data"][0]["url"], endpoint["url"]);
    let (_, headers, _) = service.send("GET", "/v1/charges", ("apikey", merchant.key.as_str())).await;
    let limit = headers["x-ratelimit-limit-minute"].to_str().unwrap();
    assert_eq!(limit, "70", "the rows of API keys have the setting too");
    let again = service.objects(&format!("{compare} --mode test")).await;
    for line in
        again.iter().filter(|line| damaged.iter().any(|key| line["pk"] == key.pk && line["sk"] == key.sk))
    {
        assert!(line["changes"].as_object().unwrap().keys().eq(["version"]), "{line}");
    }
    let mut copies = service.audit(&account).await;
    copies.retain(|row| row["action"] == "restore.copy-row");
    let details = json!([{"from": "Copy"}, "defect", "ana"]);
    assert!(copies.iter().all(|row| fields(row, &["details", "reason", "actor"]) == details), "{copies:?}");
    assert_eq!(copies.len(), 3);

    let key = |pk: &str, sk: &str| Key { pk: pk.to_owned(), sk: sk.to_owned() };
    let first = |begins: &str| rows.keys().find(|key| key.pk.starts_with(begins)).unwrap().clone();
    let of_other = format!("account#{}", service.stack.seed.other.id);
    for (command, says) in [
        (named(posting, "absent"), "Mend a difference"),
        (named(&first("wallet#"), "x"), "Mend a difference"),
        (named(&first("audit#"), "x"), "can only be appended to"),
        (named(&key("payout#po_1", "payout"), "x"), "restore repeat-payouts"),
        (named(&key("receipts#x", "x"), "x"), "use `receipts`"),
        (named(&expired, hash(&expired)), "status differs, and other rows must agree with it"),
        (named(&key("charge#x", "charge"), "x"), "only a row of both tables"),
        (named(&key(&of_other, "account"), "x"), "not of the account"),
        (named(&damaged[0], "x").replace("Copy", "StateTable"), "is the one that is worked on"),
        (compare.replace("Copy", "Nowhere"), "DynamoDB has no such table"),
        (compare.replace(&account, "acc_0123456789abcdef"), "neither table has an account"),
        (format!("{compare} --copy-row a b c"), "--reason"),
        (format!("{compare} --reason x"), "--copy-row"),
        (format!("{compare} --dry-run"), "--dry-run is for commands"),
    ] {
        service.refuses(&command, says).await;
    }
}

#[tokio::test]
async fn rows_of_several_pages_are_compared_in_the_order_of_their_keys() {
    let service = AdminFixture::start().await;
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let account = service.account();
    copy_table(&client, "StateTable", "Copy").await;
    let (only_here, only_in_copy) = ([0, 99, 100, 101, 329], [1, 98, 102, 200, 328]);
    let put = async |table: &str, list: &str, pk: &str, sk: &str| {
        let item = [("pk", pk), ("sk", sk), ("list_pk", list), ("list_sk", pk)];
        let item = item.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
        client.put_item().table_name(table).set_item(Some(item.into())).send().await.unwrap();
    };
    for n in 0..330 {
        for (table, left_out) in [("StateTable", &only_in_copy), ("Copy", &only_here)] {
            if !left_out.contains(&n) {
                put(table, "none", &format!("destinations#{account}:test"), &format!("{n:03}")).await;
                put(table, &format!("charges#{account}:test"), &format!("charge#{n:03}"), "charge").await;
            }
        }
    }
    let printed = service.objects(&format!("restore compare --from Copy --account {account}")).await;
    let of = |kind: &str, state: &str, field: &str| {
        let lines = printed.iter().filter(|line| line["kind"] == kind && line["state"] == state);
        let number = |line: &Value| line[field].as_str()?.rsplit('#').next()?.parse().ok();
        let mut numbers: Vec<u32> = lines.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    };
    for (kind, field) in [("destinations", "sk"), ("charge", "pk")] {
        assert_eq!(of(kind, "only_here", field), only_here, "{kind}");
        assert_eq!(of(kind, "only_in_copy", field), only_in_copy, "{kind}");
    }
    assert_eq!(printed.len(), 20);
}
