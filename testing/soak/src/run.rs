//! Carries out the plan of a trial of live charges, and gathers the results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::admin::Admin;
use crate::dice::{Dice, digest};
use crate::http::{Answer, Api, Call};
use crate::listener::Listener;
use crate::plan::{
    Action, ActionKind, ChargePlan, Decision, FAULTS, Kill, Payer, Payment, Plan, Refund, Txid,
};
use crate::service::Service;
use crate::verify::{Findings, Outcome, verify};
use crate::world::{self, Books, RequestedRefund, World, text};
use crate::{Error, Result, say};

/// The fees of a payment in centavos: the acquirer's and the platform's. Refunds do not return them.
const ACQUIRER_FEE: i64 = 30;
const PLATFORM_FEE: i64 = 20;
const PIX_OUT_FEE: i64 = 15;

/// The limits of live charges, by document and for the account.
const PER_CUSTOMER: &str = "100";
const PER_ACCOUNT: &str = "1000000";

/// How long a restart takes by the service's clock, in seconds: leases of requests that the kill interrupted
/// have ended then.
const DOWNTIME_S: i64 = 35;

/// How the clock advances while the charges of a batch expire, in seconds. The sum is longer than the longest
/// short expiry, with a skew of 90 s and the 60 s until an expired charge is removed.
const RACE_S: [i64; 12] = [20, 20, 20, 75, 10, 20, 75, 10, 75, 20, 75, 20];

/// How the clock advances after a batch, in seconds. The sweep runs every 300 s.
const BATCH_S: i64 = 310;

/// After how many batches the clock advances by more, and by how much: later than a late notification.
const LONG_EVERY: usize = 4;
const LONG_S: i64 = 1_900;

/// How the clock advances at the end, in seconds: through the retries, the sweeps, late notifications, the
/// expiry of all charges, and devoluções that take six hours and are asked for after another six.
const SETTLE_S: [i64; 22] = [
    70, 310, 310, 600, 1_200, 1_900, 3_600, 3_600, 3_600, 3_600, 7_200, 7_200, 7_200, 7_200, 7_200, 7_200,
    7_200, 10_800, 10_800, 10_800, 10_800, 10_800,
];

/// How long a state must stay the same before the clock advances again, and how long it may take at most.
const STILL: Duration = Duration::from_millis(1_500);
const SETTLED: Duration = Duration::from_millis(500);
const MAX_WAIT: Duration = Duration::from_mins(2);

/// How the clock advances before the comparison, in seconds. The service polls a long automatic return again
/// within six hours, and neither merchant nor operator can see when. Afterwards more than an hour passes,
/// because the reconciliation does not count a younger difference.
const BEFORE_COMPARISON_S: [i64; 3] = [7_200, 15_000, 4_000];

/// The most decisions of each kind that the operator makes near the end.
const MAX_DECISIONS: usize = 40;

/// Of how many charges the creation is repeated at the end, to see that it creates no second one.
const MAX_REPLAYS: usize = 500;

/// How a trial is carried out.
#[derive(Debug)]
pub struct Options {
    /// The program of the service.
    pub service: PathBuf,
    /// The program of the operator's command.
    pub admin: PathBuf,
    /// The directory of the service's state.
    pub directory: PathBuf,
    /// How far the bank's clock is ahead.
    pub skew_seconds: i64,
    /// How many charges are used at the same time.
    pub concurrency: usize,
}

/// The results of a trial.
#[derive(Debug)]
pub struct Report {
    /// The comparison.
    pub findings: Findings,
    /// The last lines of `ledger verify` and `reconcile`.
    pub operator: Vec<String>,
    /// How often each fault occurred.
    pub faults: BTreeMap<String, u64>,
    /// How often requests had to be repeated, by reason.
    pub repetitions: BTreeMap<String, u64>,
    /// How often the service was killed.
    pub kills: usize,
    /// A digest of the outcomes, without ids and times.
    pub digest: String,
}

