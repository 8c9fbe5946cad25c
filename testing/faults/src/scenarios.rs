//! The scenarios: what merchants, payers, banks and operators do, from an idle service to an idle service.

use std::pin::Pin;
use std::time::Duration;

use bank::{Cents, FaultKind, PayRequest, Payer};
use domain::account::terms::MethodTerms;
use domain::ids::{ChargeId, MedCaseId, Mode, RefundId};
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use domain::payout::PayoutOutcome;
use hyper::Method;
use local::template::queue_url;
use serde_json::{Value, json};
use shared::account::Accounts;
use shared::acquirer::{AcquirerMessage, AcquirerQueue};
use shared::api_key::ApiKeys;
use shared::med::MedCases;
use shared::services::change_account_settings;

use crate::world::{JOAO, MARIA, ROUND_S, World, items, operator, text};
use crate::{Error, Result};

impl Scenario {
    /// Whether a client that repeats a request makes another change, which has an audit row of its own.
    pub fn repeats_changes(&self) -> bool {
        self.name == "key-rotated"
    }
}

/// The steps of a scenario. They call [`World::begin`] after the preparation.
type Steps = for<'a> fn(&'a World) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub steps: Steps,
}

macro_rules! scenarios {
    ($($name:literal => |$world:ident| $steps:expr),* $(,)?) => {
        pub const ALL: &[Scenario] =
            &[$(Scenario {
                name: $name,
                steps: |$world| Box::pin($steps),
            }),*];
    };
}

scenarios! {
    // The work of the schedules, which is also done beside every other scenario.
    "idle" => |world| world.begin(),
    "create" => |world| create(world, Mode::Test),
    "create-live" => |world| create(world, Mode::Live),
    "pay" => |world| pay(world, json!({"end_to_end_id": END_TO_END_ID})),
    "pay-live" => |world| pay_live(world, json!({"amount": 1000}), PayRequest::default()),
    "pay-late" => |world| pay_late(world),
    "card-create" => |world| create_by(world, CARD),
    "card-pay" => |world| card_pay(world),
    "card-declined-then-paid" => |world| card_declined(world),
    "card-cancel" => |world| cancel_by(world, CARD),
    "card-expire" => |world| card_expire(world),
    "card-paid-at-its-end" => |world| card_paid_at_its_end(world),
    "card-refund" => |world| card_refund(world),
    "card-refund-twice" => |world| refund_twice(world, CARD),
    "refund-twice" => |world| refund_twice(world, &["PIX"]),
    "card-refund-there" => |world| card_refund_there(world),
    "card-dispute-lost" => |world| card_dispute_lost(world),
    "either-create" => |world| create_by(world, EITHER),
    "either-paid-by-pix" => |world| either_paid_by_pix(world),
    "either-paid-by-both" => |world| either_paid_by_both(world),
    "either-cancel" => |world| cancel_by(world, EITHER),
    "wrong-amount" => |world| pay(world, json!({"amount": 999, "end_to_end_id": END_TO_END_ID})),
    "wrong-amount-live" => |world| {
        let request = PayRequest { amount: Cents::new(999), ..PayRequest::default() };
        pay_live(world, json!({"amount": 1000}), request)
    },
    "payer-lock" => |world| {
        let payer = Payer::Person { tax_id: JOAO.to_owned(), name: "Joao".to_owned() };
        pay_live(world, locked(), PayRequest { payer, ..PayRequest::default() })
    },
    "review-approved" => |world| review(world, "approve"),
    "review-returned" => |world| review(world, "return"),
    "expire" => |world| expire(world, Mode::Test),
    "expire-live" => |world| expire(world, Mode::Live),
    "cancel" => |world| cancel(world, Mode::Test),
    "cancel-live" => |world| cancel(world, Mode::Live),
    "refund" => |world| refund(world, Mode::Test, json!({"amount": 400})),
    "refund-devolution" => |world| refund(world, Mode::Live, json!({"amount": 400, "strategy": "devolution"})),
    "refund-cash-out" => |world| refund(world, Mode::Live, json!({"amount": 250, "strategy": "cashout"})),
    "refund-failed" => |world| refund(world, Mode::Test, json!({"reason": "sandbox:fail"})),
    "refund-failed-live" => |world| refund_failed_live(world),
    "med-opened" => |world| med_opened(world),
    "med-appealed-won" => |world| med_won(world),
    "med-lost" => |world| med_lost(world),
    "med-confirmed" => |world| med_confirmed(world),
    "evidence" => |world| evidence(world),
    "payout" => |world| pay_out(world, PayoutOutcome::Paid),
    "payout-failed" => |world| pay_out(world, PayoutOutcome::Failed { reason: "account closed".to_owned() }),
    "hold-released" => |world| hold_released(world),
    "delivery-retried" => |world| delivery_retried(world),
    "endpoint-switched-off" => |world| endpoint_switched_off(world),
    "endpoint-deleted" => |world| endpoint_deleted(world),
    "key-rotated" => |world| key_rotated(world),
    "log-in" => |world| log_in(world),
}

