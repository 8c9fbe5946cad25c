//! Requests and times of the numbers of deliveries after 9,600 deliveries in 210 s, and of another account's charge
//! beside eight of these requests at once.

use std::time::{Duration, Instant};

use domain::ids::{EndpointId, Mode, Scope};
use domain::webhook::event_type::EventType;
use effects::webhook::delivery::{Deliveries, Delivery, DeliveryStatus};
use effects::webhook::endpoint::Endpoint;
use effects::webhook::event::{Event, Origin};
use faults::proxy::FaultProxy;
use local::stack::{Options, Stack};
use serde_json::json;
use shared::store::{Item, Store, to_item};

use crate::merchant::Merchant;
use crate::{InFiles, run_schedules, seeding};

const DELIVERIES_A_MINUTE: i64 = 2_743;

const TIMES: usize = 40;

const AT_ONCE: usize = 8;

/// Inserts the deliveries of some seconds, all delivered. The last of them has the present time.
async fn deliver(stack: &Stack, endpoint: &Endpoint, count: i64, seconds: i64) {
    let (scope, began) = (endpoint.scope, stack.clock.now());
    let items = (0..count).flat_map(|number| {
        let at = began.plus_millis(number * seconds * 1_000 / count).unwrap();
        let origin = Origin::new(scope, format!("charge#{}#{number}", began.millis()), at);
        let event = Event::of_one(EventType::ChargePaid, &origin, &json!({"object": "charge"})).unwrap();
        let new = Delivery::for_event(&event, std::slice::from_ref(endpoint), at).remove(0);
        let delivered = Delivery { status: DeliveryStatus::Delivered, attempts: 1, ..new };
        [to_item(&delivered).unwrap(), to_item(&event).unwrap()]
    });
    let items: Vec<Item> = items.collect();
    let dynamodb = local::sdk::dynamodb(&stack.endpoints.dynamodb_url);
    seeding::write(&dynamodb, &items).await;
    stack.clock.advance(seconds * 1_000);
    let deliveries = Deliveries::new(Store::new(dynamodb, "StateTable"));
    deliveries.count(&scope, stack.clock.now()).await.unwrap();
}

fn print(name: &str, requests: &str, mut times: Vec<Duration>) {
    times.sort();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{name:<56} {requests:>8} {median:>8.1?} {longest:>8.1?}");
}

pub(crate) async fn numbers() {
    let proxy = FaultProxy::start().await.unwrap();
    let options = Options { event_sources: false, fronts: proxy.fronts(), ..Options::in_memory() };
    let service = InFiles::start(options).await;
    let stack = &service.stack;
    let merchant = Merchant::of(stack, &stack.seed.first);
    let id = merchant.register_endpoint("https://shop.example/hook", &["charge.paid"]).await;
    let scope = Scope { account: stack.seed.first.id, mode: Mode::Test };
    let store = Store::new(local::sdk::dynamodb(&stack.endpoints.dynamodb_url), "StateTable");
    let key = Endpoint::key_of(&scope, id.parse::<EndpointId>().unwrap());
    let endpoint: Endpoint = store.get(&key).await.unwrap().unwrap();
    for _minute in 0..3 {
        deliver(stack, &endpoint, DELIVERIES_A_MINUTE, 60).await;
        run_schedules(stack).await;
    }
    deliver(stack, &endpoint, DELIVERIES_A_MINUTE / 2, 30).await;
    println!(
        "\n{:<56} {:>8} {:>8} {:>8}",
        "numbers of 9,600 deliveries of 210 s", "requests", "median", "longest"
    );
    let list = "/v1/webhooks/deliveries";
    let stats = "/v1/webhooks/stats";
    let mut paths = vec![stats.to_owned(), list.to_owned()];
    paths.extend(
        ["DELIVERED", "PENDING", "PROCESSING", "FAILED", "CANCELLED"].map(|s| format!("{list}?status={s}")),
    );
    for path in paths {
        let mut times = Vec::with_capacity(TIMES);
        for _time in 0..TIMES {
            proxy.reset();
            let began = Instant::now();
            merchant.get(&path).await;
            times.push(began.elapsed());
        }
        print(&path, &format!("{}/5", proxy.report().requests()), times);
    }
    let other = Merchant::of(stack, &stack.seed.other);
    let mut order = 0;
    let mut charges = async |while_running: &dyn Fn() -> bool| {
        let mut times = Vec::new();
        while while_running() {
            let began = Instant::now();
            other.create(order).await;
            times.push(began.elapsed());
            order += 1;
        }
        times
    };
    let began = Instant::now();
    let alone = charges(&|| began.elapsed() < Duration::from_secs(1)).await;
    print("a charge of another account", "", alone);
    let mut readers = tokio::task::JoinSet::new();
    for _reader in 0..AT_ONCE {
        let merchant = merchant.clone();
        readers.spawn(async move {
            for _time in 0..TIMES / 2 {
                merchant.get(stats).await;
            }
        });
    }
    let readers = tokio::spawn(readers.join_all());
    let beside = charges(&|| !readers.is_finished()).await;
    readers.await.unwrap();
    print(&format!("the same beside {AT_ONCE} requests of {stats} at once"), "", beside);
    service.stop().await;
}
