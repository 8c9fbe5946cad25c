//! Tests of live charges at the local bank: creation, payment, expiry, cancellation, refunds and returns.

use std::sync::Arc;
use std::time::Duration;

use acquirer_core::{Connections, PixBank};
use api_pix::Pix;
use axum::http::Method;
use bank::{Cents, FaultKind, MedNature, PayRequest, Payer, ReportedTxid};
use domain::account::terms::MethodTerms;
use domain::acquirer::{ConnectionSweep, ReportedPix, ReportedPixStatus};
use domain::calendar::Day;
use domain::charge::{Charge, IncomingPayment};
use domain::ids::{ChargeId, ConnectionId, Mode, Scope};
use domain::payment_method::PaymentMethod;
use domain::wallet::ReturnStatus;
use faults::proxy::Fault;
use local::stack::Options;
use serde_json::{Value, json};
use services::reconciliation::Reconciler;
use services::reconciliation::pix::DifferenceKind;
use services::{BankPayments, PixHint, Receipts};
use shared::store::{CommitOutcome, Write};
use tokio::task::JoinSet;

use crate::bank::BankApi;
use crate::bank_books::Fates;
use crate::bank_proxy::BankProxy;
use crate::support::{Answer, Client, Listener, Service, eventually, id, operator, raw_id, wait_until};

pub(crate) const MARIA: &str = "29537995593";
pub(crate) const JOAO: &str = "25524893033";

/// A charge of 10.00 for a customer whose document is known.
pub(crate) fn for_maria() -> Value {
    json!({"amount": 1000, "customer": {"name": "Maria", "document": MARIA}})
}

/// A charge of 10.00 that only Maria may pay.
pub(crate) fn locked() -> Value {
    json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA})
}

/// A running service, and a client with the first account's live key.
pub(crate) struct Live {
    pub(crate) service: Service,
    pub(crate) client: Client,
}

