//! All errors that HTTP requests can have, and their wire format.
//!
//! The list is closed: a new variant of [`Problem`] compiles only with a status, a type, a code and a
//! message. Internal texts, such as a database error, are logged here and never sent.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use domain::time::Timestamp;

use super::context::{RATE_LIMIT, RATE_LIMIT_REMAINING, RequestId};
use super::origin::Origin;
use crate::random;

/// The most failing fields in a response. Without this limit, a request with thousands of failing fields
/// could cause a response that is too large for Lambda to return.
pub(super) const MAX_DETAILS: usize = 100;

/// The longest `Retry-After` of a 503, in seconds.
const MAX_RETRY_AFTER_SECONDS: u64 = 3;

/// The `Retry-After` while new live charges are stopped, in seconds.
const STOPPED_RETRY_AFTER_SECONDS: u64 = 60;

/// One failing field of a request.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "ErrorDetail")]
pub struct Detail {
    /// The field's path, such as `customer.document`, or the name of a query parameter or header.
    pub param: String,
    /// A sentence that names the field, the rule and, where it is not obvious, the way out.
    pub message: String,
}

impl Detail {
    /// Creates the detail of a failing field. `rule` is the message without its subject and full stop, such
    /// as `must be an integer`.
    pub fn new(param: impl Into<String>, rule: &str) -> Self {
        let param = param.into();
        let message = format!("`{param}` {rule}.");
        Self { param, message }
    }
}

const UNAVAILABLE: &str = "A dependency did not answer in time, or too many requests changed the same object at once. Retry with backoff and the same idempotency key.";

const CASE_OPEN: &str =
    "A MED case on this payment is still open. Refund the payment after the case is closed.";

const CASE_LOST: &str = "A MED case on this payment was lost, so the payment can no longer be refunded.";

fn of_details(details: &[Detail]) -> String {
    match details {
        [only] => only.message.clone(),
        many if many.len() >= MAX_DETAILS => {
            format!("{MAX_DETAILS} fields or more are not valid; `details` lists the first {MAX_DETAILS}.")
        }
        many => format!("{} fields are not valid; `details` lists each.", many.len()),
    }
}