/// What happened so far.
#[derive(Default)]
struct Notes {
    /// The id of each charge, by its place in the plan.
    charges: BTreeMap<usize, String>,
    /// All ids that the requests of an idempotency key returned.
    created: BTreeMap<String, BTreeSet<String>>,
    /// The charges whose Pix have another or no txid, by end-to-end id.
    unmatched: BTreeMap<String, usize>,
    requested: BTreeMap<String, RequestedRefund>,
    /// Ids of charges that may have refunds.
    with_refunds: BTreeSet<String>,
    /// Those of them whose refunds have all ended.
    refunds_ended: BTreeSet<String>,
    accepted: BTreeSet<String>,
    injected: BTreeMap<String, u64>,
    occurred: BTreeMap<String, u64>,
    violations: Vec<String>,
    kills: usize,
}

/// A running trial.
struct Trial {
    plan: Plan,
    service: Service,
    api: Api,
    admin: Admin,
    account: String,
    listener: Listener,
    notes: Mutex<Notes>,
    begun: AtomicUsize,
    kills: Mutex<VecDeque<Kill>>,
    killing: tokio::sync::Mutex<()>,
}

/// A piece of work of a stage.
enum Task {
    Open(usize),
    Race(usize, usize),
    Later(usize),
    Advance(i64),
}

/// Carries out a trial.
///
/// # Errors
///
/// When the trial can't be carried out. Violations are in the report.
pub async fn run(plan: Plan, options: Options) -> Result<Report> {
    let arguments = vec!["--bank-skew".to_owned(), options.skew_seconds.to_string()];
    let service = Service::new(options.service, options.directory, arguments)?;
    let api = Api::new(service.base_url());
    let ready = service.start().await?;
    api.set_key(&text(&ready, "live_api_key"));
    let admin = Admin { program: options.admin, ready_file: service.ready_file() };
    let account = admin.account_of("Loja Exemplo").await?;
    let listener = Listener::start().await?;
    let kills = Mutex::new(plan.kills.iter().copied().collect());
    let trial = Arc::new(Trial {
        plan,
        service,
        api,
        admin,
        account,
        listener,
        notes: Mutex::default(),
        begun: AtomicUsize::new(0),
        kills,
        killing: tokio::sync::Mutex::default(),
    });
    trial.prepare().await?;
    let stages = trial.batches(options.concurrency).await;
    stages?;
    trial.clear_faults().await?;
    say("faults cleared; the clock advances until everything is settled");
    trial.settle().await?;
    trial.decide().await?;
    trial.settle().await?;
    for seconds in BEFORE_COMPARISON_S {
        trial.advance(seconds).await;
        trial.wait_until_still().await?;
    }
    trial.repeat_creations().await;
    trial.report().await
}

impl Trial {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn violation(&self, text: String) {
        self.notes().violations.push(text);
    }

    /// Sets limits and fees, checks the bank, and registers the webhook.
    async fn prepare(&self) -> Result<()> {
        let account = self.account.as_str();
        let (acquirer, platform, pix_out) =
            (format!("{ACQUIRER_FEE}+0"), format!("{PLATFORM_FEE}+0"), PIX_OUT_FEE.to_string());
        let settings: [&[&str]; 4] = [
            &["set-velocity", account, "--per-customer", PER_CUSTOMER, "--per-account", PER_ACCOUNT],
            &["set-fees", account, "--method", "pix", "--acquirer", &acquirer, "--platform", &platform],
            &["set-fees-on-refund", account, "--method", "pix", "--fees", "keep"],
            &["set-pix-out-fee", account, "--centavos", &pix_out],
        ];
        for setting in settings {
            let command = [&["accounts"], setting, &["--reason", "trial"]].concat();
            self.admin.expect(&command).await?;
            say(format_args!("admin {}", command.join(" ")));
        }
        let names = self.api.settle(&Call::post("/_local/bank/faults", json!({"kind": "?"}))).await;
        let names = names.map(|answer| text(&answer.body, "error")).unwrap_or_default();
        let listed: BTreeSet<&str> =
            names.rsplit_once(": ").map(|(_, names)| names.split(", ").collect()).unwrap_or_default();
        if listed != FAULTS.into_iter().collect() {
            return Err(Error::new(format!("the bank has other faults than the plan: {names}")));
        }
        self.listener.subscribe(&self.api, &["charge.paid"]).await?;
        self.check_filter().await
    }