impl Live {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::in_memory()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let live = Self::of(Service::start_with(options).await);
        // Otherwise, the first sweep could use up a fault that a test injects for another request.
        live.wait_for_first_sweep().await;
        live
    }

    pub(crate) fn of(service: Service) -> Self {
        let client = service.live_client();
        Self { service, client }
    }

    /// Returns the row of the sweep of the first account's bank connection.
    pub(crate) async fn sweep_row(&self) -> ConnectionSweep {
        let key = ConnectionSweep::key_of(self.service.bank().await.acquirer.connection);
        self.service.store().get(&key).await.unwrap().unwrap()
    }

    pub(crate) async fn wait_for_first_sweep(&self) {
        wait_until("the first sweep", async || {
            self.sweep_row().await.next_at > self.service.stack.clock.now()
        })
        .await;
    }

    /// Moves the clock, and waits for a sweep that ends at the new time.
    pub(crate) async fn sweep_after(&self, seconds: i64) {
        self.service.advance_seconds(seconds).await;
        let end = self.service.stack.clock.now().plus_seconds(-10).unwrap();
        wait_until("the sweep", async || self.sweep_row().await.watermark >= end).await;
    }

    /// Waits for the daily reconciliation of this day.
    async fn reconcile_by_schedule(&self) {
        let today = Day::of(self.service.stack.clock.now());
        self.service.advance_seconds(86_400).await;
        wait_until("the day", async || self.last_reconciled().await == Some(today)).await;
    }

    pub(crate) async fn last_reconciled(&self) -> Option<Day> {
        let service = &self.service;
        let reconciler = Reconciler::new(service.store(), service.acquirers(), service.stack.clock.clone());
        reconciler.last_day(service.bank().await.acquirer.connection).await.unwrap()
    }

    pub(crate) async fn create(&self, key: &str, body: &Value) -> Value {
        self.client.new_charge(key, body).await
    }

    /// Pays a charge at the bank. Returns the end-to-end id.
    pub(crate) fn pay(&self, charge: &Value, request: PayRequest) -> String {
        let txid = charge["pix"]["txid"].as_str().unwrap().to_owned();
        self.service.stack.bank.pay(&PayRequest { txid, ..request }).unwrap().end_to_end_id
    }

    /// Pays a charge of which the bank sends no notification. Returns the end-to-end id.
    pub(crate) fn pay_unnoticed(&self, charge: &Value, request: PayRequest) -> String {
        self.fault(FaultKind::LostNotification, 1);
        self.pay(charge, request)
    }

    pub(crate) fn fault(&self, kind: FaultKind, count: u32) {
        self.service.stack.bank.inject_fault(kind, count);
    }

    pub(crate) async fn wait_for_status(&self, charge: &Value, status: &str) -> Value {
        eventually(status, async || {
            let read = self.client.get_charge(charge).await;
            (read["status"] == status).then_some(read)
        })
        .await
    }

    pub(crate) async fn paid(&self, key: &str) -> Value {
        let charge = self.create(key, &for_maria()).await;
        self.pay(&charge, PayRequest::default());
        self.wait_for_status(&charge, "paid").await
    }

    /// Creates a charge that is held for review, because the bank does not report its payer. Returns it and the
    /// end-to-end id.
    pub(crate) async fn held(&self, key: &str) -> (Value, String) {
        let charge = self.create(key, &locked()).await;
        self.fault(FaultKind::MaskedPayer, 1);
        let end_to_end_id = self.pay(&charge, PayRequest::default());
        self.wait_for_status(&charge, "processing").await;
        (charge, end_to_end_id)
    }

    pub(crate) async fn refund(&self, charge: &Value, body: Value) -> Answer {
        self.client.post(&format!("/v1/payments/{}/refund", raw_id(charge)), &body).await
    }

    pub(crate) async fn cancel(&self, charge: &Value) -> Answer {
        self.client.post(&format!("/v1/payments/{}/cancel", raw_id(charge)), &json!({})).await
    }

    /// Waits until a charge has a refund with this status.
    pub(crate) async fn wait_for_refund(&self, charge: &Value, status: &str) -> Value {
        eventually(status, async || {
            self.client.refunds(charge).await.into_iter().find(|refund| refund["status"] == status)
        })
        .await
    }

    pub(crate) async fn balance(&self) -> i64 {
        self.client.get("/v1/wallets/balance").await.expect(200)["available"].as_i64().unwrap()
    }

    pub(crate) fn cob(&self, charge: &Value) -> Value {
        let books = self.service.stack.bank.snapshot();
        let cobs = books["cobs"].as_array().unwrap();
        cobs.iter().find(|cob| cob["txid"] == charge["pix"]["txid"]).cloned().unwrap_or_default()
    }

    /// Returns the service that records Pix, whose requests pass the fault proxy, and the first account's bank.
    async fn recorder(&self) -> (BankPayments, PixBank) {
        let (acquirers, account) = (self.service.acquirers(), self.service.scope().account);
        let connections = Connections::new(acquirers.clone(), self.service.stack.clock.clone());
        let bank = connections.at(account, None).await.unwrap().pix().unwrap().clone();
        (BankPayments::new(self.service.store_behind_proxy(), acquirers), bank)
    }

    pub(crate) async fn incoming(&self, end_to_end_id: &str) -> Option<IncomingPayment> {
        let key = IncomingPayment::key_of(&self.scope(), &end_to_end_id.parse().unwrap());
        self.service.store().get(&key).await.unwrap()
    }

    pub(crate) fn pix(&self, end_to_end_id: &str) -> Value {
        let books = self.service.stack.bank.snapshot();
        let pix = books["pix"].as_array().unwrap();
        pix.iter().find(|pix| pix["endToEndId"] == end_to_end_id).cloned().unwrap_or_default()
    }
}

