//! A long run: a mixed load at a constant rate while the clock advances by weeks. Samples show what the service uses
//! and keeps. At the end, everything must have ended, and what has expired must be gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::dice::Dice;
use crate::http::{Answer, Api, Call};
use crate::listener::{Fault, Listener};
use crate::observe::{DueRow, Files, Process, Stores, StreamRecords, seconds};
use crate::service::Service;
use crate::throttle::percentile;
use crate::world::{balance, charges, movements, refunds, text};
use crate::{Error, Result, say};

/// The pause between two advances of the clock.
const STEP: Duration = Duration::from_secs(5);

/// The most messages with which the clock advances. Each step makes messages in flight visible and failed
/// deliveries due again, so a service that is behind would fall back further with each step.
const MOST_MESSAGES: u64 = 200;

/// How many samples a run has.
const SAMPLES: u32 = 120;

/// The shortest time between two samples.
const SHORTEST_SAMPLE: Duration = Duration::from_secs(5);

/// Rows and stream records are counted for one in so many samples, because the counts take time.
const SAMPLES_PER_COUNT: u32 = 10;

/// How the clock advances after the load until everything has ended, in seconds, and how often at most: 30 days.
const SETTLE_S: i64 = 21_600;
const MOST_SETTLE_STEPS: usize = 120;

/// How the clock advances at the end, in seconds: stream records are deleted after 24 hours.
const DAY_AND_MORE_S: i64 = 25 * 3_600;

/// How often an operator tries a command.
const MOST_ATTEMPTS: usize = 10;

/// The pause between two looks at what has not ended.
const LOOK: Duration = Duration::from_secs(2);

/// How long the service may take to delete what has expired: two of its sweeps, which run each minute.
const SWEEPS: Duration = Duration::from_secs(150);

/// The time between two sweeps of the service, with some seconds for the sweep itself.
const SWEEP: Duration = Duration::from_secs(65);

/// How long the service keeps each stream record by the machine's clock.
const TIME_TO_READ: Duration = Duration::from_mins(5);

/// The due rows that are never done: the sweep of each bank connection runs again and again.
const ALWAYS_DUE: [&str; 1] = ["sweep#"];

/// Memory at the end may be a quarter more than after the first tenth, and this many bytes: the cache of the
/// database has 64 MiB, which may fill later.
const MEMORY_SLACK: u64 = 80 << 20;

/// The database may grow by a quarter more for a charge in the second half than in the first, and by this many
/// bytes: it grows in steps, when its log is copied.
const GROWTH_SLACK: u64 = 32 << 20;

/// The most due rows that a violation names.
const MOST_NAMED: usize = 20;

/// The most violations that are listed. Further ones are counted.
const MOST_LISTED: usize = 100;

/// The events that each merchant's own server receives.
const EVENTS: [&str; 8] = [
    "charge.created",
    "charge.paid",
    "charge.failed",
    "charge.expired",
    "payment.refunded",
    "med_case.created",
    "payout.created",
    "payout.paid",
];

/// How a run is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of the service.
    pub service: PathBuf,
    /// The program of the operator's command.
    pub admin: PathBuf,
    /// The directory of the service's state.
    pub directory: PathBuf,
    /// Determines what is done with each charge.
    pub seed: u64,
    /// How long the load lasts.
    pub duration: Duration,
    /// By how many days the clock advances meanwhile.
    pub days: u32,
    /// The pause between two charges.
    pub pause: Duration,
    /// A file for the samples.
    pub csv: Option<PathBuf>,
}

/// The results.
#[derive(Debug, Default)]
pub struct Report {
    /// Counts for the final table.
    pub counts: BTreeMap<&'static str, u64>,
    /// How often requests had to be repeated, by reason.
    pub repetitions: BTreeMap<String, u64>,
    /// What must not be.
    pub violations: Vec<String>,
}

/// How a charge ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Paid,
    Expired,
    Cancelled,
}

/// A charge of the load.
#[derive(Clone, Debug)]
struct Used {
    merchant: usize,
    fate: Fate,
    /// Whether the payment has a URL of its own, which receives its events too.
    has_own_url: bool,
    /// The requested refund: its id and its amount.
    refund: Option<(String, i64)>,
    /// The MED case.
    case: Option<String>,
}

