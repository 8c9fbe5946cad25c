//! Carries out the steps of a simulation, and compares the service with the model.

mod payments;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::ids::{Mode, Scope};
use domain::money::Amount;
use domain::payout::PayoutOutcome;
use domain::shard::ShardCount;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use hyper::Method;
use local::seed::SeededAccount;
use local::template::Template;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use shared::account::{AccountError, Accounts};
use shared::acquirer::configuration::AccountAcquirers;
use shared::api_key::ApiKeys;
use shared::services::raise_shards;
use shared::store::Store;
use soak::dice::Dice;

use super::model::{Account, Charge};
use super::plan::{self, Action, EndpointChange, Ledger, Rows, Step};
use super::pump::Pump;
use super::rows;
use crate::fault::Fault;
use crate::world::{Answer, HOOK, MARIA, ROUND_S, World, items, operator, text};
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
    let sent = items(&snapshot["pixOut"]).iter().filter(|sent| text(sent, "status") == "REALIZADO");
    (received, sent.map(cents).fold(returned, i64::saturating_add))
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
    /// The path for MED notices of the bank, and the secret that signs them.
    notices: (String, SecretString),
    second_endpoint: String,
    /// The beginnings of the paths of the first account's second endpoint and its successors.
    second_hooks: Vec<String>,
    is_second_active: bool,
    has_second_all_events: bool,
    /// The keys of rows that a newer version wrote.
    newer_rows: Vec<HashMap<String, AttributeValue>>,
}

/// How often each of these happened in simulations.
pub type Totals = BTreeMap<&'static str, usize>;

