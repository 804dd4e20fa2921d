//! A sched_ext kernel in virtual time.
//!
//! [`Scheduler::load`] takes the BPF object that a real kernel would load; [`simulate`] runs a workload under it on any machine and reports
//! the events to event sinks. The modelled kernel is Linux 7.3: which callback is called when and with which flags, what each kernel function
//! does, when a slice ends, how an idle CPU finds work.
//!
//! The engine reads no wall clock, iterates no unordered map and knows no scheduler.

mod account;
mod beside;
mod cids;
mod clock;
pub mod constants;
mod core;
mod cost;
mod deadline_server;
mod deferred;
mod dispatch_queue;
mod dsq_table;
mod dump;
mod elements;
mod exit;
mod ext;
mod groups;
mod handle;
mod hardware;
mod holdings;
mod idle;
mod kernel;
#[cfg(test)]
mod kernels;
mod kfunc;
mod linker;
mod loader;
mod maps;
mod mask;
mod memory;
mod messages;
mod operations;
mod prefixes;
mod preparation;
mod program;
mod reports;
mod restart;
mod rules;
mod scheduler;
mod shortfalls;
mod simulation;
mod strays;
mod structures;
mod surroundings;
mod task;
mod tasks;
mod timers;
mod topology;
mod tracing;

pub use core::check_deadline_tasks;
pub use cost::{CostError, CostModel, CostValue, GIVEN};
pub use exit::ExitRecord;
pub use fairground_contract::exit::ExitKind;
pub use fairground_linux::Release;
pub use restart::Restart;
pub use scheduler::{Examined, LoadError, Scheduler, Store, examine, has_callback};
pub use shortfalls::Shortfall;
pub use simulation::{
    Hotplug, LaterSetup, Options, Outcome, TaskOutcome, simulate, simulate_beside,
};
pub use strays::recover;
pub use surroundings::{Creator, Surroundings, Thread, Turn};
