//! Tests of the search of the dashboard and of `admin charges find`.

use domain::shard::ShardedScope;
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::services::{SearchHit, SearchResult, search};

use crate::invocations::dispatch;
use crate::support::{Service, id};

const MARIA: &str = "29537995593";

/// Searches the first account's test scope, and checks the cost.
async fn find(service: &Service, text: &str) -> SearchResult {
    let account = Accounts::new(service.store()).find(&service.scope().account).await.unwrap().unwrap();
    let scope = ShardedScope { scope: service.scope(), shards: account.settings.shards.read };
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    proxy.reset();
    let (store, now) = (service.store_behind_proxy(), service.stack.clock.now());
    let found = search(&store, &scope, account.salt.as_bytes(), text, now).await.unwrap().unwrap();
    let report = proxy.report();
    assert!(report.requests() <= 4 && report.read_units <= 30.0, "{text}: {report:?}");
    found
}

fn ids(found: &SearchResult) -> Vec<String> {
    let id = |hit: &SearchHit| match hit {
        SearchHit::Charge(charge) => charge.id.to_string(),
        SearchHit::Payment(payment) => payment.payment_id.to_string(),
        SearchHit::Refund(refund) => refund.id.to_string(),
        SearchHit::Case(case) => case.id.to_string(),
        SearchHit::Event(event) => event.id.to_string(),
        SearchHit::Delivery(delivery) => delivery.id.to_string(),
        SearchHit::Endpoint(endpoint) => endpoint.id.to_string(),
        SearchHit::Posting(posting) => posting.id.to_string(),
        SearchHit::Payout(payout) => payout.id.to_string(),
    };
    found.hits.iter().map(id).collect()
}

#[tokio::test]
async fn a_charge_and_its_objects_are_found_by_what_a_person_pastes_within_four_requests() {
    let service = Service::without_event_sources().await;
    let endpoint = service.register_endpoint("http://127.0.0.1:9/hook", &["charge.paid"]).await;
    let customer = json!({"name": "Maria Souza", "document": MARIA, "email": "maria@example.com"});
    let body = json!({"amount": 1290, "customer": customer, "metadata": {"order_id": "4711"}});
    let charge = service.new_charge(&body).await;
    let paid = service.sandbox(&charge, "pay", &json!({})).await;
    let payment = format!("/v1/payments/{}", id(&charge).trim_start_matches("ch_"));
    let refund = json!({"amount": 300, "idempotencyKey": "refund-0001"});
    let refund = service.post(&format!("{payment}/refund"), &refund).await.expect(201);
    let case = service.sandbox_answer(&charge, "med-cases", &json!({"reason": "Golpe"})).await.expect(201);
    let foreign = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "order-0001", "customerDocument": "PT 123",
    });
    let foreign = service.post("/v1/payments", &foreign).await.expect(201);
    let other = &service.stack.seed.other.test_api_key;
    service
        .post_as(other, "/v1/pix/charges", &body, &[("idempotency-key", "order-of-other")])
        .await
        .expect(201);
    dispatch(&service.stack).await;
    let delivery = service.deliveries("").await.remove(0);
    let event = service.get("/v1/events?type=charge.paid").await.expect(200)["data"][0].clone();
    let movement = service.get("/v1/wallets/transactions").await.expect(200)["data"][0].clone();

    let txid = charge["pix"]["txid"].as_str().unwrap();
    let end_to_end_id = paid["settlement"]["end_to_end_id"].as_str().unwrap();
    for text in [
        id(&charge),
        id(&charge).trim_start_matches("ch_"),
        txid,
        &txid.to_uppercase(),
        end_to_end_id,
        MARIA,
        "295.379.955-93",
        " maria@EXAMPLE.com ",
        "12,90",
        "4711",
    ] {
        let found = find(&service, text).await;
        assert_eq!((ids(&found), found.has_more), (vec![id(&charge).to_owned()], false), "{text}");
    }
    let found = find(&service, "PT 123").await;
    assert_eq!(ids(&found), [format!("ch_{}", id(&foreign))]);
    for object in [&refund, &case, &endpoint, &delivery, &movement] {
        assert_eq!(ids(&find(&service, id(object)).await), [id(object)]);
    }
    let found = find(&service, id(&event)).await;
    assert!(matches!(found.hits.as_slice(), [SearchHit::Event(_)]), "{found:?}");
    for text in ["4712", "Maria Souza", "1,00", "52998224725", "req_1", "E00000000202611211000abcdefghijk"] {
        assert_eq!(ids(&find(&service, text).await), Vec::<String>::new(), "{text}");
    }
}

#[tokio::test]
async fn an_object_of_another_account_is_not_found_and_a_long_result_is_cut() {
    let service = Service::without_event_sources().await;
    let other = &service.stack.seed.other.test_api_key;
    let body = json!({"amount": 1290, "metadata": {"pedido": "4711"}});
    let headers = [("idempotency-key", "order-of-other")];
    let foreign = service.post_as(other, "/v1/pix/charges", &body, &headers).await.expect(201);
    for _ in 0..30 {
        service.new_charge(&body).await;
    }
    dispatch(&service.stack).await;
    let foreign: &Value = &foreign;
    for text in [id(foreign), foreign["pix"]["txid"].as_str().unwrap()] {
        assert!(find(&service, text).await.hits.is_empty(), "{text}");
    }
    for text in ["4711", "12,90"] {
        let found = find(&service, text).await;
        assert_eq!((found.hits.len(), found.has_more), (25, true), "{text}");
    }
}
