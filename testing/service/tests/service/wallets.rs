//! Tests of the wallets, the statement and the ledger behind them.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use axum::http::Method;
use domain::account::terms::{Fee, Fees, MethodTerms};
use domain::ids::{PayoutId, PostingId};
use domain::money::{Amount, Currency, MinorUnits};
use domain::payout::{Payout, PayoutOutcome};
use domain::shard::{Shard, ShardCount};
use domain::wallet::{Cause, LedgerAccount, RefundShare, RefundStrategy, Release, Subject, Wallet, rules};
use faults::proxy::Fault;
use money::charge::Charges;
use money::payout::{PayoutError, Payouts};
use money::wallet::{Adjustment, AdjustmentOutcome, CachedCredits, DebitPlan, Wallets};
use serde_json::{Value, json};
use services::verify_ledger;
use shared::store::{CommitOutcome, StoreError};
use std::collections::HashMap;
use tokio::task::JoinSet;

use crate::support::{Answer, Client, Listener, Service, eventually, id, operator};

/// Returns terms with an acquirer fee of 0.99 % plus 5 and a platform fee of 1 %.
fn fees() -> MethodTerms {
    MethodTerms {
        acquirer_fee: Fee::new(5, 99).unwrap(),
        platform_fee: Fee::new(0, 100).unwrap(),
        ..MethodTerms::default()
    }
}

impl Service {
    async fn balance(&self) -> Value {
        self.get("/v1/wallets/balance").await.expect(200)
    }

    async fn wallet(&self, currency: Currency) -> Wallet {
        self.wallets().in_currency(&self.sharded(&self.scope()).await, currency).await.unwrap()
    }

    async fn balance_of(&self, account: LedgerAccount) -> i64 {
        self.wallet(Currency::BRL).await.balance(account).unwrap().get()
    }

    /// Returns the first tranche of held money.
    async fn first_release(&self) -> Release {
        self.wallet(Currency::BRL).await.releases().next().unwrap()
    }

    /// Adjusts the balance as an operator does. `note` is shown to the merchant.
    pub(crate) async fn adjust(&self, minor: i64, note: &str) -> PostingId {
        let now = self.stack.clock.now();
        let id = PostingId::new(now, shared::random::bytes().unwrap());
        let note = Some(note.to_owned());
        let reference = id.to_string().parse().unwrap();
        let adjustment =
            Adjustment { id, reference, scope: self.scope(), currency: Currency::BRL, minor, note };
        let adjusted = self.wallets().adjust(&adjustment, &operator(), now).await.unwrap();
        assert!(matches!(adjusted, AdjustmentOutcome::Done(_)), "{adjusted:?}");
        id
    }
}

impl Client {
    pub(crate) async fn movements(&self, query: &str) -> Vec<Value> {
        self.list(&format!("/v1/wallets/transactions{query}")).await
    }
}

#[tokio::test]
async fn a_new_wallet_is_zero_in_every_representation() {
    let service = Service::start().await;
    let zero = json!({"currency": "BRL", "available": 0, "pending": 0, "total": 0});
    assert_eq!(
        service.balance().await,
        json!({
            "available": 0, "pending": 0, "currency": "BRL", "next_release_at": null, "next_release_amount": null,
            "total": 0, "retained": 0, "balances": [zero.clone()], "primary": zero,
        })
    );
    for currency in ["BRL", "EUR", "USDT"] {
        assert_eq!(
            service.get(&format!("/v1/wallets/balance?currency={currency}")).await.expect(200),
            json!({"available": 0, "pending": 0, "currency": currency, "next_release_at": null, "next_release_amount": null})
        );
    }
    assert_eq!(
        service.get("/v1/wallets").await.expect(200),
        json!([{"currency": "BRL", "walletType": "OPERATIONAL", "balance": 0, "pendingBalance": 0}])
    );
    assert_eq!(
        service.get("/v1/wallets/transactions").await.expect(200),
        json!({"object": "list", "data": [], "has_more": false, "next_cursor": null})
    );
}

