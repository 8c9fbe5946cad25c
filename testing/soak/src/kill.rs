//! A trial of kills: the service is killed at random times under load, during its first start, and while an
//! operator works, and its disk is filled. At the end, everything that was answered must be there once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::dice::Dice;
use crate::http::{Answer, Api, Call};
use crate::listener::Listener;
use crate::service::Service;
use crate::world::{balance, charges, movements, refunds, text};
use crate::{Error, Result, say};

/// How many merchants' programs use the service at the same time.
const WORKERS: usize = 6;

/// How long the service runs between two kills, in milliseconds.
const UP_MS: (i64, i64) = (20, 1_500);

/// How often a first start is killed before it may end, at most.
const MOST_EARLY_KILLS: i64 = 3;

/// How often the trial prints its progress: once for so many kills.
const KILLS_PER_LINE: usize = 20;

/// How the clock advances at the end, in seconds, until refunds and deliveries have ended.
const SETTLE_S: [i64; 12] = [40, 70, 310, 600, 1_200, 1_900, 3_600, 3_600, 7_200, 7_200, 14_400, 14_400];

/// How long the trial waits after each advance.
const WAIT: Duration = Duration::from_secs(3);

/// How long a full disk stays full.
const FULL: Duration = Duration::from_secs(3);

/// The most that the trial writes to fill a disk. A larger disk is probably not meant for it.
const MOST_FILLED: u64 = 1 << 30;

/// A piece of the file that fills a disk, in bytes.
const PIECE: usize = 64 << 10;

/// How a trial is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program of the service.
    pub service: PathBuf,
    /// The program of the operator's command.
    pub admin: PathBuf,
    /// The directory of the services' states.
    pub directory: PathBuf,
    /// Determines what is done, and how long the service runs between two kills.
    pub seed: u64,
    /// How often the service is killed under load.
    pub kills: usize,
    /// How many services are killed during their first start.
    pub first_starts: usize,
    /// How often the disk is filled under load.
    pub fills: usize,
}

/// The results.
#[derive(Debug, Default)]
pub struct Report {
    /// Counts for the final table.
    pub counts: BTreeMap<&'static str, usize>,
    /// How often requests had to be repeated, by reason.
    pub repetitions: BTreeMap<String, u64>,
    /// What must not be.
    pub violations: Vec<String>,
}

/// A charge of the load.
#[derive(Clone, Debug, Default)]
struct Used {
    /// All ids that its creation returned.
    ids: BTreeSet<String>,
    amount: i64,
    /// The end-to-end id of its payment, once that was answered with 200.
    paid: Option<String>,
    /// The refunded amounts by the ids that the requests returned.
    refunds: BTreeMap<String, i64>,
}

/// What was answered so far.
#[derive(Default)]
struct Notes {
    charges: BTreeMap<usize, Used>,
    /// The users that an operator's command added.
    users: BTreeSet<String>,
    commands: usize,
    failed_commands: usize,
    violations: Vec<String>,
}

struct Trial {
    seed: u64,
    service: Service,
    api: Api,
    admin: Admin,
    account: String,
    next: AtomicUsize,
    is_over: AtomicBool,
    notes: Mutex<Notes>,
}

/// Carries out a trial.
///
/// # Errors
///
/// When it can't be carried out. Violations are in the report.
pub async fn run(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    for number in 0..options.first_starts {
        let killed = kill_first_start(options, number).await?;
        let count = report.counts.entry("kills during a first start").or_default();
        *count = count.saturating_add(killed);
    }
    let service = Service::new(options.service.clone(), options.directory.join("load"), Vec::new())?;
    let ready = service.start().await?;
    let api = Api::new(service.base_url());
    api.set_key(&text(&ready, "test_api_key"));
    let admin = Admin { program: options.admin.clone(), ready_file: service.ready_file() };
    let accounts = admin.expect(&["accounts", "list"]).await?.json();
    let account = accounts.first().map(|account| text(account, "id"));
    let account = account.ok_or_else(|| Error::new("the service has no account"))?;
    let listener = Listener::start().await?;
    listener.subscribe(&api, &["charge.paid"]).await?;
    let trial = Arc::new(Trial {
        seed: options.seed,
        service,
        api,
        admin,
        account,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        notes: Mutex::default(),
    });
    let mut load = JoinSet::new();
    for _ in 0..WORKERS {
        load.spawn(Arc::clone(&trial).work());
    }
    load.spawn(Arc::clone(&trial).operate());
    let disturbed = trial.disturb(options, &mut report).await;
    trial.is_over.store(true, Ordering::SeqCst);
    disturbed?;
    while let Some(ended) = load.join_next().await {
        ended.map_err(Error::of("a worker of the trial failed"))?;
    }
    trial.settle(&listener).await?;
    trial.compare(&listener, &mut report).await?;
    trial.service.kill().await?;
    Ok(report)
}

