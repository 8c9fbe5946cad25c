//! Tests of the connector against the stand-in of BTCPay Server, on a clock that the test moves, and against a server
//! with scripted answers for what no server should answer.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use acquirer_kit::{Changes, Connector as _, KitError, NewCharge, Priority};
use btcpay_client::{BtcpayConnector, Client, ConnectionSettings, EVENT_TYPES, NewInvoice};
use btcpay_stand_in::{BtcPay, Options};
use domain::account::AccountSettings;
use domain::account::terms::MethodTerms;
use domain::acquirer::AcquirerName;
use domain::charge::transition::{self, Command, Finalised, IncomingPaymentWrite, Outcome};
use domain::charge::{Artefacts, Charge, Crypto, FailureReason, TransactionStatus};
use domain::ids::{AccountId, AcquirerPaymentId, ChargeId, ConnectionId, Mode, Scope};
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::snapshot::{RemoteState, Snapshot};
use domain::time::Timestamp;
use serde_json::{Value, json};

#[expect(dead_code, reason = "these tests need one of the example charges")]
#[path = "../../../domain/src/charge/testing.rs"]
mod charges;
#[path = "connector/scripted.rs"]
mod scripted;
#[path = "connector/webhooks.rs"]
mod webhooks;

/// 2026-11-22T12:00:00Z in Unix seconds.
const START_S: i64 = 1_795_348_800;
const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
const STORE: &str = "9CiNzKoANXxmk5ayZngSXrHTiVvvgCrwrpFQd4m2K776";
const HOUR_S: i64 = 3_600;
const WEEK_S: i64 = 7 * 24 * HOUR_S;

struct World {
    now_ms: Arc<AtomicI64>,
    btcpay: BtcPay,
    client: Client,
    connector: BtcpayConnector,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis((START_S + seconds) * 1_000).unwrap()
}

fn pending(name: &str, minor: i64, currency: &str) -> Charge {
    Charge {
        id: ChargeId::derive(b"salt", Mode::Live, "charges", name),
        scope: Scope { account: AccountId::new([7; 10]), mode: Mode::Live },
        status: TransactionStatus::Pending,
        amount: Amount::parse(minor).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        methods: vec![PaymentMethod::Crypto],
        acquirer: AcquirerName::Hosted,
        connection: Some(ConnectionId::derive("btcpay", "https://btcpay.example.com", STORE)),
        artefacts: Artefacts::default(),
        created_at: at(0),
        updated_at: at(0),
        ..charges::waiting()
    }
}

/// A charge of BRL 100.00, for which 18,519 satoshis are due at the rate of the stand-in.
fn brl() -> Charge {
    pending("order-1", 10_000, "BRL")
}

async fn create(connector: &BtcpayConnector, charge: &Charge, is_first: bool) -> Result<Finalised, KitError> {
    let settings = &AccountSettings::new("Loja", "Recife");
    let now = charge.created_at;
    connector.create(NewCharge { charge, settings, return_url: "", pix_location: "", is_first, now }).await
}

/// The charge after its creation.
fn waiting(charge: Charge, made: Finalised) -> Charge {
    let Finalised::Made(artefacts) = made else { panic!("{made:?}") };
    Charge { status: TransactionStatus::WaitingPayment, artefacts: *artefacts, ..charge }
}

fn crypto(charge: &Charge) -> &Crypto {
    charge.artefacts.crypto.as_ref().unwrap()
}

fn invoice_id(charge: &Charge) -> &str {
    crypto(charge).invoice.as_deref().unwrap()
}

/// The payments of a snapshot: whether the id is the invoice's, the amount, and whether it is in time.
fn payments(charge: &Charge, snapshot: &Snapshot) -> Vec<(bool, i64, bool)> {
    let payments = snapshot.payments.iter().map(|remote| &remote.payment);
    let of = |id: &str| id == invoice_id(charge);
    payments.map(|it| (of(it.id.as_str()), it.amount.minor(), it.is_in_time)).collect()
}

