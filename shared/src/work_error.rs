//! The error of work without an HTTP request.

use domain::acquirer::OddObject;
use domain::work::WorkFailure;
use tracing::Level;

use crate::object_store::ObjectStoreError;
use crate::queue::{MessageFailure, QueueError};
use crate::random::RandomError;
use crate::store::StoreError;

pub type WorkResult<T> = Result<T, WorkError>;

/// Why the work for a queue message, a stream record or a schedule failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("{0}")]
    Missing(&'static str),
    /// Another worker holds the lease. The message must be read again when the lease ends.
    #[error("another worker holds the lease")]
    Leased,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Failed(Box<dyn WorkFailure>),
}

impl WorkFailure for QueueError {}
impl WorkFailure for ObjectStoreError {}
impl WorkFailure for RandomError {}

impl<E: WorkFailure + 'static> From<E> for WorkError {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl WorkError {
    /// The object of an acquirer that must be set aside.
    pub fn odd(&self) -> Option<&OddObject> {
        if let Self::Failed(error) = self { error.odd() } else { None }
    }
}

impl MessageFailure for WorkError {
    fn level(&self) -> Level {
        match self {
            Self::Leased => Level::INFO,
            Self::Failed(error) if error.is_outside() => Level::WARN,
            Self::Missing(_) | Self::Store(_) | Self::Failed(_) => Level::ERROR,
        }
    }
}
