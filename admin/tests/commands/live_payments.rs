//! Tests of the commands about payments at a bank. The first account's acquirer is the local bank.

use api_pix::NewCob;
use bank::{Bank, Cents, FaultKind, Paid, PayRequest, Profile, ReportedTxid};
use domain::acquirer::ConnectionSweep;
use domain::calendar::Day;
use domain::charge::IncomingPayment;
use domain::ids::{ConnectionId, Mode, PostingId, Scope};
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::wallet::Posting;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Order, Write, from_item};

use crate::acquirers::BANK_SECRET;
use crate::{AdminFixture, Merchant, eventually, fields, id, lines, raw_id, text};

const MARIA: &str = "29537995593";

/// Twelve hours, in seconds.
const HALF_A_DAY_SECONDS: i64 = 12 * 60 * 60;

/// A local service at noon of a São Paulo day, and a client with the first account's live key.
pub(crate) struct Live {
    pub(crate) service: AdminFixture,
    pub(crate) merchant: Merchant,
    pub(crate) account: String,
    day: Day,
}

impl Live {
    pub(crate) async fn start() -> Self {
        let service = AdminFixture::start().await;
        let (merchant, account, now) =
            (Merchant::live(&service), service.account(), service.stack.clock.now());
        let day = Day::of(now).plus_days(1);
        let live = Self { service, merchant, account, day };
        // Otherwise, a test that runs at midnight would pay and refund on different days.
        let noon = day.starts_at().plus_seconds(HALF_A_DAY_SECONDS).unwrap();
        live.merchant.advance(noon.millis_since(now) / 1_000).await;
        // The sweep after the advance could use up a fault that a test injects for a command.
        live.wait_for_sweep(noon).await;
        live
    }

    fn scope(&self) -> Scope {
        Scope { account: self.service.stack.seed.first.id, mode: Mode::Live }
    }

    async fn sweep(&self) -> ConnectionSweep {
        let stack = &self.service.stack;
        let connection = ConnectionId::derive("pix", &stack.bank_url, &stack.seed.bank.client_id);
        let store = self.service.table("StateTable");
        store.get(&ConnectionSweep::key_of(connection)).await.unwrap().unwrap()
    }

    /// Waits until a sweep that began after `time` has ended.
    async fn wait_for_sweep(&self, time: Timestamp) {
        eventually("a sweep", async || {
            let sweep = self.sweep().await;
            (sweep.next_at > self.service.stack.clock.now()
                && sweep.watermark.plus_seconds(60).unwrap() > time)
                .then_some(())
        })
        .await;
    }

    /// Ends all further sweeps, so that a lost notification stays lost.
    pub(crate) async fn stop_sweeps(&self) {
        let store = self.service.table("StateTable");
        eventually("the sweeps are stopped", async || {
            let sweep = self.sweep().await;
            let next = ConnectionSweep { next_at: Timestamp::MAX, ..sweep.next_version() };
            let stored = store.commit(vec![Write::replace(&next, sweep.version).unwrap()]).await.unwrap();
            (stored == CommitOutcome::Done).then_some(())
        })
        .await;
    }

    /// Creates a charge of this amount that is open for a day.
    pub(crate) async fn charge(&self, amount: i64) -> Value {
        self.merchant.post("/v1/pix/charges", json!({"amount": amount, "expires_in": 86_400})).await
    }

