use std::collections::BTreeMap;

use domain::time::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// 2026-11-22T12:00:00Z in Unix seconds.
const START_S: i64 = 1_795_348_800;
const HOUR_S: i64 = 3_600;
const END_S: i64 = HOUR_S + 7 * 24 * HOUR_S;
const INVOICE: &str = "HMprBnL9BTXWuPvpoKBS6e";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis((START_S + seconds) * 1_000).unwrap()
}

fn amount(minor: i64) -> Amount {
    Amount::parse(minor).unwrap()
}

fn invoice(status: &str, additional: &str) -> Invoice {
    serde_json::from_value(json!({
        "id": INVOICE, "storeId": "store", "amount": "10.00", "currency": "BRL", "expirationTime": START_S + HOUR_S,
        "monitoringExpiration": START_S + END_S, "status": status, "additionalStatus": additional,
    }))
    .unwrap()
}

fn id(index: usize) -> String {
    format!("{index:064x}-0")
}

fn btc(satoshis: i64) -> String {
    Amount::parse(satoshis).map_or_else(|_| "0".to_owned(), |amount| amount.decimal(8))
}

/// `paid`: the satoshis of each transaction, when it was received, and its status.
fn method(due: i64, paid: &[(i64, i64, &str)]) -> InvoicePaymentMethod {
    let payments = paid.iter().enumerate().map(|(index, (satoshis, received_s, status))| {
        json!({
            "id": id(index), "receivedDate": START_S + received_s, "value": btc(*satoshis), "fee": "0.0",
            "status": status, "destination": "bc1q",
        })
    });
    serde_json::from_value(json!({
        "paymentMethodId": "BTC-CHAIN", "destination": "bc1q", "amount": btc(due), "due": "0",
        "paymentMethodFee": "0", "payments": payments.collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// The payments of a snapshot: the id, the amount, and whether it is in time.
fn payments(snapshot: &Snapshot) -> Vec<(String, i64, bool)> {
    let payments = snapshot.payments.iter().map(|remote| &remote.payment);
    payments.map(|it| (it.id.to_string(), it.amount.minor(), it.is_in_time)).collect()
}

#[test]
fn decimal_text_is_read_exactly() {
    for (text, currency, expected) in [
        ("10.00", Currency::BRL, Some(1_000)),
        ("10", Currency::BRL, Some(1_000)),
        ("10.5000", Currency::BRL, Some(1_050)),
        ("0.00000001", Currency::BTC, Some(1)),
        ("-0.00000001", Currency::BTC, Some(-1)),
        ("9999999999.99", Currency::BRL, Some(999_999_999_999)),
        ("10.001", Currency::BRL, None),
        ("0.000000001", Currency::BTC, None),
        ("1e-8", Currency::BTC, None),
        ("", Currency::BRL, None),
        (".5", Currency::BRL, None),
        ("5.", Currency::BRL, None),
        ("+5", Currency::BRL, None),
        ("--5", Currency::BRL, None),
        ("٥", Currency::BRL, None),
        (&"9".repeat(40), Currency::BRL, None),
    ] {
        assert_eq!(units(text, currency), expected, "{text}");
    }
}

#[test]
fn the_state_follows_from_both_statuses() {
    use RemoteState::{ClosedByAcquirer, ClosedByUs, Expired, InProgress, Open, Paid};

    let (none, half, all) = (&[][..], &[(500, 60, "Settled")][..], &[(1_000, 60, "Settled")][..]);
    let late = &[(1_000, 2 * HOUR_S, "Settled")][..];
    for (status, additional, paid, expected) in [
        ("New", "None", none, Open),
        ("New", "PaidPartial", half, Open),
        ("Processing", "None", none, InProgress),
        ("Processing", "PaidOver", none, InProgress),
        ("Settled", "None", all, Paid),
        ("Settled", "PaidOver", all, Paid),
        ("Settled", "Marked", all, Paid),
        ("Settled", "Marked", half, InProgress),
        ("Settled", "Marked", none, InProgress),
        ("Expired", "None", none, Expired),
        ("Expired", "PaidPartial", half, Expired),
        ("Expired", "PaidLate", late, Expired),
        ("Invalid", "Marked", none, ClosedByUs),
        ("Invalid", "None", half, ClosedByAcquirer(FailureReason::ProcessingError)),
    ] {
        let invoice = invoice(status, additional);
        let read = snapshot(amount(1_000), &invoice, Some(&method(1_000, paid)), at(3 * HOUR_S)).unwrap();
        assert_eq!(read.state, expected, "{status} {additional} {paid:?}");
        let is_odd = status == "Settled" && expected == InProgress;
        assert_eq!((read.odd.len(), read.is_partial), (usize::from(is_odd), false));
    }
    let marked = invoice("Settled", "Marked");
    let over = snapshot(amount(1_000), &marked, Some(&method(1_000, half)), at(END_S)).unwrap();
    assert_eq!(over.state, Expired);
}

#[test]
fn an_object_that_contradicts_the_document_is_odd() {
    let read = |invoice: &Invoice, method: &InvoicePaymentMethod| {
        snapshot(amount(1_000), invoice, Some(method), at(0)).unwrap_err()
    };
    let settled = invoice("Settled", "None");
    let right = method(1_000, &[(1_000, 60, "Settled")]);
    for error in [
        read(&invoice("Paused", "None"), &right),
        read(&settled, &method(1_000, &[(999, 60, "Settled")])),
        read(&settled, &method(1_000, &[(1_000, 60, "Frozen")])),
        read(&settled, &method(0, &[])),
        read(&settled, &InvoicePaymentMethod { amount: "1e3".to_owned(), ..right.clone() }),
        read(&Invoice { expiration_time: i64::MAX, ..settled.clone() }, &right),
    ] {
        assert!(matches!(error, KitError::Odd(_)), "{error}");
    }
}

#[test]
fn one_payment_and_its_excess_follow_from_several_transactions() {
    let paid = method(
        1_000,
        &[
            (400, 60, "Settled"),
            (900, 120, "Settled"),
            (50, 180, "Settled"),
            (500, 240, "Processing"),
            (7, 300, "Settled"),
        ],
    );
    let settled = invoice("Settled", "PaidOver");
    let first = (INVOICE.to_owned(), 2_000, true);
    let read = |seconds| snapshot(amount(2_000), &settled, Some(&paid), at(seconds)).unwrap();
    let expected = [first.clone(), (id(1), 600, false), (id(2), 100, false)];
    assert_eq!(payments(&read(600)), expected);
    assert_eq!(read(600).payments[0].payment.paid_at, at(120));
    // What comes after a transaction that may be confirmed is not decided, even at the end.
    assert_eq!(payments(&read(END_S)), expected);
    assert_eq!([600, END_S].map(|seconds| read(seconds).odd.len()), [0, 1]);
}

#[test]
fn a_payment_after_the_end_is_one_by_transaction() {
    let paid =
        method(300, &[(100, 60, "Settled"), (300, 2 * HOUR_S, "Settled"), (1, 3 * HOUR_S, "Processing")]);
    for (status, additional) in
        [("Expired", "PaidLate"), ("Invalid", "Marked"), ("Settled", "Marked"), ("Invalid", "None")]
    {
        let read =
            snapshot(amount(1_000), &invoice(status, additional), Some(&paid), at(4 * HOUR_S)).unwrap();
        let expected = [(id(0), 333, false), (id(1), 1_000, false)];
        assert_eq!(payments(&read), expected, "{status} {additional}");
    }
    // Before its expiry, a closed invoice may still be paid in full by what arrives in time.
    let closed = invoice("Invalid", "Marked");
    let half = method(300, &[(100, 60, "Settled")]);
    assert_eq!(payments(&snapshot(amount(1_000), &closed, Some(&half), at(600)).unwrap()), []);
    let whole = method(300, &[(100, 60, "Settled"), (200, 120, "Settled")]);
    let read = snapshot(amount(1_000), &closed, Some(&whole), at(600)).unwrap();
    assert_eq!(payments(&read), [(INVOICE.to_owned(), 1_000, true)]);
}

#[test]
fn the_costs_of_further_transactions_are_not_the_charges() {
    let mut paid = method(1_000, &[(600, 60, "Settled"), (450, 120, "Settled")]);
    (paid.amount, paid.payment_method_fee, paid.payments[1].fee) = (btc(1_050), btc(50), btc(50));
    let read = snapshot(amount(1_000), &invoice("Settled", "None"), Some(&paid), at(600)).unwrap();
    assert_eq!(payments(&read), [(INVOICE.to_owned(), 1_000, true)]);
}

#[test]
fn what_is_worth_less_than_the_smallest_unit_is_no_payment() {
    let paid = method(1_000, &[(1_000, 60, "Settled"), (499, 120, "Settled"), (500, 180, "Settled")]);
    let read = snapshot(amount(2), &invoice("Settled", "None"), Some(&paid), at(600)).unwrap();
    assert_eq!(payments(&read), [(INVOICE.to_owned(), 2, true), (id(2), 1, false)]);
    let huge = method(1, &[(1, 60, "Settled"), (2, 120, "Settled")]);
    let read = snapshot(amount(999_999_999_999), &invoice("Settled", "None"), Some(&huge), at(600)).unwrap();
    assert_eq!((read.payments.len(), read.odd.len()), (1, 1));
}

/// What can happen to an invoice.
#[derive(Clone, Debug)]
enum Event {
    Pay(i64),
    Confirm(usize),
    Replace(usize),
    Wait(i64),
    Mark {
        as_settled: bool,
    },
    /// The service reads the invoice, and records its payments.
    Read,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1_i64..=1_000).prop_map(Event::Pay),
        4 => (0_usize..6).prop_map(Event::Confirm),
        1 => (0_usize..6).prop_map(Event::Replace),
        3 => prop_oneof![1_i64..600, Just(HOUR_S), Just(24 * HOUR_S)].prop_map(Event::Wait),
        1 => any::<bool>().prop_map(|as_settled| Event::Mark { as_settled }),
        6 => Just(Event::Read),
    ];
    proptest::collection::vec(event, 1..40)
}

/// A server with one invoice, which follows the rules of its watcher, and the records of the service.
struct World {
    amount: Amount,
    due: i64,
    now_s: i64,
    status: &'static str,
    additional: &'static str,
    paid: Vec<(i64, i64, &'static str)>,
    recorded: BTreeMap<String, i64>,
}

impl World {
    fn sum(&self, statuses: &[&str]) -> i64 {
        let counted = self.paid.iter().filter(|(.., status)| statuses.contains(status));
        counted.map(|(satoshis, ..)| *satoshis).sum()
    }

    fn step(&mut self, event: &Event) {
        // The server still sees what comes after its monitoring.
        match event {
            Event::Pay(satoshis) => self.paid.push((*satoshis, self.now_s, "Processing")),
            Event::Confirm(index) => self.become_(*index, "Settled"),
            Event::Replace(index) => self.become_(*index, "Invalid"),
            Event::Wait(seconds) => self.now_s += seconds,
            Event::Mark { as_settled: true } if self.status != "Settled" => {
                (self.status, self.additional) = ("Settled", "Marked");
            }
            Event::Mark { as_settled: false }
                if ["New", "Processing", "Expired"].contains(&self.status)
                    || (self.status == "Settled" && self.additional == "Marked") =>
            {
                (self.status, self.additional) = ("Invalid", "Marked");
            }
            Event::Mark { .. } => {}
            Event::Read => self.read(),
        }
        self.watch();
    }

    fn become_(&mut self, index: usize, status: &'static str) {
        if let Some(paid) = self.paid.get_mut(index).filter(|(.., status)| *status == "Processing") {
            paid.2 = status;
        }
    }

    fn watch(&mut self) {
        let (accounted, settled) = (self.sum(&["Processing", "Settled"]), self.sum(&["Settled"]));
        if self.status == "New" && self.now_s >= HOUR_S {
            self.status = "Expired";
        }
        let is_paid = accounted >= self.due;
        self.additional = match (self.status, is_paid) {
            ("New" | "Processing", true) => {
                self.status = "Processing";
                if accounted > self.due { "PaidOver" } else { "None" }
            }
            ("New" | "Processing", false) => {
                self.status = "New";
                if accounted > 0 { "PaidPartial" } else { "None" }
            }
            ("Expired", true) => "PaidLate",
            ("Expired", false) if accounted > 0 => "PaidPartial",
            _ => self.additional,
        };
        if self.status == "Processing" && settled >= self.due {
            self.status = "Settled";
        } else if self.status == "Processing" && self.now_s > END_S {
            self.status = "Invalid";
        }
    }

    fn read(&mut self) {
        let invoice = invoice(self.status, self.additional);
        let paid = method(self.due, &self.paid);
        let method = has_payments(&invoice).then_some(&paid);
        let read = snapshot(self.amount, &invoice, method, at(self.now_s)).unwrap();
        for RemotePayment { payment, .. } in read.payments {
            let (id, minor) = (payment.id.to_string(), payment.amount.minor());
            let known = *self.recorded.entry(id.clone()).or_insert(minor);
            assert_eq!(known, minor, "{id} changed its amount");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_confirmed_is_recorded_once(events in events(), due in 1_i64..1_500, minor in 1_i64..100_000) {
        let (amount, now_s, status, additional) = (amount(minor), 0, "New", "None");
        let (paid, recorded) = (Vec::new(), BTreeMap::new());
        let mut world = World { amount, due, now_s, status, additional, paid, recorded };
        for event in &events {
            world.step(event);
        }
        world.step(&Event::Wait(END_S + 60));
        world.step(&Event::Read);
        for index in 0..world.paid.len() {
            world.step(&Event::Replace(index));
        }
        world.step(&Event::Read);
        let settled = i128::from(world.sum(&["Settled"]));
        let worth = settled * i128::from(minor) / i128::from(due);
        let sum: i128 = world.recorded.values().copied().map(i128::from).sum();
        let rounding = i128::try_from(world.paid.len()).unwrap() + 1;
        prop_assert!(sum <= worth, "{sum} of {worth}: {:?}", world.recorded);
        prop_assert!(worth - sum <= rounding, "{sum} of {worth}: {:?}", world.recorded);
    }
}
