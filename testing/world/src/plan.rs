//! What is done with each charge: how it is created, paid, cancelled, refunded and disputed, and which faults of its
//! acquirer precede each step. A plan is a pure function of the load and the charge's number. It has no ids and no times.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::dice::Dice;

/// The faults of the bank that each kind of step can meet, in addition to those of any request.
const ANY: &str = "http_500 http_401 http_400_after_store token_expired http_429";
const CREATE: &str = "no_copia_e_cola";
const PAY: &str = "read_back_404 lost_notification duplicate_notification late_notification masked_payer missing_txid \
                   med_devolucao removed_by_psp filter_ignored filter_lags";
const CANCEL: &str = "removed_by_psp";
const REFUND: &str = "devolucao_unrealized devolucao_stuck devolucao_refused duplicate_notification";

/// The same at the acquirer of cards.
const CARD_ANY: &str = "http_500 stored_500 stored_500_after_write lost_answer rate_limit lock_timeout key_expired \
                        no_permission";
const CARD_CREATE: &str = "stored_500 stored_500_after_write lost_answer http_402";
const CARD_PAY: &str = "lost_notification duplicate_notification late_notification reordered_notification";
const CARD_REFUND: &str = "refund_pending refund_requires_action refund_fails lost_notification";
const CARD_SLOW: &str = "timeout slow";

/// Why issuers decline, as the acquirer of cards names it.
const DECLINES: [&str; 4] = ["insufficient_funds", "expired_card", "stolen_card", "generic_decline"];

/// Faults that cost about ten seconds each, so they are rare.
const SLOW: &str = "timeout timeout_after_store slow";

/// The service filters by payer only if it expects one that the bank does not report.
const OF_FILTER: [&str; 2] = ["filter_ignored", "filter_lags"];

/// In how many of 1,000 steps a fault of each group precedes the step.
const ANY_PER_MILLE: u64 = 120;
const OWN_PER_MILLE: u64 = 220;
const SLOW_PER_MILLE: u64 = 4;

/// One in so many charges has the next kind of fault, so that each kind occurs also in a short run.
const FORCED: usize = 6;

/// How many documents the customers share. The service limits live charges by document.
const CUSTOMERS: u64 = 5_000;

/// The scopes: the first account in live mode, with charges at its acquirers, and both accounts in test mode.
pub const SCOPES: usize = 3;
pub const LIVE: usize = 0;
pub const FIRST: usize = 1;
pub const OTHER: usize = 2;

/// How charges are paid: live, by Pix at the bank or by card at its acquirer, or by a method of test mode.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Method {
    #[value(alias = "PIX")]
    Live,
    #[value(alias = "CREDIT_CARD")]
    LiveCard,
    #[default]
    Pix,
    CreditCard,
    Mbway,
    Multibanco,
    Boleto,
    Crypto,
}

impl Method {
    pub fn is_pix(self) -> bool {
        matches!(self, Self::Live | Self::Pix)
    }

    pub fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::LiveCard)
    }

    /// Returns the name in requests.
    fn name(self) -> String {
        match self {
            Self::Live | Self::Pix => "PIX".to_owned(),
            Self::LiveCard | Self::CreditCard => "CREDIT_CARD".to_owned(),
            other => {
                other.to_possible_value().map(|value| value.get_name().to_uppercase()).unwrap_or_default()
            }
        }
    }
}

/// What determines the plans.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub seed: u64,
    pub methods: Vec<Method>,
    /// The kinds of faults of the bank. None: all that it has.
    pub faults: Vec<String>,
    /// Whether MED cases of live charges come by notices of the bank, not with its devoluções.
    pub has_notices: bool,
    /// The fee of each Pix, and that of a cash-out, in centavos.
    pub fees: [i64; 2],
    /// Whether the first account creates nine of ten charges.
    pub is_uneven: bool,
    /// By how many seconds the clock advances at a tick, on average.
    pub step_s: i64,
    /// The time of the service's clock at the start, in Unix seconds. 0: as the service shows it.
    pub started_s: i64,
}

