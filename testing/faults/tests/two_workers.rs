//! Two workers of one refund in every order of their calls to the acquirer and of their writes, while a request fails.
//! The acquirer's own books say how often it executed the refund.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]
#![allow(clippy::large_futures, reason = "a test runs once")]
#![allow(clippy::print_stdout, reason = "-- --nocapture shows the figure")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bank::PayRequest;
use domain::ids::{ChargeId, Mode};
use faults::call::BANK_CLIENT;
use faults::fault::Fault;
use faults::pump::Pump;
use faults::trial::Trial;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use world::http::{Call, items, text};
use world::plan::Load;

/// How a request of a refund fails first, and who answers so: the stand-in, or a server before it.
const CARD_FAULTS: [&str; 4] = ["http_500", "stored_500", "stored_500_after_write", "answer-lost"];
const BANK_FAULTS: [&str; 2] = ["answer-lost", "server-error"];

/// What happens before the second round of the two workers, in seconds: the next poll, or the acquirer forgets its
/// idempotency keys.
const PAUSES_S: [i64; 2] = [2, 25 * 60 * 60];

/// The beginnings of the descriptions of requests for refunds.
const REQUESTS: [&str; 2] = ["cards POST /v1/refunds", "bank PUT"];

const WORKER: &str = "AcquirerWorkerFunction";

/// Longer than a lease.
const PAST_LEASE_S: i64 = 100;

struct Refunds {
    trial: Trial,
    charge: Value,
    is_card: bool,
    fails_once: Arc<AtomicBool>,
    held: Arc<Mutex<Held>>,
    made: usize,
}

/// The worker's writes of single rows and calls to acquirers that wait.
#[derive(Default)]
struct Held {
    is_on: bool,
    /// The longest first.
    calls: Vec<(String, oneshot::Sender<()>)>,
}

/// In which order two workers go on: of the calls that wait, the number that is let through at each step.
#[derive(Default)]
struct Order {
    chosen: Vec<(usize, usize)>,
    step: usize,
}

impl Order {
    fn choose(&mut self, of: usize) -> usize {
        if self.step == self.chosen.len() {
            self.chosen.push((0, of));
        }
        let (choice, _) = self.chosen[self.step];
        self.step += 1;
        // A run may make a call less than the one before, such as for a token of the bank.
        choice.min(of - 1)
    }

