//! Tests of the parser, and of the parts of authentication and logging that need no table.

use std::io;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;
use serde_json::value::RawValue;
use tower::ServiceExt;
use tracing_subscriber::layer::SubscriberExt;

use super::items::{self, Item};
use super::*;

const E2E: &str = "E12345678202611211000abcdef12345";

/// Returns the items that can be parsed, and the number of the others.
fn parsed(body: &serde_json::Value) -> (Vec<Item>, usize) {
    let body = body.to_string();
    let raw = items::parse(body.as_bytes()).unwrap();
    let good: Vec<Item> = raw.iter().filter_map(|raw| Item::parse(raw)).collect();
    let bad = raw.len() - good.len();
    (good, bad)
}

#[test]
fn an_item_needs_only_an_end_to_end_id() {
    let (items, bad) = parsed(&json!({"pix": [
        {"endToEndId": E2E},
        {"endToEndId": "E1", "txid": "7yae9dvt35gsbaah14xwynj30v", "valor": "1.00", "componentesValor": {}},
        {"endToEndId": "E2", "txid": "not a txid", "devolucoes": "none"},
        {"endToEndId": "E3", "txid": 7, "devolucoes": [
            {"id": "D1", "status": "EM_PROCESSAMENTO"}, {"id": "D2", "status": "DEVOLVIDO", "valor": "1.00"},
            {"id": "D3", "status": "NAO_REALIZADO"}, {"status": "DEVOLVIDO"}, {"id": "D-4", "status": "DEVOLVIDO"}, 5,
        ]},
    ]}));
    assert_eq!(bad, 0);
    let lines = items.iter().map(|item| {
        let returns = item.final_returns.iter().map(|(id, status)| format!(" {id} {status}"));
        format!("{} {:?}{}", item.end_to_end_id, item.txid, returns.collect::<String>())
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    E12345678202611211000abcdef12345 None
    E1 Some("7yae9dvt35gsbaah14xwynj30v")
    E2 None
    E3 None D2 DEVOLVIDO D3 NAO_REALIZADO
    "#);
}

#[test]
fn an_item_without_a_valid_end_to_end_id_is_bad_and_the_others_remain() {
    let bad = [
        json!(null),
        json!("E1"),
        json!([]),
        json!({}),
        json!({"endToEndId": ""}),
        json!({"endToEndId": 5}),
        json!({"endToEndId": "E 1"}),
        json!({"endToEndId": "E".repeat(65)}),
    ];
    let mut all = bad.to_vec();
    all.insert(3, json!({"endToEndId": "E1"}));
    let (good, count) = parsed(&json!({ "pix": all }));
    assert_eq!((good.len(), count), (1, bad.len()));
    let repeated = RawValue::from_string(r#"{"endToEndId": "E1", "endToEndId": "E2"}"#.to_owned()).unwrap();
    assert_eq!(Item::parse(&repeated), None);
}

#[test]
fn items_about_one_pix_are_merged() {
    let (items, _) = parsed(&json!({"pix": [
        {"endToEndId": "E1", "devolucoes": [{"id": "D1", "status": "DEVOLVIDO"}]},
        {"endToEndId": "E1", "txid": "abc", "devolucoes": [{"id": "D2", "status": "DEVOLVIDO"}]},
    ]}));
    let [mut first, second] = <[Item; 2]>::try_from(items).unwrap();
    first.merge(second);
    assert_eq!((first.txid.as_deref(), first.final_returns.len()), (Some("abc"), 2));
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends requests that are refused before any table is read. Returns their statuses and the log.
async fn log_of(requests: &[(Method, &str)]) -> (Vec<u16>, String) {
    let var = |name: &str| match name {
        "AWS_ENDPOINT_URL_DYNAMODB" => Some("http://127.0.0.1:1".to_owned()),
        _ => Some("x".to_owned()),
    };
    let bank = BankNotifications::from_vars(&Aws::from_vars(&var).unwrap(), Clock::default(), &var).unwrap();
    let router = router(bank);
    let output = Output::default();
    let writer = output.clone();
    let lines = tracing_subscriber::fmt::layer().json().with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
    let mut statuses = Vec::new();
    for (method, path) in requests {
        let request = Request::builder().method(method).uri(*path).body(Body::from("{}")).unwrap();
        statuses.push(router.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    (statuses, text)
}

#[tokio::test]
async fn the_log_contains_the_route_and_never_the_token() {
    let token = "5ec2e7";
    let account = format!("/v1/acquirer-events/not-an-account/{token}");
    let (statuses, log) = log_of(&[
        (Method::POST, &account),
        (Method::POST, &format!("{account}/pix?hmac={token}")),
        (Method::GET, &account),
        (Method::POST, &format!("{account}/other")),
    ])
    .await;
    assert_eq!(statuses, [401, 401, 404, 404]);
    assert!(!log.contains(token), "{log}");
    let requests: Vec<String> = log
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| line["fields"][name].to_string();
            format!("{} {} {}", field("method"), field("route"), field("status"))
        })
        .collect();
    assert_eq!(
        requests,
        [
            r#""POST" "/v1/acquirer-events/{account}/{token}" 401"#,
            r#""POST" "/v1/acquirer-events/{account}/{token}/pix" 401"#,
            r#""GET" "/v1/acquirer-events/{account}/{token}" 404"#,
            r#""POST" "(no route)" 404"#,
        ]
    );
}
