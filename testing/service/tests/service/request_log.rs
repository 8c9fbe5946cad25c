//! Tests of the log of requests: what it contains, what it never contains, how it is read, and what it costs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use axum::http::Method;
use faults::proxy::Fault;
use serde_json::{Value, json};

use crate::dashboard::Browser;
use crate::support::{Answer, CapturedLog, Client, Service, id, ids, raw_id};

const NONE: &str = "ch_00000000-0000-0000-0000-000000000000";

const CPF: &str = "29537995593";

/// A charge that is refused, with an `X-Request-Id`.
async fn refused_charge(client: &Client, request_id: &str) -> Answer {
    let body = json!({
        "amount": 0, "payment_method": "pix", "description": "segredo da loja", "metadata": {"cpf": CPF},
        "customer": {"name": "Maria", "document": CPF, "email": "maria@example.com"},
    });
    let headers = [("idempotency-key", "order-0001"), ("x-request-id", request_id)];
    client.post_as(&client.key(), "/v1/charges", &body, &headers).await
}

async fn logged(client: &Client, query: &str) -> Vec<Value> {
    client.list(&format!("/v1/requests?{query}")).await
}

/// The rows of the log of a scope.
async fn rows(service: &Service, requests: &[Value]) -> String {
    let mut text = String::new();
    for request in requests {
        let group: String =
            id(request).trim_start_matches("req_").replace('-', "").chars().take(16).collect();
        let row = service.rows(&format!("request#{}#{group}", service.scope()), id(request)).await;
        assert_eq!(row.len(), 1, "{request}");
        writeln!(text, "{row:?}").unwrap();
    }
    text
}

#[tokio::test]
async fn a_failed_request_is_logged_with_harmless_fields_for_a_test_key_and_without_bodies_for_a_live_one() {
    let service = Service::without_event_sources().await;
    let live = service.live_client();
    for (client, is_test) in [(&*service, true), (&live, false)] {
        let refused = refused_charge(client, "order-1001-try-1").await;
        assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_amount"));
        let [request] = &logged(client, "request_id=order-1001-try-1").await[..] else {
            panic!("one is logged")
        };
        for (field, expected) in [
            ("request_id", json!("order-1001-try-1")),
            ("method", json!("POST")),
            ("route", json!("/v1/charges")),
            ("path_id", Value::Null),
            ("status", json!(400)),
            ("code", json!("invalid_amount")),
            ("param", json!("amount")),
            ("key_prefix", json!(client.key()[..12])),
            ("network", json!("127.0.0.0/24")),
        ] {
            assert_eq!(request[field], expected, "{field}");
        }
        assert!(request["duration_ms"].is_u64());
        if is_test {
            let body =
                json!({"amount": 0, "payment_method": "pix", "customer": {"document": "***.379.955-**"}});
            assert_eq!(request["body"], body);
            assert_eq!(request["response"]["error"]["message"], refused.body["error"]["message"]);
            assert_eq!(request["response"]["error"]["details"][0]["param"], "amount");
        } else {
            assert_eq!((&request["body"], &request["response"]), (&Value::Null, &Value::Null));
        }
        assert_eq!(client.get(&format!("/v1/requests/{}", id(request))).await.expect(200), *request);
    }
    // Without an id of the client, the id of the response is the log's.
    let unknown = service.get(&format!("/v1/charges/{NONE}")).await;
    let own = unknown.header("x-request-id").unwrap();
    let request = service.get(&format!("/v1/requests/{own}")).await.expect(200);
    assert_eq!((id(&request), &request["request_id"], &request["path_id"]), (own, &json!(own), &json!(NONE)));
    assert_eq!(logged(&service, &format!("request_id={own}")).await, [request]);
    // Another scope has nothing of it.
    assert_eq!(live.get(&format!("/v1/requests/{own}")).await.problem().0, 404);
    assert_eq!(service.other_account().get(&format!("/v1/requests/{own}")).await.problem().0, 404);
    assert_eq!(logged(&service.other_account(), "").await, Vec::<Value>::new());
    assert_eq!((logged(&service, "").await.len(), logged(&live, "").await.len()), (2, 1));
}

