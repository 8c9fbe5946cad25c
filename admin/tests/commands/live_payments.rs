//! Tests of the commands about payments at a bank. The first account's acquirer is the local bank.

use std::sync::Arc;

use api_pix::{Client, NewCob};
use bank::{Bank, Cents, FaultKind, Paid, PayRequest, ReportedTxid};
use domain::acquirer::ConnectionSweep;
use domain::calendar::Day;
use domain::charge::IncomingPayment;
use domain::ids::{ConnectionId, Mode, PostingId, Scope};
use domain::payment_method::PaymentMethod;
use domain::shard::Shard;
use domain::time::Timestamp;
use domain::wallet::Posting;
use serde_json::{Value, json};
use shared::acquirer::configuration::{AccountAcquirers, ConfiguredAcquirer};
use shared::store::{CommitOutcome, Order, Store, Write, from_item};

use crate::{AdminFixture, Merchant, eventually, text};

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
        let key = service.stack.seed.first.live_api_key.clone();
        let merchant = Merchant { base_url: service.stack.base_url.clone(), key };
        let (account, now) = (service.account(), service.stack.clock.now());
        let day = Day::of(now).plus_days(1);
        let live = Self { service, merchant, account, day };
        // Otherwise, a test that runs at midnight would pay and refund on different days.
        let noon = day.starts_at().plus_seconds(HALF_A_DAY_SECONDS).unwrap();
        live.advance(noon.millis_since(now) / 1_000).await;
        // The sweep after the advance could use up a fault that a test injects for a command.
        live.wait_for_sweep(noon).await;
        live
    }

    pub(crate) async fn advance(&self, seconds: i64) {
        self.merchant.send("POST", "/_local/clock/advance", json!({"seconds": seconds})).await;
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(local::sdk::dynamodb(&self.service.stack.endpoints.dynamodb_url), "StateTable")
    }

    fn scope(&self) -> Scope {
        Scope { account: self.service.stack.seed.first.id, mode: Mode::Live }
    }

    async fn sweep(&self) -> ConnectionSweep {
        let stack = &self.service.stack;
        let connection = ConnectionId::derive("pix", &stack.bank_url, &stack.seed.bank.client_id);
        self.store().get(&ConnectionSweep::key_of(connection)).await.unwrap().unwrap()
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
        eventually("the sweeps are stopped", async || {
            let sweep = self.sweep().await;
            let next = ConnectionSweep { next_at: Timestamp::MAX, ..sweep.next_version() };
            let stored =
                self.store().commit(vec![Write::replace(&next, sweep.version).unwrap()]).await.unwrap();
            (stored == CommitOutcome::Done).then_some(())
        })
        .await;
    }

    /// Creates a charge of this amount that is open for a day.
    pub(crate) async fn charge(&self, amount: i64) -> Value {
        let body = json!({"amount": amount, "expires_in": 86_400});
        self.merchant.send("POST", "/v1/pix/charges", body).await
    }

    /// Creates a charge that only Maria may pay.
    pub(crate) async fn charge_for_maria(&self) -> Value {
        let customer = json!({"name": "Maria"});
        let body = json!({"amount": 1000, "customer": customer, "expected_payer_tax_id": MARIA});
        self.merchant.send("POST", "/v1/pix/charges", body).await
    }

    /// Pays a charge at the bank, which does not notify the service.
    pub(crate) fn pay(&self, charge: &Value, request: PayRequest) -> Paid {
        let bank = &self.service.stack.bank;
        bank.inject_fault(FaultKind::LostNotification, 1);
        let txid = charge["pix"]["txid"].as_str().unwrap().to_owned();
        bank.pay(&PayRequest { txid, ..request }).unwrap()
    }

    /// Pays a charge by a Pix without its txid, and waits until the service has recorded the Pix.
    pub(crate) async fn pay_unmatched(&self, charge: &Value) -> String {
        let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
        let id = self.pay(charge, request).end_to_end_id;
        self.advance(400).await;
        eventually("the Pix waits for an operator", async || {
            let listed = self.receipts().await;
            listed.iter().any(|payment| payment["end_to_end_id"] == id).then_some(())
        })
        .await;
        id
    }

    async fn receipts(&self) -> Vec<Value> {
        self.service.objects(&["receipts", "list", "--account", &self.account]).await
    }

    pub(crate) async fn wait_for_status(&self, charge: &Value, status: &str) -> Value {
        let path = format!("/v1/charges/{}", charge["id"].as_str().unwrap());
        eventually(status, async || {
            let read = self.merchant.send("GET", &path, json!(null)).await;
            (read["status"] == status).then_some(read)
        })
        .await
    }

    async fn paid(&self, amount: i64) -> Value {
        let charge = self.charge(amount).await;
        self.pay(&charge, PayRequest::default());
        self.advance(400).await;
        self.wait_for_status(&charge, "paid").await
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
        let date = self.day.to_string();
        let output = self.service.run(&["reconcile", "--account", &self.account, "--date", &date]).await;
        let stdout = text(&output.stdout);
        let mut lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = lines.pop().unwrap_or_else(|| panic!("{output:?}"));
        (output.status.code(), lines, summary)
    }

    /// Returns the actions of the account's audit rows about a subject, oldest first.
    pub(crate) async fn actions(&self, subject: &str) -> Vec<String> {
        let rows = self.service.objects(&["audit", &self.account]).await;
        let about = rows.iter().rev().filter(|row| row["subject"] == subject);
        about.map(|row| row["action"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn an_operator_applies_a_payment_that_matches_no_charge() {
    let live = Live::start().await;
    let (charge, other) = (live.charge(1000).await, live.charge(500).await);
    let id = live.pay_unmatched(&charge).await;
    let listed = live.receipts().await;
    let [waiting] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&waiting["amount"], &waiting["state"]), (&json!(1000), &json!("unmatched")));
    assert!(waiting["payer_document"].as_str().unwrap().starts_with("***."), "{waiting}");
    assert_eq!(waiting["reason"], json!(null));
    let reported = ["txid", "info_pagador", "age_hours"].map(|name| &waiting[name]);
    assert_eq!(reported, [&json!(null), &json!(null), &json!(0)]);
    assert_eq!(waiting["key"], live.service.stack.seed.bank.pix_key);
    assert!(waiting["payer"].as_str().unwrap().starts_with("***."), "{waiting}");
    let find = live.service.run(&["charges", "find", &id]).await;
    assert!(text(&find.stderr).contains("belongs to no charge"), "{find:?}");
    let found: Value = serde_json::from_str(&text(&find.stdout)).unwrap();
    assert_eq!((&found["id"], &found["account"]), (&json!(id), &json!(live.account)));

    let (account, reason) = (live.account.as_str(), "the payer sent the proof of payment");
    let apply = |id: &str, charge: &Value| {
        let charge = charge["id"].as_str().unwrap();
        ["receipts", "apply", id, charge, "--account", account, "--reason", reason].map(str::to_owned)
    };
    for (id, charge, refusal) in [
        (id.as_str(), &other, "amount differs"),
        ("E0000000020261121150000000000009", &charge, "no such payment"),
    ] {
        let refused = apply(id, charge);
        let refused = live.service.run(&refused.each_ref().map(String::as_str)).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(text(&refused.stderr).contains(refusal), "{refused:?}");
    }
    let applied = apply(&id, &charge);
    // Repeating the command changes nothing.
    for _time in 0..2 {
        let printed = live.service.object(&applied.each_ref().map(String::as_str)).await;
        assert_eq!((&printed["state"], &printed["status"]), (&json!("applied"), &json!("PAID")));
    }
    assert_eq!(live.wait_for_status(&charge, "paid").await["settlement"]["end_to_end_id"], id);
    assert!(live.receipts().await.is_empty());
    assert_eq!(live.actions(&id).await, ["receipt.apply"]);
}

async fn refused(live: &Live, command: &[&str], why: &str) {
    let refused = live.service.run(command).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains(why), "{refused:?}");
}

