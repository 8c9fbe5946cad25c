//! Notifications of the stand-in, as its receiver verifies them.

use std::convert::Infallible;
use std::slice::from_ref;

use acquirer_kit::Connector as _;
use btcpay_client::{Event, VerifyError, verify};
use domain::snapshot::RemoteState;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{HOUR_S, World, invoice_id};

type Delivery = (String, Bytes);

/// Starts a receiver. Returns its URL, and the signatures and bodies that it gets.
async fn receiver() -> (String, mpsc::UnboundedReceiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/n", listener.local_addr().unwrap());
    let (sender, deliveries) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let sender = sender.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let sender = sender.clone();
                async move {
                    let signature = request.headers()["btcpay-sig"].to_str().unwrap().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    sender.send((signature, body)).unwrap();
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, deliveries)
}

#[tokio::test]
async fn a_notification_names_its_charge() {
    let world = World::start().await;
    let (url, mut deliveries) = receiver().await;
    let secret = SecretString::from("chosen by the receiver".to_owned());
    world.client.create_webhook(&url, &secret).await.unwrap();
    let charge = world.waiting().await;
    world.pay(&charge, 18_519, false);
    world.control("/confirm", serde_json::json!({"invoice": invoice_id(&charge)}));
    for kind in ["InvoiceProcessing", "InvoicePaymentSettled", "InvoiceSettled"] {
        let (signature, body) = deliveries.recv().await.unwrap();
        let Event { id, kind: its, store, invoice, charge: named } =
            verify(&signature, &body, from_ref(&secret)).unwrap();
        assert!(!id.is_empty());
        assert_eq!((&*its, &*store, named), (kind, super::STORE, Some(charge.id)));
        assert_eq!(invoice.as_deref(), Some(invoice_id(&charge)));
        let other = [SecretString::from("another".to_owned())];
        assert_eq!(verify(&signature, &body, &other), Err(VerifyError::Signature));
        // It only names the charge.
        let read = world.connector.read(&charge, false).await.unwrap().unwrap();
        assert_eq!(read.state, RemoteState::Paid);
    }
    world.waiting().await;
    world.advance_s(2 * HOUR_S);
    let (signature, body) = deliveries.recv().await.unwrap();
    assert_eq!(verify(&signature, &body, &[secret]).unwrap().kind, "InvoiceExpired");
}
