//! What merchants, payers and acquirers do with each charge, and what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chrono::DateTime;
use hyper::Method as Verb;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::http::{Answer, Api, Call, Repetition, items, text};
use crate::listener::{HANGS, Listener, REFUSES, signed};
use crate::plan::{Action, BANK, BTCPAY, EUROPE, LIVE, Load, Plan, SCOPES, STRIPE};
use crate::verify::{Answered, Findings, PAID, Paths, View, add_btcpay, add_stripe, verify};
use crate::{Counts, Error, Result, count};

/// The most violations that are listed.
const MOST_LISTED: usize = 100;

/// How often a file is uploaded while no answer says that it arrived.
const MOST_UPLOADS: usize = 4;

/// Returns the name under which a fault is counted.
pub fn fault(acquirer: &str, kind: &str) -> String {
    format!("{} fault {kind}", acquirer.trim_start_matches("/_local/"))
}

/// Returns the routes of another acquirer than the bank. A charge by Pix may also be payable by card.
fn there(plan: &Plan) -> &'static str {
    plan.method.acquirer().filter(|acquirer| *acquirer != BANK).unwrap_or(STRIPE)
}

/// An account in one mode.
pub struct Scope {
    pub name: &'static str,
    pub api: Api,
    pub account: String,
    pub paths: Paths,
    /// The id of the endpoint that receives all events.
    pub endpoint: String,
}

/// What happened so far.
#[derive(Default)]
pub struct Notes {
    /// By the number of the charge.
    pub answered: BTreeMap<usize, Answered>,
    /// When the payments of test charges were answered.
    pub paid: BTreeMap<usize, Instant>,
    /// By scope, the payouts that ended, and whether they were paid.
    pub payouts: [Vec<(String, bool)>; SCOPES],
    /// The users that an operator's command added.
    pub users: BTreeSet<String>,
    pub counts: Counts,
    pub violations: Vec<String>,
}

/// How a trial uses the world.
pub struct Setting {
    pub repetition: Repetition,
    /// What the merchants' endpoints receive.
    pub events: Vec<&'static str>,
    /// Whether one endpoint refuses and another one hangs.
    pub has_failing: bool,
    pub plans: Load,
}

/// The merchants of a running service with their webhook server, the payers, and the acquirers.
pub struct World {
    pub plans: Load,
    pub listener: Listener,
    pub scopes: [Scope; SCOPES],
    events: Vec<&'static str>,
    /// Whether nothing happens at once, so that the answers determine all statuses and events.
    is_exact: bool,
    /// The content of the service's ready file, or null while it does not run.
    pub ready: watch::Receiver<Value>,
    /// The path for MED notices about live charges and the secret that signs them, if the bank sends notices.
    pub notices: Option<(String, String)>,
    notes: Mutex<Notes>,
}

