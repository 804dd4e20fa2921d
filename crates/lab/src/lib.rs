//! Experiments: many simulations, run on all cores and combined into one result.
//!
//! A [`Plan`] has the subjects of a comparison: [`Contender`]s (schedulers with their tunables) under workloads on a machine.
//! [`compare`] runs it. The result does not depend on the number of threads.

mod accompanied;
mod advice;
mod cell;
mod check;
mod compare;
mod contender;
mod cost_file;
mod crash;
mod dice;
mod error;
mod evidence;
mod experiment;
mod explain;
mod hunt;
mod identity;
mod isolation;
mod loader;
mod memory;
mod moments;
mod noise;
mod parallel;
mod plan;
mod recorded;
mod remote;
mod shrink;
mod store;
mod toml_file;

/// A hash of the sources on which the results of a simulation depend.
pub const ENGINE: &str = env!("FAIRGROUND_ENGINE");

pub use accompanied::Accompanied;
pub use advice::{Goal, Question};
pub use cell::{Cell, CellResult, DEFAULT_DURATION, Failure, TraceForm, length_of, run_cells};
pub use check::{Finding, Judged, check};
pub use compare::{Failed, Results, compare};
pub use contender::{Contender, KERNEL};
pub use cost_file::{Measured, cost_file, costs_of, read_cost_model};
pub use error::Error;
pub use experiment::{
    Experiment, Experiments, Histogram, KernelLoad, KernelMachine, KernelOutput, KernelRun,
    Reproduced, Request, fit, reproduce, reproduce_on_kernel,
};
pub use explain::{Search, explain};
pub use fairground_events::Callback;
pub use fairground_simulator::{Examined, Release};
pub use hunt::{Find, GENERATION, Hunt, Hunted, Scenario, Told, hunting_grounds};
pub use identity::of_bytes as hash_of_bytes;
pub use loader::{LOADER, capture_loader};
pub use memory::Allocator;
pub use moments::{moments, record};
pub use noise::Noise;
pub use plan::{Cells, DEFAULT_HZ, Kept, Place, Plan, Settings, Site};
pub use recorded::{Load, Replay, load_recording, read_load, recorded_metrics};
pub use shrink::Shrunk;
pub use toml_file::parse as parse_toml;
