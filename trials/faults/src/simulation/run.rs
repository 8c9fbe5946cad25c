//! Carries out the steps of a simulation, and compares the service with the model.

use std::collections::BTreeMap;

use domain::ids::{PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use hyper::Method;
use local::template::Template;
use serde_json::{Value, json};
use shared::payout::{PayoutError, Payouts};
use trials::dice::Dice;

use super::model::{Account, Charge, Status};
use super::plan::{Action, Step};
use super::pump::Pump;
use crate::fault;
use crate::world::{Answer, HOOK, ROUND_S, World, items, operator, text};
use crate::{Error, Result};

/// The chance that a call fails, in thousandths.
const FAULTS_PER_MILLE: u64 = 20;

/// The most deliveries between two steps.
const MOST_DELIVERIES: u64 = 6;

/// The paths of the first account's second endpoint, and of the second account's endpoint.
const SECOND_HOOK: &str = "/second";
const OTHER_HOOK: &str = "/other";

/// How the clock advances after the last step, in seconds, before the rounds: longer than any charge lives.
const PAST_EXPIRIES_S: i64 = 4_000;

/// The most rounds at the end.
const MOST_ROUNDS: usize = 30;

/// How close to its expiry no charge is paid, declined or cancelled, in milliseconds: the machine's time also
/// passes.
const MARGIN_MS: i64 = 30_000;

struct Simulation {
    world: World,
    pump: Pump,
    /// The first and the second account.
    accounts: [Account; 2],
    /// The bodies of the requests that a repetition sends again, by account and order or payment.
    bodies: BTreeMap<(bool, &'static str, usize), Value>,
    second_endpoint: String,
    is_second_active: bool,
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
}

impl Totals {
    /// Adds the totals of another simulation.
    pub fn add(&mut self, other: Self) {
        let Self { charges, payments, refunds, calls, faults, webhooks } = other;
        self.charges = self.charges.saturating_add(charges);
        self.payments = self.payments.saturating_add(payments);
        self.refunds = self.refunds.saturating_add(refunds);
        self.calls = self.calls.saturating_add(calls);
        self.faults = self.faults.saturating_add(faults);
        self.webhooks = self.webhooks.saturating_add(webhooks);
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
    let mut simulation = Simulation {
        world,
        pump,
        accounts: Default::default(),
        bodies: BTreeMap::new(),
        second_endpoint: String::new(),
        is_second_active: true,
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
        let events = json!(EventType::subscribable().map(EventType::as_str).collect::<Vec<_>>());
        let receiver = self.world.front.receiver_url();
        for (is_other, path) in [(false, SECOND_HOOK), (true, OTHER_HOOK)] {
            let endpoint = json!({"url": format!("{receiver}{path}"), "events": events});
            let created = self.post(is_other, "/v1/webhooks/endpoints", &endpoint).await?.expect(201)?;
            if !is_other {
                text(&created, "id").clone_into(&mut self.second_endpoint);
            }
        }
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
            ..Totals::default()
        };
        for account in &self.accounts {
            totals.add(Totals {
                charges: account.charges.len(),
                payments: account.payments.len(),
                refunds: account.charges.values().map(|charge| charge.refunds).sum(),
                ..Totals::default()
            });
        }
        totals
    }

    fn key(&self, is_other: bool) -> &str {
        let seed = &self.world.stack.seed;
        if is_other { &seed.other.test_api_key } else { &seed.first.test_api_key }
    }

    fn scope(&self, is_other: bool) -> Scope {
        let seed = &self.world.stack.seed;
        let account = if is_other { seed.other.id } else { seed.first.id };
        Scope { account, mode: domain::ids::Mode::Test }
    }

    fn account(&mut self, is_other: bool) -> &mut Account {
        let [first, other] = &mut self.accounts;
        if is_other { other } else { first }
    }

    async fn post(&self, is_other: bool, path: &str, body: &Value) -> Result<Answer> {
        self.world.settle(Method::POST, path, &[("apikey", self.key(is_other))], body).await
    }

    async fn get(&self, is_other: bool, path: &str) -> Result<Value> {
        let headers = [("apikey", self.key(is_other))];
        self.world.settle(Method::GET, path, &headers, &Value::Null).await?.expect(200)
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        let is_other = step.is_other;
        self.pass_time();
        match step.action {
            Action::Create { order, amount, expires_in, twice } => {
                let body = json!({"amount": amount, "expires_in": expires_in});
                self.create(is_other, order, body, twice).await
            }
            Action::Pay { order, is_wrong, payment } => self.pay(is_other, order, payment, is_wrong).await,
            Action::Fail(order) => self.end_pending(is_other, order, "fail").await,
            Action::Expire(order) => self.end_pending(is_other, order, "expire").await,
            Action::Cancel(order) => self.end_pending(is_other, order, "cancel").await,
            Action::Refund { order, percent, fails } => {
                self.refund(is_other, order, percent, (fails, step.number)).await
            }
            Action::OpenCase(order) => self.open_case(is_other, order).await,
            Action::Decide { order, for_merchant } => self.decide(is_other, order, for_merchant).await,
            Action::PayOut { percent, is_paid } => self.pay_out(is_other, percent, is_paid).await,
            Action::Switch => self.switch().await,
            Action::Deploy => {
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
        for account in &mut self.accounts {
            account.pass(now);
        }
    }

    /// Returns a charge, if it exists.
    fn charge(&self, is_other: bool, order: usize) -> Option<&Charge> {
        let [first, other] = &self.accounts;
        let account = if is_other { other } else { first };
        account.charges.get(&order)
    }

    /// Returns a charge that stays pending for a while.
    fn pending(&self, is_other: bool, order: usize) -> Option<&Charge> {
        let latest = self.world.now().millis().saturating_add(MARGIN_MS);
        self.charge(is_other, order)
            .filter(|charge| charge.status == Status::Pending && charge.expires_at_ms > latest)
    }

    async fn create(&mut self, is_other: bool, order: usize, body: Value, twice: bool) -> Result<()> {
        let body = self.bodies.entry((is_other, "order", order)).or_insert(body).clone();
        let key = format!("order-{order:06}");
        let headers = [("apikey", self.key(is_other)), ("idempotency-key", key.as_str())];
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
        if let Some(known) = self.charge(is_other, order) {
            if known.id != id {
                return Err(Error::new(format!("a repetition created {id} beside {}", known.id)));
            }
            return Ok(());
        }
        let expires_at = created.pointer("/pix/expires_at").and_then(Value::as_str).unwrap_or_default();
        let expires_at = Timestamp::parse_floor(expires_at).map_err(Error::of("the expiry"))?;
        let amount = body["amount"].as_i64().unwrap_or_default();
        self.account(is_other).create(order, &id, amount, expires_at.millis());
        Ok(())
    }

    async fn pay(&mut self, is_other: bool, order: usize, payment: usize, is_wrong: bool) -> Result<()> {
        let Some(charge) = self.charge(is_other, order) else { return Ok(()) };
        if charge.status == Status::Pending && self.pending(is_other, order).is_none() {
            return Ok(());
        }
        let (path, amount) = (format!("/v1/sandbox/charges/{}/pay", charge.id), charge.amount);
        let id =
            format!("E00000000202611231200{:011}", payment.saturating_mul(2).saturating_add(is_other.into()));
        let amount = amount.saturating_add(is_wrong.into());
        let body = json!({"amount": amount, "end_to_end_id": id});
        let body = self.bodies.entry((is_other, "payment", payment)).or_insert(body).clone();
        let paid = self.post(is_other, &path, &body).await?.expect(200)?;
        self.account(is_other).pay(order, payment, is_wrong);
        self.check_status(is_other, order, &paid)
    }

    /// Compares the status in a response with the model.
    fn check_status(&self, is_other: bool, order: usize, answer: &Value) -> Result<()> {
        let Some(charge) = self.charge(is_other, order) else { return Ok(()) };
        // Refunds are completed some time after they are accepted.
        if charge.refunds > 0 || text(answer, "status") == charge.status.as_str() {
            return Ok(());
        }
        let (found, expected) = (text(answer, "status"), charge.status.as_str());
        Err(Error::new(format!("the charge is {found}; it must be {expected}")))
    }

    async fn end_pending(&mut self, is_other: bool, order: usize, how: &str) -> Result<()> {
        let Some(charge) = self.pending(is_other, order) else { return Ok(()) };
        let path = match how {
            "cancel" => format!("/v1/payments/{}/cancel", charge.id.trim_start_matches("ch_")),
            how => format!("/v1/sandbox/charges/{}/{how}", charge.id),
        };
        let answer = self.post(is_other, &path, &json!({})).await?;
        // A repetition finds the charge cancelled.
        if !(how == "cancel" && answer.status == 422) {
            answer.expect(200)?;
        }
        match how {
            "expire" => self.account(is_other).expire(order),
            "cancel" => self.account(is_other).cancel(order),
            _ => self.account(is_other).fail(order),
        }
        Ok(())
    }

    async fn refund(
        &mut self,
        is_other: bool,
        order: usize,
        percent: i64,
        (fails, number): (bool, usize),
    ) -> Result<()> {
        let charge = self.charge(is_other, order).filter(|charge| charge.status == Status::Paid);
        let Some(charge) = charge else { return Ok(()) };
        let left = charge.amount.saturating_sub(charge.refunded);
        let amount = left.saturating_mul(percent).checked_div(100).unwrap_or_default().clamp(1, left.max(1));
        let path = format!("/v1/payments/{}/refund", charge.id.trim_start_matches("ch_"));
        let mut body = json!({
            "amount": amount, "strategy": "devolution", "idempotencyKey": format!("refund-{number:04}"),
        });
        if let Some(fields) = body.as_object_mut().filter(|_| fails) {
            fields.insert("reason".to_owned(), "sandbox:fail".into());
        }
        let answer = self.post(is_other, &path, &body).await?;
        let code = answer.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
        // What an earlier refund takes that fails later is missing meanwhile.
        if answer.status == 422 && ["insufficient_balance", "refund_exceeds_remaining"].contains(&code) {
            return Ok(());
        }
        answer.expect(201)?;
        self.account(is_other).refund(order, amount, fails);
        Ok(())
    }

    async fn open_case(&mut self, is_other: bool, order: usize) -> Result<()> {
        let charge = self.charge(is_other, order).filter(|charge| charge.status == Status::Paid);
        let Some(id) = charge.map(|charge| charge.id.clone()) else { return Ok(()) };
        let refunds = format!("/v1/payments/{}/refunds", id.trim_start_matches("ch_"));
        let refunds = self.get(is_other, &refunds).await?;
        let is_final = |refund: &Value| ["REFUNDED", "FAILED"].contains(&text(refund, "status"));
        // What a refund in progress will take is not known yet.
        if !items(&refunds["data"]).iter().all(is_final) {
            return Ok(());
        }
        let path = format!("/v1/sandbox/charges/{id}/med-cases");
        let case = self.post(is_other, &path, &json!({})).await?.expect(201)?;
        self.account(is_other).open_case(order, text(&case, "id"));
        Ok(())
    }

    async fn decide(&mut self, is_other: bool, order: usize, for_merchant: bool) -> Result<()> {
        let case = self.charge(is_other, order).and_then(|charge| charge.case.as_ref());
        let Some((id, _)) = case else { return Ok(()) };
        let path = format!("/v1/sandbox/med/cases/{id}/resolve");
        let decision = if for_merchant { "merchant" } else { "payer" };
        self.post(is_other, &path, &json!({ "decision": decision })).await?.expect(200)?;
        self.account(is_other).decide(order, for_merchant);
        Ok(())
    }

    async fn pay_out(&mut self, is_other: bool, percent: i64, is_paid: bool) -> Result<()> {
        let available = self.account(is_other).available;
        let amount = available.saturating_mul(percent).checked_div(100).unwrap_or_default();
        let Ok(amount) = Amount::parse(amount) else { return Ok(()) };
        let payouts = Payouts::new(self.world.operator_store());
        let random = shared::random::bytes().map_err(Error::of("a random number"))?;
        let (id, scope) = (PayoutId::new(self.world.now(), random), self.scope(is_other));
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
        self.account(is_other).pay_out(amount.minor(), is_paid);
        Ok(())
    }

    async fn switch(&mut self) -> Result<()> {
        let status = if self.is_second_active { "INACTIVE" } else { "ACTIVE" };
        let path = format!("/v1/webhooks/endpoints/{}", self.second_endpoint);
        let headers = [("apikey", self.key(false))];
        self.world.settle(Method::PATCH, &path, &headers, &json!({ "status": status })).await?.expect(200)?;
        self.is_second_active = !self.is_second_active;
        Ok(())
    }

    /// Ends the disturbances, lets everything finish, and compares.
    async fn end(&mut self) -> Result<()> {
        self.world.front.stop_recording();
        self.world.advance(PAST_EXPIRIES_S).await?;
        self.pass_time();
        let mut differences = Vec::new();
        let mut was_right = false;
        for _ in 0..MOST_ROUNDS {
            self.pump.drain(&self.world).await?;
            self.world.advance(ROUND_S).await?;
            differences = self.differences().await?;
            let is_right = differences.is_empty();
            if was_right && is_right {
                return Ok(());
            }
            was_right = is_right;
        }
        Err(Error::new(format!("the service differs from the model:\n  {}", differences.join("\n  "))))
    }

    async fn differences(&self) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for (is_other, account) in [false, true].into_iter().zip(&self.accounts) {
            let name = if is_other { "second account" } else { "first account" };
            let mut compare = |what: &str, expected: Value, found: Value| {
                if expected != found {
                    differences.push(format!("{name}, {what}: expected {expected}, found {found}"));
                }
            };
            for (order, charge) in &account.charges {
                let read = self.get(is_other, &format!("/v1/charges/{}", charge.id)).await?;
                compare(&format!("order {order}"), charge.status.as_str().into(), read["status"].clone());
            }
            let balance = self.get(is_other, "/v1/wallets/balance").await?;
            compare("available", account.available.into(), balance["available"].clone());
            compare("retained", account.retained.into(), balance["retained"].clone());
            let metrics = self.get(is_other, "/v1/payments/metrics").await?;
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
            let payments = self.get(is_other, "/v1/payments?limit=1").await?;
            let total = payments.pointer("/pagination/total").or(payments.get("total")).cloned();
            compare("number of payments", account.charges.len().into(), total.unwrap_or_default());
            let hook = if is_other { OTHER_HOOK } else { HOOK };
            compare("webhooks", json!(account.events), self.world.webhooks(hook)?);
            let ledger = self.world.verify_ledger(&self.scope(is_other)).await?;
            compare("differences in the ledger", "[] false".into(), ledger.into());
        }
        // The second endpoint received nothing that was not published.
        let received = self.world.webhooks(SECOND_HOOK)?;
        let [first, _] = &self.accounts;
        for (event, count) in received.as_object().into_iter().flatten() {
            let published = first.events.get(event.as_str()).copied().unwrap_or_default();
            if count.as_u64().unwrap_or_default() > published {
                differences
                    .push(format!("{event} was published {published} times and received {count} times"));
            }
        }
        Ok(differences)
    }
}
