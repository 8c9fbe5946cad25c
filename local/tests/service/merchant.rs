//! A merchant for benchmarks and measurements: its API client and its webhook server. The client checks only
//! that a response is a success, so that it uses little time.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use local::stack::Stack;
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Merchant {
    base_url: String,
    key: String,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

impl Merchant {
    /// The first account with its test key.
    pub(crate) fn of(stack: &Stack) -> Self {
        Self::with_key(stack, &stack.seed.first.test_api_key)
    }

    pub(crate) fn with_key(stack: &Stack, key: &str) -> Self {
        Self {
            base_url: stack.base_url.clone(),
            key: key.to_owned(),
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        idempotency_key: &str,
        body: &Value,
    ) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base_url))
            .header("apikey", &self.key)
            .header("content-type", "application/json")
            .header("idempotency-key", idempotency_key)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let answer = self.http.request(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, "", body).await
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
        let charge = self.send(Method::POST, "/v1/pix/charges", &format!("order-{order:08}"), body).await;
        charge["id"].as_str().unwrap().to_owned()
    }

    /// Pays a charge of a test key.
    pub(crate) async fn pay(&self, charge: &str) {
        self.post(&format!("/v1/sandbox/charges/{charge}/pay"), &json!({})).await;
    }

    pub(crate) async fn register_endpoint(&self, url: &str, events: &[&str]) {
        self.post("/v1/webhooks/endpoints", &json!({"url": url, "events": events})).await;
    }
}

/// Starts a webhook server that responds with `status`. Returns its URL, and the ids of the events that it
/// receives.
pub(crate) async fn webhook_server(status: StatusCode) -> (String, Arc<Mutex<Vec<String>>>) {
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = async move |Shared(received): Shared<Arc<Mutex<Vec<String>>>>, body: Bytes| {
        let event: Value = serde_json::from_slice(&body).unwrap();
        received.lock().unwrap().push(event["id"].as_str().unwrap().to_owned());
        status
    };
    (serve(Router::new().fallback(record).with_state(Arc::clone(&received))).await, received)
}

/// Serves a router on a free port. Returns the URL for webhooks.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}