#[tokio::test]
async fn an_operator_expires_a_charge_whose_cob_the_bank_has_lost() {
    let live = Live::start().await;
    let (lost, found, other) = (live.charge(1000).await, live.charge(1000).await, live.charge(1000).await);
    let txid = |charge: &Value| charge["pix"]["txid"].as_str().unwrap().to_owned();
    let expire = async |charge: &Value| {
        live.service.run(&["charges", "expire", charge["id"].as_str().unwrap(), "--reason", "lost"]).await
    };
    let refused = async |charge: &Value, whys: &[&str]| {
        let refused = expire(charge).await;
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(whys.iter().any(|why| text(&refused.stderr).contains(why)), "{refused:?}");
    };
    for charge in [&lost, &found] {
        live.service.stack.bank.lose(&txid(charge));
    }
    live.advance(86_400 + 300).await;
    live.wait_for_status(&other, "expired").await;
    refused(&lost, &["a day after its expiry"]).await;
    refused(&other, &["only an open live charge"]).await;
    live.advance(86_400).await;
    let path = format!("/v1/charges/{}", lost["id"].as_str().unwrap());
    assert_eq!(live.merchant.send("GET", &path, json!(null)).await["status"], "pending");

    // The bank finds a cob again. The service itself ends it, perhaps before the command reads the charge.
    let cob = NewCob {
        amount: domain::money::Amount::parse(1000).unwrap(),
        expires_in_seconds: 60,
        key: live.service.stack.seed.bank.pix_key.parse().unwrap(),
        debtor: None,
        payer_request: None,
    };
    let (scope, clock) = (live.scope(), live.service.stack.clock.clone());
    let acquirer =
        live.service.acquirers().current(&scope.account, PaymentMethod::Pix).await.unwrap().unwrap();
    let settings = acquirer.pix_connection().unwrap();
    let client = Client::new(&settings, Arc::new(move || clock.now())).unwrap();
    client.put_cob(&txid(&found), &cob).await.unwrap();
    refused(&found, &["the bank has the cob of this charge", "only an open live charge"]).await;
    live.advance(86_400).await;
    live.wait_for_status(&found, "expired").await;
    assert!(live.actions(found["id"].as_str().unwrap()).await.is_empty());

    let expired = expire(&lost).await;
    assert_eq!(expired.status.code(), Some(0), "{expired:?}");
    live.wait_for_status(&lost, "expired").await;
    assert_eq!(live.actions(lost["id"].as_str().unwrap()).await, ["charge.expire"]);
    refused(&lost, &["only an open live charge"]).await;
}

