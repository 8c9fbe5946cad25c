//! One run of the service, with the clients of a merchant and an operator.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::audit::Operator;
use domain::ids::{Mode, PayoutId, Scope};
use domain::money::{Amount, Currency};
use domain::payout::PayoutOutcome;
use domain::time::Timestamp;
use domain::webhook::event_type::EventType;
use hyper::Method;
use local::stack::{Options, Stack};
use serde_json::{Value, json};
use shared::charge::Charges;
use shared::payout::{PayoutError, Payouts};
use shared::services::verify_ledger;
use shared::store::{Store, key_of_item};
use shared::wallet::Wallets;
use soak::http::Client;
pub use soak::http::{Answer, items, text};
use soak::{Counts, count};

use crate::front::Front;
use crate::{Error, Result};

/// How long a client repeats a request.
const PATIENCE: Duration = Duration::from_mins(1);

/// The pauses between repetitions.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// After how many repetitions the clock advances, and by how many seconds. A request may wait for the lease of
/// a function that died.
const ADVANCE_EVERY: u32 = 4;
const ADVANCE_S: i64 = 15;

/// How long no function may call anything before the service counts as idle. Longer than the first pause
/// before a failed batch of the stream is retried.
const IDLE: Duration = Duration::from_millis(120);

/// How long the service may take until it is idle.
const MAX_BUSY: Duration = Duration::from_secs(30);

/// How the clock advances in each round after the steps of a scenario, in seconds: longer than a lease.
pub const ROUND_S: i64 = 130;

/// The document of the payer whom a payer lock names.
pub const MARIA: &str = "29537995593";

/// The document of another payer.
pub const JOAO: &str = "25524893033";

/// The action of a log-in in the audit.
const LOG_IN: &str = "user.log-in";

/// The path of the endpoint of both modes of the first account.
pub const HOOK: &str = "/hook";

pub struct World {
    pub stack: Stack,
    /// The servers between the functions and other services.
    pub front: Front,
    store: Store,
    http: Client,
}

/// Returns the operator of this program's changes.
pub fn operator() -> Operator {
    Operator { actor: "trial".to_owned(), reason: "crash points".to_owned(), ..Operator::default() }
}

impl World {
    /// Starts the service with state in memory, and registers the merchant's webhook server for all events of
    /// both modes. Without event sources, only the caller invokes the functions of streams, queues and
    /// schedules.
    pub async fn start(event_sources: bool) -> Result<Self> {
        let front = Front::start().await?;
        let options = Options { fronts: front.fronts(), event_sources, ..Options::in_memory() };
        let stack = Stack::start(options).await.map_err(Error::of("starting the service"))?;
        front.set_functions(&stack.functions);
        let store = Store::new(local::sdk::dynamodb(&stack.endpoints.dynamodb_url), "StateTable");
        let world = Self { stack, front, store, http: Client::default() };
        let events: Vec<&str> = EventType::subscribable().map(EventType::as_str).collect();
        let url = format!("{}{HOOK}", world.front.receiver_url());
        let endpoint = json!({ "url": url, "events": events });
        for mode in [Mode::Test, Mode::Live] {
            world.post(mode, "/v1/webhooks/endpoints", &endpoint).await?.expect(201)?;
        }
        Ok(world)
    }

    /// Ends the preparation of a scenario: waits until the service is idle, and lets calls fail from now
    /// on.
    pub async fn begin(&self) -> Result<()> {
        self.idle().await?;
        self.front.record();
        Ok(())
    }

    pub fn scope(&self, mode: Mode) -> Scope {
        Scope { account: self.stack.seed.first.id, mode }
    }

    /// Returns a store on the state table, which goes through the front as the operator's command.
    pub(crate) fn operator_store(&self) -> Store {
        Store::new(local::sdk::dynamodb(&self.front.dynamodb_url()), "StateTable")
    }

    /// Returns a store on the state table, which no fault affects.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    pub fn key(&self, mode: Mode) -> &str {
        let first = &self.stack.seed.first;
        match mode {
            Mode::Test => &first.test_api_key,
            Mode::Live => &first.live_api_key,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.stack.clock.now()
    }

    /// Sends a request with an API key until its outcome is known, as a merchant does.
    pub async fn request(&self, mode: Mode, method: Method, path: &str, body: &Value) -> Result<Answer> {
        self.settle(method, path, &[("apikey", self.key(mode))], body).await
    }

    pub async fn post(&self, mode: Mode, path: &str, body: &Value) -> Result<Answer> {
        self.request(mode, Method::POST, path, body).await
    }

    /// Sends a GET request with an API key, and expects 200.
    pub async fn get(&self, mode: Mode, path: &str) -> Result<Value> {
        self.request(mode, Method::GET, path, &Value::Null).await?.expect(200)
    }

