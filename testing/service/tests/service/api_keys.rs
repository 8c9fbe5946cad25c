//! Tests of `/v1/api-keys`.

use axum::http::Method;
use domain::ids::UserId;
use domain::row::Row;
use faults::proxy::Fault;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::account::{Role, User};
use shared::audit;
use shared::store::{Store, Write};

use crate::support::{Answer, Client, Service, id};

/// A logged-in user of the dashboard.
pub(crate) struct DashboardUser<'a> {
    pub(crate) service: &'a Service,
    pub(crate) token: String,
}

impl<'a> DashboardUser<'a> {
    /// Returns the first account's owner.
    pub(crate) async fn owner(service: &'a Service) -> Self {
        let seed = &service.stack.seed;
        Self { service, token: service.stack.owner_token(&seed.first).await.unwrap() }
    }

    /// Returns the other account's owner.
    async fn other_owner(service: &'a Service) -> Self {
        let seed = &service.stack.seed;
        Self { service, token: service.stack.owner_token(&seed.other).await.unwrap() }
    }

    /// Returns the first account's member.
    pub(crate) async fn member(service: &'a Service) -> Self {
        Self { service, token: service.stack.member_token().await.unwrap() }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.service.raw(method, path, &headers, body).await
    }

    async fn issue(&self, body: &Value) -> Answer {
        self.send(Method::POST, "/v1/api-keys", body).await
    }

    async fn rotate(&self, key: &str, body: &Value) -> Answer {
        self.send(Method::POST, &format!("/v1/api-keys/{key}/rotate"), body).await
    }

    async fn revoke(&self, key: &str) -> Answer {
        self.send(Method::DELETE, &format!("/v1/api-keys/{key}"), &Value::Null).await
    }

    async fn list(&self) -> Value {
        self.send(Method::GET, "/v1/api-keys", &Value::Null).await.expect(200)
    }

