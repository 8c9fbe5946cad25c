//! Carries out the steps of a simulation, and compares the service with the model.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use bank::{Cents, PayRequest};
use domain::ids::{Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::shard::ShardCount;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use hyper::Method;
use local::seed::SeededAccount;
use local::template::Template;
use serde_json::{Value, json};
use shared::account::{AccountError, Accounts};
use shared::api_key::ApiKeys;
use shared::payout::{PayoutError, Payouts};
use shared::services::raise_shards;
use shared::store::Store;
use trials::dice::Dice;

use super::model::{Account, Charge, Status};
use super::plan::{Action, EndpointChange, Ledger, Rows, Step};
use super::pump::Pump;
use super::rows;
use crate::fault;
use crate::world::{Answer, HOOK, ROUND_S, World, items, operator, text};
use crate::{Error, Result};

/// The chance that a call fails, in thousandths.
const FAULTS_PER_MILLE: u64 = 20;

/// The most deliveries between two steps.
const MOST_DELIVERIES: u64 = 6;

/// The beginnings of the paths of the first account's second endpoint, of the second account's endpoint, and of
/// the endpoint of live mode.
const SECOND_HOOK: &str = "/second";
const OTHER_HOOK: &str = "/other";
const LIVE_HOOK: &str = "/live";

/// How the clock advances after the last step, in seconds, before the rounds: longer than any charge lives,
/// and than the longest pause after failed requests to a bank, which is six hours.
const PAST_EXPIRIES_S: i64 = 22_000;

/// The most rounds at the end.
const MOST_ROUNDS: usize = 40;

/// How close to its expiry no charge is paid, declined or cancelled, in milliseconds: the machine's time also
/// passes.
const MARGIN_MS: i64 = 30_000;

/// How long the bank takes for a notification that is due.
const NOTIFIED: Duration = Duration::from_millis(40);

const ENDPOINTS: &str = "/v1/webhooks/endpoints";
const API_KEYS: &str = "/v1/api-keys";

/// Returns the beginning of the paths of the endpoint that receives all events of a ledger.
fn hook_of(ledger: Ledger) -> &'static str {
    match ledger {
        Ledger::First => HOOK,
        Ledger::Second => OTHER_HOOK,
        Ledger::Live => LIVE_HOOK,
    }
}

fn all_events() -> Vec<&'static str> {
    EventType::subscribable().map(EventType::as_str).collect()
}

/// Returns what the bank's books show as received and as returned, in centavos.
fn books(snapshot: &Value) -> (i64, i64) {
    let cents = |value: &Value| text(value, "valor").replace('.', "").parse().unwrap_or(0_i64);
    let (mut received, mut returned) = (0_i64, 0_i64);
    for pix in items(&snapshot["pix"]) {
        received = received.saturating_add(cents(pix));
        let executed = items(&pix["devolucoes"]).iter().filter(|one| text(one, "status") == "DEVOLVIDO");
        returned = executed.map(cents).fold(returned, i64::saturating_add);
    }
    (received, returned)
}

struct Simulation {
    world: World,
    pump: Pump,
    accounts: BTreeMap<Ledger, Account>,
    /// The merchants' API keys.
    keys: BTreeMap<Ledger, String>,
    /// The bodies of the requests that a repetition sends again, by ledger and order or payment.
    bodies: BTreeMap<(Ledger, &'static str, usize), Value>,
    /// The ids of the endpoints that receive all events.
    endpoints: BTreeMap<Ledger, String>,
    /// The bank's ids of the live charges, by order.
    txids: BTreeMap<usize, String>,
    second_endpoint: String,
    /// The beginnings of the paths of the first account's second endpoint and its successors.
    second_hooks: Vec<String>,
    is_second_active: bool,
    has_second_all_events: bool,
    /// The keys of rows that a newer version wrote.
    newer_rows: Vec<HashMap<String, AttributeValue>>,
    /// How many rows were written as an earlier version writes them.
    former_rows: usize,
}

/// What happened in simulations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Charges that were created.
    pub charges: usize,
    /// Payments that were received, for charges that could be paid or not.
    pub payments: usize,
    /// Refunds that were accepted.
    pub refunds: usize,
    /// Calls of functions to other services.
    pub calls: usize,
    /// Calls that failed.
    pub faults: usize,
    /// Webhooks that the merchants' servers accepted.
    pub webhooks: usize,
    /// Payments at the bank.
    pub live_payments: usize,
    /// Rows that were written as another version writes them.
    pub rows: usize,
}

