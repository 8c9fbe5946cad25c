//! A simulation: by chance, steps of the [plans](world::plan) of many charges and of merchants and operators, while calls
//! fail, functions are killed, and records and messages arrive late, twice and out of order. At the end, the verifier
//! compares the service with what was answered.
//!
//! All decisions follow from a seed and the number of a step. So leaving out a step leaves the others as they
//! are, and a failing story can be shortened. Ids and times differ between two runs of a seed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use acquirer_core::configuration::AccountAcquirers;
use domain::account::terms::MethodTerms;
use domain::charge::Decision;
use domain::ids::ChargeId;
use domain::money::Amount;
use domain::payout::PayoutOutcome;
use domain::shard::ShardCount;
use local::template::Template;
use money::charge::Charges;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use services::raise_shards;
use shared::account::{AccountError, Accounts};
use shared::api_key::ApiKeys;
use shared::store::Store;
use world::dice::Dice;
use world::http::{Call, items, text};
use world::plan::{self, FIRST, LIVE, Load, Method, Plan};
use world::verify::Findings;
use world::{Counts, add};

use crate::fault::Fault;
use crate::pump::Pump;
use crate::trial::{ROUND_S, Trial, all_events, operator};
use crate::{Error, Result};

/// The chance that a call fails, in thousandths.
const FAULTS_PER_MILLE: u64 = 20;

/// The most deliveries between two steps.
const MOST_DELIVERIES: u64 = 6;

/// For how many steps there is a charge.
const STEPS_FOR_A_CHARGE: usize = 5;

/// By how many seconds a step of the clock advances, about.
const PASS_S: i64 = 600;

/// The faults of the bank after which a payment or a removal has the same outcome. A return that the bank does
/// not execute is repeated. A refund fails then.
const BANK_FAULTS: &str = "http_500 http_429 http_401 http_400_after_store token_expired read_back_404 lost_notification \
                           duplicate_notification late_notification devolucao_unrealized devolucao_stuck";

/// How the clock advances after the last step, in seconds, before the rounds: longer than any charge lives,
/// and than the longest pause after failed requests to a bank, which is six hours.
const PAST_EXPIRIES_S: i64 = 90_000;

/// The most rounds at the end.
const MOST_ROUNDS: usize = 40;

/// How long the bank takes for a notification that is due.
const NOTIFIED: Duration = Duration::from_millis(40);

const ENDPOINTS: &str = "/v1/webhooks/endpoints";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndpointChange {
    /// The scope's first endpoint gets another URL.
    Url,
    /// The scope's first endpoint gets another secret.
    Secret,
    /// The second endpoint is switched off or on.
    Status(&'static str),
    /// The second endpoint is subscribed to every event, or to every second one.
    Events(usize),
    /// The second endpoint is deleted, and another one is created.
    Replacement,
}

const ENDPOINT_CHANGES: [EndpointChange; 8] = [
    EndpointChange::Url,
    EndpointChange::Secret,
    EndpointChange::Status("INACTIVE"),
    EndpointChange::Status("ACTIVE"),
    EndpointChange::Events(2),
    EndpointChange::Events(1),
    EndpointChange::Replacement,
    EndpointChange::Replacement,
];

#[derive(Clone, Debug)]
pub enum Action {
    /// A merchant creates a charge, or repeats the creation; perhaps twice at the same time.
    Create { twice: bool },
    /// The next step of the plan of a charge, or a repetition of an earlier one.
    Act(plan::Step),
    /// An operator ends the review of a live payment that is held.
    Review { is_approved: bool },
    /// An operator pays out a part of the balance.
    PayOut {
        /// In percent of the balance.
        percent: i64,
        is_paid: bool,
    },
    /// The merchant changes an endpoint.
    Endpoint(EndpointChange),
    /// An operator raises the number of the account's shards.
    RaiseShards(u8),
    /// All functions are replaced, as by a deployment.
    Deploy,
    /// The clock advances by so many seconds.
    Pass(i64),
}

#[derive(Clone, Debug)]
pub struct Step {
    /// The place in the whole story. The disturbances after the step follow from it.
    pub number: usize,
    /// The number of the charge, whose account and mode it concerns.
    pub charge: usize,
    pub action: Action,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3} charge {}: {:?}", self.number, self.charge, self.action)
    }
}

