//! A live charge at a bank of each profile: created, paid and refunded, with all the differences between
//! banks.

use bank::{FaultKind, PayRequest, Payer, Profile};
use local::stack::Options;
use serde_json::json;

use crate::bank_books::Fates;
use crate::live_charges::{JOAO, Live, MARIA};

/// Runs charges through their lives at a bank. `reports_payers`: the bank names the payer of a Pix.
async fn check_profile(profile: Profile, reports_payers: bool) {
    let live = Live::start_with(Options { bank_profile: Some(profile), ..Options::in_memory() }).await;
    let created = live.create("order-00001", &json!({"amount": 1990})).await;
    let code = artefacts::brcode::BrCode::parse(created["pix"]["br_code"].as_str().unwrap()).unwrap();
    assert_eq!(code.location().unwrap(), live.cob(&created)["location"]);
    let end_to_end_id = live.pay(&created, PayRequest::default());
    let charge = live.wait_for_status(&created, "paid").await;
    assert_eq!(charge["settlement"]["end_to_end_id"], end_to_end_id);
    assert_eq!(live.balance().await, 1990);

    for (key, amount, status) in [("refund-01", 990, "paid"), ("refund-02", 1000, "refunded")] {
        let body = json!({"amount": amount, "idempotencyKey": key, "strategy": "devolution"});
        live.refund(&charge, body).await.expect(201);
        live.wait_for_refund(&charge, "REFUNDED").await;
        live.wait_for_status(&charge, status).await;
    }
    assert_eq!(live.balance().await, 0);

    let lost = live.create("order-00002", &json!({"amount": 500})).await;
    live.fault(FaultKind::LostNotification, 1);
    live.pay(&lost, PayRequest::default());
    live.sweep_after(301).await;
    live.wait_for_status(&lost, "paid").await;

    let cancelled = live.create("order-00003", &json!({"amount": 500})).await;
    live.cancel(&cancelled).await.expect(200);
    assert_eq!(live.cob(&cancelled)["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");

    // A bank that reports no payer can't prove that another one paid.
    let body = json!({"amount": 500, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA});
    let locked = live.create("order-00004", &body).await;
    let payer = Payer::Person { tax_id: JOAO.to_owned(), name: "Joao".to_owned() };
    live.pay(&locked, PayRequest { payer, ..PayRequest::default() });
    live.wait_for_status(&locked, if reports_payers { "refunded" } else { "processing" }).await;
    live.service.advance_seconds(5).await;
    let (returned, held) = if reports_payers { (1, 0) } else { (0, 1) };
    assert_eq!(live.check_books().await, Fates { credited: 2, returned, held, unapplied: 0 });
}

#[tokio::test]
async fn a_bank_that_reports_everything() {
    check_profile(Profile::Complete, true).await;
}

#[tokio::test]
async fn a_bank_that_requires_a_parameter_and_short_periods() {
    check_profile(Profile::AppKey, false).await;
}

#[tokio::test]
async fn a_bank_that_requires_a_header_and_credentials_in_the_form() {
    check_profile(Profile::AccountHeader, true).await;
}

#[tokio::test]
async fn a_bank_that_reports_only_what_is_required() {
    check_profile(Profile::Minimal, false).await;
}

#[tokio::test]
async fn a_bank_that_writes_local_time_as_utc() {
    check_profile(Profile::LocalTime, true).await;
}
