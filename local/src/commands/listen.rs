//! `cargo run -- listen`: registers an endpoint and prints each event that the endpoint receives. With
//! `--forward-to`, it also forwards each event unchanged, so that the signature remains valid.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::money::{Amount, Currency};
use domain::pt_br::format_amount;
use domain::webhook::event_type::{EventType, Family};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::{Host, Url};

use super::Running;
use super::running::text;
use crate::error::{Context, Error, Result};
use crate::wire::{HttpClient, http_client};

/// The path of the endpoint's URL. It distinguishes the endpoints of `listen` from the merchant's own
/// endpoints.
const PATH: &str = "/cargo-run-listen";

/// The timeout of a forwarded event, which equals the timeout of the service's own delivery attempts.
const FORWARD_LIMIT: Duration = Duration::from_secs(30);

/// The maximum length of the response to a forwarded event, in bytes.
const MAX_ANSWER_BYTES: usize = 65_536;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Empty: [`default_events`].
    pub events: Vec<String>,
    pub forward_to: Option<String>,
    pub print_json: bool,
}

pub type Print = Arc<dyn Fn(&str) + Send + Sync>;

/// Receives events until `end` resolves, then deletes the endpoint.
pub async fn listen(
    running: &Running,
    options: Options,
    print: Print,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let forward_to = options.forward_to.as_deref().map(forward_address).transpose()?;
    let socket = TcpListener::bind(("127.0.0.1", 0)).await.context("listening")?;
    let address = socket.local_addr().context("listening")?;
    let events = if options.events.is_empty() { default_events() } else { options.events.clone() };
    delete_stale_endpoints(running).await?;
    let endpoint = json!({"url": format!("http://{address}{PATH}"), "events": events});
    let endpoint = running.post("/v1/webhooks/endpoints", &endpoint).await?;
    let text = |name: &str| text(&endpoint, name);
    print(&format!(
        "Listening to {} events of {}\n\n  endpoint  {}\n  secret    {}\n            {} (for Standard Webhooks){}\n\nCtrl-C ends this command and deletes the endpoint. To cause an event: cargo run -- trigger charge.paid\n",
        events.len(),
        running.ready.base_url,
        text("id"),
        text("secret"),
        text("standardWebhooksSecret"),
        forward_to.as_ref().map(|url| format!("\n  forwards  {url}")).unwrap_or_default(),
    ));
    let listener = Listener {
        print: Arc::clone(&print),
        print_json: options.print_json,
        forward_to,
        http: http_client(),
    };
    let router = Router::new().fallback(receive).with_state(listener);
    let served = axum::serve(socket, router).with_graceful_shutdown(end).await;
    running.call(Method::DELETE, &format!("/v1/webhooks/endpoints/{}", text("id")), &Value::Null).await?;
    print("The endpoint is deleted.");
    served.context("listening")
}

pub fn default_events() -> Vec<String> {
    let canonical = EventType::subscribable().filter(|event| event.family() == Family::Canonical);
    canonical.map(|event| event.as_str().to_owned()).collect()
}

fn forward_address(text: &str) -> Result<String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.host().is_some());
    url.map(String::from)
        .ok_or_else(|| Error::new("--forward-to must be an http URL, such as http://127.0.0.1:4000/hook"))
}

