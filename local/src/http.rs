//! An HTTP/1.1 server that owns its connections: when it stops, or is dropped, none of them is left behind.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::shutdown::{self, Shutdown, Trigger};

/// How long requests in progress may take to finish once the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    trigger: Trigger,
    task: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `make(peer)` to every connection on `listener`. A service that returns an error breaks off its
    /// connection without an answer.
    pub fn start<M, S, B>(listener: TcpListener, make: M) -> io::Result<Self>
    where
        M: Fn(SocketAddr) -> S + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn StdError + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let address = listener.local_addr()?;
        let (trigger, shutdown) = shutdown::channel();
        let task = Some(tokio::spawn(accept(listener, make, shutdown)));
        Ok(Self { address, trigger, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more connections, lets running requests finish for a few seconds, and returns when all are gone.
    pub async fn stop(mut self) {
        self.trigger.fire();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A service from a function that can't fail.
pub fn service<F, Fut, B>(
    handle: F,
) -> impl Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Send + 'static
where
    F: Fn(Request<Incoming>) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
{
    hyper::service::service_fn(move |request| {
        let answer = handle(request);
        async move { Ok(answer.await) }
    })
}

/// Listens on a free port of the loopback interface.
pub async fn loopback() -> io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0)).await
}

async fn accept<M, S, B>(listener: TcpListener, make: M, mut shutdown: Shutdown)
where
    M: Fn(SocketAddr) -> S + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve(stream, make(peer), shutdown.clone()));
                }
                // Out of file descriptors, most likely: others must close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    // Dropping the set ends what is still there.
    let _ = tokio::time::timeout(GRACE, finished).await;
}

async fn serve<S, B>(stream: TcpStream, service: S, mut shutdown: Shutdown)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    // Answers are small: waiting to fill a segment only costs time.
    let _ = stream.set_nodelay(true);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // A broken connection is its client's affair.
        _ = connection.as_mut() => return,
        () = shutdown.requested() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
