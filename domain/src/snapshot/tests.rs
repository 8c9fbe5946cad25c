//! Feeds random histories of a charge at its acquirer in any order, repeated and with gaps.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::acquirer::Charged;
use crate::charge::testing::{at, paid, payment as pix, waiting};
use crate::charge::transition::{self, IncomingPaymentWrite, Outcome, RecordedPayment};
use crate::charge::{Card, IncomingPayment, Multibanco as MultibancoVoucher};
use crate::money::{Currency, MinorUnits};
use crate::payment_method::PaymentMethod;
use crate::refund::RefundReason;
use crate::row::{Key, Row as _};
use crate::wallet::{LedgerAccount, Posting, Wallet};

/// A charge with all that is recorded about it.
struct World {
    charge: Charge,
    incoming: BTreeMap<AcquirerPaymentId, IncomingPayment>,
    refunds: Vec<Refund>,
    cases: Vec<MedCase>,
    wallet: Wallet,
    postings: Vec<Posting>,
    statuses: Vec<TransactionStatus>,
    closing: Option<Closing>,
}

impl World {
    fn new() -> Self {
        let mut charge = waiting();
        charge.methods = vec![PaymentMethod::CreditCard];
        charge.artefacts.card = Some(Card { page: None, return_url: None, expires_at: at(7200) });
        let (statuses, wallet) = (vec![charge.status], Wallet::empty(Currency::BRL));
        Self {
            charge,
            incoming: BTreeMap::new(),
            refunds: vec![],
            cases: vec![],
            wallet,
            postings: vec![],
            statuses,
            closing: None,
        }
    }

    /// The postings to which the rows lead.
    fn found(&self) -> usize {
        let stored: HashMap<Key, &Posting> =
            self.postings.iter().map(|posting| (posting.key(), posting)).collect();
        let of_cases = self.cases.iter().flat_map(MedCase::posting_keys);
        let of_refunds = self.refunds.iter().flat_map(Refund::posting_keys);
        let of_payments =
            self.incoming.values().flat_map(|incoming| incoming.posting_keys(self.charge.shard()));
        let mut keys: Vec<Key> = self.charge.posting_keys();
        keys.extend(of_cases.chain(of_refunds).chain(of_payments));
        let mut found = HashSet::new();
        while let Some(key) = keys.pop() {
            if let Some(posting) = stored.get(&key).filter(|_| found.insert(key)) {
                keys.extend(posting.earlier_key());
            }
        }
        found.retain(|key| stored.contains_key(key));
        found.len()
    }

    /// Makes the steps that a snapshot asks for, as one read of the acquirer does. Returns when to read again.
    fn read(&mut self, snapshot: &Snapshot, now: Timestamp) -> Option<Timestamp> {
        for _ in 0..64 {
            match self.next(snapshot, now) {
                None => return None,
                Some(Step::ReadAgain(at)) => return Some(at),
                Some(step) => self.apply(step, now),
            }
        }
        panic!("the steps do not end");
    }

    fn next(&self, snapshot: &Snapshot, now: Timestamp) -> Option<Step> {
        let payments: Vec<AcquirerPaymentId> = self.incoming.keys().cloned().collect();
        let (refunds, cases, terms) = (&self.refunds, &self.cases, &Terms::default());
        let known = Known {
            charge: &self.charge,
            payments: &payments,
            refunds,
            cases,
            fees_elsewhere: MinorUnits::ZERO,
            terms,
            closing: self.closing,
        };
        assert_eq!(contradictions(&known, snapshot), Vec::<OddObject>::new());
        next_step(&known, snapshot, now)
    }

