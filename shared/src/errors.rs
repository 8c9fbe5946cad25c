//! Converts the errors of all modules to HTTP errors.
//!
//! The modules' own errors do not depend on HTTP. All conversions to [`Problem`] are in this module.

use domain::charge::RefundRefused;
use domain::charge::transition::Rejection;
use domain::med::{CaseRefused, EvidenceRefused};
use domain::money::MoneyError;

use crate::account::password::PasswordError;
use crate::account::{AccountError, UserError};
use crate::acquirer::{AcquirerError, KitError};
use crate::api_key::ApiKeyError;
use crate::auth::dashboard::token::SigningError;
use crate::charge::ChargeError;
use crate::http::{Detail, Problem};
use crate::med::{CaseError, EvidenceError};
use crate::object_store::ObjectStoreError;
use crate::queue::QueueError;
use crate::random::RandomError;
use crate::refund::RefundError;
use crate::services::{CancelError, CreateChargeError, PaymentListError};
use crate::store::{PageError, StoreError};
use crate::wallet::WalletError;
use crate::webhook::WebhookError;

/// Errors that are defects of the service.
macro_rules! internal {
    ($($Error:ty),+) => {$(
        impl From<$Error> for Problem {
            fn from(error: $Error) -> Self {
                Self::Internal(error.to_string())
            }
        }
    )+};
}
internal!(RandomError, PasswordError, SigningError, MoneyError);

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Throttled(_) => Self::Unavailable(error.to_string()),
            StoreError::Corrupt(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<PageError> for Problem {
    fn from(error: PageError) -> Self {
        match error {
            PageError::UnknownCursor(of) => Self::field("starting_after", format!("must be the id of {of}")),
            PageError::Store(error) => error.into(),
        }
    }
}

impl From<ObjectStoreError> for Problem {
    fn from(error: ObjectStoreError) -> Self {
        match error {
            ObjectStoreError::Unavailable(_) => Self::Unavailable(error.to_string()),
            ObjectStoreError::PresigningFailed(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<AcquirerError> for Problem {
    fn from(error: AcquirerError) -> Self {
        match error {
            AcquirerError::NotConfigured
            | AcquirerError::MethodNotConfigured { .. }
            | AcquirerError::NotTaken(_)
            | AcquirerError::MethodUnavailable { .. } => Self::Unprocessable(error.to_string()),
            AcquirerError::Store(error) => error.into(),
            AcquirerError::Kit(KitError::Limited(retry_after)) => Self::Limited(retry_after),
            AcquirerError::Kit(KitError::Invalid(_)) => Self::Internal(error.to_string()),
            AcquirerError::Kit(_) => Self::Unavailable(error.to_string()),
            AcquirerError::Busy => Self::Busy,
        }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::NotFound => Self::NotFound { what: "account" },
            AccountError::Store(error) => error.into(),
            AccountError::FewerShards { .. }
            | AccountError::FeesAboveAmount
            | AccountError::Random(_)
            | AccountError::Audit(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Unavailable(_) => Self::Unavailable(error.to_string()),
            QueueError::Malformed(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<UserError> for Problem {
    fn from(error: UserError) -> Self {
        match error {
            UserError::NotFound | UserError::LinkInvalid => Self::NotFound { what: "user" },
            UserError::EmailTaken | UserError::LastOwner | UserError::TooManyInvites => {
                Self::Unprocessable(format!("{error}."))
            }
            UserError::Store(error) => error.into(),
            UserError::Random(error) => error.into(),
        }
    }
}

impl From<ApiKeyError> for Problem {
    fn from(error: ApiKeyError) -> Self {
        match error {
            ApiKeyError::NotFound => Self::NotFound { what: "API key" },
            ApiKeyError::Suspended => Self::AccountSuspended,
            ApiKeyError::Store(error) => error.into(),
            ApiKeyError::Random(error) => error.into(),
        }
    }
}

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
                    Rejection::Money(error) => StoreError::from(error).into(),
                    Rejection::NotPayableByCard => {
                        Self::Unprocessable(format!("The charge is {status}. It can't be paid by card now."))
                    }
                }
            }
            ChargeError::CustomerVelocityExceeded => Self::CustomerVelocityExceeded,
            ChargeError::AccountVelocityExceeded => Self::AccountVelocityExceeded,
            ChargeError::Store(error) => error.into(),
            ChargeError::Random(error) => error.into(),
        }
    }
}

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

impl From<WalletError> for Problem {
    fn from(error: WalletError) -> Self {
        match error {
            WalletError::Store(error) => error.into(),
            WalletError::Random(error) => error.into(),
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
            RefundError::Random(error) => error.into(),
            RefundError::PayerOnly | RefundError::NoDestination => {
                Self::UnprocessableField { param: "destinationKey", message }
            }
            RefundError::OverThirdPartyLimit { .. } => Self::UnprocessableField { param: "amount", message },
            RefundError::Funds(error) => Self::Internal(error.to_string()),
            RefundError::Wallet(error) => error.into(),
            RefundError::Store(error) => error.into(),
        }
    }
}

impl From<CaseError> for Problem {
    fn from(error: CaseError) -> Self {
        match error {
            CaseError::Refused(CaseRefused::NotSettled(_)) => Self::Unprocessable(error.to_string()),
            // The API answers a case in the wrong state with 400.
            CaseError::NotOpen(_) => Self::Unreadable(error.to_string()),
            CaseError::Refused(CaseRefused::Funds(error)) => Self::Internal(error.to_string()),
            CaseError::Store(error) => error.into(),
            CaseError::Random(error) => error.into(),
        }
    }
}

impl From<EvidenceError> for Problem {
    fn from(error: EvidenceError) -> Self {
        match error {
            EvidenceError::Refused(EvidenceRefused::CaseOver(_)) => Self::Unreadable(error.to_string()),
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
            EvidenceError::Random(error) => error.into(),
        }
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NoEndpoint => Self::NotFound { what: "webhook endpoint" },
            WebhookError::NoDelivery => Self::NotFound { what: "webhook delivery" },
            WebhookError::NoEvent => Self::NotFound { what: "event" },
            WebhookError::TooManyEndpoints
            | WebhookError::EventNotKept
            | WebhookError::EndpointInactive
            | WebhookError::EndpointDeleted => Self::Unprocessable(error.to_string()),
            WebhookError::TooManyTests { limit, retry_after_seconds } => {
                Self::TooManyTests { limit, retry_after_seconds }
            }
            WebhookError::Page(error) => error.into(),
            WebhookError::Payload(_) => Self::Internal(error.to_string()),
            WebhookError::Store(error) => error.into(),
            WebhookError::Random(error) => error.into(),
        }
    }
}