/// An error of an HTTP request. Its text is `error.message`: for people, without internal details.
#[derive(Clone, Debug, strum::EnumCount, strum::EnumDiscriminants, thiserror::Error)]
#[strum_discriminants(name(ProblemKind))]
pub enum Problem {
    /// 400 `invalid_request`: the fields that failed validation, at least one and at most 100.
    #[error("{}", of_details(.0))]
    Invalid(Vec<Detail>),
    /// 400 `invalid_amount`: like [`Problem::Invalid`], and the amount is one of the failing fields.
    #[error("{}", of_details(.0))]
    InvalidAmount(Vec<Detail>),
    /// 400 `invalid_request`: a failure that concerns no single field. The body is too large or is not a JSON
    /// object, or a MED case is in the wrong state.
    #[error("{0}")]
    Unreadable(String),
    /// 401 `unauthorized`: the API key is missing or not valid.
    #[error("The `apikey` header is missing or its key is not valid. Send the key exactly as it was issued.")]
    Unauthorized,
    /// 401 `unauthorized`: the dashboard token is missing or not valid.
    #[error(
        "The dashboard token is missing, expired or logged out. Send `Authorization: Bearer` with a token from POST /v1/auth/login."
    )]
    NotLoggedIn,
    /// 401 `unauthorized`: no user has this e-mail address, or the password or the code is wrong.
    #[error("The e-mail address, the password or the code is wrong, or the code was used before.")]
    WrongCredentials,
    /// 401 `totp_required`: the password is right, and the user has turned on the second factor.
    #[error(
        "The user has a second factor. Send the code of the authenticator app, or a recovery code, as `totp`."
    )]
    SecondFactorRequired,
    /// 401 `log_in_again`: a form of the dashboard needs a password or code of the last ten minutes.
    #[error("The password or a code of the last ten minutes is needed. Confirm it at /dashboard/confirm.")]
    LogInAgain {
        /// The page of the form.
        back: String,
        /// By a code of the second factor, instead of the password.
        by_code: bool,
    },
    /// 403 `totp_enrolment_required`: the account demands a second factor that the user has not turned on.
    #[error("The account demands a second factor. Turn it on at /dashboard/security first.")]
    SecondFactorDemanded,
    /// 401 `unauthorized`: a bank's notification could not be authenticated.
    #[error(
        "The notification could not be authenticated. Check the registered URL, the client certificate and the source address, and for a MED notice its `X-Signature`."
    )]
    UnknownSender,
    /// 403 `API_KEY_ROLE_REQUIRED`: the user is neither an OWNER nor an ADMIN, so they may not manage API
    /// keys.
    #[error("Only an OWNER or ADMIN of the account can issue, rotate or revoke API keys.")]
    ApiKeyRoleRequired,
    /// 403 `account_suspended`: an operator suspended the account.
    #[error(
        "The account is suspended, so its API keys are refused. Payments, refunds and webhooks in progress go on. Ask your operator to resume the account."
    )]
    AccountSuspended,
    /// 403 `fraud.customer_velocity_exceeded`: too many charges of one customer in live mode.
    #[error(
        "This customer has too many charges created within ten minutes. Expired and cancelled charges do not count. Retry later."
    )]
    CustomerVelocityExceeded,
    /// 403 `fraud.account_velocity_exceeded`: too many charges of the account in live mode.
    #[error(
        "The account created too many charges within this minute. Expired and cancelled charges do not count. Retry later."
    )]
    AccountVelocityExceeded,
    /// 403 `live_key_not_allowed`: a live key was sent to a sandbox route, whose caller acts as the acquirer, or to
    /// another route for tests.
    #[error("This route is for test keys alone, such as to simulate the acquirer. Use an ak_test_ key.")]
    LiveKeyNotAllowed,
    /// 403 `cdn_required`: the request did not pass the CDN in front of the API.
    #[error("This host is not open to clients. Send requests to the public host of the API.")]
    CdnBypassed,
    /// 403 `cross_site_request`: a form of the dashboard was not sent by a page of this origin.
    #[error("The form was not sent by a page of this host. Open the dashboard and send it there.")]
    CrossSiteRequest,
    /// 403 `role_required`: the user's role may not do this.
    #[error("Only a user with the role {role} or a higher one can do this.")]
    RoleRequired {
        /// The least role that may.
        role: &'static str,
    },
    /// 404 `not_found`: no such resource in the caller's account and mode.
    #[error("There is no such {what} in this account and mode (test or live). Check the id and the key.")]
    NotFound {
        /// The kind of resource, such as `charge` or `webhook endpoint`.
        what: &'static str,
    },
    /// 404 `not_found`: no route has this method and path.
    #[error("There is no route {method} {path}. Check the method and the path.")]
    NoSuchRoute { method: String, path: String },
    /// 409 `idempotency_key_reused`: the key was used with another body.
    #[error("This idempotency key was used with a different body. Use a new key for a new request.")]
    IdempotencyKeyReused,
    /// 409 `recovery_in_progress`: another recovery of the webhook endpoint runs.
    #[error("A recovery of this endpoint runs. Wait until it ends, or cancel it.")]
    RecoveryInProgress,
    /// 409 `mode_changed`: a form of the dashboard was drawn for the other mode.
    #[error("The page was shown in the other mode (test or live). Open it again and repeat.")]
    ModeChanged,
    /// 409 `EVIDENCE_NOT_UPLOADED`: the file was not uploaded, or its upload URL has expired.
    #[error(
        "The file was not uploaded before its `upload_url` expired. Request a new URL and upload the file again."
    )]
    EvidenceNotUploaded,
    /// 409 `EVIDENCE_SIZE_MISMATCH`: the size of the uploaded file differs from the declared size.
    #[error(
        "The uploaded file has {stored} bytes, but `file_size` declared {declared}. Request a new URL with the right size."
    )]
    EvidenceSizeMismatch {
        /// The declared `file_size`, in bytes.
        declared: u32,
        /// The size of the uploaded file, in bytes.
        stored: u64,
    },
    /// 422 `unprocessable_entity`: the request is valid, but a business rule or a missing configuration
    /// forbids it.
    #[error("{0}")]
    Unprocessable(String),
    /// 422 `unprocessable_entity`: a business rule forbids the value of one field.
    #[error("{message}")]
    UnprocessableField {
        param: &'static str,
        /// The rule, and the way out.
        message: String,
    },
    /// 422 `endpoint_inactive`: nothing can be sent to an endpoint that is not `ACTIVE`.
    #[error("The webhook endpoint is INACTIVE. Set its status to ACTIVE first.")]
    EndpointInactive,
    /// 422 `payment_not_cancellable`: the payment is settled or ended. A settled payment can be refunded
    /// instead.
    #[error(
        "The payment is {status}. Only an unpaid payment can be cancelled; refund a settled one instead."
    )]
    PaymentNotCancellable {
        /// The payment's status in the transaction vocabulary.
        status: &'static str,
    },
    /// 422 `payment_not_cancellable`: the payer has paid, and the acquirer processes the payment.
    #[error(
        "The payer is paying at this moment, so the payment can't be cancelled. Wait for the webhook: if it is APPROVED, refund it; if it is WAITING_PAYMENT again, cancel it."
    )]
    PaymentInProgress,
    /// 422 `payment_not_cancellable`: the payer may have paid a boleto or Multibanco, and the bank confirms it later.
    #[error(
        "The boleto or Multibanco may have been paid, and its confirmation takes until {until} at most, so the payment can't be cancelled now. Wait for the webhook: the payment becomes PAID, or EXPIRED."
    )]
    VoucherAwaitsConfirmation { until: Timestamp },
    /// 422 `payment_not_refundable`: only a settled payment that is not fully refunded can be refunded.
    #[error("The payment is {status}. Only a PAID or APPROVED payment can be refunded.")]
    PaymentNotRefundable {
        /// The payment's status in the transaction vocabulary.
        status: &'static str,
    },
    /// 422 `payment_not_refundable`: the bank no longer returns the payment.
    #[error("{0}")]
    ReturnWindowOver(String),
    /// 422 `charge_disputed`: a MED case on the payment is open or was lost, so the payment can't be
    /// refunded.
    #[error("{}", if *is_over { CASE_LOST } else { CASE_OPEN })]
    ChargeDisputed {
        /// `false`: a case is open. `true`: all cases are over and one was lost.
        is_over: bool,
    },
    /// 422 `refund_exceeds_remaining`: the amount exceeds the part of the payment that can still be refunded.
    #[error(
        "At most {remaining} (minor units) can still be refunded; refunds in progress are already deducted."
    )]
    RefundExceedsRemaining {
        /// The part that can still be refunded, in minor units. Completed refunds and those in progress are
        /// deducted.
        remaining: i64,
    },
    /// 422 `insufficient_balance`: the wallet's available and pending money is less than the refund's debit.
    #[error(
        "The refund takes {needed} (minor units) from the wallet, which has {available} available and {pending} pending of other charges. Refund less, or wait for further payments."
    )]
    InsufficientBalance {
        /// The amount that the refund debits, in minor units.
        needed: i64,
        /// The available balance, in minor units; it may be negative.
        available: i64,
        /// The pending money of other charges, in minor units.
        pending: i64,
    },
    /// 422 `REFUND_NOT_SUPPORTED`: the acquirer does not support refunds, or not this kind of refund.
    #[error("{0}")]
    RefundNotSupported(String),
    /// 429 `rate_limited`: the API key or the dashboard user exceeded its limit of requests a minute, or a
    /// charge its limit of simulations.
    #[error("Too many requests in this minute. Retry in {retry_after_seconds} seconds.")]
    RateLimited {
        /// The seconds until the next minute begins.
        retry_after_seconds: i64,
    },
    /// 429 `rate_limited`: too many test deliveries to one webhook endpoint.
    #[error(
        "At most {limit} tests of a webhook endpoint can be sent in a minute. Retry in {retry_after_seconds} seconds."
    )]
    TooManyTests {
        /// The most tests in a minute.
        limit: i64,
        /// The seconds until the next minute begins.
        retry_after_seconds: i64,
    },
    /// 429 `rate_limited`: too many failed log-ins.
    #[error("Too many failed log-ins. Retry in {retry_after_seconds} seconds.")]
    TooManyLogins {
        /// The most failures in a window of 15 minutes.
        limit: i64,
        /// The seconds until the window ends.
        retry_after_seconds: i64,
    },
    /// 429 `rate_limited`: too many reports of the account and mode.
    #[error("An account can have {limit} reports made {period}. Retry in {retry_after_seconds} seconds.")]
    TooManyReports {
        /// The most reports.
        limit: i64,
        /// In which time, or `at once`.
        period: &'static str,
        retry_after_seconds: i64,
    },
    /// 503 `service_unavailable`: an operator stopped new live charges.
    #[error(
        "The operator stopped new live charges for a time. Existing charges are not affected. Retry after the seconds in `Retry-After`, with the same idempotency key."
    )]
    LiveChargesStopped,
    /// 503 `service_unavailable`: a dependency did not answer, or an update conflicted too often. The text is
    /// only logged.
    #[error("{UNAVAILABLE}")]
    Unavailable(String),
    /// 503 `service_unavailable`: the acquirer limits requests for this time.
    #[error("{UNAVAILABLE}")]
    Limited(Duration),
    /// 503 `service_unavailable`: another request works on the same object. Nothing is wrong, so no error is logged.
    #[error("{UNAVAILABLE}")]
    Busy,
    /// 500 `internal_error`: a defect of the service. The text is only logged.
    #[error("An internal error occurred. Retrying with the same idempotency key is safe.")]
    Internal(String),
}

