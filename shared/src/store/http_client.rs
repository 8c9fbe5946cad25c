//! The HTTP client of the AWS clients: HTTP/1.1 over TLS by rustls and ring.
//!
//! It replaces the SDK's client, which also contains HTTP/2 and support for proxies. A function sends few
//! requests at once, so HTTP/1.1 suffices.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::ErrorKind;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector as Tcp, capture_connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Semaphore;

/// Amazon Root CA 1-4 and Starfield Services Root CA - G2, from <https://www.amazontrust.com/repository/>.
const AMAZON_ROOTS: &[u8] = include_bytes!("amazon-roots.pem");

/// The number of free permits from which responses add no more.
const MOST_PERMITS: usize = 1_000;

#[derive(Clone, Debug)]
struct PooledClient {
    client: Client<HttpsConnector<Tcp>, SdkBody>,
    slow_start: SlowStart,
}

/// Permits one request at first. Each response permits one more, up to [`MOST_PERMITS`] free ones. So the first requests of
/// a function share a few connections, and most further connections resume a TLS session. Otherwise, a batch of
/// events would begin with a complete handshake for each of its concurrent requests.
#[derive(Clone, Debug)]
struct SlowStart(Arc<Semaphore>);

impl SlowStart {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Sends a request when it is permitted.
    async fn send<T, E>(&self, request: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        // Never an error, because the semaphore is never closed.
        let permit = self.0.acquire().await.ok();
        let response = request.await?;
        drop(permit);
        if self.0.available_permits() < MOST_PERMITS {
            self.0.add_permits(1);
        }
        Ok(response)
    }
}

/// Builds the client. It trusts only Amazon's own root certificates. It also sends requests by plain HTTP,
/// which only endpoints on a developer's machine use.
pub(super) fn http_client() -> Result<SharedHttpClient, Box<dyn Error + Send + Sync>> {
    Ok(SharedHttpClient::new(pooled_client()?))
}

fn pooled_client() -> Result<PooledClient, Box<dyn Error + Send + Sync>> {
    let mut tcp = Tcp::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new());
    let client = client.build(HttpsConnector::from((tcp, tls()?)));
    Ok(PooledClient { client, slow_start: SlowStart::new() })
}

/// Returns the configuration of TLS. All clients of a process share it, because parsing the certificates takes
/// longer than all else that creates a client.
fn tls() -> Result<Arc<ClientConfig>, Box<dyn Error + Send + Sync>> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(tls) = SHARED.get() {
        return Ok(Arc::clone(tls));
    }
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(AMAZON_ROOTS) {
        roots.add(root?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(SHARED.get_or_init(|| Arc::new(tls))))
}

