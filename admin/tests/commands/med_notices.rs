//! Tests of the commands about notices of MED infractions whose Pix was not credited.

use domain::acquirer::ReportedPix;
use domain::ids::{AccountId, ConnectionId};
use domain::med::{InfractionStatus, MedNotice, NoticeContent};
use domain::webhook::signature::canonical;
use hyper::Request;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::live_payments::Live;
use crate::{AdminFixture, eventually, exchange, fields, id};

/// 24 hours and a minute, in seconds.
const OVER_A_DAY_SECONDS: i64 = 86_460;

impl Live {
    /// Posts a notice that opens an infraction about a Pix. Returns the status and the body of the answer.
    pub(crate) async fn post_notice(&self, notice_id: &str, end_to_end_id: &str) -> (u16, Value) {
        let stack = &self.service.stack;
        let now = stack.clock.now();
        let body = json!({
            "notice_id": notice_id, "infraction_id": format!("infraction of {end_to_end_id}"),
            "end_to_end_id": end_to_end_id, "status": "OPEN", "reported_at": now.to_iso(), "amount": 1000,
        })
        .to_string();
        let secret = self.service.med_secret(&stack.seed.first.id.to_string()).await.unwrap();
        let signature = canonical(&secret, now.seconds(), body.as_bytes());
        let request = Request::post(format!("{}/med", self.service.new_callback_url().await));
        let (status, _, answer) = exchange(request.header("x-signature", signature), &body).await;
        (status, answer)
    }

    /// Posts notices about Pix that are not credited, and waits until they are left to an operator.
    async fn leave_to_operator(&self, notices: &[(&str, &str)]) {
        for (notice_id, end_to_end_id) in notices {
            assert_eq!(self.post_notice(notice_id, end_to_end_id).await, (202, json!({})));
        }
        assert!(self.service.objects("med notices list").await.is_empty(), "they are retried");
        self.merchant.advance(OVER_A_DAY_SECONDS).await;
        eventually("the notices wait for an operator", async || {
            let listed = self.service.objects("med notices list").await;
            (listed.len() == notices.len()).then_some(())
        })
        .await;
    }

    fn command(&self, command: &str, notice_id: &str) -> String {
        let why = if command == "show" { "" } else { "--reason agreed" };
        format!("med notices {command} {notice_id} --account {} {why}", self.account)
    }

    async fn apply(&self, pix: &str, charge: &Value) {
        self.service.change(&format!("receipts apply {pix} {} --account {}", id(charge), self.account)).await;
    }
}

#[tokio::test]
async fn an_operator_retries_a_notice_once_its_pix_is_credited() {
    let live = Live::start().await;
    let service = &live.service;
    let charge = live.charge(1000).await;
    let pix = live.pay_unmatched(&charge).await;
    live.leave_to_operator(&[("n-1", &pix)]).await;
    let [show, retry, dismiss] = ["show", "retry", "dismiss"].map(|command| live.command(command, "n-1"));
    let shown = service.object(&show).await;
    assert_eq!(
        fields(&shown, &["state", "end_to_end_id", "infraction_status", "amount", "case", "pix"]),
        json!(["unmatched", pix, "open", 1000, null, {"state": "unmatched"}])
    );
    let refused = service.failure(&retry).await;
    assert!(refused.contains("matches no charge") && refused.contains("receipts apply"), "{refused}");
    assert!(live.actions("n-1").await.is_empty());

    live.apply(&pix, &charge).await;
    let shown = service.object(&show).await;
    assert_eq!(shown["pix"], json!({"state": "credited", "charge": charge["id"]}));
    service.refuses(&dismiss, "retry the notice instead").await;
    let dry = service.object(&format!("{retry} --dry-run")).await;
    assert_eq!(service.object(&show).await["state"], "unmatched");
    let case = service.object(&retry).await;
    assert_eq!(dry["case"], case["id"]);
    assert_eq!(fields(&case, &["status", "charge_id", "moved"]), json!(["open", charge["id"], 1000]));
    assert_eq!(service.object(&retry).await, case, "repeating the command changes nothing");
    assert_eq!(live.post_notice("n-1", &pix).await, (200, json!({"case": case["id"]})));

    assert!(service.objects("med notices list").await.is_empty());
    let shown = service.object(&show).await;
    assert_eq!(fields(&shown, &["state", "case"]), json!(["processed", case["id"]]));
    let refused = service.failure(&dismiss).await;
    assert!(refused.contains("processed already") && refused.contains(id(&case)), "{refused}");
    assert_eq!(live.actions("n-1").await, ["med.retry-notice"]);
    let audit = service.audit(&live.account).await;
    let row = audit.iter().find(|row| row["action"] == "med.retry-notice").unwrap();
    assert_eq!(fields(row, &["details", "reason", "actor"]), json!([case["id"], "agreed", "ana"]));
    service.verify_ledger("live").await;
}

