//! A bank with a clock that the test moves, and a client of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bank::{Bank, Client, FaultKind, Options, Paid, PayRequest, Profile, TokenAuthentication};
use base64::Engine as _;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::receiver::Posted;
pub(crate) use crate::receiver::{Receiver, eventually};
use crate::schema::{assert_answer, assert_callback};

/// 2026-11-22T12:00:00Z in Unix milliseconds.
pub(crate) const START_MS: i64 = 1_795_348_800_000;
const CLIENT: &str = "client-1";
const SECRET: &str = "secret";
pub(crate) const KEY: &str = "7d9f0335-8dcc-4054-9bf9-0dbd61d36906";
pub(crate) const CPF: &str = "52998224725";
/// The period that contains everything that happens within a day of the start.
pub(crate) const PERIOD: &str = "inicio=2026-11-22T00:00:00Z&fim=2026-11-24T00:00:00Z";

/// Returns a txid that ends with the number.
pub(crate) fn txid(number: u32) -> String {
    format!("charge{number:026}")
}

/// An answer of the bank.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the body of an answer with this status.
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }
}

/// A client of the bank.
pub(crate) struct Api {
    url: String,
    token_url: String,
    behaviour: &'static bank::Behaviour,
    http: HttpClient<HttpConnector, Full<Bytes>>,
    pub(crate) token: String,
}

impl Api {
    /// Creates the first client of a bank, without a token.
    fn of(bank: &Bank) -> Self {
        Self {
            url: bank.url(),
            token_url: bank.token_url(),
            behaviour: bank.behaviour(),
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
            token: String::new(),
        }
    }

    /// Sends a request with exactly these headers. Returns the answer and its content type.
    pub(crate) async fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> (Answer, String) {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.http.request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (status, retry_after) = (answer.status().as_u16(), header("retry-after"));
        let content_type = header("content-type").unwrap_or_default();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        (Answer { status, retry_after, body }, content_type)
    }

    pub(crate) async fn request_token(&self, authentication: TokenAuthentication) -> Answer {
        let mut form = "grant_type=client_credentials".to_owned();
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        let basic = format!(
            "Basic {}",
            base64::engine::general_purpose::STANDARD.encode(format!("{CLIENT}:{SECRET}"))
        );
        match authentication {
            TokenAuthentication::Basic => headers.push(("authorization", &basic)),
            TokenAuthentication::Body => {
                form.push_str(&format!("&client_id={CLIENT}&client_secret={SECRET}"));
            }
        }
        let (answer, content_type) = self.send("POST", &self.token_url, &headers, form).await;
        if answer.status != 200 {
            assert_answer("POST", "/oauth/token", answer.status, &content_type, &answer.body);
        }
        answer
    }

    /// Requests a token as the profile prescribes.
    pub(crate) async fn authenticate(&mut self) {
        let answer = self.request_token(self.behaviour.token_authentication).await.expect(200);
        answer["access_token"].as_str().unwrap().clone_into(&mut self.token);
    }

    /// Sends a request as the profile prescribes, and validates the answer.
    async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut url = format!("{}{path}", self.url);
        if let Some((name, value)) = self.behaviour.required_parameter {
            url.push_str(&format!("{}{name}={value}", if url.contains('?') { '&' } else { '?' }));
        }
        let authorization = format!("Bearer {}", self.token);
        let mut headers =
            vec![("authorization", authorization.as_str()), ("content-type", "application/json")];
        headers.extend(self.behaviour.required_header);
        headers.extend(self.behaviour.webhook_header);
        let text = body.map(Value::to_string).unwrap_or_default();
        let (answer, content_type) = self.send(method, &url, &headers, text).await;
        let route = route(path);
        if !route.starts_with("/pix-out/") || answer.status >= 400 {
            assert_answer(method, &route, answer.status, &content_type, &answer.body);
        }
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.call("PUT", path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.call("PATCH", path, Some(body)).await
    }

    /// Creates a cob of 10.00 with a debtor.
    pub(crate) async fn create_cob(&self, number: u32) -> Value {
        self.put(&format!("/cob/{}", txid(number)), &cob()).await.expect(201)
    }

