//! Faults of a scheduler, its manifest or a value for one of its tunables.

use std::path::PathBuf;

/// One failure, with its place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable compiler.
    #[error(
        "no clang found (tried {tried}): schedulers are compiled to BPF by clang 19 or newer; \
         install it (Debian: apt install clang-19) or name it in the environment variable CLANG"
    )]
    NoClang {
        /// The commands tried, as one text.
        tried: String,
    },

    /// The compiler cannot produce the code that schedulers need.
    #[error(
        "{command} is clang {version}: schedulers need clang 19 or newer; \
         name a newer one in the environment variable CLANG"
    )]
    OldClang {
        /// The command asked.
        command: String,
        /// Its major version.
        version: u32,
    },

    /// clang rejected the source.
    #[error("{} does not compile to BPF; clang says:\n{diagnostics}", source_file.display())]
    DoesNotCompile {
        /// The C file.
        source_file: PathBuf,
        /// clang's output, and a remedy if the output suggests one.
        diagnostics: String,
    },

    /// Objects do not fit together.
    #[error("cannot link the sources to one object: {message}")]
    Link {
        /// The message of libbpf's linker.
        message: String,
    },

    /// A file could not be read or written.
    #[error("cannot {action} {}: {cause}; {}", path.display(), fairground_files::remedy(cause))]
    File {
        /// The attempted action: `read`, `write`, `run`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },

    /// There is no room for the temporary files of a compilation.
    #[error("cannot make a temporary folder: {cause}; set TMPDIR to a folder that you may write")]
    Scratch {
        /// The system's message.
        cause: std::io::Error,
    },

    /// A manifest is invalid.
    #[error("{place}: {message}")]
    Manifest {
        /// `file:line:column`.
        place: String,
        /// The fault and the expected text.
        message: String,
    },

    /// No scheduler has this id.
    #[error("there is no scheduler {id:?}{hint}; `fairground list` shows them all")]
    UnknownScheduler {
        /// The id that was asked for.
        id: String,
        /// Empty, or `, did you mean …?`.
        hint: String,
    },

    /// The scheduler has no such tunable.
    #[error("scheduler {scheduler} has no tunable {tunable:?}{hint}")]
    UnknownTunable {
        /// The scheduler's id.
        scheduler: String,
        /// The tunable that was asked for.
        tunable: String,
        /// Empty, or the existing tunables.
        hint: String,
    },

    /// A value does not fit its tunable.
    #[error("{tunable}: {message}")]
    Value {
        /// The tunable's name.
        tunable: String,
        /// The fault of the value, and the possible values.
        message: String,
    },

    /// A compiled object is not a sched_ext scheduler that can be read.
    #[error("{}: {message}", path.display())]
    Object {
        /// The source or the object.
        path: PathBuf,
        /// The fault.
        message: String,
    },
}