/// Deletes the endpoints of earlier runs that were killed: those with [`PATH`] at an address that refuses
/// connections.
async fn delete_stale_endpoints(running: &Running) -> Result<()> {
    let endpoints = running.get("/v1/webhooks/endpoints").await?;
    for endpoint in endpoints.get("data").and_then(Value::as_array).into_iter().flatten() {
        let Ok(url) = Url::parse(text(endpoint, "url")) else { continue };
        let (Some(Host::Ipv4(host)), Some(port), PATH) = (url.host(), url.port(), url.path()) else {
            continue;
        };
        if tokio::net::TcpStream::connect((host, port)).await.is_err() {
            let path = format!("/v1/webhooks/endpoints/{}", text(endpoint, "id"));
            running.call(Method::DELETE, &path, &Value::Null).await?;
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Listener {
    print: Print,
    print_json: bool,
    forward_to: Option<String>,
    http: HttpClient,
}

async fn receive(State(listener): State<Listener>, headers: HeaderMap, body: Bytes) -> Response {
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut line = format_event(&event);
    let response = match &listener.forward_to {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(url) => {
            let began = Instant::now();
            let forwarded =
                tokio::time::timeout(FORWARD_LIMIT, forward(&listener.http, url, &headers, body)).await;
            let forwarded =
                forwarded.unwrap_or_else(|_| Err(format!("no answer within {} s", FORWARD_LIMIT.as_secs())));
            let took = began.elapsed().as_millis();
            match forwarded {
                Ok(response) => {
                    let _ = write!(line, "  -> {} in {took} ms", response.status().as_u16());
                    response
                }
                // Because of this status, the service records a failed attempt and retries the delivery.
                Err(error) => {
                    let _ = write!(line, "  -> {error}");
                    (StatusCode::BAD_GATEWAY, error).into_response()
                }
            }
        }
    };
    if listener.print_json {
        let _ = write!(line, "\n{event:#}");
    }
    (listener.print)(&line);
    response
}

async fn forward(
    http: &HttpClient,
    url: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> std::result::Result<Response, String> {
    let mut request = Request::post(url).body(Full::new(body)).map_err(|e| e.to_string())?;
    let is_forwarded =
        |name: &str| name.starts_with("x-service-") || name.starts_with("webhook-") || name == "content-type";
    let forwarded = headers.iter().filter(|(name, _)| is_forwarded(name.as_str()));
    request.headers_mut().extend(forwarded.map(|(name, value)| (name.clone(), value.clone())));
    let response = http.request(request).await.map_err(|_| format!("{url} does not answer"))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES)
        .collect()
        .await
        .map_err(|_| format!("the response is longer than {MAX_ANSWER_BYTES} bytes or was cut off"))?;
    let mut response = Response::new(Body::from(body.to_bytes()));
    *response.status_mut() = head.status;
    if let Some(retry_after) = head.headers.get("retry-after") {
        response.headers_mut().insert("retry-after", retry_after.clone());
    }
    Ok(response)
}

/// Formats an event as a line: `12:00:01  charge.paid  ch_…  paid  R$ 19,90`.
fn format_event(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let name = text("/type").or_else(|| text("/event")).unwrap_or("?");
    let at = text("/created_at").or_else(|| text("/data/occurredAt")).unwrap_or_default();
    let at = at.get(11..19).unwrap_or("--:--:--");
    let id = text("/data/object/id").or_else(|| text("/data/transactionId")).unwrap_or("?");
    // For a refund, the line shows the refund's status and amount. For a resolved MED case, it shows the outcome of
    // the case. For other events, it shows the object's status.
    let status = ["/data/refund/status", "/data/object/status", "/data/object/money_outcome", "/data/status"];
    let status = status.into_iter().find_map(text).unwrap_or_default();
    let amounts = ["/data/refund/amount", "/data/object/amount", "/data/amount"];
    let amount = amounts.into_iter().find_map(|pointer| event.pointer(pointer)?.as_i64());
    let amount = amount.and_then(|amount| Amount::parse(amount).ok()).map(|amount| {
        match text("/data/object/currency").map(Currency::parse) {
            Some(Ok(currency)) => format_amount(amount, currency),
            // Legacy events name no currency. Nearly all have two decimals.
            Some(Err(_)) | None => format_amount(amount, Currency::BRL).replace("R$ ", ""),
        }
    });
    format!("{at}  {name:<24}  {id}  {status}  {}", amount.unwrap_or_default()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_event_is_formatted_as_a_line() {
        let canonical = json!({
            "type": "charge.paid", "created_at": "2026-11-21T12:00:01.123Z",
            "data": {"object": {"id": "ch_1", "status": "paid", "amount": 1990, "currency": "BRL"}},
        });
        assert_eq!(format_event(&canonical), "12:00:01  charge.paid               ch_1  paid  R$ 19,90");
        let legacy = json!({
            "event": "payment.completed",
            "data": {"transactionId": "1", "status": "PAID", "amount": 1990, "occurredAt": "2026-11-21T12:00:01.123Z"},
        });
        assert_eq!(format_event(&legacy), "12:00:01  payment.completed         1  PAID  19,90");
        // The line shows the status and amount of the refund, not of the payment.
        let refund = json!({
            "event": "payment.refunded",
            "data": {"transactionId": "1", "status": "PAID", "amount": 1990, "occurredAt": "2026-11-21T12:00:01.123Z",
                "refund": {"id": "re_1", "amount": 100, "status": "IN_PROGRESS"}},
        });
        assert_eq!(format_event(&refund), "12:00:01  payment.refunded          1  IN_PROGRESS  1,00");
        let resolved = json!({
            "type": "med.resolved", "created_at": "2026-11-21T12:00:01.123Z",
            "data": {"object": {"id": "med_1", "amount": 1990, "currency": "BRL", "money_outcome": "lost"}},
        });
        assert_eq!(format_event(&resolved), "12:00:01  med.resolved              med_1  lost  R$ 19,90");
        let dollars = json!({"data": {"object": {"amount": 123_456, "currency": "USD"}}});
        assert!(format_event(&dollars).ends_with("USD 1.234,56"));
        assert_eq!(format_event(&Value::Null), "--:--:--  ?                         ?");
    }

    #[test]
    fn only_http_urls_are_accepted_to_forward_to() {
        forward_address("http://127.0.0.1:4000/hook").unwrap();
        forward_address("http://localhost:4000").unwrap();
        for text in ["", "localhost:4000", "https://127.0.0.1/hook", "/hook", "ftp://127.0.0.1"] {
            forward_address(text).unwrap_err();
        }
    }
}
