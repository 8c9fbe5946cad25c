//! Tests of the secrets that sign deliveries: where they are stored, and when a new one takes effect.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use shared::store::{Store, from_item, to_item};
use shared::webhook::endpoint::Endpoint;
use shared::webhook::secret::SigningSecret;

use crate::invocations::{dispatch, run_webhook_worker, stream_records};
use crate::support::{Listener, Service, id};
use crate::webhooks::{secret, standard_webhooks_secret, verify, verify_legacy};

/// Returns all rows of a table as text.
async fn all_rows(store: &Store) -> String {
    let scan = store.client().scan().table_name(store.table()).send().await.unwrap();
    assert!(scan.last_evaluated_key.is_none());
    format!("{:?}", scan.items.unwrap())
}

async fn rotate(service: &Service, endpoint: &Value) -> Value {
    let path = format!("/v1/webhooks/endpoints/{}/rotate-secret", id(endpoint));
    service.post(&path, &json!({})).await.expect(200)
}

async fn rotate_override(service: &Service) -> Value {
    service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200)
}

/// Creates a payment whose legacy events go to `url`. `key`: its idempotency key.
async fn pay_with_webhook_url(service: &Service, url: &str, key: &str) {
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": key, "webhookUrl": url});
    service.post("/v1/payments", &body).await.expect(201);
}

/// Attempts all deliveries that are not done.
async fn attempt_pending(service: &Service) {
    dispatch(&service.stack).await;
    for delivery in service.deliveries("&status=PENDING").await {
        run_webhook_worker(&service.stack, &delivery).await;
    }
}

async fn failing_listener() -> Listener {
    Listener::answering(|_number| StatusCode::BAD_GATEWAY.into_response()).await
}

/// Stores an endpoint's secret where earlier versions of the service stored it: in the endpoint's row.
async fn store_as_earlier_version(service: &Service, endpoint: &Value) {
    let (scope, store) = (service.scope(), service.store());
    let endpoint_id = id(endpoint).parse().unwrap();
    let row = store.get_item(&Endpoint::key_of(&scope, endpoint_id)).await.unwrap().unwrap();
    let former_secret = serde_json::from_value(endpoint["secret"].clone()).unwrap();
    let row = Endpoint {
        secret_version: 0,
        former_secret: Some(former_secret),
        // No audit row is derived from this write.
        actor: None,
        ..from_item::<Endpoint>(row).unwrap()
    };
    put(&store, &row).await;
    delete(&service.secrets(), &SigningSecret::key_of(&scope, Some(endpoint_id))).await;
}

async fn put(store: &Store, row: &impl domain::row::Row) {
    let put = store.client().put_item().table_name(store.table());
    put.set_item(Some(to_item(row).unwrap())).send().await.unwrap();
}

async fn delete(store: &Store, key: &domain::row::Key) {
    let delete = store.client().delete_item().table_name(store.table());
    delete.set_key(Some(shared::store::key_attributes(key))).send().await.unwrap();
}

#[tokio::test]
async fn no_secret_is_in_a_row_or_a_stream_record_of_the_state_table() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let deleted = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let rotated = rotate(&service, &endpoint).await;
    let overrides = [rotate_override(&service).await, rotate_override(&service).await];
    pay_with_webhook_url(&service, &listener.url, "order-1").await;
    service.charge().await;
    attempt_pending(&service).await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&deleted))).await.expect(200);
    attempt_pending(&service).await;

    let (rows, secrets) = (all_rows(&service.store()).await, all_rows(&service.secrets()).await);
    let records = json!(stream_records(&service.stack).await).to_string();
    assert!(rows.contains(id(&endpoint)) && records.contains(id(&endpoint)));
    let in_force = [secret(&rotated), secret(&overrides[1])];
    let others = [secret(&endpoint), secret(&deleted), secret(&overrides[0])];
    let encoded = [&endpoint, &deleted, &rotated].map(standard_webhooks_secret);
    for shown in in_force.iter().chain(&others).chain(&encoded) {
        assert!(!rows.contains(shown) && !records.contains(shown));
    }
    assert!(in_force.iter().all(|secret| secrets.contains(secret)));
    assert!(!others.iter().any(|secret| secrets.contains(secret)) && !secrets.contains(id(&deleted)));
}

