use std::sync::Arc;

use serde_json::{Value, json};

use super::{Fixture, Received, all, bodies, recording, wait_until};
use crate::embedded::State;
use crate::template::queue_arn;

#[tokio::test]
async fn only_failed_messages_are_received_again() {
    let fixture = Fixture::start(State::InMemory).await;
    let received = Received::default();
    let earlier = Arc::clone(&received);
    let sources = fixture.event_sources(
        "WebhookWorkerFunction",
        recording(&received, move |event| {
            let is_first = |body: &str| !all(&earlier, bodies).iter().any(|earlier| earlier == body);
            let failed: Vec<Value> = event["Records"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|record| record["body"] == "fails once" && is_first("fails once"))
                .map(|record| json!({"itemIdentifier": record["messageId"]}))
                .collect();
            if bodies(event).iter().any(|body| body == "crashes once") && is_first("crashes once") {
                return Err("crashed".to_owned());
            }
            Ok(json!({ "batchItemFailures": failed }))
        }),
    );
    let count = |body: &str| all(&received, bodies).iter().filter(|received| *received == body).count();
    fixture.send_messages(&["succeeds", "fails once"]).await;
    wait_until("the failed message is received again", async || count("fails once") == 2).await;
    fixture.send_messages(&["crashes once"]).await;
    wait_until("the message of the crash is received again", async || count("crashes once") == 2).await;
    assert_eq!(count("succeeds"), 1, "{:?}", all(&received, bodies));
    let event = received.lock().unwrap()[0].clone();
    let record = &event["Records"][0];
    assert_eq!(record["eventSourceARN"], queue_arn("DeliveryQueue"));
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
    // Functions deserialize the event as this type.
    let _: aws_lambda_events::event::sqs::SqsEvent = serde_json::from_value(event).unwrap();
    sources.stop().await;
}