impl World {
    async fn start() -> Self {
        let now_ms = Arc::new(AtomicI64::new(START_S * 1_000));
        let clock = Arc::clone(&now_ms);
        let options = Options::new(Arc::new(move || clock.load(Ordering::SeqCst)), KEY, STORE);
        let btcpay = BtcPay::start(options).await.unwrap();
        let client = Self::client(&btcpay, &now_ms, KEY);
        Self { now_ms, btcpay, connector: BtcpayConnector::new(client.clone()), client }
    }

    fn client(btcpay: &BtcPay, now_ms: &Arc<AtomicI64>, key: &str) -> Client {
        let settings = ConnectionSettings {
            base_url: btcpay.url().to_owned(),
            store: STORE.parse().unwrap(),
            api_key: key.to_owned().into(),
            requests_per_second: None,
        };
        let clock = Arc::clone(now_ms);
        let now = Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)).unwrap());
        Client::new(&settings, now).unwrap()
    }

    fn advance_s(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
        self.btcpay.wake();
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.load(Ordering::SeqCst)).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls are shorter")]
    fn control(&self, path: &str, body: Value) {
        let (status, answer) = self.btcpay.control("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer:#}");
    }

    fn fault(&self, kind: &str, on: &str) {
        self.control("/faults", json!({"kind": kind, "on": on}));
    }

    /// Pays satoshis to the charge's invoice.
    fn pay(&self, charge: &Charge, satoshis: i64, confirmed: bool) {
        let amount = Amount::parse(satoshis).unwrap().decimal(8);
        self.control(
            "/pay",
            json!({"invoice": invoice_id(charge), "amount": amount, "confirmed": confirmed}),
        );
    }

    fn invoices(&self) -> Vec<Value> {
        self.btcpay.control("GET", "/books", &json!({})).1["invoices"].as_array().unwrap().clone()
    }

    async fn waiting(&self) -> Charge {
        waiting(brl(), create(&self.connector, &brl(), true).await.unwrap())
    }

    async fn read(&self, charge: &Charge) -> Snapshot {
        self.connector.read(charge, true).await.unwrap().unwrap()
    }

    async fn close(&self, charge: &Charge) -> Snapshot {
        self.connector.close(charge, Priority::Create).await.unwrap().unwrap()
    }

    /// Records the payments of a snapshot. Returns the charge, and the amounts of those that wait for an operator.
    fn record(&self, charge: Charge, snapshot: Snapshot) -> (Charge, Vec<i64>) {
        let mut unmatched = Vec::new();
        let charge = snapshot.payments.into_iter().fold(charge, |charge, remote| {
            let pay = Command::Pay { payment: remote.payment, terms: MethodTerms::default() };
            match transition::apply(&charge, &pay, self.now()).unwrap() {
                Outcome::Paid { charge, moved } => {
                    let IncomingPaymentWrite::Insert(incoming) = moved.incoming_payment else { panic!() };
                    unmatched.extend(incoming.is_unmatched().then(|| incoming.amount.minor()));
                    *charge
                }
                Outcome::Unchanged => charge,
                other => panic!("{other:?}"),
            }
        });
        (charge, unmatched)
    }

    /// All changes of a week before, by pages.
    async fn changes(&self) -> Changes {
        let (mut all, mut cursor) = (Changes::default(), None);
        loop {
            let page = self.connector.changes(self.now(), cursor.as_deref()).await.unwrap();
            all.charges.extend(page.charges);
            all.ended.extend(page.ended);
            all.unpaid.extend(page.unpaid);
            all.odd.extend(page.odd);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return all,
            }
        }
    }
}

#[tokio::test]
async fn a_charge_is_an_invoice_with_an_address() {
    let world = World::start().await;
    let charge = world.waiting().await;
    let invoices = world.invoices();
    assert_eq!(invoices.len(), 1);
    let invoice = &invoices[0];
    assert_eq!(
        crypto(&charge),
        &Crypto {
            address: invoice["paymentMethods"][0]["destination"].as_str().unwrap().to_owned(),
            amount: "0.00018519".to_owned(),
            network: "BITCOIN".to_owned(),
            currency: Currency::BTC,
            invoice: Some(invoice["id"].as_str().unwrap().to_owned()),
            expires_at: at(HOUR_S),
        }
    );
    assert_eq!((&invoice["amount"], &invoice["currency"]), (&json!("100.00"), &json!("BRL")));
    assert_eq!(invoice["metadata"], json!({"orderId": charge.id}));
    assert_eq!(invoice["monitoringExpiration"], START_S + HOUR_S + WEEK_S);
    let checkout = &invoice["checkout"];
    assert_eq!(checkout["speedPolicy"], "MediumSpeed");
    assert_eq!((&checkout["redirectURL"], &checkout["paymentTolerance"]), (&Value::Null, &json!(0)));
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::Open));
}

