//! One run of the service in this process, with the operator's commands.

use std::time::{Duration, Instant};

use domain::audit::Operator;
use domain::ids::{AccountId, Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use local::stack::{Options, Stack};
use money::charge::Charges;
use money::payout::{PayoutError, Payouts};
use money::wallet::Wallets;
use serde_json::{Value, json};
use services::{Receipts, verify_ledger};
use shared::account::Accounts;
use shared::store::{Item, Store, key_of_item};
use tokio::sync::watch;
use world::act::{Setting, World};
use world::http::{Api, Repetition, items};
use world::listener::Listener;
use world::plan::{BANK, FIRST, LIVE, Load, OTHER, STRIPE};
use world::{Counts, count};

use crate::front::Front;
use crate::{Error, Result, due_rows};

/// How long no function may call anything before the service counts as idle. Longer than the first pause
/// before a failed batch of the stream is retried.
const IDLE: Duration = Duration::from_millis(120);

/// How long the service may take until it is idle.
const MAX_BUSY: Duration = Duration::from_secs(30);

/// How the clock advances in each round after the steps of a scenario, in seconds: longer than a lease.
pub const ROUND_S: i64 = 130;

/// The actions in the audit that a client makes once more if an answer is lost.
const REPEATED: [&str; 2] = ["user.log-in", "api-key.rotate"];

pub struct Trial {
    pub world: World,
    pub stack: Stack,
    /// The servers between the functions and other services.
    pub front: Front,
    store: Store,
}

/// Returns the operator of this program's changes.
pub fn operator() -> Operator {
    Operator { actor: "trial".to_owned(), reason: "crash points".to_owned(), ..Operator::default() }
}

/// Returns the names of all events that an endpoint can receive.
pub fn all_events() -> Vec<&'static str> {
    EventType::subscribable().map(EventType::as_str).collect()
}

impl Trial {
    /// Starts the service with state in memory, and registers the merchants' webhook server for all events. Without
    /// event sources, only the caller invokes the functions of streams, queues and schedules.
    pub async fn start(event_sources: bool, plans: Load) -> Result<Self> {
        let mut listener = Listener::start().await?;
        let front = Front::start(listener.base_url()).await?;
        listener.registered_url = front.receiver_url();
        let options = Options { fronts: front.fronts(), event_sources, ..Options::in_memory() };
        let stack = Stack::start(options).await.map_err(Error::of("starting the service"))?;
        front.set_functions(&stack.functions);
        let store = Store::new(local::sdk::dynamodb(&stack.endpoints.dynamodb_url), "StateTable");
        let ready = watch::Sender::new(stack.ready().await.map_err(Error::of("starting the service"))?);
        let (repetition, events) = (Repetition::WithTheClock, all_events());
        let setting = Setting { repetition, events, has_failing: false, plans };
        let world = World::start(ready.subscribe(), listener, setting).await?;
        Ok(Self { world, stack, front, store })
    }

    /// Ends the preparation of a scenario: waits until the service is idle, and lets calls fail from now
    /// on.
    pub async fn begin(&self) -> Result<()> {
        self.idle().await?;
        self.front.record();
        Ok(())
    }

    /// Returns the client of the first account.
    pub fn api(&self, mode: Mode) -> &Api {
        &self.world.scopes[if mode == Mode::Live { LIVE } else { FIRST }].api
    }

    pub fn scope(&self, scope: usize) -> Scope {
        let seed = &self.stack.seed;
        let account = if scope == OTHER { seed.other.id } else { seed.first.id };
        Scope { account, mode: if scope == LIVE { Mode::Live } else { Mode::Test } }
    }

    pub fn account(&self) -> AccountId {
        self.stack.seed.first.id
    }

    /// Returns a store on the state table, which goes through the front as the operator's command.
    pub(crate) fn operator_store(&self) -> Store {
        Store::new(local::sdk::dynamodb(&self.front.dynamodb_url()), "StateTable")
    }

