//! Tests that the policies in template.yaml allow exactly the DynamoDB operations that the functions use. The
//! test invokes each function. The policy must allow each operation that occurs, and each allowed operation
//! must occur.

use std::collections::BTreeSet;

use axum::http::Method;
use domain::account::terms::MethodTerms;
use local::embedded::fault_proxy::Report;
use local::stack::Options;
use serde_json::json;
use serde_yaml_ng::Value;
use shared::webhook::delivery::Deliveries;

use crate::invocations::{dispatch, run_acquirer_worker, run_webhook_worker};
use crate::support::{Listener, Service, id};

/// Returns the DynamoDB actions that a function's statements allow, each with its table or index.
fn allowed(function: &str) -> BTreeSet<String> {
    let template: Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let policies = &template["Resources"][function]["Properties"]["Policies"];
    let mut actions = BTreeSet::new();
    // A policy that is not a mapping refers to a managed policy of the template. The only one,
    // `NoAcquirerCredentials`, has only a `Deny` statement, so references are skipped.
    for policy in policies.as_sequence().unwrap().iter().filter(|policy| policy.is_mapping()) {
        for statement in policy["Statement"].as_sequence().unwrap() {
            for action in one_or_several(&statement["Action"]) {
                for resource in one_or_several(&statement["Resource"]) {
                    actions.insert(format!("{} {}", action.as_str().unwrap(), table(&resource)));
                }
            }
        }
    }
    actions.into_iter().filter(|action| action.starts_with("dynamodb:")).collect()
}