/// What was answered so far.
#[derive(Default)]
struct Notes {
    /// By the charge's id.
    charges: BTreeMap<String, Used>,
    /// The durations of the requests that created a charge since the last sample.
    latencies: Vec<Duration>,
    /// The payouts that were settled.
    payouts: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

struct Merchant {
    api: Api,
    listener: Listener,
}

struct Trial {
    seed: u64,
    service: Service,
    ready: Value,
    admin: Admin,
    account: String,
    merchants: [Merchant; 2],
    /// Refuses one in three requests. The first merchant uses it too.
    refusing: Listener,
    /// Hangs for one in twenty requests. The second merchant uses it too.
    hanging: Listener,
    /// Receives the events of payments with a URL of their own.
    own_urls: Listener,
    is_over: AtomicBool,
    notes: Mutex<Notes>,
}

/// What the service used and kept at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    elapsed: Duration,
    charges: u64,
    memory: u64,
    cpu: Duration,
    files: Files,
    due: u64,
    messages: u64,
    open: u64,
    median: Duration,
    slow: Duration,
    /// Rows of the state table and records of its stream.
    counted: Option<(u64, StreamRecords)>,
}

/// Carries out a run.
///
/// # Errors
///
/// When it can't be carried out. Violations are in the report.
pub async fn run(options: &Options) -> Result<Report> {
    let trial = Arc::new(Trial::start(options).await?);
    let mut csv = options
        .csv
        .as_ref()
        .map(File::create)
        .transpose()
        .map_err(Error::of("creating the file of samples"))?;
    show(&mut csv, Sample::HEAD)?;
    let mut others = JoinSet::new();
    others.spawn(Arc::clone(&trial).advance(options.duration, options.days));
    let load = tokio::spawn(Arc::clone(&trial).load(options.duration, options.pause));
    let began = Instant::now();
    let sampling = trial.sample(began, options.duration, &mut csv).await;
    trial.is_over.store(true, Ordering::SeqCst);
    let samples = sampling?;
    load.await.map_err(Error::of("the load failed"))?;
    while let Some(ended) = others.join_next().await {
        ended.map_err(Error::of("the clock failed"))??;
    }
    let advanced = trial.settle().await?;
    trial.check_expiry(advanced).await?;
    trial.compare().await?;
    trial.check_growth(began, &samples).await?;
    trial.service.kill().await?;
    let mut notes = std::mem::take(&mut *trial.notes());
    let mut repetitions = BTreeMap::new();
    for merchant in &trial.merchants {
        for (reason, count) in merchant.api.check_repetitions(&mut notes.violations) {
            let all: &mut u64 = repetitions.entry(reason).or_default();
            *all = all.saturating_add(count);
        }
    }
    Ok(Report { counts: notes.counts, repetitions, violations: notes.violations })
}

/// Prints a line of the table of samples, and writes it to the file for spreadsheets.
fn show(csv: &mut Option<File>, line: &str) -> Result<()> {
    say(line);
    let Some(file) = csv else { return Ok(()) };
    let cells: Vec<&str> = line.split_whitespace().collect();
    writeln!(file, "{}", cells.join(";")).map_err(Error::of("writing a sample"))
}