#[tokio::test]
async fn an_operator_fails_a_refund_whose_pix_the_bank_has_lost() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    let id = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    let bank = &live.service.stack.bank;
    bank.inject_fault(FaultKind::DevolucaoStuck, 1);
    let raw = charge["id"].as_str().unwrap().trim_start_matches("ch_");
    let body = json!({"amount": 400, "idempotencyKey": "refund-01", "strategy": "devolution"});
    let refund = live.merchant.send("POST", &format!("/v1/payments/{raw}/refund"), body).await;
    let refund = refund["id"].as_str().unwrap();
    let fail = ["refunds", "fail", refund, "--reason", "lost"];
    refused(&live, &fail, "the bank has the devolução or the Pix").await;
    bank.lose(id);
    assert_eq!(live.service.object(&fail).await["status"], "FAILED");
    let balance = live.merchant.send("GET", "/v1/wallets/balance", json!(null)).await;
    assert_eq!(balance["available"], 1000);
    assert_eq!(live.actions(refund).await, ["refund.create", "refund.fail"]);
    refused(&live, &fail, "only an unfinished live refund").await;
}

#[tokio::test]
async fn an_operator_returns_a_payment_that_matches_no_charge() {
    let live = Live::start().await;
    let id = live.pay_unmatched(&live.charge(1000).await).await;
    let give_back = ["receipts", "return", &id, "--account", &live.account, "--reason", "not a customer"];
    let returned = live.service.object(&give_back).await;
    assert_eq!((&returned["state"], &returned["reason"]), (&json!("return_requested"), &json!("unmatched")));
    live.wait_for_return(&id).await;
    assert!(live.receipts().await.is_empty());
    let refused = live.service.run(&give_back).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(live.actions(&id).await, ["receipt.return"]);
}

