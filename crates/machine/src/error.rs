//! The error of a description that is not a machine.

use std::fmt;

/// Why a description is not a machine.
///
/// It is displayed as `machine <description>: <message>`; the message names the offending word or place, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The description as given.
    pub description: String,
    /// The fault, its place, and words that work there.
    pub message: String,
}

impl Error {
    pub(crate) fn new(description: &str, message: impl Into<String>) -> Self {
        Self { description: description.into(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine `{}`: {}", self.description, self.message)
    }
}

impl std::error::Error for Error {}
