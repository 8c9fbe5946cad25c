//! `OAuth2` tokens by client credentials (RFC 6749, section 4.4).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use acquirer_http::{Answer, ClientSettingsError, Now, Transport};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use url::form_urlencoded;

use crate::client::AGENT;
use crate::error::{ApiError, ApiProblem};
use crate::fields::Fields;
use crate::settings::{ConnectionSettings, TokenAuthentication};

/// How long before its end a token is renewed, in milliseconds.
const RENEWAL_LEAD_MS: i64 = 60_000;

/// A token that lives shorter than this is renewed at half of its life, in milliseconds.
const SHORT_LIFE_MS: i64 = 2 * RENEWAL_LEAD_MS;

/// The life of a token whose answer has no `expires_in`, in seconds. RFC 6749 only recommends the field.
const DEFAULT_LIFE_S: i64 = 300;

/// The longest life of a token that is believed, in seconds: a day.
const MAX_LIFE_S: i64 = 86_400;

#[derive(Clone)]
pub(crate) struct Token {
    /// The value of `Authorization`. It is marked as sensitive.
    pub(crate) authorization: HeaderValue,
    pub(crate) serial: u64,
    /// The scopes that the bank granted, separated by spaces. `None`: the answer names none.
    pub(crate) scope: Option<String>,
    renew_at: Timestamp,
}

/// A failure, and whether it was that of a token fetch which another request made.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct CallFailure {
    pub(crate) error: ApiError,
    pub(crate) is_shared: bool,
}

impl<E: Into<ApiError>> From<E> for CallFailure {
    fn from(error: E) -> Self {
        Self { error: error.into(), is_shared: false }
    }
}

/// The token of a connection. Concurrent requests share one fetch.
pub(crate) struct Tokens {
    url: Uri,
    authentication: TokenAuthentication,
    client_id: String,
    client_secret: SecretString,
    scope: Option<String>,
    now: Now,
    transport: Arc<Transport>,
    current: RwLock<Option<Token>>,
    /// The error of the last fetch. Its holder is the only one who fetches.
    last_error: Mutex<Option<ApiError>>,
    finished: AtomicU64,
}

impl Tokens {
    pub(crate) fn new(
        settings: &ConnectionSettings,
        now: Now,
        transport: Arc<Transport>,
    ) -> Result<Self, ClientSettingsError> {
        let url = Uri::try_from(settings.checked_token_url()?)
            .map_err(|_| ClientSettingsError::Field { field: "token_url", rule: "be an absolute URL" })?;
        if settings.token_authentication == TokenAuthentication::Basic && settings.client_id.contains(':') {
            return Err(ClientSettingsError::Field {
                field: "client_id",
                rule: "not contain a colon if the token authentication is basic",
            });
        }
        Ok(Self {
            url,
            authentication: settings.token_authentication,
            client_id: settings.client_id.clone(),
            client_secret: settings.client_secret.clone(),
            scope: settings.scope.clone(),
            now,
            transport,
            current: RwLock::new(None),
            last_error: Mutex::new(None),
            finished: AtomicU64::new(0),
        })
    }

    /// Returns a token that the bank has not refused. `refused` is the serial number of a token that the bank
    /// answered 401 to.
    ///
    /// Fetches a token if there is none, or if it is about to end. A request that waits for the fetch of
    /// another shares its outcome, also its error. If the caller gives up, the next one that waits fetches.
    pub(crate) async fn get(&self, refused: Option<u64>) -> Result<Token, CallFailure> {
        if let Some(token) = self.usable(refused) {
            return Ok(token);
        }
        let finished_before = self.finished.load(Ordering::SeqCst);
        let mut last_error = self.last_error.lock().await;
        if let Some(token) = self.usable(refused) {
            return Ok(token);
        }
        let finished = self.finished.load(Ordering::SeqCst);
        if finished > finished_before
            && let Some(error) = &*last_error
        {
            return Err(CallFailure { error: error.clone(), is_shared: true });
        }
        let serial = finished.saturating_add(1);
        let outcome = self.fetch(serial).await;
        *last_error = outcome.as_ref().err().cloned();
        if let Ok(token) = &outcome {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        }
        self.finished.store(serial, Ordering::SeqCst);
        Ok(outcome?)
    }

