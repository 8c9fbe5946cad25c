//! Tests of `POST /_local/reset`.

use axum::http::Method;
use local::embedded::State;
use local::stack::Options;
use local::template::bucket_name;
use serde_json::{Value, json};

use crate::live_charges::Live;
use crate::restart::{Process, TemporaryDirectory};
use crate::support::{Client, Listener, id, wait_until};

async fn reset(client: &Client) -> Value {
    let json = [("content-type", "application/json")];
    client.raw(Method::POST, "/_local/reset", &json, "").await.expect(200)
}

/// Checks that an account has no object in any list.
async fn assert_empty(client: &Client) {
    for path in
        ["/v1/charges", "/v1/events", "/v1/webhooks/endpoints", "/v1/webhooks/deliveries", "/v1/med/cases"]
    {
        let listed = client.get(path).await.expect(200);
        assert_eq!(listed["data"], json!([]), "{path}");
    }
    let balance = client.get("/v1/wallets/balance?currency=BRL").await.expect(200);
    assert_eq!((&balance["available"], &balance["pending"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn a_reset_leaves_only_what_a_first_start_creates() {
    let directory = TemporaryDirectory::new();
    let mails = directory.0.join("mail");
    let options = Options {
        state: State::Directory(directory.0.clone()),
        mail_directory: Some(mails.clone()),
        ..Options::in_memory()
    };
    let live = Live::start_with(options).await;
    let service = &live.service;
    let stack = &service.stack;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["charge.created"]).await;
    let charge = service.pay(1_000).await;
    service.open_case(&charge, json!({})).await;
    wait_until("an e-mail", async || mails.exists()).await;
    let live_order = json!({"amount": 2_000, "customer": {"name": "Maria", "document": "29537995593"}});
    let live_charge = live.client.new_charge("order-0001", &live_order).await;
    let pay = json!({"charge_id": id(&live_charge)}).to_string();
    let json_body = [("content-type", "application/json")];
    service.raw(Method::POST, "/_local/bank/pay", &json_body, pay.clone()).await.expect(200);
    let (s3, bucket) = (local::sdk::s3(&stack.endpoints.s3_url), bucket_name("DocumentsBucket"));
    s3.put_object().bucket(&bucket).key("a/b").body(b"file".to_vec().into()).send().await.unwrap();
    let (sqs, queue) = service.queue("MailDeadLetterQueue");
    sqs.send_message().queue_url(&queue).message_body("a").send().await.unwrap();
    service.advance_seconds(90 * 86_400).await;

    let answer = reset(service).await;
    assert_eq!((&answer["offset_seconds"], stack.clock.offset_ms()), (&json!(0), 0));
    assert!(!directory.0.join("clock.json").exists());
    assert_empty(service).await;
    assert_empty(&live.client).await;
    assert!(!mails.exists());
    assert!(s3.list_objects_v2().bucket(&bucket).send().await.unwrap().contents().is_empty());
    assert!(sqs.receive_message().queue_url(&queue).send().await.unwrap().messages().is_empty());
    assert_eq!(stack.bank.snapshot()["cobs"], json!([]));

    // Keys, users and tokens from before are valid, and the bank is the account's acquirer. The idempotency key
    // belongs to no charge any more.
    let ready = stack.ready().await.unwrap();
    let log_in = json!({"email": ready["dashboard"]["email"], "password": ready["dashboard"]["password"]});
    service.raw(Method::POST, "/v1/auth/login", &json_body, log_in.to_string()).await.expect(200);
    service.register_endpoint(&listener.url, &["charge.paid"]).await;
    let charge = service.pay(700).await;
    let paid = listener.wait_for_event("charge.paid").await;
    assert_eq!(paid.json()["data"]["object"]["id"], charge["id"]);
    let again = live.client.new_charge("order-0001", &live_order).await;
    assert_eq!(again["status"], "pending");
    let pay = json!({"charge_id": id(&again)}).to_string();
    service.raw(Method::POST, "/_local/bank/pay", &json_body, pay).await.expect(200);
    wait_until("the live charge is paid", async || live.client.get_charge(&again).await["status"] == "paid")
        .await;
}

#[tokio::test]
async fn a_killed_service_continues_with_the_state_after_a_reset() {
    let directory = TemporaryDirectory::new();
    let process = Process::start(&directory.0).await;
    let client = &process.client;
    for order in 0..20 {
        client.new_charge(&format!("order-{order:04}"), &json!({"amount": 1_000})).await;
    }
    client.advance_seconds(3_600).await;
    reset(client).await;
    let listener = Listener::start().await;
    client.register_endpoint(&listener.url, &["charge.created"]).await;
    process.kill().await;

    let process = Process::start(&directory.0).await;
    assert_eq!(process.client.get("/v1/charges").await.expect(200)["data"], json!([]));
    // The stream of the new table is read from its first record.
    let charge = process.client.new_charge("order-0000", &json!({"amount": 1_000})).await;
    let created = listener.wait_for_event("charge.created").await;
    assert_eq!(created.json()["data"]["object"]["id"], charge["id"]);
}

#[tokio::test]
async fn requests_that_arrive_during_a_reset_see_the_state_before_or_after_it() {
    let live = Live::start().await;
    let service = &live.service;
    let json_body = [("content-type", "application/json")];
    let read = async || {
        loop {
            // A request that was in progress may have ended with 500.
            let answer = service.get("/v1/charges").await;
            if answer.status != 500 {
                answer.expect(200);
                break;
            }
        }
    };
    service.charge().await;
    for _ in 0..3 {
        let reset = service.raw(Method::POST, "/_local/reset", &json_body, "");
        let (answer, ..) = tokio::join!(reset, read(), read(), read(), read());
        answer.expect(200);
    }
    assert_empty(service).await;
}