impl Trial {
    async fn start(options: &Options) -> Result<Self> {
        let service = Service::new(options.service.clone(), options.directory.clone(), Vec::new())?;
        let ready = service.start().await?;
        let merchant = async |key: &str| -> Result<Merchant> {
            let api = Api::new(service.base_url());
            api.set_key(ready.pointer(key).and_then(Value::as_str).unwrap_or_default());
            let listener = Listener::start().await?;
            listener.subscribe(&api, &EVENTS).await?;
            Ok(Merchant { api, listener })
        };
        let merchants = [merchant("/test_api_key").await?, merchant("/other_account/test_api_key").await?];
        let refusing = Listener::with_fault(Fault::Refuses, 3).await?;
        refusing.subscribe(&merchants[0].api, &["charge.paid"]).await?;
        let hanging = Listener::with_fault(Fault::Hangs, 20).await?;
        hanging.subscribe(&merchants[1].api, &["charge.paid"]).await?;
        let admin = Admin { program: options.admin.clone(), ready_file: service.ready_file() };
        let account = admin.account_of("Loja Exemplo").await?;
        Ok(Self {
            seed: options.seed,
            service,
            ready,
            admin,
            account,
            merchants,
            refusing,
            hanging,
            own_urls: Listener::start().await?,
            is_over: AtomicBool::new(false),
            notes: Mutex::default(),
        })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn violation(&self, text: String) {
        let mut notes = self.notes();
        if notes.violations.len() < MOST_LISTED {
            notes.violations.push(text);
        } else {
            let count = notes.counts.entry("further violations").or_default();
            *count = count.saturating_add(1);
        }
    }

    fn count(&self, name: &'static str) {
        let mut notes = self.notes();
        let count = notes.counts.entry(name).or_default();
        *count = count.saturating_add(1);
    }

    fn note(&self, id: &str, change: impl FnOnce(&mut Used)) {
        if let Some(used) = self.notes().charges.get_mut(id) {
            change(used);
        }
    }

    fn merchant(&self, number: usize) -> &Merchant {
        let [first, second] = &self.merchants;
        if number.is_multiple_of(2) { first } else { second }
    }

    fn stores(&self) -> Stores<'_> {
        Stores { api: &self.merchants[0].api, ready: &self.ready }
    }

    /// Advances the clock in steps of the same length until the load ends. While many messages wait, the clock
    /// waits too, as the service needs the machine's time for them. It catches up later.
    async fn advance(self: Arc<Self>, duration: Duration, days: u32) -> Result<()> {
        let steps = i64::try_from(duration.as_secs().checked_div(STEP.as_secs()).unwrap_or_default());
        let steps = steps.map_err(Error::of("--minutes"))?.max(1);
        let step = i64::from(days).saturating_mul(86_400).checked_div(steps).unwrap_or_default();
        let mut ticks = tokio::time::interval(STEP);
        ticks.tick().await;
        let mut seconds: i64 = 0;
        while !self.is_over() {
            ticks.tick().await;
            seconds = seconds.saturating_add(step);
            if self.stores().messages().await? <= MOST_MESSAGES {
                self.move_clock(seconds).await?;
                seconds = 0;
            } else {
                self.count("steps at which the clock waited for messages");
            }
        }
        Ok(())
    }

    /// Advances the clock. Returns its time.
    async fn move_clock(&self, seconds: i64) -> Result<String> {
        let advanced = self.merchants[0].api.advance_clock(seconds).await;
        advanced.ok_or_else(|| Error::new("the clock could not be advanced"))
    }

    /// Uses charges at a constant rate, also while the requests of earlier ones have no response yet.
    async fn load(self: Arc<Self>, duration: Duration, pause: Duration) {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(pause);
        let mut running = JoinSet::new();
        let mut number: usize = 0;
        while began.elapsed() < duration && !self.is_over() {
            ticks.tick().await;
            running.spawn(Arc::clone(&self).use_charge(number));
            number = number.saturating_add(1);
            while running.try_join_next().is_some() {}
        }
        while running.join_next().await.is_some() {}
    }

    /// Sends a request. Another status than expected is a violation.
    async fn expect(&self, merchant: usize, call: Call, status: u16) -> Option<Value> {
        match self.merchant(merchant).api.settle(&call).await {
            Some(answer) if answer.status == status => Some(answer.body),
            other => {
                self.violation(format!("{call:?} was answered {other:?}"));
                None
            }
        }
    }

    async fn use_charge(self: Arc<Self>, number: usize) {
        let dice = Dice::new(self.seed, number);
        let fate = match dice.below("fate", 100) {
            0..60 => Fate::Paid,
            60..85 => Fate::Expired,
            _ => Fate::Cancelled,
        };
        let amount = dice.between("amount", 1_000, 100_000);
        let Some(id) = self.create(number, &dice, fate, amount).await else { return };
        if dice.chance("reads", 300) {
            self.expect(number, Call::get(format!("/v1/charges/{id}")), 200).await;
        }
        match fate {
            Fate::Expired => {}
            Fate::Cancelled => {
                self.act(number, &id, Call::post(format!("/v1/payments/{id}/cancel"), json!({}))).await;
            }
            Fate::Paid => {
                let pay = Call::post(format!("/v1/sandbox/charges/{id}/pay"), json!({}));
                if self.act(number, &id, pay).await {
                    self.use_payment(number, &dice, &id, amount).await;
                }
            }
        }
        self.look(number, &dice).await;
    }