#[tokio::test]
async fn a_live_charge_is_created_at_the_bank_and_paid_there() {
    let live = Live::start().await;
    let listener = Listener::start().await;
    live.client.register_endpoint(&listener.url, &["charge.created", "charge.paid"]).await;
    let charge = live.create("order-00001", &json!({"amount": 1990, "description": "Pedido 1"})).await;
    assert_eq!(charge["status"], "pending");
    let cob = live.cob(&charge);
    assert_eq!((&cob["valor"]["original"], &cob["status"]), (&json!("19.90"), &json!("ATIVA")));
    assert_eq!(charge["pix"]["br_code"], cob["pixCopiaECola"]);
    listener.wait_for_event("charge.created").await;
    let end_to_end_id = live.pay(&charge, PayRequest::default());
    let paid = live.wait_for_status(&charge, "paid").await;
    assert_eq!(paid["settlement"]["end_to_end_id"], end_to_end_id);
    let event = listener.wait_for_event("charge.paid").await;
    assert_eq!(event.header("x-service-mode"), "live");
    assert_eq!(live.balance().await, 1990);
    // A repeated request returns the charge in its present state.
    let replay =
        live.client.post_charge("order-00001", &json!({"amount": 1990, "description": "Pedido 1"})).await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.expect(201)["status"], "paid");
}

