//! A run: starts the service, puts it under load while it is disturbed, waits until everything has ended, and gathers
//! what the verifier compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, FixedOffset};
use serde_json::{Value, json};
use soak::dice::Dice;
use soak::http::{Api, Call, items, text};
use soak::{Counts, Error, Result, count, say};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::charges::{BANK, STRIPE, fault};
use crate::listener::{HANGS, Listener, REFUSES};
use crate::observe::{Stores, percentile};
use crate::plan::{FIRST, LIVE, Load, Method, OTHER, Plan, SCOPES};
use crate::service::Service;
use crate::verify::{
    Answered, Events, PIX_FEE, PIX_OUT_FEE, Paths, World, add_cards, open_transfers, verify,
};
use crate::{Options, TICK};

/// The number of the charge before the load, with which the operator verifies the bank's filter by payer.
const FIRST_CHARGE: usize = usize::MAX;

/// The limit of live charges by document.
const PER_CUSTOMER: &str = "100";

/// The most starts that are killed before they end.
const MOST_EARLY_KILLS: i64 = 3;

/// How long after its beginning such a start is killed at the latest.
const EARLY_MS: i64 = 1_500;

/// A kill follows the beginning of a step within this time, so that requests are in progress.
const KILL_MS: i64 = 40;

/// The most messages with which the clock advances. Each step makes messages in flight visible and failed
/// deliveries due again, so a service that is behind would fall back further with each step.
const MOST_MESSAGES: u64 = 200;

/// How the clock advances in each step after the load, until everything has ended, in seconds.
const SETTLE_S: i64 = 21_600;

/// The most of these steps: 30 days.
const MOST_SETTLE_STEPS: usize = 120;

/// The last step follows at least so many others, so that the sweep of a bank finds what no notification reported.
const LEAST_SETTLE_STEPS: usize = 2;

/// How long a state must stay the same before the clock advances again.
const STILL: Duration = Duration::from_secs(2);

/// How long throttled webhooks may take after the load, before the clock advances.
const DRAIN: Duration = Duration::from_mins(4);

/// How often an operator tries to settle a payout.
const MOST_ATTEMPTS: usize = 20;

/// The most decisions of each kind that the operator makes near the end.
const MOST_DECISIONS: usize = 40;

/// Of about how many charges the creation is repeated at the end, to see that it creates no second one.
const REPEATED: usize = 500;

/// How long a full disk stays full.
const FULL: Duration = Duration::from_secs(3);

/// How long the service may take afterwards until it creates charges again.
const RECOVERY: Duration = Duration::from_mins(3);

/// The most that is written to fill a disk, in bytes. A larger disk is probably not meant for it.
const MOST_FILLED: usize = 1 << 30;

/// The most due rows that a line names.
const MOST_NAMED: usize = 5;

/// The most violations that are listed.
const MOST_LISTED: usize = 100;

/// The events that each merchant's endpoint receives.
const EVENTS: &str = "charge.created charge.paid charge.failed charge.expired payment.refunded med_case.created \
                      payout.created payout.paid";

/// An account in one mode.
pub(crate) struct Scope {
    name: &'static str,
    pub api: Api,
    pub account: String,
    pub paths: Paths,
}

/// What happened so far.
#[derive(Default)]
pub(crate) struct Notes {
    /// By the number of the charge.
    pub answered: BTreeMap<usize, Answered>,
    /// When the payments of test charges were answered.
    pub paid: BTreeMap<usize, Instant>,
    /// The payouts that were settled.
    pub payouts: Vec<String>,
    /// The users that an operator's command added.
    users: BTreeSet<String>,
    counts: Counts,
    violations: Vec<String>,
}

pub(crate) struct Soak {
    pub options: Options,
    pub plans: Load,
    /// How long only the second account creates charges.
    pub alone: Duration,
    pub service: Service,
    /// Those of the service.
    arguments: Vec<String>,
    pub listener: Listener,
    pub scopes: [Scope; SCOPES],
    /// How often the clock was to advance.
    pub ticks: watch::Sender<u64>,
    /// How many steps have begun.
    pub steps: watch::Sender<u64>,
    /// The time of the service's clock at the start.
    started: String,
    is_over: AtomicBool,
    notes: Mutex<Notes>,
}