    fn apply(&mut self, step: Step, now: Timestamp) {
        let now = now.strictly_after(self.charge.updated_at);
        match step {
            Step::ReadAgain(_) => panic!("nothing to apply"),
            Step::Charge(command) => match transition::apply(&self.charge, &command, now).unwrap() {
                Outcome::Changed(charge) => self.become_(*charge, None),
                Outcome::Paid { charge, moved } => {
                    let RecordedPayment { incoming_payment, posting } = *moved;
                    let (IncomingPaymentWrite::Insert(incoming) | IncomingPaymentWrite::Replace(incoming)) =
                        incoming_payment;
                    assert!(self.incoming.insert(incoming.payment_id.clone(), incoming).is_none());
                    self.become_(*charge, Some(posting));
                }
                Outcome::Credited { charge, posting } => {
                    self.become_(*charge, Some(*posting));
                }
                other @ Outcome::Unchanged => panic!("{command:?}: {other:?}"),
            },
            Step::EndRefund(id, outcome, _) => {
                let refund = self.refunds.iter_mut().find(|refund| refund.id == id).unwrap();
                let step = refund.ended(&self.charge, outcome, now).unwrap().unwrap();
                *refund = step.refund;
                self.become_(step.charge, Some(step.posting));
            }
            Step::RefundMadeThere(remote) => {
                let of_bank = (remote.id.as_str(), None, RefundReason::RequestedAtAcquirer);
                let is_held = self.charge.is_net_held(now);
                let step =
                    Refund::requested_at_bank(&self.charge, of_bank, remote.amount, is_held, now).unwrap();
                self.refunds.push(step.refund.started(&step.charge, now).unwrap().unwrap());
                self.become_(step.charge, Some(step.posting));
            }
            Step::OpenCase(id, notification) => {
                let step = MedCase::open(id, &self.charge, &notification, now).unwrap();
                self.cases.push(step.case);
                self.become_(step.charge, step.posting);
            }
            // What is recorded depends on whether a read saw the refund succeed.
            Step::RefundCameBack(remote) => panic!("no history has one: {remote:?}"),
            Step::DecideCase(id, decision, taken) => {
                let case = self.cases.iter_mut().find(|case| case.id == id).unwrap();
                let step = case.decided_at_acquirer(&self.charge, (decision, taken), now).unwrap().unwrap();
                *case = step.case;
                self.become_(step.charge, step.posting);
            }
            Step::ChangeLoss(id, taken) => {
                let case = self.cases.iter_mut().find(|case| case.id == id).unwrap();
                let step = case.taken_after_end(&self.charge, taken, now).unwrap().unwrap();
                *case = step.case;
                self.become_(step.charge, step.posting);
            }
        }
    }

    fn become_(&mut self, charge: Charge, posting: Option<Posting>) {
        if let Some(posting) = posting {
            self.wallet.post(&posting).unwrap();
            self.postings.push(posting);
        }
        if charge.status != self.charge.status {
            self.statuses.push(charge.status);
        }
        self.charge = charge;
    }

    /// What must not depend on the way: the states, and who has the money.
    fn end(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let balances: Vec<i64> = [
            LedgerAccount::MerchantAvailable,
            LedgerAccount::MerchantPending,
            LedgerAccount::MerchantRetained,
            LedgerAccount::AcquirerFees,
            LedgerAccount::PlatformExpense,
            LedgerAccount::AcquirerClearing,
            LedgerAccount::MedLosses,
            LedgerAccount::ReturnsInFlight,
            LedgerAccount::RefundsInFlight,
        ]
        .map(|account| self.wallet.balance(account).unwrap().get())
        .to_vec();
        let refunds: Vec<_> = self.refunds.iter().map(|refund| (refund.id, refund.status)).collect();
        // A decline is its code if a read saw it.
        let failure = self.charge.failure.is_some();
        let returned: Vec<_> = self.charge.returned.iter().map(|back| back.payment_id.clone()).collect();
        (self.charge.status, balances, refunds, failure, returned)
    }
}

