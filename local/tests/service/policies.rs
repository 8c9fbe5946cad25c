//! Tests that the policies in template.yaml allow exactly the DynamoDB operations that the functions use. The
//! test invokes each function. The policy must allow each operation that occurs, and each allowed operation
//! must occur.

use std::collections::BTreeSet;

use axum::http::Method;
use bank::{MedNature, PayRequest};
use domain::account::terms::MethodTerms;
use domain::ids::{ChargeId, ConnectionId};
use domain::webhook::signature::canonical;
use local::embedded::fault_proxy::Report;
use local::stack::{Options, Stack};
use serde_json::json;
use serde_yaml_ng::Value;
use shared::webhook::delivery::Deliveries;

use crate::bank_med::credit;
use crate::invocations::{dispatch, run_acquirer_worker, run_webhook_worker};
use crate::support::{Client, Listener, Service, id};

fn template() -> Value {
    serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap()
}

/// Returns the statements of a function's own policies.
fn statements(template: &Value, function: &str) -> Vec<Value> {
    let policies = &template["Resources"][function]["Properties"]["Policies"];
    // A policy that is not a mapping refers to a managed policy of the template. The only one,
    // `NoAcquirerCredentials`, has only a `Deny` statement, so references are skipped.
    let policies = policies.as_sequence().unwrap().iter().filter(|policy| policy.is_mapping());
    policies.flat_map(|policy| policy["Statement"].as_sequence().unwrap().clone()).collect()
}

/// Returns the actions of a statement, each with its resource.
fn actions(statement: &Value) -> Vec<String> {
    let resources: Vec<String> = one_or_several(&statement["Resource"]).iter().map(table).collect();
    let on_each = |action: Value| {
        resources.iter().map(move |resource| format!("{} {resource}", action.as_str().unwrap())).collect()
    };
    one_or_several(&statement["Action"])
        .into_iter()
        .flat_map(|action| -> Vec<String> { on_each(action) })
        .collect()
}

