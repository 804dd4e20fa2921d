//! Schedulers and workloads on the kernel of this machine.
//!
//! [`loader`] puts a sched_ext scheduler, ours or a user's, into the running kernel, watches it and removes it again. Nothing remains: the
//! kernel holds the scheduler through a link that ends with this process, however it ends.
//!
//! [`calibrate`] measures the costs of scheduling on this machine. [`recorder`] turns the kernel's treatment of chosen tasks into the event
//! stream, and [`play`] runs a workload with real threads, under whichever scheduler is in charge. [`capture`] records the activities of all tasks of this
//! machine, for a file.

pub mod attributes;
pub mod calibrate;
pub mod capture;
pub mod clock;
pub mod error;
pub mod exit;
pub mod guard;
pub mod host;
pub mod in_charge;
pub mod libbpf_messages;
pub mod loader;
pub mod play;
mod quotas;
pub mod recorder;
mod rings;
pub mod scheduling;
mod setup;
pub mod statistics;
pub mod supervise;
pub mod task_statistics;
pub mod verifier;

pub use error::Error;
