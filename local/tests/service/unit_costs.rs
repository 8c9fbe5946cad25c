//! Measures the write units of whole flows, in total, by kind of row and by partition key. The tests of
//! `budgets.rs` hold the budgets, and `cargo bench -p local` prints the figures beside them.
//!
//! A flow runs without event sources. It reads the stream, the delivery queues and the schedules itself, in
//! the batches of the template, so that the figures are the same on every machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use aws_sdk_sqs::types::MessageSystemAttributeName;
use axum::http::StatusCode;
use domain::account::AccountSettings;
use domain::account::terms::MethodTerms;
use domain::audit::Operator;
use domain::payment_method::PaymentMethod;
use domain::shard::{ShardCount, ShardSettings};
use hyper::Method;
use local::embedded::fault_proxy::{FaultProxy, KeyUnits, Report};
use local::stack::{Options, Stack};
use local::template::{QueueSource, StreamSource, Template, queue_arn, queue_url};
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::api_key::ApiKeys;
use shared::services::change_account_settings;
use shared::store::Store;

use crate::merchant::{Merchant, webhook_server};

/// A figure that is printed beside its budget and that a test holds.
pub(crate) struct Budget {
    pub(crate) figure: &'static str,
    pub(crate) at_most: f64,
}

impl Budget {
    const fn new(figure: &'static str, at_most: f64) -> Self {
        Self { figure, at_most }
    }
}

pub(crate) const CHARGES_OF_A_MINUTE: Budget =
    Budget::new("a charge among 1,000 of one account within a minute", 32.0);
pub(crate) const CHARGE_ALONE: Budget = Budget::new("a charge alone in its minute", 38.0);
/// Events and statistics are apart.
pub(crate) const REFUND: Budget = Budget::new("refund to REFUNDED, with its audit row", 24.0);
pub(crate) const REFUND_OF_HELD_MONEY: Budget = Budget::new("refund of held money, with its audit row", 25.0);
pub(crate) const REFUND_TO_THIRD_PARTY: Budget =
    Budget::new("refund to a third party, with its audit row", 25.0);
pub(crate) const HOTTEST_KEY: Budget = Budget::new("hottest partition key, per paid charge, one shard", 2.5);
pub(crate) const HOTTEST_KEY_OF_EIGHT_SHARDS: Budget =
    Budget::new("hottest partition key, per paid charge, eight shards", 0.5);
/// The ids of the charges decide their partitions, so this figure differs by some hundredths between runs.
pub(crate) const DUE_INDEX: Budget = Budget::new("hottest partition of the due index, per paid charge", 0.25);
pub(crate) const LIVE_CHARGE: Budget =
    Budget::new("live charge, created, with its event and statistics", 15.0);