impl Soak {
    /// Starts the service, sets limits and fees, and registers the webhooks. If the service is to be killed, it is
    /// first killed during its first start.
    pub(crate) async fn start(options: Options, directory: PathBuf) -> Result<Arc<Self>> {
        let service = Service::new(directory)?;
        let dice = Dice::new(options.seed, FIRST_CHARGE);
        let arguments = ["--bank-skew".to_owned(), dice.between("skew", -90, 90).to_string()];
        let throttle = options.throttle.iter().flat_map(|units| ["--throttle".to_owned(), units.to_string()]);
        let arguments: Vec<String> = arguments.into_iter().chain(throttle).collect();
        let early = if options.kills > 0 { dice.between("early kills", 1, MOST_EARLY_KILLS) } else { 0 };
        for kill in 0..early {
            let after = dice.between(&format!("early kill {kill}"), 1, EARLY_MS).unsigned_abs();
            let _ = tokio::time::timeout(Duration::from_millis(after), service.start(&arguments)).await;
            service.kill().await?;
        }
        service.start(&arguments).await?;
        let ready = service.ready();
        let listener = Listener::start().await?;
        let scope = |name, keys: &Value, key: &str, paths| {
            let api = Api::new(service.base_url(), text(keys, key));
            Scope { name, api, account: text(keys, "account_id").to_owned(), paths }
        };
        let [live, first, other] = [
            ("/live", None, "/live-own"),
            ("/first", Some(REFUSES), "/first-own"),
            ("/other", Some(HANGS), "/other-own"),
        ]
        .map(|(all, failing, own)| Paths { all, failing, own });
        let scopes = [
            scope("live", &ready, "live_api_key", live),
            scope("first", &ready, "test_api_key", first),
            scope("other", &ready["other_account"], "test_api_key", other),
        ];
        let events: Vec<&str> = EVENTS.split_whitespace().collect();
        for Scope { api, paths, .. } in &scopes {
            listener.subscribe(api, paths.all, &events).await?;
            if let Some(failing) = paths.failing {
                listener.subscribe(api, failing, &["charge.paid"]).await?;
            }
            let rotate = Call::post("/v1/webhooks/override-secret/rotate", json!({}));
            listener.set_secret(paths.own, text(&api.expect(&rotate, 200).await?, "secret"));
        }
        let steps =
            i64::try_from(options.duration().as_secs().checked_div(TICK.as_secs()).unwrap_or_default());
        let days = i64::from(options.days).saturating_mul(86_400);
        let faults = scopes[LIVE].api.read("/_local/bank/faults").await?;
        let started = scopes[FIRST].api.advance_clock(0).await?;
        let plans = Load {
            seed: options.seed,
            methods: options.methods.clone(),
            faults: faults.as_object().into_iter().flatten().map(|(kind, _)| kind.clone()).collect(),
            is_uneven: options.throttle.is_some(),
            step_s: days.checked_div(steps.unwrap_or_default().max(1)).unwrap_or_default(),
            started_s: time(&started)?.timestamp(),
        };
        let alone = if plans.is_uneven { options.duration().div_f64(3.0) } else { Duration::ZERO };
        let (ticks, steps) = (watch::Sender::new(0), watch::Sender::new(0));
        let (is_over, notes) = (AtomicBool::new(false), Mutex::default());
        let soak = Self {
            options,
            plans,
            alone,
            service,
            arguments,
            listener,
            scopes,
            ticks,
            steps,
            started,
            is_over,
            notes,
        };
        soak.prepare().await?;
        Ok(Arc::new(soak))
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn has_live(&self) -> bool {
        self.options.methods.iter().any(|method| method.is_live())
    }

    pub(crate) fn violation(&self, text: String) {
        let mut notes = self.notes();
        if notes.violations.len() < MOST_LISTED {
            notes.violations.push(text);
        } else {
            count(&mut notes.counts, "further violations");
        }
    }

    pub(crate) fn count(&self, name: impl fmt::Display) {
        count(&mut self.notes().counts, name);
    }

    /// Advances the clock. Returns its time.
    async fn advance(&self, seconds: i64) -> Result<String> {
        self.scopes[FIRST].api.advance_clock(seconds).await
    }

    fn stores(&self) -> Stores {
        Stores::new(self.service.ready())
    }

    /// Sets limits and fees, and lets the operator verify the bank's filter by payer, which the service uses only
    /// then.
    async fn prepare(&self) -> Result<()> {
        let fee = PIX_FEE / 2;
        let (fee, pix_out) = (format!("{fee}+0"), PIX_OUT_FEE.to_string());
        for Scope { account, .. } in &self.scopes[FIRST..] {
            let settings: [&[&str]; 5] = [
                &["set-velocity", account, "--per-customer", PER_CUSTOMER, "--per-account", "1000000"],
                &["set-fees", account, "--method", "pix", "--acquirer", &fee, "--platform", &fee],
                &["set-fees-on-refund", account, "--method", "pix", "--fees", "keep"],
                &["set-fees-on-refund", account, "--method", "credit-card", "--fees", "keep"],
                &["set-pix-out-fee", account, "--centavos", &pix_out],
            ];
            for setting in settings {
                self.service.admin_must(&[&["accounts"], setting, &["--reason", "soak"]].concat()).await?;
            }
        }
        if !self.options.methods.contains(&Method::Live) {
            return Ok(());
        }
        let Scope { api, account, .. } = &self.scopes[LIVE];
        let payer = Dice::new(self.options.seed, FIRST_CHARGE).cpf("payer");
        let body = json!({"amount": 1_234, "customer": {"name": "Primeira", "document": payer}});
        let created = api.expect(&Call::post("/v1/pix/charges", body).with_key("soak-first"), 201).await?;
        let id = text(&created, "id");
        let answered = Answered { scope: LIVE, ids: BTreeSet::from([id.to_owned()]), ..Answered::default() };
        self.notes().answered.insert(FIRST_CHARGE, answered);
        let paid = api.expect(&Call::post("/_local/bank/pay", json!({"charge_id": id})), 200).await?;
        let pix = text(&paid, "end_to_end_id");
        let check = ["accounts", "check-acquirer", account, "--known-payment", pix, "--known-payer", &payer];
        let output = self.service.admin(&check).await?;
        // The bank's clock may differ by more than the check accepts.
        let is_failed = |line: &&Value| line["result"] == "failed" && line["check"] != "clock";
        match output.json.iter().find(is_failed) {
            None if output.code == 0 || output.code == 1 => Ok(()),
            failed => Err(Error::new(format!("check-acquirer found {failed:?}: {}", output.stderr.trim()))),
        }
    }

    /// Puts the service under load for its time, and disturbs it.
    pub(crate) async fn load_and_disturb(self: &Arc<Self>) -> Result<()> {
        let began = Instant::now();
        let mut others = JoinSet::new();
        others.spawn(Arc::clone(self).advance_by_days());
        others.spawn(Arc::clone(self).operate());
        others.spawn(Arc::clone(self).disturb(began));
        Arc::clone(self).load().await?;
        self.is_over.store(true, Ordering::SeqCst);
        while let Some(ended) = others.join_next().await {
            ended.map_err(Error::of("a part of the soak failed"))??;
        }
        Ok(())
    }

    /// Advances the clock in steps until the load ends, by the days together. While many messages wait, the clock
    /// waits too, as the service needs the machine's time for them. It catches up later.
    async fn advance_by_days(self: Arc<Self>) -> Result<()> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.tick().await;
        let (mut seconds, mut number): (i64, usize) = (0, 0);
        while !self.is_over() {
            ticks.tick().await;
            let dice = Dice::new(self.options.seed, number);
            number = number.saturating_add(1);
            seconds = seconds.saturating_add(dice.between("step", 0, self.plans.step_s.saturating_mul(2)));
            if let Some(messages) =
                self.stores().messages().await.ok().filter(|count| *count <= MOST_MESSAGES)
            {
                let now = self.advance(seconds).await?;
                seconds = 0;
                let (now, charges) = (now.get(..16).unwrap_or(&now), self.notes().answered.len());
                say(format_args!("{now}: {charges:>6} charges, {messages:>4} messages"));
            } else {
                self.count("steps at which the clock waited for messages");
            }
            self.ticks.send_modify(|ticks| *ticks = ticks.wrapping_add(1));
        }
        Ok(())
    }

