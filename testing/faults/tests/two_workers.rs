//! Two workers of one refund, or of one return, in every order of their calls to the acquirer and of their writes, while
//! a request fails. Of the orders that differ only in calls that do not affect each other, one is tried. The acquirer's
//! own books say how often it executed the refund or return.
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

use acquirer_core::AcquirerMessage;
use bank::PayRequest;
use domain::ids::{AcquirerPaymentId, ChargeId, Mode};
use domain::wallet::ReturnStatus;
use faults::call::BANK_CLIENT;
use faults::fault::Fault;
use faults::trial::{Trial, operator};
use local::event_sources::batch_item_failures;
use serde_json::{Value, json};
use services::Receipts;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use world::http::{Call, items, text};
use world::plan::{LIVE, Load};

/// How the first request fails, and who answers so: the stand-in, or a server before it.
const CARD_FAULTS: [&str; 4] = ["http_500", "answer-lost", "stored_500", "stored_500_after_write"];
const BANK_FAULTS: [&str; 2] = ["answer-lost", "server-error"];

/// What happens before the second round of the two workers, in seconds: the next poll, or the acquirer forgets its
/// idempotency keys.
const PAUSES_S: [i64; 2] = [2, 25 * 60 * 60];

/// The beginnings of the descriptions of requests for refunds and returns.
const REQUESTS: [&str; 2] = ["cards POST /*/refunds", "bank PUT"];

/// The reading of a single refund, which decides nothing.
const READING: &str = "cards GET /*/refunds/*";

/// The worker's writes.
const WRITES: [&str; 3] = [" PutItem ", " UpdateItem ", " TransactWriteItems "];

const WORKER: &str = "AcquirerWorkerFunction";

/// A step of a worker that waits as calls do: it reads its row.
const POLL: &str = "poll";

/// How often a message is processed until it has its effect. On a busy machine, calls run into their time limits.
const ATTEMPTS: usize = 10;

/// Longer than a lease.
const PAST_LEASE_S: i64 = 100;

/// Longer than a page of a card can be paid.
const PAST_PAGE_S: i64 = 24 * 60 * 60 + 60;

/// The faults after which the acquirer may execute a repetition of the request.
const NOT_EXECUTED: [&str; 2] = ["http_500", "stored_500"];

/// What the workers request, each time of another charge.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Refund,
    /// The return of a second Pix, or of a late payment by card. The acquirer executes no second one.
    Return,
    /// The return of the money of a refund that came back. Its payment has more, so the acquirer would execute it twice.
    ReturnOfRefund,
}

struct Repayments {
    trial: Trial,
    is_card: bool,
    kind: Kind,
    charge: ChargeId,
    fails_once: Arc<AtomicBool>,
    held: Arc<Mutex<Held>>,
    made: usize,
}

/// Steps of the workers that wait: the readings and writes of the row, and calls to acquirers.
#[derive(Default)]
struct Held {
    is_on: bool,
    /// The longest first.
    calls: Vec<(String, oneshot::Sender<()>)>,
}

impl Held {
    fn hold(&mut self, what: &str) -> Option<oneshot::Receiver<()>> {
        let (sender, released) = oneshot::channel();
        self.is_on.then(|| self.calls.push((what.to_owned(), sender)))?;
        Some(released)
    }
}

/// In which order two workers go on: of the calls that wait, the number that is let through at each step.
#[derive(Default)]
struct Order {
    chosen: Vec<(usize, usize)>,
    step: usize,
    /// The call that waits longest must not go next: up to now, the orders in which it came earlier are the same.
    is_asleep: bool,
}

impl Order {
    /// Returns the number of the call that is let through. The partial-order reduction is that of sleep sets.
    fn choose(&mut self, held: &[String]) -> usize {
        let [older, newer] = held else { return 0 };
        let first = usize::from(self.is_asleep);
        if self.step == self.chosen.len() {
            self.chosen.push((first, held.len()));
        }
        let choice = self.chosen[self.step].0.max(first);
        self.step += 1;
        self.is_asleep = choice == 1 && !affect_each_other(older, newer);
        choice
    }

