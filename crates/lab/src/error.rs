//! What makes an experiment unusable, or ends it.

use std::path::PathBuf;

/// Why an experiment cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A scheduler cannot be found, compiled or set up.
    #[error(transparent)]
    Catalog(#[from] fairground_catalog::Error),

    /// The simulated kernel refuses a scheduler.
    #[error("{scheduler}: {reason}")]
    Load {
        /// The scheduler as it was named.
        scheduler: String,
        /// What it lacks.
        reason: fairground_simulator::LoadError,
    },

    /// What was asked for makes no sense; the message says what does.
    #[error("{0}")]
    Plan(String),

    /// A cost model file cannot be used.
    #[error("{place}: {message}")]
    CostModel {
        /// The file, with line and column where there are any.
        place: String,
        /// What is wrong.
        message: String,
    },

    /// A workload's file cannot be used.
    #[error(transparent)]
    Workload(#[from] fairground_workload::Error),

    /// What was measured on a kernel cannot be used.
    #[error("{}: {message}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },

    /// A result cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
}

impl Error {
    /// Whether the input was usable and only writing the results failed.
    pub fn is_output(&self) -> bool {
        matches!(self, Error::Write { .. })
    }
}