#[tokio::test]
async fn an_operator_approves_or_returns_a_payment_that_is_held_for_review() {
    let live = Live::start().await;
    let (first, second) = (live.charge_for_maria().await, live.charge_for_maria().await);
    let mut ids = Vec::new();
    for charge in [&first, &second] {
        live.service.stack.bank.inject_fault(FaultKind::MaskedPayer, 1);
        ids.push(live.pay(charge, PayRequest::default()).end_to_end_id);
    }
    live.advance(400).await;
    for charge in [&first, &second] {
        live.wait_for_status(charge, "processing").await;
    }
    let list = ["review", "list", "--account", &live.account, "--mode", "live"];
    let mut listed = live.service.objects(&list).await;
    listed.sort_by_key(|charge| charge["charge"] != first["id"]);
    let payments: Vec<&Value> = listed.iter().map(|charge| &charge["payment"]).collect();
    assert_eq!(payments, [&json!(ids[0]), &json!(ids[1])]);
    assert_eq!(listed[0]["expected_payer"], "***.379.955-**");
    // What the bank reported: it masked the payer.
    assert_eq!((&listed[0]["txid"], &listed[0]["age_hours"]), (&first["pix"]["txid"], &json!(0)));
    assert!(listed[0]["payer"].as_str().unwrap().contains("***"), "{listed:?}");

    let decide = |decision, charge: &Value| {
        let id = charge["id"].as_str().unwrap().to_owned();
        ["review".to_owned(), decision, id, "--reason".to_owned(), "proof of payment".to_owned()]
    };
    let approve = decide("approve".to_owned(), &first);
    let give_back = decide("return".to_owned(), &second);
    // Repeating the same decision changes nothing.
    for _time in 0..2 {
        let approved = live.service.object(&approve.each_ref().map(String::as_str)).await;
        assert_eq!((&approved["status"], &approved["reviewed"]), (&json!("PAID"), &json!("approve")));
        let returned = live.service.object(&give_back.each_ref().map(String::as_str)).await;
        assert_eq!((&returned["status"], &returned["reviewed"]), (&json!("REFUNDED"), &json!("return")));
    }
    let other = decide("return".to_owned(), &first);
    let refused = live.service.failure(&other.each_ref().map(String::as_str)).await;
    assert!(refused.contains("held for review"), "{refused}");
    live.wait_for_return(&ids[1]).await;
    assert!(live.service.objects(&list).await.is_empty());
    assert_eq!(live.actions(first["id"].as_str().unwrap()).await, ["review.approve"]);
    assert_eq!(live.actions(second["id"].as_str().unwrap()).await, ["review.return"]);
}

#[tokio::test]
async fn a_review_of_a_test_charge_ends_by_the_same_commands() {
    let service = AdminFixture::start().await;
    let merchant = Merchant::of(&service);
    let customer = json!({"name": "Maria"});
    let body = json!({"amount": 1000, "customer": customer, "expected_payer_tax_id": MARIA});
    let charge = merchant.send("POST", "/v1/pix/charges", body).await;
    let id = charge["id"].as_str().unwrap();
    merchant.send("POST", &format!("/v1/sandbox/charges/{id}/pay"), json!({"payer_tax_id": null})).await;
    let account = service.account();
    let listed = service.objects(&["review", "list", "--account", &account, "--mode", "test"]).await;
    assert_eq!((listed.len(), &listed[0]["charge"]), (1, &json!(id)));
    let live = service.objects(&["review", "list", "--account", &account, "--mode", "live"]).await;
    assert!(live.is_empty());
    let approved = service.object(&["review", "approve", id, "--reason", "proof of payment"]).await;
    assert_eq!(approved["status"], "PAID");
}

#[tokio::test]
async fn a_day_with_a_payment_and_its_refund_has_no_differences() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    let raw = charge["id"].as_str().unwrap().trim_start_matches("ch_").to_owned();
    let body = json!({"amount": 400, "idempotencyKey": "refund-01", "strategy": "devolution"});
    live.merchant.send("POST", &format!("/v1/payments/{raw}/refund"), body).await;
    let path = format!("/v1/payments/{raw}/refunds");
    eventually("the refund is completed", async || {
        let listed = live.merchant.send("GET", &path, json!(null)).await;
        (listed["data"][0]["status"] == "REFUNDED").then_some(())
    })
    .await;
    // Older than an hour, a difference would not be pending.
    live.advance(4_000).await;
    let (code, differences, summary) = live.reconcile().await;
    assert_eq!((code, differences), (Some(0), Vec::new()), "{summary}");
    let counts = ["pix", "amount", "returns", "differences", "pending"].map(|name| &summary[name]);
    assert_eq!(counts, [&json!(1), &json!(1000), &json!(1), &json!(0), &json!(0)]);
    assert_eq!(summary["date"], live.day.to_string());
}

