//! Tests of banks' notifications: authentication, the rows that they store, and their limits. `live_charges`
//! tests what follows from a stored Pix.

use acquirer_core::configuration::{CallbackAuthentication, CallbackChoice};
use axum::http::Method;
use domain::acquirer::{ReportedPix, ReportedPixStatus, SeenReturn};
use faults::proxy::{Fault, Report};
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Item, Write};
use tokio::task::JoinSet;

use crate::invocations::api_event;
use crate::support::{Answer, Client, Service, id, operator};

/// The largest body, in bytes.
const MIB: usize = 1_048_576;

/// A service without event sources, so that only notifications cause requests to DynamoDB.
struct Fixture {
    service: Service,
    path: String,
}

impl Fixture {
    async fn start() -> Self {
        let service = Service::without_event_sources().await;
        let path = service.new_callback_path().await;
        Self { service, path }
    }

    async fn post_to(&self, path: &str, body: impl Into<axum::body::Bytes>) -> Answer {
        self.service.raw(Method::POST, path, &[("content-type", "application/json")], body).await
    }

    async fn notify(&self, pix: &Value) -> Answer {
        self.post_to(&self.path, json!({ "pix": pix }).to_string()).await
    }

    /// Posts a notification that must be accepted. Returns the requests to DynamoDB that it caused.
    async fn accepted(&self, pix: &Value) -> Report {
        let (answer, report) = self.service.cost(self.notify(pix)).await;
        assert_eq!(answer.expect(200), json!({}));
        report
    }

    async fn find(&self, end_to_end_id: &str) -> Option<ReportedPix> {
        self.service.reported_pix(end_to_end_id).await
    }

    async fn bad_items(&self) -> Vec<Item> {
        self.service.rows(&format!("bad-notification#{}", self.service.scope().account), "").await
    }

    /// Replaces a row of a reported Pix, as the acquirer worker does.
    async fn replace(&self, row: &ReportedPix) {
        let write = Write::replace(row, row.version - 1).unwrap();
        assert_eq!(self.service.store().commit(vec![write]).await.unwrap(), CommitOutcome::Done);
    }

    /// Changes how the sender is authenticated.
    async fn authenticate_by(&self, subject: Option<&str>, source_addresses: &[&str]) {
        let account = self.service.scope().account;
        let mut choice = self.service.bank().await.choice();
        choice.callback = CallbackChoice {
            authentication: match subject {
                Some(_) => CallbackAuthentication::Mtls,
                None => CallbackAuthentication::Token,
            },
            certificate_subject: subject.map(str::to_owned),
            source_addresses: source_addresses.iter().map(|range| range.parse().unwrap()).collect(),
            ..choice.callback
        };
        let now = self.service.stack.clock.now();
        let set = self.service.acquirers().set(account, &choice, Some(&operator()), now).await.unwrap();
        assert!(set.new_callback_url.is_none(), "the token remains valid");
    }

    /// Invokes the function with the event of a request whose client certificate API Gateway verified.
    async fn notify_with_certificate(&self, subject: Option<&str>) -> i64 {
        let function = self.service.stack.functions.get("BankNotificationsFunction").unwrap().clone();
        let mut event = api_event(("POST", &self.path), &[], "203.0.113.9", "{}");
        event["requestContext"]["authentication"] = json!(subject.map(|subject| json!({"clientCert": {
            "clientCertPem": "-----BEGIN CERTIFICATE-----", "issuerDN": "CN=Banks", "serialNumber": "1",
            "subjectDN": subject, "validity": {"notBefore": "May 28 12:30:02 2026 GMT", "notAfter": "Aug  5 09:36:04 2027 GMT"},
        }})));
        function(event).await.unwrap()["statusCode"].as_i64().unwrap()
    }
}

fn wrote(report: &Report) -> bool {
    report.write_units > 0.0
}

/// The error of an answer, which must be the 401 of an unknown sender.
fn refusal(answer: &Answer) -> Value {
    assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"));
    answer.body["error"].clone()
}

#[tokio::test]
async fn a_sender_without_a_valid_token_is_refused_like_one_of_an_unknown_account() {
    let fixture = Fixture::start().await;
    let (prefix, token) = fixture.path.rsplit_once('/').unwrap();
    let other = fixture.service.stack.seed.other.id;
    let expected = refusal(&fixture.post_to(&format!("{prefix}/wrong"), "{}").await);
    for path in [
        format!("{prefix}/{token}x"),
        format!("{prefix}/{}", token.to_uppercase()),
        format!("{prefix}/wrong/pix"),
        // This account has no acquirer.
        format!("/v1/acquirer-events/{other}/{token}"),
        format!("/v1/acquirer-events/acc_0123456789abcdef/{token}"),
        format!("/v1/acquirer-events/acc_/{token}/pix"),
    ] {
        for body in ["{}", "not JSON"] {
            assert_eq!(refusal(&fixture.post_to(&path, body).await), expected, "{path}");
        }
    }
    let get = fixture.service.raw(Method::GET, &fixture.path, &[], "").await;
    assert_eq!(get.problem(), (404, "not_found_error", "not_found"));
}

