//! Replaces API Gateway's HTTP APIs, all on one port. It converts each HTTP request to an event (payload
//! format 2.0), selects the function by the template's routes, and converts the function's response to an
//! HTTP response.
//!
//! The gateway itself rejects the requests that API Gateway rejects, such as one whose body is too large. The
//! error has the API's format.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
    TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use shared::http::{Problem, problem_response};
use tokio::net::TcpListener;
use tokio::sync::RwLock;
use tower::ServiceExt;

use crate::error::{Context, Error, Result};
use crate::guard::is_loopback_url;
use crate::http::{self, Server};
use crate::lambda::{Functions, Invoke};
use crate::template::{Route, Template};

/// API Gateway's maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// The maximum number of bytes that are read of a body that is too large. A client that sends a longer body
/// may not receive the error response.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;

const X_REQUEST_ID: &str = "x-request-id";

/// The prefix of the routes that exist only on this machine.
const LOCAL_PREFIX: &str = "/_local/";

/// Browsers accept a cookie with this prefix only with `Secure`, and some accept `Secure` only by https, also from
/// loopback. So by plain http the gateway renames such cookies, and the functions are the same as in a stack.
const SECURE_PREFIX: &str = "__Host-";
const PLAIN_PREFIX: &str = "local-";

struct Api {
    /// The address of the gateway, used as the host of requests without a valid `Host` header.
    authority: String,
    routes: Vec<Target>,
    local: Option<LocalRoutes>,
    plain_cookies: bool,
}

/// What only the service on one machine has.
pub(crate) struct LocalRoutes {
    pub router: Router,
    /// Each request to a function holds this for reading, so that its writer stops all requests.
    pub gate: Arc<RwLock<()>>,
}

struct Target {
    route: Route,
    /// The route as API Gateway writes it, such as `GET /v1/things/{id}`.
    key: String,
    invoke: Invoke,
}

/// Starts the gateway, which browsers reach by `base_url`. Without `local`, the functions receive those requests too.
pub(crate) fn start(
    listener: TcpListener,
    base_url: &str,
    template: &Template,
    functions: &Functions,
    local: Option<LocalRoutes>,
) -> Result<Server> {
    let mut routes = Vec::new();
    for function in &template.functions {
        for route in &function.routes {
            let missing = || Error::new(format!("{} has routes, but does not exist", function.logical_id));
            let invoke = functions.get(&function.logical_id).ok_or_else(missing)?;
            let key = match route {
                Route::Default => "$default".to_owned(),
                Route::Path { method, path } => format!("{method} {path}"),
            };
            routes.push(Target { route: route.clone(), key, invoke: Arc::clone(invoke) });
        }
    }
    // As in API Gateway, the most specific route comes first. The path is compared before the method, and
    // a text segment is more specific than a variable.
    routes.sort_by_key(|target| rank(&target.route));
    let doing = "starting the gateway";
    let authority = listener.local_addr().context(doing)?.to_string();
    let plain_cookies = base_url.starts_with("http://") && is_loopback_url(base_url);
    let api = Arc::new(Api { authority, routes, local, plain_cookies });
    http::serve_with(listener, None, api, Api::handle).context(doing)
}

/// Returns the sort key that orders more specific routes first.
fn rank(route: &Route) -> (Vec<u8>, bool) {
    let segment = |segment: &str| match segment {
        rest if rest.ends_with("+}") => 2,
        variable if variable.starts_with('{') => 1,
        _ => 0,
    };
    match route {
        Route::Default => (vec![u8::MAX], true),
        Route::Path { method, path } => (path.split('/').map(segment).collect(), method == "ANY"),
    }
}

fn is_match(route: &Route, method: &Method, path: &str) -> bool {
    let Route::Path { method: expected, path: pattern } = route else { return true };
    if expected != "ANY" && expected != method.as_str() {
        return false;
    }
    let mut rest = Some(path);
    for segment in pattern.split('/') {
        let Some(remaining) = rest else { return false };
        if segment.ends_with("+}") {
            return !remaining.is_empty();
        }
        let (first, after) = remaining.split_once('/').map_or((remaining, None), |(a, b)| (a, Some(b)));
        let is_variable = segment.starts_with('{') && !first.is_empty();
        if segment != first && !is_variable {
            return false;
        }
        rest = after;
    }
    rest.is_none()
}