#[tokio::test]
async fn a_pix_that_is_not_recorded_is_pending_for_an_hour_and_then_a_difference() {
    let live = Live::start().await;
    let charge = live.paid(1000).await;
    live.stop_sweeps().await;
    let unseen =
        live.pay(&live.charge(500).await, PayRequest { amount: Cents::new(500), ..PayRequest::default() });
    live.advance(60).await;
    let (code, pending, summary) = live.reconcile().await;
    assert_eq!((code, pending.len(), &pending[0]["state"]), (Some(0), 1, &json!("pending")), "{summary}");
    live.advance(4_000).await;
    let (code, differences, summary) = live.reconcile().await;
    assert_eq!((code, &summary["differences"], &summary["pix"]), (Some(1), &json!(1), &json!(2)));
    let [missing] = differences.as_slice() else { panic!("{differences:?}") };
    let shown = ["state", "kind", "end_to_end_id", "bank_amount"].map(|name| missing[name].clone());
    assert_eq!(shown, [json!("difference"), json!("missing"), json!(unseen.end_to_end_id), json!(500)]);

    // A copy of the payment's rows under another id is a record that the bank does not list.
    let (store, scope) = (live.store(), live.scope());
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
    let today = live.day.to_string();
    let tomorrow = live.day.plus_days(1).to_string();
    let without_bank = live.service.stack.seed.other.id.to_string();
    for (account, date, reason) in [
        (&live.account, &today, "the bank can't be read"),
        (&live.account, &tomorrow, "has not begun"),
        (&without_bank, &today, "has no acquirer"),
    ] {
        let output = live.service.run(&["reconcile", "--account", account, "--date", date]).await;
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(reason), "{output:?}");
    }
}

/// A second bank, at which the merchant has a key.
async fn second_bank(live: &Live) -> Bank {
    let clock = live.service.stack.clock.clone();
    let receiver = bank::Client {
        client_id: "padaria-2".to_owned(),
        client_secret: SECOND_SECRET.to_owned(),
        keys: vec![SECOND_KEY.to_owned()],
        name: "Padaria".to_owned(),
        city: "Recife".to_owned(),
        cnpj: "11222333000181".to_owned(),
    };
    let options = bank::Options::new(Arc::new(move || clock.now().millis()));
    Bank::start(bank::Options { clients: vec![receiver], seed: 2, ..options }).await.unwrap()
}

const SECOND_SECRET: &str = "s3cr3t-of-the-second-bank";
const SECOND_KEY: &str = "pix@padaria.example";

/// How long functions cache the settings of an account, in seconds, and a second more.
const CACHED_SECONDS: i64 = 61;

impl Live {
    /// Makes the second bank the acquirer of the account.
    async fn move_to(&self, bank: &Bank) -> String {
        let (base_url, token_url) = (bank.url(), bank.token_url());
        let set =
            ["accounts", "set-acquirer", &self.account, "pix", "--name", "two", "--base-url", &base_url];
        let rest = ["--token-url", &token_url, "--client-id", "padaria-2", "--pix-key", SECOND_KEY];
        let auth = ["--callback-auth", "token", "--reason", "another bank"];
        let output = self.service.run_with(&[&set[..], &rest, &auth].concat(), SECOND_SECRET).await;
        assert!(output.status.success(), "{output:?}");
        self.advance(CACHED_SECONDS).await;
        let shown = self.service.object(&["accounts", "show-acquirer", &self.account]).await;
        let retired = shown["retired"].as_array().unwrap();
        assert_eq!(retired.len(), 1);
        retired[0]["connection"].as_str().unwrap().to_owned()
    }

    /// A retired acquirer.
    async fn retired(&self, connection: &str) -> ConfiguredAcquirer {
        let secrets = Store::new(self.store().client().clone(), "SecretsTable");
        let acquirers = AccountAcquirers::new(self.store(), secrets);
        let account = self.service.stack.seed.first.id;
        acquirers.retired(account, connection.parse().unwrap()).await.unwrap()
    }

    async fn refund(&self, charge: &Value) -> (u16, Value) {
        let path =
            format!("/v1/payments/{}/refund", charge["id"].as_str().unwrap().trim_start_matches("ch_"));
        let body = json!({"strategy": "devolution", "idempotencyKey": "refund-0001"});
        self.merchant.answer("POST", &path, body).await
    }
}