fn load(seed: u64) -> Load {
    let faults = BANK_FAULTS.split_whitespace().map(str::to_owned).collect();
    let methods = vec![Method::Live, Method::Pix];
    Load { seed, methods, faults, has_notices: true, step_s: PASS_S, ..Load::default() }
}

pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let load = load(seed);
    // The steps of each charge that are left, and those that were made and can be repeated.
    let (mut left, mut repeatable) = (Vec::<VecDeque<plan::Step>>::new(), Vec::new());
    let steps = (0..count).map(|number| {
        let dice = Dice::new(seed, number);
        let busy: Vec<usize> = (0..left.len()).filter(|charge| !left[*charge].is_empty()).collect();
        let is_early = left.len() < count / STEPS_FOR_A_CHARGE;
        // Most charges are created early, so that later steps act on them.
        let kind = dice.below("kind", if is_early && number % 2 == 0 { 1 } else { 100 });
        let (charge, action) = match (kind, dice.pick("charge", &busy).copied()) {
            (0..10, _) | (10..60, None) => {
                left.push(Plan::new(&load, left.len()).steps.into());
                (left.len().saturating_sub(1), Action::Create { twice: dice.chance("twice", 200) })
            }
            (10..60, Some(charge)) => {
                let step = left[charge].pop_front();
                repeatable.extend(step.clone().filter(is_repeatable).map(|step| (charge, step)));
                (charge, step.map_or(Action::Create { twice: false }, Action::Act))
            }
            (kind, _) => {
                let any = usize::try_from(dice.below("any", u64::try_from(left.len()).unwrap_or_default()));
                let again = dice.pick("again", &repeatable).cloned();
                match (kind, again) {
                    (60..66, Some((charge, step))) => {
                        (charge, Action::Act(plan::Step { faults: Vec::new(), ..step }))
                    }
                    (kind, _) => (any.unwrap_or_default(), other_action(&dice, kind)),
                }
            }
        };
        Step { number, charge, action }
    });
    steps.collect()
}

fn is_repeatable(step: &plan::Step) -> bool {
    matches!(step.action, plan::Action::Pay(_) | plan::Action::Cancel | plan::Action::Refund(_))
}

fn other_action(dice: &Dice, kind: u64) -> Action {
    match kind {
        0..70 => Action::Create { twice: false },
        70..74 => Action::Review { is_approved: dice.chance("approved", 500) },
        74..78 => {
            Action::PayOut { percent: dice.between("percent", 1, 100), is_paid: dice.chance("paid", 600) }
        }
        78..81 => Action::Endpoint(*dice.pick("change", &ENDPOINT_CHANGES).unwrap_or(&EndpointChange::Url)),
        81 => Action::RaiseShards(*dice.pick("shards", &[8, 16]).unwrap_or(&8)),
        82..86 => Action::Deploy,
        _ => Action::Pass(*dice.pick("seconds", &[5, 40, 70, 300, 1_000, 4_000]).unwrap_or(&5)),
    }
}

struct Simulation {
    trial: Trial,
    pump: Pump,
    /// The id and the beginnings of the paths of the first account's second endpoint and its predecessors.
    second_endpoint: String,
    second_hooks: Vec<String>,
}

