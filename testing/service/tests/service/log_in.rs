//! Tests of `POST /v1/auth/login`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::Method;
use domain::audit::Audit;
use domain::ids::UserId;
use screen_reader::{Page, Role};
use serde_json::{Value, json};
use shared::account::{TokenGeneration, UserChange, Users};

use crate::dashboard::{cookie, encoded};
use crate::invocations::api_event;
use crate::support::{Answer, CapturedLog, Client, Service, eventually, operator};

pub(crate) async fn log_in(client: &Client, email: &str, password: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    let body = json!({"email": email, "password": password}).to_string();
    client.raw(Method::POST, "/v1/auth/login", &headers, body).await
}

/// Invokes the function with a log-in request from this source address, as API Gateway does.
async fn log_in_from(service: &Service, address: &str, email: &str, password: &str) -> Value {
    let api_keys = service.stack.functions.get("ApiKeysFunction").unwrap().clone();
    let body = json!({"email": email, "password": password}).to_string();
    // The limit counts by `sourceIp`. It must ignore `x-forwarded-for`, because a client can send any value.
    let headers = [("x-forwarded-for", "192.0.2.1")];
    let event = api_event(("POST", "/v1/auth/login"), &headers, address, &body);
    api_keys(event).await.unwrap()
}

#[tokio::test]
async fn a_correct_password_returns_a_token_for_twelve_hours_and_a_wrong_one_says_as_little_as_an_unknown_email()
 {
    let service = Service::start().await;
    let owner = &service.stack.seed.first;
    for email in [owner.owner_email.clone(), owner.owner_email.to_uppercase()] {
        let before = service.stack.clock.now();
        let answer = log_in(&service, &email, &owner.password).await;
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let session = answer.expect(200);
        let names: Vec<&str> = session.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            (names, &session["tokenType"]),
            (vec!["expiresAt", "token", "tokenType"], &json!("Bearer"))
        );
        let ends: domain::time::Timestamp = serde_json::from_value(session["expiresAt"].clone()).unwrap();
        let validity_ms = ends.millis_since(before);
        assert!(
            (12 * 3_600_000 - 1_000..=12 * 3_600_000 + 60_000).contains(&validity_ms),
            "{validity_ms} ms"
        );
        let bearer = format!("Bearer {}", session["token"].as_str().unwrap());
        let list = service.raw(Method::GET, "/v1/api-keys", &[("authorization", &bearer)], "").await;
        assert_eq!(list.expect(200)["access"], json!({"canManage": true}));
    }
    let member = log_in(&service, &service.stack.seed.member_email, &owner.password).await.expect(200);
    let bearer = format!("Bearer {}", member["token"].as_str().unwrap());
    let list = service.raw(Method::GET, "/v1/api-keys", &[("authorization", &bearer)], "").await.expect(200);
    assert_eq!(list["access"], json!({"canManage": false}));

    let (owner, other) = (&service.stack.seed.first, &service.stack.seed.other);
    let wrong = log_in(&service, &owner.owner_email, &other.password).await;
    let unknown = log_in(&service, "nobody@loja.example", &owner.password).await;
    assert_eq!(wrong.problem(), (401, "authentication_error", "unauthorized"));
    assert_eq!(wrong.body["error"], unknown.body["error"]);
    let names = |answer: &Answer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&wrong), names(&unknown));
    let with_suffix = format!("{}x", owner.password);
    for password in [&with_suffix, &owner.password[1..], " ", &owner.password.to_uppercase()] {
        assert_eq!(log_in(&service, &owner.owner_email, password).await.status, 401, "{password}");
    }
    let with_spaces = format!(" {}", owner.owner_email);
    assert_eq!(log_in(&service, &with_spaces, &owner.password).await.status, 401);
}

#[tokio::test]
async fn an_unknown_email_takes_as_long_as_a_wrong_password() {
    let service = Service::start().await;
    service.begin_window().await;
    let email = service.stack.seed.first.owner_email.clone();
    let mut fastest = [(email.as_str(), Duration::MAX), ("nobody@loja.example", Duration::MAX)];
    // In turns, so that another program slows both.
    for _ in 0..8 {
        for (email, fastest) in &mut fastest {
            let began = Instant::now();
            assert_eq!(log_in(&service, email, "not the password").await.status, 401);
            *fastest = began.elapsed().min(*fastest);
        }
    }
    let [(_, known), (_, unknown)] = fastest;
    // Most of the time goes into hashing the password. If the service skipped that for an unknown email, its
    // response would be several times faster.
    let ratio = known.as_secs_f64() / unknown.as_secs_f64();
    assert!((0.5..2.0).contains(&ratio), "known {known:?}, unknown {unknown:?}");
}