#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub number: usize,
    pub scope: usize,
    pub method: Method,
    pub amount: i64,
    /// The body of `POST /v1/pix/charges`, or of `POST /v1/payments` with its `idempotencyKey`.
    pub creation: Value,
    /// Whether the payment has a URL of its own, which receives its legacy events.
    pub has_own_url: bool,
    /// Whether the charge accepts only the payment of its customer.
    pub is_locked: bool,
    /// Faults before the charge is created.
    pub faults: Vec<String>,
    pub steps: Vec<Step>,
    /// What the operator does near the end with a payment of this charge that waits for a decision: true accepts it,
    /// false returns it.
    pub decision: Option<bool>,
    /// Near the end, a payer still pays a page of this charge that ended.
    pub is_paid_late: bool,
}

#[derive(Clone, Debug)]
pub struct Step {
    /// How often the clock advances before.
    pub ticks: i64,
    /// The kinds of faults that precede it.
    pub faults: Vec<String>,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// A payer pays. At the bank, with these fields of `/_local/bank/pay`; in test mode, with those that it has.
    Pay(Value),
    /// At the acquirer of cards, a payer or the acquirer does this, with these fields of `/_local/stripe/…`.
    Card(&'static str, Value),
    Cancel,
    /// A payer pays while the merchant cancels.
    PayAndCancel(Value),
    /// The acquirer of cards decides the dispute that it opened.
    Decide(&'static str),
    /// The merchant requests refunds concurrently, with these bodies.
    Refund(Vec<Value>),
    /// The bank returns a part of the payment by MED, with these fields of `/_local/bank/med-devolucao`.
    Med(Value),
    /// In test mode, the acquirer declines the charge (`fail`), or its time passes (`expire`).
    End(&'static str),
    /// In test mode, the review of a payment ends that is held because its payer is not known.
    Review {
        is_approved: bool,
    },
    /// The payer's bank opens a case, in live mode by a notice. In test mode, the merchant may add evidence.
    Dispute {
        has_evidence: bool,
    },
    /// The case is decided, for the merchant or for the payer.
    Resolve {
        is_won: bool,
    },
}

impl Action {
    fn own_faults(&self, method: Method) -> &'static str {
        match self {
            Self::Card(..) | Self::Decide(_) => CARD_PAY,
            Self::PayAndCancel(_) if method == Method::LiveCard => CARD_PAY,
            Self::Refund(_) if method == Method::LiveCard => CARD_REFUND,
            Self::Pay(_) | Self::PayAndCancel(_) => PAY,
            Self::Cancel if method == Method::Live => CANCEL,
            Self::Refund(_) => REFUND,
            Self::Cancel
            | Self::Med(_)
            | Self::End(_)
            | Self::Review { .. }
            | Self::Dispute { .. }
            | Self::Resolve { .. } => "",
        }
    }
}

impl Load {
    /// Returns how a charge is paid, and its scope.
    fn place(&self, number: usize, dice: &Dice) -> (Method, usize) {
        let (live, tests): (Vec<Method>, Vec<Method>) = self.methods.iter().partition(|one| one.is_live());
        if !live.is_empty() && (tests.is_empty() || number.is_multiple_of(3)) {
            let is_turn = |method: &&Method| (**method == Method::Live) == number.is_multiple_of(2);
            let method = live.iter().find(is_turn).or(live.first());
            return (method.copied().unwrap_or(Method::Live), LIVE);
        }
        let is_pix = tests.contains(&Method::Pix) && dice.chance("is Pix", 500);
        let method = dice.pick("method", &tests).copied().filter(|_| !is_pix).unwrap_or(Method::Pix);
        let is_other = if self.is_uneven { number % 10 == 9 } else { dice.chance("other account", 500) };
        (method, if is_other { OTHER } else { FIRST })
    }
}

impl Plan {
    #[expect(clippy::too_many_lines, reason = "the life of one charge, from its creation to its end")]
    pub fn new(load: &Load, number: usize) -> Self {
        let dice = Dice::new(load.seed, number);
        let (method, scope) = load.place(number, &dice);
        let is_live = scope == LIVE;
        let amount = dice.between("amount", 1_000, 200_000);
        let is_card = method == Method::LiveCard;
        let kinds = if is_card { &card_faults() } else { &load.faults };
        let is_forced = is_live && number % FORCED == if is_card { FORCED / 2 } else { 0 };
        let place = (number / FORCED).checked_rem(kinds.len()).filter(|_| is_forced);
        let kind = place.and_then(|place| kinds.get(place));
        let is_of_filter = kind.is_some_and(|kind| OF_FILTER.contains(&kind.as_str()));
        let customer = usize::try_from(dice.below("customer", CUSTOMERS)).unwrap_or_default();
        let has_customer = is_of_filter || dice.chance("has customer", 700);
        let document = has_customer.then(|| Dice::new(load.seed, customer).cpf("customer"));
        let has_own_url = method == Method::Pix && dice.chance("own URL", 100);
        let is_lockable = method.is_pix() && has_customer && !has_own_url;
        let is_locked = is_of_filter || (is_lockable && dice.chance("lock", 250));
        let story = if is_of_filter { 0 } else { dice.below("story", 100) };
        let mut steps = Vec::new();
        let mut act = |purpose: &str, most_ticks: i64, action: Action| {
            let ticks = dice.between(&format!("ticks of {purpose}"), most_ticks.min(1), most_ticks);
            let faults = if is_live {
                faults(&dice, load, purpose, method, action.own_faults(method))
            } else {
                Vec::new()
            };
            steps.push(Step { ticks, faults, action });
        };
        let payment = |purpose: &str, fields: Value| {
            let is_chosen = is_live || is_locked;
            let mut body = if is_chosen { payer(&dice, purpose, is_locked) } else { json!({}) };
            if is_of_filter {
                body["payer_tax_id"] = Value::Null;
            }
            fields.as_object().into_iter().flatten().for_each(|(name, value)| body[name] = value.clone());
            body
        };
        let exact = || payment("payer", json!({}));
        let mut expires = dice.chance("short", 300);
        if is_card {
            for (place, (most_ticks, action)) in card_steps(&dice, load, amount).into_iter().enumerate() {
                act(&format!("step {place}"), most_ticks, action);
            }
        }
        // The story: parts of 100. Other methods than Pix expire after minutes or days, so they do not wait for it. In
        // test mode, a payment names its charge.
        match story {
            _ if is_card => {}
            44..50 if method.is_pix() => {
                let wrong = amount.saturating_add(dice.between("wrong amount", 1, 2_000));
                act("pay", 0, Action::Pay(payment("payer", json!({"amount": wrong}))));
            }
            50..56 => {
                act("pay", 0, Action::Pay(exact()));
                let again = payment("second payer", json!({"again": true}));
                act("pay again", dice.between("second later", 0, 1), Action::Pay(again));
            }
            56..60 if is_live => act("pay", 0, Action::Pay(payment("payer", json!({"txid": null})))),
            60..64 if is_live => {
                let txid = format!("foreign{:020x}{number:08}", dice.roll("foreign txid"));
                act("pay", 0, Action::Pay(payment("payer", json!({"txid": txid}))));
            }
            64..76 => {
                expires = true;
                act("pay and cancel", dice.between("race later", 0, 1), Action::PayAndCancel(exact()));
            }
            76..88 if method.is_pix() => {
                expires = true;
                act("pay", 2, Action::Pay(exact()));
            }
            88..94 if method.is_pix() => expires = true,
            88..91 if !is_live => act("decline", 0, Action::End("fail")),
            94..97 if !is_live => act("expire", 0, Action::End("expire")),
            88.. => act("cancel", 0, Action::Cancel),
            _ => act("pay", 0, Action::Pay(exact())),
        }
        if is_locked && !is_live {
            act("review", 1, Action::Review { is_approved: dice.chance("approved", 500) });
        }
        if !is_card && dice.chance("late cancel", 60) {
            act("late cancel", 1, Action::Cancel);
        }
        let mut each = |purpose: &str, actions: Vec<Action>| {
            for (place, action) in actions.into_iter().enumerate() {
                act(&format!("{purpose} {place}"), 1, action);
            }
        };
        let case = if method.is_pix() && dice.chance("med", 60) {
            dispute(&dice, load, is_live, amount)
        } else {
            Vec::new()
        };
        let (first, last) =
            if dice.chance("med first", 500) { (case, Vec::new()) } else { (Vec::new(), case) };
        each("med", first);
        if (method.is_pix() || method.name() == "CREDIT_CARD") && dice.chance("refund", 400) {
            each("refund", refunds(&dice, amount, method));
        }
        each("med", last);
        let mut plan = Self {
            number,
            scope,
            method,
            amount,
            creation: Value::Null,
            has_own_url,
            is_locked,
            faults: Vec::new(),
            steps,
            decision: dice.pick("decision", &[None, Some(true), Some(false)]).copied().flatten(),
            is_paid_late: is_card && dice.chance("late", 300),
        };
        if is_live {
            plan.faults = faults(&dice, load, "create", method, if is_card { CARD_CREATE } else { CREATE });
        }
        plan.creation = plan.body(document, expires_in(&dice, load.step_s, expires));
        if let Some(kind) = kind {
            let step =
                plan.steps.iter_mut().find(|step| step.action.own_faults(method).contains(kind.as_str()));
            step.map_or(&mut plan.faults, |step| &mut step.faults).push(kind.clone());
        }
        plan
    }

    /// Returns the status of the charge after an exact payment with these fields.
    pub fn outcome(&self, payment: &Value) -> &'static str {
        match payment.get("payer_tax_id") {
            Some(Value::Null) if self.is_locked => "processing",
            Some(_) if self.is_locked => "refunded",
            _ => "paid",
        }
    }

    /// Returns the body that creates the charge.
    fn body(&self, document: Option<String>, expires_in: i64) -> Value {
        if !self.method.is_pix() || self.has_own_url {
            let key = format!("soak-{:05}", self.number);
            let is_portuguese = matches!(self.method, Method::Mbway | Method::Multibanco);
            return json!({
                "amount": self.amount,
                "currency": if is_portuguese { "EUR" } else { "BRL" },
                "paymentMethods": [self.method.name()],
                "idempotencyKey": key,
                "customerName": "Cliente da Prova",
                "metadata": {"phone": "+351912345678"},
            });
        }
        let mut body = json!({"amount": self.amount, "expires_in": expires_in});
        if let Some(document) = document {
            if self.is_locked {
                body["expected_payer_tax_id"] = json!(document);
            }
            body["customer"] = json!({"name": "Cliente da Prova", "document": document});
        }
        body
    }
}

/// Returns in how many seconds a charge expires: within two steps of the clock, or after four.
fn expires_in(dice: &Dice, step_s: i64, is_short: bool) -> i64 {
    let times = |number: i64, least: i64| step_s.saturating_mul(number).clamp(least, 86_400);
    if is_short {
        dice.between("expiry", 90, times(2, 240))
    } else {
        dice.between("expiry", times(4, 900), 86_400)
    }
}

/// Returns all kinds of faults of the acquirer of cards.
fn card_faults() -> Vec<String> {
    let kinds = [CARD_ANY, CARD_CREATE, CARD_PAY, CARD_REFUND, CARD_SLOW];
    kinds.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn faults(dice: &Dice, load: &Load, step: &str, method: Method, own: &str) -> Vec<String> {
    let is_known = |kind: &&str| method == Method::LiveCard || load.faults.iter().any(|known| known == kind);
    let (any, slow) = if method == Method::LiveCard { (CARD_ANY, CARD_SLOW) } else { (ANY, SLOW) };
    let groups = [("any", any, ANY_PER_MILLE), ("own", own, OWN_PER_MILLE), ("slow", slow, SLOW_PER_MILLE)];
    let occurring = groups.into_iter().filter_map(|(group, kinds, per_mille)| {
        let purpose = format!("{group} fault of {step}");
        let kinds: Vec<&str> = kinds.split_whitespace().filter(is_known).collect();
        let kind = dice.pick(&format!("kind of {purpose}"), &kinds)?;
        dice.chance(&purpose, per_mille).then(|| (*kind).to_owned())
    });
    occurring.collect()
}

/// Returns who pays at the bank: the customer or a fixed person, another person, or one that the bank does not report.
fn payer(dice: &Dice, purpose: &str, is_locked: bool) -> Value {
    match dice.below(purpose, 100) {
        0..12 => json!({"payer_tax_id": null}),
        12..24 => json!({"payer_tax_id": dice.cpf(&format!("cpf of {purpose}"))}),
        24..30 if is_locked => json!({"payer_tax_id": null}),
        _ => json!({}),
    }
}

/// What happens to a charge by card, each step after at most so many ticks. Later come refunds by the merchant.
fn card_steps(dice: &Dice, load: &Load, amount: i64) -> Vec<(i64, Action)> {
    let challenge = |outcome: &str| Action::Card("3ds", json!({"outcome": outcome}));
    let decline = || {
        let code = dice.pick("decline", &DECLINES).copied().unwrap_or_default();
        Action::Card("decline", json!({"decline_code": code}))
    };
    // The wallet has the net at once or up to two days after the start.
    let available_on = load.started_s.saturating_add(dice.between("available", -172_800, 172_800));
    let fields = json!({"available_on": available_on});
    let pay = || Action::Card("pay", fields.clone());
    let with = |name: &str, value: Value| {
        let mut fields = fields.clone();
        fields[name] = value;
        fields
    };
    let succeed = || (1, Action::Card("3ds", with("outcome", "succeed".into())));
    let mut steps = match dice.below("story of a card", 100) {
        0..32 => vec![(0, pay())],
        32..42 => vec![(0, decline()), (1, pay())],
        42..52 => vec![(0, challenge("challenge")), succeed()],
        52..58 => vec![(0, challenge("challenge")), (1, challenge("fail")), (0, pay())],
        58..63 => vec![(0, Action::Card("pay", with("processing_s", load.step_s.max(60).into())))],
        63..71 => vec![(dice.between("race later", 0, 1), Action::PayAndCancel(fields.clone()))],
        71..76 => vec![(0, challenge("challenge")), (0, Action::Cancel), succeed()],
        76..84 => return vec![(1, Action::Cancel)],
        84..88 => return vec![(0, decline())],
        88..92 => return vec![(0, decline()), (0, Action::Card("cancel", json!({})))],
        _ => return Vec::new(),
    };
    let part = dice.between("part there", 1, amount / 2);
    match dice.below("later", 100) {
        0..8 => steps.push((1, Action::Card("refund", json!({})))),
        8..16 => steps.push((1, Action::Card("refund", json!({"amount": part})))),
        16..24 => steps.extend(disputed("formal", "lost", part)),
        24..32 => steps.extend(disputed("formal", "won", part)),
        32..38 => steps.extend(disputed("inquiry", "warning_closed", part)),
        38..42 => steps.extend(disputed("inquiry", "lost", amount)),
        42..44 => steps.push((1, Action::Card("dispute", json!({"kind": "formal"})))),
        _ => {}
    }
    steps
}

fn disputed(kind: &str, status: &'static str, amount: i64) -> [(i64, Action); 2] {
    [(1, Action::Card("dispute", json!({"kind": kind, "amount": amount}))), (2, Action::Decide(status))]
}

fn dispute(dice: &Dice, load: &Load, is_live: bool, amount: i64) -> Vec<Action> {
    if !is_live || load.has_notices {
        let has_evidence = dice.chance("evidence", 500);
        return vec![Action::Dispute { has_evidence }, Action::Resolve { is_won: dice.chance("won", 500) }];
    }
    let percent = if dice.chance("part of med", 500) { 100 } else { dice.between("med percent", 5, 95) };
    let nature = if dice.chance("fraud", 500) { "fraud" } else { "operational" };
    vec![Action::Med(json!({"amount": (amount.saturating_mul(percent) / 100).max(1), "nature": nature}))]
}

fn refunds(dice: &Dice, amount: i64, method: Method) -> Vec<Action> {
    let refund = |number: usize, most: Option<i64>| {
        let mut body = json!({"idempotencyKey": format!("refund-{number}"), "reason": "soak"});
        if let Some(most) = most {
            body["amount"] = json!(dice.between(&format!("part {number}"), 1, most));
        }
        if method.is_pix() && dice.chance(&format!("devolution {number}"), 550) {
            body["strategy"] = json!("devolution");
        } else if method.is_pix() {
            body["strategy"] = json!("cashout");
            body["passFeeToTenant"] = json!(dice.chance(&format!("fee {number}"), 500));
            if dice.chance(&format!("has key {number}"), 500) {
                body["destinationKey"] = json!(dice.random_key(&format!("key {number}")));
            }
        }
        body
    };
    let half = Some(amount / 2);
    match dice.below("kind of refund", 10) {
        0..5 => vec![Action::Refund(vec![refund(0, None)])],
        5..7 => vec![Action::Refund(vec![refund(0, Some(amount))])],
        7..9 => vec![Action::Refund(vec![refund(0, half)]), Action::Refund(vec![refund(1, half)])],
        // Together they exceed the amount if both are larger than its half.
        _ => vec![Action::Refund(vec![refund(0, Some(amount)), refund(1, Some(amount))])],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn load(methods: &[Method]) -> Load {
        let kinds = [ANY, CREATE, PAY, CANCEL, REFUND, SLOW].join(" ");
        let kinds: BTreeSet<String> = kinds.split_whitespace().map(str::to_owned).collect();
        let faults = kinds.into_iter().collect();
        Load { seed: 7, methods: methods.to_vec(), faults, step_s: 600, ..Load::default() }
    }

    #[test]
    fn a_short_run_has_each_method_and_in_live_charges_alone_each_kind_of_fault() {
        let load = load(Method::value_variants());
        let plans: Vec<Plan> = (0..133).map(|number| Plan::new(&load, number)).collect();
        let faults = |plan: &Plan| -> Vec<String> {
            plan.steps.iter().flat_map(|step| &step.faults).chain(&plan.faults).cloned().collect()
        };
        let occurring = |method: Method| -> BTreeSet<String> {
            plans.iter().filter(|plan| plan.method == method).flat_map(faults).collect()
        };
        assert_eq!(occurring(Method::Live).into_iter().collect::<Vec<_>>(), load.faults);
        assert_eq!(occurring(Method::LiveCard), card_faults().into_iter().collect());
        assert!(plans.iter().filter(|plan| plan.scope != LIVE).all(|plan| faults(plan).is_empty()));
        assert_eq!(plans.iter().map(|plan| plan.method.name()).collect::<BTreeSet<_>>().len(), 6);
    }

    #[test]
    fn no_customer_has_too_many_charges_for_the_velocity_guard() {
        let load = load(&[Method::Live]);
        let mut counts = BTreeMap::<String, u32>::new();
        for plan in (0..10_000).map(|number| Plan::new(&load, number)) {
            if let Some(document) = plan.creation["customer"]["document"].as_str() {
                *counts.entry(document.to_owned()).or_default() += 1;
            }
        }
        assert!(counts.values().all(|count| *count <= 100), "{:?}", counts.values().max());
    }
}
