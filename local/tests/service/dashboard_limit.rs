//! How many requests a person may make with dashboard tokens (design: Authentication, rate limit, audit): 60 a minute, on
//! all routes but log-in.

use axum::http::Method;
use domain::ids::UserId;
use serde_json::json;

use crate::support::{Answer, Client, Service};

/// To the start of a minute, so that the requests after it are within one.
async fn start_a_minute(service: &Service) {
    service.advance(60 - service.stack.clock.now().seconds() % 60).await;
}

/// A token of the first account's owner. Each is another one.
async fn log_in(service: &Service) -> String {
    let seed = &service.stack.seed.first;
    let body = json!({"email": seed.owner_email, "password": seed.password});
    let given = service.post("/v1/auth/login", &body).await.expect(200);
    given["token"].as_str().unwrap().to_owned()
}

async fn ask(client: &Client, token: &str, method: Method, path: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    client.raw(method, path, &headers, "").await
}

async fn list(client: &Client, token: &str) -> Answer {
    ask(client, token, Method::GET, "/v1/api-keys").await
}

fn left(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("x-ratelimit-limit-minute"), answer.header("x-ratelimit-remaining-minute"))
}

#[tokio::test]
async fn a_person_makes_sixty_requests_a_minute_over_all_tokens_and_routes() {
    let service = Service::start().await;
    let (token, second) = (log_in(&service).await, log_in(&service).await);
    let member = service.stack.seed.member_token(service.stack.clock.now()).unwrap();
    start_a_minute(&service).await;
    let first = list(&service, &token).await;
    assert_eq!((first.status.as_u16(), left(&first)), (200, (Some("60"), Some("59"))));
    let unknown = format!("/v1/api-keys/key_{}", "0".repeat(64));
    let refused = ask(&service, &second, Method::DELETE, &unknown).await;
    assert_eq!((refused.status.as_u16(), left(&refused)), (404, (Some("60"), Some("58"))));
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
            let refused = ask(&service, token, method.clone(), &path).await;
            assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"), "{method} {path}");
            assert_eq!(left(&refused), (Some("60"), Some("0")));
            let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
        }
    }
    // Another person of the account has a minute of their own, and log-in is no request of a token.
    assert_eq!(left(&list(&service, &member).await), (Some("60"), Some("59")));
    log_in(&service).await;
    start_a_minute(&service).await;
    assert_eq!(left(&list(&service, &token).await), (Some("60"), Some("59")));
}

#[tokio::test]
async fn of_requests_at_once_no_more_than_sixty_pass() {
    let service = Service::start().await;
    let token = log_in(&service).await;
    start_a_minute(&service).await;
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
async fn a_token_that_is_refused_counts_for_nobody() {
    let service = Service::start().await;
    let (ended, token) = (log_in(&service).await, log_in(&service).await);
    assert_eq!(ask(&service, &ended, Method::POST, "/v1/auth/logout").await.status, 204);
    start_a_minute(&service).await;
    for refused in [ended.as_str(), &format!("{token}x"), ""] {
        for _ in 0..3 {
            let answer = list(&service, refused).await;
            assert_eq!((answer.problem().0, left(&answer)), (401, (None, None)));
        }
    }
    assert_eq!(left(&list(&service, &token).await), (Some("60"), Some("59")));
}

#[tokio::test]
async fn the_count_of_a_minute_goes_by_its_ttl() {
    let service = Service::start().await;
    let token = log_in(&service).await;
    start_a_minute(&service).await;
    list(&service, &token).await.expect(200);
    list(&service, &token).await.expect(200);
    let person = UserId::of_email(&service.stack.seed.first.owner_email);
    let minute = service.stack.clock.now().seconds() / 60;
    let rows = service.rows(&format!("dashboard-requests#{person}"), &minute.to_string()).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let number = |name: &str| rows[0][name].as_n().unwrap().parse::<i64>().unwrap();
    assert_eq!((number("requests"), number("ttl")), (2, (minute + 1) * 60));
}
