//! A stand-in with a clock that the test moves, and a client of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use btcpay_stand_in::{BtcPay, Options};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

pub(crate) use crate::receiver::{Receiver, eventually};

/// 2026-11-22T12:00:00Z in Unix seconds.
pub(crate) const START_S: i64 = 1_795_348_800;
pub(crate) const KEY: &str = "test-key";
pub(crate) const STORE: &str = "store-1";
pub(crate) const SECRET: &str = "s3cret";
pub(crate) const INVOICES: &str = "/api/v1/stores/store-1/invoices";
pub(crate) const WEBHOOKS: &str = "/api/v1/stores/store-1/webhooks";

pub(crate) struct World {
    now_ms: Arc<AtomicI64>,
    pub(crate) btcpay: BtcPay,
    http: HttpClient<HttpConnector, Full<Bytes>>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_in(None, STORE).await
    }

    pub(crate) async fn start_in(file: Option<PathBuf>, store: &str) -> Self {
        let now_ms = Arc::new(AtomicI64::new(START_S * 1_000));
        let clock = Arc::clone(&now_ms);
        let options = Options::new(Arc::new(move || clock.load(Ordering::SeqCst)), KEY, store);
        let btcpay = BtcPay::start(Options { file, ..options }).await.unwrap();
        Self { now_ms, btcpay, http: HttpClient::builder(TokioExecutor::new()).build_http() }
    }

    pub(crate) fn advance_s(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
        self.btcpay.wake();
    }

    /// Sends a request. `None` if the stand-in closes the connection.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.btcpay.url()))
            .header("authorization", format!("token {key}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)));
        let (head, body) = self.http.request(request.unwrap()).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Some((head.status.as_u16(), body))
    }

    /// Sends a request that must be answered with this status. Returns the body.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value, expected: u16) -> Value {
        let (status, answer) = self.try_send(method, path, KEY, &body).await.unwrap();
        assert_eq!(status, expected, "{method} {path}: {answer:#}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send("GET", path, Value::Null, 200).await
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    pub(crate) fn control(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.btcpay.control("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer:#}");
        answer
    }

    /// Expects that an act is refused with this status.
    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    pub(crate) fn refuse(&self, path: &str, body: Value, expected: u16) {
        let (status, answer) = self.btcpay.control("POST", path, &body);
        assert_eq!(status, expected, "{path}: {answer:#}");
    }

    pub(crate) fn fault(&self, kind: &str, on: &str) {
        self.control("/faults", json!({"kind": kind, "on": on}));
    }

    pub(crate) fn books(&self) -> Value {
        self.btcpay.control("GET", "/books", &json!({})).1
    }

    /// Creates an invoice of BRL 100.00. At the default rate 0.00018519 BTC are due.
    pub(crate) async fn invoice(&self, order: &str, checkout: Value) -> String {
        let body = json!({
            "amount": "100.00", "currency": "BRL", "metadata": {"orderId": order}, "checkout": checkout,
        });
        self.send("POST", INVOICES, body, 200).await["id"].as_str().unwrap().to_owned()
    }

    /// Returns status and additional status.
    pub(crate) async fn status(&self, id: &str) -> String {
        let invoice = self.get(&format!("{INVOICES}/{id}")).await;
        format!("{} {}", invoice["status"].as_str().unwrap(), invoice["additionalStatus"].as_str().unwrap())
    }

    pub(crate) async fn method(&self, id: &str) -> Value {
        self.get(&format!("{INVOICES}/{id}/payment-methods?onlyAccountedPayments=false")).await[0].clone()
    }

    /// Registers the receiver for all events. Returns the id of the webhook.
    pub(crate) async fn register(&self, receiver: &Receiver) -> String {
        let body = json!({"url": receiver.url, "secret": SECRET});
        self.send("POST", WEBHOOKS, body, 200).await["id"].as_str().unwrap().to_owned()
    }

    /// Waits until so many deliveries wait.
    pub(crate) async fn wait_unsent(&self, count: usize) {
        eventually("deliveries end", async || (self.books()["unsent_notifications"] == count).then_some(()))
            .await;
    }

    /// Waits until the answer of the last delivery to a receiver is noted, so that its repeat waits for the clock.
    pub(crate) async fn wait_noted(&self, receiver: &Receiver, count: usize) {
        receiver.wait_for(count).await;
        let now_ms = self.now_ms.load(Ordering::SeqCst);
        let is_noted = async || {
            let queues = self.books()["webhook_queues"].clone();
            let mut queues = queues.as_object()?.values();
            queues.any(|queue| queue["not_before_ms"].as_i64() > Some(now_ms)).then_some(())
        };
        eventually("the answer is noted", is_noted).await;
    }
}

impl Receiver {
    /// Waits for a number of webhooks, and returns the types of their events in the order of arrival.
    pub(crate) async fn types(&self, count: usize) -> Vec<String> {
        let received = self.wait_for(count).await;
        received.iter().map(|posted| posted.json()["type"].as_str().unwrap().to_owned()).collect()
    }
}