#[tokio::test]
async fn a_settlement_credits_its_net_amount_and_appears_in_the_statement_of_its_scope_alone() {
    let service = Service::start().await;
    service.set_terms(fees()).await;
    let charge = service.pay(10_000).await;
    // 0.99 % of 10,000 plus 5 for the acquirer, and 1 % for the platform.
    let (acquirer, platform) = (104, 100);
    let balance = service.balance().await;
    assert_eq!(
        (&balance["available"], &balance["pending"]),
        (&json!(10_000 - acquirer - platform), &json!(0))
    );
    let wallets = service.get("/v1/wallets").await.expect(200);
    assert_eq!(wallets[0]["balance"], balance["available"]);
    let movement = service.movements("").await.remove(0);
    assert_eq!(
        movement,
        json!({
            "id": movement["id"], "object": "wallet_transaction", "type": "settlement", "amount": 10_000,
            "fee": acquirer + platform, "net": 9_796, "currency": "BRL",
            "changes": {"available": 9_796, "pending": 0, "retained": 0},
            "charge_id": charge["id"], "refund_id": null, "med_case_id": null, "payout_id": null, "note": null,
            "created_at": movement["created_at"],
        })
    );
    assert_eq!(service.balance_of(LedgerAccount::AcquirerFees).await, acquirer);
    assert_eq!(service.balance_of(LedgerAccount::PlatformFees).await, platform);
    assert_eq!(service.balance_of(LedgerAccount::AcquirerClearing).await, -10_000);
    let seed = &service.stack.seed;
    for key in [&seed.first.live_api_key, &seed.other.test_api_key, &seed.other.live_api_key] {
        let balance = service.get_as(key, "/v1/wallets/balance").await.expect(200);
        assert_eq!((&balance["available"], &balance["total"]), (&json!(0), &json!(0)));
        assert_eq!(service.get_as(key, "/v1/wallets/transactions").await.expect(200)["data"], json!([]));
    }
    // A charge's response contains no fee.
    for object in [&charge, &charge["pix"], &charge["settlement"], &charge["customer"]] {
        let names: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert!(!names.iter().any(|name| name.to_lowercase().contains("fee")), "{names:?}");
    }
    service.check_ledger().await;
}

#[tokio::test]
async fn held_money_is_pending_until_its_release_date_and_is_released_once() {
    let service = Service::start().await;
    let held = |hold_days| MethodTerms { hold_days, ..fees() };
    service.set_terms(held(2)).await;
    service.pay(1_000).await;
    service.pay(2_000).await;
    service.set_terms(held(1)).await;
    service.pay(4_000).await;
    // The acquirer and platform fees are 15 and 10, 25 and 20, 45 and 40.
    let (two_days, one_day) = (975 + 1_955, 3_915);
    let flat = service.get("/v1/wallets/balance?currency=BRL").await.expect(200);
    let at = |name: &str| flat[name].clone();
    assert_eq!((at("available"), at("pending")), (json!(0), json!(two_days + one_day)));
    assert_eq!(at("next_release_amount"), one_day);
    let first_release = at("next_release_at").as_str().unwrap().to_owned();
    // A release date starts at midnight in São Paulo.
    assert!(first_release.ends_with("T03:00:00.000Z"), "{first_release}");
    let balance = service.balance().await;
    assert_eq!(
        (&balance["total"], &balance["next_release_at"]),
        (&json!(two_days + one_day), &json!(first_release))
    );
    assert_eq!(service.get("/v1/wallets").await.expect(200)[0]["pendingBalance"], two_days + one_day);
    service.check_ledger().await;

    service.advance_seconds(86_400).await;
    let balance = eventually("the first tranche is released", async || {
        Some(service.balance().await).filter(|balance| balance["available"] != 0)
    })
    .await;
    assert_eq!((&balance["available"], &balance["pending"]), (&json!(one_day), &json!(two_days)));
    assert_eq!(balance["next_release_amount"], two_days);
    assert!(balance["next_release_at"].as_str().unwrap() > first_release.as_str());
    let release = service.movements("").await.remove(0);
    assert_eq!(
        (&release["type"], &release["amount"], &release["fee"], &release["net"]),
        (&json!("release"), &json!(one_day), &json!(0), &json!(0))
    );
    assert_eq!(release["changes"], json!({"available": one_day, "pending": -one_day, "retained": 0}));

    service.advance_seconds(30 * 86_400).await;
    let balance = eventually("the second tranche is released", async || {
        Some(service.balance().await).filter(|balance| balance["pending"] == 0)
    })
    .await;
    assert_eq!(balance["available"], one_day + two_days);
    assert_eq!((&balance["next_release_at"], &balance["next_release_amount"]), (&Value::Null, &Value::Null));
    assert_eq!(service.movements("").await.len(), 5);
    service.check_ledger().await;
}

