//! Each fault of the bank, through the whole service. Each test injects its fault where it matters, and
//! checks what the merchant sees. In the end each Pix of the bank is exactly once credited, returned, held
//! for review or listed as unapplied ([`Live::check_books`]).

use axum::http::StatusCode;
use bank::{Cents, FaultKind, PayError, PayRequest};
use domain::charge::IncomingPayment;
use domain::wallet::ReturnStatus;
use serde_json::{Value, json};
use shared::store::from_item;

use crate::bank_books::Fates;
use crate::bank_returns::refused_for_good;
use crate::live_charges::{JOAO, Live, for_maria, locked};
use crate::support::{Answer, CapturedLog, eventually, wait_until};

/// Declares a test for each kind of fault.
macro_rules! fault_tests {
    ($($test:ident: $kind:ident => $case:expr,)*) => {
        /// The kinds with a test.
        const TESTED: &[FaultKind] = &[$(FaultKind::$kind),*];

        $(
            #[tokio::test]
            async fn $test() {
                $case(FaultKind::$kind).await;
            }
        )*
    };
}

fault_tests! {
    timeout: Timeout => unanswered_requests,
    timeout_after_store: TimeoutAfterStore => unanswered_writes,
    slow: Slow => late_answers,
    http_500: Http500 => failed_requests,
    http_429: Http429 => failed_requests,
    http_401: Http401 => failed_requests,
    http_400_after_store: Http400AfterStore => refused_writes,
    token_expired: TokenExpired => failed_requests,
    read_back_404: ReadBack404 => read_back_404_case,
    malformed_pix: MalformedPix => malformed_pix_case,
    lost_notification: LostNotification => notifications,
    duplicate_notification: DuplicateNotification => notifications,
    late_notification: LateNotification => notifications,
    masked_payer: MaskedPayer => masked_payer_case,
    filter_ignored: FilterIgnored => filter_ignored_case,
    filter_lags: FilterLags => filter_lags_case,
    removed_by_psp: RemovedByPsp => removed_by_psp_case,
    no_copia_e_cola: NoCopiaECola => no_copia_e_cola_case,
    missing_txid: MissingTxid => missing_txid_case,
    devolucao_unrealized: DevolucaoUnrealized => devolucao_unrealized_case,
    devolucao_stuck: DevolucaoStuck => devolucao_stuck_case,
    devolucao_refused: DevolucaoRefused => refused_for_good,
    med_devolucao: MedDevolucao => med_devolucao_case,
}

#[test]
fn each_kind_of_fault_has_a_test() {
    assert_eq!(TESTED, FaultKind::ALL);
}

impl Live {
    /// Injects a fault once.
    fn next_fails(&self, kind: FaultKind) {
        assert_eq!(self.service.stack.bank.pending_faults(kind), 0);
        self.fault(kind, 1);
    }

    /// After a 429, nothing is requested for a merchant until the bank allows it.
    async fn after_pause(&self, kind: FaultKind) {
        if kind == FaultKind::Http429 {
            self.service.advance_seconds(3).await;
        }
    }

    async fn wait_for_fault(&self, kind: FaultKind) {
        wait_until(kind.name(), async || self.service.stack.bank.pending_faults(kind) == 0).await;
    }

    /// Runs a request of a merchant during a fault. A slow answer comes after one second of real time, not
    /// after nine, because the clock moves meanwhile.
    async fn during(&self, kind: FaultKind, request: impl Future<Output = Answer>) -> Answer {
        self.next_fails(kind);
        let hurry = async {
            self.wait_for_fault(kind).await;
            if kind == FaultKind::Slow {
                self.service.advance_seconds(8).await;
            }
        };
        tokio::join!(request, hurry).0
    }
}

fn assert_unavailable(answer: &Answer) {
    assert_eq!(answer.problem(), (503, "api_error", "service_unavailable"));
}

/// Whether a merchant's request fails if the next request to the bank has the fault.
fn is_outage(kind: FaultKind) -> bool {
    match kind {
        FaultKind::Timeout | FaultKind::TimeoutAfterStore | FaultKind::Http500 | FaultKind::Http429 => true,
        FaultKind::Slow | FaultKind::Http401 | FaultKind::Http400AfterStore | FaultKind::TokenExpired => {
            false
        }
        other => unreachable!("{other:?} does not concern every request"),
    }
}

