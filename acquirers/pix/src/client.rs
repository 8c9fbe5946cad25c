//! The client: sends a request with a token, within limits of time and rate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use acquirer_http::{Answer, Channel, ClientSettingsError, Health, Now, Priority, TlsSettings};
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;
use url::form_urlencoded;

use crate::clock::{BankClock, ClockOffsets};
use crate::error::{ApiError, ApiProblem, health};
use crate::request::ApiRequest;
use crate::settings::{ConnectionSettings, checked_headers};
use crate::tokens::{CallFailure, Token, Tokens};

/// The acquirer's name in the texts of errors.
const PEER: &str = "the bank";

pub(crate) const AGENT: HeaderValue = HeaderValue::from_static("payment-service-api-pix/1");

/// A client of one bank connection.
///
/// Clones share the token, and what a [`Channel`] shares. Each clone has its own priority and deadline: see
/// [`at`](Self::at) and [`with_deadline`](Self::with_deadline). The methods that send requests are in the order of
/// the Central Bank's document.
///
/// A token is fetched when a request needs it, and renewed a minute before its end. A token that lives less than two
/// minutes is renewed at half of its life. After a 401, there is one new token and one more try.
///
/// Dropping a future cancels its request. The bank may execute it nevertheless.
#[derive(Clone)]
pub struct Client {
    connection: Arc<Connection>,
    channel: Channel,
}

struct Connection {
    base_url: String,
    /// The additional parameters of each request, encoded. They may contain secrets.
    query: SecretString,
    headers: HeaderMap,
    webhook_headers: HeaderMap,
    now: Now,
    tokens: Tokens,
    clock: BankClock,
}

impl Client {
    /// Creates a client with the priority [`Priority::Create`] and the default deadline. Sends nothing.
    ///
    /// `now` is the service's clock. Tokens, the circuit breaker and the pause after a 429 follow it. Time
    /// limits do not.
    pub fn new(settings: &ConnectionSettings, now: Now) -> Result<Self, ClientSettingsError> {
        let base_url = settings.checked_base_url()?;
        let token_url = settings.checked_token_url()?;
        let is_https = [&base_url, &token_url].iter().any(|url| url.starts_with("https:"));
        let tls = TlsSettings {
            identity: settings.identity.as_ref(),
            additional_ca_pem: settings.additional_ca_pem.as_deref(),
            is_https,
            ..TlsSettings::default()
        };
        let channel = Channel::new(PEER, tls, settings.requests_per_second, Arc::clone(&now))?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &settings.query_parameters {
            query.append_pair(name, value.expose_secret());
        }
        let connection = Connection {
            base_url,
            query: query.finish().into(),
            headers: checked_headers(&settings.headers)?,
            webhook_headers: checked_headers(&settings.webhook_headers)?,
            tokens: Tokens::new(settings, Arc::clone(&now), channel.transport())?,
            clock: BankClock::default(),
            now,
        };
        Ok(Self { connection: Arc::new(connection), channel })
    }

    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { channel: self.channel.at(priority), ..self.clone() }
    }

    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { channel: self.channel.with_deadline(deadline), ..self.clone() }
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
        let fetched = tokio::time::timeout(self.channel.deadline(), self.token(None)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(ApiError::Timeout.into()));
        fetched.map(|token| token.scope).map_err(|failed| failed.error)
    }

    pub(crate) async fn call(&self, request: ApiRequest) -> Result<Bytes, ApiError> {
        let attempt = async |deadline| self.attempt(&request, deadline).await;
        let health = |outcome: &Result<Bytes, CallFailure>| match outcome {
            // A token fetch that failed is one failure, although several requests waited for it.
            Err(failed) if failed.is_shared => Health::Unknown,
            outcome => health(outcome.as_ref().err().map(|failed| &failed.error)),
        };
        self.channel.run(request.operation, attempt, health).await.map_err(|failed| failed.error)
    }

    async fn attempt(&self, request: &ApiRequest, deadline: Instant) -> Result<Bytes, CallFailure> {
        let token = self.token(None).await?;
        let mut answer = self.send(request, &token, deadline).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            let token = self.token(Some(token.serial)).await?;
            answer = self.send(request, &token, deadline).await?;
        }
        Ok(classify(answer)?)
    }

    async fn token(&self, refused: Option<u64>) -> Result<Token, CallFailure> {
        let outcome = self.connection.tokens.get(refused).await;
        if let Err(CallFailure { error: ApiError::TooManyRequests { retry_after }, .. }) = &outcome {
            self.channel.pause(*retry_after);
        }
        outcome
    }

    async fn send(&self, request: &ApiRequest, token: &Token, deadline: Instant) -> Result<Answer, ApiError> {
        let prepared = self.connection.prepare(request, token)?;
        let (answer, sent_at) = self.channel.exchange(request.operation, prepared, deadline).await?;
        if let Some(date) = answer.header(DATE) {
            self.connection.clock.note_date(date, (sent_at, self.now()));
        }
        Ok(answer)
    }
}

impl Connection {
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
}

fn classify(answer: Answer) -> Result<Bytes, ApiError> {
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
        status if status.is_client_error() => {
            Err(ApiError::Refused { status: status.as_u16(), problem: problem() })
        }
        status if status.is_server_error() => {
            Err(ApiError::Server { status: status.as_u16(), problem: problem() })
        }
        status => Err(ApiError::Malformed(format!("the status is {}", status.as_u16()))),
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.connection.base_url)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