    pub(crate) async fn register_webhook(&self, url: &str) {
        let path = format!("/webhook/{KEY}");
        self.put(&path, &json!({"webhookUrl": url})).await.expect(200);
    }
}

/// The request of a cob.
pub(crate) fn cob() -> Value {
    json!({
        "calendario": {"expiracao": 3600},
        "devedor": {"cpf": CPF, "nome": "Maria da Silva"},
        "valor": {"original": "10.00"},
        "chave": KEY,
        "solicitacaoPagador": "Pedido 1",
        "infoAdicionais": [{"nome": "Pedido", "valor": "1"}],
    })
}

/// Returns the route of the document that a path belongs to.
fn route(path: &str) -> String {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments[..] {
        ["cob", _] => "/cob/{txid}".to_owned(),
        ["pix", _] => "/pix/{e2eid}".to_owned(),
        ["pix", _, "devolucao", _] => "/pix/{e2eid}/devolucao/{id}".to_owned(),
        ["webhook", _] => "/webhook/{chave}".to_owned(),
        _ => path.to_owned(),
    }
}

/// A bank, a client of it, and its clock.
pub(crate) struct World {
    pub(crate) bank: Bank,
    pub(crate) api: Api,
    clock: Arc<AtomicI64>,
    options: Options,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_as(Profile::Complete).await
    }

    pub(crate) async fn start_as(profile: Profile) -> Self {
        let mut world = Self::start_with(|options| options.profile = profile).await;
        world.api.authenticate().await;
        world
    }

    /// Starts a bank with other options. Its client has no token yet.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let read = Arc::clone(&clock);
        let mut options = Options::new(Arc::new(move || read.load(Ordering::SeqCst)));
        let client = |id: &str, key: &str| Client {
            client_id: id.to_owned(),
            client_secret: SECRET.to_owned(),
            keys: vec![key.to_owned()],
            name: "Loja de Testes".to_owned(),
            city: "Sao Paulo".to_owned(),
            cnpj: "12ABC34501DE35".to_owned(),
        };
        options.clients = vec![client(CLIENT, KEY), client("client-2", "loja@example.com")];
        change(&mut options);
        let bank = Bank::start(options.clone()).await.unwrap();
        Self { api: Api::of(&bank), bank, clock, options }
    }

    /// Stops the bank, which drops everything that is in progress, as a kill does. Then starts another bank
    /// with these options. Its client has no token yet.
    pub(crate) async fn restart_with(&mut self, change: impl FnOnce(&mut Options)) -> std::io::Result<()> {
        self.bank.stop().await;
        change(&mut self.options);
        self.bank = Bank::start(self.options.clone()).await?;
        self.api = Api::of(&self.bank);
        Ok(())
    }

    /// Moves the clock.
    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.bank.wake();
    }

    pub(crate) fn fault(&self, kind: FaultKind) {
        self.bank.inject_fault(kind, 1);
    }

    pub(crate) fn pay(&self, number: u32) -> Paid {
        self.bank.pay(&PayRequest { txid: txid(number), ..PayRequest::default() }).unwrap()
    }

    /// Creates and pays a cob.
    pub(crate) async fn paid_cob(&self, number: u32) -> String {
        self.api.create_cob(number).await;
        self.pay(number).end_to_end_id
    }

    /// Returns the Pix of a list request.
    pub(crate) async fn list(&self, query: &str) -> Vec<Value> {
        let list = self.api.get(&format!("/pix?{PERIOD}{query}")).await.expect(200);
        list["pix"].as_array().unwrap().clone()
    }
}

impl Receiver {
    /// Waits for a number of callbacks, and returns the Pix of each. Every callback is validated.
    pub(crate) async fn callbacks(&self, count: usize) -> Vec<Value> {
        let pix_of = |posted: &Posted| {
            let body = posted.json();
            assert_callback(&body);
            assert_eq!(body["pix"].as_array().unwrap().len(), 1);
            body["pix"][0].clone()
        };
        self.wait_for(count).await.iter().map(pix_of).collect()
    }
}