/// A charge is created once, also if the first request fails.
async fn create(live: &Live, kind: FaultKind) -> Value {
    let (key, body) = (format!("order-{}", kind.name()), for_maria());
    let first = live.during(kind, live.client.post_charge(&key, &body)).await;
    if is_outage(kind) {
        assert_unavailable(&first);
    } else {
        assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    }
    live.after_pause(kind).await;
    let charge = live.client.new_charge(&key, &body).await;
    assert_eq!(charge["status"], "pending");
    assert_eq!(charge["pix"]["br_code"], live.cob(&charge)["pixCopiaECola"]);
    let cobs = live.service.stack.bank.snapshot()["cobs"].as_array().unwrap().len();
    assert_eq!(cobs, 1, "{kind:?}");
    charge
}

/// A payment is credited, also if its read-back fails first.
async fn read_back(live: &Live, kind: FaultKind) -> Value {
    let charge = live.create("order-read-back", &for_maria()).await;
    live.next_fails(kind);
    live.pay(&charge, PayRequest::default());
    live.wait_for_fault(kind).await;
    if kind == FaultKind::Slow {
        live.service.advance_seconds(8).await;
    }
    live.wait_for_status(&charge, "paid").await
}

/// A charge is cancelled only if its cob is removed.
async fn cancel(live: &Live, kind: FaultKind) {
    let charge = live.create("order-cancel", &for_maria()).await;
    let first = live.during(kind, live.cancel(&charge)).await;
    if is_outage(kind) {
        assert_unavailable(&first);
        assert_eq!(live.client.get_charge(&charge).await["status"], "pending");
        live.after_pause(kind).await;
        live.cancel(&charge).await.expect(200);
    } else {
        first.expect(200);
    }
    assert_eq!(live.client.get_charge(&charge).await["status"], "cancelled");
    assert_eq!(live.cob(&charge)["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");
}

/// A refund is executed once.
async fn refund(live: &Live, kind: FaultKind, strategy: &str) {
    let key = format!("order-refund-{strategy}");
    let charge = live.create(&key, &for_maria()).await;
    let end_to_end_id = live.pay(&charge, PayRequest::default());
    live.wait_for_status(&charge, "paid").await;
    live.next_fails(kind);
    let body = json!({"amount": 400, "idempotencyKey": key, "strategy": strategy});
    live.refund(&charge, body).await.expect(201);
    live.wait_for_fault(kind).await;
    if kind == FaultKind::Slow {
        live.service.advance_seconds(8).await;
    }
    live.wait_for_refund(&charge, "REFUNDED").await;
    let sent = match strategy {
        "devolution" => live.pix(&end_to_end_id)["devolucoes"].clone(),
        _ => live.service.stack.bank.snapshot()["pixOut"].clone(),
    };
    let sent: Vec<&Value> = sent.as_array().unwrap().iter().map(|item| &item["valor"]).collect();
    assert_eq!(sent, ["4.00"], "{kind:?}");
}

/// An overdue charge expires only if its cob is removed.
async fn expire(live: &Live, kind: FaultKind) {
    let mut body = for_maria();
    body["expires_in"] = 60.into();
    let charge = live.create("order-expire", &body).await;
    live.next_fails(kind);
    live.service.advance_seconds(125).await;
    live.wait_for_fault(kind).await;
    if is_outage(kind) {
        assert_eq!(live.client.get_charge(&charge).await["status"], "pending");
    }
    live.service.advance_seconds(300).await;
    live.wait_for_status(&charge, "expired").await;
    assert_eq!(live.cob(&charge)["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");
}

/// The parts wait for retries, so two services run them at once.
async fn failed_requests(kind: FaultKind) {
    let (first, second) = (Live::start().await, Live::start().await);
    let first_parts = async {
        create(&first, kind).await;
        read_back(&first, kind).await;
        cancel(&first, kind).await;
    };
    tokio::join!(first_parts, refund_and_expire(&second, kind));
    assert_eq!(first.check_books().await, Fates::credited(1));
    assert_eq!(second.check_books().await, Fates::credited(2));
}

/// Ends with the part that moves the clock, because a sweep could use up a fault.
async fn refund_and_expire(live: &Live, kind: FaultKind) {
    refund(live, kind, "devolution").await;
    refund(live, kind, "cashout").await;
    expire(live, kind).await;
    assert_eq!(live.balance().await, 1_200);
}

/// Each part waits for the client's limit of 10 s, so all run at once.
async fn unanswered_requests(kind: FaultKind) {
    let [created, reading, cancelled, refunded] = Box::pin(start_four()).await;
    tokio::join!(
        create(&created, kind),
        read_back(&reading, kind),
        cancel(&cancelled, kind),
        refund(&refunded, kind, "devolution"),
    );
    for (live, expected) in [(&created, 0), (&reading, 1), (&cancelled, 0), (&refunded, 1)] {
        assert_eq!(live.check_books().await, Fates::credited(expected));
    }
}

/// As [`unanswered_requests`].
async fn unanswered_writes(kind: FaultKind) {
    let [created, cancelled, refunded, sent] = Box::pin(start_four()).await;
    tokio::join!(
        create(&created, kind),
        cancel(&cancelled, kind),
        refund(&refunded, kind, "devolution"),
        refund(&sent, kind, "cashout"),
    );
    for (live, expected) in [(&created, 0), (&cancelled, 0), (&refunded, 1), (&sent, 1)] {
        assert_eq!(live.check_books().await, Fates::credited(expected));
    }
}

async fn start_four() -> [Live; 4] {
    tokio::join!(Live::start(), Live::start(), Live::start(), Live::start()).into()
}

async fn late_answers(kind: FaultKind) {
    let (first, second) = (Live::start().await, Live::start().await);
    let first_parts = async {
        create(&first, kind).await;
        read_back(&first, kind).await;
    };
    let second_parts = async {
        cancel(&second, kind).await;
        refund(&second, kind, "devolution").await;
    };
    tokio::join!(first_parts, second_parts);
    assert_eq!(first.check_books().await, Fates::credited(1));
    assert_eq!(second.check_books().await, Fates::credited(1));
}

/// Only writes are refused, so no payment is read back.
async fn refused_writes(kind: FaultKind) {
    let (first, second) = (Live::start().await, Live::start().await);
    let first_parts = async {
        create(&first, kind).await;
        cancel(&first, kind).await;
    };
    tokio::join!(first_parts, refund_and_expire(&second, kind));
    assert_eq!(first.check_books().await, Fates::default());
    assert_eq!(second.check_books().await, Fates::credited(2));
}

async fn read_back_404_case(kind: FaultKind) {
    let live = Live::start().await;
    // The Pix is found by its txid.
    read_back(&live, kind).await;
    // Without a txid, it is read back again two minutes later.
    let charge = live.create("order-00002", &for_maria()).await;
    live.next_fails(kind);
    live.next_fails(FaultKind::MissingTxid);
    let end_to_end_id = live.pay(&charge, PayRequest::default());
    live.wait_for_fault(kind).await;
    assert!(live.unapplied().await.is_empty());
    live.service.advance_seconds(125).await;
    wait_for_unapplied(&live, &end_to_end_id).await;
    assert_eq!(live.check_books().await, Fates { credited: 1, unapplied: 1, ..Fates::default() });
}

/// A Pix that can't be read is set aside and read back again.
async fn malformed_pix_case(kind: FaultKind) {
    let live = Live::start().await;
    let log = CapturedLog::start();
    let charge = live.create("order-00001", &for_maria()).await;
    live.next_fails(kind);
    live.pay(&charge, PayRequest::default());
    live.wait_for_fault(kind).await;
    // A further read that fails is no further error.
    live.next_fails(kind);
    live.service.advance_seconds(125).await;
    live.wait_for_fault(kind).await;
    live.service.advance_seconds(600).await;
    live.wait_for_status(&charge, "paid").await;
    let errors: Vec<String> =
        log.text().lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect();
    assert!(errors.len() == 1 && errors[0].contains("was set aside"), "{errors:?}");
    assert_eq!(live.check_books().await, Fates::credited(1));
}

async fn wait_for_unapplied(live: &Live, end_to_end_id: &str) {
    wait_until("the Pix is listed for operators", async || {
        live.unapplied().await.iter().any(|payment| payment.as_str() == end_to_end_id)
    })
    .await;
}

/// A payment is credited once, whatever happens to its notification.
async fn notifications(kind: FaultKind) {
    let live = Live::start().await;
    let charge = live.create("order-00001", &for_maria()).await;
    live.next_fails(kind);
    live.pay(&charge, PayRequest::default());
    if kind != FaultKind::DuplicateNotification {
        live.sweep_after(301).await;
    }
    live.wait_for_status(&charge, "paid").await;
    // The notification of another Pix is sent after the late one.
    live.service.advance_seconds(31 * 60).await;
    live.paid("order-00002").await;
    assert_eq!(live.balance().await, 2_000);
    assert_eq!(live.check_books().await, Fates::credited(2));
}

/// Records that `admin accounts check-acquirer` saw that the bank's filter by payer works.
async fn verify_filter(live: &Live) {
    let bank = live.service.bank().await.acquirer;
    let (acquirers, now) = (live.service.acquirers(), live.service.stack.clock.now());
    let operator = crate::support::operator();
    acquirers.set_filter_verified(bank.account, &bank.settings.name, true, &operator, now).await.unwrap();
    // The functions cache the former settings for a minute.
    live.service.advance_seconds(61).await;
}

/// A payment by another person than the expected one.
fn by_joao() -> PayRequest {
    let payer = bank::Payer::Person { tax_id: JOAO.to_owned(), name: "Joao".to_owned() };
    PayRequest { payer, ..PayRequest::default() }
}

async fn masked_payer_case(kind: FaultKind) {
    let live = Live::start().await;
    // Without an expected payer, the document is not needed.
    let free = live.create("order-00001", &for_maria()).await;
    live.next_fails(kind);
    live.pay(&free, PayRequest::default());
    live.wait_for_status(&free, "paid").await;
    // The bank's filter was not verified, so the payer is not known.
    live.held("order-00002").await;
    assert_eq!(live.balance().await, 1_000);

    verify_filter(&live).await;
    let confirmed = live.create("order-00003", &locked()).await;
    live.next_fails(kind);
    live.pay(&confirmed, PayRequest::default());
    live.wait_for_status(&confirmed, "paid").await;
    // The list without this Pix does not prove that another payer paid.
    let other = live.create("order-00004", &locked()).await;
    live.next_fails(kind);
    live.pay(&other, by_joao());
    live.wait_for_status(&other, "processing").await;
    assert_eq!(live.balance().await, 2_000);
    assert_eq!(live.check_books().await, Fates { credited: 2, held: 2, ..Fates::default() });
}

/// `admin accounts check-acquirer` notices that the bank ignores the filter; its tests inject this fault. The
/// filter is not used then.
async fn filter_ignored_case(kind: FaultKind) {
    let live = Live::start().await;
    live.next_fails(kind);
    let charge = live.create("order-00001", &locked()).await;
    live.next_fails(FaultKind::MaskedPayer);
    live.pay(&charge, by_joao());
    live.wait_for_status(&charge, "processing").await;
    live.sweep_after(301).await;
    assert_eq!(live.service.stack.bank.pending_faults(kind), 1, "the bank is not asked for the payer");
    live.service.stack.bank.clear_faults();
    // The bank now ignores the filter and does not repeat it, so its answer confirms no payer.
    verify_filter(&live).await;
    live.fault(kind, 1_000);
    let stranger = live.create("order-00002", &locked()).await;
    live.next_fails(FaultKind::MaskedPayer);
    live.pay(&stranger, by_joao());
    live.wait_for_status(&stranger, "processing").await;
    live.sweep_after(301).await;
    assert_eq!(live.client.get_charge(&stranger).await["status"], "processing");
    assert_eq!(live.balance().await, 0);
    live.service.stack.bank.clear_faults();
    assert_eq!(live.check_books().await, Fates { held: 2, ..Fates::default() });
}

/// A list that confirms the payer later than the Pix is asked again, for some hours.
async fn filter_lags_case(kind: FaultKind) {
    let live = Live::start().await;
    verify_filter(&live).await;
    let charge = live.create("order-00001", &locked()).await;
    live.next_fails(FaultKind::MaskedPayer);
    live.next_fails(kind);
    live.pay(&charge, PayRequest::default());
    live.wait_for_fault(kind).await;
    live.service.advance_seconds(125).await;
    live.wait_for_status(&charge, "paid").await;
    assert_eq!(live.balance().await, 1_000);
    // The list never confirms another payer.
    let stranger = live.create("order-00002", &locked()).await;
    live.next_fails(FaultKind::MaskedPayer);
    let pix = live.pay(&stranger, by_joao());
    live.wait_for_status(&stranger, "processing").await;
    assert!(live.service.reported_pix(&pix).await.unwrap().read_back_at.is_some());
    live.service.advance_seconds(6 * 3_600).await;
    eventually("an operator must decide", async || {
        live.service.advance_seconds(3_600).await;
        live.service.reported_pix(&pix).await?.read_back_at.is_none().then_some(())
    })
    .await;
    assert_eq!(live.client.get_charge(&stranger).await["status"], "processing");
    assert_eq!(live.check_books().await, Fates { credited: 1, held: 1, ..Fates::default() });
}

async fn removed_by_psp_case(kind: FaultKind) {
    let live = Live::start().await;
    let cancelled = live.create("order-00001", &for_maria()).await;
    let refused = live.during(kind, live.cancel(&cancelled)).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    let mut body = for_maria();
    body["expires_in"] = 60.into();
    // The bank removes a cob while the payer pays it, and another one later.
    let paying = live.create("order-00002", &body).await;
    live.next_fails(kind);
    let txid = paying["pix"]["txid"].as_str().unwrap().to_owned();
    let unpaid = live.service.stack.bank.pay(&PayRequest { txid, ..PayRequest::default() });
    assert_eq!(unpaid, Err(PayError::NotActive));
    let overdue = live.create("order-00003", &body).await;
    live.next_fails(kind);
    live.service.advance_seconds(125).await;
    for charge in [&cancelled, &paying, &overdue] {
        let failed = live.wait_for_status(charge, "failed").await;
        assert_eq!(failed["metadata"]["failure"]["providerErrorCode"], "REMOVIDA_PELO_PSP");
    }
    live.wait_for_fault(kind).await;
    assert_eq!(live.check_books().await, Fates::default());
}

async fn no_copia_e_cola_case(kind: FaultKind) {
    let live = Live::start().await;
    live.next_fails(kind);
    let charge = live.create("order-00001", &for_maria()).await;
    let code = artefacts::brcode::BrCode::parse(charge["pix"]["br_code"].as_str().unwrap()).unwrap();
    let cob = live.cob(&charge);
    assert_eq!((cob["pixCopiaECola"].is_null(), code.amount_centavos()), (true, Some(1000)));
    assert_eq!(code.location().unwrap(), cob["location"]);
    live.pay(&charge, PayRequest::default());
    live.wait_for_status(&charge, "paid").await;
    assert_eq!(live.check_books().await, Fates::credited(1));
}

/// The Pix names no charge, but the paid cob names the Pix.
async fn missing_txid_case(kind: FaultKind) {
    let live = Live::start().await;
    let mut body = for_maria();
    body["expires_in"] = 60.into();
    let (cancelled, overdue) =
        (live.create("order-00001", &body).await, live.create("order-00002", &body).await);
    for charge in [&cancelled, &overdue] {
        live.next_fails(kind);
        let end_to_end_id = live.pay(charge, PayRequest::default());
        wait_for_unapplied(&live, &end_to_end_id).await;
        assert_eq!(live.client.get_charge(charge).await["status"], "pending");
    }
    assert_eq!(live.check_books().await, Fates { unapplied: 2, ..Fates::default() });
    let refused = live.cancel(&cancelled).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "payment_not_cancellable"));
    assert_eq!(live.client.get_charge(&cancelled).await["status"], "paid");
    live.service.advance_seconds(125).await;
    live.wait_for_status(&overdue, "paid").await;
    assert_eq!(live.balance().await, 2_000);
    assert_eq!(live.check_books().await, Fates::credited(2));
}