    /// Creates a charge. Returns its id.
    async fn create(&self, number: usize, dice: &Dice, fate: Fate, amount: i64) -> Option<String> {
        let key = format!("long-run-{number}");
        let has_own_url = fate == Fate::Paid && dice.chance("own URL", 100);
        let call = if has_own_url {
            let own = json!({
                "amount": amount,
                "paymentMethods": ["PIX"],
                "idempotencyKey": key,
                "webhookUrl": self.own_urls.url,
            });
            Call::post("/v1/payments", own)
        } else {
            // Longer than a step of the clock, unless the charge is to expire.
            let expires_in = if fate == Fate::Expired { 3_600 } else { 10 * 86_400 };
            let customer = json!({"name": "Maria Silva", "document": dice.cpf("customer")});
            let body = json!({"amount": amount, "expires_in": expires_in, "customer": customer});
            Call::post("/v1/pix/charges", body).with_key(key)
        };
        let began = Instant::now();
        let created = self.expect(number, call, 201).await?;
        let id = text(&created, "id");
        let id = if has_own_url { format!("ch_{id}") } else { id };
        let used = Used { merchant: number % 2, fate, has_own_url, refund: None, case: None };
        let mut notes = self.notes();
        notes.latencies.push(began.elapsed());
        notes.charges.insert(id.clone(), used);
        Some(id)
    }

    /// Pays or cancels a charge. Returns false if it had expired, because the clock was advanced meanwhile.
    async fn act(&self, number: usize, id: &str, call: Call) -> bool {
        match self.merchant(number).api.settle(&call).await {
            // A late payment is accepted and returned to the payer.
            Some(Answer { status: 200, body }) if text(&body, "status") != "expired" => true,
            Some(Answer { status: 200 | 422, .. }) => {
                self.note(id, |used| used.fate = Fate::Expired);
                self.count("charges that expired before their payment or cancellation");
                false
            }
            other => {
                self.violation(format!("{call:?} was answered {other:?}"));
                false
            }
        }
    }

    /// Refunds some payments, and disputes some.
    async fn use_payment(&self, number: usize, dice: &Dice, id: &str, amount: i64) {
        if dice.chance("refunds", 200) {
            let part = if dice.chance("refunds all", 500) { amount } else { dice.between("part", 1, amount) };
            let body =
                json!({"idempotencyKey": format!("refund-of-{id}"), "amount": part, "reason": "long run"});
            let refund =
                self.expect(number, Call::post(format!("/v1/payments/{id}/refund"), body), 201).await;
            if let Some(refund) = refund {
                self.note(id, |used| used.refund = Some((text(&refund, "id"), part)));
            }
        } else if dice.chance("is disputed", 60) {
            self.dispute(number, dice, id).await;
        }
    }

    /// Opens a MED case, adds evidence to some, and decides it.
    async fn dispute(&self, number: usize, dice: &Dice, id: &str) {
        let open = Call::post(format!("/v1/sandbox/charges/{id}/med-cases"), json!({}));
        let Some(case) = self.expect(number, open, 201).await.map(|case| text(&case, "id")) else { return };
        self.note(id, |used| used.case = Some(case.clone()));
        if dice.chance("has evidence", 500) {
            self.prove(number, &case).await;
            let appeal = json!({"reason": "Entregue"});
            self.expect(number, Call::post(format!("/v1/med/cases/{case}/appeal"), appeal), 200).await;
        }
        let decision = if dice.chance("is won", 500) { "merchant" } else { "payer" };
        let resolve =
            Call::post(format!("/v1/sandbox/med/cases/{case}/resolve"), json!({"decision": decision}));
        self.expect(number, resolve, 200).await;
    }

