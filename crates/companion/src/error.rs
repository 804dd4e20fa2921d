//! What can be wrong with a companion.

use std::path::PathBuf;

/// Why a companion cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It says something that it cannot.
    #[error("{place}: {message}")]
    Wrong {
        /// `FILE:LINE`, or the option of the command line.
        place: String,
        /// What is wrong, and the way out.
        message: String,
    },
}
