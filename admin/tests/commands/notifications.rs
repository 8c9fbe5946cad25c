//! Tests of the commands about items of banks' notifications that were set aside.

use bank::PayRequest;
use domain::acquirer::{ReportedPix, SetAsideItem};
use domain::audit::Operator;
use domain::ids::{AccountId, ConnectionId};
use hyper::Request;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use shared::store::{CommitOutcome, Write};

use crate::live_payments::Live;
use crate::{AdminFixture, eventually, exchange, fields, id, lines, text};

/// An id that no item has.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

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
        assert_eq!(exchange(request, &json!({ "pix": pix }).to_string()).await.0, 200);
    }

    /// Lists a page. Returns its objects, and what standard error says after the name of the stack.
    pub(crate) async fn page(&self, command: &str) -> (Vec<Value>, String) {
        let output = self.run(command).await;
        assert!(output.status.success(), "{output:?}");
        (lines(&output), text(&output.stderr).lines().skip(1).collect())
    }
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

    let of_account = format!("notifications list --account {}", live.account);
    let listed = service.objects(&of_account).await;
    let [item] = listed.iter().filter(|item| item["item"] != r#"{"evento":"teste"}"#).collect::<Vec<_>>()[..]
    else {
        panic!("{listed:?}")
    };
    let expected = format!(r#"{{"endToEndId":" {paid}","pagador":{{"cpf":"***.379.955-**"}}}}"#);
    assert_eq!((listed.len(), fields(item, &["item", "account"])), (2, json!([expected, live.account])));
    let mut of_all_accounts = service.objects("notifications list").await;
    of_all_accounts.sort_by_key(|item| id(item).to_owned());
    assert_eq!(of_all_accounts, listed);
    let command =
        |name: &str, item: &Value| format!("notifications {name} {} --account {}", id(item), live.account);
    assert_eq!(&service.object(&command("show", item)).await, item);

    let resolve = command("resolve", item);
    let resolved = service.change(&format!("{resolve} --read-back {paid}")).await;
    assert_eq!((&resolved["id"], &resolved["read_back"]["status"]), (&item["id"], &json!("reported")));
    let settled = live.wait_for_status(&charge, "paid").await;
    assert_eq!(settled["settlement"]["end_to_end_id"], paid);
    service.refuses(&format!("{resolve} --reason x"), "resolved already").await;

    // The other item names no Pix.
    let [other] = service.objects(&of_account).await.try_into().unwrap();
    assert_eq!(service.change(&command("resolve", &other)).await["read_back"], json!(null));
    for list in ["notifications list", &of_account] {
        assert!(service.objects(list).await.is_empty());
    }
    let mut audit = service.audit(&live.account).await;
    audit.retain(|row| row["action"] == "notification.resolve");
    assert_eq!(audit.len(), 2, "{audit:?}");
    for (row, (item, details)) in
        audit.iter().zip([(&other, json!({"read_back": null})), (item, json!({"read_back": paid}))])
    {
        let row = fields(row, &["subject", "details", "actor", "reason"]);
        assert_eq!(row, json!([item["id"], details, "ana", "agreed"]));
    }
}

#[tokio::test]
async fn a_pix_that_was_recorded_before_is_read_back_again() {
    let live = Live::start().await;
    let charge = live.charge(1000).await;
    let paid = live.pay(&charge, PayRequest::default()).end_to_end_id;
    live.merchant.advance(400).await;
    live.wait_for_status(&charge, "paid").await;
    live.stop_sweeps().await;
    let (store, key) = (live.service.table("StateTable"), ReportedPix::key_of(&paid.parse().unwrap()));
    let before: ReportedPix = store.get(&key).await.unwrap().unwrap();
    live.service.notify(json!([{"endToEndId": format!("{paid} ")}])).await;
    let [item] = live.service.objects("notifications list").await.try_into().unwrap();
    let resolve =
        format!("notifications resolve {} --account {} --read-back {paid}", id(&item), live.account);
    let resolved = live.service.change(&resolve).await;
    assert_eq!(
        fields(&resolved["read_back"], &["status", "end_to_end_id", "charge"]),
        json!(["recorded", paid, charge["id"]])
    );
    eventually("the Pix is read back", async || {
        let stored: ReportedPix = store.get(&key).await.unwrap().unwrap();
        (stored.version == before.version + 2 && stored.read_back_at.is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unknown_item_is_refused() {
    let service = AdminFixture::start().await;
    let (account, other) = (service.account(), service.stack.seed.other.id.to_string());
    service.notify(json!([{"evento": "teste"}])).await;
    let [item] = service.objects("notifications list").await.try_into().unwrap();
    for (id, account, refusal) in [
        (NONE, account.as_str(), "no such item"),
        (id(&item), &other, "no such item"),
        (id(&item), "acc_0123456789abcdef", "no account"),
    ] {
        for command in [format!("show {id}"), format!("resolve {id} --reason x")] {
            service.refuses(&format!("notifications {command} --account {account}"), refusal).await;
        }
    }
    for id in ["''", "?", &"0".repeat(63), &NONE.replace('0', "A")] {
        service.refuses(&format!("notifications show {id} --account {account}"), "64 hex digits").await;
    }
    assert_eq!(service.objects("notifications list").await, [item]);
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
    let (latest, hint) = service.page("notifications list").await;
    assert_eq!((latest.len(), &latest[0]["account"]), (100, &json!(other)));
    assert_eq!(id(&latest[99]), format!("{:064x}", 99));
    assert!(hint.contains("name an account"), "{hint}");
    let command = format!("notifications list --account {first}");
    let (items, hint) = service.page(&command).await;
    let last = id(&items[99]);
    assert_eq!((items.len(), last), (100, format!("{:064x}", 100).as_str()));
    assert!(hint.contains(&format!("--starting-after {last}")), "{hint}");
    let (rest, hint) = service.page(&format!("{command} --starting-after {last}")).await;
    assert_eq!((rest.len(), id(&rest[0]), hint.as_str()), (2, format!("{:064x}", 101).as_str(), ""));
    service.refuses(&format!("notifications list --starting-after {NONE}"), "--account").await;
}
