//! Converts this crate's errors to HTTP errors.

use shared::http::Problem;

use crate::{CancelError, CreateChargeError, PaymentListError};

impl From<CreateChargeError> for Problem {
    fn from(error: CreateChargeError) -> Self {
        match error {
            CreateChargeError::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            CreateChargeError::LiveChargesStopped => Self::LiveChargesStopped,
            CreateChargeError::Acquirer(error) => error.into(),
            CreateChargeError::Charge(error) => error.into(),
        }
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Charge(error) => error.into(),
            CancelError::Acquirer(error) => error.into(),
            // The payment is recorded by its notification or by the next sweep, so a retry may succeed.
            CancelError::Payment(error) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PaymentListError> for Problem {
    fn from(error: PaymentListError) -> Self {
        match error {
            PaymentListError::TooManyToSort => Self::field("sortBy", error.to_string()),
            PaymentListError::Page(error) => error.into(),
        }
    }
}