/// What can happen at the acquirer.
#[derive(Clone, Copy, Debug)]
enum Move {
    Try,
    Decline,
    Pay { amount: i64 },
    LearnFee,
    Expire,
    Refund { amount: i64, succeeds: bool },
    EndRefund,
    Inquire,
    Dispute,
    Decide(bool),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => Just(Move::Try),
        3 => Just(Move::Decline),
        3 => prop_oneof![4 => Just(1000_i64), 1 => 1..2000_i64].prop_map(|amount| Move::Pay { amount }),
        2 => Just(Move::LearnFee),
        1 => Just(Move::Expire),
        2 => (1..600_i64, any::<bool>()).prop_map(|(amount, succeeds)| Move::Refund { amount, succeeds }),
        2 => Just(Move::EndRefund),
        1 => Just(Move::Inquire),
        1 => Just(Move::Dispute),
        1 => any::<bool>().prop_map(Move::Decide),
    ];
    proptest::collection::vec(one, 1..14)
}

fn decline() -> FailureReason {
    FailureReason::CardDeclined
}

fn amount(minor: i64) -> Amount {
    Amount::parse(minor).unwrap()
}

fn card_payment(number: usize, minor: i64) -> RemotePayment {
    let id = format!("pay{number}").parse().unwrap();
    let payment = Payment { id, method: PaymentMethod::CreditCard, amount: amount(minor), ..pix() };
    RemotePayment { payment, lacks_fee: true }
}

fn moved(
    payment: &AcquirerPaymentId,
    object: MovedObject,
    (number, gross, settled, fee): (usize, i64, i64, i64),
    currency: &str,
) -> RemoteMovement {
    RemoteMovement {
        id: format!("txn{number}{gross}{object:?}"),
        payment: payment.clone(),
        object,
        gross: MinorUnits::new(gross),
        settled: MinorUnits::new(settled),
        fee: MinorUnits::new(fee),
        currency: Currency::parse(currency).unwrap(),
    }
}

fn learn_fees(snapshot: &mut Snapshot) {
    for remote in &mut snapshot.payments {
        remote.lacks_fee = false;
        remote.payment.charged = Some(Charged { fee: MinorUnits::new(39), available_at: at(3 * 86_400) });
    }
}

fn open() -> Snapshot {
    Snapshot::of(RemoteState::Open)
}

