//! Tests of the connector against the stand-in of Stripe, on a clock that the test moves.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use acquirer_kit::{
    Connector as _, KitError, NewCharge, Priority, RefundAnswer, RefundProgress, ReturnProgress,
};
use domain::account::AccountSettings;
use domain::account::terms::MethodTerms;
use domain::acquirer::{AcquirerName, Charged};
use domain::charge::transition::{self, Command, Finalised, IncomingPaymentWrite, Outcome};
use domain::charge::{Artefacts, Charge, IncomingPayment, Metadata, RefundParameters, TransactionStatus};
use domain::ids::{AccountId, ChargeId, Mode, RefundId, Scope};
use domain::med::{CaseKind, Decision};
use domain::money::{Amount, Currency, MinorUnits};
use domain::payment_method::PaymentMethod;
use domain::refund::{Refund, RefundFailure, RefundOutcome, RefundPlan};
use domain::snapshot::{RemotePayment, RemoteState, Snapshot};
use domain::time::Timestamp;
use domain::wallet::RefundStrategy;
use serde_json::{Value, json};
use stripe_client::{Client, ConnectionSettings, StripeConnector};
use stripe_stand_in::{Behaviour, ExpiredPaymentIntent, Options, Stripe};

#[expect(dead_code, reason = "these tests need one of the example charges")]
#[path = "../../../domain/src/charge/testing.rs"]
mod charges;
#[path = "connector/vouchers.rs"]
mod vouchers;

/// 2026-11-22T12:00:00Z in Unix seconds.
const START_S: i64 = 1_795_348_800;
const KEY: &str = "sk_live_test0000000000000000";
const RETURN_URL: &str = "https://shop.example.com/back";
const DAY_S: i64 = 86_400;
/// How long a page can be paid.
const PAGE_S: i64 = 23 * 3_600;

struct World {
    now_ms: Arc<AtomicI64>,
    stripe: Stripe,
    client: Client,
    connector: StripeConnector,
    settings: AccountSettings,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis((START_S + seconds) * 1_000).unwrap()
}

fn pending(name: &str, minor: i64, currency: &str) -> Charge {
    let sent = json!({"returnUrl": RETURN_URL});
    let scope = Scope { account: AccountId::new([7; 10]), mode: Mode::Live };
    Charge {
        id: ChargeId::derive(b"salt", Mode::Live, "charges", name),
        scope,
        status: TransactionStatus::Pending,
        amount: Amount::parse(minor).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        methods: vec![PaymentMethod::CreditCard],
        metadata: Metadata::from_request(sent.as_object().unwrap(), Some("Pedido 1")),
        acquirer: AcquirerName::Hosted,
        artefacts: Artefacts::default(),
        created_at: at(0),
        updated_at: at(0),
        ..charges::waiting()
    }
}

fn brl() -> Charge {
    pending("order-1", 10_000, "BRL")
}

/// The charge after its creation.
fn waiting(charge: Charge, made: Finalised) -> Charge {
    let Finalised::Made(artefacts) = made else { panic!("{made:?}") };
    Charge { status: TransactionStatus::WaitingPayment, artefacts: *artefacts, ..charge }
}

impl World {
    async fn start() -> Self {
        Self::start_with(Behaviour::default()).await
    }

    async fn start_with(behaviour: Behaviour) -> Self {
        Self::start_in("BR", behaviour).await
    }