    /// The next order, or false: there is none.
    fn next(&mut self) -> bool {
        self.step = 0;
        while let Some((choice, of)) = self.chosen.pop() {
            if choice + 1 < of {
                self.chosen.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

impl Refunds {
    async fn start(is_card: bool) -> Self {
        let trial = Trial::start(false, Load::default()).await.unwrap();
        let mut pump = Pump::new(&trial).unwrap();
        let methods = if is_card { ["CREDIT_CARD"] } else { ["PIX"] };
        let body = json!({"amount": 1_000, "currency": "BRL", "paymentMethods": methods, "idempotencyKey": "order-00001"});
        let charge = trial.api(Mode::Live).expect(&Call::post("/v1/payments", body), 201).await.unwrap();
        let id = ChargeId::parse_any(text(&charge, "id")).unwrap();
        if is_card {
            let pay = json!({"metadata": {"charge": id.to_string()}, "available_on": 1});
            assert_eq!(trial.stack.cards.control("POST", "/pay", &pay).0, 200);
        } else {
            trial.stack.bank.pay(&PayRequest { txid: id.txid(), ..PayRequest::default() }).unwrap();
        }
        let path = format!("/v1/payments/{}", text(&charge, "id"));
        while !["PAID", "APPROVED"]
            .contains(&text(&trial.api(Mode::Live).read(&path).await.unwrap(), "status"))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
            pump.drain(&trial).await.unwrap();
        }
        let (fails_once, held) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Held>>::default());
        let holds = Arc::clone(&held);
        trial.front.set_hold(move |function, what| {
            let mut held = holds.lock().unwrap();
            let is_write = function == WORKER && what.contains(" UpdateItem ");
            (held.is_on && (is_write || function == BANK_CLIENT)).then(|| {
                let (sender, released) = oneshot::channel();
                held.calls.push((what.to_owned(), sender));
                released
            })
        });
        trial.front.record();
        Self { trial, charge, is_card, fails_once, held, made: 0 }
    }

    /// Requests a refund, which two workers then process at once.
    async fn run(&mut self, fault: &'static str, order: &mut Order, passes_lease: bool, pause_s: i64) {
        self.made += 1;
        let path = format!("/v1/payments/{}/refund", text(&self.charge, "id"));
        let mut body = json!({"amount": 1, "idempotencyKey": format!("refund-{:04}", self.made)});
        if !self.is_card {
            body["strategy"] = ["devolution", "cashout"][self.made / 2 % 2].into();
        }
        let refund = self.trial.api(Mode::Live).expect(&Call::post(path, body), 201).await.unwrap();
        let id = text(&refund, "id");
        self.set_fault(fault);
        self.work(id, Some(order), passes_lease).await;
        self.trial.world.advance(pause_s).await.unwrap();
        for round in 0..12 {
            self.work(id, None, false).await;
            if self.is_refunded(id).await {
                break;
            }
            assert!(round < 11, "{fault}: the refund does not end");
            self.trial.world.advance(if round < 4 { 5 } else { PAST_LEASE_S }).await.unwrap();
        }
        let executed = self.executed();
        let orders = order.chosen.iter().map(|(choice, _)| choice).collect::<Vec<_>>();
        assert_eq!(executed, self.made, "{fault}, order {orders:?}, {passes_lease}, {pause_s} s: {id}");
    }

    fn set_fault(&self, fault: &'static str) {
        let kind = match fault {
            "answer-lost" => Fault::AnswerLost,
            "server-error" => Fault::ServerError,
            stored => {
                let body = json!({"kind": stored, "on": "POST /v1/refunds", "count": 1});
                assert_eq!(self.trial.stack.cards.control("POST", "/faults", &body).0, 200);
                return;
            }
        };
        self.fails_once.store(true, Ordering::SeqCst);
        let fails_once = Arc::clone(&self.fails_once);
        self.trial.front.set_faults(move |call| {
            let is_request = REQUESTS.iter().any(|start| call.what.starts_with(start));
            (is_request && fails_once.swap(false, Ordering::SeqCst)).then_some(kind)
        });
    }

    /// Two workers get the message of a refund. `passes_lease`: while the first waits with its request, its lease ends.
    async fn work(&self, refund: &str, order: Option<&mut Order>, passes_lease: bool) {
        let body = json!({"refund": {"id": refund}}).to_string();
        let record = json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
        let invoke = self.trial.stack.functions.get(WORKER).unwrap();
        let Some(order) = order else {
            invoke(json!({"Records": [record]})).await.unwrap();
            return;
        };
        self.held.lock().unwrap().is_on = true;
        let mut workers = JoinSet::new();
        for _ in 0..2 {
            workers.spawn_local(invoke(json!({"Records": [record]})));
        }
        let (mut running, mut has_passed, mut is_first) = (2, !passes_lease, true);
        loop {
            while workers.try_join_next().is_some() {
                running -= 1;
            }
            if running == 0 {
                break;
            }
            let held: Vec<String> =
                self.held.lock().unwrap().calls.iter().map(|(what, _)| what.clone()).collect();
            if held.len() < running {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            if !has_passed && held.iter().any(|what| REQUESTS.iter().any(|start| what.starts_with(start))) {
                has_passed = true;
                self.trial.world.advance(PAST_LEASE_S).await.unwrap();
            }
            // At first, both workers are the same.
            let of = if is_first { 1 } else { held.len() };
            let (_, call) = self.held.lock().unwrap().calls.remove(order.choose(of));
            let _ = call.send(());
            is_first = false;
        }
        *self.held.lock().unwrap() = Held::default();
    }

    async fn is_refunded(&self, refund: &str) -> bool {
        let path = format!("/v1/payments/{}/refunds", text(&self.charge, "id"));
        let listed = self.trial.api(Mode::Live).read(path).await.unwrap();
        let refunds = items(&listed["data"]);
        refunds.iter().any(|one| text(one, "id") == refund && text(one, "status") == "REFUNDED")
    }

    /// How many refunds the acquirer has executed.
    fn executed(&self) -> usize {
        if self.is_card {
            let (_, books) = self.trial.stack.cards.control("GET", "/books", &Value::Null);
            return items(&books["refunds"]).iter().filter(|one| one["status"] == "succeeded").count();
        }
        let snapshot = self.trial.stack.bank.snapshot();
        let all = items(&snapshot["pix"]).iter().flat_map(|pix| items(&pix["devolucoes"]));
        let sent = items(&snapshot["pixOut"]).iter();
        all.chain(sent).filter(|one| ["DEVOLVIDO", "REALIZADO"].contains(&text(one, "status"))).count()
    }
}

async fn try_all_orders(is_card: bool, faults: &'static [&'static str]) {
    LocalSet::new()
        .run_until(async {
            let mut refunds = Refunds::start(is_card).await;
            for (fault, passes_lease) in faults.iter().flat_map(|fault| [(*fault, false), (*fault, true)]) {
                let mut order = Order::default();
                loop {
                    // Each order with one of the pauses: the outcome of the first round decides what they can do.
                    let pause = PAUSES_S[refunds.made % 2];
                    refunds.run(fault, &mut order, passes_lease, pause).await;
                    if !order.next() {
                        break;
                    }
                }
            }
            println!("{} refunds", refunds.made);
            refunds.trial.stack.stop().await;
        })
        .await;
}

#[tokio::test]
async fn two_workers_refund_a_card_once_in_every_order_of_their_calls() {
    try_all_orders(true, &CARD_FAULTS).await;
}

#[tokio::test]
async fn two_workers_refund_a_pix_once_in_every_order_of_their_calls() {
    try_all_orders(false, &BANK_FAULTS).await;
}
