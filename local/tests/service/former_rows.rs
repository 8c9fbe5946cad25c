//! Tests that this version uses the rows of former layouts, and keeps the attributes that it does not know.
//!
//! `local/tests/fixtures/former_rows` has the tables of a service of each layout, with the answers of its lists. A
//! test loads them into a service of this version. It compares the answers, repeats the former requests, and then
//! makes every change of the service to the former objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use domain::ids::{Mode, Scope};
use domain::payout::PayoutOutcome;
use domain::shard::ShardCount;
use local::embedded::State;
use local::stack::Options;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::acquirer::configuration::Migrated;
use shared::payout::Payouts;
use shared::services::move_former_payments;
use shared::webhook::secret::SigningSecrets;

use crate::restart::TemporaryDirectory;
use crate::support::{Client, Listener, Service, eventually, id, operator};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/former_rows");

/// The layout that this version writes.
const CURRENT: &str = "current";

/// The merchant's server of the fixtures.
const FORMER_RECEIVER: &str = "http://127.0.0.1:45999";

/// An attribute that no type of this version has.
const UNKNOWN: &str = "written_by_a_newer_version";

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

/// The length of the header of a gzip file without a name.
const GZIP_HEADER: usize = 10;

/// The most rows that one request writes.
const ROWS_PER_WRITE: usize = 25;