/// The methods of a charge by card, and of one that can also be paid by Pix at the bank.
const CARD: &[&str] = &["CREDIT_CARD"];
const EITHER: &[&str] = &["PIX", "CREDIT_CARD"];

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

/// How the clock advances past the expiry of a charge that expires after 60 s, in seconds. A live charge is
/// removed at the bank first.
const PAST_EXPIRY_S: i64 = 61;

/// In how many seconds a page of the acquirer of cards, and its charge, have ended; and a time just before.
const PAGE_ENDED_S: i64 = 86_400;
const PAGE_ENDS_S: i64 = 82_400;

impl World {
    async fn charge(&self, mode: Mode, body: Value) -> Result<Value> {
        let headers = [("apikey", self.key(mode)), ("idempotency-key", "order-00001")];
        self.settle(Method::POST, "/v1/pix/charges", &headers, &body).await?.expect(201)
    }

    async fn sandbox(&self, charge: &Value, action: &str, body: Value) -> Result<Value> {
        let path = format!("/v1/sandbox/charges/{}/{action}", text(charge, "id"));
        let status = if action == "med-cases" { 201 } else { 200 };
        self.post(Mode::Test, &path, &body).await?.expect(status)
    }

    async fn paid(&self) -> Result<Value> {
        let charge = self.charge(Mode::Test, json!({"amount": 1000})).await?;
        self.sandbox(&charge, "pay", json!({})).await
    }

    /// Pays a live charge at the bank.
    fn pay_at_bank(&self, charge: &Value, request: PayRequest) -> Result<()> {
        let txid = charge.pointer("/pix/txid").and_then(Value::as_str).unwrap_or_default().to_owned();
        let paid = self.stack.bank.pay(&PayRequest { txid, ..request });
        paid.map(drop).map_err(Error::of("paying at the bank"))
    }

    async fn paid_live(&self) -> Result<Value> {
        let body = json!({"amount": 1000, "customer": {"name": "Maria", "document": MARIA}});
        let charge = self.charge(Mode::Live, body).await?;
        self.pay_at_bank(&charge, PayRequest::default())?;
        self.until_paid(&charge).await?;
        Ok(charge)
    }

