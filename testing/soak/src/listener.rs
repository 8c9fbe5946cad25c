//! A merchant's webhook server, which counts the events of each object.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{Answer, Api, Call};
use crate::{Error, Result};

/// How long a request hangs before it is answered. The service waits at most 10 s.
const HANGS: Duration = Duration::from_secs(15);

/// What the server does with some requests. It does not count them.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It answers 500.
    Refuses,
    /// It answers after the service has given up.
    Hangs,
}

/// By the event's type and the id of its object, the number of requests and the time of the first one.
type Counts = BTreeMap<(String, String), (u64, Instant)>;

struct Receiver {
    counts: Mutex<Counts>,
    /// What happens to one in so many requests.
    fault: Option<(Fault, u64)>,
    requests: AtomicU64,
}

/// A running server. It stops with the process.
pub struct Listener {
    /// Where it receives events.
    pub url: String,
    receiver: Arc<Receiver>,
}

impl Listener {
    /// Starts a server on a free port that answers each request with 200.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub async fn start() -> Result<Self> {
        Self::listen(None).await
    }

    /// Starts a server on a free port that fails for one in so many requests.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub async fn with_fault(fault: Fault, one_in: u64) -> Result<Self> {
        Self::listen(Some((fault, one_in))).await
    }

    async fn listen(fault: Option<(Fault, u64)>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::of("starting the listener"))?;
        let address = listener.local_addr().map_err(Error::of("starting the listener"))?;
        let receiver = Arc::new(Receiver { counts: Mutex::default(), fault, requests: AtomicU64::new(0) });
        tokio::spawn(accept(listener, Arc::clone(&receiver)));
        Ok(Self { url: format!("http://{address}/hook"), receiver })
    }

    /// Registers the server for these types of events.
    ///
    /// # Errors
    ///
    /// When the service does not register it.
    pub async fn subscribe(&self, api: &Api, events: &[&str]) -> Result<()> {
        let endpoint = json!({"url": self.url, "events": events});
        match api.settle(&Call::post("/v1/webhooks/endpoints", endpoint)).await {
            Some(Answer { status: 201, .. }) => Ok(()),
            other => Err(Error::new(format!("the webhook was not registered: {other:?}"))),
        }
    }

    /// Returns the number of requests with a type of event, by the id of the event's object.
    pub fn received(&self, event: &str) -> BTreeMap<String, u64> {
        let counts = self.receiver.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_event = counts.iter().filter(|((found, _), _)| found == event);
        of_event.map(|((_, id), (count, _))| (id.clone(), *count)).collect()
    }

    /// Returns when the first request with a type of event and an object's id arrived.
    pub fn first_arrival(&self, event: &str, id: &str) -> Option<Instant> {
        let counts = self.receiver.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&(event.to_owned(), id.to_owned())).map(|(_, first)| *first)
    }
}

async fn accept(listener: TcpListener, receiver: Arc<Receiver>) {
    while let Ok((connection, _)) = listener.accept().await {
        let receiver = Arc::clone(&receiver);
        let answer = service_fn(move |request| answer(request, Arc::clone(&receiver)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    receiver: Arc<Receiver>,
) -> std::result::Result<Response<Empty<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let number = receiver.requests.fetch_add(1, Ordering::SeqCst);
    let is_faulty = |(_, one_in): &(Fault, u64)| number.checked_rem(*one_in) == Some(0);
    if let Some((fault, _)) = receiver.fault.filter(is_faulty) {
        match fault {
            Fault::Refuses => {}
            Fault::Hangs => tokio::time::sleep(HANGS).await,
        }
        let mut refusal = Response::new(Empty::new());
        *refusal.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(refusal);
    }
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Canonical events have `type` and an object; legacy events have `event` and the id of a transaction.
    let text = |pointers: [&str; 2]| pointers.iter().find_map(|pointer| event.pointer(pointer)?.as_str());
    if let (Some(kind), Some(id)) =
        (text(["/type", "/event"]), text(["/data/object/id", "/data/transactionId"]))
    {
        let mut counts = receiver.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, _) = counts.entry((kind.to_owned(), id.to_owned())).or_insert((0, Instant::now()));
        *count = count.saturating_add(1);
    }
    Ok(Response::new(Empty::new()))
}