    /// Returns a store on the state table, which no fault affects.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    pub fn now(&self) -> Timestamp {
        self.stack.clock.now()
    }

    /// Returns an error if an answer was a violation.
    pub fn check(&self) -> Result<()> {
        let violations = self.world.notes().violations.join("\n");
        if violations.is_empty() { Ok(()) } else { Err(Error::new(violations)) }
    }

    /// Repeats an operator's command until it succeeds, as an operator does.
    pub(crate) async fn operate<T, E: std::fmt::Display>(
        &self,
        command: impl AsyncFn() -> std::result::Result<T, E>,
    ) -> Result<T> {
        let mut attempts: u32 = 0;
        loop {
            match command().await {
                Ok(done) => return Ok(done),
                Err(error) if attempts >= 5 => return Err(Error::of("an operator's command")(error)),
                Err(_) => attempts = attempts.saturating_add(1),
            }
        }
    }

    /// Creates a payout as an operator and ends it. Returns its id. `None`: the balance is too low, so there is none.
    pub(crate) async fn pay_out(
        &self,
        scope: Scope,
        amount: Amount,
        outcome: &PayoutOutcome,
    ) -> Result<Option<PayoutId>> {
        let payouts = Payouts::new(self.operator_store());
        let random = shared::random::bytes().map_err(Error::of("a random number"))?;
        let id = PayoutId::new(self.now(), random);
        let create = async || match payouts
            .create((id, &id.into()), scope, (amount, Currency::BRL), &operator(), self.now())
            .await
        {
            Err(PayoutError::InsufficientBalance { .. }) => Ok(false),
            created => created.map(|_| true),
        };
        if !self.operate(create).await? {
            return Ok(None);
        }
        self.operate(async || payouts.end(id, outcome, &operator(), self.now()).await.map(drop)).await?;
        Ok(Some(id))
    }

    /// Returns the live payments that match no charge, and those that are held for review, as the operator's command
    /// shows them.
    pub(crate) async fn waiting(&self) -> Result<[Vec<Value>; 2]> {
        let (scope, store) = (self.scope(LIVE), self.store());
        let unapplied = Receipts::new(store.clone()).waiting(&scope, None).await;
        let unapplied = unapplied.map_err(Error::of("reading payments that wait"))?.0.into_iter();
        let unapplied = unapplied.filter(domain::charge::IncomingPayment::waits_for_operator).map(|payment| {
            json!({"end_to_end_id": payment.payment_id, "amount": payment.amount, "charge": payment.charge_id()})
        });
        let sharded = Accounts::new(store.clone()).sharded_scope(&scope).await;
        let sharded = sharded.map_err(Error::of("reading the account"))?;
        let held = Charges::new(store).held_for_review(&sharded, None, self.now()).await;
        let held = held.map_err(Error::of("reading reviews"))?.items.into_iter().map(|charge| {
            let payment = charge.applied_payment.as_ref().map(|applied| &applied.payment_id);
            json!({"charge": charge.id, "amount": charge.amount, "payment": payment})
        });
        Ok([unapplied.collect(), held.collect()])
    }

    /// Advances the clock and waits until the service is idle.
    pub async fn pass(&self, seconds: i64) -> Result<()> {
        self.world.advance(seconds).await?;
        // The schedules run twice a second at least.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.idle().await
    }

    /// Waits until no function runs and none has called anything for a moment.
    pub async fn idle(&self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < MAX_BUSY {
            let is_quiet = self.front.last_call().is_none_or(|last| last.elapsed() >= IDLE);
            if is_quiet && self.stack.functions.running_invocations() == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Error::new("the service is still busy after 30 s"))
    }

    /// Returns what merchants, an operator and the acquirers see at the end, without ids and times. Two runs of a
    /// scenario that lose and double nothing see the same.
    pub async fn observe(&self) -> Result<Value> {
        let mut seen = json!({"due": self.observe_due().await?, "audit": self.audit_actions().await?});
        for number in [LIVE, FIRST] {
            let view = self.world.view(number, &[Vec::new(), Vec::new()]).await?;
            let api = &self.world.scopes[number].api;
            let events = api.list("/v1/events?limit=100").await?;
            let deliveries = api.list("/v1/webhooks/deliveries?limit=100").await?;
            let wallet = ["available", "pending", "retained"].map(|name| &view.balance[name]);
            let totals: Vec<i64> = view.totals.values().map(|(total, _)| *total).collect();
            let metrics = api.read("/v1/payments/metrics").await?;
            let ledger = self.verify_ledger(&self.scope(number)).await?;
            seen[self.world.scopes[number].name] = json!({
                "charges": counted(&view.charges, &["status", "amount", "amount_refunded", "payment_method"]),
                "refunds": counted(&view.refunds, &["status", "amount", "strategy"]),
                "cases": counted(&view.cases, &["status", "amount", "money_outcome", "evidence_count"]),
                "statement": counted(&view.movements, &["type", "amount", "fee", "net"]),
                "events": counted(&events, &["type"]),
                "deliveries": counted(&deliveries, &["eventType", "status"]),
                "webhooks": view.received(),
                "totals": totals,
                "funnel": metrics["funnel"],
                "volume": view.statistics["volumeByCurrency"],
                "wallet": wallet,
                "differences in the ledger": ledger,
            });
        }
        let api = self.api(Mode::Live);
        let (bank, cards) = (api.read(BANK).await?, api.read(format!("{STRIPE}/books")).await?);
        let returned = items(&bank["pix"]).iter().flat_map(|pix| items(&pix["devolucoes"])).cloned();
        seen["acquirers"] = json!({
            "cobs": counted(items(&bank["cobs"]), &["status"]),
            "pix": counted(items(&bank["pix"]), &["valor"]),
            "devolucoes": counted(&returned.collect::<Vec<_>>(), &["valor", "status"]),
            "sent": counted(items(&bank["pixOut"]), &["valor", "status"]),
        });
        for book in ["sessions", "payment_intents", "refunds", "disputes"] {
            seen["acquirers"][book] = counted(items(&cards[book]), &["status", "amount"]);
        }
        Ok(seen)
    }

    /// Compares the balances of a scope with its postings. Returns the differences, and whether the ledger
    /// changed meanwhile; `[] false` if all is well.
    pub async fn verify_ledger(&self, scope: &Scope) -> Result<String> {
        let store = self.store();
        let sources = (&Wallets::new(store.clone()), &Charges::new(store));
        let ledger = verify_ledger(sources, scope, self.now(), &|_| {}).await;
        let ledger = ledger.map_err(Error::of("verifying the ledger"))?;
        Ok(format!("{:?} {}", ledger.differences, ledger.is_moving))
    }

    /// Counts the actions in the audit; those that may be repeated at most once.
    async fn audit_actions(&self) -> Result<Counts> {
        let rows = self.store.partition(&format!("audit#{}", self.account())).await;
        let rows = rows.map_err(Error::of("reading the audit"))?;
        let action = |row: &Item| Some(row.get("action")?.as_s().ok()?.clone());
        let mut counts = counts(rows.iter().filter_map(action));
        let repeated = counts.iter_mut().filter(|(action, _)| REPEATED.contains(&action.as_str()));
        repeated.for_each(|(_, count)| *count = 1);
        Ok(counts)
    }

    /// Counts the kinds of rows in the due index. Counts and sums are left out, because when they are due
    /// depends on the moment.
    pub async fn observe_due(&self) -> Result<Value> {
        let rows = due_rows(&self.store).await?;
        let kind = |key: &str| key.split('#').next().unwrap_or_default().to_owned();
        let keys = rows.iter().filter_map(key_of_item);
        let keys =
            keys.filter(|key| !["deliveries#", "rollup#"].iter().any(|counts| key.pk.starts_with(counts)));
        Ok(json!(counts(keys.map(|key| format!("{} {}", kind(&key.pk), kind(&key.sk))))))
    }
}

fn counts(texts: impl IntoIterator<Item = String>) -> Counts {
    let mut counts = Counts::new();
    texts.into_iter().for_each(|text| count(&mut counts, text));
    counts
}

/// Counts the objects by the values of these fields.
fn counted(objects: &[Value], fields: &[&str]) -> Value {
    json!(counts(objects.iter().map(|object| {
        let values = fields.iter().map(|field| object[*field].to_string());
        values.collect::<Vec<_>>().join(" ").replace('"', "")
    })))
}
