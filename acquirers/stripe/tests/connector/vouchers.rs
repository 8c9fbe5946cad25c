//! Boleto, Multibanco and MB WAY.

use acquirer_kit::{DisputeEvidence, EvidenceToSend};
use domain::account::BoletoDueDays;
use domain::charge::{Boleto, Customer, FailureReason};
use domain::ids::AcquirerPaymentId;
use domain::tax_id::Document;
use stripe_client::{VoucherConnector, VoucherMethod};
use stripe_stand_in::VoucherProcessing;

use super::*;

const METHODS: [PaymentMethod; 3] = [PaymentMethod::Boleto, PaymentMethod::Multibanco, PaymentMethod::Mbway];
const CREATE: &str = "POST /v1/payment_intents";
/// 2026-11-25 23:59 in São Paulo: three days after the charge.
const BOLETO_S: i64 = 3 * DAY_S + 14 * 3_600 + 59 * 60;

struct Vouchers {
    world: World,
    connector: VoucherConnector,
    method: PaymentMethod,
}

/// A charge with all that the methods need of their payer.
fn charge(method: PaymentMethod, name: &str, minor: i64) -> Charge {
    let address =
        json!({"line1": "Av. Paulista, 1", "city": "São Paulo", "state": "sp", "postal_code": "01310-100"});
    let sent = json!({"payerAddress": address});
    let currency = if method == PaymentMethod::Boleto { "BRL" } else { "EUR" };
    Charge {
        methods: vec![method],
        customer: Customer {
            name: Some("Ana Souza".to_owned()),
            email: Some("ana@example.com".to_owned()),
            phone: Some("+351 912 345 678".to_owned()),
            document: Document::parse("29537995593"),
        },
        metadata: Metadata::from_request(sent.as_object().unwrap(), None),
        ..pending(name, minor, currency)
    }
}

fn intent(charge: &Charge) -> String {
    let made = charge.artefacts.clone();
    let ids = [
        made.boleto.and_then(|boleto| boleto.intent),
        made.multibanco.and_then(|voucher| voucher.intent),
        made.mbway.and_then(|push| push.intent),
    ];
    ids.into_iter().flatten().next().unwrap()
}

fn expires_s(charge: &Charge, method: PaymentMethod) -> i64 {
    charge.artefacts.expires_at(method).unwrap().seconds() - START_S
}

impl Vouchers {
    async fn start(method: PaymentMethod) -> Self {
        Self::start_with(method, Behaviour::default()).await
    }

    async fn start_with(method: PaymentMethod, behaviour: Behaviour) -> Self {
        let country = if method == PaymentMethod::Boleto { "BR" } else { "PT" };
        let world = World::start_in(country, behaviour).await;
        Self { connector: connector(&world, method), method, world }
    }

    async fn create(&self, charge: &Charge, is_first: bool) -> Result<Finalised, KitError> {
        let (settings, now) = (&self.world.settings, charge.created_at);
        let new = NewCharge { charge, settings, return_url: RETURN_URL, pix_location: "", now, is_first };
        self.connector.create(new).await
    }

    fn new_charge(&self) -> Charge {
        charge(self.method, "order-1", 10_000)
    }

    async fn waiting(&self) -> Charge {
        waiting(self.new_charge(), self.create(&self.new_charge(), true).await.unwrap())
    }

    fn act(&self, path: &str, charge: &Charge, mut body: Value) -> Value {
        body["payment_intent"] = intent(charge).into();
        self.world.control(path, body)
    }

    async fn read(&self, charge: &Charge) -> Snapshot {
        self.connector.read(charge, true).await.unwrap().unwrap()
    }

    async fn close(&self, charge: &Charge) -> Snapshot {
        self.connector.close(charge, Priority::Create).await.unwrap().unwrap()
    }

    async fn give_back(&self, payment: &IncomingPayment, attempt: &str) -> ReturnProgress {
        match self.connector.find_return(payment, attempt, self.world.now()).await.unwrap() {
            Some(known) => known,
            None => self.connector.request_return(payment, attempt, self.world.now()).await.unwrap(),
        }
    }
}

fn connector(world: &World, method: PaymentMethod) -> VoucherConnector {
    VoucherConnector::new(world.client.clone(), VoucherMethod::of(method).unwrap())
}

