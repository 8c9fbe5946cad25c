//! The scenarios: what merchants, payers, banks and operators do, from an idle service to an idle service.

use std::pin::Pin;
use std::time::Duration;

use acquirer_core::{AcquirerMessage, AcquirerQueue};
use domain::account::terms::MethodTerms;
use domain::audit;
use domain::ids::{MedCaseId, Mode, RefundId};
use domain::money::Amount;
use domain::payment_method::PaymentMethod;
use domain::payout::PayoutOutcome;
use local::template::queue_url;
use money::med::MedCases;
use serde_json::{Value, json};
use services::change_account_settings;
use shared::account::Accounts;
use shared::api_key::ApiKeys;
use world::http::{Call, items, text};
use world::plan::{Action, BANK, FIRST, LIVE, Method, Plan, STRIPE};

use crate::trial::{ROUND_S, Trial, operator};
use crate::{Error, Result};
use Step::{Again, Appeal, Begin, Confirm, Control, Create, Do, Idle, Pass, Prove, UntilPaid};

/// The steps of a scenario. They call [`Trial::begin`] after the preparation.
type Steps = for<'a> fn(&'a Trial) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub steps: Steps,
}

macro_rules! scenarios {
    ($($name:literal => |$trial:ident| $steps:expr),* $(,)?) => {
        pub const ALL: &[Scenario] =
            &[$(Scenario {
                name: $name,
                steps: |$trial| Box::pin($steps),
            }),*];
    };
}