    /// Uploads evidence.
    async fn prove(&self, number: usize, case: &str) {
        const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";
        let body = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
        let path = format!("/v1/med/cases/{case}/evidence");
        let Some(upload) = self.expect(number, Call::post(&path, body), 201).await else { return };
        let url = text(&upload, "upload_url");
        let api = &self.merchant(number).api;
        match api.send_to(Method::PUT, &url, &[("content-type", "image/png")], PNG).await {
            Ok(Answer { status: 200, .. }) => {}
            // The URL is valid for less than a step of the clock.
            Ok(Answer { status: 403, .. }) => return self.count("uploads that came too late"),
            other => return self.violation(format!("the upload for {case} was answered {other:?}")),
        }
        let confirm = Call::post(format!("{path}/{}/complete", text(&upload, "id")), json!({}));
        if self.expect(number, confirm, 200).await.is_some() {
            self.count("evidence");
        }
    }

    /// Reads lists and statistics, as a dashboard does, and logs in.
    async fn look(&self, number: usize, dice: &Dice) {
        for (path, per_mille) in [
            ("/v1/charges?limit=20", 50),
            ("/v1/payments?limit=20", 20),
            ("/v1/payments/stats", 20),
            ("/v1/wallets/transactions?limit=20", 20),
            ("/v1/webhooks/deliveries?limit=20", 20),
            ("/v1/events?limit=20", 20),
        ] {
            if dice.chance(path, per_mille) {
                self.expect(number, Call::get(path), 200).await;
            }
        }
        if dice.chance("logs in", 5) {
            let field = |name: &str| self.ready.pointer(name).cloned().unwrap_or_default();
            let body = json!({"email": field("/dashboard/email"), "password": field("/dashboard/password")});
            if self.expect(number, Call::post("/v1/auth/login", body), 200).await.is_some() {
                self.count("log-ins");
            }
        }
    }

    /// Creates a payout and settles it. Without available money, none is created. As an operator would, repeats a
    /// command that fails because the service is busy.
    async fn pay_out(&self) -> Result<()> {
        let scope = ["--account", &self.account, "--mode", "test"];
        let create =
            [&["payouts", "create"], &scope[..], &["--amount", "100", "--reason", "long run"]].concat();
        let created = self.admin.run(&create).await?;
        let Some(payout) = created.json().first().map(|payout| text(payout, "id")) else {
            self.count("payouts that were refused");
            return Ok(());
        };
        for _attempt in 0..MOST_ATTEMPTS {
            let settled = self.admin.run(&["payouts", "settle", &payout, "--reason", "long run"]).await?;
            if settled.code == 0 {
                self.notes().payouts.push(payout);
                return Ok(());
            }
            self.count("commands that were repeated");
            tokio::time::sleep(LOOK).await;
        }
        self.violation(format!("the payout {payout} could not be settled"));
        Ok(())
    }

    /// Takes samples until the load has lasted its time.
    async fn sample(
        &self,
        began: Instant,
        duration: Duration,
        csv: &mut Option<File>,
    ) -> Result<Vec<Sample>> {
        let pause = duration.checked_div(SAMPLES).unwrap_or(duration).max(SHORTEST_SAMPLE);
        let mut ticks = tokio::time::interval(pause);
        ticks.tick().await;
        let mut samples: Vec<Sample> = Vec::new();
        let mut number: u32 = 0;
        while began.elapsed().saturating_add(pause) <= duration.saturating_add(SHORTEST_SAMPLE) {
            ticks.tick().await;
            number = number.saturating_add(1);
            self.pay_out().await?;
            let sample = self.take_sample(began, number.is_multiple_of(SAMPLES_PER_COUNT)).await?;
            let now = self.move_clock(0).await?;
            show(csv, &sample.line(samples.last(), &now))?;
            samples.push(sample);
        }
        Ok(samples)
    }

    async fn take_sample(&self, began: Instant, counts: bool) -> Result<Sample> {
        let stores = self.stores();
        let id = self.service.process_id().await.unwrap_or_default();
        let process = Process::read(id).unwrap_or_default();
        let mut latencies = std::mem::take(&mut self.notes().latencies);
        latencies.sort();
        let counted =
            if counts { Some((stores.rows().await?, stores.stream_records().await?)) } else { None };
        let created = self.notes().charges.len();
        Ok(Sample {
            elapsed: began.elapsed(),
            charges: u64::try_from(created).unwrap_or(u64::MAX),
            memory: process.memory,
            cpu: process.cpu,
            files: self.files(),
            due: u64::try_from(stores.due().await?.len()).unwrap_or(u64::MAX),
            messages: stores.messages().await?,
            open: self.open_deliveries().await?,
            median: percentile(&latencies, 50),
            slow: percentile(&latencies, 99),
            counted,
        })
    }