    async fn start_in(country: &str, behaviour: Behaviour) -> Self {
        let now_ms = Arc::new(AtomicI64::new(START_S * 1_000));
        let clock = Arc::clone(&now_ms);
        let options = Options::new(Arc::new(move || clock.load(Ordering::SeqCst)), KEY);
        let stripe =
            Stripe::start(Options { behaviour, country: country.to_owned(), ..options }).await.unwrap();
        let settings = ConnectionSettings {
            base_url: stripe.url().to_owned(),
            files_url: stripe.url().to_owned(),
            api_key: KEY.to_owned().into(),
            requests_per_second: None,
        };
        let clock = Arc::clone(&now_ms);
        let now = Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)).unwrap());
        let client = Client::new(&settings, now).unwrap();
        let connector = StripeConnector::new(client.clone());
        Self { now_ms, stripe, client, connector, settings: AccountSettings::new("Loja", "Recife") }
    }

    fn advance_s(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
        self.stripe.wake();
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.load(Ordering::SeqCst)).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    fn control(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.stripe.control("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer:#}");
        answer
    }

    fn fault(&self, kind: &str, on: &str) {
        self.control("/faults", json!({"kind": kind, "on": Some(on).filter(|on| !on.is_empty())}));
    }

    fn books(&self, list: &str) -> Vec<Value> {
        self.stripe.control("GET", "/books", &Value::Null).1[list].as_array().unwrap().clone()
    }

    async fn create(&self, charge: &Charge, is_first: bool) -> Result<Finalised, KitError> {
        let (settings, return_url, pix_location, now) = (&self.settings, RETURN_URL, "", charge.created_at);
        self.connector.create(NewCharge { charge, settings, return_url, pix_location, is_first, now }).await
    }

    /// A charge that waits for its payer.
    async fn waiting(&self) -> Charge {
        waiting(brl(), self.create(&brl(), true).await.unwrap())
    }

    /// A charge of BRL 100.00 that is paid at Stripe and here.
    async fn paid(&self) -> Charge {
        self.paid_with_row().await.0
    }

    async fn paid_with_row(&self) -> (Charge, IncomingPayment) {
        let charge = self.waiting().await;
        self.act("/pay", &charge, json!({}));
        self.pay(&charge, self.read(&charge).await)
    }

    /// Records the payment of a snapshot.
    fn pay(&self, charge: &Charge, mut snapshot: Snapshot) -> (Charge, IncomingPayment) {
        let payment = snapshot.payments.remove(0).payment;
        let pay = Command::Pay { payment, terms: MethodTerms::default() };
        let paid = transition::apply(charge, &pay, self.now()).unwrap();
        let Outcome::Paid { charge, moved } = paid else { panic!("{paid:?}") };
        let IncomingPaymentWrite::Insert(incoming) = moved.incoming_payment else { panic!("{moved:?}") };
        (*charge, incoming)
    }

    /// Something that happens to the session of a charge.
    fn act(&self, path: &str, charge: &Charge, mut body: Value) -> Value {
        body["session"] = session(charge).into();
        self.control(path, body)
    }

    async fn read(&self, charge: &Charge) -> Snapshot {
        self.connector.read(charge, true).await.unwrap().unwrap()
    }

    async fn close(&self, charge: &Charge) -> Snapshot {
        self.connector.close(charge, Priority::Create).await.unwrap().unwrap()
    }

    /// Reads a refund, and requests it if Stripe does not know it.
    async fn refund(&self, refund: &Refund) -> RefundAnswer {
        match self.connector.find_refund(refund, self.now()).await.unwrap() {
            Some(known) => known,
            None => self.connector.request_refund(refund, at(0), self.now()).await.unwrap(),
        }
    }

    async fn give_back(&self, payment: &IncomingPayment, attempt: &str) -> ReturnProgress {
        match self.connector.find_return(payment, attempt, self.now()).await.unwrap() {
            Some(known) => known,
            None => self.connector.request_return(payment, attempt, self.now()).await.unwrap(),
        }
    }
}

fn session(charge: &Charge) -> String {
    charge.artefacts.card.as_ref().unwrap().page.as_ref().unwrap().id.clone()
}

/// A refund of a part of a paid charge.
fn refund_of(charge: &Charge, name: &str, minor: i64) -> Refund {
    let plan = RefundPlan {
        parameters: RefundParameters {
            gross: Some(Amount::parse(minor).unwrap()),
            strategy: RefundStrategy::Devolution,
            pix_out_fee: MinorUnits::ZERO,
            merchant_bears_pix_out: false,
            is_held: false,
        },
        destination: None,
        to_payer: false,
        third_party: false,
        limit: None,
        reason: None,
        request_hash: "0".repeat(32),
    };
    Refund::request(RefundId::derive(charge.id, name), charge, plan, at(1)).unwrap().refund
}

fn is_refused(made: &Finalised, expected: &str) -> bool {
    matches!(made, Finalised::Refused(reason) if reason.code() == expected && !reason.to_string().contains("Stripe"))
}