/// The snapshots of a history, which ends with a charge that can't be paid any more.
fn history(moves: &[Move]) -> Vec<Snapshot> {
    let (mut now, mut outcomes, mut history) = (open(), Vec::new(), vec![open()]);
    let mut known: Vec<AcquirerPaymentId> = Vec::new();
    for made in moves.iter().copied().chain([Move::LearnFee, Move::EndRefund, Move::Expire]) {
        let is_payable = matches!(now.state, RemoteState::Open | RemoteState::InProgress);
        let sum = |refunds: &[RemoteRefund], of: fn(&RemoteRefund) -> bool| -> i64 {
            refunds.iter().filter(|refund| of(refund)).map(|refund| refund.amount.minor()).sum()
        };
        let refunded = sum(&now.refunds, |refund| refund.outcome != Some(RefundOutcome::Failed));
        // A dispute claims what was not refunded, and ends the refunds.
        let (can_refund, claimed) = (now.disputes.is_empty(), 1000 - refunded);
        let is_undecided = now.refunds.iter().any(|refund| refund.outcome.is_none());
        let claimed = if is_undecided { 0 } else { claimed };
        let credited = now.payments.first().filter(|first| first.payment.amount.minor() == 1000);
        match made {
            Move::Try if now.state == RemoteState::Open => now.state = RemoteState::InProgress,
            Move::Decline if is_payable => {
                (now.state, now.last_decline) = (RemoteState::Open, Some(decline()));
            }
            // A second payment can only cross the first one.
            Move::Pay { amount } if is_payable || now.payments.len() == 1 => {
                now.payments.push(card_payment(now.payments.len(), amount));
                (now.state, now.last_decline) = (RemoteState::Paid, None);
            }
            Move::LearnFee => {
                learn_fees(&mut now);
                for remote in now.payments.iter().filter(|remote| !known.contains(&remote.payment.id)) {
                    let paid = (0, remote.payment.amount.minor(), remote.payment.amount.minor(), 39);
                    now.movements.push(moved(&remote.payment.id, MovedObject::Payment, paid, "BRL"));
                }
                known.extend(now.payments.iter().map(|remote| remote.payment.id.clone()));
            }
            Move::Expire if is_payable => now.state = RemoteState::Expired,
            Move::Refund { amount: minor, succeeds }
                if credited.is_some() && can_refund && refunded + minor <= 1000 =>
            {
                let payment = now.payments[0].payment.id.clone();
                let id = format!("refund{}", now.refunds.len());
                let (amount, outcome) = (amount(minor), None);
                now.refunds.push(RemoteRefund { id, payment, ours: None, amount, outcome, reason: None });
                outcomes.push(if succeeds { RefundOutcome::Refunded } else { RefundOutcome::Failed });
            }
            Move::EndRefund => {
                for (refund, outcome) in now.refunds.iter_mut().zip(&outcomes) {
                    refund.outcome = Some(*outcome);
                }
            }
            Move::Inquire | Move::Dispute if credited.is_some() && claimed > 0 => {
                let kind =
                    if matches!(made, Move::Inquire) { CaseKind::Dispute } else { CaseKind::Chargeback };
                if let Some(open) = now.disputes.first_mut() {
                    let is_escalation = open.decision.is_none() && kind == CaseKind::Chargeback;
                    open.kind = if is_escalation { kind } else { open.kind };
                } else {
                    let (amount, reason) = (amount(claimed), Some("fraudulent".to_owned()));
                    let (due_by, decision) = (None, None);
                    now.disputes.push(RemoteDispute {
                        id: "dp1".to_owned(),
                        kind,
                        reason,
                        amount,
                        due_by,
                        decision,
                        payment: now.payments[0].payment.id.clone(),
                        taken: None,
                    });
                }
            }
            Move::Decide(is_won) => {
                for open in now.disputes.iter_mut().filter(|open| open.decision.is_none()) {
                    let fee = if open.kind == CaseKind::Chargeback { 55 } else { 0 };
                    for (number, fee) in [fee, if is_won { -fee } else { 0 }].into_iter().enumerate() {
                        let object = MovedObject::Dispute(open.id.clone());
                        now.movements.push(moved(&open.payment, object, (number, 0, 0, fee), "BRL"));
                    }
                    let is_won = is_won || open.kind == CaseKind::Dispute;
                    open.decision = Some(if is_won { Decision::Merchant } else { Decision::Payer });
                }
            }
            _ => continue,
        }
        history.push(now.clone());
    }
    history
}

/// A charge of which nothing else is recorded.
fn charge_alone<'a>(charge: &'a Charge, terms: &'a Terms) -> Known<'a> {
    let (payments, refunds, cases, fees_elsewhere) = (&[], &[], &[], MinorUnits::ZERO);
    Known { charge, payments, refunds, cases, fees_elsewhere, terms, closing: None }
}

proptest! {
    /// An older snapshot undoes nothing, a repeated one changes nothing, and a missing one is not missed.
    #[test]
    fn snapshots_in_any_order_end_in_one_state(
        moves in moves(),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let history = history(&moves);
        let last = history.last().unwrap();
        let (mut in_order, mut shuffled) = (World::new(), World::new());
        for snapshot in &history {
            in_order.read(snapshot, at(120));
        }
        for index in order {
            shuffled.read(index.get(&history), at(120));
        }
        for world in [&mut in_order, &mut shuffled] {
            world.closing = Some(Closing::Expire);
            world.read(last, at(120));
        }
        prop_assert_eq!(shuffled.next(last, at(120)), None);
        prop_assert_eq!(in_order.end(), shuffled.end());
        for world in [&in_order, &shuffled] {
            let paid = world.statuses.iter().filter(|status| **status == TransactionStatus::Approved).count();
            let disputes = usize::from(!world.cases.is_empty());
            prop_assert!(paid <= 1 + disputes, "{:?}", world.statuses);
            prop_assert!(!world.charge.is_open());
            prop_assert_eq!(world.found(), world.postings.len());
        }
    }
}

