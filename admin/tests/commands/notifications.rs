//! Tests of the commands about items of banks' notifications that were set aside.

use bank::PayRequest;
use domain::acquirer::{ReportedPix, SetAsideItem};
use domain::audit::Operator;
use domain::ids::{AccountId, ConnectionId};
use http_body_util::Full;
use hyper::Request;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::live_payments::Live;
use crate::{AdminFixture, eventually, text};

/// An id that no item has.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const WHY: [&str; 2] = ["--reason", "the bank sends a new format"];

impl AdminFixture {
    /// Makes a further URL for notifications of the first account's bank.
    pub(crate) async fn new_callback_url(&self) -> String {
        let operator =
            Operator { actor: "bob".to_owned(), reason: "a test".to_owned(), ..Operator::default() };
        let (account, now) = (self.stack.seed.first.id, self.stack.clock.now());
        let rotated = self.acquirers().rotate_callback_token(account, None, None, &operator, now).await;
        rotated.unwrap().1.expose_secret().to_owned()
    }

    /// Posts a notification with these Pix, which must be accepted.
    async fn notify(&self, pix: Value) {
        let request = Request::post(self.new_callback_url().await);
        let request = request.body(Full::from(json!({ "pix": pix }).to_string())).unwrap();
        assert_eq!(self.exchange(request).await.0, 200);
    }
}

fn id(item: &Value) -> &str {
    item["id"].as_str().unwrap()
}