#[tokio::test]
async fn a_charge_becomes_a_page_that_ends_within_a_day() {
    let world = World::start().await;
    assert!(world.connector.capabilities(PaymentMethod::Pix, Currency::BRL).is_none());
    let charge = world.waiting().await;
    let card = charge.artefacts.card.clone().unwrap();
    assert_eq!((card.expires_at, card.return_url.as_deref()), (at(PAGE_S), Some(RETURN_URL)));
    assert!(card.page.unwrap().url.starts_with(world.stripe.url()));
    let made = world.books("sessions").remove(0);
    assert_eq!(made["metadata"]["charge"], charge.id.to_string());
    assert_eq!(made["client_reference_id"], charge.id.to_string());
    let cancelled = json!(format!("{RETURN_URL}&cancelled=1"));
    assert_eq!((&made["success_url"], &made["cancel_url"]), (&json!(RETURN_URL), &cancelled));
    assert_eq!((&made["amount_total"], &made["currency"]), (&json!(10_000), &json!("brl")));
    assert_eq!(world.read(&charge).await.state, RemoteState::Open);
    let status = world.connector.status(&charge).await.unwrap().unwrap();
    assert_eq!((status.provider, &*status.status), ("card", "open"));
    assert_eq!(status.transaction_id, charge.id.txid());
    assert_eq!(json!(status.raw_response), json!({"amount": 10_000, "currency": "BRL", "status": "open"}));
}

#[tokio::test]
async fn a_currency_without_decimals_goes_through_unchanged() {
    let world = World::start().await;
    let yen = pending("order-yen", 500, "JPY");
    let charge = waiting(yen.clone(), world.create(&yen, true).await.unwrap());
    world.act("/pay", &charge, json!({}));
    assert_eq!(world.books("sessions")[0]["amount_total"], 500);
    assert_eq!(world.read(&charge).await.payments[0].payment.amount.minor(), 500);
    let small = pending("order-small", 1, "BRL");
    assert!(is_refused(&world.create(&small, true).await.unwrap(), "amount_too_small"));
    let other_unit = pending("order-isk", 1_000, "ISK");
    assert!(is_refused(&world.create(&other_unit, true).await.unwrap(), "acquirer_refused"));
    world.fault("http_402", "POST /v1/checkout/sessions");
    assert!(is_refused(
        &world.create(&pending("order-402", 900, "BRL"), true).await.unwrap(),
        "acquirer_refused"
    ));
}

#[tokio::test]
async fn what_the_capabilities_allow_is_taken() {
    let world = World::start().await;
    let taken = |code: &str| {
        let currency = Currency::parse(code).unwrap();
        world.connector.capabilities(PaymentMethod::CreditCard, currency).unwrap()
    };
    for code in ["ISK", "UGX", "MGA", "IQD", "LYD", "VES", "VED", "GHS", "KPW"] {
        assert_eq!(taken(code).amounts, None, "{code}");
    }
    for (code, least, multiple_of) in [
        ("BRL", 50, 1),
        ("GBP", 30, 1),
        ("HUF", 17_500, 1),
        ("MXN", 1_000, 1),
        ("CZK", 1_500, 1),
        ("JPY", 50, 1),
        ("KWD", 50, 10),
    ] {
        let capabilities = taken(code);
        assert_eq!(
            (capabilities.amounts, capabilities.multiple_of),
            (Some((least, 99_999_999)), multiple_of)
        );
        let made = world.create(&pending(code, least, code), true).await.unwrap();
        assert!(matches!(made, Finalised::Made(_)), "{code}: {made:?}");
    }
}

/// The next charge would be refused too, so the charge is not declined.
#[tokio::test]
async fn a_refusal_about_time_or_currency_is_the_connections() {
    let world = World::start().await;
    // The service's clock is two hours ahead.
    let ahead = Charge { created_at: at(2 * 3_600), ..brl() };
    let unknown = pending("order-xts", 10_000, "XTS");
    for charge in [ahead, unknown] {
        assert!(matches!(world.create(&charge, true).await, Err(KitError::Unavailable(_))));
    }
    let ahead_within_an_hour = Charge { created_at: at(3_500), ..brl() };
    assert!(matches!(world.create(&ahead_within_an_hour, true).await, Ok(Finalised::Made(_))));
}