/// Starts a service in a new directory, kills it during the start, and repeats that some times. Then it must
/// start, and create a charge. Returns the number of kills.
async fn kill_first_start(options: &Options, number: usize) -> Result<usize> {
    let dice = Dice::new(options.seed, number);
    let directory = options.directory.join(format!("first-start-{number}"));
    let service = Service::new(options.service.clone(), directory.clone(), Vec::new())?;
    let kills = dice.between("early kills", 1, MOST_EARLY_KILLS);
    for kill in 0..kills {
        let after = dice.between(&format!("early kill {kill}"), 1, UP_MS.1);
        let started = service.start();
        let _ = tokio::time::timeout(Duration::from_millis(after.unsigned_abs()), started).await;
        service.kill().await?;
    }
    let ready = service.start().await?;
    let api = Api::new(service.base_url());
    api.set_key(&text(&ready, "test_api_key"));
    let create = Call::post("/v1/pix/charges", json!({"amount": 1_990})).with_key("first-charge");
    match api.settle(&create).await {
        Some(Answer { status: 201, .. }) => {}
        other => {
            let log = service.log_file();
            return Err(Error::new(format!(
                "after kills of its first start, the service answered {other:?}; see {}",
                log.display()
            )));
        }
    }
    let admin = Admin { program: options.admin.clone(), ready_file: service.ready_file() };
    admin.expect(&["ledger", "verify"]).await?;
    service.kill().await?;
    let _ = std::fs::remove_dir_all(&directory);
    Ok(usize::try_from(kills).unwrap_or_default())
}

impl Trial {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn violation(&self, text: String) {
        self.notes().violations.push(text);
    }