    async fn labels(&self) -> Vec<String> {
        let list = self.list().await;
        list["data"].as_array().unwrap().iter().map(|key| key["label"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns the status of a request with this key: 200 where the key works.
async fn status_with_key(client: &Client, key: &str) -> u16 {
    client.get_as(key, "/v1/webhooks/endpoints").await.status.as_u16()
}

/// Returns the statuses of requests with two issued keys.
async fn statuses_with(client: &Client, [one, two]: [&Value; 2]) -> [u16; 2] {
    [status_with_key(client, cleartext(one)).await, status_with_key(client, cleartext(two)).await]
}

fn cleartext(issued: &Value) -> &str {
    issued["apiKey"].as_str().unwrap()
}

#[tokio::test]
async fn an_issued_key_works_immediately_and_its_cleartext_is_shown_once() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    let issued = owner.issue(&json!({"label": "Loja online", "test": true})).await.expect(201);
    let names: Vec<&String> = issued.as_object().unwrap().keys().collect();
    assert_eq!(names, ["apiKey", "createdAt", "fingerprint", "id", "label", "mode", "prefix"]);
    let key = cleartext(&issued);
    let random = key.strip_prefix("ak_test_").unwrap();
    assert!(random.len() == 32 && random.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
    assert_eq!((&issued["mode"], &issued["label"]), (&json!("test"), &json!("Loja online")));
    assert_eq!(issued["prefix"], key[..12]);
    assert_eq!(issued["fingerprint"], domain::hex::encode(Sha256::digest(key)));
    assert_eq!(status_with_key(&service, key).await, 200);
    // The key reads the data of the account's test mode.
    let charge = service.charge().await;
    let path = format!("/v1/charges/{}", id(&charge));
    assert_eq!(service.get_as(key, &path).await.expect(200)["id"], charge["id"]);

    let list = owner.list().await;
    assert_eq!(list["access"], json!({"canManage": true}));
    let listed = &list["data"][0];
    for name in ["id", "prefix", "label", "createdAt", "mode"] {
        assert_eq!(listed[name], issued[name], "{name}");
    }
    assert_eq!(listed.as_object().unwrap().len(), 5);
    assert!(!list.to_string().contains(key));
    let table_contents = table_contents(&service).await;
    assert!(!table_contents.contains(random), "no table contains the key's cleartext");
    assert!(table_contents.contains(issued["fingerprint"].as_str().unwrap()));

    // A key is live and has an empty label by default.
    for body in [Value::Null, json!({}), json!({"label": null, "test": null}), json!({"test": false})] {
        let issued = owner.issue(&body).await.expect(201);
        assert!(cleartext(&issued).starts_with("ak_live_"), "{body}");
        assert_eq!((&issued["mode"], &issued["label"]), (&json!("live"), &json!("")));
    }
    for label in ["é".repeat(64), "Caixa nº 1 – ção 🍞".to_owned()] {
        let issued = owner.issue(&json!({"label": label})).await;
        assert_eq!(issued.header("cache-control"), Some("no-store"));
        assert_eq!(issued.expect(201)["label"], label);
    }
    let before = owner.list().await;
    for (body, params) in [
        (json!({"label": "x".repeat(65)}), vec!["label"]),
        (json!({"label": 1}), vec!["label"]),
        (json!({"label": "\u{200b}"}), vec!["label"]),
        (json!({"label": "caixa\u{202e}gpj"}), vec!["label"]),
        (json!({"label": "a\nb"}), vec!["label"]),
        (json!({"label": "a\u{0}"}), vec!["label"]),
        (json!({"label": "a\u{2028}b"}), vec!["label"]),
        (json!({"test": "true"}), vec!["test"]),
        (json!({"test": 1, "label": []}), vec!["label", "test"]),
    ] {
        let refused = owner.issue(&body).await;
        assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_request"), "{body}");
        assert_eq!(refused.params(), params);
    }
    assert_eq!(owner.list().await, before);
}

/// Returns the contents of both tables as text.
async fn table_contents(service: &Service) -> String {
    let client = service.dynamodb();
    let mut text = String::new();
    for table in ["StateTable", "ApiKeysTable"] {
        let rows = client.scan().table_name(table).send().await.unwrap();
        text = format!("{text}{:?}", rows.items());
    }
    text
}

#[tokio::test]
async fn a_rotation_revokes_the_old_key_and_copies_its_mode_and_label() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    for (test, mode) in [(true, "test"), (false, "live")] {
        let old = owner.issue(&json!({"label": "caixa", "test": test})).await.expect(201);
        let new = owner.rotate(id(&old), &Value::Null).await.expect(201);
        assert_eq!((&new["mode"], &new["label"]), (&json!(mode), &json!("caixa")));
        assert_ne!(new["id"], old["id"]);
        assert_eq!(statuses_with(&service, [&old, &new]).await, [401, 200]);
        let renamed = owner.rotate(id(&new), &json!({"label": "caixa 2"})).await.expect(201);
        assert_eq!((&renamed["mode"], &renamed["label"]), (&json!(mode), &json!("caixa 2")));
        assert_eq!(status_with_key(&service, cleartext(&new)).await, 401);
        // A rotated key cannot be rotated again. A request with an invalid label rotates nothing.
        assert_eq!(owner.rotate(id(&old), &Value::Null).await.problem().0, 404);
        let refused = owner.rotate(id(&renamed), &json!({"label": "x".repeat(65)})).await;
        assert_eq!((refused.problem().0, refused.params()), (400, vec!["label"]));
        assert_eq!(status_with_key(&service, cleartext(&renamed)).await, 200);
    }
    // Two rotated keys and two seeded keys.
    assert_eq!(owner.labels().await, ["caixa 2", "caixa 2", "Chave de exemplo", "Chave de exemplo"]);
}

#[tokio::test]
async fn a_revoked_key_never_works_again_and_another_accounts_key_is_not_found() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    let [other, revoked] =
        [owner.issue(&json!({"test": true})).await, owner.issue(&json!({"test": true})).await]
            .map(|a| a.expect(201));
    assert_eq!(owner.revoke(id(&revoked)).await.expect(200), json!({"revoked": true}));
    assert_eq!(statuses_with(&service, [&revoked, &other]).await, [401, 200]);
    for _repeat in 0..2 {
        assert_eq!(owner.revoke(id(&revoked)).await.problem(), (404, "not_found_error", "not_found"));
        assert_eq!(owner.rotate(id(&revoked), &Value::Null).await.problem().0, 404);
    }
    let list = owner.list().await;
    assert!(!list.to_string().contains(id(&revoked)) && list.to_string().contains(id(&other)));

    let other_owner = DashboardUser::other_owner(&service).await;
    let key = owner.issue(&json!({"test": true})).await.expect(201);
    let unknown = format!("key_{}", "0".repeat(64));
    for path in [
        id(&key),
        &unknown,
        "key_1",
        "x",
        "%ff",
        &id(&key).to_uppercase(),
        key["fingerprint"].as_str().unwrap(),
    ] {
        for answer in
            [other_owner.revoke(path).await, other_owner.rotate(path, &json!({"label": "mine"})).await]
        {
            assert_eq!(answer.problem(), (404, "not_found_error", "not_found"), "{path}");
        }
    }
    assert_eq!(status_with_key(&service, cleartext(&key)).await, 200);
    assert!(!other_owner.list().await.to_string().contains(id(&key)));
    assert_eq!(other_owner.labels().await, ["Chave de exemplo", "Chave de exemplo"]);
}

#[tokio::test]
async fn a_member_lists_keys_and_manages_them_as_the_stored_role_says_until_removed() {
    let service = Service::start().await;
    let (owner, member) = (DashboardUser::owner(&service).await, DashboardUser::member(&service).await);
    let key = owner.issue(&json!({"test": true})).await.expect(201);
    let list = member.list().await;
    assert_eq!(list["access"], json!({"canManage": false}));
    assert_eq!(list["data"], owner.list().await["data"]);
    let unknown = format!("key_{}", "0".repeat(64));
    for answer in [
        member.issue(&json!({})).await,
        member.issue(&json!({"label": 1})).await,
        member.rotate(id(&key), &Value::Null).await,
        member.revoke(id(&key)).await,
        member.revoke(&unknown).await,
    ] {
        assert_eq!(answer.problem(), (403, "permission_error", "API_KEY_ROLE_REQUIRED"));
    }
    assert_eq!(status_with_key(&service, cleartext(&key)).await, 200);
    assert_eq!(owner.list().await["data"], list["data"]);

    let store = service.store();
    let email = &service.stack.seed.member_email;
    for (role, status) in [(Role::Admin, 201), (Role::Owner, 201), (Role::Member, 403), (Role::Viewer, 403)] {
        change_user(&store, email, |user| user.role = role).await;
        assert_eq!(member.issue(&json!({})).await.status, status, "{role:?}");
    }
    let user: User = store.get(&User::key_of(&UserId::from_email(email))).await.unwrap().unwrap();
    let version = i64::try_from(user.version).unwrap();
    let _ = store.commit(vec![Write::remove(user.key(), "version", version)]).await.unwrap();
    let removed = member.send(Method::GET, "/v1/api-keys", &Value::Null).await;
    assert_eq!(removed.problem(), (401, "authentication_error", "unauthorized"));
}

/// Changes the stored row of a user.
pub(crate) async fn change_user(store: &Store, email: &str, change: impl Fn(&mut User)) {
    let mut user: User = store.get(&User::key_of(&UserId::from_email(email))).await.unwrap().unwrap();
    let version = user.version;
    user.version += 1;
    change(&mut user);
    let written = store.commit(vec![Write::replace(&user, version).unwrap()]).await.unwrap();
    assert_eq!(written, shared::store::CommitOutcome::Done);
}

#[tokio::test]
async fn the_api_key_routes_accept_only_a_valid_dashboard_token() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    let (token, key) = (&owner.token, service.key());
    let headers: Vec<(&str, String)> = vec![
        ("x-nothing", String::new()),
        ("apikey", key.clone()),
        ("authorization", format!("Bearer {key}")),
        ("authorization", token.clone()),
        ("authorization", format!("Basic {token}")),
        ("authorization", "Bearer".to_owned()),
        ("authorization", "Bearer ".to_owned()),
        ("authorization", format!("Bearer {token}x")),
        ("apikey", token.clone()),
    ];
    let path = format!("/v1/api-keys/key_{}", "0".repeat(64));
    let rotate = format!("{path}/rotate");
    let routes = [
        (Method::GET, "/v1/api-keys"),
        (Method::POST, "/v1/api-keys"),
        (Method::POST, rotate.as_str()),
        (Method::DELETE, path.as_str()),
    ];
    for (method, path) in routes {
        for (name, value) in &headers {
            let answer = service.raw(method.clone(), path, &[(name, value)], "{").await;
            let expected = (401, "authentication_error", "unauthorized");
            assert_eq!(answer.problem(), expected, "{method} {path} {name}: {value}");
            assert_eq!(answer.header("x-ratelimit-limit-minute"), None);
        }
    }
    let lower = format!("bearer {token}");
    service.raw(Method::GET, "/v1/api-keys", &[("authorization", &lower)], "").await.expect(200);
    assert_eq!(status_with_key(&service, token).await, 401);
    service.stack.clock.advance(12 * 3_600_000 - 60_000);
    owner.list().await;
    service.stack.clock.advance(60_000);
    let expired = owner.send(Method::GET, "/v1/api-keys", &Value::Null).await;
    assert_eq!(expired.problem(), (401, "authentication_error", "unauthorized"));
}

#[tokio::test]
async fn logging_out_ends_one_token_and_leaves_others_valid() {
    let service = Service::start().await;
    let (owner, other) = (DashboardUser::owner(&service).await, DashboardUser::owner(&service).await);
    let answer = owner.send(Method::POST, "/v1/auth/logout", &Value::Null).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.len()), (204, 0));
    assert!(answer.header("x-request-id").is_some());
    for (method, path) in
        [(Method::GET, "/v1/api-keys"), (Method::POST, "/v1/api-keys"), (Method::POST, "/v1/auth/logout")]
    {
        let refused = owner.send(method, path, &Value::Null).await;
        assert_eq!(refused.problem(), (401, "authentication_error", "unauthorized"));
    }
    other.list().await;
    let user = UserId::from_email(&service.stack.seed.first.owner_email);
    let [row] = &service.rows(&format!("session#{user}"), "").await[..] else { panic!("one is left") };
    assert!(row.contains_key("ttl"));
    // A signed token whose session has no row is not valid.
    let store = service.store();
    let delete = store.client().delete_item().table_name(store.table());
    delete.key("pk", row["pk"].clone()).key("sk", row["sk"].clone()).send().await.unwrap();
    let refused = other.send(Method::GET, "/v1/api-keys", &Value::Null).await;
    assert_eq!(refused.problem(), (401, "authentication_error", "unauthorized"));
}

