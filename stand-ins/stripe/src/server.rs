//! The HTTP side: connections, requests, faults of connections, and notifications.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::Clock;
use crate::api::{self, ApiRequest};
use crate::form;
use crate::page::{self, Page};
use crate::state::{API_VERSION, Delivery, State};

/// How often the stand-in looks at its clock, which may be moved at any time, while something waits for a time.
const CLOCK_POLL: Duration = Duration::from_millis(20);
/// How long an answer is withheld by `timeout`.
const TIMEOUT_S: i64 = 60;
/// An uploaded file of the largest size, and a bit more.
const BODY_MAX_BYTES: usize = 6 * 1024 * 1024;
/// How long a receiver may take to answer a notification, in real time.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

type Reply = Response<Full<Bytes>>;

pub(crate) struct Server {
    clock: Clock,
    api_key: String,
    serves_control: bool,
    state: Mutex<State>,
    wake: Notify,
    webhooks: HttpClient<HttpConnector, Full<Bytes>>,
}

impl Server {
    pub(crate) fn new(clock: Clock, api_key: String, serves_control: bool, state: State) -> Self {
        let webhooks = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { clock, api_key, serves_control, state: Mutex::new(state), wake: Notify::new(), webhooks }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes due timers, then `act`, and saves what they changed.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        let (result, is_idle) = self.apply(act);
        if !is_idle {
            self.wake();
        }
        result
    }

    /// As [`Self::change`], without waking the tasks that wait. Also returns whether nothing is left to do.
    fn apply<T>(&self, act: impl FnOnce(&mut State) -> T) -> (io::Result<T>, bool) {
        let mut state = self.state();
        if let Err(error) = state.rows.check() {
            return (Err(error), true);
        }
        state.advance_to((self.clock)().div_euclid(1_000));
        let result = act(&mut state);
        (state.rows.save().map(|()| result), state.is_idle())
    }

    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.change(|state| api::control(state, method, path, body))
            .unwrap_or_else(|error| (500, json!({"error": {"message": error.to_string()}})))
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_waiters();
    }

    async fn wait_s(&self, seconds: i64) {
        let end = (self.clock)().saturating_add(seconds.saturating_mul(1_000));
        while (self.clock)() < end {
            let _ = tokio::time::timeout(CLOCK_POLL, self.wake.notified()).await;
        }
    }

    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        // Responses are small. Without this option, TCP would delay them to fill a segment.
                        let _ = stream.set_nodelay(true);
                        connections.spawn(Arc::clone(&self).serve(stream));
                    }
                    // Most likely, the process is out of file descriptors. Waits until other connections are
                    // closed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let service = hyper::service::service_fn(move |request| {
            let server = Arc::clone(&self);
            async move {
                let mut reply = server.handle(request).await?;
                // Otherwise the header would be the machine's time.
                let now = Duration::from_millis(u64::try_from((server.clock)()).unwrap_or_default());
                let now = SystemTime::UNIX_EPOCH.checked_add(now).unwrap_or(SystemTime::UNIX_EPOCH);
                set(&mut reply, &DATE, &httpdate::fmt_http_date(now));
                Ok::<Reply, io::Error>(reply)
            }
        });
        // A broken connection needs no handling: the client notices it.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// Answers a request. An error closes the connection without an answer.
    async fn handle(&self, request: Request<Incoming>) -> io::Result<Reply> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, BODY_MAX_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.path();
        if let Some(id) = path.strip_prefix("/pay/") {
            return self.page(head.method == "POST", id, &body);
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

    fn page(&self, is_post: bool, id: &str, body: &Bytes) -> io::Result<Reply> {
        let form = form::decode(&String::from_utf8_lossy(body));
        let mut reply = match self.change(|state| page::answer(state, is_post, id, &form))? {
            Page::Html(status, html) => reply(status, "text/html; charset=utf-8", html),
            Page::SeeOther(url) => {
                let mut reply = reply(303, "text/plain", String::new());
                set(&mut reply, &LOCATION, &url);
                reply
            }
        };
        set(&mut reply, &CACHE_CONTROL, "no-store");
        Ok(reply)
    }

    async fn api(&self, head: &Parts, body: &Bytes) -> io::Result<Reply> {
        let request = ApiRequest::read(head, body);
        let what = request.what();
        let take = |fault| self.state().faults.take(fault, &what);
        if take("timeout") {
            self.wait_s(TIMEOUT_S).await;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let is_slow = take("slow");
        let answer = self.change(|state| api::answer(state, &self.api_key, &request, is_slow))?;
        if is_slow {
            self.wait_s(api::SLOW_S).await;
        }
        if answer.status == 200 && request.method != "GET" && take("lost_answer") {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let body = serde_json::to_string_pretty(&answer.body)?;
        let mut reply = reply(answer.status, "application/json", body);
        set(&mut reply, &HeaderName::from_static("request-id"), &answer.request_id);
        set(&mut reply, &HeaderName::from_static("stripe-version"), API_VERSION);
        if let Some(original) = &answer.original {
            set(&mut reply, &HeaderName::from_static("idempotent-replayed"), "true");
            set(&mut reply, &HeaderName::from_static("original-request"), original);
        }
        Ok(reply)
    }

    /// Executes due timers and sends notifications until the task is aborted.
    pub(crate) async fn run_timers(self: Arc<Self>) {
        let mut sending = JoinSet::new();
        loop {
            // Enabled before the state is read, so that a change after the read wakes this task.
            let mut woken = pin!(self.wake.notified());
            woken.as_mut().enable();
            let is_idle = loop {
                let (next, is_idle) = self.apply(State::next_delivery);
                let Ok(Some(delivery)) = next else { break is_idle };
                let server = Arc::clone(&self);
                sending.spawn(async move { server.send(delivery).await });
            };
            while sending.try_join_next().is_some() {}
            if is_idle {
                woken.await;
            } else {
                let _ = tokio::time::timeout(CLOCK_POLL, woken).await;
            }
        }
    }

    async fn send(&self, delivery: Delivery) {
        let request = Request::post(&delivery.url)
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .header("stripe-signature", &delivery.signature)
            .body(Full::new(Bytes::from(delivery.body)));
        let is_accepted = match request {
            Ok(request) => {
                let answer = tokio::time::timeout(NETWORK_TIMEOUT, self.webhooks.request(request)).await;
                matches!(answer, Ok(Ok(answer)) if answer.status().is_success())
            }
            Err(_) => false,
        };
        // If this is not saved, the notification is sent again after a restart.
        let _ = self.change(|state| state.end_delivery(&delivery.key, is_accepted));
    }
}

fn reply(status: u16, content_type: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut reply, &CONTENT_TYPE, content_type);
    reply
}

/// Sets a header. A text that is no valid header is left out.
fn set(reply: &mut Reply, name: &HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::try_from(text) {
        reply.headers_mut().insert(name, value);
    }
}
