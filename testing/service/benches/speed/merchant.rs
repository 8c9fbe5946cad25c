//! A merchant's API client. It checks only that a response is a success, so that it uses little time.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::request::Builder;
use local::seed::SeededAccount;
use local::stack::Stack;
use local::wire::{HttpClient, http_client};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Merchant {
    base_url: String,
    key: String,
    http: HttpClient,
}

impl Merchant {
    /// An account with its test key.
    pub(crate) fn of(stack: &Stack, account: &SeededAccount) -> Self {
        Self { base_url: stack.base_url.clone(), key: account.test_api_key.clone(), http: http_client() }
    }

    pub(crate) async fn post(&self, path: &str, idempotency_key: &str, body: &Value) -> Value {
        let request = Request::post(format!("{}{path}", self.base_url))
            .header("content-type", "application/json")
            .header("idempotency-key", idempotency_key);
        self.send(path, request, body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(path, Request::get(format!("{}{path}", self.base_url)), String::new()).await
    }

    async fn send(&self, path: &str, request: Builder, body: String) -> Value {
        let request = request.header("apikey", &self.key).body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.http.request(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    /// Creates a charge and returns its id.
    pub(crate) async fn create(&self, order: usize) -> String {
        self.create_from(order, &json!({"amount": 1990, "description": "Pedido"})).await
    }

    /// Creates a charge with an order number and the customer's e-mail address.
    pub(crate) async fn create_findable(&self, order: usize) -> String {
        let body = json!({
            "amount": 1990, "customer": {"name": "Maria", "email": format!("maria{order}@example.com")},
            "metadata": {"order_id": order.to_string()},
        });
        self.create_from(order, &body).await
    }

    async fn create_from(&self, order: usize, body: &Value) -> String {
        let charge = self.post("/v1/pix/charges", &format!("order-{order:08}"), body).await;
        charge["id"].as_str().unwrap().to_owned()
    }

    /// Pays a charge of a test key.
    pub(crate) async fn pay(&self, charge: &str) {
        self.post(&format!("/v1/sandbox/charges/{charge}/pay"), "", &json!({})).await;
    }

    /// Registers an endpoint and returns its id.
    pub(crate) async fn register_endpoint(&self, url: &str, events: &[&str]) -> String {
        let endpoint = self.post("/v1/webhooks/endpoints", "", &json!({"url": url, "events": events})).await;
        endpoint["id"].as_str().unwrap().to_owned()
    }
}