/// Of these, 3 units schedule the count of the statistics, which not each run does.
pub(crate) const MED_CASE: Budget =
    Budget::new("MED case, appealed and lost, with its events and statistics", 46.0);

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
        self.per_one(matching.map(|key| key.written.units).fold(0.0, |sum, units| sum + units))
    }

    /// The measured quantities of a paid charge and of a delivery, by their paths in a profile of
    /// `admin/usage.json`.
    pub(crate) fn quantities(&self) -> [(&'static str, f64); 8] {
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
            ("/delivery/measured/dynamodb_write_units", delivery_units / WEBHOOKS),
            ("/delivery/measured/dynamodb_read_units", self.per_one(*delivery_read_units) / WEBHOOKS),
            (
                "/delivery/functions/webhook_worker/invocations",
                invocations("WebhookWorkerFunction") / WEBHOOKS,
            ),
        ]
    }

    /// The units by function and kind of row, the highest first.
    pub(crate) fn by_kind(&self) -> Vec<(String, f64)> {
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
        add(
            "apart",
            &[
                ("the API key's row".to_owned(), self.units_of(is_api_key)),
                ("the due index, all partitions".to_owned(), self.units_of(is_in_due_index)),
            ],
        );
        let of_due_index = self.by_due_partition();
        add("the ten hottest partitions of the due index", &of_due_index[..of_due_index.len().min(10)]);
        text
    }

    fn by(&self, name: impl Fn(&KeyUnits) -> Option<String>) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for key in &self.written {
            if let Some(name) = name(key) {
                *sums.entry(name).or_default() += key.written.units;
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

pub(crate) fn is_audit_row(key: &KeyUnits) -> bool {
    key.written.partition.starts_with("audit#")
}

/// Whether a row, or an entry of an index, belongs to a delivery.
fn is_delivery(key: &KeyUnits) -> bool {
    key.written.partition.starts_with("deliveries#") || key.written.sort.starts_with("wd_")
}

fn is_api_key(key: &KeyUnits) -> bool {
    key.written.resource == "ApiKeysTable"
}

fn is_in_due_index(key: &KeyUnits) -> bool {
    key.written.resource.ends_with("/index/due")
}

/// Returns the kind of a row, such as `StateTable events# evt_`. An entry of an index has the kind of its row.
fn kind(key: &KeyUnits) -> String {
    let written = &key.written;
    let prefix = |key: &str| {
        let first = key.split_inclusive(['#', '_']).next().unwrap_or_default().to_owned();
        let is_id = !first.ends_with(['#', '_']) && first.contains(|letter: char| letter.is_ascii_digit());
        if is_id { "…".to_owned() } else { first }
    };
    format!("{} {} {}", written.resource, prefix(&written.partition), prefix(&written.sort))
}

fn partition(key: &KeyUnits) -> String {
    format!("{} {}", key.written.resource, key.written.partition)
}

/// A service without event sources, and what a flow needs to replace them.
struct Flow {
    stack: Stack,
    merchant: Merchant,
    stream: StreamSource,
    delivery_queues: Vec<QueueSource>,
    sqs: aws_sdk_sqs::Client,
    /// The sequence number of the last stream record that was dispatched.
    dispatched: Option<String>,
    counts: RefCell<Counts>,
}

impl Flow {
    async fn start() -> Self {
        let options = Options { fault_proxy: true, event_sources: false, ..Options::in_memory() };
        let stack = Stack::start(options).await.unwrap();
        let template = Template::deployed().unwrap();
        let function = |name: &str| template.function(name).unwrap();
        let flow = Self {
            merchant: Merchant::of(&stack),
            stream: function("EventDispatcherFunction").streams[0].clone(),
            delivery_queues: function("WebhookWorkerFunction").queues.clone(),
            sqs: local::sdk::sqs(&stack.endpoints.sqs_url),
            stack,
            dispatched: None,
            counts: RefCell::default(),
        };
        flow.proxy().count_partitions();
        flow
    }

    fn proxy(&self) -> &FaultProxy {
        self.stack.fault_proxy.as_ref().unwrap()
    }

    /// Sets all counts to zero.
    fn reset(&self) {
        self.proxy().reset();
        self.counts.take();
    }

    /// The read units since the last reset.
    fn read_units(&self) -> f64 {
        self.proxy().report().read_units
    }

    async fn change_settings(&self, change: impl Fn(&mut AccountSettings)) {
        let store = Store::new(local::sdk::dynamodb(&self.stack.endpoints.dynamodb_url), "StateTable");
        let repositories = (&Accounts::new(store.clone()), &ApiKeys::new(store, "ApiKeysTable"));
        let operator = Operator {
            actor: "measurement".to_owned(),
            reason: "measurement".to_owned(),
            ..Operator::default()
        };
        let (account, now) = (self.stack.seed.first.id, self.stack.clock.now());
        change_account_settings(repositories, &account, "test", change, &operator, now).await.unwrap();
    }

    /// Dispatches the stream and runs the deliveries, until nothing is left to do.
    async fn process_events(&mut self) {
        while self.dispatch().await || self.deliver().await {}
    }

    /// Dispatches the new records of the stream in batches. `false`: there are none.
    async fn dispatch(&mut self) -> bool {
        let (database, after) = (self.stack.database(), self.dispatched.as_deref());
        let records = local::event_sources::stream_records(&database, &self.stream.table, after).unwrap();
        let Some(last) = records.last() else { return false };
        self.dispatched = Some(last["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned());
        for batch in records.chunks(self.stream.batch_size) {
            let passes = |record: &&Value| self.stream.filters.iter().any(|filter| filter.matches(record));
            let batch: Vec<Value> = batch.iter().filter(passes).cloned().collect();
            if !batch.is_empty() {
                self.invoke("EventDispatcherFunction", &batch).await;
            }
        }
        true
    }

    /// Runs the deliveries whose messages are in a queue. `false`: there are none.
    async fn deliver(&self) -> bool {
        let mut has_delivered = false;
        let read_units_before = self.read_units();
        for source in &self.delivery_queues {
            let url = queue_url(&self.stack.endpoints.sqs_url, &source.queue);
            loop {
                let received = self
                    .sqs
                    .receive_message()
                    .queue_url(&url)
                    .max_number_of_messages(source.batch_size.min(10).try_into().unwrap())
                    .message_system_attribute_names(MessageSystemAttributeName::All);
                let messages = received.send().await.unwrap().messages.unwrap_or_default();
                if messages.is_empty() {
                    break;
                }
                let record = |message: &aws_sdk_sqs::types::Message| {
                    json!({
                        "messageId": message.message_id(),
                        "receiptHandle": message.receipt_handle(),
                        "body": message.body(),
                        "attributes": message.attributes().unwrap().iter()
                            .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
                            .collect::<serde_json::Map<_, _>>(),
                        "messageAttributes": {},
                        "eventSource": "aws:sqs",
                        "eventSourceARN": queue_arn(&source.queue),
                    })
                };
                let records: Vec<Value> = messages.iter().map(record).collect();
                self.invoke("WebhookWorkerFunction", &records).await;
                for message in &messages {
                    let handle = message.receipt_handle().unwrap();
                    self.sqs.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
                }
                has_delivered = true;
            }
        }
        self.counts.borrow_mut().delivery_read_units += self.read_units() - read_units_before;
        has_delivered
    }

    /// Invokes a function with stream records or messages. Fails if the function reports a failed one.
    async fn invoke(&self, function: &'static str, records: &[Value]) {
        *self.counts.borrow_mut().invocations.entry(function).or_default() += 1.0;
        let function = self.stack.functions.get(function).unwrap();
        let answer = function(json!({ "Records": records })).await.unwrap();
        assert_eq!(answer["batchItemFailures"], json!([]));
    }

    /// Invokes the acquirer worker with a refund's message.
    async fn run_acquirer_worker(&self, refund: &Value) {
        let body = json!({"refund": {"id": refund["id"]}}).to_string();
        let message = json!({"messageId": "m", "body": body, "eventSource": "aws:sqs"});
        self.invoke("AcquirerWorkerFunction", &[message]).await;
    }

    /// Invokes the scheduler as its schedules do.
    async fn run_schedules(&self) {
        let template = Template::deployed().unwrap();
        let scheduler = self.stack.functions.get("SchedulerFunction").unwrap();
        let read_units_before = self.read_units();
        for schedule in &template.function("SchedulerFunction").unwrap().schedules {
            let event = schedule.input.clone().unwrap_or_else(|| json!({}));
            scheduler(event).await.unwrap();
        }
        self.counts.borrow_mut().schedule_read_units += self.read_units() - read_units_before;
    }

    /// Lets some minutes pass, with the schedules of each.
    async fn pass_minutes(&mut self, minutes: usize) {
        for _ in 0..minutes {
            self.stack.clock.advance(60_000);
            self.run_schedules().await;
            self.process_events().await;
        }
    }

    /// Returns the cost since the last reset. `count`: the number of charges or refunds.
    fn cost(&self, count: usize) -> Cost {
        let Report { mut units_by_key, write_units, read_units, .. } = self.proxy().report();
        let by_key: f64 = units_by_key.iter().map(|key| key.written.units).sum();
        assert!((by_key - write_units).abs() < 0.5, "{by_key} units by key: {write_units}");
        // The sweep of the seeded bank connection and the checkpoint of new deliveries do not depend on the
        // charges.
        units_by_key.retain(|key| !matches!(key.written.sort.as_str(), "sweep" | "checkpoint"));
        Cost { written: units_by_key, read_units, counts: self.counts.borrow().clone(), count }
    }

    /// Ends the flow and returns its cost.
    async fn end(self, count: usize) -> Cost {
        let cost = self.cost(count);
        self.stack.stop().await;
        cost
    }
}

/// Measures charges of one account that are created, paid and delivered to one endpoint at a constant rate
/// within a minute. The stream is dispatched each second. `has_lookups`: each has an order number and an e-mail
/// address.
pub(crate) async fn charges_of_a_minute(charges: usize, shards: ShardCount, has_lookups: bool) -> Cost {
    let mut flow = Flow::start().await;
    flow.change_settings(|settings| {
        settings.shards = ShardSettings { read: shards, new_charges: shards };
    })
    .await;
    let (url, received) = webhook_server(StatusCode::NO_CONTENT).await;
    flow.merchant.register_endpoint(&url, &["charge.created", "charge.paid"]).await;
    flow.process_events().await;
    flow.reset();
    let orders: Vec<usize> = (0..charges).collect();
    for second in orders.chunks(CHARGES_A_SECOND) {
        let began = Instant::now();
        for order in second {
            let charge = if has_lookups {
                flow.merchant.create_findable(*order).await
            } else {
                flow.merchant.create(*order).await
            };
            flow.merchant.pay(&charge).await;
        }
        flow.process_events().await;
        let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap();
        flow.stack.clock.advance(1_000_i64.saturating_sub(took_ms).max(0));
    }
    flow.pass_minutes(MINUTES_AFTERWARDS).await;
    assert_eq!(received.lock().unwrap().len(), 2 * charges);
    flow.end(charges).await
}

/// Measures one charge whose creation and payment are dispatched apart. One delivery in 64, chosen by its id,
/// also makes the counts of deliveries due. Such a charge is measured again, because it is not the usual one.
pub(crate) async fn charge_alone() -> Cost {
    loop {
        let cost = Box::pin(one_charge()).await;
        let is_of_counts =
            |key: &KeyUnits| key.written.partition.starts_with("deliveries#") && key.written.sort == "total";
        // On a busy machine, the scheduler may sum up between the charge's two changes, and must do it again.
        let schedules_sums = |key: &KeyUnits| {
            let is_total = key.written.partition.starts_with("rollup#") && key.written.sort == "total";
            is_total && key.caller == "EventDispatcherFunction"
        };
        if cost.units_of(is_of_counts) == 0.0 && cost.units_of(schedules_sums) <= 1.0 {
            return cost;
        }
    }
}

async fn one_charge() -> Cost {
    let mut flow = Flow::start().await;
    let (url, received) = webhook_server(StatusCode::NO_CONTENT).await;
    flow.merchant.register_endpoint(&url, &["charge.created", "charge.paid"]).await;
    flow.process_events().await;
    flow.reset();
    let charge = flow.merchant.create(0).await;
    flow.process_events().await;
    flow.merchant.pay(&charge).await;
    flow.process_events().await;
    flow.pass_minutes(MINUTES_AFTERWARDS).await;
    assert_eq!(received.lock().unwrap().len(), 2);
    flow.end(1).await
}

/// Measures a live charge up to the response, and its event without an endpoint.
pub(crate) async fn live_charge() -> Cost {
    let mut flow = Flow::start().await;
    let live = Merchant::with_key(&flow.stack, &flow.stack.seed.first.live_api_key);
    flow.reset();
    live.create(0).await;
    flow.process_events().await;
    flow.end(1).await
}

/// Measures a refund of a whole charge, from the request to `REFUNDED`, with its events and statistics.
/// `hold_days`: how long the charge's money is held. `destination`: the third party's Pix key.
pub(crate) async fn refund(hold_days: u16, destination: Option<&str>) -> Cost {
    let mut flow = Flow::start().await;
    flow.change_settings(|settings| {
        settings.third_party_refunds.test = Some(100_000);
        settings.terms.0.insert(PaymentMethod::Pix, MethodTerms { hold_days, ..MethodTerms::default() });
    })
    .await;
    let charge = flow.merchant.create(0).await;
    flow.merchant.pay(&charge).await;
    flow.process_events().await;
    flow.reset();
    let path = format!("/v1/payments/{}/refund", charge.trim_start_matches("ch_"));
    let body = json!({
        "idempotencyKey": "refund-01", "reason": "Devolvido pelo cliente", "destinationKey": destination,
    });
    let refund = flow.merchant.post(&path, &body).await;
    flow.run_acquirer_worker(&refund).await;
    flow.stack.clock.advance(3_000);
    flow.run_acquirer_worker(&refund).await;
    flow.process_events().await;
    let cost = flow.cost(1);
    let charge = flow.merchant.send(Method::GET, &format!("/v1/charges/{charge}"), "", &Value::Null).await;
    assert_eq!(charge["status"], "refunded");
    flow.stack.stop().await;
    cost
}

/// Measures a MED case that the merchant appeals and loses, with its events, audit row and statistics.
pub(crate) async fn med_case() -> Cost {
    let mut flow = Flow::start().await;
    let charge = flow.merchant.create(0).await;
    flow.merchant.pay(&charge).await;
    flow.process_events().await;
    flow.reset();
    let post = async |path: String, body: Value| flow.merchant.post(&path, &body).await;
    let case = post(format!("/v1/sandbox/charges/{charge}/med-cases"), json!({"reason": "Golpe"})).await;
    let case = case["id"].as_str().unwrap();
    let reason = json!({"reason": "O cliente recebeu o produto."});
    post(format!("/v1/med/cases/{case}/appeal"), reason).await;
    post(format!("/v1/sandbox/med/cases/{case}/resolve"), json!({"decision": "payer"})).await;
    flow.process_events().await;
    flow.end(1).await
}

/// Returns the units of a refund without and with its audit row. Its events and statistics do not count.
pub(crate) fn refund_units(cost: &Cost) -> (f64, f64) {
    let own = cost.units_of(|key| key.caller != "EventDispatcherFunction");
    (own, own + cost.units_of(is_audit_row))
}