#[tokio::test]
async fn an_operator_resolves_an_item_and_has_its_pix_read_back() {
    let live = Live::start().await;
    let service = &live.service;
    live.stop_sweeps().await;
    let charge = live.charge(1000).await;
    let paid = live.pay(&charge, PayRequest::default()).end_to_end_id;
    let unreadable = json!({"endToEndId": format!(" {paid}"), "pagador": {"cpf": "29537995593"}});
    service.notify(json!([unreadable, {"evento": "teste"}])).await;

    let list = ["notifications", "list"];
    let of_account = [&list[..], &["--account", &live.account]].concat();
    let listed = service.objects(&of_account).await;
    let [item] = listed.iter().filter(|item| item["item"] != r#"{"evento":"teste"}"#).collect::<Vec<_>>()[..]
    else {
        panic!("{listed:?}")
    };
    let expected = format!(r#"{{"endToEndId":" {paid}","pagador":{{"cpf":"***"}}}}"#);
    assert_eq!((listed.len(), &item["item"], &item["account"]), (2, &json!(expected), &json!(live.account)));
    let mut of_all_accounts = service.objects(&list).await;
    of_all_accounts.sort_by_key(|item| id(item).to_owned());
    assert_eq!(of_all_accounts, listed);
    let show = |id: &str| ["notifications", "show", id, "--account", &live.account].map(str::to_owned);
    assert_eq!(&service.object(&show(id(item)).each_ref().map(String::as_str)).await, item);

    let resolve = [&["notifications", "resolve", id(item), "--account", &live.account][..], &WHY].concat();
    let resolved = service.object(&[&resolve[..], &["--read-back", &paid]].concat()).await;
    assert_eq!((&resolved["id"], &resolved["read_back"]["status"]), (&item["id"], &json!("reported")));
    let settled = live.wait_for_status(&charge, "paid").await;
    assert_eq!(settled["settlement"]["end_to_end_id"], paid);
    let again = service.run(&resolve).await;
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(text(&again.stderr).contains("resolved already"), "{again:?}");

    // The other item names no Pix.
    let [other] = service.objects(&of_account).await.try_into().unwrap();
    let resolve = [&["notifications", "resolve", id(&other), "--account", &live.account][..], &WHY].concat();
    assert_eq!(service.object(&resolve).await["read_back"], json!(null));
    for list in [&list[..], &of_account] {
        assert!(service.objects(list).await.is_empty());
    }
    let audit = service.audit(&live.account).await;
    let rows: Vec<_> = audit.iter().filter(|row| row["action"] == "notification.resolve").collect();
    assert_eq!(rows.len(), 2, "{audit:?}");
    for (row, (item, details)) in rows.iter().zip([(&other, json!(null)), (item, json!(paid))]) {
        assert_eq!((&row["subject"], &row["details"]), (&item["id"], &details));
        assert_eq!((&row["actor"], &row["reason"]), (&json!("ana"), &json!(WHY[1])));
    }
}

#[tokio::test]
async fn a_pix_that_was_recorded_before_is_read_back_again() {
    let live = Live::start().await;
    let charge = live.charge(1000).await;
    let paid = live.pay(&charge, PayRequest::default()).end_to_end_id;
    live.advance(400).await;
    live.wait_for_status(&charge, "paid").await;
    live.stop_sweeps().await;
    let key = ReportedPix::key_of(&paid.parse().unwrap());
    let before: ReportedPix = live.store().get(&key).await.unwrap().unwrap();
    live.service.notify(json!([{"endToEndId": format!("{paid} ")}])).await;
    let [item] = live.service.objects(&["notifications", "list"]).await.try_into().unwrap();
    let resolve = ["notifications", "resolve", id(&item), "--account", &live.account, "--read-back", &paid];
    let resolved = live.service.object(&[&resolve[..], &WHY].concat()).await;
    let pix = &resolved["read_back"];
    assert_eq!((&pix["status"], &pix["end_to_end_id"]), (&json!("recorded"), &json!(paid)));
    assert_eq!(pix["charge"], charge["id"]);
    eventually("the Pix is read back", async || {
        let stored: ReportedPix = live.store().get(&key).await.unwrap().unwrap();
        (stored.version == before.version + 2 && stored.read_back_at.is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unknown_item_is_refused() {
    let service = AdminFixture::start().await;
    let (account, other) = (service.account(), service.stack.seed.other.id.to_string());
    service.notify(json!([{"evento": "teste"}])).await;
    let [item] = service.objects(&["notifications", "list"]).await.try_into().unwrap();
    for (id, account, refusal) in [
        (NONE, account.as_str(), "no such item"),
        (id(&item), &other, "no such item"),
        (id(&item), "acc_0123456789abcdef", "no account"),
    ] {
        let name = ["--account", account];
        for words in [["show", id].to_vec(), [&["resolve", id], &WHY[..]].concat()] {
            let output = service.run(&[&["notifications"], &words[..], &name].concat()).await;
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text(&output.stderr).contains(refusal), "{output:?}");
        }
    }
    for id in ["", "?", &"0".repeat(63), &NONE.replace('0', "A")] {
        let refused = service.failure(&["notifications", "show", id, "--account", &account]).await;
        assert!(refused.contains("64 hex digits"), "{refused}");
    }
    assert_eq!(service.objects(&["notifications", "list"]).await, [item]);
}

#[tokio::test]
async fn items_are_listed_100_at_a_time() {
    let service = AdminFixture::start().await;
    let (first, other) = (service.stack.seed.first.id, service.stack.seed.other.id);
    let (store, now) = (service.table("StateTable"), service.stack.clock.now());
    let connection = ConnectionId::derive("pix", &service.stack.bank_url, "loja");
    let new = |account: AccountId, number: i64| SetAsideItem {
        account,
        connection,
        sha256: format!("{number:064x}"),
        item: "{}".to_owned(),
        received_at: now.plus_seconds(-number).unwrap(),
    };
    let of_first = (1..=102).map(|number| new(first, number));
    for item in of_first.chain([new(other, 0)]) {
        let insert = Write::insert(&item).unwrap();
        assert_eq!(store.commit(vec![insert]).await.unwrap(), CommitOutcome::Done);
    }
    let page = async |more: &[&str]| {
        let output = service.run(&[&["notifications", "list"], more].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let lines = text(&output.stdout);
        let items: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // The first line names the stack.
        (items, text(&output.stderr).lines().skip(1).collect::<String>())
    };
    let (latest, hint) = page(&[]).await;
    assert_eq!((latest.len(), &latest[0]["account"]), (100, &json!(other)));
    assert_eq!(id(&latest[99]), format!("{:064x}", 99));
    assert!(hint.contains("name an account"), "{hint}");
    let account = first.to_string();
    let (items, hint) = page(&["--account", &account]).await;
    assert_eq!((items.len(), id(&items[99])), (100, format!("{:064x}", 100).as_str()));
    assert!(hint.contains(&format!("--starting-after {}", id(&items[99]))), "{hint}");
    let (rest, hint) = page(&["--account", &account, "--starting-after", id(&items[99])]).await;
    assert_eq!((rest.len(), id(&rest[0]), hint.as_str()), (2, format!("{:064x}", 101).as_str(), ""));
    let without_account = service.failure(&["notifications", "list", "--starting-after", NONE]).await;
    assert!(without_account.contains("--account"), "{without_account}");
}
