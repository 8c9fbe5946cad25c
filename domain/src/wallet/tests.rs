//! Tests the ledger with random sequences of changes to charges, refunds, cases and payouts. Money must be
//! neither created nor lost, and none may be taken twice. Balances must equal the sums of the postings.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::LedgerAccount::{
    AcquirerClearing, AcquirerFees, HeldForReview, MedLosses, MerchantAvailable, MerchantPending,
    MerchantRetained, Payouts, PlatformExpense, PlatformFees, RefundsInFlight,
};
use super::*;
use crate::account::terms::{Fee, Fees, FeesOnRefund, MethodTerms};
use crate::charge::testing::{at, payment, waiting};
use crate::charge::transition::{self, Command, Outcome, Payment};
use crate::charge::{Artefacts, Charge, Funds, FundsError, Pix, RefundParameters};
use crate::ids::{ChargeId, EndToEndId, Mode, PostingId};
use crate::money::{Amount, MinorUnits, MoneyError};
use crate::shard::Shard;
use crate::time::Timestamp;
use crate::vocabulary::Vocabulary;
use crate::wallet::{CaseClawback, RefundShare, RefundStrategy};

const SECONDS_A_DAY: i64 = 24 * 60 * 60;

#[derive(Clone, Debug)]
enum Step {
    /// A new charge is created and paid.
    Settle { amount: i64, hold_days: u16, keep: bool },
    /// This number of days passes, and tranches that are due are released.
    Days(i64),
    /// A refund is requested. `part` is in thousandths of the charge; `None`: the whole refundable amount.
    Refund { charge: usize, part: Option<i64>, cashout: bool, pix_out_fee: i64, merchant_bears: bool },
    /// A refund in progress ends.
    EndRefund { refund: usize, completed: bool },
    /// A case for a part of a charge, in thousandths, opens.
    OpenCase { charge: usize, part: i64 },
    /// An open case ends.
    EndCase { case: usize, won: bool },
    /// A part of an open case's claim, in thousandths, is lost before the case ends.
    LosePart { case: usize, part: i64 },
    /// A case for a part of a charge, in thousandths, is lost before its confirmation.
    LoseUnconfirmed { charge: usize, part: i64 },
    /// A payout of a part of the available balance, in thousandths, is requested.
    Payout { part: i64 },
    /// A pending payout ends.
    EndPayout { payout: usize, paid: bool },
    /// An operator adjusts the balance.
    Adjust(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let settle = (1_i64..200_000, prop_oneof![Just(0_u16), 1_u16..4], any::<bool>())
        .prop_map(|(amount, hold_days, keep)| Step::Settle { amount, hold_days, keep });
    let refund = (
        any::<usize>(),
        proptest::option::weighted(0.8, 1_i64..=1000),
        any::<bool>(),
        0_i64..50,
        any::<bool>(),
    )
        .prop_map(|(charge, part, cashout, pix_out_fee, merchant_bears)| Step::Refund {
            charge,
            part,
            cashout,
            pix_out_fee,
            merchant_bears,
        });
    let step = prop_oneof![
        4 => settle,
        2 => (0_i64..3).prop_map(Step::Days),
        4 => refund,
        4 => (any::<usize>(), any::<bool>()).prop_map(|(refund, completed)| Step::EndRefund { refund, completed }),
        2 => (any::<usize>(), 1_i64..=1500).prop_map(|(charge, part)| Step::OpenCase { charge, part }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(case, won)| Step::EndCase { case, won }),
        2 => (any::<usize>(), 1_i64..1000).prop_map(|(case, part)| Step::LosePart { case, part }),
        1 => (any::<usize>(), 1_i64..=1500).prop_map(|(charge, part)| Step::LoseUnconfirmed { charge, part }),
        2 => (1_i64..=1000).prop_map(|part| Step::Payout { part }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(payout, paid)| Step::EndPayout { payout, paid }),
        1 => (-500_i64..500).prop_map(Step::Adjust),
    ];
    proptest::collection::vec(step, 1..60)
}

fn terms(
    (acquirer_fee, platform_fee): (Fee, Fee),
    hold_days: u16,
    fees_on_refund: FeesOnRefund,
) -> MethodTerms {
    MethodTerms { acquirer_fee, platform_fee, hold_days, fees_on_refund }
}

/// A model of the store with one wallet.
struct World {
    wallet: Wallet,
    now: Timestamp,
    count: u64,
    charges: Vec<Charge>,
    refunds: Vec<(usize, RefundShare)>,
    cases: Vec<(usize, Amount)>,
    /// Sum of the claims of lost cases, by charge.
    claims_lost: BTreeMap<usize, i64>,
    payouts: Vec<Amount>,
    /// Sums of payments, of completed refunds and of completed payouts.
    paid_in: i64,
    refunded: i64,
    paid_out: i64,
    /// Sum of the net changes of all postings in the statement.
    nets: i64,
}

fn minor(minor: i64) -> MinorUnits {
    MinorUnits::new(minor)
}

/// Returns the parameters of a refund by devolution.
fn devolution(gross: Option<i64>) -> RefundParameters {
    RefundParameters {
        gross: gross.map(|gross| Amount::parse(gross).unwrap()),
        strategy: RefundStrategy::Devolution,
        pix_out_fee: MinorUnits::ZERO,
        merchant_bears_pix_out: false,
        is_held: false,
    }
}

/// Returns how much of a charge can still be refunded.
fn refundable(charge: &Charge) -> i64 {
    charge.funds.refundable(charge.amount).unwrap().get()
}

fn pick<T>(list: &[T], number: usize) -> Option<usize> {
    number.checked_rem(list.len())
}

/// Returns that part of `whole`, at least one minor unit. `None`: `whole` is not positive.
fn part_of(whole: i64, thousandths: i64) -> Option<Amount> {
    Amount::parse((whole * thousandths / 1000).max(1)).ok().filter(|_| whole > 0)
}

impl World {
    fn new() -> Self {
        Self {
            wallet: Wallet::empty(Currency::BRL),
            now: at(0),
            count: 0,
            charges: Vec::new(),
            refunds: Vec::new(),
            cases: Vec::new(),
            claims_lost: BTreeMap::new(),
            payouts: Vec::new(),
            paid_in: 0,
            refunded: 0,
            paid_out: 0,
            nets: 0,
        }
    }