#[tokio::test]
async fn refunds_and_disputes_are_read_if_there_may_be_some() {
    let world = World::start().await;
    let requests = || {
        let sent = world.stripe.control("GET", "/requests", &Value::Null).1;
        sent.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>()
    };
    let charge = world.paid().await;
    let read = async || {
        let before = requests();
        let snapshot = world.connector.read(&charge, false).await.unwrap().unwrap();
        (requests() - before, snapshot.refunds.len(), snapshot.disputes.len())
    };
    assert_eq!(read().await, (1, 0, 0));
    let refund = world.act("/refund", &charge, json!({"amount": 1_000}));
    assert_eq!(read().await, (2, 1, 0));
    let path = format!("/refunds/{}", refund["id"].as_str().unwrap());
    world.control(&path, json!({"status": "failed"}));
    assert_eq!(read().await, (1, 0, 0), "a refund that failed after it succeeded is in its own event");
    let whole = world.connector.read(&charge, true).await.unwrap().unwrap();
    assert_eq!((whole.refunds.len(), whole.disputes.len()), (1, 0));
    assert!(world.connector.changes(at(-60), None).await.unwrap().whole.contains(&charge.id));
    world.act("/dispute", &charge, json!({"kind": "formal"}));
    assert_eq!(read().await, (2, 0, 1));
}

#[tokio::test]
async fn a_creation_that_fails_makes_one_session() {
    let path = "POST /v1/checkout/sessions";
    for fault in ["lost_answer", "http_500", "rate_limit", "lock_timeout", "key_expired"] {
        let world = World::start().await;
        world.fault(fault, path);
        let first = world.create(&brl(), true).await;
        let is_unknown = matches!(&first, Err(KitError::Unavailable(_) | KitError::Limited(_)));
        // An immediate failure may be answered by the second key.
        assert!(is_unknown || fault == "http_500", "{fault}: {first:?}");
        world.advance_s(65);
        let charge = waiting(brl(), world.create(&brl(), false).await.unwrap());
        assert_eq!(world.books("sessions").len(), 1, "{fault}");
        assert_eq!(world.read(&charge).await.state, RemoteState::Open);
        // The session is found for a charge that does not know it.
        assert_eq!(world.read(&brl()).await.state, RemoteState::Open);
    }
    for fault in ["stored_500", "stored_500_after_write"] {
        let world = World::start().await;
        world.fault(fault, path);
        waiting(brl(), world.create(&brl(), true).await.unwrap());
        waiting(brl(), world.create(&brl(), false).await.unwrap());
        assert_eq!(world.books("sessions").len(), 1, "{fault}");
    }
    let world = World::start().await;
    world.fault("stored_500", path);
    world.fault("stored_500", path);
    assert!(matches!(world.create(&brl(), true).await, Err(KitError::Unavailable(_))));
}

#[tokio::test]
async fn a_session_is_found_behind_many_others() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.act("/pay", &charge, json!({}));
    for number in 0..110 {
        world.create(&pending(&format!("other-{number}"), 900, "BRL"), true).await.unwrap();
    }
    assert_eq!(world.read(&brl()).await.state, RemoteState::Paid);
    assert_eq!(session(&waiting(brl(), world.create(&brl(), false).await.unwrap())), session(&charge));
}

#[tokio::test]
async fn a_payment_is_read_with_its_fee_as_soon_as_it_is_known() {
    let behaviour = Behaviour { balance_transaction_after_s: Some(600), ..Behaviour::default() };
    let world = World::start_with(behaviour).await;
    let charge = world.waiting().await;
    world.act("/pay", &charge, json!({"fee": 438}));
    let snapshot = world.read(&charge).await;
    assert_eq!((&snapshot.state, snapshot.payments.len()), (&RemoteState::Paid, 1));
    let RemotePayment { payment, lacks_fee } = &snapshot.payments[0];
    assert!(*lacks_fee && payment.charged.is_none() && payment.is_in_time);
    assert!(payment.id.as_str().starts_with("pi_"));
    assert_eq!((payment.amount.minor(), payment.paid_at), (10_000, at(0)));
    world.advance_s(601);
    // The stand-in acts on the clock at its next request.
    let RemotePayment { payment, lacks_fee } = world.read(&charge).await.payments.remove(0);
    let fee = payment.charged.unwrap();
    assert!(!lacks_fee);
    assert_eq!(fee.fee, MinorUnits::new(438));
    assert!(fee.available_at >= at(30 * DAY_S), "{fee:?}");
    let status = world.connector.status(&charge).await.unwrap().unwrap();
    assert_eq!((&*status.status, &*status.transaction_id), ("paid", payment.id.as_str()));
}