#[tokio::test]
async fn an_operator_dismisses_a_notice() {
    let live = Live::start().await;
    let service = &live.service;
    let charge = live.charge(1000).await;
    let pix = live.pay_unmatched(&charge).await;
    live.leave_to_operator(&[("n-1", &pix), ("n-2", "EUNKNOWN2")]).await;
    // A notice that is still retried can be dismissed too.
    assert_eq!(live.post_notice("n-3", "EUNKNOWN3").await.0, 202);
    for notice in ["n-1", "n-3"] {
        let dismissed = service.object(&live.command("dismiss", notice)).await;
        assert_eq!(fields(&dismissed, &["state", "notice_id"]), json!(["dismissed", notice]));
        let again = service.object(&live.command("dismiss", notice)).await;
        assert_eq!(again, dismissed, "repeating the command changes nothing");
        assert_eq!(live.actions(notice).await, ["med.dismiss-notice"]);
    }
    let listed = service.objects(&format!("med notices list --account {}", live.account)).await;
    assert_eq!((listed.len(), &listed[0]["notice_id"]), (1, &json!("n-2")));

    // A dismissed notice is not processed after its Pix is credited. One with a new id is.
    live.apply(&pix, &charge).await;
    let refused = service.failure(&live.command("retry", "n-1")).await;
    assert!(refused.contains("dismissed already") && refused.contains("`notice_id`"), "{refused}");
    assert_eq!(live.post_notice("n-1", &pix).await, (202, json!({})));
    let cases = format!("med list --account {} --mode live", live.account);
    assert!(service.objects(&cases).await.is_empty());
    assert_eq!(live.post_notice("n-4", &pix).await.0, 200);
    assert_eq!(service.objects(&cases).await.len(), 1);
}

#[tokio::test]
async fn show_says_where_the_pix_of_a_notice_is() {
    let live = Live::start().await;
    let service = &live.service;
    let (charge, held) = live.hold_for_review().await;
    let (first, other) = (service.stack.seed.first.id, service.stack.seed.other.id);
    let connection = ConnectionId::derive("pix", &service.stack.bank_url, &service.stack.seed.bank.client_id);
    let now = service.stack.clock.now();
    let elsewhere = ReportedPix::notified("EOTHER".parse().unwrap(), (connection, other), None, now);
    let elsewhere = ReportedPix { version: 1, ..elsewhere.recorded(other, None) };
    let unconfirmed = ReportedPix::notified("EUNCONFIRMED".parse().unwrap(), (connection, first), None, now);
    let unconfirmed = ReportedPix { version: 1, ..unconfirmed.unconfirmed() };
    for row in [elsewhere, unconfirmed] {
        let write = Write::insert(&row).unwrap();
        assert_eq!(service.table("StateTable").commit(vec![write]).await.unwrap(), CommitOutcome::Done);
    }
    for (notice, pix, state, refusal) in [
        ("n-1", held.as_str(), json!({"state": "held_for_review", "charge": charge["id"]}), "review approve"),
        ("n-2", "EOTHER", json!({"state": "other_account", "account": other}), "belongs to the account acc_"),
        ("n-3", "EUNCONFIRMED", json!({"state": "unconfirmed"}), "has not confirmed it"),
        ("n-4", "EUNKNOWN", json!({"state": "unknown"}), "no bank reported the Pix"),
    ] {
        assert_eq!(live.post_notice(notice, pix).await.0, 202);
        let shown = service.object(&live.command("show", notice)).await;
        assert_eq!(fields(&shown, &["state", "pix"]), json!(["waiting", state]));
        service.refuses(&live.command("retry", notice), refusal).await;
    }
    for command in ["show", "retry", "dismiss"] {
        service.refuses(&live.command(command, "n-5"), "no such notice").await;
        let too_long = live.command(command, &"n".repeat(65));
        service.refuses(&too_long, "must be 1 to 64 characters").await;
    }
    service.refuses(&live.command("show", "''"), "must be 1 to 64 characters").await;
}