#[tokio::test]
async fn concurrent_schedulers_release_a_tranche_once() {
    let service = Service::without_event_sources().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    service.pay(1_000).await;
    service.stack.clock.advance(86_400_000);
    let mut schedulers = JoinSet::new();
    for _ in 0..8 {
        let scheduler = service.stack.functions.get("SchedulerFunction").unwrap().clone();
        schedulers.spawn(async move { scheduler(json!({})).await.unwrap() });
    }
    schedulers.join_all().await;
    let balance = service.balance().await;
    assert_eq!((&balance["available"], &balance["pending"]), (&json!(1_000), &json!(0)));
    service.check_ledger().await;
}

#[tokio::test]
async fn money_that_is_not_credited_is_posted_to_separate_ledger_accounts() {
    let service = Service::start().await;
    service.set_terms(fees()).await;
    let (approved, returned) =
        (service.charge_locked_to_payer().await, service.charge_locked_to_payer().await);
    for charge in [&approved, &returned] {
        service.sandbox(charge, "pay", &json!({"payer_tax_id": null})).await;
    }
    assert_eq!(service.balance_of(LedgerAccount::HeldForReview).await, 2_000);
    assert_eq!(service.balance().await["total"], 0);
    service.sandbox(&returned, "review", &json!({"decision": "return"})).await;
    service.sandbox(&approved, "review", &json!({"decision": "approve"})).await;
    assert_eq!(service.balance_of(LedgerAccount::HeldForReview).await, 0);
    // Fees are fixed at settlement: 15 and 10.
    assert_eq!(service.balance().await["available"], 975);
    // A wrong amount, a second payment and a wrong payer are each recorded as unapplied and returned.
    let open = service.charge().await;
    service.sandbox(&open, "pay", &json!({"amount": 999})).await;
    service.sandbox(&approved, "pay", &json!({})).await;
    let wrong = service.charge_locked_to_payer().await;
    service.sandbox(&wrong, "pay", &json!({"payer_tax_id": "25524893033"})).await;
    let wallet = service.wallet(Currency::BRL).await;
    let unapplied = wallet.totals(LedgerAccount::UnappliedReceipts);
    assert_eq!((unapplied.credits.get(), unapplied.debits.get()), (2_999, 2_999));
    assert_eq!(wallet.balance(LedgerAccount::AcquirerClearing).unwrap(), -1_000);
    assert_eq!((wallet.available().unwrap().get(), service.movements("").await.len()), (975, 1));
    service.check_ledger().await;
}

#[tokio::test]
async fn the_statement_is_read_by_page_date_and_currency() {
    let service = Service::without_event_sources().await;
    let mut charges = Vec::new();
    for amount in 1..=7 {
        charges.push(service.pay(amount).await["id"].clone());
        service.stack.clock.advance(1000);
    }
    charges.reverse();
    let all = service.movements("").await;
    assert_eq!(service.all_pages("/v1/wallets/transactions?limit=3").await, all);
    assert!(all.iter().map(|movement| &movement["charge_id"]).eq(&charges));
    assert!(all.windows(2).all(|pair| pair[0]["id"].as_str() > pair[1]["id"].as_str()), "ids sort by time");
    let (second, fifth) = (all[5]["created_at"].as_str().unwrap(), all[2]["created_at"].as_str().unwrap());
    let within = service.movements(&format!("?created_after={second}&created_before={fifth}")).await;
    assert_eq!(within, all[2..=5]);
    // A cursor must be a movement of the same wallet.
    for query in [
        format!("?currency=EUR&starting_after={}", id(&all[0])),
        format!("?starting_after=mv_{}", "0".repeat(26)),
    ] {
        let refused = service.get(&format!("/v1/wallets/transactions{query}")).await;
        assert_eq!((refused.problem().0, refused.params()), (400, vec!["starting_after"]), "{query}");
    }
    assert!(service.movements(&format!("?created_after={fifth}&created_before={second}")).await.is_empty());
    assert!(service.movements("?currency=EUR").await.is_empty());
    assert_eq!(service.movements("?currency=BRL").await, all);
}

