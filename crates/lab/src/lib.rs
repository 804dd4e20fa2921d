//! Experiments: many simulations, run on all cores, put together in one result.
//!
//! A [`Plan`] says what is compared: [`Contender`]s (schedulers with their tunables) under workloads on a machine.
//! [`compare`] runs it. The result does not depend on the number of threads.

mod compare;
mod contender;
mod cost_file;
mod crash;
mod error;
mod parallel;
mod plan;
mod worlds;
mod worlds_recording;
mod worlds_table;

pub use compare::{Failure, Results, compare};
pub use contender::Contender;
pub use cost_file::read_cost_model;
pub use error::Error;
pub use fairground_simulator::Surroundings;
pub use plan::{DEFAULT_DURATION, Plan};
pub use worlds::{Agreement, Both, Disorder, Key, Pair, TaskPair, confront};
pub use worlds_recording::{CreatorRecord, OthersRecord, Player, Recording, TaskTime};
