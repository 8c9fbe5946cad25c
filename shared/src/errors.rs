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

/// Errors that the client can't help: its request may succeed later, or it met a defect of the service.
macro_rules! failures {
    ($($Error:ident { $($variant:pat => $Problem:ident,)+ })+) => {$(
        impl From<$Error> for Problem {
            fn from(error: $Error) -> Self {
                match error { $($variant => Self::$Problem(error.to_string()),)+ }
            }
        }
    )+};
}
failures! {
    StoreError {
        StoreError::Unavailable(_) | StoreError::Throttled(_) => Unavailable,
        StoreError::Corrupt(_) | StoreError::Random(_) => Internal,
    }
    ObjectStoreError {
        ObjectStoreError::Unavailable(_) => Unavailable,
        ObjectStoreError::PresigningFailed(_) => Internal,
    }
    QueueError { QueueError::Unavailable(_) => Unavailable, QueueError::Malformed(_) => Internal, }
    RandomError { _ => Internal, }
    PasswordError { _ => Internal, }
    SigningError { _ => Internal, }
    MoneyError { _ => Internal, }
}

impl From<PageError> for Problem {
    fn from(error: PageError) -> Self {
        match error {
            PageError::UnknownCursor(of) => Self::field("starting_after", format!("must be the id of {of}")),
            PageError::Store(error) => error.into(),
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
