//! What is done with each charge: how it is created, paid, cancelled, refunded and disputed, and which faults of its
//! acquirer precede each step. A plan is a pure function of the load and the charge's number. It has no ids and no times.

use std::collections::BTreeSet;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::dice::Dice;

/// The routes of the acquirers on this machine.
pub const BANK: &str = "/_local/bank";
pub const STRIPE: &str = "/_local/stripe";
pub const EUROPE: &str = "/_local/europe";
pub const BTCPAY: &str = "/_local/btcpay";

/// The faults of an acquirer that each kind of step can meet, in addition to those of any request. Slow ones cost about
/// ten seconds each, so they are rare.
#[derive(Default)]
struct Faults {
    any: &'static str,
    create: &'static str,
    pay: &'static str,
    cancel: &'static str,
    refund: &'static str,
    slow: &'static str,
}

const OF_BANK: Faults = Faults {
    any: "http_500 http_401 http_400_after_store token_expired http_429",
    create: "no_copia_e_cola",
    pay: "read_back_404 lost_notification duplicate_notification late_notification masked_payer missing_txid \
          med_devolucao removed_by_psp filter_ignored filter_lags",
    cancel: "removed_by_psp",
    refund: "devolucao_unrealized devolucao_stuck devolucao_refused duplicate_notification",
    slow: "timeout timeout_after_store slow",
};

const OF_STRIPE: Faults = Faults {
    any: "http_500 stored_500 stored_500_after_write lost_answer rate_limit lock_timeout key_expired no_permission",
    create: "stored_500 stored_500_after_write lost_answer http_402",
    pay: "lost_notification duplicate_notification late_notification reordered_notification",
    cancel: "",
    refund: "refund_pending refund_requires_action refund_fails lost_notification",
    slow: "timeout slow",
};

const OF_BTCPAY: Faults = Faults {
    any: "http_500 rate_limit lost_answer",
    create: "lost_answer",
    pay: "lost_notification",
    cancel: "lost_answer",
    refund: "",
    slow: "timeout",
};

impl Faults {
    fn all(&self) -> BTreeSet<&'static str> {
        let groups = [self.any, self.create, self.pay, self.cancel, self.refund, self.slow];
        groups.into_iter().flat_map(str::split_whitespace).collect()
    }
}

/// Why issuers decline, as the acquirer of cards names it.
const DECLINES: [&str; 4] = ["insufficient_funds", "expired_card", "stolen_card", "generic_decline"];

/// The service filters by payer only if it expects one that the bank does not report.
const OF_FILTER: [&str; 2] = ["filter_ignored", "filter_lags"];

/// In how many of 1,000 steps a fault of each group precedes the step.
const ANY_PER_MILLE: u64 = 120;
const OWN_PER_MILLE: u64 = 220;
const SLOW_PER_MILLE: u64 = 4;

/// One in so many live charges of a method has the next kind of fault, so that each kind occurs also in a short run.
const FORCED: usize = 3;

/// What 100 satoshis cost, in centavos. Payments by crypto are multiples of it, so that no conversion is rounded.
const CRYPTO_UNIT: i64 = 54;

/// How many documents the customers share. The service limits live charges by document.
const CUSTOMERS: u64 = 5_000;

/// The scopes: the first account in live mode, with charges at its acquirers, and both accounts in test mode.
pub const SCOPES: usize = 3;
pub const LIVE: usize = 0;
pub const FIRST: usize = 1;
pub const OTHER: usize = 2;

/// How charges are paid: live at an acquirer, with the name of the API, or by a method of test mode.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Method {
    #[value(name = "PIX", alias = "live")]
    Live,
    #[value(name = "CREDIT_CARD", alias = "live_card")]
    LiveCard,
    #[value(name = "BOLETO")]
    LiveBoleto,
    #[value(name = "MULTIBANCO")]
    LiveMultibanco,
    #[value(name = "MBWAY")]
    LiveMbway,
    #[value(name = "CRYPTO")]
    LiveCrypto,
    #[default]
    Pix,
    CreditCard,
    Mbway,
    Multibanco,
    Boleto,
    Crypto,
}

