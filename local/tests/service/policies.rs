//! What the functions may do in a stack (template.yaml) is what they do: every DynamoDB operation that a request or an
//! event causes here is one that its function's policy allows there, and none is allowed that is not used.

use std::collections::BTreeSet;

use axum::http::Method;
use domain::account::terms::MethodTerms;
use local::embedded::fault_proxy::Report;
use local::stack::Options;
use serde_json::json;
use serde_yaml_ng::Value;
use shared::webhook::delivery::Deliveries;

use crate::budgets::{ask_acquirer, dispatch, work};
use crate::support::{Listener, Service, id};

/// The DynamoDB actions that a function's statements allow, each with the table or index that it is for.
fn allowed(function: &str) -> BTreeSet<String> {
    let template: Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let policies = &template["Resources"][function]["Properties"]["Policies"];
    let mut actions = BTreeSet::new();
    // A managed policy, which is named, only denies.
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

/// The name of a resource's table, with its index: of `!GetAtt X.Arn` and `!Sub ${X.Arn}/index/y`.
fn table(resource: &Value) -> String {
    let text = match resource {
        Value::Tagged(tagged) => tagged.value.as_str().unwrap(),
        other => other.as_str().unwrap(),
    };
    text.replace("${", "").replace('}', "").replace(".Arn", "")
}

/// The actions that requests need.
fn needed(report: &Report) -> BTreeSet<String> {
    report.actions.iter().map(|action| format!("dynamodb:{action}")).collect()
}

#[tokio::test]
async fn a_function_is_allowed_what_it_does_and_nothing_else() {
    let service =
        Service::with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() }).await;
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    let used = || {
        let needed = needed(&proxy.report());
        proxy.reset();
        needed
    };
    let listener = Listener::start().await;
    service.register(&listener.url, &["charge.created", "charge.paid"]).await;
    service.get("/v1/webhooks/endpoints").await.expect(200);
    used();

    let charge = service.charge().await;
    let locked =
        json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": "29537995593"});
    let held = service.charge_of(&locked).await;
    service.read(&charge).await;
    for query in ["", "?status=pending", "?customer_id=29537995593"] {
        service.get(&format!("/v1/charges{query}")).await.expect(200);
    }
    assert_eq!(used(), allowed("ChargesFunction"));

    service.sandbox(&charge, "pay", &json!({})).await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    service.sandbox(&held, "review", &json!({"decision": "return"})).await;
    for what in ["fail", "expire"] {
        let charge = service.charge().await;
        used();
        service.sandbox(&charge, what, &json!({})).await;
    }
    service.sandbox(&charge, "pay", &json!({})).await;
    assert_eq!(used(), allowed("AcquirerEventsFunction"));

    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "k"});
    let payment = service.post("/v1/payments", &body).await.expect(201);
    service.get(&format!("/v1/payments/{}", id(&payment))).await.expect(200);
    service.post(&format!("/v1/payments/{}/cancel", id(&payment)), &json!({})).await.expect(200);
    let held = service.charge_of(&locked).await;
    service.sandbox(&held, "pay", &json!({"payer_tax_id": null})).await;
    used();
    service.get(&format!("/v1/payments/{}", id(&held))).await.expect(200);
    service.post(&format!("/v1/payments/{}/cancel", id(&held)), &json!({})).await.expect(200);
    let body = json!({"amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "l"});
    service.post("/v1/payments", &body).await.expect(201);
    let mut payments = used();
    // A refund of held money whose day has come.
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let held = service.charge_of(&json!({"amount": 100_000})).await;
    service.sandbox(&held, "pay", &json!({})).await;
    service.set_terms(MethodTerms::default()).await;
    service.stack.clock.advance(2 * 86_400_000);
    used();
    let raw = id(&held).trim_start_matches("ch_");
    let body = json!({"idempotencyKey": "refund-01"});
    let refund = service.post(&format!("/v1/payments/{raw}/refund"), &body).await.expect(201);
    service.get(&format!("/v1/payments/{raw}/refunds")).await.expect(200);
    service.get("/v1/payments").await.expect(200);
    service.get("/v1/payments?status=REFUSED").await.expect(200);
    service.get("/v1/payments/stats").await.expect(200);
    service.post(&format!("/v1/payments/{raw}/resend-webhook"), &json!({})).await.expect(200);
    payments.extend(used());
    assert_eq!(payments, allowed("PaymentsFunction"));

    ask_acquirer(&service, &refund).await;
    service.stack.clock.advance(3_000);
    ask_acquirer(&service, &refund).await;
    let refunds = service.get(&format!("/v1/payments/{raw}/refunds")).await.expect(200);
    assert_eq!(refunds["data"][0]["status"], "REFUNDED");
    let mut worker = used();
    // The test's own reading.
    worker.remove("dynamodb:Query StateTable");
    worker.remove("dynamodb:UpdateItem ApiKeysTable");
    assert_eq!(worker, allowed("AcquirerWorkerFunction"));
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "m", "webhookUrl": listener.url,
    });
    service.post("/v1/payments", &body).await.expect(201);
    used();

    let contested = service.charge().await;
    service.sandbox(&contested, "pay", &json!({})).await;
    let case = service.sandbox_answer(&contested, "med-cases", &json!({})).await.expect(201);
    used();
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
    assert_eq!(used(), allowed("MedFunction"));

    service.get("/v1/wallets").await.expect(200);
    service.get("/v1/wallets/balance?currency=BRL").await.expect(200);
    service.get("/v1/wallets/transactions").await.expect(200);
    assert_eq!(used(), allowed("WalletsFunction"));

    service.raw(Method::GET, charge["checkout_url"].as_str().unwrap(), &[], "").await;
    service.raw(Method::GET, charge["pix"]["qr_code_url"].as_str().unwrap(), &[], "").await;
    assert_eq!(used(), allowed("CheckoutFunction"));

    let gone = service.register(&listener.url, &["charge.paid"]).await;
    service.delete(&format!("/v1/webhooks/endpoints/{}", id(&gone))).await.expect(200);
    used();
    dispatch(&service).await;
    // What it began comes through the stream again.
    dispatch(&service).await;
    assert_eq!(used(), allowed("EventDispatcherFunction"));

    let message = service.emails().await.remove(0);
    used();
    assert!(service.tell(&message).await);
    assert_eq!(used(), allowed("MailerFunction"));

    let deliveries = service.deliveries("").await;
    used();
    for delivery in &deliveries {
        work(&service, delivery).await;
    }
    assert_eq!(used(), allowed("WebhookWorkerFunction"));

    let seed = &service.stack.seed;
    let token = format!("Bearer {}", seed.owner_token(&seed.first, service.stack.clock.now()).unwrap());
    let desk = [("authorization", token.as_str())];
    let issued = service.raw(Method::POST, "/v1/api-keys", &desk, "").await.expect(201);
    let rotate = format!("/v1/api-keys/{}/rotate", id(&issued));
    let rotated = service.raw(Method::POST, &rotate, &desk, "").await.expect(201);
    service.raw(Method::DELETE, &format!("/v1/api-keys/{}", id(&rotated)), &desk, "").await.expect(200);
    service.raw(Method::GET, "/v1/api-keys", &desk, "").await.expect(200);
    let credentials = json!({"email": seed.first.owner_email, "password": seed.first.password});
    service.post("/v1/auth/login", &credentials).await.expect(200);
    assert_eq!(service.raw(Method::POST, "/v1/auth/logout", &desk, "").await.status, 204);
    assert_eq!(used(), allowed("ApiKeysFunction"));

    let mut webhooks = BTreeSet::new();
    let endpoint = service.register(&listener.url, &["charge.created"]).await;
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
    webhooks.extend(used());
    assert_eq!(webhooks, allowed("WebhooksFunction"));

    // One row of each kind that becomes due: a charge, a tranche of held money, a delivery whose message was lost, an abandonment,
    // and the count of those that are done.
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let held = service.charge().await;
    service.sandbox(&held, "pay", &json!({})).await;
    service.stack.clock.advance(86_400_000);
    let waiting = service.charge_of(&json!({"amount": 1000, "expires_in": 60})).await;
    dispatch(&service).await;
    let deliveries = Deliveries::new(service.store());
    deliveries.schedule_counting(&service.scope(), service.stack.clock.now()).await.unwrap();
    service.stack.clock.advance(300_000);
    used();
    let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
    let answer = scheduler(json!({})).await.unwrap();
    assert!(answer["moved"].as_u64().unwrap() >= 3, "{answer}");
    assert_eq!(used(), allowed("SchedulerFunction"));
    assert_eq!(service.read(&waiting).await["status"], "expired", "{}", id(&waiting));
}
