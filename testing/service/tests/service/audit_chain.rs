//! Tests of the hash chain of an account's audit rows: concurrent writers extend it without gaps, a repeated stream
//! record adds no second row, and rows are still added after one that can't be read. The unit tests of the chain
//! change rows.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::Method;
use domain::audit::chain::{ChainFault, ChainReport, Head, key_of};
use domain::audit::{Action, Audit};
use domain::time::Timestamp;
use effects::webhook::secret::SigningSecret;
use faults::proxy::Fault;
use serde_json::json;
use shared::audit;
use shared::store::Item;
use tokio::task::JoinSet;

use crate::invocations::{dispatch, dispatch_records, stream_records};
use crate::support::{Client, Service, operator, raw_id};
use crate::webhooks::endpoint_path;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

impl Service {
    async fn verify_chain(&self, expected: Option<Head>) -> ChainReport {
        audit::verify(&self.store(), &self.scope().account, expected).await.unwrap()
    }

    /// Verifies the chain, which must have no faults. Returns the number of its rows.
    pub(crate) async fn chain_length(&self) -> u64 {
        let report = self.verify_chain(None).await;
        assert_eq!((report.faults.as_slice(), report.rows), ([].as_slice(), report.head.sequence));
        report.rows
    }

    fn operators_row(&self, subject: impl std::fmt::Display) -> Audit {
        let now = self.stack.clock.now();
        audit::by_operator(&operator(), self.scope().account, Action::ReplayEvents, subject, now).unwrap()
    }

    async fn append(&self, rows: usize) {
        for number in 0..rows {
            audit::append(&self.store(), &self.operators_row(number)).await.unwrap();
        }
    }

    async fn cancel(&self) {
        let path = format!("/v1/payments/{}/cancel", raw_id(&self.charge().await));
        self.post(&path, &json!({})).await.expect(200);
    }