#[tokio::test]
async fn failed_log_ins_per_email_are_limited_even_when_concurrent() {
    const CONCURRENT_LOG_INS: usize = 30;
    let service = Service::start().await;
    service.begin_window().await;
    let owner = service.stack.seed.first.clone();
    for email in [owner.owner_email.clone(), "nobody@loja.example".to_owned()] {
        let attempts: Vec<_> = (0..CONCURRENT_LOG_INS)
            .map(|_| {
                let (client, email) = (Client::new(&service.base_url, ""), email.clone());
                tokio::spawn(async move { log_in(&client, &email, "not the password").await })
            })
            .collect();
        let mut unauthorized = 0;
        for attempt in attempts {
            let answer = attempt.await.unwrap();
            if answer.status == 401 {
                unauthorized += 1;
                continue;
            }
            assert_eq!(answer.problem(), (429, "rate_limit_error", "rate_limited"));
            let retry_after_seconds: i64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=900).contains(&retry_after_seconds), "{retry_after_seconds}");
            assert_eq!(answer.header("x-ratelimit-limit-minute"), Some("10"));
            assert_eq!(answer.header("x-ratelimit-remaining-minute"), Some("0"));
        }
        assert_eq!(unauthorized, 10, "{email}");
    }
    // Even the correct password is refused until the window ends. Other users can log in meanwhile.
    let refused = log_in(&service, &owner.owner_email, &owner.password).await;
    assert_eq!(refused.problem().0, 429);
    let other = service.stack.seed.other.clone();
    log_in(&service, &other.owner_email, &other.password).await.expect(200);
    service.advance_seconds(refused.header("retry-after").unwrap().parse().unwrap()).await;
    log_in(&service, &owner.owner_email, &owner.password).await.expect(200);
}

#[tokio::test]
async fn successful_log_ins_do_not_count_towards_the_limit() {
    let service = Service::start().await;
    service.begin_window().await;
    let owner = service.stack.seed.first.clone();
    for _ in 0..9 {
        assert_eq!(log_in(&service, &owner.owner_email, "not the password").await.status, 401);
    }
    for _ in 0..5 {
        log_in(&service, &owner.owner_email, &owner.password).await.expect(200);
    }
    assert_eq!(log_in(&service, &owner.owner_email, "not the password").await.status, 401);
    assert_eq!(log_in(&service, &owner.owner_email, &owner.password).await.status, 429);
}

#[tokio::test]
async fn failed_log_ins_from_one_network_are_limited_across_emails() {
    let service = Service::start().await;
    service.begin_window().await;
    let owner = service.stack.seed.first.clone();
    for number in 0..100 {
        // A provider assigns a whole /64 network to one subscriber, so the limit counts an IPv6 /64 as one
        // client.
        let address = format!("2001:db8::{number:x}");
        let answer = log_in_from(&service, &address, &format!("{number}@loja.example"), "password1").await;
        assert_eq!(answer["statusCode"], 401);
    }
    let refused = log_in_from(&service, "2001:db8::ffff", "100@loja.example", "password1").await;
    assert_eq!(
        (&refused["statusCode"], &refused["headers"]["x-ratelimit-limit-minute"]),
        (&json!(429), &json!("100"))
    );
    // Attempts refused by the network's limit do not count against the email, so its owner can log in from
    // elsewhere.
    for _ in 0..20 {
        log_in_from(&service, "2001:db8::1", &owner.owner_email, "password1").await;
    }
    let elsewhere = log_in_from(&service, "2001:db8:0:1::1", &owner.owner_email, &owner.password).await;
    assert_eq!(elsewhere["statusCode"], 200);
}

/// The form of the log-in, sent from an address by a browser with these cookies. Returns where it leads.
async fn enter_from(service: &Service, address: &str, cookies: &str, password: &str) -> String {
    let api_keys = service.stack.functions.get("ApiKeysFunction").unwrap().clone();
    let email = service.stack.seed.first.owner_email.as_str();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "same-origin"),
        ("cookie", cookies),
    ];
    let body = encoded(&[("email", email), ("password", password)]);
    let answer = api_keys(api_event(("POST", "/dashboard/login"), &headers, address, &body)).await.unwrap();
    let page = || Page::read(answer["body"].as_str().unwrap()).names(Role::Alert).remove(0);
    answer["headers"]["location"].as_str().map_or_else(page, str::to_owned)
}

