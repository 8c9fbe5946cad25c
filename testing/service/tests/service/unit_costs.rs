//! Measures the write units of whole flows, in total, by kind of row and by partition key. The tests of
//! `budgets.rs` hold the budgets and print the figures.
//!
//! A flow runs without event sources. It reads the stream, the delivery queues and the schedules itself, in
//! the batches of the template, so that the figures are the same on every machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use bank::PayRequest;
use domain::account::terms::MethodTerms;
use domain::payment_method::PaymentMethod;
use domain::shard::{ShardCount, ShardSettings};
use faults::proxy::{KeyUnits, Report};
use local::event_sources::lambda_record;
use local::template::{Function, Template, queue_arn};
use serde_json::{Value, json};

use crate::invocations::{invoke, run_acquirer_worker, run_counts, stream_records_after};
use crate::support::{Listener, Service, id, wait_until};

/// The number of charges of [`charges_of_a_minute`] that are created and paid in each second.
const CHARGES_A_SECOND: usize = 17;

/// How many minutes pass after the last charge, so that the scheduler does what follows from the charges.
const MINUTES_AFTERWARDS: usize = 3;

/// The number of requests to the API, and of webhooks, of a charge that is created and paid.
const API_REQUESTS: f64 = 2.0;
const WEBHOOKS: f64 = 2.0;

/// What a flow used besides write units.
#[derive(Clone, Default)]
struct Counts {
    /// The number of invocations of each function that reads a stream or a queue.
    invocations: BTreeMap<&'static str, f64>,
    /// The read units of the webhook worker.
    delivery_read_units: f64,
    /// The read units of the schedules. They do not depend on the charges.
    schedule_read_units: f64,
}

/// The units of a flow, and its invocations.
pub(crate) struct Cost {
    written: Vec<KeyUnits>,
    read_units: f64,
    counts: Counts,
    /// The number of charges, or of refunds.
    count: usize,
}

impl Cost {
    /// The write units of one charge or refund.
    pub(crate) fn units(&self) -> f64 {
        self.units_of(|_| true)
    }

    /// The write units of one charge or refund that match the condition.
    pub(crate) fn units_of(&self, matches: impl Fn(&KeyUnits) -> bool) -> f64 {
        let matching = self.written.iter().filter(|key| matches(key));
        self.per_one(matching.map(|key| key.units).fold(0.0, |sum, units| sum + units))
    }

    /// The measured quantities of a paid charge and of a delivery, by their paths in a profile of
    /// `admin/usage.json`.
    pub(crate) fn quantities(&self) -> [(&'static str, f64); 9] {
        let delivery_units = self.units_of(is_delivery);
        let Counts { invocations, delivery_read_units, schedule_read_units } = &self.counts;
        let invocations = |function| self.per_one(invocations.get(function).copied().unwrap_or_default());
        let charge_read_units = self.read_units - delivery_read_units - schedule_read_units;
        [
            ("/charge/measured/dynamodb_write_units", self.units() - delivery_units),
            ("/charge/measured/dynamodb_read_units", self.per_one(charge_read_units)),
            ("/charge/measured/http_api_requests", API_REQUESTS),
            ("/charge/functions/api/invocations", API_REQUESTS),
            ("/charge/functions/event_dispatcher/invocations", invocations("EventDispatcherFunction")),
            ("/charge/functions/acquirer_worker/invocations", invocations("AcquirerWorkerFunction")),
            ("/delivery/measured/dynamodb_write_units", delivery_units / WEBHOOKS),
            ("/delivery/measured/dynamodb_read_units", self.per_one(*delivery_read_units) / WEBHOOKS),
            (
                "/delivery/functions/webhook_worker/invocations",
                invocations("WebhookWorkerFunction") / WEBHOOKS,
            ),
        ]
    }

    /// The units by function and kind of row, the highest first.
    fn by_kind(&self) -> Vec<(String, f64)> {
        self.by(|key| Some(format!("{:<24} {}", key.caller, kind(key))))
    }

    /// The units by partition key, the highest first. Without the table of API keys and the due index.
    pub(crate) fn by_partition(&self) -> Vec<(String, f64)> {
        self.by(|key| (!is_api_key(key) && !is_in_due_index(key)).then(|| partition(key)))
    }

    /// The units by partition of the due index, the highest first.
    pub(crate) fn by_due_partition(&self) -> Vec<(String, f64)> {
        self.by(|key| is_in_due_index(key).then(|| partition(key)))
    }

    /// All figures as lines of text.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        let mut add = |title: &str, figures: &[(String, f64)]| {
            writeln!(text, "  {title}").unwrap();
            for (name, units) in figures {
                writeln!(text, "    {name:<86} {units:>7.3}").unwrap();
            }
        };
        add("by function and kind of row", &self.by_kind());
        let hottest = self.by_partition();
        add("the ten hottest partition keys", &hottest[..hottest.len().min(10)]);
        let of_due_index = self.by_due_partition();
        add("the ten hottest partitions of the due index", &of_due_index[..of_due_index.len().min(10)]);
        text
    }

    fn by(&self, name: impl Fn(&KeyUnits) -> Option<String>) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for key in &self.written {
            if let Some(name) = name(key) {
                *sums.entry(name).or_default() += key.units;
            }
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(name, units)| (name, self.per_one(units))).collect();
        sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        sums
    }

    fn per_one(&self, units: f64) -> f64 {
        units / f64::from(u32::try_from(self.count).unwrap())
    }
}