#[tokio::test]
async fn a_token_is_refused_from_an_address_that_is_not_configured() {
    let fixture = Fixture::start().await;
    fixture.authenticate_by(None, &["203.0.113.0/24", "2001:db8::/32"]).await;
    let expected = refusal(&fixture.post_to(&fixture.path, "{}").await);
    // A client can send any value of this header.
    let headers = [("x-forwarded-for", "203.0.113.7")];
    let forwarded = fixture.service.raw(Method::POST, &fixture.path, &headers, "{}").await;
    assert_eq!(refusal(&forwarded), expected);
    assert_eq!(fixture.notify_with_certificate(None).await, 200, "203.0.113.9 is in the first range");
    fixture.authenticate_by(None, &["203.0.113.0/24", "127.0.0.1"]).await;
    fixture.post_to(&fixture.path, "{}").await.expect(200);

    // A bank with mTLS is authenticated by the subject of its certificate too.
    let subject = "CN=pix.bank.example,O=Bank,C=BR";
    fixture.authenticate_by(Some(subject), &[]).await;
    assert_eq!(fixture.notify_with_certificate(Some(subject)).await, 200);
    for other in [None, Some(""), Some("CN=pix.bank.example,O=Bank"), Some("cn=pix.bank.example,O=Bank,C=BR")]
    {
        assert_eq!(fixture.notify_with_certificate(other).await, 401, "{other:?}");
    }
    refusal(&fixture.post_to(&fixture.path, "{}").await);
}

#[tokio::test]
async fn both_paths_store_the_pix_and_an_object_without_pix_stores_nothing() {
    let fixture = Fixture::start().await;
    for (suffix, end_to_end_id) in [("", "E1"), ("/pix", "E2"), ("?ignorar=", "E3")] {
        let body = json!({"pix": [{"endToEndId": end_to_end_id, "txid": "abc"}]}).to_string();
        let answer = fixture.post_to(&format!("{}{suffix}", fixture.path), body).await;
        assert_eq!(answer.expect(200), json!({}));
        let row = fixture.find(end_to_end_id).await.unwrap();
        assert_eq!(
            (row.status, row.version, row.txid.as_deref()),
            (ReportedPixStatus::Reported, 1, Some("abc"))
        );
        assert_eq!(row.account, fixture.service.scope().account);
        assert!(row.read_back_at.is_some() && row.charge.is_none());
    }
    for body in ["", "{}", r#"{"evento": "teste_webhook", "pix": null}"#, r#"{"pix": []}"#] {
        // Some banks send no content type.
        let post = fixture.service.raw(Method::POST, &fixture.path, &[], body);
        let (answer, report) = fixture.service.cost(post).await;
        assert_eq!(answer.expect(200), json!({}), "{body}");
        assert_eq!(report.requests(), 1, "only the settings are read");
    }
}

#[tokio::test]
async fn a_body_has_at_most_1_mib_and_is_an_object_with_an_array() {
    let fixture = Fixture::start().await;
    let padded = |length: usize| {
        let start = r#"{"pix": [{"endToEndId": "E1"}], "padding": ""#;
        format!("{start}{}\"}}", "x".repeat(length - start.len() - 2))
    };
    fixture.post_to(&fixture.path, padded(MIB)).await.expect(200);
    assert!(fixture.find("E1").await.is_some());
    let many = json!({"pix": vec![json!({"endToEndId": "E2"}); 1_001]}).to_string();
    for body in [padded(MIB + 1), "[]".to_owned(), "{".to_owned(), r#"{"pix": {}}"#.to_owned(), many] {
        let answer = fixture.post_to(&fixture.path, body).await;
        assert_eq!(answer.problem(), (400, "invalid_request_error", "invalid_request"));
    }
    assert!(fixture.find("E2").await.is_none());
}

