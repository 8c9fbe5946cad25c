//! Tests of the dashboard's rate limit: a user may make 60 requests a minute over all routes except
//! log-in.

use axum::http::Method;
use domain::ids::UserId;
use serde_json::Value;

use crate::api_keys::DashboardUser;
use crate::log_in;
use crate::support::{Answer, Service};

/// Logs the first account's owner in. Each call returns a new token.
async fn log_in(service: &Service) -> DashboardUser<'_> {
    let seed = &service.stack.seed.first;
    let session = log_in::log_in(service, &seed.owner_email, &seed.password).await.expect(200);
    DashboardUser { service, token: session["token"].as_str().unwrap().to_owned() }
}

async fn list(user: &DashboardUser<'_>) -> Answer {
    user.send(Method::GET, "/v1/api-keys", &Value::Null).await
}

fn rate_limit_headers(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("x-ratelimit-limit-minute"), answer.header("x-ratelimit-remaining-minute"))
}

#[tokio::test]
async fn a_user_may_make_sixty_requests_a_minute_over_all_tokens_and_routes() {
    let service = Service::start().await;
    let (owner, second, ended) = (log_in(&service).await, log_in(&service).await, log_in(&service).await);
    assert_eq!(ended.send(Method::POST, "/v1/auth/logout", &Value::Null).await.status, 204);
    let malformed = DashboardUser { service: &service, token: format!("{}x", owner.token) };
    let member = DashboardUser::member(&service).await;
    service.begin_minute().await;
    // A request without a valid token does not count.
    for refused in [&ended, &malformed] {
        let answer = list(refused).await;
        assert_eq!((answer.problem().0, rate_limit_headers(&answer)), (401, (None, None)));
    }
    let first = list(&owner).await;
    assert_eq!((first.status.as_u16(), rate_limit_headers(&first)), (200, (Some("60"), Some("59"))));
    let unknown = format!("/v1/api-keys/key_{}", "0".repeat(64));
    let refused = second.send(Method::DELETE, &unknown, &Value::Null).await;
    assert_eq!((refused.status.as_u16(), rate_limit_headers(&refused)), (404, (Some("60"), Some("58"))));
    for _ in 0..58 {
        list(&owner).await.expect(200);
    }
    let routes = [
        (Method::GET, "/v1/api-keys".to_owned()),
        (Method::POST, "/v1/api-keys".to_owned()),
        (Method::POST, format!("{unknown}/rotate")),
        (Method::DELETE, unknown),
        (Method::POST, "/v1/auth/logout".to_owned()),
    ];
    for (method, path) in routes {
        for user in [&owner, &second] {
            let refused = user.send(method.clone(), &path, &Value::Null).await;
            assert_eq!(refused.problem(), (429, "rate_limit_error", "rate_limited"), "{method} {path}");
            assert_eq!(rate_limit_headers(&refused), (Some("60"), Some("0")));
            let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
        }
    }
    // The count expires by its TTL.
    let person = UserId::from_email(&service.stack.seed.first.owner_email);
    let minute = service.stack.clock.now().seconds() / 60;
    let rows = service.rows(&format!("dashboard-requests#{person}"), &minute.to_string()).await;
    let number = |name: &str| rows[0][name].as_n().unwrap().parse::<i64>().unwrap();
    assert_eq!((rows.len(), number("requests"), number("ttl")), (1, 60, (minute + 1) * 60));
    // Another user of the account has a separate limit. Log-in does not count, because it uses no token.
    assert_eq!(rate_limit_headers(&list(&member).await), (Some("60"), Some("59")));
    log_in(&service).await;
    service.begin_minute().await;
    assert_eq!(rate_limit_headers(&list(&owner).await), (Some("60"), Some("59")));
}