    /// Creates a charge that only Maria may pay. A Pix pays it whose payer the bank masks. Returns the end-to-end id.
    pub(crate) async fn hold_for_review(&self) -> (Value, String) {
        let body = json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA});
        let charge = self.merchant.post("/v1/pix/charges", body).await;
        self.service.stack.bank.inject_fault(FaultKind::MaskedPayer, 1);
        let pix = self.pay(&charge, PayRequest::default()).end_to_end_id;
        self.merchant.advance(400).await;
        self.wait_for_status(&charge, "processing").await;
        (charge, pix)
    }

    /// Pays a charge at the bank, which does not notify the service.
    pub(crate) fn pay(&self, charge: &Value, request: PayRequest) -> Paid {
        let bank = &self.service.stack.bank;
        bank.inject_fault(FaultKind::LostNotification, 1);
        bank.pay(&PayRequest { txid: txid(charge), ..request }).unwrap()
    }

    /// Pays a charge by a Pix without its txid, and waits until the service has recorded the Pix.
    pub(crate) async fn pay_unmatched(&self, charge: &Value) -> String {
        let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
        let id = self.pay(charge, request).end_to_end_id;
        self.merchant.advance(400).await;
        eventually("the Pix waits for an operator", async || {
            let listed = self.receipts().await;
            listed.iter().any(|payment| payment["end_to_end_id"] == id).then_some(())
        })
        .await;
        id
    }

    async fn receipts(&self) -> Vec<Value> {
        self.service.objects(&format!("receipts list --account {}", self.account)).await
    }

    pub(crate) async fn wait_for_status(&self, charge: &Value, status: &str) -> Value {
        let path = format!("/v1/charges/{}", id(charge));
        eventually(status, async || {
            Some(self.merchant.get(&path).await).filter(|read| read["status"] == status)
        })
        .await
    }

    async fn paid(&self, amount: i64) -> Value {
        let charge = self.charge(amount).await;
        self.pay(&charge, PayRequest::default());
        self.merchant.advance(400).await;
        self.wait_for_status(&charge, "paid").await
    }

    /// Requests a refund. Returns the status and the body of the answer.
    async fn refund(&self, charge: &Value, strategy: &str, amount: &Value) -> (u16, Value) {
        let key = format!("refund-{}", shared::random::below(u64::MAX));
        let body = json!({"amount": amount, "strategy": strategy, "idempotencyKey": key});
        self.merchant.answer("POST", &format!("/v1/payments/{}/refund", raw_id(charge)), body).await
    }

    async fn wait_for_return(&self, end_to_end_id: &str) {
        eventually("the bank has returned the Pix", async || {
            let books = self.service.stack.bank.snapshot();
            let pix = books["pix"].as_array().unwrap().iter().find(|pix| pix["endToEndId"] == end_to_end_id);
            (pix.unwrap()["devolucoes"][0]["status"] == "DEVOLVIDO").then_some(())
        })
        .await;
    }

    /// Reconciles the day. Returns the exit code, the differences and the summary.
    async fn reconcile(&self) -> (Option<i32>, Vec<Value>, Value) {
        let command = format!("reconcile --account {} --date {}", self.account, self.day);
        let output = self.service.run(&command).await;
        let mut differences = lines(&output);
        let summary = differences.pop().unwrap_or_else(|| panic!("{output:?}"));
        (output.status.code(), differences, summary)
    }

    /// Returns the actions of the account's audit rows about a subject, oldest first.
    pub(crate) async fn actions(&self, subject: &str) -> Vec<String> {
        let rows = self.service.audit(&self.account).await;
        let about = rows.iter().rev().filter(|row| row["subject"] == subject);
        about.map(|row| row["action"].as_str().unwrap().to_owned()).collect()
    }
}

