//! The plan of a trial of live charges: for each charge how it is created, paid, cancelled and refunded, which
//! faults of the bank precede each step, and when the service is killed.
//!
//! The plan is a pure function of the seed and the sizes. It has no ids and no times.

use crate::dice::{Dice, digest};

/// All kinds of faults of the bank. A trial checks at its start that the bank has exactly these.
pub const FAULTS: [&str; 22] = [
    "timeout",
    "timeout_after_store",
    "slow",
    "http_500",
    "http_429",
    "http_401",
    "http_400_after_store",
    "token_expired",
    "read_back_404",
    "lost_notification",
    "duplicate_notification",
    "late_notification",
    "masked_payer",
    "filter_ignored",
    "filter_lags",
    "removed_by_psp",
    "no_copia_e_cola",
    "missing_txid",
    "devolucao_unrealized",
    "devolucao_stuck",
    "devolucao_refused",
    "med_devolucao",
];

/// Faults that cost about ten seconds each, so they are rare.
const SLOW: [&str; 3] = ["timeout", "timeout_after_store", "slow"];

/// Faults of any request to the bank. A kind that occurs twice is twice as likely.
const ANY: [&str; 7] = [
    "http_500",
    "http_500",
    "http_401",
    "http_400_after_store",
    "http_400_after_store",
    "token_expired",
    "http_429",
];
const CREATE: [&str; 2] = ["no_copia_e_cola", "no_copia_e_cola"];
const PAY: [&str; 11] = [
    "read_back_404",
    "lost_notification",
    "duplicate_notification",
    "late_notification",
    "masked_payer",
    "masked_payer",
    "missing_txid",
    "med_devolucao",
    "removed_by_psp",
    "filter_ignored",
    "filter_lags",
];
const CANCEL: [&str; 1] = ["removed_by_psp"];
const REFUND: [&str; 5] = [
    "devolucao_unrealized",
    "devolucao_unrealized",
    "devolucao_stuck",
    "devolucao_refused",
    "duplicate_notification",
];

/// In how many of 1,000 steps a fault of each group precedes the step.
const ANY_PER_MILLE: u64 = 120;
const OWN_PER_MILLE: u64 = 220;
const SLOW_PER_MILLE: u64 = 4;

/// How often each kind of fault is planned at least.
const FORCED: usize = 3;

/// How many documents the customers of one batch share. The service limits live charges by document.
const CUSTOMERS: u64 = 5_000;

/// The sizes that determine a plan, besides its seed.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of charges.
    pub charges: usize,
    /// How often the service is killed.
    pub kills: usize,
}

/// The plan of a trial.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The charges.
    pub charges: Vec<ChargePlan>,
    /// How many consecutive charges are a batch. The clock advances during and after each batch.
    pub batch: usize,
    /// When the service is killed, in the order of the steps.
    pub kills: Vec<Kill>,
}

/// A kill of the service, while a request is in progress.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// How many steps have begun before.
    pub after_steps: usize,
    /// How many milliseconds after the beginning of that step.
    pub delay_ms: u64,
}

/// The plan of a charge.
#[derive(Clone, Debug)]
pub struct ChargePlan {
    /// The place in the plan, from 0.
    pub index: usize,
    /// Centavos.
    pub amount: i64,
    /// Seconds until it expires.
    pub expires_in: i64,
    /// The customer's CPF.
    pub document: Option<String>,
    /// Whether only that customer may pay.
    pub is_locked: bool,
    /// Faults before the charge is created.
    pub faults: Vec<&'static str>,
    /// Steps directly after its creation.
    pub opening: Vec<Action>,
    /// Steps while charges of the batch expire.
    pub race: Vec<Action>,
    /// Steps after that.
    pub later: Vec<Action>,
    /// What an operator does near the end with a payment of this charge that waits for a decision.
    pub decision: Decision,
}