fn one_or_several(value: &Value) -> Vec<Value> {
    value.as_sequence().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// Returns the table, and the index if there is one, of a resource: `X` of `!GetAtt X.Arn`, and `X/index/y`
/// of `!Sub ${X.Arn}/index/y`.
fn table(resource: &Value) -> String {
    let text = match resource {
        Value::Tagged(tagged) => tagged.value.as_str().unwrap(),
        other => other.as_str().unwrap(),
    };
    text.replace("${", "").replace('}', "").replace(".Arn", "")
}

/// Returns the DynamoDB actions that the reported requests need.
fn needed(report: &Report) -> BTreeSet<String> {
    report.actions.iter().map(|action| format!("dynamodb:{action}")).collect()
}

#[tokio::test]
async fn each_functions_policy_allows_exactly_the_operations_that_it_uses() {
    let service =
        Service::start_with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() })
            .await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    let take_used_actions = || {
        let needed = needed(&proxy.report());
        proxy.reset();
        needed
    };
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    service.get("/v1/webhooks/endpoints").await.expect(200);
    take_used_actions();

    let charge = service.charge().await;
    // If the bank does not report the payer's document, the payment of this charge is held for review.
    let locked =
        json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": "29537995593"});
    let held = service.new_charge(&locked).await;
    service.get_charge(&charge).await;
    for query in ["", "?status=pending", "?customer_id=29537995593"] {
        service.get(&format!("/v1/charges{query}")).await.expect(200);
    }
    assert_eq!(take_used_actions(), allowed("ChargesFunction"));

    service.sandbox(&charge, "pay", &json!({})).await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    service.sandbox(&held, "review", &json!({"decision": "return"})).await;
    for action in ["fail", "expire"] {
        let charge = service.charge().await;
        take_used_actions();
        service.sandbox(&charge, action, &json!({})).await;
    }
    service.sandbox(&charge, "pay", &json!({})).await;
    assert_eq!(take_used_actions(), allowed("AcquirerEventsFunction"));

    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "k"});
    let payment = service.post("/v1/payments", &body).await.expect(201);
    service.get(&format!("/v1/payments/{}", id(&payment))).await.expect(200);
    service.post(&format!("/v1/payments/{}/cancel", id(&payment)), &json!({})).await.expect(200);
    let held = service.new_charge(&locked).await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    take_used_actions();
    service.get(&format!("/v1/payments/{}", id(&held))).await.expect(200);
    service.post(&format!("/v1/payments/{}/cancel", id(&held)), &json!({})).await.expect(200);
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "l"});
    service.post("/v1/payments", &body).await.expect(201);
    let mut payments = take_used_actions();
    // A refund of held money after its release day also releases the money's tranche, which takes further
    // operations.
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let settled = service.new_charge(&json!({"amount": 100_000})).await;
    service.sandbox(&settled, "pay", &json!({})).await;
    service.set_terms(MethodTerms::default()).await;
    service.stack.clock.advance(2 * 86_400_000);
    take_used_actions();
    let raw = id(&settled).trim_start_matches("ch_");
    let body = json!({"idempotencyKey": "refund-01"});
    let refund = service.post(&format!("/v1/payments/{raw}/refund"), &body).await.expect(201);
    service.get(&format!("/v1/payments/{raw}/refunds")).await.expect(200);
    service.get("/v1/payments").await.expect(200);
    service.get("/v1/payments?status=REFUSED").await.expect(200);
    service.get("/v1/payments/stats").await.expect(200);
    service.post(&format!("/v1/payments/{raw}/resend-webhook"), &json!({})).await.expect(200);
    payments.extend(take_used_actions());
    assert_eq!(payments, allowed("PaymentsFunction"));

    run_acquirer_worker(&service.stack, &refund).await;
    service.stack.clock.advance(3_000);
    run_acquirer_worker(&service.stack, &refund).await;
    let refunds = service.get(&format!("/v1/payments/{raw}/refunds")).await.expect(200);
    assert_eq!(refunds["data"][0]["status"], "REFUNDED");
    let mut worker = take_used_actions();
    // These two are operations of the test's own request for the refunds, not of the worker.
    worker.remove("dynamodb:Query StateTable");
    worker.remove("dynamodb:UpdateItem ApiKeysTable");
    assert_eq!(worker, allowed("AcquirerWorkerFunction"));
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "m", "webhookUrl": listener.url,
    });
    service.post("/v1/payments", &body).await.expect(201);
    take_used_actions();

    let contested = service.charge().await;
    service.sandbox(&contested, "pay", &json!({})).await;
    let case = service.sandbox_answer(&contested, "med-cases", &json!({})).await.expect(201);
    take_used_actions();
    let path = format!("/v1/med/cases/{}", id(&case));
    service.get(&path).await.expect(200);
    for query in ["", "?status=open", "?type=med", "?charge_id=ch_00000000-0000-8000-8000-000000000000"] {
        service.get(&format!("/v1/med/cases{query}")).await.expect(200);
    }
    let body = json!({"file_name": "a.gif", "file_size": 6, "mime_type": "image/gif"});
    let ticket = service.post(&format!("{path}/evidence"), &body).await.expect(201);
    let url = ticket["upload_url"].as_str().unwrap();
    service.raw(Method::PUT, url, &[("content-type", "image/gif")], "GIF89a").await;
    service.post(&format!("{path}/evidence/{}/complete", id(&ticket)), &json!({})).await.expect(200);
    service.get(&format!("{path}/evidence")).await.expect(200);
    service.post(&format!("{path}/accept"), &json!({})).await.expect(200);
    assert_eq!(take_used_actions(), allowed("MedFunction"));

    service.get("/v1/wallets").await.expect(200);
    service.get("/v1/wallets/balance?currency=BRL").await.expect(200);
    service.get("/v1/wallets/transactions").await.expect(200);
    assert_eq!(take_used_actions(), allowed("WalletsFunction"));

    service.raw(Method::GET, charge["checkout_url"].as_str().unwrap(), &[], "").await;
    service.raw(Method::GET, charge["pix"]["qr_code_url"].as_str().unwrap(), &[], "").await;
    assert_eq!(take_used_actions(), allowed("CheckoutFunction"));

    let deleted = service.register_endpoint(&listener.url, &["charge.paid"]).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&deleted))).await.expect(200);
    take_used_actions();
    dispatch(&service.stack).await;
    // The first dispatch ran a step of the deleted endpoint's abandonment and updated its row. The stream
    // record of that update makes the second dispatch run the next step.
    dispatch(&service.stack).await;
    assert_eq!(take_used_actions(), allowed("EventDispatcherFunction"));

    let message = service.take_queued_emails().await.remove(0);
    take_used_actions();
    assert!(service.run_mailer(&message).await);
    assert_eq!(take_used_actions(), allowed("MailerFunction"));

    let deliveries = service.deliveries("").await;
    take_used_actions();
    for delivery in &deliveries {
        run_webhook_worker(&service.stack, delivery).await;
    }
    assert_eq!(take_used_actions(), allowed("WebhookWorkerFunction"));

    let seed = &service.stack.seed;
    let token = format!("Bearer {}", seed.owner_token(&seed.first, service.stack.clock.now()).unwrap());
    let dashboard = [("authorization", token.as_str())];
    let issued = service.raw(Method::POST, "/v1/api-keys", &dashboard, "").await.expect(201);
    let rotate = format!("/v1/api-keys/{}/rotate", id(&issued));
    let rotated = service.raw(Method::POST, &rotate, &dashboard, "").await.expect(201);
    service.raw(Method::DELETE, &format!("/v1/api-keys/{}", id(&rotated)), &dashboard, "").await.expect(200);
    service.raw(Method::GET, "/v1/api-keys", &dashboard, "").await.expect(200);
    let credentials = json!({"email": seed.first.owner_email, "password": seed.first.password});
    service.post("/v1/auth/login", &credentials).await.expect(200);
    assert_eq!(service.raw(Method::POST, "/v1/auth/logout", &dashboard, "").await.status, 204);
    assert_eq!(take_used_actions(), allowed("ApiKeysFunction"));

    let mut webhooks = BTreeSet::new();
    let endpoint = service.register_endpoint(&listener.url, &["charge.created"]).await;
    let path = format!("/v1/webhooks/endpoints/{}", id(&endpoint));
    service.patch(&path, &json!({"events": ["charge.paid"]})).await.expect(200);
    service.post(&format!("{path}/test"), &json!({})).await.expect(200);
    service.delete(&path).await.expect(200);
    let resend = format!("/v1/webhooks/deliveries/{}/resend", id(&deliveries[0]));
    service.post(&resend, &json!({})).await.expect(200);
    service.get("/v1/webhooks/endpoints").await.expect(200);
    service.deliveries("").await;
    service.get("/v1/events").await.expect(200);
    service.get(&format!("/v1/events?object={}", id(&charge))).await.expect(200);
    service.post("/v1/webhooks/override-secret/rotate", &json!({})).await.expect(200);
    webhooks.extend(take_used_actions());
    assert_eq!(webhooks, allowed("WebhooksFunction"));

    // Makes rows of five kinds due: a charge, a tranche of held money, a delivery whose message was lost, an
    // abandonment and a scope's delivery count. One run of the scheduler processes all of them.
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let settled = service.charge().await;
    service.sandbox(&settled, "pay", &json!({})).await;
    service.stack.clock.advance(86_400_000);
    let waiting = service.new_charge(&json!({"amount": 1000, "expires_in": 60})).await;
    dispatch(&service.stack).await;
    let deliveries = Deliveries::new(service.store());
    deliveries.schedule_counting(&service.scope(), service.stack.clock.now()).await.unwrap();
    service.stack.clock.advance(300_000);
    take_used_actions();
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    let answer = scheduler(json!({})).await.unwrap();
    assert!(answer["moved"].as_u64().unwrap() >= 3, "{answer}");
    assert_eq!(take_used_actions(), allowed("SchedulerFunction"));
    assert_eq!(service.get_charge(&waiting).await["status"], "expired", "{}", id(&waiting));
}
