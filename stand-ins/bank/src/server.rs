//! The HTTP side: routes, authentication, faults and callbacks.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request};
use serde_json::{Map, Value, json};
use stand_in_kit::{Host, Reply, StandIn, reply, set_header};

use crate::fault::{FaultKind, Faults};
use crate::problem::Problem;
use crate::profile::{Behaviour, TokenAuthentication};
use crate::query::{Query, decode_segment};
use crate::state::{Call, Callback, State};

/// How long an answer is withheld by `timeout` and `timeout_after_store`, in milliseconds.
const TIMEOUT_MS: i64 = 60_000;
/// How late the fault `slow` answers, in milliseconds: just before a client that waits 10 s gives up.
const SLOW_MS: i64 = 9_000;
const BODY_MAX_BYTES: usize = 1024 * 1024;

pub(crate) struct Server {
    pub(crate) behaviour: &'static Behaviour,
    pub(crate) host: Host<State>,
}

impl Server {
    /// Executes all timers that are due, then `act` with the state and the time. Saves what they changed.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut State, i64) -> T) -> io::Result<T> {
        self.host.change(|state, now_ms| act(state, state.time(now_ms)))
    }

    pub(crate) fn faults<T>(&self, act: impl FnOnce(&mut Faults) -> T) -> T {
        act(&mut self.host.books().state.faults)
    }

    /// Waits, then closes the connection without an answer.
    async fn withhold(&self, started_ms: i64) -> io::Result<Reply> {
        self.host.wait_until(started_ms.saturating_add(TIMEOUT_MS)).await;
        Err(io::ErrorKind::TimedOut.into())
    }

    fn token(&self, head: &Parts, body: &Bytes, certificate: Option<&[u8]>) -> Result<Value, Problem> {
        if head.method != Method::POST {
            return Err(Problem::METHOD_NOT_ALLOWED);
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

    /// Returns the decoded segments of a path behind the base path. `None`: it has another form.
    fn segments(&self, path: &str) -> Option<Vec<String>> {
        let path = path.strip_prefix(self.behaviour.base_path)?.strip_prefix('/')?;
        path.split('/').map(decode_segment).collect()
    }

    async fn execute(
        &self,
        head: &Parts,
        segments: &[&str],
        body: &Bytes,
        certificate: Option<&[u8]>,
    ) -> Result<(u16, Option<Value>), Problem> {
        let client = self.authorize(head, segments, certificate)?;
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let method = head.method.as_str();
        if let ("PUT", ["webhook", key]) = (method, segments) {
            return self.register_webhook(&head.headers, client, key, &object(body)?).await;
        }
        let answer = self.change(|state, now_ms| match (method, segments, Call { now_ms, client }) {
            ("PUT", ["cob", txid], call) => state.put_cob(call, txid, &object(body)?),
            ("PATCH", ["cob", txid], call) => state.patch_cob(call, txid, &object(body)?),
            ("GET", ["cob", txid], call) => state.get_cob(call, txid, &query),
            ("GET", ["cob"], call) => state.list_cobs(call, &query),
            ("GET", ["pix", id], call) => state.get_pix(call, id),
            ("GET", ["pix"], call) => state.list_pix(call, &query),
            ("PUT", ["pix", pix, _, id], call) => state.put_devolucao(call, (pix, id), &object(body)?),
            ("GET", ["pix", pix, _, id], call) => state.get_devolucao(call, pix, id),
            ("PUT", ["pix-out", id], call) => state.put_pix_out(call, id, &object(body)?),
            ("GET", ["pix-out", id], call) => state.get_pix_out(call, id),
            ("DELETE", ["webhook", key], _) => state.delete_webhook(client, key).map(|()| Value::Null),
            ("GET", ["webhook", key], _) => state.get_webhook(client, key),
            _ => Err(Problem::METHOD_NOT_ALLOWED),
        })??;
        Ok(match method {
            "PUT" => (201, Some(answer)),
            "DELETE" => (204, None),
            _ => (200, Some(answer)),
        })
    }

    /// Checks the token, and the header or parameter that the profile requires. Returns the client.
    fn authorize(
        &self,
        head: &Parts,
        segments: &[&str],
        certificate: Option<&[u8]>,
    ) -> Result<usize, Problem> {
        let access = if head.method == Method::GET { "read" } else { "write" };
        let scope = format!("{}.{access}", segments.first().copied().unwrap_or_default());
        let token = header(&head.headers, AUTHORIZATION.as_str())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(|| Problem::unauthorized("A requisição não tem token."))?;
        let client = self.change(|state, now_ms| {
            if state.faults.take(FaultKind::TokenExpired) {
                state.expire_tokens_like(token);
            }
            state.authenticate(now_ms, token, &scope, certificate)
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
        if self.behaviour.tests_webhook_url && !self.post(&url, &json!({"evento": "teste_webhook"})).await {
            let reason = "O teste da URL falhou: ela deve responder com um status 2xx.";
            return Err(Problem::violation(KIND, "webhook.webhookUrl", reason));
        }
        self.change(|state, now_ms| state.put_webhook(now_ms, key, url))?;
        Ok((200, None))
    }

    /// Posts JSON. Returns true if the answer has a 2xx status.
    async fn post(&self, url: &str, body: &Value) -> bool {
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())));
        self.host.post(request).await
    }
}

