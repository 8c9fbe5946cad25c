//! Tests of the bank that the service starts, and of the routes and commands that act at it. The tests create
//! cobs at the bank directly, as a bank's client.

use std::path::Path;

use axum::http::Method;
use bank::{FaultKind, Profile};
use base64::Engine as _;
use domain::ids::{ChargeId, Mode};
use local::embedded::State;
use local::seed::BankClient;
use local::stack::{Options, Stack};
use serde_json::{Value, json};

use crate::restart::{Process, TemporaryDirectory};
use crate::support::{Answer, Client, Listener, Service, eventually, id};

/// Two valid CPFs, and the one of the bank's fixed payer.
const CPFS: [&str; 2] = ["29537995593", "25524893033"];
const FIXED_CPF: &str = "12345678909";

const JSON: (&str, &str) = ("content-type", "application/json");

/// A client of the bank with the credentials of the first account.
struct BankApi {
    http: Client,
    url: String,
    pix_key: String,
    token: String,
}

impl BankApi {
    async fn of(service: &Service) -> Self {
        let stack = &service.stack;
        Self::connect(&stack.bank_url, &stack.bank_token_url, &stack.seed.bank).await
    }

    async fn connect(url: &str, token_url: &str, access: &BankClient) -> Self {
        let http = Client::of_other_server(url);
        let credentials = format!("{}:{}", access.client_id, access.client_secret);
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials));
        let headers =
            [("authorization", basic.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        let answer = http.raw(Method::POST, token_url, &headers, "grant_type=client_credentials").await;
        let token = answer.expect(200)["access_token"].as_str().unwrap().to_owned();
        Self { http, url: url.to_owned(), pix_key: access.pix_key.clone(), token }
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("authorization", authorization.as_str()), JSON];
        let url = format!("{}{path}", self.url);
        self.http.raw(method, &url, &headers, body.to_string()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, &Value::Null).await.expect(200)
    }

    /// Creates the cob of a charge, of 10.00.
    async fn create_cob(&self, charge: ChargeId) -> Value {
        let cob = json!({
            "calendario": {"expiracao": 3600},
            "valor": {"original": "10.00"},
            "chave": self.pix_key,
        });
        self.call(Method::PUT, &format!("/cob/{}", charge.txid()), &cob).await.expect(201)
    }
}

fn charge_id(name: &str) -> ChargeId {
    ChargeId::derive(b"test", Mode::Live, "charges", name)
}

async fn local_post(client: &Client, path: &str, body: &Value) -> Answer {
    client.raw(Method::POST, path, &[JSON], body.to_string()).await
}

async fn pay(service: &Service, body: &Value) -> Value {
    local_post(service, "/_local/bank/pay", body).await.expect(200)
}

async fn books(client: &Client) -> Value {
    client.raw(Method::GET, "/_local/bank", &[], "").await.expect(200)
}

/// Returns a Pix of the bank's books.
async fn pix(service: &Service, paid: &Value) -> Value {
    let books = books(service).await;
    let pix = books["pix"].as_array().unwrap();
    pix.iter().find(|pix| pix["endToEndId"] == paid["end_to_end_id"]).unwrap().clone()
}

#[tokio::test]
async fn the_first_account_is_paid_at_the_bank_and_time_passes_there_too() {
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    let ready = service.stack.ready().unwrap();
    assert_eq!(ready["bank_url"], service.stack.bank_url);
    let (first, other) = (&service.stack.seed.first, &service.stack.seed.other);
    assert_eq!(ready["account_id"], first.id.to_string());
    assert_eq!(ready["other_account"]["account_id"], other.id.to_string());
    let receiver = Listener::start().await;
    let webhook = format!("/webhook/{}", api.pix_key);
    api.call(Method::PUT, &webhook, &json!({"webhookUrl": receiver.url})).await.expect(200);

    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    // The callback is 30 minutes late. The test would not wait that long.
    local_post(&service, "/_local/bank/faults", &json!({"kind": "late_notification"})).await.expect(200);
    let paid = pay(&service, &json!({"charge_id": charge.to_string()})).await;
    assert_eq!((&paid["amount"], &paid["txid"]), (&json!(1000), &json!(charge.txid())));
    let end_to_end_id = paid["end_to_end_id"].as_str().unwrap();
    let shown = api.get(&format!("/pix/{end_to_end_id}")).await;
    assert_eq!((&shown["horario"], &shown["valor"]), (&paid["horario"], &json!("10.00")));
    assert_eq!(receiver.hooks().len(), 0);
    service.advance_seconds(30 * 60).await;
    let callback = eventually("the callback arrives", async || receiver.hooks().into_iter().next()).await;
    assert_eq!(callback.json(), json!({"pix": [shown]}));

    let path = format!("/pix/{end_to_end_id}/devolucao/return1");
    let stuck = json!({"kind": "devolucao_stuck"});
    local_post(&service, "/_local/bank/faults", &stuck).await.expect(200);
    let pending = api.call(Method::PUT, &path, &json!({"valor": "4.00"})).await.expect(201);
    assert_eq!(pending["status"], "EM_PROCESSAMENTO");
    service.advance_seconds(6 * 3_600).await;
    // The advance ended the token.
    let api = BankApi::of(&service).await;
    assert_eq!(api.get(&path).await["status"], "DEVOLVIDO");
}

