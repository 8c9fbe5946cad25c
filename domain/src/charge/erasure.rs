//! Erasure of a customer's personal data from a finished charge (LGPD). What identifies the payment stays,
//! because records of payments must be kept: amounts, times, ids, and the payer's document as the bank reported
//! it.

use super::{Charge, Customer, Failure, Metadata, PaymentDetails, transition};
use crate::time::Timestamp;

/// 90 days: so long a bank returns a Pix and the payer's bank can open a MED case, for which the merchant needs
/// the data.
const KEPT_AFTER_PAYMENT_SECONDS: i64 = 90 * 24 * 60 * 60;

/// Why the customer's data of a charge can't be erased now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ErasureRefused {
    /// The charge can still be paid, or waits for a decision.
    #[error("the charge has not ended")]
    Open,
    #[error("a MED case is open")]
    Disputed,
    #[error("a refund is in progress")]
    RefundInProgress,
    #[error("the payment can be refunded or contested until {}", .0.to_iso())]
    Until(Timestamp),
}

impl Charge {
    /// `is_refunding`: a refund of the charge is in progress.
    pub fn check_erasable(&self, is_refunding: bool, now: Timestamp) -> Result<(), ErasureRefused> {
        if self.is_open() || self.is_held_for_review() {
            return Err(ErasureRefused::Open);
        }
        // After a lost case, the charge stays disputed.
        if self.has_open_case() {
            return Err(ErasureRefused::Disputed);
        }
        if is_refunding {
            return Err(ErasureRefused::RefundInProgress);
        }
        let paid_at = self.applied_payment.as_ref().map(|applied| applied.paid_at);
        let until = paid_at.map(|at| at.saturating_plus_seconds(KEPT_AFTER_PAYMENT_SECONDS));
        match until.filter(|until| now <= *until) {
            Some(until) => Err(ErasureRefused::Until(until)),
            None => Ok(()),
        }
    }

    /// The next version without the customer's data, payer lock, metadata, the merchant's id of its user, and the
    /// acquirer's text of a failure.
    /// `None`: it has none.
    pub fn erased(&self, now: Timestamp) -> Option<Self> {
        let erased = Self {
            customer: Customer::default(),
            expected_payer: None,
            metadata: Metadata::default(),
            payment_details: self.payment_details.as_ref().map(PaymentDetails::erased),
            failure: self.failure.as_ref().map(Failure::erased),
            artefacts: self.artefacts.clone().erased(),
            ..self.clone()
        };
        (erased != *self).then(|| transition::next_version(erased, now))
    }
}

impl PaymentDetails {
    pub(crate) fn erased(&self) -> Self {
        Self { customer_id: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::testing::{at, waiting};
    use crate::charge::{AppliedPayment, FailureReason, StoredCharge, TransactionStatus};
    use crate::ids::EndToEndId;
    use crate::payment_method::PaymentMethod;

    const DAY: i64 = 24 * 60 * 60;

    fn with_customer() -> Charge {
        let customer = Customer {
            name: Some("Maria Souza".to_owned()),
            email: Some("maria@example.com".to_owned()),
            phone: Some("+5581999990000".to_owned()),
            ..Customer::default()
        };
        let details = PaymentDetails { customer_id: Some("user-7".to_owned()), webhook_url: None };
        Charge {
            status: TransactionStatus::Expired,
            version: 2,
            customer,
            expected_payer: Some("29537995593".parse().unwrap()),
            metadata: Metadata::default().with_text("order", "Maria's"),
            payment_details: Some(details),
            failure: Some(Failure {
                reason: FailureReason::InWords { text: "Maria's card".to_owned(), code: "no".to_owned() },
                ttl_seconds: None,
                at: at(3600),
            }),
            past: Some(waiting().as_past()),
            updated_at: at(3600),
            ..waiting()
        }
    }

    #[test]
    fn an_erased_charge_has_no_data_of_the_customer_and_keeps_the_rest() {
        let charge = with_customer();
        let erased = charge.erased(at(7200)).unwrap();
        assert_eq!((erased.version, erased.payer()), (3, None));
        let row = serde_json::to_string(&erased).unwrap();
        for personal in ["Maria", "maria", "5581", "29537995593", "user-7"] {
            assert!(!row.contains(personal), "{row}");
        }
        assert_eq!(erased.status_changes(), charge.status_changes(), "ids of events do not change");
        assert_eq!(
            (erased.amount, erased.request_hash.clone()),
            (charge.amount, charge.request_hash.clone())
        );
        assert_eq!(erased.erased(at(7200)), None, "a second erasure changes nothing");
        let read = StoredCharge::written(erased.clone()).read_at(at(9000));
        assert_eq!(read, erased);
    }

    #[test]
    fn only_a_finished_charge_is_erasable_and_a_paid_one_after_90_days() {
        let charge = with_customer();
        assert_eq!(charge.check_erasable(false, at(3601)), Ok(()));
        assert_eq!(charge.check_erasable(true, at(3601)), Err(ErasureRefused::RefundInProgress));
        for status in [TransactionStatus::Pending, TransactionStatus::WaitingPayment] {
            let open = Charge { status, ..charge.clone() };
            assert_eq!(open.check_erasable(false, at(3601)), Err(ErasureRefused::Open));
        }
        let id: EndToEndId = "E12345678202611251200abcdefghijk".parse().unwrap();
        let applied = AppliedPayment {
            payment_id: id.into(),
            method: PaymentMethod::Pix,
            paid_at: at(60),
            payer_document: None,
        };
        let paid =
            Charge { status: TransactionStatus::Paid, applied_payment: Some(applied), ..charge.clone() };
        let held = Charge { status: TransactionStatus::Processing, ..paid.clone() };
        assert_eq!(held.check_erasable(false, at(100 * DAY)), Err(ErasureRefused::Open));
        let until = at(60 + 90 * DAY);
        assert_eq!(paid.check_erasable(false, until), Err(ErasureRefused::Until(until)));
        assert_eq!(paid.check_erasable(false, at(61 + 90 * DAY)), Ok(()));
    }
}