async fn devolucao_unrealized_case(kind: FaultKind) {
    let live = Live::start().await;
    let charge = live.create("order-00001", &for_maria()).await;
    // A wrong amount goes back at the second attempt.
    live.next_fails(kind);
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    live.wait_for_fault(kind).await;
    let returned = eventually("the second attempt is executed", async || {
        live.service.advance_seconds(5).await;
        let pix = live.pix(&wrong);
        (pix["devolucoes"][1]["status"] == "DEVOLVIDO").then_some(pix)
    })
    .await;
    assert_eq!(returned["devolucoes"][0]["status"], "NAO_REALIZADO");
    live.pay(&charge, PayRequest { again: true, ..PayRequest::default() });
    live.wait_for_status(&charge, "paid").await;
    for strategy in ["devolution", "cashout"] {
        live.next_fails(kind);
        let body =
            json!({"amount": 400, "idempotencyKey": format!("refund-{strategy}"), "strategy": strategy});
        let refund = live.refund(&charge, body).await.expect(201);
        eventually("the refund fails", async || {
            let mut refunds = live.client.refunds(&charge).await.into_iter();
            refunds.find(|item| item["id"] == refund["id"] && item["status"] == "FAILED")
        })
        .await;
        assert_eq!(live.balance().await, 1_000);
    }
    assert_eq!(live.check_books().await, Fates { credited: 1, returned: 1, ..Fates::default() });
}