impl Totals {
    /// Adds the totals of another simulation.
    pub fn add(&mut self, other: Self) {
        let Self { charges, payments, refunds, calls, faults, webhooks, live_payments, rows } = other;
        self.charges = self.charges.saturating_add(charges);
        self.payments = self.payments.saturating_add(payments);
        self.refunds = self.refunds.saturating_add(refunds);
        self.calls = self.calls.saturating_add(calls);
        self.faults = self.faults.saturating_add(faults);
        self.webhooks = self.webhooks.saturating_add(webhooks);
        self.live_payments = self.live_payments.saturating_add(live_payments);
        self.rows = self.rows.saturating_add(rows);
    }
}

/// Carries out steps with the disturbances of a seed.
///
/// # Errors
///
/// When the service differs from the model, or when the simulation can't be carried out.
pub async fn simulate(seed: u64, steps: &[Step]) -> Result<Totals> {
    let world = World::start(false).await?;
    let pump = Pump::new(&world)?;
    let (first, second) = (&world.stack.seed.first, &world.stack.seed.other);
    let keys = [&first.test_api_key, &second.test_api_key, &first.live_api_key].map(String::clone);
    let mut simulation = Simulation {
        keys: Ledger::ALL.into_iter().zip(keys).collect(),
        world,
        pump,
        accounts: Ledger::ALL.map(|ledger| (ledger, Account::default())).into(),
        bodies: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        txids: BTreeMap::new(),
        second_endpoint: String::new(),
        second_hooks: vec![format!("{SECOND_HOOK}/0/")],
        is_second_active: true,
        has_second_all_events: true,
        newer_rows: Vec::new(),
        former_rows: 0,
    };
    simulation.prepare(seed).await?;
    for step in steps {
        simulation.step(step).await.map_err(|error| Error::new(format!("step {step}: {error}")))?;
        let dice = Dice::new(seed, step.number);
        let deliveries = usize::try_from(dice.below("deliveries", MOST_DELIVERIES)).unwrap_or_default();
        for place in 0..deliveries {
            simulation.pump.act(&simulation.world, &dice, place).await?;
        }
    }
    let outcome = simulation.end().await;
    let totals = simulation.totals();
    simulation.world.stack.stop().await;
    outcome.map(|()| totals)
}

impl Simulation {
    async fn prepare(&mut self, seed: u64) -> Result<()> {
        for ledger in [Ledger::First, Ledger::Live] {
            let listed = self.get(ledger, ENDPOINTS).await?;
            let first = items(&listed["data"]).first().map(|endpoint| text(endpoint, "id").to_owned());
            self.endpoints.insert(ledger, first.unwrap_or_default());
        }
        // The world's endpoints of both modes have the same path.
        self.change_endpoint(Ledger::Live, EndpointChange::Url, 0).await?;
        let second = self.create_endpoint(Ledger::Second, OTHER_HOOK).await?;
        self.endpoints.insert(Ledger::Second, second);
        self.second_endpoint = self.create_endpoint(Ledger::First, &format!("{SECOND_HOOK}/0/")).await?;
        let place = std::sync::atomic::AtomicUsize::new(0);
        self.world.front.set_faults(move |call| {
            let place = place.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let dice = Dice::new(seed.wrapping_add(1), place);
            let faults: Vec<fault::Fault> =
                fault::ALL.into_iter().filter(|fault| fault.can_affect(call)).collect();
            dice.chance("fault", FAULTS_PER_MILLE).then(|| dice.pick("kind", &faults).copied())?
        });
        self.world.front.record();
        Ok(())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals {
            calls: self.world.front.calls().len(),
            faults: self.world.front.faults(),
            webhooks: self.world.front.webhooks().len(),
            live_payments: self.accounts.get(&Ledger::Live).map_or(0, |live| live.payments.len()),
            rows: self.newer_rows.len().saturating_add(self.former_rows),
            ..Totals::default()
        };
        for account in self.accounts.values() {
            totals.add(Totals {
                charges: account.charges.len(),
                payments: account.payments.len(),
                refunds: account.charges.values().map(|charge| charge.refunds).sum(),
                ..Totals::default()
            });
        }
        totals
    }