    async fn until_paid(&self, charge: &Value) -> Result<()> {
        while !self.is_paid(charge).await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn is_paid(&self, charge: &Value) -> Result<bool> {
        let path = format!("/v1/charges/{}", text(charge, "id"));
        Ok(text(&self.get(Mode::Live, &path).await?, "status") == "paid")
    }

    async fn charge_by(&self, methods: &[&str]) -> Result<Value> {
        let body = json!({"amount": 1000, "currency": "BRL", "paymentMethods": methods, "idempotencyKey": "order-00001"});
        let created = self.post(Mode::Live, "/v1/payments", &body).await?.expect(201)?;
        let id = format!("ch_{}", raw_id(&created));
        let txid = ChargeId::parse_any(&id).map_err(Error::of("the id of a charge"))?.txid();
        Ok(json!({"id": id, "pix": {"txid": txid}}))
    }

    /// Plays the payer, the issuer or the dashboard at the acquirer of cards.
    fn act_at_cards(&self, charge: &Value, path: &str, fields: Value) -> Result<Value> {
        let mut body = fields;
        body["metadata"] = json!({"charge": charge["id"]});
        self.control_cards("POST", path, &body)
    }

    fn control_cards(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        match self.stack.cards.control(method, path, body) {
            (200, answer) => Ok(answer),
            (status, answer) => Err(Error::new(format!("{path}: {status} {answer}"))),
        }
    }

    /// Returns a paid charge by card, whose net is available at once.
    async fn paid_by_card(&self) -> Result<Value> {
        let charge = self.charge_by(CARD).await?;
        self.act_at_cards(&charge, "/pay", json!({"available_on": 1}))?;
        self.until_paid(&charge).await?;
        Ok(charge)
    }

    async fn refund(&self, mode: Mode, charge: &Value, body: Value) -> Result<()> {
        let mut body = body;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("idempotencyKey".to_owned(), "refund-01".into());
        }
        let path = format!("/v1/payments/{}/refund", raw_id(charge));
        self.post(mode, &path, &body).await?.expect(201).map(drop)
    }

    async fn cancel(&self, mode: Mode, charge: &Value) -> Result<()> {
        let path = format!("/v1/payments/{}/cancel", raw_id(charge));
        let answer = self.post(mode, &path, &json!({})).await?;
        // A repetition finds the charge cancelled.
        if answer.status == 422 { Ok(()) } else { answer.expect(200).map(drop) }
    }
}

fn raw_id(charge: &Value) -> &str {
    text(charge, "id").trim_start_matches("ch_")
}

async fn create(world: &World, mode: Mode) -> Result<()> {
    world.begin().await?;
    world.charge(mode, json!({"amount": 1000})).await.map(drop)
}

async fn create_by(world: &World, methods: &[&str]) -> Result<()> {
    world.begin().await?;
    world.charge_by(methods).await.map(drop)
}

async fn pay(world: &World, payment: Value) -> Result<()> {
    let charge = world.charge(Mode::Test, json!({"amount": 1000})).await?;
    world.begin().await?;
    world.sandbox(&charge, "pay", payment).await.map(drop)
}

async fn pay_live(world: &World, body: Value, request: PayRequest) -> Result<()> {
    let charge = world.charge(Mode::Live, body).await?;
    world.begin().await?;
    world.pay_at_bank(&charge, request)
}

/// A payer's bank sends one payment under one id, however often the notification is repeated.
const END_TO_END_ID: &str = "E00000000202611231200abcdefghijk";

async fn pay_late(world: &World) -> Result<()> {
    let charge = world.charge(Mode::Test, json!({"amount": 1000, "expires_in": 60})).await?;
    world.pass(PAST_EXPIRY_S).await?;
    world.begin().await?;
    world.sandbox(&charge, "pay", json!({"end_to_end_id": END_TO_END_ID})).await.map(drop)
}

/// The page for cards is closed then.
async fn either_paid_by_pix(world: &World) -> Result<()> {
    let charge = world.charge_by(EITHER).await?;
    world.begin().await?;
    world.pay_at_bank(&charge, PayRequest::default())
}

/// The page for cards can't be closed at first, and is paid after the Pix. That payment goes back.
async fn either_paid_by_both(world: &World) -> Result<()> {
    let charge = world.charge_by(EITHER).await?;
    world.begin().await?;
    let cannot_close = json!({"kind": "http_500", "on": "POST /v1/checkout/sessions/", "count": 100});
    world.control_cards("POST", "/faults", &cannot_close)?;
    world.control_cards("POST", "/faults", &json!({"kind": "lost_notification", "count": 100}))?;
    world.pay_at_bank(&charge, PayRequest::default())?;
    world.idle().await?;
    while !world.is_paid(&charge).await? {
        world.pass(ROUND_S).await?;
    }
    world.act_at_cards(&charge, "/pay", json!({}))?;
    world.control_cards("DELETE", "/faults", &Value::Null).map(drop)
}

