//! Tests of devoluções that the service did not request, and of refunds that a bank refuses: the wallet follows
//! the bank in any order.

use bank::{Cents, FaultKind, MedNature, PayRequest};
use domain::charge::Decision;
use domain::ids::AcquirerPaymentId;
use domain::refund::{Refund, RefundFailure, RefundOutcome, RefundStatus};
use domain::wallet::ReturnStatus;
use money::charge::Charges;
use money::refund::Refunds;
use serde_json::{Value, json};
use services::Receipts;

use crate::bank_books::Fates;
use crate::bank_proxy::BankProxy;
use crate::live_charges::Live;
use crate::support::{CapturedLog, eventually, id, operator, wait_until};

/// What the bank says in the fault `devolucao_refused`, without the document in it.
const REFUSAL: &str = "A conta do CPF ***.379.955-** não permite esta operação.";

impl Live {
    fn end_to_end_id(charge: &Value) -> String {
        charge["settlement"]["end_to_end_id"].as_str().unwrap().to_owned()
    }

    async fn refunds_of(&self, charge: &Value) -> Vec<Refund> {
        let charge = id(charge).parse().unwrap();
        Refunds::new(self.service.store()).for_charge(Some(charge)).await.unwrap()
    }

    /// Waits until a charge has exactly these ended refunds, in any order. Meanwhile, the clock moves.
    async fn wait_for_refunds(&self, charge: &Value, expected: &[(i64, RefundStatus)]) {
        let mut expected: Vec<String> = expected.iter().map(|refund| format!("{refund:?}")).collect();
        expected.sort();
        wait_until("the refunds have ended", async || {
            self.service.advance_seconds(30).await;
            let refunds = self.refunds_of(charge).await;
            let mut found: Vec<String> = refunds
                .iter()
                .map(|refund| format!("{:?}", (refund.share.gross.minor(), refund.status)))
                .collect();
            found.sort();
            found == expected
        })
        .await;
    }

    async fn request_refund(&self, charge: &Value, amount: i64, strategy: &str) {
        let key = format!("refund-{amount}-{strategy}");
        let body = json!({"amount": amount, "idempotencyKey": key, "strategy": strategy});
        self.refund(charge, body).await.expect(201);
    }

    /// Checks the books an hour later, when no difference is pending.
    async fn check_books_later(&self, expected: Fates) {
        self.service.advance_seconds(3_700).await;
        assert_eq!(self.check_books().await, expected);
    }
}

#[tokio::test]
async fn devolucoes_of_the_merchant_debit_the_wallet_while_a_refund_is_open() {
    let (live, proxy) = BankProxy::start_with_service().await;
    let (whole, part) = (live.paid("order-00001").await, live.paid("order-00002").await);
    // The bank does not answer the service, so both refunds are open.
    proxy.set_away(true);
    live.request_refund(&whole, 1_000, "devolution").await;
    live.request_refund(&part, 500, "devolution").await;
    live.return_at_bank_as("ownapp1", &Live::end_to_end_id(&whole), "7.00").await;
    live.return_at_bank_as("ownapp1", &Live::end_to_end_id(&part), "3.00").await;
    live.return_at_bank_as("ownapp2", &Live::end_to_end_id(&part), "4.00").await;
    live.service.advance_seconds(5).await;
    proxy.set_away(false);
    let (failed, refunded) = (RefundStatus::Failed, RefundStatus::Refunded);
    live.wait_for_refunds(&whole, &[(1_000, failed), (700, refunded)]).await;
    live.wait_for_refunds(&part, &[(500, failed), (300, refunded), (400, refunded)]).await;
    assert_eq!(live.balance().await, 600);
    let refunds = live.refunds_of(&whole).await;
    let reasons: Vec<Option<RefundFailure>> =
        refunds.into_iter().map(|refund| refund.failure_reason).collect();
    assert_eq!(reasons, [None, Some(RefundFailure::UsedUp)]);
    live.check_books_later(Fates::credited(2)).await;
    assert_eq!(live.balance().await, 600, "nothing is debited twice");
}

#[tokio::test]
async fn many_devolucoes_at_once_are_no_errors() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    let pix = Live::end_to_end_id(&charge);
    let log = CapturedLog::start();
    for number in 0..20 {
        live.return_at_bank_as(&format!("own{number:02}"), &pix, "0.10").await;
    }
    wait_until("all debits", async || {
        let refunds = live.client.refunds(&charge).await;
        refunds.iter().filter(|refund| refund["status"] == "REFUNDED").count() == 20
    })
    .await;
    assert!(!log.text().contains("counts as failed"), "{}", log.text());
}

#[tokio::test]
async fn a_devolucao_of_the_merchant_debits_the_wallet_beside_an_open_cash_out_of_the_whole_payment() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    live.fault(FaultKind::DevolucaoStuck, 1);
    live.request_refund(&charge, 1_000, "cashout").await;
    wait_until("the cash-out is at the bank", async || {
        !live.service.stack.bank.snapshot()["pixOut"].as_array().unwrap().is_empty()
    })
    .await;
    live.return_at_bank_as("ownapp1", &Live::end_to_end_id(&charge), "7.00").await;
    wait_until("the wallet is debited", async || live.balance().await == -700).await;
    live.service.advance_seconds(6 * 3_600).await;
    live.wait_for_refunds(&charge, &[(1_000, RefundStatus::Refunded), (700, RefundStatus::Refunded)]).await;
    assert_eq!(live.balance().await, -700);
    live.check_books_later(Fates::credited(1)).await;
}