#[tokio::test]
async fn the_payer_is_the_expected_one_else_the_customer_else_a_fixed_person() {
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    for (customer, expected, payer) in [
        (json!({"name": "Maria"}), Some(CPFS[0]), json!({"cpf": CPFS[0], "nome": "Maria"})),
        (json!({"name": "Maria", "document": CPFS[1]}), None, json!({"cpf": CPFS[1], "nome": "Maria"})),
        (json!({"name": "Maria"}), None, json!({"cpf": FIXED_CPF, "nome": "Fulano de Tal"})),
    ] {
        let mut body = json!({"amount": 1000, "customer": customer});
        if let Some(expected) = expected {
            body["expected_payer_tax_id"] = expected.into();
        }
        let charge = service.new_charge(&body).await;
        api.create_cob(id(&charge).parse().unwrap()).await;
        let paid = pay(&service, &json!({"charge_id": id(&charge)})).await;
        assert_eq!(pix(&service, &paid).await["pagador"], payer, "{body}");
    }

    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    // Every form of the id is accepted.
    for (number, (fields, payer)) in [
        (json!({}), json!({"cpf": FIXED_CPF, "nome": "Fulano de Tal"})),
        (json!({"payer_name": "Ana"}), json!({"cpf": FIXED_CPF, "nome": "Ana"})),
        (
            json!({"payer_tax_id": "12ABC34501DE35"}),
            json!({"cnpj": "12ABC34501DE35", "nome": "Fulano de Tal"}),
        ),
        (json!({"payer_tax_id": CPFS[0], "payer_name": "Ana"}), json!({"cpf": CPFS[0], "nome": "Ana"})),
        (json!({"payer_tax_id": null}), Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let forms = [charge.to_string(), charge.raw(), format!("tx_{}", charge.raw())];
        let mut body = json!({"charge_id": forms[number % 3], "again": number > 0});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let paid = pay(&service, &body).await;
        assert_eq!(pix(&service, &paid).await["pagador"], payer, "{body}");
    }
}

#[tokio::test]
async fn a_payment_can_have_another_amount_and_a_missing_or_foreign_txid() {
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    let cob = format!("/cob/{}", charge.txid());
    for (txid, amount) in [(Value::Null, 1), (json!("foreign1"), 2_000)] {
        let body = json!({"charge_id": charge.raw(), "txid": txid, "amount": amount});
        let paid = pay(&service, &body).await;
        assert_eq!((&paid["txid"], &paid["amount"]), (&txid, &json!(amount)));
        assert_eq!(pix(&service, &paid).await["cob"], Value::Null);
        assert_eq!(api.get(&cob).await["status"], "ATIVA");
    }
    let own = json!({"charge_id": charge.raw(), "txid": charge.txid()});
    let paid = pay(&service, &own).await;
    assert_eq!(pix(&service, &paid).await["cob"], charge.txid());
    assert_eq!(api.get(&cob).await["status"], "CONCLUIDA");
    assert_eq!(books(&service).await["pix"].as_array().unwrap().len(), 3);
}

/// Checks the status and a part of the error of each request.
async fn check_refusals(service: &Service, path: &str, refusals: &[(Value, u16, &str)]) {
    for (body, status, reason) in refusals {
        let answer = local_post(service, path, body).await;
        assert_eq!(answer.status.as_u16(), *status, "{body} {answer:?}");
        let error = answer.body["error"].as_str().unwrap();
        assert!(error.contains(reason), "{body} {error}");
    }
}

#[tokio::test]
async fn refused_requests_name_the_reason() {
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    let [paid, removed, unknown] = ["paid", "removed", "unknown"].map(charge_id);
    for charge in [paid, removed] {
        api.create_cob(charge).await;
    }
    let e2e = pay(&service, &json!({"charge_id": paid.raw()})).await["end_to_end_id"].clone();
    let removal = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"});
    api.call(Method::PATCH, &format!("/cob/{}", removed.txid()), &removal).await.expect(200);
    let before = books(&service).await;

    let with = |field: &str, value: Value| {
        let mut body = json!({"charge_id": paid.raw(), "again": true});
        body[field] = value;
        body
    };
    let refusals = [
        (json!({"charge_id": paid.raw()}), 409, "already paid or removed"),
        (json!({"charge_id": removed.raw(), "again": true}), 409, "already paid or removed"),
        (
            with("txid", json!(removed.txid())),
            400,
            "txid: the reported txid must be 1 to 35 letters and digits",
        ),
        (json!({"charge_id": unknown.raw()}), 404, "no cob of the charge ch_"),
        (json!({"charge_id": "order-1"}), 404, "no charge has the id order-1"),
        (json!({}), 400, "missing field `charge_id`"),
        (with("amount", json!(0)), 400, "amount: the amount must be at least 0.01"),
        (with("payer_tax_id", json!("1")), 400, "payer_tax_id or payer_name: the payer needs a CPF"),
        (with("value", json!(1)), 400, "unknown field `value`, expected one of `charge_id`"),
        (
            json!({"charge_id": paid.raw(), "payer_tax_id": null, "payer_name": "Ana"}),
            400,
            "payer_name must be absent",
        ),
    ];
    check_refusals(&service, "/_local/bank/pay", &refusals).await;

    let with = |field: &str, value: Value| {
        let mut body = json!({"end_to_end_id": e2e});
        body[field] = value;
        body
    };
    let refusals = [
        (json!({"end_to_end_id": "E1"}), 404, "no Pix has this end-to-end id"),
        (with("amount", json!(1_001)), 409, "at most the remaining amount"),
        (with("nature", json!("MED_FRAUDE")), 400, "expected one of `fraud`, `operational`, `automatic_pix`"),
        (with("amount", json!(0)), 409, "the amount must be at least 0.01"),
        (json!({}), 400, "missing field `end_to_end_id`"),
    ];
    check_refusals(&service, "/_local/bank/med-devolucao", &refusals).await;
    assert_eq!(books(&service).await, before);

    // A page of another site can't use the routes.
    let foreign = [JSON, ("origin", "https://evil.example")];
    let body = json!({"charge_id": paid.raw(), "again": true}).to_string();
    service.raw(Method::POST, "/_local/bank/pay", &foreign, body).await.expect(403);
    service.raw(Method::GET, "/_local/bank", &foreign, "").await.expect(403);
    service.raw(Method::DELETE, "/_local/bank/faults", &foreign, "").await.expect(403);
    service.raw(Method::POST, "/_local/bank/faults", &[], "{}").await.expect(400);
    assert_eq!(books(&service).await, before);
}

#[tokio::test]
async fn faults_are_counted_listed_and_cleared() {
    const PATH: &str = "/_local/bank/faults";
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    for kind in FaultKind::ALL {
        let first = local_post(&service, PATH, &json!({"kind": kind.name()})).await.expect(200);
        assert_eq!(first, json!({"kind": kind.name(), "pending": 1}));
        let more = json!({"kind": kind.name(), "count": 1_000_000});
        assert_eq!(local_post(&service, PATH, &more).await.expect(200)["pending"], 1_000_001);
    }
    let pending = service.raw(Method::GET, PATH, &[], "").await.expect(200);
    let all: Vec<(&str, u64)> = FaultKind::ALL.iter().map(|kind| (kind.name(), 1_000_001)).collect();
    assert_eq!(pending, json!(all.into_iter().collect::<std::collections::BTreeMap<_, _>>()));
    service.raw(Method::DELETE, PATH, &[], "").await.expect(204);
    local_post(&service, PATH, &json!({"kind": "http_500", "count": 2})).await.expect(200);
    let cob = format!("/cob/{}", charge_id("order-1").txid());
    for status in [500, 500, 404] {
        api.call(Method::GET, &cob, &Value::Null).await.expect(status);
    }
    let names: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
    check_refusals(&service, PATH, &[(json!({"kind": "http_418"}), 400, &names.join(", "))]).await;
}

#[tokio::test]
async fn the_bank_returns_a_pix_by_med() {
    let service = Service::start().await;
    let api = BankApi::of(&service).await;
    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    let paid = pay(&service, &json!({"charge_id": charge.raw()})).await;
    let path = "/_local/bank/med-devolucao";
    let part = json!({"end_to_end_id": paid["end_to_end_id"], "amount": 300, "nature": "operational"});
    let first = local_post(&service, path, &part).await.expect(200);
    let rest = json!({"end_to_end_id": paid["end_to_end_id"]});
    let second = local_post(&service, path, &rest).await.expect(200);
    let devolucoes = pix(&service, &paid).await["devolucoes"].clone();
    for (index, id, value, nature) in
        [(0, &first, "3.00", "MED_OPERACIONAL"), (1, &second, "7.00", "MED_FRAUDE")]
    {
        let shown = &devolucoes[index];
        let expected = (&id["id"], &json!(value), &json!(nature));
        assert_eq!((&shown["id"], &shown["valor"], &shown["natureza"]), expected);
    }
    check_refusals(&service, path, &[(rest, 409, "at most the remaining amount")]).await;
}

fn options_in(directory: &Path) -> Options {
    Options { state: State::Directory(directory.to_owned()), ..Options::in_memory() }
}

async fn start_error(options: Options) -> String {
    Stack::start(options).await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_books_the_address_and_the_profile_stay_with_the_state_directory() {
    let directory = TemporaryDirectory::new();
    let service =
        Service::start_with(Options { bank_profile: Some(Profile::Minimal), ..options_in(&directory.0) })
            .await;
    let api = BankApi::of(&service).await;
    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    let paid = pay(&service, &json!({"charge_id": charge.raw()})).await;
    let (url, seeded, before) =
        (service.stack.bank_url.clone(), service.stack.seed.bank.clone(), books(&service).await);
    let port: u16 = url::Url::parse(&url).unwrap().port().unwrap();
    service.stack.stop().await;

    // Other programs get none of these ports when they request any free port.
    assert!((20_000..32_000).contains(&port), "{port}");
    let other_program = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let error = start_error(options_in(&directory.0)).await;
    assert!(error.starts_with(&format!("port {port} of the bank is in use; stop the program")), "{error}");
    drop(other_program);
    let options = Options { bank_profile: Some(Profile::Complete), ..options_in(&directory.0) };
    let error = start_error(options).await;
    assert!(error.contains("has the profile minimal, not complete"), "{error}");

    let service = Service::start_with(options_in(&directory.0)).await;
    assert_eq!(service.stack.bank_url, url);
    assert_eq!(service.stack.bank.behaviour().webhook_header, Profile::Minimal.behaviour().webhook_header);
    assert_eq!(books(&service).await, before);
    let api = BankApi::connect(&url, &service.stack.bank_token_url, &seeded).await;
    let shown = api.get(&format!("/pix/{}", paid["end_to_end_id"].as_str().unwrap())).await;
    assert_eq!(shown["horario"], paid["horario"]);
}

#[tokio::test]
async fn a_killed_service_loses_nothing_of_the_banks_books() {
    let directory = TemporaryDirectory::new();
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(directory.0.join(".local").join(name)).unwrap()).unwrap()
    };
    let process = Process::start(&directory.0).await;
    let access: BankClient = serde_json::from_value(read("seed.json")["bank"].clone()).unwrap();
    let url = read("ready.json")["bank_url"].as_str().unwrap().to_owned();
    let token_url = url.strip_suffix("/v2").unwrap().to_owned() + "/oauth/token";
    let api = BankApi::connect(&url, &token_url, &access).await;
    let receiver = Listener::start().await;
    let webhook = format!("/webhook/{}", api.pix_key);
    api.call(Method::PUT, &webhook, &json!({"webhookUrl": receiver.url})).await.expect(200);
    let charge = charge_id("order-1");
    api.create_cob(charge).await;
    let late = json!({"kind": "late_notification"});
    local_post(&process.client, "/_local/bank/faults", &late).await.expect(200);
    let body = json!({"charge_id": charge.raw()});
    let paid = local_post(&process.client, "/_local/bank/pay", &body).await.expect(200);
    let before = books(&process.client).await;
    process.kill().await;

    let process = Process::start(&directory.0).await;
    assert_eq!(read("ready.json")["bank_url"], url);
    assert_eq!(books(&process.client).await, before);
    // The service has registered its own URL, because its port has changed. The bank keeps no tokens.
    let api = BankApi::connect(&url, &token_url, &access).await;
    api.call(Method::PUT, &webhook, &json!({"webhookUrl": receiver.url})).await.expect(200);
    process.client.advance_seconds(30 * 60).await;
    let callback = eventually("the callback arrives", async || receiver.hooks().into_iter().next()).await;
    assert_eq!(callback.json()["pix"][0]["endToEndId"], paid["end_to_end_id"]);
}