    fn key(&self, ledger: Ledger) -> &str {
        self.keys.get(&ledger).map_or("", String::as_str)
    }

    /// Returns the seeded account of a ledger.
    fn seeded(&self, ledger: Ledger) -> &SeededAccount {
        let seed = &self.world.stack.seed;
        if ledger == Ledger::Second { &seed.other } else { &seed.first }
    }

    fn scope(&self, ledger: Ledger) -> Scope {
        let mode = if ledger == Ledger::Live { Mode::Live } else { Mode::Test };
        Scope { account: self.seeded(ledger).id, mode }
    }

    fn account(&mut self, ledger: Ledger) -> &mut Account {
        self.accounts.entry(ledger).or_default()
    }

    async fn post(&self, ledger: Ledger, path: &str, body: &Value) -> Result<Answer> {
        self.world.settle(Method::POST, path, &[("apikey", self.key(ledger))], body).await
    }

    async fn get(&self, ledger: Ledger, path: &str) -> Result<Value> {
        let headers = [("apikey", self.key(ledger))];
        self.world.settle(Method::GET, path, &headers, &Value::Null).await?.expect(200)
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        let ledger = step.ledger;
        self.pass_time();
        match step.action {
            Action::Create { order, amount, expires_in, twice } => {
                let body = json!({"amount": amount, "expires_in": expires_in});
                self.create(ledger, order, body, twice).await
            }
            Action::Pay { order, is_wrong, payment } if ledger == Ledger::Live => {
                self.pay_at_bank(order, payment, is_wrong).await
            }
            Action::Cancel(order) if ledger == Ledger::Live => self.cancel_live(order).await,
            Action::Pay { order, is_wrong, payment } => self.pay(ledger, order, payment, is_wrong).await,
            Action::Fail(order) => self.end_pending(ledger, order, "fail").await,
            Action::Expire(order) => self.end_pending(ledger, order, "expire").await,
            Action::Cancel(order) => self.end_pending(ledger, order, "cancel").await,
            Action::Refund { order, percent, fails } => {
                self.refund(ledger, order, percent, (fails, step.number)).await
            }
            Action::OpenCase(order) => self.open_case(ledger, order).await,
            Action::Decide { order, for_merchant } => self.decide(ledger, order, for_merchant).await,
            Action::PayOut { percent, is_paid } => self.pay_out(ledger, percent, is_paid).await,
            Action::Endpoint(change) => self.change_endpoint(ledger, change, step.number).await,
            Action::ReplaceKey => self.replace_key(ledger).await,
            Action::RaiseShards(number) => self.raise_shards(ledger, number).await,
            Action::BankFault(kind, count) => {
                self.world.stack.bank.inject_fault(kind, count);
                Ok(())
            }
            Action::Deploy(rows) => {
                self.write_rows(rows).await?;
                let template = Template::deployed().map_err(Error::of("reading the template"))?;
                for function in &template.functions {
                    if let Some(environment) = self.world.stack.functions.environment(&function.logical_id) {
                        environment.kill().map_err(Error::of("deploying a function"))?;
                    }
                }
                Ok(())
            }
            Action::Pass(seconds) => {
                self.world.advance(seconds).await?;
                self.pass_time();
                Ok(())
            }
        }
    }

    /// Lets the model know the time.
    fn pass_time(&mut self) {
        let now = self.world.now().millis();
        for account in self.accounts.values_mut() {
            account.pass(now);
        }
    }