#[tokio::test]
async fn nothing_is_logged_of_successes_and_of_requests_without_an_account() {
    let service = Service::without_event_sources().await;
    let charge = service.charge().await;
    service.post_charge("order-0001", &json!({"amount": 1000})).await.expect(201);
    service.post_charge("order-0001", &json!({"amount": 1000})).await.expect(201);
    let wrong = format!("ak_test_{}", "x".repeat(32));
    assert_eq!(service.get_as(&wrong, "/v1/charges").await.problem().0, 401);
    for (path, status) in [
        ("/v1/none", 404),
        ("/v1/requests?color=red", 400),
        ("/v1/requests/x", 404),
        ("/v1/request_errors?color=red", 400),
        (&format!("/checkout/{NONE}"), 404),
    ] {
        assert_eq!(service.get(path).await.status, status, "{path}");
    }
    service.post("/v1/requests/record", &json!({"minutes": 61})).await.expect(400);
    service
        .post("/v1/auth/login", &json!({"email": "a@example.com", "password": "wrong-password"}))
        .await
        .expect(401);
    service.change_settings(|settings| settings.rate_limit_per_minute = 1).await;
    service.begin_minute().await;
    let too_many = async || service.get(&format!("/v1/charges/{}", id(&charge))).await.status == 429;
    crate::support::wait_until("a refused request", too_many).await;
    service.change_settings(|settings| settings.rate_limit_per_minute = 60_000).await;
    service.begin_minute().await;
    crate::support::wait_until("the limit", async || service.get("/v1/charges").await.status == 200).await;
    assert_eq!(logged(&service, "").await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_log_is_filtered_paged_grouped_and_kept_for_seven_days() {
    let service = Service::without_event_sources().await;
    refused_charge(&service, "order-1").await;
    let first_at = logged(&service, "").await[0]["created_at"].clone();
    service.advance_seconds(60).await;
    refused_charge(&service, "order-2").await;
    service.get(&format!("/v1/charges/{NONE}")).await.expect(404);
    for _ in 0..21 {
        refused_charge(&service, "order-3").await;
    }
    assert_eq!(service.all_pages("/v1/requests?limit=7").await.len(), 24);
    for (query, count) in [
        ("limit=100&status=404", 1),
        ("limit=100&status=400&code=invalid_amount", 23),
        ("limit=100&code=not_found&route=/v1/charges", 0),
        ("limit=100&route=/v1/charges/%7Bid%7D", 1),
        ("request_id=order-3", 20),
        ("request_id=order-3&status=404", 0),
        ("request_id=order-4", 0),
        (&format!("limit=100&created_before={}", first_at.as_str().unwrap()), 1),
        ("created_after=2999-01-01", 0),
    ] {
        assert_eq!(logged(&service, query).await.len(), count, "{query}");
    }
    let newest = ids(&service.get("/v1/requests?limit=100").await.expect(200));
    let groups = service.get("/v1/request_errors").await.expect(200);
    let [amounts, unknown] = &groups["data"].as_array().unwrap()[..] else { panic!("two groups: {groups}") };
    for (group, expected) in [
        (amounts, json!(["POST", "/v1/charges", "invalid_amount", "amount", 23])),
        (unknown, json!(["GET", "/v1/charges/{id}", "not_found", "", 1])),
    ] {
        let fields = ["method", "route", "code", "param", "count"].map(|field| group[field].clone());
        assert_eq!(json!(fields), expected);
    }
    assert_eq!((&amounts["first_at"], &amounts["last_id"]), (&first_at, &json!(newest[0])));
    assert!(amounts["last_at"].as_str() > first_at.as_str());
    // DynamoDB may remove a row later, so readers leave it out.
    service.advance_seconds(7 * 24 * 60 * 60 - 30).await;
    assert_eq!(service.all_pages("/v1/requests").await.len(), 23);
    service.advance_seconds(60).await;
    assert_eq!(service.all_pages("/v1/requests").await.len(), 0);
    assert_eq!(logged(&service, "request_id=order-3").await.len(), 0);
    assert_eq!(service.get("/v1/request_errors").await.expect(200), json!({"data": []}));
    service.get(&format!("/v1/requests/{}", newest[0])).await.expect(404);
}

/// All texts of a response that are under a name of a secret or URL.
fn secrets(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase();
                let is_secret = ["secret", "url", "token", "apikey"].iter().any(|word| name.contains(word));
                match value.as_str().filter(|_| is_secret) {
                    Some(text) => found.push(text.to_owned()),
                    None => secrets(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| secrets(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn recorded_successes_never_contain_a_secret_key_token_or_presigned_url() {
    let service = Service::without_event_sources().await;
    let live = service.live_client();
    assert_eq!(live.post("/v1/requests/record", &json!({})).await.problem().0, 403);
    let recording = service.post("/v1/requests/record", &json!({"minutes": 2})).await.expect(200);
    assert!(recording["recorded_until"].is_string());
    let mut found = vec![service.key(), service.stack.seed.first.live_api_key.clone()];
    let hook = "https://example.com/hook?token=s3cret-0123456789";
    let settled = service.pay(1_000).await;
    let case = service.open_case(&settled, json!({})).await;
    let endpoint = json!({"url": hook, "events": ["charge.paid"]});
    let endpoint = service.post("/v1/webhooks/endpoints", &endpoint).await.expect(201);
    let endpoint_path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    let evidence = format!("/v1/med/cases/{}/evidence", id(&case));
    let file = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
    let ticket = service.post(&evidence, &file).await.expect(201);
    let card = json!({"amount": 1000, "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "card-0001", "webhookUrl": hook});
    let answers = [
        endpoint,
        service.post(&format!("{endpoint_path}/rotate-secret"), &json!({})).await.expect(200),
        service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200),
        service.get(&endpoint_path).await.expect(200),
        ticket.clone(),
        service.post("/v1/payments", &card).await.expect(201),
        service.get(&format!("/v1/payments/{}", raw_id(&settled))).await.expect(200),
        service.get(&format!("/v1/charges/{}", id(&settled))).await.expect(200),
    ];
    for answer in &answers {
        secrets(answer, &mut found);
    }
    assert!(found.len() > 8, "{found:?}");
    // A failure whose body has a key and a document as the names of fields.
    let names = json!({service.key(): 1, CPF: 2});
    service.post(&format!("{endpoint_path}/rotate-secret"), &names).await.expect(400);
    let requests = logged(&service, "limit=100").await;
    assert!(requests.len() >= answers.len(), "{requests:?}");
    let text = rows(&service, &requests).await;
    for secret in &found {
        assert!(!text.contains(secret.as_str()), "{secret}: {text}");
    }
    for part in ["://", "s3cret", CPF, "Signature", "whsec", &service.key()[12..]] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let read = requests.iter().find(|request| request["route"] == "/v1/charges/{id}").unwrap();
    assert_eq!(
        (&read["status"], &read["response"]["status"], &read["code"]),
        (&json!(200), &json!("disputed"), &Value::Null)
    );
    // Groups are of errors, and the recording ends.
    let groups = service.get("/v1/request_errors").await.expect(200);
    assert_eq!(groups["data"].as_array().unwrap().len(), 1, "{groups}");
    service.advance_seconds(121).await;
    service.get("/v1/wallets").await.expect(200);
    assert_eq!(logged(&service, "limit=100").await.len(), requests.len());
}

#[tokio::test]
async fn a_row_costs_two_write_units_for_a_live_key_and_at_most_ten_for_a_test_key() {
    let service = Service::without_event_sources().await;
    let live = service.live_client();
    // One of these units counts the request in the row of its key.
    let (_, report) = service.cost(refused_charge(&live, "order-1")).await;
    assert!((report.write_units - 3.0).abs() < f64::EPSILON, "{report:?}");
    assert_eq!((report.requests(), report.sequential_requests), (2, 2), "{report:?}");
    let long = json!({"data": vec![json!({"message": "x ".repeat(5_000)}); 3], "error": vec![vec![vec!["x ".repeat(90); 3]; 3]; 3]});
    let (_, report) = service.cost(service.post_charge("short", &long)).await;
    println!("A failed request: 2 write units with a live key, {} with a test key", report.write_units - 1.0);
    assert!(report.write_units <= 11.0, "{report:?}");
    let id = id(&logged(&service, "").await[0]).to_owned();
    // A page takes two requests beside authentication, one request one, and the groups one.
    let cursor = "001795341600000.req_67e55044-10b1-426f-9247-bb680e5fe0c8";
    for (path, requests) in [
        ("/v1/requests?limit=100".to_owned(), 3),
        (format!("/v1/requests?status=400&starting_after={cursor}"), 3),
        ("/v1/requests?request_id=order-1".to_owned(), 2),
        (format!("/v1/requests?request_id={id}"), 3),
        (format!("/v1/requests/{id}"), 2),
        ("/v1/request_errors".to_owned(), 2),
    ] {
        let (_, report) = service.cost(service.get(&path)).await;
        assert!(report.requests() <= requests && report.sequential_requests <= 3, "{path}: {report:?}");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_written_changes_no_answer_and_delays_it_for_half_a_second_at_most() {
    let service = Service::without_event_sources().await;
    let expected = refused_charge(&service, "order-1").await;
    let log = CapturedLog::start();
    service.proxy().reset();
    service.proxy().inject_where("request#", Fault::ServerError);
    let answer = refused_charge(&service, "order-1").await;
    let report = service.proxy().report();
    assert_eq!((answer.status, &answer.body), (expected.status, &expected.body));
    assert_eq!(report.requests(), 2, "the write is not repeated: {report:?}");
    assert!(log.text().contains("a request is missing in the log of requests"), "{}", log.text());
    service.proxy().reset();
    assert_eq!(logged(&service, "").await.len(), 1);
    // Authentication and the row take two seconds each.
    service.proxy().set_min_latency(Duration::from_secs(2));
    let started_at = Instant::now();
    let answer = refused_charge(&service, "order-1").await;
    assert_eq!(answer.body, expected.body);
    assert!(started_at.elapsed() < Duration::from_millis(3_500), "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn a_function_logs_sixty_requests_a_minute() {
    let service = Service::without_event_sources().await;
    service.begin_minute().await;
    for _ in 0..65 {
        service.get(&format!("/v1/charges/{NONE}")).await.expect(404);
    }
    // Another function has a count of its own.
    service.get("/v1/payments?color=red").await.expect(400);
    assert_eq!(logged(&service, "limit=100").await.len(), 61);
    service.begin_minute().await;
    service.get(&format!("/v1/charges/{NONE}")).await.expect(404);
    assert_eq!(logged(&service, "limit=100").await.len(), 62);
}

#[tokio::test]
async fn an_error_links_to_its_row_in_the_guide() {
    let service = Service::without_event_sources().await;
    let unauthorized = service.raw(Method::GET, "/v1/charges", &[], "").await;
    for (answer, code) in [(unauthorized, "unauthorized"), (service.get("/v1/none").await, "not_found")] {
        let url = answer.body["error"]["doc_url"].as_str().unwrap().to_owned();
        assert_eq!(url, format!("{}/docs/errors#{code}", service.base_url));
        let page = service.raw(Method::GET, &url, &[], "").await;
        let html = String::from_utf8_lossy(&page.bytes).into_owned();
        assert!(html.contains(&format!("id=\"{code}\"")), "{code}");
    }
}

#[tokio::test]
async fn the_dashboard_shows_groups_the_list_and_one_request() {
    let service = Service::without_event_sources().await;
    refused_charge(&service, "order-1").await;
    service.get(&format!("/v1/charges/{NONE}")).await.expect(404);
    let browser = Browser::owner(&service).await;
    let developers = browser.page("/dashboard/developers").await;
    assert_eq!(developers.links_to("/dashboard/requests"), ["/dashboard/requests"]);
    let page = browser.page("/dashboard/requests").await;
    for text in ["Requisições", "Erros agrupados", "invalid_amount", "POST /v1/charges", "Vezes"] {
        assert!(page.text().contains(text), "{text}: {}", page.text());
    }
    assert_eq!(page.links_to("/dashboard/requests/").len(), 2);
    let filtered = browser.page("/dashboard/requests?code=not_found").await;
    let [path] = &filtered.links_to("/dashboard/requests/")[..] else { panic!("one is listed") };
    assert!(browser.page(path).await.text().contains(NONE));
    let refused = browser.answer("/dashboard/requests?status=abc", &[]).await;
    assert_eq!(refused.status, 400);
    let amount = browser.page("/dashboard/requests?code=invalid_amount&request_id=order-1").await;
    let shown = browser.page(&amount.links_to("/dashboard/requests/")[0]).await;
    for text in ["order-1", "***.379.955-**", "Causa e solução", "127.0.0.0/24"] {
        assert!(shown.text().contains(text), "{text}: {}", shown.text());
    }
}
