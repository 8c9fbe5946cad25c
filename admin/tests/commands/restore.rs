//! Tests of `admin restore`. Copies of the tables stand for the restored ones.

use std::process::{Command, Output};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{BillingMode, GlobalSecondaryIndex};
use serde_json::{Value, json};

use crate::{AdminFixture, text};

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
async fn on_restored(service: &AdminFixture, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
    command.args(["--table", "RestoredState", "--api-keys-table", "RestoredKeys"]).args(arguments);
    command.env("USER", "ana").env("AWS_REGION", "sa-east-1");
    command.env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local-secret");
    command.env("AWS_ENDPOINT_URL_DYNAMODB", &service.stack.endpoints.dynamodb_url);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn keys_that_became_invalid_after_the_moment_are_revoked_in_the_restored_table() {
    let service = AdminFixture::start().await;
    let (account, why) = (service.account(), ["--reason", "contract of November"]);
    let add = ["users", "add", &account, "--email", "bia@padaria.example", "--role", "owner"];
    let user = service.object(&[&add[..], &why].concat()).await;
    let token = service.log_in("bia@padaria.example", user["password"].as_str().unwrap()).await.unwrap();
    let bearer = format!("Bearer {token}");
    let post = async |path: &str| {
        let (status, body) = service.request("POST", path, ("authorization", &bearer)).await;
        assert!(status < 300, "{body}");
        body
    };
    let [revoked, rotated, kept] =
        [post("/v1/api-keys").await, post("/v1/api-keys").await, post("/v1/api-keys").await]
            .map(|key| key["id"].as_str().unwrap().to_owned());

    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    copy_table(&client, "StateTable", "RestoredState").await;
    copy_table(&client, "ApiKeysTable", "RestoredKeys").await;
    let since = service.stack.clock.now().to_iso();
    let revoke = ["keys", "revoke", &account, &revoked];
    service.object(&[&revoke[..], &why].concat()).await;
    let replacement = post(&format!("/v1/api-keys/{rotated}/rotate")).await["id"].clone();
    service
        .object(&[&["accounts", "set-rate-limit", &account, "--per-minute", "7"][..], &why].concat())
        .await;

    let printed_keys = async || {
        let output = on_restored(&service, &["keys", "list", &account]).await;
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    assert!(
        printed_keys().await.contains(&revoked) && printed_keys().await.contains(&rotated),
        "the restore revives both keys"
    );
    let command = ["restore", "revoke-keys", "--audit-from", "StateTable", "--since", &since];
    let command = [&command[..], &["--reason", "restore of November"]].concat();
    let summary = async |expected: Value| {
        let output = on_restored(&service, &command).await;
        assert!(output.status.success(), "{output:?}");
        let lines: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, lines) = lines.split_last().unwrap();
        assert_eq!((&last["revoked"], &last["absent"]), (&expected["revoked"], &expected["absent"]));
        lines.to_vec()
    };
    let lines = summary(json!({"revoked": 2, "absent": 0})).await;
    let lost = lines.iter().find(|line| line["action"] == "account.set-rate-limit").unwrap();
    assert_eq!((&lost["state"], &lost["account"]), (&json!("lost"), &json!(account)));
    let keys = printed_keys().await;
    assert!(!keys.contains(&revoked) && !keys.contains(&rotated), "{keys}");
    assert!(keys.contains(&kept), "{keys}");
    assert!(!keys.contains(replacement.as_str().unwrap()), "a key issued after the moment is lost");
    let audit = text(&on_restored(&service, &["audit", &account]).await.stdout);
    assert_eq!(audit.matches("restore of November").count(), 2, "{audit}");

    // Repeating the command changes nothing.
    summary(json!({"revoked": 0, "absent": 2})).await;

    let wrong =
        ["restore", "revoke-keys", "--audit-from", "RestoredState", "--since", &since, "--reason", "x"];
    let output = on_restored(&service, &wrong).await;
    assert!(!output.status.success() && text(&output.stderr).contains("before the restore"), "{output:?}");
}
