//! Converts this crate's errors to HTTP errors.

use shared::http::Problem;

use crate::CreateChargeError;

impl From<CreateChargeError> for Problem {
    fn from(error: CreateChargeError) -> Self {
        match error {
            CreateChargeError::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            CreateChargeError::LiveChargesStopped => Self::LiveChargesStopped,
            CreateChargeError::Acquirer(error) => error.into(),
            CreateChargeError::Charge(error) => error.into(),
            CreateChargeError::Link(no_place) => {
                Self::Unprocessable(format!("No charge was made: {no_place}."))
            }
        }
    }
}