#[tokio::test]
async fn an_account_that_changes_its_bank_finishes_the_charges_of_the_former_one() {
    let live = Live::start().await;
    let second = second_bank(&live).await;
    let paid = live.paid(1000).await;
    let (notified, swept, cancelled) =
        (live.charge(700).await, live.charge(800).await, live.charge(900).await);
    let former = live.move_to(&second).await;

    // New charges are created at the second bank, and those of the former one end there.
    let moved = live.charge(500).await;
    let txid = |charge: &Value| charge["pix"]["txid"].as_str().unwrap().to_owned();
    second.pay(&PayRequest { txid: txid(&moved), ..PayRequest::default() }).unwrap();
    live.wait_for_status(&moved, "paid").await;
    let request = PayRequest { txid: txid(&notified), ..PayRequest::default() };
    live.service.stack.bank.pay(&request).unwrap();
    live.wait_for_status(&notified, "paid").await;
    live.pay(&swept, PayRequest::default());
    live.advance(400).await;
    live.wait_for_status(&swept, "paid").await;
    let cancel =
        format!("/v1/payments/{}/cancel", cancelled["id"].as_str().unwrap().trim_start_matches("ch_"));
    live.merchant.send("POST", &cancel, json!({})).await;
    for charge in [&paid, &moved] {
        assert_eq!(live.refund(charge).await.0, 201);
        live.wait_for_status(charge, "refunded").await;
    }
    let date = live.day.to_string();
    let reconcile = ["reconcile", "--account", &live.account, "--date", &date];
    let of_former = [&reconcile[..], &["--connection", &former]].concat();
    for (arguments, pix) in [(&reconcile[..], 1), (&of_former, 3)] {
        let summary = live.service.object(arguments).await;
        assert_eq!((&summary["pix"], &summary["differences"]), (&json!(pix), &json!(0)), "{summary}");
    }

    // Without an acquirer, charges still end, but none is created.
    let remove = ["accounts", "remove-acquirer", &live.account, "--reason", "the shop closes"];
    let current = live.service.object(&remove).await["connection"].as_str().unwrap().to_owned();
    live.advance(CACHED_SECONDS).await;
    let refused = live.merchant.answer("POST", "/v1/pix/charges", json!({"amount": 1000})).await;
    assert_eq!(refused.0, 422, "{refused:?}");
    assert_eq!(live.refund(&swept).await.0, 201);
    live.wait_for_status(&swept, "refunded").await;

    // The credentials are removed together with the URL at the bank.
    let retired = live.retired(&current).await;
    let clock = live.service.stack.clock.clone();
    let client = Client::new(&retired.pix_connection().unwrap(), Arc::new(move || clock.now())).unwrap();
    assert!(client.get_webhook(&retired.acquirer.settings.pix().unwrap().pix_key).await.unwrap().is_some());
    let forget = |connection| ["accounts", "forget-acquirer", &live.account, connection, "--reason", "left"];
    // More than one, because the service may meet one too.
    second.inject_fault(FaultKind::Http500, 100);
    let failure = live.service.failure(&forget(&current)).await;
    second.clear_faults();
    assert!(failure.contains("nothing was changed"), "{failure}");
    for connection in [&current, &former] {
        live.service.object(&forget(connection)).await;
    }
    assert!(client.get_webhook(&retired.acquirer.settings.pix().unwrap().pix_key).await.unwrap().is_none());
    live.advance(CACHED_SECONDS).await;
    assert_eq!(live.refund(&notified).await.0, 503);
    let message = live.service.failure(&of_former).await;
    assert!(message.contains("no credentials"), "{message}");
}

