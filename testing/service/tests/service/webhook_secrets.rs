//! Tests of the secrets that sign deliveries: where they are stored, and when a new one takes effect.

use effects::webhook::secret::SigningSecret;
use serde_json::{Value, json};
use shared::store::Store;

use crate::invocations::{dispatch, run_webhook_worker, stream_records};
use crate::support::{Listener, Service, id};
use crate::webhooks::{
    endpoint_path, pay_with_webhook_url, secret, standard_webhooks_secret, verify, verify_legacy,
};

/// Returns all rows of a table as text.
async fn all_rows(store: &Store) -> String {
    let scan = store.client().scan().table_name(store.table()).send().await.unwrap();
    assert!(scan.last_evaluated_key.is_none());
    format!("{:?}", scan.items.unwrap())
}

async fn rotate(service: &Service, endpoint: &Value) -> Value {
    service.post(&format!("{}/rotate-secret", endpoint_path(endpoint)), &json!({})).await.expect(200)
}

async fn rotate_override(service: &Service) -> Value {
    service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200)
}

/// Attempts all deliveries that are not done.
async fn attempt_pending(service: &Service) {
    dispatch(&service.stack).await;
    for delivery in service.deliveries("&status=PENDING").await {
        run_webhook_worker(&service.stack, &delivery).await;
    }
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
    let path = endpoint_path(&endpoint);
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    service.patch(&path, &json!({"status": "INACTIVE"})).await.expect(200);
    service.delete(&endpoint_path(&deleted)).await.expect(200);
    attempt_pending(&service).await;

    let (rows, secrets) = (all_rows(&service.store()).await, all_rows(&service.secrets()).await);
    let records = json!(stream_records(&service.stack)).to_string();
    assert!(rows.contains(id(&endpoint)) && records.contains(id(&endpoint)));
    let in_force = [secret(&rotated), secret(&overrides[1])];
    let others = [secret(&endpoint), secret(&deleted), secret(&overrides[0])];
    let encoded = [&endpoint, &deleted, &rotated].map(standard_webhooks_secret);
    let of_acquirers = [service.stack.seed.bank.client_secret.as_str(), service.stack.seed.card_key.as_str()];
    for shown in in_force.iter().chain(&others).chain(&encoded).chain(&of_acquirers) {
        assert!(!rows.contains(shown) && !records.contains(shown));
    }
    assert!(in_force.iter().chain(&of_acquirers).all(|secret| secrets.contains(secret)));
    assert!(!others.iter().any(|secret| secrets.contains(secret)) && !secrets.contains(id(&deleted)));
}

#[tokio::test]
async fn an_attempt_after_a_rotation_is_signed_with_the_new_secret() {
    let service = Service::without_event_sources().await;
    let [(own, _), (subscribed, _)] = [Listener::down().await, Listener::down().await];
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
async fn an_endpoint_without_a_secret_gets_no_unsigned_delivery() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let key = SigningSecret::key_of(&service.scope(), Some(id(&endpoint).parse().unwrap()));
    let delete = service.dynamodb().delete_item().table_name("SecretsTable");
    delete.set_key(Some(shared::store::key_attributes(&key))).send().await.unwrap();
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