    fn files(&self) -> Files {
        Files::read(&self.service.directory.join(".local"))
    }

    /// Returns the number of deliveries that wait for an attempt.
    async fn open_deliveries(&self) -> Result<u64> {
        let mut open: u64 = 0;
        for merchant in &self.merchants {
            let stats = merchant.api.settle(&Call::get("/v1/webhooks/stats")).await;
            let stats = stats.filter(|answer| answer.status == 200);
            let stats = stats.ok_or_else(|| Error::new("the statistics of webhooks were not answered"))?.body;
            let waiting = ["PENDING", "PROCESSING"].map(|status| stats.get(status).and_then(Value::as_u64));
            open = waiting.into_iter().flatten().fold(open, u64::saturating_add);
        }
        Ok(open)
    }

    /// Advances the clock until everything has ended. Then advances it by more than the retention of stream records,
    /// and returns when.
    async fn settle(&self) -> Result<SystemTime> {
        let mut rest = String::new();
        for _step in 0..MOST_SETTLE_STEPS {
            let now = self.move_clock(SETTLE_S).await?;
            tokio::time::sleep(LOOK).await;
            let due = self.unfinished().await?;
            let (messages, open) = (self.stores().messages().await?, self.open_deliveries().await?);
            say(format_args!("{now}: {} due rows, {messages} messages, {open} open deliveries", due.len()));
            if due.is_empty() && messages == 0 && open == 0 {
                rest.clear();
                break;
            }
            let listed: Vec<String> =
                due.iter().take(MOST_NAMED).map(|row| format!("{} at {}", row.partition, row.due)).collect();
            rest = format!(
                "{} due rows ({}), {messages} messages, {open} open deliveries",
                due.len(),
                listed.join(", ")
            );
        }
        if !rest.is_empty() {
            self.violation(format!("30 days after the load, there are still {rest}"));
        }
        let advanced = SystemTime::now();
        self.move_clock(DAY_AND_MORE_S).await?;
        tokio::time::sleep(LOOK).await;
        Ok(advanced)
    }

    /// Returns the due rows that can end.
    async fn unfinished(&self) -> Result<Vec<DueRow>> {
        let mut due = self.stores().due().await?;
        due.retain(|row| !ALWAYS_DUE.iter().any(|always| row.partition.starts_with(always)));
        Ok(due)
    }

    /// Waits until the service has deleted the rows that have expired, and the stream records that were created a
    /// minute before the last long advance of the clock or earlier, if they are older than some minutes.
    async fn check_expiry(&self, advanced: SystemTime) -> Result<()> {
        let now = seconds(&self.move_clock(0).await?)?;
        let began = Instant::now();
        loop {
            let young = SystemTime::now().checked_sub(TIME_TO_READ).unwrap_or(advanced);
            let kept_from = advanced.min(young).checked_sub(SWEEP).unwrap_or(advanced);
            let expired = self.stores().expired(now).await?;
            let records = self.stores().stream_records().await?;
            let is_trimmed = records.oldest.is_none_or(|oldest| oldest >= kept_from);
            if (expired.is_empty() && is_trimmed) || began.elapsed() > SWEEPS {
                say(format_args!(
                    "{:.0} s later: {} expired rows, {} stream records",
                    began.elapsed().as_secs_f64(),
                    expired.len(),
                    records.count
                ));
                if let Some(row) = expired.first() {
                    self.violation(format!("{} expired rows are not deleted, such as {row}", expired.len()));
                }
                if !is_trimmed {
                    self.violation(format!(
                        "the stream has {} records, some older than 24 hours",
                        records.count
                    ));
                }
                return Ok(());
            }
            tokio::time::sleep(LOOK.saturating_mul(5)).await;
        }
    }

