//! Converts this crate's errors to HTTP errors.

use domain::charge::RefundRefused;
use domain::charge::transition::Rejection;
use domain::med::{CaseRefused, EvidenceRefused};
use domain::work::WorkFailure;
use shared::http::{Detail, Problem};
use shared::store::StoreError;

use crate::charge::ChargeError;
use crate::med::{CaseError, EvidenceError};
use crate::refund::RefundError;

impl WorkFailure for ChargeError {}
impl WorkFailure for RefundError {}
impl WorkFailure for CaseError {}

impl From<ChargeError> for Problem {
    fn from(error: ChargeError) -> Self {
        match error {
            ChargeError::Rejected { rejection, status } => {
                let status = status.as_str();
                match rejection {
                    Rejection::NotHeldForReview => Self::Unprocessable(format!(
                        "The charge is {status}. Only a payment held for review can be reviewed."
                    )),
                    Rejection::NotCancellable => Self::PaymentNotCancellable { status },
                    Rejection::BeingPaid => Self::PaymentInProgress,
                    Rejection::AwaitsConfirmation { until } => Self::VoucherAwaitsConfirmation { until },
                    Rejection::Money(error) => StoreError::from(error).into(),
                    Rejection::NotPayableByCard => {
                        Self::Unprocessable(format!("The charge is {status}. It can't be paid by card now."))
                    }
                }
            }
            ChargeError::CustomerVelocityExceeded => Self::CustomerVelocityExceeded,
            ChargeError::AccountVelocityExceeded => Self::AccountVelocityExceeded,
            ChargeError::Store(error) => error.into(),
        }
    }
}

impl From<RefundError> for Problem {
    fn from(error: RefundError) -> Self {
        let message = error.to_string();
        match error {
            RefundError::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            RefundError::Refused { why, status } => match why {
                RefundRefused::NotSettled => Self::PaymentNotRefundable { status: status.as_str() },
                RefundRefused::Disputed => Self::ChargeDisputed { is_over: false },
                RefundRefused::CaseLost => Self::ChargeDisputed { is_over: true },
                RefundRefused::ExceedsRemaining { remaining } => {
                    Self::RefundExceedsRemaining { remaining: remaining.get() }
                }
                RefundRefused::Funds(error) => Self::Internal(error.to_string()),
            },
            RefundError::InsufficientBalance { needed, available, pending } => {
                Self::InsufficientBalance { needed, available, pending }
            }
            RefundError::MethodNotSupported(_) | RefundError::CashoutNotSupported => {
                Self::RefundNotSupported(message)
            }
            RefundError::OnlyForPix(fields) => {
                let detail =
                    |field: &str| Detail::new(field, "applies only to payments by Pix; leave it out");
                Self::Invalid(fields.into_iter().map(detail).collect())
            }
            RefundError::TooOldForDevolution => Self::ReturnWindowOver(message),
            RefundError::PayerOnly | RefundError::NoDestination => {
                Self::UnprocessableField { param: "destinationKey", message }
            }
            RefundError::OverThirdPartyLimit { .. } => Self::UnprocessableField { param: "amount", message },
            RefundError::Funds(error) => Self::Internal(error.to_string()),
            RefundError::Store(error) => error.into(),
        }
    }
}

impl From<CaseError> for Problem {
    fn from(error: CaseError) -> Self {
        match error {
            CaseError::Refused(CaseRefused::NotSettled(_) | CaseRefused::SelfCustody) => {
                Self::Unprocessable(error.to_string())
            }
            // The API answers a case in the wrong state with 400.
            CaseError::NotOpen(_) => Self::Unreadable(error.to_string()),
            CaseError::Refused(CaseRefused::Funds(error)) => Self::Internal(error.to_string()),
            CaseError::Store(error) => error.into(),
        }
    }
}

impl From<EvidenceError> for Problem {
    fn from(error: EvidenceError) -> Self {
        match error {
            EvidenceError::Refused(EvidenceRefused::CaseOver(_) | EvidenceRefused::Sent(_)) => {
                Self::Unreadable(error.to_string())
            }
            EvidenceError::Refused(EvidenceRefused::Full | EvidenceRefused::TooManyUploads) => {
                Self::Unprocessable(error.to_string())
            }
            EvidenceError::InvalidFile { param, message } => Self::field(param, message),
            EvidenceError::NotUploaded => Self::EvidenceNotUploaded,
            EvidenceError::SizeMismatch { declared, stored } => {
                Self::EvidenceSizeMismatch { declared, stored }
            }
            EvidenceError::Files(error) => error.into(),
            EvidenceError::Store(error) => error.into(),
        }
    }
}