fn txid(charge: &Value) -> String {
    charge["pix"]["txid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_operator_applies_a_payment_that_matches_no_charge() {
    let live = Live::start().await;
    let (charge, other) = (live.charge(1000).await, live.charge(500).await);
    let pix = live.pay_unmatched(&charge).await;
    let listed = live.receipts().await;
    let [waiting] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(
        fields(waiting, &["amount", "state", "reason", "txid", "info_pagador", "age_hours", "key"]),
        json!([1000, "unmatched", null, null, null, 0, live.service.stack.seed.bank.pix_key])
    );
    for payer in ["payer_document", "payer"] {
        assert!(waiting[payer].as_str().unwrap().starts_with("***."), "{waiting}");
    }
    let find = live.service.run(&format!("charges find {pix}")).await;
    assert!(text(&find.stderr).contains("belongs to no charge"), "{find:?}");
    assert_eq!(fields(&lines(&find)[0], &["id", "account"]), json!([pix, live.account]));

    let apply = |pix: &str, charge: &Value| {
        format!("receipts apply {pix} {} --account {} --reason proof", id(charge), live.account)
    };
    live.service.refuses(&apply(&pix, &other), "amount differs").await;
    live.service.refuses(&apply("E0000000020261121150000000000009", &charge), "no such payment").await;
    // Repeating the command changes nothing.
    for _time in 0..2 {
        let applied = live.service.object(&apply(&pix, &charge)).await;
        assert_eq!(fields(&applied, &["state", "status"]), json!(["applied", "PAID"]));
    }
    assert_eq!(live.wait_for_status(&charge, "paid").await["settlement"]["end_to_end_id"], pix);
    assert!(live.receipts().await.is_empty());
    assert_eq!(live.actions(&pix).await, ["receipt.apply"]);
}

#[tokio::test]
async fn an_operator_expires_a_charge_whose_cob_the_bank_has_lost() {
    let live = Live::start().await;
    let (lost, found, other) = (live.charge(1000).await, live.charge(1000).await, live.charge(1000).await);
    let expire = |charge: &Value| format!("charges expire {} --reason lost", id(charge));
    for charge in [&lost, &found] {
        live.service.stack.bank.lose(&txid(charge));
    }
    // The bank shows a cob as paid, and has lost its Pix.
    live.stop_sweeps().await;
    let paid = live.charge(1000).await;
    live.service.stack.bank.lose(&live.pay(&paid, PayRequest::default()).end_to_end_id);
    live.merchant.advance(86_400 + 300).await;
    live.wait_for_status(&other, "expired").await;
    live.service.refuses(&expire(&lost), "a day after its expiry").await;
    live.service.refuses(&expire(&other), "only an open live charge").await;
    live.merchant.advance(86_400).await;
    assert_eq!(live.merchant.get(&format!("/v1/charges/{}", id(&lost))).await["status"], "pending");

    // The bank finds a cob again. The service itself ends it, perhaps before the command reads the charge.
    let cob = NewCob {
        amount: domain::money::Amount::parse(1000).unwrap(),
        expires_in_seconds: 60,
        key: live.service.stack.seed.bank.pix_key.parse().unwrap(),
        debtor: None,
        payer_request: None,
    };
    let acquirer = live.service.bank_of(&live.account).await.unwrap();
    live.service.client_of(&acquirer).put_cob(&txid(&found), &cob).await.unwrap();
    let refused = live.service.failure(&expire(&found)).await;
    let reasons = ["the bank has the cob of this charge", "only an open live charge"];
    assert!(reasons.iter().any(|reason| refused.contains(reason)), "{refused}");
    live.merchant.advance(86_400).await;
    live.wait_for_status(&found, "expired").await;
    assert!(live.actions(id(&found)).await.is_empty());

    for charge in [&lost, &paid] {
        live.service.object(&expire(charge)).await;
        live.wait_for_status(charge, "expired").await;
    }
    assert_eq!(live.actions(id(&lost)).await, ["charge.expire"]);
    live.service.refuses(&expire(&lost), "only an open live charge").await;
}

#[tokio::test]
async fn an_operator_fails_a_refund_whose_pix_the_bank_has_lost() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    let bank = &live.service.stack.bank;
    bank.inject_fault(FaultKind::DevolucaoStuck, 1);
    let (_, refund) = live.refund(&charge, "devolution", &json!(400)).await;
    let fail = format!("refunds fail {} --reason lost", id(&refund));
    eventually("the devolução", async || {
        let pix = bank.snapshot()["pix"][0]["devolucoes"].clone();
        pix.as_array().is_some_and(|devolucoes| !devolucoes.is_empty()).then_some(())
    })
    .await;
    // The lease of the worker that requested it has ended.
    live.service.stack.clock.advance(100_000);
    live.service.refuses(&fail, "the bank has the devolução or the Pix").await;
    eventually("the audit row of the creation", async || {
        (live.actions(id(&refund)).await == ["refund.create"]).then_some(())
    })
    .await;
    bank.lose(charge["settlement"]["end_to_end_id"].as_str().unwrap());
    // Also that of one that requested it again, until the service gives way.
    let failed = eventually("the end of the lease", async || {
        live.service.stack.clock.advance(100_000);
        let output = live.service.run(&fail).await;
        output.status.success().then(|| lines(&output).remove(0))
    });
    assert_eq!(failed.await["status"], "FAILED");
    assert_eq!(live.merchant.get("/v1/wallets/balance").await["available"], 1000);
    assert_eq!(live.actions(id(&refund)).await, ["refund.create", "refund.fail"]);
    live.service.refuses(&fail, "only an unfinished live refund").await;
}