#[tokio::test]
async fn a_return_that_the_bank_does_not_execute_is_requested_five_times() {
    let live = Live::start().await;
    let charge = live.create("order-00001", &for_maria()).await;
    live.fault(FaultKind::DevolucaoUnrealized, 6);
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    eventually("the return is stopped", async || {
        live.service.advance_seconds(60).await;
        let payment = live.service.incoming_payments(&live.scope()).await.pop()?;
        let payment: IncomingPayment = from_item(payment).unwrap();
        payment.returned.is_some_and(|returned| returned.status == ReturnStatus::Stopped).then_some(())
    })
    .await;
    assert_eq!(live.pix(&wrong)["devolucoes"].as_array().unwrap().len(), 5);
}

async fn devolucao_stuck_case(kind: FaultKind) {
    let live = Live::start().await;
    let charge = live.create("order-00001", &for_maria()).await;
    live.next_fails(kind);
    let wrong = live.pay(&charge, PayRequest { amount: Cents::new(999), ..PayRequest::default() });
    live.wait_for_fault(kind).await;
    live.pay(&charge, PayRequest { again: true, ..PayRequest::default() });
    let charge = live.wait_for_status(&charge, "paid").await;
    let sent = live.paid("order-00002").await;
    for (charge, strategy) in [(&charge, "devolution"), (&sent, "cashout")] {
        live.next_fails(kind);
        let body =
            json!({"amount": 400, "idempotencyKey": format!("refund-{strategy}"), "strategy": strategy});
        live.refund(charge, body).await.expect(201);
        live.wait_for_fault(kind).await;
    }
    live.sweep_after(3 * 3_600).await;
    for charge in [&charge, &sent] {
        let status = live.client.refunds(charge).await[0]["status"].clone();
        assert!(status != "REFUNDED" && status != "FAILED", "{status}");
    }
    assert_eq!(live.pix(&wrong)["devolucoes"][0]["status"], "EM_PROCESSAMENTO");
    live.sweep_after(3 * 3_600 + 60).await;
    // The pause between two polls is at most six hours.
    live.service.advance_seconds(6 * 3_600).await;
    for charge in [&charge, &sent] {
        live.wait_for_refund(charge, "REFUNDED").await;
    }
    assert_eq!(live.balance().await, 1_200);
    assert_eq!(live.check_books().await, Fates { credited: 2, returned: 1, ..Fates::default() });
}

