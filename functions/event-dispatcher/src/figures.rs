//! Business figures for the metrics, from the changes of live charges, refunds and MED cases. A repeated stream
//! record counts twice, so the figures are for dashboards. The ledger and the rollups are exact.

use domain::charge::Charge;
use domain::ids::Mode;
use domain::med::MedCase;
use domain::money::{Currency, Money};
use domain::refund::{Refund, RefundStatus};
use shared::metrics;

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
    use super::*;
    use crate::tests::charges::{paid, waiting};
    use crate::tests::{case, refund};

    #[test]
    fn what_happens_in_test_mode_counts_in_no_figure() {
        assert_eq!(Figure::of_charge(None, &waiting()), None);
        assert_eq!(Figure::of_charge(Some(&waiting()), &paid()), None);
        let requested = refund().refund;
        let failed = Refund { status: RefundStatus::Failed, ..requested.clone() };
        assert_eq!(Figure::of_refund(Some(&requested), &failed), None);
        assert_eq!(Figure::of_case(None, &case().case), None);
    }
}
