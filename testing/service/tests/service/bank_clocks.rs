//! Tests of live charges at a bank whose times are wrong: its clock is ahead or behind, or it writes local time
//! as UTC. Charges expire by the service's clock, and no payment goes back because of the bank's.

use bank::{FaultKind, PayRequest, Profile};
use domain::time::Timestamp;
use local::stack::Options;
use serde_json::{Value, json};

use crate::bank_books::Fates;
use crate::live_charges::{JOAO, Live};
use crate::support::Service;

const HOURS: i64 = 3_600;

/// The wrong clocks, with how far the times in cobs and Pix are behind and ahead.
const CLOCKS: [(Profile, i64, (i64, i64)); 6] = [
    (Profile::LocalTime, 0, (3 * HOURS, 0)),
    (Profile::Complete, -3 * HOURS, (3 * HOURS, 0)),
    (Profile::Complete, 3 * HOURS, (0, 3 * HOURS)),
    (Profile::Complete, -600, (600, 0)),
    (Profile::Complete, -90, (90, 0)),
    (Profile::Complete, 90, (0, 90)),
];

async fn start(profile: Profile, bank_skew_seconds: i64) -> Live {
    let options = Options { bank_profile: Some(profile), bank_skew_seconds, ..Options::in_memory() };
    Live::start_with(options).await
}

fn time(charge: &Value, field: &str) -> Timestamp {
    charge.pointer(field).and_then(Value::as_str).unwrap().parse().unwrap()
}

async fn create(live: &Live, key: &str, expires_in: i64) -> Value {
    let charge = live.create(key, &json!({"amount": 1000, "expires_in": expires_in})).await;
    let lifetime = time(&charge, "/pix/expires_at").millis_since(time(&charge, "/created_at"));
    assert!((expires_in * 1_000..(expires_in + 30) * 1_000).contains(&lifetime), "{charge}");
    charge
}

async fn a_charge_lives_by_our_clock(profile: Profile, skew: i64, offsets: (i64, i64)) {
    let live = start(profile, skew).await;
    let unpaid = create(&live, "order-00001", 60).await;
    let measured = live.sweep_row().await.clock_offsets.unwrap();
    // The time of the request counts as right, and a `Date` header has whole seconds.
    let is_near = |measured: i64, offset: i64| (offset - 15..=offset + 1).contains(&measured);
    assert!(is_near(measured.0, offsets.0) && is_near(measured.1, offsets.1), "{measured:?}");
    let paid = create(&live, "order-00002", 60).await;
    live.service.advance_seconds(55).await;
    live.pay(&paid, PayRequest::default());
    let paid = live.wait_for_status(&paid, "paid").await;
    assert_eq!(live.balance().await, 1000, "{paid}");
    let (created_at, paid_at) = (time(&paid, "/created_at"), time(&paid, "/paid_at"));
    assert!(created_at <= paid_at && paid_at <= live.service.stack.clock.now(), "{paid}");

    // The cob is removed a minute after the expiry.
    live.service.advance_seconds(60).await;
    assert_eq!(live.client.get_charge(&unpaid).await["status"], "pending");
    assert_eq!(live.cob(&unpaid)["status"], "ATIVA");
    live.service.advance_seconds(15).await;
    live.wait_for_status(&unpaid, "expired").await;
    assert_eq!(live.cob(&unpaid)["status"], "REMOVIDA_PELO_USUARIO_RECEBEDOR");
    // The bank's list is compared up to now, so a `horario` in the future is compared later.
    live.service.advance_seconds(offsets.1 + 300).await;
    assert_eq!(live.check_books().await, Fates::credited(1));
}

async fn a_payment_is_found_by_the_sweep_after_its_expiry(profile: Profile, skew: i64) {
    let live = start(profile, skew).await;
    live.fault(FaultKind::LostNotification, 2);
    let early = create(&live, "order-00001", 3 * HOURS).await;
    live.pay(&early, PayRequest::default());
    live.sweep_after(301).await;
    live.wait_for_status(&early, "paid").await;

    let charge = create(&live, "order-00002", 60).await;
    live.service.advance_seconds(50).await;
    live.pay(&charge, PayRequest::default());
    live.sweep_after(400).await;
    live.wait_for_status(&charge, "paid").await;
    live.sweep_after(4 * HOURS).await;
    assert_eq!(live.check_books().await, Fates::credited(2));
}

#[tokio::test]
async fn a_charge_expires_by_our_clock_whatever_the_banks_is() {
    let cases = CLOCKS.map(|(profile, skew, offsets)| a_charge_lives_by_our_clock(profile, skew, offsets));
    for case in cases {
        case.await;
    }
}

#[tokio::test]
async fn a_payment_in_time_is_credited_whatever_the_banks_clock_is() {
    for (profile, skew, _) in CLOCKS {
        a_payment_is_found_by_the_sweep_after_its_expiry(profile, skew).await;
    }
}

/// Nothing else has measured the bank's clock, because no event source runs.
#[tokio::test]
async fn a_payment_stores_the_offset_of_the_banks_clock() {
    let options = Options { event_sources: false, bank_skew_seconds: -90, ..Options::in_memory() };
    let live = Live::of(Service::start_with(options).await);
    assert_eq!(live.sweep_row().await.clock_offsets, None);
    let body = json!({
        "amount": 1000, "paymentMethods": ["PIX"], "idempotencyKey": "payment-01", "customerName": "Joao",
        "customerDocument": JOAO,
    });
    live.client.post("/v1/payments", &body).await.expect(201);
    assert!(live.sweep_row().await.clock_offsets.is_some());
}

#[tokio::test]
async fn a_day_with_a_refund_has_no_difference_if_the_banks_clock_is_a_day_ahead() {
    let live = start(Profile::Complete, 26 * HOURS).await;
    let charge = live.paid("order-00001").await;
    let body = json!({"amount": 1000, "strategy": "devolution", "idempotencyKey": "refund-00001"});
    live.refund(&charge, body).await.expect(201);
    live.wait_for_refund(&charge, "REFUNDED").await;
    live.service.advance_seconds(2 * HOURS).await;
    let found = live.reconciled().await;
    assert_eq!((found.differences, found.pending), (vec![], vec![]));
}