    /// Runs an operator's command after each step of the clock. A command fails if the service is killed meanwhile.
    async fn operate(self: Arc<Self>) -> Result<()> {
        let account = self.scopes[FIRST].account.as_str();
        let mut ticks = self.ticks.subscribe();
        for number in 0_u64.. {
            let _ = tokio::time::timeout(TICK.saturating_mul(2), ticks.changed()).await;
            if self.is_over() {
                break;
            }
            self.service.wait_until_up().await;
            let email = format!("user-{number}@example.com");
            let per_account = number.saturating_add(1_000_000).to_string();
            let add = ["users", "add", account, "--email", &email, "--role", "member", "--reason", "soak"];
            let limits = ["--per-customer", PER_CUSTOMER, "--per-account", &per_account, "--reason", "soak"];
            let command = match number % 4 {
                0 => add.to_vec(),
                1 => [&["accounts", "set-velocity", account][..], &limits].concat(),
                2 => vec!["ledger", "verify"],
                _ => {
                    self.pay_out().await?;
                    continue;
                }
            };
            let output = self.service.admin(&command).await?;
            self.count(if output.code == 0 { "commands" } else { "commands that failed" });
            // 1: `ledger verify` found a difference.
            if number % 4 == 2 && output.code == 1 && !output.stdout.is_empty() {
                self.violation(format!("ledger verify under load: {}", output.stdout));
            }
            if number % 4 == 0 && output.code == 0 {
                self.notes().users.insert(email);
            }
        }
        Ok(())
    }

