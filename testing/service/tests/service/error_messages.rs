//! A snapshot of the error messages that a merchant can get, so that all can be read together. Requests break the
//! rules of each field. The test constructs other problems, because many of them need an outage or a long history.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use acquirer_core::AcquirerError;
use axum::http::Method;
use domain::charge::transition::Rejection;
use domain::charge::{RefundRefused, TransactionStatus};
use domain::med::{CaseRefused, CaseStatus, EvidenceRefused};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::webhook::signature::canonical;
use effects::webhook::WebhookError;
use money::charge::ChargeError;
use money::med::{CaseError, EvidenceError};
use money::refund::RefundError;
use serde_json::{Value, json};
use services::too_many_to_sort;
use shared::http::Problem;

use crate::support::{Answer, Service, id, raw_id};
use crate::webhooks::endpoint_path;

/// An id that no object has.
const NONE: &str = "00000000-0000-0000-0000-000000000000";

/// The list: messages under headings. A message that is already under its heading is not added again.
#[derive(Default)]
struct Messages {
    text: String,
    seen: BTreeSet<String>,
}

impl Messages {
    fn heading(&mut self, heading: &str) {
        self.seen.clear();
        write!(self.text, "\n{heading}\n").unwrap();
    }

    fn add(&mut self, status: u16, code: &str, message: &str) {
        if self.seen.insert(format!("{code} {message}")) {
            writeln!(self.text, "  {status} {code}: {message}").unwrap();
        }
    }

    fn add_problem(&mut self, problem: &Problem) {
        self.add(problem.status().as_u16(), problem.code(), &problem.to_string());
    }

    /// Adds the messages of an error response: one for each invalid field, or the only one if no field is
    /// named. If several fields are invalid, also adds the message of the whole response, with `N` for each
    /// digit.
    fn add_answer(&mut self, answer: &Answer) {
        let (status, code, error) = (answer.status.as_u16(), answer.code(), &answer.body["error"]);
        let message = error["message"].as_str().unwrap();
        let details = error["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        for detail in details {
            self.add(status, code, detail["message"].as_str().unwrap());
        }
        match details {
            [] => self.add(status, code, message),
            [only] => assert_eq!(only["message"], message),
            _ => self.add(status, code, &message.replace(char::is_numeric, "N")),
        }
    }
}

/// Adds the problems that the test constructs.
fn constructed(messages: &mut Messages) {
    messages.heading("Any route");
    let seconds = 42;
    for problem in [
        Problem::Unauthorized,
        Problem::NotLoggedIn,
        Problem::WrongCredentials,
        Problem::SecondFactorRequired,
        Problem::SecondFactorDemanded,
        Problem::UnknownSender,
        Problem::ApiKeyRoleRequired,
        Problem::AccountSuspended,
        Problem::LiveKeyNotAllowed,
        Problem::CdnBypassed,
        Problem::NotFound { what: "charge" },
        Problem::NoSuchRoute { method: "GET".to_owned(), path: "/v2".to_owned() },
        Problem::IdempotencyKeyReused,
        Problem::RateLimited { retry_after_seconds: seconds },
        Problem::TooManyTests { limit: 10, retry_after_seconds: seconds },
        Problem::TooManyReports { limit: 2, period: "at once", retry_after_seconds: seconds },
        Problem::TooManyLogins { limit: 10, retry_after_seconds: seconds },
        Problem::LiveChargesStopped,
        Problem::Unavailable(String::new()),
        Problem::Limited(std::time::Duration::ZERO),
        Problem::Busy,
        Problem::Internal(String::new()),
    ] {
        messages.add_problem(&problem);
    }
    let status = TransactionStatus::Expired;
    messages.heading("Charges and payments");
    let rejected = |rejection| ChargeError::Rejected { rejection, status }.into();
    for problem in [
        AcquirerError::NotConfigured.into(),
        AcquirerError::MethodNotConfigured { supported: "PIX".to_owned() }.into(),
        ChargeError::CustomerVelocityExceeded.into(),
        ChargeError::AccountVelocityExceeded.into(),
        rejected(Rejection::NotHeldForReview),
        rejected(Rejection::NotCancellable),
        rejected(Rejection::BeingPaid),
        rejected(Rejection::AwaitsConfirmation { until: "2026-12-10T02:59:59Z".parse().unwrap() }),
        rejected(Rejection::NotPayableByCard),
        too_many_to_sort(),
    ] {
        messages.add_problem(&problem);
    }
    messages.heading("Refunds");
    let refused = |why| RefundError::Refused { why, status }.into();
    for problem in [
        refused(RefundRefused::NotSettled),
        refused(RefundRefused::Disputed),
        refused(RefundRefused::CaseLost),
        refused(RefundRefused::ExceedsRemaining { remaining: MinorUnits::new(500) }),
        RefundError::InsufficientBalance { needed: 1_000, available: 300, pending: 200 }.into(),
        RefundError::MethodNotSupported(PaymentMethod::Crypto).into(),
        RefundError::CashoutNotSupported.into(),
        RefundError::PayerOnly.into(),
        RefundError::NoDestination.into(),
        RefundError::TooOldForDevolution.into(),
        RefundError::OverThirdPartyLimit { limit: 5_000, left: 200 }.into(),
    ] {
        messages.add_problem(&problem);
    }
    let details: Problem = RefundError::OnlyForPix(vec!["strategy"]).into();
    messages.add_problem(&details);
    messages.heading("MED cases and evidence");
    for problem in [
        CaseError::NotOpen(CaseStatus::Closed).into(),
        CaseError::Refused(CaseRefused::NotSettled(TransactionStatus::Expired)).into(),
        EvidenceError::Refused(EvidenceRefused::CaseOver(CaseStatus::Closed)).into(),
        EvidenceError::Refused(EvidenceRefused::Full).into(),
        EvidenceError::NotUploaded.into(),
        EvidenceError::SizeMismatch { declared: 10, stored: 12 }.into(),
    ] {
        messages.add_problem(&problem);
    }
    messages.heading("Webhooks");
    for problem in [
        WebhookError::TooManyEndpoints.into(),
        WebhookError::EventNotKept.into(),
        WebhookError::EndpointInactive.into(),
        WebhookError::EndpointDeleted.into(),
    ] {
        messages.add_problem(&problem);
    }
}