    fn cause(&mut self) -> Cause {
        self.count += 1;
        Cause {
            id: PostingId::derive(self.now, "test", self.count),
            scope: waiting().scope,
            shard: Shard::FIRST,
            currency: Currency::BRL,
            at: self.now,
            subject: Subject::default(),
        }
    }

    fn post(&mut self, posting: &Posting) {
        let changes: i64 = LedgerAccount::all().map(|account| posting.change(account).unwrap().get()).sum();
        assert_eq!(changes, 0, "{posting:?}");
        assert!(posting.transfers.iter().all(|transfer| transfer.minor.is_positive()), "{posting:?}");
        let stays_in_wallet =
            matches!(posting.kind, PostingKind::Release | PostingKind::CaseOpened | PostingKind::CaseWon);
        let net = posting.net().unwrap().get();
        if posting.kind.is_in_statement() && !stays_in_wallet {
            assert_eq!(net, posting.amount.get() - posting.fee.get(), "{posting:?}");
            self.nets += net;
        } else {
            assert_eq!((net, posting.fee.get()), (0, 0), "{posting:?}");
        }
        self.wallet.post(posting).unwrap();
    }

    /// Posts unless the posting debits more than the available balance; the store has the same condition.
    /// Returns false when nothing was posted.
    fn post_covered(&mut self, posting: &Posting) -> bool {
        let change = posting.change(MerchantAvailable).unwrap().get();
        let covered = self.available() + change >= 0 || change >= 0;
        if covered {
            self.post(posting);
        }
        covered
    }

    fn available(&self) -> i64 {
        self.wallet.available().unwrap().get()
    }

    fn pending(&self) -> i64 {
        self.wallet.pending().unwrap().get()
    }