    /// Compares what was answered with what the service shows, and what was received.
    async fn compare(&self) -> Result<()> {
        let used = self.notes().charges.clone();
        let mut duplicates: u64 = 0;
        for (number, merchant) in self.merchants.iter().enumerate() {
            let of_merchant = || used.iter().filter(move |(_, used)| used.merchant == number);
            let listed = charges(&merchant.api, None).await?;
            if listed.len() != of_merchant().count() {
                let created = of_merchant().count();
                self.violation(format!("{} charges are listed, {created} were created", listed.len()));
            }
            for charge in &listed {
                let expected: &[&str] = match used.get(&charge.id).map(|used| used.fate) {
                    Some(Fate::Paid) => &["paid", "refunded", "disputed"],
                    Some(Fate::Expired) => &["expired"],
                    Some(Fate::Cancelled) => &["cancelled"],
                    None => &[],
                };
                if !expected.contains(&charge.status.as_str()) {
                    self.violation(format!("{} is {}, not {expected:?}", charge.id, charge.status));
                }
            }
            let ids = |fate: Fate| {
                of_merchant().filter(move |(_, used)| used.fate == fate).map(|(id, _)| id.clone())
            };
            let received = &merchant.listener;
            self.check_events(received, "charge.created", of_merchant().map(|(id, _)| id.clone()));
            self.check_events(received, "charge.paid", ids(Fate::Paid));
            self.check_events(received, "charge.expired", ids(Fate::Expired));
            let cases = of_merchant().filter_map(|(_, used)| used.case.clone());
            self.check_events(received, "med_case.created", cases);
            // The legacy events of a payment with a URL of its own are sent to that URL only.
            let refunded = of_merchant().filter(|(_, used)| used.refund.is_some() && !used.has_own_url);
            self.check_events(received, "payment.refunded", refunded.map(|(id, _)| payment_id(id)));
            let failing = if number == 0 { &self.refusing } else { &self.hanging };
            self.check_events(failing, "charge.paid", ids(Fate::Paid));
            let counts = EVENTS.iter().flat_map(|event| received.received(event).into_values());
            duplicates = counts.map(|count| count.saturating_sub(1)).fold(duplicates, u64::saturating_add);
            self.check_refunds(merchant, of_merchant()).await?;
            let statement = movements(&merchant.api).await?;
            let sum = statement.iter().fold(0_i64, |sum, movement| sum.saturating_add(movement.net));
            let balance = balance(&merchant.api).await?;
            if sum != balance {
                self.violation(format!("the statement adds up to {sum}, the balance is {balance}"));
            }
        }
        let own = || used.iter().filter(|(_, used)| used.has_own_url && used.fate == Fate::Paid);
        self.check_events(&self.own_urls, "payment.completed", own().map(|(id, _)| payment_id(id)));
        let refunded = own().filter(|(_, used)| used.refund.is_some());
        self.check_events(&self.own_urls, "payment.refunded", refunded.map(|(id, _)| payment_id(id)));
        let payouts = self.notes().payouts.clone();
        let paid_out = u64::try_from(payouts.len()).unwrap_or(u64::MAX);
        self.check_events(&self.merchants[0].listener, "payout.paid", payouts.into_iter());
        let verified = self.admin.run(&["ledger", "verify"]).await?;
        if verified.code != 0 {
            self.violation(format!("ledger verify: {} {}", verified.stdout, verified.stderr));
        }
        let count = |matches: &dyn Fn(&Used) -> bool| {
            u64::try_from(used.values().filter(|used| matches(used)).count()).unwrap_or(u64::MAX)
        };
        self.notes().counts.extend([
            ("charges", count(&|_| true)),
            ("charges that were paid", count(&|used| used.fate == Fate::Paid)),
            ("charges that expired", count(&|used| used.fate == Fate::Expired)),
            ("charges that were cancelled", count(&|used| used.fate == Fate::Cancelled)),
            ("payments with a URL of their own", count(&|used| used.has_own_url)),
            ("refunds", count(&|used| used.refund.is_some())),
            ("MED cases", count(&|used| used.case.is_some())),
            ("payouts", paid_out),
            ("webhooks received again", duplicates),
        ]);
        Ok(())
    }

    /// Each object must have had an event.
    fn check_events(&self, listener: &Listener, event: &str, ids: impl Iterator<Item = String>) {
        let received = listener.received(event);
        let missing: Vec<String> = ids.filter(|id| !received.contains_key(id)).collect();
        if let Some(first) = missing.first() {
            self.violation(format!("{} events {event} were not received, such as of {first}", missing.len()));
        }
    }