    /// Sends a request until its outcome is known: any response but 429 and 5xx.
    pub async fn settle(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Answer> {
        let sent = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let content_type = ("content-type", "application/json");
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([content_type]).collect();
        let url = format!("{}{path}", self.stack.base_url);
        self.repeat(&format!("{method} {path}"), async || {
            self.http.send(method.clone(), &url, &headers, sent.clone()).await
        })
        .await
    }

    async fn repeat(&self, what: &str, send: impl AsyncFn() -> Option<Answer>) -> Result<Answer> {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut repetitions: u32 = 0;
        loop {
            let answer = send().await;
            match answer {
                Some(answer) if answer.status != 429 && answer.status < 500 => return Ok(answer),
                answer if started.elapsed() >= PATIENCE => {
                    return Err(Error::new(format!("{what} has no outcome: {answer:?}")));
                }
                Some(_) | None => {}
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            repetitions = repetitions.saturating_add(1);
            if repetitions.is_multiple_of(ADVANCE_EVERY) {
                self.advance(ADVANCE_S).await?;
            }
        }
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

    /// Creates a payout as an operator and ends it. False: the balance is too low, so there is none.
    pub(crate) async fn pay_out(
        &self,
        scope: Scope,
        amount: Amount,
        outcome: &PayoutOutcome,
    ) -> Result<bool> {
        let payouts = Payouts::new(self.operator_store());
        let random = shared::random::bytes().map_err(Error::of("a random number"))?;
        let id = PayoutId::new(self.now(), random);
        let create = async || match payouts
            .create(id, scope, (amount, Currency::BRL), &operator(), self.now())
            .await
        {
            Err(PayoutError::InsufficientBalance { .. }) => Ok(false),
            created => created.map(|_| true),
        };
        let is_created = self.operate(create).await?;
        if is_created {
            self.operate(async || payouts.end(id, outcome, &operator(), self.now()).await.map(drop)).await?;
        }
        Ok(is_created)
    }

    pub async fn upload(&self, ticket: &Value, file: &'static [u8]) -> Result<()> {
        let content_type = ticket.pointer("/upload_headers/Content-Type").and_then(Value::as_str);
        let headers = [("content-type", content_type.unwrap_or_default())];
        let answer = self
            .repeat("the upload", async || {
                self.http
                    .send(Method::PUT, text(ticket, "upload_url"), &headers, Bytes::from_static(file))
                    .await
            })
            .await?;
        answer.expect(200).map(drop)
    }

    pub async fn advance(&self, seconds: i64) -> Result<()> {
        let url = format!("{}/_local/clock/advance", self.stack.base_url);
        let body = Bytes::from(json!({ "seconds": seconds }).to_string());
        match self.http.send(Method::POST, &url, &[("content-type", "application/json")], body).await {
            Some(Answer { status: 200, .. }) => Ok(()),
            other => Err(Error::new(format!("the clock did not advance: {other:?}"))),
        }
    }

    /// Advances the clock and waits until the service is idle.
    pub async fn pass(&self, seconds: i64) -> Result<()> {
        self.advance(seconds).await?;
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
        Err(Error::new("the service is still busy after 30 s".to_owned()))
    }

    /// Returns what a merchant, an operator and the acquirers see at the end, without ids and times. Two runs of a
    /// scenario that lose and double nothing see the same.
    pub async fn observe(&self) -> Result<Value> {
        let mut seen = serde_json::Map::new();
        for mode in [Mode::Test, Mode::Live] {
            seen.insert(mode.as_str().to_owned(), self.observe_mode(mode).await?);
        }
        seen.insert("bank".to_owned(), self.observe_bank());
        seen.insert("cards".to_owned(), self.observe_cards());
        seen.insert("audit".to_owned(), counted(self.audit_actions().await?));
        seen.insert("due".to_owned(), self.observe_due().await?);
        Ok(Value::Object(seen))
    }

    async fn observe_mode(&self, mode: Mode) -> Result<Value> {
        let payments = self.get(mode, "/v1/payments?limit=100").await?;
        let mut refunds = Vec::new();
        let mut statuses = Vec::new();
        for payment in items(&payments["data"]) {
            let id = text(payment, "id");
            let listed = self.get(mode, &format!("/v1/payments/{id}/refunds")).await?;
            let listed = items(&listed["data"]);
            refunds.extend(
                listed.iter().map(|refund| format!("{} {}", text(refund, "status"), refund["amount"])),
            );
            statuses.push(format!(
                "{} {} {}",
                text(payment, "status"),
                payment["amount"],
                payment.get("refundedAmount").unwrap_or(&Value::Null)
            ));
        }
        let events = self.get(mode, "/v1/events?limit=100").await?;
        let events = items(&events["data"]).iter().map(|event| text(event, "type").to_owned());
        let deliveries = self.get(mode, "/v1/webhooks/deliveries?limit=100").await?;
        let total = deliveries.pointer("/total").or(deliveries.pointer("/pagination/total")).cloned();
        let deliveries = items(&deliveries["data"])
            .iter()
            .map(|delivery| format!("{} {}", text(delivery, "eventType"), text(delivery, "status")));
        let cases = self.get(mode, "/v1/med/cases").await?;
        let cases = items(&cases["data"]).iter().map(|case| {
            format!(
                "{} {} {} {}",
                text(case, "status"),
                case["amount"],
                case["money_outcome"],
                case["evidence_count"]
            )
        });
        let stats = self.get(mode, "/v1/payments/metrics").await?;
        let wallets = self.get(mode, "/v1/wallets/balance").await?;
        let balances = ["available", "pending", "retained"].map(|name| wallets[name].clone());
        let scope = self.scope(mode);
        let ledger = self.verify_ledger(&scope).await?;
        Ok(json!({
            "payments": counted(statuses),
            "refunds": counted(refunds),
            "events": counted(events),
            "deliveries": counted(deliveries),
            "deliveries in total": total,
            "cases": counted(cases),
            "funnel": stats["funnel"],
            "volume": stats["volumeByCurrency"],
            "wallet": balances,
            "differences in the ledger": ledger,
        }))
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

    fn observe_bank(&self) -> Value {
        let books = self.stack.bank.snapshot();
        let cobs = items(&books["cobs"]).iter().map(|cob| text(cob, "status").to_owned());
        let pix = items(&books["pix"]).iter().map(|pix| {
            let returns = items(&pix["devolucoes"]);
            let returns: Vec<String> =
                returns.iter().map(|one| format!("{} {}", text(one, "valor"), text(one, "status"))).collect();
            format!("{} {returns:?}", text(pix, "valor"))
        });
        let sent = items(&books["pixOut"])
            .iter()
            .map(|sent| format!("{} {}", text(sent, "valor"), text(sent, "status")));
        json!({"cobs": counted(cobs), "pix": counted(pix), "sent": counted(sent)})
    }

    fn observe_cards(&self) -> Value {
        let (_, books) = self.stack.cards.control("GET", "/books", &json!({}));
        let of = |book: &str| {
            let shown = |one: &Value| format!("{} {}", text(one, "status"), one["amount"]);
            counted(items(&books[book]).iter().map(shown))
        };
        ["sessions", "payment_intents", "refunds", "disputes"]
            .map(|book| (book.to_owned(), of(book)))
            .into_iter()
            .collect()
    }

    /// Returns the actions in the audit, sorted. A log-in counts once, because a log-in whose answer was lost is
    /// repeated.
    async fn audit_actions(&self) -> Result<Vec<String>> {
        let rows = self.store.partition(&format!("audit#{}", self.stack.seed.first.id)).await;
        let rows = rows.map_err(Error::of("reading the audit"))?;
        let action = |row: &shared::store::Item| Some(row.get("action")?.as_s().ok()?.clone());
        let mut actions: Vec<String> = rows.iter().filter_map(action).collect();
        actions.sort_unstable();
        actions.dedup_by(|one, former| one == LOG_IN && one == former);
        Ok(actions)
    }

    /// Counts the kinds of rows in the due index. Counts and sums are left out, because when they are due
    /// depends on the moment.
    pub async fn observe_due(&self) -> Result<Value> {
        let scan = self.store.client().scan().table_name(self.store.table()).index_name("due");
        let rows: std::result::Result<Vec<_>, _> = scan.into_paginator().items().send().collect().await;
        let rows = rows.map_err(Error::of("reading the due index"))?;
        let kind = |key: &str| key.split('#').next().unwrap_or_default().to_owned();
        let keys = rows.iter().filter_map(key_of_item);
        let keys =
            keys.filter(|key| !["deliveries#", "rollup#"].iter().any(|counts| key.pk.starts_with(counts)));
        Ok(counted(keys.map(|key| format!("{} {}", kind(&key.pk), kind(&key.sk)))))
    }

    /// Returns how often each event was received at paths of the merchant's server that begin with `path`. Each
    /// delivery counts once.
    ///
    /// # Errors
    ///
    /// When a delivery was repeated with another body.
    pub fn webhooks(&self, path: &str) -> Result<Value> {
        let mut bodies: BTreeMap<String, (String, String)> = BTreeMap::new();
        for webhook in self.front.webhooks().into_iter().filter(|webhook| webhook.path.starts_with(path)) {
            let first = bodies
                .entry(webhook.delivery.clone())
                .or_insert_with(|| (webhook.event_type, webhook.body.clone()));
            if first.1 != webhook.body {
                return Err(Error::new(format!(
                    "the delivery {} was sent with two bodies",
                    webhook.delivery
                )));
            }
        }
        Ok(counted(bodies.into_values().map(|(event_type, _)| event_type)))
    }
}

/// Returns how often each text occurs.
fn counted(texts: impl IntoIterator<Item = String>) -> Value {
    let mut counts = Counts::new();
    for text in texts {
        count(&mut counts, text);
    }
    json!(counts)
}
