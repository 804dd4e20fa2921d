//! Why a loader cannot be captured.

use std::path::PathBuf;

/// Why a loader cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error("there is no program {program}; give the path of a scheduler's loader")]
    NoLoader {
        /// As given.
        program: String,
    },
    /// The program carries no scheduler.
    #[error("{} carries no BPF object with a sched_ext_ops table; name the one that it loads: `fairground capture --object FILE.bpf.o -- LOADER`", path.display())]
    NoObject {
        /// The program.
        path: PathBuf,
    },
    /// The object cannot be read.
    #[error("{}: {message}", path.display())]
    Object {
        /// The object, or the program that carries it.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// A system operation failed.
    #[error("cannot {action}: {cause}; {}", fairground_files::remedy(cause))]
    System {
        /// The attempted action.
        action: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// The loader did not attach a scheduler.
    #[error("the loader did not attach a scheduler: {how}{}{}", way_out(ran), after(output))]
    NotAttached {
        /// How it ended.
        how: String,
        /// The last scheduler program that it ran, which was not executed.
        ran: Option<String>,
        /// The loader's output.
        output: String,
    },
}

impl Error {
    /// Exit code of the command: 2 if there is no loader to run, 1 if it ran and failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoLoader { .. } | Self::NoObject { .. } | Self::Object { .. } => 2,
            Self::System { .. } | Self::NotAttached { .. } => 1,
        }
    }
}

/// The way out for a loader that may have needed the result of a program.
fn way_out(ran: &Option<String>) -> String {
    ran.as_ref().map_or_else(String::new, |program| {
        format!(
            " after it ran {program}, but a capture executes no programs; if the loader needs their results, run it beside a simulation: \
             compare -s 'exec:LOADER'"
        )
    })
}

/// The important part of a loader's output. Often the cause comes first and a trace of its calls after it, or the other way round.
fn after(output: &str) -> String {
    const FIRST: usize = 5;
    const LAST: usize = 10;
    let mut lines: Vec<&str> = output.lines().collect();
    if lines.len() > FIRST + LAST {
        lines.splice(FIRST..lines.len() - LAST, ["[...]"]);
    }
    match &lines[..] {
        [] => "; it printed nothing".to_owned(),
        lines => format!("; its output:\n{}", lines.join("\n")),
    }
}

/// Adds the action that failed to a system error.
pub(crate) fn system<T>(action: &str, result: std::io::Result<T>) -> Result<T, Error> {
    result.map_err(|cause| Error::System { action: action.to_owned(), cause })
}
