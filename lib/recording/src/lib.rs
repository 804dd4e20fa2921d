//! Recordings: the activities of a real machine's tasks, as a file and as a workload.
//!
//! `fairground record` writes a file with a [`Writer`]; [`Recording::read`] reads one. [`Recording::load`] turns it into a [`Load`]: a
//! workload with one program per task, which can be run under any scheduler; the other tasks of the machine; and the [`Loss`], which says how
//! much of it is exact, approximated and assumed. [`Recording::play_back`] replays it as an event stream, for metrics. [`Chance`] varies a load as it might have been
//! recorded another time. `docs/recordings.md`
//! describes the file format and how programs are made.

mod chance;
mod dump;
mod error;
mod file;
mod ftrace;
mod groups;
mod import;
mod interrupts;
mod lives;
mod load;
mod locks;
mod loss;
mod names;
mod nesting;
mod numbers;
mod pipe;
mod play_back;
mod program;
mod record;
mod rhythm;
mod rt_app;
mod steps;
mod tracing_data;

pub use chance::Chance;
pub use dump::{Dump, DumpedTask, is_dump};
pub use error::Error;
pub use file::{Ending, Header, Recording, Roots, Source, VERSION, Writer, is_recording};
pub use ftrace::{import_ftrace, is_ftrace};
pub use import::{Imported, PERF, RECOGNISED_BY, import_perf};
pub use lives::{Gaps, KernelWork, Turn};
pub use load::{Load, OtherThread};
pub use loss::{Loss, Sure, counted};
pub use record::{Context, Description, Entry, EntryKind, GroupDescription};
pub use rt_app::rt_app;
