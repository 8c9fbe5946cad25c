use std::fmt;
use std::sync::Arc;

use acquirer_http::{Channel, ClientSettingsError, Now, Priority, SendOnce, TlsSettings, checked_base_url};
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use secrecy::{ExposeSecret as _, SecretString};

use crate::configuration::StoreId;
use crate::error::{ApiError, ApiProblem};

/// How to connect to one store. `Debug` does not show the key.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// The server's URL. It must be https, except for a loopback address or `localhost`.
    pub base_url: String,
    pub store: StoreId,
    /// A key with the rights [`RIGHTS`](crate::RIGHTS).
    pub api_key: SecretString,
    /// The most requests a second, 1 to 10,000. The limit applies to one [`Client`] and its clones.
    pub requests_per_second: Option<u32>,
}

/// A client of one store. Clones share what a [`Channel`] shares; each has its own priority and deadline.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    base_url: String,
    is_local: bool,
    store: StoreId,
    authorization: HeaderValue,
    now: Now,
}

pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    /// Names the operation in the logs.
    pub(crate) operation: &'static str,
    /// The path after `/api/v1`, and the query.
    pub(crate) path: String,
    /// JSON. Empty: none.
    pub(crate) body: Bytes,
}

impl Client {
    /// Creates a client with the priority [`Priority::Create`]. Sends nothing. `now` is the service's clock.
    pub fn new(settings: &ConnectionSettings, now: Now) -> Result<Self, ClientSettingsError> {
        let (base_url, is_local) = checked_base_url(&settings.base_url, "base_url")?;
        let authorization = authorization(&settings.api_key)?;
        let tls = TlsSettings {
            is_https: base_url.starts_with("https:"),
            public_addresses_only: !is_local,
            ..TlsSettings::default()
        };
        let channel = Channel::new("the BTCPay Server", tls, settings.requests_per_second, Arc::clone(&now))?;
        Ok(Self { channel, base_url, is_local, store: settings.store.clone(), authorization, now })
    }

    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { channel: self.channel.at(priority), ..self.clone() }
    }

    pub fn store_id(&self) -> &StoreId {
        &self.store
    }

    /// Whether the server has a loopback address, so that it may use a test network.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns how far the server's clock is ahead, in seconds; negative: behind. `None`: not measured yet.
    pub fn clock_offset_seconds(&self) -> Option<i64> {
        self.channel.clock_offset_seconds()
    }

    pub(crate) async fn call(&self, request: ApiRequest) -> Result<Bytes, ApiError> {
        let operation = request.operation;
        let answer = self.channel.send(operation, self.prepare(request)?).await?;
        let status = answer.status;
        if status.is_success() {
            return Ok(answer.body);
        }
        let problem = ApiProblem::parse(&answer.body);
        // A proxy's page says nothing about the request, so it must not look like a final refusal. An answer to a wrong
        // key has no body.
        let is_bare = problem.is_none() && !matches!(status.as_u16(), 401 | 403);
        if !status.is_server_error() && (is_bare || answer.is_html() || !status.is_client_error()) {
            return Err(ApiError::Malformed(format!("a {} that is not the API's", status.as_u16())));
        }
        Err(ApiError::Answered { status: status.as_u16(), problem: problem.unwrap_or_default() })
    }

    fn prepare(&self, request: ApiRequest) -> Result<Request<Full<Bytes>>, ApiError> {
        let url = [&self.base_url, "/api/v1", &request.path].concat();
        let has_body = !request.body.is_empty();
        let mut prepared = Request::new(Full::new(request.body));
        *prepared.method_mut() = request.method;
        *prepared.uri_mut() =
            Uri::try_from(url).map_err(|_| ApiError::InvalidRequest("the URL is too long"))?;
        // There are no idempotency keys: a repeated creation makes a second invoice.
        if prepared.method() == Method::POST {
            prepared.extensions_mut().insert(SendOnce);
        }
        let headers = prepared.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static("payment-service-btcpay/1"));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(prepared)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base_url, store, .. } = self;
        f.debug_struct("Client").field("base_url", base_url).field("store", store).finish_non_exhaustive()
    }
}

fn authorization(key: &SecretString) -> Result<HeaderValue, ClientSettingsError> {
    let error = |rule| ClientSettingsError::Field { field: "api_key", rule };
    let key = key.expose_secret();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(error("be a whole key of letters and digits"));
    }
    let mut value = HeaderValue::from_str(&["token ", key].concat()).map_err(|_| error("be ASCII"))?;
    // No library logs it.
    value.set_sensitive(true);
    Ok(value)
}
