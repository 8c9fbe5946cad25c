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
    use domain::ids::Scope;

    use super::*;
    use crate::tests::charges::{paid, waiting};
    use crate::tests::{case, refund};

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

    #[test]
    fn a_live_refund_counts_when_it_fails_and_a_live_case_when_it_opens() {
        let scope = live(paid()).scope;
        let failed = |refund: Refund| Refund { status: RefundStatus::Failed, ..refund };
        let (test, requested) = (refund().refund, Refund { scope, ..refund().refund });
        let (of, at_end) = (Figure::of_refund, failed(requested.clone()));
        assert_eq!(of(Some(&requested), &at_end), Some(Figure::RefundFailed));
        assert_eq!((of(None, &requested), of(Some(&at_end), &at_end)), (None, None));
        assert_eq!(of(Some(&test), &failed(test.clone())), None, "a refund of a test key");

        let (test, opened) = (case().case, MedCase { scope, ..case().case });
        assert_eq!(Figure::of_case(None, &opened), Some(Figure::CaseOpened));
        assert_eq!(Figure::of_case(Some(&opened), &opened), None);
        assert_eq!(Figure::of_case(None, &test), None, "a case of a test key");
    }
}