    /// Creates charges, pays most and refunds some, until the load ends.
    async fn work(self: Arc<Self>) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            self.use_charge(number).await;
        }
    }

    async fn use_charge(&self, number: usize) {
        let dice = Dice::new(self.seed, number);
        let amount = dice.between("amount", 100, 100_000);
        let Some(id) = self.create(number, amount).await else { return };
        if !dice.chance("pays", 800) {
            return;
        }
        let time = DateTime::<Utc>::from(SystemTime::now()).format("%Y%m%d%H%M");
        let end_to_end_id = format!("E12345678{time}{number:011}");
        let pay = json!({"end_to_end_id": end_to_end_id});
        match self.api.settle(&Call::post(format!("/v1/sandbox/charges/{id}/pay"), pay)).await {
            Some(Answer { status: 200, .. }) => {
                self.note(number, |used| used.paid = Some(end_to_end_id));
            }
            other => return self.violation(format!("the payment of {id} was answered {other:?}")),
        }
        if !dice.chance("refunds", 300) {
            return;
        }
        let part = dice.between("refund", 1, amount);
        let refund = json!({"idempotencyKey": format!("refund-of-{id}"), "amount": part, "reason": "trial"});
        match self.api.settle(&Call::post(format!("/v1/payments/{id}/refund"), refund)).await {
            Some(Answer { status: 201, body }) => {
                self.note(number, |used| used.refunds.extend([(text(&body, "id"), part)]));
            }
            other => self.violation(format!("the refund of {id} was answered {other:?}")),
        }
    }

    fn note(&self, number: usize, change: impl FnOnce(&mut Used)) {
        change(self.notes().charges.entry(number).or_default());
    }

    /// Creates a charge, or repeats its creation. Returns its id.
    async fn create(&self, number: usize, amount: i64) -> Option<String> {
        let call =
            Call::post("/v1/pix/charges", json!({"amount": amount})).with_key(format!("kill-trial-{number}"));
        match self.api.settle(&call).await {
            Some(Answer { status: 201, body }) => {
                let id = text(&body, "id");
                self.note(number, |used| {
                    used.amount = amount;
                    used.ids.insert(id.clone());
                });
                Some(id)
            }
            other => {
                self.violation(format!("the creation of charge {number} was answered {other:?}"));
                None
            }
        }
    }

    /// Runs the operator's commands one after another, until the load ends. A command fails if the service is
    /// killed meanwhile.
    async fn operate(self: Arc<Self>) {
        let mut number: usize = 0;
        while !self.is_over() {
            number = number.saturating_add(1);
            self.service.wait_until_up().await;
            let email = format!("user-{number}@example.com");
            let account = self.account.as_str();
            let add = ["users", "add", account, "--email", &email, "--role", "member", "--reason", "trial"];
            let per_account = number.saturating_add(1_000).to_string();
            let limits = ["--per-customer", "100", "--per-account", &per_account];
            let limit =
                [&["accounts", "set-velocity", account][..], &limits, &["--reason", "trial"]].concat();
            let (command, adds): (&[&str], bool) = match number % 3 {
                0 => (&["ledger", "verify"], false),
                1 => (&limit, false),
                _ => (&add, true),
            };
            let Ok(output) = self.admin.run(command).await else { continue };
            let mut notes = self.notes();
            notes.commands = notes.commands.saturating_add(1);
            if output.code != 0 {
                notes.failed_commands = notes.failed_commands.saturating_add(1);
            } else if adds {
                notes.users.insert(email.clone());
            }
            // 1: `ledger verify` found a difference.
            if command.first() == Some(&"ledger") && output.code == 1 && !output.stdout.is_empty() {
                notes.violations.push(format!("ledger verify under load: {}", output.stdout));
            }
        }
    }

    /// Kills the service and fills its disk, at random times.
    async fn disturb(&self, options: &Options, report: &mut Report) -> Result<()> {
        let started = Instant::now();
        for number in 0..options.kills {
            let up = Dice::new(self.seed, number).between("time until a kill", UP_MS.0, UP_MS.1);
            tokio::time::sleep(Duration::from_millis(up.unsigned_abs())).await;
            self.service.kill().await?;
            self.service.start().await?;
            report.counts.insert("kills under load", number.saturating_add(1));
            if number.checked_rem(KILLS_PER_LINE) == Some(KILLS_PER_LINE.saturating_sub(1)) {
                say(format_args!(
                    "{} kills, {} charges, {:.0} s",
                    number.saturating_add(1),
                    self.next.load(Ordering::SeqCst),
                    started.elapsed().as_secs_f64()
                ));
            }
        }
        for number in 0..options.fills {
            let file = self.service.directory.join("filler");
            let filled = tokio::task::spawn_blocking({
                let file = file.clone();
                move || fill(&file)
            });
            let filled = filled.await.map_err(Error::of("filling the disk"))?;
            tokio::time::sleep(FULL).await;
            let removed = std::fs::remove_file(&file);
            filled?;
            removed.map_err(Error::of("emptying the disk"))?;
            report.counts.insert("times the disk was full", number.saturating_add(1));
            // The load goes on until a request succeeds again.
            let before = self.next.load(Ordering::SeqCst);
            let begun = Instant::now();
            while self.next.load(Ordering::SeqCst) < before.saturating_add(WORKERS.saturating_mul(2)) {
                if begun.elapsed() > FULL.saturating_mul(60) {
                    return Err(Error::new("after the disk had been full, no request succeeded"));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Advances the clock until refunds and deliveries have ended.
    async fn settle(&self, listener: &Listener) -> Result<()> {
        for seconds in SETTLE_S {
            let advanced = self.api.advance_clock(seconds).await;
            advanced.ok_or_else(|| Error::new("the clock could not be advanced"))?;
            tokio::time::sleep(WAIT).await;
            let received = listener.received("charge.paid");
            let used: Vec<Used> = self.notes().charges.values().cloned().collect();
            let paid = used.iter().filter(|used| used.paid.is_some());
            let missing = paid.filter(|used| !used.ids.iter().any(|id| received.contains_key(id))).count();
            let mut open: usize = 0;
            for id in used.iter().filter(|used| !used.refunds.is_empty()).flat_map(|used| &used.ids) {
                let found = refunds(&self.api, id).await?;
                open = open.saturating_add(found.iter().filter(|refund| refund.is_open()).count());
            }
            say(format_args!("{seconds} s later: {missing} webhooks missing, {open} refunds open"));
            if missing == 0 && open == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Compares what was answered with what the service shows.
    async fn compare(&self, listener: &Listener, report: &mut Report) -> Result<()> {
        let used: BTreeMap<usize, Used> = self.notes().charges.clone();
        // Each creation is repeated, and must return the same charge.
        for (number, one) in &used {
            self.create(*number, one.amount).await;
        }
        let used: Vec<Used> = self.notes().charges.values().cloned().collect();
        let listed = charges(&self.api, None).await?;
        let ids: BTreeSet<&str> = listed.iter().map(|charge| charge.id.as_str()).collect();
        let movements = movements(&self.api).await?;
        let received = listener.received("charge.paid");
        let mut violations = Vec::new();
        if listed.len() != used.len() || ids.len() != used.len() {
            violations.push(format!("{} charges are listed, {} were created", listed.len(), used.len()));
        }
        for one in &used {
            let [id] = one.ids.iter().collect::<Vec<_>>()[..] else {
                violations.push(format!("one idempotency key created {:?}", one.ids));
                continue;
            };
            let Some(charge) = listed.iter().find(|charge| charge.id == *id) else {
                violations.push(format!("{id} is not listed"));
                continue;
            };
            let of_charge: Vec<_> =
                movements.iter().filter(|movement| movement.charge.as_ref() == Some(id)).collect();
            let of_kind = |kind: &str| of_charge.iter().filter(|movement| movement.kind == kind).count();
            let credited: Vec<i64> = of_charge
                .iter()
                .filter(|movement| movement.kind == "settlement")
                .map(|movement| movement.amount)
                .collect();
            let expected: Vec<i64> = one.paid.iter().map(|_| one.amount).collect();
            if charge.credited != one.paid || credited != expected {
                violations.push(format!(
                    "{id} of {}: paid {:?}, credited {:?}, settlements {credited:?}",
                    one.amount, one.paid, charge.credited
                ));
            }
            let events = received.get(id).copied().unwrap_or_default();
            if (events > 0) != one.paid.is_some() {
                violations.push(format!("{id}: paid {:?}, charge.paid received {events} times", one.paid));
            }
            let found = if one.refunds.is_empty() { Vec::new() } else { refunds(&self.api, id).await? };
            let found: BTreeMap<String, i64> = found
                .into_iter()
                .filter(|refund| refund.status == "REFUNDED")
                .map(|refund| (refund.id, refund.amount))
                .collect();
            if found != one.refunds || of_kind("refund") != found.len() {
                violations.push(format!(
                    "{id}: requested {:?}, refunded {found:?}, {} lines of the statement",
                    one.refunds,
                    of_kind("refund")
                ));
            }
        }
        let sum = movements.iter().fold(0_i64, |sum, movement| sum.saturating_add(movement.net));
        let balance = balance(&self.api).await?;
        if sum != balance {
            violations.push(format!("the statement adds up to {sum}, the balance is {balance}"));
        }
        let verified = self.admin.run(&["ledger", "verify"]).await?;
        if verified.code != 0 {
            violations.push(format!("ledger verify: {} {}", verified.stdout, verified.stderr));
        }
        let users = self.admin.list(&["users", "list", &self.account]).await?;
        let users: BTreeSet<String> = users.iter().map(|user| text(user, "email")).collect();
        let notes = self.notes();
        violations
            .extend(notes.users.difference(&users).map(|email| format!("{email} was added, and is missing")));
        violations.extend(notes.violations.iter().cloned());
        report.repetitions = self.api.check_repetitions(&mut violations);
        let duplicates = received.values().map(|count| count.saturating_sub(1)).sum::<u64>();
        report.counts.extend([
            ("charges", used.len()),
            ("charges that were paid", used.iter().filter(|one| one.paid.is_some()).count()),
            ("refunds", used.iter().map(|one| one.refunds.len()).sum()),
            ("webhooks received again", usize::try_from(duplicates).unwrap_or(usize::MAX)),
            ("commands", notes.commands),
            ("commands that failed", notes.failed_commands),
        ]);
        report.violations = violations;
        Ok(())
    }
}

/// Writes a file until the disk is full.
fn fill(path: &Path) -> Result<()> {
    let mut file = File::create(path).map_err(Error::of("filling the disk"))?;
    let piece = vec![0; PIECE];
    let mut written: u64 = 0;
    loop {
        match file.write(&piece) {
            Ok(0) => return Ok(()),
            Ok(count) => written = written.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)),
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(Error::of("filling the disk")(error)),
        }
        if written > MOST_FILLED {
            return Err(Error::new("the disk has more than 1 GiB; use a small one, such as a tmpfs"));
        }
    }
}
