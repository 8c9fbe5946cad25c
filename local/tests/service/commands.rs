//! Tests of the developer's commands `listen` and `trigger` against a running service.

use std::sync::{Arc, Mutex};

use domain::money::Amount;
use domain::webhook::event_type::{EventType, Family};
use local::commands::listen::{Options, Print, listen};
use local::commands::running::ReadyFile;
use local::commands::{Running, trigger};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::support::{Listener, Service, eventually};

pub(crate) fn running(service: &Service) -> Running {
    let ready = serde_json::to_value(service.stack.ready().unwrap()).unwrap();
    Running::new(serde_json::from_value::<ReadyFile>(ready).unwrap())
}

/// The lines that a command printed.
#[derive(Clone, Default)]
pub(crate) struct PrintedLines(Arc<Mutex<Vec<String>>>);

impl PrintedLines {
    pub(crate) fn print(&self) -> Print {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
    }

    pub(crate) fn contains_line(&self, words: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    async fn wait_for_line(&self, words: &[&str]) {
        eventually(&format!("a line is printed with {words:?}"), async || {
            self.contains_line(words).then_some(())
        })
        .await;
    }
}

async fn endpoints(service: &Service) -> Vec<Value> {
    let list = service.get("/v1/webhooks/endpoints").await.expect(200);
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn listen_receives_and_forwards_every_event_that_trigger_causes() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    // An earlier run that was killed has left its endpoint.
    service.register_endpoint("http://127.0.0.1:9/cargo-run-listen", &["charge.paid"]).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let printed = PrintedLines::default();
    let print = printed.print();
    let options = Options {
        events: EventType::subscribable().map(|event| event.as_str().to_owned()).collect(),
        forward_to: Some(merchant.url.clone()),
        print_json: false,
    };
    let listening = {
        let running = running(&service);
        tokio::spawn(async move { listen(&running, options, print, async { drop(stopped.await) }).await })
    };
    printed.wait_for_line(&["Listening to 20 events", "secret"]).await;
    let amount = Amount::parse(1990).unwrap();
    for (name, event) in EventType::ALL {
        let steps = PrintedLines::default();
        trigger::trigger(&running(&service), *event, amount, &steps.print()).await.unwrap();
        printed.wait_for_line(&[name, "-> 204 in"]).await;
        let hook = merchant.wait_for_event(name).await;
        assert!(!hook.header("x-service-signature").is_empty());
        assert_eq!(hook.headers.contains_key("webhook-signature"), event.family() == Family::Canonical);
        assert_eq!(hook.header("content-type"), "application/json");
    }
    let [endpoint] = endpoints(&service).await.try_into().unwrap();
    assert_ne!(endpoint["url"], "http://127.0.0.1:9/cargo-run-listen");
    stop.send(()).unwrap();
    listening.await.unwrap().unwrap();
    assert!(printed.contains_line(&["deleted"]));
    assert!(endpoints(&service).await.is_empty());
}

#[tokio::test]
async fn listen_prints_an_event_that_it_cannot_forward_and_the_delivery_is_retried() {
    let service = Service::start().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let printed = PrintedLines::default();
    let print = printed.print();
    let options = Options { forward_to: Some("http://127.0.0.1:9/hook".to_owned()), ..Options::default() };
    let running_service = running(&service);
    let listening =
        tokio::spawn(
            async move { listen(&running_service, options, print, async { drop(stopped.await) }).await },
        );
    printed.wait_for_line(&["Listening to 10 events"]).await;
    service.charge().await;
    printed.wait_for_line(&["charge.created", "does not answer"]).await;
    let delivery = eventually("the first attempt fails", async || {
        service.deliveries("").await.into_iter().find(|delivery| delivery["lastStatusCode"] == 502)
    })
    .await;
    assert_eq!(delivery["status"], "PENDING");
    stop.send(()).unwrap();
    listening.await.unwrap().unwrap();
}