pub fn add(totals: &mut Totals, what: &'static str, number: usize) {
    let total = totals.entry(what).or_default();
    *total = total.saturating_add(number);
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
    let notices = notices(&world).await?;
    let mut simulation = Simulation {
        keys: Ledger::ALL.into_iter().zip(keys).collect(),
        world,
        pump,
        accounts: Ledger::ALL.map(|ledger| (ledger, Account::default())).into(),
        bodies: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        txids: BTreeMap::new(),
        notices,
        second_endpoint: String::new(),
        second_hooks: vec![format!("{SECOND_HOOK}/0/")],
        is_second_active: true,
        has_second_all_events: true,
        newer_rows: Vec::new(),
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

/// Returns the path for MED notices of the first account's bank, and the secret that signs them.
async fn notices(world: &World) -> Result<(String, SecretString)> {
    let store = world.store();
    let secrets = Store::new(store.client().clone(), "SecretsTable");
    let (acquirers, account) = (AccountAcquirers::new(store, secrets), world.scope(Mode::Live).account);
    let rotated = acquirers.rotate_callback_token(account, None, None, &operator(), world.now()).await;
    let (acquirer, url) = rotated.map_err(Error::of("a callback token"))?;
    let secrets = acquirers.signing_secrets(&account, acquirer.connection).await;
    let secret = secrets.map_err(Error::of("the MED secret"))?.into_iter().next();
    let path = url.expose_secret().strip_prefix(&world.stack.base_url).unwrap_or_default();
    Ok((format!("{path}/med"), secret.unwrap_or_default()))
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
            let faults: Vec<Fault> = Fault::all_of(call).collect();
            dice.chance("fault", FAULTS_PER_MILLE).then(|| dice.pick("kind", &faults).copied())?
        });
        self.world.front.record();
        Ok(())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut count = |what, number| add(&mut totals, what, number);
        count("calls", self.world.front.calls().len());
        count("calls that failed", self.world.front.faults());
        count("webhooks", self.world.front.webhooks().len());
        count("rows of a newer version", self.newer_rows.len());
        for (ledger, account) in &self.accounts {
            count("charges", account.charges.len());
            count("payments", account.payments.len());
            count("reviews", account.reviews);
            if *ledger == Ledger::Live {
                count("live payments", account.payments.len());
                count("live cases", account.cases);
            } else {
                count("test cases", account.cases);
            }
            for refund in account.charges.values().flat_map(|charge| &charge.refunds) {
                count(if refund.is_cash_out { "cash-outs" } else { "devoluções" }, 1);
                count("refunds that failed", refund.has_failed.into());
            }
        }
        totals
    }

    fn key(&self, ledger: Ledger) -> &str {
        self.keys.get(&ledger).map_or("", String::as_str)
    }

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
                let mut body =
                    json!({"amount": amount, "expires_in": expires_in, "customer": {"name": "Maria"}});
                if plan::is_locked(order) {
                    body["expected_payer_tax_id"] = MARIA.into();
                }
                self.create(ledger, order, body, twice).await
            }
            Action::Pay { order, is_wrong, payer, payment } if ledger == Ledger::Live => {
                self.pay_at_bank(order, payment, (is_wrong, payer)).await
            }
            Action::Cancel(order) if ledger == Ledger::Live => self.cancel_live(order).await,
            Action::Pay { order, is_wrong, payer, payment } => {
                self.pay(ledger, order, payment, (is_wrong, payer)).await
            }
            Action::Review { order, is_approved } => self.review(ledger, order, is_approved).await,
            Action::Fail(order) => self.end_pending(ledger, order, "fail").await,
            Action::Expire(order) => self.end_pending(ledger, order, "expire").await,
            Action::Cancel(order) => self.end_pending(ledger, order, "cancel").await,
            Action::Refund { order, percent, is_cash_out, fails } => {
                self.refund(ledger, order, percent, (is_cash_out, fails), step.number).await
            }
            Action::OpenCase(order) => self.open_case(ledger, order, step.number).await,
            Action::Decide { order, for_merchant } => {
                self.decide(ledger, order, for_merchant, step.number).await
            }
            Action::PayOut { percent, is_paid } => self.pay_out(ledger, percent, is_paid).await,
            Action::Endpoint(change) => self.change_endpoint(ledger, change, step.number).await,
            Action::ReplaceKey => self.replace_key(ledger).await,
            Action::RaiseShards(number) => self.raise_shards(ledger, number).await,
            Action::BankFault(kind, count) => {
                self.world.stack.bank.inject_fault(kind, count);
                Ok(())
            }
            Action::Deploy(rows) => {
                if rows == Rows::Newer {
                    self.newer_rows.extend(rows::write_as_newer_version(&self.world.store()).await?);
                }
                let template = Template::deployed().map_err(Error::of("reading the template"))?;
                for function in &template.functions {
                    if let Some(environment) = self.world.stack.functions.environment(&function.logical_id) {
                        environment.kill();
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

    async fn pay_out(&mut self, ledger: Ledger, percent: i64, is_paid: bool) -> Result<()> {
        let available = self.account(ledger).available;
        let amount = available.saturating_mul(percent).checked_div(100).unwrap_or_default();
        let Ok(amount) = Amount::parse(amount) else { return Ok(()) };
        let outcome = if is_paid {
            PayoutOutcome::Paid
        } else {
            PayoutOutcome::Failed { reason: "account closed".to_owned() }
        };
        // What a refund takes that fails later is missing meanwhile.
        if self.world.pay_out(self.scope(ledger), amount, &outcome).await? {
            self.account(ledger).pay_out(amount.minor(), is_paid);
        }
        Ok(())
    }

    /// Creates an endpoint for all events, with a URL that no other one has. Returns its id.
    async fn create_endpoint(&self, ledger: Ledger, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.world.front.receiver_url());
        let body = json!({"url": url, "events": all_events()});
        let created = self.post(ledger, ENDPOINTS, &body).await?.expect(201)?;
        // A request whose answer was lost has created another one.
        let listed = self.get(ledger, ENDPOINTS).await?;
        let is_other = |one: &&Value| one["url"] == created["url"] && one["id"] != created["id"];
        for other in items(&listed["data"]).iter().filter(is_other) {
            self.delete_endpoint(ledger, text(other, "id")).await?;
        }
        Ok(text(&created, "id").to_owned())
    }

    async fn delete_endpoint(&self, ledger: Ledger, id: &str) -> Result<()> {
        let path = format!("{ENDPOINTS}/{id}");
        let headers = [("apikey", self.key(ledger))];
        let deleted = self.world.settle(Method::DELETE, &path, &headers, &Value::Null).await?;
        // A repetition finds no endpoint.
        if deleted.status == 404 { Ok(()) } else { deleted.expect(200).map(drop) }
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
                self.delete_endpoint(Ledger::First, &self.second_endpoint).await?;
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
        let token = self.world.stack.owner_token(self.seeded(ledger)).await;
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
        let raise = async || {
            let raised = raise_shards((&accounts, &keys), &id, number, &operator(), self.world.now()).await;
            match raised {
                // The number can't be lowered.
                Err(AccountError::FewerShards { .. }) => Ok(()),
                raised => raised.map(drop),
            }
        };
        self.world.operate(raise).await
    }

    async fn learn_all_failures(&mut self) -> Result<()> {
        let live = self.accounts.get(&Ledger::Live);
        let orders: Vec<usize> = live.map(|live| live.charges.keys().copied().collect()).unwrap_or_default();
        for order in orders {
            self.learn_failures(Ledger::Live, order).await?;
        }
        Ok(())
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
            self.learn_all_failures().await?;
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
