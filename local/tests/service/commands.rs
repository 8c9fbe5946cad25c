//! The developer's commands, against a service that runs: `listen` and `trigger`.

use std::sync::{Arc, Mutex};

use domain::money::Amount;
use domain::webhook::event_type::EventType;
use local::commands::listen::{Options, Print, listen};
use local::commands::running::ReadyFile;
use local::commands::{Running, trigger};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::support::{Listener, Service, eventually};

fn running(service: &Service) -> Running {
    let ready = serde_json::to_value(service.stack.ready().unwrap()).unwrap();
    Running::new(serde_json::from_value::<ReadyFile>(ready).unwrap())
}

/// What a command printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    fn print(&self) -> Print {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
    }

    fn has(&self, words: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    async fn says(&self, words: &[&str]) {
        eventually(&words.join(" "), async || self.has(words).then_some(())).await;
    }
}

async fn endpoints(service: &Service) -> Vec<Value> {
    let list = service.get("/v1/webhooks/endpoints").await.expect(200);
    list["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_event_that_can_be_triggered_is_listened_to_and_forwarded_as_it_came() {
    let service = Service::start().await;
    let merchant = Listener::start().await;
    // A run that was killed left its endpoint.
    service.register("http://127.0.0.1:9/cargo-run-listen", &["charge.paid"]).await;
    let (end, ended) = oneshot::channel::<()>();
    let printed = Printed::default();
    let print = printed.print();
    let options = Options {
        events: EventType::subscribable().map(|event| event.as_str().to_owned()).collect(),
        forward_to: Some(merchant.url.clone()),
        print_json: false,
    };
    let listening = {
        let running = running(&service);
        tokio::spawn(async move { listen(&running, options, print, async { drop(ended.await) }).await })
    };
    printed.says(&["Listening to 20 events", "secret"]).await;
    let amount = Amount::parse(1990).unwrap();
    for (name, event) in EventType::ALL {
        let steps = Printed::default();
        trigger::trigger(&running(&service), *event, amount, &steps.print()).await.unwrap();
        printed.says(&[name, "-> 204 in"]).await;
        let hook = merchant.event(name).await;
        assert!(!hook.header("x-service-signature").is_empty());
        assert_eq!(hook.header("content-type"), "application/json");
    }
    let [endpoint] = endpoints(&service).await.try_into().unwrap();
    assert_ne!(endpoint["url"], "http://127.0.0.1:9/cargo-run-listen");
    end.send(()).unwrap();
    listening.await.unwrap().unwrap();
    assert!(printed.has(&["deleted"]));
    assert!(endpoints(&service).await.is_empty());
}

#[tokio::test]
async fn an_event_that_nobody_takes_is_printed_and_comes_again() {
    let service = Service::start().await;
    let (end, ended) = oneshot::channel::<()>();
    let printed = Printed::default();
    let print = printed.print();
    let options = Options { forward_to: Some("http://127.0.0.1:9/hook".to_owned()), ..Options::default() };
    let running_service = running(&service);
    let listening =
        tokio::spawn(
            async move { listen(&running_service, options, print, async { drop(ended.await) }).await },
        );
    printed.says(&["Listening to 10 events"]).await;
    service.charge().await;
    printed.says(&["charge.created", "does not answer"]).await;
    let delivery = eventually("the attempt", async || {
        service.deliveries("").await.into_iter().find(|delivery| delivery["lastStatusCode"] == 502)
    })
    .await;
    assert_eq!(delivery["status"], "PENDING");
    end.send(()).unwrap();
    listening.await.unwrap().unwrap();
}