    /// The next order, or false: there is none.
    fn next(&mut self) -> bool {
        (self.step, self.is_asleep) = (0, false);
        while let Some((choice, of)) = self.chosen.pop() {
            if choice + 1 < of {
                self.chosen.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

/// Whether the order of two calls matters: both are about the acquirer's objects or both about the row, and one writes.
fn affect_each_other(one: &str, other: &str) -> bool {
    let is_of_row = |call: &str| call == POLL || call.starts_with("DynamoDB ");
    let reads = |call: &str| call == POLL || call.contains(" GET ");
    is_of_row(one) == is_of_row(other) && !(reads(one) && reads(other))
}

impl Repayments {
    async fn start(is_card: bool, kind: Kind) -> Self {
        let trial = Trial::start(false, Load::default()).await.unwrap();
        let (fails_once, held) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Held>>::default());
        let holds = Arc::clone(&held);
        trial.front.set_hold(move |function, what| {
            let is_write = function == WORKER && WRITES.iter().any(|write| what.contains(write));
            let is_call = function == BANK_CLIENT && what != READING && !what.ends_with("/token");
            (is_write || is_call).then(|| holds.lock().unwrap().hold(what)).flatten()
        });
        trial.front.record();
        let charge = ChargeId::parse_any("00000000-0000-4000-8000-000000000000").unwrap();
        Self { trial, is_card, kind, charge, fails_once, held, made: 0 }
    }

    /// The payer pays. `again`: the payment is not the first, or it is late.
    fn pay(&self, again: bool) -> AcquirerPaymentId {
        let id = if self.is_card {
            let charge = json!({"charge": self.charge.to_string()});
            let session =
                self.control("/pay", &json!({"metadata": charge, "available_on": 1, "late": again}));
            text(&session, "payment_intent").to_owned()
        } else {
            let request = PayRequest { txid: self.charge.txid(), again, ..PayRequest::default() };
            self.trial.stack.bank.pay(&request).unwrap().end_to_end_id
        };
        id.parse().unwrap()
    }

    fn control(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.trial.stack.cards.control("POST", path, body);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Creates a charge and what the workers request. Returns the message about it.
    async fn prepare(&mut self) -> AcquirerMessage {
        let methods = if self.is_card { ["CREDIT_CARD"] } else { ["PIX"] };
        let key = format!("order-{:05}", self.made);
        let body =
            json!({"amount": 1_000, "currency": "BRL", "paymentMethods": methods, "idempotencyKey": key});
        let api = self.trial.api(Mode::Live);
        let charge = api.expect(&Call::post("/v1/payments", body), 201).await.unwrap();
        self.charge = ChargeId::parse_any(text(&charge, "id")).unwrap();
        let (read, whole) = (AcquirerMessage::Read(self.charge), AcquirerMessage::ReadWhole(self.charge));
        let scope = self.trial.scope(LIVE);
        if self.kind == Kind::Return {
            if self.is_card {
                self.trial.world.advance(PAST_PAGE_S).await.unwrap();
                self.end_waiting(&AcquirerMessage::Expire(self.charge)).await;
            } else {
                self.pay(false);
                self.end_waiting(&read).await;
            }
            let payment = self.pay(true);
            self.process(&read).await;
            return AcquirerMessage::Return { scope, payment, refusals: 0 };
        }
        self.pay(false);
        self.end_waiting(&read).await;
        if self.kind == Kind::ReturnOfRefund {
            let refund = json!({"metadata": {"charge": self.charge.to_string()}, "amount": 1});
            let refund = self.control("/refund", &refund);
            self.process(&whole).await;
            self.control(&format!("/refunds/{}", text(&refund, "id")), &json!({"status": "failed"}));
            self.process(&whole).await;
            let payment: AcquirerPaymentId = text(&refund, "id").parse().unwrap();
            let receipts = Receipts::new(self.trial.store());
            receipts.give_back(&scope, &payment, Some(&operator()), self.trial.now()).await.unwrap();
            return AcquirerMessage::Return { scope, payment, refusals: 0 };
        }
        let path = format!("/v1/payments/{}/refund", self.charge.raw());
        let mut body = json!({"amount": 1, "idempotencyKey": format!("refund-{:05}", self.made)});
        if !self.is_card {
            body["strategy"] = ["devolution", "cashout"][self.made / 2 % 2].into();
        }
        let refund = api.expect(&Call::post(path, body), 201).await.unwrap();
        AcquirerMessage::Refund { id: text(&refund, "id").parse().unwrap(), refusals: 0 }
    }

    /// Two workers process one refund or return at once.
    async fn run(&mut self, fault: &'static str, order: &mut Order, passes_lease: bool) {
        self.made += 1;
        let message = self.prepare().await;
        self.set_fault(fault);
        // If the first request is not executed, the second one shows whether its number is right.
        let polls = if NOT_EXECUTED.contains(&fault) { 2 } else { 1 };
        self.process_twice(&message, order, passes_lease.then_some(polls)).await;
        // If the acquirer has executed it and forgets the key, only the search before a request prevents a second one.
        let pause_s = PAUSES_S[if self.executed() == self.made { 1 } else { self.made % 2 }];
        self.trial.world.advance(pause_s).await.unwrap();
        for round in 0..12 {
            self.process(&message).await;
            if self.has_ended(&message).await {
                break;
            }
            assert!(round < 11, "{fault}: it does not end: {message:?}");
            self.trial.world.advance(if round < 4 { 5 } else { PAST_LEASE_S }).await.unwrap();
        }
        let executed = self.executed();
        let orders = order.chosen.iter().map(|(choice, _)| choice).collect::<Vec<_>>();
        assert_eq!(
            executed, self.made,
            "{fault}, order {orders:?}, {passes_lease}, {pause_s} s: {message:?}"
        );
    }

    fn set_fault(&self, fault: &'static str) {
        let kind = match fault {
            "answer-lost" => Fault::AnswerLost,
            "server-error" => Fault::ServerError,
            stored => {
                let body = json!({"kind": stored, "on": "POST /v1/refunds", "count": 1});
                self.control("/faults", &body);
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

    /// Returns what a worker does that gets a message so often. It returns whether the last time succeeded.
    fn worker(&self, message: &AcquirerMessage, times: usize) -> impl Future<Output = bool> + 'static {
        let body = serde_json::to_string(message).unwrap();
        let event = json!({"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]});
        let invoke = Arc::clone(self.trial.stack.functions.get(WORKER).unwrap());
        let held = Arc::clone(&self.held);
        async move {
            let mut is_done = false;
            for _ in 0..times {
                let poll = held.lock().unwrap().hold(POLL);
                if let Some(released) = poll {
                    released.await.unwrap();
                }
                is_done = batch_item_failures(&invoke(event.clone()).await.unwrap()).is_empty();
            }
            is_done
        }
    }

    /// Processes a message until it succeeds, as the queue repeats it.
    async fn process(&self, message: &AcquirerMessage) {
        for attempt in 0.. {
            assert!(attempt < ATTEMPTS, "{message:?} fails");
            if self.worker(message, 1).await {
                return;
            }
        }
    }

    /// Processes a message until the charge is paid or expired.
    async fn end_waiting(&self, message: &AcquirerMessage) {
        let path = format!("/v1/payments/{}", self.charge.raw());
        for attempt in 0.. {
            assert!(attempt < ATTEMPTS, "{message:?} has no effect");
            self.process(message).await;
            if self.trial.api(Mode::Live).read(&*path).await.unwrap()["status"] != "WAITING_PAYMENT" {
                return;
            }
        }
    }

    /// Two workers get a message. `late_polls`: the second gets it so often, when the first waits with its request and
    /// its lease has ended.
    async fn process_twice(
        &self,
        message: &AcquirerMessage,
        order: &mut Order,
        mut late_polls: Option<usize>,
    ) {
        self.held.lock().unwrap().is_on = true;
        let mut workers = JoinSet::new();
        workers.spawn_local(self.worker(message, 1));
        if late_polls.is_none() {
            workers.spawn_local(self.worker(message, 1));
        }
        let mut is_first = true;
        loop {
            while workers.try_join_next().is_some() {}
            if workers.is_empty() {
                break;
            }
            let held: Vec<String> = {
                let calls = &mut self.held.lock().unwrap().calls;
                // A client may give up a call that waits for too long, and repeat it.
                calls.retain(|(_, call)| !call.is_closed());
                calls.iter().map(|(what, _)| what.clone()).collect()
            };
            if held.len() < workers.len() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let is_requesting = REQUESTS.iter().any(|start| held[0].starts_with(start));
            if let Some(polls) = late_polls.take_if(|_| is_requesting) {
                self.trial.world.advance(PAST_LEASE_S).await.unwrap();
                workers.spawn_local(self.worker(message, polls));
                continue;
            }
            // At first, both workers are the same.
            let choice = if is_first { 0 } else { order.choose(&held) };
            is_first = false;
            let (_, call) = self.held.lock().unwrap().calls.remove(choice);
            let _ = call.send(());
        }
        *self.held.lock().unwrap() = Held::default();
    }

    async fn has_ended(&self, message: &AcquirerMessage) -> bool {
        if let AcquirerMessage::Return { scope, payment, .. } = message {
            let found = Receipts::new(self.trial.store()).find(scope, payment).await.unwrap().unwrap();
            return found.returned.is_some_and(|back| back.status == ReturnStatus::Returned);
        }
        let path = format!("/v1/payments/{}/refunds", self.charge.raw());
        self.trial.api(Mode::Live).read(path).await.unwrap()["data"][0]["status"] == "REFUNDED"
    }

    /// How many refunds and returns the acquirer has executed.
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

async fn try_all_orders(is_card: bool, kind: Kind) {
    // A return is requested as a refund is, so two of the faults are enough.
    let faults = match (is_card, kind) {
        (true, Kind::Refund) => &CARD_FAULTS[..],
        (true, _) => &CARD_FAULTS[..2],
        (false, _) => &BANK_FAULTS,
    };
    LocalSet::new()
        .run_until(async {
            let mut repayments = Repayments::start(is_card, kind).await;
            for (fault, passes_lease) in faults.iter().flat_map(|fault| [(*fault, false), (*fault, true)]) {
                let mut order = Order::default();
                loop {
                    repayments.run(fault, &mut order, passes_lease).await;
                    if !order.next() {
                        break;
                    }
                }
            }
            println!("{} tried", repayments.made);
            repayments.trial.stack.stop().await;
        })
        .await;
}

#[tokio::test]
async fn two_workers_refund_a_card_once_in_every_order_of_their_calls() {
    try_all_orders(true, Kind::Refund).await;
}

#[tokio::test]
async fn two_workers_refund_a_pix_once_in_every_order_of_their_calls() {
    try_all_orders(false, Kind::Refund).await;
}

#[tokio::test]
async fn two_workers_return_a_late_payment_by_card_once_in_every_order_of_their_calls() {
    try_all_orders(true, Kind::Return).await;
}

#[tokio::test]
async fn two_workers_return_a_refund_that_came_back_once_in_every_order_of_their_calls() {
    try_all_orders(true, Kind::ReturnOfRefund).await;
}

#[tokio::test]
async fn two_workers_return_a_second_pix_once_in_every_order_of_their_calls() {
    try_all_orders(false, Kind::Return).await;
}
