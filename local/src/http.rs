//! An HTTP/1.1 server that owns its connections: it closes all of them when it stops or is dropped.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::guard::{AllowedHost, names_no_foreign_host};

/// The time that running requests have to finish after shutdown is requested.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    /// The task that accepts connections. Dropping the set aborts it.
    accepting: JoinSet<()>,
}

impl Server {
    /// Starts a server that responds to each request by `answer`, which also gets the address of the client. An error
    /// closes the connection without a response.
    pub fn start<F, Fut, B, E>(listener: TcpListener, answer: F) -> io::Result<Self>
    where
        F: Fn(Request<Incoming>, SocketAddr) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (address, shutdown) = (listener.local_addr()?, CancellationToken::new());
        let stop = shutdown.clone();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, peer) = tokio::select! {
                    () = stop.cancelled() => break,
                    Some(_) = connections.join_next() => continue,
                    accepted = listener.accept() => {
                        let Ok(accepted) = accepted else {
                            // Most likely, the process is out of file descriptors. Waits until other connections are
                            // closed.
                            tokio::time::sleep(Duration::from_millis(10)).await;
                            continue;
                        };
                        accepted
                    }
                };
                // Responses are small. Without this option, TCP would delay them to fill a segment.
                let _ = stream.set_nodelay(true);
                let (answer, stop) = (answer.clone(), stop.clone());
                let service = service_fn(move |request| answer(request, peer));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    let mut connection = pin!(connection);
                    tokio::select! {
                        // An error of the connection is ignored, because the client notices it too.
                        _ = connection.as_mut() => return,
                        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
                    }
                    let _ = connection.await;
                });
            }
            drop(listener);
            let finished = async { while connections.join_next().await.is_some() {} };
            // Dropping the set aborts the remaining connections.
            let _ = tokio::time::timeout(GRACE, finished).await;
        });
        Ok(Self { address, shutdown, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL, without a trailing slash.
    pub fn url(&self) -> String {
        url_of(self.address)
    }

    /// Stops accepting connections and waits up to five seconds for running requests.
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        self.accepting.join_next().await;
    }
}

/// The host names that requests may have besides loopback. `None`: any.
pub(crate) type Hosts = Option<Arc<[AllowedHost]>>;

/// Refuses a request that a page of another site may have sent: 403.
pub(crate) fn refused_host(hosts: &Hosts, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let allowed = hosts.as_ref()?;
    (!names_no_foreign_host(request, allowed)).then(|| {
        let text = "Host must be an address, localhost or a host given by --allow-host";
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = StatusCode::FORBIDDEN;
        response
    })
}

/// Starts a server. `handle` responds to a request from an address, with the server's state.
pub(crate) fn serve_with<T, F, Fut>(
    listener: TcpListener,
    hosts: Hosts,
    state: Arc<T>,
    handle: F,
) -> io::Result<Server>
where
    T: Send + Sync + 'static,
    F: Fn(Arc<T>, Request<Incoming>, SocketAddr) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    Server::start(listener, move |request, peer| {
        let refused = refused_host(&hosts, &request);
        let response = refused.is_none().then(|| handle(Arc::clone(&state), request, peer));
        async move {
            Ok::<_, Infallible>(match response {
                Some(response) => response.await,
                None => refused.unwrap_or_default(),
            })
        }
    })
}

pub(crate) fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("http://{address}")
}

pub(crate) async fn bind_loopback(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).await
}

#[derive(Debug, thiserror::Error)]
#[error("the response is withheld")]
struct NoResponse;

/// Starts a server on a loopback port (0: a free one). It closes the connection where `answer` returns `None`.
pub async fn start_loopback<F, Fut>(port: u16, answer: F) -> io::Result<Server>
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Option<Response<Full<Bytes>>>> + Send + 'static,
{
    Server::start(bind_loopback(port).await?, move |request, _| {
        let response = answer(request);
        async move { response.await.ok_or(NoResponse) }
    })
}