    async fn check_refunds<'a>(
        &self,
        merchant: &Merchant,
        used: impl Iterator<Item = (&'a String, &'a Used)>,
    ) -> Result<()> {
        for (charge, (id, amount)) in used.filter_map(|(charge, used)| Some((charge, used.refund.as_ref()?)))
        {
            let found = refunds(&merchant.api, charge).await?;
            let is_done = |refund: &crate::world::Refund| {
                refund.id == *id && refund.amount == *amount && refund.status == "REFUNDED"
            };
            if found.len() != 1 || !found.iter().all(is_done) {
                self.violation(format!("the refund {id} of {amount} is {found:?}"));
            }
        }
        Ok(())
    }

    /// Compares memory and files at the end with those of the samples.
    async fn check_growth(&self, began: Instant, samples: &[Sample]) -> Result<()> {
        let at =
            |tenths: usize| samples.get(samples.len().saturating_mul(tenths).div_ceil(10).saturating_sub(1));
        let (Some(first), Some(middle), Some(last)) = (at(1), at(5), at(10)) else { return Ok(()) };
        let end = self.take_sample(began, true).await?;
        say(end.line(Some(last), &self.move_clock(0).await?));
        let allowed = first.memory.saturating_add(first.memory / 4).saturating_add(MEMORY_SLACK);
        if end.memory > allowed {
            self.violation(format!(
                "the service has {} MiB of memory, after the first tenth it had {}",
                mebibytes(end.memory),
                mebibytes(first.memory)
            ));
        }
        // Bytes for a thousand charges, so that integers suffice.
        let growth = |from: &Sample, to: &Sample| {
            let bytes = to.files.all().saturating_sub(from.files.all());
            bytes
                .saturating_mul(1_000)
                .checked_div(to.charges.saturating_sub(from.charges))
                .unwrap_or_default()
        };
        let (early, late) = (growth(first, middle), growth(middle, last));
        say(format_args!(
            "files grew by {early} bytes for 1,000 charges from the first tenth to the middle, by {late} from there \
             to the end of the load; at the end there are {} bytes for a charge",
            end.files.all().checked_div(end.charges).unwrap_or_default()
        ));
        let charges = last.charges.saturating_sub(middle.charges);
        let slack = GROWTH_SLACK.saturating_mul(1_000).checked_div(charges).unwrap_or_default();
        if late > early.saturating_add(early / 4).saturating_add(slack) {
            self.violation(format!("files grew by {early}, then by {late} bytes for 1,000 charges"));
        }
        Ok(())
    }
}

impl Sample {
    const HEAD: &str = "seconds clock            charges memory_MiB cpu_% database_MiB log_MiB queues_KiB objects_KiB \
                        others_KiB due messages open_deliveries p50_ms p99_ms    rows stream_records";

    fn line(&self, before: Option<&Self>, now: &str) -> String {
        let passed = self.elapsed.saturating_sub(before.map(|before| before.elapsed).unwrap_or_default());
        let used = self.cpu.saturating_sub(before.map(|before| before.cpu).unwrap_or_default());
        let percent =
            used.as_millis().saturating_mul(100).checked_div(passed.as_millis()).unwrap_or_default();
        let (rows, records) = match &self.counted {
            Some((rows, records)) => (rows.to_string(), records.count.to_string()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        format!(
            "{:>7} {:<16} {:>7} {:>10} {percent:>5} {:>12} {:>7} {:>10} {:>11} {:>10} {:>3} {:>8} {:>15} {:>6} {:>6} \
             {rows:>7} {records:>14}",
            self.elapsed.as_secs(),
            now.get(..16).unwrap_or(now),
            self.charges,
            mebibytes(self.memory),
            mebibytes(self.files.database),
            mebibytes(self.files.log),
            self.files.queues >> 10,
            self.files.objects >> 10,
            self.files.others >> 10,
            self.due,
            self.messages,
            self.open,
            self.median.as_millis(),
            self.slow.as_millis(),
        )
    }
}

/// Returns the id of a charge as a payment has it.
fn payment_id(charge: &str) -> String {
    charge.strip_prefix("ch_").unwrap_or(charge).to_owned()
}

fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}
