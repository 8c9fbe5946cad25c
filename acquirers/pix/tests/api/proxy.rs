//! A proxy in front of the bank. It records and validates requests, and can answer in place of the bank.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::requests::validate;

/// A request that the proxy received. The path is that after the base URL, as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What the proxy does in place of the bank.
#[derive(Clone, Debug)]
pub(crate) enum Substitute {
    /// Answers with this status, these headers and this body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// Closes the connection without an answer.
    Close,
    /// Never answers.
    Hold,
    /// Lets the bank answer.
    Forward,
}

impl Substitute {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self::Answer(status, headers, body.to_string().into())
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Bytes::new())
    }
}

#[derive(Default)]
struct State {
    api: Vec<Recorded>,
    token: Vec<Recorded>,
    invalid: Vec<String>,
    api_substitutes: VecDeque<Substitute>,
    token_substitutes: VecDeque<Substitute>,
}

/// The proxy. Clones share its state.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) origin: String,
    bank_origin: String,
    behaviour: &'static bank::Behaviour,
    http: HttpClient<HttpConnector, Full<Bytes>>,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Starts a proxy of the bank at this origin.
    pub(crate) async fn start(bank_origin: String, behaviour: &'static bank::Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            bank_origin,
            behaviour,
            http: HttpClient::builder(TokioExecutor::new()).build(HttpConnector::new()),
            state: Arc::default(),
        };
        let shared = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = shared.clone();
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(|request| {
                        let proxy = shared.clone();
                        async move { proxy.handle(request).await }
                    });
                    // A broken connection needs no handling: the client notices it.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        proxy
    }

    async fn handle(&self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.path();
        // The bank's test of a callback URL.
        if path.starts_with("/hooks") {
            return Ok(Response::new(Full::new(Bytes::new())));
        }
        let is_token = path == self.behaviour.token_path;
        let query = head.uri.query().unwrap_or_default();
        let header_text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        let recorded = Recorded {
            method: head.method.to_string(),
            path: path.strip_prefix(self.behaviour.base_path).unwrap_or(path).to_owned(),
            query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), header_text(value)))
                .collect(),
            body: match (body.is_empty(), is_token) {
                (true, _) => Value::Null,
                (false, true) => String::from_utf8(body.to_vec()).unwrap().into(),
                (false, false) => serde_json::from_slice(&body).unwrap(),
            },
        };
        let substitute = {
            let mut state = self.state.lock().unwrap();
            if is_token {
                state.token.push(recorded);
                state.token_substitutes.pop_front()
            } else {
                let extensions: Vec<&str> =
                    self.behaviour.required_parameter.iter().map(|(name, _)| *name).collect();
                if let Err(error) = validate(&recorded, &extensions) {
                    state.invalid.push(format!("{} {}: {error}", recorded.method, recorded.path));
                }
                state.api.push(recorded);
                state.api_substitutes.pop_front()
            }
        };
        match substitute.unwrap_or(Substitute::Forward) {
            Substitute::Answer(status, headers, body) => {
                let mut answer = Response::builder().status(status);
                for (name, value) in headers {
                    answer = answer.header(name, value);
                }
                Ok(answer.body(Full::new(body)).unwrap())
            }
            Substitute::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Substitute::Hold => std::future::pending().await,
            Substitute::Forward => {
                let mut forwarded = Request::from_parts(head, Full::new(body));
                let url = format!("{}{}", self.bank_origin, forwarded.uri());
                *forwarded.uri_mut() = url.parse().unwrap();
                let answer = self.http.request(forwarded).await.map_err(io::Error::other)?;
                let (head, body) = answer.into_parts();
                let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                Ok(Response::from_parts(head, Full::new(body)))
            }
        }
    }

    /// Answers the next API request in place of the bank, after earlier substitutes.
    pub(crate) fn substitute(&self, substitute: Substitute) {
        self.state.lock().unwrap().api_substitutes.push_back(substitute);
    }

    /// Answers the next token request in place of the bank, after earlier substitutes.
    pub(crate) fn substitute_token(&self, substitute: Substitute) {
        self.state.lock().unwrap().token_substitutes.push_back(substitute);
    }

    /// Returns the API requests so far.
    pub(crate) fn api_requests(&self) -> Vec<Recorded> {
        self.state.lock().unwrap().api.clone()
    }

    /// Returns the token requests so far. Their body is the form as a text.
    pub(crate) fn token_requests(&self) -> Vec<Recorded> {
        self.state.lock().unwrap().token.clone()
    }

    /// Returns the requests that break the Central Bank's document.
    pub(crate) fn invalid_requests(&self) -> Vec<String> {
        self.state.lock().unwrap().invalid.clone()
    }
}