    fn retained(&self) -> i64 {
        self.wallet.retained().unwrap().get()
    }

    fn balance(&self, account: LedgerAccount) -> i64 {
        self.wallet.balance(account).unwrap().get()
    }

    fn is_held(&self, charge: &Charge) -> bool {
        let day = charge.settlement.and_then(|settlement| settlement.release_on);
        day.is_some_and(|day| day.starts_at() > self.now)
    }

    fn settle(&mut self, amount: i64, hold_days: u16, fees_on_refund: FeesOnRefund) {
        let fees = (Fee::new(7, 99).unwrap(), Fee::new(0, 150).unwrap());
        self.settle_on(amount, terms(fees, hold_days, fees_on_refund));
    }

    fn settle_on(&mut self, amount: i64, terms: MethodTerms) {
        let amount = Amount::parse(amount).unwrap();
        self.count += 1;
        let number = self.count;
        let id = ChargeId::derive(b"salt", Mode::Test, "charges", &number.to_string());
        let pix = Pix { br_code: "code".to_owned(), expires_at: Timestamp::MAX, ttl_seconds: 3600 };
        let artefacts = Artefacts { pix: Some(pix), ..Artefacts::default() };
        let charge = Charge { id, amount, artefacts, ..waiting() };
        let id = EndToEndId::sandbox(self.now, number.to_be_bytes()).into();
        let payment = Payment { id, amount, paid_at: self.now, ..payment() };
        let outcome = transition::apply(&charge, &Command::Pay { payment, terms }, self.now).unwrap();
        let Outcome::Paid { charge, moved } = outcome else { panic!("{outcome:?}") };
        self.post(&moved.posting);
        self.paid_in += amount.minor();
        self.charges.push(*charge);
    }

    fn release_due(&mut self) {
        let due: Vec<Release> = self.wallet.releases().filter(|release| release.at() <= self.now).collect();
        for release in due {
            let cause = self.cause();
            self.post(&rules::released(cause, release.day, release.minor));
        }
    }

    fn refund(&mut self, index: usize, parameters: &RefundParameters) {
        let charge = self.charges[index].clone();
        let before = charge.funds;
        match charge.reserve_refund(parameters) {
            Ok((funds, share)) => {
                let release_on = charge.settlement.unwrap().release_on;
                let cause = self.cause();
                if self.post_covered(
                    &rules::refund_requested(cause, &share, (release_on, &[]), MinorUnits::ZERO).unwrap(),
                ) {
                    self.charges[index].funds = funds;
                    self.refunds.push((index, share));
                    let undone = funds.failed(charge.amount, &share).unwrap();
                    assert_eq!(undone, (before, CaseClawback::default()), "a failure must restore the funds");
                }
            }
            Err(refused) => assert!(
                before.med_held.is_positive()
                    || parameters.gross.is_none_or(|gross| gross.minor() > refundable(&charge)),
                "{refused:?}"
            ),
        }
    }

    fn end_refund(&mut self, number: usize, completed: bool) {
        let Some(index) = pick(&self.refunds, number) else { return };
        let (charge_index, share) = self.refunds.swap_remove(index);
        let charge = self.charges[charge_index].clone();
        let cause = self.cause();
        if completed {
            self.post(&rules::refund_completed(cause, &share).unwrap());
            self.charges[charge_index].funds = charge.funds.completed(charge.amount, &share).unwrap();
            self.refunded += share.gross.minor();
        } else {
            let release_on = charge.settlement.unwrap().release_on.filter(|_| self.is_held(&charge));
            let (funds, clawback) = charge.funds.failed(charge.amount, &share).unwrap();
            self.post(&rules::refund_failed(cause, &share, (release_on, &[]), clawback).unwrap());
            self.charges[charge_index].funds = funds;
        }
    }