    fn usable(&self, refused: Option<u64>) -> Option<Token> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let token = current.as_ref()?;
        (Some(token.serial) != refused && (self.now)() < token.renew_at).then(|| token.clone())
    }

    async fn fetch(&self, serial: u64) -> Result<Token, ApiError> {
        // The token's life begins at the latest when the request is sent.
        let requested_at = (self.now)();
        let answer = self.transport.send(self.request()?).await?;
        tracing::debug!(operation = "token", status = answer.status.as_u16(), "bank answered");
        let problem = || ApiProblem::parse(&answer.body);
        match answer.status {
            status if status.is_success() => parse(&answer, requested_at, serial),
            StatusCode::FORBIDDEN => Err(ApiError::Forbidden(problem())),
            StatusCode::REQUEST_TIMEOUT => Err(ApiError::RequestTimeout),
            StatusCode::TOO_MANY_REQUESTS => {
                Err(ApiError::TooManyRequests { retry_after: answer.retry_after(requested_at) })
            }
            // Any other 4xx: the credentials or the settings of the token request are wrong. A 400 or 404 must
            // not look as if it was about the object of the API request.
            status if status.is_client_error() => {
                Err(ApiError::Unauthorized { status: status.as_u16(), problem: problem() })
            }
            status if status.is_server_error() => {
                Err(ApiError::Server { status: status.as_u16(), problem: problem() })
            }
            status => Err(ApiError::Malformed(format!("the token endpoint answered {}", status.as_u16()))),
        }
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, ApiError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &self.scope {
            form.append_pair("scope", scope);
        }
        let mut authorization = None;
        match self.authentication {
            TokenAuthentication::Basic => {
                let pair = [&self.client_id, ":", self.client_secret.expose_secret()].concat();
                authorization = Some(sensitive(&format!("Basic {}", STANDARD.encode(pair)))?);
            }
            TokenAuthentication::Body => {
                form.append_pair("client_id", &self.client_id);
                form.append_pair("client_secret", self.client_secret.expose_secret());
            }
        }
        let mut request = Request::new(Full::new(Bytes::from(form.finish())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(USER_AGENT, AGENT);
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok(request)
    }
}

fn parse(answer: &Answer, requested_at: Timestamp, serial: u64) -> Result<Token, ApiError> {
    let malformed = |reason: &str| ApiError::Malformed(format!("the token endpoint's answer: {reason}"));
    let body: Map<String, Value> =
        serde_json::from_slice(&answer.body).map_err(|_| malformed("it must be a JSON object"))?;
    let body = Fields::new(&body);
    let token = body.text("access_token").ok_or_else(|| malformed("`access_token` must be a text"))?;
    let authorization = sensitive(&format!("Bearer {token}"))
        .map_err(|_| malformed("`access_token` must not contain control characters"))?;
    let seconds = body.integer("expires_in").filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_LIFE_S);
    let life_ms = seconds.min(MAX_LIFE_S).saturating_mul(1_000);
    let in_use_ms =
        if life_ms < SHORT_LIFE_MS { life_ms / 2 } else { life_ms.saturating_sub(RENEWAL_LEAD_MS) };
    let renew_at = requested_at.plus_millis(in_use_ms).unwrap_or(Timestamp::MAX);
    let scope = body.text("scope").map(str::to_owned);
    Ok(Token { authorization, serial, scope, renew_at })
}

fn sensitive(value: &str) -> Result<HeaderValue, ApiError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| ApiError::InvalidRequest("a header has a control character"))?;
    value.set_sensitive(true);
    Ok(value)
}
