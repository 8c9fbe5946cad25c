//! The errors of the API by status and code.

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ErrorCode {
    pub status: u16,
    pub code: &'static str,
}

const fn error(status: u16, code: &'static str) -> ErrorCode {
    ErrorCode { status, code }
}

pub(super) const INVALID_REQUEST: ErrorCode = error(400, "invalid_request");
pub(super) const INVALID_AMOUNT: ErrorCode = error(400, "invalid_amount");
pub(super) const UNAUTHORIZED: ErrorCode = error(401, "unauthorized");
pub(super) const TOTP_REQUIRED: ErrorCode = error(401, "totp_required");
pub(super) const TOTP_ENROLMENT: ErrorCode = error(403, "totp_enrolment_required");
pub(super) const ROLE_REQUIRED: ErrorCode = error(403, "API_KEY_ROLE_REQUIRED");
pub(super) const ACCOUNT_SUSPENDED: ErrorCode = error(403, "account_suspended");
pub(super) const CUSTOMER_VELOCITY: ErrorCode = error(403, "fraud.customer_velocity_exceeded");
pub(super) const ACCOUNT_VELOCITY: ErrorCode = error(403, "fraud.account_velocity_exceeded");
pub(super) const LIVE_KEY: ErrorCode = error(403, "live_key_not_allowed");
pub(super) const NOT_FOUND: ErrorCode = error(404, "not_found");
pub(super) const KEY_REUSED: ErrorCode = error(409, "idempotency_key_reused");
pub(super) const NOT_UPLOADED: ErrorCode = error(409, "EVIDENCE_NOT_UPLOADED");
pub(super) const SIZE_MISMATCH: ErrorCode = error(409, "EVIDENCE_SIZE_MISMATCH");
pub(super) const UNPROCESSABLE: ErrorCode = error(422, "unprocessable_entity");
pub(super) const NOT_CANCELLABLE: ErrorCode = error(422, "payment_not_cancellable");
pub(super) const NOT_REFUNDABLE: ErrorCode = error(422, "payment_not_refundable");
pub(super) const DISPUTED: ErrorCode = error(422, "charge_disputed");
pub(super) const EXCEEDS_REMAINING: ErrorCode = error(422, "refund_exceeds_remaining");
pub(super) const INSUFFICIENT_BALANCE: ErrorCode = error(422, "insufficient_balance");
pub(super) const REFUND_NOT_SUPPORTED: ErrorCode = error(422, "REFUND_NOT_SUPPORTED");
pub(super) const RATE_LIMITED: ErrorCode = error(429, "rate_limited");
pub(super) const INTERNAL: ErrorCode = error(500, "internal_error");
pub(super) const UNAVAILABLE: ErrorCode = error(503, "service_unavailable");

/// The error of a request that did not pass the CDN in front of the API. No operation lists it, because it
/// arises only at hosts that are not the API's public host.
pub const CDN_REQUIRED: ErrorCode = error(403, "cdn_required");

/// The `type` of the errors with a status.
pub(super) fn kind(status: u16) -> &'static str {
    match status {
        400 | 422 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        429 => "rate_limit_error",
        _ => "api_error",
    }
}

pub(super) fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid: fix the field, parameter or header that the error names.",
        401 => "The credential is missing or not valid.",
        403 => "The credential is valid but does not permit this request.",
        404 => "There is no such object in this account and mode.",
        409 => "The request conflicts with an earlier one.",
        422 => "A rule of the business or of the account forbids the request.",
        429 => "Too many requests. Wait for `Retry-After` seconds.",
        500 => "A defect of the service. Retry with the same idempotency key.",
        _ => {
            "A dependency did not answer. Wait for `Retry-After` seconds, then retry with the same idempotency key."
        }
    }
}
