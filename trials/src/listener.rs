//! A merchant's webhook server, which counts the events of each charge.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::{Answer, Api, Call};
use crate::{Error, Result};

type Counts = Arc<Mutex<BTreeMap<String, (u64, Instant)>>>;

/// A running server. It stops with the process.
pub struct Listener {
    /// Where it receives events.
    pub url: String,
    counts: Counts,
}

impl Listener {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// When no port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::of("starting the listener"))?;
        let address = listener.local_addr().map_err(Error::of("starting the listener"))?;
        let counts = Counts::default();
        tokio::spawn(accept(listener, Arc::clone(&counts)));
        Ok(Self { url: format!("http://{address}/hook"), counts })
    }

    /// Registers the server for the events `charge.paid`.
    ///
    /// # Errors
    ///
    /// When the service does not register it.
    pub async fn subscribe(&self, api: &Api) -> Result<()> {
        let endpoint = json!({"url": self.url, "events": ["charge.paid"]});
        match api.settle(&Call::post("/v1/webhooks/endpoints", endpoint)).await {
            Some(Answer { status: 201, .. }) => Ok(()),
            other => Err(Error::new(format!("the webhook was not registered: {other:?}"))),
        }
    }

    /// Returns the number of requests by the id of the object of their event.
    pub fn received(&self) -> BTreeMap<String, u64> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(id, (count, _))| (id.clone(), *count)).collect()
    }

    /// Returns when the first request with an object's id arrived.
    pub fn first_arrival(&self, id: &str) -> Option<Instant> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(id).map(|(_, first)| *first)
    }
}

async fn accept(listener: TcpListener, counts: Counts) {
    while let Ok((connection, _)) = listener.accept().await {
        let counts = Arc::clone(&counts);
        let answer = service_fn(move |request| answer(request, Arc::clone(&counts)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), answer));
    }
}

async fn answer(
    request: Request<Incoming>,
    counts: Counts,
) -> std::result::Result<Response<Empty<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(id) = event.pointer("/data/object/id").and_then(Value::as_str) {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, _) = counts.entry(id.to_owned()).or_insert((0, Instant::now()));
        *count = count.saturating_add(1);
    }
    Ok(Response::new(Empty::new()))
}
