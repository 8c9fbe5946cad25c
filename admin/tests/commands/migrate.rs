//! Tests of what all commands of `admin migrate` have in common, and of `admin migrate incoming-payments`.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::ids::{AccountId, Mode, Scope};
use serde_json::{Value, json};
use shared::store::{Item, Store, key_attributes, key_of_item, to_item};
use shared::webhook::secret::SigningSecret;

use crate::{AdminFixture, eventually, text};

const WHY: [&str; 2] = ["--reason", "new layout"];

/// An attribute that no type of this version has.
const UNKNOWN: &str = "written_by_a_newer_version";

async fn put(store: &Store, item: Item) {
    store.client().put_item().table_name(store.table()).set_item(Some(item)).send().await.unwrap();
}

fn objects(stdout: &[u8]) -> Vec<Value> {
    text(stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl AdminFixture {
    async fn open_accounts(&self, count: usize) -> Vec<String> {
        let mut accounts = Vec::new();
        for _ in 0..count {
            accounts.push(self.open_account().await);
        }
        accounts.sort_unstable();
        accounts
    }

    /// Writes the override secret of an account's test mode into the state table, as earlier versions did.
    async fn write_former_secret(&self, account: &str) -> Item {
        let account: AccountId = account.parse().unwrap();
        let scope = Scope { account, mode: Mode::Test };
        let secret = serde_json::from_value("5".repeat(64).into()).unwrap();
        let updated_at = self.stack.clock.now();
        let row = to_item(&SigningSecret { scope, endpoint: None, secret, updated_at, version: 1 }).unwrap();
        put(&self.table("StateTable"), row.clone()).await;
        row
    }
}

#[tokio::test]
async fn an_interrupted_migration_continues_after_the_last_account() {
    let service = AdminFixture::start().await;
    let accounts = service.open_accounts(4).await;
    let mut rows = Vec::new();
    for account in &accounts {
        rows.push(service.write_former_secret(account).await);
    }
    // The third account's row is one that this version can't read, which ends the run.
    let state = service.table("StateTable");
    let mut newer = rows[2].clone();
    newer.insert("format".to_owned(), AttributeValue::N("999".to_owned()));
    put(&state, newer).await;

    let migrate = [&["migrate", "webhook-secrets"][..], &WHY].concat();
    let output = service.run(&migrate).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let moved = |lines: &[Value]| -> Vec<String> {
        lines.iter().filter_map(|line| Some(line["account"].as_str()?.to_owned())).collect()
    };
    assert_eq!(moved(&objects(&output.stdout)), accounts[..2]);
    let message = text(&output.stderr);
    assert!(message.contains(&format!("stopped at {}", accounts[2])), "{message}");
    let after = message.split("--after ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(after < accounts[2] && after >= accounts[1], "{message}");

    put(&state, rows[2].clone()).await;
    let continued = service.objects(&[&migrate[..], &["--after", &after]].concat()).await;
    assert_eq!(moved(&continued), accounts[2..]);
    assert_eq!(continued.last().unwrap(), &json!({"moved": 2, "failed": 0}));
    // Each secret was moved once.
    for (account, row) in accounts.iter().zip(&rows) {
        let key = key_of_item(row).unwrap();
        assert_eq!(state.get_item(&key).await.unwrap(), None);
        assert!(service.table("SecretsTable").get_item(&key).await.unwrap().is_some());
        let audit = service.audit(account).await;
        assert_eq!(audit.iter().filter(|row| row["action"] == "override-secret.migrate").count(), 1);
    }
    assert_eq!(service.objects(&migrate).await, [json!({"moved": 0, "failed": 0})]);
}

#[tokio::test]
async fn a_migration_without_a_terminal_shows_its_progress_in_lines() {
    let service = AdminFixture::start().await;
    let state = service.table("StateTable");
    let key = domain::account::Account::key_of(&service.account().parse().unwrap());
    let account = state.get_item(&key).await.unwrap().unwrap();
    for _ in 0..100 {
        let id = AccountId::new(shared::random::bytes().unwrap());
        let mut copy = account.clone();
        copy.insert("id".to_owned(), AttributeValue::S(id.to_string()));
        copy.extend(key_attributes(&domain::account::Account::key_of(&id)));
        copy.insert("list_sk".to_owned(), AttributeValue::S(format!("000000000000000#{id}")));
        put(&state, copy).await;
    }
    let output = service.run(&[&["migrate", "incoming-payments"][..], &WHY].concat()).await;
    assert!(output.status.success(), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("100 of 102 accounts, last acc_"), "{message}");
    assert_eq!(objects(&output.stdout), [json!({"moved": 0, "failed": 0})]);
}

/// Pays a test charge. Returns the charge, and the row of its payment, which is not in the first shard.
async fn pay(service: &AdminFixture, number: usize) -> (Value, Item) {
    let key = service.stack.seed.first.test_api_key.clone();
    let body =
        json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": format!("order-{number}")});
    let (status, payment) = service.post_json("/v1/payments", &key, &body).await;
    assert_eq!(status, 201, "{payment}");
    let path =
        format!("/v1/sandbox/charges/ch_{}/pay", payment["id"].as_str().unwrap().trim_start_matches("tx_"));
    // The shard is a hash of the id, so another id is tried until it is not the first shard.
    let end_to_end_id = (0..1_000_u32)
        .map(|try_number| format!("E00000000202611231200{number:05}{try_number:06}"))
        .find(|id| !domain::shard::Shard::of_payment(&id.parse().unwrap()).is_first())
        .unwrap();
    let (status, charge) = service.post_json(&path, &key, &json!({"end_to_end_id": end_to_end_id})).await;
    assert_eq!(status, 200, "{charge}");
    let scan = service.table("StateTable");
    let rows = scan.client().scan().table_name("StateTable").send().await.unwrap().items.unwrap();
    let is_payment =
        |row: &Item| row["sk"].as_s().unwrap() == &end_to_end_id && row.contains_key("payment_id");
    (charge, rows.into_iter().find(is_payment).unwrap())
}

#[tokio::test]
async fn incoming_payments_of_an_earlier_version_are_moved_to_their_shards() {
    let service = AdminFixture::start().await;
    let state = service.table("StateTable");
    let former_partition = format!("receipts#{}:test", service.account());
    let mut charges = Vec::new();
    for number in 0..2 {
        let (charge, row) = pay(&service, number).await;
        let mut former = row.clone();
        former.remove("shard");
        former.insert("pk".to_owned(), AttributeValue::S(former_partition.clone()));
        former.insert(UNKNOWN.to_owned(), AttributeValue::S("kept".to_owned()));
        put(&state, former.clone()).await;
        charges.push((charge, row, former));
    }
    // The first payment has only the former row, the second one has both.
    let first = key_of_item(&charges[0].1).unwrap();
    let delete = state.client().delete_item().table_name("StateTable");
    delete.set_key(Some(key_attributes(&first))).send().await.unwrap();

    let migrate = [&["migrate", "incoming-payments"][..], &WHY].concat();
    let output = service.run(&migrate).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = objects(&output.stdout);
    let second = charges[1].1["sk"].as_s().unwrap();
    assert_eq!(lines[0]["moved"], 1);
    assert_eq!((&lines[1]["payment"], &lines[1]["outcome"]), (&json!(second), &json!("failed")));
    assert_eq!(lines[2], json!({"moved": 1, "failed": 1}));

    let moved = state.get_item(&first).await.unwrap().unwrap();
    assert_eq!(moved[UNKNOWN], AttributeValue::S("kept".to_owned()));
    let without = |item: &Item| {
        let mut item = item.clone();
        item.retain(|name, _| name != UNKNOWN && name != "put_id");
        item
    };
    assert_eq!(without(&moved), without(&charges[0].1));
    assert_eq!(state.get_item(&key_of_item(&charges[0].2).unwrap()).await.unwrap(), None);
    let audit = service.audit(&service.account()).await;
    assert_eq!(audit.iter().filter(|row| row["action"] == "incoming-payments.migrate").count(), 1);

    // A repeated notification of the payment changes nothing.
    let key = service.stack.seed.first.test_api_key.clone();
    let path = format!("/v1/sandbox/charges/{}/pay", charges[0].0["id"].as_str().unwrap());
    let again = json!({"end_to_end_id": first.sk});
    let (status, charge) = service.post_json(&path, &key, &again).await;
    assert_eq!((status, &charge["status"]), (200, &json!("paid")));
    eventually("the ledger has no difference", async || {
        let output = service.run(&["ledger", "verify"]).await;
        output.status.success().then_some(())
    })
    .await;
    let repeated = service.run(&migrate).await;
    assert_eq!(objects(&repeated.stdout).last().unwrap(), &json!({"moved": 0, "failed": 1}));
}