#[tokio::test]
async fn a_fee_in_another_currency_is_not_taken() {
    let behaviour = Behaviour { exchange_rate_millionths: Some(5_000_000), ..Behaviour::default() };
    let world = World::start_with(behaviour).await;
    let euros = pending("order-eur", 1_000, "EUR");
    let charge = waiting(euros.clone(), world.create(&euros, true).await.unwrap());
    world.act("/pay", &charge, json!({}));
    let RemotePayment { payment, lacks_fee } = world.read(&charge).await.payments.remove(0);
    assert_eq!((lacks_fee, payment.charged), (false, None::<Charged>));
}

#[tokio::test]
async fn a_payer_may_try_again_after_a_decline() {
    let world = World::start().await;
    let charge = world.waiting().await;
    for (decline, code) in [
        ("insufficient_funds", "insufficient_funds"),
        ("stolen_card", "card_declined"),
        ("expired_card", "expired_card"),
    ] {
        world.act("/decline", &charge, json!({"decline_code": decline}));
        let snapshot = world.read(&charge).await;
        assert_eq!((&snapshot.state, snapshot.last_decline.unwrap().code()), (&RemoteState::Open, code));
    }
    world.act("/3ds", &charge, json!({"outcome": "challenge"}));
    assert_eq!(world.read(&charge).await.state, RemoteState::InProgress);
    world.act("/3ds", &charge, json!({"outcome": "fail"}));
    let snapshot = world.read(&charge).await;
    assert_eq!(snapshot.state, RemoteState::Open);
    assert_eq!(snapshot.last_decline.unwrap().code(), "authentication_failed");
    world.act("/3ds", &charge, json!({"outcome": "challenge"}));
    world.act("/3ds", &charge, json!({"outcome": "succeed"}));
    let snapshot = world.read(&charge).await;
    assert_eq!((snapshot.state, snapshot.last_decline), (RemoteState::Paid, None));
}

#[tokio::test]
async fn a_complete_session_may_be_unpaid() {
    for completes in [true, false] {
        let behaviour = Behaviour { processing_completes_session: completes, ..Behaviour::default() };
        let world = World::start_with(behaviour).await;
        let charge = world.waiting().await;
        world.act("/pay", &charge, json!({"processing_s": 0}));
        let snapshot = world.read(&charge).await;
        assert_eq!((&snapshot.state, snapshot.payments.len()), (&RemoteState::InProgress, 0));
        assert_eq!(world.close(&charge).await.state, RemoteState::InProgress);
        world.act("/decline", &charge, json!({"decline_code": "insufficient_funds"}));
        match world.read(&charge).await.state {
            RemoteState::ClosedByAcquirer(why) if completes => assert_eq!(why.code(), "insufficient_funds"),
            state => assert_eq!((state, completes), (RemoteState::Open, false)),
        }
    }
}

#[tokio::test]
async fn a_session_ends_by_time_by_us_or_elsewhere() {
    use ExpiredPaymentIntent::{Canceled, Cleared, Kept};
    for expired_payment_intent in [Canceled, Kept, Cleared] {
        let behaviour = Behaviour { expired_payment_intent, ..Behaviour::default() };
        let world = World::start_with(behaviour.clone()).await;
        let charge = world.waiting().await;
        world.act("/decline", &charge, json!({"decline_code": "insufficient_funds"}));
        world.advance_s(DAY_S);
        let snapshot = world.read(&charge).await;
        assert_eq!(snapshot.state, RemoteState::Expired);
        assert_eq!(snapshot.last_decline.is_some(), expired_payment_intent != Cleared);
        assert_eq!(world.close(&charge).await.state, RemoteState::Expired);
        let world = World::start_with(behaviour).await;
        let charge = world.waiting().await;
        world.act("/decline", &charge, json!({}));
        assert_eq!(world.close(&charge).await.state, RemoteState::ClosedByUs);
        // Closing it again, and reading it, find the same.
        assert_eq!(world.close(&charge).await.state, RemoteState::ClosedByUs);
        assert_eq!(world.read(&charge).await.state, RemoteState::ClosedByUs);
        if expired_payment_intent == Kept {
            world.act("/pay", &charge, json!({"late": true}));
            let snapshot = world.read(&charge).await;
            assert_eq!((snapshot.state, snapshot.payments.len()), (RemoteState::Paid, 1));
        }
    }
    let world = World::start().await;
    let charge = world.waiting().await;
    world.act("/cancel", &charge, json!({}));
    let state = world.read(&charge).await.state;
    assert!(matches!(&state, RemoteState::ClosedByAcquirer(why) if why.code() == "canceled"), "{state:?}");
    assert!(!matches!(world.close(&charge).await.state, RemoteState::Open | RemoteState::InProgress));
}

