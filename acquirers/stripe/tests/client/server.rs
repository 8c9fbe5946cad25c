//! A server on loopback, and a client of it with a clock that the test moves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use domain::time::Timestamp;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use stripe_client::{Client, ConnectionSettings};
use tokio::net::TcpListener;

/// 2026-11-22T12:00:00Z in Unix milliseconds.
pub(crate) const START_MS: i64 = 1_795_348_800_000;
pub(crate) const KEY: &str = "rk_test_51abcDEF";

/// The answer to the next request.
pub(crate) struct Reply(Response<Full<Bytes>>);

impl Reply {
    pub(crate) fn new(status: u16, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> Self {
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        Self(response)
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, &[("content-type", "application/json")], body.to_string().into_bytes())
    }

    /// An error of the API.
    pub(crate) fn error(status: u16, kind: &str, code: &str) -> Self {
        let message = "No such customer: 'maria@example.com'; CPF 29537995593; key sk_live_51secret";
        Self::json(status, &json!({"error": {"type": kind, "code": code, "message": message}}))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the parameters in the query and in a form.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let query = self.path.split_once('?').map(|(_, query)| query.as_bytes()).unwrap_or_default();
        let is_form = self.header("content-type") == Some("application/x-www-form-urlencoded");
        let form = if is_form { &self.body[..] } else { b"" };
        let both = url::form_urlencoded::parse(query).chain(url::form_urlencoded::parse(form));
        both.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    requests: Vec<Recorded>,
}

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) settings: ConnectionSettings,
    state: Arc<Mutex<State>>,
    clock: Arc<AtomicI64>,
}

impl World {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                // The client may close the connection.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        let settings = ConnectionSettings {
            base_url: format!("{url}/"),
            files_url: url,
            api_key: KEY.to_owned().into(),
            requests_per_second: None,
        };
        let clock = Arc::new(AtomicI64::new(START_MS));
        let read = Arc::clone(&clock);
        let now = Arc::new(move || Timestamp::from_millis(read.load(Ordering::SeqCst)).unwrap());
        let client = Client::new(&settings, now).unwrap();
        Self { client, settings, state, clock }
    }

    pub(crate) fn advance_s(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    pub(crate) fn reply(&self, reply: Reply) {
        self.state.lock().unwrap().replies.push_back(reply);
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state.lock().unwrap().requests.clone()
    }

    pub(crate) fn last_request(&self) -> Recorded {
        self.requests().pop().unwrap()
    }
}

/// Records a request, and answers it with the next reply.
async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let (method, path) = (head.method.to_string(), head.uri.to_string());
    let body = body.collect().await?.to_bytes();
    let mut state = state.lock().unwrap();
    state.requests.push(Recorded { method, path, headers: head.headers, body });
    Ok(state.replies.pop_front().unwrap().0)
}
