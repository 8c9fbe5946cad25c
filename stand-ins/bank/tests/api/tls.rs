//! mTLS of the API and of callbacks.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{Receiver, World, identities, tls, txid};

#[tokio::test]
async fn a_token_works_only_with_the_certificate_that_requested_it() {
    let (authority, server, [first, second]) = identities();
    let (server_tls, _) = tls(&authority, &server, &first);
    let mut world =
        World::start_tls(|options| options.tls = Some(server_tls), Some(&authority), Some(&first)).await;
    assert!(world.bank.url().starts_with("https://"));
    world.api.authenticate().await;
    world.api.create_cob(1).await;

    let path = format!("/cob/{}", txid(1));
    let mut other = world.api_with(&authority, Some(&second));
    other.token = world.api.token.clone();
    other.get(&path).await.expect(401);
    other.authenticate().await;
    other.get(&path).await.expect(200);

    let without_certificate = world.api_with(&authority, None);
    assert!(without_certificate.try_call("GET", &path, None).await.is_none());
    let (_, _, [foreign, _]) = identities();
    let with_foreign = world.api_with(&authority, Some(&foreign));
    assert!(with_foreign.try_call("GET", &path, None).await.is_none());
}

#[tokio::test]
async fn callbacks_present_the_banks_certificate() {
    let (authority, server, [identity, _]) = identities();
    let (_, callback_tls) = tls(&authority, &server, &identity);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(server.certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(server.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver = Receiver::new(format!("https://{}/hooks", listener.local_addr().unwrap()));
    let accepting = receiver.clone();
    tokio::spawn(async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        accepting.serve(TokioIo::new(stream)).await;
    });

    let mut world = World::start_with(|options| options.callback_tls = Some(callback_tls)).await;
    world.api.authenticate().await;
    world.api.register_webhook(&receiver.url).await;
    world.paid_cob(1).await;
    world.advance_ms(1_000);
    assert_eq!(receiver.callbacks(1).await[0]["txid"], txid(1));
}

#[tokio::test]
async fn an_invalid_certificate_stops_the_start() {
    let (authority, server, [identity, _]) = identities();
    let (mut server_tls, _) = tls(&authority, &server, &identity);
    server_tls.key_pem = "no key".to_owned();
    let mut options = bank::Options::new(Arc::new(|| 0));
    options.tls = Some(server_tls);
    assert!(bank::Bank::start(options).await.is_err());
}