    /// Reads a row of the chain.
    async fn chain_row(&self, sequence: u64) -> Item {
        self.store().get_item(&key_of(&self.scope().account, sequence)).await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_actions_of_keys_users_operators_and_dispatchers_form_one_unbroken_chain() {
    let service = Service::without_event_sources().await;
    for _ in 0..12 {
        service.cancel().await;
    }
    let records = stream_records(&service.stack);
    let seed = &service.stack.seed;
    let bearer = format!("Bearer {}", service.stack.owner_token(&seed.first).await.unwrap());
    let mut work: JoinSet<()> = JoinSet::new();
    for _dispatcher in 0..3 {
        let dispatcher = service.stack.functions.get("EventDispatcherFunction").unwrap().clone();
        let event = json!({ "Records": records });
        work.spawn(async move {
            let answer = dispatcher(event).await.unwrap();
            assert_eq!(answer["batchItemFailures"], json!([]));
        });
    }
    for number in 0..8 {
        let client = Client::new(&service.base_url, &service.key());
        work.spawn(async move {
            client.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);
        });
        let (client, bearer) = (Client::new(&service.base_url, &service.key()), bearer.clone());
        work.spawn(async move {
            let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
            let body = json!({"label": number.to_string(), "test": true}).to_string();
            client.raw(Method::POST, "/v1/api-keys", &headers, body).await.expect(201);
        });
        let (store, row) = (service.store(), service.operators_row(number));
        work.spawn(async move { audit::append(&store, &row).await.unwrap() });
    }
    work.join_all().await;
    assert_eq!(service.chain_length().await, 12 + 3 * 8);
}

#[tokio::test]
async fn a_row_costs_one_write_unit_and_many_rows_of_a_batch_one_request() {
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    proxy.reset();
    dispatch(&service.stack).await;
    let one = proxy.report();
    assert_eq!((one.operations["Query"], one.operations["PutItem"]), (1, 1), "{one:?}");
    assert!((one.write_units - 1.0).abs() < f64::EPSILON, "{one:?}");
    // 20 changes of one endpoint, which lead to no other action of the dispatcher.
    let endpoint = service.get("/v1/webhooks/endpoints").await.expect(200);
    let path = endpoint_path(&endpoint["data"][0]);
    for number in 0..20 {
        let url = format!("http://127.0.0.1:9/{number}");
        service.patch(&path, &json!({ "url": url })).await.expect(200);
    }
    proxy.reset();
    dispatch(&service.stack).await;
    let many = proxy.report();
    assert_eq!((many.operations["Query"], many.operations["TransactWriteItems"]), (1, 1), "{many:?}");
    assert_eq!(service.chain_length().await, 21);
}

#[tokio::test]
async fn a_repeated_record_appends_nothing_however_many_rows_follow() {
    let service = Service::without_event_sources().await;
    service.cancel().await;
    let records = stream_records(&service.stack);
    // The first row of the action is written an hour later, and 130 rows follow.
    service.stack.clock.advance(DAY_MS / 24);
    dispatch_records(&service.stack, &records).await;
    service.append(130).await;
    assert_eq!(service.chain_length().await, 131);
    dispatch_records(&service.stack, &records).await;
    service.stack.clock.advance(DAY_MS);
    dispatch_records(&service.stack, &[records.as_slice(), records.as_slice()].concat()).await;
    assert_eq!(service.chain_length().await, 131);
}

#[tokio::test]
async fn the_rows_since_a_moment_are_those_of_later_actions_however_late_they_were_written() {
    let service = Service::without_event_sources().await;
    service.append(30).await;
    service.cancel().await;
    service.stack.clock.advance(DAY_MS);
    let moment = service.stack.clock.now();
    service.append(2).await;
    service.cancel().await;
    service.stack.clock.advance(DAY_MS);
    service.append(1).await;
    dispatch(&service.stack).await;
    let rows = audit::since(&service.store(), &service.scope().account, moment).await.unwrap();
    let actions: Vec<&str> = rows.iter().map(|row| row.action.name()).collect();
    assert_eq!(actions, ["charge.cancel", "events.replay", "events.replay", "events.replay"]);
    assert!(rows.iter().all(|row| row.at >= moment));
    let all = audit::since(&service.store(), &service.scope().account, Timestamp::MIN).await.unwrap();
    assert_eq!(all.len(), 30 + 1 + 2 + 1 + 1);
}

#[tokio::test]
async fn a_lost_response_appends_one_row() {
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    let store = service.store_behind_proxy();
    for _ in 0..3 {
        proxy.inject("PutItem", Fault::AnswerLost);
        audit::append(&store, &service.operators_row("lost")).await.unwrap();
        assert_eq!(proxy.pending_faults(), 0);
    }
    assert_eq!(service.chain_length().await, 3);

    // A newest row without a hash does not prevent further rows, and is found.
    let mut damaged = service.chain_row(3).await;
    damaged.remove("hash").unwrap();
    service.put_item(damaged).await;
    service.append(1).await;
    service.cancel().await;
    dispatch(&service.stack).await;
    let report = service.verify_chain(None).await;
    assert_eq!(report.head.sequence, 5);
    assert!(report.faults.contains(&ChainFault::Changed(3)), "{report:?}");
}

#[tokio::test]
async fn a_change_and_its_audit_row_are_one_transaction_that_is_repeated_when_the_chain_grows() {
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    // All requests read the head of the empty chain before the first of them writes.
    proxy.set_min_latency(Duration::from_millis(50));
    let mut rotations = JoinSet::new();
    for _ in 0..12 {
        let client = Client::new(&service.base_url, &service.key());
        rotations.spawn(async move { client.post("/v1/webhooks/override-secret/rotate", &json!({})).await });
    }
    let answers = rotations.join_all().await.into_iter().map(|answer| answer.expect(200));
    let shown: BTreeSet<String> =
        answers.map(|answer| answer["secret"].as_str().unwrap().to_owned()).collect();
    assert_eq!((shown.len(), service.chain_length().await), (12, 12));
    let row =
        service.secrets().get_item(&SigningSecret::key_of(&service.scope(), None)).await.unwrap().unwrap();
    assert_eq!(row["version"].as_n().unwrap(), "12");
    assert!(shown.contains(row["secret"].as_s().unwrap()));
}