impl Api {
    async fn handle(self: Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let mut response = self.answer(request, peer).await;
        if self.plain_cookies && response.headers().contains_key(SET_COOKIE) {
            let set: Vec<String> = response.headers().get_all(SET_COOKIE).iter().map(decode).collect();
            response.headers_mut().remove(SET_COOKIE);
            for cookie in set.iter().map(|cookie| plain_cookie(cookie)) {
                if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                    response.headers_mut().append(SET_COOKIE, cookie);
                }
            }
        }
        response
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let Some(body) = read_body(body).await else {
            let message = "The body is larger than 10 MiB.".to_owned();
            return collect_body(problem_response(&head.headers, &Problem::Unreadable(message))).await;
        };
        if let Some(local) = self.local.as_ref().filter(|_| is_local(&head)) {
            // This comes before the headers are changed, because the guard checks the headers that the client
            // sent.
            let request = Request::from_parts(head, Body::from(body));
            let Ok(response) = local.router.clone().oneshot(request).await;
            return collect_body(response).await;
        }
        let _open = match &self.local {
            Some(local) => Some(local.gate.read().await),
            None => None,
        };
        self.set_forwarding_headers(&mut head, peer);
        let path = head.uri.path();
        let Some(target) = self.routes.iter().find(|target| is_match(&target.route, &head.method, path))
        else {
            let (method, path) = (head.method.to_string(), path.to_owned());
            return collect_body(problem_response(&head.headers, &Problem::NoSuchRoute { method, path }))
                .await;
        };
        let event = event(&head, &body, peer, &target.key);
        let returned = (target.invoke)(event).await;
        let response = returned
            .and_then(|returned| response(&returned).ok_or_else(|| "not an HTTP API response".to_owned()));
        match response {
            Ok(response) => response,
            Err(error) => {
                let problem = Problem::Internal(format!("{} failed: {error}", target.key));
                collect_body(problem_response(&head.headers, &problem)).await
            }
        }
    }

    /// Sets the headers with the client's address and the scheme, as API Gateway does, even if the client
    /// sent them.
    ///
    /// Also replaces an invalid host and an invalid path, because `lambda_http` needs a host and a path that
    /// form a URL.
    fn set_forwarding_headers(&self, head: &mut Parts, peer: SocketAddr) {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let is_host =
            |host: &&str| url::Url::parse(&format!("http://{host}/")).is_ok_and(|url| url.path() == "/");
        let host = host.filter(is_host).unwrap_or(&self.authority).to_owned();
        let forwarded = [
            (HOST, host),
            (HeaderName::from_static("x-forwarded-for"), peer.ip().to_string()),
            (HeaderName::from_static("x-forwarded-proto"), "http".to_owned()),
        ];
        for (name, value) in forwarded {
            if let Ok(value) = HeaderValue::from_str(&value) {
                head.headers.insert(name, value);
            }
        }
        // Removes a request id that is not UTF-8. In the JSON event, its bytes would become other characters,
        // so the response would contain a request id that the client did not send.
        let id = head.headers.get(X_REQUEST_ID);
        if id.is_some_and(|id| std::str::from_utf8(id.as_bytes()).is_err()) {
            head.headers.remove(X_REQUEST_ID);
        }
        // `OPTIONS *` has no path.
        if !head.uri.path().starts_with('/') {
            head.uri = hyper::Uri::from_static("/");
        }
    }
}

fn plain_cookie(set: &str) -> String {
    match set.strip_prefix(SECURE_PREFIX) {
        Some(rest) => format!("{PLAIN_PREFIX}{}", rest.replacen("; Secure", "", 1)),
        None => set.to_owned(),
    }
}

/// Whether a request is for a route that exists only on this machine.
fn is_local(head: &Parts) -> bool {
    let path = head.uri.path();
    path.starts_with(LOCAL_PREFIX) || (path == "/" && matches!(head.method, Method::GET | Method::HEAD))
}

/// Reads a body of at most [`MAX_BODY_BYTES`]. `None`: the body is longer, or it was cut off.
///
/// Reads and drops up to [`MAX_DRAINED_BYTES`] of a longer body, because a client that is still sending does
/// not read the response.
async fn read_body(mut body: Incoming) -> Option<Bytes> {
    let mut content = BytesMut::new();
    let mut received: usize = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else {
            continue;
        };
        received = received.saturating_add(data.len());
        if received > MAX_DRAINED_BYTES {
            return None;
        }
        if received <= MAX_BODY_BYTES {
            content.extend_from_slice(&data);
        }
    }
    (received <= MAX_BODY_BYTES).then(|| content.freeze())
}

async fn collect_body(response: Response<Body>) -> Response<Full<Bytes>> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Response::from_parts(head, Full::new(body))
}