async fn cancel_by(world: &World, methods: &[&str]) -> Result<()> {
    let charge = world.charge_by(methods).await?;
    world.begin().await?;
    world.cancel(Mode::Live, &charge).await
}

async fn card_pay(world: &World) -> Result<()> {
    let charge = world.charge_by(CARD).await?;
    world.begin().await?;
    world.act_at_cards(&charge, "/pay", json!({})).map(drop)
}

async fn card_declined(world: &World) -> Result<()> {
    let charge = world.charge_by(CARD).await?;
    world.begin().await?;
    world.act_at_cards(&charge, "/decline", json!({"decline_code": "insufficient_funds"}))?;
    world.idle().await?;
    world.act_at_cards(&charge, "/pay", json!({})).map(drop)
}

async fn card_expire(world: &World) -> Result<()> {
    world.charge_by(CARD).await?;
    world.begin().await?;
    world.pass(PAGE_ENDED_S).await
}

/// No notification of the payment arrives, and its page ends two minutes later.
async fn card_paid_at_its_end(world: &World) -> Result<()> {
    let charge = world.charge_by(CARD).await?;
    world.pass(PAGE_ENDS_S).await?;
    world.begin().await?;
    let lost = json!({"kind": "lost_notification", "count": 100});
    world.control_cards("POST", "/faults", &lost)?;
    world.act_at_cards(&charge, "/pay", json!({}))?;
    world.pass(PAGE_ENDED_S - PAGE_ENDS_S).await
}

async fn card_refund(world: &World) -> Result<()> {
    let charge = world.paid_by_card().await?;
    world.begin().await?;
    world.refund(Mode::Live, &charge, json!({"amount": 400})).await
}

/// The message of the refund is delivered several times at once, so several workers have it.
async fn refund_twice(world: &World, methods: &[&str]) -> Result<()> {
    let (charge, body) = if methods == CARD {
        (world.paid_by_card().await?, json!({"amount": 400}))
    } else {
        (world.paid_live().await?, json!({"amount": 400, "strategy": "devolution"}))
    };
    world.begin().await?;
    world.refund(Mode::Live, &charge, body).await?;
    let path = format!("/v1/payments/{}/refunds", raw_id(&charge));
    let refunds = world.get(Mode::Live, &path).await?;
    let id: RefundId = text(&refunds["data"][0], "id").parse().map_err(Error::of("the id of a refund"))?;
    let url = queue_url(&world.stack.endpoints.sqs_url, "AcquirerQueue");
    let queue = AcquirerQueue::new(local::sdk::sqs(&world.stack.endpoints.sqs_url), url);
    let messages = [0; 3].map(|refusals| AcquirerMessage::Refund { id, refusals });
    queue.send(&messages).await.map(drop).map_err(Error::of("sending messages"))
}

async fn card_refund_there(world: &World) -> Result<()> {
    let charge = world.paid_by_card().await?;
    world.begin().await?;
    world.act_at_cards(&charge, "/refund", json!({"amount": 400})).map(drop)
}

async fn card_dispute_lost(world: &World) -> Result<()> {
    let charge = world.paid_by_card().await?;
    world.begin().await?;
    let dispute = world.act_at_cards(&charge, "/dispute", json!({"kind": "formal"}))?;
    world.idle().await?;
    let path = format!("/disputes/{}", text(&dispute, "id"));
    world.control_cards("POST", &path, &json!({"status": "lost"})).map(drop)
}