#[tokio::test]
async fn an_attempt_after_a_rotation_is_signed_with_the_new_secret() {
    let service = Service::without_event_sources().await;
    let [own, subscribed] = [failing_listener().await, failing_listener().await];
    let endpoint = service.register_endpoint(&subscribed.url, &["charge.created"]).await;
    let first_override = rotate_override(&service).await;
    pay_with_webhook_url(&service, &own.url, "order-1").await;
    attempt_pending(&service).await;
    let (rotated, second_override) = (rotate(&service, &endpoint).await, rotate_override(&service).await);
    service.stack.clock.advance(60_000);
    attempt_pending(&service).await;
    let hooks = subscribed.hooks();
    assert_eq!(hooks.len(), 2);
    verify(&hooks[0], secret(&endpoint));
    verify(&hooks[1], secret(&rotated));
    let hooks = own.hooks();
    assert_eq!(hooks.len(), 4);
    for (hook, signed_with) in
        hooks.iter().zip([&first_override, &first_override, &second_override, &second_override])
    {
        verify_legacy(hook, secret(signed_with));
    }
}

#[tokio::test]
async fn deliveries_before_the_first_rotation_are_signed_with_secrets_that_are_not_stored() {
    let service = Service::without_event_sources().await;
    let own = Listener::start().await;
    pay_with_webhook_url(&service, &own.url, "order-1").await;
    attempt_pending(&service).await;
    let hooks = own.hooks();
    assert_eq!(hooks.len(), 2);
    assert!(hooks.iter().all(|hook| hook.header("x-service-signature").starts_with("sha256=")));
    let key = SigningSecret::key_of(&service.scope(), None);
    for store in [service.store(), service.secrets()] {
        assert_eq!(store.get_item(&key).await.unwrap(), None);
    }
    let rotated = rotate_override(&service).await;
    pay_with_webhook_url(&service, &own.url, "order-2").await;
    attempt_pending(&service).await;
    for hook in &own.hooks()[2..] {
        verify_legacy(hook, secret(&rotated));
    }
}

#[tokio::test]
async fn secrets_of_an_earlier_version_sign_until_they_are_rotated() {
    let service = Service::without_event_sources().await;
    let (own, subscribed) = (Listener::start().await, Listener::start().await);
    let endpoint = service.register_endpoint(&subscribed.url, &["charge.created"]).await;
    store_as_earlier_version(&service, &endpoint).await;
    let secret_of = |shown: &Value| serde_json::from_value(shown["secret"].clone()).unwrap();
    let (scope, former) = (service.scope(), json!({"secret": "5".repeat(64)}));
    let now = service.stack.clock.now();
    let former_override =
        SigningSecret { scope, endpoint: None, secret: secret_of(&former), updated_at: now, version: 7 };
    put(&service.store(), &former_override).await;
    assert!(all_rows(&service.store()).await.contains(secret(&endpoint)));

    pay_with_webhook_url(&service, &own.url, "order-1").await;
    attempt_pending(&service).await;
    // A change keeps the secret.
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.patch(&path, &json!({"events": ["charge.created", "charge.paid"]})).await.expect(200);
    pay_with_webhook_url(&service, &own.url, "order-2").await;
    attempt_pending(&service).await;
    assert_eq!((subscribed.hooks().len(), own.hooks().len()), (2, 4));
    for hook in subscribed.hooks() {
        verify(&hook, secret(&endpoint));
    }
    for hook in own.hooks() {
        verify_legacy(&hook, secret(&former));
    }

    let (rotated, rotated_override) = (rotate(&service, &endpoint).await, rotate_override(&service).await);
    pay_with_webhook_url(&service, &own.url, "order-3").await;
    attempt_pending(&service).await;
    verify(&subscribed.hooks()[2], secret(&rotated));
    for hook in &own.hooks()[4..] {
        verify_legacy(hook, secret(&rotated_override));
    }
    let rows = all_rows(&service.store()).await;
    assert!(!rows.contains(secret(&endpoint)) && !rows.contains(secret(&former)));
    let audit = service.rows(&format!("audit#{}", scope.account), "seq_").await;
    let rotations = audit.iter().filter(|row| row["action"].as_s().unwrap().ends_with("rotate-secret"));
    assert_eq!(rotations.count(), 1);

    let other = service.register_endpoint(&subscribed.url, &["charge.paid"]).await;
    store_as_earlier_version(&service, &other).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&other))).await.expect(200);
    assert!(!all_rows(&service.store()).await.contains(secret(&other)));
}

#[tokio::test]
async fn an_endpoint_without_a_secret_gets_no_unsigned_delivery() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let key = SigningSecret::key_of(&service.scope(), Some(id(&endpoint).parse().unwrap()));
    delete(&service.secrets(), &key).await;
    service.charge().await;
    attempt_pending(&service).await;
    assert!(listener.hooks().is_empty());
    assert_eq!(service.deliveries("&status=FAILED").await[0]["lastError"], "the event can't be read");
    // A rotation repairs the endpoint.
    let rotated = rotate(&service, &endpoint).await;
    service.charge().await;
    attempt_pending(&service).await;
    verify(&listener.hooks()[0], secret(&rotated));
}