/// Creates the event of API Gateway's payload format 2.0, without the parameters of path and query.
fn event(head: &Parts, body: &Bytes, peer: SocketAddr, route_key: &str) -> Value {
    let path = head.uri.path();
    let text =
        |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now: chrono::DateTime<chrono::Utc> = SystemTime::now().into();
    let mut event = json!({
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": path,
        "rawQueryString": head.uri.query().unwrap_or_default(),
        "headers": join_headers(&head.headers),
        "requestContext": {
            "accountId": crate::embedded::ACCOUNT,
            "apiId": "local",
            "domainName": text(HOST),
            "http": {
                "method": head.method.as_str(),
                "path": path,
                "protocol": format!("{:?}", head.version),
                "sourceIp": peer.ip().to_string(),
                "userAgent": text(hyper::header::USER_AGENT),
            },
            "requestId": uuid::Uuid::new_v4().to_string(),
            "routeKey": route_key,
            "stage": "$default",
            "time": now.format("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            "timeEpoch": u64::try_from(since_epoch.as_millis()).unwrap_or_default(),
        },
        "isBase64Encoded": false,
    });
    let Some(fields) = event.as_object_mut() else {
        return event;
    };
    let cookies: Vec<&str> =
        head.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).collect();
    if !cookies.is_empty() {
        let cookies = cookies.join("; ");
        let cookies = cookies.split("; ").map(|cookie| match cookie.strip_prefix(PLAIN_PREFIX) {
            Some(rest) => format!("{SECURE_PREFIX}{rest}"),
            None => cookie.to_owned(),
        });
        fields.insert("cookies".to_owned(), cookies.collect());
    }
    if !body.is_empty() {
        let as_text = std::str::from_utf8(body).ok().filter(|_| is_text(text(CONTENT_TYPE)));
        fields.insert("isBase64Encoded".to_owned(), as_text.is_none().into());
        fields.insert("body".to_owned(), as_text.map_or_else(|| STANDARD.encode(body), str::to_owned).into());
    }
    event
}

/// API Gateway encodes other bodies in base64.
fn is_text(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/")
        || ["application/json", "application/javascript", "application/xml"].contains(&essence.as_str())
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
}

/// Cookies are omitted, because they have their own field in the event. A value that is not UTF-8 is decoded
/// as Latin-1, because the event is JSON.
fn join_headers(headers: &HeaderMap) -> Map<String, Value> {
    let mut map = Map::new();
    for name in headers.keys().filter(|name| **name != COOKIE) {
        let values: Vec<String> = headers.get_all(name).iter().map(decode).collect();
        map.insert(name.as_str().to_owned(), values.join(",").into());
    }
    map
}

fn decode(value: &HeaderValue) -> String {
    let bytes = value.as_bytes();
    std::str::from_utf8(bytes)
        .map_or_else(|_| bytes.iter().map(|byte| char::from(*byte)).collect(), str::to_owned)
}

