//! Converts this crate's errors to HTTP errors. The errors themselves do not depend on HTTP. Each crate above has
//! such a module for its own.

use domain::money::MoneyError;

use crate::account::password::PasswordError;
use crate::account::{AccountError, UserError};
use crate::api_key::ApiKeyError;
use crate::auth::dashboard::token::SigningError;
use crate::http::Problem;
use crate::object_store::ObjectStoreError;
use crate::queue::QueueError;
use crate::random::RandomError;
use crate::store::{PageError, StoreError};

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
            StoreError::Corrupt(_) | StoreError::Random(_) => Self::Internal(error.to_string()),
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

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::NotFound => Self::NotFound { what: "account" },
            AccountError::Store(error) => error.into(),
            AccountError::FewerShards { .. } | AccountError::FeesAboveAmount | AccountError::Audit(_) => {
                Self::Internal(error.to_string())
            }
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
        }
    }
}

impl From<ApiKeyError> for Problem {
    fn from(error: ApiKeyError) -> Self {
        match error {
            ApiKeyError::NotFound => Self::NotFound { what: "API key" },
            ApiKeyError::Suspended => Self::AccountSuspended,
            ApiKeyError::Store(error) => error.into(),
        }
    }
}