#[tokio::test]
async fn a_payment_in_progress_at_the_end_of_its_session_is_not_lost() {
    use ExpiredPaymentIntent::{Canceled, Cleared, Kept};
    for expired_payment_intent in [Canceled, Kept, Cleared] {
        let world = World::start_with(Behaviour {
            expired_payment_intent,
            expires_during_payment: true,
            processing_completes_session: false,
            ..Behaviour::default()
        })
        .await;
        let charge = world.waiting().await;
        world.act("/pay", &charge, json!({"processing_s": 60}));
        assert_eq!(world.close(&charge).await.state, RemoteState::InProgress);
        world.advance_s(61);
        let snapshot = world.read(&charge).await;
        assert_eq!((snapshot.state, snapshot.payments.len()), (RemoteState::Paid, 1));
    }
    // By a cancellation, an authentication ends: at Stripe, or by the return of a payment that it leads to.
    for (expires_during_authentication, expired_payment_intent, state) in [
        (true, Canceled, RemoteState::ClosedByUs),
        (true, Kept, RemoteState::ClosedByUs),
        (true, Cleared, RemoteState::ClosedByUs),
        (false, Canceled, RemoteState::InProgress),
    ] {
        let behaviour =
            Behaviour { expires_during_authentication, expired_payment_intent, ..Behaviour::default() };
        let world = World::start_with(behaviour).await;
        let charge = world.waiting().await;
        world.act("/3ds", &charge, json!({"outcome": "challenge"}));
        assert_eq!(world.close(&charge).await.state, state);
        assert_eq!(world.read(&charge).await.state, state);
    }
    let behaviour = Behaviour { expires_during_payment: true, ..Behaviour::default() };
    let world = World::start_with(behaviour).await;
    let charge = world.waiting().await;
    world.act("/3ds", &charge, json!({"outcome": "challenge"}));
    world.advance_s(PAGE_S + 1);
    assert_eq!(world.read(&charge).await.state, RemoteState::InProgress);
    world.advance_s(3_600);
    assert_eq!(world.read(&charge).await.state, RemoteState::Expired);
}

