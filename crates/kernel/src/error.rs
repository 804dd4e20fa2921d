//! Errors, each described once, with the remedy.

use crate::verifier::Rejection;

/// Why something could not be done on this kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller is not root.
    #[error(
        "{action} needs root: sched_ext and the kernel's trace points are closed to other users; try again with sudo"
    )]
    NotRoot {
        /// The intended action, as the beginning of a sentence.
        action: &'static str,
    },
    /// The kernel is older than the oldest supported one.
    #[error(
        "this kernel is {release}, but schedulers need Linux {}.{} or newer with sched_ext: {remedy}; or use `fairground compare`, which needs none",
        crate::host::OLDEST_KERNEL.0, crate::host::OLDEST_KERNEL.1
    )]
    KernelTooOld {
        /// The release, as `uname -r` prints it.
        release: String,
        /// Where another is to be had.
        remedy: String,
    },
    /// The kernel was built without sched_ext.
    #[error(
        "this kernel ({release}) has no sched_ext ({missing} is missing): it is built without CONFIG_SCHED_CLASS_EXT or CONFIG_DEBUG_INFO_BTF, as \
         `zgrep -E 'SCHED_CLASS_EXT|INFO_BTF' /proc/config.gz` or the same in /boot/config-{release} shows; {remedy}; or use `fairground compare`, which needs none"
    )]
    NoSchedExt {
        /// The release, as `uname -r` prints it.
        release: String,
        /// The file that should be there.
        missing: String,
        /// Where another kernel is to be had.
        remedy: String,
    },
    /// Another scheduler is in the kernel.
    #[error(
        "the scheduler `{name}` is loaded already and only one can be; stop its loader first, then try again"
    )]
    AlreadyLoaded {
        /// Its name, or a description if the kernel does not give one.
        name: String,
    },
    /// The user's request makes no sense, for a reason that another part of the program found.
    #[error("{reason}")]
    Usage {
        /// The fault and the remedy.
        reason: String,
    },
    /// The file is not a scheduler that can be loaded.
    #[error("{name}: {reason}")]
    Object {
        /// Name of the scheduler or path of the file.
        name: String,
        /// Its fault and the remedy.
        reason: String,
    },
    /// The verifier did not accept a program of the scheduler.
    #[error("{name}: {rejection}")]
    Rejected {
        /// Name of the scheduler.
        name: String,
        /// The verifier's message.
        rejection: Box<Rejection>,
    },
    /// The kernel rejected the object, for a reason other than the verifier's.
    #[error("{name}: the kernel refused the scheduler: {reason}")]
    Load {
        /// Name of the scheduler.
        name: String,
        /// The messages of libbpf and the kernel.
        reason: String,
    },
    /// The actions of the scheduler's loader could not be carried out.
    #[error("{name}: {reason}")]
    Setup {
        /// Name of the scheduler.
        name: String,
        /// Which action, its place, and why not.
        reason: String,
    },
    /// The kernel does not let its scheduler be recorded.
    #[error("the kernel does not let its scheduler be recorded: {reason}")]
    Record {
        /// The messages of libbpf and the kernel.
        reason: String,
    },
    /// The scheduler was accepted but ended before it ran.
    #[error("{name}: the scheduler ended while it was switched on: {report}")]
    Start {
        /// Name of the scheduler.
        name: String,
        /// The kernel's message.
        report: String,
    },
    /// A workload could not be played to its end.
    #[error("the workload cannot go on: {reason}")]
    Play {
        /// The task and the action that failed.
        reason: String,
    },
    /// The threads of a workload wait for each other.
    #[error("deadlock: {reasons}; with `--duration` the run goes on to its end all the same")]
    Deadlock {
        /// The thing for which each of them waits.
        reasons: String,
    },
    /// A result cannot be written.
    #[error("cannot write {}: {source}; {}", path.display(), fairground_files::remedy(source))]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A system call or file operation failed.
    #[error("{what}: {source}")]
    System {
        /// The attempted action.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// Exit code of the command: 2 if the request cannot be carried out as stated, 1 if it was tried and failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Rejected { .. }
            | Self::Load { .. }
            | Self::Setup { .. }
            | Self::Record { .. }
            | Self::Start { .. }
            | Self::Deadlock { .. }
            | Self::Write { .. }
            | Self::System { .. } => 1,
            _ => 2,
        }
    }

    /// For `map_err`: the operating system's error with the attempted action.
    pub fn system<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System { what, source: source.into() }
    }
}