/// Returns paths of `POST` routes. Each has bodies that together break the rules of the route's fields.
fn bodies(charge: &str, settled: &str, case: &str, endpoint: &str) -> Vec<(String, Vec<Value>)> {
    let many: serde_json::Map<String, Value> =
        (0..51).map(|number| (format!("key{number}"), json!(1))).collect();
    let long = "x".repeat(20_000);
    let payment = |more: Value| {
        let mut body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-0001"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        (
            "/v1/pix/charges".to_owned(),
            vec![
                json!({}),
                json!({"amount": 0, "currency": "USD", "payment_method": "card", "expires_in": 5, "description": 7,
                    "customer": {"name": " ", "document": "123", "email": "x", "phone": ["a"]},
                    "expected_payer_tax_id": "29537995593", "metadata": [1]}),
                json!({"amount": 1_000_000_000_000_u64, "expires_in": "60", "customer": [], "description": "a\u{0}b",
                    "metadata": many}),
                json!({"amount": 1, "expected_payer_tax_id": "29537995593",
                    "customer": {"name": "a\u{202e}b", "document": "52998224725"}, "metadata": {"a": long}}),
                json!({"amount": 1, "customer": {"name": "x".repeat(300), "email": "ana@"}}),
                json!({"amount": 1, "expected_payer_tax_id": "29537995593"}),
            ],
        ),
        (
            "/v1/charges".to_owned(),
            vec![json!({"amount": 1}), json!({"amount": 1, "payment_method": "card"})],
        ),
        (
            "/v1/payments".to_owned(),
            vec![
                json!({}),
                payment(
                    json!({"paymentMethods": ["GOLD"], "currency": "X", "customerDocument": " 1 ", "webhookUrl": 7,
                    "customerEmail": "x", "customerId": "", "idempotencyKey": "x"}),
                ),
                payment(json!({"paymentMethods": [], "metadata": {"phone": "1"}, "webhookUrl": "/hook"})),
                payment(
                    json!({"paymentMethods": ["MBWAY"], "currency": "EUR", "webhookUrl": "http://example.com/"}),
                ),
                payment(
                    json!({"paymentMethods": ["MBWAY"], "metadata": {"phone": "1"}, "webhookUrl": "https://a:b@example.com/"}),
                ),
                payment(
                    json!({"paymentMethods": ["CREDIT_CARD"], "metadata": {"returnUrl": "x"}, "webhookUrl": "https://example.com/#a"}),
                ),
                payment(
                    json!({"paymentMethods": ["MULTIBANCO"], "currency": "EUR", "amount": 999_999_999_999_u64,
                    "webhookUrl": "https://example.com:0/"}),
                ),
                payment(json!({"webhookUrl": "https://example.com:25/"})),
                payment(json!({"webhookUrl": "https://printer.local/"})),
                payment(json!({"webhookUrl": "https://10.0.0.1/"})),
                payment(json!({"webhookUrl": format!("https://example.com/{}", "x".repeat(2_100))})),
            ],
        ),
        (
            format!("/v1/payments/{settled}/refund"),
            vec![
                json!({}),
                json!({"amount": -1, "idempotencyKey": "x", "strategy": "gift", "passFeeToTenant": "yes", "destinationKey": "?",
                    "reason": 7}),
                json!({"idempotencyKey": "order-0001", "strategy": "devolution", "passFeeToTenant": true,
                    "destinationKey": "29537995593", "reason": "x".repeat(3_000)}),
            ],
        ),
        (
            format!("/v1/sandbox/charges/{charge}/pay"),
            vec![
                json!({"method": "boleto", "payer_tax_id": "1", "payer_name": 5, "end_to_end_id": "?", "paid_at": "soon",
                    "amount": "1"}),
                json!({"paid_at": "2020-01-01T00:00:00Z"}),
                json!({"paid_at": "2999-01-01T00:00:00Z"}),
            ],
        ),
        (format!("/v1/sandbox/charges/{charge}/review"), vec![json!({}), json!({"decision": "maybe"})]),
        (format!("/v1/sandbox/charges/{charge}/fail"), vec![json!({"reason": 7, "code": "", "retry": "no"})]),
        (
            format!("/v1/sandbox/charges/{settled}/med-cases"),
            vec![
                json!({"notice_id": "a\nb", "type": "x", "reason": "a\u{0}b", "method": "x", "response_deadline": "x",
                    "amount": 0}),
            ],
        ),
        (
            format!("/v1/med/cases/{case}/appeal"),
            vec![json!({}), json!({"reason": "         \u{0}           "}), json!({"reason": 7})],
        ),
        (format!("/v1/sandbox/med/cases/{case}/resolve"), vec![json!({}), json!({"decision": "draw"})]),
        (
            format!("/v1/med/cases/{case}/evidence"),
            vec![
                json!({}),
                json!({"file_name": "../a", "file_size": 0, "mime_type": "text/html"}),
                json!({"file_name": "x".repeat(300), "file_size": "1", "mime_type": "IMAGE/PNG"}),
                json!({"file_name": "a\\b", "file_size": 10_485_761, "mime_type": "image/svg+xml"}),
            ],
        ),
        (
            "/v1/reports".to_owned(),
            vec![
                json!({}),
                json!({"type": "sales", "format": "doc", "from": "2026-1-1", "to": "x", "by": "x", "currency": "x",
                    "locale": "pt", "delimiter": "/", "colour": 1}),
                json!({"type": "fees", "format": "csv", "from": "2026-02-01", "to": "2026-01-01", "by": "paid"}),
                json!({"type": "fees", "format": "csv", "from": "2020-01-01", "to": "2026-01-01"}),
                json!({"type": "fees", "format": "csv", "from": "2999-01-01", "to": "2999-01-01"}),
            ],
        ),
        (
            "/v1/reports/schedules".to_owned(),
            vec![
                json!({}),
                json!({"interval": "yearly", "type": "x", "format": "x", "email": "x"}),
                json!({"interval": "daily", "type": "fees", "format": "csv", "email": "x@y.example"}),
                json!({"interval": "daily", "type": "fees", "format": "pdf"}),
                json!({"interval": "daily", "type": "statement", "format": "ofx", "currency": "EUR"}),
            ],
        ),
        (
            "/v1/webhooks/endpoints".to_owned(),
            vec![
                json!({}),
                json!({"url": "https://localhost/", "events": []}),
                json!({"url": "https://127.0.0.2:1/", "events": ["charge.gone"]}),
                json!({"url": format!("https://example.com/{}", "x".repeat(2_100)), "events": ["charge.paid"]}),
            ],
        ),
        (format!("/v1/webhooks/endpoints/{endpoint}/rotate-secret"), vec![json!({"id": "wh_1"})]),
        ("/v1/auth/login".to_owned(), vec![json!({}), json!({"email": 7, "password": ""})]),
        ("/v1/requests/record".to_owned(), vec![json!({}), json!({"minutes": 61, "hours": 1})]),
    ]
}