impl HttpClient for PooledClient {
    /// The settings contain only timeouts. Those of [`super::timeouts`] include the connection and the
    /// response, so this client needs none of its own.
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for PooledClient {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        let connection = capture_connection(&mut request);
        // After a timeout or an error of the server, the SDK excludes the connection from the pool.
        if let Some(capture) = request.extensions().get::<CaptureSmithyConnection>() {
            capture.set_connection_retriever(move || metadata_of(&connection));
        }
        let is_tls = request.uri().scheme_str() == Some("https");
        let response = self.client.request(request);
        let slow_start = self.slow_start.clone();
        HttpConnectorFuture::new(async move {
            let response = if is_tls { slow_start.send(response).await } else { response.await };
            let response = response.map_err(connector_error)?;
            HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn metadata_of(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    connection.connection_metadata().as_ref()?;
    let connection = connection.clone();
    let poison = move || {
        if let Some(connected) = connection.connection_metadata().as_ref() {
            connected.poison();
        }
    };
    Some(ConnectionMetadata::builder().proxied(false).poison_fn(poison).build())
}

/// Classifies an error, because the SDK retries those of the network.
fn connector_error(error: ClientError) -> ConnectorError {
    if error.is_connect() || has_cause::<io::Error>(&error) {
        return ConnectorError::io(error.into());
    }
    match cause::<hyper::Error>(&error) {
        Some(cause) if cause.is_timeout() => ConnectorError::timeout(error.into()),
        Some(cause) if cause.is_user() => ConnectorError::user(error.into()),
        Some(cause) if cause.is_closed() || cause.is_canceled() => ConnectorError::io(error.into()),
        Some(cause) if cause.is_incomplete_message() => {
            ConnectorError::other(error.into(), Some(ErrorKind::TransientError))
        }
        _ => ConnectorError::other(error.into(), None),
    }
}

fn has_cause<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    cause::<E>(error).is_some()
}

/// Finds an error of a type among an error and its causes.
fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let source = |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        error.source()
    };
    std::iter::successors(Some(error), source).find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    fn request(url: &str) -> (HttpRequest, CaptureSmithyConnection) {
        let mut request = HttpRequest::new(SdkBody::from("{}"));
        request.set_method("POST").unwrap();
        request.set_uri(url).unwrap();
        let capture = CaptureSmithyConnection::new();
        request.add_extension(capture.clone());
        (request, capture)
    }

    /// Answers each request of a connection, or closes it after the first.
    async fn serve(connection: TcpStream, answers: bool) {
        let mut buffer = [0; 4096];
        loop {
            connection.readable().await.unwrap();
            match connection.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(_) if !answers => return,
                Ok(_) => {
                    connection.writable().await.unwrap();
                    connection.try_write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    /// Starts a server. Returns its URL and the number of connections that it accepts.
    async fn server(answers: bool) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let accepted: Arc<AtomicUsize> = Arc::default();
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(connection, answers));
            }
        });
        (url, accepted)
    }

    #[tokio::test]
    async fn a_connection_is_reused_unless_it_is_poisoned() {
        let client = pooled_client().unwrap();
        let (url, accepted) = server(true).await;
        for (poisons, connections) in [(false, 1), (true, 1), (false, 2)] {
            let (request, capture) = request(&url);
            let response = client.call(request).await.unwrap();
            assert_eq!(response.status().as_u16(), 200);
            if poisons {
                capture.get().unwrap().poison();
            }
            let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
            assert_eq!(body.to_bytes(), "{}");
            assert_eq!(accepted.load(Ordering::SeqCst), connections);
        }
    }

    #[tokio::test]
    async fn the_number_of_concurrent_requests_grows_with_the_responses() {
        let slow_start = SlowStart::new();
        let (sent, mut requests) = mpsc::unbounded_channel();
        for _ in 0..7 {
            let (slow_start, sent) = (slow_start.clone(), sent.clone());
            tokio::spawn(async move {
                let request = async {
                    let (responder, response) = oneshot::channel::<Result<(), ()>>();
                    sent.send(responder).unwrap();
                    response.await.unwrap()
                };
                slow_start.send(request).await
            });
        }
        let (success, failure) = (Ok(()), Err(()));
        for responses in [&[failure][..], &[success], &[success, failure], &[success; 3]] {
            let mut waiting = Vec::new();
            for _ in responses {
                waiting.push(requests.recv().await.unwrap());
            }
            while slow_start.0.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            assert!(requests.is_empty());
            for (responder, response) in waiting.into_iter().zip(responses) {
                responder.send(*response).unwrap();
            }
        }
    }

    #[tokio::test]
    async fn errors_of_the_network_are_retried() {
        let client = pooled_client().unwrap();
        let (url, _) = server(false).await;
        let lost = client.call(request(&url).0).await.unwrap_err();
        assert!(lost.is_io() || lost.as_other() == Some(ErrorKind::TransientError), "{lost:?}");
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let refused = client.call(request(&format!("http://{unused}/")).0).await.unwrap_err();
        assert!(refused.is_io(), "{refused:?}");
    }

    #[test]
    fn the_roots_are_valid() {
        http_client().unwrap();
    }
}
