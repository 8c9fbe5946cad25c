//! Tests of the dashboard's rate limit (design: Authentication, rate limit, audit): a user may make 60
//! requests a minute over all routes except log-in.

use axum::http::Method;
use domain::ids::UserId;
use serde_json::json;

use crate::support::{Answer, Client, Service};

/// Advances to the start of a minute, so that the requests after it count in the same minute.
async fn advance_to_next_minute(service: &Service) {
    service.advance_seconds(60 - service.stack.clock.now().seconds() % 60).await;
}

/// Logs the first account's owner in. Each call returns a new token.
async fn log_in(service: &Service) -> String {
    let seed = &service.stack.seed.first;
    let body = json!({"email": seed.owner_email, "password": seed.password});
    let session = service.post("/v1/auth/login", &body).await.expect(200);
    session["token"].as_str().unwrap().to_owned()
}

async fn send(client: &Client, token: &str, method: Method, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    client.raw(method, path, &headers, "").await
}

async fn list(client: &Client, token: &str) -> Answer {
    send(client, token, Method::GET, "/v1/api-keys").await
}

fn rate_limit_headers(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("x-ratelimit-limit-minute"), answer.header("x-ratelimit-remaining-minute"))
}

#[tokio::test]
async fn a_user_may_make_sixty_requests_a_minute_over_all_tokens_and_routes() {
    let service = Service::start().await;
    let (token, second) = (log_in(&service).await, log_in(&service).await);
    let member = service.stack.seed.member_token(service.stack.clock.now()).unwrap();
    advance_to_next_minute(&service).await;
    let first = list(&service, &token).await;
    assert_eq!((first.status.as_u16(), rate_limit_headers(&first)), (200, (Some("60"), Some("59"))));
    let unknown = format!("/v1/api-keys/key_{}", "0".repeat(64));
    let refused = send(&service, &second, Method::DELETE, &unknown).await;
    assert_eq!((refused.status.as_u16(), rate_limit_headers(&refused)), (404, (Some("60"), Some("58"))));
    for _ in 0..58 {
        list(&service, &token).await.expect(200);
    }
    let routes = [
        (Method::GET, "/v1/api-keys".to_owned()),
        (Method::POST, "/v1/api-keys".to_owned()),
        (Method::POST, format!("{unknown}/rotate")),
        (Method::DELETE, unknown),
        (Method::POST, "/v1/auth/logout".to_owned()),
    ];
    for (method, path) in routes {
        for token in [&token, &second] {
            let refused = send(&service, token, method.clone(), &path).await;
            assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"), "{method} {path}");
            assert_eq!(rate_limit_headers(&refused), (Some("60"), Some("0")));
            let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
        }
    }
    // Another user of the account has a separate limit. Log-in does not count, because it uses no token.
    assert_eq!(rate_limit_headers(&list(&service, &member).await), (Some("60"), Some("59")));
    log_in(&service).await;
    advance_to_next_minute(&service).await;
    assert_eq!(rate_limit_headers(&list(&service, &token).await), (Some("60"), Some("59")));
}

#[tokio::test]
async fn of_concurrent_requests_at_most_sixty_pass() {
    let service = Service::start().await;
    let token = log_in(&service).await;
    advance_to_next_minute(&service).await;
    let requests: Vec<_> = (0..90)
        .map(|_| {
            let (client, token) = (Client::new(&service.base_url, ""), token.clone());
            tokio::spawn(async move { list(&client, &token).await.status.as_u16() })
        })
        .collect();
    let mut passed = 0;
    for request in requests {
        match request.await.unwrap() {
            200 => passed += 1,
            other => assert_eq!(other, 429),
        }
    }
    assert_eq!(passed, 60);
}

#[tokio::test]
async fn a_request_with_an_invalid_token_does_not_count() {
    let service = Service::start().await;
    let (ended, token) = (log_in(&service).await, log_in(&service).await);
    assert_eq!(send(&service, &ended, Method::POST, "/v1/auth/logout").await.status, 204);
    advance_to_next_minute(&service).await;
    for refused in [ended.as_str(), &format!("{token}x"), ""] {
        for _ in 0..3 {
            let answer = list(&service, refused).await;
            assert_eq!((answer.problem().0, rate_limit_headers(&answer)), (401, (None, None)));
        }
    }
    assert_eq!(rate_limit_headers(&list(&service, &token).await), (Some("60"), Some("59")));
}

#[tokio::test]
async fn a_minutes_count_expires_by_its_ttl() {
    let service = Service::start().await;
    let token = log_in(&service).await;
    advance_to_next_minute(&service).await;
    list(&service, &token).await.expect(200);
    list(&service, &token).await.expect(200);
    let person = UserId::from_email(&service.stack.seed.first.owner_email);
    let minute = service.stack.clock.now().seconds() / 60;
    let rows = service.rows(&format!("dashboard-requests#{person}"), &minute.to_string()).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let number = |name: &str| rows[0][name].as_n().unwrap().parse::<i64>().unwrap();
    assert_eq!((number("requests"), number("ttl")), (2, (minute + 1) * 60));
}
