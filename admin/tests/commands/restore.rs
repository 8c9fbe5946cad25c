//! Tests of `admin restore`. Copies of the tables stand for the restored ones.

use std::process::Output;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{BillingMode, GlobalSecondaryIndex};
use serde_json::json;

use crate::{AdminFixture, fields, id, lines, text};

/// Copies a table with its rows and indexes, as a restore does.
async fn copy_table(client: &Client, from: &str, to: &str) {
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
    for item in client.scan().table_name(from).send().await.unwrap().items.unwrap_or_default() {
        client.put_item().table_name(to).set_item(Some(item)).send().await.unwrap();
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

    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    copy_table(&client, "StateTable", "RestoredState").await;
    copy_table(&client, "ApiKeysTable", "RestoredKeys").await;
    let since = service.stack.clock.now().to_iso();
    service.change(&format!("keys revoke {account} {revoked}")).await;
    let replacement = post(&format!("/v1/api-keys/{rotated}/rotate")).await;
    service.change(&format!("accounts set-rate-limit {account} --per-minute 7")).await;
    let ledger = format!("--account {account} --mode test --reason agreed");
    service.object(&format!("ledger adjust --amount 1000 --reference c1 {ledger}")).await;
    let payout = service.object(&format!("payouts create --amount 600 --reference p1 {ledger}")).await;
    service.change(&format!("payouts settle {}", id(&payout))).await;

    let printed_keys = async || {
        let output = on_restored(&service, &format!("keys list {account}")).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    assert!(
        printed_keys().await.contains(&revoked) && printed_keys().await.contains(&rotated),
        "the restore revives both keys"
    );
    let command = format!("restore revoke-keys --since {since} --reason restored --audit-from");
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
    for (action, minor) in [("ledger.adjust", 1_000), ("payout.create", 600), ("payout.settle", 600)] {
        let details = json!({"mode": "test", "currency": "BRL", "minor": minor});
        let lost = printed.iter().find(|line| line["action"] == action).unwrap();
        assert_eq!(fields(lost, &["state", "details"]), json!(["lost", details]));
    }
    let keys = printed_keys().await;
    assert!(!keys.contains(&revoked) && !keys.contains(&rotated), "{keys}");
    assert!(keys.contains(&kept), "{keys}");
    assert!(!keys.contains(&replacement), "a key issued after the moment is lost");
    let audit = text(&on_restored(&service, &format!("audit {account}")).await.stdout);
    assert_eq!(audit.matches("restored").count(), 2, "{audit}");
    assert_eq!(revoke().await.0, json!([0, 2]), "repeating the command changes nothing");

    let output = on_restored(&service, &format!("{command} RestoredState")).await;
    assert!(!output.status.success() && text(&output.stderr).contains("before the restore"), "{output:?}");
}