#[test]
fn rows_lead_to_every_posting_after_any_number_of_disputes_and_movements() {
    let mut world = World::new();
    for number in 0..20 {
        let tries = Snapshot { state: RemoteState::InProgress, ..open() };
        let decline = FailureReason::SandboxDeclined { code: number.to_string() };
        let ended = Snapshot { last_decline: Some(decline), ..open() };
        world.read(&tries, at(100));
        world.read(&ended, at(100));
    }
    let mut snapshot = Snapshot { payments: vec![card_payment(1, 1000)], ..Snapshot::of(RemoteState::Paid) };
    learn_fees(&mut snapshot);
    let payment = snapshot.payments[0].payment.id.clone();
    snapshot.movements.push(moved(&payment, MovedObject::Payment, (0, 1000, 1000, 39), "BRL"));
    world.read(&snapshot, at(120));
    for number in 1..=40 {
        let id = format!("dp{number}");
        snapshot.disputes.push(RemoteDispute { id, payment: payment.clone(), ..dispute(None) });
        world.read(&snapshot, at(120));
        let object = MovedObject::Dispute("dp1".to_owned());
        snapshot.movements.push(moved(&payment, object, (number, 0, 0, 15), "BRL"));
        let lost = i64::try_from(number).unwrap();
        for remote in &mut snapshot.disputes {
            remote.decision = Some(Decision::Merchant);
            let is_first = remote.id == "dp1";
            let movements = u32::try_from(number).unwrap();
            let minor = MinorUnits::new(if is_first { lost } else { 0 });
            remote.taken = Some(Taken { minor, movements });
        }
        world.read(&snapshot, at(120));
    }
    assert_eq!(world.next(&snapshot, at(120)), None);
    let changes = world.cases[0].version;
    assert!(changes > 40 && world.postings.len() > 100, "{changes}, {}", world.postings.len());
    assert_eq!(world.found(), world.postings.len());
    let statuses = world.charge.status_changes().len();
    assert!(statuses <= 20, "{statuses}");
}

#[test]
fn a_payment_waits_two_hours_for_its_fee_and_is_then_credited_by_the_plan() {
    let mut world = World::new();
    let mut snapshot = Snapshot { state: RemoteState::Paid, payments: vec![card_payment(1, 1000)], ..open() };
    assert_eq!(world.read(&snapshot, at(120)), Some(at(180)));
    let charge = &world.charge;
    let expected = (TransactionStatus::Processing, Some(PaymentMethod::CreditCard), None);
    assert_eq!((charge.status, charge.unconfirmed, charge.settlement), expected);
    learn_fees(&mut snapshot);
    assert_eq!(world.read(&snapshot, at(180)), None);
    let settlement = world.charge.settlement.unwrap();
    assert_eq!((settlement.fees.acquirer().get(), settlement.release_on.is_some()), (39, true));

    let mut late = World::new();
    let without = Snapshot { state: RemoteState::Paid, payments: vec![card_payment(1, 1000)], ..open() };
    late.read(&without, at(60 + FEE_SECONDS));
    assert_eq!(late.charge.settlement.unwrap().fees.total(), MinorUnits::ZERO);
}

#[test]
fn a_declined_try_waits_for_the_next_and_becomes_the_failure_of_the_expiry() {
    use TransactionStatus::{Expired, Processing, WaitingPayment};

    let mut world = World::new();
    let in_progress = Snapshot { state: RemoteState::InProgress, ..open() };
    let declined = Snapshot { last_decline: Some(decline()), ..open() };
    let expired = Snapshot { state: RemoteState::Expired, ..declined.clone() };
    let forgotten = Snapshot { last_decline: None, ..expired };
    for snapshot in [in_progress, declined, forgotten] {
        world.read(&snapshot, at(120));
    }
    let statuses = [WaitingPayment, Processing, WaitingPayment, Expired];
    assert_eq!(world.statuses, statuses);
    assert_eq!(world.charge.failure.unwrap().reason, decline());
}