#[tokio::test]
async fn an_operator_returns_a_payment_that_matches_no_charge() {
    let live = Live::start().await;
    let pix = live.pay_unmatched(&live.charge(1000).await).await;
    let give_back = format!("receipts return {pix} --account {} --reason stranger", live.account);
    let returned = live.service.object(&give_back).await;
    assert_eq!(fields(&returned, &["state", "reason"]), json!(["return_requested", "unmatched"]));
    live.wait_for_return(&pix).await;
    assert!(live.receipts().await.is_empty());
    live.service.refuses(&give_back, "its return is in progress or completed").await;
    assert_eq!(live.actions(&pix).await, ["receipt.return"]);
}

#[tokio::test]
async fn an_operator_approves_or_returns_a_payment_that_is_held_for_review() {
    let live = Live::start().await;
    let (first, first_pix) = live.hold_for_review().await;
    let (second, second_pix) = live.hold_for_review().await;
    let list = format!("review list --account {} --mode live", live.account);
    let mut listed = live.service.objects(&list).await;
    listed.sort_by_key(|charge| charge["charge"] != first["id"]);
    let payments: Vec<&Value> = listed.iter().map(|charge| &charge["payment"]).collect();
    assert_eq!(payments, [&json!(first_pix), &json!(second_pix)]);
    // What the bank reported: it masked the payer.
    let reported = fields(&listed[0], &["expected_payer", "txid", "age_hours"]);
    assert_eq!(reported, json!(["***.379.955-**", first["pix"]["txid"], 0]));
    assert!(listed[0]["payer"].as_str().unwrap().contains("***"), "{listed:?}");

    // Repeating the same decision changes nothing.
    for _time in 0..2 {
        let approved = live.service.change(&format!("review approve {}", id(&first))).await;
        assert_eq!(fields(&approved, &["status", "reviewed"]), json!(["PAID", "approve"]));
        let returned = live.service.change(&format!("review return {}", id(&second))).await;
        assert_eq!(fields(&returned, &["status", "reviewed"]), json!(["REFUNDED", "return"]));
    }
    let other = format!("review return {} --reason x", id(&first));
    live.service.refuses(&other, "held for review").await;
    live.wait_for_return(&second_pix).await;
    assert!(live.service.objects(&list).await.is_empty());
    assert_eq!(live.actions(id(&first)).await, ["review.approve"]);
    assert_eq!(live.actions(id(&second)).await, ["review.return"]);
}

#[tokio::test]
async fn a_review_of_a_test_charge_ends_by_the_same_commands() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let body = json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA});
    let charge = merchant.post("/v1/pix/charges", body).await;
    merchant.sandbox(&charge, "pay", json!({"payer_tax_id": null})).await;
    let list = format!("review list --account {} --mode", service.account());
    let listed = service.objects(&format!("{list} test")).await;
    assert_eq!((listed.len(), &listed[0]["charge"]), (1, &charge["id"]));
    assert!(service.objects(&format!("{list} live")).await.is_empty());
    assert_eq!(service.change(&format!("review approve {}", id(&charge))).await["status"], "PAID");
}

#[tokio::test]
async fn a_day_with_a_payment_and_its_refunds_has_no_differences() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    for (strategy, unrealized, status) in
        [("devolution", 0, "REFUNDED"), ("cashout", 0, "REFUNDED"), ("cashout", 1, "FAILED")]
    {
        live.service.stack.bank.inject_fault(FaultKind::DevolucaoUnrealized, unrealized);
        let (_, refund) = live.refund(&charge, strategy, &json!(300)).await;
        eventually("the refund ends", async || {
            let listed = live.merchant.get(&format!("/v1/payments/{}/refunds", raw_id(&charge))).await;
            let is_ended = |listed: &Value| listed["id"] == refund["id"] && listed["status"] == status;
            listed["data"].as_array().unwrap().iter().any(is_ended).then_some(())
        })
        .await;
    }
    // Older than an hour, a difference would not be pending.
    live.merchant.advance(4_000).await;
    let (code, differences, summary) = live.reconcile().await;
    assert_eq!((code, differences), (Some(0), Vec::new()), "{summary}");
    assert_eq!(
        fields(&summary, &["date", "pix", "amount", "returns", "pix_out", "differences", "pending"]),
        json!([live.day.to_string(), 1, 1000, 1, 1, 0, 0])
    );
}

