//! Tests of the commands about a connection to Stripe.

use std::sync::Arc;

use serde_json::{Value, json};
use stripe_client::{Client, ConnectionSettings, EVENT_TYPES, Hidden};

use domain::calendar::Day;
use domain::charge::IncomingPayment;
use domain::ids::{Mode, Scope};
use shared::store::Write;

use super::{AdminFixture, Merchant, eventually, fields, id, lines, text};

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
    let command = format!(
        "accounts set-acquirer {account} stripe --name two --base-url {url} --files-url {url} \
         --methods CREDIT_CARD --reason cards"
    );
    let key = &service.stack.seed.card_key;
    let without_fees = service.run_with(&command, key).await;
    assert!(text(&without_fees.stderr).contains("--fees-on-refund"), "{without_fees:?}");
    let set = async |key: &str| service.run_with(&format!("{command} --fees-on-refund keep"), key).await;
    let refused = set("sk_live_unknown").await;
    assert!(text(&refused.stderr).contains("nothing was changed"), "{refused:?}");
    assert!(!text(&refused.stderr).contains("sk_live_unknown"), "{refused:?}");

    let before = registered(&service);
    let done = set(key).await;
    assert!(done.status.success(), "{done:?}");
    let shown = lines(&done).pop().unwrap();
    assert_eq!(fields(&shown, &["kind", "methods"]), json!(["stripe", ["credit_card"]]), "{shown}");
    assert!(!shown.to_string().contains(key), "{shown}");
    assert_eq!(registered(&service), before + 1);
    let account_of = service.object(&format!("accounts show {account}")).await;
    assert!(account_of.to_string().contains("keep"), "{account_of}");
    // The same settings change nothing.
    assert!(set(key).await.status.success());
    assert_eq!(registered(&service), before + 1);

    let checks = service.objects(&format!("accounts check-acquirer {account} --name two")).await;
    let results: Value = checks.iter().map(|line| fields(line, &["check", "result"])).collect();
    let all = ["key", "rights", "account", "webhook", "notifications", "clock"].map(|check| [check, "ok"]);
    assert_eq!(results, json!(all));

    let rotated = service.change(&format!("accounts rotate-callback-token {account}")).await;
    assert_ne!(rotated["webhook_endpoint"], shown["webhook_endpoint"], "{rotated}");
    assert_eq!(registered(&service), before + 1, "the former URL is removed");

    // Without a name only the bank of Pix is removed, so a repeated command never removes another connection.
    let remove = format!("accounts remove-acquirer {account} --reason left");
    service.refuses(&remove, "has no bank of Pix").await;
    service.refuses(&format!("{remove} --name three"), "no current acquirer with the name three").await;
    let removed = service.change(&format!("accounts remove-acquirer {account} --name two")).await;
    let connection = removed["connection"].as_str().unwrap();
    // A connection that returns replaces its URL at Stripe.
    assert!(set(key).await.status.success());
    assert_eq!(registered(&service), before + 1);
    let taking =
        service.run_with(&format!("{} --fees-on-refund keep", command.replace("two", "three")), key).await;
    let said = text(&taking.stderr);
    assert!(said.contains("the connection two gets no new charges by CREDIT_CARD any more"), "{said}");
    // A URL whose registration was never stored.
    let lost = Hidden(format!("https://eventos.example.com/v1/acquirer-events/{account}/lost/hosted"));
    client_of(&service, key).create_webhook_endpoint(&lost, &EVENT_TYPES, "lost").await.unwrap();
    assert_eq!(registered(&service), before + 3);
    service.change(&format!("accounts forget-acquirer {account} {connection}")).await;
    assert_eq!(registered(&service), before + 1, "that of another connection stays");
    let removed = service.change(&format!("accounts remove-acquirer {account} --name three")).await;
    let connection = removed["connection"].as_str().unwrap();
    service.change(&format!("accounts forget-acquirer {account} {connection}")).await;
    assert_eq!(registered(&service), before);
}

