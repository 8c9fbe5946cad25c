//! A run: starts the service, puts it under load while it is disturbed, waits until everything has ended, and gathers
//! what the verifier compares.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_sqs::types::QueueAttributeName;
use domain::calendar::Day;
use domain::row::sortable;
use domain::time::Timestamp;
use faults::due_rows;
use faults::proxy::{Ceiling, FaultProxy};
use futures_util::{StreamExt as _, stream};
use local::fronts::Upstream;
use serde_json::{Value, json};
use shared::store::{Item, Store};
use tokio::sync::watch;
use tokio::time::Interval;
use world::act::{Scope, Setting, World, fault};
use world::dice::Dice;
use world::http::{Call, Repetition, items, text};
use world::listener::Listener;
use world::plan::{BANK, FIRST, LIVE, Load, Method, OTHER, Plan};
use world::verify::Answered;
use world::{Counts, Error, Result, say};

use crate::service::{Service, free_port};
use crate::{Options, TICK};

/// The number of the charge before the load, with which the operator verifies the bank's filter by payer.
const FIRST_CHARGE: usize = usize::MAX;

/// The fee of each Pix, half of which the acquirer gets, and that of a cash-out, in centavos.
const FEES: [i64; 2] = [50, 15];

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

/// The lists and statistics that a dashboard reads, and after how many of 1,000 charges.
const LOOKS: [(&str, u64); 6] = [
    ("/v1/charges?limit=20", 50),
    ("/v1/payments?limit=20", 20),
    ("/v1/payments/stats", 20),
    ("/v1/wallets/transactions?limit=20", 20),
    ("/v1/webhooks/deliveries?limit=20", 20),
    ("/v1/events?limit=20", 20),
];

/// The due rows that are never done: the sweep of each bank connection runs again and again.
const ALWAYS_DUE: &str = "sweep#";

/// The events that each merchant's endpoint receives.
const EVENTS: &str = "charge.created charge.paid charge.failed charge.expired payment.refunded med_case.created \
                      payout.created payout.paid";

pub(crate) struct Soak {
    world: World,
    options: Options,
    service: Service,
    /// Throttles the writes of the functions.
    _throttle: Option<FaultProxy>,
    /// Those of the service.
    arguments: Vec<String>,
    /// How often the clock was to advance.
    ticks: watch::Sender<u64>,
    /// How many steps have begun.
    steps: watch::Sender<u64>,
    is_over: AtomicBool,
}