#[tokio::test]
async fn a_charge_that_the_bank_could_not_create_fails_after_ten_minutes() {
    let live = Live::start().await;
    let body = json!({"amount": 1000});
    // The bank has no cob, and does not answer while the charge is given up.
    live.fault(FaultKind::Http500, 1_000);
    let answer = live.client.post_charge("order-00001", &body).await;
    assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
    live.service.advance_seconds(601).await;
    let failed = eventually("the charge fails", async || {
        let listed = live.client.get("/v1/charges").await.expect(200)["data"][0].clone();
        (listed["status"] == "failed").then_some(listed)
    })
    .await;
    assert_eq!(failed["metadata"]["failure"]["providerErrorCode"], "acquirer_unavailable");
    live.service.stack.bank.clear_faults();
    live.service.advance_seconds(3_600).await;
    let replayed = live.client.new_charge("order-00001", &body).await;
    assert_eq!((&replayed["id"], &replayed["status"]), (&failed["id"], &json!("failed")));
    assert_eq!(live.service.stack.bank.snapshot()["cobs"], json!([]));

    // The answer was lost, so the bank has the cob.
    live.fault(FaultKind::TimeoutAfterStore, 1);
    let answer = live.client.post_charge("order-00002", &body).await;
    assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
    live.service.advance_seconds(601).await;
    let replayed = live.client.new_charge("order-00002", &body).await;
    assert_eq!(replayed["status"], "failed", "{replayed}");
    assert_eq!(live.service.stack.bank.snapshot()["cobs"][0]["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");
}

/// Its bank has the cob, although it did not say so in time.
#[tokio::test]
async fn a_charge_that_was_given_up_or_cancelled_early_is_closed_when_its_bank_answers() {
    let live = Live::start().await;
    live.fault(FaultKind::TimeoutAfterStore, 1);
    live.client.post_charge("order-00001", &json!({"amount": 1000})).await.problem();
    live.fault(FaultKind::Http500, 1_000);
    live.service.advance_seconds(601).await;
    let failed = eventually("the charge fails", async || {
        let listed = live.client.get("/v1/charges").await.expect(200)["data"][0].clone();
        (listed["status"] == "failed").then_some(listed)
    })
    .await;
    assert_eq!(live.service.stack.bank.snapshot()["cobs"][0]["status"], "ATIVA");
    live.service.stack.bank.clear_faults();
    live.service.advance_seconds(3_600).await;
    eventually("the cob is removed", async || {
        let cob = live.service.stack.bank.snapshot()["cobs"][0].clone();
        (cob["status"] == "REMOVIDA_PELO_USUARIO_RECEBEDOR").then_some(())
    })
    .await;
    is_read(&live, &failed).await;

    // The bank does not know the next one, and its creation may still be on its way for an hour.
    live.fault(FaultKind::Timeout, 1);
    live.client.post_charge("order-00002", &json!({"amount": 1000})).await.problem();
    let pending = live.client.get("/v1/charges").await.expect(200)["data"][0].clone();
    live.cancel(&pending).await.expect(200);
    assert!(live.service.stored_charge(id(&pending).parse().unwrap()).await.unread_since.is_some());
    live.service.advance_seconds(4 * 3_600).await;
    is_read(&live, &pending).await;
}

async fn is_read(live: &Live, charge: &Value) {
    eventually("nothing more is asked of the bank", async || {
        let stored = live.service.stored_charge(id(charge).parse().unwrap()).await;
        stored.unread_since.is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_charge_whose_creation_the_bank_did_not_confirm_is_paid_without_a_retry() {
    let live = Live::start().await;
    live.fault(FaultKind::TimeoutAfterStore, 1);
    let first = live.client.post_charge("order-00001", &json!({"amount": 1000})).await;
    assert_eq!(first.problem(), (503, "api_error", "service_unavailable"));
    let txid = live.service.stack.bank.snapshot()["cobs"][0]["txid"].as_str().unwrap().to_owned();
    let charge = ChargeId::from_txid(&txid).unwrap();
    live.service.stack.bank.pay(&PayRequest { txid, ..PayRequest::default() }).unwrap();
    live.wait_for_status(&json!({ "id": charge }), "paid").await;
    assert_eq!(live.balance().await, 1000);
}

#[tokio::test]
async fn concurrent_duplicates_of_a_live_charge_make_one_cob() {
    let live = Arc::new(Live::start().await);
    let proxy = BankProxy::start(&live.service, |_settings| {}).await;
    proxy.delay_cobs(Duration::from_millis(500));
    let mut requests = JoinSet::new();
    for _ in 0..8 {
        let live = Arc::clone(&live);
        requests.spawn(async move { live.create("order-00001", &json!({"amount": 1000})).await });
    }
    let charges = requests.join_all().await;
    assert!(charges.iter().all(|charge| charge["id"] == charges[0]["id"]), "{charges:?}");
    assert_eq!(live.service.stack.bank.snapshot()["cobs"].as_array().unwrap().len(), 1);
    let creations = proxy.take_requests().iter().filter(|(method, _)| method == Method::PUT).count();
    assert_eq!(creations, 1, "only the request with the lease creates the cob");
}

#[tokio::test]
async fn a_devolucao_that_the_merchant_requested_at_the_bank_and_that_failed_is_no_refund() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    let end_to_end_id = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    let (payments, bank) = live.recorder().await;
    let mut pix = live.pix(end_to_end_id);
    pix["devolucoes"] = json!([{"id": "d1", "rtrId": "", "valor": "3.00", "status": "NAO_REALIZADO"}]);
    let pix = Pix::parse(&pix).unwrap();
    let now = live.service.stack.clock.now();
    let recorded = payments.record(&bank, &pix, PixHint::default(), now).await.unwrap().unwrap();
    assert_eq!(recorded.returns.len(), 1);
    assert!(live.client.refunds(&charge).await.is_empty());
    assert_eq!(live.balance().await, 1000);
}

/// No account has the key in the bank's list.
#[tokio::test]
async fn a_pix_to_another_key_of_the_merchant_is_not_recorded() {
    let (live, proxy) = BankProxy::start_with_service().await;
    proxy.edit_list(100, |_request, listed| {
        for pix in listed {
            pix["chave"] = json!("outra@loja.example");
        }
    });
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
    let pix = live.pay_unnoticed(&charge, request);
    live.sweep_after(4_000).await;
    assert!(live.incoming(&pix).await.is_none());
    let found = live.reconciled().await;
    let others: Vec<Option<&str>> =
        found.of_other_keys.iter().map(|other| other.end_to_end_id.as_deref()).collect();
    assert_eq!((found.differences, others), (vec![], vec![Some(&*pix)]));
    live.reconcile_by_schedule().await;
}

#[tokio::test]
async fn a_listed_pix_costs_one_read_once_it_is_recorded_and_is_tried_again_if_it_can_not_be() {
    let live = Live::of(Service::without_event_sources().await);
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let end_to_end_id = live.pay_unnoticed(&charge, PayRequest::default());
    let listed = [Pix::parse(&live.pix(&end_to_end_id)).unwrap()];
    let ((payments, bank), now) = (live.recorder().await, live.service.stack.clock.now());
    let proxy = live.service.proxy();
    proxy.inject_where(id(&charge), Fault::ServerError);
    payments.record_listed(&bank, &listed, now).await.unwrap();
    let remembered = live.service.reported_pix(&end_to_end_id).await.unwrap();
    assert_eq!((remembered.status, remembered.read_back_at.is_some()), (ReportedPixStatus::Reported, true));
    proxy.reset();
    payments.record_listed(&bank, &listed, now).await.unwrap();
    assert_eq!(live.service.reported_pix(&end_to_end_id).await.unwrap().status, ReportedPixStatus::Recorded);
    assert_eq!(live.client.get_charge(&charge).await["status"], "paid");
    proxy.reset();
    payments.record_listed(&bank, &listed, now).await.unwrap();
    assert_eq!(proxy.report().requests(), 1);

    // Nothing processes the notification, so the cancellation records the payment and the devolução.
    let charge = live.create("order-00002", &json!({"amount": 1000})).await;
    let pix = live.pay(&charge, PayRequest::default());
    live.return_at_bank(&pix, "4.00").await;
    wait_until("the bank has returned a part", async || {
        live.pix(&pix)["devolucoes"][0]["status"] == "DEVOLVIDO"
    })
    .await;
    assert_eq!(live.cancel(&charge).await.status, 422);
    assert_eq!(live.balance().await, 1_600);
}

#[tokio::test]
async fn a_wrong_amount_and_a_second_payment_go_back() {
    let live = Live::start().await;
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    // After the second one, it would be a second payment too.
    eventually("the wrong amount is recorded", async || live.incoming(&wrong).await).await;
    let second = live.pay(&charge, PayRequest { again: true, ..PayRequest::default() });
    live.wait_for_status(&charge, "paid").await;
    let third = live.pay(&charge, PayRequest { again: true, ..PayRequest::default() });
    for returned in [&wrong, &third] {
        wait_until("the Pix is returned", async || {
            live.pix(returned)["devolucoes"][0]["status"] == "DEVOLVIDO"
        })
        .await;
    }
    assert_eq!(live.pix(&second)["devolucoes"], json!([]));
    assert_eq!(live.balance().await, 1000);
    let path = format!("/v1/payments/{}", raw_id(&charge));
    wait_until("the payment shows both as returned", async || {
        let payment = live.client.get(&path).await.expect(200);
        let shown = |back: &Value| {
            assert_eq!(back["status"] == "returned", back["returnedAt"].is_string());
            (back["endToEndId"].clone(), back["reason"].clone(), back["status"].clone())
        };
        let back: Vec<_> = payment["returnedPayments"].as_array().unwrap().iter().map(shown).collect();
        let expected = [(&wrong, "wrong_amount"), (&third, "second_payment")]
            .map(|(id, reason)| (json!(id), json!(reason), json!("returned")));
        back == expected
    })
    .await;
}

#[tokio::test]
async fn a_refund_made_at_the_bank_debits_the_charges_own_held_money() {
    let live = Live::start().await;
    live.service.set_terms(MethodTerms { hold_days: 2, ..MethodTerms::default() }).await;
    let charge = live.paid("order-00001").await;
    let end_to_end_id = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    live.return_at_bank(end_to_end_id, "4.00").await;
    live.wait_for_refund(&charge, "REFUNDED").await;
    let balance = live.client.get("/v1/wallets/balance?currency=BRL").await.expect(200);
    assert_eq!((&balance["available"], &balance["pending"]), (&json!(0), &json!(600)));
}

impl Live {
    /// Requests a devolução at the bank, as the merchant does in the bank's own app.
    pub(crate) async fn return_at_bank(&self, end_to_end_id: &str, amount: &str) {
        self.return_at_bank_as("ownapp1", end_to_end_id, amount).await;
    }

    /// Like [`Self::return_at_bank`], with the id of the devolução.
    pub(crate) async fn return_at_bank_as(&self, devolucao: &str, end_to_end_id: &str, amount: &str) {
        let bank = BankApi::of(&self.service).await;
        let path = format!("/pix/{end_to_end_id}/devolucao/{devolucao}");
        bank.call(Method::PUT, &path, &json!({"valor": amount})).await.expect(201);
    }
}

#[tokio::test]
async fn a_paid_live_charge_shows_its_cob_is_not_cancelled_and_is_refunded_to_its_payer() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    let path = format!("/v1/payments/{}/provider-status", raw_id(&charge));
    let status = live.client.get(&path).await.expect(200);
    assert_eq!((&status["provider"], &status["providerStatus"]), (&json!("pix"), &json!("CONCLUIDA")));
    let text = status.to_string();
    assert!(!text.contains(MARIA) && !text.contains("Maria"), "{text}");
    assert_eq!(status["rawResponse"]["pix"][0]["valor"], "10.00");
    live.fault(FaultKind::Http500, 1);
    let refused = live.cancel(&charge).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    // The cancellation sent no request to the bank.
    assert_eq!(live.client.get(&path).await.problem(), (503, "api_error", "service_unavailable"));

    // A cash-out goes to the payer, and shows only a key that the request named.
    let to_payer =
        live.refund(&charge, json!({"amount": 250, "idempotencyKey": "refund-01"})).await.expect(201);
    assert_eq!(to_payer["destinationKey"], Value::Null);
    live.wait_for_refund(&charge, "REFUNDED").await;
    let sent = &live.service.stack.bank.snapshot()["pixOut"][0];
    assert_eq!((&sent["valor"], &sent["chave"]), (&json!("2.50"), &json!(MARIA)));
    let named = json!({"amount": 250, "idempotencyKey": "refund-02", "destinationKey": MARIA});
    assert_eq!(live.refund(&charge, named).await.expect(201)["destinationKey"], "*********93");

    // A cash-out without a known payer needs a destination.
    let charge = live.create("order-00002", &json!({"amount": 1000})).await;
    live.pay(&charge, PayRequest { payer: Payer::Unreported, ..PayRequest::default() });
    let charge = live.wait_for_status(&charge, "paid").await;
    let refused = live.refund(&charge, json!({"idempotencyKey": "refund-03"})).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
}

#[tokio::test]
async fn a_refund_fails_when_a_devolucao_by_med_has_used_up_the_payment() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    let end_to_end_id = charge["settlement"]["end_to_end_id"].as_str().unwrap();
    // The refund is accepted while the bank does not answer, and the bank returns the whole Pix by MED.
    live.fault(FaultKind::Http500, 1);
    let body = json!({"amount": 300, "idempotencyKey": "refund-01", "strategy": "devolution"});
    live.refund(&charge, body).await.expect(201);
    live.service.stack.bank.open_med_devolucao(end_to_end_id, None, MedNature::Fraud).unwrap();
    live.service.advance_seconds(130).await;
    live.wait_for_refund(&charge, "FAILED").await;
    wait_until("the whole amount is lost", async || live.balance().await == 0).await;
}

#[tokio::test]
async fn a_pix_that_was_not_credited_counts_as_returned_when_the_bank_returns_it_by_med() {
    let live = Live::start().await;
    let stack = &live.service.stack;
    // One Pix matches no charge, one is held for review, and one is the second payment of a charge.
    let unpaid = live.create("order-00001", &json!({"amount": 1000})).await;
    let unmatched =
        live.pay(&unpaid, PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() });
    let (in_review, held) = live.held("order-00002").await;
    let paid = live.paid("order-00003").await;
    live.service.advance_seconds(400).await;
    eventually("the Pix without a charge is recorded", async || live.incoming(&unmatched).await).await;
    let second = live.pay_unnoticed(&paid, PayRequest { again: true, ..PayRequest::default() });
    for pix in [&unmatched, &held, &second] {
        stack.bank.open_med_devolucao(pix, None, MedNature::Fraud).unwrap();
    }
    live.service.advance_seconds(400).await;
    for pix in [&unmatched, &held, &second] {
        eventually("the Pix counts as returned by the bank", async || {
            let returned = live.incoming(pix).await?.returned?;
            (returned.status == ReturnStatus::Returned && returned.by_bank).then_some(())
        })
        .await;
    }
    live.wait_for_status(&in_review, "refunded").await;
    assert_eq!(live.client.get_charge(&paid).await["status"], "paid");
    assert_eq!(live.balance().await, 1000);
    assert!(live.unapplied().await.is_empty());
    live.service.advance_seconds(3_700).await;
    live.check_books().await;

    // A review goes on when the bank returns another Pix of the charge by MED.
    let (in_review, held) = live.held("order-00004").await;
    let second = live.pay_unnoticed(&in_review, PayRequest { again: true, ..PayRequest::default() });
    live.service.stack.bank.open_med_devolucao(&second, None, MedNature::Fraud).unwrap();
    live.service.advance_seconds(400).await;
    eventually("the second Pix counts as returned by the bank", async || {
        live.incoming(&second).await?.returned.filter(|returned| returned.by_bank)
    })
    .await;
    live.wait_for_status(&in_review, "processing").await;
    assert_eq!(live.incoming(&held).await.unwrap().returned, None);
}