/// Carries out steps with the disturbances of a seed. Returns how often what happened.
///
/// # Errors
///
/// When the service differs from what was answered, or when the simulation can't be carried out.
pub async fn simulate(seed: u64, steps: &[Step]) -> Result<Counts> {
    let mut trial = Trial::start(false, load(seed)).await?;
    trial.world.notices = Some(notices(&trial).await?);
    let pump = Pump::new(&trial)?;
    let mut simulation = Simulation { trial, pump, second_endpoint: String::new(), second_hooks: Vec::new() };
    simulation.replace_second_endpoint(0).await?;
    let place = AtomicUsize::new(0);
    simulation.trial.front.set_faults(move |call| {
        let dice = Dice::new(seed.wrapping_add(1), place.fetch_add(1, Ordering::Relaxed));
        let faults: Vec<Fault> = Fault::all_of(call).collect();
        dice.chance("fault", FAULTS_PER_MILLE).then(|| dice.pick("kind", &faults).copied())?
    });
    simulation.trial.front.record();
    for step in steps {
        let done = simulation.step(step).await.and_then(|()| simulation.trial.check());
        done.map_err(|error| Error::new(format!("step {step}: {error}")))?;
        let dice = Dice::new(seed, step.number);
        for place in 0..dice.below("deliveries", MOST_DELIVERIES) {
            let dice = Dice::new(seed.wrapping_add(place).wrapping_add(2), step.number);
            simulation.pump.act(&simulation.trial, &dice).await?;
        }
    }
    let outcome = simulation.end().await;
    simulation.trial.stack.stop().await;
    outcome
}

/// Returns the path for MED notices of the first account's bank, and the secret that signs them.
async fn notices(trial: &Trial) -> Result<(String, String)> {
    let store = trial.store();
    let secrets = Store::new(store.client().clone(), "SecretsTable");
    let (acquirers, account) = (AccountAcquirers::new(store, secrets), trial.account());
    let rotated = acquirers.rotate_callback_token(account, None, None, &operator(), trial.now()).await;
    let (acquirer, url) = rotated.map_err(Error::of("a callback token"))?;
    let secrets = acquirers.signing_secrets(&account, acquirer.connection).await;
    let secret = secrets.map_err(Error::of("the MED secret"))?.into_iter().next().unwrap_or_default();
    let path = url.expose_secret().strip_prefix(&trial.stack.base_url).unwrap_or_default();
    Ok((format!("{path}/med"), secret.expose_secret().to_owned()))
}

impl Simulation {
    async fn step(&mut self, step: &Step) -> Result<()> {
        let world = &self.trial.world;
        let plan = Plan::new(&world.plans, step.charge);
        match &step.action {
            Action::Create { twice } => {
                world.inject(&plan, &plan.faults).await;
                world.create(&plan).await;
                if *twice {
                    tokio::join!(world.create(&plan), world.create(&plan));
                }
            }
            Action::Act(planned) => {
                let answered = world.notes().answered.get(&step.charge).cloned().unwrap_or_default();
                let Some(id) = answered.ids.first().cloned() else { return Ok(()) };
                world.inject(&plan, &planned.faults).await;
                world.act(&plan, &id, &planned.action).await;
                if plan.scope == LIVE {
                    // The bank notifies the service soon.
                    world.advance(1).await?;
                    tokio::time::sleep(NOTIFIED).await;
                }
            }
            Action::Review { is_approved } => self.review(*is_approved).await?,
            Action::PayOut { percent, is_paid } => self.pay_out(plan.scope, *percent, *is_paid).await?,
            Action::Endpoint(change) => self.change_endpoint(plan.scope, *change, step.number).await?,
            Action::RaiseShards(number) => self.raise_shards(plan.scope, *number).await?,
            Action::Deploy => {
                let template = Template::deployed().map_err(Error::of("reading the template"))?;
                for function in &template.functions {
                    if let Some(environment) = self.trial.stack.functions.environment(&function.logical_id) {
                        environment.kill();
                    }
                }
            }
            Action::Pass(seconds) => drop(world.advance(*seconds).await?),
        }
        Ok(())
    }