#[tokio::test]
async fn the_audit_names_the_user_and_the_key_of_each_issue_rotation_and_revocation() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    let issued = owner.issue(&json!({"label": "caixa", "test": true})).await.expect(201);
    let rotated = owner.rotate(id(&issued), &Value::Null).await.expect(201);
    owner.revoke(id(&rotated)).await.expect(200);
    // Refused requests leave no audit row.
    owner.revoke(id(&issued)).await;
    DashboardUser::other_owner(&service).await.revoke(id(&rotated)).await;
    DashboardUser::member(&service).await.issue(&json!({})).await;
    let (audit, has_more) = audit::page(&service.store(), &service.stack.seed.first.id, None).await.unwrap();
    assert!(!has_more);
    let actions: Vec<&str> = audit.iter().rev().map(|row| row.action.name()).collect();
    assert_eq!(actions, ["api-key.issue", "api-key.rotate", "api-key.revoke"]);
    let fingerprint = |key: &Value| key["fingerprint"].as_str().unwrap().to_owned();
    let subjects: Vec<String> = audit.iter().rev().map(|row| row.subject.clone()).collect();
    assert_eq!(subjects, [fingerprint(&issued), fingerprint(&issued), fingerprint(&rotated)]);
    let described = |key: &Value| json!({"mode": "test", "prefix": key["prefix"], "label": "caixa"});
    let details: Vec<Value> = audit.iter().rev().map(|row| row.action.details().unwrap()).collect();
    let replaced = json!({"replaced_by": fingerprint(&rotated), "key": described(&rotated)});
    assert_eq!(details, [described(&issued), replaced, described(&rotated)]);
    let owner = UserId::from_email(&service.stack.seed.first.owner_email).to_string();
    assert!(audit.iter().all(|row| row.actor == owner));
}

