use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, DATE, HeaderName};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::books::{Books, Persistent};

/// How often a stand-in looks at its clock, which may be moved at any time, while something waits for a time.
const CLOCK_POLL: Duration = Duration::from_millis(20);
/// How long a receiver may take to answer a notification, and a client for a TLS handshake, in real time.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the current time in Unix milliseconds.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

pub type Reply = Response<Full<Bytes>>;

/// A server that plays an acquirer.
pub trait StandIn: Send + Sync + 'static {
    type State: Persistent;

    fn host(&self) -> &Host<Self::State>;

    /// Answers a request. An error closes the connection without an answer. `certificate` is that of the client.
    fn answer(
        &self,
        request: Request<Incoming>,
        certificate: Option<&[u8]>,
    ) -> impl Future<Output = io::Result<Reply>> + Send;

    /// Sends a notification, and records whether it was accepted.
    fn deliver(&self, delivery: <Self::State as Persistent>::Delivery) -> impl Future<Output = ()> + Send;
}

/// The books of a stand-in, its clock, and its client of receivers.
pub struct Host<S> {
    books: Mutex<Books<S>>,
    clock: Clock,
    wake: Notify,
    receivers: Client<HttpConnector, Full<Bytes>>,
}

impl<S: Persistent> Host<S> {
    /// Restores the state from its file, if there is one.
    pub fn open(state: S, file: Option<PathBuf>, clock: Clock) -> io::Result<Self> {
        let receivers = Client::builder(TokioExecutor::new()).build_http();
        let books = Mutex::new(Books::open(state, file)?);
        Ok(Self { books, clock, wake: Notify::new(), receivers })
    }

    pub fn books(&self) -> MutexGuard<'_, Books<S>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes what is due, then `act` with the time, and saves what they changed.
    pub fn change<T>(&self, act: impl FnOnce(&mut S, i64) -> T) -> io::Result<T> {
        let (result, is_idle) = self.apply(act);
        if !is_idle {
            self.wake();
        }
        result
    }

    /// As [`Self::change`], without waking the tasks that wait. Also returns whether nothing is left to do.
    fn apply<T>(&self, act: impl FnOnce(&mut S, i64) -> T) -> (io::Result<T>, bool) {
        let mut books = self.books();
        if let Err(error) = books.check() {
            return (Err(error), true);
        }
        let now_ms = self.now_ms();
        books.state.advance_to(now_ms);
        let result = act(&mut books.state, now_ms);
        (books.save().map(|()| result), books.state.is_idle())
    }

    /// The time by the stand-in's clock, in Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Lets everything that waits for a time look at the clock.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    pub async fn wait_until(&self, at_ms: i64) {
        while self.now_ms() < at_ms {
            let _ = tokio::time::timeout(CLOCK_POLL, self.wake.notified()).await;
        }
    }

    /// Sends a request to a receiver, by plain HTTP. Returns true if the answer has a 2xx status.
    pub async fn post(&self, request: hyper::http::Result<Request<Full<Bytes>>>) -> bool {
        self.post_for_status(request).await.is_some_and(|status| (200..300).contains(&status))
    }

    /// As [`Self::post`]. Returns the status. `None` if there is no answer.
    pub async fn post_for_status(&self, request: hyper::http::Result<Request<Full<Bytes>>>) -> Option<u16> {
        let answer = tokio::time::timeout(NETWORK_TIMEOUT, self.receivers.request(request.ok()?)).await;
        Some(answer.ok()?.ok()?.status().as_u16())
    }
}

/// A running stand-in. It stops when it is dropped.
pub struct Running<S: StandIn> {
    stand_in: Arc<S>,
    tasks: Mutex<JoinSet<()>>,
}

impl<S: StandIn> Running<S> {
    pub fn start(stand_in: S, listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let stand_in = Arc::new(stand_in);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(Arc::clone(&stand_in), listener, tls));
        tasks.spawn(run_timers(Arc::clone(&stand_in)));
        Self { stand_in, tasks: Mutex::new(tasks) }
    }

    /// Drops requests and notifications in progress, as a kill does. When this returns, the address is free.
    pub async fn stop(&self) {
        self.host().books().close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }
}

impl<S: StandIn> Deref for Running<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.stand_in
    }
}

impl<S: StandIn> Drop for Running<S> {
    /// The tasks end at their next await point. Until then they change nothing, so another stand-in may read the file.
    fn drop(&mut self) {
        self.host().books().close();
    }
}

async fn accept(stand_in: Arc<impl StandIn>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (stand_in, tls) = (Arc::clone(&stand_in), tls.clone());
                    // Responses are small. Without this option, TCP would delay them to fill a segment.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(async move {
                        let Some(tls) = tls else {
                            return serve(stand_in, stream, None).await;
                        };
                        // A client whose certificate is missing or wrong ends here.
                        if let Ok(Ok(stream)) =
                            tokio::time::timeout(NETWORK_TIMEOUT, tls.accept(stream)).await
                        {
                            let chain = stream.get_ref().1.peer_certificates();
                            let certificate = chain.and_then(|chain| Some(Arc::from(&**chain.first()?)));
                            serve(stand_in, stream, certificate).await;
                        }
                    });
                }
                // Most likely, the process is out of file descriptors. Waits until other connections are closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(
    stand_in: Arc<impl StandIn>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    certificate: Option<Arc<[u8]>>,
) {
    let service = hyper::service::service_fn(move |request| {
        let (stand_in, certificate) = (Arc::clone(&stand_in), certificate.clone());
        async move {
            let mut reply = stand_in.answer(request, certificate.as_deref()).await?;
            // Otherwise the header would be the machine's time.
            let now = Duration::from_millis(u64::try_from(stand_in.host().now_ms()).unwrap_or_default());
            let now = SystemTime::UNIX_EPOCH.checked_add(now).unwrap_or(SystemTime::UNIX_EPOCH);
            set_header(&mut reply, &DATE, &httpdate::fmt_http_date(now));
            Ok::<Reply, io::Error>(reply)
        }
    });
    // A broken connection needs no handling: the client notices it.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Executes what is due and sends notifications until the task is aborted.
async fn run_timers(stand_in: Arc<impl StandIn>) {
    let mut sending = JoinSet::new();
    loop {
        // Enabled before the state is read, so that a change after the read wakes this task.
        let mut woken = pin!(stand_in.host().wake.notified());
        woken.as_mut().enable();
        let is_idle = loop {
            let (next, is_idle) = stand_in.host().apply(|state, _| state.next_delivery());
            let Ok(Some(delivery)) = next else { break is_idle };
            let stand_in = Arc::clone(&stand_in);
            sending.spawn(async move { stand_in.deliver(delivery).await });
        };
        while sending.try_join_next().is_some() {}
        if is_idle {
            woken.await;
        } else {
            let _ = tokio::time::timeout(CLOCK_POLL, woken).await;
        }
    }
}

/// Returns a reply. An empty content type is left out.
pub fn reply(status: u16, content_type: &str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !content_type.is_empty() {
        set_header(&mut reply, &CONTENT_TYPE, content_type);
    }
    reply
}

/// Sets a header. A text that is no valid header is left out.
pub fn set_header(reply: &mut Reply, name: &HeaderName, text: &str) {
    if let Ok(value) = text.try_into() {
        reply.headers_mut().insert(name, value);
    }
}
