//! Tests of `admin customers erase`.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;

use super::*;

const MARIA: &str = "29537995593";

/// Returns whether any row of the state table contains a text. Events are compressed, so they are read by the
/// API.
async fn is_stored(service: &AdminFixture, text: &str) -> bool {
    let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
    let mut after = None;
    loop {
        let page =
            client.scan().table_name("StateTable").set_exclusive_start_key(after).send().await.unwrap();
        let is_event = |row: &std::collections::HashMap<String, AttributeValue>| {
            row["pk"].as_s().unwrap().starts_with("events#")
        };
        if page.items().iter().filter(|row| !is_event(row)).any(|row| format!("{row:?}").contains(text)) {
            return true;
        }
        after = page.last_evaluated_key;
        if after.is_none() {
            return false;
        }
    }
}

#[tokio::test]
async fn a_customers_data_is_erased_from_finished_charges_once_and_records_of_payments_stay() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let customer = json!({
        "name": "Maria Souza", "document": MARIA, "email": "maria.souza@example.com", "phone": "+5581988887777",
    });
    let body = json!({
        "amount": 1000, "customer": customer, "description": "Vestido da Maria", "metadata": {"pedido": "Souza-17"},
    });
    let of_user = json!({
        "amount": 1000, "currency": "BRL", "paymentMethods": ["PIX"], "customerId": "user-7",
        "idempotencyKey": "user-7-1",
    });
    let of_user = merchant.post("/v1/payments", of_user).await;
    let create = async || merchant.post("/v1/pix/charges", body.clone()).await;
    let (open, paid, expired) = (create().await, create().await, create().await);
    merchant.sandbox(&paid, "pay", json!({"payer_tax_id": MARIA, "payer_name": "Maria"})).await;
    let refund = json!({"amount": 300, "reason": "Maria devolveu", "idempotencyKey": "refund-0001"});
    merchant.post(&format!("/v1/payments/{}/refund", raw_id(&paid)), refund).await;
    merchant.sandbox(&expired, "expire", json!({})).await;
    let events = async |charge: &Value| {
        merchant.get(&format!("/v1/events?limit=100&object={}", id(charge))).await.to_string()
    };
    eventually("the events are stored", async || {
        events(&expired).await.contains("charge.expired").then_some(())
    })
    .await;
    assert!(events(&expired).await.contains("Souza"));
    let lookups = async || {
        let client = local::sdk::dynamodb(&service.stack.endpoints.dynamodb_url);
        let rows = client.scan().table_name("StateTable").send().await.unwrap();
        let is_lookup = |row: &&std::collections::HashMap<String, AttributeValue>| {
            row["pk"].as_s().unwrap().starts_with("lookup#")
        };
        rows.items().iter().filter(is_lookup).count()
    };
    eventually("the lookup rows are written", async || (lookups().await == 12).then_some(())).await;

    let account = service.account();
    let erase = async |more: &str| {
        let command = format!("customers erase --document {MARIA} --account {account} --reason request-17");
        service.objects(&format!("{command} {more}")).await
    };
    let outcome = |lines: &[Value], charge: &Value| -> (String, String) {
        let line = lines.iter().find(|line| line["charge"] == charge["id"]).unwrap();
        let text_of = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (text_of("outcome"), text_of("reason"))
    };
    eventually("the refund has ended", async || {
        let shown = service.objects(&format!("charges show {}", id(&paid))).await;
        shown.iter().any(|entry| entry["what"] == "refund" && entry["state"] == "REFUNDED").then_some(())
    })
    .await;
    let dry = erase("").await;
    assert_eq!(outcome(&dry, &expired).0, "would_be_erased");
    assert_eq!(outcome(&dry, &open), ("kept".to_owned(), "the charge has not ended".to_owned()));
    let (kept, reason) = outcome(&dry, &paid);
    assert!(kept == "kept" && reason.contains("can be refunded or contested until"), "{reason}");
    assert!(events(&expired).await.contains("Souza"), "a dry run erases nothing");
    // The same charges are found without the document.
    let by = async |customer: &str| {
        let command = format!("customers erase {customer} --account {account} --reason request-17");
        let mut lines = service.objects(&command).await;
        lines.sort_by_key(ToString::to_string);
        lines
    };
    let mut sorted = dry.clone();
    sorted.sort_by_key(ToString::to_string);
    assert_eq!(by("--email MARIA.Souza@example.com").await, sorted);
    let charge = format!("ch_{}", id(&of_user));
    assert_eq!(by("--customer-id user-7").await, by(&format!("--charge {charge}")).await);
    assert_eq!(by("--customer-id user-7").await[0]["charge"], charge.as_str());
    assert!(by("--customer-id user-8").await.is_empty());
    let other = service.stack.seed.other.id;
    let command = format!("customers erase --charge {charge} --account {other} --reason request-17");
    service.refuses(&command, "of another account").await;
    service.refuses(&format!("customers erase --account {account} --reason x"), "--customer-id").await;

    assert_eq!(outcome(&erase("--apply").await, &expired).0, "erased");
    assert_eq!(
        lookups().await,
        8,
        "the erased charge is not found by its order number, its e-mail address or its name"
    );
    let read = merchant.get(&format!("/v1/charges/{}", id(&expired))).await;
    let erased = json!(["expired", {"name": null, "document": null}]);
    assert_eq!(fields(&read, &["status", "customer"]), erased);
    assert!(!events(&expired).await.contains("Souza") && !events(&expired).await.contains(MARIA));

    // 91 days later, the open charge has expired and the payment can no longer be contested.
    merchant.advance(91 * 24 * 60 * 60).await;
    eventually("the charge has expired", async || {
        let found = service.object(&format!("charges find {}", id(&open))).await;
        let lines = erase("").await;
        (found["status"] == "EXPIRED" && outcome(&lines, &open).0 == "would_be_erased").then_some(())
    })
    .await;
    let erased = erase("--apply --mode test").await;
    assert_eq!([&open, &paid].map(|charge| outcome(&erased, charge).0), ["erased", "erased"]);
    assert_eq!(lookups().await, 0);
    for personal in ["Souza", "maria.souza", "5581988887777", "Maria devolveu", "Vestido"] {
        assert!(!is_stored(&service, personal).await, "{personal}");
    }
    let paid_now = service.object(&format!("charges find {}", id(&paid))).await;
    assert_eq!(
        fields(&paid_now, &["payer_document", "customer_document", "amount"]),
        json!(["***.379.955-**", null, 1000]),
        "the bank's record of the payer is kept"
    );
    assert!(erase("--apply").await.is_empty(), "nothing is left to erase");
    service.verify_ledger("test").await;
    let audit = service.audit(&account).await;
    let erasures: Vec<&Value> = audit.iter().filter(|row| row["action"] == "customer.erase").collect();
    assert_eq!(erasures.len(), 3);
    assert!(erasures.iter().all(|row| row["reason"] == "request-17" && !row.to_string().contains(MARIA)));
}