/// A step, and the faults that precede it.
#[derive(Clone, Debug)]
pub struct Action {
    /// Kinds of faults.
    pub faults: Vec<&'static str>,
    /// The step.
    pub kind: ActionKind,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum ActionKind {
    /// A payer pays.
    Pay(Payment),
    /// The merchant cancels.
    Cancel,
    /// A payer pays while the merchant cancels.
    PayAndCancel(Payment),
    /// The merchant requests a refund.
    Refund(Refund),
    /// The merchant requests two refunds concurrently.
    TwoRefunds(Box<[Refund; 2]>),
    /// The bank returns the payment by MED.
    Med {
        /// Parts of 100 of the charge's amount.
        percent: i64,
        /// The nature, in the words of `/_local/bank/med-devolucao`.
        nature: &'static str,
    },
}

/// A payment at the bank.
#[derive(Clone, Debug)]
pub struct Payment {
    /// `None`: the amount of the charge.
    pub amount: Option<i64>,
    /// Who pays.
    pub payer: Payer,
    /// The txid that the bank reports.
    pub txid: Txid,
    /// Whether a paid charge is paid again.
    pub is_again: bool,
}

/// Who pays.
#[derive(Clone, Debug)]
pub enum Payer {
    /// The customer, else a fixed person.
    Customer,
    /// The bank reports no payer.
    Unreported,
    /// Another person.
    Other(String),
}

/// The txid that the bank reports.
#[derive(Clone, Debug)]
pub enum Txid {
    /// That of the charge.
    OfTheCharge,
    /// None: a transfer to the merchant's Pix key.
    Missing,
    /// One that no charge has.
    Foreign(String),
}

/// A refund that the merchant requests.
#[derive(Clone, Debug)]
pub struct Refund {
    /// The idempotency key.
    pub key: String,
    /// Centavos. `None`: the whole rest.
    pub amount: Option<i64>,
    /// Whether by devolução, else by cash-out.
    pub is_devolution: bool,
    /// The Pix key of a cash-out. `None`: the payer's document.
    pub destination: Option<String>,
    /// Whether the merchant bears the fee of a cash-out.
    pub passes_fee: bool,
}

/// What an operator does with a payment that waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Applies it to its charge, or approves the review.
    Accept,
    /// Returns it to its payer.
    Return,
    /// Nothing.
    Leave,
}

impl Plan {
    /// Makes the plan of a seed.
    pub fn new(seed: u64, sizes: Sizes) -> Self {
        let count = sizes.charges;
        let mut charges: Vec<ChargePlan> = (0..count).map(|index| ChargePlan::new(seed, index)).collect();
        // Each kind of fault is planned several times, also in a small trial. A kill removes pending faults.
        let forced: Vec<&str> = [FAULTS; FORCED].concat();
        for (place, kind) in forced.iter().copied().enumerate() {
            let index = count.saturating_mul(place).checked_div(forced.len()).unwrap_or_default();
            if let Some(charge) = charges.get_mut(index) {
                charge.force(seed, kind);
            }
        }
        let batch = (count / 12).clamp(10, 200);
        let steps: usize = charges.iter().map(ChargePlan::steps).sum();
        let mut kills: Vec<Kill> = (0..sizes.kills)
            .map(|kill| {
                let dice = Dice::new(seed, kill);
                let place = dice.between("kill", 30, 970);
                let after_steps = steps.saturating_mul(usize::try_from(place).unwrap_or_default()) / 1_000;
                Kill { after_steps, delay_ms: dice.below("delay of a kill", 40) }
            })
            .collect();
        kills.sort_by_key(|kill| kill.after_steps);
        Self { seed, charges, batch, kills }
    }

    /// Returns the number of steps, without those of the clock.
    pub fn steps(&self) -> usize {
        self.charges.iter().map(ChargePlan::steps).sum()
    }

    /// Returns a digest of the whole plan.
    pub fn digest(&self) -> String {
        digest(&format!("{self:?}"))
    }
}

/// How a charge is used. The numbers are parts of 100.
#[derive(Clone, Copy, Debug)]
enum Story {
    Paid,
    WrongAmount,
    PaidTwice,
    MissingTxid,
    ForeignTxid,
    RaceWithCancel,
    RaceWithExpiry,
    Cancelled,
    Unpaid,
}

const STORIES: [(u64, Story); 9] = [
    (44, Story::Paid),
    (6, Story::WrongAmount),
    (6, Story::PaidTwice),
    (4, Story::MissingTxid),
    (4, Story::ForeignTxid),
    (12, Story::RaceWithCancel),
    (12, Story::RaceWithExpiry),
    (4, Story::Cancelled),
    (8, Story::Unpaid),
];

fn story(dice: &Dice) -> Story {
    let mut rest = dice.below("story", 100);
    for (parts, story) in STORIES {
        if rest < parts {
            return story;
        }
        rest = rest.saturating_sub(parts);
    }
    Story::Paid
}