/// Requests whose query strings together break the rules of the routes' parameters.
const QUERIES: [&str; 23] = [
    "/v1/charges?order_id=%20&customer_email=maria&end_to_end_id=E-1&txid=7yae&amount=12.90",
    "/v1/charges?limit=0&starting_after=x&created_after=x&status=x&customer_id=&color=red",
    "/v1/charges?limit=%2B5&starting_after=ch_x&status=PAID&created_before=2026-13-01T00:00:00Z&customer_id=%20123&page=1",
    "/v1/wallets/balance?currency=brl&curency=EUR",
    "/v1/wallets/balance?currency=BLR",
    "/v1/charges?limit=1&limit=2&starting_after=ch_00000000-0000-0000-0000-000000000000",
    "/v1/payments?page=0&limit=x&starting_after=x&status=x&startDate=x&endDate=x&sortBy=x&sortOrder=x",
    "/v1/payments?page=999999",
    "/v1/payments?page=1&sortBy=amount&starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments?sortBy=amount&starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments?starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments/stats?days=0&currency=x",
    "/v1/med/cases?limit=0&starting_after=x&charge_id=x&status=x&type=x&created_after=x&created_before=x",
    "/v1/med/cases?deadline_before=x&sort=x",
    "/v1/med/cases?sort=deadline&status=closed&type=med&charge_id=ch_00000000-0000-0000-0000-000000000000&created_after=2026-11-01&created_before=2026-11-02",
    "/v1/wallets/transactions?limit=0&starting_after=x&currency=x&created_after=x&created_before=x",
    "/v1/wallets/transactions?starting_after=mv_00000000000000000000000000",
    "/v1/webhooks/deliveries?limit=0&starting_after=x&endpointId=x&status=x&eventType=x&offset=x&created_after=x&created_before=2026-13-01",
    "/v1/webhooks/deliveries?offset=1&starting_after=wd_00000000000000000000000000",
    "/v1/reports?limit=0&starting_after=x&status=ready",
    "/v1/reports?starting_after=rp_00000000000000000000000000",
    "/v1/events?limit=0&starting_after=x&object=x&type=x&created_after=x",
    "/v1/requests?limit=0&starting_after=x&status=99&code=a-b&route=x&request_id=%00&created_after=x",
];