    /// Returns a charge, if it exists.
    fn charge(&self, ledger: Ledger, order: usize) -> Option<&Charge> {
        self.accounts.get(&ledger)?.charges.get(&order)
    }

    /// Returns a charge that stays pending for a while.
    fn pending(&self, ledger: Ledger, order: usize) -> Option<&Charge> {
        let latest = self.world.now().millis().saturating_add(MARGIN_MS);
        self.charge(ledger, order)
            .filter(|charge| charge.status == Status::Pending && charge.expires_at_ms > latest)
    }

    async fn create(&mut self, ledger: Ledger, order: usize, body: Value, twice: bool) -> Result<()> {
        let body = self.bodies.entry((ledger, "order", order)).or_insert(body).clone();
        let key = format!("order-{order:06}");
        let headers = [("apikey", self.key(ledger)), ("idempotency-key", key.as_str())];
        let request = async || -> Result<Value> {
            self.world.settle(Method::POST, "/v1/pix/charges", &headers, &body).await?.expect(201)
        };
        let created = if twice {
            let (created, again) = tokio::join!(request(), request());
            let (created, again) = (created?, again?);
            if created["id"] != again["id"] {
                return Err(Error::new(format!("one key created {} and {}", created["id"], again["id"])));
            }
            created
        } else {
            request().await?
        };
        let id = text(&created, "id").to_owned();
        if ledger == Ledger::Live {
            let txid = created.pointer("/pix/txid").and_then(Value::as_str).unwrap_or_default();
            self.txids.insert(order, txid.to_owned());
        }
        if let Some(known) = self.charge(ledger, order) {
            if known.id != id {
                return Err(Error::new(format!("a repetition created {id} beside {}", known.id)));
            }
            return Ok(());
        }
        let expires_at = created.pointer("/pix/expires_at").and_then(Value::as_str).unwrap_or_default();
        let expires_at = Timestamp::parse_floor(expires_at).map_err(Error::of("the expiry"))?;
        let amount = body["amount"].as_i64().unwrap_or_default();
        self.account(ledger).create(order, &id, amount, expires_at.millis());
        Ok(())
    }

    async fn pay(&mut self, ledger: Ledger, order: usize, payment: usize, is_wrong: bool) -> Result<()> {
        let Some(charge) = self.charge(ledger, order) else { return Ok(()) };
        if charge.status == Status::Pending && self.pending(ledger, order).is_none() {
            return Ok(());
        }
        let (path, amount) = (format!("/v1/sandbox/charges/{}/pay", charge.id), charge.amount);
        let id = format!(
            "E00000000202611231200{:011}",
            payment.saturating_mul(2).saturating_add((ledger == Ledger::Second).into())
        );
        let amount = amount.saturating_add(is_wrong.into());
        let body = json!({"amount": amount, "end_to_end_id": id});
        let body = self.bodies.entry((ledger, "payment", payment)).or_insert(body).clone();
        let paid = self.post(ledger, &path, &body).await?.expect(200)?;
        self.account(ledger).pay(order, payment, is_wrong);
        self.check_status(ledger, order, &paid)
    }

    /// A payer pays at the bank. The service learns it from a notification or a sweep.
    async fn pay_at_bank(&mut self, order: usize, payment: usize, is_wrong: bool) -> Result<()> {
        let Some(charge) = self.charge(Ledger::Live, order) else { return Ok(()) };
        let is_open = match charge.status {
            Status::Pending => self.pending(Ledger::Live, order).is_some(),
            status => matches!(status, Status::Paid | Status::Refunded),
        };
        let now = self.world.now().millis().saturating_add(MARGIN_MS);
        let is_known = self.accounts.get(&Ledger::Live).is_some_and(|one| one.payments.contains(&payment));
        // The bank refuses other payments.
        if !is_open || is_known || charge.expires_at_ms <= now {
            return Ok(());
        }
        let amount = u64::try_from(charge.amount).unwrap_or_default().saturating_add(is_wrong.into());
        let request = PayRequest {
            txid: self.txids.get(&order).cloned().unwrap_or_default(),
            amount: Cents::new(amount),
            again: charge.payments > 0,
            ..PayRequest::default()
        };
        self.world.stack.bank.pay(&request).map_err(Error::of("paying at the bank"))?;
        self.account(Ledger::Live).pay(order, payment, is_wrong);
        // The bank notifies the service soon.
        self.world.advance(1).await?;
        tokio::time::sleep(NOTIFIED).await;
        Ok(())
    }

