//! Tests of the bank that the service starts, and of the routes and commands that act at it. The tests create
//! cobs at the bank directly, as a bank's client.

use std::path::Path;

use axum::http::Method;
use bank::{Behaviour, FaultKind, Profile};
use base64::Engine as _;
use domain::ids::{ChargeId, Mode};
use local::embedded::State;
use local::stack::{Options, Stack};
use serde_json::{Value, json};

use crate::live_charges::Live;
use crate::restart::TemporaryDirectory;
use crate::support::{Answer, Client, Service, id};

/// Two valid CPFs, and the one of the bank's fixed payer.
const CPFS: [&str; 2] = ["29537995593", "25524893033"];
const FIXED_CPF: &str = "12345678909";

const JSON: (&str, &str) = ("content-type", "application/json");

/// A client of the bank with the credentials of the first account.
pub(crate) struct BankApi {
    http: Client,
    behaviour: &'static Behaviour,
    pix_key: String,
    token: String,
}

impl BankApi {
    pub(crate) async fn of(service: &Service) -> Self {
        let (stack, access) = (&service.stack, &service.stack.seed.bank);
        let http = Client::of_other_server(&stack.bank_url);
        let credentials = format!("{}:{}", access.client_id, access.client_secret);
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials));
        let headers =
            [("authorization", basic.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        let form = "grant_type=client_credentials";
        let answer = http.raw(Method::POST, &stack.bank_token_url, &headers, form).await;
        let token = answer.expect(200)["access_token"].as_str().unwrap().to_owned();
        Self { http, behaviour: stack.bank.behaviour(), pix_key: access.pix_key.clone(), token }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("authorization", authorization.as_str()), JSON];
        let headers = [headers.as_slice(), self.behaviour.required_header.as_slice()].concat();
        let query = self.behaviour.required_parameter.map(|(name, value)| format!("?{name}={value}"));
        let path = format!("{path}{}", query.unwrap_or_default());
        self.http.raw(method, &path, &headers, body.to_string()).await
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
async fn a_payment_can_have_another_amount_and_txid_and_is_returned_by_med() {
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

    let part = json!({"end_to_end_id": paid["end_to_end_id"], "amount": 300, "nature": "operational"});
    let rest = json!({"end_to_end_id": paid["end_to_end_id"]});
    for (index, (body, value, nature)) in
        [(part, "3.00", "MED_OPERACIONAL"), (rest, "7.00", "MED_FRAUDE")].into_iter().enumerate()
    {
        let made = local_post(&service, "/_local/bank/med-devolucao", &body).await.expect(200);
        let shown = &pix(&service, &paid).await["devolucoes"][index];
        let expected = (&made["id"], &json!(value), &json!(nature));
        assert_eq!((&shown["id"], &shown["valor"], &shown["natureza"]), expected);
    }
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
    let Live { service, .. } = Live::start().await;
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
    let (url, before) = (service.stack.bank_url.clone(), books(&service).await);
    let ready = service.stack.ready().await.unwrap();
    let (first, other) = (&service.stack.seed.first, &service.stack.seed.other);
    assert_eq!((&ready["bank_url"], &ready["account_id"]), (&json!(url), &json!(first.id)));
    assert_eq!(ready["other_account"]["account_id"], other.id.to_string());
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
    let api = BankApi::of(&service).await;
    let shown = api.get(&format!("/pix/{}", paid["end_to_end_id"].as_str().unwrap())).await;
    assert_eq!(shown["horario"], paid["horario"]);
}
