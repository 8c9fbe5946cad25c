//! A server that records what is posted to it.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

/// Waits until a condition holds.
pub(crate) async fn eventually<T, F: AsyncFnMut() -> Option<T>>(expected: &str, mut condition: F) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "not within a minute: {expected}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Posted {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// The receiver. Clones share what it received.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    status: Arc<AtomicU16>,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let receiver = Self { url, status: Arc::new(AtomicU16::new(200)), posted: Arc::default() };
        let accepting = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(TokioIo::new(stream)));
            }
        });
        receiver
    }

    async fn serve(self, stream: TokioIo<TcpStream>) {
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            let receiver = self.clone();
            async move {
                let (head, body) = request.into_parts();
                let path = head.uri.path_and_query().unwrap().to_string();
                let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
                // A test that sees this request may change the status for the next one.
                let answer = Response::builder().status(receiver.status.load(Ordering::SeqCst));
                receiver.posted.lock().unwrap().push(Posted { path, headers: head.headers, text });
                Ok::<_, hyper::Error>(answer.body(Full::new(Bytes::new())).unwrap())
            }
        });
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
    }

    /// Answers further requests with this status.
    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Returns what was received so far.
    pub(crate) fn received(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    /// Waits until exactly so many requests arrived.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Posted> {
        let received = eventually(&format!("{count} requests arrive"), async || {
            Some(self.received()).filter(|received| received.len() >= count)
        })
        .await;
        assert_eq!(received.len(), count, "{received:#?}");
        received
    }
}
