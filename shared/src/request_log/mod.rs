//! The log of requests: one row for each request with an API key that ends in an error, so that a merchant can see why.
//! For some minutes after `POST /v1/requests/record`, requests with that test key that succeed have a row too.
//!
//! The middleware writes the row after the handler and before the response is returned, because Lambda freezes the
//! function afterwards. It is one request of at most half a second, without a retry. If it fails, the log lacks the
//! request, and the response is the same.
//!
//! Only authentication creates a `Recorder`, so a request without a valid API key has no row: log-ins, forms,
//! payers' pages and banks' notifications.

mod harmless;
mod list;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use domain::ids::{LoggedRequestId, Mode, Scope};
use domain::row::{Indexes, Key, Row, sortable};
use domain::time::Timestamp;

use self::harmless::{harmless_fields, harmless_text, is_id};
use crate::api_key::ApiKey;
use crate::http::field::{AtMost, BodyFields, Integer};
use crate::http::{Fields, JsonObject, Problem, RequestContext};
use crate::random;
use crate::request_limit::Window;
use crate::store::{Store, StoreError, to_item, unavailable};

pub use harmless::HARMLESS_FIELDS;
pub use list::{ErrorGroup, REQUESTS_QUERY, RequestFilter, RequestLog};

/// How long a row is kept, in seconds: 7 days.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// The most rows that an instance of a function writes in a minute, so that a client that repeats a failing request
/// costs little.
const MAX_ROWS_A_MINUTE: i64 = 60;

/// The longest delay of a response. A write takes about 10 ms.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// A longer answer is logged without its fields, so that it is not copied.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The beginning of the routes of the log itself, which it never contains.
const OWN_ROUTES: &str = "/v1/request";

crate::fields! {
    MINUTES: Integer = "minutes", Integer { min: 1, max: AtMost::Refused(60), unit: "minutes" }, Required, 15,
        "How long requests with this key that succeed are recorded too. A later request replaces the time.";
}

pub const RECORDING_BODY: BodyFields = BodyFields::strict(&[&MINUTES]);

/// Parses the body of `POST /v1/requests/record`.
pub fn recorded_minutes(body: &JsonObject) -> Result<i64, Problem> {
    let mut fields = Fields::new();
    let root = fields.body(body, RECORDING_BODY);
    let minutes = fields.read(&root, &MINUTES);
    fields.finish(minutes)
}

/// Until when requests that succeed are recorded.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "RequestRecording")]
pub struct RecordingView {
    /// When the recording ends.
    pub recorded_until: Timestamp,
}

/// A request of the last 7 days that ended with an error, or that was recorded.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct LoggedRequest {
    /// The service's id of the request.
    pub id: LoggedRequestId,
    /// When the request arrived.
    pub created_at: Timestamp,
    /// The `X-Request-Id` of the response: the client's, cut to 64 bytes, or else `id`.
    pub request_id: String,
    /// The method, such as `POST`.
    pub method: String,
    /// The route, such as `/v1/charges/{id}`.
    pub route: String,
    /// The first id in the path. `null` if it has none.
    pub path_id: Option<String>,
    /// The HTTP status of the response.
    pub status: u16,
    /// `error.code` of the response. `null` if the request succeeded.
    pub code: Option<String>,
    /// `error.param` of the response. `null` if it concerns no single field.
    pub param: Option<String>,
    /// The first characters of the API key.
    pub key_prefix: String,
    /// The network that the request came from, such as `203.0.113.0/24`. `null` if it is unknown.
    pub network: Option<String>,
    /// How long the service took, in milliseconds.
    pub duration_ms: u64,
    /// Fields of the request's body, with masked documents, if the key is a test key. `null` without such fields.
    pub body: Option<Map<String, Value>>,
    /// Fields of the response's body, with masked documents, if the key is a test key. `null` without such fields.
    pub response: Option<Map<String, Value>>,
}

/// The row of a request.
#[derive(Serialize)]
struct Stored<'a> {
    #[serde(skip)]
    scope: Scope,
    #[serde(flatten)]
    request: &'a LoggedRequest,
}

fn key_of(scope: &Scope, id: LoggedRequestId) -> Key {
    Key { pk: partition(scope, &id.group()), sk: id.to_string() }
}

/// The partition of the requests that share a client's id.
fn partition(scope: &Scope, group: &str) -> String {
    format!("request#{scope}#{group}")
}

fn list_partition(scope: &Scope) -> String {
    format!("requests#{scope}")
}

impl LoggedRequest {
    /// The time, the id, and what lists filter and group by, so that they read no rows for it.
    fn list_sort(&self) -> String {
        let [code, param] = [&self.code, &self.param].map(|text| text.as_deref().unwrap_or_default());
        let Self { id, status, method, route, .. } = self;
        format!("{}#{id}#{status}#{method}#{route}#{code}#{param}", sortable(self.created_at))
    }

    fn expires_at(&self) -> Timestamp {
        self.created_at.saturating_plus_seconds(KEPT_SECONDS)
    }
}

impl Row for Stored<'_> {
    fn key(&self) -> Key {
        key_of(&self.scope, self.request.id)
    }

    fn indexes(&self) -> Indexes {
        let list = Some((list_partition(&self.scope), self.request.list_sort()));
        Indexes { list, ..Indexes::default() }
    }

    fn removable_at(&self) -> Option<Timestamp> {
        Some(self.request.expires_at())
    }
}

