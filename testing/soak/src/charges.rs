//! What merchants, payers and acquirers do with each charge, and what was answered.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use hyper::Method;
use serde_json::{Value, json};
use soak::dice::Dice;
use soak::http::{Answer, Api, Call, text};
use soak::{Error, Result};
use tokio::task::JoinSet;

use crate::load::Soak;
use crate::plan::{Action, LIVE, Method as PaidBy, OTHER, Plan};
use crate::verify::{Answered, PAID};

/// The routes of the acquirers on this machine.
pub(crate) const BANK: &str = "/_local/bank";
pub(crate) const STRIPE: &str = "/_local/stripe";

/// Returns the name under which a fault is counted.
pub(crate) fn fault(stand_in: &str, kind: &str) -> String {
    format!("{}fault {kind}", if stand_in == STRIPE { "card " } else { "" })
}

/// The lists and statistics that a dashboard reads, and after how many of 1,000 charges.
const LOOKS: [(&str, u64); 6] = [
    ("/v1/charges?limit=20", 50),
    ("/v1/payments?limit=20", 20),
    ("/v1/payments/stats", 20),
    ("/v1/wallets/transactions?limit=20", 20),
    ("/v1/webhooks/deliveries?limit=20", 20),
    ("/v1/events?limit=20", 20),
];

