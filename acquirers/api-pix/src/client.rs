//! The client: sends a request with a token, within limits of time and rate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use acquirer_http::{
    Answer, DEFAULT_DEADLINE, Gate, Limiter, Now, Priority, SettingsError, TlsSettings, Transport,
    check_requests_per_second,
};
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use crate::clock::{BankClock, ClockOffsets};
use crate::error::{ApiError, ApiProblem, health};
use crate::request::ApiRequest;
use crate::settings::{ConnectionSettings, checked_headers};
use crate::tokens::{Failure, Token, Tokens};

/// The acquirer's name in the texts of errors.
const PEER: &str = "the bank";

pub(crate) const AGENT: HeaderValue = HeaderValue::from_static("payment-service-api-pix/1");

/// A client of one bank connection.
///
/// Clones share the token, the circuit breaker, the rate limit and the open connections. Each clone has its
/// own priority and deadline: see [`at`](Self::at) and [`with_deadline`](Self::with_deadline). The methods
/// that send requests are in the order of the Central Bank's document.
///
/// - **Token:** fetched when a request needs it, and renewed a minute before its end. A token that lives less
///   than two minutes is renewed at half of its life. After a 401, there is one new token and one more try.
/// - **Circuit breaker:** opens after 5 consecutive failures: timeouts, failed connections, 5xx. It stays
///   open for 10 s. After each failed probe the time doubles, up to 60 s. It follows the service's clock.
/// - **429:** requests in the background fail with [`ApiError::TooManyRequests`] until `Retry-After`, at most
///   60 s. After a 429 to a request of [`Priority::Create`], those fail too.
/// - **Rate limit:** where the settings have one, requests wait. Those in the background wait longest.
///
/// Dropping a future cancels its request. The bank may execute it nevertheless.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
    priority: Priority,
    deadline: Duration,
}

struct Connection {
    base_url: String,
    /// The additional parameters of each request, encoded. They may contain secrets.
    query: SecretString,
    headers: HeaderMap,
    webhook_headers: HeaderMap,
    now: Now,
    transport: Arc<Transport>,
    tokens: Tokens,
    gate: Gate,
    clock: BankClock,
    limiter: Option<Limiter>,
}

impl Client {
    /// Creates a client with the priority [`Priority::Create`] and [`DEFAULT_DEADLINE`]. Sends nothing.
    ///
    /// `now` is the service's clock. Tokens, the circuit breaker and the pause after a 429 follow it. Time
    /// limits do not.
    pub fn new(settings: &ConnectionSettings, now: Now) -> Result<Self, SettingsError> {
        let base_url = settings.checked_base_url()?;
        let token_url = settings.checked_token_url()?;
        let is_https = [&base_url, &token_url].iter().any(|url| url.starts_with("https:"));
        let tls = TlsSettings {
            identity: settings.identity.as_ref(),
            additional_ca_pem: settings.additional_ca_pem.as_deref(),
            is_https,
        };
        let transport = Arc::new(Transport::new(PEER, tls)?);
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &settings.query_parameters {
            query.append_pair(name, value.expose_secret());
        }
        check_requests_per_second(settings.requests_per_second)?;
        let connection = Connection {
            base_url,
            query: query.finish().into(),
            headers: checked_headers(&settings.headers)?,
            webhook_headers: checked_headers(&settings.webhook_headers)?,
            tokens: Tokens::new(settings, Arc::clone(&now), Arc::clone(&transport))?,
            transport,
            gate: Gate::new(Arc::clone(&now)),
            clock: BankClock::default(),
            now,
            limiter: settings.requests_per_second.map(|limit| Limiter::new(limit, Instant::now())),
        };
        Ok(Self { connection: Arc::new(connection), priority: Priority::Create, deadline: DEFAULT_DEADLINE })
    }

    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { priority, ..self.clone() }
    }

    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    pub fn now(&self) -> Timestamp {
        (self.connection.now)()
    }

    /// Returns how far the bank's times are from the service's clock, as far as this client and its clones have
    /// measured it.
    pub fn clock_offsets(&self) -> ClockOffsets {
        self.connection.clock.offsets()
    }

    /// Returns the offsets if the bank's times are more than a minute off. Returns them once an hour, for a log.
    pub fn wrong_clock_to_report(&self) -> Option<ClockOffsets> {
        self.connection.clock.to_report(self.now())
    }

    /// Measures the bank's clock by the creation of a cob that was requested at `sent_at` and answered now.
    pub(crate) fn note_created(&self, created_at: Timestamp, sent_at: Timestamp) {
        self.connection.clock.note_created(created_at, (sent_at, self.now()));
    }

    /// Fetches a token, unless there is a valid one, and sends no other request. For checks of credentials.
    /// Returns the scopes that the bank granted, separated by spaces. `None`: its answer names none.
    pub async fn check_token(&self) -> Result<Option<String>, ApiError> {
        let fetched = tokio::time::timeout(self.deadline, self.connection.token(None, self.priority)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(ApiError::Timeout.into()));
        fetched.map(|token| token.scope).map_err(|failed| failed.error)
    }

    pub(crate) async fn call(&self, request: ApiRequest) -> Result<Bytes, ApiError> {
        let connection = &self.connection;
        let permit = connection.gate.admit(self.priority)?;
        let started = Instant::now();
        let deadline = started.checked_add(self.deadline).unwrap_or(started);
        let attempt = connection.attempt(&request, self.priority, deadline);
        let outcome = timeout_at(deadline, attempt).await.unwrap_or_else(|_| Err(ApiError::Timeout.into()));
        let is_shared = matches!(outcome, Err(Failure { is_shared: true, .. }));
        let outcome = outcome.map_err(|failed| failed.error);
        // A token fetch that failed is one failure, although several requests waited for it.
        if !is_shared {
            permit.record(health(&outcome));
        }
        tracing::debug!(
            operation = request.operation,
            elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            error = outcome.as_ref().err().map(tracing::field::display),
            "bank request ended"
        );
        outcome
    }
}