#[tokio::test]
async fn one_bad_item_is_set_aside_and_does_not_refuse_its_batch() {
    let fixture = Fixture::start().await;
    let bad = json!({"endToEndId": "E-?", "pagador": {"cpf": "29537995593", "nome": "Maria"}});
    let batch = json!([{"endToEndId": "E1"}, bad, {"endToEndId": "E2", "devolucoes": "?"}]);
    fixture.accepted(&batch).await;
    assert!(fixture.find("E1").await.is_some() && fixture.find("E2").await.is_some());
    let [row] = <[_; 1]>::try_from(fixture.bad_items().await).unwrap();
    let item = row["item"].as_s().unwrap();
    assert_eq!(item, r#"{"endToEndId":"E-?","pagador":{"cpf":"***.379.955-**","nome":"***"}}"#);
    let days = fixture.service.seconds_kept(&row) / 86_400;
    assert!((89..=90).contains(&days), "{days}");
    let repeated = fixture.accepted(&batch).await;
    assert_eq!((wrote(&repeated), fixture.bad_items().await.len()), (false, 1));
}

#[tokio::test]
async fn the_end_of_a_devolucao_makes_a_recorded_pix_be_read_back_again() {
    let fixture = Fixture::start().await;
    let with = |status: &str| json!([{"endToEndId": "E1", "devolucoes": [{"id": "D1", "status": status}]}]);
    fixture.accepted(&json!([{"endToEndId": "E1"}])).await;
    let reported = fixture.find("E1").await.unwrap();
    let recorded = reported.recorded(reported.account, None);
    fixture.replace(&recorded).await;
    assert!(!wrote(&fixture.accepted(&with("EM_PROCESSAMENTO")).await));
    for (status, version) in [("DEVOLVIDO", 3), ("NAO_REALIZADO", 5)] {
        assert!(wrote(&fixture.accepted(&with(status)).await));
        let again = fixture.find("E1").await.unwrap();
        assert_eq!((again.status, again.version), (ReportedPixStatus::Recorded, version));
        assert!(again.read_back_at.is_some());
        let seen = |status: &str| SeenReturn { id: "D1".to_owned(), status: status.to_owned() };
        let returns = [again.returns.clone(), vec![seen(status)]].concat();
        fixture.replace(&again.with_returns(returns)).await;
        assert!(!wrote(&fixture.accepted(&with(status)).await), "it was processed");
    }
}

#[tokio::test]
async fn of_the_pix_that_name_no_charge_600_an_hour_are_stored() {
    let fixture = Fixture::start().await;
    let live = fixture.service.live_client();
    let charge = live.new_charge("order-0001", &json!({"amount": 1000})).await;
    let test_charge = fixture.service.charge().await;
    let txid = |charge: &Value| charge["pix"]["txid"].as_str().unwrap().to_owned();
    let unknown = |from: usize, to: usize| -> Value {
        (from..to).map(|number| json!({"endToEndId": format!("E{number:04}")})).collect()
    };
    fixture.accepted(&unknown(0, 550)).await;
    // The charge of a test key, a foreign txid and a bad item count too.
    let others = json!([
        {"endToEndId": "ETEST", "txid": txid(&test_charge)}, {"endToEndId": "EFOREIGN", "txid": "x1"}, {},
    ]);
    fixture.accepted(&others).await;
    assert!(fixture.find("ETEST").await.is_some() && fixture.find("EFOREIGN").await.is_some());
    fixture.accepted(&unknown(550, 650)).await;
    let mut stored = 0;
    for number in 0..650 {
        stored += usize::from(fixture.find(&format!("E{number:04}")).await.is_some());
    }
    assert_eq!(stored, 597);
    // A repeat of a stored Pix is not unknown, and neither is the Pix of a live charge.
    let own = json!([{"endToEndId": "E0001"}, {"endToEndId": "EOWN", "txid": txid(&charge)}]);
    let report = fixture.accepted(&own).await;
    assert_eq!(report.requests(), 3, "the settings, the rows that exist, and one insert: {report:?}");
    assert_eq!(fixture.find("EOWN").await.unwrap().txid, Some(txid(&charge)));
    fixture.accepted(&json!([{"endToEndId": "ELATE"}])).await;
    assert!(fixture.find("ELATE").await.is_none());
    fixture.service.stack.clock.advance(3_600_000);
    fixture.accepted(&json!([{"endToEndId": "ELATE"}])).await;
    assert!(fixture.find("ELATE").await.is_some(), "{}", id(&charge));
}

#[tokio::test]
async fn a_notification_whose_rows_cannot_be_stored_is_answered_503_and_can_be_repeated() {
    let fixture = Fixture::start().await;
    let proxy = fixture.service.proxy();
    let pix: Value = (0..60).map(|number| json!({"endToEndId": format!("E{number}")})).collect();
    proxy.inject_every("PutItem", 1, Fault::ServerError);
    let failed = fixture.notify(&pix).await;
    assert_eq!(failed.problem(), (503, "api_error", "service_unavailable"));
    proxy.reset();
    fixture.accepted(&pix).await;
    for number in 0..60 {
        assert!(fixture.find(&format!("E{number}")).await.is_some(), "{number}");
    }

    // Concurrent notifications of one Pix store it once.
    let mut posts = JoinSet::new();
    for _ in 0..20 {
        let (client, path) = (Client::new(&fixture.service.base_url, ""), fixture.path.clone());
        let body = json!({"pix": [{"endToEndId": "ETWENTY"}]}).to_string();
        posts.spawn(async move { client.raw(Method::POST, &path, &[], body).await.status.as_u16() });
    }
    assert_eq!(posts.join_all().await, [200; 20]);
    assert_eq!(fixture.find("ETWENTY").await.unwrap().version, 1);
}

#[tokio::test]
async fn the_api_of_merchants_refuses_notifications() {
    let service = Service::without_event_sources().await;
    // The route `$default` of that API invokes this function. The service on this machine has one port for all
    // APIs, so the test invokes the function itself.
    let default = service.stack.functions.get("CheckoutFunction").unwrap().clone();
    for suffix in ["", "/pix", "/med"] {
        let path = format!("/v1/acquirer-events/{}/token{suffix}", service.scope().account);
        let answer = default(api_event(("POST", &path), &[], "192.0.2.1", "{}")).await.unwrap();
        assert_eq!(answer["statusCode"], 404, "{answer}");
    }
}