    /// Lets the operator verify the bank's filter by payer, which the service uses only then.
    async fn check_filter(&self) -> Result<()> {
        let payer = Dice::new(self.plan.seed, usize::MAX).cpf("payer of the first charge");
        let key = "trial-first".to_owned();
        let body = json!({"amount": 1_234, "customer": {"name": "Primeira", "document": payer}});
        let created = self.api.settle(&Call::post("/v1/pix/charges", body).with_key(key.clone())).await;
        let id = created.map(|answer| text(&answer.body, "id")).unwrap_or_default();
        self.notes().created.insert(key, BTreeSet::from([id.clone()]));
        let paid = self.api.settle(&Call::post("/_local/bank/pay", json!({"charge_id": id}))).await;
        let pix = paid.map(|answer| text(&answer.body, "end_to_end_id")).unwrap_or_default();
        let account = self.account.as_str();
        let check = ["accounts", "check-acquirer", account, "--known-payment", &pix, "--known-payer", &payer];
        let checked = self.admin.expect(&check).await?.json();
        let results: Vec<String> = checked
            .iter()
            .map(|check| format!("{} {}", text(check, "check"), text(check, "result")))
            .collect();
        say(format_args!("admin accounts check-acquirer: {}", results.join(", ")));
        Ok(())
    }

    async fn batches(self: &Arc<Self>, concurrency: usize) -> Result<()> {
        let places: Vec<usize> = (0..self.plan.charges.len()).collect();
        let batches: Vec<&[usize]> = places.chunks(self.plan.batch.max(1)).collect();
        for (number, batch) in batches.iter().enumerate() {
            let started = Instant::now();
            self.stage(batch.iter().map(|place| Task::Open(*place)).collect(), concurrency).await?;
            self.stage(self.race(number, batch), concurrency).await?;
            self.stage(batch.iter().map(|place| Task::Later(*place)).collect(), concurrency).await?;
            let is_long = number.checked_rem(LONG_EVERY) == Some(LONG_EVERY.saturating_sub(1));
            let now = self.advance(if is_long { LONG_S } else { BATCH_S }).await;
            say(format_args!(
                "batch {} of {}: {} charges in {:.1} s; steps {} of {}, kills {}, clock {now}",
                number.saturating_add(1),
                batches.len(),
                batch.len(),
                started.elapsed().as_secs_f64(),
                self.begun.load(Ordering::SeqCst),
                self.plan.steps(),
                self.notes().kills,
            ));
        }
        Ok(())
    }

    /// Returns the steps that race with the expiry of charges, with the advances of the clock between them.
    fn race(&self, number: usize, batch: &[usize]) -> VecDeque<Task> {
        let steps = batch.iter().filter_map(|place| Some((*place, self.plan.charges.get(*place)?)));
        let mut tasks: Vec<(u64, Task)> = Vec::new();
        for (place, charge) in steps {
            for action in 0..charge.race.len() {
                let order = Dice::new(self.plan.seed, place).roll(&format!("place of race {action}"));
                tasks.push((order, Task::Race(place, action)));
            }
        }
        let share = u64::MAX.checked_div(u64::try_from(RACE_S.len()).unwrap_or(u64::MAX)).unwrap_or_default();
        for (place, seconds) in (0_u64..).zip(RACE_S) {
            // Each share of the steps is followed by an advance, at a place within the share.
            let jitter = Dice::new(self.plan.seed, number).below(&format!("advance {place}"), share);
            tasks.push((place.saturating_mul(share).saturating_add(jitter), Task::Advance(seconds)));
        }
        tasks.sort_by_key(|(order, _)| *order);
        tasks.into_iter().map(|(_, task)| task).collect()
    }