scenarios! {
    // The work of the schedules, which is also done beside every other scenario.
    "idle" => |trial| trial.begin(),
    "create" => |trial| use_charge(trial, test(json!({})), [Begin, Create]),
    "create-live" => |trial| use_charge(trial, live(json!({})), [Begin, Create]),
    "pay" => |trial| use_charge(trial, test(json!({})), [Create, Begin, pay(json!({}))]),
    "pay-live" => |trial| use_charge(trial, live(json!({})), [Create, Begin, pay(json!({}))]),
    "pay-late" => |trial| {
        use_charge(trial, test(json!({"expires_in": 60})), [Create, Pass(PAST_EXPIRY_S), Begin, pay(json!({}))])
    },
    "card-create" => |trial| use_charge(trial, by(CARD), [Begin, Create]),
    "card-pay" => |trial| use_charge(trial, by(CARD), [Create, Begin, at_cards("pay", json!({}))]),
    "card-declined-then-paid" => |trial| {
        let decline = at_cards("decline", json!({"decline_code": "insufficient_funds"}));
        use_charge(trial, by(CARD), [Create, Begin, decline, Idle, at_cards("pay", json!({}))])
    },
    "card-cancel" => |trial| use_charge(trial, by(CARD), [Create, Begin, Do(Action::Cancel)]),
    "card-expire" => |trial| use_charge(trial, by(CARD), [Create, Begin, Pass(PAGE_ENDED_S)]),
    // No notification of the payment arrives, and its page ends after it.
    "card-paid-at-its-end" => |trial| {
        let begin = [Create, Pass(PAGE_ENDS_S), Begin, fault_at(STRIPE, "lost_notification")];
        let end = [at_cards("pay", json!({})), Pass(PAGE_ENDED_S - PAGE_ENDS_S)];
        use_charge(trial, by(CARD), begin.into_iter().chain(end))
    },
    "card-refund" => |trial| use_paid(trial, by(CARD), [refund(json!({"amount": 400}))]),
    "card-refund-twice" => |trial| use_paid(trial, by(CARD), [refund(json!({"amount": 400})), Again]),
    "refund-twice" => |trial| use_paid(trial, live(json!({})), [refund(devolution()), Again]),
    "card-refund-there" => |trial| use_paid(trial, by(CARD), [at_cards("refund", json!({"amount": 400}))]),
    "card-dispute-lost" => |trial| {
        let dispute = at_cards("dispute", json!({"kind": "formal"}));
        use_paid(trial, by(CARD), [dispute, Idle, Do(Action::Decide("lost"))])
    },
    "either-create" => |trial| use_charge(trial, by(EITHER), [Begin, Create]),
    // The page for cards is closed then.
    "either-paid-by-pix" => |trial| use_charge(trial, by(EITHER), [Create, Begin, pay(json!({}))]),
    // The page for cards can't be closed at first, and is paid after the Pix. That payment goes back.
    "either-paid-by-both" => |trial| {
        let cannot_close = json!({"kind": "http_500", "on": "POST /v1/checkout/sessions/", "count": 100});
        let faults = [Control(STRIPE, cannot_close), fault_at(STRIPE, "lost_notification")];
        let pay = [pay(json!({})), Idle, UntilPaid, at_cards("pay", json!({})), Control(STRIPE, Value::Null)];
        use_charge(trial, by(EITHER), [Create, Begin].into_iter().chain(faults).chain(pay))
    },
    "either-cancel" => |trial| use_charge(trial, by(EITHER), [Create, Begin, Do(Action::Cancel)]),
    "wrong-amount" => |trial| use_charge(trial, test(json!({})), [Create, Begin, pay(json!({"amount": 999}))]),
    "wrong-amount-live" => |trial| {
        use_charge(trial, live(json!({})), [Create, Begin, pay(json!({"amount": 999}))])
    },
    "payer-lock" => |trial| use_charge(trial, live(locked()), [Create, Begin, pay(json!({"payer_tax_id": JOAO}))]),
    "review-approved" => |trial| review(trial, true),
    "review-returned" => |trial| review(trial, false),
    "expire" => |trial| use_charge(trial, test(json!({"expires_in": 60})), [Create, Begin, Pass(PAST_EXPIRY_S)]),
    "expire-live" => |trial| {
        use_charge(trial, live(json!({"expires_in": 60})), [Create, Begin, Pass(PAST_EXPIRY_S)])
    },
    "cancel" => |trial| use_charge(trial, test(json!({})), [Create, Begin, Do(Action::Cancel)]),
    "cancel-live" => |trial| use_charge(trial, live(json!({})), [Create, Begin, Do(Action::Cancel)]),
    "refund" => |trial| use_paid(trial, test(json!({})), [refund(json!({"amount": 400}))]),
    "refund-devolution" => |trial| use_paid(trial, live(json!({})), [refund(devolution())]),
    "refund-cash-out" => |trial| {
        use_paid(trial, live(json!({})), [refund(json!({"amount": 250, "strategy": "cashout"}))])
    },
    "refund-failed" => |trial| use_paid(trial, test(json!({})), [refund(json!({"reason": "sandbox:fail"}))]),
    "refund-failed-live" => |trial| {
        let refund = refund(json!({"strategy": "devolution"}));
        let fails = Control(BANK, json!({"kind": "devolucao_unrealized"}));
        use_paid(trial, live(json!({})), [fails, refund])
    },
    "med-opened" => |trial| use_paid(trial, test(json!({})), [dispute()]),
    "med-appealed-won" => |trial| use_disputed(trial, [Appeal, Do(Action::Resolve { is_won: true })]),
    "med-lost" => |trial| use_disputed(trial, [Do(Action::Resolve { is_won: false })]),
    "med-confirmed" => |trial| use_disputed(trial, [Confirm]),
    "evidence" => |trial| use_disputed(trial, [Prove]),
    "payout" => |trial| pay_out(trial, PayoutOutcome::Paid),
    "payout-failed" => |trial| pay_out(trial, PayoutOutcome::Failed { reason: "account closed".to_owned() }),
    "hold-released" => |trial| hold_released(trial),
    "delivery-retried" => |trial| {
        trial.world.listener.refuse(2);
        use_charge(trial, test(json!({})), [Begin, Create, Idle])
    },
    "endpoint-switched-off" => |trial| endpoint_switched_off(trial),
    "endpoint-deleted" => |trial| endpoint_deleted(trial),
    "key-rotated" => |trial| key_rotated(trial),
    "log-in" => |trial| log_in(trial),
}

