//! Tests of `admin migrate webhook-secrets`.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::ids::{Mode, Scope};
use serde_json::{Value, json};
use shared::store::{Item, Store, from_item, to_item};
use shared::webhook::endpoint::Endpoint;
use shared::webhook::secret::SigningSecret;

use crate::{AdminFixture, text};

const MIGRATE: [&str; 4] = ["migrate", "webhook-secrets", "--reason", "table of secrets"];
const FORMER_OVERRIDE: &str = "5555555555555555555555555555555555555555555555555555555555555555";

async fn put(store: &Store, item: Item) {
    store.client().put_item().table_name(store.table()).set_item(Some(item)).send().await.unwrap();
}

/// Registers an endpoint, and stores its secret in its row, as earlier versions did. Returns the response.
async fn register_as_earlier_version(service: &AdminFixture, scope: Scope, key: &str) -> Value {
    let body = json!({"url": "http://127.0.0.1:9/hook", "events": ["charge.paid"]});
    let (status, endpoint) = service.post_json("/v1/webhooks/endpoints", key, &body).await;
    assert_eq!(status, 201, "{endpoint}");
    let id = endpoint["id"].as_str().unwrap().parse().unwrap();
    let (state, secrets) = (service.table("StateTable"), service.table("SecretsTable"));
    let row: Endpoint = state.get(&Endpoint::key_of(&scope, id)).await.unwrap().unwrap();
    let former_secret = serde_json::from_value(endpoint["secret"].clone()).unwrap();
    // Without an actor, no audit row is derived from this write.
    let row = Endpoint { secret_version: 0, former_secret: Some(former_secret), actor: None, ..row };
    put(&state, to_item(&row).unwrap()).await;
    let secret_key = shared::store::key_attributes(&SigningSecret::key_of(&scope, Some(id)));
    secrets.client().delete_item().table_name("SecretsTable").set_key(Some(secret_key)).send().await.unwrap();
    endpoint
}

fn override_secret(scope: Scope, secret: &str, service: &AdminFixture) -> Item {
    let secret = serde_json::from_value(secret.into()).unwrap();
    let updated_at = service.stack.clock.now();
    to_item(&SigningSecret { scope, endpoint: None, secret, updated_at, version: 3 }).unwrap()
}

#[tokio::test]
async fn secrets_of_webhooks_of_an_earlier_version_are_moved_to_the_table_of_secrets() {
    let service = AdminFixture::start().await;
    let (state, secrets) = (service.table("StateTable"), service.table("SecretsTable"));
    let seeded = &service.stack.seed.first;
    let [test, live] = [Mode::Test, Mode::Live].map(|mode| Scope { account: seeded.id, mode });
    let first = register_as_earlier_version(&service, test, &seeded.test_api_key).await;
    let second = register_as_earlier_version(&service, live, &seeded.live_api_key).await;
    let current = json!({"url": "http://127.0.0.1:9/hook", "events": ["charge.paid"]});
    let (_, current) = service.post_json("/v1/webhooks/endpoints", &seeded.test_api_key, &current).await;
    put(&state, override_secret(test, FORMER_OVERRIDE, &service)).await;
    // The live override secret was rotated since, so the former one must not replace it.
    let newer = "6".repeat(64);
    put(&state, override_secret(live, FORMER_OVERRIDE, &service)).await;
    put(&secrets, override_secret(live, &newer, &service)).await;
    // An endpoint that can't be read does not keep the others from being moved.
    let unreadable = "wh_00000000000000000000000000";
    put(&state, keys_of(&test, unreadable)).await;

    let output = service.run(&MIGRATE).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = text(&output.stdout);
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcome = |mode: &str, secret: &Value| {
        let found = lines.iter().find(|line| line["mode"] == mode && line["secret"] == *secret);
        found.map(|line| line["outcome"].as_str().unwrap())
    };
    assert_eq!(outcome("test", &first["id"]), Some("moved"));
    assert_eq!(outcome("live", &second["id"]), Some("moved"));
    assert_eq!(
        (outcome("test", &"override".into()), outcome("live", &"override".into())),
        (Some("moved"), Some("moved"))
    );
    assert_eq!(outcome("test", &unreadable.into()), Some("failed"));
    assert_eq!(outcome("test", &current["id"]), None);
    assert_eq!(lines.last().unwrap(), &json!({"moved": 4, "failed": 1}));

    // The secrets did not change, and are in the table of secrets alone.
    let rows = async |store: &Store| {
        let rows = store.client().scan().table_name(store.table()).send().await.unwrap().items.unwrap();
        format!("{rows:?}")
    };
    let (state_rows, secret_rows) = (rows(&state).await, rows(&secrets).await);
    let stored = [&first, &second, &current].map(|endpoint| endpoint["secret"].as_str().unwrap());
    for secret in stored.into_iter().chain([FORMER_OVERRIDE, &newer]) {
        assert!(!state_rows.contains(secret) && secret_rows.contains(secret) && !printed.contains(secret));
    }
    let key = SigningSecret::key_of(&test, Some(first["id"].as_str().unwrap().parse().unwrap()));
    let moved: SigningSecret = from_item(secrets.get_item(&key).await.unwrap().unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&moved.secret).unwrap(), first["secret"]);
    let live_override = secrets.get_item(&SigningSecret::key_of(&live, None)).await.unwrap().unwrap();
    assert_eq!(live_override["secret"].as_s().unwrap(), &newer);

    let audit = service.audit(&service.account()).await;
    let count = |action: &str| audit.iter().filter(|row| row["action"] == action).count();
    assert_eq!((count("webhook-endpoint.migrate-secret"), count("override-secret.migrate")), (2, 2));
    assert_eq!(count("webhook-endpoint.rotate-secret"), 0);

    let delete = state.client().delete_item().table_name("StateTable");
    delete.set_key(Some(keys_of(&test, unreadable))).send().await.unwrap();
    assert_eq!(service.objects(&MIGRATE).await, [json!({"moved": 0, "failed": 0})]);
}

fn keys_of(scope: &Scope, endpoint: &str) -> Item {
    let keys = [("pk", format!("endpoints#{scope}")), ("sk", endpoint.to_owned())];
    keys.map(|(name, value)| (name.to_owned(), AttributeValue::S(value))).into()
}
