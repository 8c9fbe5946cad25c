//! Tests of the commands about notices of MED infractions whose Pix was not credited.

use bank::{FaultKind, PayRequest};
use domain::acquirer::ReportedPix;
use domain::ids::{AccountId, ConnectionId};
use domain::med::{InfractionStatus, MedNotice, NoticeContent};
use domain::webhook::signature::canonical;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::live_payments::Live;
use crate::{AdminFixture, eventually, text};

const WHY: [&str; 2] = ["--reason", "the adapter confirmed it"];

/// 24 hours and a minute, in seconds.
const OVER_A_DAY_SECONDS: i64 = 86_460;

impl Live {
    /// Posts a notice that opens an infraction about a Pix. Returns the status and the body of the answer.
    async fn post_notice(&self, notice_id: &str, end_to_end_id: &str) -> (u16, Value) {
        let stack = &self.service.stack;
        let now = stack.clock.now();
        let body = json!({
            "notice_id": notice_id, "infraction_id": format!("infraction of {end_to_end_id}"),
            "end_to_end_id": end_to_end_id, "status": "OPEN", "reported_at": now.to_iso(), "amount": 1000,
        });
        let secret = self.service.med_secret(&stack.seed.first.id.to_string()).await.unwrap();
        let signature = canonical(&secret, now.seconds(), body.to_string().as_bytes());
        let request = Request::post(format!("{}/med", self.service.new_callback_url().await));
        let request = request.header("x-signature", signature).body(Full::from(body.to_string())).unwrap();
        let (status, _, answer) = self.service.exchange(request).await;
        (status, answer)
    }

    /// Posts notices about Pix that are not credited, and waits until they are left to an operator.
    async fn leave_to_operator(&self, notices: &[(&str, &str)]) {
        for (notice_id, end_to_end_id) in notices {
            assert_eq!(self.post_notice(notice_id, end_to_end_id).await, (202, json!({})));
        }
        assert!(self.service.objects(&["med", "notices", "list"]).await.is_empty(), "they are retried");
        self.advance(OVER_A_DAY_SECONDS).await;
        eventually("the notices wait for an operator", async || {
            let listed = self.service.objects(&["med", "notices", "list"]).await;
            (listed.len() == notices.len()).then_some(())
        })
        .await;
    }

    fn words<'a>(&'a self, command: &'a str, notice_id: &'a str) -> Vec<&'a str> {
        let words = ["med", "notices", command, notice_id, "--account", &self.account];
        let why = if command == "show" { &[][..] } else { &WHY };
        [&words[..], why].concat()
    }

    async fn refused(&self, command: &str, notice_id: &str) -> String {
        let output = self.service.run(&self.words(command, notice_id)).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        text(&output.stderr)
    }
}

#[tokio::test]
async fn an_operator_retries_a_notice_once_its_pix_is_credited() {
    let live = Live::start().await;
    let service = &live.service;
    let charge = live.charge(1000).await;
    let pix = live.pay_unmatched(&charge).await;
    live.leave_to_operator(&[("n-1", &pix)]).await;
    let shown = service.object(&live.words("show", "n-1")).await;
    let fields = ["state", "end_to_end_id", "infraction_status", "amount", "case"].map(|name| &shown[name]);
    assert_eq!(fields, [&json!("unmatched"), &json!(pix), &json!("open"), &json!(1000), &json!(null)]);
    assert_eq!(shown["pix"], json!({"state": "unmatched"}));
    let refused = live.refused("retry", "n-1").await;
    assert!(refused.contains("matches no charge") && refused.contains("receipts apply"), "{refused}");
    assert!(live.actions("n-1").await.is_empty());

    let charge_id = charge["id"].as_str().unwrap();
    let apply = ["receipts", "apply", &pix, charge_id, "--account", &live.account];
    service.object(&[&apply[..], &WHY].concat()).await;
    let shown = service.object(&live.words("show", "n-1")).await;
    assert_eq!(shown["pix"], json!({"state": "credited", "charge": charge_id}));
    let refused = live.refused("dismiss", "n-1").await;
    assert!(refused.contains("retry the notice instead"), "{refused}");
    let case = service.object(&live.words("retry", "n-1")).await;
    assert_eq!(
        (&case["status"], &case["charge_id"], &case["moved"]),
        (&json!("open"), &charge["id"], &json!(1000))
    );
    assert_eq!(
        service.object(&live.words("retry", "n-1")).await,
        case,
        "repeating the command changes nothing"
    );
    assert_eq!(live.post_notice("n-1", &pix).await, (200, json!({"case": case["id"]})));

    assert!(service.objects(&["med", "notices", "list"]).await.is_empty());
    let shown = service.object(&live.words("show", "n-1")).await;
    assert_eq!((&shown["state"], &shown["case"]), (&json!("processed"), &case["id"]));
    let refused = live.refused("dismiss", "n-1").await;
    assert!(
        refused.contains("processed already") && refused.contains(case["id"].as_str().unwrap()),
        "{refused}"
    );
    assert_eq!(live.actions("n-1").await, ["med.retry-notice"]);
    let audit = service.audit(&live.account).await;
    let row = audit.iter().find(|row| row["action"] == "med.retry-notice").unwrap();
    assert_eq!(
        (&row["details"], &row["reason"], &row["actor"]),
        (&case["id"], &json!(WHY[1]), &json!("ana"))
    );
    let verified = service.run(&["ledger", "verify", "--account", &live.account, "--mode", "live"]).await;
    assert!(verified.status.success(), "{verified:?}");
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
        let dismissed = service.object(&live.words("dismiss", notice)).await;
        assert_eq!((&dismissed["state"], &dismissed["notice_id"]), (&json!("dismissed"), &json!(notice)));
        let again = service.object(&live.words("dismiss", notice)).await;
        assert_eq!(again, dismissed, "repeating the command changes nothing");
        assert_eq!(live.actions(notice).await, ["med.dismiss-notice"]);
    }
    let listed = service.objects(&["med", "notices", "list", "--account", &live.account]).await;
    assert_eq!((listed.len(), &listed[0]["notice_id"]), (1, &json!("n-2")));

    // A dismissed notice is not processed after its Pix is credited. One with a new id is.
    let apply = ["receipts", "apply", &pix, charge["id"].as_str().unwrap(), "--account", &live.account];
    service.object(&[&apply[..], &WHY].concat()).await;
    let refused = live.refused("retry", "n-1").await;
    assert!(refused.contains("dismissed already") && refused.contains("`notice_id`"), "{refused}");
    assert_eq!(live.post_notice("n-1", &pix).await, (202, json!({})));
    let cases = ["med", "list", "--account", &live.account, "--mode", "live"];
    assert!(service.objects(&cases).await.is_empty());
    assert_eq!(live.post_notice("n-4", &pix).await.0, 200);
    assert_eq!(service.objects(&cases).await.len(), 1);
}