#[tokio::test]
async fn a_pix_that_is_not_recorded_is_pending_for_an_hour_and_then_a_difference() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    live.stop_sweeps().await;
    let unseen =
        live.pay(&live.charge(500).await, PayRequest { amount: Cents::new(500), ..PayRequest::default() });
    live.merchant.advance(60).await;
    let (code, pending, summary) = live.reconcile().await;
    assert_eq!((code, pending.len(), &pending[0]["state"]), (Some(0), 1, &json!("pending")), "{summary}");
    live.merchant.advance(4_000).await;
    let (code, differences, summary) = live.reconcile().await;
    assert_eq!((code, fields(&summary, &["differences", "pix"])), (Some(1), json!([1, 2])));
    let [missing] = differences.as_slice() else { panic!("{differences:?}") };
    assert_eq!(
        fields(missing, &["state", "kind", "end_to_end_id", "bank_amount"]),
        json!(["difference", "missing", unseen.end_to_end_id, 500])
    );

    // A copy of the payment's rows under another id is a record that the bank does not list.
    let (store, scope) = (live.service.table("StateTable"), live.scope());
    let paid = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    let key = IncomingPayment::key_of(&scope, &paid.parse().unwrap());
    let incoming = store.get::<IncomingPayment>(&key).await.unwrap().unwrap();
    let copy = IncomingPayment { payment_id: "E0copy".parse().unwrap(), ..incoming.clone() };
    let wrong = IncomingPayment { amount: domain::money::Amount::MIN, version: 9, ..incoming.clone() };
    let posted = store
        .range(&Posting::partition(&scope, Shard::FIRST), ("wallet#", "wallet#~"), Order::OldestFirst, 9)
        .await;
    let mut posting: Posting = from_item(posted.unwrap().remove(0)).unwrap();
    posting.id = PostingId::new(posting.at, [7; 10]);
    posting.subject.payment = Some(copy.payment_id.clone());
    let writes = vec![
        Write::insert(&copy).unwrap(),
        Write::insert(&posting).unwrap(),
        Write::replace(&wrong, incoming.version).unwrap(),
    ];
    assert_eq!(store.commit(writes).await.unwrap(), CommitOutcome::Done);
    let (code, differences, _) = live.reconcile().await;
    let kinds: Vec<&Value> = differences.iter().map(|difference| &difference["kind"]).collect();
    assert_eq!((code, kinds), (Some(1), vec![&json!("missing"), &json!("unknown"), &json!("differing")]));
    assert_eq!(differences[1]["end_to_end_id"], "E0copy");
}

#[tokio::test]
async fn a_bank_that_cannot_be_read_is_never_without_differences() {
    let live = Live::start().await;
    live.service.stack.bank.inject_fault(FaultKind::Http500, 100);
    let without_bank = live.service.stack.seed.other.id.to_string();
    for (account, date, reason) in [
        (&live.account, live.day, "the bank can't be read"),
        (&live.account, live.day.plus_days(1), "has not begun"),
        (&without_bank, live.day, "has no acquirer"),
    ] {
        let output = live.service.run(&format!("reconcile --account {account} --date {date}")).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(reason), "{output:?}");
    }
}

/// The merchant's key at a second bank.
const SECOND_KEY: &str = "pix@padaria.example";

/// How long functions cache the settings of an account, in seconds, and a second more.
const CACHED_SECONDS: i64 = 61;

impl Live {
    /// Makes the second bank the acquirer of the account. Returns the former connection.
    async fn move_to(&self, bank: &Bank) -> String {
        let set = format!(
            "accounts set-acquirer {} pix --name two --base-url {} --token-url {} --client-id loja-1 \
             --pix-key {SECOND_KEY} --callback-auth token --reason moved",
            self.account,
            bank.url(),
            bank.token_url()
        );
        let output = self.service.run_with(&set, BANK_SECRET).await;
        assert!(output.status.success(), "{output:?}");
        self.merchant.advance(CACHED_SECONDS).await;
        let shown = self.service.object(&format!("accounts show-acquirer {}", self.account)).await;
        let retired = shown["retired"].as_array().unwrap();
        assert_eq!(retired.len(), 1);
        retired[0]["connection"].as_str().unwrap().to_owned()
    }

