//! The HTTP side: connections, routes, authentication, faults and callbacks.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Clock;
use crate::books::{Books, NotSaved};
use crate::fault::{FaultKind, Faults};
use crate::problem::Problem;
use crate::profile::{Behaviour, TokenAuthentication};
use crate::query::{Query, decode_segment};
use crate::state::{Callback, State};
use crate::values::http_date;

/// How often the bank looks at its clock, which may be moved at any time, while something waits for a time.
const CLOCK_POLL: Duration = Duration::from_millis(20);
/// How long an answer is withheld by `timeout` and `timeout_after_store`, in milliseconds.
const TIMEOUT_MS: i64 = 60_000;
/// How late the fault `slow` answers, in milliseconds: just before a client that waits 10 s gives up.
const SLOW_MS: i64 = 9_000;
const BODY_MAX_BYTES: usize = 1024 * 1024;
/// How long a receiver may take to answer a callback, and a client for a TLS handshake, in real time.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(10);

type CallbackClient = HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>;
type Reply = Response<Full<Bytes>>;

pub(crate) struct Server {
    pub(crate) behaviour: &'static Behaviour,
    clock: Clock,
    skew_ms: i64,
    books: Mutex<Books>,
    wake: Notify,
    callbacks: CallbackClient,
}

enum Route {
    Cob(String),
    Cobs,
    Pix(String),
    PixList,
    Devolucao { end_to_end_id: String, id: String },
    PixOut(String),
    Webhook(String),
}

impl Server {
    pub(crate) fn new(
        behaviour: &'static Behaviour,
        clock: Clock,
        skew_ms: i64,
        books: Books,
        tls: ClientConfig,
    ) -> Self {
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        Self {
            behaviour,
            clock,
            skew_ms,
            books: Mutex::new(books),
            wake: Notify::new(),
            callbacks: HttpClient::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// The bank's time as it writes it in cobs and Pix, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock_ms().saturating_add(self.behaviour.times_ahead_s.saturating_mul(1_000))
    }

    /// The time by the bank's clock, in Unix milliseconds.
    fn clock_ms(&self) -> i64 {
        (self.clock)().saturating_add(self.skew_ms)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes all timers that are due, then `act` with the state and the time. Saves what they changed.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut State, i64) -> T) -> Result<T, NotSaved> {
        let (result, is_idle) = self.apply(act);
        if !is_idle {
            self.wake();
        }
        result
    }

    /// As [`Self::change`], without waking the tasks that wait. Also returns whether the books are idle.
    fn apply<T>(&self, act: impl FnOnce(&mut State, i64) -> T) -> (Result<T, NotSaved>, bool) {
        let mut books = self.books();
        let now_ms = self.now_ms();
        let result = books.change(now_ms, act);
        (result, books.is_idle())
    }

    pub(crate) fn faults<T>(&self, act: impl FnOnce(&mut Faults) -> T) -> T {
        act(self.books().faults())
    }

    pub(crate) fn snapshot(&self) -> Value {
        // If the books can't be saved, shows them with the last change, which was not saved.
        let _ = self.change(|_, _| ());
        self.books().snapshot()
    }

    pub(crate) fn reset(&self) -> io::Result<()> {
        self.books().reset()
    }

    pub(crate) fn close(&self) {
        self.books().close();
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_waiters();
    }

    async fn look_at_clock_again(&self) {
        tokio::select! {
            () = tokio::time::sleep(CLOCK_POLL) => {}
            () = self.wake.notified() => {}
        }
    }

    async fn wait_until(&self, at_ms: i64) {
        while self.now_ms() < at_ms {
            self.look_at_clock_again().await;
        }
    }