/// Returns the highest of some figures.
pub(crate) fn highest(figures: &[(String, f64)]) -> f64 {
    figures.first().map_or(0.0, |(_, units)| *units)
}

/// Whether a row, or an entry of an index, belongs to a delivery.
fn is_delivery(key: &KeyUnits) -> bool {
    key.partition.starts_with("deliveries#") || key.sort.starts_with("wd_")
}

fn is_api_key(key: &KeyUnits) -> bool {
    key.resource == "ApiKeysTable"
}

fn is_in_due_index(key: &KeyUnits) -> bool {
    key.resource.ends_with("/index/due")
}

/// Returns the kind of a row, such as `StateTable events# evt_`. An entry of an index has the kind of its row.
fn kind(key: &KeyUnits) -> String {
    let prefix = |key: &str| {
        let first = key.split_inclusive(['#', '_']).next().unwrap_or_default().to_owned();
        let is_id = !first.ends_with(['#', '_']) && first.contains(|letter: char| letter.is_ascii_digit());
        if is_id { "…".to_owned() } else { first }
    };
    format!("{} {} {}", key.resource, prefix(&key.partition), prefix(&key.sort))
}

fn partition(key: &KeyUnits) -> String {
    format!("{} {}", key.resource, key.partition)
}

/// A service without event sources, and what a flow needs to replace them.
struct Flow {
    service: Service,
    template: Template,
    /// The sequence number of the last stream record that was dispatched.
    dispatched: Option<String>,
    counts: RefCell<Counts>,
}

impl Flow {
    async fn start() -> Self {
        let service = Service::without_event_sources().await;
        service.proxy().count_partitions();
        let template = Template::deployed().unwrap();
        Self { service, template, dispatched: None, counts: RefCell::default() }
    }

    fn function(&self, name: &str) -> &Function {
        self.template.function(name).unwrap()
    }

    /// Sets all counts to zero.
    fn reset(&self) {
        self.service.proxy().reset();
        self.counts.take();
    }

    /// The read units since the last reset.
    fn read_units(&self) -> f64 {
        self.service.proxy().report().read_units
    }

    /// Dispatches the stream and runs the deliveries, until nothing is left to do. Then counts what has waited.
    async fn process_events(&mut self) {
        while self.dispatch().await || self.deliver().await {}
        let read_units_before = self.read_units();
        run_counts(&self.service).await;
        self.counts.borrow_mut().schedule_read_units += self.read_units() - read_units_before;
    }