#[tokio::test]
async fn an_amount_has_the_decimals_of_its_currency() {
    let world = World::start().await;
    for (minor, currency, amount) in [
        (1, "BTC", "0.00000001"),
        (123_456_789, "BTC", "1.23456789"),
        (1, "BRL", "0.01"),
        (999_999_999_999, "USD", "9999999999.99"),
        (500, "EUR", "5.00"),
    ] {
        let charge = pending(&format!("{minor} {currency}"), minor, currency);
        let charge = waiting(charge.clone(), create(&world.connector, &charge, true).await.unwrap());
        let id = invoice_id(&charge);
        let invoice = world.invoices().into_iter().find(|invoice| invoice["id"] == id).unwrap();
        assert_eq!(invoice["amount"], amount, "{currency}");
        world.control("/pay", json!({"invoice": id, "confirmed": true}));
        assert_eq!(payments(&charge, &world.read(&charge).await), [(true, minor, true)], "{currency}");
    }
    let capabilities = |method, code: &str| {
        world.connector.capabilities(method, Currency::parse(code).unwrap()).map(|taken| taken.amounts)
    };
    assert_eq!(capabilities(PaymentMethod::Crypto, "BTC"), Some(Some((546, 999_999_999_999))));
    for other in ["USDT", "JPY", "GBP"] {
        assert_eq!(capabilities(PaymentMethod::Crypto, other), Some(None));
    }
    assert_eq!(capabilities(PaymentMethod::Pix, "BRL"), None);
    assert!(world.connector.refund_capabilities().methods.is_empty());
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_invoice() {
    let world = World::start().await;
    // A connection that has carried an answer could be stale. A request on it must not be repeated either.
    world.client.api_key().await.unwrap();
    world.fault("lost_answer", "POST");
    let lost = create(&world.connector, &brl(), true).await;
    assert!(matches!(lost, Err(KitError::Unavailable(_))), "{lost:?}");
    let charge = waiting(brl(), create(&world.connector, &brl(), false).await.unwrap());
    assert_eq!(world.invoices().len(), 1);
    assert_eq!(world.invoices()[0]["id"], invoice_id(&charge));
    // It was closed meanwhile.
    world.close(&charge).await;
    let again = create(&world.connector, &brl(), false).await.unwrap();
    assert_eq!(again, Finalised::Refused(FailureReason::AcquirerUnavailable));
}

#[tokio::test]
async fn all_invoices_of_a_charge_are_read_and_closed() {
    let world = World::start().await;
    let first = world.waiting().await;
    let second = world.waiting().await;
    assert_ne!(invoice_id(&first), invoice_id(&second));
    world.pay(&first, 18_519, true);
    let read = world.read(&second).await;
    assert_eq!((&read.state, read.payments[0].payment.id.as_str()), (&RemoteState::Paid, invoice_id(&first)));
    // The other one can't be paid any more.
    assert_eq!(world.close(&second).await.state, RemoteState::Paid);
    let statuses: Vec<Value> = world.invoices().iter().map(|invoice| invoice["status"].clone()).collect();
    assert!(statuses.contains(&json!("Invalid")) && statuses.contains(&json!("Settled")), "{statuses:?}");
    // The row of the charge has none.
    let unrecorded = Charge { artefacts: Artefacts::default(), ..second };
    assert_eq!(world.read(&unrecorded).await.state, RemoteState::Paid);
    let other = pending("order-2", 10_000, "BRL");
    assert_eq!(world.connector.read(&other, false).await, Ok(None));
    assert_eq!(world.connector.close(&other, Priority::Create).await, Ok(None));
}

#[tokio::test]
async fn a_payment_counts_after_its_confirmation() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.pay(&charge, 8_519, false);
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::Open));
    world.advance_s(60);
    world.pay(&charge, 10_000, false);
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::InProgress));
    // The payer replaces both transactions.
    world.control("/replace", json!({"invoice": invoice_id(&charge)}));
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::Open));
    world.pay(&charge, 18_519, false);
    // It is confirmed hours after the expiry.
    world.advance_s(5 * HOUR_S);
    assert_eq!(world.read(&charge).await.state, RemoteState::InProgress);
    world.control("/confirm", json!({"invoice": invoice_id(&charge)}));
    let read = world.read(&charge).await;
    assert_eq!((&read.state, payments(&charge, &read)), (&RemoteState::Paid, vec![(true, 10_000, true)]));
    assert_eq!(read.payments[0].payment.paid_at, at(60));
    let (charge, unmatched) = world.record(charge, read);
    assert_eq!((charge.status, unmatched), (TransactionStatus::Paid, vec![]));
}