async fn csv(service: &Service, path: &str) -> Answer {
    service.raw(Method::GET, path, &[("apikey", &service.key()), ("accept", "text/csv")], "").await
}

#[tokio::test]
async fn the_csv_statement_has_the_same_movements_and_escapes_formulas() {
    let service = Service::start().await;
    service.set_terms(fees()).await;
    let charge = service.pay(1_000).await;
    service.adjust(25, "=HYPERLINK(\"http://x\"), \"goodwill\"").await;
    let answer = csv(&service, "/v1/wallets/transactions").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("content-type")),
        (200, Some("text/csv; charset=utf-8"))
    );
    assert!(answer.header("x-request-id").is_some() && answer.header("x-ratelimit-limit-minute").is_some());
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    let movements = service.movements("").await;
    let of = |movement: &Value, field: &str| movement[field].as_str().unwrap().to_owned();
    assert_eq!(
        lines,
        [
            "id,created_at,type,currency,amount,fee,net,available_change,pending_change,retained_change,charge_id,refund_id,med_case_id,payout_id,note".to_owned(),
            format!(
                "{},{},adjustment,BRL,25,0,25,25,0,0,,,,,\"'=HYPERLINK(\"\"http://x\"\"), \"\"goodwill\"\"\"",
                of(&movements[0], "id"), of(&movements[0], "created_at")
            ),
            format!(
                "{},{},settlement,BRL,1000,25,975,975,0,0,{},,,,",
                of(&movements[1], "id"), of(&movements[1], "created_at"), id(&charge)
            ),
        ]
    );
    // The next page's cursor is in a header.
    let first = csv(&service, "/v1/wallets/transactions?limit=1").await;
    let cursor = first.header("x-next-cursor").unwrap();
    let second = csv(&service, &format!("/v1/wallets/transactions?limit=1&starting_after={cursor}")).await;
    assert_eq!(second.header("x-next-cursor"), None);
    assert!(String::from_utf8(second.bytes.to_vec()).unwrap().contains(id(&charge)));
    let refused = csv(&service, "/v1/wallets/transactions?limit=1001").await;
    assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_request"));
}

#[tokio::test]
async fn a_thousand_settlements_with_duplicate_notifications_and_conflicts_are_exact() {
    let service = Service::without_event_sources().await;
    service.set_terms(fees()).await;
    let service = Arc::new(service);
    let proxy = service.proxy();
    proxy.inject_every("TransactWriteItems", 4, Fault::Conflict);
    let mut clients = JoinSet::new();
    for client in 0..32_i64 {
        let service = Arc::clone(&service);
        clients.spawn(async move {
            for number in (client..1_000).step_by(32) {
                let charge = service.new_charge(&json!({"amount": 1_000 + number})).await;
                let notification = json!({"end_to_end_id": format!("E{number}")});
                let (first, second) = tokio::join!(
                    service.sandbox(&charge, "pay", &notification),
                    service.sandbox(&charge, "pay", &notification)
                );
                assert_eq!((&first["status"], &first), (&json!("paid"), &second));
            }
        });
    }
    clients.join_all().await;
    let terms = fees();
    let amounts = (0..1_000).map(|number| Amount::parse(1_000 + number).unwrap());
    let net: i64 = amounts.map(|amount| terms.fees(amount, None).net_of(amount).get()).sum();
    let balance = service.balance().await;
    assert_eq!((&balance["available"], &balance["pending"]), (&json!(net), &json!(0)));
    assert_eq!(service.check_ledger().await.postings, 1_000);
    assert_eq!(service.count_returned_payments().await, 0);
}

