//! Errors of work without an HTTP request: for a queue message, a stream record or a schedule.

use std::error::Error;

use crate::acquirer::OddObject;

/// An error that ends such work.
pub trait WorkFailure: Error + Send + Sync {
    /// The cause is outside the service, such as a bank that does not answer, so one failure needs no operator.
    fn is_outside(&self) -> bool {
        false
    }

    /// The object of an acquirer that can't be used, which must be set aside.
    fn odd(&self) -> Option<&OddObject> {
        None
    }
}

impl WorkFailure for serde_json::Error {}