    /// Cancels a live charge, perhaps while the service does not know yet that it is paid.
    async fn cancel_live(&mut self, order: usize) -> Result<()> {
        let Some(charge) = self.charge(Ledger::Live, order) else { return Ok(()) };
        let path = format!("/v1/payments/{}/cancel", charge.id.trim_start_matches("ch_"));
        if charge.status == Status::Paid && charge.refunds == 0 {
            self.post(Ledger::Live, &path, &json!({})).await?.expect(422)?;
        } else if charge.payments == 0 && self.pending(Ledger::Live, order).is_some() {
            let answer = self.post(Ledger::Live, &path, &json!({})).await?;
            // A repetition finds the charge cancelled.
            if answer.status != 422 {
                answer.expect(200)?;
            }
            self.account(Ledger::Live).cancel(order);
        }
        Ok(())
    }

    /// Compares the status in a response with the model.
    fn check_status(&self, ledger: Ledger, order: usize, answer: &Value) -> Result<()> {
        let Some(charge) = self.charge(ledger, order) else { return Ok(()) };
        // Refunds are completed some time after they are accepted.
        if charge.refunds > 0 || text(answer, "status") == charge.status.as_str() {
            return Ok(());
        }
        let (found, expected) = (text(answer, "status"), charge.status.as_str());
        Err(Error::new(format!("the charge is {found}; it must be {expected}")))
    }

    async fn end_pending(&mut self, ledger: Ledger, order: usize, how: &str) -> Result<()> {
        let Some(charge) = self.pending(ledger, order) else { return Ok(()) };
        let path = match how {
            "cancel" => format!("/v1/payments/{}/cancel", charge.id.trim_start_matches("ch_")),
            how => format!("/v1/sandbox/charges/{}/{how}", charge.id),
        };
        let answer = self.post(ledger, &path, &json!({})).await?;
        // A repetition finds the charge cancelled.
        if !(how == "cancel" && answer.status == 422) {
            answer.expect(200)?;
        }
        match how {
            "expire" => self.account(ledger).expire(order),
            "cancel" => self.account(ledger).cancel(order),
            _ => self.account(ledger).fail(order),
        }
        Ok(())
    }

    async fn refund(
        &mut self,
        ledger: Ledger,
        order: usize,
        percent: i64,
        (fails, number): (bool, usize),
    ) -> Result<()> {
        let charge = self.charge(ledger, order).filter(|charge| charge.status == Status::Paid);
        let Some(charge) = charge else { return Ok(()) };
        // The service may not know a payment at the bank yet. Only the sandbox lets a chosen refund fail.
        let fails = fails && ledger != Ledger::Live;
        let read = self.get(ledger, &format!("/v1/charges/{}", charge.id)).await?;
        if text(&read, "status") != "paid" {
            return Ok(());
        }
        let left = charge.amount.saturating_sub(charge.refunded);
        let amount = left.saturating_mul(percent).checked_div(100).unwrap_or_default().clamp(1, left.max(1));
        let path = format!("/v1/payments/{}/refund", charge.id.trim_start_matches("ch_"));
        let mut body = json!({
            "amount": amount, "strategy": "devolution", "idempotencyKey": format!("refund-{number:04}"),
        });
        if let Some(fields) = body.as_object_mut().filter(|_| fails) {
            fields.insert("reason".to_owned(), "sandbox:fail".into());
        }
        let answer = self.post(ledger, &path, &body).await?;
        let code = answer.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        // What an earlier refund takes that fails later is missing meanwhile.
        if answer.status == 422 && ["insufficient_balance", "refund_exceeds_remaining"].contains(&code) {
            return Ok(());
        }
        answer.expect(201)?;
        self.account(ledger).refund(order, amount, fails);
        Ok(())
    }