#[tokio::test]
async fn concurrent_debits_and_credits_never_overdraw_a_wallet() {
    let service = Arc::new(Service::start().await);
    // The payouts' store uses the fault proxy, so that injected conflicts affect payouts as well as
    // settlements.
    let proxy = service.proxy();
    proxy.inject_every("TransactWriteItems", 5, Fault::Conflict);
    let payouts = Payouts::new(service.store_behind_proxy());
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let service = Arc::clone(&service);
        tasks.spawn(async move {
            for _ in 0..10 {
                service.pay(100).await;
            }
            (0, 0)
        });
    }
    for _ in 0..16 {
        let (service, payouts) = (Arc::clone(&service), payouts.clone());
        tasks.spawn(async move {
            let (mut created, mut refused) = (0, 0);
            for _ in 0..20 {
                match create_payout(&service, &payouts).await {
                    Ok(_) => created += 1,
                    Err(PayoutError::InsufficientBalance { available }) => {
                        assert!(available < 70);
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
                assert!(service.balance().await["available"].as_i64().unwrap() >= 0);
            }
            (created, refused)
        });
    }
    let outcomes = tasks.join_all().await;
    let (mut created, refused) =
        outcomes.iter().fold((0, 0), |sum, outcome| (sum.0 + outcome.0, sum.1 + outcome.1));
    assert!(refused > 0, "320 payouts of 70 exceed the 8,000 credited, so some are refused");
    // Further payouts succeed until less than 70 is left, so the refused payouts debited nothing.
    let mut left = service.balance().await["available"].as_i64().unwrap();
    while left >= 70 {
        create_payout(&service, &payouts).await.unwrap();
        (created, left) = (created + 1, left - 70);
    }
    assert_eq!((created, left), (8_000 / 70, 8_000 % 70));
    service.check_ledger().await;
    // Each payout has one audit row, in an unbroken chain.
    assert_eq!(service.chain_length().await, created);
}

/// Creates a payout of 70. If the retry budget is spent, the caller repeats the payout under the same reference,
/// as an operator does.
async fn create_payout(service: &Service, payouts: &Payouts) -> Result<Payout, PayoutError> {
    let (id, amount) = (payout_id(service), Amount::parse(70).unwrap());
    loop {
        let now = service.stack.clock.now();
        match payouts
            .create((id, &id.into()), service.scope(), (amount, Currency::BRL), &operator(), now)
            .await
        {
            Err(PayoutError::Store(StoreError::Unavailable(_))) => {}
            outcome => return outcome,
        }
    }
}

#[tokio::test]
async fn payouts_move_money_and_emit_events() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["payout.created", "payout.paid", "payout.failed"]).await;
    let legacy = Listener::start().await;
    let names = ["created", "completed", "failed", "status_changed"].map(|name| format!("withdrawal.{name}"));
    service.register_endpoint(&legacy.url, &names.each_ref().map(String::as_str)).await;
    service.pay(1_000).await;
    let payouts = Payouts::new(service.store());
    let now = || service.stack.clock.now();
    let create = async |minor: i64| {
        let id = payout_id(&service);
        payouts
            .create(
                (id, &id.into()),
                service.scope(),
                (Amount::parse(minor).unwrap(), Currency::BRL),
                &operator(),
                now(),
            )
            .await
    };
    assert!(matches!(create(1_001).await, Err(PayoutError::InsufficientBalance { available: 1_000 })));
    let paid = create(600).await.unwrap();
    let failed = create(400).await.unwrap();
    assert_eq!(service.balance().await["available"], 0);
    assert_eq!(service.balance_of(LedgerAccount::Payouts).await, 1_000);
    payouts.end(paid.id, &PayoutOutcome::Paid, &operator(), now()).await.unwrap();
    let failed_outcome = PayoutOutcome::Failed { reason: "account closed".to_owned() };
    // A repeated outcome changes nothing.
    for _ in 0..2 {
        payouts.end(failed.id, &failed_outcome, &operator(), now()).await.unwrap();
    }
    assert!(payouts.end(failed.id, &PayoutOutcome::Paid, &operator(), now()).await.is_err());
    assert_eq!(service.balance().await["available"], 400);
    assert_eq!(service.balance_of(LedgerAccount::Payouts).await, 0);
    let kinds: Vec<Value> =
        service.movements("").await.iter().map(|movement| movement["type"].clone()).collect();
    assert_eq!(kinds, ["payout_failed", "payout", "payout", "settlement"]);
    service.check_ledger().await;

    let hooks = listener.received(4).await;
    let published: BTreeSet<(String, String)> = hooks
        .iter()
        .map(|hook| {
            let body = hook.json();
            assert_eq!(
                (&body["object"], &body["data"]["object"]["object"]),
                (&json!("event"), &json!("payout"))
            );
            (body["type"].as_str().unwrap().to_owned(), id(&body["data"]["object"]).to_owned())
        })
        .collect();
    let expected = [
        ("payout.created", paid.id),
        ("payout.created", failed.id),
        ("payout.paid", paid.id),
        ("payout.failed", failed.id),
    ];
    assert_eq!(published, expected.map(|(name, id)| (name.to_owned(), id.to_string())).into_iter().collect());
    let failure = listener.wait_for_event("payout.failed").await.json()["data"]["object"].clone();
    assert_eq!(
        (&failure["status"], &failure["failure_reason"]),
        (&json!("failed"), &json!("account closed"))
    );
    let published: BTreeSet<(String, String, String)> = legacy
        .received(6)
        .await
        .iter()
        .map(|hook| {
            let body = hook.json();
            let settled =
                ["paidWith", "providerFee", "platformFee", "netAmount"].map(|field| body["data"].get(field));
            if body["data"]["status"] == "PAID" {
                assert_eq!(settled.map(Option::unwrap), [&json!("PIX"), &json!(0), &json!(0), &json!(600)]);
            } else {
                assert_eq!(settled, [None; 4]);
            }
            let text = |field: &str| body["data"][field].as_str().unwrap().to_owned();
            let moved = format!("{} {}", text("previousStatus"), text("status"));
            (body["event"].as_str().unwrap().to_owned(), text("transactionId"), moved)
        })
        .collect();
    let expected = [
        ("withdrawal.created", paid.id, "PENDING PENDING"),
        ("withdrawal.created", failed.id, "PENDING PENDING"),
        ("withdrawal.completed", paid.id, "PENDING PAID"),
        ("withdrawal.status_changed", paid.id, "PENDING PAID"),
        ("withdrawal.failed", failed.id, "PENDING FAILED"),
        ("withdrawal.status_changed", failed.id, "PENDING FAILED"),
    ];
    let expected = expected.map(|(name, id, moved)| (name.to_owned(), id.to_string(), moved.to_owned()));
    assert_eq!(published, expected.into_iter().collect());
    let mut audit = service.rows(&format!("audit#{}", service.scope().account), "seq_").await;
    // The audit also has rows of the registered endpoints.
    audit.retain(|row| row["action"].as_s().unwrap().starts_with("payout."));
    assert_eq!(audit.len(), 4, "{audit:?}");
}

