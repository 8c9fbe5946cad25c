//! Whatever happens to charges, refunds, cases and payouts, in any order: money is neither made nor lost, nothing is taken
//! twice, and balances are what the postings add up to.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::LedgerAccount::{
    AcquirerClearing, AcquirerFees, HeldForReview, MedLosses, MerchantAvailable, MerchantPending,
    MerchantRetained, Payouts, PlatformFees, RefundsInFlight,
};
use super::*;
use crate::account::terms::{Fee, Fees, FeesOnRefund, MethodTerms};
use crate::charge::testing::{at, waiting};
use crate::charge::transition::{self, Command, Outcome, Payment};
use crate::charge::{Artefacts, Charge, Funds, FundsError, Pix, RefundAsked, RefundRefused};
use crate::ids::{ChargeId, EndToEndId, Mode, PostingId};
use crate::money::Amount;
use crate::payment_method::PaymentMethod;
use crate::time::Timestamp;
use crate::vocabulary::Vocabulary;
use crate::wallet::{RefundShare, RefundStrategy, Retaken};

const SECONDS_A_DAY: i64 = 24 * 60 * 60;

#[derive(Clone, Debug)]
enum Step {
    /// A new charge is created and paid.
    Settle { amount: i64, hold_days: u16, keep: bool },
    /// So many days pass; what is due is released.
    Days(i64),
    /// A refund of a part, in thousandths of the charge, or of the rest.
    Refund { charge: usize, part: Option<i64>, cashout: bool, pix_out_fee: i64, merchant_bears: bool },
    /// A refund under way ends.
    EndRefund { refund: usize, completed: bool },
    /// A case for a part of a charge opens.
    OpenCase { charge: usize, part: i64 },
    /// An open case ends.
    EndCase { case: usize, won: bool },
    /// A case for a part of a charge is lost before anybody confirmed it.
    LoseUnconfirmed { charge: usize, part: i64 },
    /// A payout of a part of what is available.
    Payout { part: i64 },
    /// A payout under way ends.
    EndPayout { payout: usize, paid: bool },
    /// An operator corrects.
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

/// A world of one wallet, as the store would keep it.
struct World {
    wallet: Wallet,
    now: Timestamp,
    count: u64,
    charges: Vec<Charge>,
    refunds: Vec<(usize, RefundShare)>,
    cases: Vec<(usize, Amount)>,
    /// What lost cases claimed, by charge.
    claims_lost: BTreeMap<usize, i64>,
    payouts: Vec<Amount>,
    /// What payers paid, and what came back to them; what left by payouts, and by cases.
    paid_in: i64,
    refunded: i64,
    paid_out: i64,
    /// What the statement adds up to.
    nets: i64,
}

fn pick<T>(list: &[T], number: usize) -> Option<usize> {
    number.checked_rem(list.len())
}

/// A part in thousandths, at least one unit.
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
            currency: Currency::BRL,
            at: self.now,
            subject: Subject::default(),
        }
    }

    fn post(&mut self, posting: &Posting) {
        let changes: i64 = LedgerAccount::all().map(|account| posting.change(account)).sum();
        assert_eq!(changes, 0, "{posting:?}");
        assert!(posting.transfers.iter().all(|transfer| transfer.minor > 0), "{posting:?}");
        let moves_within = matches!(posting.kind, Kind::Release | Kind::CaseOpened | Kind::CaseWon);
        if posting.kind.is_in_statement() && !moves_within {
            assert_eq!(posting.net(), posting.amount - posting.fee, "{posting:?}");
            self.nets += posting.net();
        } else {
            assert_eq!((posting.net(), posting.fee), (0, 0), "{posting:?}");
        }
        self.wallet.post(posting).unwrap();
    }

    /// As the store does: only a case takes what is available below zero.
    fn post_covered(&mut self, posting: &Posting) -> bool {
        let covered = self.wallet.available() + posting.change(MerchantAvailable) >= 0
            || posting.change(MerchantAvailable) >= 0;
        if covered {
            self.post(posting);
        }
        covered
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
        let payment_id = EndToEndId::sandbox(self.now, number.to_be_bytes()).into();
        let method = PaymentMethod::Pix;
        let payment = Payment { id: payment_id, method, amount, payer_document: None, paid_at: self.now };
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

    fn refund(&mut self, place: usize, asked: &RefundAsked) {
        let charge = self.charges[place].clone();
        let before = charge.funds;
        match charge.reserve_refund(asked) {
            Ok((funds, share)) => {
                let release_on = charge.settlement.unwrap().release_on;
                let cause = self.cause();
                if self.post_covered(&rules::refund_requested(cause, &share, release_on)) {
                    self.charges[place].funds = funds;
                    self.refunds.push((place, share));
                    let undone = funds.failed(charge.amount, &share).unwrap();
                    assert_eq!(undone, (before, Retaken::default()), "a failure leaves no trace");
                }
            }
            Err(refused) => assert!(
                before.med_held > 0
                    || asked.gross.is_none_or(|gross| gross.minor() > before.refundable(charge.amount)),
                "{refused:?}"
            ),
        }
    }

    fn end_refund(&mut self, number: usize, completed: bool) {
        let Some(place) = pick(&self.refunds, number) else { return };
        let (of, share) = self.refunds.swap_remove(place);
        let charge = self.charges[of].clone();
        let cause = self.cause();
        if completed {
            self.post(&rules::refund_completed(cause, &share));
            self.charges[of].funds = charge.funds.completed(charge.amount, &share).unwrap();
            self.refunded += share.gross.minor();
        } else {
            let release_on = charge.settlement.unwrap().release_on.filter(|_| self.is_held(&charge));
            let (funds, retaken) = charge.funds.failed(charge.amount, &share).unwrap();
            self.post(&rules::refund_failed(cause, &share, release_on, retaken));
            self.charges[of].funds = funds;
        }
    }

    fn lose(&mut self, of: usize, claimed: Amount, held_now: i64) {
        let (funds, lost) = self.charges[of].funds.case_lost(self.charges[of].amount, claimed).unwrap();
        let cause = self.cause();
        self.post(&rules::case_lost(cause, held_now, lost));
        self.charges[of].funds = funds;
        *self.claims_lost.entry(of).or_default() += claimed.minor();
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
                let Some(place) = pick(&self.charges, *charge) else { return };
                let charge = &self.charges[place];
                let asked = RefundAsked {
                    gross: part.and_then(|part| part_of(charge.amount.minor(), part)),
                    strategy: if *cashout { RefundStrategy::Cashout } else { RefundStrategy::Devolution },
                    pix_out_fee: if *cashout { *pix_out_fee } else { 0 },
                    merchant_bears_pix_out: *merchant_bears,
                    is_held: self.is_held(charge),
                };
                self.refund(place, &asked);
            }
            Step::EndRefund { refund, completed } => self.end_refund(*refund, *completed),
            Step::OpenCase { charge, part } => {
                let Some(place) = pick(&self.charges, *charge) else { return };
                let amount = self.charges[place].amount;
                let Some(claimed) = part_of(amount.minor(), *part) else { return };
                let (funds, held) = self.charges[place].funds.case_opened(amount, claimed).unwrap();
                let cause = self.cause();
                self.post(&rules::case_opened(cause, held));
                self.charges[place].funds = funds;
                self.cases.push((place, claimed));
            }
            Step::EndCase { case, won } => {
                let Some(place) = pick(&self.cases, *case) else { return };
                let (of, claimed) = self.cases.swap_remove(place);
                if *won {
                    let (funds, released) =
                        self.charges[of].funds.case_won(self.charges[of].amount, claimed).unwrap();
                    let cause = self.cause();
                    self.post(&rules::case_won(cause, released));
                    self.charges[of].funds = funds;
                } else {
                    self.lose(of, claimed, 0);
                }
            }
            Step::LoseUnconfirmed { charge, part } => {
                let Some(place) = pick(&self.charges, *charge) else { return };
                let amount = self.charges[place].amount;
                let Some(claimed) = part_of(amount.minor(), *part) else { return };
                let (funds, held) = self.charges[place].funds.case_opened(amount, claimed).unwrap();
                self.charges[place].funds = funds;
                self.lose(place, claimed, held);
            }
            Step::Payout { part } => {
                let Some(amount) = part_of(self.wallet.available(), *part) else { return };
                let cause = self.cause();
                assert!(self.post_covered(&rules::payout_requested(cause, amount)));
                self.payouts.push(amount);
            }
            Step::EndPayout { payout, paid } => {
                let Some(place) = pick(&self.payouts, *payout) else { return };
                let amount = self.payouts.swap_remove(place);
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
                self.post_covered(&rules::adjusted(cause, *minor));
            }
        }
    }

    fn check(&self) {
        let balance = |account| self.wallet.balance(account);
        let sum: i64 = LedgerAccount::all().map(balance).sum();
        assert_eq!(sum, 0);
        // What acquirers hold is what payers paid and did not get back, less what merchants were paid.
        assert_eq!(-balance(AcquirerClearing), self.paid_in - self.refunded - self.paid_out);
        for account in [MerchantPending, MerchantRetained, HeldForReview, RefundsInFlight, MedLosses, Payouts]
        {
            assert!(balance(account) >= 0, "{account:?} {}", balance(account));
        }
        assert!(balance(PlatformFees) >= 0 && balance(AcquirerFees) >= 0);
        assert_eq!(self.nets, self.wallet.total() + self.wallet.retained());
        let tranches: i64 = self.wallet.releases().map(|release| release.minor).sum();
        assert_eq!(tranches, self.wallet.pending());
        assert_eq!(
            balance(RefundsInFlight),
            self.refunds.iter().map(|(_, share)| share.gross.minor() + share.credit()).sum::<i64>()
        );
        assert_eq!(balance(Payouts), self.payouts.iter().map(|amount| amount.minor()).sum::<i64>());
        let held: i64 = self.charges.iter().map(|charge| charge.funds.med_held).sum();
        assert_eq!(balance(MerchantRetained), held);
        for (place, charge) in self.charges.iter().enumerate() {
            let funds = charge.funds;
            let devolved = funds.devolution_reserved + funds.refunded_devolution;
            // Whoever claims it has what there is, whatever other cases and refunds came to.
            let open = self.cases.iter().filter(|(of, _)| *of == place);
            let open: i64 = open.map(|(_, claimed)| claimed.minor()).sum();
            let lost = self.claims_lost.get(&place).copied().unwrap_or_default();
            assert_eq!(
                funds.med_held,
                open.min(charge.amount.minor() - devolved - funds.med_lost),
                "{funds:?}"
            );
            assert!(devolved + funds.med_lost >= lost.min(charge.amount.minor()), "{funds:?}");
            assert!(funds.med_lost <= lost, "{funds:?}");
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
            assert!(parts.iter().all(|part| *part >= 0), "{funds:?}");
            let amount = charge.amount.minor();
            let refunded = funds.devolution_reserved
                + funds.cashout_reserved
                + funds.refunded_devolution
                + funds.refunded_cashout;
            assert!(refunded <= amount, "{funds:?}");
            // A payment is given back once: by devolution, or to the payer's bank by a case.
            assert!(devolved + funds.med_held + funds.med_lost <= amount, "{funds:?}");
            let settlement = charge.settlement.unwrap();
            assert!(funds.acquirer_fee_returned <= settlement.fees.acquirer, "{funds:?}");
            assert!(funds.platform_fee_returned <= settlement.fees.platform, "{funds:?}");
            assert!(funds.tranche_taken <= settlement.net(charge.amount), "{funds:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_moves_makes_or_loses_money(steps in steps()) {
        let mut world = World::new();
        let mut negative_by_case = false;
        for step in &steps {
            let before = world.wallet.available();
            world.step(step);
            world.check();
            let after = world.wallet.available();
            let takes_for_a_case = matches!(
                step,
                Step::OpenCase { .. } | Step::LoseUnconfirmed { .. } | Step::EndRefund { completed: false, .. }
            );
            negative_by_case |= takes_for_a_case && after < 0;
            prop_assert!(after >= 0 || after >= before || takes_for_a_case, "{step:?}");
            prop_assert!(after >= 0 || negative_by_case);
        }
    }

    /// Refunds that give a payment back whole give all its fees back, however they were cut.
    #[test]
    fn the_last_refund_takes_the_rest_of_the_fees(
        amount in 1_i64..1_000_000,
        cuts in proptest::collection::vec(1_i64..=400, 0..8),
        hold_days in 0_u16..2,
    ) {
        let mut world = World::new();
        world.settle(amount, hold_days, FeesOnRefund::Return);
        let asked = |gross| RefundAsked {
            gross,
            strategy: RefundStrategy::Devolution,
            pix_out_fee: 0,
            merchant_bears_pix_out: false,
            is_held: hold_days > 0,
        };
        for cut in cuts {
            let gross = part_of(amount, cut).filter(|gross| gross.minor() <= world.charges[0].funds.refundable(world.charges[0].amount));
            if let Some(gross) = gross {
                world.refund(0, &asked(Some(gross)));
            }
        }
        if world.charges[0].funds.refundable(world.charges[0].amount) > 0 {
            world.refund(0, &asked(None));
        }
        while !world.refunds.is_empty() {
            world.end_refund(0, true);
            world.check();
        }
        for account in LedgerAccount::all() {
            prop_assert_eq!(world.wallet.balance(account), 0, "{:?}", account);
        }
        prop_assert!(world.charges[0].funds.is_refunded(world.charges[0].amount));
    }
}

/// A refund by devolution.
fn devolution(gross: Option<i64>) -> RefundAsked {
    RefundAsked {
        gross: gross.map(|gross| Amount::parse(gross).unwrap()),
        strategy: RefundStrategy::Devolution,
        pix_out_fee: 0,
        merchant_bears_pix_out: false,
        is_held: false,
    }
}

/// What the refunds of the first charge cost the merchant so far.
fn cost(world: &World) -> i64 {
    let funds = world.charges[0].funds;
    let refunded = funds.devolution_reserved + funds.refunded_devolution;
    refunded - funds.acquirer_fee_returned - funds.platform_fee_returned
}

#[derive(Clone, Debug)]
enum Part {
    /// A refund of a part of what is left, in thousandths.
    Refund(i64),
    /// One under way ends.
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

    /// However a payment is refunded in parts, and whichever of them fail in which order: once all of it is refunded, it
    /// cost the merchant its net.
    #[test]
    fn a_payment_refunded_in_parts_costs_its_net(
        amount in prop_oneof![1_i64..300, 1_i64..1_000_000],
        fees in (any_fee(), any_fee()),
        hold_days in 0_u16..2,
        parts in parts(),
    ) {
        let mut world = World::new();
        world.settle_on(amount, terms(fees, hold_days, FeesOnRefund::Return));
        let (amount, net) = (world.charges[0].amount, world.charges[0].settlement.unwrap().net(world.charges[0].amount));
        let is_held = hold_days > 0;
        let refund = |world: &mut World, gross: Option<i64>| {
            let before = cost(world);
            world.refund(0, &RefundAsked { is_held, ..devolution(gross) });
            let (_, share) = world.refunds.last().unwrap();
            let step = cost(world) - before;
            assert!(share.fees.acquirer >= 0 && share.fees.platform >= 0, "{share:?}");
            assert_eq!(share.from_pending + share.from_available, step);
            assert!(step >= 0 && cost(world) <= net, "{step} of {net}");
            let completes = world.charges[0].funds.refundable(amount) == 0;
            assert!(!completes || cost(world) == net, "{} of {net}", cost(world));
            world.check();
        };
        for part in parts {
            let left = world.charges[0].funds.refundable(amount);
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
        if world.charges[0].funds.refundable(amount) > 0 {
            refund(&mut world, None);
            world.end_refund(0, true);
        }
        world.check();
        prop_assert!(world.charges[0].funds.is_refunded(amount));
        prop_assert_eq!((world.wallet.available(), world.wallet.pending()), (0, 0));
        prop_assert_eq!((world.wallet.balance(AcquirerFees), world.wallet.balance(PlatformFees)), (0, 0));
    }
}

/// What each of these parts costs, refunded one after another.
fn costs(fees: [(i64, u16); 2], amount: i64, keep: bool, parts: &[i64]) -> Vec<i64> {
    let [acquirer, platform] = fees.map(|(fixed, points)| Fee::new(fixed, points).unwrap());
    let fees_on_refund = if keep { FeesOnRefund::Keep } else { FeesOnRefund::Return };
    let mut world = World::new();
    world.step(&Step::Adjust(amount));
    world.settle_on(amount, terms((acquirer, platform), 0, fees_on_refund));
    let of_part = |part: &i64| {
        let before = cost(&world);
        world.refund(0, &devolution(Some(*part)));
        world.end_refund(0, true);
        world.check();
        cost(&world) - before
    };
    parts.iter().map(of_part).collect()
}

#[test]
fn fees_of_a_payment_refunded_in_parts_come_back_whole() {
    let mut parts = vec![9; 111];
    parts.push(1);
    let platform = |points| [(0, 0), (0, points)];
    assert_eq!(costs(platform(1_000), 1_000, false, &parts).iter().sum::<i64>(), 900);
    assert_eq!(costs(platform(100), 199, false, &[99, 99, 1]).iter().sum::<i64>(), 197);
    assert_eq!(costs(platform(100), 199, false, &[199]), [197]);
    // The fees are 109 and 58, the net 9833: both parts rounded down by themselves would cost 9834.
    assert_eq!(costs([(10, 99), (7, 51)], 10_000, false, &[9_999, 1]), [9_833, 0]);
    // What keeps its fees costs its gross.
    assert_eq!(costs([(10, 99), (7, 51)], 10_000, true, &[4_000, 5_000]), [4_000, 5_000]);
}

#[test]
fn the_refund_that_completes_the_amount_credits_fees_above_its_gross_once_it_reached_the_payer() {
    let mut world = World::new();
    world.step(&Step::Adjust(10_000));
    let fees = (Fee::new(10, 99).unwrap(), Fee::new(7, 51).unwrap());
    world.settle_on(10_000, terms(fees, 0, FeesOnRefund::Return));
    // As rows have it of when each fee was rounded by itself: 108 of 109 and 57 of 58 came back.
    let share = RefundShare {
        gross: Amount::parse(9_999).unwrap(),
        strategy: RefundStrategy::Devolution,
        fees: Fees { acquirer: 108, platform: 57 },
        from_pending: 0,
        from_available: 9_834,
        pix_out_fee: 0,
        merchant_bears_pix_out: false,
    };
    let cause = world.cause();
    world.post(&rules::refund_requested(cause, &share, None));
    world.charges[0].funds = Funds {
        devolution_reserved: 9_999,
        acquirer_fee_returned: 108,
        platform_fee_returned: 57,
        ..Funds::default()
    };
    world.refunds.push((0, share));
    world.check();

    let before = world.wallet.available();
    assert_eq!(before, 10_000 + 9_833 - 9_834);
    world.refund(0, &devolution(None));
    let (_, last) = *world.refunds.last().unwrap();
    assert_eq!((last.gross.minor(), last.fees.total(), last.credit()), (1, 2, 1));
    assert_eq!(world.wallet.available(), before, "nothing is taken, and nothing credited yet");
    world.end_refund(1, false);
    assert_eq!(world.wallet.available(), before, "a failure takes nothing back");
    world.refund(0, &devolution(None));
    world.end_refund(1, true);
    world.end_refund(0, true);
    world.check();
    assert_eq!(world.wallet.available(), 10_000);
    assert_eq!((world.wallet.balance(AcquirerFees), world.wallet.balance(PlatformFees)), (0, 0));
}

#[test]
fn a_refund_consumes_its_own_tranche_first_and_a_failure_gives_it_back_to_where_it_is() {
    let asked = |gross: i64, is_held| RefundAsked {
        gross: Some(Amount::parse(gross).unwrap()),
        strategy: RefundStrategy::Devolution,
        pix_out_fee: 0,
        merchant_bears_pix_out: false,
        is_held,
    };
    let mut world = World::new();
    world.settle(10_000, 1, FeesOnRefund::Keep);
    world.settle(10_000, 0, FeesOnRefund::Keep);
    // 0.99% and 7 for the acquirer, 1.5% for the platform.
    let net = 10_000 - 106 - 150;
    assert_eq!((world.wallet.pending(), world.wallet.available()), (net, net));
    world.refund(0, &asked(1_000, true));
    assert_eq!((world.wallet.pending(), world.wallet.available()), (net - 1_000, net));
    world.end_refund(0, false);
    assert_eq!((world.wallet.pending(), world.wallet.available()), (net, net));
    world.refund(0, &asked(9_900, true));
    assert_eq!((world.wallet.pending(), world.wallet.available()), (0, net - 156));
    // Its day comes; what failed can be spent.
    world.step(&Step::Days(1));
    world.end_refund(0, false);
    assert_eq!((world.wallet.pending(), world.wallet.available()), (0, 2 * net));
    world.check();
}

#[test]
fn only_a_case_takes_what_is_available_below_zero() {
    let mut world = World::new();
    world.settle(1_000, 0, FeesOnRefund::Return);
    let available = world.wallet.available();
    world.step(&Step::Payout { part: 1000 });
    assert_eq!(world.wallet.available(), 0);
    world.step(&Step::OpenCase { charge: 0, part: 1000 });
    assert_eq!((world.wallet.available(), world.wallet.retained()), (-1_000, 1_000));
    world.step(&Step::Adjust(-1));
    assert_eq!(world.wallet.available(), -1_000);
    world.step(&Step::EndCase { case: 0, won: true });
    assert_eq!((world.wallet.available(), world.wallet.retained()), (0, 0));
    world.step(&Step::EndPayout { payout: 0, paid: false });
    assert_eq!(world.wallet.available(), available);
}

#[test]
fn funds_refuse_what_can_not_happen() {
    let mut world = World::new();
    world.settle(1_000, 0, FeesOnRefund::Return);
    let (amount, whole) = (world.charges[0].amount, world.charges[0].funds);
    let asked = RefundAsked {
        gross: Some(Amount::parse(600).unwrap()),
        strategy: RefundStrategy::Devolution,
        pix_out_fee: 0,
        merchant_bears_pix_out: false,
        is_held: false,
    };
    let (reserved, share) = world.charges[0].reserve_refund(&asked).unwrap();
    let (failed, _) = reserved.failed(amount, &share).unwrap();
    assert_eq!(failed, whole);
    assert!(matches!(failed.failed(amount, &share), Err(FundsError::Negative(_))), "it failed already");
    assert!(matches!(failed.completed(amount, &share), Err(FundsError::Negative(_))));
    let completed = reserved.completed(amount, &share).unwrap();
    assert!(matches!(completed.completed(amount, &share), Err(FundsError::Negative(_))));
    let (_, lost) = completed.case_opened(amount, amount).unwrap();
    assert_eq!(lost, 400);
    let too_much = Funds { refunded_devolution: 600, cashout_reserved: 401, ..whole };
    assert_eq!(too_much.checked(amount), Err(FundsError::RefundsAboveAmount(too_much)));
    let returned_twice = Funds { refunded_devolution: 600, med_held: 401, ..whole };
    assert_eq!(returned_twice.checked(amount), Err(FundsError::ReturnsAboveAmount(returned_twice)));
    let vast = Funds { med_held: i64::MAX, med_lost: 1, ..whole };
    assert_eq!(vast.checked(amount), Err(FundsError::Overflow));
}

#[test]
fn a_case_and_refunds_never_take_the_same_money() {
    let mut world = World::new();
    world.settle(1_000, 0, FeesOnRefund::Return);
    world.settle(100_000, 0, FeesOnRefund::Return);
    let asked = |gross: Option<i64>, strategy| RefundAsked {
        gross: gross.map(|gross| Amount::parse(gross).unwrap()),
        strategy,
        pix_out_fee: 0,
        merchant_bears_pix_out: false,
        is_held: false,
    };
    world.refund(0, &asked(Some(300), RefundStrategy::Devolution));
    world.refund(0, &asked(Some(200), RefundStrategy::Cashout));
    // What a devolution gives back is not contested again; what a cash-out sent is another payment.
    world.step(&Step::OpenCase { charge: 0, part: 1500 });
    assert_eq!(world.charges[0].funds.med_held, 700);
    let refused = world.charges[0].reserve_refund(&asked(None, RefundStrategy::Devolution));
    assert_eq!(refused, Err(RefundRefused::Disputed));
    world.step(&Step::OpenCase { charge: 0, part: 1000 });
    assert_eq!(world.charges[0].funds.med_held, 700);
    world.step(&Step::EndCase { case: 0, won: false });
    let refused = world.charges[0].reserve_refund(&asked(None, RefundStrategy::Devolution));
    assert_eq!(refused, Err(RefundRefused::ExceedsRemaining { remaining: 0 }));
    // The devolution fails after all: the case that was lost has the rest of what it claimed.
    assert_eq!(world.charges[0].funds.med_lost, 700);
    world.end_refund(0, false);
    world.check();
    assert_eq!(world.charges[0].funds.med_lost, 1_000);
    world.end_refund(0, false);
    world.check();
    assert_eq!(world.charges[0].funds.refundable(world.charges[0].amount), 0);
}
