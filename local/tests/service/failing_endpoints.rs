//! Tests of endpoints that fail. Each kind of failure is recorded in its delivery, and a failing endpoint
//! does not delay healthy ones. The sender's own tests cover each failure in detail, including a hanging
//! server, which would take 30 s here.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use shared::webhook::delivery::{Claim, Deliveries};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::invocations::{dispatch, run_webhook_worker};
use crate::support::{Listener, Service, eventually, id};

/// The bytes that an endpoint sends after it has read a request.
#[derive(Clone, Copy)]
struct Script {
    head: &'static str,
    body: &'static [u8],
    is_endless: bool,
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, script: Script) {
    let mut request = vec![0; 64 * 1024];
    let _ = stream.read(&mut request).await;
    let _ = stream.write_all(script.head.as_bytes()).await;
    while stream.write_all(script.body).await.is_ok() && script.is_endless {}
    let _ = stream.shutdown().await;
}

/// Starts an endpoint that plays a script. Returns its URL.
async fn start_endpoint(script: Script, tls: Option<TlsAcceptor>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _): (TcpStream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                match tls {
                    None => play(stream, script).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            play(stream, script).await;
                        }
                    }
                }
            });
        }
    });
    url
}

/// Returns a TLS acceptor with a self-signed certificate.
fn self_signed() -> TlsAcceptor {
    let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(certificate.signing_key.serialize_der().into());
    let config =
        ServerConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn each_kind_of_endpoint_failure_is_recorded_in_its_delivery() {
    let service = Service::start().await;
    let response = |head, body| Script { head, body, is_endless: false };
    let gzip: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xed, 0xc1, 1, 1];
    let endless = Script { head: "HTTP/1.1 500 No\r\n\r\n", body: &[b'x'; 4096], is_endless: true };
    let bomb =
        Script { head: "HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\n\r\n", body: gzip, is_endless: true };
    let cases = [
        (
            response("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n", b"no"),
            None,
            json!(500),
            "answered 500",
            "no",
        ),
        (
            response("HTTP/1.1 308 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", b""),
            None,
            json!(308),
            "redirects are not followed",
            "",
        ),
        (
            response("HTTP/1.1 429 Wait\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n", b""),
            None,
            json!(429),
            "answered 429",
            "",
        ),
        (response("", b""), None, Value::Null, "connection closed", ""),
        (response("SSH-2.0-OpenSSH\r\n", b""), None, Value::Null, "not HTTP", ""),
        (endless, None, json!(500), "answered 500", "xxxx"),
        (bomb, None, json!(500), "answered 500", "content-encoding gzip"),
        (
            response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
            Some(self_signed()),
            Value::Null,
            "TLS certificate not valid",
            "",
        ),
    ];
    let mut expected = Vec::new();
    for (script, tls, status_code, error, body) in cases {
        let url = start_endpoint(script, tls).await;
        let registered = service.register_endpoint(&url, &["charge.created"]).await;
        expected.push((id(&registered).to_owned(), status_code, error, body));
    }
    service.charge().await;
    let deliveries = eventually("the first attempt of each delivery fails", async || {
        let ended = |delivery: &Value| delivery["attempts"] == 1 && delivery["status"] == "PENDING";
        let deliveries = service.deliveries("").await;
        (deliveries.len() == expected.len() && deliveries.iter().all(ended)).then_some(deliveries)
    })
    .await;
    for (endpoint, status_code, error, body) in expected {
        let delivery =
            deliveries.iter().find(|delivery| delivery["endpointId"] == endpoint.as_str()).unwrap();
        assert_eq!(delivery["lastStatusCode"], status_code, "{error}: {delivery}");
        assert!(delivery["lastError"].as_str().unwrap().contains(error), "{error}: {delivery}");
        let recorded_body =
            delivery["lastResponseBody"].as_str().unwrap_or_else(|| panic!("{error}: {delivery}"));
        assert!(
            recorded_body.contains(body) && recorded_body.is_empty() == body.is_empty(),
            "{error}: {delivery}"
        );
        assert!(recorded_body.chars().count() <= 1024);
        assert!(delivery["nextRetryAt"].is_string());
    }
}

#[tokio::test]
async fn a_delivery_whose_worker_died_is_retried_after_its_lease_expires() {
    let service = Service::without_event_sources().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    service.charge().await;
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    // A worker claims the delivery and then dies.
    let deliveries = Deliveries::new(service.store());
    let claimed = deliveries
        .claim(&service.scope(), id(&delivery).parse().unwrap(), 7, service.stack.clock.now())
        .await;
    assert!(matches!(claimed.unwrap(), Claim::Claimed(_)));
    assert_eq!(service.deliveries("&status=PROCESSING").await.len(), 1);
    service.stack.clock.advance(61_000);
    run_webhook_worker(&service.stack, &delivery).await;
    let done = service.deliveries("&status=DELIVERED").await.remove(0);
    assert_eq!((&done["attempts"], listener.hooks().len()), (&json!(2), 1));
}

/// The number of charges in the next test, small enough for a debug build.
const CHARGES: usize = 150;

#[tokio::test]
async fn healthy_endpoints_receive_every_event_once_beside_a_dead_endpoint() {
    let service = Service::start().await;
    let healthy = [Listener::start().await, Listener::start().await];
    let dead = Listener::answering(|_number| StatusCode::SERVICE_UNAVAILABLE.into_response()).await;
    for listener in healthy.iter().chain([&dead]) {
        service.register_endpoint(&listener.url, &["charge.created"]).await;
    }
    let mut charges = Vec::new();
    for _ in 0..CHARGES {
        charges.push(id(&service.charge().await).to_owned());
    }
    charges.sort();
    for listener in &healthy {
        let hooks = listener.received(CHARGES).await;
        let mut notified: Vec<String> =
            hooks.iter().map(|hook| id(&hook.json()["data"]["object"]).to_owned()).collect();
        notified.sort();
        assert_eq!(notified, charges, "one webhook per charge");
        let ids: BTreeMap<String, usize> = hooks.iter().fold(BTreeMap::new(), |mut ids, hook| {
            *ids.entry(id(&hook.json()).to_owned()).or_default() += 1;
            ids
        });
        assert!(ids.len() == CHARGES && ids.values().all(|times| *times == 1));
    }
    eventually("every delivery to the dead endpoint is attempted", async || {
        (dead.hooks().len() >= CHARGES).then_some(())
    })
    .await;
    // A webhook arrives before its delivery's row is updated.
    eventually("the statistics count all deliveries", async || {
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        let expected = (&json!(2 * CHARGES), &json!(3 * CHARGES));
        ((&stats["DELIVERED"], &stats["total"]) == expected).then_some(())
    })
    .await;
}