/// The bank takes the money back, so the wallet has lost it.
async fn med_devolucao_case(kind: FaultKind) {
    let live = Live::start().await;
    let charge = live.create("order-00001", &for_maria()).await;
    live.next_fails(kind);
    let end_to_end_id = live.pay(&charge, PayRequest::default());
    live.wait_for_fault(kind).await;
    live.service.advance_seconds(5).await;
    wait_until("the money is lost", async || {
        let is_returned = live.pix(&end_to_end_id)["devolucoes"][0]["status"] == "DEVOLVIDO";
        is_returned && live.client.list("/v1/med/cases").await.len() == 1 && live.balance().await == 0
    })
    .await;
    assert_eq!(live.client.get_charge(&charge).await["status"], "disputed");
    assert_eq!(live.check_books().await, Fates::credited(1));
}

#[tokio::test]
async fn a_devolucao_of_a_held_payment_is_recorded_at_once_although_its_read_back_is_due() {
    let live = Live::start().await;
    verify_filter(&live).await;
    live.fault(FaultKind::FilterLags, 1_000);
    let (charge, pix) = live.held("order-00001").await;
    assert!(live.service.reported_pix(&pix).await.unwrap().read_back_at.is_some());
    live.return_at_bank(&pix, "10.00").await;
    live.wait_for_status(&charge, "refunded").await;
    live.service.stack.bank.clear_faults();
    assert_eq!(live.check_books().await, Fates { returned: 1, ..Fates::default() });
}