    /// Carries out tasks in their order, several at a time. Returns after the last one.
    async fn stage(self: &Arc<Self>, tasks: VecDeque<Task>, concurrency: usize) -> Result<()> {
        let queue = Arc::new(Mutex::new(tasks));
        let mut workers = JoinSet::new();
        for _ in 0..concurrency.max(1) {
            let (trial, queue) = (Arc::clone(self), Arc::clone(&queue));
            workers.spawn(async move {
                loop {
                    let task = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    match task {
                        Some(task) => trial.carry_out(task).await?,
                        None => return Ok(()),
                    }
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.map_err(Error::of("a worker of the trial failed"))??;
        }
        Ok(())
    }

    async fn carry_out(self: &Arc<Self>, task: Task) -> Result<()> {
        let place = match task {
            Task::Advance(seconds) => {
                self.advance(seconds).await;
                return Ok(());
            }
            Task::Open(place) | Task::Race(place, _) | Task::Later(place) => place,
        };
        let Some(charge) = self.plan.charges.get(place) else { return Ok(()) };
        let steps = match task {
            Task::Open(_) => {
                let killing = self.begin(&charge.faults).await;
                self.create(charge).await;
                ended(killing).await?;
                charge.opening.as_slice()
            }
            Task::Race(_, action) => charge.race.get(action).map(std::slice::from_ref).unwrap_or_default(),
            Task::Later(_) => charge.later.as_slice(),
            Task::Advance(_) => &[],
        };
        let id = self.notes().charges.get(&place).cloned();
        for step in steps {
            let killing = self.begin(&step.faults).await;
            if let Some(id) = &id {
                self.act(charge, id, step).await;
            }
            ended(killing).await?;
        }
        Ok(())
    }

    /// Begins a step: injects its faults. If the service is to be killed during this step, starts the kill.
    async fn begin(self: &Arc<Self>, faults: &[&'static str]) -> Option<tokio::task::JoinHandle<Result<()>>> {
        for kind in faults {
            if let Some(Answer { status: 200, .. }) =
                self.api.settle(&Call::post("/_local/bank/faults", json!({"kind": kind}))).await
            {
                let mut notes = self.notes();
                let count = notes.injected.entry((*kind).to_owned()).or_default();
                *count = count.saturating_add(1);
            }
        }
        let step = self.begun.fetch_add(1, Ordering::SeqCst);
        let mut kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        let kill = kills.pop_front_if(|kill| kill.after_steps <= step)?;
        drop(kills);
        let trial = Arc::clone(self);
        Some(tokio::spawn(async move { trial.kill(kill).await }))
    }

    /// Kills the service and starts it again.
    async fn kill(&self, kill: Kill) -> Result<()> {
        let _one_at_a_time = self.killing.lock().await;
        self.service.wait_until_up().await;
        tokio::time::sleep(Duration::from_millis(kill.delay_ms)).await;
        self.count_faults().await;
        self.service.kill().await?;
        self.service.start().await?;
        self.advance(DOWNTIME_S).await;
        let mut notes = self.notes();
        notes.kills = notes.kills.saturating_add(1);
        Ok(())
    }

    /// Counts the faults that have occurred since the last count. Those that have not occurred are counted
    /// out, because a kill or the end removes them.
    async fn count_faults(&self) {
        let pending = self.api.settle(&Call::get("/_local/bank/faults")).await.map(|answer| answer.body);
        let pending = pending.unwrap_or_default();
        let mut notes = self.notes();
        for (kind, injected) in std::mem::take(&mut notes.injected) {
            let pending = pending.get(&kind).and_then(Value::as_u64).unwrap_or_default();
            let count = notes.occurred.entry(kind).or_default();
            *count = count.saturating_add(injected.saturating_sub(pending));
        }
    }

    async fn clear_faults(&self) -> Result<()> {
        self.service.wait_until_up().await;
        self.count_faults().await;
        match self.api.settle(&Call::delete("/_local/bank/faults")).await {
            Some(Answer { status: 204, .. }) => Ok(()),
            other => Err(Error::new(format!("the faults were not cleared: {other:?}"))),
        }
    }

    /// Advances the clock. Returns its time.
    async fn advance(&self, seconds: i64) -> String {
        self.api.advance_clock(seconds).await.unwrap_or_default()
    }

    async fn create(&self, charge: &ChargePlan) {
        let key = charge.key();
        match self.api.settle(&creation(charge)).await {
            Some(Answer { status: 201, body }) => {
                let id = text(&body, "id");
                let mut notes = self.notes();
                notes.charges.insert(charge.index, id.clone());
                notes.created.entry(key).or_default().insert(id);
            }
            Some(answer) => self.violation(format!("the creation of {key} was answered {answer:?}")),
            // The creation is repeated at the end.
            None => say(format_args!("{key}: no definite answer yet")),
        }
    }

    async fn act(&self, charge: &ChargePlan, id: &str, step: &Action) {
        match &step.kind {
            ActionKind::Pay(payment) => self.pay(charge, id, payment).await,
            ActionKind::Cancel => self.cancel(id).await,
            ActionKind::PayAndCancel(payment) => {
                tokio::join!(self.pay(charge, id, payment), self.cancel(id));
            }
            ActionKind::Refund(refund) => self.refund(id, refund).await,
            ActionKind::TwoRefunds(refunds) => {
                let [first, second] = refunds.as_ref();
                tokio::join!(self.refund(id, first), self.refund(id, second));
            }
            ActionKind::Med { percent, nature } => self.return_by_med(charge, id, *percent, nature).await,
        }
    }

    /// Pays once: a payer whose bank does not answer does not pay again.
    async fn pay(&self, charge: &ChargePlan, id: &str, payment: &Payment) {
        let mut body = json!({"charge_id": id});
        let mut set = |field: &str, value: Value| {
            if let Some(fields) = body.as_object_mut() {
                fields.insert(field.to_owned(), value);
            }
        };
        if let Some(amount) = payment.amount {
            set("amount", amount.into());
        }
        match &payment.payer {
            Payer::Customer => {}
            Payer::Unreported => set("payer_tax_id", Value::Null),
            Payer::Other(cpf) => set("payer_tax_id", cpf.as_str().into()),
        }
        match &payment.txid {
            Txid::OfTheCharge => {}
            Txid::Missing => set("txid", Value::Null),
            Txid::Foreign(txid) => set("txid", txid.as_str().into()),
        }
        if payment.is_again {
            set("again", true.into());
        }
        self.service.wait_until_up().await;
        match self.api.send(&Call::post("/_local/bank/pay", body)).await {
            Ok(Answer { status: 200, body }) if !matches!(payment.txid, Txid::OfTheCharge) => {
                self.notes().unmatched.insert(text(&body, "end_to_end_id"), charge.index);
            }
            // 404 and 409: the bank refuses the payment, for example because the charge is expired.
            Ok(Answer { status: 200 | 404 | 409, .. }) | Err(_) => {}
            Ok(answer) => self.violation(format!("a payment of {id} was answered {answer:?}")),
        }
    }

    async fn cancel(&self, id: &str) {
        match self.api.settle(&Call::post(format!("/v1/payments/{id}/cancel"), json!({}))).await {
            Some(Answer { status: 200 | 422, .. }) | None => {}
            Some(answer) => self.violation(format!("the cancellation of {id} was answered {answer:?}")),
        }
    }

    async fn refund(&self, id: &str, refund: &Refund) {
        let mut body = json!({
            "idempotencyKey": format!("{}-of-{id}", refund.key),
            "strategy": if refund.is_devolution { "devolution" } else { "cashout" },
            "reason": "trial",
        });
        if let Some(fields) = body.as_object_mut() {
            if let Some(amount) = refund.amount {
                fields.insert("amount".to_owned(), amount.into());
            }
            if let Some(key) = &refund.destination {
                fields.insert("destinationKey".to_owned(), key.as_str().into());
            }
            if refund.passes_fee {
                fields.insert("passFeeToTenant".to_owned(), true.into());
            }
        }
        self.notes().with_refunds.insert(id.to_owned());
        match self.api.settle(&Call::post(format!("/v1/payments/{id}/refund"), body)).await {
            Some(Answer { status: 201, body }) => {
                let request = RequestedRefund {
                    destination: refund.destination.clone(),
                    passes_fee: refund.passes_fee,
                };
                self.notes().requested.insert(text(&body, "id"), request);
            }
            Some(Answer { status: 422, .. }) | None => {}
            Some(answer) => self.violation(format!("the refund of {id} was answered {answer:?}")),
        }
    }

    async fn return_by_med(&self, charge: &ChargePlan, id: &str, percent: i64, nature: &str) {
        let Some(read) = self.api.settle(&Call::get(format!("/v1/charges/{id}"))).await else { return };
        let pix = read.body.pointer("/settlement/end_to_end_id").and_then(Value::as_str);
        let Some(pix) = pix else { return };
        let amount = charge.amount.saturating_mul(percent) / 100;
        let body = json!({"end_to_end_id": pix, "nature": nature, "amount": amount.max(1)});
        self.service.wait_until_up().await;
        match self.api.send(&Call::post("/_local/bank/med-devolucao", body)).await {
            // 409: other devoluções leave too little.
            Ok(Answer { status: 200 | 409, .. }) | Err(_) => {}
            Ok(answer) => self.violation(format!("a MED devolução of {id} was answered {answer:?}")),
        }
    }

    /// Advances the clock until nothing is in progress, or until the last of the steps.
    async fn settle(&self) -> Result<()> {
        let mut open = Vec::new();
        for seconds in SETTLE_S {
            let now = self.advance(seconds).await;
            open = self.wait_until_still().await?;
            say(format_args!(
                "clock {now}: {}",
                if open.is_empty() { "settled".to_owned() } else { open.join(", ") }
            ));
            if open.is_empty() {
                return Ok(());
            }
        }
        self.violation(format!("not settled at the end: {}", open.join(", ")));
        Ok(())
    }

    /// Waits until nothing is in progress, or until that stays the same. Returns what is in progress.
    async fn wait_until_still(&self) -> Result<Vec<String>> {
        let started = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            let open = self.in_progress().await?;
            if open != last {
                (last, since) = (open, Instant::now());
            }
            if (last.is_empty() && since.elapsed() > SETTLED)
                || since.elapsed() > STILL
                || started.elapsed() > MAX_WAIT
            {
                return Ok(last);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn in_progress(&self) -> Result<Vec<String>> {
        let books = Books::read(&self.api).await?;
        let pending = world::charges(&self.api, Some("pending")).await?;
        let transfers = books.open_transfers();
        let mut counts =
            vec![(pending.len(), "charges pending"), (transfers, "transfers at the bank in progress")];
        if pending.is_empty() && transfers == 0 {
            // These reads cost more, so they come last.
            counts.push((self.open_refunds().await?, "refunds in progress"));
            counts.push((self.unrecorded(&books).await?, "Pix not recorded"));
        }
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        Ok(counts.map(|(count, what)| format!("{count} {what}")).collect())
    }

    /// Returns how many charges have refunds in progress.
    async fn open_refunds(&self) -> Result<usize> {
        let charges: Vec<String> = {
            let notes = self.notes();
            notes.with_refunds.difference(&notes.refunds_ended).cloned().collect()
        };
        let mut open: usize = 0;
        for charge in charges {
            if world::refunds(&self.api, &charge).await?.iter().any(world::Refund::is_open) {
                open = open.saturating_add(1);
            } else {
                self.notes().refunds_ended.insert(charge);
            }
        }
        Ok(open)
    }

    /// Returns how many Pix of the bank are neither credited nor held nor listed nor returned.
    async fn unrecorded(&self, books: &Books) -> Result<usize> {
        let (unapplied, held) = world::waiting(&self.admin, &self.account).await?;
        let credited =
            world::charges(&self.api, None).await?.into_iter().filter_map(|charge| charge.credited);
        let listed = unapplied.into_iter().chain(held).map(|waiting| waiting.id);
        let recorded: BTreeSet<String> = credited.chain(listed).collect();
        let is_returned = |pix: &&world::Pix| pix.returns.iter().any(world::Transfer::is_executed);
        let missing = books.pix.iter().filter(|pix| !recorded.contains(&pix.id) && !is_returned(pix));
        Ok(missing.count())
    }

    /// Lets the operator decide about some of the payments that wait, as the plan says.
    async fn decide(&self) -> Result<()> {
        let (unapplied, held) = world::waiting(&self.admin, &self.account).await?;
        let places: BTreeMap<String, usize> =
            self.notes().charges.iter().map(|(place, id)| (id.clone(), *place)).collect();
        let ids = self.notes().charges.clone();
        let unmatched = self.notes().unmatched.clone();
        let decision =
            |place: usize| self.plan.charges.get(place).map_or(Decision::Leave, |charge| charge.decision);
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut made = |command: &'static str, result: &'static str| {
            let count = counts.entry((command, result)).or_default();
            *count = count.saturating_add(1);
            *count
        };
        let account = self.account.as_str();
        for payment in &unapplied {
            let Some(place) = unmatched.get(&payment.id) else { continue };
            let Some(charge) = ids.get(place) else { continue };
            let (name, mut command) = match decision(*place) {
                Decision::Accept => ("receipts apply", vec!["receipts", "apply", &payment.id, charge]),
                Decision::Return => ("receipts return", vec!["receipts", "return", &payment.id]),
                Decision::Leave => continue,
            };
            if made(name, "tried") > MAX_DECISIONS {
                continue;
            }
            command.extend(["--account", account, "--reason", "trial"]);
            let output = self.admin.run(&command).await?;
            made(name, if output.code == 0 { "done" } else { "refused" });
            if output.code == 0 && name == "receipts apply" {
                self.notes().accepted.insert(charge.clone());
            }
        }
        for payment in &held {
            let Some(charge) = &payment.charge else { continue };
            let Some(place) = places.get(charge) else { continue };
            let (name, command) = match decision(*place) {
                Decision::Accept => ("review approve", ["review", "approve", charge, "--reason", "trial"]),
                Decision::Return => ("review return", ["review", "return", charge, "--reason", "trial"]),
                Decision::Leave => continue,
            };
            if made(name, "tried") > MAX_DECISIONS {
                continue;
            }
            let output = self.admin.run(&command).await?;
            made(name, if output.code == 0 { "done" } else { "refused" });
            if output.code == 0 && name == "review approve" {
                self.notes().accepted.insert(charge.clone());
            }
        }
        let made: Vec<String> = counts
            .into_iter()
            .filter(|((_, result), _)| *result != "tried")
            .map(|((command, result), count)| format!("{command} {result} {count}"))
            .collect();
        say(format_args!("operator: {}", made.join(", ")));
        Ok(())
    }

    /// Repeats the creation of some charges, and of all whose first requests had no definite answer.
    async fn repeat_creations(&self) {
        let unknown = |charge: &&ChargePlan| !self.notes().charges.contains_key(&charge.index);
        let unknown: Vec<&ChargePlan> = self.plan.charges.iter().filter(unknown).collect();
        let step = (self.plan.charges.len() / MAX_REPLAYS).max(1);
        for charge in unknown.into_iter().chain(self.plan.charges.iter().step_by(step)) {
            self.create(charge).await;
        }
    }

    async fn report(&self) -> Result<Report> {
        let (unapplied, held) = world::waiting(&self.admin, &self.account).await?;
        let (with_refunds, created, requested, accepted, occurred) = {
            let notes = self.notes();
            let Notes { with_refunds, created, requested, accepted, occurred, .. } = &*notes;
            (with_refunds.clone(), created.clone(), requested.clone(), accepted.clone(), occurred.clone())
        };
        let mut refunds = Vec::new();
        for charge in with_refunds {
            refunds.extend(world::refunds(&self.api, &charge).await?);
        }
        let world = World {
            books: Books::read(&self.api).await?,
            charges: world::charges(&self.api, None).await?,
            created,
            refunds,
            requested,
            movements: world::movements(&self.api).await?,
            balance: world::balance(&self.api).await?,
            unapplied,
            held,
            events: self.listener.received("charge.paid"),
            payment_fee: ACQUIRER_FEE.saturating_add(PLATFORM_FEE),
            pix_out_fee: PIX_OUT_FEE,
            ignored_filters: occurred.get("filter_ignored").copied().unwrap_or_default(),
            accepted,
        };
        let mut findings = verify(&world);
        let operator = self.ask_operator(&world, &mut findings).await?;
        let repetitions = self.api.check_repetitions(&mut findings.violations);
        let digest = self.digest(&world, &findings);
        let notes = self.notes();
        findings.violations.extend(notes.violations.iter().cloned());
        Ok(Report { findings, operator, faults: occurred, repetitions, kills: notes.kills, digest })
    }

    /// Runs `ledger verify`, and `reconcile` for each day. Returns their last lines.
    async fn ask_operator(&self, world: &World, findings: &mut Findings) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let days = days(world, &self.advance(0).await);
        let mut commands = vec![vec!["ledger", "verify"]];
        let account = self.account.as_str();
        commands.extend(days.iter().map(|day| vec!["reconcile", "--account", account, "--date", day]));
        for command in commands {
            let output = self.admin.run(&command).await?;
            let name = command.join(" ");
            let last = output.stdout.lines().last().unwrap_or_default();
            lines.push(format!("admin {name}: {last}"));
            let pending =
                output.json().last().and_then(|summary| summary.get("pending").and_then(Value::as_u64));
            if output.code != 0 || pending.unwrap_or_default() > 0 {
                findings.violations.push(format!(
                    "admin {name} ended with {}: {}",
                    output.code,
                    output.stderr.trim()
                ));
                findings.violations.extend(output.stdout.lines().map(|line| format!("  {line}")));
            }
        }
        Ok(lines)
    }

    /// Returns a digest of the outcome of each charge, without ids and times.
    fn digest(&self, world: &World, findings: &Findings) -> String {
        let by_id: BTreeMap<&str, &world::Charge> =
            world.charges.iter().map(|charge| (charge.id.as_str(), charge)).collect();
        let by_txid: BTreeMap<&str, &str> = world
            .charges
            .iter()
            .filter_map(|charge| Some((charge.txid.as_deref()?, charge.id.as_str())))
            .collect();
        let mut pix: BTreeMap<&str, Vec<Option<&Outcome>>> = BTreeMap::new();
        for paid in &world.books.pix {
            if let Some(charge) = paid.cob.as_deref().and_then(|txid| by_txid.get(txid)) {
                pix.entry(charge).or_default().push(findings.outcomes.get(&paid.id));
            }
        }
        let mut refunds: BTreeMap<&str, Vec<(&str, i64, bool)>> = BTreeMap::new();
        for refund in &world.refunds {
            let outcome = (refund.status.as_str(), refund.amount, refund.is_devolution);
            refunds.entry(&refund.charge).or_default().push(outcome);
        }
        for outcomes in pix.values_mut() {
            outcomes.sort_unstable();
        }
        for outcomes in refunds.values_mut() {
            outcomes.sort_unstable();
        }
        let ids = self.notes().charges.clone();
        let outcome = |(place, id): (&usize, &String)| {
            let id = id.as_str();
            let status = by_id.get(id).map(|charge| charge.status.as_str());
            format!("{place} {status:?} {:?} {:?}\n", pix.get(id), refunds.get(id))
        };
        let text: String = ids.iter().map(outcome).collect();
        let _ = std::fs::write(self.service.directory.join("outcomes.txt"), &text);
        digest(&text)
    }
}

/// Waits for a kill that a step started. The next step begins when the service is up again.
async fn ended(killing: Option<tokio::task::JoinHandle<Result<()>>>) -> Result<()> {
    match killing {
        Some(killing) => killing.await.map_err(Error::of("a kill failed"))?,
        None => Ok(()),
    }
}

fn creation(charge: &ChargePlan) -> Call {
    let mut body = json!({"amount": charge.amount, "expires_in": charge.expires_in});
    if let (Some(document), Some(fields)) = (&charge.document, body.as_object_mut()) {
        fields.insert("customer".to_owned(), json!({"name": "Cliente da Prova", "document": document}));
        if charge.is_locked {
            fields.insert("expected_payer_tax_id".to_owned(), document.as_str().into());
        }
    }
    Call::post("/v1/pix/charges", body).with_key(charge.key())
}

/// Returns the São Paulo days from the first time in the bank's books to now.
fn days(world: &World, now: &str) -> Vec<String> {
    let day = |text: &str| {
        let time = chrono::DateTime::parse_from_rfc3339(text).ok()?;
        let sao_paulo = chrono::FixedOffset::west_opt(3 * 3_600)?;
        Some(time.with_timezone(&sao_paulo).date_naive())
    };
    let first = world.books.pix.iter().filter_map(|pix| day(&pix.at)).min();
    let (Some(first), Some(last)) = (first, day(now)) else { return Vec::new() };
    first.iter_days().take_while(|day| *day <= last).map(|day| day.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_are_those_of_sao_paulo() {
        let pix = |at: &str| world::Pix {
            id: String::new(),
            cob: None,
            amount: 1,
            payer: None,
            at: at.to_owned(),
            returns: Vec::new(),
        };
        let books = Books {
            pix: vec![pix("2026-11-22T12:00:00.000Z"), pix("2026-11-22T02:59:00.000Z")],
            ..Books::default()
        };
        let world = World { books, ..World::default() };
        let found = days(&world, "2026-11-23T02:00:00.000Z");
        assert_eq!(found, ["2026-11-21", "2026-11-22"]);
    }
}