    fn lose(&mut self, charge_index: usize, claimed: Amount, held_now: MinorUnits) {
        let (funds, lost) = self.charges[charge_index]
            .funds
            .case_lost(self.charges[charge_index].amount, claimed, None)
            .unwrap();
        let cause = self.cause();
        self.post(&rules::case_lost(cause, held_now, lost).unwrap());
        self.charges[charge_index].funds = funds;
        *self.claims_lost.entry(charge_index).or_default() += claimed.minor();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Settle { amount, hold_days, keep } => {
                let fees_on_refund = if *keep { FeesOnRefund::Keep } else { FeesOnRefund::Return };
                self.settle(*amount, *hold_days, fees_on_refund);
            }
            Step::Days(days) => {
                self.now = self.now.plus_seconds(days * SECONDS_A_DAY).unwrap();
                self.release_due();
            }
            Step::Refund { charge, part, cashout, pix_out_fee, merchant_bears } => {
                let Some(index) = pick(&self.charges, *charge) else { return };
                let charge = &self.charges[index];
                let parameters = RefundParameters {
                    gross: part.and_then(|part| part_of(charge.amount.minor(), part)),
                    strategy: if *cashout { RefundStrategy::Cashout } else { RefundStrategy::Devolution },
                    pix_out_fee: minor(if *cashout { *pix_out_fee } else { 0 }),
                    merchant_bears_pix_out: *merchant_bears,
                    is_held: self.is_held(charge),
                };
                self.refund(index, &parameters);
            }
            Step::EndRefund { refund, completed } => self.end_refund(*refund, *completed),
            Step::OpenCase { charge, part } => {
                let Some(index) = pick(&self.charges, *charge) else { return };
                let amount = self.charges[index].amount;
                let Some(claimed) = part_of(amount.minor(), *part) else { return };
                let (funds, held) = self.charges[index].funds.case_opened(amount, claimed).unwrap();
                let cause = self.cause();
                self.post(&rules::case_opened(cause, held).unwrap());
                self.charges[index].funds = funds;
                self.cases.push((index, claimed));
            }
            Step::EndCase { case, won } => {
                let Some(index) = pick(&self.cases, *case) else { return };
                let (charge_index, claimed) = self.cases.swap_remove(index);
                if *won {
                    let (funds, released) = self.charges[charge_index]
                        .funds
                        .case_won(self.charges[charge_index].amount, claimed)
                        .unwrap();
                    let cause = self.cause();
                    self.post(&rules::case_won(cause, released));
                    self.charges[charge_index].funds = funds;
                } else {
                    self.lose(charge_index, claimed, MinorUnits::ZERO);
                }
            }
            Step::LosePart { case, part } => {
                let Some(index) = pick(&self.cases, *case) else { return };
                let (charge_index, claimed) = self.cases[index];
                let Some(part) = part_of(claimed.minor(), *part).filter(|part| *part < claimed) else {
                    return;
                };
                self.cases[index].1 = Amount::parse(claimed.minor() - part.minor()).unwrap();
                self.lose(charge_index, part, MinorUnits::ZERO);
            }
            Step::LoseUnconfirmed { charge, part } => {
                let Some(index) = pick(&self.charges, *charge) else { return };
                let amount = self.charges[index].amount;
                let Some(claimed) = part_of(amount.minor(), *part) else { return };
                let (funds, held) = self.charges[index].funds.case_opened(amount, claimed).unwrap();
                self.charges[index].funds = funds;
                self.lose(index, claimed, held);
            }
            Step::Payout { part } => {
                let Some(amount) = part_of(self.available(), *part) else { return };
                let cause = self.cause();
                assert!(self.post_covered(&rules::payout_requested(cause, amount)));
                self.payouts.push(amount);
            }
            Step::EndPayout { payout, paid } => {
                let Some(index) = pick(&self.payouts, *payout) else { return };
                let amount = self.payouts.swap_remove(index);
                let cause = self.cause();
                if *paid {
                    self.post(&rules::payout_paid(cause, amount));
                    self.paid_out += amount.minor();
                } else {
                    self.post(&rules::payout_failed(cause, amount));
                }
            }
            Step::Adjust(minor) => {
                let cause = self.cause();
                self.post_covered(&rules::adjusted(cause, MinorUnits::new(*minor)).unwrap());
            }
        }
    }

