//! Lists every error message that a merchant can get, so that all can be read together. Some messages come
//! from requests to a service. The test constructs other problems, because many of them need an outage or a
//! long history.
//!
//! A second test searches the sources for messages that are missing from the list.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use axum::http::Method;
use domain::charge::transition::Rejection;
use domain::charge::{RefundRefused, TransactionStatus};
use domain::med::{CaseRefused, CaseStatus, EvidenceRefused};
use domain::money::MinorUnits;
use domain::payment_method::PaymentMethod;
use domain::webhook::signature::canonical;
use serde_json::{Value, json};
use shared::acquirer::AcquirerError;
use shared::charge::ChargeError;
use shared::http::Problem;
use shared::med::{CaseError, EvidenceError};
use shared::refund::RefundError;
use shared::services::PaymentListError;
use shared::webhook::WebhookError;
use tokio::sync::OnceCell;

use crate::support::{Answer, Service, id};

/// An id that no object has.
const NONE: &str = "00000000-0000-0000-0000-000000000000";

/// The list: messages under headings. A message that is already in the list is not added again.
#[derive(Default)]
struct Messages {
    text: String,
    seen: BTreeSet<String>,
}

impl Messages {
    fn heading(&mut self, heading: &str) {
        write!(self.text, "\n{heading}\n").unwrap();
    }

    fn add(&mut self, status: u16, code: &str, message: &str) {
        if self.seen.insert(format!("{code} {message}")) {
            writeln!(self.text, "  {status} {code}: {message}").unwrap();
        }
    }

    fn add_problem(&mut self, problem: &Problem) {
        assert!(is_listed(problem));
        self.add(problem.status().as_u16(), problem.code(), &problem.message());
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

/// Fails to compile when `Problem` has a new variant. Add the variant here and its messages to the list.
fn is_listed(problem: &Problem) -> bool {
    match problem {
        Problem::Invalid(_)
        | Problem::InvalidAmount(_)
        | Problem::Unreadable(_)
        | Problem::Unauthorized
        | Problem::NotLoggedIn
        | Problem::WrongCredentials
        | Problem::UnknownSender
        | Problem::ApiKeyRoleRequired
        | Problem::AccountSuspended
        | Problem::CustomerVelocityExceeded
        | Problem::AccountVelocityExceeded
        | Problem::LiveKeyNotAllowed
        | Problem::CdnBypassed
        | Problem::NotFound { .. }
        | Problem::NoSuchRoute { .. }
        | Problem::IdempotencyKeyReused
        | Problem::EvidenceNotUploaded
        | Problem::EvidenceSizeMismatch { .. }
        | Problem::Unprocessable(_)
        | Problem::UnprocessableField { .. }
        | Problem::PaymentNotCancellable { .. }
        | Problem::PaymentNotRefundable { .. }
        | Problem::ReturnWindowOver(_)
        | Problem::ChargeDisputed { .. }
        | Problem::RefundExceedsRemaining { .. }
        | Problem::InsufficientBalance { .. }
        | Problem::RefundNotSupported(_)
        | Problem::RateLimited { .. }
        | Problem::TooManyTests { .. }
        | Problem::TooManyLogins { .. }
        | Problem::LiveChargesStopped
        | Problem::Unavailable(_)
        | Problem::Busy
        | Problem::Internal(_) => true,
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
        Problem::TooManyLogins { limit: 10, retry_after_seconds: seconds },
        Problem::LiveChargesStopped,
        Problem::Unavailable(String::new()),
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
        AcquirerError::MethodNotConfigured.into(),
        ChargeError::CustomerVelocityExceeded.into(),
        ChargeError::AccountVelocityExceeded.into(),
        rejected(Rejection::NotHeldForReview),
        rejected(Rejection::NotCancellable),
        rejected(Rejection::NotPayableByCard),
        PaymentListError::TooManyToSort.into(),
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
        RefundError::InsufficientBalance { needed: 1_000, available: 300 }.into(),
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
                    "expected_payer_tax_id": "29537995593", "metadata": []}),
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
                json!({"method": "boleto", "payer_tax_id": "1", "end_to_end_id": "?", "paid_at": "soon", "amount": "1"}),
                json!({"paid_at": "2020-01-01T00:00:00Z"}),
                json!({"paid_at": "2999-01-01T00:00:00Z"}),
            ],
        ),
        (format!("/v1/sandbox/charges/{charge}/review"), vec![json!({}), json!({"decision": "maybe"})]),
        (format!("/v1/sandbox/charges/{charge}/fail"), vec![json!({"reason": 7, "code": ""})]),
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
                json!({"file_name": "x".repeat(300), "file_size": "1", "mime_type": "image/png"}),
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
    ]
}