#[tokio::test]
async fn a_boleto_has_a_verified_line_and_the_payers_data() {
    let mut vouchers = Vouchers::start(PaymentMethod::Boleto).await;
    let charge = vouchers.waiting().await;
    let made = vouchers.world.books("payment_intents").remove(0);
    let boleto: Boleto = charge.artefacts.boleto.clone().unwrap();
    let slip = boleto.slip().unwrap();
    assert_eq!(made["next_action"]["boleto_display_details"]["number"], slip.line().to_string());
    assert_eq!((slip.amount_centavos(), slip.due().to_string()), (10_000, "2026-11-25".to_owned()));
    assert_eq!(boleto.expires_at, at(BOLETO_S));
    assert!(boleto.pdf_url.as_ref().unwrap().starts_with(vouchers.world.stripe.url()));
    assert!(!format!("{boleto:?}").contains(vouchers.world.stripe.url()), "{boleto:?}");
    assert_eq!(boleto.beneficiary, "Loja");
    assert_eq!(made["metadata"], json!({"charge": charge.id.to_string(), "method": "boleto"}));
    assert_eq!(made["payment_method_options"]["boleto"]["expires_after_days"], 3);
    assert_eq!(made["capture_method"], "automatic");
    assert_eq!(made["_details"]["tax_id"], "29537995593");
    assert_eq!(
        made["_payer"],
        json!({
            "name": "Ana Souza", "email": "ana@example.com",
            "address": {
                "line1": "Av. Paulista, 1", "city": "São Paulo", "state": "SP", "postal_code": "01310100",
                "country": "BR",
            },
        })
    );
    vouchers.world.settings.boleto_due_days = BoletoDueDays::new(7).unwrap();
    let other = super::vouchers::charge(PaymentMethod::Boleto, "order-2", 500);
    let week = waiting(other.clone(), vouchers.create(&other, true).await.unwrap());
    assert_eq!(expires_s(&week, PaymentMethod::Boleto), BOLETO_S + 4 * DAY_S);
}

#[tokio::test]
async fn multibanco_has_a_reference_and_mb_way_a_push() {
    let vouchers = Vouchers::start(PaymentMethod::Multibanco).await;
    let charge = vouchers.waiting().await;
    let voucher = charge.artefacts.multibanco.clone().unwrap();
    assert_eq!((voucher.entity.len(), voucher.reference.len()), (5, 9));
    assert_eq!(voucher.expires_at, at(3 * DAY_S));
    let made = vouchers.world.books("payment_intents").remove(0);
    assert_eq!(made["_payer"], json!({"email": "ana@example.com"}));

    let vouchers = Vouchers::start(PaymentMethod::Mbway).await;
    let push = vouchers.waiting().await.artefacts.mbway.unwrap();
    assert_eq!((&*push.phone, push.expires_at), ("+351912345678", at(240)));
    let by_metadata = json!({"phone": "+351 911 111 111"});
    let other = Charge {
        metadata: Metadata::from_request(by_metadata.as_object().unwrap(), None),
        ..super::vouchers::charge(PaymentMethod::Mbway, "order-2", 50)
    };
    let push = waiting(other.clone(), vouchers.create(&other, true).await.unwrap()).artefacts.mbway.unwrap();
    assert_eq!(push.phone, "+351911111111");
    let made = vouchers.world.books("payment_intents").remove(1);
    assert_eq!(made["_payer"], json!({"phone": "+351911111111"}));
    assert_eq!(made["metadata"]["method"], "mb_way");
}