    fn check(&self) {
        let balance = |account| self.balance(account);
        let sum: i64 = LedgerAccount::all().map(balance).sum();
        assert_eq!(sum, 0);
        // Acquirers hold the sum of all payments, minus refunds and payouts.
        assert_eq!(-balance(AcquirerClearing), self.paid_in - self.refunded - self.paid_out);
        for account in [MerchantPending, MerchantRetained, HeldForReview, RefundsInFlight, MedLosses, Payouts]
        {
            assert!(balance(account) >= 0, "{account:?} {}", balance(account));
        }
        assert!(balance(PlatformFees) >= 0 && balance(AcquirerFees) >= 0);
        assert_eq!(self.nets, self.wallet.total().unwrap().get() + self.retained());
        let tranches: i64 = self.wallet.releases().map(|release| release.minor.get()).sum();
        assert_eq!(tranches, self.pending());
        assert_eq!(
            balance(RefundsInFlight),
            self.refunds
                .iter()
                .map(|(_, share)| share.gross.minor() + share.fee_surplus().get())
                .sum::<i64>()
        );
        assert_eq!(balance(Payouts), self.payouts.iter().map(|amount| amount.minor()).sum::<i64>());
        let held: i64 = self.charges.iter().map(|charge| charge.funds.med_held.get()).sum();
        assert_eq!(balance(MerchantRetained), held);
        for (index, charge) in self.charges.iter().enumerate() {
            let funds = charge.funds;
            let devolved = funds.devolution_reserved.get() + funds.refunded_devolution.get();
            // Open cases hold the sum of their claims, limited to the amount that can be contested. Lost
            // cases took theirs with the same limit.
            let open = self.cases.iter().filter(|(charge_index, _)| *charge_index == index);
            let open: i64 = open.map(|(_, claimed)| claimed.minor()).sum();
            let lost = self.claims_lost.get(&index).copied().unwrap_or_default();
            assert_eq!(
                funds.med_held,
                open.min(charge.amount.minor() - devolved - funds.med_lost.get()),
                "{funds:?}"
            );
            assert!(devolved + funds.med_lost.get() >= lost.min(charge.amount.minor()), "{funds:?}");
            assert!(funds.med_lost.get() <= lost, "{funds:?}");
            let parts = [
                funds.devolution_reserved,
                funds.cashout_reserved,
                funds.refunded_devolution,
                funds.refunded_cashout,
                funds.med_held,
                funds.med_lost,
                funds.acquirer_fee_returned,
                funds.platform_fee_returned,
                funds.tranche_taken,
            ];
            assert!(!parts.iter().any(|part| part.is_negative()), "{funds:?}");
            let amount = charge.amount.minor();
            let refunded = funds.cashout_reserved.get() + funds.refunded_cashout.get();
            assert!(devolved + refunded <= amount, "{funds:?}");
            // The original payment is returned at most once: by devolution or by a MED case.
            assert!(devolved + funds.med_held.get() + funds.med_lost.get() <= amount, "{funds:?}");
            let settlement = charge.settlement.unwrap();
            assert!(funds.acquirer_fee_returned <= settlement.fees.acquirer(), "{funds:?}");
            assert!(funds.platform_fee_returned <= settlement.fees.platform(), "{funds:?}");
            if settlement.fees_on_refund == FeesOnRefund::Keep {
                assert!(
                    funds.acquirer_fee_returned.is_zero() && funds.platform_fee_returned.is_zero(),
                    "{funds:?}"
                );
            }
            assert!(funds.tranche_taken <= settlement.net(charge.amount), "{funds:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_changes_creates_or_loses_money(steps in steps()) {
        let mut world = World::new();
        let mut negative_by_case = false;
        for step in &steps {
            let before = world.available();
            world.step(step);
            world.check();
            let after = world.available();
            let debits_for_a_case = matches!(
                step,
                Step::OpenCase { .. } | Step::LoseUnconfirmed { .. } | Step::EndRefund { completed: false, .. }
            );
            negative_by_case |= debits_for_a_case && after < 0;
            prop_assert!(after >= 0 || after >= before || debits_for_a_case, "{step:?}");
            prop_assert!(after >= 0 || negative_by_case);
        }
    }
}

/// Returns the merchant's cost of all refunds of the first charge: their gross minus the returned fees.
fn cost(world: &World) -> i64 {
    let funds = world.charges[0].funds;
    let refunded = funds.devolution_reserved.get() + funds.refunded_devolution.get();
    refunded - funds.acquirer_fee_returned.get() - funds.platform_fee_returned.get()
}

#[derive(Clone, Debug)]
enum Part {
    /// A refund of a part of the refundable amount, in thousandths, is requested.
    Refund(i64),
    /// A refund in progress ends.
    End { refund: usize, completed: bool },
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        3 => prop_oneof![1_i64..40, 1_i64..=1000].prop_map(Part::Refund),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(refund, completed)| Part::End { refund, completed }),
    ];
    proptest::collection::vec(part, 0..60)
}