/// Returns the DynamoDB actions that a function's statements allow, each with its table or index. The table
/// of secrets has a test of its own.
fn allowed(function: &str) -> BTreeSet<String> {
    let statements = statements(&template(), function);
    let actions = statements.iter().flat_map(actions);
    actions.filter(|action| action.starts_with("dynamodb:") && !action.ends_with(" SecretsTable")).collect()
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

/// Invokes the acquirer worker with the message that sweeps the local bank, as the event source does.
async fn run_sweep(stack: &Stack) {
    let worker = stack.functions.get("AcquirerWorkerFunction").unwrap().clone();
    let connection = ConnectionId::derive(&stack.bank_url, &stack.seed.bank.client_id);
    let body = json!({ "sweep": connection }).to_string();
    let answer = worker(json!({"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]}))
        .await
        .unwrap();
    assert_eq!(answer["batchItemFailures"], json!([]));
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
    // A live charge counts for the velocity guard, and its row is replaced after the bank's answer.
    let live = &service.stack.seed.first.live_api_key;
    let headers = [("idempotency-key", "order-guarded")];
    let guarded = json!({"amount": 1000, "customer": {"name": "Maria", "document": "29537995593"}});
    service.post_as(live, "/v1/pix/charges", &guarded, &headers).await.expect(201);
    let mut charges = take_used_actions();
    // Another test checks who may read secrets.
    charges.remove("dynamodb:GetItem SecretsTable");
    assert_eq!(charges, allowed("ChargesFunction"));

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
    let headers = [("idempotency-key", "order-live")];
    let live = &service.stack.seed.first.live_api_key;
    let live = service.post_as(live, "/v1/pix/charges", &json!({"amount": 1000}), &headers).await.expect(201);
    let txid = live["pix"]["txid"].as_str().unwrap().to_owned();
    let paid = service.stack.bank.pay(&PayRequest { txid, ..PayRequest::default() }).unwrap();
    take_used_actions();
    // The first sweep finds the payment, the second its devolução by MED.
    for _ in 0..2 {
        service.stack.clock.advance(10_000);
        run_sweep(&service.stack).await;
        let _returned_or_done =
            service.stack.bank.open_med_devolucao(&paid.end_to_end_id, None, MedNature::Fraud);
    }
    worker.extend(take_used_actions());
    // Another test checks who may read secrets.
    worker.remove("dynamodb:GetItem SecretsTable");
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

    let messages = service.take_queued_emails().await;
    take_used_actions();
    for message in messages {
        assert!(service.run_mailer(&message).await);
    }
    assert_eq!(take_used_actions(), allowed("MailerFunction"));

    let deliveries = service.deliveries("").await;
    take_used_actions();
    for delivery in &deliveries {
        run_webhook_worker(&service.stack, delivery).await;
    }
    let mut used = take_used_actions();
    assert!(used.remove("dynamodb:BatchGetItem SecretsTable"));
    // The worker also inserts the audit row of an endpoint that it switches off, after five days of failures.
    used.insert("dynamodb:PutItem StateTable".to_owned());
    assert_eq!(used, allowed("WebhookWorkerFunction"));

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
    for action in ["DeleteItem", "UpdateItem"] {
        assert!(webhooks.remove(&format!("dynamodb:{action} SecretsTable")), "{action}");
    }
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

#[tokio::test]
async fn the_policy_for_banks_notifications_allows_exactly_the_operations_that_they_use() {
    let service =
        Service::start_with(Options { fault_proxy: true, event_sources: false, ..Options::in_memory() })
            .await;
    let live = Client::new(&service.stack.base_url, &service.stack.seed.first.live_api_key);
    let created = live.new_charge("order-0001", &json!({"amount": 1000})).await;
    let charge: ChargeId = id(&created).parse().unwrap();
    credit(&service, charge, "E1").await;
    let path = service.new_callback_path().await;
    let account = service.scope().account;
    let callback = service.acquirers().callback_settings(&account).await.unwrap().unwrap();
    let proxy = service.stack.fault_proxy.as_ref().unwrap();
    proxy.reset();
    for pix in [
        json!([{"endToEndId": "E2"}, {}]),
        json!([{"endToEndId": "E1", "devolucoes": [{"id": "D1", "status": "DEVOLVIDO"}]}]),
    ] {
        service.raw(Method::POST, &path, &[], json!({ "pix": pix }).to_string()).await.expect(200);
    }
    // The second infraction of a charge queries its cases.
    for infraction in ["i-1", "i-2"] {
        let notice = json!({
            "notice_id": infraction, "infraction_id": infraction, "end_to_end_id": "E1", "status": "OPEN",
            "reported_at": service.stack.clock.now().to_iso(),
        });
        let body = notice.to_string();
        let now = service.stack.clock.now().seconds();
        let signature = canonical(callback.med_secret.as_secret(), now, body.as_bytes());
        let headers = [("x-signature", signature.as_str())];
        service.raw(Method::POST, &format!("{path}/med"), &headers, body).await.expect(200);
    }
    let mut used = needed(&proxy.report());
    assert!(used.remove("dynamodb:GetItem SecretsTable"));
    assert_eq!(used, allowed("BankNotificationsFunction"));
}

/// What a function may do with the table of secrets: actions, and the keys of the rows.
type RightsToSecrets = &'static [(&'static str, &'static [&'static str])];

/// The rights of each function to the table of secrets. No other function may use the table.
const USERS_OF_SECRETS: [(&str, RightsToSecrets); 6] = [
    ("AcquirerWorkerFunction", &[("GetItem", &["acquirer#*", "pix-key#*"])]),
    ("BankNotificationsFunction", &[("GetItem", &["callback#*"])]),
    ("ChargesFunction", &[("GetItem", &["acquirer#*"])]),
    ("PaymentsFunction", &[("GetItem", &["acquirer#*"])]),
    ("WebhookWorkerFunction", &[("BatchGetItem", &["endpoint-secret#*", "override-secret#*"])]),
    (
        "WebhooksFunction",
        &[
            ("DeleteItem", &["endpoint-secret#*"]),
            ("UpdateItem", &["endpoint-secret#*", "override-secret#*"]),
        ],
    ),
];

#[test]
fn each_function_may_use_only_the_secrets_that_it_needs() {
    let template = template();
    let resources = template["Resources"].as_mapping().unwrap();
    let functions = resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::Serverless::Function");
    let mut users = Vec::new();
    for (name, function) in functions {
        let name = name.as_str().unwrap();
        let mentions_secrets =
            |statement: &Value| actions(statement).iter().any(|action| action.contains("Secrets"));
        let about_secrets: Vec<Value> =
            statements(&template, name).into_iter().filter(mentions_secrets).collect();
        let variable = &function["Properties"]["Environment"]["Variables"]["SECRETS_TABLE_NAME"];
        let Some((_, rights)) = USERS_OF_SECRETS.iter().find(|(user, _)| *user == name) else {
            assert!(about_secrets.is_empty() && variable.is_null(), "{name}: {about_secrets:?}");
            continue;
        };
        assert!(!variable.is_null(), "{name}");
        let (decrypt, about_rows) = about_secrets.split_last().unwrap();
        assert_eq!(about_rows.len(), rights.len(), "{name}: {about_rows:?}");
        for (statement, (action, keys)) in about_rows.iter().zip(*rights) {
            assert_eq!(actions(statement), [format!("dynamodb:{action} SecretsTable")], "{name}");
            let mut expected = json!({"ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys}});
            if *action != "GetItem" {
                // `ForAllValues` is also true for a request without keys.
                expected["Null"] = json!({"dynamodb:LeadingKeys": "false"});
            }
            assert_eq!(serde_json::to_value(&statement["Condition"]).unwrap(), expected, "{name}");
        }
        assert_eq!(actions(decrypt), ["kms:Decrypt SecretsKey"], "{name}");
        assert!(about_secrets.iter().all(|statement| statement["Effect"] == "Allow"), "{name}");
        users.push(name.to_owned());
    }
    users.sort();
    assert_eq!(users, USERS_OF_SECRETS.map(|(name, _)| name));
}

/// Until an operator has migrated them, rows of an earlier version contain credentials in the state table.
#[test]
fn functions_that_serve_merchants_are_denied_the_former_rows_of_credentials() {
    let template = template();
    let resources = template["Resources"].as_mapping().unwrap();
    let statement =
        &template["Resources"]["NoAcquirerCredentials"]["Properties"]["PolicyDocument"]["Statement"][0];
    assert_eq!(
        (&statement["Effect"], actions(statement)),
        (&"Deny".into(), vec!["dynamodb:* StateTable".to_owned()])
    );
    assert_eq!(statement["Condition"]["ForAnyValue:StringLike"]["dynamodb:LeadingKeys"][0], "acquirer#*");
    let denied = resources.iter().filter(|(_, resource)| {
        let policies = resource["Properties"]["Policies"].as_sequence();
        let is_reference = |policy: &Value| match policy {
            Value::Tagged(tagged) => tagged.value == "NoAcquirerCredentials",
            _ => false,
        };
        policies.is_some_and(|policies| policies.iter().any(is_reference))
    });
    let mut denied: Vec<&str> = denied.map(|(name, _)| name.as_str().unwrap()).collect();
    denied.sort_unstable();
    assert_eq!(
        denied,
        [
            "AcquirerEventsFunction",
            "BankNotificationsFunction",
            "ChargesFunction",
            "MedFunction",
            "PaymentsFunction",
            "WalletsFunction",
            "WebhooksFunction",
        ]
    );
}

#[test]
fn the_table_of_secrets_has_no_stream_and_a_key_of_its_own() {
    let template = template();
    let table = &template["Resources"]["SecretsTable"]["Properties"];
    assert!(table["StreamSpecification"].is_null());
    assert_eq!(table["SSESpecification"]["SSEType"], "KMS");
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
    let parameter: Value = serde_yaml_ng::from_str("!Ref DeletionProtection").unwrap();
    assert_eq!(table["DeletionProtectionEnabled"], parameter);
    assert_eq!(template["Parameters"]["DeletionProtection"]["Default"], "true");
    assert_eq!(template["Resources"]["SecretsKey"]["Properties"]["EnableKeyRotation"], true);
}