/// The tables of a layout, as `scripts/former-rows` wrote them.
#[derive(Deserialize)]
struct Fixture {
    /// The service's time when the tables were read, in milliseconds.
    now: i64,
    /// An API key, with its id and cleartext.
    key: Value,
    /// The requests with idempotency keys, and the objects that they created.
    requests: Vec<SentRequest>,
    /// The ids of objects by name.
    objects: BTreeMap<String, String>,
    /// Files of the state directory.
    state: BTreeMap<String, String>,
    /// Answers by the name of the API key and by path. Lists have only some fields of their objects.
    answers: BTreeMap<String, BTreeMap<String, Value>>,
    /// The rows of each table in DynamoDB's JSON.
    rows: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
struct SentRequest {
    key: String,
    path: String,
    body: Value,
    headers: BTreeMap<String, String>,
    id: String,
}

/// A row's key: its table, partition key and sort key.
type RowKey = (String, String, String);

impl Fixture {
    fn read(layout: &str, receiver: &str) -> Self {
        let file = std::fs::read(format!("{FIXTURES}/{layout}.json.gz")).unwrap();
        let text = miniz_oxide::inflate::decompress_to_vec(&file[GZIP_HEADER..]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let former: Self = serde_json::from_str(&text).unwrap();
        let mut moved: Self = serde_json::from_str(&text.replace(FORMER_RECEIVER, receiver)).unwrap();
        // The hash of an audit row covers the URL.
        for (table, rows) in &mut moved.rows {
            let is_audit = |row: &Value| row["pk"]["S"].as_str().unwrap().starts_with("audit#");
            for (row, former) in rows.iter_mut().zip(&former.rows[table]).filter(|(row, _)| is_audit(row)) {
                row.clone_from(former);
            }
        }
        // A repeated request has the body from then.
        Self { requests: former.requests, ..moved }
    }

    /// Returns an object of the fixture: its id alone.
    fn object(&self, name: &str) -> Value {
        json!({ "id": self.objects[name] })
    }

    fn raw_id(&self, charge: &str) -> &str {
        self.objects[charge].trim_start_matches("ch_")
    }

    fn key(&self) -> &str {
        self.key["apiKey"].as_str().unwrap()
    }

    /// Writes the files of the state directory. The service's clock continues at the time of the fixture.
    fn write_state(&self, directory: &Path) {
        for (name, text) in &self.state {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let machine = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let offset = self.now - i64::try_from(machine).unwrap();
        std::fs::write(directory.join("clock.json"), offset.to_string()).unwrap();
    }

    /// Waits until the port of the fixture's bank is free. Rows refer to the bank by its URL.
    async fn wait_for_port(&self) {
        let Some(bank) = self.state.get("bank.json") else { return };
        let bank: Value = serde_json::from_str(bank).unwrap();
        let port = u16::try_from(bank["port"].as_u64().unwrap()).unwrap();
        let is_free = async || tokio::net::TcpListener::bind(("127.0.0.1", port)).await.ok().map(drop);
        eventually("the bank's port is free", is_free).await;
    }
}

/// Sends a request to the embedded DynamoDB.
async fn dynamodb(service: &Service, operation: &str, request: &Value) -> Value {
    let operation = format!("DynamoDB_20120810.{operation}");
    let headers = [
        ("x-amz-target", operation.as_str()),
        ("content-type", "application/x-amz-json-1.0"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=local/20260101/sa-east-1/dynamodb/aws4_request"),
    ];
    let client = Client::of_other_server(&service.stack.endpoints.dynamodb_url);
    client.raw(Method::POST, "/", &headers, request.to_string()).await.expect(200)
}

async fn write_rows(service: &Service, table: &str, rows: &[Value]) {
    for some in rows.chunks(ROWS_PER_WRITE) {
        let puts: Vec<Value> = some.iter().map(|row| json!({"PutRequest": {"Item": row}})).collect();
        let mut requests = Map::new();
        requests.insert(table.to_owned(), puts.into());
        let written = dynamodb(service, "BatchWriteItem", &json!({ "RequestItems": requests })).await;
        assert!(written["UnprocessedItems"].as_object().is_none_or(Map::is_empty), "{written}");
    }
}

/// Reads all rows of all tables.
async fn all_rows(service: &Service) -> BTreeMap<RowKey, Value> {
    let mut rows = BTreeMap::new();
    for table in ["StateTable", "ApiKeysTable", "SecretsTable"] {
        let mut start = Value::Null;
        loop {
            let mut request = json!({"TableName": table});
            if !start.is_null() {
                request["ExclusiveStartKey"] = start;
            }
            let mut page = dynamodb(service, "Scan", &request).await;
            for row in page["Items"].as_array().unwrap() {
                let text = |name: &str| row[name]["S"].as_str().unwrap_or_default().to_owned();
                rows.insert((table.to_owned(), text("pk"), text("sk")), row.clone());
            }
            start = page["LastEvaluatedKey"].take();
            if start.is_null() {
                break;
            }
        }
    }
    rows
}

/// Lets the service start without the records of the rows that were written into its tables: a table that was
/// restored has none either.
async fn skip_stream(service: &Service, directory: &Path) {
    let records =
        local::event_sources::stream_records(&service.stack.endpoints.dynamodb_url, "StateTable", None);
    let last = records.await.unwrap().pop().unwrap();
    let number = local::event_sources::sequence_number(&last).unwrap().to_owned();
    let table = dynamodb(service, "DescribeTable", &json!({"TableName": "StateTable"})).await;
    let arn = &table["Table"]["LatestStreamArn"];
    let client = Client::of_other_server(&service.stack.endpoints.dynamodb_url);
    let headers = [
        ("x-amz-target", "DynamoDBStreams_20120810.DescribeStream"),
        ("content-type", "application/x-amz-json-1.0"),
        ("authorization", "AWS4-HMAC-SHA256 Credential=local/20260101/sa-east-1/dynamodb/aws4_request"),
    ];
    let stream = client.raw(Method::POST, "/", &headers, json!({ "StreamArn": arn }).to_string()).await;
    let shard = &stream.expect(200)["StreamDescription"]["Shards"][0]["ShardId"];
    let checkpoint = json!({"shard": shard, "sequence_number": number});
    std::fs::write(directory.join("stream-StateTable.json"), checkpoint.to_string()).unwrap();
}

/// A service of this version with the rows of a layout.
struct Upgraded {
    service: Service,
    fixture: Fixture,
    receiver: Listener,
    _directory: TemporaryDirectory,
}

impl Upgraded {
    /// Loads a fixture into a service. Checks that the service gives the former answers, before any of its event
    /// sources runs.
    async fn load(layout: &str, marks: bool) -> Self {
        let receiver = Listener::answering(|_number| StatusCode::NO_CONTENT.into_response()).await;
        let fixture = Fixture::read(layout, receiver.url.trim_end_matches("/hook"));
        let directory = TemporaryDirectory::new();
        fixture.write_state(&directory.0);
        let state = || State::Directory(directory.0.clone());
        fixture.wait_for_port().await;
        let options = Options { state: state(), event_sources: false, ..Options::in_memory() };
        let service = Service::start_with(options).await;
        for (table, rows) in &fixture.rows {
            write_rows(&service, table, rows).await;
        }
        if marks {
            mark_all(&service).await;
        }
        check_answers(&service, &fixture).await;
        check_replays(&service, &fixture).await;
        skip_stream(&service, &directory.0).await;
        service.stack.stop().await;
        fixture.wait_for_port().await;
        let service = Service::start_with(Options { state: state(), ..Options::in_memory() }).await;
        Self { service, fixture, receiver, _directory: directory }
    }

    async fn check_ledgers(&self) {
        for mode in [Mode::Test, Mode::Live] {
            self.service.check_ledger_of(&self.scope(mode)).await;
        }
    }

    fn scope(&self, mode: Mode) -> Scope {
        Scope { mode, ..self.service.scope() }
    }

    async fn wait_for_status(&self, charge: &str, status: &str) {
        let charge = self.fixture.object(charge);
        let has_status = async || (self.service.get_charge(&charge).await["status"] == status).then_some(());
        eventually(&format!("the charge becomes {status}"), has_status).await;
    }

    async fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        self.service.post(path, body).await.expect(status)
    }
}

fn client_of(service: &Service, key: &str) -> Client {
    let seeded = &service.stack.seed.first;
    let key = match key {
        "test_api_key" => &seeded.test_api_key,
        "live_api_key" => &seeded.live_api_key,
        other => panic!("{other}"),
    };
    Client::new(&service.base_url, key)
}

/// Checks that the lists, statistics and balances are those of the former version.
async fn check_answers(service: &Service, fixture: &Fixture) {
    for (key, answers) in &fixture.answers {
        let client = client_of(service, key);
        for (path, then) in answers {
            let (now, mut then) = (client.get(path).await.expect(200), then.clone());
            if path.starts_with("/v1/webhooks/deliveries") {
                // The first version showed when a delivery was stored. This one shows the time of its id.
                for delivery in then["data"].as_array_mut().unwrap() {
                    delivery.as_object_mut().unwrap().remove("createdAt");
                }
            }
            assert_contains(&now, &then, path);
        }
    }
}

/// Checks that a value has all that an earlier one had. Objects may have more fields.
fn assert_contains(now: &Value, then: &Value, at: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (name, then) in then {
                let at = format!("{at} {name}");
                assert_contains(now.get(name).unwrap_or_else(|| panic!("{at} is missing")), then, &at);
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{at}");
            for (index, (now, then)) in now.iter().zip(then).enumerate() {
                assert_contains(now, then, &format!("{at} {index}"));
            }
        }
        (now, then) => assert_eq!(now, then, "{at}"),
    }
}

/// Repeats the requests of the former version. Each returns the object that it created then.
async fn check_replays(service: &Service, fixture: &Fixture) {
    for sent in &fixture.requests {
        let headers: Vec<(&str, &str)> =
            sent.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let client = client_of(service, &sent.key);
        let again = client.post_as(&client.key(), &sent.path, &sent.body, &headers).await;
        assert!(again.status.is_success(), "{} {}: {again:?}", sent.path, sent.body);
        assert_eq!(id(&again.body), sent.id);
    }
}

/// Makes every change of the service to objects of the fixture.
async fn make_every_change(upgraded: &Upgraded) {
    // First, because the charge at the bank expires after an hour.
    if upgraded.fixture.objects.contains_key("live-pending") {
        change_live_charges(upgraded).await;
    }
    change_charges(upgraded).await;
    change_refunds(upgraded).await;
    change_cases(upgraded).await;
    change_account(upgraded).await;
    change_webhooks(upgraded).await;
    pass_time(upgraded).await;
}

async fn change_charges(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let paid = service.sandbox(&fixture.object("pending-paid"), "pay", &json!({})).await;
    assert_eq!(paid["status"], "paid");
    upgraded
        .post(&format!("/v1/payments/{}/cancel", fixture.raw_id("pending-cancelled")), &json!({}), 200)
        .await;
    let approved = service.sandbox(&fixture.object("held"), "review", &json!({"decision": "approve"})).await;
    assert_eq!(approved["status"], "paid");
    // A second payment of a charge that the former version settled goes back to its payer.
    let twice = service.sandbox(&fixture.object("old-paid"), "pay", &json!({})).await;
    assert_eq!(twice["status"], "paid");
    // Time ends the others. One of them is then paid late.
    service.advance_seconds(7_300).await;
    upgraded.wait_for_status("pending-expires", "expired").await;
    upgraded.wait_for_status("pending-late", "expired").await;
    let late = service.sandbox(&fixture.object("pending-late"), "pay", &json!({})).await;
    let formerly_late = service.get_charge(&fixture.object("old-late")).await;
    assert_eq!(late["status"], formerly_late["status"]);
}

async fn change_refunds(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let path = format!("/v1/payments/{}/refund", fixture.raw_id("paid-refunded-later"));
    upgraded.post(&path, &json!({"idempotencyKey": "refund-01"}), 201).await;
    upgraded.wait_for_status("paid-refunded-later", "refunded").await;
    let path = format!("/v1/sandbox/refunds/{}/resolve", fixture.objects["refund-waiting"]);
    let resolved = upgraded.post(&path, &json!({"status": "REFUNDED"}), 200).await;
    assert_eq!(resolved["status"], "REFUNDED");
    // The rest of a payment that the former version refunded in part.
    let path = format!("/v1/payments/{}/refund", fixture.raw_id("old-partly"));
    upgraded.post(&path, &json!({"idempotencyKey": "refund-02"}), 201).await;
    upgraded.wait_for_status("old-partly", "refunded").await;
    assert_eq!(service.get_charge(&fixture.object("old-refunded")).await["status"], "refunded");
}

async fn change_cases(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let path = |case: &str, action: &str| format!("/v1/med/cases/{}/{action}", fixture.objects[case]);
    let resolve = |case: &str| format!("/v1/sandbox/med/cases/{}/resolve", fixture.objects[case]);
    upgraded.post(&path("med-case-appealed-later", "appeal"), &json!({"reason": "Entregue"}), 200).await;
    upgraded.post(&resolve("med-case-appealed-later"), &json!({"decision": "merchant"}), 200).await;
    upgraded.post(&resolve("med-case-decided-later"), &json!({"decision": "payer"}), 200).await;
    let evidence = path("med-case-evidence", "evidence");
    let file = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
    let ticket = upgraded.post(&evidence, &file, 201).await;
    let url = ticket["upload_url"].as_str().unwrap();
    let sent = service.raw(Method::PUT, url, &[("content-type", "image/png")], PNG.to_vec()).await;
    assert_eq!(sent.status, 200);
    upgraded.post(&format!("{evidence}/{}/complete", id(&ticket)), &json!({}), 200).await;
    let files = service.get(&evidence).await.expect(200);
    assert_eq!(files["data"].as_array().unwrap().len(), 2, "{files}");
    upgraded.post(&path("med-case-evidence", "accept"), &json!({}), 200).await;
}

/// Pays, refunds and cancels charges at the local bank, whose books are a part of the fixture.
async fn change_live_charges(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let client = client_of(service, "live_api_key");
    let pay = json!({"charge_id": fixture.objects["live-pending"]});
    service
        .raw(Method::POST, "/_local/bank/pay", &[("content-type", "application/json")], pay.to_string())
        .await
        .expect(200);
    let path = format!("/v1/charges/{}", fixture.objects["live-pending"]);
    eventually("the live charge is paid", async || {
        Some(client.get(&path).await.expect(200)).filter(|charge| charge["status"] == "paid")
    })
    .await;
    for charge in ["live-paid", "live-refunded"] {
        let path = format!("/v1/payments/{}/refund", fixture.raw_id(charge));
        let body = json!({"idempotencyKey": "refund-03", "strategy": "devolution"});
        client.post(&path, &body).await.expect(201);
        let path = format!("/v1/charges/{}", fixture.objects[charge]);
        eventually("the live charge is refunded", async || {
            service.advance_seconds(20).await;
            Some(client.get(&path).await.expect(200)).filter(|charge| charge["status"] == "refunded")
        })
        .await;
    }
    let body = json!({"amount": 1000});
    let created = client.new_charge("live-of-this-version", &body).await;
    let raw = id(&created).trim_start_matches("ch_").to_owned();
    client.post(&format!("/v1/payments/{raw}/cancel"), &json!({})).await.expect(200);
}

async fn change_account(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let now = service.stack.clock.now();
    Payouts::new(service.store())
        .end(fixture.objects["payout-pending"].parse().unwrap(), &PayoutOutcome::Paid, &operator(), now)
        .await
        .unwrap();
    service.change_settings(|settings| settings.charge_expires_in_seconds = 3_600).await;
    service.raise_shards(ShardCount::try_from(2).unwrap()).await;
    let key = fixture.key();
    service.get_as(key, "/v1/charges").await.expect(200);

    let owner = &service.stack.seed.first;
    let log_in = json!({"email": owner.owner_email, "password": owner.password});
    let session = upgraded.post("/v1/auth/login", &log_in, 200).await;
    let bearer = format!("Bearer {}", session["token"].as_str().unwrap());
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let path = format!("/v1/api-keys/{}", fixture.key["id"].as_str().unwrap());
    let rotated = service.raw(Method::POST, &format!("{path}/rotate"), &headers, "").await.expect(201);
    service.get_as(key, "/v1/charges").await.expect(401);
    service.get_as(rotated["apiKey"].as_str().unwrap(), "/v1/charges").await.expect(200);
    let path = format!("/v1/api-keys/{}", rotated["id"].as_str().unwrap());
    let revoked = service.raw(Method::DELETE, &path, &headers, "").await;
    assert!(revoked.status.is_success(), "{revoked:?}");
    service.raw(Method::POST, "/v1/auth/logout", &headers, "").await.expect(204);
}

async fn change_webhooks(upgraded: &Upgraded) {
    let (service, fixture) = (&upgraded.service, &upgraded.fixture);
    let endpoint = |name: &str| format!("/v1/webhooks/endpoints/{}", fixture.objects[name]);
    let other = json!({"url": format!("{}-other", upgraded.receiver.url)});
    service.patch(&endpoint("endpoint-failing"), &other).await.expect(200);
    upgraded.post(&format!("{}/test", endpoint("endpoint-failing")), &json!({}), 200).await;
    // Time makes the pending deliveries due. All of them succeed at their next attempt.
    let done = async || {
        service.advance_seconds(6 * 3_600).await;
        service.deliveries("&status=PENDING").await.is_empty().then_some(())
    };
    eventually("the pending deliveries are delivered", done).await;
    let failed = service.deliveries("&status=FAILED").await;
    let path = format!("/v1/webhooks/deliveries/{}/resend", id(&failed[0]));
    let resent = upgraded.post(&path, &json!({}), 200).await;
    eventually("the failed delivery is delivered again", async || {
        let path = format!("/v1/webhooks/deliveries/{}", id(&resent));
        Some(service.get(&path).await.expect(200)).filter(|delivery| delivery["status"] == "DELIVERED")
    })
    .await;

    // The secrets of former layouts are moved by a rotation, and the others by the migration.
    upgraded.post(&format!("{}/rotate-secret", endpoint("endpoint-failing")), &json!({}), 200).await;
    migrate(upgraded).await;
    upgraded.post("/v1/webhooks/override-secret/rotate", &json!({}), 200).await;
    let charge = service.charge().await;
    let received = upgraded.receiver.hooks().len();
    service.sandbox(&charge, "pay", &json!({})).await;
    upgraded.receiver.received(received + 1).await;
    service.patch(&endpoint("endpoint-ok"), &json!({"status": "INACTIVE"})).await.expect(200);
    service.patch(&endpoint("endpoint-ok"), &json!({"status": "ACTIVE"})).await.expect(200);
    service.delete(&endpoint("endpoint-failing")).await.expect(200);
}

/// Makes all migrations, as the operator's command does. A repetition moves nothing.
async fn migrate(upgraded: &Upgraded) {
    let service = &upgraded.service;
    let secrets = SigningSecrets::new(service.store(), service.secrets());
    let (by, now) = (operator(), service.stack.clock.now());
    for is_repeated in [false, true] {
        for mode in [Mode::Test, Mode::Live] {
            let scope = upgraded.scope(mode);
            let migrated = secrets.migrate(scope, &by, now).await.unwrap();
            assert!(migrated.unreadable.is_empty(), "{migrated:?}");
            let action = "incoming-payments.migrate";
            let audit =
                shared::audit::by_operator(&by, scope.account, action, scope.to_string(), now).unwrap();
            let payments = move_former_payments(&service.store(), &scope, &audit, &|_rows| {}).await.unwrap();
            assert!(payments.failed.is_empty(), "{payments:?}");
            if is_repeated {
                assert!(migrated.endpoints.is_empty() && !migrated.override_secret, "{migrated:?}");
                assert_eq!(payments.moved, 0);
            }
        }
        for account in [service.stack.seed.first.id, service.stack.seed.other.id] {
            let migrated = service.acquirers().migrate(account, &by, now).await.unwrap();
            assert!(!is_repeated || matches!(migrated, Migrated::Nothing));
        }
    }
}

/// Lets the checkpoints pass all objects, and compares statistics with lists.
async fn pass_time(upgraded: &Upgraded) {
    let service = &upgraded.service;
    let counts = async || {
        service.advance_seconds(130).await;
        let stats = service.get("/v1/webhooks/stats").await.expect(200);
        Some(stats).filter(|stats| stats["PENDING"] == 0 && stats["PROCESSING"] == 0)
    };
    let stats = eventually("all deliveries are counted", counts).await;
    let listed = service.deliveries("").await;
    let has = |status: &str| listed.iter().filter(|delivery| delivery["status"] == status).count();
    assert_eq!(stats["total"], listed.len(), "{stats}");
    for status in ["DELIVERED", "FAILED", "CANCELLED"] {
        assert_eq!(stats[status], has(status), "{status}: {stats}");
    }
    let payments = service.get("/v1/payments?limit=100").await.expect(200);
    let stats = service.get("/v1/payments/stats").await.expect(200);
    assert_eq!(stats["totalTransactions"], payments["data"].as_array().unwrap().len());
}

async fn use_former_layout(layout: &str) {
    let upgraded = Upgraded::load(layout, false).await;
    upgraded.check_ledgers().await;
    make_every_change(&upgraded).await;
    upgraded.check_ledgers().await;
    check_replays(&upgraded.service, &upgraded.fixture).await;
    let account = upgraded.service.scope().account;
    let chain = shared::audit::verify(&upgraded.service.store(), &account, None).await.unwrap();
    assert!(chain.faults.is_empty(), "{chain:?}");
}

macro_rules! former_layouts {
    ($($test:ident: $file:literal),* $(,)?) => {
        $(#[tokio::test]
        async fn $test() {
            use_former_layout($file).await;
        })*

        #[test]
        fn each_fixture_has_a_test() {
            let mut tested = BTreeSet::from([$($file),*]);
            tested.insert(CURRENT);
            let files = std::fs::read_dir(FIXTURES).unwrap().map(|file| file.unwrap().file_name());
            let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
            let layouts = files.iter().filter_map(|name| name.strip_suffix(".json.gz"));
            assert_eq!(layouts.collect::<BTreeSet<_>>(), tested);
        }
    };
}

former_layouts! {
    rows_of_the_first_version_are_used: "initial",
    rows_with_acquirers_in_the_state_table_are_used: "acquirers",
    rows_with_secrets_of_webhooks_in_the_state_table_are_used: "webhook-secrets",
    rows_of_single_events_are_used: "events",
    rows_of_deliveries_in_one_partition_are_used: "deliveries",
}

/// Adds an attribute that no type of this version has to all rows that lack it. Returns all rows.
async fn mark_all(service: &Service) -> BTreeMap<RowKey, Value> {
    let mut rows = all_rows(service).await;
    for ((table, ..), row) in &mut rows {
        if row.get(UNKNOWN).is_some() {
            continue;
        }
        let mut key = json!({"pk": row["pk"]});
        if let Some(sort) = row.get("sk") {
            key["sk"] = sort.clone();
        }
        let update = json!({
            "TableName": table,
            "Key": key,
            "UpdateExpression": "SET #name = :value",
            // The row may have been removed meanwhile.
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeNames": {"#name": UNKNOWN},
            "ExpressionAttributeValues": {":value": {"S": "kept"}},
        });
        dynamodb(service, "UpdateItem", &update).await;
        row[UNKNOWN] = json!({"S": "kept"});
    }
    rows
}

/// Returns the kind of a row: its table, and the text before the first `#` of its partition key, and of its sort
/// key if the partition has rows of several kinds.
fn kind((table, partition, sort): &RowKey) -> String {
    let prefix = |text: &str| text.split(['#', '_']).next().unwrap_or_default().to_owned();
    match (table.as_str(), prefix(partition).as_str()) {
        ("StateTable", kind @ ("charge" | "rollup" | "deliveries" | "abandonments")) => {
            format!("{kind} {}", prefix(sort))
        }
        ("StateTable", kind) => kind.to_owned(),
        ("ApiKeysTable", _) => "API key".to_owned(),
        (_, kind) => format!("secret {kind}"),
    }
}

#[tokio::test]
async fn every_change_keeps_the_attributes_of_a_newer_version() {
    let upgraded = Upgraded::load(CURRENT, true).await;
    let before = all_rows(&upgraded.service).await;
    make_every_change(&upgraded).await;
    let after = all_rows(&upgraded.service).await;
    let mut changed = BTreeSet::new();
    for (key, row) in &before {
        let Some(now) = after.get(key).filter(|_| row.get(UNKNOWN).is_some()) else { continue };
        assert_eq!(now.get(UNKNOWN), row.get(UNKNOWN), "{key:?} lost the attribute: {now}");
        if now != row {
            changed.insert(kind(key));
        }
    }
    for kind in CHANGED {
        assert!(changed.contains(kind), "no row of the kind {kind} was changed: {changed:?}");
    }
}

/// Kinds of rows of which the test changes at least one.
const CHANGED: [&str; 9] = [
    "API key",
    "account",
    "charge case",
    "charge charge",
    "charge refund",
    "delivery",
    "endpoints",
    "payout",
    "wallet",
];