    /// Dispatches the new records of the stream in batches. `false`: there are none.
    async fn dispatch(&mut self) -> bool {
        let records = stream_records_after(&self.service.stack, self.dispatched.as_deref());
        let Some(last) = records.last() else { return false };
        self.dispatched = Some(last["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned());
        let stream = &self.function("EventDispatcherFunction").streams[0];
        for batch in records.chunks(stream.batch_size) {
            let passes = |record: &&Value| stream.filters.iter().any(|filter| filter.matches(record));
            let batch: Vec<Value> = batch.iter().filter(passes).cloned().collect();
            if !batch.is_empty() {
                self.invoke("EventDispatcherFunction", &batch).await;
            }
        }
        true
    }

    /// Runs the deliveries whose messages are in a queue. `false`: there are none.
    async fn deliver(&self) -> bool {
        let read_units_before = self.read_units();
        let has_delivered = self.receive("WebhookWorkerFunction").await;
        self.counts.borrow_mut().delivery_read_units += self.read_units() - read_units_before;
        has_delivered
    }

    /// Invokes a function with the messages in its queues. `false`: there are none.
    async fn receive(&self, function: &'static str) -> bool {
        let mut has_received = false;
        for source in &self.function(function).queues {
            let (sqs, url) = self.service.queue(&source.queue);
            loop {
                let received = sqs
                    .receive_message()
                    .queue_url(&url)
                    .max_number_of_messages(source.batch_size.min(10).try_into().unwrap())
                    .message_system_attribute_names(MessageSystemAttributeName::All);
                let messages = received.send().await.unwrap().messages.unwrap_or_default();
                if messages.is_empty() {
                    break;
                }
                let arn = queue_arn(&source.queue);
                let records: Vec<Value> =
                    messages.iter().map(|message| lambda_record(message, &arn)).collect();
                self.invoke(function, &records).await;
                for message in &messages {
                    let handle = message.receipt_handle().unwrap();
                    sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
                }
                has_received = true;
            }
        }
        has_received
    }

    /// Invokes a function with stream records or messages. Fails if the function reports a failed one.
    async fn invoke(&self, function: &'static str, records: &[Value]) {
        *self.counts.borrow_mut().invocations.entry(function).or_default() += 1.0;
        let answer = invoke(&self.service.stack, function, records).await;
        assert_eq!(answer["batchItemFailures"], json!([]));
    }

    /// Invokes the scheduler as its schedules do.
    async fn run_schedules(&self) {
        let scheduler = self.service.stack.functions.get("SchedulerFunction").unwrap();
        let read_units_before = self.read_units();
        for schedule in &self.function("SchedulerFunction").schedules {
            let event = schedule.input.clone().unwrap_or_else(|| json!({}));
            scheduler(event).await.unwrap();
        }
        self.counts.borrow_mut().schedule_read_units += self.read_units() - read_units_before;
    }

    /// Lets some minutes pass, with the schedules of each.
    async fn pass_minutes(&mut self, minutes: usize) {
        for _ in 0..minutes {
            self.service.stack.clock.advance(60_000);
            self.run_schedules().await;
            self.process_events().await;
        }
    }

    /// Returns the cost since the last reset. `count`: the number of charges or refunds.
    fn cost(&self, count: usize) -> Cost {
        let Report { mut units_by_key, write_units, read_units, .. } = self.service.proxy().report();
        let by_key: f64 = units_by_key.iter().map(|key| key.units).sum();
        assert!((by_key - write_units).abs() < 0.5, "{by_key} units by key: {write_units}");
        // The sweep of the seeded bank connection and the checkpoint of new deliveries do not depend on the
        // charges.
        units_by_key.retain(|key| !matches!(key.sort.as_str(), "sweep" | "checkpoint"));
        Cost { written: units_by_key, read_units, counts: self.counts.borrow().clone(), count }
    }
}

/// The body of a charge without what a merchant can search for.
fn order() -> Value {
    json!({"amount": 1990, "description": "Pedido"})
}

/// Measures charges of one account that are created, paid and delivered to one endpoint at a constant rate
/// within a minute. The stream is dispatched each second. `has_lookups`: each has an order number and an e-mail
/// address.
pub(crate) async fn charges_of_a_minute(charges: usize, shards: ShardCount, has_lookups: bool) -> Cost {
    let mut flow = Flow::start().await;
    let settings = ShardSettings { read: shards, new_charges: shards };
    flow.service.change_settings(|of_account| of_account.shards = settings).await;
    let listener = Listener::start().await;
    flow.service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    flow.process_events().await;
    flow.reset();
    let orders: Vec<usize> = (0..charges).collect();
    for second in orders.chunks(CHARGES_A_SECOND) {
        let began = Instant::now();
        for number in second {
            let findable = json!({
                "amount": 1990, "metadata": {"order_id": number.to_string()},
                "customer": {"name": "Maria Souza", "email": format!("maria{number}@example.com")},
            });
            let body = if has_lookups { findable } else { order() };
            let charge = flow.service.new_charge(&body).await;
            flow.service.sandbox(&charge, "pay", &json!({})).await;
        }
        flow.process_events().await;
        let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap();
        flow.service.stack.clock.advance(1_000_i64.saturating_sub(took_ms).max(0));
    }
    flow.pass_minutes(MINUTES_AFTERWARDS).await;
    assert_eq!(listener.hooks().len(), 2 * charges);
    flow.cost(charges)
}

/// Measures one charge whose creation and payment are dispatched apart. One delivery in 64, chosen by its id,
/// also makes the counts of deliveries due. Such a charge is measured again, because it is not the usual one.
pub(crate) async fn charge_alone() -> Cost {
    usual(one_charge).await
}

/// Measures a live charge that is created, paid at the bank, read there and delivered to one endpoint, like
/// [`charge_alone`].
pub(crate) async fn live_charge_alone() -> Cost {
    usual(one_live_charge).await
}

async fn usual(measure: impl AsyncFn() -> Cost) -> Cost {
    loop {
        let cost = Box::pin(measure()).await;
        let is_of_counts = |key: &KeyUnits| key.partition.starts_with("deliveries#") && key.sort == "total";
        // On a busy machine, the scheduler may sum up between the charge's two changes, and must do it again.
        let schedules_sums = |key: &KeyUnits| key.partition.starts_with("rollup#") && key.sort == "total";
        if cost.units_of(is_of_counts) == 0.0 && cost.units_of(schedules_sums) <= 1.0 {
            return cost;
        }
    }
}

async fn one_charge() -> Cost {
    let mut flow = Flow::start().await;
    let listener = Listener::start().await;
    flow.service.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    flow.process_events().await;
    flow.reset();
    let charge = flow.service.new_charge(&order()).await;
    flow.process_events().await;
    flow.service.sandbox(&charge, "pay", &json!({})).await;
    flow.process_events().await;
    flow.pass_minutes(MINUTES_AFTERWARDS).await;
    assert_eq!(listener.hooks().len(), 2);
    flow.cost(1)
}

/// Measures a live charge up to the response, and its event without an endpoint.
pub(crate) async fn live_charge() -> Cost {
    let mut flow = Flow::start().await;
    flow.reset();
    flow.service.live_client().new_charge("order-0001", &order()).await;
    flow.process_events().await;
    flow.cost(1)
}

async fn one_live_charge() -> Cost {
    let mut flow = Flow::start().await;
    let (client, listener) = (flow.service.live_client(), Listener::start().await);
    client.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    flow.process_events().await;
    flow.reset();
    let charge = client.new_charge("order-0001", &order()).await;
    flow.process_events().await;
    let txid = charge["pix"]["txid"].as_str().unwrap().to_owned();
    flow.service.stack.bank.pay(&PayRequest { txid, ..PayRequest::default() }).unwrap();
    wait_until("the bank's notification", async || flow.dispatch().await).await;
    flow.receive("AcquirerWorkerFunction").await;
    flow.process_events().await;
    flow.pass_minutes(MINUTES_AFTERWARDS).await;
    assert_eq!(listener.hooks().len(), 2);
    flow.cost(1)
}

/// Measures a refund of a whole charge, from the request to `REFUNDED`, with its events and statistics.
/// `hold_days`: how long the charge's money is held. `destination`: the third party's Pix key.
pub(crate) async fn refund(hold_days: u16, destination: Option<&str>) -> Cost {
    let mut flow = Flow::start().await;
    let terms = MethodTerms { hold_days, ..MethodTerms::default() };
    flow.service
        .change_settings(|settings| {
            settings.third_party_refunds.test = Some(100_000);
            settings.terms.0.insert(PaymentMethod::Pix, terms);
        })
        .await;
    let charge = flow.service.pay(1_990).await;
    flow.process_events().await;
    flow.reset();
    let body = json!({"reason": "Devolvido pelo cliente", "destinationKey": destination});
    let refund = flow.service.refund(&charge, "refund-01", body).await.expect(201);
    run_acquirer_worker(&flow.service.stack, &refund).await;
    flow.service.stack.clock.advance(3_000);
    run_acquirer_worker(&flow.service.stack, &refund).await;
    flow.process_events().await;
    let cost = flow.cost(1);
    assert_eq!(flow.service.get_charge(&charge).await["status"], "refunded");
    cost
}

/// Measures a MED case that the merchant appeals and loses, with its events, audit row and statistics.
pub(crate) async fn med_case() -> Cost {
    let mut flow = Flow::start().await;
    let charge = flow.service.pay(1_990).await;
    flow.process_events().await;
    flow.reset();
    let service = &flow.service;
    let case = service.sandbox_answer(&charge, "med-cases", &json!({"reason": "Golpe"})).await.expect(201);
    let reason = json!({"reason": "O cliente recebeu o produto."});
    service.post(&format!("/v1/med/cases/{}/appeal", id(&case)), &reason).await.expect(200);
    let lost = json!({"decision": "payer"});
    service.post(&format!("/v1/sandbox/med/cases/{}/resolve", id(&case)), &lost).await.expect(200);
    flow.process_events().await;
    flow.cost(1)
}

/// Measures what a MED case with a deadline writes for its reminders, without their events and e-mails: its entry in the
/// due index, each reminder, and the removal of the entry of a case that is answered.
pub(crate) async fn case_reminders() -> Vec<f64> {
    let mut flow = Flow::start().await;
    let of_reminders = |flow: &Flow| {
        let is_of_case = |key: &KeyUnits| key.sort.contains("case#");
        let is_row =
            |key: &KeyUnits| key.caller == "SchedulerFunction" && key.partition.starts_with("charge#");
        flow.cost(1).units_of(|key| is_of_case(key) && (is_row(key) || is_in_due_index(key)))
    };
    let mut units = Vec::new();
    for is_answered in [true, false] {
        let charge = flow.service.pay(1_990).await;
        flow.process_events().await;
        flow.reset();
        let deadline = flow.service.stack.clock.now().saturating_plus_seconds(49 * 3_600);
        let case = json!({"reason": "Golpe", "response_deadline": deadline});
        let case = flow.service.sandbox_answer(&charge, "med-cases", &case).await.expect(201);
        units.push(of_reminders(&flow));
        if is_answered {
            flow.reset();
            let reason = json!({"reason": "O cliente recebeu o produto."});
            flow.service.post(&format!("/v1/med/cases/{}/appeal", id(&case)), &reason).await.expect(200);
            units.push(of_reminders(&flow));
        }
    }
    for hours in [2, 24, 18] {
        flow.process_events().await;
        flow.service.stack.clock.advance(hours * 3_600_000);
        flow.reset();
        flow.run_schedules().await;
        units.push(of_reminders(&flow));
    }
    units
}

/// Returns the units of a refund with its audit row. Its events and statistics do not count.
pub(crate) fn refund_units(cost: &Cost) -> f64 {
    cost.units_of(|key| key.caller != "EventDispatcherFunction" || key.partition.starts_with("audit#"))
}