#[tokio::test]
async fn two_connections_of_an_account_to_one_bank_credit_each_payment_once() {
    let live = Live::start().await;
    let [notified, swept] = [
        live.create("order-00001", &json!({"amount": 1000})).await,
        live.create("order-00002", &json!({"amount": 2000})).await,
    ];
    let _proxy = BankProxy::start_beside_bank(&live.service, |_settings| {}).await;
    live.service.advance_seconds(61).await;
    // The bank notifies the new connection of a payment that belongs to the former one.
    live.pay(&notified, PayRequest::default());
    live.wait_for_status(&notified, "paid").await;
    let new = live.create("order-00003", &json!({"amount": 4000})).await;
    for charge in [&swept, &new] {
        live.pay_unnoticed(charge, PayRequest::default());
    }
    live.service.advance_seconds(400).await;
    for charge in [&swept, &new] {
        live.wait_for_status(charge, "paid").await;
    }
    assert_eq!(live.balance().await, 7_000);
    assert!(live.unapplied().await.is_empty());
}

#[tokio::test]
async fn a_pix_with_the_txid_of_another_accounts_charge_is_not_credited_to_it() {
    let live = Live::start().await;
    let created = live.create("order-00001", &json!({"amount": 1000})).await;
    let id = id(&created).parse().unwrap();
    let charge = live.service.stored_charge(id).await;
    // As if another account had created the charge at another bank.
    let other = Charge {
        scope: Scope { account: live.service.stack.seed.other.id, ..charge.scope },
        connection: Some(ConnectionId::derive("pix", "https://pix.example.com/v2", "other")),
        ..charge
    };
    let write = Write::replace(&other, other.version).unwrap();
    assert_eq!(live.service.store().commit(vec![write]).await.unwrap(), CommitOutcome::Done);
    let pix = live.pay(&created, PayRequest::default());
    eventually("the Pix waits for an operator", async || live.unapplied().await.pop_first()).await;
    assert_eq!(live.pix(&pix)["devolucoes"], json!([]));
    assert_eq!(live.service.stored_charge(id).await, other);
}