/// The HTTP status of an error, and `error.code`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ErrorCode {
    pub status: StatusCode,
    /// Clients distinguish errors by it. It never changes.
    pub code: &'static str,
}

impl ErrorCode {
    /// `error.type`: one of seven types, which follows from the status.
    pub fn kind(self) -> &'static str {
        match self.status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => "invalid_request_error",
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::CONFLICT => "conflict_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            _ => "api_error",
        }
    }
}

impl ProblemKind {
    pub const fn error_code(self) -> ErrorCode {
        const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
        let (status, code) = match self {
            Self::Invalid | Self::Unreadable => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::InvalidAmount => (StatusCode::BAD_REQUEST, "invalid_amount"),
            Self::Unauthorized | Self::NotLoggedIn | Self::WrongCredentials | Self::UnknownSender => {
                (StatusCode::UNAUTHORIZED, "unauthorized")
            }
            Self::SecondFactorRequired => (StatusCode::UNAUTHORIZED, "totp_required"),
            Self::LogInAgain => (StatusCode::UNAUTHORIZED, "log_in_again"),
            Self::SecondFactorDemanded => (StatusCode::FORBIDDEN, "totp_enrolment_required"),
            Self::ApiKeyRoleRequired => (StatusCode::FORBIDDEN, "API_KEY_ROLE_REQUIRED"),
            Self::AccountSuspended => (StatusCode::FORBIDDEN, "account_suspended"),
            Self::CustomerVelocityExceeded => (StatusCode::FORBIDDEN, "fraud.customer_velocity_exceeded"),
            Self::AccountVelocityExceeded => (StatusCode::FORBIDDEN, "fraud.account_velocity_exceeded"),
            Self::LiveKeyNotAllowed => (StatusCode::FORBIDDEN, "live_key_not_allowed"),
            Self::CdnBypassed => (StatusCode::FORBIDDEN, "cdn_required"),
            Self::CrossSiteRequest => (StatusCode::FORBIDDEN, "cross_site_request"),
            Self::RoleRequired => (StatusCode::FORBIDDEN, "role_required"),
            Self::NotFound | Self::NoSuchRoute => (StatusCode::NOT_FOUND, "not_found"),
            Self::IdempotencyKeyReused => (StatusCode::CONFLICT, "idempotency_key_reused"),
            Self::RecoveryInProgress => (StatusCode::CONFLICT, "recovery_in_progress"),
            Self::ModeChanged => (StatusCode::CONFLICT, "mode_changed"),
            Self::EvidenceNotUploaded => (StatusCode::CONFLICT, "EVIDENCE_NOT_UPLOADED"),
            Self::EvidenceSizeMismatch => (StatusCode::CONFLICT, "EVIDENCE_SIZE_MISMATCH"),
            Self::Unprocessable | Self::UnprocessableField => (REFUSED, "unprocessable_entity"),
            Self::EndpointInactive => (REFUSED, "endpoint_inactive"),
            Self::PaymentNotCancellable | Self::PaymentInProgress | Self::VoucherAwaitsConfirmation => {
                (REFUSED, "payment_not_cancellable")
            }
            Self::PaymentNotRefundable | Self::ReturnWindowOver => (REFUSED, "payment_not_refundable"),
            Self::ChargeDisputed => (REFUSED, "charge_disputed"),
            Self::RefundExceedsRemaining => (REFUSED, "refund_exceeds_remaining"),
            Self::InsufficientBalance => (REFUSED, "insufficient_balance"),
            Self::RefundNotSupported => (REFUSED, "REFUND_NOT_SUPPORTED"),
            Self::RateLimited | Self::TooManyTests | Self::TooManyLogins | Self::TooManyReports => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited")
            }
            Self::LiveChargesStopped | Self::Unavailable | Self::Limited | Self::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "service_unavailable")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        };
        ErrorCode { status, code }
    }
}