#[tokio::test]
async fn what_exceeds_the_charge_waits_for_an_operator_once() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.pay(&charge, 20_000, true);
    let read = world.read(&charge).await;
    assert_eq!(payments(&charge, &read), [(true, 10_000, true), (false, 799, false)]);
    let (charge, unmatched) = world.record(charge, read);
    assert_eq!((charge.status, unmatched), (TransactionStatus::Paid, vec![799]));
    // The payer pays again, and the charge is not paid a second time.
    world.advance_s(60);
    world.pay(&charge, 18_519, true);
    let read = world.read(&charge).await;
    assert_eq!(payments(&charge, &read), [(true, 10_000, true), (false, 799, false), (false, 10_000, false)]);
    assert_eq!(world.record(charge, read).0.status, TransactionStatus::Paid);
}

#[tokio::test]
async fn a_late_payment_waits_for_an_operator() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.advance_s(2 * HOUR_S);
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::Expired));
    world.pay(&charge, 18_519, true);
    let read = world.read(&charge).await;
    assert_eq!(
        (&read.state, payments(&charge, &read)),
        (&RemoteState::Expired, vec![(false, 10_000, false)])
    );
    let (charge, unmatched) = world.record(charge, read);
    assert_eq!((charge.status, unmatched), (TransactionStatus::WaitingPayment, vec![10_000]));
}

#[tokio::test]
async fn a_closed_charge_takes_no_payment() {
    let world = World::start().await;
    let charge = world.waiting().await;
    assert_eq!(world.close(&charge).await, Snapshot::of(RemoteState::ClosedByUs));
    assert_eq!(world.close(&charge).await, Snapshot::of(RemoteState::ClosedByUs));
    // Its address stays payable.
    world.pay(&charge, 9_000, true);
    assert_eq!(world.read(&charge).await, Snapshot::of(RemoteState::ClosedByUs));
    world.advance_s(2 * HOUR_S);
    let read = world.read(&charge).await;
    assert_eq!(
        (&read.state, payments(&charge, &read)),
        (&RemoteState::ClosedByUs, vec![(false, 4_859, false)])
    );
}

#[tokio::test]
async fn a_charge_that_is_being_paid_is_not_closed() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.pay(&charge, 18_519, false);
    assert_eq!(world.close(&charge).await.state, RemoteState::InProgress);
    world.control("/confirm", json!({"invoice": invoice_id(&charge)}));
    assert_eq!(world.close(&charge).await.state, RemoteState::Paid);
    let other = pending("order-2", 10_000, "BRL");
    let other = waiting(other.clone(), create(&world.connector, &other, true).await.unwrap());
    world.pay(&other, 18_519, false);
    world.advance_s(HOUR_S + WEEK_S);
    let expected = RemoteState::ClosedByAcquirer(FailureReason::ProcessingError);
    assert_eq!(world.close(&other).await, Snapshot::of(expected));
}

#[tokio::test]
async fn a_mark_by_hand_pays_nothing_that_was_not_received() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.control("/mark", json!({"invoice": invoice_id(&charge), "status": "Settled"}));
    let read = world.read(&charge).await;
    assert_eq!((&read.state, read.payments.len(), read.odd.len()), (&RemoteState::InProgress, 0, 1));
    world.pay(&charge, 18_519, true);
    let read = world.read(&charge).await;
    assert_eq!((&read.state, payments(&charge, &read)), (&RemoteState::Paid, vec![(true, 10_000, true)]));
    let unpaid = pending("order-2", 10_000, "BRL");
    let unpaid = waiting(unpaid.clone(), create(&world.connector, &unpaid, true).await.unwrap());
    world.control("/mark", json!({"invoice": invoice_id(&unpaid), "status": "Settled"}));
    world.advance_s(HOUR_S + WEEK_S);
    assert_eq!(world.close(&unpaid).await.state, RemoteState::Expired);
}