    /// Creates a payout and settles it. Without available money, none is created. As an operator would, repeats a
    /// command that fails because the service is busy or killed.
    async fn pay_out(&self) -> Result<()> {
        let account = self.scopes[FIRST].account.as_str();
        let scope = ["--account", account, "--mode", "test", "--amount", "100", "--reason", "soak"];
        let created = self.service.admin(&[&["payouts", "create"][..], &scope].concat()).await?;
        let Some(payout) = created.json.first().map(|payout| text(payout, "id").to_owned()) else {
            self.count("payouts that were refused");
            return Ok(());
        };
        for _attempt in 0..MOST_ATTEMPTS {
            self.service.wait_until_up().await;
            if self.service.admin(&["payouts", "settle", &payout, "--reason", "soak"]).await?.code == 0 {
                self.notes().payouts.push(payout);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.violation(format!("the payout {payout} could not be settled"));
        Ok(())
    }

    /// Kills the service and fills its disk, at random times within the load.
    async fn disturb(self: Arc<Self>, began: Instant) -> Result<()> {
        let Options { kills, fill, seed, .. } = self.options;
        // In 1,000 parts of the duration; the first of them are kills.
        let time = |place: usize| Dice::new(seed, place).between("disturbance", 30, 900);
        let mut times: Vec<(i64, usize)> =
            (0..kills.saturating_add(fill)).map(|place| (time(place), place)).collect();
        times.sort_unstable();
        for (per_mille, place) in times {
            let per_mille = u32::try_from(per_mille).unwrap_or_default();
            let after = self.options.duration().saturating_mul(per_mille).div_f64(1_000.0);
            tokio::time::sleep(after.saturating_sub(began.elapsed())).await;
            if place >= kills {
                self.fill().await?;
                continue;
            }
            let mut steps = self.steps.subscribe();
            let _ = tokio::time::timeout(TICK, steps.changed()).await;
            let delay = Dice::new(seed, place).between("delay of a kill", 0, KILL_MS).unsigned_abs();
            tokio::time::sleep(Duration::from_millis(delay)).await;
            self.count_pending_faults().await?;
            self.service.kill().await?;
            self.service.start(&self.arguments).await?;
            self.count("kills under load");
        }
        Ok(())
    }

    /// Fills the disk. Afterwards, charges must be created again.
    async fn fill(&self) -> Result<()> {
        let file = self.service.directory.join("filler");
        let filled = tokio::task::spawn_blocking({
            let file = file.clone();
            move || write_until_full(&file)
        });
        let filled = filled.await.map_err(Error::of("filling the disk"))?;
        tokio::time::sleep(FULL).await;
        std::fs::remove_file(&file).and(filled).map_err(Error::of("filling the disk"))?;
        self.count("times the disk was full");
        let before = self.notes().answered.len();
        let began = Instant::now();
        while self.notes().answered.len() <= before {
            if began.elapsed() > RECOVERY {
                return Err(Error::new("after the disk had been full, no request succeeded"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Counts the faults out that have not occurred, because a kill or the end removes them.
    async fn count_pending_faults(&self) -> Result<()> {
        let api = &self.scopes[LIVE].api;
        let at_bank = api.read(format!("{BANK}/faults")).await?;
        let at_bank =
            at_bank.as_object().into_iter().flatten().map(|(kind, count)| (fault(BANK, kind), count));
        let at_stripe = api.read(format!("{STRIPE}/faults")).await?;
        let at_stripe = items(&at_stripe).iter().map(|one| (fault(STRIPE, text(one, "kind")), &one["count"]));
        for (name, pending) in at_bank.chain(at_stripe) {
            if let Some(count) = self.notes().counts.get_mut(&name) {
                *count = count.saturating_sub(pending.as_u64().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Lets the payers and the acquirer of cards end what they have begun: authentications fail, refunds succeed, and
    /// disputes are lost.
    async fn end_at_stripe(&self) -> Result<()> {
        let api = &self.scopes[LIVE].api;
        let books = api.read(format!("{STRIPE}/books")).await?;
        let of = |book: &str, statuses: &[&str]| -> Vec<Value> {
            let is_open = |one: &&Value| statuses.contains(&text(one, "status"));
            items(&books[book]).iter().filter(is_open).cloned().collect()
        };
        for intent in of("payment_intents", &["requires_action"]) {
            let fail = json!({"payment_intent": intent["id"], "outcome": "fail"});
            api.expect(&Call::post(format!("{STRIPE}/3ds"), fail), 200).await?;
        }
        let refunds = of("refunds", &["pending", "requires_action"]);
        let open = ["needs_response", "under_review", "warning_needs_response", "warning_under_review"];
        let disputes = of("disputes", &open);
        let ends = refunds.iter().map(|refund| ("refunds", refund, "succeeded"));
        for (book, one, status) in ends.chain(disputes.iter().map(|dispute| ("disputes", dispute, "lost"))) {
            let end = Call::post(format!("{STRIPE}/{book}/{}", text(one, "id")), json!({"status": status}));
            api.expect(&end, 200).await?;
        }
        Ok(())
    }

    /// Returns the times from the answers to an account's payments in test mode to their webhooks; `None`: it is missing.
    fn webhooks(&self, scope: usize) -> Vec<Option<Duration>> {
        let received = self.listener.received(self.scopes[scope].paths.all, "charge.paid");
        let notes = self.notes();
        let of_scope = notes.paid.iter().filter_map(|(charge, paid)| {
            let answered = notes.answered.get(charge).filter(|answered| answered.scope == scope)?;
            let received = received.get(answered.ids.first()?);
            Some(received.map(|received| received.first.saturating_duration_since(*paid)))
        });
        of_scope.collect()
    }

    /// Prints the durations of each account's requests and webhooks since the last time.
    pub(crate) fn say_durations(&self, title: &str) {
        say(title);
        for (number, Scope { name, api, .. }) in self.scopes.iter().enumerate() {
            let webhooks: Vec<Duration> = self.webhooks(number).into_iter().flatten().collect();
            let mut record = api.record();
            let [median, slow, longest] = [50, 99, 100].map(|percent| percentile(&record.durations, percent));
            let [webhook, late] = [50, 99].map(|percent| percentile(&webhooks, percent));
            let (number, responses) = (webhooks.len(), &record.responses);
            say(format_args!(
                "  {name:<6} requests: median {median:.0?}, 99 % {slow:.0?}, longest {longest:.0?}; {number} webhooks: \
                 median {webhook:.0?}, 99 % {late:.0?}; responses {responses:?}"
            ));
            record.durations.clear();
        }
        self.notes().paid.clear();
    }

    /// Ends the faults and the throttling. Throttled webhooks must arrive before.
    pub(crate) async fn calm(&self) -> Result<()> {
        self.count_pending_faults().await?;
        let api = &self.scopes[LIVE].api;
        api.expect(&Call::delete(format!("{BANK}/faults")), 204).await?;
        api.expect(&Call::delete(format!("{STRIPE}/faults")), 200).await?;
        self.end_at_stripe().await?;
        if self.options.throttle.is_some() {
            let began = Instant::now();
            let missing =
                || [FIRST, OTHER].into_iter().flat_map(|scope| self.webhooks(scope)).any(|one| one.is_none());
            while missing() && began.elapsed() < DRAIN {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            if missing() {
                self.violation("throttled webhooks did not arrive within four minutes".to_owned());
            }
            say(format_args!("webhooks arrived until {:.1} s after the load", began.elapsed().as_secs_f64()));
            self.say_durations("requests and webhooks beside the load of the first account:");
            self.service.kill().await?;
            self.service.start(&[]).await?;
        } else {
            self.say_durations("requests and webhooks:");
        }
        Ok(())
    }

    /// Advances the clock until nothing is in progress. Then the operator decides about payments that wait, and the
    /// clock advances again. It advances once more at the end, because the reconciliation does not count a difference of
    /// the last hour.
    pub(crate) async fn settle(&self) -> Result<()> {
        self.settle_once().await?;
        if self.has_live() {
            self.decide().await?;
            self.pay_late().await;
            self.settle_once().await?;
        }
        self.advance(SETTLE_S).await?;
        self.wait_until_still().await?;
        Ok(())
    }

    async fn settle_once(&self) -> Result<()> {
        let mut open = Vec::new();
        for step in 0..MOST_SETTLE_STEPS {
            let now = self.advance(SETTLE_S).await?;
            open = self.wait_until_still().await?;
            let rest = if open.is_empty() { "settled".to_owned() } else { open.join(", ") };
            say(format_args!("{}: {rest}", now.get(..16).unwrap_or(&now)));
            if open.is_empty() && step >= LEAST_SETTLE_STEPS {
                return Ok(());
            }
        }
        self.violation(format!("30 days after the load, there are still {}", open.join(", ")));
        Ok(())
    }

    /// Waits until nothing is in progress, or until that stays the same. Returns what is in progress.
    async fn wait_until_still(&self) -> Result<Vec<String>> {
        let (mut last, mut since) = (self.in_progress().await?, Instant::now());
        while !last.is_empty() && since.elapsed() < STILL {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let open = self.in_progress().await?;
            if open != last {
                (last, since) = (open, Instant::now());
            }
        }
        Ok(last)
    }

    async fn in_progress(&self) -> Result<Vec<String>> {
        let mut due = self.stores().due().await?;
        if self.has_live() && !due.is_empty() {
            // A charge whose payment waits for a review stays due, because the service warns of it.
            let [_, held] = self.waiting().await?;
            let held: Vec<String> =
                held.iter().map(|payment| text(payment, "charge").replacen("ch_", "charge#", 1)).collect();
            due.retain(|row| !held.iter().any(|held| !held.is_empty() && row.starts_with(held)));
        }
        let (rows, messages) = (due.len(), self.stores().messages().await?);
        let (mut deliveries, mut pending): (u64, usize) = (0, 0);
        for Scope { api, .. } in &self.scopes {
            let stats = api.read("/v1/webhooks/stats").await?;
            let waiting = ["PENDING", "PROCESSING"].map(|status| stats[status].as_u64().unwrap_or_default());
            deliveries = waiting.into_iter().fold(deliveries, u64::saturating_add);
            pending = pending.saturating_add(api.list("/v1/charges?limit=100&status=pending").await?.len());
        }
        let transfers = open_transfers(&self.scopes[LIVE].api.read(BANK).await?);
        due.truncate(MOST_NAMED);
        let rows = (rows > 0).then(|| format!("{rows} due rows such as {}", due.join(", ")));
        let counts = [
            (messages, "messages"),
            (deliveries, "open deliveries"),
            (u64::try_from(pending).unwrap_or(u64::MAX), "charges pending"),
            (u64::try_from(transfers).unwrap_or(u64::MAX), "transfers at the bank in progress"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        Ok(rows.into_iter().chain(counts.map(|(count, what)| format!("{count} {what}"))).collect())
    }

    /// Returns the live payments that match no charge, and those that are held for review.
    async fn waiting(&self) -> Result<[Vec<Value>; 2]> {
        let account = self.scopes[LIVE].account.as_str();
        let unapplied = self.service.admin_list(&["receipts", "list", "--account", account]).await?;
        let held = ["review", "list", "--account", account, "--mode", "live"];
        Ok([unapplied, self.service.admin_list(&held).await?])
    }

    /// Lets the operator decide about some of the payments that wait, as their plans say.
    async fn decide(&self) -> Result<()> {
        let [unapplied, held] = self.waiting().await?;
        let account = self.scopes[LIVE].account.as_str();
        let answered = self.notes().answered.clone();
        let mut decisions: BTreeMap<&str, usize> = BTreeMap::new();
        for payment in unapplied.iter().chain(&held) {
            let (pix, held) = (text(payment, "end_to_end_id").to_owned(), text(payment, "payment"));
            let found = answered.iter().find(|(_, one)| {
                let is_of_charge = one.ids.contains(text(payment, "charge")) && !held.is_empty();
                is_of_charge || one.unmatched.contains(&pix)
            });
            let Some((number, charge)) = found.and_then(|(number, one)| Some((number, one.ids.first()?)))
            else {
                continue;
            };
            let Some(accepts) = Plan::new(&self.plans, *number).decision else { continue };
            let (what, command) = match (held.is_empty(), accepts) {
                (true, true) => ("receipts apply", vec![pix.as_str(), charge, "--account", account]),
                (true, false) => ("receipts return", vec![pix.as_str(), "--account", account]),
                (false, true) => ("review approve", vec![charge.as_str()]),
                (false, false) => ("review return", vec![charge.as_str()]),
            };
            let made = decisions.entry(what).or_default();
            *made = made.saturating_add(1);
            if *made > MOST_DECISIONS {
                continue;
            }
            let verb: Vec<&str> = what.split(' ').collect();
            let output = self.service.admin(&[verb, command, vec!["--reason", "soak"]].concat()).await?;
            self.count(format_args!("{what}{}", if output.code == 0 { "" } else { " refused" }));
            if let Some(one) = self.notes().answered.get_mut(number).filter(|_| output.code == 0) {
                one.is_accepted |= accepts;
            }
        }
        Ok(())
    }

    /// Lets payers pay pages that ended, as if they had confirmed the payment before.
    async fn pay_late(&self) {
        let answered = self.notes().answered.clone();
        for (number, answered) in answered.iter().filter(|(number, _)| **number != FIRST_CHARGE) {
            let plan = Plan::new(&self.plans, *number);
            if let Some(id) = answered.ids.first().filter(|_| plan.is_paid_late) {
                self.act_at_stripe(&plan, id, "pay", &json!({"late": true})).await;
            }
        }
    }

    /// Gathers what the verifier compares, and compares it. Returns the counts and the violations.
    pub(crate) async fn compare(&self) -> Result<(Counts, Vec<String>)> {
        let numbers: Vec<usize> = self.notes().answered.keys().copied().collect();
        let step = (numbers.len() / REPEATED).max(1);
        for number in numbers.into_iter().filter(|number| *number != FIRST_CHARGE).step_by(step) {
            self.create(&Plan::new(&self.plans, number)).await;
        }
        let [unapplied, held] = self.waiting().await?;
        for (number, Scope { name, api, paths, .. }) in self.scopes.iter().enumerate() {
            let mut world = World::read(api).await?;
            let mut events = Events::new();
            for path in [Some(paths.all), Some(paths.own), paths.failing].into_iter().flatten() {
                for (event, objects) in self.listener.all(path) {
                    let ids = objects.into_iter().map(|(object, received)| (object, received.ids.len()));
                    events.insert((path, event), ids.collect());
                }
            }
            {
                let notes = self.notes();
                let answered = notes.answered.iter().filter(|(_, answered)| answered.scope == number);
                world.answered = answered.map(|(number, answered)| (*number, answered.clone())).collect();
                world.payouts = if number == FIRST { notes.payouts.clone() } else { Vec::new() };
                world.ignored_filters = notes.counts.get("fault filter_ignored").copied().unwrap_or_default();
            }
            (world.paths, world.events) = (*paths, events);
            if number == LIVE {
                world.books = api.read(BANK).await?;
                add_cards(&mut world.books, &api.read(format!("{STRIPE}/books")).await?);
                (world.unapplied, world.held) = (unapplied.clone(), held.clone());
                self.reconcile().await?;
            }
            let findings = verify(&world);
            for (what, count) in findings.counts {
                self.notes().counts.insert(format!("{name}: {what}"), count);
            }
            findings.violations.into_iter().for_each(|text| self.violation(format!("{name}: {text}")));
            if let Some(count) = api.record().responses.get("500") {
                self.violation(format!("{name}: {count} requests were answered 500"));
            }
        }
        self.command_must_agree(&["ledger", "verify"]).await?;
        let users = self.service.admin_list(&["users", "list", &self.scopes[FIRST].account]).await?;
        let users: BTreeSet<String> = users.iter().map(|user| text(user, "email").to_owned()).collect();
        let missing: Vec<String> = self.notes().users.difference(&users).cloned().collect();
        for email in missing {
            self.violation(format!("{email} was added, and is missing"));
        }
        self.listener.wrong().into_iter().for_each(|text| self.violation(text));
        self.service.kill().await?;
        let notes = std::mem::take(&mut *self.notes());
        Ok((notes.counts, notes.violations))
    }

    /// Reconciles each day of São Paulo, which is 3 hours behind UTC all year, from the start to the service's clock.
    async fn reconcile(&self) -> Result<()> {
        let zone = FixedOffset::west_opt(3 * 60 * 60).ok_or_else(|| Error::new("no zone"))?;
        let day = |at: &str| time(at).map(|at| at.with_timezone(&zone).date_naive());
        let (last, first) = (day(&self.advance(0).await?)?, day(&self.started)?);
        let account = self.scopes[LIVE].account.as_str();
        let shown = self.service.admin(&["accounts", "show-acquirer", account]).await?.stdout;
        let connections: BTreeSet<&str> = shown.split('"').filter(|part| part.starts_with("con_")).collect();
        for day in first.iter_days().take_while(|day| *day <= last) {
            let day = day.to_string();
            for connection in &connections {
                let at = ["reconcile", "--account", account, "--connection", connection, "--date", &day];
                self.command_must_agree(&at).await?;
            }
        }
        Ok(())
    }

    /// Runs an operator's command that compares. A difference is a violation, also one that is pending.
    async fn command_must_agree(&self, command: &[&str]) -> Result<()> {
        let output = self.service.admin(command).await?;
        let pending = output.json.last().and_then(|summary| summary["pending"].as_u64()).unwrap_or_default();
        if output.code != 0 || pending > 0 {
            let command = command.join(" ");
            self.violation(format!("admin {command}: {} {}", output.stdout.trim(), output.stderr.trim()));
        }
        Ok(())
    }
}

fn time(text: &str) -> Result<DateTime<FixedOffset>> {
    DateTime::parse_from_rfc3339(text).map_err(Error::of("reading the time of the service"))
}

/// Writes a file until the disk is full.
fn write_until_full(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![0; 64 << 10];
    for _ in (0..MOST_FILLED).step_by(piece.len()) {
        match file.write_all(&piece) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            written => written?,
        }
    }
    Err(std::io::Error::other("the disk has more than 1 GiB; use a small one, such as a tmpfs"))
}
