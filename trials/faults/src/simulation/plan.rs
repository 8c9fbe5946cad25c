//! The steps of a simulation.

use std::fmt;

use trials::dice::Dice;

/// The action of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A merchant creates a charge. If `order` was used before, the request is a repetition.
    Create {
        /// The number of the order, from which the idempotency key is made.
        order: usize,
        /// In centavos.
        amount: i64,
        /// Seconds until the charge expires.
        expires_in: i64,
        /// Whether the merchant sends the request twice at the same time.
        twice: bool,
    },
    /// A payer pays the charge of an order, or the bank repeats the notification of a payment.
    Pay {
        /// The order.
        order: usize,
        /// Whether the amount is another one.
        is_wrong: bool,
        /// The number of the payment, from which its end-to-end id is made.
        payment: usize,
    },
    /// The acquirer declines the charge of an order.
    Fail(usize),
    /// The time of the charge of an order passes at once.
    Expire(usize),
    /// The merchant cancels the charge of an order.
    Cancel(usize),
    /// The merchant refunds a part of the charge of an order.
    Refund {
        /// The order.
        order: usize,
        /// The part, in percent of what is left.
        percent: i64,
        /// Whether the acquirer refuses the refund.
        fails: bool,
    },
    /// The payer's bank opens a MED case.
    OpenCase(usize),
    /// A case is decided, for the merchant or for the payer.
    Decide {
        /// The order.
        order: usize,
        /// For whom.
        for_merchant: bool,
    },
    /// An operator pays out a part of the balance.
    PayOut {
        /// In percent of the balance.
        percent: i64,
        /// Whether the bank executes it.
        is_paid: bool,
    },
    /// The merchant switches the second endpoint off or on.
    Switch,
    /// All functions are replaced, as by a deployment.
    Deploy,
    /// The clock advances by so many seconds.
    Pass(i64),
}

/// A step: an action of one of the accounts.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The place in the whole plan. The disturbances after the step follow from it.
    pub number: usize,
    /// Whether the second account acts.
    pub is_other: bool,
    /// What is done.
    pub action: Action,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = if self.is_other { "second account" } else { "first account" };
        write!(f, "{:>3} {account}: {:?}", self.number, self.action)
    }
}

/// For how many steps there is an order in each account.
const STEPS_FOR_AN_ORDER: usize = 8;

/// How many payments there are for an order at most.
const PAYMENTS: usize = 3;

/// Returns the steps of a seed.
pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let orders = count.div_ceil(STEPS_FOR_AN_ORDER).max(1);
    (0..count).map(|number| step(seed, number, orders)).collect()
}

fn step(seed: u64, number: usize, orders: usize) -> Step {
    let dice = Dice::new(seed, number);
    let below = |purpose: &str, end: usize| {
        usize::try_from(dice.below(purpose, u64::try_from(end).unwrap_or_default())).unwrap_or_default()
    };
    let order = below("order", orders);
    // Most orders are created early, so that later steps act on them.
    let is_early = number < orders.saturating_mul(2);
    let action = match dice.below("action", if is_early { 25 } else { 100 }) {
        0..=17 => Action::Create {
            order,
            amount: dice.between("amount", 100, 50_000),
            expires_in: dice.between("expiry", 60, 3_600),
            twice: dice.chance("twice", 200),
        },
        18..=41 => Action::Pay {
            order,
            is_wrong: dice.chance("wrong", 150),
            // A bank gives no two payments one id.
            payment: order.saturating_mul(PAYMENTS).saturating_add(below("payment", PAYMENTS)),
        },
        42..=44 => Action::Fail(order),
        45..=46 => Action::Expire(order),
        47..=49 => Action::Cancel(order),
        50..=67 => Action::Refund {
            order,
            percent: *dice.pick("percent", &[10, 50, 100]).unwrap_or(&100),
            fails: dice.chance("fails", 250),
        },
        68..=74 => Action::OpenCase(order),
        75..=81 => Action::Decide { order, for_merchant: dice.chance("for the merchant", 500) },
        82..=85 => {
            Action::PayOut { percent: dice.between("percent", 1, 100), is_paid: dice.chance("paid", 600) }
        }
        86..=87 => Action::Switch,
        88..=90 => Action::Deploy,
        _ => Action::Pass(*dice.pick("seconds", &[5, 40, 70, 300, 1_000, 4_000]).unwrap_or(&5)),
    };
    Step { number, is_other: dice.chance("account", 250), action }
}