fn payout_id(service: &Service) -> PayoutId {
    PayoutId::new(service.stack.clock.now(), shared::random::bytes().unwrap())
}

#[tokio::test]
async fn an_operators_change_repeated_under_its_reference_is_applied_once() {
    let service = Service::without_event_sources().await;
    let proxy = service.proxy();
    let store = service.store_behind_proxy();
    let now = service.stack.clock.now();
    let adjustment = |minor| Adjustment {
        id: PostingId::new(now, shared::random::bytes().unwrap()),
        reference: "2026-11".parse().unwrap(),
        scope: service.scope(),
        currency: Currency::BRL,
        minor,
        note: None,
    };
    let wallets = Wallets::new(store.clone());
    for fault in [Some(Fault::AnswerLost), None] {
        if let Some(fault) = fault {
            proxy.inject("TransactWriteItems", fault);
        }
        let adjusted = wallets.adjust(&adjustment(1_000), &operator(), now).await.unwrap();
        assert!(matches!(adjusted, AdjustmentOutcome::Done(_)), "{adjusted:?}");
    }
    let other = wallets.adjust(&adjustment(2_000), &operator(), now).await.unwrap();
    assert!(matches!(other, AdjustmentOutcome::ReferenceTaken(_)), "{other:?}");
    let payouts = Payouts::new(store);
    let create = async |minor| {
        let money = (Amount::parse(minor).unwrap(), Currency::BRL);
        let reference = "2026-12".parse().unwrap();
        payouts.create((payout_id(&service), &reference), service.scope(), money, &operator(), now).await
    };
    proxy.inject("TransactWriteItems", Fault::AnswerLost);
    let first = create(600).await.unwrap();
    assert_eq!(create(600).await.unwrap(), first);
    assert!(matches!(create(601).await, Err(PayoutError::ReferenceTaken(_))));
    assert_eq!(proxy.pending_faults(), 0);
    assert_eq!(service.balance().await["available"], 400);
    let audit = service.rows(&format!("audit#{}", service.scope().account), "seq_").await;
    assert_eq!(audit.len(), 2, "{audit:?}");
    service.check_ledger().await;
}

