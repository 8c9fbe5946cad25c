//! The routes of the function `api-keys`: log-in and API keys.

use serde_json::{Value, json};

use super::{Portable, Routes, UNKNOWN_ID, unique};
use crate::support::{Answer, id};

pub(super) const ROUTES: &Routes = &[
    ("GET /v1/api-keys", &[200, 400, 401, 429]),
    ("POST /v1/api-keys", &[201, 400, 401, 403, 429]),
    ("DELETE /v1/api-keys/{id}", &[200, 400, 401, 403, 404, 429]),
    ("POST /v1/api-keys/{id}/rotate", &[201, 400, 401, 403, 404, 429]),
    ("POST /v1/auth/login", &[200, 400, 401, 429]),
    ("POST /v1/auth/logout", &[204, 400, 401, 429]),
];

/// The most failed log-ins for an email address in a quarter of an hour.
const MOST_FAILED_LOG_INS: usize = 10;

/// The most requests of a user in a minute.
const MOST_REQUESTS: usize = 60;

impl Portable {
    async fn log_in(&self, email: &str, password: &str) -> Answer {
        let body = json!({"email": email, "password": password});
        self.call("POST /v1/auth/login").json(&body).send().await
    }

    async fn status_with_key(&self, key: &str) -> u16 {
        self.call("GET /v1/webhooks/endpoints").key(key).send().await.status.as_u16()
    }
}

#[tokio::test]
async fn log_in_and_api_keys_answer_with_every_status() {
    let service = Portable::start().await;
    let (email, password) = (service.ready("/dashboard/email"), service.ready("/dashboard/password"));
    let token = service.log_in(&email, &password).await.expect(200)["token"].as_str().unwrap().to_owned();
    let stranger = format!("{}@loja.example", unique());
    let mut answer = service.log_in(&stranger, "wrong").await;
    for _ in 0..=MOST_FAILED_LOG_INS {
        if answer.status == 429 {
            break;
        }
        assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"));
        answer = service.log_in(&stranger, "wrong").await;
    }
    assert_eq!(answer.problem(), (429, "rate_limit_error", "rate_limited"));

    let issued = service.call("POST /v1/api-keys").json(&json!({"test": true})).send().await.expect(201);
    let key = issued["apiKey"].as_str().unwrap().to_owned();
    assert_eq!(service.status_with_key(&key).await, 200);
    let list = service.call("GET /v1/api-keys").send().await.expect(200);
    assert!(list["data"].as_array().unwrap().iter().any(|listed| listed["id"] == issued["id"]), "{list}");
    let rotate = service.call("POST /v1/api-keys/{id}/rotate").id(id(&issued)).json(&json!({}));
    let rotated = rotate.send().await.expect(201);
    let new_key = rotated["apiKey"].as_str().unwrap().to_owned();
    assert_eq!((service.status_with_key(&key).await, service.status_with_key(&new_key).await), (401, 200));

    let member = service.ready("/member_token");
    let changes = ["POST /v1/api-keys", "DELETE /v1/api-keys/{id}", "POST /v1/api-keys/{id}/rotate"];
    for route in changes {
        let call = service.call(route).id(id(&rotated)).bearer(&member).json(&json!({}));
        assert_eq!(call.send().await.problem(), (403, "permission_error", "API_KEY_ROLE_REQUIRED"));
    }
    service.refuse(ROUTES, |_| id(&rotated).to_owned()).await;
    let revoked = service.call("DELETE /v1/api-keys/{id}").id(id(&rotated)).send().await.expect(200);
    assert_eq!((revoked, service.status_with_key(&new_key).await), (json!({"revoked": true}), 401));

    let logout = async || service.call("POST /v1/auth/logout").bearer(&token).send().await;
    assert_eq!(logout().await.expect(204), Value::Null);
    assert_eq!(logout().await.problem(), (401, "authentication_error", "unauthorized"));

    // The limit of a user holds for each minute, so a new minute may begin between two requests.
    let other = service.ready("/other_account/token");
    for (route, _) in ROUTES.iter().filter(|(route, _)| !route.ends_with("/login")) {
        let send = async || {
            let call = service.call(route).ids(UNKNOWN_ID).bearer(&other);
            call.query("unknown=1").json(&json!({})).send().await
        };
        let mut answer = send().await;
        for _ in 0..2 * MOST_REQUESTS {
            if answer.status == 429 {
                break;
            }
            assert!([400, 404].contains(&answer.status.as_u16()), "{answer:?}");
            answer = send().await;
        }
        assert_eq!(answer.problem(), (429, "rate_limit_error", "rate_limited"), "{route}");
        assert!(answer.header("retry-after").is_some());
    }
    service.check_statuses(ROUTES);
}