impl Problem {
    /// Creates the error of a single failing field.
    pub fn field(param: impl Into<String>, rule: impl AsRef<str>) -> Self {
        Self::Invalid(vec![Detail::new(param, rule.as_ref())])
    }

    pub fn error_code(&self) -> ErrorCode {
        ProblemKind::from(self).error_code()
    }

    pub fn status(&self) -> StatusCode {
        self.error_code().status
    }

    /// `error.type`.
    pub fn kind(&self) -> &'static str {
        self.error_code().kind()
    }

    /// `error.code`.
    pub fn code(&self) -> &'static str {
        self.error_code().code
    }

    fn details(&self) -> Option<&[Detail]> {
        match self {
            Self::Invalid(details) | Self::InvalidAmount(details) => Some(details),
            _ => None,
        }
    }

    pub fn params(&self) -> Vec<&str> {
        match self {
            Self::UnprocessableField { param, .. } => vec![param],
            _ => self.details().unwrap_or_default().iter().map(|detail| detail.param.as_str()).collect(),
        }
    }

    /// `error.param`: the field that failed, if it is only one.
    pub fn param(&self) -> Option<&str> {
        if let [only] = *self.params() { Some(only) } else { None }
    }

    /// Logs the cause of a 500 or 503, which no response contains.
    pub fn log(&self) {
        match self {
            Self::Unavailable(cause) => tracing::error!(cause, "a dependency failed"),
            Self::Limited(retry_after) => tracing::warn!(?retry_after, "an acquirer limits requests"),
            Self::Internal(cause) => tracing::error!(cause, "internal error"),
            _ => {}
        }
    }

    /// Builds the response, and logs its cause.
    pub(super) fn respond(&self, request_id: &RequestId, origin: &Origin) -> Response {
        self.log();
        let (details, param) = (self.details(), self.param());
        let doc_url = origin.doc_url(self.code());
        let body = ErrorBody {
            error: Error {
                kind: self.kind(),
                code: self.code(),
                message: self.to_string(),
                param,
                details,
                doc_url,
            },
            request_id: request_id.as_str(),
        };
        let mut response = (self.status(), axum::Json(body)).into_response();
        let headers = response.headers_mut();
        match self {
            // The middleware sets the rate-limit headers, with the limit of the API key or user.
            Self::RateLimited { retry_after_seconds }
            | Self::TooManyTests { retry_after_seconds, .. }
            | Self::TooManyReports { retry_after_seconds, .. } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
            }
            Self::LiveChargesStopped => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(STOPPED_RETRY_AFTER_SECONDS));
            }
            Self::Limited(retry_after) => {
                let seconds = retry_after.saturating_add(Duration::from_millis(999)).as_secs();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            // A random delay, so that clients whose changes of one row conflicted do not retry at the same
            // time.
            Self::Unavailable(_) | Self::Busy => {
                let seconds = random::below(MAX_RETRY_AFTER_SECONDS).saturating_add(1);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            Self::TooManyLogins { limit, retry_after_seconds } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
                // Every 429 has these headers. The middleware sets them only for authenticated requests.
                headers.insert(RATE_LIMIT, HeaderValue::from(*limit));
                headers.insert(RATE_LIMIT_REMAINING, HeaderValue::from(0));
            }
            _ => {}
        }
        response
    }
}

/// Returns a preliminary response with the error as an extension. The middleware replaces it by the final
/// response, which contains the request's id. The handler does not know this id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The body of every response with an error status.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Error")]
pub struct ErrorBody<'a> {
    /// The error.
    error: Error<'a>,
    /// The id of the request, as in the header `X-Request-Id`.
    request_id: &'a str,
}

/// An error.
#[serde_with::skip_serializing_none]
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "ErrorObject")]
struct Error<'a> {
    /// The type of the error.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = [
        "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
        "conflict_error", "rate_limit_error", "api_error",
    ]))]
    kind: &'static str,
    /// The code of the error. It never changes, so clients can branch on it.
    code: &'static str,
    /// The cause and the way out, for people. It may change.
    message: String,
    /// The field that failed. Present if the error concerns one field.
    #[schemars(with = "&str")]
    param: Option<&'a str>,
    /// Each failing field. Present if the validation failed.
    #[schemars(with = "&[Detail]", length(min = 1, max = MAX_DETAILS))]
    details: Option<&'a [Detail]>,
    /// The part of the guide that explains the code. Absent if the request reached no function of the API.
    #[schemars(with = "String", extend("format" = "uri"))]
    doc_url: Option<String>,
}