/// Commits only the postings of refunds, without their rows.
#[tokio::test]
async fn the_posting_of_a_refund_debits_covered_balances_or_writes_nothing() {
    let service = Service::without_event_sources().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    let charge = service.pay(1_000).await;
    service.adjust(300, "goodwill").await;
    let (store, wallets, scope) = (service.store(), service.wallets(), service.scope());
    let held = service.first_release().await;
    let cause = || {
        let at = service.stack.clock.now();
        let id = PostingId::new(at, shared::random::bytes().unwrap());
        Cause { id, scope, shard: Shard::FIRST, currency: Currency::BRL, at, subject: Subject::default() }
    };
    let share = |from_pending: i64, from_available: i64| RefundShare {
        gross: Amount::parse(from_pending + from_available).unwrap(),
        strategy: RefundStrategy::Devolution,
        fees: Fees::default(),
        from_pending: MinorUnits::new(from_pending),
        from_available: MinorUnits::new(from_available),
        pix_out_fee: MinorUnits::ZERO,
        merchant_bears_pix_out: false,
    };
    let refund = async |share: &RefundShare| {
        let posting =
            rules::refund_requested(cause(), share, (Some(held.day), &[]), MinorUnits::ZERO).unwrap();
        let mut credits = CachedCredits::default();
        match wallets.plan_debit((&[], &mut credits), ShardCount::ONE, &posting, Vec::new()).await.unwrap() {
            DebitPlan::Writes(writes) => Ok(store.commit(writes).await.unwrap()),
            DebitPlan::Short { needed, available } => Err((needed, available)),
        }
    };
    let balances = async || {
        service.check_ledger().await;
        let balance = service.balance().await;
        ["available", "pending", "retained"].map(|name| balance[name].as_i64().unwrap())
    };
    assert_eq!(refund(&share(900, 0)).await, Ok(CommitOutcome::Done));
    assert_eq!(balances().await, [300, 100, 0]);
    // A refund above the tranche and one above the available balance write nothing.
    assert!(matches!(refund(&share(101, 0)).await, Ok(CommitOutcome::Conflict { .. })));
    assert_eq!(refund(&share(100, 301)).await, Err((301, 300)));
    assert_eq!(balances().await, [300, 100, 0]);
    assert_eq!(refund(&share(100, 200)).await, Ok(CommitOutcome::Done));
    assert_eq!(balances().await, [100, 0, 0]);
    // There is no tranche to debit any more. Only a case may overdraw the available balance.
    assert!(matches!(refund(&share(1, 0)).await, Ok(CommitOutcome::Conflict { .. })));
    let opened = service.open_case(&charge, json!({})).await;
    assert_eq!(balances().await, [-900, 0, 1_000]);
    assert_eq!(refund(&share(0, 1)).await, Err((1, -900)));
    service.decide_case(&opened, "payer").await.expect(200);
    assert_eq!(balances().await, [-900, 0, 0]);
}