    /// Ends the review of a live payment that is held, if there is one.
    async fn review(&self, is_approved: bool) -> Result<()> {
        let [_, held] = self.trial.waiting().await?;
        let Some(id) = held.first().map(|held| text(held, "charge")) else { return Ok(()) };
        let charge: ChargeId = id.parse().map_err(Error::of("the charge's id"))?;
        let charges = Charges::new(self.trial.operator_store());
        let decision = if is_approved { Decision::Approve } else { Decision::Return };
        let review = async || {
            let (charge, now) = (charges.get_existing(charge).await?, self.trial.now());
            charges.review(charge, (decision, MethodTerms::default()), &operator(), now).await.map(drop)
        };
        self.trial.operate(review).await?;
        let mut notes = self.trial.world.notes();
        let answered = notes.answered.values_mut().find(|answered| answered.ids.contains(id));
        if let Some(answered) = answered {
            answered.review(is_approved);
        }
        Ok(())
    }

    async fn pay_out(&self, scope: usize, percent: i64, is_paid: bool) -> Result<()> {
        let balance = self.trial.world.scopes[scope].api.read("/v1/wallets/balance").await?;
        let available = balance["available"].as_i64().unwrap_or_default();
        let amount = available.saturating_mul(percent).checked_div(100).unwrap_or_default();
        let Ok(amount) = Amount::parse(amount) else { return Ok(()) };
        let outcome = if is_paid {
            PayoutOutcome::Paid
        } else {
            PayoutOutcome::Failed { reason: "account closed".to_owned() }
        };
        // A refund may take the money meanwhile.
        let payout = self.trial.pay_out(self.trial.scope(scope), amount, &outcome).await?;
        self.trial.world.notes().payouts[scope].extend(payout.map(|id| (id.to_string(), is_paid)));
        Ok(())
    }

    /// Creates the first account's second endpoint and deletes the others: its predecessor, and those that a request
    /// created whose answer was lost. It has a path of its own, so that deliveries of a deleted endpoint are not counted
    /// for the new one.
    async fn replace_second_endpoint(&mut self, number: usize) -> Result<()> {
        let path = format!("/second/{number}/");
        let world = &self.trial.world;
        let api = &world.scopes[FIRST].api;
        self.second_endpoint = world.listener.subscribe(api, &path, &all_events()).await?;
        let (listed, base) = (api.read(ENDPOINTS).await?, world.listener.url("/second/"));
        let is_other =
            |one: &&Value| text(one, "url").starts_with(&base) && one["id"] != self.second_endpoint;
        for other in items(&listed["data"]).iter().filter(is_other) {
            // A repetition finds none.
            let delete = Call::delete(format!("{ENDPOINTS}/{}", text(other, "id")));
            world.must(api, delete, &[200, 404]).await;
        }
        self.second_hooks.push(path);
        Ok(())
    }

    async fn change_endpoint(&mut self, scope: usize, change: EndpointChange, number: usize) -> Result<()> {
        let (scopes, listener) = (&self.trial.world.scopes, &self.trial.world.listener);
        let scope = &scopes[scope];
        let (api, id, body) = match change {
            EndpointChange::Url => {
                let url = listener.url(&format!("{}/{number}", scope.paths.all));
                (&scope.api, &scope.endpoint, json!({ "url": url }))
            }
            EndpointChange::Secret => {
                let rotate = Call::post(format!("{ENDPOINTS}/{}/rotate-secret", scope.endpoint), json!({}));
                let rotated = scope.api.expect(&rotate, 200).await?;
                listener.add_secret(scope.paths.all, text(&rotated, "secret"));
                return Ok(());
            }
            EndpointChange::Status(status) => {
                (&scopes[FIRST].api, &self.second_endpoint, json!({ "status": status }))
            }
            EndpointChange::Events(step) => {
                let events: Vec<&str> = all_events().into_iter().step_by(step).collect();
                (&scopes[FIRST].api, &self.second_endpoint, json!({ "events": events }))
            }
            EndpointChange::Replacement => return self.replace_second_endpoint(number).await,
        };
        api.expect(&Call::patch(format!("{ENDPOINTS}/{id}"), body), 200).await.map(drop)
    }