#[test]
fn the_method_in_progress_decides_whether_the_charge_is_processed() {
    use PaymentMethod::{CreditCard, Crypto, Mbway, Multibanco, Pix};
    use RemoteState::{InProgress, Open};
    use TransactionStatus::{Processing, WaitingPayment};

    let charge = |status, legs: &[(PaymentMethod, RemoteState)]| {
        let methods = legs.iter().map(|(method, _)| *method).collect();
        let mut charge = Charge { status, methods, ..World::new().charge };
        let (entity, reference) = ("00000".to_owned(), "123456789".to_owned());
        let voucher = MultibancoVoucher { entity, reference, expires_at: at(3600), intent: None };
        charge.artefacts.multibanco = Some(voucher);
        charge
    };
    let next = |charge: &Charge, legs: &[(PaymentMethod, RemoteState)], is_authenticating, now| {
        let states = legs.iter().map(|(_, state)| state.clone());
        let state = states.max_by_key(RemoteState::rank).unwrap();
        let legs = if legs.len() > 1 { legs.to_vec() } else { Vec::new() };
        let terms = Terms::default();
        let known = charge_alone(charge, &terms);
        next_step(&known, &Snapshot { state, is_authenticating, legs, ..open() }, at(now))
    };
    let command = |command| Some(Step::Charge(Box::new(command)));
    let awaits = Command::AwaitConfirmation;
    for (legs, is_authenticating, first, status) in [
        (vec![(CreditCard, InProgress)], true, Command::Authenticate, Processing),
        (vec![(Pix, Open), (CreditCard, InProgress)], true, Command::Authenticate, Processing),
        (vec![(CreditCard, InProgress)], false, awaits(CreditCard), Processing),
        (vec![(Mbway, InProgress)], false, awaits(Mbway), Processing),
        (vec![(Mbway, InProgress), (CreditCard, Open)], false, awaits(Mbway), Processing),
        (vec![(Multibanco, InProgress), (Mbway, InProgress)], false, awaits(Mbway), Processing),
        (vec![(Crypto, InProgress), (CreditCard, Open)], false, awaits(Crypto), Processing),
        (vec![(Multibanco, InProgress)], false, awaits(Multibanco), WaitingPayment),
        (vec![(Multibanco, InProgress), (CreditCard, Open)], false, awaits(Multibanco), WaitingPayment),
        (vec![(Multibanco, InProgress), (Mbway, Open)], false, awaits(Multibanco), WaitingPayment),
    ] {
        let waiting = charge(WaitingPayment, &legs);
        assert_eq!(next(&waiting, &legs, is_authenticating, 120), command(first.clone()), "{legs:?}");
        let Ok(Outcome::Changed(after)) = transition::apply(&waiting, &first, at(120)) else {
            panic!("{legs:?}")
        };
        assert_eq!(after.status, status, "{legs:?}");
        assert_eq!(next(&after, &legs, is_authenticating, 120), None, "{legs:?}");
        assert_eq!(transition::apply(&after, &first, at(120)), Ok(Outcome::Unchanged));
    }
    // After its expiry, a voucher is processed, paid or not.
    let legs = vec![(Multibanco, InProgress), (CreditCard, Open)];
    assert_eq!(next(&charge(WaitingPayment, &legs), &legs, false, 3601), None);
    // A try that ends leaves the charge waiting, also beside a voucher that awaits its confirmation.
    for legs in [
        vec![(Multibanco, InProgress), (CreditCard, Open)],
        vec![(Multibanco, InProgress), (Mbway, RemoteState::ClosedByUs)],
        vec![(Multibanco, Open), (Mbway, RemoteState::Expired)],
    ] {
        let ended = Command::EndTry { decline: None };
        let processed = Charge { unconfirmed: Some(Multibanco), ..charge(Processing, &legs) };
        assert_eq!(next(&processed, &legs, false, 120), command(ended.clone()), "{legs:?}");
        let Ok(Outcome::Changed(waits)) = transition::apply(&processed, &ended, at(120)) else {
            panic!("{legs:?}")
        };
        assert_eq!((waits.status, waits.unconfirmed), (WaitingPayment, Some(Multibanco)));
    }
}