impl Soak {
    /// Uses charges at a constant rate, also while the requests of earlier ones have no response yet.
    pub(crate) async fn load(self: Arc<Self>) -> Result<()> {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(self.options.rate.recip()));
        let mut running = JoinSet::new();
        let mut is_alone = !self.alone.is_zero();
        for number in 0.. {
            ticks.tick().await;
            if match self.options.charges {
                Some(most) => usize::try_from(most).is_ok_and(|most| number >= most),
                None => began.elapsed() >= self.options.duration(),
            } {
                break;
            }
            if is_alone && began.elapsed() >= self.alone {
                self.say_durations("requests and webhooks without the load of the first account:");
                is_alone = false;
            }
            let plan = Plan::new(&self.plans, number);
            if plan.scope == OTHER || began.elapsed() >= self.alone {
                running.spawn(Arc::clone(&self).use_charge(plan));
            }
            while running.try_join_next().is_some() {}
        }
        while let Some(ended) = running.join_next().await {
            ended.map_err(Error::of("the load failed"))?;
        }
        Ok(())
    }

    async fn use_charge(self: Arc<Self>, plan: Plan) {
        let dice = Dice::new(self.plans.seed, plan.number);
        let api = self.api(&plan);
        self.begin(&plan, &plan.faults).await;
        let Some(id) = self.create(&plan).await else { return };
        if dice.chance("reads", 300) {
            self.must(api, Call::get(format!("/v1/charges/{id}")), &[200]).await;
        }
        for step in &plan.steps {
            let mut ticks = self.ticks.subscribe();
            for _ in 0..step.ticks {
                let _ = ticks.changed().await;
            }
            self.begin(&plan, &step.faults).await;
            self.act(&plan, &id, &step.action).await;
        }
        for (path, per_mille) in LOOKS {
            if dice.chance(path, per_mille) {
                self.must(api, Call::get(path), &[200]).await;
            }
        }
        if dice.chance("logs in", 5) {
            self.service.wait_until_up().await;
            let dashboard = self.service.ready()["dashboard"].clone();
            let body = json!({"email": dashboard["email"], "password": dashboard["password"]});
            self.must(api, Call::post("/v1/auth/login", body), &[200]).await;
            self.count("log-ins");
        }
    }

    fn api(&self, plan: &Plan) -> &Api {
        &self.scopes[plan.scope].api
    }

    /// Begins a step: injects its faults, and lets a kill that is due follow.
    async fn begin(&self, plan: &Plan, faults: &[String]) {
        let stand_in = if plan.method == PaidBy::LiveCard { STRIPE } else { BANK };
        for kind in faults {
            let inject = Call::post(format!("{stand_in}/faults"), json!({"kind": kind}));
            if self.must(&self.scopes[LIVE].api, inject, &[200]).await.is_some() {
                self.count(fault(stand_in, kind));
            }
        }
        self.steps.send_modify(|steps| *steps = steps.wrapping_add(1));
    }

    /// Sends a request until its outcome is known. Another status than these is a violation.
    pub(crate) async fn must(&self, api: &Api, call: Call, statuses: &[u16]) -> Option<Answer> {
        match api.settle(&call).await {
            Some(answer) if statuses.contains(&answer.status) => return Some(answer),
            // More than its partitions accept may take longer than a client waits.
            None if self.options.throttle.is_some() => self.count("requests without a definite answer"),
            other => self.violation(format!("{call:?} was answered {other:?}")),
        }
        None
    }

    /// Creates a charge, or repeats its creation. Returns its id.
    pub(crate) async fn create(&self, plan: &Plan) -> Option<String> {
        let mut body = plan.creation.clone();
        if plan.has_own_url {
            body["webhookUrl"] = json!(self.listener.url(self.scopes[plan.scope].paths.own));
        }
        let call = if body["idempotencyKey"].is_string() {
            Call::post("/v1/payments", body)
        } else {
            Call::post("/v1/pix/charges", body).with_key(format!("soak-{:05}", plan.number))
        };
        let created = self.must(self.api(plan), call, &[201]).await?.body;
        let id = format!("ch_{}", text(&created, "id").trim_start_matches("ch_"));
        self.note(plan, |answered| answered.ids.extend([id.clone()]));
        Some(id)
    }

    fn note(&self, plan: &Plan, change: impl FnOnce(&mut Answered)) {
        let new = || Answered { scope: plan.scope, has_own_url: plan.has_own_url, ..Answered::default() };
        change(self.notes().answered.entry(plan.number).or_insert_with(new));
    }

    fn is_paid(&self, plan: &Plan) -> bool {
        self.notes().answered.get(&plan.number).is_some_and(|answered| answered.paid.is_some())
    }

    async fn act(&self, plan: &Plan, id: &str, action: &Action) {
        match action {
            Action::Pay(payment) => self.pay(plan, id, payment).await,
            Action::Card(act, fields) => self.act_at_stripe(plan, id, act, fields).await,
            Action::Decide(status) => {
                let dispute = self.notes().answered.get(&plan.number).and_then(|one| one.dispute.clone());
                if let Some(dispute) = dispute {
                    self.at_acquirer(
                        plan,
                        &format!("{STRIPE}/disputes/{dispute}"),
                        json!({"status": status}),
                    )
                    .await;
                }
            }
            Action::Cancel => self.cancel(plan, id).await,
            Action::PayAndCancel(payment) => {
                tokio::join!(self.pay(plan, id, payment), self.cancel(plan, id));
            }
            // In test mode, it is known whether the charge is paid.
            _ if plan.scope != LIVE && !self.is_paid(plan) => {}
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
            Action::Dispute { has_evidence, is_won } => self.dispute(plan, id, *has_evidence, *is_won).await,
        }
    }

    async fn pay(&self, plan: &Plan, id: &str, payment: &Value) {
        if plan.scope != LIVE {
            return self.pay_in_sandbox(plan, id, payment).await;
        }
        if plan.method == PaidBy::LiveCard {
            return self.act_at_stripe(plan, id, "pay", payment).await;
        }
        let mut body = payment.clone();
        body["charge_id"] = json!(id);
        if let Some(paid) = self
            .at_acquirer(plan, &format!("{BANK}/pay"), body)
            .await
            .filter(|_| payment.get("txid").is_some())
        {
            self.note(plan, |answered| answered.unmatched.push(text(&paid, "end_to_end_id").to_owned()));
        }
    }

    /// Plays the payer, the issuer or the dashboard at the acquirer of cards.
    pub(crate) async fn act_at_stripe(&self, plan: &Plan, id: &str, act: &str, fields: &Value) {
        let mut body = fields.clone();
        body["metadata"] = json!({"charge": id});
        let done = self.at_acquirer(plan, &format!("{STRIPE}/{act}"), body).await;
        self.count(format_args!("card {act}{}", if done.is_some() { "" } else { " refused" }));
        if let Some(dispute) = done.filter(|_| act == "dispute") {
            self.note(plan, |answered| answered.dispute = Some(text(&dispute, "id").to_owned()));
        }
    }

    /// Acts at an acquirer once: a payer whose bank does not answer does not pay again. `None`: no answer, or the
    /// acquirer refuses it, for example because the charge is expired or too little is left.
    async fn at_acquirer(&self, plan: &Plan, path: &str, body: Value) -> Option<Value> {
        self.service.wait_until_up().await;
        let call = Call::post(path, body);
        match self.api(plan).send(&call).await? {
            Answer { status: 200, body } => return Some(body),
            Answer { status: 404 | 409, .. } => {}
            Answer { status: 400, .. } if path.starts_with(STRIPE) => {}
            answer => self.violation(format!("{call:?} was answered {answer:?}")),
        }
        None
    }

    /// Pays in test mode. The id of the payment makes its repetition harmless.
    async fn pay_in_sandbox(&self, plan: &Plan, id: &str, payment: &Value) {
        let time = DateTime::<Utc>::from(SystemTime::now()).format("%Y%m%d%H%M");
        let is_again = payment["again"] == true;
        let pix = format!("E12345678{time}{:010}{}", plan.number, u8::from(is_again));
        let body = json!({"end_to_end_id": pix, "amount": payment["amount"].as_i64().unwrap_or(plan.amount)});
        let pay = Call::post(format!("/v1/sandbox/charges/{id}/pay"), body);
        // 422: the charge expired meanwhile. A second payment is returned.
        let answer = self.must(self.api(plan), pay, &[200, 422]).await;
        let Some(Answer { status: 200, body }) = answer.filter(|_| !is_again) else { return };
        let paid = if plan.method.is_pix() { pix } else { id.to_owned() };
        let is_credited = !plan.method.is_pix() || body["settlement"]["end_to_end_id"] == paid;
        if is_credited && PAID.contains(&text(&body, "status")) {
            self.note(plan, |answered| answered.paid = Some(paid));
            self.notes().paid.insert(plan.number, Instant::now());
        }
    }

    async fn cancel(&self, plan: &Plan, id: &str) {
        let cancel = Call::post(format!("/v1/payments/{id}/cancel"), json!({}));
        if let Some(answer) = self.must(self.api(plan), cancel, &[200, 422]).await {
            self.note(plan, |answered| answered.cancelled = Some(answer.status == 200));
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

    async fn return_by_med(&self, plan: &Plan, id: &str, fields: &Value) {
        let read = self.must(self.api(plan), Call::get(format!("/v1/charges/{id}")), &[200]).await;
        let pix = read.map(|read| read.body["settlement"]["end_to_end_id"].clone()).unwrap_or_default();
        if pix.is_string() {
            let mut body = fields.clone();
            body["end_to_end_id"] = pix;
            self.at_acquirer(plan, &format!("{BANK}/med-devolucao"), body).await;
        }
    }

    /// Opens a MED case, adds evidence to some, and decides it.
    async fn dispute(&self, plan: &Plan, id: &str, has_evidence: bool, is_won: bool) {
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
            let appeal = Call::post(format!("/v1/med/cases/{case}/appeal"), json!({"reason": "Entregue"}));
            self.must(api, appeal, &[200]).await;
        }
        let decision = json!({"decision": if is_won { "merchant" } else { "payer" }});
        let resolve = Call::post(format!("/v1/sandbox/med/cases/{case}/resolve"), decision);
        self.must(api, resolve, &[200]).await;
    }

    async fn prove(&self, api: &Api, case: &str) {
        const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";
        let path = format!("/v1/med/cases/{case}/evidence");
        let file = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
        let Some(upload) = self.must(api, Call::post(&path, file), &[201]).await else { return };
        let (url, id) = (text(&upload.body, "upload_url"), text(&upload.body, "id"));
        match api.client.send(Method::PUT, url, &[("content-type", "image/png")], PNG).await {
            Some(Answer { status: 200, .. }) => {}
            // The URL is valid for less than a step of the clock, and until S3 is started again.
            Some(Answer { status: 403, .. }) | None => return self.count("uploads that came too late"),
            other => return self.violation(format!("the upload for {case} was answered {other:?}")),
        }
        let confirm = Call::post(format!("{path}/{id}/complete"), json!({}));
        if self.must(api, confirm, &[200]).await.is_some() {
            self.count("evidence");
        }
    }
}