impl ChargePlan {
    fn new(seed: u64, index: usize) -> Self {
        let dice = Dice::new(seed, index);
        let customer = usize::try_from(dice.below("customer", CUSTOMERS)).unwrap_or_default();
        let document = dice.chance("has customer", 700).then(|| Dice::new(seed, customer).cpf("customer"));
        let is_locked = document.is_some() && dice.chance("lock", 250);
        let amount = dice.between("amount", 1_000, 200_000);
        let story = story(&dice);
        let expires_in = match story {
            Story::RaceWithExpiry | Story::Unpaid | Story::RaceWithCancel => dice.between("expiry", 90, 240),
            _ if dice.chance("short", 300) => dice.between("expiry", 90, 240),
            _ => dice.between("expiry", 900, 7_200),
        };
        let (mut opening, mut race, mut later) = (Vec::new(), Vec::new(), Vec::new());
        let payment = |purpose: &str| payment(&dice, purpose, is_locked);
        let act = |purpose: &str, kind: ActionKind| Action {
            faults: faults(&dice, purpose, own_faults(&kind)),
            kind,
        };
        let pay = |payment: Payment| act("pay", ActionKind::Pay(payment));
        match story {
            Story::Paid => opening.push(pay(payment("payer"))),
            Story::WrongAmount => {
                let other = dice.between("wrong amount", 1, 2_000);
                opening.push(pay(Payment { amount: Some(amount.saturating_add(other)), ..payment("payer") }));
            }
            Story::PaidTwice => {
                opening.push(pay(payment("payer")));
                let again = Payment { is_again: true, ..payment("second payer") };
                let again = act("pay again", ActionKind::Pay(again));
                if dice.chance("second later", 500) { race.push(again) } else { opening.push(again) }
            }
            Story::MissingTxid => opening.push(pay(Payment { txid: Txid::Missing, ..payment("payer") })),
            Story::ForeignTxid => {
                let txid = Txid::Foreign(format!("foreign{:020x}{index:08}", dice.roll("foreign txid")));
                opening.push(pay(Payment { txid, ..payment("payer") }));
            }
            Story::RaceWithCancel => {
                let both = act("pay and cancel", ActionKind::PayAndCancel(payment("payer")));
                if dice.chance("race later", 500) { race.push(both) } else { opening.push(both) }
            }
            Story::RaceWithExpiry => race.push(pay(payment("payer"))),
            Story::Cancelled => opening.push(act("cancel", ActionKind::Cancel)),
            Story::Unpaid => {}
        }
        if dice.chance("late cancel", 60) {
            race.push(act("late cancel", ActionKind::Cancel));
        }
        if dice.chance("refund", 450) {
            later.extend(
                refunds(&dice, amount)
                    .into_iter()
                    .enumerate()
                    .map(|(number, kind)| act(&format!("refund {number}"), kind)),
            );
        }
        if dice.chance("med", 40) {
            let percent =
                if dice.chance("part of med", 500) { 100 } else { dice.between("med percent", 5, 95) };
            let nature = if dice.chance("fraud", 500) { "fraud" } else { "operational" };
            let place = if dice.chance("med first", 500) { 0 } else { later.len() };
            later.insert(place, act("med", ActionKind::Med { percent, nature }));
        }
        let decision = match dice.below("decision", 3) {
            0 => Decision::Accept,
            1 => Decision::Return,
            _ => Decision::Leave,
        };
        let faults = faults(&dice, "create", &CREATE);
        Self { index, amount, expires_in, document, is_locked, faults, opening, race, later, decision }
    }

    /// Returns the key of the charge for requests that are repeated.
    pub fn key(&self) -> String {
        format!("trial-{:05}", self.index)
    }

    fn steps(&self) -> usize {
        let actions = [&self.opening, &self.race, &self.later];
        actions.iter().map(|actions| actions.len()).fold(1, usize::saturating_add)
    }

    /// Makes a kind of fault occur at the first step that it can affect.
    fn force(&mut self, seed: u64, kind: &'static str) {
        if ["filter_ignored", "filter_lags"].contains(&kind) {
            // The service filters by payer only if it expects one that the bank does not report.
            self.document.get_or_insert_with(|| Dice::new(seed, self.index).cpf("customer"));
            self.is_locked = true;
            let payment =
                Payment { amount: None, payer: Payer::Unreported, txid: Txid::OfTheCharge, is_again: false };
            self.opening = vec![Action { faults: vec![kind], kind: ActionKind::Pay(payment) }];
            return;
        }
        let steps = self.opening.iter_mut().chain(&mut self.race).chain(&mut self.later);
        let affected = steps.into_iter().find(|action| own_faults(&action.kind).contains(&kind));
        match affected {
            Some(action) => action.faults.push(kind),
            None => self.faults.push(kind),
        }
    }
}