impl StandIn for Server {
    type State = State;

    fn host(&self) -> &Host<State> {
        &self.host
    }

    async fn answer(&self, request: Request<Incoming>, certificate: Option<&[u8]>) -> io::Result<Reply> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_MAX_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Ok(problem(&Problem::TOO_LARGE));
            }
            Err(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        };
        if head.uri.path() == self.behaviour.token_path {
            let answer = self.token(&head, &body, certificate);
            return Ok(answer.map_or_else(|refusal| problem(&refusal), |token| json_reply(200, &token)));
        }
        let segments = self.segments(head.uri.path()).unwrap_or_default();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_route = matches!(
            segments[..],
            ["cob" | "pix"] | ["cob" | "pix" | "pix-out" | "webhook", _] | ["pix", _, "devolucao", _]
        );
        if !is_route {
            return Ok(problem(&Problem::not_found("NaoEncontrado")));
        }
        let started_ms = self.host.now_ms();
        let take = |kind| self.faults(|faults| faults.take(kind));
        if take(FaultKind::Timeout) {
            return self.withhold(started_ms).await;
        }
        let is_slow = take(FaultKind::Slow);
        let answer = if take(FaultKind::Http500) {
            Err(Problem::INTERNAL)
        } else if take(FaultKind::Http429) {
            Err(Problem::TOO_MANY_REQUESTS)
        } else if take(FaultKind::Http401) {
            Err(Problem::unauthorized("O token não foi aceito."))
        } else {
            self.execute(&head, &segments, &body, certificate).await
        };
        let is_write = head.method != Method::GET;
        if is_slow {
            self.host.wait_until(started_ms.saturating_add(SLOW_MS)).await;
        }
        Ok(match answer {
            Ok(_) if is_write && take(FaultKind::TimeoutAfterStore) => {
                return self.withhold(started_ms).await;
            }
            Ok(_) if is_write && take(FaultKind::Http400AfterStore) => problem(&Problem::violation(
                match segments.first() {
                    Some(&"cob") => "CobOperacaoInvalida",
                    Some(&"pix") => "PixDevolucaoInvalida",
                    Some(&"pix-out") => "PixOutInvalido",
                    _ => "WebhookOperacaoInvalida",
                },
                "requisicao",
                "A requisição não foi aceita.",
            )),
            Ok((status, answer)) => {
                answer.map_or_else(|| reply(status, "", String::new()), |answer| json_reply(status, &answer))
            }
            Err(refusal) => problem(&refusal),
        })
    }

    async fn deliver(&self, (number, callback): (u64, Callback)) {
        let is_accepted = self.post(&callback.url, &callback.body()).await;
        // If this is not saved, the callback is sent again after a restart.
        let _ = self.change(|state, now_ms| state.end_callback(now_ms, number, is_accepted));
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

fn json_reply(status: u16, body: &Value) -> Reply {
    reply(status, "application/json", body.to_string())
}

fn problem(refusal: &Problem) -> Reply {
    let mut reply = reply(refusal.status, "application/problem+json", refusal.body().to_string());
    if refusal.status == 429 {
        set_header(&mut reply, &RETRY_AFTER, "2");
    }
    reply
}
