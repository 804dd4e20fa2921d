//! How far the simulator is from what a kernel did: the same workloads in both worlds, and replays of recordings.

mod foresight;
mod recording;
mod table;
mod worlds;

pub use foresight::{Foresight, Prediction, Span, foresee};
pub use recording::{Player, Recording, TaskTime};
pub use worlds::{Agreement, Both, Costs, Disorder, Key, Pair, TaskPair, confront};