#[test]
fn a_charge_that_was_closed_here_ends_as_its_closer_wanted() {
    let charge = World::new().charge;
    let step = |state, closing| {
        let terms = Terms::default();
        let known = Known { closing, ..charge_alone(&charge, &terms) };
        next_step(&known, &Snapshot { state, ..open() }, charge.expires_at())
    };
    let command = |command| Some(Step::Charge(Box::new(command)));
    let expire = Command::Expire { at: charge.expires_at() };
    assert_eq!(step(RemoteState::ClosedByUs, Some(Closing::Cancel)), command(Command::Cancel));
    assert_eq!(step(RemoteState::ClosedByUs, Some(Closing::Expire)), command(expire));
    assert_eq!(step(RemoteState::ClosedByUs, None), None);
    let declined = Command::Decline(decline());
    assert_eq!(step(RemoteState::ClosedByAcquirer(decline()), Some(Closing::Cancel)), command(declined));
}

#[test]
fn the_platform_bears_the_fee_of_a_returned_payment_once_and_what_exchange_costs() {
    let mut world = World::new();
    let mut snapshot = Snapshot {
        state: RemoteState::Paid,
        payments: vec![card_payment(1, 1000), card_payment(2, 1000)],
        ..open()
    };
    learn_fees(&mut snapshot);
    let id = |number: usize| snapshot.payments[number].payment.id.clone();
    let movements = vec![
        moved(&id(0), MovedObject::Payment, (0, 1000, 1000, 39), "BRL"),
        moved(&id(1), MovedObject::Payment, (0, 1000, 1000, 39), "BRL"),
        moved(&id(1), MovedObject::Return, (0, -1000, -1000, 0), "BRL"),
    ];
    let older = Snapshot { movements: movements[..1].to_vec(), ..snapshot.clone() };
    let foreign = vec![
        moved(&id(0), MovedObject::Payment, (0, 1000, 5421, 53), "USD"),
        moved(&id(0), MovedObject::Refund("re".to_owned()), (0, -333, -1900, 0), "USD"),
    ];
    snapshot.movements = movements;
    world.read(&snapshot, at(120));
    let expense = |world: &World| world.wallet.balance(LedgerAccount::PlatformExpense).unwrap().get();
    let fees = |world: &World| world.wallet.balance(LedgerAccount::AcquirerFees).unwrap().get();
    assert_eq!((expense(&world), fees(&world)), (-39, 78));
    world.read(&older, at(120));
    assert_eq!(fees(&world), 78, "an older snapshot changes nothing");
    // 667 at 5.421 are 3615 of the balance, which has 3521.
    let charged = Snapshot { movements: foreign, ..open() }.charged(Currency::BRL).unwrap();
    let charged: Vec<(String, i64)> =
        charged.into_iter().map(|((currency, _), minor)| (currency.to_string(), minor.get())).collect();
    assert_eq!(charged, [("BRL".to_owned(), 0), ("USD".to_owned(), 53 + 94)]);
}