#[tokio::test]
async fn closing_repeats_after_faults_and_finds_a_payment() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.act("/pay", &charge, json!({}));
    let closed = world.close(&charge).await;
    assert_eq!((closed.state, closed.payments.len()), (RemoteState::Paid, 1));
    for fault in ["lost_answer", "rate_limit", "stored_500_after_write"] {
        let world = World::start().await;
        let charge = world.waiting().await;
        world.fault(fault, "POST /v1/checkout/sessions/");
        let closed = world.connector.close(&charge, Priority::Settle).await;
        // After a lost answer, the transport may already have repeated the request on a new connection.
        assert!(closed.is_err() || fault != "rate_limit", "{fault}: {closed:?}");
        world.advance_s(65);
        assert_eq!(world.close(&charge).await.state, RemoteState::ClosedByUs, "{fault}");
    }
    let unknown = World::start().await;
    assert_eq!(unknown.connector.read(&charge, false).await, Ok(None));
    assert_eq!(unknown.connector.close(&brl(), Priority::Create).await, Ok(None));
    assert!(unknown.connector.status(&brl()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_object_of_another_charge_is_set_aside() {
    let world = World::start().await;
    let charge = world.waiting().await;
    let other = Charge { artefacts: charge.artefacts.clone(), ..pending("order-2", 10_000, "BRL") };
    let read = world.connector.read(&other, false).await.unwrap().unwrap();
    assert!(read.is_partial && read.payments.is_empty() && read.odd.len() == 1, "{read:?}");
}

#[tokio::test]
async fn a_refund_is_made_once_whatever_is_lost() {
    for fault in ["", "lost_answer", "rate_limit", "stored_500", "stored_500_after_write"] {
        let world = World::start().await;
        let charge = world.paid().await;
        let refund = refund_of(&charge, "a", 4_000);
        if !fault.is_empty() {
            world.fault(fault, "POST /v1/refunds");
        }
        let first = world.refund(&refund).await;
        // After a lost answer, the transport may already have repeated the request on a new connection.
        let is_open = matches!(first.progress, RefundProgress::RequestAgain(_));
        assert!(is_open != fault.is_empty() || fault == "lost_answer", "{fault}: {first:?}");
        // The keys are forgotten.
        world.advance_s(2 * DAY_S);
        let answer = world.refund(&refund).await;
        assert_eq!(answer.progress, RefundProgress::Ended(RefundOutcome::Refunded), "{fault}");
        let refunds = world.books("refunds");
        assert_eq!(refunds.len(), 1, "{fault}");
        assert_eq!(
            (&refunds[0]["amount"], &refunds[0]["id"]),
            (&json!(4_000), &json!(answer.said.id.unwrap()))
        );
        let snapshot = world.read(&charge).await;
        assert_eq!((snapshot.state, snapshot.refunds.len()), (RemoteState::Paid, 1));
        assert_eq!(snapshot.refunds[0].ours, Some(refund.id));
        assert_eq!(snapshot.refunds[0].outcome, Some(RefundOutcome::Refunded));
    }
}

#[tokio::test]
async fn another_key_follows_only_a_failure_that_stripe_repeats() {
    let world = World::start().await;
    let charge = world.paid().await;
    let refund = refund_of(&charge, "a", 4_000);
    let is_spent = async |refund: &Refund| match world.refund(refund).await.progress {
        RefundProgress::RequestAgain(again) => Some(again.is_spent),
        _ => None,
    };
    world.fault("http_500", "POST /v1/refunds");
    assert_eq!(is_spent(&refund).await, Some(false), "it would be executed");
    assert_eq!(is_spent(&refund).await, None);
    let refund = refund_of(&charge, "b", 1_000);
    world.fault("stored_500", "POST /v1/refunds");
    assert_eq!(is_spent(&refund).await, Some(false));
    assert_eq!(is_spent(&refund).await, Some(true));
    assert_eq!(is_spent(&Refund { spent_requests: 1, ..refund }).await, None);
    assert_eq!(world.books("refunds").len(), 2);
}

#[tokio::test]
async fn a_refund_may_wait_fail_and_be_refused() {
    for fault in ["refund_pending", "refund_requires_action"] {
        let world = World::start().await;
        let charge = world.paid().await;
        let refund = refund_of(&charge, "a", 4_000);
        world.fault(fault, "");
        assert!(matches!(world.refund(&refund).await.progress, RefundProgress::PollAgainAt(_)));
        world.advance_s(3 * DAY_S);
        let waits = world.refund(&refund).await;
        assert_eq!(waits.progress, RefundProgress::PollAgainAt(world.now().saturating_plus_seconds(900)));
        assert_eq!(world.read(&charge).await.refunds[0].outcome, None);
        let path = format!("/refunds/{}", waits.said.id.unwrap());
        world.control(&path, json!({"status": "failed", "failure_reason": "declined"}));
        let failed = world.refund(&refund).await;
        assert_eq!(failed.progress, RefundProgress::Ended(RefundOutcome::Failed));
        assert_eq!(failed.said.reason, Some(RefundFailure::IssuerDeclined));
        let snapshot = world.read(&charge).await;
        assert_eq!(snapshot.refunds[0].outcome, Some(RefundOutcome::Failed));
        assert_eq!(world.books("refunds").len(), 1);
    }
    let world = World::start().await;
    let charge = world.paid().await;
    world.act("/refund", &charge, json!({"amount": 9_000}));
    let refund = refund_of(&charge, "a", 4_000);
    let answer = world.refund(&refund).await;
    assert_eq!(answer.progress, RefundProgress::RefusedUntil(refund.created_at.saturating_plus_seconds(300)));
    assert!(!answer.said.reason.unwrap().to_string().contains("Stripe"));
    let there = &world.read(&charge).await.refunds[0];
    assert_eq!((there.ours, there.amount.minor()), (None, 9_000));
    let made_there = Refund { requested_at_bank: Some(there.id.clone()), ..refund };
    assert_eq!(world.refund(&made_there).await.progress, RefundProgress::Ended(RefundOutcome::Refunded));
}

#[tokio::test]
async fn a_payment_is_given_back_once() {
    let world = World::start().await;
    let (_, payment) = world.paid_with_row().await;
    let give_back = async |attempt: &str| world.give_back(&payment, attempt).await;
    world.fault("refund_fails", "");
    assert_eq!(give_back("d1").await, ReturnProgress::NotRealised);
    world.fault("refund_pending", "");
    assert!(matches!(give_back("d2").await, ReturnProgress::PollAgainAt(_)));
    let pending = world.books("refunds").remove(1)["id"].as_str().unwrap().to_owned();
    world.control(&format!("/refunds/{pending}"), json!({"status": "succeeded"}));
    assert_eq!(give_back("d2").await, ReturnProgress::Returned(Some(pending)));
    assert_eq!(give_back("d3").await, ReturnProgress::ReturnedByBank);
    assert_eq!(world.books("refunds").len(), 2);
    let world = World::start().await;
    let (charge, payment) = world.paid_with_row().await;
    world.act("/refund", &charge, json!({"amount": 2_500}));
    let rest = world.give_back(&payment, "d1").await;
    assert_eq!(rest, ReturnProgress::ReturnedByBank);
    assert_eq!(world.books("refunds")[1]["amount"], 7_500);
}

#[tokio::test]
async fn disputes_have_a_kind_a_deadline_and_a_decision() {
    let world = World::start().await;
    let charge = world.paid().await;
    let dispute = world.act("/dispute", &charge, json!({"kind": "inquiry", "amount": 4_000}));
    let path = format!("/disputes/{}", dispute["id"].as_str().unwrap());
    let read = async || world.read(&charge).await.disputes.remove(0);
    let inquiry = read().await;
    assert_eq!((inquiry.kind, inquiry.decision, inquiry.amount.minor()), (CaseKind::Dispute, None, 4_000));
    assert_eq!((inquiry.due_by, inquiry.reason.as_deref()), (Some(at(7 * DAY_S)), Some("fraudulent")));
    for (status, kind, decision) in [
        ("warning_closed", CaseKind::Dispute, Some(Decision::Merchant)),
        ("needs_response", CaseKind::Chargeback, None),
        ("under_review", CaseKind::Chargeback, None),
        ("won", CaseKind::Chargeback, Some(Decision::Merchant)),
        ("lost", CaseKind::Chargeback, Some(Decision::Payer)),
    ] {
        world.control(&path, json!({"status": status}));
        let remote = read().await;
        assert_eq!((remote.kind, remote.decision), (kind, decision), "{status}");
    }
    world.control(&path, json!({"status": "prevented"}));
    assert_eq!(world.read(&charge).await.disputes, [], "an operator looks at it");
    for (order, body) in [("0", json!({"due_by": 0})), ("null", json!({"no_due_by": true}))] {
        let world = World::start().await;
        let charge = world.paid().await;
        let mut body = body;
        body["kind"] = "formal".into();
        world.act("/dispute", &charge, body);
        assert_eq!(world.read(&charge).await.disputes[0].due_by, None, "{order}");
    }
}

#[tokio::test]
async fn changes_name_each_charge_once_and_no_other_object() {
    let world = World::start().await;
    let charge = world.paid().await;
    world.refund(&refund_of(&charge, "a", 1_000)).await;
    world.act("/dispute", &charge, json!({"kind": "formal"}));
    world.control("/pay-elsewhere", json!({"amount": 900, "currency": "brl", "metadata": {"charge": "x"}}));
    let (mut cursor, mut found) = (None::<String>, Vec::new());
    loop {
        let changes = world.connector.changes(at(-60), cursor.as_deref()).await.unwrap();
        found.extend(changes.charges);
        cursor = changes.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, [charge.id]);
    world.advance_s(60);
    assert!(world.connector.changes(at(30), None).await.unwrap().charges.is_empty());
}
