//! The HTTP side: requests, faults of connections, and notifications.

use std::io;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION};
use hyper::http::request::Parts;
use serde_json::{Value, json};
use stand_in_kit::{Host, Reply, StandIn, reply, set_header};

use crate::api::{self, ApiRequest};
use crate::form;
use crate::page::{self, Page};
use crate::state::{API_VERSION, Delivery, State};

/// How long an answer is withheld by `timeout`.
const TIMEOUT_S: i64 = 60;
/// The page or PDF of a voucher, which has one empty page.
const VOUCHER: &str = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>endobj\ntrailer<</Root 1 0 R>>\n";
/// An uploaded file of the largest size, and a bit more.
const BODY_MAX_BYTES: usize = 6 * 1024 * 1024;

pub(crate) struct Server {
    pub(crate) host: Host<State>,
    pub(crate) api_key: String,
    pub(crate) serves_control: bool,
}

impl Server {
    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.host
            .change(|state, _| api::control(state, method, path, body))
            .unwrap_or_else(|error| (500, json!({"error": {"message": error.to_string()}})))
    }

    async fn wait_s(&self, seconds: i64) {
        self.host.wait_until(self.host.now_ms().saturating_add(seconds.saturating_mul(1_000))).await;
    }

    fn page(&self, is_post: bool, id: &str, body: &Bytes) -> io::Result<Reply> {
        let form = form::decode(&String::from_utf8_lossy(body));
        let mut reply = match self.host.change(|state, _| page::answer(state, is_post, id, &form))? {
            Page::Html(status, html) => reply(status, "text/html; charset=utf-8", html),
            Page::SeeOther(url) => {
                let mut reply = reply(303, "text/plain", String::new());
                set_header(&mut reply, &LOCATION, &url);
                reply
            }
        };
        set_header(&mut reply, &CACHE_CONTROL, "no-store");
        Ok(reply)
    }

    async fn api(&self, head: &Parts, body: &Bytes) -> io::Result<Reply> {
        let request = ApiRequest::read(head, body).await;
        let what = request.what();
        let take = |fault| self.host.books().state.faults.take(fault, &what);
        if take("timeout") {
            self.wait_s(TIMEOUT_S).await;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let is_slow = take("slow");
        let answer = self.host.change(|state, _| api::answer(state, &self.api_key, &request, is_slow))?;
        if is_slow {
            self.wait_s(api::SLOW_S).await;
        }
        if answer.status == 200 && request.method != "GET" && take("lost_answer") {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let body = serde_json::to_string_pretty(&answer.body)?;
        let mut reply = reply(answer.status, "application/json", body);
        set_header(&mut reply, &HeaderName::from_static("request-id"), &answer.request_id);
        set_header(&mut reply, &HeaderName::from_static("stripe-version"), API_VERSION);
        if let Some(original) = &answer.original {
            set_header(&mut reply, &HeaderName::from_static("idempotent-replayed"), "true");
            set_header(&mut reply, &HeaderName::from_static("original-request"), original);
        }
        Ok(reply)
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
        let path = head.uri.path();
        if let Some(id) = path.strip_prefix("/pay/") {
            return self.page(head.method == "POST", id, &body);
        }
        if path.starts_with("/voucher/") {
            return Ok(reply(200, "application/pdf", VOUCHER.to_owned()));
        }
        match path.strip_prefix("/_local/stripe").filter(|_| self.serves_control) {
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
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .header("stripe-signature", &delivery.signature)
            .body(Full::new(Bytes::from(delivery.body)));
        let is_accepted = self.host.post(request).await;
        // If this is not saved, the notification is sent again after a restart.
        let _ = self.host.change(|state, _| state.end_delivery(&delivery.key, is_accepted));
    }
}