    async fn raise_shards(&self, scope: usize, number: u8) -> Result<()> {
        let store = self.trial.operator_store();
        let (accounts, keys) = (Accounts::new(store.clone()), ApiKeys::new(store, "ApiKeysTable"));
        let number = ShardCount::try_from(number).map_err(Error::of("the number of shards"))?;
        let id = self.trial.scope(scope).account;
        let raise = async || {
            let raised = raise_shards((&accounts, &keys), &id, number, &operator(), self.trial.now()).await;
            match raised {
                // The number can't be lowered.
                Err(AccountError::FewerShards { .. }) => Ok(()),
                raised => raised.map(drop),
            }
        };
        self.trial.operate(raise).await
    }

    /// Ends the disturbances, lets everything finish, and compares.
    async fn end(&mut self) -> Result<Counts> {
        self.trial.front.stop_recording();
        self.trial.stack.bank.clear_faults();
        self.trial.world.advance(PAST_EXPIRIES_S).await?;
        let (mut violations, mut was_right) = (Vec::new(), false);
        for _ in 0..MOST_ROUNDS {
            self.pump.drain(&self.trial).await?;
            self.trial.world.advance(ROUND_S).await?;
            // The bank notifies the service again.
            tokio::time::sleep(NOTIFIED).await;
            let findings = self.findings().await?;
            let is_right = findings.violations.is_empty();
            if was_right && is_right {
                return Ok(findings.counts);
            }
            (violations, was_right) = (findings.violations, is_right);
        }
        let violations = violations.join("\n  ");
        Err(Error::new(format!("the service differs from what was answered:\n  {violations}")))
    }

    async fn findings(&self) -> Result<Findings> {
        let Trial { world, front, .. } = &self.trial;
        let mut findings = world.verify(&self.trial.waiting().await?).await?;
        findings.counts.extend(world.notes().counts.clone());
        for (name, number) in [("calls", front.calls().len()), ("calls that failed", front.faults())] {
            add(&mut findings.counts, name.to_owned(), u64::try_from(number).unwrap_or_default());
        }
        for (number, scope) in world.scopes.iter().enumerate() {
            let ledger = self.trial.verify_ledger(&self.trial.scope(number)).await?;
            if ledger != "[] false" {
                findings.violations.push(format!("{}: differences in the ledger: {ledger}", scope.name));
            }
        }
        // No second endpoint received what was not published.
        let published = world.listener.all(world.scopes[FIRST].paths.all);
        let sum = |objects: &BTreeMap<String, usize>| objects.values().sum::<usize>();
        for hook in &self.second_hooks {
            for (event, objects) in world.listener.all(hook) {
                let (received, published) = (sum(&objects), published.get(&event).map_or(0, sum));
                if received > published {
                    findings
                        .violations
                        .push(format!("{hook} received {event} {received} times: {published}"));
                }
            }
        }
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_have_all_actions_and_the_same_steps_each_time() {
        let all: Vec<String> =
            (1..=50).flat_map(|seed| steps(seed, 60)).map(|step| step.to_string()).collect();
        let again = (1..=50).flat_map(|seed| steps(seed, 60)).map(|step| step.to_string());
        assert_eq!(all, again.collect::<Vec<_>>());
        let names = |prefix: &str| -> BTreeSet<String> {
            let actions = all.iter().filter_map(|step| step.split_once(prefix));
            actions.map(|(_, name)| name.chars().take_while(|c| c.is_alphanumeric()).collect()).collect()
        };
        assert_eq!(names(": ").len(), 8, "{:?}", names(": "));
        assert_eq!(names("action: ").len(), 8, "{:?}", names("action: "));
        assert_eq!(names("Endpoint(").len(), 5);
        let faults: BTreeSet<&str> = BANK_FAULTS.split_whitespace().collect();
        let has = |kind: &&str| all.iter().any(|step| step.contains(&format!("\"{kind}\"")));
        assert_eq!(faults.iter().copied().filter(has).collect::<BTreeSet<_>>(), faults);
    }
}
