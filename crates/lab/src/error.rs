//! Errors that prevent or end an experiment.

use std::path::PathBuf;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A scheduler cannot be found, compiled or set up.
    #[error(transparent)]
    Catalog(#[from] fairground_catalog::Error),

    /// A companion cannot be used.
    #[error(transparent)]
    Companion(#[from] fairground_companion::Error),

    /// A loader cannot be captured.
    #[error("{command}: {reason}")]
    Capture {
        /// The loader as it was named.
        command: String,
        /// Why.
        reason: fairground_capture::Error,
    },

    /// A loader does not attach a scheduler to the simulated kernel.
    #[error("{command}: its loader does not get as far as attaching it: {message}")]
    NotFollowed {
        /// The loader as it was named.
        command: String,
        /// Why.
        message: String,
    },

    /// The simulated kernel refuses a scheduler.
    #[error("{scheduler}: {reason}")]
    Load {
        /// The scheduler as it was named.
        scheduler: String,
        /// The thing that it lacks.
        reason: fairground_simulator::LoadError,
    },

    /// The request makes no sense; the message names one that does.
    #[error("{0}")]
    Plan(String),

    /// A cost model file cannot be used.
    #[error("{place}: {message}")]
    CostModel {
        /// The file, with line and column if known.
        place: String,
        /// The fault.
        message: String,
    },

    /// A file of an experiment cannot be used.
    #[error("{place}: {message}")]
    Experiment {
        /// The file, with line and column if known.
        place: String,
        /// The fault.
        message: String,
    },

    /// A workload's file cannot be used.
    #[error(transparent)]
    Workload(#[from] fairground_workload::Error),

    /// A recording cannot be used.
    #[error(transparent)]
    Recorded(#[from] fairground_recording::Error),

    /// A file with measures of a kernel cannot be used.
    #[error("{}: {message}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// The fault.
        message: String,
    },

    /// A signal came before there was a result.
    #[error("stopped by {0}; the kernel's own scheduler is in charge")]
    Stopped(String),

    /// Runs on a kernel, of any kind, could not be made.
    #[error("{0}")]
    System(String),

    /// Results of a former command cannot be read.
    #[error("cannot read {}: {cause}; {}", path.display(), fairground_files::remedy(cause))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },

    /// A result cannot be written.
    #[error("cannot write {}: {cause}; {}", path.display(), fairground_files::remedy(cause))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },
}

impl Error {
    /// There is no experiment of this name among `names`.
    pub(crate) fn no_such_experiment(name: &str, names: &[String]) -> Self {
        let near = names
            .iter()
            .map(|one| (strsim::jaro_winkler(name, one), one))
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|one, two| one.0.total_cmp(&two.0));
        let hint = match near {
            Some((_, near)) => format!("did you mean {near}?"),
            None => "`fairground reproduce --list` names them all".to_owned(),
        };
        Self::Plan(format!(
            "there is no experiment {name}, and no folder of this name with an experiment.toml; {hint}"
        ))
    }

    /// Whether it concerns one scheduler that is there but is none, and not its name or things that are missing on this machine.
    pub(crate) fn is_of_the_scheduler(&self) -> bool {
        use fairground_catalog::Error as Catalog;
        matches!(
            self,
            Error::Load { .. }
                | Error::Catalog(
                    Catalog::DoesNotCompile { .. } | Catalog::Link { .. } | Catalog::Object { .. }
                )
        )
    }

    /// Exit code of the command: 2 if the input cannot be used, 1 if something else failed, such as writing the results.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Write { .. } | Error::Stopped(_) | Error::System(_) => 1,
            Error::Capture { reason, .. } => reason.exit_code(),
            _ => 2,
        }
    }
}