#[tokio::test]
async fn limits_and_payer_data_are_checked() {
    for (method, other, limits) in [
        (PaymentMethod::Boleto, "EUR", (500, 4_999_999)),
        (PaymentMethod::Multibanco, "BRL", (50, 9_999_900)),
        (PaymentMethod::Mbway, "BRL", (50, 500_000)),
    ] {
        let vouchers = Vouchers::start(method).await;
        let own = charge(method, "order-1", 10_000).currency;
        let taken = |currency| vouchers.connector.capabilities(method, currency).unwrap().amounts;
        assert_eq!((taken(own), taken(Currency::parse(other).unwrap())), (Some(limits), None));
        for elsewhere in [PaymentMethod::Pix, PaymentMethod::CreditCard] {
            assert!(vouchers.connector.capabilities(elsewhere, own).is_none());
        }
        assert!(vouchers.connector.refund_capabilities().methods.is_empty());
        for minor in [limits.0, limits.1] {
            let made = vouchers.create(&charge(method, &minor.to_string(), minor), true).await.unwrap();
            assert!(matches!(made, Finalised::Made(_)), "{method:?} {minor}: {made:?}");
        }
        for minor in [limits.0 - 1, limits.1 + 1] {
            let made = vouchers.create(&charge(method, &minor.to_string(), minor), true).await.unwrap();
            assert!(is_refused(&made, "acquirer_refused"), "{method:?} {minor}: {made:?}");
        }
        let before = vouchers.world.books("payment_intents").len();
        let nobody = Charge {
            customer: Customer::default(),
            metadata: Metadata::default(),
            ..charge(method, "order-2", 10_000)
        };
        assert!(matches!(vouchers.create(&nobody, true).await, Err(KitError::Invalid(_))));
        assert_eq!(vouchers.world.books("payment_intents").len(), before);
        // An account of another country takes none of its charges.
        let country = if method == PaymentMethod::Boleto { "PT" } else { "BR" };
        vouchers.world.control("/account", json!({"country": country}));
        let refused = vouchers.create(&charge(method, "order-3", 10_000), true).await;
        assert!(matches!(refused, Err(KitError::Unavailable(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_creation_that_fails_makes_one_payment() {
    for method in METHODS {
        for fault in ["lost_answer", "http_500", "rate_limit", "lock_timeout", "key_expired"] {
            let vouchers = Vouchers::start(method).await;
            vouchers.world.fault(fault, CREATE);
            let first = vouchers.create(&vouchers.new_charge(), true).await;
            let is_unknown = matches!(&first, Err(KitError::Unavailable(_) | KitError::Limited(_)));
            // An immediate failure may be answered by the second key, and the transport may repeat a lost answer.
            assert!(is_unknown || ["http_500", "lost_answer"].contains(&fault), "{fault}: {first:?}");
            vouchers.world.advance_s(65);
            let made = vouchers.create(&vouchers.new_charge(), false).await.unwrap();
            let charge = waiting(vouchers.new_charge(), made);
            assert_eq!(vouchers.world.books("payment_intents").len(), 1, "{method:?} {fault}");
            assert_eq!(vouchers.read(&charge).await.state, RemoteState::Open);
            // The payment is found for a charge that does not know it.
            assert_eq!(vouchers.read(&vouchers.new_charge()).await.state, RemoteState::Open);
        }
        for fault in ["stored_500", "stored_500_after_write"] {
            let vouchers = Vouchers::start(method).await;
            vouchers.world.fault(fault, CREATE);
            for is_first in [true, false] {
                let made = vouchers.create(&vouchers.new_charge(), is_first).await.unwrap();
                waiting(vouchers.new_charge(), made);
            }
            assert_eq!(vouchers.world.books("payment_intents").len(), 1, "{method:?} {fault}");
        }
        let vouchers = Vouchers::start(method).await;
        vouchers.world.fault("stored_500", CREATE);
        vouchers.world.fault("stored_500", CREATE);
        let failed = vouchers.create(&vouchers.new_charge(), true).await;
        assert!(matches!(failed, Err(KitError::Unavailable(_))));
        vouchers.world.fault("http_402", CREATE);
        let refused = vouchers.create(&charge(method, "order-2", 10_000), true).await.unwrap();
        assert!(is_refused(&refused, "acquirer_refused"));
    }
}

/// The answer to the creation was lost, and the payer has the voucher by e-mail.
#[tokio::test]
async fn a_payment_that_was_made_before_its_creation_was_answered_is_found() {
    for method in METHODS {
        let vouchers = Vouchers::start(method).await;
        let first = vouchers.waiting().await;
        vouchers.act("/pay", &first, json!({}));
        let charge =
            waiting(vouchers.new_charge(), vouchers.create(&vouchers.new_charge(), false).await.unwrap());
        assert_eq!(intent(&charge), intent(&first));
        let state = vouchers.read(&charge).await.state;
        assert!(matches!(state, RemoteState::Paid | RemoteState::InProgress), "{state:?}");
        assert!(charge.artefacts.expires_at(method).is_some());
    }
}

/// What the payer would pay with can't be used.
#[tokio::test]
async fn a_broken_voucher_is_not_shown_and_can_be_closed() {
    for method in [PaymentMethod::Boleto, PaymentMethod::Multibanco] {
        let vouchers = Vouchers::start(method).await;
        vouchers.world.fault("broken_voucher", "");
        let broken = vouchers.create(&vouchers.new_charge(), true).await;
        assert!(matches!(broken, Err(KitError::Unavailable(_))), "{broken:?}");
        let again = vouchers.create(&vouchers.new_charge(), false).await;
        assert!(matches!(again, Err(KitError::Unavailable(_))));
        vouchers.connector.close(&vouchers.new_charge(), Priority::Create).await.unwrap();
        let made = vouchers.world.books("payment_intents");
        assert_eq!((made.len(), &made[0]["status"]), (1, &json!("canceled")));
    }
}

#[tokio::test]
async fn a_payment_is_read_with_its_fee() {
    for method in METHODS {
        let vouchers = Vouchers::start(method).await;
        let charge = vouchers.waiting().await;
        let status = async || vouchers.connector.status(&charge).await.unwrap().unwrap().status;
        assert_eq!((vouchers.read(&charge).await.state, &*status().await), (RemoteState::Open, "open"));
        vouchers.act("/pay", &charge, json!({"fee": 345}));
        let snapshot = vouchers.read(&charge).await;
        assert_eq!((&snapshot.state, snapshot.payments.len()), (&RemoteState::Paid, 1));
        let RemotePayment { payment, lacks_fee } = &snapshot.payments[0];
        assert_eq!((payment.method, payment.amount.minor(), *lacks_fee), (method, 10_000, false));
        assert_eq!((payment.id.as_str(), payment.paid_at), (&*intent(&charge), at(0)));
        assert!(payment.is_in_time);
        assert_eq!(payment.charged.unwrap().fee, MinorUnits::new(345));
        assert_eq!((snapshot.movements.len(), snapshot.refunds.len()), (1, 0));
        assert_eq!(status().await, "paid");
        assert_eq!(vouchers.close(&charge).await.state, RemoteState::Paid);
        vouchers.world.pay(&charge, snapshot);
    }
}

/// The case of the paid boleto that stays pending: a payment on the last day is confirmed days later.
#[tokio::test]
async fn a_voucher_that_was_paid_on_its_last_day_is_confirmed_days_later() {
    use VoucherProcessing::{AfterExpiry, Never, WhenAccepted};
    for method in [PaymentMethod::Boleto, PaymentMethod::Multibanco] {
        for voucher_processing in [AfterExpiry, WhenAccepted, Never] {
            let behaviour = Behaviour { voucher_processing, ..Behaviour::default() };
            let vouchers = Vouchers::start_with(method, behaviour).await;
            let charge = vouchers.waiting().await;
            let expires_s = expires_s(&charge, method);
            vouchers.world.advance_s(expires_s - 60);
            vouchers.act("/pay", &charge, json!({"processing_s": DAY_S}));
            for later in [0, 3_600] {
                vouchers.world.advance_s(later);
                let waits = vouchers.read(&charge).await;
                let is_known = voucher_processing == WhenAccepted && later == 0;
                let state = if is_known { RemoteState::InProgress } else { RemoteState::Open };
                assert_eq!((waits.state, waits.payments.len()), (state, 0));
            }
            if voucher_processing != Never {
                // It may be paid, so it is not closed.
                assert_eq!(vouchers.close(&charge).await.state, RemoteState::InProgress);
            }
            vouchers.world.advance_s(DAY_S);
            let paid = vouchers.read(&charge).await;
            assert_eq!((&paid.state, paid.payments.len()), (&RemoteState::Paid, 1));
            let payment = &paid.payments[0].payment;
            assert!(payment.is_in_time && payment.paid_at > at(expires_s), "{payment:?}");
            vouchers.world.pay(&charge, paid);
        }
    }
}

#[tokio::test]
async fn a_voucher_expires_when_no_bank_confirms_it() {
    for method in [PaymentMethod::Boleto, PaymentMethod::Multibanco] {
        for voucher_processing in [VoucherProcessing::AfterExpiry, VoucherProcessing::Never] {
            let behaviour = Behaviour { voucher_processing, ..Behaviour::default() };
            let vouchers = Vouchers::start_with(method, behaviour).await;
            let charge = vouchers.waiting().await;
            vouchers.world.advance_s(expires_s(&charge, method) + 1);
            assert_eq!(vouchers.read(&charge).await.state, RemoteState::Open);
            vouchers.world.advance_s(5 * DAY_S);
            let ended = vouchers.read(&charge).await;
            assert_eq!((ended.state, ended.last_decline), (RemoteState::Expired, None));
            assert_eq!(vouchers.close(&charge).await.state, RemoteState::ClosedByUs);
            assert_eq!(vouchers.read(&charge).await.state, RemoteState::Expired);
        }
    }
}

#[tokio::test]
async fn a_push_ends_by_time_or_by_a_decline() {
    for mb_way_waits_as_processing in [false, true] {
        let behaviour = Behaviour { mb_way_waits_as_processing, ..Behaviour::default() };
        let waits = if mb_way_waits_as_processing { RemoteState::InProgress } else { RemoteState::Open };
        for (body, code) in [
            (json!({}), "declined_by_payer"),
            (json!({"decline_code": "insufficient_funds"}), "insufficient_funds"),
            (json!({"decline_code": "generic_decline"}), "processing_error"),
        ] {
            let vouchers = Vouchers::start_with(PaymentMethod::Mbway, behaviour.clone()).await;
            let charge = vouchers.waiting().await;
            assert_eq!(vouchers.read(&charge).await.state, waits);
            vouchers.act("/decline", &charge, body);
            // The notification is lost, and it is read after the push would have ended.
            vouchers.world.advance_s(300);
            match vouchers.read(&charge).await.state {
                RemoteState::ClosedByAcquirer(why) => assert_eq!(why.code(), code),
                state => panic!("{state:?}"),
            }
            // A creation whose answer was lost finds it.
            let found = vouchers.create(&vouchers.new_charge(), false).await.unwrap();
            assert!(is_refused(&found, code), "{found:?}");
        }
        let vouchers = Vouchers::start_with(PaymentMethod::Mbway, behaviour.clone()).await;
        let charge = vouchers.waiting().await;
        vouchers.world.advance_s(239);
        assert_eq!(vouchers.read(&charge).await.state, waits);
        vouchers.world.advance_s(1);
        assert_eq!(vouchers.read(&charge).await.state, RemoteState::Expired);
        // The payer confirms in the last second, and the bank answers later.
        let vouchers = Vouchers::start_with(PaymentMethod::Mbway, behaviour).await;
        let charge = vouchers.waiting().await;
        vouchers.world.advance_s(239);
        vouchers.act("/pay", &charge, json!({"processing_s": 30}));
        vouchers.world.advance_s(10);
        assert_eq!(vouchers.read(&charge).await.state, RemoteState::InProgress);
        assert_eq!(vouchers.close(&charge).await.state, RemoteState::InProgress);
        vouchers.world.advance_s(20);
        assert_eq!(vouchers.read(&charge).await.state, RemoteState::Paid);
    }
}

#[tokio::test]
async fn closing_is_repeatable_and_finds_what_happened_elsewhere() {
    for method in METHODS {
        let vouchers = Vouchers::start(method).await;
        let charge = vouchers.waiting().await;
        for _ in 0..2 {
            assert_eq!(vouchers.close(&charge).await.state, RemoteState::ClosedByUs);
        }
        assert_eq!(vouchers.read(&charge).await.state, RemoteState::ClosedByUs);
        for fault in ["lost_answer", "rate_limit", "stored_500_after_write"] {
            let vouchers = Vouchers::start(method).await;
            let charge = vouchers.waiting().await;
            vouchers.world.fault(fault, "POST /v1/payment_intents/");
            let closed = vouchers.connector.close(&charge, Priority::Settle).await;
            assert!(closed.is_err() || fault != "rate_limit", "{fault}: {closed:?}");
            vouchers.world.advance_s(65);
            assert_eq!(vouchers.close(&charge).await.state, RemoteState::ClosedByUs, "{fault}");
        }
        let vouchers = Vouchers::start(method).await;
        let charge = vouchers.waiting().await;
        vouchers.act("/cancel", &charge, json!({}));
        let canceled = RemoteState::ClosedByAcquirer(FailureReason::CancelledAtAcquirer);
        assert_eq!(vouchers.read(&charge).await.state, canceled);
        assert_eq!(vouchers.close(&charge).await.state, canceled);
        let unknown = Vouchers::start(method).await;
        assert_eq!(unknown.connector.read(&unknown.new_charge(), false).await, Ok(None));
        assert_eq!(unknown.connector.close(&unknown.new_charge(), Priority::Create).await, Ok(None));
        assert!(unknown.connector.status(&unknown.new_charge()).await.unwrap().is_none());
        let other =
            Charge { artefacts: charge.artefacts.clone(), ..super::vouchers::charge(method, "order-2", 900) };
        let read = vouchers.read(&other).await;
        assert!(read.is_partial && read.payments.is_empty() && read.odd.len() == 1, "{read:?}");
    }
}

#[tokio::test]
async fn a_payment_goes_back_once_but_a_boleto_can_not() {
    for method in METHODS {
        let vouchers = Vouchers::start(method).await;
        let charge = vouchers.waiting().await;
        vouchers.act("/pay", &charge, json!({}));
        let (_, payment) = vouchers.world.pay(&charge, vouchers.read(&charge).await);
        if method == PaymentMethod::Boleto {
            assert_eq!(vouchers.give_back(&payment, "d1").await, ReturnProgress::Impossible);
            assert!(vouchers.world.books("refunds").is_empty());
            continue;
        }
        vouchers.world.fault("refund_pending", "");
        assert!(matches!(vouchers.give_back(&payment, "d1").await, ReturnProgress::PollAgainAt(_)));
        let refunds = vouchers.world.books("refunds");
        let id = refunds[0]["id"].as_str().unwrap().to_owned();
        assert!(id.starts_with("pyr_") && refunds[0]["amount"] == 10_000);
        vouchers.world.control(&format!("/refunds/{id}"), json!({"status": "succeeded"}));
        assert_eq!(vouchers.give_back(&payment, "d1").await, ReturnProgress::Returned(Some(id)));
        let snapshot = vouchers.read(&charge).await;
        assert_eq!((snapshot.refunds.len(), snapshot.movements.len()), (0, 2), "a return is no refund");
        assert_eq!(vouchers.give_back(&payment, "d2").await, ReturnProgress::ReturnedByBank);
        assert_eq!(vouchers.world.books("refunds").len(), 1);
        // A refund in the dashboard is one of the charge.
        let other = super::vouchers::charge(method, "order-2", 10_000);
        let other = waiting(other.clone(), vouchers.create(&other, true).await.unwrap());
        vouchers.act("/pay", &other, json!({}));
        vouchers.act("/refund", &other, json!({"amount": 2_500}));
        let there = vouchers.read(&other).await.refunds.remove(0);
        assert_eq!((there.ours, there.outcome), (None, Some(RefundOutcome::Refunded)));
        // It comes back, and is returned again.
        let amount = there.amount;
        vouchers.world.control(&format!("/refunds/{}", there.id), json!({"status": "failed"}));
        let came_back = IncomingPayment { payment_id: there.id.parse().unwrap(), amount, ..payment };
        let returned = vouchers.give_back(&came_back, "d3").await;
        assert!(matches!(returned, ReturnProgress::Returned(Some(_))), "{returned:?}");
        let last = vouchers.world.books("refunds").pop().unwrap();
        assert_eq!(
            (&last["amount"], last["payment_intent"].as_str()),
            (&json!(2_500), Some(&*intent(&other)))
        );
    }
}

#[tokio::test]
async fn mb_way_has_disputes_and_takes_evidence() {
    let vouchers = Vouchers::start(PaymentMethod::Mbway).await;
    let charge = vouchers.waiting().await;
    vouchers.act("/pay", &charge, json!({}));
    let dispute = vouchers.act("/dispute", &charge, json!({"kind": "formal", "amount": 4_000}));
    let id = dispute["id"].as_str().unwrap();
    let remote = vouchers.read(&charge).await.disputes.remove(0);
    assert_eq!((remote.kind, remote.amount.minor(), remote.decision), (CaseKind::Chargeback, 4_000, None));
    assert_eq!(vouchers.connector.refuses_evidence("application/pdf", 9), None);
    let file = EvidenceToSend {
        field: vouchers.connector.evidence_fields()[0].to_owned(),
        name: "a.pdf".to_owned(),
        mime_type: "application/pdf",
        content: b"%PDF-1.7".to_vec(),
    };
    let evidence =
        DisputeEvidence { text: Some("Entregue.".to_owned()), files: vec![file], spent_submissions: 0 };
    assert_eq!(vouchers.connector.submit_evidence(id, evidence).await.unwrap(), "under_review");
    vouchers.world.control(&format!("/disputes/{id}"), json!({"status": "lost"}));
    let lost = vouchers.read(&charge).await.disputes.remove(0);
    assert_eq!(lost.decision, Some(Decision::Payer));
    let boleto = Vouchers::start(PaymentMethod::Boleto).await;
    assert!(boleto.connector.refuses_evidence("application/pdf", 9).is_some());
}

/// Each method of a charge has a payment of its own, and the lists of the account name the charge.
#[tokio::test]
async fn the_methods_of_a_charge_are_told_apart() {
    let vouchers = Vouchers::start(PaymentMethod::Multibanco).await;
    let push = connector(&vouchers.world, PaymentMethod::Mbway);
    let pending = vouchers.new_charge();
    let card = waiting(pending.clone(), vouchers.world.create(&pending, true).await.unwrap());
    let multibanco = vouchers.waiting().await;
    assert_eq!(push.read(&pending, true).await, Ok(None));
    let (settings, now) = (&vouchers.world.settings, pending.created_at);
    let new = NewCharge {
        charge: &pending,
        settings,
        return_url: RETURN_URL,
        pix_location: "",
        now,
        is_first: false,
    };
    let mbway = waiting(pending.clone(), push.create(new).await.unwrap());
    assert_ne!(intent(&multibanco), intent(&mbway));
    vouchers.act("/pay", &multibanco, json!({}));
    assert_eq!(push.read(&pending, true).await.unwrap().unwrap().state, RemoteState::Open);
    assert_eq!(vouchers.read(&pending).await.state, RemoteState::Paid);
    assert_eq!(vouchers.world.read(&card).await.state, RemoteState::Open);
    assert_eq!(vouchers.world.close(&card).await.state, RemoteState::ClosedByUs);

    let account = &vouchers.world.connector;
    let mut changes = account.changes(at(-60), None).await.unwrap();
    assert_eq!((changes.charges.split_off(0), changes.odd.len()), (vec![pending.id], 0));
    vouchers.act("/refund", &multibanco, json!({"amount": 1_000}));
    let moved = account.movements((at(-60), at(60)), None).await.unwrap().movements;
    assert_eq!(moved.len(), 2);
    assert!(moved.iter().all(|moved| moved.charge == Some(pending.id)), "{moved:?}");
    let payments: Vec<&str> =
        moved.iter().filter_map(|moved| moved.payment.as_ref()).map(AcquirerPaymentId::as_str).collect();
    assert_eq!(payments, [intent(&multibanco)]);
}

#[tokio::test]
async fn a_card_session_that_lost_its_payment_does_not_take_that_of_another_method() {
    let vouchers = Vouchers::start_with(
        PaymentMethod::Boleto,
        Behaviour {
            expired_payment_intent: ExpiredPaymentIntent::Cleared,
            expires_during_payment: true,
            processing_completes_session: false,
            ..Behaviour::default()
        },
    )
    .await;
    let boleto = vouchers.waiting().await;
    vouchers.act("/pay", &boleto, json!({}));
    let pending = vouchers.new_charge();
    let card = waiting(pending.clone(), vouchers.world.create(&pending, true).await.unwrap());
    vouchers.world.act("/pay", &card, json!({"processing_s": 60}));
    assert_eq!(vouchers.world.close(&card).await.state, RemoteState::InProgress);
    vouchers.world.advance_s(61);
    let payment = vouchers.world.read(&card).await.payments.remove(0).payment;
    assert_eq!(payment.method, PaymentMethod::CreditCard);
    assert_ne!(payment.id.as_str(), intent(&boleto));
}