    async fn open_case(&mut self, ledger: Ledger, order: usize) -> Result<()> {
        let charge = self.charge(ledger, order).filter(|charge| charge.status == Status::Paid);
        let Some(id) = charge.map(|charge| charge.id.clone()) else { return Ok(()) };
        let refunds = format!("/v1/payments/{}/refunds", id.trim_start_matches("ch_"));
        let refunds = self.get(ledger, &refunds).await?;
        let is_final = |refund: &Value| ["REFUNDED", "FAILED"].contains(&text(refund, "status"));
        // What a refund in progress will take is not known yet.
        if !items(&refunds["data"]).iter().all(is_final) {
            return Ok(());
        }
        let path = format!("/v1/sandbox/charges/{id}/med-cases");
        let case = self.post(ledger, &path, &json!({})).await?.expect(201)?;
        self.account(ledger).open_case(order, text(&case, "id"));
        Ok(())
    }

    async fn decide(&mut self, ledger: Ledger, order: usize, for_merchant: bool) -> Result<()> {
        let case = self.charge(ledger, order).and_then(|charge| charge.case.as_ref());
        let Some((id, _)) = case else { return Ok(()) };
        let path = format!("/v1/sandbox/med/cases/{id}/resolve");
        let decision = if for_merchant { "merchant" } else { "payer" };
        self.post(ledger, &path, &json!({ "decision": decision })).await?.expect(200)?;
        self.account(ledger).decide(order, for_merchant);
        Ok(())
    }

    async fn pay_out(&mut self, ledger: Ledger, percent: i64, is_paid: bool) -> Result<()> {
        let available = self.account(ledger).available;
        let amount = available.saturating_mul(percent).checked_div(100).unwrap_or_default();
        let Ok(amount) = Amount::parse(amount) else { return Ok(()) };
        let payouts = Payouts::new(self.world.operator_store());
        let random = shared::random::bytes().map_err(Error::of("a random number"))?;
        let (id, scope) = (PayoutId::new(self.world.now(), random), self.scope(ledger));
        loop {
            match payouts.create(id, scope, (amount, Currency::BRL), &operator(), self.world.now()).await {
                Ok(_) => break,
                Err(PayoutError::Store(_)) => {}
                // What a refund takes that fails later is missing meanwhile.
                Err(PayoutError::InsufficientBalance { .. }) => return Ok(()),
                Err(error) => return Err(Error::of("creating a payout")(error)),
            }
        }
        let outcome = if is_paid {
            PayoutOutcome::Paid
        } else {
            PayoutOutcome::Failed { reason: "account closed".to_owned() }
        };
        loop {
            match payouts.end(id, &outcome, &operator(), self.world.now()).await {
                Ok(_) => break,
                Err(PayoutError::Store(_)) => {}
                Err(error) => return Err(Error::of("ending a payout")(error)),
            }
        }
        self.account(ledger).pay_out(amount.minor(), is_paid);
        Ok(())
    }

