//! Business figures for the metrics, from the changes of live charges, refunds and MED cases. A repeated stream
//! record counts twice, so the figures are for dashboards. The ledger and the rollups are exact.

use domain::charge::Charge;
use domain::ids::Mode;
use domain::med::MedCase;
use domain::money::{Currency, Money};
use domain::refund::{Refund, RefundStatus};
use shared::metrics;

/// A change that the metrics count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Figure {
    ChargeCreated(Currency),
    ChargePaid(Money),
    RefundFailed,
    CaseOpened,
}

impl Figure {
    pub(crate) fn of_charge(old: Option<&Charge>, new: &Charge) -> Option<Self> {
        let is_paid = |charge: &Charge| charge.settlement.is_some();
        let figure = match old {
            None => Self::ChargeCreated(new.currency),
            Some(old) if is_paid(new) && !is_paid(old) => {
                Self::ChargePaid(new.amount.in_currency(new.currency))
            }
            Some(_) => return None,
        };
        (new.scope.mode == Mode::Live).then_some(figure)
    }

    pub(crate) fn of_refund(old: Option<&Refund>, new: &Refund) -> Option<Self> {
        let has_failed = |refund: &Refund| refund.status == RefundStatus::Failed;
        let is_first = has_failed(new) && !old.is_some_and(has_failed);
        (is_first && new.scope.mode == Mode::Live).then_some(Self::RefundFailed)
    }

    pub(crate) fn of_case(old: Option<&MedCase>, new: &MedCase) -> Option<Self> {
        (old.is_none() && new.scope.mode == Mode::Live).then_some(Self::CaseOpened)
    }

    /// Writes the metrics.
    pub(crate) fn write(self) {
        match self {
            Self::ChargeCreated(currency) => {
                metrics::write(metrics::currency_name(currency), &[(metrics::CHARGES_CREATED, &1)]);
            }
            Self::ChargePaid(money) => metrics::write(
                metrics::currency_name(money.currency),
                &[(metrics::CHARGES_PAID, &1), (metrics::AMOUNT_PAID, &money.decimal())],
            ),
            Self::RefundFailed => metrics::increment(metrics::REFUNDS_FAILED),
            Self::CaseOpened => metrics::increment(metrics::CASES_OPENED),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::Scope;

    use super::*;
    use crate::tests::charges::{paid, waiting};

    fn live(charge: Charge) -> Charge {
        Charge { scope: Scope { mode: Mode::Live, ..charge.scope }, ..charge }
    }

    #[test]
    fn a_live_charge_counts_when_it_is_created_and_when_it_is_paid() {
        let (before, after) = (live(waiting()), live(paid()));
        assert_eq!(Figure::of_charge(None, &before), Some(Figure::ChargeCreated(Currency::BRL)));
        let Some(Figure::ChargePaid(money)) = Figure::of_charge(Some(&before), &after) else { panic!() };
        assert_eq!((money.currency, money.decimal().as_str()), (Currency::BRL, "10.00"));
        assert_eq!(Figure::of_charge(Some(&after), &after), None);
        assert_eq!(Figure::of_charge(None, &waiting()), None, "a charge of a test key");
    }
}