/// Shows the connection of the first account that takes cards.
async fn connection_of_cards(service: &AdminFixture) -> Value {
    let mut shown = service.object(&format!("accounts show-acquirer {}", service.account())).await;
    let others = shown["others"].take();
    let mut all = others.as_array().into_iter().flatten().cloned().chain([shown]);
    all.find(|each| each["kind"] == "stripe").unwrap()
}

fn client_of(service: &AdminFixture, key: &str) -> Client {
    let (url, clock) = (service.stack.cards.url().to_owned(), service.stack.clock.clone());
    let settings = ConnectionSettings {
        base_url: url.clone(),
        files_url: url,
        api_key: key.into(),
        requests_per_second: None,
    };
    Client::new(&settings, Arc::new(move || clock.now())).unwrap()
}

#[tokio::test]
async fn each_right_that_a_restricted_key_lacks_is_named_and_nothing_is_created() {
    let service = AdminFixture::start().await;
    let account = service.account();
    let shown = connection_of_cards(&service).await;
    let name = shown["name"].as_str().unwrap();
    let control = |path: &str, body: Value| service.stack.cards.control("POST", path, &body);
    let check = async |name_of: &str| {
        let output = service.run(&format!("accounts check-acquirer {account} --name {name}")).await;
        lines(&output).into_iter().find(|line| line["check"] == name_of).unwrap()
    };
    let books = || service.stack.cards.control("GET", "/books", &json!({}));
    let before = books();
    for (resource, right) in [
        ("account:read", "Accounts: read"),
        ("checkout:write", "Checkout Sessions: write"),
        // The connection takes boletos too.
        ("payment_intents:write", "PaymentIntents: write"),
        ("refunds:write", "Charges and Refunds: write"),
        ("balance_transactions:read", "Balance transaction sources: read"),
        ("disputes:write", "Disputes: write"),
        ("files:write", "Files: write"),
        ("events:read", "Events: read"),
        ("webhook_endpoints:write", "Webhook Endpoints: write"),
    ] {
        control("/behaviour", json!({"missing_rights": [resource]}));
        let lacks = format!("the key lacks the rights: {right}");
        let checked = check("rights").await;
        assert_eq!(fields(&checked, &["result", "detail"]), json!(["failed", lacks]));
        let set = format!("accounts set-acquirer {account} stripe --name {name} --reason cards");
        service.refuses(&set, &format!("nothing was changed, because {lacks}\n")).await;
    }
    control("/behaviour", json!({"missing_rights": []}));
    assert_eq!(check("rights").await["result"], "ok");
    assert_eq!(books(), before);

    // Stripe does not list the capability of every account that takes cards.
    let set = async || {
        let command = format!("accounts set-acquirer {account} stripe --name {name} --requests-per-second 9");
        service.run(&format!("{command} --reason cards")).await
    };
    control("/account", json!({"capabilities": {"card_payments": "pending"}}));
    let warned = set().await;
    assert!(warned.status.success() && text(&warned.stderr).contains("warning: "), "{warned:?}");
    assert_eq!(check("account").await["result"], "not_verified");
    control("/account", json!({"capabilities": {"card_payments": "inactive"}}));
    assert!(text(&set().await.stderr).contains("is inactive"));
    assert_eq!(check("account").await["result"], "failed");
}

#[tokio::test]
async fn a_secret_that_was_changed_at_stripe_is_found_by_the_events_that_it_could_not_deliver() {
    let cards = Cards::start().await;
    let (service, account) = (&cards.service, cards.service.account());
    let shown = connection_of_cards(service).await;
    let (name, endpoint) = (shown["name"].as_str().unwrap(), shown["webhook_endpoint"].as_str().unwrap());
    let notifications = async || {
        service.stack.clock.advance(180_000);
        service.stack.cards.wake();
        let output = service.run(&format!("accounts check-acquirer {account} --name {name}")).await;
        lines(&output).into_iter().find(|line| line["check"] == "notifications").unwrap()
    };
    cards.paid("secret-1").await;
    assert_eq!(notifications().await["result"], "ok");
    service.stack.cards.control("POST", &format!("/webhook-endpoints/{endpoint}/roll"), &json!({}));
    let charge = cards.charge("secret-2").await;
    cards.act("/pay", &charge, &json!({}));
    let failed = notifications().await;
    assert_eq!(failed["result"], "failed", "{failed}");
    assert!(failed["detail"].as_str().unwrap().contains("rotate-callback-token"), "{failed}");
    service.change(&format!("accounts rotate-callback-token {account} --name {name}")).await;
    assert_eq!(notifications().await["result"], "ok");
}

