//! The steps of a simulation.

use std::fmt;

use bank::FaultKind;
use soak::dice::Dice;
use strum::{Display, VariantArray};

/// One of the ledgers: an account in one mode.
#[derive(Clone, Copy, Debug, Display, Eq, Ord, PartialEq, PartialOrd)]
pub enum Ledger {
    #[strum(to_string = "first account")]
    First,
    #[strum(to_string = "second account")]
    Second,
    /// The first account in live mode, with charges at the bank.
    #[strum(to_string = "first account, live")]
    Live,
}

impl Ledger {
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::Live];
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, VariantArray)]
pub enum EndpointChange {
    /// The ledger's first endpoint gets another URL.
    Url,
    /// The ledger's first endpoint gets another secret.
    Secret,
    /// The second endpoint is switched off or on.
    Status,
    /// The second endpoint is subscribed to half of the events, or to all.
    Events,
    /// The second endpoint is deleted, and another one is created.
    Replacement,
}

/// The rows that a deployment leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rows {
    Present,
    /// Those of a newer version: with an attribute that this version does not know, and the newest format.
    Newer,
}

/// Who pays a charge. It matters only for an order with a payer lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payer {
    Expected,
    Other,
    /// The payer's bank reports no document.
    Unreported,
}

/// The payers: half of them are the expected one.
const PAYERS: [Payer; 4] = [Payer::Expected, Payer::Expected, Payer::Other, Payer::Unreported];

/// Every third order has a payer lock.
pub fn is_locked(order: usize) -> bool {
    order.is_multiple_of(3)
}

/// The faults of the bank after which a payment or a removal has the same outcome. A return that the bank does
/// not execute is repeated. A refund fails then.
const BANK_FAULTS: [FaultKind; 11] = [
    FaultKind::Http500,
    FaultKind::Http429,
    FaultKind::Http401,
    FaultKind::Http400AfterStore,
    FaultKind::TokenExpired,
    FaultKind::ReadBack404,
    FaultKind::LostNotification,
    FaultKind::DuplicateNotification,
    FaultKind::LateNotification,
    FaultKind::DevolucaoUnrealized,
    FaultKind::DevolucaoStuck,
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// A merchant creates a charge. If `order` was used before, the request is a repetition.
    Create {
        /// The number of the order, from which the idempotency key is made.
        order: usize,
        amount: i64,
        expires_in: i64,
        /// Whether the merchant sends the request twice at the same time.
        twice: bool,
    },
    /// A payer pays the charge of an order. In test mode, the same number is a repeated notification.
    Pay {
        order: usize,
        is_wrong: bool,
        payer: Payer,
        /// The number of the payment, from which its end-to-end id is made.
        payment: usize,
    },
    /// A payment of an order that is held for review is credited or returned.
    Review { order: usize, is_approved: bool },
    /// The acquirer declines the charge of an order.
    Fail(usize),
    /// The time of the charge of an order passes at once.
    Expire(usize),
    /// The merchant cancels the charge of an order.
    Cancel(usize),
    /// The merchant refunds a part of the charge of an order.
    Refund {
        order: usize,
        /// The part, in percent of what is left.
        percent: i64,
        is_cash_out: bool,
        /// Whether the acquirer refuses the refund.
        fails: bool,
    },
    /// The payer's bank opens a MED case about the payment of an order.
    OpenCase(usize),
    /// A case is decided, for the merchant or for the payer.
    Decide { order: usize, for_merchant: bool },
    /// An operator pays out a part of the balance.
    PayOut {
        /// In percent of the balance.
        percent: i64,
        is_paid: bool,
    },
    /// The merchant changes an endpoint.
    Endpoint(EndpointChange),
    /// The merchant issues another API key and revokes the present one.
    ReplaceKey,
    /// An operator raises the number of the account's shards.
    RaiseShards(u8),
    /// The bank fails so often in this way.
    BankFault(FaultKind, u32),
    /// All functions are replaced, as by a deployment.
    Deploy(Rows),
    /// The clock advances by so many seconds.
    Pass(i64),
}

#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The place in the whole plan. The disturbances after the step follow from it.
    pub number: usize,
    pub ledger: Ledger,
    pub action: Action,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>3} {}: {:?}", self.number, self.ledger, self.action)
    }
}

/// For how many steps there is an order in each account.
const STEPS_FOR_AN_ORDER: usize = 12;

/// How many payments there are for an order at most.
const PAYMENTS: usize = 3;

pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let orders = count.div_ceil(STEPS_FOR_AN_ORDER).max(1);
    let mut planned = Planned::default();
    (0..count).map(|number| step(seed, number, orders, &mut planned)).collect()
}

/// The orders that earlier steps create and pay, or pay so that they are held for review. Most steps act on one
/// of these.
#[derive(Default)]
struct Planned {
    created: Vec<(Ledger, usize)>,
    paid: Vec<(Ledger, usize)>,
    held: Vec<(Ledger, usize)>,
}

