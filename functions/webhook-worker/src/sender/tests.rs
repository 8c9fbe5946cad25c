use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use domain::url_policy::LocalNames;
use domain::webhook::failure::ConnectionFailure;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// The time limit of the few tests that wait until it passes.
const SHORT: Duration = Duration::from_millis(300);

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// How an endpoint responds to a request.
#[derive(Clone)]
enum Reply {
    /// Writes these bytes, and waits for the next request on the same connection.
    Send(Vec<u8>),
    /// Writes these bytes, then nothing, and leaves the connection open.
    Hold(Vec<u8>),
    /// Writes these bytes, then other bytes without end.
    Endless(Vec<u8>),
    /// Closes the connection.
    Close,
}

fn send(response: impl Into<Vec<u8>>) -> Reply {
    Reply::Send(response.into())
}

/// A merchant's server on loopback. Each connection follows one script, in the order of the connections. A
/// connection is closed when its script ends.
struct Endpoint {
    address: SocketAddr,
    /// Each request with the number of its connection, from 0.
    requests: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Endpoint {
    async fn start(scripts: Vec<Vec<Reply>>) -> Self {
        Self::start_with(None, scripts).await
    }

    async fn answering(response: impl Into<Vec<u8>>) -> Self {
        Self::start(vec![vec![send(response)]]).await
    }

    async fn start_with(tls: Option<TlsAcceptor>, scripts: Vec<Vec<Reply>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            for (number, script) in scripts.into_iter().enumerate() {
                let (tcp, _) = listener.accept().await.unwrap();
                let (tls, seen) = (tls.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    match tls {
                        None => play(tcp, number, script, &seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(tcp).await {
                                play(stream, number, script, &seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/hooks?a=1", self.address)
    }

    fn requests(&self) -> Vec<(usize, String)> {
        self.requests.lock().unwrap().clone()
    }

    fn connection_of_each_request(&self) -> Vec<usize> {
        self.requests().into_iter().map(|(connection, _)| connection).collect()
    }
}

async fn play<S>(mut stream: S, number: usize, script: Vec<Reply>, seen: &Mutex<Vec<(usize, String)>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for reply in script {
        let Some(request) = read_request(&mut stream).await else {
            return;
        };
        seen.lock().unwrap().push((number, request));
        match reply {
            Reply::Send(bytes) => {
                // A sender that has read enough may have closed the connection.
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
            }
            Reply::Hold(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                stream.flush().await.unwrap();
                let _ = stream.read_u8().await;
            }
            Reply::Endless(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            }
            Reply::Close => return,
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        bytes.push(stream.read_u8().await.ok()?);
        let text = String::from_utf8_lossy(&bytes);
        if let Some(head) = text.strip_suffix("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            return Some(format!("{text}{}", String::from_utf8(body).unwrap()));
        }
    }
}

impl SenderBuilder {
    fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    fn connect_time_limit(mut self, limit: Duration) -> Self {
        self.connect_time_limit = limit;
        self
    }

    fn trust(mut self, root: CertificateDer<'static>) -> Self {
        self.extra_roots.push(root);
        self
    }

    fn resolve_with(mut self, lookup: Lookup) -> Self {
        self.lookup = Some(lookup);
        self
    }
}

fn local() -> SenderBuilder {
    Sender::builder(AddressPolicy::PublicOrLocal(LocalNames::default()))
}

fn resolving_to(addresses: impl Into<Vec<IpAddr>>) -> Lookup {
    let addresses = addresses.into();
    Arc::new(move |_| addresses.clone())
}

fn failed(failure: impl Into<AttemptFailure>) -> Attempt {
    Err(FailedAttempt::without_body(None, failure.into()))
}

async fn post(sender: &Sender, url: &str) -> Attempt {
    sender.post(url, HeaderMap::new(), Bytes::from_static(b"{}")).await
}

/// Posts once to a server that sends this response.
async fn attempt(response: impl Into<Vec<u8>>) -> Attempt {
    let endpoint = Endpoint::answering(response).await;
    post(&local().build().unwrap(), &endpoint.url()).await
}

#[tokio::test]
async fn the_request_has_the_given_headers_and_body_and_three_more_headers() {
    let endpoint = Endpoint::answering(OK).await;
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("x-service-signature", HeaderValue::from_static("t=1,v1=00"));
    let body = Bytes::from_static(br#"{"id":"evt_1"}"#);
    let _attempt = local().build().unwrap().post(&endpoint.url(), headers, body).await;

    let [(0, request)] = &endpoint.requests()[..] else {
        panic!("not exactly one request on the first connection");
    };
    assert_eq!(
        *request,
        format!(
            "POST /hooks?a=1 HTTP/1.1\r\n\
             content-type: application/json\r\n\
             x-service-signature: t=1,v1=00\r\n\
             user-agent: payment-service-webhooks/1\r\n\
             host: {}\r\n\
             content-length: 14\r\n\
             \r\n\
             {{\"id\":\"evt_1\"}}",
            endpoint.address
        )
    );
}

#[tokio::test]
async fn any_2xx_is_delivered_and_leaves_no_error() {
    for status in [200, 201, 202, 204, 299] {
        let attempt = attempt(format!("HTTP/1.1 {status} Fine\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(attempt, Ok(status));
    }
}

/// The response's lines after its status line, and the refusal's delay and excerpt.
#[tokio::test]
async fn a_refusal_keeps_its_delay_and_a_safe_excerpt_of_its_body() {
    let sized = |head: &str, body: &str| format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into();
    let mut unsafe_text = b"Connection: close\r\n\r\na\x00b\x1b[31mc\x7fd\xff\xc3e".to_vec();
    unsafe_text.extend("\u{9b}f\u{202e}g\u{2066}h".bytes());
    let rows: Vec<(Vec<u8>, Option<&str>, String)> = vec![
        (sized("Retry-After: 120\r\n", "slow"), Some("120"), "slow".to_owned()),
        (sized("Retry-After: \u{e9}\r\n", ""), None, String::new()),
        (sized(&format!("Retry-After: {}\r\n", "9".repeat(65)), ""), None, String::new()),
        (sized("", "no\tway\n"), None, "no\tway\n".to_owned()),
        // A limit in bytes would cut these earlier, or within a character.
        (sized("", &"é".repeat(3000)), None, "é".repeat(1024)),
        (sized("", &"💸".repeat(3000)), None, "💸".repeat(1024)),
        (unsafe_text, None, "a�b�[31mc�d��e�f�g�h".to_owned()),
        (
            sized("Content-Encoding: gzip\r\n", "\x1f\x0b\x08\x00"),
            None,
            "(not shown: content-encoding gzip)".to_owned(),
        ),
        (sized("Content-Encoding: Identity\r\n", "no"), None, "no".to_owned()),
    ];
    for (lines, retry_after, excerpt) in rows {
        for status in [404, 429, 500] {
            let response = [format!("HTTP/1.1 {status} Oops\r\n").into_bytes(), lines.clone()].concat();
            let attempt = attempt(response).await;
            let failed = attempt.unwrap_err();
            assert_eq!(failed.status_code, Some(status), "{excerpt}");
            assert_eq!(failed.failure, AttemptFailure::Answered(status), "{excerpt}");
            let (delay, body) = (failed.retry_after.as_deref(), failed.response_body.as_deref());
            assert_eq!((delay, body), (retry_after, Some(&*excerpt)));
        }
    }
}

#[tokio::test]
async fn a_response_is_delivered_once_its_head_is_whole_and_valid() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(200 * 1024));
    let many = "X-Many: x\r\n".repeat(101);
    for (response, failure, error) in [
        (
            format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{OK}"),
            None,
            "",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok".to_owned(), None, ""),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx".to_owned(), None, ""),
        (
            "HTTP/1.1 200 OK\r\nContent-".to_owned(),
            Some(ConnectionFailure::Closed),
            "connection closed before an answer",
        ),
        (
            "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(),
            Some(ConnectionFailure::NotHttp),
            "answer is not HTTP/1.1",
        ),
        (long, Some(ConnectionFailure::HeadTooLarge), "answer's headers too large"),
        (
            format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
            Some(ConnectionFailure::HeadTooLarge),
            "answer's headers too large",
        ),
    ] {
        let attempt = attempt(response).await;
        assert_eq!(attempt, failure.map_or(Ok(200), failed));
        assert_eq!(attempt.map_or_else(|failed| failed.failure.to_string(), |_| String::new()), error);
    }
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_a_limit() {
    for (status, delivered) in [(200, true), (500, false)] {
        let head = format!("HTTP/1.1 {status} Well\r\nConnection: close\r\n\r\n");
        let endpoint = Endpoint::start(vec![vec![Reply::Endless(head.into())]]).await;
        let attempt = post(&local().build().unwrap(), &endpoint.url()).await;
        let expected = if delivered { Ok(status) } else { Err((Some(status), Some(1024))) };
        let length =
            |failed: FailedAttempt| (failed.status_code, failed.response_body.map(|body| body.len()));
        assert_eq!(attempt.map_err(length), expected);
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_ends_the_attempt_although_the_connection_stays_open() {
    for (length, delivered) in [(MAX_EXCERPT_BYTES, true), (MAX_EXCERPT_BYTES - 1, false)] {
        let body = "x".repeat(length);
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", MAX_EXCERPT_BYTES + 1);
        let endpoint = Endpoint::start(vec![vec![Reply::Hold(response.into())]]).await;
        let attempt = post(&local().time_limit(SHORT).build().unwrap(), &endpoint.url()).await;
        assert_eq!(attempt.is_ok(), delivered, "{length}: {attempt:?}");
    }
}

#[tokio::test]
async fn a_response_that_does_not_end_in_time_keeps_its_status_and_a_refusals_body() {
    let timed_out =
        |status_code| Attempt::Err(FailedAttempt::without_body(status_code, AttemptFailure::Timeout(SHORT)));
    let hold = async |response: &str| {
        let endpoint = Endpoint::start(vec![vec![Reply::Hold(response.into())]]).await;
        post(&local().time_limit(SHORT).build().unwrap(), &endpoint.url()).await
    };
    assert_eq!(hold("").await, timed_out(None));
    assert_eq!(hold("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok").await, timed_out(Some(200)));
    let refused = hold("HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nContent-Length: 5\r\n\r\nbusy").await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.status_code, refused.retry_after.as_deref()), (Some(503), Some("9")));
    assert_eq!(refused.response_body.as_deref(), Some("busy"));
    assert!(!format!("{refused:?}").contains("busy"));
    assert_eq!(
        AttemptFailure::Timeout(local().build().unwrap().time_limit).to_string(),
        "timeout after 30 s"
    );
    assert_eq!(AttemptFailure::Timeout(SHORT).to_string(), "timeout after 300 ms");
}

#[tokio::test]
async fn a_server_that_hangs_before_the_tls_handshake_is_a_timeout() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let attempt = post(&local().time_limit(SHORT).build().unwrap(), &url).await;
    assert_eq!(attempt, failed(AttemptFailure::Timeout(SHORT)));
}

#[tokio::test]
async fn an_endpoint_that_closes_without_a_response_gets_one_request() {
    let endpoint = Endpoint::start(vec![vec![Reply::Close], vec![send(OK)]]).await;
    let attempt = post(&local().build().unwrap(), &endpoint.url()).await;
    assert_eq!(attempt, failed(ConnectionFailure::Closed));
    assert_eq!(attempt.unwrap_err().failure.to_string(), "connection closed before an answer");
    assert_eq!(endpoint.connection_of_each_request(), [0]);
}

#[tokio::test]
async fn a_port_without_a_listener_is_a_refused_connection() {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let attempt = post(&local().build().unwrap(), &format!("http://{address}/")).await;
    assert_eq!(attempt, failed(ConnectionFailure::Refused));
    assert_eq!(attempt.unwrap_err().failure.to_string(), "connection refused");
}

#[tokio::test]
async fn a_server_that_accepts_no_connection_fails_after_the_limit_for_connections() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let _listener = socket.listen(1).unwrap();
    // The kernel drops requests for connections once the queue of the listener is full.
    let mut queued = Vec::new();
    while let Ok(connected) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        queued.push(connected.unwrap());
    }
    let sender = local().connect_time_limit(SHORT).build().unwrap();
    let attempt = post(&sender, &format!("http://{address}/")).await;
    assert_eq!(attempt, failed(ConnectionFailure::Timeout));
    assert_eq!(attempt.unwrap_err().failure.to_string(), "connection timed out");
}

#[tokio::test]
async fn a_stored_url_that_only_the_rules_for_new_urls_forbid_is_resolved() {
    let sender = deployed().resolve_with(resolving_to([])).build().unwrap();
    for url in ["https://nas.lan/hook", "https://shop/hook", "https://hooks.example:587/"] {
        let attempt = post(&sender, url).await;
        assert_eq!(attempt, failed(ConnectionFailure::NameNotFound), "{url}");
        assert_eq!(attempt.unwrap_err().failure.to_string(), "DNS name not found");
    }
}

#[tokio::test]
async fn the_machines_resolver_finds_localhost() {
    let endpoint = Endpoint::answering(OK).await;
    let url = format!("http://localhost:{}/", endpoint.address.port());
    assert!(post(&local().build().unwrap(), &url).await.is_ok());
}

/// Two attempts of one sender: the second one's outcome, and the connection of each request.
#[tokio::test]
async fn a_connection_is_reused_and_a_request_repeated_once_if_it_closed() {
    let delivered = Ok(200);
    let (closed, not_http) = (failed(ConnectionFailure::Closed), failed(ConnectionFailure::NotHttp));
    for (scripts, outcome, connections) in [
        (vec![vec![send(OK), send(OK)]], &delivered, &[0, 0][..]),
        (vec![vec![send(OK)], vec![send(OK)]], &delivered, &[0, 1]),
        (vec![vec![send(OK), Reply::Close], vec![send(OK)]], &delivered, &[0, 0, 1]),
        (vec![vec![send(OK), Reply::Close], vec![Reply::Close], vec![send(OK)]], &closed, &[0, 0, 1]),
        (vec![vec![send(OK), send("nonsense\r\n\r\n")], vec![send(OK)]], &not_http, &[0, 0]),
    ] {
        let endpoint = Endpoint::start(scripts).await;
        let sender = local().build().unwrap();
        assert!(post(&sender, &endpoint.url()).await.is_ok());
        assert_eq!(post(&sender, &endpoint.url()).await, *outcome);
        assert_eq!(endpoint.connection_of_each_request(), connections);
        assert!(endpoint.requests().windows(2).all(|pair| pair[0].1 == pair[1].1));
    }
}

/// A listener for tests that check that no connection was opened.
fn untouched() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn is_untouched(listener: &std::net::TcpListener) -> bool {
    listener.accept().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// A sender with the policy of a deployed stack. It trusts a root of the test, so that tests pass on machines
/// without roots.
fn deployed() -> SenderBuilder {
    Sender::builder(AddressPolicy::PublicOnly).trust(Authority::new("Known").root)
}

#[tokio::test]
async fn a_name_that_now_resolves_to_an_internal_address_is_not_connected_to() {
    let listener = untouched();
    let port = listener.local_addr().unwrap().port();
    for (policy, internal, text) in [
        (deployed(), IpAddr::from(Ipv4Addr::LOCALHOST), "address 127.0.0.1 is not public"),
        (deployed(), Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), "address ::ffff:127.0.0.1 is not public"),
        (deployed(), Ipv6Addr::LOCALHOST.into(), "address ::1 is not public"),
        (deployed(), Ipv4Addr::new(169, 254, 169, 254).into(), "address 169.254.169.254 is not public"),
        (local(), Ipv4Addr::new(10, 0, 0, 5).into(), "address 10.0.0.5 is not public"),
    ] {
        let sender = policy.resolve_with(resolving_to([internal])).build().unwrap();
        let attempt = post(&sender, &format!("https://hooks.example:{port}/")).await;
        assert_eq!(attempt, failed(AttemptFailure::Address(internal)));
        assert_eq!(attempt.unwrap_err().failure.to_string(), text);
    }
    assert!(is_untouched(&listener));
}

#[tokio::test]
async fn on_a_developers_machine_a_listed_host_is_posted_to_by_plain_http() {
    let endpoint = Endpoint::answering(OK).await;
    let policy = AddressPolicy::PublicOrLocal(LocalNames::parse("host.docker.internal"));
    let sender =
        Sender::builder(policy).resolve_with(resolving_to([Ipv4Addr::LOCALHOST.into()])).build().unwrap();
    let url = format!("http://host.docker.internal:{}/", endpoint.address.port());
    assert!(post(&sender, &url).await.is_ok());
    let refused = post(&local().build().unwrap(), &url).await;
    assert_eq!(refused, failed(AttemptFailure::Url(UrlRefusal::NotHttps)));
}

#[tokio::test]
async fn only_the_allowed_addresses_of_a_name_are_connected_to() {
    let endpoint = Endpoint::answering(OK).await;
    let internal = IpAddr::from(Ipv4Addr::new(10, 0, 0, 5));
    let lookup = resolving_to([internal, Ipv4Addr::LOCALHOST.into()]);
    let sender = local().resolve_with(lookup).build().unwrap();
    let url = format!("http://hooks.localhost:{}/", endpoint.address.port());
    assert!(post(&sender, &url).await.is_ok());
}

#[tokio::test]
async fn each_new_connection_resolves_the_name_again() {
    let endpoint =
        Endpoint::answering("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    let internal = IpAddr::from(Ipv4Addr::new(192, 168, 0, 1));
    let answers = Mutex::new(vec![internal, Ipv4Addr::LOCALHOST.into()]);
    let lookup: Lookup = Arc::new(move |_| answers.lock().unwrap().pop().into_iter().collect());
    let sender = local().resolve_with(lookup).build().unwrap();
    let url = format!("http://hooks.localhost:{}/", endpoint.address.port());
    assert!(post(&sender, &url).await.is_ok());
    assert_eq!(post(&sender, &url).await, failed(AttemptFailure::Address(internal)));
}

#[tokio::test]
async fn a_refused_url_is_not_connected_to() {
    let listener = untouched();
    let port = listener.local_addr().unwrap().port();
    let sender = deployed().build().unwrap();
    let not_loopback = "the URL must have a public host, not 127.0.0.1 (a loopback address)";
    for (origin, text) in [
        ("https://127.0.0.1", not_loopback),
        ("https://0x7f.1", not_loopback),
        ("https://localhost", "the URL must have a public host name, not localhost"),
        ("http://127.0.0.1", "the URL must use https"),
    ] {
        let attempt = post(&sender, &format!("{origin}:{port}/")).await;
        let failed = attempt.unwrap_err();
        assert_eq!((failed.status_code, failed.failure.to_string()), (None, text.to_string()));
    }
    assert!(is_untouched(&listener));
}

/// A certificate authority for tests.
struct Authority {
    root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str, years: (i32, i32)) -> TlsAcceptor {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Posts once to `https://hooks.example`. The sender trusts `authority`, and the server has this certificate.
async fn post_over_tls(authority: &Authority, certificate: TlsAcceptor) -> Attempt {
    let endpoint = Endpoint::start_with(Some(certificate), vec![vec![send(OK)]]).await;
    let sender = local()
        .trust(authority.root.clone())
        .resolve_with(resolving_to([Ipv4Addr::LOCALHOST.into()]))
        .build()
        .unwrap();
    let attempt = post(&sender, &format!("https://hooks.example:{}/", endpoint.address.port())).await;
    assert_eq!(endpoint.requests().len(), usize::from(attempt.is_ok()));
    attempt
}

#[tokio::test]
async fn only_a_server_with_a_valid_certificate_gets_a_request_and_the_error_has_the_reason() {
    let authority = Authority::new("Known");
    let valid = authority.issue("hooks.example", (2020, 4000));
    assert_eq!(post_over_tls(&authority, valid).await, Ok(200));
    for (certificate, reason) in [
        (authority.issue("hooks.example", (2019, 2020)), "expired"),
        (authority.issue("hooks.example", (3999, 4000)), "not valid yet"),
        (authority.issue("another.example", (2020, 4000)), "issued for another name"),
        (
            Authority::new("Unknown").issue("hooks.example", (2020, 4000)),
            "unknown issuer, or an intermediate certificate is missing",
        ),
    ] {
        let attempt = post_over_tls(&authority, certificate).await;
        let failed = attempt.unwrap_err();
        let text = format!("TLS certificate not valid: {reason}");
        assert_eq!((failed.status_code, failed.failure.to_string()), (None, text));
    }
}

#[tokio::test]
async fn plain_http_behind_an_https_url_is_a_failed_handshake() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = tcp.read_to_end(&mut Vec::new()).await;
    });
    let attempt = post(&local().build().unwrap(), &url).await;
    assert_eq!(attempt, failed(ConnectionFailure::Tls));
    assert_eq!(attempt.unwrap_err().failure.to_string(), "TLS handshake failed");
}

#[test]
fn a_root_that_is_not_a_certificate_is_an_error_when_the_sender_is_built() {
    let error = local().trust(CertificateDer::from(vec![0])).build().unwrap_err();
    assert!(matches!(error, ClientSettingsError::Tls(_)));
}
