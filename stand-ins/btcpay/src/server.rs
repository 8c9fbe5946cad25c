//! The HTTP side: requests, faults of connections, and webhooks.

use std::io;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use serde_json::{Value, json};
use stand_in_kit::{Host, Reply, StandIn, reply};

use crate::api;
use crate::state::{Delivery, State};

/// How long an answer is withheld by `timeout`.
const TIMEOUT_MS: i64 = 60_000;
const BODY_MAX_BYTES: usize = 1024 * 1024;

pub(crate) struct Server {
    pub(crate) host: Host<State>,
    pub(crate) serves_control: bool,
}

impl Server {
    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.host
            .change(|state, _| api::control(state, method, path, body))
            .unwrap_or_else(|error| (500, json!({"code": "internal-error", "message": error.to_string()})))
    }

    async fn api(&self, head: &Parts, body: &Bytes) -> io::Result<Reply> {
        let what = format!("{} {}", head.method, head.uri.path());
        let take = |fault| self.host.books().state.faults.take(fault, &what);
        if take("timeout") {
            self.host.wait_until(self.host.now_ms().saturating_add(TIMEOUT_MS)).await;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (status, body) = self.host.change(|state, _| api::answer(state, head, body))?;
        if status == 200 && head.method != "GET" && take("lost_answer") {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let text = if body.is_null() { String::new() } else { body.to_string() };
        Ok(reply(status, "application/json; charset=utf-8", text))
    }
}

impl StandIn for Server {
    type State = State;

    fn host(&self) -> &Host<State> {
        &self.host
    }

    async fn answer(&self, request: Request<Incoming>, _certificate: Option<&[u8]>) -> io::Result<Reply> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_MAX_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
        match head.uri.path().strip_prefix("/_local/btcpay").filter(|_| self.serves_control) {
            Some(path) => {
                let body = if body.is_empty() { json!({}) } else { serde_json::from_slice(&body)? };
                let (status, body) = self.control(head.method.as_str(), path, &body);
                Ok(reply(status, "application/json", body.to_string()))
            }
            None => self.api(&head, &body).await,
        }
    }

    async fn deliver(&self, delivery: Delivery) {
        let request = Request::post(&delivery.url)
            .header(CONTENT_TYPE, "application/json")
            .header("btcpay-sig", &delivery.signature)
            .body(Full::new(Bytes::from(delivery.body)));
        let status = self.host.post_for_status(request).await;
        let _ = self.host.change(|state, _| state.end_delivery(&delivery.webhook, status));
    }
}