/// The first account, which takes cards at the stand-in.
struct Cards {
    service: AdminFixture,
    merchant: Merchant,
}

impl Cards {
    async fn start() -> Self {
        let service = AdminFixture::start().await;
        Self { merchant: Merchant::live(&service), service }
    }

    async fn charge(&self, key: &str) -> Value {
        let body = json!({
            "amount": 10_000, "currency": "BRL", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": key,
        });
        self.merchant.post("/v1/payments", body).await
    }

    /// Plays the payer, the bank or the acquirer's dashboard.
    fn act(&self, path: &str, charge: &Value, more: &Value) -> Value {
        let mut body = json!({"metadata": {"charge": format!("ch_{}", id(charge))}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = self.service.stack.cards.control("POST", path, &body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn until(&self, charge: &Value, status: &str) {
        let path = format!("/v1/payments/{}", id(charge));
        eventually(status, async || (self.merchant.get(&path).await["status"] == status).then_some(())).await;
    }

    /// Reconciles the day. Returns the exit code and the lines.
    async fn reconcile(&self, more: &str) -> (Option<i32>, Vec<Value>) {
        let (account, connection) = (self.service.account(), connection_of_cards(&self.service).await);
        let (connection, day) = (text_of(&connection["connection"]), Day::of(self.service.stack.clock.now()));
        let command = format!("reconcile --account {account} --connection {connection} --date {day} {more}");
        let output = self.service.run(&command).await;
        (output.status.code(), lines(&output))
    }

    fn books(&self) -> Value {
        self.service.stack.cards.control("GET", "/books", &json!({})).1
    }

    async fn until_refunded(&self, charge: &Value, amount: i64) {
        let path = format!("/v1/payments/{}", id(charge));
        eventually("the refund", async || {
            (self.merchant.get(&path).await["refundedAmount"] == amount).then_some(())
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
    let listed = format!("/v1/med/cases?charge_id=ch_{}", id(&charge));
    let case = id(&cards.merchant.get(&listed).await["data"][0]).to_owned();
    let forward =
        async |more: &str| cards.service.run(&format!("med forward {case} --reason cards {more}")).await;
    let nothing = forward("").await;
    assert!(text(&nothing.stderr).contains("nothing to send"), "{nothing:?}");

    let mut ids = Vec::new();
    for (name, content) in
        [("nota.pdf", &b"%PDF-1.7\n1"[..]), ("foto.gif", b"GIF89a 2"), ("recibo.png", b"\x89PNG\r\n\x1a\n 3")]
    {
        let path = cards.service.file(name, content);
        let added = cards.service.change(&format!("med evidence add {case} {path}")).await;
        ids.push(id(&added).to_owned());
    }
    let several = forward("").await;
    assert!(lines(&several).iter().all(|line| line["field"].is_null()), "{several:?}");
    let unknown = forward(&format!("--file {}=all", ids[0])).await;
    assert!(text(&unknown.stderr).contains("must be one of"), "{unknown:?}");
    let files = format!("--file {}=receipt --file {}=shipping_documentation", ids[0], ids[2]);
    let plan = lines(&forward(&files).await);
    let of = |id: &str| plan.iter().find(|line| line["file"] == id).unwrap();
    assert_eq!(fields(of(&ids[0]), &["field", "not_sent"]), json!(["receipt", null]));
    assert!(of(&ids[1])["not_sent"].as_str().unwrap().contains("PDF, JPEG and PNG"), "{plan:?}");
    assert_eq!(plan.last().unwrap()["submitted"], false);

    let submit = format!("{files} --submit");
    for unsendable in [
        format!("{submit} --file {}=refund_policy", ids[1]),
        format!("--file {}=receipt --file {}=receipt --submit", ids[0], ids[2]),
    ] {
        for dry_run in ["", " --dry-run"] {
            let refused = forward(&format!("{unsendable}{dry_run}")).await;
            assert!(text(&refused.stderr).contains("nothing was sent"), "{refused:?}");
        }
    }
    // Stripe stores a failure, and repeats it for the key.
    let stored = json!({"kind": "stored_500", "on": "POST /v1/disputes/", "count": 1});
    cards.service.stack.cards.control("POST", "/faults", &stored);
    let failed = forward(&submit).await;
    assert!(text(&failed.stderr).contains("Run the command again"), "{failed:?}");
    let sent = forward(&submit).await;
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(lines(&sent).last().unwrap()["status"], "under_review");
    let (_, books) = cards.service.stack.cards.control("GET", "/books", &json!({}));
    let books = books.to_string();
    assert!(books.contains(r#""submission_count":1"#), "{dispute}");
    // Another submission uploads the files again.
    assert_eq!(books.matches(r#""object":"file""#).count(), 4);
    let again = forward(&submit).await;
    assert!(text(&again.stderr).contains("submitted before"), "{again:?}");
    let actions = cards.service.actions(&cards.service.account()).await;
    assert!(actions.iter().any(|action| action == "med.forward"), "{actions:?}");
}

#[tokio::test]
async fn a_day_of_cards_is_reconciled_by_the_acquirers_movements() {
    let cards = Cards::start().await;
    let mut charges = Vec::new();
    for number in 0..3 {
        charges.push(cards.paid(&format!("reconcile-{number}")).await);
    }
    cards.act("/refund", &charges[1], &json!({"amount": 4_000}));
    cards.until_refunded(&charges[1], 4_000).await;
    cards.act("/dispute", &charges[2], &json!({"kind": "formal"}));
    cards.until(&charges[2], "CHARGEBACK").await;
    cards.service.stack.cards.control("POST", "/pay-elsewhere", &json!({"amount": 900, "currency": "brl"}));
    let reconcile = async |more: &str| cards.reconcile(more).await;
    let sums = |lines: &[Value]| fields(lines.last().unwrap(), &["payments", "others", "differences"]);
    let same = eventually("equal", async || {
        let (code, lines) = reconcile("").await;
        (code == Some(0)).then_some(lines)
    })
    .await;
    assert_eq!(sums(&same), json!([4, 1, 0]), "{same:?}");

    // Its notifications are lost.
    let lost = cards.charge("reconcile-lost").await;
    cards.service.stack.cards.control("POST", "/faults", &json!({"kind": "lost_notification", "count": 20}));
    cards.act("/pay", &lost, &json!({}));
    let (code, lines) = reconcile("").await;
    assert_eq!((code, &lines[0]["reason"]), (Some(1), &json!("a payment is not recorded")), "{lines:?}");
    let (code, lines) = reconcile("--apply").await;
    assert_eq!((code, sums(&lines)), (Some(0), json!([5, 1, 0])), "{lines:?}");
    cards.until(&lost, "APPROVED").await;

    cards.service.stack.cards.control("DELETE", "/faults", &json!({}));
    // One minor unit more than the case retains.
    let dispute = cards.act("/dispute", &charges[0], &json!({"kind": "formal"}));
    cards.until(&charges[0], "CHARGEBACK").await;
    let dispute = id(&dispute).to_owned();
    let decide =
        |body: Value| cards.service.stack.cards.control("POST", &format!("/disputes/{dispute}"), &body);
    decide(json!({"amount": 10_001}));
    let (code, lines) = reconcile("").await;
    let of_case =
        |line: &&Value| line["object"].as_str().is_some_and(|object| object.starts_with("case med_"));
    let found = lines.iter().find(of_case).unwrap_or_else(|| panic!("{lines:?}"));
    let amounts = fields(found, &["acquirer_amount", "recorded_amount"]);
    assert_eq!((code, amounts), (Some(1), json!([-10_001, -10_000])), "{lines:?}");
    decide(json!({"status": "lost"}));
    let (code, lines) = eventually("the loss", async || {
        let (code, lines) = reconcile("").await;
        (code == Some(0)).then_some((code, lines))
    })
    .await;
    assert_eq!((code, sums(&lines)), (Some(0), json!([5, 1, 0])), "{lines:?}");
    let shown = cards.service.run(&format!("charges show ch_{}", id(&charges[0]))).await;
    let shown = text(&shown.stdout);
    assert!(shown.contains("dispute_fees") && shown.contains("case_lost"), "{shown}");

    let scope = Scope { account: cards.service.stack.seed.first.id, mode: Mode::Live };
    let store = cards.service.table("StateTable");
    let payment = cards.service.object(&format!("charges show ch_{}", id(&lost))).await.to_string();
    let id = payment.split('"').find(|part| part.starts_with("pi_")).unwrap().parse().unwrap();
    let row: IncomingPayment = store.get(&IncomingPayment::key_of(&scope, &id)).await.unwrap().unwrap();
    let amount = domain::money::Amount::parse(9_999).unwrap();
    let wrong = IncomingPayment { amount, version: row.version + 1, ..row.clone() };
    let _done = store.commit(vec![Write::replace(&wrong, row.version).unwrap()]).await.unwrap();
    let (code, lines) = reconcile("").await;
    let difference = fields(&lines[0], &["reason", "acquirer_amount", "recorded_amount"]);
    assert_eq!((code, difference), (Some(1), json!(["amount or fee differ", 10_000, 9_999])), "{lines:?}");

    // One odd dispute, and one movement that can't be read, hide nothing else.
    let odd = cards.act("/dispute", &charges[0], &json!({"kind": "formal", "currency": "usd"}));
    let fault = json!({"kind": "malformed_entry", "on": "GET /v1/balance_transactions", "count": 20});
    cards.service.stack.cards.control("POST", "/faults", &fault);
    let (code, lines) = reconcile("").await;
    let reasons: Vec<&str> = lines.iter().filter_map(|line| line["reason"].as_str()).collect();
    for expected in [super::id(&odd), "odd_1", "amount or fee differ"] {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected}: {lines:?}");
    }
    assert_eq!(code, Some(1));
}

/// The acquirer has stored a second refund with the name of a first one.
#[tokio::test]
async fn a_second_execution_of_a_refund_is_a_difference_until_it_is_recorded() {
    let cards = Cards::start().await;
    let charge = cards.paid("reconcile-twice").await;
    let refund = json!({"amount": 1_500, "idempotencyKey": "refund-twice"});
    cards.merchant.post(&format!("/v1/payments/{}/refund", id(&charge)), refund).await;
    cards.until_refunded(&charge, 1_500).await;
    // One that fails before it was recorded is no refund here, and its money is back there.
    cards.service.stack.cards.control("POST", "/faults", &json!({"kind": "refund_fails", "count": 1}));
    cards.act("/refund", &charge, &json!({"amount": 900}));
    eventually("no difference", async || (cards.reconcile("").await.0 == Some(0)).then_some(())).await;
    let books = cards.books();
    let of_merchant = |refund: &&Value| refund["amount"] == 1_500;
    let ours = books["refunds"].as_array().unwrap().iter().find(of_merchant).unwrap().clone();
    let lost = json!({"kind": "lost_notification", "count": 20});
    cards.service.stack.cards.control("POST", "/faults", &lost);
    // What is under way, and the sweep, would record it too.
    eventually("no notification", async || {
        let is_idle = cards.service.stack.functions.running_invocations() == 0;
        (is_idle && cards.books()["unsent_notifications"] == 0).then_some(())
    })
    .await;
    let unlisted = json!({"kind": "http_500", "on": "GET /v1/events", "count": 1_000_000});
    cards.service.stack.cards.control("POST", "/faults", &unlisted);
    let client = client_of(&cards.service, &cards.service.stack.seed.card_key);
    let metadata = serde_json::from_value(ours["metadata"].clone()).unwrap();
    let amount = domain::money::Amount::parse(500).unwrap();
    let payment = text_of(&ours["payment_intent"]);
    let (mut refunded, mut found) = (1_500, (Some(0), Vec::new()));
    // A message that waited may lead to a read, which records one.
    while found.0 == Some(0) && refunded < 5_000 {
        client.create_refund(payment, amount, &metadata, &format!("another-key-{refunded}")).await.unwrap();
        refunded += 500;
        found = cards.reconcile("").await;
    }
    let (code, lines) = found;
    let reason = json!("a refund was made at the acquirer that is not recorded");
    assert_eq!((code, &lines[0]["reason"]), (Some(1), &reason), "{lines:?}");
    let (code, lines) = cards.reconcile("--apply").await;
    assert_eq!((code, &lines.last().unwrap()["differences"]), (Some(0), &json!(0)), "{lines:?}");
    cards.until_refunded(&charge, refunded).await;
    assert_eq!(cards.reconcile("").await.0, Some(0));
}

#[tokio::test]
async fn a_dispute_may_have_any_number_of_movements() {
    let cards = Cards::start().await;
    let charge = cards.paid("reconcile-many").await;
    let dispute = cards.act("/dispute", &charge, &json!({"kind": "formal"}));
    cards.until(&charge, "CHARGEBACK").await;
    let path = format!("/disputes/{}", id(&dispute));
    let decide = |body: Value| cards.service.stack.cards.control("POST", &path, &body);
    decide(json!({"status": "lost"}));
    // Each change of the amount is a movement there, and a posting here.
    for amount in 9_982..10_000 {
        decide(json!({"amount": amount}));
        let (code, lines) = cards.reconcile("--apply").await;
        assert_eq!(code, Some(0), "{amount}: {lines:?}");
    }
    let moved = cards.books()["balance_transactions"].as_array().unwrap().len();
    assert!(moved > 18, "{moved}");
    let shown = cards.service.run(&format!("charges show ch_{}", id(&charge))).await;
    assert!(text(&shown.stdout).contains("case_lost"), "{shown:?}");
}

#[tokio::test]
async fn a_settlement_in_another_currency_is_a_line_apart() {
    let cards = Cards::start().await;
    let behaviour = |rate: u32| {
        let rate = json!({"exchange_rate_millionths": rate});
        cards.service.stack.cards.control("POST", "/behaviour", &rate);
    };
    behaviour(5_420_000);
    let body = json!({
        "amount": 10_000, "currency": "EUR", "paymentMethods": ["CREDIT_CARD"], "idempotencyKey": "exchange",
    });
    let charge = cards.merchant.post("/v1/payments", body).await;
    cards.act("/pay", &charge, &json!({"fee": 531}));
    cards.until(&charge, "APPROVED").await;
    behaviour(5_500_000);
    cards.act("/refund", &charge, &json!({"amount": 4_000}));
    cards.until_refunded(&charge, 4_000).await;
    let (code, lines) = eventually("the costs", async || {
        let (code, lines) = cards.reconcile("").await;
        (code == Some(0)).then_some((code, lines))
    })
    .await;
    // Of 542.00 BRL the refund has taken 220.00. 60.00 EUR at 5.42 would be 325.20.
    let expected = json!([
        "exchanged",
        format!("ch_{}", id(&charge)),
        "exchange EUR to BRL",
        32_200,
        6_000,
        "fees and losses by exchange of 851 BRL are posted as acquirer fees",
    ]);
    let names = ["state", "charge", "object", "acquirer_amount", "recorded_amount", "reason"];
    assert_eq!((code, lines.len(), fields(&lines[0], &names)), (Some(0), 2, expected), "{lines:?}");
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap()
}
