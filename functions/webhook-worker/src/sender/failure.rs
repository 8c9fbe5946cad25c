//! Reasons why a post failed.

use std::error::Error;

use acquirer_http::{ResolveFailure, causes, connection_failure};
use domain::webhook::failure::AttemptFailure;

/// Returns the failure that corresponds to the first recognised cause of an error.
pub(super) fn failure_of(error: &(dyn Error + 'static)) -> AttemptFailure {
    let refused = causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(ResolveFailure::Refused(address)) => Some(AttemptFailure::Address(*address)),
        Some(ResolveFailure::NameNotFound) | None => None,
    });
    refused.unwrap_or_else(|| connection_failure(error).into())
}