#[tokio::test]
async fn changes_are_those_that_may_concern_a_charge() {
    let world = World::start().await;
    let make = async |name: &str| {
        let charge = pending(name, 10_000, "BRL");
        waiting(charge.clone(), create(&world.connector, &charge, true).await.unwrap())
    };
    let (expired, late, over_expiry) = (make("expired").await, make("late").await, make("partial").await);
    world.pay(&over_expiry, 1, true);
    world.advance_s(2 * HOUR_S);
    world.pay(&late, 18_519, true);
    let (open, partial, processing) = (make("open").await, make("part").await, make("processing").await);
    let (paid, over, again, closed) =
        (make("paid").await, make("over").await, make("again").await, make("closed").await);
    world.pay(&partial, 1, true);
    world.pay(&processing, 18_519, false);
    world.pay(&paid, 18_519, true);
    world.pay(&over, 20_000, true);
    world.pay(&again, 18_519, true);
    world.pay(&again, 18_519, true);
    world.close(&closed).await;
    // After its end, one more is paid.
    let late_closed = make("closed and paid").await;
    world.close(&late_closed).await;
    world.pay(&late_closed, 1, true);
    // Of two invoices, one was closed, and the other is not confirmed.
    let twice = make("twice").await;
    world.close(&twice).await;
    let twice = make("twice").await;
    world.pay(&twice, 18_519, false);
    let other_way = make("other way").await;
    world.pay(&other_way, 18_519, false);
    world.close(&make("other way").await).await;
    // Another system uses the store.
    let foreign = NewInvoice {
        amount: "1.00".to_owned(),
        currency: "BRL".to_owned(),
        order_id: "pos-app_1".to_owned(),
    };
    let foreign = world.client.create_invoice(&foreign).await.unwrap();
    world.control("/pay", json!({"invoice": foreign.id, "confirmed": true}));
    // What paid it was replaced.
    let replaced = make("replaced").await;
    world.pay(&replaced, 18_519, false);
    world.control("/replace", json!({"invoice": invoice_id(&replaced)}));
    let mut changes = world.changes().await;
    assert_eq!(changes.unpaid, [&open, &partial, &replaced].map(|charge| charge.id).into());
    changes.charges.retain(|charge| !changes.unpaid.contains(charge));
    let listed = [
        &expired,
        &late,
        &over_expiry,
        &processing,
        &paid,
        &over,
        &again,
        &closed,
        &late_closed,
        &twice,
        &other_way,
    ];
    let mut expected = listed.map(|charge| charge.id);
    expected.sort();
    changes.charges.sort();
    assert_eq!(changes.charges, expected);
    assert_eq!(
        changes.ended.keys().copied().collect::<BTreeSet<_>>(),
        [expired.id, paid.id, closed.id].into()
    );
    let invoice = paid.artefacts.crypto.as_ref().and_then(|crypto| crypto.invoice.as_deref());
    assert_eq!(changes.ended[&paid.id].as_ref().map(AcquirerPaymentId::as_str), invoice);
    assert_eq!((&changes.ended[&expired.id], &changes.ended[&closed.id]), (&None, &None));
    // After the monitoring, nothing changes.
    world.advance_s(HOUR_S + WEEK_S + 2 * HOUR_S);
    assert_eq!(world.changes().await, Changes::default());
}