    async fn refund_all(&self, charge: &Value) -> u16 {
        self.refund(charge, "devolution", &charge["amount"]).await.0
    }
}

#[tokio::test]
async fn an_account_that_changes_its_bank_finishes_the_charges_of_the_former_one() {
    let live = Live::start().await;
    let second = live.service.start_bank(Profile::Complete, &[SECOND_KEY]).await;
    let paid = live.paid(1000).await;
    let (notified, swept, cancelled) =
        (live.charge(700).await, live.charge(800).await, live.charge(900).await);
    let former = live.move_to(&second).await;
    let forget = |connection: &str| format!("accounts forget-acquirer {} {connection}", live.account);
    for dry_run in ["", "--dry-run"] {
        let needed = "these can't end without it: open charges: 3. Nothing was changed";
        live.service.refuses(&format!("{} --reason left {dry_run}", forget(&former)), needed).await;
    }

    // New charges are created at the second bank, and those of the former one end there.
    let moved = live.charge(500).await;
    second.pay(&PayRequest { txid: txid(&moved), ..PayRequest::default() }).unwrap();
    live.wait_for_status(&moved, "paid").await;
    live.service.stack.bank.pay(&PayRequest { txid: txid(&notified), ..PayRequest::default() }).unwrap();
    live.wait_for_status(&notified, "paid").await;
    live.pay(&swept, PayRequest::default());
    live.merchant.advance(400).await;
    live.wait_for_status(&swept, "paid").await;
    live.merchant.post(&format!("/v1/payments/{}/cancel", raw_id(&cancelled)), json!({})).await;
    for charge in [&paid, &moved] {
        assert_eq!(live.refund_all(charge).await, 201);
        live.wait_for_status(charge, "refunded").await;
    }
    let reconcile = format!("reconcile --account {} --date {}", live.account, live.day);
    let of_former = format!("{reconcile} --connection {former}");
    for (command, pix) in [(&reconcile, 1), (&of_former, 3)] {
        let summary = live.service.object(command).await;
        assert_eq!(fields(&summary, &["pix", "differences"]), json!([pix, 0]), "{summary}");
    }

    // Without an acquirer, charges still end, but none is created.
    let removed = live.service.change(&format!("accounts remove-acquirer {}", live.account)).await;
    let current = removed["connection"].as_str().unwrap();
    live.merchant.advance(CACHED_SECONDS).await;
    let refused = live.merchant.answer("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    assert_eq!(refused.0, 422, "{refused:?}");
    assert_eq!(live.refund_all(&swept).await, 201);
    live.wait_for_status(&swept, "refunded").await;

    // The credentials are removed together with the URL at the bank.
    let acquirers = live.service.acquirers();
    let retired = acquirers.retired(live.scope().account, current.parse().unwrap()).await.unwrap();
    let (client, key) = (live.service.client_of(&retired), &retired.acquirer.settings.pix().unwrap().pix_key);
    assert!(client.get_webhook(key).await.unwrap().is_some());
    // More than one, because the service may meet one too.
    second.inject_fault(FaultKind::Http500, 100);
    live.service.refuses(&format!("{} --reason left", forget(current)), "nothing was changed").await;
    second.clear_faults();
    for connection in [current, &former] {
        live.service.change(&forget(connection)).await;
    }
    assert!(client.get_webhook(key).await.unwrap().is_none());
    live.merchant.advance(CACHED_SECONDS).await;
    assert_eq!(live.refund_all(&notified).await, 503);
    live.service.refuses(&of_former, "has no connection").await;
}

#[tokio::test]
async fn a_bank_is_forgotten_with_what_is_open_there_only_by_a_flag() {
    let live = Live::start().await;
    let second = live.service.start_bank(Profile::Complete, &[SECOND_KEY]).await;
    let (paid, disputed) = (live.paid(1000).await, live.charge(1000).await);
    let pix = live.pay(&disputed, PayRequest::default()).end_to_end_id;
    live.pay_unmatched(&live.charge(800).await).await;
    live.wait_for_status(&disputed, "paid").await;
    assert_eq!(live.post_notice("n-1", &pix).await.0, 200);
    live.service.stack.bank.inject_fault(FaultKind::DevolucaoStuck, 1);
    assert_eq!(live.refund_all(&paid).await, 201);
    live.hold_for_review().await;
    let former = live.move_to(&second).await;
    let forget =
        format!("accounts forget-acquirer {} {former} --no-remove-webhook --reason left", live.account);
    let needed = "the connection is still needed, and these can't end without it: open charges: 2, \
                  refunds in progress: 1, payments that wait for an operator: 1, charges in dispute: 1";
    for dry_run in ["", "--dry-run"] {
        live.service.refuses(&format!("{forget} {dry_run}"), needed).await;
    }
    let shown = live.service.object(&format!("accounts show-acquirer {}", live.account)).await;
    assert_eq!(shown["retired"][0]["connection"], former);
    let forgotten = live.service.run(&format!("{forget} --although-needed")).await;
    let warning = format!("warning: {needed}");
    assert!(forgotten.status.success() && text(&forgotten.stderr).contains(&warning), "{forgotten:?}");
}

#[tokio::test]
async fn what_the_bank_lists_and_the_records_lack_is_recorded_by_a_command() {
    let live = Live::start().await;
    let charges = [live.charge(500).await, live.charge(700).await, live.charge(900).await];
    live.stop_sweeps().await;
    let pix = charges.each_ref().map(|charge| live.pay(charge, PayRequest::default()).end_to_end_id);
    live.merchant.advance(4_000).await;
    let (code, differences, _) = live.reconcile().await;
    assert_eq!((code, differences.len()), (Some(1), 3));

    let record = |pix: &str| {
        format!("receipts record --end-to-end-id {pix} --account {} --reason asked", live.account)
    };
    for _time in 0..2 {
        let recorded = live.service.object(&record(&pix[0])).await;
        assert_eq!(fields(&recorded, &["status", "charge"]), json!(["recorded", charges[0]["id"]]));
    }
    live.wait_for_status(&charges[0], "paid").await;
    live.service.refuses(&record("E1"), "does not know this Pix").await;

    let apply = format!("reconcile --account {} --date {} --apply", live.account, live.day);
    let printed = live.service.objects(&apply).await;
    let recorded = printed.iter().filter(|line| line["status"] == "recorded").count();
    assert_eq!((recorded, &printed.last().unwrap()["differences"]), (2, &json!(0)), "{printed:?}");
    for charge in &charges {
        live.wait_for_status(charge, "paid").await;
    }
}

#[tokio::test]
async fn several_payments_are_decided_by_one_command_and_a_failure_prevents_no_other() {
    let live = Live::start().await;
    let (first, second) = (live.charge(1000).await, live.charge(1000).await);
    let pix = [live.pay_unmatched(&first).await, live.pay_unmatched(&second).await];
    let apply =
        format!("receipts apply --account {} --reason proofs {} {}", live.account, pix[0], id(&first));
    live.service.refuses(&format!("{apply} {}", pix[1]), "must be followed by a charge").await;
    let twice = format!("{apply} {} {}", pix[1], id(&first));
    for dry_run in ["", "--dry-run"] {
        let named = format!("{} is named twice: nothing was changed", id(&first));
        live.service.refuses(&format!("{twice} {dry_run}"), &named).await;
    }
    let third = live.charge(1000).await;
    let unknown = format!("E0000000020261121150000000000009 {}", id(&third));
    let apply = format!("{apply} {unknown} {} {}", pix[1], id(&second));
    let output = live.service.run(&apply).await;
    assert_eq!((output.status.code(), lines(&output).len()), (Some(1), 2), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(stderr.contains(&format!("{unknown}: ")) && stderr.contains("1 of 3 failed"), "{stderr}");
    for charge in [&first, &second] {
        live.wait_for_status(charge, "paid").await;
    }
}

#[tokio::test]
async fn a_payment_that_only_the_bank_can_return_is_refused_at_once() {
    let live = Live::start().await;
    let unmatched = live.pay_unmatched(&live.charge(1000).await).await;
    let (held, _) = live.hold_for_review().await;
    live.merchant.advance(91 * 86_400).await;
    for command in [
        format!("receipts return {unmatched} --account {} --reason x", live.account),
        format!("review return {} --reason x", id(&held)),
    ] {
        live.service.refuses(&command, "only the bank itself can return this payment").await;
    }
    assert_eq!(live.receipts().await[0]["state"], "unmatched");
}