impl Method {
    /// Returns the methods of a list with commas. `all`: every one.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, String> {
        match list {
            "all" => Ok(Self::value_variants().to_vec()),
            list => list.split(',').map(|name| Self::from_str(name, false)).collect(),
        }
    }

    pub fn is_pix(self) -> bool {
        self.name() == "PIX"
    }

    pub fn is_live(self) -> bool {
        self.acquirer().is_some()
    }

    /// Returns the routes of its acquirer. `None`: it is of test mode.
    pub fn acquirer(self) -> Option<&'static str> {
        match self {
            Self::Live => Some(BANK),
            Self::LiveCard | Self::LiveBoleto => Some(STRIPE),
            Self::LiveMultibanco | Self::LiveMbway => Some(EUROPE),
            Self::LiveCrypto => Some(BTCPAY),
            _ => None,
        }
    }

    /// Returns the name in requests.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_uppercase()).unwrap_or_default()
    }

    fn faults(self) -> Faults {
        match self.acquirer() {
            Some(BANK) => OF_BANK,
            Some(BTCPAY) => OF_BTCPAY,
            Some(_) => OF_STRIPE,
            None => Faults::default(),
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
    /// At another acquirer than the bank, a payer or the acquirer does this, with the fields of its route.
    There(&'static str, Value),
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
        let faults = method.faults();
        match self {
            Self::Pay(_) | Self::PayAndCancel(_) | Self::There(..) | Self::Decide(_) => faults.pay,
            Self::Refund(_) => faults.refund,
            Self::Cancel => faults.cancel,
            Self::Med(_)
            | Self::End(_)
            | Self::Review { .. }
            | Self::Dispute { .. }
            | Self::Resolve { .. } => "",
        }
    }
}

impl Load {
    fn has_fault(&self, method: Method, kind: &str) -> bool {
        method != Method::Live || self.faults.iter().any(|known| known == kind)
    }

    /// Returns how a charge is paid, its scope, and how many live charges have the same method before it.
    fn place(&self, number: usize, dice: &Dice) -> (Method, usize, usize) {
        let (live, tests): (Vec<Method>, Vec<Method>) = self.methods.iter().partition(|one| one.is_live());
        let turn = if tests.is_empty() { number } else { number / 3 };
        let is_live = tests.is_empty() || number.is_multiple_of(3);
        let place = turn.checked_rem(live.len()).filter(|_| is_live);
        if let Some(method) = place.and_then(|place| live.get(place)) {
            return (*method, LIVE, turn.checked_div(live.len()).unwrap_or_default());
        }
        let is_pix = tests.contains(&Method::Pix) && dice.chance("is Pix", 500);
        let method = dice.pick("method", &tests).copied().filter(|_| !is_pix).unwrap_or(Method::Pix);
        let is_other = if self.is_uneven { number % 10 == 9 } else { dice.chance("other account", 500) };
        (method, if is_other { OTHER } else { FIRST }, 0)
    }
}

impl Plan {
    #[expect(clippy::too_many_lines, reason = "the life of one charge, from its creation to its end")]
    pub fn new(load: &Load, number: usize) -> Self {
        let dice = Dice::new(load.seed, number);
        let (method, scope, place) = load.place(number, &dice);
        let is_live = scope == LIVE;
        let is_crypto = method == Method::LiveCrypto;
        let unit = if is_crypto { CRYPTO_UNIT } else { 1 };
        let amount = dice.between("amount", 1_000, 200_000);
        let amount = amount.saturating_sub(amount.checked_rem(unit).unwrap_or_default());
        // What a payer does at the bank, and in test mode, is in the story below.
        let is_there = is_live && method != Method::Live;
        let kinds = method.faults().all().into_iter().filter(|kind| load.has_fault(method, kind));
        let kinds: Vec<&str> = kinds.collect();
        // If there are only live charges, fewer are forced.
        let forced = if load.methods.iter().all(|method| method.is_live()) { FORCED } else { 1 };
        let is_forced = is_live && place.is_multiple_of(forced);
        let next = place.checked_div(forced).and_then(|next| next.checked_rem(kinds.len()));
        let kind = next.filter(|_| is_forced).and_then(|next| kinds.get(next)).copied();
        let is_of_filter = kind.is_some_and(|kind| OF_FILTER.contains(&kind));
        let customer = usize::try_from(dice.below("customer", CUSTOMERS)).unwrap_or_default();
        let has_customer = is_of_filter || !method.is_pix() || dice.chance("has customer", 700);
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
        if is_there {
            let steps = if is_crypto {
                crypto_steps(&dice, amount)
            } else {
                stripe_steps(&dice, load, method, amount)
            };
            for (place, (most_ticks, action)) in steps.into_iter().enumerate() {
                act(&format!("step {place}"), most_ticks, action);
            }
        }
        // The story: parts of 100. Other methods than Pix expire after minutes or days, so they do not wait for it. In
        // test mode, a payment names its charge.
        match story {
            _ if is_there => {}
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
        if !is_there && dice.chance("late cancel", 60) {
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
            is_paid_late: is_there && dice.chance("late", 400),
        };
        if is_live {
            plan.faults = faults(&dice, load, "create", method, method.faults().create);
        }
        plan.creation = plan.body(document, expires_in(&dice, load.step_s, expires));
        if let Some(kind) = kind {
            let step = plan.steps.iter_mut().find(|step| step.action.own_faults(method).contains(kind));
            step.map_or(&mut plan.faults, |step| &mut step.faults).push(kind.to_owned());
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
            let is_portuguese = ["MBWAY", "MULTIBANCO"].contains(&self.method.name().as_str());
            let address =
                json!({"line1": "Rua 1", "city": "São Paulo", "state": "SP", "postal_code": "01310-100"});
            return json!({
                "amount": self.amount,
                "currency": if is_portuguese { "EUR" } else { "BRL" },
                "paymentMethods": [self.method.name()],
                "idempotencyKey": key,
                "customerName": "Cliente da Prova",
                "customerEmail": "cliente@example.com",
                "customerDocument": document,
                "metadata": {"phone": "+351912345678", "payerAddress": address},
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

fn faults(dice: &Dice, load: &Load, step: &str, method: Method, own: &str) -> Vec<String> {
    let is_known = |kind: &&str| load.has_fault(method, kind);
    let Faults { any, slow, .. } = method.faults();
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

/// What happens to a charge by crypto, each step after at most so many ticks.
fn crypto_steps(dice: &Dice, amount: i64) -> Vec<(i64, Action)> {
    let all = amount / CRYPTO_UNIT;
    let part = dice.between("part", 1, all.saturating_sub(1));
    // A unit is 100 satoshis.
    let payment = |units: i64, is_confirmed: bool| {
        let bitcoin = format!("{}.{:06}00", units / 1_000_000, units % 1_000_000);
        json!({"amount": bitcoin, "confirmed": is_confirmed})
    };
    let pay = |units: i64, is_confirmed: bool| Action::There("pay", payment(units, is_confirmed));
    let then = |act: &'static str| Action::There(act, json!({}));
    match dice.below("story of crypto", 100) {
        0..25 => vec![(0, pay(all, true))],
        25..42 => vec![(0, pay(all, false)), (2, then("confirm"))],
        42..50 => vec![(0, pay(all, false)), (0, then("replace")), (6, pay(all, true))],
        50..58 => vec![(0, pay(all.saturating_add(part), true))],
        58..66 => vec![(0, pay(part, true)), (0, pay(all.saturating_sub(part), true))],
        66..74 => vec![(0, pay(part, true)), (6, pay(part, true))],
        74..82 => vec![(dice.between("race later", 0, 1), Action::PayAndCancel(payment(all, true)))],
        82..88 => vec![(0, Action::Cancel), (1, pay(all, true))],
        88..92 => vec![(0, pay(all, false))],
        92..97 => vec![(6, pay(all, true))],
        _ => Vec::new(),
    }
}

/// The same for a charge at Stripe. Later come refunds by the merchant, if the method has any.
fn stripe_steps(dice: &Dice, load: &Load, method: Method, amount: i64) -> Vec<(i64, Action)> {
    let challenge = |outcome: &str| Action::There("3ds", json!({"outcome": outcome}));
    let decline = || {
        let code = dice.pick("decline", &DECLINES).copied().unwrap_or_default();
        Action::There("decline", json!({"decline_code": code}))
    };
    // The wallet has the net at once or up to two days after the start.
    let available_on = load.started_s.saturating_add(dice.between("available", -172_800, 172_800));
    let fields = json!({"available_on": available_on});
    let pay = || Action::There("pay", fields.clone());
    let with = |name: &str, value: Value| {
        let mut fields = fields.clone();
        fields[name] = value;
        fields
    };
    let succeed = || (1, Action::There("3ds", with("outcome", "succeed".into())));
    let is_voucher = matches!(method, Method::LiveBoleto | Method::LiveMultibanco);
    let accept = |seconds: i64| Action::There("pay", with("processing_s", seconds.into()));
    let mut steps = match dice.below("story of a card", 100) {
        // A bank accepts a voucher, and confirms it days later, or near the end.
        42..52 if is_voucher => vec![(0, accept(dice.between("confirmed", 60, 345_600)))],
        52..58 | 71..76 if is_voucher => vec![(1, accept(0))],
        42..58 if method == Method::LiveMbway => vec![(0, decline()), (0, Action::Cancel)],
        0..32 => vec![(0, pay())],
        32..42 => vec![(0, decline()), (1, pay())],
        42..52 => vec![(0, challenge("challenge")), succeed()],
        52..58 => vec![(0, challenge("challenge")), (1, challenge("fail")), (0, pay())],
        58..63 => vec![(0, Action::There("pay", with("processing_s", load.step_s.max(60).into())))],
        63..71 => vec![(dice.between("race later", 0, 1), Action::PayAndCancel(fields.clone()))],
        71..76 => vec![(0, challenge("challenge")), (0, Action::Cancel), succeed()],
        76..84 => return vec![(1, Action::Cancel)],
        84..88 => return vec![(0, decline())],
        88..92 => return vec![(0, decline()), (0, Action::There("cancel", json!({})))],
        _ => return Vec::new(),
    };
    let part = dice.between("part there", 1, amount / 2);
    match dice.below("later", 100) {
        0..8 => steps.push((1, Action::There("refund", json!({})))),
        8..16 => steps.push((1, Action::There("refund", json!({"amount": part})))),
        16..24 => steps.extend(disputed("formal", "lost", part)),
        24..32 => steps.extend(disputed("formal", "won", part)),
        32..38 => steps.extend(disputed("inquiry", "warning_closed", part)),
        38..42 => steps.extend(disputed("inquiry", "lost", amount)),
        42..44 => steps.push((1, Action::There("dispute", json!({"kind": "formal"})))),
        _ => {}
    }
    steps
}

fn disputed(kind: &str, status: &'static str, amount: i64) -> [(i64, Action); 2] {
    [(1, Action::There("dispute", json!({"kind": kind, "amount": amount}))), (2, Action::Decide(status))]
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
    use std::collections::BTreeMap;

    use super::*;

    fn load(methods: &[Method]) -> Load {
        let faults = OF_BANK.all().into_iter().map(str::to_owned).collect();
        Load { seed: 7, methods: methods.to_vec(), faults, step_s: 600, ..Load::default() }
    }

    #[test]
    fn a_short_run_has_each_method_and_in_live_charges_alone_each_kind_of_fault() {
        let methods = Method::parse_list("all").unwrap();
        let load = load(&methods);
        let plans: Vec<Plan> = (0..397).map(|number| Plan::new(&load, number)).collect();
        for method in methods {
            let plans = || plans.iter().filter(|plan| plan.method == method);
            let faults =
                plans().flat_map(|plan| plan.steps.iter().flat_map(|step| &step.faults).chain(&plan.faults));
            let occurring: BTreeSet<&str> = faults.map(String::as_str).collect();
            assert!(plans().next().is_some(), "{method:?}");
            assert_eq!(occurring, method.faults().all(), "{method:?}");
        }
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
