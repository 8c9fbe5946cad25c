//! Tests of MED at a bank: notices of infractions, and devoluções by MED.

use axum::http::Method;
use domain::acquirer::ReportedPix;
use domain::charge::Charge;
use domain::charge::transition::{Command, Payment};
use domain::ids::{AccountId, ChargeId, EndToEndId, Mode, Scope};
use domain::med::{CaseKind, CaseNotification, CaseStatus, Decision, MedCase, MedNotice, NoticeStatus};
use domain::money::{Amount, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::time::Timestamp;
use domain::webhook::signature::canonical;
use money::charge::Charges;
use money::med::{BankMedReturn, MedCases};
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::live_charges::locked;
use crate::support::{Answer, CapturedLog, Client, Service, id, operator};

/// The deadline of a notice's infraction.
const DEADLINE: &str = "2027-01-31T12:00:00.000Z";

/// A service without event sources. Its first account has live charges and receives notices.
struct Fixture {
    service: Service,
    live: Client,
    path: String,
    secret: SecretString,
    scope: Scope,
}

impl Fixture {
    async fn start() -> Self {
        let service = Service::without_event_sources().await;
        let live = service.live_client();
        let path = format!("{}/med", service.new_callback_path().await);
        let scope = Scope { mode: Mode::Live, ..service.scope() };
        let secret = service.med_secret().await;
        Self { service, live, path, secret, scope }
    }

    fn now(&self) -> Timestamp {
        self.service.stack.clock.now()
    }

    /// The time of a notice: this number of seconds after an arbitrary time in the past.
    fn reported_at(&self, seconds: i64) -> String {
        self.now().plus_seconds(seconds - 3_600).unwrap().to_iso()
    }

    fn cases(&self) -> MedCases {
        MedCases::new(self.service.store())
    }

    /// Creates a live charge and credits a Pix for it, as the acquirer worker does.
    async fn paid(&self, key: &str, amount: i64) -> (Value, ChargeId) {
        let created = self.live.new_charge(key, &json!({ "amount": amount })).await;
        let charge: ChargeId = id(&created).parse().unwrap();
        credit(&self.service, charge, &format!("E{}", charge.txid())).await;
        (created, charge)
    }

    /// Reports a second payment of a charge, `E2`, which is returned to its payer.
    async fn report_second_pix(&self, charge: ChargeId) {
        let reported = self.service.reported_pix(&format!("E{}", charge.txid())).await.unwrap();
        let second = ReportedPix { end_to_end_id: "E2".parse().unwrap(), ..reported };
        commit(&self.service, Write::insert(&second).unwrap()).await;
    }

    /// A notice about a charge's Pix, with these fields in addition to the required ones.
    fn notice(&self, notice_id: &str, charge: ChargeId, status: &str, more: &Value) -> Value {
        let mut notice = json!({
            "notice_id": notice_id, "infraction_id": "i-1", "end_to_end_id": format!("E{}", charge.txid()),
            "status": status, "reported_at": self.reported_at(0),
        });
        notice.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        notice
    }

    async fn post(&self, notice: &Value) -> Answer {
        let body = notice.to_string();
        let signature = canonical(&self.secret, self.now().seconds(), body.as_bytes());
        self.post_signed(&body, &signature).await
    }

    async fn post_signed(&self, body: &str, signature: &str) -> Answer {
        let headers = [("content-type", "application/json"), ("x-signature", signature)];
        self.service.raw(Method::POST, &self.path, &headers, body.to_owned()).await
    }

    /// Posts a notice that is processed at once. Returns the case.
    async fn processed(&self, notice: &Value) -> MedCase {
        let answer = self.post(notice).await.expect(200);
        assert_eq!(answer.as_object().unwrap().len(), 1);
        self.find_case(&answer["case"]).await
    }

    async fn find_case(&self, id: &Value) -> MedCase {
        let id = id.as_str().unwrap().parse().unwrap();
        self.cases().find(Some(id)).await.unwrap().unwrap()
    }

    async fn cases_of(&self, id: ChargeId) -> Vec<MedCase> {
        self.service.store().rows_of_prefix(&Charge::key_of(id).pk, "case#").await.unwrap()
    }

    async fn find_notice(&self, notice_id: &str) -> MedNotice {
        let key = MedNotice::key_of(&self.scope.account, notice_id);
        self.service.store().get(&key).await.unwrap().unwrap()
    }

    /// Records devoluções by MED, given as id and amount.
    async fn returned(&self, charge: ChargeId, returned: &[(&str, i64)]) {
        let returned: Vec<BankMedReturn> =
            returned.iter().map(|(id, amount)| med_return(id, *amount)).collect();
        self.cases().apply_bank_returns(charge, &returned, self.now()).await.unwrap();
    }

    /// Returns the held and the lost sum of a charge.
    async fn held_and_lost(&self, id: ChargeId) -> (i64, i64) {
        let funds = self.service.stored_charge(id).await.funds;
        (funds.med_held.get(), funds.med_lost.get())
    }

    /// Verifies the live ledger, and returns the wallet's available and retained balances.
    async fn balances(&self) -> (i64, i64) {
        self.service.check_ledger_of(&self.scope).await;
        let balance = self.live.get("/v1/wallets/balance").await.expect(200);
        (balance["available"].as_i64().unwrap(), balance["retained"].as_i64().unwrap())
    }
}

/// Credits a Pix for a live charge, as the acquirer worker does.
pub(crate) async fn credit(service: &Service, id: ChargeId, end_to_end_id: &str) {
    let now = service.stack.clock.now();
    let charges = Charges::new(service.store());
    let charge = charges.find(Some(id)).await.unwrap().unwrap();
    let pix: EndToEndId = end_to_end_id.parse().unwrap();
    let payment = Payment {
        id: pix.clone().into(),
        method: PaymentMethod::Pix,
        amount: charge.as_stored().amount,
        payer_document: None,
        paid_at: now,
        is_in_time: false,
        charged: None,
    };
    let connection = charge.as_stored().connection.unwrap();
    let account = charge.as_stored().scope.account;
    let command = Command::Pay { payment, terms: domain::account::terms::MethodTerms::default() };
    charges.apply(charge, &command, now).await.unwrap();
    let reported = ReportedPix::notified(pix, (connection, account), Some(id.txid()), now);
    let recorded = ReportedPix { version: 1, ..reported.recorded(account, Some(id)) };
    commit(service, Write::insert(&recorded).unwrap()).await;
}

async fn commit(service: &Service, write: Write) {
    assert_eq!(service.store().commit(vec![write]).await.unwrap(), CommitOutcome::Done);
}

/// Changes the row of a charge.
async fn change_charge(service: &Service, id: ChargeId, change: impl FnOnce(&mut Charge)) {
    let mut stored = service.stored_charge(id).await;
    let version = stored.version;
    change(&mut stored);
    stored.version += 1;
    commit(service, Write::replace(&stored, version).unwrap()).await;
}

/// A notification of a case that says nothing about it.
pub(crate) fn unexplained_case() -> CaseNotification {
    CaseNotification {
        id: None,
        kind: CaseKind::Med,
        reason: None,
        method: None,
        response_deadline: None,
        amount: None,
        reported_at: None,
    }
}

fn med_return(id: &str, amount: i64) -> BankMedReturn {
    BankMedReturn { id: id.to_owned(), amount: Amount::parse(amount).unwrap() }
}

#[tokio::test]
async fn a_notice_needs_a_valid_signature_besides_the_token() {
    let fixture = Fixture::start().await;
    let (_, charge) = fixture.paid("order-0001", 1_000).await;
    let body = fixture.notice("n-1", charge, "OPEN", &json!({})).to_string();
    let sign = |secret: &SecretString, seconds: i64| {
        canonical(secret, fixture.now().seconds() + seconds, body.as_bytes())
    };
    let other = SecretString::from("0".repeat(64));
    for signature in [
        String::new(),
        sign(&other, 0),
        sign(&fixture.secret, -310),
        sign(&fixture.secret, 310),
        "t=1,v1=00".to_owned(),
    ] {
        let answer = fixture.post_signed(&body, &signature).await;
        assert_eq!(answer.problem(), (401, "authentication_error", "unauthorized"), "{signature}");
    }
    let tampered = body.replace("OPEN", "CANCELLED");
    assert_eq!(fixture.post_signed(&tampered, &sign(&fixture.secret, 0)).await.status, 401);
    let wrong_token = format!("{}x/med", fixture.path.strip_suffix("/med").unwrap());
    let signature = sign(&fixture.secret, 0);
    let answer =
        fixture.service.raw(Method::POST, &wrong_token, &[("x-signature", &signature)], body.clone()).await;
    assert_eq!(answer.status, 401);
    assert!(fixture.cases_of(charge).await.is_empty());
    fixture.post_signed(&body, &sign(&fixture.secret, -290)).await.expect(200);
    // The clock of the service decides, so the same signature expires.
    fixture.service.stack.clock.advance(60_000);
    assert_eq!(fixture.post_signed(&body, &signature).await.status, 200);
    fixture.service.stack.clock.advance(300_000);
    assert_eq!(fixture.post_signed(&body, &signature).await.status, 401);
}

#[tokio::test]
async fn a_notice_opens_changes_and_ends_the_case_of_its_infraction() {
    let fixture = Fixture::start().await;
    let (created, charge) = fixture.paid("order-0001", 1_000).await;
    let details = json!({
        "situation": "ACCOUNT_TAKEOVER", "reason": "Não reconheço", "response_deadline": DEADLINE, "amount": 1_000,
    });
    let opened = fixture.processed(&fixture.notice("n-1", charge, "OPEN", &details)).await;
    assert_eq!((opened.status, opened.amount.minor(), opened.unconfirmed), (CaseStatus::Open, 1_000, false));
    assert_eq!(opened.response_deadline.unwrap().to_iso(), DEADLINE);
    assert_eq!(fixture.balances().await, (0, 1_000));
    let shown = fixture.live.get_charge(&created).await;
    assert_eq!(shown["metadata"]["med"]["method"], "invasion");
    let listed = fixture.live.get("/v1/med/cases").await.expect(200);
    assert_eq!(listed["data"][0]["id"], opened.id.to_string());

    let acknowledged = fixture.notice(
        "n-2", charge, "ACKNOWLEDGED",
        &json!({"reported_at": fixture.reported_at(10), "response_deadline": "2027-02-28", "situation": "SCAM", "amount": 5}),
    );
    let case = fixture.processed(&acknowledged).await;
    assert_eq!((case.id, case.status, case.version), (opened.id, CaseStatus::Open, 2));
    assert_eq!((case.reason.as_deref(), case.amount.minor()), (Some("Não reconheço"), 1_000));
    assert!(case.response_deadline > opened.response_deadline);
    assert_eq!(fixture.live.get_charge(&created).await["metadata"]["med"]["method"], "scam");

    // A repeated notice changes nothing, whatever its other fields are.
    let repeated =
        fixture.notice("n-1", charge, "CANCELLED", &json!({"reported_at": fixture.reported_at(20)}));
    assert_eq!(fixture.processed(&repeated).await, case);

    let closed = json!({"analysis_result": "AGREED", "reported_at": fixture.reported_at(30)});
    let over = fixture.processed(&fixture.notice("n-3", charge, "CLOSED", &closed)).await;
    assert_eq!((over.id, over.status), (opened.id, CaseStatus::Rejected));
    assert_eq!(fixture.balances().await, (0, 0));
    assert_eq!(fixture.find_notice("n-3").await.case, Some(over.id));
}

#[tokio::test]
async fn each_end_of_an_infraction_decides_the_case_also_if_it_was_never_opened() {
    let fixture = Fixture::start().await;
    let mut available = 0;
    for (number, (status, result, expected, withdrawn, kept)) in [
        ("CLOSED", "AGREED", CaseStatus::Rejected, false, 0),
        ("CLOSED", "DISAGREED", CaseStatus::Closed, false, 1_000),
        ("CANCELLED", "AGREED", CaseStatus::Closed, true, 1_000),
    ]
    .into_iter()
    .enumerate()
    {
        for is_opened in [true, false] {
            let key = format!("order-{number}-{is_opened}");
            let (created, charge) = fixture.paid(&key, 1_000).await;
            if is_opened {
                fixture.processed(&fixture.notice(&format!("{key}-open"), charge, "OPEN", &json!({}))).await;
            }
            let more = json!({"analysis_result": result, "reported_at": fixture.reported_at(10)});
            let over = fixture.processed(&fixture.notice(&key, charge, status, &more)).await;
            assert_eq!((over.status, over.withdrawn), (expected, withdrawn), "{key}");
            available += kept;
            assert_eq!(fixture.balances().await, (available, 0), "{key}");
            let shown = fixture.live.get_charge(&created).await;
            assert_eq!(shown["status"] == "paid", kept > 0, "{shown}");
            assert_eq!(fixture.cases_of(charge).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn a_notice_of_another_amount_waits_for_an_operators_confirmation() {
    let fixture = Fixture::start().await;
    let (created, charge) = fixture.paid("order-0001", 1_000).await;
    let case = fixture.processed(&fixture.notice("n-1", charge, "OPEN", &json!({"amount": 300}))).await;
    assert!(case.unconfirmed);
    assert_eq!(fixture.balances().await, (1_000, 0));
    let shown = fixture.live.get_charge(&created).await;
    assert_eq!(
        (&shown["status"], &shown["metadata"]["med"]["amountMismatch"]),
        (&json!("paid"), &json!(true))
    );
    let confirmed = fixture.cases().confirm(case, &operator(), fixture.now()).await.unwrap();
    assert_eq!(confirmed.moved.get(), 300);
    assert_eq!(fixture.balances().await, (700, 300));
}

#[tokio::test]
async fn notices_of_an_unknown_pix_are_processed_by_the_scheduler_once_the_pix_is_credited() {
    let fixture = Fixture::start().await;
    let created = fixture.live.new_charge("order-0001", &json!({"amount": 1_000})).await;
    let charge: ChargeId = id(&created).parse().unwrap();
    let notice = fixture.notice("n-1", charge, "OPEN", &json!({}));
    for _ in 0..2 {
        let answer = fixture.post(&notice).await;
        assert_eq!((answer.status.as_u16(), &answer.body), (202, &json!({})));
    }
    let waiting = fixture.find_notice("n-1").await;
    assert_eq!((waiting.status, waiting.version), (NoticeStatus::Waiting, 1), "a repetition changes nothing");
    let account = fixture.scope.account;
    let process = async || fixture.cases().process_notice(&account, "n-1", fixture.now()).await.unwrap();
    process().await;
    let postponed = fixture.find_notice("n-1").await;
    assert!(postponed.next_at > waiting.next_at && postponed.status == NoticeStatus::Waiting);
    let second = fixture.notice("n-2", charge, "OPEN", &json!({"infraction_id": "i-2"}));
    fixture.post(&second).await.expect(202);
    credit(&fixture.service, charge, &format!("E{}", charge.txid())).await;
    // Longer than the pause after the first try.
    fixture.service.stack.clock.advance(400_000);
    fixture.service.run_scheduler().await;
    let processed = fixture.find_notice("n-1").await;
    assert_eq!((processed.status, processed.next_at), (NoticeStatus::Processed, None));
    assert_eq!(fixture.find_notice("n-2").await.status, NoticeStatus::Processed);
    assert_eq!(fixture.cases_of(charge).await.len(), 2);
    assert_eq!(fixture.balances().await, (0, 1_000));
    process().await;
    assert_eq!(fixture.find_notice("n-1").await, processed);
    let case = fixture.processed(&notice).await;
    assert_eq!((Some(case.id), case.version), (processed.case, 1));
}

#[tokio::test]
async fn a_notice_whose_pix_is_not_credited_within_24_hours_is_left_to_an_operator() {
    let fixture = Fixture::start().await;
    let (_, other) = fixture.paid("order-0001", 1_000).await;
    let notice = fixture.notice("n-1", other, "OPEN", &json!({"end_to_end_id": "ELATE"}));
    fixture.post(&notice).await.expect(202);
    let log = CapturedLog::start();
    let reported = || log.text().matches("was not credited within 24 hours").count();
    fixture.service.stack.clock.advance(3_600_000);
    fixture.cases().process_notice(&fixture.scope.account, "n-1", fixture.now()).await.unwrap();
    assert_eq!((fixture.find_notice("n-1").await.status, reported()), (NoticeStatus::Waiting, 0));
    fixture.service.stack.clock.advance(82_800_000);
    fixture.cases().process_notice(&fixture.scope.account, "n-1", fixture.now()).await.unwrap();
    assert_eq!(reported(), 1, "an operator must act");
    let unmatched = fixture.find_notice("n-1").await;
    assert_eq!((unmatched.status, unmatched.next_at), (NoticeStatus::Unmatched, None));
    fixture.post(&notice).await.expect(202);
    assert_eq!(fixture.find_notice("n-1").await, unmatched);
    // After an operator has applied the Pix, the adapter repeats the notice.
    let created = fixture.live.new_charge("order-0002", &json!({"amount": 1_000})).await;
    credit(&fixture.service, id(&created).parse().unwrap(), "ELATE").await;
    fixture.processed(&notice).await;
    assert_eq!(fixture.find_notice("n-1").await.status, NoticeStatus::Processed);
}

#[tokio::test]
async fn a_notice_cannot_contest_another_accounts_pix_or_one_that_was_not_credited() {
    let fixture = Fixture::start().await;
    let (_, charge) = fixture.paid("order-0001", 1_000).await;
    fixture.report_second_pix(charge).await;
    let notice = fixture.notice("n-1", charge, "OPEN", &json!({"end_to_end_id": "E2"}));
    fixture.post(&notice).await.expect(202);
    change_charge(&fixture.service, charge, |charge| charge.scope.account = AccountId::new([7; 10])).await;
    fixture.post(&fixture.notice("n-2", charge, "OPEN", &json!({}))).await.expect(202);
    assert!(fixture.cases_of(charge).await.is_empty());
}

#[tokio::test]
async fn a_notice_of_a_second_pix_of_a_charge_in_review_can_not_be_retried_until_its_payer_has_it_back() {
    let fixture = Fixture::start().await;
    let created = fixture.live.new_charge("order-0001", &locked()).await;
    let charge: ChargeId = id(&created).parse().unwrap();
    // The bank reported no payer, so the charge is held for a review.
    let held = format!("E{}", charge.txid());
    credit(&fixture.service, charge, &held).await;
    fixture.report_second_pix(charge).await;
    for (number, pix, why) in [(1, held.as_str(), "held for a review"), (2, "E2", "its payer gets it back")] {
        let notice_id = format!("n-{number}");
        let more = json!({"end_to_end_id": pix, "infraction_id": format!("i-{number}")});
        fixture.post(&fixture.notice(&notice_id, charge, "OPEN", &more)).await.expect(202);
        let (cases, by) = (fixture.cases(), operator());
        let retried = cases.retry_notice(&fixture.scope.account, &notice_id, &by, fixture.now()).await;
        let refused = retried.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[tokio::test]
async fn a_devolucao_by_med_without_a_case_is_lost_at_once() {
    let fixture = Fixture::start().await;
    let unpaid = fixture.live.new_charge("order-0002", &json!({"amount": 1_000})).await;
    let unpaid: ChargeId = id(&unpaid).parse().unwrap();
    fixture.returned(unpaid, &[("D1", 500)]).await;
    assert!(fixture.cases_of(unpaid).await.is_empty(), "money that was not credited can't be lost");
    let (created, charge) = fixture.paid("order-0001", 1_000).await;
    for _ in 0..3 {
        fixture.returned(charge, &[("D1", 300)]).await;
    }
    let [case] = <[MedCase; 1]>::try_from(fixture.cases_of(charge).await).unwrap();
    assert_eq!((case.status, case.amount.minor(), case.opened_by_return), (CaseStatus::Rejected, 300, true));
    assert_eq!(fixture.balances().await, (700, 0));
    assert_eq!(fixture.live.get_charge(&created).await["status"], "paid");
    // A second devolução loses only its own amount.
    fixture.returned(charge, &[("D1", 300), ("D2", 700), ("D1", 300)]).await;
    assert_eq!(fixture.held_and_lost(charge).await, (0, 1_000));
    assert_eq!((fixture.balances().await, fixture.cases_of(charge).await.len()), ((0, 0), 2));
}

#[tokio::test]
async fn a_devolucao_of_the_whole_claim_decides_the_open_case_for_the_payer() {
    let fixture = Fixture::start().await;
    let (_, charge) = fixture.paid("order-0001", 1_000).await;
    fixture.processed(&fixture.notice("n-1", charge, "OPEN", &json!({}))).await;
    fixture.returned(charge, &[("D1", 400), ("D2", 600)]).await;
    fixture.returned(charge, &[("D1", 400), ("D2", 600)]).await;
    let [case] = <[MedCase; 1]>::try_from(fixture.cases_of(charge).await).unwrap();
    assert_eq!(case.status, CaseStatus::Rejected);
    let closed = json!({"analysis_result": "AGREED", "reported_at": fixture.reported_at(10)});
    assert_eq!(fixture.processed(&fixture.notice("n-2", charge, "CLOSED", &closed)).await, case);
    assert_eq!(fixture.balances().await, (0, 0));

    // A devolução that the merchant lost already changes nothing.
    let (_, charge) = fixture.paid("order-0002", 1_000).await;
    let case = fixture.processed(&fixture.notice("n-3", charge, "OPEN", &json!({}))).await;
    fixture.live.post(&format!("/v1/med/cases/{}/accept", case.id), &json!({})).await.expect(200);
    let accepted = fixture.find_case(&json!(case.id)).await;
    fixture.returned(charge, &[("D1", 1_000)]).await;
    assert_eq!(fixture.cases_of(charge).await, [accepted]);
    assert_eq!(fixture.balances().await, (0, 0));
}

#[tokio::test]
async fn operators_see_a_devolucao_after_a_won_case_and_one_of_more_than_was_left() {
    let fixture = Fixture::start().await;
    let log = CapturedLog::start();
    let lines = |words: &str, charge: ChargeId| {
        let text = log.text();
        text.lines().filter(|line| line.contains(words) && line.contains(&charge.to_string())).count()
    };
    let (won, more) = ("after a case was won", "returned more by MED than was left");
    let (_, usual) = fixture.paid("order-0001", 1_000).await;
    fixture.returned(usual, &[("D1", 300)]).await;
    assert_eq!((lines(won, usual), lines(more, usual)), (0, 0));
    let (_, debited_again) = fixture.paid("order-0002", 1_000).await;
    let disagreed = json!({"infraction_id": "i-2", "analysis_result": "DISAGREED"});
    fixture.processed(&fixture.notice("n-2", debited_again, "CLOSED", &disagreed)).await;
    fixture.returned(debited_again, &[("D2", 1_000)]).await;
    assert_eq!((lines(won, debited_again), lines(more, debited_again)), (1, 0));
    assert_eq!(fixture.held_and_lost(debited_again).await, (0, 1_000));
    let (_, refunded) = fixture.paid("order-0003", 1_000).await;
    let refund = |charge: &mut Charge| charge.funds.refunded_devolution = MinorUnits::new(800);
    change_charge(&fixture.service, refunded, refund).await;
    for _ in 0..2 {
        fixture.returned(refunded, &[("D3", 500)]).await;
    }
    assert_eq!((lines(won, refunded), lines(more, refunded)), (0, 1));
    let funds = fixture.service.stored_charge(refunded).await.funds;
    assert_eq!((funds.med_lost.get(), funds.med_unmet.get(), funds.med_held.get()), (200, 300, 0));
}

#[tokio::test]
async fn operators_see_a_decision_that_contradicts_the_end_of_a_case() {
    let fixture = Fixture::start().await;
    let log = CapturedLog::start();
    for (order, result, contradictions) in [
        // Later notices, and whether each contradicts the end.
        (
            "won",
            "DISAGREED",
            [("CLOSED", "DISAGREED", 0), ("CANCELLED", "AGREED", 0), ("CLOSED", "AGREED", 1)],
        ),
        ("lost", "AGREED", [("CLOSED", "AGREED", 0), ("CANCELLED", "AGREED", 1), ("CLOSED", "DISAGREED", 1)]),
    ] {
        let (_, charge) = fixture.paid(&format!("order-{order}"), 1_000).await;
        let notice = |name: &str, status: &str, result: &str, seconds: i64| {
            let more = json!({
                "infraction_id": order, "analysis_result": result, "reported_at": fixture.reported_at(seconds),
            });
            fixture.notice(&format!("{order}-{name}"), charge, status, &more)
        };
        let case = fixture.processed(&notice("opened", "OPEN", result, 0)).await;
        fixture.processed(&notice("decided", "CLOSED", result, 30)).await;
        let lines = || log.text().matches(&format!("case={}", case.id)).count();
        let other = if result == "AGREED" { "DISAGREED" } else { "AGREED" };
        fixture.processed(&notice("older", "CLOSED", other, 20)).await;
        assert_eq!(lines(), 0, "an older notice");
        let mut expected = 0;
        for (number, (status, result, count)) in contradictions.into_iter().enumerate() {
            let seconds = 30 + i64::try_from(number).unwrap();
            fixture.processed(&notice(&number.to_string(), status, result, seconds)).await;
            expected += count;
            assert_eq!(lines(), expected, "{order} {status} {result}");
        }
    }
    assert_eq!(log.text().matches("the bank decided a MED case that ended otherwise").count(), 3);
}

#[tokio::test]
async fn the_call_after_a_crash_closes_the_case_of_a_devolucao() {
    let fixture = Fixture::start().await;
    for (key, amount) in [("order-0001", 300), ("order-0002", 1_000)] {
        let (_, charge) = fixture.paid(key, 1_000).await;
        let stored = Charges::new(fixture.service.store()).find(Some(charge)).await.unwrap().unwrap();
        // The first of the two writes.
        let notification = CaseNotification { amount: Amount::parse(amount).ok(), ..unexplained_case() };
        fixture.cases().open(stored, "devolucao#D1", &notification, fixture.now()).await.unwrap();
        fixture.returned(charge, &[("D1", amount)]).await;
        let [case] = <[MedCase; 1]>::try_from(fixture.cases_of(charge).await).unwrap();
        assert_eq!(case.status, CaseStatus::Rejected);
        assert_eq!(fixture.held_and_lost(charge).await, (0, amount));
    }
    fixture.balances().await;
}

#[tokio::test]
async fn concurrent_calls_record_a_devolucao_once() {
    let fixture = Fixture::start().await;
    let (_, with_case) = fixture.paid("order-0001", 1_000).await;
    let (_, without) = fixture.paid("order-0002", 1_000).await;
    fixture.processed(&fixture.notice("n-1", with_case, "OPEN", &json!({}))).await;
    let calls: Vec<_> = (0..16)
        .map(|number| {
            let (cases, now) = (fixture.cases(), fixture.now());
            let charge = if number % 2 == 0 { with_case } else { without };
            tokio::spawn(async move { cases.apply_bank_returns(charge, &[med_return("D1", 400)], now).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(fixture.held_and_lost(with_case).await, (600, 400));
    assert_eq!(fixture.held_and_lost(without).await, (0, 400));
    assert_eq!(fixture.balances().await, (600, 600));
}

#[tokio::test]
async fn a_notice_after_the_devolucao_does_not_lose_the_same_money_again() {
    let fixture = Fixture::start().await;
    let agreed = json!({"analysis_result": "AGREED", "amount": 400});
    let (_, covered) = fixture.paid("order-0001", 1_000).await;
    fixture.returned(covered, &[("D1", 400)]).await;
    let case = fixture.processed(&fixture.notice("n-1", covered, "CLOSED", &agreed)).await;
    assert!(case.opened_by_return && case.infraction.as_deref() == Some("i-1"));
    assert_eq!((fixture.held_and_lost(covered).await, fixture.cases_of(covered).await.len()), ((0, 400), 1));
    // The next notice of the infraction finds its case. A second infraction is another case.
    let again = fixture.notice("n-2", covered, "OPEN", &json!({"reported_at": fixture.reported_at(10)}));
    assert_eq!(fixture.processed(&again).await, case);
    let second = json!({"infraction_id": "i-2", "amount": 100});
    assert_ne!(fixture.processed(&fixture.notice("n-3", covered, "OPEN", &second)).await.id, case.id);

    // The bank returned only a part before the notice of the whole amount: the rest is retained.
    let (_, part) = fixture.paid("order-0002", 1_000).await;
    fixture.returned(part, &[("D1", 400)]).await;
    let open = json!({"infraction_id": "i-3"});
    let case = fixture.processed(&fixture.notice("n-4", part, "OPEN", &open)).await;
    assert_eq!((case.lost.get(), case.moved.get()), (400, 600));
    assert_eq!(fixture.held_and_lost(part).await, (600, 400));
    fixture.returned(part, &[("D1", 400), ("D2", 600)]).await;
    let case = fixture.find_case(&json!(case.id)).await;
    assert_eq!((case.status, fixture.held_and_lost(part).await), (CaseStatus::Rejected, (0, 1_000)));
    assert_eq!(fixture.balances().await, (600, 0));
}

#[tokio::test]
async fn a_devolucao_is_taken_from_the_oldest_open_case_first() {
    let fixture = Fixture::start().await;
    let (_, charge) = fixture.paid("order-0001", 1_000).await;
    let first = fixture.processed(&fixture.notice("n-1", charge, "OPEN", &json!({}))).await;
    let second =
        fixture.processed(&fixture.notice("n-2", charge, "OPEN", &json!({"infraction_id": "i-2"}))).await;
    assert_eq!(fixture.balances().await, (0, 1_000), "the cases share their hold");
    fixture.returned(charge, &[("D1", 1_000)]).await;
    assert_eq!(fixture.find_case(&json!(first.id)).await.status, CaseStatus::Rejected);
    let second = fixture.find_case(&json!(second.id)).await;
    assert_eq!((second.status, fixture.held_and_lost(charge).await), (CaseStatus::Open, (0, 1_000)));
    let now = fixture.now();
    let over = fixture.cases().decide(second, Decision::Merchant, Some(&operator()), now).await.unwrap();
    assert_eq!((over.status, fixture.balances().await), (CaseStatus::Closed, (0, 0)));
}
