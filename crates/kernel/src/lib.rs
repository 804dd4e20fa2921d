//! Schedulers and workloads on the kernel of this machine.
//!
//! [`loader`] puts a sched_ext scheduler, ours or a user's, into the running kernel, watches it and takes it out again.
//! Nothing stays behind: the kernel holds the scheduler through a link that ends with this process, however it ends.

pub mod error;
pub mod exit;
pub mod host;
pub mod libbpf_messages;
pub mod loader;
pub mod statistics;
pub mod supervise;
pub mod variables;
pub mod verifier;

pub use error::Error;
