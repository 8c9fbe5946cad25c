//! Tests of the commands about a connection to Stripe.

use serde_json::{Value, json};

use domain::calendar::Day;
use domain::charge::IncomingPayment;
use domain::ids::{Mode, Scope};
use shared::store::{Store, Write};

use super::{AdminFixture, Merchant, eventually, text};

const WHY: [&str; 2] = ["--reason", "cards"];

/// Returns how many URLs for notifications are registered.
fn registered(service: &AdminFixture) -> usize {
    let (_, books) = service.stack.cards.control("GET", "/books", &json!({}));
    books.to_string().matches(r#""object":"webhook_endpoint""#).count()
}

#[tokio::test]
async fn a_connection_to_stripe_is_set_checked_rotated_and_forgotten() {
    let service = AdminFixture::start().await;
    let account = service.stack.seed.other.id.to_string();
    let url = service.stack.cards.url().to_owned();
    let set = async |key: &str, more: &[&str]| {
        let command = ["accounts", "set-acquirer", &account, "stripe", "--name", "two", "--base-url", &url];
        let rest = ["--files-url", &url, "--methods", "CREDIT_CARD"];
        service.run_with(&[&command[..], &rest, &WHY, more].concat(), key).await
    };
    let without_fees = set(&service.stack.seed.card_key, &[]).await;
    assert!(text(&without_fees.stderr).contains("--fees-on-refund"), "{without_fees:?}");
    let keep = ["--fees-on-refund", "keep"];
    let refused = set("sk_live_unknown", &keep).await;
    assert!(text(&refused.stderr).contains("nothing was changed"), "{refused:?}");
    assert!(!text(&refused.stderr).contains("sk_live_unknown"), "{refused:?}");

    let before = registered(&service);
    let done = set(&service.stack.seed.card_key, &keep).await;
    assert!(done.status.success(), "{done:?}");
    let shown: Value = serde_json::from_str(text(&done.stdout).lines().last().unwrap()).unwrap();
    assert_eq!((&shown["kind"], &shown["methods"]), (&json!("stripe"), &json!(["credit_card"])), "{shown}");
    assert!(!shown.to_string().contains(&service.stack.seed.card_key), "{shown}");
    assert_eq!(registered(&service), before + 1);
    let account_of = service.object(&["accounts", "show", &account]).await;
    assert!(account_of.to_string().contains("keep"), "{account_of}");
    // The same settings change nothing.
    assert!(set(&service.stack.seed.card_key, &keep).await.status.success());
    assert_eq!(registered(&service), before + 1);

    let checks = service.objects(&["accounts", "check-acquirer", &account, "--name", "two"]).await;
    let results: Vec<(&str, &str)> = checks
        .iter()
        .map(|line| (line["check"].as_str().unwrap(), line["result"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [("key", "ok"), ("account", "ok"), ("webhook", "ok"), ("clock", "ok")], "{checks:?}");

    let rotate = [&["accounts", "rotate-callback-token", &account][..], &WHY].concat();
    let rotated = service.object(&rotate).await;
    assert_ne!(rotated["webhook_endpoint"], shown["webhook_endpoint"], "{rotated}");
    assert_eq!(registered(&service), before + 1, "the former URL is removed");

    let removed = service.object(&[&["accounts", "remove-acquirer", &account][..], &WHY].concat()).await;
    let connection = removed["connection"].as_str().unwrap();
    let forget = [&["accounts", "forget-acquirer", &account, connection][..], &WHY].concat();
    service.object(&forget).await;
    assert_eq!(registered(&service), before);
}

/// The first account, which takes cards at the stand-in.
struct Cards {
    service: AdminFixture,
    merchant: Merchant,
}

impl Cards {
    async fn start() -> Self {
        let service = AdminFixture::start().await;
        let key = service.stack.seed.first.live_api_key.clone();
        let merchant = Merchant { base_url: service.stack.base_url.clone(), key };
        Self { service, merchant }
    }

    async fn charge(&self, key: &str) -> Value {
        let body = json!({
            "amount": 10_000, "currency": "BRL", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": key,
        });
        self.merchant.send("POST", "/v1/payments", body).await
    }

    /// Plays the payer, the bank or the acquirer's dashboard.
    fn act(&self, path: &str, charge: &Value, more: &Value) -> Value {
        let mut body = json!({"metadata": {"charge": format!("ch_{}", charge["id"].as_str().unwrap())}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.service.stack.cards.control("POST", path, &body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn until(&self, charge: &Value, status: &str) {
        let path = format!("/v1/payments/{}", charge["id"].as_str().unwrap());
        eventually(status, async || {
            (self.merchant.send("GET", &path, json!(null)).await["status"] == status).then_some(())
        })
        .await;
    }

    async fn paid(&self, key: &str) -> Value {
        let charge = self.charge(key).await;
        self.act("/pay", &charge, &json!({}));
        self.until(&charge, "APPROVED").await;
        charge
    }
}

#[tokio::test]
async fn the_evidence_of_a_dispute_is_submitted_once() {
    let cards = Cards::start().await;
    let charge = cards.paid("forward-1").await;
    let dispute = cards.act("/dispute", &charge, &json!({"kind": "formal"}));
    cards.until(&charge, "CHARGEBACK").await;
    let listed = format!("/v1/med/cases?charge_id=ch_{}", charge["id"].as_str().unwrap());
    let case = cards.merchant.send("GET", &listed, json!(null)).await["data"][0].clone();
    let id = case["id"].as_str().unwrap();
    let forward =
        async |more: &[&str]| cards.service.run(&[&["med", "forward", id][..], &WHY, more].concat()).await;
    let nothing = forward(&[]).await;
    assert!(text(&nothing.stderr).contains("nothing to send"), "{nothing:?}");

    let directory = std::env::temp_dir().join(format!("forward-{id}"));
    std::fs::create_dir_all(&directory).unwrap();
    let mut ids = Vec::new();
    for (name, content) in
        [("nota.pdf", &b"%PDF-1.7\n1"[..]), ("foto.gif", b"GIF89a 2"), ("recibo.png", b"\x89PNG\r\n\x1a\n 3")]
    {
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        let add = ["med", "evidence", "add", id, path.to_str().unwrap()];
        let added = cards.service.object(&[&add[..], &WHY].concat()).await;
        ids.push(added["id"].as_str().unwrap().to_owned());
    }
    let lines = |output: &std::process::Output| -> Vec<Value> {
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let several = forward(&[]).await;
    assert!(lines(&several).iter().all(|line| line["field"].is_null()), "{several:?}");
    let (first, third) = (format!("{}=receipt", ids[0]), format!("{}=shipping_documentation", ids[2]));
    let unknown = forward(&["--file", &format!("{}=all", ids[0])]).await;
    assert!(text(&unknown.stderr).contains("must be one of"), "{unknown:?}");
    let files = ["--file", &first, "--file", &third];
    let shown = forward(&files).await;
    let plan = lines(&shown);
    let of = |id: &str| plan.iter().find(|line| line["file"] == id).unwrap();
    assert_eq!((&of(&ids[0])["field"], &of(&ids[0])["not_sent"]), (&json!("receipt"), &json!(null)));
    assert!(of(&ids[1])["not_sent"].as_str().unwrap().contains("PDF, JPEG and PNG"), "{plan:?}");
    assert_eq!(plan.last().unwrap()["submitted"], false);

    let sent = forward(&[&files[..], &["--submit"]].concat()).await;
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(lines(&sent).last().unwrap()["status"], "under_review");
    let (_, books) = cards.service.stack.cards.control("GET", "/books", &json!({}));
    let books = books.to_string();
    assert!(books.contains(r#""submission_count":1"#), "{dispute}");
    assert_eq!(books.matches(r#""object":"file""#).count(), 2);
    let again = forward(&[&files[..], &["--submit"]].concat()).await;
    assert!(text(&again.stderr).contains("submitted before"), "{again:?}");
    let actions = cards.service.audit(&cards.service.account()).await;
    assert!(actions.iter().any(|row| row["action"] == "med.forward"), "{actions:?}");
}

#[tokio::test]
async fn a_day_of_cards_is_reconciled_by_the_acquirers_movements() {
    let cards = Cards::start().await;
    let (account, now) = (cards.service.account(), cards.service.stack.clock.now());
    let shown = cards.service.objects(&["accounts", "show-acquirer", &account]).await;
    let shown = serde_json::to_string(&shown).unwrap();
    let found: Vec<&str> = shown.split('"').filter(|part| part.starts_with("con_")).collect();
    let (mut charges, day) = (Vec::new(), Day::of(now).to_string());
    for number in 0..3 {
        charges.push(cards.paid(&format!("reconcile-{number}")).await);
    }
    cards.act("/refund", &charges[1], &json!({"amount": 4_000}));
    let path = format!("/v1/payments/{}", charges[1]["id"].as_str().unwrap());
    eventually("the refund", async || {
        (cards.merchant.send("GET", &path, json!(null)).await["refundedAmount"] == 4_000).then_some(())
    })
    .await;
    cards.act("/dispute", &charges[2], &json!({"kind": "formal"}));
    cards.until(&charges[2], "CHARGEBACK").await;
    cards.service.stack.cards.control("POST", "/pay-elsewhere", &json!({"amount": 900, "currency": "brl"}));
    let reconcile = async |more: &[&str]| {
        let mut last = None;
        for connection in &found {
            let command = ["reconcile", "--account", &account, "--connection", connection, "--date", &day];
            let output = cards.service.run(&[&command[..], more].concat()).await;
            let lines: Vec<Value> =
                text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if lines.last().is_some_and(|line| !line["payments"].is_null()) {
                last = Some((output.status.code(), lines));
            }
        }
        last.expect("a connection of cards")
    };
    let sums = |lines: &[Value]| {
        let last = lines.last().unwrap();
        ["payments", "others", "differences"].map(|name| last[name].as_i64().unwrap())
    };
    let same = eventually("equal", async || {
        let (code, lines) = reconcile(&[]).await;
        (code == Some(0)).then_some(lines)
    })
    .await;
    assert_eq!(sums(&same), [4, 1, 0], "{same:?}");

    // Its notifications are lost.
    let lost = cards.charge("reconcile-lost").await;
    cards.service.stack.cards.control("POST", "/faults", &json!({"kind": "lost_notification", "count": 20}));
    cards.act("/pay", &lost, &json!({}));
    let (code, lines) = reconcile(&[]).await;
    assert_eq!((code, &lines[0]["reason"]), (Some(1), &json!("a payment is not recorded")), "{lines:?}");
    let (code, lines) = reconcile(&["--apply"]).await;
    assert_eq!((code, sums(&lines)), (Some(0), [5, 1, 0]), "{lines:?}");
    cards.until(&lost, "APPROVED").await;

    let scope = Scope { account: cards.service.stack.seed.first.id, mode: Mode::Live };
    let store = Store::new(local::sdk::dynamodb(&cards.service.stack.endpoints.dynamodb_url), "StateTable");
    let payment =
        cards.service.object(&["charges", "show", &format!("ch_{}", lost["id"].as_str().unwrap())]).await;
    let payment = payment.to_string();
    let id = payment.split('"').find(|part| part.starts_with("pi_")).unwrap().parse().unwrap();
    let row: IncomingPayment = store.get(&IncomingPayment::key_of(&scope, &id)).await.unwrap().unwrap();
    let amount = domain::money::Amount::parse(9_999).unwrap();
    let wrong = IncomingPayment { amount, version: row.version + 1, ..row.clone() };
    let _done = store.commit(vec![Write::replace(&wrong, row.version).unwrap()]).await.unwrap();
    let (code, lines) = reconcile(&[]).await;
    assert_eq!((code, &lines[0]["reason"]), (Some(1), &json!("amount or fee differ")), "{lines:?}");
    assert_eq!((&lines[0]["acquirer_amount"], &lines[0]["recorded_amount"]), (&json!(10_000), &json!(9_999)));
}