fn any_fee() -> impl Strategy<Value = Fee> {
    let fixed = prop_oneof![Just(0_i64), 0_i64..200];
    let points = prop_oneof![Just(0_u16), 0_u16..1_500, 0_u16..=10_000];
    (fixed, points).prop_map(|(fixed, points)| Fee::new(fixed, points).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// A payment that is refunded in parts costs the merchant exactly its net, for every order in which
    /// refunds complete or fail.
    #[test]
    fn a_payment_refunded_in_parts_costs_its_net(
        amount in prop_oneof![1_i64..300, 1_i64..1_000_000],
        fees in (any_fee(), any_fee()),
        hold_days in 0_u16..2,
        parts in parts(),
    ) {
        let mut world = World::new();
        world.settle_on(amount, terms(fees, hold_days, FeesOnRefund::Return));
        let (amount, net) = (world.charges[0].amount, world.charges[0].settlement.unwrap().net(world.charges[0].amount).get());
        let is_held = hold_days > 0;
        let refund = |world: &mut World, gross: Option<i64>| {
            let before = cost(world);
            world.refund(0, &RefundParameters { is_held, ..devolution(gross) });
            let (_, share) = world.refunds.last().unwrap();
            let added_cost = cost(world) - before;
            assert!(!share.fees.acquirer().is_negative() && !share.fees.platform().is_negative(), "{share:?}");
            assert_eq!(share.from_pending.get() + share.from_available.get(), added_cost);
            assert!(added_cost >= 0 && cost(world) <= net, "{added_cost} of {net}");
            let completes = refundable(&world.charges[0]) == 0;
            assert!(!completes || cost(world) == net, "{} of {net}", cost(world));
            world.check();
        };
        for part in parts {
            let left = refundable(&world.charges[0]);
            match part {
                Part::Refund(thousandths) => {
                    if let Some(gross) = part_of(left, thousandths) {
                        refund(&mut world, Some(gross.minor()));
                    }
                }
                Part::End { refund, completed } => {
                    world.end_refund(refund, completed);
                    world.check();
                }
            }
        }
        while !world.refunds.is_empty() {
            world.end_refund(0, true);
        }
        if refundable(&world.charges[0]) > 0 {
            refund(&mut world, None);
            world.end_refund(0, true);
        }
        world.check();
        prop_assert!(world.charges[0].funds.is_refunded(amount).unwrap());
        prop_assert_eq!((world.available(), world.pending()), (0, 0));
        prop_assert_eq!((world.balance(AcquirerFees), world.balance(PlatformFees)), (0, 0));
    }
}

#[test]
fn a_surplus_of_returned_fees_is_credited_when_the_last_refund_completes() {
    let mut world = World::new();
    world.step(&Step::Adjust(10_000));
    let fees = (Fee::new(10, 99).unwrap(), Fee::new(7, 51).unwrap());
    world.settle_on(10_000, terms(fees, 0, FeesOnRefund::Return));
    // The fees of this share were rounded separately: it returned 108 of 109 and 57 of 58.
    let share = RefundShare {
        gross: Amount::parse(9_999).unwrap(),
        strategy: RefundStrategy::Devolution,
        fees: Fees::new(minor(108), minor(57)).unwrap(),
        from_pending: minor(0),
        from_available: minor(9_834),
        pix_out_fee: MinorUnits::ZERO,
        merchant_bears_pix_out: false,
    };
    let cause = world.cause();
    world.post(&rules::refund_requested(cause, &share, (None, &[]), MinorUnits::ZERO).unwrap());
    world.charges[0].funds = Funds {
        devolution_reserved: minor(9_999),
        acquirer_fee_returned: minor(108),
        platform_fee_returned: minor(57),
        ..Funds::default()
    };
    world.refunds.push((0, share));
    world.check();

    let before = world.available();
    assert_eq!(before, 10_000 + 9_833 - 9_834);
    world.refund(0, &devolution(None));
    let (_, last) = *world.refunds.last().unwrap();
    assert_eq!((last.gross.minor(), last.fees.total(), last.fee_surplus()), (1, minor(2), minor(1)));
    assert_eq!(
        world.available(),
        before,
        "the request of the last refund must not change the available balance"
    );
    world.end_refund(1, false);
    assert_eq!(world.available(), before, "a failure must not debit anything");
    world.refund(0, &devolution(None));
    world.end_refund(1, true);
    world.end_refund(0, true);
    world.check();
    assert_eq!(world.available(), 10_000);
    assert_eq!((world.balance(AcquirerFees), world.balance(PlatformFees)), (0, 0));
}

#[test]
fn a_sum_that_does_not_fit_64_bits_is_an_error() {
    let mut world = World::new();
    let vast = Transfer { from: PlatformExpense, to: MerchantAvailable, minor: minor(i64::MAX) };
    let twice = Posting::new(world.cause(), PostingKind::Adjustment, &[vast, vast]);
    assert_eq!(twice.change(MerchantAvailable), Err(MoneyError::Overflow));
    assert_eq!(twice.net(), Err(MoneyError::Overflow));
    assert_eq!(world.wallet.post(&twice), Err(MoneyError::Overflow));
    assert_eq!(rules::adjusted(world.cause(), minor(i64::MIN)), Err(MoneyError::Overflow));
    assert_eq!(rules::case_opened(world.cause(), minor(i64::MIN)), Err(MoneyError::Overflow));
}

#[test]
fn inconsistent_funds_are_refused() {
    let mut world = World::new();
    world.settle(1_000, 0, FeesOnRefund::Return);
    let (amount, whole) = (world.charges[0].amount, world.charges[0].funds);
    let (reserved, share) = world.charges[0].reserve_refund(&devolution(Some(600))).unwrap();
    let (failed, _) = reserved.failed(amount, &share).unwrap();
    assert_eq!(failed, whole);
    assert!(
        matches!(failed.failed(amount, &share), Err(FundsError::Negative(_))),
        "a refund cannot fail twice"
    );
    assert!(matches!(failed.completed(amount, &share), Err(FundsError::Negative(_))));
    let completed = reserved.completed(amount, &share).unwrap();
    assert!(matches!(completed.completed(amount, &share), Err(FundsError::Negative(_))));
    let (_, lost) = completed.case_opened(amount, amount).unwrap();
    assert_eq!(lost, 400);
    let too_much = Funds { refunded_devolution: minor(600), cashout_reserved: minor(401), ..whole };
    assert_eq!(too_much.checked(amount), Err(FundsError::RefundsAboveAmount(too_much)));
    let returned_twice = Funds { refunded_devolution: minor(600), med_held: minor(401), ..whole };
    assert_eq!(returned_twice.checked(amount), Err(FundsError::ReturnsAboveAmount(returned_twice)));
    let vast = Funds { med_held: minor(i64::MAX), med_lost: minor(1), ..whole };
    assert_eq!(vast.checked(amount), Err(FundsError::Money(MoneyError::Overflow)));
}