    // Connections.

    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (server, tls) = (Arc::clone(&self), tls.clone());
                        // Responses are small. Without this option, TCP would delay them to fill a segment.
                        let _ = stream.set_nodelay(true);
                        connections.spawn(async move {
                            let Some(tls) = tls else {
                                return server.serve(stream, None).await;
                            };
                            // A client whose certificate is missing or wrong ends here.
                            if let Ok(Ok(stream)) =
                                tokio::time::timeout(NETWORK_TIMEOUT, tls.accept(stream)).await
                            {
                                let certificate = stream
                                    .get_ref()
                                    .1
                                    .peer_certificates()
                                    .and_then(|chain| chain.first())
                                    .map(|certificate| certificate.to_vec());
                                server.serve(stream, certificate).await;
                            }
                        });
                    }
                    // Most likely, the process is out of file descriptors. Waits until other connections are
                    // closed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn serve<S>(self: Arc<Self>, stream: S, certificate: Option<Vec<u8>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let certificate: Option<Arc<[u8]>> = certificate.map(Arc::from);
        let service = hyper::service::service_fn(move |request| {
            let (server, certificate) = (Arc::clone(&self), certificate.clone());
            async move {
                let mut reply = server.handle(request, certificate.as_deref()).await?;
                // Otherwise the header would be the machine's time.
                if let Ok(date) = HeaderValue::try_from(http_date(server.clock_ms())) {
                    reply.headers_mut().insert(DATE, date);
                }
                Ok::<Reply, io::Error>(reply)
            }
        });
        // A broken connection needs no handling: the client notices it.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    // Requests.

    /// Answers a request. An error closes the connection without an answer.
    async fn handle(&self, request: Request<Incoming>, certificate: Option<&[u8]>) -> io::Result<Reply> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_MAX_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Ok(problem(&Problem::too_large()));
            }
            Err(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        if head.uri.path() == self.behaviour.token_path {
            let answer = self.token(&head, &body, certificate);
            return Ok(answer.map_or_else(|refusal| problem(&refusal), |token| json_reply(200, &token)));
        }
        let Some(route) = self.route(head.uri.path()) else {
            return Ok(problem(&Problem::not_found("NaoEncontrado")));
        };
        let started_ms = self.now_ms();
        let take = |kind| self.faults(|faults| faults.take(kind));
        if take(FaultKind::Timeout) {
            return self.withhold(started_ms).await;
        }
        let is_slow = take(FaultKind::Slow);
        let answer = if take(FaultKind::Http500) {
            Err(Problem::internal())
        } else if take(FaultKind::Http429) {
            Err(Problem::too_many_requests())
        } else if take(FaultKind::Http401) {
            Err(Problem::unauthorized("O token não foi aceito."))
        } else {
            self.execute(&head, &route, &body, certificate).await
        };
        let is_write = head.method != Method::GET;
        if is_slow {
            self.wait_until(started_ms.saturating_add(SLOW_MS)).await;
        }
        Ok(match answer {
            Ok(_) if is_write && take(FaultKind::TimeoutAfterStore) => {
                return self.withhold(started_ms).await;
            }
            Ok(_) if is_write && take(FaultKind::Http400AfterStore) => problem(&Problem::violation(
                route.invalid_kind(),
                "requisicao",
                "A requisição não foi aceita.",
            )),
            Ok((status, answer)) => {
                answer.map_or_else(|| empty(status), |answer| json_reply(status, &answer))
            }
            Err(refusal) => problem(&refusal),
        })
    }

    /// Waits, then closes the connection without an answer.
    async fn withhold(&self, started_ms: i64) -> io::Result<Reply> {
        self.wait_until(started_ms.saturating_add(TIMEOUT_MS)).await;
        Err(io::ErrorKind::TimedOut.into())
    }

    fn token(&self, head: &Parts, body: &Bytes, certificate: Option<&[u8]>) -> Result<Value, Problem> {
        if head.method != Method::POST {
            return Err(Problem::method_not_allowed());
        }
        let form = Query::parse(&String::from_utf8_lossy(body));
        if form.get("grant_type") != Some("client_credentials") {
            return Err(Problem::malformed("grant_type deve ser client_credentials."));
        }
        let credentials = match self.behaviour.token_authentication {
            TokenAuthentication::Basic => basic_credentials(&head.headers),
            TokenAuthentication::Body => form
                .get("client_id")
                .zip(form.get("client_secret"))
                .map(|(id, secret)| (id.to_owned(), secret.to_owned())),
        };
        let Some((id, secret)) = credentials else {
            return Err(Problem::unauthorized("As credenciais do cliente não foram enviadas."));
        };
        let scope = form.get("scope");
        self.change(|state, now_ms| state.issue_token(now_ms, (&id, &secret), scope, certificate))?
            .ok_or_else(|| Problem::unauthorized("As credenciais do cliente estão erradas."))
    }

    fn route(&self, path: &str) -> Option<Route> {
        let segments = path
            .strip_prefix(self.behaviour.base_path)?
            .strip_prefix('/')?
            .split('/')
            .map(decode_segment)
            .collect::<Option<Vec<String>>>()?;
        let mut segments = segments.into_iter();
        let parts = (segments.next(), segments.next(), segments.next(), segments.next(), segments.next());
        let (Some(first), second, third, fourth, None) = parts else {
            return None;
        };
        match (first.as_str(), second, third, fourth) {
            ("cob", None, None, None) => Some(Route::Cobs),
            ("cob", Some(txid), None, None) => Some(Route::Cob(txid)),
            ("pix", None, None, None) => Some(Route::PixList),
            ("pix", Some(end_to_end_id), None, None) => Some(Route::Pix(end_to_end_id)),
            ("pix", Some(end_to_end_id), Some(third), Some(id)) if third == "devolucao" => {
                Some(Route::Devolucao { end_to_end_id, id })
            }
            ("pix-out", Some(id), None, None) => Some(Route::PixOut(id)),
            ("webhook", Some(key), None, None) => Some(Route::Webhook(key)),
            _ => None,
        }
    }

    async fn execute(
        &self,
        head: &Parts,
        route: &Route,
        body: &Bytes,
        certificate: Option<&[u8]>,
    ) -> Result<(u16, Option<Value>), Problem> {
        let client = self.authorize(head, route, certificate)?;
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let is = |method: Method| head.method == method;
        if let (Route::Webhook(key), true) = (route, is(Method::PUT)) {
            return self.register_webhook(&head.headers, client, key, &object(body)?).await;
        }
        self.change(|state, now_ms| match route {
            Route::Cob(txid) if is(Method::PUT) => {
                state.put_cob(now_ms, client, txid, &object(body)?).map(|cob| (201, Some(cob)))
            }
            Route::Cob(txid) if is(Method::PATCH) => {
                state.patch_cob(client, txid, &object(body)?).map(|cob| (200, Some(cob)))
            }
            Route::Cob(txid) => state.get_cob(now_ms, client, txid, &query).map(|cob| (200, Some(cob))),
            Route::Cobs => state.list_cobs(now_ms, client, &query).map(|cobs| (200, Some(cobs))),
            Route::Pix(id) => state.get_pix(now_ms, client, id).map(|pix| (200, Some(pix))),
            Route::PixList => state.list_pix(now_ms, client, &query).map(|pix| (200, Some(pix))),
            Route::Devolucao { end_to_end_id, id } if is(Method::PUT) => state
                .put_devolucao(now_ms, client, (end_to_end_id, id), &object(body)?)
                .map(|devolucao| (201, Some(devolucao))),
            Route::Devolucao { end_to_end_id, id } => {
                state.get_devolucao(now_ms, client, end_to_end_id, id).map(|devolucao| (200, Some(devolucao)))
            }
            Route::PixOut(id) if is(Method::PUT) => {
                state.put_pix_out(now_ms, client, id, &object(body)?).map(|pix_out| (201, Some(pix_out)))
            }
            Route::PixOut(id) => state.get_pix_out(client, id).map(|pix_out| (200, Some(pix_out))),
            Route::Webhook(key) if is(Method::DELETE) => {
                state.delete_webhook(client, key).map(|()| (204, None))
            }
            Route::Webhook(key) => state.get_webhook(client, key).map(|webhook| (200, Some(webhook))),
        })?
    }

    /// Checks the method, the token, and the header or parameter that the profile requires. Returns the
    /// client.
    fn authorize(&self, head: &Parts, route: &Route, certificate: Option<&[u8]>) -> Result<usize, Problem> {
        let scope = route.scope(&head.method).ok_or_else(Problem::method_not_allowed)?;
        let token = header(&head.headers, AUTHORIZATION.as_str())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(|| Problem::unauthorized("A requisição não tem token."))?;
        let client = self.change(|state, now_ms| {
            if state.faults.take(FaultKind::TokenExpired) {
                state.expire_tokens_like(token);
            }
            state.authenticate(now_ms, token, scope, certificate)
        })??;
        if let Some((name, expected)) = self.behaviour.required_header
            && header(&head.headers, name) != Some(expected)
        {
            return Err(Problem::forbidden(format!("O cabeçalho {name} é obrigatório.")));
        }
        if let Some((name, expected)) = self.behaviour.required_parameter
            && Query::parse(head.uri.query().unwrap_or_default()).get(name) != Some(expected)
        {
            return Err(Problem::forbidden(format!("O parâmetro {name} é obrigatório.")));
        }
        Ok(client)
    }

    async fn register_webhook(
        &self,
        headers: &HeaderMap,
        client: usize,
        key: &str,
        body: &Map<String, Value>,
    ) -> Result<(u16, Option<Value>), Problem> {
        const KIND: &str = "WebhookOperacaoInvalida";
        if let Some((name, expected)) = self.behaviour.webhook_header
            && header(headers, name) != Some(expected)
        {
            let reason = format!("O cabeçalho {name} é obrigatório para este webhook.");
            return Err(Problem::violation(KIND, "webhook.webhookUrl", reason));
        }
        let url = self.change(|state, _| state.check_webhook(client, key, body))??;
        if self.behaviour.tests_webhook_url
            && !self.post(url.as_str(), &json!({"evento": "teste_webhook"})).await
        {
            let reason = "O teste da URL falhou: ela deve responder com um status 2xx.";
            return Err(Problem::violation(KIND, "webhook.webhookUrl", reason));
        }
        self.change(|state, now_ms| state.put_webhook(now_ms, key, body))?;
        Ok((200, None))
    }

    // Callbacks.

    /// Executes due timers and sends callbacks until the task is aborted.
    pub(crate) async fn run_timers(self: Arc<Self>) {
        let mut sending = JoinSet::new();
        loop {
            // Enabled before the books are read, so that a change after the read wakes this task.
            let mut woken = pin!(self.wake.notified());
            woken.as_mut().enable();
            let is_idle = loop {
                let (next, is_idle) = self.apply(|state, _| state.next_callback());
                let Ok(Some((number, callback))) = next else { break is_idle };
                let server = Arc::clone(&self);
                sending.spawn(async move { server.send(number, callback).await });
            };
            while sending.try_join_next().is_some() {}
            if is_idle {
                woken.await;
            } else {
                let _ = tokio::time::timeout(CLOCK_POLL, woken).await;
            }
        }
    }

    async fn send(&self, number: u64, callback: Callback) {
        let is_accepted = self.post(&callback.url, &callback.body()).await;
        // If this is not saved, the callback is sent again after a restart.
        let _ = self.change(|state, now_ms| state.end_callback(now_ms, number, is_accepted));
    }

    /// Posts JSON. Returns true if the answer has a 2xx status.
    async fn post(&self, url: &str, body: &Value) -> bool {
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())));
        let Ok(request) = request else {
            return false;
        };
        let answer = tokio::time::timeout(NETWORK_TIMEOUT, self.callbacks.request(request)).await;
        matches!(answer, Ok(Ok(answer)) if answer.status().is_success())
    }
}