fn step(seed: u64, number: usize, orders: usize, planned: &mut Planned) -> Step {
    let dice = Dice::new(seed, number);
    let below = |purpose: &str, end: usize| {
        usize::try_from(dice.below(purpose, u64::try_from(end).unwrap_or_default())).unwrap_or_default()
    };
    let ledger = match dice.below("ledger", 100) {
        0..=49 => Ledger::First,
        50..=69 => Ledger::Second,
        _ => Ledger::Live,
    };
    // So few that most are used by several steps.
    let order = below("order", if ledger == Ledger::First { orders } else { orders.div_ceil(2) });
    let known = |all: &[(Ledger, usize)]| {
        let of_ledger: Vec<usize> = all.iter().filter(|one| one.0 == ledger).map(|one| one.1).collect();
        dice.pick("known order", &of_ledger).copied().unwrap_or(order)
    };
    let (created, paid, held) = (known(&planned.created), known(&planned.paid), known(&planned.held));
    // Most orders are created early, so that later steps act on them.
    let is_early = number < orders.saturating_mul(2);
    let action = match dice.below("action", if is_early { 25 } else { 100 }) {
        0..=17 => Action::Create {
            order,
            amount: dice.between("amount", 100, 50_000),
            expires_in: dice.between("expiry", 60, 7_200),
            twice: dice.chance("twice", 200),
        },
        18..=41 => Action::Pay {
            order: created,
            is_wrong: dice.chance("wrong", 150),
            payer: *dice.pick("payer", &PAYERS).unwrap_or(&Payer::Expected),
            // A bank gives no two payments one id.
            payment: created.saturating_mul(PAYMENTS).saturating_add(below("payment", PAYMENTS)),
        },
        42 => Action::Fail(created),
        43..=44 => Action::Review { order: held, is_approved: dice.chance("approved", 500) },
        45..=46 => Action::Expire(created),
        47..=49 => Action::Cancel(created),
        50..=67 => Action::Refund {
            order: paid,
            percent: *dice.pick("percent", &[10, 50, 100]).unwrap_or(&100),
            is_cash_out: dice.chance("cash-out", 500),
            fails: dice.chance("fails", 250),
        },
        68..=74 => Action::OpenCase(paid),
        75..=81 => Action::Decide { order: paid, for_merchant: dice.chance("for the merchant", 500) },
        82..=85 => {
            Action::PayOut { percent: dice.between("percent", 1, 100), is_paid: dice.chance("paid", 600) }
        }
        86..=87 => {
            let change = dice.pick("change", EndpointChange::VARIANTS);
            Action::Endpoint(*change.unwrap_or(&EndpointChange::Url))
        }
        88 => Action::ReplaceKey,
        89 => Action::RaiseShards(*dice.pick("shards", &[8, 16]).unwrap_or(&8)),
        90..=91 => {
            let kind = *dice.pick("fault", &BANK_FAULTS).unwrap_or(&FaultKind::Http500);
            Action::BankFault(
                kind,
                u32::try_from(dice.below("count", 3)).unwrap_or_default().saturating_add(1),
            )
        }
        92..=94 => {
            Action::Deploy(*dice.pick("rows", &[Rows::Present, Rows::Newer]).unwrap_or(&Rows::Present))
        }
        _ => Action::Pass(*dice.pick("seconds", &[5, 40, 70, 300, 1_000, 4_000]).unwrap_or(&5)),
    };
    match action {
        Action::Create { order, .. } => planned.created.push((ledger, order)),
        Action::Pay { order, is_wrong: false, payer: Payer::Unreported, .. } if is_locked(order) => {
            planned.held.push((ledger, order));
        }
        Action::Pay { order, is_wrong: false, .. } => planned.paid.push((ledger, order)),
        _ => {}
    }
    let is_of_sandbox = matches!(action, Action::Fail(_) | Action::Expire(_));
    let ledger = if is_of_sandbox && ledger == Ledger::Live { Ledger::First } else { ledger };
    Step { number, ledger, action }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_have_all_actions_and_the_same_steps_each_time() {
        let all: Vec<String> =
            (1..=50).flat_map(|seed| steps(seed, 60)).map(|step| step.to_string()).collect();
        let again = (1..=50).flat_map(|seed| steps(seed, 60)).map(|step| step.to_string());
        assert_eq!(all, again.collect::<Vec<_>>());
        let names = |prefix: &str| -> BTreeSet<String> {
            let actions = all.iter().filter_map(|step| step.split_once(prefix));
            actions.map(|(_, name)| name.chars().take_while(|c| c.is_alphanumeric()).collect()).collect()
        };
        assert_eq!(names(": ").len(), 16, "{:?}", names(": "));
        assert_eq!(names("Endpoint(").len(), EndpointChange::VARIANTS.len());
        assert_eq!(names("BankFault(").len(), BANK_FAULTS.len());
        assert_eq!(names("Deploy(").len(), 2);
    }
}