#[tokio::test]
async fn notices_are_listed_100_at_a_time_and_by_account() {
    let service = AdminFixture::start().await;
    let (first, other) = (service.stack.seed.first.id, service.stack.seed.other.id);
    let (store, now) = (service.table("StateTable"), service.stack.clock.now());
    let connection = ConnectionId::derive("pix", &service.stack.bank_url, "loja");
    let unmatched = |account: AccountId, number: i64| {
        let content = NoticeContent {
            notice_id: format!("n-{number}"),
            infraction_id: "i-1".to_owned(),
            end_to_end_id: "E1".parse().unwrap(),
            infraction_status: InfractionStatus::Open,
            situation: None,
            amount: None,
            reason: None,
            response_deadline: None,
            reported_at: now,
        };
        let received =
            MedNotice::received((connection, account), content, now.plus_seconds(-number).unwrap());
        MedNotice { version: 1, ..received.not_matched(now.plus_seconds(86_400).unwrap()) }
    };
    let of_first = (1..=102).map(|number| unmatched(first, number));
    for notice in of_first.chain([unmatched(other, 0), unmatched(other, 200)]) {
        let insert = Write::insert(&notice).unwrap();
        assert_eq!(store.commit(vec![insert]).await.unwrap(), CommitOutcome::Done);
    }
    let page = async |more: &str| {
        let (notices, hint) = service.page(&format!("med notices list {more}")).await;
        let id = |notice: &Value| notice["notice_id"].as_str().unwrap().to_owned();
        (notices.iter().map(id).collect::<Vec<String>>(), hint)
    };
    let (all, hint) = page("").await;
    assert_eq!((all.len(), all[0].as_str(), all[99].as_str()), (100, "n-0", "n-99"));
    assert!(hint.contains("name an account"), "{hint}");
    let of_first = format!("--account {first}");
    let (listed, hint) = page(&of_first).await;
    assert_eq!((listed.len(), listed[0].as_str(), listed[99].as_str()), (100, "n-1", "n-100"));
    assert!(hint.contains("--starting-after") && hint.contains("\"n-100\""), "{hint}");
    let (rest, hint) = page(&format!("{of_first} --starting-after n-100")).await;
    assert_eq!((rest, hint.as_str()), (vec!["n-101".to_owned(), "n-102".to_owned()], ""));
    let (whole_page, hint) = page(&format!("{of_first} --starting-after n-2")).await;
    assert_eq!((whole_page.len(), hint.as_str()), (100, ""));
    assert_eq!(page(&format!("--account {other}")).await.0, ["n-0", "n-200"]);
    let unknown = format!("med notices list {of_first} --starting-after n-300");
    service.refuses(&unknown, "no such notice").await;
    service.refuses("med notices list --starting-after n-1", "--account").await;
}