#[tokio::test]
async fn strangers_lock_out_neither_other_networks_nor_a_known_browser_and_a_new_password_opens() {
    let service = Service::start().await;
    let owner = service.stack.seed.first.clone();
    let (email, password) = (owner.owner_email.as_str(), owner.password.as_str());
    let entered = service.log_in(email, password).await;
    let mut cookies = entered.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let known = cookies.find(|cookie| cookie.starts_with("local-browser=")).unwrap();
    assert!(known.contains("Max-Age=15552000") && known.contains("HttpOnly"), "{known}");
    // The name that the function gives it, without the gateway for laptops.
    let known = known.split(';').next().unwrap().replace("local-", "__Host-");
    service.begin_window().await;

    let (stranger, home) = ("198.51.100.7", "203.0.113.9");
    for _ in 0..10 {
        assert_eq!(log_in_from(&service, stranger, email, "wrong").await["statusCode"], 401);
    }
    assert_eq!(log_in_from(&service, stranger, email, password).await["statusCode"], 429);
    assert_eq!(log_in_from(&service, home, email, password).await["statusCode"], 200);
    // 20 networks lock the address for those that are not known.
    let user = Users::new(service.store()).find(&UserId::from_email(email)).await.unwrap().unwrap();
    let window = service.stack.clock.now().seconds() / 900;
    let shared = domain::row::Key {
        pk: format!("log-ins#{}#{}", user.id, user.token_generation),
        sk: window.to_string(),
    };
    let counted = service.store().add_up_to(&shared, ("failures", 190), HashMap::new(), None).await.unwrap();
    assert_eq!(counted, Some(200));
    assert_eq!(log_in_from(&service, home, email, password).await["statusCode"], 429);
    let locked = enter_from(&service, stranger, "", password).await;
    assert_eq!(enter_from(&service, home, "", password).await, locked);
    assert_eq!(enter_from(&service, stranger, &known, password).await, "/dashboard");
    // A session is no proof of the browser, and another user's browser is not known to this one.
    assert_eq!(enter_from(&service, home, &cookie(&entered), password).await, locked);
    let member = service.log_in(&service.stack.seed.member_email, password).await;
    let foreign = member.headers.get_all("set-cookie").iter().nth(1).unwrap().to_str().unwrap();
    assert_eq!(enter_from(&service, home, foreign.split(';').next().unwrap(), password).await, locked);
    for _ in 0..10 {
        assert!(enter_from(&service, home, &known, "wrong").await.contains("está errado"));
    }
    assert_eq!(enter_from(&service, home, &known, password).await, locked);

    // As an operator's reset and a used link do.
    let (hash, generation) = (user.password_hash.clone(), TokenGeneration::new([9; 8]));
    let change = UserChange::Password(hash, generation);
    let now = service.stack.clock.now();
    let users = Users::new(service.store());
    users.change((&owner.id, user.id), &change, &operator().into(), now).await.unwrap();
    assert_eq!(log_in_from(&service, stranger, email, password).await["statusCode"], 200);
    assert_eq!(enter_from(&service, home, &known, password).await, "/dashboard");
}

#[tokio::test]
async fn each_wrong_log_in_makes_the_same_requests_for_a_known_and_an_unknown_address() {
    let service = Service::without_event_sources().await;
    service.begin_window().await;
    let known = service.stack.seed.first.owner_email.clone();
    let mut requests = Vec::new();
    for email in [known.as_str(), "nobody@loja.example"] {
        for attempt in 1..=11 {
            let (answer, report) = service.cost(log_in(&service, email, "not the password")).await;
            assert_eq!(answer.status, if attempt < 11 { 401 } else { 429 });
            requests.push((report.operations, service.take_queued_emails().await.len()));
        }
    }
    let (known, unknown) = requests.split_at(11);
    assert_eq!(known, unknown);
    assert!(known.iter().map(|(_, messages)| messages).eq(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]), "{known:?}");
}

#[tokio::test]
async fn log_ins_log_outs_and_the_lock_out_are_logged_without_the_address_and_audited() {
    let service = Service::start().await;
    service.begin_window().await;
    let owner = &service.stack.seed.first;
    let log = CapturedLog::start();
    let session = log_in(&service, &owner.owner_email, &owner.password).await.expect(200);
    let token = session["token"].as_str().unwrap();
    let bearer = [("authorization", &*format!("Bearer {token}"))];
    assert_eq!(service.raw(Method::POST, "/v1/auth/logout", &bearer, "").await.status, 204);
    for _ in 0..11 {
        log_in(&service, &owner.owner_email, "wrong-password").await;
    }
    log_in(&service, "nobody@example.com", "wrong-password").await.expect(401);

    let text = log.text();
    let user = UserId::from_email(&owner.owner_email).to_string();
    let of_user =
        |part: &str| text.lines().filter(|line| line.contains(part) && line.contains(&user)).count();
    assert_eq!(of_user("a log-in was refused"), 11, "{text}");
    assert_eq!(of_user("wrong e-mail address or password"), 10);
    assert_eq!(of_user("locked out"), 1);
    assert_eq!((of_user(": log-in user="), of_user(": log-out user=")), (1, 1), "{text}");
    for secret in [owner.owner_email.as_str(), &owner.password, "wrong-password", token, "nobody@example.com"]
    {
        assert!(!text.contains(secret), "{secret}");
    }

    let of_user = eventually("the audit row of the lock-out", async || {
        let (rows, _) = shared::audit::page(&service.store(), &owner.id, None).await.unwrap();
        let rows: Vec<Audit> = rows.into_iter().filter(|row| row.actor == user).collect();
        (rows.len() >= 3).then_some(rows)
    });
    let of_user = of_user.await;
    let actions: Vec<&str> = of_user.iter().map(|row| row.action.name()).collect();
    assert_eq!(actions, ["user.lock-out", "user.log-out", "user.log-in"]);
    for row in of_user {
        assert!(row.subject == user && !row.source.is_unknown(), "{row:?}");
    }
}