/// Changes a stored row directly, as an incorrect write would.
pub(crate) async fn tamper(service: &Service, pk: &str, sk: &str, expression: &str) {
    let client = service.dynamodb();
    let update = client
        .update_item()
        .table_name("StateTable")
        .key("pk", AttributeValue::S(pk.to_owned()))
        .key("sk", AttributeValue::S(sk.to_owned()))
        .update_expression(expression)
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
    update.send().await.unwrap();
}

#[tokio::test]
async fn verification_finds_changed_and_missing_counters_tranches_and_postings() {
    let service = Service::start().await;
    service.set_terms(MethodTerms { hold_days: 1, ..MethodTerms::default() }).await;
    service.pay(1_000).await;
    let scope = service.scope();
    let release = service.first_release().await;
    service.check_ledger().await;
    let found = async || {
        let sources = (&service.wallets(), &Charges::new(service.store()));
        let now = service.stack.clock.now();
        let found = verify_ledger(sources, &scope, now, &|_count| {}).await.unwrap().differences;
        found
            .iter()
            .map(|difference| (difference.figure.clone(), difference.posted, difference.stored))
            .collect::<Vec<_>>()
    };
    let wallet = format!("wallet#{scope}");
    tamper(&service, &wallet, "BRL#shard#0", "ADD cr_platform_fees :one").await;
    assert_eq!(found().await, [("platform_fees credits".to_owned(), 0, 1)]);
    tamper(&service, &wallet, &format!("BRL#release#{}", release.day.sortable_number()), "ADD held :one")
        .await;
    let held = found().await;
    assert_eq!(held.len(), 3, "{held:?}");
    assert!(held.contains(&("merchant_pending against its tranches".to_owned(), 1_000, 1_001)), "{held:?}");
    assert!(held.contains(&(format!("held until {}", release.at()), 1_000, 1_001)), "{held:?}");
    // With all counter rows deleted, the postings still show the expected totals.
    let sort = |row: &HashMap<String, AttributeValue>| row["sk"].as_s().unwrap().clone();
    for row in service.rows(&wallet, "BRL#").await {
        service.delete_row(&wallet, &sort(&row)).await;
    }
    let differences = found().await;
    assert!(differences.contains(&("merchant_pending credits".to_owned(), 1_000, 0)), "{differences:?}");
    // A deleted posting shows as a difference of the counters.
    let other = Service::start().await;
    other.pay(1_000).await;
    let ledger = format!("ledger#{}", other.scope());
    other.delete_row(&ledger, &sort(&other.rows(&ledger, "wallet#").await[0])).await;
    let now = other.stack.clock.now();
    let sources = (&other.wallets(), &Charges::new(other.store()));
    let missing = verify_ledger(sources, &other.scope(), now, &|_count| {}).await.unwrap().differences;
    assert_eq!(missing.len(), 2, "{missing:?}");
}

#[tokio::test]
async fn a_ledger_that_does_not_move_is_compared_after_two_reads_of_its_counters() {
    let service = Service::without_event_sources().await;
    service.pay(1_000).await;
    let proxy = service.proxy();
    let (wallets, charges) =
        (Wallets::new(service.store_behind_proxy()), Charges::new(service.store_behind_proxy()));
    proxy.reset();
    let now = service.stack.clock.now();
    let found = verify_ledger((&wallets, &charges), &service.scope(), now, &|_count| {}).await.unwrap();
    assert_eq!((found.postings, found.differences.len(), found.is_moving), (1, 0, false));
    // A page of postings, the counters, the two ranges of the newest postings, and the counters again.
    assert_eq!(proxy.report().operations.get("Query"), Some(&5));
}