impl Route {
    fn scope(&self, method: &Method) -> Option<&'static str> {
        let (read, write, writes): (_, _, &[Method]) = match self {
            Self::Cob(_) => ("cob.read", "cob.write", &[Method::PUT, Method::PATCH]),
            Self::Cobs => ("cob.read", "cob.write", &[]),
            Self::Pix(_) | Self::PixList => ("pix.read", "pix.write", &[]),
            Self::Devolucao { .. } => ("pix.read", "pix.write", &[Method::PUT]),
            Self::PixOut(_) => ("pix-out.read", "pix-out.write", &[Method::PUT]),
            Self::Webhook(_) => ("webhook.read", "webhook.write", &[Method::PUT, Method::DELETE]),
        };
        if *method == Method::GET { Some(read) } else { writes.contains(method).then_some(write) }
    }

    fn invalid_kind(&self) -> &'static str {
        match self {
            Self::Cob(_) | Self::Cobs => "CobOperacaoInvalida",
            Self::Pix(_) | Self::PixList => "PixConsultaInvalida",
            Self::Devolucao { .. } => "PixDevolucaoInvalida",
            Self::PixOut(_) => "PixOutInvalido",
            Self::Webhook(_) => "WebhookOperacaoInvalida",
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn basic_credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let encoded = header(headers, AUTHORIZATION.as_str())?.strip_prefix("Basic ")?;
    let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    decoded.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned()))
}

fn object(body: &Bytes) -> Result<Map<String, Value>, Problem> {
    serde_json::from_slice(body).map_err(|_| Problem::malformed("O corpo não é um objeto JSON."))
}

fn reply(status: u16, content_type: Option<&'static str>, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(content_type) = content_type {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    reply
}

fn json_reply(status: u16, body: &Value) -> Reply {
    reply(status, Some("application/json"), body.to_string())
}

fn empty(status: u16) -> Reply {
    reply(status, None, String::new())
}

fn problem(refusal: &Problem) -> Reply {
    let mut reply = reply(refusal.status, Some("application/problem+json"), refusal.body().to_string());
    if refusal.status == 429 {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
    }
    reply
}