impl Soak {
    /// Starts the service, sets limits and fees, and registers the webhooks. If the service is to be killed, it is
    /// first killed during its first start.
    pub(crate) async fn start(options: Options, directory: PathBuf) -> Result<Self> {
        let service = Service::new(directory)?;
        let dice = Dice::new(options.seed, FIRST_CHARGE);
        let mut arguments = vec!["--bank-skew".to_owned(), dice.between("skew", -90, 90).to_string()];
        let mut throttle = None;
        if let Some(units) = options.throttle {
            let (proxy, dynamodb) = (FaultProxy::start().await?, format!("127.0.0.1:{}", free_port()?));
            proxy.fronts().url(Upstream::DynamoDb, &format!("http://{dynamodb}"));
            proxy.throttle(Ceiling::of_writes(units));
            arguments.extend(["--aws-listen".to_owned(), dynamodb, "--dynamodb-url".to_owned(), proxy.url()]);
            throttle = Some(proxy);
        }
        let early = if options.kills > 0 { dice.between("early kills", 1, MOST_EARLY_KILLS) } else { 0 };
        for kill in 0..early {
            let after = dice.between(&format!("early kill {kill}"), 1, EARLY_MS).unsigned_abs();
            let _ = tokio::time::timeout(Duration::from_millis(after), service.start(&arguments)).await;
            service.kill().await?;
        }
        service.start(&arguments).await?;
        let ticks =
            i64::try_from(options.duration().as_secs().checked_div(TICK.as_secs()).unwrap_or_default());
        let days = i64::from(options.days).saturating_mul(86_400);
        let plans = Load {
            seed: options.seed,
            methods: options.methods.clone(),
            fees: FEES,
            is_uneven: options.throttle.is_some(),
            step_s: days.checked_div(ticks.unwrap_or_default().max(1)).unwrap_or_default(),
            ..Load::default()
        };
        let events = EVENTS.split_whitespace().collect();
        let repetition = Repetition::InRealTime;
        let setting = Setting { repetition, events, has_failing: true, plans };
        let world = World::start(service.ready.subscribe(), Listener::start().await?, setting).await?;
        let (ticks, steps) = (watch::Sender::new(0), watch::Sender::new(0));
        let is_over = AtomicBool::new(false);
        let soak = Self { world, options, service, _throttle: throttle, arguments, ticks, steps, is_over };
        soak.prepare().await?;
        Ok(soak)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn has_live(&self) -> bool {
        self.options.methods.iter().any(|method| method.is_live())
    }

    /// Sets limits and fees, and lets the operator verify the bank's filter by payer, which the service uses only
    /// then.
    async fn prepare(&self) -> Result<()> {
        let (fee, pix_out) = (format!("{}+0", FEES[0] / 2), FEES[1].to_string());
        for Scope { account, .. } in &self.world.scopes[FIRST..] {
            let settings: [&[&str]; 3] = [
                &["set-velocity", account, "--per-customer", PER_CUSTOMER, "--per-account", "1000000"],
                &["set-fees", account, "--method", "pix", "--acquirer", &fee, "--platform", &fee],
                &["set-pix-out-fee", account, "--centavos", &pix_out],
            ];
            let keep = ["pix", "credit-card", "multibanco", "mbway"]
                .map(|method| ["set-fees-on-refund", account, "--method", method, "--fees", "keep"]);
            for setting in settings.into_iter().chain(keep.iter().map(|setting| &setting[..])) {
                self.service.admin_must(&[&["accounts"], setting, &["--reason", "soak"]].concat()).await?;
            }
        }
        if !self.options.methods.contains(&Method::Live) {
            return Ok(());
        }
        let Scope { api, account, .. } = &self.world.scopes[LIVE];
        let payer = Dice::new(self.options.seed, FIRST_CHARGE).cpf("payer");
        let body = json!({"amount": 1_234, "customer": {"name": "Primeira", "document": payer}});
        let created = api
            .expect(&Call::post("/v1/pix/charges", body).with("idempotency-key", "soak-first"), 201)
            .await?;
        let id = text(&created, "id");
        let answered = Answered { scope: LIVE, ids: BTreeSet::from([id.to_owned()]), ..Answered::default() };
        self.world.notes().answered.insert(FIRST_CHARGE, answered);
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
    pub(crate) async fn load_and_disturb(&self) -> Result<()> {
        let load = async {
            self.load().await;
            self.is_over.store(true, Ordering::SeqCst);
            Ok(())
        };
        let others = (self.advance_by_days(), self.operate(), self.disturb());
        tokio::try_join!(load, others.0, others.1, others.2).map(drop)
    }

    /// Uses charges at a constant rate, also while the requests of earlier ones have no response yet.
    async fn load(&self) {
        let began = Instant::now();
        let next = async |(mut ticks, number): (Interval, usize)| {
            ticks.tick().await;
            let is_over = match self.options.charges {
                Some(most) => usize::try_from(most).is_ok_and(|most| number >= most),
                None => began.elapsed() >= self.options.duration(),
            };
            (!is_over).then(|| (number, (ticks, number.saturating_add(1))))
        };
        let ticks = tokio::time::interval(Duration::from_secs_f64(self.options.rate.recip()));
        let numbers = stream::unfold((ticks, 0), next);
        let plans = numbers.map(|number| Plan::new(&self.world.plans, number));
        plans.for_each_concurrent(None, |plan| self.use_charge(plan)).await;
    }

    async fn use_charge(&self, plan: Plan) {
        let world = &self.world;
        let dice = Dice::new(world.plans.seed, plan.number);
        let api = world.api(&plan);
        self.begin(&plan, &plan.faults).await;
        let Some(id) = world.create(&plan).await else { return };
        if dice.chance("reads", 300) {
            world.must(api, Call::get(format!("/v1/charges/{id}")), &[200]).await;
        }
        for step in &plan.steps {
            let mut ticks = self.ticks.subscribe();
            for _ in 0..step.ticks {
                let _ = ticks.changed().await;
            }
            self.begin(&plan, &step.faults).await;
            world.act(&plan, &id, &step.action).await;
        }
        for (path, per_mille) in LOOKS {
            if dice.chance(path, per_mille) {
                world.must(api, Call::get(path), &[200]).await;
            }
        }
        if dice.chance("logs in", 5) {
            world.wait_until_up().await;
            let dashboard = self.service.ready()["dashboard"].clone();
            let body = json!({"email": dashboard["email"], "password": dashboard["password"]});
            world.must(api, Call::post("/v1/auth/login", body), &[200]).await;
            world.count("log-ins");
        }
    }

    /// Begins a step: injects its faults, and lets a kill that is due follow.
    async fn begin(&self, plan: &Plan, faults: &[String]) {
        self.world.inject(plan, faults).await;
        self.steps.send_modify(|steps| *steps = steps.wrapping_add(1));
    }

    /// Advances the clock in steps until the load ends, by the days together. While many messages wait, the clock
    /// waits too, as the service needs the machine's time for them. It catches up later.
    async fn advance_by_days(&self) -> Result<()> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.tick().await;
        let (mut seconds, mut number): (i64, usize) = (0, 0);
        while !self.is_over() {
            ticks.tick().await;
            let dice = Dice::new(self.options.seed, number);
            number = number.saturating_add(1);
            seconds =
                seconds.saturating_add(dice.between("step", 0, self.world.plans.step_s.saturating_mul(2)));
            if let Some(messages) = self.messages().await.ok().filter(|count| *count <= MOST_MESSAGES) {
                let now = self.world.advance(seconds).await?;
                seconds = 0;
                let (now, charges) = (now.get(..16).unwrap_or(&now), self.world.notes().answered.len());
                say(format_args!("{now}: {charges:>6} charges, {messages:>4} messages"));
            } else {
                self.world.count("steps at which the clock waited for messages");
            }
            self.ticks.send_modify(|ticks| *ticks = ticks.wrapping_add(1));
        }
        Ok(())
    }

    /// Runs an operator's command after each step of the clock. A command fails if the service is killed meanwhile.
    async fn operate(&self) -> Result<()> {
        let account = self.world.scopes[FIRST].account.as_str();
        let mut ticks = self.ticks.subscribe();
        for number in 0_u64.. {
            let _ = tokio::time::timeout(TICK.saturating_mul(2), ticks.changed()).await;
            if self.is_over() {
                break;
            }
            self.world.wait_until_up().await;
            let email = format!("user-{number}@example.com");
            let per_account = number.saturating_add(1_000_000).to_string();
            let add = ["users", "add", account, "--email", &email, "--role", "member", "--reason", "soak"];
            let limits = ["--per-customer", PER_CUSTOMER, "--per-account", &per_account, "--reason", "soak"];
            let command = match number % 4 {
                0 => add.to_vec(),
                1 => [&["accounts", "set-velocity", account][..], &limits].concat(),
                2 => vec!["ledger", "verify"],
                _ => {
                    self.pay_out(&number.to_string()).await?;
                    continue;
                }
            };
            let output = self.service.admin(&command).await?;
            self.world.count(if output.code == 0 { "commands" } else { "commands that failed" });
            // 1: `ledger verify` found a difference.
            if number % 4 == 2 && output.code == 1 && !output.stdout.is_empty() {
                self.world.violation(format!("ledger verify under load: {}", output.stdout));
            }
            if number % 4 == 0 && output.code == 0 {
                self.world.notes().users.insert(email);
            }
        }
        Ok(())
    }

    /// Creates a payout and settles it. Without available money, none is created. As an operator would, repeats a
    /// command that fails because the service is busy or killed.
    async fn pay_out(&self, reference: &str) -> Result<()> {
        let account = self.world.scopes[FIRST].account.as_str();
        let scope = ["--account", account, "--mode", "test", "--amount", "100", "--reason", "soak"];
        let scope = [&scope[..], &["--reference", reference]].concat();
        let created = self.service.admin(&[&["payouts", "create"], &scope[..]].concat()).await?;
        let Some(payout) = created.json.first().map(|payout| text(payout, "id").to_owned()) else {
            self.world.count("payouts that were refused");
            return Ok(());
        };
        for _attempt in 0..MOST_ATTEMPTS {
            self.world.wait_until_up().await;
            if self.service.admin(&["payouts", "settle", &payout, "--reason", "soak"]).await?.code == 0 {
                self.world.notes().payouts[FIRST].push((payout, true));
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.world.violation(format!("the payout {payout} could not be settled"));
        Ok(())
    }

    /// Kills the service and fills its disk, at random times within the load.
    async fn disturb(&self) -> Result<()> {
        let began = Instant::now();
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
            self.world.count("kills under load");
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
        self.world.count("times the disk was full");
        let before = self.world.notes().answered.len();
        let began = Instant::now();
        while self.world.notes().answered.len() <= before {
            if began.elapsed() > RECOVERY {
                return Err(Error::new("after the disk had been full, no request succeeded"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Counts the faults out that have not occurred, because a kill or the end removes them.
    async fn count_pending_faults(&self) -> Result<()> {
        let api = &self.world.scopes[LIVE].api;
        let at_bank = api.read(format!("{BANK}/faults")).await?;
        let at_bank =
            at_bank.as_object().into_iter().flatten().map(|(kind, count)| (fault(BANK, kind), count.clone()));
        let mut pending: Vec<(String, Value)> = at_bank.collect();
        for acquirer in self.world.acquirers() {
            let there = api.read(format!("{acquirer}/faults")).await?;
            let there = items(&there).iter();
            pending.extend(there.map(|one| (fault(acquirer, text(one, "kind")), one["count"].clone())));
        }
        for (name, pending) in pending {
            if let Some(count) = self.world.notes().counts.get_mut(&name) {
                *count = count.saturating_sub(pending.as_u64().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Returns the times from the answers to an account's payments in test mode to their webhooks; `None`: it is missing.
    fn webhooks(&self, scope: usize) -> Vec<Option<Duration>> {
        let received = self.world.listener.received(self.world.scopes[scope].paths.all, "charge.paid");
        let notes = self.world.notes();
        let of_scope = notes.paid.iter().filter_map(|(charge, paid)| {
            let answered = notes.answered.get(charge).filter(|answered| answered.scope == scope)?;
            let received = received.get(answered.ids.first()?);
            Some(received.map(|received| received.first.saturating_duration_since(*paid)))
        });
        of_scope.collect()
    }

    /// Prints the durations of each account's requests and webhooks.
    fn say_durations(&self) {
        say("requests and webhooks:");
        for (number, Scope { name, api, .. }) in self.world.scopes.iter().enumerate() {
            let webhooks: Vec<Duration> = self.webhooks(number).into_iter().flatten().collect();
            let record = api.record();
            let [median, slow, longest] = [50, 99, 100].map(|percent| percentile(&record.durations, percent));
            let [webhook, late] = [50, 99].map(|percent| percentile(&webhooks, percent));
            let (number, responses) = (webhooks.len(), &record.responses);
            say(format_args!(
                "  {name:<6} requests: median {median:.0?}, 99 % {slow:.0?}, longest {longest:.0?}; {number} webhooks: \
                 median {webhook:.0?}, 99 % {late:.0?}; responses {responses:?}"
            ));
        }
    }

    /// Ends the faults and the throttling. Throttled webhooks must arrive before.
    pub(crate) async fn calm(&self) -> Result<()> {
        self.count_pending_faults().await?;
        let api = &self.world.scopes[LIVE].api;
        api.expect(&Call::delete(format!("{BANK}/faults")), 204).await?;
        for acquirer in self.world.acquirers() {
            api.expect(&Call::delete(format!("{acquirer}/faults")), 200).await?;
        }
        self.world.end_at_stripe().await?;
        if self.options.throttle.is_some() {
            let began = Instant::now();
            let missing =
                || [FIRST, OTHER].into_iter().flat_map(|scope| self.webhooks(scope)).any(|one| one.is_none());
            while missing() && began.elapsed() < DRAIN {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            if missing() {
                self.world.violation("throttled webhooks did not arrive within four minutes".to_owned());
            }
            say(format_args!("webhooks arrived until {:.1} s after the load", began.elapsed().as_secs_f64()));
            self.service.kill().await?;
            self.service.start(&[]).await?;
        }
        self.say_durations();
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
        self.world.advance(SETTLE_S).await?;
        self.wait_until_still().await?;
        Ok(())
    }

    async fn settle_once(&self) -> Result<()> {
        let mut open = Vec::new();
        for step in 0..MOST_SETTLE_STEPS {
            let now = self.world.advance(SETTLE_S).await?;
            open = self.wait_until_still().await?;
            let rest = if open.is_empty() { "settled".to_owned() } else { open.join(", ") };
            say(format_args!("{}: {rest}", now.get(..16).unwrap_or(&now)));
            if open.is_empty() && step >= LEAST_SETTLE_STEPS {
                return Ok(());
            }
        }
        self.world.violation(format!("30 days after the load, there are still {}", open.join(", ")));
        Ok(())
    }

    /// Waits until nothing is in progress, until that stays the same, or until all of it is due later. Returns what is in
    /// progress.
    async fn wait_until_still(&self) -> Result<Vec<String>> {
        let ((mut last, mut is_later), mut since) = (self.in_progress().await?, Instant::now());
        while !last.is_empty() && !is_later && since.elapsed() < STILL {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let open;
            (open, is_later) = self.in_progress().await?;
            if open != last {
                (last, since) = (open, Instant::now());
            }
        }
        Ok(last)
    }

    /// Returns what is in progress, and whether all of it is due later.
    async fn in_progress(&self) -> Result<(Vec<String>, bool)> {
        let now = Timestamp::parse_floor(&self.world.advance(0).await?);
        let now = sortable(now.map_err(Error::of("reading the time of the service"))?);
        let mut due = self.due().await?;
        if self.has_live() && !due.is_empty() {
            // A charge whose payment waits for a review stays due, because the service warns of it.
            let [_, held] = self.waiting().await?;
            let held: Vec<String> =
                held.iter().map(|payment| text(payment, "charge").replacen("ch_", "charge#", 1)).collect();
            due.retain(|row| !held.iter().any(|held| !held.is_empty() && row.starts_with(held)));
        }
        let is_later = due.iter().all(|row| row.split(" at ").nth(1).is_some_and(|at| *at > *now));
        let (rows, messages) = (due.len(), self.messages().await?);
        let mut deliveries: u64 = 0;
        for Scope { api, .. } in &self.world.scopes {
            let stats = api.read("/v1/webhooks/stats").await?;
            let open = ["PENDING", "PROCESSING"].map(|status| stats[status].as_u64().unwrap_or_default());
            deliveries = open.into_iter().fold(deliveries, u64::saturating_add);
        }
        due.truncate(MOST_NAMED);
        let rows = (rows > 0).then(|| format!("{rows} due rows such as {}", due.join(", ")));
        let counts = [(messages, "messages"), (deliveries, "open deliveries")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let open = rows.into_iter().chain(counts.map(|(count, what)| format!("{count} {what}")));
        Ok((open.collect(), is_later && messages == 0 && deliveries == 0))
    }

    /// Returns the rows of the due index that can end.
    async fn due(&self) -> Result<Vec<String>> {
        let ready = self.service.running()?;
        let store = Store::new(local::sdk::dynamodb(text(&ready, "dynamodb_url")), text(&ready, "table"));
        let rows = due_rows(&store).await?;
        let rows = rows.iter().map(|row| format!("{} at {}", attribute(row, "pk"), attribute(row, "due_sk")));
        Ok(rows.filter(|row| !row.starts_with(ALWAYS_DUE)).collect())
    }

    /// Returns the number of messages in all queues.
    async fn messages(&self) -> Result<u64> {
        let sqs = local::sdk::sqs(text(&self.service.running()?, "sqs_url"));
        let queues = sqs.list_queues().send().await.map_err(Error::of("listing the queues"))?;
        let mut messages: u64 = 0;
        for queue in queues.queue_urls() {
            let read = sqs.get_queue_attributes().queue_url(queue).attribute_names(QueueAttributeName::All);
            let read = read.send().await.map_err(Error::of("reading the attributes of a queue"))?;
            let counts = read.attributes.into_iter().flatten();
            let counts = counts.filter(|(name, _)| name.as_str().starts_with("ApproximateNumberOfMessages"));
            let counts = counts.filter_map(|(_, count)| count.parse::<u64>().ok());
            messages = counts.fold(messages, u64::saturating_add);
        }
        Ok(messages)
    }

    /// Returns the live payments that match no charge, and those that are held for review.
    async fn waiting(&self) -> Result<[Vec<Value>; 2]> {
        let account = self.world.scopes[LIVE].account.as_str();
        let unapplied = self.service.admin_list(&["receipts", "list", "--account", account]).await?;
        let held = ["review", "list", "--account", account, "--mode", "live"];
        Ok([unapplied, self.service.admin_list(&held).await?])
    }

    /// Lets the operator decide about the payments that wait, as their plans say.
    async fn decide(&self) -> Result<()> {
        let [unapplied, held] = self.waiting().await?;
        let account = self.world.scopes[LIVE].account.as_str();
        let answered = self.world.notes().answered.clone();
        for payment in unapplied.iter().chain(&held) {
            let (pix, held) = (text(payment, "end_to_end_id").to_owned(), text(payment, "payment"));
            // No acquirer returns them.
            let is_receipt = ["boleto", "crypto"].contains(&text(payment, "method"));
            let found = answered.iter().find(|(_, one)| {
                let is_of_charge =
                    one.ids.contains(text(payment, "charge")) && (is_receipt || !held.is_empty());
                is_of_charge || one.unmatched.contains(&pix)
            });
            let Some((number, charge)) = found.and_then(|(number, one)| Some((number, one.ids.first()?)))
            else {
                continue;
            };
            let Some(accepts) = Plan::new(&self.world.plans, *number).decision else { continue };
            let (what, command) = match (held.is_empty(), accepts) {
                (true, true) => ("receipts apply", vec![pix.as_str(), charge, "--account", account]),
                (true, false) => ("receipts return", vec![pix.as_str(), "--account", account]),
                (false, true) => ("review approve", vec![charge.as_str()]),
                (false, false) => ("review return", vec![charge.as_str()]),
            };
            let verb: Vec<&str> = what.split(' ').collect();
            let output = self.service.admin(&[verb, command, vec!["--reason", "soak"]].concat()).await?;
            self.world.count(format_args!("{what}{}", if output.code == 0 { "" } else { " refused" }));
            if let Some(one) = self.world.notes().answered.get_mut(number).filter(|_| output.code == 0) {
                one.is_accepted |= accepts;
            }
        }
        Ok(())
    }

    /// Lets payers pay charges that ended, as if they had confirmed the payment before.
    async fn pay_late(&self) {
        let answered = self.world.notes().answered.clone();
        for (number, answered) in answered.iter().filter(|(number, _)| **number != FIRST_CHARGE) {
            let plan = Plan::new(&self.world.plans, *number);
            if let Some(id) = answered.ids.first().filter(|_| plan.is_paid_late) {
                let is_crypto = plan.method == Method::LiveCrypto;
                let fields = if is_crypto { json!({"confirmed": true}) } else { json!({"late": true}) };
                self.world.act_there(&plan, id, "pay", &fields).await;
            }
        }
    }

    /// Gathers what the verifier compares, and compares it. Returns the counts and the violations.
    pub(crate) async fn compare(&self) -> Result<(Counts, Vec<String>)> {
        let numbers: Vec<usize> = self.world.notes().answered.keys().copied().collect();
        let step = (numbers.len() / REPEATED).max(1);
        for number in numbers.into_iter().filter(|number| *number != FIRST_CHARGE).step_by(step) {
            self.world.create(&Plan::new(&self.world.plans, number)).await;
        }
        let findings = self.world.verify(&self.waiting().await?).await?;
        self.world.notes().counts.extend(findings.counts);
        findings.violations.into_iter().for_each(|text| self.world.violation(text));
        for Scope { name, api, .. } in &self.world.scopes {
            if let Some(count) = api.record().responses.get("500") {
                self.world.violation(format!("{name}: {count} requests were answered 500"));
            }
        }
        self.reconcile().await?;
        self.command_must_agree(&["ledger", "verify"]).await?;
        let users = self.service.admin_list(&["users", "list", &self.world.scopes[FIRST].account]).await?;
        let users: BTreeSet<String> = users.iter().map(|user| text(user, "email").to_owned()).collect();
        let missing: Vec<String> = self.world.notes().users.difference(&users).cloned().collect();
        for email in missing {
            self.world.violation(format!("{email} was added, and is missing"));
        }
        self.service.kill().await?;
        let notes = std::mem::take(&mut *self.world.notes());
        Ok((notes.counts, notes.violations))
    }

    /// Reconciles each day of São Paulo from the start to the service's clock.
    async fn reconcile(&self) -> Result<()> {
        let now = Timestamp::parse_floor(&self.world.advance(0).await?);
        let last = Day::of(now.map_err(Error::of("reading the time of the service"))?);
        let started = Timestamp::from_millis(self.world.plans.started_s.saturating_mul(1_000));
        let first = Day::of(started.map_err(Error::of("reading the time of the start"))?);
        let account = self.world.scopes[LIVE].account.as_str();
        let shown = self.service.admin(&["accounts", "show-acquirer", account]).await?.stdout;
        let connections: BTreeSet<&str> = shown.split('"').filter(|part| part.starts_with("con_")).collect();
        for day in first.date().iter_days().take_while(|day| *day <= last.date()) {
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
            self.world.violation(format!(
                "admin {command}: {} {}",
                output.stdout.trim(),
                output.stderr.trim()
            ));
        }
        Ok(())
    }
}

fn attribute<'a>(row: &'a Item, name: &str) -> &'a str {
    row.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str)
}

/// Returns the duration that `percent` of the durations do not exceed.
fn percentile(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let index = sorted.len().saturating_sub(1).saturating_mul(percent).div_ceil(100);
    sorted.get(index).copied().unwrap_or_default()
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