/// A step of a scenario about one charge.
enum Step {
    /// The preparation ends.
    Begin,
    Create,
    Do(Action),
    Idle,
    UntilPaid,
    Pass(i64),
    /// An acquirer fails in this way. Null: it no longer fails.
    Control(&'static str, Value),
    /// The message of the refund is delivered several times at once, so several workers have it.
    Again,
    Appeal,
    Prove,
    /// An operator confirms that the claim is right.
    Confirm,
}

/// The methods of a charge by card, and of one that can also be paid by Pix at the bank.
const CARD: &[&str] = &["CREDIT_CARD"];
const EITHER: &[&str] = &["PIX", "CREDIT_CARD"];

/// The documents of the customer and of another payer.
const MARIA: &str = "29537995593";
const JOAO: &str = "25524893033";

/// How the clock advances past the expiry of a charge that expires after 60 s, in seconds. A live charge is
/// removed at the bank first.
const PAST_EXPIRY_S: i64 = 61;

/// In how many seconds a page of the acquirer of cards, and its charge, have ended; and a time just before.
const PAGE_ENDED_S: i64 = 86_400;
const PAGE_ENDS_S: i64 = 82_400;

fn plan(scope: usize, method: Method, mut creation: Value, fields: Value) -> Plan {
    if let Value::Object(fields) = fields {
        fields.into_iter().for_each(|(name, value)| creation[name] = value);
    }
    let is_locked = creation.get("expected_payer_tax_id").is_some();
    Plan { scope, method, amount: 1000, creation, is_locked, ..Plan::default() }
}

fn test(fields: Value) -> Plan {
    plan(FIRST, Method::Pix, json!({"amount": 1000}), fields)
}

fn live(fields: Value) -> Plan {
    plan(
        LIVE,
        Method::Live,
        json!({"amount": 1000, "customer": {"name": "Maria", "document": MARIA}}),
        fields,
    )
}

fn by(methods: &[&str]) -> Plan {
    let body = json!({"amount": 1000, "currency": "BRL", "paymentMethods": methods, "idempotencyKey": "order-00001"});
    plan(LIVE, if methods == CARD { Method::LiveCard } else { Method::Live }, body, Value::Null)
}

fn locked() -> Value {
    json!({"customer": {"name": "Maria"}, "expected_payer_tax_id": MARIA})
}

fn pay(fields: Value) -> Step {
    Do(Action::Pay(fields))
}

fn at_cards(act: &'static str, fields: Value) -> Step {
    Do(Action::There(act, fields))
}

fn fault_at(acquirer: &'static str, kind: &str) -> Step {
    Control(acquirer, json!({"kind": kind, "count": 100}))
}

fn devolution() -> Value {
    json!({"amount": 400, "strategy": "devolution"})
}

fn refund(mut body: Value) -> Step {
    body["idempotencyKey"] = "refund".into();
    Do(Action::Refund(vec![body]))
}

fn dispute() -> Step {
    Do(Action::Dispute { has_evidence: false })
}

/// Begins when a charge is paid. The net of a payment by card is available at once.
async fn use_paid(trial: &Trial, plan: Plan, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let fields = if plan.method == Method::LiveCard { json!({"available_on": 1}) } else { json!({}) };
    use_charge(trial, plan, [Create, pay(fields), UntilPaid, Begin].into_iter().chain(steps)).await
}

async fn use_disputed(trial: &Trial, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let open = [Create, pay(json!({})), dispute(), Begin];
    use_charge(trial, test(json!({})), open.into_iter().chain(steps)).await
}

async fn review(trial: &Trial, is_approved: bool) -> Result<()> {
    let pay = pay(json!({"payer_tax_id": null}));
    use_charge(trial, test(locked()), [Create, Begin, pay, Do(Action::Review { is_approved })]).await
}

async fn use_charge(trial: &Trial, plan: Plan, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    let (world, api, mut id) = (&trial.world, trial.world.api(&plan), String::new());
    for step in steps {
        let case = || world.note(&plan, |answered| answered.case.clone().unwrap_or_default());
        match step {
            Begin => trial.begin().await?,
            Create => id = world.create(&plan).await.unwrap_or_default(),
            Do(action) => world.act(&plan, &id, &action).await,
            Idle => trial.idle().await?,
            UntilPaid => until_paid(trial, &plan, &id).await?,
            Pass(seconds) => trial.pass(seconds).await?,
            Control(acquirer, Value::Null) => {
                api.expect(&Call::delete(format!("{acquirer}/faults")), 200).await?;
            }
            Control(acquirer, fault) => {
                api.expect(&Call::post(format!("{acquirer}/faults"), fault), 200).await?;
            }
            Again => {
                let refunds = world.note(&plan, |answered| answered.refunds.clone());
                let refund = refunds.keys().next().map(|id| id.parse::<RefundId>());
                let Some(Ok(id)) = refund else { return Err(Error::new("there is no refund")) };
                let url = queue_url(&trial.stack.endpoints.sqs_url, "AcquirerQueue");
                let queue = AcquirerQueue::new(local::sdk::sqs(&trial.stack.endpoints.sqs_url), url);
                let messages = [0; 3].map(|refusals| AcquirerMessage::Refund { id, refusals });
                queue.send(&messages).await.map_err(Error::of("sending messages"))?;
            }
            Appeal => world.appeal(api, &case()).await,
            Prove => world.prove(api, &case()).await,
            Confirm => confirm(trial, case().parse().ok()).await?,
        }
        trial.check()?;
    }
    Ok(())
}

async fn until_paid(trial: &Trial, plan: &Plan, id: &str) -> Result<()> {
    for attempt in 0_u32.. {
        let charge = trial.world.api(plan).read(format!("/v1/charges/{id}")).await?;
        if text(&charge, "status") == "paid" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        if attempt % 100 == 99 {
            trial.pass(ROUND_S).await?;
        }
    }
    Ok(())
}

async fn confirm(trial: &Trial, case: Option<MedCaseId>) -> Result<()> {
    let cases = MedCases::new(trial.operator_store());
    let confirm = async || {
        let row = cases.find(case).await.map_err(|error| error.to_string())?;
        let row = row.ok_or_else(|| "there is no case".to_owned())?;
        cases.confirm(row, &operator(), trial.now()).await.map_err(|error| error.to_string())
    };
    trial.operate(confirm).await.map(drop)
}

async fn pay_out(trial: &Trial, outcome: PayoutOutcome) -> Result<()> {
    use_paid(trial, test(json!({})), []).await?;
    let amount = Amount::parse(600).map_err(Error::of("the amount"))?;
    let payout = trial.pay_out(trial.scope(FIRST), amount, &outcome).await?;
    payout.map(drop).ok_or_else(|| Error::new("the balance is too low for the payout"))
}

async fn hold_released(trial: &Trial) -> Result<()> {
    let store = trial.store();
    let (accounts, keys) = (Accounts::new(store.clone()), ApiKeys::new(store, "ApiKeysTable"));
    let hold = |settings: &mut domain::account::AccountSettings| {
        settings.terms.0.insert(PaymentMethod::Pix, MethodTerms { hold_days: 1, ..MethodTerms::default() });
    };
    let (account, now) = (trial.scope(FIRST).account, trial.now());
    change_account_settings((&accounts, &keys), &account, audit::Action::SetHold, hold, &operator(), now)
        .await
        .map_err(Error::of("setting the hold"))?;
    use_paid(trial, test(json!({})), [Pass(2 * 86_400)]).await
}

/// Begins while deliveries to the endpoint of test mode fail. Returns its path.
async fn begin_with_failing_endpoint(trial: &Trial) -> Result<String> {
    trial.world.listener.refuse(100);
    use_charge(trial, test(json!({})), [Create, Begin]).await?;
    Ok(format!("/v1/webhooks/endpoints/{}", trial.world.scopes[FIRST].endpoint))
}

async fn endpoint_switched_off(trial: &Trial) -> Result<()> {
    let path = begin_with_failing_endpoint(trial).await?;
    let inactive = Call::patch(path, json!({"status": "INACTIVE"}));
    trial.api(Mode::Test).expect(&inactive, 200).await.map(drop)
}

async fn endpoint_deleted(trial: &Trial) -> Result<()> {
    let path = begin_with_failing_endpoint(trial).await?;
    // A repetition finds no endpoint.
    trial.world.must(trial.api(Mode::Test), Call::delete(path), &[200, 404]).await;
    trial.check()
}

async fn key_rotated(trial: &Trial) -> Result<()> {
    let token = trial.stack.owner_token(&trial.stack.seed.first).await.map_err(Error::of("the token"))?;
    let api = trial.api(Mode::Test);
    let issue = json!({"label": "caixa", "test": true});
    api.expect(&Call::post("/v1/api-keys", issue).with_token(&token), 201).await?;
    trial.begin().await?;
    // A repetition finds that the key is gone, and lists the keys again.
    for statuses in [&[201, 404][..], &[201]] {
        let keys = api.expect(&Call::get("/v1/api-keys").with_token(&token), 200).await?;
        let key = items(&keys["data"]).iter().find(|key| text(key, "label") == "caixa");
        let id = key.map(|key| text(key, "id")).unwrap_or_default();
        let rotate = Call::new(hyper::Method::POST, format!("/v1/api-keys/{id}/rotate")).with_token(&token);
        let rotated = trial.world.must(api, rotate, statuses).await;
        if rotated.is_some_and(|answer| answer.status == 201) {
            break;
        }
    }
    trial.check()
}

async fn log_in(trial: &Trial) -> Result<()> {
    let (owner, api) = (&trial.stack.seed.first, trial.api(Mode::Test));
    trial.begin().await?;
    let credentials = json!({"email": owner.owner_email, "password": owner.password});
    let session = api.expect(&Call::post("/v1/auth/login", credentials), 200).await?;
    let log_out = Call::new(hyper::Method::POST, "/v1/auth/logout").with_token(text(&session, "token"));
    // A repetition finds the token ended.
    trial.world.must(api, log_out, &[204, 401]).await;
    trial.check()
}
