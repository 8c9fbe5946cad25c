use std::fmt;
use std::sync::Arc;

use acquirer_http::{Channel, ClientSettingsError, Now, Priority, TlsSettings, checked_base_url};
use domain::time::Timestamp;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use secrecy::{ExposeSecret as _, SecretString};

use crate::API_VERSION;
use crate::error::{ApiError, ApiProblem};
use crate::requests::{ApiRequest, FILES};

pub const API_URL: &str = "https://api.stripe.com";

/// The host of uploads.
pub const FILES_URL: &str = "https://files.stripe.com";

/// How to connect to one account. `Debug` does not show the key.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// [`API_URL`], or a stand-in's URL. It must be https, except for a loopback address or `localhost`.
    pub base_url: String,
    /// [`FILES_URL`], or a stand-in's URL. The same rule applies.
    pub files_url: String,
    /// A restricted or secret key. A test key moves no money, so it is refused unless both URLs are loopback addresses.
    pub api_key: SecretString,
    /// The most requests a second, 1 to 10,000. The limit applies to one [`Client`] and its clones.
    pub requests_per_second: Option<u32>,
}

/// A client of one account. Clones share what a [`Channel`] shares; each has its own priority and deadline.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    base_url: String,
    files_url: String,
    authorization: HeaderValue,
    is_live: bool,
    now: Now,
}

impl Client {
    /// Creates a client with the priority [`Priority::Create`]. Sends nothing. `now` is the service's clock.
    pub fn new(settings: &ConnectionSettings, now: Now) -> Result<Self, ClientSettingsError> {
        let (base_url, is_base_local) = checked_base_url(&settings.base_url, "base_url")?;
        let (files_url, is_files_local) = checked_base_url(&settings.files_url, "files_url")?;
        let authorization = authorization(&settings.api_key, is_base_local && is_files_local)?;
        let is_https = [&base_url, &files_url].iter().any(|url| url.starts_with("https:"));
        let tls = TlsSettings { is_https, ..TlsSettings::default() };
        let channel = Channel::new("Stripe", tls, settings.requests_per_second, Arc::clone(&now))?;
        let is_live = settings.api_key.expose_secret().split('_').nth(1) == Some("live");
        Ok(Self { channel, base_url, files_url, authorization, is_live, now })
    }

    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self { channel: self.channel.at(priority), ..self.clone() }
    }

    /// Whether the key is a live one, so that its objects have `livemode`.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns how far Stripe's clock is ahead, in seconds; negative: behind. `None`: not measured yet. An offset of
    /// minutes makes the signatures of notifications invalid.
    pub fn clock_offset_seconds(&self) -> Option<i64> {
        self.channel.clock_offset_seconds()
    }

    pub(crate) async fn call(&self, request: ApiRequest) -> Result<Bytes, ApiError> {
        let answer = self.channel.send(request.list, self.prepare(&request)?).await?;
        let status = answer.status;
        if status.is_success() {
            return Ok(answer.body);
        }
        let problem = ApiProblem::parse(&answer.body);
        // A proxy's page says nothing about the request, so it must not look like a final refusal.
        if !status.is_server_error() && (problem.is_none() || !status.is_client_error()) {
            return Err(ApiError::Malformed(format!("a {} that is not the API's", status.as_u16())));
        }
        let is_replayed = answer.header("idempotent-replayed") == Some("true");
        Err(ApiError::Answered { status: status.as_u16(), problem: problem.unwrap_or_default(), is_replayed })
    }

    fn prepare(&self, request: &ApiRequest) -> Result<Request<Full<Bytes>>, ApiError> {
        let host = if request.list == FILES { &self.files_url } else { &self.base_url };
        let url = [host, request.list, &request.rest].concat();
        let invalid = |_| ApiError::InvalidRequest("a header has a control character");
        let header = |value: &str| HeaderValue::from_str(value).map_err(invalid);
        let (content_type, content) = &request.body;
        let mut prepared = Request::new(Full::new(content.clone()));
        *prepared.method_mut() = request.method.clone();
        *prepared.uri_mut() =
            Uri::try_from(url).map_err(|_| ApiError::InvalidRequest("the URL is too long"))?;
        let headers = prepared.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static("payment-service-stripe/1"));
        headers.insert("stripe-version", HeaderValue::from_static(API_VERSION));
        if request.method == Method::POST {
            headers.insert(CONTENT_TYPE, header(content_type)?);
            headers.insert("idempotency-key", header(&request.idempotency_key)?);
        }
        Ok(prepared)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

fn authorization(key: &SecretString, is_local: bool) -> Result<HeaderValue, ClientSettingsError> {
    let error = |rule| ClientSettingsError::Field { field: "api_key", rule };
    let key = key.expose_secret();
    let (kind, rest) = key.split_at_checked("sk_live_".len()).unwrap_or_default();
    if rest.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(error("be a whole key of letters, digits and `_`"));
    }
    match kind {
        "rk_live_" | "sk_live_" => {}
        "rk_test_" | "sk_test_" if is_local => {}
        "rk_test_" | "sk_test_" => return Err(error("be a live key, because a test key moves no money")),
        _ => return Err(error("be a restricted key (`rk_live_…`) or a secret key (`sk_live_…`)")),
    }
    let mut value = HeaderValue::from_str(&["Bearer ", key].concat()).map_err(|_| error("be ASCII"))?;
    // No library logs it.
    value.set_sensitive(true);
    Ok(value)
}