    /// Creates an endpoint for all events. Returns its id.
    async fn create_endpoint(&self, ledger: Ledger, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.world.front.receiver_url());
        let body = json!({"url": url, "events": all_events()});
        let created = self.post(ledger, ENDPOINTS, &body).await?.expect(201)?;
        Ok(text(&created, "id").to_owned())
    }

    async fn change_endpoint(&mut self, ledger: Ledger, change: EndpointChange, number: usize) -> Result<()> {
        let main = self.endpoints.get(&ledger).cloned().unwrap_or_default();
        let (ledger, id, body) = match change {
            EndpointChange::Url => {
                let hook = format!("{}{}/{number}", self.world.front.receiver_url(), hook_of(ledger));
                (ledger, main, json!({ "url": hook }))
            }
            EndpointChange::Secret => {
                let path = format!("{ENDPOINTS}/{main}/rotate-secret");
                return self.post(ledger, &path, &json!({})).await?.expect(200).map(drop);
            }
            EndpointChange::Status => {
                self.is_second_active = !self.is_second_active;
                let status = if self.is_second_active { "ACTIVE" } else { "INACTIVE" };
                (Ledger::First, self.second_endpoint.clone(), json!({ "status": status }))
            }
            EndpointChange::Events => {
                self.has_second_all_events = !self.has_second_all_events;
                let step = if self.has_second_all_events { 1 } else { 2 };
                let events: Vec<&str> = all_events().into_iter().step_by(step).collect();
                (Ledger::First, self.second_endpoint.clone(), json!({ "events": events }))
            }
            EndpointChange::Replacement => {
                let path = format!("{ENDPOINTS}/{}", self.second_endpoint);
                let headers = [("apikey", self.key(Ledger::First))];
                let deleted = self.world.settle(Method::DELETE, &path, &headers, &Value::Null).await?;
                // A repetition finds no endpoint.
                if deleted.status != 404 {
                    deleted.expect(200)?;
                }
                // It has a path of its own, so that deliveries of the deleted endpoint are not counted for the new one.
                let path = format!("{SECOND_HOOK}/{number}/");
                self.second_endpoint = self.create_endpoint(Ledger::First, &path).await?;
                self.second_hooks.push(path);
                (self.is_second_active, self.has_second_all_events) = (true, true);
                return Ok(());
            }
        };
        let headers = [("apikey", self.key(ledger))];
        let path = format!("{ENDPOINTS}/{id}");
        self.world.settle(Method::PATCH, &path, &headers, &body).await?.expect(200).map(drop)
    }

    /// Issues another API key and revokes the other ones of the mode.
    async fn replace_key(&mut self, ledger: Ledger) -> Result<()> {
        let token = self.world.stack.seed.owner_token(self.seeded(ledger), self.world.now());
        let bearer = format!("Bearer {}", token.map_err(Error::of("the token"))?);
        let headers = [("authorization", bearer.as_str())];
        let send =
            async |method, path: &str, body: Value| self.world.settle(method, path, &headers, &body).await;
        let body = json!({"label": "caixa", "test": ledger != Ledger::Live});
        let issued = send(Method::POST, API_KEYS, body).await?.expect(201)?;
        let listed = send(Method::GET, API_KEYS, Value::Null).await?.expect(200)?;
        let is_former = |key: &&Value| key["mode"] == issued["mode"] && key["id"] != issued["id"];
        for key in items(&listed["data"]).iter().filter(is_former) {
            let path = format!("{API_KEYS}/{}", text(key, "id"));
            let revoked = send(Method::DELETE, &path, Value::Null).await?;
            // A repetition finds no key.
            if revoked.status != 404 {
                revoked.expect(200)?;
            }
        }
        let former = self.keys.insert(ledger, text(&issued, "apiKey").to_owned()).unwrap_or_default();
        let headers = [("apikey", former.as_str())];
        self.world.settle(Method::GET, ENDPOINTS, &headers, &Value::Null).await?.expect(401).map(drop)
    }

    async fn raise_shards(&self, ledger: Ledger, number: u8) -> Result<()> {
        let store = self.world.operator_store();
        let (accounts, keys) = (Accounts::new(store.clone()), ApiKeys::new(store, "ApiKeysTable"));
        let number = ShardCount::try_from(number).map_err(Error::of("the number of shards"))?;
        let id = self.seeded(ledger).id;
        loop {
            match raise_shards((&accounts, &keys), &id, number, &operator(), self.world.now()).await {
                // The number can't be lowered.
                Ok(_) | Err(AccountError::FewerShards { .. }) => return Ok(()),
                Err(AccountError::Store(_)) => {}
                Err(error) => return Err(Error::of("raising the number of shards")(error)),
            }
        }
    }

    /// Leaves rows as another version of the service writes them.
    async fn write_rows(&mut self, rows: Rows) -> Result<()> {
        let store = self.world.store();
        match rows {
            Rows::Present => Ok(()),
            Rows::Former => {
                let secrets = Store::new(store.client().clone(), "SecretsTable");
                let written = rows::write_as_former_version(&store, &secrets).await?;
                self.former_rows = self.former_rows.saturating_add(written);
                Ok(())
            }
            Rows::Newer => {
                self.newer_rows.extend(rows::write_as_newer_version(&store).await?);
                Ok(())
            }
        }
    }

    /// Ends the disturbances, lets everything finish, and compares.
    async fn end(&mut self) -> Result<()> {
        self.world.front.stop_recording();
        self.world.stack.bank.clear_faults();
        self.world.advance(PAST_EXPIRIES_S).await?;
        self.pass_time();
        let mut differences = Vec::new();
        let mut was_right = false;
        for _ in 0..MOST_ROUNDS {
            self.pump.drain(&self.world).await?;
            self.world.advance(ROUND_S).await?;
            // The bank notifies the service again.
            tokio::time::sleep(NOTIFIED).await;
            differences = self.differences().await?;
            let is_right = differences.is_empty();
            if was_right && is_right {
                return Ok(());
            }
            was_right = is_right;
        }
        Err(Error::new(format!("the service differs from the model:\n  {}", differences.join("\n  "))))
    }

    /// Compares what the merchants' servers and the bank have seen.
    fn outside_differences(&self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for (ledger, account) in &self.accounts {
            let (expected, found) = (json!(account.events), self.world.webhooks(hook_of(*ledger))?);
            if expected != found {
                differences.push(format!("{ledger}, webhooks: expected {expected}, found {found}"));
            }
        }
        if let Some(live) = self.accounts.get(&Ledger::Live) {
            let found = books(&self.world.stack.bank.snapshot());
            if found != (live.received, live.returned) {
                differences.push(format!(
                    "the bank received and returned {found:?}; expected {:?}",
                    (live.received, live.returned)
                ));
            }
        }
        // No second endpoint received what was not published.
        let published = self.accounts.get(&Ledger::First).map(|first| &first.events);
        for hook in &self.second_hooks {
            for (event, count) in self.world.webhooks(hook)?.as_object().into_iter().flatten() {
                let published = published.and_then(|events| events.get(event.as_str())).copied();
                if count.as_u64() > Some(published.unwrap_or_default()) {
                    differences.push(format!("{hook} received {event} {count} times: {published:?}"));
                }
            }
        }
        Ok(differences)
    }

    async fn differences(&self) -> Result<Vec<String>> {
        let mut differences = self.outside_differences()?;
        // Reading all objects takes longer than the rest of a round.
        if !differences.is_empty() {
            return Ok(differences);
        }
        for (ledger, account) in self.accounts.iter().map(|(ledger, account)| (*ledger, account)) {
            let mut compare = |what: &str, expected: Value, found: Value| {
                if expected != found {
                    differences.push(format!("{ledger}, {what}: expected {expected}, found {found}"));
                }
            };
            for (order, charge) in &account.charges {
                let read = self.get(ledger, &format!("/v1/charges/{}", charge.id)).await?;
                compare(&format!("order {order}"), charge.status.as_str().into(), read["status"].clone());
            }
            let balance = self.get(ledger, "/v1/wallets/balance").await?;
            compare("available", account.available.into(), balance["available"].clone());
            compare("retained", account.retained.into(), balance["retained"].clone());
            let metrics = self.get(ledger, "/v1/payments/metrics").await?;
            compare(
                "charges in the statistics",
                account.charges.len().into(),
                metrics["funnel"]["created"].clone(),
            );
            compare(
                "paid charges in the statistics",
                account.paid_once.into(),
                metrics["funnel"]["paid"].clone(),
            );
            let payments = self.get(ledger, "/v1/payments?limit=1").await?;
            let total = payments.pointer("/pagination/total").or(payments.get("total")).cloned();
            compare("number of payments", account.charges.len().into(), total.unwrap_or_default());
            let verified = self.world.verify_ledger(&self.scope(ledger)).await?;
            compare("differences in the ledger", "[] false".into(), verified.into());
        }
        let lost = rows::without_unknown_attribute(&self.world.store(), &self.newer_rows).await?;
        differences.extend(lost.iter().map(|row| format!("the row {row} lost an unknown attribute")));
        Ok(differences)
    }
}