/// Options with a bank that does not report the keys of Pix.
fn without_key() -> Options {
    Options { bank_profile: Some(bank::Profile::Minimal), ..Options::in_memory() }
}

/// Pays a charge by a Pix without its txid, and waits until the Pix is listed for the connection. Returns both.
async fn pay_without_key_and_txid(live: &Live) -> (Value, ReportedPix) {
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
    let end_to_end_id = live.pay(&charge, request);
    live.sweep_after(400).await;
    let (receipts, (_, bank)) = (Receipts::new(live.service.store()), live.recorder().await);
    let unowned = eventually("the Pix is listed for the connection", async || {
        receipts.unowned(bank.connection()).await.unwrap().pop()
    })
    .await;
    assert_eq!(unowned.end_to_end_id.as_str(), end_to_end_id);
    (charge, unowned)
}

#[tokio::test]
async fn a_pix_without_key_and_txid_belongs_to_the_only_account_of_the_connection() {
    let live = Live::start_with(without_key()).await;
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let request = PayRequest { reported_txid: ReportedTxid::Missing, ..PayRequest::default() };
    let end_to_end_id = live.pay(&charge, request);
    live.sweep_after(400).await;
    eventually("the Pix waits for apply or return", async || live.incoming(&end_to_end_id).await).await;
    assert_eq!(live.check_books().await, Fates { unapplied: 1, ..Fates::default() });
}