#[test]
fn what_no_step_can_make_right_is_reported() {
    let charge = paid();
    let now = at(120);
    let remote = |outcome, ours| RemoteRefund {
        id: "re1".to_owned(),
        payment: charge.applied_payment.as_ref().unwrap().payment_id.clone(),
        ours,
        amount: amount(300),
        outcome: Some(outcome),
        reason: None,
    };
    let there = remote(RefundOutcome::Refunded, None);
    let step = Refund::requested_at_bank(
        &charge,
        (&there.id, None, RefundReason::RequestedAtAcquirer),
        amount(300),
        false,
        now,
    )
    .unwrap();
    let started = step.refund.started(&step.charge, now).unwrap().unwrap();
    let ended = started.ended(&step.charge, RefundOutcome::Refunded, now).unwrap().unwrap();
    let notification = CaseNotification { amount: None, ..notification(&dispute(None)) };
    let id = dispute(None).case_of(charge.id);
    let opened = MedCase::open(id, &ended.charge, &notification, now).unwrap();
    let won = opened.case.decided(&opened.charge, Decision::Merchant, now).unwrap().unwrap();
    let terms = Terms::default();
    let known = Known { refunds: &[ended.refund], cases: &[won.case], ..charge_alone(&won.charge, &terms) };
    let failed = Snapshot { refunds: vec![remote(RefundOutcome::Failed, None)], ..open() };
    let came_back = Some(Step::RefundCameBack(remote(RefundOutcome::Failed, None)));
    assert_eq!(next_step(&known, &failed, now), came_back);
    let recorded = [failed.refunds[0].came_back_as().unwrap()];
    assert_eq!(next_step(&Known { payments: &recorded, ..known }, &failed, now), None);
    let reversed = Snapshot { disputes: vec![dispute(Some(Decision::Payer))], ..open() };
    let fine = Snapshot { refunds: vec![there], disputes: vec![dispute(Some(Decision::Merchant))], ..open() };
    assert_eq!(contradictions(&known, &reversed).len(), 1);
    assert_eq!(contradictions(&known, &fine), Vec::<OddObject>::new());
}

#[test]
fn a_second_refund_with_one_name_is_one_that_was_made_there() {
    let (charge, now) = (paid(), at(120));
    let there = |id: &str| (id.to_owned(), None, RefundReason::RequestedAtAcquirer);
    let made_there = |charge: &Charge, (id, its_id, reason): (String, Option<String>, RefundReason)| {
        Refund::requested_at_bank(charge, (&id, its_id, reason), amount(300), false, now).unwrap()
    };
    let step = made_there(&charge, there("re1"));
    let ours = Refund {
        id: RefundId::derive(charge.id, "ours"),
        requested_at_bank: None,
        rtr_id: Some("re1".to_owned()),
        status: RefundStatus::Refunded,
        ..step.refund
    };
    let remote = |id: &str| RemoteRefund {
        id: id.to_owned(),
        payment: charge.applied_payment.as_ref().unwrap().payment_id.clone(),
        ours: Some(ours.id),
        amount: amount(300),
        outcome: Some(RefundOutcome::Refunded),
        reason: None,
    };
    let snapshot = Snapshot { refunds: vec![remote("re1"), remote("re2")], ..open() };
    let second = made_there(&step.charge, there("re2"));
    let next = |refunds: &[Refund]| {
        let terms = Terms::default();
        let known = Known { refunds, ..charge_alone(&step.charge, &terms) };
        next_step(&known, &snapshot, now)
    };
    assert_eq!(next(std::slice::from_ref(&ours)), Some(Step::RefundMadeThere(remote("re2"))));
    let ended = Refund { status: RefundStatus::Refunded, ..second.refund.clone() };
    assert_eq!(next(&[ours.clone(), ended]), None);
    // Also if a crash left the recorded one in progress, or the refund has failed here.
    let started = second.refund.started(&second.charge, now).unwrap().unwrap();
    let end = Some(Step::EndRefund(started.id, RefundOutcome::Refunded, remote("re2")));
    assert_eq!(next(&[ours.clone(), started]), end);
    let failed = Refund { status: RefundStatus::Failed, rtr_id: None, ..ours };
    assert_eq!(next(&[failed]), Some(Step::RefundMadeThere(remote("re1"))));
}

fn dispute(decision: Option<Decision>) -> RemoteDispute {
    let (reason, due_by) = (Some("fraudulent".to_owned()), None);
    let amount = amount(1000);
    let kind = CaseKind::Chargeback;
    let (id, payment) = ("dp1".to_owned(), paid().applied_payment.unwrap().payment_id);
    RemoteDispute { id, payment, kind, reason, amount, due_by, decision, taken: None }
}
