//! Companion files: the actions of a scheduler's loader, as data.
//!
//! Most sched_ext schedulers have two halves. The BPF half is the object; the other is a loader that sets `ops` fields and global variables,
//! sizes and fills maps, and runs programs, partly depending on the machine. A [`Companion`] expresses this in TOML,
//! with expressions over the machine, and becomes a [`Setup`](fairground_bpf::Setup) for one object on one machine.

mod bounds;
mod builtin;
mod encode;
mod error;
mod file;
mod fit;
mod prepare;
mod scope;

pub use bounds::{SECONDS, bound, takes_too_long};
pub use error::Error;
pub use file::Companion;
pub use prepare::{Prepared, Setting, names};