/// The rows that a function has written: the number of the minute times [`Self::STEP`], plus the rows of that minute.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowCount(Arc<AtomicI64>);

impl RowCount {
    /// More than a minute can have rows.
    const STEP: i64 = 1_000;

    /// Counts a row. `false`: the minute has no further one.
    fn admits(&self, now: Timestamp) -> bool {
        let first = Window::minute(now).number.saturating_mul(Self::STEP);
        let count = |rows: i64| {
            let rows = rows.max(first);
            (rows < first.saturating_add(MAX_ROWS_A_MINUTE)).then(|| rows.saturating_add(1))
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

/// What authentication finds out for the row of a request.
#[derive(Debug)]
pub(crate) struct Recorder {
    store: Store,
    count: RowCount,
    scope: Scope,
    key_prefix: String,
    /// Whether requests that succeed are recorded too.
    records_all: bool,
    now: Timestamp,
}

impl Recorder {
    pub(crate) fn new(store: &Store, count: &RowCount, key: &ApiKey, now: Timestamp) -> Self {
        Self {
            store: store.clone(),
            count: count.clone(),
            scope: Scope { account: key.account, mode: key.mode },
            key_prefix: key.prefix.clone(),
            records_all: key.record_until.is_some_and(|until| now < until),
            now,
        }
    }

    /// Whether a request on this route, which ended with this status, gets a row. Counts the row.
    pub(crate) fn admits(&self, route: &str, status: u16) -> bool {
        (self.records_all || status >= 400)
            && status != 429
            && !route.starts_with(OWN_ROUTES)
            && self.count.admits(self.now)
    }

    /// Writes the row of a request, and returns its response unchanged.
    pub(crate) async fn record(
        &self,
        context: &RequestContext,
        (method, route, path): (&str, &str, &str),
        problem: Option<&Problem>,
        duration_ms: u64,
        response: Response,
    ) -> Response {
        let status = response.status().as_u16();
        let is_test = self.scope.mode == Mode::Test;
        let (answer, response) = if is_test { json_of(response).await } else { (None, response) };
        let request = self.id_of(context).map(|(id, request_id)| LoggedRequest {
            id,
            created_at: self.now,
            request_id,
            method: method.to_owned(),
            route: route.to_owned(),
            path_id: path_id(route, path),
            status,
            code: problem.map(|problem| problem.code().to_owned()),
            // The client chooses the names of unknown fields.
            param: problem.and_then(Problem::param).and_then(harmless_text),
            key_prefix: self.key_prefix.clone(),
            network: context.source.wide_network(),
            duration_ms,
            body: context.body().filter(|_| is_test).and_then(|body| harmless_fields(body)),
            response: answer.and_then(|answer| harmless_fields(&answer)),
        });
        let written = match request {
            Ok(request) => self.write(&request).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "a request is missing in the log of requests");
        }
        response
    }

    /// The service's own id, and the id that the response shows.
    fn id_of(&self, context: &RequestContext) -> Result<(LoggedRequestId, String), StoreError> {
        let shown = context.id.stored().as_str().to_owned();
        let own = match context.id.own() {
            Some(own) => own,
            None => LoggedRequestId::of_client(context.id.as_str(), self.now, random::bytes()?),
        };
        Ok((own, shown))
    }

    async fn write(&self, request: &LoggedRequest) -> Result<(), StoreError> {
        let item = to_item(&Stored { scope: self.scope, request })?;
        let put = self.store.client().put_item().table_name(self.store.table()).set_item(Some(item));
        let once = Config::builder().retry_config(RetryConfig::disabled());
        let put = put.customize().config_override(once).send();
        let late = |_| StoreError::Unavailable("no answer in time".to_owned());
        tokio::time::timeout(WRITE_TIMEOUT, put).await.map_err(late)?.map(drop).map_err(unavailable)
    }
}

/// Returns the bytes of an answer that is short JSON, and the same response.
async fn json_of(response: Response) -> (Option<Bytes>, Response) {
    let is_json = |kind: &axum::http::HeaderValue| kind.as_bytes().starts_with(b"application/json");
    let is_short = response.body().size_hint().exact().is_some_and(|bytes| bytes <= MAX_ANSWER_BYTES);
    if !is_short || !response.headers().get(CONTENT_TYPE).is_some_and(is_json) {
        return (None, response);
    }
    let (head, body) = response.into_parts();
    // The body is in memory and short, so it can be read.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    (Some(bytes.clone()), Response::from_parts(head, Body::from(bytes)))
}

/// The first variable of a path, if it has the form of an id.
fn path_id(route: &str, path: &str) -> Option<String> {
    let mut parts = route.split('/').zip(path.split('/'));
    let (_, value) = parts.find(|(part, _)| part.starts_with('{'))?;
    is_id(value).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_shows_an_id_and_nothing_else() {
        let route = "/v1/charges/{id}/timeline";
        let id = "ch_fe5392dd-e865-8656-a544-24ef3d590c1b";
        assert_eq!(path_id(route, &format!("/v1/charges/{id}/timeline")).as_deref(), Some(id));
        assert_eq!(path_id(route, "/v1/charges/ana@example.com/timeline"), None);
        assert_eq!(path_id("/v1/charges", "/v1/charges"), None);
    }
}
