//! A server on loopback, and a client of it with a clock that the test moves.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use domain::time::Timestamp;
use serde_json::{Value, json};
use stripe_client::{Client, ConnectionSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// 2026-11-22T12:00:00Z in Unix milliseconds.
pub(crate) const START_MS: i64 = 1_795_348_800_000;
pub(crate) const KEY: &str = "rk_test_51abcDEF";

/// The bytes that answer the next request. Then the connection is closed.
pub(crate) struct Reply(pub(crate) Vec<u8>);

impl Reply {
    pub(crate) fn new(status: u16, headers: &str, body: &[u8]) -> Self {
        let head = format!(
            "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
            body.len()
        );
        Self([head.as_bytes(), body].concat())
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "Content-Type: application/json\r\n", body.to_string().as_bytes())
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
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    /// Returns the parameters in the query and in a form.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let query = self.path.split_once('?').map(|(_, query)| query.as_bytes()).unwrap_or_default();
        let is_form = self.header("content-type") == Some("application/x-www-form-urlencoded");
        let form = if is_form { self.body.as_slice() } else { b"" };
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
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ConnectionSettings)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        let mut settings = ConnectionSettings {
            base_url: format!("{url}/"),
            files_url: url,
            api_key: KEY.to_owned().into(),
            requests_per_second: None,
        };
        change(&mut settings);
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

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let reply = {
        let mut state = state.lock().unwrap();
        state.requests.push(request);
        state.replies.pop_front()
    };
    if let Some(Reply(bytes)) = reply {
        // The client may close the connection before it has read everything.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let head_len = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_len].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut request_line = lines.next().unwrap().split(' ').map(str::to_owned);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head_len + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let (method, path) = (request_line.next()?, request_line.next()?);
    Some(Recorded { method, path, headers, body: bytes.split_off(head_len + 4) })
}