/// Converts a function's response (payload format 2.0) to an HTTP response. `None`: it is malformed.
fn response(returned: &Value) -> Option<Response<Full<Bytes>>> {
    let status = returned.get("statusCode")?.as_u64()?;
    let status = StatusCode::from_u16(u16::try_from(status).ok()?).ok()?;
    let text = returned.get("body").and_then(Value::as_str).unwrap_or_default();
    let body = match returned.get("isBase64Encoded").and_then(Value::as_bool) {
        Some(true) => Bytes::from(STANDARD.decode(text).ok()?),
        _ => Bytes::from(text.to_owned()),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    for (name, value) in returned.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(value.as_str()?.as_bytes()).ok()?;
        // The server sets the headers of the connection and the body's length itself.
        if ![CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
            response.headers_mut().insert(name, value);
        }
    }
    for cookie in returned.get("cookies").and_then(Value::as_array).into_iter().flatten() {
        response.headers_mut().append(SET_COOKIE, HeaderValue::from_str(cookie.as_str()?).ok()?);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use axum::routing::any;

    use super::*;
    use crate::lambda::event_function;

    /// Starts a gateway whose functions are all this one.
    async fn gateway_of(base_url: &str, function: Invoke) -> Server {
        let template = Template::deployed().unwrap();
        let mut functions = Functions::new();
        for declared in &template.functions {
            functions = functions.with(&declared.logical_id, Arc::clone(&function));
        }
        start(http::bind_loopback(0).await.unwrap(), base_url, &template, &functions, None).unwrap()
    }

    /// Sends a request to a gateway whose functions return the event. Returns the event.
    async fn echoed(request: hyper::http::request::Builder, path: &str, body: &'static [u8]) -> Value {
        let echo = event_function(|event: Value| async move {
            Ok::<_, Error>(json!({"statusCode": 200, "body": event.to_string()}))
        });
        let gateway = gateway_of("http://127.0.0.1", echo).await;
        let request = request.uri(format!("{}{path}", gateway.url())).body(Full::new(body.into())).unwrap();
        let answer = crate::wire::send(&crate::wire::http_client(), request, "testing").await.unwrap();
        serde_json::from_slice(answer.body()).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_converted_to_the_event_that_api_gateway_creates() {
        let request = Request::post("/")
            .header("X-Thing", "one")
            .header("x-thing", "two")
            .header("cookie", "a=1; b=2")
            .header("content-type", "application/json");
        let event = echoed(request, "/v1/charges/a%20b?q=1&q=%26&r", "{\"é\":1}".as_bytes()).await;
        assert_eq!(
            (&event["version"], &event["routeKey"]),
            (&json!("2.0"), &json!("ANY /v1/charges/{proxy+}"))
        );
        assert_eq!(
            (&event["rawPath"], &event["rawQueryString"]),
            (&json!("/v1/charges/a%20b"), &json!("q=1&q=%26&r"))
        );
        assert_eq!(
            (&event["headers"]["x-thing"], &event["cookies"]),
            (&json!("one,two"), &json!(["a=1", "b=2"]))
        );
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("{\"é\":1}"), &json!(false)));
        assert_eq!(event["requestContext"]["http"]["method"], "POST");
        assert_eq!(event["requestContext"]["http"]["sourceIp"], "127.0.0.1");

        let request = Request::post("/").header("content-type", "image/png");
        let binary = echoed(request, "/v1/charges", b"\x00\xff").await;
        assert_eq!((&binary["body"], &binary["isBase64Encoded"]), (&json!("AP8="), &json!(true)));
    }

    #[tokio::test]
    async fn cookies_need_no_https_on_a_loopback_address_without_an_https_base() {
        const SET: &str = "__Host-session=a; Path=/; Max-Age=9; Secure; HttpOnly; SameSite=Lax";
        const PLAIN: &str = "local-session=a; Path=/; Max-Age=9; HttpOnly; SameSite=Lax";
        for (base_url, set) in [
            ("http://127.0.0.1:3000", PLAIN),
            ("http://[::1]:3000", PLAIN),
            ("http://localhost", PLAIN),
            ("https://localhost", SET),
            ("http://192.168.1.7:3000", SET),
            ("https://pay.example", SET),
        ] {
            let echo = event_function(|event: Value| async move {
                let sent = event["cookies"].to_string();
                Ok::<_, Error>(json!({"statusCode": 200, "body": sent, "cookies": [SET, "other=1; Secure"]}))
            });
            let gateway = gateway_of(base_url, echo).await;
            // The client chooses the host, so that it decides nothing.
            let request = Request::get(format!("{}/v1/charges", gateway.url())).header("host", "pay.example");
            let request =
                request.header("cookie", "local-session=a; session=b").body(Full::default()).unwrap();
            let answer = crate::wire::send(&crate::wire::http_client(), request, "testing").await.unwrap();
            let cookies: Vec<String> = answer.headers().get_all(SET_COOKIE).iter().map(decode).collect();
            assert_eq!(cookies, [set, "other=1; Secure"], "{base_url}");
            assert_eq!(answer.body(), "[\"__Host-session=a\",\"session=b\"]");
        }
    }

    /// Sends bytes that no client library would send, and returns all bytes until the server closes the
    /// connection.
    async fn raw(gateway: &Server, request: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_request_with_an_invalid_host_or_path_still_reaches_its_router() {
        let router = Router::new().fallback(any(|headers: HeaderMap, uri: hyper::Uri| async move {
            format!("{} {}", headers["x-forwarded-proto"].to_str().unwrap(), uri.path())
        }));
        let gateway = gateway_of("https://pay.example", crate::lambda::http_function(router)).await;
        for host in ["two words", "", "a/b", "[", "ok:99999999"] {
            let request = format!(
                "GET /v1/charges HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: :// \r\nConnection: close\r\n\r\n"
            );
            let answer = raw(&gateway, &request).await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("http /v1/charges"), "{answer}");
        }
        let star = "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answer = raw(&gateway, star).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("http /"), "{answer}");
    }
}
