//! The error type of most functions of this crate: a text for the developer at the terminal. Code does not
//! branch on its content.

use std::fmt::Display;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

pub type Result<T> = std::result::Result<T, Error>;

/// Adds the action that failed to the error of another crate.
pub trait Context<T> {
    /// Returns the error of [`Error::because`].
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: std::error::Error + 'static> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Error::because(&doing.to_string(), &error))
    }
}

impl Error {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Creates an error from the action that failed (`doing`) and the cause. The text includes the cause's
    /// whole chain of sources, because an SDK error alone does not name the reason.
    pub fn because(doing: &str, cause: &(dyn std::error::Error + 'static)) -> Self {
        let mut text = format!("{doing}: {cause}");
        let mut next = cause.source();
        while let Some(deeper) = next {
            text.push_str(": ");
            text.push_str(&deeper.to_string());
            next = deeper.source();
        }
        Self(text)
    }
}