#[tokio::test]
async fn a_refund_by_cash_out_is_reconciled_with_the_pix_that_the_bank_sent() {
    let live = Live::start().await;
    let paid = live.paid(1000).await;
    let path = format!("/v1/payments/{}/refund", paid["id"].as_str().unwrap().trim_start_matches("ch_"));
    for (number, fault) in [(1, None), (2, Some(FaultKind::DevolucaoUnrealized))] {
        live.service.stack.bank.inject_fault(FaultKind::DevolucaoUnrealized, u32::from(fault.is_some()));
        let key = format!("refund-{number:04}");
        let body = json!({"strategy": "cashout", "amount": 300, "idempotencyKey": key});
        live.merchant.send("POST", &path, body).await;
        let status = if fault.is_some() { "FAILED" } else { "REFUNDED" };
        eventually("the refund ends", async || {
            let listed = live.merchant.send("GET", &format!("{path}s"), json!(null)).await;
            (listed["data"][0]["status"] == status).then_some(())
        })
        .await;
    }
    let (code, differences, summary) = live.reconcile().await;
    assert_eq!((code, differences), (Some(0), Vec::new()));
    assert_eq!((&summary["pix_out"], &summary["returns"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn what_the_bank_lists_and_the_records_lack_is_recorded_by_a_command() {
    let live = Live::start().await;
    let charges = [live.charge(500).await, live.charge(700).await, live.charge(900).await];
    live.stop_sweeps().await;
    let pix = charges.each_ref().map(|charge| live.pay(charge, PayRequest::default()).end_to_end_id);
    live.advance(4_000).await;
    let (code, differences, _) = live.reconcile().await;
    assert_eq!((code, differences.len()), (Some(1), 3));

    let record = ["receipts", "record", "--end-to-end-id", &pix[0], "--account", &live.account];
    let record = [&record[..], &["--reason", "the customer asks"]].concat();
    for _time in 0..2 {
        let recorded = live.service.object(&record).await;
        assert_eq!((&recorded["status"], &recorded["charge"]), (&json!("recorded"), &charges[0]["id"]));
    }
    live.wait_for_status(&charges[0], "paid").await;
    let unknown =
        ["receipts", "record", "--end-to-end-id", "E1", "--account", &live.account, "--reason", "?"];
    assert!(live.service.failure(&unknown).await.contains("does not know this Pix"));

    let date = live.day.to_string();
    let apply = ["reconcile", "--account", &live.account, "--date", &date, "--apply"];
    let printed = live.service.objects(&apply).await;
    let recorded: Vec<&Value> = printed.iter().filter(|line| line["status"] == "recorded").collect();
    assert_eq!((recorded.len(), &printed.last().unwrap()["differences"]), (2, &json!(0)), "{printed:?}");
    for charge in &charges {
        live.wait_for_status(charge, "paid").await;
    }
}

#[tokio::test]
async fn several_payments_are_decided_by_one_command_and_a_failure_prevents_no_other() {
    let live = Live::start().await;
    let (first, second) = (live.charge(1000).await, live.charge(1000).await);
    let pix = [live.pay_unmatched(&first).await, live.pay_unmatched(&second).await];
    let ids = [&first, &second].map(|charge| charge["id"].as_str().unwrap());
    let rest = ["--account", &live.account, "--reason", "proofs of payment"];
    let odd = live.service.run(&[&["receipts", "apply", &pix[0]][..], &rest].concat()).await;
    assert!(!odd.status.success(), "{odd:?}");
    let unknown = "E0000000020261121150000000000009";
    let apply = ["receipts", "apply", unknown, ids[0], &pix[0], ids[0], &pix[1], ids[1]];
    let output = live.service.run(&[&apply[..], &rest].concat()).await;
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(1), 2), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains(&format!("{unknown} {}: ", ids[0])) && stderr.contains("1 of 3 failed"),
        "{stderr}"
    );
    for charge in [&first, &second] {
        live.wait_for_status(charge, "paid").await;
    }
}

#[tokio::test]
async fn a_payment_that_only_the_bank_can_return_is_refused_at_once() {
    let live = Live::start().await;
    let unmatched = live.pay_unmatched(&live.charge(1000).await).await;
    let locked = live.charge_for_maria().await;
    live.service.stack.bank.inject_fault(FaultKind::MaskedPayer, 1);
    live.pay(&locked, PayRequest::default());
    live.advance(400).await;
    live.wait_for_status(&locked, "processing").await;
    live.advance(91 * 86_400).await;
    let charge = locked["id"].as_str().unwrap();
    for command in [
        vec!["receipts", "return", &unmatched, "--account", &live.account, "--reason", "unknown"],
        vec!["review", "return", charge, "--reason", "unknown"],
    ] {
        let refused = live.service.failure(&command).await;
        assert!(refused.contains("only the bank itself can return this payment"), "{refused}");
    }
    assert_eq!(live.receipts().await[0]["state"], "unmatched");
}
