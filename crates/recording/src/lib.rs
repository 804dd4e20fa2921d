//! Recordings: what the tasks of a real machine did, as a file, and as a workload.
//!
//! `fairground record` writes a file with a [`Writer`]; [`Recording::read`] reads one. [`Recording::load`] makes a [`Load`] of it: a
//! workload of programs, one for each task, that can be run under any scheduler, with what the machine did besides, and the [`Loss`]: how much of it is exact, how
//! much approximated, and how much assumed. [`Recording::play_back`] is the event stream of what was recorded, for metrics.
//! `docs/recordings.md` says how a file is laid out, and how programs are made.

mod error;
mod file;
mod import;
mod lives;
mod load;
mod locks;
mod loss;
mod nesting;
mod numbers;
mod play_back;
mod program;
mod record;
mod rhythm;
mod rt_app;
mod steps;
mod tracing_data;

pub use error::Error;
pub use file::{Ending, Header, Recording, Roots, Source, VERSION, Writer, is_recording};
pub use import::{Imported, import_perf};
pub use lives::KernelWork;
pub use load::{Load, OtherThread, Turn};
pub use loss::{Loss, Sure};
pub use record::{Context, Description, Entry, Kind};
pub use rt_app::rt_app;