async fn collect_messages() -> Messages {
    let service = Service::start().await;
    let (open, paid) = (service.charge().await, service.charge().await);
    service.sandbox(&paid, "pay", &json!({})).await;
    let case =
        service.post(&format!("/v1/sandbox/charges/{}/med-cases", id(&paid)), &json!({})).await.expect(201);
    let endpoint = service.register_endpoint("https://example.com/", &["charge.paid"]).await;
    let settled = service.pay(1_000).await;

    let mut messages = Messages::default();
    constructed(&mut messages);

    messages.heading("Any body");
    let key = service.key();
    let json_type = [("apikey", key.as_str()), ("content-type", "application/json")];
    let text_type = [("apikey", key.as_str()), ("content-type", "text/plain")];
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for (headers, body) in [
        (&text_type, "{}".to_owned()),
        (&json_type, "{".to_owned()),
        (&json_type, "[]".to_owned()),
        (&json_type, r#"{"metadata":{"a":1,"a":2}}"#.to_owned()),
        (&json_type, format!(r#"{{"metadata":{deep}}}"#)),
        (&json_type, r#"{"description":"\ud800"}"#.to_owned()),
        (&json_type, "x".repeat(300_000)),
    ] {
        messages.add_answer(&service.raw(Method::POST, "/v1/webhooks/endpoints", headers, body).await);
    }
    for (path, bodies) in bodies(id(&open), raw_id(&settled), id(&case), id(&endpoint)) {
        let mut heading = path.clone();
        for (text, name) in
            [(id(&open), "{id}"), (raw_id(&settled), "{id}"), (id(&case), "{id}"), (id(&endpoint), "{id}")]
        {
            heading = heading.replace(text, name).replace("ch_{id}", "{id}");
        }
        messages.heading(&format!("POST {heading}"));
        for body in bodies {
            let answer = service.post_as(&key, &path, &body, &[]).await;
            assert!(answer.status.is_client_error(), "{path} {body}");
            messages.add_answer(&answer);
            if path == "/v1/pix/charges" {
                messages.add_answer(&service.post_charge("short", &body).await);
            }
        }
    }
    // This body is text, because `serde_json::Value` would store the number as a float.
    let number = r#"{"amount":1,"metadata":{"a":123456789012345678901234567890}}"#;
    let headers = [&json_type[..], &[("idempotency-key", "order-0001")]].concat();
    messages.heading("A number in metadata");
    messages.add_answer(&service.raw(Method::POST, "/v1/pix/charges", &headers, number).await);
    messages.heading("PATCH /v1/webhooks/endpoints/{id}");
    let change = json!({"url": 7, "events": 7, "status": "PAUSED"});
    messages.add_answer(&service.patch(&endpoint_path(&endpoint), &change).await);
    messages.heading("GET /v1/payments/{id}/receipt");
    messages.add_answer(&service.get(&format!("/v1/payments/{}/receipt", raw_id(&open))).await);

    messages.heading("Notifications of banks");
    let path = service.new_callback_path().await;
    let many = json!({"pix": vec![json!({}); 1_001]}).to_string();
    for body in ["[]".to_owned(), "{".to_owned(), r#"{"pix": {}}"#.to_owned(), many, " ".repeat(1_100_000)] {
        messages.add_answer(&service.raw(Method::POST, &path, &[], body).await);
    }
    let med_secret = service.med_secret().await;
    for notice in [
        json!({}),
        json!({"notice_id": "", "infraction_id": "a\nb", "end_to_end_id": "?", "status": "x", "situation": "x", "amount": 0,
            "reason": 7, "response_deadline": "x", "reported_at": "2999-01-01T00:00:00Z"}),
        json!({"status": "CLOSED", "notice_id": 7}),
        json!({"status": "OPEN", "analysis_result": "WON"}),
    ] {
        let body = notice.to_string();
        let now = service.stack.clock.now().seconds();
        let signature = canonical(&med_secret, now, body.as_bytes());
        let headers = [("x-signature", signature.as_str())];
        messages.add_answer(&service.raw(Method::POST, &format!("{path}/med"), &headers, body).await);
    }

    messages.heading("The form of the checkout page");
    let path = format!("/checkout/{}/simulate", raw_id(&open));
    let form_type = "application/x-www-form-urlencoded";
    for (content_type, form) in [
        ("text/plain", ""),
        (form_type, "amount=1&method=x"),
        (form_type, "outcome=x&outcome=paid"),
        (form_type, "outcome=x&method=BOLETO"),
        (form_type, "outcome=paid&method=BOLETO"),
        (form_type, &"x".repeat(1_025)),
    ] {
        let headers = [("content-type", content_type)];
        messages.add_answer(&service.raw(Method::POST, &path, &headers, form.to_owned()).await);
    }

    let events = format!("/v1/events?object={}&starting_after=evt_00000000000000000000000000", id(&open));
    for path in QUERIES.iter().copied().chain([events.as_str()]) {
        let answer = service.get(path).await;
        assert_eq!(answer.status, 400, "{path}");
        messages.heading(&format!("GET {}", path.replace(id(&open), "{id}")));
        messages.add_answer(&answer);
    }
    messages.heading("Ids");
    for path in [
        format!("/v1/charges/ch_{NONE}"),
        format!("/v1/payments/{NONE}"),
        "/v1/med/cases/x".to_owned(),
        "/v1/webhooks/endpoints/x".to_owned(),
        "/v1/webhooks/deliveries/x".to_owned(),
        "/v1/events/x".to_owned(),
        "/v1/requests/x".to_owned(),
        format!("/checkout/{NONE}/qr.png"),
        format!("/checkout/{}/boleto.pdf", raw_id(&open)),
    ] {
        messages.add_answer(&service.get(&path).await);
    }
    let evidence = format!("/v1/med/cases/{}/evidence/x/complete", id(&case));
    messages.add_answer(&service.post(&evidence, &json!({})).await);
    messages
}

#[tokio::test]
async fn every_error_message_reads_as_listed() {
    insta::assert_snapshot!(collect_messages().await.text);
}