/// Requests whose query strings together break the rules of the routes' parameters.
const QUERIES: [&str; 14] = [
    "/v1/charges?limit=0&starting_after=x&created_after=x&status=x&customer_id=&color=red",
    "/v1/charges?limit=1&limit=2&starting_after=ch_00000000-0000-0000-0000-000000000000",
    "/v1/payments?page=0&limit=x&starting_after=x&status=x&startDate=x&endDate=x&sortBy=x&sortOrder=x",
    "/v1/payments?page=999999",
    "/v1/payments?page=1&sortBy=amount&starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments?sortBy=amount&starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments?starting_after=00000000-0000-0000-0000-000000000000",
    "/v1/payments/stats?days=0&currency=x",
    "/v1/med/cases?limit=0&starting_after=x&charge_id=x&status=x&type=x&opened_after=x&opened_before=x",
    "/v1/wallets/transactions?limit=0&starting_after=x&currency=x&created_after=x&created_before=x",
    "/v1/wallets/transactions?starting_after=mv_00000000000000000000000000",
    "/v1/webhooks/deliveries?limit=0&starting_after=x&endpointId=x&status=x&eventType=x&offset=x",
    "/v1/webhooks/deliveries?offset=1&starting_after=wd_00000000000000000000000000",
    "/v1/events?limit=0&starting_after=x&object=x&type=x&created_after=x",
];

/// Returns the list. Both tests read it, but only the first sends the requests.
async fn all_messages() -> &'static str {
    static LIST: OnceCell<String> = OnceCell::const_new();
    LIST.get_or_init(async || Box::pin(collect_messages()).await.text).await
}