#[tokio::test]
async fn changes_have_pages() {
    let world = World::start().await;
    for order in 0..201 {
        let id = ChargeId::derive(b"salt", Mode::Live, "charges", &order.to_string());
        let (amount, currency) = ("1.00".to_owned(), "BRL".to_owned());
        world
            .client
            .create_invoice(&NewInvoice { amount, currency, order_id: id.to_string() })
            .await
            .unwrap();
    }
    world.advance_s(2 * HOUR_S);
    let first = world.connector.changes(world.now(), None).await.unwrap();
    assert_eq!((first.charges.len(), first.next.as_deref()), (100, Some("100")));
    assert_eq!(world.changes().await.charges.len(), 201);
    assert_eq!(world.changes().await.ended.len(), 201);
    let invalid = world.connector.changes(world.now(), Some("evt_1")).await;
    assert!(matches!(invalid, Err(KitError::Invalid(_))), "{invalid:?}");
}

#[tokio::test]
async fn failures_are_temporary_unless_they_concern_the_charge() {
    let world = World::start().await;
    let unavailable = |answer: Result<Finalised, KitError>| {
        assert!(matches!(answer, Err(KitError::Unavailable(_))), "{answer:?}");
    };
    world.fault("http_500", "POST");
    unavailable(create(&world.connector, &brl(), true).await);
    world.fault("rate_limit", "POST");
    let limited = create(&world.connector, &brl(), true).await;
    assert!(matches!(limited, Err(KitError::Limited(_))), "{limited:?}");
    world.advance_s(60);
    // There is no rate.
    world.control("/behaviour", json!({"rates": {}}));
    unavailable(create(&world.connector, &brl(), true).await);
    world.control("/behaviour", json!({"permissions": ["btcpay.store.canviewinvoices"]}));
    unavailable(create(&world.connector, &brl(), true).await);
    let other_key = World::client(&world.btcpay, &world.now_ms, "other");
    unavailable(create(&BtcpayConnector::new(other_key), &brl(), true).await);
    assert_eq!(world.invoices(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_merchant_sees_the_status_without_personal_data() {
    let world = World::start().await;
    let charge = world.waiting().await;
    world.pay(&charge, 20_000, true);
    let status = world.connector.status(&charge).await.unwrap().unwrap();
    assert_eq!((status.provider, &*status.status), ("crypto", "paid"));
    assert_eq!(status.transaction_id, invoice_id(&charge));
    let expected = json!({
        "id": invoice_id(&charge), "amount": "100.00", "currency": "BRL", "status": "Settled",
        "additionalStatus": "PaidOver",
    });
    assert_eq!(Value::Object(status.raw_response), expected);
    assert_eq!(world.connector.status(&pending("order-2", 1, "BRL")).await, Ok(None));
}

#[tokio::test]
async fn an_operator_sees_the_rights_the_store_and_the_webhook() {
    let world = World::start().await;
    let client = &world.client;
    assert_eq!(client.missing_rights().await.unwrap(), Vec::<&str>::new());
    assert_eq!(client.store().await.unwrap().id, STORE);
    let methods = client.store_payment_methods().await.unwrap();
    assert!(methods.iter().any(|method| method.payment_method_id == "BTC-CHAIN" && method.enabled));
    let secret = "s3cret".to_owned().into();
    let made = client.create_webhook("https://pay.example.com/n/1", &secret).await.unwrap();
    assert_eq!(client.webhook(&made.id).await.unwrap(), made);
    assert_eq!(made.url, "https://pay.example.com/n/1");
    assert!(made.enabled && made.automatic_redelivery && !made.authorized_events.everything);
    assert_eq!(made.authorized_events.specific_events, EVENT_TYPES);
    client.delete_webhook(&made.id).await.unwrap();
    client.delete_webhook(&made.id).await.unwrap();
    for (permissions, missing) in [
        (json!(["unrestricted"]), vec![]),
        (json!([format!("btcpay.store.canmodifystoresettings:{STORE}")]), vec![]),
        (
            json!([format!("btcpay.store.canmodifyinvoices:{STORE}")]),
            vec!["btcpay.store.webhooks.canmodifywebhooks"],
        ),
        (
            json!(["btcpay.store.canviewinvoices:other", "btcpay.store.webhooks.canmodifywebhooks"]),
            vec![
                "btcpay.store.canviewinvoices",
                "btcpay.store.cancreateinvoice",
                "btcpay.store.canmodifyinvoices",
            ],
        ),
    ] {
        world.control("/behaviour", json!({"permissions": permissions}));
        assert_eq!(client.missing_rights().await.unwrap(), missing, "{permissions}");
    }
}
