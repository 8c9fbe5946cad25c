//! Example charges for tests.

use domain::account::terms::MethodTerms;
use domain::acquirer::AcquirerName;
use domain::charge::transition::{self, Command, Outcome, Payment};
use domain::charge::{Artefacts, Charge, Customer, Funds, Metadata, Pix, TransactionStatus};
use domain::ids::{AccountId, ChargeId, EndToEndId, Mode, Scope};
use domain::money::{Amount, Currency};
use domain::payment_method::PaymentMethod;
use domain::request_id::StoredRequestId;
use domain::shard::ShardCount;
use domain::time::Timestamp;

/// 2026-11-21T12:00:00Z.
pub(crate) const NOON: &str = "2026-11-21T12:00:00Z";

pub(crate) fn at(offset_seconds: i64) -> Timestamp {
    Timestamp::parse_floor(NOON).unwrap().plus_seconds(offset_seconds).unwrap()
}

/// Returns a test charge of 1000 centavos, created at noon and payable for one hour.
pub(crate) fn waiting() -> Charge {
    Charge {
        id: ChargeId::derive(b"salt", Mode::Test, "charges", "order-0001"),
        scope: Scope { account: AccountId::new([7; 10]), mode: Mode::Test },
        shards: ShardCount::ONE,
        status: TransactionStatus::WaitingPayment,
        version: 1,
        amount: Amount::parse(1000).unwrap(),
        currency: Currency::BRL,
        methods: vec![PaymentMethod::Pix],
        customer: Customer::default(),
        expected_payer: None,
        metadata: Metadata::default(),
        acquirer: AcquirerName::Sandbox,
        connection: None,
        elsewhere: Vec::new(),
        lease_until: None,
        unread_since: None,
        ended_legs: Vec::new(),
        artefacts: Artefacts {
            pix: Some(Pix { br_code: "code".to_owned(), expires_at: at(3600), ttl_seconds: 3600 }),
            ..Artefacts::default()
        },
        pix_expires_in_seconds: None,
        payment_details: None,
        request_hash: "0".repeat(32),
        request_id: StoredRequestId::new("req-1"),
        created_at: at(0),
        updated_at: at(0),
        applied_payment: None,
        settlement: None,
        funds: Funds::default(),
        costs: Vec::new(),
        returned: Vec::new(),
        unapplied: Vec::new(),
        failure: None,
        unconfirmed: None,
        last_decline: None,
        reviewed: None,
        disputes: None,
        past: None,
        actor: None,
        created_by: None,
        link: None,
    }
}

/// Returns a Pix for the charge of [`waiting`], one minute later.
pub(crate) fn payment() -> Payment {
    Payment {
        id: EndToEndId::sandbox(at(60), [1; 8]).into(),
        method: PaymentMethod::Pix,
        amount: Amount::parse(1000).unwrap(),
        payer_document: None,
        paid_at: at(60),
        is_in_time: false,
        charged: None,
    }
}

/// Returns the charge of [`waiting`], paid by [`payment`] and settled without fees.
pub(crate) fn paid() -> Charge {
    let command = Command::Pay { payment: payment(), terms: MethodTerms::default() };
    match transition::apply(&waiting(), &command, at(60)).unwrap() {
        Outcome::Paid { charge, .. } => *charge,
        other => panic!("{other:?}"),
    }
}