fn locked() -> Value {
    json!({"amount": 1000, "customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA})
}

async fn review(world: &World, decision: &str) -> Result<()> {
    let charge = world.charge(Mode::Test, locked()).await?;
    world.begin().await?;
    let payment = json!({"payer_tax_id": null, "end_to_end_id": END_TO_END_ID});
    world.sandbox(&charge, "pay", payment).await?;
    world.sandbox(&charge, "review", json!({ "decision": decision })).await.map(drop)
}

async fn expire(world: &World, mode: Mode) -> Result<()> {
    world.charge(mode, json!({"amount": 1000, "expires_in": 60})).await?;
    world.begin().await?;
    world.pass(PAST_EXPIRY_S).await
}

async fn cancel(world: &World, mode: Mode) -> Result<()> {
    let charge = world.charge(mode, json!({"amount": 1000})).await?;
    world.begin().await?;
    world.cancel(mode, &charge).await
}

async fn refund(world: &World, mode: Mode, body: Value) -> Result<()> {
    let charge = match mode {
        Mode::Test => world.paid().await?,
        Mode::Live => world.paid_live().await?,
    };
    world.begin().await?;
    world.refund(mode, &charge, body).await
}

async fn refund_failed_live(world: &World) -> Result<()> {
    let charge = world.paid_live().await?;
    world.begin().await?;
    world.stack.bank.inject_fault(FaultKind::DevolucaoUnrealized, 1);
    world.refund(Mode::Live, &charge, json!({"strategy": "devolution"})).await
}

async fn med_opened(world: &World) -> Result<()> {
    let charge = world.paid().await?;
    world.begin().await?;
    // A repeated notice opens no second case.
    world.sandbox(&charge, "med-cases", json!({"notice_id": "notice-1"})).await.map(drop)
}

async fn case(world: &World, body: Value) -> Result<Value> {
    let charge = world.paid().await?;
    world.sandbox(&charge, "med-cases", body).await
}

async fn med_won(world: &World) -> Result<()> {
    let case = case(world, json!({})).await?;
    world.begin().await?;
    let path = format!("/v1/med/cases/{}/appeal", text(&case, "id"));
    let appealed = world.post(Mode::Test, &path, &json!({"reason": "Entregue em 3 de novembro"})).await?;
    // A case has one appeal, so a repetition is refused.
    if appealed.status != 400 {
        appealed.expect(200)?;
    }
    decide(world, &case, "merchant").await
}

async fn decide(world: &World, case: &Value, decision: &str) -> Result<()> {
    let path = format!("/v1/sandbox/med/cases/{}/resolve", text(case, "id"));
    world.post(Mode::Test, &path, &json!({ "decision": decision })).await?.expect(200).map(drop)
}

async fn med_lost(world: &World) -> Result<()> {
    let case = case(world, json!({})).await?;
    world.begin().await?;
    decide(world, &case, "payer").await
}

async fn med_confirmed(world: &World) -> Result<()> {
    let case = case(world, json!({"amount": 300})).await?;
    world.begin().await?;
    let cases = MedCases::new(world.operator_store());
    let id = text(&case, "id").parse::<MedCaseId>().ok();
    world
        .operate(async || {
            let row = cases.find(id).await.map_err(|error| error.to_string())?;
            let row = row.ok_or_else(|| "there is no case".to_owned())?;
            cases.confirm(row, &operator(), world.now()).await.map_err(|error| error.to_string())
        })
        .await
        .map(drop)
}

async fn evidence(world: &World) -> Result<()> {
    let case = case(world, json!({})).await?;
    world.begin().await?;
    let path = format!("/v1/med/cases/{}/evidence", text(&case, "id"));
    let file = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
    let ticket = world.post(Mode::Test, &path, &file).await?.expect(201)?;
    world.upload(&ticket, PNG).await?;
    let complete = format!("{path}/{}/complete", text(&ticket, "id"));
    world.post(Mode::Test, &complete, &json!({})).await?.expect(200).map(drop)
}

async fn pay_out(world: &World, outcome: PayoutOutcome) -> Result<()> {
    world.paid().await?;
    world.begin().await?;
    let amount = Amount::parse(600).map_err(Error::of("the amount"))?;
    if world.pay_out(world.scope(Mode::Test), amount, &outcome).await? {
        return Ok(());
    }
    Err(Error::new("the balance is too low for the payout"))
}

async fn hold_released(world: &World) -> Result<()> {
    let store = world.store();
    let (accounts, keys) = (Accounts::new(store.clone()), ApiKeys::new(store, "ApiKeysTable"));
    let account = world.scope(Mode::Test).account;
    let hold = |settings: &mut domain::account::AccountSettings| {
        settings.terms.0.insert(PaymentMethod::Pix, MethodTerms { hold_days: 1, ..MethodTerms::default() });
    };
    change_account_settings((&accounts, &keys), &account, "trial", hold, &operator(), world.now())
        .await
        .map_err(Error::of("setting the hold"))?;
    world.paid().await?;
    world.begin().await?;
    world.pass(2 * 86_400).await
}

async fn delivery_retried(world: &World) -> Result<()> {
    world.front.refuse_webhooks(2);
    world.begin().await?;
    world.charge(Mode::Test, json!({"amount": 1000})).await?;
    world.idle().await
}

/// Begins while deliveries to the endpoint of test mode fail. Returns its path.
async fn begin_with_failing_endpoint(world: &World) -> Result<String> {
    let endpoints = world.get(Mode::Test, "/v1/webhooks/endpoints").await?;
    let id = items(&endpoints["data"]).first().map(|endpoint| text(endpoint, "id")).unwrap_or_default();
    world.front.refuse_webhooks(100);
    world.charge(Mode::Test, json!({"amount": 1000})).await?;
    world.begin().await?;
    Ok(format!("/v1/webhooks/endpoints/{id}"))
}

async fn endpoint_switched_off(world: &World) -> Result<()> {
    let path = begin_with_failing_endpoint(world).await?;
    let inactive = json!({"status": "INACTIVE"});
    world.request(Mode::Test, Method::PATCH, &path, &inactive).await?.expect(200).map(drop)
}

async fn endpoint_deleted(world: &World) -> Result<()> {
    let path = begin_with_failing_endpoint(world).await?;
    let deleted = world.request(Mode::Test, Method::DELETE, &path, &Value::Null).await?;
    // A repetition finds no endpoint.
    if deleted.status == 404 { Ok(()) } else { deleted.expect(200).map(drop) }
}

async fn key_rotated(world: &World) -> Result<()> {
    let seed = &world.stack.seed;
    let token = world.stack.owner_token(&seed.first).await.map_err(Error::of("the token"))?;
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let issue = json!({"label": "caixa", "test": true});
    world.settle(Method::POST, "/v1/api-keys", &headers, &issue).await?.expect(201)?;
    world.begin().await?;
    // A repetition finds that the key is gone, and lists the keys again.
    let mut was_gone = false;
    loop {
        let keys = world.settle(Method::GET, "/v1/api-keys", &headers, &Value::Null).await?.expect(200)?;
        let key = items(&keys["data"]).iter().find(|key| text(key, "label") == "caixa");
        let id = key.map(|key| text(key, "id")).unwrap_or_default();
        let path = format!("/v1/api-keys/{id}/rotate");
        let rotated = world.settle(Method::POST, &path, &headers, &Value::Null).await?;
        if rotated.status != 404 || was_gone {
            return rotated.expect(201).map(drop);
        }
        was_gone = true;
    }
}

async fn log_in(world: &World) -> Result<()> {
    let owner = &world.stack.seed.first;
    world.begin().await?;
    let credentials = json!({"email": owner.owner_email, "password": owner.password});
    let session = world.settle(Method::POST, "/v1/auth/login", &[], &credentials).await?.expect(200)?;
    let bearer = format!("Bearer {}", text(&session, "token"));
    let headers = [("authorization", bearer.as_str())];
    let ended = world.settle(Method::POST, "/v1/auth/logout", &headers, &Value::Null).await?;
    // A repetition finds the token ended.
    if ended.status == 401 { Ok(()) } else { ended.expect(204).map(drop) }
}