#[tokio::test]
async fn a_part_that_the_merchant_returned_of_a_held_payment_is_debited_when_it_is_credited() {
    let live = Live::start().await;
    let held = [live.held("order-00001").await, live.held("order-00002").await];
    for (_, pix) in &held {
        live.return_at_bank_as("ownapp1", pix, "4.00").await;
    }
    live.service.advance_seconds(400).await;
    assert_eq!(live.balance().await, 0);
    let charges = Charges::new(live.service.store());
    for ((charge, pix), decision) in held.iter().zip([Decision::Approve, Decision::Return]) {
        let stored = charges.find(Some(id(charge).parse().unwrap())).await.unwrap().unwrap();
        let (terms, now) = (domain::account::terms::MethodTerms::default(), live.service.stack.clock.now());
        charges.review(stored, (decision, terms), &operator(), now).await.unwrap();
        let payment: AcquirerPaymentId = pix.parse().unwrap();
        Receipts::new(live.service.store()).read_back(&payment, now).await.unwrap();
    }
    live.wait_for_refunds(&held[0].0, &[(400, RefundStatus::Refunded)]).await;
    assert_eq!(live.balance().await, 600);
    // Of the other payment, the rest goes back to the payer.
    eventually("the rest is returned", async || {
        live.service.advance_seconds(5).await;
        let returned = live.incoming(&held[1].1).await?.returned?;
        (returned.status == ReturnStatus::Returned).then_some(())
    })
    .await;
    let devolucoes = live.pix(&held[1].1)["devolucoes"].clone();
    let amounts: Vec<&Value> = devolucoes.as_array().unwrap().iter().map(|item| &item["valor"]).collect();
    assert_eq!(amounts, ["4.00", "6.00"]);
    live.check_books_later(Fates { credited: 1, returned: 1, ..Fates::default() }).await;
}

/// Also tests the fault of the bank.
pub(crate) async fn refused_for_good(kind: FaultKind) {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    let wrong = live.create("order-00002", &json!({"amount": 1000})).await;
    live.fault(kind, 1_000_000);
    let wrong = live.pay(&wrong, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    live.request_refund(&charge, 400, "devolution").await;
    live.request_refund(&charge, 300, "cashout").await;
    let is_refused = async || {
        let refunds = live.refunds_of(&charge).await;
        (refunds.iter().all(|refund| refund.status == RefundStatus::InProgress)).then_some(())
    };
    eventually("the refunds are in progress", is_refused).await;
    live.service.advance_seconds(240).await;
    assert_eq!(live.balance().await, 300, "a refusal is not final for some minutes");
    live.wait_for_refunds(&charge, &[(400, RefundStatus::Failed), (300, RefundStatus::Failed)]).await;
    assert_eq!(live.balance().await, 1_000);
    for refund in live.refunds_of(&charge).await {
        assert_eq!(refund.failure_reason, Some(RefundFailure::InWords(REFUSAL.to_owned())));
    }
    eventually("the return is stopped", async || {
        live.service.advance_seconds(30).await;
        let returned = live.incoming(&wrong).await?.returned?;
        (returned.status == ReturnStatus::Stopped).then_some(())
    })
    .await;
    let attempts = 1_000_000 - live.service.stack.bank.pending_faults(kind);
    assert!(attempts >= 12, "{attempts} requests of two refunds and a return");
    assert_eq!(live.pix(&wrong)["devolucoes"], json!([]));
    live.service.check_ledger_of(&live.scope()).await;
}

#[tokio::test]
async fn a_refund_that_the_bank_refuses_at_first_and_a_devolucao_of_an_unusual_nature_debit_the_wallet() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    live.fault(FaultKind::DevolucaoRefused, 3);
    live.request_refund(&charge, 400, "devolution").await;
    live.wait_for_refunds(&charge, &[(400, RefundStatus::Refunded)]).await;
    assert_eq!(live.refunds_of(&charge).await[0].failure_reason, None);

    let charge = live.paid("order-00002").await;
    let pix = Live::end_to_end_id(&charge);
    let amount = Some(Cents::new(400).unwrap());
    live.service.stack.bank.open_med_devolucao(&pix, amount, MedNature::AutomaticPix).unwrap();
    live.wait_for_refunds(&charge, &[(400, RefundStatus::Refunded)]).await;
    assert_eq!(live.balance().await, 1_200);
    let refund = live.refunds_of(&charge).await.remove(0);
    assert_eq!(refund.reason.unwrap().to_string(), "Returned by the bank: MED_PIX_AUTOMATICO.");
    live.check_books_later(Fates::credited(2)).await;
}

#[tokio::test]
async fn a_refund_that_the_bank_executes_after_it_failed_here_debits_the_wallet_again() {
    let live = Live::start().await;
    let charge = live.paid("order-00001").await;
    live.fault(FaultKind::DevolucaoStuck, 1);
    live.request_refund(&charge, 400, "devolution").await;
    let pix = Live::end_to_end_id(&charge);
    eventually("the bank knows the refund", async || live.pix(&pix)["devolucoes"][0].as_object().map(drop))
        .await;
    let refund = live.refunds_of(&charge).await.remove(0);
    let (refunds, now) = (Refunds::new(live.service.store()), live.service.stack.clock.now());
    Box::pin(refunds.end(refund, RefundOutcome::Failed, now)).await.unwrap();
    assert_eq!(live.balance().await, 1_000);
    live.service.advance_seconds(6 * 3_600).await;
    live.wait_for_refunds(&charge, &[(400, RefundStatus::Failed), (400, RefundStatus::Refunded)]).await;
    assert_eq!(live.balance().await, 600);
    live.check_books_later(Fates::credited(1)).await;
    assert_eq!(live.balance().await, 600);
}
