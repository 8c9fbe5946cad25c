//! The one error of this crate: a text for the developer at the terminal. Nobody branches on it.

/// What went wrong on this machine, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// A result whose error is a text for the developer.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Says what was being done when `cause` happened. Takes the causes beneath it along, for SDK errors name
    /// nothing by themselves.
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