#[tokio::test]
async fn show_says_where_the_pix_of_a_notice_is() {
    let live = Live::start().await;
    let service = &live.service;
    let charge = live.charge_for_maria().await;
    service.stack.bank.inject_fault(FaultKind::MaskedPayer, 1);
    let held = live.pay(&charge, PayRequest::default()).end_to_end_id;
    live.advance(400).await;
    live.wait_for_status(&charge, "processing").await;
    let (first, other) = (service.stack.seed.first.id, service.stack.seed.other.id);
    let connection = ConnectionId::derive("pix", &service.stack.bank_url, &service.stack.seed.bank.client_id);
    let now = service.stack.clock.now();
    let elsewhere = ReportedPix::notified("EOTHER".parse().unwrap(), (connection, other), None, now);
    let elsewhere = ReportedPix { version: 1, ..elsewhere.recorded(other, None) };
    let unconfirmed = ReportedPix::notified("EUNCONFIRMED".parse().unwrap(), (connection, first), None, now);
    let unconfirmed = ReportedPix { version: 1, ..unconfirmed.unconfirmed() };
    for row in [elsewhere, unconfirmed] {
        let write = Write::insert(&row).unwrap();
        assert_eq!(live.store().commit(vec![write]).await.unwrap(), CommitOutcome::Done);
    }
    for (notice, pix, state, refusal) in [
        ("n-1", held.as_str(), json!({"state": "held_for_review", "charge": charge["id"]}), "review approve"),
        ("n-2", "EOTHER", json!({"state": "other_account", "account": other}), "belongs to the account acc_"),
        ("n-3", "EUNCONFIRMED", json!({"state": "unconfirmed"}), "has not confirmed it"),
        ("n-4", "EUNKNOWN", json!({"state": "unknown"}), "no bank reported the Pix"),
    ] {
        assert_eq!(live.post_notice(notice, pix).await.0, 202);
        let shown = service.object(&live.words("show", notice)).await;
        assert_eq!((&shown["state"], &shown["pix"]), (&json!("waiting"), &state));
        let refused = live.refused("retry", notice).await;
        assert!(refused.contains(refusal), "{refused}");
    }
    for command in ["show", "retry", "dismiss"] {
        let refused = live.refused(command, "n-5").await;
        assert!(refused.contains("no such notice"), "{refused}");
        for id in ["", &"n".repeat(65)] {
            let refused = service.failure(&live.words(command, id)).await;
            assert!(refused.contains("must be 1 to 64 characters"), "{refused}");
        }
    }
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
    let page = async |more: &[&str]| {
        let output = service.run(&[&["med", "notices", "list"], more].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let lines = text(&output.stdout);
        let id =
            |line| serde_json::from_str::<Value>(line).unwrap()["notice_id"].as_str().unwrap().to_owned();
        // The first line names the stack.
        let hint = text(&output.stderr).lines().skip(1).collect::<String>();
        (lines.lines().map(id).collect::<Vec<String>>(), hint)
    };
    let (all, hint) = page(&[]).await;
    assert_eq!((all.len(), all[0].as_str(), all[99].as_str()), (100, "n-0", "n-99"));
    assert!(hint.contains("name an account"), "{hint}");
    let (first, other) = (first.to_string(), other.to_string());
    let (of_first, hint) = page(&["--account", &first]).await;
    assert_eq!((of_first.len(), of_first[0].as_str(), of_first[99].as_str()), (100, "n-1", "n-100"));
    assert!(hint.contains("--starting-after") && hint.contains("\"n-100\""), "{hint}");
    let (rest, hint) = page(&["--account", &first, "--starting-after", "n-100"]).await;
    assert_eq!((rest, hint.as_str()), (vec!["n-101".to_owned(), "n-102".to_owned()], ""));
    let (whole_page, hint) = page(&["--account", &first, "--starting-after", "n-2"]).await;
    assert_eq!((whole_page.len(), hint.as_str()), (100, ""));
    assert_eq!(page(&["--account", &other]).await.0, ["n-0", "n-200"]);
    let unknown = ["med", "notices", "list", "--account", &first, "--starting-after", "n-300"];
    assert!(service.failure(&unknown).await.contains("no such notice"));
    let without_account = service.failure(&["med", "notices", "list", "--starting-after", "n-1"]).await;
    assert!(without_account.contains("--account"), "{without_account}");
}