#[tokio::test]
async fn of_concurrent_rotations_one_succeeds_and_its_key_follows_the_accounts_rate_limit() {
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    let key = owner.issue(&json!({"label": "caixa", "test": true})).await.expect(201);
    let rotations = (0..6).map(|_| {
        let client = Client::new(&service.base_url, "");
        let (bearer, path) = (format!("Bearer {}", owner.token), format!("/v1/api-keys/{}/rotate", id(&key)));
        tokio::spawn(async move { client.raw(Method::POST, &path, &[("authorization", &bearer)], "").await })
    });
    let mut statuses = Vec::new();
    for rotation in rotations.collect::<Vec<_>>() {
        statuses.push(rotation.await.unwrap().status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 404, 404, 404, 404, 404]);
    assert_eq!(owner.labels().await.iter().filter(|label| *label == "caixa").count(), 1);

    service.change_settings(|settings| settings.rate_limit_per_minute = 77).await;
    let issued = owner.issue(&json!({"test": true})).await.expect(201);
    let rotated = owner.rotate(id(&issued), &Value::Null).await.expect(201);
    service.change_settings(|settings| settings.rate_limit_per_minute = 78).await;
    for key in [service.key(), cleartext(&rotated).to_owned()] {
        let answer = service.get_as(&key, "/v1/webhooks/endpoints").await;
        assert_eq!(answer.header("x-ratelimit-limit-minute"), Some("78"));
    }
}