async fn collect_messages() -> Messages {
    let service = Service::start().await;
    let (open, paid) = (service.charge().await, service.charge().await);
    service.sandbox(&paid, "pay", &json!({})).await;
    let case =
        service.post(&format!("/v1/sandbox/charges/{}/med-cases", id(&paid)), &json!({})).await.expect(201);
    let endpoint = service.register_endpoint("https://example.com/", &["charge.paid"]).await;
    let settled = service.charge().await;
    service.sandbox(&settled, "pay", &json!({})).await;

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
    let raw = |charge: &Value| id(charge).trim_start_matches("ch_").to_owned();
    for (path, bodies) in bodies(id(&open), &raw(&settled), id(&case), id(&endpoint)) {
        let mut heading = path.clone();
        for (text, name) in
            [(id(&open), "{id}"), (&raw(&settled), "{id}"), (id(&case), "{id}"), (id(&endpoint), "{id}")]
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
    messages.add_answer(&service.patch(&format!("/v1/webhooks/endpoints/{}", id(&endpoint)), &change).await);
    messages.heading("GET /v1/payments/{id}/receipt");
    messages.add_answer(&service.get(&format!("/v1/payments/{}/receipt", raw(&open))).await);

    messages.heading("Notifications of banks");
    let path = service.new_callback_path().await;
    let many = json!({"pix": vec![json!({}); 1_001]}).to_string();
    for body in ["[]".to_owned(), "{".to_owned(), r#"{"pix": {}}"#.to_owned(), many, " ".repeat(1_100_000)] {
        messages.add_answer(&service.raw(Method::POST, &path, &[], body).await);
    }
    let account = service.scope().account;
    let callback = service.acquirers().callback_settings(&account).await.unwrap().unwrap();
    for notice in [
        json!({}),
        json!({"notice_id": "", "infraction_id": "a\nb", "end_to_end_id": "?", "status": "x", "situation": "x", "amount": 0,
            "reason": 7, "response_deadline": "x", "reported_at": "2999-01-01T00:00:00Z"}),
        json!({"status": "CLOSED", "notice_id": 7}),
    ] {
        let body = notice.to_string();
        let now = service.stack.clock.now().seconds();
        let signature = canonical(callback.med_secret.as_secret(), now, body.as_bytes());
        let headers = [("x-signature", signature.as_str())];
        messages.add_answer(&service.raw(Method::POST, &format!("{path}/med"), &headers, body).await);
    }

    messages.heading("The form of the checkout page");
    let path = format!("/checkout/{}/simulate", raw(&open));
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

    messages.heading("Queries");
    let events = format!("/v1/events?object={}&starting_after=evt_00000000000000000000000000", id(&open));
    for path in QUERIES.iter().copied().chain([events.as_str()]) {
        let answer = service.get(path).await;
        assert!(answer.status.is_client_error(), "{path}");
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
        format!("/checkout/{NONE}/qr.png"),
        format!("/checkout/{}/boleto.pdf", raw(&open)),
    ] {
        messages.add_answer(&service.get(&path).await);
    }
    let evidence = format!("/v1/med/cases/{}/evidence/x/complete", id(&case));
    messages.add_answer(&service.post(&evidence, &json!({})).await);
    messages
}

#[tokio::test]
async fn every_error_message_reads_as_listed() {
    insta::assert_snapshot!(all_messages().await, @r#"
    Any route
      401 unauthorized: The `apikey` header is missing or its key is not valid. Send the key exactly as it was issued.
      401 unauthorized: The dashboard token is missing, expired or logged out. Send `Authorization: Bearer` with a token from POST /v1/auth/login.
      401 unauthorized: The e-mail address or the password is wrong.
      401 unauthorized: The notification could not be authenticated. Check the registered URL, the client certificate and the source address, and for a MED notice its `X-Signature`.
      403 API_KEY_ROLE_REQUIRED: Only an OWNER or ADMIN of the account can issue, rotate or revoke API keys.
      403 account_suspended: The account is suspended, so its API keys are refused. Payments, refunds and webhooks in progress go on. Ask your operator to resume the account.
      403 live_key_not_allowed: Sandbox routes simulate the acquirer of test charges. Use an ak_test_ key.
      403 cdn_required: This host is not open to clients. Send requests to the public host of the API.
      404 not_found: There is no such charge in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no route GET /v2. Check the method and the path.
      409 idempotency_key_reused: This idempotency key was used with a different body. Use a new key for a new request.
      429 rate_limited: Too many requests in this minute. Retry in 42 seconds.
      429 rate_limited: At most 10 tests of a webhook endpoint can be sent in a minute. Retry in 42 seconds.
      429 rate_limited: Too many failed log-ins. Retry in 42 seconds.
      503 service_unavailable: The operator stopped new live charges for a time. Existing charges are not affected. Retry after the seconds in `Retry-After`, with the same idempotency key.
      503 service_unavailable: A dependency did not answer in time, or too many requests changed the same object at once. Retry with backoff and the same idempotency key.
      500 internal_error: An internal error occurred. Retrying with the same idempotency key is safe.

    Charges and payments
      422 unprocessable_entity: No provider is configured for live payments of this account. Use an ak_test_ key.
      422 unprocessable_entity: No provider is configured for a requested payment method. Live payments support PIX only.
      403 fraud.customer_velocity_exceeded: This customer has too many charges created within ten minutes. Expired and cancelled charges do not count. Retry later.
      403 fraud.account_velocity_exceeded: The account created too many charges within this minute. Expired and cancelled charges do not count. Retry later.
      422 unprocessable_entity: The charge is EXPIRED. Only a payment held for review can be reviewed.
      422 payment_not_cancellable: The payment is EXPIRED. Only an unpaid payment can be cancelled; refund a settled one instead.
      422 unprocessable_entity: The charge is EXPIRED. It can't be paid by card now.
      400 invalid_request: `sortBy` can sort at most 1000 payments, and more match; narrow the list by `status`, `startDate` and `endDate`, or read all in the order of `createdAt` with `starting_after`.

    Refunds
      422 payment_not_refundable: The payment is EXPIRED. Only a PAID or APPROVED payment can be refunded.
      422 charge_disputed: A MED case on this payment is still open. Refund the payment after the case is closed.
      422 charge_disputed: A MED case on this payment was lost, so the payment can no longer be refunded.
      422 refund_exceeds_remaining: At most 500 (minor units) can still be refunded; refunds in progress are already deducted.
      422 insufficient_balance: The refund takes 1000 (minor units) from the wallet, which has 300 available. Refund less, or add funds.
      422 REFUND_NOT_SUPPORTED: The acquirer can't refund payments by CRYPTO.
      422 REFUND_NOT_SUPPORTED: The acquirer does not support refunds by cashout. Use strategy devolution, without `destinationKey` and `passFeeToTenant`.
      422 unprocessable_entity: This account refunds only to the payer. Leave `destinationKey` out, or send the payer's document as their bank reported it.
      422 unprocessable_entity: The bank did not report the payer's document, so the refund needs a Pix key. Send `destinationKey`, or use strategy devolution.
      422 payment_not_refundable: A bank returns a Pix only within 90 days, which are over. Use strategy cashout if the account supports it.
      422 unprocessable_entity: Refunds to Pix keys of third parties are limited to 5000 a day (minor units), of which 200 is left today. Refund to the payer (without `destinationKey`) or wait until tomorrow.
      400 invalid_request: `strategy` applies only to payments by Pix; leave it out.

    MED cases and evidence
      400 invalid_request: The MED case is closed. Only an open case can be appealed or accepted.
      422 unprocessable_entity: The charge is EXPIRED. A MED case needs a charge whose payment was credited.
      400 invalid_request: The MED case is closed. Evidence can be added only until the case is closed.
      422 unprocessable_entity: The MED case already has 50 files, the maximum.
      409 EVIDENCE_NOT_UPLOADED: The file was not uploaded before its `upload_url` expired. Request a new URL and upload the file again.
      409 EVIDENCE_SIZE_MISMATCH: The uploaded file has 12 bytes, but `file_size` declared 10. Request a new URL with the right size.

    Webhooks
      422 unprocessable_entity: The account has 50 webhook endpoints, the maximum. Delete one first.
      422 unprocessable_entity: The event of this delivery is no longer stored, so it can't be sent again.
      422 unprocessable_entity: The webhook endpoint is INACTIVE. Set its status to ACTIVE first.
      422 unprocessable_entity: The webhook endpoint was deleted, so nothing can be sent to it.

    Any body
      400 invalid_request: `Content-Type` must be application/json.
      400 invalid_request: The body is not valid JSON: EOF while parsing an object at line 1 column 1.
      400 invalid_request: The body must be a JSON object.
      400 invalid_request: `metadata.a` is repeated in its object; send it once.
      400 invalid_request: The body is nested too deeply. Objects and arrays can be nested at most 64 levels deep.
      400 invalid_request: The body is not valid JSON: unexpected end of hex escape at line 1 column 8 in the value at `description`.
      400 invalid_request: The body must be at most 262144 bytes.

    POST /v1/pix/charges
      400 invalid_amount: `Idempotency-Key` is required: a header of 8 to 128 characters that is unique to this request.
      400 invalid_amount: `amount` is required: an integer of at least 1 (minor units).
      400 invalid_amount: N fields are not valid; `details` lists each.
      400 invalid_amount: `Idempotency-Key` must be 8 to 128 characters of UTF-8.
      400 invalid_amount: `amount` must be an integer of at least 1 (minor units).
      400 invalid_amount: `currency` must be BRL, the only currency of Pix.
      400 invalid_amount: `payment_method` must be pix.
      400 invalid_amount: `description` must be a string.
      400 invalid_amount: `expires_in` must be an integer of at least 60 (seconds).
      400 invalid_amount: `customer.name` must contain a visible character.
      400 invalid_amount: `customer.document` must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation.
      400 invalid_amount: `customer.email` must be 3 to 254 characters.
      400 invalid_amount: `customer.phone` must be a string.
      400 invalid_amount: `metadata` must be an object.
      400 invalid_amount: NN fields are not valid; `details` lists each.
      400 invalid_amount: `amount` must be at most 999999999999 (minor units).
      400 invalid_amount: `description` must not contain control characters other than line breaks, or characters that change the direction of text.
      400 invalid_amount: `expires_in` must be an integer.
      400 invalid_amount: `customer` must be an object.
      400 invalid_amount: `metadata` must have at most 50 keys.
      400 invalid_request: `Idempotency-Key` is required: a header of 8 to 128 characters that is unique to this request.
      400 invalid_request: `customer.name` must be one line without control characters or characters that change the direction of text.
      400 invalid_request: `expected_payer_tax_id` must equal customer.document when both are sent.
      400 invalid_request: `metadata` must be at most 16384 bytes of JSON.
      400 invalid_request: N fields are not valid; `details` lists each.
      400 invalid_request: `Idempotency-Key` must be 8 to 128 characters of UTF-8.
      400 invalid_request: `customer.name` must be 1 to 200 characters.
      400 invalid_request: `customer.email` must be an e-mail address (RFC 5322), such as ana@example.com.
      400 invalid_request: `customer.name` is required when expected_payer_tax_id is sent.

    POST /v1/charges
      400 invalid_request: `payment_method` is required: send pix.
      400 invalid_request: `payment_method` must be pix.

    POST /v1/payments
      400 invalid_amount: `paymentMethods` must be a non-empty list of distinct methods out of PIX, CREDIT_CARD, MBWAY, MULTIBANCO, BOLETO, CRYPTO.
      400 invalid_amount: `idempotencyKey` is required: a string of 1 to 255 characters.
      400 invalid_request: `currency` must be a currency code, such as BRL.
      400 invalid_request: `paymentMethods` must be a non-empty list of distinct methods out of PIX, CREDIT_CARD, MBWAY, MULTIBANCO, BOLETO, CRYPTO.
      400 invalid_request: `customerDocument` must not have surrounding spaces.
      400 invalid_request: `customerId` must be 1 to 200 characters.
      400 invalid_request: `webhookUrl` must be a string.
      400 invalid_request: `customerEmail` must be 3 to 254 characters.
      400 invalid_request: `webhookUrl` must be an absolute URL, such as https://example.com/hooks.
      400 invalid_request: `webhookUrl` must use https.
      400 invalid_request: `metadata.phone` is required for MBWAY, in E.164 form such as +351912345678.
      400 invalid_request: `paymentMethods` must fit the currency: MBWAY can't be paid in BRL.
      400 invalid_request: `webhookUrl` must not contain a user name or password.
      400 invalid_request: `metadata.phone` must be a phone number in E.164 form, such as +351912345678.
      400 invalid_request: `webhookUrl` must not contain a fragment (#).
      400 invalid_request: `metadata.returnUrl` must be an absolute http or https URL of at most 2048 bytes, without credentials, white space or control characters.
      400 invalid_request: `amount` must be at most 99999999 (minor units) for MULTIBANCO.
      400 invalid_request: `webhookUrl` must not use port 0.
      400 invalid_request: `webhookUrl` must use port 443 or a port from 1024 to 65535, not 25.
      400 invalid_request: `webhookUrl` must have a public host name, not printer.local.
      400 invalid_request: `webhookUrl` must have a public host, not 10.0.0.1 (a private address).
      400 invalid_request: `webhookUrl` must be at most 2048 characters.

    POST /v1/payments/{id}/refund
      400 invalid_request: `idempotencyKey` is required: a string of 8 to 128 characters.
      400 invalid_amount: `idempotencyKey` must be 8 to 128 characters.
      400 invalid_amount: `reason` must be a string.
      400 invalid_amount: `strategy` must be one of devolution, cashout.
      400 invalid_amount: `passFeeToTenant` must be true or false.
      400 invalid_amount: `destinationKey` must be a Pix key: a CPF or CNPJ without punctuation, a phone as +5511999999999, an e-mail address in lower-case ASCII, or a UUID.
      400 invalid_request: `reason` must be at most 500 characters.
      400 invalid_request: `destinationKey` applies only to strategy cashout; leave it out for a devolution.
      400 invalid_request: `passFeeToTenant` applies only to strategy cashout; leave it out for a devolution.

    POST /v1/sandbox/charges/{id}/pay
      400 invalid_amount: `method` must be one of the charge's payment methods.
      400 invalid_amount: `payer_tax_id` must be an 11-digit CPF or a 14-character CNPJ with valid check digits, without punctuation.
      400 invalid_amount: `end_to_end_id` must be 1 to 64 letters and digits.
      400 invalid_amount: `paid_at` must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z.
      400 invalid_request: `paid_at` must not be earlier than the charge's creation.
      400 invalid_request: `paid_at` must be at most one minute in the future.

    POST /v1/sandbox/charges/{id}/review
      400 invalid_request: `decision` must be one of approve, return.

    POST /v1/sandbox/charges/{id}/fail
      400 invalid_request: `reason` must be a string.

    POST /v1/sandbox/charges/{id}/med-cases
      400 invalid_amount: `type` must be one of med, chargeback, dispute, fraud.
      400 invalid_amount: `notice_id` must be one line without control characters or characters that change the direction of text.
      400 invalid_amount: `reason` must not contain control characters.
      400 invalid_amount: `method` must be one of scam, unauthorized, coercion, invasion, other.
      400 invalid_amount: `response_deadline` must be an ISO 8601 date or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z.

    POST /v1/med/cases/{id}/appeal
      400 invalid_request: `reason` is required: a string of 5 to 2000 characters.
      400 invalid_request: `reason` must contain a visible character and no control characters.

    POST /v1/sandbox/med/cases/{id}/resolve
      400 invalid_request: `decision` must be one of merchant, payer, withdrawn, closed_without_refund.

    POST /v1/med/cases/{id}/evidence
      400 invalid_request: `file_name` is required: a string of 1 to 255 characters.
      400 invalid_request: `file_size` is required: an integer from 1 to 10485760 (bytes).
      400 invalid_request: `mime_type` must be one of image/png, image/jpeg, image/webp, image/gif, application/pdf.
      400 invalid_request: `file_name` must be a visible file name without a path, control characters or characters that change the direction of text.
      400 invalid_request: `file_size` must be an integer from 1 to 10485760 (bytes).
      400 invalid_request: `file_name` must be 1 to 255 characters.
      400 invalid_request: `file_size` must be an integer.

    POST /v1/webhooks/endpoints
      400 invalid_request: `url` is required: a URL such as https://example.com/hooks.
      400 invalid_request: `events` is required: an array of event names.
      400 invalid_request: `events` must contain at least one event name.
      400 invalid_request: `events[0]` must be one of charge.created, charge.paid, charge.failed, charge.expired, charge.refunded, refund.created, refund.succeeded, refund.failed, payout.created, payout.paid, payout.failed, med_case.created, med_case.updated, med.resolved, payment.created, payment.completed, payment.failed, payment.expired, payment.refunded, payment.status_changed, withdrawal.created, withdrawal.completed, withdrawal.failed, withdrawal.status_changed.
      400 invalid_request: `url` must be at most 2048 characters.

    POST /v1/webhooks/endpoints/{id}/rotate-secret
      400 invalid_request: `id` must equal the id in the path, or be left out.

    POST /v1/auth/login
      400 invalid_request: `email` is required: a string of 1 to 254 characters.
      400 invalid_request: `password` is required: a string of 1 to 1024 characters.
      400 invalid_request: `email` must be a string.
      400 invalid_request: `password` must be 1 to 1024 characters.

    A number in metadata
      400 invalid_request: `metadata.a` must be an integer of at most 64 bits or a decimal of at most 15 significant digits; send any other number as a string.

    PATCH /v1/webhooks/endpoints/{id}
      400 invalid_request: `url` must be a string.
      400 invalid_request: `events` must be an array of event names.
      400 invalid_request: `status` must be one of ACTIVE, INACTIVE.

    GET /v1/payments/{id}/receipt
      422 unprocessable_entity: Only a settled payment has a receipt. Request it after the payment is paid.

    Notifications of banks
      400 invalid_request: `pix` must be an array.
      400 invalid_request: `pix` must have at most 1000 elements.
      400 invalid_request: The body must be at most 1048576 bytes.
      400 invalid_request: `notice_id` is required: a string of 1 to 64 characters.
      400 invalid_request: `infraction_id` is required: a string of 1 to 64 characters.
      400 invalid_request: `end_to_end_id` must be 1 to 64 letters and digits.
      400 invalid_request: `status` must be one of OPEN, ACKNOWLEDGED, CLOSED, CANCELLED.
      400 invalid_request: `reported_at` must be an ISO 8601 date-time, such as 2026-11-21T10:00:00.000Z.
      400 invalid_amount: `notice_id` must be 1 to 64 characters.
      400 invalid_amount: `infraction_id` must be one line without control characters or characters that change the direction of text.
      400 invalid_amount: `status` must be one of OPEN, ACKNOWLEDGED, CLOSED, CANCELLED.
      400 invalid_amount: `situation` must be one of SCAM, ACCOUNT_TAKEOVER, COERCION, FRAUDULENT_ACCESS, OTHER, UNKNOWN.
      400 invalid_amount: `reported_at` must be at most five minutes in the future.
      400 invalid_request: `notice_id` must be a string.
      400 invalid_request: `analysis_result` must be one of AGREED, DISAGREED.

    The form of the checkout page
      400 invalid_request: `Content-Type` must be application/x-www-form-urlencoded.
      400 invalid_request: `amount` is not a parameter of this route; leave it out.
      400 invalid_request: `outcome` must be one of paid, declined.
      400 invalid_request: `method` must be one of PIX, CREDIT_CARD, MBWAY, MULTIBANCO, BOLETO, CRYPTO.
      400 invalid_request: `outcome` is repeated; send it once.
      400 invalid_request: `method` must be one of the charge's payment methods.
      400 invalid_request: The body must be at most 1024 bytes.

    Queries
      400 invalid_request: `color` is not a parameter of this route; leave it out.
      400 invalid_request: `limit` must be an integer from 1 to 100.
      400 invalid_request: `starting_after` must be a charge id (ch_…).
      400 invalid_request: `status` must be one of pending, processing, paid, failed, expired, cancelled, refunded, disputed.
      400 invalid_request: `created_after` must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B.
      400 invalid_request: `customer_id` must be 1 to 32 characters without surrounding spaces.
      400 invalid_request: `limit` is repeated; send it once.
      400 invalid_request: `page` must be an integer from 1 to 4294967295.
      400 invalid_request: `starting_after` must be a payment id (a UUID).
      400 invalid_request: `status` must be one of PENDING, WAITING_PAYMENT, PROCESSING, PAID, APPROVED, REFUSED, CANCELLED, EXPIRED, REFUNDED, CHARGEBACK, DISPUTE.
      400 invalid_request: `startDate` must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B.
      400 invalid_request: `endDate` must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B.
      400 invalid_request: `sortBy` must be one of id, status, amount, currency, paymentMethods, paidWith, pixQrCode, pixCopyPaste, pixExpiresAt, cardRedirectUrl, mbEntity, mbReference, mbExpiresAt, boletoBarcode, boletoLine, boletoPdfUrl, boletoExpiresAt, cryptoAddress, cryptoAmount, cryptoNetwork, cryptoCurrency, providerFee, platformFee, netAmount, metadata, createdAt, paidAt, refundedAmount, returnedPayments.
      400 invalid_request: `sortOrder` must be one of asc, desc.
      400 invalid_request: `page` must begin within the first 5000 payments; continue with `starting_after`, the id of the last payment you have, or narrow the list by `startDate` and `endDate`.
      400 invalid_request: `starting_after` can't be combined with `page`; send one of them.
      400 invalid_request: `starting_after` works only in the order of `createdAt`; leave `sortBy` out.
      400 invalid_request: `starting_after` must be the id of a payment of this account and mode.
      400 invalid_request: `currency` is not a parameter of this route; leave it out.
      400 invalid_request: `days` must be an integer from 1 to 36500.
      400 invalid_request: `opened_after` is not a parameter of this route; leave it out.
      400 invalid_request: `opened_before` is not a parameter of this route; leave it out.
      400 invalid_request: `starting_after` must be a case id (med_…).
      400 invalid_request: `charge_id` must be a charge id (ch_…).
      400 invalid_request: `status` must be one of open, appealed, accepted, rejected, closed.
      400 invalid_request: `type` must be one of med, chargeback, dispute, fraud.
      400 invalid_request: `starting_after` must be a movement id (mv_…).
      400 invalid_request: `created_before` must be an ISO 8601 date (a day in America/Sao_Paulo) or date-time, such as 2026-11-21 or 2026-11-21T10:00:00.000Z; encode a plus sign as %2B.
      400 invalid_request: `starting_after` must be the id of a movement of this wallet.
      400 invalid_request: `endpointId` must be an endpoint id (wh_…).
      400 invalid_request: `starting_after` must be a delivery id (wd_…).
      400 invalid_request: `offset` must be an integer from 0 to 5000; to read further, send `starting_after` with the id of the last delivery you have.
      400 invalid_request: `status` must be one of PENDING, PROCESSING, DELIVERED, FAILED, CANCELLED.
      400 invalid_request: `eventType` must be one of charge.created, charge.paid, charge.failed, charge.expired, charge.refunded, refund.created, refund.succeeded, refund.failed, payout.created, payout.paid, payout.failed, med_case.created, med_case.updated, med.resolved, payment.created, payment.completed, payment.failed, payment.expired, payment.refunded, payment.status_changed, withdrawal.created, withdrawal.completed, withdrawal.failed, withdrawal.status_changed, webhook.test.
      400 invalid_request: `starting_after` can't be combined with `offset`; send one of them.
      400 invalid_request: `starting_after` must be an event id (evt_…).
      400 invalid_request: `object` must be the id of a charge (ch_…), payment, MED case (med_…) or payout (po_…).
      400 invalid_request: `type` must be one of charge.created, charge.paid, charge.failed, charge.expired, charge.refunded, refund.created, refund.succeeded, refund.failed, payout.created, payout.paid, payout.failed, med_case.created, med_case.updated, med.resolved, payment.created, payment.completed, payment.failed, payment.expired, payment.refunded, payment.status_changed, withdrawal.created, withdrawal.completed, withdrawal.failed, withdrawal.status_changed, webhook.test.
      400 invalid_request: `starting_after` must be the id of an event of this object.

    Ids
      404 not_found: There is no such payment in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such MED case in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such webhook endpoint in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such webhook delivery in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such event in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such open boleto in this account and mode (test or live). Check the id and the key.
      404 not_found: There is no such evidence of this case in this account and mode (test or live). Check the id and the key.
    "#);
}

/// How the message about a single field begins. Any other message is a sentence with a capital letter and a
/// full stop.
const RULES: [&str; 9] = [
    "must ",
    "is required",
    "is repeated",
    "is not a parameter",
    "can't be combined",
    "can sort",
    "applies only",
    "works only",
    "have at most",
];

/// Files whose texts look like error messages, but are not sent to merchants as errors.
const OTHER_TEXTS: [&str; 14] = [
    // Payers and account contacts read these, in Portuguese or English.
    "functions/checkout/",
    "functions/mailer/",
    "functions/acquirer-events/src/three_d_secure.rs",
    // These become `metadata.failure.reason` of a charge.
    "domain/src/charge/transition.rs",
    "functions/acquirer-worker/",
    "shared/src/acquirer/sandbox.rs",
    // Operators read these.
    "shared/src/acquirer/configuration/",
    "shared/src/config.rs",
    "domain/src/account/contact.rs",
    "domain/src/ids/",
    "domain/src/base32.rs",
    "domain/src/tax_id.rs",
    "domain/src/time.rs",
    // These describe the events in the event catalog.
    "domain/src/webhook/event_type.rs",
];

/// Texts in other files that look like error messages, but are not sent to merchants as errors.
const OTHER_LITERALS: [&str; 15] = [
    // These become `metadata.failure.reason` of a charge.
    "The bank removed the charge.",
    "The payment was declined in a simulation.",
    "The acquirer did not answer in time.",
    "The bank refused the charge.",
    // These become the reason of a refund, or of its failure.
    "Requested at the bank.",
    "Returned by the bank: {nature}.",
    "The bank does not know the payment any more.",
    "The bank did not accept the refund within 90 days.",
    "Other returns left too little of the payment for the refund.",
    "The refund has no Pix key.",
    "The bank refused the request without a reason.",
    // Operators read these.
    "must be 3 to 8 upper-case letters",
    "must be PNG, JPEG, WebP, GIF or PDF",
    // These describe types in the API reference.
    "A calendar day in São Paulo.",
    "A currency code: ISO 4217, or a token such as `USDT`.",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !["target", "tests", "examples"].contains(&name) {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !["tests.rs", "testing.rs"].contains(&name)
        {
            found.push(path);
        }
    }
}

/// Returns the string literals of a source file, without those of comments and tests, and without texts of the
/// API reference: the `text` of fields and the descriptions of schemas.
fn literals(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n").replace("\\\"", "'");
    let pieces: Vec<&str> = code.split('"').collect();
    let mut literals = Vec::new();
    let mut previous = "";
    for pair in pieces.chunks_exact(2) {
        let before = pair[0].trim_end();
        let is_reference =
            before.ends_with("text:") || before.ends_with("description =") || previous == "description";
        if !is_reference {
            literals.push(pair[1].to_owned());
        }
        previous = pair[1];
    }
    literals
}

fn is_message(literal: &str) -> bool {
    let sentence = literal.ends_with('.') && literal.contains(' ') && literal.starts_with(char::is_uppercase);
    sentence || RULES.iter().any(|rule| literal.starts_with(rule))
}

/// Returns whether a line of the list contains the literal. A `{…}` placeholder of the literal stands for any
/// text.
fn is_in(list: &str, literal: &str) -> bool {
    let mut parts = literal.split('{');
    let first = parts.next().unwrap();
    let parts: Vec<&str> = parts.map(|part| part.split_once('}').unwrap().1).collect();
    list.lines().any(|line| {
        let Some((_, mut rest)) = line.split_once(first) else { return false };
        parts.iter().all(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    })
}

#[tokio::test]
async fn the_list_has_every_message_of_the_sources() {
    let list = all_messages().await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for directory in ["shared/src", "domain/src", "functions"] {
        sources(&root.join(directory), &mut files);
    }
    let mut missing = Vec::new();
    let mut looked_at = 0;
    for file in files {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if OTHER_TEXTS.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        for literal in literals(&fs::read_to_string(&file).unwrap()) {
            if is_message(&literal) && !OTHER_LITERALS.contains(&literal.as_str()) {
                looked_at += 1;
                if !is_in(list, &literal) {
                    missing.push(format!("{name}: {literal}"));
                }
            }
        }
    }
    assert!(looked_at > 80, "only {looked_at} messages were found in the sources");
    assert_eq!(missing, Vec::<String>::new());
}
