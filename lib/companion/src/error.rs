//! Faults of a companion.

use std::path::PathBuf;

/// Why a companion cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}; {}", path.display(), fairground_files::remedy(cause))]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file says something invalid.
    #[error("{place}: {message}")]
    Wrong {
        /// `FILE:LINE`, or the option of the command line.
        place: String,
        /// The fault and the remedy.
        message: String,
    },
}