#[tokio::test]
async fn a_pix_without_key_and_txid_belongs_to_neither_of_two_accounts_at_one_client() {
    let live = Live::start_with(without_key()).await;
    let (acquirers, account, other) =
        (live.service.acquirers(), live.scope().account, live.service.stack.seed.other.id);
    let first = live.service.bank().await;
    let mut choice = first.choice();
    choice.settings.pix_mut().unwrap().pix_key = "0d2b4ac4-3a5b-4f0c-9d3e-5a1f6c7b8e9f".parse().unwrap();
    let now = live.service.stack.clock.now();
    acquirers.set(other, &choice, Some(&operator()), now).await.unwrap();
    let second = acquirers.current(&other, PaymentMethod::Pix).await.unwrap().unwrap();
    assert_eq!(second.acquirer.connection, first.acquirer.connection);

    let (charge, unowned) = pay_without_key_and_txid(&live).await;
    let end_to_end_id = unowned.end_to_end_id.to_string();
    let receipts = Receipts::new(live.service.store());
    let (payments, bank) = live.recorder().await;
    let waiting = async |account| {
        let scope = Scope { account, mode: Mode::Live };
        let (waiting, _) = receipts.waiting(&scope, None).await.unwrap();
        waiting.iter().map(|payment| payment.payment_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((waiting(account).await.len(), waiting(other).await.len()), (0, 0));
    // A further sweep changes nothing.
    live.sweep_after(4_000).await;
    assert_eq!(live.service.reported_pix(&end_to_end_id).await.unwrap().version, 1);
    let kinds: Vec<DifferenceKind> =
        live.reconciled().await.differences.iter().map(|difference| difference.kind).collect();
    assert_eq!(kinds, [DifferenceKind::Unowned]);
    live.reconcile_by_schedule().await;

    let now = live.service.stack.clock.now();
    let pix = bank.read_back(&end_to_end_id.parse().unwrap(), None, (now, now)).await.unwrap().unwrap();
    for _time in 0..2 {
        let by = operator();
        let hint = PixHint { owner: Some((other, &by)), ..PixHint::default() };
        let recorded = payments.record(&bank, &pix, hint, now).await.unwrap().unwrap();
        assert_eq!((recorded.status, recorded.account), (ReportedPixStatus::Recorded, other));
    }
    assert!(receipts.unowned(bank.connection()).await.unwrap().is_empty());
    assert_eq!((waiting(account).await, waiting(other).await), (vec![], vec![end_to_end_id]));
    assert_eq!(live.client.get_charge(&charge).await["status"], "expired");
}

#[tokio::test]
async fn an_own_payment_does_not_wait_behind_a_thousand_unknown_items_of_its_notification() {
    let live = Live::start().await;
    let proxy = BankProxy::start(&live.service, |_settings| {}).await;
    let path = live.service.new_callback_path().await;
    live.service.advance_seconds(61).await;
    let charge = live.create("order-00001", &json!({"amount": 1000})).await;
    let own = live.pay_unnoticed(&charge, PayRequest::default());
    let txid = charge["pix"]["txid"].clone();
    let mut items: Vec<Value> =
        (0..999).map(|number| json!({"endToEndId": format!("E00000000202611211500{number:012}")})).collect();
    items.push(json!({"endToEndId": own, "txid": txid}));
    let body = json!({ "pix": items }).to_string();
    proxy.take_requests();
    let headers = [("content-type", "application/json")];
    live.client.raw(Method::POST, &path, &headers, body).await.expect(200);
    live.wait_for_status(&charge, "paid").await;
    let reads = proxy.take_requests().iter().filter(|(_, uri)| uri.path().contains("/pix/E00000000")).count();
    assert!(reads <= 50, "{reads} unknown Pix were read before");
}
