//! Tests of suspending an account, and of stopping new live charges of all accounts.

use domain::ids::AccountId;
use serde_json::{Value, json};

use super::*;
use crate::live_payments::Live;

const WHY: [&str; 2] = ["--reason", "suspected fraud"];

impl AdminFixture {
    async fn create_live(&self, idempotency_key: &str) -> (u16, Option<u64>, Value) {
        let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": idempotency_key});
        let request = Request::post(format!("{}/v1/payments", self.stack.base_url))
            .header("apikey", &self.stack.seed.first.live_api_key)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let answer = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>().request(request).await;
        let answer = answer.unwrap();
        let retry = answer.headers().get("retry-after").map(|seconds| seconds.to_str().unwrap());
        let (status, retry) = (answer.status().as_u16(), retry.map(|seconds| seconds.parse().unwrap()));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, retry, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn keys_of_a_suspended_account_are_refused_while_its_running_money_finishes() {
    let live = Live::start().await;
    let (service, account) = (&live.service, live.account.as_str());
    let charge = live.charge(1000).await;
    let id = charge["id"].as_str().unwrap();
    let keys = [&service.stack.seed.first.test_api_key, &service.stack.seed.first.live_api_key];
    let statuses = async |path: &str| {
        let mut statuses = Vec::new();
        for key in keys {
            let (status, body) = service.request("GET", path, ("apikey", key)).await;
            statuses.push((status, body["error"]["type"].clone(), body["error"]["code"].clone()));
        }
        statuses
    };
    // Repeating the command changes nothing.
    for _time in 0..2 {
        let suspend = [&["accounts", "suspend", account], &WHY[..]].concat();
        assert_eq!(service.object(&suspend).await["suspended"], true);
    }
    let refused = (403, json!("permission_error"), json!("account_suspended"));
    assert_eq!(statuses("/v1/charges").await, [refused.clone(), refused.clone()]);
    assert_eq!(statuses("/v1/webhooks/deliveries").await[1], refused);

    live.pay(&charge, bank::PayRequest::default());
    live.advance(400).await;
    eventually("the payment is credited", async || {
        let found = service.object(&["charges", "find", id]).await;
        (found["status"] == "PAID").then_some(())
    })
    .await;
    let add = ["users", "add", account, "--email", "eva@loja.example", "--role", "owner"];
    let user = service.object(&[&add[..], &WHY].concat()).await;
    let token = service.log_in("eva@loja.example", user["password"].as_str().unwrap()).await.unwrap();
    let bearer = format!("Bearer {token}");
    let (status, issued) = service.request("POST", "/v1/api-keys", ("authorization", &bearer)).await;
    let new_key = issued["apiKey"].as_str().unwrap();
    assert_eq!((status, service.request("GET", "/v1/charges", ("apikey", new_key)).await.0), (201, 403));

    let resume = [&["accounts", "resume", account], &WHY[..]].concat();
    assert_eq!(service.object(&resume).await["suspended"], false);
    assert_eq!(
        statuses("/v1/charges").await.iter().map(|(status, ..)| *status).collect::<Vec<_>>(),
        [200; 2]
    );
    assert_eq!(service.request("GET", "/v1/charges", ("apikey", new_key)).await.0, 200);
    let actions = live.actions(account).await;
    let own: Vec<&String> = actions.iter().filter(|action| action.contains("su")).collect();
    assert_eq!(own, ["account.suspend", "account.resume"]);
}

#[tokio::test]
async fn new_live_charges_are_stopped_within_a_minute_and_replays_are_answered() {
    let live = Live::start().await;
    let service = &live.service;
    let (status, _, first) = service.create_live("order-0001").await;
    assert_eq!(status, 201, "{first}");
    let shown = service.object(&["live-charges", "show"]).await;
    assert_eq!(shown, json!({"stopped": false, "since": null, "actor": null, "reason": null}));
    // Repeating the command changes nothing.
    for _time in 0..2 {
        let stopped = service.object(&[&["live-charges", "stop"], &WHY[..]].concat()).await;
        assert_eq!((&stopped["stopped"], &stopped["actor"]), (&json!(true), &json!("ana")));
        assert_eq!(service.object(&["live-charges", "show"]).await, stopped);
    }
    live.advance(60).await;
    let (status, retry, refused) = service.create_live("order-0002").await;
    assert_eq!((status, retry), (503, Some(60)), "{refused}");
    assert_eq!(
        (&refused["error"]["type"], &refused["error"]["code"]),
        (&json!("api_error"), &json!("service_unavailable"))
    );
    let (status, _, replayed) = service.create_live("order-0001").await;
    assert_eq!((status, &replayed["id"]), (201, &first["id"]));
    Merchant::of(service).send("POST", "/v1/pix/charges", json!({"amount": 1000})).await;

    let resumed = service.object(&[&["live-charges", "resume"], &WHY[..]].concat()).await;
    assert_eq!(resumed["stopped"], false);
    live.advance(60).await;
    let (status, _, created) = service.create_live("order-0002").await;
    assert_eq!(status, 201, "{created}");
    let stack = AccountId::STACK.to_string();
    let audit = service.objects(&["audit", &stack]).await;
    let actions: Vec<&str> = audit.iter().rev().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["live-charges.stop", "live-charges.resume"]);
    let verified = service.objects(&["audit", "verify", "--all"]).await;
    assert!(verified.iter().any(|chain| chain["account"] == stack && chain["rows"] == 2), "{verified:?}");
}
