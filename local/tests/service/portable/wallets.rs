//! The routes of the function `wallets`.

use serde_json::json;

use super::{Portable, Routes};
use crate::support::{eventually, id};

pub(super) const ROUTES: &Routes = &[
    ("GET /v1/wallets", &[200, 400, 401]),
    ("GET /v1/wallets/balance", &[200, 400, 401]),
    ("GET /v1/wallets/transactions", &[200, 400, 401]),
];

#[tokio::test]
async fn wallets_answer_with_every_status() {
    let service = Portable::start().await;
    let charge = service.paid_charge().await;
    let wallets = service.call("GET /v1/wallets").send().await.expect(200);
    assert!(wallets.as_array().unwrap().iter().any(|wallet| wallet["currency"] == "BRL"), "{wallets}");
    let balance = service.call("GET /v1/wallets/balance").send().await.expect(200);
    let sum = balance["available"].as_i64().unwrap() + balance["pending"].as_i64().unwrap();
    assert_eq!(balance["total"], json!(sum));
    eventually("the settlement is in the statement", async || {
        let page = service.call("GET /v1/wallets/transactions").query("limit=100").send().await.expect(200);
        let movements = page["data"].as_array().unwrap();
        movements.iter().find(|movement| movement.to_string().contains(id(&charge))).cloned()
    })
    .await;
    service.refuse(ROUTES, |_| String::new()).await;
    service.check_statuses(ROUTES);
}