fn own_faults(kind: &ActionKind) -> &'static [&'static str] {
    match kind {
        ActionKind::Pay(_) | ActionKind::PayAndCancel(_) => &PAY,
        ActionKind::Cancel => &CANCEL,
        ActionKind::Refund(_) | ActionKind::TwoRefunds(_) => &REFUND,
        ActionKind::Med { .. } => &[],
    }
}

fn faults(dice: &Dice, step: &str, own: &[&'static str]) -> Vec<&'static str> {
    let groups: [(&str, &[&'static str], u64); 3] =
        [("any", &ANY, ANY_PER_MILLE), ("own", own, OWN_PER_MILLE), ("slow", &SLOW, SLOW_PER_MILLE)];
    let occurring = groups.into_iter().filter_map(|(group, kinds, per_mille)| {
        let purpose = format!("{group} fault of {step}");
        let kind = dice.pick(&format!("kind of {purpose}"), kinds)?;
        dice.chance(&purpose, per_mille).then_some(*kind)
    });
    occurring.collect()
}

fn payment(dice: &Dice, purpose: &str, is_locked: bool) -> Payment {
    let payer = match dice.below(purpose, 100) {
        // A masked payer of a locked charge makes the service ask the bank for the expected payer.
        0..12 => Payer::Unreported,
        12..24 => Payer::Other(dice.cpf(&format!("cpf of {purpose}"))),
        24..30 if is_locked => Payer::Unreported,
        _ => Payer::Customer,
    };
    Payment { amount: None, payer, txid: Txid::OfTheCharge, is_again: false }
}

fn refunds(dice: &Dice, amount: i64) -> Vec<ActionKind> {
    let refund = |number: usize, amount: Option<i64>| {
        let is_devolution = dice.chance(&format!("devolution {number}"), 550);
        let has_key = !is_devolution && dice.chance(&format!("has key {number}"), 500);
        Refund {
            key: format!("refund-{number}"),
            amount,
            is_devolution,
            destination: has_key.then(|| dice.random_key(&format!("key {number}"))),
            passes_fee: !is_devolution && dice.chance(&format!("fee {number}"), 500),
        }
    };
    let part = |number: usize, most: i64| Some(dice.between(&format!("part {number}"), 1, most));
    match dice.below("kind of refund", 10) {
        0..5 => vec![ActionKind::Refund(refund(0, None))],
        5..7 => vec![ActionKind::Refund(refund(0, part(0, amount)))],
        7..9 => {
            let half = amount / 2;
            vec![ActionKind::Refund(refund(0, part(0, half))), ActionKind::Refund(refund(1, part(1, half)))]
        }
        // Together they exceed the amount if both are larger than its half.
        _ => vec![ActionKind::TwoRefunds(Box::new([refund(0, part(0, amount)), refund(1, part(1, amount))]))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64, charges: usize) -> Plan {
        Plan::new(seed, Sizes { charges, kills: 3 })
    }

    #[test]
    fn the_same_seed_gives_the_same_plan() {
        assert_eq!(plan(7, 300).digest(), plan(7, 300).digest());
        assert_ne!(plan(7, 300).digest(), plan(8, 300).digest());
        assert_ne!(plan(7, 300).digest(), plan(7, 301).digest());
        // A change of the plan must be deliberate: it ends the replay of earlier seeds.
        assert_eq!(plan(7, 300).digest(), "1b14fedacee15413");
    }

    #[test]
    fn every_kind_of_fault_occurs_and_every_way_to_use_a_charge() {
        let plan = plan(7, 100);
        let all = |charge: &ChargePlan| {
            let steps = [&charge.opening, &charge.race, &charge.later];
            let steps: Vec<Action> = steps.into_iter().flatten().cloned().collect();
            steps.into_iter().flat_map(|step| step.faults).chain(charge.faults.clone()).collect::<Vec<_>>()
        };
        let planned: std::collections::BTreeSet<&str> = plan.charges.iter().flat_map(all).collect();
        assert_eq!(planned, FAULTS.into_iter().collect());
        assert_eq!(STORIES.iter().map(|(parts, _)| parts).sum::<u64>(), 100);
        assert_eq!(plan.kills.len(), 3);
        assert!(plan.kills.iter().all(|kill| kill.after_steps < plan.steps()));
    }

    #[test]
    fn no_customer_has_too_many_charges_for_the_velocity_guard() {
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        for document in plan(7, 10_000).charges.into_iter().filter_map(|charge| charge.document) {
            *counts.entry(document).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count <= 100), "{:?}", counts.values().max());
    }
}