impl Connection {
    async fn attempt(
        &self,
        request: &ApiRequest,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Bytes, Failure> {
        let token = self.token(None, priority).await?;
        let mut answer = self.send(request, &token, priority, deadline).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            let token = self.token(Some(token.serial), priority).await?;
            answer = self.send(request, &token, priority, deadline).await?;
        }
        Ok(self.classify(answer, priority)?)
    }

    async fn token(&self, refused: Option<u64>, priority: Priority) -> Result<Token, Failure> {
        let outcome = self.tokens.get(refused).await;
        if let Err(Failure { error: ApiError::TooManyRequests { retry_after }, .. }) = &outcome {
            self.gate.pause(priority, *retry_after);
        }
        outcome
    }

    async fn send(
        &self,
        request: &ApiRequest,
        token: &Token,
        priority: Priority,
        deadline: Instant,
    ) -> Result<Answer, ApiError> {
        let prepared = self.prepare(request, token)?;
        if let Some(limiter) = &self.limiter {
            limiter.acquire(priority, deadline).await?;
        }
        let sent_at = (self.now)();
        let answer = self.transport.send(prepared).await?;
        if let Some(date) = answer.header(DATE) {
            self.clock.note_date(date, (sent_at, (self.now)()));
        }
        tracing::debug!(operation = request.operation, status = answer.status.as_u16(), "bank answered");
        Ok(answer)
    }

    fn prepare(&self, request: &ApiRequest, token: &Token) -> Result<Request<Full<Bytes>>, ApiError> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&request.query);
        let query = query.finish();
        let mut url = [self.base_url.as_str(), &request.path].concat();
        for part in [query.as_str(), self.query.expose_secret()] {
            if !part.is_empty() {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(part);
            }
        }
        let body = request.body.as_ref().map(|body| Bytes::from(body.to_string()));
        let mut prepared = Request::new(Full::new(body.unwrap_or_default()));
        *prepared.method_mut() = request.method.clone();
        *prepared.uri_mut() =
            Uri::try_from(url).map_err(|_| ApiError::InvalidRequest("the URL is too long"))?;
        let headers = prepared.headers_mut();
        headers.extend(self.headers.clone());
        if request.registers_webhook {
            headers.extend(self.webhook_headers.clone());
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, application/problem+json"));
        headers.insert(AUTHORIZATION, token.authorization.clone());
        headers.insert(USER_AGENT, AGENT);
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(prepared)
    }

    fn classify(&self, answer: Answer, priority: Priority) -> Result<Bytes, ApiError> {
        let problem = || ApiProblem::parse(&answer.body);
        match answer.status {
            status if status.is_success() => Ok(answer.body),
            StatusCode::UNAUTHORIZED => Err(ApiError::Unauthorized { status: 401, problem: problem() }),
            StatusCode::FORBIDDEN => Err(ApiError::Forbidden(problem())),
            StatusCode::NOT_FOUND if answer.is_html() => {
                Err(ApiError::Malformed("the 404 is a page in HTML, so it is not the API's".to_owned()))
            }
            StatusCode::NOT_FOUND => Err(ApiError::NotFound(problem())),
            StatusCode::REQUEST_TIMEOUT => Err(ApiError::RequestTimeout),
            StatusCode::TOO_MANY_REQUESTS => {
                let retry_after = answer.retry_after((self.now)());
                self.gate.pause(priority, retry_after);
                Err(ApiError::TooManyRequests { retry_after })
            }
            status if status.is_client_error() => {
                Err(ApiError::Refused { status: status.as_u16(), problem: problem() })
            }
            status if status.is_server_error() => {
                Err(ApiError::Server { status: status.as_u16(), problem: problem() })
            }
            status => Err(ApiError::Malformed(format!("the status is {}", status.as_u16()))),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.connection.base_url)
            .field("priority", &self.priority)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