impl World {
    /// Registers the webhooks at a service that has just started.
    pub async fn start(ready: watch::Receiver<Value>, listener: Listener, setting: Setting) -> Result<Self> {
        let Setting { repetition, events, has_failing, mut plans } = setting;
        let content = ready.borrow().clone();
        let scope = |name, keys: &Value, key: &str, all, own, failing: Option<&'static str>| {
            let api = Api::new(text(&content, "base_url"), text(keys, key), repetition);
            let paths = Paths { all, own, failing: failing.filter(|_| has_failing) };
            Scope { name, api, account: text(keys, "account_id").to_owned(), paths, endpoint: String::new() }
        };
        let other = &content["other_account"];
        let mut scopes = [
            scope("live", &content, "live_api_key", "/live", "/own/live", None),
            scope("first", &content, "test_api_key", "/first", "/own/first", Some(REFUSES)),
            scope("other", other, "test_api_key", "/other", "/own/other", Some(HANGS)),
        ];
        for Scope { api, paths, endpoint, .. } in &mut scopes {
            *endpoint = listener.subscribe(api, paths.all, &events).await?;
            if let Some(failing) = paths.failing {
                listener.subscribe(api, failing, &["charge.paid"]).await?;
            }
            let rotate = Call::post("/v1/webhooks/override-secret/rotate", json!({}));
            listener.add_secret(paths.own, text(&api.expect(&rotate, 200).await?, "secret"));
        }
        let api = &scopes[LIVE].api;
        if plans.faults.is_empty() {
            let faults = api.read(format!("{BANK}/faults")).await?;
            plans.faults = faults.as_object().into_iter().flatten().map(|(kind, _)| kind.clone()).collect();
        }
        if plans.started_s == 0 {
            let now = DateTime::parse_from_rfc3339(&api.advance_clock(0).await?);
            plans.started_s = now.map_err(Error::of("reading the time of the service"))?.timestamp();
        }
        let is_exact = repetition == Repetition::WithTheClock;
        Ok(Self { plans, listener, scopes, events, is_exact, ready, notices: None, notes: Mutex::default() })
    }

    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn violation(&self, text: String) {
        let mut notes = self.notes();
        if notes.violations.len() < MOST_LISTED {
            notes.violations.push(text);
        } else {
            count(&mut notes.counts, "further violations");
        }
    }

    pub fn count(&self, name: impl fmt::Display) {
        count(&mut self.notes().counts, name);
    }

    /// Advances the clock. Returns its time.
    pub async fn advance(&self, seconds: i64) -> Result<String> {
        self.scopes[LIVE].api.advance_clock(seconds).await
    }

    pub async fn wait_until_up(&self) {
        let _ = self.ready.clone().wait_for(|ready| !ready.is_null()).await;
    }

    pub fn api(&self, plan: &Plan) -> &Api {
        &self.scopes[plan.scope].api
    }

    /// Injects the faults that precede a step.
    pub async fn inject(&self, plan: &Plan, faults: &[String]) {
        let Some(acquirer) = plan.method.acquirer() else { return };
        for kind in faults {
            let inject = Call::post(format!("{acquirer}/faults"), json!({"kind": kind}));
            if self.must(&self.scopes[LIVE].api, inject, &[200]).await.is_some() {
                self.count(fault(acquirer, kind));
            }
        }
    }

    /// Sends a request until its outcome is known. Another status than these is a violation.
    pub async fn must(&self, api: &Api, call: Call, statuses: &[u16]) -> Option<Answer> {
        match api.settle(&call).await {
            Some(answer) if statuses.contains(&answer.status) => return Some(answer),
            // More than its partitions accept may take longer than a client waits.
            None if self.plans.is_uneven => self.count("requests without a definite answer"),
            other => self.violation(format!("{call:?} was answered {other:?}")),
        }
        None
    }

    /// Creates a charge, or repeats its creation. Returns its id.
    pub async fn create(&self, plan: &Plan) -> Option<String> {
        let mut body = plan.creation.clone();
        if plan.has_own_url {
            body["webhookUrl"] = json!(self.listener.url(self.scopes[plan.scope].paths.own));
        }
        let call = if body["idempotencyKey"].is_string() {
            Call::post("/v1/payments", body)
        } else {
            Call::post("/v1/pix/charges", body).with("idempotency-key", format!("soak-{:05}", plan.number))
        };
        let created = self.must(self.api(plan), call, &[201]).await?.body;
        let id = format!("ch_{}", text(&created, "id").trim_start_matches("ch_"));
        self.note(plan, |answered| answered.ids.extend([id.clone()]));
        Some(id)
    }

    pub fn note<T>(&self, plan: &Plan, change: impl FnOnce(&mut Answered) -> T) -> T {
        let new = || Answered { scope: plan.scope, has_own_url: plan.has_own_url, ..Answered::default() };
        change(self.notes().answered.entry(plan.number).or_insert_with(new))
    }

    pub async fn act(&self, plan: &Plan, id: &str, action: &Action) {
        match action {
            Action::Pay(payment) => self.pay(plan, id, payment).await,
            Action::There(act, fields) => self.act_there(plan, id, act, fields).await,
            Action::Decide(status) => {
                if let Some(dispute) = self.note(plan, |answered| answered.dispute.clone()) {
                    let acquirer = there(plan);
                    let path = format!("{acquirer}/disputes/{dispute}");
                    self.at_acquirer(plan, &path, json!({"status": status})).await;
                }
            }
            Action::Cancel => self.cancel(plan, id).await,
            Action::PayAndCancel(payment) => {
                tokio::join!(self.pay(plan, id, payment), self.cancel(plan, id));
            }
            Action::End(how) => self.end(plan, id, how).await,
            Action::Review { is_approved } => self.review(plan, id, *is_approved).await,
            // In test mode, it is known whether the charge is paid.
            _ if plan.scope != LIVE && self.note(plan, |answered| answered.paid.is_none()) => {}
            Action::Refund(refunds) => match refunds.as_slice() {
                [first, second] => {
                    tokio::join!(self.refund(plan, id, first), self.refund(plan, id, second));
                }
                refunds => {
                    for refund in refunds {
                        self.refund(plan, id, refund).await;
                    }
                }
            },
            Action::Med(fields) => self.return_by_med(plan, id, fields).await,
            Action::Dispute { has_evidence } => self.dispute(plan, id, *has_evidence).await,
            Action::Resolve { is_won } => self.resolve(plan, id, *is_won).await,
        }
    }

    async fn pay(&self, plan: &Plan, id: &str, payment: &Value) {
        if plan.scope != LIVE {
            return self.pay_in_sandbox(plan, id, payment).await;
        }
        if !plan.method.is_pix() {
            return self.act_there(plan, id, "pay", payment).await;
        }
        let mut body = payment.clone();
        body["charge_id"] = json!(id);
        let Some(paid) = self.at_acquirer(plan, &format!("{BANK}/pay"), body).await else { return };
        let pix = text(&paid, "end_to_end_id").to_owned();
        self.note(plan, |answered| {
            if payment.get("txid").is_some() {
                answered.unmatched.push(pix);
                answered.is_uncertain = true;
            } else if payment.get("amount").is_some() || answered.is_paid() {
                // The service may learn of two payments in another order.
                answered.is_uncertain = true;
            } else {
                answered.take(plan.outcome(payment), pix);
            }
        });
    }

    /// Plays the payer, the issuer, the dashboard or the network at another acquirer than the bank.
    pub async fn act_there(&self, plan: &Plan, id: &str, act: &str, fields: &Value) {
        let acquirer = there(plan);
        let mut body = fields.clone();
        if acquirer == BTCPAY {
            body["order_id"] = json!(id);
        } else {
            body["metadata"] = json!({"charge": id});
        }
        let done = self.at_acquirer(plan, &format!("{acquirer}/{act}"), body).await;
        let refused = if done.is_some() { "" } else { " refused" };
        self.count(format_args!("{} {act}{refused}", plan.method.name()));
        if let Some(dispute) = done.filter(|_| act == "dispute") {
            self.note(plan, |answered| answered.dispute = Some(text(&dispute, "id").to_owned()));
        }
    }

    /// Acts at an acquirer once: a payer whose bank does not answer does not pay again. `None`: no answer, or the
    /// acquirer refuses it, for example because the charge is expired or too little is left.
    async fn at_acquirer(&self, plan: &Plan, path: &str, body: Value) -> Option<Value> {
        self.wait_until_up().await;
        let call = Call::post(path, body);
        match self.api(plan).send(&call).await? {
            Answer { status: 200, body } => return Some(body),
            Answer { status: 404 | 409, .. } => {}
            Answer { status: 400 | 422, .. } if !path.starts_with(BANK) => {}
            answer => self.violation(format!("{call:?} was answered {answer:?}")),
        }
        None
    }

    /// Pays in test mode. The id of the payment makes its repetition harmless.
    async fn pay_in_sandbox(&self, plan: &Plan, id: &str, payment: &Value) {
        let time = DateTime::from_timestamp(self.plans.started_s, 0).unwrap_or_default().format("%Y%m%d%H%M");
        let is_again = payment["again"] == true;
        let pix = format!("E12345678{time}{:010}{}", plan.number, u8::from(is_again));
        let mut body = json!({"end_to_end_id": pix, "amount": plan.amount});
        let fields = payment.as_object().into_iter().flatten().filter(|(name, _)| *name != "again");
        fields.for_each(|(name, value)| body[name] = value.clone());
        let pay = Call::post(format!("/v1/sandbox/charges/{id}/pay"), body);
        // 422: the charge expired meanwhile. A second payment is returned.
        let answer = self.must(self.api(plan), pay, &[200, 422]).await;
        let Some(Answer { status: 200, body }) = answer.filter(|_| !is_again) else { return };
        let (status, outcome) = (text(&body, "status"), plan.outcome(payment));
        let is_exact = payment.get("amount").is_none();
        let is_taken = PAID.contains(&status) || status == "processing";
        let is_first = self.note(plan, |answered| !answered.is_paid());
        if is_first && (is_taken || status == "pending") && is_exact != (status == outcome) {
            self.violation(format!("{id} is {status} after a payment that must make it {outcome}"));
        }
        let paid = if plan.method.is_pix() { pix } else { id.to_owned() };
        let is_credited = !plan.method.is_pix() || body["settlement"]["end_to_end_id"] == paid;
        if is_first && is_taken && (is_credited || outcome != "paid") {
            self.note(plan, |answered| answered.take(status, paid));
            if status == "paid" {
                self.notes().paid.insert(plan.number, Instant::now());
            }
        }
    }

    async fn cancel(&self, plan: &Plan, id: &str) {
        let cancel = Call::post(format!("/v1/payments/{id}/cancel"), json!({}));
        if let Some(answer) = self.must(self.api(plan), cancel, &[200, 422]).await {
            self.note(plan, |answered| answered.cancelled = Some(answer.status == 200));
        }
    }

    /// In test mode, the acquirer declines a charge, or its time passes.
    async fn end(&self, plan: &Plan, id: &str, how: &'static str) {
        let end = Call::post(format!("/v1/sandbox/charges/{id}/{how}"), json!({}));
        let ended = self.must(self.api(plan), end, &[200, 422]).await;
        if ended.is_some_and(|answer| answer.status == 200) {
            self.note(plan, |answered| {
                answered.ended = Some(if how == "fail" { "failed" } else { "expired" });
            });
        }
    }

    /// In test mode, ends the review of a payment that is held.
    async fn review(&self, plan: &Plan, id: &str, is_approved: bool) {
        if self.note(plan, |answered| answered.held.is_none()) {
            return;
        }
        let decision = json!({"decision": if is_approved { "approve" } else { "return" }});
        let review = Call::post(format!("/v1/sandbox/charges/{id}/review"), decision);
        if self.must(self.api(plan), review, &[200]).await.is_some() {
            self.note(plan, |answered| answered.review(is_approved));
        }
    }

    async fn refund(&self, plan: &Plan, id: &str, refund: &Value) {
        let mut body = refund.clone();
        body["idempotencyKey"] = json!(format!("{}-of-{id}", text(refund, "idempotencyKey")));
        let request = Call::post(format!("/v1/payments/{id}/refund"), body.clone());
        let Some(answer) = self.must(self.api(plan), request, &[201, 422]).await else { return };
        if answer.status == 422 {
            let code = text(&answer.body["error"], "code");
            return self.count(format_args!("refunds refused: {code}"));
        }
        body["amount"] = answer.body["amount"].clone();
        let refund = text(&answer.body, "id").to_owned();
        self.note(plan, |answered| answered.refunds.extend([(refund, body)]));
    }

    /// Returns the Pix that was credited to a charge.
    async fn credited_pix(&self, plan: &Plan, id: &str) -> Option<Value> {
        let read = self.must(self.api(plan), Call::get(format!("/v1/charges/{id}")), &[200]).await?;
        Some(read.body["settlement"]["end_to_end_id"].clone()).filter(Value::is_string)
    }

    async fn return_by_med(&self, plan: &Plan, id: &str, fields: &Value) {
        if let Some(pix) = self.credited_pix(plan, id).await {
            let mut body = fields.clone();
            body["end_to_end_id"] = pix;
            self.at_acquirer(plan, &format!("{BANK}/med-devolucao"), body).await;
        }
    }

    /// Opens a MED case, in live mode by a notice, and adds evidence to some.
    async fn dispute(&self, plan: &Plan, id: &str, has_evidence: bool) {
        if plan.scope == LIVE {
            if self.send_notice(plan, id, json!({"status": "OPEN"})).await {
                self.note(plan, |answered| answered.is_noticed = true);
            }
            return;
        }
        let api = self.api(plan);
        let notice = json!({"notice_id": format!("soak-{:05}", plan.number)});
        let open = Call::post(format!("/v1/sandbox/charges/{id}/med-cases"), notice);
        // 422: nothing is left of the payment.
        let opened = self.must(api, open, &[201, 422]).await;
        let Some(Answer { status: 201, body }) = opened else { return };
        let case = text(&body, "id").to_owned();
        self.note(plan, |answered| answered.case = Some(case.clone()));
        if has_evidence {
            self.prove(api, &case).await;
            self.appeal(api, &case).await;
        }
    }

    /// Ends a case.
    async fn resolve(&self, plan: &Plan, id: &str, is_won: bool) {
        if self.note(plan, |answered| answered.is_noticed) {
            let result = if is_won { "DISAGREED" } else { "AGREED" };
            self.send_notice(plan, id, json!({"status": "CLOSED", "analysis_result": result})).await;
        } else if let Some(case) = self.note(plan, |answered| answered.case.clone()) {
            let decision = json!({"decision": if is_won { "merchant" } else { "payer" }});
            let resolve = Call::post(format!("/v1/sandbox/med/cases/{case}/resolve"), decision);
            self.must(self.api(plan), resolve, &[200]).await;
        }
    }

    /// Sends a MED notice about the payment of a live charge, as the bank's adapter does. False: it is not credited.
    async fn send_notice(&self, plan: &Plan, id: &str, mut notice: Value) -> bool {
        let (Some((path, secret)), Some(pix)) = (&self.notices, self.credited_pix(plan, id).await) else {
            return false;
        };
        let Ok(now) = self.advance(0).await else { return false };
        notice["notice_id"] = format!("notice-{}-{}", plan.number, text(&notice, "status")).into();
        notice["infraction_id"] = format!("infraction-{}", plan.number).into();
        notice["end_to_end_id"] = pix;
        notice["reported_at"] = now.as_str().into();
        let time = DateTime::parse_from_rfc3339(&now).unwrap_or_default().timestamp();
        let signature =
            format!("t={time},v1={}", signed(secret, &format!("{time}."), notice.to_string().as_bytes()));
        let call = Call::post(path, notice).with("x-signature", signature);
        self.must(self.api(plan), call, &[200]).await.is_some()
    }

    pub async fn appeal(&self, api: &Api, case: &str) {
        let appeal = Call::post(format!("/v1/med/cases/{case}/appeal"), json!({"reason": "Entregue"}));
        // A case has one appeal, so a repetition is refused.
        self.must(api, appeal, &[200, 400]).await;
    }

    /// Uploads evidence for a case.
    pub async fn prove(&self, api: &Api, case: &str) {
        const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";
        let path = format!("/v1/med/cases/{case}/evidence");
        let file = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
        let Some(upload) = self.must(api, Call::post(&path, file), &[201]).await else { return };
        let (url, id) = (text(&upload.body, "upload_url"), text(&upload.body, "id"));
        let mut status = None;
        for _ in 0..MOST_UPLOADS {
            let sent = api.fetch(Verb::PUT, url, &[("content-type", "image/png")], PNG).await;
            status = sent.map(|answer| answer.status);
            if status.is_some_and(|status| status < 500) {
                break;
            }
        }
        match status {
            Some(200) => {}
            // The URL is valid for less than a step of the clock, and until S3 is started again.
            Some(403) | None => return self.count("uploads that came too late"),
            other => return self.violation(format!("the upload for {case} was answered {other:?}")),
        }
        let confirm = Call::post(format!("{path}/{id}/complete"), json!({}));
        if self.must(api, confirm, &[200]).await.is_some() {
            self.count("evidence");
        }
    }

    /// Returns the routes of the acquirers that are used, but the bank.
    pub fn acquirers(&self) -> impl Iterator<Item = &'static str> {
        let is_used = |acquirer: &&str| {
            *acquirer == STRIPE || self.plans.methods.iter().any(|one| one.acquirer() == Some(*acquirer))
        };
        [STRIPE, EUROPE, BTCPAY].into_iter().filter(is_used)
    }

    /// Lets the payers and Stripe end what they have begun: authentications fail, refunds succeed, and disputes are lost.
    pub async fn end_at_stripe(&self) -> Result<()> {
        for acquirer in self.acquirers().filter(|acquirer| *acquirer != BTCPAY) {
            self.end_at(acquirer).await?;
        }
        Ok(())
    }

    async fn end_at(&self, acquirer: &str) -> Result<()> {
        let api = &self.scopes[LIVE].api;
        let books = api.read(format!("{acquirer}/books")).await?;
        let of = |book: &str, statuses: &[&str]| -> Vec<Value> {
            let is_open = |one: &&Value| statuses.contains(&text(one, "status"));
            items(&books[book]).iter().filter(is_open).cloned().collect()
        };
        let challenged = of("payment_intents", &["requires_action"]);
        for intent in challenged.iter().filter(|intent| intent["_session"].is_string()) {
            let fail = json!({"payment_intent": intent["id"], "outcome": "fail"});
            api.expect(&Call::post(format!("{acquirer}/3ds"), fail), 200).await?;
        }
        let refunds = of("refunds", &["pending", "requires_action"]);
        let open = ["needs_response", "under_review", "warning_needs_response", "warning_under_review"];
        let disputes = of("disputes", &open);
        let ends = refunds.iter().map(|refund| ("refunds", refund, "succeeded"));
        for (book, one, status) in ends.chain(disputes.iter().map(|dispute| ("disputes", dispute, "lost"))) {
            let end = Call::post(format!("{acquirer}/{book}/{}", text(one, "id")), json!({"status": status}));
            api.expect(&end, 200).await?;
        }
        Ok(())
    }

    /// Returns what a scope shows, and what was answered and received there. `waiting` are the live payments that match
    /// no charge, and those that are held for review.
    pub async fn view(&self, number: usize, waiting: &[Vec<Value>; 2]) -> Result<View> {
        let Scope { api, paths, .. } = &self.scopes[number];
        let mut view = View::read(api).await?;
        for path in [Some(paths.all), Some(paths.own), paths.failing].into_iter().flatten() {
            view.events.extend(self.listener.all(path).into_iter().map(|(event, of)| ((path, event), of)));
        }
        (view.paths, view.fees, view.subscribed) = (*paths, self.plans.fees, self.events.clone());
        if number == LIVE {
            view.books = api.read(BANK).await?;
            for acquirer in self.acquirers() {
                let add = if acquirer == BTCPAY { add_btcpay } else { add_stripe };
                add(&mut view.books, &api.read(format!("{acquirer}/books")).await?);
            }
            [view.unapplied, view.held] = waiting.clone();
        }
        let notes = self.notes();
        (view.payouts, view.is_exact) = (notes.payouts[number].clone(), self.is_exact);
        let answered = notes.answered.iter().filter(|(_, answered)| answered.scope == number);
        view.answered = answered.map(|(number, answered)| (*number, answered.clone())).collect();
        view.ignored_filters = notes.counts.get(&fault(BANK, "filter_ignored")).copied().unwrap_or_default();
        Ok(view)
    }

    /// Compares what each scope shows with what was answered and received. `waiting` is as for [`Self::view`].
    pub async fn verify(&self, waiting: &[Vec<Value>; 2]) -> Result<Findings> {
        let mut all = Findings { violations: self.listener.wrong(), ..Findings::default() };
        for (number, Scope { name, .. }) in self.scopes.iter().enumerate() {
            let Findings { counts, violations } = verify(&self.view(number, waiting).await?);
            all.counts.extend(counts.into_iter().map(|(what, count)| (format!("{name}: {what}"), count)));
            all.violations.extend(violations.into_iter().map(|text| format!("{name}: {text}")));
        }
        Ok(all)
    }
}
