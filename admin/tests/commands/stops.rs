//! Tests of suspending an account, and of stopping new live charges of all accounts.

use domain::ids::AccountId;
use serde_json::{Value, json};

use super::*;
use crate::live_payments::Live;

impl AdminFixture {
    async fn create_live(&self, idempotency_key: &str) -> (u16, HeaderMap, Value) {
        let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": idempotency_key});
        let request = Request::post(format!("{}/v1/payments", self.stack.base_url))
            .header("apikey", &self.stack.seed.first.live_api_key)
            .header("content-type", "application/json");
        exchange(request, &body.to_string()).await
    }
}

#[tokio::test]
async fn keys_of_a_suspended_account_are_refused_while_its_running_money_finishes() {
    let live = Live::start().await;
    let (service, account) = (&live.service, live.account.as_str());
    let charge = live.charge(1000).await;
    let keys = [&service.stack.seed.first.test_api_key, &service.stack.seed.first.live_api_key];
    let statuses = async |path: &str| {
        let mut statuses = Vec::new();
        for key in keys {
            let (status, body) = service.request("GET", path, ("apikey", key)).await;
            statuses.push((status, body["error"]["type"].clone(), body["error"]["code"].clone()));
        }
        statuses
    };
    let token = service.add_owner(account).await;
    let (_, leaked) = service.request_of(&token, "POST", "/v1/api-keys").await;
    // Repeating the command changes nothing.
    for _time in 0..2 {
        assert_eq!(service.change(&format!("accounts suspend {account}")).await["suspended"], true);
    }
    let refused = (403, json!("permission_error"), json!("account_suspended"));
    assert_eq!(statuses("/v1/charges").await, [refused.clone(), refused.clone()]);
    assert_eq!(statuses("/v1/webhooks/deliveries").await[1], refused);

    live.pay(&charge, bank::PayRequest::default());
    live.merchant.advance(400).await;
    eventually("the payment is credited", async || {
        let found = service.object(&format!("charges find {}", id(&charge))).await;
        (found["status"] == "PAID").then_some(())
    })
    .await;
    let (status, refusal) = service.request_of(&token, "POST", "/v1/api-keys").await;
    assert_eq!((status, &refusal["error"]["code"]), (403, &json!("account_suspended")));
    let path = format!("/v1/api-keys/{}/rotate", id(&leaked));
    let (status, issued) = service.request_of(&token, "POST", &path).await;
    let new_key = issued["apiKey"].as_str().unwrap();
    assert_eq!((status, service.request("GET", "/v1/charges", ("apikey", new_key)).await.0), (201, 403));

    assert_eq!(service.change(&format!("accounts resume {account}")).await["suspended"], false);
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
    let shown = service.object("live-charges show").await;
    assert_eq!(shown, json!({"stopped": false, "since": null, "actor": null, "reason": null}));
    // Repeating the command changes nothing.
    for _time in 0..2 {
        let stopped = service.change("live-charges stop").await;
        assert_eq!(fields(&stopped, &["stopped", "actor"]), json!([true, "ana"]));
        assert_eq!(service.object("live-charges show").await, stopped);
    }
    live.merchant.advance(60).await;
    let (status, headers, refused) = service.create_live("order-0002").await;
    assert_eq!((status, headers["retry-after"].to_str().unwrap()), (503, "60"), "{refused}");
    assert_eq!(fields(&refused["error"], &["type", "code"]), json!(["api_error", "service_unavailable"]));
    let (status, _, replayed) = service.create_live("order-0001").await;
    assert_eq!((status, &replayed["id"]), (201, &first["id"]));
    Merchant::of(service).charge().await;

    assert_eq!(service.change("live-charges resume").await["stopped"], false);
    live.merchant.advance(60).await;
    let (status, _, created) = service.create_live("order-0002").await;
    assert_eq!(status, 201, "{created}");
    let stack = AccountId::STACK.to_string();
    assert_eq!(service.actions(&stack).await, ["live-charges.stop", "live-charges.resume"]);
    let verified = service.objects("audit verify --all").await;
    assert!(verified.iter().any(|chain| chain["account"] == stack && chain["rows"] == 2), "{verified:?}");
}