#[tokio::test]
async fn an_account_may_make_five_times_the_requests_of_a_key() {
    const LIMIT: usize = 32;
    let service = Service::start().await;
    let owner = DashboardUser::owner(&service).await;
    service.change_settings(|settings| settings.rate_limit_per_minute = 32).await;
    let mut keys = vec![service.key()];
    for number in 0..5 {
        let issued = owner.issue(&json!({"test": number % 2 == 0})).await.expect(201);
        keys.push(cleartext(&issued).to_owned());
    }
    service.begin_minute().await;
    let first = service.get_as(&keys[0], "/v1/wallets").await;
    assert_eq!(first.header("x-ratelimit-remaining-minute"), Some("31"));
    let (sixth, five) = keys.split_last().unwrap();
    for (key, requests) in five.iter().zip([LIMIT - 1, LIMIT, LIMIT, LIMIT, LIMIT]) {
        for _ in 0..requests {
            service.get_as(key, "/v1/wallets").await.expect(200);
        }
    }
    // The sixth key is counted at its 16th request.
    for number in 1..=20 {
        let answer = service.get_as(sixth, "/v1/wallets").await;
        if number < 16 {
            answer.expect(200);
            continue;
        }
        assert_eq!(answer.problem(), (429, "rate_limit_error", "rate_limited"), "{number}");
        assert_eq!(answer.header("x-ratelimit-remaining-minute"), Some("0"));
        assert!((1..=60).contains(&answer.header("retry-after").unwrap().parse().unwrap()));
    }
    service.get_as(&service.stack.seed.other.test_api_key, "/v1/wallets").await.expect(200);
    service.advance_seconds(60).await;
    for _ in 0..16 {
        service.get_as(sixth, "/v1/wallets").await.expect(200);
    }
}

#[tokio::test]
async fn a_request_and_a_rotation_that_conflict_are_retried() {
    let service = Service::start().await;
    let proxy = service.proxy();
    let owner = DashboardUser::owner(&service).await;
    let key = owner.issue(&json!({"test": true})).await.expect(201);
    // A request's counter update conflicts with the rotation. The rotation is retried.
    for _ in 0..3 {
        proxy.inject("TransactWriteItems", Fault::Conflict);
    }
    let new = owner.rotate(id(&key), &Value::Null).await.expect(201);
    // A rotation conflicts with the request's counter update. The request is retried and then sees whether
    // its key was rotated.
    for (sent, status) in [(&new, 200), (&key, 401)] {
        for _ in 0..3 {
            proxy.inject("UpdateItem", Fault::Conflict);
        }
        assert_eq!(status_with_key(&service, cleartext(sent)).await, status);
    }
    assert_eq!(proxy.pending_faults(), 0);
    // The response is lost and the SDK retries the write. The key is rotated once.
    proxy.inject("TransactWriteItems", Fault::AnswerLost);
    let newer = owner.rotate(id(&new), &Value::Null).await.expect(201);
    assert_eq!(statuses_with(&service, [&new, &newer]).await, [401, 200]);
    assert_eq!(owner.list().await["data"].as_array().unwrap().len(), 3);
}
